"""The journal of a context: a log on disk of every change that goes through the library."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _abi, _ffi
from ._convert import unsigned
from ._errors import ClosedError, InvalidArgumentError, MMSBError, TimeoutError, WouldBlockError
from ._ffi import as_record, check, lib, listed, name_of, sized, value_of
from ._object import Closable
from .snapshot import AnyPath, path_bytes
from .ticket import Ticket, Work, nothing

if TYPE_CHECKING:
    from .context import Context


class JournalInfo(NamedTuple):
    """The extent of a journal. Records are numbered from 1."""

    #: Number of segments.
    segments: int
    #: Numbers of the oldest record that is kept, of the newest (0 if there is none yet), and of the newest that is on disk.
    first: int
    last: int
    synced: int
    #: Length of all segments.
    bytes: int
    #: How often calls have waited because the disk was slower than they were, or full; how long in seconds, all threads together,
    #: and how long of it for a full disk.
    waits: int
    waited: float
    space_waited: float


class Journal(Closable):
    """The open journal of a context, from Context.journal(). close() ends it; dropping this object does not.

    A journal does not have bytes that are written through views and pointers.
    """

    __slots__ = ("_closed", "_context")

    _name = "journal"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the journal or its context has been closed."""
        return self._closed or self._context.closed

    def sync(self, timeout: float | None = None) -> None:
        """Waits until the records of all changes made so far are on disk.

        timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.
        """
        self._context._run(self._syncing(), timeout)

    def sync_start(self, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
        """Starts sync() when the tickets in after are done."""
        return self._syncing().start(after)

    def _syncing(self) -> Work[None]:
        return Work(lib.mmsb_journal_sync, lib.mmsb_journal_sync_start, self._handle(), make=nothing, check=self._check)

    def info(self) -> JournalInfo:
        """The journal's current extent."""
        raw = sized(_abi.JournalInfo)
        self._check(lib.mmsb_journal_info(self._handle(), raw))
        return as_record(JournalInfo, raw, waited=raw.waited_ns / 1e9, space_waited=raw.space_waited_ns / 1e9)

    def trim(self, snapshot: AnyPath, timeout: float | None = None) -> None:
        """Verifies a snapshot, then removes the segments that hold only records which it contains.

        timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.
        """
        self._context._run(self._trimming(snapshot), timeout)

    def trim_start(self, snapshot: AnyPath, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
        """Starts trim() when the tickets in after are done; progress counts bytes."""
        return self._trimming(snapshot).start(after)

    def _trimming(self, snapshot: AnyPath) -> Work[None]:
        path = path_bytes(snapshot, "snapshot")
        return Work(lib.mmsb_journal_trim, lib.mmsb_journal_trim_start, self._handle(), path, make=nothing, check=self._check)

    def close(self, timeout: float | None = None) -> None:
        """Waits until all records are on disk and ends the journal. Idempotent.

        timeout in seconds, then TimeoutError; None waits without limit. After that, and when Ctrl-C comes first, the journal is
        still open. What neither ends is the last step: a block that says the journal was closed goes to the disk. A journal that
        has failed ends with its error.
        """
        if self.closed:
            return
        try:
            self.sync(timeout)
        except (TimeoutError, WouldBlockError):
            raise
        except MMSBError:  # which the end of the journal says, too
            pass
        self._closed = True
        self._check(lib.mmsb_journal_close(self._context.handle))

    def __repr__(self) -> str:
        return f"<mmsb.Journal{' closed' if self.closed else ''}>"

    def _handle(self) -> int:
        if self._closed:
            raise ClosedError("the journal is closed")
        return self._context.handle

    def _check(self, status: int) -> None:
        self._context._check(status)


def journal_options(durability: str, interval_ms: int, segment_bytes: int | None, keep: bool, base: str) -> _abi.JournalOptions:
    """Options of a journal."""
    options = _abi.JournalOptions()
    lib.mmsb_journal_options_init(options)
    options.durability = value_of(_abi.DURABILITY, durability, "durability")
    interval = unsigned(interval_ms, "interval_ms")
    if interval >= 2**32:
        raise InvalidArgumentError(f"interval_ms is {interval}; the maximum is {2**32 - 1}")
    options.interval_ms = interval
    if segment_bytes is not None:
        options.segment_bytes = unsigned(segment_bytes, "segment_bytes")
    options.keep = int(bool(keep))
    options.base = value_of(_abi.JOURNAL_BASE, base, "base")
    return options


class JournalDirectory(NamedTuple):
    """What a journal's folder has. mmsb_journal_directory_t describes each; ids are hexadecimal digits."""

    closed: bool
    lineage: str
    parent: str
    fork: int
    branch: int
    branches: int
    segments: int
    first: int
    last: int
    first_time_ns: int
    last_time_ns: int
    torn_bytes: int


class JournalSegment(NamedTuple):
    """A file of a journal. mmsb_journal_segment_t describes each."""

    name: str
    first: int
    last: int
    bytes: int
    created_ns: int
    based: bool


class JournalRecord(NamedTuple):
    """A change in a journal, without its bytes. mmsb_journal_record_t describes each; kind is like "write"."""

    record: int
    group: int
    time_ns: int
    kind: str
    page: int
    version: int
    epoch: int
    size: int
    offset: int
    bytes: int
    other: int
    other_version: int
    location: str
    device: int
    numa_node: int
    form: int
    adopted: bool
    read_only: bool
    key: str
    source: str
    intent: str


def journal_directory(directory: AnyPath) -> JournalDirectory:
    """What a journal's folder has, also while it is written."""
    raw = sized(_abi.JournalDirectory)
    check(lib.mmsb_journal_directory(path_bytes(directory, "directory"), raw))
    ids = {name: bytes(getattr(raw, name)).hex() for name in ("lineage", "parent")}
    return as_record(JournalDirectory, raw, closed=bool(raw.closed), **ids)


def journal_segments(directory: AnyPath) -> list[JournalSegment]:
    """The segments of a journal, oldest first."""
    found = listed(_abi.JournalSegment, lib.mmsb_journal_segments, path_bytes(directory, "directory"))
    return [as_record(JournalSegment, raw, name=raw.name.decode(), based=bool(raw.based)) for raw in found]


def journal_records(directory: AnyPath, first: int = 0) -> Iterator[JournalRecord]:
    """The records of a journal, from a number on."""
    path, count, next_record = path_bytes(directory, "directory"), ctypes.c_size_t(), ctypes.c_uint64(first)
    found = (_abi.JournalRecord * 1024)()
    while True:
        check(lib.mmsb_journal_records(path, next_record, found, len(found), count))
        if not count.value:
            return
        for raw in found[: count.value]:
            yield as_record(
                JournalRecord,
                raw,
                kind=name_of(_abi.RECORD, raw.kind),
                location=name_of(_ffi.LOCATIONS, raw.location),
                adopted=bool(raw.adopted),
                read_only=bool(raw.read_only),
                key=raw.key.decode(),
                source=raw.source.decode(),
                intent=raw.intent.decode(),
            )
