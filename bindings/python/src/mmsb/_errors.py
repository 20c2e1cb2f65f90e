"""The exceptions: one class for each status code of the library."""

from __future__ import annotations

import builtins


class MMSBError(Exception):
    """Base class of all errors of the library. Raised itself for a status code that this package does not know."""

    #: The library's status code.
    code: int = 0
    #: Index of the first bad item of a batch.
    index: int | None = None
    #: The code of the layer below (errno, CUresult, ...), and the name of that layer: "errno", "cuda", "nccl", "nixl".
    foreign_code: int | None = None
    domain: str | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__

    def __reduce__(self) -> tuple[object, ...]:
        # Of an OSError its class has some of the fields, which Python's own __reduce__ takes for made of the arguments.
        known = ((name, getattr(self, name, None)) for name in ("errno", "strerror", "filename", "filename2"))
        fields = {**self.__dict__, **{name: value for name, value in known if value is not None}}
        return (type(self), self.args, fields or None)


class InvalidArgumentError(MMSBError, ValueError):
    """An argument is invalid: an unknown name, a value outside its range, text that is not UTF-8."""

    code = 10


class InvalidHandleError(MMSBError, ValueError):
    """The handle is zero, of another kind, or was never given out by this process."""

    code = 11


class StaleHandleError(MMSBError, ValueError):
    """The object was destroyed, or its context has ended."""

    code = 12


class ClosedError(StaleHandleError):
    """The context, or the context of the page, has been closed; the ticket has been closed."""


class InvalidSizeError(MMSBError, ValueError):
    """A size is 0, or more than can be addressed."""

    code = 13


class OutOfRangeError(MMSBError, IndexError):
    """An offset, or offset and length together, reach past the end."""

    code = 14


class InvalidStateError(MMSBError, RuntimeError):
    """The object is not in a state that allows the call."""

    code = 15


class StructVersionError(MMSBError, RuntimeError):
    """The package and the library are of different releases."""

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


class MissingFileError(NotFoundError, FileNotFoundError):
    """There is no such file, or no folder above it."""


class AlreadyExistsError(MMSBError, ValueError):
    """The id or edge exists already."""

    code = 21


class BusyError(MMSBError, BufferError):
    """The page is pinned, or an asynchronous operation holds it."""

    code = 22


class WouldBlockError(MMSBError, BlockingIOError):
    """The work is not finished, and the call was told not to wait."""

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
    """A limit that the program set is reached, or a counter has reached its end."""

    code = 31


class NoSpaceError(MMSBError, OSError):
    """The disk is full."""

    code = 32


class NotDurableError(MMSBError, OSError):
    """The call has done what it does, but the journal may not have it on disk: a page that it created is in ctx.pages()."""

    code = 33


class UnsupportedError(MMSBError, NotImplementedError):
    """The operation is not possible here; the text says what is missing."""

    code = 40


class NoDeviceError(MMSBError, RuntimeError):
    """There is no such device, and the context did not ask for a simulated one."""

    code = 41


class DeviceError(MMSBError, RuntimeError):
    """The driver failed; the text has its code and name."""

    code = 42


class DeviceLostError(MMSBError, RuntimeError):
    """The device no longer answers."""

    code = 43


class ForkedError(MMSBError, RuntimeError):
    """The call was made in the child of a process that used the library."""

    code = 44


class IoError(MMSBError, OSError):
    """A system call on a file failed."""

    code = 50


class MissingFolderError(IoError, FileNotFoundError):
    """The folder of disk_path or of a ledger does not exist. Without a folder above a file, it is a MissingFileError."""


class CorruptError(MMSBError, ValueError):
    """A checksum or a structure is wrong."""

    code = 51


class FormatError(MMSBError, ValueError):
    """The file is not one of this library, or of a newer version than the library reads."""

    code = 52


class GuardError(MMSBError, RuntimeError):
    """The guard of host pages found a write where nobody may write; the text says where. The call has done nothing else."""

    code = 53


class PeerError(MMSBError, RuntimeError):
    """A rank or an agent failed."""

    code = 60


class InternalError(MMSBError, RuntimeError):
    """An error inside the library."""

    code = 90


class PoisonedError(MMSBError, RuntimeError):
    """After an internal error the library only frees memory; every other call raises this."""

    code = 91


class SimulatedDeviceWarning(UserWarning):
    """The bytes of a page lie on a simulated device, not on a GPU."""


_CLASSES = {cls.code: cls for cls in MMSBError.__subclasses__()}


def error_for(code: int, message: str) -> MMSBError:
    """The exception for a status code."""
    cls = _CLASSES.get(code)
    if cls is not None:
        return cls(message)
    error = MMSBError(message)
    error.code = code
    return error
