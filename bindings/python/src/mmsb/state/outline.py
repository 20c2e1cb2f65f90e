"""The containers of a program's tree, and whether it is as it was, which takes a sixth of the time of taking it apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import eq
from typing import Any

import numpy as np

from .arrays import readers_of

#: Levels of a tree.
DEPTH = 100
_NEVER_CHANGE = (type(None), bool, int, float, complex, str, bytes)
#: Of the arrays of each type: all addresses, all types of items and so on, each in the order of the arrays.
Marks = dict[type, list[tuple[Any, ...]]]
_MANY = 16  # from here on a look at all at once pays
_COMPARE_BY_VALUE = {str, int, bytes}  # 1, 1.0 and True are the same key, and not the same name


def is_record(thing: Any) -> bool:
    """Whether something is a dataclass, and not its type."""
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def is_named_tuple(thing: Any) -> bool:
    """Whether something is a named tuple."""
    return isinstance(thing, tuple) and hasattr(type(thing), "_fields")


def is_stateful(thing: Any) -> bool:
    """Whether something stands for what its state_dict() gives."""
    return callable(getattr(type(thing), "state_dict", None))


def state_of(thing: Any) -> Any:
    """What stands for something: what its state_dict() gives, or itself."""
    plain = isinstance(thing, (Mapping, list, tuple)) or is_record(thing) or not is_stateful(thing)
    return thing if plain else thing.state_dict()


def children(thing: Any) -> tuple[str, Sequence[Any], Sequence[Any]] | None:
    """The kind of a container, its keys, and what it has under them; None where it is no container."""
    if isinstance(thing, Mapping):
        items = tuple(thing.items())
        return "dict", tuple([key for key, _ in items]), tuple([value for _, value in items])
    if is_named_tuple(thing):
        return "record", type(thing)._fields, thing
    if isinstance(thing, (list, tuple)):
        return "list" if isinstance(thing, list) else "tuple", range(len(thing)), tuple(thing)
    if is_record(thing):
        keys = tuple([field.name for field in dataclasses.fields(thing)])
        return "record", keys, tuple([getattr(thing, key) for key in keys])
    state = state_of(thing)
    return None if state is thing else children(state)


@lru_cache(maxsize=256)
def never_changes(kind: type) -> bool:
    """Whether scalars of a type stay as they are: the same one has the same value."""
    return kind in _NEVER_CHANGE or (issubclass(kind, np.generic) and not issubclass(kind, np.void))


def only_scalars(values: Sequence[Any]) -> bool:
    """Whether values are scalars that stay as they are. It takes a hundredth of the time of looking at each."""
    return all(map(never_changes, set(map(type, values))))


class Outline:
    """A tree at one moment: its containers with their keys, its scalars, and its arrays by type, in the tree's order.

    Trees with the same shape, and arrays with the same marks, differ at most in their scalars.
    """

    __slots__ = ("arrays", "scalars", "shape")

    def __init__(self) -> None:
        self.shape: list[Any] = []
        self.scalars: list[Any] = []
        self.arrays: dict[type, list[Any]] = {}

    def add(self, kind: str, keys: Sequence[Any], values: Sequence[Any]) -> bool:
        """Adds a container, without what its values have. False: its keys can be equal and not the same."""
        self.shape += (kind, keys, tuple(map(type, values)))
        return isinstance(keys, range) or _COMPARE_BY_VALUE.issuperset(map(type, keys))

    def has_arrays(self, marks: Marks) -> bool:
        """Whether its arrays have these marks, in this order."""
        try:  # each is compared when it is read: the garbage collector would look at thousands of tuples
            return self.arrays.keys() == marks.keys() and all(
                len(some) == len(part) and all(map(eq, map(read, some), part))
                for kind, some in self.arrays.items()
                for read, part in zip(readers_of(kind) or (), marks[kind])
            )
        except Exception:  # a tensor without memory of its own
            return False


def outline_of(tree: Any) -> Outline | None:
    """A tree's outline. None: it has what only take_apart() can tell."""
    found = Outline()
    try:
        return found if _look((tree,), found, {}, []) else None
    except Exception:  # of a program's containers: take_apart() raises it
        return None


def _look(values: Sequence[Any], found: Outline, take: dict[type, Callable[[Any], None]], above: list[int]) -> bool:
    """Adds what a container has. take: by the types of arrays and scalars that were met; above: the containers around it."""
    if len(values) >= _MANY and only_scalars(values):
        found.scalars += values
        return True
    for value in values:
        kind: Any = type(value)
        if kind not in take:
            if readers_of(kind) is not None:
                take[kind] = found.arrays.setdefault(kind, []).append
            elif never_changes(kind):
                take[kind] = found.scalars.append
        if kind in take:
            take[kind](value)
            continue
        inside = None if id(value) in above or len(above) == DEPTH else children(value)
        if inside is None or not found.add(*inside):
            return False
        above.append(id(value))
        if not _look(inside[2], found, take, above):
            return False
        above.pop()
    return True
