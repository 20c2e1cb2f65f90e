/* Tensors as arrays of Arrow's C device data interface, and arrays as tensors: tensor.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

/* What an array of numbers has: a bitmap of nulls and the numbers; a list of a fixed size has the bitmap only. */
#define NUMBER_BUFFERS 2

/* "+w:" and an int64_t. */
#define FORMAT_BYTES 24

static const struct number {
    const char *format;
    uint8_t code, bits;
} numbers[] = {
    {"c", MMSB_TENSOR_CODE_INT, 8},    {"C", MMSB_TENSOR_CODE_UINT, 8},   {"s", MMSB_TENSOR_CODE_INT, 16},
    {"S", MMSB_TENSOR_CODE_UINT, 16},  {"i", MMSB_TENSOR_CODE_INT, 32},   {"I", MMSB_TENSOR_CODE_UINT, 32},
    {"l", MMSB_TENSOR_CODE_INT, 64},   {"L", MMSB_TENSOR_CODE_UINT, 64},  {"e", MMSB_TENSOR_CODE_FLOAT, 16},
    {"f", MMSB_TENSOR_CODE_FLOAT, 32}, {"g", MMSB_TENSOR_CODE_FLOAT, 64},
};

/* ------------------------------------------------------------------------------------------------------- exports ---- */

/* What the nodes of an array or schema share: a consumer may move any of them out of its parent and release it by itself, on any
 * thread. The last one that is released ends it. */
typedef struct shared {
    int32_t nodes; /* that are not released */
    int32_t versioned;
    void *tensor; /* of an array */
} shared_t;

typedef struct array_node {
    struct ArrowArray array, *child;
    const void *buffers[NUMBER_BUFFERS];
} array_node_t;

typedef struct schema_node {
    struct ArrowSchema schema, *child;
    char format[FORMAT_BYTES];
} schema_node_t;

static void drop(shared_t *shared) {
    if (__atomic_sub_fetch(&shared->nodes, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (shared->tensor)
        mmsb__tensor_delete(shared->tensor, shared->versioned);
    free(shared);
}

/* Released twice, as the specification forbids, is released once. */
static void release_array(struct ArrowArray *array) {
    if (!array->release)
        return;
    array->release = NULL;
    if (array->n_children == 1 && array->children[0]->release)
        array->children[0]->release(array->children[0]);
    drop(array->private_data);
}

static void release_schema(struct ArrowSchema *schema) {
    if (!schema->release)
        return;
    schema->release = NULL;
    if (schema->n_children == 1 && schema->children[0]->release)
        schema->children[0]->release(schema->children[0]);
    drop(schema->private_data);
}

static mmsb_status_t format_of(const mmsb__tensor_t *tensor, const char **format) {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (tensor->code == numbers[i].code && tensor->bits == numbers[i].bits && tensor->lanes == 1) {
            *format = numbers[i].format;
            return MMSB_OK;
        }
    }
    return mmsb__fail(MMSB_E_UNSUPPORTED, "type code is %u with %u bits and %u lanes, which is no number of Arrow's",
                      tensor->code, tensor->bits, tensor->lanes);
}

/* The shape is checked: its product is the number of items. */
static mmsb_status_t check_rows(const mmsb__tensor_t *tensor) {
    int64_t step = 1;
    for (int32_t i = tensor->ndim - 1; tensor->strides && i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != step)
            return mmsb__fail(MMSB_E_UNSUPPORTED, "strides[%d] is %lld, but an Arrow array lies row by row: %lld is needed", i,
                              (long long)tensor->strides[i], (long long)step);
        step *= tensor->shape[i];
    }
    return MMSB_OK;
}

static void fill_schema(const mmsb__tensor_t *tensor, const char *format, int32_t levels, shared_t *shared,
                        struct ArrowSchema *schema) {
    schema_node_t *nodes = (schema_node_t *)(shared + 1);
    for (int32_t i = levels - 1; i >= 0; i--) {
        schema_node_t *node = &nodes[i];
        const int list = i < levels - 1;
        if (list)
            snprintf(node->format, sizeof node->format, "+w:%lld", (long long)tensor->shape[i + 1]);
        else
            snprintf(node->format, sizeof node->format, "%s", format);
        node->child = list ? &nodes[i + 1].schema : NULL;
        node->schema = (struct ArrowSchema){.format = node->format,
                                            .name = i == 0 ? "" : "item",
                                            .flags = ARROW_FLAG_NULLABLE, /* as others have it: the types are equal */
                                            .n_children = list,
                                            .children = list ? &node->child : NULL,
                                            .release = release_schema,
                                            .private_data = shared};
    }
    *schema = nodes[0].schema;
}

static void fill_array(const mmsb__tensor_t *tensor, const mmsb_tensor_info_t *info, int32_t levels, shared_t *shared,
                       struct ArrowDeviceArray *array) {
    array_node_t *nodes = (array_node_t *)(shared + 1);
    int64_t length = 1;
    for (int32_t i = 0; i < levels; i++) {
        array_node_t *node = &nodes[i];
        const int list = i < levels - 1;
        length *= tensor->ndim > 0 ? tensor->shape[i] : 1;
        node->buffers[1] = list ? NULL : info->address;
        node->child = list ? &nodes[i + 1].array : NULL;
        node->array = (struct ArrowArray){.length = length,
                                          .n_buffers = list ? 1 : NUMBER_BUFFERS,
                                          .n_children = list,
                                          .buffers = node->buffers,
                                          .children = list ? &node->child : NULL,
                                          .release = release_array,
                                          .private_data = shared};
    }
    *array = (struct ArrowDeviceArray){.array = nodes[0].array,
                                       .device_id = info->device_type == ARROW_DEVICE_CPU ? -1 : info->device,
                                       .device_type = info->device_type};
}

mmsb_status_t mmsb__tensor_to_arrow(void *managed, int versioned, struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    const mmsb__tensor_t *tensor =
        versioned ? &((mmsb__tensor_versioned_t *)managed)->tensor : &((mmsb__tensor_legacy_t *)managed)->tensor;
    mmsb_tensor_info_t info;
    const char *format = NULL;
    mmsb_status_t status = mmsb__tensor_info(managed, versioned, &info);
    if (status == MMSB_OK)
        status = format_of(tensor, &format);
    if (status == MMSB_OK)
        status = check_rows(tensor);
    if (status != MMSB_OK)
        return status;
    const int32_t levels = tensor->ndim > 0 ? tensor->ndim : 1;
    shared_t *of_schema = calloc(1, sizeof *of_schema + (size_t)levels * sizeof(schema_node_t));
    shared_t *of_array = array ? calloc(1, sizeof *of_array + (size_t)levels * sizeof(array_node_t)) : NULL;
    if (!of_schema || (array && !of_array)) {
        free(of_schema);
        free(of_array);
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for an Arrow array of %d dimensions", levels);
    }
    of_schema->nodes = levels;
    fill_schema(tensor, format, levels, of_schema, schema);
    if (array) {
        *of_array = (shared_t){.nodes = levels, .versioned = versioned, .tensor = managed};
        fill_array(tensor, &info, levels, of_array, array);
    }
    return MMSB_OK;
}
