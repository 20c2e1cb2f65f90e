"""Captures: streams that record work for a graph, and the memory of what is allocated in them."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import TYPE_CHECKING

from . import _abi
from ._ffi import check, lib
from ._lease import end, when_dropped
from ._object import Handled

if TYPE_CHECKING:
    from .device import Stream


class Capture(Handled):
    """The memory of a graph. See Runtime.capture. Closing or dropping it says that the graph will not run again."""

    __slots__ = ("_streams",)

    _name = "capture"

    def __init__(self, streams: tuple[Stream, ...]) -> None:
        capture = ctypes.c_uint64()
        check(lib.mmsb_capture_begin(_handles(streams), len(streams), capture))
        self._streams = streams  # they end after it
        self._handle = capture.value
        self._finalizer = when_dropped(self, _destroy, self._handle)

    def resume(self, *streams: Stream) -> Capture:
        """Begins another capture with the same memory, for a with statement: of the graphs that share it no two run at a time."""
        check(lib.mmsb_capture_resume(self.handle, _handles(streams), len(streams)))
        self._streams = streams
        return self

    def end(self) -> None:
        """Ends the capture: its streams do work again. Its memory stays apart until close()."""
        check(lib.mmsb_capture_end(self.handle))

    def close(self) -> None:
        """Says that the graph will not run again: what was freed of its memory serves all. Idempotent."""
        check(end(self._finalizer) or _abi.OK)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()


def _handles(streams: tuple[Stream, ...]) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * len(streams))(*(stream.handle for stream in streams))


def _destroy(handle: int) -> int:
    """Ends a capture; one that is dropped may have ended with its runtime already."""
    return _abi.OK if lib.forked else int(lib.mmsb_capture_destroy(handle))
