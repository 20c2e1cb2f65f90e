"""Saving trees, loading them, and tracking one that changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, TypeVar, Union

import numpy as np

from .._errors import InvalidArgumentError, InvalidStateError, MismatchError, NotFoundError, TimeoutError, UnsupportedError
from .._object import Closable
from ..context import Context
from ..page import Page
from ..snapshot import AnyPath, Snapshot, SnapshotPage
from ..ticket import Ticket
from . import tree as trees
from .arrays import Array, Held, address_of, array_over, check_size, hold, on_host, raw
from .outline import outline_of
from .pages import TREE_ID, StoredArray, StoredTree, TreePages, key_of
from .tree import Parts, Pointer, take_apart

T = TypeVar("T")

#: One name, or several.
Names = Union[str, Iterable[str]]

_COMPARED = 1 << 20
_READERS = 4  # some wait for the disk
_TRIES = 100  # of a load whose file is replaced meanwhile
_GRANULE = 4096

# -------------------------------------------------------------------------------------------------------------- saving


def save(
    path: AnyPath,
    tree: Any,
    *,
    base: AnyPath | None = None,
    compression: str | None = None,
    durable: bool = True,
    timeout: float | None = None,
) -> None:
    """Saves a tree to a snapshot, which appears when it is complete and on disk; load() gives it back.

    - tree: dicts, lists, tuples and dataclasses, of arrays of NumPy, PyTorch, JAX and others, and of scalars: int, float,
      complex, bool, str, bytes, None. An object with state_dict(), as modules and optimizers have it, stands for what that gives
    - base: an earlier checkpoint in the same directory. It is read and compared, and only what differs is written; anew where
      another process replaces it meanwhile. track() knows without reading
    - compression, durable, timeout: as for Context.save()

    Arrays whose items lie one behind the other, in host memory or on a GPU, are written from there; two names of the same memory
    are saved once. Others are copied first; two names of the same object are saved once. UnsupportedError names all values that
    cannot be saved: nothing is pickled.
    """
    save_parts(path, take_apart(tree), base, compression, durable, timeout)


def save_parts(
    path: AnyPath, parts: Parts, base: AnyPath | None, compression: str | None, durable: bool, timeout: float | None
) -> None:
    """save() of a tree that was taken apart."""
    if base is None:
        with Context() as context:
            _write(TreePages(context), path, parts, None, compression, durable, timeout)
        return
    named = base

    def write_changes(left: float | None) -> None:
        stored = StoredTree(named)
        expected = stored.snapshot_id
        with _same_file(stored), Context.load(named, lazy=True, to_host=True, snapshot_id=expected) as context:
            pages = TreePages(context)
            _onto(pages, stored, parts)
            _write(pages, path, parts, named, compression, durable, left)

    _unless_replaced(named, write_changes, timeout)


def _write(
    pages: TreePages,
    path: AnyPath,
    parts: Parts,
    base: AnyPath | None,
    compression: str | None,
    durable: bool,
    timeout: float | None,
) -> None:
    pages.bind(parts)
    pages.context.save(path, base, compression, durable=durable, watched=False, timeout=timeout)


def _onto(pages: TreePages, stored: StoredTree, parts: Parts) -> None:
    """Lets the pages of a loaded file have what the arrays of the same names have."""
    kept: dict[int, tuple[str, Held]] = {}
    seen = set()
    for name, held in parts.arrays.items():
        pointer, key = stored.leaves.get(name), key_of(name, held)
        if not isinstance(pointer, Pointer) or pointer.page in kept or key in seen:
            continue
        if stored.layout(pointer) == held.layout:
            kept[pointer.page] = (name, held)
            seen.add(key)

    def compare(id: int) -> None:
        name, held = kept[id]
        _write_changes(pages.context.page(id), stored.page(stored.leaves[name]), on_host(held.memory))

    with ThreadPoolExecutor(_READERS) as readers:
        for _ in readers.map(compare, kept):
            pass
    pages.took(kept, stored)


def _write_changes(page: Page, stored: SnapshotPage, memory: Array) -> None:
    then, differs = np.empty(_COMPARED, np.uint8), np.empty(_COMPARED, np.bool_)
    for at in range(0, len(memory), _COMPARED):
        now = memory[at : at + _COMPARED]
        stored.read_into(at, then[: len(now)])
        granules = np.unique(np.flatnonzero(np.not_equal(now, then[: len(now)], out=differs[: len(now)])) // _GRANULE)
        for run in np.split(granules, np.flatnonzero(np.diff(granules) > 1) + 1) if len(granules) else ():
            first, end = int(run[0]) * _GRANULE, (int(run[-1]) + 1) * _GRANULE
            page.write(at + first, now[first:end])


# ------------------------------------------------------------------------------------------------------------- loading


def load(
    path: AnyPath,
    names: Names | None = None,
    *,
    lazy: bool = False,
    like: Any = None,
    convert: Callable[[Any], Any] | None = None,
    timeout: float | None = None,
) -> Any:
    """The tree that save() has written, with arrays of NumPy in new memory; dataclasses and named tuples come back as dicts.

    - names: one name gives what the tree has under it, an array, a scalar or a part of the tree ("model/layers/0"); several
      give a dict from each to that. Only the pages of these are read. NotFoundError has all names that are missing
    - lazy: arrays are StoredArray, which read their bytes when they are needed
    - like: a tree with the same names gives the types: its dataclasses and tuples, tensors as PyTorch's and JAX's where it has
      them. MismatchError has all names, types and shapes that differ. Or a type, as a dataclass or dict[str, Layer]; of a
      union, as Layer | None, the first that fits. MismatchError: the file has other containers or fields there
    - convert: called with each array, gives what stands in the tree instead (torch.from_numpy, jax.numpy.asarray)
    - timeout: seconds; then TimeoutError

    FormatError: the file is no checkpoint, or of a newer version; CorruptError: it is damaged. Nothing is unpickled, ever. A file
    that another process replaces meanwhile is read anew; MismatchError: 100 times.
    """
    if lazy and like is not None:
        raise InvalidArgumentError("lazy and like exclude each other")
    return _unless_replaced(path, lambda left: _load(path, names, lazy, like, convert, left), timeout)


def _load(
    path: AnyPath,
    names: Names | None,
    lazy: bool,
    like: Any,
    convert: Callable[[Any], Any] | None,
    timeout: float | None,
) -> Any:
    stored = StoredTree(path)
    part = stored.tree if names is None else _chosen(stored, names)
    found = dict(trees.folded(part))
    pointers = {leaf.page: leaf for leaf in found.values() if isinstance(leaf, Pointer)}
    template = None if like is None or trees.is_type(like) else take_apart(like)
    if template is not None:
        _check(stored, found, template, strict=True)
    arrays: dict[int, Any] = {id: stored.array(pointer) for id, pointer in pointers.items()}
    if not lazy:
        _check_types(arrays.values())
        arrays = _read(stored, pointers, timeout)
    if template is not None:
        found = trees.unfolded(found)
        return trees.like(like, lambda name, leaf: _alike(leaf, found[name], stored, arrays))
    if convert is not None:
        arrays = {id: convert(array) for id, array in arrays.items()}
    part = trees.replaced(part, lambda leaf: arrays[leaf.page] if isinstance(leaf, Pointer) else leaf)
    return part if like is None else trees.as_type(part, like, names if isinstance(names, str) else None)


def load_into(path: AnyPath, tree: T, *, strict: bool = True, timeout: float | None = None) -> T:
    """Fills the arrays of a tree with those of a checkpoint, and puts its scalars where the tree has scalars.

    Returns the tree: where a tuple or a frozen dataclass had to change, a copy of that. An object with state_dict() gets the
    result by load_state_dict().

    - strict: False lets arrays and scalars that the file does not have stay as they are, and ignores others that it has
    - timeout: seconds; then TimeoutError, and nothing has changed

    Nothing changes before all names, types and shapes fit (MismatchError has all that do not; also where arrays have memory in
    common and the file has different bytes for it), all arrays can be written
    (InvalidStateError has those that cannot) and what is loaded is verified (CorruptError). Then the bytes are read again,
    straight into the arrays: if a disk or a device fails, some arrays are filled, some may have a part, and the error begins
    "the state is loaded". Arrays with gaps, or laid out in another way than in the file, take memory for their bytes meanwhile.
    A file that is replaced meanwhile is read anew, as load() does.
    """
    pages, filled = _filled(path, tree, strict, timeout)
    pages.close()
    return filled


def names(path: AnyPath) -> list[str]:
    """The names of all arrays and scalars of a checkpoint, in the tree's order, as load() takes them."""
    return list(trees.unfolded(StoredTree(path).leaves))


def arrays(path: AnyPath) -> dict[str, StoredArray]:
    """The arrays of a checkpoint by name, with their types and shapes; their bytes are not read."""
    stored = StoredTree(path)
    return {name: stored.array(leaf) for name, leaf in stored.leaves.items() if isinstance(leaf, Pointer)}


def _chosen(stored: StoredTree, wanted: Names) -> Any:
    if isinstance(wanted, str):
        return _chosen(stored, (wanted,))[wanted]
    found, missing = {}, []
    for name in wanted:
        try:
            found[name] = stored.find(name)
        except KeyError:
            missing.append(name)
    if missing:
        raise NotFoundError(f"{stored.path} has no {', '.join(map(repr, missing))}")
    return found


def _check(stored: StoredTree, found: Mapping[str, Any], parts: Parts, strict: bool) -> None:
    """Raises MismatchError with all in which a file and a program's tree differ."""
    alike = trees.alike_runs(found, parts.scalars)
    found, here = trees.unfolded(found, alike), {**trees.unfolded(parts.scalars, alike), **parts.arrays}
    texts = []
    if strict:
        missing, extra = [name for name in here if name not in found], [name for name in found if name not in here]
        texts += [f"{len(missing)} missing in the file: {', '.join(missing)}"] if missing else []
        texts += [f"{len(extra)} only in the file: {', '.join(extra)}"] if extra else []
    different = []
    for name, leaf in found.items():
        if name not in here:
            continue
        held = parts.arrays.get(name)
        layout = stored.layout(leaf) if isinstance(leaf, Pointer) else None
        if (held is None) != (layout is None) or (held and layout and held.layout[:2] != layout[:2]):
            different.append(f"{name} is {held.layout if held else 'a scalar'}, in the file {layout or 'a scalar'}")
    texts += [f"{len(different)} different: {', '.join(different)}"] if different else []
    if texts:
        raise MismatchError(f"{stored.path} does not fit the tree: {'; '.join(texts)}")


def _check_types(found: Iterable[StoredArray]) -> None:
    """Raises UnsupportedError with all arrays whose types NumPy does not have."""
    refused = []
    for array in found:
        try:
            _ = array.dtype
        except UnsupportedError as error:
            refused.append(f"{array.name}: {error}")
    if refused:
        raise UnsupportedError("; ".join(refused))


def _read(stored: StoredTree, pointers: Mapping[int, Pointer], timeout: float | None) -> dict[int, Array]:
    """Arrays in new memory: that of pages, each of which ends with its array."""
    ids, expected = {TREE_ID, *pointers}, stored.snapshot_id
    chosen = None if ids == stored.ids() else sorted(ids)  # all of them are read front to back
    with _same_file(stored):
        context = Context.load(stored.path, ids=chosen, to_host=True, snapshot_id=expected, timeout=timeout)
    with context:
        memories = context.memories(context.lookup_many(list(pointers)), write=True)
    found = {}
    for (id, pointer), memory in zip(pointers.items(), memories):
        layout = stored.layout(pointer)
        check_size(len(memory), layout, pointer.name)
        found[id] = array_over(memory, layout)
    return found


class _ReplacedError(MismatchError):
    """A file has become another one since its tree was read."""


@contextmanager
def _same_file(stored: StoredTree) -> Iterator[None]:
    """Turns the MismatchError of a file that is not the one whose tree was read into _ReplacedError."""
    try:
        yield
    except MismatchError:
        with Snapshot(stored.path) as now:
            if now.id == stored.snapshot_id:
                raise
        raise _ReplacedError(f"{stored.path} was replaced while it was read, {_TRIES} times: load it again") from None


def _unless_replaced(path: AnyPath, call: Callable[[float | None], T], timeout: float | None) -> T:
    """What a call gives, whose argument is how many seconds are left; again where the file was replaced meanwhile."""
    begin, left = time.monotonic(), timeout
    for _ in range(_TRIES - 1):
        try:
            return call(left)
        except _ReplacedError:
            left = None if timeout is None else begin + timeout - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"{os.fsdecode(path)} was replaced again and again for {timeout} s") from None
    return call(left)


def _alike(template: Any, leaf: Any, stored: StoredTree, arrays: Mapping[int, Array]) -> Any:
    """What a file has, as what a program has there."""
    if not isinstance(leaf, Pointer):
        return leaf
    array = arrays[leaf.page]
    kind = type(template)
    if hasattr(kind, "detach") and hasattr(kind, "clone"):
        fresh = template.detach().cpu().clone()
        hold(fresh).fill(hold(array).memory, stored.layout(leaf))
        return fresh.to(template.device)
    if kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
        return sys.modules["jax"].device_put(array, template.sharding)
    return array


def _filled(path: AnyPath, tree: T, strict: bool, timeout: float | None) -> tuple[TreePages, T]:
    """load_into(), and the pages that the tree has."""

    def fill(left: float | None) -> tuple[TreePages, T]:
        pages = TreePages()
        try:
            return pages, _fill(pages, path, tree, strict, left)
        except BaseException:
            pages.close()
            raise

    return _unless_replaced(path, fill, timeout)


def _fill(pages: TreePages, path: AnyPath, tree: T, strict: bool, timeout: float | None) -> T:
    """load_into() by an empty context, whose pages the tree has then."""
    stored, parts = StoredTree(path), take_apart(tree)
    _check(stored, stored.leaves, parts, strict)
    wanted = {name: leaf for name, leaf in stored.leaves.items() if isinstance(leaf, Pointer) and name in parts.arrays}
    held = {name: parts.arrays[name] for name in wanted}
    fixed = [name for name, one in held.items() if not one.writable or (one.copied and one.array is None and one.put is None)]
    if fixed:
        raise InvalidStateError(f"{len(fixed)} of the tree's arrays cannot be written: {', '.join(fixed)}; load() makes new ones")
    _check_shared(stored, wanted, held)
    direct = _direct(stored, wanted, held)
    context, ids = pages.context, {TREE_ID, *(leaf.page for leaf in wanted.values())}
    context.adopt_pages([one.memory for _, one in direct.values()], ids=list(direct))
    chosen, expected = None if ids == stored.ids() else sorted(ids), stored.snapshot_id
    with _same_file(stored):
        context.restore(stored.path, chosen, in_place=True, to_host=True, snapshot_id=expected, timeout=timeout)
    for name, leaf in wanted.items():
        if leaf.page in direct and key_of(name, held[name]) == key_of(*direct[leaf.page]):
            continue
        page = context.page(leaf.page)
        if page.location == "gpu":
            held[name].fill(page.read(), stored.layout(leaf))
            continue
        with page.pin() as memory:
            held[name].fill(memory, stored.layout(leaf))
    found = trees.unfolded(stored.leaves, trees.alike_runs(stored.leaves, parts.scalars))
    scalars = {name: leaf for name, leaf in found.items() if not isinstance(leaf, Pointer)}
    tree = trees.fill(tree, scalars, parts.states)
    pages.took(direct, stored)
    return tree


def _check_shared(stored: StoredTree, wanted: Mapping[str, Pointer], held: Mapping[str, Held]) -> None:
    """Raises MismatchError where arrays have memory in common, and the file has different bytes for it."""
    places = {}
    for name, one in held.items():
        layout, array = stored.layout(wanted[name]), one.array
        if array is None and not one.copied and isinstance(one.memory, np.ndarray):
            array = array_over(one.memory, one.layout, raw(layout))
        if array is not None and layout.nbytes:
            places[wanted[name].page, address_of(array), array.strides] = (*_span(array), name, array)
    group: list[tuple[str, Array]] = []
    begin = end = 0
    for first, last, name, array in (*sorted(places.values(), key=itemgetter(0)), (sys.maxsize, sys.maxsize, "", np.empty(0))):
        if first >= end:
            if len(group) > 1 or any(one.nbytes > end - begin for _, one in group):
                _check_group(stored, wanted, group, begin, end)
            group, begin = [], first
        group.append((name, array))
        end = max(end, last)


def _span(array: Array) -> tuple[int, int]:
    """Where the memory of an array begins and ends, whose strides may be negative."""
    steps = [(length - 1) * step for length, step in zip(array.shape, array.strides)]
    address = address_of(array)
    return address + sum(step for step in steps if step < 0), address + sum(step for step in steps if step > 0) + array.itemsize


def _check_group(
    stored: StoredTree, wanted: Mapping[str, Pointer], group: Sequence[tuple[str, Array]], begin: int, end: int
) -> None:
    memory = np.empty(end - begin, np.uint8)
    filled = []
    for name, array in group:
        found = stored.array(wanted[name])._bytes()
        target: Array = np.ndarray(array.shape, found.dtype, memory, address_of(array) - begin, array.strides)
        target[...] = found
        filled.append((name, target, found))
    if any(target.tobytes() != found.tobytes() for _, target, found in filled):
        names = ", ".join(name for name, _, _ in filled)
        raise MismatchError(f"{stored.path} has different bytes where arrays of the tree have memory in common: {names}")


def _direct(stored: StoredTree, wanted: Mapping[str, Pointer], held: Mapping[str, Held]) -> dict[int, tuple[str, Held]]:
    """The arrays that pages are loaded into: those that have the file's layout, and memory that no other of them has."""
    found: dict[int, tuple[str, Held]] = {}
    end = 0
    for name in sorted(held, key=lambda name: address_of(held[name].memory)):
        one, leaf = held[name], wanted[name]
        start = address_of(one.memory)
        if start >= end and not one.copied and one.layout == stored.layout(leaf) and leaf.page not in found:
            found[leaf.page] = (name, one)
            end = start + len(one.memory)
    return found


# ------------------------------------------------------------------------------------------------------------ tracking


class Tracker(Closable):
    """A tree whose arrays are pages, so that a save with a base writes what has changed, without reading anything.

    Each save looks at the tree again: arrays that are new become pages, pages whose arrays are gone end, and all others stay.
    Until the next save, or close(), it keeps the memory of arrays that are gone.
    """

    _name = "tracker"

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._pages = TreePages()
        try:
            self.update()
        except BaseException:
            self.close()
            raise

    @property
    def tree(self) -> Any:
        """The tree."""
        return self._tree

    @property
    def context(self) -> Context:
        """The context of the pages: context.writing() for a save with raw_writes="wait". load() replaces it."""
        return self._pages.context

    def update(self) -> None:
        """Looks at the tree again, as save() does first. UnsupportedError: it has what cannot be saved, and nothing changed."""
        if not self._pages.have(outline_of(self._tree)):
            self._pages.bind(take_apart(self._tree, self._pages.known))

    def save(
        self,
        path: AnyPath,
        base: AnyPath | None = None,
        *,
        compression: str | None = None,
        raw_writes: str = "allow",
        durable: bool = True,
        chain_limit: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Saves the tree as it is now. base: a file that this tracker has saved or loaded; the other options: Context.save()."""
        self.update()
        self.context.save(path, base, compression, raw_writes, durable, chain_limit=chain_limit, queue=True, timeout=timeout)

    def save_start(
        self,
        path: AnyPath,
        base: AnyPath | None = None,
        *,
        compression: str | None = None,
        raw_writes: str = "allow",
        durable: bool = True,
        chain_limit: int = 0,
        after: Iterable[Ticket[Any]] = (),
    ) -> Ticket[None]:
        """Starts save() and returns; progress counts bytes.

        The scalars are those of this call, the arrays are those of a moment that comes later: what must fit to them, as the
        number of the step, is an array, too. With raw_writes="wait" the moment lies between blocks of context.writing(), in which
        the program then writes into its arrays.
        """
        self.update()
        return self.context.save_start(
            path, base, compression, raw_writes, durable, chain_limit=chain_limit, queue=True, after=after
        )

    def load(self, path: AnyPath, *, strict: bool = True, timeout: float | None = None) -> Any:
        """load_into() the tree, which it returns; the file can be the base of the next save."""
        pages, tree = _filled(path, self._tree, strict, timeout)
        self.close()
        self._pages, self._tree = pages, tree
        return tree

    def close(self) -> None:
        """Ends the pages; the arrays stay the program's. Idempotent."""
        self._pages.close()

    def __repr__(self) -> str:
        return f"<mmsb.state.Tracker with {self.context!r}>"


def track(tree: Any) -> Tracker:
    """Makes the arrays of a tree pages, without a copy, until the tracker is closed. tree: as for save()."""
    return Tracker(tree)
