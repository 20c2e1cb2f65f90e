# Work that takes time.

@testset "work runs beside the program" begin
    MMSBState() do state
        ticket = async_create_pages!(state, 64, 20_000)
        @test ticket isa Ticket
        ticks = Ref(0)
        other = @async while !isready(ticket)
            ticks[] += 1
            yield()
        end
        @test wait(ticket) === nothing
        wait(other)
        @test isready(ticket)
        @test progress(ticket) == (20_000, 20_000)
        pages = fetch(ticket)
        @test length(pages) == 20_000 == length(state)
        @test pages[end].size == 64
        @test string(ticket) == "Ticket(ended)"
        close(ticket)
        close(ticket)
        @test fails(() -> progress(ticket), StaleHandleError, 12)
    end
end

@testset "work that fails says so to whoever waits" begin
    MMSBState(; memory_limit = 1 << 20) do state
        ticket = async_create_pages!(state, 4096, 10_000)
        @test fails(() -> fetch(ticket), MemoryLimitError, 31)
        @test fails(() -> wait(ticket), MemoryLimitError, 31)
        close(ticket)
        @test length(state) == 0
    end
end

@testset "cancel!, and work after other work" begin
    MMSBState() do state
        first_work = async_create_pages!(state, 64, 300_000)
        second_work = async_create_pages!(state, 64, 10; after = [first_work])
        @test cancel!(first_work) === first_work
        outcome = thrown(() -> wait(first_work))
        # Either it was stopped, or it had ended before.
        @test outcome === nothing || (outcome isa WorkCancelledError && outcome.code == 25)
        followed = thrown(() -> wait(second_work))
        @test length(state) == (outcome === nothing ? 300_010 : 0)
        @test (outcome === nothing) == (followed === nothing)
        @test followed === nothing || followed isa WorkCancelledError
        foreach(close, (first_work, second_work))
    end
    MMSBState() do state
        first_work = async_create_pages!(state, 64, 1000)
        second_work = async_create_pages!(state, 64, 10; after = [first_work])
        @test length(fetch(second_work)) == 10
        @test isready(first_work)
        foreach(close, (first_work, second_work))
    end
end

@testset "a wait has an end" begin
    MMSBState() do state
        work = async_create_pages!(state, 64, 500_000)
        outcome = thrown(() -> wait(work; timeout = 0))
        @test outcome === nothing || (outcome isa WaitTimeoutError && outcome.code == 24)
        close(work)
        @test length(state) in (0, 500_000)
    end
end

@testset "work whose ticket is dropped goes on" begin
    MMSBState() do state
        async_create_pages!(state, 64, 5000)
        GC.gc()
        @test comes(() -> length(state) >= 5000)
        @test length(state) == 5000
        # The next work lets go of the tickets that have ended. The pages are all there before their ticket says so.
        @test comes() do
            close(async_create_pages!(state, 64, 1))
            isempty(MMSB.running)
        end
    end
    GC.gc()
    GC.gc()
end
