/*
 * saved.h — what the last save recorded of each page, by leaf; an incremental save compares pages with it; and what the
 * running save finds, which a commit makes the last.
 */
#ifndef MMSB_NATIVE_SAVED_H
#define MMSB_NATIVE_SAVED_H

#include "capture_state.h"

#pragma GCC visibility push(hidden)

/* By leaf; NULL = the last save has no page of the leaf. */
extern mmsb__saved_t *mmsb__saved[MMSB__LEAVES];

/* The table of a leaf, made if there is none; NULL without memory. */
mmsb__saved_t *mmsb__saved_leaf(uint32_t leaf);

/* Forgets a leaf that goes to another context, or whose pages are replaced. */
void mmsb__saved_forget(uint32_t leaf);

/* What the running capture of the leaf's context found, where its base has no table of the leaf. */
extern mmsb__saved_t *mmsb__saved_fresh[MMSB__LEAVES];

/* Notes that a page of the base has ended (under the capture's lock), or that a page is captured: for the next save and for
 * the totals. */
void mmsb__note_removed(mmsb__capture_t *capture, uint32_t index, const mmsb__saved_t *saved);
void mmsb__note_captured(mmsb__capture_t *capture, uint32_t index, const mmsb__image_t *image, uint32_t generation, uint32_t crc);

/* Ids of pages of the base that have ended; NULL without memory. The capture owns the array. */
const uint64_t *mmsb__capture_removed(mmsb__capture_t *capture, uint64_t *count);

/* How many pages and bytes the captured state has more than the base. */
void mmsb__capture_totals(mmsb__capture_t *capture, int64_t *pages, int64_t *bytes);

/* The save has succeeded: what was captured becomes mmsb__saved. */
void mmsb__capture_commit(mmsb__capture_t *capture);

#pragma GCC visibility pop
#endif
