"""checkpoint_training.py with JAX: its arrays never change, so that a save runs beside the next steps and holds nobody up.

Each step makes new arrays. A save takes those that the tree has when it begins, without a copy, and keeps them until they are
written. So none of them may be given to a function as a buffer to use up (donate_argnums).

    python checkpoint_training_jax.py FOLDER [STEPS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from checkpoint_training import BATCH, BITS, EVERY, HIDDEN, RATE, newest
from mmsb import state

Tree = dict[str, Any]


def begin() -> Tree:
    into, out = jax.random.split(jax.random.PRNGKey(1))
    weights = {
        "into": jax.random.normal(into, (BITS, HIDDEN)) / 2,
        "bias": jnp.zeros(HIDDEN),
        "out": jax.random.normal(out, (HIDDEN, 1)) / 2,
    }
    nothing = jax.tree.map(jnp.zeros_like, weights)
    return {"weights": weights, "first": nothing, "second": nothing, "step": jnp.zeros((), jnp.int32)}


def error(weights: Tree, inputs: jax.Array) -> jax.Array:
    hidden = jnp.tanh(inputs @ weights["into"] + weights["bias"])
    return jnp.square(hidden @ weights["out"] - inputs.mean(axis=1, keepdims=True)).mean()


@jax.jit
def train(tree: Tree) -> tuple[Tree, jax.Array]:
    """One step of Adam. The random numbers follow from the step, which the tree has."""
    step = tree["step"] + 1
    inputs = jax.random.bernoulli(jax.random.fold_in(jax.random.PRNGKey(2), step), 0.5, (BATCH, BITS)).astype(jnp.float32)
    loss, slopes = jax.value_and_grad(error)(tree["weights"], inputs)
    first = jax.tree.map(lambda mean, slope: mean + 0.1 * (slope - mean), tree["first"], slopes)
    second = jax.tree.map(lambda mean, slope: mean + 0.001 * (slope**2 - mean), tree["second"], slopes)
    rates = RATE / (1 - 0.9**step), 1 / (1 - 0.999**step)
    weights = jax.tree.map(
        lambda weight, one, two: weight - rates[0] * one / (jnp.sqrt(two * rates[1]) + 1e-8), tree["weights"], first, second
    )
    return {"weights": weights, "first": first, "second": second, "step": step}, loss


def main(folder: Path, steps: int) -> Tree:
    folder.mkdir(parents=True, exist_ok=True)
    tree, last, saving, loss = begin(), newest(folder), None, jnp.zeros(())
    if last is not None:
        tree = state.load(last, like=tree)  # as JAX's arrays, where those of a new tree are
        print(f"goes on behind step {tree['step']}", flush=True)
    with state.track(tree) as tracker:
        for step in range(int(tree["step"]) + 1, steps + 1):
            fresh, loss = train(tree)
            tree.update(fresh)
            if step % EVERY == 0:
                if saving is not None:
                    saving.wait()
                saving = tracker.save_start(folder / f"{step}.mmsb")
        if saving is not None:
            saving.wait()
    print(f"step {tree['step']}: the mean square error is {float(loss):.6f}")
    return tree


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
