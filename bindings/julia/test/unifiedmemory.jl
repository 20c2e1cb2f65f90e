# The pool of slabs, on simulated devices.

@testset "a pool has slabs" begin
    pool = GPUMemoryPool(; simulate = :always, simulated_memory = 64 << 20)
    before = get_pool_stats(pool)
    @test before isa Dict{Symbol,UInt64} && all(iszero, values(before))
    slabs = (1 => 4096, 4097 => 16 << 10, 65536 => 64 << 10, 100_000 => 256 << 10, 1 << 20 => 1 << 20, (1 << 20) + 1 => 4 << 20)
    for (size, slab) in slabs
        address = allocate_from_pool(pool, size)
        @test address isa Ptr{Cvoid} && address != C_NULL
        @test get_pool_stats(pool)[:bytes_allocated] == slab
        deallocate_to_pool(pool, address, size)
    end
    large = allocate_from_pool(pool, 9 << 20) # no slab is as large
    @test get_pool_stats(pool)[:bytes_allocated] == 9 << 20
    @test thrown(() -> deallocate_to_pool(pool, large, 4 << 20)) isa ArgumentError
    @test thrown(() -> deallocate_to_pool(pool, large + 512, 9 << 20)) isa ArgumentError
    deallocate_to_pool(pool, large, 9 << 20)
    @test thrown(() -> deallocate_to_pool(pool, large, 9 << 20)) isa ArgumentError
    stats = get_pool_stats(pool)
    @test stats[:allocations] == 7 && stats[:deallocations] == 7 && stats[:bytes_allocated] == 0
    @test stats[:cache_misses] == 2 && stats[:cache_hits] == 5 && stats[:bytes_cached] == 22 << 20
    small = allocate_from_pool(pool, 4096)
    @test get_pool_stats(pool)[:bytes_cached] == (22 << 20) - 4096
    deallocate_to_pool(pool, small, 4096)
    @test empty!(pool) === pool && get_pool_stats(pool)[:bytes_cached] == 0
    @test fails(() -> allocate_from_pool(pool, 0), MMSBError, 13)
    @test fails(() -> allocate_from_pool(pool, 1 << 30), MemoryLimitError, 30)
    close(pool)
    @test fails(() -> get_pool_stats(pool), StaleHandleError, 12)
end

@testset "pools share a state's device" begin
    MMSBState(; simulate = :always, simulated_devices = 2) do state
        first_pool, second_pool = GPUMemoryPool(state), GPUMemoryPool(state; device = 1)
        address = allocate_from_pool(first_pool, 100)
        @test thrown(() -> deallocate_to_pool(second_pool, address, 100)) isa ArgumentError
        @test get_device_memory(state, 0).charged == 2 << 20 && get_device_memory(state, 1).charged == 0
        close(first_pool)
        @test get_device_memory(state, 0).charged == 0
        close(second_pool)
    end
    @test fails(() -> GPUMemoryPool(; simulate = :always, device = 3), UnsupportedLocationError, 41)
end

@testset "unified pages are prefetched and advised" begin
    MMSBState(; simulate = :always, simulated_devices = 2) do state
        @test is_unified_memory_available(state)
        page = create_unified_page!(state, 100_000)
        @test page.location == UNIFIED_LOCATION
        write_page!(page, b"unified")
        for prefetched in (
            prefetch_unified_to_gpu!(page), prefetch_unified_to_gpu!(page, 1), prefetch_unified_to_cpu!(page),
            sync_page_to_gpu!(page), sync_page_to_cpu!(page), only(batch_sync_to_gpu!([page])), only(batch_sync_to_cpu!([page])),
        )
            @test prefetched == page && page.location == UNIFIED_LOCATION && read_page(page, 1:7) == b"unified"
        end
        @test fails(() -> prefetch_unified_to_gpu!(page, 2), UnsupportedLocationError, 41)
        @test get_page_advice(page) == (preferred = nothing, read_mostly = false)
        @test set_preferred_location!(page, 1) == enable_read_mostly_hint!(page) == page
        @test get_page_advice(page) == (preferred = 1, read_mostly = true)
        resize_page!(state, page.id, 3_000_000)
        @test set_preferred_location!(page, :cpu) == page && get_page_advice(page) == (preferred = :cpu, read_mostly = true)
        @test disable_read_mostly_hint!(page) == set_preferred_location!(page, nothing) == page
        @test get_page_advice(page) == (preferred = nothing, read_mostly = false)
        @test thrown(() -> set_preferred_location!(page, :gpu)) isa ArgumentError
        @test thrown(() -> set_preferred_location!(page, -1)) isa ArgumentError
        @test fails(() -> set_preferred_location!(page, 2), UnsupportedLocationError, 41)

        for location in (CPU_LOCATION, GPU_LOCATION, PINNED_LOCATION, DISK_LOCATION)
            other = create_page!(state, 10, location)
            write_page!(other, b"0123456789")
            for f in (
                prefetch_unified_to_gpu!, prefetch_unified_to_cpu!, get_page_advice, enable_read_mostly_hint!,
                disable_read_mostly_hint!, page -> set_preferred_location!(page, 0),
            )
                @test fails(() -> f(other), UnsupportedLocationError, 40)
            end
            @test convert_to_unified!(other) == convert_to_unified!(other) == other
            @test other.location == UNIFIED_LOCATION && read_page(other) == b"0123456789"
            @test prefetch_unified_to_gpu!(other) == other
        end
        two = create_page!(state, 10, GPU_LOCATION)
        @test convert_to_unified!(two; device = 1).device == 1
    end
    MMSBState() do state
        @test is_unified_memory_available() == is_unified_memory_available(state)
        has_gpu_support() || @test !is_unified_memory_available()
    end
end

@testset "how far to prefetch" begin
    for (latencies, distance) in (
        Int[] => 4, [50_000] => 2, [100_000] => 2, [100_001] => 4, [500_001, 500_001] => 8, [1, 2_000_001] => 16,
        [typemax(UInt64), typemax(UInt64)] => 16, (l for l in 1:3) => 2,
    )
        @test adaptive_prefetch_distance(latencies) === distance
    end
end
