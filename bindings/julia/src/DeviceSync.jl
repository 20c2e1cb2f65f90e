"Where the pages of a state lie."
module DeviceSync

using ..MMSB: MMSBState, PageLocation, call
using ..MMSB.LibMMSB

export get_sync_statistics

"""
    get_sync_statistics(state)::Dict{Symbol,Any}

Number and bytes of the pages in each location and of all: `:cpu_pages`, `:cpu_bytes`, `:gpu_pages`, …, `:total_pages`,
`:total_bytes`.
"""
function get_sync_statistics(state::MMSBState)
    stats = Ref{mmsb_context_stats_t}()
    mmsb_context_stats_init(stats)
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
