/* Two pages beside each other, and checksums: compare.h. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

/* Locks one page, or two different ones, with their bytes in host memory or on devices. */
static mmsb_status_t lock_pages(mmsb__batch_t *batch, const mmsb_page_t *pages, size_t count) {
    *batch = (mmsb__batch_t){.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .on_devices = 1};
    return mmsb__batch_lock(batch, NULL, NULL, NULL);
}

/* Two pages of one size, locked; a page beside itself is locked once. */
static mmsb_status_t lock_alike(mmsb__batch_t *batch, const mmsb_page_t pages[2]) {
    mmsb_status_t status = lock_pages(batch, pages, pages[0] == pages[1] ? 1 : 2);
    if (status != MMSB_OK)
        return status;
    uint64_t size = mmsb__record_of(pages[0])->size, other = mmsb__record_of(pages[1])->size;
    if (size == other)
        return MMSB_OK;
    mmsb__batch_unlock(batch);
    return mmsb__fail(MMSB_E_MISMATCH, "page 0x%016llx has %llu bytes, page 0x%016llx has %llu", (unsigned long long)pages[0],
                      (unsigned long long)size, (unsigned long long)pages[1], (unsigned long long)other);
}

enum { PIECE = 1 << 20 }; /* what is read of a page on a device at a time; a multiple of 8 */

/* The bytes of a locked page, a piece at a time. */
typedef struct source {
    const mmsb__record_t *record;
    uint8_t *buffer; /* NULL: they have an address */
} source_t;

static inline int is_absent(const mmsb__record_t *record) {
    return mmsb__on_device(mmsb__state_held(record)) && record->locator == 0;
}

static mmsb_status_t source_open(source_t *source, uint64_t page) {
    const mmsb__record_t *record = mmsb__record_of(page);
    *source = (source_t){.record = record};
    if (!is_absent(record))
        return MMSB_OK;
    const uint64_t bytes = record->size < PIECE ? record->size : PIECE;
    source->buffer = malloc(bytes);
    return source->buffer ? MMSB_OK : mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
}

static mmsb_status_t source_read(const source_t *source, uint64_t offset, uint64_t length, const uint8_t **bytes) {
    if (!source->buffer) {
        *bytes = mmsb__record_bytes(source->record) + offset;
        return MMSB_OK;
    }
    *bytes = source->buffer;
    return mmsb__device_read(source->record, offset, source->buffer, length);
}

/* Compares two different locked pages of one size on the host: *difference, or where bits is not NULL these. */
static mmsb_status_t compare_here(const mmsb_page_t pages[2], mmsb_difference_t *difference, uint8_t *bits) {
    source_t a, b = {.buffer = NULL};
    const uint64_t size = mmsb__record_of(pages[0])->size;
    mmsb_difference_t found = {.first = UINT64_MAX};
    mmsb_status_t status = source_open(&a, pages[0]);
    if (status == MMSB_OK)
        status = source_open(&b, pages[1]);
    const uint64_t step = a.buffer || b.buffer ? PIECE : size;
    for (uint64_t at = 0; status == MMSB_OK && at < size; at += step) {
        const uint64_t length = size - at < step ? size - at : step;
        const uint8_t *in_a, *in_b;
        if ((status = source_read(&a, at, length, &in_a)) != MMSB_OK || (status = source_read(&b, at, length, &in_b)) != MMSB_OK)
            break;
        if (bits) {
            mmsb__bytes.differences(bits + at / 8, in_a, in_b, length);
            continue;
        }
        const uint64_t first = mmsb__bytes.next_difference(in_a, in_b, 0, length);
        if (first < length && found.first == UINT64_MAX)
            found.first = at + first;
        found.count += mmsb__bytes.count_differences(in_a + first, in_b + first, length - first);
    }
    if (status == MMSB_OK && difference)
        *difference = found;
    free(a.buffer);
    free(b.buffer);
    return status;
}

static mmsb_status_t compare_locked(const mmsb_page_t pages[2], mmsb_difference_t *difference, uint8_t *bits) {
    const mmsb__record_t *a = mmsb__record_of(pages[0]), *b = mmsb__record_of(pages[1]);
    if (a == b) {
        if (bits)
            memset(bits, 0, mmsb__mask_length(a->size));
        if (difference)
            *difference = (mmsb_difference_t){.first = UINT64_MAX};
        return MMSB_OK;
    }
    mmsb_status_t status = MMSB_E_UNSUPPORTED;
    if (is_absent(a) && is_absent(b))
        status = mmsb__upcalls.device_compare(mmsb__record_index(a), mmsb__record_index(b), difference, bits);
    return status == MMSB_E_UNSUPPORTED ? compare_here(pages, difference, bits) : status;
}

mmsb_status_t mmsb__page_compare(uint64_t a, uint64_t b, mmsb_difference_t *difference) {
    const mmsb_page_t pages[2] = {a, b};
    mmsb__batch_t batch;
    mmsb_status_t status = lock_alike(&batch, pages);
    if (status != MMSB_OK)
        return status;
    status = compare_locked(pages, difference, NULL);
    mmsb__batch_unlock(&batch);
    return status;
}

mmsb_status_t mmsb__page_differences(uint64_t a, uint64_t b, void *bits, uint64_t length) {
    const mmsb_page_t pages[2] = {a, b};
    mmsb__batch_t batch;
    mmsb_status_t status = lock_alike(&batch, pages);
    if (status != MMSB_OK)
        return status;
    const uint64_t size = mmsb__record_of(a)->size;
    if (length == size)
        status = compare_locked(pages, NULL, bits);
    mmsb__batch_unlock(&batch);
    if (length == size)
        return status;
    return mmsb__fail(MMSB_E_MISMATCH, "length is %llu, but the pages have %llu bytes", (unsigned long long)length,
                      (unsigned long long)size);
}

/* The checksum of bytes that a locked page has. */
static mmsb_status_t checksum_locked(uint64_t page, uint64_t offset, uint64_t length, uint32_t *sum) {
    const mmsb__record_t *record = mmsb__record_of(page);
    mmsb_status_t status = MMSB_E_UNSUPPORTED;
    if (length > 0 && is_absent(record))
        status = mmsb__upcalls.device_checksums(mmsb__record_index(record), offset, length, length, sum);
    if (status != MMSB_E_UNSUPPORTED)
        return status;
    source_t source;
    status = source_open(&source, page);
    const uint64_t step = source.buffer ? PIECE : length;
    uint32_t so_far = 0;
    for (uint64_t done = 0; status == MMSB_OK && done < length; done += step) {
        const uint64_t count = length - done < step ? length - done : step;
        const uint8_t *bytes;
        status = source_read(&source, offset + done, count, &bytes);
        if (status == MMSB_OK)
            so_far = mmsb__bytes.crc32c(so_far, bytes, count);
    }
    if (status == MMSB_OK)
        *sum = so_far;
    free(source.buffer);
    return status;
}

mmsb_status_t mmsb__page_checksum(uint64_t page, uint64_t offset, uint64_t length, uint32_t *sum) {
    mmsb__batch_t batch;
    mmsb_status_t status = lock_pages(&batch, &page, 1);
    if (status != MMSB_OK)
        return status;
    uint64_t size = mmsb__record_of(page)->size;
    if (mmsb__page_within(offset, length, size))
        status = checksum_locked(page, offset, length, sum);
    else
        status = mmsb__page_range_fail(page, offset, length, size);
    mmsb__batch_unlock(&batch);
    return status;
}

/* Polynomials modulo that of the checksum have their lowest power in the highest bit. What is multiplied has no pattern, so that
 * branches would be mispredicted half of the time. */
static uint32_t times_x(uint32_t a) {
    return a >> 1 ^ (-(a & 1) & UINT32_C(0x82f63b78));
}

static uint32_t product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (; a != 0; a <<= 1, b = times_x(b))
        sum ^= -(a >> 31) & b;
    return sum;
}

/* What goes over so many bytes: x to the power of 8 for each. */
static uint32_t power_of(uint64_t bytes) {
    uint32_t power = UINT32_C(1) << 31;
    for (uint32_t square = UINT32_C(1) << 23; bytes != 0; bytes >>= 1, square = product(square, square)) {
        if (bytes & 1)
            power = product(square, power);
    }
    return power;
}

uint32_t mmsb__checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
    return product(power_of(second_bytes), first) ^ second;
}

uint32_t mmsb__checksum_join_all(const uint32_t *sums, uint64_t count, uint64_t part, uint64_t last) {
    uint32_t multiples[32], sum = sums[0]; /* of what goes over a part, by each power of x */
    if (count == 1)
        return sum;
    multiples[0] = power_of(part);
    for (int power = 1; power < 32; power++)
        multiples[power] = times_x(multiples[power - 1]);
    const uint64_t whole = last == part ? count : count - 1;
    for (uint64_t i = 1; i < whole; i++) {
        uint32_t over = 0;
        for (int power = 0; power < 32; power++)
            over ^= -(sum >> (31 - power) & 1) & multiples[power];
        sum = over ^ sums[i];
    }
    return whole == count ? sum : mmsb__checksum_join(sum, sums[count - 1], last);
}
