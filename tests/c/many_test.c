/* The batches that make, pin and resize pages: all items or none, the index of the first bad one, the journal; and what a page is
 * asked for alone (id, location). */
#include "folder.h"

enum { COUNT = 6 };

static const uint64_t sizes[COUNT] = {1, 4096, 40, 300000, 2 << 20, 70};
static const uint64_t ids[COUNT] = {7, 0, 9, 1000, 0, 8};

static mmsb_page_options_t each_options(void) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.sizes = sizes;
    options.ids = ids;
    return options;
}

static void make_each(mmsb_context_t context, mmsb_page_t *pages) {
    mmsb_page_options_t options = each_options();
    REQUIRE_OK(mmsb_page_create_many(context, 0, COUNT, &options, NULL, pages));
}

#define BAD_AT(call, code, index) \
    do { \
        size_t bad = 99; \
        CHECK_STATUS(call, code); \
        CHECK_EQUAL(bad, index); \
    } while (0)

/* ---------------------------------------------------------------------------------------------------------- pages ---- */

static void a_page_says_its_id_and_location(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT], on_disk = new_disk_page(context, 100);
    make_each(context, pages);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(mmsb_page_id(pages[i]), page_info(pages[i]).id);
        CHECK_EQUAL(mmsb_page_location(pages[i]), MMSB_LOCATION_CPU);
    }
    CHECK_EQUAL(mmsb_page_location(on_disk), MMSB_LOCATION_DISK);
    CHECK_OK(mmsb_page_migrate(on_disk, MMSB_LOCATION_CPU, 0));
    CHECK_EQUAL(mmsb_page_location(on_disk), MMSB_LOCATION_CPU);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(mmsb_page_id(pages[0]), 0);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(mmsb_page_location(pages[0]), MMSB_LOCATION_DEFAULT);
}

static void pages_of_many_sizes_and_ids(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT], found;
    make_each(context, pages);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(mmsb_page_size(pages[i]), sizes[i]);
        CHECK(ids[i] == 0 || mmsb_page_id(pages[i]) == ids[i]);
        CHECK_OK(mmsb_page_lookup(context, mmsb_page_id(pages[i]), &found));
        CHECK_EQUAL(found, pages[i]);
    }
    mmsb_page_options_t options = each_options();
    options.ids = NULL;
    mmsb_ticket_t ticket;
    REQUIRE_OK(mmsb_page_create_many_start(context, 0, COUNT, &options, NULL, pages, &ticket));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(mmsb_page_size(pages[3]), sizes[3]);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_EQUAL(context_stats(context).pages, 2 * COUNT);
    CHECK_OK(mmsb_context_destroy(context));
}

static void one_bad_page_of_many_makes_none(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT], one;
    mmsb_page_options_t options = each_options();
    CHECK_STATUS(mmsb_page_create(context, 64, &options, &one), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_create_many(context, 64, COUNT, &options, NULL, pages), MMSB_E_INVALID_ARGUMENT);
    uint64_t wrong[COUNT];
    memcpy(wrong, sizes, sizeof wrong);
    wrong[4] = 0;
    options.sizes = wrong;
    CHECK_STATUS(mmsb_page_create_many(context, 0, COUNT, &options, NULL, pages), MMSB_E_INVALID_SIZE);
    CHECK(strstr(mmsb_last_error(), "index 4") != NULL);
    options = each_options();
    memcpy(wrong, ids, sizeof wrong);
    wrong[5] = 9;
    options.ids = wrong;
    CHECK_STATUS(mmsb_page_create_many(context, 0, COUNT, &options, NULL, pages), MMSB_E_ALREADY_EXISTS);
    CHECK(strstr(mmsb_last_error(), "index 5") != NULL);
    CHECK_EQUAL(context_stats(context).pages, 0);
    CHECK_EQUAL(context_stats(context).allocations, 0);
    make_each(context, pages); /* the ids are free */
    CHECK_OK(mmsb_context_destroy(context));
}

/* --------------------------------------------------------------------------------------------------------- clones ---- */

static void many_clones(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT], clones[COUNT];
    make_each(context, pages);
    uint64_t new_ids[COUNT] = {70, 71, 72, 0, 73, 74};
    for (size_t i = 0; i < COUNT; i++) {
        write_pattern(pages[i], i);
    }
    CHECK_OK(mmsb_page_clone_many(pages, new_ids, COUNT, clones, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(page_holds_pattern(clones[i], i, sizes[i]));
        CHECK(new_ids[i] == 0 || mmsb_page_id(clones[i]) == new_ids[i]);
    }
    CHECK_OK(mmsb_page_destroy_many(clones, COUNT, NULL));
    new_ids[3] = 1000; /* that of a page */
    BAD_AT(mmsb_page_clone_many(pages, new_ids, COUNT, clones, &bad), MMSB_E_ALREADY_EXISTS, 3);
    CHECK_EQUAL(context_stats(context).pages, COUNT);
    CHECK_OK(mmsb_page_clone_many(pages, NULL, COUNT, clones, NULL));
    REQUIRE_OK(mmsb_page_destroy(pages[2]));
    BAD_AT(mmsb_page_clone_many(pages, NULL, COUNT, clones, &bad), MMSB_E_STALE_HANDLE, 2);
    CHECK_EQUAL(context_stats(context).pages, 2 * COUNT - 1);
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------------------- adoption ---- */

static void count_release(void *user, void *memory, uint64_t size) {
    (void)memory;
    *(uint64_t *)user += size;
}

static void much_adopted_memory(void) {
    mmsb_context_t context = new_context();
    static uint8_t memory[3][100];
    void *memories[] = {memory[0], memory[1], memory[2]};
    const uint64_t lengths[] = {100, 50, 99};
    uint64_t chosen[] = {5, 0, 6}, released = 0;
    mmsb_page_t pages[3];
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.release = count_release;
    options.user = &released;
    CHECK_OK(mmsb_page_adopt_many(context, memories, lengths, chosen, 3, &options, pages, NULL));
    for (size_t i = 0; i < 3; i++) {
        CHECK(mmsb_page_address(pages[i]) == memories[i]);
        CHECK_EQUAL(mmsb_page_size(pages[i]), lengths[i]);
        CHECK(chosen[i] == 0 || mmsb_page_id(pages[i]) == chosen[i]);
    }
    CHECK_OK(mmsb_page_destroy_many(pages, 2, NULL));
    CHECK_EQUAL(released, 150);
    BAD_AT(mmsb_page_adopt_many(context, memories, lengths, chosen, 3, &options, pages, &bad), MMSB_E_ALREADY_EXISTS, 2);
    memories[1] = NULL;
    BAD_AT(mmsb_page_adopt_many(context, memories, lengths, NULL, 3, &options, pages, &bad), MMSB_E_INVALID_ARGUMENT, 1);
    options.id = 77;
    CHECK_STATUS(mmsb_page_adopt_many(context, memories, lengths, NULL, 1, &options, pages, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(released, 150); /* of pages that never were nothing is given back */
    CHECK_EQUAL(context_stats(context).pages, 1);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(released, 249);
}

/* ----------------------------------------------------------------------------------------------------------- pins ---- */

static void many_pins(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT];
    void *addresses[COUNT];
    make_each(context, pages);
    REQUIRE_OK(mmsb_page_migrate(pages[3], MMSB_LOCATION_DISK, 0));
    pages[5] = pages[0]; /* twice: two pins */
    CHECK_OK(mmsb_page_pin_many(pages, COUNT, MMSB_PIN_WRITE, addresses, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(page_info(pages[i]).write_pins, i == 0 || i == 5 ? 2 : 1);
        CHECK(addresses[i] == mmsb_page_address(pages[i]));
        memset(addresses[i], 'p', mmsb_page_size(pages[i]));
    }
    CHECK_STATUS(mmsb_page_resize(pages[1], 5), MMSB_E_BUSY);
    const uint64_t version = mmsb_page_version(pages[1]);
    CHECK_OK(mmsb_page_unpin_many(pages, COUNT, MMSB_PIN_WRITE, NULL));
    CHECK(mmsb_page_version(pages[1]) > version);
    CHECK_EQUAL(context_stats(context).pinned_pages, 0);
    uint8_t byte = 0;
    CHECK_OK(mmsb_page_read(pages[3], 299999, &byte, 1));
    CHECK_EQUAL(byte, 'p');
    CHECK_OK(mmsb_page_migrate(pages[3], MMSB_LOCATION_CPU, 0));
    CHECK_OK(mmsb_context_destroy(context));
}

static void one_bad_pin_of_many_makes_none(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT];
    static uint8_t memory[64];
    make_each(context, pages);
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.read_only = 1;
    REQUIRE_OK(mmsb_page_destroy(pages[4]));
    REQUIRE_OK(mmsb_page_adopt(context, memory, sizeof memory, &options, &pages[4]));
    uint64_t version = mmsb_page_version(pages[0]);
    BAD_AT(mmsb_page_pin_many(pages, COUNT, MMSB_PIN_WRITE, NULL, &bad), MMSB_E_INVALID_STATE, 4);
    CHECK_EQUAL(context_stats(context).pinned_pages, 0);
    CHECK_EQUAL(mmsb_page_version(pages[0]), version);
    CHECK_OK(mmsb_page_pin_many(pages, 3, MMSB_PIN_READ, NULL, NULL));
    BAD_AT(mmsb_page_unpin_many(pages, COUNT, MMSB_PIN_READ, &bad), MMSB_E_INVALID_STATE, 3);
    BAD_AT(mmsb_page_unpin_many(pages, 3, MMSB_PIN_WRITE, &bad), MMSB_E_INVALID_STATE, 0);
    CHECK_EQUAL(context_stats(context).pinned_pages, 3);
    CHECK_STATUS(mmsb_page_pin_many(pages, 3, 3, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_page_unpin_many(pages, 3, MMSB_PIN_READ, NULL));
    mmsb_page_t many[70000];
    for (size_t i = 0; i < 70000; i++) {
        many[i] = pages[1];
    }
    BAD_AT(mmsb_page_pin_many(many, 70000, MMSB_PIN_READ, NULL, &bad), MMSB_E_LIMIT, 65535);
    CHECK_EQUAL(page_info(pages[1]).read_pins, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void pins_of_an_ended_context_end_together(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT];
    make_each(context, pages);
    CHECK_OK(mmsb_page_pin_many(pages, COUNT, MMSB_PIN_READ, NULL, NULL));
    CHECK_OK(mmsb_context_destroy(context));
    BAD_AT(mmsb_page_unpin_many(pages, COUNT, MMSB_PIN_WRITE, &bad), MMSB_E_INVALID_STATE, 0);
    CHECK_OK(mmsb_page_unpin_many(pages, COUNT, MMSB_PIN_READ, NULL));
    BAD_AT(mmsb_page_unpin_many(pages, COUNT, MMSB_PIN_READ, &bad), MMSB_E_STALE_HANDLE, 0);
}

/* Pages outlive their context while they are pinned. Another context that has taken its place counts nothing of their end. */
static void the_last_unpin_counts_in_no_other_context(void) {
    static const uint64_t sizes_of_all[] = {1, 64, 4096, 5000, 100000, 3 << 20};
    enum { ALL = sizeof sizes_of_all / sizeof sizes_of_all[0], MASKS = 2 };
    for (int32_t mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
        for (int batch = 0; batch < 2; batch++) {
            mmsb_context_t first = new_context(), second;
            mmsb_page_t pages[MASKS * ALL];
            for (size_t i = 0; i < MASKS * ALL; i++) {
                pages[i] = new_page(first, sizes_of_all[i % ALL]);
                if (i >= ALL) { /* with a change mask */
                    const uint64_t offset = 0;
                    mmsb_delta_t delta;
                    mmsb_delta_init(&delta);
                    delta.kind = MMSB_DELTA_INDEXED;
                    delta.offsets = &offset;
                    delta.count = 1;
                    delta.payload = "x";
                    delta.payload_length = 1;
                    REQUIRE_OK(mmsb_page_apply(pages[i], &delta));
                }
                REQUIRE_OK(mmsb_page_pin(pages[i], mode, NULL));
            }
            REQUIRE_OK(mmsb_context_destroy(first));
            second = new_context();
            REQUIRE((uint32_t)second << 4 == (uint32_t)first << 4); /* it has the index of the first one */
            mmsb_page_t own[ALL];
            uint64_t bytes = 0;
            for (size_t i = 0; i < ALL; bytes += sizes_of_all[i++])
                own[i] = new_page(second, sizes_of_all[i]);
            if (batch) {
                CHECK_OK(mmsb_page_unpin_many(pages, MASKS * ALL, mode, NULL));
            } else {
                for (size_t i = 0; i < MASKS * ALL; i++)
                    CHECK_OK(mmsb_page_unpin(pages[i], mode));
            }
            mmsb_context_stats_t stats = context_stats(second);
            CHECK_EQUAL(stats.pages, ALL);
            CHECK_EQUAL(stats.bytes, bytes);
            CHECK_EQUAL(stats.pinned_pages, 0);
            uint64_t count = 0;
            CHECK_OK(mmsb_context_page_count(second, &count));
            CHECK_EQUAL(count, ALL);
            CHECK_EQUAL(check_live(MMSB_KIND_PAGE), ALL);
            CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 0);
            /* New small pages lie in memory of the second context only: that of the first is gone. */
            for (size_t i = 0; i < 200; i++) {
                mmsb_page_t page = new_page(second, 1 + i % 64);
                uint8_t *address = mmsb_page_address(page);
                REQUIRE(address != NULL);
                address[0] = 1;
            }
            for (size_t i = 0; i < ALL; i++)
                CHECK_OK(mmsb_page_destroy(own[i]));
            CHECK_OK(mmsb_context_page_count(second, &count));
            CHECK_EQUAL(count, 200);
            CHECK_OK(mmsb_context_destroy(second));
        }
    }
}

/* -------------------------------------------------------------------------------------------------------- resizes ---- */

static const uint64_t new_sizes[COUNT] = {5000, 4096, 3, 3 << 20, 100, 71};

static void many_resizes(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT];
    make_each(context, pages);
    uint64_t bytes = 0;
    for (size_t i = 0; i < COUNT; i++) {
        write_pattern(pages[i], i);
        bytes += new_sizes[i];
    }
    REQUIRE_OK(mmsb_page_migrate(pages[5], MMSB_LOCATION_DISK, 0));
    const uint64_t unchanged = mmsb_page_version(pages[1]);
    CHECK_OK(mmsb_page_resize_many(pages, new_sizes, COUNT, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(mmsb_page_size(pages[i]), new_sizes[i]);
        CHECK(page_holds_pattern(pages[i], i, sizes[i] < new_sizes[i] ? sizes[i] : new_sizes[i]));
    }
    uint8_t tail[2] = {1, 1};
    CHECK_OK(mmsb_page_read(pages[0], 4998, tail, 2));
    CHECK(tail[0] == 0 && tail[1] == 0);
    CHECK_EQUAL(mmsb_page_version(pages[1]), unchanged);
    CHECK_EQUAL(context_stats(context).bytes, bytes);
    CHECK_OK(mmsb_context_destroy(context));
}

static void one_bad_resize_of_many_changes_nothing(void) {
    mmsb_context_options_t limited;
    mmsb_context_options_init(&limited);
    limited.memory_limit = 16 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&limited, &context));
    mmsb_page_t pages[COUNT];
    uint64_t versions[COUNT], wanted[COUNT];
    make_each(context, pages);
    for (size_t i = 0; i < COUNT; i++) {
        write_pattern(pages[i], i);
        versions[i] = mmsb_page_version(pages[i]);
    }
    memcpy(wanted, new_sizes, sizeof wanted);
    wanted[4] = 0;
    BAD_AT(mmsb_page_resize_many(pages, wanted, COUNT, &bad), MMSB_E_INVALID_SIZE, 4);
    wanted[4] = 100;
    wanted[3] = 64 << 20; /* beyond the limit */
    BAD_AT(mmsb_page_resize_many(pages, wanted, COUNT, &bad), MMSB_E_LIMIT, 3);
    CHECK_OK(mmsb_page_pin(pages[2], MMSB_PIN_READ, NULL));
    BAD_AT(mmsb_page_resize_many(pages, new_sizes, COUNT, &bad), MMSB_E_BUSY, 2);
    CHECK_OK(mmsb_page_unpin(pages[2], MMSB_PIN_READ));
    const mmsb_page_t twice[] = {pages[0], pages[1], pages[0]};
    BAD_AT(mmsb_page_resize_many(twice, new_sizes, 3, &bad), MMSB_E_INVALID_ARGUMENT, 2);
    const mmsb_page_t none[] = {pages[0], 0};
    BAD_AT(mmsb_page_resize_many(none, new_sizes, 2, &bad), MMSB_E_INVALID_HANDLE, 1);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(mmsb_page_version(pages[i]), versions[i]);
        CHECK_EQUAL(mmsb_page_size(pages[i]), sizes[i]);
        CHECK(page_holds_pattern(pages[i], i, sizes[i]));
    }
    CHECK_OK(mmsb_page_resize_many(pages, new_sizes, COUNT, NULL));
    CHECK_OK(mmsb_page_resize_many(NULL, NULL, 0, NULL));
    CHECK_OK(mmsb_context_destroy(context));
}

static void batches_are_journalled(void) {
    mmsb_context_t context = new_context(), restored = new_context();
    mmsb_page_t pages[COUNT], clones[COUNT], found;
    REQUIRE_OK(mmsb_journal_open(context, at("journal"), NULL));
    make_each(context, pages);
    for (size_t i = 0; i < COUNT; i++) {
        write_pattern(pages[i], i);
    }
    uint64_t automatic[COUNT];
    CHECK_OK(mmsb_page_resize_many(pages, new_sizes, COUNT, NULL));
    CHECK_OK(mmsb_page_clone_many(pages, NULL, COUNT, clones, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        automatic[i] = mmsb_page_id(clones[i]);
    }
    mmsb_page_t both[] = {pages[0], new_page(restored, 10)};
    CHECK_STATUS(mmsb_page_clone_many(both, NULL, 2, clones, NULL), MMSB_E_UNSUPPORTED);
    CHECK_EQUAL(context_stats(restored).pages, 1);
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.journal = at("journal");
    CHECK_OK(mmsb_journal_close(context));
    CHECK_OK(mmsb_snapshot_load(restored, "", &options));
    CHECK_EQUAL(context_stats(restored).pages, 2 * COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        REQUIRE_OK(mmsb_page_lookup(restored, automatic[i], &found));
        CHECK_EQUAL(mmsb_page_size(found), new_sizes[i]);
        CHECK(page_holds_pattern(found, i, sizes[i] < new_sizes[i] ? sizes[i] : new_sizes[i]));
    }
    CHECK_OK(mmsb_context_destroy(restored));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ----------------------------------------------------------------------------------------------------- at one time ---- */

typedef struct crowd {
    mmsb_page_t pages[COUNT];
} crowd_t;

static void *resize_and_pin(void *argument) {
    team_member_t *member = argument;
    const crowd_t *crowd = member->shared;
    mmsb_page_t pages[COUNT];
    uint64_t wanted[COUNT];
    for (size_t i = 0; i < COUNT; i++) { /* half of the threads in the other order */
        pages[i] = crowd->pages[member->index % 2 ? i : COUNT - 1 - i];
    }
    for (uint64_t round = 0; round < 300; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            wanted[i] = 1 + (round * 977 + member->index * 131) % 9000; /* all pages have one size, always */
        }
        mmsb_status_t status = mmsb_page_resize_many(pages, wanted, COUNT, NULL);
        CHECK(status == MMSB_OK || status == MMSB_E_BUSY);
        CHECK_OK(mmsb_page_pin_many(pages, COUNT, MMSB_PIN_READ, NULL, NULL));
        CHECK_EQUAL(mmsb_page_size(pages[0]), mmsb_page_size(pages[COUNT - 1]));
        CHECK_OK(mmsb_page_unpin_many(pages, COUNT, MMSB_PIN_READ, NULL));
    }
    return NULL;
}

static void resizes_of_many_threads_are_each_of_one_moment(void) {
    mmsb_context_t context = new_context();
    crowd_t crowd;
    REQUIRE_OK(mmsb_page_create_many(context, 64, COUNT, NULL, NULL, crowd.pages));
    run_team(4, resize_and_pin, &crowd);
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    folder_make();
    RUN(a_page_says_its_id_and_location);
    RUN(pages_of_many_sizes_and_ids);
    RUN(one_bad_page_of_many_makes_none);
    RUN(many_clones);
    RUN(much_adopted_memory);
    RUN(many_pins);
    RUN(one_bad_pin_of_many_makes_none);
    RUN(pins_of_an_ended_context_end_together);
    RUN(the_last_unpin_counts_in_no_other_context);
    RUN(many_resizes);
    RUN(one_bad_resize_of_many_changes_nothing);
    RUN_IN_FOLDER(batches_are_journalled);
    RUN(resizes_of_many_threads_are_each_of_one_moment);
    folder_end();
    return check_report();
}
