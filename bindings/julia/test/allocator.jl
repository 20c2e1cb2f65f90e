# PageAllocator.

@testset "new pages are zeros" begin
    MMSBState() do state
        for size in (1, 63, 4096, 4097, 1_000_000)
            page = create_cpu_page!(state, size)
            @test page.size == size && page.location == CPU_LOCATION
            @test all(iszero, read_page(page))
        end
        used = create_page!(state, 4096, CPU_LOCATION)
        write_page!(used, fill(0xff, 4096))
        delete_page!(state, used.id)
        @test all(iszero, read_page(create_page!(state, 4096, CPU_LOCATION)))
    end
end

@testset "bad sizes and ids" begin
    MMSBState() do state
        for size in (0, -1, typemax(Int), typemax(UInt64))
            failure = thrown(() -> create_page!(state, size, CPU_LOCATION))
            @test failure isa AbstractMMSBError && failure.code in (13, 30)
        end
        create_page!(state, 10, CPU_LOCATION; id = 5)
        @test fails(() -> create_page!(state, 10, CPU_LOCATION; id = 5), MMSBError, 21)
        @test length(state) == 1
    end
end

@testset "places that are not there" begin
    MMSBState(; simulate = :off) do state
        page = create_page!(state, 10, CPU_LOCATION)
        for location in (GPU_LOCATION, UNIFIED_LOCATION, PINNED_LOCATION)
            @test fails(() -> create_page!(state, 10, location), UnsupportedLocationError, 41)
            @test fails(() -> migrate_page!(state, page.id, location), UnsupportedLocationError, 41)
            @test thrown(() -> allocate_page_arrays(10, location)) isa UnsupportedLocationError
        end
        @test fails(() -> create_gpu_page!(state, 10), UnsupportedLocationError, 41)
        @test page.location == CPU_LOCATION
        @test length(state) == 1
    end
end

@testset "delete_page!" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        @test delete_page!(state, page.id) == page
        @test get_page(state, page.id) === nothing
        @test fails(() -> delete_page!(state, page.id), PageNotFoundError, 20)
        @test fails(() -> delete_page!(state, 12345), PageNotFoundError, 20)
        @test fails(() -> read_page(page), StaleHandleError, 12)
        @test page.id isa PageID
        another = create_page!(state, 10, CPU_LOCATION)
        @test another != page
        delete_page!(state, another)
        @test length(state) == 0
    end
end

@testset "migrate_page!" begin
    MMSBState() do state
        page = create_page!(state, 10_000, CPU_LOCATION; metadata = Dict(:name => "moved"))
        bytes = rand(UInt8, 10_000)
        write_page!(page, bytes)
        apply_delta!(page, [1], bytes[1:1])
        for location in (DISK_LOCATION, DISK_LOCATION, CPU_LOCATION)
            @test migrate_page!(state, page.id, location) == page
            @test page.location == location
            @test read_page(page) == bytes
            @test page.epoch == 1
            @test page.metadata[:name] == "moved"
        end
        migrate_page!(state, page.id, DISK_LOCATION)
        @test with_page(copy, page) == bytes
        with_page(shown -> (shown[1] = ~bytes[1]), page; write = true)
        @test read_page(page, 1:2) == [~bytes[1], bytes[2]]
        @test apply_delta!(page, [3], [0x33]).epoch == 2
        @test read_page(page, 3:3) == [0x33]
        @test fails(() -> migrate_page!(state, 12345, CPU_LOCATION), PageNotFoundError, 20)
    end
end

@testset "resize_page!" begin
    MMSBState() do state
        page = create_page!(state, 100, CPU_LOCATION)
        write_page!(page, fill(0x77, 100))
        @test resize_page!(state, page.id, 10) == page
        @test read_page(page) == fill(0x77, 10)
        @test resize_page!(state, page.id, 10_000).size == 10_000
        @test read_page(page) == [fill(0x77, 10); zeros(UInt8, 9990)]
        for size in (0, -5)
            @test fails(() -> resize_page!(state, page.id, size), MMSBError, 13)
        end
        @test page.size == 10_000
        @test fails(() -> resize_page!(state, 12345, 10), PageNotFoundError, 20)
    end
end

@testset "clone_page" begin
    MMSBState() do state
        page = create_page!(state, 100, CPU_LOCATION; metadata = Dict(:name => "original"))
        apply_delta!(page, 1:3, UInt8[1, 2, 3])
        copied = clone_page(state, page.id)
        @test copied != page && copied.id != page.id
        @test read_page(copied) == read_page(page)
        @test (copied.epoch, copied.location, copied.size) == (1, CPU_LOCATION, 100)
        @test Dict(copied.metadata) == Dict(page.metadata)
        write_page!(copied, UInt8[9])
        copied.metadata[:name] = "copy"
        @test read_page(page, 1:1) == [1] && page.metadata[:name] == "original"
        @test fails(() -> clone_page(state, 12345), PageNotFoundError, 20)
    end
end

@testset "allocate_page_arrays" begin
    bytes, mask = allocate_page_arrays(1000, CPU_LOCATION)
    @test bytes isa Vector{UInt8} && bytes == zeros(UInt8, 1000)
    @test mask isa Vector{Bool} && mask == fill(false, 1000)
    @test thrown(() -> allocate_page_arrays(10, DISK_LOCATION)) isa UnsupportedLocationError
    @test fails(() -> allocate_page_arrays(0, CPU_LOCATION), MMSBError, 13)
    @test fails(() -> allocate_page_arrays(-1, CPU_LOCATION), MMSBError, 13)
end

@testset "create_pages!" begin
    MMSBState() do state
        pages = create_pages!(state, 32, 100, CPU_LOCATION)
        @test length(pages) == 100 == length(unique(pages)) == length(state)
        @test all(page -> page.size == 32, pages)
        @test create_pages!(state, 32, 0) == Page[]
        @test fails(() -> create_pages!(state, 0, 10), MMSBError, 13)
        @test fails(() -> create_pages!(state, 32, 10, GPU_LOCATION), UnsupportedLocationError, 41)
        @test thrown(() -> create_pages!(state, 32, -1)) isa ArgumentError
        @test length(state) == 100
    end
end
