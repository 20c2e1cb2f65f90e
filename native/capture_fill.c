/* The saver's pass over a capture: it fills segments with small pages, as they are or as writers kept them. */
#include "capture_fill.h"

#include <sched.h>
#include <string.h>

#include "bytes.h"
#include "lock.h"
#include "preimage.h"
#include "saved.h"

typedef enum step { GO_ON, FULL, LARGE, PINNED } step_t;

/* Puts a small page into the segment if it fits: as it is now, or as it was copied before it changed as a whole. */
static void put_page(mmsb__segment_t *segment, const mmsb__image_t *image, const uint8_t *bytes, const uint8_t *mask,
                     uint64_t mask_length, const uint8_t *metadata, uint64_t metadata_length) {
    mmsb__segment_append(segment, image, MMSB__IMAGE_BYTES, bytes, image->size);
    mmsb__segment_append(segment, image, MMSB__IMAGE_MASK, mask, mask_length);
    mmsb__segment_append(segment, image, MMSB__IMAGE_METADATA, metadata, metadata_length);
}

static void put_record(mmsb__segment_t *segment, const mmsb__image_t *image, const mmsb__record_t *record, uint64_t mask) {
    uint64_t metadata = mmsb__metadata_length(record);
    put_page(segment, image, mmsb__record_bytes(record), mask > 0 ? mmsb__locator_address(record->mask_locator) : NULL, mask,
             metadata > 0 ? mmsb__metadata_bytes(record) : NULL, metadata);
}

/* Computes the checksums of a page's extents, from first on, and notes the page. */
static void finish_page(mmsb__capture_t *capture, mmsb__segment_t *segment, uint32_t first, uint32_t index,
                        const mmsb__image_t *image, uint32_t generation) {
    for (uint32_t i = first; i < segment->extent_count; i++)
        segment->extents[i].crc = mmsb__bytes.crc32c(0, segment->buffer + segment->extents[i].at, segment->extents[i].length);
    mmsb__note_captured(capture, index, image, generation, segment->extents[first].crc);
}

/* Puts a page with a copy into the segment, and gives the copy's memory back. */
static step_t save_copy(mmsb__capture_t *capture, mmsb__segment_t *segment, mmsb__copy_t *copy) {
    const mmsb__image_t *image = &copy->image;
    uint32_t first = segment->extent_count, index = copy->index;
    const mmsb__record_t *record = mmsb__record_at(index);
    uint64_t state;
    if (mmsb__capture_state_of(index) == MMSB__CAPTURE_PREIMAGE && mmsb__record_lock_page(index, &state)) {
        step_t step = GO_ON;
        if (mmsb__capture_state_of(index) == MMSB__CAPTURE_PREIMAGE) {
            if (mmsb__refused(capture, record)) {
                step = PINNED;
            } else if (!mmsb__segment_fits(segment, image->size, copy->mask.length, mmsb__metadata_length(record))) {
                step = FULL;
            } else {
                put_record(segment, image, record, copy->mask.length);
                mmsb__capture_state_set(index, MMSB__CAPTURE_DONE);
            }
        }
        mmsb__record_unlock(index, state);
        if (step != GO_ON)
            return step;
    }
    if (copy->whole) { /* nobody sees it before the capture state */
        const uint8_t *mask = copy->whole + image->size, *metadata = mask + copy->mask.length;
        uint64_t metadata_length = copy->whole_length - image->size - copy->mask.length;
        if (!mmsb__segment_fits(segment, image->size, copy->mask.length, metadata_length))
            return FULL;
        put_page(segment, image, copy->whole, mask, copy->mask.length, metadata, metadata_length);
    }
    mmsb__preimage_put_back(&copy->bytes, segment->buffer + segment->extents[first].at);
    if (copy->mask.length > 0)
        mmsb__preimage_put_back(&copy->mask, segment->buffer + segment->extents[first + 1].at);
    finish_page(capture, segment, first, index, image, copy->generation);
    mmsb__copy_free(capture, copy);
    mmsb__capture_wake();
    return GO_ON;
}

/* GO_ON: the segment has all copies. */
static step_t save_copies(mmsb__capture_t *capture, mmsb__segment_t *segment, uint32_t *index) {
    for (;;) {
        if (!capture->drained)
            capture->drained = __atomic_exchange_n(&capture->copies, NULL, __ATOMIC_ACQUIRE);
        mmsb__copy_t *copy = capture->drained;
        if (!copy)
            return GO_ON;
        mmsb__copy_t *next = copy->next;
        *index = copy->index;
        step_t step = save_copy(capture, segment, copy);
        if (step != GO_ON)
            return step;
        capture->drained = next;
    }
}

/* Saves a locked page in the state MMSB__CAPTURE_NONE, and unlocks it. */
static step_t save_locked(mmsb__capture_t *capture, mmsb__segment_t *segment, mmsb__record_t *record, uint32_t index,
                          uint64_t state) {
    const mmsb__saved_t *saved = mmsb__base_of(capture, index);
    uint32_t first = segment->extent_count;
    uint64_t mask = mmsb__image_mask_length(record);
    int suspected = mmsb__suspect(record), same = mmsb__as_saved(saved, record, state), large = mmsb__is_large(record, state);
    mmsb__image_t image;
    step_t step = GO_ON;
    if (same && suspected && !large) {
        __atomic_add_fetch(&capture->stats.compared_bytes, record->size, __ATOMIC_RELAXED);
        suspected = mmsb__bytes.crc32c(0, mmsb__record_bytes(record), record->size) != saved->crc;
    }
    if (mmsb__refused(capture, record)) {
        step = PINNED;
    } else if (same && !suspected) {
        mmsb__capture_state_set(index, MMSB__CAPTURE_DONE);
    } else if (large) {
        step = LARGE;
    } else if (!mmsb__segment_fits(segment, record->size, mask, mmsb__metadata_length(record))) {
        step = FULL;
    } else {
        mmsb__image_fill(record, index, state, &image);
        put_record(segment, &image, record, mask);
        mmsb__capture_state_set(index, MMSB__CAPTURE_DONE);
    }
    mmsb__page_unlock_record(record, state);
    if (segment->extent_count > first)
        finish_page(capture, segment, first, index, &image, MMSB__HANDLE_GENERATION(state));
    return step;
}

/* The page is unlocked and as it was saved: a thread that changes it from now on sees the capture first. */
static int is_unchanged(const mmsb__capture_t *capture, uint32_t index) {
    const mmsb__record_t *record = mmsb__record_at(index);
    uint64_t state = mmsb__state_load(record);
    return MMSB__HANDLE_KIND(state) == MMSB_KIND_PAGE && !(state & MMSB__OWNER_MASK) &&
           mmsb__as_saved(mmsb__base_of(capture, index), record, state) && !mmsb__suspect(record);
}

static step_t save_record(mmsb__capture_t *capture, mmsb__segment_t *segment, uint32_t index) {
    mmsb__record_t *record = mmsb__record_at(index);
    for (;;) {
        uint8_t capture_state = mmsb__capture_state_of(index);
        if (capture_state == MMSB__CAPTURE_DONE || capture_state == MMSB__CAPTURE_PREIMAGE)
            return GO_ON;
        if (capture_state == MMSB__CAPTURE_PARTIAL)
            return LARGE;
        const mmsb__saved_t *saved = mmsb__base_of(capture, index);
        uint64_t state = mmsb__state_load(record);
        if (capture_state == MMSB__CAPTURE_LATER || MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE) {
            /* Pages that begin here from now on are not part of the capture, even if their creator has not seen the moment. */
            if (capture_state == MMSB__CAPTURE_NONE &&
                !__atomic_compare_exchange_n(&mmsb__capture_states[index], &capture_state, MMSB__CAPTURE_LATER, 0,
                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                continue; /* a page ended after its capture state was read */
            if (saved) {
                pthread_mutex_lock(&capture->lock);
                mmsb__note_removed(capture, index, saved);
                pthread_mutex_unlock(&capture->lock);
            }
            return GO_ON;
        }
        if (is_unchanged(capture, index))
            return GO_ON;
        if (!mmsb__record_lock_page(index, &state))
            continue;
        if (mmsb__capture_state_of(index) == MMSB__CAPTURE_NONE)
            return save_locked(capture, segment, record, index, state);
        mmsb__page_unlock_record(record, state);
    }
}

int mmsb__capture_compare_leaf(mmsb__capture_t *capture) {
    if (!capture->differing)
        return 0;
    uint32_t leaf = __atomic_fetch_add(&capture->compare_at, 1, __ATOMIC_RELAXED);
    if (leaf >= capture->leaf_count) {
        __atomic_store_n(&capture->compare_at, capture->leaf_count, __ATOMIC_RELAXED); /* does not wrap */
        return 0;
    }
    uint64_t *words = capture->differing + leaf * MMSB__LEAF_WORDS;
    uint32_t first = capture->leaves[leaf] << MMSB__LEAF_BITS;
    memset(words, 0, MMSB__LEAF_WORDS * sizeof *words);
    for (uint32_t i = 0; i < capture->used[leaf]; i++)
        words[i / 64] |= (uint64_t)!is_unchanged(capture, first | i) << i % 64;
    __atomic_store_n(&capture->compared[leaf], 1, __ATOMIC_RELEASE);
    return 1;
}

/* The first record of the saver's leaf, from at on, that was found to differ; used if there is none. */
static uint32_t differing_from(const mmsb__capture_t *capture, uint32_t at) {
    const uint64_t *words = capture->differing + capture->leaf_at * MMSB__LEAF_WORDS;
    const uint32_t used = capture->used[capture->leaf_at];
    while (at < used) {
        uint64_t left = words[at / 64] >> at % 64;
        if (left != 0)
            return at + (uint32_t)__builtin_ctzll(left);
        at = (at / 64 + 1) * 64;
    }
    return used;
}

static void fetch_far(mmsb__capture_t *capture) {
    capture->far_at = differing_from(capture, capture->far_at + 1);
    uint32_t leaf = capture->leaves[capture->leaf_at];
    __builtin_prefetch(mmsb__record_at(leaf << MMSB__LEAF_BITS | (capture->far_at & (MMSB__LEAF_RECORDS - 1))), 1);
    if (capture->base[leaf])
        __builtin_prefetch(&capture->base[leaf][capture->far_at & (MMSB__LEAF_RECORDS - 1)]);
}

static void fetch_near(mmsb__capture_t *capture) {
    enum { LINES = 8 }; /* after these the processor prefetches by itself */
    capture->near_at = differing_from(capture, capture->near_at + 1);
    if (capture->near_at >= capture->used[capture->leaf_at])
        return;
    const mmsb__record_t *record = mmsb__record_at(capture->leaves[capture->leaf_at] << MMSB__LEAF_BITS | capture->near_at);
    const uint64_t mask = __atomic_load_n(&record->mask_locator, __ATOMIC_RELAXED);
    const uint8_t *bytes = mmsb__record_bytes(record);
    for (int line = 0; line < LINES; line++)
        __builtin_prefetch(bytes + line * 64);
    if (mask != 0)
        __builtin_prefetch(mmsb__locator_address(mask));
}

/* Differing pages lie anywhere: each would wait for its record, then for its bytes and its mask. */
static void fetch_behind(mmsb__capture_t *capture, uint32_t at) {
    enum { RECORDS = 8, BYTES = 4 };
    const int begins = capture->near_at <= at;
    if (begins)
        capture->far_at = capture->near_at = at;
    for (int i = 0; i < (begins ? RECORDS : 1); i++)
        fetch_far(capture);
    for (int i = 0; i < (begins ? BYTES : 1); i++)
        fetch_near(capture);
}

/* The first record of the saver's leaf, from record_at on, that must be saved; used if there is none. */
static uint32_t next_differing(mmsb__capture_t *capture) {
    if (!capture->differing)
        return capture->record_at;
    while (!__atomic_load_n(&capture->compared[capture->leaf_at], __ATOMIC_ACQUIRE)) {
        if (!mmsb__capture_compare_leaf(capture))
            sched_yield();
    }
    uint32_t next = differing_from(capture, capture->record_at);
    if (next < capture->used[capture->leaf_at])
        fetch_behind(capture, next);
    return next;
}

static int any_pinned(const mmsb__capture_t *capture, uint32_t *index) {
    *index = __atomic_load_n(&capture->pinned, __ATOMIC_RELAXED);
    return *index != 0;
}

mmsb__fill_t mmsb__capture_fill(mmsb__capture_t *capture, mmsb__segment_t *segment, uint32_t *index) {
    static const mmsb__fill_t fills[] = {[FULL] = MMSB__FILL_FULL, [LARGE] = MMSB__FILL_LARGE, [PINNED] = MMSB__FILL_PINNED};
    step_t step = GO_ON;
    if (any_pinned(capture, index))
        return MMSB__FILL_PINNED;
    for (; capture->leaf_at < capture->leaf_count;
         capture->leaf_at++, capture->record_at = capture->far_at = capture->near_at = 0) {
        for (; (capture->record_at = next_differing(capture)) < capture->used[capture->leaf_at]; capture->record_at++) {
            if (MMSB__UNLIKELY(__atomic_load_n(&capture->copies, __ATOMIC_RELAXED) || capture->drained))
                step = save_copies(capture, segment, index);
            if (MMSB__LIKELY(step == GO_ON)) {
                *index = capture->leaves[capture->leaf_at] << MMSB__LEAF_BITS | capture->record_at;
                step = save_record(capture, segment, *index);
                capture->record_at += step == LARGE;
            }
            if (MMSB__UNLIKELY(step != GO_ON))
                return fills[step];
        }
    }
    mmsb__capture_await_writers(capture); /* each page has its capture state; now its copy is on the list too */
    if ((step = save_copies(capture, segment, index)) != GO_ON)
        return fills[step];
    return any_pinned(capture, index) ? MMSB__FILL_PINNED : MMSB__FILL_END;
}

/* 1: writing sections may change the locked page, and the capture does not have it yet. */
static int to_keep(uint32_t index, const mmsb__record_t *record, uint64_t state) {
    const int absent = !mmsb__addressed(state) && !mmsb__on_device(state); /* has no address without a pin */
    return mmsb__exposed(record) == MMSB__EXPOSED_FOR_GOOD && !(state & MMSB__READ_ONLY) && !absent &&
           !mmsb__capture_needs_nothing(mmsb__capture_state_of(index));
}

mmsb__fill_t mmsb__capture_keep_written(mmsb__capture_t *capture, uint32_t *index) {
    for (; capture->written_at >> MMSB__LEAF_BITS < capture->leaf_count; capture->written_at++) {
        const uint32_t leaf = (uint32_t)(capture->written_at >> MMSB__LEAF_BITS),
                       at = capture->written_at & (MMSB__LEAF_RECORDS - 1);
        if (at >= capture->used[leaf]) {
            capture->written_at |= MMSB__LEAF_RECORDS - 1;
            continue;
        }
        uint64_t state;
        *index = capture->leaves[leaf] << MMSB__LEAF_BITS | at;
        mmsb__record_t *record = mmsb__record_at(*index);
        if (mmsb__exposed(record) != MMSB__EXPOSED_FOR_GOOD || !mmsb__record_lock_page(*index, &state))
            continue;
        const int large = mmsb__is_large(record, state), keep = to_keep(*index, record, state),
                  blocked = keep && !large && mmsb__preimage_keep_written(record, state, 0, record->size);
        mmsb__page_unlock_record(record, state);
        if (blocked)
            return MMSB__FILL_FULL;
        if (keep && large) { /* sooner written than copied, and copied again */
            capture->written_at++;
            return MMSB__FILL_LARGE;
        }
    }
    return MMSB__FILL_END;
}
