/*
 * preimage.h — captures and groups as writers see them: what a call does before it changes, begins or ends a page. capture.h says
 * what a capture is, group.h what a group is.
 *
 * A call that changes a page looks at mmsb__capturing while it holds the page's lock. If it sees 0, its change is part of the
 * capture, because the saver takes the same lock later. Otherwise it first keeps the lines of the page's bytes and of its change
 * mask that it is about to change, each once. A batch looks with all its locks held, and again if a moment comes meanwhile; it is
 * completely in or completely out.
 */
#ifndef MMSB_NATIVE_PREIMAGE_H
#define MMSB_NATIVE_PREIMAGE_H

#include "capture_state.h"

#pragma GCC visibility push(hidden)

/* The page is unlocked and nothing has changed: the call begins again. */
#define MMSB__AGAIN (-2)

/* MMSB__AGAIN: the caller, which holds the page's lock, must unlock it, wait (mmsb__capture_wait) and begin again. Else the
 * caller goes on, or fails: MMSB_E_BUSY (the page belongs to a group of another thread), errors of the memory of the thread's
 * group. */
mmsb_status_t mmsb__preimage_keep_slow(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length);
/* Call before bytes from offset on change, or with them the epoch, the mask or the metadata. */
static inline mmsb_status_t mmsb__preimage_keep(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) == 0))
        return MMSB_OK;
    return mmsb__preimage_keep_slow(record, state, offset, length);
}
/* Call before the page changes as a whole. */
static inline mmsb_status_t mmsb__preimage_keep_page(mmsb__record_t *record, uint64_t state) {
    return mmsb__preimage_keep(record, state, 0, UINT64_MAX);
}
/* Call before the page's bytes are read in another way: MMSB_OK, where the capture has all of them, or MMSB__AGAIN. */
mmsb_status_t mmsb__preimage_keep_saved(mmsb__record_t *record, uint64_t state);
/* Call before a raw writer may change these bytes: keeps them where the capture waits for raw writers. */
int mmsb__preimage_keep_written(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length);
/* Waits until another try makes sense. The caller holds no locks. */
void mmsb__capture_wait(uint32_t index);

/* A call that keeps pre-images more than once, of one page or several, must see the same number of moments each time. If it has
 * changed, the call keeps all of them again, under the same locks; otherwise a moment could lie within the call. */
uint32_t mmsb__moments_now(void);
static inline int mmsb__moment_came(uint32_t before) {
    return __atomic_load_n(&mmsb__moments, __ATOMIC_SEQ_CST) != before;
}

/* Call when a record gets a page that nobody can see yet. */
void mmsb__capture_created_slow(uint32_t index);

static inline void mmsb__capture_created(uint32_t index) {
    if (MMSB__UNLIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) != 0))
        mmsb__capture_created_slow(index);
}

/* Waits while a context is frozen. The caller holds no locks. */
void mmsb__context_await_slow(uint32_t context);

static inline void mmsb__context_await(uint32_t context) {
    if (MMSB__UNLIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) != 0))
        mmsb__context_await_slow(context);
}

/* -------------------------------------------------------------------------------------------------- for the saver ---- */

/* Words with a bit for each line of a part. */
static inline uint64_t mmsb__line_words(uint64_t length) {
    return (length + 64 * MMSB__LINE_BYTES - 1) / (64 * MMSB__LINE_BYTES);
}

/* What the capture knows of a large page that is locked, made if there is nothing yet. NULL: no memory. */
mmsb__large_t *mmsb__large_open(mmsb__capture_t *capture, mmsb__record_t *record, uint64_t state);
/* Puts the pre-images of a part into a copy of it; gives their memory back to the pool. */
void mmsb__preimage_put_back(const mmsb__part_t *part, uint8_t *copy);
void mmsb__preimage_free(mmsb__capture_t *capture, mmsb__part_t *part);
void mmsb__copy_free(mmsb__capture_t *capture, mmsb__copy_t *copy);
/* Waits until no writer looks at the capture. */
void mmsb__capture_await_writers(const mmsb__capture_t *capture);

#pragma GCC visibility pop
#endif
