/*
 * propagate.h — copies the bytes that the change masks of dependencies have into a page, as one delta of it.
 *
 * All pages are locked together: a command sees its dependencies at one moment, and the page changes once. Where they are free
 * and nobody watches, the bytes are copied from page to page; else they become a delta of runs first, which goes through the
 * protocol of change (change.h) like any other.
 */
#ifndef MMSB_NATIVE_PROPAGATE_H
#define MMSB_NATIVE_PROPAGATE_H

#include "delta.h"

#pragma GCC visibility push(hidden)

/* How. */
#define MMSB__FROM_PARENTS 1u /* from all parents of the page, so that there is no cycle */
#define MMSB__PERSISTENT 2u   /* on a device by a kernel that stays there, where the bytes are few */

/* Propagates to pages[0] from the count pages behind it. *bad is which of them is no live page, where one is not; else it is
 * above count. Errors: as the public header says of failures. */
mmsb_status_t mmsb__propagate(const uint64_t *pages, size_t count, unsigned how, uint32_t owner, size_t *bad);
/* The same of two pages, which may have edges between them. */
mmsb_status_t mmsb__page_propagate(uint64_t page, uint64_t from);
/* The same from the parents that the page has now. */
mmsb_status_t mmsb__propagate_parents(uint64_t page, unsigned how, uint32_t owner);

/* What commands that come soon read and write is fetched in three steps, each of which needs what the one before has fetched. It
 * is only a guess: no lock is taken, and any address can be fetched from. */

/* The dependencies that are fetched: of most commands all. */
static inline size_t mmsb__propagate_fetched(size_t count) {
    return count < 6 ? count : 6;
}

static inline void mmsb__propagate_fetch_records(const uint64_t *pages, size_t count) {
    for (size_t i = 0; i <= mmsb__propagate_fetched(count); i++)
        __builtin_prefetch(mmsb__record_of(pages[i]), 1);
}

static inline const uint8_t *mmsb__propagate_mask(const mmsb__record_t *record) {
    return mmsb__locator_address(__atomic_load_n(&record->mask_locator, __ATOMIC_RELAXED));
}

static inline void mmsb__propagate_fetch_masks(const uint64_t *pages, size_t count) {
    const mmsb__record_t *to = mmsb__record_of(pages[0]);
    __builtin_prefetch(mmsb__record_bytes(to), 1);
    __builtin_prefetch(mmsb__propagate_mask(to), 1);
    for (size_t i = 1; i <= mmsb__propagate_fetched(count); i++) {
        const mmsb__record_t *from = mmsb__record_of(pages[i]);
        const uint64_t masks = mmsb__mask_length(__atomic_load_n(&from->size, __ATOMIC_RELAXED));
        __builtin_prefetch(mmsb__record_bytes(from));
        for (uint64_t at = 0; at < masks && at < 512; at += 64)
            __builtin_prefetch(mmsb__propagate_mask(from) + at);
    }
}

void mmsb__propagate_fetch_far(const uint64_t *pages, size_t count);
/* Of pages whose bytes are more than what the step before has fetched. */
static inline void mmsb__propagate_fetch_bytes(const uint64_t *pages, size_t count) {
    if (__atomic_load_n(&mmsb__record_of(pages[0])->size, __ATOMIC_RELAXED) > 64)
        mmsb__propagate_fetch_far(pages, count);
}

#pragma GCC visibility pop
#endif
