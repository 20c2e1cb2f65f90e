"""Pages: byte buffers with an identity."""

from __future__ import annotations

import contextlib
import ctypes
import operator
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex, Union, cast, overload

from . import _abi, _ffi
from ._convert import (
    Buffer,
    BytesLike,
    BytesOrNumbers,
    as_array,
    check_items,
    extent,
    fetch,
    has_buffer,
    item_type,
    new_bytes,
    readable,
    signed,
    unsigned,
    words,
)
from ._errors import (
    ClosedError,
    InvalidArgumentError,
    InvalidSizeError,
    InvalidStateError,
    MismatchError,
    MMSBError,
    OutOfRangeError,
    SimulatedDeviceWarning,
    UnsupportedError,
)
from ._ffi import failure, lib, listed, name_of, number_from, sized, sync_of, value_of
from ._lease import Holder, Pins, drop_released, free_memory, view_held, view_memory, when_dropped
from ._tensor import CPU, dlpack_device_type, export, is_versioned, options_of_bytes
from .delta import Delta, struct_of
from .device import BlockInfo, block_info
from .metadata import Metadata
from .view import ArrowBytes, View, called, check_request, dlpack_device, writable_or_not

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from .context import Context


class Difference(NamedTuple):
    """How many bytes of two pages differ, and the index of the first of them: None if none does."""

    differing: int
    first: int | None


class PageInfo(NamedTuple):
    """A page's properties at one moment.

    size is in bytes; location is "cpu", "gpu", "unified", "pinned" or "disk"; numa_node -1 is any; metadata_count counts keys.
    """

    id: int
    size: int
    location: str
    device: int
    numa_node: int
    epoch: int
    version: int
    read_pins: int
    write_pins: int
    simulated: bool
    adopted: bool
    read_only: bool
    metadata_count: int


class PageCopy(NamedTuple):
    """What a page has in one place; newer: bytes in ranges that are newer here than in its other place."""

    location: str
    device: int
    size: int
    newer: int


class PageAdvice(NamedTuple):
    """What the driver was told of the use of a unified page.

    preferred: a device, "host" or None: its memory stays there, and others reach it there. read_mostly: who reads gets a copy of
    his own, which ends with the next write.
    """

    preferred: int | str | None = None
    read_mostly: bool = False


class Page(ArrowBytes):
    """A page of a context.

    This object does not own the page: dropping it destroys nothing. A page may have several objects; they are equal. The
    page lives until destroy() or until its context ends. Reads and writes work in every location. A view of its memory
    (array, memory, pin, numpy.asarray) pins the page: until the last view is gone, it cannot be migrated, resized or destroyed
    (BusyError), and its memory stays valid, even if its context is closed meanwhile. The page and its views keep the context: it
    is closed by close(), or when the last of them is gone.
    """

    __slots__ = ("__weakref__", "_context", "_handle", "_id")

    def __init__(self, context: Context, handle: int) -> None:
        self._context = context
        self._handle = handle
        self._id = 0

    # ------------------------------------------------------------------------------------------------ properties

    @property
    def context(self) -> Context:
        """The context the page belongs to."""
        return self._context

    @property
    def handle(self) -> int:
        """The library's handle, for arrays of handles and for other programs."""
        return self._handle

    @property
    def id(self) -> int:
        """The page's id, unique in its context; never changes."""
        if not self._id:
            self._id = lib.mmsb_page_id(self._handle)
        if not self._id:
            raise self._failure(lib.mmsb_last_error_code())
        return self._id

    @property
    def size(self) -> int:
        """Size in bytes."""
        size: int = lib.mmsb_page_size(self._handle)
        if not size:
            raise self._failure(lib.mmsb_last_error_code())
        return size

    @property
    def epoch(self) -> int:
        """The epoch: only deltas advance it; 0 before the first."""
        epoch: int = lib.mmsb_page_epoch(self._handle)
        if not epoch:
            self._must_live()
        return epoch

    @property
    def version(self) -> int:
        """The version: every change of the page advances it, and so does the end of a writable view."""
        return self._must_live()

    @property
    def address(self) -> int | None:
        """The current address of the bytes, without a pin; None for a page on disk that is not pinned.

        The address of a GPU page is a device address, which the host must not access.
        """
        address: int | None = lib.mmsb_page_address(self._handle)
        if address is None:
            self._must_live()
        return address

    @property
    def location(self) -> str:
        """The location of the bytes: "cpu", "gpu", "unified", "pinned" or "disk"."""
        location: int = lib.mmsb_page_location(self._handle)
        if location == _abi.LOCATION_DEFAULT:
            raise self._failure(lib.mmsb_last_error_code())
        if location in _DEVICE_LOCATIONS:
            self.info()  # warns if the device is simulated
        return name_of(_ffi.LOCATIONS, location)

    @property
    def device(self) -> int:
        """The driver's ordinal; 0 for host memory."""
        return self.info().device

    @property
    def metadata(self) -> Metadata:
        """The metadata: a mapping from str to bytes."""
        return Metadata(self)

    def info(self) -> PageInfo:
        """All properties at one moment."""
        return page_info(self._raw_info())

    # ---------------------------------------------------------------------------------------------------- bytes

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """A copy of length bytes from offset on; None for all bytes to the end."""
        offset, length = extent(offset, length, self.size)
        data = new_bytes(length)
        status = lib.mmsb_page_read(self._handle, offset, data, length)
        if status:
            raise self._failure(status)
        return data

    def read_into(self, offset: int, buffer: BytesLike) -> int:
        """Fills a writable buffer with the bytes from offset on and returns their number."""
        target = Buffer(buffer, writable=True)
        offset = unsigned(offset, "offset", OutOfRangeError)
        status = lib.mmsb_page_read(self._handle, offset, target.address, target.length)
        if status:
            raise self._failure(status)
        return target.length

    def write(self, offset: int, data: BytesOrNumbers) -> None:
        """Writes bytes at offset. Advances the version, but neither the epoch nor the change mask."""
        source = readable(data)
        offset = unsigned(offset, "offset", OutOfRangeError)
        status = lib.mmsb_page_write(self._handle, offset, source.address, source.length)
        if status:
            raise self._failure(status)

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def __bytes__(self) -> bytes:
        return self.read()

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> bytes: ...
    def __getitem__(self, key: SupportsIndex | slice) -> int | bytes:
        start, length = self._range(key)
        data = self.read(start, length)
        return data if isinstance(key, slice) else data[0]

    @overload
    def __setitem__(self, key: SupportsIndex, value: SupportsIndex) -> None: ...
    @overload
    def __setitem__(self, key: slice, value: BytesOrNumbers) -> None: ...
    def __setitem__(self, key: Any, value: Any) -> None:
        start, length = self._range(key)
        source = readable(value if isinstance(key, slice) else (value,))
        if source.length != length:
            raise MismatchError(f"{source.length} bytes for a slice of {length} bytes; resize() changes the size of a page")
        status = lib.mmsb_page_write(self._handle, start, source.address, source.length)
        if status:
            raise self._failure(status)

    # ---------------------------------------------------------------------------------------------------- views

    def memory(self, write: bool = False) -> memoryview:
        """A view of the page's bytes. It pins the page until the view and everything made from it is gone."""
        return self._pinned(_abi.PIN_WRITE if write else _abi.PIN_READ)

    def __buffer__(self, flags: int) -> memoryview:
        """memoryview(page), bytearray(page) and others from Python 3.12 on: memory(), writable if that is asked for.

        Before Python 3.12 memoryview(page) is a TypeError: call page.memory().
        """
        try:
            return self.memory(write=bool(flags & 1))
        except UnsupportedError as error:  # who asks goes on with another protocol
            raise BufferError(str(error)) from None

    def view(
        self,
        dtype: Any = "uint8",
        shape: Sequence[SupportsIndex] | None = None,
        *,
        strides: Sequence[SupportsIndex] | None = None,
        offset: SupportsIndex = 0,
        write: bool | None = None,
    ) -> View:
        """The page in any location as an array that other libraries take without a copy: torch.as_tensor(page.view("float32")).

        - dtype: a name ("float32", "bfloat16", "f4"), or a dtype of NumPy, PyTorch, JAX
        - shape: items in each dimension; None for all from offset on, in one dimension
        - strides: items from one index to the next in each dimension, at least 1; None for row-major
        - offset: bytes before the first item
        - write: False for a view through which nobody writes; None: writable, unless the page is read-only

        The page is pinned until the view and all arrays made from it are gone.
        """
        return View(self, dtype, shape, strides, offset, write)

    def _export(self, options: _abi.TensorOptions, _stream: int | None = None) -> Any:
        """A capsule. What a call on a page did is done: no stream need wait."""
        return export(lambda options, tensor: lib.mmsb_page_export_tensor(self._handle, options, tensor), options, self._check)

    @property
    def _dlpack_memory(self) -> tuple[int, int]:
        """The DLPack device of the memory itself."""
        kind = dlpack_device_type(lib.mmsb_page_location(self._handle))
        return (kind, 0 if kind == CPU else self.info().device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack_device(self._dlpack_memory)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The bytes as a tensor of uint8: numpy.from_dlpack(page). view() has other types and shapes."""
        memory = self._dlpack_memory
        device = check_request(memory, stream, dl_device, copy)
        versioned = max_version is not None and max_version[0] >= 1

        def pinned(read_only: bool) -> Any:
            return self._export(options_of_bytes(read_only, versioned or read_only))

        capsule = writable_or_not(pinned, None)
        if not versioned and is_versioned(capsule):
            raise BufferError(
                f"the page is read-only, which DLPack can say from version 1.0 on, but max_version is {max_version}"
            )
        return called(capsule, memory, device)

    @contextlib.contextmanager
    def pin(self, write: bool = False) -> Iterator[memoryview]:
        """A view of the page's bytes for a with block, whose end unpins the page.

        If an object made from the view, such as a NumPy array, outlives the block, the pin ends with that object.
        """
        view = self.memory(write)
        try:
            yield view
        finally:
            # A view that an object still uses cannot be released: the pin then ends with its last user.
            with contextlib.suppress(BufferError):
                view.release()

    def array(self, dtype: DTypeLike = "uint8", write: bool | None = None) -> NDArray[Any]:
        """The page's bytes as a one-dimensional NumPy array of dtype, without a copy.

        The page is pinned until the array and its views are gone. write None: writable, unless the page is read-only.
        """
        import numpy

        item = item_type(dtype)
        if write is None:
            try:
                view = self.memory(write=True)
            except InvalidStateError:
                view = self.memory(write=False)
        else:
            view = self.memory(write)
        check_items(len(view), item)
        return numpy.frombuffer(view, dtype=item)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return as_array(self.array(), dtype, copy)

    # ------------------------------------------------------------------------------------------ changes and masks

    def apply(self, delta: Delta) -> None:
        """Applies a delta: changes bytes, marks them in the change mask, advances the epoch; or raises and changes nothing."""
        status = lib.mmsb_page_apply(self._handle, struct_of(delta))
        if status:
            raise self._failure(status)

    @property
    def mask(self) -> NDArray[Any]:
        """The change mask as a NumPy array of bools, one per byte: True where a delta has addressed it since mask_clear()."""
        import numpy

        size = self.size
        bits = numpy.frombuffer(self.mask_bits(0, size), dtype=numpy.uint8)
        return numpy.unpackbits(bits, count=size, bitorder="little").view(numpy.bool_)

    def mask_bits(self, offset: int = 0, length: int | None = None) -> bytes:
        """The change mask of a range as bits: bit i % 8 of byte i // 8, counted from offset."""
        offset, length = extent(offset, length, self.size)
        bits = new_bytes((length + 7) // 8)
        self._check(lib.mmsb_page_mask_read(self._handle, offset, bits, length))
        return bits

    def mask_clear(self) -> None:
        """Clears the change mask."""
        self._check(lib.mmsb_page_mask_clear(self._handle))

    def mask_count(self) -> int:
        """Number of bytes that are marked in the change mask."""
        return number_from(lib.mmsb_page_mask_count, self._handle, check=self._check)

    # ----------------------------------------------------------------------------------------- beside other pages

    def compare(self, other: Page) -> Difference:
        """How many bytes differ from those of a page of the same size, and the first of them."""
        found = _abi.Difference()
        self._check_with(other, lib.mmsb_page_compare(self._handle, page_handle(other, "other"), found))
        return Difference(found.count, found.first if found.count else None)

    def differences(self, other: Page) -> bytes:
        """Where the bytes of a page of the same size differ, as bits: bit i % 8 of byte i // 8."""
        size = self.size
        bits = new_bytes((size + 7) // 8)
        self._check_with(other, lib.mmsb_page_differences(self._handle, page_handle(other, "other"), bits, size))
        return bits

    def checksum(self, offset: int = 0, length: int | None = None) -> int:
        """The CRC-32C of a range of bytes, as snapshot files have it."""
        offset, length = extent(offset, length, self.size)
        found = ctypes.c_uint32()
        self._check(lib.mmsb_page_checksum(self._handle, offset, length, found))
        return found.value

    def propagate(self, source: Page) -> None:
        """Copies the bytes that source's change mask has into this page of the same size, as one delta."""
        self._check_with(source, lib.mmsb_page_propagate(self._handle, source._handle))

    # ----------------------------------------------------------------------------------------- size and location

    def resize(self, size: int) -> None:
        """Changes the size in bytes; added bytes are zero."""
        self._check(lib.mmsb_page_resize(self._handle, unsigned(size, "size", InvalidSizeError)))

    def clone(self, id: int = 0) -> Page:
        """Creates a page with the same bytes, location, epoch, change mask and metadata. id 0: the library picks one."""
        clone = number_from(lib.mmsb_page_clone, self._handle, unsigned(id, "id"), check=self._check)
        return Page(self._context, clone)

    def migrate(self, location: str, device: int = 0) -> None:
        """Moves the bytes to another location; does nothing if they are there already."""
        number = value_of(_ffi.LOCATIONS, location, "location")
        status = lib.mmsb_page_migrate(self._handle, number, signed(device, "device"))
        drop_released()
        self._check(status)
        self._note_location(location)

    def sync(self, direction: str = "both", device: int = 0, *, wins: str | None = None, pinned: bool = False) -> None:
        """Brings the page into step: "device", "host" or "both" say where its newer bytes go. See mmsb_page_sync.

        A page on the host moves to the device and keeps a copy on the host; a unified page is prefetched to "device" or "host".
        wins: "host" or "device", whose bytes go on where both sides were written at once; None: that is a MismatchError.
        pinned: a copy that the page gets on the host is in pinned memory, which the device reads and writes by itself.
        """
        status = lib.mmsb_page_sync(self._handle, sync_of(direction, wins, pinned), signed(device, "device"))
        drop_released()
        self._check(status)

    def advise(self, preferred: int | str | None = None, read_mostly: bool = False) -> None:
        """Tells the driver of the use of a unified page, in the place of what it was told before. See PageAdvice.

        It stays through a resize, and ends when the page moves to another location.
        """
        advice = _abi.PageAdvice()
        lib.mmsb_page_advice_init(advice)
        if preferred == "host":
            advice.preferred = _abi.DEVICE_HOST
        elif isinstance(preferred, str) or (preferred is not None and signed(preferred, "preferred") < 0):
            raise InvalidArgumentError(f"preferred is {preferred!r}, not a device, 'host' or None")
        elif preferred is not None:
            advice.preferred = preferred
        advice.read_mostly = bool(read_mostly)
        self._check(lib.mmsb_page_advise(self._handle, advice))

    @property
    def advice(self) -> PageAdvice:
        """What the driver was told last of the use of a unified page."""
        advice = _abi.PageAdvice()
        lib.mmsb_page_advice_init(advice)
        self._check(lib.mmsb_page_advice(self._handle, advice))
        places = {_abi.DEVICE_NONE: None, _abi.DEVICE_HOST: "host"}
        return PageAdvice(places.get(advice.preferred, advice.preferred), bool(advice.read_mostly))

    def block(self) -> BlockInfo:
        """The block of the device that the bytes of a "gpu", "unified" or "pinned" page are in; a new one when it moves."""
        return block_info(number_from(lib.mmsb_page_block, self._handle, check=self._check))

    def copies(self) -> list[PageCopy]:
        """Where the page has its bytes: where it lies, then its copy on the host, where it has one, then its replicas."""
        found = listed(_abi.PageCopy, lib.mmsb_page_copies, self._handle, capacity=4, check=self._check)
        return [PageCopy(name_of(_ffi.LOCATIONS, raw.location), raw.device, raw.size, raw.newer) for raw in found]

    def replicate(self, device: int) -> None:
        """Gives the page a replica on a device, for work there that reads it; does nothing where it lies there or has one.

        A use of the page on a stream of the device takes it (Stream.use, Use.address). The next change of the page ends it: uses
        that begin later do not find it, one that is open reads on what the page was. A device that lacks memory drops replicas.
        """
        self._check(lib.mmsb_page_replicate(self._handle, signed(device, "device")))

    def drop_replica(self, device: int) -> None:
        """Drops the replica on a device, where the page has one; its memory goes when the uses that are open have ended."""
        self._check(lib.mmsb_page_replica_drop(self._handle, signed(device, "device")))

    def drop_host_copy(self) -> None:
        """Ends the copy on the host, when what is newer there has gone to the device."""
        self._check(lib.mmsb_page_host_copy_drop(self._handle))

    def host_copy(self, write: bool = False) -> memoryview:
        """A view of the copy on the host. It pins the page until the view and everything made from it is gone."""
        mode, address = _abi.PIN_WRITE if write else _abi.PIN_READ, ctypes.c_void_p()
        self._check(lib.mmsb_page_host_copy_pin(self._handle, mode, address))
        assert address.value is not None
        holder = Holder()
        when_dropped(holder, lib.mmsb_page_host_copy_unpin, self._handle, mode)
        holder.kept = self._context
        return view_held(address.value, self.size, write, holder)

    def destroy(self) -> None:
        """Ends the page and frees its memory."""
        self._id = self._id or lib.mmsb_page_id(self._handle)  # for errors about the page that has ended
        status = lib.mmsb_page_destroy(self._handle)
        drop_released()
        self._check(status)

    def release(self) -> memoryview:
        """Ends the page and returns a view of its bytes, which live until the view and everything made from it is gone."""
        address, size = ctypes.c_void_p(), ctypes.c_uint64()
        self._check(lib.mmsb_page_release(self._handle, address, size))
        assert address.value is not None
        return view_memory(address.value, size.value, True, free_memory, address.value)

    # ---------------------------------------------------------------------------------------------- dependencies

    def parents(self) -> PageArray:
        """The pages that this page depends on, oldest edge first."""
        return self._neighbours("mmsb_page_parents")

    def children(self) -> PageArray:
        """The pages that depend on this page, oldest edge first."""
        return self._neighbours("mmsb_page_children")

    # -------------------------------------------------------------------------------------------------- identity

    def __eq__(self, other: object) -> bool:
        return self._handle == other._handle if isinstance(other, Page) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._handle)

    def __repr__(self) -> str:
        try:
            info = self.info()
        except MMSBError as error:
            return f"<mmsb.Page {self._id or hex(self._handle)}: {type(error).__name__}>"
        location = info.location + (f" {info.device}" if info.location in ("gpu", "unified") else "")
        return f"<mmsb.Page {info.id} {location} size={info.size} epoch={info.epoch}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a page cannot be pickled or copied: its bytes are in the library; page.clone() makes another page")

    # -------------------------------------------------------------------------------------------------- internals

    def _failure(self, status: int) -> MMSBError:
        """The exception for the call on this page that has just failed."""
        error = failure(status)
        name_page(error, self._handle, self._id)
        if status == _abi.E_STALE_HANDLE and self._context.closed:
            return ClosedError(f"the context of page {self._id or hex(self._handle)} is closed")
        return error

    def _check_with(self, other: Page, status: int) -> None:
        """Raises the exception for a call on this page and another one."""
        if status:
            first, second = (other, self) if other._context.closed else (self, other)
            error = first._failure(status)
            name_page(error, second._handle, second._id)
            try:
                raise error
            finally:
                del error  # its traceback has this frame

    def _check(self, status: int) -> None:
        """Raises the exception for the call that has just failed. The most frequent calls look at their status themselves."""
        if status:
            raise self._failure(status)

    def _must_live(self) -> int:
        """The page's version, which is 0 only if there is no such page."""
        version: int = lib.mmsb_page_version(self._handle)
        if not version:
            raise self._failure(lib.mmsb_last_error_code())
        return version

    def _raw_info(self) -> _abi.PageInfo:
        raw = sized(_abi.PageInfo)
        self._check(lib.mmsb_page_info(self._handle, raw))
        return raw

    def _note_location(self, location: str) -> None:
        """Warns if a page that has just got a location lies on a simulated device."""
        if location not in ("cpu", "disk"):
            self.info()

    def _range(self, key: SupportsIndex | slice) -> tuple[int, int]:
        """Offset and length of a subscript."""
        size = self.size
        if isinstance(key, slice):
            start, stop, step = key.indices(size)
            if step != 1:
                raise InvalidArgumentError(f"the step of a page's slice is {step}; only 1 is possible")
            return start, max(stop - start, 0)
        index = operator.index(key)
        if not -size <= index < size:
            raise OutOfRangeError(f"index {index} is outside the page's {size} bytes")
        return index % size, 1

    def _pinned(self, mode: int) -> memoryview:
        pins, address = Pins(self._context, (ctypes.c_uint64 * 1)(self._handle), mode), ctypes.c_void_p()
        try:
            status = lib.mmsb_page_pin(self._handle, mode, address)
        finally:
            if address.value:
                pins.taken.value = 1
        try:
            self._check(status)
            raw = self._raw_info()
            if raw.location == _ffi.LOCATIONS["gpu"]:
                raise UnsupportedError(f"page {raw.id} lies on gpu {raw.device}, whose memory the host cannot access")
            assert address.value is not None
            return view_held(address.value, raw.size, mode == _abi.PIN_WRITE, pins.holders[0])
        except BaseException:
            del pins  # the exception keeps this frame
            raise

    def _neighbours(self, function: str) -> PageArray:
        status, data = fetch(lambda buffer, capacity, count: getattr(lib, function)(self._handle, buffer, capacity, count), 8, 16)
        self._check(status)
        return PageArray(self._context, array("Q", data))


def page_handle(page: Page, what: str) -> int:
    """The handle of a page; TypeError for anything else, which what names."""
    if not isinstance(page, Page):
        raise TypeError(f"{what} must be a Page, not {type(page).__name__}")
    return page._handle


class PageArray(Sequence[Page]):
    """A sequence of pages, held as an array of handles, which batch calls take without a conversion."""

    __slots__ = ("_context", "_handles")

    def __init__(self, context: Context, handles: array[int] | memoryview) -> None:
        self._context = context
        self._handles = memoryview(handles).toreadonly()

    @property
    def handles(self) -> memoryview:
        """The handles, unsigned 64-bit numbers."""
        return self._handles

    @overload
    def __getitem__(self, key: int) -> Page: ...
    @overload
    def __getitem__(self, key: slice) -> PageArray: ...
    def __getitem__(self, key: int | slice) -> Page | PageArray:
        if isinstance(key, slice):
            return PageArray(self._context, self._handles[key])
        return Page(self._context, self._handles[key])

    def __len__(self) -> int:
        return len(self._handles)

    def __iter__(self) -> Iterator[Page]:
        for handle in self._handles:
            yield Page(self._context, handle)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        import numpy

        return as_array(numpy.asarray(self._handles), dtype, copy)

    def addresses(self) -> memoryview:
        """The address of each page as an unsigned 64-bit number, valid until the page is migrated, resized or destroyed."""
        batch = Batch(self._context, self)
        found = (ctypes.c_void_p * batch.count)()
        batch.check(lib.mmsb_page_address_many(batch.address, batch.count, found, batch.bad))
        return memoryview(found).cast("B").cast("Q")

    def __repr__(self) -> str:
        return f"<mmsb.PageArray of {len(self)}>"


#: Many pages: a PageArray, an iterable of pages, or an array of handles (NumPy's uint64 is not copied).
Pages = Union[PageArray, Iterable[Page], Iterable[int], BytesLike]


class Batch:
    """The pages of one call: their handles as the library takes them, and the index of the first bad one."""

    __slots__ = ("_buffer", "_context", "_pages", "address", "bad", "count")

    def __init__(self, context: Context, pages: Pages) -> None:
        context._must_be_open()
        self._context = context
        self._pages: Sequence[object] = ()
        if isinstance(pages, PageArray):
            self._pages = pages
            self._buffer = readable(pages.handles)
        elif has_buffer(pages):
            self._buffer = words(pages, "pages")
        else:
            members = list(cast("Iterable[Page]", pages))
            self._pages = members
            self._buffer = words([page.handle if isinstance(page, Page) else page for page in members], "pages")
        self.address = self._buffer.address
        self.count = self._buffer.length // 8
        self.bad = ctypes.c_size_t(_NO_INDEX)

    def first_bad(self, statuses: Iterable[int]) -> int | None:
        """The index that the call has stored, or that of the first status that is not OK; None where no page is bad."""
        if self.bad.value != _NO_INDEX:
            return self.bad.value
        return next((index for index, code in enumerate(statuses) if code), None)

    def say_which(self, error: MMSBError, bad: int | None) -> None:
        """Gives an error the index of the bad page, and its text the id."""
        error.index = bad
        if bad is None or error.code in (_abi.E_TIMEOUT, _abi.E_WOULD_BLOCK):
            return
        page = self._pages[bad] if bad < len(self._pages) else None
        handle = ctypes.c_uint64.from_address(self.address + 8 * bad).value
        id = page._id if isinstance(page, Page) and page._id else lib.mmsb_page_id(handle)
        name_page(error, handle, id)
        if id and f"page {id}" not in str(error):
            error.args = (f"page {id}: {error}",)

    def check(self, status: int) -> None:
        """Raises the exception for a status that is not OK, with the index of the bad page."""
        if status:
            raise self._failure(status)

    def _failure(self, status: int) -> MMSBError:
        error = failure(status)
        bad = self.bad.value
        page = self._pages[bad] if bad < len(self._pages) else None
        self.say_which(error, None if bad == _NO_INDEX else bad)
        context = page.context if isinstance(page, Page) else self._context
        if status == _abi.E_STALE_HANDLE and context.closed:
            closed = ClosedError(f"the context of the page at index {bad} is closed")
            closed.index = error.index
            return closed
        return error


def name_page(error: MMSBError, handle: int, id: int) -> None:
    """Names a page in the text of an error by its id, if that is known: it may have ended."""
    if id:
        error.args = (str(error).replace(f"page 0x{handle:016x}", f"page {id}"),)


def page_info(raw: _abi.PageInfo) -> PageInfo:
    """The library's struct as a PageInfo."""
    if raw.simulated:
        warn_simulated()
    return PageInfo(
        id=raw.id,
        size=raw.size,
        location=name_of(_ffi.LOCATIONS, raw.location),
        device=raw.device,
        numa_node=raw.numa_node,
        epoch=raw.epoch,
        version=raw.version,
        read_pins=raw.read_pins,
        write_pins=raw.write_pins,
        simulated=bool(raw.simulated),
        adopted=bool(raw.adopted),
        read_only=bool(raw.read_only),
        metadata_count=raw.metadata_count,
    )


_DEVICE_LOCATIONS = (_abi.LOCATION_GPU, _abi.LOCATION_UNIFIED, _abi.LOCATION_PINNED)
_NO_INDEX = 2**64 - 1
_warned = False


def warn_simulated() -> None:
    """Warns once per process that a device is simulated."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn("pages lie on a simulated device: host memory, no GPU", SimulatedDeviceWarning, stacklevel=3)
