"""How a tree lies in pages: which metadata they have, in a context and in a file. docs/interchange.md has the table."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, NamedTuple, Union

import numpy as np

from .._convert import as_array
from .._errors import CorruptError, FormatError, MMSBError, NotFoundError, UnsupportedError
from .._ffi import lib
from ..context import Context
from ..page import PageArray
from ..snapshot import AnyPath, Snapshot, SnapshotPage
from . import tree as trees
from .arrays import Array, DeviceBytes, Held, Layout, Mark, address_of, array_over, layout_of, raw, type_of
from .outline import Outline
from .tree import Parts, Pointer

#: Version of the schema.
VERSION = 1
#: Id of the page that has the tree's document.
TREE_ID = 1
VERSION_KEY, NAME_KEY, DTYPE_KEY, SHAPE_KEY, STRIDES_KEY = (
    f"mmsb.state/{word}" for word in ("version", "name", "dtype", "shape", "strides")
)
_LONGEST_DOCUMENT = 1 << 30
_DIGITS = re.compile(r"[0-9]{1,19}")


def _blob(count: int, *entries: bytes) -> bytes:
    return b"".join((count.to_bytes(4, "little"), *entries))


def _entry(key: str, value: str) -> bytes:
    name, data = key.encode(), value.encode()
    return b"".join((len(name).to_bytes(4, "little"), name, len(data).to_bytes(4, "little"), data))


@lru_cache(maxsize=1024)  # many arrays of a tree have the same
def _laid_out(layout: Layout) -> bytes:
    shape, strides = (",".join(map(str, numbers)) for numbers in (layout.shape, layout.strides))
    return _entry(DTYPE_KEY, layout.dtype) + _entry(SHAPE_KEY, shape) + _entry(STRIDES_KEY, strides)


def _described(names: Sequence[str], layout: Layout) -> bytes:
    """The metadata of an array's page: its first name, and others that the tree has for it."""
    more = [_entry(f"{NAME_KEY}.{number}", name) for number, name in enumerate(names[1:], 2)]
    return _blob(len(names) + 3, _entry(NAME_KEY, names[0]), *more, _laid_out(layout))


# ---------------------------------------------------------------------------------------------------------- in a context

#: The same memory in the same form has the same key. A copy, whose memory is new each time, has that of its name.
Key = tuple[Union[int, str], Layout]


class _Bound(NamedTuple):
    id: int
    key: Key
    memory: Any
    names: list[str]


def key_of(name: str, held: Held) -> Key:
    """What tells whether an array has a page already."""
    return (name if held.copied else address_of(held.memory), held.layout)


class TreePages:
    """The pages of a tree in a context of their own: one over each array's memory, and the document."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = Context() if context is None else context
        self._bound: dict[Key, _Bound] = {}
        self._next = TREE_ID + 1
        # Those of the last bind(), and their pages' ids; None: it was interrupted, and the pages may be any.
        self._arrays: dict[str, Held] | None = {}
        self._ids: list[int] = []
        self.known: Mapping[Mark, Held] = {}  # for the next take_apart()
        self._parts: Parts | None = None  # whose outline, slots and document the tree's text is of
        self._text = b""

    def have(self, now: Outline | None) -> bool:
        """Whether the pages are those of a tree with this outline; then the document has its scalars."""
        parts = self._parts
        if now is None or parts is None or parts.outline is None:
            return False
        last = parts.outline
        if now.shape != last.shape or not now.has_arrays(parts.marks):
            return False
        changed = [at for at, (one, before) in enumerate(zip(now.scalars, last.scalars)) if one is not before]
        if changed:
            self._parts = None
            for at in changed:
                first, rows, index = parts.slots[bisect_left(parts.slots, (at + 1,)) - 1]
                rows[index + at - first] = trees.scalar_node(now.scalars[at])
            self._write(trees.written(parts.document))
            last.scalars, self._parts = now.scalars, parts
        return True

    def bind(self, parts: Parts) -> None:
        """Adopts arrays that are new, ends the pages of those that are gone, and keeps all others."""
        self._parts = None
        if not self._has(parts.arrays):
            self._bind(parts)
        for place, page in zip(parts.places.values(), self._ids):
            place["page"] = page
        self._write(trees.written(parts.document))
        self._parts = parts

    def _has(self, arrays: Mapping[str, Held]) -> bool:
        mine = self._arrays
        return mine is not None and list(mine) == list(arrays) and all(map(is_, mine.values(), arrays.values()))

    def _bind(self, parts: Parts) -> None:
        before, self._arrays = self._arrays, None
        if before is None:
            self._bound = {}
            self._keep(set())
        found: dict[Key, tuple[Held, list[str]]] = {}  # a key takes long to hash: each is looked up as seldom as can be
        first: dict[int, str] = {}  # the name of a copy, also where the tree has it again
        for name, held in parts.arrays.items():
            key = key_of(first.setdefault(id(held), name), held)
            known = found.get(key)
            if known is None:
                found[key] = (held, [name])
            else:
                known[1].append(name)
        fresh, kept = {}, []
        for key, one in found.items():
            entry = self._bound.get(key)
            if entry is None:
                fresh[key] = one
            else:
                kept.append((entry, *one))
        try:
            bound = self._adopted(fresh)
        except MMSBError:
            self._arrays = before
            raise
        staying = {entry.id for entry, _, _ in kept}
        gone = [entry.id for entry in self._bound.values() if entry.id not in staying]
        self.context.destroy_pages(self.context.lookup_many(gone))
        self._wait(kept)
        for entry, held, names in kept:
            memory: Any = held.memory
            if held.copied and entry.memory is not memory and not np.array_equal(entry.memory, memory):
                entry.memory[...] = memory
            if entry.names != names:
                self.context.page(entry.id).metadata.import_blob(_described(names, held.layout))
                entry = entry._replace(names=names)
            bound[entry.key] = entry
        self._bound = bound
        ids = {name: entry.id for entry in bound.values() for name in entry.names}
        self._ids, self.known = [ids[name] for name in parts.arrays], parts.known
        self._arrays = parts.arrays

    def took(self, kept: Mapping[int, tuple[str, Held]], stored: StoredTree) -> None:
        """The context has loaded a file, and the pages with these ids have what these arrays have; all others end."""
        names = stored.names_by_page()
        bound = [_Bound(id, key_of(name, held), held.memory, names[id]) for id, (name, held) in kept.items()]
        self._bound = {entry.key: entry for entry in bound}
        self._text, self._parts = stored.text, None
        self._arrays, self._ids = dict(kept.values()), list(kept)
        self._next = max(TREE_ID, *self._keep(kept)) + 1

    def _keep(self, kept: Container[int]) -> list[int]:
        """Ends all pages but these and the document. The ids that there were."""
        ids = [page.id for page in self.context.pages()]
        self.context.destroy_pages(self.context.lookup_many([id for id in ids if id != TREE_ID and id not in kept]))
        return ids

    def close(self) -> None:
        """Ends the context, and lets the arrays go. Idempotent."""
        self.context.close()
        self._bound, self._arrays, self.known, self._parts = {}, None, {}, None

    def _adopted(self, fresh: Mapping[Key, tuple[Held, list[str]]]) -> dict[Key, _Bound]:
        done: list[PageArray] = []
        numbers = range(self._next, self._next + len(fresh))
        self._next += len(fresh)
        made = [_Bound(id, key, held.memory, names) for id, (key, (held, names)) in zip(numbers, fresh.items())]
        held_by = [held for held, _ in fresh.values()]
        try:
            for writable in (True, False):
                some = [entry for entry, held in zip(made, held_by) if (held.writable or held.copied) == writable]
                memories, ids = [entry.memory for entry in some], [entry.id for entry in some]
                done.append(self.context.adopt_pages(memories, not writable, ids))
                for handle, entry in zip(done[-1].handles, some):
                    blob = _described(entry.names, entry.key[1])
                    status = lib.mmsb_page_metadata_import(handle, blob, len(blob))
                    if status:
                        self.context._check(status)
        except BaseException:
            for pages in done:
                self.context.destroy_pages(pages)
            raise
        return {entry.key: entry for entry in made}

    def _wait(self, kept: Sequence[tuple[_Bound, Held, list[str]]]) -> None:
        """Waits for what the streams of arrays that have pages on devices have queued: the pages do not know of it."""
        queues: dict[int, set[int]] = {}
        for entry, held, _ in kept:
            memory = held.memory
            if isinstance(memory, DeviceBytes) and memory.stream is not None:
                queues.setdefault(self.context.page(entry.id).device, set()).add(memory.stream)
        for device, streams in queues.items():
            with self.context.runtime(device).stream() as own:
                for stream in streams:
                    own.after(stream)
                own.wait()

    def _write(self, text: bytes) -> None:
        if text == self._text:
            return
        self._text = b""  # an interruption between here and the end leaves a part of it
        page = self.context.get(TREE_ID)
        if page is None:
            page = self.context.create_page(len(text), id=TREE_ID)
            page.metadata.import_blob(_blob(1, _entry(VERSION_KEY, str(VERSION))))
        elif page.size != len(text):
            page.resize(len(text))
        page.write(0, text)
        self._text = text


# ------------------------------------------------------------------------------------------------------------- in a file


class StoredArray:
    """An array of a checkpoint, whose bytes are read when they are needed: numpy.asarray(it) maps them."""

    __slots__ = ("_layout", "_mapped", "_name", "_page")

    def __init__(self, name: str, page: SnapshotPage, layout: Layout) -> None:
        self._name = name
        self._page = page
        self._layout = layout
        self._mapped: Array | None = None

    @property
    def name(self) -> str:
        """Its name in the tree."""
        return self._name

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type. UnsupportedError: NumPy has it only with the package ml_dtypes, which is not installed."""
        return type_of(self._layout.dtype)

    @property
    def type_name(self) -> str:
        """The name of the type, which a reader needs no package for: "bfloat16"."""
        return self._layout.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Items in each dimension."""
        return self._layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one item to the next in each dimension."""
        return self._layout.strides

    @property
    def nbytes(self) -> int:
        """Bytes of all items."""
        return self._layout.nbytes

    @property
    def page_id(self) -> int:
        """Id of its page in the snapshot, for mmsb.Snapshot."""
        return self._page.id

    def read(self) -> Array:
        """The array in new memory, verified."""
        return array_over(bytearray(self._page.read()), self._layout, self.dtype)

    def map(self) -> Array:
        """The array as a read-only view of the mapped file, which the first call verifies; read() where it is compressed or its
        changes lie in several files.

        If another process truncates the file, an access to the view ends the process (SIGBUS).
        """
        if self._mapped is None:
            self._mapped = self._view(self.dtype)
        return self._mapped

    def _held(self) -> Held:
        """What a save of it in another tree writes."""
        layout = self._layout
        memory = np.frombuffer(_mapped(self._page), np.uint8)
        return Held(layout, memory, None, False, False)

    def _bytes(self) -> Array:
        """map() with items of bytes, which NumPy has for each type."""
        return self._view(raw(self._layout))

    def _view(self, dtype: np.dtype[Any]) -> Array:
        array = array_over(_mapped(self._page), self._layout, dtype)
        array.flags.writeable = False
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return as_array(self.map(), dtype, copy)

    def __repr__(self) -> str:
        return f"<mmsb.state.StoredArray {self._name!r} {self._layout}>"


def _mapped(page: SnapshotPage) -> memoryview | bytes:
    try:
        return page.memory()
    except UnsupportedError:
        return page.read()


class StoredTree:
    """The tree of a file: read, with a Pointer for each array."""

    def __init__(self, path: AnyPath) -> None:
        self.path = os.fsdecode(path)
        self._snapshot = Snapshot(path)
        page = self._tree_page()
        self.text = page.read()
        try:
            self.tree = trees.read(self.text)
        except MMSBError as error:
            raise type(error)(f"{self.path}: {error}") from None
        self.leaves: dict[str, Any] = dict(trees.folded(self.tree))
        for name, leaf in self.leaves.items():
            if isinstance(leaf, Pointer):
                leaf.name = name
        self._layouts: dict[int, Layout] = {}

    @property
    def snapshot_id(self) -> str:
        """The id of the file."""
        return self._snapshot.id

    def _tree_page(self) -> SnapshotPage:
        try:
            page = self._snapshot[TREE_ID]
        except NotFoundError:
            said = None
        else:
            said = page.metadata.get(VERSION_KEY)
        if said is None:
            raise FormatError(f"{self.path} has no tree: the metadata of page {TREE_ID} have no {VERSION_KEY}")
        if not _DIGITS.fullmatch(said.decode(errors="replace")):
            raise CorruptError(f"{self.path}: {VERSION_KEY} is {said[:200]!r}, not a decimal number")
        if not 0 < int(said) <= VERSION:
            raise FormatError(f"{self.path} has a tree of version {int(said)}; this release reads version {VERSION}")
        if page.size > _LONGEST_DOCUMENT:
            raise CorruptError(f"{self.path}: the tree's document has {page.size} bytes; the limit is {_LONGEST_DOCUMENT}")
        return page

    def find(self, name: str) -> Any:
        """What the tree has under a name. KeyError: nothing."""
        return trees.find(self.tree, name)

    def page(self, pointer: Pointer) -> SnapshotPage:
        """The page of an array."""
        try:
            return self._snapshot[pointer.page]
        except NotFoundError:
            raise CorruptError(f"{self.path}: {pointer.name} is page {pointer.page}, which is not there") from None

    def layout(self, pointer: Pointer) -> Layout:
        """The layout of an array, checked."""
        found = self._layouts.get(pointer.page)
        if found is None:
            found = self._layouts[pointer.page] = self._layout(pointer)
        return found

    def array(self, pointer: Pointer) -> StoredArray:
        """An array, not read."""
        return StoredArray(pointer.name, self.page(pointer), self.layout(pointer))

    def names_by_page(self) -> dict[int, list[str]]:
        """The names of each array's page, in the tree's order."""
        names: dict[int, list[str]] = {}
        for name, leaf in self.leaves.items():
            if isinstance(leaf, Pointer):
                names.setdefault(leaf.page, []).append(name)
        return names

    def ids(self) -> set[int]:
        """The ids of all pages of the file."""
        return set(self._snapshot)

    def _layout(self, pointer: Pointer) -> Layout:
        page, name = self.page(pointer), pointer.name
        metadata = page.metadata
        shown = f"{self.path}: {name} (page {pointer.page})"
        for key in (NAME_KEY, DTYPE_KEY, SHAPE_KEY, STRIDES_KEY):
            if key not in metadata:
                raise CorruptError(f"{shown} has no {key} in its metadata")
        if name.encode() not in (value for key, value in metadata.items() if key.startswith(NAME_KEY)):
            raise CorruptError(f"{shown} has other names in its metadata, the first is {metadata[NAME_KEY][:200]!r}")
        shape, strides = (self._numbers(metadata[key], f"{key} of {shown}") for key in (SHAPE_KEY, STRIDES_KEY))
        try:
            return layout_of(metadata[DTYPE_KEY].decode(errors="replace"), shape, strides, page.size)
        except MMSBError as error:
            raise type(error)(f"{shown}: {error}") from None

    def _numbers(self, said: bytes, what: str) -> tuple[int, ...]:
        texts = said.decode(errors="replace").split(",") if said else []
        if not all(_DIGITS.fullmatch(text) for text in texts):
            raise CorruptError(f"{self.path}: {what} is {said[:200]!r}, not decimal numbers")
        return tuple(map(int, texts))
