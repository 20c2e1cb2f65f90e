"""Snapshots: saved, restored whole and in part, read without a context, and what bad files get."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import socket
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import mmsb
import numpy as np
import pytest
from conftest import PATIENCE, RunPython

SIZES = [1, 100, 256, 4096, 5000, 300_000, 1_000_003]


def pattern(seed: int, size: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8).tobytes()


def fill(ctx: mmsb.Context) -> dict[int, bytes]:
    """Pages of all sizes with bytes, metadata, masks and dependencies; their contents by id."""
    contents, before = {}, None
    for seed, size in enumerate(SIZES):
        page = ctx.create_page(size)
        page.write(0, pattern(seed, size))
        page.apply(mmsb.Delta.runs([(size - 1, b"!")]))
        page.metadata["name"] = f"page {seed}".encode()
        page.metadata["empty"] = b""
        if before is not None:
            ctx.add_dependency(before, page)
        before = page
        contents[page.id] = page.read()
    return contents


def state(ctx: mmsb.Context) -> dict[int, tuple[object, ...]]:
    """All that a snapshot keeps of each page."""
    return {
        page.id: (page.read(), page.epoch, page.version, page.location, page.mask_bits(), dict(page.metadata))
        for page in ctx.pages()
    }


def replaced(ctx: mmsb.Context, before: dict[int, tuple[object, ...]]) -> bool:
    """Whether a context that had this state has it again after a load: no version came back."""
    assert all(page.version > before[page.id][2] for page in ctx.pages())  # type: ignore[operator]
    return {id: (*page[:2], *page[3:]) for id, page in state(ctx).items()} == {
        id: (*page[:2], *page[3:]) for id, page in before.items()
    }


def edges(ctx: mmsb.Context) -> list[int]:
    return [page.id for page in ctx.dependency_order()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.mmsb"


# ----------------------------------------------------------------------------------------------- save and restore


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_new_context_gets_everything_back(ctx: mmsb.Context, path: Path, compression: str | None) -> None:
    fill(ctx)
    ctx.create_page(5000, location="disk").write(0, b"on disk")
    zeros = ctx.create_page(100_000)
    ctx.save(path, compression=compression)
    before, order = state(ctx), edges(ctx)
    with mmsb.Context.load(path) as again:
        assert isinstance(again, mmsb.Context)
        assert state(again) == before
        assert edges(again) == order
        page = again.page(zeros.id)
        version = page.version
        page.write(0, b"x")
        assert page.version > version
        assert again.create_page(1).id not in before
    assert state(ctx) == before
    assert os.listdir(path.parent) == [path.name]


def test_an_empty_context(ctx: mmsb.Context, path: Path) -> None:
    ctx.save(path)
    with mmsb.Context.load(path, memory_limit=1 << 20) as again:
        assert len(again) == 0
        with pytest.raises(mmsb.LimitError):
            again.create_page(1 << 21)
    with mmsb.Snapshot(path) as snapshot:
        assert len(snapshot) == 0
        assert list(snapshot.pages()) == []
        assert snapshot


def test_a_living_context_does_not_load_another(ctx: mmsb.Context, path: Path) -> None:
    ctx.save(path)
    with pytest.raises(TypeError, match=r"restore\(\) loads into this one"):
        ctx.load(path)


def test_restore_replaces_the_living(ctx: mmsb.Context, path: Path) -> None:
    contents = fill(ctx)
    ctx.save(path)
    saved = state(ctx)
    old = {id: ctx.page(id) for id in contents}
    first = next(iter(old.values()))
    first.write(0, b"?")
    new = ctx.create_page(10)
    ctx.restore(path)
    assert replaced(ctx, saved)
    for page in [*old.values(), new]:
        with pytest.raises(mmsb.StaleHandleError):
            page.read()
    assert ctx.page(next(iter(contents))) != first


def test_a_page_with_views_is_not_replaced(ctx: mmsb.Context, path: Path) -> None:
    page = ctx.create_page(5000)
    page.write(0, b"saved")
    ctx.save(path)
    view = np.asarray(page)
    view[:5] = 7
    with pytest.raises(mmsb.BusyError):
        ctx.restore(path)
    assert page[:5] == b"\7" * 5
    del view
    gc.collect()
    ctx.restore(path, lazy=True)
    assert ctx.page(ctx.pages()[0].id)[:5] == b"saved"


def test_chosen_pages(ctx: mmsb.Context, path: Path) -> None:
    contents = fill(ctx)
    ids = list(contents)
    ctx.save(path)
    for page in ctx.pages():
        page.write(0, b"\0")
    ctx.page(ids[1]).destroy()
    ctx.restore(path, ids=ids[:3])
    for id in ids:
        expected = contents[id] if id in ids[:3] else b"\0" + contents[id][1:]
        assert ctx.page(id).read() == expected
    before = state(ctx)
    ctx.restore(path, ids=[])
    ctx.restore(path, ids=np.array([], dtype=np.uint64))
    assert state(ctx) == before
    with pytest.raises(mmsb.NotFoundError):
        ctx.restore(path, ids=[ids[0], 2**60])
    assert state(ctx) == before
    with mmsb.Context.load(path, ids=np.array(ids[2:4], dtype=np.uint64)) as part:
        assert sorted(page.id for page in part) == sorted(ids[2:4])
        assert part.page(ids[3]).read() == contents[ids[3]]


def test_a_load_of_the_snapshot_that_was_looked_at(ctx: mmsb.Context, path: Path) -> None:
    page = ctx.create_page(10)
    ctx.save(path)
    with mmsb.Snapshot(path) as looked_at:
        with mmsb.Context.load(path, snapshot_id=looked_at.id) as other:
            assert other.page(page.id).read() == bytes(10)
        page.write(0, b"!")
        ctx.save(path)
        with pytest.raises(mmsb.MismatchError, match=f"not {looked_at.id}"):
            ctx.restore(path, snapshot_id=looked_at.id)
        with pytest.raises(mmsb.MismatchError):
            ctx.restore_start(path, snapshot_id=looked_at.id).wait()
        assert page.read()[:1] == b"!"
    for wrong in ("", "12", "g" * 32, "0" * 31):
        with pytest.raises(mmsb.InvalidArgumentError, match="snapshot_id is"):
            ctx.restore(path, snapshot_id=wrong)


def test_lazy_pages(ctx: mmsb.Context, path: Path) -> None:
    contents = fill(ctx)
    ctx.save(path)
    with mmsb.Context.load(path, lazy=True) as again:
        for id, data in contents.items():
            assert again.page(id).read() == data
            assert np.asarray(again.page(id)).tobytes() == data


@pytest.mark.parametrize("watched", [False, True])
def test_what_is_written_through_a_view_is_saved_watched_or_not(ctx: mmsb.Context, tmp_path: Path, watched: bool) -> None:
    page = ctx.create_page(1 << 20)
    view = page.array(write=True)
    ctx.save(tmp_path / "0", watched=watched)
    view[300_000] = 7
    ctx.save(tmp_path / "1", tmp_path / "0", watched=watched)
    assert (tmp_path / "1").stat().st_size < 1 << 19
    with mmsb.Context.load(tmp_path / "1") as again:
        assert again.page(page.id).read() == page.read()
    compared = ctx.save_stats().compared_bytes
    tracked = mmsb.capabilities()["write tracking"].available
    assert compared == (0 if watched and tracked else page.size)


def test_a_chain(ctx: mmsb.Context, tmp_path: Path) -> None:
    fill(ctx)
    many = ctx.create_pages(1000, 4096)
    ctx.save(tmp_path / "0")
    states = [state(ctx)]
    for turn in range(1, 4):
        ctx.apply_many([(many[turn * 7], mmsb.Delta.runs([(turn, b"turn")]))])
        removed = many[turn + 500].id
        many[turn + 500].destroy()
        ctx.create_page(77, id=10**9 + turn)
        ctx.save(tmp_path / str(turn), base=tmp_path / str(turn - 1))
        states.append(state(ctx))
    for turn, expected in enumerate(states):
        with mmsb.Context.load(tmp_path / str(turn)) as again:
            assert state(again) == expected
    with mmsb.Snapshot(tmp_path / "3") as last, mmsb.Snapshot(tmp_path / "2") as before:
        assert last.chain == 4
        assert last.base == before.id
        assert last.file_pages < 10
        assert last.file_size < (tmp_path / "0").stat().st_size / 10
        changes = dict(mmsb.diff(before, last))
        assert changes == {many[21].id: "bytes", removed: "removed", 10**9 + 3: "added"}
        assert all(isinstance(change, mmsb.Change) for change in mmsb.diff(before, last))
        assert mmsb.diff(last, last) == []
        page = last[many[7].id]
        assert page.read(1, 4) == b"turn"
    mmsb.compact(tmp_path / "3", tmp_path / "whole", durable=False)
    with mmsb.Snapshot(tmp_path / "whole") as whole:
        assert (whole.chain, whole.base) == (1, None)
    with mmsb.Context.load(tmp_path / "whole") as again:
        assert state(again) == states[3]
    for name in ("3", "whole"):
        mmsb.verify(tmp_path / name)
    (tmp_path / "1").unlink()
    with pytest.raises(mmsb.NotFoundError, match="base"):
        mmsb.verify(tmp_path / "3")
    with pytest.raises(mmsb.NotFoundError):
        mmsb.Context.load(tmp_path / "3")


def test_a_checkpoint_of_arrays_in_two_lines(tmp_path: Path) -> None:
    weights, step = np.arange(1_000_000, dtype=np.float32), np.zeros(1, dtype=np.int64)
    with mmsb.Context() as ctx:
        pages = [ctx.adopt(array) for array in (weights, step)]
        ctx.save(tmp_path / "first")
        weights[500_000] = -1
        step[0] = 1
        ctx.save(tmp_path / "second", base=tmp_path / "first")
        ids = [page.id for page in pages]
    assert (tmp_path / "second").stat().st_size < weights.nbytes / 4
    with mmsb.Context.load(tmp_path / "second") as ctx:
        assert np.array_equal(ctx.page(ids[0]).array("float32"), weights)
        assert ctx.page(ids[1]).array("int64")[0] == 1
    with mmsb.Context.load(tmp_path / "first") as ctx:
        assert np.array_equal(ctx.page(ids[0]).array("float32"), np.arange(1_000_000, dtype=np.float32))
        assert ctx.page(ids[1]).array("int64")[0] == 0


def test_raw_writes_can_be_refused(ctx: mmsb.Context, path: Path) -> None:
    page = ctx.create_page(5000)
    view = np.asarray(page)
    with pytest.raises(mmsb.BusyError):
        ctx.save(path, raw_writes="refuse")
    assert not path.exists()
    ctx.save(path)
    del view
    gc.collect()
    ctx.save(path, raw_writes="refuse")


def test_a_save_while_others_write(ctx: mmsb.Context, path: Path) -> None:
    """Pairs of pages are changed together by batches: no snapshot has a half of a batch."""
    pages = ctx.create_pages(2000, 4096)
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            first, last = pages[turn % 1000], pages[1999 - turn % 1000]
            data = turn.to_bytes(8, "little")
            ctx.apply_many([(first, mmsb.Delta.runs([(0, data)])), (last, mmsb.Delta.runs([(0, data)]))])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(5):
            ctx.save(path.with_suffix(f".{turn}"), copy_limit=4 << 20)
    finally:
        stop.set()
        writer.join()
    ids = [page.id for page in pages]
    for turn in range(5):
        with mmsb.Snapshot(path.with_suffix(f".{turn}")) as snapshot:
            for first, last in zip(ids[:1000], reversed(ids)):
                assert snapshot[first].read(0, 8) == snapshot[last].read(0, 8)


def test_work_of_its_own(ctx: mmsb.Context, path: Path) -> None:
    fill(ctx)
    before = state(ctx)
    with ctx.save_start(path) as saving, ctx.restore_start(path, after=[saving]) as loading:
        assert loading.wait(PATIENCE) is None
        assert saving.wait(0) is None
        done, total = saving.progress()
        assert done == total == sum(SIZES)
    assert replaced(ctx, before)

    async def both() -> None:
        await ctx.save_start(path, compression="zstd", compression_level=2)
        await ctx.restore_start(path, ids=[next(iter(before))], lazy=True)

    asyncio.run(both())
    assert replaced(ctx, before)
    with ctx.restore_start(path.with_suffix(".none")) as loading, pytest.raises(mmsb.NotFoundError):
        loading.wait()
    with ctx.save_start(path.parent / "no" / "folder") as saving, pytest.raises(mmsb.MMSBError):
        saving.wait()
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.save_start("")


def test_descriptors_and_memory(ctx: mmsb.Context, path: Path) -> None:
    fill(ctx)
    before = state(ctx)
    with path.open("wb") as file:
        file.write(b"before ")
        ctx.save_to(file)
        file.write(b" behind")
    data = path.read_bytes()
    assert data.startswith(b"before MMSBSNAP")
    assert data.endswith(b" behind")
    with path.open("rb", buffering=0) as raw, pytest.raises(mmsb.FormatError):
        ctx.restore_from(raw)
    assert state(ctx) == before
    saved = ctx.save_bytes(compression="zstd", compression_level=4)
    for page in ctx.pages():
        page.write(0, b"\0")
    ctx.restore_bytes(bytearray(saved))
    assert replaced(ctx, before)
    ctx.restore_bytes(saved, ids=[next(iter(before))])
    with pytest.raises(mmsb.MMSBError):
        ctx.restore_bytes(saved[:-1])
    with pytest.raises(mmsb.MMSBError):
        ctx.restore_bytes(b"")
    assert replaced(ctx, before)

    def send(file: socket.socket | int) -> None:
        ctx.save_to(file)
        if isinstance(file, int):
            os.close(file)
        else:
            file.close()

    left, right = socket.socketpair()
    sender = threading.Thread(target=send, args=(left,))
    sender.start()
    with mmsb.Context() as other:
        other.restore_from(right)
        sender.join()
        right.close()
        assert state(other) == state(ctx)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, mmsb.Context() as other:
        sender = threading.Thread(target=send, args=(writer,))
        sender.start()
        other.restore_from(pipe, ids=[next(iter(before))])
        sender.join()
        assert len(other) == 1
    for bad in (-1, 12345):
        with pytest.raises(mmsb.MMSBError):
            ctx.save_to(bad)
        with pytest.raises(mmsb.MMSBError):
            ctx.restore_from(bad)


def test_statistics(ctx: mmsb.Context, path: Path) -> None:
    assert ctx.save_stats() == mmsb.SaveStats(0, 0, 0, 0, 0, 0, 0, 0, 0)
    contents = fill(ctx)
    ctx.save(path)
    stats = ctx.save_stats()
    assert (stats.saves, stats.last_pages, stats.last_bytes) == (1, len(contents), path.stat().st_size)
    assert stats.last_duration_ns > 0
    assert stats.copied_bytes == stats.copied_peak == stats.waits == stats.waited_ns == 0
    assert stats.compared_bytes >= 0
    with pytest.raises(mmsb.MMSBError):
        ctx.save(path.parent)
    assert ctx.save_stats().saves == 1


# ------------------------------------------------------------------------------------------------------- reading


def test_reading_without_a_context(path: Path) -> None:
    start = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    with mmsb.Context() as ctx:
        contents = fill(ctx)
        disk = ctx.create_page(50, location="disk")
        ctx.save(path)
        infos = {page.id: page.info() for page in ctx}
        disk_id = disk.id
    with mmsb.Snapshot(path) as snapshot:
        assert len(snapshot.id) == 32
        assert snapshot.id in repr(snapshot)
        assert snapshot.base is None
        assert (snapshot.format, snapshot.chain, snapshot.position) == (4, 1, 1)
        assert snapshot.lineage is not None and snapshot.parent is None
        assert snapshot.taken is not None
        assert start < snapshot.taken < datetime.now(timezone.utc)
        assert snapshot.size == sum(SIZES) + 50
        assert snapshot.file_pages == len(snapshot) == len(SIZES) + 1
        assert snapshot.file_size == path.stat().st_size
        assert snapshot.dependencies == len(SIZES) - 1
        pages = {page.id: page for page in snapshot.pages()}
        assert pages.keys() == infos.keys() == set(snapshot)
        for id, page in pages.items():
            info = infos[id]
            assert id in snapshot
            assert isinstance(page, mmsb.SnapshotPage)
            assert (page.size, page.epoch, page.version) == (info.size, info.epoch, info.version)
            assert (page.location, page.device, page.numa_node) == (info.location, info.device, info.numa_node)
            assert len(page) == len(snapshot[id]) == info.size
            assert str(id) in repr(page)
        for seed, (id, data) in enumerate(contents.items()):
            page = snapshot[id]
            assert page
            assert page.read() == bytes(page) == data
            assert page.read(len(data) - 1) == b"!"
            assert page.read(0, 0) == b""
            assert page.metadata == {"name": f"page {seed}".encode(), "empty": b""}
            for reach in ((0, len(data) + 1), (len(data), 1), (2**63, 1), (-1, 1)):
                with pytest.raises(mmsb.OutOfRangeError):
                    page.read(*reach)
            room = bytearray(b"------")
            assert page.read_into(len(data) - 1, memoryview(room)[2:3]) == 1
            assert room == b"--!---"
            for offset in (len(data) - 1, 2**63, -1):
                with pytest.raises(mmsb.OutOfRangeError):
                    page.read_into(offset, room)
            with pytest.raises(BufferError):
                page.read_into(0, b"read only")
        assert snapshot[disk_id].metadata == {}
        assert 2**63 not in snapshot
        assert -1 not in snapshot
        assert "text" not in snapshot
        with pytest.raises(mmsb.NotFoundError):
            snapshot[2**63]
        for thing in (snapshot, snapshot[disk_id]):
            for copied in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled or copied"):
                    copied(thing)
    assert snapshot.closed
    snapshot.close()
    assert pages[disk_id].read() == bytes(50)  # a page keeps the file
    for act in (lambda: snapshot[1], lambda: list(snapshot.pages()), lambda: 1 in snapshot):
        with pytest.raises(mmsb.ClosedError):
            act()


def test_views_of_the_mapped_file(path: Path) -> None:
    with mmsb.Context() as ctx:
        contents = fill(ctx)
        ctx.save(path)
    largest = max(contents, key=lambda id: len(contents[id]))
    with mmsb.Snapshot(path) as snapshot:
        for id, data in contents.items():
            view = snapshot[id].memory()
            assert view.readonly
            assert view == data
            array = np.asarray(snapshot[id])
            assert not array.flags.writeable
            assert array.dtype == np.uint8
            assert array.tobytes() == data
            assert np.array(snapshot[id], dtype=np.float64).sum() == sum(data)
        big = snapshot[largest].array()
        assert big.ctypes.data % 4096 == 0
        assert snapshot[next(id for id, data in contents.items() if len(data) == 4096)].array("<u4").shape == (1024,)
        with pytest.raises(mmsb.MismatchError):
            snapshot[largest].array("float64")
        with pytest.raises(TypeError):
            snapshot[largest].array(object)
        del view, array
    gc.collect()
    assert mmsb.debug_live_objects("snapshot") == 1
    assert big.tobytes() == contents[largest]
    part = big[-10:]
    del big
    gc.collect()
    assert part.tobytes() == contents[largest][-10:]
    del part
    gc.collect()
    assert mmsb.debug_live_objects("snapshot") == 0


def test_compressed_pages_are_copied(path: Path) -> None:
    with mmsb.Context() as ctx:
        page = ctx.create_page(1 << 20)
        page.write(0, b"abc" * 1000)
        id, data = page.id, page.read()
        ctx.save(path, compression="zstd")
    assert path.stat().st_size < 1 << 17
    with mmsb.Snapshot(path) as snapshot:
        with pytest.raises(mmsb.UnsupportedError):
            snapshot[id].memory()
        assert snapshot[id].array().tobytes() == data
        assert snapshot[id].read(3000, 5) == data[3000:3005]


# --------------------------------------------------------------------------------------------------- bad input


def test_files_that_are_none(ctx: mmsb.Context, tmp_path: Path) -> None:
    fill(ctx)
    before = state(ctx)
    good = tmp_path / "good"
    ctx.save(good)
    files: dict[str, type[mmsb.MMSBError] | tuple[type[mmsb.MMSBError], ...]] = {
        "missing": mmsb.NotFoundError,
        "empty": (mmsb.CorruptError, mmsb.FormatError),
        "foreign": mmsb.FormatError,
        "newer": (mmsb.FormatError, mmsb.CorruptError),
        "cut": mmsb.CorruptError,
        "flipped": mmsb.CorruptError,
        "folder": mmsb.MMSBError,
        "fifo": mmsb.MMSBError,
        "link": mmsb.MMSBError,
    }
    data = good.read_bytes()
    (tmp_path / "empty").touch()
    (tmp_path / "foreign").write_bytes(b"PNG" * 5000)
    (tmp_path / "newer").write_bytes(data[:8] + b"\5" + data[9:])
    (tmp_path / "cut").write_bytes(data[:-4096])
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(good)
    with mmsb.Snapshot(good) as snapshot:
        page = max(snapshot.pages(), key=lambda page: page.size)
        at = data.index(page.read(0, 1000))
        page_id = page.id
        del page
    (tmp_path / "flipped").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for name, error in files.items():
        file = tmp_path / name
        with pytest.raises(error):
            mmsb.verify(file)
        with pytest.raises(error) as caught:
            ctx.restore(file)
        assert name in str(caught.value)
        if name == "flipped":
            assert str(page_id) in str(caught.value)
            continue
        with pytest.raises(error):
            mmsb.Snapshot(file)
        with pytest.raises(error):
            mmsb.compact(file, tmp_path / "out")
    with mmsb.Snapshot(tmp_path / "flipped") as snapshot:
        for act in (snapshot[page_id].read, snapshot[page_id].memory, lambda: np.asarray(snapshot[page_id])):
            with pytest.raises(mmsb.CorruptError, match=str(page_id)):
                act()
    assert state(ctx) == before
    assert not (tmp_path / "out").exists()
    mmsb.verify(good, timeout=PATIENCE)


def test_paths_where_nothing_can_be_saved(ctx: mmsb.Context, tmp_path: Path) -> None:
    fill(ctx)
    ctx.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    for path in (tmp_path, tmp_path / "no" / "file", "/proc/version", "/dev/full"):
        with pytest.raises(mmsb.MMSBError):
            ctx.save(path)
    with pytest.raises(mmsb.NoSpaceError), open("/dev/full", "wb", buffering=0) as full:
        ctx.save_to(full)
    assert (tmp_path / "good").read_bytes() == data
    assert os.listdir(tmp_path) == ["good"]


def test_bad_arguments(ctx: mmsb.Context, path: Path) -> None:
    ctx.save(path)
    refused = mmsb.InvalidArgumentError
    for act in (
        lambda: ctx.save(""),
        lambda: ctx.save("a\0b"),
        lambda: ctx.save(path, compression="lzma"),
        lambda: ctx.save(path, compression_level=1),
        lambda: ctx.save(path, compression="zstd", compression_level=5),
        lambda: ctx.save(path, raw_writes="sometimes"),
        lambda: ctx.save(path, copy_limit=1000),
        lambda: ctx.save(path, base_in_use="sometimes"),
        lambda: ctx.save(path, base="/tmp/elsewhere.mmsb"),
        lambda: ctx.save(path, base=""),
        lambda: ctx.restore(""),
        lambda: ctx.restore(path, until=-1),
        lambda: ctx.restore(path, until=0),
        lambda: ctx.restore(path, until_epoch=(0, 1)),
        lambda: ctx.restore(path, until_epoch=(1, 0)),
        lambda: ctx.restore(path, until_epoch=(1, -1)),
        lambda: ctx.restore(path, until_time=1e300),
        lambda: ctx.restore(path, until_time=float("nan")),
        lambda: mmsb.Snapshot(""),
        lambda: mmsb.verify("a\0"),
        lambda: mmsb.compact(path, ""),
        lambda: mmsb.Context.load(path, simulate="maybe"),
    ):
        with pytest.raises(refused):
            act()
    with pytest.raises(mmsb.OutOfRangeError):
        ctx.restore(path, ids=[-1])
    for wrong in (lambda: ctx.save(5), lambda: mmsb.Snapshot(None)):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            wrong()
    ctx.close()
    for closed in (lambda: ctx.save(path), lambda: ctx.restore(path), ctx.save_stats, ctx.save_bytes):
        with pytest.raises(mmsb.ClosedError):
            closed()


def test_shutdown_and_fork(path: Path, run_python: RunPython) -> None:
    program = f"""
import os, mmsb
with mmsb.Context() as ctx:
    ctx.create_page(5000)
    ctx.save({str(path)!r})
snapshot = mmsb.Snapshot({str(path)!r})
page = next(snapshot.pages())
child = os.fork()
if child == 0:
    try:
        page.read()
    except mmsb.ForkedError:
        del page, snapshot
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
mmsb.shutdown()
try:
    page.read()
except mmsb.StaleHandleError:
    pass
else:
    raise AssertionError
snapshot.close()
"""
    result = run_python(program)
    assert (result.returncode, result.stderr) == (0, "")
