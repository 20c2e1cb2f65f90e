# Command buffers, and the queue that the caller drains.

changed!(page, range, value) = apply_delta!(page, collect(range), fill(UInt8(value), length(range)))

@testset "changed bytes follow, with $workers workers" for workers in (0, 1, 3)
    MMSBState() do state
        first, second, page = (create_cpu_page!(state, 100) for _ in 1:3)
        changed!(first, 11:14, 1)
        changed!(second, 13:14, 2)
        buffer = create_gpu_command_buffer(16; workers = workers)
        @test enqueue_propagation_command(buffer, page, [first, second]) === buffer
        @test wait_gpu_queue(buffer) === buffer
        @test read_page(page, 10:15) == [0, 1, 1, 2, 2, 0]
        @test page.epoch == 1 && count_mask(page) == 4
        enqueue_propagation_command(buffer, page, Page[])
        wait_gpu_queue(buffer; timeout = 60)
        @test page.epoch == 1
        # Its parents, as they are then.
        add_dependency!(state, second, page)
        add_dependency!(state, first, page)
        enqueue_propagation_command(buffer, page)
        wait_gpu_queue(buffer)
        @test read_page(page, 10:15) == [0, 1, 1, 1, 1, 0]
        statistics = get_command_statistics(buffer)
        @test statistics[:done] == statistics[:enqueued] == 3 && statistics[:workers] == workers
        @test statistics[:capacity] == 16 && statistics[:peak] == 1 && statistics[:failed] == 0
        @test isopen(buffer) && length(buffer) == 0
        close(buffer)
        close(buffer)
        @test !isopen(buffer)
        @test fails(() -> wait_gpu_queue(buffer), StaleHandleError, 12)
        @test fails(() -> enqueue_propagation_command(buffer, page), StaleHandleError, 12)
    end
end

@testset "a kernel that stays on a device" begin
    with_devices() do state
        from, to = create_gpu_page!(state, 5000), create_gpu_page!(state, 5000)
        buffer = create_gpu_command_buffer(16; persistent = true)
        for value in 1:20
            changed!(from, 100:199, value)
            enqueue_propagation_command(buffer, to, [from])
            wait_gpu_queue(buffer)
            @test read_page(to, 99:101) == [0, value, value]
        end
        @test get_command_statistics(buffer)[:done] == 20
        close(buffer)
    end
end

@testset "a full ring" begin
    MMSBState() do state
        page = create_cpu_page!(state, 8)
        buffer = GPUCommandBuffer(2; workers = 0)
        foreach(_ -> enqueue_propagation_command(buffer, page), 1:2)
        @test fails(() -> enqueue_propagation_command(buffer, page; timeout = 0), WaitTimeoutError, 23)
        @test fails(() -> enqueue_propagation_command(buffer, page; timeout = 0.01), WaitTimeoutError, 24)
        @test fails(() -> wait_gpu_queue(buffer; timeout = 0), WaitTimeoutError, 23)
        @test_throws ArgumentError wait_gpu_queue(buffer; timeout = -1)
        @test length(buffer) == 2
        wait_gpu_queue(buffer)
        enqueue_propagation_command(buffer, page; timeout = 0)
        close(buffer; cancel = true)
        @test fails(() -> GPUCommandBuffer(0), MMSBError, 13)
        @test fails(() -> GPUCommandBuffer(1; workers = 65), MMSBError, 10)
    end
end

@testset "failures" begin
    MMSBState() do state
        page, longer, ended = create_cpu_page!(state, 8), create_cpu_page!(state, 9), create_cpu_page!(state, 8)
        changed!(longer, 1:1, 1)
        buffer = GPUCommandBuffer(8; workers = 0)
        enqueue_propagation_command(buffer, page, [longer])
        enqueue_propagation_command(buffer, ended)
        delete_page!(ended)
        wait_gpu_queue(buffer)
        failures = get_command_failures(buffer)
        @test [failure.code for (_, failure) in failures] == [17, 12]
        @test failures[1].second isa MismatchError && occursin("9 bytes", failures[1].second.message)
        @test isempty(get_command_failures(buffer))
        @test fails(() -> enqueue_propagation_command(buffer, page, [page]), MMSBError, 10)
        @test fails(() -> enqueue_propagation_command(buffer, ended), StaleHandleError, 12)
        close(buffer)
    end
end

@testset "CPUPropagationQueue" begin
    MMSBState() do state
        chain = [create_cpu_page!(state, 8) for _ in 1:5]
        queue = CPUPropagationQueue()
        changed!(chain[1], 2:2, 7)
        foreach(i -> push!(queue, chain[i], [chain[i-1]]), 2:4)
        add_dependency!(state, chain[4], chain[5])
        @test push!(queue, chain[5]) === queue
        @test length(queue) == 4 && read_page(chain[5]) == zeros(UInt8, 8)
        @test drain(queue) == 4 && length(queue) == 0
        @test read_page(chain[5]) == [0, 7, 0, 0, 0, 0, 0, 0]
        close(queue)
        small = CPUPropagationQueue(1)
        push!(small, chain[1])
        @test fails(() -> push!(small, chain[1]), WaitTimeoutError, 23)
        close(small; cancel = true)
    end
end

@testset "a buffer keeps the states of its pages, and ends when it is dropped" begin
    @noinline function enqueue_and_drop(buffer)
        state = MMSBState()
        enqueue_propagation_command(buffer, create_cpu_page!(state, 8), [create_cpu_page!(state, 8)])
        return nothing
    end
    @noinline function use_and_drop()
        buffer = GPUCommandBuffer(8; workers = 0)
        enqueue_and_drop(buffer)
        GC.gc()
        wait_gpu_queue(buffer)
        return get_command_statistics(buffer)[:done]
    end
    @test use_and_drop() == 1
    @test nothing_lives()
end
