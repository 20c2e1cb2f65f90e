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

/* Words of the mask of a page of size bytes. Bits behind the page's end are 0. */
static inline uint64_t mmsb__mask_words(uint64_t size) {
    return (size + 63) / 64;
}

/* The first word from one on that is not 0, of so many; most masks have few. */
static inline uint64_t mmsb__mask_next(const uint64_t *mask, uint64_t from, uint64_t words) {
    for (; from < words && from % 8 != 0; from++) {
        if (mask[from] != 0)
            return from;
    }
    while (from + 8 <= words && (mask[from] | mask[from + 1] | mask[from + 2] | mask[from + 3] | mask[from + 4] | mask[from + 5] |
                                 mask[from + 6] | mask[from + 7]) == 0)
        from += 8;
    while (from < words && mask[from] == 0)
        from++;
    return from;
}

/* Bytes of all change masks. */
extern uint64_t mmsb__mask_bytes;

mmsb_status_t mmsb__page_mask_read(uint64_t page, uint64_t offset, void *bits, uint64_t length);
mmsb_status_t mmsb__page_mask_clear(uint64_t page);
mmsb_status_t mmsb__page_mask_count(uint64_t page, uint64_t *count);

#pragma GCC visibility pop
#endif
