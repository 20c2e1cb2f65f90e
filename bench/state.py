"""A state of 2 GiB in 1 000 arrays: mmsb.state beside numpy.savez, safetensors and the file that one write gives."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
from numpy.typing import NDArray
from snapshots import BYTES, FILTER, FOLDER, ROUNDS, forget, seconds, sync

COUNT = 1000
NOTE = "2 GiB in 1 000 arrays; each file on disk before the clock stops; megabytes of state"
SAVE, LOAD, AGAIN, ADOPT = (
    "python: state.save, 1 000 arrays",
    "python: state.load, 1 000 arrays",
    "python: state, 2 % changed, tracked",
    "python: adopt_pages, 10 000 arrays",
)

Arrays = dict[str, NDArray[Any]]


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


Peer = tuple[str, Callable[[Path, Arrays], None], Callable[[Path, Arrays], Arrays]]


def peers() -> list[Peer]:
    found: list[Peer] = [("write and read, fsync", raw_save, raw_load), ("numpy.savez and fsync", savez, loadz)]
    try:
        from safetensors.numpy import load_file, save_file
    except ImportError as error:
        print(f"bench: no safetensors: {error}", file=sys.stderr)
        return found

    def tensors_save(path: Path, arrays: Arrays) -> None:
        save_file(arrays, path)
        sync(path)

    return [*found, ("safetensors and fsync", tensors_save, lambda path, _: load_file(path))]


def report(what: str, unit: str, peer: str, ours: list[float], theirs: list[float]) -> None:
    record: dict[str, Any] = {"kind": "row", "what": what, "unit": unit, "peer_name": peer, "note": NOTE}
    record |= {"ours": statistics.median(ours), "peer": statistics.median(theirs)}
    record["ratio"] = statistics.median(a / b for a, b in zip(ours, theirs))
    print(json.dumps(record | {"verdict": "information"}), flush=True)


def same(one: Arrays, other: Arrays) -> None:
    if any(not np.array_equal(one[name], other[name]) for name in list(one)[::100]):
        raise SystemExit("bench: what was loaded is not what was saved")


def beside_peers(arrays: Arrays) -> None:
    ours_path, path, speed = FOLDER / "ours", FOLDER / "peer", BYTES / 1e6
    for name, save, load in peers():
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
        report(SAVE, "MB/s", name, *saved)
        report(LOAD, "MB/s", name, *loaded)


def second_save(arrays: Arrays) -> None:
    whole, again = [], []
    with mmsb.state.track(arrays) as tracker:
        for turn in range(ROUNDS):
            bases = [FOLDER / f"state-{number}" for number in range(3)]
            whole.append(1e9 * seconds(partial(tracker.save, bases[0]))[0])
            tracker.save(bases[1], bases[0])  # the first behind a whole one looks at all pages once
            for array in list(arrays.values())[turn::50]:
                array += 1
            again.append(1e9 * seconds(partial(tracker.save, bases[2], bases[1]))[0])
            same(arrays, mmsb.state.load(bases[2]))
            for base in bases:
                base.unlink()
    report(AGAIN, "ns", "the whole state", again, whole)


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
    if FILTER in SAVE or FILTER in LOAD:
        beside_peers(arrays)
    if FILTER in AGAIN:
        second_save(arrays)
    if FILTER in ADOPT:
        adopting()


if __name__ == "__main__":
    main()
