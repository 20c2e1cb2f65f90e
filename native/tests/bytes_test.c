/*
 * bytes_test.c — the byte loops of every table of this build against references that take one byte at a time.
 *
 * Every buffer lies in memory with inaccessible pages on both sides, often right against one of them, so that a loop that
 * reads outside its inputs dies; what a loop may write is compared together with its surroundings, so that a loop that writes
 * outside is seen. Planted bugs prove at the end that the checks can fail.
 */
#include "../bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------- counting ---- */

/* A test is what one table does of one operation, however many comparisons look at it. */
typedef struct test {
    const char *table, *what;
    int failed;
} test_t;

static test_t tests[256];
static int test_count, tests_failed;
static uint64_t comparisons;
static int bug_planted; /* the first failure ends the process: the bug is caught */

static test_t *test_of(const char *what) {
    for (int i = 0; i < test_count; i++)
        if (tests[i].what == what && tests[i].table == mmsb__bytes.name)
            return &tests[i];
    if (test_count == (int)(sizeof tests / sizeof *tests)) {
        fprintf(stderr, "more than %d tests\n", test_count);
        exit(2);
    }
    tests[test_count] = (test_t){mmsb__bytes.name, what, 0};
    return &tests[test_count++];
}

static void check(int correct, const char *what, uint64_t length) {
    test_t *test = test_of(what);
    comparisons++;
    if (correct)
        return;
    if (bug_planted)
        _exit(1);
    if (test->failed++ == 0) {
        tests_failed++;
        printf("FAILED: table %s: %s, length %llu\n", test->table, what, (unsigned long long)length);
    }
}

static uint64_t random_state;

static uint64_t random_word(void) {
    random_state += 0x9e3779b97f4a7c15ULL;
    uint64_t word = random_state;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ word >> 27) * 0x94d049bb133111ebULL;
    return word ^ word >> 31;
}

static uint64_t below(uint64_t limit) {
    return random_word() % limit;
}

/* -------------------------------------------------------------------------------------------- fenced buffers ---- */

#define ROOM (1u << 19)
#define SURROUNDINGS 128
#define LARGEST (ROOM - 2 * SURROUNDINGS - 64)

typedef struct buffer {
    uint8_t *room; /* ROOM bytes between two inaccessible pages */
    uint8_t *at;   /* the buffer within */
    uint64_t length;
    uint8_t *expected; /* what the buffer with its surroundings must hold after the loop; at[i] is expected[SURROUNDINGS + i] */
} buffer_t;

static buffer_t page, mask, payload, changed;

static void make_room(buffer_t *buffer) {
    uint64_t fence = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t *all = mmap(NULL, ROOM + 2 * fence, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + fence, ROOM, PROT_READ | PROT_WRITE) != 0) {
        perror("mmap");
        exit(2);
    }
    buffer->room = all + fence;
    for (uint64_t i = 0; i < ROOM; i++)
        buffer->room[i] = (uint8_t)random_word();
    buffer->expected = malloc(ROOM + 2 * SURROUNDINGS);
    if (buffer->expected == NULL)
        exit(2);
}

typedef enum place { AT_START, AT_END, INSIDE } place_t;

static void put(buffer_t *buffer, uint64_t length, place_t place, uint64_t alignment) {
    buffer->length = length;
    if (place == AT_START)
        buffer->at = buffer->room;
    else if (place == AT_END)
        buffer->at = buffer->room + ROOM - length;
    else
        buffer->at = buffer->room + SURROUNDINGS + alignment % 64;
}

static void fill(buffer_t *buffer) {
    for (uint64_t i = 0; i < buffer->length; i += 8) {
        uint64_t word = random_word();
        memcpy(buffer->at + i, &word, buffer->length - i < 8 ? buffer->length - i : 8);
    }
}

/* The accessible part of the buffer with its surroundings. */
static uint64_t window(const buffer_t *buffer, uint64_t *before) {
    uint64_t ahead = (uint64_t)(buffer->at - buffer->room);
    uint64_t behind = ROOM - ahead - buffer->length;
    *before = ahead < SURROUNDINGS ? ahead : SURROUNDINGS;
    return *before + buffer->length + (behind < SURROUNDINGS ? behind : SURROUNDINGS);
}

static uint8_t *remember(buffer_t *buffer) {
    uint64_t before;
    uint64_t size = window(buffer, &before);
    memcpy(buffer->expected + SURROUNDINGS - before, buffer->at - before, size);
    return buffer->expected + SURROUNDINGS;
}

static int as_expected(const buffer_t *buffer) {
    uint64_t before;
    uint64_t size = window(buffer, &before);
    return memcmp(buffer->expected + SURROUNDINGS - before, buffer->at - before, size) == 0;
}

static int bit(const uint8_t *bits, uint64_t i) {
    return bits[i / 8] >> i % 8 & 1;
}

static void set_bit(uint8_t *bits, uint64_t i) {
    bits[i / 8] = (uint8_t)(bits[i / 8] | 1 << i % 8);
}

/* ---------------------------------------------------------------------------------------------------- blends ---- */

typedef enum pattern { NOTHING, EVERYTHING, MIXED, SHORT_RUNS, LONG_RUNS, PATTERNS } pattern_t;

/* Which bytes are addressed: one byte per byte, 0 or 1. */
static uint8_t addressed[ROOM];

static void address(uint64_t length, pattern_t pattern) {
    uint64_t run = 0;
    uint8_t now = 0;
    for (uint64_t i = 0; i < length; i++) {
        if (pattern == NOTHING || pattern == EVERYTHING) {
            now = pattern == EVERYTHING;
        } else if (pattern == MIXED) {
            now = (uint8_t)below(2);
        } else if (run == 0) {
            now = !now;
            run = 1 + below(pattern == SHORT_RUNS ? 7 : 127);
        }
        addressed[i] = now;
        if (run > 0)
            run--;
    }
}

/* The same bytes addressed through the three loops. */
static void test_blends(uint64_t length, pattern_t pattern, place_t place, uint64_t alignment) {
    address(length, pattern);
    uint64_t taken = 0;
    for (uint64_t i = 0; i < length; i++)
        taken += addressed[i];

    put(&page, length, place, alignment);
    put(&changed, (length + 7) / 8, place, random_word());
    for (int loop = 0; loop < 3; loop++) {
        put(&payload, loop == 2 ? taken : length, place, random_word());
        put(&mask, loop == 0 ? length : (length + 7) / 8, place, random_word());
        fill(&page);
        fill(&payload);
        fill(&changed);
        fill(&mask); /* random bits behind the last one of a bit mask, random values for "not 0" */
        for (uint64_t i = 0; i < length; i++) {
            if (loop == 0)
                mask.at[i] = addressed[i] ? (uint8_t)(mask.at[i] | 1 << below(8)) : 0;
            else
                mask.at[i / 8] = (uint8_t)((mask.at[i / 8] & ~(1 << i % 8)) | addressed[i] << i % 8);
        }

        uint8_t *page_after = remember(&page);
        uint8_t *changed_after = remember(&changed);
        uint64_t next = 0;
        for (uint64_t i = 0; i < length; i++) {
            if (!addressed[i])
                continue;
            page_after[i] = payload.at[loop == 2 ? next++ : i];
            set_bit(changed_after, i);
        }

        if (loop == 0) {
            mmsb__bytes.blend_bytes(page.at, mask.at, payload.at, length, changed.at);
            check(as_expected(&page), "blend_bytes, page", length);
            check(as_expected(&changed), "blend_bytes, change mask", length);
        } else if (loop == 1) {
            mmsb__bytes.blend_bits(page.at, mask.at, payload.at, length, changed.at);
            check(as_expected(&page), "blend_bits, page", length);
            check(as_expected(&changed), "blend_bits, change mask", length);
        } else {
            mmsb__bytes.expand_bits(page.at, mask.at, payload.at, length, changed.at);
            check(as_expected(&page), "expand_bits, page", length);
            check(as_expected(&changed), "expand_bits, change mask", length);
        }
    }
}

/* -------------------------------------------------------------------------------------------------- scatter ---- */

/* Offsets that are a mixture of single ones and of runs up to longest_run, some of them repeated. */
static void test_scatter(uint64_t count, uint64_t page_length, uint64_t longest_run, place_t place) {
    static uint64_t offsets[ROOM / 8];
    for (uint64_t i = 0; i < count;) {
        uint64_t offset = below(page_length);
        for (uint64_t run = 1 + below(longest_run); run > 0 && i < count && offset < page_length; run--)
            offsets[i++] = offset++;
    }
    for (int wide = 0; wide < 2; wide++) {
        put(&page, page_length, place, random_word());
        put(&changed, (page_length + 7) / 8, place, random_word());
        put(&payload, count, place, random_word());
        put(&mask, count * (wide ? 8 : 4), place, below(8) * 8);
        fill(&page);
        fill(&payload);
        fill(&changed);
        uint8_t *page_after = remember(&page);
        uint8_t *changed_after = remember(&changed);
        for (uint64_t i = 0; i < count; i++) {
            page_after[offsets[i]] = payload.at[i];
            set_bit(changed_after, offsets[i]);
            uint32_t narrow = (uint32_t)offsets[i];
            if (wide)
                memcpy(mask.at + 8 * i, &offsets[i], 8);
            else
                memcpy(mask.at + 4 * i, &narrow, 4);
        }
        if (wide)
            mmsb__bytes.scatter64(page.at, (const uint64_t *)(const void *)mask.at, payload.at, count, changed.at);
        else
            mmsb__bytes.scatter32(page.at, (const uint32_t *)(const void *)mask.at, payload.at, count, changed.at);
        check(as_expected(&page), wide ? "scatter64, page" : "scatter32, page", count);
        check(as_expected(&changed), wide ? "scatter64, change mask" : "scatter32, change mask", count);
    }
}

/* Offsets that follow each other up to a gap, a repetition or the end. */
static void test_run_length(uint64_t count, place_t place) {
    uint64_t run = count == 0 ? 0 : 1 + below(count);
    uint64_t jump = below(2) == 0 ? 0 : 2 + below(100);

    put(&mask, count * 8, place, 8 * below(8));
    uint64_t *wide = (uint64_t *)(void *)mask.at;
    uint64_t first = random_word() >> 1 >> below(63);
    for (uint64_t i = 0; i < count; i++)
        wide[i] = first + i - (i >= run ? 1 : 0) + (i >= run ? jump : 0);
    check(mmsb__bytes.run_length64(wide, count) == run, "run_length64", count);

    put(&mask, count * 4, place, 4 * below(16));
    uint32_t *narrow = (uint32_t *)(void *)mask.at;
    first &= 0x7fffffff;
    for (uint64_t i = 0; i < count; i++)
        narrow[i] = (uint32_t)(first + i - (i >= run ? 1 : 0) + (i >= run ? jump : 0));
    check(mmsb__bytes.run_length32(narrow, count) == run, "run_length32", count);

    /* 32-bit offsets that begin again at 0 do not follow each other. */
    uint64_t to_the_end = count == 0 ? 0 : 1 + below(count);
    for (uint64_t i = 0; i < count; i++)
        narrow[i] = (uint32_t)(0x100000000 - to_the_end + i);
    check(mmsb__bytes.run_length32(narrow, count) == to_the_end, "run_length32 at the end of the range", count);
}

static void test_maximum(uint64_t count, place_t place) {
    put(&mask, count * 8, place, 8 * below(8));
    fill(&mask);
    uint64_t shift = below(64); /* maxima of all sizes, with and without the highest bit */
    uint64_t *wide = (uint64_t *)(void *)mask.at;
    uint64_t expected = 0;
    for (uint64_t i = 0; i < count; i++) {
        wide[i] >>= shift;
        expected = wide[i] > expected ? wide[i] : expected;
    }
    check(mmsb__bytes.maximum64(wide, count) == expected, "maximum64", count);

    put(&mask, count * 4, place, 4 * below(16));
    fill(&mask);
    uint32_t *narrow = (uint32_t *)(void *)mask.at;
    expected = 0;
    for (uint64_t i = 0; i < count; i++) {
        narrow[i] >>= shift % 32;
        expected = narrow[i] > expected ? narrow[i] : expected;
    }
    check(mmsb__bytes.maximum32(narrow, count) == expected, "maximum32", count);
}

/* ----------------------------------------------------------------------------------- counting and comparing ---- */

static void test_counts(uint64_t length, pattern_t pattern, place_t place, uint64_t alignment) {
    address(length, pattern);
    put(&mask, length, place, alignment);
    put(&payload, (length + 7) / 8, place, random_word());
    fill(&mask);
    fill(&payload);
    uint64_t expected = 0;
    for (uint64_t i = 0; i < length; i++) {
        mask.at[i] = addressed[i] ? (uint8_t)(1 << below(8)) : 0;
        payload.at[i / 8] = (uint8_t)((payload.at[i / 8] & ~(1 << i % 8)) | addressed[i] << i % 8);
        expected += addressed[i];
    }
    check(mmsb__bytes.count_nonzero(mask.at, length) == expected, "count_nonzero", length);
    check(mmsb__bytes.count_bits(payload.at, length) == expected, "count_bits", length);
}

static void test_comparisons(uint64_t length, place_t place, uint64_t alignment) {
    put(&page, length, place, alignment);
    put(&payload, length, place, random_word());
    fill(&page);
    uint64_t from = below(length + 1);
    uint64_t goal = from + below(length - from + 1);
    if (below(3) == 0)
        goal = length;

    /* Alike from "from" on but for the goal and some bytes behind it; before "from" anything. */
    for (uint64_t i = 0; i < length; i++) {
        int differs = i == goal || (i < from || i > goal ? below(2) == 0 : 0);
        payload.at[i] = differs ? (uint8_t)(page.at[i] ^ (1 << below(8))) : page.at[i];
    }
    check(mmsb__bytes.next_difference(page.at, payload.at, from, length) == goal, "next_difference", length);

    for (uint64_t i = 0; i < length; i++) {
        int agrees = i == goal || (i < from || i > goal ? below(2) == 0 : 0);
        payload.at[i] = agrees ? page.at[i] : (uint8_t)(page.at[i] ^ (1 << below(8)));
    }
    check(mmsb__bytes.next_agreement(page.at, payload.at, from, length) == goal, "next_agreement", length);
}

static void test_differences(uint64_t length, pattern_t pattern, place_t place, uint64_t alignment) {
    address(length, pattern);
    put(&page, length, place, alignment);
    put(&payload, length, place, random_word());
    put(&changed, (length + 7) / 8, place, random_word());
    for (int of_zeros = 0; of_zeros < 2; of_zeros++) {
        fill(&page);
        fill(&changed);
        uint8_t *after = remember(&changed);
        memset(after, 0, (length + 7) / 8);
        for (uint64_t i = 0; i < length; i++) {
            payload.at[i] = addressed[i] ? (uint8_t)(page.at[i] ^ 1 << below(8)) : page.at[i];
            if (of_zeros)
                page.at[i] = addressed[i] ? (uint8_t)(1 << below(8)) : 0;
            if (addressed[i])
                set_bit(after, i);
        }
        mmsb__bytes.differences(changed.at, page.at, of_zeros ? NULL : payload.at, length);
        check(as_expected(&changed), "differences", length);
    }
}

static void test_equalities(uint64_t length, pattern_t pattern, place_t place, uint64_t alignment) {
    address(length, pattern);
    put(&page, length, place, alignment);
    put(&payload, length, place, random_word());
    put(&changed, length, place, random_word());
    fill(&page);
    fill(&changed);
    uint8_t *after = remember(&changed);
    uint64_t count = 0;
    for (uint64_t i = 0; i < length; i++) {
        payload.at[i] = addressed[i] ? (uint8_t)(page.at[i] ^ 1 << below(8)) : page.at[i];
        after[i] = !addressed[i];
        count += addressed[i] != 0;
    }
    mmsb__bytes.equalities(changed.at, page.at, payload.at, length);
    check(as_expected(&changed), "equalities", length);
    check(mmsb__bytes.count_differences(page.at, payload.at, length) == count, "count_differences", length);
}

static void test_zero(uint64_t length, place_t place, uint64_t alignment) {
    put(&page, length, place, alignment);
    fill(&page);
    uint8_t *after = remember(&page);
    memset(after, 0, length);
    mmsb__bytes.zero(page.at, length, below(2) ? payload.at : NULL);
    check(as_expected(&page), "zero", length);
}

/* CRC-32C bit by bit: one more byte. */
static uint32_t checksum_of(uint32_t crc, uint8_t byte) {
    crc = ~crc ^ byte;
    for (int i = 0; i < 8; i++)
        crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82f63b78) : crc >> 1;
    return ~crc;
}

/* The buffer's beginnings and ends of every length (step 1), a beginning and the rest after it being the whole. */
static void test_checksum(place_t place, uint64_t alignment, uint64_t step) {
    enum { LENGTH = 5000 };
    static uint32_t expected[LENGTH + 1]; /* of so many bytes */
    put(&page, LENGTH, place, alignment);
    fill(&page);
    for (uint64_t length = 0; length < LENGTH; length++)
        expected[length + 1] = checksum_of(expected[length], page.at[length]);
    int beginnings = 1, ends = 1;
    for (uint64_t length = 0; length <= LENGTH; length += 1 + below(step)) {
        beginnings &= mmsb__bytes.crc32c(0, page.at, length) == expected[length];
        ends &= mmsb__bytes.crc32c(expected[length], page.at + length, LENGTH - length) == expected[LENGTH];
    }
    check(beginnings, "crc32c of a beginning", LENGTH);
    check(ends, "crc32c of what follows", LENGTH);
}

static void test_checksums(void) {
    static const uint8_t zeros[32];
    check(mmsb__bytes.crc32c(0, "123456789", 9) == 0xe3069283 && mmsb__bytes.crc32c(0, zeros, 32) == 0x8a9136aa,
          "crc32c of the standard's examples", 0);
    test_checksum(AT_START, 0, 1);
    test_checksum(AT_END, 0, 1);
    for (uint64_t alignment = 0; alignment < 64; alignment++)
        test_checksum(INSIDE, alignment, 100);
    put(&page, LARGEST, INSIDE, random_word());
    fill(&page);
    uint32_t expected = 0;
    for (uint64_t i = 0; i < LARGEST; i++)
        expected = checksum_of(expected, page.at[i]);
    check(mmsb__bytes.crc32c(0, page.at, LARGEST) == expected, "crc32c", LARGEST);
}

/* ----------------------------------------------------------------------------------------- loops without table ---- */

static void test_set_range(uint64_t first, uint64_t count, place_t place) {
    put(&changed, (first + count + 7) / 8, place, random_word());
    fill(&changed);
    uint8_t *after = remember(&changed);
    for (uint64_t i = 0; i < count; i++)
        set_bit(after, first + i);
    mmsb__bits_set_range(changed.at, first, count);
    check(as_expected(&changed), "bits_set_range", count);
}

static void test_set_64(uint64_t first, place_t place) {
    put(&changed, first == 0 ? 8 : 16, place, 8 * below(8));
    fill(&changed);
    uint8_t *after = remember(&changed);
    for (uint64_t i = 0; i < 64; i++)
        set_bit(after, first + i);
    mmsb__bits_set_64((uint64_t *)(void *)changed.at, first);
    check(as_expected(&changed), "bits_set_64", first);
}

static void test_extract(uint64_t first, uint64_t count, place_t place) {
    put(&mask, (first + count + 7) / 8, place, random_word());
    put(&page, (count + 7) / 8, place, random_word());
    fill(&mask);
    fill(&page);
    uint8_t *after = remember(&page);
    memset(after, 0, (count + 7) / 8);
    for (uint64_t i = 0; i < count; i++)
        if (bit(mask.at, first + i))
            set_bit(after, i);
    mmsb__bits_extract(page.at, mask.at, first, count);
    check(as_expected(&page), "bits_extract", count);
}

static void test_bit_ranges(void) {
    static const place_t places[] = {AT_START, AT_END, INSIDE};
    for (int place = 0; place < 3; place++) {
        for (uint64_t first = 0; first < 72; first++) {
            for (uint64_t count = 0; count <= 300; count++) {
                test_set_range(first, count, places[place]);
                test_extract(first, count, places[place]);
            }
        }
        for (uint64_t first = 0; first < 64; first++)
            test_set_64(first, places[place]);
        for (int i = 0; i < 20; i++) {
            test_set_range(below(100000), below(100000), places[place]);
            test_extract(below(100000), below(100000), places[place]);
        }
    }
}

static int valid_utf8(const void *text, uint64_t length) {
    put(&payload, length, AT_END, 0); /* a look beyond the end dies */
    memcpy(payload.at, text, length);
    return mmsb__utf8_valid((const char *)payload.at, length);
}

static uint64_t encode(uint32_t point, uint8_t *text) {
    if (point < 0x80) {
        text[0] = (uint8_t)point;
        return 1;
    }
    uint64_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (uint64_t i = length - 1; i > 0; i--, point >>= 6)
        text[i] = (uint8_t)(0x80 | (point & 0x3f));
    text[0] = (uint8_t)((0xf00 >> length & 0xff) | point);
    return length;
}

static void test_utf8(void) {
    uint8_t text[16];

    /* Every value of 21 bits in its own length: valid but for surrogates and for what lies beyond the last plane. */
    uint64_t wrong = 0;
    for (uint32_t point = 0; point < 0x200000; point++) {
        int scalar = point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
        uint64_t length = encode(point, text);
        wrong += (uint64_t)(valid_utf8(text, length) != scalar);
        if (point >= 0x80) /* cut off */
            wrong += (uint64_t)(valid_utf8(text, length - 1) != 0);
    }
    check(wrong == 0, "utf8, every code point", wrong);

    /* All texts of two bytes: two characters of one byte, or one of two. */
    uint64_t valid = 0;
    for (uint32_t bytes = 0; bytes < 1u << 16; bytes++) {
        memcpy(text, &bytes, 4);
        valid += (uint64_t)valid_utf8(text, 2);
    }
    check(valid == 128 * 128 + 1920, "utf8, all texts of two bytes", valid);

    /* Three bytes: the leads E0 and ED have 32 second bytes, the other 14 of E0 to EF have 64; 80 and BF may be the third. */
    static const uint8_t edges[] = {0x7f, 0x80, 0xbf, 0xc0};
    valid = 0;
    for (int lead = 0xe0; lead <= 0xef; lead++)
        for (int second = 0; second < 256; second++)
            for (int third = 0; third < 4; third++) {
                uint8_t three[3] = {(uint8_t)lead, (uint8_t)second, edges[third]};
                valid += (uint64_t)valid_utf8(three, 3);
            }
    check(valid == (2 * 32 + 14 * 64) * 2, "utf8, three bytes", valid);

    /* Four bytes: of the leads F0 to FF only F0 with 48, F1 to F3 with 64 each and F4 with 16 second bytes. */
    valid = 0;
    for (int lead = 0xf0; lead <= 0xff; lead++)
        for (int second = 0; second < 256; second++)
            for (int third = 0; third < 4; third++)
                for (int fourth = 0; fourth < 4; fourth++) {
                    uint8_t four[4] = {(uint8_t)lead, (uint8_t)second, edges[third], edges[fourth]};
                    valid += (uint64_t)valid_utf8(four, 4);
                }
    check(valid == (48 + 3 * 64 + 16) * 2 * 2, "utf8, four bytes", valid);

    check(valid_utf8("", 0), "utf8, empty", 0);
    check(valid_utf8("a\0b", 3), "utf8, a zero byte is a character", 3);
    check(valid_utf8("sixteen letters \xc3\xa9", 18), "utf8, behind plain text", 18);
    check(!valid_utf8("sixteen letters \xc3", 17), "utf8, cut off behind plain text", 17);
    check(!valid_utf8("\xc0\x80", 2), "utf8, overlong zero", 2);
    check(!valid_utf8("\xe0\x80\xaf", 3), "utf8, overlong slash", 3);
    check(!valid_utf8("\x80", 1), "utf8, continuation without lead", 1);
    for (uint64_t at = 0; at < 16; at++) {
        memset(text, 'a', sizeof text);
        text[at] = 0xff;
        check(!valid_utf8(text, sizeof text), "utf8, one bad byte in plain text", at);
    }
}

/* -------------------------------------------------------------------------------------------------- a table ---- */

static void test_length(uint64_t length, pattern_t pattern, place_t place, uint64_t alignment) {
    test_blends(length, pattern, place, alignment);
    test_counts(length, pattern, place, alignment);
    test_comparisons(length, place, alignment);
    test_differences(length, pattern, place, alignment);
    test_equalities(length, pattern, place, alignment);
    test_zero(length, place, alignment);
}

static void test_table(void) {
    static const place_t places[] = {AT_START, AT_END, INSIDE};
    for (uint64_t length = 0; length <= 300; length++) {
        for (int place = 0; place < 3; place++) {
            for (int pattern = 0; pattern < PATTERNS; pattern++)
                test_length(length, (pattern_t)pattern, places[place], random_word());
            test_scatter(length, 1 + below(2000), 1, places[place]);
            test_scatter(length, 1 + below(2000), 100, places[place]);
            test_scatter(length, 1 + below(10), 3, places[place]);
            test_run_length(length, places[place]);
            test_maximum(length, places[place]);
        }
    }
    static const uint64_t lengths[] = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257};
    for (uint64_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (uint64_t alignment = 0; alignment < 64; alignment++)
            test_length(lengths[i], MIXED, INSIDE, alignment);
    static const uint64_t large[] = {4095, 4096, 4097, 65536, 100003};
    for (uint64_t i = 0; i < sizeof large / sizeof *large; i++)
        for (int place = 0; place < 3; place++)
            test_length(large[i], (pattern_t)(MIXED + below(3)), places[place], random_word());
    static const uint64_t zeroed[] = {262143, 262144, 262145, LARGEST}; /* about where a library's memset takes over */
    for (int place = 0; place < 3; place++) {
        for (uint64_t i = 0; i < sizeof zeroed / sizeof *zeroed; i++)
            test_zero(zeroed[i], places[place], random_word());
        test_scatter(50000, LARGEST, 1, places[place]);
        test_scatter(50000, LARGEST, 300, places[place]);
    }
    test_checksums();
}

/* --------------------------------------------------------------------------------------------- planted bugs ---- */

static mmsb__bytes_table_t sound;

static void alters_a_byte_behind(uint8_t *at, const uint8_t *from, const uint8_t *bytes, uint64_t length, uint8_t *bits) {
    sound.blend_bytes(at, from, bytes, length, bits);
    at[length] ^= 1;
}

static void marks_the_unused_bits(uint8_t *at, const uint8_t *from, const uint8_t *bytes, uint64_t length, uint8_t *bits) {
    sound.blend_bits(at, from, bytes, length, bits);
    if (length % 8 != 0)
        bits[length / 8] = (uint8_t)(bits[length / 8] | 0xff << length % 8);
}

static void forgets_the_last_byte(uint8_t *at, const uint8_t *from, const uint8_t *bytes, uint64_t length, uint8_t *bits) {
    if (length != 0)
        sound.expand_bits(at, from, bytes, length - 1, bits);
}

static void takes_the_first_of_two(uint8_t *at, const uint64_t *offsets, const uint8_t *bytes, uint64_t count, uint8_t *bits) {
    for (uint64_t i = count; i > 0; i--)
        sound.scatter64(at, offsets + i - 1, bytes + i - 1, 1, bits);
}

static uint64_t compares_as_signed(const uint64_t *offsets, uint64_t count) {
    int64_t maximum = 0;
    for (uint64_t i = 0; i < count; i++)
        maximum = (int64_t)offsets[i] > maximum ? (int64_t)offsets[i] : maximum;
    return (uint64_t)maximum;
}

static uint64_t counts_the_unused_bits(const uint8_t *bits, uint64_t count) {
    return sound.count_bits(bits, (count + 7) / 8 * 8);
}

static uint64_t looks_behind_the_end(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t length) {
    uint64_t found = sound.next_difference(a, b, from, length);
    return *(const volatile uint8_t *)(a + length) == *(const volatile uint8_t *)(b + length) ? found : found;
}

static void says_it_is_alike_behind_the_end(uint8_t *result, const uint8_t *a, const uint8_t *b, uint64_t length) {
    sound.equalities(result, a, b, length);
    result[length] = 1;
}

static uint64_t counts_whole_vectors(const uint8_t *a, const uint8_t *b, uint64_t length) {
    return sound.count_differences(a, b, length / 128 * 128);
}

static void zeroes_a_byte_before(void *bytes, uint64_t length, const void *next) {
    sound.zero((uint8_t *)bytes - 1, length + 1, next);
}

/* As if a stretch that is joined were one byte shorter. */
static uint32_t skips_a_byte_of_many(uint32_t crc, const void *bytes, uint64_t length) {
    return sound.crc32c(crc, (const uint8_t *)bytes + (length >= 4032), length - (length >= 4032));
}

/* As if registers did not take the checksum before their bytes. */
static uint32_t begins_anew(uint32_t crc, const void *bytes, uint64_t length) {
    return sound.crc32c(length >= 512 ? 0 : crc, bytes, length);
}

typedef struct planted_bug {
    const char *name;
    void (*plant)(void);
} planted_bug_t;

static void plant_byte_behind(void) {
    mmsb__bytes.blend_bytes = alters_a_byte_behind;
}
static void plant_mask_tail(void) {
    mmsb__bytes.blend_bits = marks_the_unused_bits;
}
static void plant_last_byte(void) {
    mmsb__bytes.expand_bits = forgets_the_last_byte;
}
static void plant_order(void) {
    mmsb__bytes.scatter64 = takes_the_first_of_two;
}
static void plant_signed(void) {
    mmsb__bytes.maximum64 = compares_as_signed;
}
static void plant_unused_bits(void) {
    mmsb__bytes.count_bits = counts_the_unused_bits;
}
static void plant_look_behind(void) {
    mmsb__bytes.next_difference = looks_behind_the_end;
}
static void plant_alike_behind(void) {
    mmsb__bytes.equalities = says_it_is_alike_behind_the_end;
}
static void plant_whole_vectors(void) {
    mmsb__bytes.count_differences = counts_whole_vectors;
}
static void plant_byte_before(void) {
    mmsb__bytes.zero = zeroes_a_byte_before;
}

static void plant_stretch(void) {
    mmsb__bytes.crc32c = skips_a_byte_of_many;
}

static void plant_anew(void) {
    mmsb__bytes.crc32c = begins_anew;
}

/* Each bug runs in a child that must fail its checks or die on a fence. */
static void test_planted_bugs(void) {
    static const planted_bug_t bugs[] = {
        {"a byte behind the page is altered", plant_byte_behind}, {"mask bits behind the last are set", plant_mask_tail},
        {"the last byte is forgotten", plant_last_byte},          {"equal offsets: the first wins", plant_order},
        {"offsets are compared as signed numbers", plant_signed}, {"unused bits are counted", plant_unused_bits},
        {"a byte behind the end is read", plant_look_behind},     {"a byte before the block is zeroed", plant_byte_before},
        {"a stretch of a checksum is too short", plant_stretch},  {"a byte behind the end is alike", plant_alike_behind},
        {"a rest is not counted", plant_whole_vectors},           {"a checksum is not gone on with", plant_anew},
    };
    sound = mmsb__bytes;
    int caught = 0, count = (int)(sizeof bugs / sizeof *bugs);
    for (int i = 0; i < count; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            exit(2);
        }
        if (child == 0) {
            if (freopen("/dev/null", "w", stderr) == NULL) /* a sanitizer's report of the expected fault */
                _exit(2);
            bug_planted = 1;
            bugs[i].plant();
            test_table();
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        int found = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        check(found, bugs[i].name, 0);
        caught += found;
    }
    printf("planted bugs: caught %d of %d\n", caught, count);
}

/* ------------------------------------------------------------------------------------------------------ main ---- */

int main(int argument_count, char **arguments) {
    random_state = argument_count > 1 ? strtoull(arguments[1], NULL, 0) : 1;
    printf("seed: %llu\n", (unsigned long long)random_state);
    make_room(&page);
    make_room(&mask);
    make_room(&payload);
    make_room(&changed);

    static const char *const best_first[] = {"avx512", "avx2", "sse2", "neon", "portable"};
    const char *at_load = mmsb__bytes.name;
    int tables = 0;
    for (uint64_t i = 0; i < sizeof best_first / sizeof *best_first; i++) {
        if (mmsb__bytes_select(best_first[i]) != 0)
            continue;
        check(strcmp(mmsb__bytes.name, best_first[i]) == 0, "the table selected is the one named", 0);
        if (tables++ == 0)
            check(strcmp(at_load, best_first[i]) == 0, "the best table was chosen at load", 0);
        uint64_t before = comparisons;
        test_table();
        printf("table %s: %llu comparisons\n", mmsb__bytes.name, (unsigned long long)(comparisons - before));
    }
#if defined(__x86_64__) || defined(__aarch64__)
    check(tables >= 2, "this processor has a table besides the portable one", 0);
#endif
    check(mmsb__bytes_select("no such table") == -1, "an unknown table is refused", 0);
    test_bit_ranges();
    test_utf8();
    test_planted_bugs();
    printf("%d passed, %d failed\n", test_count - tests_failed, tests_failed);
    return tests_failed != 0;
}
