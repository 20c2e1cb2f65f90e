"""What objects of the package have in common: with statements, handles, and that nobody can copy them."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ._errors import ClosedError, ForkedError

if TYPE_CHECKING:
    from typing_extensions import Self


class NotCopied:
    """Stands for something in the library, which a copy of the object would not copy."""

    __slots__ = ()

    #: What errors call it.
    _name: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {self._name} cannot be pickled or copied")


class Closable(NotCopied):
    """The end of a with statement closes it."""

    __slots__ = ()

    def close(self) -> object:
        """Ends the object's use."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except ForkedError:
            if kind is None:  # else what ends a child of a fork goes on
                raise


class Handled(Closable):
    """Has a handle of the library until its finalizer has run."""

    __slots__ = ("__weakref__", "_finalizer", "_handle")

    _finalizer: weakref.finalize[Any, Any]
    _handle: int

    @property
    def handle(self) -> int:
        """The library's handle."""
        if not self._finalizer.alive:
            raise ClosedError(f"the {self._name} is closed")
        return self._handle
