/* What the door says of arguments that it does not take, and checks that are too rare to stand in door.h. */
#include "door.h"

mmsb_status_t door_bad_pointer(const char *name, const void *pointer, size_t alignment) {
    if (!pointer)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is NULL", name);
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s at %p is not aligned to %zu", name, pointer, alignment);
}

mmsb_status_t door_bad_count(const char *name, uint64_t count, size_t size) {
    return mmsb__fail(MMSB_E_INVALID_SIZE, "%s has %llu items of %zu bytes, more than can be addressed", name,
                      (unsigned long long)count, size);
}

mmsb_status_t door_bad_struct(const char *name, uint32_t struct_size, size_t expected) {
    if (struct_size != expected)
        return mmsb__fail(MMSB_E_STRUCT_VERSION, "struct_size of %s is %u, not %zu; call its _init function first", name,
                          struct_size, expected);
    return mmsb__fail(MMSB_E_STRUCT_VERSION, "reserved word of %s is not 0", name);
}

mmsb_status_t door_path(const char *name, const char *path) {
    DOOR_CHECK(door_pointer(name, path, 1));
    return path[0] ? MMSB_OK : mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is empty", name);
}

mmsb_status_t door_work(const mmsb_work_options_t *work) {
    if (!work)
        return MMSB_OK;
    DOOR_STRUCT("mmsb_work_options_t", work, 0);
    if (work->device != 0 && work->stream == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "device is %d, but stream is 0", work->device);
    DOOR_ARRAY(work->after, work->after_count);
    return MMSB_OK;
}
