/* The part of the protocol of change that is not inline: journals, batches that are captured or lie on devices. See change.h. */
#include "change.h"

#include "id.h"

/* --------------------------------------------------------------------------------------------------- one page ---- */

mmsb_status_t mmsb__change_journal_slow(mmsb__change_t *change, mmsb__journal_kind_t kind, const mmsb__piece_t *pieces,
                                        size_t count) {
    mmsb__record_t *record = change->record;
    uint32_t index = mmsb__record_index(record);
    const int ends = kind == MMSB__JOURNAL_DESTROY;
    const uint64_t version = ends ? record->version : mmsb__group_version(record);
    change->ring = mmsb__ring_for(mmsb__record_context(index));
    mmsb__journal_head_t head = {
        .kind = (uint8_t)kind, .page = mmsb__record_id(index, change->state), .version = version + !ends, .epoch = record->epoch};
    mmsb_status_t status = change->ring ? mmsb__ring_append(change->ring, head, pieces, count, &change->sequence) : MMSB_OK;
    if (status == MMSB_OK)
        mmsb__group_change_from(record, version);
    return status;
}

mmsb_status_t mmsb__change_journal_delta_slow(mmsb__change_t *change, uint64_t epoch, const mmsb_delta_t *delta) {
    mmsb__record_t *record = change->record;
    uint32_t index = mmsb__record_index(record);
    const uint64_t version = mmsb__group_version(record);
    change->ring = mmsb__ring_for(mmsb__record_context(index));
    mmsb_status_t status = change->ring ? mmsb__ring_append_delta(change->ring, mmsb__record_id(index, change->state),
                                                                  version + 1, epoch, delta, &change->sequence)
                                        : MMSB_OK;
    if (status == MMSB_OK)
        mmsb__group_change_from(record, version);
    return status;
}

mmsb_status_t mmsb__change_prepare(mmsb__change_t *change, const mmsb_delta_t *delta) {
    mmsb_status_t status = mmsb__change_state(change, mmsb__upcalls.device_prepare(mmsb__record_index(change->record), delta));
    if (status != MMSB_E_UNSUPPORTED)
        return status;
    change->on_device = 0;
    return mmsb__page_make_resident(change->record, &change->state);
}

int mmsb__change_again(mmsb_status_t status, uint64_t page) {
    return status == MMSB__AGAIN ||
           (status == MMSB_E_NO_SPACE && mmsb__ring_await_space(mmsb__record_context(MMSB__HANDLE_INDEX(page))));
}

/* -------------------------------------------------------------------------------------------------- many pages ---- */

mmsb_status_t mmsb__batch_keep(const mmsb__batch_t *batch, mmsb__batch_keep_t keep, const void *work, size_t *bad) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) == 0))
        return MMSB_OK;
    uint32_t moments = mmsb__moments_now();
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t page = mmsb__handle_at(batch->first, batch->stride, i);
        if (page == 0)
            continue;
        mmsb__record_t *record = mmsb__record_of(page);
        uint64_t state = mmsb__state_held(record) & ~MMSB__OWNER_MASK;
        mmsb_status_t status = keep ? keep(work, i, record, state) : mmsb__preimage_keep_page(record, state);
        if (status == MMSB_OK)
            continue;
        mmsb__batch_unlock(batch);
        if (status == MMSB__AGAIN)
            mmsb__capture_wait(MMSB__HANDLE_INDEX(page));
        else if (bad)
            *bad = i;
        return status;
    }
    /* A moment came between two pages: keep all again, under the same locks. */
    return mmsb__moment_came(moments) ? mmsb__batch_keep(batch, keep, work, bad) : MMSB_OK;
}

/* Lets the pages of a locked batch change from versions of the thread's groups. */
static void begin_versions(const mmsb__batch_t *batch) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__groups_open, __ATOMIC_RELAXED) == 0))
        return;
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t page = mmsb__handle_at(batch->first, batch->stride, i);
        if (page != 0)
            mmsb__group_change_from(mmsb__record_of(page), mmsb__group_version(mmsb__record_of(page)));
    }
}

/* The journal of a locked batch; NULL if there is none. */
static mmsb_status_t ring_of(const mmsb__batch_t *batch, mmsb__ring_t **ring) {
    *ring = NULL;
    uint32_t first = 0;
    int several = 0, journalled = 0;
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t page = mmsb__handle_at(batch->first, batch->stride, i);
        if (page == 0)
            continue;
        uint32_t context = mmsb__record_context(MMSB__HANDLE_INDEX(page));
        mmsb__ring_t *found = mmsb__ring_for(context);
        several |= first != 0 && first != context;
        journalled |= found != NULL;
        first = context;
        *ring = found;
    }
    if (several && journalled)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "batch has pages of several contexts, and one of them has a journal");
    return MMSB_OK;
}

mmsb_status_t mmsb__changes_journal_slow(mmsb__changes_t *changes, const mmsb__changes_kind_t *kind, const void *work) {
    uint64_t bytes = 0, records = 0;
    mmsb_status_t status = ring_of(&changes->batch, &changes->ring);
    if (status == MMSB_OK && changes->ring) {
        kind->measure(work, changes->batch.count, &bytes, &records);
        if (records > 0)
            status = mmsb__ring_begin(changes->ring, &changes->group, bytes, records);
        else
            changes->ring = NULL;
    }
    if (status != MMSB_OK)
        mmsb__batch_unlock(&changes->batch);
    else if (kind->keep)
        begin_versions(&changes->batch);
    return status;
}

static mmsb_status_t check_different(void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    const mmsb_page_t *pages = work;
    (void)record;
    if (state & MMSB__OWNER_MASK)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "page 0x%016llx occurs twice in the batch", (unsigned long long)pages[i]);
    return MMSB_OK;
}

mmsb_status_t mmsb__pages_lock_library(const mmsb_page_t *pages, size_t count, size_t *bad_index) {
    mmsb__batch_t batch = {
        .first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .bytes_stay = 1, .refused = MMSB__MOVING};
    mmsb_status_t status;
    do {
        status = mmsb__batch_lock(&batch, check_different, (void *)(uintptr_t)pages, bad_index);
        if (status == MMSB_OK)
            status = mmsb__batch_keep(&batch, NULL, NULL, bad_index);
    } while (status == MMSB__AGAIN);
    if (status != MMSB_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        uint64_t state = mmsb__state_held(record) & ~MMSB__OWNER_MASK;
        __atomic_store_n(&record->state, state | MMSB__OWNER_LIBRARY, __ATOMIC_RELEASE);
    }
    return MMSB_OK;
}

mmsb_status_t mmsb__pages_journal_resize(const mmsb_page_t *pages, const uint64_t *sizes, size_t count, mmsb__ring_t **ring,
                                         uint64_t *sequence) {
    const mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count};
    uint64_t records = 0;
    mmsb__group_t group = {.ring = NULL};
    *sequence = 0;
    mmsb_status_t status = ring_of(&batch, ring);
    for (size_t i = 0; i < count; i++)
        records += mmsb__record_of(pages[i])->size != sizes[i];
    if (status == MMSB_OK && records == 0)
        *ring = NULL;
    if (status == MMSB_OK && *ring)
        status = mmsb__ring_begin(*ring, &group, records * mmsb__journal_space(sizeof *sizes), records);
    if (status != MMSB_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        if (record->size == sizes[i])
            continue;
        const uint64_t version = mmsb__group_version(record);
        mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_RESIZE,
                                     .page = mmsb__record_id(MMSB__HANDLE_INDEX(pages[i]), mmsb__state_held(record)),
                                     .version = version + 1,
                                     .epoch = record->epoch};
        mmsb__ring_put(&group, head, (mmsb__piece_t[]){{&sizes[i], sizeof sizes[i]}}, 1);
        mmsb__group_change_from(record, version);
    }
    status = mmsb__ring_end(&group);
    *sequence = group.last;
    return status;
}

mmsb_status_t mmsb__changes_on_devices(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count,
                                       mmsb__batch_check_t check, const mmsb__changes_kind_t *kind,
                                       void (*change)(void *work, size_t i, mmsb__record_t *record, int on_device), void *work,
                                       size_t *bad) {
    const uint32_t keeps = kind->check_all != NULL;
    mmsb__batch_t batch = {
        .first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .on_devices = 1, .keeps = keeps};
    mmsb_status_t status = mmsb__batch_lock(&batch, check, work, bad);
    const int locked = keeps || status == MMSB_OK;
    if (kind->check_all)
        status = kind->check_all(work, &batch, status, bad);
    if (status == MMSB_OK)
        status = mmsb__watched() ? MMSB__ENTER_GO : mmsb__upcalls.device_apply_many(pages, deltas, count, bad);
    for (size_t i = 0; status == MMSB_OK && i < count; i++) {
        mmsb__record_t *record = mmsb__record_of(mmsb__handle_at(batch.first, batch.stride, i)); /* pages may have changed */
        change(work, i, record, mmsb__on_device(mmsb__state_held(record)));
    }
    if (locked)
        mmsb__batch_unlock(&batch);
    return status;
}
