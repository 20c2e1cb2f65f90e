"""Pages as arrays of Arrow: what a consumer reads that knows only the specification. tests/arrays has pyarrow."""

from __future__ import annotations

import ctypes
import gc
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from typing import Any

import mmsb
import pytest
from mmsb._tensor import _is_valid, _pointer


class Schema(ctypes.Structure):
    """ArrowSchema."""


class Array(ctypes.Structure):
    """ArrowArray."""


Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_char_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(Array))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]


class DeviceArray(ctypes.Structure):
    """ArrowDeviceArray."""

    _fields_ = (
        ("array", Array),
        ("device_id", c_int64),
        ("device_type", c_int32),
        ("sync_event", c_void_p),
        ("reserved", c_int64 * 3),
    )


def schema_in(capsule: Any) -> Schema:
    return Schema.from_address(_pointer(capsule, b"arrow_schema"))


def array_in(capsule: Any) -> Array:
    return Array.from_address(_pointer(capsule, b"arrow_array"))


def device_array_in(capsule: Any) -> DeviceArray:
    return DeviceArray.from_address(_pointer(capsule, b"arrow_device_array"))


def release(array: Array) -> None:
    ctypes.CFUNCTYPE(None, c_void_p)(array.release)(ctypes.addressof(array))


def pins(page: mmsb.Page) -> tuple[int, int]:
    gc.collect()
    info = page.info()
    return info.read_pins, info.write_pins


def test_a_page_is_an_array_of_bytes(ctx: mmsb.Context) -> None:
    page = ctx.create_page(100)
    alone = page.__arrow_c_schema__()
    assert schema_in(alone).format == b"C"
    schema, capsule = page.__arrow_c_array__()
    array = array_in(capsule)
    assert (schema_in(schema).format, array.length, array.null_count, array.offset) == (b"C", 100, 0, 0)
    assert (array.n_buffers, array.buffers[0], array.buffers[1]) == (2, None, page.address)
    assert pins(page) == (1, 0)
    with pytest.raises(mmsb.BusyError):
        page.destroy()
    del schema
    assert pins(page) == (1, 0)
    del capsule  # nobody took it
    assert pins(page) == (0, 0)
    page.destroy()


def test_dimensions_are_lists(ctx: mmsb.Context) -> None:
    page = ctx.create_page(104)
    schema, capsule = page.view("float32", (2, 3, 4), offset=8).__arrow_c_device_array__(None)
    found = device_array_in(capsule)
    assert (found.device_type, found.device_id, found.sync_event, list(found.reserved)) == (1, -1, None, [0, 0, 0])
    kind, array = schema_in(schema), found.array
    formats, lengths = [], []
    while True:
        formats.append(kind.format)
        lengths.append(array.length)
        if not kind.n_children:
            break
        kind, array = kind.children[0].contents, array.children[0].contents
    assert (formats, lengths) == ([b"+w:3", b"+w:4", b"f"], [2, 6, 24])
    assert array.buffers[1] == page.view(offset=8).address


def test_who_takes_an_array_ends_it(ctx: mmsb.Context) -> None:
    page = ctx.create_page(100)
    schema, capsule = page.__arrow_c_array__()
    mine = Array.from_buffer_copy(array_in(capsule))
    array_in(capsule).release = None
    del capsule, schema
    assert pins(page) == (1, 0)
    release(mine)
    assert mine.release is None
    assert pins(page) == (0, 0)
    _schema, capsule = page.__arrow_c_device_array__()
    release(device_array_in(capsule).array)  # who reads it where it is may do so, too
    assert pins(page) == (0, 0)
    assert mmsb.debug_live_objects("tensor") == 0


def test_read_only_pages_and_views_that_write(ctx: mmsb.Context) -> None:
    page = ctx.adopt(b"read-only", read_only=True)
    _schema, capsule = page.__arrow_c_array__()
    assert ctypes.string_at(array_in(capsule).buffers[1], 9) == b"read-only"
    other = ctx.create_page(64)
    view = other.view("int64", write=True)
    _schema, shown = view.__arrow_c_array__()
    assert pins(other) == (1, 1)
    version = other.version
    del shown
    assert pins(other) == (0, 1) and other.version == version  # nobody has written by it


@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "message"),
    [
        ("bool", None, None, "type code is 6 with 8 bits"),
        ("bfloat16", None, None, "type code is 4 with 16 bits"),
        ("complex64", None, None, "type code is 5 with 64 bits"),
        ("uint8", (2, 3), (1, 2), "row by row"),
    ],
)
def test_what_arrow_does_not_have(ctx: mmsb.Context, dtype: str, shape: Any, strides: Any, message: str) -> None:
    page = ctx.create_page(64)
    view = page.view(dtype, shape, strides=strides, write=False)
    for refused in (view.__arrow_c_array__, view.__arrow_c_device_array__):
        with pytest.raises(mmsb.UnsupportedError, match=message):
            refused()
    assert pins(page) == (1, 0)
    with pytest.raises(NotImplementedError, match="rows"):
        view.__arrow_c_device_array__(None, rows=3, other=None)


@pytest.mark.filterwarnings("ignore::mmsb.SimulatedDeviceWarning")
def test_memory_of_a_device() -> None:
    with mmsb.Context(simulate="always") as ctx:
        page = ctx.create_page(4096, location="gpu")
        _schema, capsule = page.__arrow_c_device_array__()
        found = device_array_in(capsule)
        assert (found.device_type, found.device_id, found.sync_event) == (2, 0, None)
        with pytest.raises(mmsb.UnsupportedError, match="lies on gpu 0"):
            page.__arrow_c_array__()
        del capsule


@pytest.mark.filterwarnings("ignore::mmsb.SimulatedDeviceWarning")
@pytest.mark.parametrize(("pool", "kind"), [("source:plain", 2), ("source:pinned", 3)])
def test_blocks(pool: str, kind: int) -> None:
    with mmsb.Context(simulate="always") as ctx:
        stream = ctx.create_runtime(pool=pool).stream()
        block = stream.allocate(4000)
        with stream.use((block, "write")):
            stream.fill(block, 7)
        schema, capsule = block.view("float32", (10, 100)).__arrow_c_device_array__()
        found = device_array_in(capsule)
        assert (found.device_type, found.array.length, schema_in(schema).format) == (kind, 10, b"+w:100")
        if kind == 3:
            assert set(ctypes.string_at(block.address, 4000)) == {7}
            assert _is_valid(block.__arrow_c_array__()[1], b"arrow_array")
        alone = block.__arrow_c_schema__()
        assert schema_in(alone).format == b"C"
        assert _is_valid(block.__arrow_c_device_array__()[1], b"arrow_device_array")
        block.free()
        del capsule
    gc.collect()
    assert mmsb.debug_live_objects("tensor") == 0
