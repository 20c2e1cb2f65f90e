"""Views of pages as arrays, for every library that takes arrays of others."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, SupportsIndex, cast

from . import _abi
from ._convert import as_array
from ._errors import InvalidArgumentError, InvalidStateError, UnsupportedError
from ._object import NotCopied
from ._tensor import (
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    DEFAULT_STREAM,
    arrow_array,
    arrow_schema,
    is_row_major,
    item_type_of,
    ml_type,
    options_of,
    tensor_in,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .device import Block
    from .page import Page

# What memoryview.cast knows.
_FORMATS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}


class View(NotCopied):
    """A page or a block, or a part of it, as an array, without a copy. See Page.view() and Block.view().

    It speaks DLPack, Arrow's C device data interface, the buffer protocol, and __array_interface__ or
    __cuda_array_interface__ where the memory can be accessed so: numpy.asarray(view), torch.as_tensor(view),
    cupy.asarray(view), jax.dlpack.from_dlpack(view). The page is pinned, and the block's memory stays, until the view and all
    arrays made from it are gone.
    """

    __slots__ = (
        "__weakref__",
        "_address",
        "_capsule",
        "_device",
        "_item",
        "_options",
        "_shape",
        "_source",
        "_stream",
        "_strides",
    )

    _name: ClassVar[str] = "view"

    def __init__(
        self,
        source: Page | Block,
        dtype: Any,
        shape: Sequence[SupportsIndex] | None,
        strides: Sequence[SupportsIndex] | None,
        offset: SupportsIndex,
        write: bool | None,
        stream: int | None = None,
    ) -> None:
        """stream: of a block, the driver's that its consumers work on."""
        item = item_type_of(dtype)
        start = offset.__index__()
        if not 0 <= start < 2**64:
            raise InvalidArgumentError(f"offset is {start}; the range is 0 to {2**64 - 1}")

        def pinned(read_only: bool) -> Any:
            self._options = options_of(item, shape, strides, start, read_only)
            return source._export(self._options, stream)

        self._capsule = writable_or_not(pinned, write)
        self._source = source
        self._stream = stream
        self._item = item
        tensor = tensor_in(self._capsule)
        self._address = (tensor.data or 0) + tensor.byte_offset
        self._device = (tensor.device_type, tensor.device_id)
        self._shape = tuple(tensor.shape[: tensor.ndim])
        self._strides = tuple(tensor.strides[: tensor.ndim])

    @property
    def source(self) -> Page | Block:
        """The page or block that it shows."""
        return self._source

    @property
    def page(self) -> Page:
        """The page that it shows."""
        from .page import Page

        if not isinstance(self._source, Page):
            raise AttributeError("the view shows a block")
        return self._source

    @property
    def shape(self) -> tuple[int, ...]:
        """Items in each dimension."""
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Items from one index to the next in each dimension."""
        return self._strides

    @property
    def dtype(self) -> str:
        """The name of the items' type, such as "float32"."""
        return self._item.name

    @property
    def address(self) -> int:
        """Of the first item."""
        address: int = self._address
        return address

    @property
    def nbytes(self) -> int:
        """Bytes of all items."""
        count = 1
        for length in self._shape:
            count *= length
        return count * self._item.bytes

    @property
    def read_only(self) -> bool:
        """Whether nobody may write through it."""
        return bool(self._options.read_only)

    @property
    def _contiguous(self) -> bool:
        return is_row_major(self._shape, self._strides)

    # ------------------------------------------------------------------------------------------------------ DLPack

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack_device(self._device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        device = check_request(self._device, stream, dl_device, copy)
        capsule = self._source._export(as_asked(self._options, max_version), consumer_stream(device, stream))
        return called(capsule, self._device, device)

    # ------------------------------------------------------------------------------------------------------- Arrow

    def __arrow_c_schema__(self) -> Any:
        return arrow_schema(self._capsule)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The view as an array that only the host reads; requested_schema is ignored, as it may be."""
        if self._device[0] == CUDA:
            raise UnsupportedError(f"the memory lies on gpu {self._device[1]}, which the host cannot access")
        return arrow_array(self._read_only(), device=False)

    def __arrow_c_device_array__(self, requested_schema: Any = None, **more: Any) -> tuple[Any, Any]:
        if unknown := [name for name, value in more.items() if value is not None]:
            raise NotImplementedError(f"__arrow_c_device_array__ does not know {', '.join(unknown)}")
        return arrow_array(self._read_only(), device=True)

    def _read_only(self) -> Any:
        """A capsule of a tensor that nobody writes, behind whose memory nothing is to be waited for."""
        options = type(self._options).from_buffer_copy(self._options)
        options.read_only = 1
        return self._source._export(options, None)

    # -------------------------------------------------------------------------------------------- array interfaces

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface_of_host()

    def _interface_of_host(self) -> dict[str, Any]:
        if self._device[0] == CUDA:
            raise AttributeError(f"the memory lies on gpu {self._device[1]}, which the host cannot access")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._device[0] not in (CUDA, CUDA_MANAGED):
            raise AttributeError("the memory is none of a CUDA device")
        return {**self._interface(), "stream": self._stream}  # None: what a call on a page did is done

    def _interface(self, typestr: str | None = None) -> dict[str, Any]:
        """typestr: of other items with as many bytes."""
        if self._item.typestr is None and typestr is None:
            raise AttributeError(f"array interfaces have no name for {self._item.name}: use DLPack")
        strides = None if self._contiguous else tuple(stride * self._item.bytes for stride in self._strides)
        return {
            "shape": self._shape,
            "typestr": typestr or self._item.typestr,
            "data": (self._address, self.read_only),
            "strides": strides,
            "version": 3,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        import numpy

        if self._item.typestr is None and self._device[0] != CUDA:
            return as_array(numpy.asarray(_Stand(self)).view(ml_type(self._item.name)), dtype, copy)
        self._interface_of_host()  # numpy.asarray comes back here where there is none
        return as_array(numpy.asarray(self), dtype, copy)

    # --------------------------------------------------------------------------------------------------- buffers

    def memory(self) -> memoryview:
        """A memoryview with the view's shape and type, of row-major items that memoryviews know. It keeps the pin."""
        code = _FORMATS.get(self._item.name)
        if code is None or not self._contiguous:
            why = f"items of {self._item.name}" if code is None else f"strides {self._strides}"
            raise BufferError(f"a memoryview does not know {why}")
        if self._device[0] == CUDA:
            raise UnsupportedError(f"the memory lies on gpu {self._device[1]}, which the host cannot access")
        if self.nbytes == 0:
            raise BufferError(f"a memoryview cannot have the shape {self._shape}")
        bytes_ = (ctypes.c_ubyte * self.nbytes).from_address(self._address)
        bytes_.view = self  # type: ignore[attr-defined]
        view = memoryview(bytes_).cast("B")
        shaped: memoryview = cast("Any", view).cast(code, self._shape)
        return shaped.toreadonly() if self.read_only else shaped

    def __buffer__(self, flags: int) -> memoryview:
        """memoryview(view) and others from Python 3.12 on; before, call memory()."""
        if flags & 1 and self.read_only:
            raise BufferError("the view is read-only")
        try:
            return self.memory()
        except UnsupportedError as error:  # who asks goes on with another protocol
            raise BufferError(str(error)) from None

    def __repr__(self) -> str:
        return f"<mmsb.View of {self._source!r}: {self._item.name} {self._shape}{' read-only' if self.read_only else ''}>"


class _Stand:
    """A view whose items array interfaces have no name for, with whole numbers in their place."""

    __slots__ = ("__array_interface__", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self.__array_interface__ = view._interface(f"<u{view._item.bytes}")


def writable_or_not(pinned: Any, write: bool | None) -> Any:
    """What pinned(read_only) gives. write None: for writing, unless the page is read-only."""
    if write is not None:
        return pinned(not write)
    try:
        return pinned(False)
    except InvalidStateError:
        return pinned(True)


def dlpack_device(memory: tuple[int, int], asked: tuple[int, int] | None = None) -> tuple[int, int]:
    """The DLPack device that an export of memory names: its own, or another one of which it is memory, too.

    Pinned memory is the host's unless a consumer asks: PyTorch and JAX know no other name of it. Errors: BufferError.
    """
    kind, number = memory
    if asked is None:
        return (CPU, 0) if kind == CUDA_HOST else memory
    names = {CUDA_HOST: [(CPU, 0), memory], CUDA_MANAGED: [memory, (CUDA, number), (CPU, 0)]}.get(kind, [memory])
    device = (int(asked[0]), int(asked[1]))
    if device not in names:
        raise BufferError(f"dl_device is {device}, but the memory lies on {' or '.join(map(str, names))}")
    return device


def called(capsule: Any, memory: tuple[int, int], device: tuple[int, int]) -> Any:
    """A capsule whose tensor names that device instead of the memory's."""
    if device != memory:
        tensor = tensor_in(capsule)
        tensor.device_type, tensor.device_id = device
    return capsule


def check_request(
    memory: tuple[int, int], stream: int | None, dl_device: tuple[int, int] | None, copy: bool | None
) -> tuple[int, int]:
    """The DLPack device of an export. Raises for what a consumer asks and a page or block cannot give."""
    if copy:
        raise BufferError("copy is True, but the memory is only lent: copy the consumer's array")
    device = dlpack_device(memory, dl_device)
    if stream is None:
        return device
    if device[0] in (CPU, CUDA_HOST) or isinstance(stream, bool) or not isinstance(stream, int) or stream < -1 or stream == 0:
        raise InvalidArgumentError(f"stream is {stream!r} for device {device}; None, or on CUDA -1, 1, 2 or a stream's address")
    return device


def consumer_stream(device: tuple[int, int], stream: int | None) -> int:
    """The driver's stream of a consumer of DLPack, for a block: its own one where the consumer takes care of the order."""
    if stream == -1 or device[0] in (CPU, CUDA_HOST):
        return _abi.BLOCK_STREAM
    return DEFAULT_STREAM if stream is None else stream


def as_asked(options: _abi.TensorOptions, max_version: tuple[int, int] | None) -> _abi.TensorOptions:
    """The options for a consumer of this version of DLPack."""
    versioned = max_version is not None and max_version[0] >= 1
    if not versioned and options.read_only:
        raise BufferError(f"the page is read-only, which DLPack can say from version 1.0 on, but max_version is {max_version}")
    if versioned:
        return options
    legacy = type(options).from_buffer_copy(options)
    legacy.versioned = 0
    return legacy


class _Shown(Protocol):
    def view(self, *, write: bool) -> View: ...


class ArrowBytes:
    """A page or a block as an array of Arrow's uint8. Its view() has other types and shapes."""

    __slots__ = ()

    def __arrow_c_schema__(self: _Shown) -> Any:
        return self.view(write=False).__arrow_c_schema__()

    def __arrow_c_array__(self: _Shown, requested_schema: Any = None) -> tuple[Any, Any]:
        """In memory that the host can access: pyarrow.array(page)."""
        return self.view(write=False).__arrow_c_array__(requested_schema)

    def __arrow_c_device_array__(self: _Shown, requested_schema: Any = None, **more: Any) -> tuple[Any, Any]:
        """In any location. Of a block, the uses that have ended, and its stream, are waited for."""
        return self.view(write=False).__arrow_c_device_array__(requested_schema, **more)
