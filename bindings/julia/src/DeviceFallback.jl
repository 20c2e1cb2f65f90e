"What programs do where there is no GPU."
module DeviceFallback

using ..MMSB: AbstractMMSBError, CPU_ONLY, check
using ..MMSB.LibMMSB

export fallback_to_cpu, has_gpu_support

"""
    has_gpu_support()::Bool

Whether this process can use a GPU. Simulated devices are none.
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

# What says that a device cannot serve: not there, not able, failed, lost.
const DEVICE_FAILURES = (MMSB_E_UNSUPPORTED, MMSB_E_NO_DEVICE, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST)

"""
    fallback_to_cpu(f)

The result of `f()`. Where it throws because a device is not there or fails, this warns and runs `f` again on the path of
the CPU: pages that are made or moved meanwhile by this task stay in host memory, whatever place is named. So `f` must be able to begin anew.
"""
function fallback_to_cpu(f)
    try
        return f()
    catch failure
        failure isa AbstractMMSBError && failure.code in DEVICE_FAILURES || rethrow()
        @warn "no device: the work is done on the CPU" failure.message
    end
    return task_local_storage(f, CPU_ONLY, true)
end

end
