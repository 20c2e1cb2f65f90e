"""Memory that two sides hold: views that give their pin back, and objects the library may still look at."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _abi
from ._ffi import lib


def when_dropped(thing: object, then: Callable[..., None], *arguments: Any) -> weakref.finalize[Any, Any]:
    """Has a function called when thing is gone; never at exit: things may be used until the last moment of the process."""
    finalizer = weakref.finalize(thing, then, *arguments)
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


def view_memory(address: int, size: int, writable: bool, dropped: Callable[..., None], *arguments: Any) -> memoryview:
    """A view of memory that is not Python's. When it and all that was made from it are gone, dropped is called."""
    memory = (ctypes.c_ubyte * size).from_address(address)
    view = memoryview(memory).cast("B")
    if not writable:
        view = view.toreadonly()
    when_dropped(memory, dropped, *arguments)
    return view


def unpin(page: int, mode: int) -> None:
    """Ends a pin; does nothing in a forked child, whose library must not be called."""
    if not lib.forked:
        lib.mmsb_page_unpin(page, mode)
        drop_released()


def free_memory(address: int) -> None:
    """Gives back what mmsb_page_release gave; does nothing in a forked child."""
    if not lib.forked:
        lib.mmsb_memory_free(address)


# Objects whose memory the library may touch at any time. Held for good: a process may exit while it does.
_held: dict[int, object] = {}
ctypes.PyDLL(None).Py_IncRef(ctypes.py_object(_held))
_tokens = itertools.count(1)


def hold(thing: object) -> int:
    """Keeps thing alive until let_go."""
    token = next(_tokens)
    _held[token] = thing
    return token


def let_go(token: int) -> None:
    """Ends what hold began."""
    _held.pop(token, None)


# The release callback must not call the library, which dropping an object may do: so that waits until after the call.
_released: deque[object] = deque()


def _release(token: int, _memory: int, _size: int) -> None:
    _released.append(_held.pop(token, None))


release_adopted = _abi.ReleaseFunction(_release)
ctypes.PyDLL(None).Py_IncRef(ctypes.py_object(release_adopted))


def drop_released() -> None:
    """Lets go of adopted objects whose pages have ended. To be called after each call that may end pages."""
    while _released:
        try:
            _released.popleft()
        except IndexError:
            return
