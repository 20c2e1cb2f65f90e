/*
 * capture_fill.h — the saver's pass over a capture, which fills segments with small pages.
 */
#ifndef MMSB_NATIVE_CAPTURE_FILL_H
#define MMSB_NATIVE_CAPTURE_FILL_H

#include "capture_state.h"

#pragma GCC visibility push(hidden)

typedef enum mmsb__fill { MMSB__FILL_FULL, MMSB__FILL_LARGE, MMSB__FILL_END, MMSB__FILL_PINNED } mmsb__fill_t;

/* Puts copies and pages into the segment until it is full, all are done, a page must go through Go (*index), or a page is pinned
 * for writing and must not be saved. */
mmsb__fill_t mmsb__capture_fill(mmsb__capture_t *capture, mmsb__segment_t *segment, uint32_t *index);

/* Goes through the pages that writing sections may change: those whose address was given out for good. Small ones are kept, as a
 * writer would keep them. FILL_LARGE: save the page *index, call again. FILL_FULL: copy_limit is reached, call again when the
 * saver has gone on. FILL_END: sections may go on. */
mmsb__fill_t mmsb__capture_keep_written(mmsb__capture_t *capture, uint32_t *index);

/* Finds the records that differ from the base in the first leaf that nobody has compared. 0: there is no such leaf. For threads
 * beside the one that fills, which compares the leaves that it reaches first. */
int mmsb__capture_compare_leaf(mmsb__capture_t *capture);

#pragma GCC visibility pop
#endif
