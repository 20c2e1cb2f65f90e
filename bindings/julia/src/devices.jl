# Devices, and their memory in the order of streams. All of it ends with its state; what is opened here is closed by hand.

"""
    get_devices(state)

The driver's devices, or simulated ones where the state asked for them: for each its `ordinal`, `name`, `simulated`, `bytes`,
`free_bytes`, `compute_capability`, `multiprocessors`, `numa_node` (-1 = not known), `pci`, `ordered_memory` (runtimes can be
made) and `managed_memory` (unified pages can be there).
"""
get_devices(state::MMSBState) = map(fill_list(mmsb_device_info_t, mmsb_device_list, state)) do info
    (
        ordinal = Int(info.ordinal), name = text_of(info.name), simulated = info.simulated == 1, bytes = Int(info.bytes),
        free_bytes = Int(info.free_bytes), compute_capability = VersionNumber(info.major, info.minor),
        multiprocessors = Int(info.multiprocessors), numa_node = Int(info.numa_node), pci = text_of(info.pci),
        ordered_memory = info.ordered_memory == 1, managed_memory = info.managed_memory == 1,
    )
end

text_of(bytes::NTuple{N,UInt8}) where {N} = String(collect(Iterators.takewhile(!=(0x00), bytes)))

"""
    DeviceRuntime

The streams and blocks of a device. `close` ends one that `create_runtime!` made, with all that it has; the shared one of
`get_runtime` ends with its devices.
"""
struct DeviceRuntime
    state::MMSBState
    handle::UInt64
end

"""
    DeviceStream

A queue of work on a device. `wait(stream; timeout)` waits until everything that is queued is done, `close` gives it back.
"""
struct DeviceStream
    runtime::DeviceRuntime
    handle::UInt64
end

"""
    DeviceBlock

Device memory: `address` (the host must not touch it) and `bytes`. `free_block!` gives it back.
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

The runtime of a device that everybody shares.
"""
get_runtime(state::MMSBState, device::Integer = 0) =
    DeviceRuntime(state, fill_reference(UInt64, mmsb_runtime_shared, state, Int32(device)))

runtime_option(::Val{:streams}, value::Integer) = UInt32(value)
runtime_option(::Val{:ledger}, value::String) = text_pointer(value)
runtime_option(::Val{name}, value::Integer) where {name} =
    name in (:budget, :log_events, :guard_every, :guard_quarantine) ? UInt64(value) :
    throw(ArgumentError("a runtime has no option $name = $(repr(value))"))
runtime_option(::Val{name}, value) where {name} = throw(ArgumentError("a runtime has no option $name = $(repr(value))"))

"""
    create_runtime!(state, device = 0; options...)

A runtime of the program's own. Options: `streams` (the most that are open), `budget` (bytes, 0 = no limit), `ledger` (a file in
which processes charge one budget), `log_events`, `guard_every` (every how many-th block is guarded), `guard_quarantine` (bytes).
"""
function create_runtime!(state::MMSBState, device::Integer = 0; options...)
    record = Ref{mmsb_runtime_options_t}()
    mmsb_runtime_options_init(record)
    ledger = get(options, :ledger, "")
    created = GC.@preserve ledger begin
        record[] = with_fields(record[], (; (name => runtime_option(Val(name), value) for (name, value) in options)...))
        fill_reference(UInt64, mmsb_runtime_create, state, Int32(device), record)
    end
    return DeviceRuntime(state, created)
end

Base.close(runtime::DeviceRuntime) = call(mmsb_runtime_destroy, runtime)

"""
    get_runtime_statistics(runtime)

The counters of a runtime, under the names of `mmsb_runtime_stats_t`. `outstanding` is `live + pending` at every moment.
"""
function get_runtime_statistics(runtime::DeviceRuntime)
    stats = Ref{mmsb_runtime_stats_t}()
    mmsb_runtime_stats_init(stats)
    call(mmsb_runtime_stats, runtime, stats)
    wanted = filter(name -> name ∉ (:struct_size, :reserved), fieldnames(mmsb_runtime_stats_t))
    return NamedTuple{wanted}(map(name -> Int(getfield(stats[], name)), wanted))
end

"""
    get_tag_statistics(runtime, tag)

What a runtime has of one tag: `live`, `peak` and `total` bytes, `blocks`, how many `ever`, `failures`.
"""
function get_tag_statistics(runtime::DeviceRuntime, tag::AbstractString)
    stats = fill_reference(mmsb_tag_stats_t, mmsb_runtime_tag_stats, runtime, tag_of(tag))
    wanted = filter(!=(:reserved), fieldnames(mmsb_tag_stats_t))
    return NamedTuple{wanted}(map(name -> Int(getfield(stats, name)), wanted))
end

function tag_of(name::AbstractString)
    tag = Ref{mmsb_tag_t}(0)
    text = String(name)
    GC.@preserve text check(mmsb_tag_of(text_pointer(text), tag))
    return tag[]
end

"""
    reap_frees!(runtime)

Looks which frees the device has come past, without waiting for it.
"""
reap_frees!(runtime::DeviceRuntime) = call(mmsb_runtime_reap, runtime)

"""
    trim_memory!(runtime, keep = 0)

Gives memory that the driver keeps for reuse back to the device, down to `keep` bytes.
"""
trim_memory!(runtime::DeviceRuntime, keep::Integer = 0) = call(mmsb_runtime_trim, runtime, UInt64(keep))

"""
    write_runtime_log(runtime, file)

Writes what the runtime's log has to an open file, in the form of RMM's logging adaptor.
"""
write_runtime_log(runtime::DeviceRuntime, file::IOStream) = call(mmsb_runtime_log_write, runtime, Int32(fd(file)))

"""
    reserve_bytes!(runtime, bytes)

Keeps bytes of the budget for blocks to come, and gives the number of the reservation; `end_reservation!` gives back what is left.
"""
reserve_bytes!(runtime::DeviceRuntime, bytes::Integer) =
    fill_reference(UInt64, mmsb_reservation_create, runtime, byte_count(bytes))

"""
    end_reservation!(reservation)

Gives back what is left of a reservation, and says how many bytes that were.
"""
function end_reservation!(reservation::UInt64)
    left = Ref{UInt64}(0)
    check(mmsb_reservation_destroy(reservation, left))
    return Int(left[])
end

"""
    open_stream!(runtime; priority = 0)

Leases a stream. Priority -1 is served before 0.
"""
open_stream!(runtime::DeviceRuntime; priority::Integer = 0) =
    DeviceStream(runtime, fill_reference(UInt64, mmsb_stream_create, runtime, Int32(priority)))

"""
    wrap_stream!(runtime, native)

Makes a stream of the program known by the driver's pointer, which stays valid until the result is closed.
"""
wrap_stream!(runtime::DeviceRuntime, native::Ptr{Cvoid}) =
    DeviceStream(runtime, fill_reference(UInt64, mmsb_stream_wrap, runtime, native))

"""
    native_stream(stream)

The driver's stream, to queue work on.
"""
native_stream(stream::DeviceStream) = fill_reference(Ptr{Cvoid}, mmsb_stream_native, stream)

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

A ticket that is done when everything queued so far is.
"""
record_stream(stream::DeviceStream) =
    Ticket(fill_reference(UInt64, mmsb_stream_record, stream), owner(stream), () -> nothing)

"""
    wait_on_device!(stream, ticket)

Lets what is queued from now on run behind a ticket of `record_stream`. The device waits, not the host.
"""
wait_on_device!(stream::DeviceStream, ticket::Ticket) = call(mmsb_stream_after, stream, handle(ticket))

"""
    allocate_block!(stream, bytes; tag = "untagged", reservation = 0)

Takes device memory in the order of a stream; its bytes are not defined.
"""
function allocate_block!(stream::DeviceStream, bytes::Integer; tag::AbstractString = "untagged", reservation::UInt64 = UInt64(0))
    block, address = Ref{UInt64}(0), Ref{Ptr{Cvoid}}(C_NULL)
    call(mmsb_block_allocate, stream, byte_count(bytes), tag_of(tag), reservation, block, address)
    return DeviceBlock(stream, block[], UInt64(address[]), Int(bytes))
end

"""
    free_block!(block, stream = block.stream)

Gives a block back behind all its uses, in the order of a stream. `true` where a use is open, whose end does it then.
"""
function free_block!(block::DeviceBlock, stream::DeviceStream = block.stream)
    deferred = Ref{Int32}(0)
    call(mmsb_block_free, block, handle(stream), deferred)
    return deferred[] == 1
end

"""
    count_uses(block)

How many uses of a block are begun and not ended.
"""
function count_uses(block::DeviceBlock)
    info = Ref{mmsb_block_info_t}()
    mmsb_block_info_init(info)
    call(mmsb_block_info, block, info)
    return Int(info[].uses)
end

access_code(access::Symbol) =
    access === :read ? MMSB_ACCESS_READ :
    access === :write ? MMSB_ACCESS_WRITE :
    access === :read_write ? MMSB_ACCESS_READ_WRITE :
    throw(ArgumentError("an access is :read, :write or :read_write, not $(repr(access))"))

"""
    with_use(f, stream, block => access, ...)

Calls `f`, which queues work on the stream that does with the blocks what their access says: `:read`, `:write` or `:read_write`.
The stream waits for what conflicts on others, and the blocks stay until the work is queued. When `f` throws the order is kept all the same.
"""
function with_use(f::Function, stream::DeviceStream, accesses::Pair{DeviceBlock,Symbol}...)
    use = fill_reference(UInt64, mmsb_use_record, stream, Int32(0))
    result = try
        for (block, access) in accesses
            check(mmsb_use_add(use, handle(block), access_code(access)))
        end
        check(mmsb_use_begin_recorded(use))
        f()
    catch
        mmsb_use_abort(use)
        rethrow()
    end
    check(mmsb_use_end(use))
    return result
end

"""
    write_block!(block, bytes; stream = block.stream)

Copies bytes into a block, from its beginning, and waits until they are there.
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

The first bytes of a block, when they have come.
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

Queues a copy of a block into another one; the caller has begun the use of both.
"""
function copy_block!(stream::DeviceStream, to::DeviceBlock, from::DeviceBlock)
    within_block(to, from.bytes)
    return call(mmsb_stream_copy, stream, Ptr{Cvoid}(to.address), Ptr{Cvoid}(from.address), UInt64(from.bytes))
end

"""
    fill_block!(stream, block, value)

Queues setting all bytes of a block to a value; the caller has begun the use of it.
"""
fill_block!(stream::DeviceStream, block::DeviceBlock, value::UInt8) =
    call(mmsb_stream_fill, stream, Ptr{Cvoid}(block.address), value, UInt64(block.bytes))

within_block(block, count) =
    0 <= count <= block.bytes ? nothing : reject(MMSB_E_OUT_OF_RANGE, "$count bytes reach past the block's $(block.bytes)")
