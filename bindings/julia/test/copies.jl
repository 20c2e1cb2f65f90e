# What deepcopy and Serialization do with the package's objects.

using Distributed
using Serialization

function through_a_file(object)
    io = IOBuffer()
    serialize(io, object)
    return deserialize(seekstart(io))
end

function texts(delta)
    record = unsafe_load(getfield(delta, :made))
    return map(text -> text == C_NULL ? nothing : unsafe_string(text), (record.source, record.intent))
end

# As Distributed sends it to another process, where the error is thrown.
function through_a_socket(object)
    io = IOBuffer()
    serialize(Distributed.ClusterSerializer(io), object)
    return deserialize(Distributed.ClusterSerializer(seekstart(io)))
end

@testset "a delta is copied by its value" begin
    MMSBState() do state
        page = create_page!(state, 100, CPU_LOCATION)
        deltas = [
            Delta([1, 2, 50], UInt8[1, 2, 3]; epoch = 7, source = "größe", intent = "why"),
            Delta(3:5, UInt8[1, 2, 3]), Delta(Int[], UInt8[]), Delta([true, false, true], UInt8[9, 8, 7]),
            Delta(BitVector([true, false, true]), UInt8[9, 8, 7]),
            delta_from_pages(page, apply_delta!(clone_page(state, page.id), [4], [0x04])),
        ]
        push!(deltas, convert_delta(first(deltas), :sparse_bits))
        for copied in (deepcopy, through_a_file, through_a_socket), delta in deltas
            made = copied(delta)
            @test made !== delta
            @test (made.kind, made.epoch, made.page_id, made.payload) == (delta.kind, delta.epoch, delta.page_id, delta.payload)
            @test texts(made) == texts(delta)
        end
        delta = deltas[1]
        twice = deepcopy([delta, delta])
        @test twice[1] === twice[2]
        copies = [deepcopy(Delta([1, 2, 3], UInt8[1, 2, 3])) for _ in 1:50]
        GC.gc()
        others = [Delta([50, 51, 52], fill(0xee, 3)) for _ in 1:50]
        foreach(copy -> apply_delta!(page, copy), copies)
        @test read_page(page, 1:3) == 1:3 && all(iszero, read_page(page, 4:100))
        @test length(others) == 50
    end
end

@testset "what was serialized into a page is read from there" begin
    MMSBState() do state
        io = IOBuffer()
        serialize(io, Dict("name" => [1, 2, 3]))
        bytes = take!(io)
        page = create_page!(state, length(bytes) + 8, CPU_LOCATION)
        write_page!(page, bytes)
        with_page(page) do memory
            @test deserialize(IOBuffer(memory)) == Dict("name" => [1, 2, 3])
            @test read(IOBuffer(memory)) == [bytes; zeros(UInt8, 8)]
            @test read(IOBuffer(memory), Int64) == reinterpret(Int64, bytes[1:8])[1]
        end
    end
end

@testset "what stands for something in the process is neither copied nor sent" begin
    with_devices() do state
        page = create_page!(state, 100, CPU_LOCATION)
        path = joinpath(mktempdir(), "saved")
        ticket = async_save_snapshot(state, path)
        wait(ticket)
        snapshot = Snapshot(path)
        runtime = get_runtime(state)
        stream = open_stream!(runtime)
        block = allocate_block!(stream, 100)
        buffer, queue, pool = GPUCommandBuffer(10), CPUPropagationQueue(10), GPUMemoryPool(state)
        for object in (
            state, page, page.metadata, ticket, snapshot, first(get_pages(snapshot)), runtime, stream, block, buffer, queue, pool,
        )
            for copied in (deepcopy, through_a_file, through_a_socket), thing in (object, [object], Dict(1 => object))
                failure = thrown(() -> copied(thing))
                @test failure isa ArgumentError && occursin("cannot be serialized or copied", failure.msg)
            end
        end
        foreach(close, (buffer, queue, pool, snapshot))
        free_block!(block)
        close(stream)
    end
end
