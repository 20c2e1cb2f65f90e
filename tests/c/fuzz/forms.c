/* The batches, the started work and the readers, in a context of their own, which the model does not have: it ends with the call.
 */
#include "fuzz.h"

#include <fcntl.h>

enum { MANY = 5 };

static void ended_well(mmsb_ticket_t ticket) {
    CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
    CALL(mmsb_ticket_destroy(ticket), MMSB_OK);
}

static void make_many(mmsb_context_t context, uint64_t *sizes, mmsb_page_t *made) {
    uint64_t ids[MANY];
    for (size_t i = 0; i < MANY; i++) {
        sizes[i] = 1 + below(chance(20) ? 300000 : 5000);
        ids[i] = chance(50) ? i + 1 : 0;
    }
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.sizes = sizes;
    options.ids = ids;
    CALL(mmsb_page_create(context, 64, &options, made), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_create_many(context, 1, MANY, &options, NULL, made), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_create_many(context, 0, MANY, &options, NULL, made), MMSB_OK);
    for (size_t i = 0; i < MANY; i++) {
        SAME(mmsb_page_size(made[i]), sizes[i]);
        SAME(mmsb_page_location(made[i]), MMSB_LOCATION_CPU);
        SAME(ids[i] == 0 || mmsb_page_id(made[i]) == ids[i], 1);
    }
}

static void batches(mmsb_context_t context, const mmsb_page_t *made, uint64_t *sizes) {
    mmsb_page_t others[MANY] = {0}, bad_pages[MANY];
    void *addresses[MANY], *memories[2] = {NULL, addresses};
    size_t bad = UNTOUCHED, place = below(MANY);
    memcpy(bad_pages, made, sizeof bad_pages);
    bad_pages[place] = 0;
    CALL(mmsb_page_pin_many(bad_pages, MANY, MMSB_PIN_READ, addresses, &bad), MMSB_E_INVALID_HANDLE);
    SAME(bad, place);
    CALL(mmsb_page_pin_many(made, MANY, MMSB_PIN_READ, addresses, NULL), MMSB_OK);
    CALL(mmsb_page_resize_many(made, sizes, MANY, &bad), MMSB_E_BUSY);
    SAME(bad, 0);
    CALL(mmsb_page_unpin_many(made, MANY, MMSB_PIN_WRITE, NULL), MMSB_E_INVALID_STATE);
    CALL(mmsb_page_unpin_many(made, MANY, MMSB_PIN_READ, NULL), MMSB_OK);
    CALL(mmsb_page_clone_many(bad_pages, NULL, MANY, others, &bad), MMSB_E_INVALID_HANDLE);
    SAME(bad, place);
    CALL(mmsb_page_clone_many(made, NULL, MANY, others, NULL), MMSB_OK);
    for (size_t i = 0; i < MANY; i++) {
        sizes[i] = 1 + below(10000);
    }
    CALL(mmsb_page_resize_many(bad_pages, sizes, MANY, &bad), MMSB_E_INVALID_HANDLE);
    SAME(bad, place);
    CALL(mmsb_page_resize_many(others, sizes, MANY, NULL), MMSB_OK);
    for (size_t i = 0; i < MANY; i++) {
        SAME(mmsb_page_size(others[i]), sizes[i]);
    }
    CALL(mmsb_page_adopt_many(context, memories, sizes, NULL, 2, NULL, others, &bad), MMSB_E_INVALID_ARGUMENT);
    SAME(bad, 0);
    CALL(mmsb_page_adopt_many(context, memories + 1, sizes, NULL, 0, NULL, others, NULL), MMSB_OK);
    CALL(mmsb_page_migrate_many(made, MANY, MMSB_LOCATION_DISK, 0, NULL, NULL, NULL), MMSB_OK);
    SAME(mmsb_page_location(made[place]), MMSB_LOCATION_DISK);
}

/* A state goes through a descriptor and through memory, as work. */
static void started(mmsb_context_t context, const char *path, const char *compacted) {
    mmsb_ticket_t ticket = 0;
    mmsb_context_t other = 0;
    void *memory = NULL;
    uint64_t length = 0, pages_there = 0, pages_here = 0;
    CALL(mmsb_context_page_count(context, &pages_there), MMSB_OK);
    CALL(mmsb_context_create(NULL, &other), MMSB_OK);
    CALL(mmsb_snapshot_save(context, path, NULL), MMSB_OK);
    CALL(mmsb_snapshot_verify_start(path, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_snapshot_compact_start(path, compacted, NULL, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_snapshot_save_memory_start(context, NULL, NULL, &memory, &length, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_snapshot_load_memory_start(other, memory, length, NULL, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_snapshot_free_memory(memory), MMSB_OK);
    int file = open(path, O_RDWR | O_TRUNC);
    REQUIRE(file >= 0);
    CALL(mmsb_snapshot_save_descriptor_start(other, file, NULL, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    REQUIRE(lseek(file, 0, SEEK_SET) == 0);
    CALL(mmsb_snapshot_load_descriptor_start(other, file, NULL, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    close(file);
    CALL(mmsb_context_page_count(other, &pages_here), MMSB_OK);
    SAME(pages_here, pages_there);
    CALL(mmsb_context_destroy(other), MMSB_OK);
}

static void readers(const char *path, uint64_t id) {
    mmsb_snapshot_t snapshot = 0;
    mmsb_dependency_t dependency;
    mmsb_snapshot_change_t change;
    mmsb_ticket_t ticket = 0;
    size_t count = 0;
    uint8_t bits = 0xFF;
    CALL(mmsb_snapshot_open(path, &snapshot), MMSB_OK);
    CALL(mmsb_snapshot_dependencies(snapshot, &dependency, 1, &count), MMSB_OK);
    SAME(count, 0);
    CALL(mmsb_snapshot_mask_read(snapshot, id, 0, &bits, 1), MMSB_OK);
    SAME(bits, 0);
    CALL(mmsb_snapshot_mask_read(snapshot, id, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_diff_start(snapshot, snapshot, NULL, &change, 1, &count, &ticket), MMSB_OK);
    ended_well(ticket);
    SAME(count, 0);
    CALL(mmsb_snapshot_close(snapshot), MMSB_OK);
}

static void journalled(mmsb_context_t context, const char *directory, const char *path) {
    mmsb_ticket_t ticket = 0;
    mmsb_page_t page = 0;
    mmsb_journal_directory_t journal;
    mmsb_journal_directory_init(&journal);
    mmsb_journal_segment_t segments[8];
    mmsb_journal_record_t record;
    uint64_t next = 0;
    size_t count = 0;
    remove_files(directory);
    CALL(mmsb_journal_open_start(context, directory, NULL, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_page_create(context, 64, NULL, &page), MMSB_OK);
    CALL(mmsb_journal_sync_start(context, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_journal_directory(directory, &journal), MMSB_OK);
    CALL(mmsb_journal_segments(directory, segments, 8, &count), MMSB_OK);
    SAME(count, journal.segments);
    CALL(mmsb_journal_records(directory, &next, &record, 1, &count), MMSB_OK);
    SAME(count == 1 && record.kind == MMSB_RECORD_CREATE && record.page == mmsb_page_id(page), 1);
    CALL(mmsb_journal_records(directory, &next, &record, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_save(context, path, NULL), MMSB_OK);
    CALL(mmsb_journal_trim_start(context, path, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
}

static void stored(const char *directory) {
    mmsb_store_options_t options;
    mmsb_store_options_init(&options);
    mmsb_context_t context = 0, reader = 0;
    mmsb_ticket_t ticket = 0;
    mmsb_page_t page = 0;
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    mmsb_store_point_t points[2];
    size_t count = 0;
    remove_files(directory);
    CALL(mmsb_store_open_start(directory, NULL, &options, NULL, &context, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_store_open(directory, NULL, NULL, &reader), MMSB_E_BUSY);
    CALL(mmsb_page_create(context, 64, NULL, &page), MMSB_OK);
    CALL(mmsb_store_name_start(context, "forms", NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_store_save_start(context, 1, NULL, &ticket), MMSB_OK);
    ended_well(ticket);
    CALL(mmsb_store_info(context, &info), MMSB_OK);
    SAME(info.saves, 2);
    CALL(mmsb_store_points(directory, points, 2, &count), MMSB_OK);
    SAME(count == 2 && strcmp(points[1].name, "forms") == 0, 1);
    options.mode = MMSB_STORE_READ;
    options.at_name = "forms";
    CALL(mmsb_store_open(directory, NULL, &options, &reader), MMSB_OK);
    CALL(mmsb_page_create(reader, 64, NULL, &page), MMSB_E_INVALID_STATE);
    CALL(mmsb_context_destroy(reader), MMSB_OK);
    CALL(mmsb_store_name(context, "forms", NULL), MMSB_OK);
    CALL(mmsb_store_unname(context, "forms", NULL), MMSB_OK);
    CALL(mmsb_store_unname(context, "forms", NULL), MMSB_E_NOT_FOUND);
    CALL(mmsb_store_save(context, 0, NULL), MMSB_OK);
    CALL(mmsb_context_destroy(context), MMSB_OK);
    CALL(mmsb_store_info(context, &info), MMSB_E_STALE_HANDLE);
}

void fuzz_forms(void) {
    mmsb_context_t context = 0;
    mmsb_page_t made[MANY];
    uint64_t sizes[MANY];
    size_t count = 0;
    char path[300], compacted[300], directory[300], other[300];
    snprintf(path, sizeof path, "%s", file_of(90, "forms"));
    snprintf(compacted, sizeof compacted, "%s", file_of(91, "forms"));
    snprintf(directory, sizeof directory, "%s", file_of(92, "forms"));
    snprintf(other, sizeof other, "%s", file_of(93, "forms"));
    CALL(mmsb_context_create(NULL, &context), MMSB_OK);
    make_many(context, sizes, made);
    batches(context, made, sizes);
    started(context, path, compacted);
    readers(compacted, mmsb_page_id(made[0]));
    journalled(context, directory, path);
    stored(other);
    CALL_EITHER(mmsb_telemetry_list(NULL, 0, &count), MMSB_E_UNSUPPORTED, MMSB_OK);
    CALL_EITHER(mmsb_telemetry_paths(NULL, 0, &count), MMSB_E_UNSUPPORTED, MMSB_OK);
    CALL(mmsb_context_destroy(context), MMSB_OK);
    unlink(path);
    unlink(compacted);
    remove_files(directory);
    rmdir(directory);
    remove_files(other);
    rmdir(other);
}
