/*
 * Concurrency: calls on one page take effect one after the other, batches whole or not at all, one destroy wins, and nothing
 * breaks while contexts end under the calls of other threads.
 */
#include "library.h"
#include "test_hooks.h"

enum { WRITERS = 3, READERS = 3, THREADS = WRITERS + READERS, LARGEST = 20000 };

typedef struct shared_page {
    mmsb_context_t context;
    mmsb_page_t page;
    mmsb_page_t second;
    int stop;
    uint64_t done; /* calls of writers */
} shared_page_t;

static int stopped(shared_page_t *shared) {
    return __atomic_load_n(&shared->stop, __ATOMIC_RELAXED);
}

/* All of these bytes are one value? */
static int uniform(const uint8_t *bytes, uint64_t length) {
    return length < 2 || memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* ------------------------------------------------- whole-page writes, deltas, resizes and moves, seen by readers ---- */

static void *write_whole_pages(shared_page_t *shared, uint64_t index) {
    uint8_t *bytes = malloc(LARGEST);
    uint64_t seed = index;
    for (int i = 0; i < 1500; i++) {
        memset(bytes, (int)random_below(&seed, 256), LARGEST);
        uint64_t size = mmsb_page_size(shared->page);
        mmsb_status_t status;
        switch (random_below(&seed, 8)) {
        case 0:
            CHECK_OK(mmsb_page_migrate(shared->page, random_below(&seed, 2) == 0 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU, 0));
            break;
        case 1: {
            const mmsb_run_t run = {0, size};
            mmsb_delta_t delta = one_run(&run, bytes);
            status = mmsb_page_apply(shared->page, &delta);
            CHECK(status == MMSB_OK || status == MMSB_E_OUT_OF_RANGE);
            break;
        }
        case 2: /* by one thread only and only ever smaller: what a resize adds would be zero */
            if (index == 0) {
                CHECK_OK(mmsb_page_resize(shared->page, size - random_below(&seed, size / 50 + 1)));
            }
            break;
        default: {
            /* Refused where the page has become smaller since its size was asked for. */
            mmsb_page_range_t range = {shared->page, 0, size, bytes};
            status = random_below(&seed, 2) == 0 ? mmsb_page_write(shared->page, 0, bytes, size)
                                                 : mmsb_page_write_many(&range, 1, NULL);
            CHECK(status == MMSB_OK || status == MMSB_E_OUT_OF_RANGE);
        }
        }
        __atomic_add_fetch(&shared->done, 1, __ATOMIC_RELAXED);
    }
    free(bytes);
    return NULL;
}

static void *read_whole_pages(shared_page_t *shared, uint64_t index) {
    uint8_t *bytes = malloc(LARGEST);
    uint64_t last_epoch = 0;
    uint64_t last_version = 0;
    while (!stopped(shared)) {
        uint64_t size = mmsb_page_size(shared->page);
        REQUIRE(size >= 1 && size <= LARGEST);
        mmsb_status_t status = mmsb_page_read(shared->page, 0, bytes, size);
        CHECK(status == MMSB_OK || status == MMSB_E_OUT_OF_RANGE);
        if (status == MMSB_OK && !uniform(bytes, size)) {
            check_fail(__FILE__, __LINE__, "a page of %llu bytes was seen half-changed", (unsigned long long)size);
        }
        uint64_t epoch = mmsb_page_epoch(shared->page);
        uint64_t version = mmsb_page_version(shared->page);
        CHECK(epoch >= last_epoch && version >= last_version);
        last_epoch = epoch;
        last_version = version;
        if (index % 2 == 0) {
            mmsb_page_info_t info = page_info(shared->page);
            CHECK(info.size >= 1 && info.size <= LARGEST && info.epoch >= epoch && info.version >= version);
        }
    }
    free(bytes);
    return NULL;
}

static void *whole_pages(void *argument) {
    team_member_t *member = argument;
    shared_page_t *shared = member->shared;
    if (member->index >= WRITERS) {
        return read_whole_pages(shared, member->index);
    }
    write_whole_pages(shared, member->index);
    if (__atomic_load_n(&shared->done, __ATOMIC_RELAXED) >= WRITERS * 1500) {
        __atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void no_page_is_seen_half_changed(void) {
    mmsb_context_t context = new_context();
    for (int round = 0; round < 3; round++) {
        static const uint64_t sizes[] = {LARGEST, 4096, 200};
        shared_page_t shared = {context, new_page(context, sizes[round]), 0, 0, 0};
        run_team(THREADS, whole_pages, &shared);
        CHECK_OK(mmsb_page_destroy(shared.page));
    }
    CHECK_OK(mmsb_test_check(context));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------- every delta counts once ---- */

typedef struct counted {
    mmsb_page_t pages[4];
    uint64_t applied[4];
} counted_t;

static void *count_deltas(void *argument) {
    team_member_t *member = argument;
    counted_t *counted = member->shared;
    uint64_t seed = member->index + 100;
    for (int i = 0; i < 800; i++) {
        mmsb_page_t pages[6];
        mmsb_delta_t deltas[6];
        uint64_t count = 1 + random_below(&seed, 6);
        uint64_t chosen[6];
        const mmsb_run_t run = {member->index, 1};
        for (uint64_t k = 0; k < count; k++) {
            chosen[k] = random_below(&seed, 4);
            pages[k] = counted->pages[chosen[k]];
            deltas[k] = one_run(&run, "x");
        }
        if (random_below(&seed, 10) == 0) {
            CHECK_OK(mmsb_page_migrate(counted->pages[0], i % 2 == 0 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU, 0));
            CHECK_OK(mmsb_page_resize(counted->pages[1], 100 + random_below(&seed, 5000)));
        }
        CHECK_OK(count == 1 ? mmsb_page_apply(pages[0], deltas) : mmsb_page_apply_many(pages, deltas, count, NULL));
        for (uint64_t k = 0; k < count; k++) {
            __atomic_add_fetch(&counted->applied[chosen[k]], 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void every_delta_counts_once(void) {
    mmsb_context_t context = new_context();
    counted_t counted = {{0}, {0}};
    for (int i = 0; i < 4; i++) {
        counted.pages[i] = new_page(context, 100 + 1000 * (uint64_t)i);
    }
    run_team(8, count_deltas, &counted);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(mmsb_page_epoch(counted.pages[i]), counted.applied[i]);
        uint8_t bytes[8];
        CHECK_OK(mmsb_page_read(counted.pages[i], 0, bytes, 8));
        CHECK(memcmp(bytes, "xxxxxxxx", 8) == 0);
        uint64_t set = 0;
        CHECK_OK(mmsb_page_mask_count(counted.pages[i], &set));
        CHECK_EQUAL(set, 8);
    }
    CHECK_OK(mmsb_test_check(context));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ----------------------------------------------------------------- batches over sets of pages that overlap ---- */

enum { BATCH_PAGES = 12, BATCH_SIZE = 500 };

typedef struct batches {
    mmsb_page_t pages[BATCH_PAGES];
    int writing;
} batches_t;

/* Writers put one value on all pages in one batch, readers read all in one batch, each in an order of its own. */
static void *overlapping_batches(void *argument) {
    team_member_t *member = argument;
    batches_t *batches = member->shared;
    uint64_t seed = member->index + 5;
    uint8_t values[BATCH_PAGES][BATCH_SIZE];
    int writer = member->index < 4;
    for (int i = 0; writer ? i < 1500 : __atomic_load_n(&batches->writing, __ATOMIC_RELAXED) > 0; i++) {
        mmsb_page_range_t ranges[BATCH_PAGES];
        size_t order[BATCH_PAGES];
        for (size_t k = 0; k < BATCH_PAGES; k++) {
            order[k] = k;
        }
        for (size_t k = BATCH_PAGES - 1; k > 0; k--) {
            size_t other = random_below(&seed, k + 1);
            size_t kept = order[k];
            order[k] = order[other];
            order[other] = kept;
        }
        for (size_t k = 0; k < BATCH_PAGES; k++) {
            ranges[k] = (mmsb_page_range_t){batches->pages[order[k]], 0, BATCH_SIZE, values[k]};
        }
        if (writer) {
            memset(values, (int)random_below(&seed, 256), sizeof values);
            if (random_below(&seed, 4) == 0) { /* one bad item: nothing of it may be seen */
                size_t place = random_below(&seed, BATCH_PAGES);
                ranges[place].offset = 1;
                size_t bad = 99;
                CHECK_STATUS(mmsb_page_write_many(ranges, BATCH_PAGES, &bad), MMSB_E_OUT_OF_RANGE);
                CHECK_EQUAL(bad, place);
            } else if (random_below(&seed, 2) == 0) {
                CHECK_OK(mmsb_page_write_many(ranges, BATCH_PAGES, NULL));
            } else {
                mmsb_page_t pages[BATCH_PAGES];
                mmsb_delta_t deltas[BATCH_PAGES];
                const mmsb_run_t run = {0, BATCH_SIZE};
                for (size_t k = 0; k < BATCH_PAGES; k++) {
                    pages[k] = ranges[k].page;
                    deltas[k] = one_run(&run, values[k]);
                }
                CHECK_OK(mmsb_page_apply_many(pages, deltas, BATCH_PAGES, NULL));
            }
        } else {
            CHECK_OK(mmsb_page_read_many(ranges, BATCH_PAGES, NULL));
            if (!uniform(&values[0][0], sizeof values)) {
                check_fail(__FILE__, __LINE__, "a batch was seen in part");
            }
        }
    }
    if (writer) {
        __atomic_sub_fetch(&batches->writing, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void batches_are_seen_whole(void) {
    mmsb_context_t contexts[2] = {new_context(), new_context()};
    batches_t batches = {{0}, 4};
    for (int i = 0; i < BATCH_PAGES; i++) {
        batches.pages[i] = i % 6 == 5 ? new_disk_page(contexts[0], BATCH_SIZE) : new_page(contexts[i % 2], BATCH_SIZE);
    }
    run_team(8, overlapping_batches, &batches);
    CHECK_OK(mmsb_test_check(contexts[0]));
    CHECK_OK(mmsb_context_destroy(contexts[0]));
    CHECK_OK(mmsb_test_check(contexts[1]));
    CHECK_OK(mmsb_context_destroy(contexts[1]));
}

/* ----------------------------------------------------------------------------------------- one destroy wins ---- */

typedef struct race {
    pthread_barrier_t barrier;
    mmsb_context_t context;
    mmsb_page_t pages[2];
    int won;
} race_t;

static void *race_to_destroy(void *argument) {
    team_member_t *member = argument;
    race_t *race = member->shared;
    for (int i = 0; i < 1500; i++) {
        if (member->index == 0) {
            race->pages[0] = new_page(race->context, 100);
            race->pages[1] = new_page(race->context, 100);
            race->won = 0;
        }
        pthread_barrier_wait(&race->barrier);
        mmsb_status_t status;
        if (member->index == 2) {
            void *memory = NULL;
            uint64_t size;
            status = mmsb_page_release(race->pages[0], &memory, &size);
            if (status == MMSB_OK) {
                CHECK_OK(mmsb_memory_free(memory));
            }
        } else {
            status = mmsb_page_destroy(race->pages[0]);
        }
        CHECK(status == MMSB_OK || status == MMSB_E_STALE_HANDLE);
        __atomic_add_fetch(&race->won, status == MMSB_OK, __ATOMIC_SEQ_CST);
        /* The same for two batches. */
        const mmsb_page_t pair[2] = {race->pages[1], 0};
        if (member->index < 2) {
            status = mmsb_page_destroy_many(pair, 2, NULL);
            CHECK(status == MMSB_OK || status == MMSB_E_STALE_HANDLE);
            __atomic_add_fetch(&race->won, status == MMSB_OK, __ATOMIC_SEQ_CST);
        }
        pthread_barrier_wait(&race->barrier);
        if (member->index == 0) {
            CHECK_EQUAL(race->won, 2);
        }
        pthread_barrier_wait(&race->barrier);
    }
    return NULL;
}

static void one_destroy_wins(void) {
    race_t race = {.context = new_context()};
    pthread_barrier_init(&race.barrier, NULL, 3);
    run_team(3, race_to_destroy, &race);
    pthread_barrier_destroy(&race.barrier);
    CHECK_EQUAL(context_stats(race.context).pages, 0);
    CHECK_OK(mmsb_test_check(race.context));
    CHECK_OK(mmsb_context_destroy(race.context));
}

/* ------------------------------------------------------------ everything at once, while contexts come and go ---- */

enum { STORM_PAGES = 64 };

typedef struct storm {
    mmsb_context_t context;
    mmsb_page_t pages[STORM_PAGES]; /* any of them may be stale at any moment */
    int stop;
} storm_t;

static int expected_in_a_storm(mmsb_status_t status) {
    return status == MMSB_OK || status == MMSB_E_STALE_HANDLE || status == MMSB_E_BUSY || status == MMSB_E_OUT_OF_RANGE ||
           status == MMSB_E_INVALID_STATE || status == MMSB_E_NOT_FOUND || status == MMSB_E_ALREADY_EXISTS ||
           status == MMSB_E_MISMATCH || status == MMSB_E_INVALID_ARGUMENT || status == MMSB_E_EPOCH;
}

#define STORM(call) \
    do { \
        mmsb_status_t storm_status = (call); \
        if (!expected_in_a_storm(storm_status)) { \
            check_fail(__FILE__, __LINE__, "%s answered %d: %s", #call, (int)storm_status, mmsb_last_error()); \
        } \
    } while (0)

static void *storm(void *argument) {
    team_member_t *member = argument;
    storm_t *shared = member->shared;
    uint64_t seed = member->index + 31;
    uint8_t bytes[300] = {0};
    if (member->index == 0) { /* contexts end under everybody's feet */
        for (int i = 0; i < 300; i++) {
            check_sleep_ms(2);
            mmsb_context_t next = new_context();
            mmsb_context_t ended = __atomic_exchange_n(&shared->context, next, __ATOMIC_SEQ_CST);
            CHECK_OK(mmsb_context_destroy(ended));
        }
        __atomic_store_n(&shared->stop, 1, __ATOMIC_SEQ_CST);
        return NULL;
    }
    while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
        mmsb_context_t context = __atomic_load_n(&shared->context, __ATOMIC_SEQ_CST);
        uint64_t place = random_below(&seed, STORM_PAGES);
        mmsb_page_t page = __atomic_load_n(&shared->pages[place], __ATOMIC_RELAXED);
        mmsb_page_t other = __atomic_load_n(&shared->pages[random_below(&seed, STORM_PAGES)], __ATOMIC_RELAXED);
        const mmsb_run_t run = {random_below(&seed, 100), random_below(&seed, 50)};
        mmsb_delta_t delta = one_run(&run, bytes);
        mmsb_page_t made = 0;
        switch (random_below(&seed, 16)) {
        case 0:
        case 1:
        case 2:
            STORM(mmsb_page_create(context, 1 + random_below(&seed, 300), NULL, &made));
            if (made != 0) {
                STORM(mmsb_page_destroy(__atomic_exchange_n(&shared->pages[place], made, __ATOMIC_SEQ_CST)));
            }
            break;
        case 3:
            STORM(mmsb_page_destroy(page));
            break;
        case 4: {
            uint64_t size = 0;
            void *address = mmsb_page_address(page);
            size = mmsb_page_size(page);
            CHECK(size <= 6000);
            CHECK(address == NULL || (uintptr_t)address % 64 == 0);
            mmsb_page_epoch(page);
            mmsb_page_version(page);
            break;
        }
        case 5:
            if (page != 0) {
                STORM(mmsb_page_write(page, 0, bytes, random_below(&seed, 200)));
            }
            break;
        case 6:
            if (page != 0) {
                STORM(mmsb_page_read(page, random_below(&seed, 100), bytes, random_below(&seed, 200)));
            }
            break;
        case 7:
            if (page != 0) {
                STORM(mmsb_page_apply(page, &delta));
            }
            break;
        case 8:
            if (page != 0) {
                STORM(mmsb_page_resize(page, 1 + random_below(&seed, 6000)));
            }
            break;
        case 9:
            if (page != 0) {
                STORM(mmsb_page_migrate(page, random_below(&seed, 2) == 0 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU, 0));
            }
            break;
        case 10:
            if (page != 0) {
                void *address = NULL;
                mmsb_status_t status = mmsb_page_pin(page, MMSB_PIN_READ, &address);
                STORM(status);
                if (status == MMSB_OK) { /* the first byte is there whatever happens to page and context meanwhile */
                    CHECK(*(volatile uint8_t *)address <= 255);
                    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
                }
            }
            break;
        case 11:
            if (page != 0) {
                STORM(mmsb_page_metadata_set(page, "key", 3, bytes, random_below(&seed, 100)));
                STORM(mmsb_page_metadata_remove(page, "key", 3));
            }
            break;
        case 12:
            if (page != 0 && other != 0) {
                STORM(mmsb_page_dependency_add(page, other));
                STORM(mmsb_page_dependency_remove(page, other));
            }
            break;
        case 13:
            if (page != 0) {
                STORM(mmsb_page_clone(page, 0, &made));
                STORM(mmsb_page_destroy(made));
            }
            break;
        case 14: {
            mmsb_context_stats_t stats;
            mmsb_context_stats_init(&stats);
            STORM(mmsb_context_stats(context, &stats));
            uint64_t cursor = 0;
            mmsb_page_t listed[20];
            size_t count = 0;
            STORM(mmsb_context_pages(context, &cursor, listed, 20, &count));
            STORM(mmsb_context_trim(context, NULL));
            break;
        }
        default:
            if (page != 0 && other != 0) {
                const mmsb_page_t pair[2] = {page, other};
                const mmsb_delta_t deltas[2] = {delta, delta};
                STORM(mmsb_page_apply_many(pair, deltas, 2, NULL));
                mmsb_delta_t *difference = NULL;
                STORM(mmsb_delta_from_pages(page, other, &difference));
                CHECK_OK(mmsb_delta_free(difference));
            }
        }
    }
    return NULL;
}

static void storms_break_nothing(void) {
    storm_t shared = {.context = new_context()};
    run_team(8, storm, &shared);
    CHECK_OK(mmsb_test_check(shared.context));
    CHECK_OK(mmsb_context_destroy(shared.context));
}

/* Many threads use the library first, and end while their caches hold pages. */
static void *come_and_go(void *argument) {
    team_member_t *member = argument;
    mmsb_context_t context = *(mmsb_context_t *)member->shared;
    mmsb_page_t pages[50];
    for (int i = 0; i < 50; i++) {
        pages[i] = new_page(context, 64);
    }
    for (int i = 0; i < 50; i++) {
        CHECK_OK(mmsb_page_destroy(pages[i]));
    }
    return NULL;
}

static void threads_come_and_go(void) {
    mmsb_context_t context = new_context();
    for (int round = 0; round < 20; round++) {
        run_team(32, come_and_go, &context);
    }
    mmsb_context_stats_t stats = context_stats(context);
    CHECK_EQUAL(stats.pages, 0);
    CHECK_EQUAL(stats.allocations, 20 * 32 * 50);
    CHECK_EQUAL(stats.frees, 20 * 32 * 50);
    CHECK(stats.memory_used < 64 << 20); /* what ended threads held is used again */
    CHECK_OK(mmsb_test_check(context));
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    RUN(no_page_is_seen_half_changed);
    RUN(every_delta_counts_once);
    RUN(batches_are_seen_whole);
    RUN(one_destroy_wins);
    RUN(storms_break_nothing);
    RUN(threads_come_and_go);
    return check_report();
}
