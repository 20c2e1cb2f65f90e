"""A replay that keeps its pages in a folder: after a kill at any moment it continues after the last whole commit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mmsb
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import generated_history
import kept_state
import kill_replay
import replay_git
from kept_state import KeptState, StateError

COMMITS = 320
SHORT = 56
SEED = 11
KILLS = 8

Contents = dict[bytes, tuple[bytes, bytes, int, int]]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history") / "generated.git"
    generated_history.generate(folder, COMMITS, SEED)
    return folder


def contents(context: mmsb.Context) -> Contents:
    """All properties of the pages that are files, by path."""
    pages = [page for page in context.pages() if page.id != kept_state.POSITION_PAGE]
    found = {page.metadata["path"]: (page.read(), page.metadata["mode"], page.epoch, page.version) for page in pages}
    assert len(found) == len(pages)
    return found


def after_commits(repository: replay_git.Repository, commits: list[bytes]) -> Contents:
    """The same for a replay that keeps no state and is not killed."""
    with mmsb.Context() as context:
        replay_git.replay_all(replay_git.Replay(repository, context), commits)
        return contents(context)


def go_on(repository: replay_git.Repository, state: Path, commits: list[bytes]) -> tuple[Contents, list[str]]:
    """Replays the commits that a state lacks; returns its pages and its events."""
    told: list[str] = []
    with mmsb.Context() as context, KeptState(state, context, told.append) as kept:
        replay_git.replay_all(replay_git.Replay(repository, context), commits, kept)
        return contents(context), told


def test_a_replay_that_is_killed_again_and_again_gives_what_git_has(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kill_replay.main([str(history), "--kills", str(KILLS), "--seed", str(SEED)]) == 0
    report = capsys.readouterr().out
    assert f"kills survived {KILLS}: " in report
    assert f"{COMMITS}; " in report
    assert "every one the same byte for byte" in report


@pytest.mark.parametrize("step", ["_destroy", "_resize", "_create", "_apply", "_describe"])
def test_half_a_commit_is_undone(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Copies of the folder as a kill would leave it, after each step of the last commits."""
    images: list[tuple[Path, int]] = []
    with replay_git.Repository(history) as repository, mmsb.Context() as context:
        commits = repository.commits()[:SHORT]
        with KeptState(tmp_path / "state", context) as kept:
            plain: Callable[..., None] = getattr(replay_git.Replay, step)

            def step_and_copy(replay: replay_git.Replay, *arguments: object) -> None:
                plain(replay, *arguments)
                if replay.context is context and replay.tally["commits"] > SHORT - 4:
                    kept.journal.sync()
                    images.append((tmp_path / f"image-{len(images)}", replay.tally["commits"] - 1))
                    shutil.copytree(kept.folder, images[-1][0])

            monkeypatch.setattr(replay_git.Replay, step, step_and_copy)
            replay_git.replay_all(replay_git.Replay(repository, context), commits, kept)
        monkeypatch.undo()
        assert len(images) >= 4
        expected = after_commits(repository, commits)
        assert contents(context) == expected
        for image, whole in images[:: max(1, len(images) // 6)]:
            with mmsb.Context() as again:
                told: list[str] = []
                KeptState(image, again, told.append).close()
                assert told[-1] == f"restored {whole} half"
                assert contents(again) == after_commits(repository, commits[:whole])
            pages, told = go_on(repository, image, commits)
            assert told[0] == f"restored {whole} whole"
            assert pages == expected


class KilledError(Exception):
    """Stands for a kill within this process."""


def kill(*_: object) -> None:
    raise KilledError


def test_a_snapshot_that_a_kill_prevented_follows_the_next_commit(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = kept_state.COMMITS_PER_SNAPSHOT
    with replay_git.Repository(history) as repository:
        commits = repository.commits()[:SHORT]
        go_on(repository, tmp_path, commits[: every - 1])
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(KeptState, "save", kill)
            go_on(repository, tmp_path, commits)
        pages, told = go_on(repository, tmp_path, commits)
        assert pages == after_commits(repository, commits)
    assert [line.split()[:2] for line in told[:3]] == [["restored", f"{every}"], ["acknowledged", f"{every + 1}"], ["saving"]]


def half_a_commit(repository: replay_git.Repository, state: Path, commits: list[bytes]) -> None:
    """A state in which the last commit has begun and changes a file."""
    with mmsb.Context() as context, KeptState(state, context) as kept:
        replay = replay_git.Replay(repository, context)
        replay_git.replay_all(replay, commits[:-1], kept)
        kept.begin(len(commits))
        next(iter(replay.pages.values())).write(0, b"half a commit")


def test_a_kill_while_half_a_commit_is_undone(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    with replay_git.Repository(history) as repository:
        commits = repository.commits()[:SHORT]
        half_a_commit(repository, state, commits)
        for method in ("save", "_begin_journal", "_open_journal"):
            with monkeypatch.context() as patch, mmsb.Context() as context:
                patch.setattr(KeptState, method, kill)
                with pytest.raises(KilledError):
                    KeptState(state, context)
        # A folder with only a lock is not a journal.
        begun = state / f"state-{kept_state.numbered(state, '.mmsb')[-1]:08}.journal"
        begun.mkdir()
        (begun / "journal.lock").touch()
        pages, told = go_on(repository, state, commits)
        assert f"restored {SHORT - 1} whole" in told  # it was undone and saved before the second kill
        assert pages == after_commits(repository, commits)
        assert [path.name for path in state.glob("*.journal")] == [
            f"state-{kept_state.numbered(state, '.journal')[0]:08}.journal"
        ]


def test_a_state_without_its_journal_loses_no_more_than_the_journal_had(history: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with replay_git.Repository(history) as repository:
        commits = repository.commits()[:SHORT]
        go_on(repository, state, commits)
        shutil.rmtree(next(state.glob("*.journal")))
        pages, told = go_on(repository, state, commits)
        assert "restored 50 whole" in told
        assert pages == after_commits(repository, commits)


def test_a_chain_of_snapshots_has_an_end(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_state, "LONGEST_CHAIN", 4)
    with replay_git.Repository(history) as repository:
        commits = repository.commits()
        _, told = go_on(repository, tmp_path, commits)
    saved = [line.split()[1] for line in told if line.startswith("saved")]
    assert len(saved) == 1 + COMMITS // kept_state.COMMITS_PER_SNAPSHOT
    assert [i for i, kind in enumerate(saved) if kind == "whole"] == [0, 4]
    left = sorted(tmp_path.glob("state-*.mmsb"))
    assert len(left) == len(saved) - 4 == 3
    with mmsb.Snapshot(left[-1]) as snapshot:
        assert snapshot.chain == len(left)
        position = snapshot[kept_state.POSITION_PAGE].metadata["done"]
    last_saved = COMMITS - COMMITS % kept_state.COMMITS_PER_SNAPSHOT
    assert position == b"%d %s" % (last_saved, commits[last_saved - 1])


def test_the_state_follows_a_history_that_grows(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with replay_git.Repository(history) as repository:
        names = [name.decode() for name in repository.commits()]
    state = str(tmp_path / "state")
    for newest in (names[30], names[30], names[70]):
        assert replay_git.main([str(history), "--state", state, "--commit", newest]) == 0
        assert "every one the same byte for byte" in capsys.readouterr().out
    # A state that is ahead, and one of another history.
    assert replay_git.main([str(history), "--state", state, "--commit", names[60]]) == 2
    generated_history.generate(tmp_path / "other.git", 100, SEED + 1)
    assert replay_git.main([str(tmp_path / "other.git"), "--state", state]) == 2
    errors = capsys.readouterr().err
    assert errors.count(f"commit 71 is {names[70]}, but another one in ") == 2
    assert replay_git.main([str(history), "--state", state, "--commit", names[71]]) == 0


def test_one_folder_has_one_replay_at_a_time(tmp_path: Path) -> None:
    with mmsb.Context() as first, mmsb.Context() as second:
        with KeptState(tmp_path, first), pytest.raises(StateError, match="another replay uses it"):
            KeptState(tmp_path, second)
        KeptState(tmp_path, second).close()


def test_a_lost_commit_is_noticed(tmp_path: Path) -> None:
    runs = kill_replay.Runs(tmp_path, tmp_path, "HEAD")
    runs.hear("began")
    runs.hear("acknowledged 7 70 4096")
    runs.hear("restored 8 half")
    for line in ("restored 7 whole", "restored 10 whole", "began"):
        with pytest.raises(kill_replay.LostError):
            runs.hear(line)
    runs.hear("restored 9 whole")
    assert runs.tally["restored"] == 2
    assert runs.tally["half commits"] == 1


def test_a_mistake_makes_the_loop_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_over = replay_git.Replay.take_over

    def take_over_and_spoil(replay: replay_git.Replay, position: mmsb.Page) -> None:
        take_over(replay, position)
        path, page = next(iter(replay.pages.items()))
        page.apply(mmsb.Delta.runs([(0, page.read(0, 1))]))
        print(f"spoilt: {path!r}")

    monkeypatch.setattr(replay_git.Replay, "take_over", take_over_and_spoil)
    generated_history.generate(tmp_path / "short.git", SHORT, SEED)
    assert kill_replay.main([str(tmp_path / "short.git"), "--kills", "1", "--seed", str(SEED)]) == 1
    report = capsys.readouterr().out
    assert "1 differences" in report
    spoilt = report.splitlines()[0].removeprefix("spoilt: ")
    assert f"DIFFERS  {spoilt}: epoch " in report


def test_a_snapshot_that_is_damaged_ends_the_replay(history: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with replay_git.Repository(history) as repository:
        go_on(repository, state, repository.commits()[:SHORT])
    newest = sorted(state.glob("*.mmsb"))[-1]
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    program = [sys.executable, replay_git.__file__, str(history), "--state", str(state)]
    result = subprocess.run(program, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 1
    assert newest.name in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_history_that_ends_too_soon_is_begun_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generated_history.generate(tmp_path / "short.git", 3, SEED)
    assert kill_replay.main([str(tmp_path / "short.git"), "--kills", "4", "--seed", str(SEED)]) == 0
    assert "kills survived 4: " in capsys.readouterr().out
