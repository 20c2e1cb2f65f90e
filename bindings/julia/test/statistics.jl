# DeviceSync.

@testset "get_sync_statistics counts pages and bytes by location" begin
    MMSBState() do state
        create_page!(state, 100, CPU_LOCATION)
        create_page!(state, 200, CPU_LOCATION)
        create_page!(state, 1000, DISK_LOCATION)
        statistics = get_sync_statistics(state)
        @test statistics isa Dict{Symbol,Any}
        @test (statistics[:cpu_pages], statistics[:cpu_bytes]) == (2, 300)
        @test (statistics[:disk_pages], statistics[:disk_bytes]) == (1, 1000)
        for name in (:gpu_pages, :gpu_bytes, :unified_pages, :unified_bytes, :pinned_pages, :pinned_bytes)
            @test statistics[name] == 0
        end
        @test (statistics[:total_pages], statistics[:total_bytes]) == (3, 1300)
    end
end
