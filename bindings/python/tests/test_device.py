"""Devices and the stream-ordered runtime, on simulated devices."""

from __future__ import annotations

import asyncio
import copy
import ctypes
import gc
import math
import os
import pickle
import pickletools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import mmsb
import pytest
from conftest import PATIENCE
from mmsb._ffi import lib

BYTES = 4096


@pytest.fixture
def sim() -> Iterator[mmsb.Context]:
    with mmsb.Context(simulate="always", simulated_devices=2, simulated_memory=64 << 20) as context:
        yield context


@pytest.fixture
def runtime(sim: mmsb.Context) -> Iterator[mmsb.Runtime]:
    with sim.create_runtime() as made:
        yield made


@pytest.fixture
def stream(runtime: mmsb.Runtime) -> Iterator[mmsb.Stream]:
    with runtime.stream() as made:
        yield made


def test_devices_are_listed(sim: mmsb.Context) -> None:
    first, second = sim.devices()
    assert isinstance(first, mmsb.Device)
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert first.name == "simulated device 0"
    assert first.simulated and first.ordered_memory and first.managed_memory and first.managed_hints
    assert first.pci == "" and first.numa_node is None
    assert len(first.uuid) == 16 and first.uuid != second.uuid
    assert first.bytes == first.free_bytes == 64 << 20
    assert first.granularity > 0 and first.multiprocessors > 0
    assert first.compute_capability >= (8, 0)


def test_without_a_device_nothing_is_simulated(ctx: mmsb.Context) -> None:
    cuda = mmsb.capabilities()["cuda"]
    if cuda.available:
        assert not ctx.devices()[0].simulated
    else:
        with pytest.raises((mmsb.NoDeviceError, mmsb.DeviceError)) as raised:
            ctx.devices()
        assert cuda.reason in str(raised.value)
        with pytest.raises(raised.type):
            ctx.runtime()


def test_blocks_come_from_a_pool(sim: mmsb.Context) -> None:
    with sim.create_runtime(pool="large_segment_size_mb:4") as runtime, runtime.stream() as stream:
        block = stream.allocate(3 << 20)
        address = block.address
        assert runtime.stats().pool_held == 3 << 20
        block.free()
        again = stream.allocate(3 << 20)
        assert again.address == address
        again.free()
        stream.wait()
        runtime.reap()
        stats = runtime.stats()
        assert (stats.pool_held, stats.pool_largest_free, stats.pool_moved, stats.pool_retries) == (0, 4 << 20, 0, 0)
        assert (stats.allocations, stats.pool_misses) == (2, 1)
        runtime.trim()
        assert runtime.stats().pool_reserved == 0
    with pytest.raises(mmsb.InvalidArgumentError, match="position 6"):
        sim.create_runtime(pool="slack:2")
    with sim.create_runtime() as plain:
        assert plain.stats().pool_reserved == 0


def test_a_pool_may_have_slabs(sim: mmsb.Context) -> None:
    with sim.create_runtime(pool="slabs:true") as runtime, runtime.stream() as stream:
        for size, slab in (1, 4096), (5000, 16384), (1 << 20, 1 << 20), ((1 << 20) + 1, 4 << 20), (5 << 20, 5 << 20):
            block = stream.allocate(size)
            assert runtime.stats().pool_held == slab
            block.free()


@pytest.mark.parametrize("source", ["virtual", "plain", "ordered", "pinned", "managed"])
def test_a_pool_has_memory_of_each_source(sim: mmsb.Context, source: str) -> None:
    with sim.create_runtime(pool=f"source:{source}") as runtime, runtime.stream() as stream:
        block = stream.allocate(3 << 20)
        stream.write(block, b"x" * (3 << 20))
        assert stream.read(block, 1, (3 << 20) - 1) == b"x"
        if source in ("pinned", "managed"):
            assert ctypes.string_at(block.address + 7, 2) == b"xx"
        assert runtime.stats().pool_reserved == 20 << 20
        with pytest.raises(mmsb.InvalidArgumentError, match="position 7"):
            sim.create_runtime(pool="source:tape")


@pytest.mark.filterwarnings("ignore::mmsb.SimulatedDeviceWarning")
def test_runtimes_and_pages_share_the_budget_of_a_device(sim: mmsb.Context) -> None:
    sim.set_device_budget(32 << 20)
    page = sim.create_page(4 << 20, location="gpu")
    with sim.create_runtime() as runtime, runtime.stream() as stream, sim.create_runtime(pool="") as pooled:
        block = stream.allocate(16 << 20)  # beside what the pages' pool has, which gives back what it keeps
        memory = sim.device_memory()
        assert isinstance(memory, mmsb.DeviceMemory)
        assert (memory.runtimes, memory.budget, memory.charged) == (3, 32 << 20, 20 << 20)
        assert (memory.asked, memory.helped, memory.returned) == (1, 1, 16 << 20)
        assert memory.charged_peak == 20 << 20 and memory.pool_free == 0
        with pytest.raises(mmsb.LimitError, match="13631488 bytes exceed the budget"):
            stream.allocate(13 << 20)
        with pytest.raises(mmsb.LimitError, match="other processes have unknown"):
            pooled.stream().allocate(13 << 20)
        sim.set_device_budget(12 << 20)
        assert stream.read(block, 10) is not None
        with pytest.raises(mmsb.LimitError):
            stream.allocate(1)
        block.free()
        stream.wait()
        stream.allocate(2 << 20).free()
    sim.set_device_budget(0)
    page.destroy()
    sim.trim()
    assert sim.device_memory().charged == 0
    assert sim.device_memory(1) == mmsb.DeviceMemory(0, 0, 0, 0, 0, 0, 0, 0)


@pytest.mark.filterwarnings("ignore::mmsb.SimulatedDeviceWarning")
def test_pinned_pages_have_a_budget(sim: mmsb.Context) -> None:
    before = sim.device_memory(None).charged
    sim.set_device_budget(before + (2 << 20), None)
    try:
        pages = [sim.create_page(8192, location="pinned") for _ in range(10)]
        assert sim.device_memory(None).charged == before + (2 << 20)
        with pytest.raises(mmsb.LimitError):
            sim.create_page(2 << 20, location="pinned")
        sim.destroy_pages(pages)
        sim.create_page(2 << 20, location="pinned").destroy()
        sim.trim()
        assert sim.device_memory(None).charged == before
    finally:
        sim.set_device_budget(0, None)
    assert sim.device_memory(None).budget == 0


def test_runtimes_are_shared_or_own(sim: mmsb.Context) -> None:
    assert sim.runtime().handle == sim.runtime(0).handle != sim.runtime(1).handle
    own = sim.create_runtime(1, streams=1)
    assert own.handle >> 60 == 11
    with own.stream(priority=-1), pytest.raises(mmsb.LimitError):
        own.stream()
    assert not own.closed
    own.close()
    own.close()
    assert own.closed
    with pytest.raises(mmsb.ClosedError):
        own.stats()
    with pytest.raises(mmsb.NoDeviceError):
        sim.runtime(2)
    with pytest.raises(mmsb.InvalidArgumentError):
        sim.create_runtime(0, guard_quarantine=1)
    for wrong in (-1, math.nan):
        with pytest.raises(mmsb.InvalidArgumentError):
            sim.create_runtime(memory_wait=wrong)
    for wait in (0, 0.5, math.inf):
        with sim.create_runtime(memory_wait=wait, budget=BYTES) as runtime, runtime.stream() as stream:
            block = stream.allocate(BYTES)
            with pytest.raises(mmsb.LimitError):
                stream.allocate(1)  # nothing is pending
            block.free()
            stream.allocate(BYTES).free()


def test_bytes_go_to_the_device_and_back(runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    data = bytes(range(256)) * 16
    block = stream.allocate(BYTES, tag="weights")
    assert len(block) == block.bytes == BYTES
    assert block.address % 256 == 0
    stream.write(block, data)
    other = runtime.stream()
    copied = other.allocate(BYTES)
    with other.use((block, "read"), (copied, "write")) as use:
        assert isinstance(use, mmsb.Use)
        assert block.info().uses == 1
        other.copy(copied, block, BYTES)
        other.fill(copied.address + 8, 0xFF, 4)
    assert other.read(copied, 16) == data[:8] + b"\xff" * 4 + data[12:16]
    assert other.read(copied, offset=4000) == data[4000:]
    assert other.read(copied, 0) == b""
    stream.fill(block, 7)
    assert stream.read(block) == b"\x07" * BYTES
    info = block.info()
    assert isinstance(info, mmsb.BlockInfo)
    assert (info.device, info.address, info.bytes, info.uses) == (0, block.address, BYTES, 0)
    with pytest.raises(mmsb.OutOfRangeError):
        stream.write(block, b"12", BYTES - 1)
    with pytest.raises(mmsb.OutOfRangeError):
        stream.copy(block, copied, BYTES + 1)
    with pytest.raises(mmsb.OutOfRangeError):
        stream.fill(block, 256)
    with pytest.raises(mmsb.InvalidArgumentError):
        stream.fill(block.address, 1)
    assert block.free() is False
    with pytest.raises(mmsb.ClosedError):
        block.free()
    with pytest.raises(mmsb.ClosedError):
        stream.copy(block, copied, 8)
    assert "freed" in repr(block)


def test_uses_keep_order_and_blocks(runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    other = runtime.stream()
    block = stream.allocate(BYTES)
    with stream.use((block, "read")):
        with pytest.raises(mmsb.BusyError), other.use((block, "write")):
            pass
        with other.use((block, "read")):
            assert block.free() is True
        assert runtime.stats().pending == BYTES
    runtime.reap()
    assert runtime.stats().outstanding == 0
    block = stream.allocate(BYTES)
    with pytest.raises(ZeroDivisionError), stream.use((block, "read_write")):
        1 / 0  # noqa: B018
    assert runtime.stats().aborts == 1
    with pytest.raises(mmsb.InvalidArgumentError):
        stream.use((block, "look"))
    use = stream.use((block, "write"))
    with use, pytest.raises(mmsb.InvalidArgumentError):
        use.__enter__()


def test_uses_are_recorded(runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    other = runtime.stream()
    blocks = [stream.allocate(BYTES) for _ in range(2)]
    launch = other.recorder()
    assert isinstance(launch, mmsb.Recorder)
    launch.add(blocks[0], "read")
    launch.add(blocks[0], "write")
    launch.add(blocks[1], "read")
    with stream.use((blocks[1], "write")), pytest.raises(mmsb.BusyError), launch:
        pass
    with launch:  # tried again
        other.fill(blocks[0], 1)
        assert [block.info().uses for block in blocks] == [1, 1]
    with pytest.raises(mmsb.ClosedError):
        launch.add(blocks[0], "read")
    strict = other.recorder()
    strict.add(None, "read")
    with pytest.raises(mmsb.InvalidArgumentError), strict:
        pass
    permissive = other.recorder(permissive=True)
    permissive.add(None, "read")
    with permissive:
        pass


def test_points_are_tickets(sim: mmsb.Context, stream: mmsb.Stream) -> None:
    far = sim.runtime(1).stream()
    block = stream.allocate(BYTES)
    stream.fill(block, 3)
    with stream.record() as ticket:
        far.after(ticket)
        assert ticket.wait() is None
        assert ticket.done()
        with sim.create_pages_start(1, 64, after=[ticket]) as pages:
            assert len(pages.wait()) == 1
            with pytest.raises(mmsb.InvalidArgumentError):
                far.after(pages)

    async def awaited() -> None:
        with stream.record() as point:
            await point

    asyncio.run(awaited())
    stream.wait()
    stream.wait(0)
    stream.wait(PATIENCE)


class Foreign:
    def __init__(self, native: int, version: int = 0) -> None:
        self.native = native
        self.version = version

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.version, self.native


def test_streams_of_the_program(sim: mmsb.Context, stream: mmsb.Stream) -> None:
    assert stream.native != 0
    assert stream.__cuda_stream__() == (0, stream.native)
    with sim.create_runtime() as other:
        for foreign in (Foreign(stream.native), stream, stream.native):
            with other.wrap(foreign) as wrapped:
                assert wrapped.native == stream.native
                with pytest.raises(mmsb.AlreadyExistsError):
                    other.wrap(foreign)
            assert wrapped.closed
        with other.wrap(0) as default:
            assert default.native == 0
        with pytest.raises(mmsb.InvalidArgumentError):
            other.wrap(Foreign(stream.native, version=1))
        with pytest.raises(mmsb.InvalidHandleError):
            other.wrap(12345)
        for wrong in ("a stream", True, 1.5, None):
            with pytest.raises(TypeError):
                other.wrap(wrong)


def test_budgets_and_reservations(sim: mmsb.Context) -> None:
    with sim.create_runtime(budget=1000) as runtime, runtime.stream() as stream:
        block = stream.allocate(600)
        with pytest.raises(mmsb.LimitError, match=r"401.*600.*400.*1000"):
            stream.allocate(401)
        with runtime.reserve(400) as reservation:
            assert isinstance(reservation, mmsb.Reservation)
            assert reservation.handle >> 60 == 12
            with pytest.raises(mmsb.LimitError):
                stream.allocate(1)
            part = stream.allocate(150, reservation=reservation)
            assert reservation.close() == 250
            assert reservation.close() == 0
        with pytest.raises(mmsb.ClosedError):
            stream.allocate(1, reservation=reservation)
        stats = runtime.stats()
        assert isinstance(stats, mmsb.RuntimeStats)
        assert (stats.budget, stats.charged, stats.reserved_bytes, stats.charged_peak, stats.refusals) == (1000, 750, 0, 1000, 2)
        assert (stats.streams, stats.blocks, stats.live, stats.peak, stats.allocations, stats.failures) == (1, 2, 750, 750, 2, 2)
        assert (stats.frees, stats.deferred_frees, stats.uses, stats.waits, stats.waits_saved, stats.reports) == (0,) * 6
        del block, part
        gc.collect()
        runtime.reap()
        runtime.trim()
        assert runtime.stats().outstanding == 0, "dropped blocks are given back"
    with pytest.raises(mmsb.InvalidStateError):
        sim.runtime().reserve(1)


def test_a_refusal_asks_the_program(sim: mmsb.Context) -> None:
    kept: list[mmsb.Block] = []
    asked: list[tuple[int, int]] = []

    def refused(size: int, attempt: int) -> bool:
        asked.append((size, attempt))
        if not kept:
            return False
        kept.pop().free()
        return True

    with sim.create_runtime(budget=1000, refused=refused, refused_attempts=5) as runtime, runtime.stream() as stream:
        kept += [stream.allocate(300) for _ in range(3)]
        large = stream.allocate(900)
        assert asked == [(900, 1), (900, 2), (900, 3)]
        with pytest.raises(mmsb.LimitError):
            stream.allocate(900)
        assert runtime.stats().refused_calls == 4 == len(asked)
        assert large.free() is False


def test_what_the_program_raises_when_it_is_asked(sim: mmsb.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised by the call that allocates, and is no "try again"."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraised: said.append(str(unraised.exc_value)))

    def refused(size: int, attempt: int) -> bool:
        if size == 3000:
            with pytest.raises(SystemExit, match="2000"):  # a call within the call
                queue.allocate(2000)
        raise SystemExit(f"{size} {attempt}")

    with sim.create_runtime(budget=1000, refused=refused) as runtime, runtime.stream() as queue:
        calls: list[Callable[[], object]] = [
            lambda: queue.allocate(2000),
            lambda: queue.allocate(3000),
            lambda: runtime.allocate(2000),
            lambda: runtime.allocate(2000, queue.native),
        ]
        for call, size in zip(calls, (2000, 3000, 2000, 2000)):
            with pytest.raises(SystemExit, match=f"{size} 1"):
                call()
        assert (runtime.stats().refused_calls, said) == (5, [])
        # One of another library: nobody of Python's is there to raise it.
        block, address = ctypes.c_uint64(), ctypes.c_void_p()
        assert lib.mmsb_block_allocate(queue.handle, 2000, 0, 0, block, address) == mmsb.LimitError.code
        assert (runtime.stats().refused_calls, said) == (6, ["2000 1"])
        assert queue.allocate(500).bytes == 500


def test_log_ledger_guard_and_tags(sim: mmsb.Context, tmp_path: Path) -> None:
    with sim.create_runtime(log_events=100, guard_every=1, budget=10_000, ledger=tmp_path / "ledger") as runtime:
        with runtime.stream() as stream:
            block = stream.allocate(100, tag="cache ä")
            with pytest.raises(mmsb.MismatchError):
                sim.create_runtime(budget=9_999, ledger=tmp_path / "ledger")
            stream.fill(block.address + 90, 1, 11)
            block.free()
            stream.wait()
            runtime.reap()
            tag = runtime.tag_stats("cache ä")
            assert isinstance(tag, mmsb.TagStats)
            assert (tag.live, tag.peak, tag.total_bytes, tag.blocks, tag.total_blocks, tag.failures) == (0, 100, 100, 0, 1, 0)
        assert runtime.stats().reports == 1
        with open(tmp_path / "log", "wb") as file:
            runtime.write_log(file)
        lines = (tmp_path / "log").read_text().splitlines()
        assert lines[0] == "Thread,Time,Action,Pointer,Size,Stream"
        assert [line.split(",")[2] for line in lines[1:]] == ["allocate", "free"]
    with pytest.raises(mmsb.InvalidStateError):
        sim.runtime().write_log(os.open(os.devnull, os.O_WRONLY))


def test_everything_ends_with_its_context() -> None:
    ctx = mmsb.Context(simulate="always")
    runtime = ctx.create_runtime()
    stream = runtime.stream()
    block = stream.allocate(BYTES)
    use = stream.use((block, "write"))
    use.__enter__()
    ctx.close()
    assert runtime.closed and not stream.closed
    with pytest.raises(mmsb.StaleHandleError):
        stream.allocate(1)
    with pytest.raises(mmsb.StaleHandleError):
        block.info()
    with pytest.raises(mmsb.StaleHandleError):
        use.__exit__(None, None, None)
    with pytest.raises(mmsb.StaleHandleError):
        stream.close()
    for thing in (runtime, stream, block, use):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
        with pytest.raises(TypeError):
            copy.copy(thing)
    assert repr(runtime) == "<mmsb.Runtime closed>"
    assert repr(stream) == "<mmsb.Stream closed>"


def test_a_pool_for_peers(sim: mmsb.Context) -> None:
    with sim.create_runtime(pool="peers:true") as runtime, runtime.stream() as stream:
        assert stream.allocate(1000).free() is False
    with pytest.raises(mmsb.UnsupportedError, match="source:plain"):
        sim.create_runtime(pool="peers:true,source:plain")


def test_memory_stats_have_pytorchs_names(sim: mmsb.Context) -> None:
    with sim.create_runtime(pool="") as runtime, runtime.stream() as stream:
        block = stream.allocate(1000)
        stats = runtime.memory_stats()
        assert stats["allocated_bytes.all.current"] == stats["allocated_bytes.small_pool.peak"] == 1024
        assert stats["requested_bytes.all.current"] == 1000
        assert stats["allocation.all.current"] == 1 and stats["num_ooms"] == 0
        assert stats["inactive_split_bytes.small_pool.peak"] == stats["inactive_split_bytes.all.current"] == (2 << 20) - 1024
        block.free()
        stats = runtime.memory_stats()
        assert (stats["allocation.all.current"], stats["allocation.all.freed"]) == (0, 1)
        stream.allocate(1024).free()
        again = runtime.memory_stats()
        assert again["allocation.small_pool.allocated"] == stats["allocation.small_pool.allocated"] + 1
        assert again["requested_bytes.all.peak"] == 1024
        for family in {name.removesuffix(".freed") for name in again if name.endswith(".freed")}:
            assert again[f"{family}.current"] == again[f"{family}.allocated"] - again[f"{family}.freed"]
        assert stats["reserved_bytes.all.current"] >= stats["largest_free_block"] >= 1 << 20
    with pytest.raises(mmsb.ClosedError):
        runtime.memory_stats()
    assert sim.runtime().memory_stats()["num_sync_all_streams"] == 0


FRAME = {"filename": str, "line": int, "name": str}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": [FRAME]}
#: torch/cuda/memory.py: Segment, and what torch.cuda.memory._snapshot returns.
SCHEMA = {
    "segments": [
        {
            "device": int,
            "address": int,
            "total_size": int,
            "stream": int,
            "segment_type": str,
            "segment_pool_id": (int, int),
            "is_expandable": bool,
            "allocated_size": int,
            "active_size": int,
            "requested_size": int,
            "frames": [FRAME],
            "blocks": [BLOCK],
        }
    ],
    "device_traces": [[{"action": str, "addr": int, "size": int, "stream": int, "time_us": int, "frames": [FRAME]}]],
}
#: What the page reads (torch/utils/viz/MemoryViz.js: unpickle), as far as it is needed.
OPCODES = {
    *("PROTO", "STOP", "MARK", "EMPTY_DICT", "SETITEMS", "EMPTY_LIST", "APPENDS", "TUPLE2", "BINUNICODE", "BININT", "LONG1"),
    *("NEWTRUE", "NEWFALSE", "LONG_BINPUT", "LONG_BINGET"),
}
ACTIONS = {"alloc", "free_requested", "free_completed", "oom"}


def fits(value: object, schema: object) -> bool:
    """Whether a value has the form of a schema: dicts with these keys, or more in events, lists of these items."""
    if isinstance(schema, dict):
        return isinstance(value, dict) and schema.keys() <= value.keys() and all(fits(value[k], schema[k]) for k in schema)
    if isinstance(schema, list):
        return isinstance(value, list) and all(fits(item, schema[0]) for item in value)
    if isinstance(schema, tuple):
        return isinstance(value, tuple) and len(value) == len(schema) and all(map(fits, value, schema))
    return type(value) is schema


@pytest.mark.parametrize("pool", [None, ""])
def test_snapshots_have_pytorchs_schema(sim: mmsb.Context, tmp_path: Path, pool: str | None) -> None:
    with sim.create_runtime(pool=pool, log_events=1000) as runtime, runtime.stream() as stream:
        block = stream.allocate(3000, tag="weights")
        gone = stream.allocate(5 << 20, tag="cache ä")
        waits = stream.allocate(700)
        with stream.use((waits, "read")):
            waits.free()
            gone.free()
            with pytest.raises(mmsb.OutOfMemoryError):
                stream.allocate(1 << 40)
            picture = runtime.snapshot()
            runtime.snapshot(tmp_path / "memory.pickle")
        written = (tmp_path / "memory.pickle").read_bytes()
        assert pickle.loads(written).keys() == picture.keys()
        assert {opcode.name for opcode, _, _ in pickletools.genops(written)} <= OPCODES
        assert fits(picture, SCHEMA), picture
        for segment in picture["segments"]:
            assert segment["total_size"] == sum(b["size"] for b in segment["blocks"])
            assert segment["allocated_size"] == sum(b["size"] for b in segment["blocks"] if b["state"] == "active_allocated")
            ends = [b["address"] + b["size"] for b in segment["blocks"]]
            assert [segment["address"], *ends[:-1]] == [b["address"] for b in segment["blocks"]]
        blocks = {b["address"]: b for s in picture["segments"] for b in s["blocks"]}
        mine = blocks[block.address]
        assert (mine["requested_size"], mine["state"]) == (3000, "active_allocated")
        assert mine["frames"] == [{"filename": "thread", "line": threading.get_native_id(), "name": "weights"}]
        assert blocks[waits.address]["state"] == "active_pending_free"
        assert {b["state"] for b in blocks.values()} <= {"active_allocated", "active_pending_free", "inactive"}
        trace = picture["device_traces"][0]
        segments = {"segment_map", "segment_unmap"} if pool is not None else {"segment_alloc", "segment_free"}
        assert {e["action"] for e in trace} <= ACTIONS | segments
        assert [e["action"] for e in trace if e["addr"] == gone.address and e["action"] in ACTIONS] == [
            "alloc",
            "free_requested",
            "free_completed",
        ]
        refused = next(e for e in trace if e["action"] == "oom")
        assert refused["size"] == 1 << 40 and 0 < refused["device_free"] <= 1 << 30


def test_snapshots_are_written(sim: mmsb.Context, tmp_path: Path) -> None:
    with sim.create_runtime(pool="") as runtime, runtime.stream() as stream:
        block = stream.allocate(100, tag="weights")
        for name, begins in {"a.html": b"<!doctype html>", "b.JSON": b'{"format":"mmsb memory', "c.pkl": b"\x80\x02"}.items():
            runtime.snapshot(tmp_path / name)
            runtime.snapshot(str(tmp_path / name))
            text = (tmp_path / name).read_bytes()
            assert text.startswith(begins) and b"weights" in text
        with pytest.raises(mmsb.InvalidArgumentError, match=r"it must end in \.html"):
            runtime.snapshot(tmp_path / "picture")
        assert not (tmp_path / "picture").exists()
        (tmp_path / "full.html").symlink_to("/dev/full")
        with pytest.raises(mmsb.NoSpaceError):
            runtime.snapshot(tmp_path / "full.html")
        block.free()
    with pytest.raises(mmsb.ClosedError):
        runtime.snapshot(tmp_path / "closed.html")
    assert not (tmp_path / "closed.html").exists()
