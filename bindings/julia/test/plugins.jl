# Memory of a runtime for other packages, and the functions that PyTorch and CuPy call.

@testset "memory comes and goes by address" begin
    with_devices() do state
        runtime = create_runtime!(state; pool = "")
        stream, other = open_stream!(runtime), open_stream!(runtime)
        address = allocate_address!(runtime, 3 << 20; stream)
        @test address isa Ptr{Cvoid} && UInt(address) % 512 == 0
        @test get_runtime_statistics(runtime).live == 3 << 20
        record_address!(address, native_stream(other))
        free_address!(address, stream)
        @test fails(() -> free_address!(address, stream), MMSBError, 20)
        @test fails(() -> record_address!(address, stream), MMSBError, 20)
        everywhere = allocate_address!(runtime, 100)
        free_address!(everywhere)
        @test fails(() -> allocate_address!(runtime, 65 << 20), MemoryLimitError, 30)
        @test fails(() -> allocate_address!(runtime, 1; stream = Ptr{Cvoid}(UInt(0xabc0))), MMSBError, 11)
        @test get_runtime_statistics(runtime).live == 0
    end
end

@testset "functions of other libraries" begin
    with_devices() do state
        runtime = create_runtime!(state; pool = "")
        live() = get_runtime_statistics(runtime).live
        device, none = Int32(0), C_NULL
        MMSB.check(LibMMSB.mmsb_plugin_bind(device, MMSB.handle(runtime)))
        tensor = LibMMSB.mmsb_torch_allocate(Csize_t(1000), device, none)
        segment = LibMMSB.mmsb_torch_allocate_segment(Csize_t(2000), device, none)
        array = LibMMSB.mmsb_cupy_malloc(Ptr{Cvoid}(UInt(MMSB.handle(runtime))), Csize_t(3000), device)
        @test C_NULL ∉ (tensor, segment, array) && live() == 6000
        bytes = Ref{Csize_t}(0)
        @test LibMMSB.mmsb_torch_base(tensor + 999, bytes) == tensor && bytes[] == 1000
        LibMMSB.mmsb_torch_record_stream(tensor, none)
        LibMMSB.mmsb_torch_free(tensor, Csize_t(1000), device, none)
        LibMMSB.mmsb_torch_free(segment, Csize_t(2000), device, none)
        LibMMSB.mmsb_cupy_free(none, array, device)
        @test live() == 0
        LibMMSB.mmsb_torch_empty_cache()
        LibMMSB.mmsb_torch_memory_fraction(0.0, device)
        @test LibMMSB.mmsb_torch_allocate(Csize_t(1), device, none) == C_NULL
        MMSB.check(LibMMSB.mmsb_plugin_bind(device, UInt64(0)))
    end
end
