"A pool of device memory in slabs."
module UnifiedMemory

using ..MMSB: DeviceBlock, DeviceRuntime, DeviceStream, MMSBState
using ..MMSB: allocate_block!, create_runtime!, free_block!, get_runtime_statistics, open_stream!, trim_memory!

export GPUMemoryPool, allocate_from_pool, deallocate_to_pool, get_pool_stats

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

end
