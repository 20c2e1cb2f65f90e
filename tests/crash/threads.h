/*
 * threads.h — threads of one worker that write at the same time, each to pages of its own, a batch or a group at a time. What
 * came back must have whole batches and groups only, and all that had returned.
 */
#ifndef MMSB_TESTS_CRASH_THREADS_H
#define MMSB_TESTS_CRASH_THREADS_H

#include <mmsb.h>

#include <stdint.h>

enum { WRITERS = 4, WRITER_PAGES = 6 };

/* Numbers of a thread's changes. Only the thread writes it. */
typedef struct counter {
    volatile uint64_t started;
    volatile uint64_t returned;
} counter_t;

/* How the threads change their pages; the last two are planted bugs. */
typedef enum way { IN_BATCHES, IN_GROUPS, IN_HALF_GROUPS, BEFORE_THE_COMMIT } way_t;

/* These return NULL, or what is wrong. */

/* Makes the pages of all threads. */
const char *threads_found(mmsb_context_t context);

/* Compares the pages with what each thread may have done, and says in now what it is. */
const char *threads_restored(mmsb_context_t context, way_t way, const counter_t *low, counter_t *now);

/* Starts the threads, which go on until the process ends. */
const char *threads_start(counter_t *counters, way_t way);

/* Why a thread has ended. */
const char *threads_failed(void);

#endif /* MMSB_TESTS_CRASH_THREADS_H */
