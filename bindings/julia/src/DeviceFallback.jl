"Fallback to the CPU for programs that run without a GPU."
module DeviceFallback

using ..MMSB: AbstractMMSBError, CPU_ONLY, check
using ..MMSB.LibMMSB

export fallback_to_cpu, has_gpu_support

"""
    has_gpu_support()::Bool

Whether this process can use a GPU. A simulated device does not count.
"""
has_gpu_support() = any(record -> capability_name(record) == "cuda" && record.available == 1, capabilities())

function capabilities()
    count = Ref{Csize_t}(0)
    check(mmsb_capabilities(C_NULL, 0, count))
    records = Vector{mmsb_capability_t}(undef, count[])
    check(mmsb_capabilities(records, length(records), count))
    return records
end

capability_name(record) = String(UInt8[c for c in Iterators.takewhile(!iszero, reinterpret(UInt8, collect(record.name)))])

# The codes for a device that is missing, cannot do the call, failed or is lost.
const DEVICE_FAILURES = (MMSB_E_UNSUPPORTED, MMSB_E_NO_DEVICE, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST)

"""
    fallback_to_cpu(f)

The result of `f()`. If `f` throws because a device is missing or fails, this warns and runs `f` a second time on the CPU: pages
that this task creates or moves then lie in host memory, whatever location the call names. So `f` must be able to run twice.
"""
function fallback_to_cpu(f)
    try
        return f()
    catch failure
        failure isa AbstractMMSBError && failure.code in DEVICE_FAILURES || rethrow()
        @warn "the device is not available: running on the CPU" failure.message
    end
    return task_local_storage(f, CPU_ONLY, true)
end

end
