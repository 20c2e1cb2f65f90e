# The guard of host pages: writes through pointers past a page's ends, and into memory that a page has left.

address_of(page) = with_page(pointer, page)

@testset "an overrun is thrown by the next call, once" begin
    MMSBState(; guard_every = 1) do state
        page, other = create_page!(state, 100, CPU_LOCATION), create_page!(state, 100, CPU_LOCATION)
        unsafe_store!(address_of(page), 0x07, 101)
        id = page.id
        delete_page!(state, id)
        failure = thrown(() -> write_page!(other, UInt8[1]))
        @test failure isa GuardError && failure.code == 53
        @test startswith(failure.message, "page $id of 100 bytes was written behind its end: at offset 100")
        @test read_page(other)[1] == 0
        write_page!(other, UInt8[1])
        @test read_page(other)[1] == 1
    end
end

@testset "check_guard lists what was found" begin
    MMSBState(; guard_every = 1, guard_quarantine = 1 << 20) do state
        page, ended = create_page!(state, 1000, CPU_LOCATION), create_page!(state, 10, CPU_LOCATION)
        stale, ended_id = address_of(ended), ended.id
        delete_page!(state, ended_id)
        unsafe_store!(address_of(page), 0x07, 0)
        unsafe_store!(stale, 0x09, 3)
        @test check_guard(state) == [
            GuardReport(page.id, :before, 1000, -1, 1, 0xc5, 0x07), GuardReport(ended_id, :ended, 10, 2, 1, 0xdd, 0x09),
        ]
        @test isempty(check_guard(state))
    end
end

@testset "without a guard nothing is checked" begin
    MMSBState() do state
        @test fails(() -> check_guard(state), MMSBError, 15)
    end
end

@testset "closing throws and closes" begin
    state = MMSBState(; guard_every = 1)
    unsafe_store!(address_of(create_page!(state, 100, CPU_LOCATION)), 0x07, 101)
    @test fails(() -> close(state), GuardError, 53)
    @test !isopen(state)
    close(state)
end
