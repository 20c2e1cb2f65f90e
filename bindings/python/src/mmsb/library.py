"""The library as a whole: versions, capabilities, memory, log."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import NamedTuple

from . import _abi
from ._convert import new_bytes, signed
from ._ffi import check, lib, value_of


@dataclass(frozen=True)
class Capability:
    """Something that this process can do, or cannot for the reason given."""

    name: str
    available: bool
    reason: str


@dataclass(frozen=True)
class MemoryUsage:
    """Bytes by purpose."""

    page_bytes: int
    record_bytes: int
    mask_bytes: int
    metadata_bytes: int
    cache_bytes: int
    disk_bytes: int
    go_heap_bytes: int


class LogLines(NamedTuple):
    """What log_read took: the lines, and how many were overwritten before."""

    lines: list[str]
    lost: int


def version() -> str:
    """Release of the loaded library."""
    text: bytes = lib.mmsb_version()
    return text.decode()


def abi_version() -> int:
    """ABI of the loaded library."""
    number: int = lib.mmsb_abi_version()
    return number


def build_info() -> str:
    """How the loaded library was built."""
    text: bytes = lib.mmsb_build_info()
    return text.decode()


def capabilities() -> dict[str, Capability]:
    """What this process can do, by name."""
    count = ctypes.c_size_t()
    check(lib.mmsb_capabilities(None, 0, count))
    records = (_abi.Capability * count.value)()
    check(lib.mmsb_capabilities(records, len(records), count))
    found = [
        Capability(record.name.decode(), bool(record.available), record.reason.decode("utf-8", "replace"))
        for record in records[: count.value]
    ]
    return {capability.name: capability for capability in found}


def memory_usage() -> MemoryUsage:
    """Memory of the whole library."""
    raw = _abi.MemoryUsage(struct_size=ctypes.sizeof(_abi.MemoryUsage))
    check(lib.mmsb_memory_usage(raw))
    return MemoryUsage(**{name: getattr(raw, name) for name in MemoryUsage.__dataclass_fields__})


def log_configure(level: str, descriptor: int | None = None) -> None:
    """What is logged: "off", "error", "warning", "info" or "debug"; and a file descriptor that takes the lines as well.

    The descriptor stays the caller's and must stay open until it is replaced.
    """
    number = value_of(_abi.LOG, level, "level")
    check(lib.mmsb_log_configure(number, -1 if descriptor is None else signed(descriptor, "descriptor")))


def log_read() -> LogLines:
    """Takes all lines out of the log."""
    length, lost_now = ctypes.c_size_t(), ctypes.c_uint64()
    text, lost, capacity = b"", 0, 65536
    while True:
        buffer = new_bytes(capacity)
        status = lib.mmsb_log_read(buffer, capacity, length, lost_now)
        if status == _abi.E_OUT_OF_RANGE and length.value > capacity:
            capacity = length.value
            continue
        check(status)
        lost += lost_now.value
        if not length.value:
            return LogLines(text.decode("utf-8", "replace").splitlines(), lost)
        text += buffer[: length.value]


def debug_live_objects(kind: str) -> int:
    """Live objects of a kind ("page", "context", "ticket", "delta", "memory", "snapshot") in the process, for leak checks."""
    count = ctypes.c_uint64()
    check(lib.mmsb_debug_live_objects(value_of(_abi.KIND, kind, "kind"), count))
    return count.value


def shutdown() -> None:
    """Ends every context and ticket of the process. Not needed before exit."""
    check(lib.mmsb_shutdown())
