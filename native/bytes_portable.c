/* bytes_portable.c — the byte loops for every processor. */
#include "bytes_words.h"

static void blend_bytes(uint8_t *page, const uint8_t *mask, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    words_blend_bytes(page, mask, payload, length, changed);
}

static void blend_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    words_blend_bits(page, bits, payload, length, changed);
}

static void expand_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    words_expand_bits(page, bits, payload, length, changed);
}

static uint64_t run_length64(const uint64_t *offsets, uint64_t count) {
    uint64_t run = 0;
    while (run < count && offsets[run] == offsets[0] + run)
        run++;
    return run;
}

static uint64_t run_length32(const uint32_t *offsets, uint64_t count) {
    uint64_t run = 0;
    while (run < count && offsets[run] == (uint64_t)offsets[0] + run)
        run++;
    return run;
}

DEFINE_SCATTER(scatter64, uint64_t, run_length64)
DEFINE_SCATTER(scatter32, uint32_t, run_length32)

static uint64_t maximum64(const uint64_t *offsets, uint64_t count) {
    uint64_t maximum = 0;
    for (uint64_t i = 0; i < count; i++)
        maximum = offsets[i] > maximum ? offsets[i] : maximum;
    return maximum;
}

static uint64_t maximum32(const uint32_t *offsets, uint64_t count) {
    uint32_t maximum = 0;
    for (uint64_t i = 0; i < count; i++)
        maximum = offsets[i] > maximum ? offsets[i] : maximum;
    return maximum;
}

static uint64_t count_bits(const uint8_t *bits, uint64_t count) {
    return words_count_bits(bits, count);
}

static uint64_t count_nonzero(const uint8_t *bytes, uint64_t length) {
    return words_count_nonzero(bytes, length);
}

static uint64_t next_difference(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    return words_next_difference(a, b, from, length);
}

static uint64_t next_agreement(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    return words_next_agreement(a, b, from, length);
}

static void differences(uint8_t *bits, const uint8_t *a, const uint8_t *b, uint64_t length) {
    words_differences(bits, a, b, length);
}

static void zero(void *bytes, uint64_t length, const void *next) {
    (void)next;
    memset(bytes, 0, length);
}

void mmsb__bytes_use_portable(mmsb__bytes_table_t *table) {
    *table = (mmsb__bytes_table_t){
        .name = "portable",
        .blend_bytes = blend_bytes,
        .blend_bits = blend_bits,
        .expand_bits = expand_bits,
        .scatter64 = scatter64,
        .scatter32 = scatter32,
        .run_length64 = run_length64,
        .run_length32 = run_length32,
        .maximum64 = maximum64,
        .maximum32 = maximum32,
        .count_bits = count_bits,
        .count_nonzero = count_nonzero,
        .next_difference = next_difference,
        .next_agreement = next_agreement,
        .differences = differences,
        .zero = zero,
    };
}
