/*
 * capture_pool.h — memory for the copies of a capture, within its limit.
 */
#ifndef MMSB_NATIVE_CAPTURE_POOL_H
#define MMSB_NATIVE_CAPTURE_POOL_H

#include "capture_state.h"

#pragma GCC visibility push(hidden)

/* Memory for a copy. NULL: the limit does not allow it (*blocked 1), or there is none (*blocked 0). The limit always
 * allows one copy. */
void *mmsb__pool_take_copy(mmsb__capture_t *capture, uint64_t bytes, int *blocked);
void mmsb__pool_give(mmsb__pool_t *pool, void *memory, uint64_t bytes);
/* Everything was given back. */
void mmsb__pool_end(mmsb__pool_t *pool);

#pragma GCC visibility pop
#endif
