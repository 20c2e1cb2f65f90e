# Long calls: their time, their end by Ctrl-C, and their asynchronous forms.

# A state of 8 MiB, with which no long call is done in one step, and a folder.
function with_large_state(f)
    MMSBState() do state
        foreach(page -> write_page!(page, saved_pattern(Int(page.id % 97), 1 << 20)), create_pages!(state, 1 << 20, 8))
        f(state, mktempdir())
    end
end

contents(state) = Dict(page.id => read_page(page) for page in get_pages(state))

# Calls that read and write the state and files of the folder. An end of them before their time must have changed nothing.
function long_calls(state, folder)
    saved, other = joinpath(folder, "saved"), joinpath(folder, "other")
    save_snapshot(state, saved)
    bytes = read(saved)
    return (
        (; options...) -> save_snapshot(state, other; options...),
        (; options...) -> save_bytes(state; options...),
        (; options...) -> restore!(state, saved; options...),
        (; options...) -> restore_bytes!(state, bytes; options...),
        (; options...) -> close(load_snapshot(saved; options...)),
        (; options...) -> verify_snapshot(saved; options...),
        (; options...) -> compact_snapshot(saved, other; options...),
        (; options...) -> close_journal!(open_journal!(state, joinpath(folder, "journal"); options...)),
        (; options...) -> migrate_pages!(get_pages(state), DISK_LOCATION; options...),
    )
end

@testset "a long call that runs out of time has changed nothing" begin
    with_large_state() do state, folder
        calls = long_calls(state, folder)
        before, pages = contents(state), get_pages(state)
        for call in calls, timeout in (-1, NaN)
            @test thrown(() -> call(; timeout = timeout)) isa ArgumentError
        end
        for call in calls[1:end-1]    # pages that have moved stay there
            @test fails(() -> call(; timeout = 0), WaitTimeoutError, 23)
        end
        @test fails(() -> create_pages!(state, 8, 100_000; timeout = 0), WaitTimeoutError, 23)
        @test get_pages(state) == pages && contents(state) == before
        @test !ispath(joinpath(folder, "other"))
        @test fails(() -> get_journal_info(state), MMSBError, 15)
        for call in calls, timeout in (1e-9, 600, Inf, nothing)
            failure = thrown(() -> call(; timeout = timeout))
            @test failure === nothing || timeout == 1e-9 && failure isa WaitTimeoutError    # or it was done just then
            @test contents(state) == before
        end
    end
end

@testset "what one step does is done with a time-out of 0" begin
    MMSBState() do state
        path = joinpath(mktempdir(), "small")
        pages = create_pages!(state, 100, 10; timeout = 0)
        @test length(state) == 10
        save_snapshot(state, path; timeout = 0)
        verify_snapshot(path; timeout = 0)
        restore_bytes!(state, save_bytes(state; timeout = 0); timeout = 0)
        @test isempty(Snapshot(a -> diff_snapshots(a, a; timeout = 0), path))
        open_journal!(state, path * ".journal"; timeout = 600)
        sync_journal(state; timeout = 600)
        sync_journal(state; timeout = 0)
        close_journal!(state; timeout = 600)
        @test fails(() -> close_journal!(state; timeout = 0), MMSBError, 15)
    end
end

# What a task that calls f throws.
in_task(f) = fetch(@async thrown(f))

# The same with an InterruptException, as of Ctrl-C, at the first time that the call lets other tasks run.
function interrupted(f)
    task = @async thrown(f)
    yield()
    istaskdone(task) || schedule(task, InterruptException(); error = true)
    return fetch(task)
end

@testset "time and Ctrl-C end a call that waits for others" begin
    MMSBState() do state
        folder = mktempdir()
        page = create_page!(state, 100)
        saves = (
            (; options...) -> save_snapshot(state, joinpath(folder, "a"); raw_writes = :wait, options...),
            (; options...) -> save_bytes(state; raw_writes = :wait, options...),
            (; options...) -> open(joinpath(folder, "b"), "w") do file
                save_snapshot(state, file; raw_writes = :wait, options...)
            end,
        )
        with_page(page; write = true) do _
            for save in saves
                @test fails(save, MMSBError, 15)
                @test in_task(() -> save(; timeout = 0.01)) isa WaitTimeoutError
                @test in_task(() -> save(; timeout = 0)) isa WaitTimeoutError
                @test interrupted(save) isa InterruptException
                @test interrupted(() -> save(; timeout = 600)) isa InterruptException
            end
        end
        @test readdir(folder) == ["b"] && filesize(joinpath(folder, "b")) == 0
        foreach(save -> save(), saves)
        @test readdir(folder) == ["a", "b"]
    end
end

@testset "Ctrl-C leaves no result that nobody has" begin
    MMSBState() do state
        folder = mktempdir()
        for turn in 1:50
            failure = interrupted(() -> open_journal!(state, joinpath(folder, "journal")))
            @test failure isa Union{Nothing,InterruptException}
            @test fails(() -> get_journal_info(state), MMSBError, 15) == (failure !== nothing)
            failure === nothing && close_journal!(state)
            failure = interrupted(() -> create_pages!(state, 8, 10))
            @test length(state) == (failure === nothing ? 10 : 0)
            foreach(delete_page!, get_pages(state))
            failure = interrupted(() -> save_bytes(state))
            @test failure isa Union{Nothing,InterruptException}
            failure = interrupted(() -> close(open_store(joinpath(folder, "store"))))
            @test failure isa Union{Nothing,InterruptException}
            close(open_store(joinpath(folder, "store"); timeout = 600))    # nobody has it open
        end
    end
end

@testset "a journal that Ctrl-C or time keeps from closing stays open" begin
    MMSBState() do state
        open_journal!(state, joinpath(mktempdir(), "journal"); interval_ms = 60_000)
        for turn in 1:50
            create_page!(state, 8)
            failure = interrupted(() -> close_journal!(state))
            failure === nothing && break
            @test failure isa InterruptException
            @test get_journal_info(state).last == turn
        end
        create_page!(state, 8)
        isopen_journal() = thrown(() -> get_journal_info(state)) === nothing
        isopen_journal() && @test fails(() -> close_journal!(state; timeout = 0), WaitTimeoutError, 23)
        isopen_journal() && close_journal!(state; timeout = 600)
        @test !isopen_journal()
    end
end

@testset "asynchronous forms" begin
    with_large_state() do state, folder
        before = contents(state)
        saved, whole, file = (joinpath(folder, name) for name in ("saved", "whole", "file"))
        first_work = async_save_snapshot(state, saved)
        @test fetch(async_verify_snapshot(saved; after = [first_work])) === nothing
        @test fetch(async_compact_snapshot(saved, whole; durable = false)) === nothing
        bytes = async_save_bytes(state)
        @test fetch(bytes) === fetch(bytes)
        delete_page!(first(get_pages(state)))
        @test fetch(async_restore_bytes!(state, fetch(bytes))) === state
        @test contents(state) == before
        open(output -> fetch(async_save_snapshot(state, output)), file, "w")
        delete_page!(first(get_pages(state)))
        @test open(input -> fetch(async_restore!(state, input)), file) === state
        @test contents(state) == before
        save_snapshot(state, open(file, "w"))
        Snapshot(saved) do older
            Snapshot(whole) do newer
                @test isempty(fetch(async_diff_snapshots(older, newer)))
            end
        end
        write_page!(first(get_pages(state)), [0x77])
        save_snapshot(state, whole)
        changes = Snapshot(older -> Snapshot(newer -> diff_snapshots(older, newer; timeout = 600), whole), saved)
        @test changes == [first(get_pages(state)).id => :bytes]
        @test fetch(async_open_journal!(state, joinpath(folder, "journal"))) === state
        create_page!(state, 8)
        @test fetch(async_sync_journal(state)) === nothing
        @test get_journal_info(state).synced == get_journal_info(state).last
        save_snapshot(state, saved)
        @test fetch(async_trim_journal!(state, saved)) === state
        @test trim_journal!(state, saved; timeout = 600) === state
        close_journal!(state)
        pages = get_pages(state)
        @test fetch(async_migrate_pages!(state, [page.id for page in pages], DISK_LOCATION)) == pages
        @test all(page -> page.location == DISK_LOCATION, pages)
        @test migrate_pages!(state, pages, CPU_LOCATION) == pages
        @test all(page -> page.location == CPU_LOCATION, pages)
        @test migrate_pages!(Page[], DISK_LOCATION) == Page[]
        @test fails(() -> async_save_bytes(state; base = "a"), MMSBError, 10)
    end
end

@testset "files that are open" begin
    with_large_state() do state, folder
        before, path = contents(state), joinpath(folder, "file")
        open(path, "w") do file
            write(file, "text before it")
            save_snapshot(state, file; compression = :zstd)
        end
        open(path) do file
            @test String(read(file, 14)) == "text before it"
        end
        @test fails(() -> open(load_snapshot, path), MMSBError, 52)    # what it begins with is no snapshot
        handle = Base.Filesystem.open(path, Base.Filesystem.JL_O_RDONLY)
        seek(handle, 14)
        loaded = load_snapshot(handle; lazy = true, memory_limit = 1 << 26)
        @test contents(loaded) == before
        close(loaded)
        seek(handle, 14)
        ids = sort!(collect(keys(before)))
        chosen = load_snapshot(RawFD(reinterpret(Int32, fd(handle))); ids = ids[1:2])
        @test contents(chosen) == Dict(id => before[id] for id in ids[1:2])
        foreach(close, (chosen, handle))
        @test fails(() -> save_snapshot(state, RawFD(1); base = path), MMSBError, 10)
    end
end

@testset "a group makes pages in one call" begin
    MMSBState() do state
        @test length(group(() -> create_pages!(state, 8, 10), state)) == 10
        pages = get_pages(state)
        @test group(() -> migrate_pages!(pages, DISK_LOCATION), state) == pages
        @test thrown(() -> group(() -> (create_pages!(state, 8, 10); error("undone")), state)) isa ErrorException
        @test length(state) == 10
    end
end
