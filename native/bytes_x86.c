/*
 * bytes_x86.c — the byte loops for x86-64: with SSE2, which every such processor has, and with AVX2. The functions carry their
 * instruction set themselves, so the file needs no compiler flags.
 *
 * The blend loops never branch on the mask: real masks are mixed, and a wrong guess costs more than the blend of a whole vector.
 */
#include "bytes_words.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* ---------------------------------------------------------------------------------------------------- SSE2 ---- */

static inline __m128i load128(const uint8_t *bytes) {
    return _mm_loadu_si128((const __m128i *)bytes);
}

static inline void store128(uint8_t *bytes, __m128i vector) {
    _mm_storeu_si128((__m128i *)bytes, vector);
}

/* Blends 16 bytes, keeping the page where keep is all ones. */
static inline void sse2_blend(uint8_t *page, const uint8_t *payload, __m128i keep) {
    store128(page, _mm_or_si128(_mm_and_si128(keep, load128(page)), _mm_andnot_si128(keep, load128(payload))));
}

/* 0xff in byte i where bit i of bits is 0. */
static inline __m128i sse2_clear_bits(uint64_t bits) {
    const __m128i one_bit = _mm_set1_epi64x((long long)0x8040201008040201ULL);
    __m128i spread = _mm_cvtsi32_si128((int)(bits & 0xffff));
    spread = _mm_unpacklo_epi8(spread, spread);
    spread = _mm_unpacklo_epi16(spread, spread);
    spread = _mm_unpacklo_epi32(spread, spread);
    return _mm_cmpeq_epi8(_mm_and_si128(spread, one_bit), _mm_setzero_si128());
}

static void sse2_blend_bytes(uint8_t *page, const uint8_t *mask, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        uint64_t kept = 0;
        for (uint64_t part = 0; part < 64; part += 16) {
            __m128i keep = _mm_cmpeq_epi8(load128(mask + i + part), _mm_setzero_si128());
            sse2_blend(page + i + part, payload + i + part, keep);
            kept |= (uint64_t)(uint32_t)_mm_movemask_epi8(keep) << part;
        }
        mmsb__bits_or(changed + i / 8, ~kept, 64);
    }
    words_blend_bytes(page + i, mask + i, payload + i, length - i, changed + i / 8);
}

static void sse2_blend_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        uint64_t chosen = load64(bits + i / 8);
        for (uint64_t part = 0; part < 64; part += 16)
            sse2_blend(page + i + part, payload + i + part, sse2_clear_bits(chosen >> part));
        mmsb__bits_or(changed + i / 8, chosen, 64);
    }
    words_blend_bits(page + i, bits + i / 8, payload + i, length - i, changed + i / 8);
}

static uint64_t sse2_next_difference(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    for (; length - i >= 16; i += 16) {
        uint32_t differing = 0xffff ^ (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(load128(a + i), load128(b + i)));
        if (differing != 0)
            return i + (uint64_t)__builtin_ctz(differing);
    }
    return words_next_difference(a, b, i, length);
}

static uint64_t sse2_next_agreement(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    for (; length - i >= 16; i += 16) {
        uint32_t agreeing = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(load128(a + i), load128(b + i)));
        if (agreeing != 0)
            return i + (uint64_t)__builtin_ctz(agreeing);
    }
    return words_next_agreement(a, b, i, length);
}

static void sse2_equalities(uint8_t *result, const uint8_t *a, const uint8_t *b, uint64_t length) {
    uint64_t i = 0;
    for (; length - i >= 16; i += 16)
        store128(result + i, _mm_and_si128(_mm_cmpeq_epi8(load128(a + i), load128(b + i)), _mm_set1_epi8(1)));
    words_equalities(result + i, a + i, b + i, length - i);
}

static uint64_t sse2_count_differences(const uint8_t *a, const uint8_t *b, uint64_t length) {
    uint64_t sum = 0;
    uint64_t i = 0;
    for (; length - i >= 16; i += 16) {
        uint32_t differing = 0xffff ^ (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(load128(a + i), load128(b + i)));
        if (differing != 0)
            sum += (uint64_t)__builtin_popcount(differing);
    }
    return sum + words_count_differences(a + i, b + i, length - i);
}

void mmsb__bytes_use_sse2(mmsb__bytes_table_t *table) {
    table->name = "sse2";
    table->blend_bytes = sse2_blend_bytes;
    table->blend_bits = sse2_blend_bits;
    table->next_difference = sse2_next_difference;
    table->equalities = sse2_equalities;
    table->count_differences = sse2_count_differences;
    table->next_agreement = sse2_next_agreement;
}

/* ---------------------------------------------------------------------------------------------------- AVX2 ---- */

#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

AVX2 static inline __m256i load256(const void *bytes) {
    return _mm256_loadu_si256((const __m256i *)bytes);
}

AVX2 static inline void store256(void *bytes, __m256i vector) {
    _mm256_storeu_si256((__m256i *)bytes, vector);
}

AVX2 static inline uint64_t sign_bits(__m256i vector) {
    return (uint32_t)_mm256_movemask_epi8(vector);
}

/* Blends 32 bytes where mask is not 0; the bits of those that keep the page. */
AVX2 static inline uint64_t blend_bytes32(uint8_t *page, const uint8_t *mask, const uint8_t *payload) {
    __m256i keep = _mm256_cmpeq_epi8(load256(mask), _mm256_setzero_si256());
    store256(page, _mm256_blendv_epi8(load256(payload), load256(page), keep));
    return sign_bits(keep);
}

AVX2 static void avx2_blend_bytes(uint8_t *page, const uint8_t *mask, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        uint64_t kept = blend_bytes32(page + i, mask + i, payload + i);
        kept |= blend_bytes32(page + i + 32, mask + i + 32, payload + i + 32) << 32;
        mmsb__bits_or(changed + i / 8, ~kept, 64);
    }
    if (length - i >= 32) {
        uint64_t kept = blend_bytes32(page + i, mask + i, payload + i);
        mmsb__bits_or(changed + i / 8, kept ^ 0xffffffff, 32);
        i += 32;
    }
    words_blend_bytes(page + i, mask + i, payload + i, length - i, changed + i / 8);
}

/* Blends 32 bytes where the low 32 bits of chosen are set. */
AVX2 static inline void blend_bits32(uint8_t *page, uint64_t chosen, const uint8_t *payload) {
    const __m256i byte_of_lane = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i one_bit = _mm256_set1_epi64x((long long)0x8040201008040201ULL);
    __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int)(uint32_t)chosen), byte_of_lane);
    __m256i take = _mm256_cmpeq_epi8(_mm256_and_si256(spread, one_bit), one_bit);
    store256(page, _mm256_blendv_epi8(load256(page), load256(payload), take));
}

AVX2 static void avx2_blend_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        uint64_t chosen = load64(bits + i / 8);
        blend_bits32(page + i, chosen, payload + i);
        blend_bits32(page + i + 32, chosen >> 32, payload + i + 32);
        mmsb__bits_or(changed + i / 8, chosen, 64);
    }
    if (length - i >= 32) {
        uint64_t chosen = load_bits(bits + i / 8, 32);
        blend_bits32(page + i, chosen, payload + i);
        mmsb__bits_or(changed + i / 8, chosen, 32);
        i += 32;
    }
    words_blend_bits(page + i, bits + i / 8, payload + i, length - i, changed + i / 8);
}

AVX2 static uint64_t avx2_count_bits(const uint8_t *bits, uint64_t count) {
    uint64_t even = 0;
    uint64_t odd = 0;
    uint64_t i = 0;
    for (; count - i >= 256; i += 256) {
        const uint8_t *at = bits + i / 8;
        even += (uint64_t)(__builtin_popcountll(load64(at)) + __builtin_popcountll(load64(at + 8)));
        odd += (uint64_t)(__builtin_popcountll(load64(at + 16)) + __builtin_popcountll(load64(at + 24)));
    }
    return even + odd + words_count_bits(bits + i / 8, count - i);
}

/*
 * For each byte of a bit mask the shuffle that brings the next bytes of a payload to their places: in byte i the number of set
 * bits below bit i, or 0x80 ("keep the page") where bit i is clear. A shuffle by table does without pdep, which some processors
 * run as microcode.
 */
static uint64_t places[256];

static void fill_places(void) {
    for (unsigned bits = 0; bits < 256; bits++) {
        uint64_t shuffle = 0;
        for (unsigned i = 0; i < 8; i++) {
            uint64_t place = bits >> i & 1 ? (uint64_t)__builtin_popcount(bits & ((1u << i) - 1)) : 0x80;
            shuffle |= place << 8 * i;
        }
        places[bits] = shuffle;
    }
}

/* Puts the next bytes of payload where the low 16 bits of chosen are set. Reads 8 bytes from payload on and 8 from where those
 * of the upper 8 bits begin. */
AVX2 static inline void expand16(uint8_t *page, uint64_t chosen, const uint8_t *payload) {
    const __m128i upper_half = _mm_set_epi64x(0x0808080808080808, 0);
    const uint8_t *upper = payload + __builtin_popcountll(chosen & 0xff);
    __m128i bytes = _mm_set_epi64x((long long)load64(upper), (long long)load64(payload));
    __m128i place = _mm_set_epi64x((long long)places[chosen >> 8 & 0xff], (long long)places[chosen & 0xff]);
    place = _mm_add_epi8(place, upper_half);
    store128(page, _mm_blendv_epi8(_mm_shuffle_epi8(bytes, place), load128(page), place));
}

AVX2 static void avx2_expand_bits(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint8_t *changed) {
    /* A step reads at most 64 bytes of payload, whatever it uses of them. The last bytes go through a longer copy. */
    uint8_t last[128];
    uint64_t left = avx2_count_bits(bits, length);
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        if (left < 64) {
            memset(last, 0, sizeof last);
            if (left != 0)
                memcpy(last, payload, left);
            payload = last;
            left = sizeof last;
        }
        uint64_t chosen = load64(bits + i / 8);
        expand16(page + i, chosen, payload);
        expand16(page + i + 16, chosen >> 16, payload + __builtin_popcountll(chosen & 0xffff));
        expand16(page + i + 32, chosen >> 32, payload + __builtin_popcountll(chosen & 0xffffffff));
        expand16(page + i + 48, chosen >> 48, payload + __builtin_popcountll(chosen & 0xffffffffffff));
        mmsb__bits_or(changed + i / 8, chosen, 64);
        uint64_t taken = (uint64_t)__builtin_popcountll(chosen);
        payload += taken;
        left -= taken;
    }
    words_expand_bits(page + i, bits + i / 8, payload, length - i, changed + i / 8);
}

/* Whether four offsets are as many more than the expected ones as they stand behind them. */
AVX2 static inline __m256i equal64(const uint64_t *offsets, __m256i expected, int behind) {
    return _mm256_cmpeq_epi64(load256(offsets + behind), _mm256_add_epi64(expected, _mm256_set1_epi64x(behind)));
}

AVX2 static inline uint64_t avx2_run_length64(const uint64_t *offsets, uint64_t count) {
    if (count == 0)
        return 0;
    __m256i expected = _mm256_add_epi64(_mm256_set1_epi64x((long long)offsets[0]), _mm256_setr_epi64x(0, 1, 2, 3));
    uint64_t run = 0;
    for (; count - run >= 16; run += 16) { /* one branch for 16: of a delta of 64 bytes the indices are what costs most */
        const uint64_t *at = offsets + run;
        __m256i lower = _mm256_and_si256(equal64(at, expected, 0), equal64(at, expected, 4));
        __m256i upper = _mm256_and_si256(equal64(at, expected, 8), equal64(at, expected, 12));
        if (sign_bits(_mm256_and_si256(lower, upper)) != 0xffffffff)
            break;
        expected = _mm256_add_epi64(expected, _mm256_set1_epi64x(16));
    }
    while (run < count && offsets[run] == offsets[0] + run)
        run++;
    return run;
}

AVX2 static inline uint64_t avx2_run_length32(const uint32_t *offsets, uint64_t count) {
    if (count == 0)
        return 0;
    __m256i expected = _mm256_add_epi32(_mm256_set1_epi32((int)offsets[0]), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    uint64_t run = 0;
    uint64_t reach = 0x100000000 - offsets[0]; /* beyond it the lanes would wrap */
    for (; lesser(count, reach) - run >= 8; run += 8) {
        if (sign_bits(_mm256_cmpeq_epi32(load256(offsets + run), expected)) != 0xffffffff)
            break;
        expected = _mm256_add_epi32(expected, _mm256_set1_epi32(8));
    }
    while (run < count && offsets[run] == (uint64_t)offsets[0] + run)
        run++;
    return run;
}

AVX2 DEFINE_SCATTER(avx2_scatter64, uint64_t, avx2_run_length64)
AVX2 DEFINE_SCATTER(avx2_scatter32, uint32_t, avx2_run_length32)

AVX2 static inline __m256i larger64(__m256i a, __m256i b) {
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a));
}

AVX2 static uint64_t avx2_maximum64(const uint64_t *offsets, uint64_t count) {
    /* AVX2 compares only signed numbers, so all are moved by half the range. */
    const __m256i half = _mm256_set1_epi64x(INT64_MIN);
    __m256i even = half;
    __m256i odd = half;
    uint64_t i = 0;
    for (; count - i >= 8; i += 8) {
        even = larger64(even, _mm256_xor_si256(load256(offsets + i), half));
        odd = larger64(odd, _mm256_xor_si256(load256(offsets + i + 4), half));
    }
    uint64_t lanes[4];
    store256(lanes, _mm256_xor_si256(larger64(even, odd), half));
    uint64_t most = words_maximum64(lanes, 4), rest = words_maximum64(offsets + i, count - i);
    return most > rest ? most : rest;
}

AVX2 static uint64_t avx2_maximum32(const uint32_t *offsets, uint64_t count) {
    __m256i even = _mm256_setzero_si256();
    __m256i odd = _mm256_setzero_si256();
    uint64_t i = 0;
    for (; count - i >= 16; i += 16) {
        even = _mm256_max_epu32(even, load256(offsets + i));
        odd = _mm256_max_epu32(odd, load256(offsets + i + 8));
    }
    uint32_t lanes[8];
    store256(lanes, _mm256_max_epu32(even, odd));
    uint64_t most = words_maximum32(lanes, 8), rest = words_maximum32(offsets + i, count - i);
    return most > rest ? most : rest;
}

AVX2 static uint64_t avx2_count_nonzero(const uint8_t *bytes, uint64_t length) {
    uint64_t zeros = 0;
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        uint64_t kept = sign_bits(_mm256_cmpeq_epi8(load256(bytes + i), _mm256_setzero_si256()));
        kept |= sign_bits(_mm256_cmpeq_epi8(load256(bytes + i + 32), _mm256_setzero_si256())) << 32;
        zeros += (uint64_t)__builtin_popcountll(kept);
    }
    return i - zeros + words_count_nonzero(bytes + i, length - i);
}

AVX2 static inline __m256i equal32(const uint8_t *a, const uint8_t *b) {
    return _mm256_cmpeq_epi8(load256(a), load256(b));
}

AVX2 static uint64_t avx2_next_difference(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    for (; length - i >= 64; i += 64) {
        uint64_t differing = ~(sign_bits(equal32(a + i, b + i)) | sign_bits(equal32(a + i + 32, b + i + 32)) << 32);
        if (differing != 0)
            return i + (uint64_t)__builtin_ctzll(differing);
    }
    return words_next_difference(a, b, i, length);
}

AVX2 static uint64_t avx2_next_agreement(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t i = from;
    for (; length - i >= 64; i += 64) {
        uint64_t agreeing = sign_bits(equal32(a + i, b + i)) | sign_bits(equal32(a + i + 32, b + i + 32)) << 32;
        if (agreeing != 0)
            return i + (uint64_t)__builtin_ctzll(agreeing);
    }
    return words_next_agreement(a, b, i, length);
}

AVX2 static inline uint64_t differing32(const uint8_t *a, const uint8_t *b) {
    return sign_bits(_mm256_cmpeq_epi8(load256(a), b ? load256(b) : _mm256_setzero_si256())) ^ 0xffffffff;
}

AVX2 static void avx2_differences(uint8_t *bits, const uint8_t *a, const uint8_t *b, uint64_t length) {
    uint64_t i = 0;
    for (; length - i >= 64; i += 64)
        store64(bits + i / 8, differing32(a + i, b ? b + i : b) | differing32(a + i + 32, b ? b + i + 32 : b) << 32);
    words_differences(bits + i / 8, a + i, b ? b + i : b, length - i);
}

AVX2 static void avx2_equalities(uint8_t *result, const uint8_t *a, const uint8_t *b, uint64_t length) {
    const __m256i one = _mm256_set1_epi8(1);
    uint64_t i = 0;
    for (; length - i >= 64; i += 64) {
        store256(result + i, _mm256_and_si256(equal32(a + i, b + i), one));
        store256(result + i + 32, _mm256_and_si256(equal32(a + i + 32, b + i + 32), one));
    }
    words_equalities(result + i, a + i, b + i, length - i);
}

/* Most ranges are equal for long: 128 bytes are one look then. */
AVX2 static uint64_t avx2_count_differences(const uint8_t *a, const uint8_t *b, uint64_t length) {
    uint64_t sum = 0;
    uint64_t i = 0;
    for (; length - i >= 128; i += 128) {
        __m256i first = equal32(a + i, b + i), second = equal32(a + i + 32, b + i + 32);
        __m256i third = equal32(a + i + 64, b + i + 64), fourth = equal32(a + i + 96, b + i + 96);
        __m256i all = _mm256_and_si256(_mm256_and_si256(first, second), _mm256_and_si256(third, fourth));
        if (sign_bits(all) == 0xffffffff)
            continue;
        uint64_t equal = (uint64_t)__builtin_popcountll(sign_bits(first) | sign_bits(second) << 32);
        equal += (uint64_t)__builtin_popcountll(sign_bits(third) | sign_bits(fourth) << 32);
        sum += 128 - equal;
    }
    return sum + words_count_differences(a + i, b + i, length - i);
}

/* From here on the C library's memset gains: it goes around the caches for sizes that they cannot hold. */
#define ZERO_BY_LIBRARY (256u * 1024)

/* Whole blocks between two addresses; returns where the last one ends. What is fetched is as far from its address as from theirs.
 * */
AVX2 static uint8_t *avx2_zero_blocks(uint8_t *at, const uint8_t *end, const uint8_t *fetched) {
    const __m256i nothing = _mm256_setzero_si256();
    for (; end - at >= 128; at += 128, fetched += 128) {
        __builtin_prefetch(fetched, 1);
        __builtin_prefetch(fetched + 64, 1);
        store256(at, nothing);
        store256(at + 32, nothing);
        store256(at + 64, nothing);
        store256(at + 96, nothing);
        /* Keeps the compiler from making the loop a call of memset, which is slower here. */
        __asm__ volatile("" ::: "memory");
    }
    return at;
}

/* Fetches half the length ahead, and so the beginning of what comes next: processors by themselves begin anew with each system
 * page. */
AVX2 static void avx2_zero(void *bytes, uint64_t length, const void *next) {
    if (length < 32 || length > ZERO_BY_LIBRARY) {
        memset(bytes, 0, length);
        return;
    }
    const __m256i nothing = _mm256_setzero_si256();
    uint8_t *at = bytes;
    uint8_t *last = at + length - 32;
    at = avx2_zero_blocks(at, at + length / 2, at + length / 2);
    at = avx2_zero_blocks(at, last, next ? next : bytes);
    for (; at < last; at += 32) {
        store256(at, nothing);
        __asm__ volatile("" ::: "memory");
    }
    store256(last, nothing);
}

void mmsb__bytes_use_avx2(mmsb__bytes_table_t *table) {
    fill_places();
    table->name = "avx2";
    table->blend_bytes = avx2_blend_bytes;
    table->blend_bits = avx2_blend_bits;
    table->expand_bits = avx2_expand_bits;
    table->scatter64 = avx2_scatter64;
    table->scatter32 = avx2_scatter32;
    table->run_length64 = avx2_run_length64;
    table->run_length32 = avx2_run_length32;
    table->maximum64 = avx2_maximum64;
    table->maximum32 = avx2_maximum32;
    table->count_bits = avx2_count_bits;
    table->count_nonzero = avx2_count_nonzero;
    table->next_difference = avx2_next_difference;
    table->next_agreement = avx2_next_agreement;
    table->differences = avx2_differences;
    table->equalities = avx2_equalities;
    table->count_differences = avx2_count_differences;
    table->zero = avx2_zero;
}

#endif
