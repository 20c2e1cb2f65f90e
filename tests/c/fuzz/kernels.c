/* Kernels on the host and on a stream of a simulated device, in memory that is compared whole; and pages beside each other. */
#include "fuzz.h"

enum { ARENA = 1 << 14, MOST = 5 /* items of a list */ };

/* Memory that kernels work on, what is there before a call, and what should be there after it. */
static struct {
    mmsb_stream_t stream;
    uint8_t *base;
    uint64_t used;
    uint8_t bytes[ARENA], expected[ARENA];
    uint64_t host[ARENA / 8]; /* the base for MMSB_STREAM_HOST */
} arena;

/* Some bytes of the arena apart from those taken before: where they are in it. */
static uint64_t take(uint64_t bytes, uint64_t alignment) {
    uint64_t at = (arena.used + below(40) + alignment - 1) / alignment * alignment;
    arena.used = at + bytes;
    SAME(arena.used <= ARENA, 1);
    return at;
}

static void begin(void) {
    arena.used = 0;
    for (uint64_t i = 0; i < ARENA; i++) {
        arena.bytes[i] = (uint8_t)random_next(&seed);
    }
}

static void put(void) {
    memcpy(arena.expected, arena.bytes, ARENA);
    CALL(mmsb_stream_copy(arena.stream, arena.base, arena.bytes, ARENA), MMSB_OK);
}

static void check_arena(void) {
    CALL(mmsb_stream_copy(arena.stream, arena.bytes, arena.base, ARENA), MMSB_OK);
    if (arena.stream != MMSB_STREAM_HOST) {
        CALL(mmsb_stream_wait(arena.stream, MMSB_WAIT_FOREVER), MMSB_OK);
    }
    for (uint64_t i = 0; i < ARENA; i++) {
        SAME(arena.bytes[i], arena.expected[i]);
    }
}

static int bit(const uint8_t *bits, uint64_t i) {
    return bits[i / 8] >> i % 8 & 1;
}

static uint64_t some_bytes(void) {
    return chance(10) ? 0 : 1 + below(chance(50) ? 40 : 700);
}

static uint32_t checksum(const uint8_t *bytes, uint64_t length) {
    uint32_t crc = UINT32_MAX;
    for (uint64_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++) {
            crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82F63B78) : crc >> 1;
        }
    }
    return ~crc;
}

/* ----------------------------------------------------------------------------------------------------- good calls ---- */

static void compare(void) {
    uint64_t bytes = some_bytes(), a = take(bytes, 1), b = take(bytes, 1), rarity = 1 + below(100);
    uint64_t result = take(bytes, 1), bits = take((bytes + 7) / 8, 1), found = take(16, 8);
    mmsb_difference_t difference = {0, UINT64_MAX};
    for (uint64_t i = 0; i < bytes; i++) {
        arena.bytes[b + i] = (uint8_t)(arena.bytes[a + i] ^ (below(rarity) == 0 ? 1 << below(8) : 0));
    }
    put();
    memset(arena.expected + bits, 0, (bytes + 7) / 8);
    for (uint64_t i = 0; i < bytes; i++) {
        int differs = arena.bytes[a + i] != arena.bytes[b + i];
        arena.expected[result + i] = !differs;
        arena.expected[bits + i / 8] |= (uint8_t)(differs << i % 8);
        if (differs && difference.count++ == 0) {
            difference.first = i;
        }
    }
    memcpy(arena.expected + found, &difference, sizeof difference);
    CALL(mmsb_stream_compare(arena.stream, arena.base + result, arena.base + a, arena.base + b, bytes), MMSB_OK);
    CALL(mmsb_stream_differences(arena.stream, arena.base + bits, arena.base + a, arena.base + b, bytes), MMSB_OK);
    CALL(mmsb_stream_difference(arena.stream, (mmsb_difference_t *)(void *)(arena.base + found), arena.base + a, arena.base + b,
                                bytes),
         MMSB_OK);
}

static void sums(void) {
    uint64_t bytes = some_bytes(), part = 1 + some_bytes(), parts = (bytes + part - 1) / part;
    uint64_t from = take(bytes, 1), to = take(4 * parts, 4);
    uint32_t joined = 0;
    put();
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t length = bytes - i * part < part ? bytes - i * part : part;
        uint32_t sum = checksum(arena.bytes + from + i * part, length);
        memcpy(arena.expected + to + 4 * i, &sum, sizeof sum);
        joined = mmsb_checksum_join(joined, sum, length);
    }
    SAME(joined, checksum(arena.bytes + from, bytes));
    CALL(mmsb_stream_checksum(arena.stream, (uint32_t *)(void *)(arena.base + to), arena.base + from, bytes, part), MMSB_OK);
}

/* What a merge does to the byte i of to. */
static void merged(uint64_t to, uint64_t from, uint64_t i, int marked, uint64_t changed) {
    arena.expected[to + i] = arena.bytes[from + i];
    if (marked) {
        arena.expected[changed + i / 8] |= (uint8_t)(1 << i % 8);
    }
}

static void merge(void) {
    uint64_t bytes = some_bytes();
    int of_bytes = chance(50), marked = chance(50);
    uint64_t to = take(bytes, 1), from = take(bytes, 1), mask = take(bytes, 1), changed = take((bytes + 31) / 32 * 4, 4);
    for (uint64_t i = 0; of_bytes && i < bytes; i++) {
        arena.bytes[mask + i] &= (uint8_t)-chance(50);
    }
    put();
    for (uint64_t i = 0; i < bytes; i++) {
        if (of_bytes ? arena.bytes[mask + i] != 0 : bit(arena.bytes + mask, i)) {
            merged(to, from, i, marked, changed);
        }
    }
    CALL(mmsb_stream_merge(arena.stream, arena.base + to, arena.base + mask,
                           of_bytes ? MMSB_DELTA_DENSE_BYTES : MMSB_DELTA_DENSE_BITS, arena.base + from, bytes,
                           marked ? arena.base + changed : NULL),
         MMSB_OK);
}

/* Of equal offsets the last wins on the host; on a device there are none here. */
static void scatter(void) {
    uint64_t bytes = 1 + some_bytes(), count = below(bytes + 1), origin = below(1000);
    uint32_t width = chance(50) ? 4 : 8;
    uint64_t to = take(bytes, 1), values = take(count, 1), offsets = take(count * width, width), places[800];
    for (uint64_t i = 0; i < count; i++) {
        places[i] = arena.stream == MMSB_STREAM_HOST ? below(bytes) : bytes - 1 - i;
        uint64_t offset = origin + places[i];
        memcpy(arena.bytes + offsets + i * width, &offset, width);
    }
    put();
    for (uint64_t i = 0; i < count; i++) {
        arena.expected[to + places[i]] = arena.bytes[values + i];
    }
    CALL(mmsb_stream_scatter(arena.stream, arena.base + to, bytes, arena.base + offsets, width, origin, arena.base + values,
                             count),
         MMSB_OK);
}

static void copy_many(void) {
    mmsb_copy_t copies[MOST] = {{0}};
    uint64_t count = below(MOST + 1), to[MOST], from[MOST];
    for (uint64_t i = 0; i < count; i++) {
        copies[i].bytes = some_bytes();
        from[i] = i > 0 && copies[i].bytes <= copies[i - 1].bytes && chance(30) ? from[i - 1] : take(copies[i].bytes, 1);
        to[i] = take(copies[i].bytes, 1);
        copies[i].from = arena.base + from[i];
        copies[i].to = arena.base + to[i];
    }
    put();
    for (uint64_t i = 0; i < count; i++) {
        memcpy(arena.expected + to[i], arena.bytes + from[i], copies[i].bytes);
    }
    CALL(mmsb_stream_copy_many(arena.stream, count == 0 && chance(50) ? NULL : copies, count, NULL), MMSB_OK);
}

static void propagate(void) {
    mmsb_propagation_t items[MOST] = {{0}};
    uint64_t count = below(MOST + 1);
    uint64_t to[MOST], from[MOST], mask[MOST], changed[MOST];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bytes = items[i].bytes = some_bytes();
        to[i] = take(bytes, 1);
        from[i] = take(bytes, 1);
        mask[i] = take((bytes + 7) / 8, 1);
        changed[i] = take((bytes + 31) / 32 * 4, 4);
        items[i].to = arena.base + to[i];
        items[i].from = arena.base + from[i];
        items[i].mask = arena.base + mask[i];
        items[i].changed = chance(50) ? arena.base + changed[i] : NULL;
    }
    put();
    for (uint64_t k = 0; k < count; k++) {
        for (uint64_t i = 0; i < items[k].bytes; i++) {
            if (bit(arena.bytes + mask[k], i)) {
                merged(to[k], from[k], i, items[k].changed != NULL, changed[k]);
            }
        }
    }
    CALL(mmsb_stream_propagate(arena.stream, count == 0 && chance(50) ? NULL : items, count, NULL), MMSB_OK);
}

/* ------------------------------------------------------------------------------------- calls with one thing wrong ---- */

/* Places for them: four, of 256 bytes each, at least 256 bytes apart. */
enum { PLACE = 256 };

static uint8_t *place(uint64_t number) {
    return arena.base + 2 * PLACE * number;
}

/* An address for a place that is read or written, wrong for bytes bytes: none, past the last, or over what another has. */
static uint8_t *wrong_place(uint8_t *other, uint64_t bytes) {
    switch (below(3)) {
    case 0:
        return NULL;
    case 1:
        return (uint8_t *)(UINTPTR_MAX - below(bytes));
    default:
        return other + below(bytes);
    }
}

static void refused_comparison(void) {
    uint64_t bytes = 8 + below(PLACE - 8);
    uint8_t *at[3] = {place(0), place(1), place(2)};
    uint64_t wrong = below(3);
    at[wrong] = wrong_place(wrong == 0 ? at[1] : at[0], bytes);
    CALL(mmsb_stream_compare(arena.stream, at[0], at[1], at[2], bytes), MMSB_E_INVALID_ARGUMENT);
    at[wrong] = wrong_place(wrong == 0 ? at[1] : at[0], (bytes + 7) / 8);
    CALL(mmsb_stream_differences(arena.stream, at[0], at[1], at[2], bytes), MMSB_E_INVALID_ARGUMENT);
    at[wrong] = wrong == 0 ? (chance(50) ? NULL : at[1]) : chance(50) ? NULL : at[0];
    CALL(mmsb_stream_difference(arena.stream, (mmsb_difference_t *)(void *)at[0], at[1], at[2], bytes), MMSB_E_INVALID_ARGUMENT);
}

static void refused_sums(void) {
    uint64_t bytes = 8 + below(PLACE - 8), part = 1 + below(bytes);
    uint8_t *to = place(0), *from = place(2);
    switch (below(5)) {
    case 0:
        part = 0;
        break;
    case 1:
        bytes = UINT64_MAX - below(100);
        part = 1;
        break;
    case 2:
        to += 1 + below(3);
        break;
    case 3:
        to = chance(50) ? NULL : from;
        break;
    default:
        from = wrong_place(to, 1);
    }
    CALL(mmsb_stream_checksum(arena.stream, (uint32_t *)(void *)to, from, bytes, part), MMSB_E_INVALID_ARGUMENT);
}

static void refused_merge(void) {
    uint64_t bytes = 32 + below(PLACE - 32);
    uint8_t *at[4] = {place(0), place(1), place(2), place(3)}; /* to, mask, payload, changed */
    mmsb_delta_kind_t kind = chance(50) ? MMSB_DELTA_DENSE_BYTES : MMSB_DELTA_DENSE_BITS;
    switch (below(5)) {
    case 0:
        kind = chance(50) ? 0 : MMSB_DELTA_DENSE_BITS + 1 + (mmsb_delta_kind_t)below(100);
        break;
    case 1:
        at[3] += 1 + below(3);
        break;
    case 2:
        at[3] = at[below(3)];
        break;
    default: {
        uint64_t wrong = below(3);
        at[wrong] = wrong_place(wrong == 0 ? at[2] : at[0], (bytes + 7) / 8);
    }
    }
    CALL(mmsb_stream_merge(arena.stream, at[0], at[1], kind, at[2], bytes, at[3]), MMSB_E_INVALID_ARGUMENT);
}

static void refused_scatter(void) {
    uint64_t count = 1 + below(30), bytes = 32 + below(PLACE - 32);
    uint32_t width = chance(50) ? 4 : 8;
    uint8_t *to = place(0), *offsets = place(1), *values = place(2);
    mmsb_status_t code = MMSB_E_INVALID_ARGUMENT;
    switch (below(6)) {
    case 0:
        width = (uint32_t)below(4);
        break;
    case 1:
        count = UINT64_MAX - below(100);
        break;
    case 2:
        offsets += 1 + below(3);
        break;
    case 3:
        offsets = chance(50) ? NULL : to;
        break;
    case 4:
        values = wrong_place(to, 1);
        break;
    default: /* one offset is outside; a device passes over it, but has more offsets than bytes refused */
        memset(arena.bytes, 0, ARENA);
        put();
        code = MMSB_E_OUT_OF_RANGE;
        if (arena.stream == MMSB_STREAM_HOST) {
            uint64_t offset = bytes + below(100), at = below(count);
            memcpy(arena.base + 2 * PLACE + at * width, &offset, width);
            memcpy(arena.expected + 2 * PLACE + at * width, &offset, width);
        } else {
            bytes = count - 1;
        }
    }
    CALL(mmsb_stream_scatter(arena.stream, to, bytes, offsets, width, 0, values, count), code);
}

static void refused_copies(void) {
    mmsb_copy_t copies[] = {{place(0), place(1), 100, 0}, {place(2), place(3), 100, 0}};
    size_t bad = UNTOUCHED, wrong = below(2), count = 2;
    mmsb_status_t code = MMSB_E_INVALID_ARGUMENT;
    switch (below(4)) {
    case 0:
        copies[wrong].reserved = 1 + below(100);
        code = MMSB_E_STRUCT_VERSION;
        break;
    case 1:
        copies[wrong].from = chance(50) ? NULL : (void *)(UINTPTR_MAX - below(100));
        break;
    case 2:
        copies[wrong].to = chance(50) ? NULL : (void *)(UINTPTR_MAX - below(100));
        break;
    default: /* of two that overlap, the later one */
        copies[1].to = (uint8_t *)(chance(50) ? copies[0].to : (void *)place(1)) + below(100);
        wrong = 1;
    }
    if (chance(10)) {
        CALL(mmsb_stream_copy_many(arena.stream, NULL, count, &bad), MMSB_E_INVALID_ARGUMENT);
        SAME(bad, UNTOUCHED);
        return;
    }
    CALL(mmsb_stream_copy_many(arena.stream, copies, count, &bad), code);
    SAME(bad, wrong);
}

static void refused_propagations(void) {
    uint8_t *more = arena.base + ARENA / 2;
    mmsb_propagation_t items[] = {{place(0), place(1), place(2), place(3), 100, 0},
                                  {more, more + PLACE, more + 2 * PLACE, more + 3 * PLACE, 100, 0}};
    size_t bad = UNTOUCHED, wrong = below(2), count = 2;
    mmsb_status_t code = MMSB_E_INVALID_ARGUMENT;
    switch (below(6)) {
    case 0:
        items[wrong].reserved = 1 + below(100);
        code = MMSB_E_STRUCT_VERSION;
        break;
    case 1:
        items[wrong].from = chance(50) ? NULL : (void *)(UINTPTR_MAX - below(100));
        break;
    case 2:
        items[wrong].mask = chance(50) ? NULL : (void *)(UINTPTR_MAX - below(10));
        break;
    case 3:
        items[wrong].to = chance(50) ? NULL : (void *)(UINTPTR_MAX - below(100));
        break;
    case 4:
        items[wrong].changed = (uint8_t *)items[wrong].changed + 1 + below(3);
        break;
    default: /* of two that overlap, the later one */
        items[1].to = place(below(4)) + below(10);
        wrong = 1;
    }
    if (chance(10)) {
        CALL(mmsb_stream_propagate(arena.stream, NULL, count, &bad), MMSB_E_INVALID_ARGUMENT);
        SAME(bad, UNTOUCHED);
        return;
    }
    CALL(mmsb_stream_propagate(arena.stream, items, count, &bad), code);
    SAME(bad, wrong);
}

static void refused_stream(void) {
    pick_t bad = bad_handle(MMSB_KIND_TICKET); /* no stream: of another kind, or of none */
    mmsb_copy_t copy = {place(0), place(1), 10, 0};
    mmsb_propagation_t item = {place(0), place(1), place(2), NULL, 10, 0};
    if (bad.code != MMSB_E_INVALID_HANDLE) {
        bad.handle = 0;
    }
    CALL(mmsb_stream_compare(bad.handle, place(0), place(1), place(2), 10), MMSB_E_INVALID_HANDLE);
    CALL(mmsb_stream_differences(bad.handle, place(0), place(1), place(2), 10), MMSB_E_INVALID_HANDLE);
    CALL(mmsb_stream_difference(bad.handle, (mmsb_difference_t *)(void *)place(0), place(1), place(2), 10),
         MMSB_E_INVALID_HANDLE);
    CALL(mmsb_stream_checksum(bad.handle, (uint32_t *)(void *)place(0), place(1), 10, 10), MMSB_E_INVALID_HANDLE);
    CALL(mmsb_stream_merge(bad.handle, place(0), place(1), MMSB_DELTA_DENSE_BITS, place(2), 10, NULL), MMSB_E_INVALID_HANDLE);
    CALL(mmsb_stream_scatter(bad.handle, place(0), 10, place(1), 4, 0, place(2), 1), MMSB_E_INVALID_HANDLE);
    CALL(mmsb_stream_copy_many(bad.handle, &copy, 1, NULL), MMSB_E_INVALID_HANDLE);
    CALL(mmsb_stream_propagate(bad.handle, &item, 1, NULL), MMSB_E_INVALID_HANDLE);
}

/* ------------------------------------------------------------------------------------------------------ operations ---- */

static void some_kernels(void) {
    static void (*const good[])(void) = {compare, sums, merge, scatter, copy_many, propagate};
    static void (*const refused[])(void) = {refused_comparison, refused_sums,   refused_merge,       refused_scatter,
                                            refused_copies,     refused_stream, refused_propagations};
    for (uint64_t i = 3 + below(6); i > 0; i--) {
        begin();
        good[below(sizeof good / sizeof good[0])]();
        check_arena();
    }
    begin();
    put();
    refused[below(sizeof refused / sizeof refused[0])]();
    check_arena();
}

void fuzz_kernels(void) {
    arena.stream = MMSB_STREAM_HOST;
    arena.base = (uint8_t *)arena.host;
    if (chance(60)) {
        some_kernels();
        return;
    }
    mmsb_runtime_t runtime = 0;
    mmsb_block_t block = 0;
    void *address = NULL;
    CALL(mmsb_runtime_create(contexts[any_context()].handle, 0, NULL, &runtime), MMSB_OK);
    CALL(mmsb_stream_create(runtime, 0, &arena.stream), MMSB_OK);
    CALL(mmsb_block_allocate(arena.stream, ARENA, 0, 0, &block, &address), MMSB_OK);
    arena.base = address;
    some_kernels();
    CALL(mmsb_block_free(block, 0, NULL), MMSB_OK);
    CALL(mmsb_runtime_destroy(runtime), MMSB_OK);
}

/* A page of the same size, if some are found; any in the end. */
static page_t *alike(const page_t *page) {
    page_t *other = any_page();
    for (int i = 0; i < 10 && other->size != page->size; i++) {
        other = any_page();
    }
    return other;
}

static void two_pages(page_t *a, page_t *b) {
    mmsb_difference_t difference = {UNTOUCHED, UNTOUCHED}, expected = {0, UINT64_MAX};
    uint64_t bytes = (a->size + 7) / 8;
    mmsb_status_t code = a->size == b->size ? MMSB_OK : MMSB_E_MISMATCH;
    static uint8_t bits[LARGEST / 8 + 1];
    memset(bits, 0, sizeof bits);
    for (uint64_t i = 0; code == MMSB_OK && i < a->size; i++) {
        int differs = a->bytes[i] != b->bytes[i];
        bits[i / 8] |= (uint8_t)(differs << i % 8);
        if (differs && expected.count++ == 0) {
            expected.first = i;
        }
    }
    if (chance(50)) {
        CALL(mmsb_page_compare(a->handle, b->handle, &difference), code);
        SAME(difference.count, code == MMSB_OK ? expected.count : UNTOUCHED);
        SAME(difference.first, code == MMSB_OK ? expected.first : UNTOUCHED);
        return;
    }
    uint64_t length = a->size;
    if (code == MMSB_OK && chance(10)) {
        length = chance(50) ? length + 1 + below(100) : length - 1;
        code = MMSB_E_MISMATCH;
    }
    memset(buffer, 0xAA, bytes + 1);
    CALL(mmsb_page_differences(a->handle, b->handle, buffer, length), code);
    SAME(buffer[bytes], 0xAA);
    for (uint64_t i = 0; i < bytes; i++) {
        SAME(buffer[i], code == MMSB_OK ? bits[i] : 0xAA);
    }
}

static void no_pages(const page_t *page) {
    pick_t bad = bad_handle(MMSB_KIND_PAGE);
    mmsb_difference_t difference = {UNTOUCHED, UNTOUCHED};
    uint32_t sum = UNTOUCHED;
    uint64_t pair[2] = {page->handle, bad.handle};
    int swapped = chance(50);
    CALL(mmsb_page_compare(pair[swapped], pair[!swapped], &difference), bad.code);
    CALL(mmsb_page_differences(pair[swapped], pair[!swapped], buffer, page->size), bad.code);
    CALL(mmsb_page_propagate(pair[swapped], pair[!swapped]), bad.code);
    CALL(mmsb_page_checksum(bad.handle, 0, 1, &sum), bad.code);
    CALL(mmsb_page_compare(page->handle, page->handle, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_differences(page->handle, page->handle, NULL, page->size), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_checksum(page->handle, 0, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_propagate(page->handle, page->handle), MMSB_E_INVALID_ARGUMENT);
    SAME(difference.count == UNTOUCHED && difference.first == UNTOUCHED && sum == UNTOUCHED, 1);
}

static void sum_of_page(const page_t *page) {
    uint64_t offset, length;
    int good = any_range(page, &offset, &length);
    uint32_t sum = UNTOUCHED, second = UNTOUCHED;
    CALL(mmsb_page_checksum(page->handle, offset, length, &sum), good ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
    SAME(sum, good ? checksum(page->bytes + offset, length) : UNTOUCHED);
    if (good) {
        uint64_t rest = page->size - offset - length;
        CALL(mmsb_page_checksum(page->handle, offset + length, rest, &second), MMSB_OK);
        SAME(mmsb_checksum_join(sum, second, rest), checksum(page->bytes + offset, length + rest));
    }
}

static void propagate_page(page_t *page, page_t *from) {
    const uint64_t bits = page == from ? 0 : (uint64_t)(memchr(from->mask, 1, from->size) != NULL);
    mmsb_status_t code = page == from               ? MMSB_E_INVALID_ARGUMENT
                         : page->read_only          ? MMSB_E_INVALID_STATE
                         : page->size != from->size ? MMSB_E_MISMATCH
                                                    : MMSB_OK;
    CALL(mmsb_page_propagate(page->handle, from->handle), code);
    if (code == MMSB_OK && bits > 0) {
        mmsb_delta_t delta;
        mmsb_delta_init(&delta);
        delta.kind = MMSB_DELTA_DENSE_BYTES;
        delta.mask = from->mask;
        delta.mask_length = page->size;
        delta.payload = from->bytes;
        delta_was_applied(page, &delta);
        check_version(page, MOVES);
    } else {
        check_version(page, STAYS);
    }
    check_version(from, STAYS);
    check_page(page);
    check_page(from);
}

void fuzz_two_pages(void) {
    page_t *page = any_page();
    if (page == NULL) {
        return;
    }
    page_t *other = alike(page);
    switch (below(6)) {
    case 0:
        no_pages(page);
        break;
    case 1:
        sum_of_page(page);
        break;
    case 2:
    case 3:
        two_pages(page, other);
        break;
    default:
        propagate_page(page, other);
    }
}
