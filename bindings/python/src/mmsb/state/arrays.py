"""Arrays as they lie in memory: bytes, the name of a type, shape and strides; those of NumPy, PyTorch, JAX and others."""

from __future__ import annotations

import ctypes
import importlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._convert import has_buffer
from .._errors import CorruptError, MismatchError, MMSBError, UnsupportedError
from .._lease import Holder, view_held
from .._tensor import _NAMED, CUDA, DEFAULT_STREAM, describe, ml_type, read_interface
from ..context import can_adopt, page_over
from ..library import capabilities
from ..ticket import nothing

Array = NDArray[Any]

# What ml_dtypes has beyond DLPack's: an item takes a byte.
_BYTE_TYPES = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e4m3", "int2", "int4", "uint2", "uint4")
#: Types that NumPy itself does not have, and the bytes of an item.
ML_TYPES = {item.name: item.bytes for item in _NAMED.values() if item.typestr is None} | dict.fromkeys(_BYTE_TYPES, 1)
_STAND_INS = {1: "uint8", 2: "int16"}
_TYPESTR = re.compile(r"[<>|][biufcmMSUV]\d{1,9}(\[\d{0,9}[A-Za-z]{1,8}\])?")
_MOST = 2**63 - 1


# --------------------------------------------------------------------------------------------------------------- types


def type_name(dtype: np.dtype[Any]) -> str:
    """The name of a type: "float32", NumPy's "<M8[ns]", or JSON of the fields of a structured one."""
    if dtype.names is None:
        return _plain_name(dtype)
    if dtype.hasobject:
        raise UnsupportedError(f"{dtype} has no bytes that could be saved: nothing is pickled")
    return json.dumps(_fields(dtype))  # each time anew: a program may rename the fields of a type that is in use


@lru_cache(maxsize=1024)  # NumPy takes microseconds to name a type
def _plain_name(dtype: np.dtype[Any]) -> str:
    if dtype.hasobject or dtype.kind not in "biufcmMSUV":
        raise UnsupportedError(f"{dtype} has no bytes that could be saved: nothing is pickled")
    if dtype.name in ML_TYPES and dtype.isnative:
        return dtype.name
    item = _NAMED.get(dtype.name)
    if item is not None and item.typestr == dtype.str:
        return dtype.name
    if not _TYPESTR.fullmatch(dtype.str):
        raise UnsupportedError(f"{dtype} has no name that another program knows")
    return dtype.str


def _fields(dtype: np.dtype[Any]) -> dict[str, Any]:
    rows = []
    assert dtype.names is not None and dtype.fields is not None
    for name in dtype.names:
        item, offset, *title = dtype.fields[name]
        if title:
            raise UnsupportedError(f"field {name!r} has the title {title[0]!r}, which cannot be saved")
        base, shape = item.subdtype or (item, ())
        rows.append([name, _fields(base) if base.names is not None else type_name(base), list(shape), offset])
    return {"fields": rows, "bytes": dtype.itemsize}


def type_of(name: str) -> np.dtype[Any]:
    """NumPy's type of a name. UnsupportedError: it needs ml_dtypes, which is not there; CorruptError: there is no such type."""
    if not name.startswith("{"):
        return _plain_type(name)
    with suppress(ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError):
        return _structured(json.loads(name))  # each time anew, as type_name()
    raise CorruptError(f"{name[:200]!r} is not the name of a type")


@lru_cache(maxsize=1024)
def _plain_type(name: str) -> np.dtype[Any]:
    if name in ML_TYPES:
        return ml_type(name)
    with suppress(ValueError, TypeError, OverflowError, MemoryError):
        if name in _NAMED or _TYPESTR.fullmatch(name):
            return np.dtype(name)
    raise CorruptError(f"{name[:200]!r} is not the name of a type")


def _structured(said: Any) -> np.dtype[Any]:
    names, formats, offsets = [], [], []
    for name, item, shape, offset in said["fields"]:
        base = _structured(item) if isinstance(item, dict) else type_of(item)
        names.append(name)
        formats.append((base, tuple(_whole(number) for number in shape)) if shape else base)
        offsets.append(_whole(offset))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": _whole(said["bytes"])})


def _whole(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**31:
        raise ValueError(number)
    return number


def item_bytes(name: str) -> int:
    """Bytes of an item of the type with a name."""
    return ML_TYPES[name] if name in ML_TYPES else type_of(name).itemsize


# -------------------------------------------------------------------------------------------------------------- layout


class Layout(NamedTuple):
    """Where the items of an array lie: one behind the other, in some order of the dimensions. strides: in bytes."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    @property
    def nbytes(self) -> int:
        """Bytes of all items."""
        return _product(self.shape) * self.item

    @property
    def page_size(self) -> int:
        """Bytes of its page: a page has at least one."""
        return max(self.nbytes, 1)

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


def _product(numbers: Sequence[int]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product


def dense(shape: Sequence[int], item: int, order: Sequence[int] | None = None) -> tuple[int, ...]:
    """The strides of items one behind the other. order: the dimensions, the one of the largest steps first; None: row-major."""
    strides, step = [0] * len(shape), item
    for axis in reversed(range(len(shape)) if order is None else order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def layout_of(dtype: str, shape: Sequence[int], strides: Sequence[int], size: int) -> Layout:
    """A layout that a file says a page of size bytes has. CorruptError: it does not fit."""
    item, total = item_bytes(dtype), 1
    if len(shape) > 64 or len(strides) != len(shape):
        raise CorruptError(f"shape has {len(shape)} numbers and strides {len(strides)}; both have the same number, at most 64")
    for number in (*shape, *strides):
        if not 0 <= number <= _MOST:
            raise CorruptError(f"shape {tuple(shape)} or strides {tuple(strides)} has {number}; the range is 0 to {_MOST}")
    if 0 not in shape:
        for number in (item, *shape):
            total *= number
            if total > _MOST:
                raise CorruptError(f"shape {tuple(shape)} of items of {item} bytes is more than {_MOST} bytes")
    else:
        total = 0
    if max(total, 1) != size:
        raise CorruptError(f"shape {tuple(shape)} of items of {item} bytes is {total} bytes, and its page has {size}")
    if not total:
        return Layout(dtype, tuple(shape), dense(shape, item), item)
    order = sorted((axis for axis in range(len(shape)) if shape[axis] > 1), key=lambda axis: -strides[axis])
    order += [axis for axis in range(len(shape)) if shape[axis] == 1]
    wanted = dense(shape, item, order)
    if any(strides[axis] != wanted[axis] for axis in range(len(shape)) if shape[axis] > 1):
        raise CorruptError(f"strides {tuple(strides)} of shape {tuple(shape)} leave gaps or overlap; an item has {item} bytes")
    return Layout(dtype, tuple(shape), wanted, item)


def array_over(memory: Any, layout: Layout, dtype: np.dtype[Any] | None = None) -> Array:
    """An array over memory. dtype: another type with items of the same length, as raw() has."""
    item = type_of(layout.dtype) if dtype is None else dtype
    if not layout.nbytes:
        return np.empty(layout.shape, item)
    return np.ndarray(layout.shape, item, buffer=memory, strides=layout.strides)


def raw(layout: Layout) -> np.dtype[Any]:
    """A type of items that are only bytes: to copy arrays of types that NumPy may not have."""
    return np.dtype((np.void, layout.item))


# ---------------------------------------------------------------------------------------------------------------- held


class Held(NamedTuple):
    """An array of a program.

    memory: its bytes, one behind the other, on the host or a device; a copy where the array's do not lie so, or where no context
    can adopt them. array: the program's, to write into; None if NumPy does not have its type, or if it is on a device.
    """

    layout: Layout
    memory: Array | DeviceBytes
    array: Array | None
    writable: bool
    copied: bool
    #: Of an array whose memory is elsewhere: writes into it what memory has.
    put: Callable[[], object] | None = None

    def fill(self, source: Any, layout: Layout) -> None:
        """Writes the items of an array with this shape and type, whose memory is laid out in another way."""
        if not layout.nbytes:
            return
        if isinstance(self.memory, DeviceBytes):
            host = np.empty(len(self.memory), np.uint8)
            self._replace(memory=host).fill(source, layout)
            self.memory.write(host)
            return
        kind = raw(layout)
        target = array_over(self.memory, self.layout, kind) if self.array is None else self.array.view(kind)
        target[...] = array_over(source, layout, kind)
        if self.put is not None:
            self.put()


def is_array(thing: Any) -> bool:
    """Whether a value in a tree is an array, for which hold() is to be called."""
    kind = type(thing)
    return (
        kind is np.ndarray
        or hasattr(kind, "__dlpack__")
        or hasattr(kind, "_held")
        or hasattr(thing, "__array_interface__")
        or hasattr(thing, "__cuda_array_interface__")
        or (not isinstance(thing, bytes) and has_buffer(thing))
    )


#: What an array in host memory has that makes hold() give the same: its address, type, shape and strides.
Mark = tuple[Any, ...]


@lru_cache(maxsize=256)
def readers_of(kind: type) -> tuple[Callable[[Any], Any], ...] | None:
    """What reads the parts of the mark of an array of a type. None: only hold() can tell."""
    if kind is np.ndarray:
        return _quick_address_of, attrgetter("dtype"), attrgetter("shape"), attrgetter("strides")
    calls: list[Any] = [getattr(kind, name, None) for name in ("data_ptr", "size", "stride", "is_conj", "is_neg")]
    return None if None in calls else (*calls, attrgetter("dtype"), attrgetter("is_cpu"))


def _quick_address_of(array: Any) -> int:
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # a quarter of the time that address_of() takes
    except (TypeError, ValueError):  # read-only, with gaps, or empty
        return address_of(array)


def mark_of(thing: Any) -> Mark | None:
    """The mark of an array, which takes less time than hold(). None: only hold() can tell."""
    kind: Any = type(thing)
    try:
        readers = readers_of(kind)
        # A structured type is the same, and has other names, when a program has renamed its fields.
        return None if readers is None or (kind is np.ndarray and thing.dtype.names) else tuple([read(thing) for read in readers])
    except Exception:  # a tensor without memory of its own
        return None


def hold(thing: Any) -> Held:
    """Takes an array by the way that its library has. UnsupportedError: its bytes cannot be saved."""
    if isinstance(thing, np.ndarray):
        return _of_numpy(thing)
    if hasattr(type(thing), "_held"):  # a StoredArray
        held: Held = thing._held()
        return held
    try:
        if hasattr(type(thing), "detach") and hasattr(type(thing), "numpy"):
            return _of_tensor(thing)
        for get, put in _DEVICE_COPIES:
            if hasattr(thing, get) and hasattr(thing, put) and hasattr(thing, "__cuda_array_interface__"):
                return _of_copies(thing, getattr(thing, get), getattr(thing, put))
        if hasattr(type(thing), "__array__") or hasattr(thing, "__array_interface__") or has_buffer(thing):
            try:
                return _of_numpy(np.asarray(thing))
            except Exception:
                if not hasattr(thing, "__cuda_array_interface__"):
                    raise
        found = getattr(thing, "__cuda_array_interface__", None)
        return _of_dlpack(thing) if found is None else _of_interface(thing, found)
    except MMSBError:
        raise
    except Exception as error:  # of a library that this one does not know
        raise UnsupportedError(f"{type(thing).__name__} gives no memory of the host: {error}") from error


def _of_numpy(array: Array) -> Held:
    if isinstance(array, np.ma.MaskedArray):
        raise UnsupportedError("the array has a mask: save its data and its mask as two arrays")
    array = np.asarray(array)
    dtype, shape, item = type_name(array.dtype), array.shape, array.dtype.itemsize
    flags = array.flags
    writable = flags.writeable
    if not array.nbytes:
        return Held(Layout(dtype, shape, dense(shape, item), item), np.zeros(1, np.uint8), array, writable, True)
    if flags.c_contiguous:
        return Held(Layout(dtype, shape, dense(shape, item), item), array.reshape(-1).view(np.uint8), array, writable, False)
    steps = array.strides
    order = sorted(range(len(shape)), key=lambda axis: -steps[axis])
    rows = array.transpose(order)
    copied = not rows.flags.c_contiguous
    if copied:  # as bytes: NumPy's copy of a record leaves what is between its fields undefined
        order, rows = list(range(len(shape))), np.ascontiguousarray(array.view(np.dtype((np.void, item))))
    return Held(Layout(dtype, shape, dense(shape, item, order), item), rows.reshape(-1).view(np.uint8), array, writable, copied)


def _of_tensor(tensor: Any) -> Held:
    """PyTorch's: a copy on the host where its items have gaps on a GPU, or memory has values conjugated or negated."""
    tensor = tensor.detach()
    if getattr(tensor, "is_cuda", False) and (held := _of_gpu(tensor)) is not None:
        return held
    host = tensor.cpu().resolve_conj().resolve_neg()
    if host is not tensor:
        return _of_tensor(host)._replace(array=None, copied=True, put=partial(tensor.copy_, host))
    try:
        return _of_numpy(tensor.numpy())
    except TypeError:  # NumPy does not have its type, but one of as many bytes
        name = str(tensor.dtype).replace("torch.", "")
        if name not in ML_TYPES or ML_TYPES[name] not in _STAND_INS:
            raise
    held = _of_numpy(tensor.view(getattr(importlib.import_module("torch"), _STAND_INS[ML_TYPES[name]])).numpy())
    return held._replace(layout=held.layout._replace(dtype=name))


def _of_gpu(tensor: Any) -> Held | None:
    """A tensor on a GPU where it lies, as its current stream leaves it; None: it must be copied."""
    name = str(tensor.dtype).replace("torch.", "")
    strided = str(tensor.layout) == "torch.strided" and not (tensor.is_conj() or tensor.is_neg())
    if not strided or not tensor.numel() or (name not in _NAMED and name not in ML_TYPES) or not _reaches_gpus():
        return None
    item, shape = tensor.element_size(), tuple(tensor.shape)
    steps = [step * item for step in tensor.stride()]
    strides = dense(shape, item, sorted(range(len(shape)), key=lambda axis: -steps[axis]))
    if any(length > 1 and step != stride for length, step, stride in zip(shape, steps, strides)):
        return None
    importlib.import_module("torch").cuda.current_stream(tensor.device).synchronize()
    memory = DeviceBytes(tensor.data_ptr(), tensor.numel() * item, tensor)
    return Held(Layout(name, shape, strides, item), memory, None, True, False)


@lru_cache(maxsize=1)
def _reaches_gpus() -> bool:
    return capabilities()["cuda"].available


#: How arrays on devices copy themselves to the host and back, behind their own work: CuPy's and Numba's.
_DEVICE_COPIES = (("get", "set"), ("copy_to_host", "copy_to_device"))


def _of_copies(thing: Any, get: Callable[[], Any], put: Callable[[Array], object]) -> Held:
    """An array that copies itself: where it lies, unless its items have gaps there, or no context could have its memory."""
    found = thing.__cuda_array_interface__
    if _reaches_gpus():
        with suppress(MMSBError):
            held = _of_interface(thing, found)
            if not held.copied:
                return held
    copy = np.require(get(), requirements=("C", "W"))
    held = _of_numpy(copy)
    if held.layout.shape != tuple(found["shape"]):
        raise UnsupportedError(f"{type(thing).__name__} has the shape {tuple(found['shape'])}, its copy {held.layout.shape}")
    return held._replace(array=None, writable=not found["data"][1], copied=True, put=partial(put, copy))


def _of_interface(thing: Any, found: dict[str, Any]) -> Held:
    shape, steps, read_only = tuple(found["shape"]), found.get("strides"), bool(found["data"][1])
    dtype = np.dtype(found["typestr"])
    name, item = type_name(dtype), dtype.itemsize
    if 0 in shape:
        return Held(Layout(name, shape, dense(shape, item), item), np.zeros(1, np.uint8), None, not read_only, True, nothing)
    said = read_interface(found, "__cuda_array_interface__", CUDA)
    layout = layout_of(name, shape, dense(shape, item) if steps is None else steps, said.bytes)
    return _of_bytes(layout, DeviceBytes(said.address, said.bytes, thing, read_only, said.stream))


def _of_bytes(layout: Layout, memory: DeviceBytes) -> Held:
    """An array on a device where it lies; a copy where its device is simulated, and so that of another context."""
    if _reaches_gpus() and can_adopt(memory):
        # An interface may name no stream where it is the default one, whose work may still run: Numba's does.
        memory.stream = memory.stream or DEFAULT_STREAM
        return Held(layout, memory, None, not memory.read_only, False)
    host = on_host(memory)
    return Held(layout, host, None, not memory.read_only, True, put=partial(memory.write, host))


def _of_dlpack(source: Any) -> Held:
    found = describe(source)
    item = found.item.bytes
    shape = found.shape
    steps = None if found.strides is None else [step * item for step in found.strides]
    size = max(_product(shape) * item, 1)
    layout = layout_of(found.item.name, shape, dense(shape, item) if steps is None else steps, size)
    if not layout.nbytes:
        return Held(layout, np.zeros(1, np.uint8), None, not found.read_only, True)
    lent = found.lent
    if lent.stream is not None:
        return _of_bytes(layout, DeviceBytes(lent.address, lent.length, lent, found.read_only, lent.stream or None))
    holder = Holder()
    holder.kept = lent
    memory = np.frombuffer(view_held(lent.address, lent.length, True, holder), np.uint8)
    return Held(layout, memory, None, not found.read_only, False)


class DeviceBytes:
    """The bytes of an array on a device. stream: the driver's, what it has queued comes before they are read or written."""

    __slots__ = ("address", "length", "owner", "read_only", "stream")

    def __init__(self, address: int, length: int, owner: object, read_only: bool = False, stream: int | None = None) -> None:
        self.address, self.length, self.owner = address, length, owner
        self.read_only, self.stream = read_only, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.address, self.read_only)
        return {"shape": (self.length,), "typestr": "|u1", "data": data, "stream": self.stream, "version": 3}

    def __len__(self) -> int:
        return self.length

    def write(self, host: Array) -> None:
        """Gives it bytes of the host."""
        with page_over(self, read_only=False) as page:
            page.write(0, host)


def on_host(memory: Array | DeviceBytes) -> Array:
    """The bytes of an array as NumPy's: of one on a device a copy."""
    if isinstance(memory, np.ndarray):
        return memory
    host = np.empty(len(memory), np.uint8)
    with page_over(memory, read_only=True) as page:
        page.read_into(0, host)
    return host


def address_of(memory: Array | DeviceBytes) -> int:
    """The address of the first byte."""
    return memory.address if isinstance(memory, DeviceBytes) else cast("int", memory.__array_interface__["data"][0])


def check_size(length: int, layout: Layout, name: str) -> None:
    """Raises MismatchError where a page has another size than its layout."""
    if length != layout.page_size:
        raise MismatchError(f"{name} has {length} bytes, and {layout} has {layout.page_size}: the file was replaced meanwhile")
