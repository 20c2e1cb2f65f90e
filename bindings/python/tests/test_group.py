"""Atomic groups: all or nothing, rolled back or killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import mmsb
import pytest
from conftest import SOURCE
from mmsb._ffi import find_library, lib


def test_the_end_of_the_block_commits(ctx: mmsb.Context) -> None:
    with ctx.group():
        page = ctx.create_page(10)
        page.write(0, b"hello")
    assert page.read(0, 5) == b"hello"
    with pytest.raises(mmsb.InvalidStateError), ctx.group(), ctx.group():
        pass


def test_an_exception_rolls_back(ctx: mmsb.Context) -> None:
    page, gone = ctx.create_page(10), ctx.create_page(20)
    page.write(0, b"before")
    was = seen(page), seen(gone)
    with pytest.raises(KeyError), ctx.group():
        page.write(0, b"after!")
        page.resize(5000)
        made = ctx.create_page(3)
        gone.destroy()
        raise KeyError
    assert (seen(page), seen(gone)) == was
    with pytest.raises(mmsb.StaleHandleError):
        made.read()


def test_a_context_that_is_closed_in_the_block() -> None:
    ctx = mmsb.Context()
    with pytest.raises(mmsb.ClosedError), ctx.group():
        page = ctx.create_page(10)
        ctx.close()
        page.read()


def test_a_rollback_that_a_view_stops(ctx: mmsb.Context) -> None:
    with pytest.raises(mmsb.BusyError), ctx.group():
        view = ctx.create_page(10).memory()
        raise KeyError
    with pytest.raises(mmsb.InvalidStateError):
        ctx.create_page(10)
    with pytest.raises(mmsb.BusyError), ctx.group():
        pass
    view.release()
    del view
    with ctx.group():
        assert len(ctx.pages()) == 0
    assert len(ctx.create_page(10).read()) == 10


def test_a_group_of_an_exit_stack(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    with pytest.raises(KeyError), contextlib.ExitStack() as stack:
        stack.enter_context(ctx.group())
        stack.enter_context(ctx.writing())
        page.write(0, b"undone")
        raise KeyError
    assert page.read() == bytes(10)
    with contextlib.ExitStack() as stack:
        stack.enter_context(ctx.group())
        page.write(0, b"stays")
    assert page.read(0, 5) == b"stays"
    assert lib.mmsb_writing_check(ctx.handle) == 0


def test_other_threads_are_busy(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    refused: list[BaseException] = []

    def write() -> None:
        try:
            page.write(0, b"x")
        except mmsb.BusyError as error:
            refused.append(error)

    with ctx.group():
        page.write(0, b"mine")
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert len(refused) == 1
    write()
    assert page.read(0, 4) == b"xine"


# ------------------------------------------------------------------------------------------- random calls, undone or kept


def seen(page: mmsb.Page) -> tuple[object, ...]:
    """All that a page is."""
    return (
        page.read(),
        page.epoch,
        page.version,
        page.mask_bits(),
        sorted((key, page.metadata[key]) for key in page.metadata),
        [parent.id for parent in page.parents()],
        [child.id for child in page.children()],
        page.location,
    )


def everything(ctx: mmsb.Context) -> dict[int, tuple[object, ...]]:
    return {page.id: seen(page) for page in ctx.pages()}


SIZES = [1, 64, 200, 4096, 4097, 5000, 70000]
LOCATIONS = ["cpu", "disk", "gpu", "pinned", "unified"]


def change(rng: random.Random, ctx: mmsb.Context) -> None:
    """One random call, which may be refused."""
    pages = ctx.pages()
    kind = rng.randrange(12) if len(pages) else 0
    if kind == 0:
        ctx.create_page(rng.choice(SIZES), rng.choice([0, rng.randrange(1, 30)]), rng.choice(LOCATIONS))
        return
    page = pages[rng.randrange(len(pages))]
    offset = rng.randrange(page.size)
    length = rng.randrange(page.size - offset + 1)
    if kind == 1:
        page.clone(rng.choice([0, rng.randrange(1, 30)]))
    elif kind == 2:
        page.destroy()
    elif kind == 3:
        page.resize(rng.choice(SIZES))
    elif kind == 4:
        page.migrate(rng.choice(LOCATIONS))
    elif kind == 5:
        page.metadata[rng.choice("abc")] = rng.randbytes(rng.randrange(20))
    elif kind == 6:
        page.mask_clear()
    elif kind == 7:
        del page.metadata[rng.choice("abc")]
    elif kind == 8:
        ctx.add_dependency(pages[rng.randrange(len(pages))], page)
    elif kind == 9:
        parents = page.parents()
        if len(parents):
            ctx.remove_dependency(parents[0], page)
    elif kind == 10:
        page.apply(mmsb.Delta.runs([(offset, rng.randbytes(length))]))
    else:
        page.write(offset, rng.randbytes(length))


@pytest.mark.filterwarnings("ignore::mmsb.SimulatedDeviceWarning")
@pytest.mark.parametrize("seed", range(6))
def test_random_groups(tmp_path: Path, seed: int) -> None:
    """What a group does that is rolled back is not to be seen, also not in the journal; what is committed is in both."""
    rng = random.Random(seed)
    versions: dict[tuple[int, int], bytes] = {}
    with mmsb.Context(simulate="always", disk_path=tmp_path) as ctx:
        ctx.journal(tmp_path / "journal", "none", base="write")
        for _ in range(60):
            before = everything(ctx)
            undone = rng.random() < 0.6
            try:
                with ctx.group():
                    for _ in range(rng.randrange(1, 12)):
                        with contextlib.suppress(mmsb.AlreadyExistsError, mmsb.InvalidArgumentError, mmsb.NotFoundError):
                            change(rng, ctx)
                        for page in ctx.pages():
                            assert versions.setdefault((page.id, page.version), page.read()) == page.read(), f"seed {seed}"
                    if undone:
                        raise KeyError
            except KeyError:
                assert everything(ctx) == before, f"seed {seed}"
        after = everything(ctx)
    with mmsb.Context(simulate="always", disk_path=tmp_path) as again:
        again.restore(journal=tmp_path / "journal")
        assert everything(again) == after, f"seed {seed}"


# --------------------------------------------------------------------------------------------------------------- killed

WORKER = """
import mmap, os, sys, threading, mmsb
folder, durability, threads, pages = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with open(folder + "/acknowledged", "r+b") as file:
    acknowledged = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
ctx = mmsb.Context()
if os.path.exists(folder + "/journal"):
    ctx.restore(journal=folder + "/journal")
ctx.journal(folder + "/journal", durability)
for id in range(1, threads * pages + 1):
    if id not in {page.id for page in ctx.pages()}:
        ctx.create_page(5000 if id % 2 else 64, id)

def work(thread):
    mine = [ctx.page(thread * pages + i + 1) for i in range(pages)]
    number = int.from_bytes(mine[0].read(0, 8), "little")
    while True:
        number += 1
        try:
            with ctx.group():
                for page in mine:
                    page.write(0, number.to_bytes(8, "little"))
                ctx.create_page(64, 1000000 * (thread + 1) + number)
                if number > 1:
                    ctx.page(1000000 * (thread + 1) + number - 1).destroy()
                if number % 5 == 4:
                    raise KeyError
        except KeyError:
            number += 3
            with ctx.group():
                for page in mine:
                    page.write(0, number.to_bytes(8, "little"))
                ctx.create_page(64, 1000000 * (thread + 1) + number)
                ctx.page(1000000 * (thread + 1) + number - 4).destroy()
        acknowledged[thread] = number

for thread in range(threads):
    threading.Thread(target=work, args=(thread,)).start()
"""


@pytest.mark.parametrize("durability", ["interval", "call", "none"])
def test_killed_groups_are_whole_or_absent(tmp_path: Path, durability: str) -> None:
    seed = int(os.environ.get("SEED", time.time_ns() % 1000000))
    print(f"seed {seed}")
    rng, threads, pages = random.Random(seed), 2, 6
    acknowledged = tmp_path / "acknowledged"
    acknowledged.write_bytes(bytes(8 * threads))
    settings = {**os.environ, "PYTHONPATH": str(SOURCE), "MMSB_LIBRARY": find_library()}
    command = [sys.executable, "-c", WORKER, str(tmp_path), durability, str(threads), str(pages)]
    for kill in range(int(os.environ.get("KILLS", "4"))):
        started = acknowledged.read_bytes()
        with subprocess.Popen(command, env=settings, stderr=subprocess.PIPE) as worker:
            end = time.monotonic() + 60
            while acknowledged.read_bytes() == started and time.monotonic() < end and worker.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.05)
            worker.send_signal(signal.SIGKILL)
            _, errors = worker.communicate()
        assert worker.returncode == -signal.SIGKILL, errors.decode()
        with mmsb.Context() as ctx:
            ctx.restore(journal=tmp_path / "journal")
            for thread in range(threads):
                numbers = {ctx.page(thread * pages + i + 1).read(0, 8) for i in range(pages)}
                assert len(numbers) == 1, f"seed {seed}, kill {kill}: half a group: {numbers}"
                number = int.from_bytes(numbers.pop(), "little")
                known = int.from_bytes(acknowledged.read_bytes()[8 * thread :][:8], "little")
                assert number >= known, f"seed {seed}, kill {kill}: {known} was acknowledged, {number} is there"
                mine = [page.id for page in ctx.pages() if page.id // 1000000 == thread + 1]
                assert mine == ([1000000 * (thread + 1) + number] if number else [])
