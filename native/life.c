/* Creating and destroying pages when one inline step is not enough; publishing frames that Go has made: life.h. */
#include "life.h"

#include "change.h"
#include "id.h"
#include "mask.h"

/* ------------------------------------------------------------------------------------------------------ create ---- */

/* The handle that the magazine gives next, or NULL. */
static const void *next_memory(const mmsb__magazine_t *magazine) {
    return magazine->count == 0 ? NULL : mmsb__record_bytes(mmsb__record_of(magazine->handles[magazine->count - 1]));
}

/* Prepares small memory, just popped off the magazine, for a new page. */
static void open_memory(mmsb__record_t *record, uint32_t class_number, int zeroed, const mmsb__magazine_t *magazine) {
    MMSB__UNPOISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
    if (zeroed)
        mmsb__record_clean(record, class_number, next_memory(magazine));
}

/* Puts the journal record of a small page that is about to begin. */
static mmsb_status_t journal_create(mmsb__ring_t *ring, const mmsb__cache_t *cache, uint64_t page, uint64_t size,
                                    uint64_t *sequence) {
    mmsb__journal_create_t creation = {.size = size, .location = MMSB_LOCATION_CPU, .numa_node = -1};
    mmsb__journal_head_t head = {
        .kind = MMSB__JOURNAL_CREATE, .page = mmsb__automatic_id(mmsb__context_record(cache->context_index), page), .version = 1};
    return mmsb__ring_append(ring, head, &(mmsb__piece_t){&creation, sizeof creation}, 1, sequence);
}

/* Tells the thread's group and the journal, where there are such, of a small page that is about to begin. */
static mmsb_status_t tell_create(mmsb__open_group_t *group, mmsb__ring_t *ring, const mmsb__cache_t *cache, uint64_t page,
                                 uint64_t size, uint64_t *sequence) {
    const void *top = group ? mmsb__group_top(group) : NULL;
    mmsb_status_t status = group ? mmsb__group_push_create(group, page) : MMSB_OK;
    if (status == MMSB_OK && ring && (status = journal_create(ring, cache, page, size, sequence)) != MMSB_OK && group)
        mmsb__group_drop(group, top);
    return status;
}

mmsb_status_t mmsb__page_create_small(uint64_t context, uint64_t size, int zeroed, mmsb_page_t *page) {
    mmsb__cache_t *cache = mmsb__current;
    if (!cache || context == 0 ||
        __atomic_load_n(&cache->context, __ATOMIC_RELAXED) != context) /* a free cache has the context 0 */
        cache = mmsb__cache_enter(context);
    if (!cache)
        return mmsb__error()->error_code;
    mmsb__context_await(cache->context_index);
    if (!mmsb__guard_pass(cache->context_index, 1))
        return MMSB__ENTER_GO;
    uint32_t class_number = mmsb__class_of(size);
    uint64_t handle;
    mmsb__open_group_t *group = mmsb__group_of(cache->context_index);
    mmsb_status_t status = group ? mmsb__group_reserve(group, MMSB__GROUP_CREATE_SPACE) : MMSB_OK;
    if (MMSB__LIKELY(status == MMSB_OK))
        status = mmsb__cache_pop(cache, class_number, &handle);
    if (status != MMSB_OK)
        return status;
    mmsb__record_t *record = mmsb__record_of(handle);
    if (__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED)) { /* Go knows which ids are taken */
        cache->loaded[class_number]->count++;
        mmsb__cache_end(cache);
        return MMSB__ENTER_GO;
    }
    mmsb__capture_created(MMSB__HANDLE_INDEX(handle)); /* before the record: what has a number at the moment is captured */
    mmsb__ring_t *ring = mmsb__ring_for(cache->context_index);
    uint64_t sequence = 0;
    if (MMSB__UNLIKELY(ring || group) && (status = tell_create(group, ring, cache, handle, size, &sequence)) != MMSB_OK) {
        cache->loaded[class_number]->count++;
        mmsb__cache_end(cache);
        return status;
    }
    open_memory(record, class_number, zeroed, cache->loaded[class_number]);
    mmsb__page_begin(record, handle, size, class_number);
    mmsb__counter_add(&cache->creates, 1);
    mmsb__counter_add(&cache->bytes_created, size);
    mmsb__cache_end(cache);
    *page = handle;
    return mmsb__journal_settle(ring, sequence, MMSB_OK);
}

void mmsb__page_uncreate(const mmsb_page_t *pages, size_t count) {
    mmsb__open_group_t *group = count > 0 ? mmsb__group_of(mmsb__record_context(MMSB__HANDLE_INDEX(pages[0]))) : NULL;
    if (MMSB__UNLIKELY(group != NULL)) {
        mmsb__group_uncreate(group, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t context = mmsb__record_context(MMSB__HANDLE_INDEX(pages[i]));
        uint64_t size = mmsb__record_of(pages[i])->size;
        if (mmsb__page_destroy_slow(pages[i]) == MMSB_OK) /* create and destroy were counted; neither should be */
            mmsb__context_add(context, -UINT64_C(1), -UINT64_C(1), -size, -size);
    }
}

/* Begins pages on records of a magazine, without capture, journal or cleaning, until an id may be taken. Returns the number. */
static size_t begin_run(mmsb__magazine_t *magazine, uint32_t class_number, uint64_t size, size_t most, mmsb_page_t *pages) {
    const uint32_t count = magazine->count < most ? magazine->count : (uint32_t)most;
    const uint64_t *handles = magazine->handles + magazine->count;
    uint32_t i = 0;
    for (; i < count; i++) {
        if (i + 4 < count)
            __builtin_prefetch(mmsb__record_of(handles[-5]), 1);
        const uint64_t handle = *--handles;
        mmsb__record_t *record = mmsb__record_of(handle);
        if (MMSB__UNLIKELY(__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED)))
            break;
        open_memory(record, class_number, 0, magazine);
        mmsb__page_begin(record, handle, size, class_number);
        pages[i] = handle;
    }
    magazine->count -= i;
    return i;
}

mmsb_status_t mmsb__page_create_many(uint64_t context, uint64_t size, size_t count, int zeroed, mmsb_page_t *pages) {
    mmsb__cache_t *cache = mmsb__cache_enter(context);
    if (!cache)
        return mmsb__error()->error_code;
    mmsb__context_await(cache->context_index);
    uint32_t class_number = mmsb__class_of(size);
    size_t made = 0;
    mmsb_status_t status = MMSB_OK;
    mmsb__ring_t *written = NULL;
    uint64_t sequence = 0;
    mmsb__open_group_t *group = mmsb__group_of(cache->context_index);
    if (MMSB__UNLIKELY(!group && mmsb__ring_for(cache->context_index) != NULL))
        return MMSB__ENTER_GO; /* which makes the call a group */
    if (!mmsb__guard_pass(cache->context_index, count))
        return MMSB__ENTER_GO;
    while (made < count) {
        uint64_t handle;
        if (group)
            status = mmsb__group_reserve(group, MMSB__MAGAZINE_ROUNDS * MMSB__GROUP_CREATE_SPACE);
        if (MMSB__LIKELY(status == MMSB_OK))
            status = mmsb__cache_pop(cache, class_number, &handle);
        if (status != MMSB_OK)
            break;
        /* These answers hold for the pages of this magazine: a caller that opens a journal or captures waits for the cache. */
        mmsb__ring_t *ring = mmsb__ring_for(cache->context_index);
        if (MMSB__UNLIKELY(ring))
            written = ring;
        mmsb__magazine_t *magazine = cache->loaded[class_number];
        magazine->count++;
        const size_t first = made;
        if (!zeroed && MMSB__LIKELY(__atomic_load_n(&mmsb__detours, __ATOMIC_RELAXED) == 0))
            made += begin_run(magazine, class_number, size, count - made, pages + made);
        const size_t batch = magazine->count < count - made ? magazine->count : count - made;
        for (size_t i = 0; i < batch; i++) {
            if (i + 4 < batch)
                __builtin_prefetch(mmsb__record_of(magazine->handles[magazine->count - 5]), 1);
            handle = magazine->handles[magazine->count - 1];
            mmsb__record_t *record = mmsb__record_of(handle);
            if (MMSB__UNLIKELY(__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED))) {
                status = MMSB__ENTER_GO;
                break;
            }
            mmsb__capture_created(MMSB__HANDLE_INDEX(handle));
            if (MMSB__UNLIKELY(ring || group) && (status = tell_create(group, ring, cache, handle, size, &sequence)) != MMSB_OK)
                break;
            magazine->count--;
            open_memory(record, class_number, zeroed, magazine);
            mmsb__page_begin(record, handle, size, class_number);
            pages[made++] = handle;
        }
        mmsb__counter_add(&cache->creates, made - first);
        mmsb__counter_add(&cache->bytes_created, (made - first) * size);
        mmsb__cache_end(cache);
        if (status != MMSB_OK)
            break;
    }
    if (status != MMSB_OK) { /* the error of the failed call stays the last one */
        mmsb__page_uncreate(pages, made);
        return status;
    }
    return mmsb__journal_settle(written, sequence, MMSB_OK);
}

static void publish(const mmsb__staged_t *page) {
    mmsb__record_t *record = mmsb__record_at(page->index);
    uint64_t state = mmsb__state_load(record);
    MMSB__ASSERT(MMSB__HANDLE_KIND(state) == MMSB__STATE_FRAME, page->index, state);
    mmsb__page_redzone(page->index, state, page->size);
    __atomic_store_n(&record->size, page->size, __ATOMIC_RELAXED);
    __atomic_store_n(&record->epoch, page->epoch, __ATOMIC_RELAXED);
    __atomic_store_n(&record->version, page->version, __ATOMIC_RELAXED);
    mmsb__capture_created(page->index);
    mmsb__record_become(record,
                        MMSB__STATE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), (state & MMSB__CLASS_MASK) | page->low));
}

void mmsb__pages_publish(uint32_t context_index, const mmsb__staged_t *pages, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pages[i].size;
    mmsb__context_add(context_index, count, 0, bytes, 0);
    for (size_t i = 0; i < count; i++)
        publish(&pages[i]);
}

void mmsb__page_publish(uint32_t index, uint64_t size, uint64_t low, uint64_t epoch, uint64_t version) {
    mmsb__staged_t page = {.size = size, .epoch = epoch, .version = version, .low = low, .index = index};
    mmsb__pages_publish(mmsb__record_context(index), &page, 1);
}

/* ----------------------------------------------------------------------------------------------------- destroy ---- */

void mmsb__page_end_locked(uint64_t page, uint64_t state) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint32_t class_number = MMSB__STATE_CLASS(state), index = MMSB__HANDLE_INDEX(page);
    if (class_number >= MMSB__SMALL_CLASSES || record->side != 0 || MMSB__HANDLE_GENERATION(page) == MMSB__GENERATION_MAX) {
        mmsb__upcalls.end(index, state);
        return;
    }
    mmsb__mask_drop(record);
    mmsb__record_finish(index, state);
}

mmsb_status_t mmsb__page_destroy_slow(uint64_t page) {
    mmsb__change_t change;
    mmsb_status_t status;
    do {
        status = mmsb__change_begin_page(&change, page, MMSB__MOVING);
        if (status != MMSB_OK)
            return status;
        if (mmsb__record_pinned(change.record))
            status = mmsb__page_pinned_fail(page, change.record);
        if (status == MMSB_OK)
            status = mmsb__change_keep_page(&change);
        mmsb__open_group_t *group = mmsb__group_of(mmsb__record_context(MMSB__HANDLE_INDEX(page)));
        if (status == MMSB_OK && group)
            status = mmsb__group_push_destroy(group, page, change.record, change.state);
        if (status == MMSB_OK) {
            status = mmsb__change_journal(&change, MMSB__JOURNAL_DESTROY, NULL, 0);
            if (status != MMSB_OK && group)
                mmsb__group_drop_destroy(group, change.record);
        }
        if (status == MMSB_OK && group) {
            mmsb__group_leave(page, change.record, change.state);
            return MMSB_OK;
        }
        if (MMSB__LIKELY(status == MMSB_OK)) {
            mmsb__page_end_locked(page, change.state);
            return mmsb__change_settle(&change, MMSB_OK);
        }
        status = mmsb__change_end(&change, status);
    } while (status == MMSB__AGAIN);
    return status;
}

void mmsb__record_finish(uint32_t index, uint64_t state) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint64_t page = MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), index);
    uint32_t class_number = MMSB__STATE_CLASS(state);
    uint64_t free_state = MMSB__STATE(MMSB__STATE_FREE, MMSB__HANDLE_GENERATION(page) + 1, state & MMSB__CLASS_MASK);
    mmsb__cache_t *cache = mmsb__cache_for(mmsb__record_context(index));
    if (cache && mmsb__cache_make_space(cache, class_number) == MMSB_OK) {
        mmsb__page_end(cache, cache->loaded[class_number], record, page, free_state);
        mmsb__cache_end(cache);
        return;
    }
    /* The context is ending: its end takes the record whatever it says, once it is unlocked. */
    mmsb__record_become(record, free_state);
}

static mmsb_status_t check_destroy(void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    const mmsb_page_t *pages = work;
    (void)state;
    return mmsb__record_pinned(record) ? mmsb__page_pinned_fail(pages[i], record) : MMSB_OK;
}

/* Ends the first of these locked pages, as many as are small, have nothing beside their bytes, and go into one magazine. */
static size_t end_run(const mmsb_page_t *pages, size_t count) {
    mmsb__cache_t *cache = mmsb__current;
    if (!cache)
        return 0;
    mmsb__cache_begin(cache);
    if (!mmsb__cache_open(cache)) {
        mmsb__cache_end(cache);
        return 0;
    }
    const uint64_t held = mmsb__state_held(mmsb__record_of(pages[0])), low = held & MMSB__INDEX_MASK;
    const uint32_t class_number = MMSB__STATE_CLASS(held);
    if (class_number >= MMSB__SMALL_CLASSES || (low & ~MMSB__OWNER_MASK) != (MMSB__LIVE | class_number)) {
        mmsb__cache_end(cache);
        return 0;
    }
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    uint32_t filled =
        magazine ? magazine->count : MMSB__MAGAZINE_ROUNDS; /* a local: the field would chain one item to the next */
    size_t i = 0;
    uint64_t bytes = 0, known = ~pages[0]; /* a page of a leaf that is the context's: none yet */
    for (; i < count; i++) {
        uint64_t page = pages[i];
        mmsb__record_t *record = mmsb__record_of(page);
        const uint64_t state = mmsb__state_held(record);
        /* Handles 0, which are skipped, match no live state. */
        if (MMSB__UNLIKELY(mmsb__state_beside(state, page) != low || !mmsb__record_bare(record) || mmsb__page_is_last(page)))
            break;
        if (MMSB__UNLIKELY((page ^ known) & MMSB__INDEX_MASK & ~(uint64_t)(MMSB__LEAF_RECORDS - 1))) {
            if (mmsb__record_context(MMSB__HANDLE_INDEX(page)) != cache->context_index)
                break;
            known = page;
        }
        if (MMSB__UNLIKELY(filled == MMSB__MAGAZINE_ROUNDS)) {
            if (magazine)
                magazine->count = filled;
            if (mmsb__magazine_make_space(cache, class_number) != MMSB_OK)
                break;
            magazine = cache->loaded[class_number];
            filled = magazine->count;
        }
        MMSB__POISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
        bytes += record->size;
        mmsb__record_become(record, mmsb__state_after(state - (low & MMSB__OWNER_MASK)));
        magazine->handles[filled++] = mmsb__page_next(page);
    }
    if (magazine)
        magazine->count = filled;
    mmsb__counter_add(&cache->frees, i);
    mmsb__counter_add(&cache->bytes_freed, bytes);
    mmsb__cache_end(cache);
    return i;
}

static void measure_destroy(const void *work, size_t count, uint64_t *bytes, uint64_t *records) {
    const mmsb_page_t *pages = work;
    for (size_t i = 0; i < count; i++)
        *records += pages[i] != 0;
    *bytes = *records * mmsb__journal_space(0);
}

/* Puts the journal records of pages that end together. */
static mmsb_status_t journal_destroy(mmsb__group_t *group, const mmsb_page_t *pages, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const mmsb__record_t *record = mmsb__record_of(pages[i]);
        if (pages[i] == 0)
            continue;
        mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_DESTROY,
                                     .page = mmsb__record_id(MMSB__HANDLE_INDEX(pages[i]), mmsb__state_held(record)),
                                     .version = record->version,
                                     .epoch = record->epoch};
        mmsb__ring_put(group, head, NULL, 0);
    }
    return mmsb__ring_end(group);
}

/* The thread's group that a page of a batch belongs to; NULL = none. */
static mmsb__open_group_t *group_of(uint64_t page) {
    return page == 0 ? NULL : mmsb__group_of(mmsb__record_context(MMSB__HANDLE_INDEX(page)));
}

/* Tells the thread's groups of the locked pages that are to leave: of all, or of none. */
static mmsb_status_t push_destroys(const mmsb__changes_t *changes, const mmsb_page_t *pages, size_t count) {
    mmsb_status_t status = MMSB_OK;
    size_t pushed = 0;
    for (; status == MMSB_OK && pushed < count; pushed++) {
        mmsb__record_t *record = mmsb__record_of(pages[pushed]);
        if (group_of(pages[pushed]))
            status = mmsb__group_push_destroy(group_of(pages[pushed]), pages[pushed], record,
                                              mmsb__state_held(record) & ~MMSB__OWNER_MASK);
    }
    pushed -= status != MMSB_OK;
    if (status == MMSB_OK && changes->ring && changes->group.held) /* as at the beginning: the space may lie elsewhere by now */
        status =
            mmsb__group_reserve_records(changes->group.held, changes->group.left * mmsb__journal_space(0), changes->group.left);
    while (status != MMSB_OK && pushed-- > 0) {
        if (group_of(pages[pushed]))
            mmsb__group_drop_destroy(group_of(pages[pushed]), mmsb__record_of(pages[pushed]));
    }
    return status;
}

/* Ends locked pages one by one, those of groups when these commit. */
static void end_or_leave(const mmsb_page_t *pages, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (pages[i] == 0)
            continue;
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        uint64_t state = mmsb__state_held(record) & ~MMSB__OWNER_MASK;
        group_of(pages[i]) ? mmsb__group_leave(pages[i], record, state) : mmsb__page_end_locked(pages[i], state);
    }
}

mmsb_status_t mmsb__page_destroy_many(const mmsb_page_t *pages, size_t count, size_t *bad_index) {
    static const mmsb__changes_kind_t kind = {.measure = measure_destroy};
    mmsb__batch_t batch = {.first = (const uint8_t *)pages,
                           .stride = sizeof *pages,
                           .count = count,
                           .distinct = 1,
                           .bytes_stay = 1,
                           .refused = MMSB__MOVING};
    mmsb__changes_t changes;
    mmsb_status_t status = mmsb__changes_begin(&changes, batch, check_destroy, &kind, (void *)(uintptr_t)pages, bad_index);
    if (status != MMSB_OK)
        return status;
    const int grouped = MMSB__UNLIKELY(__atomic_load_n(&mmsb__groups_open, __ATOMIC_RELAXED) != 0) && mmsb__group_any();
    status = grouped ? push_destroys(&changes, pages, count) : MMSB_OK;
    if (status == MMSB_OK && changes.ring)
        status = journal_destroy(&changes.group, pages, count);
    if (status != MMSB_OK) {
        mmsb__batch_unlock(&changes.batch);
        return status;
    }
    if (grouped) {
        end_or_leave(pages, count);
        return mmsb__changes_settle(&changes, MMSB_OK);
    }
    size_t done = 0;
    while (done < count) {
        done += end_run(pages + done, count - done);
        if (done < count) { /* a run ends at another context or size class, a page with more than bytes, or a full magazine */
            if (pages[done] != 0)
                mmsb__page_end_locked(pages[done], mmsb__state_held(mmsb__record_of(pages[done])) & ~MMSB__OWNER_MASK);
            done++;
        }
    }
    return mmsb__changes_settle(&changes, MMSB_OK);
}

void mmsb__context_add(uint32_t context_index, uint64_t creates, uint64_t frees, uint64_t bytes_created, uint64_t bytes_freed) {
    mmsb__context_record_t *context = mmsb__context_record(context_index);
    __atomic_add_fetch(&context->creates, creates, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->frees, frees, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->bytes_created, bytes_created, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->bytes_freed, bytes_freed, __ATOMIC_RELAXED);
}
