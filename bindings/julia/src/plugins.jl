# Memory of a runtime for other packages, by address: CUDA.jl's arrays, say. docs/plug-ins.md has an example.

# The streams by which CUDA names its default stream, and those of other packages, are pointers.
stream_pointer(stream::DeviceStream) = native_stream(stream)
stream_pointer(stream::Ptr) = convert(Ptr{Cvoid}, stream)

"""
    allocate_address!(runtime, bytes; stream = nothing)

Allocates device memory for another package and returns its address, a `Ptr{Cvoid}` that the host must not access;
`free_address!` must be called. `stream`: the stream of the other package that uses it, a pointer (`C_NULL` = the default stream)
or a `DeviceStream`, which may be destroyed afterwards; `nothing` = every stream may use it when the call returns.
"""
function allocate_address!(runtime::DeviceRuntime, bytes::Integer; stream::Union{Nothing,Ptr,DeviceStream} = nothing)
    kind = stream === nothing ? MMSB_PLUGIN_SEGMENT : MMSB_PLUGIN_ORDERED
    native = stream === nothing ? C_NULL : stream_pointer(stream)
    return fill_reference(Ptr{Cvoid}, mmsb_plugin_allocate, runtime, byte_count(bytes), native, kind)
end

"""
    record_address!(address, stream)

States that work which another stream has queued so far uses memory of `allocate_address!`: its free comes behind that work.
"""
record_address!(address::Ptr, stream::Union{Ptr,DeviceStream}) =
    check(mmsb_plugin_record(address, stream_pointer(stream)))

"""
    free_address!(address, stream = C_NULL)

Frees memory of `allocate_address!` behind all work of the stream; memory of no stream behind all work of the device.
"""
free_address!(address::Ptr, stream::Union{Ptr,DeviceStream} = C_NULL) =
    check(mmsb_plugin_free(address, stream_pointer(stream)))
