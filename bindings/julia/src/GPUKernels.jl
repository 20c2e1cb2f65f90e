"The library's kernels, on device memory and on host memory."
module GPUKernels

using ..MMSB: DeviceBlock, DeviceStream, call, check, handle, owner, reject, with_use
using ..MMSB.LibMMSB

export compute_optimal_kernel_config, launch_delta_merge!, launch_page_compare!, launch_page_copy!, launch_page_zero!
export launch_sparse_delta_apply!
export delta_merge_kernel!, page_compare_kernel!, page_copy_kernel!, page_zero_kernel!, sparse_delta_apply_kernel!

"""
Memory that kernels take: blocks of a device, arrays of the host whose items lie one after the other, and what a package adds by
methods of [`memory_of`](@ref).
"""
struct KernelMemory
    address::Ptr{Cvoid}
    bytes::Int
    count::Int                          # of items
    block::Union{DeviceBlock,Nothing}   # nothing = of the host, or ordered by the program
    stream::Union{DeviceStream,Nothing} # nothing = the host
end

"""
    memory_of(array)::KernelMemory

Where the bytes of an array are. Packages with other device arrays add a method; `stream` is then one of `wrap_stream!`.
"""
memory_of(block::DeviceBlock) =
    KernelMemory(Ptr{Cvoid}(block.address), block.bytes, block.bytes, block, block.stream)
memory_of(array::DenseArray{T}) where {T} = isbitstype(T) ?
    KernelMemory(Ptr{Cvoid}(pointer(array)), sizeof(array), length(array), nothing, nothing) :
    throw(ArgumentError("kernels take no arrays of $T"))

# A block has bytes without a type: its items are as large as those of what it meets.
items(memory::KernelMemory, bytes) = memory.block === nothing ? memory.count : memory.bytes ÷ bytes

"Calls a kernel on the stream of its arrays, within a use of those that are blocks; host arrays are done when it returns."
function launch(kernel, written, read::Tuple)
    memories = (written, read...)
    streams = unique(memory.stream for memory in memories)
    length(streams) == 1 || throw(ArgumentError("arrays of the host and of a device, or of several streams, are one kernel's"))
    stream = only(streams)
    stream === nothing && return check(kernel(MMSB_STREAM_HOST))
    uses = Pair{DeviceBlock,Symbol}[]
    for memory in memories
        memory.block === nothing && continue
        any(use -> use.first == memory.block, uses) && continue
        push!(uses, memory.block => memory === written ? :read_write : :read)
    end
    kept = owner(stream)
    GC.@preserve kept with_use(() -> check(kernel(handle(stream))), stream, uses...)
    return nothing
end

same_length(what, found, wanted) =
    found == wanted ? nothing : reject(MMSB_E_MISMATCH, "$what has $found items, $wanted expected")

"""
    launch_delta_merge!(base, mask, delta)

`base[i] = delta[i]` where `mask[i]` is not zero. `mask` has a byte for each byte of `base`: a `Vector{Bool}` or `{UInt8}`, or a
block. Returns `base`.
"""
function launch_delta_merge!(base, mask, delta)
    GC.@preserve base mask delta begin
        to, chosen, from = memory_of(base), memory_of(mask), memory_of(delta)
        same_length("mask", chosen.bytes, to.bytes)
        same_length("delta", from.bytes, to.bytes)
        launch(to, (chosen, from)) do stream
            mmsb_stream_merge(stream, to.address, chosen.address, MMSB_DELTA_DENSE_BYTES, from.address, UInt64(to.bytes), C_NULL)
        end
    end
    return base
end

"""
    launch_page_copy!(dest, src, n)

Copies the first `n` bytes of `src` to `dest`, which do not overlap. Returns `dest`.
"""
function launch_page_copy!(dest, src, n::Integer)
    GC.@preserve dest src begin
        to, from = memory_of(dest), memory_of(src)
        0 <= n <= min(to.bytes, from.bytes) ||
            reject(MMSB_E_OUT_OF_RANGE, "n is $n, but the arrays have $(to.bytes) and $(from.bytes) bytes")
        launch(to, (from,)) do stream
            mmsb_stream_copy(stream, to.address, from.address, UInt64(n))
        end
    end
    return dest
end

"""
    launch_page_zero!(data)

Sets all bytes to zero. Returns `data`.
"""
function launch_page_zero!(data)
    GC.@preserve data begin
        to = memory_of(data)
        launch(to, ()) do stream
            mmsb_stream_fill(stream, to.address, 0x00, UInt64(to.bytes))
        end
    end
    return data
end

"""
    launch_page_compare!(result, a, b)

`result[i] = a[i] == b[i]` for each byte, as 1 or 0: a `Vector{Bool}` or `{UInt8}`, or a block. Returns `result`.
"""
function launch_page_compare!(result, a, b)
    GC.@preserve result a b begin
        to, left, right = memory_of(result), memory_of(a), memory_of(b)
        same_length("b", right.bytes, left.bytes)
        same_length("result", to.bytes, left.bytes)
        launch(to, (left, right)) do stream
            mmsb_stream_compare(stream, to.address, left.address, right.address, UInt64(left.bytes))
        end
    end
    return result
end

"""
    launch_sparse_delta_apply!(base, indices, values)

`base[indices[i]] = values[i]` for each byte. Indices count from 1 and are of 4 or 8 bytes; in a block they have 8. Of equal
indices the last wins on the host, any on a device. An index outside of `base` is an error on the host; a device passes over it.
Returns `base`.
"""
function launch_sparse_delta_apply!(base, indices, values)
    GC.@preserve base indices values begin
        to, places, from = memory_of(base), memory_of(indices), memory_of(values)
        width = places.block === nothing && indices isa AbstractArray ? sizeof(eltype(indices)) : 8
        width in (4, 8) || throw(ArgumentError("indices have $width bytes each, not 4 or 8"))
        same_length("values", from.bytes, items(places, width))
        launch(to, (places, from)) do stream
            mmsb_stream_scatter(stream, to.address, UInt64(to.bytes), places.address, UInt32(width), UInt64(1), from.address,
                UInt64(from.bytes))
        end
    end
    return base
end

"""
    compute_optimal_kernel_config(size) → (threads, blocks)

Threads of a block, and blocks, with which a kernel of one's own works on `size` bytes as the library's do: 64 bytes a thread, up
to 1024 blocks.
"""
compute_optimal_kernel_config(size::Integer) = size < 0 ? throw(ArgumentError("size is $size")) :
    (256, Int(clamp(cld(size, 64 * 256), 1, 1024)))

"A kernel of the library, by its name there."
struct Kernel
    name::Symbol
end
Base.show(io::IO, kernel::Kernel) = print(io, "Kernel(:", kernel.name, ")")

"The kernel of `launch_delta_merge!`."
const delta_merge_kernel! = Kernel(:merge_bytes)
"The kernel of `launch_page_copy!`."
const page_copy_kernel! = Kernel(:copy)
"The kernel of `launch_page_zero!`."
const page_zero_kernel! = Kernel(:fill)
"The kernel of `launch_page_compare!`."
const page_compare_kernel! = Kernel(:compare)
"The kernel of `launch_sparse_delta_apply!`."
const sparse_delta_apply_kernel! = Kernel(:scatter)

end
