/* Deltas: the five kinds, their validation, batches, runs as arrays, merge, from two pages, conversions. */
#include "library.h"

enum { SIZE = 40 };

/* A delta with all the memory it points to, of any kind, and what it does to a page of SIZE bytes. */
typedef struct example {
    mmsb_delta_t delta;
    uint8_t mask[SIZE];
    uint64_t offsets[SIZE];
    uint32_t offsets32[SIZE];
    mmsb_run_t runs[4];
    uint8_t payload[2 * SIZE];
    uint8_t addressed[SIZE]; /* 1 where the delta changes */
    uint8_t value[SIZE];     /* to what */
} example_t;

enum form { DENSE_BYTES, DENSE_BITS, SPARSE_BITS, INDEXED, INDEXED32, RUNS, FORMS };

static void make_example(example_t *example, enum form form, uint64_t seed) {
    memset(example, 0, sizeof *example);
    mmsb_delta_init(&example->delta);
    mmsb_delta_t *delta = &example->delta;
    for (size_t i = 0; i < sizeof example->payload; i++) {
        example->payload[i] = (uint8_t)random_next(&seed);
    }
    delta->payload = example->payload;
    uint64_t next = 0;
    switch (form) {
    case DENSE_BYTES:
    case DENSE_BITS:
    case SPARSE_BITS:
        delta->kind = form == DENSE_BYTES  ? MMSB_DELTA_DENSE_BYTES
                      : form == DENSE_BITS ? MMSB_DELTA_DENSE_BITS
                                           : MMSB_DELTA_SPARSE_BITS;
        delta->mask = example->mask;
        delta->mask_length = 1 + random_below(&seed, SIZE);
        for (uint64_t i = 0; i < delta->mask_length; i++) {
            if (random_below(&seed, 2) == 0) {
                continue;
            }
            example->addressed[i] = 1;
            example->value[i] = form == SPARSE_BITS ? example->payload[next++] : example->payload[i];
            if (form == DENSE_BYTES) {
                example->mask[i] = (uint8_t)(1 + random_below(&seed, 255));
            } else {
                example->mask[i / 8] |= (uint8_t)(1 << i % 8);
            }
        }
        break;
    case INDEXED:
    case INDEXED32:
        delta->kind = MMSB_DELTA_INDEXED;
        delta->count = 1 + random_below(&seed, SIZE);
        for (uint64_t i = 0; i < delta->count; i++) {
            uint64_t offset = random_below(&seed, SIZE);
            example->offsets[i] = offset;
            example->offsets32[i] = (uint32_t)offset;
            example->addressed[offset] = 1;
            example->value[offset] = example->payload[i];
        }
        if (form == INDEXED) {
            delta->offsets = example->offsets;
        } else {
            delta->offsets32 = example->offsets32;
        }
        break;
    default:
        delta->kind = MMSB_DELTA_RUNS;
        delta->runs = example->runs;
        delta->count = 1 + random_below(&seed, 4);
        for (uint64_t i = 0; i < delta->count; i++) {
            example->runs[i].offset = random_below(&seed, SIZE);
            example->runs[i].length = random_below(&seed, SIZE / 2);
            if (example->runs[i].length > SIZE - example->runs[i].offset) {
                example->runs[i].length = SIZE - example->runs[i].offset;
            }
            for (uint64_t k = 0; k < example->runs[i].length; k++) {
                example->addressed[example->runs[i].offset + k] = 1;
                example->value[example->runs[i].offset + k] = example->payload[next++];
            }
        }
    }
}

static void do_example(const example_t *example, uint8_t *bytes, uint8_t *changed) {
    for (int i = 0; i < SIZE; i++) {
        if (example->addressed[i]) {
            bytes[i] = example->value[i];
            changed[i] = 1;
        }
    }
}

static int mask_is(mmsb_page_t page, const uint8_t *changed) {
    uint8_t bits[SIZE / 8 + 1] = {0};
    REQUIRE_OK(mmsb_page_mask_read(page, 0, bits, SIZE));
    for (int i = 0; i < SIZE; i++) {
        if ((bits[i / 8] >> i % 8 & 1) != changed[i]) {
            return 0;
        }
    }
    return 1;
}

static void all_kinds_are_applied(void) {
    mmsb_context_t context = new_context();
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        mmsb_page_t page = on_disk ? new_disk_page(context, SIZE) : new_page(context, SIZE);
        uint8_t bytes[SIZE] = {0};
        uint8_t changed[SIZE] = {0};
        for (uint64_t round = 0; round < 300; round++) {
            example_t example;
            make_example(&example, (enum form)(round % FORMS), round);
            uint64_t version = mmsb_page_version(page);
            CHECK_OK(mmsb_delta_validate(&example.delta, SIZE));
            CHECK_OK(mmsb_page_apply(page, &example.delta));
            do_example(&example, bytes, changed);
            CHECK(page_holds(page, bytes, SIZE));
            CHECK(mask_is(page, changed));
            CHECK_EQUAL(mmsb_page_epoch(page), round + 1);
            CHECK(mmsb_page_version(page) > version);
            if (round % 50 == 49) {
                CHECK_OK(mmsb_page_mask_clear(page));
                memset(changed, 0, sizeof changed);
            }
        }
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* The same over a page long enough for every vector path, with masks that begin and end anywhere. */
static void long_masks_are_applied(void) {
    enum { LENGTH = 10007 };
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, LENGTH);
    uint8_t *model = calloc(1, LENGTH);
    uint8_t *mask = malloc(LENGTH);
    uint8_t *bits = malloc(LENGTH / 8 + 1);
    uint8_t *payload = malloc(LENGTH);
    uint8_t *sparse = malloc(LENGTH);
    uint64_t seed = 11;
    for (int round = 0; round < 60; round++) {
        uint64_t length = LENGTH - random_below(&seed, 200);
        uint64_t count = 0;
        memset(bits, 0, LENGTH / 8 + 1);
        uint64_t density = random_below(&seed, 5);
        for (uint64_t i = 0; i < length; i++) {
            payload[i] = (uint8_t)random_next(&seed);
            mask[i] = density == 4 || random_below(&seed, 4) < density;
            if (mask[i]) {
                bits[i / 8] |= (uint8_t)(1 << i % 8);
                sparse[count++] = payload[i];
                model[i] = payload[i];
            }
        }
        mmsb_delta_t delta;
        mmsb_delta_init(&delta);
        delta.kind = MMSB_DELTA_DENSE_BYTES + round % 3;
        delta.mask = round % 3 == 0 ? mask : bits;
        delta.mask_length = length;
        delta.payload = round % 3 == 2 ? sparse : payload;
        delta.payload_length = round % 3 == 2 ? count : length;
        CHECK_OK(mmsb_page_apply(page, &delta));
        CHECK(page_holds(page, model, LENGTH));
        uint64_t set;
        CHECK_OK(mmsb_page_mask_count(page, &set));
        CHECK_EQUAL(set, count);
        CHECK_OK(mmsb_page_mask_clear(page));
    }
    free(model);
    free(mask);
    free(bits);
    free(payload);
    free(sparse);
    CHECK_OK(mmsb_context_destroy(context));
}

static void epochs_only_rise(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 4);
    mmsb_run_t run = {0, 1};
    mmsb_delta_t delta = one_run(&run, "a");
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_EQUAL(mmsb_page_epoch(page), 1);
    delta.epoch = 10;
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_EQUAL(mmsb_page_epoch(page), 10);
    delta.payload = "b";
    for (uint64_t epoch = 1; epoch <= 10; epoch++) {
        delta.epoch = epoch;
        uint64_t version = mmsb_page_version(page);
        CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_EPOCH);
        CHECK(page_holds(page, "a\0\0", 4));
        CHECK_EQUAL(mmsb_page_epoch(page), 10);
        CHECK_EQUAL(mmsb_page_version(page), version);
    }
    delta.epoch = UINT64_MAX;
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_EQUAL(mmsb_page_epoch(page), UINT64_MAX);
    CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_EPOCH);
    delta.epoch = 0; /* the end of the counter: there is no next one */
    mmsb_status_t status = mmsb_page_apply(page, &delta);
    CHECK(status == MMSB_E_EPOCH || status == MMSB_E_LIMIT);
    CHECK_EQUAL(mmsb_page_epoch(page), UINT64_MAX);
    /* An empty delta moves the epoch and the version, and no byte. */
    mmsb_page_t other = new_page(context, 4);
    uint64_t version = mmsb_page_version(other);
    for (mmsb_delta_kind_t kind = MMSB_DELTA_DENSE_BYTES; kind <= MMSB_DELTA_RUNS; kind++) {
        mmsb_delta_init(&delta);
        delta.kind = kind;
        CHECK_OK(mmsb_page_apply(other, &delta));
        CHECK_EQUAL(mmsb_page_epoch(other), kind);
        CHECK(mmsb_page_version(other) > version);
        version = mmsb_page_version(other);
    }
    CHECK(page_holds(other, "\0\0\0", 4));
    uint64_t set;
    CHECK_OK(mmsb_page_mask_count(other, &set));
    CHECK_EQUAL(set, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

/* Every way in which a delta can be wrong: the same code from validate and from apply, and an untouched page. */
static void wrong_deltas_change_nothing(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, SIZE);
    write_pattern(page, 1);
    uint8_t before[SIZE];
    CHECK_OK(mmsb_page_read(page, 0, before, SIZE));
    uint64_t version = mmsb_page_version(page);

    const uint8_t mask[SIZE + 8] = {1, 0, 0xFF, 3};
    const uint64_t past[3] = {0, SIZE, 1};
    const uint64_t far[1] = {UINT64_MAX};
    const uint32_t past32[2] = {1, SIZE};
    const mmsb_run_t run_past[2] = {{0, 2}, {SIZE - 1, 2}};
    const mmsb_run_t run_far[1] = {{UINT64_MAX, 2}};
    const mmsb_run_t run_long[1] = {{1, UINT64_MAX}};
    const mmsb_run_t run_empty_past[1] = {{SIZE + 1, 0}};
    const uint8_t payload[2 * SIZE] = {9, 9, 9};
    const struct {
        const char *what;
        mmsb_status_t code;
        mmsb_delta_t delta;
    } wrong[] = {
        {"kind 0", MMSB_E_INVALID_ARGUMENT, {.kind = 0}},
        {"kind 6", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_RUNS + 1}},
        {"kind -1", MMSB_E_INVALID_ARGUMENT, {.kind = -1}},
        {"bytes: no mask", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_DENSE_BYTES, .mask_length = 4, .payload = payload}},
        {"bytes: no payload", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_DENSE_BYTES, .mask = mask, .mask_length = 4}},
        {"bytes: mask too long",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_DENSE_BYTES, .mask = mask, .mask_length = SIZE + 1, .payload = payload}},
        {"bytes: payload short",
         MMSB_E_MISMATCH,
         {.kind = MMSB_DELTA_DENSE_BYTES, .mask = mask, .mask_length = 4, .payload = payload, .payload_length = 3}},
        {"bytes: payload long",
         MMSB_E_MISMATCH,
         {.kind = MMSB_DELTA_DENSE_BYTES, .mask = mask, .mask_length = 4, .payload = payload, .payload_length = 5}},
        {"bits: no mask", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_DENSE_BITS, .mask_length = 4, .payload = payload}},
        {"bits: no payload", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_DENSE_BITS, .mask = mask, .mask_length = 4}},
        {"bits: mask too long",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_DENSE_BITS, .mask = mask, .mask_length = SIZE + 1, .payload = payload}},
        {"bits: endless mask",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_DENSE_BITS, .mask = mask, .mask_length = UINT64_MAX, .payload = payload}},
        {"bits: payload short",
         MMSB_E_MISMATCH,
         {.kind = MMSB_DELTA_DENSE_BITS, .mask = mask, .mask_length = 4, .payload = payload, .payload_length = 3}},
        {"sparse: no mask", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_SPARSE_BITS, .mask_length = 4, .payload = payload}},
        {"sparse: no payload", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_SPARSE_BITS, .mask = mask, .mask_length = 24}},
        {"sparse: mask too long",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_SPARSE_BITS, .mask = mask, .mask_length = SIZE + 1, .payload = payload}},
        {"sparse: payload short",
         MMSB_E_MISMATCH,
         {.kind = MMSB_DELTA_SPARSE_BITS, .mask = mask, .mask_length = 24, .payload = payload, .payload_length = 8}},
        {"sparse: payload long",
         MMSB_E_MISMATCH,
         {.kind = MMSB_DELTA_SPARSE_BITS, .mask = mask, .mask_length = 24, .payload = payload, .payload_length = 10}},
        {"indexed: no offsets", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_INDEXED, .count = 3, .payload = payload}},
        {"indexed: no payload", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_INDEXED, .count = 1, .offsets = past}},
        {"indexed: past the end",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_INDEXED, .count = 3, .offsets = past, .payload = payload}},
        {"indexed: far past the end",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_INDEXED, .count = 1, .offsets = far, .payload = payload}},
        {"indexed: 32 past the end",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_INDEXED, .count = 2, .offsets32 = past32, .payload = payload}},
        {"indexed: payload length",
         MMSB_E_MISMATCH,
         {.kind = MMSB_DELTA_INDEXED, .count = 1, .offsets = past, .payload = payload, .payload_length = 2}},
        {"indexed: more than can be addressed",
         MMSB_E_INVALID_SIZE,
         {.kind = MMSB_DELTA_INDEXED, .count = UINT64_MAX, .offsets = past, .payload = payload}},
        {"runs: more than can be addressed",
         MMSB_E_INVALID_SIZE,
         {.kind = MMSB_DELTA_RUNS, .count = UINT64_C(1) << 60, .runs = run_past, .payload = payload}},
        {"runs: no runs", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_RUNS, .count = 1, .payload = payload}},
        {"runs: no payload", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_RUNS, .count = 1, .runs = run_past}},
        {"runs: past the end", MMSB_E_OUT_OF_RANGE, {.kind = MMSB_DELTA_RUNS, .count = 2, .runs = run_past, .payload = payload}},
        {"runs: far past the end",
         MMSB_E_OUT_OF_RANGE,
         {.kind = MMSB_DELTA_RUNS, .count = 1, .runs = run_far, .payload = payload}},
        {"runs: endless", MMSB_E_OUT_OF_RANGE, {.kind = MMSB_DELTA_RUNS, .count = 1, .runs = run_long, .payload = payload}},
        {"runs: empty past the end", MMSB_E_OUT_OF_RANGE, {.kind = MMSB_DELTA_RUNS, .count = 1, .runs = run_empty_past}},
        {"runs: payload length",
         MMSB_E_MISMATCH,
         {.kind = MMSB_DELTA_RUNS, .count = 1, .runs = run_past, .payload = payload, .payload_length = 3}},
        {"source not UTF-8", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_RUNS, .source = "a\xFF"}},
        {"intent not UTF-8", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_RUNS, .intent = "\xC0\x80"}},
        {"source with a surrogate", MMSB_E_INVALID_ARGUMENT, {.kind = MMSB_DELTA_RUNS, .source = "\xED\xA0\x80"}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        mmsb_delta_t delta = wrong[i].delta;
        delta.struct_size = sizeof delta;
        mmsb_status_t status = mmsb_delta_validate(&delta, SIZE);
        if (status != wrong[i].code) {
            check_fail(__FILE__, __LINE__, "validate, %s: %d, expected %d", wrong[i].what, (int)status, (int)wrong[i].code);
        }
        status = mmsb_page_apply(page, &delta);
        if (status != wrong[i].code) {
            check_fail(__FILE__, __LINE__, "apply, %s: %d, expected %d", wrong[i].what, (int)status, (int)wrong[i].code);
        }
        size_t bad = 99;
        const mmsb_page_t pages[2] = {page, page};
        mmsb_delta_t deltas[2];
        const mmsb_run_t good = {0, 1};
        deltas[0] = one_run(&good, payload);
        deltas[1] = delta;
        status = mmsb_page_apply_many(pages, deltas, 2, &bad);
        if (status != wrong[i].code || bad != 1) {
            check_fail(__FILE__, __LINE__, "apply_many, %s: %d at %zu, expected %d at 1", wrong[i].what, (int)status, bad,
                       (int)wrong[i].code);
        }
        mmsb_delta_t *made = NULL;
        if (wrong[i].code != MMSB_E_OUT_OF_RANGE) { /* what has no page has no end of it */
            CHECK_STATUS(mmsb_delta_convert(&delta, MMSB_DELTA_RUNS, &made), wrong[i].code);
            CHECK_STATUS(mmsb_delta_merge(&deltas[0], &delta, &made), wrong[i].code);
            CHECK_STATUS(mmsb_delta_merge(&delta, &deltas[0], &made), wrong[i].code);
            CHECK(made == NULL);
        }
    }
    mmsb_delta_t delta;
    const mmsb_run_t run = {0, 1};
    for (int i = 0; i < 4; i++) {
        delta = one_run(&run, payload);
        delta.reserved[i] = 1;
        CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_STRUCT_VERSION);
        CHECK_STATUS(mmsb_delta_validate(&delta, SIZE), MMSB_E_STRUCT_VERSION);
    }
    delta = one_run(&run, payload);
    delta.struct_size = sizeof delta - 8;
    CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_page_apply(page, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_validate(NULL, SIZE), MMSB_E_INVALID_ARGUMENT);
    delta = one_run(&run, payload);
    delta.page_id = page_info(page).id + 1;
    CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_MISMATCH);
    CHECK_OK(mmsb_delta_validate(&delta, SIZE));

    CHECK(page_holds(page, before, SIZE));
    CHECK_EQUAL(mmsb_page_epoch(page), 0);
    CHECK_EQUAL(mmsb_page_version(page), version);
    uint64_t set;
    CHECK_OK(mmsb_page_mask_count(page, &set));
    CHECK_EQUAL(set, 0);
    delta.page_id = page_info(page).id;
    delta.id = 17;
    delta.timestamp_ns = 5;
    delta.source = "tester";
    delta.intent = "to show that \xC3\xA4 is allowed";
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_OK(mmsb_context_destroy(context));
}

static void batches_are_applied_whole_or_not_at_all(void) {
    enum { COUNT = 500, PAGES = 20 };
    mmsb_context_t context = new_context();
    mmsb_page_t pages[PAGES];
    uint8_t bytes[PAGES][SIZE];
    uint8_t changed[PAGES][SIZE];
    uint64_t epochs[PAGES] = {0};
    memset(bytes, 0, sizeof bytes);
    memset(changed, 0, sizeof changed);
    for (int i = 0; i < PAGES; i++) {
        pages[i] = i % 5 == 4 ? new_disk_page(context, SIZE) : new_page(context, SIZE);
    }
    static example_t examples[COUNT];
    static mmsb_delta_t deltas[COUNT];
    static mmsb_page_t targets[COUNT];
    uint64_t seed = 3;
    for (int i = 0; i < COUNT; i++) {
        make_example(&examples[i], (enum form)(i % FORMS), (uint64_t)i + 1000);
        deltas[i] = examples[i].delta;
        uint64_t page = random_below(&seed, PAGES);
        targets[i] = pages[page];
        do_example(&examples[i], bytes[page], changed[page]);
        epochs[page]++;
    }
    CHECK_OK(mmsb_page_apply_many(targets, deltas, COUNT, NULL));
    for (int i = 0; i < PAGES; i++) {
        CHECK(page_holds(pages[i], bytes[i], SIZE));
        CHECK(mask_is(pages[i], changed[i]));
        CHECK_EQUAL(mmsb_page_epoch(pages[i]), epochs[i]);
    }
    size_t bad = 99;
    targets[400] = context;
    CHECK_STATUS(mmsb_page_apply_many(targets, deltas, COUNT, &bad), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(bad, 400);
    targets[399] = 0;
    CHECK_STATUS(mmsb_page_apply_many(targets, deltas, COUNT, &bad), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(bad, 399);
    targets[399] = targets[400] = pages[0];

    /* Epochs count within the batch too. */
    deltas[10].epoch = 1000000;
    deltas[20].epoch = 1000000;
    targets[10] = targets[20] = pages[1];
    CHECK_STATUS(mmsb_page_apply_many(targets, deltas, COUNT, &bad), MMSB_E_EPOCH);
    CHECK_EQUAL(bad, 20);
    for (int i = 0; i < PAGES; i++) {
        CHECK(page_holds(pages[i], bytes[i], SIZE));
        CHECK(mask_is(pages[i], changed[i]));
        CHECK_EQUAL(mmsb_page_epoch(pages[i]), epochs[i]);
    }
    deltas[20].epoch = 1000001 + COUNT;
    CHECK_OK(mmsb_page_apply_many(targets, deltas, COUNT, &bad));
    CHECK(mmsb_page_epoch(pages[1]) >= 1000001 + COUNT);
    CHECK_OK(mmsb_page_apply_many(NULL, NULL, 0, NULL));
    CHECK_STATUS(mmsb_page_apply_many(NULL, deltas, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_apply_many(targets, NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

static void runs_as_arrays_are_applied(void) {
    enum { COUNT = 1000, PAGES = 16, BYTES = 256 };
    mmsb_context_t context = new_context();
    mmsb_page_t pages[PAGES];
    static uint8_t bytes[PAGES][BYTES];
    uint64_t epochs[PAGES] = {0};
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < PAGES; i++) {
        pages[i] = i % 4 == 3 ? new_disk_page(context, BYTES) : new_page(context, BYTES);
    }
    static mmsb_page_t targets[COUNT];
    static uint64_t offsets[COUNT];
    static uint64_t lengths[COUNT];
    static uint8_t payload[COUNT * 64];
    uint64_t seed = 17;
    uint64_t total = 0;
    for (size_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)random_next(&seed);
    }
    for (int uniform = 0; uniform < 2; uniform++) {
        total = 0;
        for (int i = 0; i < COUNT; i++) {
            uint64_t page = random_below(&seed, PAGES);
            targets[i] = pages[page];
            lengths[i] = uniform ? 64 : random_below(&seed, 65);
            offsets[i] = random_below(&seed, BYTES - lengths[i] + 1);
            memcpy(bytes[page] + offsets[i], payload + total, lengths[i]);
            total += lengths[i];
            epochs[page]++;
        }
        mmsb_page_runs_t runs;
        mmsb_page_runs_init(&runs);
        CHECK_EQUAL(runs.struct_size, sizeof runs);
        runs.count = COUNT;
        runs.pages = targets;
        runs.offsets = offsets;
        runs.lengths = uniform ? NULL : lengths;
        runs.uniform_length = uniform ? 64 : 0;
        runs.payload = payload;
        runs.payload_length = uniform ? total : 0;
        CHECK_OK(mmsb_page_apply_runs(&runs, NULL));
        for (int i = 0; i < PAGES; i++) {
            CHECK(page_holds(pages[i], bytes[i], BYTES));
            CHECK_EQUAL(mmsb_page_epoch(pages[i]), epochs[i]);
        }
    }
    mmsb_page_runs_t runs;
    mmsb_page_runs_init(&runs);
    CHECK_OK(mmsb_page_apply_runs(&runs, NULL));
    runs.count = COUNT;
    runs.pages = targets;
    runs.offsets = offsets;
    runs.uniform_length = 64;
    runs.payload = payload;
    const mmsb_page_runs_t good = runs;
    size_t bad = 99;
    runs.payload_length = total + 1;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_MISMATCH);
    runs = good;
    runs.pages = NULL;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_INVALID_ARGUMENT);
    runs = good;
    runs.offsets = NULL;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_INVALID_ARGUMENT);
    runs = good;
    runs.count = SIZE_MAX;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_INVALID_SIZE);
    runs = good;
    runs.payload = NULL;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_INVALID_ARGUMENT);
    runs = good;
    runs.struct_size = 4;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_STRUCT_VERSION);
    runs = good;
    runs.reserved_word = 1;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_STRUCT_VERSION);
    runs = good;
    runs.reserved[0] = 1;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_page_apply_runs(NULL, &bad), MMSB_E_INVALID_ARGUMENT);
    runs = good;
    runs.uniform_length = UINT64_MAX / 2;
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(bad, 0);
    uint64_t kept = offsets[700];
    offsets[700] = BYTES - 63;
    CHECK_STATUS(mmsb_page_apply_runs(&good, &bad), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(bad, 700);
    offsets[700] = UINT64_MAX - 8;
    CHECK_STATUS(mmsb_page_apply_runs(&good, &bad), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(bad, 700);
    offsets[700] = kept;
    mmsb_page_t page = targets[600];
    targets[600] = page ^ (1ULL << 59);
    CHECK_STATUS(mmsb_page_apply_runs(&good, &bad), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(bad, 600);
    targets[600] = page;
    for (int i = 0; i < PAGES; i++) {
        CHECK(page_holds(pages[i], bytes[i], BYTES));
        CHECK_EQUAL(mmsb_page_epoch(pages[i]), epochs[i]);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* Applying a merged delta is applying both. */
static void merged_deltas_do_what_both_do(void) {
    mmsb_context_t context = new_context();
    for (uint64_t round = 0; round < 200; round++) {
        example_t first;
        example_t second;
        make_example(&first, (enum form)(round % FORMS), round);
        make_example(&second, (enum form)(round / FORMS % FORMS), round + 5000);
        first.delta.id = 1;
        first.delta.epoch = 70;
        first.delta.timestamp_ns = 900;
        first.delta.source = "first";
        second.delta.id = 2;
        second.delta.epoch = 60;
        second.delta.timestamp_ns = 1000;
        second.delta.source = "second";
        second.delta.intent = "why";
        mmsb_page_t page = new_page(context, SIZE);
        if (round % 2 == 0) {
            first.delta.page_id = page_info(page).id;
        }
        mmsb_delta_t *merged = NULL;
        CHECK_OK(mmsb_delta_merge(&first.delta, &second.delta, &merged));
        REQUIRE(merged != NULL);
        CHECK_EQUAL(merged->struct_size, sizeof *merged);
        CHECK_EQUAL(merged->kind, MMSB_DELTA_RUNS);
        CHECK_EQUAL(merged->id, 2);
        CHECK_EQUAL(merged->epoch, 70);
        CHECK_EQUAL(merged->timestamp_ns, 1000);
        CHECK_EQUAL(merged->page_id, first.delta.page_id);
        CHECK(merged->source != NULL && merged->source != second.delta.source && strcmp(merged->source, "second") == 0);
        CHECK(merged->intent != NULL && strcmp(merged->intent, "why") == 0);
        CHECK_EQUAL(check_live(MMSB_KIND_DELTA), 1);
        memset(&first.payload, 0xEE, sizeof first.payload); /* what was handed in is only used during the call */
        memset(&second.payload, 0xEE, sizeof second.payload);
        uint8_t bytes[SIZE] = {0};
        uint8_t changed[SIZE] = {0};
        do_example(&first, bytes, changed);
        do_example(&second, bytes, changed);
        CHECK_OK(mmsb_page_apply(page, merged));
        CHECK(page_holds(page, bytes, SIZE));
        CHECK(mask_is(page, changed));
        CHECK_EQUAL(mmsb_page_epoch(page), 70);
        CHECK_OK(mmsb_delta_free(merged));
        CHECK_OK(mmsb_page_destroy(page));
    }
    example_t first;
    example_t second;
    make_example(&first, RUNS, 1);
    make_example(&second, RUNS, 2);
    first.delta.page_id = 5;
    second.delta.page_id = 6;
    mmsb_delta_t *merged = NULL;
    CHECK_STATUS(mmsb_delta_merge(&first.delta, &second.delta, &merged), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_delta_merge(NULL, &second.delta, &merged), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_merge(&first.delta, NULL, &merged), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_merge(&first.delta, &first.delta, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK(merged == NULL);
    CHECK_OK(mmsb_context_destroy(context));
}

static void conversions_keep_the_change(void) {
    mmsb_context_t context = new_context();
    for (uint64_t round = 0; round < 300; round++) {
        example_t example;
        make_example(&example, (enum form)(round % FORMS), round);
        example.delta.id = 7;
        example.delta.epoch = 8;
        example.delta.timestamp_ns = 9;
        example.delta.source = "me";
        mmsb_delta_kind_t kind = (mmsb_delta_kind_t)(1 + round / FORMS % 5);
        mmsb_delta_t *made = NULL;
        CHECK_OK(mmsb_delta_convert(&example.delta, kind, &made));
        REQUIRE(made != NULL);
        CHECK_EQUAL(made->kind, kind);
        CHECK_EQUAL(made->id, 7);
        CHECK_EQUAL(made->epoch, 8);
        CHECK_EQUAL(made->timestamp_ns, 9);
        CHECK(made->source != NULL && strcmp(made->source, "me") == 0);
        uint64_t addressed = 0;
        uint64_t last = 0;
        for (uint64_t i = 0; i < SIZE; i++) {
            if (example.addressed[i]) {
                addressed++;
                last = i + 1;
            }
        }
        if (kind <= MMSB_DELTA_SPARSE_BITS) {
            CHECK_EQUAL(made->mask_length, last);
        } else if (kind == MMSB_DELTA_INDEXED) {
            CHECK_EQUAL(made->count, addressed);
            for (uint64_t i = 1; i < made->count; i++) {
                CHECK(made->offsets != NULL ? made->offsets[i - 1] < made->offsets[i]
                                            : made->offsets32[i - 1] < made->offsets32[i]);
            }
        } else {
            uint64_t sum = 0;
            for (uint64_t i = 0; i < made->count; i++) {
                sum += made->runs[i].length;
                CHECK(i == 0 || made->runs[i - 1].offset + made->runs[i - 1].length <= made->runs[i].offset);
            }
            CHECK_EQUAL(sum, addressed);
        }
        uint8_t bytes[SIZE] = {0};
        uint8_t changed[SIZE] = {0};
        do_example(&example, bytes, changed);
        mmsb_page_t page = new_page(context, SIZE);
        CHECK_OK(mmsb_delta_validate(made, SIZE));
        CHECK_OK(mmsb_page_apply(page, made));
        CHECK(page_holds(page, bytes, SIZE));
        CHECK(mask_is(page, changed));
        CHECK_OK(mmsb_delta_free(made));
        CHECK_OK(mmsb_page_destroy(page));
    }
    example_t example;
    make_example(&example, RUNS, 1);
    mmsb_delta_t *made = NULL;
    CHECK_STATUS(mmsb_delta_convert(&example.delta, 0, &made), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_convert(&example.delta, MMSB_DELTA_RUNS + 1, &made), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_convert(NULL, MMSB_DELTA_RUNS, &made), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_convert(&example.delta, MMSB_DELTA_RUNS, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK(made == NULL);
    CHECK_OK(mmsb_context_destroy(context));
}

static void deltas_come_from_two_pages(void) {
    static const uint64_t sizes[] = {1, 7, 64, 100, 4096, 30001};
    mmsb_context_t context = new_context();
    uint64_t seed = 9;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t size = sizes[i];
        for (int round = 0; round < 6; round++) {
            mmsb_page_t old_page = round % 2 == 0 ? new_page(context, size) : new_disk_page(context, size);
            mmsb_page_t wanted = new_page(context, size);
            uint8_t *bytes = malloc(size);
            fill_pattern(bytes, size, 1);
            CHECK_OK(mmsb_page_write(old_page, 0, bytes, size));
            uint64_t differences = 0;
            for (uint64_t k = 0; k < size; k++) {
                if (round > 0 && random_below(&seed, 10) < (uint64_t)round * 2) {
                    bytes[k] ^= (uint8_t)(1 + random_below(&seed, 255));
                    differences++;
                }
            }
            CHECK_OK(mmsb_page_write(wanted, 0, bytes, size));
            mmsb_delta_t *delta = NULL;
            CHECK_OK(mmsb_delta_from_pages(old_page, wanted, &delta));
            REQUIRE(delta != NULL);
            CHECK_EQUAL(delta->kind, MMSB_DELTA_RUNS);
            CHECK_EQUAL(delta->page_id, page_info(old_page).id);
            CHECK_EQUAL(delta->epoch, 0);
            uint64_t sum = 0;
            for (uint64_t k = 0; k < delta->count; k++) {
                sum += delta->runs[k].length;
            }
            CHECK(sum >= differences);
            CHECK(differences > 0 || delta->count == 0);
            CHECK_STATUS(mmsb_page_apply(wanted, delta), MMSB_E_MISMATCH);
            CHECK_OK(mmsb_page_apply(old_page, delta));
            CHECK(page_holds(old_page, bytes, size));
            CHECK_OK(mmsb_delta_free(delta));
            free(bytes);
            CHECK_OK(mmsb_page_destroy(old_page));
            CHECK_OK(mmsb_page_destroy(wanted));
        }
    }
    mmsb_page_t small = new_page(context, 4);
    mmsb_page_t large = new_page(context, 5);
    mmsb_delta_t *delta = NULL;
    CHECK_STATUS(mmsb_delta_from_pages(small, large, &delta), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_delta_from_pages(small, small, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_from_pages(small, 0, &delta), MMSB_E_INVALID_HANDLE);
    CHECK(delta == NULL);
    CHECK_OK(mmsb_delta_from_pages(small, small, &delta));
    CHECK_EQUAL(delta->count, 0);
    CHECK_OK(mmsb_delta_free(delta));
    CHECK_OK(mmsb_context_destroy(context));
}

static void deltas_are_freed_once(void) {
    example_t example;
    make_example(&example, RUNS, 1);
    CHECK_OK(mmsb_delta_free(NULL));
    CHECK_STATUS(mmsb_delta_free(&example.delta), MMSB_E_STALE_HANDLE);
    mmsb_delta_t *made;
    CHECK_OK(mmsb_delta_convert(&example.delta, MMSB_DELTA_RUNS, &made));
    CHECK_EQUAL(check_live(MMSB_KIND_DELTA), 1);
    mmsb_delta_t copy = *made;
    CHECK_STATUS(mmsb_delta_free(&copy), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_delta_free(made));
    CHECK_STATUS(mmsb_delta_free(made), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(check_live(MMSB_KIND_DELTA), 0);
}

/* The first bad item is reported, also where an epoch is too old only because of a delta before it. */
static void the_first_bad_delta_of_a_batch_is_reported(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    mmsb_run_t run = {0, 3};
    mmsb_delta_t deltas[3] = {one_run(&run, "abc"), one_run(&run, "def"), one_run(&run, "ghi")};
    deltas[0].epoch = 5;
    deltas[1].epoch = 4;
    const mmsb_page_t pages[3] = {page, page, context};
    size_t bad = 99;
    CHECK_STATUS(mmsb_page_apply_many(pages, deltas, 3, &bad), MMSB_E_EPOCH);
    CHECK_EQUAL(bad, 1);
    deltas[1].epoch = 6;
    CHECK_STATUS(mmsb_page_apply_many(pages, deltas, 3, &bad), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(bad, 2);
    CHECK_EQUAL(mmsb_page_epoch(page), 0);
    CHECK_OK(mmsb_page_apply_many(pages, deltas, 2, &bad));
    CHECK_EQUAL(mmsb_page_epoch(page), 6);
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    RUN(all_kinds_are_applied);
    RUN(long_masks_are_applied);
    RUN(epochs_only_rise);
    RUN(wrong_deltas_change_nothing);
    RUN(batches_are_applied_whole_or_not_at_all);
    RUN(runs_as_arrays_are_applied);
    RUN(merged_deltas_do_what_both_do);
    RUN(conversions_keep_the_change);
    RUN(deltas_come_from_two_pages);
    RUN(deltas_are_freed_once);
    RUN(the_first_bad_delta_of_a_batch_is_reported);
    return check_report();
}
