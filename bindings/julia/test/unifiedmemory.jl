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
