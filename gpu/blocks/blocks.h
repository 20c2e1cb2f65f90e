/*
 * blocks.h — records of blocks, and the magazines and spans of streams: what Go (gpu/runtime) and C share. An allocation that
 * finds a block of its size, freed on its own stream, or enough memory that the pool has left to the stream, does not enter Go;
 * nor does the free of a block whose work was all on its own stream. Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), with
 * a stream in place of a processor: what comes next on a stream comes behind everything that was queued there before, so no event
 * is needed.
 *
 * Everything here stays where it is for as long as the process lives: a stale handle leads to a record or a stream of another
 * time, never to memory that is gone. Go code is in blocks.go; a test compares the layouts.
 */
#ifndef MMSB_GPU_BLOCKS_H
#define MMSB_GPU_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "mmsb.h"

#pragma GCC visibility push(hidden)

/* What a record says of its block, in the low half of its state; the high half is the generation of its handle. */
#define MMSB__BLOCK_FREE 0   /* the slot waits for the next block */
#define MMSB__BLOCK_LIVE 1   /* no use of it is open, and all of its work is on its own stream: C may free it */
#define MMSB__BLOCK_HELD 2   /* live, and Go's */
#define MMSB__BLOCK_ENDING 3 /* freed; the free waits for uses to end */
#define MMSB__BLOCK_QUEUED 4 /* freed; the free is queued on a stream */
#define MMSB__BLOCK_CACHED 5 /* freed, and in a magazine of its stream */

#define MMSB__BLOCK_TAGS 65536

#define MMSB__BLOCK_STATE(generation, what) ((uint64_t)(generation) << 32 | (uint32_t)(what))

#define MMSB__BLOCK_CHUNK_BITS 16 /* records of one mapping */
#define MMSB__BLOCK_CHUNKS (1u << (28 - MMSB__BLOCK_CHUNK_BITS))

struct mmsb__block_stream;

/* One line of the cache. Whoever changes the state to LIVE or HELD has written the fields before. */
typedef struct mmsb__block {
    uint64_t state;
    uint64_t address;
    uint64_t bytes;                    /* those that were asked for */
    uint64_t point;                    /* the number, on its stream, of its allocation or of the last work that wrote it */
    struct mmsb__block_stream *stream; /* whose magazines it may go to; NULL = none */
    uint64_t units;                    /* the size that it has, in units of 512 bytes */
    uint32_t tag;
    uint32_t next; /* of its magazine */
    uint64_t own;  /* where the pool's books have it: its first unit, in the upper bits, and the number of the space */
} mmsb__block_t;

/* The counters of a tag, or of all: gpu/runtime/statistics.go. */
typedef struct mmsb__block_tally {
    uint64_t live, peak, total; /* bytes; live are those whose memory was not released */
    uint64_t blocks, ever;
    uint64_t refused;
    uint64_t reserved[2];
} mmsb__block_tally_t;

/* What happened, in the history of a runtime: gpu/runtime/logging.go has all actions. */
#define MMSB__BLOCK_ALLOCATED 1
#define MMSB__BLOCK_FREED 3
typedef struct mmsb__block_event {
    uint64_t number; /* from 1 on, without gaps */
    int64_t time;    /* nanoseconds since 1970 */
    uint64_t address, bytes;
    uint64_t native; /* the driver's stream */
    uint32_t tag;
    uint32_t stream; /* the runtime's number of it */
    int32_t thread;  /* the system's */
    int32_t code;
    uint32_t action;
    uint32_t reserved;
} mmsb__block_event_t;

/* A ring of the last events, which lie behind it. The lock is held for some nanoseconds. */
typedef struct mmsb__block_log {
    uint32_t lock;
    uint32_t reserved;
    uint64_t count; /* events that there ever were */
    uint64_t capacity;
    uint64_t at;    /* where the next one goes */
    int64_t time;   /* of the system's clock, when that was looked at last, */
    uint64_t ticks; /* and of the processor's then */
    uint64_t unused[2];
} mmsb__block_log_t;

/* What the streams of a runtime share. */
typedef struct mmsb__block_pool {
    uint32_t open;  /* 0: every call enters Go */
    uint32_t exact; /* a block serves requests of its own bytes and tag only: a budget has charged them */
    uint32_t divisions[17];
    uint32_t slabs;                            /* requests up to 4 MiB are rounded up to 4 KiB, 16 KiB, 64 KiB, ... */
    mmsb__block_tally_t *tallies;              /* of all blocks, then of each tag, then of small and of large requests */
    mmsb__block_log_t *log;                    /* NULL = none */
    uint64_t kept_from[MMSB__BLOCK_TAGS / 64]; /* a bit for each tag: its blocks do not come from magazines */
} mmsb__block_pool_t;

/* Allocations of a tag that the stream has not added to the tally of all streams yet. */
typedef struct mmsb__block_count {
    uint64_t ever, total;
    uint64_t tag;
} mmsb__block_count_t;

/* Blocks of a class of sizes, the last one that was freed first. */
typedef struct mmsb__block_magazine {
    uint32_t first;
    uint32_t count;
} mmsb__block_magazine_t;

/* Memory that the pool's books hold for a stream: its next blocks are cut off the front. The books learn of the cuts later. */
#define MMSB__BLOCK_OWN_BITS 8 /* of the number of a space */
#define MMSB__BLOCK_CUTS 256
typedef struct mmsb__block_left {
    uint64_t address, own, units;
    uint64_t mark; /* of the last free of any of it */
} mmsb__block_left_t;

typedef struct mmsb__block_span {
    mmsb__block_left_t left;
    uint64_t count; /* cuts that the books do not know */
    uint32_t cuts[MMSB__BLOCK_CUTS];
} mmsb__block_span_t;

/* A size of up to 127 units is a class of its own; above, a power of two has 64 classes. A request is served by a block of its
 * class or the next one: at most 1/32 of the block is too much. */
#define MMSB__BLOCK_CLASS_BITS 6
#define MMSB__BLOCK_MAGAZINES (47 << MMSB__BLOCK_CLASS_BITS) /* sizes up to 2^51 units */
#define MMSB__BLOCK_ROUNDS 1024                              /* blocks in a magazine */
#define MMSB__BLOCK_COUNTS 16
#define MMSB__BLOCK_SLOTS 256 /* of records for blocks that are cut */
#define MMSB__BLOCK_SPANS 2   /* for requests up to 1 MiB, and for others */

/* Allocations, the bytes that they asked for, and the units of their blocks. */
typedef struct mmsb__block_sum {
    uint64_t blocks, bytes, units;
} mmsb__block_sum_t;

/* A stream. The lock is for everything but queued, and is held for some nanoseconds. The totals only grow. */
typedef struct mmsb__block_stream {
    uint32_t lock;
    uint32_t open;   /* 0: blocks that were allocated on it are freed by Go */
    uint64_t handle; /* while it is leased */
    uint64_t queued; /* the number of its last point */
    mmsb__block_pool_t *pool;
    uint64_t native;                     /* the driver's stream, */
    uint64_t number;                     /* and the runtime's number of it */
    uint64_t allocations, frees;         /* that did not enter Go */
    uint64_t allocated, freed, released; /* bytes of these */
    uint64_t cached, cached_units;       /* what the magazines have */
    mmsb__block_sum_t hits[2];           /* allocations: blocks and units by where they lie, bytes by their size */
    mmsb__block_count_t counts[MMSB__BLOCK_COUNTS];
    uint64_t slot_count;
    uint32_t slots[MMSB__BLOCK_SLOTS];
    mmsb__block_span_t spans[MMSB__BLOCK_SPANS];
    mmsb__block_magazine_t magazines[MMSB__BLOCK_MAGAZINES];
} mmsb__block_stream_t;

#define MMSB__BLOCK_STREAMS (1u << 16) /* slots of stream handles that are looked up; others enter Go */

typedef struct mmsb__block_table {
    mmsb__block_t *chunks[MMSB__BLOCK_CHUNKS];
    mmsb__block_stream_t *streams[MMSB__BLOCK_STREAMS];
    uint32_t tags; /* that there are */
} mmsb__block_table_t;

extern mmsb__block_table_t mmsb__block_table;

/* Allocates a block of a magazine, or off a span; 0: there is none, or something is not right: Go's call says what. */
int mmsb__block_hit(mmsb_stream_t stream, uint64_t bytes, uint32_t tag, mmsb_block_t *block, uintptr_t *address);
/* Frees a block into a magazine of its stream, on that stream: its handle, or 0; 0: Go must. */
int mmsb__block_cache(mmsb_block_t block, mmsb_stream_t stream);
/* The system's number of this thread. A forked child does not ask. */
int32_t mmsb__block_thread(void);
/* The place of a history's next event, which the caller fills in, and adds with its number and time, exact to less than a
 * millisecond. The history is locked in between. */
mmsb__block_event_t *mmsb__block_log_begin(mmsb__block_log_t *log);
void mmsb__block_log_end(mmsb__block_log_t *log, mmsb__block_event_t *event);
/* Both, with a copy of an event. */
void mmsb__block_log_note(mmsb__block_log_t *log, const mmsb__block_event_t *event);
/* Copies events behind a number, the oldest first: how many. *lost: how many behind it the ring does not have any more. */
uint64_t mmsb__block_log_read(mmsb__block_log_t *log, uint64_t behind, mmsb__block_event_t *events, uint64_t room,
                              uint64_t *lost);
/* Takes blocks of least to most units out of the magazines of a stream, whose lock the caller has: one that has enough units
 * where there is one, else as many as there is room for, from the largest classes. Returns how many. */
uint32_t mmsb__block_withdraw(mmsb__block_stream_t *stream, uint64_t enough, uint64_t least, uint64_t most, uint32_t *indices,
                              uint32_t room);

#pragma GCC visibility pop
#endif
