/* bytes_portable.c — the byte loops for every processor, and those that have this form only. */
#include "bytes_words.h"

DEFINE_SCATTER(scatter64, uint64_t, words_run_length64)
DEFINE_SCATTER(scatter32, uint32_t, words_run_length32)

static void zero(void *bytes, uint64_t length, const void *next) {
    (void)next;
    memset(bytes, 0, length);
}

void mmsb__bytes_use_portable(mmsb__bytes_table_t *table) {
    *table = (mmsb__bytes_table_t){
        .name = "portable",
        .blend_bytes = words_blend_bytes,
        .blend_bits = words_blend_bits,
        .expand_bits = words_expand_bits,
        .scatter64 = scatter64,
        .scatter32 = scatter32,
        .run_length64 = words_run_length64,
        .run_length32 = words_run_length32,
        .maximum64 = words_maximum64,
        .maximum32 = words_maximum32,
        .count_bits = words_count_bits,
        .count_nonzero = words_count_nonzero,
        .next_difference = words_next_difference,
        .next_agreement = words_next_agreement,
        .differences = words_differences,
        .equalities = words_equalities,
        .count_differences = words_count_differences,
        .zero = zero,
    };
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
