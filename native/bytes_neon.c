/*
 * bytes_neon.c — the byte loops for 64-bit ARM, where every processor has NEON. (A name that ended in _arm would tell the go
 * command to build the file for 32-bit ARM only.)
 */
#include "bytes_words.h"

#if defined(__aarch64__)
#include <arm_neon.h>

static inline uint8x16_t one_bit_each(void) {
    return vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ULL));
}

/* Bit i from the highest bit of byte i of four vectors whose bytes are each 0x00 or 0xff. */
static inline uint64_t bits_of_vectors(const uint8x16_t vectors[4]) {
    uint8x16_t bit = one_bit_each();
    uint8x16_t lower = vpaddq_u8(vandq_u8(vectors[0], bit), vandq_u8(vectors[1], bit));
    uint8x16_t upper = vpaddq_u8(vandq_u8(vectors[2], bit), vandq_u8(vectors[3], bit));
    uint8x16_t all = vpaddq_u8(lower, upper);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

static void blend_bytes(uint8_t *page, const uint8_t *mask, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        uint8x16_t take[4];
        for (uint64_t part = 0; part < 4; part++) {
            uint64_t at = i + 16 * part;
            uint8x16_t given = vld1q_u8(mask + at);
            take[part] = vtstq_u8(given, given);
            vst1q_u8(page + at, vbslq_u8(take[part], vld1q_u8(payload + at), vld1q_u8(page + at)));
        }
        mmsb__bits_or(changed + i / 8, bits_of_vectors(take), 64);
    }
    words_blend_bytes(page + i, mask + i, payload + i, length - i, changed + i / 8);
}

static void blend_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        for (uint64_t part = 0; part < 64; part += 16) {
            uint64_t at = i + part;
            uint8x16_t spread = vcombine_u8(vdup_n_u8(bits[at / 8]), vdup_n_u8(bits[at / 8 + 1]));
            uint8x16_t take = vtstq_u8(spread, one_bit_each());
            vst1q_u8(page + at, vbslq_u8(take, vld1q_u8(payload + at), vld1q_u8(page + at)));
        }
        mmsb__bits_or(changed + i / 8, load64(bits + i / 8), 64);
    }
    words_blend_bits(page + i, bits + i / 8, payload + i, length - i, changed + i / 8);
}

static uint64_t count_bits(const uint8_t *bits, uint64_t count) {
    uint64_t sum = 0;
    uint64_t i = 0;
    for (; count - i >= 128; i += 128)
        sum += vaddlvq_u8(vcntq_u8(vld1q_u8(bits + i / 8)));
    return sum + words_count_bits(bits + i / 8, count - i);
}

static uint64_t count_nonzero(const uint8_t *bytes, uint64_t length) {
    uint64_t sum = 0;
    uint64_t i = 0;
    for (; length - i >= 16; i += 16) {
        uint8x16_t given = vld1q_u8(bytes + i);
        sum += vaddlvq_u8(vshrq_n_u8(vtstq_u8(given, given), 7));
    }
    return sum + words_count_nonzero(bytes + i, length - i);
}

static void equalities(uint8_t *result, const uint8_t *a, const uint8_t *b, uint64_t length) {
    uint64_t i = 0;
    for (; length - i >= 16; i += 16)
        vst1q_u8(result + i, vandq_u8(vceqq_u8(vld1q_u8(a + i), vld1q_u8(b + i)), vdupq_n_u8(1)));
    words_equalities(result + i, a + i, b + i, length - i);
}

static uint64_t count_differences(const uint8_t *a, const uint8_t *b, uint64_t length) {
    uint64_t sum = 0;
    uint64_t i = 0;
    for (; length - i >= 16; i += 16)
        sum += 16 - vaddlvq_u8(vshrq_n_u8(vceqq_u8(vld1q_u8(a + i), vld1q_u8(b + i)), 7));
    return sum + words_count_differences(a + i, b + i, length - i);
}

/* The last vector is left to the word loop, which also finds the place within the vector that ended the search. */
static uint64_t next_difference(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    while (length - i >= 16 && vminvq_u8(vceqq_u8(vld1q_u8(a + i), vld1q_u8(b + i))) != 0)
        i += 16;
    return words_next_difference(a, b, i, length);
}

static uint64_t next_agreement(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    while (length - i >= 16 && vmaxvq_u8(vceqq_u8(vld1q_u8(a + i), vld1q_u8(b + i))) == 0)
        i += 16;
    return words_next_agreement(a, b, i, length);
}

void mmsb__bytes_use_neon(mmsb__bytes_table_t *table) {
    table->name = "neon";
    table->blend_bytes = blend_bytes;
    table->blend_bits = blend_bits;
    table->count_bits = count_bits;
    table->count_nonzero = count_nonzero;
    table->next_difference = next_difference;
    table->next_agreement = next_agreement;
    table->equalities = equalities;
    table->count_differences = count_differences;
}

#endif
