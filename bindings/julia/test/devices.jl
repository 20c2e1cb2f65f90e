# Devices and the stream-ordered runtime, on simulated devices.

@testset "devices are listed" begin
    with_devices() do state
        devices = get_devices(state)
        @test map(device -> device.ordinal, devices) == [0, 1]
        @test devices[1].name == "simulated device 0" && devices[1].simulated && devices[1].pci == ""
        @test devices[1].bytes == devices[1].free_bytes == 64 << 20
        @test devices[1].compute_capability >= v"8.0" && devices[1].ordered_memory
        @test devices[1].managed_memory && devices[1].managed_hints
    end
end

@testset "bytes go to the device and back" begin
    with_devices() do state
        runtime = create_runtime!(state, 0)
        first_stream, second_stream = open_stream!(runtime), open_stream!(runtime; priority = -1)
        from, to = allocate_block!(first_stream, 1000; tag = "julia"), allocate_block!(second_stream, 1000)
        @test runtime isa DeviceRuntime && first_stream isa DeviceStream && from isa DeviceBlock
        bytes = UInt8[i % 251 for i in 1:1000]
        @test write_block!(from, bytes) === from
        with_use(second_stream, from => :read, to => :write) do
            @test count_uses(from) == 1
            copy_block!(second_stream, to, from)
        end
        @test read_block(to) == bytes
        @test read_block(to, 10) == bytes[1:10]
        with_use(() -> fill_block!(first_stream, from, 0x07), first_stream, from => :write)
        @test read_block(from) == fill(0x07, 1000)
        @test fails(() -> read_block(to, 1001), OutOfRangeError, 14)
        @test get_tag_statistics(runtime, "julia").live == 1000
        @test free_block!(from) == false
        @test fails(() -> free_block!(from), StaleHandleError, 12)
        with_use(second_stream, to => :read) do
            @test free_block!(to, first_stream) == true
        end
        wait(first_stream)
        reap_frees!(runtime)
        trim_memory!(runtime)
        statistics = get_runtime_statistics(runtime)
        @test statistics.outstanding == 0 && statistics.allocations == 2 && statistics.deferred_frees == 1
        close(second_stream)
        @test fails(() -> wait(second_stream), StaleHandleError, 12)
        close(runtime)
        @test fails(() -> get_runtime_statistics(runtime), StaleHandleError, 12)
    end
end

@testset "pages on devices are used beside blocks" begin
    with_devices() do state
        runtime = get_runtime(state, 1)
        stream = open_stream!(runtime)
        @test device_number(stream) == device_number(runtime) == 1
        page, block = create_page!(state, 1000, GPU_LOCATION; device = 1), allocate_block!(stream, 1000)
        address, bytes = device_range(page)
        @test bytes == 1000 && block_range_at(runtime, address + 999) == (address, 1000)
        @test thrown(() -> block_range_at(runtime, 5)).code == 20
        with_use(stream, block => :write, page => :read_write) do
            fill_block!(stream, block, 0x07)
        end
        near = create_page!(state, 10, CPU_LOCATION)
        @test fails(() -> with_use(() -> nothing, stream, near => :read), UnsupportedLocationError, 40)
        close(stream)
    end
end

@testset "uses keep order" begin
    with_devices() do state
        runtime = get_runtime(state, 1)
        @test fails(() -> close(runtime), MMSBError, 15)
        mine, other = open_stream!(runtime), open_stream!(runtime)
        block = allocate_block!(mine, 64)
        with_use(mine, block => :read) do
            @test fails(() -> with_use(() -> nothing, other, block => :write), PageBusyError, 22)
        end
        @test thrown(() -> with_use(() -> error("launch"), mine, block => :write)) isa ErrorException
        @test thrown(() -> with_use(() -> nothing, mine, block => :look)) isa ArgumentError
        @test count_uses(block) == 0
        @test get_runtime_statistics(runtime).aborts >= 1
    end
end

@testset "points are tickets" begin
    with_devices() do state
        near, far = open_stream!(get_runtime(state, 0)), open_stream!(get_runtime(state, 1))
        ticket = record_stream(near)
        wait_on_device!(far, ticket)
        @test fetch(ticket) === nothing && isready(ticket)
        wait(far; timeout = 600)
        wait(far; timeout = 0)
        close(ticket)
        other = create_runtime!(state, 0)
        wrapped = wrap_stream!(other, native_stream(near))
        @test native_stream(wrapped) == native_stream(near)
        @test fails(() -> wrap_stream!(other, native_stream(near)), MMSBError, 21)
        wait_on_device!(wrapped, native_stream(near))
        @test fails(() -> wait_on_device!(near, Ptr{Cvoid}(99)), MMSBError, 11)
        close(wrapped)
    end
end

@testset "blocks come from a pool" begin
    with_devices() do state
        runtime = create_runtime!(state, 0; pool = "large_segment_size_mb:4,limit_mb:16")
        stream = open_stream!(runtime)
        block = allocate_block!(stream, 3 << 20)
        @test get_runtime_statistics(runtime).pool_held == 3 << 20
        @test fails(() -> allocate_block!(stream, 15 << 20), MemoryLimitError, 31)
        free_block!(block)
        wait(stream)
        close(runtime)
        @test fails(() -> create_runtime!(state, 0; pool = "slack:2"), MMSBError, 10)
    end
end

@testset "a pool has memory of each source" begin
    with_devices() do state
        for source in ("virtual", "plain", "ordered", "pinned", "managed")
            runtime = create_runtime!(state, 0; pool = "source:" * source)
            block = allocate_block!(open_stream!(runtime), 3000)
            write_block!(block, fill(0x07, 3000))
            @test read_block(block) == fill(0x07, 3000)
            source in ("pinned", "managed") && @test unsafe_load(Ptr{UInt8}(block.address), 3000) == 0x07
            @test get_runtime_statistics(runtime).pool_reserved == 2 << 20
            close(runtime)
        end
    end
end

@testset "runtimes and pages share the budget of a device" begin
    with_devices() do state
        set_device_budget!(state, 32 << 20)
        page = create_gpu_page!(state, 4 << 20)
        runtime = create_runtime!(state, 0)
        stream = open_stream!(runtime)
        block = allocate_block!(stream, 16 << 20)
        memory = get_device_memory(state)
        @test memory.budget == 32 << 20 && memory.charged == 20 << 20 && memory.helped == 1 && memory.runtimes == 2
        @test fails(() -> allocate_block!(stream, 13 << 20), MemoryLimitError, 31)
        free_block!(block)
        set_device_budget!(state, 0)
        @test get_device_memory(state, 1).charged == 0
        create_page!(state, 8192, PINNED_LOCATION)
        pinned = get_device_memory(state, :host)
        @test pinned.charged >= 2 << 20 && pinned.pool_free <= pinned.charged - 8192
        @test thrown(() -> get_device_memory(state, :moon)) isa ArgumentError
        close(runtime)
    end
end

@testset "pictures and statistics of memory" begin
    with_devices() do state
        folder = mktempdir()
        runtime = create_runtime!(state, 0; pool = "", log_events = 100)
        stream = open_stream!(runtime)
        block = allocate_block!(stream, 1000; tag = "weights")
        statistics = get_memory_statistics(runtime)
        @test statistics["allocated_bytes.all.current"] == statistics["active_bytes.small_pool.peak"] == 1024
        @test statistics["requested_bytes.all.current"] == 1000 && statistics["allocation.all.current"] == 1
        for (name, begins) in ("a.html" => "<!doctype html>", "b.json" => "{\"format\":\"mmsb memory", "c.pickle" => "\x80\x02")
            write_memory_snapshot(runtime, joinpath(folder, name))
            text = read(joinpath(folder, name), String)
            @test startswith(text, begins) && occursin("weights", text)
        end
        picture = get_memory_snapshot(runtime)
        @test sort(collect(keys(picture))) == ["device_traces", "segments"]
        @test all(s -> s["total_size"] == sum(b["size"] for b in s["blocks"]), picture["segments"])
        blocks = [b for s in picture["segments"] for b in s["blocks"] if b["address"] == UInt(block.address)]
        @test length(blocks) == 1 && blocks[1]["state"] == "active_allocated" && blocks[1]["requested_size"] == 1000
        @test blocks[1]["frames"][1]["name"] == "weights" && blocks[1]["frames"][1]["line"] > 0
        @test [event["action"] for event in picture["device_traces"][1]] == ["segment_map", "alloc"]
        @test picture["segments"][1]["segment_pool_id"] == (0, 0) && picture["segments"][1]["is_expandable"]
        @test thrown(() -> write_memory_snapshot(runtime, joinpath(folder, "picture"))) isa ArgumentError
        @test !ispath(joinpath(folder, "picture"))
        @test open(file -> thrown(() -> write_memory_snapshot(runtime, file, 3)), joinpath(folder, "d"), "w") isa MMSBError
        symlink("/dev/full", joinpath(folder, "full.html"))
        @test thrown(() -> write_memory_snapshot(runtime, joinpath(folder, "full.html"))) isa MMSBError
        free_block!(block)
        @test get_memory_statistics(runtime)["allocation.all.freed"] == 1
        close(runtime)
        @test thrown(() -> get_memory_statistics(runtime)) isa StaleHandleError
        @test thrown(() -> write_memory_snapshot(runtime, joinpath(folder, "a.html"))) isa StaleHandleError
    end
end

@testset "budgets, reservations, log" begin
    with_devices() do state
        folder = mktempdir()
        runtime = create_runtime!(state, 0; budget = 1000, streams = 1, log_events = 10, ledger = joinpath(folder, "ledger"))
        stream = open_stream!(runtime)
        @test fails(() -> open_stream!(runtime), MemoryLimitError, 31)
        allocate_block!(stream, 600)
        @test fails(() -> allocate_block!(stream, 401), MemoryLimitError, 31)
        reservation = reserve_bytes!(runtime, 400)
        allocate_block!(stream, 150; reservation)
        @test end_reservation!(reservation) == 250
        @test fails(() -> end_reservation!(reservation), StaleHandleError, 12)
        statistics = get_runtime_statistics(runtime)
        @test statistics.charged == 750 && statistics.budget == 1000 && statistics.refusals == 1
        @test statistics.refused_calls == 0 # no hook
        open(file -> write_runtime_log(runtime, file), joinpath(folder, "log"), "w")
        lines = readlines(joinpath(folder, "log"))
        @test lines[1] == "Thread,Time,Action,Pointer,Size,Stream" && length(lines) == 4
        @test thrown(() -> create_runtime!(state, 0; speed = 1)) isa ArgumentError
        @test thrown(() -> create_runtime!(state, 0; budget = -1)) ==
              ArgumentError("budget is -1; it is 0 to 18446744073709551615")
        @test thrown(() -> create_runtime!(state, 0; memory_wait = -1)) isa ArgumentError
        foreach(memory_wait -> close(create_runtime!(state, 0; memory_wait)), (0, 0.5, nothing))
        @test fails(() -> create_runtime!(state, 2), UnsupportedLocationError, 41)
        close(runtime)
    end
end
