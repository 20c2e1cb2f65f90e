/* Tags of a pool that sleep, and captures. */
#include "door.h"

#include "_cgo_export.h"

mmsb_status_t mmsb_pool_partition(mmsb_runtime_t runtime, mmsb_tag_t tag) {
    DOOR_ENTER();
    return mmsbgo_pool_partition(runtime, tag);
}

void mmsb_sleep_options_init(mmsb_sleep_options_t *options) {
    DOOR_INIT(options);
    options->mode = MMSB_SLEEP_KEEP;
    options->timeout_ns = MMSB_WAIT_FOREVER;
}

mmsb_status_t mmsb_pool_sleep(mmsb_runtime_t runtime, const mmsb_tag_t *tags, size_t count, const mmsb_sleep_options_t *options) {
    DOOR_ENTER();
    DOOR_ARRAY(tags, count);
    mmsb_sleep_options_t defaults;
    if (!options) {
        mmsb_sleep_options_init(&defaults);
        options = &defaults;
    }
    DOOR_STRUCT("mmsb_sleep_options_t", options, 0);
    if (options->mode < MMSB_SLEEP_DROP || options->mode > MMSB_SLEEP_FILE)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "mode is %d, not 1 (drop), 2 (keep) or 3 (file)", options->mode);
    if (options->mode == MMSB_SLEEP_FILE)
        DOOR_CHECK(door_path("folder", options->folder));
    else if (options->folder)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "folder is given, but mode is %d, not 3 (file)", options->mode);
    return mmsbgo_pool_sleep(runtime, (mmsb_tag_t *)tags, count, (mmsb_sleep_options_t *)options);
}

mmsb_status_t mmsb_pool_wake(mmsb_runtime_t runtime, const mmsb_tag_t *tags, size_t count) {
    DOOR_ENTER();
    DOOR_ARRAY(tags, count);
    return mmsbgo_pool_wake(runtime, (mmsb_tag_t *)tags, count);
}

mmsb_status_t mmsb_capture_begin(const mmsb_stream_t *streams, size_t count, mmsb_capture_t *capture) {
    DOOR_ENTER();
    DOOR_ARRAY(streams, count);
    DOOR_POINTER(capture);
    return mmsbgo_capture_begin((mmsb_stream_t *)streams, count, capture);
}

mmsb_status_t mmsb_capture_resume(mmsb_capture_t capture, const mmsb_stream_t *streams, size_t count) {
    DOOR_ENTER();
    DOOR_ARRAY(streams, count);
    return mmsbgo_capture_resume(capture, (mmsb_stream_t *)streams, count);
}

mmsb_status_t mmsb_capture_end(mmsb_capture_t capture) {
    DOOR_ENTER_TO_END();
    return mmsbgo_capture_end(capture);
}

mmsb_status_t mmsb_capture_destroy(mmsb_capture_t capture) {
    DOOR_ENTER_TO_END();
    if (capture == 0)
        return MMSB_OK;
    return mmsbgo_capture_destroy(capture);
}
