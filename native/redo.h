/*
 * redo.h — changes that a journal tells of, made again: while a load runs, when nobody else sees the pages; and on live pages of
 * a context that follows a journal, which other calls do not change.
 */
#ifndef MMSB_NATIVE_REDO_H
#define MMSB_NATIVE_REDO_H

#include "record.h"

#pragma GCC visibility push(hidden)

/* A change that a journal tells of: a delta, or bytes written at an offset (the delta's payload). */
typedef struct mmsb__redo {
    mmsb_delta_t delta;
    uint64_t offset;
    uint32_t is_delta;
} mmsb__redo_t;

/* Makes the change unless the page has it: where its version is below the given one, which it and the epoch are then. The page's
 * bytes have an address, and nobody else sees it: a load makes it, or the caller has locked it and has kept what it was. */
mmsb_status_t mmsb__redo(uint32_t index, uint64_t version, uint64_t epoch, const mmsb__redo_t *change);

/* Pages by id: open addressing with linear probing (by_id.go). */
typedef struct mmsb__by_id_slot {
    uint64_t id;   /* 0 = free */
    uint64_t page; /* its handle */
} mmsb__by_id_slot_t;

typedef struct mmsb__by_id {
    const mmsb__by_id_slot_t *slots; /* some are free */
    uint64_t capacity;               /* a power of two */
    uint64_t key;
} mmsb__by_id_t;

/* Whose pages they are. */
typedef enum mmsb__redo_how {
    MMSB__REDO_UNSEEN = 0,
    MMSB__REDO_LIVE = 1,
    MMSB__REDO_MOVED = 2, /* live, with versions of their own: each change moves them by one */
} mmsb__redo_how_t;

/* The same for a journal's records that lie one behind the other, up to the first that is no delta or written bytes, comes in
 * pieces, is of no page with an address or of one that has the change, or is not as it must be: nothing of that one is done. Nor
 * where a capture, freeze or group may need the bytes of a live page. Returns the bytes of those before it, *count is their
 * number. */
uint64_t mmsb__redo_records(const mmsb__by_id_t *pages, mmsb__redo_how_t how, const void *records, uint64_t length,
                            uint64_t *count);

#pragma GCC visibility pop
#endif
