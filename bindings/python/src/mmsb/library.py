"""The library as a whole: versions, capabilities, memory, log."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from . import _abi
from ._convert import new_bytes, signed, unsigned, words
from ._ffi import as_record, check, lib, listed, sized, value_of


@dataclass(frozen=True)
class Capability:
    """Something that this process can do, or the reason why it cannot."""

    name: str
    available: bool
    reason: str


@dataclass(frozen=True)
class MemoryUsage:
    """Memory of the library in bytes, by purpose. mmsb_memory_usage_t describes each field."""

    page_bytes: int
    record_bytes: int
    mask_bytes: int
    metadata_bytes: int
    cache_bytes: int
    disk_bytes: int
    go_heap_bytes: int


class LogLines(NamedTuple):
    """Result of log_read: the lines, and the number of lines that were overwritten before they were read."""

    lines: list[str]
    lost: int


def version() -> str:
    """Release of the loaded library, like "0.1.0"."""
    text: bytes = lib.mmsb_version()
    return text.decode()


def abi_version() -> int:
    """ABI number of the loaded library."""
    number: int = lib.mmsb_abi_version()
    return number


def checksum_join(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32C of bytes that follow each other, from those of two parts: the second part has second_bytes bytes."""
    joined: int = lib.mmsb_checksum_join(unsigned(first, "first"), unsigned(second, "second"), unsigned(second_bytes, "bytes"))
    return joined


def prefetch_distance(latencies_ns: Iterable[int]) -> int:
    """How many unified pages to prefetch ahead, by the times that the last accesses took. See mmsb_prefetch_distance."""
    latencies = words(list(latencies_ns), "latencies_ns")
    distance = ctypes.c_uint32()
    check(lib.mmsb_prefetch_distance(latencies.address, latencies.length // 8, distance))
    return distance.value


def build_info() -> str:
    """One line on how the loaded library was built: compilers, instruction sets, CUDA architectures."""
    text: bytes = lib.mmsb_build_info()
    return text.decode()


def capabilities() -> dict[str, Capability]:
    """What this process can do, by the name of the capability."""
    found = [
        Capability(raw.name.decode(), bool(raw.available), raw.reason.decode("utf-8", "replace"))
        for raw in listed(_abi.Capability, lib.mmsb_capabilities)
    ]
    return {capability.name: capability for capability in found}


def memory_usage() -> MemoryUsage:
    """Memory of the whole library, by purpose."""
    raw = sized(_abi.MemoryUsage)
    check(lib.mmsb_memory_usage(raw))
    return as_record(MemoryUsage, raw)


def log_configure(level: str, descriptor: int | None = None) -> None:
    """Sets the log level, "off", "error", "warning", "info" or "debug", and a file descriptor to which lines are written, too.

    The descriptor stays the caller's and must stay open until another call replaces it.
    """
    number = value_of(_abi.LOG, level, "level")
    check(lib.mmsb_log_configure(number, -1 if descriptor is None else signed(descriptor, "descriptor")))


def log_read() -> LogLines:
    """Removes all lines from the log and returns them."""
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
    """Number of live objects of a kind in the process, for leak checks: "page", "context", "ticket", "delta", "snapshot", …"""
    count = ctypes.c_uint64()
    check(lib.mmsb_debug_live_objects(value_of(_abi.KIND, kind, "kind"), count))
    return count.value


def shutdown() -> None:
    """Ends every context, runtime, ticket and open snapshot of the process. Not needed before exit."""
    check(lib.mmsb_shutdown())
