"""Kernels on a simulated device, and pages beside each other."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import mmsb
import numpy as np
import pytest


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 if crc & 1 else crc >> 1
    return crc ^ 0xFFFFFFFF


@pytest.fixture
def stream() -> Iterator[mmsb.Stream]:
    with mmsb.Context(simulate="always", simulated_memory=64 << 20) as context:
        yield context.create_runtime().stream()


def put(stream: mmsb.Stream, data: bytes) -> mmsb.Block:
    block = stream.allocate(len(data))
    stream.write(block, data)
    return block


SIZE = 10_007


def twins() -> tuple[bytes, bytes]:
    random = np.random.default_rng(1)
    a = random.integers(0, 256, SIZE, dtype=np.uint8)
    b = np.where(random.random(SIZE) < 0.01, a ^ 1, a)
    return a.tobytes(), b.tobytes()


def test_comparisons(stream: mmsb.Stream) -> None:
    left, right = twins()
    a, b, result = put(stream, left), put(stream, right), stream.allocate(SIZE)
    differs = np.frombuffer(left, np.uint8) != np.frombuffer(right, np.uint8)
    with stream.use((a, "read"), (b, "read"), (result, "write")):
        stream.compare(result, a, b, SIZE)
    assert stream.read(result) == (~differs).tobytes()
    with stream.use((a, "read"), (b, "read"), (result, "write")):
        stream.differences(result, a, b, SIZE)
    assert stream.read(result, (SIZE + 7) // 8) == np.packbits(differs, bitorder="little").tobytes()
    with stream.use((a, "read"), (b, "read"), (result, "write")):
        stream.difference(result, a, b, SIZE)
    assert struct.unpack("QQ", stream.read(result, 16)) == (differs.sum(), differs.argmax())
    with pytest.raises(mmsb.OutOfRangeError):
        stream.compare(result, a, b, SIZE + 1)
    with pytest.raises(mmsb.InvalidArgumentError):
        stream.compare(a, a, b, SIZE)


def test_checksums(stream: mmsb.Stream) -> None:
    data, _ = twins()
    block, sums = put(stream, data), stream.allocate(16)
    with stream.use((block, "read"), (sums, "write")):
        stream.checksum(sums, block, SIZE, 4096)
    found = struct.unpack("III", stream.read(sums, 12))
    assert found == tuple(crc32c(data[at : at + 4096]) for at in range(0, SIZE, 4096))
    joined = mmsb.checksum_join(mmsb.checksum_join(found[0], found[1], 4096), found[2], SIZE - 8192)
    assert joined == crc32c(data)
    with pytest.raises(mmsb.InvalidArgumentError):
        stream.checksum(sums, block, SIZE, 0)
    with pytest.raises(mmsb.OutOfRangeError):
        stream.checksum(sums, block, SIZE, 1024)


def test_merges_and_scatters(stream: mmsb.Stream) -> None:
    old, new = bytes(100), bytes(range(100, 200))
    chosen = np.arange(100) % 3 == 0
    wanted = np.where(chosen, np.frombuffer(new, np.uint8), 0).astype(np.uint8).tobytes()
    payload = put(stream, new)
    packed = put(stream, np.packbits(chosen, bitorder="little").tobytes())
    for mask, bits in ((put(stream, chosen.tobytes()), False), (packed, True)):
        to = put(stream, old)
        with stream.use((to, "read_write"), (mask, "read"), (payload, "read")):
            stream.merge(to, mask, payload, 100, bits=bits)
        assert stream.read(to) == wanted
    to = put(stream, old)
    with stream.use((to, "read_write"), (packed, "read"), (payload, "read")):
        stream.propagate([(to, payload, packed, 100)])
    assert stream.read(to) == wanted
    to, offsets = put(stream, old), put(stream, struct.pack("QQQ", 99, 0, 100))
    with stream.use((to, "read_write"), (offsets, "read"), (payload, "read")):
        stream.scatter(to, offsets, payload, 3)
    assert stream.read(to) == b"e" + bytes(98) + b"d"
    with pytest.raises(mmsb.InvalidArgumentError):
        stream.scatter(to, offsets, payload, 3, offset_bytes=2)


def test_many_copies(stream: mmsb.Stream) -> None:
    source, to = put(stream, bytes(range(100))), put(stream, bytes(100))
    with stream.use((source, "read"), (to, "read_write")):
        stream.copy_many([(to.address + 50, source, 10), (to, source.address + 90, 10)])
    assert stream.read(to) == bytes(range(90, 100)) + bytes(40) + bytes(range(10)) + bytes(40)
    stream.copy_many([])
    with pytest.raises(mmsb.InvalidArgumentError):
        stream.copy_many([(to, source, 10), (to.address + 9, source, 10)])


def test_pages_beside_each_other(ctx: mmsb.Context) -> None:
    left, right = twins()
    a, b = ctx.create_page(SIZE), ctx.create_page(SIZE)
    a.write(0, left)
    b.write(0, right)
    differs = np.frombuffer(left, np.uint8) != np.frombuffer(right, np.uint8)
    found = a.compare(b)
    assert isinstance(found, mmsb.Difference)
    assert (found.differing, found.first) == (differs.sum(), differs.argmax())
    assert a.compare(a) == mmsb.Difference(differing=0, first=None)
    assert a.differences(b) == np.packbits(differs, bitorder="little").tobytes()
    assert a.checksum() == crc32c(left)
    assert b.checksum(5, 100) == crc32c(right[5:105])
    other = ctx.create_page(SIZE - 1)
    with pytest.raises(mmsb.MismatchError):
        a.compare(other)
    with pytest.raises(mmsb.MismatchError):
        a.propagate(other)
    with pytest.raises(mmsb.InvalidArgumentError):
        a.propagate(a)


def test_a_mask_carries_bytes(ctx: mmsb.Context) -> None:
    source, to = ctx.create_page(100), ctx.create_page(100)
    source.apply(mmsb.Delta.runs([(10, b"ten"), (90, b"ninety")]))
    to.propagate(source)
    assert to.read() == bytes(10) + b"ten" + bytes(77) + b"ninety" + bytes(4)
    assert to.mask_count() == 9
    assert to.epoch == 1
