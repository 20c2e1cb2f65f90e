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
    chain_limit = Int32,
    base = String,
    queue = Bool,
    durable = !,    # not_durable in the struct
    watched = !,    # not_watched
)

"The options of a save. The caller keeps the name of the base alive."
function save_options(options)
    record = initialised(mmsb_save_options_t, mmsb_save_options_init)
    return set_options!(record, SAVE_OPTIONS, "saving", options)
end

"A file that is open: the number of its descriptor, or a stream that has one."
const OpenFile = Union{RawFD,IOStream,Base.Filesystem.File}

descriptor(file::RawFD) = reinterpret(Int32, file)
descriptor(file::IOStream) = (flush(file); Int32(fd(file)))
descriptor(file::Base.Filesystem.File) = descriptor(fd(file))

function saving(state::MMSBState, path::AbstractString; base::Union{AbstractString,Nothing} = nothing, options...)
    named = base === nothing ? nothing : path_text(base)
    with_base = named === nothing ? options : pairs(merge(values(options), (base = named,)))
    return Work(;
        blocking = mmsb_snapshot_save,
        starting = mmsb_snapshot_save_start,
        arguments = (handle(state), path_text(path)),
        options = save_options(with_base),
        kept = (state, named),
    )
end

saving(state::MMSBState, file::OpenFile; options...) = Work(;
    blocking = mmsb_snapshot_save_descriptor,
    starting = mmsb_snapshot_save_descriptor_start,
    arguments = (handle(state), descriptor(file)),
    options = save_options(options),
    kept = (state, file),
)

"""
    async_save_snapshot(state, path; after = Ticket[], options...)::Ticket
    async_save_snapshot(state, file; after = Ticket[], options...)::Ticket

Starts `save_snapshot` when the work of the tickets in `after` has succeeded. `progress` counts bytes. Do not close a file before
the work has ended.
"""
async_save_snapshot(state::MMSBState, to::Union{AbstractString,OpenFile}; after::AbstractVector{Ticket} = Ticket[], options...) =
    start(saving(state, to; options...), after)

"""
    save_snapshot(state, path; base = nothing, compression = :none, timeout = nothing, options...)
    save_snapshot(state, file; options...)

Saves all pages, as they are at one moment, to a file that appears when it is complete and on disk; other tasks run meanwhile.
With `base`, an earlier snapshot of this state in the same folder, only changes since then are written. Where `path` is a file
that the base rests on, everything is written; `base_in_use = :refuse` throws a `PageBusyError` then, and also where another
snapshot rests on the file at `path`, which otherwise is kept under another name.

The form with `file`, an open file or a `RawFD`, writes from its current position on, without a base; what a save that fails has
written there no load takes.

What tasks write into arrays of `with_page(f, page; write = true)`, or to addresses within `writing`, is part of the one moment
with `raw_writes = :wait`: the save begins when none of them does. With `:allow`, the default, such a page is saved as it is when
the save reaches it; `:refuse` throws a `PageBusyError` if there is one.

`timeout`: after that many seconds the save is stopped with a `WaitTimeoutError`, and nothing is saved; 0 tries: what would have
to wait, or is more than one step of work, throws. An InterruptException (Ctrl-C) stops it, too.

The other options: `compression` (`:none` or `:zstd`), `compression_level` (1 to 4, 0 = the default), `queue = true` (wait until
the saves and loads that came before have ended, instead of a `PageBusyError`), `durable = false` (do not wait for the disk),
`watched = false` (the last save of this state: the kernel does not begin to watch its pages for incremental ones), `copy_limit`
(bytes for pre-images that writers copy during the save, 0 = 256 MiB), `chain_limit` (files of a chain, 0 = 64, at
most 4096: everything is written if it would be one more).
"""
save_snapshot(
    state::MMSBState, to::Union{AbstractString,OpenFile};
    raw_writes::Symbol = :allow, timeout::Union{Real,Nothing} = nothing, options...,
) = run_save(state, saving(state, to; raw_writes = raw_writes, options...), raw_writes, timeout)

function run_save(state, work, raw_writes, timeout)
    waits = raw_writes === :wait
    waits && task_writes(state) && reject(
        MMSB_E_INVALID_STATE,
        "the task is in writing or holds an array of with_page: the save would wait for it",
    )
    return run_work(work, timeout; tries = !waits)    # the blocking form would wait for writers, also with timeout 0
end

"""
    get_save_statistics(state)::Dict{Symbol,Int}

Counters of the state's saves, named as in `mmsb_save_stats_t`.
"""
function get_save_statistics(state::MMSBState)
    stats = initialised(mmsb_save_stats_t, mmsb_save_stats_init)
    call(mmsb_context_save_stats, state, stats)
    return Dict(pairs(counters_of(stats[])))
end

"A snapshot in memory of the library, which is freed with this object at the latest."
mutable struct SavedBytes
    memory::Base.RefValue{Ptr{Cvoid}}
    length::Base.RefValue{UInt64}
    bytes::Union{Vector{UInt8},Nothing}

    SavedBytes() = finalizer(free_saved, new(Ref{Ptr{Cvoid}}(C_NULL), Ref{UInt64}(0), nothing))
end

function free_saved(saved::SavedBytes)
    memory, saved.memory[] = saved.memory[], C_NULL
    return mmsb_snapshot_free_memory(memory)
end

"The snapshot; the first call frees the memory."
function saved_bytes(saved::SavedBytes)
    if saved.bytes === nothing
        saved.bytes = copy(unsafe_wrap(Array, convert(Ptr{UInt8}, saved.memory[]), Int(saved.length[]); own = false))
        free_saved(saved)
    end
    return saved.bytes
end

function saving_bytes(state::MMSBState; options...)
    saved = SavedBytes()
    return Work(;
        blocking = mmsb_snapshot_save_memory,
        starting = mmsb_snapshot_save_memory_start,
        arguments = (handle(state),),
        options = save_options(options),
        results = (saved.memory, saved.length),
        kept = (state, saved),
        result = () -> saved_bytes(saved),
    )
end

"""
    async_save_bytes(state; after = Ticket[], options...)::Ticket

Starts `save_bytes` when the work of the tickets in `after` has succeeded. `progress` counts bytes; `fetch` returns the snapshot.
"""
async_save_bytes(state::MMSBState; after::AbstractVector{Ticket} = Ticket[], options...) =
    start(saving_bytes(state; options...), after)

"""
    save_bytes(state; timeout = nothing, options...)::Vector{UInt8}

Saves a snapshot into memory. The options are those of `save_snapshot`, but for `base`.
"""
save_bytes(state::MMSBState; raw_writes::Symbol = :allow, timeout::Union{Real,Nothing} = nothing, options...) =
    run_save(state, saving_bytes(state; raw_writes = raw_writes, options...), raw_writes, timeout)

# Loading.

"The options of a load, and what they point to."
function load_options(;
    ids::Union{AbstractVector,Nothing} = nothing,
    lazy::Bool = false,
    in_place::Bool = false,
    journal::Union{AbstractString,Nothing} = nothing,
    until::Union{Integer,Nothing} = nothing,
    until_time::Union{Real,Nothing} = nothing,
    until_epoch::Union{Pair,Nothing} = nothing,
    to_host::Bool = false,
    snapshot_id::Union{AbstractString,Nothing} = nothing,
)
    lazy && in_place && throw(ArgumentError("lazy and in_place exclude each other"))
    record = initialised(mmsb_load_options_t, mmsb_load_options_init)
    chosen = ids === nothing ? nothing : UInt64[page_id(id) for id in ids]
    folder = journal === nothing ? nothing : path_text(journal)
    change!(; fields...) = record[] = with_fields(record[], values(fields))
    change!(; to_host = Int32(to_host))
    snapshot_id === nothing || change!(; snapshot_id = id_bytes(snapshot_id))
    change!(; mode = in_place ? MMSB_LOAD_IN_PLACE : lazy ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER)
    chosen === nothing || change!(; page_ids = list_pointer(chosen), page_count = UInt64(length(chosen)))
    folder === nothing || change!(; journal = text_pointer(folder))
    until === nothing || change!(; journal_until = record_number(until))
    until_time === nothing || change!(; journal_until_time_ns = nanoseconds_since_1970(until_time))
    until_epoch === nothing || change!(; page_and_epoch(until_epoch)...)
    return record, (chosen, folder)
end

"A load from a source, whose arguments follow the state's handle."
function loading(blocking, starting, state, source, kept, options)
    record, named = load_options(; options...)
    return Work(;
        blocking = blocking,
        starting = starting,
        arguments = (handle(state), source...),
        options = record,
        kept = (state, kept, named),
        result = () -> (drop_released_arrays(); state),
    )
end

restoring(state::MMSBState, path::AbstractString; options...) =
    loading(mmsb_snapshot_load, mmsb_snapshot_load_start, state, (path_text(path),), nothing, options)

restoring(state::MMSBState, file::OpenFile; ids::Union{AbstractVector,Nothing} = nothing, lazy::Bool = false) = loading(
    mmsb_snapshot_load_descriptor, mmsb_snapshot_load_descriptor_start, state, (descriptor(file),), file,
    (ids = ids, lazy = lazy),
)

function restoring(state::MMSBState, bytes::AbstractVector{UInt8}; ids::Union{AbstractVector,Nothing} = nothing)
    source = contiguous(bytes)
    from = (pointer(source), length(source))
    return loading(mmsb_snapshot_load_memory, mmsb_snapshot_load_memory_start, state, from, source, (ids = ids,))
end

"""
    async_restore!(state, path; after = Ticket[], options...)::Ticket
    async_restore!(state; journal, after = Ticket[], options...)::Ticket
    async_restore!(state, file; after = Ticket[], options...)::Ticket

Starts `restore!` when the work of the tickets in `after` has succeeded. `progress` counts bytes. Do not close a file before the
work has ended.
"""
async_restore!(
    state::MMSBState, from::Union{AbstractString,OpenFile} = ""; after::AbstractVector{Ticket} = Ticket[], options...,
) = start(restoring(state, from; options...), after)

"""
    async_restore_bytes!(state, bytes; ids = nothing, after = Ticket[])::Ticket

Starts `restore_bytes!` when the work of the tickets in `after` has succeeded. `progress` counts bytes. Do not change the bytes
before the work has ended.
"""
async_restore_bytes!(state::MMSBState, bytes::AbstractVector{UInt8}; after::AbstractVector{Ticket} = Ticket[], options...) =
    start(restoring(state, bytes; options...), after)

"""
    restore_bytes!(state, bytes; ids = nothing, timeout = nothing)

`restore!` from the bytes of a snapshot, as `save_bytes` returns them.
"""
restore_bytes!(state::MMSBState, bytes::AbstractVector{UInt8}; timeout::Union{Real,Nothing} = nothing, options...) =
    run_work(restoring(state, bytes; options...), timeout)

record_number(number) = number < 1 ? throw(ArgumentError("until is $number; the first record has the number 1")) : UInt64(number)

function page_and_epoch((page, epoch))
    id = page_id(page)
    id < 1 && throw(ArgumentError("until_epoch has page $id; the smallest id is 1"))
    epoch < 1 && throw(ArgumentError("until_epoch has epoch $epoch; the smallest epoch is 1"))
    return (journal_page = UInt64(id), journal_epoch = UInt64(epoch))
end

"Nanoseconds since 1970. Never 0, which means no limit."
nanoseconds_since_1970(seconds) = (time = floor(Int64, seconds * 1e9); time == 0 ? 1 : time)

"The 16 bytes of a snapshot's id, as `Snapshot.id` has it."
function id_bytes(id::AbstractString)
    occursin(r"^[0-9a-fA-F]{32}$", id) || throw(ArgumentError("snapshot_id is $(repr(id)); it has 32 hexadecimal digits"))
    return Tuple(hex2bytes(id))
end

"The address of a list, not NULL even if it is empty: NULL means that there is no list."
list_pointer(list::Vector{UInt64}) = isempty(list) ? Ptr{UInt64}(sizeof(UInt64)) : pointer(list)

"""
    restore!(
        state, path; ids = nothing, lazy = false, in_place = false, journal = nothing, until = nothing,
        until_time = nothing, until_epoch = nothing, to_host = false, snapshot_id = nothing, timeout = nothing,
    )
    restore!(state; journal, options...)
    restore!(state, file; ids = nothing, lazy = false, timeout = nothing)

Sets the state to that of a snapshot, or throws and changes nothing. `Page` objects of replaced pages are stale afterwards. With
`ids`, which may be pages, only these are replaced or added. `lazy`: the bytes of large pages are read when a call first needs
them. `in_place`: needs no memory for both states; everything is verified first, and read when the replaced pages have ended,
into adopted memory straight from the file.
`journal`: folder of a journal; its records after the snapshot are applied. `until`: number of the last record to apply.
`until_time`: later records are not applied (seconds since 1970, as from `time()`). `until_epoch` (`id => epoch`): the first
record that moves that page's epoch beyond this one ends the replay. `to_host`: pages that the snapshot has on devices, or in
pinned or managed memory, come to the CPU. `snapshot_id`: the `id` that the `Snapshot` must have, as the file may have been
replaced since it was looked at.

The form without `path` takes the state from the journal's folder alone. The form with `file`, an open file or a `RawFD`, reads
from its descriptor's current position to its end. After `timeout` seconds the load is stopped with a `WaitTimeoutError`; 0 tries,
as with `save_snapshot`. An InterruptException (Ctrl-C) stops it, too.
"""
restore!(
    state::MMSBState, from::Union{AbstractString,OpenFile} = ""; timeout::Union{Real,Nothing} = nothing, options...,
) = run_work(restoring(state, from; options...), timeout)

"""
    load_snapshot(path; options...)::MMSBState
    load_snapshot(; journal, options...)::MMSBState
    load_snapshot(file; options...)::MMSBState

Creates a state with the pages of a snapshot, or of a journal. The options are those of `restore!` and of `MMSBState`.
"""
function load_snapshot(from::Union{AbstractString,OpenFile} = ""; options...)
    of_state(name) = haskey(STATE_OPTIONS, name)
    state = MMSBState(; (name => value for (name, value) in options if of_state(name))...)
    try
        return restore!(state, from; (name => value for (name, value) in options if !of_state(name))...)
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
`snapshot[id]` or `snapshot[page]` is a page, `get_pages(snapshot)` returns all; `length` and `haskey` work. Its properties: `id`
and `base` (hexadecimal; `base` is `nothing` if the snapshot is whole), `taken` (seconds since 1970, or `nothing`), `format`
(version of the file), `chain` (number of files that the state comes from), `lineage` and `position` (the name of the state:
`position` is the number of the last journal record that it contains) and `parent` (the state behind which the lineage begins, or
`nothing`).
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

function snapshot_metadata(page::SnapshotPage)
    blob = fill_list(UInt8, (snapshot, blob, capacity, length) ->
        mmsb_snapshot_metadata(snapshot, page.id, blob, capacity, length), page)
    return Dict{Symbol,Any}(shown_entries(read_entries(blob)))
end

"The status of the lookup of a page, and the record found."
function look_up(snapshot::Snapshot, page)
    id = page_id(page)
    record = Ref{mmsb_snapshot_page_t}()
    status = id < 0 ? MMSB_E_NOT_FOUND : GC.@preserve snapshot mmsb_snapshot_find(handle(snapshot), id, record)
    return status, record[]
end

function Base.getindex(snapshot::Snapshot, id::Union{Integer,Page})
    status, record = look_up(snapshot, id)
    status == MMSB_E_NOT_FOUND && throw(PageNotFoundError(status, "the snapshot has no page with id $(page_id(id))"))
    check(status)
    return SnapshotPage(snapshot, record)
end

function Base.haskey(snapshot::Snapshot, id::Union{Integer,Page})
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

verifying(path) = Work(;
    blocking = mmsb_snapshot_verify,
    starting = mmsb_snapshot_verify_start,
    arguments = (path_text(path),),
    kept = nothing,
)

"""
    async_verify_snapshot(path; after = Ticket[])::Ticket

Starts `verify_snapshot` when the work of the tickets in `after` has succeeded. `progress` counts bytes.
"""
async_verify_snapshot(path::AbstractString; after::AbstractVector{Ticket} = Ticket[]) = start(verifying(path), after)

"""
    verify_snapshot(path; timeout = nothing)

Reads a snapshot and its bases and checks every checksum and length; throws the error of the first damage. `timeout`: as for
`save_snapshot`.
"""
verify_snapshot(path::AbstractString; timeout::Union{Real,Nothing} = nothing) = run_work(verifying(path), timeout)

compacting(path, to; durable::Bool = true) = Work(;
    blocking = mmsb_snapshot_compact,
    starting = mmsb_snapshot_compact_start,
    arguments = (path_text(path), path_text(to)),
    options = save_options(pairs((durable = durable,))),
    kept = nothing,
)

"""
    async_compact_snapshot(path, to; durable = true, after = Ticket[])::Ticket

Starts `compact_snapshot` when the work of the tickets in `after` has succeeded. `progress` counts bytes.
"""
async_compact_snapshot(
    path::AbstractString, to::AbstractString; after::AbstractVector{Ticket} = Ticket[], options...,
) = start(compacting(path, to; options...), after)

"""
    compact_snapshot(path, to; durable = true, timeout = nothing)

Writes the state of a snapshot and its bases to one whole snapshot. `timeout`: as for `save_snapshot`.
"""
compact_snapshot(path::AbstractString, to::AbstractString; timeout::Union{Real,Nothing} = nothing, options...) =
    run_work(compacting(path, to; options...), timeout)

const CHANGES = Dict(
    MMSB_CHANGE_ADDED => :added, MMSB_CHANGE_REMOVED => :removed, MMSB_CHANGE_BYTES => :bytes, MMSB_CHANGE_OTHER => :other,
)

function comparing(older, newer)
    list = Vector{mmsb_snapshot_change_t}(undef, length(older) + length(newer))    # as many as there can be
    count = Ref{Csize_t}(0)
    return Work(;
        blocking = mmsb_snapshot_diff,
        starting = mmsb_snapshot_diff_start,
        arguments = (handle(older), handle(newer)),
        results = (list, length(list), count),
        kept = (older, newer),
        result = () -> Pair{PageID,Symbol}[change.id => CHANGES[change.change] for change in view(list, 1:Int(count[]))],
    )
end

"""
    async_diff_snapshots(older, newer; after = Ticket[])::Ticket

Starts `diff_snapshots` when the work of the tickets in `after` has succeeded. `progress` counts pages.
"""
async_diff_snapshots(older::Snapshot, newer::Snapshot; after::AbstractVector{Ticket} = Ticket[]) =
    start(comparing(older, newer), after)

"""
    diff_snapshots(older, newer; timeout = nothing)::Vector{Pair{PageID,Symbol}}

The pages that differ between two snapshots, in ascending order of ids, each with `:added`, `:removed`, `:bytes` (size or bytes
differ, perhaps more) or `:other` (the bytes are equal, other properties differ). `timeout`: as for `save_snapshot`.
"""
diff_snapshots(older::Snapshot, newer::Snapshot; timeout::Union{Real,Nothing} = nothing) =
    run_work(comparing(older, newer), timeout)
