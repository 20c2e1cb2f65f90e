"""The journal: snapshot and tail give the state of the last call, also of one in between."""

from __future__ import annotations

import os
import pickle
import signal
import time
from datetime import datetime, timezone
from pathlib import Path

import mmsb
import pytest
from conftest import RunPython


def contents(ctx: mmsb.Context) -> dict[int, tuple[bytes, int, int, dict[str, bytes]]]:
    return {page.id: (page.read(), page.epoch, page.version, dict(page.metadata)) for page in ctx.pages()}


def test_snapshot_and_tail(ctx: mmsb.Context, tmp_path: Path) -> None:
    kept = ctx.create_page(5000)
    ctx.save(tmp_path / "start")
    with ctx.journal(tmp_path / "journal") as journal:
        assert isinstance(journal, mmsb.Journal)
        assert not journal.closed
        ended = ctx.create_page(100)
        kept.apply(mmsb.Delta.runs([(10, b"delta")]))
        kept.write(4000, b"written")
        kept.metadata["key"] = b"value"
        grown = ctx.create_page(50)
        grown.resize(70_000)
        grown.write(60_000, b"far")
        ctx.add_dependency(kept, grown)
        ended.destroy()
        many = ctx.create_pages(100, 64)
        ctx.apply_many([(page, mmsb.Delta.runs([(0, b"many")])) for page in many])
        journal.sync()
        info = journal.info()
        assert isinstance(info, mmsb.JournalInfo)
        assert info.first == 2  # the save was the first step
        assert info.last == info.synced > 10
        assert info.segments >= 1
        assert info.bytes > 0
        assert 0 <= info.space_waited <= info.waited
        assert (info.waits > 0) == (info.waited > 0)
        expected = contents(ctx)
    assert journal.closed
    journal.close()
    with pytest.raises(mmsb.ClosedError):
        journal.sync()
    with mmsb.Context.load(tmp_path / "start", journal=tmp_path / "journal") as again:
        assert contents(again) == expected
        assert [page.id for page in again.page(kept.id).children()] == [grown.id]


def test_as_it_was_at(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(8)
    ctx.save(tmp_path / "start")
    journal = ctx.journal(tmp_path / "journal", durability="call")
    points = []
    # The clock of the records is a coarse one, which may lag where the machine is loaded.
    coarse = 5  # CLOCK_REALTIME_COARSE
    for turn in range(1, 6):
        page.apply(mmsb.Delta.runs([(0, bytes([turn]))]))
        moment = time.time() + 0.005
        points.append((journal.info().last, moment, turn))
        while time.clock_gettime(coarse) <= moment:
            time.sleep(0.005)
    assert journal.info().synced == points[-1][0]
    for number, moment, turn in points:
        for until in ({"until": number}, {"until_time": moment}, {"until_epoch": (page.id, turn)}):
            with mmsb.Context.load(tmp_path / "start", journal=tmp_path / "journal", **until) as again:
                assert again.page(page.id)[0] == again.page(page.id).epoch == turn
    before = datetime(2020, 1, 1, tzinfo=timezone.utc)
    with mmsb.Context.load(tmp_path / "start", journal=tmp_path / "journal", until_time=before) as again:
        assert again.page(page.id).epoch == 0


def test_a_killed_process_loses_no_acknowledged_call(tmp_path: Path, run_python: RunPython) -> None:
    program = f"""
import os, signal, mmsb
ctx = mmsb.Context()
page = ctx.create_page(64, id=7)
ctx.save({str(tmp_path / "start")!r})
ctx.journal({str(tmp_path / "journal")!r}, durability="call")
for turn in range(1, 51):
    page.apply(mmsb.Delta.runs([(turn % 64, bytes([turn]))]))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_python(program).returncode == -signal.SIGKILL
    with mmsb.Context.load(tmp_path / "start", journal=tmp_path / "journal") as ctx:
        page = ctx.page(7)
        assert page.epoch == 50
        assert page.read() == bytes(turn if turn <= 50 else 0 for turn in range(64))
        # It goes on where it was.
        with ctx.journal(tmp_path / "journal") as journal:
            last = journal.info().last
            page.apply(mmsb.Delta.runs([(0, b"!")]))
            journal.sync()
            assert journal.info().last == last + 1
    with mmsb.Context.load(tmp_path / "start", journal=tmp_path / "journal") as ctx:
        assert ctx.page(7)[0] == ord("!")


def test_old_segments_are_dropped(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(100_000)
    with ctx.journal(tmp_path / "journal", "none", segment_bytes=1 << 20, keep=True) as journal:
        for turn in range(50):
            page.write(0, bytes([turn]) * 100_000)
            journal.sync()
        before = journal.info()
        assert before.segments > 2
        ctx.save(tmp_path / "snapshot")
        assert journal.info() == before
        with mmsb.Snapshot(tmp_path / "snapshot") as snapshot:
            assert snapshot.position >= before.last
        journal.trim(tmp_path / "snapshot")
        after = journal.info()
        assert after.segments < before.segments
        assert after.first > before.first
        page.write(0, b"after")
        expected = contents(ctx)
    assert len(os.listdir(tmp_path / "journal")) < before.segments + 1
    with mmsb.Context.load(tmp_path / "snapshot", journal=tmp_path / "journal") as again:
        assert contents(again) == expected


def test_a_durable_save_drops_them(ctx: mmsb.Context, tmp_path: Path) -> None:
    page = ctx.create_page(1 << 20)
    with ctx.journal(tmp_path / "journal", segment_bytes=1 << 20) as journal:
        for turn in range(5):
            page.write(0, bytes([turn]) * (1 << 20))
            journal.sync()
        before = journal.info()
        ctx.save(tmp_path / "snapshot", durable=False)
        assert journal.info() == before
        ctx.save(tmp_path / "snapshot")
        assert journal.info().segments < before.segments
    with mmsb.Context.load(tmp_path / "snapshot", journal=tmp_path / "journal") as again:
        assert contents(again) == contents(ctx)


def test_what_a_journal_refuses(ctx: mmsb.Context, tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.journal("")
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.journal(folder, durability="sometimes")
    for interval in (0, -1, 2**32):
        with pytest.raises(mmsb.InvalidArgumentError):
            ctx.journal(folder, interval_ms=interval)
    (tmp_path / "file").touch()
    with pytest.raises(mmsb.MMSBError):
        ctx.journal(tmp_path / "file")
    journal = ctx.journal(folder)
    with pytest.raises(mmsb.AlreadyExistsError):
        ctx.journal(tmp_path / "other")
    ctx.create_page(10)
    journal.sync()
    with mmsb.Context() as other, pytest.raises(mmsb.MMSBError):
        other.journal(folder)
    with pytest.raises(mmsb.NotFoundError):
        journal.trim(tmp_path / "none")
    with pytest.raises(TypeError):
        pickle.dumps(journal)
    assert "Journal" in repr(journal)
    ctx.close()
    assert journal.closed
    with pytest.raises(mmsb.ClosedError):
        journal.info()
    journal.close()
    assert "closed" in repr(journal)
