/*
 * pin.h — pins: a page's address and its memory stay until the unpin.
 */
#ifndef MMSB_NATIVE_PIN_H
#define MMSB_NATIVE_PIN_H

#include "journal.h"
#include "lock.h"
#include "watch.h"
#include "writing.h"

#pragma GCC visibility push(hidden)

/* Pins of copies on the host of pages in two places, of the whole process. Each is one of its page's pins, too, but has an end of
 * its own. */
extern uint32_t mmsb__copy_pins;

static inline uint16_t *mmsb__pins_of(mmsb__record_t *record, int32_t mode) {
    return mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
}

/* A locked page gets a write pin. */
static inline void mmsb__pin_note(mmsb__record_t *record) {
    mmsb__record_expose_pinned(record);
    mmsb__writing_note(mmsb__record_context(mmsb__record_index(record)));
}

/* Pins a page that has an address, may be written and is locked by nobody, in no call to another function: 1, or 0 with nothing
 * done. */
static inline int mmsb__page_pin_fast(uint64_t page, int32_t mode, void **address) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    if (MMSB__UNLIKELY(!mmsb__self || !mmsb__state_is_open(state, page) || (state & MMSB__READ_ONLY) ||
                       !__atomic_compare_exchange_n(&record->state, &state, state | mmsb__self->owner, 0, __ATOMIC_ACQUIRE,
                                                    __ATOMIC_RELAXED)))
        return 0;
    uint16_t *pins = mmsb__pins_of(record, mode);
    const int writes = mode == MMSB_PIN_WRITE;
    const int may = *pins != UINT16_MAX && !(writes && mmsb__watched());
    if (MMSB__LIKELY(may)) {
        __atomic_store_n(pins, (uint16_t)(*pins + 1), __ATOMIC_RELAXED);
        if (writes)
            mmsb__pin_note(record);
        if (address)
            *address = mmsb__record_bytes(record);
    }
    mmsb__page_unlock_record(record, state);
    return may;
}

/* The end of a pin, likewise. */
static inline int mmsb__page_unpin_fast(uint64_t page, int32_t mode) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    if (MMSB__UNLIKELY(!mmsb__self || !mmsb__state_is_open(state, page) ||
                       !__atomic_compare_exchange_n(&record->state, &state, state | mmsb__self->owner, 0, __ATOMIC_ACQUIRE,
                                                    __ATOMIC_RELAXED)))
        return 0;
    uint16_t *pins = mmsb__pins_of(record, mode);
    const int pinned = *pins != 0;
    if (MMSB__LIKELY(pinned)) {
        __atomic_store_n(pins, (uint16_t)(*pins - 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE) {
            mmsb__version_move(record);
            mmsb__writing_forget(mmsb__record_context(mmsb__record_index(record)));
        }
    }
    mmsb__page_unlock_record(record, state);
    return pinned;
}

mmsb_status_t mmsb__page_pin(uint64_t page, int32_t mode, void **address);
/* The same without an address: of a page on a device, the program does not get the device's. */
mmsb_status_t mmsb__page_pin_apart(uint64_t page, int32_t mode);
mmsb_status_t mmsb__page_unpin(uint64_t page, int32_t mode);
/* Ends a pin that is known to be there, also where the context has ended, without waiting: 0 = another call has the page. */
int mmsb__page_try_unpin(uint64_t page, int32_t mode);
mmsb_status_t mmsb__page_pin_many(const mmsb_page_t *pages, size_t count, int32_t mode, void **addresses, size_t *bad_index);
mmsb_status_t mmsb__page_unpin_many(const mmsb_page_t *pages, size_t count, int32_t mode, size_t *bad_index);

#pragma GCC visibility pop
#endif
