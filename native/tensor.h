/*
 * tensor.h — tensors as DLPack 1.x has them (https://dmlc.github.io/dlpack): pages that are exported as one, what a tensor of
 * another library says of its memory, checked without trust, and tensors as arrays of Arrow
 * (https://arrow.apache.org/docs/format/CDeviceDataInterface.html).
 */
#ifndef MMSB_NATIVE_TENSOR_H
#define MMSB_NATIVE_TENSOR_H

#include "pin.h"

#pragma GCC visibility push(hidden)

#define MMSB__TENSOR_DIMENSIONS 64

/* DLPack's structs, where its header is not. */
typedef struct mmsb__tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in items */
    uint64_t byte_offset;
} mmsb__tensor_t;

typedef struct mmsb__tensor_legacy { /* DLManagedTensor */
    mmsb__tensor_t tensor;
    void *context;
    void (*deleter)(struct mmsb__tensor_legacy *);
} mmsb__tensor_legacy_t;

typedef struct mmsb__tensor_versioned { /* DLManagedTensorVersioned */
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct mmsb__tensor_versioned *);
    uint64_t flags;
    mmsb__tensor_t tensor;
} mmsb__tensor_versioned_t;

#define MMSB__TENSOR_MAJOR 1
#define MMSB__TENSOR_MINOR 0
#define MMSB__TENSOR_READ_ONLY 1
#define MMSB__TENSOR_COPIED 2

/* kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged. */
#define MMSB__TENSOR_CPU 1
#define MMSB__TENSOR_CUDA 2
#define MMSB__TENSOR_CUDA_HOST 3
#define MMSB__TENSOR_CUDA_MANAGED 13

/* Exports whose deleter has not run. */
uint64_t mmsb__tensors_alive(void);
mmsb_status_t mmsb__page_export_tensor(uint64_t page, const mmsb_tensor_options_t *options, void **tensor);
/* Memory that stays until returned(number): of a page, which has no such function, or of a block. */
typedef struct mmsb__exported {
    uint64_t number;
    void (*returned)(uint64_t number); /* any thread may call it, also one that holds pages' locks */
    void *address;
    uint64_t size;
    mmsb_location_t location;
    int32_t device;
} mmsb__exported_t;

mmsb_status_t mmsb__block_export_tensor(const mmsb__exported_t *of, const mmsb_tensor_options_t *options, void **tensor);
/* The memory of a tensor, whose fields are checked. */
mmsb_status_t mmsb__tensor_info(const void *tensor, int versioned, mmsb_tensor_info_t *info);
/* Gives a tensor of another library back. */
void mmsb__tensor_delete(void *tensor, int versioned);

/* native/arrow.c. array may be NULL: it has the tensor from then on. */
mmsb_status_t mmsb__tensor_to_arrow(void *tensor, int versioned, struct ArrowDeviceArray *array, struct ArrowSchema *schema);
/* Waits for an event of the driver's on a device. */
typedef mmsb_status_t (*mmsb__await_event_t)(int32_t device, uintptr_t event);
/* The tensor has the array from then on, and the schema is released. */
mmsb_status_t mmsb__tensor_from_arrow(struct ArrowDeviceArray *array, struct ArrowSchema *schema, mmsb__await_event_t await,
                                      void **tensor);

/* Exports whose deleter has run, but whose page another call had, or whose thread was giving adopted memory back and may have
 * held locks. They end with the next call that enters Go or ends a page. */
extern struct mmsb__export *mmsb__tensors_waiting;
extern uint32_t mmsb__tensors_ending; /* threads that have taken some of them, which may be those that the caller needs */
void mmsb__tensors_end_waiting_slow(void);

static inline void mmsb__tensors_end_waiting(void) {
    if (MMSB__UNLIKELY(__atomic_load_n(&mmsb__tensors_waiting, __ATOMIC_ACQUIRE) != NULL ||
                       __atomic_load_n(&mmsb__tensors_ending, __ATOMIC_RELAXED) != 0))
        mmsb__tensors_end_waiting_slow();
}

#pragma GCC visibility pop
#endif
