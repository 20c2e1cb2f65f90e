/* Kernels on streams and on the host, and pages beside each other: against loops that take one byte at a time. */
#include "library.h"

enum { ARENA = 1 << 15, ROUNDS = 150 };

/* Memory that kernels work on: of the host, or of a simulated device with a copy that is taken there and back. */
typedef struct arena {
    mmsb_stream_t stream;
    uint8_t *base;     /* the address that calls get */
    uint8_t *bytes;    /* what is there before a call */
    uint8_t *expected; /* and should be after it */
    size_t used;
    uint64_t random;
} arena_t;

static uint64_t next_random(arena_t *a) {
    return random_next(&a->random);
}

static uint64_t below(arena_t *a, uint64_t limit) {
    return next_random(a) % limit;
}

/* Some bytes of the arena, apart from all others, at an odd place unless an alignment is wanted: where they are in it. */
static size_t take(arena_t *a, uint64_t bytes, size_t alignment) {
    size_t at = a->used + below(a, 40);
    at = (at + alignment - 1) / alignment * alignment;
    a->used = at + bytes;
    REQUIRE(a->used <= ARENA);
    return at;
}

static void begin_round(arena_t *a) {
    a->used = 0;
    for (size_t i = 0; i < ARENA; i += 8) {
        uint64_t word = next_random(a);
        memcpy(a->bytes + i, &word, 8);
    }
}

/* What is in bytes goes to the arena. */
static void expect_from_here(arena_t *a) {
    memcpy(a->expected, a->bytes, ARENA);
    CHECK_OK(mmsb_stream_copy(a->stream, a->base, a->bytes, ARENA));
}

static void check_arena(arena_t *a, const char *what, uint64_t bytes) {
    CHECK_OK(mmsb_stream_copy(a->stream, a->bytes, a->base, ARENA));
    if (a->stream != MMSB_STREAM_HOST)
        CHECK_OK(mmsb_stream_wait(a->stream, MMSB_WAIT_FOREVER));
    if (memcmp(a->bytes, a->expected, ARENA) == 0)
        return;
    size_t i = 0;
    while (a->bytes[i] == a->expected[i])
        i++;
    check_fail(__FILE__, __LINE__, "%s of %llu bytes: byte %zu is 0x%02x, not 0x%02x", what, (unsigned long long)bytes, i,
               a->bytes[i], a->expected[i]);
}

static int bit(const uint8_t *bits, uint64_t i) {
    return bits[i / 8] >> i % 8 & 1;
}

static uint64_t some_size(arena_t *a) {
    static const uint64_t sizes[] = {1, 20, 70, 600, 3000};
    return below(a, sizes[below(a, 5)] + 1);
}

static void twins(arena_t *a, uint64_t bytes, size_t *left, size_t *right) {
    *left = take(a, bytes, 1);
    *right = take(a, bytes, 1);
    uint64_t rarity = 1 + below(a, 200);
    for (uint64_t i = 0; i < bytes; i++)
        a->bytes[*right + i] = (uint8_t)(a->bytes[*left + i] ^ (below(a, rarity) == 0 ? 1 << below(a, 8) : 0));
}

static void compare(arena_t *a) {
    uint64_t bytes = some_size(a), words[2] = {0, UINT64_MAX};
    size_t left, right;
    twins(a, bytes, &left, &right);
    size_t result = take(a, bytes, 1), bits = take(a, (bytes + 7) / 8, 1), found = take(a, 16, 8);
    expect_from_here(a);
    memset(a->expected + bits, 0, (bytes + 7) / 8);
    for (uint64_t i = 0; i < bytes; i++) {
        int differs = a->bytes[left + i] != a->bytes[right + i];
        a->expected[result + i] = !differs;
        a->expected[bits + i / 8] |= (uint8_t)(differs << i % 8);
        if (differs && words[0]++ == 0)
            words[1] = i;
    }
    memcpy(a->expected + found, words, sizeof words);
    CHECK_OK(mmsb_stream_compare(a->stream, a->base + result, a->base + left, a->base + right, bytes));
    CHECK_OK(mmsb_stream_differences(a->stream, a->base + bits, a->base + left, a->base + right, bytes));
    CHECK_OK(mmsb_stream_difference(a->stream, (mmsb_difference_t *)(void *)(a->base + found), a->base + left, a->base + right,
                                    bytes));
    check_arena(a, "a comparison", bytes);
}

/* CRC-32C bit by bit. */
static uint32_t checksum(const uint8_t *bytes, uint64_t length) {
    uint32_t crc = UINT32_MAX;
    for (uint64_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int b = 0; b < 8; b++)
            crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82f63b78) : crc >> 1;
    }
    return ~crc;
}

static void sums(arena_t *a) {
    uint64_t bytes = some_size(a), part = 1 + below(a, 1 + some_size(a)), parts = (bytes + part - 1) / part;
    size_t from = take(a, bytes, 1), to = take(a, 4 * parts, 4);
    expect_from_here(a);
    uint32_t joined = 0;
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t length = bytes - i * part < part ? bytes - i * part : part;
        uint32_t sum = checksum(a->bytes + from + i * part, length);
        memcpy(a->expected + to + 4 * i, &sum, 4);
        joined = mmsb_checksum_join(joined, sum, length);
    }
    CHECK_EQUAL(joined, checksum(a->bytes + from, bytes));
    CHECK_OK(mmsb_stream_checksum(a->stream, (uint32_t *)(void *)(a->base + to), a->base + from, bytes, part));
    check_arena(a, "a checksum", bytes);
}

static void merge_one(arena_t *a, size_t to, size_t from, uint64_t i, size_t changed, int marked) {
    a->expected[to + i] = a->bytes[from + i];
    if (marked)
        a->expected[changed + i / 8] |= (uint8_t)(1 << i % 8);
}

static void merge(arena_t *a) {
    uint64_t bytes = some_size(a);
    int of_bytes = (int)below(a, 2), marked = (int)below(a, 2);
    size_t to = take(a, bytes, 1), from = take(a, bytes, 1), mask = take(a, of_bytes ? bytes : (bytes + 7) / 8, 1);
    size_t changed = take(a, (bytes + 31) / 32 * 4, 4);
    for (uint64_t i = 0; of_bytes && i < bytes; i++)
        a->bytes[mask + i] &= (uint8_t)-(int)below(a, 2);
    expect_from_here(a);
    for (uint64_t i = 0; i < bytes; i++)
        if (of_bytes ? a->bytes[mask + i] != 0 : bit(a->bytes + mask, i))
            merge_one(a, to, from, i, changed, marked);
    CHECK_OK(mmsb_stream_merge(a->stream, a->base + to, a->base + mask, of_bytes ? MMSB_DELTA_DENSE_BYTES : MMSB_DELTA_DENSE_BITS,
                               a->base + from, bytes, marked ? a->base + changed : NULL));
    check_arena(a, "a merge", bytes);
}

/* Without equal offsets, of which a device may take any. */
static void scatter(arena_t *a) {
    uint64_t bytes = 1 + some_size(a), count = below(a, bytes + 1), origin = below(a, 2), step = bytes % 7 == 0 ? 1 : 7;
    uint32_t width = below(a, 2) ? 8 : 4;
    size_t to = take(a, bytes, 1), values = take(a, count, 1), offsets = take(a, count * width, width);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = i * step % bytes + origin;
        memcpy(a->bytes + offsets + i * width, &offset, width);
    }
    expect_from_here(a);
    for (uint64_t i = 0; i < count; i++)
        a->expected[to + i * step % bytes] = a->bytes[values + i];
    CHECK_OK(mmsb_stream_scatter(a->stream, a->base + to, bytes, a->base + offsets, width, origin, a->base + values, count));
    check_arena(a, "a scatter", bytes);
}

static void copy_many(arena_t *a) {
    mmsb_copy_t copies[12];
    size_t count = below(a, 12), targets[12], sources[12];
    memset(copies, 0, sizeof copies);
    for (size_t i = 0; i < count; i++) {
        copies[i].bytes = below(a, 4) == 0 ? 0 : below(a, 1200);
        targets[i] = take(a, copies[i].bytes, 1);
        sources[i] = take(a, copies[i].bytes, 1);
        copies[i].to = a->base + targets[i];
        copies[i].from = a->base + sources[i];
    }
    expect_from_here(a);
    for (size_t i = 0; i < count; i++)
        memcpy(a->expected + targets[i], a->bytes + sources[i], copies[i].bytes);
    for (size_t i = 1; i < count; i++) { /* in any order */
        size_t other = below(a, i + 1);
        mmsb_copy_t swapped = copies[i];
        copies[i] = copies[other];
        copies[other] = swapped;
    }
    CHECK_OK(mmsb_stream_copy_many(a->stream, copies, count, NULL));
    check_arena(a, "copies", count);
}

static void propagate(arena_t *a) {
    mmsb_propagation_t items[6];
    size_t count = below(a, 6), to[6], from[6], mask[6], changed[6];
    memset(items, 0, sizeof items);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = below(a, 2500);
        to[i] = take(a, bytes, 1);
        from[i] = take(a, bytes, 1);
        mask[i] = take(a, (bytes + 7) / 8, 1);
        changed[i] = take(a, (bytes + 31) / 32 * 4, 4);
        items[i].to = a->base + to[i];
        items[i].from = a->base + from[i];
        items[i].mask = a->base + mask[i];
        items[i].changed = below(a, 2) ? a->base + changed[i] : NULL;
        items[i].bytes = bytes;
    }
    expect_from_here(a);
    for (size_t k = 0; k < count; k++)
        for (uint64_t i = 0; i < items[k].bytes; i++)
            if (bit(a->bytes + mask[k], i))
                merge_one(a, to[k], from[k], i, changed[k], items[k].changed != NULL);
    CHECK_OK(mmsb_stream_propagate(a->stream, items, count, NULL));
    check_arena(a, "propagations", count);
}

static void every_kernel(arena_t *a, int rounds) {
    static void (*const kernels[])(arena_t *) = {compare, sums, merge, scatter, copy_many, propagate};
    a->bytes = malloc(ARENA);
    a->expected = malloc(ARENA);
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
            begin_round(a);
            kernels[i](a);
        }
    }
    free(a->bytes);
    free(a->expected);
}

static void the_host_runs_every_kernel(void) {
    arena_t a = {.stream = MMSB_STREAM_HOST, .base = malloc(ARENA), .random = 1};
    every_kernel(&a, 10 * ROUNDS);
    free(a.base);
}

static void a_device_runs_every_kernel(void) {
    arena_t a = {.random = 2};
    mmsb_context_t context = new_simulated_context(1);
    mmsb_runtime_t runtime;
    mmsb_block_t block;
    void *address;
    REQUIRE_OK(mmsb_runtime_create(context, 0, NULL, &runtime));
    REQUIRE_OK(mmsb_stream_create(runtime, 0, &a.stream));
    REQUIRE_OK(mmsb_block_allocate(a.stream, ARENA, 0, 0, &block, &address));
    a.base = address;
    every_kernel(&a, ROUNDS);

    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    CHECK_OK(mmsb_runtime_stats(runtime, &stats));
    CHECK_EQUAL(stats.blocks, 1); /* tables are given back */
    CHECK_OK(mmsb_context_destroy(context));
}

/* ---------------------------------------------------------------------------------------------------- bad input ---- */

static void ranges_that_cannot_be_are_refused(mmsb_stream_t stream, uint8_t *m) {
    uint8_t *last = (uint8_t *)(UINTPTR_MAX - 7);
    uint32_t *sums = (uint32_t *)(void *)m;
    mmsb_difference_t *found = (mmsb_difference_t *)(void *)m;
#define REFUSED(call) CHECK_STATUS(call, MMSB_E_INVALID_ARGUMENT)
    REFUSED(mmsb_stream_compare(stream, NULL, m, m + 32, 8));
    REFUSED(mmsb_stream_compare(stream, m, NULL, m + 32, 8));
    REFUSED(mmsb_stream_compare(stream, m, m + 32, NULL, 8));
    REFUSED(mmsb_stream_compare(stream, m, m + 32, last, 9));
    REFUSED(mmsb_stream_compare(stream, m, m + 7, m + 32, 8));
    REFUSED(mmsb_stream_compare(stream, m + 7, m + 32, m, 8));
    CHECK_OK(mmsb_stream_compare(stream, m, m + 8, m + 16, 8));
    CHECK_OK(mmsb_stream_compare(stream, m, m + 8, m + 8, 8));
    CHECK_OK(mmsb_stream_compare(stream, NULL, NULL, NULL, 0));
    REFUSED(mmsb_stream_differences(stream, m + 8, m, m + 32, 9));
    REFUSED(mmsb_stream_differences(stream, m, m + 64, m + 32, UINT64_MAX));
    REFUSED(mmsb_stream_difference(stream, NULL, m + 64, m + 32, 8));
    REFUSED(mmsb_stream_difference(stream, found, m + 15, m + 32, 8));
    REFUSED(mmsb_stream_difference(stream, (mmsb_difference_t *)(void *)(m + 4), m + 32, m + 64, 8));
    REFUSED(mmsb_stream_checksum(stream, sums, m + 32, 8, 0));
    REFUSED(mmsb_stream_checksum(stream, sums, m + 7, 8, 4));
    REFUSED(mmsb_stream_checksum(stream, sums, m + 32, UINT64_MAX - 5, 1));
    REFUSED(mmsb_stream_checksum(stream, (uint32_t *)(void *)(m + 2), m + 32, 8, 4));
    CHECK_OK(mmsb_stream_checksum(stream, sums, m + 8, 8, 4));
    REFUSED(mmsb_stream_merge(stream, m, m + 32, MMSB_DELTA_RUNS, m + 64, 8, NULL));
    REFUSED(mmsb_stream_merge(stream, m, m + 7, MMSB_DELTA_DENSE_BYTES, m + 64, 8, NULL));
    CHECK_OK(mmsb_stream_merge(stream, m + 4, m, MMSB_DELTA_DENSE_BITS, m + 64, 32, NULL));
    REFUSED(mmsb_stream_merge(stream, m, m + 32, MMSB_DELTA_DENSE_BYTES, m + 7, 8, NULL));
    REFUSED(mmsb_stream_merge(stream, m, m + 32, MMSB_DELTA_DENSE_BYTES, m + 64, 8, m + 30));
    REFUSED(mmsb_stream_merge(stream, m, m + 32, MMSB_DELTA_DENSE_BYTES, m + 64, 8, m + 4));
    REFUSED(mmsb_stream_merge(stream, m, m + 32, MMSB_DELTA_DENSE_BYTES, m + 64, 8, m + 36));
    REFUSED(mmsb_stream_merge(stream, m, m + 32, MMSB_DELTA_DENSE_BYTES, m + 64, 8, m + 68));
    REFUSED(mmsb_stream_scatter(stream, m, 8, m + 32, 2, 0, m + 64, 1));
    REFUSED(mmsb_stream_scatter(stream, m, 8, m + 34, 4, 0, m + 64, 1));
    REFUSED(mmsb_stream_scatter(stream, m, 8, m + 32, 8, 0, m + 64, UINT64_MAX / 8 + 1));
    REFUSED(mmsb_stream_scatter(stream, m, 8, m, 8, 0, m + 64, 1));
    REFUSED(mmsb_stream_scatter(stream, m, 8, m + 32, 8, 0, m + 7, 1));
    if (stream == MMSB_STREAM_HOST) {
        REFUSED(mmsb_stream_copy(stream, m, m + 7, 8));
        REFUSED(mmsb_stream_copy(stream, m + 7, m, 8));
        REFUSED(mmsb_stream_fill(stream, last, 1, 9));
    }

    size_t bad = 42;
    mmsb_copy_t copies[] = {{m, m + 100, 10, 0}, {m + 50, m + 120, 10, 0}, {m + 10, m + 100, 10, 0}};
    CHECK_OK(mmsb_stream_copy_many(stream, copies, 3, &bad));
    CHECK_OK(mmsb_stream_copy_many(stream, NULL, 0, &bad));
    CHECK_EQUAL(bad, 42);
    copies[2].to = m + 9; /* over the first one's target */
    REFUSED(mmsb_stream_copy_many(stream, copies, 3, &bad));
    CHECK_EQUAL(bad, 2);
    copies[2].to = m + 129; /* over the second one's source */
    REFUSED(mmsb_stream_copy_many(stream, copies, 3, &bad));
    CHECK_EQUAL(bad, 2);
    copies[1].to = last;
    copies[1].bytes = 9;
    REFUSED(mmsb_stream_copy_many(stream, copies, 3, &bad));
    CHECK_EQUAL(bad, 1);
    copies[0].reserved = 1;
    CHECK_STATUS(mmsb_stream_copy_many(stream, copies, 3, &bad), MMSB_E_STRUCT_VERSION);
    CHECK_EQUAL(bad, 0);
    REFUSED(mmsb_stream_copy_many(stream, NULL, 3, NULL));
    CHECK_STATUS(mmsb_stream_copy_many(stream, copies, SIZE_MAX / 16, &bad), MMSB_E_INVALID_SIZE);

    mmsb_propagation_t items[] = {{m, m + 100, m + 130, m + 140, 10, 0}, {m + 50, m + 100, m + 130, NULL, 10, 0}};
    CHECK_OK(mmsb_stream_propagate(stream, items, 2, &bad));
    items[1].to = m + 143; /* over the first one's marks */
    bad = 42;
    REFUSED(mmsb_stream_propagate(stream, items, 2, &bad));
    CHECK_EQUAL(bad, 1);
    items[1].to = m + 95;
    REFUSED(mmsb_stream_propagate(stream, items, 2, &bad));
    items[1].to = m + 50;
    items[1].changed = m + 61;
    REFUSED(mmsb_stream_propagate(stream, items, 2, &bad));
    items[1].changed = NULL;
    items[0].reserved = 1;
    CHECK_STATUS(mmsb_stream_propagate(stream, items, 2, NULL), MMSB_E_STRUCT_VERSION);
    REFUSED(mmsb_stream_propagate(stream, NULL, 1, &bad));
#undef REFUSED
}

static void bad_input_changes_nothing(void) {
    uint64_t memory[32] = {0};
    uint8_t *m = (uint8_t *)memory;
    ranges_that_cannot_be_are_refused(MMSB_STREAM_HOST, m);
    mmsb_context_t context = new_simulated_context(1);
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
    mmsb_block_t block;
    void *address;
    REQUIRE_OK(mmsb_runtime_create(context, 0, NULL, &runtime));
    REQUIRE_OK(mmsb_stream_create(runtime, 0, &stream));
    REQUIRE_OK(mmsb_block_allocate(stream, 256, 0, 0, &block, &address));
    CHECK_OK(mmsb_stream_fill(stream, address, 0, 256));
    ranges_that_cannot_be_are_refused(stream, address);

    /* Offsets outside: on the host an error, on a device passed over. */
    const uint64_t offsets[] = {1, 9, 3};
    memset(memory, 7, sizeof memory);
    CHECK_STATUS(mmsb_stream_scatter(MMSB_STREAM_HOST, m, 8, offsets, 8, 0, m + 64, 3), MMSB_E_OUT_OF_RANGE);
    CHECK_STATUS(mmsb_stream_scatter(MMSB_STREAM_HOST, m, 9, offsets, 8, 2, m + 64, 3), MMSB_E_OUT_OF_RANGE);
    CHECK_STATUS(mmsb_stream_scatter(MMSB_STREAM_HOST, m, 9, offsets, 8, 0, m + 64, 3), MMSB_E_OUT_OF_RANGE);
    for (size_t i = 0; i < sizeof memory; i++)
        CHECK_EQUAL(m[i], 7);
    CHECK_OK(mmsb_stream_fill(stream, address, 0, 256));
    CHECK_OK(mmsb_stream_copy(stream, (uint8_t *)address + 64, offsets, sizeof offsets));
    CHECK_OK(mmsb_stream_fill(stream, (uint8_t *)address + 128, 9, 3));
    CHECK_OK(mmsb_stream_scatter(stream, address, 8, (uint8_t *)address + 64, 8, 0, (uint8_t *)address + 128, 3));
    CHECK_OK(mmsb_stream_copy(stream, m, address, 16));
    CHECK_OK(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER));
    for (size_t i = 0; i < 16; i++)
        CHECK_EQUAL(m[i], i == 1 || i == 3 ? 9 : 0);
    CHECK_STATUS(mmsb_stream_scatter(stream, address, 2, (uint8_t *)address + 64, 8, 0, (uint8_t *)address + 128, 3),
                 MMSB_E_OUT_OF_RANGE);
    CHECK_OK(mmsb_context_destroy(context));
}

/* A list takes memory of the runtime, which may have none left. */
static void a_list_is_charged_to_the_budget(void) {
    mmsb_context_t context = new_simulated_context(1);
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    options.budget = 256;
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
    mmsb_block_t block;
    void *address;
    REQUIRE_OK(mmsb_runtime_create(context, 0, &options, &runtime));
    REQUIRE_OK(mmsb_stream_create(runtime, 0, &stream));
    REQUIRE_OK(mmsb_block_allocate(stream, 256, 0, 0, &block, &address));
    const mmsb_copy_t copy = {address, (uint8_t *)address + 100, 50, 0};
    CHECK_STATUS(mmsb_stream_copy_many(stream, &copy, 1, NULL), MMSB_E_LIMIT);
    CHECK_OK(mmsb_context_destroy(context));
}

/* -------------------------------------------------------------------------------------------------------- pages ---- */

static mmsb_page_t page_at(mmsb_context_t context, mmsb_location_t location, const uint8_t *bytes, uint64_t size) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = location;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, size, &options, &page));
    REQUIRE_OK(mmsb_page_write(page, 0, bytes, size));
    return page;
}

static void pages_are_compared_wherever_they_are(void) {
    enum { SIZE = 10007 };
    static const mmsb_location_t places[] = {MMSB_LOCATION_CPU, MMSB_LOCATION_GPU, MMSB_LOCATION_UNIFIED, MMSB_LOCATION_PINNED,
                                             MMSB_LOCATION_DISK};
    static uint8_t left[SIZE], right[SIZE], bits[(SIZE + 7) / 8], wanted[(SIZE + 7) / 8];
    mmsb_context_t context = new_simulated_context(1);
    uint64_t random = 3;
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 5; k++) {
            uint64_t count = 0, first = UINT64_MAX;
            memset(wanted, 0, sizeof wanted);
            memset(bits, 0xAA, sizeof bits);
            for (uint64_t at = 0; at < SIZE; at++) {
                left[at] = right[at] = (uint8_t)random_next(&random);
                if (i + k > 0 && random_next(&random) % 500 == 0) {
                    right[at] ^= 4;
                    wanted[at / 8] |= (uint8_t)(1 << at % 8);
                    first = count++ == 0 ? at : first;
                }
            }
            mmsb_page_t a = page_at(context, places[i], left, SIZE), b = page_at(context, places[k], right, SIZE);
            mmsb_difference_t difference = {42, 42};
            CHECK_OK(mmsb_page_compare(a, b, &difference));
            CHECK_EQUAL(difference.count, count);
            CHECK_EQUAL(difference.first, first);
            CHECK_OK(mmsb_page_differences(a, b, bits, SIZE));
            CHECK(memcmp(bits, wanted, sizeof bits) == 0);
            uint32_t sum = 0;
            CHECK_OK(mmsb_page_checksum(b, 3, SIZE - 3, &sum));
            CHECK_EQUAL(sum, checksum(right + 3, SIZE - 3));
            CHECK_OK(mmsb_page_destroy(a));
            CHECK_OK(mmsb_page_destroy(b));
        }
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void what_pages_cannot_be_compared(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100), other = new_page(context, 101);
    mmsb_difference_t difference = {42, 42};
    uint8_t bits[16] = {0xAA};
    uint32_t sum = 42;
    CHECK_STATUS(mmsb_page_compare(page, other, &difference), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_page_compare(page, page, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(difference.count, 42);
    CHECK_OK(mmsb_page_compare(page, page, &difference));
    CHECK_EQUAL(difference.count, 0);
    CHECK_EQUAL(difference.first, UINT64_MAX);
    CHECK_STATUS(mmsb_page_differences(page, other, bits, 100), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_page_differences(page, page, bits, 99), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_page_differences(page, page, NULL, 100), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(bits[0], 0xAA);
    CHECK_OK(mmsb_page_differences(page, page, bits, 100));
    CHECK_EQUAL(bits[0], 0);
    CHECK_STATUS(mmsb_page_checksum(page, 1, 100, &sum), MMSB_E_OUT_OF_RANGE);
    CHECK_STATUS(mmsb_page_checksum(page, UINT64_MAX, 2, &sum), MMSB_E_OUT_OF_RANGE);
    CHECK_STATUS(mmsb_page_checksum(page, 0, 100, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(sum, 42);
    CHECK_OK(mmsb_page_checksum(page, 100, 0, &sum));
    CHECK_EQUAL(sum, 0);
    CHECK_STATUS(mmsb_page_propagate(page, page), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_propagate(page, other), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_page_propagate(other, page), MMSB_E_MISMATCH);
    CHECK_OK(mmsb_context_destroy(context));
}

static void marks_go_from_page_to_page(void) {
    enum { SIZE = 5003 };
    static const mmsb_location_t places[] = {MMSB_LOCATION_CPU, MMSB_LOCATION_GPU, MMSB_LOCATION_DISK};
    static uint8_t from_bytes[SIZE], to_bytes[SIZE], found[SIZE];
    mmsb_context_t context = new_simulated_context(1);
    for (int i = 0; i < 9; i++) {
        for (uint64_t at = 0; at < SIZE; at++) {
            from_bytes[at] = (uint8_t)(at * 7);
            to_bytes[at] = (uint8_t)(at * 11 + 5);
        }
        mmsb_page_t from = page_at(context, places[i / 3], from_bytes, SIZE),
                    to = page_at(context, places[i % 3], to_bytes, SIZE);
        mmsb_page_info_t info;
        mmsb_page_info_init(&info);
        CHECK_OK(mmsb_page_propagate(to, from)); /* no mark: nothing happens */
        CHECK_OK(mmsb_page_info(to, &info));
        CHECK_EQUAL(info.epoch, 0);
        const mmsb_run_t runs[] = {{10, 20}, {4000, 1003}};
        static uint8_t payload[1023];
        memset(payload, 0x5A, sizeof payload);
        mmsb_delta_t delta;
        mmsb_delta_init(&delta);
        delta.kind = MMSB_DELTA_RUNS;
        delta.runs = runs;
        delta.count = 2;
        delta.payload = payload;
        CHECK_OK(mmsb_page_apply(from, &delta));
        CHECK_OK(mmsb_page_propagate(to, from));
        memset(to_bytes + 10, 0x5A, 20);
        memset(to_bytes + 4000, 0x5A, 1003);
        CHECK_OK(mmsb_page_read(to, 0, found, SIZE));
        CHECK(memcmp(found, to_bytes, SIZE) == 0);
        uint64_t count = 0;
        CHECK_OK(mmsb_page_mask_count(to, &count));
        CHECK_EQUAL(count, 1023);
        CHECK_OK(mmsb_page_mask_count(from, &count));
        CHECK_EQUAL(count, 1023);
        CHECK_OK(mmsb_page_info(to, &info));
        CHECK_EQUAL(info.epoch, 1);
        CHECK_OK(mmsb_page_destroy(from));
        CHECK_OK(mmsb_page_destroy(to));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    RUN(the_host_runs_every_kernel);
    RUN(a_device_runs_every_kernel);
    RUN(bad_input_changes_nothing);
    RUN(a_list_is_charged_to_the_budget);
    RUN(pages_are_compared_wherever_they_are);
    RUN(what_pages_cannot_be_compared);
    RUN(marks_go_from_page_to_page);
    return check_report();
}
