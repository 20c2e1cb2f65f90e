/*
 * pages.c — creates and destroys pages of 4 KiB, against allocating and freeing as many bytes.
 *
 * One at a time: create, touch, destroy. 1000 live: 1000 pages are created and touched, then destroyed in a random order that is
 * the same on both sides and in every run. Replaced: pages are destroyed in that order, and each is followed by a new one.
 * Touched: the first 8 bytes are read and written through the page's address.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mmsb.h"

enum { SIZE = 4096, LIVE = 1000, UMF_MOST_LIVE = 100000 };

/* What happens to a page between its creation and its end. */
typedef enum touch { UNTOUCHED, TOUCHED, WRITTEN } touch_t;

/* One thread's pages. */
typedef struct set {
    uint32_t live;
    uint32_t *order; /* in which they are destroyed */
    mmsb_page_t *pages;
    void **blocks;
    uint64_t ours_next; /* the next page to replace */
    uint64_t peer_next;
    uint64_t wrong; /* bits of words that should have been 0 and were not */
} set_t;

static mmsb_context_t context;
static mmsb_page_options_t uninitialised;
static bench_mimalloc_t mimalloc;
static bench_umf_t umf;

static set_t *make_set(uint32_t live) {
    set_t *set = calloc(1, sizeof *set);
    set->live = live;
    set->order = bench_permutation(live);
    set->pages = calloc(live, sizeof *set->pages);
    set->blocks = calloc(live, sizeof *set->blocks);
    return set;
}

static void drop_set(set_t *set) {
    free(set->order);
    free(set->pages);
    free(set->blocks);
    free(set);
}

static const char *words_were_zero(void *state) {
    return ((set_t *)state)->wrong ? "a zeroed page was not zero" : NULL;
}

/* ---- the work, written once and specialised by its constant arguments ---- */

#define SPECIALISED static inline __attribute__((always_inline))

/* The word is read before it is written, which checks zeroed memory; in other memory it has no meaning. */
SPECIALISED uint64_t touch_word(void *address, uint64_t value) {
    uint64_t before;
    memcpy(&before, address, sizeof before);
    memcpy(address, &value, sizeof value);
    return before;
}

/* Creates a page as a user does: pages that are touched are created with their address, as the peer's blocks. */
SPECIALISED mmsb_page_t make_page(set_t *set, const mmsb_page_options_t *options, touch_t touch, uint64_t value) {
    mmsb_page_t page;
    if (touch == TOUCHED) {
        void *address;
        BENCH_CALL(mmsb_page_create_with_address(context, SIZE, options, &page, &address));
        uint64_t before = touch_word(address, value);
        if (!options)
            set->wrong |= before;
        return page;
    }
    BENCH_CALL(mmsb_page_create(context, SIZE, options, &page));
    if (touch == WRITTEN)
        BENCH_CALL(mmsb_page_write(page, 0, &value, sizeof value));
    return page;
}

SPECIALISED void use_page(set_t *set, mmsb_page_t page, const mmsb_page_options_t *options, touch_t touch, uint64_t value) {
    if (touch == TOUCHED) {
        uint64_t before = touch_word(mmsb_page_address(page), value);
        if (!options)
            set->wrong |= before;
    }
    if (touch == WRITTEN)
        BENCH_CALL(mmsb_page_write(page, 0, &value, sizeof value));
}

SPECIALISED void use_block(set_t *set, void *block, bool zeroed, touch_t touch, uint64_t value) {
    uint64_t before;
    if (touch == UNTOUCHED)
        return;
    before = touch_word(block, value);
    if (zeroed)
        set->wrong |= before;
}

SPECIALISED void ours_single(set_t *set, uint64_t count, const mmsb_page_options_t *options, touch_t touch) {
    for (uint64_t i = 1; i <= count; i++) {
        BENCH_CALL(mmsb_page_destroy(make_page(set, options, touch, i)));
    }
}

SPECIALISED void peer_single(set_t *set, uint64_t count, bool zeroed, touch_t touch) {
    for (uint64_t i = 1; i <= count; i++) {
        void *block = zeroed ? mimalloc.calloc(1, SIZE) : mimalloc.malloc(SIZE);
        use_block(set, block, zeroed, touch, i);
        mimalloc.free(block);
    }
}

SPECIALISED void ours_live(set_t *set, uint64_t count, const mmsb_page_options_t *options, touch_t touch) {
    for (uint64_t turn = 1; turn <= count; turn++) {
        for (uint32_t i = 0; i < set->live; i++) {
            set->pages[i] = make_page(set, options, touch, turn);
        }
        for (uint32_t i = 0; i < set->live; i++)
            BENCH_CALL(mmsb_page_destroy(set->pages[set->order[i]]));
    }
}

SPECIALISED void peer_live(set_t *set, uint64_t count, bool zeroed, touch_t touch) {
    for (uint64_t turn = 1; turn <= count; turn++) {
        for (uint32_t i = 0; i < set->live; i++) {
            set->blocks[i] = zeroed ? mimalloc.calloc(1, SIZE) : mimalloc.malloc(SIZE);
            use_block(set, set->blocks[i], zeroed, touch, turn);
        }
        for (uint32_t i = 0; i < set->live; i++)
            mimalloc.free(set->blocks[set->order[i]]);
    }
}

SPECIALISED void ours_batch(set_t *set, uint64_t count, const mmsb_page_options_t *options, touch_t touch) {
    for (uint64_t turn = 1; turn <= count; turn++) {
        BENCH_CALL(mmsb_page_create_many(context, SIZE, set->live, options, NULL, set->pages));
        for (uint32_t i = 0; i < set->live; i++)
            use_page(set, set->pages[i], options, touch, turn);
        BENCH_CALL(mmsb_page_destroy_many(set->pages, set->live, NULL));
    }
}

/* A batch is destroyed in the order of its array; the peer frees in that order too. */
SPECIALISED void peer_batch(set_t *set, uint64_t count, bool zeroed, touch_t touch) {
    for (uint64_t turn = 1; turn <= count; turn++) {
        for (uint32_t i = 0; i < set->live; i++) {
            set->blocks[i] = zeroed ? mimalloc.calloc(1, SIZE) : mimalloc.malloc(SIZE);
            use_block(set, set->blocks[i], zeroed, touch, turn);
        }
        for (uint32_t i = 0; i < set->live; i++)
            mimalloc.free(set->blocks[i]);
    }
}

#define WORK(name, ...) \
    static void name(void *set, uint64_t count) { \
        __VA_ARGS__; \
    }
WORK(ours_single_uninitialised, ours_single(set, count, &uninitialised, TOUCHED))
WORK(ours_single_zeroed, ours_single(set, count, NULL, TOUCHED))
WORK(ours_single_written, ours_single(set, count, NULL, WRITTEN))
WORK(ours_live_uninitialised, ours_live(set, count, &uninitialised, TOUCHED))
WORK(ours_live_zeroed, ours_live(set, count, NULL, TOUCHED))
WORK(ours_live_written, ours_live(set, count, NULL, WRITTEN))
WORK(ours_batch_uninitialised, ours_batch(set, count, &uninitialised, TOUCHED))
WORK(ours_batch_zeroed, ours_batch(set, count, NULL, TOUCHED))
WORK(ours_batch_untouched, ours_batch(set, count, NULL, UNTOUCHED))
WORK(peer_single_malloc, peer_single(set, count, false, TOUCHED))
WORK(peer_single_calloc, peer_single(set, count, true, TOUCHED))
WORK(peer_live_malloc, peer_live(set, count, false, TOUCHED))
WORK(peer_live_calloc, peer_live(set, count, true, TOUCHED))
WORK(peer_batch_malloc, peer_batch(set, count, false, TOUCHED))
WORK(peer_batch_calloc, peer_batch(set, count, true, TOUCHED))
WORK(peer_batch_untouched, peer_batch(set, count, true, UNTOUCHED))

/* Replaces the pages one after the other, in the set's order: the number of live pages stays the same. */
static void ours_replaced(void *state, uint64_t count) {
    set_t *set = state;
    for (uint64_t i = 0; i < count; i++) {
        mmsb_page_t *page = &set->pages[set->order[set->ours_next++ % set->live]];
        BENCH_CALL(mmsb_page_destroy(*page));
        BENCH_CALL(mmsb_page_create(context, SIZE, &uninitialised, page));
        use_page(set, *page, &uninitialised, TOUCHED, i);
    }
}

static void peer_replaced(void *state, uint64_t count) {
    set_t *set = state;
    for (uint64_t i = 0; i < count; i++) {
        void **block = &set->blocks[set->order[set->peer_next++ % set->live]];
        umf.free(umf.pool, *block);
        *block = umf.malloc(umf.pool, SIZE);
        use_block(set, *block, false, TOUCHED, i);
    }
}

/* ---- limits ---- */

static void limit_two_calls(void *state, uint64_t count) {
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        bench_empty_call(i);
        bench_empty_call(i);
    }
}

static void limit_fill_one(void *state, uint64_t count) {
    static char block[SIZE] __attribute__((aligned(SIZE)));
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        memset(block, 0, sizeof block);
        __asm__ volatile("" ::"r"(block) : "memory");
    }
}

static void limit_fill_many(void *state, uint64_t count) {
    static char *blocks;
    (void)state;
    if (!blocks)
        blocks = bench_memory((size_t)LIVE * SIZE);
    for (uint64_t turn = 0; turn < count; turn++) {
        for (uint32_t i = 0; i < LIVE; i++)
            memset(blocks + (size_t)i * SIZE, 0, SIZE);
        __asm__ volatile("" ::"r"(blocks) : "memory");
    }
}

static void limit_touch_many(void *state, uint64_t count) {
    static char *blocks;
    (void)state;
    if (!blocks)
        blocks = bench_memory((size_t)LIVE * SIZE);
    for (uint64_t turn = 0; turn < count; turn++) {
        for (uint32_t i = 0; i < LIVE; i++)
            touch_word(blocks + (size_t)i * SIZE, turn);
        __asm__ volatile("" ::"r"(blocks) : "memory");
    }
}

/* A batch without checks and errors, with records and pages laid out as in the library: take a handle, write four words, look up
 * the address and touch its first word, lock, free the record, put the handle back. */
typedef struct bare_record {
    uint64_t unused, state, place, size, epoch, version, more[2];
} bare_record_t;
static bare_record_t *bare_records;
static uint64_t bare_bases[2], bare_free[LIVE], bare_handles[LIVE];

static __attribute__((noinline)) void bare_create(void) {
    for (uint32_t i = 0; i < LIVE; i++) {
        const uint64_t handle = bare_free[LIVE - 1 - i];
        bare_record_t *record = &bare_records[handle & 0xfffffff];
        record->size = SIZE;
        record->epoch = 0;
        record->version = 1;
        __atomic_store_n(&record->state, handle & ~UINT64_C(0xfffffff), __ATOMIC_RELEASE);
        bare_handles[i] = handle;
    }
}

static __attribute__((noinline)) void *bare_address(uint64_t handle) {
    bare_record_t *record = &bare_records[handle & 0xfffffff];
    record->unused = 1;
    return (void *)(uintptr_t)(bare_bases[record->place >> 44] + (record->place & ((UINT64_C(1) << 44) - 1)));
}

static __attribute__((noinline)) void bare_destroy(void) {
    for (uint32_t i = LIVE; i-- > 0;) {
        if (i >= 12)
            __builtin_prefetch(&bare_records[bare_handles[i - 12] & 0xfffffff], 1);
        bare_record_t *record = &bare_records[bare_handles[i] & 0xfffffff];
        uint64_t state = record->state;
        if (!__atomic_compare_exchange_n(&record->state, &state, state | 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            bench_fail("a record is locked");
    }
    for (uint32_t i = 0; i < LIVE; i++) {
        const uint64_t next = bare_handles[i] + (UINT64_C(1) << 28);
        __atomic_store_n(&bare_records[next & 0xfffffff].state, next & UINT64_C(0x0ffffffff0000000), __ATOMIC_RELEASE);
        bare_free[i] = next;
    }
}

static void limit_batch(void *state, uint64_t count) {
    (void)state;
    if (!bare_records) {
        bare_records = bench_memory(LIVE * sizeof *bare_records);
        bare_bases[1] = (uint64_t)(uintptr_t)bench_memory((size_t)LIVE * SIZE);
        for (uint32_t i = 0; i < LIVE; i++) {
            bare_records[i].place = UINT64_C(1) << 44 | (uint64_t)i * SIZE;
            bare_free[i] = UINT64_C(1) << 60 | UINT64_C(1) << 28 | i;
        }
    }
    for (uint64_t turn = 1; turn <= count; turn++) {
        bare_create();
        for (uint32_t i = 0; i < LIVE; i++)
            touch_word(bare_address(bare_handles[i]), turn);
        bare_destroy();
    }
}

/* ---- the results, checked before and after the figures ---- */

static void check_contents(void) {
    mmsb_page_t pages[LIVE];
    uint64_t word, bytes[SIZE / 8];
    for (uint32_t i = 0; i < LIVE; i++) {
        BENCH_CALL(mmsb_page_create(context, SIZE, &uninitialised, &pages[i]));
        memset(mmsb_page_address(pages[i]), (int)(i % 251 + 1), SIZE);
    }
    for (uint32_t i = 0; i < LIVE; i++) {
        const unsigned char *address = mmsb_page_address(pages[i]);
        for (uint32_t b = 0; b < SIZE; b++) {
            if (address[b] != i % 251 + 1)
                bench_fail("two pages share bytes");
        }
    }
    BENCH_CALL(mmsb_page_destroy_many(pages, LIVE, NULL));
    for (int change = 0; change < 2; change++) {
        for (uint32_t i = 0; i < LIVE; i++) {
            BENCH_CALL(mmsb_page_create(context, SIZE, NULL, &pages[i]));
            BENCH_CALL(mmsb_page_read(pages[i], 0, bytes, SIZE));
            for (uint32_t w = 0; w < SIZE / 8; w++) {
                if (bytes[w])
                    bench_fail("a new page is not zero at %u", w * 8);
            }
            word = i + 1;
            BENCH_CALL(mmsb_page_write(pages[i], i % (SIZE / 8) * 8, &word, sizeof word));
            BENCH_CALL(mmsb_page_read(pages[i], i % (SIZE / 8) * 8, &word, sizeof word));
            if (word != i + 1)
                bench_fail("a written word does not come back");
        }
        for (uint32_t i = 0; i < LIVE; i++)
            BENCH_CALL(mmsb_page_destroy(pages[i]));
    }
}

/* ---- rows ---- */

typedef struct plan {
    bench_row_t row;
    uint32_t live;
} plan_t;

#define ORIGINAL "the original: 340-1900 ns, as published"
#define ROW(name, ours_work, peer_work, limit_work, limit_text, aim_bound, live_pages, row_note) \
    {{.what = (name), \
      .ours = (ours_work), \
      .peer = (peer_work), \
      .limit = (limit_work), \
      .limit_name = (limit_text), \
      .peer_name = "mimalloc", \
      .aim = BENCH_AT_MOST, \
      .bound = (aim_bound), \
      .ours_operations = (live_pages), \
      .peer_operations = (live_pages), \
      .note = (row_note), \
      .check = words_were_zero}, \
     (live_pages)}

static plan_t plans[] = {
    ROW("pages: 4 KiB uninitialised, touched, one at a time", ours_single_uninitialised, peer_single_malloc, limit_two_calls,
        "two empty C calls", 0.75, 1, ORIGINAL),
    ROW("pages: 4 KiB uninitialised, touched, 1000 live", ours_live_uninitialised, peer_live_malloc, limit_touch_many, "touching",
        0.75, LIVE, ORIGINAL),
    ROW("pages: 4 KiB zeroed, touched, one at a time", ours_single_zeroed, peer_single_calloc, limit_fill_one, "memset 4 KiB",
        1.1, 1, NULL),
    ROW("pages: 4 KiB zeroed, touched, 1000 live", ours_live_zeroed, peer_live_calloc, limit_fill_many, "memset 4 KiB", 1.0, LIVE,
        NULL),
    ROW("pages: 4 KiB zeroed, 8 bytes by page_write, one at a time", ours_single_written, peer_single_calloc, limit_two_calls,
        "two empty C calls", 0.4, 1, NULL),
    ROW("pages: 4 KiB zeroed, 8 bytes by page_write, 1000 live", ours_live_written, peer_live_calloc, limit_touch_many,
        "touching", 0.4, LIVE, NULL),
    ROW("pages: batch of 1000 x 4 KiB uninitialised, touched", ours_batch_uninitialised, peer_batch_malloc, limit_batch,
        "the same without checks", 0.4, LIVE, NULL),
    ROW("pages: batch of 1000 x 4 KiB zeroed, touched", ours_batch_zeroed, peer_batch_calloc, limit_fill_many, "memset 4 KiB",
        1.0, LIVE, NULL),
    ROW("pages: batch of 1000 x 4 KiB zeroed, untouched", ours_batch_untouched, peer_batch_untouched, NULL, NULL, 0.3, LIVE,
        NULL),
};
enum { PLANS = sizeof plans / sizeof *plans };

static void run_against_mimalloc(bool present) {
    for (int i = 0; i < PLANS; i++) {
        bench_row_t row = plans[i].row;
        set_t *set = make_set(plans[i].live);
        row.state = set;
        if (!present)
            row.peer = NULL;
        bench_run(&row);
        drop_set(set);
    }
}

static void run_against_umf(void) {
    static const uint32_t lives[] = {1, 1000, UMF_MOST_LIVE};
    bool present = bench_umf(&umf);
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
        char what[96];
        set_t *set;
        snprintf(what, sizeof what, "pages: 4 KiB uninitialised, touched, replaced, %u live", lives[i]);
        if (!bench_wanted(what))
            continue;
        set = make_set(lives[i]);
        ours_replaced(set, lives[i]);
        if (present)
            peer_replaced(set, lives[i]);
        bench_run(&(bench_row_t){.what = what,
                                 .ours = ours_replaced,
                                 .peer = present ? peer_replaced : NULL,
                                 .peer_name = "UMF disjoint pool",
                                 .note = "the pool keeps all its slabs; by default it would keep 4",
                                 .state = set});
        BENCH_CALL(mmsb_page_destroy_many(set->pages, lives[i], NULL));
        for (uint32_t block = 0; present && block < lives[i]; block++)
            umf.free(umf.pool, set->blocks[block]);
        drop_set(set);
    }
}

/* ---- threads ---- */

typedef struct team {
    bench_work_t work;
    int threads;
    set_t *sets[BENCH_MOST_THREADS];
} team_t;

static void team_all(void *state, uint64_t count) {
    team_t *team = state;
    bench_on_threads(team->work, (void *const *)team->sets, team->threads, count);
}

static void team_one(void *state, uint64_t count) {
    team_t *team = state;
    bench_on_threads(team->work, (void *const *)team->sets, 1, count);
}

static void run_threads(void) {
    static const int thread_counts[] = {2, 4};
    static const struct {
        const char *name;
        bench_work_t work;
        uint32_t live;
    } works[] = {{"4 KiB uninitialised, touched, one at a time", ours_single_uninitialised, 1},
                 {"4 KiB uninitialised, touched, 1000 live", ours_live_uninitialised, LIVE},
                 {"4 KiB zeroed, touched, one at a time", ours_single_zeroed, 1}};

    for (size_t t = 0; t < sizeof thread_counts / sizeof *thread_counts; t++) {
        const int threads = thread_counts[t];
        for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
            char what[96];
            team_t team = {.work = works[i].work, .threads = threads};
            bench_row_t row = {.what = what,
                               .unit = BENCH_MILLIONS,
                               .threads = threads,
                               .ours = team_all,
                               .peer = team_one,
                               .peer_name = "one thread",
                               .state = &team,
                               .ours_operations = (double)threads * works[i].live,
                               .peer_operations = works[i].live,
                               .aim = BENCH_AT_LEAST,
                               .bound = 0.9 * threads};
            snprintf(what, sizeof what, "pages: %s, %d threads", works[i].name, threads);
            if (bench_processors() < threads) {
                bench_not_run(&row, "fewer cores than threads");
                continue;
            }
            for (int member = 0; member < threads; member++)
                team.sets[member] = make_set(works[i].live);
            bench_run(&row);
            for (int member = 0; member < threads; member++)
                drop_set(team.sets[member]);
        }
    }
}

/* ---- the same beside a million other pages ---- */

/* The other pages are created and destroyed between the rounds; each has 1 KiB and is touched. */
static void run_beside_others(void) {
    enum { OTHER_SIZE = 1024, AT_ONCE = 1000 };
    const uint32_t others = bench_quick() ? 20000 : 1000000;
    const int rounds = bench_rounds();
    mmsb_page_t *other_pages = calloc(others, sizeof *other_pages);
    double values[2][PLANS][64];
    uint64_t counts[PLANS];
    set_t *sets[PLANS];
    char names[PLANS][96];
    bool any = false, there = false;

    for (int i = 0; i < PLANS; i++) {
        snprintf(names[i], sizeof names[i], "%s, 1 M others", plans[i].row.what);
        if (!bench_wanted(names[i]))
            continue;
        any = true;
        sets[i] = make_set(plans[i].live);
        counts[i] = bench_calibrate(plans[i].row.ours, sets[i]);
    }
    for (int round = 0; any && round < rounds; round++) {
        for (int half = 0; half < 2; half++) {
            if (half == 1) {
                for (uint32_t i = 0; i < others; i += AT_ONCE) {
                    if (there) {
                        BENCH_CALL(mmsb_page_destroy_many(other_pages + i, AT_ONCE, NULL));
                        continue;
                    }
                    BENCH_CALL(mmsb_page_create_many(context, OTHER_SIZE, AT_ONCE, NULL, NULL, other_pages + i));
                    for (uint32_t j = i; j < i + AT_ONCE; j++)
                        touch_word(mmsb_page_address(other_pages[j]), j);
                }
                there = !there;
            }
            for (int i = 0; i < PLANS; i++) {
                if (!bench_wanted(names[i]))
                    continue;
                double nanoseconds = bench_slice(plans[i].row.ours, sets[i], counts[i]);
                values[there][i][round] = bench_value(&plans[i].row, nanoseconds, plans[i].row.ours_operations);
            }
        }
    }
    if (there) {
        for (uint32_t i = 0; i < others; i++) {
            uint64_t word;
            BENCH_CALL(mmsb_page_read(other_pages[i], 0, &word, sizeof word));
            if (word != i)
                bench_fail("another page was changed");
        }
        BENCH_CALL(mmsb_page_destroy_many(other_pages, others, NULL));
    }
    for (int i = 0; i < PLANS; i++) {
        bench_row_t row = plans[i].row;
        if (!bench_wanted(names[i]))
            continue;
        if (words_were_zero(sets[i]))
            bench_fail("%s: %s", names[i], words_were_zero(sets[i]));
        row.what = names[i];
        row.peer_name = "the same without";
        row.bound = 1.2;
        row.note = "others: 1 KiB each, first word touched";
        bench_report(&row, values[1][i], values[0][i], NULL, rounds);
        drop_set(sets[i]);
    }
    free(other_pages);
}

int main(void) {
    BENCH_CALL(mmsb_context_create(NULL, &context));
    mmsb_page_options_init(&uninitialised);
    uninitialised.contents = MMSB_PAGE_UNINITIALISED;
    bench_fact("libmmsb", mmsb_version());
    bench_fact("build", mmsb_build_info());

    check_contents();
    run_against_mimalloc(bench_mimalloc(&mimalloc));
    run_threads();
    run_beside_others();
    run_against_umf();
    check_contents();
    BENCH_CALL(mmsb_context_destroy(context));
    return 0;
}
