/*
 * checksum.c — CRC-32C (Castagnoli; reflected polynomial 0x82f63b78): portable by tables of eight, with the instruction of SSE
 * 4.2 or of arm64, and by products without carries (VPCLMULQDQ). The instruction gives eight bytes every three cycles and takes
 * one every cycle, so three ranges are done side by side and joined: a checksum goes over n more zero bytes by one look-up per
 * byte of it. Products take two to three times as many bytes in a cycle, as many as the caches give.
 */
#include "bytes_words.h"

#if defined(__x86_64__)
#include <immintrin.h>
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

#if defined(__x86_64__)
/* ---------------------------------------------------------------------------------------------- folding ---- */

/* 16 bytes may be replaced by their product with x^d, added to the 16 bytes that come d bits later: the checksum of all stays.
 * Each half of them is multiplied with what is left of a power of x, and both products together have 16 bytes again. Eight
 * registers are folded side by side, each by the bytes of all eight, then into one; what that has is summed by the
 * instruction. The first bytes take the checksum before them. */
enum { SIDE_BY_SIDE = 8, AHEAD = 2048 /* bytes; twice as far gains a tenth from memory, but of a page's neighbour */ };

typedef struct factors {
    uint64_t near, far; /* of the first eight bytes, and of the other ones */
} factors_t;

static factors_t over_one[2], over_all[2]; /* by registers of 32 and of 64 bytes */

/* What is left of x^bits, as products of reflected numbers need it: one place up. */
static uint64_t power(int bits) {
    uint32_t left = UINT32_C(1) << 31;
    for (int i = 0; i < bits; i++)
        left = left & 1 ? left >> 1 ^ POLYNOMIAL : left >> 1;
    return (uint64_t)left << 1;
}

static factors_t factors(int bits) {
    return (factors_t){.near = power(bits + 32), .far = power(bits - 32)};
}

#define FOLDED(name, attribute, vector, load, store, add, pair, of_checksum, fold, by_one, by_all) \
    attribute static uint32_t name(uint32_t from, const void *memory, uint64_t length) { \
        enum { WIDTH = sizeof(vector), STEP = SIDE_BY_SIDE * WIDTH }; \
        const uint8_t *bytes = memory; \
        if (length < STEP) \
            return instruction(from, memory, length); \
        vector part[SIDE_BY_SIDE]; \
        for (int i = 0; i < SIDE_BY_SIDE; i++) \
            part[i] = load((const void *)(bytes + i * WIDTH)); \
        part[0] = add(part[0], of_checksum(_mm_cvtsi32_si128((int)~from))); \
        const vector all = pair(_mm_set_epi64x((long long)(by_all).far, (long long)(by_all).near)); \
        for (bytes += STEP, length -= STEP; length >= STEP; bytes += STEP, length -= STEP) { \
            for (int i = 0; i < SIDE_BY_SIDE; i++) { \
                __builtin_prefetch(bytes + AHEAD + i * WIDTH); \
                part[i] = fold(part[i], all, load((const void *)(bytes + i * WIDTH))); \
            } \
        } \
        const vector one = pair(_mm_set_epi64x((long long)(by_one).far, (long long)(by_one).near)); \
        vector sum = part[0]; \
        for (int i = 1; i < SIDE_BY_SIDE; i++) \
            sum = fold(sum, one, part[i]); \
        for (; length >= WIDTH; bytes += WIDTH, length -= WIDTH) \
            sum = fold(sum, one, load((const void *)bytes)); \
        uint8_t left[WIDTH]; \
        store((void *)left, sum); \
        const uint32_t of_left = instruction(UINT32_MAX, left, WIDTH); /* the checksum before is in them already */ \
        return instruction(of_left, bytes, length); \
    }

#define BY_32 __attribute__((target("avx2,vpclmulqdq,pclmul")))
#if defined(__clang__) && __clang_major__ >= 18 && __clang_major__ <= 21 /* which want registers of 64 bytes named */
#define BY_64 __attribute__((target("avx512f,evex512,vpclmulqdq,pclmul")))
#else
#define BY_64 __attribute__((target("avx512f,vpclmulqdq,pclmul")))
#endif

BY_32 static inline __m256i fold_32(__m256i bytes, __m256i by, __m256i later) {
    return _mm256_xor_si256(
        later, _mm256_xor_si256(_mm256_clmulepi64_epi128(bytes, by, 0x00), _mm256_clmulepi64_epi128(bytes, by, 0x11)));
}

BY_64 static inline __m512i fold_64(__m512i bytes, __m512i by, __m512i later) {
    enum { XOR_OF_THREE = 0x96 };
    return _mm512_ternarylogic_epi64(later, _mm512_clmulepi64_epi128(bytes, by, 0x00), _mm512_clmulepi64_epi128(bytes, by, 0x11),
                                     XOR_OF_THREE);
}

FOLDED(folded_32, BY_32, __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256, _mm256_broadcastsi128_si256,
       _mm256_zextsi128_si256, fold_32, over_one[0], over_all[0])
FOLDED(folded_64, BY_64, __m512i, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_xor_si512, _mm512_broadcast_i32x4,
       _mm512_zextsi128_si512, fold_64, over_one[1], over_all[1])

void mmsb__checksum_use_products(mmsb__bytes_table_t *table, int wide) {
    if (!HAS_INSTRUCTION || !__builtin_cpu_supports("vpclmulqdq"))
        return;
    for (int i = 0; i < 2; i++) {
        over_one[i] = factors(8 * (32 << i));
        over_all[i] = factors(8 * (32 << i) * SIDE_BY_SIDE);
    }
    table->crc32c = wide ? folded_64 : folded_32;
}
#endif
