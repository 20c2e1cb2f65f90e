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


# --------------------------------------------------------------------------------------------------- arrays of others


class Host:
    """What has __arrow_c_array__ only."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        schema, array = self.of.__arrow_c_array__(requested_schema)
        return schema, array


class Device:
    """What has __arrow_c_device_array__, and as all that have it __arrow_c_array__."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __arrow_c_device_array__(self, requested_schema: Any = None, **more: Any) -> tuple[Any, Any]:
        schema, array = self.of.__arrow_c_device_array__(requested_schema, **more)
        return schema, array

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        raise AssertionError("the other one is asked")


@pytest.mark.parametrize("kind", [Host, Device])
def test_an_array_is_adopted(ctx: mmsb.Context, kind: Any) -> None:
    source = ctx.create_page(104)
    source.write(8, bytes(range(96)))
    view = source.view("float32", (2, 3, 4), offset=8, write=False)
    with pytest.raises(mmsb.InvalidStateError, match=r"96 bytes are read-only: adopt it with read_only=True"):
        ctx.adopt(kind(view))
    page = ctx.adopt(kind(view), read_only=True)
    del view
    assert page.read() == bytes(range(96))
    assert page.info().read_only
    with pytest.raises(mmsb.InvalidStateError):
        page.write(0, b"x")
    assert pins(source) == (1, 0)
    page.destroy()
    assert pins(source) == (0, 0)
    pages = ctx.adopt_pages([kind(source), kind(source.view("int8", (4, 26)))], read_only=True)
    assert [page.size for page in pages] == [104, 104]
    ctx.destroy_pages(pages)
    assert pins(source) == (0, 0)


class Made:
    """An array that a program has made by hand. It is released once, and says so."""

    release_array = ctypes.CFUNCTYPE(None, POINTER(Array))
    release_schema = ctypes.CFUNCTYPE(None, POINTER(Schema))
    new = ctypes.PyDLL(None).PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (c_void_p, c_char_p, c_void_p)

    def __init__(self, numbers: Any, format: bytes = b"l", **fields: Any) -> None:
        self.numbers, self.released = numbers, 0
        self.buffers = (c_void_p * 2)(None, ctypes.addressof(numbers))
        self.ends = self.release_array(self._array_ends), self.release_schema(self._schema_ends)
        self.schema = Schema(format, b"", release=ctypes.cast(self.ends[1], c_void_p))
        self.array = DeviceArray(device_id=-1, device_type=1)
        self.array.array = Array(len(numbers), n_buffers=2, buffers=self.buffers, release=ctypes.cast(self.ends[0], c_void_p))
        for name, value in fields.items():
            setattr(self.array if hasattr(DeviceArray, name) else self.array.array, name, value)

    def _array_ends(self, array: Any) -> None:
        array.contents.release = None
        self.released += 1

    def _schema_ends(self, schema: Any) -> None:
        schema.contents.release = None

    names = b"arrow_schema", b"arrow_device_array"

    def __arrow_c_device_array__(self, requested_schema: Any = None, **more: Any) -> tuple[Any, Any]:
        schema, array = (
            self.new(ctypes.addressof(struct), name, None) for struct, name in zip((self.schema, self.array), self.names)
        )
        return schema, array


def test_an_array_is_released_once(ctx: mmsb.Context) -> None:
    made = Made((c_int64 * 4)(1, 2, 3, 4), offset=1, length=3)
    page = ctx.adopt(made, read_only=True)
    assert page.read() == bytes((c_int64 * 3)(2, 3, 4))
    assert (made.array.array.release, made.schema.release, made.released) == (None, None, 0)
    page.destroy()
    assert made.released == 1
    with pytest.raises(mmsb.InvalidArgumentError, match="the Arrow array was released, or moved elsewhere"):
        ctx.adopt(made, read_only=True)
    other = mmsb.Context()
    made = Made((c_int64 * 4)(1, 2, 3, 4))
    other.adopt(made, read_only=True)
    other.close()
    assert made.released == 1


@pytest.mark.parametrize(
    ("format", "fields", "error", "message"),
    [
        (b"u", {}, mmsb.UnsupportedError, "format of the Arrow array is 'u'"),
        (b"b", {}, mmsb.UnsupportedError, "format of the Arrow array is 'b'"),
        (b"tdm", {}, mmsb.UnsupportedError, "format of the Arrow array is 'tdm'"),
        (b"l", {"null_count": 2}, mmsb.UnsupportedError, "format 'l' has 2 nulls"),
        (b"l", {"offset": -1}, mmsb.InvalidSizeError, "offset -1"),
        (b"l", {"length": 2**61}, mmsb.InvalidSizeError, "past all addresses"),
        (b"l", {"length": 0}, mmsb.InvalidSizeError, "0 items"),
        (b"l", {"device_type": 8}, mmsb.UnsupportedError, "device type is 8"),
        (b"l", {"sync_event": 8}, mmsb.InvalidArgumentError, "sync_event"),
        (b"l", {"n_buffers": 3}, mmsb.InvalidArgumentError, "3 buffers"),
    ],
)
def test_what_is_refused_stays_the_programs(
    ctx: mmsb.Context, format: bytes, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    made = Made((c_int64 * 4)(), format, **fields)
    with pytest.raises(error, match=message):
        ctx.adopt(made, read_only=True)
    assert made.released == 0 and made.array.array.release and made.schema.release
    assert len(ctx) == 0


def test_capsules_of_another_name(ctx: mmsb.Context) -> None:
    made = Made((c_int64 * 4)())
    made.names = b"arrow_schema", b"arrow_array"
    with pytest.raises(mmsb.InvalidArgumentError, match="b'arrow_array'; arrow_device_array is needed"):
        ctx.adopt(made, read_only=True)
    made.names = b"dltensor", b"arrow_device_array"
    with pytest.raises(mmsb.InvalidArgumentError, match="b'dltensor'; arrow_schema is needed"):
        ctx.adopt(made, read_only=True)

    class Nothing:
        def __arrow_c_array__(self) -> tuple[None, None]:
            return None, None

    with pytest.raises(mmsb.InvalidArgumentError, match="'NoneType'; arrow_array is needed"):
        ctx.adopt(Nothing(), read_only=True)
    assert made.released == 0


def test_a_producer_of_tensors_that_fails_is_asked_for_an_array(ctx: mmsb.Context) -> None:
    class Both(Host):
        error: Exception = TypeError("no tensor of lists")

        def __dlpack__(self, **more: Any) -> Any:
            raise self.error

    both = Both(ctx.create_page(64))
    assert ctx.adopt(both, read_only=True).size == 64
    both.error = mmsb.UnsupportedError("what this library says")
    with pytest.raises(mmsb.UnsupportedError, match="what this library says"):
        ctx.adopt(both, read_only=True)


@pytest.mark.filterwarnings("ignore::mmsb.SimulatedDeviceWarning")
@pytest.mark.parametrize("location", ["gpu", "unified", "pinned"])
def test_arrays_on_a_device_are_adopted(location: str) -> None:
    with mmsb.Context(simulate="always") as ctx:
        source = ctx.create_page(4096, location=location)
        source.write(0, b"seen")
        page = ctx.adopt(Device(source), read_only=True)
        assert page.read(0, 4) == b"seen"
        assert page.location == ("gpu" if location == "gpu" else "cpu")
        page.destroy()
        stream = ctx.create_runtime(pool="").stream()
        block = stream.allocate(4096)
        stream.copy(block, Device(source))
        assert stream.read(block)[:4] == b"seen"
        with pytest.raises(mmsb.InvalidStateError, match="read-only"):
            stream.copy(Device(source), block)
    gc.collect()
    assert mmsb.debug_live_objects("tensor") == 0
