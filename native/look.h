/*
 * look.h — what a page is, without changing it: size, epoch, version, address, all that mmsb_page_info tells.
 */
#ifndef MMSB_NATIVE_LOOK_H
#define MMSB_NATIVE_LOOK_H

#include "lock.h"

#pragma GCC visibility push(hidden)

/* What of the record is looked at without a lock. */
typedef enum mmsb__field { MMSB__FIELD_SIZE, MMSB__FIELD_EPOCH, MMSB__FIELD_VERSION } mmsb__field_t;

static inline uint64_t mmsb__field_load(const mmsb__record_t *record, mmsb__field_t field) {
    const uint64_t *at = field == MMSB__FIELD_SIZE    ? &record->size
                         : field == MMSB__FIELD_EPOCH ? &record->epoch
                                                      : &record->version;
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

uint64_t mmsb__page_look_slow(uint64_t page, mmsb__field_t field);
void *mmsb__page_address_slow(uint64_t page);
/* The id, 0 for a bad handle; the location, MMSB_LOCATION_DEFAULT for one. */
uint64_t mmsb__page_id(uint64_t page);
mmsb_location_t mmsb__page_location(uint64_t page);

/* One read between two looks at the state, so that the value is this page's. */
static inline uint64_t mmsb__page_look(uint64_t page, mmsb__field_t field) {
    if (MMSB__LIKELY(mmsb__gate == MMSB_OK)) {
        const mmsb__record_t *record = mmsb__record_of(page);
        const uint64_t state = mmsb__state_load(record);
        if (MMSB__LIKELY(mmsb__state_is(state, page))) {
            uint64_t value = mmsb__field_load(record, field);
            if (MMSB__LIKELY(mmsb__state_load(record) == state))
                return value;
        }
    }
    return mmsb__page_look_slow(page, field);
}

static inline void *mmsb__page_address(uint64_t page) {
    if (MMSB__LIKELY(mmsb__gate == MMSB_OK)) {
        mmsb__record_t *record = mmsb__record_of(page);
        const uint64_t state = mmsb__state_load(record);
        if (MMSB__LIKELY(mmsb__state_is_resident(state, page))) {
            /* Set without a lock: where the record has a new page by now, once too often is harmless. */
            void *address = mmsb__record_expose(record);
            if (MMSB__LIKELY(mmsb__state_load(record) == state))
                return address;
        }
    }
    return mmsb__page_address_slow(page);
}

mmsb_status_t mmsb__page_info(uint64_t page, mmsb_page_info_t *info);
mmsb_status_t mmsb__page_info_many(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index);

#pragma GCC visibility pop
#endif
