# The garbage collector and the library.

@noinline function abandon_state()
    state = MMSBState()
    page = create_page!(state, 100_000, CPU_LOCATION; metadata = Dict(:name => "abandoned"))
    write_page!(page, ones(UInt8, 100_000))
    return nothing
end

@testset "a state that nothing refers to is closed" begin
    for _ in 1:20
        abandon_state()
    end
    # A thread that collects meanwhile runs the finalizers, which this one does not wait for.
    @test comes() do
        GC.gc()
        live_objects(LibMMSB.MMSB_KIND_CONTEXT) <= 1
    end
end

@noinline page_of_dropped_state() = create_page!(MMSBState(), 64, CPU_LOCATION)

@testset "a page keeps its state" begin
    page = page_of_dropped_state()
    GC.gc()
    write_page!(page, fill(0x05, 64))
    @test read_page(page) == fill(0x05, 64)
    close(MMSB.owner(page))
end

# One task's share of the stress, at least one round: states that are closed and states that are left to the collector, pages,
# deltas, errors, pins.
function stress(deadline)
    rounds = 0
    while rounds == 0 || time() < deadline
        state = MMSBState()
        page = create_page!(state, 4096, CPU_LOCATION; metadata = Dict(:round => string(rounds)))
        mask, data = rand(Bool, 4096), rand(UInt8, 4096)
        apply_delta!(page, mask, data)
        read_page(page) == data .* mask || error("a delta went astray")
        fails(() -> write_page!(page, data; offset = 2), OutOfRangeError, 14) || error("an error went astray")
        with_page(bytes -> (yield(); sum(bytes)), page) == sum(data[mask]) || error("a pin went astray")
        pages = create_pages!(state, 64, 10)
        apply_deltas!(state, [(each, 1:3, UInt8[1, 2, 3]) for each in pages])
        all(each -> read_page(each, 1:3) == [1, 2, 3], pages) || error("a batch went astray")
        isodd(rounds) && close(state)
        rounds += 1
        yield()
    end
    return rounds
end

@testset "tasks, threads, finalizers and collections at once" begin
    stress(0)    # compiles it
    deadline = time() + 3
    users = vcat([@async(stress(deadline)) for _ in 1:3], [Threads.@spawn(stress(deadline)) for _ in 1:3])
    collections = 0
    while collections == 0 || time() < deadline
        GC.gc(iseven(collections))
        collections += 1
        sleep(0.005)
    end
    @test all(user -> fetch(user) > 0, users)
    @test collections > 0
    empty!(users)
    GC.gc()
    GC.gc()
end
