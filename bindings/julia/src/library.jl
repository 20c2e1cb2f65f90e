# The library as a whole: its log and its memory.

const LOG_LEVELS = (
    off = MMSB_LOG_OFF, error = MMSB_LOG_ERROR, warning = MMSB_LOG_WARNING, info = MMSB_LOG_INFO, debug = MMSB_LOG_DEBUG,
)

"""
    configure_log(level; descriptor = -1)

Sets what the library logs, for the whole process: `:off`, `:error`, `:warning`, `:info` or `:debug`. `descriptor`: a file
descriptor to which each line is also written, -1 = none.
"""
configure_log(level::Symbol; descriptor::Integer = -1) =
    check(mmsb_log_configure(code_of("level", LOG_LEVELS, level), Int32(descriptor)))

"""
    read_log()::Vector{String}

Removes the lines from the library's log and returns them.
"""
function read_log()
    lines = String[]
    buffer, count = Vector{UInt8}(undef, 65536), Ref{Csize_t}(0)
    while true
        status = mmsb_log_read(buffer, length(buffer), count, C_NULL)
        if status == MMSB_E_OUT_OF_RANGE
            resize!(buffer, count[])
            continue
        end
        check(status)
        count[] == 0 && return lines
        append!(lines, split(String(buffer[1:count[]]), '\n'; keepempty = false))
    end
end

"""
    get_memory_usage()::Dict{Symbol,Int}

Memory of the whole library in bytes, by purpose, named as in `mmsb_memory_usage_t`.
"""
function get_memory_usage()
    usage = initialised(mmsb_memory_usage_t, mmsb_memory_usage_init)
    check(mmsb_memory_usage(usage))
    return Dict(pairs(counters_of(usage[])))
end

"""
    trim_memory!(state)::Int

Gives memory of deleted pages back to the system and returns the number of bytes.
"""
trim_memory!(state::MMSBState) = Int(fill_reference(UInt64, mmsb_context_trim, state))

"""
A write that the guard of host pages found where nobody may write: `side` is `:before` the page's first byte, `:behind` its last
one, in memory of a page that had `:ended`, or that a page had `:left` when it was resized or migrated. `bytes` go from the first
byte that was written, at `offset` (counted from 0 at the page's first byte, negative before it), to the last one; the byte there
had the value `expected` and has `found`. `size` is the page's.
"""
struct GuardReport
    page_id::PageID
    side::Symbol
    size::Int
    offset::Int
    bytes::Int
    expected::UInt8
    found::UInt8
end

const GUARD_SIDES = (:before, :behind, :ended, :left)

"""
    check_guard(state)::Vector{GuardReport}

Checks all guarded pages of a state with `guard_every`, and returns what the guard has found and no call has thrown yet.
"""
function check_guard(state::MMSBState)
    reports = GuardReport[]
    count = Ref{UInt64}(0)
    while true
        found = initialised(mmsb_guard_report_t, mmsb_guard_report_init)
        call(mmsb_guard_check, state, found, count)
        count[] == 0 && return reports
        r = found[]
        push!(
            reports, GuardReport(r.page_id, GUARD_SIDES[r.side], r.size, r.offset, r.bytes, r.expected, r.found),
        )
    end
end
