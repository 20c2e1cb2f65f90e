/* Pages in two places: what of them is newer where, what moves, and what goes wrong. */
#include "folder.h"

static mmsb_context_t device_context(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = MMSB_SIMULATE_ALWAYS;
    options.simulated_devices = 2;
    options.simulated_memory = 64 << 20;
    mmsb_context_t context;
    REQUIRE(mmsb_context_create(&options, &context) == MMSB_OK);
    return context;
}

static uint64_t newer(mmsb_page_t page, size_t place) {
    mmsb_page_copy_t copies[2];
    size_t count = 0;
    CHECK_OK(mmsb_page_copies(page, copies, 2, &count));
    CHECK_EQUAL(count, 2);
    return copies[place].newer;
}

static mmsb_sync_stats_t sync_stats(mmsb_context_t context) {
    mmsb_sync_stats_t stats;
    mmsb_sync_stats_init(&stats);
    CHECK_OK(mmsb_context_sync_stats(context, &stats));
    return stats;
}

static void newer_ranges_move(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t page = new_page(context, 5000);
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 1));
    mmsb_page_copy_t copies[2];
    size_t count = 0;
    CHECK_OK(mmsb_page_copies(page, NULL, 0, &count));
    CHECK_EQUAL(count, 2);
    CHECK_STATUS(mmsb_page_copies(page, copies, 1, &count), MMSB_E_OUT_OF_RANGE);
    CHECK_OK(mmsb_page_copies(page, copies, 2, &count));
    CHECK(copies[0].location == MMSB_LOCATION_GPU && copies[0].device == 1 && copies[0].size == 5000 && copies[0].newer == 0);
    CHECK(copies[1].location == MMSB_LOCATION_CPU && copies[1].device == 0 && copies[1].size == 5000 && copies[1].newer == 0);
    CHECK_OK(mmsb_page_write(page, 63, "ab", 2));
    CHECK_EQUAL(newer(page, 1), 128);
    CHECK_EQUAL(sync_stats(context).newer_on_host, 128);
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_BOTH, 1));
    mmsb_sync_stats_t stats = sync_stats(context);
    CHECK(stats.pages == 1 && stats.bytes == 5000 && stats.to_device_bytes == 5128 && stats.to_device_ranges == 2 &&
          stats.to_host_bytes == 0 && stats.newer_on_host == 0 && stats.newer_on_device == 0);
    uint8_t got[2];
    CHECK_OK(mmsb_page_host_copy_drop(page));
    CHECK_OK(mmsb_page_read(page, 63, got, 2));
    CHECK(memcmp(got, "ab", 2) == 0);
    CHECK_OK(mmsb_page_copies(page, copies, 2, &count));
    CHECK_EQUAL(count, 1);
    CHECK_OK(mmsb_context_destroy(context));
}

/* A pinned page keeps its memory, which the device reads and writes: so does a copy that is asked for in pinned memory. */
static void pinned_memory_is_the_copy(void) {
    mmsb_context_t context = device_context();
    mmsb_page_options_t options;
    mmsb_page_copy_t copies[2];
    mmsb_page_t page;
    size_t count;
    void *before, *host;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_PINNED;
    CHECK_OK(mmsb_page_create(context, 5000, &options, &page));
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, &before));
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
    CHECK_OK(mmsb_page_write(page, 10, "kept", 4));
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 0));
    CHECK_OK(mmsb_page_copies(page, copies, 2, &count));
    CHECK(count == 2 && copies[0].location == MMSB_LOCATION_GPU && copies[1].location == MMSB_LOCATION_PINNED);
    CHECK_OK(mmsb_page_host_copy_pin(page, MMSB_PIN_READ, &host));
    CHECK(host == before && memcmp((char *)host + 10, "kept", 4) == 0);
    CHECK_OK(mmsb_page_host_copy_unpin(page, MMSB_PIN_READ));
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_PINNED, 0));
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, &host));
    CHECK(host == before);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));

    options.location = MMSB_LOCATION_GPU;
    CHECK_OK(mmsb_page_create(context, 5000, &options, &page));
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_TO_HOST | MMSB_SYNC_PINNED, 0));
    CHECK_OK(mmsb_page_copies(page, copies, 2, &count));
    CHECK(count == 2 && copies[1].location == MMSB_LOCATION_PINNED);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
    CHECK_STATUS(mmsb_page_sync(page, MMSB_SYNC_PINNED, 0), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

/* Each page has a status, also where the work ends before it has begun. */
static void work_that_never_begins_has_statuses(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t pages[2] = {new_page(context, 5000), new_page(context, 5000)}, none;
    mmsb_page_options_t taken;
    mmsb_page_options_init(&taken);
    uint64_t id = mmsb_page_id(pages[0]);
    taken.ids = &id;
    mmsb_ticket_t fails, ticket;
    REQUIRE_OK(mmsb_page_create_many_start(context, 8, 1, &taken, NULL, &none, &fails));
    CHECK_STATUS(mmsb_ticket_wait(fails, MMSB_WAIT_FOREVER), MMSB_E_ALREADY_EXISTS);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.after = &fails;
    work.after_count = 1;
    for (int way = 0; way < 6; way++) {
        mmsb_status_t statuses[2] = {99, 99}, status;
        size_t bad = 9;
        work.timeout_ns = way < 4 ? MMSB_WAIT_FOREVER : 0;
        switch (way % 4) {
        case 0:
            status = mmsb_page_migrate_many(pages, 2, MMSB_LOCATION_GPU, 0, &work, statuses, &bad);
            break;
        case 1:
            status = mmsb_page_sync_many(pages, 2, MMSB_SYNC_TO_DEVICE, 0, &work, statuses, &bad);
            break;
        case 2:
            REQUIRE_OK(mmsb_page_migrate_many_start(pages, 2, MMSB_LOCATION_GPU, 0, &work, statuses, &ticket));
            status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
            break;
        default:
            REQUIRE_OK(mmsb_page_sync_many_start(pages, 2, MMSB_SYNC_TO_DEVICE, 0, &work, statuses, &ticket));
            status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
        }
        CHECK_STATUS(status, MMSB_E_CANCELLED);
        CHECK(statuses[0] == MMSB_E_CANCELLED && statuses[1] == MMSB_E_CANCELLED);
        CHECK(mmsb_page_location(pages[0]) == MMSB_LOCATION_CPU && mmsb_page_location(pages[1]) == MMSB_LOCATION_CPU);
        if (way == 2 || way == 3)
            CHECK_OK(mmsb_ticket_destroy(ticket));
    }
    CHECK_OK(mmsb_ticket_destroy(fails));
    CHECK_OK(mmsb_context_destroy(context));
}

static void bad_input(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t page = new_page(context, 100), pages[2] = {page, page}, found[4];
    size_t bad = 9, count = 0;
    uint64_t cursor = 0;
    void *address;
    mmsb_ticket_t ticket;
    for (mmsb_sync_t direction = -1; direction < 40; direction++) {
        int good = (direction & 3) != 0 && direction > 0 && (direction & 12) != 12 && direction < 32;
        CHECK_STATUS(mmsb_page_sync(page, direction, 0), good ? MMSB_OK : MMSB_E_INVALID_ARGUMENT);
        if (!good) {
            CHECK_STATUS(mmsb_page_sync_many(pages, 2, direction, 0, NULL, NULL, &bad), MMSB_E_INVALID_ARGUMENT);
            CHECK_STATUS(mmsb_page_sync_many_start(pages, 2, direction, 0, NULL, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
            CHECK_STATUS(mmsb_page_sync_enqueue(pages, 2, direction, 0, &bad), MMSB_E_INVALID_ARGUMENT);
        }
    }
    CHECK_STATUS(mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, -1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 2), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_page_host_copy_pin(page, 3, &address), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_host_copy_pin(page, MMSB_PIN_READ, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_host_copy_unpin(page, MMSB_PIN_READ), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_context_device_pages(context, 0, &cursor, found, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_prefetch(context, NULL, 1, 0, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_page_t plain = new_page(context, 100);
    CHECK_STATUS(mmsb_page_host_copy_pin(plain, MMSB_PIN_READ, &address), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_host_copy_drop(plain)); /* it has none */
    uint8_t memory[100] = {0};
    mmsb_page_t adopted;
    CHECK_OK(mmsb_page_adopt(context, memory, 100, NULL, &adopted));
    CHECK_STATUS(mmsb_page_sync(adopted, MMSB_SYNC_TO_DEVICE, 0), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_sync(adopted, MMSB_SYNC_TO_HOST, 0)); /* it is there */
    CHECK_OK(mmsb_page_pin(plain, MMSB_PIN_READ, NULL));
    CHECK_STATUS(mmsb_page_sync(plain, MMSB_SYNC_TO_DEVICE, 0), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_unpin(plain, MMSB_PIN_READ));
    mmsb_context_t other = device_context();
    mmsb_page_t two[2] = {page, new_page(other, 100)};
    CHECK_STATUS(mmsb_page_sync_enqueue(two, 2, MMSB_SYNC_BOTH, 0, &bad), MMSB_E_MISMATCH);
    CHECK_EQUAL(bad, 1);
    CHECK_OK(mmsb_page_sync_many(two, 2, MMSB_SYNC_BOTH, 0, NULL, NULL, NULL)); /* pages of two contexts */
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_STATUS(mmsb_page_sync(page, MMSB_SYNC_BOTH, 0), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_copies(page, NULL, 0, &count), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_host_copy_drop(page), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_host_copy_pin(page, MMSB_PIN_READ, &address), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_sync_enqueue(&page, 1, MMSB_SYNC_BOTH, 0, &bad), MMSB_E_STALE_HANDLE);
    mmsb_status_t statuses[2] = {99, 99};
    mmsb_page_t some[2] = {plain, page};
    const mmsb_page_t wrong[] = {page, 0, 12345, context};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) { /* nothing happens */
        const mmsb_status_t expected = i == 0 ? MMSB_E_STALE_HANDLE : MMSB_E_INVALID_HANDLE;
        some[1] = wrong[i];
        bad = 9;
        CHECK_STATUS(mmsb_page_sync_many(some, 2, MMSB_SYNC_BOTH, 0, NULL, statuses, &bad), expected);
        CHECK(bad == 1 && statuses[0] == 99 && statuses[1] == 99);
        CHECK_EQUAL(mmsb_page_location(plain), MMSB_LOCATION_CPU);
    }
    CHECK_OK(mmsb_context_destroy(other));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Pins of the host's copy are among those of its page, but have an end of their own. */
static void pins_of_the_copy_are_apart(void) {
    for (int32_t mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
        mmsb_context_t context = device_context();
        mmsb_page_t pages[2];
        void *address;
        size_t bad = 9;
        for (size_t i = 0; i < 2; i++) {
            pages[i] = new_page(context, 5000);
            CHECK_OK(mmsb_page_sync(pages[i], MMSB_SYNC_TO_DEVICE, 0));
        }
        const mmsb_page_t page = pages[1];
        CHECK_OK(mmsb_page_host_copy_pin(page, mode, &address));
        CHECK_STATUS(mmsb_page_unpin(page, mode), MMSB_E_INVALID_STATE);
        CHECK_OK(mmsb_page_pin(pages[0], mode, NULL));
        CHECK_STATUS(mmsb_page_unpin_many(pages, 2, mode, &bad), MMSB_E_INVALID_STATE);
        CHECK_EQUAL(bad, 1);
        CHECK_STATUS(mmsb_page_destroy(pages[0]), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);

        CHECK_OK(mmsb_page_pin(page, mode, NULL)); /* an end ends one of its own kind, whichever came first */
        CHECK_OK(mmsb_page_unpin_many(pages, 2, mode, &bad));
        CHECK_STATUS(mmsb_page_unpin(page, mode), MMSB_E_INVALID_STATE);
        CHECK_OK(mmsb_page_pin(page, mode, NULL));
        CHECK_OK(mmsb_page_host_copy_unpin(page, mode));
        CHECK_STATUS(mmsb_page_host_copy_unpin(page, mode), MMSB_E_INVALID_STATE);
        CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
        CHECK_OK(mmsb_page_unpin(page, mode));
        CHECK_OK(mmsb_page_destroy(page));
        CHECK_OK(mmsb_context_destroy(context));
    }
}

/* The host's copy has an address while the context lives; its pin can be ended later. */
static void a_context_ends_before_the_pin(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t page = new_page(context, 5000);
    void *address;
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 0));
    CHECK_OK(mmsb_page_host_copy_pin(page, MMSB_PIN_WRITE, &address));
    memset(address, 7, 5000);
    CHECK_STATUS(mmsb_page_host_copy_unpin(page, MMSB_PIN_READ), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_page_host_copy_unpin(page, MMSB_PIN_WRITE));
    CHECK_STATUS(mmsb_page_host_copy_unpin(page, MMSB_PIN_WRITE), MMSB_E_STALE_HANDLE);
}

/* In a group a page moves as by a migrate; a rollback brings it back. */
static void a_group_rolls_back(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t page = new_page(context, 5000), both = new_page(context, 5000);
    write_pattern(page, 1);
    write_pattern(both, 2);
    CHECK_OK(mmsb_page_sync(both, MMSB_SYNC_TO_DEVICE, 0));
    CHECK_OK(mmsb_group_begin(context));
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_BOTH, 0));
    CHECK_OK(mmsb_page_sync(both, MMSB_SYNC_BOTH, 0));
    write_pattern(page, 3);
    write_pattern(both, 3);
    CHECK_OK(mmsb_page_sync(both, MMSB_SYNC_TO_DEVICE, 0));
    CHECK_OK(mmsb_page_migrate(both, MMSB_LOCATION_CPU, 0));
    CHECK_OK(mmsb_group_rollback(context));
    CHECK(page_holds_pattern(page, 1, 5000) && page_holds_pattern(both, 2, 5000));
    CHECK_EQUAL(mmsb_page_location(page), MMSB_LOCATION_CPU);
    CHECK_EQUAL(mmsb_page_location(both), MMSB_LOCATION_GPU);
    CHECK_OK(mmsb_page_sync(both, MMSB_SYNC_BOTH, 0));
    CHECK(page_holds_pattern(both, 2, 5000));
    CHECK_OK(mmsb_context_destroy(context));
}

/* A snapshot and a journal have what calls have written, wherever it was newer. */
static void saves_and_journals(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t pages[3];
    for (int i = 0; i < 3; i++) {
        pages[i] = new_page(context, 300000);
        write_pattern(pages[i], i);
    }
    CHECK_OK(mmsb_page_sync(pages[0], MMSB_SYNC_TO_DEVICE, 0));
    CHECK_OK(mmsb_page_sync(pages[1], MMSB_SYNC_TO_DEVICE, 0));
    CHECK_OK(mmsb_page_write(pages[0], 5, "host", 4));
    CHECK_OK(mmsb_page_pin(pages[1], MMSB_PIN_WRITE, NULL));
    CHECK_OK(mmsb_page_unpin(pages[1], MMSB_PIN_WRITE)); /* newer on the device */
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    CHECK_OK(mmsb_journal_open(context, at("journal"), &options));
    mmsb_sync_stats_t before = sync_stats(context);
    CHECK_OK(mmsb_page_write(pages[0], 100000, "x", 1));
    mmsb_sync_stats_t after = sync_stats(context);
    CHECK_EQUAL(after.to_device_bytes + after.to_host_bytes, before.to_device_bytes + before.to_host_bytes);
    CHECK_OK(mmsb_page_sync(pages[2], MMSB_SYNC_TO_DEVICE, 1));
    CHECK_OK(mmsb_page_write(pages[1], 100000, "y", 1));
    CHECK_OK(mmsb_page_sync(pages[1], MMSB_SYNC_TO_DEVICE, 0));
    CHECK_OK(mmsb_page_write(pages[2], 7, "z", 1));
    CHECK_OK(mmsb_snapshot_save(context, at("snapshot"), NULL));
    uint8_t *bytes = malloc(600000);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(mmsb_page_read(pages[i], 0, bytes, 300000));
        mmsb_context_t loaded = device_context();
        CHECK_OK(mmsb_snapshot_load(loaded, at("snapshot"), NULL));
        mmsb_page_t same;
        CHECK_OK(mmsb_page_lookup(loaded, mmsb_page_id(pages[i]), &same));
        CHECK_OK(mmsb_page_read(same, 0, bytes + 300000, 300000));
        CHECK(memcmp(bytes, bytes + 300000, 300000) == 0);
        CHECK_EQUAL(mmsb_page_location(same), MMSB_LOCATION_GPU);
        CHECK_OK(mmsb_context_destroy(loaded));
    }
    free(bytes);
    CHECK_OK(mmsb_context_destroy(context));
}

static void tickets_queue_and_registry(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t pages[6], found[2];
    uint64_t ids[7] = {12345}, synced = 0, cursor = 0;
    for (int i = 0; i < 6; i++) {
        pages[i] = new_page(context, 4096);
        ids[i + 1] = mmsb_page_id(pages[i]);
    }
    mmsb_ticket_t ticket;
    CHECK_OK(mmsb_page_sync_many_start(pages, 3, MMSB_SYNC_TO_DEVICE, 0, NULL, NULL, &ticket));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_prefetch(context, ids, 5, 0, NULL, &synced));
    CHECK_EQUAL(synced, 4);
    CHECK_OK(mmsb_context_prefetch_start(context, ids, 6, 0, NULL, &ticket));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    size_t count, all = 0;
    do {
        CHECK_OK(mmsb_context_device_pages(context, 0, &cursor, found, 2, &count));
        all += count;
    } while (count > 0);
    CHECK_EQUAL(all, 5);
    CHECK_OK(mmsb_page_sync_enqueue(pages, 6, MMSB_SYNC_TO_DEVICE, 0, NULL));
    CHECK_OK(mmsb_page_destroy(pages[0]));
    CHECK_EQUAL(sync_stats(context).queued, 6);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.timeout_ns = 60000000000;
    CHECK_OK(mmsb_context_sync_drain(context, &work, &synced));
    CHECK_EQUAL(synced, 5);
    CHECK_EQUAL(sync_stats(context).queued, 0);
    CHECK_EQUAL(mmsb_page_location(pages[5]), MMSB_LOCATION_GPU);
    CHECK_OK(mmsb_context_destroy(context));
}

static void unified_pages_are_prefetched_and_advised(void) {
    mmsb_context_t context = device_context();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_UNIFIED;
    mmsb_page_t page, other = new_page(context, 100);
    CHECK_OK(mmsb_page_create(context, 10000, &options, &page));
    CHECK_OK(mmsb_page_write(page, 0, "unified", 7));
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 1));
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_TO_HOST, 0));
    CHECK_OK(mmsb_page_sync(page, MMSB_SYNC_BOTH, 9));
    CHECK_STATUS(mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 9), MMSB_E_NO_DEVICE);
    uint8_t got[7];
    CHECK_OK(mmsb_page_read(page, 0, got, 7));
    CHECK(memcmp(got, "unified", 7) == 0);

    mmsb_page_advice_t advice, told;
    mmsb_page_advice_init(&advice);
    mmsb_page_advice_init(&told);
    CHECK(advice.preferred == MMSB_DEVICE_NONE && advice.read_mostly == 0);
    advice.preferred = 1;
    advice.read_mostly = 1;
    CHECK_OK(mmsb_page_advise(page, &advice));
    CHECK_OK(mmsb_page_resize(page, 1 << 20));
    CHECK_OK(mmsb_page_advice(page, &told));
    CHECK(told.preferred == 1 && told.read_mostly == 1);
    advice.preferred = MMSB_DEVICE_HOST;
    CHECK_OK(mmsb_page_advise(page, &advice));
    advice.preferred = 2;
    CHECK_STATUS(mmsb_page_advise(page, &advice), MMSB_E_NO_DEVICE);
    advice.preferred = -3;
    CHECK_STATUS(mmsb_page_advise(page, &advice), MMSB_E_INVALID_ARGUMENT);
    advice.preferred = 0;
    advice.read_mostly = 2;
    CHECK_STATUS(mmsb_page_advise(page, &advice), MMSB_E_INVALID_ARGUMENT);
    advice.read_mostly = 0;
    advice.reserved_word = 1;
    CHECK_STATUS(mmsb_page_advise(page, &advice), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_page_advice(page, &advice), MMSB_E_STRUCT_VERSION);
    CHECK_OK(mmsb_page_advice(page, &told));
    CHECK(told.preferred == MMSB_DEVICE_HOST && told.read_mostly == 1);
    CHECK_STATUS(mmsb_page_advice(page, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_page_advise(page, NULL));
    CHECK_OK(mmsb_page_advice(page, &told));
    CHECK(told.preferred == MMSB_DEVICE_NONE && told.read_mostly == 0);
    CHECK_STATUS(mmsb_page_advise(other, NULL), MMSB_E_UNSUPPORTED);
    CHECK_STATUS(mmsb_page_advice(other, &told), MMSB_E_UNSUPPORTED);
    CHECK_STATUS(mmsb_page_advise(context, NULL), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_STATUS(mmsb_page_advise(page, NULL), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(context));

    uint32_t distance;
    const uint64_t latencies[] = {1, 1000001, 400000};
    CHECK_OK(mmsb_prefetch_distance(NULL, 0, &distance));
    CHECK_EQUAL(distance, 4);
    CHECK_OK(mmsb_prefetch_distance(latencies, 2, &distance));
    CHECK_EQUAL(distance, 8);
    CHECK_OK(mmsb_prefetch_distance(latencies, 1, &distance));
    CHECK_EQUAL(distance, 2);
    CHECK_STATUS(mmsb_prefetch_distance(NULL, 1, &distance), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_prefetch_distance(latencies, 2, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_prefetch_distance(latencies, SIZE_MAX, &distance), MMSB_E_INVALID_SIZE);
}

int main(void) {
    folder_make();
    RUN(newer_ranges_move);
    RUN(pinned_memory_is_the_copy);
    RUN(work_that_never_begins_has_statuses);
    RUN(bad_input);
    RUN(pins_of_the_copy_are_apart);
    RUN(a_context_ends_before_the_pin);
    RUN(a_group_rolls_back);
    RUN_IN_FOLDER(saves_and_journals);
    RUN(tickets_queue_and_registry);
    RUN(unified_pages_are_prefetched_and_advised);
    folder_end();
    return check_report();
}
