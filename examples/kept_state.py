"""Keeps the pages of a replay on disk. After a kill at any moment the next run continues after the last whole commit.

The folder has a chain of snapshots, `state-<number>.mmsb`, and the journal of every change since, `state-<number>.journal`,
named after the snapshot at which it begins. The position in the history is metadata of a separate page, so snapshots and journal
contain it: "begun" is written before the changes of a commit, with the number of the journal's last record, and "done" after
them. If the newest "begun" has no "done", the process was killed within a commit: the state is then loaded only up to that
record, and a new journal begins behind it. So no part of the commit remains, and pages, epochs and versions are those of a
replay that was never killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import mmsb

POSITION_PAGE = 1  # id of the page that has the position
COMMITS_PER_SNAPSHOT = 50
LONGEST_CHAIN = 10
# Shorter than a commit, so that a kill finds a part of a commit on the disk.
INTERVAL_MS = 1
SEGMENT_BYTES = 256 << 10


class StateError(Exception):
    """The folder cannot be used."""


def numbered(folder: Path, suffix: str) -> list[int]:
    """The numbers of the snapshots or journals in a folder, in ascending order. A journal without a segment does not count."""
    found = folder.glob(f"state-*{suffix}")
    return sorted(int(path.stem.removeprefix("state-")) for path in found if path.is_file() or any(path.glob("journal-*.mmsbj")))


def commits_of(position: Mapping[str, bytes]) -> tuple[int, bytes]:
    """The number of commits that are done, and the name of the newest."""
    number, _, name = position["done"].partition(b" ")
    return int(number), name


class KeptState:
    """The state of one context in one folder.

    `tell` gets a line for each event: "began"; "restored COMMITS whole|half"; "acknowledged COMMIT RECORDS BYTES", with the
    number of records that the journal has had and of bytes that it has; "saving"; "saved whole|incremental PAGES BYTES".
    """

    def __init__(self, folder: Path, context: mmsb.Context, tell: Callable[[str], None] = lambda line: None) -> None:
        self.folder = folder
        self.context = context
        self.tell = tell
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise StateError(f"{folder}: another replay uses it") from None
        try:
            self._begin_or_go_on()
        except BaseException:
            os.close(self.lock)
            raise

    def close(self) -> None:
        self.journal.close()
        os.close(self.lock)

    def __enter__(self) -> KeptState:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, number: int, suffix: str) -> Path:
        return self.folder / f"state-{number:08}{suffix}"

    # ------------------------------------------------------------------------------------------------ restoring

    def _begin_or_go_on(self) -> None:
        snapshots = numbered(self.folder, ".mmsb")
        if not snapshots:
            self.number = self.chain = 0
            self.position = self.context.create_page(1, id=POSITION_PAGE)
            self.position.metadata["done"] = b"0 none"
            self.save()
            self._begin_journal()
            self.tell("began")
            return
        self.number = snapshots[-1]
        with mmsb.Snapshot(self._path(self.number, ".mmsb")) as snapshot:
            self.chain = snapshot.chain
            self.saved_commits = commits_of(snapshot[POSITION_PAGE].metadata)[0]
        journals = numbered(self.folder, ".journal")
        journal = self._path(journals[-1], ".journal") if journals else None
        half = None
        try:
            half = self._half_done(journal)
        except mmsb.MismatchError:  # half a commit was undone and saved: that is a branch, which has no journal yet
            journal = None
        self.context.restore(self._path(self.number, ".mmsb"), journal=journal, until=half)
        self.position = self.context.page(POSITION_PAGE)
        if half is None and journal is not None:
            self._open_journal(journal)
        else:
            self.save()
            self._begin_journal()
        self.tell(f"restored {self.commits()[0]} {'whole' if half is None else 'half'}")

    def _half_done(self, journal: Path | None) -> int | None:
        """The journal's last record before a commit that has begun and is not done."""
        with mmsb.Context.load(self._path(self.number, ".mmsb"), journal=journal) as last:
            metadata = last.page(POSITION_PAGE).metadata
            begun, _, record = metadata.get("begun", b"0 0").partition(b" ")
            return int(record) if int(begun) > commits_of(metadata)[0] else None

    def _begin_journal(self) -> None:
        journal = self._path(self.number, ".journal")
        self._open_journal(journal)
        for other in self.folder.glob("state-*.journal"):
            if other != journal:
                shutil.rmtree(other)

    def _open_journal(self, folder: Path) -> None:
        self.journal = self.context.journal(folder, interval_ms=INTERVAL_MS, segment_bytes=SEGMENT_BYTES)
        self.last_record = self.journal.info().last

    # ------------------------------------------------------------------------------------------------- going on

    def commits(self) -> tuple[int, bytes]:
        """The number of whole commits in the pages, and the name of the newest."""
        return commits_of(self.position.metadata)

    def begin(self, number: int) -> None:
        """Called before the changes of a commit."""
        self.position.metadata["begun"] = b"%d %d" % (number, self.last_record)

    def end(self, number: int, name: bytes) -> None:
        """Called after the changes of a commit; when it returns, the commit is on disk."""
        self.position.metadata["done"] = b"%d %s" % (number, name)
        self.journal.sync()
        info = self.journal.info()
        self.last_record = info.last
        self.tell(f"acknowledged {number} {info.last} {info.bytes}")
        if number - self.saved_commits >= COMMITS_PER_SNAPSHOT:
            self.save()

    @contextmanager
    def commit(self, number: int, name: bytes) -> Iterator[None]:
        """Around the changes of a commit."""
        self.begin(number)
        yield
        self.end(number, name)

    def save(self) -> None:
        """Saves the changes since the newest snapshot; if the chain is full, saves everything and removes the chain's files."""
        base = self._path(self.number, ".mmsb") if 0 < self.chain < LONGEST_CHAIN else None
        self.tell("saving")
        self.context.save(self._path(self.number + 1, ".mmsb"), base=base)
        self.number += 1
        self.chain = self.chain + 1 if base else 1
        self.saved_commits = self.commits()[0]
        if not base:
            for older in numbered(self.folder, ".mmsb")[:-1]:
                self._path(older, ".mmsb").unlink()
        stats = self.context.save_stats()
        self.tell(f"saved {'incremental' if base else 'whole'} {stats.last_pages} {stats.last_bytes}")
