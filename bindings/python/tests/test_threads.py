"""Many threads, and a garbage collector that comes at every moment."""

from __future__ import annotations

import gc
import itertools
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import mmsb
import numpy as np
import pytest
from mmsb.context import _open_simulating
from mmsb.ticket import sweep

THREADS = 8


def together(work: Callable[[int], None]) -> None:
    """Runs work in all threads at once and raises the first error of any."""
    errors: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def eager_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    yield
    gc.set_threshold(*thresholds)


def test_pages_of_each_thread(ctx: mmsb.Context) -> None:
    def work(number: int) -> None:
        for turn in range(200):
            page = ctx.create_page(64 + turn)
            page.write(0, bytes([number]) * 64)
            page.apply(mmsb.Delta.runs([(0, b"x")]))
            assert page.read(0, 64) == b"x" + bytes([number]) * 63
            page.destroy()

    together(work)
    assert len(ctx) == 0


def test_deltas_to_one_page_are_all_counted(ctx: mmsb.Context) -> None:
    page = ctx.create_page(THREADS * 8)

    def work(number: int) -> None:
        for turn in range(200):
            page.apply(mmsb.Delta.runs([(number * 8, bytes([turn]) * 8)]))
            assert page.read(number * 8, 8) == bytes([turn]) * 8

    together(work)
    assert page.epoch == THREADS * 200


def test_each_thread_has_its_own_error(ctx: mmsb.Context) -> None:
    def work(number: int) -> None:
        for turn in range(200):
            missing = 1_000_000 * (number + 1) + turn
            with pytest.raises(mmsb.NotFoundError, match=str(missing)):
                ctx.page(missing)

    together(work)


def test_loading_in_many_threads_at_once(run_python: Callable[..., object]) -> None:
    program = """
import threading, mmsb
start = threading.Barrier(16)
versions = []
def use():
    start.wait()
    versions.append(mmsb.version())
threads = [threading.Thread(target=use) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert versions == ["0.1.0"] * 16
"""
    result = run_python(program)
    assert getattr(result, "returncode", 1) == 0, result


def test_views_come_and_go(ctx: mmsb.Context, eager_collector: None) -> None:
    pages = list(ctx.create_pages(4, 4096))

    def work(number: int) -> None:
        choose = random.Random(number)
        for _ in range(100):
            page = choose.choice(pages)
            view = np.asarray(page)
            # A cycle, which only the collector finds.
            cycle: list[object] = [view[1:]]
            cycle.append(cycle)
            view[number] = number
            with page.pin(write=True) as memory:
                memory[number] = number
            assert page[number] == number

    together(work)
    gc.collect()
    assert [(info.read_pins, info.write_pins) for info in ctx.info_many(pages)] == [(0, 0)] * 4


def test_everything_under_an_eager_collector(ctx: mmsb.Context, eager_collector: None) -> None:
    class Cycle:
        def __init__(self, *held: object) -> None:
            self.held = (*held, self)

    def work(number: int) -> None:
        for turn in range(30):
            with mmsb.Context() as own:
                page = own.create_page(1000)
                Cycle(page, page.memory(write=True), own)
                Cycle(own.adopt(bytearray(100)))
                Cycle(mmsb.Delta.runs([(turn, b"x")]).convert("indexed"))
                Cycle(own.create_pages_start(10, 64))
                Cycle(ctx.create_page(10 + turn).release())
                page.metadata["key"] = bytes(turn)
                assert page.metadata["key"] == bytes(turn)

    together(work)
    assert len(ctx) == 0


def test_a_context_that_is_closed_while_it_is_used() -> None:
    for _ in range(10):
        ctx = mmsb.Context()
        pages = list(ctx.create_pages(8, 64))
        closer = threading.Timer(0.002, ctx.close)
        closer.start()

        def work(number: int, pages: list[mmsb.Page] = pages) -> None:
            with pytest.raises(mmsb.ClosedError):
                while True:
                    pages[number].write(0, b"x")
                    pages[number].apply(mmsb.Delta.runs([(0, b"y")]))
                    assert np.asarray(pages[number]).size == 64

        together(work)
        closer.join()


def test_objects_are_not_kept_alive(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    for make in (lambda: mmsb.Page(ctx, page.handle), lambda: mmsb.Delta.runs([(0, b"x")]), mmsb.Context):
        thing = make()
        reference = weakref.ref(thing)
        del thing
        gc.collect()
        assert reference() is None


def test_a_collection_drops_tickets_and_contexts_in_every_step(
    ctx: mmsb.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager_collector: None
) -> None:
    """What goes through all that was dropped, or is open, sees more of it dropped meanwhile."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    pairs: list[tuple[int, int]] = []
    contexts = [mmsb.Context(simulate="always") for _ in range(100)]
    page = ctx.create_page(64)
    with page.memory(write=True):
        running = ctx.save_start(tmp_path / "file", raw_writes="wait")
        tickets = [ctx.create_pages_start(1, 64, after=[running]) for _ in range(200)]
        del tickets[-20:]

        def drop(phase: str, _: dict[str, int]) -> None:
            if phase == "stop":
                del tickets[-1:], contexts[-1:]
                pairs.extend((number, number) for number in range(2500))  # the tuples in stock: only what is new may collect

        gc.callbacks.append(drop)
        try:
            for threshold in itertools.cycle(range(1, 5)):
                gc.set_threshold(threshold, 1, 1)
                sweep()
                _open_simulating()
                if not tickets:
                    break
        finally:
            gc.callbacks.remove(drop)
    running.wait()
    assert not contexts and lost == []
