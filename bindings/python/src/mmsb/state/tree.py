"""Trees of dicts, lists, dataclasses, arrays and scalars: taken apart into a document and arrays by name, and put together."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
import struct
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import is_
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from .._errors import CorruptError, MismatchError, MMSBError, UnsupportedError
from .arrays import Held, Mark, hold, is_array, mark_of, type_name, type_of
from .outline import (
    DEPTH,
    Marks,
    Outline,
    children,
    is_named_tuple,
    is_record,
    is_stateful,
    never_changes,
    only_scalars,
    state_of,
)

_EXACT = 2**53
_ESCAPED = re.compile("[~/\ud800-\udfff]")
_LONG_NUMBER = re.compile(rb"[0-9]{20}")
_LOOKS_LIKE_INT = re.compile(r"-?[0-9]+")


class Pointer:
    """Stands for an array in a tree out of a file: its page and its name."""

    __slots__ = ("name", "page")

    def __init__(self, page: int) -> None:
        self.page = page
        self.name = ""


class Run(tuple[Any, ...]):
    """Stands for a list or tuple that has only scalars, where there may be hundreds of thousands: none of them has a name."""

    __slots__ = ()


class Parts(NamedTuple):
    """A tree that was taken apart.

    - document: for JSON; a dict of its own for each array, whose "page" is to be set
    - arrays, scalars: by name, in order; a list or tuple below the top that has only scalars is a Run
    - known: arrays that need not be held anew when the tree is taken apart again, while somebody keeps their memory
    - outline, marks: of the tree and its arrays; outline is None where a tree with the same can differ in more than its scalars
    - slots: where the scalars stand in the document: a scalar's number, and a list and an index, behind which others may follow
    - states: what state_dict() gave, by the name of what has it
    """

    document: Any
    arrays: dict[str, Held]
    places: dict[str, dict[str, int]]
    scalars: dict[str, Any]
    known: dict[Mark, Held]
    outline: Outline | None
    marks: Marks
    slots: list[tuple[int, list[Any], int]]
    states: dict[str, Any]


# -------------------------------------------------------------------------------------------------------------- names


def segment(key: Any) -> str:
    """The part of a name that stands for a key: no two keys have the same."""
    if isinstance(key, str):
        return _text_segment(str.__str__(key))
    if key is None or isinstance(key, bool):
        return "~" + json.dumps(key)
    if isinstance(key, int):
        return str(int(key)) if abs(key) < 10**300 else "~i" + hex(key)
    if isinstance(key, float):
        return "~f" + repr(float(key))
    if isinstance(key, bytes):
        return "~b" + key.hex()
    raise UnsupportedError(f"a key is a {type(key).__name__}; str, int, float, bool, bytes and None can be saved")


@lru_cache(maxsize=1 << 14)
def _text_segment(key: str) -> str:
    text = _ESCAPED.sub(_escape, key)
    return "~s" + text if _LOOKS_LIKE_INT.fullmatch(text) else text


def _escape(found: re.Match[str]) -> str:
    return {"~": "~0", "/": "~1"}.get(found[0]) or f"~u{ord(found[0]):04x}"


def join(name: str | None, part: str) -> str:
    """The name of what a container has at a part; None: the container is the whole tree."""
    return part if name is None else f"{name}/{part}"


# -------------------------------------------------------------------------------------------------------- taking apart


class _Walk:
    def __init__(self, known: Mapping[Mark, Held]) -> None:
        self.outline = Outline()
        self.parts = Parts(None, {}, {}, {}, {}, self.outline, {}, [], {})
        self.marks: dict[type, list[Mark]] = {}
        self.plain = True
        self._known = known
        self.refused: list[str] = []
        self._above: list[int] = []
        self._copied: dict[int, tuple[Any, Held]] = {}  # arrays by their ids, and what keeps these theirs

    def node(self, thing: Any, name: str | None, rows: list[Any], index: int) -> None:
        """Sets an item of a list of the document."""
        rows[index] = self._node(thing, name, (rows, index))

    def _node(self, thing: Any, name: str | None, slot: tuple[list[Any], int]) -> Any:
        shown = "the tree" if name is None else name
        kind: Any = type(thing)
        try:
            mark = mark_of(thing)
            if mark is not None and (held := self._known.get(mark)) is not None:
                return self._array(held, name, kind, mark)
            if is_scalar(thing):
                self.parts.scalars[name or ""] = thing
                self.parts.slots.append((len(self.outline.scalars), *slot))
                self.outline.scalars.append(thing)
                self.plain &= never_changes(kind)
                return scalar_node(thing)
            if is_array(thing):
                _, held = self._copied.get(id(thing)) or (thing, hold(thing))
                if held.copied:
                    self._copied[id(thing)] = thing, held
                return self._array(held, name, kind, mark)
            state = state_of(thing)
            if state is not thing:
                self.parts.states[name or ""] = state
            inside = children(state)
        except MMSBError as error:
            self.refused.append(f"{shown}: {error}")
            return None
        if inside is None:
            self.refused.append(f"{shown}: a {type(thing).__name__} is no array, scalar, dict, list or dataclass")
            return None
        if id(thing) in self._above:
            self.refused.append(f"{shown}: it contains itself")
            return None
        if len(self._above) == DEPTH:
            self.refused.append(f"{shown}: it lies deeper than {DEPTH} levels")
            return None
        self._above.append(id(thing))
        node = self._container(*inside, name)
        self._above.pop()
        return node

    def _array(self, held: Held, name: str | None, kind: type, mark: Mark | None) -> dict[str, int]:
        place = {"page": 0}
        if mark is not None and type(held.memory) is np.ndarray and not held.copied:
            self.parts.known[mark] = held
            self.marks.setdefault(kind, []).append(mark)
        else:
            self.plain = False
        self.parts.arrays[name or ""] = held
        self.parts.places[name or ""] = place
        return place

    def _scalars(self, values: Sequence[Any], name: str | None) -> list[Any]:
        rows = scalar_nodes(values)
        self.parts.scalars.update(_named_run(values, name))
        self.parts.slots.append((len(self.outline.scalars), rows, 0))
        self.outline.scalars += values
        return rows

    def _container(self, kind: str, keys: Sequence[Any], values: Sequence[Any], name: str | None) -> Any:
        rows: list[Any] = []
        parts = set()
        self.plain &= self.outline.add(kind, keys, values)
        if kind in ("list", "tuple") and values and only_scalars(values):
            with suppress(UnsupportedError):  # below it gets a name
                return {kind: self._scalars(values, name)}
        for key, value in zip(keys, values):
            try:
                part = segment(key)
            except UnsupportedError as error:
                self.refused.append(f"{'the tree' if name is None else name}: {error}")
                continue
            if kind in ("list", "tuple"):
                rows.append(None)
                self.node(value, join(name, part), rows, len(rows) - 1)
            else:
                if part in parts:  # as two NaN have
                    self.refused.append(f"{'the tree' if name is None else name}: two of its keys have the name {part!r}")
                parts.add(part)
                rows.append([scalar_node(key), None])
                self.node(value, join(name, part), rows[-1], 1)
        return {kind: rows}


def take_apart(tree: Any, known: Mapping[Mark, Held] = MappingProxyType({})) -> Parts:
    """Takes a tree apart. known: of an earlier time. UnsupportedError names all that cannot be saved."""
    walk = _Walk(known)
    document = [None]
    walk.node(tree, None, document, 0)
    if walk.refused:
        raise UnsupportedError(f"{len(walk.refused)} of the tree's values cannot be saved: {'; '.join(walk.refused)}")
    outline = walk.outline if walk.plain and not is_scalar(tree) else None
    marks = {kind: list(zip(*some)) for kind, some in walk.marks.items()}
    return walk.parts._replace(document=document[0], outline=outline, marks=marks)


def is_scalar(value: Any) -> bool:
    """Whether a value in a tree stands in its document."""
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic))


def scalar_node(value: Any) -> Any:
    """A scalar as JSON that gives exactly it back."""
    if value is None or type(value) in (str, bool):
        return value
    if isinstance(value, np.generic):
        return {"scalar": [type_name(value.dtype), value.tobytes()[: value.dtype.itemsize].hex()]}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _EXACT else {"int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
    if isinstance(value, complex):
        return {"complex": [scalar_node(value.real), scalar_node(value.imag)]}
    return {"bytes": value.hex()}


def scalar_nodes(values: Sequence[Any]) -> list[Any]:
    """scalar_node() of each."""
    kinds = set(map(type, values))
    as_they_are = (
        kinds <= {type(None), bool, str}
        or (kinds == {float} and all(map(math.isfinite, values)))
        or (kinds == {int} and max(map(abs, values)) < _EXACT)
    )
    return list(values if as_they_are else map(scalar_node, values))


def written(document: Any) -> bytes:
    """A document as the tree's page has it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


# ------------------------------------------------------------------------------------------------------------- reading


def read(text: bytes) -> Any:
    """The tree of a document, with a Pointer for each array. CorruptError: it is none."""
    try:
        parse_int = _short_int if _LONG_NUMBER.search(text) else None
        said = json.loads(text, object_pairs_hook=_one, parse_int=parse_int, parse_constant=_refuse)
        return _tree(said, 0)
    except CorruptError:
        raise
    except (ValueError, TypeError, RecursionError, OverflowError, struct.error) as error:
        raise CorruptError(f"the tree's document of {len(text)} bytes is damaged: {str(error)[:200]}") from None


def _one(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) != 1:
        raise ValueError(f"an object has {len(pairs)} names, not 1")
    return dict(pairs)


def _short_int(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"a number has {len(text)} digits; the limit is 20")
    return int(text)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _tree(node: Any, depth: int) -> Any:
    if depth > DEPTH:
        raise ValueError(f"it is deeper than {DEPTH} levels")
    if not isinstance(node, dict):
        if isinstance(node, list):
            raise ValueError("a list has no kind")
        return node
    ((kind, value),) = node.items()
    if kind in ("list", "tuple"):
        items = _list(value)
        if depth == DEPTH or not _is_flat(items):
            items = [_tree(item, depth + 1) for item in items]
        return tuple(items) if kind == "tuple" else items
    if kind in ("dict", "record"):
        found: dict[Any, Any] = {}
        for row in _list(value):
            key, item = _list(row)
            found[_scalar_of(key)] = _tree(item, depth + 1)
        if len(found) != len(value):
            raise ValueError(f"a dict has {len(value)} keys, and {len(found)} different ones")
        return found
    return _pointer_or_scalar(kind, value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:50]} is no list")
    return value


def _scalar_of(node: Any) -> Any:
    if isinstance(node, dict):
        ((kind, value),) = node.items()
        found = _pointer_or_scalar(kind, value)
        if isinstance(found, Pointer):
            raise ValueError("a key is an array")
        return found
    if isinstance(node, list):
        raise ValueError("a key is a list")
    return node


def _pointer_or_scalar(kind: str, value: Any) -> Any:
    if kind == "page":
        if type(value) is not int or not 0 < value < 2**64:
            raise ValueError(f"a page has the id {value}")
        return Pointer(value)
    if kind == "int":
        return int(value, 16)
    if kind == "float":
        return struct.unpack(">d", bytes.fromhex(value))[0]
    if kind == "complex":
        real, imaginary = (_scalar_of(part) for part in _list(value))
        return complex(real, imaginary)
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "scalar":
        name, digits = _list(value)
        dtype, data = type_of(name), bytes.fromhex(digits)
        if len(data) != dtype.itemsize and (dtype.itemsize or any(data)):  # NumPy gives an empty text a zero character
            raise ValueError(f"a scalar of {name} has {len(data)} bytes, not {dtype.itemsize}")
        if dtype.kind == "S":  # not by an array, which drops zeros at the end
            return np.bytes_(data[: dtype.itemsize])
        if dtype.kind == "U":
            return np.str_(data[: dtype.itemsize].decode("utf-32-be" if dtype.str[0] == ">" else "utf-32-le", "surrogatepass"))
        return np.ndarray((), dtype, data)[()]
    raise ValueError(f"{kind[:50]!r} is no kind of value")


def leaves(tree: Any, name: str | None = None) -> Iterator[tuple[str, Any]]:
    """The arrays and scalars of a tree out of a file, by name."""
    if is_leaf(tree):
        yield name or "", tree
        return
    for key, value in _rows(tree):
        yield from leaves(value, join(name, segment(key)))


_INNER = {dict, list, tuple, Pointer}


def _is_flat(items: Iterable[Any]) -> bool:
    """Whether what a list or tuple out of a file has are scalars."""
    return _INNER.isdisjoint(map(type, items))


def _named_run(values: Sequence[Any], name: str | None) -> Iterable[tuple[str, Any]]:
    """The scalars of a list by name: as a Run, but at the top, where a Run has no name."""
    return zip(map(str, range(len(values))), values) if name is None else [(name, Run(values))]


def folded(tree: Any, name: str | None = None) -> Iterator[tuple[str, Any]]:
    """leaves(), with a Run for each list or tuple that has only scalars."""
    if is_leaf(tree):
        yield name or "", tree
    elif isinstance(tree, (list, tuple)) and tree and _is_flat(tree):
        yield from _named_run(tree, name)
    else:
        for key, value in _rows(tree):
            yield from folded(value, join(name, segment(key)))


def unfolded(found: Mapping[str, Any], kept: Container[str] = ()) -> dict[str, Any]:
    """Leaves by name, without Runs but those that are kept."""
    leaves: dict[str, Any] = {}
    for name, leaf in found.items():
        if isinstance(leaf, Run) and name not in kept:
            leaves.update((f"{name}/{number}", value) for number, value in enumerate(leaf))
        else:
            leaves[name] = leaf
    return leaves


def alike_runs(found: Mapping[str, Any], others: Mapping[str, Any]) -> set[str]:
    """The names that have Runs of the same length in both."""
    runs = ((name, leaf, others.get(name)) for name, leaf in found.items() if isinstance(leaf, Run))
    return {name for name, run, other in runs if isinstance(other, Run) and len(run) == len(other)}


def is_leaf(tree: Any) -> bool:
    """Whether a part of a tree out of a file is an array or a scalar."""
    return not isinstance(tree, (dict, list, tuple))


def _rows(tree: Any) -> list[tuple[Any, Any]]:
    return list(tree.items() if isinstance(tree, dict) else enumerate(tree))


def find(tree: Any, wanted: str) -> Any:
    """What a tree out of a file has under a name, an array, a scalar or a container. KeyError: nothing."""
    level = tree
    if is_leaf(tree) and not wanted:
        return tree
    for part in wanted.split("/"):
        level = _at(level, part)
    return level


def _at(level: Any, part: str) -> Any:
    if isinstance(level, (list, tuple)):
        number = int(part) if _LOOKS_LIKE_INT.fullmatch(part) and len(part) < 20 else -1
        if str(number) != part or not 0 <= number < len(level):
            raise KeyError(part)
        return level[number]
    if is_leaf(level):
        raise KeyError(part)
    return {segment(key): value for key, value in level.items()}[part]


def replaced(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    """A tree out of a file with other leaves."""
    if isinstance(tree, dict):
        return {key: replaced(value, leaf) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(leaf, tree) if _is_flat(tree) else [replaced(value, leaf) for value in tree])
    return leaf(tree)


# ------------------------------------------------------------------------------------------------------------- filling


def fill(thing: Any, values: Mapping[str, Any], states: dict[str, Any], name: str | None = None) -> Any:
    """Puts scalars by name into a program's tree: into what can change, else into a copy, which is returned.

    states: of the tree when it was taken apart. load_state_dict() gets them: their arrays, which may be copies, were filled.
    """
    if is_scalar(thing):
        return values.get(name or "", thing)
    if is_array(thing):
        return thing
    run = None if name is None else values.get(name)
    if isinstance(run, Run):
        if isinstance(thing, list):
            thing[:] = run
            return thing
        return thing if all(map(is_, thing, run)) else type(thing)(run)

    def inside(key: Any, value: Any) -> Any:
        return fill(value, values, states, join(name, segment(key)))

    if isinstance(thing, MutableMapping):
        for key, value in list(thing.items()):
            fresh = inside(key, value)
            if fresh is not value:
                thing[key] = fresh
    elif isinstance(thing, Mapping):
        return {key: inside(key, value) for key, value in thing.items()}
    elif isinstance(thing, list):
        thing[:] = [inside(number, value) for number, value in enumerate(thing)]
    elif isinstance(thing, tuple):
        keys: Any = getattr(type(thing), "_fields", range(len(thing)))
        items = [inside(key, value) for key, value in zip(keys, thing)]
        if any(fresh is not value for fresh, value in zip(items, thing)):
            return type(thing)(*items) if is_named_tuple(thing) else type(thing)(items)
    elif is_record(thing):
        return _fill_record(thing, inside)
    elif is_stateful(thing):
        state = states.pop(name or "", None)  # none where what state_dict() gave has a state_dict()
        thing.load_state_dict(fill(thing.state_dict() if state is None else state, values, states, name))
    return thing


def _fill_record(thing: Any, inside: Callable[[Any, Any], Any]) -> Any:
    changes = {}
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        fresh = inside(field.name, value)
        if fresh is not value:
            changes[field.name] = fresh
    frozen = type(thing).__dataclass_params__.frozen
    target = copy.copy(thing) if frozen and changes else thing
    for key, value in changes.items():
        object.__setattr__(target, key, value) if frozen else setattr(target, key, value)
    return target


def like(thing: Any, leaf: Callable[[str, Any], Any], name: str | None = None) -> Any:
    """A new tree with the containers of a program's tree. leaf: what stands for an array or scalar, from its name and it."""
    found = None if is_scalar(thing) or is_array(thing) else children(thing)
    if found is None:
        return leaf(name or "", thing)
    kind, keys, values = found
    items = [like(value, leaf, join(name, segment(key))) for key, value in zip(keys, values)]
    if is_named_tuple(thing):
        return type(thing)(*items)
    if kind in ("list", "tuple"):
        return items if kind == "list" else tuple(items)
    if is_record(thing):
        target = copy.copy(thing)
        for key, value in zip(keys, items):
            object.__setattr__(target, key, value)
        return target
    return dict(zip(keys, items))


def is_type(thing: Any) -> bool:
    """Whether something is a type, or one with parameters, as list[Layer]."""
    return isinstance(thing, type) or typing.get_origin(thing) is not None


_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_SEQUENCES = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)


def as_type(tree: Any, wanted: Any, name: str | None = None) -> Any:
    """A tree out of a file with dicts made into dataclasses and named tuples, as a type or the type of a field says.

    MismatchError: the tree has another container there, or other fields. Scalars and arrays may be of any type.
    """
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in _UNIONS:
        return _as_one_of(tree, inner, name)
    if not _fits(tree, wanted if origin is None else origin):
        what = f"a {type(tree).__name__}" if isinstance(tree, (dict, list, tuple)) else "an array or scalar"
        raise MismatchError(f"{name or 'the tree'} is {what} in the file, not {getattr(wanted, '__name__', wanted)}")
    if isinstance(tree, dict):
        if _is_record_type(wanted):
            return _as_record(tree, wanted, name)
        if len(inner) != 2:
            return tree
        return {key: as_type(value, inner[1], join(name, segment(key))) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)) and origin in _SEQUENCES and inner:
        each = (*inner, *[None] * len(tree)) if origin is tuple and inner[-1] is not ... else inner[:1] * len(tree)
        items = [as_type(value, kind, join(name, str(at))) for at, (value, kind) in enumerate(zip(tree, each))]
        return items if origin is list or (origin is not tuple and isinstance(tree, list)) else tuple(items)
    return tree


def _is_record_type(wanted: Any) -> bool:
    return isinstance(wanted, type) and (dataclasses.is_dataclass(wanted) or hasattr(wanted, "_fields"))


def _fits(tree: Any, kind: Any) -> bool:
    """Whether a part of a tree out of a file can be what a type says. None can be anything: not all annotations say so."""
    if tree is None or kind is Any or not isinstance(kind, type):
        return True
    record = _is_record_type(kind)
    try:
        if isinstance(tree, dict):
            return record or hasattr(kind, "state_dict") or issubclass(kind, abc.Mapping) or issubclass(dict, kind)
        if isinstance(tree, (list, tuple)):
            return not record and (issubclass(kind, (list, tuple)) or issubclass(type(tree), kind))
        return not record and not issubclass(kind, (dict, list, tuple))
    except TypeError:  # some types refuse the question, as protocols do and a TypedDict
        return True


def _as_one_of(tree: Any, wanted: Sequence[Any], name: str | None) -> Any:
    """A tree as the first type that changes it, else as it is, if one fits."""
    fits, refused = False, None
    for kind in wanted:
        try:
            found = as_type(tree, kind, name)
        except MismatchError as error:
            refused = error if refused is None or _is_record_type(kind) else refused
            continue
        if found is not tree:
            return found
        fits = True
    if refused is not None and not fits:
        raise refused
    return tree


def _hints(wanted: Any) -> dict[str, Any]:
    """The types of a record's fields."""
    try:
        return typing.get_type_hints(wanted)
    except Exception as error:  # annotations are pieces of a program
        names = vars(sys.modules[wanted.__module__])
        for name, kind in vars(wanted).get("__annotations__", {}).items():
            try:
                typing.get_type_hints(types.SimpleNamespace(__annotations__={name: kind}), names)
            except Exception as found:
                raise UnsupportedError(f"{wanted.__name__}.{name} has an annotation that cannot be evaluated: {found}") from None
        raise UnsupportedError(f"{wanted.__name__} has an annotation that cannot be evaluated: {error}") from None


def _check_fields(tree: dict[Any, Any], wanted: Any, name: str | None) -> None:
    """Raises MismatchError with the fields that only a record, or only the file, has."""
    made_by = getattr(wanted, "__dataclass_params__", None)
    if made_by is not None:
        if not made_by.init:
            return
        fields = dataclasses.fields(wanted)
        known = {field.name for field in fields}
        needed = [f.name for f in fields if f.init and f.default is f.default_factory is dataclasses.MISSING]
    else:
        known, needed = set(wanted._fields), [key for key in wanted._fields if key not in wanted._field_defaults]
    extra, missing = [str(key) for key in tree if key not in known], [key for key in needed if key not in tree]
    texts = [f"{len(missing)} missing in the file: {', '.join(missing)}"] if missing else []
    texts += [f"{len(extra)} only in the file: {', '.join(extra)}"] if extra else []
    if texts:
        raise MismatchError(f"{name or 'the tree'}: {wanted.__name__} is not what the file has: {'; '.join(texts)}")


def _as_record(tree: dict[Any, Any], wanted: Any, name: str | None) -> Any:
    hints = _hints(wanted)
    _check_fields(tree, wanted, name)
    values = {key: as_type(value, hints.get(key, Any), join(name, segment(key))) for key, value in tree.items()}
    fields = dataclasses.fields(wanted) if dataclasses.is_dataclass(wanted) else ()
    later = {field.name: values.pop(field.name) for field in fields if not field.init and field.name in values}
    try:
        made = wanted(**values)
    except TypeError as error:
        raise MismatchError(f"{name or 'the tree'}: {wanted.__name__} is not what the file has: {error}") from error
    for key, value in later.items():
        object.__setattr__(made, key, value)
    return made
