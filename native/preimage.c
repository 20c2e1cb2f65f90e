/* What writers do for a capture: they keep pre-images of pages before they change them, or wait. preimage.h, capture.h. */
#include "preimage.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture_pool.h"
#include "disk.h"
#include "group.h"
#include "guard.h"

/* ------------------------------------------------------------------------------------------------------ waiting ---- */

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void mmsb__capture_wait(uint32_t index) {
    mmsb__capture_t *capture = mmsb__capture_of(mmsb__record_context(index));
    int counts = capture && __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST) == MMSB__CAPTURE_ON;
    uint64_t begin = now();
    mmsb__capture_pause();
    if (!counts)
        return;
    __atomic_add_fetch(&capture->stats.waits, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&capture->stats.waited_ns, now() - begin, __ATOMIC_RELAXED);
}

void mmsb__context_await_slow(uint32_t context) {
    const mmsb__capture_t *capture = mmsb__capture_of(context);
    while (capture && __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST) == MMSB__CAPTURE_FROZEN)
        mmsb__capture_pause();
}

/* ------------------------------------------------------------------------------------------------ keeping lines ---- */

/* Where the bytes of a part are: at an address, or from an offset of a page on disk or on a device on. */
typedef struct place {
    const uint8_t *bytes; /* NULL = they have none */
    const mmsb__record_t *record;
    uint64_t offset;
} place_t;

static mmsb_status_t copy_from(const place_t *place, uint64_t offset, void *into, uint64_t length) {
    if (MMSB__UNLIKELY(!place->bytes))
        return mmsb__absent_read(place->record, mmsb__state_held(place->record), place->offset + offset, into, length);
    memcpy(into, place->bytes + offset, length);
    return MMSB_OK;
}

/* Keeps the lines of bytes first … last of a part that are not kept yet. 1: the limit of copies does not allow it yet. */
static int keep_lines(mmsb__capture_t *capture, mmsb__part_t *part, place_t place, uint64_t first, uint64_t last) {
    int blocked;
    for (uint64_t line = first / MMSB__LINE_BYTES, end; line <= last / MMSB__LINE_BYTES; line = end) {
        end = line;
        while (end <= last / MMSB__LINE_BYTES && !(part->lines[end / 64] >> end % 64 & 1))
            end++;
        if (end == line) {
            end++;
            continue;
        }
        uint64_t offset = line * MMSB__LINE_BYTES,
                 length = end * MMSB__LINE_BYTES < part->length ? (end - line) * MMSB__LINE_BYTES : part->length - offset;
        mmsb__preimage_t *lines = mmsb__pool_take_copy(capture, sizeof *lines + length, &blocked);
        if (!lines)
            return blocked;
        *lines = (mmsb__preimage_t){part->preimages, (uint32_t)offset, (uint32_t)length};
        part->preimages = lines;
        if (copy_from(&place, offset, lines->bytes, length) != MMSB_OK) /* the change goes on, and the capture fails */
            mmsb__note_failed(capture, MMSB_E_IO);
        for (uint64_t at = line; at < end; at++)
            part->lines[at / 64] |= UINT64_C(1) << at % 64;
    }
    return 0;
}

/* Puts the pre-images of a part into a copy of it, which then is as at the moment. No more lines of the part are kept. */
void mmsb__preimage_put_back(const mmsb__part_t *part, uint8_t *copy) {
    for (const mmsb__preimage_t *lines = part->preimages; lines; lines = lines->next)
        memcpy(copy + lines->offset, lines->bytes, lines->length);
}

void mmsb__preimage_free(mmsb__capture_t *capture, mmsb__part_t *part) {
    while (part->preimages) {
        mmsb__preimage_t *lines = part->preimages;
        part->preimages = lines->next;
        mmsb__pool_give(&capture->pool, lines, sizeof *lines + lines->length);
    }
}

/* -------------------------------------------------------------------------------------------------- small pages ---- */

static void push_copy(mmsb__capture_t *capture, mmsb__copy_t *copy) {
    copy->next = __atomic_load_n(&capture->copies, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&capture->copies, &copy->next, copy, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
}

/* The copy of a small page, made if there is none; NULL without memory, or if the limit does not allow it. */
static mmsb__copy_t *copy_of(mmsb__capture_t *capture, const mmsb__record_t *record, uint32_t index, uint64_t state,
                             int *blocked) {
    if (mmsb__capture_state_of(index) == MMSB__CAPTURE_PREIMAGE)
        return mmsb__capture_copies[index];
    uint64_t mask = mmsb__image_mask_length(record), byte_words = mmsb__line_words(record->size),
             words = byte_words + mmsb__line_words(mask);
    mmsb__copy_t *copy = mmsb__pool_take_copy(capture, sizeof *copy + words * sizeof *copy->lines, blocked);
    if (!copy)
        return NULL;
    mmsb__image_fill(record, index, state, &copy->image);
    copy->index = index;
    copy->generation = MMSB__HANDLE_GENERATION(state);
    copy->whole = NULL;
    copy->whole_length = 0;
    memset(copy->lines, 0, words * sizeof *copy->lines);
    copy->bytes = (mmsb__part_t){.lines = copy->lines, .length = (uint32_t)record->size};
    copy->mask = (mmsb__part_t){.lines = copy->lines + byte_words, .length = (uint32_t)mask};
    mmsb__capture_copies[index] = copy;
    mmsb__capture_state_set(index, MMSB__CAPTURE_PREIMAGE);
    push_copy(capture, copy);
    return copy;
}

/* Copies a page that is about to change as a whole, or to end. */
static int copy_whole(mmsb__capture_t *capture, const mmsb__record_t *record, uint32_t index, uint64_t state) {
    /* A mask that was made after the moment is not part of it. */
    uint64_t mask = mmsb__capture_state_of(index) == MMSB__CAPTURE_PREIMAGE ? mmsb__capture_copies[index]->mask.length
                                                                            : mmsb__image_mask_length(record);
    uint64_t metadata = mmsb__metadata_length(record), length = record->size + mask + metadata;
    int blocked;
    uint8_t *whole = mmsb__pool_take_copy(capture, length, &blocked);
    mmsb__copy_t *copy = whole ? copy_of(capture, record, index, state, &blocked) : NULL;
    if (!copy) {
        if (whole)
            mmsb__pool_give(&capture->pool, whole, length);
        return blocked;
    }
    memcpy(whole, mmsb__record_bytes(record), record->size);
    if (mask > 0)
        memcpy(whole + record->size, mmsb__locator_address(record->mask_locator), mask);
    if (metadata > 0)
        memcpy(whole + record->size + mask, mmsb__metadata_bytes(record), metadata);
    copy->whole = whole;
    copy->whole_length = length;
    mmsb__capture_state_set(index, MMSB__CAPTURE_DONE);
    return 0;
}

void mmsb__copy_free(mmsb__capture_t *capture, mmsb__copy_t *copy) {
    uint64_t words = mmsb__line_words(copy->bytes.length) + mmsb__line_words(copy->mask.length);
    mmsb__preimage_free(capture, &copy->bytes);
    mmsb__preimage_free(capture, &copy->mask);
    if (copy->whole)
        mmsb__pool_give(&capture->pool, copy->whole, copy->whole_length);
    mmsb__pool_give(&capture->pool, copy, sizeof *copy + words * sizeof *copy->lines);
}

static int keep_of_small(mmsb__capture_t *capture, const mmsb__record_t *record, mmsb__copy_t *copy, uint64_t first,
                         uint64_t last) {
    const place_t bytes = {.bytes = mmsb__record_bytes(record)}, mask = {.bytes = mmsb__locator_address(record->mask_locator)};
    return keep_lines(capture, &copy->bytes, bytes, first, last) ||
           (copy->mask.length > 0 && keep_lines(capture, &copy->mask, mask, first / 8, last / 8));
}

/* -------------------------------------------------------------------------------------------------- large pages ---- */

static mmsb__large_t *find_large(mmsb__capture_t *capture, uint32_t index) {
    mmsb__large_t *large = capture->large[index % MMSB__LARGE_BUCKETS];
    while (large && large->index != index)
        large = large->next;
    return large;
}

static uint32_t parts_of(uint64_t length) {
    return (uint32_t)((length + MMSB__CHUNK_BYTES - 1) / MMSB__CHUNK_BYTES);
}

static uint32_t part_length(uint64_t length, uint32_t part) {
    uint64_t left = length - part * MMSB__CHUNK_BYTES;
    return (uint32_t)(left < MMSB__CHUNK_BYTES ? left : MMSB__CHUNK_BYTES);
}

mmsb__large_t *mmsb__large_open(mmsb__capture_t *capture, mmsb__record_t *record, uint64_t state) {
    uint32_t index = mmsb__record_index(record);
    pthread_mutex_lock(&capture->lock);
    mmsb__large_t *large = find_large(capture, index);
    pthread_mutex_unlock(&capture->lock);
    if (large)
        return large;
    uint32_t byte_parts = parts_of(record->size), mask_parts = parts_of(mmsb__image_mask_length(record));
    uint64_t metadata = mmsb__metadata_length(record);
    large = calloc(1, sizeof *large + (size_t)(byte_parts + mask_parts) * sizeof large->parts[0]);
    if (large && metadata > 0 && !(large->metadata = malloc(metadata))) {
        free(large);
        large = NULL;
    }
    if (!large)
        return NULL;
    if (metadata > 0)
        memcpy(large->metadata, mmsb__metadata_bytes(record), metadata);
    large->metadata_length = metadata;
    large->index = index;
    large->byte_parts = byte_parts;
    large->mask_parts = mask_parts;
    for (uint32_t part = 0; part < byte_parts + mask_parts; part++)
        large->parts[part].length =
            part < byte_parts ? part_length(record->size, part) : part_length(mmsb__mask_length(record->size), part - byte_parts);
    mmsb__image_fill(record, index, state, &large->image);
    const mmsb__saved_t *saved = mmsb__base_of(capture, index);
    large->unchanged = (uint32_t)mmsb__as_saved(saved, record, state);
    if (saved && saved->generation == MMSB__HANDLE_GENERATION(state) && saved->size == record->size &&
        record->size > MMSB__CHUNK_BYTES)
        large->image.flags |= MMSB__IMAGE_PARTIAL;
    large->generation = MMSB__HANDLE_GENERATION(state);
    pthread_mutex_lock(&capture->lock);
    large->next = capture->large[index % MMSB__LARGE_BUCKETS];
    capture->large[index % MMSB__LARGE_BUCKETS] = large;
    pthread_mutex_unlock(&capture->lock);
    mmsb__capture_state_set(index, MMSB__CAPTURE_PARTIAL);
    return large;
}

static int keep_of_part(mmsb__capture_t *capture, mmsb__large_t *large, const mmsb__record_t *record, uint32_t number,
                        uint64_t first, uint64_t last) {
    mmsb__part_t *part = &large->parts[number];
    int blocked;
    if (__atomic_load_n(&part->taken, __ATOMIC_RELAXED)) /* or skipped */
        return 0;
    if (!part->lines) {
        uint64_t bytes = mmsb__line_words(part->length) * sizeof *part->lines;
        if (!(part->lines = mmsb__pool_take_copy(capture, bytes, &blocked)))
            return blocked;
        memset(part->lines, 0, bytes);
    }
    const int absent = number < large->byte_parts && mmsb__absent(record, mmsb__state_held(record));
    const place_t place = {absent ? NULL : mmsb__part_bytes(large, record, number), record, number * MMSB__CHUNK_BYTES};
    return keep_lines(capture, part, place, first, last);
}

/* Bytes first … last of parts that follow each other. */
static int keep_of_parts(mmsb__capture_t *capture, mmsb__large_t *large, const mmsb__record_t *record, uint32_t number,
                         uint64_t first, uint64_t last) {
    for (uint64_t part = first / MMSB__CHUNK_BYTES; part <= last / MMSB__CHUNK_BYTES; part++) {
        uint64_t begin = part * MMSB__CHUNK_BYTES, end = begin + MMSB__CHUNK_BYTES - 1;
        if (keep_of_part(capture, large, record, number + (uint32_t)part, first > begin ? first - begin : 0,
                         (last < end ? last : end) - begin))
            return 1;
    }
    return 0;
}

static int keep_of_large(mmsb__capture_t *capture, mmsb__large_t *large, const mmsb__record_t *record, uint64_t first,
                         uint64_t last) {
    return keep_of_parts(capture, large, record, 0, first, last) ||
           (large->mask_parts > 0 && keep_of_parts(capture, large, record, large->byte_parts, first / 8, last / 8));
}

/* ------------------------------------------------------------------------------------------------------- writers ---- */

static int keep_small(mmsb__capture_t *capture, mmsb__record_t *record, uint32_t index, uint64_t state, uint64_t offset,
                      uint64_t length) {
    if (length == UINT64_MAX)
        return copy_whole(capture, record, index, state);
    int blocked;
    mmsb__copy_t *copy = copy_of(capture, record, index, state, &blocked);
    if (!copy)
        return blocked;
    return length > 0 && keep_of_small(capture, record, copy, offset, offset + length - 1);
}

/* Notes that a writer waits for the page. */
static void make_urgent(mmsb__capture_t *capture, uint32_t index) {
    pthread_mutex_lock(&capture->lock);
    uint32_t i = 0;
    while (i < capture->urgent_count && capture->urgent[i] != index)
        i++;
    if (i == capture->urgent_count && i < MMSB__URGENT_MAX) {
        capture->urgent[i] = index;
        __atomic_store_n(&capture->urgent_count, i + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&capture->lock);
}

static int keep_in(mmsb__capture_t *capture, mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    uint32_t index = mmsb__record_index(record);
    uint8_t capture_state = mmsb__capture_state_of(index);
    if (mmsb__capture_needs_nothing(capture_state))
        return 0;
    if (capture_state == MMSB__CAPTURE_NONE && mmsb__as_saved(mmsb__base_of(capture, index), record, state) &&
        !mmsb__suspect(record)) {
        mmsb__capture_state_set(index, MMSB__CAPTURE_DONE);
        return 0;
    }
    if (mmsb__refused(capture, record)) { /* the change goes on, and the capture fails */
        __atomic_store_n(&capture->pinned, index, __ATOMIC_RELAXED);
        return 0;
    }
    if (capture_state == MMSB__CAPTURE_PREIMAGE || (capture_state == MMSB__CAPTURE_NONE && !mmsb__is_large(record, state)))
        return keep_small(capture, record, index, state, offset, length);
    mmsb__large_t *large = mmsb__large_open(capture, record, state);
    if (!large) {
        mmsb__note_failed(capture, MMSB_E_OUT_OF_MEMORY);
        return 0;
    }
    int again = length == UINT64_MAX || (length > 0 && keep_of_large(capture, large, record, offset, offset + length - 1));
    if (again)
        make_urgent(capture, index);
    return again;
}

/* The context's mode, which does not change until the caller calls leave: until then the capture states are of this capture. */
static int enter(mmsb__capture_t *capture) {
    __atomic_add_fetch(&capture->writers, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST);
}

static void leave(mmsb__capture_t *capture) {
    __atomic_sub_fetch(&capture->writers, 1, __ATOMIC_RELEASE);
}

void mmsb__capture_await_writers(const mmsb__capture_t *capture) {
    while (__atomic_load_n(&capture->writers, __ATOMIC_SEQ_CST) != 0)
        sched_yield();
}

/* 1: the capture of the page's context needs the caller to wait. */
static int keep_for_capture(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    uint32_t index = mmsb__record_index(record);
    mmsb__capture_t *capture = mmsb__capture_of(mmsb__record_context(index));
    if (!capture)
        return 0;
    /* If the capture state is an earlier capture's, the call has not seen the next moment, and its change is part of that
     * capture. */
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__frozen, __ATOMIC_RELAXED) == 0) &&
        mmsb__capture_needs_nothing(mmsb__capture_state_of(index)))
        return 0;
    int mode = enter(capture);
    int again = mode == MMSB__CAPTURE_OFF      ? 0
                : mode == MMSB__CAPTURE_FROZEN ? 1
                                               : keep_in(capture, record, state, offset, length);
    leave(capture);
    return again;
}

int mmsb__preimage_keep_written(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    uint32_t index = mmsb__record_index(record);
    mmsb__capture_t *capture = mmsb__capture_of(mmsb__record_context(index));
    if (!capture || __atomic_load_n(&capture->raw_writes, __ATOMIC_RELAXED) != MMSB_RAW_WRITES_WAIT)
        return 0;
    if (keep_for_capture(record, state, offset, length))
        return 1;
    if (enter(capture) == MMSB__CAPTURE_ON) {
        pthread_mutex_lock(&capture->lock);
        mmsb__large_t *large = find_large(capture, index);
        pthread_mutex_unlock(&capture->lock);
        if (large)
            __atomic_store_n(&large->written, 1, __ATOMIC_RELAXED);
    }
    leave(capture);
    return 0;
}

mmsb_status_t mmsb__preimage_keep_saved(mmsb__record_t *record, uint64_t state) {
    const int capturing = __atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) != 0;
    return capturing && keep_for_capture(record, state, 0, UINT64_MAX) ? MMSB__AGAIN : MMSB_OK;
}

mmsb_status_t mmsb__preimage_keep_slow(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    const int grouped = __atomic_load_n(&mmsb__groups_open, __ATOMIC_RELAXED) != 0;
    const uint32_t context = mmsb__record_context(mmsb__record_index(record));
    /* What changes as a whole may end: a call that gives something back hears of no report. */
    mmsb_status_t status = length != UINT64_MAX ? mmsb__guard_tell(context) : MMSB_OK;
    if (status == MMSB_OK && grouped)
        status = mmsb__group_check(record, state); /* busy is said without waiting */
    if (status == MMSB_OK && keep_for_capture(record, state, offset, length))
        status = MMSB__AGAIN;
    return status == MMSB_OK && grouped ? mmsb__group_keep(record, state, offset, length) : status;
}

void mmsb__capture_created_slow(uint32_t index) {
    mmsb__capture_t *capture = mmsb__capture_of(mmsb__record_context(index));
    if (!capture)
        return;
    if (enter(capture) == MMSB__CAPTURE_ON && mmsb__capture_state_of(index) == MMSB__CAPTURE_NONE)
        mmsb__capture_state_set(index, MMSB__CAPTURE_LATER);
    leave(capture);
}

uint32_t mmsb__moments_now(void) {
    uint32_t moments;
    while ((moments = __atomic_load_n(&mmsb__moments, __ATOMIC_SEQ_CST)) & 1)
        sched_yield();
    return moments;
}
