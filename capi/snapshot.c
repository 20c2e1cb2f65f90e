/* Snapshots: saved and loaded by core/persist, read without a context by core/snapshot. */
#include <string.h>

#include "door.h"

#include "_cgo_export.h"

static mmsb_status_t check_descriptor(int32_t descriptor) {
    return descriptor >= 0 ? MMSB_OK : mmsb__fail(MMSB_E_INVALID_ARGUMENT, "descriptor is %d, less than 0", descriptor);
}

/* ------------------------------------------------------------------------------------------------------ saving ---- */

void mmsb_save_options_init(mmsb_save_options_t *options) {
    DOOR_INIT(options);
    options->timeout_ns = MMSB_WAIT_FOREVER;
}

static const mmsb_save_options_t default_save_options = {.struct_size = sizeof(mmsb_save_options_t),
                                                         .timeout_ns = MMSB_WAIT_FOREVER};

/* NULL, or a struct of this library; core looks at the numbers. */
static mmsb_status_t check_save_options(const mmsb_save_options_t **options) {
    if (!*options) {
        *options = &default_save_options;
        return MMSB_OK;
    }
    const mmsb_save_options_t *given = *options;
    DOOR_STRUCT("mmsb_save_options_t", given, given->reserved_word);
    if (given->raw_writes < MMSB_RAW_WRITES_ALLOW || given->raw_writes > MMSB_RAW_WRITES_WAIT)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "raw_writes is %d, not 0 (allow), 1 (refuse) or 2 (wait)", given->raw_writes);
    if (given->queue < 0 || given->queue > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "queue is %d, not 0 or 1", given->queue);
    if (given->not_durable < 0 || given->not_durable > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "not_durable is %d, not 0 or 1", given->not_durable);
    if (given->not_watched < 0 || given->not_watched > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "not_watched is %d, not 0 or 1", given->not_watched);
    if (given->base_in_use < MMSB_BASE_IN_USE_WHOLE || given->base_in_use > MMSB_BASE_IN_USE_REFUSE)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "base_in_use is %d, not 0 (whole) or 1 (refuse)", given->base_in_use);
    return given->base ? door_path("base", given->base) : MMSB_OK;
}

mmsb_status_t mmsb_snapshot_save(mmsb_context_t context, const char *path, const mmsb_save_options_t *options) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("path", path));
    DOOR_CHECK(check_save_options(&options));
    return mmsbgo_snapshot_save(context, (char *)path, (mmsb_save_options_t *)options);
}

mmsb_status_t mmsb_snapshot_save_start(mmsb_context_t context, const char *path, const mmsb_save_options_t *options,
                                       const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("path", path));
    DOOR_CHECK(check_save_options(&options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_save_start(context, (char *)path, (mmsb_save_options_t *)options, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_snapshot_save_descriptor(mmsb_context_t context, int32_t descriptor, const mmsb_save_options_t *options) {
    DOOR_ENTER();
    DOOR_CHECK(check_descriptor(descriptor));
    DOOR_CHECK(check_save_options(&options));
    return mmsbgo_snapshot_save_descriptor(context, descriptor, (mmsb_save_options_t *)options);
}

mmsb_status_t mmsb_snapshot_save_descriptor_start(mmsb_context_t context, int32_t descriptor, const mmsb_save_options_t *options,
                                                  const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_descriptor(descriptor));
    DOOR_CHECK(check_save_options(&options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_save_descriptor_start(context, descriptor, (mmsb_save_options_t *)options, (mmsb_work_options_t *)work,
                                                 ticket);
}

mmsb_status_t mmsb_snapshot_save_memory_start(mmsb_context_t context, const mmsb_save_options_t *options,
                                              const mmsb_work_options_t *work, void **memory, uint64_t *length,
                                              mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_save_options(&options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(memory);
    DOOR_POINTER(length);
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_save_memory_start(context, (mmsb_save_options_t *)options, (mmsb_work_options_t *)work,
                                             (uintptr_t *)memory, length, ticket);
}

mmsb_status_t mmsb_snapshot_save_memory(mmsb_context_t context, const mmsb_save_options_t *options, void **memory,
                                        uint64_t *length) {
    DOOR_ENTER();
    DOOR_CHECK(check_save_options(&options));
    DOOR_POINTER(memory);
    DOOR_POINTER(length);
    return mmsbgo_snapshot_save_memory(context, (mmsb_save_options_t *)options, (uintptr_t *)memory, length);
}

mmsb_status_t mmsb_snapshot_free_memory(void *memory) {
    DOOR_ENTER_TO_END();
    if (!memory)
        return MMSB_OK;
    return mmsbgo_snapshot_free_memory((uintptr_t)memory);
}

void mmsb_save_stats_init(mmsb_save_stats_t *stats) {
    DOOR_INIT(stats);
}

mmsb_status_t mmsb_context_save_stats(mmsb_context_t context, mmsb_save_stats_t *stats) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_save_stats_t", stats, stats->reserved_word);
    return mmsbgo_context_save_stats(context, stats);
}

/* ----------------------------------------------------------------------------------------------------- loading ---- */

void mmsb_load_options_init(mmsb_load_options_t *options) {
    DOOR_INIT(options);
    options->timeout_ns = MMSB_WAIT_FOREVER;
}

static const mmsb_load_options_t default_load_options = {.struct_size = sizeof(mmsb_load_options_t),
                                                         .timeout_ns = MMSB_WAIT_FOREVER};

/* NULL, or a struct of this library with known values. */
static mmsb_status_t check_load_options(const mmsb_load_options_t **options) {
    if (!*options) {
        *options = &default_load_options;
        return MMSB_OK;
    }
    const mmsb_load_options_t *given = *options;
    DOOR_STRUCT("mmsb_load_options_t", given, given->reserved_word);
    if (given->to_host < 0 || given->to_host > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "to_host is %d, not 0 or 1", given->to_host);
    if (given->mode < MMSB_LOAD_EAGER || given->mode > MMSB_LOAD_IN_PLACE)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "mode is %d, not 0 (eager), 1 (lazy) or 2 (in place)", given->mode);
    DOOR_CHECK(door_array("page_ids", given->page_ids, given->page_count, sizeof(uint64_t), __alignof__(uint64_t)));
    DOOR_CHECK(door_optional("page_ids", given->page_ids, __alignof__(uint64_t)));
    if ((given->journal_page == 0) != (given->journal_epoch == 0))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "journal_page is %llu and journal_epoch is %llu; set both or neither",
                          (unsigned long long)given->journal_page, (unsigned long long)given->journal_epoch);
    return given->journal ? door_path("journal", given->journal) : MMSB_OK;
}

/* An empty path stands for the state before a journal's first record. */
static mmsb_status_t check_load_path(const char *path, const mmsb_load_options_t *options) {
    return path && !*path && options->journal ? MMSB_OK : door_path("path", path);
}

mmsb_status_t mmsb_snapshot_load(mmsb_context_t context, const char *path, const mmsb_load_options_t *options) {
    DOOR_ENTER();
    DOOR_CHECK(check_load_options(&options));
    DOOR_CHECK(check_load_path(path, options));
    return mmsbgo_snapshot_load(context, (char *)path, (mmsb_load_options_t *)options);
}

mmsb_status_t mmsb_snapshot_load_start(mmsb_context_t context, const char *path, const mmsb_load_options_t *options,
                                       const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_load_options(&options));
    DOOR_CHECK(check_load_path(path, options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_load_start(context, (char *)path, (mmsb_load_options_t *)options, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_snapshot_load_descriptor(mmsb_context_t context, int32_t descriptor, const mmsb_load_options_t *options) {
    DOOR_ENTER();
    DOOR_CHECK(check_descriptor(descriptor));
    DOOR_CHECK(check_load_options(&options));
    return mmsbgo_snapshot_load_descriptor(context, descriptor, (mmsb_load_options_t *)options);
}

mmsb_status_t mmsb_snapshot_load_memory(mmsb_context_t context, const void *memory, uint64_t length,
                                        const mmsb_load_options_t *options) {
    DOOR_ENTER();
    DOOR_BYTES(memory);
    DOOR_BYTE_ARRAY(memory, length);
    DOOR_CHECK(check_load_options(&options));
    return mmsbgo_snapshot_load_memory(context, (uintptr_t)memory, length, (mmsb_load_options_t *)options);
}

mmsb_status_t mmsb_snapshot_load_descriptor_start(mmsb_context_t context, int32_t descriptor, const mmsb_load_options_t *options,
                                                  const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_descriptor(descriptor));
    DOOR_CHECK(check_load_options(&options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_load_descriptor_start(context, descriptor, (mmsb_load_options_t *)options, (mmsb_work_options_t *)work,
                                                 ticket);
}

mmsb_status_t mmsb_snapshot_load_memory_start(mmsb_context_t context, const void *memory, uint64_t length,
                                              const mmsb_load_options_t *options, const mmsb_work_options_t *work,
                                              mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_BYTES(memory);
    DOOR_BYTE_ARRAY(memory, length);
    DOOR_CHECK(check_load_options(&options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_load_memory_start(context, (uintptr_t)memory, length, (mmsb_load_options_t *)options,
                                             (mmsb_work_options_t *)work, ticket);
}

/* ----------------------------------------------------------------------------------------------- reading files ---- */

mmsb_status_t mmsb_snapshot_open(const char *path, mmsb_snapshot_t *snapshot) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("path", path));
    DOOR_POINTER(snapshot);
    return mmsbgo_snapshot_open((char *)path, snapshot);
}

mmsb_status_t mmsb_snapshot_close(mmsb_snapshot_t snapshot) {
    DOOR_ENTER_TO_END();
    if (snapshot == 0)
        return MMSB_OK;
    return mmsbgo_snapshot_close(snapshot);
}

void mmsb_snapshot_info_init(mmsb_snapshot_info_t *info) {
    DOOR_INIT(info);
}

mmsb_status_t mmsb_snapshot_info(mmsb_snapshot_t snapshot, mmsb_snapshot_info_t *info) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_snapshot_info_t", info, info->reserved_word);
    return mmsbgo_snapshot_info(snapshot, info);
}

mmsb_status_t mmsb_snapshot_pages(mmsb_snapshot_t snapshot, uint64_t *cursor, mmsb_snapshot_page_t *pages, size_t capacity,
                                  size_t *count) {
    DOOR_ENTER();
    DOOR_POINTER(cursor);
    DOOR_ARRAY(pages, capacity);
    DOOR_POINTER(count);
    if (capacity == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "capacity is 0, at least 1 is needed");
    return mmsbgo_snapshot_pages(snapshot, cursor, pages, capacity, count);
}

mmsb_status_t mmsb_snapshot_find(mmsb_snapshot_t snapshot, uint64_t id, mmsb_snapshot_page_t *page) {
    DOOR_ENTER();
    DOOR_POINTER(page);
    return mmsbgo_snapshot_find(snapshot, id, page);
}

mmsb_status_t mmsb_snapshot_read(mmsb_snapshot_t snapshot, uint64_t id, uint64_t offset, void *buffer, uint64_t length) {
    DOOR_ENTER();
    DOOR_BYTE_ARRAY(buffer, length);
    return mmsbgo_snapshot_read(snapshot, id, offset, buffer, length);
}

mmsb_status_t mmsb_snapshot_view(mmsb_snapshot_t snapshot, uint64_t id, const void **bytes, uint64_t *length) {
    DOOR_ENTER();
    DOOR_POINTER(bytes);
    DOOR_POINTER(length);
    return mmsbgo_snapshot_view(snapshot, id, (uintptr_t *)bytes, length);
}

mmsb_status_t mmsb_snapshot_metadata(mmsb_snapshot_t snapshot, uint64_t id, void *blob, size_t capacity, size_t *length) {
    DOOR_ENTER();
    DOOR_BYTE_ARRAY(blob, capacity);
    DOOR_POINTER(length);
    return mmsbgo_snapshot_metadata(snapshot, id, blob, capacity, length);
}

mmsb_status_t mmsb_snapshot_dependencies(mmsb_snapshot_t snapshot, mmsb_dependency_t *dependencies, size_t capacity,
                                         size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(dependencies, capacity);
    DOOR_POINTER(count);
    return mmsbgo_snapshot_dependencies(snapshot, dependencies, capacity, count);
}

mmsb_status_t mmsb_snapshot_mask_read(mmsb_snapshot_t snapshot, uint64_t id, uint64_t offset, void *bits, uint64_t length) {
    DOOR_ENTER();
    DOOR_BUFFER(bits, length);
    return mmsbgo_snapshot_mask_read(snapshot, id, offset, bits, length);
}

mmsb_status_t mmsb_snapshot_verify(const char *path, const mmsb_work_options_t *work) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("path", path));
    DOOR_CHECK(door_work(work));
    return mmsbgo_snapshot_verify((char *)path, (mmsb_work_options_t *)work);
}

mmsb_status_t mmsb_snapshot_verify_start(const char *path, const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_path("path", path));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_verify_start((char *)path, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_snapshot_diff(mmsb_snapshot_t older, mmsb_snapshot_t newer, const mmsb_work_options_t *work,
                                 mmsb_snapshot_change_t *changes, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(changes, capacity);
    DOOR_POINTER(count);
    return mmsbgo_snapshot_diff(older, newer, (mmsb_work_options_t *)work, changes, capacity, count);
}

mmsb_status_t mmsb_snapshot_diff_start(mmsb_snapshot_t older, mmsb_snapshot_t newer, const mmsb_work_options_t *work,
                                       mmsb_snapshot_change_t *changes, size_t capacity, size_t *count, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(changes, capacity);
    DOOR_POINTER(count);
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_diff_start(older, newer, (mmsb_work_options_t *)work, changes, capacity, count, ticket);
}

static mmsb_status_t check_compaction(const char *path, const char *to, const mmsb_save_options_t **options) {
    DOOR_CHECK(door_path("path", path));
    DOOR_CHECK(door_path("to", to));
    DOOR_CHECK(check_save_options(options));
    const mmsb_save_options_t *given = *options;
    if (given->compression != 0 || given->compression_level != 0 || given->raw_writes != 0 || given->copy_limit != 0 ||
        given->queue != 0 || given->base || given->chain_limit != 0 || given->not_watched != 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "compaction takes no option but not_durable, base_in_use and timeout_ns");
    return MMSB_OK;
}

mmsb_status_t mmsb_snapshot_compact(const char *path, const char *to, const mmsb_save_options_t *options) {
    DOOR_ENTER();
    DOOR_CHECK(check_compaction(path, to, &options));
    return mmsbgo_snapshot_compact((char *)path, (char *)to, (mmsb_save_options_t *)options);
}

mmsb_status_t mmsb_snapshot_compact_start(const char *path, const char *to, const mmsb_save_options_t *options,
                                          const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_compaction(path, to, &options));
    DOOR_CHECK(door_work(work));
    DOOR_POINTER(ticket);
    return mmsbgo_snapshot_compact_start((char *)path, (char *)to, (mmsb_save_options_t *)options, (mmsb_work_options_t *)work,
                                         ticket);
}
