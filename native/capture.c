/* Begins and ends captures and freezes: capture.h. capture_fill.c and capture_large.c do the capture in between. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "capture_pool.h"
#include "preimage.h"

static void turn_on(mmsb__capture_t *capture, int mode) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    __atomic_add_fetch(&mmsb__moments, 1, __ATOMIC_SEQ_CST);
    if (mode == MMSB__CAPTURE_FROZEN)
        __atomic_add_fetch(&mmsb__frozen, 1, __ATOMIC_SEQ_CST);
    mmsb__detour_begin();
    /* In this order: a thread that sees the mode sees the count, and so does every later thread, whatever other captures do. */
    __atomic_add_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&capture->mode, mode, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&mmsb__moments, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&lock);
}

static void turn_off(mmsb__capture_t *capture) {
    if (__atomic_exchange_n(&capture->mode, MMSB__CAPTURE_OFF, __ATOMIC_SEQ_CST) == MMSB__CAPTURE_FROZEN)
        __atomic_sub_fetch(&mmsb__frozen, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    mmsb__detour_end();
    mmsb__capture_await_writers(capture);
    mmsb__capture_wake();
}

void mmsb__capture_settle(mmsb__capture_t *capture) {
    mmsb__synchronize(mmsb__context_record(capture->context));
}

void mmsb__capture_await_changes(const mmsb__capture_t *capture) {
    for (uint32_t leaf = 0; leaf < capture->leaf_count; leaf++) {
        for (uint32_t at = 0; at < capture->used[leaf]; at++) {
            const mmsb__record_t *record = mmsb__record_of(capture->leaves[leaf] << MMSB__LEAF_BITS | at);
            const uint64_t state = mmsb__state_load(record), version = __atomic_load_n(&record->version, __ATOMIC_RELAXED);
            /* Who has the lock then had it before, as far as the version shows nothing else. */
            while ((state & MMSB__OWNER_MASK) && mmsb__state_load(record) == state &&
                   __atomic_load_n(&record->version, __ATOMIC_RELAXED) == version)
                sched_yield();
        }
    }
}

/* Each count by itself: writers that waited for an earlier capture may still be counted. */
static void copy_stats(mmsb__capture_stats_t *to, const mmsb__capture_stats_t *from) {
    __atomic_store_n(&to->copied_bytes, __atomic_load_n(&from->copied_bytes, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&to->copied_peak, __atomic_load_n(&from->copied_peak, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&to->waits, __atomic_load_n(&from->waits, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&to->waited_ns, __atomic_load_n(&from->waited_ns, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&to->compared_bytes, __atomic_load_n(&from->compared_bytes, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static void free_leaves(mmsb__capture_t *capture) {
    free(capture->leaves);
    free(capture->differing);
    free(capture->compared);
    capture->leaves = NULL;
    capture->differing = NULL;
    capture->compared = NULL;
    capture->leaf_count = 0;
}

mmsb__capture_t *mmsb__capture_begin(uint32_t context, const uint32_t *leaves, const uint32_t *used, uint32_t count,
                                     mmsb__saved_t **base, uint64_t copy_limit, int raw_writes) {
    mmsb__capture_t *capture = mmsb__capture_make(context);
    if (!capture)
        return NULL;
    capture->leaves = malloc((count + 1) * 2 * sizeof *leaves);
    capture->differing = base ? malloc((count + 1) * MMSB__LEAF_WORDS * sizeof(uint64_t)) : NULL;
    capture->compared = base ? calloc(count + 1, 1) : NULL;
    if (!capture->leaves || (base && (!capture->differing || !capture->compared))) {
        free_leaves(capture);
        mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory to capture %u leaves of pages", count);
        return NULL;
    }
    capture->used = capture->leaves + count + 1;
    memcpy(capture->leaves, leaves, count * sizeof *leaves);
    memcpy(capture->used, used, count * sizeof *used);
    capture->leaf_count = count;
    capture->leaf_at = capture->record_at = capture->compare_at = 0;
    capture->far_at = capture->near_at = 0;
    capture->base = base;
    capture->pool.limit = copy_limit;
    __atomic_store_n(&capture->raw_writes, raw_writes, __ATOMIC_RELAXED);
    capture->written_at = 0;
    capture->committed = 0;
    capture->removed_count = 0;
    capture->pages = capture->bytes = 0;
    capture->urgent_count = 0;
    capture->failed = MMSB_OK;
    capture->pinned = 0;
    copy_stats(&capture->stats, &(mmsb__capture_stats_t){0});
    for (uint32_t i = 0; i < count; i++)
        memset(mmsb__capture_states + ((size_t)leaves[i] << MMSB__LEAF_BITS), MMSB__CAPTURE_NONE, MMSB__LEAF_RECORDS);
    turn_on(capture, MMSB__CAPTURE_ON);
    return capture;
}

void mmsb__capture_later(uint32_t context, uint32_t leaf) {
    mmsb__capture_t *capture = mmsb__capture_of(context);
    if (capture && __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST) == MMSB__CAPTURE_ON)
        memset(mmsb__capture_states + ((size_t)leaf << MMSB__LEAF_BITS), MMSB__CAPTURE_LATER, MMSB__LEAF_RECORDS);
}

mmsb_status_t mmsb__capture_failed(const mmsb__capture_t *capture) {
    return __atomic_load_n(&capture->failed, __ATOMIC_RELAXED);
}

void mmsb__capture_stats(const mmsb__capture_t *capture, mmsb__capture_stats_t *stats) {
    copy_stats(stats, &capture->stats);
}

void mmsb__capture_compared(mmsb__capture_t *capture, uint64_t bytes) {
    __atomic_add_fetch(&capture->stats.compared_bytes, bytes, __ATOMIC_RELAXED);
}

static void free_copies(mmsb__capture_t *capture, mmsb__copy_t *copy) {
    while (copy) {
        mmsb__copy_t *next = copy->next;
        mmsb__copy_free(capture, copy);
        copy = next;
    }
}

void mmsb__capture_stop(mmsb__capture_t *capture) {
    if (capture->mode != MMSB__CAPTURE_OFF)
        turn_off(capture);
}

void mmsb__capture_end(mmsb__capture_t *capture) {
    mmsb__capture_stop(capture);
    free_copies(capture, capture->drained);
    free_copies(capture, capture->copies);
    capture->drained = capture->copies = NULL;
    for (uint32_t bucket = 0; bucket < MMSB__LARGE_BUCKETS; bucket++) {
        while (capture->large[bucket]) {
            mmsb__large_t *large = capture->large[bucket];
            capture->large[bucket] = large->next;
            mmsb__large_free(capture, large);
        }
    }
    mmsb__pool_end(&capture->pool);
    for (uint32_t i = 0; !capture->committed && i < capture->leaf_count; i++) {
        free(mmsb__saved_fresh[capture->leaves[i]]);
        mmsb__saved_fresh[capture->leaves[i]] = NULL;
    }
    free(capture->found);
    free(capture->removed);
    free(capture->removed_ids);
    capture->found = NULL;
    capture->found_count = capture->found_capacity = 0;
    free_leaves(capture);
    capture->removed = NULL;
    capture->removed_ids = NULL;
    capture->removed_capacity = 0;
}

mmsb_status_t mmsb__context_freeze(uint32_t context) {
    mmsb__capture_t *capture = mmsb__capture_make(context);
    if (!capture)
        return MMSB_E_OUT_OF_MEMORY;
    turn_on(capture, MMSB__CAPTURE_FROZEN);
    mmsb__capture_settle(capture);
    return MMSB_OK;
}

void mmsb__context_thaw(uint32_t context) {
    turn_off(mmsb__capture_of(context));
}
