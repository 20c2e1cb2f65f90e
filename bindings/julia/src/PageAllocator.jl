"Creates, moves, resizes, clones and deletes pages."
module PageAllocator

using ..MMSB: MMSBState, Page, PageLocation, Ticket, CPU_LOCATION, GPU_LOCATION
using ..MMSB: Work, byte_count, call, check, drop_released_arrays, fill_reference, find_page, handle
using ..MMSB: import_metadata!, initialised, move_page!, moving_many, option_value, owner, placement, reject, run_work, start
using ..MMSB: stored_entries, throw_page_not_found, with_fields
using ..MMSB.LibMMSB

export allocate_page_arrays, async_create_pages!, async_migrate_pages!, clone_page, create_cpu_page!, create_gpu_page!
export create_page!, create_pages!, delete_page!, migrate_page!, migrate_pages!, resize_page!

"Options of a new page. Without a location the page gets the state's default location."
function page_options(location, device, id = 0)
    options = initialised(mmsb_page_options_t, mmsb_page_options_init)
    tag, ordinal = location === nothing ? (MMSB_LOCATION_DEFAULT, device) : placement(location, device)
    options[] = with_fields(options[], (location = tag, device = ordinal, id = option_value("id", UInt64, id)))
    return options
end

"""
    create_page!(state, size[, location]; metadata = (), device = 0, id = 0)

Creates a page of `size` zero bytes. Without a location it gets the state's default location. `metadata`: a dictionary or pairs
of Symbols and values of type String or Vector{UInt8}. `id` 0: the library picks one.
"""
function create_page!(
    state::MMSBState,
    size::Integer,
    location::Union{PageLocation,Nothing} = nothing;
    metadata = (),
    device::Integer = 0,
    id::Integer = 0,
)
    entries = stored_entries(metadata)    # bad metadata is refused before the page exists
    options = page_options(location, device, id)
    page = Page(state, fill_reference(mmsb_page_t, mmsb_page_create, state, byte_count(size), options))
    isempty(entries) && return page
    try
        import_metadata!(page, entries)
    catch
        call(mmsb_page_destroy, page)
        rethrow()
    end
    return page
end

"""
    create_cpu_page!(state, size)

Creates a page in host memory. Options as for `create_page!`.
"""
create_cpu_page!(state::MMSBState, size::Integer; options...) = create_page!(state, size, CPU_LOCATION; options...)

"""
    create_gpu_page!(state, size)

Creates a page in device memory. Options as for `create_page!`.
"""
create_gpu_page!(state::MMSBState, size::Integer; options...) = create_page!(state, size, GPU_LOCATION; options...)

"""
    async_create_pages!(state, size, count[, location]; device = 0, after = Ticket[])::Ticket

Starts to create `count` pages of `size` bytes each, or none, when the work of the tickets in `after` has succeeded.
`fetch(ticket)` returns the pages.
"""
async_create_pages!(
    state::MMSBState,
    size::Integer,
    count::Integer,
    location::Union{PageLocation,Nothing} = nothing;
    device::Integer = 0,
    after::AbstractVector{Ticket} = Ticket[],
) = start(creating_many(state, size, count, location, device), after)

"""
    create_pages!(state, size, count[, location]; device = 0, timeout = nothing)::Vector{Page}

Creates `count` pages of `size` bytes each, or none: also when `timeout` seconds are over, or an InterruptException (Ctrl-C)
comes.
"""
create_pages!(
    state::MMSBState,
    size::Integer,
    count::Integer,
    location::Union{PageLocation,Nothing} = nothing;
    device::Integer = 0,
    timeout::Union{Real,Nothing} = nothing,
) = run_work(creating_many(state, size, count, location, device), timeout)

function creating_many(state, size, count, location, device)
    count < 0 && throw(ArgumentError("count is $count; the minimum is 0"))
    pages = Vector{mmsb_page_t}(undef, count)
    return Work(;
        blocking = mmsb_page_create_many,
        starting = mmsb_page_create_many_start,
        arguments = (handle(state), byte_count(size), count, page_options(location, device)),
        results = (pages,),
        kept = state,
        result = () -> Page[Page(state, page) for page in pages],
        undo = () -> mmsb_page_destroy_many(pages, count, C_NULL),
    )
end

"""
    delete_page!(state, id)
    delete_page!(page)

Ends the page and frees its memory. Every `Page` that refers to it is stale afterwards.
"""
function delete_page!(state::MMSBState, id::Union{Integer,Page})
    page = find_page(state, id)
    status = GC.@preserve state mmsb_page_destroy(handle(page))
    drop_released_arrays()
    status == MMSB_E_STALE_HANDLE && isopen(state) && throw_page_not_found(page.id)
    check(status)
    return page
end

"""
    migrate_page!(state, id, location; device = 0)
    migrate_page!(page, location; device = 0)

Moves the page's bytes to another location. Its id, epoch, change mask and metadata stay.
"""
function migrate_page!(state::MMSBState, id::Union{Integer,Page}, location::PageLocation; device::Integer = 0)
    return move_page!(find_page(state, id), location, device)
end

"""
    migrate_pages!(state, ids, location; device = 0, timeout = nothing)
    migrate_pages!(pages, location; device = 0, timeout = nothing)

Moves the bytes of many pages. Throws if a page cannot move; each page has then moved completely or not at all. So it is when
`timeout` seconds are over, or an InterruptException (Ctrl-C) comes: pages that have moved stay there.
"""
migrate_pages!(
    pages::AbstractVector{Page}, location::PageLocation; device::Integer = 0, timeout::Union{Real,Nothing} = nothing,
) = run_work(moving_many(pages, location, device, pages), timeout)
migrate_pages!(state::MMSBState, ids, location::PageLocation; options...) =
    migrate_pages!(Page[find_page(state, id) for id in ids], location; options...)

"""
    async_migrate_pages!(state, ids, location; device = 0, after = Ticket[])::Ticket
    async_migrate_pages!(pages, location; device = 0, after = Ticket[])::Ticket

Starts `migrate_pages!` when the work of the tickets in `after` has succeeded. `progress` counts pages; `fetch` returns them.
"""
async_migrate_pages!(
    pages::AbstractVector{Page}, location::PageLocation; device::Integer = 0, after::AbstractVector{Ticket} = Ticket[],
) = start(moving_many(pages, location, device, pages), after)
async_migrate_pages!(state::MMSBState, ids, location::PageLocation; options...) =
    async_migrate_pages!(Page[find_page(state, id) for id in ids], location; options...)

"""
    resize_page!(state, id, size)
    resize_page!(page, size)

Changes the page's size in bytes. Bytes within both sizes stay; added bytes are zero.
"""
function resize_page!(state::MMSBState, id::Union{Integer,Page}, size::Integer)
    page = find_page(state, id)
    call(mmsb_page_resize, page, byte_count(size))
    return page
end

"""
    clone_page(state, id)
    clone_page(page)

Creates a page with the same bytes, location, epoch, change mask and metadata, and an id of its own.
"""
function clone_page(state::MMSBState, id::Union{Integer,Page})
    page = find_page(state, id)
    return Page(state, fill_reference(mmsb_page_t, mmsb_page_clone, page, 0))
end

delete_page!(page::Page) = delete_page!(owner(page), page)
migrate_page!(page::Page, location::PageLocation; device::Integer = 0) =
    migrate_page!(owner(page), page, location; device = device)
resize_page!(page::Page, size::Integer) = resize_page!(owner(page), page, size)
clone_page(page::Page) = clone_page(owner(page), page)

"""
    allocate_page_arrays(size, location) -> (bytes, mask)

Zeroed Julia arrays for the bytes of a page and its change mask, one `Bool` per byte. `location` must be `CPU_LOCATION`.
"""
function allocate_page_arrays(size::Integer, location::PageLocation)
    location == CPU_LOCATION || reject(MMSB_E_UNSUPPORTED, "location is $location; arrays of Julia lie in CPU_LOCATION")
    count = byte_count(size)
    count == 0 && reject(MMSB_E_INVALID_SIZE, "size is 0; the smallest page has 1 byte")
    return zeros(UInt8, count), fill(false, count)
end

end
