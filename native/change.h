/*
 * change.h — the protocol of change: what every call that changes a page does, in this order.
 *
 *     begin      lock the page; make its bytes resident, or leave them on disk, or on a device if nobody needs their old value
 *     check      the call's own conditions: from here on only the steps below can fail
 *     keep       the pre-image of what changes, if the page is being captured or the thread has a group open; MMSB__AGAIN:
 *                unlock and begin again
 *     journal    put the record of the change, if the context has a journal
 *     change     the bytes, and the page's version
 *     end        unlock; wait for the journal if its durability is "each call"
 *
 * One page: mmsb__change_t. Many pages, all or none: mmsb__changes_t, which has the same steps over a batch of locks. Everything
 * that changes bytes, size, epoch or change mask of a live page, or ends it, calls these: access.c, mask.c, delta*.c, life.c.
 */
#ifndef MMSB_NATIVE_CHANGE_H
#define MMSB_NATIVE_CHANGE_H

#include "group.h"
#include "guard.h"
#include "lock.h"
#include "preimage.h"
#include "watch.h"

#pragma GCC visibility push(hidden)

/* Ends a call whose pages are unlocked: waits for the journal if its durability is "each call", and combines both results. */
static inline mmsb_status_t mmsb__journal_settle(mmsb__ring_t *ring, uint64_t sequence, mmsb_status_t status) {
    if (MMSB__LIKELY(sequence == 0))
        return status;
    mmsb_status_t waited = mmsb__ring_wait(ring, sequence);
    return status != MMSB_OK ? status : waited;
}

/* --------------------------------------------------------------------------------------------------- one page ---- */

/* A change of one page, from the lock to the unlock. */
typedef struct mmsb__change {
    mmsb__record_t *record;
    uint64_t state;     /* the record's state after the unlock */
    int bytes;          /* 1: the call needs the bytes */
    int on_device;      /* 1: they stay on their device: where somebody watches, mmsb__change_prepare comes first */
    int on_disk;        /* 1: they stay on disk */
    mmsb__ring_t *ring; /* takes the record of the change; NULL = no journal */
    uint64_t sequence;
} mmsb__change_t;

/* Locks a page whose bytes change. Nothing here and below takes the address of *change, so that it stays in registers. */
static inline mmsb_status_t mmsb__change_begin(mmsb__change_t *change, uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock_bytes(page, &record, &state);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    *change = (mmsb__change_t){.record = record,
                               .state = state,
                               .bytes = 1,
                               .on_device = mmsb__on_device(state),
                               .on_disk = mmsb__on_disk(record, state)};
    return MMSB_OK;
}

/* Call before the pre-image of a page on a device is kept and its change is journaled, which then cannot fail: it is made there,
 * or, where on_device is 0 after the call, at the page's address. */
mmsb_status_t mmsb__change_prepare(mmsb__change_t *change, const mmsb_delta_t *delta);

/* Locks a page that changes as a whole: its residency does not change. refused: see mmsb__page_lock_slow. */
static inline mmsb_status_t mmsb__change_begin_page(mmsb__change_t *change, uint64_t page, uint64_t refused) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock_unless(page, refused, &record, &state);
    if (MMSB__LIKELY(status == MMSB_OK))
        *change = (mmsb__change_t){.record = record, .state = state};
    return status;
}

/* Call before bytes from offset on change, or with them the epoch, the mask or the metadata. MMSB_OK, or as
 * mmsb__preimage_keep_slow. */
static inline mmsb_status_t mmsb__change_keep(const mmsb__change_t *change, uint64_t offset, uint64_t length) {
    return mmsb__preimage_keep(change->record, change->state, offset, length);
}

/* Call before the page changes as a whole and goes on: a report of the guard is told instead. */
static inline mmsb_status_t mmsb__change_tell(const mmsb__change_t *change) {
    return mmsb__guard_tell(mmsb__record_context(mmsb__record_index(change->record)));
}

/* Call before the page changes as a whole. */
static inline mmsb_status_t mmsb__change_keep_page(const mmsb__change_t *change) {
    return mmsb__preimage_keep_page(change->record, change->state);
}

mmsb_status_t mmsb__change_journal_slow(mmsb__change_t *change, mmsb__journal_kind_t kind, const mmsb__piece_t *pieces,
                                        size_t count);
/* Puts the record of the change, with the version that the page has after it: the next one, unless it ends. The last step that
 * can fail. */
static inline mmsb_status_t mmsb__change_journal(mmsb__change_t *change, mmsb__journal_kind_t kind, const mmsb__piece_t *pieces,
                                                 size_t count) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED) == 0))
        return MMSB_OK;
    mmsb__change_t told = *change;
    mmsb_status_t status = mmsb__change_journal_slow(&told, kind, pieces, count);
    change->ring = told.ring;
    change->sequence = told.sequence;
    return status;
}

mmsb_status_t mmsb__change_journal_delta_slow(mmsb__change_t *change, uint64_t epoch, const mmsb_delta_t *delta);
/* The same for a delta, with the epoch that the page has after it. */
static inline mmsb_status_t mmsb__change_journal_delta(mmsb__change_t *change, uint64_t epoch, const mmsb_delta_t *delta) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED) == 0))
        return MMSB_OK;
    mmsb__change_t told = *change;
    mmsb_status_t status = mmsb__change_journal_delta_slow(&told, epoch, delta);
    change->ring = told.ring;
    change->sequence = told.sequence;
    return status;
}

/* Call after Go has worked on the locked page, which may have changed its state. */
static inline mmsb_status_t mmsb__change_state(mmsb__change_t *change, mmsb_status_t status) {
    change->state = mmsb__state_held(change->record) & ~MMSB__OWNER_MASK;
    return status;
}

/* Call after the page is unlocked, or has ended. */
static inline mmsb_status_t mmsb__change_settle(const mmsb__change_t *change, mmsb_status_t status) {
    if (MMSB__LIKELY(status != MMSB__AGAIN))
        return mmsb__journal_settle(change->ring, change->sequence, status);
    mmsb__capture_wait(mmsb__record_index(change->record));
    return status;
}

/* Whether a call begins again that has ended so: a save needed the page as it was, or the disk was full, and there is space now.
 * Other calls than writes and deltas of one page begin again at the door, which costs those half a nanosecond. */
int mmsb__change_again(mmsb_status_t status, uint64_t page);

/* Unlocks the page, whether the change was made or not. */
static inline mmsb_status_t mmsb__change_end(mmsb__change_t *change, mmsb_status_t status) {
    if (change->bytes)
        mmsb__page_unlock(change->record, change->state);
    else
        mmsb__page_unlock_record(change->record, change->state);
    return mmsb__change_settle(change, status);
}

/* -------------------------------------------------------------------------------------------------- many pages ---- */

/* Keeps the pre-image of item i, whose page is locked. As mmsb__preimage_keep_slow; MMSB__AGAIN: unlock all, wait, begin
 * again. */
typedef mmsb_status_t (*mmsb__batch_keep_t)(const void *work, size_t i, mmsb__record_t *record, uint64_t state);

/* The steps that a kind of batch does in its own way or not at all. */
typedef struct mmsb__changes_kind {
    /* A last check, with the items locked up to the bad one, if there is one; sets *bad. It may replace the batch's handles by a
     * copy. Needs a batch with keeps set. NULL: none. */
    mmsb_status_t (*check_all)(void *work, mmsb__batch_t *batch, mmsb_status_t status, size_t *bad);
    mmsb__batch_keep_t keep; /* NULL: the pages change as a whole */
    /* The space of the items' records in the journal; both are 0 at first. */
    void (*measure)(const void *work, size_t count, uint64_t *bytes, uint64_t *records);
    /* Does an unlocked batch that has pages on devices, which stay there. MMSB__ENTER_GO, nothing done: a capture, freeze or
     * journal. */
    mmsb_status_t (*on_devices)(void *work, size_t count, size_t *bad);
} mmsb__changes_kind_t;

typedef struct mmsb__changes {
    mmsb__batch_t batch;
    mmsb__ring_t *ring; /* NULL: no journal; else the group is open for the items' records */
    mmsb__group_t group;
} mmsb__changes_t;

/* Keeps the pre-images of a locked batch; keep NULL: the pages change as a whole. Unless it returns MMSB_OK the batch is
 * unlocked: MMSB__AGAIN: it begins again; else *bad is the item that failed. */
mmsb_status_t mmsb__batch_keep(const mmsb__batch_t *batch, mmsb__batch_keep_t keep, const void *work, size_t *bad);
/* Opens the group of a locked batch whose pages have a journal. On failure the batch is unlocked. Errors: MMSB_E_UNSUPPORTED (the
 * pages are of several contexts, and one of these has a journal), the journal's. */
mmsb_status_t mmsb__changes_journal_slow(mmsb__changes_t *changes, const mmsb__changes_kind_t *kind, const void *work);

/* Locks and checks a batch, keeps pre-images, opens the journal's group: all steps that can fail. On MMSB_OK the caller changes
 * the first batch.count items; 0 if the batch was done on devices. Inline, so that each kind of batch has its check within the
 * loop. */
static inline __attribute__((always_inline)) mmsb_status_t mmsb__changes_begin(mmsb__changes_t *changes, mmsb__batch_t batch,
                                                                               mmsb__batch_check_t check,
                                                                               const mmsb__changes_kind_t *kind, void *work,
                                                                               size_t *bad_index) {
    for (;;) {
        size_t bad = 0;
        changes->batch = batch;
        changes->ring = NULL;
        mmsb_status_t status = mmsb__batch_lock(&changes->batch, check, work, &bad);
        const int on_devices = status == MMSB__ENTER_GO;
        if (kind->check_all && MMSB__LIKELY(!on_devices))
            status = kind->check_all(work, &changes->batch, status, &bad);
        if (MMSB__UNLIKELY(status != MMSB_OK) && batch.keeps)
            mmsb__batch_unlock(&changes->batch);
        if (MMSB__UNLIKELY(on_devices)) {
            status = kind->on_devices(work, batch.count, &bad);
            if (status == MMSB__ENTER_GO)
                continue;
            changes->batch.count = 0;
        }
        if (MMSB__UNLIKELY(status != MMSB_OK) && bad_index)
            *bad_index = bad;
        if (MMSB__UNLIKELY(status != MMSB_OK || on_devices))
            return status;
        status = mmsb__batch_keep(&changes->batch, kind->keep, work, bad_index);
        if (MMSB__LIKELY(status == MMSB_OK))
            break;
        if (status != MMSB__AGAIN)
            return status;
    }
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED) == 0))
        return MMSB_OK;
    return mmsb__changes_journal_slow(changes, kind, work);
}

/* Call after the pages are unlocked, or have ended. */
static inline mmsb_status_t mmsb__changes_settle(const mmsb__changes_t *changes, mmsb_status_t status) {
    return MMSB__LIKELY(!changes->ring) ? status : mmsb__journal_settle(changes->ring, changes->group.last, status);
}

/* All changes are made, and their records put. */
static inline mmsb_status_t mmsb__changes_end(mmsb__changes_t *changes) {
    mmsb_status_t status = MMSB__LIKELY(!changes->ring) ? MMSB_OK : mmsb__ring_end(&changes->group);
    mmsb__batch_unlock(&changes->batch);
    return mmsb__changes_settle(changes, status);
}

/* Locks many different pages that Go changes as a whole, as mmsb__record_lock_library does one, and keeps their pre-images. */
mmsb_status_t mmsb__pages_lock_library(const mmsb_page_t *pages, size_t count, size_t *bad_index);
/* Puts the records of resizes of such pages, as one group, and lets the pages change from versions of the thread's groups: the
 * last step that can fail. Pages that have the size already have no record. *ring is NULL where there is no journal; else
 * *sequence is what to wait for. */
mmsb_status_t mmsb__pages_journal_resize(const mmsb_page_t *pages, const uint64_t *sizes, size_t count, mmsb__ring_t **ring,
                                         uint64_t *sequence);

/* Deltas of a batch with pages on devices, which stay there. Devices come first: if one fails, no page of the host has changed.
 * Then change is called for each item. MMSB__ENTER_GO, nothing done: a capture, freeze or journal. */
mmsb_status_t mmsb__changes_on_devices(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count,
                                       mmsb__batch_check_t check, const mmsb__changes_kind_t *kind,
                                       void (*change)(void *work, size_t i, mmsb__record_t *record, int on_device), void *work,
                                       size_t *bad);

#pragma GCC visibility pop
#endif
