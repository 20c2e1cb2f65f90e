/* Stores: directories that have the state of a context. */
#include <string.h>

#include "door.h"

#include "_cgo_export.h"

#define STORE_DEFAULTS .interval_ms = 10, .keep_last = 1, .segment_bytes = UINT64_C(16) << 20, .timeout_ns = MMSB_WAIT_FOREVER

void mmsb_store_options_init(mmsb_store_options_t *options) {
    *options = (mmsb_store_options_t){.struct_size = sizeof *options, STORE_DEFAULTS};
}

static const mmsb_store_options_t default_store = {.struct_size = sizeof default_store, STORE_DEFAULTS};

static mmsb_status_t check_open(const char *directory, const mmsb_context_options_t **context_options,
                                mmsb_context_options_t *defaults, const mmsb_store_options_t **options) {
    DOOR_CHECK(door_path("directory", directory));
    DOOR_CHECK(door_context_options(context_options, defaults));
    if (!*options)
        *options = &default_store;
    const mmsb_store_options_t *given = *options;
    DOOR_STRUCT("mmsb_store_options_t", given, 0);
    if (given->load != MMSB_LOAD_EAGER && given->load != MMSB_LOAD_LAZY)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "load is %d, not 0 (eager) or 1 (lazy)", given->load);
    if (given->at_name && !*given->at_name)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "at_name is empty; NULL is no name");
    return MMSB_OK;
}

mmsb_status_t mmsb_store_open(const char *directory, const mmsb_context_options_t *context_options,
                              const mmsb_store_options_t *options, mmsb_context_t *context) {
    DOOR_ENTER();
    mmsb_context_options_t defaults;
    DOOR_CHECK(check_open(directory, &context_options, &defaults, &options));
    DOOR_POINTER(context);
    return mmsbgo_store_open((char *)directory, (mmsb_context_options_t *)context_options, (mmsb_store_options_t *)options,
                             context);
}

mmsb_status_t mmsb_store_open_start(const char *directory, const mmsb_context_options_t *context_options,
                                    const mmsb_store_options_t *options, const mmsb_work_options_t *work, mmsb_context_t *context,
                                    mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    mmsb_context_options_t defaults;
    DOOR_CHECK(check_open(directory, &context_options, &defaults, &options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(context);
    DOOR_POINTER(ticket);
    *context = 0;
    return mmsbgo_store_open_start((char *)directory, (mmsb_context_options_t *)context_options, (mmsb_store_options_t *)options,
                                   (mmsb_work_options_t *)work, context, ticket);
}

static mmsb_status_t check_save(int32_t whole, const mmsb_work_options_t *work) {
    DOOR_CHECK(door_work(work));
    if (whole < 0 || whole > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "whole is %d, not 0 or 1", whole);
    return MMSB_OK;
}

mmsb_status_t mmsb_store_save(mmsb_context_t context, int32_t whole, const mmsb_work_options_t *work) {
    DOOR_ENTER();
    DOOR_CHECK(check_save(whole, work));
    return mmsbgo_store_save(context, whole, (mmsb_work_options_t *)work);
}

mmsb_status_t mmsb_store_save_start(mmsb_context_t context, int32_t whole, const mmsb_work_options_t *work,
                                    mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_save(whole, work));
    DOOR_POINTER(ticket);
    return mmsbgo_store_save_start(context, whole, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_store_name(mmsb_context_t context, const char *name, const mmsb_work_options_t *work) {
    DOOR_ENTER();
    DOOR_BYTES(name);
    DOOR_CHECK(door_work(work));
    return mmsbgo_store_name(context, (char *)name, (mmsb_work_options_t *)work);
}

mmsb_status_t mmsb_store_name_start(mmsb_context_t context, const char *name, const mmsb_work_options_t *work,
                                    mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_BYTES(name);
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_store_name_start(context, (char *)name, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_store_unname(mmsb_context_t context, const char *name, const mmsb_work_options_t *work) {
    DOOR_ENTER();
    DOOR_BYTES(name);
    DOOR_CHECK(door_work(work));
    return mmsbgo_store_unname(context, (char *)name, (mmsb_work_options_t *)work);
}

void mmsb_store_info_init(mmsb_store_info_t *info) {
    DOOR_INIT(info);
}

mmsb_status_t mmsb_store_info(mmsb_context_t context, mmsb_store_info_t *info) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_store_info_t", info, info->reserved_word);
    return mmsbgo_store_info(context, info);
}

mmsb_status_t mmsb_store_wait(mmsb_context_t context, uint64_t record, const mmsb_work_options_t *work) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    return mmsbgo_store_wait(context, record, (mmsb_work_options_t *)work);
}

mmsb_status_t mmsb_store_wait_start(mmsb_context_t context, uint64_t record, const mmsb_work_options_t *work,
                                    mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_store_wait_start(context, record, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_store_points(const char *directory, mmsb_store_point_t *points, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("directory", directory));
    DOOR_ARRAY(points, capacity);
    DOOR_POINTER(count);
    return mmsbgo_store_points((char *)directory, points, capacity, count);
}
