# Generated from include/mmsb.h by "make generate": do not edit.

# Constants.

const MMSB_VERSION_MAJOR = Int32(0)
const MMSB_VERSION_MINOR = Int32(1)
const MMSB_VERSION_PATCH = Int32(0)
const MMSB_VERSION_STRING = "0.1.0"
const MMSB_ABI_VERSION = Int32(0)
const MMSB_OK = Int32(0)
const MMSB_E_INVALID_ARGUMENT = Int32(10)
const MMSB_E_INVALID_HANDLE = Int32(11)
const MMSB_E_STALE_HANDLE = Int32(12)
const MMSB_E_INVALID_SIZE = Int32(13)
const MMSB_E_OUT_OF_RANGE = Int32(14)
const MMSB_E_INVALID_STATE = Int32(15)
const MMSB_E_STRUCT_VERSION = Int32(16)
const MMSB_E_MISMATCH = Int32(17)
const MMSB_E_EPOCH = Int32(18)
const MMSB_E_NOT_FOUND = Int32(20)
const MMSB_E_ALREADY_EXISTS = Int32(21)
const MMSB_E_BUSY = Int32(22)
const MMSB_E_WOULD_BLOCK = Int32(23)
const MMSB_E_TIMEOUT = Int32(24)
const MMSB_E_CANCELLED = Int32(25)
const MMSB_E_OUT_OF_MEMORY = Int32(30)
const MMSB_E_LIMIT = Int32(31)
const MMSB_E_NO_SPACE = Int32(32)
const MMSB_E_NOT_DURABLE = Int32(33)
const MMSB_E_UNSUPPORTED = Int32(40)
const MMSB_E_NO_DEVICE = Int32(41)
const MMSB_E_DEVICE = Int32(42)
const MMSB_E_DEVICE_LOST = Int32(43)
const MMSB_E_FORKED = Int32(44)
const MMSB_E_IO = Int32(50)
const MMSB_E_CORRUPT = Int32(51)
const MMSB_E_FORMAT = Int32(52)
const MMSB_E_GUARD = Int32(53)
const MMSB_E_PEER = Int32(60)
const MMSB_E_INTERNAL = Int32(90)
const MMSB_E_POISONED = Int32(91)
const MMSB_KIND_PAGE = Int32(1)
const MMSB_KIND_CONTEXT = Int32(2)
const MMSB_KIND_TICKET = Int32(3)
const MMSB_KIND_SNAPSHOT = Int32(6)
const MMSB_KIND_STREAM = Int32(7)
const MMSB_KIND_BLOCK = Int32(8)
const MMSB_KIND_USE = Int32(9)
const MMSB_KIND_RUNTIME = Int32(11)
const MMSB_KIND_RESERVATION = Int32(12)
const MMSB_KIND_CAPTURE = Int32(13)
const MMSB_KIND_COMMANDS = Int32(14)
const MMSB_KIND_DELTA = Int32(4)
const MMSB_KIND_MEMORY = Int32(5)
const MMSB_KIND_TENSOR = Int32(10)
const MMSB_LOCATION_DEFAULT = Int32(-1)
const MMSB_LOCATION_CPU = Int32(0)
const MMSB_LOCATION_GPU = Int32(1)
const MMSB_LOCATION_UNIFIED = Int32(2)
const MMSB_LOCATION_PINNED = Int32(3)
const MMSB_LOCATION_DISK = Int32(4)
const MMSB_DEVICE_HOST = Int32(-1)
const MMSB_DEVICE_NONE = Int32(-2)
const MMSB_DEVICE_STAND_IN = Int32(1024)
const MMSB_DOMAIN_NONE = Int32(0)
const MMSB_DOMAIN_ERRNO = Int32(1)
const MMSB_DOMAIN_CUDA = Int32(2)
const MMSB_DOMAIN_NCCL = Int32(3)
const MMSB_DOMAIN_NIXL = Int32(4)
const MMSB_LOG_OFF = Int32(0)
const MMSB_LOG_ERROR = Int32(1)
const MMSB_LOG_WARNING = Int32(2)
const MMSB_LOG_INFO = Int32(3)
const MMSB_LOG_DEBUG = Int32(4)
const MMSB_STRUCT_ERROR_DETAIL = Int32(1)
const MMSB_STRUCT_CAPABILITY = Int32(2)
const MMSB_STRUCT_CONTEXT_OPTIONS = Int32(3)
const MMSB_STRUCT_CONTEXT_STATS = Int32(4)
const MMSB_STRUCT_MEMORY_USAGE = Int32(5)
const MMSB_STRUCT_PAGE_OPTIONS = Int32(6)
const MMSB_STRUCT_PAGE_INFO = Int32(7)
const MMSB_STRUCT_PAGE_RANGE = Int32(8)
const MMSB_STRUCT_ADOPT_OPTIONS = Int32(9)
const MMSB_STRUCT_WORK_OPTIONS = Int32(10)
const MMSB_STRUCT_RUN = Int32(11)
const MMSB_STRUCT_DELTA = Int32(12)
const MMSB_STRUCT_PAGE_RUNS = Int32(13)
const MMSB_STRUCT_SAVE_OPTIONS = Int32(14)
const MMSB_STRUCT_LOAD_OPTIONS = Int32(15)
const MMSB_STRUCT_SAVE_STATS = Int32(16)
const MMSB_STRUCT_SNAPSHOT_INFO = Int32(17)
const MMSB_STRUCT_SNAPSHOT_PAGE = Int32(18)
const MMSB_STRUCT_SNAPSHOT_CHANGE = Int32(19)
const MMSB_STRUCT_JOURNAL_OPTIONS = Int32(20)
const MMSB_STRUCT_JOURNAL_INFO = Int32(21)
const MMSB_STRUCT_DEVICE_INFO = Int32(22)
const MMSB_STRUCT_RUNTIME_OPTIONS = Int32(23)
const MMSB_STRUCT_RUNTIME_STATS = Int32(24)
const MMSB_STRUCT_TAG_STATS = Int32(25)
const MMSB_STRUCT_BLOCK_INFO = Int32(26)
const MMSB_STRUCT_ACCESS = Int32(27)
const MMSB_STRUCT_DEPENDENCY = Int32(28)
const MMSB_STRUCT_JOURNAL_DIRECTORY = Int32(29)
const MMSB_STRUCT_JOURNAL_SEGMENT = Int32(30)
const MMSB_STRUCT_JOURNAL_RECORD = Int32(31)
const MMSB_STRUCT_LINK = Int32(32)
const MMSB_STRUCT_TELEMETRY = Int32(33)
const MMSB_STRUCT_GUARD_REPORT = Int32(34)
const MMSB_STRUCT_STORE_OPTIONS = Int32(35)
const MMSB_STRUCT_STORE_INFO = Int32(36)
const MMSB_STRUCT_STORE_POINT = Int32(37)
const MMSB_STRUCT_DEVICE_MEMORY = Int32(38)
const MMSB_STRUCT_SLEEP_OPTIONS = Int32(39)
const MMSB_STRUCT_MEMORY_STAT = Int32(40)
const MMSB_STRUCT_COMMANDS_OPTIONS = Int32(41)
const MMSB_STRUCT_COMMANDS_STATS = Int32(42)
const MMSB_STRUCT_COMMAND_FAILURE = Int32(43)
const MMSB_STRUCT_COPY = Int32(44)
const MMSB_STRUCT_PROPAGATION = Int32(45)
const MMSB_STRUCT_DIFFERENCE = Int32(46)
const MMSB_STRUCT_PAGE_COPY = Int32(47)
const MMSB_STRUCT_SYNC_STATS = Int32(48)
const MMSB_STRUCT_TENSOR_OPTIONS = Int32(49)
const MMSB_STRUCT_TENSOR_INFO = Int32(50)
const MMSB_STRUCT_PAGE_ADVICE = Int32(51)
const MMSB_STRUCT_LOST_PAGE = Int32(52)
const MMSB_SIMULATE_OFF = Int32(0)
const MMSB_SIMULATE_IF_NO_GPU = Int32(1)
const MMSB_SIMULATE_ALWAYS = Int32(2)
const MMSB_FALLBACK_ERROR = Int32(0)
const MMSB_FALLBACK_HOST = Int32(1)
const MMSB_FALLBACK_SIMULATE = Int32(2)
const MMSB_GUARD_BEFORE = Int32(1)
const MMSB_GUARD_BEHIND = Int32(2)
const MMSB_GUARD_ENDED = Int32(3)
const MMSB_GUARD_LEFT = Int32(4)
const MMSB_WAIT_FOREVER = UInt64(18446744073709551615)
const MMSB_PAGE_ZEROED = Int32(0)
const MMSB_PAGE_UNINITIALISED = Int32(1)
const MMSB_PIN_READ = Int32(1)
const MMSB_PIN_WRITE = Int32(2)
const MMSB_SYNC_TO_DEVICE = Int32(1)
const MMSB_SYNC_TO_HOST = Int32(2)
const MMSB_SYNC_BOTH = Int32(3)
const MMSB_SYNC_HOST_WINS = Int32(4)
const MMSB_SYNC_DEVICE_WINS = Int32(8)
const MMSB_SYNC_PINNED = Int32(16)
const MMSB_DELTA_DENSE_BYTES = Int32(1)
const MMSB_DELTA_DENSE_BITS = Int32(2)
const MMSB_DELTA_SPARSE_BITS = Int32(3)
const MMSB_DELTA_INDEXED = Int32(4)
const MMSB_DELTA_RUNS = Int32(5)
const MMSB_COMMANDS_COMPLETE = Int32(0)
const MMSB_COMMANDS_CANCEL = Int32(1)
const MMSB_COMPRESSION_NONE = Int32(0)
const MMSB_COMPRESSION_ZSTD = Int32(1)
const MMSB_RAW_WRITES_ALLOW = Int32(0)
const MMSB_RAW_WRITES_REFUSE = Int32(1)
const MMSB_RAW_WRITES_WAIT = Int32(2)
const MMSB_BASE_IN_USE_WHOLE = Int32(0)
const MMSB_BASE_IN_USE_REFUSE = Int32(1)
const MMSB_LOAD_EAGER = Int32(0)
const MMSB_LOAD_LAZY = Int32(1)
const MMSB_LOAD_IN_PLACE = Int32(2)
const MMSB_CHANGE_ADDED = Int32(1)
const MMSB_CHANGE_REMOVED = Int32(2)
const MMSB_CHANGE_BYTES = Int32(3)
const MMSB_CHANGE_OTHER = Int32(4)
const MMSB_DURABILITY_INTERVAL = Int32(0)
const MMSB_DURABILITY_CALL = Int32(1)
const MMSB_DURABILITY_NONE = Int32(2)
const MMSB_JOURNAL_BASE_WRITE = Int32(0)
const MMSB_JOURNAL_BASE_REFUSE = Int32(1)
const MMSB_RECORD_CREATE = Int32(1)
const MMSB_RECORD_ADOPT = Int32(2)
const MMSB_RECORD_CLONE = Int32(3)
const MMSB_RECORD_DESTROY = Int32(4)
const MMSB_RECORD_RESIZE = Int32(5)
const MMSB_RECORD_MIGRATE = Int32(6)
const MMSB_RECORD_WRITE = Int32(7)
const MMSB_RECORD_RUN = Int32(8)
const MMSB_RECORD_DELTA = Int32(9)
const MMSB_RECORD_MASK_CLEAR = Int32(10)
const MMSB_RECORD_METADATA_SET = Int32(11)
const MMSB_RECORD_METADATA_REMOVE = Int32(12)
const MMSB_RECORD_METADATA_IMPORT = Int32(13)
const MMSB_RECORD_DEPENDENCY_ADD = Int32(14)
const MMSB_RECORD_DEPENDENCY_REMOVE = Int32(15)
const MMSB_NEVER = UInt64(18446744073709551615)
const MMSB_STORE_WRITE = Int32(0)
const MMSB_STORE_READ = Int32(1)
const MMSB_STORE_BRANCH = Int32(2)
const MMSB_STORE_FOLLOW = Int32(3)
const MMSB_PATH_UNKNOWN = Int32(-1)
const MMSB_PATH_SAME_BOARD = Int32(0)
const MMSB_PATH_ONE_SWITCH = Int32(10)
const MMSB_PATH_SEVERAL_SWITCHES = Int32(20)
const MMSB_PATH_HOST_BRIDGE = Int32(30)
const MMSB_PATH_NUMA_NODE = Int32(40)
const MMSB_PATH_ACROSS_SYSTEM = Int32(50)
const MMSB_PICTURE_TORCH = Int32(0)
const MMSB_PICTURE_JSON = Int32(1)
const MMSB_PICTURE_HTML = Int32(2)
const MMSB_STREAM_HOST = UInt64(8070450532247928832)
const MMSB_SLEEP_DROP = Int32(1)
const MMSB_SLEEP_KEEP = Int32(2)
const MMSB_SLEEP_FILE = Int32(3)
const MMSB_ACCESS_READ = Int32(1)
const MMSB_ACCESS_WRITE = Int32(2)
const MMSB_ACCESS_READ_WRITE = Int32(3)
const MMSB_PLUGIN_ORDERED = Int32(0)
const MMSB_PLUGIN_SEGMENT = Int32(1)
const MMSB_TENSOR_CODE_INT = Int32(0)
const MMSB_TENSOR_CODE_UINT = Int32(1)
const MMSB_TENSOR_CODE_FLOAT = Int32(2)
const MMSB_TENSOR_CODE_HANDLE = Int32(3)
const MMSB_TENSOR_CODE_BFLOAT = Int32(4)
const MMSB_TENSOR_CODE_COMPLEX = Int32(5)
const MMSB_TENSOR_CODE_BOOL = Int32(6)
const MMSB_TENSOR_CODE_MAX = Int32(17)
const MMSB_BLOCK_STREAM = UInt64(18446744073709551615)

# Types.

const mmsb_status_t = Int32
const mmsb_context_t = UInt64
const mmsb_page_t = UInt64
const mmsb_ticket_t = UInt64
const mmsb_snapshot_t = UInt64
const mmsb_runtime_t = UInt64
const mmsb_reservation_t = UInt64
const mmsb_stream_t = UInt64
const mmsb_block_t = UInt64
const mmsb_use_t = UInt64
const mmsb_capture_t = UInt64
const mmsb_commands_t = UInt64
const mmsb_tag_t = UInt32
const mmsb_location_t = Int32
const mmsb_sync_t = Int32
const mmsb_delta_kind_t = Int32

struct mmsb_error_detail_t
    struct_size::UInt32
    code::mmsb_status_t
    domain::Int32
    foreign_code::Int32
    text::NTuple{512,UInt8}
    reserved::NTuple{4,UInt64}
end

struct mmsb_capability_t
    struct_size::UInt32
    available::Int32
    name::NTuple{32,UInt8}
    reason::NTuple{216,UInt8}
end

struct mmsb_context_options_t
    struct_size::UInt32
    default_location::mmsb_location_t
    default_device::Int32
    simulate::Int32
    simulated_devices::Int32
    fallback::Int32
    simulated_memory::UInt64
    memory_limit::UInt64
    disk_path::Ptr{UInt8}
    huge_pages::Int32
    reserved_word::Int32
    guard_every::UInt64
    guard_quarantine::UInt64
    reserved::NTuple{6,UInt64}
end

struct mmsb_context_stats_t
    struct_size::UInt32
    reserved_word::UInt32
    pages::UInt64
    bytes::UInt64
    peak_bytes::UInt64
    allocations::UInt64
    frees::UInt64
    pinned_pages::UInt64
    memory_used::UInt64
    memory_limit::UInt64
    disk_used::UInt64
    location_pages::NTuple{8,UInt64}
    location_bytes::NTuple{8,UInt64}
    guard_bytes::UInt64
    guard_reports::UInt64
    reserved::NTuple{6,UInt64}
end

struct mmsb_guard_report_t
    struct_size::UInt32
    side::Int32
    page_id::UInt64
    size::UInt64
    offset::Int64
    bytes::UInt64
    expected::UInt32
    found::UInt32
    reserved::NTuple{4,UInt64}
end

struct mmsb_memory_usage_t
    struct_size::UInt32
    reserved_word::UInt32
    page_bytes::UInt64
    record_bytes::UInt64
    mask_bytes::UInt64
    metadata_bytes::UInt64
    cache_bytes::UInt64
    disk_bytes::UInt64
    go_heap_bytes::UInt64
    reserved::NTuple{8,UInt64}
end

struct mmsb_work_options_t
    struct_size::UInt32
    device::Int32
    timeout_ns::UInt64
    stream::mmsb_stream_t
    after::Ptr{UInt64}
    after_count::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_page_options_t
    struct_size::UInt32
    location::mmsb_location_t
    device::Int32
    numa_node::Int32
    id::UInt64
    contents::UInt32
    reserved_word::UInt32
    sizes::Ptr{UInt64}
    ids::Ptr{UInt64}
    reserved::NTuple{2,UInt64}
end

struct mmsb_adopt_options_t
    struct_size::UInt32
    device::Int32
    location::mmsb_location_t
    read_only::Int32
    id::UInt64
    release::Ptr{Cvoid}
    user::Ptr{Cvoid}
    stream::Ptr{Cvoid}
    reserved::NTuple{3,UInt64}
end

struct mmsb_page_info_t
    struct_size::UInt32
    location::mmsb_location_t
    device::Int32
    numa_node::Int32
    page::mmsb_page_t
    context::mmsb_context_t
    id::UInt64
    size::UInt64
    epoch::UInt64
    version::UInt64
    read_pins::UInt32
    write_pins::UInt32
    simulated::Int32
    adopted::Int32
    read_only::Int32
    metadata_count::UInt32
    reserved::NTuple{4,UInt64}
end

struct mmsb_page_range_t
    page::mmsb_page_t
    offset::UInt64
    length::UInt64
    buffer::Ptr{Cvoid}
end

struct mmsb_page_copy_t
    location::mmsb_location_t
    device::Int32
    size::UInt64
    newer::UInt64
end

struct mmsb_lost_page_t
    page::mmsb_page_t
    id::UInt64
    size::UInt64
    lost::UInt64
    device::Int32
    reserved_word::Int32
end

struct mmsb_sync_stats_t
    struct_size::UInt32
    reserved_word::UInt32
    pages::UInt64
    bytes::UInt64
    newer_on_host::UInt64
    newer_on_device::UInt64
    to_device_bytes::UInt64
    to_host_bytes::UInt64
    to_device_ranges::UInt64
    to_host_ranges::UInt64
    queued::UInt64
    replicas::UInt64
    replica_bytes::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_page_advice_t
    struct_size::UInt32
    preferred::Int32
    read_mostly::Int32
    reserved_word::UInt32
    reserved::NTuple{2,UInt64}
end

struct mmsb_run_t
    offset::UInt64
    length::UInt64
end

struct mmsb_delta_t
    struct_size::UInt32
    kind::mmsb_delta_kind_t
    id::UInt64
    page_id::UInt64
    epoch::UInt64
    timestamp_ns::UInt64
    source::Ptr{UInt8}
    intent::Ptr{UInt8}
    mask::Ptr{Cvoid}
    mask_length::UInt64
    offsets::Ptr{UInt64}
    offsets32::Ptr{UInt32}
    runs::Ptr{mmsb_run_t}
    count::UInt64
    payload::Ptr{Cvoid}
    payload_length::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_page_runs_t
    struct_size::UInt32
    reserved_word::UInt32
    count::UInt64
    pages::Ptr{mmsb_page_t}
    offsets::Ptr{UInt64}
    lengths::Ptr{UInt64}
    uniform_length::UInt64
    payload::Ptr{Cvoid}
    payload_length::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_difference_t
    count::UInt64
    first::UInt64
end

struct mmsb_commands_options_t
    struct_size::UInt32
    workers::Int32
    capacity::UInt64
    persistent::Int32
    reserved_word::Int32
    reserved::NTuple{5,UInt64}
end

struct mmsb_commands_stats_t
    struct_size::UInt32
    workers::Int32
    capacity::UInt64
    enqueued::UInt64
    done::UInt64
    failed::UInt64
    cancelled::UInt64
    depth::UInt64
    peak::UInt64
    producers::UInt64
    refused::UInt64
    waits::UInt64
    waited_ns::UInt64
    failures_lost::UInt64
    reserved::NTuple{5,UInt64}
end

struct mmsb_command_failure_t
    struct_size::UInt32
    code::mmsb_status_t
    page::mmsb_page_t
    text::NTuple{240,UInt8}
end

struct mmsb_save_options_t
    struct_size::UInt32
    compression::Int32
    compression_level::Int32
    raw_writes::Int32
    not_durable::Int32
    base_in_use::Int32
    copy_limit::UInt64
    base::Ptr{UInt8}
    queue::Int32
    chain_limit::Int32
    timeout_ns::UInt64
    not_watched::Int32
    reserved_word::Int32
    reserved::NTuple{2,UInt64}
end

struct mmsb_load_options_t
    struct_size::UInt32
    mode::Int32
    page_ids::Ptr{UInt64}
    page_count::UInt64
    journal::Ptr{UInt8}
    journal_until::UInt64
    journal_until_time_ns::Int64
    journal_page::UInt64
    journal_epoch::UInt64
    timeout_ns::UInt64
    to_host::Int32
    reserved_word::Int32
    snapshot_id::NTuple{16,UInt8}
    reserved::NTuple{2,UInt64}
end

struct mmsb_save_stats_t
    struct_size::UInt32
    reserved_word::UInt32
    saves::UInt64
    last_pages::UInt64
    last_bytes::UInt64
    last_duration_ns::UInt64
    copied_bytes::UInt64
    copied_peak::UInt64
    waits::UInt64
    waited_ns::UInt64
    compared_bytes::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_snapshot_info_t
    struct_size::UInt32
    format::UInt32
    id::NTuple{16,UInt8}
    base::NTuple{16,UInt8}
    taken_ns::Int64
    position::UInt64
    pages::UInt64
    bytes::UInt64
    file_pages::UInt64
    file_bytes::UInt64
    edges::UInt64
    chain::UInt32
    reserved_word::UInt32
    lineage::NTuple{16,UInt8}
    parent::NTuple{16,UInt8}
    fork::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_snapshot_page_t
    id::UInt64
    size::UInt64
    epoch::UInt64
    version::UInt64
    location::mmsb_location_t
    device::Int32
    numa_node::Int32
    metadata_count::UInt32
    reserved::UInt64
end

struct mmsb_dependency_t
    parent::UInt64
    child::UInt64
end

struct mmsb_snapshot_change_t
    id::UInt64
    change::Int32
    reserved::Int32
end

struct mmsb_journal_options_t
    struct_size::UInt32
    durability::Int32
    interval_ms::UInt32
    keep::Int32
    segment_bytes::UInt64
    base::Int32
    reserved_word::UInt32
    timeout_ns::UInt64
    reserved::NTuple{2,UInt64}
end

struct mmsb_journal_info_t
    struct_size::UInt32
    segments::UInt32
    first::UInt64
    last::UInt64
    synced::UInt64
    bytes::UInt64
    waits::UInt64
    waited_ns::UInt64
    space_waited_ns::UInt64
    reserved::NTuple{1,UInt64}
end

struct mmsb_journal_directory_t
    struct_size::UInt32
    closed::Int32
    lineage::NTuple{16,UInt8}
    parent::NTuple{16,UInt8}
    fork::UInt64
    branch::UInt64
    branches::UInt64
    segments::UInt64
    first::UInt64
    last::UInt64
    first_time_ns::Int64
    last_time_ns::Int64
    torn_bytes::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_journal_segment_t
    name::NTuple{64,UInt8}
    first::UInt64
    last::UInt64
    bytes::UInt64
    created_ns::Int64
    based::Int32
    reserved_word::UInt32
    reserved::NTuple{2,UInt64}
end

struct mmsb_journal_record_t
    record::UInt64
    group::UInt64
    time_ns::Int64
    page::UInt64
    version::UInt64
    epoch::UInt64
    size::UInt64
    offset::UInt64
    bytes::UInt64
    other::UInt64
    other_version::UInt64
    kind::Int32
    location::mmsb_location_t
    device::Int32
    numa_node::Int32
    form::Int32
    adopted::Int32
    read_only::Int32
    reserved_word::UInt32
    key::NTuple{64,UInt8}
    source::NTuple{64,UInt8}
    intent::NTuple{64,UInt8}
    reserved::NTuple{4,UInt64}
end

struct mmsb_store_options_t
    struct_size::UInt32
    mode::Int32
    at_name::Ptr{UInt8}
    at_record::UInt64
    at_time_ns::Int64
    load::Int32
    durability::Int32
    interval_ms::UInt32
    keep_last::Int32
    segment_bytes::UInt64
    save_bytes::UInt64
    save_interval_ns::UInt64
    keep_hourly::Int32
    keep_daily::Int32
    timeout_ns::UInt64
    space_wait_ns::UInt64
    reserved::NTuple{3,UInt64}
end

struct mmsb_store_info_t
    struct_size::UInt32
    reserved_word::UInt32
    snapshots::UInt64
    snapshot_bytes::UInt64
    journal_bytes::UInt64
    first_record::UInt64
    last_record::UInt64
    unsaved_bytes::UInt64
    saves::UInt64
    whole_saves::UInt64
    failed_saves::UInt64
    saved_bytes::UInt64
    last_save_ns::Int64
    pruned::UInt64
    pruned_bytes::UInt64
    followed_ns::Int64
    reloads::UInt64
    follow_failures::UInt64
    waits::UInt64
    waited_ns::UInt64
    reserved::NTuple{1,UInt64}
end

struct mmsb_store_point_t
    id::NTuple{16,UInt8}
    lineage::NTuple{16,UInt8}
    position::UInt64
    taken_ns::Int64
    bytes::UInt64
    whole::Int32
    on_line::Int32
    leads::Int32
    names::Int32
    name::NTuple{256,UInt8}
end

struct mmsb_device_info_t
    ordinal::Int32
    simulated::Int32
    name::NTuple{96,UInt8}
    pci::NTuple{16,UInt8}
    uuid::NTuple{16,UInt8}
    bytes::UInt64
    free_bytes::UInt64
    granularity::UInt64
    major::Int32
    minor::Int32
    multiprocessors::Int32
    numa_node::Int32
    ordered_memory::Int32
    managed_memory::Int32
    managed_hints::Int32
    reserved_word::Int32
    reserved::NTuple{3,UInt64}
end

struct mmsb_device_memory_t
    struct_size::UInt32
    runtimes::UInt32
    budget::UInt64
    charged::UInt64
    charged_peak::UInt64
    pool_free::UInt64
    asked::UInt64
    helped::UInt64
    returned::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_link_t
    number::Int32
    version::Int32
    remote::NTuple{24,UInt8}
end

struct mmsb_telemetry_t
    name::NTuple{96,UInt8}
    uuid::NTuple{48,UInt8}
    pci::NTuple{24,UInt8}
    driver_version::NTuple{32,UInt8}
    memory_total::Int64
    memory_used::Int64
    memory_of_this_process::Int64
    memory_of_others::Int64
    utilization::Int32
    memory_utilization::Int32
    temperature::Int32
    pcie_generation::Int32
    pcie_lanes::Int32
    numa_node::Int32
    link_count::Int32
    reserved_word::Int32
    links::NTuple{18,mmsb_link_t}
    reserved::NTuple{4,UInt64}
end

struct mmsb_runtime_options_t
    struct_size::UInt32
    streams::UInt32
    budget::UInt64
    ledger::Ptr{UInt8}
    log_events::UInt64
    guard_every::UInt64
    guard_quarantine::UInt64
    refused::Ptr{Cvoid}
    refused_user::Ptr{Cvoid}
    refused_attempts::UInt64
    pool::Ptr{UInt8}
    memory_wait_ns::UInt64
    reserved::NTuple{2,UInt64}
end

struct mmsb_runtime_stats_t
    struct_size::UInt32
    streams::UInt32
    outstanding::UInt64
    live::UInt64
    pending::UInt64
    peak::UInt64
    blocks::UInt64
    allocations::UInt64
    frees::UInt64
    failures::UInt64
    deferred_frees::UInt64
    uses::UInt64
    aborts::UInt64
    waits::UInt64
    waits_saved::UInt64
    budget::UInt64
    charged::UInt64
    reserved_bytes::UInt64
    charged_peak::UInt64
    refusals::UInt64
    reports::UInt64
    pool_reserved::UInt64
    pool_held::UInt64
    pool_largest_free::UInt64
    pool_moved::UInt64
    pool_retries::UInt64
    pool_misses::UInt64
    sleeping::UInt64
    sleeping_kept::UInt64
    sleeping_copied::UInt64
    refused_calls::UInt64
    reserved::NTuple{1,UInt64}
end

struct mmsb_memory_stat_t
    name::Ptr{UInt8}
    value::UInt64
end

struct mmsb_tag_stats_t
    live::UInt64
    peak::UInt64
    total_bytes::UInt64
    blocks::UInt64
    total_blocks::UInt64
    failures::UInt64
    reserved::NTuple{2,UInt64}
end

struct mmsb_block_info_t
    struct_size::UInt32
    device::Int32
    address::Ptr{Cvoid}
    bytes::UInt64
    stream::mmsb_stream_t
    tag::mmsb_tag_t
    uses::UInt32
    asleep::UInt64
    reserved::NTuple{3,UInt64}
end

struct mmsb_sleep_options_t
    struct_size::UInt32
    mode::Int32
    folder::Ptr{UInt8}
    timeout_ns::UInt64
    reserved::NTuple{4,UInt64}
end

struct mmsb_access_t
    block::mmsb_block_t
    access::Int32
    reserved::Int32
end

struct mmsb_copy_t
    to::Ptr{Cvoid}
    from::Ptr{Cvoid}
    bytes::UInt64
    reserved::UInt64
end

struct mmsb_propagation_t
    to::Ptr{Cvoid}
    from::Ptr{Cvoid}
    mask::Ptr{Cvoid}
    changed::Ptr{Cvoid}
    bytes::UInt64
    reserved::UInt64
end

struct mmsb_tensor_options_t
    struct_size::UInt32
    versioned::Int32
    read_only::Int32
    ndim::Int32
    code::UInt32
    bits::UInt32
    lanes::UInt32
    reserved_word::UInt32
    offset::UInt64
    shape::Ptr{Int64}
    strides::Ptr{Int64}
    reserved::NTuple{4,UInt64}
end

struct mmsb_tensor_info_t
    struct_size::UInt32
    device_type::Int32
    device::Int32
    read_only::Int32
    copied::Int32
    reserved_word::UInt32
    address::Ptr{Cvoid}
    bytes::UInt64
    reserved::NTuple{4,UInt64}
end

# The number by which mmsb_sizeof knows each struct.
const STRUCTS = (
    MMSB_STRUCT_ERROR_DETAIL => mmsb_error_detail_t,
    MMSB_STRUCT_CAPABILITY => mmsb_capability_t,
    MMSB_STRUCT_CONTEXT_OPTIONS => mmsb_context_options_t,
    MMSB_STRUCT_CONTEXT_STATS => mmsb_context_stats_t,
    MMSB_STRUCT_GUARD_REPORT => mmsb_guard_report_t,
    MMSB_STRUCT_MEMORY_USAGE => mmsb_memory_usage_t,
    MMSB_STRUCT_WORK_OPTIONS => mmsb_work_options_t,
    MMSB_STRUCT_PAGE_OPTIONS => mmsb_page_options_t,
    MMSB_STRUCT_ADOPT_OPTIONS => mmsb_adopt_options_t,
    MMSB_STRUCT_PAGE_INFO => mmsb_page_info_t,
    MMSB_STRUCT_PAGE_RANGE => mmsb_page_range_t,
    MMSB_STRUCT_PAGE_COPY => mmsb_page_copy_t,
    MMSB_STRUCT_LOST_PAGE => mmsb_lost_page_t,
    MMSB_STRUCT_SYNC_STATS => mmsb_sync_stats_t,
    MMSB_STRUCT_PAGE_ADVICE => mmsb_page_advice_t,
    MMSB_STRUCT_RUN => mmsb_run_t,
    MMSB_STRUCT_DELTA => mmsb_delta_t,
    MMSB_STRUCT_PAGE_RUNS => mmsb_page_runs_t,
    MMSB_STRUCT_DIFFERENCE => mmsb_difference_t,
    MMSB_STRUCT_COMMANDS_OPTIONS => mmsb_commands_options_t,
    MMSB_STRUCT_COMMANDS_STATS => mmsb_commands_stats_t,
    MMSB_STRUCT_COMMAND_FAILURE => mmsb_command_failure_t,
    MMSB_STRUCT_SAVE_OPTIONS => mmsb_save_options_t,
    MMSB_STRUCT_LOAD_OPTIONS => mmsb_load_options_t,
    MMSB_STRUCT_SAVE_STATS => mmsb_save_stats_t,
    MMSB_STRUCT_SNAPSHOT_INFO => mmsb_snapshot_info_t,
    MMSB_STRUCT_SNAPSHOT_PAGE => mmsb_snapshot_page_t,
    MMSB_STRUCT_DEPENDENCY => mmsb_dependency_t,
    MMSB_STRUCT_SNAPSHOT_CHANGE => mmsb_snapshot_change_t,
    MMSB_STRUCT_JOURNAL_OPTIONS => mmsb_journal_options_t,
    MMSB_STRUCT_JOURNAL_INFO => mmsb_journal_info_t,
    MMSB_STRUCT_JOURNAL_DIRECTORY => mmsb_journal_directory_t,
    MMSB_STRUCT_JOURNAL_SEGMENT => mmsb_journal_segment_t,
    MMSB_STRUCT_JOURNAL_RECORD => mmsb_journal_record_t,
    MMSB_STRUCT_STORE_OPTIONS => mmsb_store_options_t,
    MMSB_STRUCT_STORE_INFO => mmsb_store_info_t,
    MMSB_STRUCT_STORE_POINT => mmsb_store_point_t,
    MMSB_STRUCT_DEVICE_INFO => mmsb_device_info_t,
    MMSB_STRUCT_DEVICE_MEMORY => mmsb_device_memory_t,
    MMSB_STRUCT_LINK => mmsb_link_t,
    MMSB_STRUCT_TELEMETRY => mmsb_telemetry_t,
    MMSB_STRUCT_RUNTIME_OPTIONS => mmsb_runtime_options_t,
    MMSB_STRUCT_RUNTIME_STATS => mmsb_runtime_stats_t,
    MMSB_STRUCT_MEMORY_STAT => mmsb_memory_stat_t,
    MMSB_STRUCT_TAG_STATS => mmsb_tag_stats_t,
    MMSB_STRUCT_BLOCK_INFO => mmsb_block_info_t,
    MMSB_STRUCT_SLEEP_OPTIONS => mmsb_sleep_options_t,
    MMSB_STRUCT_ACCESS => mmsb_access_t,
    MMSB_STRUCT_COPY => mmsb_copy_t,
    MMSB_STRUCT_PROPAGATION => mmsb_propagation_t,
    MMSB_STRUCT_TENSOR_OPTIONS => mmsb_tensor_options_t,
    MMSB_STRUCT_TENSOR_INFO => mmsb_tensor_info_t,
)

# Functions.

mmsb_version() = @ccall libmmsb.mmsb_version()::Cstring
mmsb_abi_version() = @ccall libmmsb.mmsb_abi_version()::UInt32
mmsb_build_info() = @ccall libmmsb.mmsb_build_info()::Cstring
mmsb_strerror(code) = @ccall libmmsb.mmsb_strerror(code::mmsb_status_t)::Cstring
mmsb_last_error() = @ccall libmmsb.mmsb_last_error()::Cstring
mmsb_last_error_code() = @ccall libmmsb.mmsb_last_error_code()::mmsb_status_t
mmsb_last_error_copy(buffer, capacity, length) =
    @ccall libmmsb.mmsb_last_error_copy(buffer::Ptr{UInt8}, capacity::Csize_t, length::Ptr{Csize_t})::mmsb_status_t
mmsb_error_detail_init(detail) = @ccall libmmsb.mmsb_error_detail_init(detail::Ptr{mmsb_error_detail_t})::Cvoid
mmsb_last_error_detail(detail) = @ccall libmmsb.mmsb_last_error_detail(detail::Ptr{mmsb_error_detail_t})::mmsb_status_t
mmsb_capabilities(records, capacity, count) =
    @ccall libmmsb.mmsb_capabilities(
        records::Ptr{mmsb_capability_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_log_configure(level, descriptor) =
    @ccall libmmsb.mmsb_log_configure(level::Int32, descriptor::Int32)::mmsb_status_t
mmsb_log_read(buffer, capacity, length, lost) =
    @ccall libmmsb.mmsb_log_read(
        buffer::Ptr{UInt8}, capacity::Csize_t, length::Ptr{Csize_t}, lost::Ptr{UInt64}
    )::mmsb_status_t
mmsb_debug_live_objects(kind, count) =
    @ccall libmmsb.mmsb_debug_live_objects(kind::Int32, count::Ptr{UInt64})::mmsb_status_t
mmsb_sizeof(structure) = @ccall libmmsb.mmsb_sizeof(structure::Int32)::Csize_t
mmsb_shutdown() = @ccall libmmsb.mmsb_shutdown()::mmsb_status_t
mmsb_context_options_init(options) =
    @ccall libmmsb.mmsb_context_options_init(options::Ptr{mmsb_context_options_t})::Cvoid
mmsb_context_options_parse(options, text) =
    @ccall libmmsb.mmsb_context_options_parse(options::Ptr{mmsb_context_options_t}, text::Ptr{UInt8})::mmsb_status_t
mmsb_context_create(options, context) =
    @ccall libmmsb.mmsb_context_create(
        options::Ptr{mmsb_context_options_t}, context::Ptr{mmsb_context_t}
    )::mmsb_status_t
mmsb_context_destroy(context) = @ccall libmmsb.mmsb_context_destroy(context::mmsb_context_t)::mmsb_status_t
mmsb_context_stats_init(stats) = @ccall libmmsb.mmsb_context_stats_init(stats::Ptr{mmsb_context_stats_t})::Cvoid
mmsb_context_stats(context, stats) =
    @ccall libmmsb.mmsb_context_stats(context::mmsb_context_t, stats::Ptr{mmsb_context_stats_t})::mmsb_status_t
mmsb_context_page_count(context, count) =
    @ccall libmmsb.mmsb_context_page_count(context::mmsb_context_t, count::Ptr{UInt64})::mmsb_status_t
mmsb_context_pages(context, cursor, pages, capacity, count) =
    @ccall libmmsb.mmsb_context_pages(
        context::mmsb_context_t, cursor::Ptr{UInt64}, pages::Ptr{mmsb_page_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_context_trim(context, released) =
    @ccall libmmsb.mmsb_context_trim(context::mmsb_context_t, released::Ptr{UInt64})::mmsb_status_t
mmsb_guard_report_init(report) = @ccall libmmsb.mmsb_guard_report_init(report::Ptr{mmsb_guard_report_t})::Cvoid
mmsb_guard_check(context, report, count) =
    @ccall libmmsb.mmsb_guard_check(
        context::mmsb_context_t, report::Ptr{mmsb_guard_report_t}, count::Ptr{UInt64}
    )::mmsb_status_t
mmsb_memory_usage_init(usage) = @ccall libmmsb.mmsb_memory_usage_init(usage::Ptr{mmsb_memory_usage_t})::Cvoid
mmsb_memory_usage(usage) = @ccall libmmsb.mmsb_memory_usage(usage::Ptr{mmsb_memory_usage_t})::mmsb_status_t
mmsb_work_options_init(options) = @ccall libmmsb.mmsb_work_options_init(options::Ptr{mmsb_work_options_t})::Cvoid
mmsb_ticket_poll(ticket, done) = @ccall libmmsb.mmsb_ticket_poll(ticket::mmsb_ticket_t, done::Ptr{Int32})::mmsb_status_t
mmsb_ticket_wait(ticket, timeout_ns) =
    @ccall libmmsb.mmsb_ticket_wait(ticket::mmsb_ticket_t, timeout_ns::UInt64)::mmsb_status_t
mmsb_ticket_cancel(ticket) = @ccall libmmsb.mmsb_ticket_cancel(ticket::mmsb_ticket_t)::mmsb_status_t
mmsb_ticket_progress(ticket, done, total) =
    @ccall libmmsb.mmsb_ticket_progress(ticket::mmsb_ticket_t, done::Ptr{UInt64}, total::Ptr{UInt64})::mmsb_status_t
mmsb_ticket_status(ticket, code, text, capacity) =
    @ccall libmmsb.mmsb_ticket_status(
        ticket::mmsb_ticket_t, code::Ptr{mmsb_status_t}, text::Ptr{UInt8}, capacity::Csize_t
    )::mmsb_status_t
mmsb_ticket_eventfd(ticket, descriptor) =
    @ccall libmmsb.mmsb_ticket_eventfd(ticket::mmsb_ticket_t, descriptor::Ptr{Int32})::mmsb_status_t
mmsb_ticket_destroy(ticket) = @ccall libmmsb.mmsb_ticket_destroy(ticket::mmsb_ticket_t)::mmsb_status_t
mmsb_page_options_init(options) = @ccall libmmsb.mmsb_page_options_init(options::Ptr{mmsb_page_options_t})::Cvoid
mmsb_page_create(context, size, options, page) =
    @ccall libmmsb.mmsb_page_create(
        context::mmsb_context_t, size::UInt64, options::Ptr{mmsb_page_options_t}, page::Ptr{mmsb_page_t}
    )::mmsb_status_t
mmsb_page_create_with_address(context, size, options, page, address) =
    @ccall libmmsb.mmsb_page_create_with_address(
        context::mmsb_context_t, size::UInt64, options::Ptr{mmsb_page_options_t}, page::Ptr{mmsb_page_t},
        address::Ptr{Ptr{Cvoid}}
    )::mmsb_status_t
mmsb_page_create_many(context, size, count, options, work, pages) =
    @ccall libmmsb.mmsb_page_create_many(
        context::mmsb_context_t, size::UInt64, count::Csize_t, options::Ptr{mmsb_page_options_t},
        work::Ptr{mmsb_work_options_t}, pages::Ptr{mmsb_page_t}
    )::mmsb_status_t
mmsb_page_create_many_start(context, size, count, options, work, pages, ticket) =
    @ccall libmmsb.mmsb_page_create_many_start(
        context::mmsb_context_t, size::UInt64, count::Csize_t, options::Ptr{mmsb_page_options_t},
        work::Ptr{mmsb_work_options_t}, pages::Ptr{mmsb_page_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_page_clone(page, id, clone) =
    @ccall libmmsb.mmsb_page_clone(page::mmsb_page_t, id::UInt64, clone::Ptr{mmsb_page_t})::mmsb_status_t
mmsb_page_clone_many(pages, ids, count, clones, bad_index) =
    @ccall libmmsb.mmsb_page_clone_many(
        pages::Ptr{mmsb_page_t}, ids::Ptr{UInt64}, count::Csize_t, clones::Ptr{mmsb_page_t}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_adopt_options_init(options) = @ccall libmmsb.mmsb_adopt_options_init(options::Ptr{mmsb_adopt_options_t})::Cvoid
mmsb_page_adopt(context, memory, size, options, page) =
    @ccall libmmsb.mmsb_page_adopt(
        context::mmsb_context_t, memory::Ptr{Cvoid}, size::UInt64, options::Ptr{mmsb_adopt_options_t},
        page::Ptr{mmsb_page_t}
    )::mmsb_status_t
mmsb_page_adopt_many(context, memories, sizes, ids, count, options, pages, bad_index) =
    @ccall libmmsb.mmsb_page_adopt_many(
        context::mmsb_context_t, memories::Ptr{Ptr{Cvoid}}, sizes::Ptr{UInt64}, ids::Ptr{UInt64}, count::Csize_t,
        options::Ptr{mmsb_adopt_options_t}, pages::Ptr{mmsb_page_t}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_destroy(page) = @ccall libmmsb.mmsb_page_destroy(page::mmsb_page_t)::mmsb_status_t
mmsb_page_destroy_many(pages, count, bad_index) =
    @ccall libmmsb.mmsb_page_destroy_many(
        pages::Ptr{mmsb_page_t}, count::Csize_t, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_release(page, memory, size) =
    @ccall libmmsb.mmsb_page_release(page::mmsb_page_t, memory::Ptr{Ptr{Cvoid}}, size::Ptr{UInt64})::mmsb_status_t
mmsb_memory_free(memory) = @ccall libmmsb.mmsb_memory_free(memory::Ptr{Cvoid})::mmsb_status_t
mmsb_page_lookup(context, id, page) =
    @ccall libmmsb.mmsb_page_lookup(context::mmsb_context_t, id::UInt64, page::Ptr{mmsb_page_t})::mmsb_status_t
mmsb_page_lookup_many(context, ids, count, pages, bad_index) =
    @ccall libmmsb.mmsb_page_lookup_many(
        context::mmsb_context_t, ids::Ptr{UInt64}, count::Csize_t, pages::Ptr{mmsb_page_t}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_info_init(info) = @ccall libmmsb.mmsb_page_info_init(info::Ptr{mmsb_page_info_t})::Cvoid
mmsb_page_info(page, info) =
    @ccall libmmsb.mmsb_page_info(page::mmsb_page_t, info::Ptr{mmsb_page_info_t})::mmsb_status_t
mmsb_page_info_many(pages, count, infos, bad_index) =
    @ccall libmmsb.mmsb_page_info_many(
        pages::Ptr{mmsb_page_t}, count::Csize_t, infos::Ptr{mmsb_page_info_t}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_address(page) = @ccall libmmsb.mmsb_page_address(page::mmsb_page_t)::Ptr{Cvoid}
mmsb_page_address_many(pages, count, addresses, bad_index) =
    @ccall libmmsb.mmsb_page_address_many(
        pages::Ptr{mmsb_page_t}, count::Csize_t, addresses::Ptr{Ptr{Cvoid}}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_id(page) = @ccall libmmsb.mmsb_page_id(page::mmsb_page_t)::UInt64
mmsb_page_location(page) = @ccall libmmsb.mmsb_page_location(page::mmsb_page_t)::mmsb_location_t
mmsb_page_size(page) = @ccall libmmsb.mmsb_page_size(page::mmsb_page_t)::UInt64
mmsb_page_epoch(page) = @ccall libmmsb.mmsb_page_epoch(page::mmsb_page_t)::UInt64
mmsb_page_version(page) = @ccall libmmsb.mmsb_page_version(page::mmsb_page_t)::UInt64
mmsb_page_pin(page, mode, address) =
    @ccall libmmsb.mmsb_page_pin(page::mmsb_page_t, mode::Int32, address::Ptr{Ptr{Cvoid}})::mmsb_status_t
mmsb_page_unpin(page, mode) = @ccall libmmsb.mmsb_page_unpin(page::mmsb_page_t, mode::Int32)::mmsb_status_t
mmsb_page_pin_many(pages, count, mode, addresses, bad_index) =
    @ccall libmmsb.mmsb_page_pin_many(
        pages::Ptr{mmsb_page_t}, count::Csize_t, mode::Int32, addresses::Ptr{Ptr{Cvoid}}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_unpin_many(pages, count, mode, bad_index) =
    @ccall libmmsb.mmsb_page_unpin_many(
        pages::Ptr{mmsb_page_t}, count::Csize_t, mode::Int32, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_writing_begin(context, timeout_ns) =
    @ccall libmmsb.mmsb_writing_begin(context::mmsb_context_t, timeout_ns::UInt64)::mmsb_status_t
mmsb_writing_end(context) = @ccall libmmsb.mmsb_writing_end(context::mmsb_context_t)::mmsb_status_t
mmsb_writing_check(context) = @ccall libmmsb.mmsb_writing_check(context::mmsb_context_t)::mmsb_status_t
mmsb_page_read(page, offset, buffer, length) =
    @ccall libmmsb.mmsb_page_read(page::mmsb_page_t, offset::UInt64, buffer::Ptr{Cvoid}, length::UInt64)::mmsb_status_t
mmsb_page_write(page, offset, buffer, length) =
    @ccall libmmsb.mmsb_page_write(page::mmsb_page_t, offset::UInt64, buffer::Ptr{Cvoid}, length::UInt64)::mmsb_status_t
mmsb_page_read_many(ranges, count, bad_index) =
    @ccall libmmsb.mmsb_page_read_many(
        ranges::Ptr{mmsb_page_range_t}, count::Csize_t, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_write_many(ranges, count, bad_index) =
    @ccall libmmsb.mmsb_page_write_many(
        ranges::Ptr{mmsb_page_range_t}, count::Csize_t, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_resize(page, size) = @ccall libmmsb.mmsb_page_resize(page::mmsb_page_t, size::UInt64)::mmsb_status_t
mmsb_page_resize_many(pages, sizes, count, bad_index) =
    @ccall libmmsb.mmsb_page_resize_many(
        pages::Ptr{mmsb_page_t}, sizes::Ptr{UInt64}, count::Csize_t, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_migrate(page, location, device) =
    @ccall libmmsb.mmsb_page_migrate(page::mmsb_page_t, location::mmsb_location_t, device::Int32)::mmsb_status_t
mmsb_page_migrate_many(pages, count, location, device, work, statuses, bad_index) =
    @ccall libmmsb.mmsb_page_migrate_many(
        pages::Ptr{mmsb_page_t}, count::Csize_t, location::mmsb_location_t, device::Int32,
        work::Ptr{mmsb_work_options_t}, statuses::Ptr{mmsb_status_t}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_migrate_many_start(pages, count, location, device, work, statuses, ticket) =
    @ccall libmmsb.mmsb_page_migrate_many_start(
        pages::Ptr{mmsb_page_t}, count::Csize_t, location::mmsb_location_t, device::Int32,
        work::Ptr{mmsb_work_options_t}, statuses::Ptr{mmsb_status_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_page_sync(page, direction, device) =
    @ccall libmmsb.mmsb_page_sync(page::mmsb_page_t, direction::mmsb_sync_t, device::Int32)::mmsb_status_t
mmsb_page_sync_many(pages, count, direction, device, work, statuses, bad_index) =
    @ccall libmmsb.mmsb_page_sync_many(
        pages::Ptr{mmsb_page_t}, count::Csize_t, direction::mmsb_sync_t, device::Int32, work::Ptr{mmsb_work_options_t},
        statuses::Ptr{mmsb_status_t}, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_sync_many_start(pages, count, direction, device, work, statuses, ticket) =
    @ccall libmmsb.mmsb_page_sync_many_start(
        pages::Ptr{mmsb_page_t}, count::Csize_t, direction::mmsb_sync_t, device::Int32, work::Ptr{mmsb_work_options_t},
        statuses::Ptr{mmsb_status_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_page_sync_enqueue(pages, count, direction, device, bad_index) =
    @ccall libmmsb.mmsb_page_sync_enqueue(
        pages::Ptr{mmsb_page_t}, count::Csize_t, direction::mmsb_sync_t, device::Int32, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_context_sync_drain(context, work, synced) =
    @ccall libmmsb.mmsb_context_sync_drain(
        context::mmsb_context_t, work::Ptr{mmsb_work_options_t}, synced::Ptr{UInt64}
    )::mmsb_status_t
mmsb_context_prefetch(context, ids, count, device, work, synced) =
    @ccall libmmsb.mmsb_context_prefetch(
        context::mmsb_context_t, ids::Ptr{UInt64}, count::Csize_t, device::Int32, work::Ptr{mmsb_work_options_t},
        synced::Ptr{UInt64}
    )::mmsb_status_t
mmsb_context_prefetch_start(context, ids, count, device, work, ticket) =
    @ccall libmmsb.mmsb_context_prefetch_start(
        context::mmsb_context_t, ids::Ptr{UInt64}, count::Csize_t, device::Int32, work::Ptr{mmsb_work_options_t},
        ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_page_copies(page, copies, capacity, count) =
    @ccall libmmsb.mmsb_page_copies(
        page::mmsb_page_t, copies::Ptr{mmsb_page_copy_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_context_device_pages(context, device, cursor, pages, capacity, count) =
    @ccall libmmsb.mmsb_context_device_pages(
        context::mmsb_context_t, device::Int32, cursor::Ptr{UInt64}, pages::Ptr{mmsb_page_t}, capacity::Csize_t,
        count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_replicate(page, device) = @ccall libmmsb.mmsb_page_replicate(page::mmsb_page_t, device::Int32)::mmsb_status_t
mmsb_page_replica_drop(page, device) =
    @ccall libmmsb.mmsb_page_replica_drop(page::mmsb_page_t, device::Int32)::mmsb_status_t
mmsb_context_lost_pages(context, pages, capacity, count) =
    @ccall libmmsb.mmsb_context_lost_pages(
        context::mmsb_context_t, pages::Ptr{mmsb_lost_page_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_host_copy_drop(page) = @ccall libmmsb.mmsb_page_host_copy_drop(page::mmsb_page_t)::mmsb_status_t
mmsb_page_host_copy_pin(page, mode, address) =
    @ccall libmmsb.mmsb_page_host_copy_pin(page::mmsb_page_t, mode::Int32, address::Ptr{Ptr{Cvoid}})::mmsb_status_t
mmsb_page_host_copy_unpin(page, mode) =
    @ccall libmmsb.mmsb_page_host_copy_unpin(page::mmsb_page_t, mode::Int32)::mmsb_status_t
mmsb_sync_stats_init(stats) = @ccall libmmsb.mmsb_sync_stats_init(stats::Ptr{mmsb_sync_stats_t})::Cvoid
mmsb_context_sync_stats(context, stats) =
    @ccall libmmsb.mmsb_context_sync_stats(context::mmsb_context_t, stats::Ptr{mmsb_sync_stats_t})::mmsb_status_t
mmsb_page_advice_init(advice) = @ccall libmmsb.mmsb_page_advice_init(advice::Ptr{mmsb_page_advice_t})::Cvoid
mmsb_page_advise(page, advice) =
    @ccall libmmsb.mmsb_page_advise(page::mmsb_page_t, advice::Ptr{mmsb_page_advice_t})::mmsb_status_t
mmsb_page_advice(page, advice) =
    @ccall libmmsb.mmsb_page_advice(page::mmsb_page_t, advice::Ptr{mmsb_page_advice_t})::mmsb_status_t
mmsb_prefetch_distance(latencies_ns, count, distance) =
    @ccall libmmsb.mmsb_prefetch_distance(
        latencies_ns::Ptr{UInt64}, count::Csize_t, distance::Ptr{UInt32}
    )::mmsb_status_t
mmsb_delta_init(delta) = @ccall libmmsb.mmsb_delta_init(delta::Ptr{mmsb_delta_t})::Cvoid
mmsb_delta_validate(delta, page_size) =
    @ccall libmmsb.mmsb_delta_validate(delta::Ptr{mmsb_delta_t}, page_size::UInt64)::mmsb_status_t
mmsb_page_apply(page, delta) =
    @ccall libmmsb.mmsb_page_apply(page::mmsb_page_t, delta::Ptr{mmsb_delta_t})::mmsb_status_t
mmsb_page_apply_many(pages, deltas, count, bad_index) =
    @ccall libmmsb.mmsb_page_apply_many(
        pages::Ptr{mmsb_page_t}, deltas::Ptr{mmsb_delta_t}, count::Csize_t, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_runs_init(runs) = @ccall libmmsb.mmsb_page_runs_init(runs::Ptr{mmsb_page_runs_t})::Cvoid
mmsb_page_apply_runs(runs, bad_index) =
    @ccall libmmsb.mmsb_page_apply_runs(runs::Ptr{mmsb_page_runs_t}, bad_index::Ptr{Csize_t})::mmsb_status_t
mmsb_delta_merge(first, second, merged) =
    @ccall libmmsb.mmsb_delta_merge(
        first::Ptr{mmsb_delta_t}, second::Ptr{mmsb_delta_t}, merged::Ptr{Ptr{mmsb_delta_t}}
    )::mmsb_status_t
mmsb_delta_from_pages(old_page, new_page, delta) =
    @ccall libmmsb.mmsb_delta_from_pages(
        old_page::mmsb_page_t, new_page::mmsb_page_t, delta::Ptr{Ptr{mmsb_delta_t}}
    )::mmsb_status_t
mmsb_delta_convert(delta, kind, converted) =
    @ccall libmmsb.mmsb_delta_convert(
        delta::Ptr{mmsb_delta_t}, kind::mmsb_delta_kind_t, converted::Ptr{Ptr{mmsb_delta_t}}
    )::mmsb_status_t
mmsb_delta_free(delta) = @ccall libmmsb.mmsb_delta_free(delta::Ptr{mmsb_delta_t})::mmsb_status_t
mmsb_page_compare(a, b, difference) =
    @ccall libmmsb.mmsb_page_compare(a::mmsb_page_t, b::mmsb_page_t, difference::Ptr{mmsb_difference_t})::mmsb_status_t
mmsb_page_differences(a, b, bits, length) =
    @ccall libmmsb.mmsb_page_differences(
        a::mmsb_page_t, b::mmsb_page_t, bits::Ptr{Cvoid}, length::UInt64
    )::mmsb_status_t
mmsb_page_checksum(page, offset, length, sum) =
    @ccall libmmsb.mmsb_page_checksum(
        page::mmsb_page_t, offset::UInt64, length::UInt64, sum::Ptr{UInt32}
    )::mmsb_status_t
mmsb_checksum_join(first, second, second_bytes) =
    @ccall libmmsb.mmsb_checksum_join(first::UInt32, second::UInt32, second_bytes::UInt64)::UInt32
mmsb_page_propagate(page, from) =
    @ccall libmmsb.mmsb_page_propagate(page::mmsb_page_t, from::mmsb_page_t)::mmsb_status_t
mmsb_page_mask_read(page, offset, bits, length) =
    @ccall libmmsb.mmsb_page_mask_read(
        page::mmsb_page_t, offset::UInt64, bits::Ptr{Cvoid}, length::UInt64
    )::mmsb_status_t
mmsb_page_mask_clear(page) = @ccall libmmsb.mmsb_page_mask_clear(page::mmsb_page_t)::mmsb_status_t
mmsb_page_mask_count(page, count) =
    @ccall libmmsb.mmsb_page_mask_count(page::mmsb_page_t, count::Ptr{UInt64})::mmsb_status_t
mmsb_page_metadata_set(page, key, key_length, value, value_length) =
    @ccall libmmsb.mmsb_page_metadata_set(
        page::mmsb_page_t, key::Ptr{UInt8}, key_length::Csize_t, value::Ptr{Cvoid}, value_length::Csize_t
    )::mmsb_status_t
mmsb_page_metadata_get(page, key, key_length, value, capacity, length) =
    @ccall libmmsb.mmsb_page_metadata_get(
        page::mmsb_page_t, key::Ptr{UInt8}, key_length::Csize_t, value::Ptr{Cvoid}, capacity::Csize_t,
        length::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_metadata_remove(page, key, key_length) =
    @ccall libmmsb.mmsb_page_metadata_remove(page::mmsb_page_t, key::Ptr{UInt8}, key_length::Csize_t)::mmsb_status_t
mmsb_page_metadata_keys(page, keys, capacity, length, count) =
    @ccall libmmsb.mmsb_page_metadata_keys(
        page::mmsb_page_t, keys::Ptr{Cvoid}, capacity::Csize_t, length::Ptr{Csize_t}, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_metadata_export(page, blob, capacity, length) =
    @ccall libmmsb.mmsb_page_metadata_export(
        page::mmsb_page_t, blob::Ptr{Cvoid}, capacity::Csize_t, length::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_metadata_import(page, blob, length) =
    @ccall libmmsb.mmsb_page_metadata_import(page::mmsb_page_t, blob::Ptr{Cvoid}, length::Csize_t)::mmsb_status_t
mmsb_page_dependency_add(parent, child) =
    @ccall libmmsb.mmsb_page_dependency_add(parent::mmsb_page_t, child::mmsb_page_t)::mmsb_status_t
mmsb_page_dependency_remove(parent, child) =
    @ccall libmmsb.mmsb_page_dependency_remove(parent::mmsb_page_t, child::mmsb_page_t)::mmsb_status_t
mmsb_page_parents(page, parents, capacity, count) =
    @ccall libmmsb.mmsb_page_parents(
        page::mmsb_page_t, parents::Ptr{mmsb_page_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_page_children(page, children, capacity, count) =
    @ccall libmmsb.mmsb_page_children(
        page::mmsb_page_t, children::Ptr{mmsb_page_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_context_dependency_order(context, pages, capacity, count) =
    @ccall libmmsb.mmsb_context_dependency_order(
        context::mmsb_context_t, pages::Ptr{mmsb_page_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_group_begin(context) = @ccall libmmsb.mmsb_group_begin(context::mmsb_context_t)::mmsb_status_t
mmsb_group_begin_within(context, timeout_ns) =
    @ccall libmmsb.mmsb_group_begin_within(context::mmsb_context_t, timeout_ns::UInt64)::mmsb_status_t
mmsb_group_commit(context) = @ccall libmmsb.mmsb_group_commit(context::mmsb_context_t)::mmsb_status_t
mmsb_group_rollback(context) = @ccall libmmsb.mmsb_group_rollback(context::mmsb_context_t)::mmsb_status_t
mmsb_commands_options_init(options) =
    @ccall libmmsb.mmsb_commands_options_init(options::Ptr{mmsb_commands_options_t})::Cvoid
mmsb_commands_create(options, commands) =
    @ccall libmmsb.mmsb_commands_create(
        options::Ptr{mmsb_commands_options_t}, commands::Ptr{mmsb_commands_t}
    )::mmsb_status_t
mmsb_commands_destroy(commands) = @ccall libmmsb.mmsb_commands_destroy(commands::mmsb_commands_t)::mmsb_status_t
mmsb_commands_enqueue(commands, page, dependencies, count, timeout_ns) =
    @ccall libmmsb.mmsb_commands_enqueue(
        commands::mmsb_commands_t, page::mmsb_page_t, dependencies::Ptr{mmsb_page_t}, count::Csize_t, timeout_ns::UInt64
    )::mmsb_status_t
mmsb_commands_wait(commands, timeout_ns) =
    @ccall libmmsb.mmsb_commands_wait(commands::mmsb_commands_t, timeout_ns::UInt64)::mmsb_status_t
mmsb_commands_drain(commands, limit, executed) =
    @ccall libmmsb.mmsb_commands_drain(commands::mmsb_commands_t, limit::UInt64, executed::Ptr{UInt64})::mmsb_status_t
mmsb_commands_close(commands, mode, timeout_ns) =
    @ccall libmmsb.mmsb_commands_close(commands::mmsb_commands_t, mode::Int32, timeout_ns::UInt64)::mmsb_status_t
mmsb_commands_stats_init(stats) = @ccall libmmsb.mmsb_commands_stats_init(stats::Ptr{mmsb_commands_stats_t})::Cvoid
mmsb_commands_stats(commands, stats) =
    @ccall libmmsb.mmsb_commands_stats(commands::mmsb_commands_t, stats::Ptr{mmsb_commands_stats_t})::mmsb_status_t
mmsb_commands_failures(commands, failures, capacity, count) =
    @ccall libmmsb.mmsb_commands_failures(
        commands::mmsb_commands_t, failures::Ptr{mmsb_command_failure_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_save_options_init(options) = @ccall libmmsb.mmsb_save_options_init(options::Ptr{mmsb_save_options_t})::Cvoid
mmsb_snapshot_save(context, path, options) =
    @ccall libmmsb.mmsb_snapshot_save(
        context::mmsb_context_t, path::Ptr{UInt8}, options::Ptr{mmsb_save_options_t}
    )::mmsb_status_t
mmsb_snapshot_save_start(context, path, options, work, ticket) =
    @ccall libmmsb.mmsb_snapshot_save_start(
        context::mmsb_context_t, path::Ptr{UInt8}, options::Ptr{mmsb_save_options_t}, work::Ptr{mmsb_work_options_t},
        ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_snapshot_save_descriptor(context, descriptor, options) =
    @ccall libmmsb.mmsb_snapshot_save_descriptor(
        context::mmsb_context_t, descriptor::Int32, options::Ptr{mmsb_save_options_t}
    )::mmsb_status_t
mmsb_snapshot_save_descriptor_start(context, descriptor, options, work, ticket) =
    @ccall libmmsb.mmsb_snapshot_save_descriptor_start(
        context::mmsb_context_t, descriptor::Int32, options::Ptr{mmsb_save_options_t}, work::Ptr{mmsb_work_options_t},
        ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_snapshot_save_memory(context, options, memory, length) =
    @ccall libmmsb.mmsb_snapshot_save_memory(
        context::mmsb_context_t, options::Ptr{mmsb_save_options_t}, memory::Ptr{Ptr{Cvoid}}, length::Ptr{UInt64}
    )::mmsb_status_t
mmsb_snapshot_save_memory_start(context, options, work, memory, length, ticket) =
    @ccall libmmsb.mmsb_snapshot_save_memory_start(
        context::mmsb_context_t, options::Ptr{mmsb_save_options_t}, work::Ptr{mmsb_work_options_t},
        memory::Ptr{Ptr{Cvoid}}, length::Ptr{UInt64}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_snapshot_free_memory(memory) = @ccall libmmsb.mmsb_snapshot_free_memory(memory::Ptr{Cvoid})::mmsb_status_t
mmsb_load_options_init(options) = @ccall libmmsb.mmsb_load_options_init(options::Ptr{mmsb_load_options_t})::Cvoid
mmsb_snapshot_load(context, path, options) =
    @ccall libmmsb.mmsb_snapshot_load(
        context::mmsb_context_t, path::Ptr{UInt8}, options::Ptr{mmsb_load_options_t}
    )::mmsb_status_t
mmsb_snapshot_load_start(context, path, options, work, ticket) =
    @ccall libmmsb.mmsb_snapshot_load_start(
        context::mmsb_context_t, path::Ptr{UInt8}, options::Ptr{mmsb_load_options_t}, work::Ptr{mmsb_work_options_t},
        ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_snapshot_load_descriptor(context, descriptor, options) =
    @ccall libmmsb.mmsb_snapshot_load_descriptor(
        context::mmsb_context_t, descriptor::Int32, options::Ptr{mmsb_load_options_t}
    )::mmsb_status_t
mmsb_snapshot_load_descriptor_start(context, descriptor, options, work, ticket) =
    @ccall libmmsb.mmsb_snapshot_load_descriptor_start(
        context::mmsb_context_t, descriptor::Int32, options::Ptr{mmsb_load_options_t}, work::Ptr{mmsb_work_options_t},
        ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_snapshot_load_memory(context, memory, length, options) =
    @ccall libmmsb.mmsb_snapshot_load_memory(
        context::mmsb_context_t, memory::Ptr{Cvoid}, length::UInt64, options::Ptr{mmsb_load_options_t}
    )::mmsb_status_t
mmsb_snapshot_load_memory_start(context, memory, length, options, work, ticket) =
    @ccall libmmsb.mmsb_snapshot_load_memory_start(
        context::mmsb_context_t, memory::Ptr{Cvoid}, length::UInt64, options::Ptr{mmsb_load_options_t},
        work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_save_stats_init(stats) = @ccall libmmsb.mmsb_save_stats_init(stats::Ptr{mmsb_save_stats_t})::Cvoid
mmsb_context_save_stats(context, stats) =
    @ccall libmmsb.mmsb_context_save_stats(context::mmsb_context_t, stats::Ptr{mmsb_save_stats_t})::mmsb_status_t
mmsb_snapshot_open(path, snapshot) =
    @ccall libmmsb.mmsb_snapshot_open(path::Ptr{UInt8}, snapshot::Ptr{mmsb_snapshot_t})::mmsb_status_t
mmsb_snapshot_close(snapshot) = @ccall libmmsb.mmsb_snapshot_close(snapshot::mmsb_snapshot_t)::mmsb_status_t
mmsb_snapshot_info_init(info) = @ccall libmmsb.mmsb_snapshot_info_init(info::Ptr{mmsb_snapshot_info_t})::Cvoid
mmsb_snapshot_info(snapshot, info) =
    @ccall libmmsb.mmsb_snapshot_info(snapshot::mmsb_snapshot_t, info::Ptr{mmsb_snapshot_info_t})::mmsb_status_t
mmsb_snapshot_pages(snapshot, cursor, pages, capacity, count) =
    @ccall libmmsb.mmsb_snapshot_pages(
        snapshot::mmsb_snapshot_t, cursor::Ptr{UInt64}, pages::Ptr{mmsb_snapshot_page_t}, capacity::Csize_t,
        count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_snapshot_find(snapshot, id, page) =
    @ccall libmmsb.mmsb_snapshot_find(
        snapshot::mmsb_snapshot_t, id::UInt64, page::Ptr{mmsb_snapshot_page_t}
    )::mmsb_status_t
mmsb_snapshot_read(snapshot, id, offset, buffer, length) =
    @ccall libmmsb.mmsb_snapshot_read(
        snapshot::mmsb_snapshot_t, id::UInt64, offset::UInt64, buffer::Ptr{Cvoid}, length::UInt64
    )::mmsb_status_t
mmsb_snapshot_view(snapshot, id, bytes, length) =
    @ccall libmmsb.mmsb_snapshot_view(
        snapshot::mmsb_snapshot_t, id::UInt64, bytes::Ptr{Ptr{Cvoid}}, length::Ptr{UInt64}
    )::mmsb_status_t
mmsb_snapshot_metadata(snapshot, id, blob, capacity, length) =
    @ccall libmmsb.mmsb_snapshot_metadata(
        snapshot::mmsb_snapshot_t, id::UInt64, blob::Ptr{Cvoid}, capacity::Csize_t, length::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_snapshot_dependencies(snapshot, dependencies, capacity, count) =
    @ccall libmmsb.mmsb_snapshot_dependencies(
        snapshot::mmsb_snapshot_t, dependencies::Ptr{mmsb_dependency_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_snapshot_mask_read(snapshot, id, offset, bits, length) =
    @ccall libmmsb.mmsb_snapshot_mask_read(
        snapshot::mmsb_snapshot_t, id::UInt64, offset::UInt64, bits::Ptr{Cvoid}, length::UInt64
    )::mmsb_status_t
mmsb_snapshot_verify(path, work) =
    @ccall libmmsb.mmsb_snapshot_verify(path::Ptr{UInt8}, work::Ptr{mmsb_work_options_t})::mmsb_status_t
mmsb_snapshot_verify_start(path, work, ticket) =
    @ccall libmmsb.mmsb_snapshot_verify_start(
        path::Ptr{UInt8}, work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_snapshot_diff(older, newer, work, changes, capacity, count) =
    @ccall libmmsb.mmsb_snapshot_diff(
        older::mmsb_snapshot_t, newer::mmsb_snapshot_t, work::Ptr{mmsb_work_options_t},
        changes::Ptr{mmsb_snapshot_change_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_snapshot_diff_start(older, newer, work, changes, capacity, count, ticket) =
    @ccall libmmsb.mmsb_snapshot_diff_start(
        older::mmsb_snapshot_t, newer::mmsb_snapshot_t, work::Ptr{mmsb_work_options_t},
        changes::Ptr{mmsb_snapshot_change_t}, capacity::Csize_t, count::Ptr{Csize_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_snapshot_compact(path, to, options) =
    @ccall libmmsb.mmsb_snapshot_compact(
        path::Ptr{UInt8}, to::Ptr{UInt8}, options::Ptr{mmsb_save_options_t}
    )::mmsb_status_t
mmsb_snapshot_compact_start(path, to, options, work, ticket) =
    @ccall libmmsb.mmsb_snapshot_compact_start(
        path::Ptr{UInt8}, to::Ptr{UInt8}, options::Ptr{mmsb_save_options_t}, work::Ptr{mmsb_work_options_t},
        ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_journal_options_init(options) =
    @ccall libmmsb.mmsb_journal_options_init(options::Ptr{mmsb_journal_options_t})::Cvoid
mmsb_journal_open(context, directory, options) =
    @ccall libmmsb.mmsb_journal_open(
        context::mmsb_context_t, directory::Ptr{UInt8}, options::Ptr{mmsb_journal_options_t}
    )::mmsb_status_t
mmsb_journal_open_start(context, directory, options, work, ticket) =
    @ccall libmmsb.mmsb_journal_open_start(
        context::mmsb_context_t, directory::Ptr{UInt8}, options::Ptr{mmsb_journal_options_t},
        work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_journal_sync(context, work) =
    @ccall libmmsb.mmsb_journal_sync(context::mmsb_context_t, work::Ptr{mmsb_work_options_t})::mmsb_status_t
mmsb_journal_sync_start(context, work, ticket) =
    @ccall libmmsb.mmsb_journal_sync_start(
        context::mmsb_context_t, work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_journal_close(context) = @ccall libmmsb.mmsb_journal_close(context::mmsb_context_t)::mmsb_status_t
mmsb_journal_trim(context, snapshot, work) =
    @ccall libmmsb.mmsb_journal_trim(
        context::mmsb_context_t, snapshot::Ptr{UInt8}, work::Ptr{mmsb_work_options_t}
    )::mmsb_status_t
mmsb_journal_trim_start(context, snapshot, work, ticket) =
    @ccall libmmsb.mmsb_journal_trim_start(
        context::mmsb_context_t, snapshot::Ptr{UInt8}, work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_journal_info_init(info) = @ccall libmmsb.mmsb_journal_info_init(info::Ptr{mmsb_journal_info_t})::Cvoid
mmsb_journal_info(context, info) =
    @ccall libmmsb.mmsb_journal_info(context::mmsb_context_t, info::Ptr{mmsb_journal_info_t})::mmsb_status_t
mmsb_journal_directory_init(journal) =
    @ccall libmmsb.mmsb_journal_directory_init(journal::Ptr{mmsb_journal_directory_t})::Cvoid
mmsb_journal_directory(directory, journal) =
    @ccall libmmsb.mmsb_journal_directory(directory::Ptr{UInt8}, journal::Ptr{mmsb_journal_directory_t})::mmsb_status_t
mmsb_journal_segments(directory, segments, capacity, count) =
    @ccall libmmsb.mmsb_journal_segments(
        directory::Ptr{UInt8}, segments::Ptr{mmsb_journal_segment_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_journal_records(directory, next, records, capacity, count) =
    @ccall libmmsb.mmsb_journal_records(
        directory::Ptr{UInt8}, next::Ptr{UInt64}, records::Ptr{mmsb_journal_record_t}, capacity::Csize_t,
        count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_store_options_init(options) = @ccall libmmsb.mmsb_store_options_init(options::Ptr{mmsb_store_options_t})::Cvoid
mmsb_store_open(directory, context_options, options, context) =
    @ccall libmmsb.mmsb_store_open(
        directory::Ptr{UInt8}, context_options::Ptr{mmsb_context_options_t}, options::Ptr{mmsb_store_options_t},
        context::Ptr{mmsb_context_t}
    )::mmsb_status_t
mmsb_store_open_start(directory, context_options, options, work, context, ticket) =
    @ccall libmmsb.mmsb_store_open_start(
        directory::Ptr{UInt8}, context_options::Ptr{mmsb_context_options_t}, options::Ptr{mmsb_store_options_t},
        work::Ptr{mmsb_work_options_t}, context::Ptr{mmsb_context_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_store_save(context, whole, work) =
    @ccall libmmsb.mmsb_store_save(context::mmsb_context_t, whole::Int32, work::Ptr{mmsb_work_options_t})::mmsb_status_t
mmsb_store_save_start(context, whole, work, ticket) =
    @ccall libmmsb.mmsb_store_save_start(
        context::mmsb_context_t, whole::Int32, work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_store_name(context, name, work) =
    @ccall libmmsb.mmsb_store_name(
        context::mmsb_context_t, name::Ptr{UInt8}, work::Ptr{mmsb_work_options_t}
    )::mmsb_status_t
mmsb_store_name_start(context, name, work, ticket) =
    @ccall libmmsb.mmsb_store_name_start(
        context::mmsb_context_t, name::Ptr{UInt8}, work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_store_unname(context, name, work) =
    @ccall libmmsb.mmsb_store_unname(
        context::mmsb_context_t, name::Ptr{UInt8}, work::Ptr{mmsb_work_options_t}
    )::mmsb_status_t
mmsb_store_info_init(info) = @ccall libmmsb.mmsb_store_info_init(info::Ptr{mmsb_store_info_t})::Cvoid
mmsb_store_info(context, info) =
    @ccall libmmsb.mmsb_store_info(context::mmsb_context_t, info::Ptr{mmsb_store_info_t})::mmsb_status_t
mmsb_store_wait(context, record, work) =
    @ccall libmmsb.mmsb_store_wait(
        context::mmsb_context_t, record::UInt64, work::Ptr{mmsb_work_options_t}
    )::mmsb_status_t
mmsb_store_wait_start(context, record, work, ticket) =
    @ccall libmmsb.mmsb_store_wait_start(
        context::mmsb_context_t, record::UInt64, work::Ptr{mmsb_work_options_t}, ticket::Ptr{mmsb_ticket_t}
    )::mmsb_status_t
mmsb_store_points(directory, points, capacity, count) =
    @ccall libmmsb.mmsb_store_points(
        directory::Ptr{UInt8}, points::Ptr{mmsb_store_point_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_device_list(context, devices, capacity, count) =
    @ccall libmmsb.mmsb_device_list(
        context::mmsb_context_t, devices::Ptr{mmsb_device_info_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_device_budget(context, device, bytes) =
    @ccall libmmsb.mmsb_device_budget(context::mmsb_context_t, device::Int32, bytes::UInt64)::mmsb_status_t
mmsb_device_memory_init(memory) = @ccall libmmsb.mmsb_device_memory_init(memory::Ptr{mmsb_device_memory_t})::Cvoid
mmsb_device_memory(context, device, memory) =
    @ccall libmmsb.mmsb_device_memory(
        context::mmsb_context_t, device::Int32, memory::Ptr{mmsb_device_memory_t}
    )::mmsb_status_t
mmsb_telemetry_list(devices, capacity, count) =
    @ccall libmmsb.mmsb_telemetry_list(
        devices::Ptr{mmsb_telemetry_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_telemetry_paths(paths, capacity, count) =
    @ccall libmmsb.mmsb_telemetry_paths(paths::Ptr{Int32}, capacity::Csize_t, count::Ptr{Csize_t})::mmsb_status_t
mmsb_runtime_options_init(options) =
    @ccall libmmsb.mmsb_runtime_options_init(options::Ptr{mmsb_runtime_options_t})::Cvoid
mmsb_runtime_shared(context, device, runtime) =
    @ccall libmmsb.mmsb_runtime_shared(
        context::mmsb_context_t, device::Int32, runtime::Ptr{mmsb_runtime_t}
    )::mmsb_status_t
mmsb_runtime_create(context, device, options, runtime) =
    @ccall libmmsb.mmsb_runtime_create(
        context::mmsb_context_t, device::Int32, options::Ptr{mmsb_runtime_options_t}, runtime::Ptr{mmsb_runtime_t}
    )::mmsb_status_t
mmsb_runtime_destroy(runtime) = @ccall libmmsb.mmsb_runtime_destroy(runtime::mmsb_runtime_t)::mmsb_status_t
mmsb_runtime_stats_init(stats) = @ccall libmmsb.mmsb_runtime_stats_init(stats::Ptr{mmsb_runtime_stats_t})::Cvoid
mmsb_runtime_stats(runtime, stats) =
    @ccall libmmsb.mmsb_runtime_stats(runtime::mmsb_runtime_t, stats::Ptr{mmsb_runtime_stats_t})::mmsb_status_t
mmsb_runtime_device(runtime, device) =
    @ccall libmmsb.mmsb_runtime_device(runtime::mmsb_runtime_t, device::Ptr{Int32})::mmsb_status_t
mmsb_runtime_reap(runtime) = @ccall libmmsb.mmsb_runtime_reap(runtime::mmsb_runtime_t)::mmsb_status_t
mmsb_runtime_trim(runtime, keep) =
    @ccall libmmsb.mmsb_runtime_trim(runtime::mmsb_runtime_t, keep::UInt64)::mmsb_status_t
mmsb_runtime_log_write(runtime, descriptor) =
    @ccall libmmsb.mmsb_runtime_log_write(runtime::mmsb_runtime_t, descriptor::Int32)::mmsb_status_t
mmsb_runtime_snapshot_write(runtime, descriptor, format) =
    @ccall libmmsb.mmsb_runtime_snapshot_write(runtime::mmsb_runtime_t, descriptor::Int32, format::Int32)::mmsb_status_t
mmsb_runtime_memory_stats(runtime, stats, capacity, count) =
    @ccall libmmsb.mmsb_runtime_memory_stats(
        runtime::mmsb_runtime_t, stats::Ptr{mmsb_memory_stat_t}, capacity::Csize_t, count::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_tag_of(name, tag) = @ccall libmmsb.mmsb_tag_of(name::Ptr{UInt8}, tag::Ptr{mmsb_tag_t})::mmsb_status_t
mmsb_runtime_tag_stats(runtime, tag, stats) =
    @ccall libmmsb.mmsb_runtime_tag_stats(
        runtime::mmsb_runtime_t, tag::mmsb_tag_t, stats::Ptr{mmsb_tag_stats_t}
    )::mmsb_status_t
mmsb_reservation_create(runtime, bytes, reservation) =
    @ccall libmmsb.mmsb_reservation_create(
        runtime::mmsb_runtime_t, bytes::UInt64, reservation::Ptr{mmsb_reservation_t}
    )::mmsb_status_t
mmsb_reservation_destroy(reservation, left) =
    @ccall libmmsb.mmsb_reservation_destroy(reservation::mmsb_reservation_t, left::Ptr{UInt64})::mmsb_status_t
mmsb_stream_create(runtime, priority, stream) =
    @ccall libmmsb.mmsb_stream_create(
        runtime::mmsb_runtime_t, priority::Int32, stream::Ptr{mmsb_stream_t}
    )::mmsb_status_t
mmsb_stream_wrap(runtime, native, stream) =
    @ccall libmmsb.mmsb_stream_wrap(
        runtime::mmsb_runtime_t, native::Ptr{Cvoid}, stream::Ptr{mmsb_stream_t}
    )::mmsb_status_t
mmsb_stream_destroy(stream) = @ccall libmmsb.mmsb_stream_destroy(stream::mmsb_stream_t)::mmsb_status_t
mmsb_stream_native(stream, native) =
    @ccall libmmsb.mmsb_stream_native(stream::mmsb_stream_t, native::Ptr{Ptr{Cvoid}})::mmsb_status_t
mmsb_stream_device(stream, device) =
    @ccall libmmsb.mmsb_stream_device(stream::mmsb_stream_t, device::Ptr{Int32})::mmsb_status_t
mmsb_stream_wait(stream, timeout_ns) =
    @ccall libmmsb.mmsb_stream_wait(stream::mmsb_stream_t, timeout_ns::UInt64)::mmsb_status_t
mmsb_stream_copy(stream, to, from, bytes) =
    @ccall libmmsb.mmsb_stream_copy(
        stream::mmsb_stream_t, to::Ptr{Cvoid}, from::Ptr{Cvoid}, bytes::UInt64
    )::mmsb_status_t
mmsb_stream_fill(stream, address, value, bytes) =
    @ccall libmmsb.mmsb_stream_fill(
        stream::mmsb_stream_t, address::Ptr{Cvoid}, value::UInt8, bytes::UInt64
    )::mmsb_status_t
mmsb_stream_record(stream, ticket) =
    @ccall libmmsb.mmsb_stream_record(stream::mmsb_stream_t, ticket::Ptr{mmsb_ticket_t})::mmsb_status_t
mmsb_stream_after(stream, ticket) =
    @ccall libmmsb.mmsb_stream_after(stream::mmsb_stream_t, ticket::mmsb_ticket_t)::mmsb_status_t
mmsb_stream_after_native(stream, native) =
    @ccall libmmsb.mmsb_stream_after_native(stream::mmsb_stream_t, native::Ptr{Cvoid})::mmsb_status_t
mmsb_block_allocate(stream, bytes, tag, reservation, block, address) =
    @ccall libmmsb.mmsb_block_allocate(
        stream::mmsb_stream_t, bytes::UInt64, tag::mmsb_tag_t, reservation::mmsb_reservation_t,
        block::Ptr{mmsb_block_t}, address::Ptr{Ptr{Cvoid}}
    )::mmsb_status_t
mmsb_block_free(block, stream, deferred) =
    @ccall libmmsb.mmsb_block_free(block::mmsb_block_t, stream::mmsb_stream_t, deferred::Ptr{Int32})::mmsb_status_t
mmsb_block_info_init(info) = @ccall libmmsb.mmsb_block_info_init(info::Ptr{mmsb_block_info_t})::Cvoid
mmsb_block_info(block, info) =
    @ccall libmmsb.mmsb_block_info(block::mmsb_block_t, info::Ptr{mmsb_block_info_t})::mmsb_status_t
mmsb_block_at(runtime, address, block, offset) =
    @ccall libmmsb.mmsb_block_at(
        runtime::mmsb_runtime_t, address::Ptr{Cvoid}, block::Ptr{mmsb_block_t}, offset::Ptr{UInt64}
    )::mmsb_status_t
mmsb_page_block(page, block) =
    @ccall libmmsb.mmsb_page_block(page::mmsb_page_t, block::Ptr{mmsb_block_t})::mmsb_status_t
mmsb_pool_partition(runtime, tag) =
    @ccall libmmsb.mmsb_pool_partition(runtime::mmsb_runtime_t, tag::mmsb_tag_t)::mmsb_status_t
mmsb_sleep_options_init(options) = @ccall libmmsb.mmsb_sleep_options_init(options::Ptr{mmsb_sleep_options_t})::Cvoid
mmsb_pool_sleep(runtime, tags, count, options) =
    @ccall libmmsb.mmsb_pool_sleep(
        runtime::mmsb_runtime_t, tags::Ptr{mmsb_tag_t}, count::Csize_t, options::Ptr{mmsb_sleep_options_t}
    )::mmsb_status_t
mmsb_pool_wake(runtime, tags, count) =
    @ccall libmmsb.mmsb_pool_wake(runtime::mmsb_runtime_t, tags::Ptr{mmsb_tag_t}, count::Csize_t)::mmsb_status_t
mmsb_capture_begin(streams, count, capture) =
    @ccall libmmsb.mmsb_capture_begin(
        streams::Ptr{mmsb_stream_t}, count::Csize_t, capture::Ptr{mmsb_capture_t}
    )::mmsb_status_t
mmsb_capture_resume(capture, streams, count) =
    @ccall libmmsb.mmsb_capture_resume(
        capture::mmsb_capture_t, streams::Ptr{mmsb_stream_t}, count::Csize_t
    )::mmsb_status_t
mmsb_capture_end(capture) = @ccall libmmsb.mmsb_capture_end(capture::mmsb_capture_t)::mmsb_status_t
mmsb_capture_destroy(capture) = @ccall libmmsb.mmsb_capture_destroy(capture::mmsb_capture_t)::mmsb_status_t
mmsb_use_begin(stream, accesses, count, use, bad_index) =
    @ccall libmmsb.mmsb_use_begin(
        stream::mmsb_stream_t, accesses::Ptr{mmsb_access_t}, count::Csize_t, use::Ptr{mmsb_use_t},
        bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_use_address(use, block, address) =
    @ccall libmmsb.mmsb_use_address(use::mmsb_use_t, block::mmsb_block_t, address::Ptr{Ptr{Cvoid}})::mmsb_status_t
mmsb_use_end(use) = @ccall libmmsb.mmsb_use_end(use::mmsb_use_t)::mmsb_status_t
mmsb_use_abort(use) = @ccall libmmsb.mmsb_use_abort(use::mmsb_use_t)::mmsb_status_t
mmsb_use_record(stream, permissive, use) =
    @ccall libmmsb.mmsb_use_record(stream::mmsb_stream_t, permissive::Int32, use::Ptr{mmsb_use_t})::mmsb_status_t
mmsb_use_add(use, block, access) =
    @ccall libmmsb.mmsb_use_add(use::mmsb_use_t, block::mmsb_block_t, access::Int32)::mmsb_status_t
mmsb_use_begin_recorded(use) = @ccall libmmsb.mmsb_use_begin_recorded(use::mmsb_use_t)::mmsb_status_t
mmsb_stream_copy_many(stream, copies, count, bad_index) =
    @ccall libmmsb.mmsb_stream_copy_many(
        stream::mmsb_stream_t, copies::Ptr{mmsb_copy_t}, count::Csize_t, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_stream_compare(stream, result, a, b, bytes) =
    @ccall libmmsb.mmsb_stream_compare(
        stream::mmsb_stream_t, result::Ptr{Cvoid}, a::Ptr{Cvoid}, b::Ptr{Cvoid}, bytes::UInt64
    )::mmsb_status_t
mmsb_stream_difference(stream, difference, a, b, bytes) =
    @ccall libmmsb.mmsb_stream_difference(
        stream::mmsb_stream_t, difference::Ptr{mmsb_difference_t}, a::Ptr{Cvoid}, b::Ptr{Cvoid}, bytes::UInt64
    )::mmsb_status_t
mmsb_stream_differences(stream, bits, a, b, bytes) =
    @ccall libmmsb.mmsb_stream_differences(
        stream::mmsb_stream_t, bits::Ptr{Cvoid}, a::Ptr{Cvoid}, b::Ptr{Cvoid}, bytes::UInt64
    )::mmsb_status_t
mmsb_stream_checksum(stream, sums, from, bytes, part) =
    @ccall libmmsb.mmsb_stream_checksum(
        stream::mmsb_stream_t, sums::Ptr{UInt32}, from::Ptr{Cvoid}, bytes::UInt64, part::UInt64
    )::mmsb_status_t
mmsb_stream_merge(stream, to, mask, kind, payload, bytes, changed) =
    @ccall libmmsb.mmsb_stream_merge(
        stream::mmsb_stream_t, to::Ptr{Cvoid}, mask::Ptr{Cvoid}, kind::mmsb_delta_kind_t, payload::Ptr{Cvoid},
        bytes::UInt64, changed::Ptr{Cvoid}
    )::mmsb_status_t
mmsb_stream_scatter(stream, to, bytes, offsets, offset_bytes, origin, values, count) =
    @ccall libmmsb.mmsb_stream_scatter(
        stream::mmsb_stream_t, to::Ptr{Cvoid}, bytes::UInt64, offsets::Ptr{Cvoid}, offset_bytes::UInt32, origin::UInt64,
        values::Ptr{Cvoid}, count::UInt64
    )::mmsb_status_t
mmsb_stream_propagate(stream, items, count, bad_index) =
    @ccall libmmsb.mmsb_stream_propagate(
        stream::mmsb_stream_t, items::Ptr{mmsb_propagation_t}, count::Csize_t, bad_index::Ptr{Csize_t}
    )::mmsb_status_t
mmsb_plugin_allocate(runtime, bytes, stream, kind, address) =
    @ccall libmmsb.mmsb_plugin_allocate(
        runtime::mmsb_runtime_t, bytes::UInt64, stream::Ptr{Cvoid}, kind::Int32, address::Ptr{Ptr{Cvoid}}
    )::mmsb_status_t
mmsb_plugin_free(address, stream) =
    @ccall libmmsb.mmsb_plugin_free(address::Ptr{Cvoid}, stream::Ptr{Cvoid})::mmsb_status_t
mmsb_plugin_record(address, stream) =
    @ccall libmmsb.mmsb_plugin_record(address::Ptr{Cvoid}, stream::Ptr{Cvoid})::mmsb_status_t
mmsb_plugin_bind(device, runtime) =
    @ccall libmmsb.mmsb_plugin_bind(device::Int32, runtime::mmsb_runtime_t)::mmsb_status_t
mmsb_torch_allocate(bytes, device, stream) =
    @ccall libmmsb.mmsb_torch_allocate(bytes::Csize_t, device::Int32, stream::Ptr{Cvoid})::Ptr{Cvoid}
mmsb_torch_allocate_segment(bytes, device, stream) =
    @ccall libmmsb.mmsb_torch_allocate_segment(bytes::Csize_t, device::Int32, stream::Ptr{Cvoid})::Ptr{Cvoid}
mmsb_torch_free(address, bytes, device, stream) =
    @ccall libmmsb.mmsb_torch_free(address::Ptr{Cvoid}, bytes::Csize_t, device::Int32, stream::Ptr{Cvoid})::Cvoid
mmsb_torch_record_stream(address, stream) =
    @ccall libmmsb.mmsb_torch_record_stream(address::Ptr{Cvoid}, stream::Ptr{Cvoid})::Cvoid
mmsb_torch_empty_cache() = @ccall libmmsb.mmsb_torch_empty_cache()::Cvoid
mmsb_torch_memory_fraction(fraction, device) =
    @ccall libmmsb.mmsb_torch_memory_fraction(fraction::Float64, device::Int32)::Cvoid
mmsb_torch_base(address, bytes) = @ccall libmmsb.mmsb_torch_base(address::Ptr{Cvoid}, bytes::Ptr{Csize_t})::Ptr{Cvoid}
mmsb_cupy_malloc(runtime, bytes, device) =
    @ccall libmmsb.mmsb_cupy_malloc(runtime::Ptr{Cvoid}, bytes::Csize_t, device::Int32)::Ptr{Cvoid}
mmsb_cupy_free(runtime, address, device) =
    @ccall libmmsb.mmsb_cupy_free(runtime::Ptr{Cvoid}, address::Ptr{Cvoid}, device::Int32)::Cvoid
mmsb_tensor_options_init(options) = @ccall libmmsb.mmsb_tensor_options_init(options::Ptr{mmsb_tensor_options_t})::Cvoid
mmsb_page_export_tensor(page, options, tensor) =
    @ccall libmmsb.mmsb_page_export_tensor(
        page::mmsb_page_t, options::Ptr{mmsb_tensor_options_t}, tensor::Ptr{Ptr{Cvoid}}
    )::mmsb_status_t
mmsb_block_export_tensor(block, stream, options, tensor) =
    @ccall libmmsb.mmsb_block_export_tensor(
        block::mmsb_block_t, stream::Ptr{Cvoid}, options::Ptr{mmsb_tensor_options_t}, tensor::Ptr{Ptr{Cvoid}}
    )::mmsb_status_t
mmsb_tensor_info_init(info) = @ccall libmmsb.mmsb_tensor_info_init(info::Ptr{mmsb_tensor_info_t})::Cvoid
mmsb_tensor_info(tensor, versioned, info) =
    @ccall libmmsb.mmsb_tensor_info(tensor::Ptr{Cvoid}, versioned::Int32, info::Ptr{mmsb_tensor_info_t})::mmsb_status_t
mmsb_page_adopt_tensor(context, tensor, versioned, options, page) =
    @ccall libmmsb.mmsb_page_adopt_tensor(
        context::mmsb_context_t, tensor::Ptr{Cvoid}, versioned::Int32, options::Ptr{mmsb_adopt_options_t},
        page::Ptr{mmsb_page_t}
    )::mmsb_status_t
mmsb_tensor_to_arrow(tensor, versioned, array, schema) =
    @ccall libmmsb.mmsb_tensor_to_arrow(
        tensor::Ptr{Cvoid}, versioned::Int32, array::Ptr{Cvoid}, schema::Ptr{Cvoid}
    )::mmsb_status_t
mmsb_tensor_from_arrow(array, schema, tensor) =
    @ccall libmmsb.mmsb_tensor_from_arrow(array::Ptr{Cvoid}, schema::Ptr{Cvoid}, tensor::Ptr{Ptr{Cvoid}})::mmsb_status_t
mmsb_tensor_capsule_end(capsule) = @ccall libmmsb.mmsb_tensor_capsule_end(capsule::Ptr{Cvoid})::Cvoid
