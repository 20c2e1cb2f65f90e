"""mmsb.state of arrays on a GPU that are not PyTorch's, where they lie: Numba's own, and doubles that have one protocol only."""

from __future__ import annotations

import ctypes
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
from mmsb.state.arrays import hold
from numba import cuda

ROWS = np.arange(1, 500_001, dtype="<f4").reshape(1000, 500)
device_works = ctypes.CDLL("libcuda.so.1").fakecuda_hold


class Interface:
    """An array with __cuda_array_interface__ only."""

    def __init__(self, array: Any, read_only: bool = False) -> None:
        found = array.__cuda_array_interface__
        self.array, self.__cuda_array_interface__ = array, {**found, "data": (found["data"][0], read_only)}


class Tensor:
    """An array with DLPack only."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def __dlpack__(self, **asked: Any) -> Any:
        return self.view.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.__dlpack_device__()


def begin_with(array: Any, value: int) -> None:
    """Changes the first ten items."""
    values = array.copy_to_host()
    values[0, :10] = value
    array.copy_to_device(values)


def fills_what_it_saved(folder: Path, tree: dict[str, Any], arrays: list[Any]) -> None:
    before = [array.copy_to_host() for array in arrays]
    mmsb.state.save(folder / "state", tree)
    for array in arrays:
        array.copy_to_device(np.zeros_like(array.copy_to_host()))
    mmsb.state.load_into(folder / "state", tree)
    for array, wanted in zip(arrays, before):
        assert np.array_equal(array.copy_to_host(), wanted)


def lies_where_it_is(folder: Path) -> None:
    array, columns = cuda.to_device(ROWS), cuda.to_device(np.asfortranarray(ROWS))
    context = mmsb.Context(simulate="off")
    page = context.create_page(24, location="gpu")
    page.write(0, np.arange(6, dtype="<f4"))
    tensor = Tensor(page.view("float32", (2, 3)))
    tree = {"rows": array, "columns": columns, "interface": Interface(cuda.to_device(ROWS + 1)), "tensor": tensor}
    for thing in tree.values():
        held = hold(thing)
        assert not held.copied and held.writable, thing
    assert hold(array).memory.address == array.__cuda_array_interface__["data"][0]
    fills_what_it_saved(folder, tree, [array, columns, tree["interface"].array])
    back = mmsb.state.load(folder / "state")
    assert np.array_equal(back["rows"], ROWS) and back["columns"].flags.f_contiguous and np.array_equal(back["columns"], ROWS)
    assert back["tensor"].tolist() == [[0, 1, 2], [3, 4, 5]]
    page.write(0, bytes(24))
    mmsb.state.load_into(folder / "state", tree)
    assert page.read() == np.arange(6, dtype="<f4").tobytes()
    context.close()


def goes_through_the_host_where_it_must(folder: Path) -> None:
    array = cuda.to_device(ROWS)
    mmsb.state.save(folder / "columns", {"rows": np.asfortranarray(ROWS + 1)})
    mmsb.state.load_into(folder / "columns", {"rows": array})
    assert np.array_equal(array.copy_to_host(), ROWS + 1)
    gaps = Interface(cuda.to_device(ROWS)[:, ::2])
    try:
        mmsb.state.save(folder / "gaps", {"gaps": gaps})
        raise AssertionError("an interface with gaps has no other way")
    except mmsb.UnsupportedError as error:
        assert "gaps: " in str(error)
    with mmsb.Context(simulate="always") as other:  # whose device nobody else reaches
        block = other.runtime().stream().allocate(800)
        assert hold(block).copied and not hold(array).copied


def has_two_names(folder: Path) -> None:
    array = cuda.to_device(ROWS)
    tree: dict[str, Any] = {"encoder": array, "decoder": array, "other": cuda.to_device(ROWS)}
    fills_what_it_saved(folder, tree, [array, tree["other"]])
    with mmsb.Snapshot(folder / "state") as snapshot:
        assert len(snapshot) == 3
    apart: dict[str, Any] = {"encoder": cuda.to_device(ROWS * 0), "decoder": cuda.to_device(ROWS * 0), "other": array}
    mmsb.state.load_into(folder / "state", apart)
    assert all(np.array_equal(one.copy_to_host(), ROWS) for one in apart.values())


def may_be_read_only(folder: Path) -> None:
    fixed = {"fixed": Interface(cuda.to_device(ROWS), read_only=True)}
    mmsb.state.save(folder / "fixed", fixed)
    assert np.array_equal(mmsb.state.load(folder / "fixed", "fixed"), ROWS)
    try:
        mmsb.state.load_into(folder / "fixed", fixed)
        raise AssertionError("it was written")
    except mmsb.InvalidStateError as error:
        assert "cannot be written: fixed" in str(error)


def is_tracked(folder: Path) -> None:
    array, host = cuda.to_device(ROWS), ROWS.copy()
    with mmsb.state.track({"array": array, "host": host}) as tracker:
        assert sorted(page.location for page in tracker.context.pages()) == ["cpu", "cpu", "gpu"]
        tracker.save(folder / "base")
        begin_with(array, 7)
        tracker.save(folder / "next", base=folder / "base")
        assert (folder / "next").stat().st_size < (folder / "base").stat().st_size / 4
        assert mmsb.state.load(folder / "next", "array").ravel()[9:11].tolist() == [7, 11]
        tracker.load(folder / "base")
        assert np.array_equal(array.copy_to_host(), ROWS)
        tracker.save(folder / "third", base=folder / "base")
    begin_with(array, 8)
    mmsb.state.save(folder / "compared", {"array": array, "host": host}, base=folder / "base")
    assert mmsb.state.load(folder / "compared", "array").ravel()[9:11].tolist() == [8, 11]


def waits_for_the_arrays_stream(folder: Path) -> None:
    """What a stream has queued before a save is in it, in the first save and in later ones."""
    from cuda.bindings import driver

    for stream in (cuda.stream(), 0):
        array = cuda.device_array(1000, "u1", stream=stream)
        queue = int(stream) if stream else 1
        with mmsb.state.track({"array": array}) as tracker:
            for number in (1, 2, 3):
                device_works(1)
                began = time.monotonic()
                address = array.__cuda_array_interface__["data"][0]
                assert int(driver.cuMemsetD8Async(address, number, 1000, queue)[0]) == 0
                threading.Timer(0.2, device_works, (0,)).start()
                if number == 3:
                    tracker.load(folder / "1")
                    assert array.copy_to_host().tolist() == [1] * 1000
                    continue
                tracker.save(folder / str(number))
                assert time.monotonic() - began > 0.15
                assert mmsb.state.load(folder / str(number), "array").tolist() == [number] * 1000


for check in (
    lies_where_it_is, goes_through_the_host_where_it_must, has_two_names, may_be_read_only, is_tracked,
    waits_for_the_arrays_stream,
):  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        check(Path(name))
print("ok")
