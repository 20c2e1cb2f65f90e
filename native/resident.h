/*
 * resident.h — where the bytes of a locked page are: they have an address of the host, or lie on a device, or on disk. Go moves
 * them; this asks.
 */
#ifndef MMSB_NATIVE_RESIDENT_H
#define MMSB_NATIVE_RESIDENT_H

#include "record.h"
#include "upcalls.h"

#pragma GCC visibility push(hidden)

/* Gives the bytes of a locked nonresident page an address: until it is unlocked, or for good. */
static inline mmsb_status_t mmsb__page_make_resident(const mmsb__record_t *record, uint64_t *state) {
    mmsb_status_t status = mmsb__upcalls.make_resident(mmsb__record_index(record));
    *state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    return status;
}

/* Whether the bytes of a locked page lie where only devices reach them. */
static inline int mmsb__on_device(uint64_t state) {
    return (state & MMSB__NONRESIDENT) && MMSB__STATE_LOCATION(state) == MMSB_LOCATION_GPU;
}

/* Whether the bytes of a locked page lie in memory that a device and the host reach, and work of the program's on the device may
 * use them: once they are made resident, they have their address for as long as the page is locked. */
static inline int mmsb__has_block(uint64_t state) {
    return (state & MMSB__NONRESIDENT) && MMSB__STATE_CLASS(state) == MMSB__CLASS_DEVICE;
}

/* Whether the bytes of a locked page have an address of the host that stays. */
static inline int mmsb__addressed(uint64_t state) {
    return !(state & MMSB__NONRESIDENT) || mmsb__has_block(state);
}

/* Whether the bytes of a locked page lie in the context's file and have no address: disk.h. Not if a pin has mapped them, or if
 * they wait in a snapshot. */
static inline int mmsb__on_disk(const mmsb__record_t *record, uint64_t state) {
    return (state & MMSB__NONRESIDENT) && MMSB__STATE_LOCATION(state) == MMSB_LOCATION_DISK && record->locator == 0 &&
           mmsb__table.sides[record->side].backing_length != 0;
}

/* Bytes of a locked page that is on a device, which stay there. */
static inline mmsb_status_t mmsb__device_read(const mmsb__record_t *record, uint64_t offset, void *buffer, uint64_t length) {
    return length == 0 ? MMSB_OK : mmsb__upcalls.device_read(mmsb__record_index(record), offset, buffer, length);
}

/* Where a locked page lies that is on a device. */
static inline mmsb_status_t mmsb__device_address(const mmsb__record_t *record, uint64_t *state, void **address) {
    mmsb_status_t status = mmsb__upcalls.device_address(mmsb__record_index(record), address);
    *state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    return status;
}

#pragma GCC visibility pop
#endif
