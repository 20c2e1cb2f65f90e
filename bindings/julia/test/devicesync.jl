# DeviceSync and DeviceFallback, on simulated devices.

const LOCATIONS = (CPU_LOCATION, GPU_LOCATION, UNIFIED_LOCATION, PINNED_LOCATION, DISK_LOCATION)

simulated(f) = MMSBState(f; simulate = :always, simulated_devices = 2)

function filled_page(state, size, location)
    page = create_page!(state, size, location)
    bytes = rand(UInt8, size)
    write_page!(page, bytes)
    return page, bytes
end

@testset "pages work in every location" begin
    simulated() do state
        for location in LOCATIONS
            page, bytes = filled_page(state, 10_000, location)
            @test page.location == location && page.device == 0
            @test read_page(page) == bytes
            apply_delta!(page, [1, 5000], [0x01, 0x02])
            mask = fill(false, 10_000)
            mask[100:2:300] .= true
            apply_delta!(page, mask, fill(0x77, 10_000))
            bytes[[1, 5000]] = [0x01, 0x02]
            bytes[mask] .= 0x77
            @test read_page(page) == bytes && page.epoch == 2
            copied = clone_page(state, page.id)
            @test copied.location == location && read_page(copied) == bytes
            resize_page!(state, copied.id, 100)
            @test read_page(copied) == bytes[1:100]
            if location == GPU_LOCATION
                @test fails(() -> with_page(identity, page), UnsupportedLocationError, 40)
            else
                @test with_page(copy, page) == bytes
            end
        end
        @test get_sync_statistics(state)[:gpu_pages] == 2
    end
end

@testset "sync_page_to_gpu! and back" begin
    simulated() do state
        for location in LOCATIONS
            page, bytes = filled_page(state, 4097, location)
            @test sync_page_to_gpu!(page) == page
            @test page.location == (location == UNIFIED_LOCATION ? UNIFIED_LOCATION : GPU_LOCATION)
            @test read_page(page) == bytes
            @test sync_page_to_cpu!(page) == page
            @test page.location == (location == UNIFIED_LOCATION ? UNIFIED_LOCATION : CPU_LOCATION)
            @test read_page(page) == bytes
        end
        page, bytes = filled_page(state, 100, CPU_LOCATION)
        sync_page_to_gpu!(page; device = 1)
        @test page.device == 1
        @test fails(() -> sync_page_to_gpu!(sync_page_to_cpu!(page); device = 2), UnsupportedLocationError, 41)
        @test read_page(page) == bytes
    end
end

@testset "sync_bidirectional! and ensure_page_on_device!" begin
    simulated() do state
        (a, in_a), (b, in_b) = filled_page(state, 100, CPU_LOCATION), filled_page(state, 200, DISK_LOCATION)
        @test sync_bidirectional!(a, b) == (a, b)
        @test a.location == b.location == GPU_LOCATION
        @test read_page(a) == in_a && read_page(b) == in_b
        (c, _), (d, _) = filled_page(state, 100, CPU_LOCATION), filled_page(state, 200, CPU_LOCATION)
        sync_bidirectional!(c, d)
        @test c.location == d.location == CPU_LOCATION    # they do not differ
        for location in LOCATIONS
            moves = c.location != location
            @test ensure_page_on_device!(c, location) == moves
            @test c.location == location
            @test !ensure_page_on_device!(c, location)
        end
    end
    MMSBState(; simulate = :off) do state
        page = create_page!(state, 10, CPU_LOCATION)
        has_gpu_support() && return
        @test fails(() -> ensure_page_on_device!(page, GPU_LOCATION), UnsupportedLocationError, 41)
    end
end

@testset "many pages, and work beside the program" begin
    simulated() do state
        filled = [filled_page(state, 1000 + i, CPU_LOCATION) for i in 1:20]
        pages, contents = map(first, filled), map(last, filled)
        @test batch_sync_to_gpu!(pages) == pages
        @test all(page -> page.location == GPU_LOCATION, pages)
        @test map(read_page, pages) == contents
        @test batch_sync_to_cpu!(pages) == pages
        @test all(page -> page.location == CPU_LOCATION, pages)
        @test batch_sync_to_cpu!(Page[]) == Page[]
        moved = prefetch_pages_to_gpu!(state, [pages[1].id, 12345, pages[3].id])
        @test moved == [pages[1], pages[3]]
        @test [page.location for page in pages[1:3]] == [GPU_LOCATION, CPU_LOCATION, GPU_LOCATION]
        ticket = async_sync_page_to_gpu!(pages[2])
        @test fetch(ticket) == pages[2] && progress(ticket) == (1, 1)
        next = async_sync_page_to_gpu!(pages[2], ticket; device = 1)
        @test fetch(next).device == 1
        @test read_page(pages[2]) == contents[2]
        foreach(close, (ticket, next))
        with_page(pages[5]) do _
            @test fails(() -> batch_sync_to_gpu!(pages), PageBusyError, 22)
        end
        @test map(read_page, pages) == contents
    end
end

@testset "fallback_to_cpu" begin
    MMSBState(; simulate = :off) do state
        has_gpu_support() && return
        runs = 0
        page = @test_logs (:warn,) fallback_to_cpu() do
            runs += 1
            sync_page_to_gpu!(create_gpu_page!(state, 10))
        end
        @test runs == 2 && page.location == CPU_LOCATION
        @test fails(() -> create_gpu_page!(state, 10), UnsupportedLocationError, 41)    # it is over
        @test thrown(() -> fallback_to_cpu(() -> error("mine"))) == ErrorException("mine")
        @test fails(() -> fallback_to_cpu(() -> resize_page!(state, page, 0)), MMSBError, 13)
    end
    simulated() do state
        create_gpu_page!(state, 10)
        @test isempty(get_lost_pages(state))
    end
    MMSBState(; simulate = :off, fallback = :simulate) do state
        page = create_gpu_page!(state, 10)
        @test page.location == GPU_LOCATION && page.device == 0
        far = create_gpu_page!(state, 10; device = 9)
        @test far.device == 1024 + 9 && isempty(get_lost_pages(state))
    end
    simulated() do state
        @test fallback_to_cpu(() -> create_gpu_page!(state, 10)).location == GPU_LOCATION
    end
    @test has_gpu_support() isa Bool
end

@testset "snapshots bring pages back to devices" begin
    path = joinpath(mktempdir(), "devices.mmsb")
    contents = simulated() do state
        pages = [filled_page(state, 5000, location) for location in LOCATIONS]
        save_snapshot(state, path)
        Dict(page.id => (page.location, bytes) for (page, bytes) in pages)
    end
    restored = load_snapshot(path; simulate = :always, simulated_devices = 2)
    for (id, (location, bytes)) in contents
        page = get_page(restored, id)
        @test page.location == location && read_page(page) == bytes
    end
    close(restored)
    fallen = load_snapshot(path; simulate = :off, fallback = :host)
    if !has_gpu_support()
        @test all(page -> page.location in (CPU_LOCATION, DISK_LOCATION), get_pages(fallen))
    end
    @test all(page -> read_page(page) == contents[page.id][2], get_pages(fallen))
    close(fallen)
end

@testset "pinned memory is the copy" begin
    simulated() do state
        page, bytes = filled_page(state, 5000, PINNED_LOCATION)
        sync_page!(page, :gpu)
        @test [copy.location for copy in get_page_copies(page)] == [GPU_LOCATION, PINNED_LOCATION] && read_page(page) == bytes
        pages = [create_gpu_page!(state, 100) for _ in 1:2]
        sync_page!(pages[1], :host; pinned = true)
        sync_pages!(pages[2:2], :both; pinned = true)
        @test all(page -> get_page_copies(page)[2].location == PINNED_LOCATION, pages)
    end
end

@testset "pages in two places" begin
    simulated() do state
        page, bytes = filled_page(state, 5000, CPU_LOCATION)
        newer() = [copy.newer for copy in get_page_copies(page)]
        @test sync_page!(page) == page && page.location == GPU_LOCATION
        @test get_page_copies(page) == [
            (location = GPU_LOCATION, device = 0, size = 5000, newer = 0),
            (location = CPU_LOCATION, device = 0, size = 5000, newer = 0),
        ]
        write_page!(page, UInt8[1, 2, 3]; offset = 64)
        bytes[64:66] = 1:3
        @test newer() == [0, 128] && read_page(page) == bytes
        before = get_sync_statistics(state)
        @test before[:two_places_pages] == 1 && before[:two_places_bytes] == 5000 && before[:newer_on_host_bytes] == 128
        sync_page_to_gpu!(page; device = 1)    # it is on a device, and stays there
        after = get_sync_statistics(state)
        @test page.device == 0 && newer() == [0, 0] && after[:to_gpu_bytes] - before[:to_gpu_bytes] == 128
        @test after[:to_host_bytes] == after[:newer_on_gpu_bytes] == 0
        bytes[101] ⊻= 0x77    # another byte than it was, whatever it was: what is written as it was is not newer
        with_host_copy(copied -> copied[101] = bytes[101], page; write = true)
        @test newer() == [0, 64] && read_page(page) == bytes
        @test with_host_copy(copy, page) == bytes
        sync_page!(page, :both; wins = :host)
        @test_throws ArgumentError sync_page!(page, :up)
        @test_throws ArgumentError sync_page!(page; wins = :nobody)
        @test drop_host_copy!(page) == page && length(get_page_copies(page)) == 1
        @test fails(() -> with_host_copy(copy, page), MMSBError, 15)
        sync_page!(page, :host)
        @test sync_page_to_cpu!(page).location == CPU_LOCATION && read_page(page) == bytes
    end
end

@testset "replicas serve work that reads" begin
    simulated() do state
        page, bytes = filled_page(state, 5000, CPU_LOCATION)
        target = create_page!(state, 5000, GPU_LOCATION; device = 1)
        stream = open_stream!(get_runtime(state, 1))
        @test fails(() -> with_use(() -> nothing, stream, page => :read), UnsupportedLocationError, 40)
        @test replicate_page!(page; device = 1) == page
        @test get_page_copies(page) == [
            (location = CPU_LOCATION, device = 0, size = 5000, newer = 0),
            (location = GPU_LOCATION, device = 1, size = 5000, newer = 0),
        ]
        @test sort([page.id for page in get_device_pages(state, 1)]) == sort([page.id, target.id])
        statistics = get_sync_statistics(state)
        @test statistics[:replicas] == 1 && statistics[:replica_bytes] == 5000
        with_use(stream, page => :read, target => :write) do address
            @test address(target) == device_range(target)[1] && address(page) != address(target)
            @test thrown(() -> address(create_page!(state, 1))).code == 20
            write_page!(page, UInt8[bytes[1] ⊻ 0x01])
            MMSB.call(
                MMSB.LibMMSB.mmsb_stream_copy, stream, Ptr{Cvoid}(address(target)), Ptr{Cvoid}(address(page)), UInt64(5000),
            )
        end
        @test read_page(target) == bytes && read_page(page) != bytes
        @test length(get_page_copies(page)) == 1
        replicate_page!(page; device = 0)
        replicate_page!(page; device = 1)
        @test drop_replica!(page; device = 0) == page && [copy.device for copy in get_page_copies(page)] == [0, 1]
        @test thrown(() -> replicate_page!(page; device = 2)).code == 41
        @test fails(() -> replicate_page!(create_page!(state, 10, DISK_LOCATION); device = 1), UnsupportedLocationError, 40)
        close(stream)
    end
end

@testset "many pages in two places" begin
    simulated() do state
        pages = create_pages!(state, 4096, 5)
        @test sync_pages!(pages, :gpu; device = 1, timeout = 60) == pages
        @test sort([page.id for page in get_device_pages(state, 1)]) == sort([page.id for page in pages])
        @test isempty(get_device_pages(state))
        foreach(page -> write_page!(page, UInt8[7]), pages)
        @test sync_later!(pages, :gpu; device = 1) == pages
        delete_page!(state, pages[5].id)
        @test get_sync_statistics(state)[:queued_pages] == 5
        @test drain_syncs!(state; timeout = 60) == 4 && drain_syncs!(state) == 0
        @test get_sync_statistics(state)[:newer_on_host_bytes] == 0
    end
end
