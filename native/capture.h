/*
 * capture.h — the pages of a context as they were at one moment, while writers go on, as the saver sees them. Snapshots are made
 * of it. What writers do: preimage.h.
 *
 * The moment is the store that turns the context's capture on. The saver copies each page and puts the lines that writers have
 * kept back into its copy. Pages of up to MMSB__CHUNK_BYTES are captured whole; of longer ones each chunk apart, so that nobody
 * waits for more than one.
 */
#ifndef MMSB_NATIVE_CAPTURE_H
#define MMSB_NATIVE_CAPTURE_H

#include <stddef.h>

#include "image.h"
#include "saved.h"
#include "gate.h"

#pragma GCC visibility push(hidden)

#define MMSB__CHUNK_BYTES (UINT64_C(256) << 10)

/* A part has at most 64 granules: a bit each in a word. */
#define MMSB__GRANULE_BYTES UINT64_C(4096)

typedef struct mmsb__capture mmsb__capture_t;
/* The bytes or the change mask of a small page; of a large one, a chunk of them. */
typedef struct mmsb__part {
    uint64_t *lines;                  /* a bit for each: it is kept; NULL = none is */
    struct mmsb__preimage *preimages; /* lines as they were at the moment */
    uint32_t taken;                   /* of a large page: by the saver, and nothing is kept any more */
    uint32_t length;
} mmsb__part_t;

/* A page of more than a chunk, or with metadata of more than a chunk, or that is not resident: goes through Go. */
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

typedef struct mmsb__capture_stats {
    uint64_t copied_bytes, copied_peak, waits, waited_ns, compared_bytes;
} mmsb__capture_stats_t;

/* Begins: the moment lies in this call. The caller lets nobody take leaves for the context meanwhile. leaves are those of the
 * context, used says how many records of each are in use. base: by leaf what the base has, NULL = everything is captured; a
 * commit makes it mmsb__saved. NULL with the last error set: no memory. */
mmsb__capture_t *mmsb__capture_begin(uint32_t context, const uint32_t *leaves, const uint32_t *used, uint32_t count,
                                     mmsb__saved_t **base, uint64_t copy_limit, int refuse_pinned);

/* To be called after the beginning, under no lock: what creates and destroys pages without locking them sees the moment now. */
void mmsb__capture_settle(mmsb__capture_t *capture);

/* A leaf that the context took after the moment. */
void mmsb__capture_later(uint32_t context, uint32_t leaf);

typedef enum mmsb__fill { MMSB__FILL_FULL, MMSB__FILL_LARGE, MMSB__FILL_END, MMSB__FILL_PINNED } mmsb__fill_t;

/* Puts copies and pages into the segment until it is full, everything is done, or a page comes that goes through Go (*index), or
 * that may not be saved because it is pinned for writing. */
mmsb__fill_t mmsb__capture_fill(mmsb__capture_t *capture, mmsb__segment_t *segment, uint32_t *index);

/* Finds the records of a leaf that are not as the base has them: of the first leaf that nobody has compared. 0: there is none.
 * For threads beside the one that fills, which compares by itself where it comes to a leaf first. */
int mmsb__capture_compare_leaf(mmsb__capture_t *capture);

/* After MMSB__FILL_END: writers go on as ever. */
void mmsb__capture_stop(mmsb__capture_t *capture);

/* The large page of a record, made ready. NULL: there is nothing to capture (any more), or *failed says why not. */
mmsb__large_t *mmsb__capture_large(mmsb__capture_t *capture, uint32_t index, mmsb_status_t *failed);

/* Puts a part as it was at the moment into buffer, of the length of a chunk: those of its granules whose bits are set, where they
 * lie in the part; the rest of the buffer is anything. Once for each part. Returns its length; 0: the page could not be made
 * resident, and the last error is set. */
uint32_t mmsb__capture_part(mmsb__capture_t *capture, mmsb__large_t *large, uint32_t part, uint64_t granules, uint8_t *buffer);

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

/* Freezes: until the thaw every call that would change, create or end a page of the context waits. */
mmsb_status_t mmsb__context_freeze(uint32_t context);

void mmsb__context_thaw(uint32_t context);

#pragma GCC visibility pop
#endif
