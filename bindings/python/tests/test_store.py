"""Stores: a folder has the state of a context; it can be gone on with, read, and opened as it was."""

from __future__ import annotations

import gc
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import mmsb
import numpy as np
import pytest
from conftest import PATIENCE, SOURCE, RunPython, runs_out_of_time
from mmsb._ffi import find_library


def test_a_store_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with mmsb.open(folder) as store:
        assert isinstance(store, mmsb.Store)
        assert isinstance(store, mmsb.Context)
        assert store.directory == str(folder)
        assert repr(store) == "<mmsb.Store of 0 pages>"
        assert store.get(1) is None
        page, other = store.create_page(4096, id=1), store.create_page(70_000, id=2)
        page.write(0, b"first")
        page.metadata["key"] = b"value"
        store.add_dependency(page, other)
    assert store.closed
    with pytest.raises(mmsb.ClosedError):
        store.info()
    for lazy in (False, True):
        with mmsb.open(str(folder), lazy=lazy, memory_limit=1 << 30) as store:
            assert store.stats().memory_limit == 1 << 30
            assert store.page(1).read(0, 5) == (b"later" if lazy else b"first")
            assert store.page(1).metadata["key"] == b"value"
            assert [child.id for child in store.page(1).children()] == [2]
            store.page(1).write(0, b"later")


def test_closing_saves_what_was_written_through_views(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with mmsb.open(folder) as store:
        page, adopted = store.create_page(1 << 20, id=1), store.adopt(bytearray(100), id=2)
        page.array()[:] = 7
        adopted.array()[50] = 8
    with mmsb.open(folder) as store:
        assert store.page(1).read() == b"\x07" * (1 << 20)
        assert store.page(2).read(50, 1) == b"\x08"
    with mmsb.open(folder, save_bytes=math.inf) as store:
        store.page(1).array()[:] = 9
    with mmsb.open(folder, "read") as store:
        assert store.page(1).read(0, 1) == b"\x07"


def views_of(page: mmsb.Page) -> dict[str, Callable[[], Any]]:
    return {
        "array": lambda: page.array("uint8"),
        "memory": lambda: page.memory(write=True),
        "memories": lambda: page.context.memories([page], write=True)[0],
        "view": lambda: np.asarray(page.view()),
        "asarray": lambda: np.asarray(page),
    }


@pytest.mark.parametrize("kind", views_of(cast("Any", None)))
def test_a_view_keeps_its_store(tmp_path: Path, kind: str) -> None:
    def bytes_of_the_store() -> Any:
        store = mmsb.open(tmp_path / "state")
        return views_of(store.get(1) or store.create_page(4, id=1))[kind]()

    part = bytes_of_the_store()[1:3]
    gc.collect()
    with pytest.raises(mmsb.BusyError):
        mmsb.open(tmp_path / "state")
    part[:] = type(part)(b"ab") if isinstance(part, memoryview) else [97, 98]
    del part
    gc.collect()
    with mmsb.open(tmp_path / "state") as store:
        assert store.page(1).read() == b"\0ab\0"


def test_a_store_that_a_program_leaves_open_is_closed_at_exit(tmp_path: Path, run_python: RunPython) -> None:
    program = f"""
import atexit, resource, sys, mmsb
atexit.register(lambda: print(first.closed, first.page(1).size))
first, second = mmsb.open({str(tmp_path / "first")!r}), mmsb.open({str(tmp_path / "second")!r})
for store in (first, second):
    store.create_page(1000, id=1).array()[:] = 7
second.sync()
if sys.argv[1:]:
    first.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, -1))
"""
    assert run_python(program).stdout == "False 1000\n"
    for name in ("first", "second"):
        with mmsb.open(tmp_path / name, "read") as store:
            assert store.page(1).read() == b"\x07" * 1000
    program = program.replace("create_page(1000, id=1)", "page(1)").replace("= 7", "= 8").replace("sys.argv[1:]", "True")
    ended = run_python(program.replace("first.page(1).size", "0"))
    assert ended.stdout == "True 0\n"
    assert ended.stderr.startswith("mmsb: the store was closed without a save, ")


def test_closing_says_what_it_could_not_save(tmp_path: Path, run_python: RunPython) -> None:
    program = f"""
import resource, mmsb
store = mmsb.open({str(tmp_path)!r})
store.create_page(1 << 20).array()[:] = 7
store.sync()
resource.setrlimit(resource.RLIMIT_FSIZE, (0, -1))
try:
    store.close()
except mmsb.NoSpaceError as error:
    print(store.closed, error)
store.close()
"""
    said = run_python(program).stdout
    assert said.startswith(
        "True the store was closed without a save, bytes written through pointers since the last one are lost: "
    )


def test_calls_wait_for_space(tmp_path: Path, run_python: RunPython) -> None:
    program = f"""
import math, resource, threading, time, mmsb
store = mmsb.open({str(tmp_path)!r}, durability="call", space_wait=math.inf)
page = store.create_page(64)
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
try:
    page.write(0, b"full")
except mmsb.NotDurableError:
    pass
threading.Timer(0.3, resource.setrlimit, (resource.RLIMIT_FSIZE, before)).start()
begin = time.monotonic()
page.write(0, b"goes on")
print(time.monotonic() - begin >= 0.2, bytes(page.read(0, 7)))
"""
    assert run_python(program).stdout == "True b'goes on'\n"


def test_a_killed_process_needs_no_save(tmp_path: Path, run_python: RunPython) -> None:
    program = f"""
import os, signal, mmsb
store = mmsb.open({str(tmp_path)!r}, keep_hourly=2)
page = store.get(7) or store.create_page(64, id=7)
for turn in range(1, 51):
    with store.group():
        page.apply(mmsb.Delta.runs([(turn % 64, bytes([turn]))]))
    if turn == 25:
        store.checkpoint()
os.kill(os.getpid(), signal.SIGKILL)
"""
    for turn in (1, 2):
        assert run_python(program).returncode == -signal.SIGKILL
        with mmsb.open(tmp_path, "read") as store:
            assert store.page(7).epoch == 50 * turn
    with mmsb.open(tmp_path) as store:
        assert store.page(7).epoch == 100


def test_what_is_only_read_does_not_change(tmp_path: Path) -> None:
    with mmsb.open(tmp_path) as store:
        page, other = store.create_page(100, id=1), store.create_page(100, id=2)
        page.apply(mmsb.Delta.runs([(0, b"kept")]))
        data = store.save_bytes()
        store.sync()
        before = sorted(os.listdir(tmp_path))
        with mmsb.open(tmp_path, mode="read") as reader:
            assert sorted(os.listdir(tmp_path)) == before
            assert reader.info().last_record == store.info().last_record > 0
            mine = reader.page(1)
            calls: list[Callable[[], object]] = [
                lambda: reader.create_page(10),
                lambda: reader.create_pages(2, 10),
                lambda: reader.adopt(bytearray(10)),
                lambda: mine.write(0, b"lost"),
                lambda: mine.apply(mmsb.Delta.runs([(0, b"lost")])),
                lambda: mine.resize(10),
                lambda: mine.clone(),
                lambda: mine.migrate("disk"),
                lambda: mine.memory(write=True),
                lambda: mine.array(write=True),
                mine.mask_clear,
                mine.release,
                mine.destroy,
                lambda: mine.metadata.__setitem__("key", b"value"),
                lambda: reader.add_dependency(mine, reader.page(2)),
                lambda: reader.restore_bytes(data),
                lambda: reader.journal(tmp_path / "journal"),
                reader.checkpoint,
                lambda: reader.name("name"),
                lambda: reader.unname("name"),
                reader.sync,
            ]
            for call in calls:
                with pytest.raises(mmsb.InvalidStateError):
                    call()
            with pytest.raises(mmsb.InvalidStateError, match="opened for reading only"), reader.group():
                mine.write(0, b"lost")
            assert (mine.read(0, 4), mine.epoch, mine.mask_count(), dict(mine.metadata)) == (b"kept", 1, 4, {})
            assert bytes(mine.memory()[:4]) == b"kept"
            assert not mine.array().flags.writeable
            assert len(reader) == 2
            assert reader.save_bytes()
        assert sorted(os.listdir(tmp_path)) == before
        other.write(0, b"x")  # the writer goes on


def test_a_store_is_followed(tmp_path: Path) -> None:
    with mmsb.open(tmp_path, keep_last=2) as store:
        page = store.create_page(100, id=1)
        assert (store.info().followed, store.info().reloads, store.info().follow_failures) == (None, 0, 0)
        assert (store.info().waits > 0) == (store.info().waited > 0)
        store.sync()
        with mmsb.open(tmp_path, mode="follow") as replica:
            mine = replica.page(1)
            for turn in range(1, 20):
                page.write(0, bytes([turn]))
                other = store.create_page(10, id=1 + turn)
                record = store.info().last_record
                store.sync()
                replica.wait(record, timeout=PATIENCE)
                assert mine.read(0, 1) == bytes([turn])
                assert replica.page(1 + turn).version == other.version
            info = replica.info()
            assert (info.last_record, info.reloads, info.follow_failures) == (record, 0, 0)
            assert info.followed is not None
            assert abs(info.followed.timestamp() - time.time()) < PATIENCE
            with pytest.raises(mmsb.TimeoutError):
                replica.wait(record + 1, timeout=0.01)
            with replica.wait_start(record + 1) as ticket:
                assert not ticket.done()
                page.write(0, b"end")
                store.sync()
                ticket.wait(PATIENCE)
            assert mine.read(0, 3) == b"end"
            with replica.group():
                page.write(0, b"new")
                with pytest.raises(mmsb.BusyError):
                    replica.wait(1)
                time.sleep(0.05)
                assert mine.read(0, 3) == b"end"
            replica.wait(store.info().last_record, timeout=PATIENCE)
            assert mine.read(0, 3) == b"new"
            calls: list[Callable[[], object]] = [
                lambda: mine.write(0, b"lost"),
                lambda: replica.restore_bytes(store.save_bytes()),
                replica.checkpoint,
                lambda: store.wait(1),
            ]
            for call in calls:
                with pytest.raises(mmsb.InvalidStateError):
                    call()
    with pytest.raises(mmsb.InvalidArgumentError):
        mmsb.open(tmp_path, "follow", at=1)


def test_another_process_is_followed(tmp_path: Path) -> None:
    program = f"""
import mmsb, sys
with mmsb.open({str(tmp_path)!r}) as store:
    page = store.page(1)
    for turn in range(1, 101):
        page.write(0, bytes([turn]))
    print(store.info().last_record)
"""
    with mmsb.open(tmp_path) as store:
        store.create_page(100, id=1)
    with mmsb.open(tmp_path, mode="follow") as replica:
        mine = replica.page(1)
        ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        replica.wait(int(ended.stdout), timeout=PATIENCE)
        assert mine.read(0, 1) == bytes([100])


def test_the_state_as_it_was(tmp_path: Path) -> None:
    coarse = 5  # CLOCK_REALTIME_COARSE, which the records have
    points = []
    with mmsb.open(tmp_path, durability="call", keep_last=5) as store:
        page = store.create_page(8, id=1)
        for turn in range(1, 4):
            page.apply(mmsb.Delta.runs([(0, bytes([turn]))]))
            record = store.info().last_record
            moment = time.time() + 0.005
            while time.clock_gettime(coarse) <= moment:
                time.sleep(0.005)
            store.name(f"turn {turn}")
            utc = datetime.fromtimestamp(moment, timezone.utc)
            points.append((f"turn {turn}", record, utc, utc.astimezone().replace(tzinfo=None), turn))
        store.sync()
        for name, record, utc, local, turn in points:
            for at in (name, record, utc, local):
                with mmsb.open(tmp_path, at=at) as reader:
                    assert reader.page(1).epoch == turn
                    with pytest.raises(mmsb.InvalidStateError):
                        reader.page(1).write(0, b"x")
    for at in ("no such name", 999):
        with pytest.raises(mmsb.NotFoundError, match=r"no such name|999"):
            mmsb.open(tmp_path, at=at)


def test_a_branch_leaves_what_was_newer(tmp_path: Path) -> None:
    with mmsb.open(tmp_path) as store:
        page = store.create_page(8, id=1)
        page.write(0, b"old")
        store.name("before")
        page.write(0, b"new")
        store.name("after")
    with mmsb.open(tmp_path, "branch", at="before") as store:
        assert store.page(1).read(0, 3) == b"old"
        store.page(1).write(0, b"bra")
    with mmsb.open(tmp_path) as store:
        assert store.page(1).read(0, 3) == b"bra"
    with mmsb.open(tmp_path, at="after") as store:
        assert store.page(1).read(0, 3) == b"new"
    assert {point.name: point.on_line for point in mmsb.store_points(tmp_path) if point.name} == {"before": True, "after": False}


def test_points_and_retention(tmp_path: Path) -> None:
    begin = datetime.now(timezone.utc)
    with mmsb.open(tmp_path, save_bytes=math.inf, keep_last=2) as store:
        assert mmsb.store_points(tmp_path) == []
        empty = store.info()
        assert isinstance(empty, mmsb.StoreInfo)
        assert (empty.snapshots, empty.snapshot_bytes, empty.last_record, empty.saves, empty.last_save) == (0, 0, 0, 0, None)
        page = store.create_page(1000)
        store.name("first")
        store.name("also first")
        for turn in range(4):
            page.write(0, bytes([turn]))
            store.checkpoint(whole=turn == 3)
        page.write(0, b"unsaved")
        store.sync()
        info = store.info()
        points = mmsb.store_points(tmp_path)
        assert all(isinstance(point, mmsb.StorePoint) for point in points)
        assert [point.position for point in points] == sorted((point.position for point in points), reverse=True)
        assert [(point.name, point.names) for point in points] == [(None, 0), (None, 0), ("also first", 1), ("first", 1)]
        assert points[0].whole
        assert points[0].leads
        assert all(point.on_line and point.bytes > 0 and len(point.id) == len(point.lineage) == 32 for point in points)
        assert points[0].taken is not None
        assert timedelta(0) <= points[0].taken - begin < timedelta(seconds=PATIENCE)
        assert info.snapshots == len(points)
        # One rests on the two that were removed: their files are there still.
        assert info.snapshot_bytes == sum(point.bytes for point in points) + info.pruned_bytes
        assert (info.saves, info.failed_saves, info.pruned) == (6, 0, 2)
        assert 1 <= info.whole_saves <= 6
        assert info.saved_bytes == info.snapshot_bytes
        assert info.journal_bytes > 0
        assert info.unsaved_bytes > 0
        assert 0 < info.first_record <= info.last_record
        assert info.last_save == points[0].taken
        store.unname("first")
        with pytest.raises(mmsb.NotFoundError, match="also first"):
            store.unname("first")
        store.checkpoint()
        assert [point.name for point in mmsb.store_points(tmp_path)] == [None, None, "also first"]


@pytest.mark.parametrize("rule", [{"save_bytes": 100_000}, {"save_interval": 0.01}])
def test_the_keeper_saves_by_itself(tmp_path: Path, rule: dict[str, float]) -> None:
    with mmsb.open(tmp_path, durability="none", segment_bytes=1 << 20, **rule) as store:  # type: ignore[arg-type]
        page = store.create_page(50_000)
        end = time.monotonic() + PATIENCE
        while store.info().saves < 3 and time.monotonic() < end:
            page.write(0, os.urandom(50_000))
        assert store.info().saves >= 3
        assert page.metadata == {}


def test_started_forms(tmp_path: Path) -> None:
    with mmsb.open(tmp_path) as store:
        store.create_page(100, id=1)
        with store.sync_start() as first, store.checkpoint_start(True, after=[first]) as second:
            second.wait()
        with store.name_start("named") as third:
            third.wait()
            assert third.progress()[0] > 0
        assert [point.name for point in mmsb.store_points(tmp_path)] == ["named"]
        with pytest.raises(mmsb.InvalidArgumentError):
            store.name_start("1st")
        with store.group(), pytest.raises(mmsb.BusyError, match="group"):
            store.checkpoint()


def test_wrong_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    wrong: list[dict[str, object]] = [
        {"mode": "append"},
        {"mode": "write", "at": "name"},
        {"mode": "branch"},
        {"at": 0},
        {"at": -1},
        {"at": ""},
        {"at": "a\0b"},
        {"durability": "perhaps"},
        {"interval_ms": 0},
        {"segment_bytes": -1},
        {"save_bytes": 0},
        {"save_bytes": math.nan},
        {"save_interval": 0},
        {"space_wait": -1},
        {"space_wait": math.nan},
        {"keep_last": 0},
        {"keep_hourly": -1},
        {"keep_daily": 1 << 31},
        {"timeout": -1},
        {"memory_limit": -1},
        {"simulate": "perhaps"},
    ]
    for options in wrong:
        with pytest.raises(mmsb.InvalidArgumentError):
            mmsb.open(folder, **options)  # type: ignore[arg-type]
        assert not folder.exists()
    wrong = [{"mode": 1}, {"at": 1.5}, {"at": b"name"}, {"keep_last": "1"}, {"colour": "red"}]
    for options in wrong:
        with pytest.raises(TypeError):
            mmsb.open(folder, **options)  # type: ignore[arg-type]
    for path in ("", "a\0b"):
        with pytest.raises(mmsb.InvalidArgumentError):
            mmsb.open(path)
        with pytest.raises(mmsb.InvalidArgumentError):
            mmsb.store_points(path)
    with mmsb.open(folder) as store:
        for name in ("", "1st", "a\nb", "a\0b", "é" * 128, "\ud800"):
            with pytest.raises(mmsb.InvalidArgumentError):
                store.name(name)
        with pytest.raises(TypeError):
            store.name(b"name")  # type: ignore[arg-type]
        store.name("é" * 127)


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(mmsb.NotFoundError, match="no store"):
        mmsb.open(tmp_path, "read")
    with pytest.raises(mmsb.NotFoundError, match="no store"):
        mmsb.open(tmp_path / "none", "branch", at=1)
    with pytest.raises(mmsb.NotFoundError):
        mmsb.store_points(tmp_path)
    with pytest.raises(FileNotFoundError):
        mmsb.store_points(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        mmsb.open(tmp_path / "none" / "state")
    (tmp_path / "letter").write_text("hello")
    with pytest.raises(mmsb.InvalidStateError, match="letter"):
        mmsb.open(tmp_path)
    assert os.listdir(tmp_path) == ["letter"]


def test_a_store_has_one_writer(tmp_path: Path) -> None:
    program = f"import mmsb, sys; store = mmsb.open({str(tmp_path)!r}); print('open', flush=True); sys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "MMSB_LIBRARY": find_library()}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        for options in ({}, {"mode": "branch", "at": "name"}):
            with pytest.raises(mmsb.BusyError, match=rf"process {writer.pid} on {os.uname().nodename}"):
                mmsb.open(tmp_path, **options)  # type: ignore[arg-type]
        mmsb.open(tmp_path, "read").close()
        writer.kill()
    mmsb.open(tmp_path).close()


def test_long_calls_have_a_timeout(tmp_path: Path) -> None:
    """64 MiB take longer than 1 ns, and than a try; a call that times out has left nothing."""
    calls: list[Callable[[mmsb.Store, float], None]] = [
        lambda store, timeout: store.checkpoint(True, timeout),
        lambda store, timeout: store.name("name", timeout),
    ]
    data = os.urandom(64 << 20)
    directory = tmp_path / "store"
    for call in calls:

        def late(timeout: float, call: Callable[[mmsb.Store, float], None] = call) -> None:
            shutil.rmtree(directory, ignore_errors=True)
            with mmsb.open(directory, save_bytes=math.inf) as store:
                store.create_page(len(data)).write(0, data)
                try:
                    call(store, timeout)
                except mmsb.TimeoutError:
                    assert mmsb.store_points(directory) == []
                    raise

        runs_out_of_time(late, lambda _: None)
    with mmsb.open(directory, save_bytes=math.inf) as store:
        store.page(next(iter(store)).id).write(0, data[::-1])
        for call in calls:
            for timeout, error in ((0, mmsb.WouldBlockError), (-1, mmsb.InvalidArgumentError)):
                with pytest.raises(error):
                    call(store, timeout)
        assert mmsb.store_points(directory) == []
        store.sync(PATIENCE)
        store.checkpoint(True, timeout=PATIENCE)
        assert mmsb.store_points(directory)[0].whole
    for mode in ("write", "read"):

        def opens(timeout: float, mode: str = mode) -> None:
            mmsb.open(directory, mode, timeout=timeout).close()

        runs_out_of_time(opens, lambda _: None)
        with pytest.raises(mmsb.WouldBlockError):
            opens(0)
    with mmsb.open(directory, timeout=PATIENCE) as store:
        assert len(store) == 1
