/*
 * capture_state.h — what writers and the saver of a capture share; for preimage.c, capture*.c and saved.c only.
 *
 * Each record has a capture state, which says how far its page is. It changes under the page's lock, except to LATER. The first
 * capture reserves the arrays by record.
 */
#ifndef MMSB_NATIVE_CAPTURE_STATE_H
#define MMSB_NATIVE_CAPTURE_STATE_H

#include <pthread.h>

#include "capture.h"
#include "lock.h"
#include "mask.h"
#include "preimage.h"

#pragma GCC visibility push(hidden)

/* ----------------------------------------------------------------------------------------------- capture states ---- */

#define MMSB__CAPTURE_NONE 0     /* not captured yet, or not part of the capture */
#define MMSB__CAPTURE_DONE 1     /* captured, or known to be as in the base */
#define MMSB__CAPTURE_PARTIAL 2  /* some of its chunks are captured */
#define MMSB__CAPTURE_LATER 3    /* the page was created after the moment */
#define MMSB__CAPTURE_PREIMAGE 4 /* a small page with a pre-image */

extern uint8_t *mmsb__capture_states; /* by record */

static inline uint8_t mmsb__capture_state_of(uint32_t index) {
    return __atomic_load_n(&mmsb__capture_states[index], __ATOMIC_ACQUIRE);
}

/* 1: writers need not keep anything of the page. */
static inline int mmsb__capture_needs_nothing(uint8_t capture_state) {
    return capture_state == MMSB__CAPTURE_DONE || capture_state == MMSB__CAPTURE_LATER;
}

/* A capture state that needs nothing stays until the next capture. */
static inline void mmsb__capture_state_set(uint32_t index, uint8_t capture_state) {
    MMSB__ASSERT(mmsb__capture_state_of(index) == capture_state || !mmsb__capture_needs_nothing(mmsb__capture_state_of(index)),
                 index, capture_state);
    __atomic_store_n(&mmsb__capture_states[index], capture_state, __ATOMIC_RELEASE);
}

/* -------------------------------------------------------------------------------------------- copies of writers ---- */

/* Consecutive lines of a part, as they were at the moment. */
typedef struct mmsb__preimage {
    struct mmsb__preimage *next;
    uint32_t offset, length;
    uint8_t bytes[];
} mmsb__preimage_t;

/* What writers kept of a small page. */
typedef struct mmsb__copy {
    struct mmsb__copy *next;
    mmsb__image_t image;
    uint32_t index, generation;
    /* Bytes, mask and metadata as they were before the page changed as a whole; NULL = the page has them. */
    uint8_t *whole;
    uint64_t whole_length;
    mmsb__part_t bytes, mask;
    uint64_t lines[]; /* of bytes and mask */
} mmsb__copy_t;

extern mmsb__copy_t **mmsb__capture_copies; /* by record, for those in the state MMSB__CAPTURE_PREIMAGE */

/* ----------------------------------------------------------------------------------------------------- captures ---- */

#define MMSB__LARGE_BUCKETS 1024
#define MMSB__LEAF_WORDS (MMSB__LEAF_RECORDS / 64) /* words with a bit for each record */
#define MMSB__URGENT_MAX 64
#define MMSB__POOL_CLASSES 320 /* of 16 bytes each: a page of 4096 bytes with its mask and some metadata */

enum { MMSB__CAPTURE_OFF, MMSB__CAPTURE_ON, MMSB__CAPTURE_FROZEN };

typedef struct mmsb__pool_slab {
    struct mmsb__pool_slab *next;
} mmsb__pool_slab_t;

typedef struct mmsb__pool {
    uint8_t locked;                  /* for a few instructions at a time */
    uint64_t bytes, limit;           /* of copies */
    void *given[MMSB__POOL_CLASSES]; /* lists: the first word is the next one */
    mmsb__pool_slab_t *slabs;        /* the newest first, which is being cut */
    uint64_t used;                   /* bytes of the newest */
} mmsb__pool_t;

typedef struct mmsb__removed {
    uint32_t index;
    uint64_t id;
} mmsb__removed_t;

/* A page that was captured, for the table that the base has of its leaf. */
typedef struct mmsb__found {
    uint32_t index;
    mmsb__saved_t saved;
} mmsb__found_t;

/* One per context that was ever captured or frozen; never freed, because writers find it without a lock. */
struct mmsb__capture {
    uint32_t context;
    int mode;         /* MMSB__CAPTURE_OFF, … */
    uint32_t writers; /* how many writers look at the capture */

    /* Only the saver uses these. */
    uint32_t *leaves, *used;
    uint32_t leaf_count, leaf_at, record_at;
    uint32_t far_at, near_at; /* records of the leaf that are being fetched: the record, its bytes */
    mmsb__saved_t **base;
    uint64_t *differing;   /* by leaf, a bit for each record that differs from the base; NULL = no base: all are saved */
    uint8_t *compared;     /* by leaf: its bits in differing are set */
    uint32_t compare_at;   /* the first leaf that no thread has begun to compare */
    mmsb__copy_t *drained; /* copies taken off the list */
    uint64_t *removed_ids;
    mmsb__found_t *found;
    uint64_t found_count, found_capacity;
    int refuse_pinned;
    int committed;

    mmsb__copy_t *copies; /* pushed by writers */
    mmsb__pool_t pool;

    pthread_mutex_t lock; /* of all below */
    mmsb__large_t *large[MMSB__LARGE_BUCKETS];
    mmsb__removed_t *removed;
    uint64_t removed_count, removed_capacity;
    int64_t pages, bytes; /* how many the captured state has more than the base */
    uint32_t urgent[MMSB__URGENT_MAX];
    uint32_t urgent_count;
    int out_of_memory; /* no memory for a copy or note: the capture fails */
    uint32_t pinned;   /* page that a writer should copy, but that may not be saved; 0 = none */
    mmsb__capture_stats_t stats;
};

extern uint32_t mmsb__frozen; /* contexts */
/* What the running capture of the leaf's context found, where its base has no table of the leaf. */
extern mmsb__saved_t *mmsb__saved_fresh[MMSB__LEAVES];

/* The base's page on the record; NULL = none. */
static inline const mmsb__saved_t *mmsb__base_of(const mmsb__capture_t *capture, uint32_t index) {
    if (!capture->base || !capture->base[index >> MMSB__LEAF_BITS])
        return NULL;
    const mmsb__saved_t *saved = &capture->base[index >> MMSB__LEAF_BITS][index & (MMSB__LEAF_RECORDS - 1)];
    return saved->generation != 0 ? saved : NULL;
}

static inline int mmsb__is_large(const mmsb__record_t *record, uint64_t state) {
    return record->size > MMSB__CHUNK_BYTES || (state & MMSB__NONRESIDENT) || mmsb__metadata_length(record) > MMSB__CHUNK_BYTES;
}

static inline int mmsb__as_saved(const mmsb__saved_t *saved, const mmsb__record_t *record, uint64_t state) {
    return saved && saved->generation == MMSB__HANDLE_GENERATION(state) &&
           saved->version == __atomic_load_n(&record->version, __ATOMIC_RELAXED);
}

/* Whether bytes may have changed without a new version. Both are also read without a lock. */
static inline int mmsb__suspect(const mmsb__record_t *record) {
    return mmsb__exposed(record) || __atomic_load_n(&record->write_pins, __ATOMIC_RELAXED) != 0;
}

/* 1 if the page, which is locked, may not be saved because its bytes may be half written. */
static inline int mmsb__refused(const mmsb__capture_t *capture, const mmsb__record_t *record) {
    return capture->refuse_pinned && record->write_pins != 0;
}

static inline uint64_t mmsb__line_words(uint64_t length) {
    return (length + 64 * MMSB__LINE_BYTES - 1) / (64 * MMSB__LINE_BYTES);
}

static inline mmsb__capture_t *mmsb__capture_of(uint32_t context) {
    return __atomic_load_n(&mmsb__context_record(context)->capture, __ATOMIC_ACQUIRE);
}

static inline void mmsb__note_out_of_memory(mmsb__capture_t *capture) {
    __atomic_store_n(&capture->out_of_memory, 1, __ATOMIC_RELAXED);
}

/* The address of a part of a page that is locked, resident and unchanged. */
static inline const uint8_t *mmsb__part_bytes(const mmsb__large_t *large, const mmsb__record_t *record, uint32_t part) {
    if (part < large->byte_parts)
        return mmsb__record_bytes(record) + part * MMSB__CHUNK_BYTES;
    return mmsb__locator_address(record->mask_locator) + (part - large->byte_parts) * MMSB__CHUNK_BYTES;
}

/* ---------------------------------------------------------------------------------------------------- functions ---- */

/* preimage.c: puts the pre-images of a part into a copy of it; gives their memory back to the pool. */
void mmsb__preimage_put_back(const mmsb__part_t *part, uint8_t *copy);
void mmsb__preimage_free(mmsb__capture_t *capture, mmsb__part_t *part);
void mmsb__copy_free(mmsb__capture_t *capture, mmsb__copy_t *copy);
/* Waits until no writer looks at the capture. */
void mmsb__capture_await_writers(const mmsb__capture_t *capture);
/* Wakes the threads that wait for a change. start: once, before the first capture. */
void mmsb__capture_wake(void);
void mmsb__capture_wake_start(void);

/* capture_pool.c: memory for a copy. NULL: the limit does not allow it (*blocked 1), or there is none (*blocked 0). The limit
 * always allows one copy. */
void *mmsb__pool_take_copy(mmsb__capture_t *capture, uint64_t bytes, int *blocked);
void mmsb__pool_give(mmsb__pool_t *pool, void *memory, uint64_t bytes);
/* Everything was given back. */
void mmsb__pool_end(mmsb__pool_t *pool);

/* capture_large.c: what the capture knows of a large page that is locked, made if there is nothing yet. NULL: no memory. */
mmsb__large_t *mmsb__large_open(mmsb__capture_t *capture, mmsb__record_t *record, uint64_t state);
/* With what was kept of parts that nobody took: as the base has them, of a mask that is not written, or of a capture that has
 * failed. */
void mmsb__large_free(mmsb__capture_t *capture, mmsb__large_t *large);
/* Notes that a writer waits for the page. */
void mmsb__capture_make_urgent(mmsb__capture_t *capture, uint32_t index);

/* saved.c: notes that a page of the base has ended (under the capture's lock), or that a page is captured: for the next save and
 * for the totals. */
void mmsb__note_removed(mmsb__capture_t *capture, uint32_t index, const mmsb__saved_t *saved);
void mmsb__note_captured(mmsb__capture_t *capture, uint32_t index, const mmsb__image_t *image, uint32_t generation, uint32_t crc);

#pragma GCC visibility pop
#endif
