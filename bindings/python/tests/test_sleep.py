"""Tags of a pool that sleep and wake, and captures, on a simulated device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mmsb
import pytest

MIB = 1 << 20
POOL = "large_segment_size_mb:2"


@pytest.fixture
def runtime() -> Iterator[mmsb.Runtime]:
    simulated = mmsb.Context(simulate="always", simulated_devices=1, simulated_memory=64 * MIB)
    with simulated as context, context.create_runtime(pool=POOL) as made:
        made.partition("weights", "cache")
        yield made


@pytest.fixture
def stream(runtime: mmsb.Runtime) -> Iterator[mmsb.Stream]:
    with runtime.stream() as made:
        yield made


@pytest.mark.parametrize("where", ["memory", "file"])
def test_tags_sleep_and_wake(runtime: mmsb.Runtime, stream: mmsb.Stream, tmp_path: Path, where: str) -> None:
    weights, cache = stream.allocate(20 * MIB, tag="weights"), stream.allocate(10 * MIB, tag="cache")
    data = bytes(range(256)) * (len(weights) // 256)
    stream.write(weights, data)
    runtime.sleep("weights", folder=tmp_path if where == "file" else None)
    runtime.sleep("cache", keep=False)
    assert not list(tmp_path.iterdir())
    stats = runtime.stats()
    assert (stats.sleeping, stats.sleeping_kept, stats.sleeping_copied) == (30 * MIB, 20 * MIB, 20 * MIB)
    assert (stats.pool_held, stats.pool_reserved) == (0, 0)
    assert weights.info().asleep and weights.info().address == weights.address
    other = stream.allocate(60 * MIB)
    assert not other.info().asleep
    for call in (
        lambda: stream.read(weights, 1),
        lambda: stream.allocate(1, tag="cache"),
        lambda: runtime.sleep("weights"),
    ):
        with pytest.raises(mmsb.InvalidStateError, match="sleeps"):
            call()
    with pytest.raises(mmsb.OutOfMemoryError, match="31457280 bytes for what wakes"):
        runtime.wake("weights", "cache")
    other.free()
    runtime.wake("weights", "cache")
    assert stream.read(weights) == data
    stats = runtime.stats()
    assert (stats.sleeping, stats.sleeping_kept, stats.sleeping_copied) == (0, 0, 40 * MIB)
    with pytest.raises(mmsb.InvalidStateError):
        runtime.wake("cache")
    runtime.sleep("weights", timeout=60)
    weights.free()
    cache.free()
    assert runtime.stats().sleeping_kept == 0


class Lent:
    """A block's memory by its address, as another library's array has it."""

    def __init__(self, block: mmsb.Block) -> None:
        pointer = {"shape": (len(block),), "typestr": "|u1", "data": (block.address, False), "version": 3}
        self.__cuda_array_interface__ = pointer


def test_pages_over_blocks_that_sleep(runtime: mmsb.Runtime, stream: mmsb.Stream, tmp_path: Path) -> None:
    context = runtime.context
    block, whole, later = stream.allocate(2 * MIB, tag="weights"), tmp_path / "whole", tmp_path / "later"
    data = bytes(range(256)) * (len(block) // 256)
    stream.write(block, data)
    page = context.adopt(Lent(block))
    context.save(whole)
    page.write(MIB, b"changed")
    runtime.sleep("weights")
    for call in (
        lambda: page.read(0, 1),
        lambda: page.write(0, b"a"),
        lambda: context.save(later),
        lambda: context.save(later, whole),
    ):
        with pytest.raises(mmsb.InvalidStateError, match="tag weights sleeps"):
            call()
    assert not later.exists()
    runtime.wake("weights")
    context.save(later, whole)
    with mmsb.Context.load(later, to_host=True) as loaded:
        assert loaded.page(page.id).read() == data[:MIB] + b"changed" + data[MIB + 7 :]
    page.destroy()
    exported = context.adopt(block)
    with pytest.raises(mmsb.BusyError, match=r"\(weights\) is exported 1 times, to other libraries or to pages"):
        runtime.sleep("weights")
    exported.destroy()
    runtime.sleep("weights")
    runtime.wake("weights")


def test_what_cannot_sleep(runtime: mmsb.Runtime, stream: mmsb.Stream, tmp_path: Path) -> None:
    block = stream.allocate(MIB, tag="weights")
    with stream.use((block, "read")), pytest.raises(mmsb.BusyError):
        runtime.sleep("weights")
    with pytest.raises(mmsb.InvalidArgumentError, match="no partition"):
        runtime.sleep("weights", "never declared")
    with pytest.raises(mmsb.InvalidArgumentError, match="folder"):
        runtime.sleep("weights", keep=False, folder=tmp_path)
    with pytest.raises(mmsb.NotFoundError):
        runtime.sleep("weights", folder=tmp_path / "missing")
    with pytest.raises(mmsb.InvalidArgumentError):
        runtime.sleep("weights", timeout=-1)
    assert not block.info().asleep
    with mmsb.Context(simulate="always") as context:
        with context.create_runtime() as plain, pytest.raises(mmsb.UnsupportedError, match="no pool"):
            plain.partition("weights")
        with context.create_runtime(pool="", guard_every=1) as guarded:
            guarded.partition("weights")
            with pytest.raises(mmsb.UnsupportedError, match="guard"):
                guarded.sleep("weights")


def test_a_capture_has_memory_of_its_own(runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    with runtime.capture(stream) as capture:
        assert isinstance(capture, mmsb.Capture) and capture.handle >> 60 == 13
        block = stream.allocate(3 * MIB)
        within = block.address
        block.free()
        kept = stream.allocate(3 * MIB)
        assert kept.address == within
        for call in (stream.wait, stream.record, stream.close, lambda: runtime.capture(stream)):
            with pytest.raises(mmsb.InvalidStateError, match="captures"):
                call()
    kept.free()
    stream.wait()
    with pytest.raises(mmsb.InvalidStateError, match="has ended"):
        capture.end()
    outside = [stream.allocate(3 * MIB) for _ in range(3)]
    assert within not in [block.address for block in outside]
    runtime.trim()
    assert runtime.stats().pool_reserved == 14 * MIB
    with capture.resume(stream):
        again = stream.allocate(3 * MIB)
        assert again.address == within
        again.free()
        with pytest.raises(mmsb.InvalidStateError, match="has not ended"):
            capture.resume(stream)
    capture.close()
    capture.close()
    runtime.trim()
    assert runtime.stats().pool_reserved == 10 * MIB
    with pytest.raises(mmsb.ClosedError):
        capture.end()
    with pytest.raises(mmsb.InvalidArgumentError):
        runtime.capture()
    with runtime.stream() as other, runtime.capture(other, stream):
        shared = other.allocate(1000)
        with stream.use((shared, "write")):
            pass
