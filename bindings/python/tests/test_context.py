from __future__ import annotations

import gc
import pickle
from pathlib import Path

import mmsb
import numpy as np
import pytest


def test_a_context_owns_its_pages(ctx: mmsb.Context) -> None:
    assert len(ctx) == 0
    assert list(ctx) == []
    assert ctx
    page = ctx.create_page(100)
    other = ctx.create_page(200, id=7)
    assert len(ctx) == 2
    assert set(ctx) == set(ctx.pages()) == {page, other}
    assert page in ctx
    assert "page" not in ctx
    assert ctx.page(7) == other
    assert ctx.page(page.id) == page
    assert ctx.get(7) == other
    assert ctx.get(8) is None
    assert list(ctx.lookup_many([7, page.id, 7])) == [other, page, other]
    with mmsb.Context() as second:
        assert page not in second


def test_pages_that_are_not_there(ctx: mmsb.Context) -> None:
    with pytest.raises(mmsb.NotFoundError) as caught:
        ctx.page(12345)
    assert isinstance(caught.value, KeyError)
    assert caught.value.code == 20
    assert "12345" in str(caught.value)
    ctx.create_page(1, id=3)
    with pytest.raises(mmsb.NotFoundError) as caught:
        ctx.lookup_many([3, 4])
    assert caught.value.index == 1
    for bad in (-1, 2**64):
        with pytest.raises(mmsb.InvalidArgumentError):
            ctx.page(bad)
        with pytest.raises(mmsb.InvalidArgumentError):
            ctx.get(bad)
    with pytest.raises(TypeError):
        ctx.page("3")  # type: ignore[arg-type]


def test_the_walk_passes_over_many_pages(ctx: mmsb.Context) -> None:
    made = ctx.create_pages(10_000, 64)
    assert sorted(made.handles) == sorted(ctx.pages().handles)
    ctx.destroy_pages(made)
    assert len(ctx.pages()) == 0


def test_closing_ends_pages_and_is_idempotent() -> None:
    ctx = mmsb.Context()
    page = ctx.create_page(10)
    assert page.id
    assert not ctx.closed
    ctx.close()
    ctx.close()
    assert ctx.closed
    assert "ClosedError" in repr(page)
    assert "ClosedError" in repr(ctx)
    assert page.id
    uses = [
        lambda: ctx.create_page(1),
        lambda: ctx.create_pages(1, 1),
        lambda: ctx.create_pages_start(1, 1),
        lambda: ctx.pages(),
        lambda: ctx.page(1),
        lambda: ctx.get(1),
        lambda: ctx.lookup_many([1]),
        lambda: len(ctx),
        lambda: ctx.stats(),
        lambda: ctx.trim(),
        lambda: ctx.adopt(bytearray(1)),
        lambda: ctx.destroy_pages([]),
        lambda: ctx.apply_many([]),
        lambda: ctx.apply_runs([], [], b"", 1),
        lambda: ctx.read_many([]),
        lambda: ctx.write_many([]),
        lambda: ctx.info_many([]),
        lambda: ctx.migrate_many([], "cpu"),
        lambda: ctx.dependency_order(),
        lambda: ctx.add_dependency(page, page),
        lambda: ctx.handle,
        lambda: page.size,
        lambda: page.epoch,
        lambda: page.version,
        lambda: page.address,
        lambda: page.info(),
        lambda: page.location,
        lambda: page.device,
        lambda: page.read(0, 1),
        lambda: page.read_into(0, bytearray(1)),
        lambda: page.write(0, b"x"),
        lambda: page[0],
        lambda: page.memory(),
        lambda: page.array(),
        lambda: page.mask,
        lambda: page.mask_bits(),
        lambda: page.mask_clear(),
        lambda: page.mask_count(),
        lambda: page.apply(mmsb.Delta.runs([(0, b"x")])),
        lambda: page.resize(5),
        lambda: page.clone(),
        lambda: page.migrate("disk"),
        lambda: page.destroy(),
        lambda: page.release(),
        lambda: page.parents(),
        lambda: page.children(),
        lambda: page.metadata["x"],
        lambda: page.metadata.export_blob(),
    ]
    for use in uses:
        with pytest.raises(mmsb.ClosedError) as caught:
            use()
        assert caught.value.code == 12
        assert isinstance(caught.value, mmsb.StaleHandleError)


def test_pages_of_a_closed_context_in_a_batch_of_another(ctx: mmsb.Context) -> None:
    with mmsb.Context() as second:
        gone = second.create_page(8)
    page = ctx.create_page(8)
    with pytest.raises(mmsb.ClosedError) as caught:
        ctx.apply_many([(page, mmsb.Delta.runs([(0, b"x")])), (gone, mmsb.Delta.runs([(0, b"x")]))])
    assert caught.value.index == 1
    assert page.epoch == 0
    with pytest.raises(mmsb.ClosedError):
        ctx.add_dependency(page, gone)
    with pytest.raises(mmsb.ClosedError):
        mmsb.Delta.from_pages(page, gone)


def test_a_dropped_context_is_closed() -> None:
    before = mmsb.debug_live_objects("context")
    ctx = mmsb.Context()
    page = ctx.create_page(10)
    assert mmsb.debug_live_objects("context") == before + 1
    del ctx
    gc.collect()
    # The page still needs its context.
    assert page.size == 10
    assert page.context.pages()[0] == page
    del page
    gc.collect()
    assert mmsb.debug_live_objects("context") == before


def test_a_dropped_page_object_destroys_nothing(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    page[0:5] = b"hello"
    number = page.id
    del page
    gc.collect()
    assert len(ctx) == 1
    assert ctx.page(number)[0:5] == b"hello"


def test_options(tmp_path: Path) -> None:
    with mmsb.Context(memory_limit=1 << 20, disk_path=tmp_path, huge_pages=False, fallback="error", default_device=0) as ctx:
        assert ctx.stats().memory_limit == 1 << 20
        with pytest.raises(mmsb.LimitError) as caught:
            ctx.create_page(1 << 21)
        assert isinstance(caught.value, MemoryError)
        assert len(ctx) == 0
        assert ctx.create_page(1 << 10).size == 1 << 10
    with mmsb.Context("memory_limit=2M simulate=off") as ctx:
        assert ctx.stats().memory_limit == 2 << 20
    with mmsb.Context("memory_limit=2M", memory_limit=3 << 20) as ctx:
        assert ctx.stats().memory_limit == 3 << 20
    with mmsb.Context(options=f"default_location=disk disk_path={tmp_path}") as ctx:
        assert ctx.create_page(10).location == "disk"
    with mmsb.Context(default_location="disk", disk_path=str(tmp_path)) as ctx:
        assert ctx.create_page(10).location == "disk"
    with mmsb.Context(simulate="if-no-gpu", simulated_devices=2, simulated_memory=1 << 20) as ctx:
        assert ctx.create_page(10).location == "cpu"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"options": "nonsense=1"}, mmsb.InvalidArgumentError),
        ({"options": "memory_limit=much"}, mmsb.InvalidArgumentError),
        ({"options": "a\0b"}, mmsb.InvalidArgumentError),
        ({"simulate": "sometimes"}, mmsb.InvalidArgumentError),
        ({"default_location": "moon"}, mmsb.InvalidArgumentError),
        ({"fallback": "gpu"}, mmsb.InvalidArgumentError),
        ({"memory_limit": -1}, mmsb.InvalidArgumentError),
        ({"memory_limit": 2**64}, mmsb.InvalidArgumentError),
        ({"default_device": 2**31}, mmsb.InvalidArgumentError),
        ({"disk_path": "/nowhere/at/all"}, mmsb.IoError),
        ({"disk_path": "\ud800"}, mmsb.InvalidArgumentError),
        ({"simulate": 1}, TypeError),
        ({"memory_limit": "1G"}, TypeError),
        ({"no_such_option": 1}, TypeError),
    ],
)
def test_bad_options(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        mmsb.Context(**options)  # type: ignore[arg-type]


def test_an_io_error_carries_errno() -> None:
    with pytest.raises(mmsb.IoError) as caught:
        mmsb.Context(disk_path="/nowhere/at/all")
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == 2
    assert caught.value.foreign_code == 2
    assert caught.value.domain == "errno"
    assert "/nowhere/at/all" in str(caught.value)


def test_stats(ctx: mmsb.Context) -> None:
    page = ctx.create_page(1000)
    ctx.create_page(500, location="disk")
    ctx.create_page(24).destroy()
    with page.pin():
        stats = ctx.stats()
    assert isinstance(stats, mmsb.ContextStats)
    assert stats.pages == 2
    assert stats.bytes == 1500
    assert stats.peak_bytes >= 1500
    assert (stats.allocations, stats.frees, stats.pinned_pages) == (3, 1, 1)
    assert stats.location_pages == {"cpu": 1, "gpu": 0, "unified": 0, "pinned": 0, "disk": 1}
    assert stats.location_bytes == {"cpu": 1000, "gpu": 0, "unified": 0, "pinned": 0, "disk": 500}
    assert stats.disk_used >= 500
    assert stats.memory_used >= 1000
    assert stats.memory_limit == 0
    assert "bytes=1500" in repr(stats)


def test_trim_gives_memory_back(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(16, 1 << 20)
    ctx.write_many([(page, 0, b"\1" * page.size) for page in pages])
    ctx.destroy_pages(pages)
    released = ctx.trim()
    assert released >= 0
    assert ctx.stats().memory_used < 16 << 20


def test_contexts_and_pages_cannot_be_pickled(ctx: mmsb.Context) -> None:
    for thing in (ctx, ctx.create_page(1)):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


def test_a_gpu_is_an_error_where_there_is_none() -> None:
    with mmsb.Context(simulate="off") as ctx:
        page = ctx.create_page(10)
        for location in ("gpu", "unified", "pinned"):
            with pytest.raises(mmsb.NoDeviceError):
                page.migrate(location)
            with pytest.raises(mmsb.NoDeviceError):
                ctx.create_page(10, location=location)
        assert page.location == "cpu"
        assert len(ctx) == 1


def test_page_arrays(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(5, 16)
    assert len(pages) == 5
    assert [page.size for page in pages] == [16] * 5
    assert pages[-1] == list(pages)[4]
    assert pages[0] in pages
    assert list(pages[1:3]) == list(pages)[1:3]
    assert "5" in repr(pages)
    with pytest.raises(IndexError):
        pages[5]
    array = np.asarray(pages)
    assert array.dtype == np.uint64
    assert array.tolist() == [page.handle for page in pages]
    assert pages.handles.readonly
    assert not array.flags.writeable
    assert np.shares_memory(array, np.asarray(pages))
    reverse = pages[::-1]
    ctx.destroy_pages(reverse[::2])
    assert len(ctx) == 2
    assert list(ctx.pages()) != []
    assert len(ctx.create_pages(0, 16)) == 0
