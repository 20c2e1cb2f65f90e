"""A state of 2 GiB in 1 000 arrays: mmsb.state beside raw files, numpy.savez and safetensors, and beside a loop that goes on."""

from __future__ import annotations

import json
import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
from numpy.typing import NDArray
from snapshots import BYTES, FILTER, FOLDER, QUICK, ROUNDS, forget, seconds, sync

COUNT = 1000
NOTE = "2 GiB in 1 000 arrays; each file on disk before the clock stops; megabytes of state"
SAVE, LOAD, AGAIN, COMPARED, PART, STEP, LONGEST, ADOPT = (
    "python: state.save, 1 000 arrays",
    "python: state.load, 1 000 arrays",
    "python: state, 2 % changed, tracked",
    "python: state, 2 % changed, compared",
    "python: state.load_into, 2 % of the arrays",
    "python: state, a step beside a save, p99",
    "python: state, a step beside a save, the longest",
    "python: adopt_pages, 10 000 arrays",
)

Arrays = dict[str, NDArray[Any]]

# ---------------------------------------------------------------------------------------------------------- raw files

PIECE, DEPTH = 4 << 20, 4


class Raw:
    """The fastest files: past the page cache, with DEPTH pieces under way, from and into memory that is used again."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, DEPTH * PIECE))
        np.frombuffer(self._memory, np.uint8)[:] = np.random.default_rng(4).integers(0, 256, DEPTH * PIECE, dtype=np.uint8)
        self._workers = ThreadPoolExecutor(DEPTH)

    def write(self, path: Path, size: int) -> None:
        """Writes so many bytes, and fsync."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)
        os.posix_fallocate(file, 0, size)
        self._run(partial(os.pwrite, file), size)
        os.fsync(file)
        os.close(file)

    def read(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self._run(lambda memory, at: os.preadv(file, [memory], at), path.stat().st_size)
        os.close(file)

    def _run(self, piece: Callable[[memoryview, int], int], size: int) -> None:
        def share(number: int) -> None:
            memory = self._memory[number * PIECE : (number + 1) * PIECE]
            for at in range(number * PIECE, size, DEPTH * PIECE):
                wanted = min(PIECE, size - at)
                if piece(memory[:wanted], at) != wanted:
                    raise SystemExit(f"bench: less than {wanted} bytes at {at} were written or read")

        list(self._workers.map(share, range(DEPTH)))


def first_touch() -> None:
    np.empty(BYTES, np.uint8)[:: mmap.PAGESIZE] = 1


# --------------------------------------------------------------------------------------------------------------- peers


def raw_save(path: Path, arrays: Arrays) -> None:
    with path.open("wb", buffering=0) as file:
        for array in arrays.values():
            file.write(array.data)
        os.fsync(file.fileno())


def raw_load(path: Path, arrays: Arrays) -> Arrays:
    found = {name: np.empty_like(array) for name, array in arrays.items()}
    with path.open("rb", buffering=0) as file:
        for array in found.values():
            file.readinto(array.data)
    return found


def savez(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)
    sync(path)


def loadz(path: Path, _: Arrays) -> Arrays:
    with np.load(path) as found:
        return dict(found)


Save, Load = Callable[[Path, Arrays], None], Callable[[Path, Arrays], Arrays]


def peers() -> list[tuple[str, float | None, Save, Load]]:
    """Their names, how much faster a save is to be, and what they do."""
    found: list[tuple[str, float | None, Save, Load]] = [
        ("write and read, fsync", None, raw_save, raw_load),
        ("numpy.savez and fsync", 2, savez, loadz),
    ]
    try:
        from safetensors.numpy import load_file, save_file
    except ImportError as error:
        print(f"bench: no safetensors: {error}", file=sys.stderr)
        return found

    def tensors_save(path: Path, arrays: Arrays) -> None:
        save_file(arrays, path)
        sync(path)

    return [*found, ("safetensors and fsync", 1.5, tensors_save, lambda path, _: load_file(path))]


def report(
    what: str,
    unit: str,
    peer: str,
    ours: list[float],
    theirs: list[float],
    bound: float | None = None,
    aim: str = "at least",
    limit: list[float] | None = None,
    note: str = NOTE,
) -> None:
    """A row. bound: what its ratio is to be, at least or at most."""
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    record: dict[str, Any] = {"kind": "row", "what": what, "unit": unit, "peer_name": peer, "note": note}
    record |= {"ours": statistics.median(ours), "peer": statistics.median(theirs), "ratio": ratio}
    if limit is not None:
        record["limit"] = statistics.median(limit)
    verdict = "information"
    if bound is not None:
        record |= {"aim_of": "ratio", "aim": aim, "bound": bound}
        if not QUICK:
            verdict = "reached" if (ratio >= bound if aim == "at least" else ratio <= bound) else "not reached"
    print(json.dumps(record | {"verdict": verdict}), flush=True)


def same(one: Arrays, other: Arrays) -> None:
    if any(not np.array_equal(one[name], other[name]) for name in list(one)[::100]):
        raise SystemExit("bench: what was loaded is not what was saved")


def beside_peers(arrays: Arrays) -> None:
    ours_path, path, speed = FOLDER / "ours", FOLDER / "peer", BYTES / 1e6
    for name, bound, save, load in peers():
        saved: tuple[list[float], list[float]] = ([], [])
        loaded: tuple[list[float], list[float]] = ([], [])
        pairs = (
            (0, ours_path, partial(mmsb.state.save, ours_path, arrays), partial(mmsb.state.load, ours_path)),
            (1, path, partial(save, path, arrays), partial(load, path, arrays)),
        )
        for turn in range(ROUNDS):
            for part, target, write, read in pairs if turn % 2 == 0 else pairs[::-1]:
                saved[part].append(speed / seconds(write)[0])
                forget(target)
                taken, back = seconds(read)
                loaded[part].append(speed / taken)
                same(arrays, back)
                del back
                target.unlink()
        report(SAVE, "MB/s", name, *saved, bound)
        report(LOAD, "MB/s", name, *loaded)


def beside_raw(arrays: Arrays, raw: Raw) -> None:
    path, speed = FOLDER / "file", BYTES / 1e6
    saved: tuple[list[float], list[float]] = ([], [])
    loaded: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for part in (0, 1) if turn % 2 == 0 else (1, 0):
            write = partial(raw.write, path, BYTES) if part else partial(mmsb.state.save, path, arrays)
            saved[part].append(speed / seconds(write)[0])
            forget(path)
            if part:
                loaded[1].append(speed / max(seconds(partial(raw.read, path))[0], seconds(first_touch)[0]))
            else:
                taken, back = seconds(partial(mmsb.state.load, path))
                loaded[0].append(speed / taken)
                same(arrays, back)
                del back
            path.unlink()
    report(SAVE, "MB/s", "the best raw write, fsync", *saved, 0.85)
    report(LOAD, "MB/s", "the slower of raw read and first touch", *loaded, 0.8)


def second_save(arrays: Arrays, raw: Raw) -> None:
    """Whole saves, and behind each some with 2 % changed; beside each of these a raw write of as many bytes."""
    whole, again, bare = [], [], []
    with mmsb.state.track(arrays) as tracker:
        for _ in range(ROUNDS):
            files = [FOLDER / f"state-{number}" for number in range(2 + ROUNDS)]
            first = 1e9 * seconds(partial(tracker.save, files[0]))[0]
            tracker.save(files[1], files[0])  # the first behind a whole one looks at all pages once
            for number, (base, path) in enumerate(pairwise(files[1:])):
                for array in list(arrays.values())[number::50]:
                    array += 1
                whole.append(first)
                again.append(1e9 * seconds(partial(tracker.save, path, base))[0])
                bare.append(1e9 * seconds(partial(raw.write, FOLDER / "raw", path.stat().st_size))[0])
            same(arrays, mmsb.state.load(files[-1]))
            for path in [*files, FOLDER / "raw"]:
                path.unlink()
    report(AGAIN, "ns", "the whole state; limit: a raw write of what changed", again, whole, 0.05, "at most", bare)


def compared_save(arrays: Arrays) -> None:
    """A program that keeps nothing between its saves: all bytes of the base are read and compared."""
    whole, again = [], []
    for turn in range(ROUNDS):
        files = [FOLDER / f"state-{number}" for number in range(2)]
        whole.append(1e9 * seconds(partial(mmsb.state.save, files[0], arrays))[0])
        for array in list(arrays.values())[turn::50]:
            array += 1
        again.append(1e9 * seconds(partial(mmsb.state.save, files[1], arrays, base=files[0]))[0])
        same(arrays, mmsb.state.load(files[1]))
        for path in files:
            path.unlink()
    report(COMPARED, "ns", "the whole state", again, whole)


def loaded_part(arrays: Arrays) -> None:
    """Some arrays of a file: those of a small tree filled, beside all."""
    path = FOLDER / "state"
    some = {name: np.empty_like(arrays[name]) for name in list(arrays)[::50]}
    whole = {name: np.empty_like(array) for name, array in arrays.items()}
    mmsb.state.save(path, arrays)
    part, all_of_it = [], []
    for _ in range(ROUNDS):
        forget(path)
        part.append(1e9 * seconds(partial(mmsb.state.load_into, path, some, strict=False))[0])
        forget(path)
        all_of_it.append(1e9 * seconds(partial(mmsb.state.load_into, path, whole))[0])
    if any(not np.array_equal(arrays[name], some[name]) for name in some):
        raise SystemExit("bench: what was loaded is not what was saved")
    path.unlink()
    report(PART, "ns", "all arrays", part, all_of_it)


STEP_ROUNDS = ROUNDS if QUICK else 30  # 4000 steps: of 600, the p99 of a loop alone was 10 ms or 30, by the machine's mood


class Loop:
    """A training loop of NumPy: each step computes for some milliseconds, and changes two arrays."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = list(arrays.values())
        self._angles = np.random.default_rng(5).random(400_000)
        self._number = 0

    def step(self) -> float:
        """How long it took."""
        begin = time.perf_counter_ns()
        np.sin(self._angles)
        for _ in range(2):
            self._arrays[self._number % len(self._arrays)] += 1
            self._number += 7
        return time.perf_counter_ns() - begin


def beside_a_loop(arrays: Arrays) -> None:
    """Steps while saves run in the background, and as many without one."""
    loop = Loop(arrays)
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    with mmsb.state.track(arrays) as tracker:
        for turn in range(STEP_ROUNDS):
            path = FOLDER / f"state-{turn}"
            ticket = tracker.save_start(path)
            times = []
            while not ticket.done():
                times.append(loop.step())
            ticket.wait()
            path.unlink()
            ours.append(times)
            theirs.append([loop.step() for _ in times])
    report(STEP, "ns", "the loop without a save", *(percentile(times, 0.99) for times in (ours, theirs)), 1.1, "at most")
    report(LONGEST, "ns", "the loop without a save", *([max(one) for one in times] for times in (ours, theirs)))


def percentile(rounds: list[list[float]], part: float) -> list[float]:
    """That of all rounds together, as a list of one."""
    steps = sorted(step for times in rounds for step in times)
    return [steps[min(len(steps) - 1, int(part * len(steps)))]]


def adopting() -> None:
    many = [np.zeros(100) for _ in range(10_000)]
    pages, tracked = [], []
    for _ in range(ROUNDS):
        with mmsb.Context() as context:
            pages.append(1e9 * seconds(partial(context.adopt_pages, many))[0])
        taken, tracker = seconds(partial(mmsb.state.track, many))
        tracked.append(1e9 * taken)
        tracker.close()
    report(ADOPT, "ns", "state.track of them", pages, tracked)


def main() -> None:
    size = BYTES // COUNT // 8 * 8
    dice = np.random.default_rng(3)
    arrays = {f"layer.{n}": dice.integers(0, 256, size, dtype=np.uint8).view(np.uint64) for n in range(COUNT)}
    raw = Raw()
    if FILTER in SAVE or FILTER in LOAD:
        beside_raw(arrays, raw)
        beside_peers(arrays)
    if FILTER in AGAIN:
        second_save(arrays, raw)
    if FILTER in COMPARED:
        compared_save(arrays)
    if FILTER in PART:
        loaded_part(arrays)
    if FILTER in STEP or FILTER in LONGEST:
        beside_a_loop(arrays)
    if FILTER in ADOPT:
        adopting()


if __name__ == "__main__":
    main()
