/*
 * calls.h — every public function that returns a status, each with a call of it whose arguments are good but for the handle. For
 * the tests of what holds for all of them: bad handles, fork, poison.
 */
#ifndef MMSB_TESTS_CALLS_H
#define MMSB_TESTS_CALLS_H

#include "library.h"
#include "tensor.h"

enum call_role {
    ORDINARY,
    ENDS,     /* destroy and free: the handle 0 is a no-op, and they work after an internal error */
    SURVIVES, /* works after an internal error too: what is pinned can be given back, what leaks be counted */
    REPORTS   /* error functions: the same, and they work after fork */
};

typedef struct call {
    const char *name;
    int kind; /* MMSB_KIND_* of the handle it takes; 0 = none */
    enum call_role role;
    mmsb_status_t (*run)(uint64_t handle);
} call_t;

/* Arguments for one call. */
typedef struct call_arguments {
    char text[600];
    uint8_t bytes[64];
    size_t length;
    uint64_t number;
    uint64_t other_number;
    uint64_t size;
    void *memory;
    int32_t word;
    void *pointer;
    uint64_t handle;
    uint64_t handles[2];
    mmsb_run_t run;
    mmsb_delta_t delta;
    mmsb_delta_t *made;
    mmsb_page_runs_t runs;
    mmsb_page_range_t range;
    mmsb_page_info_t info;
    mmsb_error_detail_t detail;
    mmsb_context_options_t options;
    mmsb_context_stats_t stats;
    mmsb_memory_usage_t usage;
    mmsb_save_stats_t save_stats;
    mmsb_snapshot_info_t snapshot_info;
    mmsb_snapshot_page_t snapshot_page;
    mmsb_journal_info_t journal_info;
    mmsb_journal_directory_t journal_directory;
    mmsb_journal_record_t journal_record;
    mmsb_store_info_t store_info;
    mmsb_device_memory_t device_memory;
    mmsb_runtime_stats_t runtime_stats;
    mmsb_tag_stats_t tag_stats;
    mmsb_memory_stat_t memory_stat;
    mmsb_block_info_t block_info;
    int32_t ordinal;
    mmsb_page_copy_t page_copy;
    mmsb_lost_page_t lost_page;
    mmsb_page_advice_t page_advice;
    uint32_t distance;
    mmsb_sync_stats_t sync_stats;
    mmsb_copy_t copy;
    mmsb_propagation_t propagation;
    mmsb_difference_t difference;
    uint32_t sum;
    mmsb_tag_t tag;
    mmsb_commands_stats_t commands_stats;
    mmsb_command_failure_t command_failure;
    const void *view;
    dl_legacy_t tensor;
    mmsb_tensor_info_t tensor_info;
} call_arguments_t;

static inline call_arguments_t call_arguments(uint64_t handle) {
    call_arguments_t a;
    memset(&a, 0, sizeof a);
    a.handle = handle;
    a.handles[0] = handle;
    a.handles[1] = handle;
    a.run.length = 1;
    mmsb_page_runs_init(&a.runs);
    a.runs.count = 1;
    a.runs.uniform_length = 1;
    a.range.page = handle;
    a.range.length = 1;
    mmsb_page_info_init(&a.info);
    mmsb_page_advice_init(&a.page_advice);
    mmsb_error_detail_init(&a.detail);
    mmsb_context_options_init(&a.options);
    mmsb_context_stats_init(&a.stats);
    mmsb_memory_usage_init(&a.usage);
    mmsb_save_stats_init(&a.save_stats);
    mmsb_snapshot_info_init(&a.snapshot_info);
    mmsb_journal_info_init(&a.journal_info);
    mmsb_journal_directory_init(&a.journal_directory);
    mmsb_store_info_init(&a.store_info);
    mmsb_device_memory_init(&a.device_memory);
    mmsb_runtime_stats_init(&a.runtime_stats);
    mmsb_block_info_init(&a.block_info);
    mmsb_tensor_info_init(&a.tensor_info);
    mmsb_sync_stats_init(&a.sync_stats);
    a.tensor.tensor.device.type = 1;
    a.tensor.tensor.dtype.code = 1;
    a.tensor.tensor.dtype.bits = 8;
    a.tensor.tensor.dtype.lanes = 1;
    mmsb_commands_stats_init(&a.commands_stats);
    return a;
}

/* Pointers into the arguments themselves can only be set where these will stay. */
static inline void call_arguments_link(call_arguments_t *a) {
    a->delta = one_run(&a->run, a->bytes);
    a->runs.pages = a->handles;
    a->runs.offsets = &a->number;
    a->runs.payload = a->bytes;
    a->range.buffer = a->bytes;
    a->memory = a->bytes;
    a->size = sizeof a->bytes;
    a->tensor.tensor.data = a->bytes; /* of no dimensions: one byte */
}

/* What work writes to that may end after the call. */
static size_t lasting __attribute__((unused));
static mmsb_context_t lasting_context __attribute__((unused));

/* A path at which there is nothing and can be nothing. */
#define NO_FILE "/dev/null/file"

#define EVERY_CALL(CALL) \
    CALL(mmsb_last_error_copy, 0, REPORTS, (a.text, sizeof a.text, NULL)) \
    CALL(mmsb_last_error_detail, 0, REPORTS, (&a.detail)) \
    CALL(mmsb_capabilities, 0, ORDINARY, (NULL, 0, &a.length)) \
    CALL(mmsb_log_configure, 0, ORDINARY, (MMSB_LOG_OFF, -1)) \
    CALL(mmsb_log_read, 0, ORDINARY, (a.text, sizeof a.text, &a.length, NULL)) \
    CALL(mmsb_debug_live_objects, 0, SURVIVES, (MMSB_KIND_PAGE, &a.number)) \
    CALL(mmsb_shutdown, 0, ENDS, ()) \
    CALL(mmsb_context_options_parse, 0, ORDINARY, (&a.options, "memory_limit=1M")) \
    CALL(mmsb_context_create, 0, ORDINARY, (NULL, &a.handle)) \
    CALL(mmsb_context_destroy, MMSB_KIND_CONTEXT, ENDS, (handle)) \
    CALL(mmsb_context_stats, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.stats)) \
    CALL(mmsb_context_page_count, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.number)) \
    CALL(mmsb_context_pages, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.number, a.handles, 2, &a.length)) \
    CALL(mmsb_context_trim, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL)) \
    CALL(mmsb_guard_check, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL, &a.number)) \
    CALL(mmsb_memory_usage, 0, ORDINARY, (&a.usage)) \
    CALL(mmsb_ticket_poll, MMSB_KIND_TICKET, ORDINARY, (handle, &a.word)) \
    CALL(mmsb_ticket_wait, MMSB_KIND_TICKET, ORDINARY, (handle, MMSB_WAIT_FOREVER)) \
    CALL(mmsb_ticket_cancel, MMSB_KIND_TICKET, ORDINARY, (handle)) \
    CALL(mmsb_ticket_progress, MMSB_KIND_TICKET, ORDINARY, (handle, &a.number, &a.other_number)) \
    CALL(mmsb_ticket_status, MMSB_KIND_TICKET, ORDINARY, (handle, &a.word, NULL, 0)) \
    CALL(mmsb_ticket_eventfd, MMSB_KIND_TICKET, ORDINARY, (handle, &a.word)) \
    CALL(mmsb_ticket_destroy, MMSB_KIND_TICKET, ENDS, (handle)) \
    CALL(mmsb_page_create, MMSB_KIND_CONTEXT, ORDINARY, (handle, 64, NULL, a.handles)) \
    CALL(mmsb_page_create_with_address, MMSB_KIND_CONTEXT, ORDINARY, (handle, 64, NULL, a.handles, &a.pointer)) \
    CALL(mmsb_page_create_many, MMSB_KIND_CONTEXT, ORDINARY, (handle, 64, 2, NULL, NULL, a.handles)) \
    CALL(mmsb_page_create_many_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, 64, 2, NULL, NULL, a.handles, &a.number)) \
    CALL(mmsb_page_clone, MMSB_KIND_PAGE, ORDINARY, (handle, 0, a.handles)) \
    CALL(mmsb_page_clone_many, MMSB_KIND_PAGE, ORDINARY, (&handle, NULL, 1, a.handles, NULL)) \
    CALL(mmsb_page_adopt, MMSB_KIND_CONTEXT, ORDINARY, (handle, a.bytes, sizeof a.bytes, NULL, a.handles)) \
    CALL(mmsb_page_adopt_many, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.memory, &a.size, NULL, 1, NULL, a.handles, NULL)) \
    CALL(mmsb_page_destroy, MMSB_KIND_PAGE, ENDS, (handle)) \
    CALL(mmsb_page_destroy_many, MMSB_KIND_PAGE, ENDS, (&handle, 1, NULL)) \
    CALL(mmsb_page_release, MMSB_KIND_PAGE, ORDINARY, (handle, &a.pointer, &a.number)) \
    CALL(mmsb_memory_free, 0, ENDS, (NULL)) \
    CALL(mmsb_page_lookup, MMSB_KIND_CONTEXT, ORDINARY, (handle, 1, a.handles)) \
    CALL(mmsb_page_lookup_many, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.number, 1, a.handles, NULL)) \
    CALL(mmsb_page_info, MMSB_KIND_PAGE, ORDINARY, (handle, &a.info)) \
    CALL(mmsb_page_info_many, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, &a.info, NULL)) \
    CALL(mmsb_page_address_many, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, &a.pointer, NULL)) \
    CALL(mmsb_page_pin, MMSB_KIND_PAGE, ORDINARY, (handle, MMSB_PIN_READ, &a.pointer)) \
    CALL(mmsb_page_unpin, MMSB_KIND_PAGE, SURVIVES, (handle, MMSB_PIN_READ)) \
    CALL(mmsb_writing_begin, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0)) \
    CALL(mmsb_writing_end, MMSB_KIND_CONTEXT, SURVIVES, (handle)) \
    CALL(mmsb_writing_check, MMSB_KIND_CONTEXT, ORDINARY, (handle)) \
    CALL(mmsb_page_pin_many, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, MMSB_PIN_READ, &a.pointer, NULL)) \
    CALL(mmsb_page_unpin_many, MMSB_KIND_PAGE, SURVIVES, (&handle, 1, MMSB_PIN_READ, NULL)) \
    CALL(mmsb_page_read, MMSB_KIND_PAGE, ORDINARY, (handle, 0, a.bytes, 1)) \
    CALL(mmsb_page_write, MMSB_KIND_PAGE, ORDINARY, (handle, 0, a.bytes, 1)) \
    CALL(mmsb_page_read_many, MMSB_KIND_PAGE, ORDINARY, (&a.range, 1, NULL)) \
    CALL(mmsb_page_write_many, MMSB_KIND_PAGE, ORDINARY, (&a.range, 1, NULL)) \
    CALL(mmsb_page_resize, MMSB_KIND_PAGE, ORDINARY, (handle, 100)) \
    CALL(mmsb_page_resize_many, MMSB_KIND_PAGE, ORDINARY, (&handle, &a.size, 1, NULL)) \
    CALL(mmsb_page_migrate, MMSB_KIND_PAGE, ORDINARY, (handle, MMSB_LOCATION_DISK, 0)) \
    CALL(mmsb_page_migrate_many, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, MMSB_LOCATION_DISK, 0, NULL, NULL, NULL)) \
    CALL(mmsb_page_migrate_many_start, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, MMSB_LOCATION_DISK, 0, NULL, NULL, &a.number)) \
    CALL(mmsb_delta_validate, 0, ORDINARY, (&a.delta, 64)) \
    CALL(mmsb_page_apply, MMSB_KIND_PAGE, ORDINARY, (handle, &a.delta)) \
    CALL(mmsb_page_apply_many, MMSB_KIND_PAGE, ORDINARY, (&handle, &a.delta, 1, NULL)) \
    CALL(mmsb_page_apply_runs, MMSB_KIND_PAGE, ORDINARY, (&a.runs, NULL)) \
    CALL(mmsb_delta_merge, 0, ORDINARY, (&a.delta, &a.delta, &a.made)) \
    CALL(mmsb_delta_from_pages, MMSB_KIND_PAGE, ORDINARY, (handle, handle, &a.made)) \
    CALL(mmsb_delta_convert, 0, ORDINARY, (&a.delta, MMSB_DELTA_INDEXED, &a.made)) \
    CALL(mmsb_delta_free, 0, ENDS, (NULL)) \
    CALL(mmsb_page_sync, MMSB_KIND_PAGE, ORDINARY, (handle, MMSB_SYNC_TO_HOST, 0)) \
    CALL(mmsb_page_sync_many, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, MMSB_SYNC_TO_HOST, 0, NULL, NULL, NULL)) \
    CALL(mmsb_page_sync_many_start, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, MMSB_SYNC_TO_HOST, 0, NULL, NULL, &a.number)) \
    CALL(mmsb_page_sync_enqueue, MMSB_KIND_PAGE, ORDINARY, (&handle, 1, MMSB_SYNC_TO_HOST, 0, NULL)) \
    CALL(mmsb_context_sync_drain, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL, &a.number)) \
    CALL(mmsb_context_prefetch, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.other_number, 1, 0, NULL, &a.number)) \
    CALL(mmsb_context_prefetch_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.other_number, 1, 0, NULL, &a.number)) \
    CALL(mmsb_context_lost_pages, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.lost_page, 1, &a.length)) \
    CALL(mmsb_page_copies, MMSB_KIND_PAGE, ORDINARY, (handle, &a.page_copy, 1, &a.length)) \
    CALL(mmsb_page_advise, MMSB_KIND_PAGE, ORDINARY, (handle, NULL)) \
    CALL(mmsb_page_advice, MMSB_KIND_PAGE, ORDINARY, (handle, &a.page_advice)) \
    CALL(mmsb_prefetch_distance, 0, ORDINARY, (NULL, 0, &a.distance)) \
    CALL(mmsb_context_device_pages, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, &a.number, a.handles, 2, &a.length)) \
    CALL(mmsb_page_replicate, MMSB_KIND_PAGE, ORDINARY, (handle, 0)) \
    CALL(mmsb_page_replica_drop, MMSB_KIND_PAGE, ORDINARY, (handle, 0)) \
    CALL(mmsb_page_host_copy_drop, MMSB_KIND_PAGE, ORDINARY, (handle)) \
    CALL(mmsb_page_host_copy_pin, MMSB_KIND_PAGE, ORDINARY, (handle, MMSB_PIN_READ, &a.pointer)) \
    CALL(mmsb_page_host_copy_unpin, MMSB_KIND_PAGE, SURVIVES, (handle, MMSB_PIN_READ)) \
    CALL(mmsb_context_sync_stats, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.sync_stats)) \
    CALL(mmsb_page_compare, MMSB_KIND_PAGE, ORDINARY, (handle, handle, &a.difference)) \
    CALL(mmsb_page_differences, MMSB_KIND_PAGE, ORDINARY, (handle, handle, a.bytes, 1)) \
    CALL(mmsb_page_checksum, MMSB_KIND_PAGE, ORDINARY, (handle, 0, 1, &a.sum)) \
    CALL(mmsb_page_propagate, MMSB_KIND_PAGE, ORDINARY, (handle, handle)) \
    CALL(mmsb_page_mask_read, MMSB_KIND_PAGE, ORDINARY, (handle, 0, a.bytes, 1)) \
    CALL(mmsb_page_mask_clear, MMSB_KIND_PAGE, ORDINARY, (handle)) \
    CALL(mmsb_page_mask_count, MMSB_KIND_PAGE, ORDINARY, (handle, &a.number)) \
    CALL(mmsb_page_metadata_set, MMSB_KIND_PAGE, ORDINARY, (handle, "key", 3, "value", 5)) \
    CALL(mmsb_page_metadata_get, MMSB_KIND_PAGE, ORDINARY, (handle, "key", 3, NULL, 0, &a.length)) \
    CALL(mmsb_page_metadata_remove, MMSB_KIND_PAGE, ORDINARY, (handle, "key", 3)) \
    CALL(mmsb_page_metadata_keys, MMSB_KIND_PAGE, ORDINARY, (handle, NULL, 0, &a.length, NULL)) \
    CALL(mmsb_page_metadata_export, MMSB_KIND_PAGE, ORDINARY, (handle, NULL, 0, &a.length)) \
    CALL(mmsb_page_metadata_import, MMSB_KIND_PAGE, ORDINARY, (handle, NULL, 0)) \
    CALL(mmsb_page_dependency_add, MMSB_KIND_PAGE, ORDINARY, (handle, handle)) \
    CALL(mmsb_page_dependency_remove, MMSB_KIND_PAGE, ORDINARY, (handle, handle)) \
    CALL(mmsb_page_parents, MMSB_KIND_PAGE, ORDINARY, (handle, NULL, 0, &a.length)) \
    CALL(mmsb_page_children, MMSB_KIND_PAGE, ORDINARY, (handle, NULL, 0, &a.length)) \
    CALL(mmsb_context_dependency_order, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL, 0, &a.length)) \
    CALL(mmsb_snapshot_save, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL)) \
    CALL(mmsb_snapshot_save_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL, NULL, &a.number)) \
    CALL(mmsb_snapshot_save_descriptor, MMSB_KIND_CONTEXT, ORDINARY, (handle, 1, NULL)) \
    CALL(mmsb_snapshot_save_descriptor_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, 1, NULL, NULL, &a.number)) \
    CALL(mmsb_snapshot_save_memory_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL, NULL, &a.pointer, &a.size, &a.number)) \
    CALL(mmsb_snapshot_save_memory, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL, &a.pointer, &a.number)) \
    CALL(mmsb_snapshot_free_memory, 0, ENDS, (NULL)) \
    CALL(mmsb_snapshot_load, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL)) \
    CALL(mmsb_snapshot_load_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL, NULL, &a.number)) \
    CALL(mmsb_snapshot_load_descriptor, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, NULL)) \
    CALL(mmsb_snapshot_load_descriptor_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, NULL, NULL, &a.number)) \
    CALL(mmsb_snapshot_load_memory_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, "", 0, NULL, NULL, &a.number)) \
    CALL(mmsb_snapshot_load_memory, MMSB_KIND_CONTEXT, ORDINARY, (handle, a.bytes, sizeof a.bytes, NULL)) \
    CALL(mmsb_context_save_stats, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.save_stats)) \
    CALL(mmsb_snapshot_open, 0, ORDINARY, (NO_FILE, &a.number)) \
    CALL(mmsb_snapshot_close, MMSB_KIND_SNAPSHOT, ENDS, (handle)) \
    CALL(mmsb_snapshot_info, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, &a.snapshot_info)) \
    CALL(mmsb_snapshot_pages, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, &a.number, &a.snapshot_page, 1, &a.length)) \
    CALL(mmsb_snapshot_find, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, 1, &a.snapshot_page)) \
    CALL(mmsb_snapshot_read, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, 1, 0, a.bytes, 1)) \
    CALL(mmsb_snapshot_view, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, 1, &a.view, &a.number)) \
    CALL(mmsb_snapshot_metadata, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, 1, NULL, 0, &a.length)) \
    CALL(mmsb_snapshot_dependencies, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, NULL, 0, &a.length)) \
    CALL(mmsb_snapshot_mask_read, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, 1, 0, a.bytes, 1)) \
    CALL(mmsb_snapshot_verify, 0, ORDINARY, (NO_FILE, NULL)) \
    CALL(mmsb_snapshot_verify_start, 0, ORDINARY, (NO_FILE, NULL, &a.number)) \
    CALL(mmsb_snapshot_diff, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, handle, NULL, NULL, 0, &a.length)) \
    CALL(mmsb_snapshot_diff_start, MMSB_KIND_SNAPSHOT, ORDINARY, (handle, handle, NULL, NULL, 0, &lasting, &a.number)) \
    CALL(mmsb_snapshot_compact, 0, ORDINARY, (NO_FILE, NO_FILE, NULL)) \
    CALL(mmsb_snapshot_compact_start, 0, ORDINARY, (NO_FILE, NO_FILE, NULL, NULL, &a.number)) \
    CALL(mmsb_journal_open_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL, NULL, &a.number)) \
    CALL(mmsb_group_begin, MMSB_KIND_CONTEXT, ORDINARY, (handle)) \
    CALL(mmsb_group_begin_within, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0)) \
    CALL(mmsb_group_commit, MMSB_KIND_CONTEXT, ORDINARY, (handle)) \
    CALL(mmsb_group_rollback, MMSB_KIND_CONTEXT, ORDINARY, (handle)) \
    CALL(mmsb_journal_open, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL)) \
    CALL(mmsb_journal_sync, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL)) \
    CALL(mmsb_journal_sync_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL, &a.number)) \
    CALL(mmsb_journal_close, MMSB_KIND_CONTEXT, ORDINARY, (handle)) \
    CALL(mmsb_journal_trim, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL)) \
    CALL(mmsb_journal_trim_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, NO_FILE, NULL, &a.number)) \
    CALL(mmsb_journal_info, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.journal_info)) \
    CALL(mmsb_journal_directory, 0, ORDINARY, (NO_FILE, &a.journal_directory)) \
    CALL(mmsb_journal_segments, 0, ORDINARY, (NO_FILE, NULL, 0, &a.length)) \
    CALL(mmsb_journal_records, 0, ORDINARY, (NO_FILE, &a.number, &a.journal_record, 1, &a.length)) \
    CALL(mmsb_store_open, 0, ORDINARY, (NO_FILE, NULL, NULL, &a.number)) \
    CALL(mmsb_store_open_start, 0, ORDINARY, (NO_FILE, NULL, NULL, NULL, &lasting_context, &a.number)) \
    CALL(mmsb_store_save, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, NULL)) \
    CALL(mmsb_store_save_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, NULL, &a.number)) \
    CALL(mmsb_store_name, MMSB_KIND_CONTEXT, ORDINARY, (handle, "name", NULL)) \
    CALL(mmsb_store_name_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, "name", NULL, &a.number)) \
    CALL(mmsb_store_unname, MMSB_KIND_CONTEXT, ORDINARY, (handle, "name", NULL)) \
    CALL(mmsb_store_wait, MMSB_KIND_CONTEXT, ORDINARY, (handle, 1, NULL)) \
    CALL(mmsb_store_wait_start, MMSB_KIND_CONTEXT, ORDINARY, (handle, 1, NULL, &a.number)) \
    CALL(mmsb_store_info, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.store_info)) \
    CALL(mmsb_store_points, 0, ORDINARY, (NO_FILE, NULL, 0, &a.length)) \
    CALL(mmsb_telemetry_list, 0, ORDINARY, (NULL, 0, &a.length)) \
    CALL(mmsb_telemetry_paths, 0, ORDINARY, (NULL, 0, &a.length)) \
    CALL(mmsb_device_list, MMSB_KIND_CONTEXT, ORDINARY, (handle, NULL, 0, &a.length)) \
    CALL(mmsb_device_budget, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, 0)) \
    CALL(mmsb_device_memory, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, &a.device_memory)) \
    CALL(mmsb_runtime_shared, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, &a.number)) \
    CALL(mmsb_runtime_create, MMSB_KIND_CONTEXT, ORDINARY, (handle, 0, NULL, &a.number)) \
    CALL(mmsb_runtime_destroy, MMSB_KIND_RUNTIME, ENDS, (handle)) \
    CALL(mmsb_runtime_stats, MMSB_KIND_RUNTIME, ORDINARY, (handle, &a.runtime_stats)) \
    CALL(mmsb_runtime_reap, MMSB_KIND_RUNTIME, ORDINARY, (handle)) \
    CALL(mmsb_runtime_trim, MMSB_KIND_RUNTIME, ORDINARY, (handle, 0)) \
    CALL(mmsb_runtime_log_write, MMSB_KIND_RUNTIME, ORDINARY, (handle, 1)) \
    CALL(mmsb_runtime_snapshot_write, MMSB_KIND_RUNTIME, ORDINARY, (handle, 1, MMSB_PICTURE_JSON)) \
    CALL(mmsb_runtime_memory_stats, MMSB_KIND_RUNTIME, ORDINARY, (handle, &a.memory_stat, 0, &a.length)) \
    CALL(mmsb_tag_of, 0, ORDINARY, ("tag", &a.tag)) \
    CALL(mmsb_runtime_tag_stats, MMSB_KIND_RUNTIME, ORDINARY, (handle, 0, &a.tag_stats)) \
    CALL(mmsb_reservation_create, MMSB_KIND_RUNTIME, ORDINARY, (handle, 1, &a.number)) \
    CALL(mmsb_reservation_destroy, MMSB_KIND_RESERVATION, ENDS, (handle, NULL)) \
    CALL(mmsb_stream_create, MMSB_KIND_RUNTIME, ORDINARY, (handle, 0, &a.number)) \
    CALL(mmsb_stream_wrap, MMSB_KIND_RUNTIME, ORDINARY, (handle, NULL, &a.number)) \
    CALL(mmsb_stream_destroy, MMSB_KIND_STREAM, ENDS, (handle)) \
    CALL(mmsb_stream_native, MMSB_KIND_STREAM, ORDINARY, (handle, &a.pointer)) \
    CALL(mmsb_stream_device, MMSB_KIND_STREAM, ORDINARY, (handle, &a.ordinal)) \
    CALL(mmsb_runtime_device, MMSB_KIND_RUNTIME, ORDINARY, (handle, &a.ordinal)) \
    CALL(mmsb_stream_wait, MMSB_KIND_STREAM, ORDINARY, (handle, MMSB_WAIT_FOREVER)) \
    CALL(mmsb_stream_copy, MMSB_KIND_STREAM, ORDINARY, (handle, a.bytes, a.bytes + 32, 1)) \
    CALL(mmsb_stream_fill, MMSB_KIND_STREAM, ORDINARY, (handle, a.bytes, 0, 1)) \
    CALL(mmsb_stream_copy_many, MMSB_KIND_STREAM, ORDINARY, (handle, &a.copy, 1, NULL)) \
    CALL(mmsb_stream_compare, MMSB_KIND_STREAM, ORDINARY, (handle, a.bytes, a.bytes + 16, a.bytes + 32, 8)) \
    CALL(mmsb_stream_difference, MMSB_KIND_STREAM, ORDINARY, (handle, &a.difference, a.bytes, a.bytes + 32, 8)) \
    CALL(mmsb_stream_differences, MMSB_KIND_STREAM, ORDINARY, (handle, a.bytes, a.bytes + 16, a.bytes + 32, 8)) \
    CALL(mmsb_stream_checksum, MMSB_KIND_STREAM, ORDINARY, (handle, &a.sum, a.bytes, 8, 8)) \
    CALL(mmsb_stream_merge, MMSB_KIND_STREAM, ORDINARY, \
         (handle, a.bytes, a.bytes + 16, MMSB_DELTA_DENSE_BYTES, a.bytes + 32, 8, NULL)) \
    CALL(mmsb_stream_scatter, MMSB_KIND_STREAM, ORDINARY, (handle, a.bytes, 8, &a.number, 8, 0, a.bytes + 16, 1)) \
    CALL(mmsb_stream_propagate, MMSB_KIND_STREAM, ORDINARY, (handle, &a.propagation, 1, NULL)) \
    CALL(mmsb_stream_record, MMSB_KIND_STREAM, ORDINARY, (handle, &a.number)) \
    CALL(mmsb_stream_after, MMSB_KIND_STREAM, ORDINARY, (handle, 0)) \
    CALL(mmsb_stream_after_native, MMSB_KIND_STREAM, ORDINARY, (handle, NULL)) \
    CALL(mmsb_block_allocate, MMSB_KIND_STREAM, ORDINARY, (handle, 64, 0, 0, &a.number, &a.pointer)) \
    CALL(mmsb_block_free, MMSB_KIND_BLOCK, ENDS, (handle, 0, NULL)) \
    CALL(mmsb_block_export_tensor, MMSB_KIND_BLOCK, ORDINARY, (handle, NULL, NULL, &a.pointer)) \
    CALL(mmsb_block_info, MMSB_KIND_BLOCK, ORDINARY, (handle, &a.block_info)) \
    CALL(mmsb_block_at, MMSB_KIND_RUNTIME, ORDINARY, (handle, a.bytes, &a.number, NULL)) \
    CALL(mmsb_page_block, MMSB_KIND_PAGE, ORDINARY, (handle, &a.number)) \
    CALL(mmsb_pool_partition, MMSB_KIND_RUNTIME, ORDINARY, (handle, 0)) \
    CALL(mmsb_pool_sleep, MMSB_KIND_RUNTIME, ORDINARY, (handle, NULL, 0, NULL)) \
    CALL(mmsb_pool_wake, MMSB_KIND_RUNTIME, ORDINARY, (handle, NULL, 0)) \
    CALL(mmsb_commands_create, 0, ORDINARY, (NULL, &a.handle)) \
    CALL(mmsb_commands_destroy, MMSB_KIND_COMMANDS, ENDS, (handle)) \
    CALL(mmsb_commands_enqueue, MMSB_KIND_COMMANDS, ORDINARY, (handle, 0, NULL, 0, 0)) \
    CALL(mmsb_commands_wait, MMSB_KIND_COMMANDS, ORDINARY, (handle, 0)) \
    CALL(mmsb_commands_drain, MMSB_KIND_COMMANDS, ORDINARY, (handle, 0, &a.number)) \
    CALL(mmsb_commands_close, MMSB_KIND_COMMANDS, ORDINARY, (handle, MMSB_COMMANDS_CANCEL, 0)) \
    CALL(mmsb_commands_stats, MMSB_KIND_COMMANDS, ORDINARY, (handle, &a.commands_stats)) \
    CALL(mmsb_commands_failures, MMSB_KIND_COMMANDS, ORDINARY, (handle, &a.command_failure, 1, &a.length)) \
    CALL(mmsb_capture_begin, MMSB_KIND_STREAM, ORDINARY, (&handle, 1, &a.number)) \
    CALL(mmsb_capture_resume, MMSB_KIND_CAPTURE, ORDINARY, (handle, NULL, 0)) \
    CALL(mmsb_capture_end, MMSB_KIND_CAPTURE, SURVIVES, (handle)) \
    CALL(mmsb_capture_destroy, MMSB_KIND_CAPTURE, ENDS, (handle)) \
    CALL(mmsb_use_begin, MMSB_KIND_STREAM, ORDINARY, (handle, NULL, 0, &a.number, NULL)) \
    CALL(mmsb_use_address, MMSB_KIND_USE, ORDINARY, (handle, a.other_number, &a.pointer)) \
    CALL(mmsb_use_end, MMSB_KIND_USE, SURVIVES, (handle)) \
    CALL(mmsb_use_abort, MMSB_KIND_USE, SURVIVES, (handle)) \
    CALL(mmsb_use_record, MMSB_KIND_STREAM, ORDINARY, (handle, 0, &a.number)) \
    CALL(mmsb_use_add, MMSB_KIND_USE, ORDINARY, (handle, 0, MMSB_ACCESS_READ)) \
    CALL(mmsb_use_begin_recorded, MMSB_KIND_USE, ORDINARY, (handle)) \
    CALL(mmsb_plugin_allocate, MMSB_KIND_RUNTIME, ORDINARY, (handle, 64, NULL, MMSB_PLUGIN_ORDERED, &a.pointer)) \
    CALL(mmsb_plugin_free, 0, ENDS, (NULL, NULL)) \
    CALL(mmsb_plugin_record, 0, ORDINARY, (a.bytes, NULL)) \
    CALL(mmsb_plugin_bind, 0, ORDINARY, (0, 0)) \
    CALL(mmsb_page_export_tensor, MMSB_KIND_PAGE, ORDINARY, (handle, NULL, &a.pointer)) \
    CALL(mmsb_tensor_info, 0, ORDINARY, (&a.tensor, 0, &a.tensor_info)) \
    CALL(mmsb_tensor_to_arrow, 0, ORDINARY, (&a.tensor, 0, NULL, NULL)) \
    CALL(mmsb_tensor_from_arrow, 0, ORDINARY, (NULL, NULL, &a.pointer)) \
    CALL(mmsb_page_adopt_tensor, MMSB_KIND_CONTEXT, ORDINARY, (handle, &a.tensor, 0, NULL, a.handles))

#define DEFINE_CALL(name, kind, role, arguments) \
    static inline mmsb_status_t call_##name(uint64_t handle) { \
        call_arguments_t a = call_arguments(handle); \
        call_arguments_link(&a); \
        return name arguments; \
    }
EVERY_CALL(DEFINE_CALL)

#define LIST_CALL(name, kind, role, arguments) {#name, kind, role, call_##name},
static const call_t every_call[] = {EVERY_CALL(LIST_CALL)};
#define EVERY_CALL_COUNT (sizeof every_call / sizeof every_call[0])

#endif /* MMSB_TESTS_CALLS_H */
