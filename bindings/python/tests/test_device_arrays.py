"""Arrays that lie on devices, which are simulated here: adopted, changed, and used by the program's own work."""

from __future__ import annotations

import warnings
from typing import Any

import mmsb
import pytest


@pytest.fixture
def sim() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mmsb.SimulatedDeviceWarning)
        with mmsb.Context(simulate="always", simulated_devices=2) as context:
            yield context


class Array:
    """An array of another library: bytes of a block."""

    def __init__(self, address: int, length: int, read_only: bool = False, stream: int | None = None) -> None:
        self.__cuda_array_interface__ = {
            "shape": (length,),
            "typestr": "|u1",
            "data": (address, read_only),
            "version": 3,
            "stream": stream,
        }


def test_an_array_on_a_device_becomes_a_page(sim: mmsb.Context) -> None:
    for device in (0, 1):
        stream = sim.runtime(device).stream()
        assert stream.device == sim.runtime(device).device == device
        block = stream.allocate(1000)
        stream.fill(block, 7)
        for way in (stream.native, None):
            stream.wait()
            page = sim.adopt(Array(block.address, 1000, stream=way))
            info = page.info()
            assert (page.location, info.device, info.adopted, page.size) == ("gpu", device, True, 1000)
            assert page.read() == b"\7" * 1000
            page.write(10, b"adopted")
            assert page.block().address == block.address
            with stream.use((page, "read_write")):
                stream.copy(block.address + 100, block.address + 10, 7)
                assert page.info().write_pins == 1
            assert page.read(100, 7) == b"adopted"
            with pytest.raises(mmsb.InvalidStateError, match="is adopted"):
                page.migrate("cpu")
            page.destroy()
            stream.fill(block, 7)
        found, offset = sim.runtime(device).block_at(block.address + 5)
        assert (found.address, offset) == (block.address, 5)
        with pytest.raises(mmsb.NotFoundError):
            sim.runtime(device).block_at(5)
        block.free()


def test_a_page_on_a_device_is_a_tensor_and_a_page_again(sim: mmsb.Context) -> None:
    page = sim.create_page(100, location="gpu", device=1)
    page.write(0, b"there")
    view = page.view("uint8", (100,))
    other = sim.adopt(view)
    assert other.read(0, 5) == b"there" and other.info().device == 1
    other.write(0, b"T")
    assert page.read(0, 5) == b"There"
    again = sim.adopt(Array(page.block().address, 100))
    assert again.read(0, 5) == b"There"
    again.destroy()
    capsule = view.__dlpack__()
    third = sim.adopt(capsule)
    with pytest.raises(mmsb.InvalidArgumentError, match="a consumer has used it"):
        sim.adopt(capsule)
    for each in (other, third):
        each.destroy()
    del view, capsule
    page.destroy()


def test_arrays_of_both_kinds_are_adopted_together(sim: mmsb.Context) -> None:
    stream = sim.runtime().stream()
    block = stream.allocate(64)
    stream.fill(block, 1)
    host, more = bytearray(b"host"), bytearray(b"more")
    pages = sim.adopt_pages([host, Array(block.address, 64, stream=stream.native), more], ids=[5, 6, 7])
    assert [page.id for page in pages] == [5, 6, 7]
    assert [page.location for page in pages] == ["cpu", "gpu", "cpu"]
    assert [page.read(0, 4) for page in pages] == [b"host", b"\1" * 4, b"more"]
    before = len(sim)
    with pytest.raises(mmsb.InvalidArgumentError, match="are not memory of device"):
        sim.adopt_pages([host, Array(block.address, 1 << 40), more])
    assert len(sim) == before
    sim.destroy_pages(pages)


def test_what_lies_about_a_device(sim: mmsb.Context) -> None:
    stream = sim.runtime().stream()
    block = stream.allocate(64)
    host = bytearray(64)
    for array, error, text in (
        (Array(id(host), 10), mmsb.InvalidArgumentError, "memory of none of the 2 devices"),
        (Array(block.address, 1 << 40), mmsb.InvalidArgumentError, "are not memory of device 0"),
        (Array(block.address, 64, stream=99), mmsb.InvalidHandleError, "stream"),
        (Array(block.address, 64, read_only=True), mmsb.InvalidStateError, "read-only"),
    ):
        with pytest.raises(error, match=text):
            sim.adopt(array)
    page = sim.adopt(Array(block.address, 64, read_only=True), read_only=True)
    with pytest.raises(mmsb.InvalidStateError, match="read-only"):
        page.write(0, b"x")
    with pytest.raises(mmsb.InvalidStateError, match="read-only"), stream.use((page, "write")):
        pass
    with stream.use((page, "read"), (block, "read")):
        pass
    recorder = stream.recorder()
    recorder.add(page, "read")
    recorder.add(sim.create_page(10), "read")
    with pytest.raises(mmsb.UnsupportedError, match="not on a device"), recorder:
        pass
    del recorder  # it has the page pinned
    page.destroy()
    with pytest.raises(mmsb.UnsupportedError, match="not on a device"):
        sim.create_page(10).block()


def test_a_snapshot_is_loaded_into_an_array_on_a_device(sim: mmsb.Context, tmp_path: Any) -> None:
    stream = sim.runtime().stream()
    block = stream.allocate(5000)
    stream.fill(block, 3)
    page = sim.adopt(Array(block.address, 5000, stream=stream.native), id=9)
    sim.save(tmp_path / "state")
    stream.fill(block, 4)
    stream.wait()
    assert page.read(0, 2) == b"\4\4"
    sim.restore(tmp_path / "state")
    assert sim.page(9).read(4998) == b"\3\3" and sim.page(9).info().adopted
    sim.page(9).destroy()
    with stream.use((block, "read")):
        second = stream.allocate(5000)
        stream.copy(second, block, 5000)
    assert sim.adopt(Array(second.address, 5000, stream=stream.native)).read(0, 1) == b"\3"
