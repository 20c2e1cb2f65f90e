/* Looking at pages, where it takes a lock: look.h. */
#include "look.h"

#include "gate.h"
#include "id.h"

uint64_t mmsb__page_look_slow(uint64_t page, mmsb__field_t field) {
    if (mmsb__gate != MMSB_OK && mmsb__gate_closed() != MMSB_OK)
        return 0;
    const mmsb__record_t *record = mmsb__record_of(page);
    if (mmsb__state_is(mmsb__state_load(record), page)) {
        uint64_t value = mmsb__field_load(record, field);
        if (mmsb__state_is(mmsb__state_load(record), page))
            return value;
    }
    mmsb__page_fail(page);
    return 0;
}

void *mmsb__page_address_slow(uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    if (mmsb__gate != MMSB_OK && mmsb__gate_closed() != MMSB_OK)
        return NULL;
    if (mmsb__page_lock(page, &record, &state) != MMSB_OK)
        return NULL;
    void *address = NULL;
    int absent = (state & MMSB__NONRESIDENT) && !mmsb__on_device(state) && MMSB__STATE_LOCATION(state) != MMSB_LOCATION_DISK;
    if (absent && mmsb__page_make_resident(record, &state) != MMSB_OK) { /* out of a lazily loaded snapshot, for good */
        mmsb__page_unlock_record(record, state);
        return NULL;
    }
    if (mmsb__on_device(state)) {
        if (mmsb__device_address(record, &state, &address) == MMSB_OK)
            __atomic_store_n(&record->exposed, MMSB__EXPOSED_FOR_GOOD, __ATOMIC_RELAXED);
    } else if (mmsb__addressed(state) || mmsb__record_pinned(record)) {
        address = mmsb__record_expose(record);
    } else {
        mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx is on disk and not pinned: it has no address", (unsigned long long)page);
    }
    mmsb__page_unlock(record, state);
    return address;
}

/* An automatic id is the handle's, so that a live page of this handle has it; a chosen one lies beside the record. */
uint64_t mmsb__page_id(uint64_t page) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = mmsb__state_load(record);
    if (mmsb__gate != MMSB_OK && mmsb__gate_closed() != MMSB_OK)
        return 0;
    if (mmsb__state_is(state, page) && !(state & MMSB__EXPLICIT_ID))
        return mmsb__record_id(MMSB__HANDLE_INDEX(page), state);
    if (mmsb__page_lock(page, &record, &state) != MMSB_OK)
        return 0;
    uint64_t id = mmsb__record_id(MMSB__HANDLE_INDEX(page), state);
    mmsb__page_unlock_record(record, state);
    return id;
}

mmsb_location_t mmsb__page_location(uint64_t page) {
    const uint64_t state = mmsb__state_load(mmsb__record_of(page));
    if (mmsb__gate != MMSB_OK && mmsb__gate_closed() != MMSB_OK)
        return MMSB_LOCATION_DEFAULT;
    if (mmsb__state_is(state, page))
        return MMSB__STATE_LOCATION(state);
    mmsb__page_fail(page);
    return MMSB_LOCATION_DEFAULT;
}

static int is_device_location(int32_t location) {
    return location == MMSB_LOCATION_GPU || location == MMSB_LOCATION_UNIFIED || location == MMSB_LOCATION_PINNED;
}

static void fill_info(uint64_t page, const mmsb__record_t *record, uint64_t state, mmsb_page_info_t *info) {
    uint32_t index = MMSB__HANDLE_INDEX(page);
    const mmsb__side_t *side = mmsb__side_of(record);
    info->location = MMSB__STATE_LOCATION(state);
    info->device = side ? side->device : 0;
    info->numa_node = side ? side->numa_node : -1;
    info->page = page;
    info->context = __atomic_load_n(&mmsb__context_record(mmsb__record_context(index))->handle, __ATOMIC_RELAXED);
    info->id = mmsb__record_id(index, state);
    info->size = record->size;
    info->epoch = record->epoch;
    info->version = record->version;
    info->read_pins = record->read_pins;
    info->write_pins = record->write_pins;
    info->simulated = is_device_location(info->location) &&
                      (info->device >= MMSB_DEVICE_STAND_IN ||
                       __atomic_load_n(&mmsb__context_record(mmsb__record_context(index))->simulated, __ATOMIC_RELAXED));
    info->adopted = (state & MMSB__ADOPTED) != 0;
    info->read_only = (state & MMSB__READ_ONLY) != 0;
    info->metadata_count = side ? side->metadata_count : 0;
}

mmsb_status_t mmsb__page_info(uint64_t page, mmsb_page_info_t *info) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    fill_info(page, record, state, info);
    mmsb__page_unlock_record(record, state);
    return MMSB_OK;
}

mmsb_status_t mmsb__page_info_many(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .bytes_stay = 1};
    mmsb_status_t status = mmsb__batch_lock(&batch, NULL, NULL, bad_index);
    if (status != MMSB_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        const mmsb__record_t *record = mmsb__record_of(pages[i]);
        fill_info(pages[i], record, mmsb__state_held(record) & ~MMSB__OWNER_MASK, &infos[i]);
    }
    mmsb__batch_unlock(&batch);
    return MMSB_OK;
}
