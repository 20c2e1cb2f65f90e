"""Memory that Python and the library share: views that end their pin, and objects that the library may still read."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from . import _abi
from ._errors import MMSBError
from ._ffi import lib


def when_dropped(thing: object, then: Callable[..., object], *arguments: Any) -> weakref.finalize[Any, Any]:
    """Calls a function when thing is gone, but never at exit: things may be used until the process ends."""
    finalizer = weakref.finalize(thing, then, *arguments)
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


def end(finalizer: weakref.finalize[Any, Any]) -> Any:
    """Calls a finalizer's function now and returns its result; None if it was called before. The function may be called again.

    A finalizer forgets its function before it calls it: an exception of a signal's handler in between would leave the object with
    nobody who ends it.
    """
    call = finalizer.peek()
    if call is None:
        return None
    _, then, arguments, _ = call
    try:
        return None if finalizer.detach() is None else then(*arguments)
    except MMSBError:  # of the function itself
        raise
    except BaseException:
        finalizer.detach()
        then(*arguments)
        raise


def view_memory(address: int, size: int, writable: bool, dropped: Callable[..., None], *arguments: Any) -> memoryview:
    """A view of memory that is not Python's. When it and everything made from it is gone, dropped is called."""
    holder = Holder()
    when_dropped(holder, dropped, *arguments)
    return view_held(address, size, writable, holder)


def view_held(address: int, size: int, writable: bool, holder: Holder) -> memoryview:
    """A view of memory that keeps its holder, as does everything made from it."""
    memory = (ctypes.c_ubyte * size).from_address(address)
    memory.holder = holder  # type: ignore[attr-defined]
    view = memoryview(memory).cast("B")
    return view if writable else view.toreadonly()


class Holder:
    """An object that lives as long as somebody uses memory."""

    __slots__ = ("__weakref__",)


class Watch(weakref.ref[Any]):
    """A weak reference that functions of C can be called with, when what it refers to is gone."""

    __slots__ = ("calls",)
    _as_parameter_ = 0
    calls: Watch


_watches: set[Watch] = set()


def when_gone(thing: object, then: Callable[..., object], *arguments: Any) -> Watch:
    """Calls a function of the library when thing is gone.

    A signal's handler may raise an exception between any two steps of Python, also in a function that is called because an object
    is gone, where the exception is lost and the rest is not done. So pins, groups and writing sections end without Python: the
    weak reference calls the library's function, with one argument more than it takes.
    """
    watch = Watch(thing, _watches.discard)
    _watches.add(watch)
    # The newest reference is called first, and kept until this one is.
    watch.calls = Watch(thing, partial(then, *arguments))
    return watch


def never_mind(watch: Watch) -> None:
    """Ends when_gone(): nothing is called."""
    _watches.discard(watch)


class Pins:
    """Pins of pages, each until its holder is gone. They count once taken is 1, which is to be set in a finally clause around the
    call that pins: nothing comes between the steps of a clause without calls."""

    def __init__(self, pages: ctypes.Array[ctypes.c_uint64], mode: int) -> None:
        self.taken = ctypes.c_size_t(0)  # how many pages a holder unpins
        self.holders: list[Holder] = []
        for i in range(len(pages)):
            holder = Holder()
            if _held:
                when_dropped(holder, drop_released)
            when_gone(holder, lib.mmsb_page_unpin_many, ctypes.byref(pages, 8 * i), self.taken, mode, None)
            self.holders.append(holder)


class Block(partial[None]):
    """A group or a writing section of a with statement: the function that ends it, and what it gets before what __exit__ gets.

    A signal's handler may raise an exception where that function begins, and the statement does not call it again. So __exit__ is
    a function of C, and no frame of Python has this object: it is gone with the statement, and when_gone() ends what is open.
    """

    __exit__ = partial.__call__


def note(handle: ctypes.c_uint64, value: int, call: Callable[..., int], *arguments: object) -> int:
    """Calls a function of the library, and gives its status. If it succeeds, handle gets the value, also where a signal's handler
    raises an exception then: it does so behind extend(), which has the status."""
    status: list[int] = []
    try:
        status.extend(map(call, *zip(arguments)))
    finally:  # nothing comes between the steps of a clause without calls
        if status == [_abi.OK]:
            handle.value = value
    return status[0]


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


class Lot:
    """Objects whose memory one call has adopted: each is let go when a page over its address ends, the lot with the last."""

    __slots__ = ("_left", "_owners")

    def __init__(self, addresses: Iterable[int], owners: Iterable[object]) -> None:
        self._owners: dict[int, list[object]] = {}
        for address, owner in zip(addresses, owners):
            self._owners.setdefault(address, []).append(owner)
        self._left = [None] * sum(map(len, self._owners.values()))

    def let_go(self, address: int) -> tuple[object, bool]:
        """An object at an address, and whether it was the last one. Calls of several threads may meet in here."""
        owner = self._owners[address].pop()
        self._left.pop()
        return owner, not self._left


def _release(token: int, memory: int, _size: int) -> None:
    thing = _held.get(token)
    last = True
    if isinstance(thing, Lot):
        thing, last = thing.let_go(memory)
    _released.append(thing)
    if last:
        _held.pop(token, None)


release_adopted = _abi.ReleaseFunction(_release)
ctypes.PyDLL(None).Py_IncRef(ctypes.py_object(release_adopted))


def drop_released() -> None:
    """Drops adopted objects whose pages have ended. Call it after each library call that may end pages."""
    while _released:
        try:
            _released.popleft()
        except IndexError:
            return
