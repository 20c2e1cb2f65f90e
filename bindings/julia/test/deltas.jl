# Deltas. What they mark is read from the change mask.

function marked(page)
    bits = zeros(UInt8, cld(page.size, 8))
    MMSB.call(LibMMSB.mmsb_page_mask_read, page, 0, bits, page.size)
    return [position for position in 1:page.size if bits[(position-1)÷8+1] >> ((position - 1) % 8) & 1 == 1]
end

@testset "mask and data" begin
    MMSBState() do state
        for make_mask in (identity, BitVector, mask -> view(mask, 1:length(mask)), mask -> view(BitVector(mask), :))
            page = create_page!(state, 5000, CPU_LOCATION)
            mask, data = fill(false, 5000), fill(0xee, 5000)
            mask[[11, 12, 4097]] .= true
            data[[11, 12, 4097]] = [0x01, 0x02, 0x03]
            @test apply_delta!(page, make_mask(mask), data) === page
            expected = zeros(UInt8, 5000)
            expected[[11, 12, 4097]] = [0x01, 0x02, 0x03]
            @test read_page(page) == expected
            @test marked(page) == [11, 12, 4097]
            @test page.epoch == 1
        end
    end
end

@testset "positions and values" begin
    MMSBState() do state
        page = create_page!(state, 100, CPU_LOCATION)
        @test apply_delta!(page, [100, 1, 50, 1], UInt8[1, 2, 3, 4]) === page
        @test read_page(page)[[1, 50, 100]] == [4, 3, 1]
        @test marked(page) == [1, 50, 100]
        @test apply_delta!(page, 2:4, UInt8[7, 8, 9]) === page
        @test read_page(page, 1:5) == [4, 7, 8, 9, 0]
        @test apply_delta!(page, Int32[5], view(UInt8[1, 2], 2:2)).epoch == 3
        @test apply_delta!(page, UInt64[6], 0x05:0x05).epoch == 4
        @test read_page(page, 5:6) == [2, 5]
        @test marked(page) == [1, 2, 3, 4, 5, 6, 50, 100]
    end
end

@testset "an empty delta moves the epoch only" begin
    MMSBState() do state
        page = create_page!(state, 100, CPU_LOCATION)
        @test apply_delta!(page, Bool[], UInt8[]).epoch == 1
        @test apply_delta!(page, Int[], UInt8[]).epoch == 2
        @test apply_delta!(page, 1:0, UInt8[]).epoch == 3
        @test apply_delta!(page, falses(0), UInt8[]).epoch == 4
        @test marked(page) == []
    end
end

@testset "epoch, source and intent" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        @test apply_delta!(page, [1], [0x01]; epoch = 41, source = "test", intent = "to größe").epoch == 41
        @test apply_delta!(page, [1], [0x02]).epoch == 42
        @test fails(() -> apply_delta!(page, [1], [0x03]; epoch = 42), EpochError, 18)
        for epoch in (-1, big(2)^64)
            failure = thrown(() -> apply_delta!(page, [1], [0x03]; epoch = epoch))
            @test failure isa ArgumentError && occursin(string(epoch), failure.msg)
        end
        @test fails(() -> apply_delta!(page, [1], [0x03]; source = "broken \xff"), MMSBError, 10)
        @test thrown(() -> apply_delta!(page, [1], [0x03]; source = "a\0b")) isa ArgumentError
        @test read_page(page, 1:1) == [0x02]
        @test page.epoch == 42
    end
end

@testset "a delta that is refused changes nothing" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        write_page!(page, fill(0x11, 10))
        for (where_to, data, code) in (
            (fill(true, 10), zeros(UInt8, 9), 17), (trues(10), zeros(UInt8, 0), 17), (fill(true, 11), zeros(UInt8, 11), 14),
            (trues(11), zeros(UInt8, 11), 14), ([1, 2], zeros(UInt8, 1), 17), ([1, 2], zeros(UInt8, 0), 17),
            ([1, 11], zeros(UInt8, 2), 14), ([1, 0], zeros(UInt8, 2), 14), ([typemax(Int)], zeros(UInt8, 1), 14),
            ([big(2)^70], zeros(UInt8, 1), 14), (big(2)^70:big(2)^70, zeros(UInt8, 1), 14),
            (1:11, zeros(UInt8, 11), 14), (0:1, zeros(UInt8, 2), 14), (2:5, zeros(UInt8, 3), 17),
        )
            @test fails(() -> apply_delta!(page, where_to, data), AbstractMMSBError, code)
            @test fails(() -> apply_deltas!(state, [(page, [1], [0x01]), (page, where_to, data)]), AbstractMMSBError, code)
        end
        @test read_page(page) == fill(0x11, 10)
        @test page.epoch == 0
        @test marked(page) == []
        @test apply_delta!(page, [10], [0x22]).epoch == 1
    end
end

@testset "many deltas in one call, in their order" begin
    MMSBState() do state
        first_page, second_page = create_pages!(state, 100, 2)
        list = [
            (first_page, [1, 2], UInt8[1, 2]), (second_page, 1:3, UInt8[7, 8, 9]), (first_page.id, [2], UInt8[5]),
            (second_page, [trues(1); falses(99)], fill(0x06, 100)),
        ]
        @test apply_deltas!(state, list) === state
        @test read_page(first_page, 1:3) == [1, 5, 0]
        @test read_page(second_page, 1:4) == [6, 8, 9, 0]
        @test (first_page.epoch, second_page.epoch) == (2, 2)
        @test apply_deltas!(state, []) === state

        failure = thrown(() -> apply_deltas!(state, [list; (second_page, [101], UInt8[1])]))
        @test failure isa OutOfRangeError && occursin("delta 5 of 5", failure.message)
        @test (first_page.epoch, second_page.epoch) == (2, 2)
        @test fails(() -> apply_deltas!(state, [(PageID(999_999), [1], UInt8[1])]), PageNotFoundError, 20)
        MMSBState() do other
            foreign = create_page!(other, 10, CPU_LOCATION)
            @test fails(() -> apply_deltas!(state, [(foreign, [1], UInt8[1])]), MismatchError, 17)
        end
    end
end

@testset "random deltas against a plain vector" begin
    MMSBState() do state
        page = create_page!(state, 777, CPU_LOCATION)
        expected, changed = zeros(UInt8, 777), falses(777)
        for round in 1:300
            if rand(Bool)
                mask = rand(Bool, rand(0:777))
                data = rand(UInt8, length(mask))
                apply_delta!(page, rand(Bool) ? mask : BitVector(mask), data)
                for position in findall(mask)
                    expected[position] = data[position]
                    changed[position] = true
                end
            else
                positions = rand(1:777, rand(0:50))
                values = rand(UInt8, length(positions))
                apply_delta!(page, positions, values)
                for (position, value) in zip(positions, values)
                    expected[position] = value
                    changed[position] = true
                end
            end
        end
        @test read_page(page) == expected
        @test marked(page) == findall(changed)
        @test page.epoch == 300
    end
end
