"""torch.distributed.checkpoint with snapshots: one rank and several, other shardings, values, and files that lie."""

from __future__ import annotations

import copy
import io
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mmsb
import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as checkpoint
from mmsb import state
from mmsb.state import dcp
from test_tensors import TYPES, bits, network, same, step
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlanner

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

Tree = dict[str, Any]


def save(tree: Tree, folder: Path, **options: Any) -> None:
    checkpoint.save(tree, storage_writer=dcp.Writer(folder), **options)


def load(tree: Tree, folder: Path, **options: Any) -> Tree:
    checkpoint.load(tree, storage_reader=dcp.Reader(folder), **options)
    return tree


def emptied(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return torch.zeros_like(tree)
    if isinstance(tree, dict):
        return {key: emptied(value) for key, value in tree.items()}
    return None if not isinstance(tree, list) else [emptied(value) for value in tree]


def ranks(count: int, task: str, folder: Path) -> None:
    """Runs a task of ranks.py in as many processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("ranks.py"))]
    texts = [[*program, str(rank), str(count), str(port), task, str(folder)] for rank in range(count)]
    children = [subprocess.Popen(text, stderr=subprocess.PIPE, text=True) for text in texts]
    said = [child.communicate(timeout=600)[1] for child in children]
    assert [child.returncode for child in children] == [0] * count, "\n".join(said)


# --------------------------------------------------------------------------------------------------------- one rank


def test_a_program_of_dcp_changes_by_one_argument(tmp_path: Path) -> None:
    model, optimizer = network()
    for number in range(3):
        step(model, optimizer, number)
    tree = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    wanted = copy.deepcopy(tree)
    save(tree, tmp_path / "a")
    other, again = network()
    step(other, again, 0)
    found = load({"model": other.state_dict(), "optimizer": again.state_dict(), "step": 0}, tmp_path / "a")
    same(found, wanted)
    same(other.state_dict(), wanted["model"])
    (file,) = (tmp_path / "a").glob("rank-*")
    listed = subprocess.run([ROOT / "build/mmsb", "snapshot", "ls", "--arrays", file], capture_output=True, text=True, check=True)
    assert "model.0.weight" in listed.stdout and "optimizer.state.0.exp_avg" in listed.stdout
    assert torch.equal(torch.from_numpy(state.load(file, "model.0.weight")), wanted["model"]["0.weight"])


@pytest.mark.parametrize("dtype", TYPES)
def test_tensors_of_any_type_and_layout(tmp_path: Path, dtype: torch.dtype) -> None:
    whole = torch.arange(60).reshape(3, 4, 5).to(dtype)
    tree = {
        "whole": whole,
        "turned": whole.permute(2, 0, 1),
        "gaps": whole[:, ::2],
        "scalar": whole[1, 1, 1],
        "none": torch.zeros(0, 3).to(dtype),
    }
    save(tree, tmp_path / "a")
    found = {name: torch.zeros(tensor.shape).to(dtype) for name, tensor in tree.items()}
    found["turned"] = torch.zeros(3, 4, 5).to(dtype).permute(2, 0, 1)
    found["gaps"] = torch.zeros(3, 4, 5).to(dtype)[:, ::2]
    load(found, tmp_path / "a")
    for name, tensor in tree.items():
        assert found[name].dtype == dtype and bits(found[name]) == bits(tensor), name


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    values = {
        "none": None,
        "bool": True,
        "int": 2**80,
        "float": -0.0,
        "complex": 1 + 2j,
        "text": "a/b~\ud800",
        "bytes": b"\0\xff",
        "tuple": (1, (2.5, "x"), [None], {"deep": ()}),
        "dict": {"a": "b", "b": [1, 2], "c": ()},
        "numpy": np.float32(1.5),
        "array": np.arange(6, dtype="i2").reshape(2, 3),
    }
    save({"values": values, "tensor": torch.ones(1)}, tmp_path / "a")
    empty = {name: dict.fromkeys(value) if name == "dict" else None for name, value in values.items()}
    found = load({"values": empty, "tensor": torch.zeros(1)}, tmp_path / "a")["values"]
    array, wanted = found.pop("array"), values.pop("array")
    assert array.dtype == wanted.dtype and (array == wanted).all()
    assert repr(found) == repr({name: values[name] for name in found}) and type(found["numpy"]) is np.float32


def test_what_would_be_pickled_is_refused_with_its_name(tmp_path: Path) -> None:
    tree = {"a": object(), "b": torch.Size([1]), "c": [torch.device("cpu")], "d": 1, "t": torch.ones(3)}
    with pytest.raises(checkpoint.CheckpointException, match="3 of the state's values") as found:
        save(tree, tmp_path / "a")
    assert all(text in str(found.value) for text in ("a: a object", "b: a Size", "c: a device"))
    assert list((tmp_path / "a").iterdir()) == []

    class Own(SavePlanner):
        pass

    with pytest.raises(mmsb.UnsupportedError, match="Own gives it pickled only"):
        dcp._value(object.__new__(type("Own", (), {})), MetadataIndex("a"))


def test_a_folder_has_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    save({"t": torch.ones(3), "n": 1}, tmp_path)
    with pytest.raises(checkpoint.CheckpointException):
        save({"t": torch.zeros(3), "n": object()}, tmp_path)
    assert load({"t": torch.zeros(3), "n": 0}, tmp_path)["n"] == 1
    (tmp_path / "rank-0-0123456789abcdef.mmsb").write_bytes(b"of a save that was killed")
    (tmp_path / "mine.mmsb").write_bytes(b"")
    save({"t": torch.full((3,), 2.0), "n": 2}, tmp_path)
    found = load({"t": torch.zeros(3), "n": 0}, tmp_path)
    assert found["n"] == 2 and found["t"].tolist() == [2, 2, 2]
    assert sorted(path.name[:5] for path in tmp_path.iterdir()) == ["index", "mine.", "rank-"]


def test_a_path_may_come_from_dcp(tmp_path: Path) -> None:
    tree = {"t": torch.ones(3)}
    save(tree, tmp_path / "unused", checkpoint_id=tmp_path / "a")
    assert not (tmp_path / "unused").exists()
    checkpoint.save(tree, storage_writer=dcp.Writer(), checkpoint_id=str(tmp_path / "b"))
    found = {"t": torch.zeros(3)}
    checkpoint.load(found, storage_reader=dcp.Reader(), checkpoint_id=tmp_path / "b")
    assert found["t"].tolist() == [1, 1, 1]
    with pytest.raises(checkpoint.CheckpointException, match="no path"):
        checkpoint.save(tree, storage_writer=dcp.Writer())
    assert not dcp.Writer.validate_checkpoint_id("s3://bucket/a") and dcp.Reader.validate_checkpoint_id(str(tmp_path))


def test_a_tensor_is_converted_as_dcp_does(tmp_path: Path) -> None:
    save({"t": torch.arange(4.0)}, tmp_path)
    found = load({"t": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path)
    assert found["t"].dtype == torch.bfloat16 and found["t"].tolist() == [0, 1, 2, 3]
    with pytest.raises(checkpoint.CheckpointException, match=r"(?i)size mismatch"):
        load({"t": torch.zeros(5)}, tmp_path)
    with pytest.raises(checkpoint.CheckpointException, match="Missing key in checkpoint state_dict: u"):
        load({"u": torch.zeros(4)}, tmp_path)


def test_ranks_without_one_index_are_refused(tmp_path: Path) -> None:
    with pytest.raises(mmsb.UnsupportedError, match="use_collectives=False"):
        checkpoint.save({"t": torch.ones(1)}, storage_writer=dcp.Writer(tmp_path), use_collectives=False)


def test_nothing_of_a_file_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    trap = io.BytesIO()
    torch.save(Trap(), trap)
    save({"t": torch.ones(3), "trap": trap.getvalue(), "other": pickle.dumps(Trap())}, tmp_path / "a")
    found = load({"t": torch.zeros(3), "trap": None, "other": None}, tmp_path / "a")
    assert found["trap"] == trap.getvalue() and found["other"] == pickle.dumps(Trap())
    checkpoint.save({"t": torch.ones(3), "trap": 1}, storage_writer=checkpoint.FileSystemWriter(tmp_path / "theirs"))
    with pytest.raises(checkpoint.CheckpointException, match=r"index\.mmsb"):
        load({"t": torch.zeros(3)}, tmp_path / "theirs")
    assert not (tmp_path / "sprung").exists()


def lie(change: Callable[[Tree], Any]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        index = state.load(folder / "index.mmsb")
        change(index)
        state.save(folder / "index.mmsb", index)

    return changed


def cut(folder: Path) -> None:
    (file,) = folder.glob("rank-*")
    os.truncate(file, file.stat().st_size // 2)


def other_shape(folder: Path) -> None:
    (file,) = folder.glob("rank-*")
    state.save(file, {"t": torch.zeros(7)})


LIES: list[tuple[str, Callable[[Path], None]]] = [
    ("no index of a checkpoint", lambda folder: state.save(folder / "index.mmsb", {"a": 1})),
    ("has version 2", lie(lambda index: index.update({dcp.VERSION_KEY: 2}))),
    ("is damaged: KeyError", lie(lambda index: index.pop("values"))),
    ("is damaged: KeyError", lie(lambda index: index["tensors"]["t"].update(dtype="os"))),
    ("is damaged: TypeError", lie(lambda index: index["tensors"]["t"].update(dtype=[]))),
    ("is damaged: AttributeError", lie(lambda index: index.update(tensors=[]))),
    ("are no sizes", lie(lambda index: index["tensors"]["t"].update(shape=(-4,)))),
    ("are no sizes", lie(lambda index: index["tensors"]["t"].update(shape=(2.0, 2)))),
    ("its parts have 4", lie(lambda index: index["tensors"]["t"].update(shape=(2**62,)))),
    ("its parts have 0", lie(lambda index: index["tensors"]["t"].update(parts=[]))),
    (
        "has the part",
        lie(lambda index: index["tensors"]["t"]["parts"].append(((1,), (4,), ("rank-0-0123456789abcdef.mmsb", "t")))),
    ),
    ("has the part", lie(lambda index: index["tensors"]["t"].update(parts=[((0,), (4,), ("../../etc/passwd", "t"))]))),
    ("has the part", lie(lambda index: index["tensors"]["t"].update(parts=[((0,), (4,), ("index.mmsb", "t"))]))),
    (
        "rank-0-0123456789abcdef",
        lie(lambda index: index["tensors"]["t"].update(parts=[((0,), (4,), ("rank-0-0123456789abcdef.mmsb", "t"))])),
    ),
    ("are no paths", lie(lambda index: index["planner"].update(t=[1.5]))),
    ("has the shape", other_shape),
    ("mmsb", cut),
]


@pytest.mark.parametrize(("text", "change"), LIES)
def test_files_that_lie(tmp_path: Path, text: str, change: Callable[[Path], None]) -> None:
    save({"t": torch.ones(4), "n": 1}, tmp_path)
    change(tmp_path)
    found = {"t": torch.zeros(4), "n": 0}
    with pytest.raises(checkpoint.CheckpointException, match=text):
        load(found, tmp_path)
    assert found["t"].tolist() == [0, 0, 0, 0] and found["n"] == 0


def test_a_damaged_byte_reaches_no_tensor(tmp_path: Path) -> None:
    save({"t": torch.ones(1 << 16)}, tmp_path)
    (file,) = tmp_path.glob("rank-*")
    data = bytearray(file.read_bytes())
    at = data.index(np.ones(64, "f4").tobytes())
    data[at + 1000] ^= 1
    file.write_bytes(data)
    found = {"t": torch.zeros(1 << 16)}
    with pytest.raises(checkpoint.CheckpointException, match="CorruptError"):
        load(found, tmp_path)
    assert not found["t"].any()


# ----------------------------------------------------------------------------------------------------- several ranks


def test_ranks_load_with_another_sharding_what_others_saved(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    ranks(2, "save", folder)
    names = {name for file in folder.glob("rank-*") for name in state.arrays(file)}
    assert {"model.torch.float32/[0:6,0:10]", "model.torch.float32/[6:12,0:10]", "model.replicated"} <= names
    ranks(2, "load1-0", folder)
    ranks(2, "load1-1", folder)
    ranks(1, "load1-0", folder)
    ranks(2, "refuse", folder)
    ranks(2, "load1-1", folder)
    ranks(2, "save-async", folder)
    ranks(2, "load2-1", folder)
    assert len(list(folder.iterdir())) == 3
    whole = {"model": {"torch.bfloat16": torch.zeros(12, 10, dtype=torch.bfloat16)}, "step": None}
    load(whole, folder)  # without any ranks
    assert whole["step"] == 2 and whole["model"]["torch.bfloat16"][11, 9] == (119 + 2) % 7


def test_one_rank_saves_while_it_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    ranks(1, "save-async", folder)
    ranks(1, "load2-1", folder)
