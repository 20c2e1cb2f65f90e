from __future__ import annotations

import array
import itertools
from collections.abc import Callable
from typing import Any

import mmsb
import numpy as np
import pytest


def test_apply_many(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(1000, 4096)
    ctx.apply_many([(page, mmsb.Delta.runs([(0, b"hello")])) for page in pages])
    assert all(page.epoch == 1 and page[:5] == b"hello" for page in pages)
    page = pages[0]
    ctx.apply_many((page, mmsb.Delta.indexed([0], bytes([value]))) for value in b"abc")
    assert (page.epoch, page[0]) == (4, ord("c"))
    ctx.apply_many([])
    good = mmsb.Delta.runs([(0, b"no")])
    with pytest.raises(mmsb.OutOfRangeError) as caught:
        ctx.apply_many([(pages[1], good), (pages[2], mmsb.Delta.runs([(5000, b"x")])), (pages[3], good)])
    assert caught.value.index == 1
    assert pages[1].epoch == pages[3].epoch == 1
    for bad in ([(pages[1], b"delta")], [(pages[1],)], [5], [("page", good)]):
        with pytest.raises((TypeError, ValueError)):
            ctx.apply_many(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "handles",
    [
        lambda pages: pages,
        lambda pages: list(pages),
        lambda pages: iter(pages),
        lambda pages: np.asarray(pages),
        lambda pages: np.array(pages, dtype=np.int64),
        lambda pages: array.array("Q", pages.handles),
        lambda pages: pages.handles,
        lambda pages: [page.handle for page in pages],
    ],
)
def test_handles_of_many_types(ctx: mmsb.Context, handles: Callable[[mmsb.PageArray], Any]) -> None:
    pages = ctx.create_pages(4, 16)
    ctx.apply_runs(handles(pages), [0, 1, 2, 3], b"abcdefgh", 2)
    assert [page.read(0, 6).strip(b"\0") for page in pages] == [b"ab", b"cd", b"ef", b"gh"]
    assert [info.epoch for info in ctx.info_many(handles(pages))] == [1, 1, 1, 1]
    ctx.migrate_many(handles(pages), "disk")
    assert {page.location for page in pages} == {"disk"}
    ctx.destroy_pages(handles(pages))
    assert len(ctx) == 0


def test_apply_runs(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(3, 64)
    handles = np.asarray(pages)
    offsets = np.array([0, 10, 20], dtype=np.uint64)
    payload = np.arange(6, dtype=np.uint8)
    ctx.apply_runs(handles, offsets, payload, np.array([1, 2, 3], dtype=np.uint64))
    assert [page.read(start, 3) for page, start in zip(pages, (0, 10, 20))] == [b"\0\0\0", b"\1\2\0", b"\3\4\5"]
    assert [page.mask_count() for page in pages] == [1, 2, 3]
    ctx.apply_runs(handles, offsets, payload, np.uint64(2))
    assert pages[0].read(0, 2) == b"\0\1"
    ctx.apply_runs([], [], b"", 5)
    ctx.apply_runs(handles, offsets, b"", 0)
    assert pages[0].epoch == 3


@pytest.mark.parametrize(
    ("offsets", "payload", "lengths"),
    [
        ([0], b"ab", 1),
        ([0, 1, 2], b"ab", 1),
        ([0, 1], b"abc", 1),
        ([0, 1], b"", 1),
        ([0, 1], b"", [1, 0]),
        ([0, 1], b"ab", [1]),
        ([0, 1], b"ab", [1, 2]),
    ],
)
def test_runs_that_do_not_fit(ctx: mmsb.Context, offsets: list[int], payload: bytes, lengths: Any) -> None:
    pages = ctx.create_pages(2, 16)
    with pytest.raises(mmsb.MismatchError):
        ctx.apply_runs(pages, offsets, payload, lengths)
    assert [page.epoch for page in pages] == [0, 0]


def test_bad_runs(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(2, 16)
    with pytest.raises(mmsb.OutOfRangeError) as caught:
        ctx.apply_runs(pages, [0, 16], b"ab", 1)
    assert caught.value.index == 1
    with pytest.raises(mmsb.InvalidHandleError) as caught_handle:
        ctx.apply_runs([pages[0].handle, 5], [0, 0], b"ab", 1)
    assert caught_handle.value.index == 1
    with pytest.raises(mmsb.OutOfRangeError):
        ctx.apply_runs(pages, [0, -1], b"ab", 1)
    with pytest.raises(TypeError):
        ctx.apply_runs(pages, [0, 0], b"ab", 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ctx.apply_runs(["page"], [0], b"a", 1)  # type: ignore[arg-type]
    assert [page.epoch for page in pages] == [0, 0]


def test_read_and_write_many(ctx: mmsb.Context) -> None:
    a, b = ctx.create_pages(2, 100)
    ctx.write_many([(a, 0, b"abc"), (b, 97, bytearray(b"xyz")), (a, 1, [66])])
    assert ctx.read_many([(b, 97, 3), (a, 0, 3), (a, 100, 0), (a, 0, 1)]) == [b"xyz", b"aBc", b"", b"a"]
    assert ctx.read_many([]) == []
    ctx.write_many([])
    with pytest.raises(mmsb.OutOfRangeError) as caught:
        ctx.write_many([(a, 0, b"no"), (b, 99, b"no")])
    assert caught.value.index == 1
    with pytest.raises(mmsb.OutOfRangeError) as caught:
        ctx.read_many([(a, 0, 100), (b, 0, 101)])
    assert caught.value.index == 1
    for offset, length in ((-1, 1), (0, -1), (0, 2**63)):
        with pytest.raises(mmsb.OutOfRangeError):
            ctx.read_many([(a, offset, length)])
    with pytest.raises(mmsb.OutOfRangeError):
        ctx.read_many([(a, 0, 2**46)] * 5)
    b.destroy()
    with pytest.raises(mmsb.StaleHandleError) as stale:
        ctx.write_many([(a, 0, b"no"), (b, 0, b"no")])
    assert stale.value.index == 1
    assert a.read(0, 3) == b"aBc"


def test_destroy_many(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(3, 16)
    with pytest.raises(mmsb.StaleHandleError) as caught:
        ctx.destroy_pages([pages[0], pages[1], pages[0]])
    assert caught.value.index == 2
    with pages[1].pin():
        with pytest.raises(mmsb.BusyError) as busy:
            ctx.destroy_pages(pages)
        assert busy.value.index == 1
    assert len(ctx) == 3
    ctx.destroy_pages(itertools.chain(pages, ()))
    ctx.destroy_pages([])
    assert len(ctx) == 0


def test_migrate_many(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(3, 5000)
    with pages[1].pin():
        with pytest.raises(mmsb.BusyError) as caught:
            ctx.migrate_many(pages, "disk")
        assert caught.value.index == 1
    ctx.migrate_many(pages, "disk")
    assert [page.location for page in pages] == ["disk"] * 3
    ctx.migrate_many([], "cpu")


def test_info_many_with_a_bad_page(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(2, 16)
    pages[1].destroy()
    with pytest.raises(mmsb.StaleHandleError) as caught:
        ctx.info_many(pages)
    assert caught.value.index == 1


def test_addresses_of_many_pages(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(5, 100)
    addresses = pages.addresses()
    assert list(addresses) == [page.address for page in pages]
    assert ctx.create_pages(0, 100).addresses().nbytes == 0
    pages[3].destroy()
    with pytest.raises(mmsb.StaleHandleError) as raised:
        pages.addresses()
    assert raised.value.index == 3
