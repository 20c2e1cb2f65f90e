"""PyTorch's tensors as pages, pages as tensors, and modules and optimizers as states, on the host: `make test-torch`."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
import pytest
import torch
from mmsb import state

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.int64,
]


@pytest.fixture
def ctx() -> Iterator[mmsb.Context]:
    with mmsb.Context() as context:
        yield context
    gc.collect()
    assert mmsb.debug_live_objects("tensor") == 0


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of the items, row by row."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return tensor.view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def network() -> tuple[torch.nn.Module, torch.optim.Adam]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(number))
    optimizer.zero_grad()
    (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()


def same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape) == (other.dtype, other.shape) and bits(one) == bits(other)
    elif isinstance(one, dict):
        assert [*one] == [*other]
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other):
            same(left, right)
    else:
        assert one == other


# ------------------------------------------------------------------------------------------------------------ pages


@pytest.mark.parametrize("dtype", TYPES)
def test_a_tensor_is_a_page(ctx: mmsb.Context, dtype: torch.dtype) -> None:
    tensor = torch.ones(3, 40).to(dtype)
    page = ctx.adopt(tensor)
    assert (page.size, page.address) == (tensor.nbytes, tensor.data_ptr())
    page.write(0, bytes(tensor.itemsize))
    assert not tensor[0, 0].to(torch.complex128) and tensor[0, 1].to(torch.complex128)
    before = page.read()
    del tensor
    gc.collect()
    assert page.read() == before


@pytest.mark.parametrize("dtype", TYPES)
def test_a_page_is_a_tensor(ctx: mmsb.Context, dtype: torch.dtype) -> None:
    page = ctx.create_page(1 << 16)
    view = page.view(dtype)
    shown = page.view(dtype, (16, view.shape[0] // 16))
    tensor = torch.from_dlpack(shown)
    assert (tensor.dtype, tensor.shape, tensor.data_ptr()) == (dtype, shown.shape, page.address)
    del view, shown
    gc.collect()
    with pytest.raises(mmsb.BusyError):
        page.destroy()
    tensor.fill_(1)
    assert page.read() == bits(tensor)
    del tensor
    gc.collect()
    page.destroy()


def test_no_byte_moves_there_and_back(ctx: mmsb.Context) -> None:
    page = ctx.create_page(1 << 20)
    again = ctx.adopt(torch.from_dlpack(page))
    assert again.address == page.address
    page.write(0, b"later")
    assert again.read(0, 5) == b"later"
    again.destroy()


def test_a_view_of_columns_and_a_read_only_page(ctx: mmsb.Context) -> None:
    page = ctx.create_page(48)
    page.write(0, np.arange(12, dtype="f4"))
    tensor = torch.from_dlpack(page.view("float32", (4, 3), strides=(1, 4)))
    assert tensor.tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    fixed = ctx.adopt(bytes(range(8)), read_only=True)
    try:
        shown = torch.from_dlpack(fixed.view("uint8", write=False))
    except BufferError:
        return  # this PyTorch asks for tensors without a version, which cannot say that nobody may write
    assert shown.tolist() == list(range(8))


def test_tensors_that_no_page_can_be(ctx: mmsb.Context) -> None:
    with pytest.raises(mmsb.UnsupportedError, match="gaps"):
        ctx.adopt(torch.zeros(4, 6)[:, ::2])
    with pytest.raises((mmsb.UnsupportedError, BufferError, RuntimeError)):
        ctx.adopt(torch.zeros(3, requires_grad=True))
    with pytest.raises((mmsb.UnsupportedError, BufferError, RuntimeError)):
        ctx.adopt(torch.zeros(3, dtype=torch.complex64).conj())
    with pytest.raises(mmsb.MMSBError):
        ctx.adopt(torch.zeros(0, 3))
    assert len(ctx) == 0
    module = torch.nn.Linear(3, 2)
    page = ctx.adopt(module.weight.detach())
    assert page.address == module.weight.data_ptr()


# ----------------------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize("dtype", TYPES)
def test_tensors_of_any_layout_come_back(tmp_path: Path, dtype: torch.dtype) -> None:
    whole = torch.arange(60).reshape(3, 4, 5).to(dtype)
    tree = {
        "whole": whole,
        "turned": whole.clone().permute(2, 0, 1),
        "gaps": whole.clone()[:, ::2, 1:3],
        "spread": whole[0, 0].clone().expand(7, 5),
        "none": torch.zeros(0, 3).to(dtype),
        "scalar": whole[1, 1, 1].clone(),
    }
    path = tmp_path / "a"
    state.save(path, tree)
    same(state.load(path, like=tree), tree)
    assert state.arrays(path)["turned"].strides == tuple(step * whole.itemsize for step in tree["turned"].stride())
    empty = {name: torch.zeros_like(tensor) for name, tensor in tree.items()}
    empty["turned"] = torch.zeros(tree["turned"].shape).to(dtype)  # laid out in another way
    same(state.load_into(path, empty), tree)


def test_conjugated_and_negated_tensors_are_saved_as_they_look(tmp_path: Path) -> None:
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    tree = {"conj": numbers.conj(), "neg": numbers.conj().imag}
    assert tree["conj"].is_conj() and tree["neg"].is_neg()
    state.save(tmp_path / "a", tree)
    back = state.load(tmp_path / "a", convert=torch.from_numpy)
    assert back["conj"].tolist() == [1 - 2j, 3 + 4j] and back["neg"].tolist() == [-2, 4]
    fresh = {"conj": torch.zeros(2, dtype=torch.complex64).conj(), "neg": torch.zeros(2, dtype=torch.complex64).conj().imag}
    state.load_into(tmp_path / "a", fresh)
    assert fresh["conj"].is_conj() and fresh["neg"].is_neg()
    assert fresh["conj"].tolist() == [1 - 2j, 3 + 4j] and fresh["neg"].tolist() == [-2, 4]


def test_modules_and_optimizers_come_back(tmp_path: Path) -> None:
    model, optimizer = network()
    for number in range(5):
        step(model, optimizer, number)
    tree = {"model": model, "optimizer": optimizer, "step": 5, "random": torch.get_rng_state()}
    state.save(tmp_path / "a", tree)
    assert state.names(tmp_path / "a")[0] == "model/0.weight"
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    again, other = network()
    step(again, other, 0)  # Adam has its moments from the first step on
    back = state.load_into(tmp_path / "a", {"model": again, "optimizer": other, "step": 0, "random": torch.get_rng_state()})
    same((again.state_dict(), other.state_dict()), saved)
    assert back["step"] == 5 and again[0].weight.requires_grad and again[0].weight.grad is not None
    for number in range(5, 8):
        step(model, optimizer, number)
        step(again, other, number)
    same(again.state_dict(), model.state_dict())
    loaded = state.load(tmp_path / "a", convert=torch.from_numpy)
    assert isinstance(loaded["model"]["0.weight"], torch.Tensor)
    third, last = network()
    third.load_state_dict(loaded["model"])
    last.load_state_dict(loaded["optimizer"])
    same((third.state_dict(), last.state_dict()), saved)


def test_a_new_optimizer_has_no_moments_to_load_into(tmp_path: Path) -> None:
    model, optimizer = network()
    step(model, optimizer, 0)
    state.save(tmp_path / "a", {"optimizer": optimizer})
    with pytest.raises(mmsb.MismatchError, match=r"24 only in the file: optimizer/state/0/step, optimizer/state/0/exp_avg, "):
        state.load_into(tmp_path / "a", {"optimizer": network()[1]})


def test_tied_weights_are_saved_once(tmp_path: Path) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(1000, 64)
            self.out = torch.nn.Linear(64, 1000, bias=False)
            self.out.weight = self.words.weight

    model = Tied()
    state.save(tmp_path / "a", model)
    assert (tmp_path / "a").stat().st_size < 300_000
    back = state.load(tmp_path / "a")
    assert back["words.weight"] is back["out.weight"]
    other = Tied()
    state.load_into(tmp_path / "a", other)
    assert other.out.weight is other.words.weight
    same(other.state_dict(), model.state_dict())


def test_parts_of_one_storage_are_tracked_each(tmp_path: Path) -> None:
    storage = torch.zeros(4096)
    tree = {"low": storage[:2048].view(32, 64), "high": storage[2048:]}
    with state.track(tree) as tracker:
        storage += 1
        tracker.save(tmp_path / "a")
        tree["high"][0] = 7
        tracker.save(tmp_path / "b", base=tmp_path / "a")
    assert storage[2048] == 7 and storage[0] == 1
    same(state.load(tmp_path / "b", like=tree), tree)


def test_a_module_is_tracked_while_it_trains(tmp_path: Path) -> None:
    model, optimizer = network()
    step(model, optimizer, 0)
    tree = {"model": model, "optimizer": optimizer, "frozen": torch.ones(1 << 20, dtype=torch.int8)}
    where = model[0].weight.data_ptr()
    last = None
    with state.track(tree) as tracker:
        for number in range(1, 5):
            step(model, optimizer, number)
            tracker.save(tmp_path / str(number), last)
            last = tmp_path / str(number)
        assert model[0].weight.data_ptr() == where
        wanted = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        step(model, optimizer, 9)
        tracker.load(last)
        same((model.state_dict(), optimizer.state_dict()), wanted)
        step(model, optimizer, 5)
        tracker.save(tmp_path / "5", last)
    assert last is not None and last.stat().st_size < 200_000 < (tmp_path / "1").stat().st_size
    fresh, other = network()
    step(fresh, other, 0)
    back = state.load_into(tmp_path / "5", {"model": fresh, "optimizer": other, "frozen": tree["frozen"].clone()})
    same(back["model"].state_dict(), model.state_dict())


def test_what_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    state.save(tmp_path / "a", {"a": torch.ones(3), "b": torch.ones(2, 3), "c": torch.ones(2), "d": 1})
    tree = {"a": torch.zeros(3, dtype=torch.float16), "b": torch.zeros(3, 2), "e": torch.zeros(1), "d": 1}
    before = copy.deepcopy(tree)
    with pytest.raises(mmsb.MismatchError) as found:
        state.load_into(tmp_path / "a", tree)
    text = str(found.value)
    assert "1 missing in the file: e" in text and "1 only in the file: c" in text
    assert "2 different: a is float16 (3,), in the file float32 (3,), b is float32 (3, 2), in the file float32 (2, 3)" in text
    same(tree, before)


def test_what_cannot_be_saved_is_told_at_once(tmp_path: Path) -> None:
    tree = {
        "object": object(),
        "sparse": torch.eye(3).to_sparse(),
        "device": torch.device("cpu"),
        "meta": torch.zeros(3, device="meta"),
        "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "good": torch.ones(1),
    }
    with pytest.raises(mmsb.UnsupportedError) as found:
        state.save(tmp_path / "a", tree)
    text = str(found.value)
    assert text.startswith("5 of the tree's values") and not (tmp_path / "a").exists()
    for name in ("object", "sparse", "device", "meta", "quantized"):
        assert f"{name}: " in text
    assert "good" not in text


def test_a_pickle_is_no_checkpoint(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    (tmp_path / "pickled").write_bytes(pickle.dumps(Trap()))
    torch.save({"a": torch.ones(3), "trap": Trap()}, tmp_path / "saved")
    for name in ("pickled", "saved"):
        with pytest.raises(mmsb.MMSBError):
            state.load(tmp_path / name)
    state.save(tmp_path / "bytes", {"a": pickle.dumps(Trap())})
    assert state.load(tmp_path / "bytes")["a"] == pickle.dumps(Trap())
    assert not (tmp_path / "sprung").exists()
