/* Bytes of pages to and from the caller's memory: access.h. */
#include "access.h"

#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "delta_input.h"
#include "disk.h"
#include "id.h"
#include "mask.h"
#include "poison.h"

mmsb_status_t mmsb__page_read(uint64_t page, uint64_t offset, void *buffer, uint64_t length) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock_bytes(page, &record, &state);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    if (MMSB__UNLIKELY(!mmsb__page_within(offset, length, record->size))) {
        status = mmsb__page_range_fail(page, offset, length, record->size);
    } else if (MMSB__UNLIKELY(mmsb__on_device(state))) {
        status = mmsb__device_read(record, offset, buffer, length);
        state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    } else if (MMSB__UNLIKELY(mmsb__on_disk(record, state))) {
        status = mmsb__disk_read(record, offset, buffer, length);
    } else if (length > 0) {
        memmove(buffer, mmsb__record_bytes(record) + offset, length); /* the buffer may lie in the page */
    }
    mmsb__page_unlock(record, state);
    return status;
}

static void write_locked(mmsb__record_t *record, uint64_t offset, const void *buffer, uint64_t length) {
    if (length == 0)
        return;
    memmove(mmsb__record_bytes(record) + offset, buffer, length); /* the buffer may lie in the page */
    mmsb__dirty_range(record, offset, offset + length - 1);
    mmsb__version_move(record);
}

static mmsb_status_t write_on_device(mmsb__record_t *record, uint64_t offset, const void *buffer, uint64_t length) {
    if (length == 0)
        return MMSB_OK;
    mmsb_status_t status = mmsb__upcalls.device_write(mmsb__record_index(record), offset, buffer, length);
    if (status == MMSB_OK)
        mmsb__version_move(record);
    return status;
}

static inline mmsb_status_t keep_and_journal(mmsb__change_t *change, uint64_t offset, const void *buffer, uint64_t length) {
    mmsb_status_t status = mmsb__change_keep(change, offset, length);
    if (status != MMSB_OK || length == 0)
        return status;
    const uint64_t at = offset; /* whose address may be taken */
    return mmsb__change_journal(change, MMSB__JOURNAL_WRITE, (mmsb__piece_t[]){{&at, sizeof at}, {buffer, length}}, 2);
}

/* A write of a page on disk, which has another version also where the disk fails: what it has of the bytes is not known. */
static mmsb_status_t write_on_disk(mmsb__change_t *change, uint64_t offset, const void *buffer, uint64_t length) {
    mmsb_status_t status = mmsb__disk_may_write(change->record, offset, length);
    if (status == MMSB_OK && mmsb__watched())
        status = keep_and_journal(change, offset, buffer, length);
    if (status != MMSB_OK || length == 0)
        return status;
    mmsb__version_move(change->record);
    return mmsb__disk_write(change->record, offset, buffer, length);
}

/* A write of a page on a device. */
static mmsb_status_t write_there(mmsb__change_t *change, uint64_t offset, const void *buffer, uint64_t length) {
    mmsb_status_t status = MMSB_OK;
    if (mmsb__watched()) {
        const mmsb_run_t run = {offset, length};
        const mmsb_delta_t delta = {
            .struct_size = sizeof delta, .kind = MMSB_DELTA_RUNS, .runs = &run, .count = 1, .payload = buffer};
        status = mmsb__change_prepare(change, &delta);
        if (status == MMSB_OK)
            status = keep_and_journal(change, offset, buffer, length);
    }
    if (status != MMSB_OK)
        return status;
    if (change->on_device)
        return mmsb__change_state(change, write_on_device(change->record, offset, buffer, length));
    write_locked(change->record, offset, buffer, length);
    return MMSB_OK;
}

mmsb_status_t mmsb__page_write(uint64_t page, uint64_t offset, const void *buffer, uint64_t length) {
    mmsb__change_t change;
    mmsb_status_t status;
    do {
        status = mmsb__change_begin(&change, page);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        mmsb__record_t *record = change.record;
        if (MMSB__UNLIKELY(change.state & MMSB__READ_ONLY))
            status = mmsb__page_read_only_fail(page);
        else if (MMSB__UNLIKELY(!mmsb__page_within(offset, length, record->size)))
            status = mmsb__page_range_fail(page, offset, length, record->size);
        else if (MMSB__UNLIKELY(change.on_device | change.on_disk)) {
            mmsb__change_t there = change; /* which has no address */
            status = (change.on_device ? write_there : write_on_disk)(&there, offset, buffer, length);
            change = there;
        } else {
            if (MMSB__UNLIKELY(mmsb__watched()))
                status = keep_and_journal(&change, offset, buffer, length);
            if (MMSB__LIKELY(status == MMSB_OK))
                write_locked(record, offset, buffer, length);
        }
        status = mmsb__change_end(&change, status);
    } while (MMSB__UNLIKELY(status != MMSB_OK) && mmsb__change_again(status, page));
    return status;
}

static mmsb_status_t check_range(void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    const mmsb_page_range_t *range = (const mmsb_page_range_t *)work + i;
    (void)state;
    if (!mmsb__page_within(range->offset, range->length, record->size))
        return mmsb__page_range_fail(range->page, range->offset, range->length, record->size);
    if (!range->buffer && range->length > 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "buffer is NULL, but length is %llu", (unsigned long long)range->length);
    return MMSB_OK;
}

/* A batch of writes. */
typedef struct write_work {
    const mmsb_page_range_t *ranges;
    size_t count;
    mmsb__blocks_t changes;    /* what the batch changes */
    mmsb_page_range_t *copied; /* the ranges, where they lie in that */
    mmsb__reach_t reach;       /* of what is on disk */
} write_work_t;

static mmsb_status_t check_write(void *argument, size_t i, mmsb__record_t *record, uint64_t state) {
    write_work_t *work = argument;
    const mmsb_page_range_t *range = &work->ranges[i];
    if (state & MMSB__READ_ONLY)
        return mmsb__page_read_only_fail(range->page);
    mmsb_status_t status = check_range((void *)(uintptr_t)work->ranges, i, record, state);
    if (MMSB__LIKELY(status == MMSB_OK && mmsb__addressed(mmsb__state_held(record))))
        mmsb__blocks_add(&work->changes, mmsb__record_bytes(record) + range->offset, range->length);
    else if (status == MMSB_OK && mmsb__on_disk(record, mmsb__state_held(record)))
        mmsb__reach_add(&work->reach, mmsb__disk_at(record, range->offset), range->length, i);
    return status;
}

/* What is on disk may be written; ranges that lie in pages of the batch are copied. */
static mmsb_status_t check_own(void *argument, mmsb__batch_t *batch, mmsb_status_t status, size_t *bad) {
    write_work_t *work = argument;
    if (MMSB__UNLIKELY(work->reach.length > 0) && status == MMSB_OK)
        status = mmsb__disk_may_reach(&work->reach, bad);
    if (MMSB__UNLIKELY(status == MMSB_OK && !work->copied &&
                       mmsb__blocks_have(&work->changes, work->ranges, work->count * sizeof *work->ranges))) {
        work->copied = mmsb__array_copy(work->ranges, work->count, sizeof *work->ranges);
        if (!work->copied)
            return mmsb__error()->error_code;
        work->ranges = work->copied;
    }
    if (MMSB__UNLIKELY(work->copied != NULL))
        batch->first = (const uint8_t *)work->copied;
    return status;
}

/* The ranges of a locked batch whose pages are on disk, as transfers; NULL where there is none. Without memory *failed is set. */
static mmsb__transfer_t *transfers_of(const mmsb_page_range_t *ranges, size_t count, size_t *found, mmsb_status_t *failed) {
    mmsb__transfer_t *transfers = NULL;
    *failed = MMSB_OK;
    *found = 0;
    for (size_t i = 0; i < count; i++) {
        const mmsb__record_t *record = mmsb__record_of(ranges[i].page);
        if (ranges[i].length == 0 || !mmsb__on_disk(record, mmsb__state_held(record)))
            continue;
        if (!transfers && !(transfers = count <= SIZE_MAX / sizeof *transfers ? malloc(count * sizeof *transfers) : NULL)) {
            *failed = mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a batch of %zu pages on disk", count);
            return NULL;
        }
        transfers[(*found)++] = mmsb__transfer_of(record, ranges[i].offset, ranges[i].buffer, ranges[i].length, i);
    }
    return transfers;
}

static mmsb_status_t read_from_disk(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index) {
    size_t found, bad = 0;
    mmsb_status_t status;
    mmsb__transfer_t *transfers = transfers_of(ranges, count, &found, &status);
    if (transfers)
        status = mmsb__disk_read_all(transfers, found, &bad);
    free(transfers);
    if (status != MMSB_OK && bad_index)
        *bad_index = bad;
    return status;
}

mmsb_status_t mmsb__page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index) {
    mmsb__batch_t batch = {
        .first = (const uint8_t *)ranges, .stride = sizeof *ranges, .count = count, .on_devices = 1, .on_disk = 1};
    mmsb_status_t status = mmsb__batch_lock(&batch, check_range, (void *)(uintptr_t)ranges, bad_index);
    if (status != MMSB_OK)
        return status;
    if (MMSB__UNLIKELY(batch.absent))
        status = read_from_disk(ranges, count, bad_index);
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        const mmsb__record_t *record = mmsb__record_of(ranges[i].page);
        if (MMSB__UNLIKELY(batch.absent) && mmsb__on_disk(record, mmsb__state_held(record)))
            continue;
        if (MMSB__UNLIKELY(mmsb__on_device(mmsb__state_held(record)))) {
            status = mmsb__device_read(record, ranges[i].offset, ranges[i].buffer, ranges[i].length);
            if (status != MMSB_OK && bad_index)
                *bad_index = i;
        } else if (ranges[i].length > 0) {
            memmove(ranges[i].buffer, mmsb__record_bytes(record) + ranges[i].offset, ranges[i].length);
        }
    }
    mmsb__batch_unlock(&batch);
    return status;
}

static void put_write(mmsb__group_t *group, const mmsb__record_t *record, const mmsb_page_range_t *range) {
    mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_WRITE,
                                 .page = mmsb__record_id(MMSB__HANDLE_INDEX(range->page), mmsb__state_held(record)),
                                 .version = record->version + 1,
                                 .epoch = record->epoch};
    mmsb__ring_put(group, head, (mmsb__piece_t[]){{&range->offset, sizeof range->offset}, {range->buffer, range->length}}, 2);
}

static mmsb_status_t keep_range(const void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    const mmsb_page_range_t *range = &((const write_work_t *)work)->ranges[i];
    return mmsb__preimage_keep(record, state, range->offset, range->length);
}

static void write_either(void *work, size_t i, mmsb__record_t *record, int on_device) {
    const mmsb_page_range_t *range = &((const write_work_t *)work)->ranges[i];
    if (!on_device)
        write_locked(record, range->offset, range->buffer, range->length);
    else if (range->length > 0)
        mmsb__version_move(record);
}

/* A batch that has pages on devices, as the deltas that devices take. */
static mmsb_status_t write_on_devices(void *work, size_t count, size_t *bad) {
    static const mmsb__changes_kind_t kind = {0};
    const size_t each = sizeof(mmsb_delta_t) + sizeof(mmsb_page_range_t) + sizeof(mmsb_run_t) + sizeof(mmsb_page_t);
    mmsb_delta_t *deltas = count <= SIZE_MAX / each ? malloc(count * each) : NULL;
    *bad = 0;
    if (!deltas)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a batch of %zu writes", count);
    mmsb_page_range_t *ranges = (mmsb_page_range_t *)(void *)(deltas + count); /* a copy: they may lie in pages of the host */
    mmsb_run_t *runs = (mmsb_run_t *)(void *)(ranges + count);
    mmsb_page_t *pages = (mmsb_page_t *)(void *)(runs + count);
    write_work_t own = {.ranges = ranges, .count = count};
    memcpy(ranges, ((const write_work_t *)work)->ranges, count * sizeof *ranges);
    for (size_t i = 0; i < count; i++) {
        pages[i] = ranges[i].page;
        runs[i] = (mmsb_run_t){ranges[i].offset, ranges[i].length};
        deltas[i] = (mmsb_delta_t){
            .struct_size = sizeof *deltas, .kind = MMSB_DELTA_RUNS, .runs = &runs[i], .count = 1, .payload = ranges[i].buffer};
    }
    mmsb_status_t status = mmsb__changes_on_devices(pages, deltas, count, check_write, &kind, write_either, &own, bad);
    free(deltas);
    return status;
}

/* The ranges of a locked batch that are on disk: one after the other where a page repeats, because the order counts, and without
 * memory, because the batch can no longer be refused. */
static mmsb_status_t write_to_disk(const mmsb_page_range_t *ranges, const mmsb__batch_t *batch, size_t *bad) {
    size_t found;
    mmsb_status_t status;
    mmsb__transfer_t *transfers = batch->repeats ? NULL : transfers_of(ranges, batch->count, &found, &status);
    if (transfers) {
        status = mmsb__disk_write_all(transfers, found, bad);
        free(transfers);
        return status;
    }
    for (*bad = 0; *bad < batch->count; ++*bad) {
        const mmsb_page_range_t *range = &ranges[*bad];
        const mmsb__record_t *record = mmsb__record_of(range->page);
        if (range->length == 0 || !mmsb__on_disk(record, mmsb__state_held(record)))
            continue;
        status = mmsb__disk_write(record, range->offset, range->buffer, range->length);
        if (status != MMSB_OK)
            return status;
    }
    return MMSB_OK;
}

/* Writes of no bytes are not told. */
static void measure_writes(const void *work, size_t count, uint64_t *bytes, uint64_t *records) {
    const mmsb_page_range_t *ranges = ((const write_work_t *)work)->ranges;
    for (size_t i = 0; i < count; i++) {
        *bytes += ranges[i].length > 0 ? mmsb__journal_run_space(ranges[i].length) : 0;
        *records += ranges[i].length > 0;
    }
}

mmsb_status_t mmsb__page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index) {
    static const mmsb__changes_kind_t kind = {
        .check_all = check_own, .keep = keep_range, .measure = measure_writes, .on_devices = write_on_devices};
    write_work_t work = {.ranges = ranges, .count = count};
    mmsb__batch_t batch = {
        .first = (const uint8_t *)ranges, .stride = sizeof *ranges, .count = count, .on_disk = 1, .diverts = 1, .keeps = 1};
    mmsb__changes_t changes;
    mmsb_status_t status = mmsb__changes_begin(&changes, batch, check_write, &kind, &work, bad_index);
    if (MMSB__UNLIKELY(status != MMSB_OK)) {
        free(work.copied);
        return status;
    }
    ranges = work.ranges;
    mmsb__group_t *group = changes.ring ? &changes.group : NULL;
    const size_t left = changes.batch.count;
    size_t bad = 0;
    for (size_t i = 0; i < left; i++) {
        mmsb__record_t *record = mmsb__record_of(ranges[i].page);
        if (MMSB__UNLIKELY(group) && ranges[i].length > 0)
            put_write(group, record, &ranges[i]);
        if (MMSB__LIKELY(!changes.batch.absent) || !mmsb__on_disk(record, mmsb__state_held(record)))
            write_locked(record, ranges[i].offset, ranges[i].buffer, ranges[i].length);
        else if (ranges[i].length > 0)
            mmsb__version_move(record);
    }
    if (MMSB__UNLIKELY(changes.batch.absent) && (status = write_to_disk(ranges, &changes.batch, &bad)) != MMSB_OK && bad_index)
        *bad_index = bad;
    mmsb_status_t ended = mmsb__changes_end(&changes);
    free(work.copied);
    return status != MMSB_OK ? status : ended;
}

/* ------------------------------------------------------------------------------------------------ another size ---- */

/* Counts that a page has become larger or smaller. */
static void count_resize(uint32_t context_index, uint64_t old, uint64_t size) {
    mmsb__cache_t *cache = mmsb__cache_for(context_index);
    mmsb__context_record_t *context = mmsb__context_record(context_index);
    uint64_t *counter = size > old ? (cache ? &cache->bytes_created : &context->bytes_created)
                                   : (cache ? &cache->bytes_freed : &context->bytes_freed);
    __atomic_add_fetch(counter, size > old ? size - old : old - size, __ATOMIC_RELAXED);
}

/* The steps between the lock and the unlock. */
static mmsb_status_t resize_locked(mmsb__change_t *change, uint64_t page, uint64_t size) {
    mmsb__record_t *record = change->record;
    uint32_t class_number = MMSB__STATE_CLASS(change->state);
    mmsb_status_t status = mmsb__change_tell(change);
    if (status == MMSB_OK)
        status = mmsb__change_keep_page(change);
    if (status != MMSB_OK)
        return status;
    if (mmsb__record_pinned(record))
        return mmsb__page_pinned_fail(page, record);
    if (class_number >= MMSB__SMALL_CLASSES || size > MMSB__SMALL_MAX || mmsb__class_of(size) != class_number ||
        (record->mask_frame != 0 && mmsb__mask_length(size) > mmsb__record_at(record->mask_frame)->size))
        return MMSB__ENTER_GO;
    uint64_t old = record->size;
    if (size == old)
        return MMSB_OK;
    if (MMSB__UNLIKELY(mmsb__group_of(mmsb__record_context(mmsb__record_index(record))) != NULL))
        return MMSB__ENTER_GO; /* the page gets other memory: a rollback gives it this again */
    status = mmsb__change_journal(change, MMSB__JOURNAL_RESIZE, &(mmsb__piece_t){&size, sizeof size}, 1);
    if (status != MMSB_OK)
        return status;
    uint8_t *bytes = mmsb__record_bytes(record);
    MMSB__UNPOISON(bytes, mmsb__class_size(class_number));
    MMSB__POISON(bytes + size, mmsb__class_size(class_number) - size);
    if (size > old)
        memset(bytes + old, 0, size - old);
    count_resize(mmsb__record_context(mmsb__record_index(record)), old, size);
    mmsb__mask_trim(record, size);
    __atomic_store_n(&record->size, size, __ATOMIC_RELAXED);
    mmsb__version_move(record);
    return MMSB_OK;
}

mmsb_status_t mmsb__page_resize_in_place(uint64_t page, uint64_t size) {
    mmsb__change_t change;
    mmsb_status_t status;
    do {
        status = mmsb__change_begin_page(&change, page, MMSB__MOVING);
        if (status != MMSB_OK)
            return status;
        status = mmsb__change_end(&change, resize_locked(&change, page, size));
    } while (status == MMSB__AGAIN);
    return status;
}
