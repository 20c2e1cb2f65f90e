/* Two pages beside each other, checksums, propagation: compare.h. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "delta.h"

/* Locks one page, or two different ones, with their bytes in host memory. */
static mmsb_status_t lock_pages(mmsb__batch_t *batch, const mmsb_page_t *pages, size_t count) {
    *batch = (mmsb__batch_t){.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count};
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

static const uint8_t *bytes_of(uint64_t page) {
    return mmsb__record_bytes(mmsb__record_of(page));
}

mmsb_status_t mmsb__page_compare(uint64_t a, uint64_t b, mmsb_difference_t *difference) {
    const mmsb_page_t pages[2] = {a, b};
    mmsb__batch_t batch;
    mmsb_status_t status = lock_alike(&batch, pages);
    if (status != MMSB_OK)
        return status;
    uint64_t size = mmsb__record_of(a)->size, first = mmsb__bytes.next_difference(bytes_of(a), bytes_of(b), 0, size);
    difference->first = first < size ? first : UINT64_MAX;
    difference->count = mmsb__bytes.count_differences(bytes_of(a) + first, bytes_of(b) + first, size - first);
    mmsb__batch_unlock(&batch);
    return MMSB_OK;
}

mmsb_status_t mmsb__page_differences(uint64_t a, uint64_t b, void *bits, uint64_t length) {
    const mmsb_page_t pages[2] = {a, b};
    mmsb__batch_t batch;
    mmsb_status_t status = lock_alike(&batch, pages);
    if (status != MMSB_OK)
        return status;
    uint64_t size = mmsb__record_of(a)->size;
    if (length == size)
        mmsb__bytes.differences(bits, bytes_of(a), bytes_of(b), size);
    mmsb__batch_unlock(&batch);
    if (length == size)
        return MMSB_OK;
    return mmsb__fail(MMSB_E_MISMATCH, "length is %llu, but the pages have %llu bytes", (unsigned long long)length,
                      (unsigned long long)size);
}

mmsb_status_t mmsb__page_checksum(uint64_t page, uint64_t offset, uint64_t length, uint32_t *sum) {
    mmsb__batch_t batch;
    mmsb_status_t status = lock_pages(&batch, &page, 1);
    if (status != MMSB_OK)
        return status;
    uint64_t size = mmsb__record_of(page)->size;
    if (mmsb__page_within(offset, length, size))
        *sum = mmsb__bytes.crc32c(0, bytes_of(page) + offset, length);
    else
        status = mmsb__page_range_fail(page, offset, length, size);
    mmsb__batch_unlock(&batch);
    return status;
}

/* A copy of a page's bytes and, behind them, of its change mask, at one moment; *copy is NULL where no bit is set. */
static mmsb_status_t copy_marked(uint64_t page, uint8_t **copy, uint64_t *size) {
    mmsb__batch_t batch;
    *copy = NULL;
    mmsb_status_t status = lock_pages(&batch, &page, 1);
    if (status != MMSB_OK)
        return status;
    const mmsb__record_t *record = mmsb__record_of(page);
    *size = record->size;
    const uint8_t *mask = record->mask_frame == 0 ? NULL : mmsb__locator_address(record->mask_locator);
    if (mask && mmsb__bytes.count_bits(mask, *size) != 0) {
        *copy = malloc(*size + mmsb__mask_length(*size));
        if (*copy) {
            memcpy(*copy, mmsb__record_bytes(record), *size);
            memcpy(*copy + *size, mask, mmsb__mask_length(*size));
        } else {
            status = mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a copy of %llu bytes", (unsigned long long)*size);
        }
    }
    mmsb__batch_unlock(&batch);
    return status;
}

/* A page that is resized before its delta comes gets what fits, or the delta's error. */
static mmsb_status_t check_size(uint64_t page, uint64_t from, uint64_t size) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    uint64_t own = record->size;
    mmsb__page_unlock_record(record, state);
    if (own == size)
        return MMSB_OK;
    return mmsb__fail(MMSB_E_MISMATCH, "page 0x%016llx has %llu bytes, page 0x%016llx has %llu", (unsigned long long)page,
                      (unsigned long long)own, (unsigned long long)from, (unsigned long long)size);
}

mmsb_status_t mmsb__page_propagate(uint64_t page, uint64_t from) {
    uint8_t *copy;
    uint64_t size;
    mmsb_status_t status = copy_marked(from, &copy, &size);
    if (status != MMSB_OK)
        return status;
    if (page == from)
        status = mmsb__fail(MMSB_E_INVALID_ARGUMENT, "page 0x%016llx would be propagated into itself", (unsigned long long)page);
    else
        status = check_size(page, from, size);
    if (status == MMSB_OK && copy) {
        mmsb_delta_t delta = {
            .struct_size = sizeof delta,
            .kind = MMSB_DELTA_DENSE_BITS,
            .mask = copy + size,
            .mask_length = size,
            .payload = copy,
        };
        status = mmsb__page_apply(page, &delta);
    }
    free(copy);
    return status;
}

/* Products of polynomials modulo that of the checksum, whose lowest power is in the highest bit. */
static uint32_t product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (; a != 0; a <<= 1) {
        if (a >> 31)
            sum ^= b;
        b = b & 1 ? b >> 1 ^ UINT32_C(0x82f63b78) : b >> 1;
    }
    return sum;
}

uint32_t mmsb__checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
    /* The first part's checksum goes over the second part's bytes: times x to the power of 8 for each. */
    for (uint32_t power = UINT32_C(1) << 23; second_bytes != 0; second_bytes >>= 1, power = product(power, power))
        if (second_bytes & 1)
            first = product(power, first);
    return first ^ second;
}
