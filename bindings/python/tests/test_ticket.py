from __future__ import annotations

import asyncio
import gc
import pickle
import select
import time

import mmsb
import pytest
from conftest import PATIENCE
from mmsb import ticket as ticket_module
from mmsb._abi import E_TIMEOUT
from mmsb._ffi import lib


def test_a_ticket_has_a_result(ctx: mmsb.Context) -> None:
    with ctx.create_pages_start(1000, 64) as ticket:
        assert ticket.handle >> 60 == 3
        pages = ticket.wait()
        assert ticket.done()
        assert ticket.progress() == (1000, 1000)
        assert ticket.error() is None
        assert ticket.wait(0) is pages
        assert "1000/1000" in repr(ticket)
    assert len(pages) == len(ctx) == 1000
    assert pages[999].size == 64


def test_waiting_with_a_descriptor(ctx: mmsb.Context) -> None:
    with ctx.create_pages_start(10, 64) as ticket:
        poll = select.poll()
        poll.register(ticket, select.POLLIN)
        assert poll.poll(PATIENCE * 1000) == [(ticket.fileno(), select.POLLIN)]
        assert ticket.done()
        assert len(ticket.wait(0)) == 10


def test_await(ctx: mmsb.Context) -> None:
    async def program() -> list[int]:
        tickets = [ctx.create_pages_start(count, 64) for count in (1, 10, 100)]
        pages = await asyncio.gather(*(asyncio.ensure_future(waiting(ticket)) for ticket in [*tickets, tickets[0]]))
        for ticket in tickets:
            ticket.close()
        return [len(part) for part in pages]

    async def waiting(ticket: mmsb.Ticket[mmsb.PageArray]) -> mmsb.PageArray:
        return await ticket

    assert asyncio.run(program()) == [1, 10, 100, 1]


def test_cancel(ctx: mmsb.Context) -> None:
    first = ctx.create_pages_start(200_000, 64)
    second = ctx.create_pages_start(10, 64, after=[first])
    first.cancel()
    second.cancel()
    made = 0
    for ticket, count in ((first, 200_000), (second, 10)):
        try:
            made += len(ticket.wait(PATIENCE))
        except mmsb.CancelledError:
            error = ticket.error()
            assert isinstance(error, mmsb.CancelledError)
            with pytest.raises(mmsb.CancelledError):
                ticket.wait(0)
        else:
            assert ticket.progress() == (count, count)
        ticket.close()
    assert len(ctx) == made


def test_after(ctx: mmsb.Context) -> None:
    first = ctx.create_pages_start(50_000, 64)
    second = ctx.create_pages_start(5, 64, after=[first])
    assert len(second.wait(PATIENCE)) == 5
    assert first.done()
    first.close()
    second.close()


def test_not_waiting_for_unfinished_work(ctx: mmsb.Context) -> None:
    with ctx.create_pages_start(300_000, 64) as ticket:
        try:
            ticket.wait(0)
        except mmsb.WouldBlockError:
            assert ticket.progress()[0] <= 300_000
        try:
            ticket.wait(1e-9)
        except mmsb.TimeoutError as error:
            assert isinstance(error, TimeoutError)
        assert len(ticket.wait(PATIENCE)) == 300_000


def test_long_waits_are_cut_into_short_ones(ctx: mmsb.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticket_module, "SLICE_NS", 1000)
    with ctx.create_pages_start(100_000, 64) as ticket:
        assert len(ticket.wait(PATIENCE)) == 100_000


def test_work_that_ends_in_the_moment_the_time_is_over(ctx: mmsb.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    with ctx.create_pages_start(10, 64) as ticket:
        ticket.wait()
        monkeypatch.setattr(lib, "mmsb_ticket_wait", lambda handle, timeout: E_TIMEOUT)
        assert len(ticket.wait(1)) == 10
        code = mmsb.CancelledError.code
        monkeypatch.setattr(lib, "mmsb_ticket_wait", lambda handle, timeout: E_TIMEOUT if timeout else code)
        monkeypatch.setattr(ticket_module, "_status", lambda handle: code)
        with pytest.raises(mmsb.CancelledError):
            ticket.wait(1)


def test_failing_work() -> None:
    with mmsb.Context(memory_limit=1 << 20) as ctx:
        try:
            ticket = ctx.create_pages_start(1000, 1 << 16)
        except mmsb.LimitError:
            pass
        else:
            with ticket, pytest.raises(mmsb.LimitError):
                ticket.wait(PATIENCE)
        assert len(ctx) == 0
        with pytest.raises(mmsb.LimitError):
            ctx.create_pages(1000, 1 << 16)
        assert len(ctx) == 0


def test_bad_arguments(ctx: mmsb.Context) -> None:
    for call in (ctx.create_pages, ctx.create_pages_start):
        with pytest.raises(mmsb.InvalidSizeError):
            call(10, 0)
        with pytest.raises(mmsb.InvalidArgumentError):
            call(10, 5, location="moon")
        with pytest.raises(MemoryError):
            call(2**61, 10)
    for timeout in (-1, float("nan")):
        with pytest.raises(mmsb.InvalidArgumentError):
            ctx.create_pages(10, 5, timeout=timeout)
    assert len(ctx.create_pages(10, 5, timeout=PATIENCE)) == 10
    with pytest.raises(AttributeError):
        ctx.create_pages_start(10, 5, after=[5])  # type: ignore[list-item]


def test_closed_tickets(ctx: mmsb.Context) -> None:
    ticket = ctx.create_pages_start(10, 64)
    assert not ticket.closed
    ticket.wait()
    ticket.close()
    ticket.close()
    assert ticket.closed
    assert "closed" in repr(ticket)
    for use in (ticket.done, ticket.wait, ticket.cancel, ticket.progress, ticket.error, ticket.fileno):
        with pytest.raises(mmsb.ClosedError):
            use()
    with pytest.raises(mmsb.ClosedError):
        ctx.create_pages_start(10, 64, after=[ticket])
    with pytest.raises(TypeError):
        pickle.dumps(ticket)


def test_a_dropped_ticket_lets_its_work_go_on(ctx: mmsb.Context) -> None:
    ctx.create_pages_start(100_000, 64)
    gc.collect()
    end = time.monotonic() + PATIENCE
    while len(ctx) < 100_000:
        assert time.monotonic() < end
        time.sleep(0.01)
    while mmsb.debug_live_objects("ticket"):
        assert time.monotonic() < end
        # Each start gives back what has ended.
        ctx.create_pages_start(1, 64).wait()


def test_a_context_closed_while_work_runs() -> None:
    for _ in range(20):
        ctx = mmsb.Context()
        ticket = ctx.create_pages_start(20_000, 64)
        ctx.close()
        try:
            pages = ticket.wait(PATIENCE)
        except mmsb.MMSBError as error:
            assert error.code in (12, 25)
        else:
            with pytest.raises(mmsb.ClosedError):
                _ = pages[0].size
        ticket.close()
