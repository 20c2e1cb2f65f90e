"""Stores: directories that have the state of a context."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import weakref
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _abi
from ._convert import c_text, signed, unsigned
from ._errors import InvalidArgumentError, MMSBError
from ._ffi import as_record, lib, listed, sized, value_of
from .context import Context
from .journal import Journal, journal_options
from .snapshot import AnyPath, path_bytes, time_ns, time_of
from .ticket import Ticket, Work, nothing

if TYPE_CHECKING:
    from typing import SupportsIndex, Union

    #: Which state is meant: its name, the number of a record, or a time.
    At = Union[str, SupportsIndex, datetime]


class StoreInfo(NamedTuple):
    """What a store has, and what was done for it since it was opened."""

    #: Snapshots in the folder, the bytes of their files, and those of the journal's files.
    snapshots: int
    snapshot_bytes: int
    journal_bytes: int
    #: Numbers of the oldest record that is kept, and of the newest; 0 if there is none yet.
    first_record: int
    last_record: int
    #: Bytes of journal behind the last save.
    unsaved_bytes: int
    #: Saves, how many of them were whole, and how many have failed; a save that has failed is tried again.
    saves: int
    whole_saves: int
    failed_saves: int
    #: Bytes of the snapshots that were saved, and when the last save began.
    saved_bytes: int
    last_save: datetime | None
    #: Snapshots that no rule keeps and that were removed, and the bytes of their files.
    pruned: int
    pruned_bytes: int
    #: With mode "follow": when last_record was applied; how often the newest state was loaded anew; errors, after which it tries
    #: again.
    followed: datetime | None
    reloads: int
    follow_failures: int
    #: How often calls have waited because the disk was slower than they were, or full; how long in seconds, all threads together.
    waits: int
    waited: float


class StorePoint(NamedTuple):
    """A snapshot of a store."""

    #: Of the snapshot and of its state's line of history, as hexadecimal digits.
    id: str
    lineage: str
    #: Number of the last record that it has.
    position: int
    taken: datetime | None
    #: Of its file, without those that it rests on.
    bytes: int
    #: Whether it rests on no other.
    whole: bool
    #: Whether the newest state comes from it; else it lies on a branch that was left.
    on_line: bool
    #: Whether records lead on from it: every state since can be opened.
    leads: bool
    #: The first of its names, and how many it has.
    name: str | None
    names: int


# What was written through views is saved when a store is closed, and no garbage collector closes it at exit.
_open: set[weakref.ref[Store]] = set()


def _close_all() -> None:
    """Closes the stores that a program has left open, behind what it has registered for its exit after the import of mmsb."""
    for known in list(_open):
        store = known()
        try:
            if store is not None:
                store.close()
        except MMSBError as error:  # the others are closed, too
            with contextlib.suppress(AttributeError, OSError, ValueError):
                print(f"mmsb: {error}", file=sys.stderr)


# The first finalizer of a process registers what stops them all; what is registered behind it runs before.
weakref.finalize(_open, _close_all).detach()
atexit.register(_close_all)


class Store(Context):
    """A context whose state a folder has, from open(). Every change is in the folder's journal, and close() needs no save.

    With modes "read" and "follow" calls that would change pages raise InvalidStateError, and so do the methods of this class but
    info(), and wait() of one that follows.

    close() waits until all changes are on disk, and raises the error of a disk that refuses them: then the file journal.ring has
    them, for the next open() before the system is started anew. It waits up to 10 seconds for groups of other threads: see
    Context.close().
    """

    _name = "store"

    def __init__(
        self, directory: AnyPath, options: _abi.StoreOptions, timeout: float | None, context_options: dict[str, Any]
    ) -> None:
        """Called by open()."""
        self._directory = path_bytes(directory, "directory")
        self._store_options = options
        self._timeout = timeout
        super().__init__(**context_options)
        _open.add(weakref.ref(self, _open.discard))

    def _create(self, options: _abi.ContextOptions) -> None:
        Work(
            lib.mmsb_store_open,
            lib.mmsb_store_open_start,
            self._directory,
            options,
            options=self._store_options,
            results=(self._made,),
            make=nothing,
            undo=lambda: lib.mmsb_context_destroy(self._made),
            kept=self._made,
        ).run(self._timeout)

    @property
    def directory(self) -> str:
        """The folder that open() was given."""
        return os.fsdecode(self._directory)

    def checkpoint(self, whole: bool = False, timeout: float | None = None) -> None:
        """Saves into the store what has changed since the last save, and removes what no rule keeps.

        No change needs that: the journal has it. It makes the next open() shorter and what was written through views durable, and
        its state is a point of store_points(). whole: saves everything, so that no older snapshot is needed.

        timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.
        """
        self._run(self._saving_point(whole), timeout)

    def checkpoint_start(self, whole: bool = False, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
        """Starts checkpoint() when the tickets in after are done; progress counts bytes."""
        return self._saving_point(whole).start(after)

    def name(self, name: str, timeout: float | None = None) -> None:
        """checkpoint(), and the state gets a name: it stays until unname(), and open(at=name) gives it back.

        1 to 255 bytes of UTF-8 without control characters, the first character a letter. A state that has the name loses it.
        """
        self._run(self._naming(name), timeout)

    def name_start(self, name: str, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
        """Starts name() when the tickets in after are done; progress counts bytes."""
        return self._naming(name).start(after)

    def unname(self, name: str) -> None:
        """Takes a name away; the next save removes the state unless another rule keeps it. NotFoundError: there is none."""
        self._check(lib.mmsb_store_unname(self.handle, c_text(name, "name"), None))

    def sync(self, timeout: float | None = None) -> None:
        """Waits until all changes made so far are on disk.

        timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.
        """
        Journal(self).sync(timeout)

    def sync_start(self, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
        """Starts sync() when the tickets in after are done."""
        return Journal(self).sync_start(after=after)

    def wait(self, record: SupportsIndex, timeout: float | None = None) -> None:
        """With mode "follow": waits until the pages have the state behind this record, or behind a later one.

        The writer has the number of its last one in info().last_record.

        timeout in seconds, then TimeoutError; None waits without limit. Ctrl-C ends the call.
        """
        self._run(self._waiting(record), timeout)

    def wait_start(self, record: SupportsIndex, *, after: Iterable[Ticket[Any]] = ()) -> Ticket[None]:
        """Starts wait() when the tickets in after are done."""
        return self._waiting(record).start(after)

    def info(self) -> StoreInfo:
        """What the store has, and what was done for it."""
        raw = sized(_abi.StoreInfo)
        self._check(lib.mmsb_store_info(self.handle, raw))
        times = {"last_save": time_of(raw.last_save_ns), "followed": time_of(raw.followed_ns)}
        return as_record(StoreInfo, raw, waited=raw.waited_ns / 1e9, **times)

    def _saving_point(self, whole: bool) -> Work[None]:
        return Work(
            lib.mmsb_store_save, lib.mmsb_store_save_start, self.handle, int(bool(whole)), make=nothing, check=self._check
        )

    def _waiting(self, record: SupportsIndex) -> Work[None]:
        number = unsigned(record, "record")
        return Work(lib.mmsb_store_wait, lib.mmsb_store_wait_start, self.handle, number, make=nothing, check=self._check)

    def _naming(self, name: str) -> Work[None]:
        text = c_text(name, "name")
        return Work(lib.mmsb_store_name, lib.mmsb_store_name_start, self.handle, text, make=nothing, check=self._check)


def open(
    directory: AnyPath,
    mode: str | None = None,
    at: At | None = None,
    *,
    lazy: bool = False,
    durability: str = "interval",
    interval_ms: int = 10,
    segment_bytes: int | None = None,
    save_bytes: float | None = None,
    save_interval: float | None = None,
    keep_last: int = 1,
    keep_hourly: int = 0,
    keep_daily: int = 0,
    space_wait: float = 0,
    timeout: float | None = None,
    **context_options: Any,
) -> Store:
    """Opens a store: a folder that has the state of a context, whatever becomes of the process.

        with mmsb.open("state") as store:
            page = store.get(1) or store.create_page(4096, id=1)
            page.write(0, b"hello")

    - mode: "write" goes on from the newest state, and begins a folder that is missing or empty; "read" takes no lock, and calls
      that would change pages raise InvalidStateError; "follow" is "read", but the pages keep up with the store's writer, which
      may be another process: Store.wait(); "branch" goes on from an older state, and leaves the newer ones. None: "write", or
      "read" if at is given
    - at: the state of this name (a str), behind this record of the journal (an int), or of that time (a datetime; one without a
      time zone is local time)
    - lazy: the bytes of large pages are read when a call first needs them
    - durability, interval_ms, segment_bytes: of the journal, see Context.journal(); None for the default, 16 MiB
    - save_bytes: the keeper, a thread of the library, saves the state when the journal has grown by so many bytes; None for
      64 MiB, or a tenth of the pages' bytes where that is more; math.inf for never
    - save_interval: seconds after which it saves, if anything has changed, also through views; None for never. With
      save_bytes=math.inf and None here nothing is saved but when the program asks, not even when the store is closed
    - keep_last: this many of the newest snapshots stay, and every state since the oldest of them can be opened; keep_hourly,
      keep_daily: the newest of each of that many hours and days stays, too; and so do those with a name
    - space_wait: seconds that calls which change pages wait after the disk is found full, math.inf for as long as it is; after
      them, and in a group, NoSpaceError. Ctrl-C does not end such a call
    - timeout: seconds; then TimeoutError. Ctrl-C ends the call
    - context_options: those of Context

    BusyError: another process or context writes the store; the text has its process and host. NotFoundError: there is no store to
    read, or no such state.
    """
    raw = _abi.StoreOptions()
    lib.mmsb_store_options_init(raw)
    raw.mode = value_of(_abi.STORE, mode if mode is not None else "write" if at is None else "read", "mode")
    if isinstance(at, str):
        raw.at_name = c_text(at, "at")
    elif isinstance(at, datetime):
        raw.at_time_ns = time_ns(at, "at")
    elif at is not None:
        raw.at_record = unsigned(at, "at")
        if not raw.at_record:
            raise InvalidArgumentError("at is 0; the first record has the number 1")
    raw.load = _abi.LOAD["lazy" if lazy else "eager"]
    journal = journal_options(durability, interval_ms, segment_bytes, True, "write")
    raw.durability, raw.interval_ms = journal.durability, journal.interval_ms
    if segment_bytes is not None:
        raw.segment_bytes = journal.segment_bytes
    if save_bytes is not None:
        raw.save_bytes = _abi.NEVER if save_bytes == math.inf else _positive(save_bytes, "save_bytes")
    if save_interval is not None:
        raw.save_interval_ns = _positive(save_interval, "save_interval", 1e9)
    if space_wait:
        raw.space_wait_ns = _positive(space_wait, "space_wait", 1e9)
    raw.keep_last = signed(keep_last, "keep_last")
    raw.keep_hourly = signed(keep_hourly, "keep_hourly")
    raw.keep_daily = signed(keep_daily, "keep_daily")
    return Store(directory, raw, timeout, context_options)


def _positive(value: float, what: str, scale: float = 1) -> int:
    """A number that is more than 0 in the library's unit, where 0 means something else."""
    if not value > 0:
        raise InvalidArgumentError(f"{what} is {value}, not more than 0")
    return max(1, int(min(value * scale, 2**63)))


def store_points(directory: AnyPath) -> list[StorePoint]:
    """The snapshots of a store, the newest first, those of branches that were left at the end. Also while it has a writer."""
    return [_point(raw) for raw in listed(_abi.StorePoint, lib.mmsb_store_points, path_bytes(directory, "directory"))]


def _point(raw: _abi.StorePoint) -> StorePoint:
    return as_record(
        StorePoint,
        raw,
        id=bytes(raw.id).hex(),
        lineage=bytes(raw.lineage).hex(),
        taken=time_of(raw.taken_ns),
        whole=bool(raw.whole),
        on_line=bool(raw.on_line),
        leads=bool(raw.leads),
        name=raw.name.decode() or None,
    )
