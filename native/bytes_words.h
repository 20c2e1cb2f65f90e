/*
 * bytes_words.h — the byte loops eight bytes at a time in plain C: the whole of the portable table, and for the other tables
 * the rest that is shorter than a vector.
 *
 * A "byte mask" is a word whose bytes are each 0x00 or 0xff.
 */
#ifndef MMSB_NATIVE_BYTES_WORDS_H
#define MMSB_NATIVE_BYTES_WORDS_H

#include "bytes.h"

#define EVERY_BYTE 0x0101010101010101ULL
#define HIGH_BITS 0x8080808080808080ULL
#define LOW_SEVEN 0x7f7f7f7f7f7f7f7fULL

static inline uint64_t load64(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    return word;
}

static inline void store64(uint8_t *bytes, uint64_t word) {
    memcpy(bytes, &word, 8);
}

static inline uint64_t load32(const uint8_t *bytes) {
    uint32_t word;
    memcpy(&word, bytes, 4);
    return word;
}

static inline void store32(uint8_t *bytes, uint64_t word) {
    memcpy(bytes, &word, 4);
}

/* The first count ≤ 8 bytes as the low bytes of a word; the others are 0. Four and more take two loads that may overlap. */
static inline uint64_t load_part(const uint8_t *bytes, uint64_t count) {
    if (count == 8)
        return load64(bytes);
    if (count >= 4)
        return load32(bytes) | load32(bytes + count - 4) << 8 * (count - 4);
    uint64_t word = 0;
    for (uint64_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

static inline void store_part(uint8_t *bytes, uint64_t word, uint64_t count) {
    if (count == 8) {
        store64(bytes, word);
        return;
    }
    if (count >= 4) {
        store32(bytes, word);
        store32(bytes + count - 4, word >> 8 * (count - 4));
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(word >> 8 * i);
}

static inline uint64_t lesser(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t low_bits(uint64_t count) {
    return count < 64 ? ~(~(uint64_t)0 << count) : ~(uint64_t)0;
}

/* 0x80 in each byte that is not 0, 0 in the others. */
static inline uint64_t nonzero_bytes(uint64_t word) {
    return (((word & LOW_SEVEN) + LOW_SEVEN) | word) & HIGH_BITS;
}

/* Bit i from the highest bit of byte i; the other bits of the word must be 0. */
static inline uint64_t bits_of_bytes(uint64_t high_bits) {
    return (high_bits >> 7) * 0x0102040810204080ULL >> 56;
}

/* 0x80 in byte i where bit i of the lowest byte is set. */
static inline uint64_t bytes_of_bits(uint64_t bits) {
    return nonzero_bytes((bits & 0xff) * EVERY_BYTE & 0x8040201008040201ULL);
}

static inline uint64_t byte_mask(uint64_t high_bits) {
    return (high_bits >> 7) * 0xff;
}

static inline uint64_t blend_word(uint64_t page, uint64_t payload, uint64_t mask) {
    return page ^ ((page ^ payload) & mask);
}

/* The bits of a bit mask from byte at on, count ≤ 64 of them. */
static inline uint64_t load_bits(const uint8_t *at, uint64_t count) {
    return load_part(at, (count + 7) / 8) & low_bits(count);
}

static inline void words_blend_bytes(uint8_t *page, const uint8_t *mask, const uint8_t *payload, uint64_t length,
                                     uint8_t *changed) {
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t count = lesser(8, length - i);
        uint64_t chosen = nonzero_bytes(load_part(mask + i, count));
        uint64_t word = blend_word(load_part(page + i, count), load_part(payload + i, count), byte_mask(chosen));
        store_part(page + i, word, count);
        changed[i / 8] = (uint8_t)(changed[i / 8] | bits_of_bytes(chosen));
    }
}

static inline void words_blend_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length,
                                    uint8_t *changed) {
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t count = lesser(8, length - i);
        uint64_t chosen = bits[i / 8] & low_bits(count);
        uint64_t word = blend_word(load_part(page + i, count), load_part(payload + i, count), byte_mask(bytes_of_bits(chosen)));
        store_part(page + i, word, count);
        changed[i / 8] = (uint8_t)(changed[i / 8] | chosen);
    }
}

/* Puts the bytes of payload where chosen has bits, and says how many those were. */
static inline uint64_t words_expand(uint8_t *page, uint64_t chosen, const uint8_t *payload) {
    uint64_t count = 0;
    for (; chosen != 0; chosen &= chosen - 1)
        page[__builtin_ctzll(chosen)] = payload[count++];
    return count;
}

static inline void words_expand_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length,
                                     uint8_t *changed) {
    for (uint64_t i = 0; i < length; i += 64) {
        uint64_t count = lesser(64, length - i);
        uint64_t chosen = load_bits(bits + i / 8, count);
        if (chosen == ~(uint64_t)0) {
            memcpy(page + i, payload, 64);
            payload += 64;
        } else {
            payload += words_expand(page + i, chosen, payload);
        }
        mmsb__bits_or(changed + i / 8, chosen, count);
    }
}

static inline uint64_t words_count_bits(const uint8_t *bits, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i += 64)
        sum += (uint64_t)__builtin_popcountll(load_bits(bits + i / 8, lesser(64, count - i)));
    return sum;
}

static inline uint64_t words_count_nonzero(const uint8_t *bytes, uint64_t length) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < length; i += 8)
        sum += (nonzero_bytes(load_part(bytes + i, lesser(8, length - i))) >> 7) * EVERY_BYTE >> 56;
    return sum;
}

static inline uint64_t words_next_difference(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    for (; length - i >= 8; i += 8) {
        uint64_t differing = load64(a + i) ^ load64(b + i);
        if (differing != 0)
            return i + (uint64_t)__builtin_ctzll(differing) / 8;
    }
    while (i < length && a[i] == b[i])
        i++;
    return i;
}

static inline void words_differences(uint8_t *bits, const uint8_t *a, const uint8_t *b, uint64_t length) {
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t count = lesser(8, length - i), other = b ? load_part(b + i, count) : 0;
        bits[i / 8] = (uint8_t)bits_of_bytes(nonzero_bytes(load_part(a + i, count) ^ other));
    }
}

static inline void words_equalities(uint8_t *result, const uint8_t *a, const uint8_t *b, uint64_t length) {
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t count = lesser(8, length - i);
        uint64_t differing = nonzero_bytes(load_part(a + i, count) ^ load_part(b + i, count));
        store_part(result + i, (differing ^ HIGH_BITS) >> 7, count);
    }
}

static inline uint64_t words_count_differences(const uint8_t *a, const uint8_t *b, uint64_t length) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t count = lesser(8, length - i);
        sum += (nonzero_bytes(load_part(a + i, count) ^ load_part(b + i, count)) >> 7) * EVERY_BYTE >> 56;
    }
    return sum;
}

static inline uint64_t words_next_agreement(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    for (; length - i >= 8; i += 8) {
        uint64_t agreeing = nonzero_bytes(load64(a + i) ^ load64(b + i)) ^ HIGH_BITS;
        if (agreeing != 0)
            return i + (uint64_t)__builtin_ctzll(agreeing) / 8;
    }
    while (i < length && a[i] != b[i])
        i++;
    return i;
}

static inline uint64_t words_run_length64(const uint64_t *offsets, uint64_t count) {
    uint64_t run = 0;
    while (run < count && offsets[run] == offsets[0] + run)
        run++;
    return run;
}

static inline uint64_t words_run_length32(const uint32_t *offsets, uint64_t count) {
    uint64_t run = 0;
    while (run < count && offsets[run] == (uint64_t)offsets[0] + run)
        run++;
    return run;
}

static inline uint64_t words_maximum64(const uint64_t *offsets, uint64_t count) {
    uint64_t maximum = 0;
    for (uint64_t i = 0; i < count; i++)
        maximum = offsets[i] > maximum ? offsets[i] : maximum;
    return maximum;
}

static inline uint64_t words_maximum32(const uint32_t *offsets, uint64_t count) {
    uint32_t maximum = 0;
    for (uint64_t i = 0; i < count; i++)
        maximum = offsets[i] > maximum ? offsets[i] : maximum;
    return maximum;
}

/*
 * Defines a scatter loop. Where SCATTER_GROUP or more offsets follow each other they are a run: a user who writes a few ranges
 * byte by byte gets the speed of runs. Other offsets go one by one, a group at a time before the next look for a run, with
 * their lines fetched SCATTER_AHEAD offsets before.
 */
#define SCATTER_GROUP 8
#define SCATTER_AHEAD 24
#define DEFINE_SCATTER(name, offset_type, run_length) \
    static void name(uint8_t *page, const offset_type *offsets, const uint8_t *payload, uint64_t count, uint8_t *changed) { \
        uint64_t i = 0; \
        while (i < count) { \
            uint64_t run = run_length(offsets + i, count - i); \
            if (run >= SCATTER_GROUP) { \
                memcpy(page + offsets[i], payload + i, run); \
                mmsb__bits_set_range(changed, offsets[i], run); \
                i += run; \
                continue; \
            } \
            uint64_t group = lesser(i + SCATTER_GROUP, count); \
            for (; i < group; i++) { \
                uint64_t ahead = offsets[lesser(i + SCATTER_AHEAD, count - 1)]; \
                __builtin_prefetch(page + ahead, 1); \
                __builtin_prefetch(changed + ahead / 8, 1); \
                uint64_t offset = offsets[i]; \
                page[offset] = payload[i]; \
                changed[offset / 8] = (uint8_t)(changed[offset / 8] | 1u << offset % 8); \
            } \
        } \
    }

#endif
