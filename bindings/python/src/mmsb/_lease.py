"""Memory that Python and the library share: views that end their pin, and objects that the library may still read."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _abi
from ._ffi import lib


def when_dropped(thing: object, then: Callable[..., object], *arguments: Any) -> weakref.finalize[Any, Any]:
    """Calls a function when thing is gone, but never at exit: things may be used until the process ends."""
    finalizer = weakref.finalize(thing, then, *arguments)
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


def view_memory(address: int, size: int, writable: bool, dropped: Callable[..., None], *arguments: Any) -> memoryview:
    """A view of memory that is not Python's. When it and everything made from it is gone, dropped is called."""
    memory = (ctypes.c_ubyte * size).from_address(address)
    view = memoryview(memory).cast("B")
    if not writable:
        view = view.toreadonly()
    when_dropped(memory, dropped, *arguments)
    return view


def unpin(page: int, mode: int) -> None:
    """Ends a pin; does nothing in a forked child, which must not call the library."""
    if not lib.forked:
        lib.mmsb_page_unpin(page, mode)
        drop_released()


def free_memory(address: int) -> None:
    """Frees memory of mmsb_page_release; does nothing in a forked child."""
    if not lib.forked:
        lib.mmsb_memory_free(address)


# Objects whose memory the library may access at any time. Never freed: a process may exit while the library uses them.
_held: dict[int, object] = {}
ctypes.PyDLL(None).Py_IncRef(ctypes.py_object(_held))
_tokens = itertools.count(1)


def hold(thing: object) -> int:
    """Keeps thing alive until let_go(token)."""
    token = next(_tokens)
    _held[token] = thing
    return token


def let_go(token: int) -> None:
    """Ends hold()."""
    _held.pop(token, None)


# The release callback must not call the library, but dropping an object may: objects are dropped after the call.
_released: deque[object] = deque()


def _release(token: int, _memory: int, _size: int) -> None:
    _released.append(_held.pop(token, None))


release_adopted = _abi.ReleaseFunction(_release)
ctypes.PyDLL(None).Py_IncRef(ctypes.py_object(release_adopted))


def drop_released() -> None:
    """Drops adopted objects whose pages have ended. Call it after each library call that may end pages."""
    while _released:
        try:
            _released.popleft()
        except IndexError:
            return
