/*
 * capture.h — the pages of a context as they were at one moment, while writers go on. Snapshots are made of it.
 *
 * The moment is the store that turns the context's capture on. A call that changes a page looks at mmsb_capturing while it holds the page's
 * lock: where it sees none, its change is part of the capture, because the saver takes the same lock later; else it first keeps the lines of
 * the page's bytes and of its change mask that it is about to change, each once. The saver copies the page and puts the kept lines back
 * into its copy. A batch looks with all its locks held, again if a moment comes meanwhile, and is wholly in or wholly out.
 *
 * A mark per record says how far its page is: MMSB_MARK_*. Pages of up to MMSB_CHUNK_BYTES are captured whole; of longer ones each chunk apart, so
 * that nobody waits for more than one.
 */
#ifndef MMSB_NATIVE_CAPTURE_H
#define MMSB_NATIVE_CAPTURE_H

#include "page.h"

#pragma GCC visibility push(hidden)

#define MMSB_CHUNK_BYTES (UINT64_C(256) << 10)
#define MMSB_LINE_BYTES 64

/* A part's blocks have a bit each in a word. */
#define MMSB_BLOCK_BYTES UINT64_C(4096)

#define MMSB_MARK_NONE 0  /* as it was, or not part of it */
#define MMSB_MARK_DONE 1  /* captured, or known to be as the base has it */
#define MMSB_MARK_PARTS 2 /* some of its chunks are captured */
#define MMSB_MARK_LATER 3 /* the page was created after the moment */
#define MMSB_MARK_KEPT 4  /* a small page of which lines are kept */

/* A page and a stretch of its bytes as the file has them: docs/snapshot-format.md. */
typedef struct mmsb_image {
    uint64_t id, size, epoch, version;
    int32_t location, device, numa_node;
    uint32_t flags;
    uint32_t first_extent, extents;
    uint32_t metadata_count;
    uint32_t reserved;
} mmsb_image_t;

#define MMSB_IMAGE_PARTIAL 1
#define MMSB_IMAGE_ADOPTED 2
#define MMSB_IMAGE_READ_ONLY 4

typedef struct mmsb_image_extent {
    uint64_t offset;
    uint32_t length, stored, at, crc, kind, compression;
} mmsb_image_extent_t;

#define MMSB_IMAGE_BYTES 0
#define MMSB_IMAGE_MASK 1
#define MMSB_IMAGE_METADATA 2

/* What the last save knows of a record's page. */
typedef struct mmsb_saved {
    uint64_t version;
    uint64_t id;
    uint64_t size;
    uint32_t generation; /* 0 = the record had no page */
    uint32_t crc;        /* of the bytes; pages of more than a chunk: none */
} mmsb_saved_t;

/* By chunk of records; NULL = the save has none of its pages. */
extern mmsb_saved_t *mmsb_saved[MMSB_CHUNKS];

/* Room in a segment that is being filled. */
typedef struct mmsb_room {
    uint8_t *buffer;
    uint64_t used; /* a page's bytes go to buffer + used, upwards */
    uint64_t end;  /* its mask and its metadata below buffer + end, downwards */
    mmsb_image_t *images;
    uint32_t image_count, image_capacity;
    mmsb_image_extent_t *extents;
    uint32_t extent_count, extent_capacity;
} mmsb_room_t;

typedef struct mmsb_kept mmsb_kept_t;

/* The bytes or the change mask of a small page; of a large one, a chunk of them. */
typedef struct mmsb_part {
    uint64_t *lines;   /* a bit for each: it is kept; NULL = none is */
    mmsb_kept_t *kept; /* lines as they were at the moment */
    uint32_t taken;    /* of a large page: by the saver, and nothing is kept any more */
    uint32_t length;
} mmsb_part_t;

/* A page of more than a chunk, or with metadata of more than a chunk, or whose bytes are away: goes through Go. */
typedef struct mmsb_large {
    struct mmsb_large *next;
    uint32_t index;
    uint32_t generation;
    uint32_t unchanged; /* as the base has it by version, but its address was given out */
    mmsb_image_t image;
    uint8_t *metadata;
    uint64_t metadata_length;
    uint32_t byte_parts, mask_parts;
    mmsb_part_t parts[]; /* those of its bytes, then those of its mask */
} mmsb_large_t;

typedef struct mmsb_capture mmsb_capture_t;

typedef struct mmsb_capture_stats {
    uint64_t copied_bytes, copied_peak, waits, waited_ns, compared_bytes;
} mmsb_capture_stats_t;

/* Begins: the moment lies in this call. The caller lets nobody take chunks for the context meanwhile. chunks are those of the context,
 * used says how many records of each are in use. base: by chunk what the base has, NULL = everything is captured; a commit makes it
 * mmsb_saved. NULL with the last error set: no memory. */
mmsb_capture_t *mmsb_capture_begin(uint32_t context, const uint32_t *chunks, const uint32_t *used, uint32_t count,
                                   mmsb_saved_t **base, uint64_t copy_limit, int refuse_pinned);

/* To be called after the beginning, under no lock: what creates and destroys pages without locking them sees the moment now. */
void mmsb_capture_settle(mmsb_capture_t *capture);

/* A chunk that the context took after the moment. */
void mmsb_capture_later(uint32_t context, uint32_t chunk);

typedef enum mmsb_fill { MMSB_FILL_FULL, MMSB_FILL_LARGE, MMSB_FILL_END, MMSB_FILL_PINNED } mmsb_fill_t;

/* Puts copies and pages into the room until it is full, everything is done, or a page comes that goes through Go (*index), or that may not be
 * saved because it is pinned for writing. */
mmsb_fill_t mmsb_capture_fill(mmsb_capture_t *capture, mmsb_room_t *room, uint32_t *index);

/* Looks which records of a chunk are not as the base has them: of the first chunk that nobody has looked at. 0: there is none. For
 * threads beside the one that fills, which looks for itself where it comes to a chunk first. */
int mmsb_capture_look(mmsb_capture_t *capture);

/* After MMSB_FILL_END: writers go on as ever. */
void mmsb_capture_stop(mmsb_capture_t *capture);

/* The large page of a record, made ready. NULL: there is nothing to capture (any more), or *failed says why not. */
mmsb_large_t *mmsb_capture_large(mmsb_capture_t *capture, uint32_t index, mmsb_status_t *failed);
/* Puts a part as it was at the moment into buffer, which has room for a chunk: those of its blocks whose bits are set, where they lie in the
 * part; the rest of the buffer is anything. Once for each part. Returns its length; 0: the bytes could not be brought in, and the last error is
 * set. */
uint32_t mmsb_capture_part(mmsb_capture_t *capture, mmsb_large_t *large, uint32_t part, uint64_t blocks, uint8_t *buffer);
/* The part is as the base has it: nobody copies it any more. */
void mmsb_capture_skip(mmsb_large_t *large, uint32_t part);
/* All of its parts were put somewhere or skipped; large is no more. */
void mmsb_capture_large_done(mmsb_capture_t *capture, mmsb_large_t *large);
/* A page that a writer waits for; 0 = none. */
uint32_t mmsb_capture_urgent(mmsb_capture_t *capture);
/* Bytes were read only to compare them. */
void mmsb_capture_compared(mmsb_capture_t *capture, uint64_t bytes);

/* Ids of pages of the base that are no more; NULL without memory. The array is the capture's. */
const uint64_t *mmsb_capture_removed(mmsb_capture_t *capture, uint64_t *count);
/* 1: a writer had no memory for its copy and went on: the capture is worth nothing. */
int mmsb_capture_failed(const mmsb_capture_t *capture);
/* Pages and bytes that the captured state has more than the base. */
void mmsb_capture_totals(mmsb_capture_t *capture, int64_t *pages, int64_t *bytes);
void mmsb_capture_stats(const mmsb_capture_t *capture, mmsb_capture_stats_t *stats);
/* The save has ended well: what was captured becomes mmsb_saved. */
void mmsb_capture_commit(mmsb_capture_t *capture);
/* Ends the capture, committed or not: writers go on as ever. */
void mmsb_capture_end(mmsb_capture_t *capture);

/* What is saved of a chunk's pages, made where there is nothing; NULL without memory. */
mmsb_saved_t *mmsb_saved_chunk(uint32_t chunk);
/* The chunk goes to another context, or its pages come from elsewhere. */
void mmsb_saved_forget(uint32_t chunk);

/* Freezes: until the thaw every call that would change, create or end a page of the context waits. */
mmsb_status_t mmsb_context_freeze(uint32_t context);
void mmsb_context_thaw(uint32_t context);

/* ---------------------------------------------------------------------------------------------------- writers ---- */

/* 1: the caller, which holds the page's lock, lets go of it, waits, and begins anew. */
int mmsb_capture_touch_slow(mmsb_record_t *record, uint64_t state, uint64_t offset, uint64_t length);
/* How many moments of all contexts have begun and how many have been, added: odd while one is being taken. A call that touches more than once,
 * one page or several, has to see the same at each: where the number has changed meanwhile it touches all of them again, under the same
 * locks. Else a moment could lie within the call. */
extern uint32_t mmsb_moments;
uint32_t mmsb_moments_now(void);
static inline int mmsb_moment_came(uint32_t before) {
    return __atomic_load_n(&mmsb_moments, __ATOMIC_SEQ_CST) != before;
}
/* Before bytes from offset on are changed, or the epoch, the mask or the metadata with them. */
static inline int mmsb_capture_touch(mmsb_record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    if (MMSB_LIKELY(__atomic_load_n(&mmsb_capturing, __ATOMIC_RELAXED) == 0))
        return 0;
    return mmsb_capture_touch_slow(record, state, offset, length);
}
/* Before a change of the page as a whole. */
static inline int mmsb_capture_touch_all(mmsb_record_t *record, uint64_t state) {
    return mmsb_capture_touch(record, state, 0, UINT64_MAX);
}
/* Waits until another try makes sense. Holds no locks. */
void mmsb_capture_wait(uint32_t index);
/* A record gets a page, which nobody can see yet. */
void mmsb_capture_created_slow(uint32_t index);
static inline void mmsb_capture_created(uint32_t index) {
    if (MMSB_UNLIKELY(__atomic_load_n(&mmsb_capturing, __ATOMIC_RELAXED) != 0))
        mmsb_capture_created_slow(index);
}
/* Waits while a context is frozen. Holds no locks. */
void mmsb_context_await_slow(uint32_t context);
static inline void mmsb_context_await(uint32_t context) {
    if (MMSB_UNLIKELY(__atomic_load_n(&mmsb_capturing, __ATOMIC_RELAXED) != 0))
        mmsb_context_await_slow(context);
}

#pragma GCC visibility pop
#endif
