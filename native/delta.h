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

#pragma GCC visibility pop
#endif
