"""Command buffers: pages that get the changed bytes of others later, in the order in which a thread asked for it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

from . import _abi
from ._convert import nanoseconds, signed, unsigned
from ._errors import MMSBError, error_for
from ._ffi import as_record, check, lib, listed, naming_pages, number_from, sized
from ._lease import end, when_dropped
from ._object import Handled

if TYPE_CHECKING:
    from .context import Context
    from .page import Page


@dataclass(frozen=True)
class CommandStats:
    """Counters of a command buffer. mmsb_commands_stats_t describes each field."""

    workers: int
    capacity: int
    enqueued: int
    done: int
    failed: int
    cancelled: int
    depth: int
    peak: int
    producers: int
    refused: int
    waits: int
    waited_ns: int
    failures_lost: int


@dataclass(frozen=True)
class CommandFailure:
    """What a command met when it was executed: it has changed nothing, unless the error is a NotDurableError."""

    #: The handle of the command's page, which may have ended since.
    page_handle: int
    error: MMSBError


class CommandBuffer(Handled):
    """Keeps commands and executes them later: a command copies the bytes that the change masks of its dependencies have into a
    page, as one delta of the page. Each thread has a ring of capacity commands, which are executed in their order.

    workers: threads of the library that execute commands, at most 64; 0: wait() and drain() do it on their thread.

    persistent: small commands whose pages lie on one device are executed by a kernel that stays there as long as commands come.
    Experimental: it has run on simulated devices only.

    The end of a with statement executes what waits; where the statement raises, it is cancelled. Closing or dropping the buffer
    cancels it. A buffer keeps the contexts of its pages until it is closed. docs/commands.md has the rules.

    Example: with CommandBuffer() as commands: commands.enqueue(page); commands.wait().
    """

    __slots__ = ("_contexts",)

    _name: ClassVar[str] = "command buffer"

    def __init__(self, capacity: int = 1024, *, workers: int = 1, persistent: bool = False) -> None:
        options = sized(_abi.CommandsOptions)
        options.capacity = unsigned(capacity, "capacity")
        options.workers = signed(workers, "workers")
        options.persistent = persistent
        self._contexts: set[Context] = set()
        self._handle = number_from(lib.mmsb_commands_create, options)
        self._finalizer = when_dropped(self, _destroy, self._handle)

    def enqueue(self, page: Page, dependencies: Iterable[Page] | None = None, *, timeout: float | None = None) -> None:
        """Enqueues a command. dependencies: pages of the same size, of which the later wins; None: the page's parents, as they
        are when the command is executed.

        timeout: seconds to wait where the thread's ring is full, None for as long as it takes, 0 for not at all. Raises
        TimeoutError, or WouldBlockError for timeout 0.
        """
        pages = None if dependencies is None else list(dependencies)
        for each in (page, *(pages or ())):
            self._contexts.add(each.context)
        if pages is None:
            array, count = None, 0
        else:
            # One more, so that the address of an empty list is not NULL.
            array, count = (ctypes.c_uint64 * (len(pages) + 1))(*(each.handle for each in pages)), len(pages)
        page._check(lib.mmsb_commands_enqueue(self.handle, page.handle, array, count, nanoseconds(timeout)))

    def wait(self, timeout: float | None = None) -> None:
        """Waits until all commands that any thread had enqueued before are done, at most timeout seconds. Without workers it
        executes them. What commands met is in failures().

        Raises TimeoutError, or WouldBlockError for timeout 0, if some still wait.
        """
        check(lib.mmsb_commands_wait(self.handle, nanoseconds(timeout)))

    def drain(self, limit: int = 0) -> int:
        """Executes commands on this thread, at most limit, or for 0 as many as wait now, and returns how many."""
        return number_from(lib.mmsb_commands_drain, self.handle, unsigned(limit, "limit"))

    def complete(self, timeout: float | None = None) -> None:
        """Shuts the buffer down: it takes no more commands, and executes those that wait."""
        check(lib.mmsb_commands_close(self.handle, _abi.COMMANDS_COMPLETE, nanoseconds(timeout)))

    def cancel(self, timeout: float | None = None) -> None:
        """Shuts the buffer down: it takes no more commands, and drops those that wait."""
        check(lib.mmsb_commands_close(self.handle, _abi.COMMANDS_CANCEL, nanoseconds(timeout)))

    def stats(self) -> CommandStats:
        """Counters of the buffer."""
        stats = sized(_abi.CommandsStats)
        check(lib.mmsb_commands_stats(self.handle, stats))
        return as_record(CommandStats, stats)

    def failures(self) -> list[CommandFailure]:
        """Takes the failures out of the buffer, the oldest first; the newest 256 were kept."""
        return [
            CommandFailure(raw.page, error_for(raw.code, naming_pages(raw.text.decode("utf-8", "replace"))))
            for raw in listed(_abi.CommandFailure, lib.mmsb_commands_failures, self.handle, capacity=256)
        ]

    def close(self) -> None:
        """Ends the buffer; commands that wait are cancelled. Idempotent."""
        check(end(self._finalizer) or _abi.OK)
        self._contexts.clear()

    def __len__(self) -> int:
        """How many commands wait or are being executed."""
        return self.stats().depth

    def __bool__(self) -> bool:
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None and self._finalizer.alive:
                self.complete()
        finally:
            self.close()


def _destroy(handle: int) -> int:
    """Ends a buffer; mmsb.shutdown may have ended one that is dropped."""
    return _abi.OK if lib.forked else int(lib.mmsb_commands_destroy(handle))
