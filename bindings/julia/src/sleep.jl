# Tags of a pool that sleep and wake, and captures.

"""
    partition_tags!(runtime, tags...)

Gives each tag segments of its own in the runtime's pool: blocks that are allocated with it from now on can sleep.
"""
partition_tags!(runtime::DeviceRuntime, tags::AbstractString...) =
    foreach(tag -> call(mmsb_pool_partition, runtime, tag_of(tag)), tags)

const SLEEP_MODES = (drop = MMSB_SLEEP_DROP, keep = MMSB_SLEEP_KEEP, file = MMSB_SLEEP_FILE)

"""
    sleep_tags!(runtime, tags...; mode = :keep, folder = nothing, timeout = nothing)

Gives the memory of tags of `partition_tags!` back to the device, all of it or none; the blocks keep their addresses. `mode`:
their bytes are kept in pinned memory (`:keep`), in a file without a name in `folder` (`:file`), or dropped (`:drop`). It waits
for queued work, at most `timeout` seconds.
"""
function sleep_tags!(
    runtime::DeviceRuntime,
    tags::AbstractString...;
    mode::Symbol = :keep,
    folder::Union{AbstractString,Nothing} = nothing,
    timeout::Union{Real,Nothing} = nothing,
)
    options = initialised(mmsb_sleep_options_t, mmsb_sleep_options_init)
    named = folder === nothing ? nothing : String(folder)
    GC.@preserve named begin
        changes = (mode = code_of("mode", SLEEP_MODES, mode), timeout_ns = nanoseconds(timeout))
        options[] = with_fields(options[], changes)
        named === nothing || (options[] = with_fields(options[], (folder = text_pointer(named),)))
        call(mmsb_pool_sleep, runtime, tags_of(tags), length(tags), options)
    end
    return nothing
end

tags_of(tags) = mmsb_tag_t[tag_of(tag) for tag in tags]

"""
    wake_tags!(runtime, tags...)

Gives tags that sleep their memory and bytes again, all of them or none.
"""
wake_tags!(runtime::DeviceRuntime, tags::AbstractString...) = call(mmsb_pool_wake, runtime, tags_of(tags), length(tags))

"""
    is_asleep(block)

Whether the tag of a block sleeps: the block has its address, and no memory.
"""
function is_asleep(block::DeviceBlock)
    info = initialised(mmsb_block_info_t, mmsb_block_info_init)
    call(mmsb_block_info, block, info)
    return info[].asleep == 1
end

"""
    DeviceCapture

The memory of a graph, see `capture_work!`. `close` says that the graph will not run again.
"""
struct DeviceCapture
    stream::DeviceStream
    handle::UInt64
end

handle(capture::DeviceCapture) = capture.handle
owner(capture::DeviceCapture) = owner(capture.stream)

"""
    capture_work!(f, streams...)

Calls `f`, which captures a graph on the streams, and returns the `DeviceCapture`. Blocks that the streams allocate meanwhile
come from memory of its own; what is freed of it is given out again only there, until the result is closed. If `f` throws, it is
closed.
"""
function capture_work!(f::Function, stream::DeviceStream, streams::DeviceStream...)
    handles = UInt64[handle(each) for each in (stream, streams...)]
    created = Ref{UInt64}(0)
    check(mmsb_capture_begin(handles, length(handles), created))
    return capturing(f, DeviceCapture(stream, created[]))
end

"""
    capture_work!(f, capture, streams...)

Captures another graph with the memory of a capture: of the graphs that share it no two run at a time.
"""
function capture_work!(f::Function, capture::DeviceCapture, streams::DeviceStream...)
    call(mmsb_capture_resume, capture, UInt64[handle(each) for each in streams], length(streams))
    return capturing(f, capture)
end

function capturing(f, capture)
    try
        f()
        call(mmsb_capture_end, capture)
    catch
        mmsb_capture_destroy(handle(capture))
        rethrow()
    end
    return capture
end

Base.close(capture::DeviceCapture) = call(mmsb_capture_destroy, capture)
