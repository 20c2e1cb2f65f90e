# Groups: the do-block commits or undoes all that it changes.

@testset "the end of the block commits" begin
    folder = joinpath(mktempdir(), "journal")
    MMSBState() do state
        open_journal!(state, folder; durability = :call)
        first_page = create_page!(state, 10)
        before = get_journal_info(state).last
        made = group(state) do
            page = create_page!(state, 20)
            write_page!(page, UInt8[1, 2, 3])
            write_page!(first_page, UInt8[9])
            add_dependency!(state, first_page, page)
            @test get_journal_info(state).last == before
            page
        end
        @test get_journal_info(state).last > before
        restored = load_snapshot(; journal = folder)
        @test read_page(get_page(restored, made.id)) == read_page(made)
        @test read_page(get_page(restored, first_page.id))[1] == 9
        @test length(get_parents(get_page(restored, made.id))) == 1
        close(restored)
    end
end

@testset "an error undoes the block" begin
    MMSBState() do state
        page = create_page!(state, 10)
        write_page!(page, UInt8[5])
        epoch = page.epoch
        made = Ref{Any}()
        failure = thrown() do
            group(state) do
                made[] = create_page!(state, 30)
                write_page!(page, UInt8[6])
                apply_delta!(page, [2], UInt8[7])
                error("undone")
            end
        end
        @test failure isa ErrorException
        @test read_page(page) == UInt8[5, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        @test page.epoch == epoch
        @test length(state) == 1
        @test fails(() -> read_page(made[]), StaleHandleError, 12)
        @test fails(() -> group(() -> group(() -> 1, state), state), MMSBError, 15)
        @test fails(() -> group(() -> save_snapshot(state, tempname()), state), PageBusyError, 22) # a save waits for all groups
        @test fails(() -> group(() -> close(state), state), StaleHandleError, 12)
    end
end

@testset "a pin stops the undoing for a while" begin
    MMSBState() do state
        page = create_page!(state, 1000)
        fail_pinned(pin) = thrown() do
            group(state) do
                resize_page!(page, 2000)
                pin()
                error("mine")
            end
        end
        # The next group undoes it. The pin is one that `with_page` does not end.
        pin() = MMSB.fill_reference(Ptr{Cvoid}, LibMMSB.mmsb_page_pin, page, LibMMSB.MMSB_PIN_READ)
        failure = @test_logs (:warn, r"could not be undone") match_mode = :any fail_pinned(pin)
        @test failure == ErrorException("mine")
        @test fails(() -> group(() -> 1, state), PageBusyError, 22)
        MMSB.call(LibMMSB.mmsb_page_unpin, page, LibMMSB.MMSB_PIN_READ)
        @test page.size == 2000
        @test group(() -> page.size, state) == 1000
        # The end of the thread's `with_page` undoes it.
        gate = Channel{Nothing}(0)
        reader = Ref{Task}()
        failure = @test_logs (:warn, r"could not be undone") match_mode = :any fail_pinned() do
            reader[] = @async with_page(_ -> take!(gate), page)
            yield()
        end
        @test failure == ErrorException("mine") && page.size == 2000
        put!(gate, nothing)
        wait(reader[])
        @test page.size == 1000 && isempty(state.undoing)
        @test read_page(write_page!(page, UInt8[5]), 1:1) == [5]
    end
end
