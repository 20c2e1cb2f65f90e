# Snapshots: saved, restored, read without a state.

# Pages of all sizes with bytes, metadata, masks and dependencies.
function fill_state!(state)
    before = nothing
    for (seed, size) in enumerate((1, 100, 4096, 5000, 300_000, 1_000_003))
        page = create_page!(state, size; metadata = Dict(:name => "page $seed", :blob => UInt8[0xff, seed]))
        write_page!(page, saved_pattern(seed, size))
        apply_delta!(page, [size], [0x21])
        before === nothing || add_dependency!(state, before, page)
        before = page
    end
    return state
end

all_of(page) = (read_page(page), page.epoch, page.size, page.location, Dict(page.metadata))
all_of(state::MMSBState) =
    Dict(page.id => (all_of(page), [child.id for child in get_children(page)]) for page in get_pages(state))

@testset "save_snapshot and load_snapshot" begin
    limited = (compression = :zstd, compression_level = 1, durable = false, watched = false, copy_limit = 1 << 23)
    for options in ((), (compression = :zstd,), limited)
        path = joinpath(mktempdir(), "state.mmsb")
        MMSBState() do state
            fill_state!(state)
            @test save_snapshot(state, path; options...) === nothing
            restored = load_snapshot(path; memory_limit = 1 << 26)
            @test restored isa MMSBState
            @test all_of(restored) == all_of(state)
            close(restored)
            @test readdir(dirname(path)) == ["state.mmsb"]
            @test get_save_statistics(state)[:saves] == 1
            @test get_save_statistics(state)[:last_bytes] == filesize(path)
        end
    end
end

@testset "restore! replaces the living pages" begin
    path = joinpath(mktempdir(), "state.mmsb")
    MMSBState() do state
        fill_state!(state)
        before = all_of(state)
        save_snapshot(state, path)
        old = get_pages(state)
        write_page!(old[2], [0x00])
        delete_page!(state, old[3])
        create_page!(state, 7)
        @test restore!(state, path) === state
        @test all_of(state) == before
        @test fails(() -> read_page(old[1]), StaleHandleError, 12)
        ids = sort([page.id for page in get_pages(state)])
        foreach(page -> write_page!(page, [0x00]), get_pages(state))
        restore!(state, path; ids = ids[2:2])
        @test all_of(get_page(state, ids[2])) == before[ids[2]][1]
        @test read_page(get_page(state, ids[1]))[1] == 0x00
        changed = all_of(state)
        restore!(state, path; ids = UInt64[])
        @test fails(() -> restore!(state, path; ids = [typemax(UInt32)]), MMSBError, 20)
        id = Snapshot(snapshot -> snapshot.id, path)
        restore!(state, path; ids = UInt64[], snapshot_id = id)
        @test fails(() -> restore!(state, path; snapshot_id = reverse(id)), MismatchError, 17)
        @test_throws ArgumentError restore!(state, path; snapshot_id = "12")
        @test all_of(state) == changed
        page = get_page(state, ids[4])
        with_page(page; write = true) do bytes
            @test fails(() -> restore!(state, path), PageBusyError, 22)
        end
        restore!(state, path; lazy = true)
        @test all_of(state) == before
    end
end

@testset "work of its own" begin
    path = joinpath(mktempdir(), "state.mmsb")
    MMSBState() do state
        fill_state!(state)
        before = all_of(state)
        saving = async_save_snapshot(state, path)
        loading = async_restore!(state, path; after = [saving])
        @test fetch(loading) === state
        @test fetch(saving) === nothing
        done, total = progress(saving)
        @test done == total > 1_000_000
        close(saving)
        close(loading)
        @test all_of(state) == before
        failing = async_restore!(state, path * ".none")
        @test fails(() -> wait(failing), MMSBError, 20)
        close(failing)
    end
end

@testset "a chain" begin
    folder = mktempdir()
    first_path, second_path, whole_path = joinpath.(folder, ("first", "second", "whole"))
    MMSBState() do state
        pages = create_pages!(state, 4096, 1000)
        save_snapshot(state, first_path)
        apply_delta!(pages[17], [1], [0x07])
        gone = pages[18].id
        delete_page!(state, gone)
        added = create_page!(state, 9)
        save_snapshot(state, second_path; base = first_path)
        @test filesize(second_path) * 20 < filesize(first_path)
        Snapshot(first_path) do older
            Snapshot(second_path) do newer
                @test newer.base == older.id
                @test (older.chain, newer.chain) == (1, 2)
                changes = diff_snapshots(older, newer)
                @test issorted(map(first, changes))
                @test Dict(changes) == Dict(pages[17].id => :bytes, gone => :removed, added.id => :added)
                @test isempty(diff_snapshots(newer, newer))
            end
        end
        @test verify_snapshot(second_path) === nothing
        compact_snapshot(second_path, whole_path; durable = false)
        rm(first_path)
        @test fails(() -> verify_snapshot(second_path), MMSBError, 20)
        restored = load_snapshot(whole_path)
        @test all_of(restored) == all_of(state)
        close(restored)
    end
end

@testset "reading without a state" begin
    path = joinpath(mktempdir(), "state.mmsb")
    before = time()
    contents = MMSBState() do state
        fill_state!(state)
        save_snapshot(state, path)
        Dict(page.id => all_of(page) for page in get_pages(state))
    end
    after = time()
    snapshot = Snapshot(path)
    @test isopen(snapshot)
    @test length(snapshot) == length(contents)
    @test length(snapshot.id) == 32 && occursin(snapshot.id, string(snapshot))
    @test snapshot.base === nothing
    @test (snapshot.format, snapshot.chain, snapshot.position) == (4, 1, 1)
    @test before - 1 < snapshot.taken < after + 1
    @test thrown(() -> snapshot.colour) isa ArgumentError
    pages = get_pages(snapshot)
    @test Set(page.id for page in pages) == keys(contents)
    for page in pages
        @test page isa SnapshotPage
        @test all_of(page) == contents[page.id]
        @test page.device == 0
        @test haskey(snapshot, page.id)
        @test read_page(snapshot[page.id], page.size:page.size) == [0x21]
        @test fails(() -> read_page(page, 1:page.size+1), OutOfRangeError, 14)
        @test with_page(copy, page) == contents[page.id][1]
    end
    @test string(first(pages)) == "SnapshotPage(id = $(first(pages).id))"
    @test thrown(() -> first(pages).colour) isa ArgumentError
    @test !haskey(snapshot, 123_456_789) && !haskey(snapshot, -1)
    @test fails(() -> snapshot[123_456_789], PageNotFoundError, 20)
    with_page(first(pages)) do bytes
        @test fails(() -> close(snapshot), PageBusyError, 22)
    end
    close(snapshot)
    close(snapshot)
    @test !isopen(snapshot)
    @test fails(() -> get_pages(snapshot), StaleHandleError, 12)
    @test fails(() -> read_page(first(pages)), StaleHandleError, 12)
end

@testset "bad files and arguments" begin
    folder = mktempdir()
    path = joinpath(folder, "state.mmsb")
    MMSBState() do state
        fill_state!(state)
        before = all_of(state)
        save_snapshot(state, path)
        bytes = read(path)
        cut, foreign = joinpath(folder, "cut"), joinpath(folder, "foreign")
        write(cut, bytes[1:end-1])
        write(foreign, rand(UInt8, 5000))
        @test fails(() -> restore!(state, cut), CorruptFileError, 51)
        @test fails(() -> verify_snapshot(cut), CorruptFileError, 51)
        @test fails(() -> load_snapshot(foreign), MMSBError, 52)
        @test fails(() -> Snapshot(joinpath(folder, "none")), MMSBError, 20)
        @test fails(() -> save_snapshot(state, joinpath(folder, "no", "file")), MMSBError, MMSB.LibMMSB.MMSB_E_NOT_FOUND) ||
              fails(() -> save_snapshot(state, joinpath(folder, "no", "file")), MMSBError, MMSB.LibMMSB.MMSB_E_IO)
        @test fails(() -> save_snapshot(state, ""), MMSBError, 10)
        @test thrown(() -> save_snapshot(state, "a\0b")) isa ArgumentError
        @test thrown(() -> save_snapshot(state, path; compression = :lzma)) isa ArgumentError
        @test thrown(() -> save_snapshot(state, path; raw_writes = :maybe)) isa ArgumentError
        @test thrown(() -> save_snapshot(state, path; colour = :red)) isa ArgumentError
        @test fails(() -> save_snapshot(state, path; compression_level = 1), MMSBError, 10)
        @test thrown(() -> load_snapshot(path; simulate = :maybe)) isa ArgumentError
        @test thrown(() -> restore!(state, path; until = 0)) isa ArgumentError
        @test thrown(() -> restore!(state, path; until_epoch = 0 => 1)) isa ArgumentError
        @test thrown(() -> restore!(state, path; until_epoch = 1 => 0)) isa ArgumentError
        @test all_of(state) == before
    end
end

@testset "a full state is restored in place" begin
    path = joinpath(mktempdir(), "state")
    MMSBState(memory_limit = 1 << 20) do state
        page = create_page!(state, 700_000)
        write_page!(page, [0x01])
        save_snapshot(state, path)
        write_page!(page, [0x02])
        @test thrown(() -> restore!(state, path)) isa MemoryLimitError
        @test read_page(page, 1:1) == [0x02]
        restore!(state, path; in_place = true)
        @test read_page(get_page(state, page.id), 1:1) == [0x01]
        @test thrown(() -> restore!(state, path; in_place = true, lazy = true)) isa ArgumentError
    end
end

@testset "what tasks write through pointers is one moment" begin
    folder = mktempdir()
    MMSBState() do state
        pages = [create_page!(state, size) for size in (64, 4096, 300_000)]
        stop = Threads.Atomic{Bool}(false)
        together = ReentrantLock()
        count_up(bytes) = (words = reinterpret(UInt64, bytes); words .+= 1)
        function write_all()
            while !stop[]
                lock(together) do
                    with_page(pages[1]; write = true) do a
                        with_page(pages[2]; write = true) do b
                            yield() # the save finds a task in the middle
                            with_page(c -> foreach(count_up, (a, b, c)), pages[3]; write = true)
                        end
                    end
                end
                yield()
            end
        end
        tasks = [Threads.@spawn(write_all()) for _ in 1:3]
        try
            for turn in 1:20
                path = joinpath(folder, "s$(turn % 2)")
                base = turn > 1 && turn % 3 != 0 ? joinpath(folder, "s$((turn - 1) % 2)") : nothing
                save_snapshot(state, path; base = base, raw_writes = :wait)
                counts = Set{UInt64}()
                Snapshot(path) do snapshot
                    foreach(page -> union!(counts, reinterpret(UInt64, read_page(snapshot[page.id]))), pages)
                end
                @test length(counts) == 1
            end
        finally
            stop[] = true
            foreach(wait, tasks)
        end
    end
end

@testset "writing sections" begin
    folder = mktempdir()
    MMSBState() do state
        path = joinpath(folder, "s")
        page = create_page!(state, 64)
        @test writing(() -> 7, state) == 7
        own = MMSB.LibMMSB.MMSB_E_INVALID_STATE
        @test fails(() -> writing(() -> save_snapshot(state, path; raw_writes = :wait), state), MMSBError, own)
        @test fails(
            () -> with_page(_ -> save_snapshot(state, path; raw_writes = :wait), page; write = true),
            MMSBError,
            own,
        )
        @test isempty(readdir(folder))
        inside, leave = Channel{Nothing}(1), Channel{Nothing}(1)
        task = @async writing(state) do
            put!(inside, nothing)
            take!(leave)
        end
        take!(inside)
        ticket = async_save_snapshot(state, path; raw_writes = :wait)
        @test thrown(() -> wait(ticket; timeout = 0.1)) isa WaitTimeoutError
        @test thrown(() -> writing(() -> nothing, state; timeout = 10)) === nothing # its thread has one, or it is let go
        put!(leave, nothing)
        wait(task)
        @test fetch(ticket) === nothing
        save_snapshot(state, path; queue = true, raw_writes = :refuse)
    end
end

@testset "pages stand for their ids" begin
    folder = mktempdir()
    path, journal = joinpath(folder, "state"), joinpath(folder, "journal")
    MMSBState() do state
        page, other = create_page!(state, 10), create_page!(state, 10)
        save_snapshot(state, path)
        Snapshot(path) do snapshot
            @test haskey(snapshot, page) && snapshot[page].id == page.id
            @test fails(() -> snapshot[create_page!(state, 5)], PageNotFoundError, 20)
        end
        foreach(changed -> write_page!(changed, [0x07]), (page, other))
        restore!(state, path; ids = [page, other.id][1:1])
        @test read_page(get_page(state, page.id))[1] == 0x00 && read_page(other)[1] == 0x07
        open_journal!(state, journal)
        foreach(turn -> apply_delta!(other, [1], UInt8[turn]), 1:3)
        close_journal!(state)
        restored = load_snapshot(; journal = journal, until_epoch = other => 2)
        @test get_page(restored, other.id).epoch == 2
        close(restored)
    end
end
