/* The guard of host pages: writes past a page's ends and into memory that a page has left are told by the context's next call. */
#include "library.h"

#include "folder.h"

enum { CANARY = 0xc5, FRESH = 0xaa, POISON = 0xdd };

static mmsb_context_t guarded_context(uint64_t every, uint64_t quarantine) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.guard_every = every;
    options.guard_quarantine = quarantine;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    return context;
}

/* What a program can do to a page's neighbour, or to a page that it has no more. */
static volatile uint8_t *bytes_of(mmsb_page_t page) {
    volatile uint8_t *bytes = mmsb_page_address(page);
    REQUIRE(bytes != NULL);
    return bytes;
}

/* Destroys a page that was overrun by one byte: its id is in the report that waits. */
static uint64_t leave_report(mmsb_context_t context) {
    mmsb_page_t page = new_page(context, 100);
    const uint64_t id = mmsb_page_id(page);
    bytes_of(page)[100] = 'x';
    CHECK_OK(mmsb_page_destroy(page));
    return id;
}

/* The last error is the report of a page. */
static int tells(uint64_t id, const char *what) {
    char page[64];
    snprintf(page, sizeof page, "page %llu of ", (unsigned long long)id);
    if (mmsb_last_error_code() == MMSB_E_GUARD && strncmp(mmsb_last_error(), page, strlen(page)) == 0 &&
        strstr(mmsb_last_error(), what)) {
        return 1;
    }
    check_fail(__FILE__, __LINE__, "expected %s... %s, the last error is \"%s\"", page, what, mmsb_last_error());
    return 0;
}

static mmsb_guard_report_t check_guard(mmsb_context_t context, uint64_t reports) {
    mmsb_guard_report_t report;
    mmsb_guard_report_init(&report);
    uint64_t count = UINT64_MAX;
    CHECK_OK(mmsb_guard_check(context, &report, &count));
    CHECK_EQUAL(count, reports);
    return report;
}

static void check_report_is(mmsb_guard_report_t report, int32_t side, uint64_t id, uint64_t size, int64_t offset, uint64_t bytes,
                            uint8_t expected, uint8_t found) {
    CHECK_EQUAL(report.side, side);
    CHECK_EQUAL(report.page_id, id);
    CHECK_EQUAL(report.size, size);
    CHECK_EQUAL(report.offset, offset);
    CHECK_EQUAL(report.bytes, bytes);
    CHECK_EQUAL(report.expected, expected);
    CHECK_EQUAL(report.found, found);
}

static void without_a_guard_nothing_is_told(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
#if !defined(__SANITIZE_ADDRESS__) /* which sees this write */
    bytes_of(page)[100] = 'x';
#endif
    CHECK_OK(mmsb_page_destroy(page));
    new_page(context, 100);
    CHECK_EQUAL(context_stats(context).guard_reports, 0);
    CHECK_EQUAL(context_stats(context).guard_bytes, 0);
    uint64_t count;
    CHECK_STATUS(mmsb_guard_check(context, NULL, &count), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_context_destroy(context));
}

static void options_are_checked(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    CHECK_EQUAL(options.guard_every, 0);
    CHECK_EQUAL(options.guard_quarantine, 0);
    CHECK_OK(mmsb_context_options_parse(&options, "guard_every=100 guard_quarantine=64M"));
    CHECK_EQUAL(options.guard_every, 100);
    CHECK_EQUAL(options.guard_quarantine, 64 << 20);
    CHECK_STATUS(mmsb_context_options_parse(&options, "guard_every=often"), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(options.guard_every, 100);
    options.guard_every = 0;
    mmsb_context_t context;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
}

static void guarded_pages_are_as_others(void) {
    static const uint64_t sizes[] = {1, 63, 64, 100, 255, 256, 1000, 3584, 4000, 4095, 4096, 5000, 65536, 1 << 20, 3 << 20};
    mmsb_context_t context = guarded_context(1, 1 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const uint64_t size = sizes[i];
        mmsb_page_t page = new_page(context, size);
        const uintptr_t alignment = size >= 4096 ? 4096 : size >= 256 ? 256 : 64;
        CHECK_EQUAL((uintptr_t)mmsb_page_address(page) % alignment, 0);
        for (uint64_t at = 0; at < size; at++) {
            REQUIRE(bytes_of(page)[at] == 0);
        }
        write_pattern(page, 1);
        CHECK_OK(mmsb_page_resize(page, size * 2));
        CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0));
        CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
        CHECK(page_holds_pattern(page, 1, size));
        mmsb_page_t clone;
        CHECK_OK(mmsb_page_clone(page, 0, &clone));
        CHECK(page_holds_pattern(clone, 1, size));
        void *memory;
        uint64_t released;
        CHECK_OK(mmsb_page_release(clone, &memory, &released));
        CHECK_EQUAL(released, size * 2);
        CHECK_EQUAL(*(uint8_t *)memory, pattern_byte(1, 0));
        CHECK_OK(mmsb_memory_free(memory));
        CHECK_OK(mmsb_page_destroy(page));
    }
    CHECK_EQUAL(context_stats(context).guard_reports, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_write_past_an_end_is_told(void) {
    static const uint64_t sizes[] = {1, 64, 100, 255, 256, 1000, 4000, 4096, 5000, 65536, (1 << 20) + 1, 3 << 20};
    mmsb_context_t context = guarded_context(1, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mmsb_page_t page = new_page(context, sizes[i]), kept = new_page(context, sizes[i]);
        const uint64_t id = mmsb_page_id(page);
        bytes_of(page)[sizes[i]] = 'x';
        CHECK_OK(mmsb_page_destroy(page));
        CHECK_STATUS(mmsb_page_create(context, sizes[i], NULL, &page), MMSB_E_GUARD);
        CHECK(tells(id, "was written behind its end: at offset "));
        CHECK_OK(mmsb_page_create(context, sizes[i], NULL, &page)); /* once */
        bytes_of(kept)[-1] = 'x';
        bytes_of(kept)[-3] = 'y';
        check_report_is(check_guard(context, 1), MMSB_GUARD_BEFORE, mmsb_page_id(kept), sizes[i], -3, 3, CANARY, 'y');
        check_guard(context, 0);
        bytes_of(kept)[sizes[i] + 7] = 'z'; /* it is found again */
        check_report_is(check_guard(context, 1), MMSB_GUARD_BEHIND, mmsb_page_id(kept), sizes[i], (int64_t)sizes[i] + 7, 1,
                        CANARY, 'z');
        CHECK_OK(mmsb_page_destroy(kept));
        CHECK_OK(mmsb_page_destroy(page));
    }
    check_guard(context, 0);
    CHECK_EQUAL(context_stats(context).guard_reports, 3 * sizeof sizes / sizeof sizes[0]);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_chosen_id_is_told(void) {
    mmsb_context_t context = guarded_context(1, 1 << 20);
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 17;
    mmsb_page_t page;
    CHECK_OK(mmsb_page_create(context, 10, &options, &page));
    volatile uint8_t *bytes = bytes_of(page);
    bytes[10] = 'x';
    CHECK_OK(mmsb_page_destroy(page));
    check_report_is(check_guard(context, 1), MMSB_GUARD_BEHIND, 17, 10, 10, 1, CANARY, 'x');
    bytes[3] = 'y';
    check_report_is(check_guard(context, 1), MMSB_GUARD_ENDED, 17, 10, 3, 1, POISON, 'y');
    CHECK_OK(mmsb_context_destroy(context));
}

/* The use of a pointer that was kept. The next page would get the memory that it points to. */
static void a_write_after_the_end_is_told(void) {
    static const uint64_t sizes[] = {64, 4096, 2 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mmsb_context_t context = guarded_context(1, 8 << 20);
        mmsb_page_t page = new_page(context, sizes[i]);
        const uint64_t id = mmsb_page_id(page);
        volatile uint8_t *kept = bytes_of(page);
        CHECK_OK(mmsb_page_destroy(page));
        CHECK_EQUAL(kept[0], POISON);
        kept[5] = 'k';
        for (int others = 0; others < 100; others++) { /* nobody gets it before it is verified */
            mmsb_page_t other = new_page(context, sizes[i]);
            CHECK(bytes_of(other) != kept);
            mmsb_status_t status = mmsb_page_destroy(other);
            CHECK_EQUAL(status, MMSB_OK);
            if (context_stats(context).guard_reports > 0) {
                break; /* it had to leave */
            }
        }
        CHECK_OK(mmsb_context_trim(context, NULL)); /* all leaves */
        CHECK_EQUAL(context_stats(context).guard_reports, 1);
        CHECK_STATUS(mmsb_page_create(context, 1, NULL, &page), MMSB_E_GUARD);
        CHECK(tells(id, "was written after it had ended: at offset 5, 0xdd became 0x6b"));
        CHECK_EQUAL(context_stats(context).guard_bytes, 0);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

static void memory_that_a_page_has_left_is_watched(void) {
    mmsb_context_t context = guarded_context(1, 1 << 20);
    mmsb_page_t page = new_page(context, 300);
    const uint64_t id = mmsb_page_id(page);
    volatile uint8_t *before = bytes_of(page);
    CHECK_OK(mmsb_page_resize(page, 310));
    CHECK(bytes_of(page) != before);
    before[299] = 1;
    check_report_is(check_guard(context, 1), MMSB_GUARD_LEFT, id, 300, 299, 1, POISON, 1);
    before = bytes_of(page);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0));
    before[0] = 2;
    check_report_is(check_guard(context, 1), MMSB_GUARD_LEFT, id, 310, 0, 1, POISON, 2);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0)); /* it is guarded again */
    bytes_of(page)[310] = 3;
    CHECK_OK(mmsb_page_resize(page, 20));
    check_report_is(check_guard(context, 1), MMSB_GUARD_BEHIND, id, 310, 310, 1, CANARY, 3);
    CHECK_OK(mmsb_context_destroy(context));
}

static void uninitialised_memory_has_a_pattern(void) {
    mmsb_context_t context = guarded_context(1, 0);
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.contents = MMSB_PAGE_UNINITIALISED;
    for (uint64_t size = 8; size <= 8 << 20; size *= 32) {
        mmsb_page_t page;
        CHECK_OK(mmsb_page_create(context, size, &options, &page));
        for (uint64_t at = 0; at < size; at++) {
            REQUIRE(bytes_of(page)[at] == FRESH);
        }
        CHECK_OK(mmsb_page_destroy(page));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void every_nth_page_is_guarded(void) {
    for (uint64_t every = 1; every <= 7; every += 3) {
        mmsb_context_t context = guarded_context(every, 0);
        uint64_t guarded = 0, bytes = 0;
        mmsb_page_t many[20];
        for (uint64_t i = 0; i < 10 * every; i++) {
            const uint64_t size = i % 2 ? 100 : 10000; /* native code makes the first, Go the others */
            new_page(context, size);
            const uint64_t now = context_stats(context).guard_bytes;
            CHECK_EQUAL(now > bytes, i % every == 0);
            guarded += now > bytes;
            bytes = now;
        }
        CHECK_EQUAL(guarded, 10);
        for (uint64_t i = 0; i < every; i++) {
            CHECK_OK(mmsb_page_create_many(context, 100, 20, NULL, NULL, many));
        }
        const uint64_t one = context_stats(context).guard_bytes - bytes; /* of 20 pages of 100 bytes that are guarded */
        CHECK(one > 0);
        for (uint64_t i = 0; i < every; i++) {
            CHECK_OK(mmsb_page_create_many(context, 100, 20, NULL, NULL, many));
        }
        CHECK_EQUAL(context_stats(context).guard_bytes, bytes + 2 * one);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

static void reports_wait_in_their_order(void) {
    mmsb_context_t context = guarded_context(1, 0), other = guarded_context(1, 0);
    uint64_t ids[3];
    mmsb_page_t pages[3];
    for (int i = 0; i < 3; i++) {
        pages[i] = new_page(context, 100);
        ids[i] = mmsb_page_id(pages[i]);
    }
    for (int i = 0; i < 3; i++) {
        bytes_of(pages[i])[100] = 'x';
        CHECK_OK(mmsb_page_destroy(pages[i]));
    }
    new_page(other, 1); /* another context tells nothing */
    mmsb_page_t page;
    CHECK_STATUS(mmsb_page_create(context, 1, NULL, &page), MMSB_E_GUARD);
    CHECK(tells(ids[0], "reports that wait: 2 more"));
    CHECK_EQUAL(check_guard(context, 2).page_id, ids[1]);
    CHECK_STATUS(mmsb_page_create(context, 1, NULL, &page), MMSB_E_GUARD);
    CHECK(tells(ids[2], "") && !strstr(mmsb_last_error(), "more"));
    CHECK_OK(mmsb_page_create(context, 1, NULL, &page));
    for (int i = 0; i < 1100; i++) {
        bytes_of(page)[1] = (uint8_t)i == CANARY ? 0 : (uint8_t)i;
        mmsb_page_t next;
        CHECK_OK(mmsb_page_destroy(page));
        page = 0;
        if (i == 1099) {
            break;
        }
        while (mmsb_page_create(context, 1, NULL, &next) != MMSB_OK) {}
        page = next;
    }
    CHECK_EQUAL(context_stats(context).guard_reports, 1103);
    CHECK_STATUS(mmsb_page_create(context, 1, NULL, &page), MMSB_E_GUARD);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_context_destroy(other));
}

/* What each call that tells is made on: a page, another one in the same context. */
typedef struct told {
    mmsb_context_t context;
    mmsb_page_t page, other;
} told_t;

static mmsb_status_t tell_create(const told_t *t) {
    mmsb_page_t page;
    return mmsb_page_create(t->context, 100, NULL, &page);
}
static mmsb_status_t tell_create_large(const told_t *t) {
    mmsb_page_t page;
    return mmsb_page_create(t->context, 10000, NULL, &page);
}
static mmsb_status_t tell_create_with_address(const told_t *t) {
    mmsb_page_t page;
    void *address;
    return mmsb_page_create_with_address(t->context, 100, NULL, &page, &address);
}
static mmsb_status_t tell_create_many(const told_t *t) {
    mmsb_page_t pages[5];
    return mmsb_page_create_many(t->context, 100, 5, NULL, NULL, pages);
}
static mmsb_status_t tell_create_many_start(const told_t *t) {
    mmsb_page_t pages[5];
    mmsb_ticket_t ticket;
    CHECK_OK(mmsb_page_create_many_start(t->context, 100, 5, NULL, NULL, pages, &ticket));
    mmsb_status_t status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    return status;
}
static mmsb_status_t tell_clone(const told_t *t) {
    mmsb_page_t page;
    return mmsb_page_clone(t->page, 0, &page);
}
static mmsb_status_t tell_clone_many(const told_t *t) {
    mmsb_page_t pages[2], clones[2] = {t->page, t->other};
    memcpy(pages, clones, sizeof pages);
    return mmsb_page_clone_many(pages, NULL, 2, clones, NULL);
}
static uint8_t adopted[64];
static mmsb_status_t tell_adopt(const told_t *t) {
    mmsb_page_t page;
    return mmsb_page_adopt(t->context, adopted, sizeof adopted, NULL, &page);
}
static mmsb_status_t tell_adopt_many(const told_t *t) {
    mmsb_page_t page;
    void *memory = adopted;
    const uint64_t size = sizeof adopted;
    return mmsb_page_adopt_many(t->context, &memory, &size, NULL, 1, NULL, &page, NULL);
}
static mmsb_status_t tell_write(const told_t *t) {
    return mmsb_page_write(t->page, 0, "w", 1);
}
static mmsb_status_t tell_write_many(const told_t *t) {
    char byte = 'w';
    const mmsb_page_range_t ranges[] = {{.page = t->page, .buffer = &byte, .length = 1},
                                        {.page = t->other, .buffer = &byte, .length = 1}};
    return mmsb_page_write_many(ranges, 2, NULL);
}
static mmsb_status_t tell_apply(const told_t *t) {
    const mmsb_run_t run = {3, 1};
    const mmsb_delta_t delta = one_run(&run, "d");
    return mmsb_page_apply(t->page, &delta);
}
static mmsb_status_t tell_apply_many(const told_t *t) {
    const mmsb_run_t run = {3, 1};
    const mmsb_delta_t deltas[2] = {one_run(&run, "d"), one_run(&run, "e")};
    const mmsb_page_t pages[2] = {t->page, t->other};
    return mmsb_page_apply_many(pages, deltas, 2, NULL);
}
static mmsb_status_t tell_mask_clear(const told_t *t) {
    return mmsb_page_mask_clear(t->page);
}
static mmsb_status_t tell_pin(const told_t *t) {
    void *address;
    mmsb_status_t status = mmsb_page_pin(t->page, MMSB_PIN_WRITE, &address);
    if (status == MMSB_OK) {
        CHECK_OK(mmsb_page_unpin(t->page, MMSB_PIN_WRITE));
    }
    return status;
}
static mmsb_status_t tell_pin_many(const told_t *t) {
    const mmsb_page_t pages[2] = {t->page, t->other};
    mmsb_status_t status = mmsb_page_pin_many(pages, 2, MMSB_PIN_WRITE, NULL, NULL);
    if (status == MMSB_OK) {
        CHECK_OK(mmsb_page_unpin_many(pages, 2, MMSB_PIN_WRITE, NULL));
    }
    return status;
}
static mmsb_status_t tell_resize(const told_t *t) {
    return mmsb_page_resize(t->page, 200);
}
static mmsb_status_t tell_resize_many(const told_t *t) {
    const uint64_t size = 200;
    return mmsb_page_resize_many(&t->page, &size, 1, NULL);
}
static mmsb_status_t tell_migrate(const told_t *t) {
    return mmsb_page_migrate(t->page, MMSB_LOCATION_DISK, 0);
}
static mmsb_status_t tell_migrate_many(const told_t *t) {
    return mmsb_page_migrate_many(&t->page, 1, MMSB_LOCATION_DISK, 0, NULL, NULL, NULL);
}
static mmsb_status_t tell_release(const told_t *t) {
    void *memory;
    uint64_t size;
    mmsb_status_t status = mmsb_page_release(t->page, &memory, &size);
    if (status == MMSB_OK) {
        CHECK_OK(mmsb_memory_free(memory));
    }
    return status;
}
static mmsb_status_t tell_metadata(const told_t *t) {
    return mmsb_page_metadata_set(t->page, "key", 3, "value", 5);
}
static mmsb_status_t tell_dependency(const told_t *t) {
    return mmsb_page_dependency_add(t->page, t->other);
}
static mmsb_status_t tell_save(const told_t *t) {
    return mmsb_snapshot_save(t->context, at("saved"), NULL);
}
static mmsb_status_t tell_load(const told_t *t) {
    return mmsb_snapshot_load(t->context, at("to-load"), NULL);
}
static mmsb_status_t tell_journal(const told_t *t) {
    mmsb_status_t status = mmsb_journal_open(t->context, at("journal"), NULL);
    if (status == MMSB_OK) {
        CHECK_OK(mmsb_journal_close(t->context));
    }
    return status;
}

static const struct {
    const char *name;
    mmsb_status_t (*call)(const told_t *t);
} telling[] = {
    {"mmsb_page_create tells", tell_create},
    {"mmsb_page_create of a large page tells", tell_create_large},
    {"mmsb_page_create_with_address tells", tell_create_with_address},
    {"mmsb_page_create_many tells", tell_create_many},
    {"mmsb_page_create_many_start tells", tell_create_many_start},
    {"mmsb_page_clone tells", tell_clone},
    {"mmsb_page_clone_many tells", tell_clone_many},
    {"mmsb_page_adopt tells", tell_adopt},
    {"mmsb_page_adopt_many tells", tell_adopt_many},
    {"mmsb_page_write tells", tell_write},
    {"mmsb_page_write_many tells", tell_write_many},
    {"mmsb_page_apply tells", tell_apply},
    {"mmsb_page_apply_many tells", tell_apply_many},
    {"mmsb_page_mask_clear tells", tell_mask_clear},
    {"mmsb_page_pin tells", tell_pin},
    {"mmsb_page_pin_many tells", tell_pin_many},
    {"mmsb_page_resize tells", tell_resize},
    {"mmsb_page_resize_many tells", tell_resize_many},
    {"mmsb_page_migrate tells", tell_migrate},
    {"mmsb_page_migrate_many tells", tell_migrate_many},
    {"mmsb_page_release tells", tell_release},
    {"mmsb_metadata_set tells", tell_metadata},
    {"mmsb_page_dependency_add tells", tell_dependency},
    {"mmsb_snapshot_save tells", tell_save},
    {"mmsb_snapshot_load tells", tell_load},
    {"mmsb_journal_open tells", tell_journal},
};

/* With every page guarded, and with only the first two: then native code works on the others alone. */
static void check_telling(size_t i, uint64_t every) {
    told_t t = {.context = guarded_context(every, 0)};
    mmsb_page_t victim = new_page(t.context, 50);
    t.page = new_page(t.context, 100);
    t.other = new_page(t.context, 100);
    CHECK_OK(tell_apply(&t)); /* for a mask that can be cleared */
    CHECK_OK(mmsb_snapshot_save(t.context, at("to-load"), NULL));
    const uint64_t id = mmsb_page_id(victim);
    bytes_of(victim)[50] = 'x';
    CHECK_OK(mmsb_page_destroy(victim)); /* finds it, and tells nothing */
    const mmsb_page_info_t page = page_info(t.page), other = page_info(t.other);
    uint8_t byte;
    void *address;
    CHECK_OK(mmsb_page_read(t.page, 0, &byte, 1)); /* calls that look tell nothing */
    CHECK_OK(mmsb_page_pin(t.page, MMSB_PIN_READ, &address));
    CHECK_OK(mmsb_page_unpin(t.page, MMSB_PIN_READ));
    CHECK_STATUS(telling[i].call(&t), MMSB_E_GUARD);
    CHECK(tells(id, "behind its end"));
    const mmsb_page_info_t page_after = page_info(t.page), other_after = page_info(t.other);
    CHECK(memcmp(&page, &page_after, sizeof page) == 0 && memcmp(&other, &other_after, sizeof other) == 0);
    uint64_t pages;
    CHECK_OK(mmsb_context_page_count(t.context, &pages));
    CHECK_EQUAL(pages, 2);
    CHECK_OK(telling[i].call(&t));
    CHECK_OK(mmsb_context_destroy(t.context));
    clear_folder();
}

static void every_such_call_tells(void) {
    for (size_t i = 0; i < sizeof telling / sizeof telling[0]; i++) {
        check_end();
        check_begin(telling[i].name);
        check_telling(i, 1);
        check_telling(i, 1000);
    }
}

static void a_save_finds_damage_first(void) {
    mmsb_context_t context = guarded_context(1, 0);
    mmsb_page_t page = new_page(context, 100);
    bytes_of(page)[100] = 'x';
    CHECK_STATUS(mmsb_snapshot_save(context, at("saved"), NULL), MMSB_E_GUARD);
    CHECK(tells(mmsb_page_id(page), "behind its end"));
    CHECK(access(at("saved"), F_OK) != 0);
    CHECK_OK(mmsb_snapshot_save(context, at("saved"), NULL));
    CHECK_OK(mmsb_snapshot_load(context, at("saved"), NULL));
    mmsb_page_t loaded;
    size_t count;
    uint64_t cursor = 0;
    CHECK_OK(mmsb_context_pages(context, &cursor, &loaded, 1, &count));
    bytes_of(loaded)[-1] = 'y'; /* loaded pages are guarded, too */
    check_report_is(check_guard(context, 1), MMSB_GUARD_BEFORE, mmsb_page_id(loaded), 100, -1, 1, CANARY, 'y');
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_end_of_the_context_tells(void) {
    mmsb_context_t context = guarded_context(1, 1 << 20);
    mmsb_page_t page = new_page(context, 100);
    const uint64_t id = mmsb_page_id(page);
    bytes_of(page)[-1] = 'x';
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_GUARD);
    CHECK(tells(id, "before its beginning"));
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_STALE_HANDLE); /* it has ended */
    context = guarded_context(1, 1 << 20);
    page = new_page(context, 100);
    const uint64_t ended = mmsb_page_id(page);
    volatile uint8_t *bytes = bytes_of(page);
    CHECK_OK(mmsb_page_destroy(page));
    bytes[1] = 'x';
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_GUARD);
    CHECK(tells(ended, "after it had ended"));
    context = guarded_context(1, 0);
    const uint64_t waited = leave_report(context);
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_GUARD);
    CHECK(tells(waited, "behind its end"));
    new_page(context = new_context(), 10); /* nothing waits for other contexts */
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_pinned_page_outlives_its_context(void) {
    mmsb_context_t context = guarded_context(1, 1 << 20);
    mmsb_page_t page = new_page(context, 10000);
    void *address;
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
    CHECK_OK(mmsb_context_destroy(context));
    memset(address, 1, 10000);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
}

static void other_memory_is_not_guarded(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = MMSB_SIMULATE_ALWAYS;
    options.guard_every = 1;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    new_disk_page(context, 10000);
    mmsb_page_t page;
    CHECK_OK(mmsb_page_adopt(context, adopted, 10, NULL, &page));
    adopted[10] = 'x'; /* is the caller's */
    mmsb_page_options_t on_device;
    mmsb_page_options_init(&on_device);
    for (mmsb_location_t location = MMSB_LOCATION_GPU; location <= MMSB_LOCATION_PINNED; location++) {
        on_device.location = location;
        CHECK_OK(mmsb_page_create(context, 10000, &on_device, &page));
    }
    CHECK_EQUAL(context_stats(context).guard_bytes, 0);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
    CHECK(context_stats(context).guard_bytes > 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_memory_limit_counts_the_guard(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.guard_every = 1;
    options.guard_quarantine = 1 << 20;
    options.memory_limit = 1 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_page_t page, pages[100];
    CHECK_STATUS(mmsb_page_create(context, 1 << 20, NULL, &page), MMSB_E_LIMIT); /* no room for canaries */
    for (int round = 0; round < 40; round++) {                                   /* memory in quarantine makes room for pages */
        CHECK_OK(mmsb_page_create(context, round % 2 ? 400000 : 100, NULL, &page));
        CHECK_OK(mmsb_page_destroy(page));
        CHECK(context_stats(context).memory_used <= 1 << 20);
    }
    for (int round = 0; round < 40; round++) {
        CHECK_OK(mmsb_page_create_many(context, 4000, 60, NULL, NULL, pages));
        CHECK_OK(mmsb_page_destroy_many(pages, 60, NULL));
    }
    const mmsb_context_stats_t stats = context_stats(context);
    CHECK(stats.guard_bytes > 0 && stats.guard_bytes <= stats.memory_used && stats.memory_used <= 1 << 20);
    CHECK_OK(mmsb_context_trim(context, NULL));
    CHECK_EQUAL(context_stats(context).guard_bytes, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void groups_keep_guarded_memory(void) {
    mmsb_context_t context = guarded_context(1, 1 << 20);
    mmsb_page_t page = new_page(context, 100), gone = new_page(context, 200), made;
    const uint64_t id = mmsb_page_id(page), gone_id = mmsb_page_id(gone);
    volatile uint8_t *bytes = bytes_of(page), *gone_bytes = bytes_of(gone);
    write_pattern(page, 1);
    CHECK_OK(mmsb_group_begin(context));
    CHECK_OK(mmsb_page_resize(page, 300));
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_OK(mmsb_page_create(context, 50, NULL, &made));
    CHECK_OK(mmsb_group_rollback(context));
    CHECK(page_holds_pattern(page, 1, 100) && bytes_of(page) == bytes && bytes_of(gone) == gone_bytes);
    check_guard(context, 0);
    bytes[100] = 'x';
    check_report_is(check_guard(context, 1), MMSB_GUARD_BEHIND, id, 100, 100, 1, CANARY, 'x');
    CHECK_OK(mmsb_group_begin(context));
    CHECK_OK(mmsb_page_resize(page, 300));
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_OK(mmsb_group_commit(context));
    bytes[0] = 'x';
    gone_bytes[0] = 'x';
    check_report_is(check_guard(context, 2), MMSB_GUARD_ENDED, gone_id, 200, 0, 1, POISON, 'x'); /* at the commit */
    check_report_is(check_guard(context, 1), MMSB_GUARD_LEFT, id, 100, 0, 1, POISON, 'x');
    leave_report(context);
    CHECK_OK(mmsb_group_begin(context));
    CHECK_STATUS(mmsb_page_write(page, 0, "w", 1), MMSB_E_GUARD); /* the group stays open */
    CHECK_OK(mmsb_page_write(page, 0, "w", 1));
    CHECK_OK(mmsb_group_commit(context));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Threads create, write, resize, move and destroy pages without a mistake, and one checks: there must be no report. */
static void *work_well(void *argument) {
    const team_member_t *member = argument;
    const mmsb_context_t context = *(mmsb_context_t *)member->shared;
    uint64_t seed = member->index;
    mmsb_page_t pages[16] = {0};
    for (int i = 0; i < 3000; i++) {
        mmsb_page_t *page = &pages[random_below(&seed, 16)];
        const uint64_t size = 1 + random_below(&seed, random_below(&seed, 10) == 0 ? 20000 : 500);
        uint64_t count;
        if (*page == 0) {
            CHECK_OK(mmsb_page_create(context, size, NULL, page));
            continue;
        }
        switch (random_below(&seed, 8)) {
        case 0:
            CHECK_OK(mmsb_page_resize(*page, size));
            break;
        case 1:
            CHECK_OK(mmsb_page_migrate(*page, random_below(&seed, 2) ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU, 0));
            break;
        case 2:
            CHECK_OK(mmsb_page_destroy(*page));
            *page = 0;
            break;
        case 3:
            if (random_below(&seed, 50) == 0) {
                CHECK_OK(mmsb_guard_check(context, NULL, &count));
                CHECK_EQUAL(count, 0);
            }
            break;
        case 4:
            if (random_below(&seed, 50) == 0) {
                CHECK_OK(mmsb_context_trim(context, NULL));
            }
            break;
        default:
            write_pattern(*page, 1);
        }
    }
    for (int i = 0; i < 16; i++) {
        CHECK_OK(mmsb_page_destroy(pages[i]));
    }
    return NULL;
}

static void threads_without_mistakes_have_no_report(void) {
    for (uint64_t every = 1; every <= 3; every += 2) {
        mmsb_context_t context = guarded_context(every, 100000);
        run_team(4, work_well, &context);
        CHECK_EQUAL(context_stats(context).guard_reports, 0);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

int main(void) {
    folder_make();
    RUN(without_a_guard_nothing_is_told);
    RUN(options_are_checked);
    RUN(guarded_pages_are_as_others);
    RUN(a_write_past_an_end_is_told);
    RUN(a_chosen_id_is_told);
    RUN(a_write_after_the_end_is_told);
    RUN(memory_that_a_page_has_left_is_watched);
    RUN(uninitialised_memory_has_a_pattern);
    RUN(every_nth_page_is_guarded);
    RUN(reports_wait_in_their_order);
    RUN(every_such_call_tells);
    RUN_IN_FOLDER(a_save_finds_damage_first);
    RUN(the_end_of_the_context_tells);
    RUN(a_pinned_page_outlives_its_context);
    RUN(other_memory_is_not_guarded);
    RUN(the_memory_limit_counts_the_guard);
    RUN(groups_keep_guarded_memory);
    RUN(threads_without_mistakes_have_no_report);
    folder_end();
    return check_report();
}
