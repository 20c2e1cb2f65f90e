/* Deltas: checked and applied by native code; made by core/delta. */
#include <string.h>

#include "door.h"

#include "_cgo_export.h"

void mmsb_delta_init(mmsb_delta_t *delta) {
    DOOR_INIT(delta);
}

mmsb_status_t mmsb_delta_validate(const mmsb_delta_t *delta, uint64_t page_size) {
    DOOR_ENTER();
    DOOR_POINTER(delta);
    return mmsb__delta_check(delta, page_size);
}

mmsb_status_t mmsb_page_apply(mmsb_page_t page, const mmsb_delta_t *delta) {
    DOOR_ENTER();
    DOOR_POINTER(delta);
    return mmsb__page_apply(page, delta);
}

mmsb_status_t mmsb_page_apply_many(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, count);
    DOOR_ARRAY(deltas, count);
    DOOR_OPTIONAL(bad_index);
    DOOR_CHANGE_OF(pages[0], mmsb__page_apply_many(pages, deltas, count, bad_index))
}

void mmsb_page_runs_init(mmsb_page_runs_t *runs) {
    DOOR_INIT(runs);
}

mmsb_status_t mmsb_page_apply_runs(const mmsb_page_runs_t *runs, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_page_runs_t", runs, runs->reserved_word);
    DOOR_OPTIONAL(bad_index);
    DOOR_CHANGE_OF(runs->pages[0], mmsb__page_apply_runs(runs, bad_index))
}

/* A delta on its own may be of any page. */
#define ANY_PAGE UINT64_MAX

mmsb_status_t mmsb_delta_merge(const mmsb_delta_t *first, const mmsb_delta_t *second, mmsb_delta_t **merged) {
    DOOR_ENTER();
    DOOR_POINTER(first);
    DOOR_POINTER(second);
    DOOR_POINTER(merged);
    DOOR_CHECK(mmsb__delta_check(first, ANY_PAGE));
    DOOR_CHECK(mmsb__delta_check(second, ANY_PAGE));
    return mmsbgo_delta_merge((mmsb_delta_t *)first, (mmsb_delta_t *)second, merged);
}

mmsb_status_t mmsb_page_compare(mmsb_page_t a, mmsb_page_t b, mmsb_difference_t *difference) {
    DOOR_ENTER();
    DOOR_POINTER(difference);
    return mmsb__page_compare(a, b, difference);
}

mmsb_status_t mmsb_page_differences(mmsb_page_t a, mmsb_page_t b, void *bits, uint64_t length) {
    DOOR_ENTER();
    DOOR_BUFFER(bits, length);
    return mmsb__page_differences(a, b, bits, length);
}

mmsb_status_t mmsb_page_checksum(mmsb_page_t page, uint64_t offset, uint64_t length, uint32_t *sum) {
    DOOR_ENTER();
    DOOR_POINTER(sum);
    return mmsb__page_checksum(page, offset, length, sum);
}

uint32_t mmsb_checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
    return mmsb__checksum_join(first, second, second_bytes);
}

mmsb_status_t mmsb_page_propagate(mmsb_page_t page, mmsb_page_t from) {
    DOOR_ENTER();
    DOOR_CHANGE_OF(page, mmsb__page_propagate(page, from))
}

mmsb_status_t mmsb_delta_from_pages(mmsb_page_t old_page, mmsb_page_t new_page, mmsb_delta_t **delta) {
    DOOR_ENTER();
    DOOR_POINTER(delta);
    return mmsbgo_delta_from_pages(old_page, new_page, delta);
}

mmsb_status_t mmsb_delta_convert(const mmsb_delta_t *delta, mmsb_delta_kind_t kind, mmsb_delta_t **converted) {
    DOOR_ENTER();
    DOOR_POINTER(delta);
    DOOR_POINTER(converted);
    if (kind < MMSB_DELTA_DENSE_BYTES || kind > MMSB_DELTA_RUNS)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "delta kind is %d, not %d to %d", kind, MMSB_DELTA_DENSE_BYTES,
                          MMSB_DELTA_RUNS);
    DOOR_CHECK(mmsb__delta_check(delta, ANY_PAGE));
    return mmsbgo_delta_convert((mmsb_delta_t *)delta, kind, converted);
}

mmsb_status_t mmsb_delta_free(mmsb_delta_t *delta) {
    DOOR_ENTER_TO_END();
    if (!delta)
        return MMSB_OK;
    return mmsbgo_delta_free(delta);
}
