"""Views of page memory: what pins, and when the pin is given back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import mmsb
import numpy as np
import pytest
from conftest import RunPython


def pins(page: mmsb.Page) -> tuple[int, int]:
    info = page.info()
    return info.read_pins, info.write_pins


def test_an_array_is_a_writable_view_with_a_write_pin(ctx: mmsb.Context) -> None:
    page = ctx.create_page(100)
    view = np.asarray(page)
    assert view.dtype == np.uint8
    assert view.shape == (100,)
    assert view.flags.writeable
    assert view.ctypes.data == page.address
    assert pins(page) == (0, 1)
    view[3] = 7
    assert page[3] == 7
    page[4] = 8
    assert view[4] == 8
    version = page.version
    for act in (lambda: page.resize(5), page.destroy, lambda: page.migrate("disk"), page.release):
        with pytest.raises(mmsb.BusyError) as caught:
            act()
        assert isinstance(caught.value, BufferError)
    part = view[10:20].reshape(2, 5)
    del view
    gc.collect()
    assert pins(page) == (0, 1)
    part[1, 4] = 9
    del part
    gc.collect()
    assert pins(page) == (0, 0)
    assert page.version > version
    assert page[19] == 9
    page.resize(5)


def test_typed_arrays(ctx: mmsb.Context) -> None:
    page = ctx.create_page(64)
    state = page.array("float32")
    state[:] = 1.5
    assert state.shape == (16,)
    assert np.asarray(page).view("float32").tolist() == [1.5] * 16
    assert page.array(np.int64).itemsize == 8
    record = page.array([("a", "u4"), ("b", "f4")])
    assert record["b"][0] == 1.5
    with pytest.raises(mmsb.MismatchError, match="64"):
        page.array("S5")
    for dtype in (object, "S0", "V0"):
        with pytest.raises(TypeError):
            page.array(dtype)
    with pytest.raises(TypeError):
        page.array("no such type")
    reader = page.array("uint8", write=False)
    assert not reader.flags.writeable
    assert pins(page)[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        reader[0] = 1
    assert pins(page) == (1, 2)
    del state, record, reader
    gc.collect()
    assert pins(page) == (0, 0)


def test_the_array_protocol(ctx: mmsb.Context) -> None:
    page = ctx.create_page(4)
    page[:] = b"\1\2\3\4"
    copy = np.array(page)
    assert pins(page) == (0, 0)
    copy[0] = 9
    assert page[0] == 1
    assert np.asarray(page, dtype=np.uint8).base is not None
    converted = np.asarray(page, dtype=np.float64)
    assert converted.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert page.__array__(copy=True).base is None
    with pytest.raises(ValueError, match="copy"):
        page.__array__(np.float32, copy=False)
    assert (np.asarray(page) + 1).tolist() == [2, 3, 4, 5]
    assert np.sum(page) == 10
    gc.collect()
    assert pins(page) == (0, 0)


def test_pin_is_given_back_at_the_end_of_the_block(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    with page.pin(write=True) as view:
        assert isinstance(view, memoryview)
        assert (view.format, view.nbytes, view.readonly) == ("B", 10, False)
        view[0:2] = b"ab"
        assert pins(page) == (0, 1)
    assert pins(page) == (0, 0)
    with pytest.raises(ValueError, match="released"):
        view[0]
    with page.pin() as view:
        assert view.readonly
        assert view[0:2].tobytes() == b"ab"
        assert pins(page) == (1, 0)
        with pytest.raises(TypeError):
            view[0] = 1
    assert pins(page) == (0, 0)
    with pytest.raises(RuntimeError, match="mine"), page.pin():
        raise RuntimeError("mine")
    assert pins(page) == (0, 0)


def test_what_outlives_the_block_keeps_the_pin(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    with page.pin(write=True) as view:
        array = np.frombuffer(view, dtype=np.uint8)
    assert pins(page) == (0, 1)
    array[0] = 5
    assert page[0] == 5
    del array, view
    gc.collect()
    assert pins(page) == (0, 0)


def test_memory_is_a_lease(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    view = page.memory()
    assert view.readonly
    assert pins(page) == (1, 0)
    view.release()
    assert pins(page) == (0, 0)
    view = page.memory(write=True)
    part = view[2:4]
    view.release()
    assert pins(page) == (0, 1)
    part[:] = b"xy"
    del part
    assert pins(page) == (0, 0)
    assert page[2:4] == b"xy"


@pytest.mark.parametrize("make", [lambda page: np.asarray(page), lambda page: page.memory(write=True)])
def test_a_view_may_outlive_its_context(make: Callable[[mmsb.Page], Any]) -> None:
    before = mmsb.debug_live_objects("memory")
    ctx = mmsb.Context()
    page = ctx.create_page(1 << 20)
    page[:5] = b"hello"
    view = make(page)
    ctx.close()
    assert mmsb.debug_live_objects("memory") == before + 1
    assert bytes(view[:5]) == b"hello"
    view[5] = 1
    del view
    gc.collect()
    assert mmsb.debug_live_objects("memory") == before


def test_views_of_a_page_on_disk(ctx: mmsb.Context) -> None:
    page = ctx.create_page(5000, location="disk")
    view = np.asarray(page)
    view[:] = 3
    with pytest.raises(mmsb.BusyError):
        page.migrate("cpu")
    del view
    gc.collect()
    page.migrate("cpu")
    assert page.read() == b"\3" * 5000


def test_release_leaves_the_bytes_to_the_caller() -> None:
    with mmsb.Context() as ctx:
        page = ctx.create_page(5000)
        page[:5] = b"hello"
        memory = page.release()
        with pytest.raises(mmsb.StaleHandleError):
            _ = page.size
        assert len(ctx) == 0
    assert bytes(memory[:5]) == b"hello"
    memory[4999] = 1
    assert memory.nbytes == 5000
    array = np.frombuffer(memory, dtype=np.uint8)
    del memory
    assert array[4999] == 1
    assert mmsb.debug_live_objects("memory") == 1
    del array
    gc.collect()
    assert mmsb.debug_live_objects("memory") == 0


class Owner(bytearray):
    """Counts how many of it are alive."""

    alive = 0

    def __init__(self, length: int) -> None:
        super().__init__(length)
        Owner.alive += 1

    def __del__(self) -> None:
        Owner.alive -= 1


def test_adopted_memory_is_the_callers(ctx: mmsb.Context) -> None:
    owner = Owner(100)
    page = ctx.adopt(owner, id=4)
    assert page.id == 4
    assert page.info().adopted
    page.write(0, b"abc")
    assert owner[:3] == b"abc"
    owner[3] = 100
    assert page[3] == 100
    page.apply(mmsb.Delta.runs([(50, b"xyz")]))
    assert owner[50:53] == b"xyz"
    with pytest.raises(BufferError):
        owner.append(1)
    with pytest.raises(mmsb.InvalidStateError):
        page.resize(5)
    with pytest.raises(mmsb.InvalidStateError):
        page.release()
    del owner
    gc.collect()
    assert Owner.alive == 1
    page.destroy()
    gc.collect()
    assert Owner.alive == 0


@pytest.mark.parametrize("end", ["destroy", "destroy_pages", "restore", "close", "drop", "unpin"])
def test_adopted_memory_is_let_go_when_the_page_ends(end: str) -> None:
    ctx = mmsb.Context()
    empty = ctx.save_bytes()
    page = ctx.adopt(Owner(5000))
    page[:3] = b"abc"
    assert Owner.alive == 1
    if end == "destroy":
        page.destroy()
    elif end == "destroy_pages":
        ctx.destroy_pages([page])
    elif end == "restore":
        ctx.restore_bytes(empty)
    elif end == "close":
        ctx.close()
    elif end == "drop":
        del page, ctx
    else:
        view = np.asarray(page)
        ctx.close()
        gc.collect()
        assert Owner.alive == 1
        assert view[:3].tobytes() == b"abc"
        del view
    gc.collect()
    assert Owner.alive == 0


def test_adopting_arrays_and_what_cannot_be_adopted(ctx: mmsb.Context) -> None:
    array = np.arange(10, dtype=np.float32)
    page = ctx.adopt(array)
    assert page.size == 40
    page.array("float32")[0] = 42
    assert array[0] == 42
    frozen = ctx.adopt(b"constant", read_only=True)
    assert frozen.info().read_only
    assert frozen.read() == b"constant"
    for act in (
        lambda: frozen.write(0, b"x"),
        lambda: frozen.apply(mmsb.Delta.runs([(0, b"x")])),
        lambda: frozen.memory(write=True),
        lambda: frozen.array(write=True),
    ):
        with pytest.raises(mmsb.InvalidStateError):
            act()
    assert not np.asarray(frozen).flags.writeable
    assert np.asarray(frozen).tobytes() == b"constant"
    with pytest.raises(mmsb.InvalidStateError, match="8 bytes are read-only"):
        ctx.adopt(b"constant")
    with pytest.raises(mmsb.UnsupportedError, match="gaps"):
        ctx.adopt(array[::2])
    with pytest.raises(mmsb.MMSBError):
        ctx.adopt(bytearray())
    with pytest.raises(TypeError):
        ctx.adopt("text")
    with pytest.raises(mmsb.AlreadyExistsError):
        ctx.adopt(bytearray(1), id=page.id)
    assert len(ctx) == 2


def test_an_array_with_a_mask_is_not_adopted(ctx: mmsb.Context) -> None:
    masked = np.ma.masked_array([1, 2, 3], [0, 1, 0])  # type: ignore[no-untyped-call]
    for adopt in (ctx.adopt, lambda array: ctx.adopt_pages([np.zeros(3), array])):
        with pytest.raises(mmsb.UnsupportedError, match="the array has a mask"):
            adopt(masked)
    assert len(ctx) == 0
    assert ctx.adopt(masked.data).array("i8").tolist() == [1, 2, 3]


def test_types_that_only_ml_dtypes_has(ctx: mmsb.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ctx.create_page(16)
    page.write(0, np.arange(8).astype(ml_dtypes.bfloat16).tobytes())
    array = np.asarray(page.view("bfloat16"))
    assert array.dtype == ml_dtypes.bfloat16 and array.tolist() == list(range(8)) and pins(page) == (0, 1)
    array[1] = 1.5
    assert np.asarray(page.view("bfloat16", (2, 2), strides=(4, 2))).tolist() == [[0, 2], [4, 6]]
    assert np.array(page.view("bfloat16", write=False), dtype="f4")[1] == 1.5
    assert not np.asarray(page.view("float8_e4m3fn", write=False)).flags.writeable
    del array
    gc.collect()
    assert pins(page) == (0, 0)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(mmsb.UnsupportedError, match="NumPy has bfloat16 only with the package ml_dtypes"):
        np.asarray(page.view("bfloat16"))


def test_types_of_python(ctx: mmsb.Context) -> None:
    page = ctx.create_page(16)
    for kind in (bool, int, float, complex, "float"):
        assert np.asarray(page.view(kind)).dtype == page.array(kind).dtype == np.dtype(kind)


def test_a_page_adopted_from_a_view_of_another(ctx: mmsb.Context) -> None:
    """Letting go of the adopted view unpins the first page, which must not happen inside the library's callback."""
    first = ctx.create_page(100)
    second = ctx.adopt(np.asarray(first))
    second[:3] = b"abc"
    assert first[:3] == b"abc"
    assert pins(first) == (0, 1)
    second.destroy()
    gc.collect()
    assert pins(first) == (0, 0)
    first.destroy()


def test_released_memory_that_goes_while_its_context_lives(ctx: mmsb.Context) -> None:
    for size in (10, 5000, 1 << 20):
        neighbour = ctx.create_page(size)
        for turn in range(10):
            page = ctx.create_page(size)
            page.write(0, bytes([turn]) * size)
            memory = page.release()
            assert memory[size - 1] == turn
            del memory, page
        assert neighbour.read() == bytes(size)
        neighbour.destroy()


# A timer's signal comes between any two steps, and its handler raises, as that of Ctrl-C does.
INTERRUPTED = """
import ctypes, gc, random, signal, sys, time
import mmsb
from mmsb import _abi
from mmsb._ffi import lib
from mmsb._lease import view_memory

def unpin(page, mode):
    lib.mmsb_page_unpin(page, mode)

def pinned(self, mode):  # a pin that Python's steps begin and end
    address = ctypes.c_void_p()
    self._check(lib.mmsb_page_pin(self._handle, mode, address))
    return view_memory(address.value, self.size, mode == _abi.PIN_WRITE, unpin, self._handle, mode)

if {planted}:
    mmsb.Page._pinned = pinned

def interrupt(*_):
    raise KeyboardInterrupt

sys.unraisablehook = lambda _: None
signal.signal(signal.SIGALRM, interrupt)
random.seed(1)
with mmsb.Context() as context:
    page, pages = context.create_page(5000), context.create_pages(64, 10)
    hits, end = 0, time.monotonic() + {seconds}
    while time.monotonic() < end and (hits < 2000 or not {planted}):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, 60e-6))
            for _ in range(3):
                with page.pin(write=True) as view:
                    pass
                view = page.memory()
                views = context.memories(pages)
                view = views = None
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    view = views = None
    gc.collect()
    assert hits > 100, hits
    info = page.info()
    print(info.read_pins + info.write_pins + sum(p.info().read_pins for p in pages))
"""


def test_no_pin_is_lost_when_a_signal_raises(run_python: RunPython) -> None:
    found = run_python(INTERRUPTED.format(planted=False, seconds=3))
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "0"


def test_a_pin_that_python_ends_is_lost_when_a_signal_raises(run_python: RunPython) -> None:
    found = run_python(INTERRUPTED.format(planted=True, seconds=600))
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() != "0"
