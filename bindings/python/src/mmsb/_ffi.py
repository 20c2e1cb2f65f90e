"""The library: how it is found and loaded, its functions, and what becomes of their statuses.

What is generated from mmsb.h is in _abi: constants, structs, and the table of functions.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from . import _abi, _errors
from ._errors import ForkedError, MMSBError, error_for


def _refuse_subinterpreters() -> None:
    """An interpreter that ends before its process does not drop what is alive in it: contexts and pins would stay for ever."""
    get, number = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_GetID
    get.restype, number.argtypes, number.restype = ctypes.c_void_p, (ctypes.c_void_p,), ctypes.c_int64
    if number(get()) != 0:
        raise ImportError(
            "mmsb cannot be imported in a subinterpreter, which does not drop its objects when it ends: import it in the main one"
        )


_refuse_subinterpreters()

# Names that callers use for values, where they are not those of _abi.
LOCATIONS = {name: value for name, value in _abi.LOCATION.items() if value != _abi.LOCATION_DEFAULT}
SYNCS = {name.removeprefix("to_"): value for name, value in _abi.SYNC.items() if name in ("to_device", "to_host", "both")}
SYNC_WINS = {"host": _abi.SYNC_HOST_WINS, "device": _abi.SYNC_DEVICE_WINS}
SIMULATIONS = {name.replace("_", "-"): value for name, value in _abi.SIMULATE.items()}

# These take nanoseconds and no lock: releasing the interpreter lock would cost more than the call.
KEEPS_INTERPRETER_LOCK = {
    "mmsb_last_error",
    "mmsb_last_error_code",
    "mmsb_last_error_detail",
    "mmsb_strerror",
    "mmsb_page_address",
    "mmsb_page_size",
    "mmsb_page_id",
    "mmsb_page_epoch",
    "mmsb_page_version",
    "mmsb_page_location",
}


def find_library() -> str:
    """The absolute path of the shared library: MMSB_LIBRARY, else the package's own, else the build tree's."""
    named = os.environ.get("MMSB_LIBRARY")
    if named:
        path = Path(named).absolute()
        if not path.is_file():
            raise ImportError(f"MMSB_LIBRARY is {path}, which is not a file: correct it or unset it")
        return str(path)
    package = Path(__file__).resolve().parent
    paths = [package / "_lib" / "libmmsb.so"]
    # In a checkout the package lies in bindings/python/src/mmsb.
    paths += [folder / "build" / "libmmsb.so" for folder in list(package.parents)[3:4]]
    for path in paths:
        if path.is_file():
            return str(path)
    searched = " and ".join(str(path) for path in paths)
    raise ImportError(
        f"libmmsb.so is not at {searched}: install the wheel, run `make` in a checkout, or set MMSB_LIBRARY to its path"
    )


class Library:
    """The functions of libmmsb as attributes.

    The first access loads the shared library: a process may fork before it, never after it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._touched = False
        #: Whether the process is a child of one that had loaded the library.
        self.forked = False
        os.register_at_fork(after_in_child=self._after_fork)

    @property
    def loaded(self) -> bool:
        """Whether the shared library is in the process and may be used."""
        return "mmsb_version" in self.__dict__

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _abi.FUNCTIONS:
            raise AttributeError(f"libmmsb has no function {name}")
        self._load()
        function: Callable[..., Any] = self.__dict__[name]
        return function

    def _load(self) -> None:
        with self._lock:
            if self.forked:
                raise ForkedError(
                    "this process was forked from one that used libmmsb: use libmmsb only after the fork, "
                    "or start processes with spawn or forkserver"
                )
            if self.loaded:
                return
            path = find_library()
            self._touched = True
            try:
                doors = ctypes.CDLL(path), ctypes.PyDLL(path)
                functions = {name: _declare(doors[name in KEEPS_INTERPRETER_LOCK], name) for name in _abi.FUNCTIONS}
            except (OSError, AttributeError) as error:
                raise ImportError(f"cannot load {path}: {error}; rebuild it or correct MMSB_LIBRARY") from error
            _verify(functions, path)
            self.__dict__.update(functions)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        if self._touched:
            self.forked = True
            for name in _abi.FUNCTIONS:
                self.__dict__.pop(name, None)


def _declare(door: ctypes.CDLL, name: str) -> Callable[..., Any]:
    function = getattr(door, name)
    function.restype, function.argtypes = _abi.FUNCTIONS[name]
    checked: Callable[..., Any] = function
    return checked


def _verify(functions: dict[str, Callable[..., Any]], path: str) -> None:
    """Refuses a library that was built for another header."""
    abi = functions["mmsb_abi_version"]()
    if abi != _abi.ABI_VERSION:
        raise ImportError(f"{path} has ABI {abi}, this package needs {_abi.ABI_VERSION}: install both of the same release")
    for number, struct in _abi.STRUCTS.items():
        ours, theirs = ctypes.sizeof(struct), functions["mmsb_sizeof"](number)
        if ours != theirs:
            raise ImportError(
                f"{struct.__name__} has {theirs} bytes in {path} and {ours} in this package: install both of the same release"
            )


lib = Library()


def failure(status: int) -> MMSBError:
    """The exception for the call that has just failed on this thread."""
    matches = lib.mmsb_last_error_code() == status
    text: bytes = lib.mmsb_last_error() if matches else lib.mmsb_strerror(status)
    detail = sized(_abi.ErrorDetail)
    known = matches and lib.mmsb_last_error_detail(ctypes.byref(detail)) == _abi.OK and detail.domain
    message = naming_pages(text.decode("utf-8", "replace"))
    missing = known and detail.domain == _abi.DOMAIN_ERRNO and detail.foreign_code == errno.ENOENT
    if missing and status == _abi.E_NOT_FOUND:
        error: MMSBError = _errors.MissingFileError(message)
    elif missing and status == _abi.E_IO:
        error = _errors.MissingFolderError(message)
    else:
        error = error_for(status, message)
    if known:
        error.foreign_code = detail.foreign_code
        error.domain = name_of(_abi.DOMAIN, detail.domain)
        if detail.domain == _abi.DOMAIN_ERRNO and isinstance(error, OSError):
            error.errno = detail.foreign_code
    return error


# The library's texts name pages by their handles, Python's by their ids.
_PAGE = re.compile(r"\bpage (0x[0-9a-f]{16})\b")


def naming_pages(text: str) -> str:
    """A text of the library, with the ids of pages that live."""
    return _PAGE.sub(_with_id, text)


def _with_id(named: re.Match[str]) -> str:
    """The page of a text by its id, as long as it lives."""
    id = lib.mmsb_page_id(int(named[1], 16))
    return f"page {id}" if id else named[0]


def check(status: int) -> None:
    """Raises the exception for a status that is not OK. Call it at once, on the thread of the failed call."""
    if status:
        raise failure(status)


def number_from(call: Callable[..., int], *arguments: object, check: Callable[[int], None] = check) -> int:
    """The 64-bit number, such as a new handle, that a function stores at its last argument."""
    number = ctypes.c_uint64()
    check(call(*arguments, number))
    return number.value


def listed(
    kind: Any, call: Callable[..., int], *arguments: object, capacity: int = 16, check: Callable[[int], None] = check
) -> list[Any]:
    """One of the library's lists, whatever its length; capacity is how many items are expected.

    call takes the arguments, an array of a kind, its length, and where the number of items goes.
    """
    count = ctypes.c_size_t()
    while True:
        found: ctypes.Array[Any] = (kind * capacity)()
        status = call(*arguments, found, capacity, count)
        if status != _abi.E_OUT_OF_RANGE or count.value <= capacity:
            check(status)
            return found[: count.value]
        capacity = count.value


S = TypeVar("S", bound=ctypes.Structure)
R = TypeVar("R")


def sized(struct: type[S]) -> S:
    """An empty struct for the library to fill: it has its size, and nothing else."""
    return struct(struct_size=ctypes.sizeof(struct))


def as_record(kind: type[R], raw: ctypes.Structure, /, **others: object) -> R:
    """The fields of a struct as a record of some kind, whose other fields are given."""
    names = (name for name in kind.__annotations__ if name not in others)
    return kind(**{name: getattr(raw, name) for name in names}, **others)


def sync_of(direction: str, wins: str | None, pinned: bool = False) -> int:
    """A direction of syncs, with the side whose bytes go on where both sides were written; None: that is an error."""
    won = 0 if wins is None else value_of(SYNC_WINS, wins, "wins")
    return value_of(SYNCS, direction, "direction") | won | (_abi.SYNC_PINNED if pinned else 0)


def name_of(names: dict[str, int], value: int) -> str:
    """The name of a value, or the number as text if this table does not have it."""
    for name, number in names.items():
        if number == value:
            return name
    return str(value)


def value_of(names: dict[str, int], name: str, what: str) -> int:
    """The value of a name; what is the name of the argument, for the error."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {type(name).__name__}")
    try:
        return names[name]
    except KeyError:
        raise _errors.InvalidArgumentError(f"{what} {name!r} is not one of {', '.join(names)}") from None
