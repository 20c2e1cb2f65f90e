"""Devices, and their memory in the order of streams."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex, Union

from . import _abi
from ._convert import BytesLike, c_text, new_bytes, readable, signed, unsigned
from ._errors import ClosedError, InvalidArgumentError, OutOfRangeError
from ._ffi import check, lib, value_of
from ._lease import hold, let_go, when_dropped
from .ticket import Ticket

if TYPE_CHECKING:
    from os import PathLike

    from .context import Context, File


class Device(NamedTuple):
    """What a device is."""

    #: The driver's number of it.
    ordinal: int
    name: str
    #: Whether it is simulated: its memory is the host's.
    simulated: bool
    #: "0000:65:00.0"; empty where there is none.
    pci: str
    uuid: bytes
    #: Of its memory: all, and what no process has taken.
    bytes: int
    free_bytes: int
    #: Of addresses that are reserved and mapped; 0 where the device cannot do that.
    granularity: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    #: Of the host, nearest to it; None where it is not known.
    numa_node: int | None
    #: Whether runtimes can be made, and whether unified pages can be there.
    ordered_memory: bool
    managed_memory: bool


class RuntimeStats(NamedTuple):
    """Counters of a runtime; outstanding is always live + pending. Those from allocations on only grow."""

    #: That are leased.
    streams: int
    #: Bytes of blocks that were not freed, those of frees that the device has not come past, both, and the most of both.
    outstanding: int
    live: int
    pending: int
    peak: int
    #: That were not freed.
    blocks: int
    allocations: int
    frees: int
    failures: int
    deferred_frees: int
    uses: int
    aborts: int
    #: Of streams for each other, and those that needed no event.
    waits: int
    waits_saved: int
    #: Of the budget, in bytes; all 0 without one.
    budget: int
    charged: int
    reserved_bytes: int
    charged_peak: int
    refusals: int
    #: Of the guard.
    reports: int


class TagStats(NamedTuple):
    """What a runtime has of one tag, in bytes and blocks."""

    live: int
    peak: int
    total: int
    blocks: int
    ever: int
    failures: int


class BlockInfo(NamedTuple):
    """What a block is."""

    device: int
    address: int
    bytes: int
    #: Uses that are begun and not ended.
    uses: int


def list_devices(context: Context) -> list[Device]:
    count = ctypes.c_size_t()
    context._check(lib.mmsb_device_list(context.handle, None, 0, count))
    found = (_abi.DeviceInfo * count.value)()
    context._check(lib.mmsb_device_list(context.handle, found, len(found), count))
    return [_device(info) for info in found]


def _device(info: _abi.DeviceInfo) -> Device:
    return Device(
        info.ordinal,
        info.name.decode("utf-8", "replace"),
        bool(info.simulated),
        info.pci.decode("utf-8", "replace"),
        bytes(info.uuid),
        info.bytes,
        info.free_bytes,
        info.granularity,
        (info.major, info.minor),
        info.multiprocessors,
        None if info.numa_node < 0 else info.numa_node,
        bool(info.ordered_memory),
        bool(info.managed_memory),
    )


def shared_runtime(context: Context, device: SupportsIndex) -> Runtime:
    handle = ctypes.c_uint64()
    context._check(lib.mmsb_runtime_shared(context.handle, signed(device, "device"), handle))
    return Runtime(context, handle.value, owned=False)


def create_runtime(
    context: Context,
    device: SupportsIndex,
    streams: int | None,
    budget: int,
    ledger: str | PathLike[str] | None,
    log_events: int,
    guard_every: int,
    guard_quarantine: int,
    refused: Callable[[int, int], bool] | None,
    refused_attempts: int | None,
) -> Runtime:
    options = _abi.RuntimeOptions()
    lib.mmsb_runtime_options_init(options)
    if streams is not None:
        options.streams = min(unsigned(streams, "streams"), 2**32 - 1)
    options.budget = unsigned(budget, "budget")
    if ledger is not None:
        options.ledger = c_text(os.fspath(ledger), "ledger")
    options.log_events = unsigned(log_events, "log_events")
    options.guard_every = unsigned(guard_every, "guard_every")
    options.guard_quarantine = unsigned(guard_quarantine, "guard_quarantine")
    if refused_attempts is not None:
        options.refused_attempts = unsigned(refused_attempts, "refused_attempts")
    token = 0
    if refused is not None:
        ask = refused
        options.refused = _abi.RefusedFunction(lambda _user, size, attempt, _code: bool(ask(size, attempt)))
        token = hold(options.refused)
    handle = ctypes.c_uint64()
    status = lib.mmsb_runtime_create(context.handle, signed(device, "device"), options, handle)
    if status:
        let_go(token)
        context._check(status)
    return Runtime(context, handle.value, owned=True, token=token)


class Runtime:
    """Streams and blocks of a device: the runtime that everybody shares, or one of the program's own.

    One of the program's own ends with close(), with its context, and when it is dropped together with its streams and
    blocks. Closing the shared one only lets this object go.
    """

    __slots__ = ("__weakref__", "_context", "_finalizer", "_handle")

    def __init__(self, context: Context, handle: int, owned: bool, token: int = 0) -> None:
        self._context = context
        self._handle = handle
        self._finalizer = when_dropped(self, _end_runtime, handle if owned else 0, token)

    @property
    def handle(self) -> int:
        """The library's handle."""
        if not self._finalizer.alive:
            raise ClosedError("the runtime is closed")
        self._context._must_be_open()
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether close() has been called, or the context closed."""
        return not self._finalizer.alive or self._context.closed

    def stream(self, priority: int = 0) -> Stream:
        """Leases a stream; priority -1 is served before 0."""
        handle = ctypes.c_uint64()
        check(lib.mmsb_stream_create(self.handle, signed(priority, "priority"), handle))
        return Stream(self, handle.value)

    def wrap(self, stream: Any) -> Stream:
        """A stream of the program: an object with __cuda_stream__, or the driver's number of one; 0 is the default stream.

        It is kept alive as long as the result. AlreadyExistsError where it is wrapped already.
        """
        native = cuda_stream(stream)
        handle = ctypes.c_uint64()
        check(lib.mmsb_stream_wrap(self.handle, native, handle))
        return Stream(self, handle.value, kept=stream)

    def reserve(self, bytes: int) -> Reservation:
        """Keeps bytes of the budget for blocks to come: nobody else gets them."""
        handle = ctypes.c_uint64()
        check(lib.mmsb_reservation_create(self.handle, unsigned(bytes, "bytes"), handle))
        return Reservation(self, handle.value)

    def stats(self) -> RuntimeStats:
        """The counters now."""
        raw = _abi.RuntimeStats(struct_size=ctypes.sizeof(_abi.RuntimeStats))
        check(lib.mmsb_runtime_stats(self.handle, raw))
        return RuntimeStats(*(getattr(raw, name) for name in RuntimeStats._fields))

    def tag_stats(self, tag: str) -> TagStats:
        """What there is of a tag."""
        raw = _abi.TagStats()
        check(lib.mmsb_runtime_tag_stats(self.handle, _tag(tag), raw))
        return TagStats(*(getattr(raw, name) for name in TagStats._fields))

    def reap(self) -> None:
        """Looks which frees the device has come past, without waiting for it."""
        check(lib.mmsb_runtime_reap(self.handle))

    def trim(self, keep: int = 0) -> None:
        """Gives memory that the driver keeps for reuse back to the device, down to keep bytes."""
        check(lib.mmsb_runtime_trim(self.handle, unsigned(keep, "keep")))

    def write_log(self, file: File) -> None:
        """Writes what the log has, in the form of RMM's logging adaptor (CSV)."""
        descriptor = file if isinstance(file, int) else file.fileno()
        check(lib.mmsb_runtime_log_write(self.handle, signed(descriptor, "file")))

    def close(self) -> None:
        """Ends a runtime of the program's own, with its streams and blocks, when the device has done its work. Idempotent."""
        self._finalizer()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mmsb.Runtime{' closed' if self.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a runtime cannot be pickled or copied")


class Reservation:
    """Bytes of a budget that are kept. What is left comes back when it is closed or dropped."""

    __slots__ = ("__weakref__", "_finalizer", "_handle", "_runtime")

    def __init__(self, runtime: Runtime, handle: int) -> None:
        self._runtime = runtime
        self._handle = handle
        self._finalizer = when_dropped(self, _give_back, "mmsb_reservation_destroy", handle, None)

    @property
    def handle(self) -> int:
        """The library's handle."""
        if not self._finalizer.alive:
            raise ClosedError("the reservation is closed")
        return self._handle

    def close(self) -> int:
        """Gives back what is left, and says how many bytes that were; 0 where it is closed."""
        left = ctypes.c_uint64()
        if self._finalizer.detach() is not None:
            check(lib.mmsb_reservation_destroy(self._handle, left))
        return left.value

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reservation cannot be pickled or copied")


class Stream:
    """A queue of work on a device. Closing or dropping it gives the lease back; queued work goes on."""

    __slots__ = ("__weakref__", "_finalizer", "_handle", "_kept", "_runtime")

    def __init__(self, runtime: Runtime, handle: int, kept: object = None) -> None:
        self._runtime = runtime
        self._handle = handle
        self._kept = kept
        self._finalizer = when_dropped(self, _give_back, "mmsb_stream_destroy", handle)

    @property
    def handle(self) -> int:
        """The library's handle."""
        if not self._finalizer.alive:
            raise ClosedError("the stream is closed")
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether close() has been called."""
        return not self._finalizer.alive

    @property
    def native(self) -> int:
        """The driver's stream, to queue work on."""
        native = ctypes.c_void_p()
        check(lib.mmsb_stream_native(self.handle, native))
        return native.value or 0

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.native

    def allocate(self, bytes: int, tag: str = "untagged", reservation: Reservation | None = None) -> Block:
        """Takes device memory in the order of this stream; its bytes are not defined."""
        block, address = ctypes.c_uint64(), ctypes.c_void_p()
        size = unsigned(bytes, "bytes")
        check(lib.mmsb_block_allocate(self.handle, size, _tag(tag), reservation.handle if reservation else 0, block, address))
        return Block(self, block.value, address.value or 0, size)

    def use(self, *accesses: tuple[Block, str]) -> Use:
        """Work on blocks, each with "read", "write" or "read_write": with stream.use((block, "write")): queue the work."""
        return Use(self, accesses)

    def recorder(self, permissive: bool = False) -> Recorder:
        """The same for blocks that are added one by one; permissive: None, memory of others, is passed over."""
        handle = ctypes.c_uint64()
        check(lib.mmsb_use_record(self.handle, int(bool(permissive)), handle))
        return Recorder(self, handle.value)

    def copy(self, to: Place, source: Place, length: int) -> None:
        """Queues a copy between blocks, or addresses of devices or the host. Host memory must stay until it is done."""
        size = unsigned(length, "length")
        check(lib.mmsb_stream_copy(self.handle, _address(to, size), _address(source, size), size))

    def fill(self, to: Place, value: int, length: int | None = None) -> None:
        """Queues setting bytes to a value; of a block all of them, where length is None."""
        if length is None and not isinstance(to, Block):
            raise InvalidArgumentError("length is needed where to is an address")
        size = to.bytes if length is None and isinstance(to, Block) else unsigned(length or 0, "length")
        if not 0 <= value <= 255:
            raise OutOfRangeError(f"value {value} is no byte")
        check(lib.mmsb_stream_fill(self.handle, _address(to, size), value, size))

    def write(self, block: Block, data: BytesLike, offset: int = 0) -> None:
        """Copies bytes of the host into a block, as a use of it, and waits until they are there."""
        buffer = readable(data)
        with self.use((block, "write")):
            self.copy(_within(block, offset, buffer.length), buffer.address, buffer.length)
        self.wait()

    def read(self, block: Block, length: int | None = None, offset: int = 0) -> bytes:
        """The bytes of a block, as a use of it; waits until they have come."""
        size = block.bytes - offset if length is None else unsigned(length, "length")
        source = _within(block, offset, size)
        data = new_bytes(size)
        if size:
            with self.use((block, "read")):
                self.copy(readable(data).address, source, size)
        self.wait()
        return data

    def wait(self, timeout: float | None = None) -> None:
        """Waits until everything queued is done. TimeoutError, and WouldBlockError where timeout is 0."""
        if timeout == 0:
            check(lib.mmsb_stream_wait(self.handle, 0))
            return
        with self.record() as ticket:  # which lets Python look at signals
            ticket.wait(timeout)

    def record(self) -> Ticket[None]:
        """A ticket that is done when everything queued so far is."""
        ticket = ctypes.c_uint64()
        check(lib.mmsb_stream_record(self.handle, ticket))
        return Ticket(ticket.value, 0, lambda: None)

    def after(self, ticket: Ticket[None]) -> None:
        """Lets what is queued from now on run behind a ticket of record(). The device waits, not the host."""
        check(lib.mmsb_stream_after(self.handle, ticket.handle))

    def close(self) -> None:
        """Gives the stream back. Idempotent."""
        if self._finalizer.detach() is not None:
            check(lib.mmsb_stream_destroy(self._handle))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mmsb.Stream{' closed' if self.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream cannot be pickled or copied")


class Block:
    """Device memory. It is given back, behind all its uses, by free(), or when it is dropped."""

    __slots__ = ("__weakref__", "_address", "_bytes", "_finalizer", "_handle", "_stream")

    def __init__(self, stream: Stream, handle: int, address: int, size: int) -> None:
        self._stream = stream
        self._handle = handle
        self._address = address
        self._bytes = size
        self._finalizer = when_dropped(self, _give_back, "mmsb_block_free", handle, 0, None)

    @property
    def handle(self) -> int:
        """The library's handle."""
        if not self._finalizer.alive:
            raise ClosedError("the block was freed")
        return self._handle

    @property
    def address(self) -> int:
        """Its first byte, for devices: the host must not touch it."""
        return self._address

    @property
    def bytes(self) -> int:
        """How many there are."""
        return self._bytes

    def info(self) -> BlockInfo:
        """What it is."""
        raw = _abi.BlockInfo(struct_size=ctypes.sizeof(_abi.BlockInfo))
        check(lib.mmsb_block_info(self.handle, raw))
        return BlockInfo(raw.device, raw.address or 0, raw.bytes, raw.uses)

    def free(self, stream: Stream | None = None) -> bool:
        """Gives the memory back in the order of a stream (None: its own). True where a use is open: its end does it then."""
        deferred = ctypes.c_int32()
        check(lib.mmsb_block_free(self.handle, stream.handle if stream else 0, deferred))
        self._finalizer.detach()
        return bool(deferred.value)

    def __len__(self) -> int:
        return self._bytes

    def __repr__(self) -> str:
        return f"<mmsb.Block of {self._bytes} bytes at {self._address:#x}{'' if self._finalizer.alive else ', freed'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a block cannot be pickled or copied")


class Use:
    """What work that is queued inside a with statement does with blocks: see Stream.use.

    Where the statement ends by an exception the use is aborted: the order is kept as if the work had been queued.
    """

    __slots__ = ("_accesses", "_handle", "_stream")

    def __init__(self, stream: Stream, accesses: tuple[tuple[Block, str], ...]) -> None:
        self._stream = stream
        self._accesses = (_abi.Access * len(accesses))()
        for access, (block, how) in zip(self._accesses, accesses):
            access.block = block.handle
            access.access = value_of(_abi.ACCESS, how, "access")
        self._handle = 0

    def _begin(self) -> None:
        if self._handle:
            raise InvalidArgumentError("the use has begun: make another one")
        handle, bad = ctypes.c_uint64(), ctypes.c_size_t()
        check(lib.mmsb_use_begin(self._stream.handle, self._accesses, len(self._accesses), handle, bad))
        self._handle = handle.value

    def __enter__(self) -> Use:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        handle, self._handle = self._handle, 0
        check(lib.mmsb_use_end(handle) if kind is None else lib.mmsb_use_abort(handle))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a use cannot be pickled or copied")


class Recorder(Use):
    """A use whose blocks are collected first: add() each, then queue the work inside a with statement. It serves once."""

    __slots__ = ("__weakref__", "_finalizer")

    def __init__(self, stream: Stream, handle: int) -> None:
        super().__init__(stream, ())
        self._handle = handle
        self._finalizer = when_dropped(self, _give_back, "mmsb_use_abort", handle)

    def add(self, block: Block | None, access: str) -> None:
        """Adds a block. One that cannot be used is reported where the with statement begins."""
        how = value_of(_abi.ACCESS, access, "access")
        check(lib.mmsb_use_add(self._recording(), block.handle if block is not None else 0, how))

    def _recording(self) -> int:
        if not self._finalizer.alive:
            raise ClosedError("the recorder has served")
        return self._handle

    def _begin(self) -> None:
        check(lib.mmsb_use_begin_recorded(self._recording()))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finalizer.detach()
        super().__exit__(kind, error, trace)


#: A block, or an address of a device or of the host.
Place = Union[Block, int]


def _address(place: Place, length: int) -> int:
    return _within(place, 0, length) if isinstance(place, Block) else unsigned(place, "address")


def _within(block: Block, offset: int, length: int) -> int:
    if unsigned(offset, "offset") + length > block.bytes or length < 0:
        raise OutOfRangeError(f"{length} bytes at {offset} reach past the block's {block.bytes}")
    block.handle  # noqa: B018 - raises for a block that was freed
    return block.address + offset


def cuda_stream(stream: Any) -> int:
    """The driver's number of a stream."""
    protocol = getattr(type(stream), "__cuda_stream__", None)
    if protocol is not None:
        version, number = protocol(stream)
        if version != 0:
            raise InvalidArgumentError(f"__cuda_stream__ of {type(stream).__name__} has version {version}, known is 0")
        stream = number
    if isinstance(stream, bool) or not hasattr(type(stream), "__index__"):
        raise TypeError(f"a stream must be an int or have __cuda_stream__, {type(stream).__name__} has not")
    return unsigned(stream, "stream")


@lru_cache(maxsize=4096)
def _tag(name: str) -> int:
    tag = ctypes.c_uint32()
    check(lib.mmsb_tag_of(c_text(name, "tag"), tag))
    return tag.value


def _give_back(function: str, *arguments: Any) -> None:
    """What was dropped; it may be gone with its runtime."""
    if not lib.forked:
        getattr(lib, function)(*arguments)


def _end_runtime(handle: int, token: int) -> None:
    if handle and not lib.forked:
        _ended(lib.mmsb_runtime_destroy(handle))
    let_go(token)


def _ended(status: int) -> None:
    """A runtime that its context has ended is ended."""
    if status not in (_abi.OK, _abi.E_STALE_HANDLE):
        check(status)
