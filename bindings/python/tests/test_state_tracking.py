"""A tree that is tracked while its arrays come and go; chains of saves; programs that are killed while they save."""

from __future__ import annotations

import dataclasses
import math
import os
import random
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
import pytest
from conftest import PATIENCE, SOURCE
from mmsb import state
from mmsb._ffi import find_library
from mmsb.state import checkpoint
from mmsb.state import tree as trees
from test_state import Pair, plain, random_array, same


def test_a_tracked_tree_is_not_copied(tmp_path: Path) -> None:
    weights = np.zeros((100, 100))
    tree: dict[str, Any] = {"w": weights, "same": weights, "turned": weights.T, "step": 1}
    with state.track(tree) as tracker:
        assert tracker.tree is tree and repr(tracker) == "<mmsb.state.Tracker with <mmsb.Context of 3 pages>>"
        assert {page.address for page in tracker.context.pages() if page.id != 1} == {weights.ctypes.data}
        weights[3, 4] = 5
        tracker.save(tmp_path / "a")
        same(state.load(tmp_path / "a"), tree)
    assert tracker.context.closed
    tracker.close()
    alive = weakref.ref(weights)
    tree.clear()
    del weights
    assert alive() is None  # the closed tracker lets it go
    with pytest.raises(mmsb.ClosedError):
        tracker.save(tmp_path / "b")


def test_arrays_that_stay_are_taken_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fixed = np.arange(5)
    fixed.flags.writeable = False
    tree: dict[str, Any] = {
        "a": np.arange(10),
        "of columns": np.ones((3, 4), order="F"),
        "read-only": fixed,
        "twice": fixed,
        "n": 1,
    }
    taken: list[Any] = []
    once = vars(trees)["hold"]

    def hold(thing: Any) -> Any:
        taken.append(thing)
        return once(thing)

    with state.track(tree) as tracker:
        monkeypatch.setattr(trees, "hold", hold)
        tree["n"] = 2
        tracker.save(tmp_path / "0")
        same(state.load(tmp_path / "0"), tree)
        assert not taken
        tree["gaps"] = np.arange(10)[::2]
        tree["a"] = tree["a"].view("u1")
        tracker.save(tmp_path / "1", tmp_path / "0")
        tracker.save(tmp_path / "2", tmp_path / "1")
        assert taken == [tree["a"], tree["gaps"], tree["gaps"]]  # what has gaps is copied each time
        same(state.load(tmp_path / "2"), tree)


def turn(array: Any) -> None:
    array.shape = (20, 50)


def columns(array: Any) -> None:
    array.strides = (8, 400)


def item(array: Any) -> None:
    array.dtype = "i8"


def grow(array: Any) -> None:
    array.resize((1000, 50), refcheck=False)


def grow_and_shrink(array: Any) -> None:
    grow(array)
    others.append(np.ones(50 * 20))  # what may lie where it lay
    array.resize((50, 20), refcheck=False)


others: list[Any] = []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("change", [turn, columns, item, grow, grow_and_shrink])
def test_an_array_that_changes_in_place_is_taken_again(change: Callable[[Any], None], tmp_path: Path) -> None:
    array = np.arange(1000.0).reshape(50, 20).copy()
    with state.track({"array": array}) as tracker:
        tracker.save(tmp_path / "0")
        change(array)
        array[...] = 7
        tracker.save(tmp_path / "1", tmp_path / "0")
        same(state.load(tmp_path / "1"), {"array": array})


@dataclasses.dataclass
class Row:
    left: Any
    right: Any


class Stateful:
    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state


A, B = np.arange(10), np.arange(10, 20)
#: What differs by little: keys and scalars that are equal and not the same, places, forms, containers.
NEARLY_THE_SAME: list[tuple[Any, Any]] = [
    *(
        ({one: A}, {other: A})
        for one, other in [(1, True), (1, 1.0), (1, "1"), (0.0, -0.0), (0, False), (b"k", "k"), (None, "null")]
    ),
    *(([A, one], [A, other]) for one, other in [(1, True), (1, 1.0), (0.0, -0.0), (0.0, np.float64(0)), (b"s", "s"), (None, 0)]),
    *(([A, one], [A, other]) for one, other in [(1, 2), (math.nan, 0.0), (np.int8(1), np.int16(1)), ("a", "b"), (1j, 2j)]),
    *(
        (one, other)
        for one, other in [(A, B), (1, 2), (A, 1), ({}, []), ([], ()), ([A, B], [B, A]), ([A, B], (A, B)), ([A], [A, A])]
    ),
    *(
        ([A], [other])
        for other in [B, A.copy(), A.view("u8"), A.reshape(2, 5), A[:5], A[::2], A[:0], A.view("u1"), A.tobytes(), None]
    ),
    ({"a": A, "b": B}, {"b": B, "a": A}),
    ({"a": A, "b": 1}, {"a": 1, "b": A}),
    ({"a": A, "b": 1}, {"a": A, "b": 1, "c": 2}),
    ([[A], []], [[], [A]]),
    (Row(A, 1), Row(A, 2)),
    (Pair(A, 1), Pair(1, A)),
    (Stateful({"a": A, "n": 1}), Stateful({"a": A, "n": 2})),
    (Stateful([A, 1]), Stateful((A, 1))),
]


@pytest.mark.parametrize("one, other", NEARLY_THE_SAME)
def test_a_change_that_is_hard_to_see(one: Any, other: Any, tmp_path: Path) -> None:
    tree = [one]
    with state.track(tree) as tracker:
        for number, now in enumerate([one, other, other, one, one, other]):
            tree[0] = now
            tracker.save(tmp_path / f"{number}", tmp_path / f"{number - 1}" if number else None)
            same(state.load(tmp_path / f"{number}"), [now.state if isinstance(now, Stateful) else plain(now)])


def test_a_scalar_that_changes_in_place(tmp_path: Path) -> None:
    record = np.ones(1, "i4,i4")[0]
    with state.track({"record": record, "array": A}) as tracker:
        record["f1"] = 7
        tracker.save(tmp_path / "a")
        assert state.load(tmp_path / "a")["record"] == record


def test_a_tree_that_stays_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "layers": [{"w": np.arange(9.0), "step": 1} for _ in range(5)],
        "pair": Pair(1, A),
        "row": Row(B, None),
    }
    with state.track(tree) as tracker:
        monkeypatch.setattr(checkpoint, "take_apart", None)
        for step in range(3):
            tree["layers"][step]["step"] = 7
            tree["layers"][step]["w"][:] = step
            tracker.save(tmp_path / f"{step}")
            same(state.load(tmp_path / f"{step}"), plain(tree))
        tree["layers"].pop()
        with pytest.raises(TypeError):
            tracker.save(tmp_path / "3")


def test_a_tree_that_comes_to_contain_itself(tmp_path: Path) -> None:
    tree: dict[str, Any] = {"a": A, "list": []}
    with state.track(tree) as tracker:
        tree["list"] += [tree["list"], tree["list"]]
        with pytest.raises(mmsb.UnsupportedError, match="list/0: it contains itself"):
            tracker.save(tmp_path / "a")
        tree["list"].clear()
        tracker.save(tmp_path / "a")
        same(state.load(tmp_path / "a"), tree)


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    tree: dict[str, Any] = {str(number): np.zeros(1 << 20, "u1") for number in range(16)}
    with state.track(tree) as tracker:
        tracker.save(tmp_path / "0")
        whole = os.path.getsize(tmp_path / "0")
        tree["7"][1000] = 1
        tree["step"] = 2
        tracker.save(tmp_path / "1", tmp_path / "0")
        assert os.path.getsize(tmp_path / "1") < whole / 50
        tree["8"], tree["9"] = tree["9"], tree["8"]  # names change, memory does not
        tree["10"] = tree.pop("11")
        tracker.save(tmp_path / "2", tmp_path / "1")
        assert os.path.getsize(tmp_path / "2") < whole / 50
        same(state.load(tmp_path / "2"), tree)
        tree["12"] = tree["12"].copy()
        tracker.save(tmp_path / "3", tmp_path / "2")
        assert whole / 20 < os.path.getsize(tmp_path / "3") < whole / 10
        tracker.save(tmp_path / "4", tmp_path / "3", chain_limit=2)
        assert os.path.getsize(tmp_path / "4") > whole / 1.2
        tracker.save(tmp_path / "small", compression="zstd", durable=False, timeout=100)
        assert os.path.getsize(tmp_path / "small") < whole / 10
        with pytest.raises(mmsb.BusyError):
            tracker.save(tmp_path / "5", raw_writes="refuse")


@pytest.mark.parametrize("seed", range(12))
def test_arrays_come_and_go(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    tree: dict[str, Any] = {"list": [], "inner": {}}
    states: list[bytes] = []
    with state.track(tree) as tracker:
        for step in range(12):
            for _ in range(dice.randint(0, 6)):
                name = str(dice.randint(0, 9))
                place = tree["inner"] if dice.random() < 0.5 else tree
                choice = dice.random()
                if choice < 0.4:
                    place[name] = random_array(dice, dice.choice(("f4", "u1", ">i2", "M8[s]")))
                elif choice < 0.5:
                    tree["list"].append(place.get(name, step))
                elif choice < 0.6:
                    place[name] = np.zeros(dice.randint(1, 200_000), "u1")
                elif choice < 0.7:
                    place.pop(name, None)
                elif choice < 0.75:
                    tree["list"].clear()
                elif isinstance(place.get(name), np.ndarray) and place[name].flags.writeable and place[name].size:
                    place[name][...] = step
            tree["step"] = step
            base = tmp_path / str(step - 1) if step and dice.random() < 0.8 else None
            if dice.random() < 0.2:
                tracker.update()
            tracker.save(tmp_path / str(step), base, durable=False)
            same(state.load(tmp_path / str(step)), tree)
            states.append((tmp_path / str(step)).read_bytes())
    mmsb.verify(tmp_path / "11")
    assert len(states) == 12


def test_an_array_that_dies_first(tmp_path: Path) -> None:
    tree = {"a": np.full(1 << 20, 1.0), "b": np.full(10, 2.0)}
    with state.track(tree) as tracker:
        page = next(page for page in tracker.context.pages() if page.size == 8 << 20)
        del tree["a"]
        assert page.read(0, 8) == np.float64(1).tobytes()
        tracker.update()
        with pytest.raises(mmsb.StaleHandleError):
            page.read(0, 8)
        tree["bad"] = np.array([{}])
        with pytest.raises(mmsb.UnsupportedError, match="bad: object"):
            tracker.save(tmp_path / "a")
        del tree["bad"]
        tracker.save(tmp_path / "a")
    same(state.load(tmp_path / "a"), {"b": np.full(10, 2.0)})


def test_what_is_only_read_is_found_when_its_owner_changes_it(tmp_path: Path) -> None:
    owner = np.zeros(1 << 20, "u1")
    view = owner[:]
    view.flags.writeable = False
    with state.track({"view": view}) as tracker:
        tracker.save(tmp_path / "0")
        owner[5] = 9
        tracker.save(tmp_path / "1", tmp_path / "0")
    assert state.load(tmp_path / "1")["view"][5] == 9


def test_a_loaded_file_is_the_base_of_the_next(tmp_path: Path) -> None:
    tree: dict[str, Any] = {"a": np.arange(1 << 20), "b": np.asfortranarray(np.ones((300, 400))), "gaps": np.ones(100), "step": 4}
    state.save(tmp_path / "0", tree)
    other: dict[str, Any] = {"a": np.zeros(1 << 20, int), "b": np.zeros((300, 400)), "gaps": np.zeros(200)[::2], "step": 0}
    with state.track(other) as tracker:
        assert tracker.load(tmp_path / "0") is other
        same(other, tree)
        other["a"][5] = 7
        tracker.save(tmp_path / "1", tmp_path / "0")
        assert os.path.getsize(tmp_path / "1") < os.path.getsize(tmp_path / "0") / 5
        same(state.load(tmp_path / "1"), other)
        del other["gaps"]
        other["new"] = np.ones(3)
        with pytest.raises(mmsb.MismatchError, match="1 missing in the file: new; 1 only in the file: gaps"):
            tracker.load(tmp_path / "1")
        tracker.save(tmp_path / "2", tmp_path / "1")
        same(state.load(tmp_path / "2"), other)
        other["a"][...] = 0
        tracker.load(tmp_path / "0", strict=False)
        assert other["a"][5] == 5 and other["new"][0] == 1
        tracker.save(tmp_path / "3")
        same(state.load(tmp_path / "3"), other)


def test_a_save_runs_beside_the_program(tmp_path: Path) -> None:
    tree = {"step": np.zeros((), int), "w": np.zeros(4 << 20)}
    with state.track(tree) as tracker:
        tickets: list[mmsb.Ticket[None]] = []
        for step in range(1, 7):
            with tracker.context.writing():
                tree["w"][...] = step
                tree["step"][...] = step
            if step % 2 == 0:
                base = tmp_path / str(step - 2) if step > 2 else None
                tickets.append(tracker.save_start(tmp_path / str(step), base, raw_writes="wait", durable=False, after=tickets))
        for ticket in tickets:
            ticket.wait(PATIENCE)
    for step in (2, 4, 6):
        back = state.load(tmp_path / str(step))
        assert back["step"] >= step and (back["w"] == back["step"]).all()


def test_a_save_with_a_base_compares(tmp_path: Path) -> None:
    tree: dict[str, Any] = {"a": np.arange(1 << 20), "b": np.ones(1 << 20), "c": np.ones(3), "step": 1}
    state.save(tmp_path / "0", tree)
    tree["a"] = tree["a"].copy()
    tree["a"][[0, 77, 600_000, -1]] = -1
    tree["a"][1000:3000] = -2  # several granules, one behind the other
    tree["c"], tree["d"], tree["step"] = np.ones(4), tree["a"], 2
    state.save(tmp_path / "1", tree, base=tmp_path / "0")
    assert os.path.getsize(tmp_path / "1") < os.path.getsize(tmp_path / "0") / 10
    same(state.load(tmp_path / "1"), tree)
    state.save(tmp_path / "2", tree, base=tmp_path / "1")
    assert os.path.getsize(tmp_path / "2") <= 16384
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(mmsb.InvalidArgumentError):
        state.save(tmp_path / "elsewhere" / "3", tree, base=tmp_path / "1")


PROGRAM = """
import sys
import numpy as np
from mmsb import state
tree = {"step": 0, "w": [np.zeros(200_000) for _ in range(20)]}
with state.track(tree) as tracker:
    for step in range(1, 10**6):
        for w in tree["w"]:
            w[...] = step
        tree["step"] = step
        tracker.save(sys.argv[1], durable=False)
        print(step, flush=True)
"""


def test_a_killed_save_leaves_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "state"
    settings = {**os.environ, "PYTHONPATH": str(SOURCE), "MMSB_LIBRARY": find_library()}
    dice = random.Random(5)
    for _ in range(6):
        command = [sys.executable, "-c", PROGRAM, str(path)]
        with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            told = int(child.stdout.readline())
            time.sleep(dice.random() * 0.2)
            child.kill()
            told = max([told, *map(int, child.stdout.read().split())])
        assert child.returncode == -signal.SIGKILL
        back = state.load(path)
        assert told <= back["step"] <= told + 1
        assert all((w == back["step"]).all() for w in back["w"])
    state.save(path, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]  # what the killed ones left is gone
