# States: options, closing, errors.

@testset "a state lives until it is closed" begin
    state = MMSBState()
    @test isopen(state)
    @test length(state) == 0
    page = create_page!(state, 10, CPU_LOCATION)
    @test length(state) == 1
    @test occursin("1 pages", string(state))
    close(state)
    close(state)
    @test !isopen(state)
    @test occursin("closed", string(state))
    @test fails(() -> create_page!(state, 10, CPU_LOCATION), StaleHandleError, 12)
    @test fails(() -> get_page(state, page.id), StaleHandleError, 12)
    @test fails(() -> read_page(page), StaleHandleError, 12)
    @test fails(() -> page.size, StaleHandleError, 12)
    @test fails(() -> page.epoch, StaleHandleError, 12)
    @test fails(() -> page.location, StaleHandleError, 12)
    @test fails(() -> delete_page!(state, page.id), StaleHandleError, 12)
end

@testset "the form with a function closes the state, also after an error" begin
    seen = Ref{MMSBState}()
    @test MMSBState(state -> (seen[] = state; 7)) == 7
    @test !isopen(seen[])
    @test thrown(() -> MMSBState(state -> (seen[] = state; error("mine")))) == ErrorException("mine")
    @test !isopen(seen[])
end

@testset "options" begin
    folder = mktempdir()
    MMSBState(; default_location = DISK_LOCATION, disk_path = folder) do state
        @test create_page!(state, 10).location == DISK_LOCATION
    end
    MMSBState(; memory_limit = 1 << 20, huge_pages = false) do state
        @test fails(() -> create_page!(state, 1 << 21, CPU_LOCATION), MemoryLimitError, 31)
        @test length(state) == 0
        @test create_page!(state, 4096, CPU_LOCATION).size == 4096
    end
    MMSBState(;
        simulate = :off, fallback = :error, default_device = 0, simulated_devices = 1, simulated_memory = 1 << 20,
    ) do state
        @test create_page!(state, 10).location == CPU_LOCATION
    end
end

@testset "bad options are refused" begin
    @test thrown(() -> MMSBState(; simulate = :sometimes)) isa ArgumentError
    @test thrown(() -> MMSBState(; fallback = :never)) isa ArgumentError
    @test thrown(() -> MMSBState(; colour = :red)) isa ArgumentError
    @test thrown(() -> MMSBState(; memory_limit = "much")) isa ArgumentError
    @test thrown(() -> MMSBState(; disk_path = "a\0b")) isa ArgumentError
    @test fails(() -> MMSBState(; disk_path = "/nowhere/at/all"), MMSBError, 50)
end

@testset "errors print their type, text and code" begin
    @test MMSBError <: AbstractMMSBError <: Exception
    for type in (
        MMSBError, PageNotFoundError, UnsupportedLocationError, StaleHandleError, OutOfRangeError, MismatchError, EpochError,
        PageBusyError, WaitTimeoutError, WorkCancelledError, CorruptFileError, MemoryLimitError,
    )
        @test type <: AbstractMMSBError
        text = sprint(showerror, type(Int32(77), "what happened"))
        @test occursin(string(nameof(type)), text) && occursin("what happened", text) && occursin("77", text)
    end
    @test MMSB.error_type(Int32(4711)) === MMSBError
    @test fails(() -> MMSB.check(Int32(4711)), MMSBError, 4711)
end
