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
