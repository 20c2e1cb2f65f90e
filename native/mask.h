/*
 * mask.h — change masks: a frame with a bit for each byte of the page, taken on its first delta; reading, counting and clearing
 * it.
 */
#ifndef MMSB_NATIVE_MASK_H
#define MMSB_NATIVE_MASK_H

#include "frame.h"

#pragma GCC visibility push(hidden)

/* Gives a locked page a change mask; it has none. */
mmsb_status_t mmsb__mask_add(mmsb__record_t *record);
/* Gives a locked page a change mask if it has none. */
static inline mmsb_status_t mmsb__mask_make(mmsb__record_t *record) {
    return MMSB__LIKELY(record->mask_frame != 0) ? MMSB_OK : mmsb__mask_add(record);
}

/* Turns a frame into the change mask of a locked page that has none. */
void mmsb__mask_use(mmsb__record_t *record, uint32_t frame);
/* Removes the mask of a locked page: returns the index of its frame, which the caller then owns; 0 = it had none. */
uint32_t mmsb__mask_take(mmsb__record_t *record);
/* The same, and gives the frame back. */
void mmsb__mask_drop(mmsb__record_t *record);
/* Adapts the mask to the new size of a locked page: bits after its end become zero. The mask's memory is large enough. */
void mmsb__mask_trim(mmsb__record_t *record, uint64_t size);

/* Bytes of all change masks. */
extern uint64_t mmsb__mask_bytes;

mmsb_status_t mmsb__page_mask_read(uint64_t page, uint64_t offset, void *bits, uint64_t length);
mmsb_status_t mmsb__page_mask_clear(uint64_t page);
mmsb_status_t mmsb__page_mask_count(uint64_t page, uint64_t *count);

#pragma GCC visibility pop
#endif
