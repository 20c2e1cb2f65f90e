"""Converts Python's values to what the library takes: buffers without copies, checked integers, text."""

from __future__ import annotations

import ctypes
import operator
import re
import sys
from array import array
from collections.abc import Callable, Iterable
from ctypes import c_char_p, c_int, c_size_t, c_ssize_t, c_void_p, py_object
from typing import TYPE_CHECKING, Any, SupportsIndex, Union, cast

from . import _abi
from ._errors import InvalidArgumentError, MismatchError, MMSBError, OutOfMemoryError, OutOfRangeError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Buffer as BufferProtocol
    from typing_extensions import TypeGuard

#: Anything whose bytes can be read: bytes, bytearray, memoryview, array, NumPy arrays of any type.
BytesLike = Union["BufferProtocol", "NDArray[Any]"]
#: Bytes, or a sequence of numbers from 0 to 255 (or of bools).
BytesOrNumbers = Union[BytesLike, "list[int]", "tuple[int, ...]"]
#: Unsigned 64-bit numbers: an array of them is used without a copy, anything else is converted.
Numbers = Union[BytesLike, Iterable[SupportsIndex]]

UINT64_MAX = 2**64 - 1

# A separate handle of the interpreter: argument types set on ctypes.pythonapi would change it for the whole process.
_python = ctypes.PyDLL(None)


class _PyBuffer(ctypes.Structure):
    _fields_ = (
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    )


_get_buffer = _python.PyObject_GetBuffer
_get_buffer.argtypes = (py_object, ctypes.POINTER(_PyBuffer), c_int)
_get_buffer.restype = c_int
_release_buffer = _python.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None
_new_bytes = _python.PyBytes_FromStringAndSize
_new_bytes.argtypes = (c_void_p, c_ssize_t)
_new_bytes.restype = py_object

# Memoryviews tell their format only together with their shape.
_WRITABLE, _FORMAT_AND_SHAPE = 1, 4 | 8
_NAMES = re.compile(rb":[^:]*:")
_empty = ctypes.c_uint64()
_NOWHERE = ctypes.addressof(_empty)


class Buffer:
    """Address and length of an object's contiguous bytes, which stay where they are until this object dies."""

    __slots__ = ("_view", "address", "length")

    def __init__(self, source: BytesLike, writable: bool = False) -> None:
        self._view = view_of(source)  # it ends without Python: an exception of a signal's handler is lost in a __del__()
        found = _PyBuffer()
        try:
            _get_buffer(self._view, found, _FORMAT_AND_SHAPE | (_WRITABLE if writable else 0))
            refuse_objects(found.format)
            self.length: int = found.len
            # An empty buffer may have any address; the library gets one that is aligned for every type.
            self.address: int = found.buf if self.length else _NOWHERE
        finally:
            _release_buffer(found)


def refuse_objects(code: bytes | None) -> None:
    """Raises TypeError for the items of an array of objects: their bytes are addresses."""
    if code is not None and b"O" in code and b"O" in _NAMES.sub(b"", code):
        raise TypeError("an array of Python objects has no bytes that could be stored; convert it to an array of numbers first")


def view_of(source: BytesLike) -> memoryview:
    """A view of source. Not all type checkers know that NumPy's arrays have the buffer protocol."""
    return memoryview(cast("BufferProtocol", source))


def readable(source: BytesOrNumbers) -> Buffer:
    """The bytes of source, copied if they are not contiguous."""
    if isinstance(source, (list, tuple)):
        return Buffer(bytes(source))
    try:
        return Buffer(source)
    except (BufferError, ValueError):
        view = view_of(source)
        refuse_objects(view.format.encode())
        return Buffer(view.tobytes())


def new_bytes(length: int) -> bytes:
    """A bytes object with undefined contents, which one library call fills before other code sees it."""
    fresh: bytes = _new_bytes(None, length)
    return fresh


def words(source: Numbers, what: str) -> Buffer:
    """An array of unsigned 64-bit numbers: source itself if it is one."""
    if not has_buffer(source):
        return Buffer(_array(source, what))
    if buffer := _as_numbers(source, "Q"):
        return buffer
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.ndarray) and source.dtype.kind in "iu":
        if source.size and source.min() < 0:
            raise OutOfRangeError(f"{what} has a {source.min()}; the range is 0 to {UINT64_MAX}")
        return Buffer(source.astype(numpy.uint64, order="C"))
    return Buffer(_array(source, what))


def half_words(source: Numbers) -> Buffer | None:
    """Source itself if it is an array of unsigned 32-bit numbers, else None."""
    return _as_numbers(source, "I") if has_buffer(source) else None


def _as_numbers(source: BytesLike, code: str) -> Buffer | None:
    """Source itself, or a copy that is aligned, if its items are unsigned numbers of an array of this code."""
    view, size = view_of(source), array(code).itemsize
    if view.itemsize != size or view.format.strip("@=<") not in (code, "L"):
        return None
    buffer = readable(source)
    return buffer if buffer.address % size == 0 else Buffer(array(code, view.tobytes()))


def has_buffer(source: object) -> TypeGuard[BytesLike]:
    """Whether source has the buffer protocol."""
    try:
        memoryview(source)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _array(source: Any, what: str) -> array[int]:
    try:
        return array("Q", list(source))
    except OverflowError:
        raise OutOfRangeError(f"{what} has a number outside the range 0 to {UINT64_MAX}") from None


def zeroed_words(count: int) -> array[int]:
    """An array of count unsigned 64-bit zeros."""
    try:
        return array("Q", (0,)) * count
    except (MemoryError, OverflowError):
        raise OutOfMemoryError(f"an array of {count} handles exceeds the available memory") from None


def unsigned(value: SupportsIndex, what: str, error: type[MMSBError] = InvalidArgumentError) -> int:
    """Value as an unsigned 64-bit number. ctypes would silently drop the higher bits."""
    number = operator.index(value)
    if not 0 <= number <= UINT64_MAX:
        raise error(f"{what} is {number}; the range is 0 to {UINT64_MAX}")
    return number


def extent(offset: SupportsIndex, length: SupportsIndex | None, size: int) -> tuple[int, int]:
    """Offset and length of a part of a page of size bytes; length None: all to the end. The library checks their sum."""
    offset = unsigned(offset, "offset", OutOfRangeError)
    length = max(size - offset, 0) if length is None else unsigned(length, "length", OutOfRangeError)
    if length > size:
        raise OutOfRangeError(f"offset {offset} and length {length} reach past the page's {size} bytes")
    return offset, length


def signed(value: SupportsIndex, what: str) -> int:
    """Value as a signed 32-bit number."""
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise InvalidArgumentError(f"{what} is {number}; the range is {-(2**31)} to {2**31 - 1}")
    return number


def item_type(dtype: DTypeLike) -> numpy.dtype[Any]:
    """NumPy's dtype of the items that a page is viewed as."""
    import numpy

    item = numpy.dtype(dtype)
    if item.hasobject or item.itemsize == 0:
        raise TypeError(f"a page cannot be viewed as {item}")
    return item


def check_items(size: int, item: numpy.dtype[Any]) -> None:
    """Raises MismatchError where a page of size bytes does not hold whole items."""
    if size % item.itemsize:
        raise MismatchError(f"the page's {size} bytes are not a multiple of the {item.itemsize} bytes of {item}")


def as_array(view: NDArray[Any], dtype: Any, copy: bool | None) -> NDArray[Any]:
    """Finishes NumPy's array protocol for a view: converts to dtype and copies as asked."""
    import numpy

    if dtype is not None and numpy.dtype(dtype) != view.dtype:
        if copy is False:
            raise ValueError(f"{view.dtype} cannot become {numpy.dtype(dtype)} without a copy")
        return view.astype(dtype)
    return view.copy() if copy else view


def encoded(text: str, what: str) -> bytes:
    """Text in UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} cannot be encoded as UTF-8: {error}") from None


def c_text(text: str, what: str) -> bytes:
    """Text in UTF-8 for a zero-terminated argument."""
    data = encoded(text, what)
    if b"\0" in data:
        raise InvalidArgumentError(f"{what} has a zero byte at offset {data.index(0)}")
    return data


def nanoseconds(timeout: float | None) -> int:
    """A timeout in seconds as the library's nanoseconds; None waits without limit."""
    if timeout is None:
        return _abi.WAIT_FOREVER
    if not timeout >= 0:
        raise InvalidArgumentError(f"timeout is {timeout}; the minimum is 0 seconds")
    return int(min(timeout * 1e9, _abi.WAIT_FOREVER // 2))


def fetch(call: Callable[[bytes, int, Any], int], item: int = 1, capacity: int = 256) -> tuple[int, bytes]:
    """Reads one of the library's lists, whatever its length; an item has item bytes.

    call takes (buffer, capacity, pointer to the count) and returns a status. Returns (status, bytes).
    """
    count = c_size_t()
    while True:
        data = new_bytes(capacity * item)
        status = call(data, capacity, ctypes.byref(count))
        if status != _abi.E_OUT_OF_RANGE or count.value <= capacity:
            return status, data[: count.value * item] if status == _abi.OK else b""
        capacity = count.value
