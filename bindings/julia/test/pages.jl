# Pages: properties, bytes, pins.

@testset "properties" begin
    MMSBState() do state
        page = create_page!(state, 5000, CPU_LOCATION)
        @test page isa Page
        @test page.id isa PageID && page.id != 0
        @test page.size === 5000
        @test page.location === CPU_LOCATION
        @test page.location isa PageLocation
        @test page.device === 0
        @test page.epoch === UInt64(0)
        @test isempty(page.metadata)
        @test Set(propertynames(page)) == Set([:id, :size, :location, :device, :epoch, :version, :metadata])
        @test thrown(() -> page.colour) isa ArgumentError
        @test occursin(string(page.id), string(page))
    end
end

@testset "location tags are those of the ABI" begin
    @test map(Int, (CPU_LOCATION, GPU_LOCATION, UNIFIED_LOCATION, PINNED_LOCATION, DISK_LOCATION)) == (0, 1, 2, 3, 4)
end

@testset "get_page" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION; id = 4711)
        @test page.id === PageID(4711)
        @test get_page(state, 4711) == page
        @test isequal(get_page(state, 4711), page) && hash(get_page(state, 4711)) == hash(page)
        @test get_page(state, 4712) === nothing
        @test get_page(state, -1) === nothing && get_page(state, big(2)^64) === nothing
        @test fails(() -> delete_page!(state, big(2)^64), PageNotFoundError, 20)
        @test create_page!(state, 10, CPU_LOCATION) != page
    end
end

@testset "get_pages" begin
    MMSBState() do state
        @test get_pages(state) == Page[]
        made = create_pages!(state, 16, 1000)
        @test Set(get_pages(state)) == Set(made)
        @test length(get_pages(state)) == 1000
    end
end

@testset "read and write at positions from 1 on" begin
    MMSBState() do state
        page = create_page!(state, 100, CPU_LOCATION)
        @test read_page(page) == zeros(UInt8, 100)
        @test write_page!(page, UInt8[1, 2, 3]) === page
        @test write_page!(page, UInt8[9, 8]; offset = 99) === page
        @test read_page(page) == [UInt8[1, 2, 3]; zeros(UInt8, 95); UInt8[9, 8]]
        @test read_page(page, 2:4) == UInt8[2, 3, 0]
        @test read_page(page, 99:100) == UInt8[9, 8]
        @test read_page(page, 1:0) == UInt8[]
        @test page.epoch == 0
        for range in (0:3, 99:101, 200:300, 1:typemax(Int), -5:-1, big(2)^70:big(2)^70+1, 1:big(2)^70)
            @test fails(() -> read_page(page, range), OutOfRangeError, 14)
        end
        @test fails(() -> write_page!(page, UInt8[1, 2]; offset = 100), OutOfRangeError, 14)
        @test fails(() -> write_page!(page, UInt8[1, 2]; offset = 0), OutOfRangeError, 14)
        @test fails(() -> write_page!(page, UInt8[1, 2]; offset = typemax(Int)), OutOfRangeError, 14)
        @test fails(() -> write_page!(page, UInt8[1, 2]; offset = big(2)^70), OutOfRangeError, 14)
        @test read_page(page, 97:100) == UInt8[0, 0, 9, 8]
    end
end

@testset "any vector of bytes can be written" begin
    MMSBState() do state
        page = create_page!(state, 8, CPU_LOCATION)
        source = collect(0x01:0x10)
        for bytes in (
            0x01:0x08, view(source, 2:9), view(source, 1:2:15), codeunits("eight by"), reinterpret(UInt8, [0x0102030405060708]),
        )
            write_page!(page, bytes)
            @test read_page(page) == bytes
        end
        write_page!(page, UInt8[]; offset = 9)
        @test thrown(() -> write_page!(page, [1, 2, 3])) isa MethodError
    end
end

@testset "with_page shows the page's own memory" begin
    MMSBState() do state
        page = create_page!(state, 4096, CPU_LOCATION)
        @test with_page(page; write = true) do bytes
            @test bytes isa Vector{UInt8} && length(bytes) == 4096
            bytes[10] = 0x2a
            sum(bytes)
        end == 0x2a
        @test read_page(page, 10:10) == [0x2a]
        @test with_page(bytes -> bytes[10], page) == 0x2a
        @test thrown(() -> with_page(bytes -> bytes[1] = 0x01, page)) isa ArgumentError
        @test with_page(bytes -> sum(reinterpret(UInt32, bytes)), page) == 0x2a00 # in its bytes 9 to 12
        @test read_page(page, 1:1) == [0x00]
        @test page.epoch == 0
    end
end

@testset "a pinned page stays where it is" begin
    MMSBState() do state
        page = create_page!(state, 64, CPU_LOCATION)
        for write in (false, true)
            with_page(page; write = write) do bytes
                @test fails(() -> delete_page!(state, page.id), PageBusyError, 22)
                @test fails(() -> resize_page!(state, page.id, 128), PageBusyError, 22)
                @test fails(() -> migrate_page!(state, page.id, DISK_LOCATION), PageBusyError, 22)
                write_page!(page, UInt8[7]; offset = 3)
                @test bytes[3] == 7
            end
        end
        @test thrown(() -> with_page(bytes -> error("mine"), page)) == ErrorException("mine")
        @test resize_page!(state, page.id, 128).size == 128
        delete_page!(state, page.id)
        @test fails(() -> with_page(identity, page), StaleHandleError, 12)
    end
end

@testset "pinned memory outlives the state's end" begin
    state = MMSBState()
    page = create_page!(state, 10_000, CPU_LOCATION)
    write_page!(page, fill(0x55, 10_000))
    with_page(page) do bytes
        close(state)
        @test all(==(0x55), bytes)
        @test live_objects(LibMMSB.MMSB_KIND_MEMORY) == 1
    end
    @test live_objects(LibMMSB.MMSB_KIND_MEMORY) == 0
end
