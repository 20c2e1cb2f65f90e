/*
 * deltas.c — deltas that change bytes, against memcpy of as many bytes. Every payload differs from the bytes in the page. After
 * each row the pages' bytes, change masks and epochs are compared with those of a plain replay.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mmsb.h"

enum { MIB = 1 << 20 };

static mmsb_context_t context;

/* ------------------------------------------------------------------------------------------------ dense deltas ---- */

/* Step s changes page s % pages with the next payload of that page. Each page has a mask of its own. */
typedef struct dense {
    mmsb_delta_kind_t kind;
    size_t size;
    uint32_t pages;
    uint32_t payload_count;
    mmsb_page_t *page;
    uint8_t *masks; /* a byte per byte, for the check and for DENSE_BYTES */
    uint8_t *bits;  /* the same mask as bits */
    uint8_t *payloads;
    uint8_t *plain; /* the peer writes here */
    uint64_t ours_step;
    uint64_t peer_step;
} dense_t;

static const uint8_t *dense_payload(const dense_t *dense, uint64_t step) {
    uint64_t page = step % dense->pages;
    return dense->payloads + (page + step / dense->pages) % dense->payload_count * dense->size;
}

static void ours_dense(void *state, uint64_t count) {
    dense_t *dense = state;
    const bool bits = dense->kind == MMSB_DELTA_DENSE_BITS;
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = dense->kind;
    delta.mask_length = dense->size;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t step = dense->ours_step++, page = step % dense->pages;
        delta.mask = bits ? dense->bits + page * dense->size / 8 : dense->masks + page * dense->size;
        delta.payload = dense_payload(dense, step);
        BENCH_CALL(mmsb_page_apply(dense->page[page], &delta));
    }
}

static void peer_dense(void *state, uint64_t count) {
    dense_t *dense = state;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t step = dense->peer_step++;
        memcpy(dense->plain + step % dense->pages * dense->size, dense_payload(dense, step), dense->size);
    }
    __asm__ volatile("" ::"r"(dense->plain) : "memory");
}

static const char *check_dense(void *state) {
    dense_t *dense = state;
    uint8_t *bytes = bench_memory(dense->size);
    for (uint32_t page = 0; page < dense->pages; page++) {
        const uint8_t *mask = dense->masks + page * dense->size;
        uint64_t applied = dense->ours_step / dense->pages + (page < dense->ours_step % dense->pages), masked = 0, marked;
        const uint8_t *payload = applied ? dense_payload(dense, (applied - 1) * dense->pages + page) : NULL;
        BENCH_CALL(mmsb_page_read(dense->page[page], 0, bytes, dense->size));
        for (size_t b = 0; b < dense->size; b++) {
            masked += mask[b] != 0;
            if (bytes[b] != (payload && mask[b] ? payload[b] : 0))
                return "bytes differ from the replay";
        }
        BENCH_CALL(mmsb_page_mask_count(dense->page[page], &marked));
        if (marked != (applied ? masked : 0))
            return "the change mask differs from the replay";
        if (mmsb_page_epoch(dense->page[page]) != applied)
            return "the epoch is not the number of deltas";
    }
    return NULL;
}

static void fill_random(uint8_t *bytes, size_t size, uint64_t seed) {
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word = bench_random(&seed);
        memcpy(bytes + i, &word, sizeof word);
    }
}

/* Alternating runs of masked and unmasked bytes, of random lengths with this mean: about half of the bytes are masked. */
static void fill_mask(uint8_t *mask, size_t size, uint32_t mean, uint64_t seed) {
    bool masked = false;
    for (size_t i = 0; i < size; i++) {
        if (bench_random(&seed) % mean == 0)
            masked = !masked;
        mask[i] = masked;
    }
}

static uint8_t *bits_of(const uint8_t *mask, size_t size) {
    uint8_t *bits = bench_memory(size / 8);
    for (size_t i = 0; i < size; i++)
        bits[i / 8] |= (uint8_t)((mask[i] != 0) << i % 8);
    return bits;
}

static void run_dense(const bench_row_t *row, mmsb_delta_kind_t kind, size_t size, uint32_t pages, uint32_t mean) {
    bench_row_t measured = *row;
    dense_t dense = {.kind = kind, .size = size, .pages = pages, .payload_count = pages > 1 ? pages : 2};
    if (!bench_wanted(row->what))
        return;
    dense.page = calloc(pages, sizeof *dense.page);
    dense.masks = bench_memory(size * pages);
    dense.payloads = bench_memory(size * dense.payload_count);
    dense.plain = bench_memory(size * pages);
    fill_mask(dense.masks, size * pages, mean, mean);
    fill_random(dense.payloads, size * dense.payload_count, 1);
    dense.bits = bits_of(dense.masks, size * pages);
    BENCH_CALL(mmsb_page_create_many(context, size, pages, NULL, NULL, dense.page));

    measured.ours = ours_dense;
    measured.peer = peer_dense;
    measured.peer_name = size == MIB ? "memcpy of 1 MiB" : "memcpy of 4 KiB";
    measured.limit_is_peer = true;
    measured.state = &dense;
    measured.check = check_dense;
    ours_dense(&dense, pages);
    peer_dense(&dense, pages);
    bench_run(&measured);

    BENCH_CALL(mmsb_page_destroy_many(dense.page, pages, NULL));
    bench_memory_free(dense.masks, size * pages);
    bench_memory_free(dense.payloads, size * dense.payload_count);
    bench_memory_free(dense.plain, size * pages);
    bench_memory_free(dense.bits, size * pages / 8);
    free(dense.page);
}

static void run_all_dense(void) {
    static const struct {
        mmsb_delta_kind_t kind;
        const char *name;
    } kinds[] = {{MMSB_DELTA_DENSE_BYTES, "mask of bytes"}, {MMSB_DELTA_DENSE_BITS, "mask of bits"}};
    static const uint32_t means[] = {4, 64};
    const uint32_t cold_pages = bench_quick() ? 4 : 128;
    char what[96];
    bench_row_t row = {.what = what, .unit = BENCH_NANOSECONDS, .aim = BENCH_AT_MOST};

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (size_t mean = 0; mean < sizeof means / sizeof *means; mean++) {
            snprintf(what, sizeof what, "deltas: dense 1 MiB, %s, runs of %u, in L3", kinds[kind].name, means[mean]);
            row.bound = 1.9;
            row.note = "one page, two payloads in turn";
            run_dense(&row, kinds[kind].kind, MIB, 1, means[mean]);
            snprintf(what, sizeof what, "deltas: dense 1 MiB, %s, runs of %u, from memory", kinds[kind].name, means[mean]);
            row.bound = 1.5;
            row.note = "128 pages, each with its own mask and 128 payloads in turn";
            run_dense(&row, kinds[kind].kind, MIB, cold_pages, means[mean]);
        }
    }
    snprintf(what, sizeof what, "deltas: dense 4 KiB, mask of bytes, runs of 64, hot");
    row.aim = BENCH_INFORMATION;
    row.note = "the original: 11 900 ns, as published";
    run_dense(&row, MMSB_DELTA_DENSE_BYTES, 4096, 1, 64);
}

/* ------------------------------------------------------------------------------------------------ small deltas ---- */

enum { PAGES = 4096, PAGE_SIZE = 4096, BATCH = 1000, LENGTH = 64, CHECKED_BATCHES = 50 };
/* One delta for every page: the first delta of a page creates its change mask. */
enum { FIRST_BATCHES = 64 };

typedef enum form { RUN_ARRAYS, RUN_STRUCTS, SINGLE_STRUCTS, CONSECUTIVE, SCATTERED } form_t;

/* A page record of the row's limit: one cache line, as the library's records are. */
typedef struct bare_page {
    uint64_t lock, epoch, version;
    uint64_t rest[5];
} bare_page_t;

/* Each batch is prepared while the clock is stopped, and then applied by the side whose turn it is: both sides find it in the
 * cache like a program that has just written it, and both write to the same memory. The number of a batch determines its
 * contents, so that all of them can be replayed for the check. */
typedef struct small {
    form_t form;
    uint64_t prepared; /* batches so far */
    uint64_t ours_deltas;
    mmsb_page_t page[PAGES];
    uint8_t *address[PAGES];

    uint32_t number[BATCH]; /* number of the delta's page */
    mmsb_page_t target[BATCH];
    uint64_t offset[BATCH];
    uint8_t *destination[BATCH]; /* address of page and offset, for the peer; with SCATTERED of the page */
    uint8_t payload[BATCH * LENGTH];
    uint64_t index[BATCH * LENGTH]; /* offset of each byte in its page; only CONSECUTIVE and SCATTERED */
    mmsb_run_t run[BATCH];
    mmsb_delta_t delta[BATCH];
    mmsb_page_runs_t runs;

    bare_page_t bare[PAGES];
    uint64_t bare_mask[PAGES][PAGE_SIZE / 64]; /* a bit for each byte */
} small_t;

static bool has_indices(const small_t *small) {
    return small->form == CONSECUTIVE || small->form == SCATTERED;
}

static void prepare_batch(small_t *small, uint64_t batch_number) {
    uint64_t seed = batch_number << 32;
    for (uint32_t d = 0; d < BATCH; d++) {
        small->number[d] = (uint32_t)(bench_random(&seed) % PAGES);
        small->target[d] = small->page[small->number[d]];
        small->offset[d] = bench_random(&seed) % (PAGE_SIZE - LENGTH + 1);
        small->run[d].offset = small->offset[d];
        small->destination[d] = small->address[small->number[d]] + (small->form == SCATTERED ? 0 : small->offset[d]);
    }
    for (uint32_t i = 0; has_indices(small) && i < BATCH * LENGTH; i++)
        small->index[i] = small->form == SCATTERED ? bench_random(&seed) % PAGE_SIZE : small->offset[i / LENGTH] + i % LENGTH;
    fill_random(small->payload, sizeof small->payload, seed);
}

static void next_batch(small_t *small) {
    bench_clock_stop();
    prepare_batch(small, small->prepared++);
    bench_clock_go_on();
}

static void ours_small(void *state, uint64_t count) {
    small_t *small = state;
    for (uint64_t i = 0; i < count; i++) {
        next_batch(small);
        switch (small->form) {
        case RUN_ARRAYS:
            BENCH_CALL(mmsb_page_apply_runs(&small->runs, NULL));
            break;
        case SINGLE_STRUCTS:
            for (uint32_t d = 0; d < BATCH; d++)
                BENCH_CALL(mmsb_page_apply(small->target[d], &small->delta[d]));
            break;
        default:
            BENCH_CALL(mmsb_page_apply_many(small->target, small->delta, BATCH, NULL));
        }
        small->ours_deltas += BATCH;
    }
}

static void peer_small(void *state, uint64_t count) {
    small_t *small = state;
    for (uint64_t i = 0; i < count; i++) {
        next_batch(small);
        for (uint32_t d = 0; d < BATCH; d++)
            memcpy(small->destination[d], small->payload + d * LENGTH, LENGTH);
    }
}

/* A batch without any check: all pages are locked; then bytes, change mask, epoch and version change, and the page is unlocked.
 * With indices each line is read. Lines are prefetched at the distance that was found to gain most. */
static void limit_small(void *state, uint64_t count) {
    enum { AHEAD = 24, NEAR = 8 };
    small_t *small = state;
    uint64_t seen = 0;
    for (uint64_t i = 0; i < count; i++) {
        next_batch(small);
        for (uint32_t d = BATCH; d-- > 0;) {
            uint64_t *lock = &small->bare[small->number[d]].lock, unlocked = *lock & ~1ull;
            if (d >= 12)
                __builtin_prefetch(&small->bare[small->number[d - 12]], 1);
            for (uint32_t line = 0; has_indices(small) && line < LENGTH; line += 8)
                seen += small->index[d * LENGTH + line];
            __atomic_compare_exchange_n(lock, &unlocked, unlocked | 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
        }
        for (uint32_t d = 0; d < BATCH; d++) {
            for (uint32_t e = d + NEAR; e < BATCH && e <= d + AHEAD; e += AHEAD - NEAR) {
                __builtin_prefetch(small->destination[e], 1);
                __builtin_prefetch(small->destination[e] + LENGTH - 1, 1);
                __builtin_prefetch(&small->bare_mask[small->number[e]][small->offset[e] / 64], 1);
            }
            const uint64_t bit = small->offset[d] % 64;
            uint64_t *mask = &small->bare_mask[small->number[d]][small->offset[d] / 64];
            memcpy(small->destination[d], small->payload + d * LENGTH, LENGTH);
            mask[0] |= ~0ull << bit;
            mask[(bit + 63) / 64] |= ~0ull >> (-bit & 63);
            bare_page_t *page = &small->bare[small->number[d]];
            page->epoch++;
            page->version++;
            __atomic_store_n(&page->lock, page->lock & ~1ull, __ATOMIC_RELEASE);
        }
    }
    __asm__ volatile("" ::"r"(seen));
}

static void peer_scattered(void *state, uint64_t count) {
    small_t *small = state;
    for (uint64_t i = 0; i < count; i++) {
        next_batch(small);
        for (uint32_t d = 0; d < BATCH; d++) {
            uint8_t *page = small->destination[d];
            for (uint32_t j = d * LENGTH; j < (d + 1) * LENGTH; j++)
                page[small->index[j]] = small->payload[j];
        }
    }
}

static void replay_batch(const small_t *small, uint8_t *shadow, uint8_t *addressed) {
    for (uint32_t d = 0; d < BATCH; d++) {
        const uint64_t page = small->number[d] * (uint64_t)PAGE_SIZE, run = page + small->offset[d];
        if (!has_indices(small)) {
            memcpy(shadow + run, small->payload + d * LENGTH, LENGTH);
            if (addressed)
                memset(addressed + run, 1, LENGTH);
            continue;
        }
        for (uint32_t j = d * LENGTH; j < (d + 1) * LENGTH; j++) {
            shadow[page + small->index[j]] = small->payload[j];
            if (addressed)
                addressed[page + small->index[j]] = 1;
        }
    }
}

static const char *check_small(void *state) {
    small_t *small = state;
    const size_t size = (size_t)PAGES * PAGE_SIZE;
    uint8_t *shadow = bench_memory(size), *addressed = bench_memory(size), bytes[PAGE_SIZE];
    uint64_t epochs = 0, ours_from = small->prepared;
    const char *wrong = NULL;

    for (uint32_t p = 0; p < PAGES; p++)
        BENCH_CALL(mmsb_page_mask_clear(small->page[p]));
    ours_small(small, CHECKED_BATCHES);
    for (uint64_t batch_number = 0; batch_number < small->prepared; batch_number++) {
        prepare_batch(small, batch_number);
        replay_batch(small, shadow, batch_number < ours_from ? NULL : addressed);
    }
    for (uint32_t p = 0; p < PAGES; p++) {
        uint64_t expected = 0, marked;
        BENCH_CALL(mmsb_page_read(small->page[p], 0, bytes, PAGE_SIZE));
        if (memcmp(bytes, shadow + p * (size_t)PAGE_SIZE, PAGE_SIZE) != 0)
            wrong = "bytes differ from the replay";
        for (uint32_t b = 0; b < PAGE_SIZE; b++)
            expected += addressed[p * (size_t)PAGE_SIZE + b];
        BENCH_CALL(mmsb_page_mask_count(small->page[p], &marked));
        if (marked != expected)
            wrong = "a change mask differs from the replay";
        epochs += mmsb_page_epoch(small->page[p]);
    }
    if (epochs != small->ours_deltas)
        wrong = "the epochs do not add up to the number of deltas";
    bench_memory_free(shadow, size);
    bench_memory_free(addressed, size);
    return wrong;
}

/* The fields that are equal in every batch. */
static void describe_deltas(small_t *small) {
    for (uint32_t d = 0; d < BATCH; d++) {
        mmsb_delta_t *delta = &small->delta[d];
        mmsb_delta_init(delta);
        delta->payload = small->payload + d * LENGTH;
        if (has_indices(small)) {
            delta->kind = MMSB_DELTA_INDEXED;
            delta->offsets = small->index + d * LENGTH;
            delta->count = LENGTH;
        } else {
            small->run[d].length = LENGTH;
            delta->kind = MMSB_DELTA_RUNS;
            delta->runs = &small->run[d];
            delta->count = 1;
        }
    }
    mmsb_page_runs_init(&small->runs);
    small->runs.count = BATCH;
    small->runs.pages = small->target;
    small->runs.offsets = small->offset;
    small->runs.uniform_length = LENGTH;
    small->runs.payload = small->payload;
}

static void run_small(const bench_row_t *row, form_t form) {
    bench_row_t measured = *row;
    small_t *small;
    if (!bench_wanted(row->what))
        return;
    small = bench_memory(sizeof *small);
    small->form = form;
    BENCH_CALL(mmsb_page_create_many(context, PAGE_SIZE, PAGES, NULL, NULL, small->page));
    for (uint32_t p = 0; p < PAGES; p++)
        small->address[p] = mmsb_page_address(small->page[p]);
    describe_deltas(small);

    measured.ours = ours_small;
    measured.peer = form == SCATTERED ? peer_scattered : peer_small;
    if (form == SCATTERED) {
        measured.limit_is_peer = true;
    } else {
        measured.limit = limit_small;
        measured.limit_name = "the same work without checks";
    }
    measured.state = small;
    measured.ours_operations = measured.peer_operations = BATCH;
    measured.bytes = LENGTH;
    measured.check = check_small;
    ours_small(small, FIRST_BATCHES);
    bench_run(&measured);

    BENCH_CALL(mmsb_page_destroy_many(small->page, PAGES, NULL));
    bench_memory_free(small, sizeof *small);
}

static void run_all_small(void) {
    bench_row_t row = {.unit = BENCH_MILLIONS, .peer_name = "bare loop of 64-byte memcpy", .aim = BENCH_AT_LEAST};

    row.note = "over 4096 pages of 4 KiB, random page and offset, each batch made just before";
    row.what = "deltas: 64 B, batches of 1000, arrays of runs";
    row.bound = 0.6;
    run_small(&row, RUN_ARRAYS);
    row.what = "deltas: 64 B, batches of 1000, run structs";
    row.bound = 0.4;
    run_small(&row, RUN_STRUCTS);
    row.what = "deltas: 64 B, batches of 1000, 64 consecutive indices";
    row.bound = 0.3;
    run_small(&row, CONSECUTIVE);
    row.what = "deltas: 64 B, batches of 1000, 64 scattered indices";
    row.unit = BENCH_MEGABYTES;
    row.peer_name = "bare loop of byte stores";
    row.absolute = true;
    row.bound = 100;
    run_small(&row, SCATTERED);
    row.what = "deltas: 64 B, one mmsb_page_apply each, run structs";
    row.unit = BENCH_NANOSECONDS;
    row.peer_name = "bare loop of 64-byte memcpy";
    row.aim = BENCH_INFORMATION;
    row.note = "the original: 4700 ns, as published";
    run_small(&row, SINGLE_STRUCTS);
}

/* --------------------------------------------------------------------------- merge, difference, read and write ---- */

typedef struct two {
    mmsb_delta_t first, second;
    mmsb_page_t old_page, new_page;
    uint8_t *old_bytes, *new_bytes;
    uint8_t word[LENGTH];
    uint64_t offset;
} two_t;

static void ours_merge(void *state, uint64_t count) {
    two_t *two = state;
    for (uint64_t i = 0; i < count; i++) {
        mmsb_delta_t *merged;
        BENCH_CALL(mmsb_delta_merge(&two->first, &two->second, &merged));
        BENCH_CALL(mmsb_delta_free(merged));
    }
}

static void ours_from_pages(void *state, uint64_t count) {
    two_t *two = state;
    for (uint64_t i = 0; i < count; i++) {
        mmsb_delta_t *delta;
        BENCH_CALL(mmsb_delta_from_pages(two->old_page, two->new_page, &delta));
        BENCH_CALL(mmsb_delta_free(delta));
    }
}

static void peer_copy_both(void *state, uint64_t count) {
    static uint8_t *target;
    const two_t *two = state;
    if (!target)
        target = bench_memory(MIB);
    for (uint64_t i = 0; i < count; i++)
        memcpy(target, i % 2 ? two->old_bytes : two->new_bytes, MIB);
    __asm__ volatile("" ::"r"(target) : "memory");
}

static const char *same_as_new(two_t *two, mmsb_delta_t *delta) {
    const char *wrong = NULL;
    uint8_t *bytes = bench_memory(MIB);
    mmsb_page_t clone;
    BENCH_CALL(mmsb_page_clone(two->old_page, 0, &clone));
    delta->page_id = 0;
    BENCH_CALL(mmsb_page_apply(clone, delta));
    BENCH_CALL(mmsb_page_read(clone, 0, bytes, MIB));
    if (memcmp(bytes, two->new_bytes, MIB) != 0)
        wrong = "the delta does not turn the old bytes into the new ones";
    BENCH_CALL(mmsb_page_destroy(clone));
    BENCH_CALL(mmsb_delta_free(delta));
    bench_memory_free(bytes, MIB);
    return wrong;
}

static const char *check_merge(void *state) {
    two_t *two = state;
    mmsb_delta_t *merged;
    BENCH_CALL(mmsb_delta_merge(&two->first, &two->second, &merged));
    return same_as_new(two, merged);
}

static const char *check_from_pages(void *state) {
    two_t *two = state;
    mmsb_delta_t *delta;
    BENCH_CALL(mmsb_delta_from_pages(two->old_page, two->new_page, &delta));
    return same_as_new(two, delta);
}

static uint64_t next_offset(two_t *two) {
    return (two->offset = (two->offset + 1729) % (MIB - LENGTH));
}

static void ours_write(void *state, uint64_t count) {
    two_t *two = state;
    for (uint64_t i = 0; i < count; i++)
        BENCH_CALL(mmsb_page_write(two->new_page, next_offset(two), two->word, LENGTH));
}

static void ours_read(void *state, uint64_t count) {
    two_t *two = state;
    for (uint64_t i = 0; i < count; i++)
        BENCH_CALL(mmsb_page_read(two->new_page, next_offset(two), two->word, LENGTH));
}

static void peer_write(void *state, uint64_t count) {
    two_t *two = state;
    for (uint64_t i = 0; i < count; i++)
        memcpy(two->new_bytes + next_offset(two), two->word, LENGTH);
}

static void peer_read(void *state, uint64_t count) {
    two_t *two = state;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(two->word, two->new_bytes + next_offset(two), LENGTH);
        __asm__ volatile("" ::"r"(two->word) : "memory");
    }
}

static const char *check_write(void *state) {
    two_t *two = state;
    uint8_t back[LENGTH];
    BENCH_CALL(mmsb_page_read(two->new_page, two->offset, back, LENGTH));
    BENCH_CALL(mmsb_page_write(two->new_page, two->offset, two->word, LENGTH));
    BENCH_CALL(mmsb_page_read(two->new_page, two->offset, back, LENGTH));
    return memcmp(back, two->word, LENGTH) == 0 ? NULL : "what was written does not come back";
}

static void run_others(void) {
    static two_t two;
    uint8_t *masks = bench_memory(2 * (size_t)MIB), *payloads = bench_memory(2 * (size_t)MIB);
    bench_row_t row = {
        .unit = BENCH_MEGABYTES, .bytes = MIB, .state = &two, .peer = peer_copy_both, .peer_name = "memcpy of 1 MiB"};
    mmsb_delta_t *deltas[] = {&two.first, &two.second};

    two.old_bytes = bench_memory(MIB);
    two.new_bytes = bench_memory(MIB);
    fill_random(two.old_bytes, MIB, 3);
    fill_random(payloads, 2 * (size_t)MIB, 4);
    memcpy(two.new_bytes, two.old_bytes, MIB);
    for (int d = 0; d < 2; d++) {
        const uint8_t *mask = masks + (size_t)d * MIB, *payload = payloads + (size_t)d * MIB;
        fill_mask(masks + (size_t)d * MIB, MIB, 64, (uint64_t)d + 5);
        for (size_t i = 0; i < MIB; i++) {
            if (mask[i])
                two.new_bytes[i] = payload[i];
        }
        mmsb_delta_init(deltas[d]);
        deltas[d]->kind = MMSB_DELTA_DENSE_BYTES;
        deltas[d]->mask = mask;
        deltas[d]->mask_length = MIB;
        deltas[d]->payload = payload;
    }
    BENCH_CALL(mmsb_page_create(context, MIB, NULL, &two.old_page));
    BENCH_CALL(mmsb_page_create(context, MIB, NULL, &two.new_page));
    BENCH_CALL(mmsb_page_write(two.old_page, 0, two.old_bytes, MIB));
    BENCH_CALL(mmsb_page_write(two.new_page, 0, two.new_bytes, MIB));

    row.what = "deltas: merge of two dense ones of 1 MiB, runs of 64";
    row.ours = ours_merge;
    row.check = check_merge;
    row.note = "the original: 350 MB/s, as published";
    bench_run(&row);
    row.what = "deltas: difference of two pages of 1 MiB, runs of 64";
    row.ours = ours_from_pages;
    row.check = check_from_pages;
    row.note = NULL;
    bench_run(&row);

    row.unit = BENCH_NANOSECONDS;
    row.what = "deltas: mmsb_page_write of 64 B beside them";
    row.ours = ours_write;
    row.peer = peer_write;
    row.peer_name = "memcpy of 64 B";
    row.check = check_write;
    bench_run(&row);
    row.what = "deltas: mmsb_page_read of 64 B beside them";
    row.ours = ours_read;
    row.peer = peer_read;
    row.check = NULL;
    bench_run(&row);

    BENCH_CALL(mmsb_page_destroy(two.old_page));
    BENCH_CALL(mmsb_page_destroy(two.new_page));
    bench_memory_free(masks, 2 * (size_t)MIB);
    bench_memory_free(payloads, 2 * (size_t)MIB);
    bench_memory_free(two.old_bytes, MIB);
    bench_memory_free(two.new_bytes, MIB);
}

int main(void) {
    BENCH_CALL(mmsb_context_create(NULL, &context));
    run_all_dense();
    run_all_small();
    run_others();
    BENCH_CALL(mmsb_context_destroy(context));
    return 0;
}
