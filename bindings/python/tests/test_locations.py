"""Pages wherever memory can be, on simulated devices."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import mmsb
import numpy as np
import pytest
from conftest import RunPython

LOCATIONS = ["cpu", "gpu", "unified", "pinned", "disk"]


@pytest.fixture
def devices() -> Iterator[mmsb.Context]:
    """A context with two simulated devices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mmsb.SimulatedDeviceWarning)
        with mmsb.Context(simulate="always", simulated_devices=2, simulated_memory=64 << 20) as ctx:
            yield ctx


@pytest.mark.parametrize("location", LOCATIONS)
def test_pages_work_in_every_location(devices: mmsb.Context, location: str) -> None:
    page = devices.create_page(10_000, location=location)
    assert page.location == location and page.device == 0
    assert page.info().simulated == (location not in ("cpu", "disk"))
    assert page.read(0, 10_000) == bytes(10_000)
    content = bytearray(np.random.default_rng(1).bytes(10_000))
    page.write(0, content)
    page.apply(mmsb.Delta.indexed(offsets=[5, 9000, 5], values=b"abc"))
    page.apply(mmsb.Delta.runs([(100, b"hello"), (103, b"world")]))
    content[5], content[9000] = b"cb"
    content[100:108] = b"helworld"
    assert page.read(0, 10_000) == bytes(content) and page.epoch == 2
    assert int(page.mask.sum()) == 10
    clone = page.clone()
    assert clone.location == location and clone.read(0, 10_000) == bytes(content)
    clone.resize(101)
    assert clone.read(0, 101) == bytes(content[:101])
    devices.apply_many([(page, mmsb.Delta.runs([(0, b"x")])), (page, mmsb.Delta.runs([(1, b"y")]))])
    assert page[0:2] == b"xy"


@pytest.mark.parametrize("to", LOCATIONS)
@pytest.mark.parametrize("location", LOCATIONS)
def test_pages_move_from_everywhere_to_everywhere(devices: mmsb.Context, location: str, to: str) -> None:
    page = devices.create_page(5000, location=location)
    content = np.random.default_rng(2).bytes(5000)
    page.write(0, content)
    page.migrate(to)
    assert page.location == to and page.read(0, 5000) == content
    ticket = devices.migrate_many_start([page], "gpu", 1)
    ticket.wait()
    assert (page.location, page.device) == ("gpu", 1) and page.read(0, 5000) == content


@pytest.mark.parametrize("location", LOCATIONS)
def test_views_are_of_memory_that_the_host_reaches(devices: mmsb.Context, location: str) -> None:
    page = devices.create_page(4096, location=location)
    if location == "gpu":
        with pytest.raises(mmsb.UnsupportedError):
            np.asarray(page)
        assert page.info().write_pins == 0 == page.info().read_pins
        assert page.address
        return
    array = page.array("uint32")
    array[7] = 77
    del array
    assert page.read(28, 4) == b"\x4d\x00\x00\x00"


def test_simulation_is_said_once(run_python: RunPython) -> None:
    result = run_python(
        """
import warnings, mmsb
with mmsb.Context(simulate="always") as ctx, warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    ctx.create_page(10)
    assert not said
    for _ in range(2):
        ctx.create_page(10, location="gpu")
    assert [warning.category for warning in said] == [mmsb.SimulatedDeviceWarning], said
"""
    )
    assert result.returncode == 0, result.stderr


def test_snapshots_bring_pages_back_to_their_location(devices: mmsb.Context, tmp_path: Path) -> None:
    contents: dict[int, tuple[str, bytes]] = {}
    for location in LOCATIONS:
        page = devices.create_page(300_000, location=location)
        contents[page.id] = (location, np.random.default_rng(len(contents)).bytes(300_000))
        page.write(0, contents[page.id][1])
    devices.save(tmp_path / "state.mmsb")
    for lazy in (False, True):
        with mmsb.Context.load(tmp_path / "state.mmsb", lazy=lazy, simulate="always") as again:
            for number, (location, content) in contents.items():
                page = again.page(number)
                assert page.location == location and page.read(0, 300_000) == content
    for lazy in (False, True):
        with mmsb.Context.load(tmp_path / "state.mmsb", lazy=lazy, simulate="off", to_host=True) as here:
            for number, (location, content) in contents.items():
                page = here.page(number)
                assert page.location == ("disk" if location == "disk" else "cpu") and page.read() == content
    with mmsb.Context.load(tmp_path / "state.mmsb", simulate="off", fallback="host") as host:
        for number, (_, content) in contents.items():
            assert host.page(number).read(0, 300_000) == content
