"""Contexts, which own pages."""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, SupportsIndex, TypeVar, Union, cast

from . import _abi, _ffi
from ._convert import (
    Buffer,
    BytesLike,
    BytesOrNumbers,
    Numbers,
    c_text,
    fetch,
    nanoseconds,
    new_bytes,
    readable,
    signed,
    unsigned,
    words,
    zeroed_words,
)
from ._errors import (
    ClosedError,
    InvalidArgumentError,
    InvalidSizeError,
    MismatchError,
    MMSBError,
    NoDeviceError,
    OutOfMemoryError,
    OutOfRangeError,
    StaleHandleError,
    UnsupportedError,
)
from ._ffi import as_record, check, failure, lib, listed, name_of, number_from, sized, sync_of, value_of
from ._lease import (
    Block,
    Pins,
    Watch,
    drop_released,
    drop_released_with,
    hold,
    hold_adopted,
    let_go,
    let_go_adopted,
    never_mind,
    new_token,
    note,
    release_adopted,
    view_held,
    when_gone,
)
from ._object import Closable
from ._tensor import TO_READ, TO_WRITE, Lender, Lent, give_back, lend, lend_all, stream_of
from .delta import Delta, struct_of
from .device import Device, DeviceMemory, Runtime, asking, device_of
from .journal import Journal, journal_options
from .page import Batch, Page, PageArray, PageInfo, Pages, page_handle, page_info
from .snapshot import AnyPath, LoadOptions, SavedBytes, SaveStats, path_bytes, save_options
from .ticket import SLICE_NS, Ticket, Work, nothing, sweep, work_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from os import PathLike

    from typing_extensions import Self


T = TypeVar("T")


class HasDescriptor(Protocol):
    """An object with a file descriptor: an open file, an end of a pipe, a socket."""

    def fileno(self) -> int: ...


File = Union[int, HasDescriptor]

_WALK = 4096
# New pages that take a millisecond or less.
_BRIEF_PAGES, _BRIEF_BYTES = 4096, 4 << 20
_ADDRESSABLE = 1 << 47


@dataclass(frozen=True)
class ContextStats:
    """Counters of a context. mmsb_context_stats_t describes each; location_* are by the name of the location."""

    pages: int
    bytes: int
    peak_bytes: int
    allocations: int
    frees: int
    pinned_pages: int
    memory_used: int
    memory_limit: int
    disk_used: int
    location_pages: dict[str, int]
    location_bytes: dict[str, int]
    guard_bytes: int
    guard_reports: int


@dataclass(frozen=True)
class SyncStats:
    """What pages have in two places, and what has moved. mmsb_sync_stats_t describes each."""

    pages: int
    bytes: int
    newer_on_host: int
    newer_on_device: int
    to_device_bytes: int
    to_host_bytes: int
    to_device_ranges: int
    to_host_ranges: int
    queued: int
    replicas: int
    replica_bytes: int


@dataclass(frozen=True)
class LostPage:
    """A GPU page whose device is lost; lost: bytes that only the device had, or that it may have changed."""

    page: Page
    size: int
    lost: int
    device: int


@dataclass(frozen=True)
class GuardReport:
    """A write that the guard of host pages found where nobody may write."""

    page_id: int
    #: Where it was, as seen from the page: "before" its first byte, "behind" its last one, in memory of a page that had "ended",
    #: or that a page had "left" when it was resized or migrated.
    side: str
    #: The page's size.
    size: int
    #: Of the first byte that was written, from the page's first byte on; bytes from there to the last one that was written.
    offset: int
    bytes: int
    #: The value of the byte at offset before the write, and after it.
    expected: int
    found: int


def _load_into(*_: object, **__: object) -> NoReturn:
    """What load is of a context that lives: the one that it makes would be dropped with what it has loaded."""
    raise TypeError("Context.load() makes another context; restore() loads into this one")


class Context(Closable):
    """Owns pages. Closing the context ends its pages. Dropping the context, its pages and their views closes it.

    Options that are not given have the library's defaults:

    - options: "key=value ..." with the names below; sizes may end in K, M, G, T
    - default_location, default_device: location and device of new pages that name none
    - simulate: "off", "if-no-gpu" or "always"; simulated_devices: their number; simulated_memory: bytes of each
    - fallback: what takes the place of a location that is not available, also when a device is lost in mid-work: "error" for
      nothing, "host" for host memory, "simulate" for a simulated device: 1024 + N for device N, or N where there is no GPU
    - memory_limit: bytes of host memory, 0 for no limit
    - disk_path: folder for pages on disk
    - huge_pages: whether to ask for transparent huge pages where they help
    - guard_every: N to guard every N-th page in host memory, 0 for none: a later call raises GuardError if something wrote past
      the page's ends through a pointer, or into memory that it has left; guard_quarantine: bytes of such memory to hold back
    """

    _name = "context"

    def __init__(
        self,
        options: str | None = None,
        *,
        default_location: str | None = None,
        default_device: int | None = None,
        simulate: str | None = None,
        simulated_devices: int | None = None,
        simulated_memory: int | None = None,
        fallback: str | None = None,
        memory_limit: int | None = None,
        disk_path: str | PathLike[str] | None = None,
        huge_pages: bool | None = None,
        guard_every: int | None = None,
        guard_quarantine: int | None = None,
    ) -> None:
        raw = _abi.ContextOptions()
        lib.mmsb_context_options_init(raw)
        # disk_path points into this text until the context is created.
        text = None if options is None else c_text(options, "options")
        if text is not None:
            check(lib.mmsb_context_options_parse(raw, text))
        if default_location is not None:
            raw.default_location = value_of(_ffi.LOCATIONS, default_location, "default_location")
        if default_device is not None:
            raw.default_device = signed(default_device, "default_device")
        if simulate is not None:
            raw.simulate = value_of(_ffi.SIMULATIONS, simulate, "simulate")
        if simulated_devices is not None:
            raw.simulated_devices = signed(simulated_devices, "simulated_devices")
        if simulated_memory is not None:
            raw.simulated_memory = unsigned(simulated_memory, "simulated_memory")
        if fallback is not None:
            raw.fallback = value_of(_abi.FALLBACK, fallback, "fallback")
        if memory_limit is not None:
            raw.memory_limit = unsigned(memory_limit, "memory_limit")
        if disk_path is not None:
            raw.disk_path = c_text(os.fspath(disk_path), "disk_path")
        if huge_pages is not None:
            raw.huge_pages = int(bool(huge_pages))
        if guard_every is not None:
            raw.guard_every = unsigned(guard_every, "guard_every")
        if guard_quarantine is not None:
            raw.guard_quarantine = unsigned(guard_quarantine, "guard_quarantine")
        self._default_location = name_of(_ffi.LOCATIONS, raw.default_location)
        self._thread = _Thread()
        self.load = _load_into  # type: ignore[method-assign]
        self._closed = False
        self._made = ctypes.c_uint64()
        drop_released_with(self)
        self._ending = when_gone(self, lib.mmsb_context_destroy, self._made)  # before the call, which Ctrl-C may follow
        self._create(raw)
        self._handle = self._made.value
        if raw.simulate != _abi.SIMULATE_OFF or raw.fallback == _abi.FALLBACK_SIMULATE:
            _simulating.add(weakref.ref(self, _simulating.discard))

    def _create(self, options: _abi.ContextOptions) -> None:
        check(lib.mmsb_context_create(options, self._made))

    # -------------------------------------------------------------------------------------------------- lifetime

    @property
    def handle(self) -> int:
        """The library's handle."""
        self._must_be_open()
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether close() has been called."""
        return self._closed

    def _must_be_open(self) -> None:
        """Raises ClosedError for a closed context."""
        if self._closed:
            raise ClosedError("the context is closed")

    def close(self) -> None:
        """Ends the context and its pages. Memory with a view stays valid until its last view is gone. Idempotent.

        Work that was started and has not ended is cancelled: who wants a save or a name waits for its ticket before.

        A journal's last records are written. A store is saved first if bytes may have been written through views (mmsb.open,
        save_bytes), or the disk has refused records. With GuardError, which the last check of a guard can raise, and the errors
        of the disk, it has ended all the same.

        It waits up to 10 seconds for groups of other threads. Where one is open then, its end raises ClosedError, and a store is
        closed without that save: CancelledError says that the bytes written through views since the last save are lost.
        """
        if self._closed:
            return
        try:
            self._closed = True
            if lib.forked:
                return
            status = lib.mmsb_context_destroy(self._made)
            if status not in (_abi.OK, _abi.E_STALE_HANDLE):
                raise failure(status)
        except MMSBError:
            raise
        except BaseException:  # of a signal's handler, before the call or behind it
            lib.mmsb_context_destroy(self._made)
            raise
        finally:
            never_mind(self._ending)
            drop_released()
            sweep()

    def __repr__(self) -> str:
        try:
            return f"<mmsb.{type(self).__name__} of {len(self)} pages>"
        except MMSBError as error:
            return f"<mmsb.{type(self).__name__}: {type(error).__name__}>"

    # ---------------------------------------------------------------------------------------------- making pages

    def create_page(
        self,
        size: int,
        id: int = 0,
        location: str | None = None,
        device: int = 0,
        zeroed: bool = True,
        *,
        numa_node: int = -1,
    ) -> Page:
        """Creates a page of size bytes. id 0: the library picks one. zeroed False: the contents are undefined."""
        options = _page_options(id, location, device, zeroed, numa_node)
        page = ctypes.c_uint64()
        self._check(lib.mmsb_page_create(self.handle, unsigned(size, "size", InvalidSizeError), options, page))
        created = Page(self, page.value)
        created._id = options.id if options is not None else 0
        created._note_location(location or self._default_location)
        return created

    def create_pages(
        self,
        count: int,
        size: int | Numbers,
        *,
        ids: Numbers | None = None,
        location: str | None = None,
        device: int = 0,
        zeroed: bool = True,
        numa_node: int = -1,
        timeout: float | None = None,
    ) -> PageArray:
        """Creates count pages, or none. timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.

        - count: it comes before the size, other than in create_page()
        - size: that of all pages, or the size of each
        - ids: the id of each page, 0 for one that the library picks
        """
        return self._run(self._creating(count, size, ids, location, device, zeroed, numa_node), timeout)

    def create_pages_start(
        self,
        count: int,
        size: int | Numbers,
        *,
        ids: Numbers | None = None,
        location: str | None = None,
        device: int = 0,
        zeroed: bool = True,
        numa_node: int = -1,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[PageArray]:
        """Starts create_pages() when the tickets in after are done; progress counts pages."""
        return self._creating(count, size, ids, location, device, zeroed, numa_node).start(after)

    def _creating(
        self,
        count: int,
        size: int | Numbers,
        ids: Numbers | None,
        location: str | None,
        device: int,
        zeroed: bool,
        numa_node: int,
    ) -> Work[PageArray]:
        options = _page_options(0, location, device, zeroed, numa_node)
        options, same, pointed_to = _each(options, unsigned(count, "count"), size, ids)
        handles = zeroed_words(unsigned(count, "count"))
        address = handles.buffer_info()[0]
        return Work(
            lib.mmsb_page_create_many,
            lib.mmsb_page_create_many_start,
            self.handle,
            same,
            len(handles),
            options,
            results=(address,),
            make=lambda: self._created(handles, location),
            undo=lambda: lib.mmsb_page_destroy_many(address, len(handles), None),
            kept=(handles, pointed_to),
            brief=bool(same) and len(handles) <= _BRIEF_PAGES and same * len(handles) <= _BRIEF_BYTES,
            check=self._check,
        )

    def adopt(
        self,
        memory: Lender,
        read_only: bool = False,
        id: int = 0,
    ) -> Page:
        """Creates a page over the memory of an object, without a copy.

        memory: an object with the buffer protocol (NumPy array, bytearray, mmap), with __dlpack__ (PyTorch, JAX, CuPy),
        __array_interface__, __cuda_array_interface__, __arrow_c_device_array__ or __arrow_c_array__ (pyarrow: read_only), or a
        capsule of DLPack. Its items must lie one behind the other, in any
        order of the dimensions, in memory of the host or of a device of the context.

        The page keeps the object until the page ends. A restore that has the page's id writes into the object.
        """
        page = ctypes.c_uint64()
        context = self.handle
        lent = lend(memory, TO_READ if read_only else TO_WRITE)
        options = _adopt_options(read_only, id, stream_of(lent))
        options.user = token = new_token()
        try:
            hold_adopted(token, (lent.address,), (lent,))
            self._check(lib.mmsb_page_adopt(context, lent.address, lent.length, options, page))
        finally:
            if not page:
                let_go_adopted(token, (lent.address,))
                give_back((lent,))
        return Page(self, page.value)

    def adopt_pages(self, memories: Iterable[Lender], read_only: bool = False, ids: Numbers | None = None) -> PageArray:
        """adopt() of many objects, or of none."""
        objects = list(memories)
        count = len(objects)
        chosen = None if ids is None else words(ids, "ids")
        if chosen is not None and chosen.length != count * 8:
            raise MismatchError(f"ids has {chosen.length // 8} numbers for {count} objects")
        lents = lend_all(objects, not read_only)
        turns = dict[int, int]()  # how often an address was there
        kinds = []
        for lent in lents:
            turns[lent.address] = turn = turns.get(lent.address, 0) + 1
            kinds.append((stream_of(lent), turn))
        waiting = dict.fromkeys(kinds)  # not a set: its order, and so the index of an error, changes from process to process
        if len(waiting) <= 1:
            return PageArray(self, self._adopt_alike(lents, read_only, chosen))
        handles, adopted = zeroed_words(count), zeroed_words(0)
        numbers = None if chosen is None else (ctypes.c_uint64 * count).from_address(chosen.address)
        try:
            for kind in tuple(waiting):  # memory of the host, and of devices
                at = [i for i, other in enumerate(kinds) if other == kind]
                own = None if numbers is None else words([numbers[i] for i in at], "ids")
                del waiting[kind]
                made = self._adopt_alike([lents[i] for i in at], read_only, own)
                adopted.extend(made)
                for i, handle in zip(at, made):
                    handles[i] = handle
        except BaseException as error:
            if isinstance(error, MMSBError) and error.index is not None:
                error.index = at[error.index]
            give_back(lent for lent, kind in zip(lents, kinds) if kind in waiting)
            if adopted:
                self.destroy_pages(PageArray(self, adopted))
            raise
        return PageArray(self, handles)

    def _adopt_alike(self, lents: Sequence[Lent | Buffer], read_only: bool, ids: Buffer | None) -> array[int]:
        """The pages over memory of one kind, at different addresses."""
        count = len(lents)
        options = _adopt_options(read_only, 0, stream_of(lents[0]) if lents else None)
        context, handles, bad = self.handle, zeroed_words(count), ctypes.c_size_t()
        addresses = [lent.address for lent in lents]
        options.user = token = new_token()
        try:
            hold_adopted(token, addresses, lents)
            status = lib.mmsb_page_adopt_many(
                context,
                (ctypes.c_void_p * count)(*addresses),
                (ctypes.c_uint64 * count)(*[lent.length for lent in lents]),
                None if ids is None else ids.address,
                count,
                options,
                handles.buffer_info()[0],
                bad,
            )
            self._check(status, bad.value)
        finally:
            if count and not handles[0]:
                let_go_adopted(token, addresses)
                give_back(lents)
        return handles

    def clone_pages(self, pages: Pages, ids: Numbers | None = None) -> PageArray:
        """Clones many pages, or none. ids: those of the clones, 0 for one that the library picks."""
        batch, handles = Batch(self, pages), None
        chosen = None if ids is None else words(ids, "ids")
        if chosen is not None and chosen.length != batch.count * 8:
            raise MismatchError(f"ids has {chosen.length // 8} numbers for {batch.count} pages")
        handles = zeroed_words(batch.count)
        address = None if chosen is None else chosen.address
        batch.check(lib.mmsb_page_clone_many(batch.address, address, batch.count, handles.buffer_info()[0], batch.bad))
        return PageArray(self, handles)

    def resize_pages(self, pages: Pages, sizes: Numbers) -> None:
        """Changes the sizes of many different pages, all at one moment, or none."""
        batch, wanted = Batch(self, pages), words(sizes, "sizes")
        if wanted.length != batch.count * 8:
            raise MismatchError(f"sizes has {wanted.length // 8} numbers for {batch.count} pages")
        batch.check(lib.mmsb_page_resize_many(batch.address, wanted.address, batch.count, batch.bad))

    def memories(self, pages: Pages, write: bool = False) -> list[memoryview]:
        """Page.memory() of many pages, or of none: each view pins its page."""
        batch, mode = Batch(self, pages), _abi.PIN_WRITE if write else _abi.PIN_READ
        handles = (ctypes.c_uint64 * batch.count).from_address(batch.address)
        for handle in handles:
            if lib.mmsb_page_location(handle) == _abi.LOCATION_GPU:
                raise UnsupportedError(f"page {lib.mmsb_page_id(handle)} lies on a gpu, whose memory the host cannot access")
        addresses = (ctypes.c_void_p * batch.count)()
        pins = Pins(self, (ctypes.c_uint64 * batch.count)(*handles), mode)
        try:
            status = lib.mmsb_page_pin_many(batch.address, batch.count, mode, addresses, batch.bad)
        finally:
            if batch.count and addresses[0]:
                pins.taken.value = 1
        try:
            batch.check(status)
            return [
                view_held(cast("int", address), lib.mmsb_page_size(handle), write, holder)
                for handle, address, holder in zip(handles, addresses, pins.holders)
            ]
        except BaseException:
            del pins  # the exception keeps this frame
            raise

    def destroy_pages(self, pages: Pages) -> None:
        """Ends many pages, or none."""
        batch = Batch(self, pages)
        status = lib.mmsb_page_destroy_many(batch.address, batch.count, batch.bad)
        drop_released()
        batch.check(status)

    # --------------------------------------------------------------------------------------------- finding pages

    def page(self, id: int) -> Page:
        """The page with an id; raises NotFoundError if there is none."""
        page = Page(self, number_from(lib.mmsb_page_lookup, self.handle, unsigned(id, "id"), check=self._check))
        page._id = id
        return page

    def get(self, id: int) -> Page | None:
        """The page with an id, or None."""
        page = ctypes.c_uint64()
        status = lib.mmsb_page_lookup(self.handle, unsigned(id, "id"), page)
        if status == _abi.E_NOT_FOUND:
            return None
        self._check(status)
        return Page(self, page.value)

    def lookup_many(self, ids: Numbers) -> PageArray:
        """The pages with these ids; raises NotFoundError if one is missing."""
        numbers = words(ids, "ids")
        handles = zeroed_words(numbers.length // 8)
        batch = Batch(self, handles)
        batch.check(lib.mmsb_page_lookup_many(self.handle, numbers.address, batch.count, batch.address, batch.bad))
        return PageArray(self, handles)

    def pages(self) -> PageArray:
        """All live pages. A page that is created or destroyed during the call may be missing or included."""
        return self._walk(lib.mmsb_context_pages)

    def _walk(self, call: Callable[..., int], *arguments: int) -> PageArray:
        cursor, count = ctypes.c_uint64(), ctypes.c_size_t()
        part, found = zeroed_words(_WALK), array("Q")
        while True:
            self._check(call(self.handle, *arguments, cursor, part.buffer_info()[0], _WALK, count))
            if not count.value:
                return PageArray(self, found)
            found.extend(part[: count.value])

    def __iter__(self) -> Iterator[Page]:
        return iter(self.pages())

    def __len__(self) -> int:
        return number_from(lib.mmsb_context_page_count, self.handle, check=self._check)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, page: object) -> bool:
        return isinstance(page, Page) and page.context is self and self.get(page.id) == page

    def info_many(self, pages: Pages) -> list[PageInfo]:
        """The properties of many pages."""
        batch = Batch(self, pages)
        infos = (_abi.PageInfo * batch.count)()
        for info in infos:
            info.struct_size = ctypes.sizeof(_abi.PageInfo)
        batch.check(lib.mmsb_page_info_many(batch.address, batch.count, infos, batch.bad))
        return [page_info(info) for info in infos]

    # ----------------------------------------------------------------------------------------------- many changes

    def apply_many(self, changes: Iterable[tuple[Page, Delta]]) -> None:
        """Applies each delta to its page, in this order, all or none. A page may appear more than once."""
        pairs = list(changes)
        batch = Batch(self, [page for page, _ in pairs])
        deltas = (_abi.Delta * len(pairs))(*[struct_of(delta) for _, delta in pairs])
        batch.check(lib.mmsb_page_apply_many(batch.address, deltas, batch.count, batch.bad))

    def apply_runs(self, pages: Pages, offsets: Numbers, payload: BytesOrNumbers, lengths: SupportsIndex | Numbers) -> None:
        """Writes one run of bytes to each page: for each i the next lengths[i] bytes of payload to offsets[i] of pages[i].

        The fastest way to apply many small deltas. lengths: one number for all runs, or an array. NumPy arrays are not copied.
        """
        batch, targets, data = Batch(self, pages), words(offsets, "offsets"), readable(payload)
        runs = _abi.PageRuns(
            struct_size=ctypes.sizeof(_abi.PageRuns),
            count=batch.count,
            pages=batch.address,
            offsets=targets.address,
            payload=data.address,
            payload_length=data.length,
        )
        # NumPy's arrays have both methods.
        if isinstance(lengths, SupportsIndex) and not hasattr(lengths, "__len__"):
            sizes = None
            runs.uniform_length = unsigned(lengths, "lengths")
            some = bool(batch.count and runs.uniform_length)
        else:
            sizes = words(cast("Numbers", lengths), "lengths")
            runs.lengths = sizes.address
            some = any((ctypes.c_uint64 * (sizes.length // 8)).from_address(sizes.address))
        for what, buffer in (("offsets", targets), ("lengths", sizes)):
            if buffer is not None and buffer.length != batch.count * 8:
                raise MismatchError(f"{what} has {buffer.length // 8} numbers for {batch.count} pages")
        # To the library a payload_length of 0 means the sum of the lengths.
        if some and not data.length:
            raise MismatchError("payload is empty, but not all lengths are 0")
        batch.check(lib.mmsb_page_apply_runs(runs, batch.bad))

    def read_many(self, ranges: Iterable[tuple[Page, int, int]]) -> list[bytes]:
        """Reads many ranges (page, offset, length) at one moment: no change happens between the reads."""
        table = list(ranges)
        batch = Batch(self, [page for page, _, _ in table])
        records, total = (_abi.PageRange * len(table))(), 0
        for record, (page, offset, length) in zip(records, table):
            record.page = page.handle
            record.offset = unsigned(offset, "offset", OutOfRangeError)
            record.length = unsigned(length, "length", OutOfRangeError)
            total += record.length
        if total > _ADDRESSABLE:
            raise OutOfRangeError(f"the ranges have {total} bytes together; the maximum is {_ADDRESSABLE}")
        try:
            data = new_bytes(total)
        except MemoryError:
            raise OutOfMemoryError(f"{total} bytes exceed the available memory") from None
        address = readable(data).address
        for record in records:
            record.buffer = address
            address += record.length
        batch.check(lib.mmsb_page_read_many(records, batch.count, batch.bad))
        results, start = [], 0
        for record in records:
            results.append(data[start : start + record.length])
            start += record.length
        return results

    def write_many(self, ranges: Iterable[tuple[Page, int, BytesOrNumbers]]) -> None:
        """Writes many ranges (page, offset, bytes), in this order, all or none."""
        table = [(page, offset, readable(data)) for page, offset, data in ranges]
        batch = Batch(self, [page for page, _, _ in table])
        records = (_abi.PageRange * len(table))()
        for record, (page, offset, data) in zip(records, table):
            record.page = page.handle
            record.offset = unsigned(offset, "offset", OutOfRangeError)
            record.length = data.length
            record.buffer = data.address
        batch.check(lib.mmsb_page_write_many(records, batch.count, batch.bad))

    def migrate_many(self, pages: Pages, location: str, device: int = 0, *, timeout: float | None = None) -> None:
        """Moves many pages. Raises the error of the first page that did not move. A page moves completely or not at all.

        timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call, too, when the page that is moving
        has moved. Pages that have moved by then stay where they are: their location tells.
        """
        batch = Batch(self, pages)
        statuses = (ctypes.c_int32 * batch.count)()
        try:
            self._run(self._migrating(batch, location, device, statuses), timeout)
        except MMSBError as error:
            batch.say_which(error, batch.first_bad(statuses))
            raise

    def migrate_many_start(
        self, pages: Pages, location: str, device: int = 0, *, after: Iterable[Ticket[Any]] = ()
    ) -> Ticket[None]:
        """Starts migrate_many() when the tickets in after are done; progress counts pages."""
        return self._migrating(Batch(self, pages), location, device, None).start(after)

    def _migrating(self, batch: Batch, location: str, device: int, statuses: ctypes.Array[ctypes.c_int32] | None) -> Work[None]:
        first = ctypes.c_uint64.from_address(batch.address).value if batch.count else 0

        def make() -> None:
            drop_released()
            if first:
                Page(self, first)._note_location(location)

        return Work(
            lambda *arguments: lib.mmsb_page_migrate_many(*arguments, batch.bad),
            lib.mmsb_page_migrate_many_start,
            batch.address,
            batch.count,
            value_of(_ffi.LOCATIONS, location, "location"),
            signed(device, "device"),
            results=(statuses,),
            make=make,
            kept=(batch, statuses),
            check=self._check,
        )

    # ---------------------------------------------------------------------------------------- pages in two places

    def sync_many(
        self,
        pages: Pages,
        direction: str = "both",
        device: int = 0,
        *,
        wins: str | None = None,
        pinned: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Page.sync() for many pages, whose newer bytes move together. Raises the error of the first page that is not in step.

        timeout: as for migrate_many().
        """
        batch = Batch(self, pages)
        statuses = (ctypes.c_int32 * batch.count)()
        try:
            self._run(self._syncing(batch, sync_of(direction, wins, pinned), device, statuses), timeout)
        except MMSBError as error:
            batch.say_which(error, batch.first_bad(statuses))
            raise

    def sync_many_start(
        self,
        pages: Pages,
        direction: str = "both",
        device: int = 0,
        *,
        wins: str | None = None,
        pinned: bool = False,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[None]:
        """Starts sync_many() when the tickets in after are done; progress counts pages. Stream.record() gives such a ticket."""
        return self._syncing(Batch(self, pages), sync_of(direction, wins, pinned), device, None).start(after)

    def _syncing(self, batch: Batch, direction: int, device: int, statuses: ctypes.Array[ctypes.c_int32] | None) -> Work[None]:
        return Work(
            lambda *arguments: lib.mmsb_page_sync_many(*arguments, batch.bad),
            lib.mmsb_page_sync_many_start,
            batch.address,
            batch.count,
            direction,
            signed(device, "device"),
            results=(statuses,),
            make=drop_released,
            kept=(batch, statuses),
            check=self._check,
        )

    def sync_later(self, pages: Pages, direction: str = "both", device: int = 0) -> None:
        """Lets pages wait for a sync that drain_syncs() makes. They can be changed and destroyed meanwhile."""
        batch = Batch(self, pages)
        batch.check(
            lib.mmsb_page_sync_enqueue(batch.address, batch.count, sync_of(direction, None), signed(device, "device"), batch.bad)
        )

    def drain_syncs(self, *, timeout: float | None = None) -> int:
        """Syncs the pages that wait now, as far as it gets within timeout seconds, and returns how many are in step.

        What is left waits on; TimeoutError says that something is. Pages that have ended wait no longer.
        """
        work = work_options(timeout, ())
        synced = ctypes.c_uint64()
        self._check(lib.mmsb_context_sync_drain(self.handle, work, synced))
        return synced.value

    def prefetch(self, ids: Iterable[int], device: int = 0, *, timeout: float | None = None) -> int:
        """Syncs the pages with these ids to a device, and returns how many it found. Ids without a page are skipped."""
        numbers = words(list(ids), "ids")
        synced = ctypes.c_uint64()
        self._check(
            lib.mmsb_context_prefetch(
                self.handle, numbers.address, numbers.length // 8, signed(device, "device"), work_options(timeout, ()), synced
            )
        )
        return synced.value

    def prefetch_start(self, ids: Iterable[int], device: int = 0, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
        """Starts prefetch() when the tickets in after are done; progress counts pages."""
        numbers = words(list(ids), "ids")
        return Work(
            lambda *arguments: lib.mmsb_context_prefetch(*arguments, None),
            lib.mmsb_context_prefetch_start,
            self.handle,
            numbers.address,
            numbers.length // 8,
            signed(device, "device"),
            make=drop_released,
            kept=numbers,
            check=self._check,
        ).start(after)

    def device_pages(self, device: int = 0) -> PageArray:
        """The pages that have bytes in memory of a device."""
        return self._walk(lib.mmsb_context_device_pages, signed(device, "device"))

    def lost_pages(self) -> list[LostPage]:
        """The GPU pages whose device is lost, when those have gone on that could.

        With a fallback, pages whose newest bytes the host has go on by themselves. What has lost bytes can be destroyed, or
        loaded again from a snapshot.
        """
        found = listed(_abi.LostPage, lib.mmsb_context_lost_pages, self.handle, capacity=256, check=self._check)
        return [LostPage(Page(self, raw.page), raw.size, raw.lost, raw.device) for raw in found]

    def sync_stats(self) -> SyncStats:
        """What the pages have in two places, and what has moved."""
        raw = sized(_abi.SyncStats)
        self._check(lib.mmsb_context_sync_stats(self.handle, raw))
        return as_record(SyncStats, raw)

    # ---------------------------------------------------------------------------------------------- dependencies

    def add_dependency(self, parent: Page, child: Page) -> None:
        """Adds an edge: child depends on parent."""
        self._must_be_open()
        handles = page_handle(parent, "parent"), page_handle(child, "child")
        parent._check_with(child, lib.mmsb_page_dependency_add(*handles))

    def remove_dependency(self, parent: Page, child: Page) -> None:
        """Removes the edge from parent to child."""
        self._must_be_open()
        handles = page_handle(parent, "parent"), page_handle(child, "child")
        parent._check_with(child, lib.mmsb_page_dependency_remove(*handles))

    def dependency_order(self) -> PageArray:
        """All pages that have dependencies, parents before children."""
        status, data = fetch(
            lambda buffer, capacity, count: lib.mmsb_context_dependency_order(self.handle, buffer, capacity, count), 8
        )
        self._check(status)
        return PageArray(self, array("Q", data))

    # -------------------------------------------------------------------------------------------------- snapshots

    def save(
        self,
        path: AnyPath,
        base: AnyPath | None = None,
        compression: str | None = None,
        raw_writes: str = "allow",
        durable: bool = True,
        copy_limit: int | None = None,
        *,
        compression_level: int = 0,
        base_in_use: str = "whole",
        queue: bool = False,
        chain_limit: int = 0,
        watched: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Saves all pages, as they are at one moment, to a file that appears when it is complete and on disk.

        - base: an earlier snapshot of this state in the same folder; only changes since then are written
        - base_in_use: where path is a file that the base rests on, "whole" writes everything; "refuse" raises BusyError then,
          and also where another snapshot rests on the file at path, which otherwise is kept under another name
        - chain_limit: files of a chain, 0 for 64, at most 4096; everything is written if it would be one more
        - compression: None or "zstd", with a compression_level from 1 to 4 (0: the default)
        - raw_writes: what NumPy and others write into views and adopted memory is part of the one moment only with "wait": the
          save begins when no page has a writable view and no thread is in writing(). "allow" saves such a page as it is when
          the save reaches it; "refuse" raises BusyError if there is one
        - durable: False does not wait for the disk
        - copy_limit: bytes for pre-images that writers copy during the save; None for the default, 256 MiB
        - watched: False for the last save of a context: the kernel does not begin to watch its pages, so that this save and
          close() take less time; a later save with a base compares checksums
        - queue: wait until the saves and loads of this context that came before have ended, instead of BusyError
        - timeout: seconds; then TimeoutError, and nothing is saved

        Ctrl-C ends the save: KeyboardInterrupt comes when it is cancelled and has left no file.
        """
        options = save_options(
            base, compression, compression_level, raw_writes, durable, copy_limit, base_in_use, queue, chain_limit, watched
        )
        self._run_save(self._saving(path, options), raw_writes, timeout)

    def save_start(
        self,
        path: AnyPath,
        base: AnyPath | None = None,
        compression: str | None = None,
        raw_writes: str = "allow",
        durable: bool = True,
        copy_limit: int | None = None,
        *,
        compression_level: int = 0,
        base_in_use: str = "whole",
        queue: bool = False,
        chain_limit: int = 0,
        watched: bool = True,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[None]:
        """Starts save() when the tickets in after are done; progress counts bytes."""
        options = save_options(
            base, compression, compression_level, raw_writes, durable, copy_limit, base_in_use, queue, chain_limit, watched
        )
        return self._saving(path, options).start(after)

    def save_to(
        self,
        file: File,
        compression: str | None = None,
        raw_writes: str = "allow",
        durable: bool = True,
        copy_limit: int | None = None,
        *,
        compression_level: int = 0,
        queue: bool = False,
        timeout: float | None = None,
    ) -> None:
        """save() to a file descriptor, or to an open file that has one: a pipe, a socket, a file.

        What a call that fails has written is an incomplete snapshot, which a restore refuses.
        """
        options = save_options(None, compression, compression_level, raw_writes, durable, copy_limit, queue=queue)
        self._run_save(self._saving_to(file, options), raw_writes, timeout)

    def save_to_start(
        self,
        file: File,
        compression: str | None = None,
        raw_writes: str = "allow",
        durable: bool = True,
        copy_limit: int | None = None,
        *,
        compression_level: int = 0,
        queue: bool = False,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[None]:
        """Starts save_to() when the tickets in after are done; progress counts bytes. Do not close the file before."""
        options = save_options(None, compression, compression_level, raw_writes, durable, copy_limit, queue=queue)
        return self._saving_to(file, options).start(after)

    def save_bytes(
        self,
        compression: str | None = None,
        raw_writes: str = "allow",
        copy_limit: int | None = None,
        *,
        compression_level: int = 0,
        queue: bool = False,
        timeout: float | None = None,
    ) -> bytes:
        """save() that returns the snapshot as bytes."""
        options = save_options(None, compression, compression_level, raw_writes, True, copy_limit, queue=queue)
        return self._run_save(self._saving_bytes(options), raw_writes, timeout)

    def save_bytes_start(
        self,
        compression: str | None = None,
        raw_writes: str = "allow",
        copy_limit: int | None = None,
        *,
        compression_level: int = 0,
        queue: bool = False,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[bytes]:
        """Starts save_bytes() when the tickets in after are done; progress counts bytes."""
        options = save_options(None, compression, compression_level, raw_writes, True, copy_limit, queue=queue)
        return self._saving_bytes(options).start(after)

    def _saving(self, path: AnyPath, options: _abi.SaveOptions) -> Work[None]:
        return Work(
            lib.mmsb_snapshot_save,
            lib.mmsb_snapshot_save_start,
            self.handle,
            path_bytes(path, "path"),
            options=options,
            make=nothing,
            check=self._check,
        )

    def _saving_to(self, file: File, options: _abi.SaveOptions) -> Work[None]:
        return Work(
            lib.mmsb_snapshot_save_descriptor,
            lib.mmsb_snapshot_save_descriptor_start,
            self.handle,
            _descriptor(file),
            options=options,
            make=nothing,
            kept=file,
            check=self._check,
        )

    def _saving_bytes(self, options: _abi.SaveOptions) -> Work[bytes]:
        saved = SavedBytes()
        return Work(
            lib.mmsb_snapshot_save_memory,
            lib.mmsb_snapshot_save_memory_start,
            self.handle,
            options=options,
            results=(saved.memory, saved.length),
            make=saved.take,
            undo=saved.free,
            kept=saved,
            check=self._check,
        )

    def _run_save(self, work: Work[T], raw_writes: str, timeout: float | None) -> T:
        waits = raw_writes == "wait"
        if waits:  # work of another thread does not see what this one holds
            self._check(lib.mmsb_writing_check(self.handle))
        return self._run(work, timeout, tries=not waits)  # the blocking form would wait for writers, also with timeout 0

    def writing(self, timeout: float | None = None) -> AbstractContextManager[None]:
        """A with block in which the thread writes into adopted memory, or to addresses.

        A save with raw_writes="wait" has all of these writes or none of them, as it has those into a writable view that lives as
        long as they take. Any number of threads can be in such a block; a save lets new ones wait for a moment. timeout, in
        seconds, bounds that.
        """
        return _Writing(_end_writing, self, ctypes.c_uint64(), nanoseconds(timeout))

    def save_stats(self) -> SaveStats:
        """Counters of the context's saves."""
        raw = sized(_abi.SaveStats)
        self._check(lib.mmsb_context_save_stats(self.handle, raw))
        return as_record(SaveStats, raw)

    @classmethod
    def load(
        cls,
        path: AnyPath | None = None,
        *,
        ids: Numbers | None = None,
        lazy: bool = False,
        journal: AnyPath | None = None,
        until: int | None = None,
        until_time: datetime | float | None = None,
        until_epoch: tuple[int, int] | None = None,
        to_host: bool = False,
        snapshot_id: str | None = None,
        timeout: float | None = None,
        **context_options: Any,
    ) -> Self:
        """Creates a context with the pages of a snapshot, or of a journal.

        context_options are those of Context, the others those of restore().
        """
        context = cls(**context_options)
        try:
            context.restore(
                path, ids, lazy, journal, until, until_time, until_epoch,
                to_host=to_host, snapshot_id=snapshot_id, timeout=timeout,
            )  # fmt: skip
        except BaseException:
            context.close()
            raise
        return context

    def restore(
        self,
        path: AnyPath | None = None,
        ids: Numbers | None = None,
        lazy: bool = False,
        journal: AnyPath | None = None,
        until: int | None = None,
        until_time: datetime | float | None = None,
        until_epoch: tuple[int, int] | None = None,
        *,
        in_place: bool = False,
        to_host: bool = False,
        snapshot_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Sets the context to the state of a snapshot or a journal, or raises and changes nothing.

        The replaced pages end: their objects raise StaleHandleError. A page that has a view cannot be replaced (BusyError).
        Ctrl-C ends the call: KeyboardInterrupt comes when nothing has changed.

        - ids: only these pages are replaced or added, all others stay
        - lazy: the bytes of large pages are read when a call first needs them
        - in_place: needs no memory for both states; everything is verified first, and read when the replaced pages have ended,
          into adopted memory straight from the file. If the disk fails behind that, the call raises, and pages that were not read
          wait in the file, as with lazy
        - to_host: pages that the snapshot has on devices, or in pinned or managed memory, come to the CPU
        - snapshot_id: the Snapshot.id that it must have, else MismatchError: the file may have been replaced since somebody has
          looked at it
        - path: of the snapshot; None: the journal's folder alone gives the state
        - journal: folder of a journal; its records after the snapshot are applied
        - until: number of the last record to apply
        - until_time: a datetime, or seconds since 1970; later records are not applied
        - until_epoch: (id, epoch); the first record that moves that page's epoch beyond this one ends the replay
        - timeout: seconds; then TimeoutError, and nothing has changed
        """
        options = LoadOptions(ids, lazy, journal, until, until_time, until_epoch, in_place, to_host, snapshot_id)
        self._run_load(self._restoring(path, options), timeout)

    def restore_start(
        self,
        path: AnyPath | None = None,
        ids: Numbers | None = None,
        lazy: bool = False,
        journal: AnyPath | None = None,
        until: int | None = None,
        until_time: datetime | float | None = None,
        until_epoch: tuple[int, int] | None = None,
        *,
        in_place: bool = False,
        to_host: bool = False,
        snapshot_id: str | None = None,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[None]:
        """Starts restore() when the tickets in after are done; progress counts bytes."""
        options = LoadOptions(ids, lazy, journal, until, until_time, until_epoch, in_place, to_host, snapshot_id)
        return self._restoring(path, options).start(after)

    def restore_from(self, file: File, ids: Numbers | None = None, lazy: bool = False, *, timeout: float | None = None) -> None:
        """restore() from a file descriptor, or an open file that has one, read from its current position to its end."""
        self._run_load(self._restoring_from(file, ids, lazy), timeout)

    def restore_from_start(
        self, file: File, ids: Numbers | None = None, lazy: bool = False, *, after: Iterable[Ticket[Any]] = ()
    ) -> Ticket[None]:
        """Starts restore_from() when the tickets in after are done; progress counts bytes. Do not close the file before."""
        return self._restoring_from(file, ids, lazy).start(after)

    def restore_bytes(self, data: BytesLike, ids: Numbers | None = None, *, timeout: float | None = None) -> None:
        """restore() from the bytes of a snapshot."""
        self._run_load(self._restoring_bytes(data, ids), timeout)

    def restore_bytes_start(
        self, data: BytesLike, ids: Numbers | None = None, *, after: Iterable[Ticket[Any]] = ()
    ) -> Ticket[None]:
        """Starts restore_bytes() when the tickets in after are done; progress counts bytes. Do not change the bytes before."""
        return self._restoring_bytes(data, ids).start(after)

    def _restoring(self, path: AnyPath | None, options: LoadOptions) -> Work[None]:
        name = path_bytes("" if path is None else path, "path")
        return self._loading(lib.mmsb_snapshot_load, lib.mmsb_snapshot_load_start, name, options=options)

    def _restoring_from(self, file: File, ids: Numbers | None, lazy: bool) -> Work[None]:
        blocking, starting = lib.mmsb_snapshot_load_descriptor, lib.mmsb_snapshot_load_descriptor_start
        options = LoadOptions(ids, lazy, None, None, None, None)
        return self._loading(blocking, starting, _descriptor(file), options=options, source=file)

    def _restoring_bytes(self, data: BytesLike, ids: Numbers | None) -> Work[None]:
        blocking, starting = lib.mmsb_snapshot_load_memory, lib.mmsb_snapshot_load_memory_start
        options, source = LoadOptions(ids, False, None, None, None, None), readable(data)
        return self._loading(blocking, starting, source.address, source.length, options=options, source=source)

    def _loading(self, *calls_and_source: Any, options: LoadOptions, source: object = None) -> Work[None]:
        blocking, starting, *where = calls_and_source
        kept = (options, source)
        return Work(
            blocking, starting, self.handle, *where, options=options.raw, make=drop_released, kept=kept, check=self._check
        )

    def _run_load(self, work: Work[None], timeout: float | None) -> None:
        try:
            self._run(work, timeout)
        finally:
            drop_released()  # the adopted objects of the replaced pages

    def journal(
        self,
        directory: AnyPath,
        durability: str = "interval",
        interval_ms: int = 10,
        segment_bytes: int | None = None,
        keep: bool = False,
        base: str = "write",
        *,
        timeout: float | None = None,
    ) -> Journal:
        """Begins to write every change of this context to a journal in a folder.

        The folder alone gives the state back: restore(journal=folder).

        What a call has written survives the death of the process; durability is about power cuts.

        - durability: "interval" (a record is on disk within interval_ms), "call" (a call returns when its record is on disk)
          or "none" (the operating system decides when records reach the disk)
        - segment_bytes: when a segment is longer, the journal begins a new one; None for the default, 256 MiB
        - keep: False removes, with each durable save, the segments that it makes unnecessary
        - base: where the folder's records do not lead to this state, "write" saves it into the folder first, "refuse" raises
          InvalidStateError
        - timeout: seconds; then TimeoutError, and there is no journal

        MismatchError: the folder has a journal of another history, or another context has gone on with it since this one loaded
        or closed it: load it again. A context that was loaded from a snapshot alone, or with until, begins a branch instead.

        Ctrl-C ends the call: KeyboardInterrupt comes when there is no journal.
        """
        return self._run(self._opening(directory, journal_options(durability, interval_ms, segment_bytes, keep, base)), timeout)

    def journal_start(
        self,
        directory: AnyPath,
        durability: str = "interval",
        interval_ms: int = 10,
        segment_bytes: int | None = None,
        keep: bool = False,
        base: str = "write",
        *,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[Journal]:
        """Starts journal() when the tickets in after are done; progress counts the bytes of the base that it saves."""
        return self._opening(directory, journal_options(durability, interval_ms, segment_bytes, keep, base)).start(after)

    def _opening(self, directory: AnyPath, options: _abi.JournalOptions) -> Work[Journal]:
        return Work(
            lib.mmsb_journal_open,
            lib.mmsb_journal_open_start,
            self.handle,
            path_bytes(directory, "directory"),
            options=options,
            make=lambda: Journal(self),
            undo=lambda: lib.mmsb_journal_close(self._handle),
            check=self._check,
        )

    def group(self) -> AbstractContextManager[None]:
        """Makes all that this thread changes in this context within the block one change.

            with context.group():
                accounts[0].write(0, debit)
                accounts[1].write(0, credit)

        The end of the block commits the changes: after a crash the journal gives all of them back or none, and they cost one
        wait for the disk. An exception undoes them and goes on; pages that the block created are stale then. Where a view stops
        that, BusyError says so, and the thread's next group() undoes them first. Until the end, other threads that would change
        the same pages get BusyError. Bytes that are written through views are not part of it. Coroutines that run on this thread
        within the block are.
        """
        return _Group(_end_group, self, ctypes.c_uint64())

    def _rollback(self) -> None:
        """Undoes the group, unless the end of its context or a commit that only the disk has failed has ended it."""
        status = lib.mmsb_group_rollback(self._handle)
        drop_released()
        if status not in (_abi.E_STALE_HANDLE, _abi.E_INVALID_STATE):
            self._check(status)
        self._thread.ended()

    # ------------------------------------------------------------------------------------------------- resources

    def devices(self) -> list[Device]:
        """The driver's devices, or simulated ones if the context asked for them. NoDeviceError says why there are none."""
        return [device_of(info) for info in listed(_abi.DeviceInfo, lib.mmsb_device_list, self.handle, check=self._check)]

    def set_device_budget(self, bytes: int, device: int | None = 0) -> None:
        """Sets how many bytes of a device this process takes at most for runtimes and pages of all its contexts; 0: any number.

        device None is host memory that devices can access. What is taken beyond the budget stays; no more is taken until enough
        is given back.
        """
        self._check(lib.mmsb_device_budget(self.handle, _device_or_host(device), unsigned(bytes, "bytes")))

    def device_memory(self, device: int | None = 0) -> DeviceMemory:
        """What this process has taken of a device's memory; device None: of host memory that devices can access."""
        raw = sized(_abi.DeviceMemory)
        self._check(lib.mmsb_device_memory(self.handle, _device_or_host(device), raw))
        return as_record(DeviceMemory, raw)

    def runtime(self, device: int = 0) -> Runtime:
        """The shared runtime of a device: streams and stream-ordered memory without a budget."""
        handle = number_from(lib.mmsb_runtime_shared, self.handle, signed(device, "device"), check=self._check)
        return Runtime(self, handle, owned=False)

    def create_runtime(
        self,
        device: int = 0,
        *,
        streams: int | None = None,
        budget: int = 0,
        ledger: str | PathLike[str] | None = None,
        log_events: int = 0,
        guard_every: int = 0,
        guard_quarantine: int = 0,
        pool: str | None = None,
        memory_wait: float = 10,
        refused: Callable[[int, int], bool] | None = None,
        refused_attempts: int | None = None,
    ) -> Runtime:
        """Creates a runtime of the program's own.

        - streams: largest number of streams that are leased at a time; None for the default, 64
        - budget: bytes that blocks may take, 0 for no limit; ledger: a file in which processes charge one common budget
        - log_events: number of events that the log keeps for write_log()
        - guard_every: N guards every N-th block, 0 none; guard_quarantine: bytes of freed blocks that the guard holds back
        - pool: the configuration of a caching allocator that blocks come from, as in PYTORCH_ALLOC_CONF, "" for its defaults;
          None for the driver's stream-ordered memory
        - memory_wait: how many seconds an allocation that finds too little memory waits while freed blocks are pending and the
          device passes none of them; 0 does not wait, math.inf waits without limit
        - refused: called with (bytes, attempt) when memory is refused; it may free blocks, and True tries again. An exception is
          False, and the call of this package that allocates raises it; of other libraries' allocations sys.unraisablehook gets it
        - refused_attempts: largest number of these calls for one block; None for the default, 8
        """
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
        if pool is not None:
            options.pool = c_text(pool, "pool")
        options.memory_wait_ns = nanoseconds(None if memory_wait == math.inf else memory_wait)
        if refused_attempts is not None:
            options.refused_attempts = unsigned(refused_attempts, "refused_attempts")
        token = 0
        if refused is not None:
            options.refused = _abi.RefusedFunction(asking(refused))
            token = hold(options.refused)
        handle = ctypes.c_uint64()
        status = lib.mmsb_runtime_create(self.handle, signed(device, "device"), options, handle)
        if status:
            let_go(token)
            self._check(status)
        return Runtime(self, handle.value, owned=True, token=token)

    def stats(self) -> ContextStats:
        """The current counters of the context."""
        raw = sized(_abi.ContextStats)
        self._check(lib.mmsb_context_stats(self.handle, raw))
        return as_record(
            ContextStats,
            raw,
            location_pages={name: raw.location_pages[number] for name, number in _ffi.LOCATIONS.items()},
            location_bytes={name: raw.location_bytes[number] for name, number in _ffi.LOCATIONS.items()},
        )

    def trim(self) -> int:
        """Gives memory of destroyed pages back to the system and returns the number of bytes."""
        return number_from(lib.mmsb_context_trim, self.handle, check=self._check)

    def check_guard(self) -> list[GuardReport]:
        """Checks all guarded pages, and returns what the guard has found and no call has raised yet."""
        found: list[GuardReport] = []
        waiting = 1
        while waiting:
            raw = sized(_abi.GuardReport)
            waiting = number_from(lib.mmsb_guard_check, self.handle, raw, check=self._check)
            if waiting:
                found.append(as_record(GuardReport, raw, side=name_of(_abi.GUARD, raw.side)))
        return found

    # -------------------------------------------------------------------------------------------------- internals

    def _check(self, status: int, index: int | None = None) -> None:
        if status:
            raise self._failure(status, index)

    def _failure(self, status: int, index: int | None) -> MMSBError:
        error = failure(status)
        error.index = index
        return ClosedError("the context is closed") if status == _abi.E_STALE_HANDLE and self.closed else error

    def _run(self, work: Work[T], timeout: float | None, tries: bool = True) -> T:
        try:
            return work.run(timeout, tries)
        except StaleHandleError as error:
            raise ClosedError("the context is closed") if self.closed else error from None

    def _created(self, handles: array[int], location: str | None) -> PageArray:
        pages = PageArray(self, handles)
        if pages:
            pages[0]._note_location(location or self._default_location)
        return pages


class _Thread(threading.local):
    """What a context knows of a thread: the block of the group that it has begun and not ended."""

    group: Watch | None = None

    def ended(self) -> None:
        """It has ended."""
        if self.group is not None:
            never_mind(self.group)
            self.group = None


class _Group(Block):
    """Block of Context.group()."""

    def __enter__(self) -> None:
        context, handle = self.args
        watch = when_gone(self, lib.mmsb_group_rollback, handle)
        del self  # an exception keeps this frame
        left = context._thread.group
        if left is not None and left() is None:  # its block is over, and it could not be undone
            context._rollback()
        context._check(note(handle, context.handle, lib.mmsb_group_begin, context.handle))
        context._thread.group = watch


def _end_group(context: Context, handle: ctypes.c_uint64, kind: type[BaseException] | None, *_error: object) -> None:
    if kind is not None:
        if not lib.forked:  # what ends a child of a fork goes on: it has no group
            context._rollback()
        return
    try:
        context._check(lib.mmsb_group_commit(handle))
    except MMSBError:
        context._rollback()
        raise
    context._thread.ended()
    drop_released()


class _Writing(Block):
    """Block of Context.writing()."""

    def __enter__(self) -> None:
        context, handle, limit = self.args
        when_gone(self, lib.mmsb_writing_end, handle)
        del self  # an exception keeps this frame
        start = time.monotonic_ns()
        while True:
            left = max(limit - (time.monotonic_ns() - start), 1) if limit else 0
            status = note(handle, context.handle, lib.mmsb_writing_begin, context.handle, min(left, SLICE_NS))
            if status != _abi.E_TIMEOUT or left <= SLICE_NS:
                break
        context._check(status)


def _end_writing(
    context: Context, handle: ctypes.c_uint64, _limit: int, kind: type[BaseException] | None, *_error: object
) -> None:
    if kind is not None and lib.forked:
        return
    status = note(handle, 0, lib.mmsb_writing_end, handle)
    if not context.closed:  # with the context its sections end
        check(status)


# Contexts that may have simulated devices of their own.
_simulating: set[weakref.ref[Context]] = set()


def _open_simulating() -> list[Context]:
    """Those of them that are open."""
    return [context for known in list(_simulating) if (context := known()) is not None and not context.closed]


@contextmanager
def page_over(memory: Lender, read_only: bool) -> Iterator[Page]:
    """A page over memory of a device for the length of a block: in a context of its own, or in that whose device is simulated."""
    with Context(simulate="off") as own:
        for context in (own, *_open_simulating()):
            with suppress(NoDeviceError, InvalidArgumentError, ClosedError):
                page = context.adopt(memory, read_only)
                break
        else:
            page = context.adopt(memory, read_only)  # says why not
        try:
            yield page
        finally:
            page.destroy()


def can_adopt(memory: Lender) -> bool:
    """Whether any context can adopt memory of a device: only one can where the device is simulated."""
    if not _open_simulating():
        return True
    with Context(simulate="off") as own, suppress(NoDeviceError, InvalidArgumentError):
        own.adopt(memory, read_only=True).destroy()
        return True
    return False


@lru_cache(maxsize=1)
def _adopt_defaults() -> _abi.AdoptOptions:
    options = _abi.AdoptOptions()
    lib.mmsb_adopt_options_init(options)
    options.release = release_adopted
    return options


def _adopt_options(read_only: bool, id: int, stream: int | None) -> _abi.AdoptOptions:
    options = _abi.AdoptOptions.from_buffer_copy(_adopt_defaults())
    if stream is not None:
        options.location, options.device, options.stream = _abi.LOCATION_GPU, _abi.DEVICE_NONE, stream
    options.read_only = int(bool(read_only))
    options.id = unsigned(id, "id")
    return options


def _device_or_host(device: int | None) -> int:
    return _abi.DEVICE_HOST if device is None else signed(device, "device")


def _descriptor(file: File) -> int:
    """The descriptor of a file, after its Python buffer is flushed."""
    if isinstance(file, int):
        return signed(file, "descriptor")
    flush = getattr(file, "flush", None)
    if flush is not None:
        flush()
    return file.fileno()


def _each(
    options: _abi.PageOptions | None, count: int, size: int | Numbers, ids: Numbers | None
) -> tuple[_abi.PageOptions | None, int, tuple[Buffer | None, ...]]:
    """The options of count pages, the size that they all have or 0, and what the options point to."""
    same = 0
    sizes = None
    if isinstance(size, SupportsIndex) and not hasattr(size, "__len__"):
        same = unsigned(size, "size", InvalidSizeError)
    else:
        sizes = words(cast("Numbers", size), "size")
    chosen = None if ids is None else words(ids, "ids")
    for what, buffer in (("size", sizes), ("ids", chosen)):
        if buffer is not None and buffer.length != count * 8:
            raise MismatchError(f"{what} has {buffer.length // 8} numbers for {count} pages")
    if sizes is None and chosen is None:
        return options, same, ()
    if options is None:
        options = _abi.PageOptions()
        lib.mmsb_page_options_init(options)
    if sizes is not None:
        options.sizes = sizes.address
    if chosen is not None:
        options.ids = chosen.address
    return options, same, (sizes, chosen)


def _page_options(id: int, location: str | None, device: int, zeroed: bool, numa_node: int) -> _abi.PageOptions | None:
    """The options of a new page; None if all are the library's defaults."""
    if not id and location is None and not device and zeroed and numa_node == -1:
        return None
    options = _abi.PageOptions()
    lib.mmsb_page_options_init(options)
    options.id = unsigned(id, "id")
    if location is not None:
        options.location = value_of(_ffi.LOCATIONS, location, "location")
    options.device = signed(device, "device")
    options.numa_node = signed(numa_node, "numa_node")
    options.contents = _abi.PAGE_ZEROED if zeroed else _abi.PAGE_UNINITIALISED
    return options
