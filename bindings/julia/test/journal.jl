# The journal: snapshot and tail give the state of the last call, also of one in between.

@testset "snapshot and tail" begin
    folder = mktempdir()
    start, journal = joinpath(folder, "start"), joinpath(folder, "journal")
    MMSBState() do state
        page = create_page!(state, 5000)
        save_snapshot(state, start)
        @test open_journal!(state, journal; durability = :call) === state
        numbers = map(1:5) do turn
            apply_delta!(page, [turn], UInt8[turn])
            get_journal_info(state).last
        end
        other = create_page!(state, 70)
        write_page!(other, [0x01, 0x02])
        delete_page!(state, create_page!(state, 8))
        @test sync_journal(state) === nothing
        info = get_journal_info(state)
        @test info.first == 2 && info.last == info.synced > 5 && info.segments >= 1 && info.bytes > 0
        @test 0 <= info.space_waited <= info.waited && (info.waits > 0) == (info.waited > 0)
        restored = load_snapshot(start; journal = journal)
        @test length(restored) == 2
        @test read_page(get_page(restored, page.id)) == read_page(page)
        @test read_page(get_page(restored, other.id)) == read_page(other)
        for turn in 1:5
            restore!(restored, start; journal = journal, until = numbers[turn])
            @test get_page(restored, page.id).epoch == turn
            restore!(restored, start; journal = journal, until_epoch = page.id => turn)
            @test get_page(restored, page.id).epoch == turn
            @test length(restored) == (turn < 5 ? 1 : 2) # what follows the last epoch is not beyond it
        end
        restore!(restored, start; journal = journal, until_time = 1e9)
        @test get_page(restored, page.id).epoch == 0
        close(restored)
        save_snapshot(state, joinpath(folder, "next"))
        @test trim_journal!(state, joinpath(folder, "next")) === state
        @test close_journal!(state) === state
        @test fails(() -> get_journal_info(state), MMSBError, 15)
        @test fails(() -> sync_journal(state), MMSBError, 15)
    end
end

@testset "what a journal refuses" begin
    MMSBState() do state
        folder = mktempdir()
        @test thrown(() -> open_journal!(state, folder; durability = :sometimes)) isa ArgumentError
        @test thrown(() -> open_journal!(state, folder; colour = :red)) isa ArgumentError
        @test thrown(() -> open_journal!(state, "a\0b")) isa ArgumentError
        @test fails(() -> open_journal!(state, ""), MMSBError, 10)
        @test MMSB.error_type(MMSB.LibMMSB.MMSB_E_NOT_DURABLE) == NotDurableError
        @test fails(() -> open_journal!(state, folder; interval_ms = 0), MMSBError, 10)
        open_journal!(state, joinpath(folder, "one"); segment_bytes = 1 << 20, keep = true)
        @test fails(() -> open_journal!(state, joinpath(folder, "two")), MMSBError, 21)
        close_journal!(state)
    end
end
