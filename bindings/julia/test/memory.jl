# Pages as arrays, arrays as pages, change masks, versions, deltas that are kept, snapshots in memory, the log, memory in use.

@testset "a page is an array of any plain type" begin
    MMSBState() do state
        page = create_page!(state, 800)
        result = with_array(page, Float64, (10, 10); write = true) do array
            @test array isa Matrix{Float64} && size(array) == (10, 10)
            array .= 1:10
            sum(array)
        end
        @test result == 550
        @test with_array(sum, page, Float64, 100) == 550
        @test with_array(array -> array[3, 4], page, Float64, (10, 10)) == 3
        @test read_page(page, 1:8) == reinterpret(UInt8, [1.0])
        with_array(page, Float64, (10, 10)) do array
            @test thrown(() -> array[1] = 2.0) isa ArgumentError
        end
        version = page.version
        @test with_array(array -> length(array), page, Int16, (2, 3)) == 6
        @test page.version == version
        @test fails(() -> with_array(sum, page, Float64, 101), MismatchError, 17)
        @test fails(() -> with_array(sum, page, Float64, (typemax(Int), typemax(Int))), MismatchError, 17)
        @test thrown(() -> with_array(sum, page, String, 1)) isa ArgumentError
        @test thrown(() -> with_array(sum, page, Float64, (-1,))) isa ArgumentError
        @test thrown(() -> with_array(_ -> error("mine"), page, Float64, 1)) == ErrorException("mine")
        resize_page!(page, 80)    # no pin is left
        @test page.size == 80
    end
end

@testset "what cannot be written is not written" begin
    MMSBState() do state
        page = create_page!(state, 8 * 64)
        values = reshape(collect(1.0:64.0), 8, 8)
        written = [
            array -> mul!(array, values, values), array -> BLAS.gemm!('N', 'N', 1.0, values, values, 0.0, array),
            array -> BLAS.axpy!(1.0, values, array), array -> BLAS.axpy!(1.0, vec(values), vec(array)),
            array -> BLAS.axpy!(64, 1.0, values, 1, array, 1), array -> BLAS.scal!(64, 2.0, array, 1),
            array -> BLAS.blascopy!(64, values, 1, array, 1), array -> lmul!(2.0, array), array -> copyto!(array, values),
            array -> fill!(array, 1.0), array -> rand!(array), array -> (view(array, :, 2) .= 1.0), array -> (array .+= 1.0),
            array -> read!(IOBuffer(rand(UInt8, 512)), array), array -> (reinterpret(Int64, array)[1] = 1),
            array -> mul!(view(array, 1:8, 1:8), values, values), array -> mul!(reshape(array, 8, 8), values, values),
            array -> ccall(:memset, Ptr{Cvoid}, (Ptr{Float64}, Cint, Csize_t), array, 1, 512),
        ]
        for write in written
            @test thrown(() -> with_array(write, page, Float64, (8, 8))) isa Exception
            @test all(iszero, read_page(page))
        end
        @test with_array(array -> adopt_page!(state, array), page, Float64, (8, 8); write = true) isa Page
        @test with_array(array -> thrown(() -> adopt_page!(state, array)), page, Float64, (8, 8)) isa MethodError
    end
end

@testset "what cannot be written is read as any array" begin
    MMSBState() do state
        page = create_page!(state, 8 * 64)
        values = reshape(collect(1.0:64.0), 8, 8)
        write_page!(page, reinterpret(UInt8, vec(values)))
        with_array(page, Float64, (8, 8)) do array
            @test IndexStyle(array) isa IndexLinear && array == values && hash(array) == hash(values)
            for copied in (copy(array), Array(array), collect(array), copyto!(zeros(8, 8), array))
                @test copied isa Matrix{Float64} && copied == values
            end
            @test sum(array) == 2080 && maximum(array) == 64
            @test array .+ 1 == values .+ 1 && map(sqrt, array) == map(sqrt, values)
            @test array * values == values * values && array * values[:, 1] == values * values[:, 1] && array' == values'
            @test array[2:3, :] == values[2:3, :] && view(array, :, 2) == values[:, 2] && vec(array) == vec(values)
            @test reinterpret(UInt64, array) == reinterpret(UInt64, values) && convert(Matrix{Float32}, array) == values
            @test unsafe_load(pointer(array), 3) == 3.0
        end
        with_page(page) do bytes
            buffer = IOBuffer()
            @test write(buffer, bytes) == 512 && take!(buffer) == read_page(page)
            other = write_page!(create_page!(state, 512), bytes)
            @test read_page(other) == bytes
        end
        @test (@allocated with_array(copy, page, Float64, (8, 8))) < 4000    # nothing for each item
    end
end

function fill_and_add!(array)
    total = 0.0
    for pass in 1:3, index in eachindex(array)
        @inbounds array[index] += index
        @inbounds total += array[index]
    end
    return total
end

@testset "with_array is a plain array inside" begin
    MMSBState() do state
        page = create_page!(state, 8 * 1000)
        allocated(page) = @allocated with_array(fill_and_add!, page, Float64, (1000,); write = true)
        allocated(page)
        @test allocated(page) < 2000    # nothing for each element
        @test Core.Compiler.return_type(fill_and_add!, Tuple{Vector{Float64}}) == Float64
        @test with_array(array -> typeof(array), page, Float64, (1000,); write = true) == Vector{Float64}
    end
end

@testset "adopted arrays" begin
    MMSBState() do state
        array = zeros(Int32, 100)
        page = adopt_page!(state, array; id = 7)
        write_page!(page, reinterpret(UInt8, Int32[5]); offset = 5)
        @test array[2] == 5
        array[3] = 9
        @test read_page(page, 9:9) == [9]
        @test fails(() -> resize_page!(page, 5), MMSBError, 15)
        @test fails(() -> adopt_page!(state, array; id = 7), MMSBError, 21)
        @test length(MMSB.adopted) == 1
        matrix = rand(3, 4)
        other = adopt_page!(state, matrix; read_only = true)
        @test fails(() -> write_page!(other, [0x00]), MMSBError, 15)
        @test length(MMSB.adopted) == 2
        delete_page!(page)
        @test length(MMSB.adopted) == 1
        @test thrown(() -> adopt_page!(state, ["text"])) isa ArgumentError
        text = String(fill(0x61, 20))
        @test thrown(() -> adopt_page!(state, codeunits(text))) isa ArgumentError
        @test read_page(adopt_page!(state, codeunits(text); read_only = true)) == codeunits(text)
        for id in (-1, big(2)^64)
            failure = thrown(() -> adopt_page!(state, array; id = id))
            @test failure isa ArgumentError && occursin(string(id), failure.msg)
        end
    end
    @test isempty(MMSB.adopted)
    # A restore ends the page on a thread that Julia does not know.
    state = MMSBState()
    empty = save_bytes(state)
    adopt_page!(state, zeros(10))
    mktempdir() do folder
        path = joinpath(folder, "empty")
        write(path, empty)
        restore!(state, path)
        @test length(state) == 0
    end
    close(state)
    @test isempty(MMSB.adopted)
end

@noinline function adopt_and_forget(end_page, state)
    array = zeros(1000)
    kept = WeakRef(array)
    end_page(adopt_page!(state, array))
    return kept
end

@testset "an adopted array goes with its page" begin
    MMSBState() do state
        deleted = adopt_and_forget(page -> group(() -> delete_page!(page), state), state)
        @test isempty(MMSB.adopted)
        @test comes(() -> (GC.gc(); deleted.value === nothing))
        alive = adopt_and_forget(identity, state)
        GC.gc()
        @test alive.value !== nothing
        failure = thrown(() -> group(() -> (adopt_and_forget(identity, state); error("mine")), state))
        @test failure == ErrorException("mine") && length(MMSB.adopted) == 1
    end
    @test isempty(MMSB.adopted)
    dropped = (() -> adopt_and_forget(page -> nothing, MMSBState()))()
    @test comes(() -> (GC.gc(); dropped.value === nothing))    # no other call of the package
    @test isempty(MMSB.adopted)
end

@testset "released memory outlives its page" begin
    state = MMSBState()
    page = create_page!(state, 10)
    write_page!(page, collect(0x01:0x0a))
    bytes = release_page!(page)
    @test fails(() -> read_page(page), StaleHandleError, 12)
    other = release_page!(state, create_page!(state, 5).id)
    close(state)
    @test bytes == 1:10 && other == zeros(5)
    bytes = other = nothing
    GC.gc()
end

@testset "change masks" begin
    MMSBState() do state
        page = create_page!(state, 100)
        @test get_mask(page) == falses(100)
        apply_delta!(page, [1, 50, 100], [0x01, 0x02, 0x03])
        @test findall(get_mask(page)) == [1, 50, 100]
        @test findall(get_mask(state, page.id)) == [1, 50, 100]
        @test count_mask(page) == 3 == count_mask(state, page.id)
        clear_mask!(page)
        @test count_mask(page) == 0
        apply_delta!(page, 1:2, [0x01, 0x02])
        clear_mask!(state, page.id)
        @test !any(get_mask(page))
    end
end

@testset "versions" begin
    MMSBState() do state
        page = create_page!(state, 10)
        @test page.version == 1 && :version in propertynames(page)
        write_page!(page, [0x01])
        @test page.version == 2
        delete_page!(page)
        @test fails(() -> page.version, StaleHandleError, 12)
    end
end

@testset "deltas that are kept" begin
    MMSBState() do state
        first_one = Delta([1, 3], [0x0a, 0x0b]; epoch = 4)
        second = Delta(2:3, [0x0c, 0x0d]; epoch = 9, source = "somebody")
        @test first_one.kind == :indexed && first_one.epoch == 4 && first_one.payload == [0x0a, 0x0b]
        merged = merge_deltas(first_one, second)
        @test merged.kind == :runs && merged.epoch == 9 && merged.payload == [0x0a, 0x0c, 0x0d]
        page = apply_delta!(create_page!(state, 5), merged)
        @test read_page(page) == [0x0a, 0x0c, 0x0d, 0x00, 0x00] && page.epoch == 9
        for kind in (:dense_bytes, :dense_bits, :sparse_bits, :indexed, :runs)
            converted = convert_delta(merged, kind)
            @test converted.kind == kind
            @test read_page(apply_delta!(create_page!(state, 5), converted)) == read_page(page)
        end
        @test thrown(() -> convert_delta(merged, :other)) isa ArgumentError
        other = create_page!(state, 5)
        difference = delta_from_pages(other, page)
        @test difference.page_id == other.id
        @test read_page(apply_delta!(other, difference)) == read_page(page)
        @test fails(() -> delta_from_pages(page, create_page!(state, 6)), MismatchError, 17)
        masked = Delta([true, false, true], [0x01, 0x02, 0x03])
        @test masked.kind == :dense_bytes
        @test sprint(show, masked) == "Delta(dense_bytes, epoch = 0)"
    end
    GC.gc()
end

@testset "snapshots in memory" begin
    MMSBState() do state
        page = create_page!(state, 5000; id = 3)
        write_page!(page, fill(0x07, 5000))
        bytes = save_bytes(state; compression = :zstd)
        write_page!(page, [0x00])
        create_page!(state, 5; id = 4)
        restore_bytes!(state, bytes)
        @test length(state) == 1
        @test all(==(0x07), read_page(get_page(state, 3)))
        create_page!(state, 5; id = 4)
        restore_bytes!(state, bytes; ids = [3])
        @test length(state) == 2
        bytes[end] = ~bytes[end]
        @test thrown(() -> restore_bytes!(state, bytes)) isa AbstractMMSBError
        @test length(state) == 2
    end
end

@testset "functions that take a page need no state" begin
    MMSBState() do state
        parent, child = create_page!(state, 10), create_page!(state, 10)
        @test add_dependency!(parent, child) == child
        @test get_parents(child) == [parent]
        remove_dependency!(parent, child)
        @test get_children(parent) == Page[]
        @test clone_page(parent).size == 10
        @test resize_page!(parent, 20).size == 20
        @test migrate_page!(parent, DISK_LOCATION).location == DISK_LOCATION
        @test get_page(state, parent) == parent
        delete_page!(child)
        @test get_page(state, child.id) === nothing
        MMSBState() do other
            @test fails(() -> get_page(other, parent), MismatchError, 17)
        end
    end
end

@testset "a ticket has a descriptor" begin
    MMSBState() do state
        ticket = MMSB.async_create_pages!(state, 64, 10)
        descriptor = event_descriptor(ticket)
        wait(ticket)
        @test descriptor == event_descriptor(ticket) && descriptor isa RawFD
        close(ticket)
    end
end

@testset "a page moves behind a stream" begin
    MMSBState(; simulate = :always) do state
        stream = open_stream!(get_runtime(state))
        page = create_page!(state, 1000, CPU_LOCATION)
        write_page!(page, fill(0x05, 1000))
        ticket = async_sync_page_to_gpu!(page, stream)
        @test fetch(ticket) == page && page.location == GPU_LOCATION
        @test read_page(page) == fill(0x05, 1000)
        close(ticket)
        pages = prefetch_pages_to_gpu!(state, [page, create_page!(state, 5, CPU_LOCATION)])
        @test all(page -> page.location == GPU_LOCATION, pages)
    end
end

@testset "the log and the memory of the library" begin
    configure_log(:info)
    MMSBState(_ -> nothing)
    @test any(line -> occursin("context", line), read_log())
    configure_log(:off)
    read_log()
    @test isempty(read_log())
    @test thrown(() -> configure_log(:loud)) isa ArgumentError
    usage = get_memory_usage()
    @test usage[:page_bytes] >= 0 && haskey(usage, :go_heap_bytes)
    MMSBState() do state
        create_pages!(state, 5_000_000, 2) .|> delete_page!
        @test trim_memory!(state) >= 0
    end
end
