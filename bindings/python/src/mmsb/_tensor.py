"""The protocols by which arrays change hands without a copy: what a capsule or a dict says of memory, checked by the library."""

from __future__ import annotations

import ctypes
import importlib
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from datetime import datetime_CAPI
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, Union
from weakref import WeakSet

from . import _abi
from ._convert import Buffer, has_buffer
from ._errors import (
    InvalidArgumentError,
    InvalidSizeError,
    InvalidStateError,
    MismatchError,
    MMSBError,
    OutOfRangeError,
    UnsupportedError,
)
from ._ffi import check, lib, sized

if TYPE_CHECKING:
    import numpy

    from ._convert import BytesLike

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

#: CUDA's default stream, as the driver and both protocols name it.
DEFAULT_STREAM = 1

#: The version of DLPack that is asked for.
_VERSION = (1, 0)

# ------------------------------------------------------------------------------------------------------------- types


class ItemType(NamedTuple):
    """A type of numbers: DLPack's code and bits, and the array interfaces' name, None where they have none."""

    name: str
    code: int
    bits: int
    typestr: str | None

    @property
    def bytes(self) -> int:
        """Of an item."""
        return self.bits // 8


def _types() -> Iterator[ItemType]:
    yield ItemType("bool", 6, 8, "|b1")
    for size in (1, 2, 4, 8):
        order = "<" if size > 1 else "|"
        yield ItemType(f"int{8 * size}", 0, 8 * size, f"{order}i{size}")
        yield ItemType(f"uint{8 * size}", 1, 8 * size, f"{order}u{size}")
        if size > 1:
            yield ItemType(f"float{8 * size}", 2, 8 * size, f"<f{size}")
        if size > 2:
            yield ItemType(f"complex{16 * size}", 5, 16 * size, f"<c{2 * size}")
    yield ItemType("bfloat16", 4, 16, None)
    kinds = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
    for code, kind in enumerate(kinds, 7):
        yield ItemType(f"float8_{kind}", code, 8, None)


_NAMED = {item.name: item for item in _types()}
_BY_TYPESTR = {item.typestr.lstrip("<|"): item for item in _NAMED.values() if item.typestr is not None}
_BY_TYPESTR |= {
    "float": _NAMED["float64"],
    "int": _NAMED["int64"],
    "complex": _NAMED["complex128"],
}  # Python's, as NumPy has them


def item_type_of(dtype: Any) -> ItemType:
    """The type of a name ("float32", "f4"), or of a dtype of NumPy, PyTorch, JAX or ml_dtypes."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    short = str(name).rpartition(".")[2]
    found = _NAMED.get(short) or _BY_TYPESTR.get(short.lstrip("<|="))
    if found is None:
        raise InvalidArgumentError(
            f"dtype {name!r} is not one of {', '.join(_NAMED)}; Page.array() takes NumPy's structured types"
        )
    return found


def ml_type(name: str) -> numpy.dtype[Any]:
    """NumPy's dtype of a name that only the package ml_dtypes knows. UnsupportedError: the package is missing, or too old."""
    import numpy

    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError:
        raise UnsupportedError(f"NumPy has {name} only with the package ml_dtypes, which is not installed") from None
    if not hasattr(ml_dtypes, name):
        raise UnsupportedError(f"ml_dtypes {ml_dtypes.__version__} has no {name}")
    found: numpy.dtype[Any] = numpy.dtype(getattr(ml_dtypes, name))
    return found


# ---------------------------------------------------------------------------------------------------------- structs


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


# --------------------------------------------------------------------------------------------------------- capsules

_python = ctypes.PyDLL(None)


def _capsules(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    function = getattr(_python, f"PyCapsule_{name}")
    function.restype, function.argtypes = result, arguments
    declared: Callable[..., Any] = function
    return declared


_new = _capsules("New", py_object, c_void_p, c_void_p, c_void_p)
_is_valid = _capsules("IsValid", c_int, py_object, c_char_p)
_pointer = _capsules("GetPointer", c_void_p, py_object, c_char_p)
_name_of = _capsules("GetName", c_char_p, py_object)
_rename = _capsules("SetName", c_int, py_object, c_void_p)
_Capsule = type(datetime_CAPI)

# A capsule has the address of its name, also when the interpreter ends: these are never freed.
_NEWEST_FIRST = (b"dltensor_versioned", b"dltensor")
_NAMES = {text: ctypes.create_string_buffer(text) for text in _NEWEST_FIRST}
_USED = {text: ctypes.create_string_buffer(b"used_" + text) for text in _NAMES}
_ARROW = {text: ctypes.create_string_buffer(text) for text in (b"arrow_schema", b"arrow_array", b"arrow_device_array")}
for _kept in (_NAMES, _USED, _ARROW):
    ctypes.PyDLL(None).Py_IncRef(py_object(_kept))


@lru_cache(maxsize=1)
def _destructor() -> int | None:
    """Of our capsules: the address of the function."""
    return ctypes.cast(lib.mmsb_tensor_capsule_end, c_void_p).value  # type: ignore[arg-type]


def export(
    make: Callable[[_abi.TensorOptions, c_void_p], int], options: _abi.TensorOptions, failed: Callable[[int], None]
) -> Any:
    """A capsule with a tensor that make() exports. Dropping it, or what a consumer has made of it, ends it. failed: raises."""
    name, destructor = _NAMES[b"dltensor_versioned" if options.versioned else b"dltensor"], _destructor()
    tensor, capsule = c_void_p(), None
    try:
        status = make(options, tensor)
    finally:  # nothing comes between the call's return and the capsule, which has the tensor from then on
        if tensor.value:
            capsule = _new(tensor, name, destructor)
    failed(status)
    return capsule


_allocate = _python.PyMem_RawCalloc
_allocate.restype, _allocate.argtypes = c_void_p, (c_size_t, c_size_t)

#: Of a struct ArrowDeviceArray, the largest of Arrow's, and of what says in an array that it is not released.
_ARROW_BYTES, _ARRAY_RELEASE = 128, 64


def _arrow_capsule(name: bytes) -> tuple[Any, int]:
    """A capsule with a struct of Arrow that is released, and the struct's address."""
    destructor = _destructor()
    capsule = _new(_allocate(1, _ARROW_BYTES), _ARROW[name], destructor)
    return capsule, _pointer(capsule, name)


def arrow_schema(capsule: Any) -> Any:
    """A capsule with the Arrow schema of a tensor of export() with a version."""
    schema, address = _arrow_capsule(b"arrow_schema")
    check(lib.mmsb_tensor_to_arrow(_pointer(capsule, b"dltensor_versioned"), 1, None, address))
    return schema


def arrow_array(capsule: Any, device: bool) -> tuple[Any, Any]:
    """Capsules with the schema and the array of a tensor of export() with a version, which the array has from then on."""
    name = b"dltensor_versioned"
    schema, schema_address = _arrow_capsule(b"arrow_schema")
    array, address = _arrow_capsule(b"arrow_device_array" if device else b"arrow_array")
    release = c_void_p.from_address(address + _ARRAY_RELEASE)
    try:
        status = lib.mmsb_tensor_to_arrow(_pointer(capsule, name), 1, address, schema_address)
    finally:  # exactly one of the two has the tensor
        if release.value:
            _rename(capsule, _USED[name])
    check(status)
    return schema, array


#: Of a struct ArrowArray, with which a struct ArrowDeviceArray begins, and what says that the host has it.
_ARRAY_BYTES, _ON_HOST = 80, struct.pack("=qi", -1, CPU)


def _arrow_tensor(source: Any) -> Any:
    """A capsule with a tensor of an object's array of Arrow, which the tensor has from then on. Nobody may write it."""
    if hasattr(type(source), "__arrow_c_device_array__"):
        schema, capsule_of_array = source.__arrow_c_device_array__()
        given = array = _arrow_struct(capsule_of_array, b"arrow_device_array")
    else:
        schema, capsule_of_array = source.__arrow_c_array__()
        given = _arrow_struct(capsule_of_array, b"arrow_array")
        copy = ctypes.create_string_buffer(ctypes.string_at(given, _ARRAY_BYTES) + _ON_HOST, _ARROW_BYTES)
        array = ctypes.addressof(copy)
    release = c_void_p.from_address(given + _ARRAY_RELEASE)
    tensor, capsule, destructor = c_void_p(), None, _destructor()
    try:
        status = lib.mmsb_tensor_from_arrow(array, _arrow_struct(schema, b"arrow_schema"), tensor)
    finally:  # exactly one of the two has the array
        if tensor.value:
            release.value = None
            capsule = _new(tensor, _NAMES[b"dltensor_versioned"], destructor)
    check(status)
    return capsule


def _arrow_struct(capsule: Any, name: bytes) -> int:
    """The address of the struct of Arrow in a capsule of others."""
    if not isinstance(capsule, _Capsule) or not _is_valid(capsule, name):
        found = _name_of(capsule) if isinstance(capsule, _Capsule) else type(capsule).__name__
        raise InvalidArgumentError(f"the Arrow capsule is {found!r}; {name.decode()} is needed")
    address: int = _pointer(capsule, name)
    return address


def is_versioned(capsule: Any) -> bool:
    """Of a capsule of export()."""
    return bool(_is_valid(capsule, b"dltensor_versioned"))


_DEVICE_TYPES = {_abi.LOCATION_GPU: CUDA, _abi.LOCATION_UNIFIED: CUDA_MANAGED, _abi.LOCATION_PINNED: CUDA_HOST}


def dlpack_device_type(location: int) -> int:
    """DLPack's device type of a page's location."""
    return _DEVICE_TYPES.get(location, CPU)


def tensor_in(capsule: Any) -> _Tensor:
    """The tensor of a capsule of export(), which must live as long."""
    if not is_versioned(capsule):  # it comes first
        return _Tensor.from_address(_pointer(capsule, b"dltensor"))
    tensor: _Tensor = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).tensor
    return tensor


class Lent:
    """Memory of an object that lives as long as this does."""

    __slots__ = ("address", "length", "owner", "stream")

    def __init__(self, address: int, length: int, owner: object, stream: int | None = None) -> None:
        self.address = address
        self.length = length
        self.owner = owner
        #: Of memory of a device: the driver's stream that its contents come after, or 0. None: the host can access the memory.
        self.stream = stream


def stream_of(memory: Lent | Buffer) -> int | None:
    """As Lent's."""
    return memory.stream if isinstance(memory, Lent) else None


class Wanted(NamedTuple):
    """What memory of an object is wanted for."""

    writable: bool
    #: Only where the items lie row by row.
    rows: bool = False
    #: The device and the driver's pointer of a stream whose work will use the memory: a producer that can makes it wait.
    stream: tuple[int, int] | None = None

    def refuse_read_only(self, what: str, size: int) -> InvalidStateError:
        """The error where it is read-only."""
        cure = "" if self.rows else ": adopt it with read_only=True"
        return InvalidStateError(f"the {what}'s {size} bytes are read-only{cure}")


TO_READ, TO_WRITE = Wanted(writable=False), Wanted(writable=True)


def is_row_major(shape: Sequence[int], strides: Sequence[int] | None, unit: int = 1) -> bool:
    """Whether items lie row by row. strides: in steps of which an item has unit."""
    step = unit
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length != 1 and stride != step:
            return 0 in shape
        step *= length
    return True


def _must_be_rows(what: str, shape: Sequence[int], strides: Sequence[int] | None, unit: int = 1) -> None:
    if not is_row_major(shape, strides, unit):
        raise UnsupportedError(
            f"the {what} has strides {tuple(strides or ())} for the shape {tuple(shape)}: it does not lie row by row"
        )


class _Taken:
    """A capsule of the program's that was used: its tensor is in a capsule of ours."""

    __slots__ = ("mine", "name", "theirs")

    def __init__(self, theirs: Any, name: bytes) -> None:
        self.theirs, self.name = theirs, name
        self.mine = _new(_pointer(theirs, name), _USED[name], _destructor())
        try:
            _rename(theirs, _USED[name])
        finally:  # exactly one of the two has the tensor
            _rename(self.mine, _NAMES[name])

    def give_back(self) -> None:
        """Undoes it."""
        _rename(self.mine, _USED[self.name])
        _rename(self.theirs, _NAMES[self.name])


_taking = threading.Lock()


def give_back(lents: Iterable[Lent | Buffer]) -> None:
    """What was not adopted: capsules can be used again."""
    for lent in lents:
        owner = getattr(lent, "owner", None)
        if isinstance(owner, _Taken):
            owner.give_back()


def _tensor_info(tensor: object, versioned: bool) -> _abi.TensorInfo:
    info = sized(_abi.TensorInfo)
    check(lib.mmsb_tensor_info(tensor, int(versioned), info))
    return info


def _lend_capsule(capsule: Any, wanted: Wanted, done: bool = False) -> Lent:
    """The memory of a capsule that nobody else has. done: what the producer does with the memory, too."""
    _, info = _read_capsule(capsule, wanted)
    if info.device_type != CUDA:
        return Lent(info.address, info.bytes, capsule)
    # The producer has made the stream that it was asked for, or its default stream, wait for what it does.
    asked = _asks_for(wanted, (CUDA, info.device))
    return Lent(info.address, info.bytes, capsule, 0 if asked or done else DEFAULT_STREAM)


def _take_capsule(capsule: Any, wanted: Wanted) -> Lent:
    """The memory of a capsule of the program's, which is used then."""
    with _taking:
        name, info = _read_capsule(capsule, wanted)
        return Lent(info.address, info.bytes, _Taken(capsule, name), DEFAULT_STREAM if info.device_type == CUDA else None)


def _read_capsule(capsule: Any, wanted: Wanted) -> tuple[bytes, _abi.TensorInfo]:
    """The name of a capsule, and what its tensor says: memory that can be had as it is wanted."""
    for name in _NEWEST_FIRST:
        if _is_valid(capsule, name):
            break
    else:
        found = _name_of(capsule)
        hint = "; a consumer has used it" if found and found.startswith(b"used_") else ""
        raise InvalidArgumentError(f"the capsule's name is {found!r}; dltensor or dltensor_versioned is needed{hint}")
    versioned = name == b"dltensor_versioned"
    info = _tensor_info(_pointer(capsule, name), versioned)
    if info.copied:
        raise UnsupportedError(f"the producer made a copy of {info.bytes} bytes: what a page changes there nobody else sees")
    if info.read_only and wanted.writable:
        raise wanted.refuse_read_only("tensor", info.bytes)
    if wanted.rows:
        tensor = _tensor_of(capsule, versioned)
        shape = tensor.shape[: tensor.ndim]
        _must_be_rows("tensor", shape, tensor.strides[: tensor.ndim] if tensor.strides else None)
    return name, info


def _tensor_of(capsule: Any, versioned: bool) -> _Tensor:
    if versioned:
        return tensor_in(capsule)
    return _Tensor.from_address(_pointer(capsule, b"dltensor"))


def _asks_for(wanted: Wanted, device: tuple[int, int]) -> bool:
    """Whether a producer of memory on a device is asked for the stream."""
    return wanted.stream is not None and device == (CUDA, wanted.stream[0])


def _capsule_of(source: Any, wanted: Wanted, unversioned: bool = True) -> Any:
    """Asks a producer for a capsule with a version. unversioned: else for one without, which cannot say that it is read-only."""
    asked: dict[str, int] = {}
    if wanted.stream is not None and hasattr(source, "__dlpack_device__"):
        kind, number = source.__dlpack_device__()
        if kind == CUDA and number != wanted.stream[0]:
            raise MismatchError(f"the {type(source).__name__} lies on device {number}, the stream's is {wanted.stream[0]}")
        if _asks_for(wanted, (kind, number)):
            asked["stream"] = wanted.stream[1] or DEFAULT_STREAM
    try:
        return source.__dlpack__(max_version=_VERSION, **asked)
    except TypeError:  # it is older than DLPack 1.0, or it has no tensor
        if not unversioned:
            raise
        return source.__dlpack__(**asked)


# -------------------------------------------------------------------------------------------------- array interfaces

_TYPESTR = re.compile(r"([<>|=])([biufcmMSUV])(\d+)(\[\w+\])?")


def _numbers(values: Any, what: str) -> list[int]:
    try:
        numbers = [int(value.__index__()) for value in values]
    except (AttributeError, TypeError):
        raise InvalidArgumentError(f"{what} is {values!r}, not a tuple of integers") from None
    for number in numbers:
        if not -(2**63) <= number < 2**63:
            raise InvalidSizeError(f"{what} has {number}; the range is {-(2**63)} to {2**63 - 1}")
    return numbers


class Interface(NamedTuple):
    """What an array interface says, checked: its items lie one behind the other."""

    address: int
    bytes: int
    read_only: bool
    owner: object
    stream: int | None


def read_interface(found: Any, what: str, device_type: int, wanted: Wanted = TO_READ) -> Interface:
    """The dict of an __array_interface__ or __cuda_array_interface__, whose name is what."""
    if not isinstance(found, dict) or "shape" not in found or "typestr" not in found:
        raise InvalidArgumentError(f"{what} is not a dict with shape and typestr")
    version = found.get("version")
    least = 3 if device_type == CPU else 0
    if not isinstance(version, int) or version < least:
        raise InvalidArgumentError(f"version of {what} is {version!r}, at least {least} is needed")
    if found.get("mask") is not None:
        raise UnsupportedError(f"{what} has a mask, which a page cannot have")
    type_name = _TYPESTR.fullmatch(str(found["typestr"]))
    if type_name is None:
        raise InvalidArgumentError(f"typestr of {what} is {found['typestr']!r}, which names no numbers of a known size")
    item = int(type_name[3]) * (4 if type_name[2] == "U" else 1)
    shape = [*_numbers(found["shape"], f"shape of {what}"), *_numbers((item,), f"the item size of {what}")]
    strides = found.get("strides")
    steps = None if strides is None else [*_numbers(strides, f"strides of {what}"), 1]
    if steps is not None and len(steps) != len(shape):
        raise MismatchError(f"{what} has {len(shape) - 1} numbers in shape and {len(steps) - 1} in strides")
    data, limit, owner, read_only = found.get("data"), None, None, False
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], int):
        address, read_only = data[0], bool(data[1])
    elif device_type == CPU and has_buffer(data):
        owner = Buffer(data, wanted.writable)
        limit = owner.length
        (offset,) = _numbers((found.get("offset", 0),), f"offset of {what}")
        if not 0 <= offset <= limit:
            raise OutOfRangeError(f"offset of {what} is {offset}, and its data has {limit} bytes")
        address, limit = owner.address + offset, limit - offset
    else:
        raise InvalidArgumentError(f"data of {what} is {type(data).__name__}, not (address, read_only)")
    if not 0 <= address < 2**64:
        raise InvalidSizeError(f"address of {what} is {address}; the range is 0 to {2**64 - 1}")
    size = _dense(address, shape, steps, device_type)
    if wanted.rows:
        _must_be_rows(what, shape[:-1], strides, item)
    if limit is not None and size > limit:
        raise OutOfRangeError(f"{what} has {size} bytes, and its data has {limit} from offset {found.get('offset', 0)} on")
    stream = found.get("stream")
    if device_type == CUDA and (stream == 0 or not (stream is None or isinstance(stream, int))):
        raise InvalidArgumentError(f"stream of {what} is {stream!r}; None, 1, 2 or a stream's address is needed")
    return Interface(address, size, read_only, owner, stream)


def _dense(address: int, shape: Sequence[int], strides: Sequence[int] | None, device_type: int) -> int:
    """The number of bytes of an array, whose last dimension is that of bytes. The library checks it, as a tensor."""
    if len(shape) > 64:
        raise InvalidArgumentError(f"ndim is {len(shape) - 1}; the range is 0 to 63")
    words = c_int64 * len(shape)
    steps = None if strides is None else words(*strides)
    tensor = _Tensor(address, device_type, 0, len(shape), 1, 8, 1, words(*shape), steps, 0)
    info = _tensor_info(ctypes.byref(tensor), False)
    return int(info.bytes)


# ------------------------------------------------------------------------------------------------------------- lending

#: What can be adopted: an object with the buffer protocol, __dlpack__, __array_interface__, __cuda_array_interface__ or
#: Arrow's __arrow_c_device_array__ or __arrow_c_array__, or a capsule of DLPack.
Lender = Union["BytesLike", Any]


# Classes of arrays without the buffer protocol: an exception tells of each once.
_without_buffer: WeakSet[type[Any]] = WeakSet()


def lend(source: Lender, wanted: Wanted) -> Lent | Buffer:
    """The memory of an object, by the first protocol that it has."""
    if isinstance(source, _Capsule):
        return _take_capsule(source, wanted)
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(source, masked.MaskedArray):
        raise UnsupportedError("the array has a mask, which its memory does not: take its data and its mask as two arrays")
    if type(source) in _without_buffer:
        return _lend_array(source, wanted)
    try:
        return Buffer(source, wanted.writable)
    except TypeError:
        if has_buffer(source):  # of Python objects
            raise
        _without_buffer.add(type(source))
        return _lend_array(source, wanted)
    except (ValueError, BufferError):  # read-only, items that the buffer protocol does not know, or not row by row
        if wanted.writable and (size := _read_only_bytes(source)) is not None:
            raise wanted.refuse_read_only(type(source).__name__, size) from None
        found = getattr(source, "__array_interface__", None)
        if found is not None:
            return _lend_interface(source, found, wanted)
        if not hasattr(type(source), "__dlpack__"):
            raise
        return _lend_array(source, wanted)


def _read_only_bytes(source: Any) -> int | None:
    """How many bytes an object has that can only be read; None where its bytes cannot be had so either."""
    try:
        return Buffer(source).length
    except (ValueError, BufferError):
        return None


def _has_arrow(source: Any) -> bool:
    return hasattr(type(source), "__arrow_c_device_array__") or hasattr(type(source), "__arrow_c_array__")


def _lend_array(source: Any, wanted: Wanted) -> Lent:
    kind = type(source)
    if hasattr(kind, "__dlpack__"):
        arrow = _has_arrow(source)
        try:
            return _lend_capsule(_capsule_of(source, wanted, unversioned=not arrow), wanted)
        except MMSBError:
            raise
        except Exception:
            if not arrow:  # pyarrow has tensors of numbers, and lists of them as Arrow's arrays
                raise
    found = getattr(source, "__array_interface__", None)
    if found is not None:
        return _lend_interface(source, found, wanted)
    found = getattr(source, "__cuda_array_interface__", None)
    if found is not None:
        return _lend_interface(source, found, wanted, "__cuda_array_interface__", CUDA)
    if _has_arrow(source):
        return _lend_capsule(_arrow_tensor(source), wanted, done=True)
    raise TypeError(
        f"{kind.__name__} is no memory: it has neither the buffer protocol nor __dlpack__, __array_interface__, "
        "__cuda_array_interface__ or __arrow_c_array__"
    )


class Described(NamedTuple):
    """Memory of an array, and what its tensor says of the items there. strides: in items; None for row-major."""

    lent: Lent
    item: ItemType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    read_only: bool


def describe(source: Any) -> Described:
    """The memory of an object with __dlpack__, to read, and its type and shape."""
    capsule = _capsule_of(source, TO_READ)
    lent = _lend_capsule(capsule, TO_READ)
    tensor, read_only = _tensor_of(capsule, is_versioned(capsule)), False
    if is_versioned(capsule):
        read_only = bool(_Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).flags & 1)
    found = [item for item in _NAMED.values() if (item.code, item.bits, 1) == (tensor.code, tensor.bits, tensor.lanes)]
    if not found:
        raise UnsupportedError(f"the tensor's items are of DLPack's type {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    return Described(lent, found[0], tuple(tensor.shape[: tensor.ndim]), strides, read_only)


def _lend_interface(source: Any, found: Any, wanted: Wanted, what: str = "__array_interface__", device_type: int = CPU) -> Lent:
    memory = read_interface(found, what, device_type, wanted)
    if memory.read_only and wanted.writable:
        raise wanted.refuse_read_only(type(source).__name__, memory.bytes)
    stream = None if device_type == CPU else memory.stream or 0
    return Lent(memory.address, memory.bytes, (source, memory.owner), stream)


def lend_all(sources: Iterable[Lender], writable: bool) -> list[Lent | Buffer]:
    """lend() of all objects, or of none."""
    lents: list[Lent | Buffer] = []
    try:
        for source in sources:
            lents.append(lend(source, Wanted(writable)))
    except BaseException:
        give_back(lents)
        raise
    return lents


@lru_cache(maxsize=1)
def _tensor_defaults() -> _abi.TensorOptions:
    options = _abi.TensorOptions()
    lib.mmsb_tensor_options_init(options)
    return options


def options_of(
    item: ItemType,
    shape: Sequence[SupportsIndex] | None,
    strides: Sequence[SupportsIndex] | None,
    offset: int,
    read_only: bool,
    versioned: bool = True,
) -> _abi.TensorOptions:
    """The options of an export. The arrays that they point to live as long as they do."""
    options = _abi.TensorOptions.from_buffer_copy(_tensor_defaults())
    options.versioned, options.read_only = int(versioned), int(read_only)
    options.code, options.bits, options.offset = item.code, item.bits, offset
    if shape is None and strides is None:
        options.ndim = 1
        return options
    sizes = None if shape is None else _words(shape, "shape")
    steps = None if strides is None else _words(strides, "strides")
    options.ndim = 1 if sizes is None else len(sizes)
    if steps is not None and (sizes is None or len(steps) != len(sizes)):
        raise MismatchError(f"strides has {len(steps)} numbers, and shape has {0 if sizes is None else len(sizes)}")
    options.shape = None if sizes is None else ctypes.addressof(sizes)
    options.strides = None if steps is None else ctypes.addressof(steps)
    options.kept = sizes, steps
    return options


@lru_cache(maxsize=4)
def options_of_bytes(read_only: bool, versioned: bool) -> _abi.TensorOptions:
    """The options of an export of all bytes, for all who ask."""
    return options_of(_NAMED["uint8"], None, None, 0, read_only, versioned)


def _words(numbers: Sequence[SupportsIndex], what: str) -> ctypes.Array[c_int64]:
    checked = _numbers(numbers, what)
    return (c_int64 * len(checked))(*checked)
