/* Captures large pages part by part: the saver goes through Go for each part. */
#include "capture_large.h"

#include <stdlib.h>
#include <string.h>

#include "capture_pool.h"
#include "disk.h"
#include "lock.h"
#include "preimage.h"
#include "saved.h"

mmsb__large_t *mmsb__capture_large(mmsb__capture_t *capture, uint32_t index, mmsb_status_t *failed) {
    mmsb__record_t *record = mmsb__record_at(index);
    mmsb__large_t *large = NULL;
    uint64_t state;
    *failed = MMSB_OK;
    if (!mmsb__record_lock_page(index, &state)) /* captured, and then ended */
        return NULL;
    uint8_t capture_state = mmsb__capture_state_of(index);
    if (capture_state == MMSB__CAPTURE_NONE || capture_state == MMSB__CAPTURE_PARTIAL) {
        if (mmsb__refused(capture, record))
            *failed = MMSB_E_BUSY;
        else if (capture_state == MMSB__CAPTURE_NONE && mmsb__as_saved(mmsb__base_of(capture, index), record, state) &&
                 !mmsb__suspect(record))
            mmsb__capture_state_set(index, MMSB__CAPTURE_DONE);
        else if (!(large = mmsb__large_open(capture, record, state)))
            *failed = MMSB_E_OUT_OF_MEMORY;
    }
    mmsb__page_unlock_record(record, state);
    return large;
}

static void free_part(mmsb__capture_t *capture, mmsb__part_t *part) {
    mmsb__preimage_free(capture, part);
    if (part->lines)
        mmsb__pool_give(&capture->pool, part->lines, mmsb__line_words(part->length) * sizeof *part->lines);
    part->lines = NULL;
    mmsb__capture_wake();
}

/* Copies bytes that a writer may be changing. */
static __attribute__((no_sanitize("thread"))) void copy_racing(uint8_t *into, const uint8_t *from, uint64_t length) {
#ifdef __SANITIZE_THREAD__ /* which looks into memcpy all the same */
    for (uint64_t at = 0; at < length; at++)
        into[at] = ((const volatile uint8_t *)from)[at];
#else
    memcpy(into, from, length);
#endif
}

static void copy_granules(uint8_t *into, const uint8_t *from, uint32_t length, uint64_t granules) {
    if (granules == UINT64_MAX) {
        copy_racing(into, from, length);
        return;
    }
    for (uint64_t at = 0; at < length && granules != 0; at += MMSB__GRANULE_BYTES, granules >>= 1) {
        if (granules & 1)
            copy_racing(into + at, from + at, length - at < MMSB__GRANULE_BYTES ? length - at : MMSB__GRANULE_BYTES);
    }
}

/* Copies a part of the bytes of a locked page that has no address for good. Single granules are not worth it. */
static mmsb_status_t copy_absent(const mmsb__large_t *large, mmsb__record_t *record, uint32_t number, uint64_t *state,
                                 uint8_t *buffer) {
    const uint32_t length = large->parts[number].length;
    mmsb_status_t status;
    if (mmsb__on_device(*state)) {
        status = mmsb__device_read(record, number * MMSB__CHUNK_BYTES, buffer, length);
        *state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
        return status;
    }
    if (mmsb__on_disk(record, *state))
        return mmsb__disk_read(record, number * MMSB__CHUNK_BYTES, buffer, length);
    status = *state & MMSB__NONRESIDENT ? mmsb__page_make_resident(record, state) : MMSB_OK;
    if (status == MMSB_OK)
        memcpy(buffer, mmsb__part_bytes(large, record, number), length);
    return status;
}

uint32_t mmsb__capture_part(mmsb__capture_t *capture, mmsb__large_t *large, uint32_t number, uint64_t granules, uint8_t *buffer) {
    mmsb__part_t *part = &large->parts[number];
    mmsb__record_t *record = mmsb__record_at(large->index);
    /* A thread that ends or moves the page waits until all of it is captured: what has an address keeps it, and is copied without
     * the page's lock, so that no writer waits for the copy, or for a saver that has lost its processor. A writer keeps lines
     * before it changes them; whatever the copy has of these, they are put back. */
    const int absent = number < large->byte_parts && (mmsb__state_load(record) & MMSB__NONRESIDENT);
    if (!absent)
        copy_granules(buffer, mmsb__part_bytes(large, record, number), part->length, granules);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the copy is made before the lock is taken: taking it orders only what follows */
    uint64_t state = mmsb__record_lock_library(large->index);
    mmsb_status_t status = absent ? copy_absent(large, record, number, &state, buffer) : MMSB_OK;
    if (status != MMSB_OK) {
        mmsb__page_unlock_record(record, state);
        return 0;
    }
    __atomic_store_n(&part->taken, 1, __ATOMIC_RELEASE);
    mmsb__page_unlock(record, state);
    mmsb__preimage_put_back(part, buffer);
    free_part(capture, part);
    return part->length;
}

void mmsb__capture_sums(const mmsb__large_t *large, uint32_t first, uint32_t count, uint32_t *sums, uint8_t *known) {
    mmsb__record_t *record = mmsb__record_at(large->index);
    const uint64_t offset = first * MMSB__CHUNK_BYTES;
    uint64_t length = 0;
    for (uint32_t i = 0; i < count; i++)
        length += large->parts[first + i].length;
    uint64_t state = mmsb__record_lock_library(large->index);
    mmsb_status_t status = MMSB_E_UNSUPPORTED;
    if (mmsb__on_device(state) && record->locator == 0) {
        status = mmsb__upcalls.device_checksums(large->index, offset, length, MMSB__GRANULE_BYTES, sums);
        state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    }
    /* What a writer has kept lines of is not as it was. */
    for (uint32_t i = 0; i < count; i++)
        known[i] = status == MMSB_OK && !large->parts[first + i].preimages;
    mmsb__page_unlock(record, state);
}

void mmsb__capture_skip(mmsb__large_t *large, uint32_t number) {
    __atomic_store_n(&large->parts[number].taken, 1, __ATOMIC_RELEASE);
}

void mmsb__large_free(mmsb__capture_t *capture, mmsb__large_t *large) {
    for (uint32_t number = 0; number < large->byte_parts + large->mask_parts; number++)
        free_part(capture, &large->parts[number]);
    free(large->metadata);
    free(large);
}

void mmsb__capture_large_done(mmsb__capture_t *capture, mmsb__large_t *large) {
    uint32_t index = large->index;
    uint64_t state =
        mmsb__record_lock_library(index); /* a writer may be copying; the page cannot end before its capture state says so */
    pthread_mutex_lock(&capture->lock);
    mmsb__large_t **link = &capture->large[index % MMSB__LARGE_BUCKETS];
    while (*link != large)
        link = &(*link)->next;
    *link = large->next;
    pthread_mutex_unlock(&capture->lock);
    mmsb__capture_state_set(index, MMSB__CAPTURE_DONE);
    mmsb__page_unlock_record(mmsb__record_at(index), state);
    mmsb__note_captured(capture, index, &large->image, large->generation, 0);
    mmsb__large_free(capture, large);
    mmsb__capture_wake();
}

int mmsb__capture_changed_since(uint32_t index, uint32_t generation, uint64_t version) {
    uint64_t state;
    if (!mmsb__record_lock_page(index, &state))
        return 1;
    mmsb__record_t *record = mmsb__record_at(index);
    int changed = MMSB__HANDLE_GENERATION(state) != generation || record->version != version;
    mmsb__page_unlock_record(record, state);
    return changed;
}

uint32_t mmsb__capture_urgent(mmsb__capture_t *capture) {
    if (__atomic_load_n(&capture->urgent_count, __ATOMIC_RELAXED) == 0)
        return 0;
    pthread_mutex_lock(&capture->lock);
    uint32_t count = capture->urgent_count, index = count > 0 ? capture->urgent[count - 1] : 0;
    if (count > 0)
        __atomic_store_n(&capture->urgent_count, count - 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&capture->lock);
    return index;
}
