/*
 * checksum.c — CRC-32C (Castagnoli; reflected polynomial 0x82f63b78): portable by tables of eight, and with the instruction of
 * SSE 4.2 or of arm64. The instruction gives eight bytes every three cycles and takes one every cycle, so three ranges are done
 * side by side and joined: a checksum goes over n more zero bytes by one look-up per byte of it.
 */
#include "bytes_words.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL UINT32_C(0x82f63b78)
/* Three of these are 4032 bytes, as much as fits into a page of 4 KiB; the short ones do the rest. */
#define LONG_RANGE 1344
#define SHORT_RANGE 128

static uint32_t by_byte[8][256];                       /* [n][b]: byte b, then n zero bytes */
static uint32_t over_long[4][256], over_short[4][256]; /* [n][b]: byte n of a checksum is b, then a range of zeros */

static uint32_t portable(uint32_t crc, const void *memory, uint64_t length) {
    const uint8_t *bytes = memory;
    crc = ~crc;
    for (; length >= 8; length -= 8, bytes += 8) {
        uint64_t word = load64(bytes) ^ crc;
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= by_byte[7 - i][word >> (8 * i) & 255];
    }
    for (; length > 0; length--, bytes++)
        crc = crc >> 8 ^ by_byte[0][(crc ^ *bytes) & 255];
    return ~crc;
}

static void fill_over(uint32_t table[4][256], uint32_t zeros) {
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = UINT32_C(1) << bit;
        for (uint32_t i = 0; i < zeros; i++)
            crc = crc >> 8 ^ by_byte[0][crc & 255];
        of_bit[bit] = crc;
    }
    for (int byte = 0; byte < 4; byte++) {
        for (int value = 0; value < 256; value++) {
            uint32_t crc = 0;
            for (int bit = 0; bit < 8; bit++)
                crc ^= value >> bit & 1 ? of_bit[8 * byte + bit] : 0;
            table[byte][value] = crc;
        }
    }
}

static void fill_tables(void) {
    if (by_byte[0][1] != 0)
        return;
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        by_byte[0][value] = crc;
    }
    for (int zeros = 1; zeros < 8; zeros++) {
        for (int value = 0; value < 256; value++)
            by_byte[zeros][value] = by_byte[zeros - 1][value] >> 8 ^ by_byte[0][by_byte[zeros - 1][value] & 255];
    }
    fill_over(over_long, LONG_RANGE);
    fill_over(over_short, SHORT_RANGE);
}

void mmsb__checksum_use_portable(mmsb__bytes_table_t *table) {
    fill_tables();
    table->crc32c = portable;
}

static inline uint32_t over(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

/* The loop for an instruction that adds eight bytes, and one that adds one. */
#define CHECKSUM_LOOP(name, attribute, add8, add1) \
    attribute static uint64_t name##_ranges(uint64_t crc, const uint8_t **bytes, uint64_t *length, uint64_t range, \
                                            uint32_t table[4][256]) { \
        const uint8_t *at = *bytes; \
        uint64_t left = *length; \
        for (; left >= 3 * range; left -= 3 * range, at += 3 * range) { \
            uint64_t second = 0, third = 0; \
            for (uint64_t i = 0; i < range; i += 8) { \
                crc = add8(crc, load64(at + i)); \
                second = add8(second, load64(at + range + i)); \
                third = add8(third, load64(at + 2 * range + i)); \
            } \
            crc = over(table, over(table, (uint32_t)crc) ^ (uint32_t)second) ^ (uint32_t)third; \
        } \
        *bytes = at; \
        *length = left; \
        return crc; \
    } \
    attribute static uint32_t name(uint32_t from, const void *memory, uint64_t length) { \
        const uint8_t *bytes = memory; \
        uint64_t crc = (uint32_t)~from; \
        crc = name##_ranges(crc, &bytes, &length, LONG_RANGE, over_long); \
        crc = name##_ranges(crc, &bytes, &length, SHORT_RANGE, over_short); \
        for (; length >= 8; length -= 8, bytes += 8) \
            crc = add8(crc, load64(bytes)); \
        for (; length > 0; length--, bytes++) \
            crc = add1((uint32_t)crc, *bytes); \
        return ~(uint32_t)crc; \
    }

#if defined(__x86_64__)
CHECKSUM_LOOP(instruction, __attribute__((target("sse4.2,crc32"))), _mm_crc32_u64, _mm_crc32_u8)
#define HAS_INSTRUCTION __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__)
#define ADD8(crc, word) __crc32cd((uint32_t)(crc), word)
CHECKSUM_LOOP(instruction, __attribute__((target("+crc"))), ADD8, __crc32cb)
#define HAS_INSTRUCTION (getauxval(AT_HWCAP) & HWCAP_CRC32)
#else
#define HAS_INSTRUCTION 0
#define instruction portable
#endif

void mmsb__checksum_use_instruction(mmsb__bytes_table_t *table) {
    if (HAS_INSTRUCTION)
        table->crc32c = instruction;
}
