#!/usr/bin/env python3
"""Replays the history of a git repository into libmmsb and checks every page against git.

Every file is a page; an empty file has no page until it grows. Every commit creates, resizes and destroys pages and applies one
batch of deltas, computed from the blobs that it changes; a renamed file keeps its page. In the end every page is compared with
the newest commit byte for byte. Merges are followed along their first parent, so the history is a line. Symbolic links are files
whose bytes are their target; submodules are counted and left out.

With --state the pages are kept in a folder, as kept_state.py describes: every change goes into a journal, each commit is on disk
before the next one begins, and an incremental snapshot follows each 50th commit. A replay that ended early, killed or not,
continues after the last whole commit. kill_replay.py tests that. With --store the library does that work: the folder is a store,
and each commit is a group, which a kill leaves there whole or not at all (stored_state.py).

Exit code: 0 if everything matches, 1 if something differs, 2 if git cannot read the repository or the folder cannot be used, 130
after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

try:
    import mmsb
    import numpy as np
except ImportError as error:
    sys.exit(f"{error}: run `make demo`, or run `make` and then this file with build/venv/bin/python")

import generated_history
from generated_history import SUBMODULE, SYMLINK
from kept_state import KeptState, StateError
from stored_state import StoredState

FEWEST_COMMITS = 500
GENERATED_COMMITS = 600
# Changed bytes that are closer than this become one run: a run costs 16 bytes in addition to its payload.
JOINED_GAP = 16
ABSENT = b"000000"
# Variables that would make git use another repository than the named one.
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")

Run = tuple[int, bytes]


class GitError(Exception):
    """git is missing, or a git command failed."""


@dataclass(frozen=True)
class Change:
    """The change of one file by one commit. The paths differ only for a rename."""

    status: str
    old_mode: bytes
    old_blob: bytes
    old_path: bytes
    new_mode: bytes
    new_blob: bytes
    new_path: bytes


class Repository:
    """A git repository, as far as the replay reads it. One `git cat-file --batch` process provides the blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._run("rev-parse", "--git-dir")
        # A separate session: Ctrl-C in a terminal must not end git before this program has handled it.
        self._blobs = self._start(["cat-file", "--batch"], subprocess.PIPE)

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _end(self._blobs)

    def _start(self, arguments: list[str], given: int | IO[bytes], errors: int | None = None) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
        try:
            return subprocess.Popen(
                ["git", "-C", str(self.folder), *arguments],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise GitError("git is not installed: apt-get install git") from None

    def _run(self, *arguments: str) -> bytes:
        process = self._start(list(arguments), subprocess.DEVNULL, subprocess.PIPE)
        try:
            output, errors = process.communicate()
        finally:
            _end(process)
        if process.returncode != 0:
            raise GitError(f"{self.folder}: {errors.decode(errors='replace').splitlines()[0]}")
        return output

    def commits(self, newest: str = "HEAD") -> list[bytes]:
        """Commits from the first to the newest, along first parents."""
        return self._run("rev-list", "--first-parent", "--reverse", "--end-of-options", newest, "--").split()

    def merges(self, newest: bytes) -> int:
        return int(self._run("rev-list", "--first-parent", "--merges", "--count", newest.decode(), "--"))

    def blob(self, name: bytes) -> bytes:
        assert self._blobs.stdin is not None and self._blobs.stdout is not None
        self._blobs.stdin.write(name + b"\n")
        self._blobs.stdin.flush()
        header = self._blobs.stdout.readline().split()
        if len(header) != 3 or header[1] != b"blob":
            raise GitError(f"{self.folder} has no blob {name.decode()}")
        size = int(header[2])
        content = self._blobs.stdout.read(size + 1)
        if len(content) != size + 1:
            raise GitError(f"{self.folder}: blob {name.decode()} ends early")
        return content[:size]

    def files(self, commit: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Path, mode and blob of every file of a commit."""
        for line in self._run("ls-tree", "-r", "-z", "--full-tree", commit.decode()).split(b"\0")[:-1]:
            description, path = line.split(b"\t", 1)
            mode, _, blob = description.split()
            yield path, mode, blob

    def changes(self, commits: list[bytes], done: int = 0) -> Iterator[list[Change]]:
        """For each commit that is not done, its changes against the commit before."""
        with tempfile.TemporaryFile() as pairs:
            pairs.writelines(b" ".join(reversed(commits[max(i - 1, 0) : i + 1])) + b"\n" for i in range(done, len(commits)))
            pairs.seek(0)
            process = self._start(["diff-tree", "--stdin", "--root", "--always", "--raw", "-r", "-z", "-M", "--no-abbrev"], pairs)
        try:
            assert process.stdout is not None
            yield from _parse_changes(_tokens(process.stdout))
            if process.wait() != 0:
                raise GitError(f"{self.folder}: git diff-tree failed")
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.terminate()
    process.wait()


def _tokens(stream: IO[bytes]) -> Iterator[bytes]:
    """The parts between zero bytes."""
    rest = b""
    while chunk := stream.read(1 << 16):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
    if rest:
        raise GitError("git diff-tree ended early")


def _parse_changes(tokens: Iterator[bytes]) -> Iterator[list[Change]]:
    changes: list[Change] | None = None
    for token in tokens:
        if not token.startswith(b":"):  # the name of the next commit
            if changes is not None:
                yield changes
            changes = []
            continue
        old_mode, new_mode, old_blob, new_blob, status = token[1:].split()
        old_path = next(tokens)
        new_path = next(tokens) if status.startswith(b"R") else old_path
        assert changes is not None
        changes.append(Change(status[:1].decode(), old_mode, old_blob, old_path, new_mode, new_blob, new_path))
    if changes is not None:
        yield changes


def changed_runs(old: bytes, new: bytes) -> tuple[list[Run], int]:
    """The runs that turn a page of `old`, resized to the length of `new`, into `new`; and how many bytes differ.

    A resize cuts the end off or adds zeros.
    """
    resized = np.zeros(len(new), np.uint8)
    kept = min(len(old), len(new))
    resized[:kept] = np.frombuffer(old, np.uint8, kept)
    differs = resized != np.frombuffer(new, np.uint8)
    edges = np.flatnonzero(np.diff(differs, prepend=False, append=False))
    if edges.size == 0:
        return [], 0
    starts, ends = edges[0::2], edges[1::2]
    apart = starts[1:] - ends[:-1] > JOINED_GAP
    starts, ends = starts[np.append(True, apart)], ends[np.append(apart, True)]
    runs = [(start, new[start:end]) for start, end in zip(starts.tolist(), ends.tolist())]
    return runs, int(np.count_nonzero(differs))


@dataclass
class Work:
    """One change and its page: the page that the file had, or a new one; None while the file has no bytes."""

    change: Change
    page: mmsb.Page | None
    size: int
    old_size: int
    runs: list[Run]


@dataclass
class Replay:
    """The pages of one history, and counts of what was done to them."""

    repository: Repository
    context: mmsb.Context
    pages: dict[bytes, mmsb.Page] = field(default_factory=dict)
    epochs: Counter[int] = field(default_factory=Counter)  # deltas by id of the page
    tally: Counter[str] = field(default_factory=Counter)
    seconds_in_batches: float = 0.0
    position: mmsb.Page | None = None  # a page of the context that is not a file

    def take_over(self, position: mmsb.Page) -> None:
        """Begins with the pages of the context; one of them has the position."""
        self.position = position
        for page in self.context.pages():
            if page != position:
                self.pages[page.metadata["path"]] = page
                self.epochs[page.id] = page.epoch

    def content(self, mode: bytes, blob: bytes) -> bytes:
        return b"" if mode in (ABSENT, SUBMODULE) else self.repository.blob(blob)

    def commit(self, changes: list[Change]) -> None:
        self.tally["commits"] += 1
        # All pages leave their paths before a page takes one, because renames of one commit may form a chain.
        pages = [self.pages.pop(change.old_path, None) for change in changes]
        work = []
        for change, page in zip(changes, pages):
            old, new = self.content(change.old_mode, change.old_blob), self.content(change.new_mode, change.new_blob)
            runs, changed = changed_runs(old, new)
            work.append(Work(change, page, len(new), len(old), runs))
            self.tally["bytes changed"] += changed
            self._count(change, old, new)
        self._destroy([item for item in work if item.page is not None and item.size == 0])
        self._resize([item for item in work if item.page is not None and item.size != item.old_size])
        self._create([item for item in work if item.page is None and item.size > 0])
        self._apply([item for item in work if item.runs])
        for item in work:
            if item.page is not None:
                self._describe(item.page, item)
                self.pages[item.change.new_path] = item.page

    def _count(self, change: Change, old: bytes, new: bytes) -> None:
        seen = {
            "renames": change.status == "R",
            "links": change.new_mode == SYMLINK,
            "submodules": SUBMODULE in (change.old_mode, change.new_mode),
            "type changes": change.status == "T",
            "mode changes": change.old_blob == change.new_blob and change.old_mode != change.new_mode,
            "files that grew from nothing": change.status == "M" and not old and bool(new),
            "empty files": change.new_mode not in (ABSENT, SUBMODULE) and not new,
            "binary files": b"\0" in new,
            "names that are not UTF-8": not _is_utf8(change.new_path),
        }
        self.tally.update(name for name, yes in seen.items() if yes)

    def _destroy(self, doomed: list[Work]) -> None:
        self.context.destroy_pages([item.page for item in doomed if item.page is not None])
        for item in doomed:
            item.page = None
        self.tally["destroyed"] += len(doomed)

    def _resize(self, changed: list[Work]) -> None:
        for item in changed:
            assert item.page is not None
            item.page.resize(item.size)
        self.tally["resized"] += len(changed)

    def _create(self, wanted: list[Work]) -> None:
        by_size: defaultdict[int, list[Work]] = defaultdict(list)
        for item in wanted:
            by_size[item.size].append(item)
        for size, items in by_size.items():
            for item, page in zip(items, self.context.create_pages(len(items), size)):
                item.page = page
        self.tally["created"] += len(wanted)

    def _apply(self, changed: list[Work]) -> None:
        batch = [(item.page, mmsb.Delta.runs(item.runs)) for item in changed if item.page is not None]
        if not batch:
            return
        started = time.perf_counter()
        self.context.apply_many(batch)
        self.seconds_in_batches += time.perf_counter() - started
        self.epochs.update(page.id for page, _ in batch)
        self.tally["batches"] += 1
        self.tally["deltas"] += len(batch)
        self.tally["runs"] += sum(len(item.runs) for item in changed)

    def _describe(self, page: mmsb.Page, item: Work) -> None:
        change = item.change
        if item.old_size == 0 or change.old_path != change.new_path or change.old_mode != change.new_mode:
            page.metadata["path"] = change.new_path
            page.metadata["mode"] = change.new_mode


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def differences(replay: Replay, commit: bytes) -> tuple[int, list[str]]:
    """The number of files of the commit with bytes, and a line for each difference between the context's pages and the commit.

    The pages' metadata says which file a page is, so the check does not rely on the replay's own bookkeeping.
    """
    found: list[str] = []
    pages: dict[bytes, mmsb.Page] = {}
    for page in replay.context.pages():
        path = page.metadata.get("path", b"")
        if page == replay.position:
            continue
        if path in pages:
            found.append(f"{path!r}: two pages")
        else:
            pages[path] = page
    files = 0
    for path, mode, blob in replay.repository.files(commit):
        expected = replay.content(mode, blob)
        if not expected:
            continue
        files += 1
        page_or_none = pages.pop(path, None)
        if page_or_none is None:
            found.append(f"{path!r}: no page")
        else:
            found += _page_differences(path, page_or_none, mode, expected, replay.epochs[page_or_none.id])
    found += [f"{path!r}: a page, but no file with bytes" for path in pages]
    return files, found


def _page_differences(path: bytes, page: mmsb.Page, mode: bytes, expected: bytes, epoch: int) -> Iterator[str]:
    if page.size != len(expected):
        yield f"{path!r}: {page.size} bytes, git has {len(expected)}"
    elif (got := page.read(0, page.size)) != expected:
        first = next(i for i, (ours, theirs) in enumerate(zip(got, expected)) if ours != theirs)
        yield f"{path!r}: byte {first} is {got[first]}, git has {expected[first]}"
    if (got_mode := page.metadata.get("mode")) != mode:
        yield f"{path!r}: mode {got_mode!r}, git has {mode!r}"
    if page.epoch != epoch:
        yield f"{path!r}: epoch {page.epoch} after {epoch} deltas"


class Progress:
    """A progress bar on a terminal; otherwise nothing."""

    def __init__(self, total: int, stream: IO[str]) -> None:
        self.total = total
        self.stream = stream
        self.shown = stream.isatty()
        self.drawn = 0.0

    def update(self, done: int) -> None:
        now = time.monotonic()
        if self.shown and (now - self.drawn > 0.1 or done == self.total):
            self.drawn = now
            filled = 40 * done // self.total
            self.stream.write(f"\r[{'#' * filled}{' ' * (40 - filled)}] {done}/{self.total} commits")
            self.stream.flush()

    def clear(self) -> None:
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def replay_all(replay: Replay, commits: list[bytes], kept: KeptState | StoredState | None = None) -> None:
    """Replays the commits that are not done yet."""
    done = take_over_kept(replay, commits, kept) if kept else 0
    progress = Progress(len(commits), sys.stderr)
    try:
        for changes in replay.repository.changes(commits, done):
            with kept.commit(done + 1, commits[done]) if kept else nullcontext():
                replay.commit(changes)
            done += 1
            progress.update(done)
    finally:
        progress.clear()
    if done != len(commits):
        raise GitError(f"git diff-tree listed {done} of {len(commits)} commits")


def take_over_kept(replay: Replay, commits: list[bytes], kept: KeptState | StoredState) -> int:
    """Begins at the position of a kept state; returns the number of commits that are done."""
    done, newest = kept.commits()
    if done > 0 and commits[done - 1 : done] != [newest]:
        raise StateError(f"{kept.folder}: commit {done} is {newest.decode()}, but another one in {replay.repository.folder}")
    replay.take_over(kept.position)
    return done


def replay_repository(folder: Path, name: str, newest: str = "HEAD") -> bool:
    """Replays one repository, prints a summary, and returns whether everything matches."""
    with Repository(folder) as repository, mmsb.Context() as context:
        commits = repository.commits(newest)
        return replay_and_check(Replay(repository, context), name, commits)


def replay_kept(folder: Path, state: Path, newest: str, acknowledge: bool) -> bool:
    """The same with pages that are kept in a folder; commits that are done are not replayed again."""
    with Repository(folder) as repository, mmsb.Context() as context:
        commits = repository.commits(newest)
        tell = say if acknowledge else silence
        with KeptState(state, context, tell) as kept:
            return replay_and_check(Replay(repository, context), f"{folder}, kept in {state}", commits, kept)


def replay_stored(folder: Path, state: Path, newest: str) -> bool:
    """The same with pages that are kept in a store."""
    with Repository(folder) as repository, mmsb.open(state) as store:
        commits = repository.commits(newest)
        return replay_and_check(Replay(repository, store), f"{folder}, stored in {state}", commits, StoredState(store))


def say(line: str) -> None:
    print(line, flush=True)


def silence(line: str) -> None:
    """Drops the events of the state, which only some programs need."""


def replay_and_check(replay: Replay, name: str, commits: list[bytes], kept: KeptState | StoredState | None = None) -> bool:
    started = time.perf_counter()
    replay_all(replay, commits, kept)
    seconds = time.perf_counter() - started
    report(replay, name, replay.repository.merges(commits[-1]), seconds)
    return check(replay, commits[-1])


def check(replay: Replay, commit: bytes) -> bool:
    """Prints whether the pages are the files of the commit."""
    files, found = differences(replay, commit)
    for line in found[:10]:
        print(f"    DIFFERS  {line}")
    if len(found) > 10:
        print(f"    … and {len(found) - 10} more")
    verdict = "every one the same byte for byte, no page too many" if not found else f"{len(found)} differences"
    pages = len(replay.context) - (replay.position is not None)
    print(f"  {'check':<14} {files} files with bytes in the newest commit, {pages} pages: {verdict}")
    return not found


def report(replay: Replay, name: str, merges: int, seconds: float) -> None:
    tally = replay.tally
    usage = mmsb.memory_usage()
    rate = tally["deltas"] / replay.seconds_in_batches if replay.seconds_in_batches else 0.0
    kinds = ("renames", "links", "submodules", "type changes", "mode changes", "empty files", "files that grew from nothing")
    purposes = {
        "pages": usage.page_bytes,
        "records": usage.record_bytes,
        "change masks": usage.mask_bytes,
        "metadata": usage.metadata_bytes,
        "whole process": resident_bytes(),
    }
    lines = {
        "commits": f"{tally['commits']}, of which {merges} merges (first parent followed); {seconds:.2f} s with git's part",
        "pages": f"{len(replay.pages)}; {', '.join(f'{tally[what]} {what}' for what in ('created', 'resized', 'destroyed'))}",
        "deltas": f"{tally['deltas']} with {tally['runs']} runs, in {tally['batches']} batches",
        "bytes changed": f"{tally['bytes changed']}",
        "rate": f"{rate:.0f} deltas/s in {1000 * replay.seconds_in_batches:.1f} ms of batch calls",
        "memory": ", ".join(f"{purpose} {readable(size)}" for purpose, size in purposes.items()),
        "seen": ", ".join(f"{tally[kind]} {kind}" for kind in kinds) + "; submodules have no page",
    }
    print(name)
    for label, line in lines.items():
        print(f"  {label:<14} {line}")


def readable(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmRSS")


def count_commits(folder: Path, newest: str = "HEAD") -> int:
    with Repository(folder) as repository:
        return len(repository.commits(newest))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Replays the history of a git repository into libmmsb and checks every page.")
    parser.add_argument("repository", nargs="?", type=Path, metavar="REPO", help="default: the repository of this file")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated history; default 1")
    parser.add_argument("--state", type=Path, metavar="DIR", help="keeps the pages in this folder and continues with its state")
    parser.add_argument("--store", type=Path, metavar="DIR", help="the same with a store, where the library does the work")
    parser.add_argument("--commit", default="HEAD", help="the newest commit to replay; default HEAD")
    parser.add_argument("--acknowledge", action="store_true", help="with --state: a line for each commit when it is on disk")
    options = parser.parse_args(arguments)
    if options.acknowledge and not options.state:
        parser.error("--acknowledge needs --state")
    if options.state and options.store:
        parser.error("--state and --store exclude each other")
    this_one: Path = Path(__file__).resolve().parent.parent
    folder: Path = options.repository or this_one
    try:
        if options.state:
            return 0 if replay_kept(folder, options.state, options.commit, options.acknowledge) else 1
        if options.store:
            return 0 if replay_stored(folder, options.store, options.commit) else 1
        try:
            commits = count_commits(folder, options.commit)
        except GitError as error:
            if options.repository:
                raise
            print(f"{error}: replaying only the generated history")
            commits = 0
        matches = replay_repository(folder, f"{folder}", options.commit) if commits else True
        if commits < FEWEST_COMMITS:
            print(
                f"{commits} commits are fewer than {FEWEST_COMMITS}: a generated history of {GENERATED_COMMITS} follows",
                flush=True,
            )
            with tempfile.TemporaryDirectory(prefix="mmsb-replay-") as temporary:
                generated = Path(temporary) / "generated.git"
                generated_history.generate(generated, GENERATED_COMMITS, options.seed)
                matches = replay_repository(generated, f"generated history, seed {options.seed}") and matches
    except (GitError, generated_history.GenerationError, StateError, mmsb.MMSBError) as error:
        print(f"replay_git: {error}", file=sys.stderr)
        return 1 if isinstance(error, mmsb.MMSBError) else 2
    except KeyboardInterrupt:
        print("replay_git: interrupted", file=sys.stderr)
        return 130
    return 0 if matches else 1


if __name__ == "__main__":
    sys.exit(main())
