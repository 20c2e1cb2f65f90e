"Moving pages between the host and devices, and the changed bytes of pages to those that follow them."
module DeviceSync

using ..MMSB: DeviceStream, MMSBState, Page, PageLocation, Ticket, CPU_LOCATION, GPU_LOCATION, UNIFIED_LOCATION
using ..MMSB: destroy_ticket, record_stream
using ..MMSB: AbstractMMSBError, WAIT_SLICE_NS, call, check, counters_of, error_type, fill_list, fill_reference, get_page
using ..MMSB: initialised, list_pointer, move_page!, moving_many, nanoseconds, on_cpu_only
using ..MMSB: placement, reject, run_work, start, syncing_many, with_fields
using ..MMSB.LibMMSB
import ..MMSB: handle, owner

export async_sync_page_to_gpu!, batch_sync_to_cpu!, batch_sync_to_gpu!, ensure_page_on_device!, get_sync_statistics
export prefetch_pages_to_gpu!, sync_bidirectional!, sync_page_to_cpu!, sync_page_to_gpu!
export GPUCommandBuffer, create_gpu_command_buffer, enqueue_propagation_command, wait_gpu_queue
export get_command_failures, get_command_statistics
export drain_syncs!, drop_host_copy!, get_device_pages, get_page_copies, sync_later!, sync_page!, sync_pages!, with_host_copy
export drop_replica!, replicate_page!

# Host and devices can access managed memory, so such pages stay where they are.
stays(page, location) = page.location in (location, UNIFIED_LOCATION)

# A page that is on a device stays on it.
device_of(page, device) = page.location == GPU_LOCATION ? page.device : device

syncing(pages, direction, device, result) =
    on_cpu_only() ? moving_many(pages, GPU_LOCATION, device, result) : syncing_many(pages, direction, device, result)

const WINS = Dict(nothing => 0, :host => MMSB_SYNC_HOST_WINS, :gpu => MMSB_SYNC_DEVICE_WINS)
const DIRECTIONS = Dict(:gpu => MMSB_SYNC_TO_DEVICE, :host => MMSB_SYNC_TO_HOST, :both => MMSB_SYNC_BOTH)

function direction_of(direction, wins = nothing, pinned = false)
    haskey(DIRECTIONS, direction) || throw(ArgumentError("direction is $(repr(direction)), not :gpu, :host or :both"))
    haskey(WINS, wins) || throw(ArgumentError("wins is $(repr(wins)), not nothing, :host or :gpu"))
    return DIRECTIONS[direction] | WINS[wins] | (pinned ? MMSB_SYNC_PINNED : Int32(0))
end

"""
    sync_page!(page, direction = :both; device = 0, wins = nothing, pinned = false)

Brings the page into step: its newer bytes go to the device (`:gpu`), to the host (`:host`), or each where they are missing
(`:both`), and no others move. A page on the host moves to `device` first and keeps a copy on the host; a page on a device gets
a copy on the host, and stays on the device. `wins`: `:host` or `:gpu`, whose bytes go on where both sides were written through
addresses at once; `nothing`: that throws. `pinned`: a copy that the page gets on the host is in pinned memory, which the device
reads and writes by itself.
"""
function sync_page!(
    page::Page, direction::Symbol = :both; device::Integer = 0, wins::Union{Symbol,Nothing} = nothing, pinned::Bool = false,
)
    chosen = direction_of(direction, wins, pinned)
    on_cpu_only() ? move_page!(page, GPU_LOCATION, device) : call(mmsb_page_sync, page, chosen, device)
    return page
end

"""
    sync_pages!(pages, direction = :both; device = 0, wins = nothing, pinned = false, timeout = nothing)

`sync_page!` for many pages, whose newer bytes move together. Throws if a page is not in step; each is in step or as before.
`timeout`: as for `migrate_pages!`.
"""
sync_pages!(
    pages::AbstractVector{Page}, direction::Symbol = :both; device::Integer = 0, wins::Union{Symbol,Nothing} = nothing,
    pinned::Bool = false, timeout::Union{Real,Nothing} = nothing,
) = run_work(syncing(pages, direction_of(direction, wins, pinned), device, pages), timeout)

"""
    sync_later!(pages, direction = :both; device = 0)

Lets pages of one state wait for a sync that `drain_syncs!` makes. They can be changed and deleted meanwhile. Returns the pages.
"""
function sync_later!(pages::AbstractVector{Page}, direction::Symbol = :both; device::Integer = 0)
    handles = mmsb_page_t[handle(page) for page in pages]
    GC.@preserve pages check(mmsb_page_sync_enqueue(handles, length(handles), direction_of(direction), device, C_NULL))
    return pages
end

"""
    drain_syncs!(state; timeout = nothing)::Int

Syncs the pages that wait now, as far as it gets within `timeout` seconds, and returns how many are in step. What is left waits
on; a `WaitTimeoutError` says that something is.
"""
function drain_syncs!(state::MMSBState; timeout::Union{Real,Nothing} = nothing)
    work = initialised(mmsb_work_options_t, mmsb_work_options_init)
    work[] = with_fields(work[], (timeout_ns = nanoseconds(timeout),))
    synced = Ref{UInt64}(0)
    call(mmsb_context_sync_drain, state, work, synced)
    return Int(synced[])
end

"""
    get_page_copies(page)

Where the page has its bytes, as named tuples `(location, device, size, newer)`: first where it lies, then its copy on the host,
where it has one, then its replicas. `newer` counts bytes in ranges that are newer here than in the page's other place.
"""
function get_page_copies(page::Page)
    return [
        (location = PageLocation(copy.location), device = Int(copy.device), size = Int(copy.size), newer = Int(copy.newer))
        for copy in fill_list(mmsb_page_copy_t, mmsb_page_copies, page)
    ]
end

"""
    replicate_page!(page; device)

Gives the page a replica on a device, for work there that reads it (`with_use`); does nothing where it lies there or has one. The
next change of the page ends it: uses that begin later do not find it, one that is open reads on what the page was. A device that
lacks memory drops replicas.
"""
function replicate_page!(page::Page; device::Integer)
    call(mmsb_page_replicate, page, Int32(device))
    return page
end

"""
    drop_replica!(page; device)

Drops the page's replica on a device, where it has one. Its memory goes when the uses that are open have ended.
"""
function drop_replica!(page::Page; device::Integer)
    call(mmsb_page_replica_drop, page, Int32(device))
    return page
end

"""
    drop_host_copy!(page)

Ends the page's copy on the host, when what is newer there has gone to the device.
"""
function drop_host_copy!(page::Page)
    call(mmsb_page_host_copy_drop, page)
    return page
end

"""
    with_host_copy(f, page; write = false)

Calls `f` with the bytes of the page's copy on the host, as a `Vector{UInt8}` that must not escape, and returns its result. The
page is pinned meanwhile.
"""
function with_host_copy(f, page::Page; write::Bool = false)
    mode = write ? MMSB_PIN_WRITE : MMSB_PIN_READ
    address = Ref{Ptr{Cvoid}}(C_NULL)
    call(mmsb_page_host_copy_pin, page, mode, address)
    try
        return f(unsafe_wrap(Vector{UInt8}, Ptr{UInt8}(address[]), page.size))
    finally
        call(mmsb_page_host_copy_unpin, page, mode)
    end
end

"""
    get_device_pages(state, device = 0)::Vector{Page}

The pages that have bytes in memory of a device.
"""
function get_device_pages(state::MMSBState, device::Integer = 0)
    pages, cursor, count = Page[], Ref{UInt64}(0), Ref{Csize_t}(0)
    handles = Vector{mmsb_page_t}(undef, 256)
    while true
        call(mmsb_context_device_pages, state, device, cursor, handles, length(handles), count)
        count[] == 0 && return pages
        append!(pages, (Page(state, page) for page in view(handles, 1:Int(count[]))))
    end
end

"""
    sync_page_to_gpu!(page; device = 0)

Moves the page to a device, or what is newer on the host where it is on one. Its memory stays as its copy on the host. A page in
unified memory is prefetched.
"""
sync_page_to_gpu!(page::Page; device::Integer = 0) = sync_page!(page, :gpu; device = device_of(page, device))

"""
    sync_page_to_cpu!(page)

Moves the page to the host: of one that has a copy there, what is newer on the device. A page in unified memory is prefetched.
"""
sync_page_to_cpu!(page::Page) =
    page.location == UNIFIED_LOCATION ? sync_page!(page, :host) : move_page!(page, CPU_LOCATION, 0)

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
    start(syncing([page], MMSB_SYNC_TO_DEVICE, device, page), after === nothing ? Ticket[] : [after])

"""
    batch_sync_to_gpu!(pages; device = 0, timeout = nothing)

Moves many pages to a device in one call. Throws if a page cannot move; each page has then moved completely or not at all.
`timeout`: as for `migrate_pages!`.
"""
function batch_sync_to_gpu!(
    pages::AbstractVector{Page}; device::Integer = 0, timeout::Union{Real,Nothing} = nothing,
)
    for number in unique(device_of(page, device) for page in pages)
        going = Page[page for page in pages if device_of(page, device) == number]
        run_work(syncing(going, MMSB_SYNC_TO_DEVICE, number, pages), timeout)
    end
    return pages
end

"""
    batch_sync_to_cpu!(pages; timeout = nothing)

Moves many pages to the host in one call; those in unified memory are prefetched. Throws if a page cannot move; each page has
then moved completely or not at all. `timeout`: as for `migrate_pages!`.
"""
function batch_sync_to_cpu!(pages::AbstractVector{Page}; timeout::Union{Real,Nothing} = nothing)
    unified = Page[page for page in pages if page.location == UNIFIED_LOCATION]
    isempty(unified) || run_work(syncing(unified, MMSB_SYNC_TO_HOST, 0, pages), timeout)
    moving = Page[page for page in pages if !stays(page, CPU_LOCATION)]
    isempty(moving) || run_work(moving_many(moving, CPU_LOCATION, 0, pages), timeout)
    return pages
end

"""
    prefetch_pages_to_gpu!(state, ids; device = 0, timeout = nothing)

Moves the pages with these ids, or these pages, to a device and returns them. Ids without a page are ignored. `timeout`: as for
`migrate_pages!`.
"""
function prefetch_pages_to_gpu!(state::MMSBState, ids; device::Integer = 0, timeout::Union{Real,Nothing} = nothing)
    found = (get_page(state, id) for id in ids)
    return batch_sync_to_gpu!(Page[page for page in found if page !== nothing]; device = device, timeout = timeout)
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
`:total_bytes`. Of pages in two places: `:two_places_pages`, `:two_places_bytes`, `:newer_on_host_bytes`, `:newer_on_gpu_bytes`;
and what has moved since the state began: `:to_gpu_bytes`, `:to_host_bytes`. `:queued_pages` wait for `drain_syncs!`.
`:replicas` and `:replica_bytes`: copies that `replicate_page!` has made, also such that are not the page's any more.
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
    sync = initialised(mmsb_sync_stats_t, mmsb_sync_stats_init)
    call(mmsb_context_sync_stats, state, sync)
    for (name, value) in (
        :two_places_pages => sync[].pages, :two_places_bytes => sync[].bytes,
        :newer_on_host_bytes => sync[].newer_on_host, :newer_on_gpu_bytes => sync[].newer_on_device,
        :to_gpu_bytes => sync[].to_device_bytes, :to_host_bytes => sync[].to_host_bytes, :queued_pages => sync[].queued,
        :replicas => sync[].replicas, :replica_bytes => sync[].replica_bytes,
    )
        statistics[name] = Int(value)
    end
    return statistics
end

# --------------------------------------------------------------------------------------------- command buffers ----

"""
    GPUCommandBuffer(capacity; workers = 1, persistent = false)

Keeps commands and executes them later: a command copies the bytes that the change masks of its dependencies have into a page, as
one delta of the page. Each thread of Julia has a ring of `capacity` commands in it, which are executed in their order; a task
that other threads go on with has an order only between two waits. `workers`: threads of the library that execute commands, at
most 64; 0: `wait_gpu_queue` does it. `persistent`: small commands whose pages lie on one device are executed by a kernel that
stays there as long as commands come (experimental: it has run on simulated devices only). It keeps the states of its pages.
`close` executes what waits and ends the buffer; with `cancel = true` it drops what waits.
"""
mutable struct GPUCommandBuffer
    handle::Threads.Atomic{UInt64}    # 0 once it is closed
    lock::ReentrantLock
    states::IdDict{MMSBState,Nothing}

    function GPUCommandBuffer(capacity::Integer; workers::Integer = 1, persistent::Bool = false)
        options = initialised(mmsb_commands_options_t, mmsb_commands_options_init)
        fields = (capacity = UInt64(capacity), workers = Int32(workers), persistent = Int32(persistent))
        options[] = with_fields(options[], fields)
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
    create_gpu_command_buffer(capacity = 1024; workers = 1, persistent = false)::GPUCommandBuffer

A command buffer, see `GPUCommandBuffer`.
"""
create_gpu_command_buffer(capacity::Integer = UInt32(1024); options...) = GPUCommandBuffer(capacity; options...)

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
    return Dict(pairs(counters_of(stats[])))
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
