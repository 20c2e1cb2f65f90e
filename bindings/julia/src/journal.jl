# The journal of a state: a log on disk of every change that goes through the library.

# As STATE_OPTIONS.
const JOURNAL_OPTIONS = (
    durability = (interval = MMSB_DURABILITY_INTERVAL, call = MMSB_DURABILITY_CALL, none = MMSB_DURABILITY_NONE),
    interval_ms = UInt32,
    segment_bytes = UInt64,
    keep = Bool,
    base = (write = MMSB_JOURNAL_BASE_WRITE, refuse = MMSB_JOURNAL_BASE_REFUSE),
)

"""
    open_journal!(state, directory; durability = :interval, interval_ms = 10, timeout = nothing, options...)

Begins to write every change of the state to a journal in a folder, which alone gives the state back: `load_snapshot("";
journal = folder)`. What a call has written survives the death of the process; durability is about power cuts. The journal does
not have bytes that are written through `with_page`. `durability` is `:interval` (a record is on disk within
`interval_ms`), `:call` (a call returns when its record is on disk) or `:none` (the operating system decides). The other options:
`segment_bytes` (when a segment is longer, the journal begins a new one; default 256 MiB), `keep = true` (a durable save does not
remove the segments that it makes unnecessary), `base = :refuse` (throw where the folder's records do not lead to this state;
otherwise it is saved into the folder first). The call throws where another process has gone on with the journal since this state
loaded or closed it: load it again. After `timeout` seconds, or an InterruptException (Ctrl-C), there is no journal.
"""
open_journal!(state::MMSBState, directory::AbstractString; timeout::Union{Real,Nothing} = nothing, options...) =
    run_work(opening(state, directory; options...), timeout)

"""
    async_open_journal!(state, directory; after = Ticket[], options...)::Ticket

Starts `open_journal!` when the work of the tickets in `after` has succeeded. `progress` counts the bytes of the base.
"""
async_open_journal!(state::MMSBState, directory::AbstractString; after::AbstractVector{Ticket} = Ticket[], options...) =
    start(opening(state, directory; options...), after)

function opening(state, directory; options...)
    record = initialised(mmsb_journal_options_t, mmsb_journal_options_init)
    return Work(;
        blocking = mmsb_journal_open,
        starting = mmsb_journal_open_start,
        arguments = (handle(state), path_text(directory)),
        options = set_options!(record, JOURNAL_OPTIONS, "a journal", options),
        kept = state,
        result = () -> state,
        undo = () -> mmsb_journal_close(handle(state)),
    )
end

syncing(state) =
    Work(; blocking = mmsb_journal_sync, starting = mmsb_journal_sync_start, arguments = (handle(state),), kept = state)

"""
    sync_journal(state; timeout = nothing)

Waits until the records of all changes made so far are on disk, at most `timeout` seconds.
"""
sync_journal(state::MMSBState; timeout::Union{Real,Nothing} = nothing) = run_work(syncing(state), timeout)

"""
    async_sync_journal(state; after = Ticket[])::Ticket

Starts `sync_journal` when the work of the tickets in `after` has succeeded.
"""
async_sync_journal(state::MMSBState; after::AbstractVector{Ticket} = Ticket[]) = start(syncing(state), after)

"""
    close_journal!(state; timeout = nothing)

Waits until all records are on disk and ends the journal. When the time is over, or an InterruptException (Ctrl-C) comes first,
the journal stays open.
"""
function close_journal!(state::MMSBState; timeout::Union{Real,Nothing} = nothing)
    try
        sync_journal(state; timeout = timeout)
    catch failure
        # A journal that has failed ends, too, with its error.
        failure isa AbstractMMSBError && !(failure isa WaitTimeoutError) || rethrow()
    end
    call(mmsb_journal_close, state)
    return state
end

trimming(state, snapshot) = work_on(state, mmsb_journal_trim, mmsb_journal_trim_start, path_text(snapshot))

"""
    trim_journal!(state, snapshot; timeout = nothing)

Verifies a snapshot, then removes the journal's segments that hold only records which it contains. `timeout`: as for
`save_snapshot`.
"""
trim_journal!(state::MMSBState, snapshot::AbstractString; timeout::Union{Real,Nothing} = nothing) =
    run_work(trimming(state, snapshot), timeout)

"""
    async_trim_journal!(state, snapshot; after = Ticket[])::Ticket

Starts `trim_journal!` when the work of the tickets in `after` has succeeded. `progress` counts bytes.
"""
async_trim_journal!(state::MMSBState, snapshot::AbstractString; after::AbstractVector{Ticket} = Ticket[]) =
    start(trimming(state, snapshot), after)

"""
    get_journal_info(state) -> (segments, first, last, synced, bytes, waits, waited, space_waited)

The extent of the journal: number of segments; numbers of the oldest record that is kept, of the newest, and of the newest that is
on disk; length of all segments in bytes. `waits` is how often calls have waited since it was opened because the disk was slower
than they were, or full; `waited` how many seconds, all threads together, and `space_waited` how many of them for a full disk.
"""
function get_journal_info(state::MMSBState)
    info = initialised(mmsb_journal_info_t, mmsb_journal_info_init)
    call(mmsb_journal_info, state, info)
    return (
        segments = Int(info[].segments), first = Int(info[].first), last = Int(info[].last), synced = Int(info[].synced),
        bytes = Int(info[].bytes), waits = Int(info[].waits), waited = info[].waited_ns / 1e9,
        space_waited = info[].space_waited_ns / 1e9,
    )
end
