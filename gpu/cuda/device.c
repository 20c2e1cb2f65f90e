#include "table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Copies that go to the driver in one call. */
enum { BATCH = 128 };

static mmsb__cuda_outcome_t succeeded(void) {
    return (mmsb__cuda_outcome_t){CUDA_SUCCESS, NULL};
}

/* Calls a function; TRY keeps its code and name in `outcome` and says whether it succeeded. */
#define OUTCOME(cuda, function, ...) ((mmsb__cuda_outcome_t){(cuda)->function(__VA_ARGS__), #function})
#define TRY(cuda, function, ...) ((outcome = OUTCOME(cuda, function, __VA_ARGS__)).code == CUDA_SUCCESS)

/* Makes the device's context current for what follows. */
static mmsb__cuda_outcome_t enter(const mmsb__cuda_device_t *device) {
    return (mmsb__cuda_outcome_t){device->cuda->cuCtxPushCurrent(device->context), "cuCtxPushCurrent"};
}

/* The work is done whatever the pop says, and a pop of what was just pushed has nothing to refuse. */
static mmsb__cuda_outcome_t leave(const mmsb__cuda_device_t *device, mmsb__cuda_outcome_t outcome) {
    CUcontext popped;
    device->cuda->cuCtxPopCurrent(&popped);
    return outcome;
}

/* The body of an operation that is one call of CUDA. */
#define CALL(function, ...) \
    mmsb__cuda_outcome_t entered = enter(device); \
    if (entered.code != CUDA_SUCCESS) \
        return entered; \
    return leave(device, OUTCOME(device->cuda, function, __VA_ARGS__))

/* ---------------------------------------------------------------------------------------------- devices ---- */

static CUmemLocation location_of(CUdevice ordinal) {
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
}

static CUmemAllocationProp physical_of(CUdevice ordinal) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location_of(ordinal)};
}

/* An attribute that the driver does not know yet is what it was before. */
static mmsb__cuda_outcome_t read_attributes(const mmsb__cuda_table_t *cuda, CUdevice device, mmsb__cuda_info_t *info) {
    const struct {
        CUdevice_attribute which;
        int *value, before;
    } attributes[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info->major, 0},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info->minor, 0},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->multiprocessors, 0},
        {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, &info->numa_node, -1},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, &info->managed, 0},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &info->managed_hints, 0},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &info->pools, 0},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &info->virtual_memory, 0},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, &info->registered_in_place, 0},
    };
    mmsb__cuda_outcome_t outcome;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (TRY(cuda, cuDeviceGetAttribute, attributes[i].value, attributes[i].which, device))
            continue;
        if (outcome.code != CUDA_ERROR_INVALID_VALUE)
            return outcome;
        *attributes[i].value = attributes[i].before;
    }
    if (cuda->cuMemPrefetchAsync == NULL || cuda->cuMemAdvise == NULL)
        info->managed_hints = 0;
    return succeeded();
}

static mmsb__cuda_outcome_t read_info(const mmsb__cuda_table_t *cuda, CUdevice device, mmsb__cuda_info_t *info) {
    mmsb__cuda_outcome_t outcome;
    memset(info, 0, sizeof *info);
    if (!TRY(cuda, cuDeviceGetName, info->name, sizeof info->name, device))
        return outcome;
    if (!TRY(cuda, cuDeviceGetUuid, &info->uuid, device))
        return outcome;
    if (!TRY(cuda, cuDeviceTotalMem, &info->bytes, device))
        return outcome;
    if (!TRY(cuda, cuDeviceGetPCIBusId, info->pci, sizeof info->pci, device))
        return outcome;
    outcome = read_attributes(cuda, device, info);
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    if (!info->virtual_memory)
        return succeeded();
    CUmemAllocationProp physical = physical_of(device);
    return OUTCOME(cuda, cuMemGetAllocationGranularity, &info->granularity, &physical, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

/* A pool of our own, so that the caller's default pool stays as it is. It keeps what is freed until it is trimmed. */
static mmsb__cuda_outcome_t create_pool(mmsb__cuda_device_t *device) {
    const mmsb__cuda_table_t *cuda = device->cuda;
    mmsb__cuda_outcome_t outcome;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location_of(device->ordinal)};
    cuuint64_t everything = UINT64_MAX;
    if (!TRY(cuda, cuMemPoolCreate, &device->pool, &properties))
        return outcome;
    if (!TRY(cuda, cuMemPoolSetAttribute, device->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything))
        cuda->cuMemPoolDestroy(device->pool);
    return outcome;
}

mmsb__cuda_outcome_t mmsb__cuda_open(const mmsb__cuda_table_t *table, int ordinal, mmsb__cuda_device_t **opened,
                                     mmsb__cuda_info_t *info) {
    mmsb__cuda_outcome_t outcome;
    mmsb__cuda_device_t *device = calloc(1, sizeof *device);
    if (device == NULL)
        return (mmsb__cuda_outcome_t){MMSB__CUDA_NO_MEMORY, "calloc"};
    device->cuda = table;
    if (!TRY(table, cuDeviceGet, &device->ordinal, ordinal))
        goto failed;
    outcome = read_info(table, device->ordinal, info);
    if (outcome.code != CUDA_SUCCESS)
        goto failed;
    if (!TRY(table, cuDevicePrimaryCtxRetain, &device->context, device->ordinal))
        goto failed;
    if (info->pools)
        outcome = create_pool(device);
    if (outcome.code != CUDA_SUCCESS)
        goto failed_with_context;
    *opened = device;
    return outcome;

failed_with_context:
    table->cuDevicePrimaryCtxRelease(device->ordinal);
failed:
    free(device);
    return outcome;
}

void mmsb__cuda_close(mmsb__cuda_device_t *device) {
    if (device->pool != NULL)
        device->cuda->cuMemPoolDestroy(device->pool);
    device->cuda->cuDevicePrimaryCtxRelease(device->ordinal);
    free(device);
}

int mmsb__cuda_can_reach(const mmsb__cuda_device_t *device, int other) {
    CUdevice peer;
    int can;
    return device->cuda->cuDeviceGet(&peer, other) == CUDA_SUCCESS &&
           device->cuda->cuDeviceCanAccessPeer(&can, device->ordinal, peer) == CUDA_SUCCESS && can;
}

static mmsb__cuda_outcome_t set_access(mmsb__cuda_device_t *owner, CUdevice user, int flags) {
    mmsb__cuda_outcome_t outcome;
    CUmemAccessDesc access = {.location = location_of(user), .flags = flags};
    int can;
    if (owner->pool == NULL)
        return succeeded();
    if (!TRY(owner->cuda, cuDeviceCanAccessPeer, &can, user, owner->ordinal) || !can)
        return outcome;
    return OUTCOME(owner->cuda, cuMemPoolSetAccess, owner->pool, &access, 1);
}

mmsb__cuda_outcome_t mmsb__cuda_share_pools(mmsb__cuda_device_t *one, mmsb__cuda_device_t *other) {
    mmsb__cuda_outcome_t outcome = set_access(one, other->ordinal, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    outcome = set_access(other, one->ordinal, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (outcome.code != CUDA_SUCCESS)
        set_access(one, other->ordinal, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    return outcome;
}

/* ----------------------------------------------------------------------------------------------- memory ---- */

mmsb__cuda_outcome_t mmsb__cuda_memory_info(mmsb__cuda_device_t *device, size_t *free, size_t *total) {
    CALL(cuMemGetInfo, free, total);
}

mmsb__cuda_outcome_t mmsb__cuda_allocate(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address) {
    CALL(cuMemAlloc, (CUdeviceptr *)address, bytes);
}

mmsb__cuda_outcome_t mmsb__cuda_allocate_pinned(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address) {
    CALL(cuMemHostAlloc, (void **)address, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

mmsb__cuda_outcome_t mmsb__cuda_allocate_managed(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address) {
    CALL(cuMemAllocManaged, (CUdeviceptr *)address, bytes, CU_MEM_ATTACH_GLOBAL);
}

mmsb__cuda_outcome_t mmsb__cuda_free(mmsb__cuda_device_t *device, uintptr_t address) {
    CALL(cuMemFree, address);
}

mmsb__cuda_outcome_t mmsb__cuda_free_pinned(mmsb__cuda_device_t *device, uintptr_t address) {
    CALL(cuMemFreeHost, (void *)address);
}

mmsb__cuda_outcome_t mmsb__cuda_register(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes) {
    CALL(cuMemHostRegister, (void *)address, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
}

mmsb__cuda_outcome_t mmsb__cuda_unregister(mmsb__cuda_device_t *device, uintptr_t address) {
    CALL(cuMemHostUnregister, (void *)address);
}

mmsb__cuda_outcome_t mmsb__cuda_allocate_ordered(mmsb__cuda_device_t *device, uintptr_t stream, size_t bytes,
                                                 uintptr_t *address) {
    CALL(cuMemAllocFromPoolAsync, (CUdeviceptr *)address, bytes, device->pool, (CUstream)stream);
}

mmsb__cuda_outcome_t mmsb__cuda_free_ordered(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t address) {
    CALL(cuMemFreeAsync, address, (CUstream)stream);
}

mmsb__cuda_outcome_t mmsb__cuda_trim_ordered(mmsb__cuda_device_t *device, size_t keep) {
    CALL(cuMemPoolTrimTo, device->pool, keep);
}

/* --------------------------------------------------------------------------------------- virtual memory ---- */

mmsb__cuda_outcome_t mmsb__cuda_reserve(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address) {
    CALL(cuMemAddressReserve, (CUdeviceptr *)address, bytes, 0, 0, 0);
}

mmsb__cuda_outcome_t mmsb__cuda_release(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes) {
    CALL(cuMemAddressFree, address, bytes);
}

mmsb__cuda_outcome_t mmsb__cuda_create_physical(mmsb__cuda_device_t *device, size_t bytes, uint64_t *physical) {
    CUmemAllocationProp properties = physical_of(device->ordinal);
    CALL(cuMemCreate, (CUmemGenericAllocationHandle *)physical, bytes, &properties, 0);
}

mmsb__cuda_outcome_t mmsb__cuda_destroy_physical(mmsb__cuda_device_t *device, uint64_t physical) {
    CALL(cuMemRelease, physical);
}

#define MOST_PEERS 63 /* of one device; others copy */

/* The device, and those that can access it. */
static mmsb__cuda_outcome_t users_of(const mmsb__cuda_device_t *device, int others, CUmemAccessDesc users[MOST_PEERS + 1],
                                     size_t *count) {
    mmsb__cuda_outcome_t outcome;
    users[0] = (CUmemAccessDesc){.location = location_of(device->ordinal), .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    *count = 1;
    for (int ordinal = 0; ordinal < others && *count <= MOST_PEERS; ordinal++) {
        CUdevice peer;
        int can = 0;
        if (!TRY(device->cuda, cuDeviceGet, &peer, ordinal) ||
            (peer != device->ordinal && !TRY(device->cuda, cuDeviceCanAccessPeer, &can, peer, device->ordinal)))
            return outcome;
        if (can)
            users[(*count)++] = (CUmemAccessDesc){.location = location_of(peer), .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
    return succeeded();
}

/* Access is allowed once for all: to others it took the driver twenty times as long as a mapping of 2 MiB. */
mmsb__cuda_outcome_t mmsb__cuda_map(mmsb__cuda_device_t *device, uintptr_t address, const uint64_t *memory, const size_t *bytes,
                                    size_t count, int others) {
    const mmsb__cuda_table_t *cuda = device->cuda;
    CUmemAccessDesc users[MOST_PEERS + 1];
    size_t user_count, mapped = 0;
    uintptr_t end = address;
    mmsb__cuda_outcome_t outcome = enter(device);
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    outcome = users_of(device, others, users, &user_count);
    while (mapped < count && outcome.code == CUDA_SUCCESS && TRY(cuda, cuMemMap, end, bytes[mapped], 0, memory[mapped], 0)) {
        end += bytes[mapped++];
    }
    if (outcome.code != CUDA_SUCCESS || !TRY(cuda, cuMemSetAccess, address, end - address, users, user_count)) {
        while (mapped > 0) {
            end -= bytes[--mapped];
            cuda->cuMemUnmap(end, bytes[mapped]);
        }
    }
    return leave(device, outcome);
}

mmsb__cuda_outcome_t mmsb__cuda_unmap(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes) {
    CALL(cuMemUnmap, address, bytes);
}

/* ----------------------------------------------------------------------------------- streams and events ---- */

mmsb__cuda_outcome_t mmsb__cuda_create_stream(mmsb__cuda_device_t *device, int priority, uintptr_t *stream) {
    CALL(cuStreamCreateWithPriority, (CUstream *)stream, CU_STREAM_NON_BLOCKING, priority);
}

mmsb__cuda_outcome_t mmsb__cuda_destroy_stream(mmsb__cuda_device_t *device, uintptr_t stream) {
    CALL(cuStreamDestroy, (CUstream)stream);
}

mmsb__cuda_outcome_t mmsb__cuda_stream_context(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t *context) {
    CALL(cuStreamGetCtx, (CUstream)stream, (CUcontext *)context);
}

mmsb__cuda_outcome_t mmsb__cuda_stream_id(mmsb__cuda_device_t *device, uintptr_t stream, uint64_t *id) {
    CALL(cuStreamGetId, (CUstream)stream, (unsigned long long *)id);
}

mmsb__cuda_outcome_t mmsb__cuda_query_stream(mmsb__cuda_device_t *device, uintptr_t stream) {
    CALL(cuStreamQuery, (CUstream)stream);
}

mmsb__cuda_outcome_t mmsb__cuda_synchronize_stream(mmsb__cuda_device_t *device, uintptr_t stream) {
    CALL(cuStreamSynchronize, (CUstream)stream);
}

mmsb__cuda_outcome_t mmsb__cuda_synchronize(mmsb__cuda_device_t *device) {
    CALL(cuCtxSynchronize);
}

/* A thread that waits for an event sleeps: the library's waits are seldom the shortest path of a program. */
mmsb__cuda_outcome_t mmsb__cuda_create_event(mmsb__cuda_device_t *device, uintptr_t *event) {
    CALL(cuEventCreate, (CUevent *)event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
}

mmsb__cuda_outcome_t mmsb__cuda_destroy_event(mmsb__cuda_device_t *device, uintptr_t event) {
    CALL(cuEventDestroy, (CUevent)event);
}

mmsb__cuda_outcome_t mmsb__cuda_record_event(mmsb__cuda_device_t *device, uintptr_t event, uintptr_t stream) {
    CALL(cuEventRecord, (CUevent)event, (CUstream)stream);
}

mmsb__cuda_outcome_t mmsb__cuda_query_event(mmsb__cuda_device_t *device, uintptr_t event) {
    CALL(cuEventQuery, (CUevent)event);
}

mmsb__cuda_outcome_t mmsb__cuda_synchronize_event(mmsb__cuda_device_t *device, uintptr_t event) {
    CALL(cuEventSynchronize, (CUevent)event);
}

mmsb__cuda_outcome_t mmsb__cuda_wait(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t event) {
    CALL(cuStreamWaitEvent, (CUstream)stream, (CUevent)event, 0);
}

/* ----------------------------------------------------------------------------------- copies and kernels ---- */

static mmsb__cuda_outcome_t copy_each(const mmsb__cuda_table_t *cuda, CUstream stream, const mmsb__cuda_copy_t *copies,
                                      size_t count) {
    mmsb__cuda_outcome_t outcome = succeeded();
    for (size_t i = 0; i < count; i++) {
        if (copies[i].bytes > 0 && !TRY(cuda, cuMemcpyAsync, copies[i].to, copies[i].from, copies[i].bytes, stream))
            break;
    }
    return outcome;
}

static mmsb__cuda_outcome_t copy_in_batches(const mmsb__cuda_table_t *cuda, CUstream stream, const mmsb__cuda_copy_t *copies,
                                            size_t count) {
    CUdeviceptr to[BATCH], from[BATCH];
    size_t bytes[BATCH], first = 0, batch = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    mmsb__cuda_outcome_t outcome = succeeded();
    for (size_t i = 0; i < count; i++) {
        if (copies[i].bytes > 0) {
            to[batch] = copies[i].to;
            from[batch] = copies[i].from;
            bytes[batch++] = copies[i].bytes;
        }
        if (batch == BATCH || (batch > 0 && i + 1 == count)) {
            if (!TRY(cuda, cuMemcpyBatchAsync, to, from, bytes, batch, &attributes, &first, 1, stream))
                break;
            batch = 0;
        }
    }
    return outcome;
}

mmsb__cuda_outcome_t mmsb__cuda_copy(mmsb__cuda_device_t *device, uintptr_t stream, const mmsb__cuda_copy_t *copies,
                                     size_t count) {
    mmsb__cuda_outcome_t outcome = enter(device);
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    /* The default stream takes no batches. */
    bool batches = count > 1 && device->cuda->cuMemcpyBatchAsync != NULL && stream != 0;
    return leave(device, (batches ? copy_in_batches : copy_each)(device->cuda, (CUstream)stream, copies, count));
}

mmsb__cuda_outcome_t mmsb__cuda_fill(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t address, int value, size_t bytes) {
    CALL(cuMemsetD8Async, address, (unsigned char)value, bytes, (CUstream)stream);
}

static CUmemLocation place_of(int ordinal) {
    return ordinal < 0 ? (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST} : location_of(ordinal);
}

mmsb__cuda_outcome_t mmsb__cuda_prefetch(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t address, size_t bytes,
                                         int ordinal) {
    CALL(cuMemPrefetchAsync, address, bytes, place_of(ordinal), 0, (CUstream)stream);
}

mmsb__cuda_outcome_t mmsb__cuda_advise(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes, int advice, int ordinal) {
    CALL(cuMemAdvise, address, bytes, (CUmem_advise)advice, place_of(ordinal));
}

mmsb__cuda_outcome_t mmsb__cuda_holder(mmsb__cuda_device_t *device, uintptr_t address, int *ordinal) {
    mmsb__cuda_outcome_t outcome = enter(device);
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    unsigned int type = 0;
    *ordinal = -1;
    if (TRY(device->cuda, cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) &&
        type == CU_MEMORYTYPE_DEVICE)
        (void)TRY(device->cuda, cuPointerGetAttribute, ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (outcome.code == CUDA_ERROR_INVALID_VALUE) { /* nothing that the driver knows is there */
        *ordinal = -1;
        outcome = succeeded();
    }
    return leave(device, outcome);
}

mmsb__cuda_outcome_t mmsb__cuda_load_module(mmsb__cuda_device_t *device, const void *image, uintptr_t *module, char *log,
                                            size_t log_bytes) {
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)log_bytes};
    CALL(cuModuleLoadDataEx, (CUmodule *)module, image, 2, options, values);
}

mmsb__cuda_outcome_t mmsb__cuda_unload_module(mmsb__cuda_device_t *device, uintptr_t module) {
    CALL(cuModuleUnload, (CUmodule)module);
}

mmsb__cuda_outcome_t mmsb__cuda_function(mmsb__cuda_device_t *device, uintptr_t module, const char *name, uintptr_t *function,
                                         size_t *parameter_bytes) {
    const mmsb__cuda_table_t *cuda = device->cuda;
    mmsb__cuda_outcome_t outcome = enter(device);
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    *parameter_bytes = MMSB__CUDA_NOT_TOLD;
    if (TRY(cuda, cuModuleGetFunction, (CUfunction *)function, (CUmodule)module, name) && cuda->cuFuncGetParamInfo != NULL) {
        size_t offset, size, end = 0, index = 0;
        while (TRY(cuda, cuFuncGetParamInfo, (CUfunction)*function, index++, &offset, &size))
            end = offset + size;
        *parameter_bytes = end;
        if (outcome.code == CUDA_ERROR_INVALID_VALUE) /* there are no more */
            outcome = succeeded();
    }
    return leave(device, outcome);
}

mmsb__cuda_outcome_t mmsb__cuda_launch(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t function, uint32_t blocks,
                                       uint32_t threads, uint32_t shared, const void *parameter, size_t parameter_bytes) {
    void *given[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, (void *)parameter, (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT,
                     &parameter_bytes, (void *)CU_LAUNCH_PARAM_END_AS_INT};
    CALL(cuLaunchKernel, (CUfunction)function, blocks, 1, 1, threads, 1, 1, shared, (CUstream)stream, NULL,
         parameter_bytes > 0 ? given : NULL);
}
