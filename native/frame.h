/*
 * frame.h — frames: records whose memory is not a page, for the library's own use; and the memory of records in general.
 */
#ifndef MMSB_NATIVE_FRAME_H
#define MMSB_NATIVE_FRAME_H

#include "bytes.h"
#include "poison.h"
#include "thread.h"

#pragma GCC visibility push(hidden)

/* Takes a frame of zeros; its size is its capacity. */
mmsb_status_t mmsb__frame_take(uint32_t context_index, uint64_t size, uint32_t *index);
/* Takes all of count small frames or none. Frames that are not zeroed may have bytes of the context's ended pages. */
mmsb_status_t mmsb__frames_take(uint32_t context_index, uint64_t size, int zeroed, uint32_t *indices, uint32_t count);
void mmsb__frame_give(uint32_t context_index, uint32_t index);

/* Makes all bytes of small memory zero; writes only those that may not be zero. next as in bytes.h. */
static inline void mmsb__record_clean(mmsb__record_t *record, uint32_t class_number, const void *next) {
    uint64_t first = (uint64_t)record->dirty_first << 4, end = ((uint64_t)record->dirty_last + 1) << 4;
    uint64_t size = mmsb__class_size(class_number);
    if (mmsb__exposed(record))
        first = 0, end = size;
    else if (record->dirty_first > record->dirty_last)
        return;
    if (end > size)
        end = size;
    mmsb__bytes.zero(mmsb__record_bytes(record) + first, end - first, next);
    mmsb__dirty_none(record);
}

/* Swaps the memory of two locked records, or of a record and a frame. */
void mmsb__memory_swap(uint32_t a, uint64_t *a_state, uint32_t b, uint64_t *b_state);
/* Counts that bytes which may have been written through pointers are elsewhere now, where nobody sees that no record has them. */
void mmsb__context_stray(uint32_t context_index);

/* Call after a locked page got other memory: only its bytes may be touched (AddressSanitizer builds). */
void mmsb__page_redzone(uint32_t index, uint64_t state, uint64_t size);
/* Call before memory goes back to the system: its next owner may touch all of it (AddressSanitizer builds). */
void mmsb__memory_unpoison(void *memory, uint64_t length);

#pragma GCC visibility pop
#endif
