/*
 * walk.h — walks over the records of a leaf, for Go: list its pages, count them, end them all.
 */
#ifndef MMSB_NATIVE_WALK_H
#define MMSB_NATIVE_WALK_H

#include "lock.h"

#pragma GCC visibility push(hidden)

/* For replacing all pages of a frozen context, leaf by leaf. The first function locks the pages that live on count records, for
 * the library. It returns count, or the position of a pinned page: pages after it are not locked. *highest becomes the highest of
 * its value and the pages' versions. */
uint32_t mmsb__records_lock(uint32_t first, uint32_t count, uint64_t *highest);
/* Unlocks the pages on the first count records. */
void mmsb__records_unlock(uint32_t first, uint32_t count);

/* What remains after pages have ended. */
typedef struct mmsb__finished {
    uint32_t sides_count, left_count;
    uint32_t sides[MMSB__LEAF_RECORDS]; /* their side records, which are free */
    uint32_t left[MMSB__LEAF_RECORDS];  /* records of pages that Go ends: memory that is not small, or metadata */
} mmsb__finished_t;

/* Ends the locked pages, except those that it reports in left. */
void mmsb__records_finish(uint32_t first, uint32_t count, mmsb__finished_t *finished);

/* Lists the handles of live pages among count records from first on, at most capacity; returns how many records were read. */
uint32_t mmsb__records_list(uint32_t first, uint32_t count, mmsb_page_t *pages, uint32_t capacity, uint32_t *found);

typedef struct mmsb__survey {
    uint64_t pages[8]; /* by location */
    uint64_t bytes[8];
    uint64_t pinned;
} mmsb__survey_t;

/* Adds up the live pages among count records from first on. */
void mmsb__records_survey(uint32_t first, uint32_t count, mmsb__survey_t *survey);

/* Ends every page of a context among count records from first on, after its caches have been detached; waits for calls on them.
 * Pages that Go must end come as indices in *apart, locked for the library. Pinned ones stay in the state ENDED and are reported
 * in the same way. The next call continues at *looked. Returns the number of indices, at most capacity. */
uint32_t mmsb__records_end(uint32_t first, uint32_t count, uint32_t *indices, uint32_t capacity, uint32_t *looked);

#pragma GCC visibility pop
#endif
