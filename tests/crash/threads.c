/* Threads of one worker that write at the same time, each to pages of its own. */
#include "threads.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { WORDS = 700, FIRST_ID = 1 };

static mmsb_context_t context;
static counter_t *counters;
static char failure[512]; /* of the first thread that fails */
static int failed;

/* What page number i of a thread holds after its n-th change. Sizes are 8 words to 5600 bytes. */
static uint64_t size_of(uint32_t i) {
    return (i + 1) * WORDS / WRITER_PAGES * 8;
}

static uint64_t word_of(uint32_t thread, uint32_t i, uint64_t n) {
    return n << 16 | thread << 8 | i;
}

static mmsb_status_t ranges_of(uint32_t thread, mmsb_page_range_t *ranges, uint64_t (*words)[WORDS]) {
    for (uint32_t i = 0; i < WRITER_PAGES; i++) {
        ranges[i] = (mmsb_page_range_t){.length = size_of(i), .buffer = words[i]};
        mmsb_status_t status = mmsb_page_lookup(context, FIRST_ID + thread * WRITER_PAGES + i, &ranges[i].page);
        if (status != MMSB_OK) {
            return status;
        }
    }
    return MMSB_OK;
}

static void *change_pages(void *argument) {
    uint32_t thread = (uint32_t)((counter_t *)argument - counters);
    counter_t *counter = &counters[thread];
    uint64_t words[WRITER_PAGES][WORDS];
    mmsb_page_range_t ranges[WRITER_PAGES];
    mmsb_status_t status = ranges_of(thread, ranges, words);
    while (status == MMSB_OK) {
        uint64_t n = counter->started + 1;
        for (uint32_t i = 0; i < WRITER_PAGES; i++) {
            for (uint32_t at = 0; at < WORDS; at++) {
                words[i][at] = word_of(thread, i, n);
            }
        }
        counter->started = n;
        status = mmsb_page_write_many(ranges, WRITER_PAGES, NULL);
        if (status == MMSB_OK) {
            counter->returned = n;
        }
    }
    if (__atomic_exchange_n(&failed, 1, __ATOMIC_SEQ_CST) == 0) {
        snprintf(failure, sizeof failure, "thread %u: %s", thread, mmsb_last_error());
    }
    return NULL;
}

const char *threads_found(mmsb_context_t of) {
    context = of;
    for (uint32_t page = 0; page < WRITERS * WRITER_PAGES; page++) {
        mmsb_page_options_t options;
        mmsb_page_options_init(&options);
        options.id = FIRST_ID + page;
        mmsb_page_t handle = 0;
        if (mmsb_page_create(context, size_of(page % WRITER_PAGES), &options, &handle) != MMSB_OK) {
            return mmsb_last_error();
        }
    }
    return NULL;
}

const char *threads_restored(mmsb_context_t of, const counter_t *low, counter_t *now) {
    static char text[300];
    static uint64_t words[WRITER_PAGES][WORDS];
    context = of;
    for (uint32_t thread = 0; thread < WRITERS; thread++) {
        mmsb_page_range_t ranges[WRITER_PAGES];
        if (ranges_of(thread, ranges, words) != MMSB_OK || mmsb_page_read_many(ranges, WRITER_PAGES, NULL) != MMSB_OK) {
            return mmsb_last_error();
        }
        uint64_t n = words[0][0] >> 16;
        for (uint32_t i = 0; i < WRITER_PAGES; i++) {
            for (uint32_t at = 0; at < size_of(i) / 8; at++) {
                uint64_t wanted = n == 0 ? 0 : word_of(thread, i, n);
                if (words[i][at] != wanted) {
                    snprintf(text, sizeof text, "thread %u: word %u of page %u is %llx, not %llx: half a batch", thread, at, i,
                             (unsigned long long)words[i][at], (unsigned long long)wanted);
                    return text;
                }
            }
        }
        if (n < low[thread].returned || n > low[thread].started) {
            snprintf(text, sizeof text, "thread %u: change %llu came back, not one from %llu to %llu", thread,
                     (unsigned long long)n, (unsigned long long)low[thread].returned, (unsigned long long)low[thread].started);
            return text;
        }
        now[thread] = (counter_t){n, n};
    }
    return NULL;
}

const char *threads_start(counter_t *of) {
    counters = of;
    for (uint32_t thread = 0; thread < WRITERS; thread++) {
        pthread_t started;
        if (pthread_create(&started, NULL, change_pages, &counters[thread]) != 0) {
            return "no thread";
        }
    }
    return NULL;
}

const char *threads_failed(void) {
    return __atomic_load_n(&failed, __ATOMIC_SEQ_CST) ? failure : NULL;
}
