"""The guard of host pages: writes through pointers past a page's ends, and into memory that a page has left."""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING

import mmsb
import numpy
import pytest

if TYPE_CHECKING:
    from pathlib import Path


def memory_from(address: int, count: int) -> numpy.ndarray:
    """What a program may do with ctypes and NumPy: an array over an address, of a length that is the program's own idea."""
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))


def address_of(page: mmsb.Page) -> int:
    with page.pin() as view:
        return int(numpy.frombuffer(view, numpy.uint8).ctypes.data)


def test_an_overrun_by_one_byte_is_raised_by_the_next_call() -> None:
    with mmsb.Context(guard_every=1) as ctx:
        page = ctx.create_page(100)
        other = ctx.create_page(100)
        memory_from(address_of(page), 101)[100] = 7
        identity = page.id
        page.destroy()
        text = f"page {identity} of 100 bytes was written behind its end: at offset 100"
        with pytest.raises(mmsb.GuardError, match=text):
            other.write(0, b"x")
        assert other.read(0, 1) == b"\0"  # it has done nothing else
        other.write(0, b"x")
        assert other.read(0, 1) == b"x"
        assert ctx.stats().guard_reports == 1


def test_without_a_guard_nothing_is_raised() -> None:
    with mmsb.Context() as ctx:
        page = ctx.create_page(100)
        memory_from(address_of(page), 101)[100] = 7
        page.destroy()
        ctx.create_page(100)
        with pytest.raises(mmsb.InvalidStateError):
            ctx.check_guard()
        assert (ctx.stats().guard_reports, ctx.stats().guard_bytes) == (0, 0)


def test_a_pin_for_writing_raises() -> None:
    with mmsb.Context(guard_every=1) as ctx:
        page, victim = ctx.create_page(100), ctx.create_page(100)
        memory_from(address_of(victim) - 1, 1)[0] = 7
        victim.destroy()
        with pytest.raises(mmsb.GuardError, match="before its beginning"):
            page.array("u1")
        assert page.array("u1")[0] == 0


def test_check_guard_lists_what_was_found() -> None:
    with mmsb.Context(guard_every=1, guard_quarantine=1 << 20) as ctx:
        page, ended = ctx.create_page(1000, id=5), ctx.create_page(10, id=6)
        stale = memory_from(address_of(ended), 10)
        ended.destroy()
        memory_from(address_of(page), 1003)[1000:1003] = 7
        stale[2] = 9
        assert ctx.check_guard() == [
            mmsb.GuardReport(page_id=5, side="behind", size=1000, offset=1000, bytes=3, expected=0xC5, found=7),
            mmsb.GuardReport(page_id=6, side="ended", size=10, offset=2, bytes=1, expected=0xDD, found=9),
        ]
        assert ctx.check_guard() == []
        moved = memory_from(address_of(page), 1)
        page.resize(2000)
        moved[0] = 1
        assert [report.side for report in ctx.check_guard()] == ["left"]


def test_closing_raises_and_closes() -> None:
    ctx = mmsb.Context(guard_every=1)
    page = ctx.create_page(100)
    memory_from(address_of(page), 101)[100] = 7
    with pytest.raises(mmsb.GuardError, match="behind its end"):
        ctx.close()
    assert ctx.closed
    ctx.close()
    with pytest.raises(mmsb.GuardError), mmsb.Context(guard_every=1) as ctx:
        page = ctx.create_page(100)
        memory_from(address_of(page), 101)[100] = 7


def test_a_context_that_is_dropped_raises_nothing() -> None:
    ctx = mmsb.Context(guard_every=1)
    page = ctx.create_page(100)
    memory_from(address_of(page), 101)[100] = 7
    del ctx, page
    gc.collect()
    assert mmsb.debug_live_objects("context") == 0


def test_a_save_raises_before_it_saves(tmp_path: Path) -> None:
    with mmsb.Context(guard_every=1) as ctx:
        page = ctx.create_page(100)
        memory_from(address_of(page), 101)[100] = 7
        with pytest.raises(mmsb.GuardError):
            ctx.save(tmp_path / "state")
        assert not (tmp_path / "state").exists()
        ctx.save(tmp_path / "state")


def test_options_and_sampling() -> None:
    with mmsb.Context("guard_every=10 guard_quarantine=1M") as ctx:
        before = 0
        for i in range(100):
            ctx.create_page(100)
            assert (ctx.stats().guard_bytes > before) == (i % 10 == 0)
            before = ctx.stats().guard_bytes
    with pytest.raises(mmsb.InvalidArgumentError, match="guard_every is 0"):
        mmsb.Context(guard_quarantine=1)
    with pytest.raises(mmsb.InvalidArgumentError):
        mmsb.Context(guard_every=-1)
