"""Pages in two places, on simulated devices."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import mmsb
import pytest


@pytest.fixture
def devices() -> Iterator[mmsb.Context]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mmsb.SimulatedDeviceWarning)
        with mmsb.Context(simulate="always", simulated_devices=2, simulated_memory=64 << 20) as ctx:
            yield ctx


def newer(page: mmsb.Page) -> list[int]:
    return [copy.newer for copy in page.copies()]


def test_only_newer_bytes_move(devices: mmsb.Context) -> None:
    page = devices.create_page(5000)
    page.sync("device")
    assert page.location == "gpu"
    assert page.copies() == [mmsb.PageCopy("gpu", 0, 5000, 0), mmsb.PageCopy("cpu", 0, 5000, 0)]
    page.write(60, b"over two ranges")
    page.apply(mmsb.Delta.runs([(4990, b"end")]))
    assert newer(page) == [0, 128 + 5000 - 4992 + 64] and page.read(60, 15) == b"over two ranges"
    before = devices.sync_stats()
    assert isinstance(before, mmsb.SyncStats)
    assert (before.pages, before.bytes, before.newer_on_host, before.newer_on_device) == (1, 5000, newer(page)[1], 0)
    page.sync()
    after = devices.sync_stats()
    assert after.to_device_bytes - before.to_device_bytes == before.newer_on_host
    assert after.to_device_ranges - before.to_device_ranges == 2
    assert (after.to_host_bytes, after.to_host_ranges) == (0, 0)
    page.migrate("cpu")
    assert page.read(4990, 3) == b"end" and [copy.location for copy in page.copies()] == ["cpu"]


def test_views_of_the_host_copy(devices: mmsb.Context) -> None:
    page = devices.create_page(5000, location="gpu")
    with pytest.raises(mmsb.InvalidStateError, match="no copy on the host"):
        page.host_copy()
    page.sync("host")
    view = page.host_copy(write=True)
    view[100:103] = b"raw"
    assert page.read(100, 3) == b"raw" and newer(page) == [0, 64]
    with pytest.raises(mmsb.BusyError):
        page.drop_host_copy()
    with pytest.raises(mmsb.BusyError):
        page.migrate("cpu")
    view.release()
    page.sync("device")
    page.drop_host_copy()
    assert page.read(100, 3) == b"raw" and len(page.copies()) == 1
    for direction, wins in (("up", None), ("both", "none")):
        with pytest.raises(mmsb.InvalidArgumentError):
            page.sync(direction, wins=wins)
    page.sync("both", wins="host")


def test_pinned_memory_is_the_copy(devices: mmsb.Context) -> None:
    page = devices.create_page(5000, location="pinned")
    page.write(10, b"kept")
    page.sync("device")
    assert [copy.location for copy in page.copies()] == ["gpu", "pinned"] and page.read(10, 4) == b"kept"
    page.migrate("pinned")
    assert page.location == "pinned" and page.read(10, 4) == b"kept"
    pages = devices.create_pages(3, 5000, location="gpu")
    pages[0].sync("host", pinned=True)
    devices.sync_many(pages[1:2], "host", pinned=True)
    devices.sync_many_start(pages[2:], "both", pinned=True).wait()
    assert [page.copies()[1].location for page in pages] == ["pinned"] * 3


def test_replicas_serve_work_that_reads(devices: mmsb.Context) -> None:
    page, target = devices.create_page(5000), devices.create_page(5000, location="gpu", device=1)
    page.write(100, b"before")
    stream = devices.runtime(1).stream()
    with pytest.raises(mmsb.UnsupportedError), stream.use((page, "read")):
        pass
    page.replicate(1)
    page.replicate(1)
    assert page.copies() == [mmsb.PageCopy("cpu", 0, 5000, 0), mmsb.PageCopy("gpu", 1, 5000, 0)]
    assert set(devices.device_pages(1)) == {page, target}
    assert (devices.sync_stats().replicas, devices.sync_stats().replica_bytes) == (1, 5000)
    with stream.use((page, "read"), (target, "write")) as use:
        page.write(100, b"later!")
        assert len(page.copies()) == 1
        assert use.address(target) == target.block().address
        stream.copy(use.address(target), use.address(page), 5000)
        with pytest.raises(mmsb.NotFoundError):
            use.address(devices.create_page(1))
    assert target.read(100, 6) == b"before" and page.read(100, 6) == b"later!"
    with pytest.raises(mmsb.InvalidHandleError):
        use.address(target)  # it has ended
    page.sync("device")
    page.sync("host")
    page.replicate(1)
    assert [copy.location for copy in page.copies()] == ["gpu", "cpu", "gpu"]
    page.drop_replica(1)
    page.drop_replica(1)
    assert [copy.location for copy in page.copies()] == ["gpu", "cpu"]
    with pytest.raises(mmsb.NoDeviceError):
        page.replicate(2)
    with pytest.raises(mmsb.InvalidArgumentError):
        page.drop_replica(-1)
    with pytest.raises(mmsb.UnsupportedError):
        devices.create_page(10, location="disk").replicate(0)


def test_batches_tickets_and_ids(devices: mmsb.Context) -> None:
    pages = devices.create_pages(10, 4096)
    for page in pages:
        page.write(0, b"content")
    devices.sync_many(pages, "device", 1, timeout=60)
    assert set(devices.device_pages(1)) == set(pages) and len(devices.device_pages(0)) == 0
    for page in pages:
        page.write(0, b"CONTENT")
    devices.sync_many_start(pages, "device", 1).wait()
    assert all(newer(page) == [0, 0] for page in pages)
    others = devices.create_pages(3, 100)
    assert devices.prefetch([12345, *(page.id for page in others)]) == 3
    assert {page.location for page in others} == {"gpu"}
    more = devices.create_pages(3, 100)
    devices.prefetch_start([page.id for page in more], 1).wait()
    assert {page.device for page in more} == {1}
    ended = more[0]
    ended.destroy()
    with pytest.raises(mmsb.StaleHandleError) as failure:
        devices.sync_many([others[0], ended])
    assert failure.value.index == 1


def test_pages_wait_for_their_sync(devices: mmsb.Context) -> None:
    pages = devices.create_pages(4, 4096)
    devices.sync_later(pages, "device")
    devices.sync_later(pages[:2], "host")
    pages[3].destroy()
    pages[2].resize(5000)
    assert devices.sync_stats().queued == 4
    assert devices.drain_syncs(timeout=60) == 3
    assert devices.sync_stats().queued == 0 and devices.drain_syncs() == 0
    assert [page.location for page in pages[:3]] == ["gpu"] * 3


def test_unified_pages_are_prefetched_and_advised(devices: mmsb.Context) -> None:
    assert devices.devices()[0].managed_hints
    page = devices.create_page(100_000, location="unified")
    page.write(0, b"unified")
    for direction, device in (("device", 0), ("device", 1), ("host", 0), ("both", 0)):
        page.sync(direction, device)
        assert page.location == "unified" and page.read(0, 7) == b"unified"
    assert devices.prefetch([page.id, 12345], 1) == 1
    with pytest.raises(mmsb.NoDeviceError):
        page.sync("device", 2)
    assert page.advice == mmsb.PageAdvice() == (None, False)
    page.advise(1, read_mostly=True)
    page.resize(3_000_000)
    assert page.advice == (1, True)
    page.advise("host")
    assert page.advice.preferred == "host" and not page.advice.read_mostly
    page.advise()
    assert page.advice == (None, False)
    for wrong in ("gpu", -1, -2):
        with pytest.raises(mmsb.InvalidArgumentError, match=r"not a device, 'host' or None"):
            page.advise(wrong)
    with pytest.raises(mmsb.NoDeviceError):
        page.advise(2)
    other = devices.create_page(10)
    for call in (other.advise, lambda: other.advice):
        with pytest.raises(mmsb.UnsupportedError, match="is not in managed memory"):
            call()


def test_how_far_to_prefetch() -> None:
    for latencies, distance in (
        ([], 4), ([50_000], 2), ([100_001], 4), ([500_001] * 2, 8), ([1, 2_000_001], 16), ([2**64 - 1] * 2, 16),
    ):  # fmt: skip
        assert mmsb.prefetch_distance(latencies) == distance


def test_simulated_devices_take_the_place_of_those_that_are_not_there() -> None:
    with mmsb.Context(simulate="always", fallback="simulate") as ctx:
        page = ctx.create_page(100, location="gpu", device=3)
        page.write(0, b"there")
        assert page.info().device == 1024 + 3 and page.info().simulated
        assert page.read(0, 5) == b"there"
        lost: list[mmsb.LostPage] = ctx.lost_pages()
        assert lost == []
        with pytest.raises(mmsb.NoDeviceError):
            ctx.create_page(100, location="gpu", device=64)
        assert ctx.runtime(1024 + 3).stats().outstanding == 100
    with mmsb.Context("simulate=always fallback=host") as ctx:
        assert ctx.create_page(100, location="gpu", device=3).location == "cpu"
    with pytest.raises(mmsb.InvalidArgumentError, match="fallback"):
        mmsb.Context(fallback="sim")
