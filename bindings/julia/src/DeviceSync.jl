"Moving pages between the host and devices."
module DeviceSync

using ..MMSB: DeviceStream, MMSBState, Page, PageLocation, Ticket, CPU_LOCATION, GPU_LOCATION, UNIFIED_LOCATION
using ..MMSB: destroy_ticket, record_stream
using ..MMSB: call, get_page, initialised, move_page!, moving_many, run_work, start
using ..MMSB.LibMMSB

export async_sync_page_to_gpu!, batch_sync_to_cpu!, batch_sync_to_gpu!, ensure_page_on_device!, get_sync_statistics
export prefetch_pages_to_gpu!, sync_bidirectional!, sync_page_to_cpu!, sync_page_to_gpu!

# Host and devices can access managed memory, so such pages stay where they are.
stays(page, location) = page.location in (location, UNIFIED_LOCATION)

"""
    sync_page_to_gpu!(page; device = 0)

Moves the page's bytes to a device. A page in managed memory stays there, because devices can access it.
"""
sync_page_to_gpu!(page::Page; device::Integer = 0) = stays(page, GPU_LOCATION) ? page : move_page!(page, GPU_LOCATION, device)

"""
    sync_page_to_cpu!(page)

Moves the page's bytes to the host. A page in managed memory stays there, because the host can access it.
"""
sync_page_to_cpu!(page::Page) = stays(page, CPU_LOCATION) ? page : move_page!(page, CPU_LOCATION, 0)

"""
    sync_bidirectional!(a, b; device = 0)

Moves both pages to a device if their locations differ. Returns `(a, b)`.
"""
function sync_bidirectional!(a::Page, b::Page; device::Integer = 0)
    if a.location != b.location
        sync_page_to_gpu!(a; device = device)
        sync_page_to_gpu!(b; device = device)
    end
    return a, b
end

"""
    ensure_page_on_device!(page, location; device = 0)::Bool

Moves the page to a location unless it is there, and returns whether it moved. Throws an `UnsupportedLocationError` if the
location is not available.
"""
function ensure_page_on_device!(page::Page, location::PageLocation; device::Integer = 0)
    before = page.location, page.device
    move_page!(page, location, device)
    return (page.location, page.device) != before
end

"""
    async_sync_page_to_gpu!(page[, after]; device = 0)::Ticket
    async_sync_page_to_gpu!(page, stream; device = 0)::Ticket

Starts to move the page's bytes to a device when the work of the ticket `after`, or all that is queued on a stream so far, is
done. `fetch(ticket)` returns the page.
"""
async_sync_page_to_gpu!(page::Page, stream::DeviceStream; device::Integer = 0) =
    closing_unfinished(record_stream(stream)) do queued
        async_sync_page_to_gpu!(page, queued; device = device)
    end
async_sync_page_to_gpu!(page::Page, after::Union{Ticket,Nothing} = nothing; device::Integer = 0) =
    start(moving_many([page], GPU_LOCATION, device, page), after === nothing ? Ticket[] : [after])

"""
    batch_sync_to_gpu!(pages; device = 0, timeout = nothing)

Moves many pages to a device in one call. Throws if a page cannot move; each page has then moved completely or not at all.
`timeout`: as for `migrate_pages!`.
"""
batch_sync_to_gpu!(pages::AbstractVector{Page}; device::Integer = 0, timeout::Union{Real,Nothing} = nothing) =
    move_many!(pages, GPU_LOCATION, device, timeout)

"""
    batch_sync_to_cpu!(pages; timeout = nothing)

Moves many pages to the host in one call. Throws if a page cannot move; each page has then moved completely or not at all.
`timeout`: as for `migrate_pages!`.
"""
batch_sync_to_cpu!(pages::AbstractVector{Page}; timeout::Union{Real,Nothing} = nothing) =
    move_many!(pages, CPU_LOCATION, 0, timeout)

"""
    prefetch_pages_to_gpu!(state, ids; device = 0, timeout = nothing)

Moves the pages with these ids, or these pages, to a device and returns them. Ids without a page are ignored. `timeout`: as for
`migrate_pages!`.
"""
function prefetch_pages_to_gpu!(state::MMSBState, ids; device::Integer = 0, timeout::Union{Real,Nothing} = nothing)
    found = (get_page(state, id) for id in ids)
    return batch_sync_to_gpu!(Page[page for page in found if page !== nothing]; device = device, timeout = timeout)
end

function move_many!(pages, location, device, timeout)
    moving = Page[page for page in pages if !stays(page, location)]
    isempty(moving) || run_work(moving_many(moving, location, device, pages), timeout)
    return pages
end

"Calls f on a ticket and gives it back, without waiting for its work."
function closing_unfinished(f, ticket)
    try
        return f(ticket)
    finally
        destroy_ticket(ticket)
    end
end

"""
    get_sync_statistics(state)::Dict{Symbol,Any}

Number and bytes of the pages, by location and in total: `:cpu_pages`, `:cpu_bytes`, `:gpu_pages`, …, `:total_pages`,
`:total_bytes`.
"""
function get_sync_statistics(state::MMSBState)
    stats = initialised(mmsb_context_stats_t, mmsb_context_stats_init)
    call(mmsb_context_stats, state, stats)
    statistics = Dict{Symbol,Any}(:total_pages => Int(stats[].pages), :total_bytes => Int(stats[].bytes))
    for location in instances(PageLocation)
        name = lowercase(replace(string(location), "_LOCATION" => ""))
        statistics[Symbol(name, :_pages)] = Int(stats[].location_pages[Int(location)+1])
        statistics[Symbol(name, :_bytes)] = Int(stats[].location_bytes[Int(location)+1])
    end
    return statistics
end

end
