/*
 * journal.h — how records reach the journal: through two buffers outside Go's heap. Threads put records into one while Go writes
 * the other to the disk. docs/journal-format.md describes records, and how a reader finds what a killed process left in the
 * buffers, which lie in a file that the process shares: a thread marks the place of a group when all of it is stored.
 *
 * A thread that holds its page's lock reserves space and sequence numbers with one compare-and-swap, copies, and reports the end
 * with one addition; only the writer waits for an interrupted thread. A record is put before its change is made: begin is the
 * last step of a call that can fail.
 *
 *     mmsb__ring_t *ring = mmsb__ring_for(context_index);          under the page's lock
 *     mmsb__ring_begin(ring, &group, bytes, records)              may wait and fail: nothing has changed yet
 *     mmsb__ring_put…(&group, …), and then its change             for each record
 *     mmsb__ring_end(&group)
 *     unlock the page
 *     mmsb__ring_wait(ring, group.last)                           durability "each call" only; else it returns at once
 *
 * Between begin and end a thread may not begin another group. The records of a group come back all or not at all.
 */
#ifndef MMSB_NATIVE_JOURNAL_H
#define MMSB_NATIVE_JOURNAL_H

#include <string.h>

#include "thread.h"

#pragma GCC visibility push(hidden)

/* ---------------------------------------------------------------------------------------------------- records ---- */

typedef enum mmsb__journal_kind {
    MMSB__JOURNAL_CREATE = 1,
    MMSB__JOURNAL_ADOPT = 2,
    MMSB__JOURNAL_CLONE = 3,
    MMSB__JOURNAL_DESTROY = 4,
    MMSB__JOURNAL_RESIZE = 5,
    MMSB__JOURNAL_MIGRATE = 6,
    MMSB__JOURNAL_WRITE = 7,
    MMSB__JOURNAL_RUN = 8,
    MMSB__JOURNAL_DELTA = 9,
    MMSB__JOURNAL_MASK_CLEAR = 10,
    MMSB__JOURNAL_METADATA_SET = 11,
    MMSB__JOURNAL_METADATA_REMOVE = 12,
    MMSB__JOURNAL_METADATA_IMPORT = 13,
    MMSB__JOURNAL_DEPENDENCY_ADD = 14,
    MMSB__JOURNAL_DEPENDENCY_REMOVE = 15,
    MMSB__JOURNAL_GROUP = 16,
} mmsb__journal_kind_t;

#define MMSB__JOURNAL_MORE 1      /* the next record belongs to the same group */
#define MMSB__JOURNAL_PIECE 2     /* the body goes on in the next record */
#define MMSB__JOURNAL_ANNOTATED 4 /* the body begins with id, time, source and intent of the delta */

/* The form of a DELTA record: the delta's kind, or one more. */
#define MMSB__JOURNAL_INDEXED32 6

/* The head of every record, as in the file. */
typedef struct mmsb__journal_head {
    uint32_t length; /* with this head, without the padding to a multiple of 8 */
    uint8_t kind;
    uint8_t flags;
    uint16_t form;
    uint64_t page;    /* the page's id */
    uint64_t version; /* of the page after the change */
    uint64_t epoch;   /* of the page after the change */
    int64_t time_ns;  /* since 1970 */
} mmsb__journal_head_t;

_Static_assert(sizeof(mmsb__journal_head_t) == 40, "the file's record head has 40 bytes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are stored as they lie in memory");

/* The body of CREATE, and of ADOPT before the bytes. */
typedef struct mmsb__journal_create {
    uint64_t size;
    int32_t location;
    int32_t device;
    int32_t numa_node;
    uint32_t state; /* 1 adopted, 2 read-only */
} mmsb__journal_create_t;

_Static_assert(sizeof(mmsb__journal_create_t) == 24, "the body of CREATE has 24 bytes");

/* Bytes in memory that become part of a body. */
typedef struct mmsb__piece {
    const void *bytes;
    uint64_t length;
} mmsb__piece_t;

/* ------------------------------------------------------------------------------------------------------ rings ---- */

#define MMSB__RING_HEAD_BYTES 64                  /* bytes at the front of a buffer that Go fills */
#define MMSB__RING_BYTES_MIN (UINT64_C(64) << 10) /* of a buffer; a multiple of 4096 */
#define MMSB__RING_BYTES_MAX (UINT64_C(4) << 20)  /* the longest frame that readers take */
/* A buffer has one mark for each 32 bytes, in which at most one group begins: 0, or 1 + the word of 8 bytes in which a group
 * begins that is complete. */
#define MMSB__RING_MARK_SHIFT 5
/* The memory of two buffers, and behind them of their marks. */
#define MMSB__RING_MEMORY(buffer_bytes) (2 * ((buffer_bytes) + ((buffer_bytes) >> MMSB__RING_MARK_SHIFT)))

typedef struct mmsb__ring_buffer {
    uint8_t *bytes;
    uint8_t *marks;
    uint64_t first;                               /* sequence number of its first record */
    uint64_t used;                                /* bytes of what was taken of it, whose head and marks are still there */
    uint32_t filled __attribute__((aligned(64))); /* bytes after the frame's head that are copied */
    uint32_t awaited;                             /* 1: the writer sleeps until filled advances */
} mmsb__ring_buffer_t;

/* Whether the writer sleeps: until a time, or until there is a record. */
#define MMSB__AWAKE 0
#define MMSB__ASLEEP_TIMED 1
#define MMSB__ASLEEP_IDLE 2

typedef struct mmsb__ring {
    /* Bits 0 … 31: bytes of the active buffer that are reserved, in words of 8; 32 … 59: its records; 60: which buffer it is. */
    uint64_t word __attribute__((aligned(64)));
    mmsb__ring_buffer_t buffers[2];
    uint64_t capacity; /* of a buffer */
    void *memory;      /* the mapping that holds them; NULL: it is the opener's, and shared with a file */
    int64_t interval_ns;
    uint32_t each_call; /* 1: mmsb__ring_wait waits */
    uint32_t open;      /* 1 from open to close */
    uint32_t context;   /* its index */
    uint32_t refuses;   /* 1: the context is only to be read, also through pins */

    uint32_t turns __attribute__((aligned(64))); /* futex: advances when waiting for space may be over */
    uint32_t turn_waiters;
    uint32_t rounds; /* futex: advances when more is durable */
    uint32_t round_waiters;
    uint64_t durable; /* every record up to this sequence number is on the disk */
    uint64_t wanted;  /* somebody waits until this one is */

    /* Futex: 1 while somebody takes records out and writes them; 2: and another waits for that. It is the writer, unless it
     * sleeps, or a call that waits for its own records. */
    uint32_t seat __attribute__((aligned(64)));
    uint32_t bell;    /* futex: advances when the writer has a reason to look */
    uint32_t asleep;  /* MMSB__AWAKE, … */
    uint32_t pressed; /* 1: somebody waits for the other buffer */
    uint32_t stopping;
    uint64_t taken; /* only for who has the seat, like the next two: the last sequence number that was taken */
    int64_t taken_at;
    uint32_t unwritten; /* 1: what was taken last could not be written: it stays for who comes after a kill */

    uint64_t waits;           /* how often a call has slept until the disk took records, or had space for them; never reset */
    uint64_t waited_ns;       /* and how long, all threads together */
    uint64_t space_waited_ns; /* of it: for space on the disk */

    int64_t space_patience_ns; /* how long changes wait for space after the disk is found full */
    int64_t space_until;       /* until when, since the disk is full */
    mmsb_status_t failed;      /* what calls return since the disk failed */
    int32_t failed_domain;
    int32_t failed_foreign;
    char failed_text[512];
} mmsb__ring_t;

#define MMSB__RING_BUFFER_SHIFT 60
#define MMSB__RING_GREAT (UINT64_C(1) << 61)  /* a group larger than a buffer is being put; all others wait */
#define MMSB__RING_CLOSED (UINT64_C(1) << 62) /* no record is taken: closed, or failed */
#define MMSB__RING_RECORD (UINT64_C(1) << 32)

/* The number of open rings and open groups (group.h), and the rings by context index. A ring is never freed, but opened again. */
extern uint32_t mmsb__rings_open;
extern mmsb__ring_t *mmsb__rings[MMSB__CONTEXTS];

/* The ring of a context; NULL = it has no journal. One load if no context has a journal or a group. */
static inline mmsb__ring_t *mmsb__ring_for(uint32_t context_index) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED) == 0))
        return NULL;
    mmsb__ring_t *ring = __atomic_load_n(&mmsb__rings[context_index], __ATOMIC_ACQUIRE);
    return ring && __atomic_load_n(&ring->open, __ATOMIC_RELAXED) ? ring : NULL;
}

/* ----------------------------------------------------------------------------------------------------- groups ---- */

typedef struct mmsb__group {
    mmsb__ring_t *ring; /* NULL: the journal was closed meanwhile; nothing is put */
    mmsb__ring_buffer_t *buffer;
    uint8_t *at;              /* address of the next record; NULL: the group is larger than a buffer, is held, or has no ring */
    uint8_t *begins;          /* that of the first; NULL likewise */
    uint64_t left;            /* records still to come */
    uint64_t reserved;        /* bytes, reported as filled at the end */
    uint64_t last;            /* sequence number of the last record; what to wait for; 0 = nothing */
    mmsb__open_group_t *held; /* the records wait in this group until it commits; NULL = they go to the ring */
    int64_t time_ns;
    mmsb_status_t status;
} mmsb__group_t;

/* The space that a record takes. */
static inline uint64_t mmsb__journal_space(uint64_t body) {
    return (sizeof(mmsb__journal_head_t) + body + 7) & ~UINT64_C(7);
}
/* The record that a group of several begins with. */
#define MMSB__JOURNAL_GROUP_SPACE (sizeof(mmsb__journal_head_t) + 8)
/* The same for a RUN record, and for the record of any delta. */
static inline uint64_t mmsb__journal_run_space(uint64_t length) {
    return mmsb__journal_space(8 + length);
}
uint64_t mmsb__journal_delta_space(const mmsb_delta_t *delta);

/* Reserves space for a group: records of bytes together, each counted by its space function. Waits while both buffers are full.
 * In a group that the thread has open (group.h) the records wait there. Errors: the journal's, MMSB_E_IO or MMSB_E_NO_SPACE, with
 * the disk's errno; those of a group's memory; the caller then changes nothing. */
mmsb_status_t mmsb__ring_begin(mmsb__ring_t *ring, mmsb__group_t *group, uint64_t bytes, uint64_t records);
/* The same for the records of a group that commits. */
mmsb_status_t mmsb__ring_begin_commit(mmsb__ring_t *ring, mmsb__group_t *group, uint64_t bytes, uint64_t records);
/* Puts a record: the caller sets head.kind, flags (ANNOTATED), form, page, version and epoch. */
void mmsb__ring_put(mmsb__group_t *group, mmsb__journal_head_t head, const mmsb__piece_t *pieces, size_t count);
/* Puts the record of a checked delta, in the delta's form. */
void mmsb__ring_put_delta(mmsb__group_t *group, uint64_t page, uint64_t version, uint64_t epoch, const mmsb_delta_t *delta);
/* All records are put. Fails only if the group was larger than a buffer and the disk failed meanwhile: a replay then has none of
 * it. */
mmsb_status_t mmsb__ring_end(mmsb__group_t *group);
/* Puts one record as a group of its own, completely before anything changes. *sequence is what to wait for. */
mmsb_status_t mmsb__ring_append(mmsb__ring_t *ring, mmsb__journal_head_t head, const mmsb__piece_t *pieces, size_t count,
                                uint64_t *sequence);
mmsb_status_t mmsb__ring_append_delta(mmsb__ring_t *ring, uint64_t page, uint64_t version, uint64_t epoch,
                                      const mmsb_delta_t *delta, uint64_t *sequence);

void mmsb__ring_put_run_slow(mmsb__group_t *group, uint64_t page, uint64_t version, uint64_t epoch, uint64_t offset,
                             const void *payload, uint64_t length);

/* Puts the record of a delta that is one run. */
static inline void mmsb__ring_put_run(mmsb__group_t *group, uint64_t page, uint64_t version, uint64_t epoch, uint64_t offset,
                                      const void *payload, uint64_t length) {
    if (MMSB__UNLIKELY(!group->at)) {
        mmsb__ring_put_run_slow(group, page, version, epoch, offset, payload, length);
        return;
    }
    mmsb__journal_head_t *head = (mmsb__journal_head_t *)(void *)group->at;
    group->left--;
    *head = (mmsb__journal_head_t){(uint32_t)(sizeof *head + 8 + length),
                                   MMSB__JOURNAL_RUN,
                                   group->left > 0 ? MMSB__JOURNAL_MORE : 0,
                                   0,
                                   page,
                                   version,
                                   epoch,
                                   group->time_ns};
    memcpy(head + 1, &offset, 8);
    uint8_t *to = group->at + sizeof *head + 8;
    group->at += mmsb__journal_run_space(length);
    if (MMSB__LIKELY(length == 64)) { /* a constant for the compiler */
        memcpy(to, payload, 64);
        return;
    }
    if (length > 0)
        memcpy(to, payload, length);
    memset(to + length, 0, (size_t)(group->at - (to + length)));
}

/* ---------------------------------------------------------------------------------------------------- waiting ---- */

/* The error of who pins a page for writing: MMSB_OK, or the ring's where the context is only to be read. */
mmsb_status_t mmsb__ring_check_pin(uint32_t context_index);

/* How long changes wait after the disk is found full; 0: they fail, also those that wait already. */
void mmsb__ring_set_patience(mmsb__ring_t *ring, int64_t nanoseconds);
/* Call when a change in a context has failed with MMSB_E_NO_SPACE and the thread holds nothing: waits until the journal goes on,
 * as long as the ring's patience lasts. 1: try again. 0 at once where the journal was not the reason or its calls do not wait,
 * and in a group: the save that the journal goes on with waits for that. */
int mmsb__ring_await_space(uint32_t context_index);

/* Returns when the record is on the disk if the journal's durability is "each call"; else at once. Call it with no page locked:
 * it takes as long as the disk does. Errors: MMSB_E_NOT_DURABLE; the change is made, but a replay may not have it. */
mmsb_status_t mmsb__ring_wait(mmsb__ring_t *ring, uint64_t sequence);
/* The same with any durability, for at most patience_ns (INT64_MAX: for ever): MMSB_E_WOULD_BLOCK, with no error stored, when the
 * time is over. */
mmsb_status_t mmsb__ring_flush(mmsb__ring_t *ring, uint64_t sequence, int64_t patience_ns);
/* The last sequence number that was given to a record. */
uint64_t mmsb__ring_last(mmsb__ring_t *ring);

/* ------------------------------------------------------------------------------------------------ for the writer ---- */

/* Opens the ring of a context that has no open one: its first record gets the number next. Records may wait interval_ns for
 * others; each_call: mmsb__ring_wait waits. buffer_bytes is the same each time, because threads may still look at a ring that was
 * closed. shared is MMSB__RING_MEMORY, zeros, which stays the caller's and is shared with a file; NULL: the ring maps its own,
 * which ends with the process. Errors: MMSB_E_OUT_OF_MEMORY, MMSB_E_INVALID_ARGUMENT. */
mmsb_status_t mmsb__ring_open(uint32_t context_index, uint64_t next, uint64_t buffer_bytes, int64_t interval_ns, int each_call,
                              void *shared);
/* Stops the ring: it accepts no more records; take hands out the rest and then returns -1. Returns at once. */
void mmsb__ring_stop(mmsb__ring_t *ring);
/* Call after take returned -1, or after a failure: waits for threads that still copy, and gives back the buffers. */
void mmsb__ring_close(mmsb__ring_t *ring);

/* A buffer for the disk. It belongs to the writer until the next take: by then it is written. */
typedef struct mmsb__ring_batch {
    uint8_t *bytes;
    uint64_t used;     /* bytes, with the frame's head */
    uint64_t capacity; /* bytes after the used ones up to the next multiple of 4096 are zero */
    uint64_t first;    /* sequence number of the first record */
    uint32_t count;    /* records */
    uint32_t ends;     /* 1: the last record ends its group for certain */
    uint32_t wanted;   /* 1: somebody waits until it is durable */
} mmsb__ring_batch_t;

/* Waits for records: 1 = write *batch; 0 = there were none for patience_ns (negative: for ever), or somebody waits for durability
 * of what was written; -1 = the ring is stopped and empty, or has failed. */
int mmsb__ring_take(mmsb__ring_t *ring, int64_t patience_ns, mmsb__ring_batch_t *batch);
/* Every record up to this one is on the disk. */
void mmsb__ring_durable(mmsb__ring_t *ring, uint64_t sequence);
/* The disk failed: calls that would be journalled fail from now on. */
void mmsb__ring_fail(mmsb__ring_t *ring, mmsb_status_t code, int32_t domain, int32_t foreign, const char *text, size_t length);

#pragma GCC visibility pop
#endif
