/*
 * The part of CUDA's driver interface that this package calls, declared here so that no CUDA file is needed to build.
 *
 * Types, constants and functions have CUDA's names. Where cuda.h and cudaTypedefs.h are included before, this file declares
 * nothing, and asserts instead that what it would declare is the same. tests/fakecuda is compiled that way.
 */
#ifndef MMSB_CUDA_ABI_H
#define MMSB_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

/* The names of what calls may answer, with the numbers. */
#define CUDA_RESULTS(X) \
    X(CUDA_SUCCESS, 0) \
    X(CUDA_ERROR_INVALID_VALUE, 1) \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2) \
    X(CUDA_ERROR_NOT_INITIALIZED, 3) \
    X(CUDA_ERROR_DEINITIALIZED, 4) \
    X(CUDA_ERROR_STUB_LIBRARY, 34) \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46) \
    X(CUDA_ERROR_NO_DEVICE, 100) \
    X(CUDA_ERROR_INVALID_DEVICE, 101) \
    X(CUDA_ERROR_INVALID_IMAGE, 200) \
    X(CUDA_ERROR_INVALID_CONTEXT, 201) \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209) \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214) \
    X(CUDA_ERROR_INVALID_PTX, 218) \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220) \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221) \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222) \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223) \
    X(CUDA_ERROR_CONTAINED, 226) \
    X(CUDA_ERROR_INVALID_HANDLE, 400) \
    X(CUDA_ERROR_NOT_FOUND, 500) \
    X(CUDA_ERROR_NOT_READY, 600) \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700) \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701) \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702) \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709) \
    X(CUDA_ERROR_ASSERT, 710) \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712) \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713) \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714) \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715) \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716) \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717) \
    X(CUDA_ERROR_INVALID_PC, 718) \
    X(CUDA_ERROR_LAUNCH_FAILED, 719) \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721) \
    X(CUDA_ERROR_NOT_SUPPORTED, 801) \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802) \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803) \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810) \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911) \
    X(CUDA_ERROR_UNKNOWN, 999)

/* What calls are given. */
#define CUDA_CONSTANTS(X) \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
    X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83) \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89) \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91) \
    X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102) \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115) \
    X(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134) \
    X(CU_EVENT_BLOCKING_SYNC, 1) \
    X(CU_EVENT_DISABLE_TIMING, 2) \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0) \
    X(CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1) \
    X(CU_JIT_ERROR_LOG_BUFFER, 5) \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6) \
    X(CU_LAUNCH_PARAM_END_AS_INT, 0) \
    X(CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, 1) \
    X(CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT, 2) \
    X(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, 1) \
    X(CU_MEMHOSTALLOC_PORTABLE, 1) \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2) \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1) \
    X(CU_MEMHOSTREGISTER_DEVICEMAP, 2) \
    X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4) \
    X(CU_MEM_ACCESS_FLAGS_PROT_NONE, 0) \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3) \
    X(CU_MEM_ADVISE_SET_READ_MOSTLY, 1) \
    X(CU_MEM_ADVISE_UNSET_READ_MOSTLY, 2) \
    X(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 3) \
    X(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 4) \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1) \
    X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0) \
    X(CU_MEM_ATTACH_GLOBAL, 1) \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1) \
    X(CU_MEM_LOCATION_TYPE_HOST, 2) \
    X(CU_MEMORYTYPE_DEVICE, 2) \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9) \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2) \
    X(CU_STREAM_NON_BLOCKING, 1)

/* Functions that the loader finds by name in the library itself. */
#define CUDA_ENTRY_FUNCTIONS(X) \
    X(cuInit, 2000, (unsigned int)) \
    X(cuDriverGetVersion, 2020, (int *)) \
    X(cuGetProcAddress, 12000, (const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))

/* Functions that cuGetProcAddress finds, each with the CUDA version that brought the form declared here. */
#define CUDA_FUNCTIONS(X) \
    X(cuGetErrorName, 6000, (CUresult, const char **)) \
    X(cuGetErrorString, 6000, (CUresult, const char **)) \
    X(cuDeviceGetCount, 2000, (int *)) \
    X(cuDeviceGet, 2000, (CUdevice *, int)) \
    X(cuDeviceGetName, 2000, (char *, int, CUdevice)) \
    X(cuDeviceGetUuid, 11040, (CUuuid *, CUdevice)) \
    X(cuDeviceGetPCIBusId, 4010, (char *, int, CUdevice)) \
    X(cuDeviceTotalMem, 3020, (size_t *, CUdevice)) \
    X(cuDeviceGetAttribute, 2000, (int *, CUdevice_attribute, CUdevice)) \
    X(cuDeviceCanAccessPeer, 4000, (int *, CUdevice, CUdevice)) \
    X(cuDevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice)) \
    X(cuDevicePrimaryCtxRelease, 11000, (CUdevice)) \
    X(cuCtxPushCurrent, 4000, (CUcontext)) \
    X(cuCtxPopCurrent, 4000, (CUcontext *)) \
    X(cuCtxSynchronize, 2000, (void)) \
    X(cuMemGetInfo, 3020, (size_t *, size_t *)) \
    X(cuMemAlloc, 3020, (CUdeviceptr *, size_t)) \
    X(cuMemFree, 3020, (CUdeviceptr)) \
    X(cuMemHostAlloc, 2020, (void **, size_t, unsigned int)) \
    X(cuMemFreeHost, 2000, (void *)) \
    X(cuMemAllocManaged, 6000, (CUdeviceptr *, size_t, unsigned int)) \
    X(cuMemHostRegister, 6050, (void *, size_t, unsigned int)) \
    X(cuMemHostUnregister, 4000, (void *)) \
    X(cuMemPoolCreate, 11020, (CUmemoryPool *, const CUmemPoolProps *)) \
    X(cuMemPoolDestroy, 11020, (CUmemoryPool)) \
    X(cuMemPoolSetAttribute, 11020, (CUmemoryPool, CUmemPool_attribute, void *)) \
    X(cuMemPoolSetAccess, 11020, (CUmemoryPool, const CUmemAccessDesc *, size_t)) \
    X(cuMemPoolTrimTo, 11020, (CUmemoryPool, size_t)) \
    X(cuMemAllocFromPoolAsync, 11020, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
    X(cuMemFreeAsync, 11020, (CUdeviceptr, CUstream)) \
    X(cuMemGetAllocationGranularity, 10020, (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)) \
    X(cuMemAddressReserve, 10020, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
    X(cuMemAddressFree, 10020, (CUdeviceptr, size_t)) \
    X(cuMemCreate, 10020, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
    X(cuMemRelease, 10020, (CUmemGenericAllocationHandle)) \
    X(cuMemMap, 10020, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
    X(cuMemSetAccess, 10020, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)) \
    X(cuMemUnmap, 10020, (CUdeviceptr, size_t)) \
    X(cuStreamCreateWithPriority, 5050, (CUstream *, unsigned int, int)) \
    X(cuStreamDestroy, 4000, (CUstream)) \
    X(cuStreamGetCtx, 9020, (CUstream, CUcontext *)) \
    X(cuStreamGetId, 12000, (CUstream, unsigned long long *)) \
    X(cuStreamQuery, 2000, (CUstream)) \
    X(cuStreamSynchronize, 2000, (CUstream)) \
    X(cuStreamWaitEvent, 3020, (CUstream, CUevent, unsigned int)) \
    X(cuEventCreate, 2000, (CUevent *, unsigned int)) \
    X(cuEventDestroy, 4000, (CUevent)) \
    X(cuEventRecord, 2000, (CUevent, CUstream)) \
    X(cuEventQuery, 2000, (CUevent)) \
    X(cuEventSynchronize, 2000, (CUevent)) \
    X(cuPointerGetAttribute, 4000, (void *, CUpointer_attribute, CUdeviceptr)) \
    X(cuMemcpyAsync, 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
    X(cuMemsetD8Async, 3020, (CUdeviceptr, unsigned char, size_t, CUstream)) \
    X(cuModuleLoadDataEx, 2010, (CUmodule *, const void *, unsigned int, CUjit_option *, void **)) \
    X(cuModuleUnload, 2000, (CUmodule)) \
    X(cuModuleGetFunction, 2000, (CUfunction *, CUmodule, const char *)) \
    X(cuLaunchKernel, 4000, \
      (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, \
       void **, void **))

/* What an older driver lacks and this package does without. */
#define CUDA_OPTIONAL_FUNCTIONS(X) \
    X(cuMemcpyBatchAsync, 13000, \
      (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream)) \
    X(cuMemPrefetchAsync, 12020, (CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream)) \
    X(cuMemAdvise, 12020, (CUdeviceptr, size_t, CUmem_advise, CUmemLocation)) \
    X(cuFuncGetParamInfo, 12040, (CUfunction, size_t, size_t *, size_t *))

#ifndef CUDA_VERSION
typedef int CUresult, CUdevice, CUdevice_attribute, CUdriverProcAddressQueryResult, CUjit_option, CUmemPool_attribute;
typedef int CUmemAllocationGranularity_flags, CUmem_advise, CUpointer_attribute;
typedef uint64_t cuuint64_t;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

typedef struct {
    char bytes[16];
} CUuuid;

typedef struct {
    int type, id;
} CUmemLocation;

typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

typedef struct {
    int allocType, handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned char reserved[56];
} CUmemPoolProps;

typedef struct {
    int type, requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    unsigned char allocFlags[8];
} CUmemAllocationProp;

typedef struct {
    int srcAccessOrder;
    CUmemLocation srcLocHint, dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;

#define DECLARE_CONSTANT(name, value) name = value,
enum { CUDA_RESULTS(DECLARE_CONSTANT) CUDA_CONSTANTS(DECLARE_CONSTANT) };
#else
#define ASSERT_CONSTANT(name, value) _Static_assert((name) == (value), #name " has another value in cuda.h");
CUDA_RESULTS(ASSERT_CONSTANT)
CUDA_CONSTANTS(ASSERT_CONSTANT)

/* The type at the version that is asked for (cudaTypedefs.h), the one declared by name, and ours are one. */
#define ASSERT_FUNCTION(name, since, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult(*) parameters), #name " differs in cuda.h"); \
    _Static_assert(__builtin_types_compatible_p(PFN_##name##_v##since, CUresult(*) parameters), #name " had another form then");
CUDA_ENTRY_FUNCTIONS(ASSERT_FUNCTION)
CUDA_FUNCTIONS(ASSERT_FUNCTION)
CUDA_OPTIONAL_FUNCTIONS(ASSERT_FUNCTION)
#endif

/* Asserted against both declarations. */
#define ASSERT_LAYOUT(type, size, field, offset) \
    _Static_assert(sizeof(type) == (size) && offsetof(type, field) == (offset), #type " has another layout");
ASSERT_LAYOUT(CUuuid, 16, bytes, 0)
ASSERT_LAYOUT(CUmemLocation, 8, type, 0)
ASSERT_LAYOUT(CUmemLocation, 8, id, 4)
ASSERT_LAYOUT(CUmemAccessDesc, 12, location, 0)
ASSERT_LAYOUT(CUmemAccessDesc, 12, flags, 8)
ASSERT_LAYOUT(CUmemPoolProps, 88, allocType, 0)
ASSERT_LAYOUT(CUmemPoolProps, 88, handleTypes, 4)
ASSERT_LAYOUT(CUmemPoolProps, 88, location, 8)
ASSERT_LAYOUT(CUmemPoolProps, 88, win32SecurityAttributes, 16)
ASSERT_LAYOUT(CUmemPoolProps, 88, maxSize, 24)
ASSERT_LAYOUT(CUmemAllocationProp, 32, type, 0)
ASSERT_LAYOUT(CUmemAllocationProp, 32, requestedHandleTypes, 4)
ASSERT_LAYOUT(CUmemAllocationProp, 32, location, 8)
ASSERT_LAYOUT(CUmemAllocationProp, 32, win32HandleMetaData, 16)
ASSERT_LAYOUT(CUmemAllocationProp, 32, allocFlags, 24)
ASSERT_LAYOUT(CUmemcpyAttributes, 24, srcAccessOrder, 0)
ASSERT_LAYOUT(CUmemcpyAttributes, 24, srcLocHint, 4)
ASSERT_LAYOUT(CUmemcpyAttributes, 24, dstLocHint, 12)
ASSERT_LAYOUT(CUmemcpyAttributes, 24, flags, 20)
#define ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has another size");
ASSERT_SIZE(CUresult, 4)
ASSERT_SIZE(CUdevice, 4)
ASSERT_SIZE(CUdevice_attribute, 4)
ASSERT_SIZE(CUdriverProcAddressQueryResult, 4)
ASSERT_SIZE(CUjit_option, 4)
ASSERT_SIZE(CUmemPool_attribute, 4)
ASSERT_SIZE(CUmemAllocationGranularity_flags, 4)
ASSERT_SIZE(CUmem_advise, 4)
ASSERT_SIZE(cuuint64_t, 8)
ASSERT_SIZE(CUdeviceptr, 8)
ASSERT_SIZE(CUmemGenericAllocationHandle, 8)
ASSERT_SIZE(CUcontext, 8)

#endif
