/* Pins, where they are not taken and given back in one inline step: pin.h. */
#include "pin.h"

#include "guard.h"
#include "preimage.h"

uint32_t mmsb__copy_pins;

/* 1: a save holds the pin of a locked page back. */
static int must_wait(mmsb__record_t *record, uint64_t state, int32_t mode) {
    return mode == MMSB_PIN_WRITE && !(state & MMSB__READ_ONLY) &&
           MMSB__UNLIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) != 0) && mmsb__writing_waits(record, state);
}

/* Begins a pin of a locked page. apart: nobody gets its address. */
static mmsb_status_t begin_pin(uint64_t page, mmsb__record_t *record, uint64_t *state, int32_t mode, int apart, void **address) {
    uint16_t *pins = mmsb__pins_of(record, mode);
    void *on_device = NULL;
    const uint32_t context = mmsb__record_context(mmsb__record_index(record));
    mmsb_status_t status = mode == MMSB_PIN_WRITE ? mmsb__guard_tell(context) : MMSB_OK;
    if (status == MMSB_OK && mode == MMSB_PIN_WRITE)
        status = mmsb__ring_check_pin(context);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    if (MMSB__UNLIKELY(mode == MMSB_PIN_WRITE && (*state & MMSB__READ_ONLY)))
        return mmsb__page_read_only_fail(page);
    if (MMSB__UNLIKELY(*pins == UINT16_MAX))
        return mmsb__fail(MMSB_E_LIMIT, "page 0x%016llx has %u pins of mode %d, the limit is %u", (unsigned long long)page, *pins,
                          mode, UINT16_MAX);
    if (MMSB__UNLIKELY(mmsb__on_disk(record, *state)))
        status = mmsb__page_make_resident(record, state);
    else if (MMSB__UNLIKELY(mmsb__on_device(*state) && !apart))
        status = mmsb__device_address(record, state, &on_device);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    __atomic_store_n(pins, (uint16_t)(*pins + 1), __ATOMIC_RELAXED);
    if (mode == MMSB_PIN_WRITE)
        mmsb__pin_note(record);
    if (address)
        *address = MMSB__UNLIKELY(on_device) ? on_device : mmsb__record_bytes(record);
    return MMSB_OK;
}

static mmsb_status_t pin(uint64_t page, int32_t mode, int apart, void **address) {
    mmsb__record_t *record;
    uint64_t state;
    for (;;) {
        /* Work on a device that is to use the page needs no bytes on the host, and is not to wait for them. */
        const int stays = apart && mmsb__has_block(mmsb__state_load(mmsb__record_of(page)));
        mmsb_status_t status = stays ? mmsb__page_lock(page, &record, &state) : mmsb__page_lock_bytes(page, &record, &state);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        if (!must_wait(record, state, mode))
            break;
        mmsb__page_unlock(record, state);
        mmsb__capture_wait(mmsb__record_index(record));
    }
    mmsb_status_t status = begin_pin(page, record, &state, mode, apart, address);
    mmsb__page_unlock(record, state);
    return status;
}

mmsb_status_t mmsb__page_pin(uint64_t page, int32_t mode, void **address) {
    return pin(page, mode, 0, address);
}

mmsb_status_t mmsb__page_pin_apart(uint64_t page, int32_t mode) {
    return pin(page, mode, 1, NULL);
}

static mmsb_status_t no_pin_fail(uint64_t page, int32_t mode) {
    return mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx has no pin of mode %d", (unsigned long long)page, mode);
}

/* Fails where a locked page has no such pin, or only those of its copy on the host. */
static mmsb_status_t check_pin(uint64_t page, const mmsb__record_t *record, uint64_t state, int32_t mode) {
    const uint32_t pins = mode == MMSB_PIN_WRITE ? record->write_pins : record->read_pins;
    if (MMSB__UNLIKELY(pins != 0 && mmsb__on_device(state) && __atomic_load_n(&mmsb__copy_pins, __ATOMIC_RELAXED) != 0) &&
        mmsb__upcalls.copy_pins(mmsb__record_index(record), mode) >= pins)
        return no_pin_fail(page, mode);
    return pins != 0 ? MMSB_OK : no_pin_fail(page, mode);
}

/* Ends a pin of a locked page. */
static mmsb_status_t end_pin(uint64_t page, mmsb__record_t *record, int32_t mode) {
    uint16_t *pins = mmsb__pins_of(record, mode);
    if (MMSB__UNLIKELY(*pins == 0))
        return no_pin_fail(page, mode);
    __atomic_store_n(pins, (uint16_t)(*pins - 1), __ATOMIC_RELAXED);
    if (mode == MMSB_PIN_WRITE)
        mmsb__writing_forget(mmsb__record_pinned_in(mmsb__record_index(record)));
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
    status = check_pin(page, record, state, mode);
    if (status == MMSB_OK)
        status = end_pin(page, record, mode);
    if (status == MMSB_OK && mode == MMSB_PIN_WRITE)
        mmsb__version_move(record);
    mmsb__page_unlock(record, state);
    return status;
}

/* A pinned page's record stays its own. */
int mmsb__page_try_unpin(uint64_t page, int32_t mode) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = mmsb__state_load(record);
    if ((state & MMSB__OWNER_MASK) ||
        !__atomic_compare_exchange_n(&record->state, &state, state | MMSB__OWNER_LIBRARY, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0;
    const int lives = mmsb__state_is(state, page);
    (void)end_pin(page, record, mode);
    if (!lives && !mmsb__record_pinned(record)) {
        mmsb__upcalls.release_ended(mmsb__record_index(record));
        return 1;
    }
    if (lives && mode == MMSB_PIN_WRITE)
        mmsb__version_move(record);
    mmsb__page_unlock(record, state);
    return 1;
}

/* -------------------------------------------------------------------------------------------------- many pages ---- */

/* Takes back pins that a batch has begun: all of its pages are locked. */
static void end_pins(const mmsb_page_t *pages, size_t count, int32_t mode) {
    for (size_t i = 0; i < count; i++)
        (void)end_pin(pages[i], mmsb__record_of(pages[i]), mode);
}

/* The first page whose pin a save holds back; count: there is none. */
static size_t first_that_waits(const mmsb_page_t *pages, size_t count, int32_t mode) {
    size_t i = 0;
    while (i < count &&
           !must_wait(mmsb__record_of(pages[i]), mmsb__state_held(mmsb__record_of(pages[i])) & ~MMSB__OWNER_MASK, mode))
        i++;
    return i;
}

mmsb_status_t mmsb__page_pin_many(const mmsb_page_t *pages, size_t count, int32_t mode, void **addresses, size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .on_devices = 1};
    mmsb_status_t status = MMSB_OK;
    for (;;) {
        if ((status = mmsb__batch_lock(&batch, NULL, NULL, bad_index)) != MMSB_OK)
            return status;
        size_t waits = first_that_waits(pages, count, mode);
        if (MMSB__LIKELY(waits == count))
            break;
        mmsb__batch_unlock(&batch);
        mmsb__capture_wait(MMSB__HANDLE_INDEX(pages[waits]));
    }
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        uint64_t state = mmsb__state_held(record) & ~MMSB__OWNER_MASK;
        status = begin_pin(pages[i], record, &state, mode, 0, addresses ? &addresses[i] : NULL);
        if (status == MMSB_OK)
            continue;
        end_pins(pages, i, mode);
        if (bad_index)
            *bad_index = i;
    }
    mmsb__batch_unlock(&batch);
    return status;
}

/* Pages of which some have lost their context, each for itself; none where one has no such pin. */
static mmsb_status_t unpin_each(const mmsb_page_t *pages, size_t count, int32_t mode, size_t *bad) {
    mmsb_status_t status = MMSB_OK;
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        const uint64_t ended = MMSB__STATE(MMSB__STATE_ENDED, MMSB__HANDLE_GENERATION(pages[i]), 0);
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        const uint64_t state = mmsb__state_load(record);
        *bad = i;
        if (!mmsb__state_is(state, pages[i]) && (state ^ ended) >> MMSB__INDEX_BITS != 0)
            status = mmsb__page_fail(pages[i]);
        else if (__atomic_load_n(mmsb__pins_of(record, mode), __ATOMIC_RELAXED) == 0)
            status = no_pin_fail(pages[i], mode);
    }
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        *bad = i;
        status = mmsb__page_unpin(pages[i], mode);
    }
    return status;
}

/* Gives back pins that a batch has ended. */
static void begin_again(const mmsb_page_t *pages, size_t count, int32_t mode) {
    for (size_t i = 0; i < count; i++) {
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        uint16_t *pins = mmsb__pins_of(record, mode);
        __atomic_store_n(pins, (uint16_t)(*pins + 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb__pin_note(record);
    }
}

mmsb_status_t mmsb__page_unpin_many(const mmsb_page_t *pages, size_t count, int32_t mode, size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .on_devices = 1};
    size_t bad = 0;
    mmsb_status_t status = mmsb__batch_lock(&batch, NULL, NULL, &bad);
    if (status == MMSB_E_STALE_HANDLE) {
        status = unpin_each(pages, count, mode, &bad);
    } else if (status == MMSB_OK) {
        for (size_t i = 0; i < count && status == MMSB_OK; i++) {
            mmsb__record_t *record = mmsb__record_of(pages[i]);
            if ((status = check_pin(pages[i], record, mmsb__state_held(record), mode)) != MMSB_OK ||
                (status = end_pin(pages[i], record, mode)) != MMSB_OK)
                begin_again(pages, bad = i, mode);
        }
        for (size_t i = 0; i < count && status == MMSB_OK && mode == MMSB_PIN_WRITE; i++)
            mmsb__version_move(mmsb__record_of(pages[i]));
        mmsb__batch_unlock(&batch);
    }
    if (status != MMSB_OK && bad_index)
        *bad_index = bad;
    return status;
}
