/*
 * capture.h — captures as the saver sees them: the pages of a context as they were at one moment, while writers go on. Snapshots
 * are made of captures. preimage.h has the part of writers.
 *
 * The moment is the store that turns the context's capture on. The saver copies each page and puts the pre-images back into its
 * copy. Pages of up to MMSB__CHUNK_BYTES are captured whole, longer ones chunk by chunk, so that nobody waits for more than one.
 */
#ifndef MMSB_NATIVE_CAPTURE_H
#define MMSB_NATIVE_CAPTURE_H

#include <stddef.h>

#include "image.h"
#include "saved.h"

#pragma GCC visibility push(hidden)

#define MMSB__CHUNK_BYTES (UINT64_C(256) << 10)

/* A part has at most 64 granules: a bit each in a word. */
#define MMSB__GRANULE_BYTES UINT64_C(4096)

typedef struct mmsb__capture mmsb__capture_t;
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
    mmsb__image_t image;
    uint8_t *metadata;
    uint64_t metadata_length;
    uint32_t byte_parts, mask_parts;
    mmsb__part_t parts[]; /* of its bytes, then of its mask */
} mmsb__large_t;

typedef struct mmsb__capture_stats {
    uint64_t copied_bytes, copied_peak, waits, waited_ns, compared_bytes;
} mmsb__capture_stats_t;

/* Begins a capture: the moment lies in this call. The caller lets nobody take leaves for the context meanwhile. leaves are those
 * of the context; used says how many records of each are in use. base: what the base has, by leaf; NULL = everything is captured;
 * a commit makes it mmsb__saved. Returns NULL with the last error set if there is no memory. */
mmsb__capture_t *mmsb__capture_begin(uint32_t context, const uint32_t *leaves, const uint32_t *used, uint32_t count,
                                     mmsb__saved_t **base, uint64_t copy_limit, int refuse_pinned);

/* Call after the beginning, under no lock: afterwards calls that create and destroy pages without locking them see the moment. */
void mmsb__capture_settle(mmsb__capture_t *capture);

/* Notes a leaf that the context took after the moment. */
void mmsb__capture_later(uint32_t context, uint32_t leaf);

typedef enum mmsb__fill { MMSB__FILL_FULL, MMSB__FILL_LARGE, MMSB__FILL_END, MMSB__FILL_PINNED } mmsb__fill_t;

/* Puts copies and pages into the segment until it is full, all are done, a page must go through Go (*index), or a page is pinned
 * for writing and must not be saved. */
mmsb__fill_t mmsb__capture_fill(mmsb__capture_t *capture, mmsb__segment_t *segment, uint32_t *index);

/* Finds the records that differ from the base in the first leaf that nobody has compared. 0: there is no such leaf. For threads
 * beside the one that fills, which compares the leaves that it reaches first. */
int mmsb__capture_compare_leaf(mmsb__capture_t *capture);

/* Call after MMSB__FILL_END: writers keep nothing any more. */
void mmsb__capture_stop(mmsb__capture_t *capture);

/* Prepares the large page of a record. NULL: there is nothing to capture (any more), or *failed says why not. */
mmsb__large_t *mmsb__capture_large(mmsb__capture_t *capture, uint32_t index, mmsb_status_t *failed);

/* Copies a part as it was at the moment into buffer, which has the length of a chunk: the granules whose bits are set, at their
 * offsets; other bytes are undefined. Once for each part. Returns its length; 0: the page could not be made resident, and the
 * last error is set. */
uint32_t mmsb__capture_part(mmsb__capture_t *capture, mmsb__large_t *large, uint32_t part, uint64_t granules, uint8_t *buffer);

/* The part is as the base has it: no more copies of it are needed. */
void mmsb__capture_skip(mmsb__large_t *large, uint32_t part);

/* Frees large; all its parts were copied or skipped. */
void mmsb__capture_large_done(mmsb__capture_t *capture, mmsb__large_t *large);

/* A page that a writer waits for; 0 = none. */
uint32_t mmsb__capture_urgent(mmsb__capture_t *capture);

/* Counts bytes that were read only to compare them. */
void mmsb__capture_compared(mmsb__capture_t *capture, uint64_t bytes);

/* Ids of pages of the base that have ended; NULL without memory. The capture owns the array. */
const uint64_t *mmsb__capture_removed(mmsb__capture_t *capture, uint64_t *count);

/* 1: the capture is incomplete, because a writer had no memory for its copy and went on. */
int mmsb__capture_failed(const mmsb__capture_t *capture);

/* How many pages and bytes the captured state has more than the base. */
void mmsb__capture_totals(mmsb__capture_t *capture, int64_t *pages, int64_t *bytes);

void mmsb__capture_stats(const mmsb__capture_t *capture, mmsb__capture_stats_t *stats);

/* The save has succeeded: what was captured becomes mmsb__saved. */
void mmsb__capture_commit(mmsb__capture_t *capture);

/* Ends the capture, committed or not. */
void mmsb__capture_end(mmsb__capture_t *capture);

/* Freezes a context: until the thaw every call that would change, create or end one of its pages waits. */
mmsb_status_t mmsb__context_freeze(uint32_t context);

void mmsb__context_thaw(uint32_t context);

#pragma GCC visibility pop
#endif
