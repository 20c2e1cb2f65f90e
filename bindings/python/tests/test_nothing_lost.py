"""What users did in the first hour and lost data by: each test is a program that once returned without an error."""

from __future__ import annotations

import dis
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import mmsb
import numpy as np
import pytest
from conftest import PATIENCE, SOURCE, RunPython
from mmsb import _lease, ticket
from mmsb._ffi import check, find_library, lib

T = TypeVar("T")


def contents(ctx: mmsb.Context) -> dict[int, bytes]:
    return {page.id: page.read() for page in ctx.pages()}


def loaded(path: Path | str, **options: object) -> dict[int, bytes]:
    with mmsb.Context.load(path, **options) as again:  # type: ignore[arg-type]
        return contents(again)


# ------------------------------------------------------------------------------------------------------- snapshots


def test_two_files_in_turn(ctx: mmsb.Context, tmp_path: Path) -> None:
    files = [tmp_path / "a.mmsb", tmp_path / "b.mmsb"]
    pages = ctx.create_pages(50, 4096)
    before = None
    for turn in range(1, 9):
        pages[turn % 50].write(turn, bytes([turn]))
        path = files[turn % 2]
        ctx.save(path, base=before)
        assert loaded(path) == contents(ctx)
        if before is not None:  # the other file still has the state of the save before
            assert loaded(before)[pages[turn % 50].id] != pages[turn % 50].read()
        before = path


def test_two_files_in_turn_beside_a_journal(ctx: mmsb.Context, tmp_path: Path) -> None:
    files = [tmp_path / "a.mmsb", tmp_path / "b.mmsb"]
    page = ctx.create_page(4096)
    with ctx.journal(tmp_path / "journal", durability="call"):
        before = None
        for turn in range(1, 7):
            page.write(turn, bytes([turn]))
            ctx.save(files[turn % 2], base=before)
            before = files[turn % 2]
            page.write(100 + turn, bytes([turn]))
            assert loaded(before, journal=tmp_path / "journal") == contents(ctx)


def test_a_base_that_is_rested_on_can_be_refused(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(4096)
    ctx.save(tmp_path / "a")
    page.write(0, b"1")
    ctx.save(tmp_path / "b", base=tmp_path / "a")
    state = loaded(tmp_path / "b")
    for base in (None, tmp_path / "b"):
        with pytest.raises(mmsb.BusyError, match="b"):
            ctx.save(tmp_path / "a", base=base, base_in_use="refuse")
    assert loaded(tmp_path / "b") == state


def test_chosen_pages_keep_their_edges(ctx: mmsb.Context, tmp_path: Path) -> None:
    a, b, c = (ctx.create_page(64) for _ in range(3))
    ctx.add_dependency(a, b)
    ctx.add_dependency(c, a)
    ids = [a.id, b.id, c.id]
    ctx.save(tmp_path / "s")
    a.write(0, b"later")
    ctx.restore(tmp_path / "s", ids=ids[:2])
    assert [p.id for p in ctx.page(ids[0]).children()] == [ids[1]]
    assert [p.id for p in ctx.page(ids[2]).children()] == [ids[0]]  # of a page that stayed
    ctx.page(ids[1]).write(0, b"x")
    ctx.save(tmp_path / "t", base=tmp_path / "s")  # the chain goes on
    assert loaded(tmp_path / "t") == contents(ctx)


def test_a_version_never_comes_twice(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64)
    ident = page.id
    ctx.save(tmp_path / "s")
    seen: dict[int, bytes] = {}
    for turn in range(6):
        page = ctx.page(ident)
        page.write(0, bytes([turn + 1]))
        assert page.version not in seen, f"version {page.version} was {seen[page.version]!r}, is {page.read(0, 1)!r}"
        seen[page.version] = page.read(0, 1)
        if turn % 2:
            ctx.restore(tmp_path / "s")


@pytest.mark.parametrize("size", [4096, 4097, 262_144, 262_145, 3_932_160, 4 << 20, (4 << 20) + 1, 10 << 20, (16 << 20) + 7])
@pytest.mark.parametrize("location", ["cpu", "disk"])
@pytest.mark.parametrize("lazy", [False, True])
def test_every_size_loads_whole(ctx: mmsb.Context, tmp_path: Path, size: int, location: str, lazy: bool) -> None:
    page = ctx.create_page(size, location=location)
    data = np.random.default_rng(size).bytes(size)
    page.write(0, data)
    page.metadata["k"] = b"v"
    ctx.save(tmp_path / "s")
    with mmsb.Context.load(tmp_path / "s", lazy=lazy) as again:
        assert again.page(page.id).read() == data
        assert again.page(page.id).metadata["k"] == b"v"
    with mmsb.Context.load(tmp_path / "s", lazy=lazy) as again:
        assert again.page(page.id).read(size - 1, 1) == data[-1:]
        assert again.page(page.id).read(size // 2, 100) == data[size // 2 :][:100]


def test_any_save_sweeps_what_a_killed_one_left(tmp_path: Path, run_python: RunPython) -> None:
    ran = run_python(
        f"""
import os, signal, threading, mmsb
ctx = mmsb.Context()
page = ctx.create_page(64 << 20)
page.write(0, os.urandom(64 << 20))
folder = {str(tmp_path)!r}
def kill():
    while not any(".tmp" in name for name in os.listdir(folder)):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill).start()
while True:
    ctx.save(folder + "/ckpt-2")
"""
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert any(name.endswith(".tmp") for name in os.listdir(tmp_path))
    with mmsb.Context() as ctx:
        ctx.create_page(64)
        ctx.save(tmp_path / "other")
    assert not any(name.endswith(".tmp") for name in os.listdir(tmp_path))


# --------------------------------------------------------------------------------------------------------- journal


def test_a_journal_that_is_opened_late_has_everything(ctx: mmsb.Context, tmp_path: Path) -> None:
    a, b = ctx.create_page(64), ctx.create_page(100_000)
    a.write(0, b"before the journal")
    b.write(99_000, b"far")
    with ctx.journal(tmp_path / "journal"):
        ctx.create_page(64).write(0, b"in the journal")
        a.write(20, b"too")
        expected = contents(ctx)
    assert loaded("", journal=tmp_path / "journal") == expected


def test_a_journal_that_is_opened_late_can_be_refused(ctx: mmsb.Context, tmp_path: Path) -> None:
    ctx.create_page(64)
    with pytest.raises(mmsb.InvalidStateError, match="1 page"):
        ctx.journal(tmp_path / "journal", base="refuse")


def test_changes_while_no_journal_was_open(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64)
    for turn in range(4):
        with ctx.journal(tmp_path / "journal"):
            page.write(turn, b"j")
        assert loaded("", journal=tmp_path / "journal") == contents(ctx)
        page.write(10 + turn, b"unrecorded")
        ctx.create_page(64)
    with ctx.journal(tmp_path / "journal"):
        assert loaded("", journal=tmp_path / "journal") == contents(ctx)


OPENERS = """
import pathlib, sys, mmsb
folder, mode = pathlib.Path(sys.argv[1]), sys.argv[2]
for turn in range(int(sys.argv[3])):
    print("ready", flush=True)
    sys.stdin.readline()
    directory, opened, last = folder / str(turn), 0, ""
    with mmsb.Context() as ctx:
        ctx.create_page(100)
        for attempt in range(20 if mode == "refuse" else 200):
            try:
                journal = ctx.journal(directory, base=mode)
            except mmsb.MMSBError as error:
                last = type(error).__name__
                if last == "MismatchError":
                    break
                continue
            opened += 1
            ctx.create_page(7)
            journal.close()
            break
    print(opened, last, flush=True)
"""


def test_processes_that_open_one_journal(tmp_path: Path) -> None:
    """Some are refused and remove what they have made, while two others want the same directory: one of these has it."""
    turns, command = 25, [sys.executable, "-c", OPENERS, str(tmp_path)]
    modes = ["refuse", "refuse", "write", "write"]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen([*command, mode, str(turns)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for mode in modes
        ]
        for turn in range(turns):
            assert [told(process) for process in processes] == ["ready"] * 4
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            first, second, one, two = (told(process).split() for process in processes)
            assert first[0] == second[0] == "0"
            assert sorted([one[0], two[0]]) == ["0", "1"], (one, two)
            with mmsb.Context() as ctx:
                ctx.restore(journal=tmp_path / str(turn))
                assert sorted(page.size for page in ctx.pages()) == [7, 100]


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_journal_that_is_not_opened_leaves_nothing(ctx: mmsb.Context, tmp_path: Path) -> None:
    ctx.create_page(64 << 20)
    with pytest.raises(mmsb.InvalidStateError):
        ctx.journal(tmp_path / "journal", base="refuse")
    assert list(tmp_path.iterdir()) == []
    for timeout in (0, 1e-6):
        with pytest.raises((mmsb.WouldBlockError, mmsb.TimeoutError)):
            ctx.journal(tmp_path / "journal", timeout=timeout)
        assert list(tmp_path.iterdir()) == []
    ctx.journal(tmp_path / "journal").close()


def test_a_journal_goes_on_where_nothing_happened(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64)
    for turn in range(4):
        with ctx.journal(tmp_path / "journal"):
            page.write(turn, b"j")
        assert len([n for n in os.listdir(tmp_path / "journal") if n.startswith("base")]) == 1
    assert loaded("", journal=tmp_path / "journal") == contents(ctx)


def test_the_journal_of_another_context(ctx: mmsb.Context, tmp_path: Path) -> None:
    ctx.create_page(64)
    with ctx.journal(tmp_path / "mine"):
        ctx.create_page(64)
    ctx.save(tmp_path / "mine.mmsb")
    with mmsb.Context() as other, other.journal(tmp_path / "other"):
        for turn in range(9):
            other.create_page(64).write(0, bytes([turn]))
    with pytest.raises(mmsb.MismatchError, match="lineage"):
        mmsb.Context.load(tmp_path / "mine.mmsb", journal=tmp_path / "other")
    with pytest.raises(mmsb.MismatchError, match="lineage"):
        ctx.journal(tmp_path / "other")


def test_going_on_from_the_past_is_a_branch(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64)
    ident = page.id
    with ctx.journal(tmp_path / "journal") as journal:
        page.write(0, b"1")
        point = journal.info().last
        page.write(0, b"2")
    with mmsb.Context.load(journal=tmp_path / "journal", until=point) as past:
        assert past.page(ident).read(0, 1) == b"1"
        with past.journal(tmp_path / "journal"):
            past.page(ident).write(1, b"x")
            expected = contents(past)
    assert loaded("", journal=tmp_path / "journal") == expected


@pytest.mark.parametrize("durability", ["interval", "none", "call"])
def test_what_has_returned_survives_a_kill(tmp_path: Path, run_python: RunPython, durability: str) -> None:
    ran = run_python(
        f"""
import os, signal, mmsb
ctx = mmsb.Context()
page = ctx.create_page(8, id=7)
ctx.journal({str(tmp_path / "journal")!r}, durability={durability!r}, interval_ms=1000)
for turn in range(1, 2001):
    page.write(0, turn.to_bytes(8, "little"))
    if turn == 1000:
        ctx.create_pages(100, 64)
print("returned", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert ran.returncode == -signal.SIGKILL and "returned" in ran.stdout, ran.stderr
    state = loaded("", journal=tmp_path / "journal")
    assert int.from_bytes(state[7], "little") == 2000
    assert len(state) == 101


def test_a_save_beside_the_first_call(tmp_path: Path) -> None:
    for turn in range(20):
        folder = tmp_path / f"j{turn}"
        with mmsb.Context() as ctx:
            ctx.journal(folder, durability="call", segment_bytes=1)
            saver = threading.Thread(target=lambda: ctx.save(tmp_path / "s"))
            saver.start()
            page = ctx.create_page(64)
            page.write(0, b"acknowledged")
            saver.join()
            expected = contents(ctx)
        assert loaded(tmp_path / "s", journal=folder) == expected


# --------------------------------------------------------------------------------------------------------- adopted


def test_restore_goes_into_adopted_memory(ctx: mmsb.Context, tmp_path: Path) -> None:
    array = np.arange(1000, dtype="u4")
    page = ctx.adopt(array)
    ident = page.id
    ctx.save(tmp_path / "s")
    array[:] = 7
    ctx.restore(tmp_path / "s")
    assert np.array_equal(array, np.arange(1000, dtype="u4"))
    array[5] = 99
    ctx.save(tmp_path / "t")
    assert np.frombuffer(loaded(tmp_path / "t")[ident], "u4")[5] == 99


def test_adopted_memory_of_another_size_is_not_restored_into(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64, id=5)
    ctx.save(tmp_path / "s")
    page.destroy()
    array = np.zeros(100, dtype="u1")
    ctx.adopt(array, id=5)
    with pytest.raises(mmsb.MismatchError, match="100"):
        ctx.restore(tmp_path / "s")
    array[3] = 1
    assert ctx.page(5).read(3, 1) == b"\1"


def test_adopted_memory_does_not_migrate(ctx: mmsb.Context) -> None:
    page = ctx.adopt(np.zeros(100, dtype="u1"))
    with pytest.raises((mmsb.BusyError, mmsb.InvalidStateError)):
        page.migrate("disk")


# ------------------------------------------------------------------------------------------------------ raw writes


def test_a_read_only_view_cannot_be_written(ctx: mmsb.Context) -> None:
    page = ctx.create_page(4096)
    view = page.array(write=False)
    with pytest.raises(ValueError):
        view[0] = 1
    with pytest.raises(ValueError):
        view.setflags(write=True)
    with page.pin() as memory:
        assert memory.readonly


@pytest.mark.parametrize("size", [4096, 400_000])
@pytest.mark.parametrize("adopted", [True, False])
def test_what_threads_write_through_pointers_is_one_moment(tmp_path: Path, size: int, adopted: bool) -> None:
    """Threads count several arrays up together, while saves run: each file has all arrays equal."""
    with mmsb.Context() as ctx:
        arrays = [np.zeros(size // 8, "u8") for _ in range(5)]
        pages = [ctx.adopt(array) if adopted else ctx.create_page(size) for array in arrays]
        stop, together = threading.Event(), threading.Lock()

        def write() -> None:
            while not stop.is_set():
                if adopted:
                    with ctx.writing(), together:
                        for array in arrays:
                            array += 1
                else:
                    with together, ExitStack() as pins:
                        for view in [pins.enter_context(page.pin(write=True)) for page in pages]:
                            count_up(view)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            base = None
            for turn in range(12):
                path = tmp_path / f"s{turn % 2}"
                ctx.save(path, base=base if turn % 3 else None, raw_writes="wait", timeout=60)
                base = path
                counts = {count for data in loaded(path).values() for count in np.frombuffer(data, "u8").tolist()}
                assert len(counts) == 1, f"save {turn} is torn: {counts}"
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        ctx.save(tmp_path / "last", base=base, raw_writes="wait")
        assert loaded(tmp_path / "last") == contents(ctx)
        for page in pages:
            page.destroy()


def count_up(view: memoryview) -> None:
    array = np.frombuffer(view, "u8")
    array += 1


def test_a_save_does_not_wait_for_its_own_thread(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64)
    with ctx.writing(), pytest.raises(mmsb.InvalidStateError, match="1 sections and 0 pages"):
        ctx.save(tmp_path / "s", raw_writes="wait")
    with page.pin(write=True), pytest.raises(mmsb.InvalidStateError, match="0 sections and 1 pages"):
        ctx.save(tmp_path / "s", raw_writes="wait")
    assert not list(tmp_path.iterdir())
    ctx.save(tmp_path / "s", raw_writes="wait")


def test_a_save_that_waits_has_a_timeout(ctx: mmsb.Context, tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with ctx.writing():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    try:
        for timeout, error in ((0.05, mmsb.TimeoutError), (0, mmsb.WouldBlockError)):
            with pytest.raises(error):
                ctx.save(tmp_path / "s", raw_writes="wait", timeout=timeout)
        assert not list(tmp_path.iterdir())
        with ctx.writing(timeout=PATIENCE):  # the save holds nobody any more
            pass
    finally:
        leave.set()
        thread.join()
    ctx.save(tmp_path / "s", raw_writes="wait")


def test_refuse_sees_adopted_memory(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.adopt(np.zeros(10))
    with pytest.raises(mmsb.BusyError, match="memory of the caller"):
        ctx.save(tmp_path / "s", raw_writes="refuse")
    page.destroy()
    with ctx.writing(), pytest.raises(mmsb.BusyError, match="writing section"):
        ctx.save(tmp_path / "s", raw_writes="refuse")
    assert not list(tmp_path.iterdir())
    page = ctx.adopt(b"fixed", read_only=True)
    ctx.save(tmp_path / "s", raw_writes="refuse")
    page.destroy()


# ---------------------------------------------------------------------------------------------------------- saves


def test_saves_queue(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(1 << 20)
    failed: list[BaseException] = []

    def save(name: str) -> None:
        try:
            for turn in range(5):
                page.write(turn, name.encode())
                ctx.save(tmp_path / name, queue=True)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=save, args=(str(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sorted(path.name for path in tmp_path.iterdir()) == list("012345")


def test_saves_of_every_form_queue(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64)
    with open(tmp_path / "file", "wb") as file:
        with page.pin(write=True):
            running = ctx.save_start(tmp_path / "s", raw_writes="wait", queue=True)  # the look below may come first
            while not ctx_is_busy(ctx):
                time.sleep(0.001)
            with pytest.raises(mmsb.TimeoutError):
                ctx.save_bytes(queue=True, timeout=0.01)
            with pytest.raises(mmsb.TimeoutError):
                ctx.save_to(file, queue=True, timeout=0.01)
            with pytest.raises(mmsb.BusyError):
                ctx.save_to(file)
            first, second = ctx.save_bytes_start(queue=True), ctx.save_to_start(file, queue=True)
        running.wait()
        data = first.wait()
        second.wait()
    assert len(data) == (tmp_path / "file").stat().st_size
    with mmsb.Context() as other:
        other.restore_bytes(data)
        assert contents(other) == contents(ctx)


def ctx_is_busy(ctx: mmsb.Context) -> bool:
    try:
        ctx.save_bytes()
    except mmsb.BusyError:
        return True
    return False


@pytest.mark.parametrize("what", ["save", "load"])
@pytest.mark.parametrize("delay", [0.02, 0.2])
def test_control_c_ends_a_save_and_a_load(tmp_path: Path, what: str, delay: float) -> None:
    program = f"""
import os, signal, sys, mmsb
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
ctx = mmsb.Context()
block = os.urandom(16 << 20)
for _ in range(16):
    ctx.create_page(len(block)).write(0, block)
path = {str(tmp_path / "s")!r}
if {what == "load"}:
    ctx.save(path, durable=False)
try:
    print("begin", flush=True)
    while True:
        ctx.save(path) if {what == "save"} else ctx.restore(path)
except KeyboardInterrupt:
    if os.listdir({str(tmp_path)!r}):  # it may come when a save is done
        assert os.listdir({str(tmp_path)!r}) == ["s"]
        mmsb.verify(path)
    assert ctx.create_page(64).read() == bytes(64)
    print("interrupted")
"""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "MMSB_LIBRARY": find_library()}
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        time.sleep(delay)
        out = err = ""
        for _ in range(10):  # Python swallows an interrupt that falls into a finalizer
            process.send_signal(signal.SIGINT)
            try:
                out, err = process.communicate(timeout=PATIENCE / 10)
                break
            except subprocess.TimeoutExpired:
                continue
        else:
            process.kill()
    assert (out, process.returncode) == ("interrupted\n", 0), err


# What loops until Ctrl-C comes, over 64 MiB in ctx; path is a snapshot of it, folder is the test's.
LONG_CALLS = {
    "verify": "mmsb.verify(path)",
    "diff": "mmsb.diff(one, two)",
    "compact": "mmsb.compact(path, folder + '/compact')",
    "save_to": "ctx.save_to(file)",
    "save_to, nobody reads": "ctx.save_to(write_end)",
    "save_bytes": "ctx.save_bytes()",
    "restore_from": "os.lseek(file.fileno(), 0, 0), ctx.restore_from(file)",
    "restore_from, nobody writes": "ctx.restore_from(read_end)",
    "restore_bytes": "ctx.restore_bytes(data)",
    "journal": "opened = ctx.journal(folder + '/new'); opened.close(); shutil.rmtree(folder + '/new')",
    "sync": "page.write(0, block), journal.sync()",
    "create_pages": "ctx.destroy_pages(ctx.create_pages(100, 1 << 20))",
    "migrate_many": "[ctx.migrate_many(ctx.pages(), where) for where in ('disk', 'cpu')]",
    "close": "page.write(0, block); opened.close(); opened = ctx.journal(folder + '/new')",
    "trim": "journal.trim(path)",
    "open": "mmsb.open(folder + '/store').close()",
    "checkpoint": "store.checkpoint(whole=True)",
}


@pytest.mark.parametrize("call", LONG_CALLS)
def test_control_c_ends_every_long_call(tmp_path: Path, call: str) -> None:
    """The call is cancelled: nothing waits for it, its file is not there, all objects are given back, and the context works."""
    program = f"""
import os, shutil, signal, mmsb
from mmsb import ticket
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
folder = {str(tmp_path)!r}
path = folder + "/s"
ctx = mmsb.Context()
block = os.urandom(8 << 20)
for _ in range(8):
    page = ctx.create_page(len(block))
    page.write(0, block)
ctx.save(path, durable=False)
shutil.copy(path, folder + "/file")
one, two, file = mmsb.Snapshot(path), mmsb.Snapshot(path), open(folder + "/file", "r+b")
read_end, write_end = os.pipe()
data = ctx.save_bytes()
if {call in ("sync", "trim")}:
    journal = ctx.journal(folder + "/journal")
opened = ctx.journal(folder + "/new") if {call == "close"} else None
store = mmsb.open(folder + "/store")
store.create_page(len(block)).write(0, block)
if {call == "open"}:
    store.close()
try:
    print("begin", flush=True)
    while True:
        {LONG_CALLS[call]}
except KeyboardInterrupt:
    pass
ticket.sweep()
store.close()
assert mmsb.debug_live_objects("ticket") == 0
assert mmsb.debug_live_objects("context") == 1
assert not [name for _, _, names in os.walk(folder) for name in names if "tmp" in name]
left = [page for page in ctx.pages() if page.size != len(block)]
assert len(left) in ((0, 100) if {call == "create_pages"} else (0,))  # the interrupt may come between its two calls
ctx.destroy_pages(left)
assert [page.size for page in ctx.pages()] == [len(block)] * 8
if {call == "journal"}:
    if opened and not opened.closed:
        opened.close()
    shutil.rmtree(folder + "/new", ignore_errors=True)
    ctx.journal(folder + "/new").close()
if {call == "close"} and not opened.closed:
    assert opened.info().last > 1
    opened.close()
ctx.save(folder + "/after", durable=False)
print("interrupted")
"""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "MMSB_LIBRARY": find_library()}
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("interrupted\n", 0), err


@pytest.mark.parametrize("done", [False, True])
def test_control_c_between_the_start_and_the_ticket(
    ctx: mmsb.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """The work that has begun is cancelled, or undone if it is done; the objects are counted behind the test."""

    def interrupted(handle: int, *_others: object) -> None:
        while done and not ticket._done(handle):
            time.sleep(0.001)
        raise KeyboardInterrupt

    ctx.create_page(4096)
    held = set(_lease._held)
    with monkeypatch.context() as patch:
        patch.setattr(ticket, "Ticket", interrupted)
        for call in (ctx.save_bytes, ctx.save_bytes_start, lambda: ctx.journal(tmp_path / "journal")):
            with pytest.raises(KeyboardInterrupt):
                call()
    ticket.sweep()
    assert set(_lease._held) == held
    ctx.journal(tmp_path / "journal").close()  # there is none


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", ["save_bytes", "save_bytes_start", "journal", "checkpoint", "snapshot"])
def test_an_exception_between_any_two_steps(ctx: mmsb.Context, tmp_path: Path, call: str) -> None:
    """A signal's handler may raise one where Python looks for signals: where a function begins, behind a call, and where a loop
    goes back. Nothing stays that nobody has; of memory the fixture sees it."""
    store = mmsb.open(tmp_path / "store")
    store.create_page(4096)
    ctx.save(tmp_path / "file")
    calls: dict[str, Callable[[], mmsb.Journal | mmsb.Ticket[bytes] | mmsb.Snapshot | bytes | None]] = {
        "save_bytes": store.save_bytes,
        "save_bytes_start": store.save_bytes_start,
        "journal": lambda: ctx.journal(tmp_path / "journal"),
        "checkpoint": store.checkpoint,
        "snapshot": lambda: mmsb.Snapshot(tmp_path / "file"),
    }
    for steps in itertools.count(1):
        ended, result = interrupted(steps, calls[call])
        if ended:
            break
        if call == "journal":
            (result or ctx.journal(tmp_path / "journal")).close()  # type: ignore[union-attr]
        del result
        while ticket._detached:
            ticket.sweep()
        assert mmsb.debug_live_objects("ticket") == 0, steps
    assert steps > 20
    store.close()


def test_no_group_stays_open_behind_an_exception_between_any_two_steps(ctx: mmsb.Context) -> None:
    """All or nothing of it is there, and the next one begins, also while the exception keeps the frames."""
    page = ctx.create_page(4)

    def change() -> None:
        try:
            with ctx.group():
                page.write(0, b"new!")
        except KeyboardInterrupt:
            with ctx.group():
                assert page.read() in (b"old!", b"new!")
            raise

    for steps in itertools.count(1):
        page.write(0, b"old!")
        ended, _ = interrupted(steps, change)
        if ended:
            break
        with ctx.group():
            page.write(0, b"next")
        assert page.read() == b"next"
    assert page.read() == b"new!"
    assert steps > 20


def test_each_writing_section_ends_once_behind_an_exception_between_any_two_steps(ctx: mmsb.Context) -> None:
    def write() -> None:
        try:
            with ctx.writing():
                pass
        except KeyboardInterrupt:
            one_is_open()
            raise

    def one_is_open() -> None:
        with pytest.raises(mmsb.InvalidStateError, match="has 1 sections"):
            check(lib.mmsb_writing_check(ctx.handle))

    with ctx.writing():
        for steps in itertools.count(1):
            ended, _ = interrupted(steps, write)
            one_is_open()
            if ended:
                break
    assert steps > 20
    ctx.save_bytes(raw_writes="wait")


LOST = """
import random, signal, sys
import mmsb

lost = []
sys.unraisablehook = lost.append
signal.signal(signal.SIGALRM, signal.default_int_handler)
random.seed(1)
with mmsb.Context() as context:
    page = context.create_page(64)
    for turn in range(400):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 2e-4))
            for _ in range(100_000):
                page.write(0, b"bytes")
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
print(lost)
"""


def test_no_control_c_is_lost_while_bytes_are_written(run_python: RunPython) -> None:
    found = run_python(LOST)
    assert (found.stdout, found.stderr) == ("[]\n", "")


def test_nothing_stays_of_what_is_dropped_behind_an_exception_between_any_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts, stores, and what pages were adopted over; and each exception comes to the program."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    held, before = set(_lease._adopted), mmsb.debug_live_objects("context")

    def context() -> None:
        own = mmsb.Context()
        own.adopt_pages([bytearray(5) for _ in range(3)])
        view = own.adopt(bytearray(5)).memory()
        own.close()
        del view

    def dropped() -> None:
        own = mmsb.Context()
        own.adopt(bytearray(5))
        own.destroy_pages(own.adopt_pages([bytearray(5) for _ in range(3)]))

    def store() -> None:
        own = mmsb.open(tmp_path / "store", durability="none")
        (own.get(1) or own.create_page(64, id=1)).memory(write=True)[0] = 1

    for call in (context, dropped, store, lambda: mmsb.Context.load(tmp_path / "saved")):
        with mmsb.Context() as saved:
            saved.save(tmp_path / "saved", durable=False)
        for steps in itertools.count(1):
            ended = interrupted(steps, call)[0]
            _lease.drop_released()
            while ticket._detached:
                ticket.sweep()
            assert (lost, set(_lease._adopted), mmsb.debug_live_objects("context")) == ([], held, before), steps
            if ended:
                break
        assert steps > 20
    mmsb.open(tmp_path / "store").close()


DROPPED = """
import random, signal, sys, weakref
import mmsb

class Memory(bytearray):
    pass

def interrupt(*_):
    global fired
    fired += 1
    raise KeyboardInterrupt

def service(seconds):
    store = mmsb.open({folder!r}, durability="none")
    (store.get(1) or store.create_page(64, id=1)).memory(write=True)[0] = 1
    for one in memory:
        store.adopt(one)
    signal.setitimer(signal.ITIMER_REAL, seconds)

lost, fired, caught, references = [], 0, 0, []
sys.unraisablehook = lost.append
signal.signal(signal.SIGALRM, interrupt)
random.seed(1)
for turn in range(60):
    memory = [Memory(10) for _ in range(100)]
    references += map(weakref.ref, memory)
    try:
        try:
            service(random.uniform(1e-6, 6e-4))
            while fired == caught:
                pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        caught += 1
    one = memory = None
    mmsb.open({folder!r}).close()
print(lost, fired - caught, sum(reference() is not None for reference in references))
"""


def test_no_control_c_is_lost_while_a_store_is_dropped(tmp_path: Path, run_python: RunPython) -> None:
    found = run_python(DROPPED.format(folder=str(tmp_path / "store")))
    assert (found.stdout, found.stderr) == ("[] 0 0\n", "")


def interrupted(steps: int, call: Callable[[], T]) -> tuple[bool, T | None]:
    """Calls, with an exception at the numbered place where a signal's handler may raise one. Whether the call has fewer, and
    its result."""
    package = os.path.dirname(mmsb.__file__)
    left, before, result = steps, dict[FrameType, str](), None

    def step(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith((package, weakref.__file__)):
            return None
        frame.f_trace_opcodes = True
        if event == "return":
            before.pop(frame, None)  # it would keep what it has had
        if event != "opcode":
            return step
        last, now = before.get(frame, "RESUME"), dis.opname[frame.f_code.co_code[frame.f_lasti]]
        before[frame] = now
        left -= last.startswith(("RESUME", "CALL", "JUMP")) and not now.startswith(("RETURN", "PUSH_EXC_INFO"))
        if not left:
            raise KeyboardInterrupt
        return step

    sys.settrace(step)
    try:
        result = call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
        before.clear()  # the frames know step, which knows them
    return left > 0, result


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_tracked_tree_is_whole_behind_an_exception_between_any_two_steps(tmp_path: Path) -> None:
    """Arrays come and go, and the call that sees it is interrupted: the next save has all of them, and no others."""
    tree: dict[str, Any] = {"stays": np.arange(100), "taken turns": np.arange(100), "step": 0}
    waiting = np.ones(100)
    with mmsb.state.track(tree) as tracker:
        for steps in itertools.count(1):
            tree["step"] = steps
            tree["taken turns"], waiting = waiting, tree["taken turns"]
            ended, _ = interrupted(steps, tracker.update)
            tree["taken turns"], waiting = waiting, tree["taken turns"]  # the pages that the call ended are needed again
            tracker.save(tmp_path / str(steps))
            found = mmsb.state.load(tmp_path / str(steps))
            assert found["step"] == steps and all(np.array_equal(found[name], tree[name]) for name in ("stays", "taken turns"))
            assert len(tracker.context.pages()) == 3
            if ended:
                break
    assert steps > 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("then", ["before", "after"])
def test_scalars_of_a_tracked_tree_are_whole_behind_an_exception_between_any_two_steps(then: str, tmp_path: Path) -> None:
    """Only scalars change, and change again, or back, when the call that sees it was interrupted."""
    tree: dict[str, Any] = {"array": np.arange(100), "first": "before", "second": 1.0}
    with mmsb.state.track(tree) as tracker:
        for steps in itertools.count(1):
            tracker.save(tmp_path / "start")
            tree["first"], tree["second"] = "the longest of them", 2.0
            ended, _ = interrupted(steps, tracker.update)
            tree["first"], tree["second"] = then, 1.0
            tracker.save(tmp_path / str(steps))
            found = mmsb.state.load(tmp_path / str(steps))
            assert (found["first"], found["second"]) == (then, 1.0) and np.array_equal(found["array"], tree["array"])
            tree["first"] = "before"
            if ended:
                break
    assert steps > 20


@pytest.mark.parametrize(("error", "calls"), [(KeyboardInterrupt, 2), (mmsb.MMSBError, 1)])
def test_what_ends_an_object_is_called_again_behind_control_c_only(error: type[BaseException], calls: int) -> None:
    called = []

    def ended() -> None:
        called.append(1)
        if len(called) == 1:
            raise error

    thing = _lease.Holder()
    finalizer = _lease.when_dropped(thing, ended)
    with pytest.raises(error):
        _lease.end(finalizer)
    assert _lease.end(finalizer) is None
    assert len(called) == calls
    assert not finalizer.alive


def test_every_long_call_is_work_that_control_c_cancels(
    ctx: mmsb.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes at the first wait, while the work runs, or at the last, when it is done."""
    ctx.create_page(64, id=7)
    path = tmp_path / "s"
    ctx.save(path)
    data = ctx.save_bytes()
    journal = ctx.journal(tmp_path / "journal")
    with mmsb.Context() as other, mmsb.Snapshot(path) as one, open(os.devnull, "wb") as sink, open(path, "rb") as file:
        calls: list[Callable[[], object]] = [
            lambda: ctx.save(tmp_path / "t"),
            lambda: ctx.save_to(sink),
            ctx.save_bytes,
            lambda: other.restore(path),
            lambda: other.restore_from(file),
            lambda: other.restore_bytes(data),
            lambda: other.journal(tmp_path / f"others{len(list(tmp_path.iterdir()))}"),
            journal.sync,
            lambda: journal.trim(path),
            lambda: mmsb.verify(path),
            lambda: mmsb.diff(one, one),
            lambda: mmsb.compact(path, tmp_path / "t"),
            lambda: other.create_pages(10_000, 64),
            lambda: other.migrate_many(other.pages(), "disk"),
            journal.close,
        ]
        wait = mmsb.Ticket.wait
        for last in (False, True):

            def interrupted(ticket: mmsb.Ticket[object], _timeout: float | None, last: bool = last) -> None:
                if last:
                    wait(ticket)
                raise KeyboardInterrupt

            for call in calls:
                file.seek(0)
                with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                    patch.setattr(mmsb.Ticket, "wait", interrupted)
                    call()
                ticket.sweep()
                assert mmsb.debug_live_objects("ticket") == 0
        assert len(other) == 1
        assert not journal.closed
        other.journal(tmp_path / "last").close()  # the one that Ctrl-C took away is closed
    journal.close()


# ----------------------------------------------------------------------------------------------------- loads in place


@pytest.mark.parametrize("size", [64, 4096, 300_000])
def test_a_full_context_is_restored_in_place(tmp_path: Path, size: int) -> None:
    with mmsb.Context(memory_limit=8 << 20) as ctx:
        pages = ctx.create_pages((4 << 20) // size, size)
        for number, page in enumerate(pages):
            page.write(0, number.to_bytes(8, "little"))
        ctx.save(tmp_path / "a")
        pages[1].write(0, b"b")
        pages[2].apply(mmsb.Delta.runs([(3, b"mask")]))
        pages[2].metadata["k"] = b"v"
        ctx.save(tmp_path / "b", base=tmp_path / "a")
        expected, changed = contents(ctx), pages[2].id
        try:
            while True:  # until the limit
                ctx.create_page(size)
        except mmsb.LimitError:
            pass
        with pytest.raises(mmsb.LimitError):
            ctx.restore(tmp_path / "b")
        ctx.restore(tmp_path / "b", in_place=True)
        assert contents(ctx) == expected
        assert ctx.page(changed).mask_count() == 4
        assert ctx.page(changed).metadata["k"] == b"v"
        ctx.page(changed).write(0, b"on")
        ctx.save(tmp_path / "c", base=tmp_path / "b")  # the chain goes on
        assert loaded(tmp_path / "c") == contents(ctx)


def test_damage_is_found_before_a_load_in_place_changes_anything(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(1 << 20)
    page.write(0, os.urandom(1 << 20))
    ctx.save(tmp_path / "a")
    page.write(5, b"b")
    ctx.save(tmp_path / "b", base=tmp_path / "a")
    page.write(9, b"living")
    expected = contents(ctx)
    data = bytearray((tmp_path / "a").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(mmsb.CorruptError):
        ctx.restore(tmp_path / "b", in_place=True)
    assert contents(ctx) == expected
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.restore(tmp_path / "b", lazy=True, in_place=True)


# -------------------------------------------------------------------------------------------- loads beside a journal


def test_a_journal_goes_on_behind_a_load(ctx: mmsb.Context, tmp_path: Path, run_python: RunPython) -> None:
    """The directory alone brings back the restored state and what follows, wherever that state comes from."""
    with mmsb.Context() as other:
        other.create_page(64, id=9).write(0, b"of another context")
        other.save(tmp_path / "foreign")
    directory = tmp_path / "journal"
    ctx.create_page(64, id=1).write(0, b"before the journal")
    ctx.save(tmp_path / "early")
    with ctx.journal(directory, durability="call") as journal:
        page = ctx.create_page(300_000, id=2)
        page.write(299_000, b"far")
        ctx.save(tmp_path / "late")
        page.write(0, b"lost by the restore")
        point = journal.info().last
        page.write(0, b"lost, too")
        ways: list[Callable[[], None]] = [
            lambda: ctx.restore(tmp_path / "late"),
            lambda: ctx.restore(tmp_path / "early", in_place=True),
            lambda: ctx.restore(tmp_path / "late", lazy=True),
            lambda: ctx.restore(tmp_path / "late", ids=[2]),
            lambda: ctx.restore(tmp_path / "foreign"),
            lambda: ctx.restore_bytes((tmp_path / "late").read_bytes()),
            lambda: ctx.restore(journal=directory),
            lambda: ctx.restore(journal=directory, until=journal.info().last),
        ]
        for turn in range(2):
            for way in ways:
                way()
                assert loaded("", journal=directory) == contents(ctx)
                for living in list(ctx.pages()):
                    living.write(5, bytes([turn]))
                ctx.create_page(64).write(0, b"new")
                assert loaded("", journal=directory) == contents(ctx)
        assert point
    assert loaded("", journal=directory) == contents(ctx)
    with ctx.journal(directory, base="refuse"):  # nothing is missing there
        pass


def test_a_load_that_fails_leaves_the_journal_as_it_is(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(64, id=1)
    ctx.save(tmp_path / "s")
    with ctx.journal(tmp_path / "journal") as journal:
        page.write(0, b"x")
        before = journal.info()
        with page.pin(), pytest.raises(mmsb.BusyError):
            ctx.restore(tmp_path / "s")
        with pytest.raises(mmsb.NotFoundError):
            ctx.restore(tmp_path / "s", ids=[7])
        assert journal.info().last == before.last
        page.write(1, b"y")
        assert journal.info().last == before.last + 1
    assert loaded("", journal=tmp_path / "journal") == contents(ctx)


def test_a_kill_behind_a_load_beside_a_journal(tmp_path: Path, run_python: RunPython) -> None:
    ran = run_python(
        f"""
import os, signal, mmsb
ctx = mmsb.Context()
page = ctx.create_page(8, id=7)
ctx.save({str(tmp_path / "s")!r})
ctx.journal({str(tmp_path / "journal")!r}, durability="none")
page.write(0, b"forgot")
ctx.restore({str(tmp_path / "s")!r})
ctx.page(7).write(0, b"kept")
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert loaded("", journal=tmp_path / "journal") == {7: b"kept" + bytes(4)}


def test_what_is_not_durable_is_done(tmp_path: Path) -> None:
    """A call that waits for a disk that fails has done what it does; the next one does nothing."""
    with mmsb.Context() as ctx:
        journal = ctx.journal(tmp_path / "journal", durability="call")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        try:
            with pytest.raises(mmsb.NotDurableError, match="the change is made"):
                ctx.create_page(100, id=7)
            with pytest.raises(mmsb.NoSpaceError):
                ctx.create_page(100)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [page.id for page in ctx] == [7]
        with pytest.raises(mmsb.NoSpaceError):
            journal.close()
