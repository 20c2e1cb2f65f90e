"""State of whole programs: trees that are saved and come back, whole and in part; trees that do not fit; files that lie."""

from __future__ import annotations

import array
import collections
import dataclasses
import json
import math
import os
import random
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import ml_dtypes
import mmsb
import numpy as np
import pytest
from conftest import RunPython
from mmsb import state
from mmsb.state import tree as trees
from mmsb.state.outline import DEPTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tree = Any


@dataclasses.dataclass
class Layer:
    weight: np.ndarray[Any, Any]
    bias: np.ndarray[Any, Any]
    name: str = "layer"


@dataclasses.dataclass(frozen=True)
class Fixed:
    step: int
    layers: list[Layer]


class Pair(NamedTuple):
    first: Any
    second: Any


def plain(tree: Tree) -> Tree:
    """A tree as load() gives it: dataclasses and named tuples are dicts, arrays NumPy's."""
    if dataclasses.is_dataclass(tree):
        return {field.name: plain(getattr(tree, field.name)) for field in dataclasses.fields(tree)}
    if isinstance(tree, Pair):
        return {"first": plain(tree.first), "second": plain(tree.second)}
    if isinstance(tree, collections.abc.Mapping):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)([plain(value) for value in tree])
    return tree


def same(one: Tree, other: Tree) -> None:
    """Asserts that two trees are equal in every bit, types and order of keys too."""
    one, other = plain(one), plain(other)
    assert type(one) is type(other), (one, other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        equal = raw_bytes(one) == raw_bytes(other)  # pytest would explain megabytes
        assert equal
    elif isinstance(one, dict):
        assert [*map(repr, one)] == [*map(repr, other)]
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other):
            same(left, right)
    elif isinstance(one, float):
        assert math.copysign(1, one) == math.copysign(1, other) and (one == other or one != one)
    else:
        assert one == other or one != one


def raw_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """All bytes of the items, also those between fields."""
    return array.view(np.dtype((np.void, array.itemsize))).tobytes() if array.size else b""


def round_trip(path: Path, tree: Tree) -> Tree:
    state.save(path, tree, durable=False)
    back = state.load(path)
    same(tree, back)
    return back


# ------------------------------------------------------------------------------------------------------- round trips

TYPES: list[Any] = [
    "?",
    "i1",
    "u2",
    ">i4",
    "i8",
    "f2",
    "f4",
    ">f8",
    "c8",
    "c16",
    "g",
    "S3",
    "U2",
    "M8[ns]",
    "m8[25s]",
    "M8",
    "V5",
]
RECORD = np.dtype([("a", "i4"), ("b", ">f8", (2, 3)), ("c", [("d", "u1"), ("e", "S4")])], align=True)


def random_array(dice: random.Random, dtype: Any) -> np.ndarray[Any, Any]:
    """An array of any layout: rows, columns, gaps, backwards, broadcast, read-only, a view of another."""
    item = np.dtype(dtype)
    shape = [dice.choice((0, 1, 1, 2, 3, 5, 7)) if dice.random() < 0.3 else dice.randint(1, 6) for _ in range(dice.randint(0, 4))]
    large = [2 * size + 1 for size in shape]
    count = int(np.prod(large, dtype=int))
    bits = np.frombuffer(dice.randbytes(count * item.itemsize), np.uint8)
    if item.kind == "b":  # not every pattern of bits is a value
        bits = bits % 2
    elif item.kind == "U":
        bits = (bits.view("u4") % 0xD800).view(np.uint8)
    base: Any = np.frombuffer(bits.tobytes(), item).reshape(large)
    base = base.copy(order=dice.choice("CF"))
    array = base[(*(slice(size) if dice.random() < 0.5 else slice(0, 2 * size, 2) for size in shape), ...)]
    if dice.random() < 0.6:
        array = array.copy(order=dice.choice("CFK"))
    if array.ndim and dice.random() < 0.2:
        array = array[::-1]
    if array.ndim > 1:
        array = array.transpose(dice.sample(range(array.ndim), array.ndim))
    array.flags.writeable = dice.random() < 0.8
    found: np.ndarray[Any, Any] = array
    return found


def random_tree(dice: random.Random, depth: int, known: list[Any]) -> Tree:
    scalars: list[Callable[[], Any]] = [
        lambda: dice.choice((None, True, False, "", "text", "\ud800~/", b"", b"\0\xff", np.float32(0.1), np.int8(-3))),
        lambda: dice.choice((0, -1, 2**53, -(2**53), 2**63, -(10**60), dice.getrandbits(9000), dice.randint(-99, 99))),
        lambda: dice.choice((0.0, -0.0, 1e-320, 1.5, 0.1, math.inf, -math.inf, math.nan, dice.random())),
        lambda: complex(dice.choice((0.0, -0.0, math.inf, 1.5)), dice.random()),
        lambda: np.datetime64("2026-01-01T00:00", "m"),
    ]
    roll = dice.random()
    if depth == 0 or roll < 0.25:
        return dice.choice(scalars)()
    if roll < 0.6:
        known.append(random_array(dice, RECORD if dice.random() < 0.1 else dice.choice(TYPES)))
        return known[-1]
    if roll < 0.65 and known:
        return dice.choice(known)  # the same array again
    children = [random_tree(dice, depth - 1, known) for _ in range(dice.randint(0, 4))]
    if roll < 0.75:
        return children if dice.random() < 0.5 else tuple(children)
    if roll < 0.8:
        return Pair(children, dice.choice(scalars)())
    keys: list[Any] = ["a", "A", "", "0", "-7", "~", "a/b", "a~1b", ".", "~s0", "ü", "\ud800", 0, -7, 2**70, 1.5, None, b"k", "k"]
    return dict(zip(dice.sample(keys, len(children)), children))


@pytest.mark.parametrize("seed", range(60))
def test_any_tree_comes_back(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    tree = random_tree(dice, 5, [])
    back = round_trip(tmp_path / "a", tree)
    names = state.names(tmp_path / "a")
    assert len(set(names)) == len(names) == len(list(trees.leaves(back)))
    part = dice.sample(names, min(4, len(names)))
    leaves = dict(trees.leaves(back))
    same(state.load(tmp_path / "a", part), {name: leaves[name] for name in part})
    same(trees.replaced(state.load(tmp_path / "a", lazy=True), read_lazily), back)
    same(state.load(tmp_path / "a", like=tree), tree)
    other = random_tree(random.Random(seed + 1000), 5, [])
    state.save(tmp_path / "b", other, base=tmp_path / "a", durable=False)
    same(state.load(tmp_path / "b"), other)
    state.save(tmp_path / "c", tree, base=tmp_path / "b", compression="zstd", durable=False)
    same(state.load(tmp_path / "c"), tree)
    mmsb.verify(tmp_path / "c")


def read_lazily(leaf: Any) -> Any:
    if not isinstance(leaf, state.StoredArray):
        return leaf
    mapped = np.asarray(leaf)
    assert leaf.shape == mapped.shape and leaf.dtype == mapped.dtype and leaf.nbytes == mapped.nbytes
    assert not mapped.flags.writeable and leaf.map() is mapped
    same(leaf.read(), mapped)
    return leaf.read()


def test_layouts_stay(tmp_path: Path) -> None:
    cube = np.arange(60.0).reshape(3, 4, 5)
    tree = {"rows": cube, "columns": np.asfortranarray(cube), "turned": cube.transpose(1, 2, 0), "gaps": cube[:, ::2]}
    back = round_trip(tmp_path / "a", tree)
    for name in ("rows", "columns", "turned"):
        assert back[name].strides == tree[name].strides
        back[name][...] = 0
    assert back["gaps"].flags.c_contiguous and state.arrays(tmp_path / "a")["turned"].strides == (40, 8, 160)


def test_one_memory_is_saved_once_and_shared_again(tmp_path: Path) -> None:
    weights = np.arange(1 << 16, dtype="f4").reshape(256, 256)
    tree = {"encoder": weights, "decoder": weights, "turned": weights.T, "part": weights[10:20], "list": [weights[5:15]]}
    back = round_trip(tmp_path / "a", tree)
    assert back["encoder"] is back["decoder"]
    with mmsb.Snapshot(tmp_path / "a") as snapshot:
        names = {page.metadata["mmsb.state/name"]: page.metadata for page in snapshot.pages() if page.id != 1}
    assert names[b"encoder"]["mmsb.state/name.2"] == b"decoder" and len(names) == 4
    other: dict[str, Any] = {"encoder": np.zeros((256, 256), "f4"), "decoder": np.zeros((256, 256), "f4")}
    state.load_into(tmp_path / "a", other, strict=False)
    same(other, {"encoder": weights, "decoder": weights})
    tied = np.zeros((256, 256), "f4")
    overlapping = {"encoder": tied, "decoder": tied, "turned": tied.T, "part": tied[10:20], "list": [tied[5:15]]}
    state.load_into(tmp_path / "a", overlapping)
    same(overlapping, tree)
    pair = [tied, 3]
    round_trip(tmp_path / "b", {"one": pair, "inside": {"two": pair}})
    # Where the file has different bytes for a part and for the whole, one of both would be wrong.
    state.save(tmp_path / "c", {"part": np.ones(100), "whole": np.zeros(1 << 20)})
    whole = np.full(1 << 20, 2.0)
    with pytest.raises(mmsb.MismatchError, match="different bytes where arrays of the tree have memory in common: whole, part"):
        state.load_into(tmp_path / "c", {"part": whole[-100:], "whole": whole})
    assert (whole == 2.0).all()
    state.save(tmp_path / "c", {"part": np.ones(100), "whole": np.repeat([0.0, 1.0], [(1 << 20) - 100, 100])})
    state.load_into(tmp_path / "c", {"part": whole[-100:], "whole": whole})
    assert not whole[:-100].any() and whole[-100:].all()
    # Neighbours have no memory in common, whatever order and steps they have; items of one array may have.
    state.save(tmp_path / "d", {"even": np.arange(5), "odd": np.arange(5) + 10})
    both = np.zeros(10, np.int64)
    state.load_into(tmp_path / "d", {"even": both[::2], "odd": both[::-2]})
    assert both.tolist() == [0, 14, 1, 13, 2, 12, 3, 11, 4, 10]
    spread = np.lib.stride_tricks.as_strided(np.zeros(1, np.int64), (5,), (0,))
    with pytest.raises(mmsb.MismatchError, match="in common: even"):
        state.load_into(tmp_path / "d", {"even": spread, "odd": np.zeros(5, np.int64)})


def test_an_object_under_two_names_is_saved_once(tmp_path: Path) -> None:
    """Also one that is copied."""
    gaps, empty = np.arange(1000)[::2], np.zeros((0, 3))
    tree: dict[str, Any] = {"gaps": gaps, "again": [gaps], "empty": empty, "none": empty, "equal": np.arange(1000)[::2]}
    back = round_trip(tmp_path / "a", tree)
    assert back["gaps"] is back["again"][0] and back["empty"] is back["none"] and back["gaps"] is not back["equal"]
    assert len({one.page_id for one in state.arrays(tmp_path / "a").values()}) == 3
    gaps[5] = -1
    state.save(tmp_path / "b", tree, base=tmp_path / "a")
    same(state.load(tmp_path / "b"), tree)
    with state.track(tree) as tracker:
        tracker.save(tmp_path / "c")
        gaps[7] = -1
        tree["again"].append(gaps)
        tracker.save(tmp_path / "d", tmp_path / "c")
    same(state.load(tmp_path / "d"), tree)
    assert len({one.page_id for one in state.arrays(tmp_path / "d").values()}) == 3


def test_types_that_numpy_does_not_have(tmp_path: Path, run_python: RunPython) -> None:
    kinds = ["bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "int4"]
    tree = {kind: np.array([1, 2, 1]).astype(getattr(ml_dtypes, kind)) for kind in kinds}
    round_trip(tmp_path / "a", {**tree, "scalar": ml_dtypes.bfloat16(1.5)})
    round_trip(tmp_path / "b", tree)
    program = f"""
import sys; sys.modules["ml_dtypes"] = None
import mmsb
from mmsb import state
path = {str(tmp_path / "b")!r}
arrays = state.arrays(path)
assert arrays["bfloat16"].type_name == "bfloat16" and arrays["int4"].nbytes == 3
try:
    state.load(path)
except mmsb.UnsupportedError as error:
    assert all(f"{{kind}}: NumPy has {{kind}} only with the package ml_dtypes" in str(error) for kind in {kinds})
else:
    raise SystemExit("it was loaded")
"""
    ended = run_python(program)
    assert ended.returncode == 0, ended.stderr


def test_fields_that_are_renamed(tmp_path: Path) -> None:
    """NumPy renames them in the type, which the array still has, and so has an array inside it."""
    array = np.zeros(3, [("a", "f4"), ("b", [("c", "i2")])])
    tree = {"array": array, "twice": array}
    with state.track(tree) as tracker:
        tracker.save(tmp_path / "a")
        array.dtype.names = ("x", "y")
        tracker.save(tmp_path / "b", tmp_path / "a")
        first = state.load(tmp_path / "b")["array"]
        array.dtype["y"].names = ("z",)
        tracker.save(tmp_path / "c", tmp_path / "b")
    assert first.dtype.names == ("x", "y")
    same(state.load(tmp_path / "c"), tree)
    state.save(tmp_path / "d", tree)
    back = state.load(tmp_path / "d")["array"]
    same(back, array)
    back.dtype.names = ("mine", "only")
    same(state.load(tmp_path / "d")["array"], array)


def test_what_cannot_be_saved_is_named_at_once(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append({"again": loop})
    deep: list[Any] = []
    for _ in range(DEPTH + 1):
        deep = [deep]
    tree = {
        "objects": np.array([{}], dtype=object),
        "inside": np.zeros(1, [("a", "O")]),
        "mask": np.ma.masked_equal([1], 1),  # type: ignore[no-untyped-call]
        "title": np.zeros(1, [(("a title", "a"), "f4")]),
        "set": {1},
        "kept": 7,
        "call": [len],
        "loop": loop,
        "deep": deep,
        (1, 2): 0,
    }
    with pytest.raises(mmsb.UnsupportedError, match="9 of the tree's values") as caught:
        state.save(tmp_path / "a", tree)
    for text in (
        "objects: object has no bytes",
        "inside: ",
        "mask: the array has a mask",
        "title: field 'a' has the title 'a title'",
        "set: a set is no",
        "call/0: a builtin",
    ):
        assert text in str(caught.value)
    assert "loop/0/again: it contains itself" in str(caught.value) and f"deeper than {DEPTH} levels" in str(caught.value)
    assert "a key is a tuple" in str(caught.value) and "kept" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    round_trip(tmp_path / "a", deep[0][0])


def test_parts_by_name(tmp_path: Path) -> None:
    ones, twos = np.ones(1_000_000), np.full(1_000_000, 2.0)  # in segments of their own
    layers = [Layer(ones, np.zeros(2)), Layer(twos, np.zeros(1))]
    tree = {"model": {"layers": layers}, "step": 7, "a.b/c": 1.5}
    state.save(tmp_path / "a", tree)
    assert state.names(tmp_path / "a")[-2:] == ["step", "a.b~1c"]
    same(state.load(tmp_path / "a", "model/layers/1"), layers[1])
    assert state.load(tmp_path / "a", "step") == 7
    same(state.load(tmp_path / "a", ["model/layers/0/bias", "a.b~1c"]), {"model/layers/0/bias": np.zeros(2), "a.b~1c": 1.5})
    with pytest.raises(mmsb.NotFoundError, match="has no 'model/layers/2', 'stop', 'step/0'"):
        state.load(tmp_path / "a", ["model/layers/2", "step", "stop", "step/0"])
    with pytest.raises(mmsb.NotFoundError, match="''"):
        state.load(tmp_path / "a", "")
    data = bytearray((tmp_path / "a").read_bytes())
    data[data.index(ones[:100].tobytes())] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    same(state.load(tmp_path / "damaged", "model/layers/1/weight"), twos)  # other pages are not read
    lazy = state.load(tmp_path / "damaged", lazy=True)
    same(np.asarray(lazy["model"]["layers"][1]["weight"]), twos)
    for read in (lambda: state.load(tmp_path / "damaged"), lazy["model"]["layers"][0]["weight"].read):
        with pytest.raises(mmsb.CorruptError):
            read()


def test_a_stored_array_says_what_it_is(tmp_path: Path) -> None:
    state.save(tmp_path / "a", {"w": np.asfortranarray(np.ones((2, 3), "f4"))})
    (array,) = state.arrays(tmp_path / "a").values()
    assert (array.name, array.type_name, array.shape, array.strides, array.nbytes) == ("w", "float32", (2, 3), (4, 8), 24)
    assert repr(array) == "<mmsb.state.StoredArray 'w' float32 (2, 3)>"
    with mmsb.Snapshot(tmp_path / "a") as snapshot:
        assert snapshot[array.page_id].read() == np.ones(6, "f4").tobytes()
    assert np.asarray(array, dtype="f8").dtype == np.float64
    copied = array.__array__(copy=True)
    copied[0, 0] = 5
    assert array.map()[0, 0] == 1


def test_types_come_back_by_likeness(tmp_path: Path) -> None:
    tree = {"fixed": Fixed(7, [Layer(np.ones(3), np.zeros(2), "a")]), "pair": Pair(1, (2, np.arange(3)))}
    state.save(tmp_path / "a", tree)
    like = {"fixed": Fixed(0, [Layer(np.zeros(3), np.ones(2))]), "pair": Pair(0, (0, np.zeros(3, int)))}
    back = state.load(tmp_path / "a", like=like)
    assert isinstance(back["fixed"], Fixed) and isinstance(back["pair"], Pair) and back["fixed"].layers[0].name == "a"
    same(back, tree)
    same(like["fixed"], Fixed(0, [Layer(np.zeros(3), np.ones(2))]))  # only its types were taken
    fixed = state.load(tmp_path / "a", "fixed", like=Fixed)
    assert isinstance(fixed, Fixed) and isinstance(fixed.layers[0], Layer)
    same(fixed, tree["fixed"])
    assert isinstance(state.load(tmp_path / "a", ["fixed"], like=dict[str, Fixed])["fixed"], Fixed)
    with pytest.raises(mmsb.MismatchError, match="Layer is not what the file has"):
        state.load(tmp_path / "a", "pair", like=Layer)
    with pytest.raises(mmsb.MismatchError, match="1 missing in the file: pair; 3 only in the file: pair/first, pair/second/0, "):
        state.load(tmp_path / "a", like={**like, "pair": np.zeros(3)}, names=["fixed", "pair"])
    with pytest.raises(mmsb.InvalidArgumentError, match="exclude"):
        state.load(tmp_path / "a", like=like, lazy=True)
    made = state.load(tmp_path / "a", convert=lambda array: array.tolist())
    assert made["fixed"]["layers"][0]["bias"] == [0, 0]


MaybeLayer = Optional[Layer]
Either = Union[int, Layer, Fixed]


@dataclasses.dataclass
class Kinds:
    maybe: MaybeLayer
    no: MaybeLayer
    either: Either
    number: Either
    many: tuple[Layer, ...]
    fixed: tuple[Layer, int, Layer]
    every: Sequence[Layer]
    turned: list[Layer]
    named: dict[str, list[Layer]]
    untyped: list  # type: ignore[type-arg]
    total: float = dataclasses.field(default=0.0, init=False)


@dataclasses.dataclass(frozen=True)
class Counted:
    layer: Layer = dataclasses.field(init=False)
    count: int = 0


@dataclasses.dataclass
class Unknown:
    """With an annotation that only type checkers can evaluate."""

    number: int
    weight: NDArray[Any]


def test_annotations_that_cannot_be_evaluated(tmp_path: Path) -> None:
    state.save(tmp_path / "a", Unknown(2, np.ones(3)))
    with pytest.raises(
        mmsb.UnsupportedError, match=r"^Unknown\.weight has an annotation that .*: name 'NDArray' is not defined$"
    ):
        state.load(tmp_path / "a", like=Unknown)


def test_fields_of_types_with_parameters(tmp_path: Path) -> None:
    def layer() -> Layer:
        return Layer(np.ones(3), np.zeros(2), "a")

    fixed = Fixed(7, [layer()])
    many, mixed, named = (layer(), layer()), (layer(), 2, layer()), {"k": [layer()]}
    kinds = Kinds(layer(), None, fixed, 5, many, mixed, (layer(),), [layer()], named, [1])
    kinds.total = 9.5
    state.save(tmp_path / "a", kinds)
    back = state.load(tmp_path / "a", like=Kinds)
    same(back, kinds)
    found = [back.maybe, *back.many, back.fixed[0], back.fixed[2], *back.every, *back.turned, *back.named["k"]]
    assert {type(one) for one in (*found, *back.either.layers)} == {Layer}
    assert type(back.either) is Fixed and type(back.every) is tuple and back.total == 9.5
    counted = Counted(3)
    object.__setattr__(counted, "layer", layer())
    state.save(tmp_path / "b", counted)
    back = state.load(tmp_path / "b", like=Optional[Counted])
    same(back, counted)
    assert isinstance(back, Counted) and type(back.layer) is Layer
    if sys.version_info >= (3, 10):
        same(state.load(tmp_path / "b", like=Counted | None), counted)
    with pytest.raises(mmsb.MismatchError, match="Fixed is not what the file has"):
        state.load(tmp_path / "b", like=Optional[Fixed])


# ------------------------------------------------------------------------------------------------------ filling trees


@pytest.mark.parametrize("seed", range(30))
def test_a_tree_is_filled(tmp_path: Path, seed: int) -> None:
    tree = random_tree(random.Random(seed), 5, [])
    state.save(tmp_path / "a", tree, durable=False)

    def cleared(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf if leaf is None or isinstance(leaf, (bool, bytes, str)) else 0
        dice = random.Random(leaf.nbytes)
        target = np.zeros([2 * size for size in leaf.shape], leaf.dtype, order=dice.choice("CF"))  # type: ignore[call-overload]
        return target[tuple(slice(0, 2 * size, 2) for size in leaf.shape)] if dice.random() < 0.3 else np.zeros_like(leaf)

    other = trees.replaced(plain(tree), cleared)
    same(state.load_into(tmp_path / "a", other), tree)


def test_all_that_does_not_fit_is_named_and_nothing_changes(tmp_path: Path) -> None:
    state.save(
        tmp_path / "a", {"w": np.ones(3, "f4"), "gone": np.ones(1), "step": 5, "kind": np.ones(2), "shape": np.ones((2, 3))}
    )
    tree: dict[str, Any] = {"w": np.zeros(3, "f4"), "new": 1, "step": 0, "kind": np.zeros(2, "f4"), "shape": np.zeros((3, 2))}
    with pytest.raises(mmsb.MismatchError) as caught:
        state.load_into(tmp_path / "a", tree)
    assert str(caught.value).endswith(
        "a does not fit the tree: 1 missing in the file: new; 1 only in the file: gone; "
        "2 different: kind is float32 (2,), in the file float64 (2,), shape is float64 (3, 2), in the file float64 (2, 3)"
    )
    tree["kind"], tree["shape"] = 4, np.zeros((2, 3))
    with pytest.raises(mmsb.MismatchError, match=r"kind is a scalar, in the file float64 \(2,\)"):
        state.load_into(tmp_path / "a", tree, strict=False)
    tree["kind"] = np.zeros(2)
    tree["kind"].flags.writeable = False
    tree["shape"].flags.writeable = False
    with pytest.raises(mmsb.InvalidStateError, match="2 of the tree's arrays cannot be written: kind, shape"):
        state.load_into(tmp_path / "a", tree, strict=False)
    assert tree["step"] == 0 and not tree["w"].any()
    tree["kind"], tree["shape"] = np.zeros(2), np.zeros((2, 3))
    assert state.load_into(tmp_path / "a", tree, strict=False) is tree
    assert tree["step"] == 5 and tree["new"] == 1 and tree["w"].all() and tree["shape"].all()


def test_damage_changes_nothing(tmp_path: Path) -> None:
    tree = {"a": np.ones(100_000), "b": np.full(100_000, 2.0), "step": 1}
    state.save(tmp_path / "a", tree)
    data = bytearray((tmp_path / "a").read_bytes())
    data[data.index(np.full(10, 2.0).tobytes())] ^= 1
    (tmp_path / "a").write_bytes(data)
    other: dict[str, Any] = {"a": np.zeros(100_000), "b": np.zeros(100_000), "step": 0}
    with pytest.raises(mmsb.CorruptError):
        state.load_into(tmp_path / "a", other)
    assert not other["a"].any() and not other["b"].any() and other["step"] == 0


class ReplacesItsFile:
    """What is asked for its state when the file's tree was read, and puts another file there, so many times."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.times, self.weight, self.step = path, times, np.zeros(3), 1

    def save(self) -> None:
        new = self.path.with_suffix(".new")
        state.save(new, {"model": {"weight": np.full(3, float(self.step))}, "step": self.step})
        os.replace(new, self.path)

    def state_dict(self) -> dict[str, Any]:
        if self.times > 0:
            self.times, self.step = self.times - 1, self.step + 1
            self.save()
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["weight"] is self.weight


def test_a_file_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    """What is loaded is all of one file: that of the moment when nobody had replaced it while it was read."""
    for times in (0, 1, 5):
        model = ReplacesItsFile(tmp_path / "a", times)
        model.save()
        loaded = state.load_into(tmp_path / "a", {"model": model, "step": 0})
        assert loaded["step"] == times + 1
        np.testing.assert_array_equal(model.weight, np.full(3, times + 1.0))
        model = ReplacesItsFile(tmp_path / "a", times)
        model.save()
        loaded = state.load(tmp_path / "a", like={"model": model, "step": 0})
        assert loaded["step"] == times + 1
        np.testing.assert_array_equal(loaded["model"]["weight"], np.full(3, times + 1.0))


@pytest.mark.parametrize("step", ["StoredTree", "_onto"])  # behind the first, before the second
def test_a_base_that_is_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    base, path = tmp_path / "base", tmp_path / "next"
    for times in (0, 1, 5):
        state.save(base, {"a": np.ones(5000)})
        original, left = getattr(mmsb.state.checkpoint, step), times

        def replaces(*arguments: Any) -> Any:
            nonlocal left
            result = original(*arguments) if step == "StoredTree" else None  # noqa: B023
            if left > 0:
                left -= 1
                state.save(base, {"a": np.full(5000, float(left))})
            return result if step == "StoredTree" else original(*arguments)  # noqa: B023

        with monkeypatch.context() as patched:
            patched.setattr(mmsb.state.checkpoint, step, replaces)
            array = np.ones(5000)
            array[7] = 7
            state.save(path, {"a": array}, base=base)
        np.testing.assert_array_equal(state.load(path)["a"], array)
        with mmsb.Snapshot(path) as saved, mmsb.Snapshot(base) as last:
            assert saved.base == last.id and left == 0


def test_a_file_that_is_replaced_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmsb.state.checkpoint._TRIES", 3)
    model = ReplacesItsFile(tmp_path / "a", 1 << 30)
    model.save()
    for load in (state.load_into, lambda path, tree: state.load(path, like=tree)):
        with pytest.raises(mmsb.MismatchError, match="a was replaced while it was read, 3 times: load it again"):
            load(tmp_path / "a", {"model": model, "step": 0})
    monkeypatch.setattr("mmsb.state.checkpoint._TRIES", 1 << 30)
    texts: list[str] = []
    while not any("a was replaced again and again for" in text for text in texts):  # the time may end within a read, too
        assert len(texts) < 20, texts
        with pytest.raises(mmsb.TimeoutError) as caught:
            state.load_into(tmp_path / "a", {"model": model, "step": 0}, timeout=0.02 * (len(texts) + 1))
        texts.append(str(caught.value))
    np.testing.assert_array_equal(model.weight, np.zeros(3))


def test_arrays_are_filled_without_memory_beside_them(tmp_path: Path, run_python: RunPython) -> None:
    program = f"""
import numpy as np
from mmsb import state

def memory(name):
    return next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith(name))

tree = {{f"layer{{i}}": np.full(4 << 20, i + 1.0) for i in range(8)}}
state.save({str(tmp_path / "a")!r}, tree, durable=False)
for array in tree.values():
    array.fill(0)
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
state.load_into({str(tmp_path / "a")!r}, tree)
assert all((array == i + 1.0).all() for i, array in enumerate(tree.values()))
assert memory("VmHWM") < before + 128, (memory("VmHWM"), before)
"""
    ended = run_python(program)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_part_is_filled_without_reading_the_rest(tmp_path: Path, run_python: RunPython, compression: str | None) -> None:
    dice, path = np.random.default_rng(1), tmp_path / "state"
    tree = {f"{n}": dice.integers(0, 200, 1 << 20, np.uint8) for n in range(32)}
    state.save(path, tree, compression=compression)
    program = f"""
from pathlib import Path
import numpy as np
from mmsb import state

def read():
    return int(Path("/proc/self/io").read_text().split()[1])

tree, before = {{"7": np.zeros(1 << 20, np.uint8)}}, read()
state.load_into({os.fspath(path)!r}, tree, strict=False)
print(read() - before, int(tree["7"].sum()))
"""
    ended = run_python(program)
    assert ended.returncode == 0, ended.stderr
    count, total = map(int, ended.stdout.split())
    assert total == tree["7"].sum()
    assert count < 5 << 20, "twice the array, and the tables; all of it is 64 MiB"


def test_what_never_changes_is_replaced(tmp_path: Path) -> None:
    state.save(tmp_path / "a", {"fixed": Fixed(7, [Layer(np.ones(2), np.ones(1), "new")]), "pair": Pair(3, (4, np.ones(3)))})
    weight = np.zeros(2)
    tree: dict[str, Any] = {"fixed": Fixed(0, [Layer(weight, np.zeros(1))]), "pair": Pair(0, (0, np.zeros(3)))}
    before = tree["fixed"]
    assert state.load_into(tmp_path / "a", tree) is tree
    assert tree["fixed"].step == 7 and before.step == 0 and weight.all()
    assert tree["pair"].second[0] == 4
    tuples = (0, weight)
    state.save(tmp_path / "b", (8, np.full(2, 3.0)))
    assert state.load_into(tmp_path / "b", tuples)[0] == 8 and weight[0] == 3


def test_no_two_keys_have_the_same_name(tmp_path: Path) -> None:
    keys: list[Any] = [0, "0", -7, "-7", "~s0", None, "~null", 1.5, "1.5", b"0", "~b30"]
    state.save(tmp_path / "a", dict.fromkeys(keys))
    assert len(set(state.names(tmp_path / "a"))) == len(keys)
    assert state.load(tmp_path / "a", ["0", "~s0", "~0s0"]) == {"0": None, "~s0": None, "~0s0": None}


def test_keys_with_one_name_are_refused(tmp_path: Path) -> None:
    tree = {"a": {math.nan: np.zeros(2), float("nan"): np.ones(2)}}
    with pytest.raises(mmsb.UnsupportedError, match=r"1 of the .* a: two of its keys have the name '~fnan'"):
        state.save(tmp_path / "a", tree)
    assert not list(tmp_path.iterdir())
    del tree["a"][next(iter(tree["a"]))]
    state.save(tmp_path / "a", tree)
    assert [array.tolist() for array in state.load(tmp_path / "a")["a"].values()] == [[1, 1]]


@pytest.mark.parametrize("text", ["", "ab\0", "\0", "\ud800", "é", b"", b"key\0", b"\0", b"\xff"])
def test_texts_of_numpy_come_back(tmp_path: Path, text: Any) -> None:
    """All of their characters: NumPy's arrays and comparisons leave zeros at the end out."""
    kind: Any = np.str_ if isinstance(text, str) else np.bytes_
    plain: Any = str.__str__ if isinstance(text, str) else bytes
    state.save(tmp_path / "a", {"scalar": kind(text), "keys": {kind(text): 1, kind(text + text[-1:]): 2}})
    back = state.load(tmp_path / "a")
    assert type(back["scalar"]) is kind and plain(back["scalar"]) == text
    assert [plain(key) for key in back["keys"]] == ([text, text + text[-1:]] if text else [text])
    state.load_into(tmp_path / "a", filled := {"scalar": kind("" if kind is np.str_ else b"")}, strict=False)
    assert plain(filled["scalar"]) == text


@pytest.mark.parametrize("document", [b'{"scalar": ["<U0", "00000000"]}', b'{"scalar": ["|S0", "00"]}'])
def test_an_empty_text_of_an_earlier_release_is_read(document: bytes) -> None:
    assert len(trees.read(document)) == 0


# --------------------------------------------------------------------------------------------- tensors and modules


class Tensor:
    """What state needs of PyTorch's tensors on the host."""

    def __init__(self, array: np.ndarray[Any, Any], device: str = "cpu", grad: bool = True) -> None:
        self.array, self.grad = array, grad
        self.device = type("device", (), {"type": device})()

    def detach(self) -> Tensor:
        return Tensor(self.array, self.device.type, grad=False)

    def cpu(self) -> Tensor:
        return self if self.device.type == "cpu" else Tensor(self.array.copy(), grad=self.grad)

    def to(self, device: Any) -> Tensor:
        return Tensor(self.array, device.type, self.grad)

    def clone(self) -> Tensor:
        return Tensor(self.array.copy(), self.device.type, self.grad)

    def copy_(self, other: Tensor) -> Tensor:
        assert not self.grad and other.device.type == "cpu"
        self.array[...] = other.array
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        if self.grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.array.dtype == ml_dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        if self.device.type != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return self.array

    def resolve_conj(self) -> Tensor:
        return self

    resolve_neg = resolve_conj

    @property
    def dtype(self) -> str:
        return f"torch.{self.array.dtype.name}"

    def view(self, dtype: Any) -> Tensor:
        return Tensor(self.array.view(dtype), self.device.type, self.grad)

    def __dlpack__(self, **arguments: Any) -> Any:
        raise AssertionError("a tensor's memory is NumPy's to show")


class Module:
    def __init__(self, *shape: int, device: str = "cpu") -> None:
        self.weight = Tensor(np.zeros(shape, "f4"), device)
        self.half = Tensor(np.zeros(shape, ml_dtypes.bfloat16))
        self.rate = 0.1
        self.loaded = 0

    def state_dict(self) -> dict[str, Any]:
        return collections.OrderedDict(weight=self.weight.detach(), half=self.half.detach(), groups=[{"rate": self.rate}])

    def load_state_dict(self, found: dict[str, Any]) -> None:
        self.rate = found["groups"][0]["rate"]
        self.loaded += 1


def test_tensors_modules_and_optimizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(int16=np.int16))
    module = Module(4, 5)
    module.weight.array[...] = 7
    module.half.array[...] = 1.5
    module.half.array = np.asfortranarray(module.half.array)
    module.rate = 0.01
    optimizer = {"state": {0: {"step": Tensor(np.array(3.0, "f4")), "moment": Tensor(np.ones((4, 5), "f4"))}}}
    tree = {"model": module, "optimizer": optimizer, "epoch": 2}
    state.save(tmp_path / "a", tree)
    back = state.load(tmp_path / "a")
    assert back["optimizer"]["state"][0]["step"] == 3 and back["model"]["groups"] == [{"rate": 0.01}]
    assert back["model"]["half"].dtype == ml_dtypes.bfloat16 and (back["model"]["half"] == 1.5).all()
    assert back["model"]["half"].flags.f_contiguous
    fresh = Module(4, 5)
    other = {
        "model": fresh,
        "optimizer": {"state": {0: {"step": Tensor(np.array(0, "f4")), "moment": Tensor(np.zeros((4, 5), "f4"))}}},
    }
    state.load_into(tmp_path / "a", other, strict=False)
    assert (fresh.weight.array == 7).all() and (fresh.half.array == 1.5).all() and fresh.rate == 0.01 and fresh.loaded == 1
    assert other["optimizer"]["state"][0]["step"].array == 3  # type: ignore[index]
    alike = state.load(tmp_path / "a", "optimizer", like=optimizer)
    assert isinstance(alike["state"][0]["moment"], Tensor) and alike["state"][0]["moment"].array is not back
    (half,) = state.load(tmp_path / "a", ["model/half"], like={"model/half": module.half}).values()
    assert isinstance(half, Tensor) and half.array.tobytes() == module.half.array.tobytes()
    with state.track(tree) as tracker:
        module.half.array[0, 0] = 2.5
        tracker.save(tmp_path / "b")
    assert state.load(tmp_path / "b", "model/half")[0, 0] == 2.5


class Averager:
    """Its state_dict() gives copies, as many do."""

    def __init__(self) -> None:
        self.mean, self.count = np.zeros(3), 0

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean.copy(), "parts": (self.mean[::2], self.count)}

    def load_state_dict(self, found: dict[str, Any]) -> None:
        self.mean, self.count = found["mean"], found["parts"][1]


def test_what_state_dict_gives_comes_back_with_the_arrays(tmp_path: Path) -> None:
    saved_one = Averager()
    saved_one.load_state_dict({"mean": np.arange(3.0), "parts": (None, 7)})
    state.save(tmp_path / "a", {"one": saved_one, "more": [saved_one]})
    tree: dict[str, Any] = {"one": Averager(), "more": [Averager()]}
    assert state.load_into(tmp_path / "a", tree) is tree
    with state.track({"one": Averager(), "more": [Averager()]}) as tracker:
        tracked = tracker.load(tmp_path / "a")
        tracker.save(tmp_path / "b", base=tmp_path / "a")
    for one in (tree["one"], tree["more"][0], tracked["one"], tracked["more"][0]):
        assert one.mean.tolist() == [0, 1, 2] and one.count == 7
    same(state.load(tmp_path / "b"), state.load(tmp_path / "a"))


def test_tensors_of_a_device_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(int16=np.int16))
    module = Module(2, 3, device="cuda")
    module.weight.array[...] = 3
    module.half = Tensor(np.asfortranarray(np.full((2, 3), 1.5, ml_dtypes.bfloat16)), "cuda")
    state.save(tmp_path / "a", {"model": module})
    assert (state.load(tmp_path / "a", "model/weight") == 3).all()
    alike = state.load(tmp_path / "a", "model/weight", like=module.weight)
    assert alike.device.type == "cuda" and (alike.array == 3).all()
    # They are filled where they lie, and nothing is where something does not fit.
    fresh = Module(2, 3, device="cuda")
    fresh.half = Tensor(np.zeros((2, 3), ml_dtypes.bfloat16), "cuda")
    state.load_into(tmp_path / "a", {"model": fresh})
    assert (fresh.weight.array == 3).all() and (fresh.half.array == 1.5).all()
    other = {"model": Module(2, 3, device="cuda")}
    other["model"].half = Tensor(np.zeros((2, 3), "f2"), "cuda")
    with pytest.raises(mmsb.MismatchError, match="model/half is float16"):
        state.load_into(tmp_path / "a", other)
    assert not other["model"].weight.array.any()
    empty = {"none": Tensor(np.zeros((0, 3), "f4"), "cuda")}
    state.save(tmp_path / "b", empty)
    state.load_into(tmp_path / "b", empty)


def test_objects_that_lend_bytes(tmp_path: Path) -> None:
    back = state.load(saved(tmp_path / "a", {"bytes": bytearray(b"abc"), "view": memoryview(array.array("d", [0, 1, 2]))}))
    same(back, {"bytes": np.frombuffer(b"abc", np.uint8), "view": np.arange(3.0)})

    class Broken:
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("no memory today")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(mmsb.UnsupportedError, match="x: Broken gives no memory of the host: no memory today"):
        state.save(tmp_path / "b", {"x": Broken()})


def saved(path: Path, tree: Tree) -> Path:
    state.save(path, tree, durable=False)
    return path


# ------------------------------------------------------------------------------------------------------ files that lie


def forged(path: Path, document: Any, pages: dict[int, tuple[int, dict[str, str]]], version: str = "1") -> Path:
    """A snapshot that any program may have written."""
    with mmsb.Context() as context:
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        page = context.create_page(len(text), id=1)
        page.write(0, text)
        page.metadata["mmsb.state/version"] = version.encode()
        for id, (size, metadata) in pages.items():
            page = context.create_page(size, id=id)
            for key, value in metadata.items():
                page.metadata[f"mmsb.state/{key}"] = value.encode("utf-8", "surrogateescape")
        context.save(path, durable=False)
    return path


GOOD = {"name": "w", "dtype": "float32", "shape": "2,3", "strides": "12,4"}
TREE = {"dict": [["w", {"page": 2}]]}


def test_a_forged_file_that_says_the_truth_is_read(tmp_path: Path) -> None:
    assert state.load(forged(tmp_path / "a", TREE, {2: (24, GOOD)}))["w"].shape == (2, 3)
    ones = {**GOOD, "shape": "2,1,3", "strides": "12,77,4"}  # a step along one item says nothing
    assert state.load(forged(tmp_path / "a", TREE, {2: (24, ones)}))["w"].strides[0] == 12


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"shape": "2,4"}, "32 bytes, and its page has 24"),
        ({"shape": "2,2", "strides": "8,4"}, "16 bytes, and its page has 24"),
        ({"shape": "2,-3"}, "not decimal numbers"),
        ({"shape": "2,3,"}, "not decimal numbers"),
        ({"shape": "2;3"}, "not decimal numbers"),
        ({"shape": "٢,3"}, "not decimal numbers"),
        ({"shape": "\udcff"}, "not decimal numbers"),
        ({"shape": "4294967296,4294967296"}, "more than 9223372036854775807 bytes"),
        ({"shape": "9223372036854775808,0"}, "the range is 0 to 9223372036854775807"),
        ({"shape": "2,3,1"}, "shape has 3 numbers and strides 2"),
        ({"shape": ",".join(["1"] * 65), "strides": ",".join(["1"] * 65)}, "at most 64"),
        ({"strides": "4,12"}, "leave gaps or overlap"),
        ({"strides": "0,0"}, "leave gaps or overlap"),
        ({"strides": "4,8"}, None),
        ({"dtype": "object"}, "'object' is not the name of a type"),
        ({"dtype": "|O8"}, "is not the name of a type"),
        ({"dtype": "float31"}, "is not the name of a type"),
        ({"dtype": "<f3"}, "is not the name of a type"),
        ({"dtype": "os.system"}, "is not the name of a type"),
        ({"dtype": "finfo"}, "is not the name of a type"),
        ({"dtype": ""}, "is not the name of a type"),
        ({"dtype": "i4,f4"}, "is not the name of a type"),
        ({"dtype": '{"fields": [["a", "|O8", [], 0]], "bytes": 8}'}, "is not the name of a type"),
        ({"dtype": '{"fields": [["a", "float32", [], 2]], "bytes": 4}'}, "is not the name of a type"),
        ({"dtype": '{"fields": [["a", "float32", [-1], 0]], "bytes": 4}'}, "is not the name of a type"),
        ({"dtype": '{"fields": [["a", "uint8", [], 0], ["a", "uint8", [], 1]], "bytes": 4}'}, "is not the name of a type"),
        ({"dtype": '{"fields": ' + "[" * 5000}, "is not the name of a type"),
        ({"dtype": "|V100000007", "shape": "1", "strides": "1"}, "100000007 bytes, and its page has 24"),
        ({"dtype": "float64"}, "48 bytes, and its page has 24"),
        ({"name": "v"}, "has other names in its metadata, the first is b'v'"),
        ({"name": None}, "has no mmsb.state/name"),
        ({"dtype": None}, "has no mmsb.state/dtype"),
        ({"shape": None}, "has no mmsb.state/shape"),
        ({"strides": None}, "has no mmsb.state/strides"),
    ],
)
def test_metadata_that_lies(tmp_path: Path, changes: dict[str, str | None], text: str | None) -> None:
    metadata = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    path = forged(tmp_path / "a", TREE, {2: (24, metadata)})
    if text is None:
        assert state.load(path)["w"].strides == (4, 8)
        return
    target = np.full((2, 3), 7, "f4")
    for read in (state.load, state.arrays, lambda path: state.load_into(path, {"w": target})):
        with pytest.raises(mmsb.CorruptError) as caught:
            read(path)
        assert text in str(caught.value) and "w (page 2)" in str(caught.value)
    assert (target == 7).all()


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"\xff", "damaged"),
        (b"{", "damaged"),
        (b"NaN", "no number of JSON"),
        (b'{"dict": []} x', "damaged"),
        (b"[1]", "a list has no kind"),
        (b'{"dict": [], "list": []}', "an object has 2 names"),
        (b'{"dict": [], "dict": []}', "an object has 2 names"),
        (b'{"__reduce__": ["os.system", "true"]}', "is no kind of value"),
        (b"{}", "an object has 0 names"),
        (b'{"dict": [["w", 1], ["w", 2]]}', "a dict has 2 keys, and 1 different ones"),
        (b'{"dict": [[1, 1], [true, 2]]}', "a dict has 2 keys"),
        (b'{"dict": [["w"]]}', "damaged"),
        (b'{"dict": {"w": 1}}', "is no list"),
        (b'{"dict": 5}', "is no list"),
        (b'{"dict": [[{"page": 2}, 1]]}', "a key is an array"),
        (b'{"dict": [[[], 1]]}', "a key is a list"),
        (b'{"dict": [[{"dict": []}, 1]]}', "is no kind of value"),
        (b'{"page": 0}', "a page has the id 0"),
        (b'{"page": "2"}', "a page has the id 2"),
        (b'{"page": 18446744073709551616}', "a page has the id"),
        (b'{"page": true}', "a page has the id True"),
        (b"1" * 30, "a number has 30 digits"),
        (b'{"int": "zz"}', "damaged"),
        (b'{"int": 5}', "damaged"),
        (b'{"float": "00"}', "damaged"),
        (b'{"bytes": "0"}', "damaged"),
        (b'{"complex": [1]}', "damaged"),
        (b'{"complex": ["1", 2]}', "damaged"),
        (b'{"scalar": ["float32", "00"]}', "a scalar of float32 has 1 bytes, not 4"),
        (b'{"scalar": ["object", "00"]}', "is not the name of a type"),
        (b'{"list": [' * 150 + b"]}" * 150, "deeper than 100 levels"),
        (b'{"list": [' * 100000, "damaged"),
        (b'{"dict": [["w", {"page": 3}]]}', "w is page 3, which is not there"),
    ],
)
def test_documents_that_lie(tmp_path: Path, document: bytes, text: str) -> None:
    path = forged(tmp_path / "a", document, {2: (24, GOOD)})
    for read in (state.load, state.arrays, lambda path: state.load_into(path, {"w": 1}, strict=False)):
        with pytest.raises(mmsb.CorruptError) as caught:
            read(path)
        assert text in str(caught.value)


def test_versions_and_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(mmsb.FormatError, match=r"has a tree of version 2; this release reads version 1"):
        state.load(forged(tmp_path / "a", TREE, {2: (24, GOOD)}, "2"))
    for version in ("0", "1,1", "", "one"):
        with pytest.raises((mmsb.FormatError, mmsb.CorruptError), match="version"):
            state.names(forged(tmp_path / "a", TREE, {}, version))
    with mmsb.Context() as context:
        context.save(tmp_path / "empty")
        context.create_page(10, id=1)
        context.save(tmp_path / "other")
    for name in ("empty", "other"):
        with pytest.raises(mmsb.FormatError, match="has no tree"):
            state.load(tmp_path / name)
    with pytest.raises(mmsb.MissingFileError):
        state.load(tmp_path / "nothing")
    with mmsb.Context() as context:
        context.create_page((1 << 30) + 1, id=1).metadata["mmsb.state/version"] = b"1"
        context.save(tmp_path / "long", compression="zstd", durable=False)
    with pytest.raises(mmsb.CorruptError, match="1073741825 bytes; the limit is 1073741824"):
        state.load(tmp_path / "long")
    assert os.path.getsize(tmp_path / "long") < 1 << 20


def test_a_file_of_the_first_version_is_read() -> None:
    """testdata/snapshots/state/tree.mmsb was saved from this tree."""
    weights = np.arange(6, dtype="f4").reshape(2, 3)
    layers = [{"w": weights, "b": np.zeros((0, 4))}, {"w": np.asfortranarray(np.arange(6, dtype="f8").reshape(2, 3))}]
    tree = {
        "model": {"layers": layers},
        "optimizer": {0: {"step": np.array(7)}},
        "a/b": np.array(["x", "yz"]),
        "\x1b": np.array([(1, 2.5)], [("i", "i4"), ("x", "f8")]),
        "when": np.array(["2026-01-02"], "M8[D]"),
        "step": 7,
        "rate": 0.1,
        "big": 10**30,
        "text": "ü",
        "none": None,
        "data": b"\0\xff",
        "inf": math.inf,
        "pair": (1, True),
        "c": 1 + 2j,
        "s": np.float32(1.5),
        "tied": weights,
    }
    folder = Path(__file__).resolve().parents[3] / "testdata" / "snapshots" / "state"
    same(state.load(folder / "tree.mmsb"), tree)
    with pytest.raises(mmsb.FormatError, match="version 2"):
        state.load(folder / "newer.mmsb")


def test_what_does_not_fit_a_type(tmp_path: Path) -> None:
    path = tmp_path / "a"
    tree = {"layer": Layer(np.ones(2), np.zeros(2), "a"), "more": [1, 2], "text": "x", "fixed": Fixed(7, [])}
    state.save(path, tree)
    wrong: list[tuple[Any, Any, str]] = [
        (None, list[Layer], "the tree is a dict in the file, not list"),
        (None, int, "the tree is a dict in the file, not int"),
        (None, dict[str, Layer], "more is a list in the file, not Layer"),
        ("layer", np.ndarray, "layer is a dict in the file, not ndarray"),
        (
            "layer",
            Fixed,
            "layer: Fixed is not what the file has: 2 missing in the file: .*; 3 only in the file: weight, bias, name",
        ),
        ("layer", Pair, "Pair is not what the file has: 2 missing in the file: first, second; 3 only in the file: weight, "),
        ("more", Layer, "more is a list in the file, not Layer"),
        ("more", tuple[int, Layer], "more/1 is an array or scalar in the file, not Layer"),
        ("text", dict[str, int], "text is an array or scalar in the file, not dict"),
        ("more", Union[int, Layer], "more is a list in the file, not Layer"),
    ]
    for name, kind, text in wrong:
        with pytest.raises(mmsb.MismatchError, match=text):
            state.load(path, name, like=kind)
    plain = state.load(path)
    for kind in (dict, Any, object, Mapping, Union[dict[str, Any], Fixed], Optional[dict[str, Any]]):
        same(state.load(path, like=kind), plain)
    for kind in (list, Sequence, tuple, list[int], Sequence[Any], Union[Layer, list[int]]):
        assert list(state.load(path, "more", like=kind)) == [1, 2]


def test_a_stored_array_is_saved_again(tmp_path: Path) -> None:
    tree = {"w": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "none": np.zeros((0, 3))}
    for compression in (None, "zstd"):
        state.save(tmp_path / "a", tree, compression=compression)
        lazy = state.load(tmp_path / "a", lazy=True)
        state.save(tmp_path / "b", {"lazy": lazy, "new": 1})
        same(state.load(tmp_path / "b", "lazy"), tree)
        state.save(tmp_path / "a", lazy)  # over its own file
        same(state.load(tmp_path / "a"), tree)
        with pytest.raises(mmsb.InvalidStateError, match="cannot be written: w, none"):
            state.load_into(tmp_path / "a", lazy)


def test_lists_of_scalars_are_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No scalar of a list that has nothing else takes a name, or a step of Python, for itself."""
    calls = collections.Counter[str]()

    def counted(name: str) -> None:
        call = getattr(trees, name)

        def count(*arguments: Any) -> Any:
            calls[name] += 1
            return call(*arguments)

        monkeypatch.setattr(trees, name, count)

    for name in ("join", "segment", "scalar_node", "_tree"):
        counted(name)
    tree = {"w": np.zeros(10), "losses": [i / 7 for i in range(10_000)], "texts": ("a", None, True) * 1000}
    path = tmp_path / "a"
    state.save(path, tree)
    same(state.load(path), tree)
    same(state.load(path, "w"), tree["w"])
    assert state.load(path, ["losses/9999", "texts/0"]) == {"losses/9999": 9999 / 7, "texts/0": "a"}
    other = {"w": np.ones(10), "losses": [0.0] * 10_000, "texts": (0,) * 3000}
    losses = other["losses"]
    same(state.load_into(path, other), tree)
    assert other["losses"] is losses
    with state.track(tree) as tracker:
        tracker.save(tmp_path / "b")
        losses = tree["losses"]
        assert isinstance(losses, list)
        losses[5000] = -1.0
        tracker.save(tmp_path / "c", tmp_path / "b")
        same(state.load(tmp_path / "c"), tree)
    assert sum(calls.values()) < 200


def test_lists_of_all_kinds_of_scalars(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "floats": [1.5, math.inf, -math.inf, -0.0, 1e300],
        "ints": (0, -(2**53), 2**53, 2**64, -(10**40), 5),
        "numpy": [np.float64(1.5), np.int8(-3), np.bool_(True), np.str_("a"), np.datetime64("2026-01-01")],
        "mixed": [None, True, 1, 1.0, "1", b"\0", 1j],
        "void": [np.zeros(1, "i4,f8")[0], 1],
        "empty": [],
        "": [1, 2],
        "record": Pair(1, 2),
        "inside": [[1, 2], (3,), {"4": [5]}],
        "digits": "1" * 30,
    }
    back = round_trip(tmp_path / "a", tree)
    assert [type(one) for one in back["mixed"]] == [type(one) for one in tree["mixed"]]
    for name in state.names(tmp_path / "a"):
        state.load(tmp_path / "a", name)
    assert {"floats/4", "ints/0", "mixed/6", "/1", "inside/2/~s4/0"} <= set(state.names(tmp_path / "a"))
    for name in ("floats/5", "floats/-1", "floats/01", "floats/x", "floats/1/1"):
        with pytest.raises(mmsb.NotFoundError):
            state.load(tmp_path / "a", name)
    round_trip(tmp_path / "b", [1.5, 2.5])
    assert state.names(tmp_path / "b") == ["0", "1"]
    numbers = [0.0, 0.0]
    assert state.load_into(tmp_path / "b", numbers) is numbers == [1.5, 2.5]
    state.save(tmp_path / "c", {"a": [1, 2, 3], "b": (1, 2)})
    shorter = {"a": [0, 0], "b": (1, 2)}
    with pytest.raises(mmsb.MismatchError, match=r"fit the tree: 1 only in the file: a/2$"):
        state.load_into(tmp_path / "c", shorter)
    with pytest.raises(mmsb.MismatchError, match=r"1 missing in the file: b/2; 1 only in the file: a/2$"):
        state.load(tmp_path / "c", like={"a": [0, 0], "b": (1, 2, 3)})
    pair = shorter["b"]
    assert state.load_into(tmp_path / "c", shorter, strict=False) == {"a": [1, 2], "b": (1, 2)} and shorter["b"] is pair
    longer = {"a": [0, 0, 0, 7], "b": (0, 0)}
    assert state.load_into(tmp_path / "c", longer, strict=False) == {"a": [1, 2, 3, 7], "b": (1, 2)}
