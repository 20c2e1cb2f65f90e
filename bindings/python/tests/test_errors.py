from __future__ import annotations

import builtins
import pickle

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
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
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
