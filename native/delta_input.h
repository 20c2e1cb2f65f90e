/*
 * delta_input.h — what a call reads while it changes pages: it may lie in a page that the call changes. Then the call works on a
 * copy, so that what says where bytes go is as it was when it was checked. The bytes themselves, too, of one delta and of those
 * of a batch that are more than one run; others are read when their turn comes.
 */
#ifndef MMSB_NATIVE_DELTA_INPUT_H
#define MMSB_NATIVE_DELTA_INPUT_H

#include "lock.h"

#pragma GCC visibility push(hidden)

/* Where a batch changes memory, by blocks of the address space: what lies elsewhere it does not change. Regions of pages begin at
 * multiples of a block, so that little else lies in theirs. */
enum { MMSB__BLOCK_SHIFT = 21, MMSB__BLOCKS = 1024 };
typedef struct mmsb__blocks {
    uint64_t bits[MMSB__BLOCKS / 64];
} mmsb__blocks_t;

void mmsb__blocks_add_long(mmsb__blocks_t *blocks, uint64_t first, uint64_t last);
static inline void mmsb__blocks_add(mmsb__blocks_t *blocks, const void *memory, uint64_t length) {
    const uint64_t first = (uintptr_t)memory >> MMSB__BLOCK_SHIFT, last = ((uintptr_t)memory + length) >> MMSB__BLOCK_SHIFT;
    blocks->bits[first % MMSB__BLOCKS / 64] |= UINT64_C(1) << first % 64;
    if (MMSB__UNLIKELY(first != last))
        mmsb__blocks_add_long(blocks, first, last);
}

/* Whether the batch may change this memory. */
int mmsb__blocks_have(const mmsb__blocks_t *blocks, const void *memory, uint64_t length);
/* Adds what a valid delta names. */
void mmsb__blocks_add_delta(mmsb__blocks_t *blocks, const mmsb_delta_t *delta);
static inline int mmsb__blocks_meet(const mmsb__blocks_t *a, const mmsb__blocks_t *b) {
    uint64_t both = 0;
    for (int i = 0; i < MMSB__BLOCKS / 64; i++)
        both |= a->bits[i] & b->bits[i];
    return both != 0;
}

/* Whether memory has something of a page. */
static inline int mmsb__meets(const uint8_t *page, uint64_t size, const void *memory, uint64_t length) {
    return (length > 0) & ((uintptr_t)memory < (uintptr_t)page + size) & ((uintptr_t)memory + length > (uintptr_t)page);
}

/* Whether a page has something that a valid delta names, or the delta itself. */
int mmsb__page_has_delta(const uint8_t *page, uint64_t size, const mmsb_delta_t *delta);
/* The same, at once for what most deltas are: one run. */
static inline int mmsb__page_has_delta_quickly(const uint8_t *page, uint64_t size, const mmsb_delta_t *delta) {
    if (MMSB__LIKELY(delta->kind == MMSB_DELTA_RUNS && delta->count == 1 && !delta->source && !delta->intent))
        return mmsb__meets(page, size, delta->runs, sizeof *delta->runs) |
               mmsb__meets(page, size, delta->payload, delta->runs->length) | mmsb__meets(page, size, delta, sizeof *delta);
    return mmsb__page_has_delta(page, size, delta);
}
/* Copies of valid deltas with all that they name, in one piece of memory that is to be freed; NULL with the last error set. */
mmsb_delta_t *mmsb__deltas_copy(const mmsb_delta_t *deltas, size_t count);
/* A copy of an array; NULL with the last error set. */
void *mmsb__array_copy(const void *array, size_t count, size_t each);

#pragma GCC visibility pop
#endif
