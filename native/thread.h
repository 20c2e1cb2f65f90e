/*
 * thread.h — what a thread keeps: its number as owner of page locks, its last error, and its caches of free pages; and the two
 * words that say whether calls may run, and whether they may take the short way.
 *
 * A cache belongs to one thread and one context. It holds magazines with the handles of the next pages, so that creating and
 * destroying a small page touches nothing that other threads write. The cache exchanges full magazines with the context's depot,
 * which consists of stacks without locks; a thread asks Go for memory only when the depot is empty (Bonwick and Adams, "Magazines
 * and Vmem", 2001). The depot has shards: a thread puts its magazines into one and looks there first, so that memory stays near
 * the processor that used it last. From the other shards it takes magazines beyond MMSB__SHARD_KEEPS before it asks Go, and the
 * rest when Go has no memory left: if threads share a few magazines, their records come to lie line by line beside each other,
 * and both threads are slower by a third.
 *
 * A thread sets its cache busy, with plain stores, while it works in it. A caller that needs all caches idle (the end of a
 * context, an id that is taken) asks the kernel for a barrier on all threads and waits until none is busy: mmsb__synchronize.
 */
#ifndef MMSB_NATIVE_THREAD_H
#define MMSB_NATIVE_THREAD_H

#include <pthread.h>

#include "record.h"
#include "upcalls.h"

#pragma GCC visibility push(hidden)

#define MMSB__LIKELY(condition) __builtin_expect(!!(condition), 1)
#define MMSB__UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* 0, or what gate.c deals with: the library has not started yet, it was forked, or it is poisoned. The first call starts it: the
 * start reserves what every call takes for granted. */
#define MMSB__NOT_STARTED (-1)
extern mmsb_status_t mmsb__gate;

/* How many reasons there are for creating and destroying to take their longer way: the gate is closed, the kernel knows no
 * membarrier, a context is captured or frozen, a journal or a group is open. One word, because these calls are counted in
 * nanoseconds. It moves before what it stands for comes and after it has gone. */
extern uint32_t mmsb__detours;

static inline void mmsb__detour_begin(void) {
    __atomic_add_fetch(&mmsb__detours, 1, __ATOMIC_SEQ_CST);
}

static inline void mmsb__detour_end(void) {
    __atomic_sub_fetch(&mmsb__detours, 1, __ATOMIC_SEQ_CST);
}

#define MMSB__MAGAZINE_ROUNDS 62 /* the magazine fills 512 bytes */
#define MMSB__CONTEXTS 65536u
#define MMSB__WRITING_SLOTS 8u

typedef struct mmsb__magazine {
    uint32_t count;
    uint32_t next; /* number of the magazine below in the depot's stack */
    uint32_t number;
    uint32_t depth; /* how many magazines there are from here to the bottom of the stack */
    uint64_t handles[MMSB__MAGAZINE_ROUNDS];
} mmsb__magazine_t;

typedef struct mmsb__cache {
    uint64_t context;       /* handle; 0 = the context has ended */
    uint64_t plain_context; /* the same if the default location is the host and there is no guard; else 0 */
    uint32_t context_index;
    uint32_t open_index; /* the same until the context ends; then MMSB__CONTEXTS */
    uint32_t shard;      /* of the depot */
    uint32_t thread;     /* the owner that the thread is */
    uint32_t busy;       /* 1 while the thread works in the cache */
    uint32_t reserved;
    struct mmsb__context_record *owner; /* NULL = the cache is free for another context */
    uint64_t creates, frees;            /* written by the thread alone, read by all */
    uint64_t bytes_created, bytes_freed;
    mmsb__magazine_t *loaded[MMSB__SMALL_CLASSES];
    mmsb__magazine_t *previous[MMSB__SMALL_CLASSES];
    struct mmsb__cache *next_of_thread;
    struct mmsb__cache *next_of_context;
} mmsb__cache_t;

#define MMSB__SHARDS 16
#define MMSB__SHARD_KEEPS 32 /* full magazines of a size class: 2000 pages */

typedef struct mmsb__shard {
    uint64_t full[MMSB__SMALL_CLASSES]; /* tag (32) | number of the first full magazine (32) */
    uint64_t unused[5];                 /* no two shards share a line of the cache */
} mmsb__shard_t;

typedef struct mmsb__thread {
    uint32_t owner; /* owner number of the thread: 1 … MMSB__OWNERS - 1, shifted as in the state word */
    mmsb_status_t error_code;
    int32_t error_domain;
    int32_t error_foreign;
    mmsb__cache_t *caches;
    mmsb__open_group_t *groups; /* that it has open (group.h) */
    struct mmsb__lane *lanes;   /* of command buffers, the one that it used last first (commands.h) */
    void *plans;                /* memory for the batches of delta_batch.c */
    size_t plan_capacity;
    uint32_t writing[MMSB__WRITING_SLOTS]; /* writing.h */
    struct mmsb__lent *lent;               /* of what it began, and any thread may end (writing.h); NULL = nothing yet */
    uint32_t gives_back;                   /* 1: it calls the release function of adopted memory, and may hold locks (tensor.h) */
    char error_text[1024];
} mmsb__thread_t;

/* A context as C sees it. The struct is never freed; handle says which context uses it. */
typedef struct mmsb__context_record {
    uint64_t handle; /* 0 = none, or ending */
    uint32_t index;
    uint32_t generation; /* of the newest handle */
    int32_t default_location;
    uint32_t reserved;
    uint64_t id_factor; /* automatic ids: the handle's low 60 bits times this odd number, modulo 2^60 */
    uint64_t id_inverse;
    mmsb__cache_t *caches; /* under the lock of thread.c */
    mmsb__shard_t depot[MMSB__SHARDS];
    uint64_t creates, frees; /* by calls that use no cache, and by caches that were given up */
    uint64_t bytes_created, bytes_freed;
    uint64_t peak_bytes;
    int32_t simulated;                     /* 1: its devices are simulated */
    int32_t disk_file;                     /* of its pages on disk; there is none before the first of them */
    uint32_t sections, lets_write, passes; /* writing.h */
    uint32_t guard_waits;                  /* guard.h: 1: a report waits for a call */
    uint64_t guard_every, guard_pages;     /* 0 = no guard; pages that were counted */
    uint64_t strayed; /* how often bytes that may have been written through pointers came into other memory, or another page */
} mmsb__context_record_t;

/* The two variables per thread. A library that is loaded late has little space for them, hence pointers. */
extern _Thread_local mmsb__cache_t *mmsb__current __attribute__((tls_model("initial-exec")));
extern _Thread_local mmsb__thread_t *mmsb__self __attribute__((tls_model("initial-exec")));

/* This thread, registered by its first call; NULL without memory or owner numbers (mmsb__thread_fail sets the error). */
mmsb__thread_t *mmsb__thread_enter(void);
mmsb_status_t mmsb__thread_fail(void);

/* How much of a text fits into so many bytes: it ends with a whole character. */
static inline size_t mmsb__text_fits(const char *text, size_t length, size_t most) {
    if (length <= most)
        return length;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

/* Stores the thread's last error and returns the code. */
mmsb_status_t mmsb__fail(mmsb_status_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
mmsb_status_t mmsb__fail_foreign(mmsb_status_t code, int32_t domain, int32_t foreign_code, const char *text, size_t length)
    __attribute__((cold));

/* The thread whose error_* fields are the caller's last error. Never NULL. */
mmsb__thread_t *mmsb__error(void);

/* The thread's cache for a context, made current; NULL with the last error set. */
mmsb__cache_t *mmsb__cache_enter(uint64_t context);

/* Context records. */
mmsb__context_record_t *mmsb__context_record(uint32_t index);
/* The record of a live context; NULL with the last error set. */
mmsb__context_record_t *mmsb__context_find(uint64_t context);
/* Zeroed memory that shares neither its cache lines nor the line beside them, which processors fetch as well, with other threads'
 * data. free() gives it back. */
void *mmsb__alone(size_t size);
/* What every thread has stored is seen. Where the system denies the barrier from some moment on, as a sandbox does that begins
 * after the library, threads make fences themselves from then on (mmsb__busy_fence); what they stored before that is seen after a
 * while. */
void mmsb__barrier(void);
/* Waits until no thread works in a cache of the context with what it read before the call. */
void mmsb__synchronize(mmsb__context_record_t *context);
/* Detaches the context from all threads: empties its caches and adds their counters to the context's. */
void mmsb__context_detach(mmsb__context_record_t *context);
/* Gives what the calling thread's magazines have of a context to the depot: near the memory limit other threads may need it, or
 * memory for other sizes. A thread that works in its cache, and may be between two looks at a magazine, keeps what it has. */
void mmsb__magazines_leave(uint32_t context_index);
/* Counters of the context and of all its caches. */
void mmsb__context_count(mmsb__context_record_t *context, uint64_t *creates, uint64_t *frees, uint64_t *bytes_created,
                         uint64_t *bytes_freed);
/* Bytes of all caches and magazines. */
uint64_t mmsb__cache_bytes(void);
/* Prepares the magazines and asks the kernel for membarrier. Returns 0 or errno. */
int mmsb__thread_start(void);
/* How many bytes of addresses that reserves. */
uint64_t mmsb__thread_addresses(void);

/* The slow paths of the magazine operations: take another magazine from the depot or Go; make space in the loaded one. */
mmsb_status_t mmsb__magazine_refill(mmsb__cache_t *cache, uint32_t class_number);
mmsb_status_t mmsb__magazine_make_space(mmsb__cache_t *cache, uint32_t class_number);
/* The cache of this thread for the context with this index; NULL with the last error set. */
mmsb__cache_t *mmsb__cache_for(uint32_t context_index);
/* Pops a free handle. Sets the cache busy, and leaves it so on MMSB_OK only. */
mmsb_status_t mmsb__cache_pop(mmsb__cache_t *cache, uint32_t class_number, uint64_t *handle);
/* Makes space for one handle of a class. Sets the cache busy, and leaves it so on MMSB_OK only. */
mmsb_status_t mmsb__cache_make_space(mmsb__cache_t *cache, uint32_t class_number);
/* Takes the handles of a full magazine out of the depot. Returns their number; 0 = the depot is empty. */
uint32_t mmsb__depot_take(mmsb__context_record_t *context, uint32_t class_number, uint64_t *handles);

#if defined(MMSB_INVARIANTS)
/* Visits every magazine of a context on which no call runs: those of caches, then those of the depot. */
void mmsb__magazines_visit(mmsb__context_record_t *context,
                           void (*visit)(void *argument, const mmsb__magazine_t *magazine, uint32_t class_number),
                           void *argument);
#endif

/* Begins a section of work in a cache. On a kernel without membarrier this is a full fence. */
extern uint32_t mmsb__busy_fence;

/* Enough for a caller that looks at mmsb__detours next. */
static inline void mmsb__cache_set_busy(mmsb__cache_t *cache) {
    __atomic_store_n(&cache->busy, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void mmsb__cache_begin(mmsb__cache_t *cache) {
    mmsb__cache_set_busy(cache);
    if (MMSB__UNLIKELY(mmsb__busy_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void mmsb__cache_end(mmsb__cache_t *cache) {
    __atomic_store_n(&cache->busy, 0, __ATOMIC_RELEASE);
}

/* 1 while the cache's context has not begun to end; only valid while the cache is busy. */
static inline int mmsb__cache_open(const mmsb__cache_t *cache) {
    return __atomic_load_n(&cache->context, __ATOMIC_RELAXED) != 0;
}

static inline void mmsb__counter_add(uint64_t *counter, uint64_t amount) { /* one writer, many readers */
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + amount, __ATOMIC_RELAXED);
}

#pragma GCC visibility pop
#endif
