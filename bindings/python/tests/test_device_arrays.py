"""Arrays that lie on devices, which are simulated here: adopted, changed, and used by the program's own work."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import mmsb
import numpy as np
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
            with stream.use(page):  # alone: read and written
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


def test_memory_of_a_device_is_no_buffer(sim: mmsb.Context) -> None:
    page = sim.create_page(100, location="gpu")
    block = sim.runtime().stream().allocate(100)
    for thing in (page, page.view(), block, block.view()):
        with pytest.raises(BufferError, match="the host cannot access"):  # from Python 3.12 on, adopt() asks for it first
            thing.__buffer__(0)
        sim.adopt(thing).destroy()


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
    with pytest.raises(mmsb.UnsupportedError, match="no device reaches"), recorder:
        pass
    del recorder  # it has the page pinned
    page.destroy()
    with pytest.raises(mmsb.UnsupportedError, match="no device reaches"):
        sim.create_page(10).block()


class Tensor:
    """An array of another library over a page of ours, whose producer is asked for a stream."""

    def __init__(self, view: mmsb.View) -> None:
        self.view = view
        self.asked: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> object:
        self.asked.append(asked.get("stream"))
        return self.view.__dlpack__(**asked)


def test_arrays_are_copied(sim: mmsb.Context) -> None:
    stream = sim.runtime().stream()
    block = stream.allocate(24)
    numbers = np.arange(6, dtype="<u4").reshape(2, 3)
    with stream.use((block, "write")):
        stream.copy(block, numbers)
    got = np.zeros((3, 2), "<u4")
    with stream.use((block, "read")):
        stream.copy(got, block)
    stream.wait()
    assert got.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    buffer, page = bytearray(24), sim.create_page(24)
    stream.copy(memoryview(buffer), got.data)
    stream.copy(page, numbers)
    stream.wait()
    assert buffer == numbers.tobytes() == page.read()
    # The memory of a device, by each protocol, and a part.
    other = stream.allocate(24)
    stream.fill(other, 7)
    stream.copy(Array(other.address, 24, stream=stream.native), numbers, 8)
    stream.copy(buffer, Array(other.address, 24, read_only=True))
    stream.wait()
    assert buffer == numbers.tobytes()[:8] + b"\7" * 16
    far = sim.create_page(24, location="gpu")
    tensor = Tensor(far.view("uint32", (2, 3)))
    with stream.use((far, "write")):
        stream.copy(far, block)
    with stream.use((far, "read_write")):
        stream.copy(buffer, tensor)
        stream.copy(tensor, buffer)
    stream.wait(0)
    assert tensor.asked == [stream.native] * 2
    assert buffer == numbers.tobytes() == far.read()
    del tensor
    far.destroy()
    # Addresses are numbers of any kind, and take the number of bytes of the other side.
    stream.fill(other.address, 1, 24)
    stream.copy(buffer, np.uint64(other.address))
    stream.copy(block.address, buffer)
    stream.copy(block, other.address, 24)
    stream.wait()
    assert buffer == b"\1" * 24


def test_copies_keep_arrays_until_they_are_done(sim: mmsb.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = sim.runtime().stream()
    with monkeypatch.context() as slow:  # the simulated device is done at once
        slow.setattr("mmsb.ticket._done", lambda _handle: False)
        keeps_arrays(sim, stream)
    left = bytearray(8)
    block = stream.allocate(8)
    stream.copy(left, block, 8)
    sim.close()
    with pytest.raises(mmsb.StaleHandleError):
        stream.copy(left, block, 8)


def keeps_arrays(sim: mmsb.Context, stream: mmsb.Stream) -> None:
    block = stream.allocate(1 << 20)
    page = sim.create_page(1 << 20)
    array = np.full(1 << 20, 3, "u1")
    gone = weakref.ref(array)
    stream.copy(block, array)
    stream.copy(page, block)
    del array
    assert gone() is not None and page.info().write_pins == 1
    with pytest.raises(mmsb.BusyError):
        page.destroy()
    with pytest.MonkeyPatch.context() as done:
        done.setattr("mmsb.ticket._done", lambda _handle: True)
        stream.wait(0)
    assert gone() is None and page.info().write_pins == 0
    assert page.read(0, 2) == b"\3\3"
    page.destroy()
    # A failed copy keeps nothing.
    array = np.full(8, 4, "u1")
    gone = weakref.ref(array)
    with pytest.raises(mmsb.OutOfRangeError):
        stream.copy(block, array, 9)
    del array
    assert gone() is None


def test_copies_come_behind_what_other_libraries_have_queued(sim: mmsb.Context) -> None:
    runtime = sim.runtime()
    stream, theirs = runtime.stream(), runtime.stream()
    waits = runtime.stats().waits
    block = theirs.allocate(64)
    theirs.fill(block, 5)
    got = bytearray(64)
    stream.copy(got, Array(block.address, 64, stream=theirs.native))
    assert runtime.stats().waits == waits + 1
    stream.after(theirs)
    stream.after(theirs.native)
    assert runtime.stats().waits == waits + 3
    with stream.record() as point:
        theirs.after(point)
    stream.wait()
    assert got == b"\5" * 64
    with pytest.raises(mmsb.InvalidHandleError):
        stream.after(99)
    with pytest.raises(TypeError):
        stream.after("a stream")


def test_what_cannot_be_copied(sim: mmsb.Context) -> None:
    stream = sim.runtime().stream()
    block, other = stream.allocate(24), stream.allocate(24)
    grid = np.zeros((4, 6), "u1")
    far = sim.create_page(24, location="gpu", device=1)
    columns = sim.create_page(24, location="gpu").view("uint8", (4, 6), strides=(1, 4))
    array = Array(block.address, 24)
    array.__cuda_array_interface__.update(shape=(4, 6), strides=(1, 4))
    for to, source, error, text in (
        (block, bytes(23), mmsb.MismatchError, "to has 24 bytes, source has 23"),
        (np.zeros(3, "<f8"), np.zeros(4, "<f8"), mmsb.MismatchError, "to has 24 bytes, source has 32"),
        (block.address, other.address, mmsb.InvalidArgumentError, "length is None"),
        (block, grid.T, mmsb.UnsupportedError, r"strides \(1, 6\) for the shape \(6, 4\)"),
        (block, columns, mmsb.UnsupportedError, r"strides \(1, 4\) for the shape \(4, 6\)"),
        (block, array, mmsb.UnsupportedError, r"strides \(1, 4\) for the shape \(4, 6\)"),
        (block, grid[:, ::2], mmsb.UnsupportedError, "within 23"),
        (bytes(24), block, mmsb.InvalidStateError, "the bytes's 24 bytes are read-only$"),
        (Array(block.address, 24, read_only=True), other, mmsb.InvalidStateError, "24 bytes are read-only$"),
        (block, Tensor(far.view()), mmsb.MismatchError, "lies on device 1, the stream's is 0"),
        (block, Array(other.address, 24, stream=99), mmsb.InvalidHandleError, "stream"),
        (block, np.array([None] * 3), TypeError, "objects"),
        (block, "text", TypeError, "str is no memory"),
        (block, None, TypeError, "NoneType is no memory"),
    ):
        with pytest.raises(error, match=text):
            stream.copy(to, source)
    with pytest.raises(mmsb.OutOfRangeError, match="length 25 reaches past the 24 bytes of source"):
        stream.copy(block.address, grid, 25)
    other.free()
    with pytest.raises(mmsb.ClosedError):
        stream.copy(block, other)


def test_blocks_are_arrays(sim: mmsb.Context) -> None:
    stream, other = sim.runtime().stream(), sim.runtime().stream()
    block = stream.allocate(96)
    stream.fill(block, 5)
    assert block.__dlpack_device__() == (2, 0)
    view = block.view("float32", (2, 3), offset=8, stream=other)
    assert view.source is block and view.address == block.address + 8
    assert "float32 (2, 3)" in repr(view)
    with pytest.raises(AttributeError):
        view.page  # noqa: B018
    found = view.__cuda_array_interface__
    assert (found["shape"], found["data"], found["stream"]) == ((2, 3), (block.address + 8, False), other.native)
    assert block.info().uses == 1
    # A consumer of DLPack names its stream, or none.
    for asked in (None, 1, -1, other.native):
        capsule = view.__dlpack__(stream=asked, max_version=(1, 0))
        assert block.info().uses == 2
        del capsule
        capsule = block.__dlpack__(stream=asked)
        del capsule
    with pytest.raises(mmsb.InvalidHandleError):
        view.__dlpack__(stream=99)
    with pytest.raises(mmsb.InvalidArgumentError):
        view.__dlpack__(stream=0)
    with pytest.raises(BufferError):
        view.__dlpack__(dl_device=(1, 0))
    with pytest.raises(AttributeError, match="cannot access"):
        np.asarray(block)
    with pytest.raises(mmsb.OutOfRangeError, match="96 bytes"):
        block.view("float32", (25,))
    # The memory stays while an array is there.
    assert block.free() is True
    assert sim.runtime().stats().pending == 96
    with pytest.raises(mmsb.ClosedError):
        block.view()
    del view
    sim.runtime().reap()
    assert sim.runtime().stats().pending == 0


def test_consumers_without_a_deleter_keep_a_block(sim: mmsb.Context) -> None:
    stream = sim.runtime().stream()
    block = stream.allocate(64)
    assert block.__cuda_array_interface__ == {
        "shape": (64,),
        "typestr": "|u1",
        "data": (block.address, False),
        "strides": None,
        "version": 3,
        "stream": stream.native,
    }
    assert block.info().uses == 1
    with stream.use((block, "write")):  # an array is no use: order is the program's
        stream.fill(block, 1)
    assert not hasattr(block, "__array_interface__")
    assert block.free() is True
    assert sim.runtime().stats().pending == 64
    del block  # a consumer has kept it until now
    sim.runtime().reap()
    assert sim.runtime().stats().pending == 0
    # Adopted, it is a page as long as the block is not freed.
    block = stream.allocate(64)
    page = sim.adopt(block)
    page.write(0, b"page")
    assert stream.read(block, 4) == b"page"
    assert block.free() is True
    page.destroy()
    sim.runtime().reap()
    assert sim.runtime().stats().pending == 0


def test_blocks_that_the_host_reaches(sim: mmsb.Context) -> None:
    for source, kind in (("pinned", 3), ("managed", 13)):
        runtime = sim.create_runtime(pool=f"source:{source}")
        stream = runtime.stream()
        block = stream.allocate(80)
        stream.fill(block, 1)
        assert block.__dlpack_device__() == (1 if source == "pinned" else kind, 0)
        assert block.view().__dlpack__(dl_device=(kind, 0)) is not None
        arrays = [np.from_dlpack(block), np.asarray(block), np.frombuffer(block.view().memory(), "u1")]
        arrays[0][:] = 2
        assert all(array.tolist() == [2] * 80 for array in arrays)
        numbers = np.from_dlpack(block.view("float64", (2, 5)))
        numbers[1, 4] = 0.5
        assert stream.read(block, 8, 72) == np.float64(0.5).tobytes()
        assert not np.asarray(block.view(write=False)).flags.writeable
        del arrays
        # The runtime ends, and its memory with the last array.
        assert block.free() is True
        del block
        runtime.close()
        numbers[:] = 7
        assert numbers.sum() == 70
        del numbers
    assert mmsb.debug_live_objects("tensor") == mmsb.debug_live_objects("block") == 0


def test_an_array_of_a_block_outlives_its_context() -> None:
    context = mmsb.Context(simulate="always")
    block = context.create_runtime(pool="source:pinned").stream().allocate(800)
    array = np.from_dlpack(block.view("float64"))
    context.close()
    array[:] = 1
    assert array.sum() == 100
    with pytest.raises(mmsb.StaleHandleError):
        block.view()
    del array
    assert mmsb.debug_live_objects("tensor") == 0


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
