/*
 * invariants.h — walks over a whole context that say what is wrong with it, for tests: only in builds with MMSB_INVARIANTS.
 */
#ifndef MMSB_NATIVE_INVARIANTS_H
#define MMSB_NATIVE_INVARIANTS_H

#if defined(MMSB_INVARIANTS)

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Of a context on which no call runs: every handle in a magazine names a free record of the context, and none two; every live
 * page is unlocked, and its change mask is a frame of the context; the counters are what a recount gives. NULL, or the first
 * thing that is wrong: a text that the thread's next call replaces. */
const char *mmsb__table_check(uint32_t context_index);

#pragma GCC visibility pop
#endif
#endif
