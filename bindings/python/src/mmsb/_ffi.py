"""The C interface as mmsb.h has it: constants, structs, one table of functions, and the library behind them.

Names are those of the header without the prefix MMSB_ or mmsb_. Tests compare all of it with the header.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from ctypes import POINTER, c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from . import _errors
from ._errors import ForkedError, MMSBError, error_for

ABI_VERSION = 0

OK = 0
E_STALE_HANDLE = 12
E_OUT_OF_RANGE = 14
E_INVALID_STATE = 15
E_NOT_FOUND = 20
E_WOULD_BLOCK = 23
E_TIMEOUT = 24
E_UNSUPPORTED = 40

PIN_READ = 1
PIN_WRITE = 2
PAGE_ZEROED = 0
PAGE_UNINITIALISED = 1
WAIT_FOREVER = 2**64 - 1
DOMAIN_ERRNO = 1

KINDS = {
    "page": 1,
    "context": 2,
    "ticket": 3,
    "delta": 4,
    "memory": 5,
    "snapshot": 6,
    "stream": 7,
    "block": 8,
    "use": 9,
    "runtime": 11,
    "reservation": 12,
}
LOCATIONS = {"cpu": 0, "gpu": 1, "unified": 2, "pinned": 3, "disk": 4}
SIMULATE = {"off": 0, "if-no-gpu": 1, "always": 2}
FALLBACK = {"error": 0, "host": 1}
DOMAINS = {"errno": 1, "cuda": 2, "nccl": 3, "nixl": 4}
LOG_LEVELS = {"off": 0, "error": 1, "warning": 2, "info": 3, "debug": 4}
COMPRESSION = {"none": 0, "zstd": 1}
RAW_WRITES = {"allow": 0, "refuse": 1}
LOAD = {"eager": 0, "lazy": 1}
CHANGE = {"added": 1, "removed": 2, "bytes": 3, "other": 4}
DURABILITY = {"interval": 0, "call": 1, "none": 2}
ACCESS = {"read": 1, "write": 2, "read_write": 3}
DELTA_KINDS = {"dense_bytes": 1, "dense_bits": 2, "sparse_bits": 3, "indexed": 4, "runs": 5}

ReleaseFunction = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)
RefusedFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint32, c_int32)


class ErrorDetail(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("code", c_int32),
        ("domain", c_int32),
        ("foreign_code", c_int32),
        ("text", c_char * 512),
        ("reserved", c_uint64 * 4),
    )


class Capability(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("available", c_int32),
        ("name", c_char * 32),
        ("reason", c_char * 216),
    )


class ContextOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("default_location", c_int32),
        ("default_device", c_int32),
        ("simulate", c_int32),
        ("simulated_devices", c_int32),
        ("fallback", c_int32),
        ("simulated_memory", c_uint64),
        ("memory_limit", c_uint64),
        ("disk_path", c_char_p),
        ("huge_pages", c_int32),
        ("reserved_word", c_int32),
        ("reserved", c_uint64 * 8),
    )


class ContextStats(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("reserved_word", c_uint32),
        ("pages", c_uint64),
        ("bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("pinned_pages", c_uint64),
        ("memory_used", c_uint64),
        ("memory_limit", c_uint64),
        ("disk_used", c_uint64),
        ("location_pages", c_uint64 * 8),
        ("location_bytes", c_uint64 * 8),
        ("reserved", c_uint64 * 8),
    )


class MemoryUsage(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("reserved_word", c_uint32),
        ("page_bytes", c_uint64),
        ("record_bytes", c_uint64),
        ("mask_bytes", c_uint64),
        ("metadata_bytes", c_uint64),
        ("cache_bytes", c_uint64),
        ("disk_bytes", c_uint64),
        ("go_heap_bytes", c_uint64),
        ("reserved", c_uint64 * 8),
    )


class WorkOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("timeout_ns", c_uint64),
        ("stream", c_uint64),
        ("after", c_void_p),
        ("after_count", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class PageOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("location", c_int32),
        ("device", c_int32),
        ("numa_node", c_int32),
        ("id", c_uint64),
        ("contents", c_uint32),
        ("reserved_word", c_uint32),
        ("reserved", c_uint64 * 4),
    )


class AdoptOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("location", c_int32),
        ("read_only", c_int32),
        ("id", c_uint64),
        ("release", ReleaseFunction),
        ("user", c_void_p),
        ("reserved", c_uint64 * 4),
    )


class PageInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("location", c_int32),
        ("device", c_int32),
        ("numa_node", c_int32),
        ("page", c_uint64),
        ("context", c_uint64),
        ("id", c_uint64),
        ("size", c_uint64),
        ("epoch", c_uint64),
        ("version", c_uint64),
        ("read_pins", c_uint32),
        ("write_pins", c_uint32),
        ("simulated", c_int32),
        ("adopted", c_int32),
        ("read_only", c_int32),
        ("metadata_count", c_uint32),
        ("reserved", c_uint64 * 4),
    )


class PageRange(ctypes.Structure):
    _fields_ = (
        ("page", c_uint64),
        ("offset", c_uint64),
        ("length", c_uint64),
        ("buffer", c_void_p),
    )


class Run(ctypes.Structure):
    _fields_ = (
        ("offset", c_uint64),
        ("length", c_uint64),
    )


class Delta(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("id", c_uint64),
        ("page_id", c_uint64),
        ("epoch", c_uint64),
        ("timestamp_ns", c_uint64),
        ("source", c_char_p),
        ("intent", c_char_p),
        ("mask", c_void_p),
        ("mask_length", c_uint64),
        ("offsets", c_void_p),
        ("offsets32", c_void_p),
        ("runs", c_void_p),
        ("count", c_uint64),
        ("payload", c_void_p),
        ("payload_length", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class PageRuns(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("reserved_word", c_uint32),
        ("count", c_uint64),
        ("pages", c_void_p),
        ("offsets", c_void_p),
        ("lengths", c_void_p),
        ("uniform_length", c_uint64),
        ("payload", c_void_p),
        ("payload_length", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class SaveOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("compression", c_int32),
        ("compression_level", c_int32),
        ("raw_writes", c_int32),
        ("not_durable", c_int32),
        ("reserved_word", c_uint32),
        ("copy_limit", c_uint64),
        ("base", c_char_p),
        ("reserved", c_uint64 * 4),
    )


class LoadOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("mode", c_int32),
        ("page_ids", c_void_p),
        ("page_count", c_uint64),
        ("journal", c_char_p),
        ("journal_until", c_uint64),
        ("journal_until_time_ns", c_int64),
        ("journal_page", c_uint64),
        ("journal_epoch", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class SaveStats(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("reserved_word", c_uint32),
        ("saves", c_uint64),
        ("last_pages", c_uint64),
        ("last_bytes", c_uint64),
        ("last_duration_ns", c_uint64),
        ("copied_bytes", c_uint64),
        ("copied_peak", c_uint64),
        ("waits", c_uint64),
        ("waited_ns", c_uint64),
        ("compared_bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class SnapshotInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("format", c_uint32),
        ("id", c_uint8 * 16),
        ("base", c_uint8 * 16),
        ("taken_ns", c_int64),
        ("journal", c_uint64),
        ("pages", c_uint64),
        ("bytes", c_uint64),
        ("file_pages", c_uint64),
        ("file_bytes", c_uint64),
        ("edges", c_uint64),
        ("chain", c_uint32),
        ("reserved_word", c_uint32),
        ("reserved", c_uint64 * 4),
    )


class SnapshotPage(ctypes.Structure):
    _fields_ = (
        ("id", c_uint64),
        ("size", c_uint64),
        ("epoch", c_uint64),
        ("version", c_uint64),
        ("location", c_int32),
        ("device", c_int32),
        ("numa_node", c_int32),
        ("metadata_count", c_uint32),
        ("reserved", c_uint64),
    )


class SnapshotChange(ctypes.Structure):
    _fields_ = (
        ("id", c_uint64),
        ("change", c_int32),
        ("reserved", c_int32),
    )


class JournalOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("durability", c_int32),
        ("interval_ms", c_uint32),
        ("keep", c_int32),
        ("segment_bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class JournalInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("segments", c_uint32),
        ("first", c_uint64),
        ("last", c_uint64),
        ("synced", c_uint64),
        ("bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class DeviceInfo(ctypes.Structure):
    _fields_ = (
        ("ordinal", c_int32),
        ("simulated", c_int32),
        ("name", c_char * 96),
        ("pci", c_char * 16),
        ("uuid", c_uint8 * 16),
        ("bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("granularity", c_uint64),
        ("major", c_int32),
        ("minor", c_int32),
        ("multiprocessors", c_int32),
        ("numa_node", c_int32),
        ("ordered_memory", c_int32),
        ("managed_memory", c_int32),
        ("reserved", c_uint64 * 4),
    )


class RuntimeOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("streams", c_uint32),
        ("budget", c_uint64),
        ("ledger", c_char_p),
        ("log_events", c_uint64),
        ("guard_every", c_uint64),
        ("guard_quarantine", c_uint64),
        ("refused", RefusedFunction),
        ("refused_user", c_void_p),
        ("refused_attempts", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class RuntimeStats(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("streams", c_uint32),
        ("outstanding", c_uint64),
        ("live", c_uint64),
        ("pending", c_uint64),
        ("peak", c_uint64),
        ("blocks", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("failures", c_uint64),
        ("deferred_frees", c_uint64),
        ("uses", c_uint64),
        ("aborts", c_uint64),
        ("waits", c_uint64),
        ("waits_saved", c_uint64),
        ("budget", c_uint64),
        ("charged", c_uint64),
        ("reserved_bytes", c_uint64),
        ("charged_peak", c_uint64),
        ("refusals", c_uint64),
        ("reports", c_uint64),
        ("reserved", c_uint64 * 8),
    )


class TagStats(ctypes.Structure):
    _fields_ = (
        ("live", c_uint64),
        ("peak", c_uint64),
        ("total_bytes", c_uint64),
        ("blocks", c_uint64),
        ("total_blocks", c_uint64),
        ("failures", c_uint64),
        ("reserved", c_uint64 * 2),
    )


class BlockInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("address", c_void_p),
        ("bytes", c_uint64),
        ("stream", c_uint64),
        ("tag", c_uint32),
        ("uses", c_uint32),
        ("reserved", c_uint64 * 4),
    )


class Access(ctypes.Structure):
    _fields_ = (
        ("block", c_uint64),
        ("access", c_int32),
        ("reserved", c_int32),
    )


# The number by which mmsb_sizeof knows each struct.
STRUCTS: dict[int, type[ctypes.Structure]] = {
    1: ErrorDetail,
    2: Capability,
    3: ContextOptions,
    4: ContextStats,
    5: MemoryUsage,
    6: PageOptions,
    7: PageInfo,
    8: PageRange,
    9: AdoptOptions,
    10: WorkOptions,
    11: Run,
    12: Delta,
    13: PageRuns,
    14: SaveOptions,
    15: LoadOptions,
    16: SaveStats,
    17: SnapshotInfo,
    18: SnapshotPage,
    19: SnapshotChange,
    20: JournalOptions,
    21: JournalInfo,
    22: DeviceInfo,
    23: RuntimeOptions,
    24: RuntimeStats,
    25: TagStats,
    26: BlockInfo,
    27: Access,
}

# Arrays and bytes are c_void_p, which takes addresses, bytes objects and ctypes arrays; single results are typed pointers.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mmsb_version": (c_char_p, ()),
    "mmsb_abi_version": (c_uint32, ()),
    "mmsb_build_info": (c_char_p, ()),
    "mmsb_strerror": (c_char_p, (c_int32,)),
    "mmsb_last_error": (c_char_p, ()),
    "mmsb_last_error_code": (c_int32, ()),
    "mmsb_last_error_copy": (c_int32, (c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_error_detail_init": (None, (POINTER(ErrorDetail),)),
    "mmsb_last_error_detail": (c_int32, (POINTER(ErrorDetail),)),
    "mmsb_capabilities": (c_int32, (POINTER(Capability), c_size_t, POINTER(c_size_t))),
    "mmsb_log_configure": (c_int32, (c_int32, c_int32)),
    "mmsb_log_read": (c_int32, (c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_uint64))),
    "mmsb_debug_live_objects": (c_int32, (c_int32, POINTER(c_uint64))),
    "mmsb_sizeof": (c_size_t, (c_int32,)),
    "mmsb_shutdown": (c_int32, ()),
    "mmsb_context_options_init": (None, (POINTER(ContextOptions),)),
    "mmsb_context_options_parse": (c_int32, (POINTER(ContextOptions), c_char_p)),
    "mmsb_context_create": (c_int32, (POINTER(ContextOptions), POINTER(c_uint64))),
    "mmsb_context_destroy": (c_int32, (c_uint64,)),
    "mmsb_context_stats_init": (None, (POINTER(ContextStats),)),
    "mmsb_context_stats": (c_int32, (c_uint64, POINTER(ContextStats))),
    "mmsb_context_page_count": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_context_pages": (c_int32, (c_uint64, POINTER(c_uint64), c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_context_trim": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_memory_usage_init": (None, (POINTER(MemoryUsage),)),
    "mmsb_memory_usage": (c_int32, (POINTER(MemoryUsage),)),
    "mmsb_work_options_init": (None, (POINTER(WorkOptions),)),
    "mmsb_ticket_poll": (c_int32, (c_uint64, POINTER(c_int32))),
    "mmsb_ticket_wait": (c_int32, (c_uint64, c_uint64)),
    "mmsb_ticket_cancel": (c_int32, (c_uint64,)),
    "mmsb_ticket_progress": (c_int32, (c_uint64, POINTER(c_uint64), POINTER(c_uint64))),
    "mmsb_ticket_status": (c_int32, (c_uint64, POINTER(c_int32), c_void_p, c_size_t)),
    "mmsb_ticket_eventfd": (c_int32, (c_uint64, POINTER(c_int32))),
    "mmsb_ticket_destroy": (c_int32, (c_uint64,)),
    "mmsb_page_options_init": (None, (POINTER(PageOptions),)),
    "mmsb_page_create": (c_int32, (c_uint64, c_uint64, POINTER(PageOptions), POINTER(c_uint64))),
    "mmsb_page_create_with_address": (
        c_int32,
        (c_uint64, c_uint64, POINTER(PageOptions), POINTER(c_uint64), POINTER(c_void_p)),
    ),
    "mmsb_page_create_many": (
        c_int32,
        (c_uint64, c_uint64, c_size_t, POINTER(PageOptions), POINTER(WorkOptions), c_void_p),
    ),
    "mmsb_page_create_many_start": (
        c_int32,
        (c_uint64, c_uint64, c_size_t, POINTER(PageOptions), POINTER(WorkOptions), c_void_p, POINTER(c_uint64)),
    ),
    "mmsb_page_clone": (c_int32, (c_uint64, c_uint64, POINTER(c_uint64))),
    "mmsb_adopt_options_init": (None, (POINTER(AdoptOptions),)),
    "mmsb_page_adopt": (c_int32, (c_uint64, c_void_p, c_uint64, POINTER(AdoptOptions), POINTER(c_uint64))),
    "mmsb_page_destroy": (c_int32, (c_uint64,)),
    "mmsb_page_destroy_many": (c_int32, (c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_page_release": (c_int32, (c_uint64, POINTER(c_void_p), POINTER(c_uint64))),
    "mmsb_memory_free": (c_int32, (c_void_p,)),
    "mmsb_page_lookup": (c_int32, (c_uint64, c_uint64, POINTER(c_uint64))),
    "mmsb_page_lookup_many": (c_int32, (c_uint64, c_void_p, c_size_t, c_void_p, POINTER(c_size_t))),
    "mmsb_page_info_init": (None, (POINTER(PageInfo),)),
    "mmsb_page_info": (c_int32, (c_uint64, POINTER(PageInfo))),
    "mmsb_page_info_many": (c_int32, (c_void_p, c_size_t, POINTER(PageInfo), POINTER(c_size_t))),
    "mmsb_page_address": (c_void_p, (c_uint64,)),
    "mmsb_page_address_many": (c_int32, (c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t))),
    "mmsb_page_size": (c_uint64, (c_uint64,)),
    "mmsb_page_epoch": (c_uint64, (c_uint64,)),
    "mmsb_page_version": (c_uint64, (c_uint64,)),
    "mmsb_page_pin": (c_int32, (c_uint64, c_int32, POINTER(c_void_p))),
    "mmsb_page_unpin": (c_int32, (c_uint64, c_int32)),
    "mmsb_page_read": (c_int32, (c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_page_write": (c_int32, (c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_page_read_many": (c_int32, (POINTER(PageRange), c_size_t, POINTER(c_size_t))),
    "mmsb_page_write_many": (c_int32, (POINTER(PageRange), c_size_t, POINTER(c_size_t))),
    "mmsb_page_resize": (c_int32, (c_uint64, c_uint64)),
    "mmsb_page_migrate": (c_int32, (c_uint64, c_int32, c_int32)),
    "mmsb_page_migrate_many": (c_int32, (c_void_p, c_size_t, c_int32, c_int32, c_void_p, POINTER(c_size_t))),
    "mmsb_page_migrate_many_start": (
        c_int32,
        (c_void_p, c_size_t, c_int32, c_int32, POINTER(WorkOptions), c_void_p, POINTER(c_uint64)),
    ),
    "mmsb_delta_init": (None, (POINTER(Delta),)),
    "mmsb_delta_validate": (c_int32, (POINTER(Delta), c_uint64)),
    "mmsb_page_apply": (c_int32, (c_uint64, POINTER(Delta))),
    "mmsb_page_apply_many": (c_int32, (c_void_p, POINTER(Delta), c_size_t, POINTER(c_size_t))),
    "mmsb_page_runs_init": (None, (POINTER(PageRuns),)),
    "mmsb_page_apply_runs": (c_int32, (POINTER(PageRuns), POINTER(c_size_t))),
    "mmsb_delta_merge": (c_int32, (POINTER(Delta), POINTER(Delta), POINTER(POINTER(Delta)))),
    "mmsb_delta_from_pages": (c_int32, (c_uint64, c_uint64, POINTER(POINTER(Delta)))),
    "mmsb_delta_convert": (c_int32, (POINTER(Delta), c_int32, POINTER(POINTER(Delta)))),
    "mmsb_delta_free": (c_int32, (POINTER(Delta),)),
    "mmsb_page_mask_read": (c_int32, (c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_page_mask_clear": (c_int32, (c_uint64,)),
    "mmsb_page_mask_count": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_page_metadata_set": (c_int32, (c_uint64, c_char_p, c_size_t, c_void_p, c_size_t)),
    "mmsb_page_metadata_get": (c_int32, (c_uint64, c_char_p, c_size_t, c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_page_metadata_remove": (c_int32, (c_uint64, c_char_p, c_size_t)),
    "mmsb_page_metadata_keys": (c_int32, (c_uint64, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t))),
    "mmsb_page_metadata_export": (c_int32, (c_uint64, c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_page_metadata_import": (c_int32, (c_uint64, c_void_p, c_size_t)),
    "mmsb_page_dependency_add": (c_int32, (c_uint64, c_uint64)),
    "mmsb_page_dependency_remove": (c_int32, (c_uint64, c_uint64)),
    "mmsb_page_parents": (c_int32, (c_uint64, c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_page_children": (c_int32, (c_uint64, c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_context_dependency_order": (c_int32, (c_uint64, c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_save_options_init": (None, (POINTER(SaveOptions),)),
    "mmsb_snapshot_save": (c_int32, (c_uint64, c_char_p, POINTER(SaveOptions))),
    "mmsb_snapshot_save_start": (
        c_int32,
        (c_uint64, c_char_p, POINTER(SaveOptions), POINTER(WorkOptions), POINTER(c_uint64)),
    ),
    "mmsb_snapshot_save_descriptor": (c_int32, (c_uint64, c_int32, POINTER(SaveOptions))),
    "mmsb_snapshot_save_memory": (c_int32, (c_uint64, POINTER(SaveOptions), POINTER(c_void_p), POINTER(c_uint64))),
    "mmsb_snapshot_free_memory": (c_int32, (c_void_p,)),
    "mmsb_load_options_init": (None, (POINTER(LoadOptions),)),
    "mmsb_snapshot_load": (c_int32, (c_uint64, c_char_p, POINTER(LoadOptions))),
    "mmsb_snapshot_load_start": (
        c_int32,
        (c_uint64, c_char_p, POINTER(LoadOptions), POINTER(WorkOptions), POINTER(c_uint64)),
    ),
    "mmsb_snapshot_load_descriptor": (c_int32, (c_uint64, c_int32, POINTER(LoadOptions))),
    "mmsb_snapshot_load_memory": (c_int32, (c_uint64, c_void_p, c_uint64, POINTER(LoadOptions))),
    "mmsb_save_stats_init": (None, (POINTER(SaveStats),)),
    "mmsb_context_save_stats": (c_int32, (c_uint64, POINTER(SaveStats))),
    "mmsb_snapshot_open": (c_int32, (c_char_p, POINTER(c_uint64))),
    "mmsb_snapshot_close": (c_int32, (c_uint64,)),
    "mmsb_snapshot_info_init": (None, (POINTER(SnapshotInfo),)),
    "mmsb_snapshot_info": (c_int32, (c_uint64, POINTER(SnapshotInfo))),
    "mmsb_snapshot_pages": (c_int32, (c_uint64, POINTER(c_uint64), POINTER(SnapshotPage), c_size_t, POINTER(c_size_t))),
    "mmsb_snapshot_find": (c_int32, (c_uint64, c_uint64, POINTER(SnapshotPage))),
    "mmsb_snapshot_read": (c_int32, (c_uint64, c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_snapshot_view": (c_int32, (c_uint64, c_uint64, POINTER(c_void_p), POINTER(c_uint64))),
    "mmsb_snapshot_metadata": (c_int32, (c_uint64, c_uint64, c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_snapshot_verify": (c_int32, (c_char_p, POINTER(WorkOptions))),
    "mmsb_snapshot_diff": (c_int32, (c_uint64, c_uint64, POINTER(SnapshotChange), c_size_t, POINTER(c_size_t))),
    "mmsb_snapshot_compact": (c_int32, (c_char_p, c_char_p, POINTER(SaveOptions))),
    "mmsb_journal_options_init": (None, (POINTER(JournalOptions),)),
    "mmsb_journal_open": (c_int32, (c_uint64, c_char_p, POINTER(JournalOptions))),
    "mmsb_journal_sync": (c_int32, (c_uint64,)),
    "mmsb_journal_close": (c_int32, (c_uint64,)),
    "mmsb_journal_trim": (c_int32, (c_uint64, c_char_p)),
    "mmsb_journal_info_init": (None, (POINTER(JournalInfo),)),
    "mmsb_journal_info": (c_int32, (c_uint64, POINTER(JournalInfo))),
    "mmsb_device_list": (c_int32, (c_uint64, POINTER(DeviceInfo), c_size_t, POINTER(c_size_t))),
    "mmsb_runtime_options_init": (None, (POINTER(RuntimeOptions),)),
    "mmsb_runtime_shared": (c_int32, (c_uint64, c_int32, POINTER(c_uint64))),
    "mmsb_runtime_create": (c_int32, (c_uint64, c_int32, POINTER(RuntimeOptions), POINTER(c_uint64))),
    "mmsb_runtime_destroy": (c_int32, (c_uint64,)),
    "mmsb_runtime_stats_init": (None, (POINTER(RuntimeStats),)),
    "mmsb_runtime_stats": (c_int32, (c_uint64, POINTER(RuntimeStats))),
    "mmsb_runtime_reap": (c_int32, (c_uint64,)),
    "mmsb_runtime_trim": (c_int32, (c_uint64, c_uint64)),
    "mmsb_runtime_log_write": (c_int32, (c_uint64, c_int32)),
    "mmsb_tag_of": (c_int32, (c_char_p, POINTER(c_uint32))),
    "mmsb_runtime_tag_stats": (c_int32, (c_uint64, c_uint32, POINTER(TagStats))),
    "mmsb_reservation_create": (c_int32, (c_uint64, c_uint64, POINTER(c_uint64))),
    "mmsb_reservation_destroy": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_stream_create": (c_int32, (c_uint64, c_int32, POINTER(c_uint64))),
    "mmsb_stream_wrap": (c_int32, (c_uint64, c_void_p, POINTER(c_uint64))),
    "mmsb_stream_destroy": (c_int32, (c_uint64,)),
    "mmsb_stream_native": (c_int32, (c_uint64, POINTER(c_void_p))),
    "mmsb_stream_wait": (c_int32, (c_uint64, c_uint64)),
    "mmsb_stream_copy": (c_int32, (c_uint64, c_void_p, c_void_p, c_uint64)),
    "mmsb_stream_fill": (c_int32, (c_uint64, c_void_p, c_uint8, c_uint64)),
    "mmsb_stream_record": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_stream_after": (c_int32, (c_uint64, c_uint64)),
    "mmsb_block_allocate": (c_int32, (c_uint64, c_uint64, c_uint32, c_uint64, POINTER(c_uint64), POINTER(c_void_p))),
    "mmsb_block_free": (c_int32, (c_uint64, c_uint64, POINTER(c_int32))),
    "mmsb_block_info_init": (None, (POINTER(BlockInfo),)),
    "mmsb_block_info": (c_int32, (c_uint64, POINTER(BlockInfo))),
    "mmsb_use_begin": (c_int32, (c_uint64, POINTER(Access), c_size_t, POINTER(c_uint64), POINTER(c_size_t))),
    "mmsb_use_end": (c_int32, (c_uint64,)),
    "mmsb_use_abort": (c_int32, (c_uint64,)),
    "mmsb_use_record": (c_int32, (c_uint64, c_int32, POINTER(c_uint64))),
    "mmsb_use_add": (c_int32, (c_uint64, c_uint64, c_int32)),
    "mmsb_use_begin_recorded": (c_int32, (c_uint64,)),
}

# These take nanoseconds and no lock: releasing the interpreter lock would cost more than the call.
KEEPS_INTERPRETER_LOCK = {
    "mmsb_last_error",
    "mmsb_last_error_code",
    "mmsb_last_error_detail",
    "mmsb_strerror",
    "mmsb_page_address",
    "mmsb_page_size",
    "mmsb_page_epoch",
    "mmsb_page_version",
}


def find_library() -> str:
    """The absolute path of the shared library: MMSB_LIBRARY, else the package's own, else the build tree's."""
    named = os.environ.get("MMSB_LIBRARY")
    if named:
        path = Path(named).absolute()
        if not path.is_file():
            raise ImportError(f"MMSB_LIBRARY is {path}, which is not a file: correct it or unset it")
        return str(path)
    package = Path(__file__).resolve().parent
    paths = [package / "_lib" / "libmmsb.so"]
    # In a checkout the package lies in bindings/python/src/mmsb.
    paths += [folder / "build" / "libmmsb.so" for folder in list(package.parents)[3:4]]
    for path in paths:
        if path.is_file():
            return str(path)
    searched = " and ".join(str(path) for path in paths)
    raise ImportError(
        f"libmmsb.so is not at {searched}: install the wheel, run `make` in a checkout, or set MMSB_LIBRARY to its path"
    )


class Library:
    """The functions of libmmsb as attributes.

    The first access loads the shared library: a process may fork before it, never after it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._touched = False
        #: Whether the process is a child of one that had loaded the library.
        self.forked = False
        os.register_at_fork(after_in_child=self._after_fork)

    @property
    def loaded(self) -> bool:
        """Whether the shared library is in the process and may be used."""
        return "mmsb_version" in self.__dict__

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in FUNCTIONS:
            raise AttributeError(f"libmmsb has no function {name}")
        self._load()
        function: Callable[..., Any] = self.__dict__[name]
        return function

    def _load(self) -> None:
        with self._lock:
            if self.forked:
                raise ForkedError(
                    "this process was forked from one that used libmmsb: use libmmsb only after the fork, "
                    "or start processes with spawn or forkserver"
                )
            if self.loaded:
                return
            path = find_library()
            self._touched = True
            try:
                doors = ctypes.CDLL(path), ctypes.PyDLL(path)
                functions = {name: _declare(doors[name in KEEPS_INTERPRETER_LOCK], name) for name in FUNCTIONS}
            except (OSError, AttributeError) as error:
                raise ImportError(f"cannot load {path}: {error}; rebuild it or correct MMSB_LIBRARY") from error
            _verify(functions, path)
            self.__dict__.update(functions)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        if self._touched:
            self.forked = True
            for name in FUNCTIONS:
                self.__dict__.pop(name, None)


def _declare(door: ctypes.CDLL, name: str) -> Callable[..., Any]:
    function = getattr(door, name)
    function.restype, function.argtypes = FUNCTIONS[name]
    checked: Callable[..., Any] = function
    return checked


def _verify(functions: dict[str, Callable[..., Any]], path: str) -> None:
    """Refuses a library that was built for another header."""
    abi = functions["mmsb_abi_version"]()
    if abi != ABI_VERSION:
        raise ImportError(f"{path} has ABI {abi}, this package needs {ABI_VERSION}: install both of the same release")
    for number, struct in STRUCTS.items():
        ours, theirs = ctypes.sizeof(struct), functions["mmsb_sizeof"](number)
        if ours != theirs:
            raise ImportError(
                f"{struct.__name__} has {theirs} bytes in {path} and {ours} in this package: install both of the same release"
            )


lib = Library()


def failure(status: int) -> MMSBError:
    """The exception for the call that has just failed on this thread."""
    matches = lib.mmsb_last_error_code() == status
    text: bytes = lib.mmsb_last_error() if matches else lib.mmsb_strerror(status)
    error = error_for(status, text.decode("utf-8", "replace"))
    detail = ErrorDetail(struct_size=ctypes.sizeof(ErrorDetail))
    if matches and lib.mmsb_last_error_detail(ctypes.byref(detail)) == OK and detail.domain:
        error.foreign_code = detail.foreign_code
        error.domain = name_of(DOMAINS, detail.domain)
        if detail.domain == DOMAIN_ERRNO and isinstance(error, OSError):
            error.errno = detail.foreign_code
    return error


def check(status: int) -> None:
    """Raises the exception for a status that is not OK. Call it at once, on the thread of the failed call."""
    if status:
        raise failure(status)


def name_of(names: dict[str, int], value: int) -> str:
    """The name of a value, or the number as text if this table does not have it."""
    for name, number in names.items():
        if number == value:
            return name
    return str(value)


def value_of(names: dict[str, int], name: str, what: str) -> int:
    """The value of a name; what is the name of the argument, for the error."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {type(name).__name__}")
    try:
        return names[name]
    except KeyError:
        raise _errors.InvalidArgumentError(f"{what} {name!r} is not one of {', '.join(names)}") from None
