/* What can be read without a context: dependencies and masks of an open snapshot, a journal's directory; and what NVIDIA's
 * management library tells, where there is one. */
#include "folder.h"

static void dependencies_of_a_snapshot(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[4];
    const uint64_t ids[] = {1, 2, 3, 4};
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.ids = ids;
    REQUIRE_OK(mmsb_page_create_many(context, 64, 4, &options, NULL, pages));
    REQUIRE_OK(mmsb_page_dependency_add(pages[0], pages[1]));
    REQUIRE_OK(mmsb_page_dependency_add(pages[0], pages[2]));
    REQUIRE_OK(mmsb_page_dependency_add(pages[2], pages[3]));
    REQUIRE_OK(mmsb_snapshot_save(context, at("file"), NULL));
    mmsb_snapshot_t snapshot;
    REQUIRE_OK(mmsb_snapshot_open(at("file"), &snapshot));
    mmsb_dependency_t found[8];
    size_t count = 0;
    CHECK_OK(mmsb_snapshot_dependencies(snapshot, NULL, 0, &count));
    CHECK_EQUAL(count, 3);
    CHECK_STATUS(mmsb_snapshot_dependencies(snapshot, found, 2, &count), MMSB_E_OUT_OF_RANGE);
    CHECK_OK(mmsb_snapshot_dependencies(snapshot, found, 8, &count));
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += found[i].parent * 10 + found[i].child;
    }
    CHECK_EQUAL(sum, 12 + 13 + 34);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    CHECK_OK(mmsb_context_destroy(context));
}

static void masks_of_a_snapshot(void) {
    enum { SIZE = 1003 };
    mmsb_context_t context = new_context();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 5;
    mmsb_page_t page, plain = new_page(context, SIZE);
    REQUIRE_OK(mmsb_page_create(context, SIZE, &options, &page));
    const uint64_t offsets[] = {0, 3, 9, 500, 501, 1002};
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_INDEXED;
    delta.offsets = offsets;
    delta.count = 6;
    delta.payload = "abcdef";
    REQUIRE_OK(mmsb_page_apply(page, &delta));
    REQUIRE_OK(mmsb_snapshot_save(context, at("file"), NULL));
    mmsb_snapshot_t snapshot;
    REQUIRE_OK(mmsb_snapshot_open(at("file"), &snapshot));
    static const uint64_t ranges[][2] = {{0, SIZE}, {0, 1}, {3, 1}, {1, 9}, {7, 600}, {499, 504}, {8, 16}, {SIZE, 0}, {1002, 1}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        uint8_t of_page[200], of_file[200];
        memset(of_page, 0xAA, sizeof of_page);
        memset(of_file, 0xAA, sizeof of_file);
        CHECK_OK(mmsb_page_mask_read(page, ranges[i][0], of_page, ranges[i][1]));
        CHECK_OK(mmsb_snapshot_mask_read(snapshot, 5, ranges[i][0], of_file, ranges[i][1]));
        CHECK(memcmp(of_page, of_file, sizeof of_page) == 0);
    }
    uint8_t bits[200];
    CHECK_OK(mmsb_snapshot_mask_read(snapshot, mmsb_page_id(plain), 0, bits, SIZE));
    for (size_t i = 0; i < (SIZE + 7) / 8; i++) {
        CHECK_EQUAL(bits[i], 0);
    }
    CHECK_STATUS(mmsb_snapshot_mask_read(snapshot, 5, 1000, bits, 4), MMSB_E_OUT_OF_RANGE);
    CHECK_STATUS(mmsb_snapshot_mask_read(snapshot, 5, UINT64_MAX, bits, 1), MMSB_E_OUT_OF_RANGE);
    CHECK_STATUS(mmsb_snapshot_mask_read(snapshot, 6, 0, bits, 1), MMSB_E_NOT_FOUND);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_journal_is_listed(void) {
    mmsb_context_t context = new_context();
    mmsb_journal_directory_t journal;
    mmsb_journal_directory_init(&journal);
    CHECK_STATUS(mmsb_journal_directory(at("journal"), &journal), MMSB_E_NOT_FOUND);
    REQUIRE_OK(mmsb_journal_open(context, at("journal"), NULL));
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 7;
    mmsb_page_t page, clone;
    REQUIRE_OK(mmsb_page_create(context, 100, &options, &page));
    REQUIRE_OK(mmsb_page_write(page, 10, "hello", 5));
    const mmsb_run_t run = {3, 2};
    mmsb_delta_t delta = one_run(&run, "xy");
    delta.source = "somebody";
    delta.intent = "to see how a text that is longer than the record has space for it is cut at its sixty-third byte";
    REQUIRE_OK(mmsb_page_apply(page, &delta));
    REQUIRE_OK(mmsb_page_metadata_set(page, "key", 3, "value", 5));
    REQUIRE_OK(mmsb_page_clone(page, 8, &clone));
    REQUIRE_OK(mmsb_page_dependency_add(page, clone));
    REQUIRE_OK(mmsb_page_resize(page, 5000));
    REQUIRE_OK(mmsb_journal_sync(context, NULL));
    CHECK_OK(mmsb_journal_directory(at("journal"), &journal));
    CHECK_EQUAL(journal.closed, 0);
    REQUIRE_OK(mmsb_journal_close(context));
    CHECK_OK(mmsb_journal_directory(at("journal"), &journal));
    CHECK(journal.closed == 1 && journal.segments == 1 && journal.first == 1 && journal.last == 7 && journal.branches == 1);
    CHECK(journal.first_time_ns > 0 && journal.last_time_ns >= journal.first_time_ns && journal.torn_bytes == 0);

    mmsb_journal_segment_t segments[4];
    size_t count = 0;
    CHECK_OK(mmsb_journal_segments(at("journal"), segments, 4, &count));
    CHECK(count == 1 && segments[0].first == 1 && segments[0].last == 7 && segments[0].bytes > 0 && segments[0].based == 0);
    char name[400];
    snprintf(name, sizeof name, "%s/%s", at("journal"), segments[0].name);
    CHECK(access(name, F_OK) == 0);

    static const int32_t kinds[] = {MMSB_RECORD_CREATE, MMSB_RECORD_WRITE,          MMSB_RECORD_RUN,   MMSB_RECORD_METADATA_SET,
                                    MMSB_RECORD_CLONE,  MMSB_RECORD_DEPENDENCY_ADD, MMSB_RECORD_RESIZE};
    mmsb_journal_record_t records[7];
    uint64_t next = 0;
    size_t all = 0;
    for (;;) { /* three at a time */
        mmsb_journal_record_t some[3];
        CHECK_OK(mmsb_journal_records(at("journal"), &next, some, 3, &count));
        if (count == 0) {
            break;
        }
        for (size_t i = 0; i < count && all < 7; i++) {
            records[all++] = some[i];
        }
        CHECK_EQUAL(next, all + 1);
    }
    CHECK_EQUAL(all, 7);
    for (size_t i = 0; i < all; i++) {
        CHECK_EQUAL(records[i].record, i + 1);
        CHECK_EQUAL(records[i].group, i + 1);
        CHECK_EQUAL(records[i].kind, kinds[i]);
        CHECK_EQUAL(records[i].page, i == 4 ? 8 : 7);
    }
    CHECK(records[0].size == 100 && records[0].location == MMSB_LOCATION_CPU);
    CHECK(records[1].offset == 10 && records[1].bytes == 5);
    CHECK(records[2].offset == 3 && records[2].bytes == 2 && records[2].epoch == 1);
    CHECK(strcmp(records[2].source, "somebody") == 0 && strlen(records[2].intent) == 63);
    CHECK(strcmp(records[3].key, "key") == 0 && records[3].bytes == 5);
    CHECK(records[4].other == 7 && records[5].other == 8 && records[6].size == 5000);
    next = 6;
    CHECK_OK(mmsb_journal_records(at("journal"), &next, records, 7, &count));
    CHECK(count == 2 && records[0].record == 6 && next == 8);
    CHECK_STATUS(mmsb_journal_records(at("journal"), &next, records, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_journal_records(at("none"), &next, records, 1, &count), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_journal_segments("", segments, 1, &count), MMSB_E_INVALID_ARGUMENT);
    journal.reserved[3] = 1;
    CHECK_STATUS(mmsb_journal_directory(at("journal"), &journal), MMSB_E_STRUCT_VERSION);
    CHECK_OK(mmsb_context_destroy(context));
}

/* Without NVIDIA's library the text says what was looked for; with it the two lists fit each other. */
static void telemetry_is_a_list_or_says_why_not(void) {
    size_t count = 99, paths = 99;
    mmsb_status_t status = mmsb_telemetry_list(NULL, 0, &count);
    if (status != MMSB_OK) {
        CHECK_STATUS(status, MMSB_E_UNSUPPORTED);
        CHECK(strstr(mmsb_last_error(), "libnvidia-ml") != NULL);
        CHECK_STATUS(mmsb_telemetry_paths(NULL, 0, &paths), MMSB_E_UNSUPPORTED);
        return;
    }
    CHECK_OK(mmsb_telemetry_paths(NULL, 0, &paths));
    CHECK_EQUAL(paths, count * count);
}

int main(void) {
    folder_make();
    RUN_IN_FOLDER(dependencies_of_a_snapshot);
    RUN_IN_FOLDER(masks_of_a_snapshot);
    RUN_IN_FOLDER(a_journal_is_listed);
    RUN(telemetry_is_a_list_or_says_why_not);
    folder_end();
    return check_report();
}
