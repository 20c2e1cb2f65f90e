from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import pickle
import weakref
from collections.abc import Callable

import mmsb
import pytest
from mmsb._errors import error_for

ALL = [thing for thing in vars(mmsb).values() if isinstance(thing, type) and issubclass(thing, mmsb.MMSBError)]


@pytest.mark.parametrize("cls", ALL)
def test_each_class(cls: type[mmsb.MMSBError]) -> None:
    error = cls("page 5 is busy")
    assert str(error) == "page 5 is busy"
    assert (error.index, error.foreign_code, error.domain) == (None, None, None)
    error.index = 4
    if isinstance(error, OSError):
        error.errno, error.filename, error.foreign_code, error.domain = 2, "here", 2, "errno"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    for name in ("errno", "strerror", "filename", "filename2", "foreign_code", "domain"):
        assert getattr(again, name, None) == getattr(error, name, None)
    assert str(again) == str(error)
    assert (again.code, again.index) == (error.code, 4)
    if cls not in (mmsb.MMSBError, mmsb.ClosedError, mmsb.MissingFileError, mmsb.MissingFolderError):
        assert type(error_for(cls.code, "text")) is cls


def test_a_code_that_this_package_does_not_know() -> None:
    error = error_for(77, "from the future")
    assert type(error) is mmsb.MMSBError
    assert error.code == 77
    assert str(error) == "from the future"
    assert str(mmsb.BusyError()) == "BusyError"


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (mmsb.InvalidArgumentError, ValueError),
        (mmsb.InvalidHandleError, ValueError),
        (mmsb.StaleHandleError, ValueError),
        (mmsb.ClosedError, mmsb.StaleHandleError),
        (mmsb.InvalidSizeError, ValueError),
        (mmsb.OutOfRangeError, IndexError),
        (mmsb.InvalidStateError, RuntimeError),
        (mmsb.StructVersionError, RuntimeError),
        (mmsb.MismatchError, ValueError),
        (mmsb.EpochError, ValueError),
        (mmsb.NotFoundError, LookupError),
        (mmsb.AlreadyExistsError, ValueError),
        (mmsb.BusyError, BufferError),
        (mmsb.WouldBlockError, BlockingIOError),
        (mmsb.TimeoutError, builtins.TimeoutError),
        (mmsb.CancelledError, RuntimeError),
        (mmsb.OutOfMemoryError, MemoryError),
        (mmsb.LimitError, MemoryError),
        (mmsb.NoSpaceError, OSError),
        (mmsb.UnsupportedError, NotImplementedError),
        (mmsb.NoDeviceError, RuntimeError),
        (mmsb.DeviceError, RuntimeError),
        (mmsb.DeviceLostError, RuntimeError),
        (mmsb.ForkedError, RuntimeError),
        (mmsb.IoError, OSError),
        (mmsb.CorruptError, ValueError),
        (mmsb.FormatError, ValueError),
        (mmsb.PeerError, RuntimeError),
        (mmsb.InternalError, RuntimeError),
        (mmsb.PoisonedError, RuntimeError),
    ],
)
def test_what_each_class_resembles(cls: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(cls, builtin)
    assert issubclass(cls, mmsb.MMSBError)


def test_a_failed_call_holds_nothing() -> None:
    """What the caller has given ends with the exception: its traceback is in no cycle, which Python would collect some day."""

    class Held:
        pass

    def is_let_go(call: Callable[[], object]) -> bool:
        def caller(held: Held) -> None:
            call()

        held = Held()
        gone = weakref.ref(held)
        with contextlib.suppress(mmsb.MMSBError):
            caller(held)
            raise AssertionError("it has not failed")
        del held
        return gone() is None

    gc.collect()
    gc.disable()
    try:
        ctx, other = mmsb.Context(), mmsb.Context()
        page, far = ctx.create_page(10, id=5), other.create_page(10)
        guarded = mmsb.Context(guard_every=1)
        ctypes.memset((guarded.create_page(64).address or 0) + 64, 1, 1)
        with ctx.writing():
            work = ctx.save_start("/proc/none", raw_writes="wait")
            calls: list[Callable[[], object]] = [
                lambda: ctx.adopt(bytearray(10), id=5),
                lambda: ctx.adopt_pages([bytearray(10)], ids=[5]),
                lambda: ctx.create_pages(1, 10, ids=[5]),
                lambda: page.write(9, b"too long"),
                lambda: ctx.add_dependency(page, far),
                lambda: ctx.read_many([(page, 10, 1)]),
                lambda: work.wait(0),
                guarded.close,
            ]
            for number, call in enumerate(calls):
                assert is_let_go(call), number
        with contextlib.suppress(mmsb.MMSBError):
            work.wait()
        other.close()
        for call in (lambda: far.write(0, b"x"), lambda: ctx.read_many([(far, 0, 1)]), lambda: other.create_page(1)):
            assert is_let_go(call)
        ctx.close()
    finally:
        gc.enable()
