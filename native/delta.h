/*
 * delta.h — validation and application of deltas on pages whose bytes have an address. Forms that make deltas are in core/delta.
 */
#ifndef MMSB_NATIVE_DELTA_H
#define MMSB_NATIVE_DELTA_H

#include "page.h"

#pragma GCC visibility push(hidden)

mmsb_status_t mmsb_delta_check(const mmsb_delta_t *delta, uint64_t page_size);
mmsb_status_t mmsb_page_apply_delta(uint64_t page, const mmsb_delta_t *delta);
mmsb_status_t mmsb_page_apply_batch(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad_index);
mmsb_status_t mmsb_page_apply_run_arrays(const mmsb_page_runs_t *runs, size_t *bad_index);

/* A change that a journal tells of: a delta, or bytes written at an offset (the delta's payload). */
typedef struct mmsb_redo {
    mmsb_delta_t delta;
    uint64_t offset;
    uint32_t is_delta;
} mmsb_redo_t;

/* Makes the change unless the page has it: where its version is below the given one, which it and the epoch are then. */
mmsb_status_t mmsb_page_redo(uint64_t page, uint64_t version, uint64_t epoch, const mmsb_redo_t *change);

#pragma GCC visibility pop
#endif
