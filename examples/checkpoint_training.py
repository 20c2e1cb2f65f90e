"""A training loop that is checkpointed while it runs, and goes on bit for bit after it was killed.

A small network learns to count bits, with NumPy and Adam. Its weights, the optimizer's moments, the state of the random
numbers and the step are one tree; mmsb.state tracks it. Every few steps a save begins and the loop goes on: the save has the
arrays as they are between two steps. Each save writes what has changed since the one before, every tenth is whole again.

    python checkpoint_training.py FOLDER [STEPS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
from mmsb import state

BITS, HIDDEN, BATCH, RATE = 8, 64, 128, 0.003
EVERY, WHOLE = 20, 10  # steps from save to save, and saves of a chain


def begin() -> dict[str, Any]:
    dice = np.random.default_rng(1)
    shapes = {"into": (BITS, HIDDEN), "bias": (HIDDEN,), "out": (HIDDEN, 1)}
    weights = {name: dice.normal(0, 0.5, shape) for name, shape in shapes.items()}
    moments = {name: [np.zeros(shape), np.zeros(shape)] for name, shape in shapes.items()}
    # What a save must have of the same moment is in arrays: numbers in the tree are those of the call that begins the save.
    return {"weights": weights, "moments": moments, "step": np.zeros((), np.int64), "loss": np.zeros(())}


def train(tree: dict[str, Any], context: mmsb.Context) -> None:
    """One step: computes beside a save that runs, and changes arrays in a block that waits for it, or it for the block."""
    weights, step = tree["weights"], int(tree["step"]) + 1
    inputs = np.random.default_rng(step).integers(0, 2, (BATCH, BITS)).astype(float)
    wanted = inputs.mean(axis=1, keepdims=True)
    hidden = np.tanh(inputs @ weights["into"] + weights["bias"])
    error = hidden @ weights["out"] - wanted
    back = (error @ weights["out"].T) * (1 - hidden**2)
    slopes = {"into": inputs.T @ back / BATCH, "bias": back.mean(axis=0), "out": hidden.T @ error / BATCH}
    with context.writing():
        for name, slope in slopes.items():
            first, second = tree["moments"][name]
            first += 0.1 * (slope - first)
            second += 0.001 * (slope**2 - second)
            weights[name] -= RATE * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        tree["step"][...] = step
        tree["loss"][...] = (error**2).mean()


def newest(folder: Path) -> Path | None:
    """The checkpoint with the highest number: a file has its name when it is complete."""
    return max(folder.glob("*.mmsb"), key=lambda path: int(path.stem), default=None)


def main(folder: Path, steps: int) -> float:
    folder.mkdir(parents=True, exist_ok=True)
    tree, last = begin(), newest(folder)
    with state.track(tree) as tracker:
        if last is not None:
            tracker.load(last)
            print(f"goes on behind step {tree['step']}", flush=True)
        saving = None
        while tree["step"] < steps:
            train(tree, tracker.context)
            step = int(tree["step"])
            if step % EVERY == 0:
                if saving is not None:
                    saving.wait()  # the file that the next one rests on
                base = None if step // EVERY % WHOLE == 0 else last
                last = folder / f"{step}.mmsb"
                saving = tracker.save_start(last, base, raw_writes="wait")
        if saving is not None:
            saving.wait()
    print(f"step {tree['step']}: the mean square error is {tree['loss']:.6f}")
    return float(tree["loss"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
