/* bytes.c — the choice of the table, and the loops that need no table. */
#include "bytes_words.h"

mmsb__bytes_table_t mmsb__bytes;

int mmsb__bytes_select(const char *name) {
    if (strcmp(name, "portable") == 0) {
        mmsb__bytes_use_portable(&mmsb__bytes);
        mmsb__checksum_use_portable(&mmsb__bytes);
        return 0;
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(name, "sse2") == 0) {
        mmsb__bytes_use_portable(&mmsb__bytes);
        mmsb__bytes_use_sse2(&mmsb__bytes);
        mmsb__checksum_use_portable(&mmsb__bytes);
        mmsb__checksum_use_instruction(&mmsb__bytes);
        return 0;
    }
    if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")) {
        mmsb__bytes_use_portable(&mmsb__bytes);
        mmsb__bytes_use_avx2(&mmsb__bytes);
        mmsb__checksum_use_portable(&mmsb__bytes);
        mmsb__checksum_use_instruction(&mmsb__bytes);
        return 0;
    }
#elif defined(__aarch64__)
    if (strcmp(name, "neon") == 0) {
        mmsb__bytes_use_portable(&mmsb__bytes);
        mmsb__bytes_use_neon(&mmsb__bytes);
        mmsb__checksum_use_portable(&mmsb__bytes);
        mmsb__checksum_use_instruction(&mmsb__bytes);
        return 0;
    }
#endif
    return -1;
}

/* Runs before constructors without a priority, among them the start of the Go runtime, so that nobody sees an empty table. */
__attribute__((constructor(101))) static void choose_table(void) {
    static const char *const best_first[] = {"avx2", "sse2", "neon", "portable"};
    for (size_t i = 0; i < sizeof best_first / sizeof *best_first; i++)
        if (mmsb__bytes_select(best_first[i]) == 0)
            return;
}

void mmsb__bits_extract(uint8_t *to, const uint8_t *from, uint64_t first, uint64_t count) {
    from += first / 8;
    uint64_t shift = first % 8;
    if (shift == 0) {
        if (count / 8 != 0)
            memcpy(to, from, count / 8);
        if (count % 8 != 0)
            to[count / 8] = (uint8_t)(from[count / 8] & low_bits(count % 8));
        return;
    }
    /* A word of the result spans nine bytes of the source. */
    for (; count >= 64; count -= 64, from += 8, to += 8)
        store64(to, load64(from) >> shift | (uint64_t)from[8] << (64 - shift));
    for (; count >= 8; count -= 8, from++, to++)
        *to = (uint8_t)(from[0] >> shift | from[1] << (8 - shift));
    if (count != 0) {
        uint64_t last = from[0] >> shift;
        if (shift + count > 8)
            last |= (uint64_t)from[1] << (8 - shift);
        *to = (uint8_t)(last & low_bits(count));
    }
}

/* Length of the well-formed sequence at the start of text, or 0. The second byte's range is what excludes overlong forms,
 * surrogates and values beyond U+10FFFF. */
static size_t utf8_sequence(const uint8_t *text, size_t length) {
    uint8_t lead = text[0];
    if (lead < 0x80)
        return 1;
    size_t size;
    uint8_t lowest = 0x80, highest = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        size = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        size = 3;
        if (lead == 0xe0)
            lowest = 0xa0;
        else if (lead == 0xed)
            highest = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        size = 4;
        if (lead == 0xf0)
            lowest = 0x90;
        else if (lead == 0xf4)
            highest = 0x8f;
    } else {
        return 0;
    }
    if (length < size || text[1] < lowest || text[1] > highest)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

int mmsb__utf8_valid(const char *text, size_t length) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t i = 0;
    while (i < length) {
        if (length - i >= 8 && (load64(bytes + i) & HIGH_BITS) == 0) {
            i += 8;
            continue;
        }
        size_t size = utf8_sequence(bytes + i, length - i);
        if (size == 0)
            return 0;
        i += size;
    }
    return 1;
}
