"""The replay of a generated history, and its check, which must name each planted mistake."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mmsb
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import generated_history
import replay_git
from kept_state import KeptState

COMMITS = 520
SEED = 7


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history") / "generated.git"
    generated_history.generate(folder, COMMITS, SEED)
    return folder


@pytest.fixture
def replay(history: Path) -> Iterator[replay_git.Replay]:
    with replay_git.Repository(history) as repository, mmsb.Context() as context:
        replay = replay_git.Replay(repository, context)
        replay_git.replay_all(replay, repository.commits())
        yield replay


def head(replay: replay_git.Replay) -> bytes:
    return replay.repository.commits()[-1]


def test_every_page_matches_the_newest_commit(replay: replay_git.Replay) -> None:
    files, found = replay_git.differences(replay, head(replay))
    assert found == []
    assert files == len(replay.context) > 100


def test_every_commit_is_at_most_one_batch(replay: replay_git.Replay) -> None:
    assert replay.tally["commits"] == COMMITS
    assert 0 < replay.tally["batches"] <= COMMITS
    assert replay.tally["deltas"] == sum(replay.epochs.values()) > replay.tally["batches"]


def test_the_history_holds_every_kind_of_change(replay: replay_git.Replay) -> None:
    kinds = [
        *("renames", "links", "submodules", "type changes", "mode changes", "empty files", "binary files"),
        *("files that grew from nothing", "names that are not UTF-8", "created", "resized", "destroyed", "deltas"),
    ]
    assert [kind for kind in kinds if replay.tally[kind] == 0] == []
    assert replay.repository.merges(head(replay)) > 0


def test_a_renamed_file_keeps_its_page(replay: replay_git.Replay) -> None:
    repository = replay.repository
    commits = repository.commits()
    kept = empty = 0
    with mmsb.Context() as context:
        again = replay_git.Replay(repository, context)
        for changes in repository.changes(commits):
            before = {path: page.id for path, page in again.pages.items()}
            again.commit(changes)
            for change in changes:
                if change.status != "R":
                    continue
                if change.old_path in before:
                    assert again.pages[change.new_path].id == before[change.old_path]
                    kept += 1
                else:
                    empty += 1
    assert kept > 0
    assert kept + empty == replay.tally["renames"]


def flip_one_byte(replay: replay_git.Replay) -> str:
    path, page = max(replay.pages.items(), key=lambda item: item[1].size)
    position = page.size // 2
    page.write(position, bytes([page.read(position, 1)[0] ^ 1]))
    return f"{path!r}: byte {position} is"


def cut_off_the_end(replay: replay_git.Replay) -> str:
    path, page = max(replay.pages.items(), key=lambda item: item[1].size)
    page.resize(page.size - 1)
    return f"{path!r}: {page.size} bytes, git has"


def lose_a_page(replay: replay_git.Replay) -> str:
    path, page = next(iter(replay.pages.items()))
    page.destroy()
    return f"{path!r}: no page"


def make_one_page_too_many(replay: replay_git.Replay) -> str:
    page = replay.context.create_page(10)
    page.metadata["path"] = b"nowhere"
    return "b'nowhere': a page, but no file"


def give_two_pages_one_path(replay: replay_git.Replay) -> str:
    path, page = next(iter(replay.pages.items()))
    replay.context.create_page(page.size).metadata["path"] = path
    return f"{path!r}: two pages"


def forget_a_mode(replay: replay_git.Replay) -> str:
    path, page = next(iter(replay.pages.items()))
    page.metadata["mode"] = b"000000"
    return f"{path!r}: mode b'000000'"


def apply_a_delta_too_many(replay: replay_git.Replay) -> str:
    path, page = next(iter(replay.pages.items()))
    replay.context.apply_many([(page, mmsb.Delta.runs([(0, page.read(0, 1))]))])
    return f"{path!r}: epoch"


@pytest.mark.parametrize(
    "plant",
    [
        flip_one_byte,
        cut_off_the_end,
        lose_a_page,
        make_one_page_too_many,
        give_two_pages_one_path,
        forget_a_mode,
        apply_a_delta_too_many,
    ],
)
def test_the_check_finds_a_planted_mistake(replay: replay_git.Replay, plant: Callable[[replay_git.Replay], str]) -> None:
    expected = plant(replay)
    _, found = replay_git.differences(replay, head(replay))
    assert any(line.startswith(expected) for line in found), (expected, found)


def test_a_mistake_makes_the_program_fail(
    history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replay_all = replay_git.replay_all

    def replay_and_spoil(replay: replay_git.Replay, commits: list[bytes], kept: KeptState | None) -> None:
        replay_all(replay, commits, kept)
        flip_one_byte(replay)

    assert replay_git.main([str(history)]) == 0
    assert "every one the same byte for byte" in capsys.readouterr().out
    monkeypatch.setattr(replay_git, "replay_all", replay_and_spoil)
    assert replay_git.main([str(history)]) == 1
    assert "1 differences" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_history(tmp_path: Path, history: Path) -> None:
    def newest(folder: Path) -> bytes:
        with replay_git.Repository(folder) as repository:
            return repository.commits()[-1]

    generated_history.generate(tmp_path / "again.git", COMMITS, SEED)
    generated_history.generate(tmp_path / "other.git", COMMITS, SEED + 1)
    assert newest(tmp_path / "again.git") == newest(history) != newest(tmp_path / "other.git")


def test_runs_turn_the_old_bytes_into_the_new() -> None:
    numbers = random.Random(SEED)
    for _ in range(300):
        old = bytes(numbers.choices(b"ab\0", k=numbers.randint(0, 200)))
        new = bytearray(old[: numbers.randint(0, 200)] + bytes(numbers.choices(b"ab\0", k=numbers.randint(0, 60))))
        for _ in range(numbers.randint(0, 4) if new else 0):
            new[numbers.randrange(len(new))] = numbers.choice(b"abc\0")
        runs, changed = replay_git.changed_runs(old, bytes(new))
        got = bytearray((old + bytes(len(new)))[: len(new)])
        assert changed == sum(ours != theirs for ours, theirs in zip(got, new))
        assert all(content and offset >= 0 for offset, content in runs)
        ends = [offset + len(content) for offset, content in runs]
        assert all(later > end + replay_git.JOINED_GAP for end, (later, _) in zip(ends, runs[1:]))
        for offset, content in runs:
            got[offset : offset + len(content)] = content
        assert got == new


def test_bytes_that_do_not_change_make_no_run() -> None:
    assert replay_git.changed_runs(b"same", b"same") == ([], 0)
    assert replay_git.changed_runs(b"cut off", b"cut") == ([], 0)
    assert replay_git.changed_runs(b"", bytes(5)) == ([], 0)
    assert replay_git.changed_runs(b"", b"") == ([], 0)


def run_program(*arguments: str) -> subprocess.Popen[str]:
    """Starts the program with Ctrl-C enabled: a shell's background job ignores it, and child processes inherit that."""
    command = [sys.executable, str(Path(replay_git.__file__)), *arguments]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_folder_without_a_repository_is_named(tmp_path: Path) -> None:
    with run_program(str(tmp_path)) as program:
        _, errors = program.communicate(timeout=600)
    assert program.returncode == 2
    assert errors.startswith(f"replay_git: {tmp_path}: ")
    assert len(errors.splitlines()) == 1


def test_a_short_history_is_lengthened_and_interrupting_is_clean(tmp_path: Path) -> None:
    folder = tmp_path / "short.git"
    generated_history.generate(folder, 3, SEED)
    with run_program(str(folder)) as program:
        assert program.stdout is not None and program.stderr is not None
        while "a generated history of 600 follows" not in (line := program.stdout.readline()):
            assert line, program.stderr.read()
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=600)
    assert program.returncode == 130
    assert errors == "replay_git: interrupted\n"
