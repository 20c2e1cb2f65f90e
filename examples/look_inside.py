"""Looks into a checkpoint of somebody else: what arrays it has, what is in them, and what differs from another one.

Nothing of the program that wrote it is needed, and nothing of it runs: a checkpoint is data. The arrays are read one after the
other, so that a file may be larger than memory.

    python look_inside.py CHECKPOINT [OTHER]

A file of safetensors or .npz becomes a checkpoint by mmsb.state.import_safetensors or import_npz.
"""

from __future__ import annotations

import sys
from typing import Any

import mmsb
import numpy as np
from mmsb import state

NUMBERS = "iufb"  # the kinds of dtypes that have a smallest and a largest


def describe(array: Any) -> str:
    if array.size == 0 or array.dtype.kind not in NUMBERS:
        return ""
    return f"  {array.min():.4g} … {array.mean():.4g} … {array.max():.4g}{'' if np.isfinite(array).all() else '  not finite'}"


def look(path: str) -> None:
    stored = state.arrays(path)
    total = sum(array.nbytes for array in stored.values())
    print(f"{path}: {len(stored)} arrays of {total} bytes, {len(state.names(path)) - len(stored)} scalars")
    for name, array in stored.items():
        print(f"  {name}  {array.dtype}  {array.shape}{describe(np.asarray(array))}")
    for name in state.names(path):
        if name not in stored:
            print(f"  {name}  {state.load(path, name)!r}")


def value(path: str, name: str, arrays: dict[str, Any]) -> str:
    return "an array" if name in arrays else repr(state.load(path, name))


def compare(path: str, other: str) -> int:
    """Prints what differs, and returns how many names do."""
    ours, theirs = set(state.names(path)), set(state.names(other))
    here, there = state.arrays(path), state.arrays(other)
    different = 0
    for name in sorted(ours | theirs):
        if name not in ours or name not in theirs:
            text = f"only in {path if name in ours else other}"
        elif name not in here or name not in there:
            one, two = (value(p, name, arrays) for p, arrays in ((path, here), (other, there)))
            text = "" if one == two else f"{one} is {two}"
        elif (here[name].dtype, here[name].shape) != (there[name].dtype, there[name].shape):
            text = f"{here[name].dtype} {here[name].shape} is {there[name].dtype} {there[name].shape}"
        else:
            items = np.asarray(here[name]) != np.asarray(there[name])
            text = f"{items.sum()} of {items.size} items differ" if items.any() else ""
        if text:
            different += 1
            print(f"  {name}  {text}")
    print(f"{different} of {len(ours | theirs)} names differ")
    return different


def main(arguments: list[str]) -> int:
    try:
        look(arguments[0])
        return int(len(arguments) > 1 and compare(arguments[0], arguments[1]) > 0)
    except (mmsb.MMSBError, OSError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
