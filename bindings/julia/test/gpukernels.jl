# The kernels, on host arrays and on blocks of a simulated device, against Julia's own loops.

# The same call on host arrays and on blocks with their bytes; what the first argument holds afterwards.
function on_host_and_device(launch, stream, arrays::Vector{UInt8}...)
    host = map(copy, arrays)
    @test launch(host...) === host[1]
    blocks = map(arrays) do array
        write_block!(allocate_block!(stream, length(array)), array)
    end
    @test launch(blocks...) === blocks[1]
    @test read_block(blocks[1]) == host[1]
    foreach(free_block!, blocks)
    return host[1]
end

bytes_of(numbers) = collect(reinterpret(UInt8, numbers))

@testset "kernels do on a device what they do on the host" begin
    MMSBState(; simulate = :always, simulated_memory = 64 << 20) do state
        stream = open_stream!(create_runtime!(state))
        for size in (1, 15, 16, 1000, 70_001)
            base, other, mask = rand(UInt8, size), rand(UInt8, size), rand(UInt8, size) .* rand(Bool, size)
            @test on_host_and_device(launch_delta_merge!, stream, base, mask, other) == ifelse.(mask .!= 0, other, base)
            count = size ÷ 2
            copied = on_host_and_device((to, from) -> launch_page_copy!(to, from, count), stream, base, other)
            @test copied == vcat(other[1:count], base[count+1:end])
            @test on_host_and_device(launch_page_zero!, stream, base) == zeros(UInt8, size)
            near = map(byte -> rand() < 0.1 ? ~byte : byte, base)
            @test on_host_and_device(launch_page_compare!, stream, other, base, near) == (base .== near)
            places = UInt64.(unique(rand(1:size, count + 1)))
            values = rand(UInt8, length(places))
            wanted = copy(base)
            wanted[places] = values
            @test launch_sparse_delta_apply!(copy(base), places, values) == wanted
            @test launch_sparse_delta_apply!(copy(base), UInt32.(places), values) == wanted
        end
    end
end

@testset "indices in a block are numbers of 8 bytes" begin
    MMSBState(; simulate = :always, simulated_memory = 64 << 20) do state
        stream = open_stream!(create_runtime!(state))
        base = write_block!(allocate_block!(stream, 10), zeros(UInt8, 10))
        places = write_block!(allocate_block!(stream, 24), bytes_of(UInt64[1, 10, 11]))
        values = write_block!(allocate_block!(stream, 3), UInt8[7, 8, 9])
        launch_sparse_delta_apply!(base, places, values)    # a device passes over index 11
        @test read_block(base) == UInt8[7, 0, 0, 0, 0, 0, 0, 0, 0, 8]
        @test fails(() -> launch_sparse_delta_apply!(base, places, base), MismatchError, 17)
        foreach(free_block!, (base, places, values))
    end
end

@testset "masks and results may be Bool, and arrays of numbers are bytes" begin
    result = fill(true, 4)
    @test launch_page_compare!(result, UInt8[1, 2, 3, 4], UInt8[1, 0, 3, 0]) == [true, false, true, false]
    @test launch_delta_merge!(UInt8[1, 2, 3], [false, true, false], UInt8[7, 8, 9]) == UInt8[1, 8, 3]
    @test launch_page_zero!([1.5, 2.5]) == [0.0, 0.0]
    @test launch_page_copy!(zeros(Int32, 3), Int32[1, 2, 3], 8) == Int32[1, 2, 0]
    @test launch_page_zero!(UInt8[]) == UInt8[]
end

@testset "what kernels refuse" begin
    two, three = zeros(UInt8, 2), zeros(UInt8, 3)
    @test fails(() -> launch_delta_merge!(two, three, two), MismatchError, 17)
    @test fails(() -> launch_delta_merge!(two, two, three), MismatchError, 17)
    @test fails(() -> launch_delta_merge!(two, two, zeros(UInt8, 2)), MMSBError, 10)    # over its own mask
    @test fails(() -> launch_page_compare!(two, three, zeros(UInt8, 3)), MismatchError, 17)
    @test fails(() -> launch_page_compare!(two, zeros(UInt8, 2), three), MismatchError, 17)
    @test fails(() -> launch_page_copy!(two, three, 3), OutOfRangeError, 14)
    @test fails(() -> launch_page_copy!(two, three, -1), OutOfRangeError, 14)
    @test fails(() -> launch_page_copy!(two, two, 2), MMSBError, 10)
    @test fails(() -> launch_sparse_delta_apply!(two, [3], UInt8[1]), OutOfRangeError, 14)
    @test fails(() -> launch_sparse_delta_apply!(two, [0], UInt8[1]), OutOfRangeError, 14)
    @test fails(() -> launch_sparse_delta_apply!(two, [1, 2], UInt8[1]), MismatchError, 17)
    @test thrown(() -> launch_sparse_delta_apply!(two, Int16[1], UInt8[1])) isa ArgumentError
    @test thrown(() -> launch_page_zero!(["text"])) isa ArgumentError
    @test two == zeros(UInt8, 2)
    MMSBState(; simulate = :always, simulated_memory = 64 << 20) do state
        block = allocate_block!(open_stream!(create_runtime!(state)), 2)
        @test thrown(() -> launch_page_copy!(block, two, 2)) isa ArgumentError
        free_block!(block)
    end
end

@testset "a configuration covers the bytes" begin
    @test compute_optimal_kernel_config(0) == (256, 1)
    @test compute_optimal_kernel_config(1) == (256, 1)
    @test compute_optimal_kernel_config(64 * 256 + 1) == (256, 2)
    @test compute_optimal_kernel_config(1 << 40) == (256, 1024)
    @test thrown(() -> compute_optimal_kernel_config(-1)) isa ArgumentError
end

@testset "kernels are values with a name" begin
    kernels = (delta_merge_kernel!, page_copy_kernel!, page_zero_kernel!, page_compare_kernel!, sparse_delta_apply_kernel!)
    @test allunique(kernels)
    @test string(page_copy_kernel!) == "Kernel(:copy)"
end
