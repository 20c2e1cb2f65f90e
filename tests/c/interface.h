/* Generated from include/mmsb.h by "make generate": do not edit. */
#ifndef MMSB_TESTS_INTERFACE_H
#define MMSB_TESTS_INTERFACE_H

#include <mmsb.h>
#include <stddef.h>

#define SIZE_IS(type, size) _Static_assert(sizeof(type) == (size), #type)
#define FIELD_IS(type, field, offset, size) \
    _Static_assert(offsetof(type, field) == (offset) && sizeof(((type *)0)->field) == (size), #type "." #field)

SIZE_IS(mmsb_error_detail_t, 560);
FIELD_IS(mmsb_error_detail_t, struct_size, 0, 4);
FIELD_IS(mmsb_error_detail_t, code, 4, 4);
FIELD_IS(mmsb_error_detail_t, domain, 8, 4);
FIELD_IS(mmsb_error_detail_t, foreign_code, 12, 4);
FIELD_IS(mmsb_error_detail_t, text, 16, 512);
FIELD_IS(mmsb_error_detail_t, reserved, 528, 32);

SIZE_IS(mmsb_capability_t, 256);
FIELD_IS(mmsb_capability_t, struct_size, 0, 4);
FIELD_IS(mmsb_capability_t, available, 4, 4);
FIELD_IS(mmsb_capability_t, name, 8, 32);
FIELD_IS(mmsb_capability_t, reason, 40, 216);

SIZE_IS(mmsb_context_options_t, 120);
FIELD_IS(mmsb_context_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_context_options_t, default_location, 4, 4);
FIELD_IS(mmsb_context_options_t, default_device, 8, 4);
FIELD_IS(mmsb_context_options_t, simulate, 12, 4);
FIELD_IS(mmsb_context_options_t, simulated_devices, 16, 4);
FIELD_IS(mmsb_context_options_t, fallback, 20, 4);
FIELD_IS(mmsb_context_options_t, simulated_memory, 24, 8);
FIELD_IS(mmsb_context_options_t, memory_limit, 32, 8);
FIELD_IS(mmsb_context_options_t, disk_path, 40, 8);
FIELD_IS(mmsb_context_options_t, huge_pages, 48, 4);
FIELD_IS(mmsb_context_options_t, reserved_word, 52, 4);
FIELD_IS(mmsb_context_options_t, guard_every, 56, 8);
FIELD_IS(mmsb_context_options_t, guard_quarantine, 64, 8);
FIELD_IS(mmsb_context_options_t, reserved, 72, 48);

SIZE_IS(mmsb_context_stats_t, 272);
FIELD_IS(mmsb_context_stats_t, struct_size, 0, 4);
FIELD_IS(mmsb_context_stats_t, reserved_word, 4, 4);
FIELD_IS(mmsb_context_stats_t, pages, 8, 8);
FIELD_IS(mmsb_context_stats_t, bytes, 16, 8);
FIELD_IS(mmsb_context_stats_t, peak_bytes, 24, 8);
FIELD_IS(mmsb_context_stats_t, allocations, 32, 8);
FIELD_IS(mmsb_context_stats_t, frees, 40, 8);
FIELD_IS(mmsb_context_stats_t, pinned_pages, 48, 8);
FIELD_IS(mmsb_context_stats_t, memory_used, 56, 8);
FIELD_IS(mmsb_context_stats_t, memory_limit, 64, 8);
FIELD_IS(mmsb_context_stats_t, disk_used, 72, 8);
FIELD_IS(mmsb_context_stats_t, location_pages, 80, 64);
FIELD_IS(mmsb_context_stats_t, location_bytes, 144, 64);
FIELD_IS(mmsb_context_stats_t, guard_bytes, 208, 8);
FIELD_IS(mmsb_context_stats_t, guard_reports, 216, 8);
FIELD_IS(mmsb_context_stats_t, reserved, 224, 48);

SIZE_IS(mmsb_guard_report_t, 80);
FIELD_IS(mmsb_guard_report_t, struct_size, 0, 4);
FIELD_IS(mmsb_guard_report_t, side, 4, 4);
FIELD_IS(mmsb_guard_report_t, page_id, 8, 8);
FIELD_IS(mmsb_guard_report_t, size, 16, 8);
FIELD_IS(mmsb_guard_report_t, offset, 24, 8);
FIELD_IS(mmsb_guard_report_t, bytes, 32, 8);
FIELD_IS(mmsb_guard_report_t, expected, 40, 4);
FIELD_IS(mmsb_guard_report_t, found, 44, 4);
FIELD_IS(mmsb_guard_report_t, reserved, 48, 32);

SIZE_IS(mmsb_memory_usage_t, 128);
FIELD_IS(mmsb_memory_usage_t, struct_size, 0, 4);
FIELD_IS(mmsb_memory_usage_t, reserved_word, 4, 4);
FIELD_IS(mmsb_memory_usage_t, page_bytes, 8, 8);
FIELD_IS(mmsb_memory_usage_t, record_bytes, 16, 8);
FIELD_IS(mmsb_memory_usage_t, mask_bytes, 24, 8);
FIELD_IS(mmsb_memory_usage_t, metadata_bytes, 32, 8);
FIELD_IS(mmsb_memory_usage_t, cache_bytes, 40, 8);
FIELD_IS(mmsb_memory_usage_t, disk_bytes, 48, 8);
FIELD_IS(mmsb_memory_usage_t, go_heap_bytes, 56, 8);
FIELD_IS(mmsb_memory_usage_t, reserved, 64, 64);

SIZE_IS(mmsb_work_options_t, 72);
FIELD_IS(mmsb_work_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_work_options_t, device, 4, 4);
FIELD_IS(mmsb_work_options_t, timeout_ns, 8, 8);
FIELD_IS(mmsb_work_options_t, stream, 16, 8);
FIELD_IS(mmsb_work_options_t, after, 24, 8);
FIELD_IS(mmsb_work_options_t, after_count, 32, 8);
FIELD_IS(mmsb_work_options_t, reserved, 40, 32);

SIZE_IS(mmsb_page_options_t, 64);
FIELD_IS(mmsb_page_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_page_options_t, location, 4, 4);
FIELD_IS(mmsb_page_options_t, device, 8, 4);
FIELD_IS(mmsb_page_options_t, numa_node, 12, 4);
FIELD_IS(mmsb_page_options_t, id, 16, 8);
FIELD_IS(mmsb_page_options_t, contents, 24, 4);
FIELD_IS(mmsb_page_options_t, reserved_word, 28, 4);
FIELD_IS(mmsb_page_options_t, sizes, 32, 8);
FIELD_IS(mmsb_page_options_t, ids, 40, 8);
FIELD_IS(mmsb_page_options_t, reserved, 48, 16);

SIZE_IS(mmsb_adopt_options_t, 72);
FIELD_IS(mmsb_adopt_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_adopt_options_t, device, 4, 4);
FIELD_IS(mmsb_adopt_options_t, location, 8, 4);
FIELD_IS(mmsb_adopt_options_t, read_only, 12, 4);
FIELD_IS(mmsb_adopt_options_t, id, 16, 8);
FIELD_IS(mmsb_adopt_options_t, release, 24, 8);
FIELD_IS(mmsb_adopt_options_t, user, 32, 8);
FIELD_IS(mmsb_adopt_options_t, stream, 40, 8);
FIELD_IS(mmsb_adopt_options_t, reserved, 48, 24);

SIZE_IS(mmsb_page_info_t, 120);
FIELD_IS(mmsb_page_info_t, struct_size, 0, 4);
FIELD_IS(mmsb_page_info_t, location, 4, 4);
FIELD_IS(mmsb_page_info_t, device, 8, 4);
FIELD_IS(mmsb_page_info_t, numa_node, 12, 4);
FIELD_IS(mmsb_page_info_t, page, 16, 8);
FIELD_IS(mmsb_page_info_t, context, 24, 8);
FIELD_IS(mmsb_page_info_t, id, 32, 8);
FIELD_IS(mmsb_page_info_t, size, 40, 8);
FIELD_IS(mmsb_page_info_t, epoch, 48, 8);
FIELD_IS(mmsb_page_info_t, version, 56, 8);
FIELD_IS(mmsb_page_info_t, read_pins, 64, 4);
FIELD_IS(mmsb_page_info_t, write_pins, 68, 4);
FIELD_IS(mmsb_page_info_t, simulated, 72, 4);
FIELD_IS(mmsb_page_info_t, adopted, 76, 4);
FIELD_IS(mmsb_page_info_t, read_only, 80, 4);
FIELD_IS(mmsb_page_info_t, metadata_count, 84, 4);
FIELD_IS(mmsb_page_info_t, reserved, 88, 32);

SIZE_IS(mmsb_page_range_t, 32);
FIELD_IS(mmsb_page_range_t, page, 0, 8);
FIELD_IS(mmsb_page_range_t, offset, 8, 8);
FIELD_IS(mmsb_page_range_t, length, 16, 8);
FIELD_IS(mmsb_page_range_t, buffer, 24, 8);

SIZE_IS(mmsb_page_copy_t, 24);
FIELD_IS(mmsb_page_copy_t, location, 0, 4);
FIELD_IS(mmsb_page_copy_t, device, 4, 4);
FIELD_IS(mmsb_page_copy_t, size, 8, 8);
FIELD_IS(mmsb_page_copy_t, newer, 16, 8);

SIZE_IS(mmsb_lost_page_t, 40);
FIELD_IS(mmsb_lost_page_t, page, 0, 8);
FIELD_IS(mmsb_lost_page_t, id, 8, 8);
FIELD_IS(mmsb_lost_page_t, size, 16, 8);
FIELD_IS(mmsb_lost_page_t, lost, 24, 8);
FIELD_IS(mmsb_lost_page_t, device, 32, 4);
FIELD_IS(mmsb_lost_page_t, reserved_word, 36, 4);

SIZE_IS(mmsb_sync_stats_t, 128);
FIELD_IS(mmsb_sync_stats_t, struct_size, 0, 4);
FIELD_IS(mmsb_sync_stats_t, reserved_word, 4, 4);
FIELD_IS(mmsb_sync_stats_t, pages, 8, 8);
FIELD_IS(mmsb_sync_stats_t, bytes, 16, 8);
FIELD_IS(mmsb_sync_stats_t, newer_on_host, 24, 8);
FIELD_IS(mmsb_sync_stats_t, newer_on_device, 32, 8);
FIELD_IS(mmsb_sync_stats_t, to_device_bytes, 40, 8);
FIELD_IS(mmsb_sync_stats_t, to_host_bytes, 48, 8);
FIELD_IS(mmsb_sync_stats_t, to_device_ranges, 56, 8);
FIELD_IS(mmsb_sync_stats_t, to_host_ranges, 64, 8);
FIELD_IS(mmsb_sync_stats_t, queued, 72, 8);
FIELD_IS(mmsb_sync_stats_t, replicas, 80, 8);
FIELD_IS(mmsb_sync_stats_t, replica_bytes, 88, 8);
FIELD_IS(mmsb_sync_stats_t, reserved, 96, 32);

SIZE_IS(mmsb_page_advice_t, 32);
FIELD_IS(mmsb_page_advice_t, struct_size, 0, 4);
FIELD_IS(mmsb_page_advice_t, preferred, 4, 4);
FIELD_IS(mmsb_page_advice_t, read_mostly, 8, 4);
FIELD_IS(mmsb_page_advice_t, reserved_word, 12, 4);
FIELD_IS(mmsb_page_advice_t, reserved, 16, 16);

SIZE_IS(mmsb_run_t, 16);
FIELD_IS(mmsb_run_t, offset, 0, 8);
FIELD_IS(mmsb_run_t, length, 8, 8);

SIZE_IS(mmsb_delta_t, 152);
FIELD_IS(mmsb_delta_t, struct_size, 0, 4);
FIELD_IS(mmsb_delta_t, kind, 4, 4);
FIELD_IS(mmsb_delta_t, id, 8, 8);
FIELD_IS(mmsb_delta_t, page_id, 16, 8);
FIELD_IS(mmsb_delta_t, epoch, 24, 8);
FIELD_IS(mmsb_delta_t, timestamp_ns, 32, 8);
FIELD_IS(mmsb_delta_t, source, 40, 8);
FIELD_IS(mmsb_delta_t, intent, 48, 8);
FIELD_IS(mmsb_delta_t, mask, 56, 8);
FIELD_IS(mmsb_delta_t, mask_length, 64, 8);
FIELD_IS(mmsb_delta_t, offsets, 72, 8);
FIELD_IS(mmsb_delta_t, offsets32, 80, 8);
FIELD_IS(mmsb_delta_t, runs, 88, 8);
FIELD_IS(mmsb_delta_t, count, 96, 8);
FIELD_IS(mmsb_delta_t, payload, 104, 8);
FIELD_IS(mmsb_delta_t, payload_length, 112, 8);
FIELD_IS(mmsb_delta_t, reserved, 120, 32);

SIZE_IS(mmsb_page_runs_t, 96);
FIELD_IS(mmsb_page_runs_t, struct_size, 0, 4);
FIELD_IS(mmsb_page_runs_t, reserved_word, 4, 4);
FIELD_IS(mmsb_page_runs_t, count, 8, 8);
FIELD_IS(mmsb_page_runs_t, pages, 16, 8);
FIELD_IS(mmsb_page_runs_t, offsets, 24, 8);
FIELD_IS(mmsb_page_runs_t, lengths, 32, 8);
FIELD_IS(mmsb_page_runs_t, uniform_length, 40, 8);
FIELD_IS(mmsb_page_runs_t, payload, 48, 8);
FIELD_IS(mmsb_page_runs_t, payload_length, 56, 8);
FIELD_IS(mmsb_page_runs_t, reserved, 64, 32);

SIZE_IS(mmsb_difference_t, 16);
FIELD_IS(mmsb_difference_t, count, 0, 8);
FIELD_IS(mmsb_difference_t, first, 8, 8);

SIZE_IS(mmsb_commands_options_t, 64);
FIELD_IS(mmsb_commands_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_commands_options_t, workers, 4, 4);
FIELD_IS(mmsb_commands_options_t, capacity, 8, 8);
FIELD_IS(mmsb_commands_options_t, persistent, 16, 4);
FIELD_IS(mmsb_commands_options_t, reserved_word, 20, 4);
FIELD_IS(mmsb_commands_options_t, reserved, 24, 40);

SIZE_IS(mmsb_commands_stats_t, 144);
FIELD_IS(mmsb_commands_stats_t, struct_size, 0, 4);
FIELD_IS(mmsb_commands_stats_t, workers, 4, 4);
FIELD_IS(mmsb_commands_stats_t, capacity, 8, 8);
FIELD_IS(mmsb_commands_stats_t, enqueued, 16, 8);
FIELD_IS(mmsb_commands_stats_t, done, 24, 8);
FIELD_IS(mmsb_commands_stats_t, failed, 32, 8);
FIELD_IS(mmsb_commands_stats_t, cancelled, 40, 8);
FIELD_IS(mmsb_commands_stats_t, depth, 48, 8);
FIELD_IS(mmsb_commands_stats_t, peak, 56, 8);
FIELD_IS(mmsb_commands_stats_t, producers, 64, 8);
FIELD_IS(mmsb_commands_stats_t, refused, 72, 8);
FIELD_IS(mmsb_commands_stats_t, waits, 80, 8);
FIELD_IS(mmsb_commands_stats_t, waited_ns, 88, 8);
FIELD_IS(mmsb_commands_stats_t, failures_lost, 96, 8);
FIELD_IS(mmsb_commands_stats_t, reserved, 104, 40);

SIZE_IS(mmsb_command_failure_t, 256);
FIELD_IS(mmsb_command_failure_t, struct_size, 0, 4);
FIELD_IS(mmsb_command_failure_t, code, 4, 4);
FIELD_IS(mmsb_command_failure_t, page, 8, 8);
FIELD_IS(mmsb_command_failure_t, text, 16, 240);

SIZE_IS(mmsb_save_options_t, 80);
FIELD_IS(mmsb_save_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_save_options_t, compression, 4, 4);
FIELD_IS(mmsb_save_options_t, compression_level, 8, 4);
FIELD_IS(mmsb_save_options_t, raw_writes, 12, 4);
FIELD_IS(mmsb_save_options_t, not_durable, 16, 4);
FIELD_IS(mmsb_save_options_t, base_in_use, 20, 4);
FIELD_IS(mmsb_save_options_t, copy_limit, 24, 8);
FIELD_IS(mmsb_save_options_t, base, 32, 8);
FIELD_IS(mmsb_save_options_t, queue, 40, 4);
FIELD_IS(mmsb_save_options_t, chain_limit, 44, 4);
FIELD_IS(mmsb_save_options_t, timeout_ns, 48, 8);
FIELD_IS(mmsb_save_options_t, not_watched, 56, 4);
FIELD_IS(mmsb_save_options_t, reserved_word, 60, 4);
FIELD_IS(mmsb_save_options_t, reserved, 64, 16);

SIZE_IS(mmsb_load_options_t, 112);
FIELD_IS(mmsb_load_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_load_options_t, mode, 4, 4);
FIELD_IS(mmsb_load_options_t, page_ids, 8, 8);
FIELD_IS(mmsb_load_options_t, page_count, 16, 8);
FIELD_IS(mmsb_load_options_t, journal, 24, 8);
FIELD_IS(mmsb_load_options_t, journal_until, 32, 8);
FIELD_IS(mmsb_load_options_t, journal_until_time_ns, 40, 8);
FIELD_IS(mmsb_load_options_t, journal_page, 48, 8);
FIELD_IS(mmsb_load_options_t, journal_epoch, 56, 8);
FIELD_IS(mmsb_load_options_t, timeout_ns, 64, 8);
FIELD_IS(mmsb_load_options_t, to_host, 72, 4);
FIELD_IS(mmsb_load_options_t, reserved_word, 76, 4);
FIELD_IS(mmsb_load_options_t, snapshot_id, 80, 16);
FIELD_IS(mmsb_load_options_t, reserved, 96, 16);

SIZE_IS(mmsb_save_stats_t, 112);
FIELD_IS(mmsb_save_stats_t, struct_size, 0, 4);
FIELD_IS(mmsb_save_stats_t, reserved_word, 4, 4);
FIELD_IS(mmsb_save_stats_t, saves, 8, 8);
FIELD_IS(mmsb_save_stats_t, last_pages, 16, 8);
FIELD_IS(mmsb_save_stats_t, last_bytes, 24, 8);
FIELD_IS(mmsb_save_stats_t, last_duration_ns, 32, 8);
FIELD_IS(mmsb_save_stats_t, copied_bytes, 40, 8);
FIELD_IS(mmsb_save_stats_t, copied_peak, 48, 8);
FIELD_IS(mmsb_save_stats_t, waits, 56, 8);
FIELD_IS(mmsb_save_stats_t, waited_ns, 64, 8);
FIELD_IS(mmsb_save_stats_t, compared_bytes, 72, 8);
FIELD_IS(mmsb_save_stats_t, reserved, 80, 32);

SIZE_IS(mmsb_snapshot_info_t, 176);
FIELD_IS(mmsb_snapshot_info_t, struct_size, 0, 4);
FIELD_IS(mmsb_snapshot_info_t, format, 4, 4);
FIELD_IS(mmsb_snapshot_info_t, id, 8, 16);
FIELD_IS(mmsb_snapshot_info_t, base, 24, 16);
FIELD_IS(mmsb_snapshot_info_t, taken_ns, 40, 8);
FIELD_IS(mmsb_snapshot_info_t, position, 48, 8);
FIELD_IS(mmsb_snapshot_info_t, pages, 56, 8);
FIELD_IS(mmsb_snapshot_info_t, bytes, 64, 8);
FIELD_IS(mmsb_snapshot_info_t, file_pages, 72, 8);
FIELD_IS(mmsb_snapshot_info_t, file_bytes, 80, 8);
FIELD_IS(mmsb_snapshot_info_t, edges, 88, 8);
FIELD_IS(mmsb_snapshot_info_t, chain, 96, 4);
FIELD_IS(mmsb_snapshot_info_t, reserved_word, 100, 4);
FIELD_IS(mmsb_snapshot_info_t, lineage, 104, 16);
FIELD_IS(mmsb_snapshot_info_t, parent, 120, 16);
FIELD_IS(mmsb_snapshot_info_t, fork, 136, 8);
FIELD_IS(mmsb_snapshot_info_t, reserved, 144, 32);

SIZE_IS(mmsb_snapshot_page_t, 56);
FIELD_IS(mmsb_snapshot_page_t, id, 0, 8);
FIELD_IS(mmsb_snapshot_page_t, size, 8, 8);
FIELD_IS(mmsb_snapshot_page_t, epoch, 16, 8);
FIELD_IS(mmsb_snapshot_page_t, version, 24, 8);
FIELD_IS(mmsb_snapshot_page_t, location, 32, 4);
FIELD_IS(mmsb_snapshot_page_t, device, 36, 4);
FIELD_IS(mmsb_snapshot_page_t, numa_node, 40, 4);
FIELD_IS(mmsb_snapshot_page_t, metadata_count, 44, 4);
FIELD_IS(mmsb_snapshot_page_t, reserved, 48, 8);

SIZE_IS(mmsb_dependency_t, 16);
FIELD_IS(mmsb_dependency_t, parent, 0, 8);
FIELD_IS(mmsb_dependency_t, child, 8, 8);

SIZE_IS(mmsb_snapshot_change_t, 16);
FIELD_IS(mmsb_snapshot_change_t, id, 0, 8);
FIELD_IS(mmsb_snapshot_change_t, change, 8, 4);
FIELD_IS(mmsb_snapshot_change_t, reserved, 12, 4);

SIZE_IS(mmsb_journal_options_t, 56);
FIELD_IS(mmsb_journal_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_journal_options_t, durability, 4, 4);
FIELD_IS(mmsb_journal_options_t, interval_ms, 8, 4);
FIELD_IS(mmsb_journal_options_t, keep, 12, 4);
FIELD_IS(mmsb_journal_options_t, segment_bytes, 16, 8);
FIELD_IS(mmsb_journal_options_t, base, 24, 4);
FIELD_IS(mmsb_journal_options_t, reserved_word, 28, 4);
FIELD_IS(mmsb_journal_options_t, timeout_ns, 32, 8);
FIELD_IS(mmsb_journal_options_t, reserved, 40, 16);

SIZE_IS(mmsb_journal_info_t, 72);
FIELD_IS(mmsb_journal_info_t, struct_size, 0, 4);
FIELD_IS(mmsb_journal_info_t, segments, 4, 4);
FIELD_IS(mmsb_journal_info_t, first, 8, 8);
FIELD_IS(mmsb_journal_info_t, last, 16, 8);
FIELD_IS(mmsb_journal_info_t, synced, 24, 8);
FIELD_IS(mmsb_journal_info_t, bytes, 32, 8);
FIELD_IS(mmsb_journal_info_t, waits, 40, 8);
FIELD_IS(mmsb_journal_info_t, waited_ns, 48, 8);
FIELD_IS(mmsb_journal_info_t, space_waited_ns, 56, 8);
FIELD_IS(mmsb_journal_info_t, reserved, 64, 8);

SIZE_IS(mmsb_journal_directory_t, 144);
FIELD_IS(mmsb_journal_directory_t, struct_size, 0, 4);
FIELD_IS(mmsb_journal_directory_t, closed, 4, 4);
FIELD_IS(mmsb_journal_directory_t, lineage, 8, 16);
FIELD_IS(mmsb_journal_directory_t, parent, 24, 16);
FIELD_IS(mmsb_journal_directory_t, fork, 40, 8);
FIELD_IS(mmsb_journal_directory_t, branch, 48, 8);
FIELD_IS(mmsb_journal_directory_t, branches, 56, 8);
FIELD_IS(mmsb_journal_directory_t, segments, 64, 8);
FIELD_IS(mmsb_journal_directory_t, first, 72, 8);
FIELD_IS(mmsb_journal_directory_t, last, 80, 8);
FIELD_IS(mmsb_journal_directory_t, first_time_ns, 88, 8);
FIELD_IS(mmsb_journal_directory_t, last_time_ns, 96, 8);
FIELD_IS(mmsb_journal_directory_t, torn_bytes, 104, 8);
FIELD_IS(mmsb_journal_directory_t, reserved, 112, 32);

SIZE_IS(mmsb_journal_segment_t, 120);
FIELD_IS(mmsb_journal_segment_t, name, 0, 64);
FIELD_IS(mmsb_journal_segment_t, first, 64, 8);
FIELD_IS(mmsb_journal_segment_t, last, 72, 8);
FIELD_IS(mmsb_journal_segment_t, bytes, 80, 8);
FIELD_IS(mmsb_journal_segment_t, created_ns, 88, 8);
FIELD_IS(mmsb_journal_segment_t, based, 96, 4);
FIELD_IS(mmsb_journal_segment_t, reserved_word, 100, 4);
FIELD_IS(mmsb_journal_segment_t, reserved, 104, 16);

SIZE_IS(mmsb_journal_record_t, 344);
FIELD_IS(mmsb_journal_record_t, record, 0, 8);
FIELD_IS(mmsb_journal_record_t, group, 8, 8);
FIELD_IS(mmsb_journal_record_t, time_ns, 16, 8);
FIELD_IS(mmsb_journal_record_t, page, 24, 8);
FIELD_IS(mmsb_journal_record_t, version, 32, 8);
FIELD_IS(mmsb_journal_record_t, epoch, 40, 8);
FIELD_IS(mmsb_journal_record_t, size, 48, 8);
FIELD_IS(mmsb_journal_record_t, offset, 56, 8);
FIELD_IS(mmsb_journal_record_t, bytes, 64, 8);
FIELD_IS(mmsb_journal_record_t, other, 72, 8);
FIELD_IS(mmsb_journal_record_t, other_version, 80, 8);
FIELD_IS(mmsb_journal_record_t, kind, 88, 4);
FIELD_IS(mmsb_journal_record_t, location, 92, 4);
FIELD_IS(mmsb_journal_record_t, device, 96, 4);
FIELD_IS(mmsb_journal_record_t, numa_node, 100, 4);
FIELD_IS(mmsb_journal_record_t, form, 104, 4);
FIELD_IS(mmsb_journal_record_t, adopted, 108, 4);
FIELD_IS(mmsb_journal_record_t, read_only, 112, 4);
FIELD_IS(mmsb_journal_record_t, reserved_word, 116, 4);
FIELD_IS(mmsb_journal_record_t, key, 120, 64);
FIELD_IS(mmsb_journal_record_t, source, 184, 64);
FIELD_IS(mmsb_journal_record_t, intent, 248, 64);
FIELD_IS(mmsb_journal_record_t, reserved, 312, 32);

SIZE_IS(mmsb_store_options_t, 120);
FIELD_IS(mmsb_store_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_store_options_t, mode, 4, 4);
FIELD_IS(mmsb_store_options_t, at_name, 8, 8);
FIELD_IS(mmsb_store_options_t, at_record, 16, 8);
FIELD_IS(mmsb_store_options_t, at_time_ns, 24, 8);
FIELD_IS(mmsb_store_options_t, load, 32, 4);
FIELD_IS(mmsb_store_options_t, durability, 36, 4);
FIELD_IS(mmsb_store_options_t, interval_ms, 40, 4);
FIELD_IS(mmsb_store_options_t, keep_last, 44, 4);
FIELD_IS(mmsb_store_options_t, segment_bytes, 48, 8);
FIELD_IS(mmsb_store_options_t, save_bytes, 56, 8);
FIELD_IS(mmsb_store_options_t, save_interval_ns, 64, 8);
FIELD_IS(mmsb_store_options_t, keep_hourly, 72, 4);
FIELD_IS(mmsb_store_options_t, keep_daily, 76, 4);
FIELD_IS(mmsb_store_options_t, timeout_ns, 80, 8);
FIELD_IS(mmsb_store_options_t, space_wait_ns, 88, 8);
FIELD_IS(mmsb_store_options_t, reserved, 96, 24);

SIZE_IS(mmsb_store_info_t, 160);
FIELD_IS(mmsb_store_info_t, struct_size, 0, 4);
FIELD_IS(mmsb_store_info_t, reserved_word, 4, 4);
FIELD_IS(mmsb_store_info_t, snapshots, 8, 8);
FIELD_IS(mmsb_store_info_t, snapshot_bytes, 16, 8);
FIELD_IS(mmsb_store_info_t, journal_bytes, 24, 8);
FIELD_IS(mmsb_store_info_t, first_record, 32, 8);
FIELD_IS(mmsb_store_info_t, last_record, 40, 8);
FIELD_IS(mmsb_store_info_t, unsaved_bytes, 48, 8);
FIELD_IS(mmsb_store_info_t, saves, 56, 8);
FIELD_IS(mmsb_store_info_t, whole_saves, 64, 8);
FIELD_IS(mmsb_store_info_t, failed_saves, 72, 8);
FIELD_IS(mmsb_store_info_t, saved_bytes, 80, 8);
FIELD_IS(mmsb_store_info_t, last_save_ns, 88, 8);
FIELD_IS(mmsb_store_info_t, pruned, 96, 8);
FIELD_IS(mmsb_store_info_t, pruned_bytes, 104, 8);
FIELD_IS(mmsb_store_info_t, followed_ns, 112, 8);
FIELD_IS(mmsb_store_info_t, reloads, 120, 8);
FIELD_IS(mmsb_store_info_t, follow_failures, 128, 8);
FIELD_IS(mmsb_store_info_t, waits, 136, 8);
FIELD_IS(mmsb_store_info_t, waited_ns, 144, 8);
FIELD_IS(mmsb_store_info_t, reserved, 152, 8);

SIZE_IS(mmsb_store_point_t, 328);
FIELD_IS(mmsb_store_point_t, id, 0, 16);
FIELD_IS(mmsb_store_point_t, lineage, 16, 16);
FIELD_IS(mmsb_store_point_t, position, 32, 8);
FIELD_IS(mmsb_store_point_t, taken_ns, 40, 8);
FIELD_IS(mmsb_store_point_t, bytes, 48, 8);
FIELD_IS(mmsb_store_point_t, whole, 56, 4);
FIELD_IS(mmsb_store_point_t, on_line, 60, 4);
FIELD_IS(mmsb_store_point_t, leads, 64, 4);
FIELD_IS(mmsb_store_point_t, names, 68, 4);
FIELD_IS(mmsb_store_point_t, name, 72, 256);

SIZE_IS(mmsb_device_info_t, 216);
FIELD_IS(mmsb_device_info_t, ordinal, 0, 4);
FIELD_IS(mmsb_device_info_t, simulated, 4, 4);
FIELD_IS(mmsb_device_info_t, name, 8, 96);
FIELD_IS(mmsb_device_info_t, pci, 104, 16);
FIELD_IS(mmsb_device_info_t, uuid, 120, 16);
FIELD_IS(mmsb_device_info_t, bytes, 136, 8);
FIELD_IS(mmsb_device_info_t, free_bytes, 144, 8);
FIELD_IS(mmsb_device_info_t, granularity, 152, 8);
FIELD_IS(mmsb_device_info_t, major, 160, 4);
FIELD_IS(mmsb_device_info_t, minor, 164, 4);
FIELD_IS(mmsb_device_info_t, multiprocessors, 168, 4);
FIELD_IS(mmsb_device_info_t, numa_node, 172, 4);
FIELD_IS(mmsb_device_info_t, ordered_memory, 176, 4);
FIELD_IS(mmsb_device_info_t, managed_memory, 180, 4);
FIELD_IS(mmsb_device_info_t, managed_hints, 184, 4);
FIELD_IS(mmsb_device_info_t, reserved_word, 188, 4);
FIELD_IS(mmsb_device_info_t, reserved, 192, 24);

SIZE_IS(mmsb_device_memory_t, 96);
FIELD_IS(mmsb_device_memory_t, struct_size, 0, 4);
FIELD_IS(mmsb_device_memory_t, runtimes, 4, 4);
FIELD_IS(mmsb_device_memory_t, budget, 8, 8);
FIELD_IS(mmsb_device_memory_t, charged, 16, 8);
FIELD_IS(mmsb_device_memory_t, charged_peak, 24, 8);
FIELD_IS(mmsb_device_memory_t, pool_free, 32, 8);
FIELD_IS(mmsb_device_memory_t, asked, 40, 8);
FIELD_IS(mmsb_device_memory_t, helped, 48, 8);
FIELD_IS(mmsb_device_memory_t, returned, 56, 8);
FIELD_IS(mmsb_device_memory_t, reserved, 64, 32);

SIZE_IS(mmsb_link_t, 32);
FIELD_IS(mmsb_link_t, number, 0, 4);
FIELD_IS(mmsb_link_t, version, 4, 4);
FIELD_IS(mmsb_link_t, remote, 8, 24);

SIZE_IS(mmsb_telemetry_t, 872);
FIELD_IS(mmsb_telemetry_t, name, 0, 96);
FIELD_IS(mmsb_telemetry_t, uuid, 96, 48);
FIELD_IS(mmsb_telemetry_t, pci, 144, 24);
FIELD_IS(mmsb_telemetry_t, driver_version, 168, 32);
FIELD_IS(mmsb_telemetry_t, memory_total, 200, 8);
FIELD_IS(mmsb_telemetry_t, memory_used, 208, 8);
FIELD_IS(mmsb_telemetry_t, memory_of_this_process, 216, 8);
FIELD_IS(mmsb_telemetry_t, memory_of_others, 224, 8);
FIELD_IS(mmsb_telemetry_t, utilization, 232, 4);
FIELD_IS(mmsb_telemetry_t, memory_utilization, 236, 4);
FIELD_IS(mmsb_telemetry_t, temperature, 240, 4);
FIELD_IS(mmsb_telemetry_t, pcie_generation, 244, 4);
FIELD_IS(mmsb_telemetry_t, pcie_lanes, 248, 4);
FIELD_IS(mmsb_telemetry_t, numa_node, 252, 4);
FIELD_IS(mmsb_telemetry_t, link_count, 256, 4);
FIELD_IS(mmsb_telemetry_t, reserved_word, 260, 4);
FIELD_IS(mmsb_telemetry_t, links, 264, 576);
FIELD_IS(mmsb_telemetry_t, reserved, 840, 32);

SIZE_IS(mmsb_runtime_options_t, 104);
FIELD_IS(mmsb_runtime_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_runtime_options_t, streams, 4, 4);
FIELD_IS(mmsb_runtime_options_t, budget, 8, 8);
FIELD_IS(mmsb_runtime_options_t, ledger, 16, 8);
FIELD_IS(mmsb_runtime_options_t, log_events, 24, 8);
FIELD_IS(mmsb_runtime_options_t, guard_every, 32, 8);
FIELD_IS(mmsb_runtime_options_t, guard_quarantine, 40, 8);
FIELD_IS(mmsb_runtime_options_t, refused, 48, 8);
FIELD_IS(mmsb_runtime_options_t, refused_user, 56, 8);
FIELD_IS(mmsb_runtime_options_t, refused_attempts, 64, 8);
FIELD_IS(mmsb_runtime_options_t, pool, 72, 8);
FIELD_IS(mmsb_runtime_options_t, memory_wait_ns, 80, 8);
FIELD_IS(mmsb_runtime_options_t, reserved, 88, 16);

SIZE_IS(mmsb_runtime_stats_t, 248);
FIELD_IS(mmsb_runtime_stats_t, struct_size, 0, 4);
FIELD_IS(mmsb_runtime_stats_t, streams, 4, 4);
FIELD_IS(mmsb_runtime_stats_t, outstanding, 8, 8);
FIELD_IS(mmsb_runtime_stats_t, live, 16, 8);
FIELD_IS(mmsb_runtime_stats_t, pending, 24, 8);
FIELD_IS(mmsb_runtime_stats_t, peak, 32, 8);
FIELD_IS(mmsb_runtime_stats_t, blocks, 40, 8);
FIELD_IS(mmsb_runtime_stats_t, allocations, 48, 8);
FIELD_IS(mmsb_runtime_stats_t, frees, 56, 8);
FIELD_IS(mmsb_runtime_stats_t, failures, 64, 8);
FIELD_IS(mmsb_runtime_stats_t, deferred_frees, 72, 8);
FIELD_IS(mmsb_runtime_stats_t, uses, 80, 8);
FIELD_IS(mmsb_runtime_stats_t, aborts, 88, 8);
FIELD_IS(mmsb_runtime_stats_t, waits, 96, 8);
FIELD_IS(mmsb_runtime_stats_t, waits_saved, 104, 8);
FIELD_IS(mmsb_runtime_stats_t, budget, 112, 8);
FIELD_IS(mmsb_runtime_stats_t, charged, 120, 8);
FIELD_IS(mmsb_runtime_stats_t, reserved_bytes, 128, 8);
FIELD_IS(mmsb_runtime_stats_t, charged_peak, 136, 8);
FIELD_IS(mmsb_runtime_stats_t, refusals, 144, 8);
FIELD_IS(mmsb_runtime_stats_t, reports, 152, 8);
FIELD_IS(mmsb_runtime_stats_t, pool_reserved, 160, 8);
FIELD_IS(mmsb_runtime_stats_t, pool_held, 168, 8);
FIELD_IS(mmsb_runtime_stats_t, pool_largest_free, 176, 8);
FIELD_IS(mmsb_runtime_stats_t, pool_moved, 184, 8);
FIELD_IS(mmsb_runtime_stats_t, pool_retries, 192, 8);
FIELD_IS(mmsb_runtime_stats_t, pool_misses, 200, 8);
FIELD_IS(mmsb_runtime_stats_t, sleeping, 208, 8);
FIELD_IS(mmsb_runtime_stats_t, sleeping_kept, 216, 8);
FIELD_IS(mmsb_runtime_stats_t, sleeping_copied, 224, 8);
FIELD_IS(mmsb_runtime_stats_t, refused_calls, 232, 8);
FIELD_IS(mmsb_runtime_stats_t, reserved, 240, 8);

SIZE_IS(mmsb_memory_stat_t, 16);
FIELD_IS(mmsb_memory_stat_t, name, 0, 8);
FIELD_IS(mmsb_memory_stat_t, value, 8, 8);

SIZE_IS(mmsb_tag_stats_t, 64);
FIELD_IS(mmsb_tag_stats_t, live, 0, 8);
FIELD_IS(mmsb_tag_stats_t, peak, 8, 8);
FIELD_IS(mmsb_tag_stats_t, total_bytes, 16, 8);
FIELD_IS(mmsb_tag_stats_t, blocks, 24, 8);
FIELD_IS(mmsb_tag_stats_t, total_blocks, 32, 8);
FIELD_IS(mmsb_tag_stats_t, failures, 40, 8);
FIELD_IS(mmsb_tag_stats_t, reserved, 48, 16);

SIZE_IS(mmsb_block_info_t, 72);
FIELD_IS(mmsb_block_info_t, struct_size, 0, 4);
FIELD_IS(mmsb_block_info_t, device, 4, 4);
FIELD_IS(mmsb_block_info_t, address, 8, 8);
FIELD_IS(mmsb_block_info_t, bytes, 16, 8);
FIELD_IS(mmsb_block_info_t, stream, 24, 8);
FIELD_IS(mmsb_block_info_t, tag, 32, 4);
FIELD_IS(mmsb_block_info_t, uses, 36, 4);
FIELD_IS(mmsb_block_info_t, asleep, 40, 8);
FIELD_IS(mmsb_block_info_t, reserved, 48, 24);

SIZE_IS(mmsb_sleep_options_t, 56);
FIELD_IS(mmsb_sleep_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_sleep_options_t, mode, 4, 4);
FIELD_IS(mmsb_sleep_options_t, folder, 8, 8);
FIELD_IS(mmsb_sleep_options_t, timeout_ns, 16, 8);
FIELD_IS(mmsb_sleep_options_t, reserved, 24, 32);

SIZE_IS(mmsb_access_t, 16);
FIELD_IS(mmsb_access_t, block, 0, 8);
FIELD_IS(mmsb_access_t, access, 8, 4);
FIELD_IS(mmsb_access_t, reserved, 12, 4);

SIZE_IS(mmsb_copy_t, 32);
FIELD_IS(mmsb_copy_t, to, 0, 8);
FIELD_IS(mmsb_copy_t, from, 8, 8);
FIELD_IS(mmsb_copy_t, bytes, 16, 8);
FIELD_IS(mmsb_copy_t, reserved, 24, 8);

SIZE_IS(mmsb_propagation_t, 48);
FIELD_IS(mmsb_propagation_t, to, 0, 8);
FIELD_IS(mmsb_propagation_t, from, 8, 8);
FIELD_IS(mmsb_propagation_t, mask, 16, 8);
FIELD_IS(mmsb_propagation_t, changed, 24, 8);
FIELD_IS(mmsb_propagation_t, bytes, 32, 8);
FIELD_IS(mmsb_propagation_t, reserved, 40, 8);

SIZE_IS(mmsb_tensor_options_t, 88);
FIELD_IS(mmsb_tensor_options_t, struct_size, 0, 4);
FIELD_IS(mmsb_tensor_options_t, versioned, 4, 4);
FIELD_IS(mmsb_tensor_options_t, read_only, 8, 4);
FIELD_IS(mmsb_tensor_options_t, ndim, 12, 4);
FIELD_IS(mmsb_tensor_options_t, code, 16, 4);
FIELD_IS(mmsb_tensor_options_t, bits, 20, 4);
FIELD_IS(mmsb_tensor_options_t, lanes, 24, 4);
FIELD_IS(mmsb_tensor_options_t, reserved_word, 28, 4);
FIELD_IS(mmsb_tensor_options_t, offset, 32, 8);
FIELD_IS(mmsb_tensor_options_t, shape, 40, 8);
FIELD_IS(mmsb_tensor_options_t, strides, 48, 8);
FIELD_IS(mmsb_tensor_options_t, reserved, 56, 32);

SIZE_IS(mmsb_tensor_info_t, 72);
FIELD_IS(mmsb_tensor_info_t, struct_size, 0, 4);
FIELD_IS(mmsb_tensor_info_t, device_type, 4, 4);
FIELD_IS(mmsb_tensor_info_t, device, 8, 4);
FIELD_IS(mmsb_tensor_info_t, read_only, 12, 4);
FIELD_IS(mmsb_tensor_info_t, copied, 16, 4);
FIELD_IS(mmsb_tensor_info_t, reserved_word, 20, 4);
FIELD_IS(mmsb_tensor_info_t, address, 24, 8);
FIELD_IS(mmsb_tensor_info_t, bytes, 32, 8);
FIELD_IS(mmsb_tensor_info_t, reserved, 40, 32);

/* Each public struct by its number. */
static const struct interface_struct {
    int32_t number;
    size_t size;
} interface_structs[] = {
    {MMSB_STRUCT_ERROR_DETAIL, sizeof(mmsb_error_detail_t)},
    {MMSB_STRUCT_CAPABILITY, sizeof(mmsb_capability_t)},
    {MMSB_STRUCT_CONTEXT_OPTIONS, sizeof(mmsb_context_options_t)},
    {MMSB_STRUCT_CONTEXT_STATS, sizeof(mmsb_context_stats_t)},
    {MMSB_STRUCT_GUARD_REPORT, sizeof(mmsb_guard_report_t)},
    {MMSB_STRUCT_MEMORY_USAGE, sizeof(mmsb_memory_usage_t)},
    {MMSB_STRUCT_WORK_OPTIONS, sizeof(mmsb_work_options_t)},
    {MMSB_STRUCT_PAGE_OPTIONS, sizeof(mmsb_page_options_t)},
    {MMSB_STRUCT_ADOPT_OPTIONS, sizeof(mmsb_adopt_options_t)},
    {MMSB_STRUCT_PAGE_INFO, sizeof(mmsb_page_info_t)},
    {MMSB_STRUCT_PAGE_RANGE, sizeof(mmsb_page_range_t)},
    {MMSB_STRUCT_PAGE_COPY, sizeof(mmsb_page_copy_t)},
    {MMSB_STRUCT_LOST_PAGE, sizeof(mmsb_lost_page_t)},
    {MMSB_STRUCT_SYNC_STATS, sizeof(mmsb_sync_stats_t)},
    {MMSB_STRUCT_PAGE_ADVICE, sizeof(mmsb_page_advice_t)},
    {MMSB_STRUCT_RUN, sizeof(mmsb_run_t)},
    {MMSB_STRUCT_DELTA, sizeof(mmsb_delta_t)},
    {MMSB_STRUCT_PAGE_RUNS, sizeof(mmsb_page_runs_t)},
    {MMSB_STRUCT_DIFFERENCE, sizeof(mmsb_difference_t)},
    {MMSB_STRUCT_COMMANDS_OPTIONS, sizeof(mmsb_commands_options_t)},
    {MMSB_STRUCT_COMMANDS_STATS, sizeof(mmsb_commands_stats_t)},
    {MMSB_STRUCT_COMMAND_FAILURE, sizeof(mmsb_command_failure_t)},
    {MMSB_STRUCT_SAVE_OPTIONS, sizeof(mmsb_save_options_t)},
    {MMSB_STRUCT_LOAD_OPTIONS, sizeof(mmsb_load_options_t)},
    {MMSB_STRUCT_SAVE_STATS, sizeof(mmsb_save_stats_t)},
    {MMSB_STRUCT_SNAPSHOT_INFO, sizeof(mmsb_snapshot_info_t)},
    {MMSB_STRUCT_SNAPSHOT_PAGE, sizeof(mmsb_snapshot_page_t)},
    {MMSB_STRUCT_DEPENDENCY, sizeof(mmsb_dependency_t)},
    {MMSB_STRUCT_SNAPSHOT_CHANGE, sizeof(mmsb_snapshot_change_t)},
    {MMSB_STRUCT_JOURNAL_OPTIONS, sizeof(mmsb_journal_options_t)},
    {MMSB_STRUCT_JOURNAL_INFO, sizeof(mmsb_journal_info_t)},
    {MMSB_STRUCT_JOURNAL_DIRECTORY, sizeof(mmsb_journal_directory_t)},
    {MMSB_STRUCT_JOURNAL_SEGMENT, sizeof(mmsb_journal_segment_t)},
    {MMSB_STRUCT_JOURNAL_RECORD, sizeof(mmsb_journal_record_t)},
    {MMSB_STRUCT_STORE_OPTIONS, sizeof(mmsb_store_options_t)},
    {MMSB_STRUCT_STORE_INFO, sizeof(mmsb_store_info_t)},
    {MMSB_STRUCT_STORE_POINT, sizeof(mmsb_store_point_t)},
    {MMSB_STRUCT_DEVICE_INFO, sizeof(mmsb_device_info_t)},
    {MMSB_STRUCT_DEVICE_MEMORY, sizeof(mmsb_device_memory_t)},
    {MMSB_STRUCT_LINK, sizeof(mmsb_link_t)},
    {MMSB_STRUCT_TELEMETRY, sizeof(mmsb_telemetry_t)},
    {MMSB_STRUCT_RUNTIME_OPTIONS, sizeof(mmsb_runtime_options_t)},
    {MMSB_STRUCT_RUNTIME_STATS, sizeof(mmsb_runtime_stats_t)},
    {MMSB_STRUCT_MEMORY_STAT, sizeof(mmsb_memory_stat_t)},
    {MMSB_STRUCT_TAG_STATS, sizeof(mmsb_tag_stats_t)},
    {MMSB_STRUCT_BLOCK_INFO, sizeof(mmsb_block_info_t)},
    {MMSB_STRUCT_SLEEP_OPTIONS, sizeof(mmsb_sleep_options_t)},
    {MMSB_STRUCT_ACCESS, sizeof(mmsb_access_t)},
    {MMSB_STRUCT_COPY, sizeof(mmsb_copy_t)},
    {MMSB_STRUCT_PROPAGATION, sizeof(mmsb_propagation_t)},
    {MMSB_STRUCT_TENSOR_OPTIONS, sizeof(mmsb_tensor_options_t)},
    {MMSB_STRUCT_TENSOR_INFO, sizeof(mmsb_tensor_info_t)},
};

/* Each status code. */
static const struct interface_code {
    mmsb_status_t code;
    const char *name;
} interface_codes[] = {
    {MMSB_OK, "MMSB_OK"},
    {MMSB_E_INVALID_ARGUMENT, "MMSB_E_INVALID_ARGUMENT"},
    {MMSB_E_INVALID_HANDLE, "MMSB_E_INVALID_HANDLE"},
    {MMSB_E_STALE_HANDLE, "MMSB_E_STALE_HANDLE"},
    {MMSB_E_INVALID_SIZE, "MMSB_E_INVALID_SIZE"},
    {MMSB_E_OUT_OF_RANGE, "MMSB_E_OUT_OF_RANGE"},
    {MMSB_E_INVALID_STATE, "MMSB_E_INVALID_STATE"},
    {MMSB_E_STRUCT_VERSION, "MMSB_E_STRUCT_VERSION"},
    {MMSB_E_MISMATCH, "MMSB_E_MISMATCH"},
    {MMSB_E_EPOCH, "MMSB_E_EPOCH"},
    {MMSB_E_NOT_FOUND, "MMSB_E_NOT_FOUND"},
    {MMSB_E_ALREADY_EXISTS, "MMSB_E_ALREADY_EXISTS"},
    {MMSB_E_BUSY, "MMSB_E_BUSY"},
    {MMSB_E_WOULD_BLOCK, "MMSB_E_WOULD_BLOCK"},
    {MMSB_E_TIMEOUT, "MMSB_E_TIMEOUT"},
    {MMSB_E_CANCELLED, "MMSB_E_CANCELLED"},
    {MMSB_E_OUT_OF_MEMORY, "MMSB_E_OUT_OF_MEMORY"},
    {MMSB_E_LIMIT, "MMSB_E_LIMIT"},
    {MMSB_E_NO_SPACE, "MMSB_E_NO_SPACE"},
    {MMSB_E_NOT_DURABLE, "MMSB_E_NOT_DURABLE"},
    {MMSB_E_UNSUPPORTED, "MMSB_E_UNSUPPORTED"},
    {MMSB_E_NO_DEVICE, "MMSB_E_NO_DEVICE"},
    {MMSB_E_DEVICE, "MMSB_E_DEVICE"},
    {MMSB_E_DEVICE_LOST, "MMSB_E_DEVICE_LOST"},
    {MMSB_E_FORKED, "MMSB_E_FORKED"},
    {MMSB_E_IO, "MMSB_E_IO"},
    {MMSB_E_CORRUPT, "MMSB_E_CORRUPT"},
    {MMSB_E_FORMAT, "MMSB_E_FORMAT"},
    {MMSB_E_GUARD, "MMSB_E_GUARD"},
    {MMSB_E_PEER, "MMSB_E_PEER"},
    {MMSB_E_INTERNAL, "MMSB_E_INTERNAL"},
    {MMSB_E_POISONED, "MMSB_E_POISONED"},
};

/* Each function that returns a status. */
static const char *const interface_calls[] = {
    "mmsb_last_error_code",
    "mmsb_last_error_copy",
    "mmsb_last_error_detail",
    "mmsb_capabilities",
    "mmsb_log_configure",
    "mmsb_log_read",
    "mmsb_debug_live_objects",
    "mmsb_shutdown",
    "mmsb_context_options_parse",
    "mmsb_context_create",
    "mmsb_context_destroy",
    "mmsb_context_stats",
    "mmsb_context_page_count",
    "mmsb_context_pages",
    "mmsb_context_trim",
    "mmsb_guard_check",
    "mmsb_memory_usage",
    "mmsb_ticket_poll",
    "mmsb_ticket_wait",
    "mmsb_ticket_cancel",
    "mmsb_ticket_progress",
    "mmsb_ticket_status",
    "mmsb_ticket_eventfd",
    "mmsb_ticket_destroy",
    "mmsb_page_create",
    "mmsb_page_create_with_address",
    "mmsb_page_create_many",
    "mmsb_page_create_many_start",
    "mmsb_page_clone",
    "mmsb_page_clone_many",
    "mmsb_page_adopt",
    "mmsb_page_adopt_many",
    "mmsb_page_destroy",
    "mmsb_page_destroy_many",
    "mmsb_page_release",
    "mmsb_memory_free",
    "mmsb_page_lookup",
    "mmsb_page_lookup_many",
    "mmsb_page_info",
    "mmsb_page_info_many",
    "mmsb_page_address_many",
    "mmsb_page_pin",
    "mmsb_page_unpin",
    "mmsb_page_pin_many",
    "mmsb_page_unpin_many",
    "mmsb_writing_begin",
    "mmsb_writing_end",
    "mmsb_writing_check",
    "mmsb_page_read",
    "mmsb_page_write",
    "mmsb_page_read_many",
    "mmsb_page_write_many",
    "mmsb_page_resize",
    "mmsb_page_resize_many",
    "mmsb_page_migrate",
    "mmsb_page_migrate_many",
    "mmsb_page_migrate_many_start",
    "mmsb_page_sync",
    "mmsb_page_sync_many",
    "mmsb_page_sync_many_start",
    "mmsb_page_sync_enqueue",
    "mmsb_context_sync_drain",
    "mmsb_context_prefetch",
    "mmsb_context_prefetch_start",
    "mmsb_page_copies",
    "mmsb_context_device_pages",
    "mmsb_page_replicate",
    "mmsb_page_replica_drop",
    "mmsb_context_lost_pages",
    "mmsb_page_host_copy_drop",
    "mmsb_page_host_copy_pin",
    "mmsb_page_host_copy_unpin",
    "mmsb_context_sync_stats",
    "mmsb_page_advise",
    "mmsb_page_advice",
    "mmsb_prefetch_distance",
    "mmsb_delta_validate",
    "mmsb_page_apply",
    "mmsb_page_apply_many",
    "mmsb_page_apply_runs",
    "mmsb_delta_merge",
    "mmsb_delta_from_pages",
    "mmsb_delta_convert",
    "mmsb_delta_free",
    "mmsb_page_compare",
    "mmsb_page_differences",
    "mmsb_page_checksum",
    "mmsb_page_propagate",
    "mmsb_page_mask_read",
    "mmsb_page_mask_clear",
    "mmsb_page_mask_count",
    "mmsb_page_metadata_set",
    "mmsb_page_metadata_get",
    "mmsb_page_metadata_remove",
    "mmsb_page_metadata_keys",
    "mmsb_page_metadata_export",
    "mmsb_page_metadata_import",
    "mmsb_page_dependency_add",
    "mmsb_page_dependency_remove",
    "mmsb_page_parents",
    "mmsb_page_children",
    "mmsb_context_dependency_order",
    "mmsb_group_begin",
    "mmsb_group_begin_within",
    "mmsb_group_commit",
    "mmsb_group_rollback",
    "mmsb_commands_create",
    "mmsb_commands_destroy",
    "mmsb_commands_enqueue",
    "mmsb_commands_wait",
    "mmsb_commands_drain",
    "mmsb_commands_close",
    "mmsb_commands_stats",
    "mmsb_commands_failures",
    "mmsb_snapshot_save",
    "mmsb_snapshot_save_start",
    "mmsb_snapshot_save_descriptor",
    "mmsb_snapshot_save_descriptor_start",
    "mmsb_snapshot_save_memory",
    "mmsb_snapshot_save_memory_start",
    "mmsb_snapshot_free_memory",
    "mmsb_snapshot_load",
    "mmsb_snapshot_load_start",
    "mmsb_snapshot_load_descriptor",
    "mmsb_snapshot_load_descriptor_start",
    "mmsb_snapshot_load_memory",
    "mmsb_snapshot_load_memory_start",
    "mmsb_context_save_stats",
    "mmsb_snapshot_open",
    "mmsb_snapshot_close",
    "mmsb_snapshot_info",
    "mmsb_snapshot_pages",
    "mmsb_snapshot_find",
    "mmsb_snapshot_read",
    "mmsb_snapshot_view",
    "mmsb_snapshot_metadata",
    "mmsb_snapshot_dependencies",
    "mmsb_snapshot_mask_read",
    "mmsb_snapshot_verify",
    "mmsb_snapshot_verify_start",
    "mmsb_snapshot_diff",
    "mmsb_snapshot_diff_start",
    "mmsb_snapshot_compact",
    "mmsb_snapshot_compact_start",
    "mmsb_journal_open",
    "mmsb_journal_open_start",
    "mmsb_journal_sync",
    "mmsb_journal_sync_start",
    "mmsb_journal_close",
    "mmsb_journal_trim",
    "mmsb_journal_trim_start",
    "mmsb_journal_info",
    "mmsb_journal_directory",
    "mmsb_journal_segments",
    "mmsb_journal_records",
    "mmsb_store_open",
    "mmsb_store_open_start",
    "mmsb_store_save",
    "mmsb_store_save_start",
    "mmsb_store_name",
    "mmsb_store_name_start",
    "mmsb_store_unname",
    "mmsb_store_info",
    "mmsb_store_wait",
    "mmsb_store_wait_start",
    "mmsb_store_points",
    "mmsb_device_list",
    "mmsb_device_budget",
    "mmsb_device_memory",
    "mmsb_telemetry_list",
    "mmsb_telemetry_paths",
    "mmsb_runtime_shared",
    "mmsb_runtime_create",
    "mmsb_runtime_destroy",
    "mmsb_runtime_stats",
    "mmsb_runtime_device",
    "mmsb_runtime_reap",
    "mmsb_runtime_trim",
    "mmsb_runtime_log_write",
    "mmsb_runtime_snapshot_write",
    "mmsb_runtime_memory_stats",
    "mmsb_tag_of",
    "mmsb_runtime_tag_stats",
    "mmsb_reservation_create",
    "mmsb_reservation_destroy",
    "mmsb_stream_create",
    "mmsb_stream_wrap",
    "mmsb_stream_destroy",
    "mmsb_stream_native",
    "mmsb_stream_device",
    "mmsb_stream_wait",
    "mmsb_stream_copy",
    "mmsb_stream_fill",
    "mmsb_stream_record",
    "mmsb_stream_after",
    "mmsb_stream_after_native",
    "mmsb_block_allocate",
    "mmsb_block_free",
    "mmsb_block_info",
    "mmsb_block_at",
    "mmsb_page_block",
    "mmsb_pool_partition",
    "mmsb_pool_sleep",
    "mmsb_pool_wake",
    "mmsb_capture_begin",
    "mmsb_capture_resume",
    "mmsb_capture_end",
    "mmsb_capture_destroy",
    "mmsb_use_begin",
    "mmsb_use_address",
    "mmsb_use_end",
    "mmsb_use_abort",
    "mmsb_use_record",
    "mmsb_use_add",
    "mmsb_use_begin_recorded",
    "mmsb_stream_copy_many",
    "mmsb_stream_compare",
    "mmsb_stream_difference",
    "mmsb_stream_differences",
    "mmsb_stream_checksum",
    "mmsb_stream_merge",
    "mmsb_stream_scatter",
    "mmsb_stream_propagate",
    "mmsb_plugin_allocate",
    "mmsb_plugin_free",
    "mmsb_plugin_record",
    "mmsb_plugin_bind",
    "mmsb_page_export_tensor",
    "mmsb_block_export_tensor",
    "mmsb_tensor_info",
    "mmsb_page_adopt_tensor",
    "mmsb_tensor_to_arrow",
    "mmsb_tensor_from_arrow",
};

#endif
