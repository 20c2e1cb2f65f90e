"A pool of device memory in slabs, and pages in unified memory, which the driver moves between the host and devices."
module UnifiedMemory

using ..MMSB: AbstractMMSBError, DeviceBlock, DeviceRuntime, DeviceStream, MMSBState, Page, UNIFIED_LOCATION
using ..MMSB: allocate_block!, call, check, create_runtime!, free_block!, get_devices, get_runtime_statistics
using ..MMSB: initialised, move_page!, on_cpu_only, open_stream!, trim_memory!, with_fields
using ..MMSB.LibMMSB
using ..MMSB.PageAllocator: create_page!

export GPUMemoryPool, allocate_from_pool, deallocate_to_pool, get_pool_stats
export adaptive_prefetch_distance, convert_to_unified!, create_unified_page!, disable_read_mostly_hint!
export enable_read_mostly_hint!, get_page_advice, is_unified_memory_available, prefetch_unified_to_cpu!, prefetch_unified_to_gpu!
export set_preferred_location!

"""
    GPUMemoryPool(state; device = 0)
    GPUMemoryPool(; device = 0, options...)

A pool of a device's memory. Requests take slabs of 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB or 4 MiB, larger ones what they need;
what is given back serves again. Without a state the pool has one of its own, with these options of `MMSBState`. `empty!` gives
back what nobody has, `close` ends the pool with all that is in it.
"""
struct GPUMemoryPool
    state::MMSBState
    owns_state::Bool
    runtime::DeviceRuntime
    stream::DeviceStream
    lock::ReentrantLock
    blocks::Dict{Ptr{Cvoid},DeviceBlock}
end

GPUMemoryPool(state::MMSBState; device::Integer = 0) = pool_on(state, false, device)

function GPUMemoryPool(; device::Integer = 0, options...)
    state = MMSBState(; options...)
    try
        return pool_on(state, true, device)
    catch
        close(state)
        rethrow()
    end
end

function pool_on(state, owns_state, device)
    runtime = create_runtime!(state, device; pool = "slabs:true")
    return GPUMemoryPool(state, owns_state, runtime, open_stream!(runtime), ReentrantLock(), Dict{Ptr{Cvoid},DeviceBlock}())
end

"""
    allocate_from_pool(pool, size)::Ptr{Cvoid}

Memory of the device, aligned to 256 bytes; its contents are undefined, and the host must not access it.
"""
function allocate_from_pool(pool::GPUMemoryPool, size::Integer)
    block = allocate_block!(pool.stream, size)
    address = Ptr{Cvoid}(block.address)
    lock(() -> (pool.blocks[address] = block), pool.lock)
    return address
end

"""
    deallocate_to_pool(pool, ptr, size)

Gives memory back, whose `size` must be that of its allocation. No work that uses it may be queued or running on the device.
"""
function deallocate_to_pool(pool::GPUMemoryPool, ptr::Ptr{Cvoid}, size::Integer)
    lock(pool.lock) do
        block = get(pool.blocks, ptr, nothing)
        block === nothing && throw(ArgumentError("$ptr is not memory of this pool"))
        block.bytes == size || throw(ArgumentError("size is $size, but $(block.bytes) bytes were allocated at $ptr"))
        free_block!(block)
        delete!(pool.blocks, ptr)
    end
    return nothing
end

"""
    get_pool_stats(pool)::Dict{Symbol,UInt64}

`allocations`, `deallocations`, `cache_hits` and `cache_misses` since the pool began; `bytes_allocated` in slabs, and
`bytes_cached`, which the pool has and nobody uses.
"""
function get_pool_stats(pool::GPUMemoryPool)
    stats = get_runtime_statistics(pool.runtime)
    return Dict{Symbol,UInt64}(
        :allocations => stats.allocations, :deallocations => stats.frees,
        :cache_hits => stats.allocations - stats.pool_misses, :cache_misses => stats.pool_misses,
        :bytes_allocated => stats.pool_held, :bytes_cached => stats.pool_reserved - stats.pool_held,
    )
end

function Base.empty!(pool::GPUMemoryPool)
    wait(pool.stream)
    trim_memory!(pool.runtime)
    return pool
end

function Base.close(pool::GPUMemoryPool)
    close(pool.runtime)
    pool.owns_state && close(pool.state)
    return nothing
end

"""
    is_unified_memory_available()::Bool
    is_unified_memory_available(state)::Bool

Whether a device has unified memory that the host uses at the same time: of the driver's, those of compute capability 6.0 and
newer can. With a state, of that state's devices, which may be simulated.
"""
function is_unified_memory_available()
    state = MMSBState()
    try
        return is_unified_memory_available(state)
    finally
        close(state)
    end
end
function is_unified_memory_available(state::MMSBState)
    try
        return any(device -> device.managed_memory && device.compute_capability >= v"6.0", get_devices(state))
    catch e
        e isa AbstractMMSBError || rethrow() # there is no device, or none that works
        return false
    end
end

"""
    create_unified_page!(state, size)

Creates a page in unified memory. Options as for `create_page!`.
"""
create_unified_page!(state::MMSBState, size::Integer; options...) = create_page!(state, size, UNIFIED_LOCATION; options...)

"""
    convert_to_unified!(page; device = 0)

Moves the page into unified memory of a device; does nothing if it is there.
"""
convert_to_unified!(page::Page; device::Integer = 0) =
    page.location == UNIFIED_LOCATION ? page : move_page!(page, UNIFIED_LOCATION, device)

"""
    prefetch_unified_to_gpu!(page, device = 0)
    prefetch_unified_to_cpu!(page)

Moves the memory of a unified page to a device, or to the host, before it is used there, and returns when it is there. Throws an
`UnsupportedLocationError` where the page is not in unified memory.
"""
prefetch_unified_to_gpu!(page::Page, device::Integer = 0) = prefetch(page, MMSB_SYNC_TO_DEVICE, device)

@doc (@doc prefetch_unified_to_gpu!) prefetch_unified_to_cpu!(page::Page) = prefetch(page, MMSB_SYNC_TO_HOST, 0)

function prefetch(page, direction, device)
    on_cpu_only() && return page
    advice_of(page) # throws for pages elsewhere
    call(mmsb_page_sync, page, direction, device)
    return page
end

"""
    adaptive_prefetch_distance(latencies_ns)::Int

How many pages to prefetch ahead, by the times in nanoseconds that the last accesses took: 4 without any; with a mean above 1 ms
16, above 500 µs 8, above 100 µs 4, else 2.
"""
function adaptive_prefetch_distance(latencies_ns)
    latencies = UInt64[latency for latency in latencies_ns]
    distance = Ref{UInt32}()
    check(mmsb_prefetch_distance(latencies, length(latencies), distance))
    return Int(distance[])
end

function advice_of(page)
    advice = initialised(mmsb_page_advice_t, mmsb_page_advice_init)
    call(mmsb_page_advice, page, advice)
    return advice
end

function advise!(page; changes...)
    on_cpu_only() && return page
    advice = advice_of(page)
    advice[] = with_fields(advice[], values(changes))
    call(mmsb_page_advise, page, advice)
    return page
end

"""
    get_page_advice(page)

What the driver was told of the use of a unified page: `preferred` (a device, `:cpu` or `nothing`) and `read_mostly`.
"""
function get_page_advice(page::Page)
    advice = advice_of(page)[]
    preferred = advice.preferred
    return (
        preferred = preferred == MMSB_DEVICE_NONE ? nothing : preferred == MMSB_DEVICE_HOST ? :cpu : Int(preferred),
        read_mostly = advice.read_mostly == 1,
    )
end

"""
    set_preferred_location!(page, device)

Tells the driver where the memory of a unified page stays while others reach it there: on a device, on the host (`:cpu`), or
nowhere (`nothing`). The advice stays through `resize_page!`, and ends when the page moves to another location.
"""
set_preferred_location!(page::Page, device::Integer) = advise!(page; preferred = preferred_device(device))
set_preferred_location!(page::Page, ::Nothing) = advise!(page; preferred = MMSB_DEVICE_NONE)
set_preferred_location!(page::Page, place::Symbol) =
    place === :cpu ? advise!(page; preferred = MMSB_DEVICE_HOST) :
    throw(ArgumentError("$(repr(place)) is not a device; it is a number, :cpu or nothing"))

preferred_device(device) = device < 0 ? throw(ArgumentError("device $device is negative")) : Int32(device)

"""
    enable_read_mostly_hint!(page)
    disable_read_mostly_hint!(page)

Tells the driver that a unified page is mostly read, so that who reads gets a copy, which ends with the next write; or that it is
not any more.
"""
enable_read_mostly_hint!(page::Page) = advise!(page; read_mostly = Int32(1))

@doc (@doc enable_read_mostly_hint!) disable_read_mostly_hint!(page::Page) = advise!(page; read_mostly = Int32(0))

end
