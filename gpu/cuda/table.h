/*
 * The calls of this package, one C function each, so that an operation enters C once.
 *
 * Every operation of a device makes its primary context current, works, and pops it again: what the calling thread had is current
 * afterwards. Handles and addresses cross as numbers.
 */
#ifndef MMSB_CUDA_TABLE_H
#define MMSB_CUDA_TABLE_H

#include "abi.h"

#pragma GCC visibility push(hidden)

/* The oldest driver that serves: the first with the form of cuGetProcAddress that says why it found nothing. */
#define MMSB__CUDA_OLDEST_VERSION 12000

/* The functions of a loaded libcuda. Never freed. */
typedef struct mmsb__cuda_table {
    int version; /* of the driver, like 13000 for CUDA 13.0 */
    int devices;
#define DECLARE_FUNCTION(name, since, parameters) CUresult(*name) parameters;
    CUDA_ENTRY_FUNCTIONS(DECLARE_FUNCTION)
    CUDA_FUNCTIONS(DECLARE_FUNCTION)
    CUDA_OPTIONAL_FUNCTIONS(DECLARE_FUNCTION)
#undef DECLARE_FUNCTION
} mmsb__cuda_table_t;

/* An open device. Never freed. */
typedef struct mmsb__cuda_device {
    const mmsb__cuda_table_t *cuda;
    CUdevice ordinal;
    CUcontext context;
    CUmemoryPool pool; /* NULL where the device has no pools */
} mmsb__cuda_device_t;

/* What a device is. */
typedef struct mmsb__cuda_info {
    char name[256], pci[32];
    CUuuid uuid;
    size_t bytes, granularity;
    int major, minor, multiprocessors, numa_node, managed, managed_hints, virtual_memory, pools, registered_in_place;
} mmsb__cuda_info_t;

/* What the last call of an operation answered, and which one it was. */
typedef struct mmsb__cuda_outcome {
    CUresult code;
    const char *call;
} mmsb__cuda_outcome_t;

/* code is one of these where no call of CUDA failed. */
enum {
    MMSB__CUDA_NO_LIBRARY = -1,  /* dlopen failed */
    MMSB__CUDA_NO_FUNCTION = -2, /* it lacks the function `call` */
    MMSB__CUDA_TOO_OLD = -3,
    MMSB__CUDA_NO_MEMORY = -4, /* the host's */
};

/* One copy; the layout of driver.Copy. */
typedef struct mmsb__cuda_copy {
    uintptr_t to, from;
    uint64_t bytes;
} mmsb__cuda_copy_t;

/* Loads a library of this name or path. *table is set but for NO_MEMORY; reason gets what the loader says. */
mmsb__cuda_outcome_t mmsb__cuda_load(const char *name, mmsb__cuda_table_t **table, char *reason, size_t reason_bytes);
const char *mmsb__cuda_code_name(const mmsb__cuda_table_t *table, CUresult code);
const char *mmsb__cuda_code_text(const mmsb__cuda_table_t *table, CUresult code);

mmsb__cuda_outcome_t mmsb__cuda_open(const mmsb__cuda_table_t *table, int ordinal, mmsb__cuda_device_t **device,
                                     mmsb__cuda_info_t *info);
/* Undoes mmsb__cuda_open. */
void mmsb__cuda_close(mmsb__cuda_device_t *device);
int mmsb__cuda_can_reach(const mmsb__cuda_device_t *device, int other);
/* Lets kernels of either device reach the pool of the other one, where the devices can. */
mmsb__cuda_outcome_t mmsb__cuda_share_pools(mmsb__cuda_device_t *one, mmsb__cuda_device_t *other);

mmsb__cuda_outcome_t mmsb__cuda_memory_info(mmsb__cuda_device_t *device, size_t *free, size_t *total);
mmsb__cuda_outcome_t mmsb__cuda_allocate(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address);
mmsb__cuda_outcome_t mmsb__cuda_allocate_pinned(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address);
mmsb__cuda_outcome_t mmsb__cuda_allocate_managed(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address);
mmsb__cuda_outcome_t mmsb__cuda_free(mmsb__cuda_device_t *device, uintptr_t address);
mmsb__cuda_outcome_t mmsb__cuda_free_pinned(mmsb__cuda_device_t *device, uintptr_t address);
mmsb__cuda_outcome_t mmsb__cuda_register(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes);
mmsb__cuda_outcome_t mmsb__cuda_unregister(mmsb__cuda_device_t *device, uintptr_t address);
mmsb__cuda_outcome_t mmsb__cuda_allocate_ordered(mmsb__cuda_device_t *device, uintptr_t stream, size_t bytes, uintptr_t *address);
mmsb__cuda_outcome_t mmsb__cuda_free_ordered(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t address);
mmsb__cuda_outcome_t mmsb__cuda_trim_ordered(mmsb__cuda_device_t *device, size_t keep);

mmsb__cuda_outcome_t mmsb__cuda_reserve(mmsb__cuda_device_t *device, size_t bytes, uintptr_t *address);
mmsb__cuda_outcome_t mmsb__cuda_release(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes);
mmsb__cuda_outcome_t mmsb__cuda_create_physical(mmsb__cuda_device_t *device, size_t bytes, uint64_t *physical);
mmsb__cuda_outcome_t mmsb__cuda_destroy_physical(mmsb__cuda_device_t *device, uint64_t physical);
/* For the device, and for those of so many others (0 = none), by ordinal, that can access it. */
mmsb__cuda_outcome_t mmsb__cuda_map(mmsb__cuda_device_t *device, uintptr_t address, const uint64_t *memory, const size_t *bytes,
                                    size_t count, int others);
mmsb__cuda_outcome_t mmsb__cuda_unmap(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes);

mmsb__cuda_outcome_t mmsb__cuda_create_stream(mmsb__cuda_device_t *device, int priority, uintptr_t *stream);
mmsb__cuda_outcome_t mmsb__cuda_destroy_stream(mmsb__cuda_device_t *device, uintptr_t stream);
mmsb__cuda_outcome_t mmsb__cuda_stream_context(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t *context);
mmsb__cuda_outcome_t mmsb__cuda_stream_id(mmsb__cuda_device_t *device, uintptr_t stream, uint64_t *id);
mmsb__cuda_outcome_t mmsb__cuda_query_stream(mmsb__cuda_device_t *device, uintptr_t stream);
mmsb__cuda_outcome_t mmsb__cuda_synchronize_stream(mmsb__cuda_device_t *device, uintptr_t stream);
mmsb__cuda_outcome_t mmsb__cuda_synchronize(mmsb__cuda_device_t *device);
mmsb__cuda_outcome_t mmsb__cuda_create_event(mmsb__cuda_device_t *device, uintptr_t *event);
mmsb__cuda_outcome_t mmsb__cuda_destroy_event(mmsb__cuda_device_t *device, uintptr_t event);
mmsb__cuda_outcome_t mmsb__cuda_record_event(mmsb__cuda_device_t *device, uintptr_t event, uintptr_t stream);
mmsb__cuda_outcome_t mmsb__cuda_query_event(mmsb__cuda_device_t *device, uintptr_t event);
mmsb__cuda_outcome_t mmsb__cuda_synchronize_event(mmsb__cuda_device_t *device, uintptr_t event);
mmsb__cuda_outcome_t mmsb__cuda_wait(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t event);

mmsb__cuda_outcome_t mmsb__cuda_copy(mmsb__cuda_device_t *device, uintptr_t stream, const mmsb__cuda_copy_t *copies,
                                     size_t count);
mmsb__cuda_outcome_t mmsb__cuda_fill(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t address, int value, size_t bytes);
/* ordinal is a device's, or less than 0: the host. Only with managed_hints. */
mmsb__cuda_outcome_t mmsb__cuda_prefetch(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t address, size_t bytes,
                                         int ordinal);
/* *ordinal = the device whose memory is at an address, or -1. */
mmsb__cuda_outcome_t mmsb__cuda_holder(mmsb__cuda_device_t *device, uintptr_t address, int *ordinal);
mmsb__cuda_outcome_t mmsb__cuda_advise(mmsb__cuda_device_t *device, uintptr_t address, size_t bytes, int advice, int ordinal);
/* log gets what the compiler of PTX says. */
mmsb__cuda_outcome_t mmsb__cuda_load_module(mmsb__cuda_device_t *device, const void *image, uintptr_t *module, char *log,
                                            size_t log_bytes);
mmsb__cuda_outcome_t mmsb__cuda_unload_module(mmsb__cuda_device_t *device, uintptr_t module);
/* *parameter_bytes = what its parameters take, or MMSB__CUDA_NOT_TOLD where the driver does not tell. */
#define MMSB__CUDA_NOT_TOLD SIZE_MAX
mmsb__cuda_outcome_t mmsb__cuda_function(mmsb__cuda_device_t *device, uintptr_t module, const char *name, uintptr_t *function,
                                         size_t *parameter_bytes);
mmsb__cuda_outcome_t mmsb__cuda_launch(mmsb__cuda_device_t *device, uintptr_t stream, uintptr_t function, uint32_t blocks,
                                       uint32_t threads, uint32_t shared, const void *parameter, size_t parameter_bytes);

#pragma GCC visibility pop

#endif
