/*
 * log.c — the history of a runtime: a ring of events, which C and Go write.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "blocks.h"

#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))
#define PATIENCE 64 /* looks at a lock before its holder gets the processor */

int32_t mmsb__block_thread(void) {
    static _Thread_local int32_t thread INITIAL_EXEC;
    if (thread == 0)
        thread = (int32_t)syscall(SYS_gettid);
    return thread;
}

static void lock(mmsb__block_log_t *log) {
    for (int looks = 1; __atomic_exchange_n(&log->lock, 1, __ATOMIC_ACQUIRE); looks++)
        if (looks % PATIENCE == 0)
            sched_yield();
}

static void unlock(mmsb__block_log_t *log) {
    __atomic_store_n(&log->lock, 0, __ATOMIC_RELEASE);
}

/* The processor's clock, which costs a quarter of the system's, and how far it comes in a part of a millisecond. */
static inline uint64_t ticks(uint64_t *part) {
#if defined(__x86_64__)
    *part = 1 << 20;
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now, frequency;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
    *part = frequency / 2048;
    return now;
#else
    *part = 0;
    return 0;
#endif
}

static int64_t time_of(mmsb__block_log_t *log) {
    uint64_t part, now = ticks(&part);
    if (now - log->ticks >= part) {
        struct timespec time;
        clock_gettime(CLOCK_REALTIME, &time);
        log->ticks = now;
        log->time = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    }
    return log->time;
}

static inline mmsb__block_event_t *ring_of(mmsb__block_log_t *log) {
    return (mmsb__block_event_t *)(log + 1);
}

mmsb__block_event_t *mmsb__block_log_begin(mmsb__block_log_t *log) {
    lock(log);
    return &ring_of(log)[log->at];
}

void mmsb__block_log_end(mmsb__block_log_t *log, mmsb__block_event_t *event) {
    event->number = ++log->count;
    event->time = time_of(log);
    if (++log->at == log->capacity)
        log->at = 0;
    unlock(log);
}

void mmsb__block_log_note(mmsb__block_log_t *log, const mmsb__block_event_t *event) {
    mmsb__block_event_t *to = mmsb__block_log_begin(log);
    *to = *event;
    mmsb__block_log_end(log, to);
}

uint64_t mmsb__block_log_read(mmsb__block_log_t *log, uint64_t behind, mmsb__block_event_t *events, uint64_t room,
                              uint64_t *lost) {
    uint64_t count = 0;
    lock(log);
    *lost = 0;
    if (behind < log->count) {
        uint64_t has = log->count < log->capacity ? log->count : log->capacity, first = behind;
        if (first < log->count - has) {
            first = log->count - has;
            *lost = first - behind;
        }
        while (count < room && first + count < log->count) {
            events[count] = ring_of(log)[(first + count) % log->capacity];
            count++;
        }
    }
    unlock(log);
    return count;
}
