"""JAX's arrays as pages, and pages as JAX's arrays, on the host: `make test-jax`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import mmsb
import numpy as np
import pytest


@pytest.fixture
def ctx() -> Iterator[mmsb.Context]:
    with mmsb.Context() as context:
        yield context
    gc.collect()
    assert mmsb.debug_live_objects("tensor") == 0


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64", "bfloat16", "float8_e4m3fn"])
def test_an_array_is_a_page(ctx: mmsb.Context, dtype: str) -> None:
    array = jnp.ones((3, 40), dtype=dtype)
    page = ctx.adopt(array, read_only=True)
    assert page.size == array.nbytes
    assert page.address == array.unsafe_buffer_pointer()
    assert page.read() == np.asarray(array).tobytes()
    address = page.address
    del array
    gc.collect()
    assert page.address == address and page.read(0, 4) != bytes(4)


def test_an_array_that_never_changes_is_not_written(ctx: mmsb.Context) -> None:
    with pytest.raises(mmsb.InvalidStateError, match="48 bytes are read-only"):
        ctx.adopt(jnp.zeros((3, 4), dtype="float32"))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "float8_e4m3fn"])
def test_a_page_is_an_array(ctx: mmsb.Context, dtype: str) -> None:
    page = ctx.create_page(1 << 16)
    page.write(0, b"\1" * 64)
    view = page.view(dtype)
    shown = page.view(dtype, (16, view.shape[0] // 16))
    array = jax.dlpack.from_dlpack(shown)
    assert array.dtype == jnp.dtype(dtype) and array.shape == shown.shape
    assert array.unsafe_buffer_pointer() == page.address
    assert np.asarray(array).tobytes() == page.read()
    del view, shown
    gc.collect()
    assert page.info().write_pins == 1
    assert float(jnp.sum(array[0, :8].astype("float32"))) > 0
    del array
    gc.collect()
    assert page.info().write_pins == 0


def test_no_byte_moves_there_and_back(ctx: mmsb.Context) -> None:
    page = ctx.create_page(1 << 20)
    again = ctx.adopt(jax.dlpack.from_dlpack(page.view("float32")), read_only=True)
    assert again.address == page.address
    page.write(0, b"later")
    assert again.read(0, 5) == b"later"
    again.destroy()


def test_a_state_of_jax_comes_back_as_it_was(tmp_path: Path) -> None:
    types = ["float32", "int32", "bool", "complex64", "bfloat16", "float8_e4m3fn"]
    model = {dtype: jnp.arange(12).reshape(3, 4).astype(dtype) for dtype in types}
    tree = {"model": model, "step": 3, "scalar": jnp.float32(1.5)}
    mmsb.state.save(tmp_path / "a", tree)
    like = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if isinstance(leaf, jax.Array) else 0, tree)
    back = mmsb.state.load(tmp_path / "a", like=like)
    assert jax.tree.structure(back) == jax.tree.structure(tree) and back["step"] == 3
    for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(tree)):
        assert type(one) is type(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype and np.asarray(one).tobytes() == np.asarray(other).tobytes()
    asked = mmsb.state.load(tmp_path / "a", "model/float32", convert=jnp.asarray)
    assert isinstance(asked, jax.Array)
    with pytest.raises(mmsb.InvalidStateError, match="7 of the tree's arrays cannot be written"):
        mmsb.state.load_into(tmp_path / "a", tree)


def test_a_tracked_state_of_jax_is_replaced_step_by_step(tmp_path: Path) -> None:
    tree = {"w": jnp.zeros((100, 100)), "frozen": jnp.ones(1 << 20, dtype="int8")}
    with mmsb.state.track(tree) as tracker:
        last = None
        for step in range(4):
            tree["w"] = tree["w"] + step
            tracker.save(tmp_path / f"{step}", last)
            last = tmp_path / f"{step}"
            back = mmsb.state.load(last)
            assert back["w"].tobytes() == np.asarray(tree["w"]).tobytes()
        assert len(tracker.context) == 3
    assert (tmp_path / "3").stat().st_size < 200_000 < (tmp_path / "0").stat().st_size
    del back
    gc.collect()
