/*
 * Records, thread caches, depots and locks without Go: a stand-in hands out memory. Threads create, destroy, write and batch over
 * the same pages; nothing may be handed out twice, lost, or seen half-done. Meant for ThreadSanitizer. Other cases go step by
 * step, so that what they look for shows each time.
 *
 * With the argument `steps` it does these alone and ends at the first failure: tests/mutations plants bugs, which they must show.
 */
#include "../../tests/check.h"

#include "../access.h"
#include "../bytes.h"
#include "../delta_batch.h"
#include "../frame.h"
#include "../gate.h"
#include "../guard.h"
#include "../id.h"
#include "../life.h"
#include "../look.h"
#include "../mask.h"
#include "../pin.h"
#include "../watch.h"
#include "stage.h"
#include "whole.h"

#include <signal.h>

#define THREADS 4
#define CONTEXT_INDEX 7
#define REGION 1
#define REGION_BYTES (UINT64_C(256) << 20)

/* ------------------------------------------------------------------------------------- what Go does otherwise ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_index = 1;
static uint64_t next_offset, context_handle;
static uint32_t generation;
static uint32_t refills; /* under the lock */

static mmsb_status_t refill(uint64_t context, uint32_t class_number, uint64_t *handles, uint32_t capacity, uint32_t *count) {
    pthread_mutex_lock(&lock);
    mmsb_status_t status = MMSB_OK;
    if (context != context_handle)
        status = mmsb__fail(MMSB_E_STALE_HANDLE, "the context has ended");
    uint32_t made = 0;
    refills++;
    uint64_t size = mmsb__class_size(class_number);
    for (; status == MMSB_OK && made < capacity && made < 8; made++) {
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
    return status;
}

static uint64_t begin_context(void) {
    mmsb__context_record_t *record = mmsb__context_record(CONTEXT_INDEX);
    pthread_mutex_lock(&lock);
    record->index = CONTEXT_INDEX;
    record->id_factor = record->id_inverse = 1;
    context_handle = MMSB__HANDLE(MMSB_KIND_CONTEXT, ++generation, CONTEXT_INDEX);
    __atomic_store_n(&record->generation, generation, __ATOMIC_RELAXED);
    __atomic_store_n(&record->handle, context_handle, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return context_handle;
}

/* Stands for all pages that Go ends. */
static uint32_t ended;

static void end(uint32_t index, uint64_t state) {
    ended++;
    mmsb__context_add(CONTEXT_INDEX, 0, 1, 0, mmsb__record_at(index)->size);
    __atomic_store_n(&mmsb__record_at(index)->state, MMSB__STATE(MMSB__STATE_RETIRED, MMSB__HANDLE_GENERATION(state), 0),
                     __ATOMIC_RELEASE);
}

/* What the library asks of the kernel passes here: whether it was asked for a barrier cannot be told from what threads see, but
 * by luck. */
static uint32_t barriers, early_barriers;
static const uint64_t *closed_by_then;

long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    const stage_call_t call = stage_call(number, list);
    va_end(list);
    if (stage_is_barrier(&call)) {
        barriers++;
        early_barriers += closed_by_then && __atomic_load_n(closed_by_then, __ATOMIC_RELAXED) != 0;
    }
    return stage_ask(&call);
}

static void start(void) {
    stage_table(8, CONTEXT_INDEX, REGION, REGION_BYTES);
    mmsb__upcalls.refill = refill;
    mmsb__upcalls.end = end;
}

static void run_threads(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static uint64_t create(uint64_t size, int zeroed) {
    mmsb_page_t page = 0;
    if (!mmsb__page_create_fast(context_handle, size, zeroed, &page, NULL)) {
        mmsb_status_t status = mmsb__page_create_small(context_handle, size, zeroed, &page);
        CHECK(status == MMSB_OK);
    }
    return page;
}

/* ------------------------------------------------------------------------------------------------------ looks ---- */

/* The next touch of a system page lets the test look at the library in the middle of a call. */
#define SYSTEM_PAGE 4096
static uint8_t *volatile fence;
static void (*look)(void);

static void at_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (fence == NULL || (uintptr_t)info->si_addr / SYSTEM_PAGE != (uintptr_t)fence / SYSTEM_PAGE) {
        signal(number, SIG_DFL);
        return;
    }
    mprotect(fence, SYSTEM_PAGE, PROT_READ | PROT_WRITE);
    fence = NULL;
    look();
}

static void look_at_touch(void *bytes, void (*what)(void)) {
    struct sigaction action = {.sa_sigaction = at_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    look = what;
    fence = (uint8_t *)((uintptr_t)bytes / SYSTEM_PAGE * SYSTEM_PAGE);
    CHECK(mprotect(fence, SYSTEM_PAGE, PROT_NONE) == 0);
}

static int touched(void) {
    signal(SIGSEGV, SIG_DFL);
    return fence == NULL;
}

/* ------------------------------------------------------------------------------------------------- the depot ---- */

/* Magazines whose handles are only numbers, in caches that belong to no thread: of any shard, in any order. */
#define NUMBERS 65536
#define NUMBERED (MMSB__SMALL_CLASSES - 1) /* size class */
static uint64_t next_number;
static uint8_t taken[NUMBERS];
static uint64_t numbers_taken;

static void begin_numbers(void) {
    begin_context();
    next_number = numbers_taken = 0;
    memset(taken, 0, sizeof taken);
}

static mmsb__cache_t cache_of(uint32_t shard) {
    return (mmsb__cache_t){
        .context = context_handle, .context_index = CONTEXT_INDEX, .shard = shard, .owner = mmsb__context_record(CONTEXT_INDEX)};
}

/* Leaves full magazines in the depot. */
static void give(mmsb__cache_t *cache, uint32_t magazines) {
    for (uint32_t i = 0; i < magazines + 2; i++) { /* what the cache has goes as well */
        CHECK(mmsb__magazine_make_space(cache, NUMBERED) == MMSB_OK);
        mmsb__magazine_t *magazine = cache->loaded[NUMBERED];
        CHECK(magazine->count == 0);
        for (; i < magazines && magazine->count < MMSB__MAGAZINE_ROUNDS; magazine->count++)
            magazine->handles[magazine->count] = next_number++;
    }
    CHECK(next_number <= NUMBERS);
}

static void note(const uint64_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        CHECK(numbers[i] < next_number);
        if (numbers[i] < next_number)
            CHECK(taken[numbers[i]]++ == 0); /* else it was in two places */
    }
    numbers_taken += count;
}

static void note_loaded(mmsb__cache_t *cache) {
    note(cache->loaded[NUMBERED]->handles, cache->loaded[NUMBERED]->count);
    cache->loaded[NUMBERED]->count = 0;
}

/* Fetches the cache a magazine: 1 where it comes from the depot, 0 where it is fresh memory. */
static int fetch(mmsb__cache_t *cache) {
    const uint32_t before = refills;
    CHECK(mmsb__magazine_refill(cache, NUMBERED) == MMSB_OK);
    if (refills == before)
        return 1;
    cache->loaded[NUMBERED]->count = 0;
    return 0;
}

static uint32_t take_the_rest(void) {
    uint64_t numbers[MMSB__MAGAZINE_ROUNDS];
    uint32_t magazines = 0, count;
    for (; magazines < NUMBERS && (count = mmsb__depot_take(mmsb__context_record(CONTEXT_INDEX), NUMBERED, numbers)) != 0;
         magazines++)
        note(numbers, count);
    return magazines;
}

static void end_numbers(void) {
    take_the_rest();
    CHECK(numbers_taken == next_number); /* else some are lost */
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

static void the_depot_gives_what_it_got(void) {
    begin_numbers();
    mmsb__cache_t giver = cache_of(3), taker = cache_of(3);
    give(&giver, 5);
    for (int i = 0; i < 5; i++) {
        CHECK(fetch(&taker));
        CHECK(taker.loaded[NUMBERED]->count == MMSB__MAGAZINE_ROUNDS);
        note_loaded(&taker);
    }
    CHECK(!fetch(&taker));
    end_numbers();
}

/* With a bug planted the library calls this where another thread may come between. */
static void (*meanwhile)(void);

void test_meanwhile(void);
void test_meanwhile(void) {
    void (*todo)(void) = meanwhile;
    meanwhile = NULL;
    if (todo)
        todo();
}

static mmsb__cache_t thieves[2];

/* Two are taken off the stack, and the first is put back: it is on top again, but another lies below. */
static void take_two_and_put_one_back(void) {
    CHECK(fetch(&thieves[0]) && fetch(&thieves[1]));
    CHECK(mmsb__magazine_make_space(&thieves[0], NUMBERED) == MMSB_OK &&
          mmsb__magazine_make_space(&thieves[0], NUMBERED) == MMSB_OK);
}

static void a_head_that_came_back_is_another(void) {
    begin_numbers();
    mmsb__cache_t giver = cache_of(3), taker = cache_of(3);
    thieves[0] = thieves[1] = cache_of(3);
    give(&giver, 4);
    meanwhile = take_two_and_put_one_back;
    CHECK(fetch(&taker));
    test_meanwhile(); /* at the latest */
    note_loaded(&taker);
    note_loaded(&thieves[1]);
    CHECK(fetch(&taker));
    note_loaded(&taker);
    CHECK(fetch(&taker));
    note_loaded(&taker);
    CHECK(!fetch(&taker));
    end_numbers();
}

static void fresh_memory_comes_before_the_last_of_other_shards(void) {
    begin_numbers();
    mmsb__cache_t giver = cache_of(9), taker = cache_of(2), mover = cache_of(5);
    give(&giver, MMSB__SHARD_KEEPS);
    CHECK(!fetch(&taker));
    give(&giver, 2);
    CHECK(fetch(&taker));
    note_loaded(&taker);
    CHECK(fetch(&taker));
    note_loaded(&taker);
    CHECK(!fetch(&taker));
    give(&giver, 1);
    CHECK(fetch(&mover)); /* what was high in one stack lies low in another */
    CHECK(mmsb__magazine_make_space(&mover, NUMBERED) == MMSB_OK && mmsb__magazine_make_space(&mover, NUMBERED) == MMSB_OK);
    CHECK(!fetch(&taker));
    CHECK(fetch(&giver)); /* its own shard gives all it has */
    note_loaded(&giver);
    CHECK(take_the_rest() == MMSB__SHARD_KEEPS);
    end_numbers();
}

static void an_empty_magazine_serves_every_shard(void) {
    begin_numbers();
    mmsb__cache_t giver = cache_of(3), taker = cache_of(9);
    uint64_t bytes = 0;
    for (int round = 0; round < 4; round++) {
        give(&giver, 8);
        CHECK(take_the_rest() == 8); /* into shard 0 */
        give(&giver, MMSB__SHARD_KEEPS + 8);
        while (fetch(&taker))
            note_loaded(&taker);
        CHECK(take_the_rest() == MMSB__SHARD_KEEPS);
        bytes = round == 1 ? mmsb__cache_bytes() : bytes; /* by then the caches have what they keep */
    }
    CHECK(mmsb__cache_bytes() == bytes);
    end_numbers();
}

/* Magazines go round; a thread that has one is the only one. */
#define ROUND_MAGAZINES 48

static mmsb_status_t nothing_left(uint64_t context, uint32_t class_number, uint64_t *handles, uint32_t capacity,
                                  uint32_t *count) {
    (void)context, (void)class_number, (void)handles, (void)capacity;
    *count = 0;
    return MMSB_E_OUT_OF_MEMORY;
}

static void *pass_magazines(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument + 5;
    mmsb__cache_t cache = cache_of((uint32_t)(uintptr_t)argument % 2);
    for (int i = 0; i < 3000; i++) {
        if (mmsb__magazine_refill(&cache, NUMBERED) == MMSB_OK) {
            mmsb__magazine_t *magazine = cache.loaded[NUMBERED];
            CHECK(magazine->count == MMSB__MAGAZINE_ROUNDS);
            CHECK(__atomic_exchange_n(&taken[magazine->handles[0]], 1, __ATOMIC_RELAXED) == 0);
            if (rand_r(&seed) % 64 == 0)
                sched_yield();
            CHECK(__atomic_exchange_n(&taken[magazine->handles[0]], 0, __ATOMIC_RELAXED) == 1);
            CHECK(mmsb__magazine_make_space(&cache, NUMBERED) == MMSB_OK &&
                  mmsb__magazine_make_space(&cache, NUMBERED) == MMSB_OK);
        }
    }
    return NULL;
}

static void magazines_go_round(void) {
    begin_numbers();
    mmsb__cache_t giver = cache_of(0);
    give(&giver, ROUND_MAGAZINES);
    mmsb__upcalls.refill = nothing_left;
    run_threads(pass_magazines);
    mmsb__upcalls.refill = refill;
    CHECK(take_the_rest() == ROUND_MAGAZINES);
    end_numbers();
}

/* ------------------------------------------------------------------------------------------------ step by step ---- */

static const uint64_t each_size[] = {1, 64, 130, 192, 500, 4096};
#define SIZES (sizeof each_size / sizeof *each_size)

static uint64_t state_of(uint64_t page) {
    return mmsb__state_load(mmsb__record_of(page));
}

static uint64_t live_state(uint64_t page, uint64_t size) {
    return MMSB__STATE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(page), mmsb__class_of(size));
}

static uint64_t free_state(uint64_t page, uint64_t size) {
    return MMSB__STATE(MMSB__STATE_FREE, MMSB__HANDLE_GENERATION(page) + 1, mmsb__class_of(size));
}

/* The ways there are to create and to destroy. */
static uint64_t create_by(int way, uint64_t size, int zeroed) {
    mmsb_page_t page = 0;
    if (way == 0)
        CHECK(mmsb__page_create_fast(context_handle, size, zeroed, &page, NULL));
    else if (way == 1)
        CHECK(mmsb__page_create_small(context_handle, size, zeroed, &page) == MMSB_OK);
    else
        CHECK(mmsb__page_create_many(context_handle, size, 1, zeroed, &page) == MMSB_OK);
    CHECK(mmsb__current->busy == 0);
    return page;
}

static void destroy_by(int way, uint64_t page) {
    if (way == 0)
        CHECK(mmsb__page_destroy_fast(page));
    else if (way == 1)
        CHECK(mmsb__page_destroy_slow(page) == MMSB_OK);
    else
        CHECK(mmsb__page_destroy_many(&page, 1, NULL) == MMSB_OK);
    CHECK(mmsb__current->busy == 0);
}

static void each_page_has_a_handle_of_its_own(void) {
    begin_context();
    for (size_t s = 0; s < SIZES; s++) {
        const uint64_t size = each_size[s];
        mmsb_page_t pages[2];
        CHECK(mmsb__page_create_many(context_handle, size, 2, 0, pages) == MMSB_OK);
        uint64_t first = pages[0], last = pages[1];
        CHECK(MMSB__HANDLE_INDEX(first) != MMSB__HANDLE_INDEX(last));
        for (int way = 0; way < 9; way++) {
            CHECK(state_of(last) == live_state(last, size));
            CHECK(mmsb__page_look(last, MMSB__FIELD_SIZE) == size);
            destroy_by(way % 3, last);
            CHECK(state_of(last) == free_state(last, size));
            CHECK(mmsb__page_destroy_slow(last) == MMSB_E_STALE_HANDLE && !mmsb__page_destroy_fast(last));
            uint64_t next = create_by(way / 3, size, 0), other = create_by(way / 3, size, 0);
            CHECK(next == mmsb__page_next(last)); /* what was used last is in the processor's cache */
            CHECK(MMSB__HANDLE_INDEX(other) != MMSB__HANDLE_INDEX(next));
            CHECK(mmsb__page_look(last, MMSB__FIELD_SIZE) == 0);
            CHECK(mmsb__page_destroy_slow(last) == MMSB_E_STALE_HANDLE && !mmsb__page_destroy_fast(last));
            destroy_by(way % 3, other);
            last = next;
        }
        pages[1] = last;
        CHECK(mmsb__page_destroy_many(pages, 2, NULL) == MMSB_OK);
    }
    uint64_t creates, frees, bytes_created, bytes_freed;
    mmsb__context_record_t *context = mmsb__context_record(CONTEXT_INDEX);
    const uint64_t creates_before = context->creates, bytes_before = context->bytes_created;
    mmsb__context_count(context, &creates, &frees, &bytes_created, &bytes_freed);
    CHECK(creates - creates_before == SIZES * 20 && creates == frees && bytes_created == bytes_freed);
    uint64_t bytes = 0;
    for (size_t s = 0; s < SIZES; s++)
        bytes += 20 * each_size[s];
    CHECK(bytes_created - bytes_before == bytes);
    mmsb__context_detach(context);
}

static void pages_in_use_stay(void) {
    begin_context();
    mmsb_page_t pages[3] = {create(100, 1), create(100, 1), create(100, 1)};
    const uint64_t page = pages[1];
    for (int mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
        CHECK(mmsb__page_pin_fast(page, mode, NULL));
        CHECK(!mmsb__page_destroy_fast(page));
        CHECK(mmsb__page_destroy_slow(page) == MMSB_E_BUSY);
        size_t bad = 99;
        CHECK(mmsb__page_destroy_many(pages, 3, &bad) == MMSB_E_BUSY && bad == 1);
        for (int i = 0; i < 3; i++)
            CHECK(state_of(pages[i]) == live_state(pages[i], 100));
        CHECK(mmsb__page_unpin_fast(page, mode));
    }
    CHECK(mmsb__page_lock_library(page) == MMSB_OK);
    const uint64_t locked = live_state(page, 100) | MMSB__OWNER_LIBRARY;
    CHECK(!mmsb__page_pin_fast(page, MMSB_PIN_READ, NULL) && state_of(page) == locked);
    CHECK(!mmsb__page_destroy_fast(page) && state_of(page) == locked);
    size_t bad = 99;
    __atomic_store_n(&mmsb__record_of(page)->state, locked | MMSB__MOVING, __ATOMIC_RELEASE);
    CHECK(mmsb__page_destroy_slow(page) == MMSB_E_BUSY);
    CHECK(mmsb__page_destroy_many(pages, 3, &bad) == MMSB_E_BUSY && bad == 1);
    CHECK(mmsb__page_resize_in_place(page, 50) == MMSB_E_BUSY);
    CHECK(mmsb__page_lock_library_unless_moving(page) == MMSB_E_BUSY);
    CHECK(state_of(page) == (locked | MMSB__MOVING) && state_of(pages[0]) == live_state(pages[0], 100));
    mmsb__record_unlock(MMSB__HANDLE_INDEX(page), live_state(page, 100));
    mmsb_run_t run = {5, 1};
    uint8_t payload = 9;
    mmsb_delta_t delta = {.struct_size = sizeof delta, .kind = MMSB_DELTA_RUNS, .runs = &run, .count = 1, .payload = &payload};
    CHECK(mmsb__page_apply_many(&page, &delta, 1, NULL) == MMSB_OK);
    CHECK(!mmsb__page_destroy_fast(page)); /* it has a change mask */
    CHECK(mmsb__page_destroy_many(pages, 3, NULL) == MMSB_OK);
    CHECK(mmsb__mask_bytes == 0 && mmsb__record_of(page)->mask_frame == 0);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

static void an_id_in_use_goes_to_go(void) {
    begin_context();
    uint64_t page = create(64, 1);
    mmsb__record_t *record = mmsb__record_of(page);
    destroy_by(0, page);
    for (int marked = 1; marked >= 0; marked--) {
        mmsb_page_t pages[2];
        __atomic_store_n(&record->id_taken, (uint8_t)marked, __ATOMIC_RELAXED);
        for (int zeroed = 0; zeroed < 2 && marked; zeroed++) {
            CHECK(!mmsb__page_create_fast(context_handle, 64, zeroed, pages, NULL));
            CHECK(mmsb__page_create_small(context_handle, 64, zeroed, pages) == MMSB__ENTER_GO);
            CHECK(mmsb__page_create_many(context_handle, 64, 2, zeroed, pages) == MMSB__ENTER_GO);
            CHECK(mmsb__state_load(record) == free_state(page, 64) && mmsb__current->busy == 0);
        }
    }
    CHECK(create(64, 1) == mmsb__page_next(page));
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* Go makes the pages that are guarded, and counts them. */
static void every_nth_page_goes_to_go(void) {
    for (uint64_t every = 1; every <= 7; every += 2) {
        mmsb_page_t pages[8];
        mmsb__guard_set(CONTEXT_INDEX, every);
        begin_context();
        for (uint64_t i = 0; i < 50; i++) {
            const int guarded = i % every == 0;
            CHECK(!mmsb__page_create_fast(context_handle, 64, 0, pages, NULL));
            CHECK(mmsb__page_create_small(context_handle, 64, 0, pages) == (guarded ? MMSB__ENTER_GO : MMSB_OK));
            CHECK(!guarded || mmsb__guard_next(CONTEXT_INDEX) == 1);
        }
        mmsb__guard_set(CONTEXT_INDEX, every);
        for (int i = 0; i < 5; i++) {
            CHECK(mmsb__page_create_many(context_handle, 64, 1, 0, pages) == MMSB__ENTER_GO);
            CHECK(mmsb__page_create_many(context_handle, 64, every, 0, pages) == MMSB__ENTER_GO);
            CHECK(mmsb__guard_next(CONTEXT_INDEX) == 1);
            CHECK(mmsb__page_create_many(context_handle, 64, every - 1, 0, pages) == MMSB_OK);
        }
        mmsb__guard_set(CONTEXT_INDEX, 0);
        CHECK(mmsb__guard_next(CONTEXT_INDEX) == 0);
        mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
    }
    CHECK_EQUAL(mmsb__guards, 0);
}

static mmsb_status_t tell(uint32_t context) {
    CHECK_EQUAL(context, CONTEXT_INDEX);
    mmsb__guard_report(context, 0);
    return mmsb__fail(MMSB_E_GUARD, "page 1 was written");
}

static void a_report_is_told_instead_of_a_change(void) {
    mmsb__upcalls.tell_report = tell;
    begin_context();
    mmsb_page_t page = create(64, 1), other;
    mmsb__guard_set(CONTEXT_INDEX, 1000);
    CHECK(mmsb__guard_next(CONTEXT_INDEX) == 1); /* the next ones are native code's */
    const mmsb__record_t *record = mmsb__record_of(page);
    uint8_t byte = 1;
    mmsb_page_range_t range = {.page = page, .buffer = &byte, .length = 1};
    for (int call = 0; call < 5; call++) {
        mmsb__guard_report(CONTEXT_INDEX, 1);
        CHECK(mmsb__watched());
        const uint64_t version = record->version;
        CHECK(mmsb__page_create_small(context_handle, 64, 1, &other) == MMSB__ENTER_GO);
        CHECK(mmsb__page_read(page, 0, &byte, 1) == MMSB_OK && byte == 0);
        for (int again = 0; again < 2; again++) {
            byte = 0;
            mmsb_status_t status = call == 0   ? mmsb__page_write(page, 0, &byte, 1)
                                   : call == 1 ? mmsb__page_write_many(&range, 1, NULL)
                                   : call == 2 ? mmsb__page_pin(page, MMSB_PIN_WRITE, NULL)
                                   : call == 3 ? mmsb__page_resize_in_place(page, 63)
                                               : mmsb__page_mask_clear(page);
            CHECK_EQUAL(status, again ? MMSB_OK : MMSB_E_GUARD);
            CHECK(again || record->version == version);
            CHECK(!mmsb__watched());
            CHECK(status != MMSB_OK || call != 2 || mmsb__page_unpin(page, MMSB_PIN_WRITE) == MMSB_OK);
        }
    }
    mmsb__guard_report(CONTEXT_INDEX, 1);
    CHECK(mmsb__page_destroy_many(&page, 1, NULL) == MMSB_OK); /* gives something back */
    CHECK(mmsb__watched());
    mmsb__guard_report(CONTEXT_INDEX, 0);
    mmsb__guard_set(CONTEXT_INDEX, 0);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

static void release_ended(uint32_t index) {
    mmsb__context_record_t *context = mmsb__context_record(CONTEXT_INDEX);
    ended++;
    context->frees++;
    context->bytes_freed += 64;
    mmsb__page_unlock_record(mmsb__record_at(index), MMSB__STATE(MMSB__STATE_FREE, 2, 0));
}

/* A write pin is its thread's, in a context, until the unpin: also where the context has ended, and another one has its index. */
static void pins_of_an_ended_context_are_forgotten(void) {
    const uint32_t leaf = 0, other = CONTEXT_INDEX + 2;
    mmsb__upcalls.release_ended = release_ended;
    begin_context();
    mmsb_page_t page = create(64, 1);
    for (int i = 0; i < 2; i++)
        CHECK(mmsb__page_pin(page, MMSB_PIN_WRITE, NULL) == MMSB_OK);
    CHECK_EQUAL(mmsb__writing_own(CONTEXT_INDEX), 2);
    mmsb__writing_note(other);
    REQUIRE(MMSB__HANDLE_INDEX(page) >> MMSB__LEAF_BITS == leaf);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
    mmsb__record_become(mmsb__record_of(page), MMSB__STATE(MMSB__STATE_ENDED, MMSB__HANDLE_GENERATION(page), 0));
    CHECK(mmsb__page_unpin(page, MMSB_PIN_WRITE) == MMSB_OK); /* while the context is ending */
    CHECK_EQUAL(mmsb__writing_own(CONTEXT_INDEX), 1);
    mmsb__table.leaf_ended[leaf] = CONTEXT_INDEX;
    mmsb__table.leaf_context[leaf] = 0;
    ended = 0;
    CHECK(mmsb__page_unpin(page, MMSB_PIN_WRITE) == MMSB_OK);
    CHECK_EQUAL(ended, 1);
    CHECK_EQUAL(mmsb__writing_own(CONTEXT_INDEX), 0);
    CHECK_EQUAL(mmsb__writing_own(other), 1);
    CHECK_EQUAL(mmsb__writing_own(0), 0);
    mmsb__writing_forget(other);
    mmsb__table.leaf_context[leaf] = CONTEXT_INDEX;
}

static mmsb__record_t *waited_for;

/* Ends a wait that would have no end. */
static void let_go(int signal) {
    (void)signal;
    mmsb__record_become(waited_for, mmsb__state_held(waited_for) & ~MMSB__OWNER_MASK);
}

/* A handler's call for the page that the interrupted call has locked. */
static void a_thread_does_not_wait_for_itself(void) {
    signal(SIGALRM, let_go);
    begin_context();
    mmsb_page_t page = create(64, 1);
    uint8_t byte = 1;
    mmsb__record_t *record;
    uint64_t state;
    REQUIRE(mmsb__page_lock(page, &record, &state) == MMSB_OK);
    waited_for = record;
    alarm(2);
    CHECK_EQUAL(mmsb__page_write(page, 0, &byte, 1), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(mmsb__page_read(page, 0, &byte, 1), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(mmsb__page_pin(page, MMSB_PIN_READ, NULL), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(mmsb__page_destroy_slow(page), MMSB_E_INVALID_STATE);
    alarm(0);
    signal(SIGALRM, SIG_DFL);
    mmsb__page_unlock(record, state);
    CHECK_EQUAL(mmsb__page_write(page, 0, &byte, 1), MMSB_OK);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

static void the_last_generation_is_the_last(void) {
    begin_context();
    ended = 0;
    for (int way = 1; way <= 2; way++) {
        uint64_t page = create(64, 1);
        destroy_by(0, page);
        mmsb__magazine_t *magazine = mmsb__current->loaded[0];
        uint64_t *handle = &magazine->handles[magazine->count - 1];
        CHECK(*handle == mmsb__page_next(page));
        *handle = MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__GENERATION_MAX, MMSB__HANDLE_INDEX(page));
        __atomic_store_n(&mmsb__record_of(page)->state, MMSB__STATE(MMSB__STATE_FREE, MMSB__GENERATION_MAX, 0), __ATOMIC_RELEASE);
        page = create(64, 1);
        CHECK(MMSB__HANDLE_GENERATION(page) == MMSB__GENERATION_MAX);
        CHECK(!mmsb__page_destroy_fast(page) && state_of(page) == live_state(page, 64));
        destroy_by(way, page);
        CHECK(ended == (uint32_t)way && MMSB__HANDLE_KIND(state_of(page)) == MMSB__STATE_RETIRED);
    }
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

static void zeroed_pages_are_zero(void) {
    static const uint64_t ranges[][2] = {{0, 1}, {15, 1}, {16, 17}, {100, 300}, {0, 512}, {511, 1}, {63, 2}};
    uint8_t bytes[512], zeros[512] = {0};
    begin_context();
    memset(bytes, 0xff, sizeof bytes);
    for (int way = 0; way < 3; way++) {
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            uint8_t got[512];
            uint64_t page = create(512, 1);
            CHECK(mmsb__page_write(page, ranges[r][0], bytes, ranges[r][1]) == MMSB_OK);
            destroy_by(0, page);
            mmsb_page_t next;
            if (way != 0 ||
                !mmsb__page_create_fast(context_handle, 512, 1, &next, NULL)) /* which leaves long ranges to the other */
                next = create_by(way == 0 ? 1 : way, 512, 1);
            CHECK(next == mmsb__page_next(page));
            CHECK(mmsb__page_read(next, 0, got, 512) == MMSB_OK && memcmp(got, zeros, 512) == 0);
            destroy_by(0, next);
        }
    }
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* ---------------------------------------------------------------------------------------------- bad batches ---- */

typedef enum batch_kind { READ_BATCH, WRITE_BATCH, DELTA_BATCH, DESTROY_BATCH, BATCH_KINDS } batch_kind_t;

/* Bytes 3 and 4 of each page; of a bad one that there is, bytes that it has not. */
static mmsb_status_t batch_of(batch_kind_t kind, const mmsb_page_t *pages, size_t count, size_t beyond, size_t *bad) {
    uint8_t bytes[2] = {7, 8};
    mmsb_page_range_t ranges[4];
    mmsb_run_t runs[4];
    mmsb_delta_t deltas[4];
    for (size_t i = 0; i < count; i++) {
        const uint64_t offset = i == beyond ? 63 : 3;
        ranges[i] = (mmsb_page_range_t){.page = pages[i], .offset = offset, .length = 2, .buffer = bytes};
        runs[i] = (mmsb_run_t){offset, 2};
        deltas[i] = (mmsb_delta_t){
            .struct_size = sizeof deltas[i], .kind = MMSB_DELTA_RUNS, .runs = &runs[i], .count = 1, .payload = bytes};
    }
    switch (kind) {
    case READ_BATCH:
        return mmsb__page_read_many(ranges, count, bad);
    case WRITE_BATCH:
        return mmsb__page_write_many(ranges, count, bad);
    case DELTA_BATCH:
        return mmsb__page_apply_many(pages, deltas, count, bad);
    default:
        return mmsb__page_destroy_many(pages, count, bad);
    }
}

static void a_bad_item_changes_nothing(void) {
    begin_context();
    mmsb_page_t pages[4];
    uint64_t ended_page = create(64, 1);
    destroy_by(0, ended_page);
    for (int i = 0; i < 4; i++)
        pages[i] = create(64, 1);
    for (int kind = 0; kind < BATCH_KINDS; kind++) {
        for (size_t at = 0; at < 4; at++) {
            size_t bad = 99;
            mmsb_page_t tried[4];
            memcpy(tried, pages, sizeof tried);
            if (kind != DESTROY_BATCH)
                CHECK(batch_of((batch_kind_t)kind, tried, 4, at, &bad) == MMSB_E_OUT_OF_RANGE && bad == at);
            tried[at] = ended_page;
            bad = 99;
            CHECK(batch_of((batch_kind_t)kind, tried, 4, 99, &bad) == MMSB_E_STALE_HANDLE && bad == at);
            for (int i = 0; i < 4; i++) {
                uint64_t word = 1;
                CHECK(state_of(pages[i]) == live_state(pages[i], 64));
                CHECK(mmsb__page_read(pages[i], 0, &word, 8) == MMSB_OK && word == 0);
                CHECK(mmsb__page_look(pages[i], MMSB__FIELD_EPOCH) == 0);
            }
        }
    }
    mmsb_page_t repeats[4] = {pages[0], pages[1], pages[0], pages[0]};
    for (int kind = 0; kind < DESTROY_BATCH; kind++) {
        CHECK(batch_of((batch_kind_t)kind, repeats, 4, 99, NULL) == MMSB_OK);
        CHECK(state_of(pages[0]) == live_state(pages[0], 64) && state_of(pages[1]) == live_state(pages[1], 64));
    }
    CHECK(mmsb__page_look(pages[0], MMSB__FIELD_EPOCH) == 3 && mmsb__page_look(pages[1], MMSB__FIELD_EPOCH) == 1);
    size_t bad = 99;
    CHECK(mmsb__page_destroy_many(repeats, 4, &bad) == MMSB_E_STALE_HANDLE && bad == 2);
    CHECK(state_of(pages[0]) == live_state(pages[0], 64));
    CHECK(mmsb__page_destroy_many(pages, 4, NULL) == MMSB_OK);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

static uint64_t repeating;

static void look_for_the_lock(void) {
    CHECK((state_of(repeating) & MMSB__OWNER_MASK) != 0);
}

/* The second delta's bytes are read while its page is being changed. */
static void a_page_that_repeats_stays_locked(void) {
    begin_context();
    repeating = create(64, 1);
    const mmsb_page_t pages[2] = {repeating, repeating};
    uint8_t *bytes = mmap(NULL, SYSTEM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint8_t first[2] = {1, 2};
    const mmsb_run_t runs[2] = {{3, 1}, {5, 1}};
    for (uint64_t count = 1; count <= 2; count++) {
        mmsb_delta_t deltas[2];
        for (int i = 0; i < 2; i++)
            deltas[i] = (mmsb_delta_t){.struct_size = sizeof deltas[i],
                                       .kind = MMSB_DELTA_RUNS,
                                       .runs = runs,
                                       .count = count,
                                       .payload = i == 0 ? first : bytes};
        look_at_touch(bytes, look_for_the_lock);
        CHECK(mmsb__page_apply_many(pages, deltas, 2, NULL) == MMSB_OK);
        CHECK(touched());
        CHECK(state_of(repeating) == live_state(repeating, 64));
    }
    munmap(bytes, SYSTEM_PAGE);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* A batch meets a page that somebody else has, with another page locked: at first it lets go of that, then it keeps it. */
static mmsb_page_t met[2];

static void *meet_a_lock(void *argument) {
    (void)argument;
    CHECK(batch_of(WRITE_BATCH, met, 2, 99, NULL) == MMSB_OK);
    return NULL;
}

static void others_locks_stay(void) {
    begin_context();
    for (int i = 0; i < 2; i++)
        met[i] = create(64, 1);
    const uint64_t free_to_lock = live_state(met[0], 64), locked = free_to_lock | MMSB__OWNER_LIBRARY;
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        int held = 0, ours = 1;
        CHECK(mmsb__page_lock_library(met[0]) == MMSB_OK);
        CHECK(pthread_create(&thread, NULL, meet_a_lock, NULL) == 0);
        while (held < 20 && ours) {
            ours = state_of(met[0]) == locked;
            held = (state_of(met[1]) & MMSB__OWNER_MASK) ? held + 1 : 0;
            sched_yield();
        }
        CHECK(ours);
        if (ours)
            mmsb__record_unlock(MMSB__HANDLE_INDEX(met[0]), free_to_lock);
        pthread_join(thread, NULL);
    }
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* ----------------------------------------------------------------------------------------------- ends, marks ---- */

static void *leave_many(void *argument) {
    mmsb_page_t *pages = argument;
    for (int i = 0; i < 300; i++)
        pages[i] = create(64, 1);
    for (int i = 0; i < 300; i++) {
        if (!mmsb__page_destroy_fast(pages[i]))
            CHECK(mmsb__page_destroy_slow(pages[i]) == MMSB_OK);
    }
    return NULL;
}

static uint32_t take_all(uint32_t class_number) {
    uint64_t handles[MMSB__MAGAZINE_ROUNDS];
    uint32_t found = 0, count;
    while (found < 100000 && (count = mmsb__depot_take(mmsb__context_record(CONTEXT_INDEX), class_number, handles)) != 0)
        found += count;
    return found;
}

static void the_depot_has_what_threads_leave(void) {
    mmsb_page_t pages[300];
    pthread_t thread;
    for (int emptied = 0; emptied < 2; emptied++) {
        begin_context();
        const uint32_t before = next_index;
        CHECK(pthread_create(&thread, NULL, leave_many, pages) == 0);
        pthread_join(thread, NULL);
        CHECK(next_index - before >= 300);
        if (emptied)
            CHECK(take_all(0) == next_index - before);
        mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
        begin_context();
        CHECK(take_all(0) == 0); /* the next context has none of it */
        mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
    }
}

static uint64_t left_behind;

static void call_into_the_end(void) {
    mmsb_page_t page;
    CHECK(!mmsb__page_create_fast(context_handle, 128, 0, &page, NULL));
    CHECK(mmsb__page_create_small(context_handle, 128, 0, &page) == MMSB_E_STALE_HANDLE);
    CHECK(!mmsb__page_destroy_fast(left_behind));
}

static void nothing_begins_after_the_end(void) {
    begin_context();
    left_behind = create(128, 0);
    uint64_t page = create(128, 0);
    destroy_by(0, page);
    barriers = early_barriers = 0;
    mmsb__synchronize(mmsb__context_record(CONTEXT_INDEX));
    CHECK(barriers == 1 || mmsb__busy_fence);
    closed_by_then = &mmsb__current->context;
    meanwhile = call_into_the_end;
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
    closed_by_then = NULL;
    CHECK((barriers == 2 && early_barriers == 0) || mmsb__busy_fence);
    test_meanwhile();
}

static int stays, left;

static void *stay_busy(void *argument) {
    (void)argument;
    create(64, 0);
    mmsb__cache_begin(mmsb__current);
    __atomic_store_n(&stays, 1, __ATOMIC_RELEASE);
    struct timespec pause = {0, 10000000};
    nanosleep(&pause, NULL);
    __atomic_store_n(&left, 1, __ATOMIC_RELAXED);
    mmsb__cache_end(mmsb__current);
    return NULL;
}

static void who_is_busy_is_waited_for(void) {
    begin_context();
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        stays = left = 0;
        CHECK(pthread_create(&thread, NULL, stay_busy, NULL) == 0);
        while (!__atomic_load_n(&stays, __ATOMIC_ACQUIRE))
            sched_yield();
        mmsb__synchronize(mmsb__context_record(CONTEXT_INDEX));
        CHECK(__atomic_load_n(&left, __ATOMIC_RELAXED));
        pthread_join(thread, NULL);
    }
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

static void look_for_the_mark(void) {
    CHECK(__atomic_load_n(&mmsb__current->busy, __ATOMIC_RELAXED) == 1);
}

static void who_works_in_a_cache_says_so(void) {
    begin_context();
    for (int way = 0; way < 3; way++) {
        uint8_t bytes[16];
        memset(bytes, way + 1, sizeof bytes);
        uint64_t page = create(256, 1);
        CHECK(mmsb__page_write(page, 0, bytes, sizeof bytes) == MMSB_OK);
        destroy_by(0, page);
        look_at_touch(mmsb__record_bytes(mmsb__record_of(page)), look_for_the_mark);
        create_by(way, 256, 1); /* zeroes the bytes */
        CHECK(touched());
    }
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* ------------------------------------------------------------------------------------------------------ storms ---- */

/* Pages that threads create and leave for others to destroy. */
static uint64_t shared[512];
static uint8_t handed_out[MMSB__LEAF_RECORDS * 8];

static void *storm(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument + 1;
    static const uint64_t sizes[] = {1, 64, 100, 500, 4096};
    for (int i = 0; i < 20000; i++) {
        uint64_t size = sizes[rand_r(&seed) % 5];
        int zeroed = rand_r(&seed) % 2;
        uint64_t page = create(size, zeroed), value = ~UINT64_C(0), zero = 0;
        uint32_t index = MMSB__HANDLE_INDEX(page);
        CHECK(__atomic_exchange_n(&handed_out[index], 1, __ATOMIC_ACQ_REL) == 0); /* else it was handed out twice */
        uint64_t length = size < 8 ? size : 8, got = 0;
        CHECK(mmsb__page_read(page, size - length, &got, length) == MMSB_OK);
        CHECK(!zeroed || memcmp(&got, &zero, 8) == 0);
        CHECK(mmsb__page_write(page, size - length, &value, length) == MMSB_OK);
        uint64_t other = __atomic_exchange_n(&shared[rand_r(&seed) % 512], page, __ATOMIC_ACQ_REL);
        if (other != 0) {
            CHECK(__atomic_exchange_n(&handed_out[MMSB__HANDLE_INDEX(other)], 0, __ATOMIC_ACQ_REL) == 1);
            if (!mmsb__page_destroy_fast(other))
                CHECK(mmsb__page_destroy_slow(other) == MMSB_OK);
            CHECK(mmsb__page_destroy_slow(other) == MMSB_E_STALE_HANDLE);
        }
    }
    return NULL;
}

/* Threads that Go and native code make pages on count them all. */
static uint64_t counted, guarded;

static void *count_pages(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument + 1;
    for (int i = 0; i < 20000; i++) {
        const uint64_t pages = rand_r(&seed) % 5;
        __atomic_add_fetch(&counted, pages, __ATOMIC_RELAXED);
        if (mmsb__guard_pass(CONTEXT_INDEX, pages))
            continue;
        for (uint64_t page = 0; page < pages; page++)
            __atomic_add_fetch(&guarded, (uint64_t)mmsb__guard_next(CONTEXT_INDEX), __ATOMIC_RELAXED);
    }
    return NULL;
}

static void threads_guard_every_nth_page(void) {
    mmsb__guard_set(CONTEXT_INDEX, 7);
    run_threads(count_pages);
    mmsb__guard_set(CONTEXT_INDEX, 0);
    CHECK_EQUAL(guarded, (counted + 6) / 7);
}

static void pages_are_handed_out_once(void) {
    begin_context();
    uint64_t creates, frees, bytes_created, bytes_freed, live = 0;
    const uint64_t creates_before = mmsb__context_record(CONTEXT_INDEX)->creates;
    const uint64_t frees_before = mmsb__context_record(CONTEXT_INDEX)->frees;
    run_threads(storm);
    CHECK(table_is_whole(CONTEXT_INDEX));
    for (int i = 0; i < 512; i++) {
        if (shared[i] != 0)
            live++;
    }
    mmsb__context_count(mmsb__context_record(CONTEXT_INDEX), &creates, &frees, &bytes_created, &bytes_freed);
    creates -= creates_before;
    frees -= frees_before;
    CHECK(creates == THREADS * 20000u && creates - frees == live);
    for (int i = 0; i < 512; i++) {
        if (shared[i] != 0)
            CHECK(mmsb__page_destroy_slow(shared[i]) == MMSB_OK);
        shared[i] = 0;
    }
    memset(handed_out, 0, sizeof handed_out);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* Every batch adds one to each page it names; batches overlap, and one page comes twice. */
static uint64_t counters[16];
static uint64_t additions;

static void *batches(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument + 77;
    for (int i = 0; i < 1500; i++) {
        mmsb_page_t pages[6];
        mmsb_run_t runs[6];
        mmsb_delta_t deltas[6];
        uint8_t payload[6] = {1, 2, 3, 4, 5, 6};
        for (int k = 0; k < 6; k++) {
            pages[k] = counters[rand_r(&seed) % 16];
            runs[k] = (mmsb_run_t){(uint64_t)k, 1};
            deltas[k] = (mmsb_delta_t){
                .struct_size = sizeof deltas[k], .kind = MMSB_DELTA_RUNS, .runs = &runs[k], .count = 1, .payload = &payload[k]};
        }
        if (i % 10 == 0)
            runs[5].offset = 1 << 20; /* a bad item: nothing happens */
        size_t bad = 99;
        mmsb_status_t status = mmsb__page_apply_many(pages, deltas, 6, &bad);
        CHECK(status == (i % 10 == 0 ? MMSB_E_OUT_OF_RANGE : MMSB_OK) && (i % 10 != 0 || bad == 5));
        if (status == MMSB_OK)
            __atomic_add_fetch(&additions, 6, __ATOMIC_RELAXED);
        void *address;
        CHECK(mmsb__page_pin(pages[0], MMSB_PIN_READ, &address) == MMSB_OK);
        CHECK(mmsb__page_unpin(pages[0], MMSB_PIN_READ) == MMSB_OK);
    }
    return NULL;
}

static void batches_are_whole(void) {
    begin_context();
    for (int i = 0; i < 16; i++)
        counters[i] = create(64, 1);
    run_threads(batches);
    CHECK(table_is_whole(CONTEXT_INDEX));
    uint64_t epochs = 0;
    for (int i = 0; i < 16; i++)
        epochs += mmsb__page_look(counters[i], MMSB__FIELD_EPOCH);
    CHECK(epochs == additions);
    mmsb_page_t repeated[3] = {counters[0], counters[1], counters[0]};
    size_t bad = 99;
    CHECK(mmsb__page_destroy_many(repeated, 3, &bad) == MMSB_E_STALE_HANDLE && bad == 2);
    CHECK(mmsb__page_destroy_many(counters, 16, &bad) == MMSB_OK);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* The context ends while threads create: each gets pages or the news, and nothing after it. */
static void *create_until_the_end(void *argument) {
    uint64_t context = __atomic_load_n(&context_handle, __ATOMIC_ACQUIRE);
    (void)argument;
    for (;;) {
        mmsb_page_t page;
        mmsb_status_t status = mmsb__page_create_small(context, 128, 1, &page);
        if (status != MMSB_OK) {
            CHECK(status == MMSB_E_STALE_HANDLE);
            return NULL;
        }
        if (mmsb__page_destroy_slow(page) != MMSB_OK)
            CHECK(mmsb__error()->error_code == MMSB_E_STALE_HANDLE);
    }
}

static void contexts_end_under_work(void) {
    for (int round = 0; round < 20; round++) {
        begin_context();
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, create_until_the_end, (void *)i) == 0);
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

/* Once synchronised, no page begins on a record that is marked. */
static int stop;

static void *create_and_destroy(void *argument) {
    (void)argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        mmsb_page_t page;
        mmsb_status_t status = mmsb__page_create_small(context_handle, 256, 0, &page);
        if (status == MMSB_OK)
            mmsb__page_destroy_slow(page);
        else
            CHECK(status == MMSB__ENTER_GO);
    }
    return NULL;
}

static void marks_are_seen_after_synchronise(void) {
    begin_context();
    uint32_t first = next_index;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, create_and_destroy, (void *)i) == 0);
    for (int round = 0; round < 300; round++) {
        pthread_mutex_lock(&lock);
        uint32_t last = next_index;
        pthread_mutex_unlock(&lock);
        if (last == first)
            continue;
        mmsb__record_t *record = mmsb__record_at(first + (uint32_t)round % (last - first));
        __atomic_store_n(&record->id_taken, 1, __ATOMIC_RELAXED);
        mmsb__synchronize(mmsb__context_record(CONTEXT_INDEX));
        uint64_t before = mmsb__state_load(record);
        sched_yield();
        uint64_t after = mmsb__state_load(record);
        if (MMSB__HANDLE_KIND(before) == MMSB__STATE_FREE)
            CHECK(MMSB__HANDLE_KIND(after) == MMSB__STATE_FREE);
        __atomic_store_n(&record->id_taken, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mmsb__context_detach(mmsb__context_record(CONTEXT_INDEX));
}

/* -------------------------------------------------------------------------------------------------------- main ---- */

/* What shows each time. */
static void run_steps(void) {
    RUN(the_depot_gives_what_it_got);
    RUN(a_head_that_came_back_is_another);
    RUN(fresh_memory_comes_before_the_last_of_other_shards);
    RUN(an_empty_magazine_serves_every_shard);
    RUN(each_page_has_a_handle_of_its_own);
    RUN(pages_in_use_stay);
    RUN(an_id_in_use_goes_to_go);
    RUN(every_nth_page_goes_to_go);
    RUN(a_report_is_told_instead_of_a_change);
    RUN(pins_of_an_ended_context_are_forgotten);
    RUN(a_thread_does_not_wait_for_itself);
    RUN(the_last_generation_is_the_last);
    RUN(zeroed_pages_are_zero);
    RUN(a_bad_item_changes_nothing);
    RUN(a_page_that_repeats_stays_locked);
    RUN(others_locks_stay);
    RUN(the_depot_has_what_threads_leave);
    RUN(nothing_begins_after_the_end);
    RUN(who_is_busy_is_waited_for);
    RUN(who_works_in_a_cache_says_so);
}

static void run_storms(void) {
    RUN(pages_are_handed_out_once);
    RUN(threads_guard_every_nth_page);
    RUN(batches_are_whole);
    RUN(contexts_end_under_work);
    RUN(marks_are_seen_after_synchronise);
    RUN(magazines_go_round);
}

int main(int argument_count, char **arguments) {
    check_stops = argument_count > 1 && strcmp(arguments[1], "steps") == 0;
    start();
    run_steps();
    if (!check_stops)
        run_storms();
    return check_report();
}
