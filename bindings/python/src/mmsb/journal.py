"""The journal of a context: a log on disk of every change that goes through the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import _abi
from ._errors import ClosedError
from ._ffi import as_record, lib, sized
from ._object import Closable
from .snapshot import AnyPath, path_bytes

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

    def sync(self) -> None:
        """Waits until the records of all changes made so far are on disk."""
        self._check(lib.mmsb_journal_sync(self._handle(), None))

    def info(self) -> JournalInfo:
        """The journal's current extent."""
        raw = sized(_abi.JournalInfo)
        self._check(lib.mmsb_journal_info(self._handle(), raw))
        return as_record(JournalInfo, raw)

    def trim(self, snapshot: AnyPath) -> None:
        """Verifies a snapshot, then removes the segments that hold only records which it contains."""
        self._check(lib.mmsb_journal_trim(self._handle(), path_bytes(snapshot, "snapshot"), None))

    def close(self) -> None:
        """Waits until all records are on disk and ends the journal. Idempotent."""
        if not self.closed:
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
