/*
 * preimage.h — captures as writers see them: what a call does before it changes, begins or ends a page. What a capture is:
 * capture.h.
 *
 * A call that changes a page looks at mmsb__capturing while it holds the page's lock: where it sees 0, its change is part of the
 * capture, because the saver takes the same lock later; else it first keeps the lines of the page's bytes and of its change mask
 * that it is about to change, each once. A batch looks with all its locks held, again if a moment comes meanwhile, and is wholly
 * in or wholly out.
 */
#ifndef MMSB_NATIVE_PREIMAGE_H
#define MMSB_NATIVE_PREIMAGE_H

#include "record.h"
#include "watch.h"

#pragma GCC visibility push(hidden)

/* What is kept at once. */
#define MMSB__LINE_BYTES 64

/* 1: the caller, which holds the page's lock, lets go of it, waits (mmsb__capture_wait), and begins anew. */
int mmsb__preimage_keep_slow(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length);
/* Before bytes from offset on are changed, or the epoch, the mask or the metadata with them. */
static inline int mmsb__preimage_keep(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) == 0))
        return 0;
    return mmsb__preimage_keep_slow(record, state, offset, length);
}
/* Before a change of the page as a whole. */
static inline int mmsb__preimage_keep_page(mmsb__record_t *record, uint64_t state) {
    return mmsb__preimage_keep(record, state, 0, UINT64_MAX);
}
/* Waits until another try makes sense. Holds no locks. */
void mmsb__capture_wait(uint32_t index);

/* How many moments of all contexts have begun and how many have been, added: odd while one is being taken. A call that keeps more
 * than once, one page or several, has to see the same at each: where the number has changed meanwhile it goes through all of them
 * again, under the same locks. Else a moment could lie within the call. */
extern uint32_t mmsb__moments;
uint32_t mmsb__moments_now(void);
static inline int mmsb__moment_came(uint32_t before) {
    return __atomic_load_n(&mmsb__moments, __ATOMIC_SEQ_CST) != before;
}

/* A record gets a page, which nobody can see yet. */
void mmsb__capture_created_slow(uint32_t index);

static inline void mmsb__capture_created(uint32_t index) {
    if (MMSB__UNLIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) != 0))
        mmsb__capture_created_slow(index);
}

/* Waits while a context is frozen. Holds no locks. */
void mmsb__context_await_slow(uint32_t context);

static inline void mmsb__context_await(uint32_t context) {
    if (MMSB__UNLIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) != 0))
        mmsb__context_await_slow(context);
}

#pragma GCC visibility pop
#endif
