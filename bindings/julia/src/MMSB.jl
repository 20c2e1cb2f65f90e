"""
Paged memory in host memory, on GPUs and on disk: the Julia binding of libmmsb.

An `MMSBState` owns pages; a `Page` refers to one. Byte positions count from 1. The environment variable MMSB_LIBRARY names the
library's file; without it the library is loaded that `Pkg.build("MMSB")` found or built, else that of the build tree. Functions
may be called from any task and thread.
"""
module MMSB

include("LibMMSB.jl")
using .LibMMSB
using Serialization: Serialization, AbstractSerializer, Serializer, deserialize, serialize

include("errors.jl")
include("state.jl")
include("pages.jl")
include("memory.jl")
include("library.jl")
include("metadata.jl")
include("deltas.jl")
include("dependencies.jl")
include("tickets.jl")
include("snapshots.jl")
include("journal.jl")
include("stores.jl")
include("groups.jl")
include("devices.jl")
include("sleep.jl")
include("plugins.jl")
include("PageAllocator.jl")
include("DeviceSync.jl")
include("DeviceFallback.jl")
include("UnifiedMemory.jl")
include("GPUKernels.jl")
include("copies.jl")

export AbstractMMSBError
export MMSBState, Page, PageID, PageLocation, Ticket
export CPU_LOCATION, GPU_LOCATION, UNIFIED_LOCATION, PINNED_LOCATION, DISK_LOCATION
export get_page, get_pages, read_page, write_page!, with_page, with_array, writing
export adopt_page!, release_page!, get_mask, clear_mask!, count_mask
export apply_delta!, apply_deltas!, Delta, merge_deltas, convert_delta, delta_from_pages
export configure_log, read_log, get_memory_usage
export check_guard, GuardReport
export add_dependency!, remove_dependency!, get_parents, get_children
export progress, cancel!, event_descriptor
export save_snapshot, async_save_snapshot, get_save_statistics
export save_bytes, async_save_bytes, restore_bytes!, async_restore_bytes!
export load_snapshot, restore!, async_restore!
export Snapshot, SnapshotPage, verify_snapshot, compact_snapshot, diff_snapshots
export async_verify_snapshot, async_compact_snapshot, async_diff_snapshots
export get_devices, DeviceRuntime, DeviceStream, DeviceBlock
export get_runtime, create_runtime!, get_runtime_statistics, get_tag_statistics
export set_device_budget!, get_device_memory
export get_memory_statistics, get_memory_snapshot, write_memory_snapshot
export reap_frees!, trim_memory!, write_runtime_log, reserve_bytes!, end_reservation!
export device_number, device_range, block_range_at
export open_stream!, wrap_stream!, native_stream, record_stream, wait_on_device!
export allocate_address!, record_address!, free_address!
export allocate_block!, free_block!, count_uses, with_use, write_block!, read_block, copy_block!, fill_block!
export partition_tags!, sleep_tags!, wake_tags!, is_asleep, DeviceCapture, capture_work!
export open_journal!, sync_journal, close_journal!, trim_journal!, get_journal_info
export async_open_journal!, async_sync_journal, async_trim_journal!
export open_store, checkpoint!, name!, unname!, store_info, store_points
export async_checkpoint!, async_name!
export wait_record, async_wait_record
export group

for exporter in (PageAllocator, DeviceSync, DeviceFallback, UnifiedMemory, GPUKernels)
    @eval using .$(nameof(exporter))
    for name in names(exporter)
        @eval export $name
    end
end

__init__() = LibMMSB.load()

end
