# Devices and stream-ordered memory. All of it ends with its state; the program closes what it opens here.

"""
    get_devices(state)

The driver's devices, or simulated ones if the state asked for them: for each its `ordinal`, `name`, `simulated`, `bytes`,
`free_bytes`, `compute_capability`, `multiprocessors`, `numa_node` (-1 = not known), `pci`, `ordered_memory` (runtimes can be
created), `managed_memory` (unified pages can lie there) and `managed_hints` (they are prefetched and take advice).
"""
get_devices(state::MMSBState) = map(fill_list(mmsb_device_info_t, mmsb_device_list, state)) do info
    (
        ordinal = Int(info.ordinal), name = text_of(info.name), simulated = info.simulated == 1, bytes = Int(info.bytes),
        free_bytes = Int(info.free_bytes), compute_capability = VersionNumber(info.major, info.minor),
        multiprocessors = Int(info.multiprocessors), numa_node = Int(info.numa_node), pci = text_of(info.pci),
        ordered_memory = info.ordered_memory == 1, managed_memory = info.managed_memory == 1,
        managed_hints = info.managed_hints == 1,
    )
end

text_of(bytes::NTuple{N,UInt8}) where {N} = String(collect(Iterators.takewhile(!=(0x00), bytes)))

device_or_host(device::Integer) = Int32(device)
device_or_host(device::Symbol) =
    device === :host ? MMSB_DEVICE_HOST : throw(ArgumentError("$(repr(device)) is not a device; it is a number or :host"))

"""
    set_device_budget!(state, bytes, device = 0)

Sets how many bytes of a device this process takes at most for runtimes and pages of all its states; 0 is any number. The device
`:host` is host memory that devices can access. What is taken beyond the budget stays; no more is taken until enough is given
back.
"""
set_device_budget!(state::MMSBState, bytes::Integer, device::Union{Integer,Symbol} = 0) =
    call(mmsb_device_budget, state, device_or_host(device), UInt64(bytes))

"""
    get_device_memory(state, device = 0)

What this process has taken of a device's memory, named as in `mmsb_device_memory_t`; with the device `:host`, of host memory that
devices can access.
"""
function get_device_memory(state::MMSBState, device::Union{Integer,Symbol} = 0)
    memory = initialised(mmsb_device_memory_t, mmsb_device_memory_init)
    call(mmsb_device_memory, state, device_or_host(device), memory)
    return counters_of(memory[])
end

"""
    DeviceRuntime

The streams and blocks of a device. `close` ends a runtime of `create_runtime!` with its streams and blocks. The shared runtime of
`get_runtime` cannot be closed; it ends with its device.
"""
struct DeviceRuntime
    state::MMSBState
    handle::UInt64
end

"""
    DeviceStream

A queue of work on a device. `wait(stream; timeout)` waits until all queued work is done; `close` ends the lease.
"""
struct DeviceStream
    runtime::DeviceRuntime
    handle::UInt64
end

"""
    DeviceBlock

Device memory: `address` (a device address, which the host must not access) and `bytes`. `free_block!` frees it.
"""
struct DeviceBlock
    stream::DeviceStream
    handle::UInt64
    address::UInt64
    bytes::Int
end

handle(object::Union{DeviceRuntime,DeviceStream,DeviceBlock}) = object.handle
owner(runtime::DeviceRuntime) = runtime.state
owner(stream::DeviceStream) = stream.runtime.state
owner(block::DeviceBlock) = owner(block.stream)

"""
    get_runtime(state, device = 0)

The shared runtime of a device.
"""
get_runtime(state::MMSBState, device::Integer = 0) =
    DeviceRuntime(state, fill_reference(UInt64, mmsb_runtime_shared, state, Int32(device)))

# As STATE_OPTIONS.
const RUNTIME_OPTIONS = (
    streams = UInt32,
    budget = UInt64,
    ledger = String,
    log_events = UInt64,
    guard_every = UInt64,
    guard_quarantine = UInt64,
    pool = String,
)

"""
    create_runtime!(state, device = 0; options...)

Creates a runtime of the program's own. Options: `streams` (largest number that is leased at a time), `budget` (bytes, 0 = no
limit), `ledger` (a file in which processes charge one common budget), `log_events` (number of events that the log keeps),
`guard_every` (N guards every N-th block, 0 none), `guard_quarantine` (bytes of freed blocks that the guard holds back), `pool`
(the configuration of a caching allocator that blocks come from, as in PYTORCH_ALLOC_CONF; `""` for its defaults), and
`memory_wait = 10` (how many seconds an allocation that finds too little memory waits while freed blocks are pending and the
device passes none of them; 0 does not wait, `nothing` waits without limit).
"""
function create_runtime!(state::MMSBState, device::Integer = 0; memory_wait::Union{Real,Nothing} = 10, options...)
    record = initialised(mmsb_runtime_options_t, mmsb_runtime_options_init)
    record[] = with_fields(record[], (memory_wait_ns = nanoseconds(memory_wait),))
    ledger, pool = get(options, :ledger, ""), get(options, :pool, "")
    created = GC.@preserve ledger pool begin
        set_options!(record, RUNTIME_OPTIONS, "a runtime", options)
        fill_reference(UInt64, mmsb_runtime_create, state, Int32(device), record)
    end
    return DeviceRuntime(state, created)
end

Base.close(runtime::DeviceRuntime) = call(mmsb_runtime_destroy, runtime)

"""
    get_runtime_statistics(runtime)

The current counters of a runtime, named as in `mmsb_runtime_stats_t`. `outstanding` is always `live + pending`.
"""
function get_runtime_statistics(runtime::DeviceRuntime)
    stats = initialised(mmsb_runtime_stats_t, mmsb_runtime_stats_init)
    call(mmsb_runtime_stats, runtime, stats)
    return counters_of(stats[])
end

"""
    get_tag_statistics(runtime, tag)

The current counters of a tag in a runtime: `live`, `peak` and `total_bytes` in bytes; `blocks`,
`total_blocks`, `failures`.
"""
get_tag_statistics(runtime::DeviceRuntime, tag::AbstractString) =
    counters_of(fill_reference(mmsb_tag_stats_t, mmsb_runtime_tag_stats, runtime, tag_of(tag)))

function tag_of(name::AbstractString)
    tag = Ref{mmsb_tag_t}(0)
    text = String(name)
    GC.@preserve text check(mmsb_tag_of(text_pointer(text), tag))
    return tag[]
end

"""
    reap_frees!(runtime)

Checks which frees the device has passed and counts their bytes as free, without waiting for the device.
"""
reap_frees!(runtime::DeviceRuntime) = call(mmsb_runtime_reap, runtime)

"""
    trim_memory!(runtime, keep = 0)

Gives memory that the driver keeps for reuse back to the device, until `keep` bytes are left.
"""
trim_memory!(runtime::DeviceRuntime, keep::Integer = 0) = call(mmsb_runtime_trim, runtime, UInt64(keep))

"""
    write_runtime_log(runtime, file)

Writes the events of the runtime's log to an open file, in the CSV format of RMM's logging adaptor.
"""
write_runtime_log(runtime::DeviceRuntime, file::IOStream) = call(mmsb_runtime_log_write, runtime, Int32(fd(file)))

"""
    get_memory_statistics(runtime)

Statistics under the names of PyTorch's `torch.cuda.memory_stats`, such as `"allocated_bytes.all.current"`, as a `Dict`. Names
that mean nothing here are left out.
"""
function get_memory_statistics(runtime::DeviceRuntime)
    entries = fill_list(mmsb_memory_stat_t, mmsb_runtime_memory_stats, runtime)
    return Dict{String, Int}(unsafe_string(entry.name) => Int(entry.value) for entry in entries)
end

"""
    get_memory_snapshot(runtime)

A picture of a runtime's memory in the schema of PyTorch's `torch.cuda.memory._snapshot`, as a `Dict` with `"segments"` and
`"device_traces"`: its segments and blocks, and with `log_events` the events before.
"""
get_memory_snapshot(runtime::DeviceRuntime) =
    mktemp() do _, file
        write_memory_snapshot(runtime, file, MMSB_PICTURE_TORCH)
        read_pickle(seekstart(file))
    end

"Reads the opcodes of pickles that core/picture/pickle.go writes."
function read_pickle(file::IO)
    stack, marks, memo = Any[], Int[], Dict{UInt32, Any}()
    number() = ltoh(read(file, UInt32))
    while true
        opcode = read(file, UInt8)
        if opcode == 0x80 # the protocol
            read(file, UInt8)
        elseif opcode == UInt8('}')
            push!(stack, Dict{String, Any}())
        elseif opcode == UInt8(']')
            push!(stack, Any[])
        elseif opcode == UInt8('(')
            push!(marks, length(stack))
        elseif opcode == UInt8('u')
            at = pop!(marks)
            for i in at+1:2:length(stack)
                stack[at][stack[i]] = stack[i+1]
            end
            resize!(stack, at)
        elseif opcode == UInt8('e')
            at = pop!(marks)
            append!(stack[at], stack[at+1:end])
            resize!(stack, at)
        elseif opcode == UInt8('X')
            push!(stack, String(read(file, number())))
        elseif opcode == UInt8('J')
            push!(stack, Int(number()))
        elseif opcode == 0x8a
            push!(stack, foldr((byte, sum) -> sum << 8 | byte, read(file, read(file, UInt8)); init = 0))
        elseif opcode == 0x88 || opcode == 0x89
            push!(stack, opcode == 0x88)
        elseif opcode == 0x86
            second = pop!(stack)
            push!(stack, (pop!(stack), second))
        elseif opcode == UInt8('r')
            memo[number()] = stack[end]
        elseif opcode == UInt8('j')
            push!(stack, memo[number()])
        elseif opcode == UInt8('.')
            return pop!(stack)
        else
            throw(ArgumentError("pickle has the unknown opcode $opcode"))
        end
    end
end

const PICTURES = Dict(".html" => MMSB_PICTURE_HTML, ".json" => MMSB_PICTURE_JSON, ".pickle" => MMSB_PICTURE_TORCH,
    ".pkl" => MMSB_PICTURE_TORCH)

"""
    write_memory_snapshot(runtime, path)

Writes a picture of a runtime's memory: its segments and blocks, and with `log_events` the events before. The ending of `path`
chooses the form: `.html` is a page for a browser, `.pickle` (or `.pkl`) what pytorch.org/memory_viz opens, `.json` what the
command `mmsb memory report` reads.
"""
function write_memory_snapshot(runtime::DeviceRuntime, path::AbstractString)
    form = get(PICTURES, lowercase(splitext(path)[2]), nothing)
    form === nothing && throw(ArgumentError("path is $(repr(path)); it must end in .html, .json, .pickle or .pkl"))
    open(path, "w") do file
        write_memory_snapshot(runtime, file, form)
    end
    return nothing
end

write_memory_snapshot(runtime::DeviceRuntime, file::IOStream, form::Integer) =
    call(mmsb_runtime_snapshot_write, runtime, Int32(fd(file)), Int32(form))

"""
    reserve_bytes!(runtime, bytes)

Reserves bytes of the budget for later blocks and returns the handle of the reservation, which `end_reservation!` ends.
"""
reserve_bytes!(runtime::DeviceRuntime, bytes::Integer) =
    fill_reference(UInt64, mmsb_reservation_create, runtime, byte_count(bytes))

"""
    end_reservation!(reservation)

Ends a reservation, gives its remaining bytes back to the budget and returns their number.
"""
function end_reservation!(reservation::UInt64)
    left = Ref{UInt64}(0)
    check(mmsb_reservation_destroy(reservation, left))
    return Int(left[])
end

"""
    open_stream!(runtime; priority = 0)

Leases a stream. `priority`: 0, or -1 to run before streams of priority 0.
"""
open_stream!(runtime::DeviceRuntime; priority::Integer = 0) =
    DeviceStream(runtime, fill_reference(UInt64, mmsb_stream_create, runtime, Int32(priority)))

"""
    wrap_stream!(runtime, native)

Registers a stream of the program by the driver's pointer, which must stay valid until the result is closed.
"""
wrap_stream!(runtime::DeviceRuntime, native::Ptr{Cvoid}) =
    DeviceStream(runtime, fill_reference(UInt64, mmsb_stream_wrap, runtime, native))

"""
    native_stream(stream)

The driver's stream, for queuing work.
"""
native_stream(stream::DeviceStream) = fill_reference(Ptr{Cvoid}, mmsb_stream_native, stream)

"""
    device_number(stream or runtime)

The driver's number of the device of a stream or of a runtime.
"""
device_number(stream::DeviceStream) = Int(fill_reference(Int32, mmsb_stream_device, stream))
device_number(runtime::DeviceRuntime) = Int(fill_reference(Int32, mmsb_runtime_device, runtime))

"""
    device_range(page)

The device address and the number of bytes of the block that the bytes of a page `:gpu`, `:unified` or `:pinned` are in.
"""
function device_range(page::Page)
    return block_range(fill_reference(UInt64, mmsb_page_block, page))
end

"""
    block_range_at(runtime, address)

The device address and the number of bytes of the live block of a runtime that has an address. It looks at all blocks.
"""
function block_range_at(runtime::DeviceRuntime, address::Integer)
    block = Ref{UInt64}(0)
    call(mmsb_block_at, runtime, Ptr{Cvoid}(UInt(address)), block, C_NULL)
    return block_range(block[])
end

function block_range(block::UInt64)
    info = initialised(mmsb_block_info_t, mmsb_block_info_init)
    check(mmsb_block_info(block, info))
    return (UInt64(info[].address), Int(info[].bytes))
end

Base.close(stream::DeviceStream) = call(mmsb_stream_destroy, stream)

function Base.wait(stream::DeviceStream; timeout::Real = Inf)
    timeout == 0 && return call(mmsb_stream_wait, stream, UInt64(0))
    ticket = record_stream(stream)
    try
        wait(ticket; timeout)
    finally
        destroy_ticket(ticket)
    end
    return nothing
end

"""
    record_stream(stream)

A ticket that is done when all work queued so far is done.
"""
record_stream(stream::DeviceStream) =
    Ticket(fill_reference(UInt64, mmsb_stream_record, stream), owner(stream), () -> nothing)

"""
    wait_on_device!(stream, ticket)

Makes work that is queued from now on run behind a ticket of `record_stream`. The device waits, not the host.
"""
wait_on_device!(stream::DeviceStream, ticket::Ticket) = call(mmsb_stream_after, stream, handle(ticket))

"""
    wait_on_device!(stream, native::Ptr)

The same behind everything that a stream of another library, given by the driver's pointer, has queued so far.
"""
wait_on_device!(stream::DeviceStream, native::Ptr) = call(mmsb_stream_after_native, stream, native)

"""
    allocate_block!(stream, bytes; tag = "untagged", reservation = 0)

Allocates device memory in the order of a stream, aligned to 256 bytes; its contents are undefined. `reservation`: the bytes are
taken from it, 0 = none.
"""
function allocate_block!(stream::DeviceStream, bytes::Integer; tag::AbstractString = "untagged", reservation::UInt64 = UInt64(0))
    block, address = Ref{UInt64}(0), Ref{Ptr{Cvoid}}(C_NULL)
    call(mmsb_block_allocate, stream, byte_count(bytes), tag_of(tag), reservation, block, address)
    return DeviceBlock(stream, block[], UInt64(address[]), Int(bytes))
end

"""
    free_block!(block, stream = block.stream)

Frees a block behind all its uses, in the order of a stream. `true` if a use is open: the end of the last one frees it then.
"""
function free_block!(block::DeviceBlock, stream::DeviceStream = block.stream)
    deferred = Ref{Int32}(0)
    call(mmsb_block_free, block, handle(stream), deferred)
    return deferred[] == 1
end

"""
    count_uses(block)

Number of open uses of a block: begun and not ended.
"""
function count_uses(block::DeviceBlock)
    info = initialised(mmsb_block_info_t, mmsb_block_info_init)
    call(mmsb_block_info, block, info)
    return Int(info[].uses)
end

const ACCESSES = (read = MMSB_ACCESS_READ, write = MMSB_ACCESS_WRITE, read_write = MMSB_ACCESS_READ_WRITE)

"""
    with_use(f, stream, block => access, page => access, ...)

Calls `f`, which queues work on the stream that accesses the blocks, and pages `:gpu`, `:unified` or `:pinned`, as stated:
`:read`, `:write` or `:read_write`. The stream, of any runtime of their device, waits for conflicting work on other streams, and
the memory stays until the work is queued; later calls on a page wait for it. A page that is only read may lie elsewhere and have
a replica on the device (`replicate_page!`). If `f` throws, later work is ordered as if the work had been queued.

An `f` that takes an argument gets a function: it says at which device address the work finds one of the blocks or pages.
"""
function with_use(f::Function, stream::DeviceStream, accesses::Pair...)
    use = fill_reference(UInt64, mmsb_use_record, stream, Int32(0))
    result = try
        for (used, access) in accesses
            check(mmsb_use_add(use, handle(used::Union{DeviceBlock,Page}), code_of("an access", ACCESSES, access)))
        end
        check(mmsb_use_begin_recorded(use))
        where_is(of) = address_in_use(use, of)
        applicable(f, where_is) ? f(where_is) : f()
    catch
        mmsb_use_abort(use)
        rethrow()
    end
    check(mmsb_use_end(use))
    return result
end

function address_in_use(use, of::Union{DeviceBlock,Page})
    address = Ref{Ptr{Cvoid}}(C_NULL)
    check(mmsb_use_address(use, handle(of), address))
    return UInt(address[])
end

"""
    write_block!(block, bytes; stream = block.stream)

Copies bytes to the beginning of a block within a use, and waits for the copy.
"""
function write_block!(block::DeviceBlock, bytes::Vector{UInt8}; stream::DeviceStream = block.stream)
    within_block(block, length(bytes))
    GC.@preserve bytes begin
        with_use(stream, block => :write) do
            call(mmsb_stream_copy, stream, Ptr{Cvoid}(block.address), pointer(bytes), UInt64(length(bytes)))
        end
        wait(stream)
    end
    return block
end

"""
    read_block(block, count = block.bytes; stream = block.stream)

Copies the first `count` bytes of a block to the host within a use, waits for the copy and returns them.
"""
function read_block(block::DeviceBlock, count::Integer = block.bytes; stream::DeviceStream = block.stream)
    within_block(block, count)
    bytes = Vector{UInt8}(undef, count)
    GC.@preserve bytes begin
        with_use(stream, block => :read) do
            call(mmsb_stream_copy, stream, pointer(bytes), Ptr{Cvoid}(block.address), UInt64(count))
        end
        wait(stream)
    end
    return bytes
end

"""
    copy_block!(stream, to, from)

Queues a copy of one block to another. The caller has begun a use of both.
"""
function copy_block!(stream::DeviceStream, to::DeviceBlock, from::DeviceBlock)
    within_block(to, from.bytes)
    return call(mmsb_stream_copy, stream, Ptr{Cvoid}(to.address), Ptr{Cvoid}(from.address), UInt64(from.bytes))
end

"""
    fill_block!(stream, block, value)

Queues setting all bytes of a block to a value. The caller has begun a use of it.
"""
fill_block!(stream::DeviceStream, block::DeviceBlock, value::UInt8) =
    call(mmsb_stream_fill, stream, Ptr{Cvoid}(block.address), value, UInt64(block.bytes))

within_block(block, count) =
    0 <= count <= block.bytes ? nothing : reject(MMSB_E_OUT_OF_RANGE, "$count bytes reach past the block's $(block.bytes) bytes")
