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
    open_journal!(state, directory; durability = :interval, interval_ms = 10, options...)

Begins to write every change of the state to a journal in a folder, which alone gives the state back: `load_snapshot("";
journal = folder)`. What a call has written survives the death of the process; durability is about power cuts. The journal does
not have bytes that are written through `with_page`. `durability` is `:interval` (a record is on disk within
`interval_ms`), `:call` (a call returns when its record is on disk) or `:none` (the operating system decides). The other options:
`segment_bytes` (when a segment is longer, the journal begins a new one; default 256 MiB), `keep = true` (a durable save does not
remove the segments that it makes unnecessary), `base = :refuse` (throw where the folder's records do not lead to this state;
otherwise it is saved into the folder first). The call throws where another process has gone on with the journal since this state
loaded or closed it: load it again.
"""
function open_journal!(state::MMSBState, directory::AbstractString; options...)
    record = initialised(mmsb_journal_options_t, mmsb_journal_options_init)
    call(mmsb_journal_open, state, path_text(directory), set_options!(record, JOURNAL_OPTIONS, "a journal", options))
    return state
end

"""
    sync_journal(state)

Waits until the records of all changes made so far are on disk.
"""
sync_journal(state::MMSBState) = call(mmsb_journal_sync, state, C_NULL)

"""
    close_journal!(state)

Waits until all records are on disk and ends the journal.
"""
function close_journal!(state::MMSBState)
    call(mmsb_journal_close, state)
    return state
end

"""
    trim_journal!(state, snapshot)

Verifies a snapshot, then removes the journal's segments that hold only records which it contains.
"""
function trim_journal!(state::MMSBState, snapshot::AbstractString)
    call(mmsb_journal_trim, state, path_text(snapshot), C_NULL)
    return state
end

"""
    get_journal_info(state) -> (segments, first, last, synced, bytes)

The extent of the journal: number of segments; numbers of the oldest record that is kept, of the newest, and of the newest that is
on disk; length of all segments in bytes.
"""
function get_journal_info(state::MMSBState)
    info = initialised(mmsb_journal_info_t, mmsb_journal_info_init)
    call(mmsb_journal_info, state, info)
    return (
        segments = Int(info[].segments), first = Int(info[].first), last = Int(info[].last), synced = Int(info[].synced),
        bytes = Int(info[].bytes),
    )
end
