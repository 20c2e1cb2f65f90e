/*
 * delta.h — deltas: which are valid, and applying one or many to pages. Forms that make deltas are in core/delta.
 */
#ifndef MMSB_NATIVE_DELTA_H
#define MMSB_NATIVE_DELTA_H

#include <stddef.h>

#include "mmsb.h"

#pragma GCC visibility push(hidden)

/* Whether a delta may be applied to a page of this size; else the code, with the last error set. */
mmsb_status_t mmsb__delta_check(const mmsb_delta_t *delta, uint64_t page_size);
mmsb_status_t mmsb__page_apply(uint64_t page, const mmsb_delta_t *delta);
mmsb_status_t mmsb__page_apply_many(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad_index);
mmsb_status_t mmsb__page_apply_runs(const mmsb_page_runs_t *runs, size_t *bad_index);

#pragma GCC visibility pop
#endif
