"""Arrays of other libraries as pages, and pages as theirs: DLPack, array interfaces, buffers."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any

import mmsb
import numpy as np
import pytest
from conftest import RunPython
from mmsb._tensor import _NAMES, _new, _Tensor, _Versioned, tensor_in


def pins(page: mmsb.Page) -> tuple[int, int]:
    gc.collect()
    info = page.info()
    return info.read_pins, info.write_pins


# ------------------------------------------------------------------------------------------------------------ out


def test_numpy_takes_a_page(ctx: mmsb.Context) -> None:
    page = ctx.create_page(1000)
    array = np.from_dlpack(page)
    assert array.dtype == np.uint8 and array.shape == (1000,) and array.flags.writeable
    assert array.ctypes.data == page.address
    array[3] = 7
    assert page[3] == 7
    assert pins(page) == (0, 1)
    assert mmsb.debug_live_objects("tensor") == 1
    for act in (page.destroy, lambda: page.resize(5), lambda: page.migrate("disk")):
        with pytest.raises(mmsb.BusyError):
            act()
    del array
    assert pins(page) == (0, 0)
    page.destroy()


def test_views_have_types_and_shapes(ctx: mmsb.Context) -> None:
    page = ctx.create_page(1024)
    view = page.view("float32", (4, 8), offset=64)
    assert isinstance(view, mmsb.View)
    assert (view.shape, view.strides, view.dtype, view.nbytes, view.read_only) == ((4, 8), (8, 1), "float32", 128, False)
    assert view.page == page and view.address - 64 == page.address
    assert "float32 (4, 8)" in repr(view)
    arrays = [np.from_dlpack(view), np.asarray(view), view.__array__()]
    arrays.append(np.frombuffer(view.memory(), dtype="f4").reshape(4, 8))
    arrays[0][3, 7] = 1.5
    for array in arrays:
        assert array.dtype == np.float32 and array.shape == (4, 8) and array.flags.writeable
        assert array.ctypes.data == view.address
        assert array[3, 7] == 1.5
    del view, array
    assert pins(page)[1] > 0
    del arrays
    assert pins(page) == (0, 0)
    assert page.view(np.float64).shape == (128,)
    assert page.view(np.dtype("<i2"), (2,)).dtype == "int16"
    assert page.view("c8", ()).shape == ()
    assert np.asarray(page.view("bool", (3,))).dtype == np.bool_
    assert page.view("torch.bfloat16").nbytes == 1024
    assert page.view("uint8", (0, 5)).nbytes == 0
    columns = page.view("int32", (4, 8), strides=(1, 4))
    assert np.from_dlpack(columns).flags.f_contiguous
    assert np.asarray(columns).strides == (4, 16)
    with pytest.raises(BufferError, match="strides"):
        columns.memory()
    with pytest.raises(BufferError, match="bfloat16"):
        page.view("bfloat16").memory()
    with pytest.raises(AttributeError, match="DLPack"):
        _ = page.view("bfloat16").__array_interface__
    assert np.asarray(page.view("bfloat16")).dtype.name == "bfloat16"
    scalar = page.view("float64", (), offset=8)
    page.write(8, np.array([7.5]))
    assert scalar.memory()[()] == np.asarray(scalar) == 7.5
    with pytest.raises(TypeError, match="copied"):
        import copy

        copy.copy(columns)
    with pytest.raises(ValueError, match="copy"):
        columns.__array__(np.float32, copy=False)
    assert columns.__array__(np.float32).dtype == np.float32


def test_views_that_nobody_writes_through(ctx: mmsb.Context) -> None:
    page = ctx.create_page(64)
    view = page.view("u1", write=False)
    version = page.version
    assert view.read_only and pins(page) == (1, 0)
    assert not np.asarray(view).flags.writeable
    assert not np.from_dlpack(view).flags.writeable
    assert view.memory().readonly
    with pytest.raises(BufferError, match="read-only"):
        view.__dlpack__()
    with pytest.raises(BufferError, match="read-only"):
        view.__buffer__(1)
    assert view.__buffer__(0).readonly
    del view
    assert pins(page) == (0, 0) and page.version == version
    frozen = ctx.adopt(b"constant", read_only=True)
    assert frozen.view().read_only
    assert np.from_dlpack(frozen).tobytes() == b"constant"
    with pytest.raises(BufferError, match=r"1\.0"):
        frozen.__dlpack__()
    with pytest.raises(mmsb.InvalidStateError):
        frozen.view(write=True)
    assert pins(frozen) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"dtype": "float32", "shape": (17,)}, mmsb.OutOfRangeError, "64"),
        ({"dtype": "float32", "offset": 61}, mmsb.MismatchError, "61"),
        ({"offset": 65, "shape": (0,)}, mmsb.OutOfRangeError, "65"),
        ({"offset": -1}, mmsb.InvalidArgumentError, "-1"),
        ({"offset": 2**64}, mmsb.InvalidArgumentError, str(2**64)),
        ({"shape": (-1,)}, mmsb.InvalidSizeError, "-1"),
        ({"shape": (2**63,)}, mmsb.InvalidSizeError, str(2**63)),
        ({"shape": (2**62, 2)}, mmsb.InvalidSizeError, "more than"),
        ({"shape": (1,) * 65}, mmsb.InvalidArgumentError, "65"),
        ({"shape": ("a",)}, mmsb.InvalidArgumentError, "integers"),
        ({"shape": (2, 2), "strides": (1,)}, mmsb.MismatchError, "strides has 1"),
        ({"strides": (1,)}, mmsb.MismatchError, "shape has 0"),
        ({"shape": (2, 2), "strides": (-2, 1)}, mmsb.UnsupportedError, "-2"),
        ({"shape": (2, 2), "strides": (1, 1)}, mmsb.UnsupportedError, "overlap"),
        ({"dtype": "object"}, mmsb.InvalidArgumentError, "object"),
        ({"dtype": ">f4"}, mmsb.InvalidArgumentError, ">f4"),
        ({"dtype": np.dtype([("a", "f4")])}, mmsb.InvalidArgumentError, "structured"),
    ],
)
def test_views_that_a_page_does_not_have(ctx: mmsb.Context, arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    page = ctx.create_page(64)
    with pytest.raises(error, match=text):
        page.view(**arguments)
    assert pins(page) == (0, 0)


def test_what_consumers_ask_for(ctx: mmsb.Context) -> None:
    page = ctx.create_page(64)
    for lent in (page, page.view()):
        assert lent.__dlpack_device__() == (1, 0)
        assert '"dltensor"' in repr(lent.__dlpack__())
        assert '"dltensor"' in repr(lent.__dlpack__(max_version=(0, 8)))
        assert '"dltensor_versioned"' in repr(lent.__dlpack__(max_version=(1, 3), dl_device=(1, 0), copy=False))
        with pytest.raises(BufferError, match="copy"):
            lent.__dlpack__(copy=True)
        with pytest.raises(BufferError, match="dl_device"):
            lent.__dlpack__(dl_device=(2, 0))
        with pytest.raises(mmsb.InvalidArgumentError, match="stream"):
            lent.__dlpack__(stream=1)
    del lent
    assert pins(page) == (0, 0)  # capsules that nobody used have given their tensors back


def test_pages_on_devices() -> None:
    with mmsb.Context(simulate="always", simulated_devices=2) as ctx:
        with pytest.warns(mmsb.SimulatedDeviceWarning) if not mmsb.page._warned else contextlib_nothing():
            page = ctx.create_page(4096, location="gpu", device=1)
        assert page.__dlpack_device__() == (2, 1)
        view = page.view("f4", (32, 32))
        assert view.__dlpack_device__() == (2, 1)
        assert view.__cuda_array_interface__ == {
            "shape": (32, 32),
            "typestr": "<f4",
            "data": (page.address, False),
            "strides": None,
            "version": 3,
            "stream": None,
        }
        assert page.view("f4", (2, 2), strides=(1, 2)).__cuda_array_interface__["strides"] == (4, 8)
        assert not hasattr(view, "__array_interface__")
        with pytest.raises(AttributeError, match="gpu 1"):
            np.asarray(view)
        assert not hasattr(page.view("bfloat16"), "__cuda_array_interface__")
        for stream in (None, -1, 1, 2, 12345):
            assert "dltensor" in repr(view.__dlpack__(stream=stream))
        for wrong in (0, -2, True, "1"):
            with pytest.raises(mmsb.InvalidArgumentError, match="stream"):
                view.__dlpack__(stream=wrong)  # type: ignore[arg-type]
        with pytest.raises(mmsb.UnsupportedError, match="gpu 1"):
            view.memory()
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(view)
        page.write(0, b"twice")
        for lent in (view, page, page.__dlpack__(max_version=(1, 0))):
            assert ctx.adopt(lent).read(0, 5) == b"twice"
        for location, named in (("pinned", 1), ("unified", 13), ("disk", 1)):
            other = ctx.create_page(64, location=location)
            for lent in (other, other.view()):
                assert lent.__dlpack_device__() == (named, 0)
                capsule = lent.__dlpack__()
                assert tensor_in(capsule).device_type == named
                # PyTorch and JAX know pinned memory as the host's only, and managed memory as a GPU's.
                for asked in {"pinned": (1, 3), "unified": (1, 2, 13), "disk": (1,)}[location]:
                    for version in (None, (1, 0)):
                        capsule = lent.__dlpack__(max_version=version, dl_device=(asked, 0))
                        tensor = tensor_in(capsule)
                        assert (tensor.device_type, tensor.device_id) == (asked, 0)
                for refused in {"pinned": ((2, 0), (3, 1)), "unified": ((3, 0), (2, 1)), "disk": ((2, 0),)}[location]:
                    with pytest.raises(BufferError, match="dl_device is"):
                        lent.__dlpack__(dl_device=refused)
            del capsule, lent
            array = np.from_dlpack(other)
            array[:] = 9
            again = ctx.adopt(other.__dlpack__())
            assert again.read() == b"\x09" * 64
            assert hasattr(other.view(), "__cuda_array_interface__") == (location == "unified")
            assert np.asarray(other.view())[5] == 9
            again.destroy()


def contextlib_nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_a_view_outlives_its_context() -> None:
    ctx = mmsb.Context()
    array = np.from_dlpack(ctx.create_page(100000).view("f8"))
    ctx.close()
    array[:] = 2.5
    assert array.sum() == 2.5 * 12500
    assert mmsb.debug_live_objects("memory") == 1
    del array
    gc.collect()
    assert mmsb.debug_live_objects("memory") == 0


# ------------------------------------------------------------------------------------------------------------- in


class Producer:
    """An array that has nothing but DLPack."""

    def __init__(self, array: Any, old: bool = False, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device
        if old:
            self.__class__ = OldProducer

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, max_version: Any = None) -> Any:
        capsule = self.array.__dlpack__(max_version=max_version)
        tensor = tensor_in(capsule)
        tensor.device_type, tensor.device_id = self.device
        return capsule


class OldProducer(Producer):
    """One of before DLPack 1.0."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_array_with_dlpack_is_adopted(ctx: mmsb.Context, old: bool, order: Any) -> None:
    array = np.arange(12, dtype="f4").reshape(3, 4).copy(order)
    page = ctx.adopt(Producer(array, old), id=7)
    assert (page.id, page.size, page.address) == (7, 48, array.ctypes.data)
    page.write(0, np.array([42], np.float32))
    assert array[0, 0] == 42
    address = array.ctypes.data
    del array
    gc.collect()
    assert page.address == address and page.read(4, 4) != b""
    page.destroy()


def test_several_protocols_in_one_call(ctx: mmsb.Context) -> None:
    arrays = [np.zeros(10, "f8"), np.zeros((2, 3), order="F"), np.zeros(4, "M8[ns]"), np.zeros(5, "i4")]
    pages = ctx.adopt_pages([bytearray(3), arrays[0], arrays[1], arrays[2], Producer(arrays[3]), arrays[0]])
    assert [page.size for page in pages] == [3, 80, 48, 32, 20, 80]
    pages[5].write(8, np.array([3.0]))
    assert arrays[0][1] == 3
    ctx.destroy_pages(pages)
    with pytest.raises(mmsb.InvalidSizeError) as caught:
        ctx.adopt_pages([arrays[0], np.zeros(0)])
    assert caught.value.index == 1
    with pytest.raises(mmsb.MismatchError, match="ids has 1"):
        ctx.adopt_pages(arrays, ids=[1])
    assert len(ctx.adopt_pages([])) == 0 and len(ctx) == 0


class Weak(np.ndarray):
    """Can be referred to weakly."""


def test_memoryviews_are_adopted(ctx: mmsb.Context) -> None:
    memory = bytearray(16)
    page = ctx.adopt(memoryview(memory).cast("I", (2, 2)))
    page.write(0, memoryview(b"new"))
    assert memory[:3] == b"new"
    with pytest.raises(mmsb.InvalidStateError, match="2 bytes are read-only"):
        ctx.adopt(memoryview(b"ab"))
    with pytest.raises(BufferError):
        ctx.adopt(memoryview(memory)[::2])
    page.destroy()


def test_what_was_adopted_is_let_go_page_by_page(ctx: mmsb.Context) -> None:
    import weakref

    arrays = [np.zeros(100).view(Weak) for _ in range(50)]
    references = [weakref.ref(array) for array in arrays]
    pages = ctx.adopt_pages(arrays)
    del arrays
    gc.collect()
    assert all(reference() is not None for reference in references)
    for page, reference in zip(pages, references):
        page.destroy()
        gc.collect()
        assert reference() is None


def test_one_memory_can_be_adopted_more_than_once(ctx: mmsb.Context) -> None:
    """Each page lets its own object go."""
    import weakref

    whole = np.arange(100.0)
    views = [whole.view(Weak) for _ in range(3)]
    references = [weakref.ref(view) for view in views]
    with pytest.raises(mmsb.AlreadyExistsError) as error:
        ctx.adopt_pages(views, True, ids=[7, 8, 7])
    assert error.value.index == 2
    del error
    pages = ctx.adopt_pages(views, read_only=True, ids=[7, 8, 9])
    del views
    assert [page.id for page in pages] == [7, 8, 9]
    for number, page in enumerate(pages):
        page.destroy()
        gc.collect()
        assert [reference() is None for reference in references] == [other <= number for other in range(3)]


def test_capsules_are_used_once(ctx: mmsb.Context) -> None:
    array = np.arange(10, dtype="u1")
    for version in (None, (1, 0)):
        capsule = array.__dlpack__(max_version=version)
        page = ctx.adopt(capsule)
        assert page.read() == bytes(range(10))
        with pytest.raises(mmsb.InvalidArgumentError, match="a consumer has used it"):
            ctx.adopt(capsule)
        del capsule
        gc.collect()
        assert page.read() == bytes(range(10))
        page.destroy()
        used = array.__dlpack__(max_version=version)
        np.from_dlpack(Given(used))
        with pytest.raises(mmsb.InvalidArgumentError, match="used_dltensor"):
            ctx.adopt(used)
    other = ctx.create_page(5, id=9)
    capsule = array.__dlpack__(max_version=(1, 0))
    with pytest.raises(mmsb.AlreadyExistsError):
        ctx.adopt(capsule, id=9)
    with pytest.raises(mmsb.AlreadyExistsError):
        ctx.adopt_pages([bytearray(4), capsule], ids=[8, 9])
    with pytest.raises(mmsb.InvalidArgumentError, match="used"):
        ctx.adopt_pages([capsule, capsule])
    ctx.adopt(capsule).destroy()  # what failed has not used it
    other.destroy()
    with pytest.raises(mmsb.InvalidArgumentError, match="datetime_CAPI"):
        from datetime import datetime_CAPI

        ctx.adopt(datetime_CAPI)


class Given:
    """Gives a capsule that there is."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


def test_arrays_that_lie_elsewhere(ctx: mmsb.Context) -> None:
    array = np.zeros(10)
    for device, text in (((4, 1), "device type is 4"), ((8, 0), "type is 8"), ((0, 0), "type is 0")):
        with pytest.raises(mmsb.UnsupportedError, match=text):
            ctx.adopt(Producer(array, device=device))
    frozen = np.zeros(10)
    frozen.flags.writeable = False
    with pytest.raises(mmsb.InvalidStateError, match="80 bytes are read-only"):
        ctx.adopt(frozen)
    with pytest.raises(mmsb.InvalidStateError, match="80 bytes are read-only"):
        ctx.adopt(Producer(frozen))
    assert ctx.adopt(Producer(frozen), read_only=True).info().read_only
    with pytest.raises(TypeError, match="__dlpack__"):
        ctx.adopt(object())
    with pytest.raises(TypeError, match="Python objects"):
        ctx.adopt(np.array([object()]))


Field = Callable[[_Versioned], None]


def tensor(change: Field, memory: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Any:
    """A capsule whose tensor has no deleter, and is changed."""
    words = ctypes.c_int64 * len(shape)
    managed = _Versioned(1, 0, None, None, 0)
    managed.tensor = _Tensor(ctypes.addressof(memory), 1, 0, len(shape), 2, 32, 1, words(*shape), None, 0)
    if strides is not None:
        managed.tensor.strides = words(*strides)
    change(managed)
    kept.append(managed)
    return _new(ctypes.addressof(managed), _NAMES[b"dltensor_versioned"], None)


kept: list[Any] = []


def change(**fields: int) -> Field:
    def do(managed: _Versioned) -> None:
        for name, value in fields.items():
            setattr(managed if hasattr(managed, name) else managed.tensor, name, value)

    return do


@pytest.mark.parametrize(
    ("what", "shape", "strides", "error", "text"),
    [
        (change(major=2), (4,), (1,), mmsb.FormatError, "2.0"),
        (change(device_type=2), (4,), (1,), mmsb.NoDeviceError, "driver"),
        (change(device_type=77), (4,), (1,), mmsb.UnsupportedError, "77"),
        (change(ndim=-1), (4,), (1,), mmsb.InvalidArgumentError, "-1"),
        (change(ndim=65), (4,), (1,), mmsb.InvalidArgumentError, "65"),
        (change(bits=3), (4,), (1,), mmsb.UnsupportedError, "3 bits"),
        (change(code=3), (4,), (1,), mmsb.UnsupportedError, "code is 3"),
        (change(code=99), (4,), (1,), mmsb.UnsupportedError, "code is 99"),
        (change(flags=2), (4,), (1,), mmsb.UnsupportedError, "copy of 16 bytes"),
        (change(flags=1), (4,), (1,), mmsb.InvalidStateError, "read-only"),
        (change(byte_offset=2**64 - 8), (4,), (1,), mmsb.InvalidSizeError, "addresses"),
        (change(data=0), (4,), (1,), mmsb.InvalidSizeError, "0x0"),
        (change(), (-4,), (1,), mmsb.InvalidSizeError, "-4"),
        (change(), (0,), (1,), mmsb.InvalidSizeError, "0 items"),
        (change(), (2**62, 4), None, mmsb.InvalidSizeError, "more than"),
        (change(), (2**61,), None, mmsb.InvalidSizeError, "addresses"),
        (change(), (4,), (-1,), mmsb.UnsupportedError, "-1"),
        (change(), (4,), (0,), mmsb.UnsupportedError, "at least 1"),
        (change(), (2, 2), (1, 1), mmsb.UnsupportedError, "overlap"),
        (change(), (2, 2), (4, 1), mmsb.UnsupportedError, "gaps"),
    ],
)
def test_tensors_that_lie(
    ctx: mmsb.Context, what: Field, shape: tuple[int, ...], strides: tuple[int, ...], error: type[Exception], text: str
) -> None:
    memory = (ctypes.c_float * 16)()
    capsule = tensor(what, memory, shape, strides)
    for _ in range(2):  # the second time it has not been used either
        with pytest.raises(error, match=text):
            ctx.adopt(capsule)
    assert len(ctx) == 0
    good = ctx.adopt(tensor(change(byte_offset=16), memory, (3, 4), (1, 3)))
    assert (good.size, good.address) == (48, ctypes.addressof(memory) + 16)


class Shown:
    """Has an array interface, true or not."""

    def __init__(self, name: str, **fields: Any) -> None:
        found = {"version": 3, "typestr": "<f4", **fields}
        setattr(self, name, {key: value for key, value in found.items() if value is not ...})


memory_64 = (ctypes.c_ubyte * 64)()
HERE = (ctypes.addressof(memory_64), False)


def test_array_interfaces_are_adopted(ctx: mmsb.Context) -> None:
    host = "__array_interface__"
    page = ctx.adopt(Shown(host, shape=(2, 8), data=HERE))
    assert (page.size, page.address) == (64, HERE[0])
    assert ctx.adopt(Shown(host, shape=(2, 8), strides=(4, 8), data=HERE)).size == 64
    assert ctx.adopt(Shown(host, shape=(), typestr="<f8", data=HERE)).size == 8
    assert ctx.adopt(Shown(host, shape=(3,), typestr="<U2", data=HERE)).size == 24
    buffer = bytearray(range(64))
    page = ctx.adopt(Shown(host, shape=(4,), data=buffer, offset=8))
    assert page.read() == bytes(range(8, 24))
    frozen = Shown(host, shape=(4,), data=(HERE[0], True))
    with pytest.raises(mmsb.InvalidStateError, match="16 bytes are read-only"):
        ctx.adopt(frozen)
    assert ctx.adopt(frozen, read_only=True).info().read_only
    with pytest.raises(mmsb.NoDeviceError):
        ctx.adopt(Shown("__cuda_array_interface__", shape=(16,), data=HERE, stream=None))


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"shape": ...}, mmsb.InvalidArgumentError, "shape"),
        ({"typestr": ...}, mmsb.InvalidArgumentError, "typestr"),
        ({"typestr": "|O8"}, mmsb.InvalidArgumentError, "O8"),
        ({"typestr": "<f0"}, mmsb.InvalidSizeError, "0 items"),
        ({"typestr": f"<f{2**64}"}, mmsb.InvalidSizeError, str(2**64)),
        ({"version": 2}, mmsb.InvalidArgumentError, "version"),
        ({"version": ...}, mmsb.InvalidArgumentError, "version"),
        ({"mask": object()}, mmsb.UnsupportedError, "mask"),
        ({"shape": (-1,)}, mmsb.InvalidSizeError, "-1"),
        ({"shape": (0,)}, mmsb.InvalidSizeError, "0 items"),
        ({"shape": (2**70,)}, mmsb.InvalidSizeError, str(2**70)),
        ({"shape": (2**40, 2**40)}, mmsb.InvalidSizeError, "more than"),
        ({"shape": 5}, mmsb.InvalidArgumentError, "shape"),
        ({"shape": (1,) * 64}, mmsb.InvalidArgumentError, "64"),
        ({"strides": (8,)}, mmsb.UnsupportedError, "gaps"),
        ({"strides": (-4,)}, mmsb.UnsupportedError, "-4"),
        ({"strides": (2,)}, mmsb.UnsupportedError, "overlap"),
        ({"strides": (4, 4)}, mmsb.MismatchError, "2 in strides"),
        ({"data": (2**64 - 8, False)}, mmsb.InvalidSizeError, "addresses"),
        ({"data": (2**64, False)}, mmsb.InvalidSizeError, str(2**64)),
        ({"data": (-1, False)}, mmsb.InvalidSizeError, "-1"),
        ({"data": (0, False)}, mmsb.InvalidSizeError, "0x0"),
        ({"data": None}, mmsb.InvalidArgumentError, "NoneType"),
    ],
)
@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
def test_interfaces_that_lie(ctx: mmsb.Context, name: str, fields: dict[str, Any], error: type[Exception], text: str) -> None:
    if "version" in fields and "cuda" in name:
        fields = {"version": "3"}
    with pytest.raises(error, match=text):
        ctx.adopt(Shown(name, **{"shape": (4,), "data": HERE, **fields}))
    assert len(ctx) == 0


def test_what_only_one_interface_has(ctx: mmsb.Context) -> None:
    host, cuda = "__array_interface__", "__cuda_array_interface__"
    for offset in (-1, 65):
        with pytest.raises(mmsb.OutOfRangeError, match=f"{offset}, and its data has 64"):
            ctx.adopt(Shown(host, shape=(4,), data=bytearray(64), offset=offset))
    with pytest.raises(mmsb.OutOfRangeError, match="has 16 bytes, and its data has 8 from offset 56"):
        ctx.adopt(Shown(host, shape=(4,), data=bytearray(64), offset=56))
    for stream in (0, "one"):
        with pytest.raises(mmsb.InvalidArgumentError, match="stream"):
            ctx.adopt(Shown(cuda, shape=(4,), data=HERE, stream=stream))
    shown = Shown(host, shape=(4,), data=HERE)
    shown.__array_interface__ = 5  # type: ignore[attr-defined]
    with pytest.raises(mmsb.InvalidArgumentError, match="not a dict"):
        ctx.adopt(shown)


# ---------------------------------------------------------------------------------------------------- there and back


def test_no_byte_moves_there_and_back(ctx: mmsb.Context) -> None:
    page = ctx.create_page(1 << 22)
    again = ctx.adopt(np.from_dlpack(page.view("f4", (1024, 1024))))
    third = ctx.adopt(again.__dlpack__(max_version=(1, 0)))
    assert page.address == again.address == third.address
    third.write(5, b"x")
    assert page[5] == ord("x")
    for last in (third, again):
        last.destroy()
    assert pins(page) == (0, 0)


def test_deleters_run_on_any_thread(ctx: mmsb.Context) -> None:
    pages = [ctx.create_page(100 + 5000 * (i % 2)) for i in range(8)]
    handed: list[Any] = []

    def export(seed: int) -> None:
        for i in range(1000):
            page = pages[(seed + i) % 8]
            handed.append(np.from_dlpack(page.view("u1", (10, 10))) if i % 2 else page.__dlpack__())
            if i % 3 == 0:
                handed.pop(0)
            if i % 7 == 0:
                ctx.adopt(np.from_dlpack(page)).destroy()

    threads = [threading.Thread(target=export, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mmsb.debug_live_objects("tensor") == len(handed) > 0
    handed.clear()
    for page in pages:
        assert pins(page) == (0, 0)


def test_a_context_ends_while_arrays_come_and_go() -> None:
    """Deleters run with the interpreter's lock, which the release of adopted memory waits for, with pages locked."""
    for _ in range(20):
        ctx = mmsb.Context()
        adopted = ctx.adopt_pages([bytearray(100) for _ in range(200)])
        arrays = [np.from_dlpack(ctx.create_page(100)) for _ in range(200)]
        thread = threading.Thread(target=ctx.close)
        thread.start()
        while arrays:
            arrays.pop()
        thread.join()
        del adopted
    gc.collect()
    assert mmsb.debug_live_objects("tensor") == 0


EXIT = """
import atexit, sys, threading
import mmsb, numpy as np
ctx = mmsb.Context()
page = ctx.create_page(5000)
kept = [np.from_dlpack(page), page.view("f4", (5,)), page.__dlpack__(), np.asarray(page.view("u1")), page.view("u1").memory()]
adopted = [ctx.adopt(np.from_dlpack(page)), ctx.adopt(np.zeros(5).__dlpack__()), *ctx.adopt_pages([np.zeros(5), bytearray(9)])]
sys.stash = kept, adopted  # goes late
class Late:
    def __del__(self, kept=kept):
        kept.clear()
late = Late()
cycle = [late]; cycle.append(cycle)
if {close}:
    ctx.close()
print("end")
"""


@pytest.mark.parametrize("close", [False, True])
def test_exit_with_everything_open(run_python: RunPython, close: bool) -> None:
    found = run_python(EXIT.format(close=close))
    assert (found.returncode, found.stdout, found.stderr) == (0, "end\n", "")


INTERRUPTED = """
import gc, random, signal, sys, time
import mmsb, numpy as np

def interrupt(*_):
    raise KeyboardInterrupt

sys.unraisablehook = lambda _: None
signal.signal(signal.SIGALRM, interrupt)
random.seed(1)
with mmsb.Context() as context:
    page = context.create_page(5000)
    hits, end = 0, time.monotonic() + 3
    while time.monotonic() < end:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, 60e-6))
            for _ in range(3):
                a = page.__dlpack__()
                a = page.view("f4", (2, 3))
                a = a.__dlpack__(max_version=(1, 0))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    a = None
    gc.collect()
    assert hits > 100, hits
    print(page.info().write_pins, mmsb.debug_live_objects("tensor"))
"""


def test_no_export_is_lost_when_a_signal_raises(run_python: RunPython) -> None:
    found = run_python(INTERRUPTED)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "0 0"
