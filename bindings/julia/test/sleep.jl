# Tags of a pool that sleep and wake, and captures.

function with_pool(f)
    MMSBState(; simulate = :always, simulated_devices = 1, simulated_memory = 64 << 20) do state
        runtime = create_runtime!(state, 0; pool = "large_segment_size_mb:2")
        partition_tags!(runtime, "weights", "cache")
        f(runtime, open_stream!(runtime))
    end
end

@testset "tags sleep and wake" begin
    for mode in (:keep, :file, :drop)
        with_pool() do runtime, stream
            weights, cache = allocate_block!(stream, 20 << 20; tag = "weights"), allocate_block!(stream, 10 << 20; tag = "cache")
            bytes = UInt8[i % 251 for i in 1:(20 << 20)]
            write_block!(weights, bytes)
            @test sleep_tags!(runtime, "weights", "cache"; mode, folder = mode == :file ? mktempdir() : nothing) === nothing
            @test is_asleep(weights)
            statistics = get_runtime_statistics(runtime)
            @test statistics.sleeping == 30 << 20 && statistics.pool_held == 0
            @test statistics.sleeping_kept == (mode == :drop ? 0 : 30 << 20)
            @test fails(() -> read_block(weights, 1), MMSBError, 15)
            @test fails(() -> allocate_block!(stream, 1; tag = "cache"), MMSBError, 15)
            other = allocate_block!(stream, 60 << 20)
            @test fails(() -> wake_tags!(runtime, "weights", "cache"), MemoryLimitError, 30)
            free_block!(other)
            wake_tags!(runtime, "weights", "cache")
            @test !is_asleep(weights)
            @test mode == :drop || read_block(weights) == bytes
            @test fails(() -> wake_tags!(runtime, "cache"), MMSBError, 15)
            sleep_tags!(runtime, "weights"; timeout = 600)
            free_block!(weights)
            free_block!(cache)
        end
    end
    with_pool() do runtime, stream
        @test fails(() -> sleep_tags!(runtime, "never declared"), MMSBError, 10)
        @test fails(() -> sleep_tags!(runtime, "weights"; folder = "/"), MMSBError, 10)
        @test thrown(() -> sleep_tags!(runtime, "weights"; mode = :doze)) isa ArgumentError
    end
end

@testset "a capture has memory of its own" begin
    with_pool() do runtime, stream
        within = Ref{UInt64}(0)
        capture = capture_work!(stream) do
            block = allocate_block!(stream, 3 << 20)
            within[] = block.address
            free_block!(block)
            @test fails(() -> record_stream(stream), MMSBError, 15)
        end
        @test capture isa DeviceCapture
        outside = [allocate_block!(stream, 3 << 20) for _ in 1:3]
        @test within[] ∉ [block.address for block in outside]
        wait(stream)
        trim_memory!(runtime)
        @test get_runtime_statistics(runtime).pool_reserved == 14 << 20
        @test capture === capture_work!(capture, stream) do
            block = allocate_block!(stream, 3 << 20)
            @test block.address == within[]
            free_block!(block)
        end
        close(capture)
        trim_memory!(runtime)
        @test get_runtime_statistics(runtime).pool_reserved == 10 << 20
        @test thrown(() -> capture_work!(() -> error("planted"), stream)) isa ErrorException
        close(capture_work!(() -> nothing, stream, open_stream!(runtime)))
    end
end
