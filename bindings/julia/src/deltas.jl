# Deltas: the only changes that advance a page's epoch and mark its change mask.

const NO_BYTES = Ptr{Cvoid}(C_NULL)

"""
A delta as the library reads it, and everything it points to, which the caller keeps alive during the call.
epoch, source and intent are the keyword arguments of `apply_delta!`.
"""
function new_delta(
    kind,
    payload;
    mask = NO_BYTES,
    mask_length = 0,
    offsets = C_NULL,
    runs = C_NULL,
    count = 0,
    epoch = 0,
    source = nothing,
    intent = nothing,
    kept = (),
)
    bytes = contiguous(payload)
    epoch = option_value("epoch", UInt64, epoch)
    delta = mmsb_delta_t(
        sizeof(mmsb_delta_t), kind, 0, 0, epoch, 0, optional_text(source), optional_text(intent),
        mask, mask_length, offsets, C_NULL, runs, count, pointer(bytes), length(bytes), (0, 0, 0, 0),
    )
    return delta, Any[bytes, source, intent, kept]
end

optional_text(::Nothing) = Ptr{UInt8}(C_NULL)
optional_text(text::String) = text_pointer(text)

function require_same_length(what, expected, values)
    length(values) == expected ||
        reject(MMSB_E_MISMATCH, "data is $(length(values)) bytes, $expected expected, one for each of the $what")
end

"""
    make_delta(mask, data; options...)
    make_delta(positions, values; options...)

The delta of one `apply_delta!` call.
"""
function make_delta(mask::Vector{Bool}, data; options...)
    require_same_length("bytes of mask", length(mask), data)
    return new_delta(
        MMSB_DELTA_DENSE_BYTES, data; mask = pointer(mask), mask_length = length(mask), kept = mask, options...,
    )
end

# The words of a BitVector are little-endian, so they are the library's bit mask as they are.
function make_delta(mask::BitVector, data; options...)
    require_same_length("bits of mask", length(mask), data)
    return new_delta(
        MMSB_DELTA_DENSE_BITS, data; mask = pointer(mask.chunks), mask_length = length(mask), kept = mask, options...,
    )
end

make_delta(mask::AbstractVector{Bool}, data; options...) = make_delta(convert(Vector{Bool}, mask), data; options...)

function make_delta(positions::AbstractVector{<:Integer}, values; options...)
    require_same_length("positions", length(positions), values)
    offsets = UInt64[page_offset(position) for position in positions]
    return new_delta(
        MMSB_DELTA_INDEXED, values; offsets = pointer(offsets), count = length(offsets), kept = offsets, options...,
    )
end

# A range is one run.
function make_delta(positions::AbstractUnitRange{<:Integer}, values; options...)
    require_same_length("positions", length(positions), values)
    runs = isempty(positions) ? mmsb_run_t[] : [mmsb_run_t(page_offset(first(positions)), length(positions))]
    return new_delta(MMSB_DELTA_RUNS, values; runs = pointer(runs), count = length(runs), kept = runs, options...)
end

"""
    apply_delta!(page, mask, data; epoch = 0, source = nothing, intent = nothing)
    apply_delta!(page, positions, values; epoch = 0, source = nothing, intent = nothing)

Changes bytes of the page, marks them in its change mask and advances its epoch; or throws and changes nothing. With a
`mask::AbstractVector{Bool}`, which is as long as `data`, the page takes the bytes of `data` where the mask is true. Otherwise
`values[i]` goes to `positions[i]`, which counts from 1; of equal positions the last wins. `epoch` 0: the page's + 1. `source`
and `intent` say who made the change and why.
"""
function apply_delta!(
    page::Page,
    where_to::AbstractVector{<:Integer},
    data::AbstractVector{UInt8};
    epoch::Integer = 0,
    source::Union{String,Nothing} = nothing,
    intent::Union{String,Nothing} = nothing,
)
    delta, kept = make_delta(where_to, data; epoch = epoch, source = source, intent = intent)
    GC.@preserve kept call(mmsb_page_apply, page, Ref(delta))
    return page
end

"""
    apply_deltas!(state, list)

Applies many deltas in one call, in their order, all or none. Each item of the list is `(page, mask, data)` or
`(page, positions, values)`, the arguments of one `apply_delta!`; a page may also be given by its id.
"""
function apply_deltas!(state::MMSBState, list)
    pages = mmsb_page_t[]
    deltas = mmsb_delta_t[]
    all_kept = Any[]
    for (page, where_to, data) in list
        delta, kept = make_delta(where_to, data)
        push!(pages, handle(find_page(state, page)))
        push!(deltas, delta)
        push!(all_kept, kept)
    end
    bad_index = Ref{Csize_t}(0)
    status = GC.@preserve state all_kept mmsb_page_apply_many(pages, deltas, length(deltas), bad_index)
    status == MMSB_OK || reject(status, "delta $(bad_index[] + 1) of $(length(deltas)): $(last_message(status))")
    return state
end

# Deltas that are kept: what the library made, or what a program has made of its own data.

"""
    Delta(mask, data; epoch = 0, source = nothing, intent = nothing)
    Delta(positions, values; epoch = 0, source = nothing, intent = nothing)

A delta that is applied by `apply_delta!(page, delta)`, merged and converted. The arguments are those of `apply_delta!`; they are
copied. Its properties: `kind` (`:dense_bytes`, `:dense_bits`, `:sparse_bits`, `:indexed` or `:runs`), `epoch`, `page_id` (0 = any
page) and `payload`. `deepcopy` and Serialization copy it, too.
"""
mutable struct Delta
    made::Ptr{mmsb_delta_t}    # the library's, until the delta is dropped

    Delta(made::Ptr{mmsb_delta_t}) = finalizer(delta -> mmsb_delta_free(getfield(delta, :made)), new(made))
end

const DELTA_KINDS = (
    dense_bytes = MMSB_DELTA_DENSE_BYTES, dense_bits = MMSB_DELTA_DENSE_BITS, sparse_bits = MMSB_DELTA_SPARSE_BITS,
    indexed = MMSB_DELTA_INDEXED, runs = MMSB_DELTA_RUNS,
)

function Delta(where_to::AbstractVector{<:Integer}, data::AbstractVector{UInt8}; options...)
    delta, kept = make_delta(where_to, data; options...)
    return GC.@preserve kept made_delta(mmsb_delta_convert, Ref(delta), delta.kind)
end

"The delta that a function stores at its last argument."
function made_delta(f, arguments...)
    made = Ref{Ptr{mmsb_delta_t}}(C_NULL)
    check(f(arguments..., made))
    return Delta(made[])
end

Base.propertynames(::Delta, private::Bool = false) = (:kind, :epoch, :page_id, :payload)

function Base.getproperty(delta::Delta, name::Symbol)
    GC.@preserve delta begin
        record = unsafe_load(getfield(delta, :made))
        return name === :kind ? keys(DELTA_KINDS)[findfirst(==(record.kind), values(DELTA_KINDS))] :
            name === :epoch ? record.epoch :
            name === :page_id ? record.page_id :
            name === :payload ?
            copy(unsafe_wrap(Array, convert(Ptr{UInt8}, record.payload), Int(record.payload_length); own = false)) :
            throw(ArgumentError("a delta has no property $name"))
    end
end

# A delta is copied by its value.

function Base.deepcopy_internal(delta::Delta, copies::IdDict)
    return get!(copies, delta) do
        GC.@preserve delta made_delta(mmsb_delta_convert, getfield(delta, :made), unsafe_load(getfield(delta, :made)).kind)
    end
end

function Serialization.serialize(to::AbstractSerializer, delta::Delta)
    Serialization.serialize_type(to, Delta)
    runs = convert_delta(delta, :runs)
    GC.@preserve runs begin
        record = unsafe_load(getfield(runs, :made))
        list = copy(unsafe_wrap(Array, record.runs, Int(record.count); own = false))
        texts = map(text -> text == C_NULL ? nothing : unsafe_string(text), (record.source, record.intent))
        serialize(to, (delta.kind, record.id, record.page_id, record.epoch, record.timestamp_ns, texts, list, runs.payload))
    end
    return nothing
end

function Serialization.deserialize(from::AbstractSerializer, ::Type{Delta})
    kind, id, page_id, epoch, timestamp_ns, (source, intent), list, payload = deserialize(from)
    runs, kept = new_delta(
        MMSB_DELTA_RUNS, payload;
        runs = pointer(list), count = length(list), epoch = epoch, source = source, intent = intent, kept = list,
    )
    runs = with_fields(runs, (id = id, page_id = page_id, timestamp_ns = timestamp_ns))
    return GC.@preserve kept made_delta(mmsb_delta_convert, Ref(runs), code_of("kind", DELTA_KINDS, kind))
end

Base.show(io::IO, delta::Delta) = print(io, "Delta(", delta.kind, ", epoch = ", delta.epoch, ")")

function apply_delta!(page::Page, delta::Delta)
    GC.@preserve delta call(mmsb_page_apply, page, getfield(delta, :made))
    return page
end

"""
    merge_deltas(first, second)::Delta

One delta with the effect of two: for each byte the later one wins.
"""
merge_deltas(first::Delta, second::Delta) =
    GC.@preserve first second made_delta(mmsb_delta_merge, getfield(first, :made), getfield(second, :made))

"""
    convert_delta(delta, kind)::Delta

The same change in another form: `:dense_bytes`, `:dense_bits`, `:sparse_bits`, `:indexed` or `:runs`.
"""
convert_delta(delta::Delta, kind::Symbol) =
    GC.@preserve delta made_delta(mmsb_delta_convert, getfield(delta, :made), code_of("kind", DELTA_KINDS, kind))

"""
    delta_from_pages(old, new)::Delta

The delta that turns the bytes of one page into those of another one of the same size.
"""
function delta_from_pages(old::Page, new::Page)
    states = (owner(old), owner(new))
    return GC.@preserve states made_delta(mmsb_delta_from_pages, handle(old), handle(new))
end
