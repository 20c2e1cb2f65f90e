/* Takes a page's lock when it is not simply free, and the locks of batches: lock.h. */
#include "lock.h"

#include <sched.h>
#include <time.h>

#include "watch.h"

mmsb_status_t mmsb__page_fail(uint64_t page) {
    const mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = mmsb__state_load(record);
    uint32_t generation = MMSB__HANDLE_GENERATION(page), newest = MMSB__HANDLE_GENERATION(state);
    unsigned long long shown = page;
    if (page == 0)
        return mmsb__fail(MMSB_E_INVALID_HANDLE, "page handle is 0");
    if (MMSB__HANDLE_KIND(page) != MMSB_KIND_PAGE)
        return mmsb__fail(MMSB_E_INVALID_HANDLE, "0x%016llx is not a page: kind %u", shown, MMSB__HANDLE_KIND(page));
    uint32_t kind = MMSB__HANDLE_KIND(state);
    /* A live record of this very generation: the page was created, or its call ended, since the caller looked. */
    int given_out = generation != 0 &&
                    (generation < newest || (generation == newest && (kind == MMSB__STATE_ENDED || kind == MMSB__STATE_RETIRED ||
                                                                      kind == MMSB__STATE_LEAVING || kind == MMSB_KIND_PAGE)));
    if (given_out)
        return mmsb__fail(MMSB_E_STALE_HANDLE, "page 0x%016llx was destroyed", shown);
    return mmsb__fail(MMSB_E_INVALID_HANDLE, "0x%016llx is not a page: no page ever had this handle", shown);
}

mmsb_status_t mmsb__page_read_only_fail(uint64_t page) {
    return mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx was adopted as read-only", (unsigned long long)page);
}

mmsb_status_t mmsb__page_pinned_fail(uint64_t page, const mmsb__record_t *record) {
    return mmsb__fail(MMSB_E_BUSY, "page 0x%016llx is pinned: %u to read, %u to write", (unsigned long long)page,
                      record->read_pins, record->write_pins);
}

mmsb_status_t mmsb__page_moving_fail(uint64_t page) {
    return mmsb__fail(MMSB_E_BUSY, "page 0x%016llx is being moved by asynchronous work", (unsigned long long)page);
}

mmsb_status_t mmsb__page_range_fail(uint64_t page, uint64_t offset, uint64_t length, uint64_t size) {
    return mmsb__fail(MMSB_E_OUT_OF_RANGE, "offset %llu + length %llu exceeds page 0x%016llx, size %llu",
                      (unsigned long long)offset, (unsigned long long)length, (unsigned long long)page, (unsigned long long)size);
}

static void wait_a_little(uint32_t *round) {
    if (*round < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (*round < 96) {
        sched_yield();
    } else {
        struct timespec pause = {0, *round < 200 ? 20000 : 200000};
        nanosleep(&pause, NULL);
    }
    ++*round;
}

/* Only a signal's handler can meet a lock of its own thread. */
static mmsb_status_t interrupted_fail(uint64_t page) {
    return mmsb__fail(MMSB_E_INVALID_STATE,
                      "page 0x%016llx is locked by the call of this thread that a signal has interrupted; handlers must not call",
                      (unsigned long long)page);
}

mmsb_status_t mmsb__page_lock_slow(uint64_t page, uint32_t owner, uint64_t refused, mmsb__record_t **record, uint64_t *state) {
    mmsb__record_t *of = mmsb__record_of(page);
    uint64_t seen = mmsb__state_load(of);
    uint32_t round = 0;
    for (;;) {
        if (!mmsb__state_is(seen, page))
            return mmsb__page_fail(page);
        if (seen & refused)
            return mmsb__page_moving_fail(page);
        if (seen & MMSB__OWNER_MASK) {
            if ((uint32_t)(seen & MMSB__OWNER_MASK) == owner && owner != MMSB__OWNER_LIBRARY)
                return interrupted_fail(page);
            wait_a_little(&round);
            seen = mmsb__state_load(of);
        } else if (__atomic_compare_exchange_n(&of->state, &seen, seen | owner, 1, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            *record = of;
            *state = seen;
            return MMSB_OK;
        }
    }
}

mmsb_status_t mmsb__page_lock_library(uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    return mmsb__page_lock_slow(page, MMSB__OWNER_LIBRARY, 0, &record, &state);
}

mmsb_status_t mmsb__page_lock_library_unless_moving(uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    return mmsb__page_lock_slow(page, MMSB__OWNER_LIBRARY, MMSB__MOVING, &record, &state);
}

int mmsb__page_try_lock_library(uint64_t page) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t seen = mmsb__state_load(record);
    return mmsb__state_is(seen, page) && (seen & (MMSB__OWNER_MASK | MMSB__MOVING)) == 0 &&
           __atomic_compare_exchange_n(&record->state, &seen, seen | MMSB__OWNER_LIBRARY, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void mmsb__pages_try_lock_library(const uint64_t *pages, size_t count, uint8_t *locked) {
    for (size_t i = 0; i < count; i++)
        locked[i] = (uint8_t)mmsb__page_try_lock_library(pages[i]);
}

uint64_t mmsb__record_lock_library(uint32_t index) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint32_t round = 0;
    for (;;) {
        uint64_t seen = mmsb__state_load(record);
        if (!(seen & MMSB__OWNER_MASK) &&
            __atomic_compare_exchange_n(&record->state, &seen, seen | MMSB__OWNER_LIBRARY, 1, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
            return seen;
        wait_a_little(&round);
    }
}

int mmsb__record_lock_page(uint32_t index, uint64_t *state) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint32_t round = 0;
    for (;;) {
        uint64_t seen = mmsb__state_load(record);
        if (MMSB__HANDLE_KIND(seen) != MMSB_KIND_PAGE)
            return 0;
        if (!(seen & MMSB__OWNER_MASK) && __atomic_compare_exchange_n(&record->state, &seen, seen | MMSB__OWNER_LIBRARY, 1,
                                                                      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            *state = seen;
            return 1;
        }
        wait_a_little(&round);
    }
}

void mmsb__record_unlock(uint32_t index, uint64_t state) {
    mmsb__page_unlock(mmsb__record_at(index), state);
}

void mmsb__records_unlock_all(const uint32_t *indices, const uint64_t *states, size_t count) {
    for (size_t i = 0; i < count; i++)
        mmsb__record_unlock(indices[i], states[i]);
}

/* -------------------------------------------------------------------------------------------------- many pages ---- */

void mmsb__batch_unlock(const mmsb__batch_t *batch) {
    const int bytes_stay = batch->bytes_stay;
    for (size_t i = 0; i < batch->count; i++) {
        mmsb__record_t *record = mmsb__record_of(mmsb__handle_at(batch->first, batch->stride, i));
        uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
        if ((state & MMSB__OWNER_MASK) == batch->owner) /* else the page repeats and is unlocked by now */
            bytes_stay ? mmsb__page_unlock_record(record, state & ~MMSB__OWNER_MASK)
                       : mmsb__page_unlock(record, state & ~MMSB__OWNER_MASK);
    }
}

mmsb_status_t mmsb__batch_meet(const mmsb__batch_t *batch, uint64_t page, int patient, uint64_t *state) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint32_t round = 0;
    for (;;) {
        uint64_t seen = *state = mmsb__state_load(record);
        if (!mmsb__state_is(seen, page))
            return mmsb__page_fail(page);
        uint32_t owner = (uint32_t)(seen & MMSB__OWNER_MASK);
        if (owner == batch->owner)
            return batch->distinct
                       ? mmsb__fail(MMSB_E_STALE_HANDLE, "page 0x%016llx occurs twice in the batch", (unsigned long long)page)
                       : MMSB_OK;
        if (seen & batch->refused)
            return mmsb__page_moving_fail(page);
        if (owner != 0) {
            if (!patient)
                return MMSB_E_WOULD_BLOCK;
            wait_a_little(&round);
        } else if (__atomic_compare_exchange_n(&record->state, &seen, seen | batch->owner, 0, __ATOMIC_ACQUIRE,
                                               __ATOMIC_RELAXED)) {
            if (!(seen & MMSB__NONRESIDENT) || batch->bytes_stay || (batch->on_devices && mmsb__on_device(seen)) ||
                (batch->on_disk && mmsb__on_disk(record, seen)))
                return MMSB_OK;
            int divert = batch->diverts && mmsb__on_device(seen) && !mmsb__watched();
            mmsb_status_t status = divert ? MMSB__ENTER_GO : mmsb__page_make_resident(record, state);
            if (status != MMSB_OK)
                mmsb__page_unlock_record(record, seen);
            return status;
        }
    }
}

mmsb_status_t mmsb__batch_find_bad(mmsb__batch_t *batch, mmsb__batch_check_t check, void *work, int patient) {
    batch->repeats = 0;
    for (batch->bad = 0; batch->bad < batch->count; batch->bad++) {
        uint64_t page = mmsb__handle_at(batch->first, batch->stride, batch->bad), state;
        if (page == 0 && batch->distinct)
            continue;
        mmsb_status_t status = mmsb__batch_meet(batch, page, patient, &state);
        if (status == MMSB_OK) {
            batch->repeats |= (state & MMSB__OWNER_MASK) != 0;
            status = check ? check(work, batch->bad, mmsb__record_of(page), state) : MMSB_OK;
        }
        if (status != MMSB_OK)
            return status;
    }
    return MMSB_OK;
}

static pthread_mutex_t patience = PTHREAD_MUTEX_INITIALIZER;

int mmsb__batch_again(mmsb__patience_t *p) {
    if (p->round < 80) {
        wait_a_little(&p->round);
    } else {
        pthread_mutex_lock(&patience);
        p->patient = 1;
    }
    return p->patient;
}

void mmsb__batch_settled(mmsb__patience_t *p) {
    if (p->patient)
        pthread_mutex_unlock(&patience);
}

mmsb_status_t mmsb__pair_lock(const mmsb_page_t pages[2], size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = 2};
    return mmsb__batch_lock(&batch, NULL, NULL, bad_index);
}

void mmsb__pair_unlock(const mmsb_page_t pages[2]) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = 2, .owner = mmsb__self->owner};
    mmsb__batch_unlock(&batch);
}
