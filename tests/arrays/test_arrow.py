"""Pages as arrays of pyarrow, on the host: `make test-jax`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import mmsb
import numpy as np
import pyarrow as pa
import pytest


@pytest.fixture
def ctx() -> Iterator[mmsb.Context]:
    with mmsb.Context() as context:
        yield context
    gc.collect()
    assert mmsb.debug_live_objects("tensor") == 0


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_a_page_is_an_array(ctx: mmsb.Context, dtype: str) -> None:
    page = ctx.create_page(4096)
    page.write(0, np.arange(100, dtype=dtype))
    array = pa.array(page.view(dtype))
    array.validate(full=True)
    assert array.type == pa.from_numpy_dtype(np.dtype(dtype)) and array.null_count == 0
    assert array[:100].to_pylist() == list(range(100))
    assert array.to_numpy().ctypes.data == page.address
    part = array[10:20]
    del array
    gc.collect()
    assert page.info().read_pins == 1
    assert part.to_pylist() == list(range(10, 20))
    del part
    gc.collect()
    assert page.info().read_pins == 0


def test_dimensions_are_lists(ctx: mmsb.Context) -> None:
    numbers = np.arange(24, dtype="float32").reshape(2, 3, 4)
    page = ctx.adopt(numbers)
    array = pa.array(page.view("float32", numbers.shape))
    array.validate(full=True)
    assert array.type == pa.list_(pa.list_(pa.float32(), 4), 3)
    assert array.to_pylist() == numbers.tolist()
    inner = array.flatten().flatten()
    del array
    gc.collect()
    assert page.info().read_pins == 1 and inner[23].as_py() == 23
    del inner
    gc.collect()
    page.destroy()


def test_the_forms_of_the_interface(ctx: mmsb.Context) -> None:
    page = ctx.create_page(100)
    assert pa.field(page).type == pa.uint8()
    assert len(pa.array(page)) == 100
    assert len(pa.Array._import_from_c_device_capsule(*page.__arrow_c_device_array__())) == 100
    assert len(pa.Array._import_from_c_capsule(*page.__arrow_c_array__())) == 100
