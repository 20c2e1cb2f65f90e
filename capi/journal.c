/* The journal of a context. */
#include <string.h>

#include "door.h"

#include "_cgo_export.h"

void mmsb_journal_options_init(mmsb_journal_options_t *options) {
    DOOR_INIT(options);
    options->interval_ms = 10;
    options->segment_bytes = UINT64_C(256) << 20;
}

mmsb_status_t mmsb_journal_open(mmsb_context_t context, const char *directory, const mmsb_journal_options_t *options) {
    DOOR_ENTER();
    mmsb_journal_options_t defaults;
    if (!options) {
        mmsb_journal_options_init(&defaults);
        options = &defaults;
    }
    DOOR_CHECK(door_path("directory", directory));
    DOOR_STRUCT("mmsb_journal_options_t", options, options->reserved_word);
    if (options->keep < 0 || options->keep > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "keep is %d, not 0 or 1", options->keep);
    if (options->base < MMSB_JOURNAL_BASE_WRITE || options->base > MMSB_JOURNAL_BASE_REFUSE)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "base is %d, not 0 (write) or 1 (refuse)", options->base);
    return mmsbgo_journal_open(context, (char *)directory, (mmsb_journal_options_t *)options);
}

mmsb_status_t mmsb_journal_sync(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_journal_sync(context);
}

mmsb_status_t mmsb_journal_close(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_journal_close(context);
}

mmsb_status_t mmsb_journal_trim(mmsb_context_t context, const char *snapshot) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("snapshot", snapshot));
    return mmsbgo_journal_trim(context, (char *)snapshot);
}

void mmsb_journal_info_init(mmsb_journal_info_t *info) {
    DOOR_INIT(info);
}

mmsb_status_t mmsb_journal_info(mmsb_context_t context, mmsb_journal_info_t *info) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_journal_info_t", info, 0);
    return mmsbgo_journal_info(context, info);
}
