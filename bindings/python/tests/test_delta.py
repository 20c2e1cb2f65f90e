from __future__ import annotations

import array
import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import mmsb
import numpy as np
import pytest
from numpy.typing import NDArray

KINDS = ("dense_bytes", "dense_bits", "sparse_bits", "indexed", "runs")


def bits(*offsets: int, length: int = 8) -> bytes:
    return sum(1 << offset for offset in offsets).to_bytes((length + 7) // 8, "little")


def misaligned(dtype: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    """7 and 3 at an odd address."""
    return np.frombuffer(b"x" + np.array([7, 3], dtype=dtype).tobytes(), dtype=dtype, offset=1)


def same_change() -> dict[str, mmsb.Delta]:
    """Bytes 1, 2 and 9 of at least 10 become a, b and c, in every form."""
    payload = b"\0ab\0\0\0\0\0\0c"
    return {
        "dense_bytes": mmsb.Delta.dense([0, 1, 1, 0, 0, 0, 0, 0, 0, 1], payload),
        "dense_bits": mmsb.Delta.dense_bits(bits(1, 2, 9, length=10), payload),
        "sparse_bits": mmsb.Delta.sparse(bits(1, 2, 9, length=10), b"abc", length=10),
        "indexed": mmsb.Delta.indexed([9, 1, 2], b"cab"),
        "runs": mmsb.Delta.runs([(9, b"c"), (1, b"ab")]),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_the_same_bytes(ctx: mmsb.Context, kind: str) -> None:
    delta = same_change()[kind]
    assert delta.kind == kind
    page = ctx.create_page(12)
    version = page.version
    page.apply(delta)
    assert page.read() == b"\0ab\0\0\0\0\0\0c\0\0"
    assert np.flatnonzero(page.mask).tolist() == [1, 2, 9]
    assert page.epoch == 1
    assert page.version > version
    assert delta.changes() == [(1, b"ab"), (9, b"c")]
    delta.validate(10)
    with pytest.raises(mmsb.OutOfRangeError):
        delta.validate(9)
    small = ctx.create_page(9)
    with pytest.raises(mmsb.OutOfRangeError):
        small.apply(delta)
    assert (small.read(), small.epoch, small.mask_count()) == (bytes(9), 0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_conversions(kind: str, other: str) -> None:
    delta = same_change()[kind]
    converted = delta.convert(other)
    assert converted.kind == other
    assert converted.changes() == delta.changes()
    del delta
    gc.collect()
    assert converted.changes() == [(1, b"ab"), (9, b"c")]
    assert mmsb.debug_live_objects("delta") == 1


def test_library_deltas_are_given_back() -> None:
    delta = mmsb.Delta.runs([(0, b"x")])
    assert mmsb.debug_live_objects("delta") == 0
    made = [delta.convert("indexed") for _ in range(10)]
    assert mmsb.debug_live_objects("delta") == 10
    del made
    gc.collect()
    assert mmsb.debug_live_objects("delta") == 0
    with pytest.raises(mmsb.InvalidArgumentError):
        delta.convert("no such kind")


def test_what_a_delta_says_about_itself(ctx: mmsb.Context) -> None:
    page = ctx.create_page(10, id=5)
    delta = mmsb.Delta.runs([(0, b"ab")], id=3, page_id=5, epoch=7, timestamp_ns=11, source="me ✓", intent="why")
    assert (delta.id, delta.page_id, delta.epoch, delta.timestamp_ns) == (3, 5, 7, 11)
    assert (delta.source, delta.intent, delta.payload_length) == ("me ✓", "why", 2)
    assert "runs" in repr(delta)
    plain = mmsb.Delta.dense(b"\1", b"x")
    assert (plain.id, plain.page_id, plain.epoch, plain.timestamp_ns, plain.source, plain.intent) == (0, 0, 0, 0, None, None)
    converted = delta.convert("indexed")
    assert (converted.id, converted.page_id, converted.epoch, converted.source) == (3, 5, 7, "me ✓")
    page.apply(delta)
    assert page.epoch == 7
    with pytest.raises(mmsb.EpochError):
        page.apply(delta)
    with pytest.raises(mmsb.MismatchError):
        ctx.create_page(10, id=6).apply(delta)
    assert page.epoch == 7
    with pytest.raises(TypeError):
        mmsb.Delta()


def test_merge() -> None:
    first = mmsb.Delta.runs([(0, b"aaaa")], epoch=5, timestamp_ns=20, source="first", id=1, page_id=9)
    second = mmsb.Delta.runs([(2, b"bb"), (8, b"c")], epoch=4, timestamp_ns=30, source="second", id=2)
    merged = first.merge(second)
    assert merged.kind == "runs"
    assert b"".join(data for _, data in merged.changes()) == b"aabbc"
    assert (merged.epoch, merged.timestamp_ns, merged.source, merged.id, merged.page_id) == (5, 30, "second", 2, 9)
    assert first.merge(mmsb.Delta.indexed([3], b"z")).merge(second).changes()[0] == (0, b"aabb")
    with pytest.raises(mmsb.MismatchError):
        first.merge(mmsb.Delta.runs([(0, b"x")], page_id=10))
    with pytest.raises(TypeError):
        first.merge(b"no delta")  # type: ignore[arg-type]


def test_from_pages(ctx: mmsb.Context) -> None:
    old, new = ctx.create_page(1000), ctx.create_page(1000)
    new.write(100, b"abc")
    new.write(999, b"z")
    delta = mmsb.Delta.from_pages(old, new)
    assert delta.page_id == old.id
    old.apply(delta)
    assert old.read() == new.read()
    assert mmsb.Delta.from_pages(old, new).changes() == []
    with pytest.raises(mmsb.MismatchError):
        mmsb.Delta.from_pages(old, ctx.create_page(5))
    new.destroy()
    with pytest.raises(mmsb.StaleHandleError):
        mmsb.Delta.from_pages(old, new)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mmsb.Delta.dense(b"\1\1", b"x"),
        lambda: mmsb.Delta.dense(b"\1\1", b""),
        lambda: mmsb.Delta.dense(b"", b"x"),
        lambda: mmsb.Delta.dense_bits(b"\1", b"x" * 9),
        lambda: mmsb.Delta.dense_bits(b"\1", b"x", length=8),
        lambda: mmsb.Delta.sparse(b"\3", b""),
        lambda: mmsb.Delta.sparse(b"\3", b"xx", length=9),
        lambda: mmsb.Delta.sparse(np.ones(3, dtype=bool), b"xxx", length=4),
        lambda: mmsb.Delta.indexed([1, 2], b"x"),
        lambda: mmsb.Delta.indexed([1], b""),
        lambda: mmsb.Delta.indexed([], b"x"),
        lambda: mmsb.Delta.indexed(np.array([1, 2], dtype=np.uint32), b"x"),
    ],
)
def test_parts_that_do_not_fit(make: Callable[[], mmsb.Delta]) -> None:
    with pytest.raises(mmsb.MismatchError) as caught:
        make()
    assert isinstance(caught.value, ValueError)


def test_a_sparse_payload_that_does_not_fit_the_mask(ctx: mmsb.Context) -> None:
    page = ctx.create_page(8)
    for payload in (b"x", b"xxx"):
        with pytest.raises(mmsb.MismatchError):
            page.apply(mmsb.Delta.sparse(b"\3", payload))
    assert (page.read(), page.epoch) == (bytes(8), 0)
    # Bits past length do not count.
    page.apply(mmsb.Delta.sparse(b"\xf3", b"xy", length=4))
    assert page.read() == b"xy\0\0\0\0\0\0"
    page.apply(mmsb.Delta.sparse(b"\xf0", b"", length=4))
    assert page.epoch == 2


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: mmsb.Delta.runs([(-1, b"x")]), mmsb.OutOfRangeError),
        (lambda: mmsb.Delta.runs([(2**64, b"x")]), mmsb.OutOfRangeError),
        (lambda: mmsb.Delta.runs([("0", b"x")]), TypeError),  # type: ignore[list-item]
        (lambda: mmsb.Delta.runs([(0, "x")]), TypeError),  # type: ignore[list-item]
        (lambda: mmsb.Delta.runs([(0, b"x"), (1, "x")]), TypeError),  # type: ignore[list-item]
        (lambda: mmsb.Delta.indexed([-1], b"x"), mmsb.OutOfRangeError),
        (lambda: mmsb.Delta.indexed([1.0], b"x"), TypeError),  # type: ignore[list-item]
        (lambda: mmsb.Delta.indexed(np.array([1.0]), b"x"), TypeError),
        (lambda: mmsb.Delta.indexed(np.array([-1]), b"x"), mmsb.OutOfRangeError),
        (lambda: mmsb.Delta.indexed([1], "x"), TypeError),  # type: ignore[arg-type]
        (lambda: mmsb.Delta.dense("x", b"x"), TypeError),  # type: ignore[arg-type]
        (lambda: mmsb.Delta.runs([(0, b"x")], id=-1), mmsb.InvalidArgumentError),
        (lambda: mmsb.Delta.runs([(0, b"x")], epoch=2**64), mmsb.InvalidArgumentError),
        (lambda: mmsb.Delta.runs([(0, b"x")], source="a\0b"), mmsb.InvalidArgumentError),
        (lambda: mmsb.Delta.runs([(0, b"x")], source="\udcff"), mmsb.InvalidArgumentError),
        (lambda: mmsb.Delta.runs([(0, b"x")], intent=5), TypeError),  # type: ignore[arg-type]
        (lambda: mmsb.Delta.runs([(0, b"x")], colour="red"), TypeError),  # type: ignore[call-arg]
    ],
)
def test_bad_deltas(make: Callable[[], mmsb.Delta], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    "offsets",
    [
        [7, 3],
        (7, 3),
        np.array([7, 3], dtype=np.uint64),
        np.array([7, 3], dtype=np.uint32),
        np.array([7, 3], dtype=np.int64),
        np.array([7, 3], dtype=np.uint8),
        np.array([7, 0, 3, 0], dtype=np.uint64)[::2],
        misaligned(np.uint64),
        misaligned(np.uint32),
        array.array("Q", [7, 3]),
        array.array("i", [7, 3]),
        iter([7, 3]),
    ],
    ids=lambda offsets: f"{type(offsets).__name__} {getattr(offsets, 'dtype', '')}",
)
def test_offsets_of_many_types(ctx: mmsb.Context, offsets: list[int]) -> None:
    page = ctx.create_page(8)
    page.apply(mmsb.Delta.indexed(offsets, b"ab"))
    assert page.read() == b"\0\0\0b\0\0\0a"


def test_masks_of_bools(ctx: mmsb.Context) -> None:
    mask = np.zeros(20, dtype=bool)
    mask[[3, 17]] = True
    for delta in (
        mmsb.Delta.dense(mask, np.arange(20, dtype=np.uint8)),
        mmsb.Delta.dense_bits(mask, np.arange(20, dtype=np.uint8)),
        mmsb.Delta.sparse(mask, b"\x03\x11"),
    ):
        page = ctx.create_page(20)
        page.apply(delta)
        assert np.flatnonzero(page.mask).tolist() == [3, 17]
        assert (page[3], page[17]) == (3, 17)


def test_large_arrays_are_used_where_they_lie(ctx: mmsb.Context) -> None:
    offsets = np.arange(0, 1000, 2, dtype=np.uint64)
    values = np.zeros(500, dtype=np.uint8)
    delta = mmsb.Delta.indexed(offsets, values)
    values[:] = 5
    offsets += np.uint64(1)
    page = ctx.create_page(1000)
    page.apply(delta)
    assert page.read() == b"\0\5" * 500
    # The delta keeps what it points to.
    del values, offsets
    gc.collect()
    page.apply(delta)
    assert page.epoch == 2


def test_empty_deltas_move_the_epoch(ctx: mmsb.Context) -> None:
    page = ctx.create_page(4)
    for delta in (
        mmsb.Delta.runs([]),
        mmsb.Delta.runs([(0, b"")]),
        mmsb.Delta.indexed([], b""),
        mmsb.Delta.dense(b"", b""),
        mmsb.Delta.dense(b"\0\0", b"ab"),
        mmsb.Delta.sparse(b"\0", b"", length=4),
    ):
        epoch = page.epoch
        page.apply(delta)
        assert page.epoch == epoch + 1
    assert (page.read(), page.mask_count()) == (bytes(4), 0)


def test_overlapping_runs_and_equal_offsets(ctx: mmsb.Context) -> None:
    page = ctx.create_page(6)
    page.apply(mmsb.Delta.runs([(0, b"aaaa"), (2, b"bbb"), (3, b"c")]))
    assert page.read() == b"aabcb\0"
    page.apply(mmsb.Delta.indexed([0, 0, 0], b"xyz"))
    assert page[0] == ord("z")


def copies(delta: mmsb.Delta) -> list[mmsb.Delta]:
    return [copy.copy(delta), copy.deepcopy(delta), pickle.loads(pickle.dumps(delta))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_bytes_of_its_own(ctx: mmsb.Context, kind: str) -> None:
    made = same_change()[kind]
    for delta in (made, made.convert("runs").convert(kind), mmsb.Delta.indexed(np.array([9, 1, 2], dtype=np.uint32), b"cab")):
        again = copies(delta)
        assert [other.kind for other in again] == [delta.kind] * 3
        del delta
        gc.collect()
        for other in again:
            page = ctx.create_page(12)
            page.apply(other)
            assert page.read() == b"\0ab\0\0\0\0\0\0c\0\0"


def test_a_copy_has_what_is_said_about_a_delta() -> None:
    source = bytearray(b"abc")
    delta = mmsb.Delta.runs([(1, source)], id=1, page_id=2, epoch=3, timestamp_ns=4, source="größe", intent="why")
    again = copies(delta)
    source[:] = b"xyz"
    for other in again:
        assert (other.id, other.page_id, other.epoch, other.timestamp_ns) == (1, 2, 3, 4)
        assert (other.source, other.intent, other.changes()) == ("größe", "why", [(1, b"abc")])
    for empty in copies(mmsb.Delta.runs([])):
        assert (empty.source, empty.changes()) == (None, [])
