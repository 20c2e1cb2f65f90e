"""mmsb.state of arrays on devices, which are simulated here, in classes with the methods of CuPy's and Numba's arrays."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
import pytest
from numpy.typing import NDArray


class OnDevice:
    """An array in a block, which has __cuda_array_interface__ only; CuPy's and Numba's copy themselves."""

    def __init__(self, queue: mmsb.Stream, values: NDArray[Any], read_only: bool = False, **more: Any) -> None:
        self.stream, self.dtype, self.shape = queue, values.dtype, values.shape
        self.block = queue.allocate(values.nbytes)
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "typestr": values.dtype.str,
            "data": (self.block.address, read_only),
            "version": 3,
            **more,
        }
        self.write(values)

    def write(self, values: NDArray[Any]) -> None:
        assert values.dtype == self.dtype and values.shape == self.shape
        self.stream.write(self.block, values)

    def read(self) -> NDArray[Any]:
        return np.frombuffer(self.stream.read(self.block), self.dtype).reshape(self.shape)


class Cupy(OnDevice):
    def get(self) -> NDArray[Any]:
        return self.read()

    def set(self, values: NDArray[Any]) -> None:
        self.write(values)


class Numba(OnDevice):
    def copy_to_host(self) -> NDArray[Any]:
        return self.read()

    def copy_to_device(self, values: NDArray[Any]) -> None:
        self.write(values)


@pytest.fixture
def sim() -> Iterator[mmsb.Context]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mmsb.SimulatedDeviceWarning)
        with mmsb.Context(simulate="always") as context:
            yield context


@pytest.fixture
def stream(sim: mmsb.Context) -> mmsb.Stream:
    return sim.runtime().stream()


@pytest.mark.parametrize("kind", [Cupy, Numba, OnDevice])
def test_arrays_on_a_device_are_saved_and_filled(stream: mmsb.Stream, tmp_path: Path, kind: type[OnDevice]) -> None:
    weights = np.arange(12, dtype="<f4").reshape(3, 4)
    tree: dict[str, Any] = {"weights": kind(stream, weights), "bias": np.ones(4), "step": 3}
    mmsb.state.save(tmp_path / "state", tree)
    again = mmsb.state.load(tmp_path / "state")
    assert again["weights"].dtype == np.float32 and np.array_equal(again["weights"], weights)
    moved = mmsb.state.load(tmp_path / "state", "weights", convert=lambda array: kind(stream, array))
    assert np.array_equal(moved.read(), weights)
    tree["weights"].write(np.zeros_like(weights))
    tree["bias"][:] = 0
    assert mmsb.state.load_into(tmp_path / "state", tree)["step"] == 3
    assert np.array_equal(tree["weights"].read(), weights) and tree["bias"].sum() == 4
    # In another order of the dimensions.
    mmsb.state.save(tmp_path / "columns", {"weights": np.asfortranarray(weights + 1), "bias": np.ones(4), "step": 4})
    mmsb.state.load_into(tmp_path / "columns", tree)
    assert np.array_equal(tree["weights"].read(), weights + 1)
    # Nothing changes where something does not fit.
    mmsb.state.save(tmp_path / "other", {"weights": weights.astype("<f8"), "bias": np.zeros(4), "step": 4})
    with pytest.raises(mmsb.MismatchError, match="weights is float32"):
        mmsb.state.load_into(tmp_path / "other", tree)
    assert tree["bias"].sum() == 4


@pytest.mark.parametrize("kind", [Cupy, OnDevice])
def test_arrays_on_a_device_are_tracked(stream: mmsb.Stream, tmp_path: Path, kind: type[OnDevice]) -> None:
    tree: dict[str, Any] = {"weights": kind(stream, np.zeros(100_000, "<u4"))}
    with mmsb.state.track(tree) as tracker:
        tracker.save(tmp_path / "first")
        tree["weights"].write(np.full(100_000, 7, "<u4"))
        tracker.save(tmp_path / "second", base=tmp_path / "first")
        assert mmsb.state.load(tmp_path / "second")["weights"].tolist() == [7] * 100_000
        tracker.load(tmp_path / "first")
        assert not tree["weights"].read().any()


def test_interfaces_of_all_forms(stream: mmsb.Stream, tmp_path: Path) -> None:
    columns = OnDevice(stream, np.arange(6, dtype="<i2").reshape(3, 2), shape=(2, 3), strides=(2, 4))
    behind = OnDevice(stream, np.zeros(1000), stream=stream.native)
    stream.fill(behind.block, 1)  # is not waited for here
    empty = OnDevice(stream, np.zeros(1), shape=(0, 3))
    records = OnDevice(stream, np.frombuffer(bytes(range(24)), "V12"))
    tree = {"columns": columns, "behind": behind, "empty": empty, "records": records}
    mmsb.state.save(tmp_path / "state", tree)
    back = mmsb.state.load(tmp_path / "state")
    assert back["columns"].tolist() == [[0, 2, 4], [1, 3, 5]] and back["columns"].flags.f_contiguous
    assert back["behind"].tobytes() == b"\1" * 8000
    assert back["empty"].shape == (0, 3) and back["records"].tobytes() == bytes(range(24))
    columns.write(np.zeros((3, 2), "<i2"))
    stream.fill(behind.block, 2)
    mmsb.state.load_into(tmp_path / "state", tree)
    assert columns.read().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert behind.read().tobytes() == b"\1" * 8000


def test_blocks_pages_and_views_on_a_device(sim: mmsb.Context, stream: mmsb.Stream, tmp_path: Path) -> None:
    block = stream.allocate(800)
    with stream.use((block, "write")):
        stream.fill(block, 1)
    page = sim.create_page(24, location="gpu")
    page.write(0, np.arange(6, dtype="<f4"))
    tree = {"block": block, "view": page.view("float32", (2, 3))}
    mmsb.state.save(tmp_path / "state", tree)
    back = mmsb.state.load(tmp_path / "state")
    assert back["block"].tobytes() == b"\1" * 800 and back["view"].tolist() == [[0, 1, 2], [3, 4, 5]]
    page.write(0, bytes(24))
    mmsb.state.load_into(tmp_path / "state", tree)
    assert page.read() == np.arange(6, dtype="<f4").tobytes()


def test_what_cannot_be_saved_or_filled(stream: mmsb.Stream, tmp_path: Path) -> None:
    for kind in (OnDevice, Cupy):
        fixed = {"weights": kind(stream, np.zeros(3), read_only=True)}
        mmsb.state.save(tmp_path / "state", fixed)
        with pytest.raises(mmsb.InvalidStateError, match="cannot be written: weights"):
            mmsb.state.load_into(tmp_path / "state", fixed)
    fixed["weights"].__cuda_array_interface__["shape"] = (4,)
    with pytest.raises(mmsb.UnsupportedError, match=r"shape \(4,\), its copy \(3,\)"):
        mmsb.state.save(tmp_path / "state", fixed)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"stream": 99}, "stream"),
        ({"stream": 0}, "stream"),
        ({"strides": (16,)}, "gaps"),
        ({"strides": (-8,)}, "at least 1"),
        ({"mask": 1}, "mask"),
        ({"data": (8, False)}, "address 0x8 is memory of none of the 1 devices"),
        ({"shape": (2**62,)}, "the shape has more than"),
        ({"typestr": "|O8"}, "no bytes"),
        ({"typestr": "nonsense"}, "OnDevice gives no memory"),
        ({"data": None}, "OnDevice gives no memory"),
    ],
)
def test_interfaces_that_lie(stream: mmsb.Stream, tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(mmsb.UnsupportedError, match=f"x: .*{message}"):
        mmsb.state.save(tmp_path / "state", {"x": OnDevice(stream, np.zeros(3), **more)})
    assert not (tmp_path / "state").exists()


def test_the_context_of_a_simulated_device_is_left_as_it_was(sim: mmsb.Context, stream: mmsb.Stream, tmp_path: Path) -> None:
    tree = {"x": OnDevice(stream, np.zeros(3))}
    mmsb.state.save(tmp_path / "state", tree)
    mmsb.state.load_into(tmp_path / "state", tree)
    assert len(sim) == 0
    assert tree["x"].block.free() is False
    simulated = sim.devices()[0].simulated
    sim.close()
    if simulated:  # and its memory has gone with it
        with pytest.raises(mmsb.UnsupportedError, match=r"libcuda|memory of none"):
            mmsb.state.save(tmp_path / "state", tree)
