# Memory of pages as arrays, and memory of the program as pages.

"""
    ReadOnlyArray

Memory of a page that can be read and not written: what is written without `write = true` no incremental save would find. So it
is not a strided array: BLAS and C functions do not take it, and linear algebra reads it item by item. `copy` makes an `Array`,
which functions need that have a method for strided arrays only, as `inv`, `svd` and `exp` of a matrix. `pointer` gives the
address, which is for reading; `IOBuffer` reads from there.
"""
struct ReadOnlyArray{T,N} <: AbstractArray{T,N}
    memory::Array{T,N}
end

Base.size(array::ReadOnlyArray) = size(array.memory)
Base.IndexStyle(::Type{<:ReadOnlyArray}) = IndexLinear()
Base.@propagate_inbounds Base.getindex(array::ReadOnlyArray, index::Int) = array.memory[index]
Base.setindex!(::ReadOnlyArray, _, ::Int) =
    throw(ArgumentError("the memory is read-only; ask for it with write = true"))
Base.pointer(array::ReadOnlyArray) = pointer(array.memory)
Base.pointer(array::ReadOnlyArray, index::Integer) = pointer(array.memory, index)
# All bytes at once: `copy`, `Array` and `collect` are copies to a new array.
Base.copyto!(to::Array{T}, array::ReadOnlyArray{T}) where {T} = copyto!(to, array.memory)
Base.write(io::IO, array::ReadOnlyArray) = write(io, array.memory)
contiguous(bytes::ReadOnlyArray{UInt8,1}) = bytes.memory

"Calls `f(address)` with the address of a page, which is pinned meanwhile."
function with_pin(f, page::Page, write::Bool)
    mode = write ? MMSB_PIN_WRITE : MMSB_PIN_READ
    write && begin_writing(owner(page), Inf) # so that the pin does not wait for a save
    address = try
        fill_reference(Ptr{Cvoid}, mmsb_page_pin, page, mode)
    finally
        write && call(mmsb_writing_end, owner(page))
    end
    write && count_task_writes(owner(page), 1)
    try
        location = page.location
        location == GPU_LOCATION &&
            reject(MMSB_E_UNSUPPORTED, "page $(page.id) lies in $location, which the host cannot access; move the page first")
        return f(address)
    finally
        write && count_task_writes(owner(page), -1)
        call(mmsb_page_unpin, page, mode)
        undo_rest(owner(page))
    end
end

"""
    with_page(f, page; write = false)

Calls `f(bytes)` with the page's own memory and returns the result of `f`: a `Vector{UInt8}` with `write = true`, else an array
that cannot be written. The page is pinned during the call: it cannot be deleted, moved or resized. Do not use `bytes` after `f`
returns.
"""
with_page(f, page::Page; write::Bool = false) = with_pin(page, write) do address
    bytes = unsafe_wrap(Array, convert(Ptr{UInt8}, address), page.size; own = false)
    return write ? f(bytes) : f(ReadOnlyArray(bytes))
end

"""
    with_array(f, page, T, dims; write = false)

`with_page` with the page's memory as an array of `T`, which is a plain-data type: a plain `Array{T}` of size `dims` with
`write = true`, else one that cannot be written. It takes the first bytes of the page.
"""
function with_array(f, page::Page, ::Type{T}, dims::Dims{N}; write::Bool = false) where {T,N}
    isbitstype(T) || throw(ArgumentError("$T is not a plain-data type"))
    any(<(0), dims) && throw(ArgumentError("dims is $dims; the smallest dimension is 0"))
    bytes = foldl(widemul, dims; init = Int128(sizeof(T)))
    bytes <= page.size ||
        reject(MMSB_E_MISMATCH, "an array of $T of size $dims has $bytes bytes, page $(page.id) has $(page.size)")
    return with_pin(page, write) do address
        UInt(address) % Base.datatype_alignment(T) == 0 ||
            reject(MMSB_E_MISMATCH, "the memory of page $(page.id) is not aligned for $T")
        array = unsafe_wrap(Array, convert(Ptr{T}, address), dims; own = false)
        return write ? f(array) : f(ReadOnlyArray(array))
    end
end
with_array(f, page::Page, ::Type{T}, length::Integer; write::Bool = false) where {T} =
    with_array(f, page, T, (Int(length),); write = write)

# In how many calls of with_page and writing a task is, by state: other tasks of its thread do not keep it from saving.
task_write_counts() = get!(() -> IdDict{MMSBState,Int}(), task_local_storage(), :mmsb_writes)::IdDict{MMSBState,Int}

function count_task_writes(state::MMSBState, more::Int)
    counts = task_write_counts()
    count = get(counts, state, 0) + more
    count == 0 ? delete!(counts, state) : (counts[state] = count)
    return nothing
end

task_writes(state::MMSBState) = haskey(task_write_counts(), state)

# In short steps, as begin_group.
function begin_writing(state::MMSBState, timeout)
    deadline = time() + timeout
    while true
        status = mmsb_writing_begin(handle(state), WAIT_SLICE_NS)
        status == MMSB_E_TIMEOUT && time() < deadline || return check(status)
        yield()
    end
end

"""
    writing(f, state; timeout = Inf)

Calls `f()`, which may write to addresses of pages that are not pinned. `save_snapshot` with `raw_writes = :wait` has all that
`f` writes, or nothing of it, as it has what is written within `with_page`. Any number of tasks can be in `f`. A save lets new
ones wait for a moment, of which `timeout` is the limit in seconds.
"""
function writing(f, state::MMSBState; timeout::Real = Inf)
    begin_writing(state, timeout)
    count_task_writes(state, 1)
    try
        return f()
    finally
        count_task_writes(state, -1)
        call(mmsb_writing_end, state)
    end
end

# Adoption.

"An adopted array, and the semaphore that is posted when its page has ended."
const adopted = Dict{Ptr{Cvoid},Any}()
const adopted_lock = Threads.SpinLock()    # a finalizer can try it

"Lets go of adopted arrays whose pages have ended."
function drop_released_arrays()
    isempty(adopted) || lock(drop_posted, adopted_lock)
    return nothing
end

# For finalizers, which may have stopped the holder of the lock: then the next call does it.
function try_drop_released_arrays()
    !isempty(adopted) && trylock(adopted_lock) || return nothing
    try
        drop_posted()
    finally
        unlock(adopted_lock)
    end
    return nothing
end

function drop_posted()
    for semaphore in collect(keys(adopted))
        LibMMSB.semaphore_is_posted(semaphore) || continue
        delete!(adopted, semaphore)
        Libc.free(semaphore)
    end
end

"""
    adopt_page!(state, array; read_only = false, id = 0)

Creates a page over the memory of an array of plain data, without a copy. The array is kept until the page ends. The page cannot
be resized or migrated; `restore!` of a snapshot that has its id writes into the array. Immutable memory, as `codeunits` of a
String, is only taken with `read_only = true`. Resizing the array is an error of the program.
"""
function adopt_page!(state::MMSBState, array::DenseArray{T}; read_only::Bool = false, id::Integer = 0) where {T}
    isbitstype(T) || throw(ArgumentError("$T is not a plain-data type"))
    read_only || is_settable(array) ||
        throw(ArgumentError("the items of $(typeof(array)) cannot be set; adopt a copy, or with read_only = true"))
    id = option_value("id", UInt64, id)
    drop_released_arrays()
    bytes = sizeof(T) * length(array)
    semaphore = Libc.calloc(1, LibMMSB.SEMAPHORE_BYTES)
    options = initialised(mmsb_adopt_options_t, mmsb_adopt_options_init)
    options[] = with_fields(
        options[],
        (read_only = Int32(read_only), id = id, release = LibMMSB.semaphore_post(), user = semaphore),
    )
    lock(() -> adopted[semaphore] = array, adopted_lock)
    page = Ref{mmsb_page_t}(0)
    status = GC.@preserve state array mmsb_page_adopt(handle(state), pointer(array), bytes, options, page)
    if status != MMSB_OK
        lock(() -> delete!(adopted, semaphore), adopted_lock)
        Libc.free(semaphore)
        check(status)
    end
    return Page(state, page[])
end

"Whether a type of arrays has a setindex! of its own; codeunits of a String have none."
function is_settable(array::DenseArray{T,N}) where {T,N}
    indices = IndexStyle(array) isa IndexLinear ? (Int,) : ntuple(_ -> Int, N)
    return which(setindex!, Tuple{typeof(array),T,indices...}) != which(setindex!, Tuple{AbstractArray,Any,Vararg{Any}})
end

"""
    release_page!(page)
    release_page!(state, page)

Ends a page and returns its bytes as a `Vector{UInt8}`, without a copy. Only for pages in host memory that were not adopted.
"""
function release_page!(page::Page)
    memory, size = Ref{Ptr{Cvoid}}(C_NULL), Ref{UInt64}(0)
    call(mmsb_page_release, page, memory, size)
    bytes = unsafe_wrap(Array, convert(Ptr{UInt8}, memory[]), Int(size[]); own = false)
    address = memory[]
    return finalizer(_ -> mmsb_memory_free(address), bytes)
end
release_page!(state::MMSBState, page) = release_page!(find_page(state, page))

"""
    get_mask(page)::BitVector
    get_mask(state, page)

The page's change mask: whether a delta has addressed each byte since `clear_mask!`.
"""
function get_mask(page::Page)
    while true
        mask = falses(page.size)
        kept = owner(page)
        status = GC.@preserve kept mmsb_page_mask_read(handle(page), 0, mask.chunks, length(mask))
        status == MMSB_E_OUT_OF_RANGE && page.size < length(mask) && continue    # it was made smaller between the two calls
        check(status)
        return mask
    end
end
get_mask(state::MMSBState, page) = get_mask(find_page(state, page))

"""
    clear_mask!(page)
    clear_mask!(state, page)

Clears the page's change mask.
"""
function clear_mask!(page::Page)
    call(mmsb_page_mask_clear, page)
    return page
end
clear_mask!(state::MMSBState, page) = clear_mask!(find_page(state, page))

"""
    count_mask(page)::Int
    count_mask(state, page)

Number of bytes that are marked in the page's change mask.
"""
count_mask(page::Page) = Int(fill_reference(UInt64, mmsb_page_mask_count, page))
count_mask(state::MMSBState, page) = count_mask(find_page(state, page))
