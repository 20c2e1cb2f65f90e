# Pages as tensors of DLPack, by the functions of LibMMSB.

const TensorOptions, TensorInfo = LibMMSB.mmsb_tensor_options_t, LibMMSB.mmsb_tensor_info_t

@testset "a page is exported as a tensor, and adopted from it" begin
    state = MMSBState()
    page = create_page!(state, 1000, CPU_LOCATION)
    tensor, info, again = Ref{Ptr{Cvoid}}(C_NULL), Ref{TensorInfo}(), Ref{UInt64}(0)
    options = Ref{TensorOptions}()
    LibMMSB.mmsb_tensor_options_init(options)
    @test (options[].versioned, options[].ndim, options[].bits, options[].lanes) == (1, 1, 8, 1)
    MMSB.check(LibMMSB.mmsb_page_export_tensor(MMSB.handle(page), options, tensor))
    LibMMSB.mmsb_tensor_info_init(info)
    MMSB.check(LibMMSB.mmsb_tensor_info(tensor[], Int32(1), info))
    @test (info[].bytes, info[].device_type, info[].read_only) == (1000, 1, 0)
    @test live_objects(LibMMSB.MMSB_KIND_TENSOR) == 1
    @test fails(() -> resize_page!(state, page.id, 10), PageBusyError, 22)
    context = MMSB.handle(state)
    MMSB.check(LibMMSB.mmsb_page_adopt_tensor(context, tensor[], Int32(1), C_NULL, again))
    bytes = UInt8[1, 2, 3]
    MMSB.check(LibMMSB.mmsb_page_write(again[], 5, bytes, 3))
    @test read_page(page)[6:8] == bytes
    MMSB.check(LibMMSB.mmsb_page_destroy(again[]))
    @test live_objects(LibMMSB.MMSB_KIND_TENSOR) == 0
    @test resize_page!(state, page.id, 10).size == 10
    @test LibMMSB.mmsb_tensor_info(C_NULL, Int32(1), info) == 10
    @test LibMMSB.mmsb_tensor_to_arrow(C_NULL, Int32(1), C_NULL, C_NULL) == 10
    @test LibMMSB.mmsb_tensor_from_arrow(C_NULL, C_NULL, tensor) == 10
    LibMMSB.mmsb_tensor_capsule_end(C_NULL)    # nothing
    close(state)
end
