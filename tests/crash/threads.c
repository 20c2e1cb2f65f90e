/* Threads of one worker that write at the same time, each to pages of its own. */
#include "threads.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 700, FIRST_ID = 1, FIRST_OTHER_ID = 1000 };

static mmsb_context_t context;
static counter_t *counters;
static way_t way;
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

/* Beside its pages a thread has another one since its first group: group n ends that of group n - 1 and makes it anew. */
static uint64_t other_id(uint32_t thread, uint64_t n) {
    return FIRST_OTHER_ID + 2 * thread + n % 2;
}

static uint64_t other_size(uint64_t n) {
    return 8 + n % 500 * 8;
}

/* What goes through Go: an id, other memory, metadata, a dependency. */
static mmsb_status_t change_other_page(mmsb_page_t first, uint32_t thread, uint64_t n) {
    mmsb_page_t old = 0, made = 0;
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = other_id(thread, n);
    mmsb_status_t status = mmsb_page_create(context, 8, &options, &made);
    if (status == MMSB_OK) {
        status = mmsb_page_write(made, 0, &n, sizeof n);
    }
    if (status == MMSB_OK) {
        const uint64_t size = other_size(n);
        status = mmsb_page_resize_many(&made, &size, 1, NULL);
    }
    if (status == MMSB_OK) {
        status = mmsb_page_dependency_add(first, made);
    }
    if (status == MMSB_OK && mmsb_page_lookup(context, other_id(thread, n - 1), &old) == MMSB_OK) {
        status = mmsb_page_destroy(old);
    }
    return status != MMSB_OK ? status : mmsb_page_metadata_set(first, "n", 1, &n, sizeof n);
}

/* One group, or half of it and another half where that is planted; it is not committed. */
static mmsb_status_t change_in_group(const mmsb_page_range_t *ranges, uint32_t thread, uint64_t n) {
    mmsb_status_t status = mmsb_group_begin(context);
    for (uint32_t i = 0; status == MMSB_OK && i < WRITER_PAGES; i++) {
        status = mmsb_page_write(ranges[i].page, 0, ranges[i].buffer, ranges[i].length);
        if (status == MMSB_OK && way == IN_HALF_GROUPS && i == WRITER_PAGES / 2) {
            status = mmsb_group_commit(context);
            status = status != MMSB_OK ? status : mmsb_group_begin(context);
        }
    }
    return status != MMSB_OK ? status : change_other_page(ranges[0].page, thread, n);
}

/* The n-th change of a thread. */
static mmsb_status_t change_once(const mmsb_page_range_t *ranges, uint32_t thread, uint64_t n) {
    if (way == IN_BATCHES) {
        return mmsb_page_write_many(ranges, WRITER_PAGES, NULL);
    }
    mmsb_status_t status = change_in_group(ranges, thread, n);
    if (status == MMSB_OK && n % 4 == 0 && way != IN_HALF_GROUPS) { /* of this one nothing is left */
        status = mmsb_group_rollback(context);
        status = status != MMSB_OK ? status : change_in_group(ranges, thread, n);
    }
    if (way == BEFORE_THE_COMMIT) {
        counters[thread].returned = n;
    }
    return status != MMSB_OK ? status : mmsb_group_commit(context);
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
        status = change_once(ranges, thread, n);
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

static char wrong[300];

/* What the n-th group of a thread has changed beside its pages; before the first one nothing is there. */
static const char *group_restored(mmsb_page_t first, uint32_t thread, uint64_t n) {
    uint64_t seen = 0, key_number = 0;
    size_t length = 0, children = 0;
    mmsb_page_t other = 0, gone = 0, child = 0;
    int whole = mmsb_page_lookup(context, other_id(thread, n + 1), &gone) == MMSB_E_NOT_FOUND;
    mmsb_status_t found = mmsb_page_lookup(context, other_id(thread, n), &other);
    mmsb_status_t known = mmsb_page_metadata_get(first, "n", 1, &key_number, sizeof key_number, &length);
    whole = whole && mmsb_page_children(first, &child, 1, &children) == MMSB_OK;
    if (n == 0) {
        whole = whole && found == MMSB_E_NOT_FOUND && known == MMSB_E_NOT_FOUND && children == 0;
    } else {
        whole = whole && found == MMSB_OK && known == MMSB_OK && key_number == n && children == 1 && child == other;
        whole = whole && mmsb_page_size(other) == other_size(n) && mmsb_page_read(other, 0, &seen, sizeof seen) == MMSB_OK;
        whole = whole && seen == n;
    }
    if (!whole) {
        snprintf(wrong, sizeof wrong, "thread %u: of group %llu the page has %llu, the metadata %llu, %zu children: half a group",
                 thread, (unsigned long long)n, (unsigned long long)seen, (unsigned long long)key_number, children);
        return wrong;
    }
    return NULL;
}

static const char *thread_restored(uint32_t thread, way_t of, const counter_t *low, counter_t *now) {
    static uint64_t words[WRITER_PAGES][WORDS];
    mmsb_page_range_t ranges[WRITER_PAGES];
    if (ranges_of(thread, ranges, words) != MMSB_OK || mmsb_page_read_many(ranges, WRITER_PAGES, NULL) != MMSB_OK) {
        return mmsb_last_error();
    }
    uint64_t n = words[0][0] >> 16;
    for (uint32_t i = 0; i < WRITER_PAGES; i++) {
        for (uint32_t at = 0; at < size_of(i) / 8; at++) {
            uint64_t wanted = n == 0 ? 0 : word_of(thread, i, n);
            if (words[i][at] != wanted) {
                snprintf(wrong, sizeof wrong, "thread %u: word %u of page %u is %llx, not %llx: half a batch or group", thread,
                         at, i, (unsigned long long)words[i][at], (unsigned long long)wanted);
                return wrong;
            }
        }
    }
    if (n < low->returned || n > low->started) {
        snprintf(wrong, sizeof wrong, "thread %u: change %llu came back, not one from %llu to %llu", thread,
                 (unsigned long long)n, (unsigned long long)low->returned, (unsigned long long)low->started);
        return wrong;
    }
    *now = (counter_t){n, n};
    return of == IN_BATCHES ? NULL : group_restored(ranges[0].page, thread, n);
}

const char *threads_restored(mmsb_context_t of, way_t changed, const counter_t *low, counter_t *now) {
    context = of;
    const char *text = NULL;
    for (uint32_t thread = 0; text == NULL && thread < WRITERS; thread++) {
        text = thread_restored(thread, changed, &low[thread], &now[thread]);
    }
    return text;
}

const char *threads_start(counter_t *of, way_t changing) {
    counters = of;
    way = changing;
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
