"""Snapshot files, which need no context: read, verify, compare, compact; and the options of saving and loading."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex, Union

from . import _abi, _ffi
from ._convert import (
    Buffer,
    BytesLike,
    Numbers,
    as_array,
    check_items,
    extent,
    fetch,
    item_type,
    new_bytes,
    signed,
    unsigned,
    words,
)
from ._errors import ClosedError, InvalidArgumentError, OutOfRangeError, UnsupportedError
from ._ffi import check, lib, listed, name_of, sized, value_of
from ._lease import end, view_memory, when_dropped
from ._object import Closable, NotCopied
from .ticket import Ticket, Work, nothing

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import DTypeLike, NDArray

#: The path of a file or folder.
AnyPath = Union[str, bytes, "PathLike[str]", "PathLike[bytes]"]

_WALK = 4096
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class SaveStats:
    """Counters of a context's saves."""

    #: Saves that succeeded.
    saves: int
    #: The file of the last save: its pages, its bytes, and how long the save took.
    last_pages: int
    last_bytes: int
    last_duration_ns: int
    #: Bytes of pre-images that writers copied for the last or running save, and the largest number of them at one time.
    copied_bytes: int
    copied_peak: int
    #: Calls that waited because copy_limit was reached, and the time that they waited together.
    waits: int
    waited_ns: int
    #: Bytes read only to compare checksums.
    compared_bytes: int


class Change(NamedTuple):
    """A page that differs between two snapshots.

    change is "added", "removed", "bytes" (size or bytes differ, perhaps more) or "other" (the bytes are equal, others differ).
    """

    id: int
    change: str


class Snapshot(Closable):
    """A snapshot file and its chain of bases, open for reading. No context is involved.

    A mapping from ids to pages. Dropping or closing it closes the file; views of its pages keep the file mapped until the
    last of them is gone.
    """

    _name = "snapshot"

    def __init__(self, path: AnyPath) -> None:
        self._file: _File | None = _File(path)
        raw = sized(_abi.SnapshotInfo)
        check(lib.mmsb_snapshot_info(self._file.handle, raw))
        self._info = raw

    # ------------------------------------------------------------------------------------------------- properties

    @property
    def id(self) -> str:
        """The snapshot's random id, in hexadecimal; zeros in a file of version 2."""
        return bytes(self._info.id).hex()

    @property
    def base(self) -> str | None:
        """The id of the base, in hexadecimal; None if the snapshot is whole."""
        return _id(self._info.base)

    @property
    def taken(self) -> datetime | None:
        """The time at which it was taken, UTC; None in a file of version 2."""
        return time_of(self._info.taken_ns)

    @property
    def format(self) -> int:
        """Version of the file: 3 or 4; 2 of the original program."""
        return int(self._info.format)

    @property
    def position(self) -> int:
        """Position of the state in its lineage: the number of the last journal record whose effect it has."""
        return int(self._info.position)

    @property
    def lineage(self) -> str | None:
        """The line of history that the state is of, as hexadecimal digits; None if the file is older than lineages."""
        return _id(self._info.lineage)

    @property
    def parent(self) -> tuple[str, int] | None:
        """The state after which the lineage begins, its lineage and position; None: an empty context."""
        line = _id(self._info.parent)
        return None if line is None else (line, int(self._info.fork))

    @property
    def size(self) -> int:
        """Sum of the sizes of all pages, in bytes."""
        return int(self._info.bytes)

    @property
    def file_pages(self) -> int:
        """Number of pages with an entry in this file; bases are not counted."""
        return int(self._info.file_pages)

    @property
    def file_size(self) -> int:
        """Length of this file in bytes."""
        return int(self._info.file_bytes)

    @property
    def chain(self) -> int:
        """Number of files that the state comes from: 1 is this file alone."""
        return int(self._info.chain)

    @property
    def dependencies(self) -> int:
        """Number of dependencies between the pages."""
        return int(self._info.edges)

    def edges(self) -> list[tuple[int, int]]:
        """The dependencies: pairs of ids, (parent, child)."""
        file = self._opened()
        found = listed(_abi.Dependency, lib.mmsb_snapshot_dependencies, file.handle, capacity=self.dependencies)
        return [(edge.parent, edge.child) for edge in found]

    # ------------------------------------------------------------------------------------------------------ pages

    def pages(self) -> Iterator[SnapshotPage]:
        """All pages, in the order of the files."""
        file, cursor, count = self._opened(), ctypes.c_uint64(), ctypes.c_size_t()
        part = (_abi.SnapshotPage * _WALK)()
        while True:
            check(lib.mmsb_snapshot_pages(file.handle, cursor, part, _WALK, count))
            if not count.value:
                return
            for raw in part[: count.value]:
                yield SnapshotPage(file, _abi.SnapshotPage.from_buffer_copy(raw))

    def __getitem__(self, id: int) -> SnapshotPage:
        file, raw = self._opened(), _abi.SnapshotPage()
        check(lib.mmsb_snapshot_find(file.handle, unsigned(id, "id"), raw))
        return SnapshotPage(file, raw)

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, SupportsIndex) or not 0 <= id.__index__() < 2**64:
            return False
        file = self._opened()
        status = lib.mmsb_snapshot_find(file.handle, id.__index__(), _abi.SnapshotPage())
        if status != _abi.E_NOT_FOUND:
            check(status)
        return bool(status == _abi.OK)

    def __iter__(self) -> Iterator[int]:
        return (page.id for page in self.pages())

    def __len__(self) -> int:
        return int(self._info.pages)

    def __bool__(self) -> bool:
        return True

    # --------------------------------------------------------------------------------------------------- lifetime

    @property
    def closed(self) -> bool:
        """Whether close() has been called."""
        return self._file is None

    def close(self) -> None:
        """Closes the snapshot; the file is closed when its pages and their views are gone. Idempotent."""
        self._file = None

    def __repr__(self) -> str:
        return f"<mmsb.Snapshot {self.id} of {len(self)} pages{', closed' if self.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open snapshot cannot be pickled or copied")

    def _opened(self) -> _File:
        if self._file is None:
            raise ClosedError("the snapshot is closed")
        return self._file


class SnapshotPage(NotCopied):
    """A page of a snapshot."""

    __slots__ = ("_file", "_raw")

    _name = "page of a snapshot"

    def __init__(self, file: _File, raw: _abi.SnapshotPage) -> None:
        self._file = file
        self._raw = raw

    @property
    def id(self) -> int:
        """The page's id."""
        return int(self._raw.id)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return int(self._raw.size)

    @property
    def epoch(self) -> int:
        """The epoch of the page."""
        return int(self._raw.epoch)

    @property
    def version(self) -> int:
        """The version of the page."""
        return int(self._raw.version)

    @property
    def location(self) -> str:
        """The location of the bytes when the page was saved: "cpu", "gpu", "unified", "pinned" or "disk"."""
        return name_of(_ffi.LOCATIONS, self._raw.location)

    @property
    def device(self) -> int:
        """The driver's ordinal; 0 for host memory."""
        return int(self._raw.device)

    @property
    def numa_node(self) -> int:
        """The NUMA node that was asked for; -1 for any."""
        return int(self._raw.numa_node)

    @property
    def metadata(self) -> dict[str, bytes]:
        """The metadata: keys to bytes, in the order in which the keys were first set."""
        if not self._raw.metadata_count:
            return {}
        status, blob = fetch(
            lambda buffer, capacity, length: lib.mmsb_snapshot_metadata(self._file.handle, self.id, buffer, capacity, length)
        )
        check(status)
        return _entries(blob)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """A copy of length bytes from offset on, with verified checksums; None for all bytes to the end."""
        offset, length = extent(offset, length, self.size)
        data = new_bytes(length)
        check(lib.mmsb_snapshot_read(self._file.handle, self.id, offset, data, length))
        return data

    def read_into(self, offset: int, buffer: BytesLike) -> int:
        """Fills a writable buffer with the bytes from offset on, with verified checksums, and returns their number."""
        target = Buffer(buffer, writable=True)
        offset = unsigned(offset, "offset", OutOfRangeError)
        check(lib.mmsb_snapshot_read(self._file.handle, self.id, offset, target.address, target.length))
        return target.length

    def mask_bits(self, offset: int = 0, length: int | None = None) -> bytes:
        """The change mask of a range as bits: bit i % 8 of byte i // 8, counted from offset."""
        offset, length = extent(offset, length, self.size)
        bits = new_bytes((length + 7) // 8)
        check(lib.mmsb_snapshot_mask_read(self._file.handle, self.id, offset, bits, length))
        return bits

    def memory(self) -> memoryview:
        """A read-only view of the page's bytes in the mapped file. The call verifies all of them.

        Raises UnsupportedError if the bytes are compressed or not contiguous in the file, as those of no page of 4 MiB or more
        are. If another process truncates the file, an access to the view ends the process (SIGBUS): use read() for files that
        others change.
        """
        address, length = ctypes.c_void_p(), ctypes.c_uint64()
        check(lib.mmsb_snapshot_view(self._file.handle, self.id, address, length))
        assert address.value is not None
        return view_memory(address.value, length.value, False, _let_go, self._file)

    def array(self, dtype: DTypeLike = "uint8") -> NDArray[Any]:
        """The page's bytes as a read-only NumPy array: a view of the mapped file, or a copy if memory() is not supported."""
        import numpy

        item = item_type(dtype)
        check_items(self.size, item)
        try:
            source: memoryview | bytes = self.memory()
        except UnsupportedError:
            source = self.read()
        return numpy.frombuffer(source, dtype=item)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return as_array(self.array(), dtype, copy)

    def __bytes__(self) -> bytes:
        return self.read()

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<mmsb.SnapshotPage {self.id} {self.location} size={self.size} epoch={self.epoch}>"


class _File(NotCopied):
    """A snapshot handle of the library, closed when its last user is gone."""

    __slots__ = ("__weakref__", "handle")

    _name = "snapshot"

    def __init__(self, path: AnyPath) -> None:
        self.handle = ctypes.c_uint64()
        when_dropped(self, _close, self.handle)  # before the call, which Ctrl-C may follow
        check(lib.mmsb_snapshot_open(path_bytes(path, "path"), self.handle))


def _close(handle: ctypes.c_uint64) -> None:
    if handle and not lib.forked:
        lib.mmsb_snapshot_close(handle)


def _let_go(_file: _File) -> None:
    """Called when a view is gone; its finalizer has held the file until then."""


def time_of(nanoseconds: int) -> datetime | None:
    """A time of the library, nanoseconds since 1970; None for 0."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds else None


def _id(raw: ctypes.Array[ctypes.c_uint8]) -> str | None:
    """An id in hexadecimal; None for zeros."""
    data = bytes(raw)
    return data.hex() if any(data) else None


def _entries(blob: bytes) -> dict[str, bytes]:
    """The entries of a metadata blob: a count, then each key and each value behind its length."""
    parts: list[bytes] = []
    start = 4
    for _ in range(2 * int.from_bytes(blob[:4], "little")):
        length = int.from_bytes(blob[start : start + 4], "little")
        parts.append(blob[start + 4 : start + 4 + length])
        start += 4 + length
    return {key.decode(): value for key, value in zip(parts[::2], parts[1::2])}


# ------------------------------------------------------------------------------------------------------ whole files


def verify(path: AnyPath, timeout: float | None = None) -> None:
    """Reads a snapshot and its bases and checks every checksum and length; raises the error of the first damage.

    timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.
    """
    _verifying(path).run(timeout)


def verify_start(path: AnyPath, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
    """Starts verify() when the tickets in after are done; progress counts bytes."""
    return _verifying(path).start(after)


def _verifying(path: AnyPath) -> Work[None]:
    return Work(lib.mmsb_snapshot_verify, lib.mmsb_snapshot_verify_start, path_bytes(path, "path"), make=nothing)


def diff(older: Snapshot, newer: Snapshot, timeout: float | None = None) -> list[Change]:
    """The pages that differ between two snapshots, in ascending order of ids.

    timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.
    """
    return _comparing(older, newer).run(timeout)


def diff_start(older: Snapshot, newer: Snapshot, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[list[Change]]:
    """Starts diff() when the tickets in after are done; progress counts pages."""
    return _comparing(older, newer).start(after)


def _comparing(older: Snapshot, newer: Snapshot) -> Work[list[Change]]:
    for what, snapshot in (("older", older), ("newer", newer)):
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"{what} must be a Snapshot, not {type(snapshot).__name__}")
    first, second, count = older._opened(), newer._opened(), ctypes.c_size_t()
    capacity = len(older) + len(newer)  # as many as there can be
    found = (_abi.SnapshotChange * capacity)()
    return Work(
        lib.mmsb_snapshot_diff,
        lib.mmsb_snapshot_diff_start,
        first.handle,
        second.handle,
        results=(found, capacity, count),
        make=lambda: [Change(raw.id, name_of(_abi.CHANGE, raw.change)) for raw in found[: count.value]],
        kept=(first, second, found, count),
    )


def compact(path: AnyPath, to: AnyPath, *, durable: bool = True, timeout: float | None = None) -> None:
    """Writes the state of a snapshot and its bases to one whole snapshot. Compressed chunks stay compressed.

    timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call. Both leave no file.
    """
    _compacting(path, to, durable).run(timeout)


def compact_start(path: AnyPath, to: AnyPath, *, durable: bool = True, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
    """Starts compact() when the tickets in after are done; progress counts bytes."""
    return _compacting(path, to, durable).start(after)


def _compacting(path: AnyPath, to: AnyPath, durable: bool) -> Work[None]:
    return Work(
        lib.mmsb_snapshot_compact,
        lib.mmsb_snapshot_compact_start,
        path_bytes(path, "path"),
        path_bytes(to, "to"),
        options=save_options(None, None, 0, "allow", durable, None),
        make=nothing,
    )


# ---------------------------------------------------------------------------------------------------------- options


def path_bytes(path: AnyPath, what: str) -> bytes:
    """A path in the system's encoding."""
    data = os.fsencode(path)
    if b"\0" in data:
        raise InvalidArgumentError(f"{what} has a zero byte at offset {data.index(0)}")
    return data


def save_options(
    base: AnyPath | None,
    compression: str | None,
    compression_level: int,
    raw_writes: str,
    durable: bool,
    copy_limit: int | None,
    base_in_use: str = "whole",
    queue: bool = False,
    chain_limit: int = 0,
    watched: bool = True,
) -> _abi.SaveOptions:
    """Options of a save."""
    options = _abi.SaveOptions()
    lib.mmsb_save_options_init(options)
    options.compression = value_of(_abi.COMPRESSION, "none" if compression is None else compression, "compression")
    options.compression_level = signed(compression_level, "compression_level")
    options.raw_writes = value_of(_abi.RAW_WRITES, raw_writes, "raw_writes")
    options.not_durable = int(not durable)
    options.not_watched = int(not watched)
    options.base_in_use = value_of(_abi.BASE_IN_USE, base_in_use, "base_in_use")
    options.queue = int(bool(queue))
    options.chain_limit = signed(chain_limit, "chain_limit")
    if copy_limit is not None:
        options.copy_limit = unsigned(copy_limit, "copy_limit")
    if base is not None:
        options.base = path_bytes(base, "base")
    return options


class SavedBytes(NotCopied):
    """A snapshot in memory of the library, which is freed with this object at the latest."""

    __slots__ = ("__weakref__", "_data", "free", "length", "memory")

    _name = "snapshot"

    def __init__(self) -> None:
        self.memory, self.length = ctypes.c_void_p(), ctypes.c_uint64()
        self.free = when_dropped(self, _free, self.memory)
        self._data: bytes | None = None

    def take(self) -> bytes:
        """The snapshot; the first call frees the memory."""
        if self._data is None:
            self._data = ctypes.string_at(self.memory, self.length.value)
            end(self.free)
        return self._data


def _free(memory: ctypes.c_void_p) -> None:
    if not lib.forked:
        address, memory.value = memory.value, None
        lib.mmsb_snapshot_free_memory(address)


class LoadOptions:
    """Options of a load, and the memory that they point to."""

    __slots__ = ("_ids", "raw")

    def __init__(
        self,
        ids: Numbers | None,
        lazy: bool,
        journal: AnyPath | None,
        until: int | None,
        until_time: datetime | float | None,
        until_epoch: tuple[int, int] | None,
        in_place: bool = False,
        to_host: bool = False,
        snapshot_id: str | None = None,
    ) -> None:
        if lazy and in_place:
            raise InvalidArgumentError("lazy and in_place exclude each other")
        self.raw = _abi.LoadOptions()
        lib.mmsb_load_options_init(self.raw)
        self.raw.mode = _abi.LOAD["in_place" if in_place else "lazy" if lazy else "eager"]
        self.raw.to_host = int(to_host)
        if snapshot_id is not None:
            self.raw.snapshot_id[:] = id_bytes(snapshot_id)
        self._ids: Buffer | None = None
        if ids is not None:
            self._ids = words(ids, "ids")
            self.raw.page_ids, self.raw.page_count = self._ids.address, self._ids.length // 8
        if journal is not None:
            self.raw.journal = path_bytes(journal, "journal")
        if until is not None:
            self.raw.journal_until = unsigned(until, "until")
            if not until:
                raise InvalidArgumentError("until is 0; the first record has the number 1")
        if until_time is not None:
            self.raw.journal_until_time_ns = time_ns(until_time, "until_time")
        if until_epoch is not None:
            page, epoch = until_epoch
            self.raw.journal_page, self.raw.journal_epoch = unsigned(page, "until_epoch[0]"), unsigned(epoch, "until_epoch[1]")
            if not (page and epoch):
                raise InvalidArgumentError(f"until_epoch is {until_epoch}; the smallest id and the smallest epoch are 1")


def id_bytes(id: str) -> bytes:
    """The 16 bytes of a snapshot's id, as Snapshot.id has it."""
    try:
        found = bytes.fromhex(id)
    except ValueError:
        found = b""
    if len(found) != 16:
        raise InvalidArgumentError(f"snapshot_id is {id!r}; it has 32 hexadecimal digits")
    return found


def time_ns(time: datetime | float, what: str) -> int:
    """Nanoseconds since 1970; a datetime without a time zone is local time."""
    seconds = time.timestamp() if isinstance(time, datetime) else float(time)
    if not abs(seconds) < 2**63 / 1e9:
        raise InvalidArgumentError(f"{what} is {time}; the limit is 2**63 ns before or after 1970")
    return int(seconds * 1e9) or 1  # 0 stands for no time
