"Moving pages between the host and devices, and the changed bytes of pages to those that follow them."
module DeviceSync

using ..MMSB: DeviceStream, MMSBState, Page, PageLocation, Ticket, CPU_LOCATION, GPU_LOCATION, UNIFIED_LOCATION
using ..MMSB: destroy_ticket, record_stream
using ..MMSB: AbstractMMSBError, WAIT_SLICE_NS, check, error_type, list_pointer, reject, with_fields
using ..MMSB: call, fill_reference, get_page, initialised, move_page!, moving_many, run_work, start
using ..MMSB.LibMMSB
import ..MMSB: handle, owner

export async_sync_page_to_gpu!, batch_sync_to_cpu!, batch_sync_to_gpu!, ensure_page_on_device!, get_sync_statistics
export prefetch_pages_to_gpu!, sync_bidirectional!, sync_page_to_cpu!, sync_page_to_gpu!
export GPUCommandBuffer, create_gpu_command_buffer, enqueue_propagation_command, wait_gpu_queue
export get_command_failures, get_command_statistics

# Host and devices can access managed memory, so such pages stay where they are.
stays(page, location) = page.location in (location, UNIFIED_LOCATION)

"""
    sync_page_to_gpu!(page; device = 0)

Moves the page's bytes to a device. A page in managed memory stays there, because devices can access it.
"""
sync_page_to_gpu!(page::Page; device::Integer = 0) = stays(page, GPU_LOCATION) ? page : move_page!(page, GPU_LOCATION, device)

"""
    sync_page_to_cpu!(page)

Moves the page's bytes to the host. A page in managed memory stays there, because the host can access it.
"""
sync_page_to_cpu!(page::Page) = stays(page, CPU_LOCATION) ? page : move_page!(page, CPU_LOCATION, 0)

"""
    sync_bidirectional!(a, b; device = 0)

Moves both pages to a device if their locations differ. Returns `(a, b)`.
"""
function sync_bidirectional!(a::Page, b::Page; device::Integer = 0)
    if a.location != b.location
        sync_page_to_gpu!(a; device = device)
        sync_page_to_gpu!(b; device = device)
    end
    return a, b
end

"""
    ensure_page_on_device!(page, location; device = 0)::Bool

Moves the page to a location unless it is there, and returns whether it moved. Throws an `UnsupportedLocationError` if the
location is not available.
"""
function ensure_page_on_device!(page::Page, location::PageLocation; device::Integer = 0)
    before = page.location, page.device
    move_page!(page, location, device)
    return (page.location, page.device) != before
end

"""
    async_sync_page_to_gpu!(page[, after]; device = 0)::Ticket
    async_sync_page_to_gpu!(page, stream; device = 0)::Ticket

Starts to move the page's bytes to a device when the work of the ticket `after`, or all that is queued on a stream so far, is
done. `fetch(ticket)` returns the page.
"""
async_sync_page_to_gpu!(page::Page, stream::DeviceStream; device::Integer = 0) =
    closing_unfinished(record_stream(stream)) do queued
        async_sync_page_to_gpu!(page, queued; device = device)
    end
async_sync_page_to_gpu!(page::Page, after::Union{Ticket,Nothing} = nothing; device::Integer = 0) =
    start(moving_many([page], GPU_LOCATION, device, page), after === nothing ? Ticket[] : [after])

"""
    batch_sync_to_gpu!(pages; device = 0, timeout = nothing)

Moves many pages to a device in one call. Throws if a page cannot move; each page has then moved completely or not at all.
`timeout`: as for `migrate_pages!`.
"""
batch_sync_to_gpu!(pages::AbstractVector{Page}; device::Integer = 0, timeout::Union{Real,Nothing} = nothing) =
    move_many!(pages, GPU_LOCATION, device, timeout)

"""
    batch_sync_to_cpu!(pages; timeout = nothing)

Moves many pages to the host in one call. Throws if a page cannot move; each page has then moved completely or not at all.
`timeout`: as for `migrate_pages!`.
"""
batch_sync_to_cpu!(pages::AbstractVector{Page}; timeout::Union{Real,Nothing} = nothing) =
    move_many!(pages, CPU_LOCATION, 0, timeout)

"""
    prefetch_pages_to_gpu!(state, ids; device = 0, timeout = nothing)

Moves the pages with these ids, or these pages, to a device and returns them. Ids without a page are ignored. `timeout`: as for
`migrate_pages!`.
"""
function prefetch_pages_to_gpu!(state::MMSBState, ids; device::Integer = 0, timeout::Union{Real,Nothing} = nothing)
    found = (get_page(state, id) for id in ids)
    return batch_sync_to_gpu!(Page[page for page in found if page !== nothing]; device = device, timeout = timeout)
end

function move_many!(pages, location, device, timeout)
    moving = Page[page for page in pages if !stays(page, location)]
    isempty(moving) || run_work(moving_many(moving, location, device, pages), timeout)
    return pages
end

"Calls f on a ticket and gives it back, without waiting for its work."
function closing_unfinished(f, ticket)
    try
        return f(ticket)
    finally
        destroy_ticket(ticket)
    end
end

"""
    get_sync_statistics(state)::Dict{Symbol,Any}

Number and bytes of the pages, by location and in total: `:cpu_pages`, `:cpu_bytes`, `:gpu_pages`, …, `:total_pages`,
`:total_bytes`.
"""
function get_sync_statistics(state::MMSBState)
    stats = initialised(mmsb_context_stats_t, mmsb_context_stats_init)
    call(mmsb_context_stats, state, stats)
    statistics = Dict{Symbol,Any}(:total_pages => Int(stats[].pages), :total_bytes => Int(stats[].bytes))
    for location in instances(PageLocation)
        name = lowercase(replace(string(location), "_LOCATION" => ""))
        statistics[Symbol(name, :_pages)] = Int(stats[].location_pages[Int(location)+1])
        statistics[Symbol(name, :_bytes)] = Int(stats[].location_bytes[Int(location)+1])
    end
    return statistics
end

# --------------------------------------------------------------------------------------------- command buffers ----

"""
    GPUCommandBuffer(capacity; workers = 1)

Keeps commands and executes them later: a command copies the bytes that the change masks of its dependencies have into a page, as
one delta of the page. Each thread of Julia has a ring of `capacity` commands in it, which are executed in their order; a task
that other threads go on with has an order only between two waits. `workers`: threads of the library that execute commands, at
most 64; 0: `wait_gpu_queue` does it. It keeps the states of its pages. `close` executes what waits and ends the buffer; with
`cancel = true` it drops what waits.
"""
mutable struct GPUCommandBuffer
    handle::Threads.Atomic{UInt64}    # 0 once it is closed
    lock::ReentrantLock
    states::IdDict{MMSBState,Nothing}

    function GPUCommandBuffer(capacity::Integer; workers::Integer = 1)
        options = initialised(mmsb_commands_options_t, mmsb_commands_options_init)
        options[] = with_fields(options[], (capacity = UInt64(capacity), workers = Int32(workers)))
        created = Ref{UInt64}(0)
        check(mmsb_commands_create(options, created))
        buffer = new(Threads.Atomic{UInt64}(created[]), ReentrantLock(), IdDict{MMSBState,Nothing}())
        return finalizer(destroy, buffer)
    end
end

destroy(buffer) = mmsb_commands_destroy(Threads.atomic_xchg!(buffer.handle, UInt64(0)))

owner(buffer::GPUCommandBuffer) = buffer

function handle(buffer::GPUCommandBuffer)
    value = buffer.handle[]
    value == 0 && reject(MMSB_E_STALE_HANDLE, "the command buffer is closed")
    return value
end

"""
    create_gpu_command_buffer(capacity = 1024; workers = 1)::GPUCommandBuffer

A command buffer, see `GPUCommandBuffer`.
"""
create_gpu_command_buffer(capacity::Integer = UInt32(1024); workers::Integer = 1) = GPUCommandBuffer(capacity; workers = workers)

"""
    enqueue_propagation_command(buffer, page, dependencies; timeout = Inf)
    enqueue_propagation_command(buffer, page; timeout = Inf)

Enqueues a command: the changed bytes of the dependencies, pages of the same size, are to go to the page; of two that have a byte
the later one's stays. Without a list the dependencies are the page's parents, as they are when the command is executed. Where the
thread's ring is full it waits, at most `timeout` seconds, then it throws a `WaitTimeoutError`. Returns the buffer.
"""
function enqueue_propagation_command(
    buffer::GPUCommandBuffer,
    page::Page,
    dependencies::Union{AbstractVector{Page},Nothing} = nothing;
    timeout::Real = Inf,
)
    handles = dependencies === nothing ? UInt64[] : UInt64[handle(each) for each in dependencies]
    keep_state(buffer, page)
    dependencies === nothing || foreach(each -> keep_state(buffer, each), dependencies)
    GC.@preserve buffer handles begin
        list = dependencies === nothing ? Ptr{UInt64}(0) : list_pointer(handles)
        patiently(timeout) do nanoseconds
            mmsb_commands_enqueue(handle(buffer), handle(page), list, length(handles), nanoseconds)
        end
    end
    return buffer
end

keep_state(buffer, page) = lock(() -> (buffer.states[owner(page)] = nothing), buffer.lock)

"""
    wait_gpu_queue(buffer; timeout = Inf)

Waits until all commands that were enqueued before are done, at most `timeout` seconds, then it throws a `WaitTimeoutError`; other
tasks run meanwhile. What commands met is in `get_command_failures`. Returns the buffer.
"""
function wait_gpu_queue(buffer::GPUCommandBuffer; timeout::Real = Inf)
    GC.@preserve buffer patiently(nanoseconds -> mmsb_commands_wait(handle(buffer), nanoseconds), timeout)
    return buffer
end

"Calls f with short waits until it has done what it does or the time is over: garbage is not collected during one."
function patiently(f, timeout)
    timeout >= 0 || throw(ArgumentError("timeout is $timeout; the minimum is 0 seconds"))
    deadline = time() + timeout
    while true
        left = deadline - time()
        status = f(timeout == 0 ? UInt64(0) : floor(UInt64, clamp(left * 1e9, 1, WAIT_SLICE_NS)))
        status in (MMSB_E_WOULD_BLOCK, MMSB_E_TIMEOUT) && left > 0 && timeout > 0 || return check(status)
        yield()
    end
end

"""
    get_command_statistics(buffer)::Dict{Symbol,Int}

Counters of a command buffer: `:enqueued`, of which are `:done`, `:failed`, `:cancelled` and, as `:depth`, waiting; `:peak`,
the most that have waited in the ring of a thread; `:capacity`, `:workers`, `:producers` (rings); `:refused`, `:waits` and
`:waited_ns`, because a ring was full; `:failures_lost`.
"""
function get_command_statistics(buffer::GPUCommandBuffer)
    stats = initialised(mmsb_commands_stats_t, mmsb_commands_stats_init)
    call(mmsb_commands_stats, buffer, stats)
    names = filter(name -> !(name in (:struct_size, :reserved)), fieldnames(mmsb_commands_stats_t))
    return Dict{Symbol,Int}(name => getfield(stats[], name) for name in names)
end

"""
    get_command_failures(buffer)::Vector{Pair{UInt64,AbstractMMSBError}}

Takes out of the buffer what commands met when they were executed, the oldest first: the handle of the page, and the error. Such a
command has changed nothing. The newest 256 were kept.
"""
function get_command_failures(buffer::GPUCommandBuffer)
    records, count = Vector{mmsb_command_failure_t}(undef, 256), Ref{Csize_t}(0)
    call(mmsb_commands_failures, buffer, records, length(records), count)
    return Pair{UInt64,AbstractMMSBError}[failure.page => failure_of(failure) for failure in view(records, 1:Int(count[]))]
end

failure_of(failure) =
    error_type(failure.code)(failure.code, String(UInt8[byte for byte in Iterators.takewhile(!iszero, failure.text)]))

function Base.close(buffer::GPUCommandBuffer; cancel::Bool = false)
    buffer.handle[] == 0 && return nothing
    mode = cancel ? MMSB_COMMANDS_CANCEL : MMSB_COMMANDS_COMPLETE
    GC.@preserve buffer patiently(nanoseconds -> mmsb_commands_close(handle(buffer), mode, nanoseconds), Inf)
    check(destroy(buffer))
    lock(() -> empty!(buffer.states), buffer.lock)
    return nothing
end

Base.isopen(buffer::GPUCommandBuffer) = buffer.handle[] != 0
Base.length(buffer::GPUCommandBuffer) = get_command_statistics(buffer)[:depth]

end
