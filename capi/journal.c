/* The journal of a context. */
#include <string.h>

#include "door.h"

#include "_cgo_export.h"

void mmsb_journal_options_init(mmsb_journal_options_t *options) {
    DOOR_INIT(options);
    options->interval_ms = 10;
    options->segment_bytes = UINT64_C(256) << 20;
    options->timeout_ns = MMSB_WAIT_FOREVER;
}

static const mmsb_journal_options_t default_options = {.struct_size = sizeof(mmsb_journal_options_t),
                                                       .interval_ms = 10,
                                                       .segment_bytes = UINT64_C(256) << 20,
                                                       .timeout_ns = MMSB_WAIT_FOREVER};

static mmsb_status_t check_open(const char *directory, const mmsb_journal_options_t **options) {
    if (!*options)
        *options = &default_options;
    const mmsb_journal_options_t *given = *options;
    DOOR_CHECK(door_path("directory", directory));
    DOOR_STRUCT("mmsb_journal_options_t", given, given->reserved_word);
    if (given->keep < 0 || given->keep > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "keep is %d, not 0 or 1", given->keep);
    if (given->base < MMSB_JOURNAL_BASE_WRITE || given->base > MMSB_JOURNAL_BASE_REFUSE)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "base is %d, not 0 (write) or 1 (refuse)", given->base);
    return MMSB_OK;
}

mmsb_status_t mmsb_journal_open(mmsb_context_t context, const char *directory, const mmsb_journal_options_t *options) {
    DOOR_ENTER();
    DOOR_CHECK(check_open(directory, &options));
    return mmsbgo_journal_open(context, (char *)directory, (mmsb_journal_options_t *)options);
}

mmsb_status_t mmsb_journal_open_start(mmsb_context_t context, const char *directory, const mmsb_journal_options_t *options,
                                      const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_open(directory, &options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_journal_open_start(context, (char *)directory, (mmsb_journal_options_t *)options, (mmsb_work_options_t *)work,
                                     ticket);
}

mmsb_status_t mmsb_journal_sync(mmsb_context_t context, const mmsb_work_options_t *work) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    return mmsbgo_journal_sync(context, (mmsb_work_options_t *)work);
}

mmsb_status_t mmsb_journal_sync_start(mmsb_context_t context, const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_journal_sync_start(context, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_journal_close(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_journal_close(context);
}

mmsb_status_t mmsb_journal_trim(mmsb_context_t context, const char *snapshot, const mmsb_work_options_t *work) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("snapshot", snapshot));
    DOOR_CHECK(door_work(work));
    return mmsbgo_journal_trim(context, (char *)snapshot, (mmsb_work_options_t *)work);
}

mmsb_status_t mmsb_journal_trim_start(mmsb_context_t context, const char *snapshot, const mmsb_work_options_t *work,
                                      mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("snapshot", snapshot));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_journal_trim_start(context, (char *)snapshot, (mmsb_work_options_t *)work, ticket);
}

void mmsb_journal_info_init(mmsb_journal_info_t *info) {
    DOOR_INIT(info);
}

mmsb_status_t mmsb_journal_info(mmsb_context_t context, mmsb_journal_info_t *info) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_journal_info_t", info, 0);
    return mmsbgo_journal_info(context, info);
}

/* --------------------------------------------------------------------------------------------- reading journals ---- */

void mmsb_journal_directory_init(mmsb_journal_directory_t *journal) {
    DOOR_INIT(journal);
}

mmsb_status_t mmsb_journal_directory(const char *directory, mmsb_journal_directory_t *journal) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("directory", directory));
    DOOR_STRUCT("mmsb_journal_directory_t", journal, 0);
    return mmsbgo_journal_directory((char *)directory, journal);
}

mmsb_status_t mmsb_journal_segments(const char *directory, mmsb_journal_segment_t *segments, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("directory", directory));
    DOOR_ARRAY(segments, capacity);
    DOOR_POINTER(count);
    return mmsbgo_journal_segments((char *)directory, segments, capacity, count);
}

mmsb_status_t mmsb_journal_records(const char *directory, uint64_t *next, mmsb_journal_record_t *records, size_t capacity,
                                   size_t *count) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("directory", directory));
    DOOR_POINTER(next);
    DOOR_ARRAY(records, capacity);
    DOOR_POINTER(count);
    if (capacity == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "capacity is 0, at least 1 is needed");
    return mmsbgo_journal_records((char *)directory, next, records, capacity, count);
}
