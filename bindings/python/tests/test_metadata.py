from __future__ import annotations

import mmsb
import numpy as np
import pytest


def test_metadata_is_a_mapping(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    metadata = page.metadata
    assert isinstance(metadata, mmsb.Metadata)
    assert len(metadata) == 0
    assert dict(metadata) == {}
    version = page.version
    metadata["step"] = b"42"
    metadata["naïve ключ"] = bytearray(b"\0\xff")
    metadata["array"] = np.array([1, 2], dtype=np.uint8)
    metadata["empty"] = b""
    assert page.version > version
    assert list(metadata) == ["step", "naïve ключ", "array", "empty"]
    assert metadata["naïve ключ"] == b"\0\xff"
    assert metadata["array"] == b"\1\2"
    assert metadata["empty"] == b""
    assert len(metadata) == 4
    metadata["step"] = b"43"
    assert next(iter(metadata)) == "step"
    assert ctx.page(page.id).metadata["step"] == b"43"
    assert "step" in metadata
    assert "stop" not in metadata
    assert "" not in metadata
    assert 5 not in metadata  # type: ignore[comparison-overlap]
    assert metadata.get("stop") is None
    assert metadata.pop("step") == b"43"
    assert metadata.setdefault("new", b"1") == b"1"
    metadata.update({"a": b"1", "b": b"2"})
    assert metadata == {"naïve ключ": b"\0\xff", "array": b"\1\2", "empty": b"", "new": b"1", "a": b"1", "b": b"2"}
    del metadata["a"]
    assert "a" not in metadata
    assert "naïve" in repr(metadata)
    metadata.clear()
    assert len(metadata) == 0
    assert page.epoch == 0


def test_missing_keys(ctx: mmsb.Context) -> None:
    metadata = ctx.create_page(10).metadata
    with pytest.raises(KeyError) as caught:
        metadata["no such key"]
    assert isinstance(caught.value, mmsb.NotFoundError)
    with pytest.raises(mmsb.NotFoundError):
        del metadata["no such key"]
    with pytest.raises(KeyError):
        metadata.pop("no such key")


def test_bad_keys_and_values(ctx: mmsb.Context) -> None:
    metadata = ctx.create_page(10).metadata
    for key in ("", "\ud800", "\udcff"):
        with pytest.raises(mmsb.InvalidArgumentError):
            metadata[key] = b"x"
        with pytest.raises(mmsb.InvalidArgumentError):
            metadata[key]
        with pytest.raises(mmsb.InvalidArgumentError):
            del metadata[key]
    for wrong in (b"bytes", 5, None):
        with pytest.raises(TypeError):
            metadata[wrong] = b"x"  # type: ignore[index]
    for value in ("text", 5, None):
        with pytest.raises(TypeError):
            metadata["key"] = value  # type: ignore[assignment]
    assert len(metadata) == 0
    metadata["zero \0 byte"] = b"x"
    assert list(metadata) == ["zero \0 byte"]


def test_large_values_and_many_keys(ctx: mmsb.Context) -> None:
    metadata = ctx.create_page(10).metadata
    for length in (255, 256, 257, 1 << 20):
        metadata["large"] = bytes(range(256)) * (length // 256) + bytes(length % 256)
        assert len(metadata["large"]) == length
    names = [f"key {number}" for number in range(500)]
    for name in names:
        metadata[name] = name.encode()
    assert list(metadata)[1:] == names
    assert metadata["key 499"] == b"key 499"


def test_blob(ctx: mmsb.Context) -> None:
    metadata = ctx.create_page(10).metadata
    assert metadata.export_blob() == bytes(4)
    metadata["a"] = b"xyz"
    blob = metadata.export_blob()
    assert blob == b"\1\0\0\0\1\0\0\0a\3\0\0\0xyz"
    other = ctx.create_page(10).metadata
    other["gone"] = b""
    other.import_blob(bytearray(blob))
    assert dict(other) == {"a": b"xyz"}
    for bad in (blob[:-1], blob + b"x", b"\xff" * 8, b"\2" + blob[1:], b"\1\0\0\0\1\0\0\0\xff\0\0\0\0", b"\1"):
        with pytest.raises(mmsb.CorruptError):
            other.import_blob(bad)
        assert dict(other) == {"a": b"xyz"}
    other.import_blob(b"")
    assert len(other) == 0
    with pytest.raises(TypeError):
        other.import_blob("text")  # type: ignore[arg-type]
