# Stores: folders that have the state of a context.

# As STATE_OPTIONS.
const STORE_OPTIONS = (
    durability = JOURNAL_OPTIONS.durability,
    interval_ms = UInt32,
    segment_bytes = UInt64,
    keep_last = Int32,
    keep_hourly = Int32,
    keep_daily = Int32,
)

const STORE_MODES = (write = MMSB_STORE_WRITE, read = MMSB_STORE_READ, branch = MMSB_STORE_BRANCH, follow = MMSB_STORE_FOLLOW)

"The field that says which state is meant."
at_field(::Nothing) = NamedTuple()
at_field(name::String) = (at_name = text_pointer(name),)
at_field(time::AbstractFloat) = (at_time_ns = nanoseconds_since_1970(time),)
at_field(record::Integer) =
    record < 1 ? throw(ArgumentError("at is $record; the first record has the number 1")) : (at_record = UInt64(record),)

"A number that is more than 0 in the library's unit, where 0 means something else."
function positive(what, value, scale)
    value > 0 || throw(ArgumentError("$what is $value, not more than 0"))
    return value * scale < typemax(Int64) ? max(UInt64(1), floor(UInt64, value * scale)) : MMSB_NEVER
end

function opening_store(
    directory;
    mode::Union{Symbol,Nothing} = nothing,
    at::Union{AbstractString,Real,Nothing} = nothing,
    lazy::Bool = false,
    save_bytes::Union{Real,Nothing} = nothing,
    save_interval::Union{Real,Nothing} = nothing,
    space_wait::Real = 0,
    options...,
)
    of_state(name) = haskey(STATE_OPTIONS, name)
    context_options = (; (name => value for (name, value) in options if of_state(name))...)
    store_options = (; (name => value for (name, value) in options if !of_state(name))...)
    chosen = at isa AbstractString ? String(at) : at
    record = initialised(mmsb_store_options_t, mmsb_store_options_init)
    set_options!(record, STORE_OPTIONS, "a store", pairs(store_options))
    change!(fields) = record[] = with_fields(record[], fields)
    wanted = mode !== nothing ? mode : at === nothing ? :write : :read
    change!((mode = code_of("mode", STORE_MODES, wanted), load = lazy ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER))
    change!(at_field(chosen))
    save_bytes === nothing || change!((save_bytes = positive("save_bytes", save_bytes, 1),))
    save_interval === nothing || change!((save_interval_ns = positive("save_interval", save_interval, 1e9),))
    space_wait == 0 || change!((space_wait_ns = positive("space_wait", space_wait, 1e9),))
    opened = Ref{mmsb_context_t}(0)
    return Work(;
        blocking = mmsb_store_open,
        starting = mmsb_store_open_start,
        arguments = (path_text(directory), state_options(pairs(context_options))),
        options = record,
        results = (opened,),
        kept = (context_options, chosen),
        result = () -> MMSBState(opened[]),
        undo = () -> mmsb_context_destroy(opened[]),
    )
end

"""
    open_store(directory; mode = :write, at = nothing, lazy = false, timeout = nothing, options...)::MMSBState
    open_store(f, directory; options...)

Opens a store: a folder that has the state of a context, whatever becomes of the process. The state has what the store had, and
every change goes into the folder's journal: `close` needs no save. The form with `f` closes it after `f(state)`:

    open_store("state") do state
        page = length(state) == 0 ? create_page!(state, 4096) : first(get_pages(state))
        write_page!(page, codeunits("hello"))
    end

`mode`: `:write` goes on from the newest state, and begins a folder that is missing or empty; `:read` takes no lock, and calls
that would change pages throw; `:follow` is `:read`, but the pages keep up with the store's writer, which may be another process:
[`wait_record`](@ref); `:branch` goes on from an older state, and leaves the newer ones. `at`: the state that has this name (a
string), behind this record of the journal (an integer), or of that time (a float: seconds since 1970, as from `time()`); with
`at` the default of `mode` is `:read`. `lazy`: the bytes of large pages are read when a call first needs them. After `timeout`
seconds, or an InterruptException (Ctrl-C), nothing is open.

The other options: `durability`, `interval_ms` and `segment_bytes` (default 16 MiB) of the journal, see [`open_journal!`](@ref);
`save_bytes` (the keeper, a thread of the library, saves the state when the journal has grown by so many bytes; default 64 MiB, or
a tenth of the pages' bytes where that is more; `Inf`: never); `save_interval` (seconds after which it saves, if anything has
changed, also through pointers; default never. With `save_bytes = Inf` and this default nothing is saved but when the program
asks, not even when the store is closed); `keep_last = 1` (so many of the newest snapshots stay, and every state since the oldest
of them can be opened); `keep_hourly` and `keep_daily` (the newest of each of that many hours and days stays, too);
`space_wait = 0` (seconds that calls which change pages wait after the disk is found full, `Inf`: as long as it is; after them,
and in a group, they throw); and those of `MMSBState`.

A `PageBusyError` says which process writes the store.
"""
open_store(directory::AbstractString; timeout::Union{Real,Nothing} = nothing, options...) =
    run_work(opening_store(directory; options...), timeout)

open_store(f::Function, directory::AbstractString; options...) = closing(f, open_store(directory; options...))

checkpointing(state, whole) = work_on(state, mmsb_store_save, mmsb_store_save_start, Int32(whole))

"""
    checkpoint!(state; whole = false, timeout = nothing)

Saves into its store what has changed since the last save, and removes what no rule keeps. No change needs that: the journal
has it. It makes the next `open_store` shorter and what was written through `with_page` durable, and its state is one of
`store_points`. `whole`: saves everything, so that no older snapshot is needed. `timeout`: as for `save_snapshot`.
"""
checkpoint!(state::MMSBState; whole::Bool = false, timeout::Union{Real,Nothing} = nothing) =
    run_work(checkpointing(state, whole), timeout)

"""
    async_checkpoint!(state; whole = false, after = Ticket[])::Ticket

Starts `checkpoint!` when the work of the tickets in `after` has succeeded. `progress` counts bytes.
"""
async_checkpoint!(state::MMSBState; whole::Bool = false, after::AbstractVector{Ticket} = Ticket[]) =
    start(checkpointing(state, whole), after)

"A name for the library. A zero byte in it throws an ArgumentError."
function name_text(name::AbstractString)
    text = String(name)
    '\0' in text && throw(ArgumentError("the name $(repr(text)) has a zero byte"))
    return text
end

naming(state, name) = work_on(state, mmsb_store_name, mmsb_store_name_start, name_text(name))

"""
    name!(state, name; timeout = nothing)

`checkpoint!`, and the state gets a name: it stays until `unname!`, and `open_store(directory; at = name)` gives it back. A name
is 1 to 255 bytes of UTF-8 without control characters, and begins with a letter. A state that has the name loses it.
"""
name!(state::MMSBState, name::AbstractString; timeout::Union{Real,Nothing} = nothing) = run_work(naming(state, name), timeout)

"""
    async_name!(state, name; after = Ticket[])::Ticket

Starts `name!` when the work of the tickets in `after` has succeeded. `progress` counts bytes.
"""
async_name!(state::MMSBState, name::AbstractString; after::AbstractVector{Ticket} = Ticket[]) = start(naming(state, name), after)

"""
    unname!(state, name)

Takes a name away; the next save removes the state unless another rule keeps it.
"""
function unname!(state::MMSBState, name::AbstractString)
    call(mmsb_store_unname, state, name_text(name), C_NULL)
    return state
end

waiting_for(state, record) = work_on(state, mmsb_store_wait, mmsb_store_wait_start, UInt64(record))

"""
    wait_record(state, record; timeout = nothing)

Waits until the pages of a state that follows a store (`open_store` with mode `:follow`) are as behind this record of its journal,
or behind a later one. The writer has the number of its last one in `store_info(state).last_record`.
"""
wait_record(state::MMSBState, record::Integer; timeout::Union{Real,Nothing} = nothing) =
    run_work(waiting_for(state, record), timeout)

"""
    async_wait_record(state, record; after = Ticket[])::Ticket

Starts `wait_record` when the work of the tickets in `after` has succeeded.
"""
async_wait_record(state::MMSBState, record::Integer; after::AbstractVector{Ticket} = Ticket[]) =
    start(waiting_for(state, record), after)

seconds_of(nanoseconds) = nanoseconds == 0 ? nothing : nanoseconds / 1e9

"""
    store_info(state) -> (snapshots, snapshot_bytes, …)

What the state's store has, and what was done for it since it was opened, named as in `mmsb_store_info_t`; `last_save`, seconds
since 1970, is `nothing` before the first save, and so is `followed` where the state does not follow a store. `waited` is how many
seconds calls have waited for the disk, all threads together.
"""
function store_info(state::MMSBState)
    record = initialised(mmsb_store_info_t, mmsb_store_info_init)
    call(mmsb_store_info, state, record)
    counters = counters_of(record[], :last_save_ns, :followed_ns, :waited_ns)
    times = (
        last_save = seconds_of(record[].last_save_ns), followed = seconds_of(record[].followed_ns),
        waited = record[].waited_ns / 1e9,
    )
    return merge(counters, times)
end

"""
    store_points(directory) -> [(id, lineage, position, taken, bytes, whole, on_line, leads, name, names), …]

The snapshots of a store, the newest first, those of branches that were left at the end; also while the store has a writer.
`id` and `lineage` (of the state) are hexadecimal; `position` is the number of the last record that the snapshot has, `taken` its
time (seconds since 1970), `bytes` the length of its file, without those that it rests on; `whole`: it rests on none; `on_line`:
the newest state comes from it; `leads`: every state since can be opened; `name` is the first of its names, or `nothing`, and
`names` their number.
"""
function store_points(directory::AbstractString)
    path = path_text(directory)
    return map(point_of, fill_list(mmsb_store_point_t, (list...) -> mmsb_store_points(path, list...)))
end

function point_of(point::mmsb_store_point_t)
    name = text_of(point.name)
    return (
        id = hexadecimal(point.id), lineage = hexadecimal(point.lineage), position = Int(point.position),
        taken = seconds_of(point.taken_ns), bytes = Int(point.bytes), whole = point.whole != 0, on_line = point.on_line != 0,
        leads = point.leads != 0, name = isempty(name) ? nothing : name, names = Int(point.names),
    )
end
