"""mmsb.state of tensors on a GPU, which are doubles of PyTorch's here: over memory of a runtime on the stand-in driver."""

from __future__ import annotations

import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import mmsb
import numpy as np

context = mmsb.Context(simulate="off")
stream = context.create_runtime(pool="").stream()
waits = 0


class Tensor:
    """What mmsb.state needs of PyTorch's tensors: a view of a block. strides: in items."""

    layout, is_cuda, device = "torch.strided", True, 0

    def __init__(self, block: mmsb.Block, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> None:
        self.block, self.kind, self.shape, self.strides, self.offset = block, np.dtype(dtype), shape, strides, offset
        self.dtype = f"torch.{self.kind.name}"

    @classmethod
    def of(cls, array: np.ndarray[Any, Any], *, moved: bool = False) -> Tensor:
        tensor = cls(stream.allocate(array.nbytes + 64), array.dtype, array.shape, (), 4 if moved else 0)
        tensor.strides = tuple(step // array.itemsize for step in array.strides)
        tensor.write(np.ascontiguousarray(array.reshape(-1, order="A")))
        return tensor

    def write(self, items: np.ndarray[Any, Any]) -> None:
        stream.write(self.block, items.tobytes(), self.data_ptr() - self.block.address)
        stream.wait()

    def items(self) -> np.ndarray[Any, Any]:
        bytes = stream.read(self.block, self.numel() * self.kind.itemsize, self.data_ptr() - self.block.address)
        return np.frombuffer(bytes, self.kind)

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def element_size(self) -> int:
        return self.kind.itemsize

    def __dlpack__(self, **asked: Any) -> Any:
        raise AssertionError("its memory is taken by its address")

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def data_ptr(self) -> int:
        return self.block.address + self.offset * self.kind.itemsize


class Stream:
    def synchronize(self) -> None:
        global waits
        waits += 1


torch: Any = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(current_stream=lambda device: Stream())
sys.modules["torch"] = torch

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    rows = np.arange(1, 500_001, dtype="<f4").reshape(1000, 500)
    columns = Tensor.of(np.asfortranarray(rows), moved=True)
    tree: dict[str, Any] = {"rows": Tensor.of(rows), "columns": columns, "host": np.ones(5)}
    mmsb.state.save(folder / "first", tree)
    assert waits == 2
    with mmsb.Snapshot(folder / "first") as snapshot:
        assert snapshot.pages()  # pages say where they lay; who loads them says where they come
    again = mmsb.state.load(folder / "first")
    assert np.array_equal(again["rows"], rows) and np.array_equal(again["columns"], rows) and again["columns"].flags.f_contiguous
    for tensor in (tree["rows"], tree["columns"]):
        tensor.write(np.zeros(500_000, "<f4"))
    mmsb.state.load_into(folder / "first", tree)
    assert np.array_equal(tree["rows"].items(), rows.ravel()) and np.array_equal(tree["columns"].items(), rows.ravel("F"))
    # Of arrays in another order, through the host.
    mmsb.state.save(folder / "other", {"rows": np.asfortranarray(rows + 1), "columns": rows + 1, "host": np.ones(5)})
    mmsb.state.load_into(folder / "other", tree)
    assert np.array_equal(tree["rows"].items(), (rows + 1).ravel()) and tree["columns"].items()[1] == 502
    # Tracked: what has changed is written, and comes back.
    with mmsb.state.track(tree) as tracker:
        tracker.save(folder / "base")
        tree["rows"].write(np.where(np.arange(500_000) < 1000, 7, (rows + 1).ravel()).astype("<f4"))
        tracker.save(folder / "next", base=folder / "base")
        assert (folder / "next").stat().st_size < (folder / "base").stat().st_size / 4
        assert mmsb.state.load(folder / "next", "rows").ravel()[999:1001].tolist() == [7, 1002]
        tracker.load(folder / "base")
        assert np.array_equal(tree["rows"].items(), (rows + 1).ravel())
        tracker.save(folder / "third", base=folder / "base")
    # With a base that is compared.
    tree["rows"].write((rows + 2).ravel())
    mmsb.state.save(folder / "compared", tree, base=folder / "base")
    assert np.array_equal(mmsb.state.load(folder / "compared")["rows"], rows + 2)
print("ok")
