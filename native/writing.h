/*
 * writing.h — who writes pages through pointers. Nothing sees such a write, so that programs announce them: with a WRITE pin, or
 * with a writing section for memory that is not pinned. A save that waits for them has its moment while there is neither.
 */
#ifndef MMSB_NATIVE_WRITING_H
#define MMSB_NATIVE_WRITING_H

#include "thread.h"

#pragma GCC visibility push(hidden)

/* What a context lets begin, in mmsb__context_record_t. */
#define MMSB__WRITING_FREE 0
#define MMSB__WRITING_HELD 1    /* sections and pins of threads that have one; others wait, so that there are none at last */
#define MMSB__WRITING_STOPPED 2 /* nothing: the moment is about to come */
#define MMSB__WRITING_KEPT 3    /* pins, which keep pre-images; sections wait until the saver has what they may change */

/* The sections and write pins that the thread has begun and not ended, of contexts that share a slot. It is not exact where
 * threads end what others began: who asks looks at the context, too. Exports, which are made to be ended by others, are exact. */
static inline uint32_t *mmsb__writing_slot(uint32_t context) {
    return &mmsb__self->writing[context % MMSB__WRITING_SLOTS];
}

static inline void mmsb__writing_note(uint32_t context) {
    ++*mmsb__writing_slot(context);
}

static inline void mmsb__writing_forget(uint32_t context) {
    if (MMSB__LIKELY(mmsb__self))
        *mmsb__writing_slot(context) -= *mmsb__writing_slot(context) != 0;
}

/* The write pins that a thread has begun for others to end. It stays as long as the thread, and as one of them. */
typedef struct mmsb__lent {
    uint32_t references;
    uint32_t writing[MMSB__WRITING_SLOTS];
} mmsb__lent_t;

/* The thread lends its last write pin of a context; NULL = there is no memory, and the pin is the thread's own. */
mmsb__lent_t *mmsb__writing_lend(uint32_t context);
/* Any thread ends such a pin by end, a function that ends a pin as one of the calling thread: what it returns, 0 = it did not. */
int mmsb__writing_return(mmsb__lent_t *lent, uint32_t context, int (*end)(void *of), void *of);
/* The thread ends. */
void mmsb__writing_leave(mmsb__thread_t *self);

/* 1: a thread that pins the locked page for writing must unlock it, wait (mmsb__capture_wait) and begin again. Needs to be asked
 * only while mmsb__capturing is not 0. */
int mmsb__writing_waits(mmsb__record_t *record, uint64_t state);

/* Sections. Errors: handle errors (context); MMSB_E_WOULD_BLOCK, MMSB_E_TIMEOUT; MMSB_E_INVALID_STATE (there is none to end). */
mmsb_status_t mmsb__writing_begin(uint64_t context, uint64_t timeout_ns);
mmsb_status_t mmsb__writing_end(uint64_t context);

/* How many sections of the context are open, and how many sections and write pins of it this thread may have. */
uint32_t mmsb__writing_sections(uint32_t context);
uint32_t mmsb__writing_own(uint32_t context);

/* For the saver. What the context lets begin is FREE before and after, HELD first. */
mmsb_status_t mmsb__writing_hold(uint32_t context);
void mmsb__writing_set(uint32_t context, uint32_t lets);
/* How often a thread has begun more while the others were held: what was looked at before may have come since. */
uint32_t mmsb__writing_passes(uint32_t context);
/* Finds a page that is pinned for writing, from the record *at on, of those that are used of the leaves; 0 = there is none. *at
 * counts the records of all leaves one after the other. */
int mmsb__writing_find(const uint32_t *leaves, const uint32_t *used, uint32_t count, uint64_t *at);

#pragma GCC visibility pop
#endif
