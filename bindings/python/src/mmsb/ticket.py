"""Tickets: asynchronous work of the library."""

from __future__ import annotations

import ctypes
import os
import time
from array import array
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _abi
from ._convert import nanoseconds
from ._errors import MMSBError, StaleHandleError, TimeoutError, WouldBlockError
from ._ffi import check, failure, lib
from ._lease import end, hold, let_go, when_dropped
from ._object import Handled

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

T = TypeVar("T")

# Python handles signals (Ctrl-C) only between calls of the library, so a wait is cut into slices.
SLICE_NS = 20_000_000


class Ticket(Handled, Generic[T]):
    """Asynchronous work of the library, with a result.

    wait(), await, or an event loop (fileno() becomes readable at the end) wait for it. Dropping or closing a ticket does not
    stop its work; cancel() does.
    """

    __slots__ = ("_make", "_result")

    _name = "ticket"

    def __init__(self, handle: int, token: int, make: Callable[[], T]) -> None:
        """make returns the result when the work is done; token: from hold(), for the memory that the work writes into."""
        self._handle = handle
        self._make = make
        self._result: T | None = None
        self._finalizer = when_dropped(self, _close, handle, token)

    @property
    def closed(self) -> bool:
        """Whether close() has been called."""
        return not self._finalizer.alive

    def done(self) -> bool:
        """Whether the work has ended, whether it succeeded or failed."""
        return _done(self.handle)

    def wait(self, timeout: float | None = None) -> T:
        """Waits for the work, at most timeout seconds, and returns its result or raises its error.

        Raises TimeoutError, or WouldBlockError for timeout 0, if the work has not ended; the work goes on.
        """
        limit = nanoseconds(timeout)
        start = time.monotonic_ns()
        while True:
            left = max(limit - (time.monotonic_ns() - start), 1) if limit else 0
            status = lib.mmsb_ticket_wait(self.handle, min(left, SLICE_NS))
            if status == _abi.OK:
                return self._finished()
            error = failure(status)
            if status in (_abi.E_TIMEOUT, _abi.E_WOULD_BLOCK):
                # Either the wait has timed out, or the work itself ended with this status, or it succeeded in this moment.
                code = _status(self.handle)
                if code == _abi.OK:
                    return self._finished()
                if code != _abi.E_WOULD_BLOCK:
                    raise failure(lib.mmsb_ticket_wait(self.handle, 0))
                if left > SLICE_NS:
                    continue
            try:
                raise error
            finally:
                del error  # its traceback has this frame

    def cancel(self) -> None:
        """Asks the work to stop, without waiting for it. It ends with CancelledError and has changed nothing, or was done."""
        check(lib.mmsb_ticket_cancel(self.handle))

    def progress(self) -> tuple[int, int]:
        """(done, total) in the units of the work, pages or bytes; total is 0 while it is not known."""
        done, total = ctypes.c_uint64(), ctypes.c_uint64()
        check(lib.mmsb_ticket_progress(self.handle, done, total))
        return done.value, total.value

    def error(self) -> MMSBError | None:
        """The error of the work; None while it runs and if it succeeded."""
        if not self.done():
            return None
        status = lib.mmsb_ticket_wait(self.handle, 0)
        return failure(status) if status else None

    def fileno(self) -> int:
        """A file descriptor that becomes readable when the work ends. It belongs to the ticket: do not read or close it."""
        descriptor = ctypes.c_int32()
        check(lib.mmsb_ticket_eventfd(self.handle, descriptor))
        return descriptor.value

    def close(self) -> None:
        """Ends the ticket; unfinished work goes on. Idempotent."""
        end(self._finalizer)

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        # A duplicate, because a loop watches each descriptor for one reader only.
        descriptor = os.dup(self.fileno())
        try:
            loop.add_reader(descriptor, _end, ended)
            try:
                yield from ended
            finally:
                loop.remove_reader(descriptor)
        finally:
            os.close(descriptor)
        return self.wait(0)

    def __repr__(self) -> str:
        if self.closed:
            return "<mmsb.Ticket closed>"
        done, total = self.progress()
        return f"<mmsb.Ticket {'done' if self.done() else 'running'} {done}/{total}>"

    def _finished(self) -> T:
        if self._result is None:
            self._result = self._make()
        return self._result


def nothing() -> None:
    """Stands for the result of work without one."""


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def work_options(timeout: float | None, after: Iterable[Ticket[Any]]) -> _abi.WorkOptions | None:
    """The options of work: timeout in seconds, tickets to wait for; None if there are neither."""
    tickets = array("Q", [ticket.handle for ticket in after])
    if timeout is None and not tickets:
        return None
    options = _abi.WorkOptions()
    lib.mmsb_work_options_init(options)
    options.timeout_ns = nanoseconds(timeout)
    if tickets:
        options.after, options.after_count = tickets.buffer_info()
        options.kept = tickets  # the array lives as long as the options
    return options


class Work(Generic[T]):
    """A long call of the library, ready to run here or to be started.

    Its two forms take arguments, options if the call has options of its own, the options of work, and results, in this order.
    """

    def __init__(
        self,
        blocking: Callable[..., int],
        starting: Callable[..., int],
        *arguments: object,
        options: Any = None,
        results: tuple[object, ...] = (),
        make: Callable[[], T],
        undo: Callable[[], object] = lambda: None,
        kept: object = None,
        brief: bool = False,
        check: Callable[[int], None] = check,
    ) -> None:
        """make returns the result of work that is done; undo ends a result that Ctrl-C keeps from the caller.

        kept: what the work reads and writes until it ends; brief: it takes less than a start; check raises the error of a status.
        """
        self._blocking = blocking
        self._starting = starting
        self._arguments = arguments
        self._options = options
        self._results = results
        self._make = make
        self._undo = undo
        self._kept = kept
        self._brief = brief
        self._check = check

    def start(self, after: Iterable[Ticket[Any]] = ()) -> Ticket[T]:
        """Starts the work when the tickets in after are done."""
        return self._begin(ctypes.c_uint64(), after)

    def _begin(self, handle: ctypes.c_uint64, after: Iterable[Ticket[Any]] = ()) -> Ticket[T]:
        """start(); handle is set as soon as the work has begun, for a caller that Ctrl-C keeps from the ticket."""
        sweep()
        own = () if self._options is None else (self._options,)
        # Held before the work begins: the work uses it until it ends, even if the ticket is dropped or Ctrl-C comes here.
        token = hold(self._kept)
        try:
            self._check(self._starting(*self._arguments, *own, work_options(None, after), *self._results, handle))
            return Ticket(handle.value, token, self._make)
        except BaseException:
            if not handle.value:
                let_go(token)
                raise
            try:
                if _stop(handle.value):
                    self._undo()
            finally:
                _close(handle.value, token)
            raise

    def run(self, timeout: float | None = None, tries: bool = True) -> T:
        """Does the work and returns its result. When the time is over, or Ctrl-C comes, the work is cancelled first.

        Python handles Ctrl-C only between calls, so this one waits while a thread of the library works. The blocking form is for
        timeout 0, a try that takes a moment, and for what cannot be started: a thread that has a group open starts no work, and
        of wrong arguments this form says more. tries False: timeout 0 starts the work, too, and ends it at once.
        """
        limit = nanoseconds(timeout)
        if self._brief or (not limit and tries):
            return self._block(limit)
        handle, ticket, done = ctypes.c_uint64(), None, False
        try:
            ticket = self._begin(handle)
            result = ticket.wait(timeout)
            done = True
            ticket.close()
            return result
        except BaseException as error:
            if not handle.value and isinstance(error, MMSBError):
                return self._block(limit)
            try:
                if done or (handle.value and _stop(handle.value)):  # it was done in this moment
                    if ticket and isinstance(error, (TimeoutError, WouldBlockError)):
                        return ticket._finished()
                    self._undo()
                raise
            finally:
                if ticket:
                    ticket.close()

    def _block(self, limit: int) -> T:
        options = _abi.WorkOptions() if self._options is None else self._options
        if self._options is None:
            lib.mmsb_work_options_init(options)
        options.timeout_ns = limit
        self._check(self._blocking(*self._arguments, options, *self._results))
        return self._make()


# Dropped tickets whose work was running at the last check, with the token of the memory that the work writes into.
_detached: dict[int, int] = {}


def _done(handle: int) -> bool:
    done = ctypes.c_int32()
    check(lib.mmsb_ticket_poll(handle, done))
    return bool(done.value)


def _status(handle: int) -> int:
    """Status of the work itself."""
    code = ctypes.c_int32()
    check(lib.mmsb_ticket_status(handle, code, None, 0))
    return code.value


def _stop(handle: int) -> bool:
    """Cancels work and waits for its end. True if the work was done before."""
    lib.mmsb_ticket_cancel(handle)
    try:
        while not _done(handle):
            lib.mmsb_ticket_wait(handle, SLICE_NS)
        return _status(handle) == _abi.OK
    except StaleHandleError:  # the ticket has ended with its work
        return False


def _close(handle: int, token: int) -> None:
    _detached[handle] = token
    sweep()


def let_go_behind(stream: int, token: int) -> None:
    """Ends hold() when a stream has passed what is queued now; at once where it captures, as nobody can know when it has."""
    handle = ctypes.c_uint64()
    status = lib.mmsb_stream_record(stream, handle)
    if status == _abi.OK:
        _close(handle.value, token)
        return
    let_go(token)
    if status != _abi.E_INVALID_STATE:
        check(status)


def sweep() -> None:
    """Ends the dropped tickets whose work has ended."""
    if lib.forked:
        return
    for handle in list(_detached):  # not items(): each tuple of those may run the collector, which drops tickets
        try:
            if not _done(handle):
                continue
            lib.mmsb_ticket_destroy(handle)
        except MMSBError:
            # The library was shut down and has ended the work with the ticket.
            pass
        token = _detached.pop(handle, None)
        if token is not None:
            let_go(token)
