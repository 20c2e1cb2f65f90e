# Generated from include/mmsb.h by "make generate": do not edit.
"""The C interface: constants, structs and functions, under the names of mmsb.h without MMSB_ or mmsb_.

A set of constants is also a dict, from their names in lower case. Arrays and bytes are c_void_p, which takes
addresses, bytes objects and ctypes arrays; single results are typed pointers.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

VERSION_MAJOR = 0
VERSION_MINOR = 1
VERSION_PATCH = 0
VERSION_STRING = "0.1.0"
ABI_VERSION = 0
OK = 0
E_INVALID_ARGUMENT = 10
E_INVALID_HANDLE = 11
E_STALE_HANDLE = 12
E_INVALID_SIZE = 13
E_OUT_OF_RANGE = 14
E_INVALID_STATE = 15
E_STRUCT_VERSION = 16
E_MISMATCH = 17
E_EPOCH = 18
E_NOT_FOUND = 20
E_ALREADY_EXISTS = 21
E_BUSY = 22
E_WOULD_BLOCK = 23
E_TIMEOUT = 24
E_CANCELLED = 25
E_OUT_OF_MEMORY = 30
E_LIMIT = 31
E_NO_SPACE = 32
E_NOT_DURABLE = 33
E_UNSUPPORTED = 40
E_NO_DEVICE = 41
E_DEVICE = 42
E_DEVICE_LOST = 43
E_FORKED = 44
E_IO = 50
E_CORRUPT = 51
E_FORMAT = 52
E_GUARD = 53
E_PEER = 60
E_INTERNAL = 90
E_POISONED = 91
KIND_PAGE = 1
KIND_CONTEXT = 2
KIND_TICKET = 3
KIND_SNAPSHOT = 6
KIND_STREAM = 7
KIND_BLOCK = 8
KIND_USE = 9
KIND_RUNTIME = 11
KIND_RESERVATION = 12
KIND_CAPTURE = 13
KIND_COMMANDS = 14
KIND_DELTA = 4
KIND_MEMORY = 5
KIND_TENSOR = 10
LOCATION_DEFAULT = -1
LOCATION_CPU = 0
LOCATION_GPU = 1
LOCATION_UNIFIED = 2
LOCATION_PINNED = 3
LOCATION_DISK = 4
DEVICE_HOST = -1
DEVICE_NONE = -2
DEVICE_STAND_IN = 1024
DOMAIN_NONE = 0
DOMAIN_ERRNO = 1
DOMAIN_CUDA = 2
DOMAIN_NCCL = 3
DOMAIN_NIXL = 4
LOG_OFF = 0
LOG_ERROR = 1
LOG_WARNING = 2
LOG_INFO = 3
LOG_DEBUG = 4
STRUCT_ERROR_DETAIL = 1
STRUCT_CAPABILITY = 2
STRUCT_CONTEXT_OPTIONS = 3
STRUCT_CONTEXT_STATS = 4
STRUCT_MEMORY_USAGE = 5
STRUCT_PAGE_OPTIONS = 6
STRUCT_PAGE_INFO = 7
STRUCT_PAGE_RANGE = 8
STRUCT_ADOPT_OPTIONS = 9
STRUCT_WORK_OPTIONS = 10
STRUCT_RUN = 11
STRUCT_DELTA = 12
STRUCT_PAGE_RUNS = 13
STRUCT_SAVE_OPTIONS = 14
STRUCT_LOAD_OPTIONS = 15
STRUCT_SAVE_STATS = 16
STRUCT_SNAPSHOT_INFO = 17
STRUCT_SNAPSHOT_PAGE = 18
STRUCT_SNAPSHOT_CHANGE = 19
STRUCT_JOURNAL_OPTIONS = 20
STRUCT_JOURNAL_INFO = 21
STRUCT_DEVICE_INFO = 22
STRUCT_RUNTIME_OPTIONS = 23
STRUCT_RUNTIME_STATS = 24
STRUCT_TAG_STATS = 25
STRUCT_BLOCK_INFO = 26
STRUCT_ACCESS = 27
STRUCT_DEPENDENCY = 28
STRUCT_JOURNAL_DIRECTORY = 29
STRUCT_JOURNAL_SEGMENT = 30
STRUCT_JOURNAL_RECORD = 31
STRUCT_LINK = 32
STRUCT_TELEMETRY = 33
STRUCT_GUARD_REPORT = 34
STRUCT_STORE_OPTIONS = 35
STRUCT_STORE_INFO = 36
STRUCT_STORE_POINT = 37
STRUCT_DEVICE_MEMORY = 38
STRUCT_SLEEP_OPTIONS = 39
STRUCT_MEMORY_STAT = 40
STRUCT_COMMANDS_OPTIONS = 41
STRUCT_COMMANDS_STATS = 42
STRUCT_COMMAND_FAILURE = 43
STRUCT_COPY = 44
STRUCT_PROPAGATION = 45
STRUCT_DIFFERENCE = 46
STRUCT_PAGE_COPY = 47
STRUCT_SYNC_STATS = 48
STRUCT_TENSOR_OPTIONS = 49
STRUCT_TENSOR_INFO = 50
STRUCT_PAGE_ADVICE = 51
STRUCT_LOST_PAGE = 52
SIMULATE_OFF = 0
SIMULATE_IF_NO_GPU = 1
SIMULATE_ALWAYS = 2
FALLBACK_ERROR = 0
FALLBACK_HOST = 1
FALLBACK_SIMULATE = 2
GUARD_BEFORE = 1
GUARD_BEHIND = 2
GUARD_ENDED = 3
GUARD_LEFT = 4
WAIT_FOREVER = 18446744073709551615
PAGE_ZEROED = 0
PAGE_UNINITIALISED = 1
PIN_READ = 1
PIN_WRITE = 2
SYNC_TO_DEVICE = 1
SYNC_TO_HOST = 2
SYNC_BOTH = 3
SYNC_HOST_WINS = 4
SYNC_DEVICE_WINS = 8
SYNC_PINNED = 16
DELTA_DENSE_BYTES = 1
DELTA_DENSE_BITS = 2
DELTA_SPARSE_BITS = 3
DELTA_INDEXED = 4
DELTA_RUNS = 5
COMMANDS_COMPLETE = 0
COMMANDS_CANCEL = 1
COMPRESSION_NONE = 0
COMPRESSION_ZSTD = 1
RAW_WRITES_ALLOW = 0
RAW_WRITES_REFUSE = 1
RAW_WRITES_WAIT = 2
BASE_IN_USE_WHOLE = 0
BASE_IN_USE_REFUSE = 1
LOAD_EAGER = 0
LOAD_LAZY = 1
LOAD_IN_PLACE = 2
CHANGE_ADDED = 1
CHANGE_REMOVED = 2
CHANGE_BYTES = 3
CHANGE_OTHER = 4
DURABILITY_INTERVAL = 0
DURABILITY_CALL = 1
DURABILITY_NONE = 2
JOURNAL_BASE_WRITE = 0
JOURNAL_BASE_REFUSE = 1
RECORD_CREATE = 1
RECORD_ADOPT = 2
RECORD_CLONE = 3
RECORD_DESTROY = 4
RECORD_RESIZE = 5
RECORD_MIGRATE = 6
RECORD_WRITE = 7
RECORD_RUN = 8
RECORD_DELTA = 9
RECORD_MASK_CLEAR = 10
RECORD_METADATA_SET = 11
RECORD_METADATA_REMOVE = 12
RECORD_METADATA_IMPORT = 13
RECORD_DEPENDENCY_ADD = 14
RECORD_DEPENDENCY_REMOVE = 15
NEVER = 18446744073709551615
STORE_WRITE = 0
STORE_READ = 1
STORE_BRANCH = 2
STORE_FOLLOW = 3
PATH_UNKNOWN = -1
PATH_SAME_BOARD = 0
PATH_ONE_SWITCH = 10
PATH_SEVERAL_SWITCHES = 20
PATH_HOST_BRIDGE = 30
PATH_NUMA_NODE = 40
PATH_ACROSS_SYSTEM = 50
PICTURE_TORCH = 0
PICTURE_JSON = 1
PICTURE_HTML = 2
STREAM_HOST = 8070450532247928832
SLEEP_DROP = 1
SLEEP_KEEP = 2
SLEEP_FILE = 3
ACCESS_READ = 1
ACCESS_WRITE = 2
ACCESS_READ_WRITE = 3
PLUGIN_ORDERED = 0
PLUGIN_SEGMENT = 1
TENSOR_CODE_INT = 0
TENSOR_CODE_UINT = 1
TENSOR_CODE_FLOAT = 2
TENSOR_CODE_HANDLE = 3
TENSOR_CODE_BFLOAT = 4
TENSOR_CODE_COMPLEX = 5
TENSOR_CODE_BOOL = 6
TENSOR_CODE_MAX = 17
BLOCK_STREAM = 18446744073709551615

E = {
    "invalid_argument": E_INVALID_ARGUMENT,
    "invalid_handle": E_INVALID_HANDLE,
    "stale_handle": E_STALE_HANDLE,
    "invalid_size": E_INVALID_SIZE,
    "out_of_range": E_OUT_OF_RANGE,
    "invalid_state": E_INVALID_STATE,
    "struct_version": E_STRUCT_VERSION,
    "mismatch": E_MISMATCH,
    "epoch": E_EPOCH,
    "not_found": E_NOT_FOUND,
    "already_exists": E_ALREADY_EXISTS,
    "busy": E_BUSY,
    "would_block": E_WOULD_BLOCK,
    "timeout": E_TIMEOUT,
    "cancelled": E_CANCELLED,
    "out_of_memory": E_OUT_OF_MEMORY,
    "limit": E_LIMIT,
    "no_space": E_NO_SPACE,
    "not_durable": E_NOT_DURABLE,
    "unsupported": E_UNSUPPORTED,
    "no_device": E_NO_DEVICE,
    "device": E_DEVICE,
    "device_lost": E_DEVICE_LOST,
    "forked": E_FORKED,
    "io": E_IO,
    "corrupt": E_CORRUPT,
    "format": E_FORMAT,
    "guard": E_GUARD,
    "peer": E_PEER,
    "internal": E_INTERNAL,
    "poisoned": E_POISONED,
}
KIND = {
    "page": KIND_PAGE,
    "context": KIND_CONTEXT,
    "ticket": KIND_TICKET,
    "snapshot": KIND_SNAPSHOT,
    "stream": KIND_STREAM,
    "block": KIND_BLOCK,
    "use": KIND_USE,
    "runtime": KIND_RUNTIME,
    "reservation": KIND_RESERVATION,
    "capture": KIND_CAPTURE,
    "commands": KIND_COMMANDS,
    "delta": KIND_DELTA,
    "memory": KIND_MEMORY,
    "tensor": KIND_TENSOR,
}
LOCATION = {
    "default": LOCATION_DEFAULT,
    "cpu": LOCATION_CPU,
    "gpu": LOCATION_GPU,
    "unified": LOCATION_UNIFIED,
    "pinned": LOCATION_PINNED,
    "disk": LOCATION_DISK,
}
DOMAIN = {"none": DOMAIN_NONE, "errno": DOMAIN_ERRNO, "cuda": DOMAIN_CUDA, "nccl": DOMAIN_NCCL, "nixl": DOMAIN_NIXL}
LOG = {"off": LOG_OFF, "error": LOG_ERROR, "warning": LOG_WARNING, "info": LOG_INFO, "debug": LOG_DEBUG}
SIMULATE = {"off": SIMULATE_OFF, "if_no_gpu": SIMULATE_IF_NO_GPU, "always": SIMULATE_ALWAYS}
FALLBACK = {"error": FALLBACK_ERROR, "host": FALLBACK_HOST, "simulate": FALLBACK_SIMULATE}
PAGE = {"zeroed": PAGE_ZEROED, "uninitialised": PAGE_UNINITIALISED}
PIN = {"read": PIN_READ, "write": PIN_WRITE}
DELTA = {
    "dense_bytes": DELTA_DENSE_BYTES,
    "dense_bits": DELTA_DENSE_BITS,
    "sparse_bits": DELTA_SPARSE_BITS,
    "indexed": DELTA_INDEXED,
    "runs": DELTA_RUNS,
}
COMPRESSION = {"none": COMPRESSION_NONE, "zstd": COMPRESSION_ZSTD}
RAW_WRITES = {"allow": RAW_WRITES_ALLOW, "refuse": RAW_WRITES_REFUSE, "wait": RAW_WRITES_WAIT}
BASE_IN_USE = {"whole": BASE_IN_USE_WHOLE, "refuse": BASE_IN_USE_REFUSE}
LOAD = {"eager": LOAD_EAGER, "lazy": LOAD_LAZY, "in_place": LOAD_IN_PLACE}
CHANGE = {"added": CHANGE_ADDED, "removed": CHANGE_REMOVED, "bytes": CHANGE_BYTES, "other": CHANGE_OTHER}
DURABILITY = {"interval": DURABILITY_INTERVAL, "call": DURABILITY_CALL, "none": DURABILITY_NONE}
JOURNAL_BASE = {"write": JOURNAL_BASE_WRITE, "refuse": JOURNAL_BASE_REFUSE}
ACCESS = {"read": ACCESS_READ, "write": ACCESS_WRITE, "read_write": ACCESS_READ_WRITE}
RECORD = {
    "create": RECORD_CREATE,
    "adopt": RECORD_ADOPT,
    "clone": RECORD_CLONE,
    "destroy": RECORD_DESTROY,
    "resize": RECORD_RESIZE,
    "migrate": RECORD_MIGRATE,
    "write": RECORD_WRITE,
    "run": RECORD_RUN,
    "delta": RECORD_DELTA,
    "mask_clear": RECORD_MASK_CLEAR,
    "metadata_set": RECORD_METADATA_SET,
    "metadata_remove": RECORD_METADATA_REMOVE,
    "metadata_import": RECORD_METADATA_IMPORT,
    "dependency_add": RECORD_DEPENDENCY_ADD,
    "dependency_remove": RECORD_DEPENDENCY_REMOVE,
}
PATH = {
    "unknown": PATH_UNKNOWN,
    "same_board": PATH_SAME_BOARD,
    "one_switch": PATH_ONE_SWITCH,
    "several_switches": PATH_SEVERAL_SWITCHES,
    "host_bridge": PATH_HOST_BRIDGE,
    "numa_node": PATH_NUMA_NODE,
    "across_system": PATH_ACROSS_SYSTEM,
}
GUARD = {"before": GUARD_BEFORE, "behind": GUARD_BEHIND, "ended": GUARD_ENDED, "left": GUARD_LEFT}
STORE = {"write": STORE_WRITE, "read": STORE_READ, "branch": STORE_BRANCH, "follow": STORE_FOLLOW}
DEVICE = {"host": DEVICE_HOST, "none": DEVICE_NONE, "stand_in": DEVICE_STAND_IN}
SLEEP = {"drop": SLEEP_DROP, "keep": SLEEP_KEEP, "file": SLEEP_FILE}
PLUGIN = {"ordered": PLUGIN_ORDERED, "segment": PLUGIN_SEGMENT}
PICTURE = {"torch": PICTURE_TORCH, "json": PICTURE_JSON, "html": PICTURE_HTML}
COMMANDS = {"complete": COMMANDS_COMPLETE, "cancel": COMMANDS_CANCEL}
SYNC = {
    "to_device": SYNC_TO_DEVICE,
    "to_host": SYNC_TO_HOST,
    "both": SYNC_BOTH,
    "host_wins": SYNC_HOST_WINS,
    "device_wins": SYNC_DEVICE_WINS,
    "pinned": SYNC_PINNED,
}
TENSOR_CODE = {
    "int": TENSOR_CODE_INT,
    "uint": TENSOR_CODE_UINT,
    "float": TENSOR_CODE_FLOAT,
    "handle": TENSOR_CODE_HANDLE,
    "bfloat": TENSOR_CODE_BFLOAT,
    "complex": TENSOR_CODE_COMPLEX,
    "bool": TENSOR_CODE_BOOL,
    "max": TENSOR_CODE_MAX,
}


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
        ("guard_every", c_uint64),
        ("guard_quarantine", c_uint64),
        ("reserved", c_uint64 * 6),
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
        ("guard_bytes", c_uint64),
        ("guard_reports", c_uint64),
        ("reserved", c_uint64 * 6),
    )


class GuardReport(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("side", c_int32),
        ("page_id", c_uint64),
        ("size", c_uint64),
        ("offset", c_int64),
        ("bytes", c_uint64),
        ("expected", c_uint32),
        ("found", c_uint32),
        ("reserved", c_uint64 * 4),
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
        ("sizes", c_void_p),
        ("ids", c_void_p),
        ("reserved", c_uint64 * 2),
    )


ReleaseFunction = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)


class AdoptOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("location", c_int32),
        ("read_only", c_int32),
        ("id", c_uint64),
        ("release", ReleaseFunction),
        ("user", c_void_p),
        ("stream", c_void_p),
        ("reserved", c_uint64 * 3),
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


class PageCopy(ctypes.Structure):
    _fields_ = (
        ("location", c_int32),
        ("device", c_int32),
        ("size", c_uint64),
        ("newer", c_uint64),
    )


class LostPage(ctypes.Structure):
    _fields_ = (
        ("page", c_uint64),
        ("id", c_uint64),
        ("size", c_uint64),
        ("lost", c_uint64),
        ("device", c_int32),
        ("reserved_word", c_int32),
    )


class SyncStats(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("reserved_word", c_uint32),
        ("pages", c_uint64),
        ("bytes", c_uint64),
        ("newer_on_host", c_uint64),
        ("newer_on_device", c_uint64),
        ("to_device_bytes", c_uint64),
        ("to_host_bytes", c_uint64),
        ("to_device_ranges", c_uint64),
        ("to_host_ranges", c_uint64),
        ("queued", c_uint64),
        ("replicas", c_uint64),
        ("replica_bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class PageAdvice(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("preferred", c_int32),
        ("read_mostly", c_int32),
        ("reserved_word", c_uint32),
        ("reserved", c_uint64 * 2),
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


class Difference(ctypes.Structure):
    _fields_ = (
        ("count", c_uint64),
        ("first", c_uint64),
    )


class CommandsOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("workers", c_int32),
        ("capacity", c_uint64),
        ("persistent", c_int32),
        ("reserved_word", c_int32),
        ("reserved", c_uint64 * 5),
    )


class CommandsStats(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("workers", c_int32),
        ("capacity", c_uint64),
        ("enqueued", c_uint64),
        ("done", c_uint64),
        ("failed", c_uint64),
        ("cancelled", c_uint64),
        ("depth", c_uint64),
        ("peak", c_uint64),
        ("producers", c_uint64),
        ("refused", c_uint64),
        ("waits", c_uint64),
        ("waited_ns", c_uint64),
        ("failures_lost", c_uint64),
        ("reserved", c_uint64 * 5),
    )


class CommandFailure(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("code", c_int32),
        ("page", c_uint64),
        ("text", c_char * 240),
    )


class SaveOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("compression", c_int32),
        ("compression_level", c_int32),
        ("raw_writes", c_int32),
        ("not_durable", c_int32),
        ("base_in_use", c_int32),
        ("copy_limit", c_uint64),
        ("base", c_char_p),
        ("queue", c_int32),
        ("chain_limit", c_int32),
        ("timeout_ns", c_uint64),
        ("not_watched", c_int32),
        ("reserved_word", c_int32),
        ("reserved", c_uint64 * 2),
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
        ("timeout_ns", c_uint64),
        ("to_host", c_int32),
        ("reserved_word", c_int32),
        ("snapshot_id", c_uint8 * 16),
        ("reserved", c_uint64 * 2),
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
        ("position", c_uint64),
        ("pages", c_uint64),
        ("bytes", c_uint64),
        ("file_pages", c_uint64),
        ("file_bytes", c_uint64),
        ("edges", c_uint64),
        ("chain", c_uint32),
        ("reserved_word", c_uint32),
        ("lineage", c_uint8 * 16),
        ("parent", c_uint8 * 16),
        ("fork", c_uint64),
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


class Dependency(ctypes.Structure):
    _fields_ = (
        ("parent", c_uint64),
        ("child", c_uint64),
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
        ("base", c_int32),
        ("reserved_word", c_uint32),
        ("timeout_ns", c_uint64),
        ("reserved", c_uint64 * 2),
    )


class JournalInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("segments", c_uint32),
        ("first", c_uint64),
        ("last", c_uint64),
        ("synced", c_uint64),
        ("bytes", c_uint64),
        ("waits", c_uint64),
        ("waited_ns", c_uint64),
        ("space_waited_ns", c_uint64),
        ("reserved", c_uint64 * 1),
    )


class JournalDirectory(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("closed", c_int32),
        ("lineage", c_uint8 * 16),
        ("parent", c_uint8 * 16),
        ("fork", c_uint64),
        ("branch", c_uint64),
        ("branches", c_uint64),
        ("segments", c_uint64),
        ("first", c_uint64),
        ("last", c_uint64),
        ("first_time_ns", c_int64),
        ("last_time_ns", c_int64),
        ("torn_bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class JournalSegment(ctypes.Structure):
    _fields_ = (
        ("name", c_char * 64),
        ("first", c_uint64),
        ("last", c_uint64),
        ("bytes", c_uint64),
        ("created_ns", c_int64),
        ("based", c_int32),
        ("reserved_word", c_uint32),
        ("reserved", c_uint64 * 2),
    )


class JournalRecord(ctypes.Structure):
    _fields_ = (
        ("record", c_uint64),
        ("group", c_uint64),
        ("time_ns", c_int64),
        ("page", c_uint64),
        ("version", c_uint64),
        ("epoch", c_uint64),
        ("size", c_uint64),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("other", c_uint64),
        ("other_version", c_uint64),
        ("kind", c_int32),
        ("location", c_int32),
        ("device", c_int32),
        ("numa_node", c_int32),
        ("form", c_int32),
        ("adopted", c_int32),
        ("read_only", c_int32),
        ("reserved_word", c_uint32),
        ("key", c_char * 64),
        ("source", c_char * 64),
        ("intent", c_char * 64),
        ("reserved", c_uint64 * 4),
    )


class StoreOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("mode", c_int32),
        ("at_name", c_char_p),
        ("at_record", c_uint64),
        ("at_time_ns", c_int64),
        ("load", c_int32),
        ("durability", c_int32),
        ("interval_ms", c_uint32),
        ("keep_last", c_int32),
        ("segment_bytes", c_uint64),
        ("save_bytes", c_uint64),
        ("save_interval_ns", c_uint64),
        ("keep_hourly", c_int32),
        ("keep_daily", c_int32),
        ("timeout_ns", c_uint64),
        ("space_wait_ns", c_uint64),
        ("reserved", c_uint64 * 3),
    )


class StoreInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("reserved_word", c_uint32),
        ("snapshots", c_uint64),
        ("snapshot_bytes", c_uint64),
        ("journal_bytes", c_uint64),
        ("first_record", c_uint64),
        ("last_record", c_uint64),
        ("unsaved_bytes", c_uint64),
        ("saves", c_uint64),
        ("whole_saves", c_uint64),
        ("failed_saves", c_uint64),
        ("saved_bytes", c_uint64),
        ("last_save_ns", c_int64),
        ("pruned", c_uint64),
        ("pruned_bytes", c_uint64),
        ("followed_ns", c_int64),
        ("reloads", c_uint64),
        ("follow_failures", c_uint64),
        ("waits", c_uint64),
        ("waited_ns", c_uint64),
        ("reserved", c_uint64 * 1),
    )


class StorePoint(ctypes.Structure):
    _fields_ = (
        ("id", c_uint8 * 16),
        ("lineage", c_uint8 * 16),
        ("position", c_uint64),
        ("taken_ns", c_int64),
        ("bytes", c_uint64),
        ("whole", c_int32),
        ("on_line", c_int32),
        ("leads", c_int32),
        ("names", c_int32),
        ("name", c_char * 256),
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
        ("managed_hints", c_int32),
        ("reserved_word", c_int32),
        ("reserved", c_uint64 * 3),
    )


class DeviceMemory(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("runtimes", c_uint32),
        ("budget", c_uint64),
        ("charged", c_uint64),
        ("charged_peak", c_uint64),
        ("pool_free", c_uint64),
        ("asked", c_uint64),
        ("helped", c_uint64),
        ("returned", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class Link(ctypes.Structure):
    _fields_ = (
        ("number", c_int32),
        ("version", c_int32),
        ("remote", c_char * 24),
    )


class Telemetry(ctypes.Structure):
    _fields_ = (
        ("name", c_char * 96),
        ("uuid", c_char * 48),
        ("pci", c_char * 24),
        ("driver_version", c_char * 32),
        ("memory_total", c_int64),
        ("memory_used", c_int64),
        ("memory_of_this_process", c_int64),
        ("memory_of_others", c_int64),
        ("utilization", c_int32),
        ("memory_utilization", c_int32),
        ("temperature", c_int32),
        ("pcie_generation", c_int32),
        ("pcie_lanes", c_int32),
        ("numa_node", c_int32),
        ("link_count", c_int32),
        ("reserved_word", c_int32),
        ("links", Link * 18),
        ("reserved", c_uint64 * 4),
    )


RefusedFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint32, c_int32)


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
        ("pool", c_char_p),
        ("memory_wait_ns", c_uint64),
        ("reserved", c_uint64 * 2),
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
        ("pool_reserved", c_uint64),
        ("pool_held", c_uint64),
        ("pool_largest_free", c_uint64),
        ("pool_moved", c_uint64),
        ("pool_retries", c_uint64),
        ("pool_misses", c_uint64),
        ("sleeping", c_uint64),
        ("sleeping_kept", c_uint64),
        ("sleeping_copied", c_uint64),
        ("refused_calls", c_uint64),
        ("reserved", c_uint64 * 1),
    )


class MemoryStat(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("value", c_uint64),
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
        ("asleep", c_uint64),
        ("reserved", c_uint64 * 3),
    )


class SleepOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("mode", c_int32),
        ("folder", c_char_p),
        ("timeout_ns", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class Access(ctypes.Structure):
    _fields_ = (
        ("block", c_uint64),
        ("access", c_int32),
        ("reserved", c_int32),
    )


class Copy(ctypes.Structure):
    _fields_ = (
        ("to", c_void_p),
        ("from", c_void_p),
        ("bytes", c_uint64),
        ("reserved", c_uint64),
    )


class Propagation(ctypes.Structure):
    _fields_ = (
        ("to", c_void_p),
        ("from", c_void_p),
        ("mask", c_void_p),
        ("changed", c_void_p),
        ("bytes", c_uint64),
        ("reserved", c_uint64),
    )


class TensorOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("versioned", c_int32),
        ("read_only", c_int32),
        ("ndim", c_int32),
        ("code", c_uint32),
        ("bits", c_uint32),
        ("lanes", c_uint32),
        ("reserved_word", c_uint32),
        ("offset", c_uint64),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("reserved", c_uint64 * 4),
    )


class TensorInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("device_type", c_int32),
        ("device", c_int32),
        ("read_only", c_int32),
        ("copied", c_int32),
        ("reserved_word", c_uint32),
        ("address", c_void_p),
        ("bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    )


# The number by which mmsb_sizeof knows each struct.
STRUCTS: dict[int, type[ctypes.Structure]] = {
    STRUCT_ERROR_DETAIL: ErrorDetail,
    STRUCT_CAPABILITY: Capability,
    STRUCT_CONTEXT_OPTIONS: ContextOptions,
    STRUCT_CONTEXT_STATS: ContextStats,
    STRUCT_GUARD_REPORT: GuardReport,
    STRUCT_MEMORY_USAGE: MemoryUsage,
    STRUCT_WORK_OPTIONS: WorkOptions,
    STRUCT_PAGE_OPTIONS: PageOptions,
    STRUCT_ADOPT_OPTIONS: AdoptOptions,
    STRUCT_PAGE_INFO: PageInfo,
    STRUCT_PAGE_RANGE: PageRange,
    STRUCT_PAGE_COPY: PageCopy,
    STRUCT_LOST_PAGE: LostPage,
    STRUCT_SYNC_STATS: SyncStats,
    STRUCT_PAGE_ADVICE: PageAdvice,
    STRUCT_RUN: Run,
    STRUCT_DELTA: Delta,
    STRUCT_PAGE_RUNS: PageRuns,
    STRUCT_DIFFERENCE: Difference,
    STRUCT_COMMANDS_OPTIONS: CommandsOptions,
    STRUCT_COMMANDS_STATS: CommandsStats,
    STRUCT_COMMAND_FAILURE: CommandFailure,
    STRUCT_SAVE_OPTIONS: SaveOptions,
    STRUCT_LOAD_OPTIONS: LoadOptions,
    STRUCT_SAVE_STATS: SaveStats,
    STRUCT_SNAPSHOT_INFO: SnapshotInfo,
    STRUCT_SNAPSHOT_PAGE: SnapshotPage,
    STRUCT_DEPENDENCY: Dependency,
    STRUCT_SNAPSHOT_CHANGE: SnapshotChange,
    STRUCT_JOURNAL_OPTIONS: JournalOptions,
    STRUCT_JOURNAL_INFO: JournalInfo,
    STRUCT_JOURNAL_DIRECTORY: JournalDirectory,
    STRUCT_JOURNAL_SEGMENT: JournalSegment,
    STRUCT_JOURNAL_RECORD: JournalRecord,
    STRUCT_STORE_OPTIONS: StoreOptions,
    STRUCT_STORE_INFO: StoreInfo,
    STRUCT_STORE_POINT: StorePoint,
    STRUCT_DEVICE_INFO: DeviceInfo,
    STRUCT_DEVICE_MEMORY: DeviceMemory,
    STRUCT_LINK: Link,
    STRUCT_TELEMETRY: Telemetry,
    STRUCT_RUNTIME_OPTIONS: RuntimeOptions,
    STRUCT_RUNTIME_STATS: RuntimeStats,
    STRUCT_MEMORY_STAT: MemoryStat,
    STRUCT_TAG_STATS: TagStats,
    STRUCT_BLOCK_INFO: BlockInfo,
    STRUCT_SLEEP_OPTIONS: SleepOptions,
    STRUCT_ACCESS: Access,
    STRUCT_COPY: Copy,
    STRUCT_PROPAGATION: Propagation,
    STRUCT_TENSOR_OPTIONS: TensorOptions,
    STRUCT_TENSOR_INFO: TensorInfo,
}
# Each function's result and parameters.
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
    "mmsb_guard_report_init": (None, (POINTER(GuardReport),)),
    "mmsb_guard_check": (c_int32, (c_uint64, POINTER(GuardReport), POINTER(c_uint64))),
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
    "mmsb_page_create_with_address": (c_int32, (c_uint64, c_uint64, POINTER(PageOptions), POINTER(c_uint64), POINTER(c_void_p))),
    "mmsb_page_create_many": (c_int32, (c_uint64, c_uint64, c_size_t, POINTER(PageOptions), POINTER(WorkOptions), c_void_p)),
    "mmsb_page_create_many_start": (
        c_int32,
        (c_uint64, c_uint64, c_size_t, POINTER(PageOptions), POINTER(WorkOptions), c_void_p, POINTER(c_uint64)),
    ),
    "mmsb_page_clone": (c_int32, (c_uint64, c_uint64, POINTER(c_uint64))),
    "mmsb_page_clone_many": (c_int32, (c_void_p, c_void_p, c_size_t, c_void_p, POINTER(c_size_t))),
    "mmsb_adopt_options_init": (None, (POINTER(AdoptOptions),)),
    "mmsb_page_adopt": (c_int32, (c_uint64, c_void_p, c_uint64, POINTER(AdoptOptions), POINTER(c_uint64))),
    "mmsb_page_adopt_many": (
        c_int32,
        (c_uint64, POINTER(c_void_p), c_void_p, c_void_p, c_size_t, POINTER(AdoptOptions), c_void_p, POINTER(c_size_t)),
    ),
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
    "mmsb_page_id": (c_uint64, (c_uint64,)),
    "mmsb_page_location": (c_int32, (c_uint64,)),
    "mmsb_page_size": (c_uint64, (c_uint64,)),
    "mmsb_page_epoch": (c_uint64, (c_uint64,)),
    "mmsb_page_version": (c_uint64, (c_uint64,)),
    "mmsb_page_pin": (c_int32, (c_uint64, c_int32, POINTER(c_void_p))),
    "mmsb_page_unpin": (c_int32, (c_uint64, c_int32)),
    "mmsb_page_pin_many": (c_int32, (c_void_p, c_size_t, c_int32, POINTER(c_void_p), POINTER(c_size_t))),
    "mmsb_page_unpin_many": (c_int32, (c_void_p, c_size_t, c_int32, POINTER(c_size_t))),
    "mmsb_writing_begin": (c_int32, (c_uint64, c_uint64)),
    "mmsb_writing_end": (c_int32, (c_uint64,)),
    "mmsb_writing_check": (c_int32, (c_uint64,)),
    "mmsb_page_read": (c_int32, (c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_page_write": (c_int32, (c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_page_read_many": (c_int32, (POINTER(PageRange), c_size_t, POINTER(c_size_t))),
    "mmsb_page_write_many": (c_int32, (POINTER(PageRange), c_size_t, POINTER(c_size_t))),
    "mmsb_page_resize": (c_int32, (c_uint64, c_uint64)),
    "mmsb_page_resize_many": (c_int32, (c_void_p, c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_page_migrate": (c_int32, (c_uint64, c_int32, c_int32)),
    "mmsb_page_migrate_many": (
        c_int32,
        (c_void_p, c_size_t, c_int32, c_int32, POINTER(WorkOptions), c_void_p, POINTER(c_size_t)),
    ),
    "mmsb_page_migrate_many_start": (
        c_int32,
        (c_void_p, c_size_t, c_int32, c_int32, POINTER(WorkOptions), c_void_p, POINTER(c_uint64)),
    ),
    "mmsb_page_sync": (c_int32, (c_uint64, c_int32, c_int32)),
    "mmsb_page_sync_many": (c_int32, (c_void_p, c_size_t, c_int32, c_int32, POINTER(WorkOptions), c_void_p, POINTER(c_size_t))),
    "mmsb_page_sync_many_start": (
        c_int32,
        (c_void_p, c_size_t, c_int32, c_int32, POINTER(WorkOptions), c_void_p, POINTER(c_uint64)),
    ),
    "mmsb_page_sync_enqueue": (c_int32, (c_void_p, c_size_t, c_int32, c_int32, POINTER(c_size_t))),
    "mmsb_context_sync_drain": (c_int32, (c_uint64, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_context_prefetch": (c_int32, (c_uint64, c_void_p, c_size_t, c_int32, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_context_prefetch_start": (c_int32, (c_uint64, c_void_p, c_size_t, c_int32, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_page_copies": (c_int32, (c_uint64, POINTER(PageCopy), c_size_t, POINTER(c_size_t))),
    "mmsb_context_device_pages": (c_int32, (c_uint64, c_int32, POINTER(c_uint64), c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_page_replicate": (c_int32, (c_uint64, c_int32)),
    "mmsb_page_replica_drop": (c_int32, (c_uint64, c_int32)),
    "mmsb_context_lost_pages": (c_int32, (c_uint64, POINTER(LostPage), c_size_t, POINTER(c_size_t))),
    "mmsb_page_host_copy_drop": (c_int32, (c_uint64,)),
    "mmsb_page_host_copy_pin": (c_int32, (c_uint64, c_int32, POINTER(c_void_p))),
    "mmsb_page_host_copy_unpin": (c_int32, (c_uint64, c_int32)),
    "mmsb_sync_stats_init": (None, (POINTER(SyncStats),)),
    "mmsb_context_sync_stats": (c_int32, (c_uint64, POINTER(SyncStats))),
    "mmsb_page_advice_init": (None, (POINTER(PageAdvice),)),
    "mmsb_page_advise": (c_int32, (c_uint64, POINTER(PageAdvice))),
    "mmsb_page_advice": (c_int32, (c_uint64, POINTER(PageAdvice))),
    "mmsb_prefetch_distance": (c_int32, (c_void_p, c_size_t, POINTER(c_uint32))),
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
    "mmsb_page_compare": (c_int32, (c_uint64, c_uint64, POINTER(Difference))),
    "mmsb_page_differences": (c_int32, (c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_page_checksum": (c_int32, (c_uint64, c_uint64, c_uint64, POINTER(c_uint32))),
    "mmsb_checksum_join": (c_uint32, (c_uint32, c_uint32, c_uint64)),
    "mmsb_page_propagate": (c_int32, (c_uint64, c_uint64)),
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
    "mmsb_group_begin": (c_int32, (c_uint64,)),
    "mmsb_group_begin_within": (c_int32, (c_uint64, c_uint64)),
    "mmsb_group_commit": (c_int32, (c_uint64,)),
    "mmsb_group_rollback": (c_int32, (c_uint64,)),
    "mmsb_commands_options_init": (None, (POINTER(CommandsOptions),)),
    "mmsb_commands_create": (c_int32, (POINTER(CommandsOptions), POINTER(c_uint64))),
    "mmsb_commands_destroy": (c_int32, (c_uint64,)),
    "mmsb_commands_enqueue": (c_int32, (c_uint64, c_uint64, c_void_p, c_size_t, c_uint64)),
    "mmsb_commands_wait": (c_int32, (c_uint64, c_uint64)),
    "mmsb_commands_drain": (c_int32, (c_uint64, c_uint64, POINTER(c_uint64))),
    "mmsb_commands_close": (c_int32, (c_uint64, c_int32, c_uint64)),
    "mmsb_commands_stats_init": (None, (POINTER(CommandsStats),)),
    "mmsb_commands_stats": (c_int32, (c_uint64, POINTER(CommandsStats))),
    "mmsb_commands_failures": (c_int32, (c_uint64, POINTER(CommandFailure), c_size_t, POINTER(c_size_t))),
    "mmsb_save_options_init": (None, (POINTER(SaveOptions),)),
    "mmsb_snapshot_save": (c_int32, (c_uint64, c_char_p, POINTER(SaveOptions))),
    "mmsb_snapshot_save_start": (c_int32, (c_uint64, c_char_p, POINTER(SaveOptions), POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_snapshot_save_descriptor": (c_int32, (c_uint64, c_int32, POINTER(SaveOptions))),
    "mmsb_snapshot_save_descriptor_start": (
        c_int32,
        (c_uint64, c_int32, POINTER(SaveOptions), POINTER(WorkOptions), POINTER(c_uint64)),
    ),
    "mmsb_snapshot_save_memory": (c_int32, (c_uint64, POINTER(SaveOptions), POINTER(c_void_p), POINTER(c_uint64))),
    "mmsb_snapshot_save_memory_start": (
        c_int32,
        (c_uint64, POINTER(SaveOptions), POINTER(WorkOptions), POINTER(c_void_p), POINTER(c_uint64), POINTER(c_uint64)),
    ),
    "mmsb_snapshot_free_memory": (c_int32, (c_void_p,)),
    "mmsb_load_options_init": (None, (POINTER(LoadOptions),)),
    "mmsb_snapshot_load": (c_int32, (c_uint64, c_char_p, POINTER(LoadOptions))),
    "mmsb_snapshot_load_start": (c_int32, (c_uint64, c_char_p, POINTER(LoadOptions), POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_snapshot_load_descriptor": (c_int32, (c_uint64, c_int32, POINTER(LoadOptions))),
    "mmsb_snapshot_load_descriptor_start": (
        c_int32,
        (c_uint64, c_int32, POINTER(LoadOptions), POINTER(WorkOptions), POINTER(c_uint64)),
    ),
    "mmsb_snapshot_load_memory": (c_int32, (c_uint64, c_void_p, c_uint64, POINTER(LoadOptions))),
    "mmsb_snapshot_load_memory_start": (
        c_int32,
        (c_uint64, c_void_p, c_uint64, POINTER(LoadOptions), POINTER(WorkOptions), POINTER(c_uint64)),
    ),
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
    "mmsb_snapshot_dependencies": (c_int32, (c_uint64, POINTER(Dependency), c_size_t, POINTER(c_size_t))),
    "mmsb_snapshot_mask_read": (c_int32, (c_uint64, c_uint64, c_uint64, c_void_p, c_uint64)),
    "mmsb_snapshot_verify": (c_int32, (c_char_p, POINTER(WorkOptions))),
    "mmsb_snapshot_verify_start": (c_int32, (c_char_p, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_snapshot_diff": (
        c_int32,
        (c_uint64, c_uint64, POINTER(WorkOptions), POINTER(SnapshotChange), c_size_t, POINTER(c_size_t)),
    ),
    "mmsb_snapshot_diff_start": (
        c_int32,
        (c_uint64, c_uint64, POINTER(WorkOptions), POINTER(SnapshotChange), c_size_t, POINTER(c_size_t), POINTER(c_uint64)),
    ),
    "mmsb_snapshot_compact": (c_int32, (c_char_p, c_char_p, POINTER(SaveOptions))),
    "mmsb_snapshot_compact_start": (c_int32, (c_char_p, c_char_p, POINTER(SaveOptions), POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_journal_options_init": (None, (POINTER(JournalOptions),)),
    "mmsb_journal_open": (c_int32, (c_uint64, c_char_p, POINTER(JournalOptions))),
    "mmsb_journal_open_start": (c_int32, (c_uint64, c_char_p, POINTER(JournalOptions), POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_journal_sync": (c_int32, (c_uint64, POINTER(WorkOptions))),
    "mmsb_journal_sync_start": (c_int32, (c_uint64, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_journal_close": (c_int32, (c_uint64,)),
    "mmsb_journal_trim": (c_int32, (c_uint64, c_char_p, POINTER(WorkOptions))),
    "mmsb_journal_trim_start": (c_int32, (c_uint64, c_char_p, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_journal_info_init": (None, (POINTER(JournalInfo),)),
    "mmsb_journal_info": (c_int32, (c_uint64, POINTER(JournalInfo))),
    "mmsb_journal_directory_init": (None, (POINTER(JournalDirectory),)),
    "mmsb_journal_directory": (c_int32, (c_char_p, POINTER(JournalDirectory))),
    "mmsb_journal_segments": (c_int32, (c_char_p, POINTER(JournalSegment), c_size_t, POINTER(c_size_t))),
    "mmsb_journal_records": (c_int32, (c_char_p, POINTER(c_uint64), POINTER(JournalRecord), c_size_t, POINTER(c_size_t))),
    "mmsb_store_options_init": (None, (POINTER(StoreOptions),)),
    "mmsb_store_open": (c_int32, (c_char_p, POINTER(ContextOptions), POINTER(StoreOptions), POINTER(c_uint64))),
    "mmsb_store_open_start": (
        c_int32,
        (c_char_p, POINTER(ContextOptions), POINTER(StoreOptions), POINTER(WorkOptions), POINTER(c_uint64), POINTER(c_uint64)),
    ),
    "mmsb_store_save": (c_int32, (c_uint64, c_int32, POINTER(WorkOptions))),
    "mmsb_store_save_start": (c_int32, (c_uint64, c_int32, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_store_name": (c_int32, (c_uint64, c_char_p, POINTER(WorkOptions))),
    "mmsb_store_name_start": (c_int32, (c_uint64, c_char_p, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_store_unname": (c_int32, (c_uint64, c_char_p, POINTER(WorkOptions))),
    "mmsb_store_info_init": (None, (POINTER(StoreInfo),)),
    "mmsb_store_info": (c_int32, (c_uint64, POINTER(StoreInfo))),
    "mmsb_store_wait": (c_int32, (c_uint64, c_uint64, POINTER(WorkOptions))),
    "mmsb_store_wait_start": (c_int32, (c_uint64, c_uint64, POINTER(WorkOptions), POINTER(c_uint64))),
    "mmsb_store_points": (c_int32, (c_char_p, POINTER(StorePoint), c_size_t, POINTER(c_size_t))),
    "mmsb_device_list": (c_int32, (c_uint64, POINTER(DeviceInfo), c_size_t, POINTER(c_size_t))),
    "mmsb_device_budget": (c_int32, (c_uint64, c_int32, c_uint64)),
    "mmsb_device_memory_init": (None, (POINTER(DeviceMemory),)),
    "mmsb_device_memory": (c_int32, (c_uint64, c_int32, POINTER(DeviceMemory))),
    "mmsb_telemetry_list": (c_int32, (POINTER(Telemetry), c_size_t, POINTER(c_size_t))),
    "mmsb_telemetry_paths": (c_int32, (c_void_p, c_size_t, POINTER(c_size_t))),
    "mmsb_runtime_options_init": (None, (POINTER(RuntimeOptions),)),
    "mmsb_runtime_shared": (c_int32, (c_uint64, c_int32, POINTER(c_uint64))),
    "mmsb_runtime_create": (c_int32, (c_uint64, c_int32, POINTER(RuntimeOptions), POINTER(c_uint64))),
    "mmsb_runtime_destroy": (c_int32, (c_uint64,)),
    "mmsb_runtime_stats_init": (None, (POINTER(RuntimeStats),)),
    "mmsb_runtime_stats": (c_int32, (c_uint64, POINTER(RuntimeStats))),
    "mmsb_runtime_device": (c_int32, (c_uint64, POINTER(c_int32))),
    "mmsb_runtime_reap": (c_int32, (c_uint64,)),
    "mmsb_runtime_trim": (c_int32, (c_uint64, c_uint64)),
    "mmsb_runtime_log_write": (c_int32, (c_uint64, c_int32)),
    "mmsb_runtime_snapshot_write": (c_int32, (c_uint64, c_int32, c_int32)),
    "mmsb_runtime_memory_stats": (c_int32, (c_uint64, POINTER(MemoryStat), c_size_t, POINTER(c_size_t))),
    "mmsb_tag_of": (c_int32, (c_char_p, POINTER(c_uint32))),
    "mmsb_runtime_tag_stats": (c_int32, (c_uint64, c_uint32, POINTER(TagStats))),
    "mmsb_reservation_create": (c_int32, (c_uint64, c_uint64, POINTER(c_uint64))),
    "mmsb_reservation_destroy": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_stream_create": (c_int32, (c_uint64, c_int32, POINTER(c_uint64))),
    "mmsb_stream_wrap": (c_int32, (c_uint64, c_void_p, POINTER(c_uint64))),
    "mmsb_stream_destroy": (c_int32, (c_uint64,)),
    "mmsb_stream_native": (c_int32, (c_uint64, POINTER(c_void_p))),
    "mmsb_stream_device": (c_int32, (c_uint64, POINTER(c_int32))),
    "mmsb_stream_wait": (c_int32, (c_uint64, c_uint64)),
    "mmsb_stream_copy": (c_int32, (c_uint64, c_void_p, c_void_p, c_uint64)),
    "mmsb_stream_fill": (c_int32, (c_uint64, c_void_p, c_uint8, c_uint64)),
    "mmsb_stream_record": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_stream_after": (c_int32, (c_uint64, c_uint64)),
    "mmsb_stream_after_native": (c_int32, (c_uint64, c_void_p)),
    "mmsb_block_allocate": (c_int32, (c_uint64, c_uint64, c_uint32, c_uint64, POINTER(c_uint64), POINTER(c_void_p))),
    "mmsb_block_free": (c_int32, (c_uint64, c_uint64, POINTER(c_int32))),
    "mmsb_block_info_init": (None, (POINTER(BlockInfo),)),
    "mmsb_block_info": (c_int32, (c_uint64, POINTER(BlockInfo))),
    "mmsb_block_at": (c_int32, (c_uint64, c_void_p, POINTER(c_uint64), POINTER(c_uint64))),
    "mmsb_page_block": (c_int32, (c_uint64, POINTER(c_uint64))),
    "mmsb_pool_partition": (c_int32, (c_uint64, c_uint32)),
    "mmsb_sleep_options_init": (None, (POINTER(SleepOptions),)),
    "mmsb_pool_sleep": (c_int32, (c_uint64, c_void_p, c_size_t, POINTER(SleepOptions))),
    "mmsb_pool_wake": (c_int32, (c_uint64, c_void_p, c_size_t)),
    "mmsb_capture_begin": (c_int32, (c_void_p, c_size_t, POINTER(c_uint64))),
    "mmsb_capture_resume": (c_int32, (c_uint64, c_void_p, c_size_t)),
    "mmsb_capture_end": (c_int32, (c_uint64,)),
    "mmsb_capture_destroy": (c_int32, (c_uint64,)),
    "mmsb_use_begin": (c_int32, (c_uint64, POINTER(Access), c_size_t, POINTER(c_uint64), POINTER(c_size_t))),
    "mmsb_use_address": (c_int32, (c_uint64, c_uint64, POINTER(c_void_p))),
    "mmsb_use_end": (c_int32, (c_uint64,)),
    "mmsb_use_abort": (c_int32, (c_uint64,)),
    "mmsb_use_record": (c_int32, (c_uint64, c_int32, POINTER(c_uint64))),
    "mmsb_use_add": (c_int32, (c_uint64, c_uint64, c_int32)),
    "mmsb_use_begin_recorded": (c_int32, (c_uint64,)),
    "mmsb_stream_copy_many": (c_int32, (c_uint64, POINTER(Copy), c_size_t, POINTER(c_size_t))),
    "mmsb_stream_compare": (c_int32, (c_uint64, c_void_p, c_void_p, c_void_p, c_uint64)),
    "mmsb_stream_difference": (c_int32, (c_uint64, POINTER(Difference), c_void_p, c_void_p, c_uint64)),
    "mmsb_stream_differences": (c_int32, (c_uint64, c_void_p, c_void_p, c_void_p, c_uint64)),
    "mmsb_stream_checksum": (c_int32, (c_uint64, c_void_p, c_void_p, c_uint64, c_uint64)),
    "mmsb_stream_merge": (c_int32, (c_uint64, c_void_p, c_void_p, c_int32, c_void_p, c_uint64, c_void_p)),
    "mmsb_stream_scatter": (c_int32, (c_uint64, c_void_p, c_uint64, c_void_p, c_uint32, c_uint64, c_void_p, c_uint64)),
    "mmsb_stream_propagate": (c_int32, (c_uint64, POINTER(Propagation), c_size_t, POINTER(c_size_t))),
    "mmsb_plugin_allocate": (c_int32, (c_uint64, c_uint64, c_void_p, c_int32, POINTER(c_void_p))),
    "mmsb_plugin_free": (c_int32, (c_void_p, c_void_p)),
    "mmsb_plugin_record": (c_int32, (c_void_p, c_void_p)),
    "mmsb_plugin_bind": (c_int32, (c_int32, c_uint64)),
    "mmsb_torch_allocate": (c_void_p, (c_size_t, c_int32, c_void_p)),
    "mmsb_torch_allocate_segment": (c_void_p, (c_size_t, c_int32, c_void_p)),
    "mmsb_torch_free": (None, (c_void_p, c_size_t, c_int32, c_void_p)),
    "mmsb_torch_record_stream": (None, (c_void_p, c_void_p)),
    "mmsb_torch_empty_cache": (None, ()),
    "mmsb_torch_memory_fraction": (None, (c_double, c_int32)),
    "mmsb_torch_base": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "mmsb_cupy_malloc": (c_void_p, (c_void_p, c_size_t, c_int32)),
    "mmsb_cupy_free": (None, (c_void_p, c_void_p, c_int32)),
    "mmsb_tensor_options_init": (None, (POINTER(TensorOptions),)),
    "mmsb_page_export_tensor": (c_int32, (c_uint64, POINTER(TensorOptions), POINTER(c_void_p))),
    "mmsb_block_export_tensor": (c_int32, (c_uint64, c_void_p, POINTER(TensorOptions), POINTER(c_void_p))),
    "mmsb_tensor_info_init": (None, (POINTER(TensorInfo),)),
    "mmsb_tensor_info": (c_int32, (c_void_p, c_int32, POINTER(TensorInfo))),
    "mmsb_page_adopt_tensor": (c_int32, (c_uint64, c_void_p, c_int32, POINTER(AdoptOptions), POINTER(c_uint64))),
    "mmsb_tensor_to_arrow": (c_int32, (c_void_p, c_int32, c_void_p, c_void_p)),
    "mmsb_tensor_from_arrow": (c_int32, (c_void_p, c_void_p, POINTER(c_void_p))),
    "mmsb_tensor_capsule_end": (None, (c_void_p,)),
}
