"""A state of PyTorch's tensors: mmsb.state beside torch.save, safetensors and torch.distributed.checkpoint (DCP), and steps of a
loop beside a save in the background. `make bench-torch` runs it; it is no part of `make bench`, as PyTorch has 4 GB.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
import torch
import torch.distributed.checkpoint as checkpoint
from mmsb.state import dcp
from python import there_and_back
from safetensors.torch import save_file
from snapshots import FILTER, FOLDER, QUICK, ROUNDS, seconds, sync
from state import COUNT, NOTE, STEP_ROUNDS, Loop, percentile
from state import report as report_of

BYTES = (16 << 20) if QUICK else (1 << 30)

SAVE, STORED, STEP, LONGEST = (
    "torch: state.save, 1 000 tensors",
    "torch: DCP's save with mmsb.state.dcp.Writer",
    "torch: a step beside a save, p99",
    "torch: a step beside a save, the longest",
)

Tensors = dict[str, Any]
report = partial(report_of, note=NOTE.replace("2 GiB", "1 GiB").replace("arrays", "tensors"))


def torch_save(path: Path, tensors: Tensors) -> None:
    torch.save(tensors, path)
    sync(path)


def tensors_save(path: Path, tensors: Tensors) -> None:
    save_file(tensors, path)
    sync(path)


def dcp_save(path: Path, tensors: Tensors) -> None:
    checkpoint.save(tensors, storage_writer=checkpoint.FileSystemWriter(path), no_dist=True)


def dcp_save_ours(path: Path, tensors: Tensors) -> None:
    checkpoint.save(tensors, storage_writer=dcp.Writer(path), no_dist=True)


def remove(path: Path) -> None:
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    else:
        path.unlink()


def saves(what: str, name: str, bound: float | None, tensors: Tensors, both: list[Callable[[Path, Tensors], None]]) -> None:
    values: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for part in (0, 1) if turn % 2 == 0 else (1, 0):
            path = FOLDER / f"state-{part}"
            values[part].append(BYTES / 1e6 / seconds(partial(both[part], path, tensors))[0])
            remove(path)
    report(what, "MB/s", name, *values, bound)


def beside_a_loop(tensors: Tensors) -> None:
    """Steps from the call that begins a save until the file is there; the first has the call. And as many without a save."""
    loop = Loop({name: tensor.numpy() for name, tensor in tensors.items()})
    steps: dict[str, list[list[float]]] = {"ours": [], "async_save": [], "none": []}

    def run(kind: str, begin: Callable[[], Callable[[], bool]]) -> int:
        taken, done = seconds(begin)
        times = [1e9 * taken + loop.step()]
        while not done():
            times.append(loop.step())
        steps[kind].append(times)
        return len(times)

    with mmsb.state.track(tensors) as tracker:
        for turn in range(STEP_ROUNDS):
            path, folder = FOLDER / f"state-{turn}", FOLDER / f"folder-{turn}"
            count = run("ours", lambda path=path: tracker.save_start(path).done)  # type: ignore[misc]
            remove(path)
            writer = checkpoint.FileSystemWriter(folder)
            save = partial(checkpoint.async_save, tensors, storage_writer=writer, no_dist=True)
            run("async_save", lambda save=save: save().done)  # type: ignore[misc]
            remove(folder)
            steps["none"].append([loop.step() for _ in range(count)])
    for name, bound, aim in (("none", 1.1, "at most"), ("async_save", None, "at most")):
        peer = "the loop without a save" if name == "none" else "DCP's async_save"
        report(STEP, "ns", peer, percentile(steps["ours"], 0.99), percentile(steps[name], 0.99), bound, aim)
        report(LONGEST, "ns", peer, *([max(one) for one in steps[kind]] for kind in ("ours", name)))


def main() -> None:
    there_and_back("PyTorch", torch.from_dlpack, torch.zeros(1 << 20))
    dice = np.random.default_rng(3)
    items = BYTES // COUNT // 8
    tensors = {f"layer.{n}": torch.from_numpy(dice.integers(0, 2**62, items)) for n in range(COUNT)}
    os.makedirs(FOLDER, exist_ok=True)
    if FILTER in SAVE:
        for name, bound, save in (("torch.save and fsync", 2, torch_save), ("safetensors and fsync", 1.5, tensors_save)):
            saves(SAVE, name, bound, tensors, [mmsb.state.save, save])
    if FILTER in STORED:
        saves(STORED, "DCP's FileSystemWriter, which syncs", None, tensors, [dcp_save_ours, dcp_save])
    if FILTER in STEP or FILTER in LONGEST:
        beside_a_loop(tensors)


if __name__ == "__main__":
    main()
