/* Memory for other libraries. */
#include "door.h"

#include "_cgo_export.h"

mmsb_status_t mmsb_plugin_allocate(mmsb_runtime_t runtime, uint64_t bytes, void *stream, int32_t kind, void **address) {
    DOOR_ENTER();
    DOOR_POINTER(address);
    return mmsbgo_plugin_allocate(runtime, bytes, (uintptr_t)stream, kind, (uintptr_t *)address);
}

mmsb_status_t mmsb_plugin_free(void *address, void *stream) {
    DOOR_ENTER_TO_END();
    if (!address)
        return MMSB_OK;
    return mmsbgo_plugin_free((uintptr_t)address, (uintptr_t)stream);
}

mmsb_status_t mmsb_plugin_record(void *address, void *stream) {
    DOOR_ENTER();
    DOOR_BYTES(address);
    return mmsbgo_plugin_record((uintptr_t)address, (uintptr_t)stream);
}

mmsb_status_t mmsb_plugin_bind(int32_t device, mmsb_runtime_t runtime) {
    DOOR_ENTER();
    return mmsbgo_plugin_bind(device, runtime);
}

/* The functions below pass on no status: these do, with the same checks as all others. */

static mmsb_status_t torch_allocate(size_t bytes, int32_t device, void *stream, int32_t kind, void **address) {
    DOOR_ENTER();
    return mmsbgo_torch_allocate(bytes, device, (uintptr_t)stream, kind, (uintptr_t *)address);
}

static mmsb_status_t torch_free(void *address, void *stream) {
    DOOR_ENTER_TO_END();
    return mmsbgo_torch_free((uintptr_t)address, (uintptr_t)stream);
}

static mmsb_status_t torch_record_stream(void *address, void *stream) {
    DOOR_ENTER();
    return mmsbgo_torch_record_stream((uintptr_t)address, (uintptr_t)stream);
}

static mmsb_status_t torch_empty_cache(void) {
    DOOR_ENTER();
    return mmsbgo_torch_empty_cache();
}

static mmsb_status_t torch_memory_fraction(double fraction, int32_t device) {
    DOOR_ENTER();
    return mmsbgo_torch_memory_fraction(fraction, device);
}

static mmsb_status_t torch_base(void **address, size_t *bytes) {
    DOOR_ENTER();
    return mmsbgo_torch_base((uintptr_t *)address, bytes);
}

static mmsb_status_t cupy_malloc(uint64_t runtime, size_t bytes, int32_t device, void **address) {
    DOOR_ENTER();
    return mmsbgo_cupy_malloc(runtime, bytes, device, (uintptr_t *)address);
}

void *mmsb_torch_allocate(size_t bytes, int32_t device, void *stream) {
    void *address = NULL;
    if (bytes > 0)
        (void)torch_allocate(bytes, device, stream, MMSB_PLUGIN_ORDERED, &address);
    return address;
}

void *mmsb_torch_allocate_segment(size_t bytes, int32_t device, void *stream) {
    void *address = NULL;
    if (bytes > 0)
        (void)torch_allocate(bytes, device, stream, MMSB_PLUGIN_SEGMENT, &address);
    return address;
}

void mmsb_torch_free(void *address, size_t bytes, int32_t device, void *stream) {
    (void)bytes, (void)device;
    if (address)
        (void)torch_free(address, stream);
}

void mmsb_torch_record_stream(void *address, void *stream) {
    if (address)
        (void)torch_record_stream(address, stream);
}

void mmsb_torch_empty_cache(void) {
    (void)torch_empty_cache();
}

void mmsb_torch_memory_fraction(double fraction, int32_t device) {
    (void)torch_memory_fraction(fraction, device);
}

void *mmsb_torch_base(void *address, size_t *bytes) {
    size_t unasked;
    bytes = bytes ? bytes : &unasked;
    *bytes = 0;
    (void)torch_base(&address, bytes);
    return address;
}

void *mmsb_cupy_malloc(void *runtime, size_t bytes, int32_t device) {
    void *address = NULL;
    if (bytes > 0)
        (void)cupy_malloc((uintptr_t)runtime, bytes, device, &address);
    return address;
}

void mmsb_cupy_free(void *runtime, void *address, int32_t device) {
    (void)runtime;
    mmsb_torch_free(address, 0, device, NULL);
}
