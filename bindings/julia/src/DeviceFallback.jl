"Fallback to the CPU for programs that run without a GPU."
module DeviceFallback

using ..MMSB: AbstractMMSBError, CPU_ONLY, MMSBState, Page, fill_list, fill_reference
using ..MMSB.DeviceSync: GPUCommandBuffer, enqueue_propagation_command
using ..MMSB.LibMMSB

export CPUPropagationQueue, drain, fallback_to_cpu, get_lost_pages, has_gpu_support

"""
    has_gpu_support()::Bool

Whether this process can use a GPU. A simulated device does not count.
"""
has_gpu_support() = any(record -> capability_name(record) == "cuda" && record.available == 1, capabilities())

capabilities() = fill_list(mmsb_capability_t, mmsb_capabilities)
capability_name(record) = String(UInt8[c for c in Iterators.takewhile(!iszero, reinterpret(UInt8, collect(record.name)))])

# The codes for a device that is missing, cannot do the call, failed or is lost.
const DEVICE_FAILURES = (MMSB_E_UNSUPPORTED, MMSB_E_NO_DEVICE, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST)

"""
    fallback_to_cpu(f)

The result of `f()`. If `f` throws because a device is missing or fails, this warns and runs `f` a second time on the CPU: pages
that this task creates or moves then lie in host memory, whatever location the call names. So `f` must be able to run twice.
"""
function fallback_to_cpu(f)
    try
        return f()
    catch failure
        failure isa AbstractMMSBError && failure.code in DEVICE_FAILURES || rethrow()
        @warn "the device is not available: running on the CPU" failure.message
    end
    return task_local_storage(f, CPU_ONLY, true)
end

"""
    get_lost_pages(state)

The GPU pages whose device is lost, when those have gone on that could, as named tuples `(page, size, lost, device)`: `lost`
counts bytes that only the device had, or that it may have changed. With a `fallback`, pages whose newest bytes the host has go
on by themselves. What has lost bytes can be deleted, or loaded again from a snapshot.
"""
function get_lost_pages(state::MMSBState)
    return [
        (page = Page(state, l.page), size = Int(l.size), lost = Int(l.lost), device = Int(l.device)) for
        l in fill_list(mmsb_lost_page_t, mmsb_context_lost_pages, state)
    ]
end

"""
    CPUPropagationQueue(capacity = 65536)

A queue of commands that `drain` executes, on the thread that calls it: `push!(queue, page)` and `push!(queue, page,
dependencies)` enqueue as `enqueue_propagation_command` does, and throw a `WaitTimeoutError` where the thread's ring is full;
`length(queue)` is how many wait, `close` ends it.
"""
struct CPUPropagationQueue
    buffer::GPUCommandBuffer
end

CPUPropagationQueue(capacity::Integer = 65536) = CPUPropagationQueue(GPUCommandBuffer(capacity; workers = 0))

function Base.push!(queue::CPUPropagationQueue, page::Page, dependencies::Union{AbstractVector{Page},Nothing} = nothing)
    enqueue_propagation_command(queue.buffer, page, dependencies; timeout = 0)
    return queue
end

Base.length(queue::CPUPropagationQueue) = length(queue.buffer)
Base.close(queue::CPUPropagationQueue; cancel::Bool = false) = close(queue.buffer; cancel = cancel)

"""
    drain(queue)::Int

Executes the commands that wait, on this thread, and returns how many; `get_command_failures(queue.buffer)` tells what they met.
"""
drain(queue::CPUPropagationQueue) = Int(fill_reference(UInt64, mmsb_commands_drain, queue.buffer, 0))

end
