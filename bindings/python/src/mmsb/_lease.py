"""Memory that Python and the library share: views that end their pin, and objects that the library may still read."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import weakref
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
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
    """An object that lives as long as somebody uses memory, and what else has to live as long."""

    __slots__ = ("__weakref__", "kept")

    kept: object


class Watch(weakref.ref[Any]):
    """A weak reference that functions of C can be called with, when what it refers to is gone. A thing may have several."""

    __slots__ = ("calls",)
    __eq__, __hash__ = object.__eq__, object.__hash__
    _as_parameter_ = 0
    calls: Watch


_watches: set[Watch] = set()
atexit.register(_watches.clear)


def when_gone(thing: object, then: Callable[..., object], *arguments: Any) -> Watch:
    """Calls a function of the library when thing is gone, but never at exit: things may be used until the process ends.

    A signal's handler may raise an exception between any two steps of Python, also in a function that is called because an object
    is gone, where the exception is lost and the rest is not done. So contexts, pins, groups and writing sections end without
    Python: the weak reference calls the library's function, with one argument more than it takes. What was registered last is
    called first.
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
    """Pins of pages, each until its holder is gone.

    A holder keeps the context, without which writes would go to memory that no store has, and ends its pin before it lets go of
    that. Pins count once taken is 1, which is to be set in a finally clause around the call that pins: nothing comes between the
    steps of a clause without calls.
    """

    def __init__(self, context: object, pages: ctypes.Array[ctypes.c_uint64], mode: int) -> None:
        self.taken = ctypes.c_size_t(0)  # how many pages a holder unpins
        self.holders: list[Holder] = []
        for i in range(len(pages)):
            holder = Holder()
            holder.kept = context
            if _adopted:
                drop_released_with(holder)
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
# Those that pages were adopted over, by the token of the call and their address.
_adopted: dict[tuple[int, int], object] = {}
_tokens = itertools.count(1)


def new_token() -> int:
    """A number for hold() and hold_adopted()."""
    return next(_tokens)


def hold(thing: object) -> int:
    """Keeps thing alive until let_go(token)."""
    token = new_token()
    _held[token] = thing
    return token


def let_go(token: int) -> None:
    """Ends hold()."""
    _held.pop(token, None)


def hold_adopted(token: int, addresses: Iterable[int], owners: Iterable[object]) -> None:
    """Keeps each owner alive until the page over its address has ended. A token has an address once."""
    _adopted.update(zip(zip(itertools.repeat(token), addresses), owners))


def let_go_adopted(token: int, addresses: Iterable[int]) -> None:
    """Ends hold_adopted() of what was not adopted."""
    for address in addresses:
        _adopted.pop((token, address), None)


# The release callback must not call the library, but dropping an object may: objects are dropped after the call. And no step of
# the callback may be Python's, as in when_gone(). So a function of C calls another one with the pair of its first two arguments:
# that takes the object of the pair, and its cache keeps it until drop_released() clears that.
_python = ctypes.PyDLL(None)
_call_with_pair, _call = _python.PyObject_CallFunction, _python.PyObject_CallNoArgs
_call_with_pair.argtypes, _call_with_pair.restype = (ctypes.py_object, ctypes.c_char_p, *[ctypes.c_uint64] * 3), ctypes.py_object
_call.argtypes, _call.restype = (ctypes.py_object,), ctypes.py_object
_to_released: Any = lru_cache(maxsize=None)(_adopted.pop)
release_adopted = _abi.ReleaseFunction(partial(_call_with_pair, _to_released, b"((KK))"))

#: Drops adopted objects whose pages have ended. Call it after each library call that may end pages.
drop_released: Callable[[], None] = _to_released.cache_clear


def drop_released_with(thing: object) -> None:
    """Calls drop_released() when thing is gone, behind what when_gone() is told later."""
    when_gone(thing, _call, drop_released)


for _kept in (_held, _adopted, release_adopted):
    _python.Py_IncRef(ctypes.py_object(_kept))
