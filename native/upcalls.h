/*
 * upcalls.h — what native code asks of Go: docs/architecture.md has a row for each, with why it must be one. Functions that
 * return MMSB__ENTER_GO have done nothing: the call needs what only Go decides, and its caller, which is C of capi, enters Go.
 */
#ifndef MMSB_NATIVE_UPCALLS_H
#define MMSB_NATIVE_UPCALLS_H

#include <stddef.h>
#include <stdint.h>

#include "mmsb.h"

#pragma GCC visibility push(hidden)

#define MMSB__ENTER_GO (-1)

typedef struct mmsb__open_group mmsb__open_group_t; /* group.h */

/* What native code asks of Go. Set once, before the first context. Every function may be called with page locks held. */
typedef struct mmsb__upcalls {
    /* Handles of free records of a size class, at least one. The context by its handle: it may have ended meanwhile. */
    mmsb_status_t (*refill)(uint64_t context, uint32_t class_number, uint64_t *handles, uint32_t capacity, uint32_t *count);
    /* A frame of more than MMSB__SMALL_MAX bytes, all zero. */
    mmsb_status_t (*take_frame)(uint32_t context, uint64_t size, uint32_t *index);
    void (*give_frame)(uint32_t context, uint32_t index);
    /* Gives the bytes of a nonresident page an address; and takes it away again. */
    mmsb_status_t (*make_resident)(uint32_t index);
    void (*evict)(uint32_t index);
    /* Of a nonresident page on a device: its address there; bytes of it to or from memory of the host; a valid delta's change of
     * its bytes, which may also be left to do on the host: MMSB_E_UNSUPPORTED, with no error stored. */
    mmsb_status_t (*device_address)(uint32_t index, void **address);
    mmsb_status_t (*device_read)(uint32_t index, uint64_t offset, void *buffer, uint64_t length);
    mmsb_status_t (*device_write)(uint32_t index, uint64_t offset, const void *buffer, uint64_t length);
    mmsb_status_t (*device_apply)(uint32_t index, const mmsb_delta_t *delta);
    /* Lets the change of a valid delta be one that cannot fail, when it is made next; MMSB_E_UNSUPPORTED, with no error stored:
     * the page needs an address for that. */
    mmsb_status_t (*device_prepare)(uint32_t index, const mmsb_delta_t *delta);
    /* Ranges of such a page, one behind the other in the buffer. */
    mmsb_status_t (*device_read_runs)(uint32_t index, const mmsb_run_t *runs, uint64_t count, void *buffer);
    /* How many of the pins of such a page are those of its copy on the host. */
    uint32_t (*copy_pins)(uint32_t index, int32_t mode);
    /* What devices do with such pages where they lie: compare two, with a bit for each byte that differs where bits is not NULL;
     * sum up the parts of a range, of which the last may be shorter; copy into the first page the bytes that the change masks of
     * the others have, without its change mask; persistent: by a kernel that stays on the device, where they are few. Each may be
     * left to the host: MMSB_E_UNSUPPORTED, with no error stored. */
    mmsb_status_t (*device_compare)(uint32_t a, uint32_t b, mmsb_difference_t *difference, void *bits);
    mmsb_status_t (*device_checksums)(uint32_t index, uint64_t offset, uint64_t length, uint64_t part, uint32_t *sums);
    mmsb_status_t (*device_propagate)(const mmsb_page_t *pages, size_t count, int persistent);
    /* Those changes of a batch whose pages are on devices, in their order: all of one device at once. */
    mmsb_status_t (*device_apply_many)(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad);
    /* Ends a page that is locked and has more than small memory, and frees its record. */
    void (*end)(uint32_t index, uint64_t state);
    /* The last pin of a page whose context has ended is gone. */
    void (*release_ended)(uint32_t index);
    /* The first version of a new era, above a version. */
    uint64_t (*new_version)(uint64_t above);
    /* A group destroys a locked page that has a side record: its dependencies and its id are no longer there. */
    void (*leave)(uint32_t index, uint64_t state);
    /* The thread that has a group open ends. */
    void (*group_left)(uint32_t context, mmsb__open_group_t *group);
    /* Writes the records that wait in a context's ring to its journal, in the place of the writer. The caller has the ring's
     * seat, and no page's lock. 0: what was taken is not written. */
    int (*write_journal)(uint32_t context);
    /* The parents of pages, the oldest edge first: pages[i] and its counts[i] parents stand in all one behind the other. Returns
     * how many handles that is; where they are more than capacity, all has only some of them. The caller holds no page's lock. */
    size_t (*parents)(const mmsb_page_t *pages, size_t count, mmsb_page_t *all, size_t capacity, uint64_t *counts);
    /* MMSB_OK, or MMSB_E_INVALID_ARGUMENT where one of the pages behind the first depends on the first, if only by others. The
     * caller holds no page's lock. */
    mmsb_status_t (*check_cycle)(const mmsb_page_t *pages, size_t count);
    /* The oldest report of the context's guard that waits, which then no longer does, as the last error; MMSB_OK without one. */
    mmsb_status_t (*tell_report)(uint32_t context);
} mmsb__upcalls_t;

extern mmsb__upcalls_t mmsb__upcalls;

#pragma GCC visibility pop
#endif
