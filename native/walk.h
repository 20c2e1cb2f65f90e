/*
 * walk.h — walks over the records of a leaf, for Go: what lives there, and the end of all of it.
 */
#ifndef MMSB_NATIVE_WALK_H
#define MMSB_NATIVE_WALK_H

#include "lock.h"

#pragma GCC visibility push(hidden)

/* All pages of a frozen context are replaced, leaf by leaf. The first of these locks the pages that live on count records for
 * the library. It returns count, or which one is pinned: those behind it are not locked. */
uint32_t mmsb__records_lock(uint32_t first, uint32_t count);
/* Unlocks as many. */
void mmsb__records_unlock(uint32_t first, uint32_t count);

/* What is left when pages have ended. */
typedef struct mmsb__finished {
    uint32_t sides_count, left_count;
    uint32_t sides[MMSB__LEAF_RECORDS]; /* their side records, which are free */
    uint32_t left[MMSB__LEAF_RECORDS];  /* records of pages that Go ends: with other than small memory, or with metadata */
} mmsb__finished_t;

/* Ends them, except for those that are left. */
void mmsb__records_finish(uint32_t first, uint32_t count, mmsb__finished_t *finished);

/* Handles of live pages among count records from first on, at most capacity; returns how many records were looked at. */
uint32_t mmsb__records_list(uint32_t first, uint32_t count, mmsb_page_t *pages, uint32_t capacity, uint32_t *found);

typedef struct mmsb__survey {
    uint64_t pages[8]; /* by location */
    uint64_t bytes[8];
    uint64_t pinned;
} mmsb__survey_t;

/* Adds the live pages among count records from first on. */
void mmsb__records_survey(uint32_t first, uint32_t count, mmsb__survey_t *survey);

/* The end of a context, after its caches have been detached: ends every page among count records from first on, waiting for calls
 * on them. Pages that Go must end come as indices in *apart (locked for the library), pinned ones stay in the state ENDED
 * and are reported the same way; *looked is where the next call goes on. Returns the number of indices, at most capacity. */
uint32_t mmsb__records_end(uint32_t first, uint32_t count, uint32_t *indices, uint32_t capacity, uint32_t *looked);

#pragma GCC visibility pop
#endif
