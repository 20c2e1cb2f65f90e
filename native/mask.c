/* Change masks: mask.h. */
#include "mask.h"

#include <string.h>

#include "bytes.h"
#include "change.h"

uint64_t mmsb__mask_bytes;

mmsb_status_t mmsb__mask_add(mmsb__record_t *record) {
    uint32_t index = mmsb__record_index(record), frame;
    mmsb_status_t status = mmsb__frame_take(mmsb__record_context(index), mmsb__mask_length(record->size), &frame);
    if (status != MMSB_OK)
        return status;
    mmsb__mask_use(record, frame);
    return MMSB_OK;
}

void mmsb__mask_use(mmsb__record_t *record, uint32_t frame) {
    __atomic_add_fetch(&mmsb__mask_bytes, mmsb__record_at(frame)->size, __ATOMIC_RELAXED);
    /* One store: a saver that prefetches reads it without the lock. */
    __atomic_store_n(&record->mask_locator, mmsb__record_at(frame)->locator, __ATOMIC_RELAXED);
    record->mask_frame = frame;
}

uint32_t mmsb__mask_take(mmsb__record_t *record) {
    uint32_t frame = record->mask_frame;
    if (frame == 0)
        return 0;
    __atomic_sub_fetch(&mmsb__mask_bytes, mmsb__record_at(frame)->size, __ATOMIC_RELAXED);
    record->mask_frame = 0;
    __atomic_store_n(&record->mask_locator, 0, __ATOMIC_RELAXED);
    return frame;
}

void mmsb__mask_drop(mmsb__record_t *record) {
    uint32_t frame = mmsb__mask_take(record);
    if (frame != 0)
        mmsb__frame_give(mmsb__record_context(mmsb__record_index(record)), frame);
}

void mmsb__mask_trim(mmsb__record_t *record, uint64_t size) {
    if (record->mask_frame == 0)
        return;
    uint8_t *mask = mmsb__locator_address(record->mask_locator);
    uint64_t capacity = mmsb__record_at(record->mask_frame)->size, used = mmsb__mask_length(size);
    memset(mask + used, 0, capacity - used);
    if (size & 7)
        mask[used - 1] &= (uint8_t)((1u << (size & 7)) - 1);
}

mmsb_status_t mmsb__page_mask_read(uint64_t page, uint64_t offset, void *bits, uint64_t length) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    if (!mmsb__page_within(offset, length, record->size))
        status = mmsb__page_range_fail(page, offset, length, record->size);
    else if (record->mask_frame == 0)
        memset(bits, 0, mmsb__mask_length(length));
    else
        mmsb__bits_extract(bits, mmsb__locator_address(record->mask_locator), offset, length);
    mmsb__page_unlock_record(record, state);
    return status;
}

/* Whether a bit is set in the mask of a locked page. */
static int is_marked(const mmsb__record_t *record) {
    const uint64_t words = mmsb__mask_words(record->size);
    return record->mask_frame != 0 &&
           mmsb__mask_next((const uint64_t *)(const void *)mmsb__locator_address(record->mask_locator), 0, words) < words;
}

/* A page may have a mask without a bit for no reason of its own: a delta that was refused has made it, or one that came while a
 * save ran, whose snapshot has an older state. So only bits count. */
mmsb_status_t mmsb__page_mask_clear(uint64_t page) {
    mmsb__change_t change;
    mmsb_status_t status;
    do {
        status = mmsb__change_begin_page(&change, page, 0);
        if (status != MMSB_OK)
            return status;
        mmsb__record_t *record = change.record;
        const int marked = is_marked(record);
        status = mmsb__change_tell(&change);
        if (status == MMSB_OK)
            status = mmsb__change_keep_page(&change);
        if (status == MMSB_OK && marked)
            status = mmsb__group_keep_mask(record, change.state);
        if (status == MMSB_OK && marked &&
            (status = mmsb__change_journal(&change, MMSB__JOURNAL_MASK_CLEAR, NULL, 0)) == MMSB_OK) {
            memset(mmsb__locator_address(record->mask_locator), 0, mmsb__mask_length(record->size));
            mmsb__version_move(record); /* a snapshot has the mask, so an incremental one must see the change */
        }
        status = mmsb__change_end(&change, status);
    } while (status == MMSB__AGAIN);
    return status;
}

mmsb_status_t mmsb__page_mask_count(uint64_t page, uint64_t *count) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    *count = record->mask_frame == 0 ? 0 : mmsb__bytes.count_bits(mmsb__locator_address(record->mask_locator), record->size);
    mmsb__page_unlock_record(record, state);
    return MMSB_OK;
}
