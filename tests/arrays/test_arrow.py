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


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, 2, 3], pa.int64()), np.int64([1, 2, 3])),
        (pa.array([1, 2, 3, 4], pa.uint16())[1:3], np.uint16([2, 3])),
        (pa.array(np.float16([1.5, 2.5])), np.float16([1.5, 2.5])),
        (pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)), np.int32([[1, 2], [3, 4], [5, 6]])),
        (pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2))[1:], np.int32([[3, 4], [5, 6]])),
        (pa.array([b"abc", b"def"], pa.binary(3)), np.frombuffer(b"abcdef", "u1")),
        (pa.array([b"abc", b"def", b"ghi"], pa.binary(3))[2:], np.frombuffer(b"ghi", "u1")),
        (pa.array([[[1.5]], [[2.5]]], pa.list_(pa.list_(pa.float64(), 1), 1)), np.float64([1.5, 2.5])),
        (pa.array([1, None, 3], pa.int8())[2:], np.int8([3])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_an_array_is_a_page(ctx: mmsb.Context, array: pa.Array, expected: np.ndarray) -> None:
    with pytest.raises(mmsb.InvalidStateError, match="read-only"):
        ctx.adopt(array)
    page = ctx.adopt(array, read_only=True)
    del array
    gc.collect()
    assert page.read() == expected.tobytes()
    page.destroy()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array(["text"]), "format of the Arrow array is 'u'"),
        (pa.array([True, False]), "format of the Arrow array is 'b'"),
        (pa.array([1, None]), "format 'l' has 1 nulls"),
        (pa.array([1, None, 3])[1:], "format 'l' has 1 nulls"),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), r"format '\+w:2' has 1 nulls"),
        (pa.array([[1], [2, 3]]), r"format of the Arrow array is '\+l'"),
        (pa.array([{"a": 1}]), r"format of the Arrow array is '\+s'"),
        (pa.array([1, 2]).dictionary_encode(), "format of the Arrow array is 'i' with a dictionary"),
        (pa.array([1], pa.timestamp("ns")), "format of the Arrow array is 'tsn:'"),
        (pa.array([1], pa.decimal128(5)), "format of the Arrow array is 'd:5,0'"),
        (pa.nulls(3), "format of the Arrow array is 'n'"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_what_is_no_numbers(ctx: mmsb.Context, array: pa.Array, message: str) -> None:
    with pytest.raises(mmsb.UnsupportedError, match=message):
        ctx.adopt(array, read_only=True)
    assert len(ctx) == 0
    array.validate(full=True)


def test_memory_goes_back(ctx: mmsb.Context) -> None:
    gc.collect()
    before = pa.total_allocated_bytes()
    array = pa.array(np.arange(1_000_000).reshape(-1, 10).tolist(), pa.list_(pa.int64(), 10))
    page = ctx.adopt(array, read_only=True)
    del array
    gc.collect()
    assert pa.total_allocated_bytes() >= before + 8_000_000
    page.destroy()
    gc.collect()
    assert pa.total_allocated_bytes() == before
