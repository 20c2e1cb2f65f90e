# Objects that nobody can copy: a copy would have the handle and not what it stands for. In another process the handle names
# nothing, or another object.

const NotCopied = Union{
    MMSBState,Page,PageMetadata,Ticket,SavedBytes,Snapshot,SnapshotPage,DeviceRuntime,DeviceStream,DeviceBlock,DeviceCapture,
    DeviceSync.GPUCommandBuffer,DeviceFallback.CPUPropagationQueue,UnifiedMemory.GPUMemoryPool,
    GPUKernels.KernelMemory,
}

refuse_copy(type) =
    throw(ArgumentError("a $(nameof(type)) cannot be serialized or copied: it stands for something in the process that made it"))

Base.deepcopy_internal(object::NotCopied, ::IdDict) = refuse_copy(typeof(object))
Serialization.serialize(::Serializer, object::NotCopied) = refuse_copy(typeof(object))

# A process of Distributed that cannot write what it has promised to send ends. So the other one refuses it, and the call throws.
Serialization.serialize(to::AbstractSerializer, object::NotCopied) = Serialization.serialize_type(to, typeof(object))
Serialization.deserialize(::AbstractSerializer, type::Type{<:NotCopied}) = refuse_copy(type)
