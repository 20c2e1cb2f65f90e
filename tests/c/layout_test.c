/* The layout of each public struct: part of the ABI, the same for every compiler, and the same in the loaded library. */
#include "library.h"

#define SIZE_IS(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define FIELD_AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

SIZE_IS(mmsb_error_detail_t, 560);
FIELD_AT(mmsb_error_detail_t, struct_size, 0);
FIELD_AT(mmsb_error_detail_t, code, 4);
FIELD_AT(mmsb_error_detail_t, domain, 8);
FIELD_AT(mmsb_error_detail_t, foreign_code, 12);
FIELD_AT(mmsb_error_detail_t, text, 16);
FIELD_AT(mmsb_error_detail_t, reserved, 528);

SIZE_IS(mmsb_capability_t, 256);
FIELD_AT(mmsb_capability_t, struct_size, 0);
FIELD_AT(mmsb_capability_t, available, 4);
FIELD_AT(mmsb_capability_t, name, 8);
FIELD_AT(mmsb_capability_t, reason, 40);

SIZE_IS(mmsb_context_options_t, 120);
FIELD_AT(mmsb_context_options_t, struct_size, 0);
FIELD_AT(mmsb_context_options_t, default_location, 4);
FIELD_AT(mmsb_context_options_t, default_device, 8);
FIELD_AT(mmsb_context_options_t, simulate, 12);
FIELD_AT(mmsb_context_options_t, simulated_devices, 16);
FIELD_AT(mmsb_context_options_t, fallback, 20);
FIELD_AT(mmsb_context_options_t, simulated_memory, 24);
FIELD_AT(mmsb_context_options_t, memory_limit, 32);
FIELD_AT(mmsb_context_options_t, disk_path, 40);
FIELD_AT(mmsb_context_options_t, huge_pages, 48);
FIELD_AT(mmsb_context_options_t, reserved_word, 52);
FIELD_AT(mmsb_context_options_t, reserved, 56);

SIZE_IS(mmsb_context_stats_t, 272);
FIELD_AT(mmsb_context_stats_t, struct_size, 0);
FIELD_AT(mmsb_context_stats_t, reserved_word, 4);
FIELD_AT(mmsb_context_stats_t, pages, 8);
FIELD_AT(mmsb_context_stats_t, bytes, 16);
FIELD_AT(mmsb_context_stats_t, peak_bytes, 24);
FIELD_AT(mmsb_context_stats_t, allocations, 32);
FIELD_AT(mmsb_context_stats_t, frees, 40);
FIELD_AT(mmsb_context_stats_t, pinned_pages, 48);
FIELD_AT(mmsb_context_stats_t, memory_used, 56);
FIELD_AT(mmsb_context_stats_t, memory_limit, 64);
FIELD_AT(mmsb_context_stats_t, disk_used, 72);
FIELD_AT(mmsb_context_stats_t, location_pages, 80);
FIELD_AT(mmsb_context_stats_t, location_bytes, 144);
FIELD_AT(mmsb_context_stats_t, reserved, 208);

SIZE_IS(mmsb_memory_usage_t, 128);
FIELD_AT(mmsb_memory_usage_t, struct_size, 0);
FIELD_AT(mmsb_memory_usage_t, reserved_word, 4);
FIELD_AT(mmsb_memory_usage_t, page_bytes, 8);
FIELD_AT(mmsb_memory_usage_t, record_bytes, 16);
FIELD_AT(mmsb_memory_usage_t, mask_bytes, 24);
FIELD_AT(mmsb_memory_usage_t, metadata_bytes, 32);
FIELD_AT(mmsb_memory_usage_t, cache_bytes, 40);
FIELD_AT(mmsb_memory_usage_t, disk_bytes, 48);
FIELD_AT(mmsb_memory_usage_t, go_heap_bytes, 56);
FIELD_AT(mmsb_memory_usage_t, reserved, 64);

SIZE_IS(mmsb_work_options_t, 72);
FIELD_AT(mmsb_work_options_t, struct_size, 0);
FIELD_AT(mmsb_work_options_t, device, 4);
FIELD_AT(mmsb_work_options_t, timeout_ns, 8);
FIELD_AT(mmsb_work_options_t, stream, 16);
FIELD_AT(mmsb_work_options_t, after, 24);
FIELD_AT(mmsb_work_options_t, after_count, 32);
FIELD_AT(mmsb_work_options_t, reserved, 40);

SIZE_IS(mmsb_page_options_t, 64);
FIELD_AT(mmsb_page_options_t, struct_size, 0);
FIELD_AT(mmsb_page_options_t, location, 4);
FIELD_AT(mmsb_page_options_t, device, 8);
FIELD_AT(mmsb_page_options_t, numa_node, 12);
FIELD_AT(mmsb_page_options_t, id, 16);
FIELD_AT(mmsb_page_options_t, contents, 24);
FIELD_AT(mmsb_page_options_t, reserved_word, 28);
FIELD_AT(mmsb_page_options_t, reserved, 32);

SIZE_IS(mmsb_adopt_options_t, 72);
FIELD_AT(mmsb_adopt_options_t, struct_size, 0);
FIELD_AT(mmsb_adopt_options_t, device, 4);
FIELD_AT(mmsb_adopt_options_t, location, 8);
FIELD_AT(mmsb_adopt_options_t, read_only, 12);
FIELD_AT(mmsb_adopt_options_t, id, 16);
FIELD_AT(mmsb_adopt_options_t, release, 24);
FIELD_AT(mmsb_adopt_options_t, user, 32);
FIELD_AT(mmsb_adopt_options_t, reserved, 40);

SIZE_IS(mmsb_page_info_t, 120);
FIELD_AT(mmsb_page_info_t, struct_size, 0);
FIELD_AT(mmsb_page_info_t, location, 4);
FIELD_AT(mmsb_page_info_t, device, 8);
FIELD_AT(mmsb_page_info_t, numa_node, 12);
FIELD_AT(mmsb_page_info_t, page, 16);
FIELD_AT(mmsb_page_info_t, context, 24);
FIELD_AT(mmsb_page_info_t, id, 32);
FIELD_AT(mmsb_page_info_t, size, 40);
FIELD_AT(mmsb_page_info_t, epoch, 48);
FIELD_AT(mmsb_page_info_t, version, 56);
FIELD_AT(mmsb_page_info_t, read_pins, 64);
FIELD_AT(mmsb_page_info_t, write_pins, 68);
FIELD_AT(mmsb_page_info_t, simulated, 72);
FIELD_AT(mmsb_page_info_t, adopted, 76);
FIELD_AT(mmsb_page_info_t, read_only, 80);
FIELD_AT(mmsb_page_info_t, metadata_count, 84);
FIELD_AT(mmsb_page_info_t, reserved, 88);

SIZE_IS(mmsb_page_range_t, 32);
FIELD_AT(mmsb_page_range_t, page, 0);
FIELD_AT(mmsb_page_range_t, offset, 8);
FIELD_AT(mmsb_page_range_t, length, 16);
FIELD_AT(mmsb_page_range_t, buffer, 24);

SIZE_IS(mmsb_run_t, 16);
FIELD_AT(mmsb_run_t, offset, 0);
FIELD_AT(mmsb_run_t, length, 8);

SIZE_IS(mmsb_delta_t, 152);
FIELD_AT(mmsb_delta_t, struct_size, 0);
FIELD_AT(mmsb_delta_t, kind, 4);
FIELD_AT(mmsb_delta_t, id, 8);
FIELD_AT(mmsb_delta_t, page_id, 16);
FIELD_AT(mmsb_delta_t, epoch, 24);
FIELD_AT(mmsb_delta_t, timestamp_ns, 32);
FIELD_AT(mmsb_delta_t, source, 40);
FIELD_AT(mmsb_delta_t, intent, 48);
FIELD_AT(mmsb_delta_t, mask, 56);
FIELD_AT(mmsb_delta_t, mask_length, 64);
FIELD_AT(mmsb_delta_t, offsets, 72);
FIELD_AT(mmsb_delta_t, offsets32, 80);
FIELD_AT(mmsb_delta_t, runs, 88);
FIELD_AT(mmsb_delta_t, count, 96);
FIELD_AT(mmsb_delta_t, payload, 104);
FIELD_AT(mmsb_delta_t, payload_length, 112);
FIELD_AT(mmsb_delta_t, reserved, 120);

SIZE_IS(mmsb_page_runs_t, 96);
FIELD_AT(mmsb_page_runs_t, struct_size, 0);
FIELD_AT(mmsb_page_runs_t, reserved_word, 4);
FIELD_AT(mmsb_page_runs_t, count, 8);
FIELD_AT(mmsb_page_runs_t, pages, 16);
FIELD_AT(mmsb_page_runs_t, offsets, 24);
FIELD_AT(mmsb_page_runs_t, lengths, 32);
FIELD_AT(mmsb_page_runs_t, uniform_length, 40);
FIELD_AT(mmsb_page_runs_t, payload, 48);
FIELD_AT(mmsb_page_runs_t, payload_length, 56);
FIELD_AT(mmsb_page_runs_t, reserved, 64);

SIZE_IS(mmsb_save_options_t, 72);
FIELD_AT(mmsb_save_options_t, struct_size, 0);
FIELD_AT(mmsb_save_options_t, compression, 4);
FIELD_AT(mmsb_save_options_t, compression_level, 8);
FIELD_AT(mmsb_save_options_t, raw_writes, 12);
FIELD_AT(mmsb_save_options_t, not_durable, 16);
FIELD_AT(mmsb_save_options_t, reserved_word, 20);
FIELD_AT(mmsb_save_options_t, copy_limit, 24);
FIELD_AT(mmsb_save_options_t, base, 32);
FIELD_AT(mmsb_save_options_t, reserved, 40);

SIZE_IS(mmsb_load_options_t, 96);
FIELD_AT(mmsb_load_options_t, struct_size, 0);
FIELD_AT(mmsb_load_options_t, mode, 4);
FIELD_AT(mmsb_load_options_t, page_ids, 8);
FIELD_AT(mmsb_load_options_t, page_count, 16);
FIELD_AT(mmsb_load_options_t, journal, 24);
FIELD_AT(mmsb_load_options_t, journal_until, 32);
FIELD_AT(mmsb_load_options_t, journal_until_time_ns, 40);
FIELD_AT(mmsb_load_options_t, journal_page, 48);
FIELD_AT(mmsb_load_options_t, journal_epoch, 56);
FIELD_AT(mmsb_load_options_t, reserved, 64);

SIZE_IS(mmsb_save_stats_t, 112);
FIELD_AT(mmsb_save_stats_t, struct_size, 0);
FIELD_AT(mmsb_save_stats_t, reserved_word, 4);
FIELD_AT(mmsb_save_stats_t, saves, 8);
FIELD_AT(mmsb_save_stats_t, last_pages, 16);
FIELD_AT(mmsb_save_stats_t, last_bytes, 24);
FIELD_AT(mmsb_save_stats_t, last_duration_ns, 32);
FIELD_AT(mmsb_save_stats_t, copied_bytes, 40);
FIELD_AT(mmsb_save_stats_t, copied_peak, 48);
FIELD_AT(mmsb_save_stats_t, waits, 56);
FIELD_AT(mmsb_save_stats_t, waited_ns, 64);
FIELD_AT(mmsb_save_stats_t, compared_bytes, 72);
FIELD_AT(mmsb_save_stats_t, reserved, 80);

SIZE_IS(mmsb_snapshot_info_t, 136);
FIELD_AT(mmsb_snapshot_info_t, struct_size, 0);
FIELD_AT(mmsb_snapshot_info_t, format, 4);
FIELD_AT(mmsb_snapshot_info_t, id, 8);
FIELD_AT(mmsb_snapshot_info_t, base, 24);
FIELD_AT(mmsb_snapshot_info_t, taken_ns, 40);
FIELD_AT(mmsb_snapshot_info_t, journal, 48);
FIELD_AT(mmsb_snapshot_info_t, pages, 56);
FIELD_AT(mmsb_snapshot_info_t, bytes, 64);
FIELD_AT(mmsb_snapshot_info_t, file_pages, 72);
FIELD_AT(mmsb_snapshot_info_t, file_bytes, 80);
FIELD_AT(mmsb_snapshot_info_t, edges, 88);
FIELD_AT(mmsb_snapshot_info_t, chain, 96);
FIELD_AT(mmsb_snapshot_info_t, reserved_word, 100);
FIELD_AT(mmsb_snapshot_info_t, reserved, 104);

SIZE_IS(mmsb_snapshot_page_t, 56);
FIELD_AT(mmsb_snapshot_page_t, id, 0);
FIELD_AT(mmsb_snapshot_page_t, size, 8);
FIELD_AT(mmsb_snapshot_page_t, epoch, 16);
FIELD_AT(mmsb_snapshot_page_t, version, 24);
FIELD_AT(mmsb_snapshot_page_t, location, 32);
FIELD_AT(mmsb_snapshot_page_t, device, 36);
FIELD_AT(mmsb_snapshot_page_t, numa_node, 40);
FIELD_AT(mmsb_snapshot_page_t, metadata_count, 44);
FIELD_AT(mmsb_snapshot_page_t, reserved, 48);

SIZE_IS(mmsb_snapshot_change_t, 16);
FIELD_AT(mmsb_snapshot_change_t, id, 0);
FIELD_AT(mmsb_snapshot_change_t, change, 8);
FIELD_AT(mmsb_snapshot_change_t, reserved, 12);

SIZE_IS(mmsb_journal_options_t, 56);
FIELD_AT(mmsb_journal_options_t, struct_size, 0);
FIELD_AT(mmsb_journal_options_t, durability, 4);
FIELD_AT(mmsb_journal_options_t, interval_ms, 8);
FIELD_AT(mmsb_journal_options_t, keep, 12);
FIELD_AT(mmsb_journal_options_t, segment_bytes, 16);
FIELD_AT(mmsb_journal_options_t, reserved, 24);

SIZE_IS(mmsb_journal_info_t, 72);
FIELD_AT(mmsb_journal_info_t, struct_size, 0);
FIELD_AT(mmsb_journal_info_t, segments, 4);
FIELD_AT(mmsb_journal_info_t, first, 8);
FIELD_AT(mmsb_journal_info_t, last, 16);
FIELD_AT(mmsb_journal_info_t, synced, 24);
FIELD_AT(mmsb_journal_info_t, bytes, 32);
FIELD_AT(mmsb_journal_info_t, reserved, 40);

SIZE_IS(mmsb_device_info_t, 216);
FIELD_AT(mmsb_device_info_t, ordinal, 0);
FIELD_AT(mmsb_device_info_t, simulated, 4);
FIELD_AT(mmsb_device_info_t, name, 8);
FIELD_AT(mmsb_device_info_t, pci, 104);
FIELD_AT(mmsb_device_info_t, uuid, 120);
FIELD_AT(mmsb_device_info_t, bytes, 136);
FIELD_AT(mmsb_device_info_t, free_bytes, 144);
FIELD_AT(mmsb_device_info_t, granularity, 152);
FIELD_AT(mmsb_device_info_t, major, 160);
FIELD_AT(mmsb_device_info_t, minor, 164);
FIELD_AT(mmsb_device_info_t, multiprocessors, 168);
FIELD_AT(mmsb_device_info_t, numa_node, 172);
FIELD_AT(mmsb_device_info_t, ordered_memory, 176);
FIELD_AT(mmsb_device_info_t, managed_memory, 180);
FIELD_AT(mmsb_device_info_t, reserved, 184);

SIZE_IS(mmsb_runtime_options_t, 104);
FIELD_AT(mmsb_runtime_options_t, struct_size, 0);
FIELD_AT(mmsb_runtime_options_t, streams, 4);
FIELD_AT(mmsb_runtime_options_t, budget, 8);
FIELD_AT(mmsb_runtime_options_t, ledger, 16);
FIELD_AT(mmsb_runtime_options_t, log_events, 24);
FIELD_AT(mmsb_runtime_options_t, guard_every, 32);
FIELD_AT(mmsb_runtime_options_t, guard_quarantine, 40);
FIELD_AT(mmsb_runtime_options_t, refused, 48);
FIELD_AT(mmsb_runtime_options_t, refused_user, 56);
FIELD_AT(mmsb_runtime_options_t, refused_attempts, 64);
FIELD_AT(mmsb_runtime_options_t, reserved, 72);

SIZE_IS(mmsb_runtime_stats_t, 224);
FIELD_AT(mmsb_runtime_stats_t, struct_size, 0);
FIELD_AT(mmsb_runtime_stats_t, streams, 4);
FIELD_AT(mmsb_runtime_stats_t, outstanding, 8);
FIELD_AT(mmsb_runtime_stats_t, live, 16);
FIELD_AT(mmsb_runtime_stats_t, pending, 24);
FIELD_AT(mmsb_runtime_stats_t, peak, 32);
FIELD_AT(mmsb_runtime_stats_t, blocks, 40);
FIELD_AT(mmsb_runtime_stats_t, allocations, 48);
FIELD_AT(mmsb_runtime_stats_t, frees, 56);
FIELD_AT(mmsb_runtime_stats_t, failures, 64);
FIELD_AT(mmsb_runtime_stats_t, deferred_frees, 72);
FIELD_AT(mmsb_runtime_stats_t, uses, 80);
FIELD_AT(mmsb_runtime_stats_t, aborts, 88);
FIELD_AT(mmsb_runtime_stats_t, waits, 96);
FIELD_AT(mmsb_runtime_stats_t, waits_saved, 104);
FIELD_AT(mmsb_runtime_stats_t, budget, 112);
FIELD_AT(mmsb_runtime_stats_t, charged, 120);
FIELD_AT(mmsb_runtime_stats_t, reserved_bytes, 128);
FIELD_AT(mmsb_runtime_stats_t, charged_peak, 136);
FIELD_AT(mmsb_runtime_stats_t, refusals, 144);
FIELD_AT(mmsb_runtime_stats_t, reports, 152);
FIELD_AT(mmsb_runtime_stats_t, reserved, 160);

SIZE_IS(mmsb_tag_stats_t, 64);
FIELD_AT(mmsb_tag_stats_t, live, 0);
FIELD_AT(mmsb_tag_stats_t, peak, 8);
FIELD_AT(mmsb_tag_stats_t, total_bytes, 16);
FIELD_AT(mmsb_tag_stats_t, blocks, 24);
FIELD_AT(mmsb_tag_stats_t, total_blocks, 32);
FIELD_AT(mmsb_tag_stats_t, failures, 40);
FIELD_AT(mmsb_tag_stats_t, reserved, 48);

SIZE_IS(mmsb_block_info_t, 72);
FIELD_AT(mmsb_block_info_t, struct_size, 0);
FIELD_AT(mmsb_block_info_t, device, 4);
FIELD_AT(mmsb_block_info_t, address, 8);
FIELD_AT(mmsb_block_info_t, bytes, 16);
FIELD_AT(mmsb_block_info_t, stream, 24);
FIELD_AT(mmsb_block_info_t, tag, 32);
FIELD_AT(mmsb_block_info_t, uses, 36);
FIELD_AT(mmsb_block_info_t, reserved, 40);

SIZE_IS(mmsb_access_t, 16);
FIELD_AT(mmsb_access_t, block, 0);
FIELD_AT(mmsb_access_t, access, 8);
FIELD_AT(mmsb_access_t, reserved, 12);

static void the_library_has_the_same_sizes(void) {
    static const struct {
        int32_t structure;
        size_t size;
    } structures[] = {
        {MMSB_STRUCT_ERROR_DETAIL, sizeof(mmsb_error_detail_t)},
        {MMSB_STRUCT_CAPABILITY, sizeof(mmsb_capability_t)},
        {MMSB_STRUCT_CONTEXT_OPTIONS, sizeof(mmsb_context_options_t)},
        {MMSB_STRUCT_CONTEXT_STATS, sizeof(mmsb_context_stats_t)},
        {MMSB_STRUCT_MEMORY_USAGE, sizeof(mmsb_memory_usage_t)},
        {MMSB_STRUCT_PAGE_OPTIONS, sizeof(mmsb_page_options_t)},
        {MMSB_STRUCT_PAGE_INFO, sizeof(mmsb_page_info_t)},
        {MMSB_STRUCT_PAGE_RANGE, sizeof(mmsb_page_range_t)},
        {MMSB_STRUCT_ADOPT_OPTIONS, sizeof(mmsb_adopt_options_t)},
        {MMSB_STRUCT_WORK_OPTIONS, sizeof(mmsb_work_options_t)},
        {MMSB_STRUCT_RUN, sizeof(mmsb_run_t)},
        {MMSB_STRUCT_DELTA, sizeof(mmsb_delta_t)},
        {MMSB_STRUCT_PAGE_RUNS, sizeof(mmsb_page_runs_t)},
        {MMSB_STRUCT_SAVE_OPTIONS, sizeof(mmsb_save_options_t)},
        {MMSB_STRUCT_LOAD_OPTIONS, sizeof(mmsb_load_options_t)},
        {MMSB_STRUCT_SAVE_STATS, sizeof(mmsb_save_stats_t)},
        {MMSB_STRUCT_SNAPSHOT_INFO, sizeof(mmsb_snapshot_info_t)},
        {MMSB_STRUCT_SNAPSHOT_PAGE, sizeof(mmsb_snapshot_page_t)},
        {MMSB_STRUCT_SNAPSHOT_CHANGE, sizeof(mmsb_snapshot_change_t)},
        {MMSB_STRUCT_JOURNAL_OPTIONS, sizeof(mmsb_journal_options_t)},
        {MMSB_STRUCT_JOURNAL_INFO, sizeof(mmsb_journal_info_t)},
        {MMSB_STRUCT_DEVICE_INFO, sizeof(mmsb_device_info_t)},
        {MMSB_STRUCT_RUNTIME_OPTIONS, sizeof(mmsb_runtime_options_t)},
        {MMSB_STRUCT_RUNTIME_STATS, sizeof(mmsb_runtime_stats_t)},
        {MMSB_STRUCT_TAG_STATS, sizeof(mmsb_tag_stats_t)},
        {MMSB_STRUCT_BLOCK_INFO, sizeof(mmsb_block_info_t)},
        {MMSB_STRUCT_ACCESS, sizeof(mmsb_access_t)},
    };
    for (size_t i = 0; i < sizeof structures / sizeof structures[0]; i++) {
        CHECK_EQUAL(mmsb_sizeof(structures[i].structure), structures[i].size);
    }
    CHECK_EQUAL(mmsb_sizeof(MMSB_STRUCT_ERROR_DETAIL - 1), 0);
    CHECK_EQUAL(mmsb_sizeof(-1), 0);
    CHECK_EQUAL(mmsb_sizeof(MMSB_STRUCT_ACCESS + 1), 0);
    CHECK_EQUAL(mmsb_sizeof(INT32_MAX), 0);
}

/* An init function fills its struct whole and writes no further; what it does not name is zero. */
#define CHECK_INIT(type, init) \
    do { \
        struct { \
            type value; \
            uint64_t after; \
        } a, b; \
        memset(&a, 0x00, sizeof a); \
        memset(&b, 0xFF, sizeof b); \
        init(&a.value); \
        init(&b.value); \
        CHECK(memcmp(&a.value, &b.value, sizeof a.value) == 0); \
        CHECK_EQUAL(a.value.struct_size, sizeof a.value); \
        CHECK(a.after == 0 && b.after == UINT64_MAX); \
    } while (0)

static void init_fills_the_struct_and_no_more(void) {
    CHECK_INIT(mmsb_error_detail_t, mmsb_error_detail_init);
    CHECK_INIT(mmsb_context_options_t, mmsb_context_options_init);
    CHECK_INIT(mmsb_context_stats_t, mmsb_context_stats_init);
    CHECK_INIT(mmsb_memory_usage_t, mmsb_memory_usage_init);
    CHECK_INIT(mmsb_work_options_t, mmsb_work_options_init);
    CHECK_INIT(mmsb_page_options_t, mmsb_page_options_init);
    CHECK_INIT(mmsb_adopt_options_t, mmsb_adopt_options_init);
    CHECK_INIT(mmsb_page_info_t, mmsb_page_info_init);
    CHECK_INIT(mmsb_delta_t, mmsb_delta_init);
    CHECK_INIT(mmsb_page_runs_t, mmsb_page_runs_init);
    CHECK_INIT(mmsb_save_options_t, mmsb_save_options_init);
    CHECK_INIT(mmsb_load_options_t, mmsb_load_options_init);
    CHECK_INIT(mmsb_save_stats_t, mmsb_save_stats_init);
    CHECK_INIT(mmsb_snapshot_info_t, mmsb_snapshot_info_init);
    CHECK_INIT(mmsb_journal_options_t, mmsb_journal_options_init);
    CHECK_INIT(mmsb_journal_info_t, mmsb_journal_info_init);
    CHECK_INIT(mmsb_runtime_options_t, mmsb_runtime_options_init);
    CHECK_INIT(mmsb_runtime_stats_t, mmsb_runtime_stats_init);
    CHECK_INIT(mmsb_block_info_t, mmsb_block_info_init);
}

int main(void) {
    RUN(the_library_has_the_same_sizes);
    RUN(init_fills_the_struct_and_no_more);
    return check_report();
}
