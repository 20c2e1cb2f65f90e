/*
 * capture.h — the pages of a context as they were at one moment, while writers go on. Snapshots are made of it.
 *
 * The moment is the store that turns the context's capture on. A call that changes a page looks at mmsb__capturing while it holds the page's
 * lock: where it sees none, its change is part of the capture, because the saver takes the same lock later; else it first keeps the lines of
 * the page's bytes and of its change mask that it is about to change, each once. The saver copies the page and puts the kept lines back
 * into its copy. A batch looks with all its locks held, again if a moment comes meanwhile, and is wholly in or wholly out.
 *
 * A mark per record says how far its page is: MMSB__CAPTURE_*. Pages of up to MMSB__CHUNK_BYTES are captured whole; of longer ones each chunk apart, so
 * that nobody waits for more than one.
 */
#ifndef MMSB_NATIVE_CAPTURE_H
#define MMSB_NATIVE_CAPTURE_H

#include "page.h"

#pragma GCC visibility push(hidden)

#define MMSB__CHUNK_BYTES (UINT64_C(256) << 10)
#define MMSB__LINE_BYTES 64

/* A part's blocks have a bit each in a word. */
#define MMSB__GRANULE_BYTES UINT64_C(4096)

#define MMSB__CAPTURE_NONE 0     /* as it was, or not part of it */
#define MMSB__CAPTURE_DONE 1     /* captured, or known to be as the base has it */
#define MMSB__CAPTURE_PARTIAL 2  /* some of its chunks are captured */
#define MMSB__CAPTURE_LATER 3    /* the page was created after the moment */
#define MMSB__CAPTURE_PREIMAGE 4 /* a small page of which lines are kept */

/* A page and a stretch of its bytes as the file has them: docs/snapshot-format.md. */
typedef struct mmsb__image {
    uint64_t id, size, epoch, version;
    int32_t location, device, numa_node;
    uint32_t flags;
    uint32_t first_extent, extents;
    uint32_t metadata_count;
    uint32_t reserved;
} mmsb__image_t;

#define MMSB__IMAGE_PARTIAL 1
#define MMSB__IMAGE_ADOPTED 2
#define MMSB__IMAGE_READ_ONLY 4

typedef struct mmsb__image_extent {
    uint64_t offset;
    uint32_t length, stored, at, crc, kind, compression;
} mmsb__image_extent_t;

#define MMSB__IMAGE_BYTES 0
#define MMSB__IMAGE_MASK 1
#define MMSB__IMAGE_METADATA 2

/* What the last save knows of a record's page. */
typedef struct mmsb__saved {
    uint64_t version;
    uint64_t id;
    uint64_t size;
    uint32_t generation; /* 0 = the record had no page */
    uint32_t crc;        /* of the bytes; pages of more than a chunk: none */
} mmsb__saved_t;

/* By chunk of records; NULL = the save has none of its pages. */
extern mmsb__saved_t *mmsb__saved[MMSB__LEAVES];

/* Room in a segment that is being filled. */
typedef struct mmsb__segment {
    uint8_t *buffer;
    uint64_t used; /* a page's bytes go to buffer + used, upwards */
    uint64_t end;  /* its mask and its metadata below buffer + end, downwards */
    mmsb__image_t *images;
    uint32_t image_count, image_capacity;
    mmsb__image_extent_t *extents;
    uint32_t extent_count, extent_capacity;
} mmsb__segment_t;

typedef struct mmsb__preimage mmsb__preimage_t;

/* The bytes or the change mask of a small page; of a large one, a chunk of them. */
typedef struct mmsb__part {
    uint64_t *lines;        /* a bit for each: it is kept; NULL = none is */
    mmsb__preimage_t *kept; /* lines as they were at the moment */
    uint32_t taken;         /* of a large page: by the saver, and nothing is kept any more */
    uint32_t length;
} mmsb__part_t;

/* A page of more than a chunk, or with metadata of more than a chunk, or whose bytes are away: goes through Go. */
typedef struct mmsb__large {
    struct mmsb__large *next;
    uint32_t index;
    uint32_t generation;
    uint32_t unchanged; /* as the base has it by version, but its address was given out */
    mmsb__image_t image;
    uint8_t *metadata;
    uint64_t metadata_length;
    uint32_t byte_parts, mask_parts;
    mmsb__part_t parts[]; /* those of its bytes, then those of its mask */
} mmsb__large_t;

typedef struct mmsb__capture mmsb__capture_t;

typedef struct mmsb__capture_stats {
    uint64_t copied_bytes, copied_peak, waits, waited_ns, compared_bytes;
} mmsb__capture_stats_t;

/* Begins: the moment lies in this call. The caller lets nobody take chunks for the context meanwhile. chunks are those of the context,
 * used says how many records of each are in use. base: by chunk what the base has, NULL = everything is captured; a commit makes it
 * mmsb__saved. NULL with the last error set: no memory. */
mmsb__capture_t *mmsb__capture_begin(uint32_t context, const uint32_t *chunks, const uint32_t *used, uint32_t count,
                                     mmsb__saved_t **base, uint64_t copy_limit, int refuse_pinned);

/* To be called after the beginning, under no lock: what creates and destroys pages without locking them sees the moment now. */
void mmsb__capture_settle(mmsb__capture_t *capture);

/* A chunk that the context took after the moment. */
void mmsb__capture_later(uint32_t context, uint32_t chunk);

typedef enum mmsb__fill { MMSB__FILL_FULL, MMSB__FILL_LARGE, MMSB__FILL_END, MMSB__FILL_PINNED } mmsb__fill_t;

/* Puts copies and pages into the room until it is full, everything is done, or a page comes that goes through Go (*index), or that may not be
 * saved because it is pinned for writing. */
mmsb__fill_t mmsb__capture_fill(mmsb__capture_t *capture, mmsb__segment_t *room, uint32_t *index);

/* Looks which records of a chunk are not as the base has them: of the first chunk that nobody has looked at. 0: there is none. For
 * threads beside the one that fills, which looks for itself where it comes to a chunk first. */
int mmsb__capture_look(mmsb__capture_t *capture);

/* After MMSB__FILL_END: writers go on as ever. */
void mmsb__capture_stop(mmsb__capture_t *capture);

/* The large page of a record, made ready. NULL: there is nothing to capture (any more), or *failed says why not. */
mmsb__large_t *mmsb__capture_large(mmsb__capture_t *capture, uint32_t index, mmsb_status_t *failed);
/* Puts a part as it was at the moment into buffer, which has room for a chunk: those of its blocks whose bits are set, where they lie in the
 * part; the rest of the buffer is anything. Once for each part. Returns its length; 0: the bytes could not be brought in, and the last error is
 * set. */
uint32_t mmsb__capture_part(mmsb__capture_t *capture, mmsb__large_t *large, uint32_t part, uint64_t blocks, uint8_t *buffer);
/* The part is as the base has it: nobody copies it any more. */
void mmsb__capture_skip(mmsb__large_t *large, uint32_t part);
/* All of its parts were put somewhere or skipped; large is no more. */
void mmsb__capture_large_done(mmsb__capture_t *capture, mmsb__large_t *large);
/* A page that a writer waits for; 0 = none. */
uint32_t mmsb__capture_urgent(mmsb__capture_t *capture);
/* Bytes were read only to compare them. */
void mmsb__capture_compared(mmsb__capture_t *capture, uint64_t bytes);

/* Ids of pages of the base that are no more; NULL without memory. The array is the capture's. */
const uint64_t *mmsb__capture_removed(mmsb__capture_t *capture, uint64_t *count);
/* 1: a writer had no memory for its copy and went on: the capture is worth nothing. */
int mmsb__capture_failed(const mmsb__capture_t *capture);
/* Pages and bytes that the captured state has more than the base. */
void mmsb__capture_totals(mmsb__capture_t *capture, int64_t *pages, int64_t *bytes);
void mmsb__capture_stats(const mmsb__capture_t *capture, mmsb__capture_stats_t *stats);
/* The save has ended well: what was captured becomes mmsb__saved. */
void mmsb__capture_commit(mmsb__capture_t *capture);
/* Ends the capture, committed or not: writers go on as ever. */
void mmsb__capture_end(mmsb__capture_t *capture);

/* What is saved of a chunk's pages, made where there is nothing; NULL without memory. */
mmsb__saved_t *mmsb__saved_leaf(uint32_t chunk);
/* The chunk goes to another context, or its pages come from elsewhere. */
void mmsb__saved_forget(uint32_t chunk);

/* Freezes: until the thaw every call that would change, create or end a page of the context waits. */
mmsb_status_t mmsb__context_freeze(uint32_t context);
void mmsb__context_thaw(uint32_t context);

/* ---------------------------------------------------------------------------------------------------- writers ---- */

/* 1: the caller, which holds the page's lock, lets go of it, waits, and begins anew. */
int mmsb__capture_touch_slow(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length);
/* How many moments of all contexts have begun and how many have been, added: odd while one is being taken. A call that touches more than once,
 * one page or several, has to see the same at each: where the number has changed meanwhile it touches all of them again, under the same
 * locks. Else a moment could lie within the call. */
extern uint32_t mmsb__moments;
uint32_t mmsb__moments_now(void);
static inline int mmsb__moment_came(uint32_t before) {
    return __atomic_load_n(&mmsb__moments, __ATOMIC_SEQ_CST) != before;
}
/* Before bytes from offset on are changed, or the epoch, the mask or the metadata with them. */
static inline int mmsb__capture_touch(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) == 0))
        return 0;
    return mmsb__capture_touch_slow(record, state, offset, length);
}
/* Before a change of the page as a whole. */
static inline int mmsb__capture_touch_all(mmsb__record_t *record, uint64_t state) {
    return mmsb__capture_touch(record, state, 0, UINT64_MAX);
}
/* Waits until another try makes sense. Holds no locks. */
void mmsb__capture_wait(uint32_t index);
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
