"""Command buffers: what is copied, order, full rings, failures, ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import mmsb
import pytest


@pytest.fixture
def context() -> Iterator[mmsb.Context]:
    with mmsb.Context() as made:
        yield made


def change(page: mmsb.Page, offset: int, data: bytes) -> None:
    page.apply(mmsb.Delta.runs([(offset, data)]))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_changed_bytes_follow(context: mmsb.Context, workers: int) -> None:
    first, second, page = (context.create_page(100) for _ in range(3))
    change(first, 10, b"aaaa")
    change(second, 12, b"bb")
    with mmsb.CommandBuffer(16, workers=workers) as commands:
        commands.enqueue(page, [first, second])
        commands.wait()
        assert page.read(9, 6) == b"\0aabb\0"
        assert (page.epoch, page.mask_count()) == (1, 4)
        commands.enqueue(page, [])
        commands.wait()
        assert page.epoch == 1
        # Its parents, as they are then.
        context.add_dependency(second, page)
        context.add_dependency(first, page)
        commands.enqueue(page)
        commands.wait(timeout=60)
        assert page.read(9, 6) == b"\0aaaa\0"
        stats = commands.stats()
        assert (stats.workers, stats.capacity, stats.enqueued, stats.done) == (workers, 16, 3, 3)
        assert (stats.failed, stats.cancelled, stats.depth, stats.producers) == (0, 0, 0, 1)
        assert isinstance(stats, mmsb.CommandStats)
        assert len(commands) == 0 and commands


@pytest.mark.filterwarnings("ignore::mmsb.SimulatedDeviceWarning")
def test_a_kernel_that_stays_on_a_device() -> None:
    with mmsb.Context(simulate="always") as context, mmsb.CommandBuffer(persistent=True) as commands:
        source, page = (context.create_page(5000, location="gpu") for _ in range(2))
        for value in range(20):
            change(source, 100, bytes([value]) * 100)
            commands.enqueue(page, [source])
            commands.wait()
            assert page.read(99, 102) == b"\0" + bytes([value]) * 100 + b"\0"
        assert (commands.stats().done, page.epoch) == (20, 20)


def test_a_full_ring(context: mmsb.Context) -> None:
    page = context.create_page(8)
    with mmsb.CommandBuffer(2, workers=0) as commands:
        commands.enqueue(page)
        commands.enqueue(page)
        with pytest.raises(mmsb.WouldBlockError, match="2 commands of this thread wait"):
            commands.enqueue(page, timeout=0)
        with pytest.raises(mmsb.TimeoutError):
            commands.enqueue(page, timeout=0.01)
        with pytest.raises(mmsb.WouldBlockError):
            commands.wait(timeout=0)
        assert len(commands) == 2
        assert commands.drain(1) == 1

        def enqueue() -> None:
            for _ in range(5):
                commands.enqueue(page)

        thread = threading.Thread(target=enqueue)
        thread.start()
        while thread.is_alive():
            commands.drain()
            time.sleep(0.001)
        commands.complete()
        stats = commands.stats()
        assert (stats.done, stats.peak, stats.refused) == (7, 2, 2)
        assert stats.waits >= 1 and stats.waited_ns >= 10_000_000
        with pytest.raises(mmsb.InvalidStateError):
            commands.enqueue(page)


def test_failures(context: mmsb.Context) -> None:
    page, longer, ended = context.create_page(8), context.create_page(9), context.create_page(8)
    change(longer, 0, b"x")
    with mmsb.CommandBuffer(workers=0) as commands:
        commands.enqueue(page, [longer])
        commands.enqueue(ended)
        ended.destroy()
        commands.wait()
        one, two = commands.failures()
        assert isinstance(one, mmsb.CommandFailure)
        assert isinstance(one.error, mmsb.MismatchError) and isinstance(two.error, mmsb.StaleHandleError)
        assert (one.page_handle, two.page_handle) == (page.handle, ended.handle)
        assert f"page {page.id} has 8" in str(one.error)
        assert commands.failures() == []
        assert (commands.stats().failed, commands.stats().failures_lost) == (2, 0)
        with pytest.raises(mmsb.InvalidArgumentError, match="itself"):
            commands.enqueue(page, [page])
        with pytest.raises(mmsb.StaleHandleError):
            commands.enqueue(ended)
        with pytest.raises(mmsb.StaleHandleError):
            commands.enqueue(page, [ended])


def test_options() -> None:
    for capacity in (0, 2**24 + 1):
        with pytest.raises(mmsb.InvalidSizeError):
            mmsb.CommandBuffer(capacity)
    for workers in (-1, 65):
        with pytest.raises(mmsb.InvalidArgumentError):
            mmsb.CommandBuffer(workers=workers)


def test_ends(context: mmsb.Context) -> None:
    page = context.create_page(8)
    commands = mmsb.CommandBuffer(workers=0)
    commands.enqueue(page)
    commands.cancel()
    assert commands.stats().cancelled == 1
    commands.close()
    commands.close()
    for call in (commands.wait, commands.drain, commands.stats, commands.failures, commands.cancel):
        with pytest.raises(mmsb.ClosedError):
            call()
    with pytest.raises(ZeroDivisionError), mmsb.CommandBuffer(workers=0) as commands:
        commands.enqueue(page)
        raise ZeroDivisionError
    with pytest.raises(TypeError, match="pickled or copied"):
        commands.__reduce__()
    dropped = mmsb.CommandBuffer()
    dropped.enqueue(page)
    before = mmsb.debug_live_objects("commands")
    del dropped
    assert mmsb.debug_live_objects("commands") == before - 1


def test_a_buffer_keeps_the_contexts_of_its_pages() -> None:
    with mmsb.CommandBuffer(workers=0) as commands:
        context = mmsb.Context()
        page, parent = context.create_page(8), context.create_page(8)
        commands.enqueue(page, [parent])
        del context, page, parent
        commands.wait()
        assert commands.stats().done == 1
