"""JAX's arrays as pages, and pages as JAX's arrays, on the host: `make test-jax`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

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
