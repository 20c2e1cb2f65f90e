"""The forms of calls: batches, timeouts, started work; ids in errors; what is read without a ctx."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import mmsb
import mmsb.state
import numpy
import pytest
from conftest import PATIENCE, runs_out_of_time
from mmsb import _abi, device
from mmsb.ticket import sweep

SIZES = [1, 4096, 70000]


def test_pages_of_many_sizes_and_ids(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(3, SIZES, ids=[5, 0, 7])
    assert [page.size for page in pages] == SIZES
    assert [page.id for page in pages][::2] == [5, 7]
    started = ctx.create_pages_start(3, numpy.array(SIZES, "uint64")).wait()
    assert [page.size for page in started] == SIZES
    with pytest.raises(mmsb.AlreadyExistsError, match="index 1"):
        ctx.create_pages(2, 64, ids=[8, 7])
    with pytest.raises(mmsb.MismatchError):
        ctx.create_pages(2, SIZES)
    assert len(ctx) == 6


def test_batches_are_whole(ctx: mmsb.Context) -> None:
    pages = ctx.create_pages(3, SIZES, ids=[1, 2, 3])
    clones = ctx.clone_pages(pages, [11, 0, 13])
    assert [page.id for page in clones][::2] == [11, 13]
    with pytest.raises(mmsb.AlreadyExistsError) as clone:
        ctx.clone_pages(pages, [0, 11, 0])
    assert clone.value.index == 1
    ctx.resize_pages(pages, [10, 20, 30])
    assert [page.size for page in pages] == [10, 20, 30]
    views = ctx.memories(pages, write=True)
    views[1][:] = b"x" * 20
    with pytest.raises(mmsb.BusyError, match="page 1 is pinned") as resize:
        ctx.resize_pages(pages, [1, 1, 1])
    assert resize.value.index == 0
    del views
    assert pages[1].read() == b"x" * 20
    ctx.resize_pages(pages, [1, 1, 1])
    numbers, memory = numpy.zeros(10, "uint8"), bytearray(20)
    adopted = ctx.adopt_pages([numbers, memory], ids=[100, 101])
    adopted[1].write(0, b"z")
    assert memory[0] == ord("z")
    with pytest.raises(mmsb.AlreadyExistsError):
        ctx.adopt_pages([numbers, memory], ids=[102, 101])
    assert len(ctx) == 8


def test_timeouts_and_started_work(ctx: mmsb.Context, tmp_path: Path) -> None:
    pages = ctx.create_pages(3, SIZES)
    journal = ctx.journal(tmp_path / "journal")
    ctx.save(tmp_path / "one")
    pages[2].write(0, b"changed")
    ctx.save(tmp_path / "two")
    journal.sync(timeout=60)
    journal.sync_start().wait()
    journal.trim(tmp_path / "two", timeout=0)
    journal.trim_start(tmp_path / "two").wait()
    mmsb.verify(tmp_path / "two", timeout=0)
    mmsb.verify_start(tmp_path / "two").wait()
    mmsb.compact(tmp_path / "two", tmp_path / "three", timeout=60)
    mmsb.compact_start(tmp_path / "two", tmp_path / "four").wait()
    with mmsb.Snapshot(tmp_path / "one") as one, mmsb.Snapshot(tmp_path / "four") as four:
        assert mmsb.diff(one, four, timeout=0) == [mmsb.Change(pages[2].id, "bytes")]
    ctx.migrate_many(pages, "disk", timeout=60)
    assert [page.location for page in pages] == ["disk"] * 3
    many = ctx.create_pages(20000, 64)
    with pytest.raises(mmsb.WouldBlockError) as caught:
        ctx.migrate_many(many, "disk", timeout=0)
    assert [page.location for page in many].index("cpu") == caught.value.index
    with pytest.raises(mmsb.WouldBlockError):
        ctx.create_pages(20000, 64, timeout=0)
    runs_out_of_time(lambda timeout: ctx.create_pages(2_000_000, 64, timeout=timeout), ctx.destroy_pages)
    assert len(ctx) == 20003
    journal.close(timeout=60)
    assert journal.closed
    journal.close(timeout=0)


def test_a_close_that_times_out_leaves_the_journal_open(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(32 << 20)
    journal = ctx.journal(tmp_path / "journal", interval_ms=60_000)
    page.write(0, os.urandom(32 << 20))
    with pytest.raises(mmsb.WouldBlockError):
        journal.close(timeout=0)
    assert not journal.closed
    last = journal.info().last
    page.write(0, b"more")
    assert journal.info().last == last + 1
    journal.close()
    with pytest.raises(mmsb.ClosedError):
        journal.info()


def test_each_long_call_has_a_timeout(ctx: mmsb.Context, tmp_path: Path) -> None:
    """A call that times out has changed nothing; 64 MiB take longer than 1 ns, and than a try."""
    page = ctx.create_page(64 << 20, id=7)
    page.write(0, b"first")
    ctx.save(tmp_path / "s", durable=False)
    data = ctx.save_bytes(timeout=PATIENCE)
    page.write(0, b"later")
    with open(tmp_path / "s", "rb") as file, open(os.devnull, "wb") as sink:
        calls: list[Callable[[float], object]] = [
            lambda timeout: ctx.save(tmp_path / "t", timeout=timeout),
            lambda timeout: ctx.save_to(sink, timeout=timeout),
            lambda timeout: ctx.save_bytes(timeout=timeout),
            lambda timeout: ctx.restore(tmp_path / "s", timeout=timeout),
            lambda timeout: mmsb.Context.load(tmp_path / "s", timeout=timeout),
            lambda timeout: ctx.restore_from(file, timeout=timeout),
            lambda timeout: ctx.restore_bytes(data, timeout=timeout),
            lambda timeout: ctx.journal(tmp_path / "journal", timeout=timeout),
            lambda timeout: mmsb.verify(tmp_path / "s", timeout=timeout),
            lambda timeout: mmsb.compact(tmp_path / "s", tmp_path / "t", timeout=timeout),
        ]

        def undo(done: object) -> None:
            if isinstance(done, (mmsb.Context, mmsb.Journal)):
                done.close()
            (tmp_path / "t").unlink(missing_ok=True)
            shutil.rmtree(tmp_path / "journal", ignore_errors=True)
            ctx.page(7).write(0, b"later")
            file.seek(0)

        for call in calls:
            file.seek(0)
            runs_out_of_time(call, undo)
            for timeout, error in ((0, mmsb.WouldBlockError), (-1, mmsb.InvalidArgumentError)):
                file.seek(0)
                with pytest.raises(error):
                    call(timeout)
                assert ctx.page(7).read(0, 5) == b"later"
                assert not (tmp_path / "t").exists()
        file.seek(0)
        ctx.restore_from(file, timeout=PATIENCE)
    assert ctx.page(7).read(0, 5) == b"first"
    ctx.restore_bytes(data, timeout=PATIENCE)
    ctx.journal(tmp_path / "journal", timeout=PATIENCE).close()


def test_started_work_keeps_what_it_uses(ctx: mmsb.Context, tmp_path: Path) -> None:
    ctx.create_page(1 << 20, id=7).write(0, b"first")
    with ctx.save_bytes_start() as saving:
        data = saving.wait()
        assert saving.wait() is data
        saving._result = None  # as after Ctrl-C in the end of a wait
        assert saving.wait() is data
    with open(tmp_path / "s", "w+b") as file:
        with ctx.save_to_start(file) as writing:
            writing.wait()
        assert (tmp_path / "s").stat().st_size == len(data)
        ctx.page(7).write(0, b"later")
        file.seek(0)
        with ctx.restore_from_start(file) as reading:
            reading.wait()
    assert ctx.page(7).read(0, 5) == b"first"
    ctx.page(7).write(0, b"later")
    source = bytearray(data)
    with ctx.restore_bytes_start(source) as reading, pytest.raises(BufferError):
        source.clear()  # the work reads it
    while source:
        try:
            source.clear()
        except BufferError:
            sweep()
            time.sleep(0.001)
    assert ctx.page(7).read(0, 5) == b"first"
    with mmsb.Snapshot(tmp_path / "s") as one, mmsb.Snapshot(tmp_path / "s") as two:
        comparing = mmsb.diff_start(one, two)
    assert comparing.wait() == []  # it has the files, though they are closed here
    comparing.close()
    with ctx.journal_start(tmp_path / "journal") as opening:
        journal = opening.wait()
        assert opening.wait() is journal
    journal.close()
    ctx.save_bytes_start()  # dropped: the memory is freed when the work has ended


def test_long_calls_of_a_thread_with_a_group(ctx: mmsb.Context, tmp_path: Path) -> None:
    ctx.create_page(64)
    ctx.save(tmp_path / "s")
    data = ctx.save_bytes()
    journal = ctx.journal(tmp_path / "journal")
    with ctx.group(), open(tmp_path / "s", "rb") as file, open(os.devnull, "wb") as sink:
        for call in (
            lambda: ctx.save(tmp_path / "t"),
            lambda: ctx.save_to(sink),
            ctx.save_bytes,
            lambda: ctx.restore(tmp_path / "s"),
            lambda: ctx.restore_from(file),
            lambda: ctx.restore_bytes(data),
            journal.sync,
            lambda: journal.trim(tmp_path / "s"),
        ):
            with pytest.raises(mmsb.BusyError, match="group"):
                call()
        with pytest.raises(mmsb.InvalidStateError, match="group"):
            ctx.save_bytes_start()
        mmsb.verify(tmp_path / "s")
        mmsb.compact(tmp_path / "s", tmp_path / "t")
        with mmsb.Snapshot(tmp_path / "s") as one, mmsb.Snapshot(tmp_path / "t") as two:
            assert mmsb.diff(one, two) == []
        with mmsb.Context() as other:
            other.restore_bytes(data)
            assert other.save_bytes()
    journal.close()


def test_a_journal_is_listed(ctx: mmsb.Context, tmp_path: Path) -> None:
    journal = ctx.journal(tmp_path)
    page = ctx.create_page(100, id=9)
    page.write(3, b"abc")
    page.metadata["key"] = b"value"
    journal.close()
    directory = mmsb.journal_directory(tmp_path)
    assert (directory.closed, directory.first, directory.last, directory.segments) == (True, 1, 3, 1)
    (segment,) = mmsb.journal_segments(tmp_path)
    assert (tmp_path / segment.name).stat().st_size == segment.bytes
    records = list(mmsb.journal_records(tmp_path))
    assert [(record.kind, record.page) for record in records] == [("create", 9), ("write", 9), ("metadata_set", 9)]
    assert (records[1].offset, records[1].bytes, records[2].key) == (3, 3, "key")
    assert [record.record for record in mmsb.journal_records(tmp_path, 3)] == [3]
    assert directory == mmsb.JournalDirectory(
        closed=True,
        lineage=directory.lineage,
        parent="00" * 16,
        fork=0,
        branch=0,
        branches=1,
        segments=1,
        first=1,
        last=3,
        first_time_ns=records[0].time_ns,
        last_time_ns=records[2].time_ns,
        torn_bytes=0,
    )
    assert int(directory.lineage, 16) != 0
    assert segment == mmsb.JournalSegment(segment.name, 1, 3, segment.bytes, segment.created_ns, based=False)
    assert records[0] == mmsb.JournalRecord(
        record=1,
        group=1,
        time_ns=records[0].time_ns,
        kind="create",
        page=9,
        version=records[0].version,
        epoch=0,
        size=100,
        offset=0,
        bytes=0,
        other=0,
        other_version=0,
        location="cpu",
        device=0,
        numa_node=-1,
        form=0,
        adopted=False,
        read_only=False,
        key="",
        source="",
        intent="",
    )


def test_a_snapshot_has_edges_and_masks(ctx: mmsb.Context, tmp_path: Path) -> None:
    parent, child = ctx.create_page(100, id=1), ctx.create_page(100, id=2)
    ctx.add_dependency(parent, child)
    child.apply(mmsb.Delta.indexed([0, 9, 99], b"abc"))
    ctx.save(tmp_path / "file")
    with mmsb.Snapshot(tmp_path / "file") as snapshot:
        assert snapshot.edges() == [(1, 2)]
        assert snapshot[2].mask_bits() == child.mask_bits()
        assert snapshot[2].mask_bits(9, 3) == b"\x01"


def test_a_missing_file_is_a_file_not_found_error(ctx: mmsb.Context, tmp_path: Path) -> None:
    for call in (mmsb.Snapshot, mmsb.verify, ctx.restore):
        with pytest.raises(FileNotFoundError) as error:
            call(tmp_path / "none")
        assert isinstance(error.value, mmsb.NotFoundError)
        assert error.value.errno == 2
    with ctx.restore_start(tmp_path / "none") as ticket:
        with pytest.raises(FileNotFoundError):
            ticket.wait()
        assert isinstance(ticket.error(), FileNotFoundError)
    with pytest.raises(FileNotFoundError) as folder:
        mmsb.Context(disk_path=tmp_path / "none").create_page(10, location="disk")
    assert isinstance(folder.value, mmsb.MissingFolderError)
    with mmsb.Context(simulate="always") as simulated, pytest.raises(FileNotFoundError):
        simulated.create_runtime(ledger=tmp_path / "none" / "ledger", budget=5)
    with pytest.raises(mmsb.NotFoundError) as other:
        ctx.page(3)
    assert not isinstance(other.value, FileNotFoundError)


def test_a_missing_folder_is_a_file_not_found_error(ctx: mmsb.Context, tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "name"
    calls: list[Callable[[], object]] = [
        lambda: ctx.save(nowhere),
        lambda: ctx.save(nowhere, durable=False),
        lambda: ctx.journal(nowhere),
        lambda: mmsb.open(nowhere),
        lambda: mmsb.state.save(nowhere, {}),
    ]
    for call in calls:
        with pytest.raises(mmsb.MissingFileError) as error:
            call()
        assert isinstance(error.value, FileNotFoundError) and error.value.errno == 2


def test_wrong_arguments_are_named(ctx: mmsb.Context) -> None:
    page: Any = ctx.create_page(10)
    context, delta, package = cast("Any", ctx), cast("Any", mmsb.Delta), cast("Any", mmsb)
    calls: dict[str, Callable[[], object]] = {
        "'float' object cannot be interpreted as an integer": lambda: page[1.5],
        "'str' object cannot be interpreted as an integer": lambda: page.__setitem__("x", 1),
        "other must be a Page, not NoneType": lambda: page.compare(None),
        "other must be a Page, not bytes": lambda: page.differences(b""),
        "parent must be a Page, not int": lambda: context.add_dependency(1, 2),
        "child must be a Page, not int": lambda: context.remove_dependency(page, 2),
        "new must be a Page, not str": lambda: delta.from_pages(page, "new"),
        "a run must be an offset and bytes, not 'a'": lambda: delta.runs("a"),
        "a run must be an offset and bytes, not 5": lambda: delta.runs([(0, b"x"), 5]),
        "older must be a Snapshot, not float": lambda: package.diff(1.5, 2),
    }
    for text, call in calls.items():
        with pytest.raises(TypeError, match=f"^{text}$"):
            call()


def test_errors_name_pages_by_their_ids(ctx: mmsb.Context) -> None:
    page, other = ctx.create_page(10, id=42), ctx.create_page(10)
    for some in (page, other):
        with some.pin(), pytest.raises(mmsb.BusyError, match=f"page {some.id} is pinned"):
            some.resize(5)
        with pytest.raises(mmsb.OutOfRangeError, match=f"page {some.id}, size 10"):
            some.read_into(8, bytearray(10))
        some.destroy()
        with pytest.raises(mmsb.StaleHandleError, match=f"page {some.id} was destroyed"):
            some.read()
    living = ctx.create_page(10, id=7)
    for call in (
        lambda: ctx.info_many([living, page]),
        lambda: ctx.memories([living, page]),
        lambda: ctx.migrate_many([living, page], "disk"),
        lambda: ctx.add_dependency(living, page),
        lambda: mmsb.Delta.from_pages(living, page),
    ):
        with pytest.raises(mmsb.StaleHandleError, match="page 42 was destroyed"):
            call()
    with pytest.raises(mmsb.OutOfRangeError, match="page 7: offset 1000 exceeds") as batch:
        ctx.apply_many([(ctx.create_page(9999), mmsb.Delta.indexed([1000], b"x")), (living, mmsb.Delta.indexed([1000], b"x"))])
    assert batch.value.index == 1


@pytest.mark.parametrize("contiguous", [True, False])
def test_arrays_of_objects_are_refused(ctx: mmsb.Context, contiguous: bool) -> None:
    objects = numpy.array([1, "two", None, object()] * 2, dtype=object)[:: 1 if contiguous else 2]
    mixed = numpy.zeros(4, dtype=[("O", "i4"), ("item", "O")])[:: 1 if contiguous else 2]
    page = ctx.create_page(1000)
    for array in (objects, mixed):
        for call in (
            lambda array=array: page.write(0, array),
            lambda array=array: ctx.write_many([(page, 0, array)]),
            lambda array=array: ctx.apply_runs([page], [0], array, 8),
            lambda array=array: ctx.restore_bytes(array),
            lambda array=array: ctx.adopt(numpy.ascontiguousarray(array)),
            lambda array=array: page.read_into(0, numpy.ascontiguousarray(array)),
            lambda array=array: page.apply(mmsb.Delta.indexed(range(array.nbytes), array)),
            lambda array=array: page.metadata.__setitem__("key", array),
        ):
            with pytest.raises(TypeError, match="Python objects"):
                call()
    assert page.version == 1
    page.write(0, numpy.zeros(2, dtype=[("O", "i4")]))  # a field of this name is none


def test_a_page_is_a_buffer(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    page.write(0, b"0123456789")
    view = page.__buffer__(0)
    assert view.readonly
    assert bytes(view) == b"0123456789"
    assert page.info().read_pins == 1
    view.release()
    del view
    writable = page.__buffer__(1)
    writable[0] = ord("x")
    del writable
    assert page[0] == ord("x")
    if sys.version_info >= (3, 12):  # PEP 688: before it only types that are written in C are buffers
        assert bytes(memoryview(page)) == b"x123456789"
    else:
        with pytest.raises(TypeError):
            memoryview(page)
    assert page.info().read_pins + page.info().write_pins == 0


def test_telemetry_is_a_list_or_says_why_not() -> None:
    try:
        devices = mmsb.telemetry()
    except mmsb.UnsupportedError as error:
        assert "libnvidia-ml" in str(error)
        with pytest.raises(mmsb.UnsupportedError):
            mmsb.telemetry_paths()
    else:
        assert len(mmsb.telemetry_paths()) == len(devices)


def test_telemetry_has_what_the_library_stores() -> None:
    told = mmsb.Telemetry(
        name="stand-in",
        uuid="",
        pci="0000:60:00.0",
        driver_version="580.65.06",
        memory_total=1000,
        memory_used=700,
        memory_of_this_process=33,
        memory_of_others=667,
        utilization=40,
        memory_utilization=20,
        temperature=60,
        pcie_generation=5,
        pcie_lanes=16,
        numa_node=3,
        links=[mmsb.Link(number=1, version=5, remote="0001:61:00.0")],
    )
    raw = _abi.Telemetry(link_count=1)
    for field, value in told._asdict().items():
        if field != "links":
            setattr(raw, field, value.encode() if isinstance(value, str) else value)
    raw.links[0] = _abi.Link(1, 5, b"0001:61:00.0")
    assert device._telemetry(raw) == told
