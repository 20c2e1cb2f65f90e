/*
 * delta_batch.h — many deltas in one call, all or none: as structs, or as arrays of runs.
 */
#ifndef MMSB_NATIVE_DELTA_BATCH_H
#define MMSB_NATIVE_DELTA_BATCH_H

#include "delta.h"

#pragma GCC visibility push(hidden)

mmsb_status_t mmsb__page_apply_many(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad_index);
mmsb_status_t mmsb__page_apply_runs(const mmsb_page_runs_t *runs, size_t *bad_index);

#pragma GCC visibility pop
#endif
