"""safetensors and .npz to checkpoints and back, and such files that lie."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import mmsb
import numpy as np
import pytest
import safetensors.numpy
from mmsb import state
from mmsb.state import files
from test_state import same

KINDS = ["?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", "c8"]


def test_safetensors_there_and_back(tmp_path: Path) -> None:
    tensors: dict[str, Any] = {f"block.{kind}": np.arange(6).astype(kind).reshape(2, 3) for kind in KINDS}
    tensors |= {"half": np.ones(5, ml_dtypes.bfloat16), "e4": np.ones(3, ml_dtypes.float8_e4m3fn), "none": np.zeros((0, 7))}
    tensors |= {"scalar": np.array(1.5), "a/b~ü": np.ones(1), "": np.ones(2), "7": np.ones(3, "u1")}
    safetensors.numpy.save_file(tensors, tmp_path / "theirs", metadata={"format": "np", "ü": ""})
    state.import_safetensors(tmp_path / "theirs", tmp_path / "a")
    back = state.load(tmp_path / "a")
    assert back.pop("__metadata__") == {"format": "np", "ü": ""}
    assert set(back) == set(tensors)
    for name, tensor in tensors.items():
        same(back[name], tensor)
    state.export_safetensors(tmp_path / "a", tmp_path / "ours")
    deserialize: Any = safetensors.deserialize
    again, theirs = (dict(deserialize((tmp_path / name).read_bytes())) for name in ("ours", "theirs"))
    assert {name: {**row, "data": bytes(row["data"])} for name, row in again.items()} == theirs
    with safetensors.safe_open(tmp_path / "ours", "np") as opened:
        assert opened.metadata() == {"format": "np", "ü": ""}
    state.export_safetensors(tmp_path / "a", tmp_path / "some", ["~s7", "a~1b~0ü"], durable=False)
    assert set(safetensors.numpy.load_file(tmp_path / "some")) == {"7", "a/b~ü"}


def test_nested_names_are_joined_by_dots(tmp_path: Path) -> None:
    tree = {
        "model": {"layers": [{"w": np.asfortranarray(np.arange(6.0).reshape(2, 3))}, {"w": np.ones(2)}]},
        "step": 3,
        "x": None,
    }
    state.save(tmp_path / "a", tree)
    state.export_safetensors(tmp_path / "a", tmp_path / "b", "model")
    found = safetensors.numpy.load_file(tmp_path / "b")
    same(found["layers.0.w"], np.arange(6.0).reshape(2, 3))
    state.export_safetensors(tmp_path / "a", tmp_path / "b", ["model/layers/1"])
    assert set(safetensors.numpy.load_file(tmp_path / "b")) == {"model.layers.1.w"}
    with pytest.raises(mmsb.UnsupportedError, match="no place for 2 values: step is a scalar; x is a scalar"):
        state.export_safetensors(tmp_path / "a", tmp_path / "c")
    with pytest.raises(mmsb.UnsupportedError, match="no place for 1 values: x is None"):
        state.export_npz(tmp_path / "a", tmp_path / "c")
    state.save(tmp_path / "a", {"a": {"b": np.ones(1)}, "a.b": np.ones(1), "t": np.ones(1, "M8[s]")})
    for export in (state.export_npz, state.export_safetensors):
        with pytest.raises(mmsb.MismatchError, match="1 names are there twice when keys are joined by dots: a\\.b"):
            export(tmp_path / "a", tmp_path / "c")
    with pytest.raises(mmsb.UnsupportedError, match=r"t is <M8\[s\]"):
        state.export_safetensors(tmp_path / "a", tmp_path / "c", ["t"])
    state.save(tmp_path / "a", {"__metadata__": {"k": 1}, "a": np.ones(1)})
    with pytest.raises(mmsb.UnsupportedError, match="__metadata__ is not a dict of texts"):
        state.export_safetensors(tmp_path / "a", tmp_path / "c")
    assert not (tmp_path / "c").exists() and not list(tmp_path.glob("*.tmp"))


def write(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def row(begin: Any = 0, end: Any = 8, shape: Any = (2,), dtype: Any = "F32", **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


@pytest.mark.parametrize(
    ("header", "length", "text"),
    [
        ({"a": row()}, 2**63, "its header has 9223372036854775808 bytes"),
        ({"a": row()}, 100_000_001, "its header has 100000001 bytes; the limit is"),
        ({"a": row()}, 200, "its header has 200 bytes; the limit is"),
        (b"[]", None, "no object of JSON"),
        (b"{", None, "damaged"),
        (b"\xff", None, "damaged"),
        (b'{"a":' * 100_000, None, "damaged"),
        (b'{"a": 1, "a": 2}', None, "the name 'a' is there twice"),
        (
            b'{"a": {"dtype": "F32", "dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
            None,
            "the name 'dtype' is there twice",
        ),
        ({"a": []}, None, "does not have dtype"),
        ({"a": {"dtype": "F32", "shape": [2]}}, None, "does not have dtype"),
        ({"a": row(more=1)}, None, "does not have dtype"),
        ({"__metadata__": {"a": 1}}, None, "is not a dict of texts"),
        ({"__metadata__": []}, None, "is not a dict of texts"),
        ({"a": row(0, 8.0)}, None, "that is not from 0"),
        ({"a": row(False, 8)}, None, "that is not from 0"),
        ({"a": row(-8, 0)}, None, "that is not from 0"),
        ({"a": row(0, "8")}, None, "that is not from 0"),
        ({"a": row(shape=[-2])}, None, "that is not from 0"),
        ({"a": row(shape=2)}, None, "damaged"),
        ({"a": row(0, 8, [10**30])}, None, "a number has 31 digits"),
        ({"a": row(0, 2**64 - 8, [2**62])}, None, "a number has 20 digits"),
        ({"a": row(0, 0, [2**62, 4])}, None, "has 73786976294838206464 bytes"),
        ({"a": row(8, 0, [0])}, None, "its offsets 8 and 0"),
        ({"a": row(0, 8, [3])}, None, "has 12 bytes, and its offsets 0 and 8"),
        ({"a": row(0, 8, [2] + [1] * 64)}, None, "'a' of shape [2, 1"),
        ({"a": row(4, 12)}, None, "a begins at 4, and what is before it ends at 0"),
        ({"a": row(), "b": row(4, 12)}, None, "b begins at 4, and what is before it ends at 8"),
        ({"a": row(), "b": row()}, None, "begins at 0, and what is before it ends at 8"),
        ({"a": row(0, 16, [4])}, None, "its tensors end at 16, and it has 8 bytes"),
        ({"a": row(0, 4, [1])}, None, "its tensors end at 4, and it has 8 bytes"),
        ({}, None, "its tensors end at 0, and it has 8 bytes"),
    ],
)
def test_safetensors_that_lie(tmp_path: Path, header: Any, length: int | None, text: str) -> None:
    path = write(tmp_path / "a", header, bytes(8), length)
    with pytest.raises(mmsb.CorruptError) as caught:
        state.import_safetensors(path, tmp_path / "b")
    assert text in str(caught.value)
    assert not (tmp_path / "b").exists()


def test_safetensors_of_types_without_bytes(tmp_path: Path) -> None:
    with pytest.raises(mmsb.UnsupportedError, match="'a' is of 'F4'; known are BOOL"):
        state.import_safetensors(write(tmp_path / "a", {"a": row(dtype="F4")}, bytes(8)), tmp_path / "b")
    for data in (b"", b"1234567"):
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(mmsb.CorruptError, match=f"has {len(data)} bytes"):
            state.import_safetensors(tmp_path / "a", tmp_path / "b")
    state.import_safetensors(write(tmp_path / "a", {}), tmp_path / "b")
    assert state.load(tmp_path / "b") == {}


def test_every_truncation_is_found(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.ones(3), "b": np.ones((2, 2), "f4")}, tmp_path / "whole")
    np.savez(tmp_path / "whole.npz", a=np.ones(3), b=np.ones((2, 2), "f4"))
    importers: list[tuple[str, Callable[..., None]]] = [
        ("whole", state.import_safetensors),
        ("whole.npz", state.import_npz),
    ]
    for name, importer in importers:
        data = (tmp_path / name).read_bytes()
        for length in range(0, len(data), 7):
            (tmp_path / "part").write_bytes(data[:length])
            with pytest.raises(mmsb.CorruptError, match="part"):
                importer(tmp_path / "part", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_npz_there_and_back(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        f"k{number}": np.arange(6).astype(kind).reshape(2, 3) for number, kind in enumerate([*KINDS, "c16", ">i4", "S2"])
    }
    arrays |= {
        "file/x": np.asfortranarray(np.ones((3, 2))),
        "none": np.zeros((0, 3)),
        "zero": np.array(7),
        "when": np.ones(2, "M8[s]"),
    }
    np.savez(tmp_path / "theirs.npz", **arrays)
    state.import_npz(tmp_path / "theirs.npz", tmp_path / "a", compression="zstd", durable=False)
    back = state.load(tmp_path / "a")
    assert back["file/x"].flags.f_contiguous
    same(back, arrays)
    state.export_npz(tmp_path / "a", tmp_path / "ours.npz")
    with np.load(tmp_path / "ours.npz") as again:
        same(dict(again), arrays)
    state.save(tmp_path / "b", {"file": np.ones(1), "n": {"step": 3, "rate": 0.5, "text": "é"}})
    state.export_npz(tmp_path / "b", tmp_path / "ours.npz")
    with np.load(tmp_path / "ours.npz") as again:
        assert again["n.step"] == 3 and again["n.text"] == "é" and "file" in again.files
    state.save(tmp_path / "b", {"x": np.ones(1, ml_dtypes.bfloat16), "big": 10**30, "a\0b": 1})
    with pytest.raises(mmsb.UnsupportedError, match="3 values: x is bfloat16; big is 1000"):
        state.export_npz(tmp_path / "b", tmp_path / "c")


@pytest.mark.parametrize("export", [state.export_safetensors, state.export_npz])
def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path, export: Callable[[Path, Path], None]) -> None:
    state.save(tmp_path / "a", {"x": np.ones(5000), "y": np.zeros(5000) + 7})
    (tmp_path / "there").write_bytes(b"before")
    with (tmp_path / "a").open("r+b") as file:
        at = file.read().index(np.float64(7).tobytes() * 100)
        file.seek(at)
        file.write(b"damage")
    with pytest.raises(mmsb.CorruptError):
        export(tmp_path / "a", tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "there"]


def test_members_that_are_no_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("folder/", "")
        archive.write(tmp_path / "array.npy", "folder/inside.npy")
        archive.writestr("readme.txt", b"a text")
        archive.writestr("empty", b"")
    state.import_npz(tmp_path / "a.npz", tmp_path / "a")
    with np.load(tmp_path / "a.npz") as found:
        same(state.load(tmp_path / "a"), {name: found[name] for name in ("folder/inside", "readme.txt", "empty")})


def test_zeros_at_the_end_are_refused(tmp_path: Path) -> None:
    """NumPy drops them."""
    kept = {"inner": "a\0b", "bytes": b"\0b", "none": "", "array": np.array(["a\0b"])}
    state.save(tmp_path / "a", kept)
    state.export_npz(tmp_path / "a", tmp_path / "b")
    with np.load(tmp_path / "b") as found:
        assert {name: found[name].tolist() for name in found} == {**kept, "array": ["a\0b"]}
    state.save(tmp_path / "a", {**kept, "text": "ab\0", "key": b"\1\0\0", "numpy": np.bytes_(b"c\0")})
    with pytest.raises(mmsb.UnsupportedError, match=r"3 values: text ends in zeros, .*; key ends .*; numpy ends") as error:
        state.export_npz(tmp_path / "a", tmp_path / "b")
    assert "inner" not in str(error.value)


@pytest.mark.parametrize("export", [state.export_npz, state.export_safetensors])
def test_the_longest_names_of_files(tmp_path: Path, export: Callable[[Path, Path], None]) -> None:
    state.save(tmp_path / "a", {"x": np.ones(3)})
    export(tmp_path / "a", tmp_path / ("e" * 255))
    assert sorted(map(len, os.listdir(tmp_path))) == [1, 255]


def test_npz_with_missing_bytes(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole", a=np.arange(5), b=np.ones(3))
    whole = (tmp_path / "whole.npz").read_bytes()
    for begin in range(0, len(whole), 20):
        (tmp_path / "part.npz").write_bytes(whole[:begin] + whole[begin + 20 :])
        with pytest.raises(mmsb.CorruptError):
            state.import_npz(tmp_path / "part.npz", tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        state.import_npz(tmp_path / "none.npz", tmp_path / "a")


def test_names_without_utf8_are_refused(tmp_path: Path) -> None:
    state.save(tmp_path / "a", {"\ud800": np.ones(1), "b": np.ones(1), "__metadata__": {"\udfff": "c", "d": "\udc00"}})
    with pytest.raises(mmsb.UnsupportedError, match=r"for 3 values: '\\ud800' has no UTF-8; '\\udfff' has .*; '\\udc00' has"):
        state.export_safetensors(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_npz_that_lies(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("it was unpickled",))

    np.savez(tmp_path / "pickled.npz", fine=np.ones(1), trap=np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(mmsb.UnsupportedError, match="trap has pickled objects, which are not read"):
        state.import_npz(tmp_path / "pickled.npz", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            with archive.open("a.npy", "w") as entry:
                files.npy.write_array(entry, np.ones(2))
    with pytest.raises(mmsb.CorruptError, match="has the name 'a' twice"):
        state.import_npz(tmp_path / "twice.npz", tmp_path / "out")
    for content in (b"", b"no array", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8', "):
        with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
            archive.writestr("a.npy", content)
        with pytest.raises(mmsb.CorruptError, match="is damaged"):
            state.import_npz(tmp_path / "bad.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileNotFoundError):
        state.import_npz(tmp_path / "nothing.npz", tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        state.import_safetensors(tmp_path / "nothing", tmp_path / "out")
