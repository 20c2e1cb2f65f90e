from __future__ import annotations

import array

import mmsb
import numpy as np
import pytest


def test_a_new_page(ctx: mmsb.Context) -> None:
    page = ctx.create_page(5000, id=99)
    assert page.id == 99
    assert page.size == len(page) == 5000
    assert page.epoch == 0
    assert page.version > 0
    assert page.location == "cpu"
    assert page.device == 0
    assert page.address is not None
    assert page.address % 4096 == 0
    assert page.context is ctx
    assert page.handle >> 60 == 1
    assert page.read() == bytes(page) == bytes(5000)
    info = page.info()
    assert isinstance(info, mmsb.PageInfo)
    assert (info.id, info.size, info.location, info.device, info.epoch) == (99, 5000, "cpu", 0, 0)
    assert (info.read_pins, info.write_pins, info.metadata_count) == (0, 0, 0)
    assert (info.simulated, info.adopted, info.read_only) == (False, False, False)
    assert info.numa_node == -1
    assert info.version == page.version
    assert repr(page) == "<mmsb.Page 99 cpu size=5000 epoch=0>"
    assert ctx.info_many([page, page])[1].id == 99
    assert ctx.create_page(10, zeroed=False).size == 10


def test_equality_is_by_page(ctx: mmsb.Context) -> None:
    page, other = ctx.create_page(1), ctx.create_page(1)
    assert page == ctx.page(page.id)
    assert hash(page) == hash(ctx.page(page.id))
    assert page != other
    assert page != page.handle
    assert bool(page)


@pytest.mark.parametrize("size", [0, -1, 2**63, 2**64 - 1, 2**64, 2**64 + 5])
def test_bad_sizes(ctx: mmsb.Context, size: int) -> None:
    with pytest.raises((mmsb.InvalidSizeError, mmsb.OutOfMemoryError)):
        ctx.create_page(size)
    page = ctx.create_page(10)
    with pytest.raises((mmsb.InvalidSizeError, mmsb.OutOfMemoryError)):
        page.resize(size)
    with pytest.raises((mmsb.InvalidSizeError, mmsb.OutOfMemoryError)):
        ctx.create_pages(2, size)
    assert page.size == 10
    assert len(ctx) == 1


def test_bad_arguments_of_create(ctx: mmsb.Context) -> None:
    ctx.create_page(10, id=5)
    with pytest.raises(mmsb.AlreadyExistsError):
        ctx.create_page(10, id=5)
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.create_page(10, id=-5)
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.create_page(10, location="moon")
    with pytest.raises(mmsb.MMSBError):
        ctx.create_page(10, location="cpu", device=3)
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.create_pages(-1, 10)
    with pytest.raises(MemoryError):
        ctx.create_pages(2**62, 10)
    for bad in ("10", 10.0, None):
        with pytest.raises(TypeError):
            ctx.create_page(bad)  # type: ignore[arg-type]
    assert len(ctx) == 1


def test_reading_and_writing(ctx: mmsb.Context) -> None:
    page = ctx.create_page(100)
    version = page.version
    page.write(10, b"abc")
    page.write(20, bytearray(b"de"))
    page.write(30, memoryview(b"xfghx")[1:4])
    page.write(40, np.array([1, 2], dtype=np.uint16))
    page.write(50, np.arange(8, dtype=np.uint8)[::2])
    page.write(60, [1, 2, 3])
    assert page.read(10, 3) == b"abc"
    assert page.read(20, 2) == b"de"
    assert page.read(30, 3) == b"fgh"
    assert page.read(40, 4) == b"\1\0\2\0"
    assert page.read(50, 4) == b"\0\2\4\6"
    assert page.read(60, 3) == b"\1\2\3"
    assert page.read(97) == bytes(3)
    assert page.read(100) == page.read(100, 0) == b""
    assert page.version > version
    assert page.epoch == 0
    assert page.mask_count() == 0
    buffer = bytearray(5)
    assert page.read_into(9, buffer) == 5
    assert buffer == b"\0abc\0"
    numbers = array.array("I", [0])
    page.read_into(40, numbers)
    assert numbers[0] == 0x20001


def test_out_of_range(ctx: mmsb.Context) -> None:
    page = ctx.create_page(100)
    for offset, length in [(100, 1), (0, 101), (101, 0), (2**63, 1), (2**64 - 1, 2), (-1, 1), (0, -1), (0, 2**62), (2**64, 0)]:
        with pytest.raises(mmsb.OutOfRangeError) as caught:
            page.read(offset, length)
        assert isinstance(caught.value, IndexError)
        with pytest.raises(mmsb.OutOfRangeError):
            page.mask_bits(offset, length)
    for offset, data in [(100, b"x"), (98, b"abc"), (-1, b"x"), (2**64, b"x")]:
        with pytest.raises(mmsb.OutOfRangeError):
            page.write(offset, data)
        with pytest.raises(mmsb.OutOfRangeError):
            page.read_into(offset, bytearray(len(data)))
    assert page.read() == bytes(100)


def test_wrong_types(ctx: mmsb.Context) -> None:
    page = ctx.create_page(100)
    for data in ("text", 5, None, [1.5], object()):
        with pytest.raises(TypeError):
            page.write(0, data)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="256"):
        page.write(0, [256])
    with pytest.raises(BufferError):
        page.read_into(0, b"constant")
    with pytest.raises((BufferError, ValueError)):
        page.read_into(0, np.zeros(10, dtype=np.uint8)[::2])
    with pytest.raises(TypeError):
        page.apply(b"delta")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        page.migrate(4)  # type: ignore[arg-type]
    assert page.read() == bytes(100)


def test_slices(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    page[:] = b"0123456789"
    assert page[2:5] == b"234"
    assert page[-3:] == b"789"
    assert page[:-8] == b"01"
    assert page[5:2] == b""
    assert page[8:1000] == b"89"
    assert page[3] == ord("3")
    assert page[-1] == ord("9")
    assert [page[0], page[1]] == [48, 49]
    page[0:2] = b"ab"
    page[-2:] = [120, 121]
    page[4] = 0
    assert page[:] == b"ab23\x00567xy"
    for data in (b"", b"a", b"abc"):
        with pytest.raises(mmsb.MismatchError):
            page[0:2] = data
    for step in (2, -1):
        with pytest.raises(mmsb.InvalidArgumentError):
            page[::step]
        with pytest.raises(mmsb.InvalidArgumentError):
            page[::step] = b"01234"
    for index in (10, -11):
        with pytest.raises(mmsb.OutOfRangeError):
            page[index]
        with pytest.raises(mmsb.OutOfRangeError):
            page[index] = 1
    with pytest.raises(ValueError, match="256"):
        page[0] = 256
    with pytest.raises((TypeError, AttributeError)):
        page["0"]  # type: ignore[call-overload]
    assert page[:] == b"ab23\x00567xy"


def test_resize(ctx: mmsb.Context) -> None:
    page = ctx.create_page(4)
    page.apply(mmsb.Delta.runs([(0, b"abcd")]))
    page.resize(10_000)
    assert page.size == 10_000
    assert page.read() == b"abcd" + bytes(9996)
    assert page.mask_count() == 4
    page.resize(2)
    assert page.read() == b"ab"
    assert page.mask_count() == 2


def test_clone(ctx: mmsb.Context) -> None:
    page = ctx.create_page(4)
    page.apply(mmsb.Delta.runs([(0, b"abcd")], epoch=9))
    page.metadata["key"] = b"value"
    clone = page.clone(id=77)
    assert clone.id == 77
    assert (clone.read(), clone.epoch, clone.mask_count(), dict(clone.metadata)) == (b"abcd", 9, 4, {"key": b"value"})
    clone[0] = 0
    assert page[0] == ord("a")
    assert page.clone().id not in (page.id, 77)
    with pytest.raises(mmsb.AlreadyExistsError):
        page.clone(id=77)


def test_migrate_to_disk_and_back(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10_000)
    page.apply(mmsb.Delta.runs([(5000, b"abcd")]))
    number = page.id
    page.migrate("disk")
    assert page.location == "disk"
    assert page.address is None
    assert page[5000:5004] == b"abcd"
    page.apply(mmsb.Delta.runs([(0, b"xy")]))
    page.write(9998, b"zz")
    with page.pin() as view:
        assert view[:2].tobytes() == b"xy"
        assert page.address is not None
    page.migrate("disk")
    page.migrate("cpu")
    assert (page.location, page.id, page.epoch, page.mask_count()) == ("cpu", number, 2, 6)
    assert page.read() == b"xy" + bytes(4998) + b"abcd" + bytes(4994) + b"zz"
    with pytest.raises(mmsb.InvalidArgumentError):
        page.migrate("moon")
    with pytest.raises(mmsb.InvalidArgumentError):
        page.migrate("cpu", device=2**40)


def test_destroyed_pages_are_stale(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10)
    page.destroy()
    for use in (page.destroy, page.info, page.read, lambda: page.epoch, lambda: page.version, lambda: page.address):
        with pytest.raises(mmsb.StaleHandleError) as caught:
            use()
        assert not isinstance(caught.value, mmsb.ClosedError)
    assert "StaleHandleError" in repr(page)
    assert len(ctx) == 0


def test_handles_that_are_none(ctx: mmsb.Context) -> None:
    for handle in (0, 12345, ctx.handle, 2**64 - 1):
        with pytest.raises(mmsb.InvalidHandleError):
            mmsb.Page(ctx, handle).info()
        with pytest.raises(mmsb.InvalidHandleError):
            _ = mmsb.Page(ctx, handle).size


def test_change_mask(ctx: mmsb.Context) -> None:
    page = ctx.create_page(20)
    assert page.mask.dtype == np.bool_
    assert page.mask.tolist() == [False] * 20
    page.apply(mmsb.Delta.indexed([1, 9, 19], b"abc"))
    assert np.flatnonzero(page.mask).tolist() == [1, 9, 19]
    assert page.mask_bits() == bytes([0b10, 0b10, 0b1000])
    assert page.mask_bits(9, 2) == b"\x01"
    assert page.mask_count() == 3
    page.mask_clear()
    assert page.mask_count() == 0
    assert not page.mask.any()


def test_dependencies(ctx: mmsb.Context) -> None:
    a, b, c = ctx.create_pages(3, 16)
    assert len(a.parents()) == len(a.children()) == len(ctx.dependency_order()) == 0
    ctx.add_dependency(a, b)
    ctx.add_dependency(b, c)
    ctx.add_dependency(a, c)
    assert list(c.parents()) == [b, a]
    assert list(a.children()) == [b, c]
    assert list(ctx.dependency_order()) == [a, b, c]
    with pytest.raises(mmsb.InvalidArgumentError, match=str(a.id)):
        ctx.add_dependency(c, a)
    with pytest.raises(mmsb.InvalidArgumentError):
        ctx.add_dependency(a, a)
    with pytest.raises(mmsb.AlreadyExistsError):
        ctx.add_dependency(a, b)
    ctx.remove_dependency(a, c)
    with pytest.raises(mmsb.NotFoundError):
        ctx.remove_dependency(a, c)
    assert list(c.parents()) == [b]
    with mmsb.Context() as other, pytest.raises(mmsb.MismatchError):
        ctx.add_dependency(a, other.create_page(1))
    b.destroy()
    assert len(ctx.dependency_order()) == 0


def test_many_dependencies(ctx: mmsb.Context) -> None:
    parent, *children = ctx.create_pages(501, 1)
    for child in children:
        ctx.add_dependency(parent, child)
    assert list(parent.children()) == children
    assert ctx.dependency_order()[0] == parent
    assert len(ctx.dependency_order()) == 501


def test_the_simulated_device_warns_once(ctx: mmsb.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    from mmsb import page as module

    monkeypatch.setattr(module, "_warned", False)
    raw = ctx.create_page(1)._raw_info()
    assert not module.page_info(raw).simulated
    raw.simulated = 1
    with pytest.warns(mmsb.SimulatedDeviceWarning, match="simulated"):
        assert module.page_info(raw).simulated
    # Warnings are errors in these tests.
    module.page_info(raw)
