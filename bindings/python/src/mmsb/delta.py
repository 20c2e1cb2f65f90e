"""Deltas: changes of a page's bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict, cast

from . import _abi, _ffi
from ._convert import (
    Buffer,
    BytesLike,
    BytesOrNumbers,
    Numbers,
    c_text,
    half_words,
    readable,
    unsigned,
    view_of,
    words,
)
from ._errors import MismatchError
from ._ffi import check, lib
from ._lease import when_dropped

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .page import Page


class About(TypedDict, total=False):
    """Optional fields of a delta; Delta describes them."""

    id: int
    page_id: int
    epoch: int
    timestamp_ns: int
    source: str | None
    intent: str | None


class Delta:
    """A change of a page's bytes, which can be applied to one page or to many.

    The class methods make the five kinds. Contiguous payloads, masks and offsets are not copied: they must not change while
    the delta is in use; copy.copy() and pickle copy them. All class methods take these keyword arguments:

    - id: a number that the caller chooses, 0 for none
    - page_id: id of the page that the delta applies to, 0 for any page
    - epoch: the page's epoch after the delta, 0 for the page's + 1
    - timestamp_ns: nanoseconds since 1970 UTC, 0 for now
    - source, intent: who made the change, and why
    """

    __slots__ = ("__weakref__", "_buffers", "_struct")

    _struct: _abi.Delta
    _buffers: tuple[object, ...]

    def __init__(self) -> None:
        raise TypeError("use Delta.dense, dense_bits, sparse, indexed, runs or from_pages")

    @classmethod
    def dense(
        cls,
        mask: BytesOrNumbers,
        payload: BytesOrNumbers,
        **about: Unpack[About],
    ) -> Delta:
        """mask has a byte for each byte of the page: where it is not 0, the page takes the payload's byte at the same offset."""
        flags = readable(mask)
        return _make("dense_bytes", flags.length, readable(payload), about, mask=flags, mask_length=flags.length)

    @classmethod
    def dense_bits(
        cls,
        mask: BytesLike,
        payload: BytesOrNumbers,
        *,
        length: int | None = None,
        **about: Unpack[About],
    ) -> Delta:
        """dense() with a bit for each byte: bit i % 8 of byte i // 8. length: number of bits, None for the payload's length."""
        data = readable(payload)
        bits, length = _bits(mask, data.length if length is None else length)
        return _make("dense_bits", length, data, about, mask=bits, mask_length=length)

    @classmethod
    def sparse(
        cls,
        mask: BytesLike,
        payload: BytesOrNumbers,
        *,
        length: int | None = None,
        **about: Unpack[About],
    ) -> Delta:
        """A mask of bits (or a NumPy array of bools) and only the changed bytes. length: number of bits, None for all."""
        bits, length = _bits(mask, length)
        return _make("sparse_bits", None, readable(payload), about, mask=bits, mask_length=length)

    @classmethod
    def indexed(
        cls,
        offsets: Numbers,
        values: BytesOrNumbers,
        **about: Unpack[About],
    ) -> Delta:
        """Writes values[i] to offsets[i]; of equal offsets the last wins. NumPy arrays of uint64 or uint32 are not copied."""
        short = half_words(offsets)
        if short is not None:
            count = short.length // 4
            return _make("indexed", count, readable(values), about, offsets32=short, count=count)
        wide = words(offsets, "offsets")
        count = wide.length // 8
        return _make("indexed", count, readable(values), about, offsets=wide, count=count)

    @classmethod
    def runs(
        cls,
        runs: Iterable[tuple[int, BytesLike]],
        **about: Unpack[About],
    ) -> Delta:
        """Pairs of an offset and the bytes to write there; where they overlap, the later pair wins."""
        pairs = [_pair(run) for run in runs]
        if len(pairs) == 1:
            payload = readable(pairs[0][1])
            lengths = [payload.length]
        else:
            pieces = [data if isinstance(data, bytes) else view_of(data).tobytes() for _, data in pairs]
            payload = Buffer(b"".join(pieces))
            lengths = [len(piece) for piece in pieces]
        table = [number for (offset, _), length in zip(pairs, lengths) for number in (offset, length)]
        return _make("runs", payload.length, payload, about, runs=words(table, "offsets"), count=len(pairs))

    @classmethod
    def from_pages(cls, old: Page, new: Page) -> Delta:
        """The delta that turns the bytes of old into those of new, a page of the same size."""
        from .page import page_handle

        result = ctypes.POINTER(_abi.Delta)()
        status = lib.mmsb_delta_from_pages(page_handle(old, "old"), page_handle(new, "new"), ctypes.byref(result))
        old._check_with(new, status)
        return _own(result)

    def merge(self, later: Delta) -> Delta:
        """This delta and then a later one of the same page, as one."""
        result = ctypes.POINTER(_abi.Delta)()
        check(lib.mmsb_delta_merge(self._struct, struct_of(later), ctypes.byref(result)))
        return _own(result)

    def convert(self, kind: str) -> Delta:
        """The same change as "dense_bytes", "dense_bits", "sparse_bits", "indexed" or "runs"."""
        number = _ffi.value_of(_abi.DELTA, kind, "kind")
        result = ctypes.POINTER(_abi.Delta)()
        check(lib.mmsb_delta_convert(self._struct, number, ctypes.byref(result)))
        return _own(result)

    def validate(self, page_size: int) -> None:
        """Raises the error that a page of page_size bytes would raise; epoch and page_id are not checked."""
        check(lib.mmsb_delta_validate(self._struct, unsigned(page_size, "page_size")))

    def changes(self) -> list[tuple[int, bytes]]:
        """The runs (offset, bytes) that the delta writes, in ascending order, without overlaps."""
        runs = self.convert("runs")
        plain = runs._struct
        table = (_abi.Run * plain.count).from_address(plain.runs) if plain.count else ()
        changes, taken = [], 0
        for run in table:
            changes.append((run.offset, ctypes.string_at(plain.payload + taken, run.length)))
            taken += run.length
        return changes

    def __reduce__(self) -> Any:
        """Copies, and what another process gets, have bytes of their own."""
        plain = self._struct
        sizes = {
            "mask": plain.mask_length if self.kind == "dense_bytes" else (plain.mask_length + 7) // 8,
            "offsets": plain.count * 8,
            "offsets32": plain.count * 4,
            "runs": plain.count * ctypes.sizeof(_abi.Run),
        }
        arrays = {name: ctypes.string_at(at, size) for name, size in sizes.items() if (at := getattr(plain, name))}
        payload = ctypes.string_at(plain.payload, plain.payload_length) if plain.payload_length else b""
        about = {name: getattr(self, name) for name in About.__annotations__}
        return _again, (self.kind, payload, about, arrays, plain.mask_length, plain.count)

    @property
    def kind(self) -> str:
        """The form: "dense_bytes", "dense_bits", "sparse_bits", "indexed" or "runs"."""
        return _ffi.name_of(_abi.DELTA, self._struct.kind)

    @property
    def id(self) -> int:
        """The number that the caller chose; 0 = none."""
        return int(self._struct.id)

    @property
    def page_id(self) -> int:
        """Id of the page that the delta applies to; 0 = any page."""
        return int(self._struct.page_id)

    @property
    def epoch(self) -> int:
        """The page's epoch after the delta; 0 = the page's + 1."""
        return int(self._struct.epoch)

    @property
    def timestamp_ns(self) -> int:
        """When it was made, in nanoseconds since 1970 UTC; 0 = when it is applied."""
        return int(self._struct.timestamp_ns)

    @property
    def source(self) -> str | None:
        """Who made the change."""
        return _text(self._struct.source)

    @property
    def intent(self) -> str | None:
        """Why the change was made."""
        return _text(self._struct.intent)

    @property
    def payload_length(self) -> int:
        """Length of the payload in bytes."""
        return int(self._struct.payload_length)

    def __repr__(self) -> str:
        return f"<mmsb.Delta {self.kind} payload={self.payload_length} epoch={self.epoch} page_id={self.page_id}>"


def _pair(run: tuple[int, BytesLike]) -> tuple[int, BytesLike]:
    try:
        offset, data = run
    except (TypeError, ValueError):
        raise TypeError(f"a run must be an offset and bytes, not {run!r:.100}") from None
    return offset, data


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _bits(mask: BytesLike, length: int | None) -> tuple[Buffer, int]:
    """A mask of bits and the number of bits; an array of bools is packed."""
    if view_of(mask).format == "?":
        import numpy

        flags = numpy.asarray(mask)
        bits, available = Buffer(numpy.packbits(flags.ravel(), bitorder="little")), flags.size
    else:
        bits = readable(mask)
        available = bits.length * 8
    if length is None:
        return bits, available
    length = unsigned(length, "length")
    if length > available:
        raise MismatchError(f"mask has {available} bits, {length} expected")
    return bits, length


def _make(
    kind: str,
    implied: int | None,
    data: Buffer,
    about: About,
    *,
    mask: Buffer | None = None,
    mask_length: int = 0,
    offsets: Buffer | None = None,
    offsets32: Buffer | None = None,
    runs: Buffer | None = None,
    count: int = 0,
) -> Delta:
    """A delta over Python's buffers; implied is the payload length, None if only the library can compute it."""
    if implied is None and data.length == 0 and mask is not None:
        whole = ctypes.string_at(mask.address, (mask_length + 7) // 8)
        implied = bin(int.from_bytes(whole, "little") & ((1 << mask_length) - 1)).count("1")
    if implied is not None and data.length != implied:
        raise MismatchError(f"payload is {data.length} bytes, {implied} expected")
    delta = object.__new__(Delta)
    delta._struct = _abi.Delta(
        struct_size=ctypes.sizeof(_abi.Delta),
        kind=_abi.DELTA[kind],
        mask=mask and mask.address,
        mask_length=mask_length,
        offsets=offsets and offsets.address,
        offsets32=offsets32 and offsets32.address,
        runs=runs and runs.address,
        count=count,
        payload=data.address,
        payload_length=data.length,
    )
    for name, value in about.items():
        if name in ("id", "page_id", "epoch", "timestamp_ns"):
            setattr(delta._struct, name, unsigned(cast("int", value), name))
        elif name not in ("source", "intent"):
            raise TypeError(f"Delta has no field {name!r}")
        elif value is not None:
            setattr(delta._struct, name, c_text(cast("str", value), name))
    delta._buffers = (data, mask, offsets, offsets32, runs)
    return delta


def _again(kind: str, payload: bytes, about: About, arrays: dict[str, bytes], mask_length: int, count: int) -> Delta:
    """A delta out of what Delta.__reduce__() gives."""
    buffers: dict[str, Any] = {name: Buffer(data) for name, data in arrays.items()}
    return _make(kind, len(payload), Buffer(payload), about, mask_length=mask_length, count=count, **buffers)


def _own(pointer: Any) -> Delta:
    """A delta that the library made; it is freed when the object is dropped."""
    delta = object.__new__(Delta)
    delta._struct = pointer.contents
    delta._buffers = (pointer,)
    when_dropped(delta, _free, pointer)
    return delta


def _free(pointer: Any) -> None:
    if not lib.forked:
        lib.mmsb_delta_free(pointer)


def struct_of(delta: Delta) -> _abi.Delta:
    """The library's struct of a delta; TypeError for anything else."""
    if not isinstance(delta, Delta):
        raise TypeError(f"delta must be a Delta, not {type(delta).__name__}")
    return delta._struct
