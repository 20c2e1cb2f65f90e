# Objects that nobody can copy: a copy would have the handle and not what it stands for. In another process the handle names
# nothing, or another object.

const NotCopied = Union{
    MMSBState,Page,PageMetadata,Ticket,SavedBytes,Snapshot,SnapshotPage,DeviceRuntime,DeviceStream,DeviceBlock,DeviceCapture,
    DeviceSync.GPUCommandBuffer,DeviceFallback.CPUPropagationQueue,UnifiedMemory.GPUMemoryPool,
    GPUKernels.KernelMemory,
}

refuse_copy(object) =
    throw(ArgumentError("a $(nameof(typeof(object))) cannot be serialized or copied: it stands for something in this process"))

Base.deepcopy_internal(object::NotCopied, ::IdDict) = refuse_copy(object)
Serialization.serialize(::AbstractSerializer, object::NotCopied) = refuse_copy(object)
