# The state: a context of the library, which owns pages.

"The location of a page's bytes."
@enum PageLocation::Int32 begin
    CPU_LOCATION = MMSB_LOCATION_CPU
    GPU_LOCATION = MMSB_LOCATION_GPU
    UNIFIED_LOCATION = MMSB_LOCATION_UNIFIED
    PINNED_LOCATION = MMSB_LOCATION_PINNED
    DISK_LOCATION = MMSB_LOCATION_DISK
end

"Whether a location needs a device."
on_device(location::PageLocation) = location in (GPU_LOCATION, UNIFIED_LOCATION, PINNED_LOCATION)

# Set while fallback_to_cpu runs a function for the second time.
const CPU_ONLY = :MMSB_pages_stay_on_the_cpu

"Location and device as the library takes them. In the second run of fallback_to_cpu, device locations become the CPU."
placement(location::PageLocation, device::Integer) =
    on_device(location) && on_cpu_only() ? (Int32(CPU_LOCATION), 0) : (Int32(location), device)

on_cpu_only() = get(task_local_storage(), CPU_ONLY, false)

"Id of a page, unique in its state."
const PageID = UInt64

"""
    MMSBState(; simulate = :off, options...)
    MMSBState(f; options...)

Owns pages. It lives until `close`, or until nothing refers to it or its pages any more; its pages end with it. The form with
`f` closes it after `f(state)`.

`simulate` is `:off`, `:if_no_gpu` or `:always`; without it the environment variable MMSB_SIMULATE decides. The other
options: `default_location::PageLocation` and `default_device` (for new pages that name none), `simulated_devices` (their number),
`simulated_memory` (bytes of each), `fallback` (what takes the place of a location that is not available, also when a device is
lost in mid-work: `:error` for nothing, `:host` for host memory, `:simulate` for a simulated device),
`memory_limit` (bytes of host memory, 0 = none), `disk_path` (folder for DISK pages), `huge_pages::Bool`, `guard_every` (N guards
every N-th page in host memory, 0 none: see [`check_guard`](@ref)), `guard_quarantine` (bytes of given-back memory that it holds
back).
"""
mutable struct MMSBState
    handle::Threads.Atomic{UInt64}    # 0 once it is closed
    lock::ReentrantLock               # of changes of metadata, and of `undoing`
    undoing::Set{Int}                 # threads whose group could not be undone yet

    MMSBState(handle::mmsb_context_t) =
        finalizer(end_dropped, new(Threads.Atomic{UInt64}(handle), ReentrantLock(), Set{Int}()))
end

# A finalizer may run anywhere: nothing in it waits, and no status is checked.
function end_dropped(state)
    destroy_context(state)
    try_drop_released_arrays()
end

function MMSBState(; options...)
    drop_released_arrays()
    record = state_options(options)
    handle = Ref{mmsb_context_t}(0)
    GC.@preserve options check(mmsb_context_create(record, handle))
    return MMSBState(handle[])
end

"The options of a state as the library has them. The caller keeps the texts alive."
state_options(options) =
    set_options!(initialised(mmsb_context_options_t, mmsb_context_options_init), STATE_OPTIONS, "MMSBState", options)

MMSBState(f::Function; options...) = closing(f, MMSBState(; options...))

"Calls f on an object, closes the object and returns the result."
function closing(f, object)
    try
        return f(object)
    finally
        close(object)
    end
end

# The options of a state, each with what it may be.
const STATE_OPTIONS = (
    simulate = (off = MMSB_SIMULATE_OFF, if_no_gpu = MMSB_SIMULATE_IF_NO_GPU, always = MMSB_SIMULATE_ALWAYS),
    fallback = (error = MMSB_FALLBACK_ERROR, host = MMSB_FALLBACK_HOST, simulate = MMSB_FALLBACK_SIMULATE),
    default_location = PageLocation,
    default_device = Int32,
    simulated_devices = Int32,
    simulated_memory = UInt64,
    memory_limit = UInt64,
    huge_pages = Bool,
    guard_every = UInt64,
    guard_quarantine = UInt64,
    disk_path = String,
)

"A struct as its _init function leaves it."
function initialised(::Type{T}, init) where {T}
    record = Ref{T}()
    init(record)
    return record
end

"""
Sets the fields of a struct to the values of options; kinds says what each option may be, what names their owner in errors. The
caller keeps texts alive.
"""
function set_options!(record::Ref{T}, kinds, what, options) where {T}
    for (name, value) in options
        stored = haskey(kinds, name) ? option_value(name, kinds[name], value) : nothing
        stored === nothing && throw(ArgumentError("$what has no option $name = $(repr(value))"))
        field = hasfield(T, name) ? name : Symbol(:not_, name)
        record[] = with_fields(record[], NamedTuple{(field,)}((stored,)))
    end
    return record
end

"An option's value as a struct has it; `nothing` for a value of another type."
option_value(name, ::Type{T}, value::Integer) where {T<:Union{Int32,UInt32,UInt64}} =
    typemin(T) <= value <= typemax(T) ? T(value) :
    throw(ArgumentError("$name is $value; it is $(typemin(T)) to $(typemax(T))"))
option_value(_, ::Type{Bool}, value::Bool) = Int32(value)
option_value(_, ::typeof(!), value::Bool) = Int32(!value)
option_value(_, ::Type{PageLocation}, value::PageLocation) = Int32(value)
option_value(_, ::Type{String}, value::String) = text_pointer(value)
option_value(name, codes::NamedTuple, value) = code_of(name, codes, value)
option_value(_, _, _) = nothing

"The code of one of a few symbols."
function code_of(what, codes, value)
    value isa Symbol && haskey(codes, value) && return codes[value]
    known = join((":$name" for name in keys(codes)), ", ", " or ")
    throw(ArgumentError("$what is $known, not $(repr(value))"))
end

"A copy of a struct with some fields changed. Generated, because each field has a type of its own."
@generated function with_fields(record::T, changes::NamedTuple{names}) where {T,names}
    fields = [name in names ? :(changes.$name) : :(record.$name) for name in fieldnames(T)]
    return :(T($(fields...)))
end

"The counters of a struct by their names, without those named in `apart`."
function counters_of(record::T, apart::Symbol...) where {T}
    names = filter(name -> !(name in (:struct_size, :reserved_word, :reserved, apart...)), fieldnames(T))
    return NamedTuple{names}(map(name -> Int(getfield(record, name)), names))
end

"Pointer to a zero-terminated text for a struct's field; a zero within it is an ArgumentError. The caller keeps it alive."
text_pointer(text::String) = convert(Ptr{UInt8}, Base.unsafe_convert(Cstring, text))

destroy_context(state) = mmsb_context_destroy(Threads.atomic_xchg!(state.handle, UInt64(0)))

"""
    close(state)

Ends the state and its pages. Closing twice does nothing; every other call on the state or its pages then throws a
`StaleHandleError`. A journal's last records are written. A store is saved first if bytes may have been written through pointers,
or the disk has refused records. With a `GuardError`, which the last check of a guard can throw, and the errors of the disk, it is
closed all the same.
"""
function Base.close(state::MMSBState)
    try
        check(destroy_context(state))
    finally
        drop_released_arrays()
    end
    return nothing
end

Base.isopen(state::MMSBState) = state.handle[] != 0

"Number of pages."
Base.length(state::MMSBState) = Int(fill_reference(UInt64, mmsb_context_page_count, state))

Base.show(io::IO, state::MMSBState) =
    isopen(state) ? print(io, "MMSBState(", length(state), " pages)") : print(io, "MMSBState(closed)")

function handle(state::MMSBState)
    value = state.handle[]
    value == 0 && reject(MMSB_E_STALE_HANDLE, "the state is closed")
    return value
end

"The object that must stay alive while the handle is in use."
owner(state::MMSBState) = state

"""
    call(function, object, arguments...)

Calls a C function on the handle of an object, which cannot be finalized during the call, and checks the status.
"""
function call(f::F, object, arguments...) where {F}
    kept = owner(object)
    GC.@preserve kept begin
        check(f(handle(object), arguments...))
    end
end

"Calls a C function whose last argument is the address of a `T`, and returns what it stored there."
function fill_reference(::Type{T}, f::F, object, arguments...) where {T,F}
    out = Ref{T}()
    call(f, object, arguments..., out)
    return out[]
end

"""
Calls a C function that fills an array of `T` by the header's rules for lists: (…, array, capacity, count). If the list grows
after the call for its length, the call is repeated.
"""
function fill_list(::Type{T}, f::F, object) where {T,F}
    kept = owner(object)
    GC.@preserve kept begin
        fill_list(T, (list...) -> f(handle(object), list...))
    end
end

function fill_list(::Type{T}, f::F) where {T,F}
    count = Ref{Csize_t}(0)
    check(f(C_NULL, 0, count))
    while true
        items = Vector{T}(undef, count[])
        status = f(items, length(items), count)
        status == MMSB_E_OUT_OF_RANGE && count[] > length(items) && continue
        check(status)
        return resize!(items, count[])
    end
end

"A size for the library. A negative size throws the error that the library has for 0."
byte_count(size::Integer) = size < 0 ? reject(MMSB_E_INVALID_SIZE, "size is $size; the minimum is 1") : UInt64(size)
