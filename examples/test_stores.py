"""The programs that are built on a store: the replay of a history, and the document store."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import mmsb
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import document_store
import generated_history
import replay_git
from document_store import Documents
from stored_state import StoredState

COMMITS = 200


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history") / "generated.git"
    generated_history.generate(folder, COMMITS, 11)
    return folder


def test_a_replay_goes_on_in_its_store(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with replay_git.Repository(history) as repository:
        names = [name.decode() for name in repository.commits()]
    arguments = [str(history), "--store", str(tmp_path / "store")]
    for newest, commits in ((names[60], 61), (names[60], 0), ("HEAD", COMMITS - 61)):
        assert replay_git.main([*arguments, "--commit", newest]) == 0
        assert f"commits        {commits}," in capsys.readouterr().out
    assert replay_git.main([*arguments, "--commit", names[60]]) == 2  # the store is ahead
    with pytest.raises(SystemExit):
        replay_git.main([*arguments, "--state", str(tmp_path / "state")])


def test_a_commit_that_fails_is_not_there(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = replay_git.Replay.commit

    def fail_at_last(replay: replay_git.Replay, changes: list[replay_git.Change]) -> None:
        commit(replay, changes)
        if replay.tally["commits"] == 50:
            raise mmsb.MMSBError("the test's")

    with monkeypatch.context() as patch:
        patch.setattr(replay_git.Replay, "commit", fail_at_last)
        assert replay_git.main([str(history), "--store", str(tmp_path)]) == 1
    with replay_git.Repository(history) as repository, mmsb.open(tmp_path, "read") as store:
        done, name = StoredState(store).commits()
        assert (done, name) == (49, repository.commits()[48])
        assert replay_git.main([str(history), "--store", str(tmp_path), "--commit", name.decode()]) == 0


def test_a_killed_replay_goes_on(history: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    program = [sys.executable, replay_git.__file__, str(history), "--store", str(store)]
    killed = 0
    for turn in range(10):
        with subprocess.Popen(program, stdout=subprocess.DEVNULL) as child:
            while child.poll() is None and not any(store.glob("*.mmsbj")):
                time.sleep(0.001)
            time.sleep(0.02 * turn)
            child.kill()
        killed += child.returncode == -signal.SIGKILL
    assert killed > 0
    assert replay_git.main([str(history), "--store", str(store)]) == 0


def test_documents_change_together_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document_store.main(str(tmp_path))
    told = capsys.readouterr().out
    assert "nothing has changed" in told
    assert "now:    {'alice': {'balance': 70}, 'bob': {'balance': 30}}" in told
    assert "before: {'alice': {'balance': 100}, 'bob': {'balance': 0}}" in told
    documents = Documents(str(tmp_path))
    with documents.store:
        documents.update(alice=None, bob=[1, "é" * 5000])
        with pytest.raises(TypeError):
            documents.update(bob=None, dave={"a": object()})
        with pytest.raises(KeyError):
            documents["alice"]
        assert (list(documents), len(documents), documents["bob"][0]) == (["bob"], 1, 1)
    with Documents(str(tmp_path)).store as store:
        assert len(store) == 1
