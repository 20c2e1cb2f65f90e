# Stores: a folder has the state of a context; it can be gone on with, read, and opened as it was.

bytes_of(text) = Vector{UInt8}(codeunits(text))
begins_with(page, text) = read_page(page)[1:sizeof(text)] == bytes_of(text)

@testset "a store goes on where it was" begin
    folder = joinpath(mktempdir(), "state")
    id = open_store(folder) do state
        @test state isa MMSBState && length(state) == 0
        page, other = create_page!(state, 4096), create_page!(state, 70_000)
        write_page!(page, bytes_of("first"))
        add_dependency!(page, other)
        @test fails(() -> open_store(folder), PageBusyError, 22)
        return page.id
    end
    for lazy in (false, true)
        state = open_store(folder; lazy = lazy, memory_limit = 1 << 30, disk_path = folder)
        page = get_page(state, id)
        @test begins_with(page, lazy ? "later" : "first")
        @test length(get_children(page)) == 1
        write_page!(page, bytes_of("later"))
        close(state)
    end
end

@testset "what is only read does not change" begin
    folder = mktempdir()
    open_store(folder) do state
        page = create_page!(state, 100)
        apply_delta!(page, [1], UInt8[7])
        sync_journal(state)
        open_store(folder; mode = :read) do reader
            mine = get_page(reader, page.id)
            calls = (
                () -> create_page!(reader, 10), () -> write_page!(mine, UInt8[1]), () -> apply_delta!(mine, [1], UInt8[1]),
                () -> delete_page!(mine), () -> clear_mask!(mine), () -> resize_page!(mine, 10), () -> release_page!(mine),
                () -> restore_bytes!(reader, save_bytes(reader)), () -> group(() -> write_page!(mine, UInt8[1]), reader),
                () -> checkpoint!(reader), () -> name!(reader, "name"), () -> unname!(reader, "name"),
                () -> sync_journal(reader),
            )
            for call in calls
                @test fails(call, MMSBError, 15)
            end
            @test read_page(mine)[1] == 7 && mine.epoch == 1 && length(reader) == 1
            @test store_info(reader).last_record == store_info(state).last_record > 0
        end
    end
end

@testset "a store is followed" begin
    folder = mktempdir()
    open_store(folder; keep_last = 2) do state
        page = create_page!(state, 100)
        @test store_info(state).followed === nothing
        sync_journal(state)
        open_store(folder; mode = :follow) do replica
            mine = get_page(replica, page.id)
            for turn in 1:20
                write_page!(page, UInt8[turn])
                record = store_info(state).last_record
                sync_journal(state)
                @test wait_record(replica, record; timeout = 600) === replica
                @test read_page(mine)[1] == turn
            end
            info = store_info(replica)
            @test info.reloads == 0 && info.follow_failures == 0 && 0 <= time() - info.followed < 600
            @test info.waits == 0 && info.waited == 0 # a follower waits for nobody
            @test thrown(() -> wait_record(replica, info.last_record + 1; timeout = 0.01)) isa WaitTimeoutError
            ticket = async_wait_record(replica, info.last_record + 1)
            write_page!(page, UInt8[99])
            sync_journal(state)
            @test fetch(ticket) === replica && read_page(mine)[1] == 99
            group(replica) do # nothing comes meanwhile
                write_page!(page, UInt8[98])
                @test fails(() -> wait_record(replica, 1), PageBusyError, 22)
                sleep(0.05)
                @test read_page(mine)[1] == 99
            end
            wait_record(replica, store_info(state).last_record; timeout = 600)
            @test read_page(mine)[1] == 98
            @test fails(() -> write_page!(mine, UInt8[1]), MMSBError, 15)
            @test fails(() -> wait_record(state, 1), MMSBError, 15)
        end
    end
end

@testset "the state as it was, and a branch" begin
    folder = mktempdir()
    marks = open_store(folder; durability = :call, keep_last = 5) do state
        page = create_page!(state, 8)
        map(1:3) do turn
            apply_delta!(page, [1], UInt8[turn])
            record = store_info(state).last_record
            sleep(0.05)    # the clock of the records is a coarse one
            moment = time()
            sleep(0.05)
            @test name!(state, "turn $turn"; timeout = 600) === state
            ("turn $turn", record, moment)
        end
    end
    epoch_of(state) = first(get_pages(state)).epoch
    for turn in 1:3, at in marks[turn]
        @test open_store(epoch_of, folder; at = at) == turn
    end
    for at in ("none", 999, SubString("nowhere", 1, 3))
        @test fails(() -> open_store(folder; at = at), MMSBError, 20)
    end
    open_store(folder; mode = :branch, at = "turn 1") do state
        @test epoch_of(state) == 1
        apply_delta!(first(get_pages(state)), [2], UInt8[9])
    end
    @test open_store(epoch_of, folder) == 2
    @test open_store(epoch_of, folder; at = "turn 3") == 3
end

@testset "points, names and retention" begin
    folder = mktempdir()
    open_store(folder; save_bytes = Inf, keep_last = 2) do state
        @test isempty(store_points(folder))
        @test store_info(state).last_save === nothing
        page = create_page!(state, 1000)
        @test checkpoint!(state) === state
        name!(state, "kept")
        for turn in 1:3
            write_page!(page, UInt8[turn])
            checkpoint!(state; whole = turn == 3, timeout = 600)
        end
        info, points = store_info(state), store_points(folder)
        @test [(point.name, point.names) for point in points] == [(nothing, 0), (nothing, 0), ("kept", 1)]
        @test points[1].whole && points[1].leads && all(point -> point.on_line && length(point.id) == 32, points)
        @test 0 <= time() - points[1].taken < 600 && info.last_save == points[1].taken
        @test info.saves == 5 && info.pruned == 2 && info.snapshots == 3
        @test info.snapshot_bytes == sum(point -> point.bytes, points) + info.pruned_bytes    # one rests on those still
        @test unname!(state, "kept") === state
        @test fails(() -> unname!(state, "kept"), MMSBError, 20)
        @test fetch(async_checkpoint!(state; whole = true)) === state
        @test fetch(async_name!(state, "started")) === state
        @test [point.name for point in store_points(folder)] == ["started", nothing]
    end
    open_store(folder; save_interval = 0.01) do state
        write_page!(first(get_pages(state)), UInt8[1])
        @test comes(() -> store_info(state).saves > 0)
    end
end

@testset "more points than fit at once" begin
    folder = mktempdir()
    open_store(state -> foreach(turn -> name!(state, "name $turn"), 1:20), folder)
    @test length(store_points(folder)) == 20
end

@testset "what a store refuses" begin
    folder = joinpath(mktempdir(), "state")
    for options in (
        (mode = :append,), (at = 0,), (at = "a\0b",), (durability = :perhaps,), (colour = :red,), (save_bytes = 0,),
        (save_interval = NaN,), (space_wait = -1,), (timeout = -1,), (simulate = :perhaps,),
    )
        @test thrown(() -> open_store(folder; options...)) isa ArgumentError
    end
    for options in ((mode = :branch,), (mode = :write, at = "a"), (at = "",), (keep_last = 0,), (interval_ms = 0,))
        @test fails(() -> open_store(folder; options...), MMSBError, 10)
    end
    @test !ispath(folder)
    @test fails(() -> open_store(folder; mode = :read), MMSBError, 20)
    @test fails(() -> store_points(folder), MMSBError, 20)
    open_store(folder) do state
        @test thrown(() -> name!(state, "a\0b")) isa ArgumentError
        @test fails(() -> name!(state, "1st"), MMSBError, 10)
    end
    MMSBState() do state
        @test fails(() -> checkpoint!(state), MMSBError, 15)
    end
end
