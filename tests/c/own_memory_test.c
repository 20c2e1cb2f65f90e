/* What a call reads lies in a page that it changes: all comes out as if it had been copied first. */
#include "folder.h"
#include "library.h"

enum { LENGTH = 1024, WRITTEN = 64, PAGES = 3 };

/* Pages that have the same bytes: those of one list hold what the calls read, those of the other do not. */
typedef struct twins {
    mmsb_page_t own[PAGES], other[PAGES];
    uint8_t *memory[PAGES]; /* of own */
} twins_t;

/* What one call reads. */
typedef struct inputs {
    mmsb_delta_t deltas[PAGES];
    uint64_t offsets[PAGES][WRITTEN];
    uint32_t offsets32[PAGES][WRITTEN];
    mmsb_run_t runs[PAGES][4];
    uint8_t mask[PAGES][WRITTEN], payload[PAGES][4 * WRITTEN];
} inputs_t;

static mmsb_context_t context;

static void make_twins(twins_t *twins) {
    for (int i = 0; i < PAGES; i++) {
        void *memory;
        twins->own[i] = new_page(context, LENGTH);
        twins->other[i] = new_page(context, LENGTH);
        REQUIRE_OK(mmsb_page_pin(twins->own[i], MMSB_PIN_WRITE, &memory));
        twins->memory[i] = memory;
    }
}

static void end_twins(const twins_t *twins) {
    for (int i = 0; i < PAGES; i++) {
        REQUIRE_OK(mmsb_page_unpin(twins->own[i], MMSB_PIN_WRITE));
        REQUIRE_OK(mmsb_page_destroy(twins->own[i]));
        REQUIRE_OK(mmsb_page_destroy(twins->other[i]));
    }
}

/* The other pages get the bytes of these. */
static void make_equal(const twins_t *twins) {
    for (int i = 0; i < PAGES; i++)
        REQUIRE_OK(mmsb_page_write(twins->other[i], 0, twins->memory[i], LENGTH));
}

static void check_equal_pages(const twins_t *twins, const char *what, uint64_t round) {
    for (int i = 0; i < PAGES; i++) {
        uint8_t bits[2][LENGTH / 8];
        REQUIRE_OK(mmsb_page_mask_read(twins->own[i], 0, bits[0], LENGTH));
        REQUIRE_OK(mmsb_page_mask_read(twins->other[i], 0, bits[1], LENGTH));
        if (!page_holds(twins->other[i], twins->memory[i], LENGTH) || memcmp(bits[0], bits[1], sizeof bits[0]) != 0 ||
            mmsb_page_epoch(twins->own[i]) != mmsb_page_epoch(twins->other[i]))
            check_fail(__FILE__, __LINE__, "%s, round %llu: page %d differs", what, (unsigned long long)round, i);
    }
}

/* A delta of any form that changes the first bytes of a page. */
static void make_delta(inputs_t *in, int i, uint64_t *seed) {
    mmsb_delta_t *delta = &in->deltas[i];
    mmsb_delta_init(delta);
    for (size_t at = 0; at < sizeof in->payload[i]; at++)
        in->payload[i][at] = (uint8_t)random_next(seed);
    delta->payload = in->payload[i];
    switch (random_below(seed, 6)) {
    case 0:
    case 1:
    case 2:
        delta->kind = MMSB_DELTA_DENSE_BYTES + (int)random_below(seed, 3);
        delta->mask = in->mask[i];
        delta->mask_length = WRITTEN;
        for (int at = 0; at < WRITTEN; at++)
            in->mask[i][at] = (uint8_t)random_next(seed);
        break;
    case 3:
    case 4:
        delta->kind = MMSB_DELTA_INDEXED;
        delta->count = 1 + random_below(seed, WRITTEN);
        for (int at = 0; at < WRITTEN; at++) {
            in->offsets[i][at] = random_below(seed, WRITTEN);
            in->offsets32[i][at] = (uint32_t)in->offsets[i][at];
        }
        if (random_below(seed, 2) == 0)
            delta->offsets = in->offsets[i];
        else
            delta->offsets32 = in->offsets32[i];
        break;
    default:
        delta->kind = MMSB_DELTA_RUNS;
        delta->runs = in->runs[i];
        delta->count = 1 + random_below(seed, 4);
        for (int at = 0; at < 4; at++)
            in->runs[i][at] = (mmsb_run_t){random_below(seed, WRITTEN / 2), random_below(seed, WRITTEN / 2)};
    }
}

/* Puts bytes into one of the pages, at any place where a change may hit them, and gives their address there. */
static void *put(const twins_t *twins, uint64_t *seed, const void *bytes, size_t length) {
    REQUIRE(length <= LENGTH);
    uint64_t most = (LENGTH - length) / 8 < WRITTEN / 8 ? (LENGTH - length) / 8 : WRITTEN / 8;
    uint8_t *to = twins->memory[random_below(seed, PAGES)] + 8 * random_below(seed, most + 1);
    return memmove(to, bytes, length);
}

/* Puts one of the things that a delta names into a page. Of one run the payload of a batch is read when its turn comes. */
static void put_part(const twins_t *twins, uint64_t *seed, mmsb_delta_t *delta, int payloads) {
    if (payloads && random_below(seed, 2) == 0)
        delta->payload = put(twins, seed, delta->payload, 4 * WRITTEN);
    else if (delta->kind == MMSB_DELTA_RUNS)
        delta->runs = put(twins, seed, delta->runs, 4 * sizeof *delta->runs);
    else if (delta->offsets)
        delta->offsets = put(twins, seed, delta->offsets, WRITTEN * sizeof *delta->offsets);
    else if (delta->offsets32)
        delta->offsets32 = put(twins, seed, delta->offsets32, WRITTEN * sizeof *delta->offsets32);
    else
        delta->mask = put(twins, seed, delta->mask, WRITTEN);
}

static void one_delta(uint64_t rounds) {
    twins_t twins;
    make_twins(&twins);
    for (uint64_t round = 0; round < rounds; round++) {
        inputs_t in;
        uint64_t seed = round;
        memset(&in, 0, sizeof in);
        make_delta(&in, 0, &seed);
        mmsb_delta_t own = in.deltas[0];
        const mmsb_delta_t *given = &own;
        if (random_below(&seed, 3) == 0)
            given = put(&twins, &seed, &own, sizeof own);
        else
            put_part(&twins, &seed, &own, 1);
        make_equal(&twins);
        CHECK_OK(mmsb_page_apply(twins.other[0], &in.deltas[0]));
        CHECK_OK(mmsb_page_apply(twins.own[0], given));
        check_equal_pages(&twins, "delta", round);
    }
    end_twins(&twins);
}

/* Tables of deltas, the deltas and the handles lie in pages that other deltas of the batch change before. */
static void batches(uint64_t rounds) {
    twins_t twins;
    make_twins(&twins);
    for (uint64_t round = 0; round < rounds; round++) {
        inputs_t in;
        uint64_t seed = round;
        memset(&in, 0, sizeof in);
        for (int i = 0; i < PAGES; i++)
            make_delta(&in, i, &seed);
        mmsb_delta_t own[PAGES];
        memcpy(own, in.deltas, sizeof own);
        const mmsb_delta_t *deltas = own;
        const mmsb_page_t *pages = twins.own;
        switch (random_below(&seed, 3)) {
        case 0: {
            int i = (int)random_below(&seed, PAGES);
            put_part(&twins, &seed, &own[i], own[i].kind != MMSB_DELTA_RUNS && own[i].kind != MMSB_DELTA_INDEXED);
            break;
        }
        case 1:
            deltas = put(&twins, &seed, own, sizeof own);
            break;
        default:
            pages = put(&twins, &seed, twins.own, sizeof twins.own);
        }
        make_equal(&twins);
        CHECK_OK(mmsb_page_apply_many(twins.other, in.deltas, PAGES, NULL));
        CHECK_OK(mmsb_page_apply_many(pages, deltas, PAGES, NULL));
        check_equal_pages(&twins, "batch", round);
    }
    end_twins(&twins);
}

static void runs_as_arrays(uint64_t rounds) {
    twins_t twins;
    make_twins(&twins);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t seed = round, offsets[PAGES], lengths[PAGES];
        uint8_t payload[PAGES * WRITTEN];
        fill_pattern(payload, sizeof payload, round);
        for (int i = 0; i < PAGES; i++) {
            offsets[i] = random_below(&seed, WRITTEN);
            lengths[i] = random_below(&seed, WRITTEN);
        }
        mmsb_page_runs_t runs;
        mmsb_page_runs_init(&runs);
        runs.count = PAGES;
        runs.pages = twins.other;
        runs.offsets = offsets;
        runs.lengths = lengths;
        runs.payload = payload;
        mmsb_page_runs_t own = runs;
        own.pages = twins.own;
        switch (random_below(&seed, 3)) {
        case 0:
            own.pages = put(&twins, &seed, twins.own, sizeof twins.own);
            break;
        case 1:
            own.offsets = put(&twins, &seed, offsets, sizeof offsets);
            break;
        default:
            own.lengths = put(&twins, &seed, lengths, sizeof lengths);
        }
        make_equal(&twins);
        CHECK_OK(mmsb_page_apply_runs(&runs, NULL));
        CHECK_OK(mmsb_page_apply_runs(&own, NULL));
        check_equal_pages(&twins, "runs", round);
    }
    end_twins(&twins);
}

static void writes(uint64_t rounds) {
    twins_t twins;
    make_twins(&twins);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t seed = round;
        uint8_t payload[PAGES][WRITTEN], before[LENGTH];
        mmsb_page_range_t ranges[PAGES], own[PAGES];
        for (int i = 0; i < PAGES; i++) {
            fill_pattern(payload[i], WRITTEN, round + (uint64_t)i);
            ranges[i] =
                (mmsb_page_range_t){twins.other[i], random_below(&seed, WRITTEN), random_below(&seed, WRITTEN), payload[i]};
            own[i] = ranges[i];
            own[i].page = twins.own[i];
        }
        const mmsb_page_range_t *given = put(&twins, &seed, own, sizeof own);
        make_equal(&twins);
        CHECK_OK(mmsb_page_write_many(ranges, PAGES, NULL));
        CHECK_OK(mmsb_page_write_many(given, PAGES, NULL));
        check_equal_pages(&twins, "writes", round);
        /* One write of the page's own bytes, and one read into them. */
        uint64_t from = random_below(&seed, LENGTH / 2), to = random_below(&seed, LENGTH / 2);
        memcpy(before, twins.memory[0], LENGTH);
        memmove(before + to, before + from, LENGTH / 2);
        CHECK_OK(mmsb_page_write(twins.own[0], to, twins.memory[0] + from, LENGTH / 2));
        CHECK(page_holds(twins.own[0], before, LENGTH));
        memmove(before + from, before + to, LENGTH / 2);
        CHECK_OK(mmsb_page_read(twins.own[0], to, twins.memory[0] + from, LENGTH / 2));
        CHECK(page_holds(twins.own[0], before, LENGTH));
        make_equal(&twins);
    }
    end_twins(&twins);
}

enum { ROUNDS = 20000 };

static void a_delta_lies_in_the_page_that_it_changes(void) {
    context = new_context();
    one_delta(ROUNDS);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_batch_lies_in_pages_that_it_changes(void) {
    context = new_context();
    batches(ROUNDS);
    CHECK_OK(mmsb_context_destroy(context));
}

static void arrays_of_runs_lie_in_pages_that_they_change(void) {
    context = new_context();
    runs_as_arrays(ROUNDS);
    CHECK_OK(mmsb_context_destroy(context));
}

static void ranges_lie_in_pages_that_they_write(void) {
    context = new_context();
    writes(ROUNDS);
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_same_with_a_journal(void) {
    context = new_context();
    REQUIRE_OK(mmsb_journal_open(context, at("journal"), NULL));
    one_delta(ROUNDS / 10);
    batches(ROUNDS / 10);
    runs_as_arrays(ROUNDS / 10);
    writes(ROUNDS / 10);
    REQUIRE_OK(mmsb_journal_close(context));
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    folder_make();
    RUN(a_delta_lies_in_the_page_that_it_changes);
    RUN(a_batch_lies_in_pages_that_it_changes);
    RUN(arrays_of_runs_lie_in_pages_that_they_change);
    RUN(ranges_lie_in_pages_that_they_write);
    RUN_IN_FOLDER(the_same_with_a_journal);
    folder_end();
    return check_report();
}
