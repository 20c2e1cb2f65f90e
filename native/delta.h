/*
 * delta.h — deltas: which are valid, and applying one to a page; the steps of it are for delta_batch.c and redo.c, too. Forms
 * that make deltas are in core/delta.
 */
#ifndef MMSB_NATIVE_DELTA_H
#define MMSB_NATIVE_DELTA_H

#include <string.h>

#include "bytes.h"
#include "lock.h"
#include "mask.h"

#pragma GCC visibility push(hidden)

mmsb_status_t mmsb__page_apply(uint64_t page, const mmsb_delta_t *delta);

/* ------------------------------------------------------------------------------------------------------ checks ---- */

/* Whether a delta may be applied to a page of this size; else the code, with the last error set. */
mmsb_status_t mmsb__delta_check(const mmsb_delta_t *delta, uint64_t page_size);

mmsb_status_t mmsb__delta_null_fail(const char *what, uint64_t count);
/* Of an array that cannot be in memory. */
mmsb_status_t mmsb__delta_count_fail(uint64_t count, size_t size) __attribute__((cold));
mmsb_status_t mmsb__delta_check_payload(const mmsb_delta_t *delta, uint64_t needed);
mmsb_status_t mmsb__delta_run_fail(uint64_t offset, uint64_t length, uint64_t page_size) __attribute__((cold));
mmsb_status_t mmsb__delta_epoch_fail(uint64_t page, uint64_t wanted, uint64_t epoch) __attribute__((cold));

/* Everything of a delta for a locked page but the epoch, which an earlier delta of a batch may move. Makes the change mask. */
mmsb_status_t mmsb__delta_check_page(uint64_t page, const mmsb_delta_t *delta, mmsb__record_t *record, uint64_t state);

static inline int mmsb__misaligned(const void *pointer, size_t alignment) {
    return ((uintptr_t)pointer & (alignment - 1)) != 0;
}

static inline mmsb_status_t mmsb__delta_check_run(uint64_t offset, uint64_t length, uint64_t page_size) {
    if (MMSB__LIKELY(mmsb__page_within(offset, length, page_size)))
        return MMSB_OK;
    return mmsb__delta_run_fail(offset, length, page_size);
}

/* wanted 0: the next one. */
static inline mmsb_status_t mmsb__delta_check_epoch(uint64_t page, uint64_t wanted, uint64_t epoch) {
    if (MMSB__LIKELY(wanted == 0 ? epoch != UINT64_MAX : wanted > epoch))
        return MMSB_OK;
    return mmsb__delta_epoch_fail(page, wanted, epoch);
}

/* ----------------------------------------------------------------------------------------------------- changes ---- */

static inline uint64_t mmsb__epoch_after(const mmsb__record_t *record, uint64_t wanted) {
    return wanted != 0 ? wanted : record->epoch + 1;
}

static inline void mmsb__epoch_move(mmsb__record_t *record, uint64_t wanted) {
    __atomic_store_n(&record->epoch, mmsb__epoch_after(record, wanted), __ATOMIC_RELAXED);
    mmsb__version_move(record);
}

/* Makes a valid delta's change to a locked page that has a change mask, and whose bytes are at an address: those that the delta
 * addresses. */
void mmsb__delta_change_at(mmsb__record_t *record, uint8_t *bytes, const mmsb_delta_t *delta);
static inline void mmsb__delta_change(mmsb__record_t *record, const mmsb_delta_t *delta) {
    mmsb__delta_change_at(record, mmsb__record_bytes(record), delta);
}
/* The same for a page on disk, where the delta fits into a window: what it addresses, *length bytes from *first on, is read,
 * changed and written. */
int mmsb__delta_fits_window(const mmsb_delta_t *delta, uint64_t *first, uint64_t *length);
mmsb_status_t mmsb__delta_change_on_disk(mmsb__record_t *record, const mmsb_delta_t *delta);
/* Marks in the page's change mask what a valid delta addresses, where a device makes the change. */
void mmsb__delta_mark(mmsb__record_t *record, const mmsb_delta_t *delta);
/* Applies a valid delta to a page whose change has begun: keeps, journals and changes. As mmsb__change_keep, and the errors of
 * devices and disks. */
struct mmsb__change;
mmsb_status_t mmsb__delta_apply(struct mmsb__change *change, const mmsb_delta_t *delta);
/* Before a valid delta changes a locked page. As mmsb__preimage_keep_slow. */
mmsb_status_t mmsb__delta_keep(mmsb__record_t *record, uint64_t state, const mmsb_delta_t *delta);

/* ----------------------------------------------------------------------------------- one run, planned and changed ---- */

/* Where a run goes: what pass one of a batch finds out, so that pass two only copies. Small, so that a batch of thousands stays
 * in the nearest cache. */
typedef struct mmsb__target {
    mmsb__record_t *record;
    uint64_t state;    /* of the record when this is done: unlocked by the last delta of its page */
    uint8_t *bytes;    /* NULL = not one run */
    uint64_t *changed; /* the word of the change mask that the run begins in */
} mmsb__target_t;

static inline mmsb__target_t mmsb__target_of(mmsb__record_t *record, uint64_t state, uint64_t offset) {
    mmsb__target_t target = {record, state, mmsb__record_bytes(record) + offset,
                             (uint64_t *)(void *)mmsb__locator_address(record->mask_locator) + (offset >> 6)};
    return target;
}

static inline void mmsb__target_prefetch(const mmsb__target_t *target) {
    __builtin_prefetch(target->bytes, 1);
    __builtin_prefetch(target->bytes + 63, 1);
    __builtin_prefetch(target->changed, 1);
    __builtin_prefetch(target->changed + 1, 1);
}

/* Does what was planned. Inlined: a call for each item of a batch costs a tenth of it. */
static inline __attribute__((always_inline)) void mmsb__target_change(const mmsb__target_t *target, uint64_t bit, uint64_t length,
                                                                      const uint8_t *payload, uint64_t epoch) {
    mmsb__record_t *record = target->record;
    if (MMSB__LIKELY(length == 64)) { /* a number that the compiler knows */
        memcpy(target->bytes, payload, 64);
        mmsb__bits_set_64(target->changed, bit);
    } else if (length > 0) {
        memcpy(target->bytes, payload, length);
        mmsb__bits_set_range((uint8_t *)target->changed, bit, length);
    }
    if (MMSB__UNLIKELY(!mmsb__exposed(record)) && length > 0) {
        uint64_t offset = (uint64_t)(target->bytes - mmsb__record_bytes(record));
        mmsb__dirty_range(record, offset, offset + length - 1);
    }
    mmsb__epoch_move(record, epoch);
}

#pragma GCC visibility pop
#endif
