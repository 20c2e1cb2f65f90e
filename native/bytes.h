/*
 * bytes.h — the byte loops, each with a portable form and forms for the instruction sets that help, chosen once when the
 * library is loaded. No loop checks its arguments: validation comes before the first byte (delta.c, core/delta).
 *
 * "bits" is a bit mask: bit i%8 of byte i/8 stands for byte i. "changed" is the page's change mask in that form; the loops
 * set the bits of the bytes they address in it. No loop reads or writes a byte outside what its arguments name: a bit mask of
 * n bits is (n+7)/8 bytes, and its bits from n on are neither heeded nor altered. Inputs and outputs do not overlap.
 */
#ifndef MMSB_NATIVE_BYTES_H
#define MMSB_NATIVE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bit masks are read and written as little-endian words");

#pragma GCC visibility push(hidden)

typedef struct mmsb__bytes_table {
    const char *name; /* "avx512", "avx2", "sse2", "neon", "portable" */

    /* page[i] = payload[i] where mask[i] != 0, for i < length. This loop, blend_bits and expand_bits may write the bytes in
     * between back as they read them: the page must have no other writer. */
    void (*blend_bytes)(uint8_t *page, const uint8_t *mask, const uint8_t *payload, uint64_t length, uint8_t *changed);
    /* page[i] = payload[i] where bit i of bits is set, for i < length. */
    void (*blend_bits)(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed);
    /* The same with a payload that holds only the bytes of the set bits, in order. */
    void (*expand_bits)(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed);
    /* page[offsets[i]] = payload[i], in order, for i < count. */
    void (*scatter64)(uint8_t *page, const uint64_t *offsets, const uint8_t *payload, uint64_t count, uint8_t *changed);
    void (*scatter32)(uint8_t *page, const uint32_t *offsets, const uint8_t *payload, uint64_t count, uint8_t *changed);
    /* How many offsets from the first on follow each other without a gap. Where it is count, the delta is one run: a caller
     * that asks this first spares maximum and scatter. */
    uint64_t (*run_length64)(const uint64_t *offsets, uint64_t count);
    uint64_t (*run_length32)(const uint32_t *offsets, uint64_t count);
    /* The largest of count offsets; 0 for none. */
    uint64_t (*maximum64)(const uint64_t *offsets, uint64_t count);
    uint64_t (*maximum32)(const uint32_t *offsets, uint64_t count);
    /* Number of set bits among the first count bits. */
    uint64_t (*count_bits)(const uint8_t *bits, uint64_t count);
    /* Number of bytes that are not 0. */
    uint64_t (*count_nonzero)(const uint8_t *bytes, uint64_t length);
    /* First index ≥ from where a and b differ (agree), or length. */
    uint64_t (*next_difference)(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length);
    uint64_t (*next_agreement)(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length);
    /* Bit i of bits: whether a and b differ at i. Bits of the last byte behind length are 0. b NULL stands for zeros. */
    void (*differences)(uint8_t *bits, const uint8_t *a, const uint8_t *b, uint64_t length);
    /* result[i] = 1 where a[i] equals b[i], else 0, for i < length. */
    void (*equalities)(uint8_t *result, const uint8_t *a, const uint8_t *b, uint64_t length);
    /* Number of bytes that differ. */
    uint64_t (*count_differences)(const uint8_t *a, const uint8_t *b, uint64_t length);
    /* Sets length bytes to 0; tuned for blocks up to some KiB that are used at once afterwards. next: as many bytes that are to
     * be set next and may be fetched meanwhile, or NULL. */
    void (*zero)(void *bytes, uint64_t length, const void *next);
    /* CRC-32C of bytes that follow others whose checksum is crc; 0 at first. */
    uint32_t (*crc32c)(uint32_t crc, const void *bytes, uint64_t length);
} mmsb__bytes_table_t;

/* The table in use: the best one of this processor. */
extern mmsb__bytes_table_t mmsb__bytes;

/* For tests and benchmarks: uses the table of that name. 0, or -1 where this build or processor has none such. */
int mmsb__bytes_select(const char *name);

/* Each puts the loops of its instruction set into the table. Portable fills it; the others replace what they do better. */
void mmsb__bytes_use_portable(mmsb__bytes_table_t *table);
void mmsb__bytes_use_sse2(mmsb__bytes_table_t *table);
void mmsb__bytes_use_avx2(mmsb__bytes_table_t *table);
void mmsb__bytes_use_neon(mmsb__bytes_table_t *table);
void mmsb__checksum_use_portable(mmsb__bytes_table_t *table);
void mmsb__checksum_use_instruction(mmsb__bytes_table_t *table);
/* With registers of 32 bytes, or, wide, of 64, where the processor multiplies them. */
void mmsb__checksum_use_products(mmsb__bytes_table_t *table, int wide);

/* Sets in the first (count+7)/8 bytes of bits, and touches no others, the bits set in word. count ≤ 64; the bits of word from
 * count on are 0. */
static inline void mmsb__bits_or(uint8_t *bits, uint64_t word, uint64_t count) {
    uint64_t bytes = (count + 7) / 8;
    if (bytes == 8) {
        uint64_t old;
        memcpy(&old, bits, 8);
        old |= word;
        memcpy(bits, &old, 8);
        return;
    }
    if (bytes & 4) {
        uint32_t old;
        memcpy(&old, bits, 4);
        old |= (uint32_t)word;
        memcpy(bits, &old, 4);
        bits += 4;
        word >>= 32;
    }
    if (bytes & 2) {
        uint16_t old;
        memcpy(&old, bits, 2);
        old = (uint16_t)(old | word);
        memcpy(bits, &old, 2);
        bits += 2;
        word >>= 16;
    }
    if (bytes & 1)
        *bits = (uint8_t)(*bits | word);
}

/* Sets count bits from bit first on. Inline because every applied run ends here. */
static inline void mmsb__bits_set_range(uint8_t *bits, uint64_t first, uint64_t count) {
    if (count == 0)
        return;
    bits += first / 8;
    uint64_t start = first % 8;
    uint64_t end = start + count;
    if (end < 64) {
        mmsb__bits_or(bits, ~(uint64_t)0 << start & ~(~(uint64_t)0 << end), end);
        return;
    }
    mmsb__bits_or(bits, ~(uint64_t)0 << start, 64);
    memset(bits + 8, 0xff, end / 8 - 8);
    bits[(end - 1) / 8] = (uint8_t)(bits[(end - 1) / 8] | 0xff >> (-end & 7)); /* the last byte, perhaps once more */
}

/* Sets 64 bits from bit first < 64 on. By whole words, which lie in one line of the cache each: bytes at any place cost twice as
 * much. */
static inline void mmsb__bits_set_64(uint64_t *words, uint64_t first) {
    words[0] |= ~(uint64_t)0 << first;
    words[(first + 63) / 64] |= ~(uint64_t)0 >> (-first & 63); /* of one word, perhaps once more */
}

/* Copies count bits from bit first of from on to bit 0 of to; the unused bits of the last byte written are 0. */
void mmsb__bits_extract(uint8_t *to, const uint8_t *from, uint64_t first, uint64_t count);
/* 1 where text is valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). */
int mmsb__utf8_valid(const char *text, size_t length);

#pragma GCC visibility pop

#endif
