/* tensor.h — DLPack's structs, as its specification has them. */
#ifndef MMSB_TESTS_TENSOR_H
#define MMSB_TESTS_TENSOR_H

#include <stddef.h>
#include <stdint.h>

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor_t;

typedef struct dl_legacy {
    dl_tensor_t tensor;
    void *manager_ctx;
    void (*deleter)(struct dl_legacy *self);
} dl_legacy_t;

typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor_t tensor;
} dl_versioned_t;

#ifdef __cplusplus
#define DL_ASSERT static_assert
#else
#define DL_ASSERT _Static_assert
#endif
#define DL_IS(type, field, at) DL_ASSERT(offsetof(type, field) == (at), #type "." #field)
DL_ASSERT(sizeof(dl_tensor_t) == 48 && sizeof(dl_legacy_t) == 64 && sizeof(dl_versioned_t) == 80, "sizes");
DL_IS(dl_tensor_t, device, 8);
DL_IS(dl_tensor_t, ndim, 16);
DL_IS(dl_tensor_t, dtype, 20);
DL_IS(dl_tensor_t, shape, 24);
DL_IS(dl_tensor_t, byte_offset, 40);
DL_IS(dl_legacy_t, deleter, 56);
DL_IS(dl_versioned_t, deleter, 16);
DL_IS(dl_versioned_t, flags, 24);
DL_IS(dl_versioned_t, tensor, 32);

#endif
