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
struct mmsb__cuda_table {
    int version; /* of the driver, like 13000 for CUDA 13.0 */
    int devices;
#define DECLARE_FUNCTION(name, since, parameters) CUresult(*name) parameters;
    CUDA_ENTRY_FUNCTIONS(DECLARE_FUNCTION)
    CUDA_FUNCTIONS(DECLARE_FUNCTION)
    CUDA_OPTIONAL_FUNCTIONS(DECLARE_FUNCTION)
#undef DECLARE_FUNCTION
};

/* An open device. Never freed. */
struct mmsb__cuda_device {
    const struct mmsb__cuda_table *cuda;
    CUdevice ordinal;
    CUcontext context;
    CUmemoryPool pool; /* NULL where the device has no pools */
};

/* What a device is. */
struct mmsb__cuda_info {
    char name[256], pci[32];
    CUuuid uuid;
    size_t bytes, granularity;
    int major, minor, multiprocessors, numa_node, managed, virtual_memory, pools, registered_in_place;
};

/* What the last call of an operation answered, and which one it was. */
struct mmsb__cuda_outcome {
    CUresult code;
    const char *call;
};

/* code is one of these where no call of CUDA failed. */
enum {
    MMSB__CUDA_NO_LIBRARY = -1,  /* dlopen failed */
    MMSB__CUDA_NO_FUNCTION = -2, /* it lacks the function `call` */
    MMSB__CUDA_TOO_OLD = -3,
    MMSB__CUDA_NO_MEMORY = -4, /* the host's */
};

/* One copy; the layout of driver.Copy. */
struct mmsb__cuda_copy {
    uintptr_t to, from;
    uint64_t bytes;
};

/* Loads a library of this name or path. *table is set but for NO_MEMORY; reason gets what the loader says. */
struct mmsb__cuda_outcome mmsb__cuda_load(const char *name, struct mmsb__cuda_table **table, char *reason, size_t reason_bytes);
const char *mmsb__cuda_code_name(const struct mmsb__cuda_table *table, CUresult code);
const char *mmsb__cuda_code_text(const struct mmsb__cuda_table *table, CUresult code);

struct mmsb__cuda_outcome mmsb__cuda_open(const struct mmsb__cuda_table *table, int ordinal, struct mmsb__cuda_device **device,
                                          struct mmsb__cuda_info *info);
/* Undoes mmsb__cuda_open. */
void mmsb__cuda_close(struct mmsb__cuda_device *device);
int mmsb__cuda_can_reach(const struct mmsb__cuda_device *device, int other);
/* Lets kernels of either device reach the pool of the other one, where the devices can. */
struct mmsb__cuda_outcome mmsb__cuda_share_pools(struct mmsb__cuda_device *one, struct mmsb__cuda_device *other);

struct mmsb__cuda_outcome mmsb__cuda_memory_info(struct mmsb__cuda_device *device, size_t *free, size_t *total);
struct mmsb__cuda_outcome mmsb__cuda_allocate(struct mmsb__cuda_device *device, size_t bytes, uintptr_t *address);
struct mmsb__cuda_outcome mmsb__cuda_allocate_pinned(struct mmsb__cuda_device *device, size_t bytes, uintptr_t *address);
struct mmsb__cuda_outcome mmsb__cuda_allocate_managed(struct mmsb__cuda_device *device, size_t bytes, uintptr_t *address);
struct mmsb__cuda_outcome mmsb__cuda_free(struct mmsb__cuda_device *device, uintptr_t address);
struct mmsb__cuda_outcome mmsb__cuda_free_pinned(struct mmsb__cuda_device *device, uintptr_t address);
struct mmsb__cuda_outcome mmsb__cuda_register(struct mmsb__cuda_device *device, uintptr_t address, size_t bytes);
struct mmsb__cuda_outcome mmsb__cuda_unregister(struct mmsb__cuda_device *device, uintptr_t address);
struct mmsb__cuda_outcome mmsb__cuda_allocate_ordered(struct mmsb__cuda_device *device, uintptr_t stream, size_t bytes,
                                                      uintptr_t *address);
struct mmsb__cuda_outcome mmsb__cuda_free_ordered(struct mmsb__cuda_device *device, uintptr_t stream, uintptr_t address);
struct mmsb__cuda_outcome mmsb__cuda_trim_ordered(struct mmsb__cuda_device *device, size_t keep);

struct mmsb__cuda_outcome mmsb__cuda_reserve(struct mmsb__cuda_device *device, size_t bytes, uintptr_t *address);
struct mmsb__cuda_outcome mmsb__cuda_release(struct mmsb__cuda_device *device, uintptr_t address, size_t bytes);
struct mmsb__cuda_outcome mmsb__cuda_create_physical(struct mmsb__cuda_device *device, size_t bytes, uint64_t *physical);
struct mmsb__cuda_outcome mmsb__cuda_destroy_physical(struct mmsb__cuda_device *device, uint64_t physical);
struct mmsb__cuda_outcome mmsb__cuda_map(struct mmsb__cuda_device *device, uintptr_t address, size_t bytes, uint64_t physical);
struct mmsb__cuda_outcome mmsb__cuda_unmap(struct mmsb__cuda_device *device, uintptr_t address, size_t bytes);

struct mmsb__cuda_outcome mmsb__cuda_create_stream(struct mmsb__cuda_device *device, int priority, uintptr_t *stream);
struct mmsb__cuda_outcome mmsb__cuda_destroy_stream(struct mmsb__cuda_device *device, uintptr_t stream);
struct mmsb__cuda_outcome mmsb__cuda_stream_context(struct mmsb__cuda_device *device, uintptr_t stream, uintptr_t *context);
struct mmsb__cuda_outcome mmsb__cuda_query_stream(struct mmsb__cuda_device *device, uintptr_t stream);
struct mmsb__cuda_outcome mmsb__cuda_synchronize_stream(struct mmsb__cuda_device *device, uintptr_t stream);
struct mmsb__cuda_outcome mmsb__cuda_synchronize(struct mmsb__cuda_device *device);
struct mmsb__cuda_outcome mmsb__cuda_create_event(struct mmsb__cuda_device *device, uintptr_t *event);
struct mmsb__cuda_outcome mmsb__cuda_destroy_event(struct mmsb__cuda_device *device, uintptr_t event);
struct mmsb__cuda_outcome mmsb__cuda_record_event(struct mmsb__cuda_device *device, uintptr_t event, uintptr_t stream);
struct mmsb__cuda_outcome mmsb__cuda_query_event(struct mmsb__cuda_device *device, uintptr_t event);
struct mmsb__cuda_outcome mmsb__cuda_synchronize_event(struct mmsb__cuda_device *device, uintptr_t event);
struct mmsb__cuda_outcome mmsb__cuda_wait(struct mmsb__cuda_device *device, uintptr_t stream, uintptr_t event);

struct mmsb__cuda_outcome mmsb__cuda_copy(struct mmsb__cuda_device *device, uintptr_t stream,
                                          const struct mmsb__cuda_copy *copies, size_t count);
struct mmsb__cuda_outcome mmsb__cuda_fill(struct mmsb__cuda_device *device, uintptr_t stream, uintptr_t address, int value,
                                          size_t bytes);
/* log gets what the compiler of PTX says. */
struct mmsb__cuda_outcome mmsb__cuda_load_module(struct mmsb__cuda_device *device, const void *image, uintptr_t *module,
                                                 char *log, size_t log_bytes);
struct mmsb__cuda_outcome mmsb__cuda_unload_module(struct mmsb__cuda_device *device, uintptr_t module);
struct mmsb__cuda_outcome mmsb__cuda_function(struct mmsb__cuda_device *device, uintptr_t module, const char *name,
                                              uintptr_t *function);
struct mmsb__cuda_outcome mmsb__cuda_launch(struct mmsb__cuda_device *device, uintptr_t stream, uintptr_t function,
                                            uint32_t blocks, uint32_t threads, uint32_t shared, const void *parameter,
                                            size_t parameter_bytes);

#pragma GCC visibility pop

#endif
