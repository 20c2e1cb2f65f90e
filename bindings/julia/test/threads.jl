# Calls from tasks, on the main thread and on others.

@testset "tasks on the main thread" begin
    MMSBState() do state
        page = create_page!(state, 1000, CPU_LOCATION)
        tasks = [@async(for _ in 1:50
            apply_delta!(page, [n], [UInt8(n)])
            yield()
        end) for n in 1:20]
        foreach(wait, tasks)
        @test page.epoch == 1000
        @test read_page(page, 1:20) == 1:20
    end
end

@testset "tasks on all threads" begin
    MMSBState() do state
        pages = create_pages!(state, 256, 8)
        Threads.@threads for n in 1:4000
            page = pages[n%8+1]
            apply_delta!(page, [n % 256 + 1], [0x01])
            n % 10 == 0 && write_page!(page, fill(0x02, 10); offset = 100)
            n % 16 == 0 && delete_page!(state, create_page!(state, 128, CPU_LOCATION))
        end
        @test all(page -> page.epoch == 500, pages)
        @test length(state) == 8
    end
end

@testset "each task sees the text of its own failure" begin
    MMSBState() do state
        pages = [create_page!(state, n, CPU_LOCATION) for n in 1:8]
        tasks = [
            Threads.@spawn(all(1:200) do _
                failure = thrown(() -> write_page!(page, zeros(UInt8, 1000 + page.size)))
                yield()
                failure isa OutOfRangeError && occursin(string(1000 + page.size), failure.message)
            end) for page in pages
        ]
        @test all(fetch, tasks)
    end
end

@testset "one page is read whole while others change and resize it" begin
    MMSBState() do state
        page = create_page!(state, 512, CPU_LOCATION)
        changes = Threads.@spawn for n in 1:2000
            size = 256 + n % 256
            resize_page!(state, page, size)
            write_page!(page, fill(n % UInt8, 256))
            n % 50 == 0 && yield()
        end
        whole = true
        while !istaskdone(changes)
            bytes = read_page(page)
            whole &= all(==(bytes[1]), view(bytes, 1:256)) && 256 <= length(bytes) <= 512
            yield()
        end
        wait(changes)
        @test whole
    end
end

@testset "one page is deleted once" begin
    MMSBState() do state
        for page in create_pages!(state, 64, 100)
            deleted = [Threads.@spawn(thrown(() -> delete_page!(state, page.id))) for _ in 1:4]
            outcomes = map(fetch, deleted)
            @test count(isnothing, outcomes) == 1
            @test all(outcome -> outcome === nothing || outcome isa PageNotFoundError, outcomes)
        end
    end
end

@testset "a state is closed while others use it" begin
    for _ in 1:20
        state = MMSBState()
        users = [
            Threads.@spawn(thrown(() -> while true
                page = create_page!(state, 64, CPU_LOCATION)
                write_page!(page, zeros(UInt8, 64))
                yield()
            end)) for _ in 1:3
        ]
        sleep(0.002)
        close(state)
        @test all(user -> fetch(user) isa StaleHandleError, users)
    end
end

# A garbage collection waits for the calls of all threads, and a group that begins for a save, which waits for the other group.
Threads.nthreads() > 1 && @testset "a thread collects in its group while another one's begins" begin
    MMSBState() do state
        page, other = create_page!(state, 1000), create_page!(state, 1000)
        stage = Threads.Atomic{Int}(0)
        await(reached) = while stage[] < reached
            GC.safepoint()
            yield()
        end
        Threads.@threads for thread in 1:2
            if thread == 1
                group(state) do
                    write_page!(page, [0x01])
                    stage[] = 1
                    await(2)
                    ccall(:usleep, Cint, (Cuint,), 100_000)    # the other thread is in group by now
                    GC.gc()
                end
            else
                await(1)
                saving = async_save_bytes(state)
                ccall(:usleep, Cint, (Cuint,), 50_000)
                stage[] = 2
                group(() -> write_page!(other, [0x02]), state)
                wait(saving)
            end
        end
        @test read_page(page, 1:1) == [0x01] && read_page(other, 1:1) == [0x02]
    end
end
