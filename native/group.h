/*
 * group.h — atomic groups: what one thread changes of a context's pages from mmsb_group_begin on, until it commits or rolls back.
 *
 * A page that an open group has changed, created or destroyed belongs to it: its record's mark has the group's number, and other
 * threads that would change it get MMSB_E_BUSY. The group keeps what is needed to undo each change, newest first, and the journal
 * records of its changes, which become one record group at the commit. Both lie in frames of the context, so that its memory
 * limit counts them.
 *
 * While a group is open, calls that change, create or end pages of any context take their longer way, as during a capture: the
 * words that these look at count open groups, too. Without a group nothing is asked.
 *
 * A version that the group gave to a page is of an era of its own: after a rollback the page has the version of before the begin,
 * and goes on from there without meeting one of the group's.
 *
 * Go (core/page/group.go) begins and ends groups, and undoes what is Go's: metadata, other memory, ids and dependencies.
 */
#ifndef MMSB_NATIVE_GROUP_H
#define MMSB_NATIVE_GROUP_H

#include "journal.h"

#pragma GCC visibility push(hidden)

/* How many groups are open in the process. */
extern uint32_t mmsb__groups_open;

mmsb__open_group_t *mmsb__group_find(uint32_t context_index);
/* The group that this thread has open in a context; NULL = none. */
static inline mmsb__open_group_t *mmsb__group_of(uint32_t context_index) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__groups_open, __ATOMIC_RELAXED) == 0))
        return NULL;
    return mmsb__group_find(context_index);
}
/* 1 where this thread has a group open in any context. */
int mmsb__group_any(void);

/* ------------------------------------------------------------------------------------------------------ changes ---- */

/* MMSB_E_BUSY, with the last error set, where the locked page belongs to the group of another thread. */
mmsb_status_t mmsb__group_check(const mmsb__record_t *record, uint64_t state);
/* Makes a locked page the group's, if this thread has one, and keeps its bytes from offset on, with their part of the change
 * mask; length UINT64_MAX: none. Errors: MMSB_E_BUSY (as mmsb__group_check), those of memory. */
mmsb_status_t mmsb__group_keep(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length);
/* Keeps the whole change mask of a page that is the group's; does nothing without a group. */
mmsb_status_t mmsb__group_keep_mask(mmsb__record_t *record, uint64_t state);

uint64_t mmsb__group_version_slow(const mmsb__record_t *record);
/* The version that a locked page changes from: its own, or in its first change by a group one that is the group's. When nothing
 * else of the change can fail, mmsb__group_change_from stores it. */
static inline uint64_t mmsb__group_version(const mmsb__record_t *record) {
    return MMSB__LIKELY(__atomic_load_n(&mmsb__groups_open, __ATOMIC_RELAXED) == 0) ? record->version
                                                                                    : mmsb__group_version_slow(record);
}

void mmsb__group_move_version(mmsb__record_t *record, uint64_t version);
static inline void mmsb__group_change_from(mmsb__record_t *record, uint64_t version) {
    if (MMSB__UNLIKELY(record->version != version))
        mmsb__group_move_version(record, version);
}

/* The steps of a group that only Go can undo: it keeps a list of its own. */
mmsb_status_t mmsb__group_push_step(mmsb__open_group_t *group, uint64_t page);

/* Notes that a page is about to begin, and that it is the group's; without a group nothing. The space for it and its journal
 * record was reserved where the caller cannot call Go. */
#define MMSB__GROUP_CREATE_SPACE 256
mmsb_status_t mmsb__group_reserve(mmsb__open_group_t *group, uint64_t bytes);
mmsb_status_t mmsb__group_push_create(mmsb__open_group_t *group, uint64_t page);
/* Ends the last count pages that the group created, as if they had never been. */
void mmsb__group_uncreate(mmsb__open_group_t *group, size_t count);

/* Notes that a locked page of the group is to be destroyed; with a side record Go has a step, too. */
mmsb_status_t mmsb__group_push_destroy(mmsb__open_group_t *group, uint64_t page, const mmsb__record_t *record, uint64_t state);
/* It is not to be destroyed after all. */
void mmsb__group_drop_destroy(mmsb__open_group_t *group, const mmsb__record_t *record);
/* The page leaves: its handle is stale, but its end is left to the commit. Unlocks it. */
void mmsb__group_leave(uint64_t page, mmsb__record_t *record, uint64_t state);

/* Where the group's list is, for a call that fails after it has pushed: nothing of what came behind was done. */
const void *mmsb__group_top(const mmsb__open_group_t *group);
void mmsb__group_drop(mmsb__open_group_t *group, const void *top);

/* ---------------------------------------------------------------------------------------------- journal records ---- */

/* The group whose journal records go to this ring; NULL = this thread has none. */
mmsb__open_group_t *mmsb__group_of_ring(const mmsb__ring_t *ring);
/* Makes space for records of bytes together; keeps one. */
mmsb_status_t mmsb__group_reserve_records(mmsb__open_group_t *group, uint64_t bytes, uint64_t records);
void mmsb__group_put(mmsb__open_group_t *group, const mmsb__journal_head_t *head, const mmsb__piece_t *pieces, size_t count);

/* ----------------------------------------------------------------------------------------------- begin and end ---- */

/* Opens a group of this thread. version is the first of an era. Errors: MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT. */
mmsb_status_t mmsb__group_open(uint32_t context_index, uint64_t version, mmsb__open_group_t **group);
/* Puts the records as one group into the context's ring. *sequence is what to wait for. On failure the group is as before. */
mmsb_status_t mmsb__group_commit(mmsb__open_group_t *group, uint64_t *sequence);
/* From here on the group takes no change; of a context that ends, from the thread that ends it. */
void mmsb__group_stop(mmsb__open_group_t *group);

/* Goes on with the end of a group: after a commit finishes what was left to it, in a rollback undoes the newest change first.
 * MMSB_OK: all is done; MMSB__ENTER_GO: the next is Go's newest step, and it goes on behind. Errors of a rollback, which goes on
 * at the same change if it is called again: MMSB_E_BUSY (a page that must end is pinned), those of bringing bytes in. forced: of
 * a context that ends, where what cannot be undone stays as it is until the pages end. */
mmsb_status_t mmsb__group_finish(mmsb__open_group_t *group);
mmsb_status_t mmsb__group_undo(mmsb__open_group_t *group, int forced);
/* Ends a group that is finished or undone; gives back its memory unless the context has ended. own: on the group's thread. */
void mmsb__group_close(mmsb__open_group_t *group, int own);
/* The calling thread lets go of its group, which is the context's then. */
void mmsb__group_detach(mmsb__open_group_t *group);

/* The thread ends: its groups are Go's. */
void mmsb__groups_leave(mmsb__thread_t *self);

#pragma GCC visibility pop
#endif
