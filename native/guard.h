/*
 * guard.h — the guard of host pages as native code sees it: which new pages Go makes because they are guarded, and whether a
 * report waits for the context's next call. The guard itself is Go's (core/memory/guard.go).
 */
#ifndef MMSB_NATIVE_GUARD_H
#define MMSB_NATIVE_GUARD_H

#include "thread.h"

#pragma GCC visibility push(hidden)

/* How many contexts have a guard: the others pay one look at it, and not on their fast paths. */
extern uint32_t mmsb__guards;

/* Every every-th page of the context is guarded from now on, the next one first; 0 = none. */
void mmsb__guard_set(uint32_t context_index, uint64_t every);
/* Counts a page that Go makes. 1: it is guarded. */
int mmsb__guard_next(uint32_t context_index);
/* Counts pages that native code makes: 1; or 0, with nothing done, where one of them is guarded or a report waits. */
int mmsb__guard_pass_slow(uint32_t context_index, uint64_t count);

static inline int mmsb__guard_pass(uint32_t context_index, uint64_t count) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__guards, __ATOMIC_RELAXED) == 0))
        return 1;
    return mmsb__guard_pass_slow(context_index, count);
}

/* Says whether a report waits. While one does, calls that change pages look closer: mmsb__capturing. */
void mmsb__guard_report(uint32_t context_index, int waits);
mmsb_status_t mmsb__guard_tell_slow(uint32_t context_index);

/* The oldest report that waits as a failure of the caller, which then no longer waits; MMSB_OK without one. */
static inline mmsb_status_t mmsb__guard_tell(uint32_t context_index) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__guards, __ATOMIC_RELAXED) == 0))
        return MMSB_OK;
    return mmsb__guard_tell_slow(context_index);
}

#pragma GCC visibility pop
#endif
