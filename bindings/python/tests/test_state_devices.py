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
    """An array in a block, and what CuPy's and Numba's have in common."""

    def __init__(self, stream: mmsb.Stream, values: NDArray[Any], read_only: bool = False) -> None:
        self.stream, self.dtype, self.shape = stream, values.dtype, values.shape
        self.block = stream.allocate(values.nbytes)
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "typestr": values.dtype.str,
            "data": (self.block.address, read_only),
            "version": 3,
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
def stream() -> Iterator[mmsb.Stream]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mmsb.SimulatedDeviceWarning)
        with mmsb.Context(simulate="always") as context:
            yield context.runtime().stream()


@pytest.mark.parametrize("kind", [Cupy, Numba])
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


def test_arrays_on_a_device_are_tracked(stream: mmsb.Stream, tmp_path: Path) -> None:
    tree: dict[str, Any] = {"weights": Cupy(stream, np.zeros(100_000, "<u4"))}
    with mmsb.state.track(tree) as tracker:
        tracker.save(tmp_path / "first")
        tree["weights"].write(np.full(100_000, 7, "<u4"))
        tracker.save(tmp_path / "second", base=tmp_path / "first")
        assert mmsb.state.load(tmp_path / "second")["weights"].tolist() == [7] * 100_000
        tracker.load(tmp_path / "first")
        assert not tree["weights"].read().any()


def test_what_cannot_be_saved_or_filled(stream: mmsb.Stream, tmp_path: Path) -> None:
    with pytest.raises(mmsb.UnsupportedError, match="tensor"):
        mmsb.state.save(tmp_path / "state", {"tensor": OnDevice(stream, np.zeros(3))})
    fixed = {"weights": Cupy(stream, np.zeros(3), read_only=True)}
    mmsb.state.save(tmp_path / "state", fixed)
    with pytest.raises(mmsb.InvalidStateError, match="cannot be written: weights"):
        mmsb.state.load_into(tmp_path / "state", fixed)
    fixed["weights"].__cuda_array_interface__["shape"] = (4,)
    with pytest.raises(mmsb.UnsupportedError, match=r"shape \(4,\), its copy \(3,\)"):
        mmsb.state.save(tmp_path / "state", fixed)
