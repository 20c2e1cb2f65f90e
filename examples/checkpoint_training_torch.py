"""checkpoint_training.py with PyTorch: a module and its optimizer are saved while they train, and go on bit for bit after a kill.

python checkpoint_training_torch.py FOLDER [STEPS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from checkpoint_training import EVERY, WHOLE, newest
from mmsb import state


def begin() -> dict[str, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # without a slope nothing moves, and the moments are there for a checkpoint to fill
    return {"model": model, "optimizer": optimizer, "step": torch.zeros((), dtype=torch.int64)}


def train(tree: dict[str, Any], context: Any) -> float:
    """One step: slopes are computed beside a save that runs, and what it saves changes in a block that waits for it."""
    dice = torch.Generator().manual_seed(int(tree["step"]))
    inputs = torch.randint(0, 2, (128, 8), generator=dice).float()
    tree["optimizer"].zero_grad()
    loss = (tree["model"](inputs) - inputs.mean(1, keepdim=True)).square().mean()
    loss.backward()
    with context.writing():
        tree["optimizer"].step()
        tree["step"] += 1
    return float(loss.detach())


def main(folder: Path, steps: int) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # sums in the same order each time
    tree, last, saving, loss = begin(), newest(folder), None, 0.0
    with state.track(tree) as tracker:
        if last is not None:
            tracker.load(last)
            print(f"goes on behind step {tree['step']}", flush=True)
        while tree["step"] < steps:
            loss = train(tree, tracker.context)
            step = int(tree["step"])
            if step % EVERY == 0:
                if saving is not None:
                    saving.wait()  # the file that the next one rests on
                base = None if step // EVERY % WHOLE == 0 else last
                last = folder / f"{step}.mmsb"
                saving = tracker.save_start(last, base, raw_writes="wait")
        if saving is not None:
            saving.wait()
    print(f"step {tree['step']}: the mean square error is {loss:.6f}")
    return tree


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
