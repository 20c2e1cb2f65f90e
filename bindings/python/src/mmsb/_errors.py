"""The exceptions: one class for each code of the library."""

from __future__ import annotations

import builtins


class MMSBError(Exception):
    """What every error of the library is; its own class stands for codes that this package does not know."""

    #: The library's status code.
    code: int = 0
    #: Place of the first bad item in a batch.
    index: int | None = None
    #: The code of the layer below (errno, CUresult, ...), and whose it is: "errno", "cuda", "nccl", "nixl".
    foreign_code: int | None = None
    domain: str | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidArgumentError(MMSBError, ValueError):
    """An argument that is never right."""

    code = 10


class InvalidHandleError(MMSBError, ValueError):
    """Zero, of another kind, or never given out by this process."""

    code = 11


class StaleHandleError(MMSBError, ValueError):
    """Was valid once: destroyed, or its context has ended."""

    code = 12


class ClosedError(StaleHandleError):
    """The context, or the context of the page, has been closed; the ticket has been closed."""


class InvalidSizeError(MMSBError, ValueError):
    """A size of 0 or beyond what can be addressed."""

    code = 13


class OutOfRangeError(MMSBError, IndexError):
    """Offset and length reach past the end."""

    code = 14


class InvalidStateError(MMSBError, RuntimeError):
    """The object is not in a state that allows the call."""

    code = 15


class StructVersionError(MMSBError, RuntimeError):
    """The package and the library do not fit together."""

    code = 16


class MismatchError(MMSBError, ValueError):
    """Two arguments do not fit each other."""

    code = 17


class EpochError(MMSBError, ValueError):
    """The delta's epoch is not larger than the page's."""

    code = 18


class NotFoundError(MMSBError, KeyError):
    """No such page, key or edge."""

    code = 20


class AlreadyExistsError(MMSBError, ValueError):
    """The id or edge is there already."""

    code = 21


class BusyError(MMSBError, BufferError):
    """Pinned, or held by an asynchronous operation."""

    code = 22


class WouldBlockError(MMSBError, BlockingIOError):
    """Not finished, and the call was told not to wait."""

    code = 23


class TimeoutError(MMSBError, builtins.TimeoutError):
    """The time is over; the work goes on."""

    code = 24


class CancelledError(MMSBError, RuntimeError):
    """The work was cancelled and has changed nothing."""

    code = 25


class OutOfMemoryError(MMSBError, MemoryError):
    """The system has no more memory or address space."""

    code = 30


class LimitError(MMSBError, MemoryError):
    """A limit that the program set, or the end of a counter."""

    code = 31


class NoSpaceError(MMSBError, OSError):
    """The disk is full."""

    code = 32


class UnsupportedError(MMSBError, NotImplementedError):
    """Not possible here; the text says what is missing."""

    code = 40


class NoDeviceError(MMSBError, RuntimeError):
    """No such device, and no simulation was asked for."""

    code = 41


class DeviceError(MMSBError, RuntimeError):
    """The driver failed; its code and name are in the text."""

    code = 42


class DeviceLostError(MMSBError, RuntimeError):
    """The device does not answer any more."""

    code = 43


class ForkedError(MMSBError, RuntimeError):
    """Called in the child of a process that used the library."""

    code = 44


class IoError(MMSBError, OSError):
    """A system call on a file failed."""

    code = 50


class CorruptError(MMSBError, ValueError):
    """A checksum or a structure is wrong."""

    code = 51


class FormatError(MMSBError, ValueError):
    """Not ours, or newer than this library."""

    code = 52


class PeerError(MMSBError, RuntimeError):
    """A rank or an agent failed."""

    code = 60


class InternalError(MMSBError, RuntimeError):
    """The library is at fault."""

    code = 90


class PoisonedError(MMSBError, RuntimeError):
    """An earlier internal error; the library gives memory back and does nothing else."""

    code = 91


class SimulatedDeviceWarning(UserWarning):
    """Page bytes lie on a simulated device."""


_CLASSES = {cls.code: cls for cls in MMSBError.__subclasses__()}


def error_for(code: int, message: str) -> MMSBError:
    """The exception that stands for a code."""
    cls = _CLASSES.get(code)
    if cls is not None:
        return cls(message)
    error = MMSBError(message)
    error.code = code
    return error
