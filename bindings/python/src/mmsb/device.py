"""Devices, and stream-ordered memory on them."""

from __future__ import annotations

import ctypes
import math
import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from numbers import Integral
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, Union, overload

from . import _abi
from ._convert import BytesLike, c_text, nanoseconds, new_bytes, readable, signed, unsigned
from ._errors import ClosedError, InvalidArgumentError, MismatchError, MMSBError, OutOfRangeError
from ._ffi import as_record, check, failure, lib, listed, number_from, sized, value_of
from ._lease import end, hold, let_go, when_dropped
from ._object import Closable, Handled, NotCopied
from ._tensor import DEFAULT_STREAM, Lender, Wanted, export, lend, stream_of
from .capture import Capture
from .snapshot import AnyPath, path_bytes
from .ticket import Ticket, let_go_behind, sweep
from .view import ArrowBytes, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .context import Context, File
    from .page import Page


class Device(NamedTuple):
    """The properties of a device."""

    #: The driver's number of the device.
    ordinal: int
    name: str
    #: Whether it is simulated: its memory is host memory.
    simulated: bool
    #: PCI address like "0000:65:00.0"; empty if there is none.
    pci: str
    uuid: bytes
    #: Memory of the device in bytes, and how much of it no process has taken; 0 if that is not known.
    bytes: int
    free_bytes: int
    #: Granularity of address ranges that are reserved and mapped, in bytes; 0 if the device cannot do that.
    granularity: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    #: The host's NUMA node nearest to the device; None if it is not known.
    numa_node: int | None
    #: Whether runtimes can be created, whether unified pages can lie there, and whether they are prefetched and take advice.
    ordered_memory: bool
    managed_memory: bool
    managed_hints: bool


class RuntimeStats(NamedTuple):
    """Counters of a runtime; outstanding is always live + pending. Counters from allocations to waits_saved only grow."""

    #: Leased streams.
    streams: int
    #: Bytes: of live and pending blocks, of blocks that were not freed, of freed blocks whose free the device is not known to
    #: have passed, and the largest value of outstanding.
    outstanding: int
    live: int
    pending: int
    peak: int
    #: Blocks that were not freed.
    blocks: int
    allocations: int
    frees: int
    #: Allocations that failed.
    failures: int
    #: Frees during an open use.
    deferred_frees: int
    uses: int
    aborts: int
    #: Waits of one stream for another, and further waits that needed no event.
    waits: int
    waits_saved: int
    #: The budget in bytes, what is charged to it, the part of it that reservations hold, the largest charge, and the number of
    #: refusals; all 0 without a budget.
    budget: int
    charged: int
    reserved_bytes: int
    charged_peak: int
    refusals: int
    #: Writes outside of live blocks that the guard found.
    reports: int
    #: Of the pool, all 0 without one: bytes of its segments, bytes of these that blocks have, bytes of the largest free piece,
    #: bytes of segments that were moved or given back, how often memory was missing until all free segments were moved, and
    #: allocations for which segments had to get memory.
    pool_reserved: int
    pool_held: int
    pool_largest_free: int
    pool_moved: int
    pool_retries: int
    pool_misses: int
    #: Of tags that sleep, in bytes: of their segments, which are not among the above, what is kept of their blocks, and what was
    #: copied for that, to the host and back, since the runtime began.
    sleeping: int
    sleeping_kept: int
    sleeping_copied: int
    #: Calls of refused (create_runtime), each attempt one.
    refused_calls: int


class TagStats(NamedTuple):
    """Counters of one tag in a runtime."""

    #: Bytes that are outstanding, and their largest value.
    live: int
    peak: int
    #: Bytes of all allocations so far.
    total_bytes: int
    #: Blocks that are outstanding.
    blocks: int
    #: Number of all allocations so far.
    total_blocks: int
    #: Allocations that failed.
    failures: int


class DeviceMemory(NamedTuple):
    """What this process has taken of a device's memory, or of pinned memory of the host, for all its contexts."""

    #: Runtimes of the device in this process.
    runtimes: int
    #: Bytes that it may take; 0 = any number.
    budget: int
    #: Bytes of pools' segments, of blocks of runtimes without a pool, and of unified pages; of the host: of pinned pages and
    #: memory for copies.
    charged: int
    charged_peak: int
    #: Bytes of charged that pools keep and no block has, and pinned memory that is kept for the next sleep.
    pool_free: int
    #: Requests that made other runtimes give back what they keep, those that had their memory then, and the bytes.
    asked: int
    helped: int
    returned: int


class BlockInfo(NamedTuple):
    """The properties of a block; address is a device address."""

    device: int
    address: int
    bytes: int
    #: Open uses: begun and not ended.
    uses: int
    #: Whether its tag sleeps: it has its address, and no memory.
    asleep: bool


def block_info(handle: int) -> BlockInfo:
    """The properties of a block of the library."""
    raw = sized(_abi.BlockInfo)
    check(lib.mmsb_block_info(handle, raw))
    return BlockInfo(raw.device, raw.address or 0, raw.bytes, raw.uses, bool(raw.asleep))


def device_of(info: _abi.DeviceInfo) -> Device:
    """The library's struct as a Device."""
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
        bool(info.managed_hints),
    )


_PICTURES = {
    ".html": _abi.PICTURE_HTML,
    ".json": _abi.PICTURE_JSON,
    ".pickle": _abi.PICTURE_TORCH,
    ".pkl": _abi.PICTURE_TORCH,
}


class _Hook(threading.local):
    """What hooks have raised within a call of this thread that allocates; None outside of such calls."""

    raised: list[BaseException] | None = None


_hook = _Hook()


class _Unraised:
    """Python gives what it raises when it is gone to sys.unraisablehook."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def asking(refused: Callable[[int, int], bool]) -> Callable[[int | None, int, int, int], bool]:
    """A hook of create_runtime() as the library calls it: an exception says no, and waits for allocate()."""

    def ask(_user: int | None, size: int, attempt: int, _status: int) -> bool:
        try:
            return bool(refused(size, attempt))
        except BaseException as error:
            if _hook.raised is None:
                _Unraised(error)
            else:
                _hook.raised.append(error)
            return False

    return ask


def _allocate(call: Callable[..., int], *arguments: object) -> None:
    """Calls a function of the library that allocates, and raises its error, or what the hook has raised."""
    outer, _hook.raised = _hook.raised, []
    try:
        status = call(*arguments)
        if status:
            raise _hook.raised.pop() if _hook.raised else failure(status)
    finally:
        _hook.raised = outer


class Runtime(Closable):
    """Streams and blocks of a device: the shared runtime, or one of the program's own.

    A runtime of the program's own ends with close(), with its context, or when it and its streams and blocks are dropped.
    Closing the shared runtime only ends this object.
    """

    __slots__ = ("__weakref__", "_context", "_finalizer", "_handle")

    _name = "runtime"

    def __init__(self, context: Context, handle: int, owned: bool, token: int = 0) -> None:
        """owned: it ends with this object; token: from hold(), for what the library calls."""
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

    @property
    def context(self) -> Context:
        """The context whose device it serves."""
        return self._context

    @property
    def device(self) -> int:
        """The driver's number of the runtime's device."""
        return _ordinal(lib.mmsb_runtime_device, self.handle)

    def block_at(self, address: int) -> tuple[BlockInfo, int]:
        """The live block of the runtime that has an address, and how many bytes into it the address is.

        It looks at all blocks. NotFoundError where there is none.
        """
        block, offset = ctypes.c_uint64(), ctypes.c_uint64()
        check(lib.mmsb_block_at(self.handle, unsigned(address, "address"), block, offset))
        return block_info(block.value), offset.value

    def stream(self, priority: int = 0) -> Stream:
        """Leases a stream. priority: 0, or -1 to run before streams of priority 0."""
        return Stream(self, number_from(lib.mmsb_stream_create, self.handle, signed(priority, "priority")))

    def wrap(self, stream: Any) -> Stream:
        """Registers a stream of the program: an object with __cuda_stream__, or the driver's pointer; 0 is the default stream.

        The object is kept alive as long as the result. Raises AlreadyExistsError if the stream is registered already.
        """
        native = cuda_stream(stream)
        return Stream(self, number_from(lib.mmsb_stream_wrap, self.handle, native), kept=stream)

    def allocate(self, bytes: int, stream: Any = None) -> int:
        """Allocates device memory for another library, and returns its address: free() must be called.

        stream: the stream of the other library that uses it (an object with __cuda_stream__, or a pointer), which may be
        destroyed afterwards; None = every stream may use it when the call returns, as memory of cudaMalloc.
        """
        address = ctypes.c_void_p()
        kind = _abi.PLUGIN_SEGMENT if stream is None else _abi.PLUGIN_ORDERED
        native = 0 if stream is None else cuda_stream(stream)
        _allocate(lib.mmsb_plugin_allocate, self.handle, unsigned(bytes, "bytes"), native, kind, address)
        return address.value or 0

    def record(self, address: int, stream: Any) -> None:
        """States that work which another stream has queued so far uses memory of allocate(): free() comes behind that work."""
        check(lib.mmsb_plugin_record(unsigned(address, "address"), cuda_stream(stream)))

    def free(self, address: int, stream: Any = 0) -> None:
        """Frees memory of allocate() behind all work of the stream; memory of no stream behind all work of the device.

        Raises NotFoundError if it was freed already.
        """
        check(lib.mmsb_plugin_free(unsigned(address, "address"), cuda_stream(stream)))

    def reserve(self, bytes: int) -> Reservation:
        """Reserves bytes of the budget for later blocks: no other allocation can take them."""
        return Reservation(self, number_from(lib.mmsb_reservation_create, self.handle, unsigned(bytes, "bytes")))

    def stats(self) -> RuntimeStats:
        """The current counters."""
        raw = sized(_abi.RuntimeStats)
        check(lib.mmsb_runtime_stats(self.handle, raw))
        return as_record(RuntimeStats, raw)

    def tag_stats(self, tag: str) -> TagStats:
        """The current counters of a tag."""
        raw = _abi.TagStats()
        check(lib.mmsb_runtime_tag_stats(self.handle, _tag(tag), raw))
        return as_record(TagStats, raw)

    def reap(self) -> None:
        """Checks which frees the device has passed and counts their bytes as free, without waiting for the device."""
        check(lib.mmsb_runtime_reap(self.handle))

    def trim(self, keep: int = 0) -> None:
        """Gives memory that is kept for reuse back to the device, until keep bytes or up to 6 MiB fewer are left, and all such
        pinned memory."""
        check(lib.mmsb_runtime_trim(self.handle, unsigned(keep, "keep")))

    def partition(self, *tags: str) -> None:
        """Gives each tag segments of its own in the pool: blocks that are allocated with it from now on can sleep."""
        for tag in tags:
            check(lib.mmsb_pool_partition(self.handle, _tag(tag)))

    def sleep(self, *tags: str, keep: bool = True, folder: AnyPath | None = None, timeout: float | None = None) -> None:
        """Gives the memory of tags of partition() back to the device, all of it or none; the blocks keep their addresses.

        The bytes of blocks are kept in pinned memory, or with folder in a file without a name there; with keep=False they are
        dropped. Pinned memory stays for the next sleep, until trim(). It waits for queued work, at most timeout seconds:
        TimeoutError, or WouldBlockError for timeout 0.
        """
        options = _abi.SleepOptions()
        lib.mmsb_sleep_options_init(options)
        if folder is not None and not keep:
            raise InvalidArgumentError("folder is given, but keep is False")
        if folder is not None:
            options.folder = path_bytes(folder, "folder")
        options.mode = _abi.SLEEP_DROP if not keep else _abi.SLEEP_KEEP if folder is None else _abi.SLEEP_FILE
        options.timeout_ns = nanoseconds(timeout)
        check(lib.mmsb_pool_sleep(self.handle, _tags(tags), len(tags), options))

    def wake(self, *tags: str) -> None:
        """Gives tags that sleep their memory and bytes again, all of them or none."""
        check(lib.mmsb_pool_wake(self.handle, _tags(tags), len(tags)))

    def capture(self, *streams: Stream) -> Capture:
        """Begins a capture on streams, for a with statement that captures a graph: it ends with the statement.

        Blocks that the streams allocate within come from memory of its own. What is freed of it is given out again only there,
        until the result is closed: keep it as long as the graph runs.
        Example: with runtime.capture(stream) as memory: record(graph, stream.native).
        """
        return Capture(streams)

    def write_log(self, file: File) -> None:
        """Writes the events of the log as text, in the CSV format of RMM's logging adaptor."""
        descriptor = file if isinstance(file, int) else file.fileno()
        check(lib.mmsb_runtime_log_write(self.handle, signed(descriptor, "file")))

    def memory_stats(self) -> dict[str, int]:
        """Statistics under the names of torch.cuda.memory_stats, such as "allocated_bytes.all.current".

        Names that mean nothing here are left out. POOL is all, small_pool (up to 1 MiB) or large_pool. In every family current is
        allocated - freed; what streams give out again by themselves counts.
        """
        entries = listed(_abi.MemoryStat, lib.mmsb_runtime_memory_stats, self.handle, capacity=256)
        return {entry.name.decode(): entry.value for entry in entries}

    @overload
    def snapshot(self) -> dict[str, Any]: ...

    @overload
    def snapshot(self, path: str | os.PathLike[str]) -> None: ...

    def snapshot(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
        """A picture of the memory: its segments and blocks, and with log_events the events before.

        path: a file to write; its ending chooses the form. ".html" is a page for a browser, ".pickle" (or ".pkl") what
        pytorch.org/memory_viz opens, ".json" what the command `mmsb memory report` reads. None: returns the dict that the pickle
        holds: segments and device_traces, in the schema of torch.cuda.memory._snapshot.
        """
        if path is None:
            with tempfile.TemporaryFile() as file:
                check(lib.mmsb_runtime_snapshot_write(self.handle, file.fileno(), _abi.PICTURE_TORCH))
                file.seek(0)
                picture: dict[str, Any] = pickle.load(file)  # noqa: S301: the library has just written it
                return picture
        form = _PICTURES.get(os.path.splitext(path)[1].lower())
        if form is None:
            raise InvalidArgumentError(f"path is {os.fspath(path)!r}; it must end in {', '.join(_PICTURES)}")
        handle = self.handle
        with open(path, "wb") as file:
            check(lib.mmsb_runtime_snapshot_write(handle, file.fileno(), form))
        return None

    def close(self) -> None:
        """Waits for the queued work, then ends a runtime of the program's own with its streams and blocks. Idempotent."""
        end(self._finalizer)

    def __repr__(self) -> str:
        return f"<mmsb.Runtime{' closed' if self.closed else ''}>"


class Reservation(Handled):
    """Reserved bytes of a budget. Closing or dropping it gives the remaining bytes back to the budget."""

    __slots__ = ("_left", "_runtime")

    _name = "reservation"

    def __init__(self, runtime: Runtime, handle: int) -> None:
        self._runtime = runtime
        self._handle = handle
        self._left = ctypes.c_uint64()
        self._finalizer = when_dropped(self, _give_back, "mmsb_reservation_destroy", handle, self._left)

    def close(self) -> int:
        """Gives the remaining bytes back and returns their number; 0 if it is closed already."""
        status = end(self._finalizer)
        if status is None:
            return 0
        check(status)
        return self._left.value


class Stream(Handled):
    """A queue of work on a device. Closing or dropping it ends the lease; queued work goes on."""

    __slots__ = ("_kept", "_runtime")

    _name = "stream"

    def __init__(self, runtime: Runtime, handle: int, kept: object = None) -> None:
        self._runtime = runtime
        self._handle = handle
        self._kept = kept
        self._finalizer = when_dropped(self, _give_back, "mmsb_stream_destroy", handle)

    @property
    def closed(self) -> bool:
        """Whether close() has been called."""
        return not self._finalizer.alive

    @property
    def native(self) -> int:
        """The driver's stream (CUstream) as a number, for queuing work."""
        native = ctypes.c_void_p()
        check(lib.mmsb_stream_native(self.handle, native))
        return native.value or 0

    @property
    def device(self) -> int:
        """The driver's number of the stream's device."""
        return _ordinal(lib.mmsb_stream_device, self.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.native

    def allocate(self, bytes: int, tag: str = "untagged", reservation: Reservation | None = None) -> Block:
        """Allocates device memory in the order of this stream, aligned to 256 bytes; its contents are undefined.

        reservation: the bytes are taken from it.
        """
        block, address = ctypes.c_uint64(), ctypes.c_void_p()
        size = unsigned(bytes, "bytes")
        reserved = reservation.handle if reservation else 0
        _allocate(lib.mmsb_block_allocate, self.handle, size, _tag(tag), reserved, block, address)
        return Block(self, block.value, address.value or 0, size)

    def use(self, *accesses: tuple[Block | Page, str] | Block | Page) -> Use:
        """A use of blocks, and of "gpu", "unified" or "pinned" pages, each with "read", "write" or "read_write".

        One that stands alone is read and written.

        A with statement queues the work. A page is pinned meanwhile, and calls on it that come later wait for the work. The
        stream may be of any runtime of the device. A page that is only read may lie elsewhere and have a replica on the device
        (Page.replicate).

        Example: with stream.use((block, "write"), (page, "read")) as use: launch(block.address, use.address(page)).
        """
        return Use(self, accesses)

    def recorder(self, permissive: bool = False) -> Recorder:
        """A use whose blocks are added one by one. permissive: add() ignores None, which stands for memory of others."""
        return Recorder(self, number_from(lib.mmsb_use_record, self.handle, int(bool(permissive))))

    def copy(self, to: Memory, source: Memory, length: int | None = None) -> None:
        """Queues a copy between any two of blocks, pages, arrays of other libraries and addresses.

        - an array has one of the protocols that Context.adopt() takes, and lies row by row. Work on it that its library has
          queued comes before the copy; what that queues later waits for nothing, unless the program says so. Arrays and pages
          are kept, and pages stay where they are, until the stream has passed the copy, which wait() and later copies notice; in
          a capture the program keeps them
        - blocks, and pages on devices, are copied within a use of them
        - an address is a number; the memory must stay valid until the copy is done
        - length: bytes from the first on; None = all, and both must have the same number, which an address takes over

        Example: stream.copy(block, numpy_array), stream.copy(tensor, block).
        """
        parts = _part(self, "to", to, True), _part(self, "source", source, False)
        size = _common_length(parts, length)
        kept = [part.kept for part in parts if part.kept is not None]
        token = hold(kept) if kept else 0
        try:
            for part in parts:
                if part.behind:
                    check(lib.mmsb_stream_after_native(self.handle, part.behind))
            check(lib.mmsb_stream_copy(self.handle, parts[0].address, parts[1].address, size))
        except MMSBError:  # of Ctrl-C nobody knows whether the copy was queued
            let_go(token)
            raise
        if token:
            let_go_behind(self.handle, token)

    def fill(self, to: BlockOrAddress, value: int, length: int | None = None) -> None:
        """Queues setting length bytes to value, from 0 to 255. length None: all bytes of a block."""
        if length is None and not isinstance(to, Block):
            raise InvalidArgumentError("length is None; for an address it must be given")
        size = to.bytes if length is None and isinstance(to, Block) else unsigned(length or 0, "length")
        if not 0 <= value <= 255:
            raise OutOfRangeError(f"value is {value}; the range is 0 to 255")
        check(lib.mmsb_stream_fill(self.handle, _address(to, size), value, size))

    def copy_many(self, copies: Iterable[tuple[BlockOrAddress, BlockOrAddress, int]]) -> None:
        """Queues many copies (to, source, length) as one kernel, in no order: gathers pages, or scatters them."""
        rows = [
            _abi.Copy(_address(to, length), _address(source, length), unsigned(length, "length")) for to, source, length in copies
        ]
        check(lib.mmsb_stream_copy_many(self.handle, (_abi.Copy * len(rows))(*rows), len(rows), None))

    def compare(self, result: BlockOrAddress, a: BlockOrAddress, b: BlockOrAddress, length: int) -> None:
        """Queues result[i] = 1 where a[i] equals b[i], else 0, for length bytes."""
        size = unsigned(length, "length")
        check(lib.mmsb_stream_compare(self.handle, _address(result, size), _address(a, size), _address(b, size), size))

    def difference(self, result: BlockOrAddress, a: BlockOrAddress, b: BlockOrAddress, length: int) -> None:
        """Queues counting the bytes that differ. result becomes two numbers of 8 bytes: the count, and the first one's index.

        The index is 2**64 - 1 if no byte differs.
        """
        size = unsigned(length, "length")
        found = _abi.Difference.from_address(_address(result, 16))  # perhaps of a device: nobody looks there
        check(lib.mmsb_stream_difference(self.handle, found, _address(a, size), _address(b, size), size))

    def differences(self, bits: BlockOrAddress, a: BlockOrAddress, b: BlockOrAddress, length: int) -> None:
        """Queues a bit mask of where a and b differ: bit i % 8 of byte i // 8."""
        size = unsigned(length, "length")
        mask = _address(bits, (size + 7) // 8)
        check(lib.mmsb_stream_differences(self.handle, mask, _address(a, size), _address(b, size), size))

    def checksum(self, sums: BlockOrAddress, source: BlockOrAddress, length: int, part: int) -> None:
        """Queues the CRC-32C of every part bytes of source into sums, 4 bytes each. checksum_join makes one of several."""
        size, of_part = unsigned(length, "length"), unsigned(part, "part")
        room = 4 * -(-size // of_part) if of_part else 0
        check(lib.mmsb_stream_checksum(self.handle, _address(sums, room), _address(source, size), size, of_part))

    def merge(
        self,
        to: BlockOrAddress,
        mask: BlockOrAddress,
        payload: BlockOrAddress,
        length: int,
        bits: bool = False,
    ) -> None:
        """Queues to[i] = payload[i] where the mask has i: a byte that is not 0 or, with bits=True, bit i % 8 of byte i // 8."""
        size = unsigned(length, "length")
        kind = _abi.DELTA_DENSE_BITS if bits else _abi.DELTA_DENSE_BYTES
        chosen = _address(mask, (size + 7) // 8 if bits else size)
        check(lib.mmsb_stream_merge(self.handle, _address(to, size), chosen, kind, _address(payload, size), size, None))

    def scatter(self, to: Block, offsets: Block, values: Block, count: int, offset_bytes: int = 8) -> None:
        """Queues to[offsets[i]] = values[i] for count offsets of 4 or 8 bytes each. Offsets outside of the block are passed over.

        Of equal offsets any value may win.
        """
        number, width = unsigned(count, "count"), unsigned(offset_bytes, "offset_bytes")
        places, source = _address(offsets, number * width), _address(values, number)
        check(lib.mmsb_stream_scatter(self.handle, _address(to, to.bytes), to.bytes, places, width, 0, source, number))

    def propagate(self, items: Iterable[tuple[BlockOrAddress, BlockOrAddress, BlockOrAddress, int]]) -> None:
        """Queues copies of masked bytes, of items (to, source, mask, length), as one kernel; a mask has a bit for each byte."""
        rows = [
            _abi.Propagation(
                _address(to, length),
                _address(source, length),
                _address(mask, (length + 7) // 8),
                None,
                unsigned(length, "length"),
            )
            for to, source, mask, length in items
        ]
        check(lib.mmsb_stream_propagate(self.handle, (_abi.Propagation * len(rows))(*rows), len(rows), None))

    def write(self, block: Block, data: BytesLike, offset: int = 0) -> None:
        """Copies host bytes into a block within a use, and waits for the copy."""
        buffer = readable(data)
        with self.use((block, "write")):
            self.copy(_within(block, offset, buffer.length), buffer.address, buffer.length)
        self.wait()

    def read(self, block: Block, length: int | None = None, offset: int = 0) -> bytes:
        """Copies bytes of a block to the host within a use, waits for the copy and returns them. length None: all to the end."""
        size = block.bytes - offset if length is None else unsigned(length, "length")
        source = _within(block, offset, size)
        data = new_bytes(size)
        if size:
            with self.use((block, "read")):
                self.copy(readable(data).address, source, size)
        self.wait()
        return data

    def wait(self, timeout: float | None = None) -> None:
        """Waits until all queued work is done, at most timeout seconds: TimeoutError, or WouldBlockError for timeout 0."""
        if timeout == 0:
            check(lib.mmsb_stream_wait(self.handle, 0))
            sweep()
            return
        with self.record() as ticket:  # waiting for a ticket lets Python handle signals
            ticket.wait(timeout)

    def record(self) -> Ticket[None]:
        """A ticket that is done when all work queued so far is done."""
        return Ticket(number_from(lib.mmsb_stream_record, self.handle), 0, lambda: None)

    def after(self, other: Ticket[None] | Any) -> None:
        """Makes work that is queued from now on run behind other. The device waits, not the host.

        other: a ticket of record(), or a stream, also one of another library (an object with __cuda_stream__, or the driver's
        pointer): what it has queued so far.
        """
        if isinstance(other, Ticket):
            check(lib.mmsb_stream_after(self.handle, other.handle))
        else:
            check(lib.mmsb_stream_after_native(self.handle, cuda_stream(other)))

    def close(self) -> None:
        """Ends the lease or the registration. Idempotent. A stream that captures is not closed: InvalidStateError."""
        if self._finalizer.alive:
            status = lib.mmsb_stream_destroy(self._handle)
            if status != _abi.E_INVALID_STATE:
                self._finalizer.detach()
            check(status)

    def __repr__(self) -> str:
        return f"<mmsb.Stream{' closed' if self.closed else ''}>"


class Block(ArrowBytes, NotCopied):
    """Device memory. free(), or dropping the object, frees it behind all its uses.

    It is an array of bytes for libraries that speak DLPack or __cuda_array_interface__ (cupy.asarray(block)) and, where the host
    reaches the memory (a pool of source pinned or managed), __array_interface__ or the buffer protocol; view() has types and
    shapes. While a library has such an array, the memory stays: a free waits.
    """

    __slots__ = ("__weakref__", "_address", "_bytes", "_finalizer", "_handle", "_stream", "_whole")

    _name = "block"

    def __init__(self, stream: Stream, handle: int, address: int, size: int) -> None:
        self._stream = stream
        self._handle = handle
        self._address = address
        self._bytes = size
        self._whole: Any = None
        self._finalizer = when_dropped(self, _give_back, "mmsb_block_free", handle, 0, None)

    @property
    def handle(self) -> int:
        """The library's handle."""
        if not self._finalizer.alive:
            raise ClosedError("the block was freed")
        return self._handle

    @property
    def address(self) -> int:
        """The device address of the first byte; the host must not access it."""
        return self._address

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self._bytes

    def info(self) -> BlockInfo:
        """The block's properties."""
        return block_info(self.handle)

    def view(
        self,
        dtype: Any = "uint8",
        shape: Sequence[SupportsIndex] | None = None,
        *,
        strides: Sequence[SupportsIndex] | None = None,
        offset: SupportsIndex = 0,
        write: bool = True,
        stream: Any = None,
    ) -> View:
        """The block as an array that other libraries take without a copy: torch.from_dlpack(block.view("float32", (2, 3))).

        dtype, shape, strides, offset: as in Page.view(). The memory stays until the view and all arrays made from it are gone,
        also when the block is freed or its runtime closed.

        A consumer of DLPack says which stream it works on: that runs behind the uses of the block that have ended, and what it
        has queued when its array is gone comes before the free and later uses. For other consumers that is stream (an object with
        __cuda_stream__, or the driver's pointer; None = the block's own), which they are told. Order between an array and uses
        meanwhile is the program's.
        """
        native = self._stream.native or DEFAULT_STREAM if stream is None else cuda_stream(stream)
        return View(self, dtype, shape, strides, offset, write, native)

    def _export(self, options: _abi.TensorOptions, stream: int | None) -> Any:
        """A capsule for a consumer on a stream of the driver's. None: what comes before it on the device is done."""
        native = _abi.BLOCK_STREAM if stream is None else stream
        capsule = export(
            lambda options, tensor: lib.mmsb_block_export_tensor(self.handle, native, options, tensor), options, check
        )
        if stream is None:
            self._stream.wait()
        return capsule

    def _interface(self, name: str) -> dict[str, Any]:
        """An array interface. What keeps the memory lives as long as this object, which consumers without a deleter keep."""
        view = self.view()
        found: dict[str, Any] = getattr(view, name)
        self._whole = self._whole or view._capsule  # the view has this object
        return found

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view(write=False).__dlpack_device__()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The bytes as a tensor of uint8."""
        return self.view().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._interface("__cuda_array_interface__")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface("__array_interface__")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.view().__array__(dtype, copy)

    def __buffer__(self, flags: int) -> memoryview:
        """memoryview(block) and others from Python 3.12 on; before, call view().memory()."""
        return self.view().__buffer__(flags)

    def free(self, stream: Stream | None = None) -> bool:
        """Frees the memory in the order of a stream (None: its own).

        True if a use is open, or another library has an array of it: the memory is freed with the last one. Arrays of
        __cuda_array_interface__ and __array_interface__ keep it until this object is gone, too.
        """
        deferred = ctypes.c_int32()
        check(lib.mmsb_block_free(self.handle, stream.handle if stream else 0, deferred))
        self._finalizer.detach()
        return bool(deferred.value)

    def __len__(self) -> int:
        return self._bytes

    def __repr__(self) -> str:
        return f"<mmsb.Block of {self._bytes} bytes at {self._address:#x}{'' if self._finalizer.alive else ', freed'}>"


class Use(NotCopied):
    """A use of blocks: the work that reads or writes them is queued inside a with statement. See Stream.use.

    An exception aborts the use: later work is ordered as if the work had been queued.
    """

    __slots__ = ("_accesses", "_handle", "_stream")

    _name = "use"

    def __init__(self, stream: Stream, accesses: tuple[tuple[Block | Page, str] | Block | Page, ...]) -> None:
        self._stream = stream
        self._accesses = (_abi.Access * len(accesses))()
        for access, one in zip(self._accesses, accesses):
            block, how = one if isinstance(one, tuple) else (one, "read_write")
            access.block = block.handle
            access.access = value_of(_abi.ACCESS, how, "access")
        self._handle = 0

    def _begin(self) -> None:
        if self._handle:
            raise InvalidArgumentError("the use has begun already; create another one")
        handle, bad = ctypes.c_uint64(), ctypes.c_size_t()
        check(lib.mmsb_use_begin(self._stream.handle, self._accesses, len(self._accesses), handle, bad))
        self._handle = handle.value

    def address(self, of: Block | Page) -> int:
        """Where the work finds a block or page of the use, inside the with statement: an address of the stream's device."""
        address = ctypes.c_void_p()
        check(lib.mmsb_use_address(self._handle, of.handle, address))
        return address.value or 0

    def __enter__(self) -> Use:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        handle, self._handle = self._handle, 0
        if kind is None or not lib.forked:
            check(lib.mmsb_use_end(handle) if kind is None else lib.mmsb_use_abort(handle))


class Recorder(Use):
    """A use whose blocks are added first: add() each, then queue the work inside a with statement. It works only once."""

    __slots__ = ("__weakref__", "_finalizer")

    def __init__(self, stream: Stream, handle: int) -> None:
        super().__init__(stream, ())
        self._handle = handle
        self._finalizer = when_dropped(self, _give_back, "mmsb_use_abort", handle)

    def add(self, block: Block | Page | None, access: str) -> None:
        """Adds a block, or a page that the device reaches. The with statement raises the error if it cannot be used."""
        how = value_of(_abi.ACCESS, access, "access")
        check(lib.mmsb_use_add(self._recording(), block.handle if block is not None else 0, how))

    def _recording(self) -> int:
        if not self._finalizer.alive:
            raise ClosedError("the recorder was used already; create another one")
        return self._handle

    def _begin(self) -> None:
        check(lib.mmsb_use_begin_recorded(self._recording()))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finalizer.detach()
        super().__exit__(kind, error, trace)


#: A block, or a device or host address.
BlockOrAddress = Union[Block, int]
#: What Stream.copy takes: a block, a page, an address, or an array of another library (Lender).
Memory = Union[Block, "Page", int, Lender]


def _address(of: BlockOrAddress, length: int) -> int:
    return _within(of, 0, length) if isinstance(of, Block) else unsigned(of, "address")


def _within(block: Block, offset: int, length: int) -> int:
    if unsigned(offset, "offset") + length > block.bytes or length < 0:
        raise OutOfRangeError(f"offset {offset} and length {length} reach past the block's {block.bytes} bytes")
    block.handle  # noqa: B018 - raises for a block that was freed
    return block.address + offset


class _Part(NamedTuple):
    """One side of a copy."""

    what: str
    address: int
    #: None for an address.
    bytes: int | None = None
    #: What has the memory, where the program need not keep it.
    kept: object = None
    #: The driver's stream whose work comes before; 0 = none.
    behind: int = 0


def _part(stream: Stream, what: str, of: Memory, writable: bool) -> _Part:
    if isinstance(of, Block):
        return _Part(what, _address(of, 0), of.bytes)
    if isinstance(of, Integral):
        return _Part(what, unsigned(of, what))
    from .page import Page

    if isinstance(of, Page):
        view = of.view(write=writable)
        return _Part(what, view.address, view.nbytes, view)
    lent = lend(of, Wanted(writable, rows=True, stream=(stream.device, stream.native)))
    return _Part(what, lent.address, lent.length, lent, stream_of(lent) or 0)


def _common_length(parts: tuple[_Part, _Part], length: int | None) -> int:
    to, source = (part.bytes for part in parts)
    if length is None:
        if to is None and source is None:
            raise InvalidArgumentError("length is None; between two addresses it must be given")
        if to is not None and source is not None and to != source:
            raise MismatchError(f"to has {to} bytes, source has {source}: length can be given")
        return to if to is not None else source or 0
    size = unsigned(length, "length")
    for part in parts:
        if part.bytes is not None and size > part.bytes:
            raise OutOfRangeError(f"length {size} reaches past the {part.bytes} bytes of {part.what}")
    return size


def _ordinal(call: Callable[..., int], handle: int) -> int:
    ordinal = ctypes.c_int32()
    check(call(handle, ordinal))
    return ordinal.value


def cuda_stream(stream: Any) -> int:
    """The driver's pointer of a stream, as a number."""
    protocol = getattr(type(stream), "__cuda_stream__", None)
    if protocol is not None:
        version, number = protocol(stream)
        if version != 0:
            raise InvalidArgumentError(f"__cuda_stream__ of {type(stream).__name__} has version {version}, 0 expected")
        stream = number
    if isinstance(stream, bool) or not hasattr(type(stream), "__index__"):
        raise TypeError(f"stream must be an int or have __cuda_stream__, not {type(stream).__name__}")
    return unsigned(stream, "stream")


def _tags(names: tuple[str, ...]) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * len(names))(*map(_tag, names))


@lru_cache(maxsize=4096)
def _tag(name: str) -> int:
    tag = ctypes.c_uint32()
    check(lib.mmsb_tag_of(c_text(name, "tag"), tag))
    return tag.value


def _give_back(function: str, *arguments: Any) -> int:
    """Ends an object; one that is dropped may have ended with its runtime already."""
    return _abi.OK if lib.forked else int(getattr(lib, function)(*arguments))


def _end_runtime(handle: int, token: int) -> None:
    if handle and not lib.forked:
        status = lib.mmsb_runtime_destroy(handle)
        if status != _abi.E_STALE_HANDLE:  # it ended with its context
            check(status)
    let_go(token)


class Link(NamedTuple):
    """An NVLink that is up: remote is the PCI address at the other end."""

    number: int
    version: int
    remote: str


class Telemetry(NamedTuple):
    """How a device of NVIDIA's is doing. mmsb_telemetry_t describes each; -1 and "" where it is not told."""

    name: str
    uuid: str
    pci: str
    driver_version: str
    memory_total: int
    memory_used: int
    memory_of_this_process: int
    memory_of_others: int
    utilization: int
    memory_utilization: int
    temperature: int
    pcie_generation: int
    pcie_lanes: int
    numa_node: int
    links: list[Link]


def telemetry() -> list[Telemetry]:
    """How NVIDIA's devices are doing; raises UnsupportedError without NVIDIA's management library."""
    return [_telemetry(raw) for raw in listed(_abi.Telemetry, lib.mmsb_telemetry_list)]


def _telemetry(raw: _abi.Telemetry) -> Telemetry:
    texts = {name: getattr(raw, name).decode() for name in ("name", "uuid", "pci", "driver_version")}
    links = [Link(link.number, link.version, link.remote.decode()) for link in raw.links[: raw.link_count]]
    return as_record(Telemetry, raw, links=links, **texts)


def telemetry_paths() -> list[list[int]]:
    """What lies between any two devices of telemetry(): the larger, the farther; -1 where it is not told."""
    paths = listed(ctypes.c_int32, lib.mmsb_telemetry_paths, capacity=256)
    width = math.isqrt(len(paths))
    return [paths[row * width :][:width] for row in range(width)]
