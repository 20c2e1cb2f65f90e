/* Pages as tensors of DLPack, and tensors as pages (native/tensor.h). */
#include <dlfcn.h>
#include <string.h>

#include "door.h"
#include "tensor.h"

#include "_cgo_export.h"

void mmsb_tensor_options_init(mmsb_tensor_options_t *options) {
    DOOR_INIT(options);
    options->versioned = 1;
    options->ndim = 1;
    options->code = MMSB_TENSOR_CODE_UINT;
    options->bits = 8;
    options->lanes = 1;
}

static mmsb_status_t check_flag(const char *name, int32_t value) {
    if (value < 0 || value > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is %d, not 0 or 1", name, value);
    return MMSB_OK;
}

/* The caller's options, checked, or the defaults. */
static mmsb_status_t tensor_options(const mmsb_tensor_options_t **given, mmsb_tensor_options_t *defaults) {
    mmsb_tensor_options_init(defaults);
    const mmsb_tensor_options_t *options = *given = *given ? *given : defaults;
    DOOR_STRUCT("mmsb_tensor_options_t", options, options->reserved_word);
    DOOR_CHECK(check_flag("versioned", options->versioned));
    DOOR_CHECK(check_flag("read_only", options->read_only));
    DOOR_CHECK(door_optional("shape", options->shape, __alignof__(int64_t)));
    DOOR_CHECK(door_optional("strides", options->strides, __alignof__(int64_t)));
    return MMSB_OK;
}

mmsb_status_t mmsb_page_export_tensor(mmsb_page_t page, const mmsb_tensor_options_t *options, void **tensor) {
    mmsb_tensor_options_t defaults;
    DOOR_ENTER();
    DOOR_CHECK(tensor_options(&options, &defaults));
    DOOR_POINTER(tensor);
    return mmsb__page_export_tensor(page, options, tensor);
}

mmsb_status_t mmsb_block_export_tensor(mmsb_block_t block, void *stream, const mmsb_tensor_options_t *options, void **tensor) {
    mmsb_tensor_options_t defaults;
    DOOR_ENTER();
    DOOR_CHECK(tensor_options(&options, &defaults));
    DOOR_POINTER(tensor);
    mmsb__exported_t of = {.returned = mmsbgo_block_return};
    DOOR_CHECK(mmsbgo_block_lend(block, (uintptr_t)stream, options->read_only, &of.number, (uintptr_t *)&of.address, &of.size,
                                 &of.location, &of.device));
    mmsb_status_t status = mmsb__block_export_tensor(&of, options, tensor);
    if (status != MMSB_OK)
        mmsbgo_block_return(of.number);
    return status;
}

void mmsb_tensor_info_init(mmsb_tensor_info_t *info) {
    DOOR_INIT(info);
}

static mmsb_status_t tensor_info(const void *tensor, int32_t versioned, mmsb_tensor_info_t *info) {
    DOOR_CHECK(check_flag("versioned", versioned));
    DOOR_CHECK(door_pointer("tensor", tensor, __alignof__(uint64_t)));
    return mmsb__tensor_info(tensor, versioned, info);
}

mmsb_status_t mmsb_tensor_info(const void *tensor, int32_t versioned, mmsb_tensor_info_t *info) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_tensor_info_t", info, info->reserved_word);
    return tensor_info(tensor, versioned, info);
}

/* The user of adopted memory is the tensor. */
static void release_legacy(void *tensor, void *memory, uint64_t size) {
    (void)memory, (void)size;
    mmsb__tensor_delete(tensor, 0);
}

static void release_versioned(void *tensor, void *memory, uint64_t size) {
    (void)memory, (void)size;
    mmsb__tensor_delete(tensor, 1);
}

mmsb_status_t mmsb_page_adopt_tensor(mmsb_context_t context, void *tensor, int32_t versioned, const mmsb_adopt_options_t *options,
                                     mmsb_page_t *page) {
    DOOR_ENTER();
    mmsb_tensor_info_t info;
    mmsb_adopt_options_t adopt;
    mmsb_adopt_options_init(&adopt);
    if (options) {
        DOOR_STRUCT("mmsb_adopt_options_t", options, 0);
        if (options->release || options->user)
            return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "release or user is set; a tensor has its deleter");
        adopt = *options;
    }
    DOOR_CHECK(tensor_info(tensor, versioned, &info));
    if (info.read_only && !adopt.read_only)
        return mmsb__fail(MMSB_E_INVALID_STATE, "the tensor's %llu bytes are read-only, but read_only is 0",
                          (unsigned long long)info.bytes);
    adopt.release = versioned ? release_versioned : release_legacy;
    adopt.user = tensor;
    if (info.device_type == MMSB__TENSOR_CUDA) {
        adopt.location = MMSB_LOCATION_GPU;
        adopt.device = info.device;
    }
    return mmsb_page_adopt(context, info.address, info.bytes, &adopt, page);
}

mmsb_status_t mmsb_tensor_to_arrow(void *tensor, int32_t versioned, struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    DOOR_ENTER();
    DOOR_CHECK(check_flag("versioned", versioned));
    DOOR_CHECK(door_pointer("tensor", tensor, __alignof__(uint64_t)));
    DOOR_CHECK(door_optional("array", array, __alignof__(struct ArrowDeviceArray)));
    DOOR_POINTER(schema);
    return mmsb__tensor_to_arrow(tensor, versioned, array, schema);
}

mmsb_status_t mmsb_tensor_from_arrow(struct ArrowDeviceArray *array, struct ArrowSchema *schema, void **tensor) {
    DOOR_ENTER();
    DOOR_POINTER(array);
    DOOR_POINTER(schema);
    DOOR_POINTER(tensor);
    return mmsb__tensor_from_arrow(array, schema, mmsbgo_event_await, tensor);
}

/* A function of Python's own, which is in the process that has a capsule, and stays there. */
static void *python_function(void **known, const char *name) {
    void *found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!found) {
        found = dlsym(RTLD_DEFAULT, name); /* among hundreds of libraries */
        __atomic_store_n(known, found, __ATOMIC_RELAXED);
    }
    return found;
}

void mmsb_tensor_capsule_end(void *capsule) {
    static void *known[3];
    const char *(*get_name)(void *) = (const char *(*)(void *))python_function(&known[0], "PyCapsule_GetName");
    void *(*get)(void *, const char *) = (void *(*)(void *, const char *))python_function(&known[1], "PyCapsule_GetPointer");
    void (*free_raw)(void *) = (void (*)(void *))python_function(&known[2], "PyMem_RawFree");
    const char *name = capsule && get_name && get && free_raw ? get_name(capsule) : NULL;
    if (!name)
        return;
    if (!strcmp(name, "dltensor") || !strcmp(name, "dltensor_versioned")) {
        mmsb__tensor_delete(get(capsule, name), !strcmp(name, "dltensor_versioned"));
    } else if (!strcmp(name, "arrow_schema")) {
        struct ArrowSchema *schema = get(capsule, name);
        if (schema->release)
            schema->release(schema);
        free_raw(schema);
    } else if (!strcmp(name, "arrow_array") || !strcmp(name, "arrow_device_array")) {
        struct ArrowArray *array = get(capsule, name); /* an ArrowDeviceArray begins with one */
        if (array->release)
            array->release(array);
        free_raw(array);
    }
}
