/* Tensors as arrays of Arrow's C device data interface, and arrays as tensors: tensor.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

/* What an array of numbers has: a bitmap of nulls and the numbers; a list of a fixed size has the bitmap only. */
#define NUMBER_BUFFERS 2
#define LIST_BUFFERS 1

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
                                          .n_buffers = list ? LIST_BUFFERS : NUMBER_BUFFERS,
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

/* ------------------------------------------------------------------------------------------------------- imports ---- */

/* A tensor of an array that others have made, which it has from then on. */
typedef struct import {
    mmsb__tensor_versioned_t managed;
    struct ArrowArray array;
    int64_t shape[MMSB__TENSOR_DIMENSIONS], strides[MMSB__TENSOR_DIMENSIONS];
} import_t;

/* As much of a format as an error shows. */
#define SHOWN_BYTES 40

/* What the items of a level are: numbers, bytes of which width are an item, or, without a number, lists of width. */
typedef struct format {
    const struct number *number;
    int64_t width;
    char shown[SHOWN_BYTES + 1]; /* in errors: of a text of others */
} format_t;

static const struct number *find_number(const char *format) {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(numbers[i].format, format) == 0)
            return &numbers[i];
    }
    return NULL;
}

/* The number behind the colon of "+w:" or "w:"; 0 where there is none that could be meant. */
static int64_t read_width(const char *digits) {
    int64_t width = 0;
    for (; *digits >= '0' && *digits <= '9'; digits++) {
        if (__builtin_mul_overflow(width, 10, &width) || __builtin_add_overflow(width, *digits - '0', &width))
            return 0;
    }
    return *digits ? 0 : width;
}

static mmsb_status_t read_format(const char *text, format_t *format) {
    *format = (format_t){.number = find_number(text)};
    for (size_t i = 0; i < SHOWN_BYTES && text[i]; i++)
        format->shown[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    if (format->number)
        return MMSB_OK;
    if (strncmp(text, "+w:", 3) == 0 && (format->width = read_width(text + 3)) > 0)
        return MMSB_OK;
    if (strncmp(text, "w:", 2) == 0 && (format->width = read_width(text + 2)) > 0) {
        format->number = find_number("C");
        return MMSB_OK;
    }
    return mmsb__fail(MMSB_E_UNSUPPORTED,
                      "format of the Arrow array is '%s', which is no integer or float of whole bytes, and no list or "
                      "binary of a fixed size",
                      format->shown);
}

/* The fields of one level of an array and of its schema. */
static mmsb_status_t check_level(const struct ArrowArray *array, const struct ArrowSchema *schema, format_t *format) {
    if (!array || !array->release)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "the Arrow array was released, or moved elsewhere");
    if (!schema || !schema->release || !schema->format)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "the Arrow schema was released, moved elsewhere, or has no format");
    const mmsb_status_t status = read_format(schema->format, format);
    if (status != MMSB_OK)
        return status;
    if (array->dictionary || schema->dictionary)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "format of the Arrow array is '%s' with a dictionary", format->shown);
    const int64_t children = !format->number, buffers = format->number ? NUMBER_BUFFERS : LIST_BUFFERS;
    if (array->n_buffers != buffers || array->n_children != children || schema->n_children != children)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT,
                          "the Arrow array of format '%s' has %lld buffers and %lld children, and %lld in its schema; "
                          "%lld and %lld are needed",
                          format->shown, (long long)array->n_buffers, (long long)array->n_children, (long long)schema->n_children,
                          (long long)buffers, (long long)children);
    if (!array->buffers || (children && (!array->children || !schema->children)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "the Arrow array of format '%s' has NULL for its %s", format->shown,
                          array->buffers ? "children" : "buffers");
    if (array->length < 0 || array->offset < 0 || array->null_count < -1)
        return mmsb__fail(MMSB_E_INVALID_SIZE,
                          "the Arrow array has length %lld, offset %lld, null_count %lld; 0, 0, -1 are the least",
                          (long long)array->length, (long long)array->offset, (long long)array->null_count);
    if (array->length > INT64_MAX - array->offset)
        return mmsb__fail(MMSB_E_INVALID_SIZE, "length %lld and offset %lld of the Arrow array exceed %lld items",
                          (long long)array->length, (long long)array->offset, (long long)INT64_MAX);
    return MMSB_OK;
}

/* Items of a level, from its first one on. */
typedef struct items {
    int64_t first, count;
} items_t;

static int all_set(const uint8_t *bits, items_t items) {
    const int64_t end = items.first + items.count;
    for (int64_t i = items.first; i < end;) {
        const int whole = i % 8 == 0 && end - i >= 8;
        if (whole ? bits[i / 8] != UINT8_MAX : !(bits[i / 8] >> i % 8 & 1))
            return 0;
        i += whole ? 8 : 1;
    }
    return 1;
}

/* A null_count of -1 says that nobody has counted: the bitmap says which items are there. */
static mmsb_status_t check_nulls(const struct ArrowArray *array, const format_t *format, int on_host, items_t items) {
    if (array->null_count > 0)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "the Arrow array of format '%s' has %lld nulls", format->shown,
                          (long long)array->null_count);
    if (array->null_count == 0 || !array->buffers[0])
        return MMSB_OK;
    if (!on_host)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "null_count of the Arrow array is -1, and its bitmap lies on a device");
    if (!all_set(array->buffers[0], items))
        return mmsb__fail(MMSB_E_UNSUPPORTED, "the Arrow array of format '%s' has nulls", format->shown);
    return MMSB_OK;
}

/* Makes of items the width times as many that are in them, which are another dimension. */
static mmsb_status_t add_dimension(mmsb__tensor_t *tensor, int64_t width, items_t *items) {
    if (tensor->ndim == MMSB__TENSOR_DIMENSIONS)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "the Arrow array has more than %d dimensions", MMSB__TENSOR_DIMENSIONS);
    if (__builtin_mul_overflow(items->first, width, &items->first) || __builtin_mul_overflow(items->count, width, &items->count))
        return mmsb__fail(MMSB_E_INVALID_SIZE, "the Arrow array has more than %lld items at dimension %d", (long long)INT64_MAX,
                          tensor->ndim);
    tensor->shape[tensor->ndim++] = width;
    return MMSB_OK;
}

/* Where the numbers of an array lie: each level is a dimension, and has at least the items that the level above takes of it. */
static mmsb_status_t read_levels(const struct ArrowArray *array, const struct ArrowSchema *schema, int on_host,
                                 mmsb__tensor_t *tensor) {
    items_t items = {.count = 1};
    format_t format;
    for (int64_t width = array->length;; width = format.width) {
        mmsb_status_t status = check_level(array, schema, &format);
        if (status == MMSB_OK)
            status = add_dimension(tensor, width, &items);
        if (status != MMSB_OK)
            return status;
        if (items.count > array->length - items.first)
            return mmsb__fail(MMSB_E_INVALID_SIZE,
                              "the Arrow array of format '%s' has %lld items, its lists have %lld from %lld on", format.shown,
                              (long long)array->length, (long long)items.count, (long long)items.first);
        items.first += array->offset;
        status = check_nulls(array, &format, on_host, items);
        if (status != MMSB_OK)
            return status;
        if (format.number)
            break;
        array = array->children[0];
        schema = schema->children[0];
    }
    const mmsb_status_t status = format.width ? add_dimension(tensor, format.width, &items) : MMSB_OK;
    if (status != MMSB_OK)
        return status;
    if (__builtin_mul_overflow((uint64_t)items.first, format.number->bits / 8U, &tensor->byte_offset))
        return mmsb__fail(MMSB_E_INVALID_SIZE, "the Arrow array begins at item %lld, past all addresses", (long long)items.first);
    tensor->data = (void *)(uintptr_t)array->buffers[1];
    tensor->code = format.number->code;
    tensor->bits = format.number->bits;
    tensor->lanes = 1;
    return MMSB_OK;
}

/* Pinned and managed memory may belong to no device. reserved must be 0, but pyarrow leaves there what malloc gave. */
static mmsb_status_t read_device(const struct ArrowDeviceArray *array, mmsb__tensor_t *tensor) {
    const int64_t device = array->device_id == -1 && array->device_type != ARROW_DEVICE_CUDA ? 0 : array->device_id;
    if (device < 0 || device > INT32_MAX)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "device_id of the Arrow array is %lld; the range is 0 to %d",
                          (long long)array->device_id, INT32_MAX);
    if (array->sync_event && array->device_type == ARROW_DEVICE_CPU)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "sync_event is set for an Arrow array in host memory, which has no events");
    tensor->device_type = array->device_type;
    tensor->device_id = (int32_t)device;
    return MMSB_OK;
}

/* Any thread may call it, as the array's release. */
static void delete_import(mmsb__tensor_versioned_t *managed) {
    if (!managed)
        return;
    import_t *import = managed->context;
    import->array.release(&import->array);
    free(import);
}

static mmsb_status_t fill_import(const struct ArrowDeviceArray *array, const struct ArrowSchema *schema, import_t *import) {
    mmsb__tensor_t *tensor = &import->managed.tensor;
    mmsb_tensor_info_t info;
    import->managed = (mmsb__tensor_versioned_t){.major = MMSB__TENSOR_MAJOR,
                                                 .minor = MMSB__TENSOR_MINOR,
                                                 .context = import,
                                                 .deleter = delete_import,
                                                 .flags = MMSB__TENSOR_READ_ONLY,
                                                 .tensor = {.shape = import->shape}};
    mmsb_status_t status = read_device(array, tensor);
    if (status == MMSB_OK)
        status = read_levels(&array->array, schema, array->device_type == ARROW_DEVICE_CPU, tensor);
    if (status == MMSB_OK)
        status = mmsb__tensor_info(&import->managed, 1, &info);
    if (status != MMSB_OK)
        return status;
    tensor->strides = import->strides;
    int64_t step = 1; /* the product of the shape was checked */
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        tensor->strides[i] = step;
        step *= tensor->shape[i];
    }
    return MMSB_OK;
}

mmsb_status_t mmsb__tensor_from_arrow(struct ArrowDeviceArray *array, struct ArrowSchema *schema, mmsb__await_event_t await,
                                      void **tensor) {
    import_t *import = malloc(sizeof *import);
    if (!import)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for the tensor of an Arrow array");
    mmsb_status_t status = fill_import(array, schema, import);
    if (status == MMSB_OK && array->sync_event)
        status = await(import->managed.tensor.device_id, *(const uintptr_t *)array->sync_event);
    if (status != MMSB_OK) {
        free(import);
        return status;
    }
    import->array = array->array;
    array->array.release = NULL;
    schema->release(schema);
    schema->release = NULL; /* as it says itself, if it keeps the rules */
    *tensor = import;
    return MMSB_OK;
}
