# Pages and their bytes.

"""
    Page

A page of a state. Its properties `id`, `size` (bytes), `location`, `device`, `epoch`, `version` and `metadata` have their current
values; every change of the page advances the version.
Two `Page` objects of one page are equal. A page ends with `delete_page!` or with its state, never because an object is dropped.
"""
struct Page
    state::MMSBState
    handle::UInt64
    id::PageID
end

"The `Page` with this handle."
function Page(state::MMSBState, handle::UInt64)
    id = GC.@preserve state mmsb_page_id(handle)
    id == 0 && throw_status(mmsb_last_error_code())
    return Page(state, handle, id)
end

handle(page::Page) = getfield(page, :handle)
owner(page::Page) = getfield(page, :state)

new_page_info() = initialised(mmsb_page_info_t, mmsb_page_info_init)

function page_info(page::Page)
    info = new_page_info()
    call(mmsb_page_info, page, info)
    return info[]
end

# The cheap calls for size and epoch return 0 for a bad handle, too; then page_info throws the error.
function page_size(page::Page)
    kept = owner(page)
    size = GC.@preserve kept mmsb_page_size(handle(page))
    return Int(size == 0 ? page_info(page).size : size)
end

function page_epoch(page::Page)
    kept = owner(page)
    epoch = GC.@preserve kept mmsb_page_epoch(handle(page))
    return epoch == 0 ? page_info(page).epoch : epoch
end

function page_version(page::Page)
    kept = owner(page)
    version = GC.@preserve kept mmsb_page_version(handle(page))
    return version == 0 ? page_info(page).version : version
end

function page_location(page::Page)
    kept = owner(page)
    location = GC.@preserve kept mmsb_page_location(handle(page))
    return PageLocation(location == MMSB_LOCATION_DEFAULT ? page_info(page).location : location)
end

"Moves the page's bytes to another location."
function move_page!(page::Page, location::PageLocation, device::Integer)
    call(mmsb_page_migrate, page, placement(location, device)...)
    return page
end

Base.propertynames(::Page, private::Bool = false) = (:id, :size, :location, :device, :epoch, :version, :metadata)

Base.getproperty(page::Page, name::Symbol) =
    name === :id ? getfield(page, :id) :
    name === :size ? page_size(page) :
    name === :location ? page_location(page) :
    name === :device ? Int(page_info(page).device) :
    name === :epoch ? page_epoch(page) :
    name === :version ? page_version(page) :
    name === :metadata ? PageMetadata(page) :
    throw(ArgumentError("a page has no property $name"))

Base.:(==)(a::Page, b::Page) = handle(a) == handle(b)
Base.hash(page::Page, seed::UInt) = hash(handle(page), hash(Page, seed))
Base.show(io::IO, page::Page) = print(io, "Page(id = ", page.id, ")")

"""
    get_page(state, id)::Union{Page,Nothing}

The page with this id, or `nothing`. A `Page` stands for itself.
"""
get_page(state::MMSBState, page::Page) = find_page(state, page)

function get_page(state::MMSBState, id::Integer)
    0 <= id <= typemax(PageID) || return nothing
    page = Ref{mmsb_page_t}(0)
    status = GC.@preserve state mmsb_page_lookup(handle(state), id, page)
    status == MMSB_E_NOT_FOUND && return nothing
    check(status)
    return Page(state, page[], id)
end

"The id of a page that is given as a `Page`, also of one that has ended, or by its id."
page_id(page::Page) = page.id
page_id(id::Integer) = id

"The page with this id, which must exist."
function find_page(state::MMSBState, id::Integer)
    page = get_page(state, id)
    page === nothing && throw_page_not_found(id)
    return page
end

function find_page(state::MMSBState, page::Page)
    owner(page) === state || reject(MMSB_E_MISMATCH, "page $(page.id) belongs to another state")
    return page
end

@noinline throw_page_not_found(id) = throw(PageNotFoundError(MMSB_E_NOT_FOUND, "the state has no page with id $id"))

"""
    get_pages(state)::Vector{Page}

All pages. A page that is created or deleted during the call may be missing or included.
"""
function get_pages(state::MMSBState)
    pages = Page[]
    cursor = Ref{UInt64}(0)
    handles = Vector{mmsb_page_t}(undef, 256)
    count = Ref{Csize_t}(0)
    info = new_page_info()
    while true
        call(mmsb_context_pages, state, cursor, handles, length(handles), count)
        count[] == 0 && return pages
        for page in view(handles, 1:Int(count[]))
            status = GC.@preserve state mmsb_page_info(page, info)
            status == MMSB_E_STALE_HANDLE && isopen(state) && continue
            check(status)
            push!(pages, Page(state, page, info[].id))
        end
    end
end

"Offset of a 1-based position."
function page_offset(position::Integer)
    position < 1 && reject(MMSB_E_OUT_OF_RANGE, "position is $position; the first byte has position 1")
    position > typemax(UInt64) && reject(MMSB_E_OUT_OF_RANGE, "position is $position; the largest is $(typemax(UInt64))")
    return UInt64(position - 1)
end

const ContiguousBytes = Union{DenseVector{UInt8},Base.FastContiguousSubArray{UInt8,1,<:DenseVector{UInt8}}}

"The bytes with a contiguous address: `bytes` itself, or a copy."
contiguous(bytes::ContiguousBytes) = bytes
contiguous(bytes::AbstractVector{UInt8}) = convert(Vector{UInt8}, bytes)

"""
    read_page(page[, range])::Vector{UInt8}

A copy of the page's bytes: all, or those at the positions of the range, which count from 1.
"""
function read_page(page::Page)
    while true
        size = page.size
        bytes = Vector{UInt8}(undef, size)
        kept = owner(page)
        status = GC.@preserve kept mmsb_page_read(handle(page), 0, bytes, size)
        # The page was made smaller between the two calls.
        status == MMSB_E_OUT_OF_RANGE && page.size < size && continue
        check(status)
        # The page may have grown between the two calls.
        page.size == size && return bytes
    end
end

function read_page(page::Page, range::AbstractUnitRange{<:Integer})
    offset = page_offset(first(range))
    # Checked before the bytes are allocated, because the range may have any length.
    last(range) > page.size && reject(MMSB_E_OUT_OF_RANGE, "positions $range reach past the page's $(page.size) bytes")
    bytes = Vector{UInt8}(undef, length(range))
    call(mmsb_page_read, page, offset, bytes, length(bytes))
    return bytes
end

"""
    write_page!(page, bytes; offset = 1)

Writes the bytes at position `offset`, which counts from 1, and those behind it. Only deltas change epoch and change mask.
"""
function write_page!(page::Page, bytes::AbstractVector{UInt8}; offset::Integer = 1)
    source = contiguous(bytes)
    GC.@preserve source call(mmsb_page_write, page, page_offset(offset), pointer(source), length(source))
    return page
end
