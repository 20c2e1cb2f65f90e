/*
 * capture_state.h — what writers and the saver of a capture share; used by preimage, capture* and saved only.
 *
 * Each record has a capture state, which says how far its page is. It changes under the page's lock, except to LATER. The first
 * capture reserves the arrays by record.
 */
#ifndef MMSB_NATIVE_CAPTURE_STATE_H
#define MMSB_NATIVE_CAPTURE_STATE_H

#include <pthread.h>

#include "image.h"
#include "thread.h"
#include "watch.h"

#pragma GCC visibility push(hidden)

#define MMSB__CHUNK_BYTES (UINT64_C(256) << 10)

/* A part has at most 64 granules: a bit each in a word. */
#define MMSB__GRANULE_BYTES UINT64_C(4096)

/* The unit of a pre-image. */
#define MMSB__LINE_BYTES 64

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

/* The bytes or the change mask of a small page, or a chunk of those of a large one. */
typedef struct mmsb__part {
    uint64_t *lines;                  /* a bit per line: it is kept; NULL = none is */
    struct mmsb__preimage *preimages; /* lines as they were at the moment */
    uint32_t taken;                   /* of a large page, 1: the saver has it, and no more lines are kept */
    uint32_t length;
} mmsb__part_t;

/* A page of more than a chunk, or with metadata of more than a chunk, or that is not resident: goes through Go. */
typedef struct mmsb__large {
    struct mmsb__large *next;
    uint32_t index;
    uint32_t generation;
    uint32_t unchanged; /* version as in the base, but its address was given out */
    uint32_t written;   /* raw writers may have changed it since the moment */
    mmsb__image_t image;
    uint8_t *metadata;
    uint64_t metadata_length;
    uint32_t byte_parts, mask_parts;
    mmsb__part_t parts[]; /* of its bytes, then of its mask */
} mmsb__large_t;

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
    uint8_t locked;                     /* by a writer that takes, for a few instructions at a time */
    uint64_t bytes, limit;              /* of copies */
    void *given[MMSB__POOL_CLASSES];    /* lists: the first word is the next one */
    void *returned[MMSB__POOL_CLASSES]; /* the same, pushed without the lock: a taker makes such a list the given one */
    mmsb__pool_slab_t *slabs;           /* the newest first, which is being cut */
    uint64_t used;                      /* bytes of the newest */
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

typedef struct mmsb__capture_stats {
    uint64_t copied_bytes, copied_peak, waits, waited_ns, compared_bytes;
} mmsb__capture_stats_t;

/* One per context that was ever captured or frozen; never freed, because writers find it without a lock. */
typedef struct mmsb__capture {
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
    int raw_writes;      /* MMSB_RAW_WRITES_* */
    uint64_t written_at; /* how many records mmsb__capture_keep_written is through */
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
    mmsb_status_t failed; /* why the capture fails: no memory for a copy or note, or the disk; MMSB_OK = it does not */
    uint32_t pinned;      /* page that a writer should copy, but that may not be saved; 0 = none */
    mmsb__capture_stats_t stats;
} mmsb__capture_t;

/* The captures by context index; NULL until the first. */
extern mmsb__capture_t *mmsb__captures[MMSB__CONTEXTS];
extern uint32_t mmsb__frozen; /* contexts */
/* The moments of all contexts that have begun plus those that are over: odd while one is being taken. */
extern uint32_t mmsb__moments;

/* The context's capture, made where it has none; NULL with the last error set. The first reserves the arrays by record. */
mmsb__capture_t *mmsb__capture_make(uint32_t context);
/* Waits a short time, or until the other side has called wake. */
void mmsb__capture_pause(void);
void mmsb__capture_wake(void);

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
    return capture->raw_writes == MMSB_RAW_WRITES_REFUSE &&
           (record->write_pins != 0 || (mmsb__state_held(record) & (MMSB__ADOPTED | MMSB__READ_ONLY)) == MMSB__ADOPTED);
}

static inline mmsb__capture_t *mmsb__capture_of(uint32_t context) {
    return __atomic_load_n(&mmsb__captures[context], __ATOMIC_ACQUIRE);
}

static inline void mmsb__note_failed(mmsb__capture_t *capture, mmsb_status_t code) {
    __atomic_store_n(&capture->failed, code, __ATOMIC_RELAXED);
}

/* The address of a part of a page that is locked, resident and unchanged. */
static inline const uint8_t *mmsb__part_bytes(const mmsb__large_t *large, const mmsb__record_t *record, uint32_t part) {
    if (part < large->byte_parts)
        return mmsb__record_bytes(record) + part * MMSB__CHUNK_BYTES;
    return mmsb__locator_address(record->mask_locator) + (part - large->byte_parts) * MMSB__CHUNK_BYTES;
}

#pragma GCC visibility pop
#endif
