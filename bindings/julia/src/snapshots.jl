# Snapshots: save, load, and read without a state.

"A path for the library. A zero byte in it throws an ArgumentError."
function path_text(path::AbstractString)
    text = String(path)
    '\0' in text && throw(ArgumentError("the path $(repr(text)) has a zero byte"))
    return text
end

# Saving.

# As STATE_OPTIONS.
const SAVE_OPTIONS = (
    compression = (none = MMSB_COMPRESSION_NONE, zstd = MMSB_COMPRESSION_ZSTD),
    raw_writes = (allow = MMSB_RAW_WRITES_ALLOW, refuse = MMSB_RAW_WRITES_REFUSE, wait = MMSB_RAW_WRITES_WAIT),
    base_in_use = (whole = MMSB_BASE_IN_USE_WHOLE, refuse = MMSB_BASE_IN_USE_REFUSE),
    compression_level = Int32,
    copy_limit = UInt64,
    base = String,
    queue = Bool,
    durable = !,    # not_durable in the struct
)

"The options of a save. The caller keeps the name of the base alive."
function save_options(options)
    record = initialised(mmsb_save_options_t, mmsb_save_options_init)
    return set_options!(record, SAVE_OPTIONS, "saving", options)
end

"""
    async_save_snapshot(state, path; after = Ticket[], options...)::Ticket

Starts `save_snapshot` when the work of the tickets in `after` has succeeded. `progress` counts bytes.
"""
function async_save_snapshot(
    state::MMSBState,
    path::AbstractString;
    base::Union{AbstractString,Nothing} = nothing,
    after::AbstractVector{Ticket} = Ticket[],
    options...,
)
    named = base === nothing ? nothing : path_text(base)
    with_base = named === nothing ? options : merge(values(options), (base = named,))
    ticket = GC.@preserve named with_work(after) do work
        fill_reference(mmsb_ticket_t, mmsb_snapshot_save_start, state, path_text(path), save_options(pairs(with_base)), work)
    end
    return keep_while_running(Ticket(ticket, state, () -> nothing))
end

"""
    save_snapshot(state, path; base = nothing, compression = :none, options...)

Saves all pages, as they are at one moment, to a file that appears when it is complete and on disk; other tasks run meanwhile.
With `base`, an earlier snapshot of this state in the same folder, only changes since then are written. Where `path` is a file
that the base rests on, everything is written; `base_in_use = :refuse` throws a `PageBusyError` then, and also where another
snapshot rests on the file at `path`, which otherwise is kept under another name.

What tasks write into arrays of `with_page(f, page; write = true)`, or to addresses within `writing`, is part of the one moment
with `raw_writes = :wait`: the save begins when none of them does. With `:allow`, the default, such a page is saved as it is when
the save reaches it; `:refuse` throws a `PageBusyError` if there is one.

The other options: `compression` (`:none` or `:zstd`), `compression_level` (1 to 4, 0 = the default), `queue = true` (wait until
the saves and loads that came before have ended, instead of a `PageBusyError`), `durable = false` (do not wait for the disk),
`copy_limit` (bytes for pre-images that writers copy during the save, 0 = 256 MiB).
"""
function save_snapshot(state::MMSBState, path::AbstractString; raw_writes::Symbol = :allow, options...)
    raw_writes === :wait && task_writes(state) && reject(
        MMSB_E_INVALID_STATE,
        "the task is in writing or holds an array of with_page: the save would wait for it",
    )
    return finish_work(async_save_snapshot(state, path; raw_writes = raw_writes, options...))
end

"""
    get_save_statistics(state)::Dict{Symbol,Int}

Counters of the state's saves, named as in `mmsb_save_stats_t`.
"""
function get_save_statistics(state::MMSBState)
    stats = initialised(mmsb_save_stats_t, mmsb_save_stats_init)
    call(mmsb_context_save_stats, state, stats)
    counters = filter(name -> !(name in (:struct_size, :reserved_word, :reserved)), fieldnames(mmsb_save_stats_t))
    return Dict{Symbol,Int}(name => getfield(stats[], name) for name in counters)
end

"""
    save_bytes(state; options...)::Vector{UInt8}

Saves a snapshot into memory. The options are those of `save_snapshot`, but for `base`.
"""
function save_bytes(state::MMSBState; options...)
    memory, length = Ref{Ptr{Cvoid}}(C_NULL), Ref{UInt64}(0)
    ticket = with_work(Ticket[]) do work
        fill_reference(mmsb_ticket_t, mmsb_snapshot_save_memory_start, state, save_options(options), work, memory, length)
    end
    finish_work(keep_while_running(Ticket(ticket, state, () -> (memory, length))))
    try
        return copy(unsafe_wrap(Array, convert(Ptr{UInt8}, memory[]), Int(length[]); own = false))
    finally
        check(mmsb_snapshot_free_memory(memory[]))
    end
end

# Loading.

"""
    async_restore!(state, path; after = Ticket[], options...)::Ticket

Starts `restore!` when the work of the tickets in `after` has succeeded. `progress` counts bytes.
"""
function async_restore!(
    state::MMSBState,
    path::AbstractString;
    ids::Union{AbstractVector,Nothing} = nothing,
    lazy::Bool = false,
    in_place::Bool = false,
    journal::Union{AbstractString,Nothing} = nothing,
    until::Union{Integer,Nothing} = nothing,
    until_time::Union{Real,Nothing} = nothing,
    until_epoch::Union{Pair,Nothing} = nothing,
    after::AbstractVector{Ticket} = Ticket[],
)
    lazy && in_place && throw(ArgumentError("lazy and in_place exclude each other"))
    record = initialised(mmsb_load_options_t, mmsb_load_options_init)
    chosen = ids === nothing ? nothing : Vector{UInt64}(ids)
    folder = journal === nothing ? nothing : path_text(journal)
    ticket = GC.@preserve chosen folder begin
        record[] = with_fields(record[], (mode = in_place ? MMSB_LOAD_IN_PLACE : lazy ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER,))
        chosen === nothing ||
            (record[] = with_fields(record[], (page_ids = list_pointer(chosen), page_count = UInt64(length(chosen)))))
        folder === nothing || (record[] = with_fields(record[], (journal = text_pointer(folder),)))
        until === nothing || (record[] = with_fields(record[], (journal_until = record_number(until),)))
        until_time === nothing ||
            (record[] = with_fields(record[], (journal_until_time_ns = nanoseconds_since_1970(until_time),)))
        until_epoch === nothing || (record[] = with_fields(record[], page_and_epoch(until_epoch)))
        with_work(after) do work
            fill_reference(mmsb_ticket_t, mmsb_snapshot_load_start, state, path_text(path), record, work)
        end
    end
    return keep_while_running(Ticket(ticket, state, () -> (drop_released_arrays(); state)))
end

"""
    restore_bytes!(state, bytes; ids = nothing)

`restore!` from the bytes of a snapshot, as `save_bytes` returns them.
"""
function restore_bytes!(state::MMSBState, bytes::AbstractVector{UInt8}; ids::Union{AbstractVector,Nothing} = nothing)
    record = initialised(mmsb_load_options_t, mmsb_load_options_init)
    source = contiguous(bytes)
    chosen = ids === nothing ? nothing : Vector{UInt64}(ids)
    GC.@preserve chosen source begin
        chosen === nothing ||
            (record[] = with_fields(record[], (page_ids = list_pointer(chosen), page_count = UInt64(length(chosen)))))
        call(mmsb_snapshot_load_memory, state, pointer(source), length(source), record)
    end
    drop_released_arrays()
    return state
end

record_number(number) = number < 1 ? throw(ArgumentError("until is $number; the first record has the number 1")) : UInt64(number)

function page_and_epoch((page, epoch))
    page < 1 && throw(ArgumentError("until_epoch has page $page; the smallest id is 1"))
    epoch < 1 && throw(ArgumentError("until_epoch has epoch $epoch; the smallest epoch is 1"))
    return (journal_page = UInt64(page), journal_epoch = UInt64(epoch))
end

"Nanoseconds since 1970. Never 0, which means no limit."
nanoseconds_since_1970(seconds) = (time = floor(Int64, seconds * 1e9); time == 0 ? 1 : time)

"The address of a list, not NULL even if it is empty: NULL means that there is no list."
list_pointer(list::Vector{UInt64}) = isempty(list) ? Ptr{UInt64}(sizeof(UInt64)) : pointer(list)

"""
    restore!(
        state, path; ids = nothing, lazy = false, in_place = false, journal = nothing, until = nothing,
        until_time = nothing, until_epoch = nothing,
    )

Sets the state to that of a snapshot, or throws and changes nothing. `Page` objects of replaced pages are stale afterwards. With
`ids` only these pages are replaced or added. `lazy`: the bytes of large pages are read when a call first needs them. `in_place`:
needs no memory for both states; everything is verified first, and read when the replaced pages have ended. `journal`:
folder of a journal; its records after the snapshot are applied. `until`: number of the last record to apply. `until_time`: later
records are not applied (seconds since 1970, as from `time()`). `until_epoch` (`id => epoch`): the first record that moves that
page's epoch beyond this one ends the replay.
"""
restore!(state::MMSBState, path::AbstractString; options...) = finish_work(async_restore!(state, path; options...))

"""
    load_snapshot(path; options...)::MMSBState

Creates a state with the pages of a snapshot. The options are those of `restore!` and of `MMSBState`.
"""
function load_snapshot(
    path::AbstractString; ids = nothing, lazy = false, journal = nothing, until = nothing, until_time = nothing,
    until_epoch = nothing, options...,
)
    state = MMSBState(; options...)
    try
        return restore!(
            state, path; ids = ids, lazy = lazy, journal = journal, until = until, until_time = until_time,
            until_epoch = until_epoch,
        )
    catch
        close(state)
        rethrow()
    end
end

# Reading files.

"""
    Snapshot(path)
    Snapshot(f, path)

A snapshot file and its chain of bases, open for reading until `close`; the form with `f` closes it after `f(snapshot)`.
`snapshot[id]` is a page, `get_pages(snapshot)` returns all; `length` and `haskey` work. Its properties: `id` and `base`
(hexadecimal; `base` is `nothing` if the snapshot is whole), `taken` (seconds since 1970, or `nothing`), `format` (version of the
file), `chain` (number of files that the state comes from), `journal` (number of the last journal record that it contains).
"""
mutable struct Snapshot
    handle::Threads.Atomic{UInt64}    # 0 once it is closed
    info::mmsb_snapshot_info_t
    views::Int                        # running calls of with_page
    lock::ReentrantLock               # for views

    function Snapshot(path::AbstractString)
        opened = Ref{mmsb_snapshot_t}(0)
        check(mmsb_snapshot_open(path_text(path), opened))
        info = initialised(mmsb_snapshot_info_t, mmsb_snapshot_info_init)
        check(mmsb_snapshot_info(opened[], info))
        return finalizer(close_snapshot, new(Threads.Atomic{UInt64}(opened[]), info[], 0, ReentrantLock()))
    end
end

Snapshot(f::Function, path::AbstractString) = closing(f, Snapshot(path))

close_snapshot(snapshot) = mmsb_snapshot_close(Threads.atomic_xchg!(getfield(snapshot, :handle), UInt64(0)))

function handle(snapshot::Snapshot)
    value = getfield(snapshot, :handle)[]
    value == 0 && reject(MMSB_E_STALE_HANDLE, "the snapshot is closed")
    return value
end

owner(snapshot::Snapshot) = snapshot

function Base.close(snapshot::Snapshot)
    lock(getfield(snapshot, :lock)) do
        getfield(snapshot, :views) == 0 || reject(MMSB_E_BUSY, "a call of with_page uses a page of the snapshot")
        check(close_snapshot(snapshot))
    end
end

Base.isopen(snapshot::Snapshot) = getfield(snapshot, :handle)[] != 0
Base.length(snapshot::Snapshot) = Int(getfield(snapshot, :info).pages)
Base.show(io::IO, snapshot::Snapshot) = print(io, "Snapshot(", snapshot.id, ", ", length(snapshot), " pages)")

hexadecimal(id::NTuple{16,UInt8}) = bytes2hex(collect(id))

Base.propertynames(::Snapshot, private::Bool = false) = (:id, :base, :taken, :format, :chain, :position, :lineage, :parent)

function Base.getproperty(snapshot::Snapshot, name::Symbol)
    info = getfield(snapshot, :info)
    return name === :id ? hexadecimal(info.id) :
        name === :base ? (all(iszero, info.base) ? nothing : hexadecimal(info.base)) :
        name === :taken ? (info.taken_ns == 0 ? nothing : info.taken_ns / 1e9) :
        name === :format ? Int(info.format) :
        name === :chain ? Int(info.chain) :
        name === :position ? Int(info.position) :
        name === :lineage ? (all(iszero, info.lineage) ? nothing : hexadecimal(info.lineage)) :
        name === :parent ? (all(iszero, info.parent) ? nothing : (hexadecimal(info.parent), Int(info.fork))) :
        throw(ArgumentError("a snapshot has no property $name"))
end

"""
    SnapshotPage

A page of a snapshot, with the properties `id`, `size`, `location`, `device`, `epoch`, `version` and `metadata`. `read_page`
returns its bytes.
"""
struct SnapshotPage
    snapshot::Snapshot
    record::mmsb_snapshot_page_t
end

owner(page::SnapshotPage) = getfield(page, :snapshot)
handle(page::SnapshotPage) = handle(owner(page))

Base.propertynames(::SnapshotPage, private::Bool = false) = (:id, :size, :location, :device, :epoch, :version, :metadata)

function Base.getproperty(page::SnapshotPage, name::Symbol)
    record = getfield(page, :record)
    return name === :id ? record.id :
        name === :size ? Int(record.size) :
        name === :location ? PageLocation(record.location) :
        name === :device ? Int(record.device) :
        name === :epoch ? record.epoch :
        name === :version ? record.version :
        name === :metadata ? snapshot_metadata(page) :
        throw(ArgumentError("a page of a snapshot has no property $name"))
end

Base.show(io::IO, page::SnapshotPage) = print(io, "SnapshotPage(id = ", page.id, ")")

snapshot_metadata(page::SnapshotPage) = Dict{Symbol,Any}(
    read_entries(
        fill_list(UInt8, (snapshot, blob, capacity, length) ->
            mmsb_snapshot_metadata(snapshot, page.id, blob, capacity, length), page),
    ),
)

"The status of the lookup of a page, and the record found."
function look_up(snapshot::Snapshot, id::Integer)
    record = Ref{mmsb_snapshot_page_t}()
    status = id < 0 ? MMSB_E_NOT_FOUND : GC.@preserve snapshot mmsb_snapshot_find(handle(snapshot), id, record)
    return status, record[]
end

function Base.getindex(snapshot::Snapshot, id::Integer)
    status, record = look_up(snapshot, id)
    status == MMSB_E_NOT_FOUND && throw(PageNotFoundError(status, "the snapshot has no page with id $id"))
    check(status)
    return SnapshotPage(snapshot, record)
end

function Base.haskey(snapshot::Snapshot, id::Integer)
    status, _ = look_up(snapshot, id)
    status == MMSB_E_NOT_FOUND && return false
    check(status)
    return true
end

"""
    get_pages(snapshot)::Vector{SnapshotPage}

All pages of a snapshot, in the order of the files.
"""
function get_pages(snapshot::Snapshot)
    pages = SnapshotPage[]
    cursor = Ref{UInt64}(0)
    records = Vector{mmsb_snapshot_page_t}(undef, 256)
    count = Ref{Csize_t}(0)
    while true
        call(mmsb_snapshot_pages, snapshot, cursor, records, length(records), count)
        count[] == 0 && return pages
        append!(pages, (SnapshotPage(snapshot, record) for record in view(records, 1:Int(count[]))))
    end
end

"""
    read_page(page::SnapshotPage[, range])::Vector{UInt8}

A copy of the page's bytes, with verified checksums: all, or those at the positions of the range, which count from 1.
"""
read_page(page::SnapshotPage) = read_page(page, 1:page.size)

function read_page(page::SnapshotPage, range::AbstractUnitRange{<:Integer})
    offset = page_offset(first(range))
    last(range) > page.size && reject(MMSB_E_OUT_OF_RANGE, "positions $range reach past the page's $(page.size) bytes")
    bytes = Vector{UInt8}(undef, length(range))
    call(mmsb_snapshot_read, page, page.id, offset, bytes, length(bytes))
    return bytes
end

"""
    with_page(f, page::SnapshotPage)

Calls `f(bytes)` with the page's verified bytes in the mapped file and returns the result of `f`. Do not write to `bytes`, and do
not use it after `f` returns. Throws an `UnsupportedLocationError` if the page is compressed or not contiguous in the file.
"""
function with_page(f, page::SnapshotPage)
    snapshot = owner(page)
    change_views!(snapshot, 1)
    try
        address, size = Ref{Ptr{Cvoid}}(), Ref{UInt64}(0)
        call(mmsb_snapshot_view, page, page.id, address, size)
        return f(unsafe_wrap(Array, convert(Ptr{UInt8}, address[]), Int(size[]); own = false))
    finally
        change_views!(snapshot, -1)
    end
end

change_views!(snapshot, by) =
    lock(() -> setfield!(snapshot, :views, getfield(snapshot, :views) + by), getfield(snapshot, :lock))

# Whole files.

"""
    verify_snapshot(path)

Reads a snapshot and its bases and checks every checksum and length; throws the error of the first damage.
"""
verify_snapshot(path::AbstractString) = check(mmsb_snapshot_verify(path_text(path), C_NULL))

"""
    compact_snapshot(path, to; durable = true)

Writes the state of a snapshot and its bases to one whole snapshot.
"""
compact_snapshot(path::AbstractString, to::AbstractString; durable::Bool = true) =
    check(mmsb_snapshot_compact(path_text(path), path_text(to), save_options((durable = durable,) |> pairs)))

const CHANGES = Dict(
    MMSB_CHANGE_ADDED => :added, MMSB_CHANGE_REMOVED => :removed, MMSB_CHANGE_BYTES => :bytes, MMSB_CHANGE_OTHER => :other,
)

"""
    diff_snapshots(older, newer)::Vector{Pair{PageID,Symbol}}

The pages that differ between two snapshots, in ascending order of ids, each with `:added`, `:removed`, `:bytes` (size or bytes
differ, perhaps more) or `:other` (the bytes are equal, other properties differ).
"""
function diff_snapshots(older::Snapshot, newer::Snapshot)
    changes = GC.@preserve newer fill_list(
        mmsb_snapshot_change_t,
        (first, list, capacity, count) -> mmsb_snapshot_diff(first, handle(newer), C_NULL, list, capacity, count),
        older,
    )
    return Pair{PageID,Symbol}[change.id => CHANGES[change.change] for change in changes]
end
