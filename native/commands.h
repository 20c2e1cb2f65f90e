/*
 * commands.h — command buffers: rings that threads fill with commands to copy masked bytes between pages, and what executes them.
 * mmsb.h says what a command means.
 *
 * Each thread has a lane of its own in each buffer that it uses: a ring with one producer, which enqueues without a lock and
 * without a counter that it shares. Who drains claims a lane, takes its commands in their order, and moves the lane's head when a
 * command is done, never before: what the head has not passed is not done, and its slot is not used again.
 *
 * A lane's memory belongs to its thread while that lives, so that a thread may look at a lane whose buffer has ended; when the
 * thread ends, to the buffer, whose next thread takes it over when it is empty. A buffer's end empties lanes with the barrier
 * that empties the caches of contexts (thread.h).
 */
#ifndef MMSB_NATIVE_COMMANDS_H
#define MMSB_NATIVE_COMMANDS_H

#include "thread.h"

#pragma GCC visibility push(hidden)

#define MMSB__COMMAND_PAGES 7 /* in a slot: the page and its dependencies */
#define MMSB__COMMAND_PARENTS UINT64_MAX

/* One line of the cache. */
typedef struct mmsb__command {
    union {
        uint64_t pages[MMSB__COMMAND_PAGES];
        struct {
            uint64_t page; /* pages[0] */
            uint64_t *all; /* with more dependencies than fit: the page and all of them, to be freed */
        };
    };
    uint64_t count; /* of dependencies, or MMSB__COMMAND_PARENTS */
} mmsb__command_t;

typedef struct mmsb__commands mmsb__commands_t;

typedef struct mmsb__lane {
    /* The producer's. */
    uint64_t handle; /* of the buffer; 0 = none: it has ended */
    mmsb__commands_t *commands;
    mmsb__command_t *slots; /* a power of two; position i is at i & mask */
    uint64_t mask, capacity;
    uint64_t tail;      /* commands that were enqueued */
    uint64_t head_seen; /* what head was when the producer looked last */
    uint64_t peak;      /* the most that have waited */
    uint64_t refused, waits, waited_ns;
    uint32_t busy;                     /* 1 while the producer is in the lane */
    uint32_t producer;                 /* its owner number; 0 = the thread has ended */
    struct mmsb__lane *next_of_thread; /* its thread's */
    struct mmsb__lane *next;           /* of the buffer; never changes while the buffer lives */

    /* Who drains. */
    uint64_t head __attribute__((aligned(128))); /* commands that are done, failed or cancelled */
    uint64_t done, failed, cancelled;
    uint32_t claimed;
} mmsb__lane_t;

#define MMSB__COMMANDS_MOST 1023u /* buffers at a time; their indices are 1 … */
#define MMSB__COMMAND_CAPACITY_MOST (UINT64_C(1) << 24)

/* Opens the buffer of a handle that Go has given out. Errors: MMSB_E_OUT_OF_MEMORY. */
mmsb_status_t mmsb__commands_open(uint64_t handle, uint64_t capacity, uint32_t workers, int persistent);
/* Drains until the buffer closes and is empty, or ends: for a thread of the library. */
void mmsb__commands_work(uint64_t handle);
/* Ends a buffer: its workers and all calls on it leave, what waits is cancelled, its memory is given back. Errors: handle errors:
 * another call has ended it. */
mmsb_status_t mmsb__commands_end(uint64_t handle);

/* As the public functions; pages NULL: the parents. */
mmsb_status_t mmsb__commands_enqueue_slow(uint64_t handle, uint64_t page, const mmsb_page_t *dependencies, size_t count,
                                          uint64_t timeout_ns);
mmsb_status_t mmsb__commands_wait(uint64_t handle, uint64_t timeout_ns);
mmsb_status_t mmsb__commands_drain(uint64_t handle, uint64_t limit, uint64_t *executed);
mmsb_status_t mmsb__commands_close(uint64_t handle, int cancels, uint64_t timeout_ns);
mmsb_status_t mmsb__commands_stats(uint64_t handle, mmsb_commands_stats_t *stats);
mmsb_status_t mmsb__commands_failures(uint64_t handle, mmsb_command_failure_t *failures, size_t capacity, size_t *count);

/* Bytes of all lanes. */
uint64_t mmsb__commands_bytes(void);

/* The thread ends: its lanes are their buffers'. */
void mmsb__lanes_leave(mmsb__thread_t *self);

/* ----------------------------------------------------------------------------------------------------- enqueue ---- */

/* Workers sleep: they are to look. */
void mmsb__commands_wake(mmsb__commands_t *commands) __attribute__((cold));

struct mmsb__commands {
    uint64_t handle;     /* 0 = none */
    uint32_t generation; /* of the newest handle */
    uint32_t closed;     /* 1: takes no more commands */
    uint32_t asleep;     /* workers that sleep, or are about to */
    uint32_t bell;       /* futex: moves when a worker has a reason to look */
    uint32_t workers;    /* that it was opened with */
    uint32_t how;        /* its commands are executed: propagate.h */
    uint64_t capacity;
    mmsb__lane_t *lanes; /* all that it has; the newest first */

    uint32_t progress __attribute__((aligned(128))); /* futex: moves when a wait may be over */
    uint32_t waiters;
    uint32_t users;   /* calls and workers that are in the buffer */
    uint32_t cancels; /* 1: what waits is not executed */

    pthread_mutex_t lock; /* of what follows */
    mmsb_command_failure_t *failures;
    uint64_t failures_first, failures_count, failures_lost;
};

/* Begins a section of the producer in its lane, which ends with a store of 0. */
static inline void mmsb__lane_enter(mmsb__lane_t *lane) {
    __atomic_store_n(&lane->busy, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (MMSB__UNLIKELY(mmsb__busy_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void mmsb__lane_leave(mmsb__lane_t *lane) {
    __atomic_store_n(&lane->busy, 0, __ATOMIC_RELEASE);
}

/* The slot at tail is filled. A worker that goes to sleep asks for a barrier between its word and its look at the tails, so that
 * here the compiler's order is enough. */
static inline void mmsb__lane_push(mmsb__lane_t *lane, uint64_t tail) {
    __atomic_store_n(&lane->tail, tail + 1, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (MMSB__UNLIKELY(mmsb__busy_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (MMSB__UNLIKELY(__atomic_load_n(&lane->commands->asleep, __ATOMIC_RELAXED) != 0))
        mmsb__commands_wake(lane->commands);
}

/* Enqueues without a call to another function: 1, or 0 with nothing done. */
static inline int mmsb__commands_enqueue_fast(uint64_t handle, uint64_t page, const mmsb_page_t *dependencies, size_t count) {
    mmsb__lane_t *lane = mmsb__self ? mmsb__self->lanes : NULL;
    if (MMSB__UNLIKELY(!lane || count >= MMSB__COMMAND_PAGES || handle == 0)) /* as lanes without a buffer have */
        return 0;
    if (MMSB__UNLIKELY(!mmsb__state_is(mmsb__state_load(mmsb__record_of(page)), page)))
        return 0;
    mmsb__lane_enter(lane);
    int enqueued = 0;
    mmsb__commands_t *commands = lane->commands;
    const uint64_t tail = lane->tail;
    /* Behind the most that have ever waited the slow path looks where the head is. */
    if (MMSB__LIKELY(__atomic_load_n(&lane->handle, __ATOMIC_RELAXED) == handle &&
                     __atomic_load_n(&commands->closed, __ATOMIC_RELAXED) == 0 && tail - lane->head_seen < lane->peak)) {
        mmsb__command_t *slot = &lane->slots[tail & lane->mask];
        uint64_t wrong = 0;
        slot->pages[0] = page;
        for (size_t i = 0; i < count; i++) {
            slot->pages[1 + i] = dependencies[i];
            wrong |= (uint64_t)(dependencies[i] == page) |
                     (uint64_t)!mmsb__state_is(mmsb__state_load(mmsb__record_of(dependencies[i])), dependencies[i]);
        }
        slot->count = dependencies ? count : MMSB__COMMAND_PARENTS;
        if (MMSB__LIKELY(!wrong)) {
            mmsb__lane_push(lane, tail);
            enqueued = 1;
        }
    }
    mmsb__lane_leave(lane);
    return enqueued;
}

#pragma GCC visibility pop
#endif
