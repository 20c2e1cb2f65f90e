"""The journal of a context: every change that goes through the library, on disk."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from . import _abi
from ._errors import ClosedError
from ._ffi import lib
from .snapshot import AnyPath, path_bytes

if TYPE_CHECKING:
    from .context import Context


class JournalInfo(NamedTuple):
    """How far a journal is; records have numbers from 1 on."""

    #: Files.
    segments: int
    #: The oldest record that is kept, the newest (0 when there was none yet), and the newest that is surely on disk.
    first: int
    last: int
    synced: int
    #: Length of all files.
    bytes: int


class Journal:
    """What Context.journal() began. It belongs to the context: dropping this object does not end it, close() does.

    Bytes that are written through views and pointers are not in a journal.
    """

    __slots__ = ("_closed", "_context")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether close() has been called, or the context closed, which ends its journal, too."""
        return self._closed or self._context.closed

    def sync(self) -> None:
        """Waits until every change that has been made is on disk."""
        self._check(lib.mmsb_journal_sync(self._handle()))

    def info(self) -> JournalInfo:
        """How far it is."""
        raw = _abi.JournalInfo(struct_size=ctypes.sizeof(_abi.JournalInfo))
        self._check(lib.mmsb_journal_info(self._handle(), raw))
        return JournalInfo(raw.segments, raw.first, raw.last, raw.synced, raw.bytes)

    def drop(self, snapshot: AnyPath) -> None:
        """Removes the files that hold only what a snapshot already has."""
        self._check(lib.mmsb_journal_drop(self._handle(), path_bytes(snapshot, "snapshot")))

    def close(self) -> None:
        """Ends the journal when all of it is on disk. Idempotent."""
        if not self.closed:
            self._closed = True
            self._check(lib.mmsb_journal_close(self._context.handle))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mmsb.Journal{' closed' if self.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a journal cannot be pickled or copied")

    def _handle(self) -> int:
        if self._closed:
            raise ClosedError("the journal is closed")
        return self._context.handle

    def _check(self, status: int) -> None:
        self._context._check(status)
