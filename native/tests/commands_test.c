/*
 * Command buffers without Go: a stand-in hands out memory, threads of the test are the workers. Nothing counts as done before it
 * is, no command is lost or done twice, nobody sleeps beside work, and buffers end under all that uses them. Meant for
 * ThreadSanitizer.
 *
 * With the argument `steps` it does what shows each time and ends at the first failure: tests/mutations plants bugs. With
 * `storms` it does the rest.
 */
#include "../../tests/check.h"

#include "../access.h"
#include "../commands.h"
#include "../delta.h"
#include "../gate.h"
#include "../life.h"
#include "../look.h"
#include "stage.h"

#define CONTEXT_INDEX 7
#define REGION 1
#define REGION_BYTES (UINT64_C(64) << 20)
#define SECONDS UINT64_C(1000000000)

/* ------------------------------------------------------------------------------------- what Go does otherwise ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_index = 1;
static uint64_t next_offset, context_handle;

static mmsb_status_t refill(uint64_t context, uint32_t class_number, uint64_t *handles, uint32_t capacity, uint32_t *count) {
    (void)context;
    pthread_mutex_lock(&lock);
    const uint64_t size = mmsb__class_size(class_number);
    uint32_t made = 0;
    for (; made < capacity && made < 8; made++) {
        CHECK(next_index < MMSB__LEAF_RECORDS * 8 && next_offset + size <= REGION_BYTES);
        mmsb__record_t *record = mmsb__record_at(next_index);
        record->locator = MMSB__LOCATOR(REGION, next_offset);
        next_offset += size;
        mmsb__dirty_none(record);
        __atomic_store_n(&record->state, MMSB__STATE(MMSB__STATE_FREE, 1, (uint64_t)class_number << MMSB__CLASS_SHIFT),
                         __ATOMIC_RELEASE);
        handles[made] = MMSB__HANDLE(MMSB_KIND_PAGE, 1, next_index++);
    }
    *count = made;
    pthread_mutex_unlock(&lock);
    return MMSB_OK;
}

/* The page before a page of the row is its parent. */
enum { ROW = 40, SIZE = 192 };
static mmsb_page_t row[ROW];

static size_t parents(const mmsb_page_t *pages, size_t count, mmsb_page_t *all, size_t capacity, uint64_t *counts) {
    size_t needed = 0;
    for (size_t i = 0; i < count; i++) {
        counts[i] = 0;
        if (needed < capacity)
            all[needed] = pages[i];
        needed++;
        for (int j = 1; j < ROW; j++) {
            if (row[j] != pages[i])
                continue;
            counts[i] = 1;
            if (needed < capacity)
                all[needed] = row[j - 1];
            needed++;
        }
    }
    return needed;
}

static mmsb_status_t check_cycle(const mmsb_page_t *pages, size_t count) {
    (void)pages;
    (void)count;
    return MMSB_OK;
}

/* A worker that goes to sleep says so before it asks for the barrier that lets producers do without one. */
static mmsb__commands_t *watched;
static uint32_t barriers, early_barriers, looking;

__attribute__((no_sanitize_address)) long syscall(long number, ...) { /* it may read more than there is */
    va_list list;
    va_start(list, number);
    const stage_call_t call = stage_call(number, list);
    va_end(list);
    __atomic_add_fetch(&looking, 1, __ATOMIC_SEQ_CST);
    mmsb__commands_t *commands = __atomic_load_n(&watched, __ATOMIC_SEQ_CST);
    if (commands && stage_is_barrier(&call)) {
        __atomic_add_fetch(&barriers, 1, __ATOMIC_RELAXED);
        if (__atomic_load_n(&commands->asleep, __ATOMIC_RELAXED) == 0)
            __atomic_add_fetch(&early_barriers, 1, __ATOMIC_RELAXED);
    }
    __atomic_sub_fetch(&looking, 1, __ATOMIC_SEQ_CST);
    return stage_ask(&call);
}

static void start(void) {
    stage_table(8, CONTEXT_INDEX, REGION, REGION_BYTES);
    mmsb__upcalls.refill = refill;
    mmsb__upcalls.parents = parents;
    mmsb__upcalls.check_cycle = check_cycle;
    mmsb__context_record_t *record = mmsb__context_record(CONTEXT_INDEX);
    record->index = CONTEXT_INDEX;
    record->id_factor = record->id_inverse = 1;
    context_handle = MMSB__HANDLE(MMSB_KIND_CONTEXT, 1, CONTEXT_INDEX);
    __atomic_store_n(&record->generation, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&record->handle, context_handle, __ATOMIC_RELEASE);
    for (int i = 0; i < ROW; i++)
        REQUIRE(mmsb__page_create_small(context_handle, SIZE, 1, &row[i]) == MMSB_OK);
}

/* ------------------------------------------------------------------------------------------------------- helpers ---- */

static uint32_t generations[MMSB__COMMANDS_MOST + 1];

static uint64_t open_buffer(uint32_t index, uint64_t capacity, uint32_t workers) {
    const uint64_t handle = MMSB__HANDLE(MMSB_KIND_COMMANDS, ++generations[index], index);
    REQUIRE(mmsb__commands_open(handle, capacity, workers, 0) == MMSB_OK);
    return handle;
}

static void *work(void *handle) {
    mmsb__commands_work((uint64_t)(uintptr_t)handle);
    return NULL;
}

static pthread_t start_worker(uint64_t handle) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, work, (void *)(uintptr_t)handle) == 0);
    return thread;
}

static mmsb_status_t enqueue(uint64_t handle, mmsb_page_t page, const mmsb_page_t *dependencies, size_t count, uint64_t timeout) {
    if (mmsb__commands_enqueue_fast(handle, page, dependencies, count))
        return MMSB_OK;
    return mmsb__commands_enqueue_slow(handle, page, dependencies, count, timeout);
}

static mmsb_commands_stats_t stats_of(uint64_t handle) {
    mmsb_commands_stats_t stats = {.struct_size = sizeof stats};
    CHECK(mmsb__commands_stats(handle, &stats) == MMSB_OK);
    return stats;
}

/* A delta of one byte. */
static void set(mmsb_page_t page, uint64_t offset, uint8_t value) {
    const mmsb_run_t run = {offset, 1};
    const mmsb_delta_t delta = {
        .struct_size = sizeof delta, .kind = MMSB_DELTA_RUNS, .runs = &run, .count = 1, .payload = &value};
    CHECK(mmsb__page_apply(page, &delta) == MMSB_OK);
}

static uint8_t byte_at(mmsb_page_t page, uint64_t offset) {
    uint8_t byte = 0;
    CHECK(mmsb__page_read(page, offset, &byte, 1) == MMSB_OK);
    return byte;
}

static void await(const uint32_t *word, uint32_t value) {
    while (__atomic_load_n(word, __ATOMIC_RELAXED) != value)
        sched_yield();
}

/* --------------------------------------------------------------------------------------------------------- steps ---- */

/* The worker waits for the lock of the page, so that the command is being executed as long as the test wants. */
static void nothing_counts_as_done_before_it_is(void) {
    const uint64_t handle = open_buffer(1, 2, 1);
    pthread_t worker = start_worker(handle);
    mmsb__record_t *record;
    uint64_t state;
    set(row[0], 3, 9);
    CHECK(mmsb__page_lock(row[1], &record, &state) == MMSB_OK);
    for (int i = 0; i < 2; i++)
        CHECK(enqueue(handle, row[1], &row[0], 1, 0) == MMSB_OK);
    CHECK(mmsb__commands_wait(handle, SECONDS / 20) == MMSB_E_TIMEOUT);
    CHECK(enqueue(handle, row[1], &row[0], 1, 0) == MMSB_E_WOULD_BLOCK); /* their slots are in use */
    mmsb_commands_stats_t stats = stats_of(handle);
    CHECK_EQUAL(stats.done, 0);
    CHECK_EQUAL(stats.depth, 2);
    mmsb__page_unlock(record, state);
    CHECK(mmsb__commands_wait(handle, MMSB_WAIT_FOREVER) == MMSB_OK);
    CHECK_EQUAL(byte_at(row[1], 3), 9);
    stats = stats_of(handle);
    CHECK_EQUAL(stats.done, 2);
    CHECK_EQUAL(stats.depth, 0);
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
    pthread_join(worker, NULL);
}

static void a_worker_that_sleeps_is_woken(void) {
    const uint64_t handle = open_buffer(1, 2, 1);
    pthread_t worker = start_worker(handle);
    CHECK(enqueue(handle, row[2], NULL, 0, 0) == MMSB_OK);
    mmsb__commands_t *commands = mmsb__self->lanes->commands;
    for (int i = 0; i < 50; i++) {
        __atomic_store_n(&watched, commands, __ATOMIC_SEQ_CST);
        await(&commands->asleep, 1);
        check_sleep_ms(1);
        __atomic_store_n(&watched, NULL, __ATOMIC_SEQ_CST);
        await(&looking, 0);
        CHECK(enqueue(handle, row[2], NULL, 0, 0) == MMSB_OK);
        CHECK(mmsb__commands_wait(handle, 20 * SECONDS) == MMSB_OK);
    }
    CHECK(__atomic_load_n(&barriers, __ATOMIC_RELAXED) > 0);
    CHECK_EQUAL(__atomic_load_n(&early_barriers, __ATOMIC_RELAXED), 0);
    CHECK_EQUAL(stats_of(handle).done, 51);
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
    pthread_join(worker, NULL);
}

static void *drain_all(void *handle) {
    uint64_t executed;
    CHECK(mmsb__commands_drain((uint64_t)(uintptr_t)handle, 0, &executed) == MMSB_OK);
    return NULL;
}

/* While the worker is at a command another thread drains, too: it is executed once. */
static void a_ring_has_one_drainer(void) {
    const uint64_t handle = open_buffer(1, 2, 1);
    pthread_t worker = start_worker(handle), other;
    mmsb__record_t *record;
    uint64_t state;
    set(row[0], 7, 1);
    CHECK(mmsb__page_lock(row[1], &record, &state) == MMSB_OK);
    const uint64_t epoch = record->epoch;
    CHECK(enqueue(handle, row[1], &row[0], 1, 0) == MMSB_OK);
    await(&mmsb__self->lanes->claimed, 1);
    REQUIRE(pthread_create(&other, NULL, drain_all, (void *)(uintptr_t)handle) == 0);
    check_sleep_ms(50);
    mmsb__page_unlock(record, state);
    pthread_join(other, NULL);
    CHECK(mmsb__commands_wait(handle, MMSB_WAIT_FOREVER) == MMSB_OK);
    CHECK_EQUAL(stats_of(handle).done, 1);
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
    pthread_join(worker, NULL);
    CHECK_EQUAL(record->epoch, epoch + 1);
}

/* The first dependency comes behind all that was enqueued before, over the end of a ring that is no power of two. */
static void a_ring_goes_round(void) {
    const uint64_t handle = open_buffer(1, 3, 0);
    uint64_t executed;
    for (int i = 0; i < 200; i++) {
        const uint8_t value = (uint8_t)(i + 1);
        set(row[0], 5, value);
        CHECK(enqueue(handle, row[1], &row[0], 1, 0) == MMSB_OK);
        CHECK(enqueue(handle, row[2], &row[1], 1, 0) == MMSB_OK);
        CHECK(enqueue(handle, row[3], NULL, 0, 0) == MMSB_OK);
        CHECK(enqueue(handle, row[3], NULL, 0, 0) == MMSB_E_WOULD_BLOCK);
        CHECK(mmsb__commands_drain(handle, 2, &executed) == MMSB_OK);
        CHECK_EQUAL(executed, 2);
        CHECK_EQUAL(byte_at(row[2], 5), value);
        CHECK(byte_at(row[3], 5) != value);
        CHECK(mmsb__commands_drain(handle, 0, &executed) == MMSB_OK);
        CHECK_EQUAL(byte_at(row[3], 5), value);
    }
    mmsb_commands_stats_t stats = stats_of(handle);
    CHECK_EQUAL(stats.peak, 3);
    CHECK_EQUAL(stats.done, 600);
    CHECK_EQUAL(stats.refused, 200);
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
}

static void *enqueue_some(void *argument) {
    const uint64_t handle = (uint64_t)(uintptr_t)argument;
    for (int i = 1; i < 10; i++)
        CHECK(enqueue(handle, row[i], &row[i - 1], 1, 0) == MMSB_OK);
    return NULL;
}

static void commands_of_ended_threads_are_executed(void) {
    const uint64_t handle = open_buffer(1, 100, 0);
    set(row[0], 7, 77);
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, enqueue_some, (void *)(uintptr_t)handle) == 0);
        pthread_join(thread, NULL);
    }
    CHECK_EQUAL(stats_of(handle).producers, 5);
    CHECK_EQUAL(stats_of(handle).depth, 45);
    CHECK(mmsb__commands_wait(handle, MMSB_WAIT_FOREVER) == MMSB_OK);
    CHECK_EQUAL(byte_at(row[9], 7), 77);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, enqueue_some, (void *)(uintptr_t)handle) == 0);
    pthread_join(thread, NULL);
    CHECK_EQUAL(stats_of(handle).producers, 5); /* an empty ring is used again */
    CHECK(mmsb__commands_wait(handle, MMSB_WAIT_FOREVER) == MMSB_OK);
    CHECK_EQUAL(stats_of(handle).done, 54);
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
    CHECK_EQUAL(mmsb__commands_bytes(), 0);
}

static void a_closed_buffer_takes_nothing(void) {
    const uint64_t handle = open_buffer(1, 8, 0);
    for (int i = 0; i < 5; i++) { /* all ways of enqueuing */
        CHECK(enqueue(handle, row[2], &row[0], 1, 0) == MMSB_OK);
        if (i >= 3)
            CHECK(mmsb__commands_wait(handle, MMSB_WAIT_FOREVER) == MMSB_OK);
    }
    CHECK(mmsb__commands_close(handle, 0, 0) == MMSB_OK);
    CHECK(enqueue(handle, row[2], &row[0], 1, 0) == MMSB_E_INVALID_STATE);
    CHECK_EQUAL(stats_of(handle).enqueued, 5);
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
}

static void a_cancel_leaves_what_is_being_executed(void) {
    const uint64_t handle = open_buffer(1, 8, 1);
    pthread_t worker = start_worker(handle);
    mmsb__record_t *record;
    uint64_t state;
    set(row[0], 11, 5);
    CHECK(mmsb__page_lock(row[1], &record, &state) == MMSB_OK);
    const mmsb_page_t many[] = {row[0], row[0], row[0], row[0], row[0], row[0], row[0], row[0]};
    for (int i = 0; i < 3; i++)
        CHECK(enqueue(handle, row[1], many, 8, 0) == MMSB_OK);
    mmsb__lane_t *lane = mmsb__self->lanes;
    await(&lane->claimed, 1);
    check_sleep_ms(10);
    CHECK(mmsb__commands_close(handle, 1, 0) == MMSB_E_WOULD_BLOCK);
    CHECK(mmsb__commands_close(handle, 1, SECONDS / 50) == MMSB_E_TIMEOUT);
    CHECK(enqueue(handle, row[1], &row[0], 1, 0) == MMSB_E_INVALID_STATE);
    mmsb__page_unlock(record, state);
    CHECK(mmsb__commands_close(handle, 1, MMSB_WAIT_FOREVER) == MMSB_OK);
    mmsb_commands_stats_t stats = stats_of(handle);
    CHECK_EQUAL(stats.done, 1);
    CHECK_EQUAL(stats.cancelled, 2);
    CHECK_EQUAL(stats.depth, 0);
    CHECK_EQUAL(byte_at(row[1], 11), 5);
    pthread_join(worker, NULL); /* it leaves a buffer that is closed and empty */
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
}

/* A thread's lane of a buffer that has ended is no other buffer's. */
static void lanes_end_with_their_buffer(void) {
    uint64_t first = open_buffer(1, 4, 0), second = open_buffer(2, 4, 0);
    for (int i = 0; i < 20; i++) {
        CHECK(enqueue(second, row[2], &row[1], 1, 0) == MMSB_OK);
        for (int k = 0; k < 2; k++)
            CHECK(enqueue(first, row[2], &row[1], 1, 0) == MMSB_OK);
        CHECK(mmsb__commands_wait(first, MMSB_WAIT_FOREVER) == MMSB_OK);
        CHECK(enqueue(first, row[2], &row[1], 1, 0) == MMSB_OK); /* the next one would take the short way */
        CHECK(mmsb__commands_end(first) == MMSB_OK);
        CHECK(enqueue(0, row[2], &row[1], 0, 0) == MMSB_E_INVALID_HANDLE);
        CHECK(enqueue(first, row[2], &row[1], 1, 0) == MMSB_E_STALE_HANDLE);
        CHECK(mmsb__commands_end(first) == MMSB_E_STALE_HANDLE);
        CHECK(mmsb__commands_wait(first, 0) == MMSB_E_STALE_HANDLE);
        CHECK(enqueue(0, row[2], &row[1], 1, 0) == MMSB_E_INVALID_HANDLE);
        first = open_buffer(1, 4, 0);
        CHECK_EQUAL(stats_of(first).enqueued, 0);
        CHECK(mmsb__commands_wait(second, MMSB_WAIT_FOREVER) == MMSB_OK);
        CHECK_EQUAL(stats_of(second).done, i + 1);
    }
    CHECK(mmsb__commands_end(first) == MMSB_OK);
    CHECK(mmsb__commands_end(second) == MMSB_OK);
    CHECK_EQUAL(mmsb__commands_bytes(), 0);
}

/* -------------------------------------------------------------------------------------------------------- storms ---- */

enum { PRODUCERS = 4, LINKS = 12 };

/* Each producer has a chain of pages, and what it sets in the first one goes down the chain, whoever drains. */
static void *run_chain(void *argument) {
    const team_member_t *member = argument;
    const uint64_t handle = *(const uint64_t *)member->shared;
    mmsb_page_t chain[LINKS];
    for (int i = 0; i < LINKS; i++)
        CHECK(mmsb__page_create_small(context_handle, SIZE, 1, &chain[i]) == MMSB_OK);
    for (int round = 1; round < 60; round++) {
        set(chain[0], (uint64_t)round, (uint8_t)round);
        for (int i = 1; i < LINKS; i++)
            CHECK(enqueue(handle, chain[i], &chain[i - 1], 1, MMSB_WAIT_FOREVER) == MMSB_OK);
        if (round % 4 == 0) {
            CHECK(mmsb__commands_wait(handle, MMSB_WAIT_FOREVER) == MMSB_OK);
            CHECK_EQUAL(byte_at(chain[LINKS - 1], (uint64_t)round), round);
            CHECK_EQUAL(byte_at(chain[LINKS - 1], (uint64_t)round - 1), round - 1);
        }
    }
    return NULL;
}

static void chains_keep_their_order(void) {
    for (uint32_t workers = 1; workers <= 3; workers++) {
        uint64_t handle = open_buffer(1, 20, workers);
        pthread_t threads[3];
        for (uint32_t i = 0; i < workers; i++)
            threads[i] = start_worker(handle);
        run_team(PRODUCERS, run_chain, &handle);
        CHECK(mmsb__commands_close(handle, 0, MMSB_WAIT_FOREVER) == MMSB_OK);
        CHECK_EQUAL(stats_of(handle).done, PRODUCERS * 59 * (LINKS - 1));
        for (uint32_t i = 0; i < workers; i++)
            pthread_join(threads[i], NULL);
        CHECK(mmsb__commands_end(handle) == MMSB_OK);
    }
}

/* One thread opens, closes and ends buffers while others use them in every way: counts add up, and each call has a code that
 * fits. */
typedef struct shared {
    uint64_t handle;
    uint32_t stop;
    uint64_t enqueued;
} shared_t;

static int fits(mmsb_status_t status) {
    return status == MMSB_OK || status == MMSB_E_STALE_HANDLE || status == MMSB_E_INVALID_STATE || status == MMSB_E_WOULD_BLOCK ||
           status == MMSB_E_TIMEOUT;
}

static void *use_buffers(void *argument) {
    const team_member_t *member = argument;
    shared_t *shared = member->shared;
    uint64_t seed = member->index, executed;
    while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
        const uint64_t handle = __atomic_load_n(&shared->handle, __ATOMIC_RELAXED);
        const uint64_t i = 1 + random_below(&seed, ROW - 1), what = random_below(&seed, 20);
        const mmsb_page_t many[9] = {row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[i - 1]};
        mmsb_status_t status;
        if (what == 0)
            status = mmsb__commands_wait(handle, random_below(&seed, 2) ? SECONDS / 1000 : 0);
        else if (what == 1)
            status = mmsb__commands_drain(handle, random_below(&seed, 3), &executed);
        else if (what == 2)
            status = mmsb__commands_stats(handle, &(mmsb_commands_stats_t){.struct_size = sizeof(mmsb_commands_stats_t)});
        else if (what == 3 && i > 8)
            status = enqueue(handle, row[i], many, 9, SECONDS / 1000);
        else if (what == 4)
            status = enqueue(handle, row[i], NULL, 0, SECONDS / 1000);
        else
            status = enqueue(handle, row[i], &row[i - 1], 1, what < 10 ? 0 : SECONDS / 1000);
        CHECK(fits(status));
    }
    return NULL;
}

static void *open_and_end(void *argument) {
    shared_t *shared = argument;
    uint64_t seed = 99;
    for (int round = 0; round < 150; round++) {
        const uint32_t workers = (uint32_t)random_below(&seed, 3);
        const uint64_t handle = open_buffer(1, 1 + random_below(&seed, 8), workers);
        pthread_t threads[3];
        for (uint32_t i = 0; i < workers; i++)
            threads[i] = start_worker(handle);
        __atomic_store_n(&shared->handle, handle, __ATOMIC_RELAXED);
        check_sleep_ms((long)random_below(&seed, 5));
        const uint64_t how = random_below(&seed, 3);
        if (how > 0) {
            CHECK(mmsb__commands_close(handle, how == 1, MMSB_WAIT_FOREVER) == MMSB_OK);
            const mmsb_commands_stats_t stats = stats_of(handle);
            CHECK_EQUAL(stats.depth, 0);
            CHECK_EQUAL(stats.enqueued, stats.done + stats.cancelled);
            CHECK(how == 1 || stats.cancelled == 0);
            CHECK(stats.peak <= stats.capacity);
            shared->enqueued += stats.enqueued;
        }
        CHECK(mmsb__commands_end(handle) == MMSB_OK);
        for (uint32_t i = 0; i < workers; i++)
            pthread_join(threads[i], NULL);
    }
    __atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void buffers_end_under_work(void) {
    shared_t shared = {.handle = 0};
    pthread_t opener;
    const uint64_t handle = open_buffer(1, 1, 0); /* for the first calls */
    shared.handle = handle;
    CHECK(mmsb__commands_end(handle) == MMSB_OK);
    REQUIRE(pthread_create(&opener, NULL, open_and_end, &shared) == 0);
    run_team(3, use_buffers, &shared);
    pthread_join(opener, NULL);
    CHECK(shared.enqueued > 0);
    CHECK_EQUAL(mmsb__commands_bytes(), 0);
}

int main(int argument_count, char **arguments) {
    const char *mode = argument_count > 1 ? arguments[1] : "";
    check_stops = strcmp(mode, "") != 0;
    start();
    if (strcmp(mode, "storms") != 0) {
        RUN(nothing_counts_as_done_before_it_is);
        RUN(a_worker_that_sleeps_is_woken);
        RUN(a_ring_has_one_drainer);
        RUN(a_ring_goes_round);
        RUN(commands_of_ended_threads_are_executed);
        RUN(a_closed_buffer_takes_nothing);
        RUN(a_cancel_leaves_what_is_being_executed);
        RUN(lanes_end_with_their_buffer);
    }
    if (strcmp(mode, "steps") != 0) {
        RUN(chains_keep_their_order);
        RUN(buffers_end_under_work);
    }
    return check_report();
}
