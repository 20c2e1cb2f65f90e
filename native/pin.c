/* Pins, where they are not taken and given back in one inline step: pin.h. */
#include "pin.h"

#include "preimage.h"

/* Locks a page that is to be pinned, when no save holds the pin back any more. */
static mmsb_status_t lock_to_pin(uint64_t page, int32_t mode, mmsb__record_t **record, uint64_t *state) {
    for (;;) {
        mmsb_status_t status = mmsb__page_lock_bytes(page, record, state);
        if (MMSB__UNLIKELY(status != MMSB_OK) || mode != MMSB_PIN_WRITE || (*state & MMSB__READ_ONLY) ||
            MMSB__LIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) == 0) || !mmsb__writing_waits(*record, *state))
            return status;
        mmsb__page_unlock(*record, *state);
        mmsb__capture_wait(mmsb__record_index(*record));
    }
}

mmsb_status_t mmsb__page_pin(uint64_t page, int32_t mode, void **address) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = lock_to_pin(page, mode, &record, &state);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    void *on_device = NULL;
    if (MMSB__UNLIKELY(mmsb__on_disk(record, state)) && (status = mmsb__page_make_resident(record, &state)) != MMSB_OK) {
        mmsb__page_unlock_record(record, state);
        return status;
    }
    if (MMSB__UNLIKELY(mmsb__on_device(state)) && (status = mmsb__device_address(record, &state, &on_device)) != MMSB_OK) {
        mmsb__page_unlock(record, state);
        return status;
    }
    uint16_t *pins = mmsb__pins_of(record, mode);
    if (MMSB__UNLIKELY(mode == MMSB_PIN_WRITE && (state & MMSB__READ_ONLY))) {
        status = mmsb__page_read_only_fail(page);
    } else if (MMSB__UNLIKELY(*pins == UINT16_MAX)) {
        status = mmsb__fail(MMSB_E_LIMIT, "page 0x%016llx has %u pins of mode %d, the limit is %u", (unsigned long long)page,
                            *pins, mode, UINT16_MAX);
    } else {
        __atomic_store_n(pins, (uint16_t)(*pins + 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb__pin_note(record);
        if (address)
            *address = MMSB__UNLIKELY(on_device) ? on_device : mmsb__record_bytes(record);
    }
    mmsb__page_unlock(record, state);
    return status;
}

/* Ends a pin of a locked page. */
static mmsb_status_t end_pin(uint64_t page, mmsb__record_t *record, int32_t mode) {
    uint16_t *pins = mmsb__pins_of(record, mode);
    if (MMSB__UNLIKELY(*pins == 0))
        return mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx has no pin of mode %d", (unsigned long long)page, mode);
    __atomic_store_n(pins, (uint16_t)(*pins - 1), __ATOMIC_RELAXED);
    if (mode == MMSB_PIN_WRITE)
        mmsb__writing_forget(mmsb__record_context(mmsb__record_index(record)));
    return MMSB_OK;
}

/* A page whose context has ended keeps its pins. */
static mmsb_status_t unpin_ended(uint64_t page, int32_t mode) {
    uint32_t index = MMSB__HANDLE_INDEX(page);
    uint64_t ended = MMSB__STATE(MMSB__STATE_ENDED, MMSB__HANDLE_GENERATION(page), 0);
    mmsb__record_t *record = mmsb__record_of(page);
    if (MMSB__HANDLE_KIND(page) != MMSB_KIND_PAGE || (mmsb__state_load(record) ^ ended) >> MMSB__INDEX_BITS != 0)
        return mmsb__page_fail(page);
    uint64_t state = mmsb__record_lock_library(index);
    int ended_still = (state ^ ended) >> MMSB__INDEX_BITS == 0;
    mmsb_status_t status = ended_still ? end_pin(page, record, mode) : mmsb__page_fail(page);
    if (status == MMSB_OK && !mmsb__record_pinned(record))
        mmsb__upcalls.release_ended(index);
    else
        mmsb__page_unlock_record(record, state);
    return status;
}

mmsb_status_t mmsb__page_unpin(uint64_t page, int32_t mode) {
    mmsb__record_t *record;
    uint64_t state = mmsb__state_load(mmsb__record_of(page));
    if (MMSB__UNLIKELY(!mmsb__state_is(state, page)))
        return unpin_ended(page, mode);
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status == MMSB_E_STALE_HANDLE ? unpin_ended(page, mode) : status;
    status = end_pin(page, record, mode);
    if (status == MMSB_OK && mode == MMSB_PIN_WRITE)
        mmsb__version_move(record);
    mmsb__page_unlock(record, state);
    return status;
}
