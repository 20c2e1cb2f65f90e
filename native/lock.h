/*
 * lock.h — the only way to take a page's lock and to give it back; and the failures that name a page.
 *
 * A page is locked by writing the thread's owner number into its state; while it is locked nobody else writes the record. Locks
 * are held for one call; a waiter spins, then sleeps.
 *
 * A caller that asked for the bytes (mmsb__page_lock_bytes, mmsb__page_make_resident, a batch without bytes_stay) unlocks with
 * mmsb__page_unlock, all others with mmsb__page_unlock_record. Beginning or ending a page unlocks it: mmsb__record_become.
 */
#ifndef MMSB_NATIVE_LOCK_H
#define MMSB_NATIVE_LOCK_H

#include "resident.h"
#include "thread.h"

#pragma GCC visibility push(hidden)

/* --------------------------------------------------------------------------------------------------- one page ---- */

/* Codes with the last error set: the handle is not that of a live page; the page may only be read; it is pinned; its bytes are
 * being moved; bytes reach past its end. */
mmsb_status_t mmsb__page_fail(uint64_t page) __attribute__((cold));
mmsb_status_t mmsb__page_read_only_fail(uint64_t page) __attribute__((cold));
mmsb_status_t mmsb__page_pinned_fail(uint64_t page, const mmsb__record_t *record) __attribute__((cold));
mmsb_status_t mmsb__page_moving_fail(uint64_t page) __attribute__((cold));
mmsb_status_t mmsb__page_range_fail(uint64_t page, uint64_t offset, uint64_t length, uint64_t size) __attribute__((cold));
/* Locks for the owner; waits for others, but for none whose state has a refused bit: MMSB__MOVING, or 0. For Go: lock now, unlock
 * from any thread. */
mmsb_status_t mmsb__page_lock_slow(uint64_t page, uint32_t owner, uint64_t refused, mmsb__record_t **record, uint64_t *state);
mmsb_status_t mmsb__page_lock_library(uint64_t page);
mmsb_status_t mmsb__page_lock_library_unless_moving(uint64_t page);
/* 1 if nobody works on the page, which is locked then. */
int mmsb__page_try_lock_library(uint64_t page);
void mmsb__pages_try_lock_library(const uint64_t *pages, size_t count, uint8_t *locked); /* many; which of them it has locked */
/* mmsb__page_lock_library by index, of a record that cannot become free meanwhile (live or ended). Returns its unlocked state. */
uint64_t mmsb__record_lock_library(uint32_t index);
/* Locks the page that lives on a record; 0 = there is none, or it ended meanwhile. Never locks a free record: the owner of its
 * handle begins a page there by a plain store. */
int mmsb__record_lock_page(uint32_t index, uint64_t *state);
void mmsb__record_unlock(uint32_t index, uint64_t state);
void mmsb__records_unlock_all(const uint32_t *indices, const uint64_t *states, size_t count);

/* 1 where length bytes at offset lie within size. */
static inline int mmsb__page_within(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
}

static inline mmsb_status_t mmsb__page_lock_unless(uint64_t page, uint64_t refused, mmsb__record_t **record, uint64_t *state) {
    mmsb__record_t *of = mmsb__record_of(page);
    uint64_t seen = __atomic_load_n(&of->state, __ATOMIC_RELAXED);
    if (MMSB__LIKELY(mmsb__self && mmsb__state_is_open(seen, page)) &&
        __atomic_compare_exchange_n(&of->state, &seen, seen | mmsb__self->owner, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        *record = of;
        *state = seen;
        return MMSB_OK;
    }
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    return mmsb__page_lock_slow(page, self->owner, refused, record, state);
}

static inline mmsb_status_t mmsb__page_lock(uint64_t page, mmsb__record_t **record, uint64_t *state) {
    return mmsb__page_lock_unless(page, 0, record, state);
}

/* Unlocks a page whose bytes the caller did not ask for. state has no owner. While a page is locked nobody else writes its state,
 * so a store is enough. */
static inline void mmsb__page_unlock_record(mmsb__record_t *record, uint64_t state) {
    MMSB__ASSERT((mmsb__state_held(record) & MMSB__OWNER_MASK) == MMSB__OWNER_LIBRARY ||
                     (mmsb__self && (mmsb__state_held(record) & MMSB__OWNER_MASK) == mmsb__self->owner),
                 mmsb__record_index(record), mmsb__state_held(record));
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
}

/* The same after the caller asked for the bytes: evicts those that were made resident for this call only. */
static inline void mmsb__page_unlock(mmsb__record_t *record, uint64_t state) {
    if (MMSB__UNLIKELY(!mmsb__addressed(state)) && record->locator != 0)
        mmsb__upcalls.evict(mmsb__record_index(record));
    mmsb__page_unlock_record(record, state);
}

/* Locks a page for a read and makes its bytes resident, unless they are on a device or on disk. */
static inline mmsb_status_t mmsb__page_lock_bytes(uint64_t page, mmsb__record_t **record, uint64_t *state) {
    mmsb_status_t status = mmsb__page_lock(page, record, state);
    if (MMSB__UNLIKELY(status == MMSB_OK && (*state & MMSB__NONRESIDENT) && !mmsb__on_device(*state) &&
                       !mmsb__on_disk(*record, *state))) {
        status = mmsb__page_make_resident(*record, state);
        if (status != MMSB_OK)
            mmsb__page_unlock_record(*record, *state);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------------- many pages ---- */

/* Pages of a batch: handles that stand stride bytes apart. */
typedef struct mmsb__batch {
    const uint8_t *first;
    size_t stride;
    size_t count;
    uint32_t bytes_stay; /* 1: pages that are not resident stay so */
    uint32_t distinct;   /* 1: handles 0 are skipped, and a repeated page is MMSB_E_STALE_HANDLE */
    uint32_t on_devices; /* 1: those on devices stay there, the others are made resident */
    uint32_t on_disk;    /* 1: those on disk stay there, the others are made resident */
    uint32_t diverts;    /* 1: without capture, freeze or journal a page on a device ends the locking: MMSB__ENTER_GO */
    uint32_t keeps;      /* 1: after a bad item the caller unlocks the batch */
    uint64_t refused;    /* MMSB__MOVING: a page whose bytes are being moved is MMSB_E_BUSY; 0: it is waited for */
    /* Filled by mmsb__batch_lock: */
    uint32_t owner;
    uint32_t repeats; /* 1: a page appears more than once; of a bad batch, among the items up to the bad one */
    uint32_t absent;  /* 1: some page was not resident */
    size_t bad;       /* the bad item */
} mmsb__batch_t;

static inline uint64_t mmsb__handle_at(const uint8_t *first, size_t stride, size_t i) {
    return *(const uint64_t *)(const void *)(first + i * stride);
}

/* Checks item i of a batch (NULL: nothing to check), whose page is locked and resident. state is the record's state after item i:
 * still locked if a later item has the page too. A check may add what callers cannot see, such as an empty change mask. */
typedef mmsb_status_t (*mmsb__batch_check_t)(void *work, size_t i, mmsb__record_t *record, uint64_t state);

/* How long a batch has tried. */
typedef struct mmsb__patience {
    uint32_t round;
    int patient;
} mmsb__patience_t;

/* Unlocks the pages of a batch that this thread has locked. */
void mmsb__batch_unlock(const mmsb__batch_t *batch);
/* Locks a page of a batch that is not simply free: MMSB_E_WOULD_BLOCK if another thread has it and the batch is not patient.
 * *state is the state before: locked if this thread had locked the page already. */
mmsb_status_t mmsb__batch_meet(const mmsb__batch_t *batch, uint64_t page, int patient, uint64_t *state);
/* Locks and checks the items of an unlocked batch from the first on, up to a bad one: batch->bad. */
mmsb_status_t mmsb__batch_find_bad(mmsb__batch_t *batch, mmsb__batch_check_t check, void *work, int patient);
/* Waits before the next try; after some tries the batch becomes patient. Only one batch of the process may be patient. */
int mmsb__batch_again(mmsb__patience_t *patience);
void mmsb__batch_settled(mmsb__patience_t *patience);

/* Locks all pages of a batch and checks all items: MMSB_OK with all locked, or the code of the first bad item, its index in
 * *bad_index, and none locked. Two batches never wait for each other: a batch that meets a lock while it holds others unlocks all
 * and tries again; after some tries it waits with its locks held, which only one batch of the process may do at a time. Inline,
 * so that each kind of batch has its check within the loop.
 *
 * From the last item to the first: the item that finds its page unlocked is then the last one that has it, and the caller,
 * which goes from the first to the last, can unlock each page with its last change. Only if an item is bad are items locked again
 * from the first on. */
static inline __attribute__((always_inline)) mmsb_status_t mmsb__batch_lock(mmsb__batch_t *batch, mmsb__batch_check_t check,
                                                                            void *work, size_t *bad_index) {
    /* Copies that no other function can change. */
    const uint8_t *const first = batch->first;
    const size_t stride = batch->stride, count = batch->count;
    const uint32_t distinct = batch->distinct;
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    const uint64_t owner = batch->owner = self->owner;
    mmsb__patience_t patience = {0, 0};
    mmsb_status_t status;
    for (;;) {
        uint64_t repeats = 0;
        status = MMSB_OK;
        for (size_t i = count; i-- > 0;) {
            if (MMSB__LIKELY(i >= 12))
                __builtin_prefetch(mmsb__record_of(mmsb__handle_at(first, stride, i - 12)), 1);
            uint64_t page = mmsb__handle_at(first, stride, i);
            if (MMSB__UNLIKELY(distinct && page == 0))
                continue;
            mmsb__record_t *record = mmsb__record_of(page);
            uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED), seen = state;
            /* A repeated page is locked once more, which changes nothing: the processor would often mispredict a branch. */
            const uint64_t had = distinct ? 0 : owner & -(uint64_t)((state & MMSB__OWNER_MASK) == owner);
            if (MMSB__UNLIKELY(
                    !mmsb__state_is_open(state ^ had, page) ||
                    !__atomic_compare_exchange_n(&record->state, &seen, state | owner, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
                uint64_t met;
                status = mmsb__batch_meet(batch, page, patience.patient, &met);
                if (MMSB__UNLIKELY(status != MMSB_OK))
                    break;
                state = met;
            }
            repeats |= state;
            if (check && MMSB__UNLIKELY((status = check(work, i, record, state)) != MMSB_OK))
                break;
        }
        batch->repeats = (repeats & MMSB__OWNER_MASK) != 0;
        batch->absent = (repeats & MMSB__NONRESIDENT) != 0;
        if (MMSB__LIKELY(status == MMSB_OK))
            break;
        mmsb__batch_unlock(batch);
        if (status != MMSB_E_WOULD_BLOCK)
            status = mmsb__batch_find_bad(batch, check, work, patience.patient);
        if (status != MMSB_OK && status != MMSB_E_WOULD_BLOCK) {
            if (!batch->keeps)
                mmsb__batch_unlock(batch);
            if (bad_index)
                *bad_index = batch->bad;
            break;
        }
        mmsb__batch_unlock(batch);
        if (status == MMSB_E_WOULD_BLOCK)
            mmsb__batch_again(&patience);
    }
    mmsb__batch_settled(&patience);
    return status;
}

/* Ends an item of a batch when nothing waits for the rest. state is what the batch's check received: still locked if a later item
 * has the page. */
static inline void mmsb__batch_leave(mmsb__record_t *record, uint64_t state) {
    if (MMSB__UNLIKELY(state & MMSB__NONRESIDENT) && (state & MMSB__OWNER_MASK) == 0)
        mmsb__page_unlock(record, state);
    else
        mmsb__page_unlock_record(record, state);
}

/* Two different pages, for Go; on one thread. */
mmsb_status_t mmsb__pair_lock(const mmsb_page_t pages[2], size_t *bad_index);
void mmsb__pair_unlock(const mmsb_page_t pages[2]);

#pragma GCC visibility pop
#endif
