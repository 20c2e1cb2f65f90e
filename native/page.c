#include "capture.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------------------------------------------------ locks ---- */

mmsb_status_t mmsb__page_fail(uint64_t page) {
    const mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = mmsb__state_load(record);
    uint32_t generation = MMSB__HANDLE_GENERATION(page), newest = MMSB__HANDLE_GENERATION(state);
    unsigned long long shown = page;
    if (page == 0)
        return mmsb__fail(MMSB_E_INVALID_HANDLE, "the page handle is 0");
    if (MMSB__HANDLE_KIND(page) != MMSB_KIND_PAGE)
        return mmsb__fail(MMSB_E_INVALID_HANDLE, "0x%016llx is not a page: kind %u", shown, MMSB__HANDLE_KIND(page));
    uint32_t kind = MMSB__HANDLE_KIND(state);
    /* A live record of this very generation: the page was created, or its call ended, since the caller looked. */
    int given_out =
        generation != 0 &&
        (generation < newest ||
         (generation == newest && (kind == MMSB__STATE_ENDED || kind == MMSB__STATE_RETIRED || kind == MMSB_KIND_PAGE)));
    if (given_out)
        return mmsb__fail(MMSB_E_STALE_HANDLE, "page 0x%016llx has been destroyed", shown);
    return mmsb__fail(MMSB_E_INVALID_HANDLE, "0x%016llx was never given out", shown);
}

static void wait_a_little(uint32_t *round) {
    if (*round < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (*round < 96) {
        sched_yield();
    } else {
        struct timespec pause = {0, *round < 200 ? 20000 : 200000};
        nanosleep(&pause, NULL);
    }
    ++*round;
}

mmsb_status_t mmsb__page_lock_slow(uint64_t page, uint32_t owner, mmsb__record_t **record, uint64_t *state) {
    mmsb__record_t *of = mmsb__record_of(page);
    uint64_t seen = mmsb__state_load(of);
    uint32_t round = 0;
    for (;;) {
        if (!mmsb__state_is(seen, page))
            return mmsb__page_fail(page);
        if (seen & MMSB__OWNER_MASK) {
            wait_a_little(&round);
            seen = mmsb__state_load(of);
        } else if (__atomic_compare_exchange_n(&of->state, &seen, seen | owner, 1, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            *record = of;
            *state = seen;
            return MMSB_OK;
        }
    }
}

mmsb_status_t mmsb__page_lock_library(uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    return mmsb__page_lock_slow(page, MMSB__OWNER_LIBRARY, &record, &state);
}

uint64_t mmsb__record_lock_library(uint32_t index) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint32_t round = 0;
    for (;;) {
        uint64_t seen = mmsb__state_load(record);
        if (!(seen & MMSB__OWNER_MASK) &&
            __atomic_compare_exchange_n(&record->state, &seen, seen | MMSB__OWNER_LIBRARY, 1, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
            return seen;
        wait_a_little(&round);
    }
}

int mmsb__record_lock_page(uint32_t index, uint64_t *state) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint32_t round = 0;
    for (;;) {
        uint64_t seen = mmsb__state_load(record);
        if (MMSB__HANDLE_KIND(seen) != MMSB_KIND_PAGE)
            return 0;
        if (!(seen & MMSB__OWNER_MASK) && __atomic_compare_exchange_n(&record->state, &seen, seen | MMSB__OWNER_LIBRARY, 1,
                                                                      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            *state = seen;
            return 1;
        }
        wait_a_little(&round);
    }
}

void mmsb__record_unlock(uint32_t index, uint64_t state) {
    mmsb__page_unlock(mmsb__record_at(index), state);
}

/* ------------------------------------------------------------------------------------------------------- ids ---- */

uint64_t mmsb__record_id(uint32_t index, uint64_t state) {
    const mmsb__record_t *record = mmsb__record_at(index);
    if (state & MMSB__EXPLICIT_ID)
        return mmsb__table.sides[record->side].id;
    return mmsb__automatic_id(mmsb__context_record(mmsb__record_context(index)),
                              MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), index));
}

/* ----------------------------------------------------------------------------------------- creating, destroying ---- */

/* What the magazine gives next, or NULL. */
static const void *next_memory(const mmsb__magazine_t *magazine) {
    return magazine->count == 0 ? NULL : mmsb__record_bytes(mmsb__record_of(magazine->handles[magazine->count - 1]));
}

/* Small memory, just popped off the magazine, as a new page has it. */
static void open_memory(mmsb__record_t *record, uint32_t class_number, int zeroed, const mmsb__magazine_t *magazine) {
    MMSB__UNPOISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
    if (zeroed)
        mmsb__record_clean(record, class_number, next_memory(magazine));
}

/* Pops a handle whose automatic id nobody took; begins the cache and leaves it begun on MMSB_OK only. */
static mmsb_status_t pop(mmsb__cache_t *cache, uint32_t class_number, uint64_t *handle) {
    mmsb__cache_begin(cache);
    mmsb_status_t status = MMSB_OK;
    if (!mmsb__cache_open(cache))
        status = mmsb__fail(MMSB_E_STALE_HANDLE, "the context has ended");
    else if (!cache->loaded[class_number] || cache->loaded[class_number]->count == 0)
        status = mmsb__magazine_refill(cache, class_number);
    if (status != MMSB_OK) {
        mmsb__cache_end(cache);
        return status;
    }
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    *handle = magazine->handles[--magazine->count];
    return MMSB_OK;
}

/* The body of a CREATE record. */
typedef struct creation {
    uint64_t size;
    int32_t location, device, numa_node;
    uint32_t state;
} creation_t;

/* Puts the record of a small page that is about to begin. */
static mmsb_status_t journal_create(mmsb__ring_t *ring, const mmsb__cache_t *cache, uint64_t page, uint64_t size,
                                    uint64_t *sequence) {
    creation_t creation = {size, MMSB_LOCATION_CPU, 0, -1, 0};
    mmsb__journal_head_t head = {
        .kind = MMSB__JOURNAL_CREATE, .page = mmsb__automatic_id(mmsb__context_record(cache->context_index), page), .version = 1};
    return mmsb__ring_append(ring, head, &(mmsb__piece_t){&creation, sizeof creation}, 1, sequence);
}

mmsb_status_t mmsb__page_create_small(uint64_t context, uint64_t size, int zeroed, mmsb_page_t *page) {
    mmsb__cache_t *cache = mmsb__current;
    if (!cache || context == 0 ||
        __atomic_load_n(&cache->context, __ATOMIC_RELAXED) != context) /* a free cache has the context 0 */
        cache = mmsb__cache_enter(context);
    if (!cache)
        return mmsb__error()->error_code;
    mmsb__context_await(cache->context_index);
    uint32_t class_number = mmsb__class_of(size);
    uint64_t handle;
    mmsb_status_t status = pop(cache, class_number, &handle);
    if (status != MMSB_OK)
        return status;
    mmsb__record_t *record = mmsb__record_of(handle);
    if (__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED)) { /* Go knows which ids are taken */
        cache->loaded[class_number]->count++;
        mmsb__cache_end(cache);
        return MMSB__ENTER_GO;
    }
    mmsb__ring_t *ring = mmsb__ring_for(cache->context_index);
    uint64_t sequence = 0;
    if (MMSB__UNLIKELY(ring) && (status = journal_create(ring, cache, handle, size, &sequence)) != MMSB_OK) {
        cache->loaded[class_number]->count++;
        mmsb__cache_end(cache);
        return status;
    }
    open_memory(record, class_number, zeroed, cache->loaded[class_number]);
    mmsb__capture_created(MMSB__HANDLE_INDEX(handle));
    mmsb__page_begin(record, handle, size, class_number);
    mmsb__counter_add(&cache->creates, 1);
    mmsb__counter_add(&cache->bytes_created, size);
    mmsb__cache_end(cache);
    *page = handle;
    return mmsb__journal_settle(ring, sequence, MMSB_OK);
}

void mmsb__page_uncreate(const mmsb_page_t *pages, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t context = mmsb__record_context(MMSB__HANDLE_INDEX(pages[i]));
        uint64_t size = mmsb__record_of(pages[i])->size;
        if (mmsb__page_destroy_slow(pages[i]) == MMSB_OK) /* counted twice, where it should not count at all */
            mmsb__context_add(context, -UINT64_C(1), -UINT64_C(1), -size, -size);
    }
}

/* Begins pages on a magazine's records that nobody watches and nobody cleans, up to one whose id may be taken. How many. */
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
    while (made < count) {
        uint64_t handle;
        status = pop(cache, class_number, &handle);
        if (status != MMSB_OK)
            break;
        /* What is asked now holds for the pages of this magazine: who opens a journal or captures waits for the cache. */
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
            if (MMSB__UNLIKELY(ring) && (status = journal_create(ring, cache, handle, size, &sequence)) != MMSB_OK)
                break;
            magazine->count--;
            open_memory(record, class_number, zeroed, magazine);
            mmsb__capture_created(MMSB__HANDLE_INDEX(handle));
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

/* Makes room for one handle of a class; begins the cache and leaves it begun on MMSB_OK only. */
static mmsb_status_t room(mmsb__cache_t *cache, uint32_t class_number) {
    mmsb__cache_begin(cache);
    if (!mmsb__cache_open(cache)) {
        mmsb__cache_end(cache);
        return MMSB_E_STALE_HANDLE;
    }
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    if (magazine && magazine->count < MMSB__MAGAZINE_ROUNDS)
        return MMSB_OK;
    mmsb_status_t status = mmsb__magazine_make_space(cache, class_number);
    if (status != MMSB_OK)
        mmsb__cache_end(cache);
    return status;
}

/* The cache of this thread for the context that has an index. */
static mmsb__cache_t *cache_for(uint32_t context_index) {
    if (mmsb__current && mmsb__current->context_index == context_index &&
        __atomic_load_n(&mmsb__current->context, __ATOMIC_RELAXED) != 0)
        return mmsb__current;
    uint64_t context = __atomic_load_n(&mmsb__context_record(context_index)->handle, __ATOMIC_RELAXED);
    if (context != 0)
        return mmsb__cache_enter(context);
    mmsb__fail(MMSB_E_STALE_HANDLE, "the context is ending");
    return NULL;
}

static mmsb_status_t pinned(uint64_t page, const mmsb__record_t *record) {
    return mmsb__fail(MMSB_E_BUSY, "page 0x%016llx is pinned: %u to read, %u to write", (unsigned long long)page,
                      record->read_pins, record->write_pins);
}

/* Puts the record of a change to a page that is locked, before the change. *sequence is what to wait for when the page is unlocked. */
static mmsb_status_t journal_change(const mmsb__record_t *record, uint64_t state, mmsb__journal_kind_t kind, uint64_t version,
                                    const mmsb__piece_t *pieces, size_t count, mmsb__ring_t **ring, uint64_t *sequence) {
    uint32_t index = (uint32_t)(record - mmsb__table.records);
    *ring = mmsb__ring_for(mmsb__record_context(index));
    *sequence = 0;
    if (MMSB__LIKELY(!*ring))
        return MMSB_OK;
    mmsb__journal_head_t head = {
        .kind = (uint8_t)kind, .page = mmsb__record_id(index, state), .version = version, .epoch = record->epoch};
    return mmsb__ring_append(*ring, head, pieces, count, sequence);
}

/* Ends a locked page without pins. */
static void end_locked(uint64_t page, mmsb__record_t *record, uint64_t state) {
    uint32_t class_number = MMSB__STATE_CLASS(state), index = MMSB__HANDLE_INDEX(page);
    if (class_number >= MMSB__SMALL_CLASSES || record->side != 0 || MMSB__HANDLE_GENERATION(page) == MMSB__GENERATION_MAX) {
        mmsb__upcalls.end(index, state);
        return;
    }
    mmsb__mask_drop(record);
    mmsb__record_finish(index, state);
}

mmsb_status_t mmsb__page_destroy_slow(uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    for (;;) {
        mmsb_status_t status = mmsb__page_lock(page, &record, &state);
        if (status != MMSB_OK)
            return status;
        if (mmsb__record_pinned(record)) {
            status = pinned(page, record);
            __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
            return status;
        }
        if (MMSB__LIKELY(!mmsb__capture_touch_all(record, state)))
            break;
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
        mmsb__capture_wait(MMSB__HANDLE_INDEX(page));
    }
    mmsb__ring_t *ring;
    uint64_t sequence;
    mmsb_status_t status = journal_change(record, state, MMSB__JOURNAL_DESTROY, record->version, NULL, 0, &ring, &sequence);
    if (status != MMSB_OK) {
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
        return status;
    }
    end_locked(page, record, state);
    return mmsb__journal_settle(ring, sequence, MMSB_OK);
}

void mmsb__record_finish(uint32_t index, uint64_t state) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint64_t page = MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), index);
    uint32_t class_number = MMSB__STATE_CLASS(state);
    uint64_t free_state = MMSB__STATE(MMSB__STATE_FREE, MMSB__HANDLE_GENERATION(page) + 1, state & MMSB__CLASS_MASK);
    mmsb__cache_t *cache = cache_for(mmsb__record_context(index));
    if (cache && room(cache, class_number) == MMSB_OK) {
        mmsb__page_end(cache, cache->loaded[class_number], record, page, free_state);
        mmsb__cache_end(cache);
        return;
    }
    /* The context is ending: its end takes the record whatever it says, once it is unlocked. */
    __atomic_store_n(&record->state, free_state, __ATOMIC_RELEASE);
}

static mmsb_status_t check_destroy(void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    const mmsb_page_t *pages = work;
    (void)state;
    return mmsb__record_pinned(record) ? pinned(pages[i], record) : MMSB_OK;
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
        magazine ? magazine->count : MMSB__MAGAZINE_ROUNDS; /* kept here: the field would chain one item to the next */
    size_t i = 0;
    uint64_t bytes = 0, known = ~pages[0]; /* a page of a chunk that is the context's: none yet */
    for (; i < count; i++) {
        uint64_t page = pages[i];
        mmsb__record_t *record = mmsb__record_of(page);
        const uint64_t state = mmsb__state_held(record);
        /* Handles 0, which are skipped, belong to no state that is live. */
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
        __atomic_store_n(&record->state, mmsb__state_after(state - (low & MMSB__OWNER_MASK)), __ATOMIC_RELEASE);
        magazine->handles[filled++] = mmsb__page_next(page);
    }
    if (magazine)
        magazine->count = filled;
    mmsb__counter_add(&cache->frees, i);
    mmsb__counter_add(&cache->bytes_freed, bytes);
    mmsb__cache_end(cache);
    return i;
}

/* Puts the records of pages that end together. */
static mmsb_status_t journal_destroy(mmsb__ring_t *ring, mmsb__group_t *group, const mmsb_page_t *pages, size_t count) {
    size_t records = 0;
    for (size_t i = 0; i < count; i++)
        records += pages[i] != 0;
    group->last = 0;
    if (records == 0)
        return MMSB_OK;
    mmsb_status_t status = mmsb__ring_begin(ring, group, records * mmsb__journal_space(0), records);
    if (status != MMSB_OK)
        return status;
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

mmsb_status_t mmsb__page_destroy_many(const mmsb_page_t *pages, size_t count, size_t *bad_index) {
    mmsb__batch_t batch;
    do { /* begun anew, so that the compiler knows what it is */
        batch = (mmsb__batch_t){
            .first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .distinct = 1, .bytes_stay = 1};
        mmsb_status_t status = mmsb__batch_lock(&batch, check_destroy, (void *)(uintptr_t)pages, bad_index);
        if (status != MMSB_OK)
            return status;
    } while (MMSB__UNLIKELY(mmsb__batch_touch(&batch, NULL, NULL)));
    mmsb__group_t group;
    mmsb__ring_t *ring;
    mmsb_status_t status = mmsb__batch_ring(&batch, &ring);
    if (status == MMSB_OK && ring)
        status = journal_destroy(ring, &group, pages, count);
    if (status != MMSB_OK) {
        mmsb__batch_unlock(&batch);
        return status;
    }
    size_t done = 0;
    while (done < count) {
        done += end_run(pages + done, count - done);
        if (done < count) { /* what ends a run: another context or size class, more than bytes, a full magazine */
            if (pages[done] != 0)
                end_locked(pages[done], mmsb__record_of(pages[done]),
                           mmsb__state_held(mmsb__record_of(pages[done])) & ~MMSB__OWNER_MASK);
            done++;
        }
    }
    return ring ? mmsb__journal_settle(ring, group.last, MMSB_OK) : MMSB_OK;
}

/* ------------------------------------------------------------------------------------------------------ blocks ---- */

/* Makes a block of a free record that this thread has. */
static void begin_frame(uint64_t handle, uint32_t class_number, int zeroed) {
    mmsb__record_t *record = mmsb__record_of(handle);
    MMSB__UNPOISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
    if (zeroed)
        mmsb__record_clean(record, class_number, NULL);
    mmsb__dirty_all(record);
    __atomic_store_n(&record->size, mmsb__class_size(class_number), __ATOMIC_RELAXED);
    __atomic_store_n(&record->state,
                     MMSB__STATE(MMSB__STATE_FRAME, MMSB__HANDLE_GENERATION(handle), (uint64_t)class_number << MMSB__CLASS_SHIFT),
                     __ATOMIC_RELEASE);
}

mmsb_status_t mmsb__frames_take(uint32_t context_index, uint64_t size, int zeroed, uint32_t *indices, uint32_t count) {
    mmsb__cache_t *cache = cache_for(context_index);
    if (!cache)
        return mmsb__error()->error_code;
    uint32_t class_number = mmsb__class_of(size), taken = 0;
    while (taken < count) {
        uint64_t handle;
        mmsb_status_t status = pop(cache, class_number, &handle);
        if (status != MMSB_OK) {
            while (taken > 0)
                mmsb__frame_give(context_index, indices[--taken]);
            return status;
        }
        mmsb__magazine_t *magazine = cache->loaded[class_number];
        for (magazine->count++; magazine->count > 0 && taken < count; taken++) {
            handle = magazine->handles[--magazine->count];
            begin_frame(handle, class_number, zeroed);
            indices[taken] = MMSB__HANDLE_INDEX(handle);
        }
        mmsb__cache_end(cache);
    }
    return MMSB_OK;
}

mmsb_status_t mmsb__frame_take(uint32_t context_index, uint64_t size, uint32_t *index) {
    if (size > MMSB__SMALL_MAX)
        return mmsb__upcalls.take_frame(context_index, size, index);
    return mmsb__frames_take(context_index, size, 1, index, 1);
}

void mmsb__frame_give(uint32_t context_index, uint32_t index) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint64_t state = mmsb__state_load(record);
    uint32_t class_number = MMSB__STATE_CLASS(state);
    if (class_number >= MMSB__SMALL_CLASSES) {
        mmsb__upcalls.give_frame(context_index, index);
        return;
    }
    mmsb__cache_t *cache = cache_for(context_index);
    if (!cache || room(cache, class_number) != MMSB_OK)
        return; /* the context is ending and takes the record itself */
    MMSB__POISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
    uint64_t handle = MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), index);
    __atomic_store_n(&record->state,
                     MMSB__STATE(MMSB__STATE_FREE, MMSB__HANDLE_GENERATION(state), (uint64_t)class_number << MMSB__CLASS_SHIFT),
                     __ATOMIC_RELEASE);
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    magazine->handles[magazine->count++] = handle;
    mmsb__cache_end(cache);
}

uint64_t mmsb__mask_bytes;

mmsb_status_t mmsb__mask_add(mmsb__record_t *record) {
    uint32_t index = (uint32_t)(record - mmsb__table.records), block;
    mmsb_status_t status = mmsb__frame_take(mmsb__record_context(index), mmsb__mask_length(record->size), &block);
    if (status != MMSB_OK)
        return status;
    mmsb__mask_use(record, block);
    return MMSB_OK;
}

void mmsb__mask_use(mmsb__record_t *record, uint32_t block) {
    __atomic_add_fetch(&mmsb__mask_bytes, mmsb__record_at(block)->size, __ATOMIC_RELAXED);
    /* In one piece: a saver that fetches ahead reads it without the lock. */
    __atomic_store_n(&record->mask_locator, mmsb__record_at(block)->locator, __ATOMIC_RELAXED);
    record->mask_frame = block;
}

void mmsb__mask_drop(mmsb__record_t *record) {
    if (record->mask_frame == 0)
        return;
    __atomic_sub_fetch(&mmsb__mask_bytes, mmsb__record_at(record->mask_frame)->size, __ATOMIC_RELAXED);
    mmsb__frame_give(mmsb__record_context((uint32_t)(record - mmsb__table.records)), record->mask_frame);
    record->mask_frame = 0;
    __atomic_store_n(&record->mask_locator, 0, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------------------------------------------- looking ---- */

uint64_t mmsb__page_look_slow(uint64_t page, mmsb__field_t field) {
    if (mmsb__gate != MMSB_OK && mmsb__gate_closed() != MMSB_OK)
        return 0;
    const mmsb__record_t *record = mmsb__record_of(page);
    if (mmsb__state_is(mmsb__state_load(record), page)) {
        uint64_t value = mmsb__field_load(record, field);
        if (mmsb__state_is(mmsb__state_load(record), page))
            return value;
    }
    mmsb__page_fail(page);
    return 0;
}

/* Where a locked page lies that is on a device. */
static mmsb_status_t device_address(const mmsb__record_t *record, uint64_t *state, void **address) {
    mmsb_status_t status = mmsb__upcalls.device_address((uint32_t)(record - mmsb__table.records), address);
    *state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    return status;
}

void *mmsb__page_address_slow(uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    if (mmsb__gate != MMSB_OK && mmsb__gate_closed() != MMSB_OK)
        return NULL;
    if (mmsb__page_lock(page, &record, &state) != MMSB_OK)
        return NULL;
    void *address = NULL;
    int bring = (state & MMSB__NONRESIDENT) && !mmsb__on_device(state) && MMSB__STATE_LOCATION(state) != MMSB_LOCATION_DISK;
    if (bring && mmsb__page_make_resident(record, &state) != MMSB_OK) { /* out of a lazily loaded snapshot, for good */
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
        return NULL;
    }
    if (mmsb__on_device(state)) {
        if (device_address(record, &state, &address) == MMSB_OK)
            __atomic_store_n(&record->exposed, 1, __ATOMIC_RELAXED);
    } else if (!(state & MMSB__NONRESIDENT) || mmsb__record_pinned(record)) {
        address = mmsb__record_expose(record);
    } else {
        mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx is on disk and not pinned: it has no address", (unsigned long long)page);
    }
    mmsb__page_unlock(record, state);
    return address;
}

static int is_device_location(int32_t location) {
    return location == MMSB_LOCATION_GPU || location == MMSB_LOCATION_UNIFIED || location == MMSB_LOCATION_PINNED;
}

static void fill_info(uint64_t page, const mmsb__record_t *record, uint64_t state, mmsb_page_info_t *info) {
    uint32_t index = MMSB__HANDLE_INDEX(page);
    const mmsb__side_t *side = record->side ? &mmsb__table.sides[record->side] : NULL;
    info->location = MMSB__STATE_LOCATION(state);
    info->device = side ? side->device : 0;
    info->numa_node = side ? side->numa_node : -1;
    info->page = page;
    info->context = __atomic_load_n(&mmsb__context_record(mmsb__record_context(index))->handle, __ATOMIC_RELAXED);
    info->id = mmsb__record_id(index, state);
    info->size = record->size;
    info->epoch = record->epoch;
    info->version = record->version;
    info->read_pins = record->read_pins;
    info->write_pins = record->write_pins;
    info->simulated = is_device_location(info->location) &&
                      __atomic_load_n(&mmsb__context_record(mmsb__record_context(index))->simulated, __ATOMIC_RELAXED);
    info->adopted = (state & MMSB__ADOPTED) != 0;
    info->read_only = (state & MMSB__READ_ONLY) != 0;
    info->metadata_count = side ? side->metadata_count : 0;
}

mmsb_status_t mmsb__page_info(uint64_t page, mmsb_page_info_t *info) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    fill_info(page, record, state, info);
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return MMSB_OK;
}

mmsb_status_t mmsb__page_info_many(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .bytes_stay = 1};
    mmsb_status_t status = mmsb__batch_lock(&batch, NULL, NULL, bad_index);
    if (status != MMSB_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        const mmsb__record_t *record = mmsb__record_of(pages[i]);
        fill_info(pages[i], record, mmsb__state_held(record) & ~MMSB__OWNER_MASK, &infos[i]);
    }
    mmsb__batch_unlock(&batch);
    return MMSB_OK;
}

/* ---------------------------------------------------------------------------------------------- bytes of pages ---- */

static mmsb_status_t read_only(uint64_t page) {
    return mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx was adopted as read-only", (unsigned long long)page);
}

static mmsb_status_t out_of_range(uint64_t page, uint64_t offset, uint64_t length, uint64_t size) {
    return mmsb__fail(MMSB_E_OUT_OF_RANGE, "%llu bytes at offset %llu reach past page 0x%016llx of %llu bytes",
                      (unsigned long long)length, (unsigned long long)offset, (unsigned long long)page, (unsigned long long)size);
}

static int within(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
}

mmsb_status_t mmsb__page_pin(uint64_t page, int32_t mode, void **address) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_enter_where_it_is(page, &record, &state);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    void *on_device = NULL;
    if (MMSB__UNLIKELY(mmsb__on_device(state)) && (status = device_address(record, &state, &on_device)) != MMSB_OK) {
        mmsb__page_unlock(record, state);
        return status;
    }
    uint16_t *pins = mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
    if (MMSB__UNLIKELY(mode == MMSB_PIN_WRITE && (state & MMSB__READ_ONLY))) {
        status = read_only(page);
    } else if (MMSB__UNLIKELY(*pins == UINT16_MAX)) {
        status = mmsb__fail(MMSB_E_LIMIT, "page 0x%016llx has %u pins of mode %d, the most there can be",
                            (unsigned long long)page, *pins, mode);
    } else {
        __atomic_store_n(pins, (uint16_t)(*pins + 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb__record_expose(record);
        if (address)
            *address = MMSB__UNLIKELY(on_device) ? on_device : mmsb__record_bytes(record);
    }
    mmsb__page_unlock(record, state);
    return status;
}

/* A page whose context has ended keeps its pins. */
static mmsb_status_t unpin_ended(uint64_t page, int32_t mode) {
    uint32_t index = MMSB__HANDLE_INDEX(page);
    uint64_t ended = MMSB__STATE(MMSB__STATE_ENDED, MMSB__HANDLE_GENERATION(page), 0);
    mmsb__record_t *record = mmsb__record_of(page);
    if (MMSB__HANDLE_KIND(page) != MMSB_KIND_PAGE || (mmsb__state_load(record) ^ ended) >> MMSB__INDEX_BITS != 0)
        return mmsb__page_fail(page);
    uint64_t state = mmsb__record_lock_library(index);
    mmsb_status_t status = MMSB_OK;
    int last = 0;
    if ((state ^ ended) >> MMSB__INDEX_BITS != 0) {
        status = mmsb__page_fail(page);
    } else {
        uint16_t *pins = mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
        if (*pins == 0)
            status = mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx has no pin of mode %d", (unsigned long long)page, mode);
        else
            --*pins;
        last = status == MMSB_OK && !mmsb__record_pinned(record);
    }
    if (last)
        mmsb__upcalls.release_ended(index);
    else
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return status;
}

mmsb_status_t mmsb__page_unpin(uint64_t page, int32_t mode) {
    mmsb__record_t *record;
    uint64_t state = mmsb__state_load(mmsb__record_of(page));
    if (MMSB__UNLIKELY(!mmsb__state_is(state, page)))
        return unpin_ended(page, mode);
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status == MMSB_E_STALE_HANDLE ? unpin_ended(page, mode) : status;
    uint16_t *pins = mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
    if (MMSB__UNLIKELY(*pins == 0)) {
        status = mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx has no pin of mode %d", (unsigned long long)page, mode);
    } else {
        __atomic_store_n(pins, (uint16_t)(*pins - 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb__version_move(record);
    }
    mmsb__page_unlock(record, state);
    return status;
}

mmsb_status_t mmsb__page_read(uint64_t page, uint64_t offset, void *buffer, uint64_t length) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_enter_where_it_is(page, &record, &state);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    if (MMSB__UNLIKELY(!within(offset, length, record->size))) {
        status = out_of_range(page, offset, length, record->size);
    } else if (MMSB__UNLIKELY(mmsb__on_device(state))) {
        status = mmsb__device_read(record, offset, buffer, length);
        state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    } else if (length > 0) {
        memcpy(buffer, mmsb__record_bytes(record) + offset, length);
    }
    mmsb__page_unlock(record, state);
    return status;
}

static void write_locked(mmsb__record_t *record, uint64_t offset, const void *buffer, uint64_t length) {
    if (length == 0)
        return;
    memcpy(mmsb__record_bytes(record) + offset, buffer, length);
    mmsb__dirty_range(record, offset, offset + length - 1);
    mmsb__version_move(record);
}

/* Nobody watches: else the page has been brought in. */
static mmsb_status_t write_on_device(mmsb__record_t *record, uint64_t *state, uint64_t offset, const void *buffer,
                                     uint64_t length) {
    if (length == 0)
        return MMSB_OK;
    mmsb_status_t status = mmsb__upcalls.device_write((uint32_t)(record - mmsb__table.records), offset, buffer, length);
    *state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    if (status == MMSB_OK)
        mmsb__version_move(record);
    return status;
}

mmsb_status_t mmsb__page_write(uint64_t page, uint64_t offset, const void *buffer, uint64_t length) {
    mmsb__record_t *record;
    uint64_t state;
    for (;;) {
        int on_device;
        mmsb_status_t status = mmsb__page_enter_to_change(page, &record, &state, &on_device);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        int again = 0;
        mmsb__ring_t *ring = NULL;
        uint64_t sequence = 0;
        if (MMSB__UNLIKELY(state & MMSB__READ_ONLY))
            status = read_only(page);
        else if (MMSB__UNLIKELY(!within(offset, length, record->size)))
            status = out_of_range(page, offset, length, record->size);
        else if (MMSB__UNLIKELY(on_device))
            status = write_on_device(record, &state, offset, buffer, length);
        else if (MMSB__LIKELY(!(again = mmsb__capture_touch(record, state, offset, length))) &&
                 (MMSB__LIKELY(!mmsb__watched()) || length == 0 ||
                  (status = journal_change(record, state, MMSB__JOURNAL_WRITE, record->version + 1,
                                           (mmsb__piece_t[]){{&offset, sizeof offset}, {buffer, length}}, 2, &ring, &sequence)) ==
                      MMSB_OK))
            write_locked(record, offset, buffer, length);
        mmsb__page_unlock(record, state);
        if (MMSB__LIKELY(!again))
            return mmsb__journal_settle(ring, sequence, status);
        mmsb__capture_wait(MMSB__HANDLE_INDEX(page));
    }
}

static mmsb_status_t check_range(void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    const mmsb_page_range_t *range = (const mmsb_page_range_t *)work + i;
    (void)state;
    if (!within(range->offset, range->length, record->size))
        return out_of_range(range->page, range->offset, range->length, record->size);
    if (!range->buffer && range->length > 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "buffer is NULL for %llu bytes", (unsigned long long)range->length);
    return MMSB_OK;
}

static mmsb_status_t check_write(void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    if (state & MMSB__READ_ONLY)
        return read_only(((const mmsb_page_range_t *)work)[i].page);
    return check_range(work, i, record, state);
}

mmsb_status_t mmsb__page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)ranges, .stride = sizeof *ranges, .count = count, .on_devices = 1};
    mmsb_status_t status = mmsb__batch_lock(&batch, check_range, (void *)(uintptr_t)ranges, bad_index);
    if (status != MMSB_OK)
        return status;
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        const mmsb__record_t *record = mmsb__record_of(ranges[i].page);
        if (MMSB__UNLIKELY(mmsb__on_device(mmsb__state_held(record)))) {
            status = mmsb__device_read(record, ranges[i].offset, ranges[i].buffer, ranges[i].length);
            if (status != MMSB_OK && bad_index)
                *bad_index = i;
        } else if (ranges[i].length > 0) {
            memcpy(ranges[i].buffer, mmsb__record_bytes(record) + ranges[i].offset, ranges[i].length);
        }
    }
    mmsb__batch_unlock(&batch);
    return status;
}

/* Makes room in the journal for writes; those of no bytes are none. */
static mmsb_status_t begin_writes(mmsb__ring_t *ring, mmsb__group_t *group, const mmsb_page_range_t *ranges, size_t count) {
    uint64_t bytes = 0, records = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += ranges[i].length > 0 ? mmsb__journal_run_space(ranges[i].length) : 0;
        records += ranges[i].length > 0;
    }
    group->last = 0;
    return records > 0 ? mmsb__ring_begin(ring, group, bytes, records) : MMSB_OK;
}

static void put_write(mmsb__group_t *group, const mmsb__record_t *record, const mmsb_page_range_t *range) {
    mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_WRITE,
                                 .page = mmsb__record_id(MMSB__HANDLE_INDEX(range->page), mmsb__state_held(record)),
                                 .version = record->version + 1,
                                 .epoch = record->epoch};
    mmsb__ring_put(group, head, (mmsb__piece_t[]){{&range->offset, sizeof range->offset}, {range->buffer, range->length}}, 2);
}

static int touch_range(const void *work, size_t i, mmsb__record_t *record, uint64_t state) {
    const mmsb_page_range_t *range = (const mmsb_page_range_t *)work + i;
    return mmsb__capture_touch(record, state, range->offset, range->length);
}

/* A valid batch that has pages on devices, which stay there. Devices come first: where one fails, no page of the host has changed.
 * MMSB__ENTER_GO with nothing done: somebody watches. */
static mmsb_status_t write_where_they_are(const mmsb_page_range_t *ranges, size_t count, size_t *bad) {
    typedef struct one {
        mmsb_delta_t delta;
        mmsb_run_t run;
        mmsb_page_t page;
    } one_t;
    mmsb_delta_t *deltas = count <= SIZE_MAX / sizeof(one_t) ? malloc(count * sizeof(one_t)) : NULL;
    *bad = 0;
    if (!deltas)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a batch of %zu writes", count);
    mmsb_run_t *runs = (mmsb_run_t *)(void *)(deltas + count);
    mmsb_page_t *pages = (mmsb_page_t *)(void *)(runs + count);
    for (size_t i = 0; i < count; i++) {
        pages[i] = ranges[i].page;
        runs[i] = (mmsb_run_t){ranges[i].offset, ranges[i].length};
        deltas[i] = (mmsb_delta_t){
            .struct_size = sizeof *deltas, .kind = MMSB_DELTA_RUNS, .runs = &runs[i], .count = 1, .payload = ranges[i].buffer};
    }
    mmsb__batch_t batch = {.first = (const uint8_t *)ranges, .stride = sizeof *ranges, .count = count, .on_devices = 1};
    mmsb_status_t status = mmsb__batch_lock(&batch, check_write, (void *)(uintptr_t)ranges, bad);
    int locked = status == MMSB_OK;
    if (locked)
        status = mmsb__watched() ? MMSB__ENTER_GO : mmsb__upcalls.device_apply_many(pages, deltas, count, bad);
    for (size_t i = 0; status == MMSB_OK && i < count; i++) {
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        if (!mmsb__on_device(mmsb__state_held(record)))
            write_locked(record, ranges[i].offset, ranges[i].buffer, ranges[i].length);
        else if (ranges[i].length > 0)
            mmsb__version_move(record);
    }
    if (locked)
        mmsb__batch_unlock(&batch);
    free(deltas);
    return status;
}

mmsb_status_t mmsb__page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)ranges, .stride = sizeof *ranges, .count = count, .diverts = 1};
    for (;;) {
        size_t bad;
        mmsb_status_t status = mmsb__batch_lock(&batch, check_write, (void *)(uintptr_t)ranges, &bad);
        int diverted = status == MMSB__ENTER_GO;
        if (MMSB__UNLIKELY(diverted) && (status = write_where_they_are(ranges, count, &bad)) == MMSB__ENTER_GO)
            continue;
        if (MMSB__UNLIKELY(status != MMSB_OK) && bad_index)
            *bad_index = bad;
        if (MMSB__UNLIKELY(status != MMSB_OK || diverted))
            return status;
        if (MMSB__LIKELY(!mmsb__batch_touch(&batch, touch_range, ranges)))
            break;
    }
    mmsb__group_t group;
    mmsb__ring_t *ring;
    mmsb_status_t status = mmsb__batch_ring(&batch, &ring);
    if (status == MMSB_OK && ring)
        status = begin_writes(ring, &group, ranges, count);
    if (status != MMSB_OK) {
        mmsb__batch_unlock(&batch);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        mmsb__record_t *record = mmsb__record_of(ranges[i].page);
        if (MMSB__UNLIKELY(ring) && ranges[i].length > 0)
            put_write(&group, record, &ranges[i]);
        write_locked(record, ranges[i].offset, ranges[i].buffer, ranges[i].length);
    }
    if (MMSB__UNLIKELY(ring) && group.last != 0)
        status = mmsb__ring_end(&group);
    mmsb__batch_unlock(&batch);
    return ring ? mmsb__journal_settle(ring, group.last, status) : MMSB_OK;
}

/* Locks a page to change it as a whole. */
static mmsb_status_t lock_to_change(uint64_t page, mmsb__record_t **record, uint64_t *state) {
    for (;;) {
        mmsb_status_t status = mmsb__page_lock(page, record, state);
        if (status != MMSB_OK || MMSB__LIKELY(!mmsb__capture_touch_all(*record, *state)))
            return status;
        __atomic_store_n(&(*record)->state, *state, __ATOMIC_RELEASE);
        mmsb__capture_wait(MMSB__HANDLE_INDEX(page));
    }
}

/* Cuts or extends a change mask within its memory: what lies behind the page's end is zero. */
static void mask_trim(mmsb__record_t *record, uint64_t size) {
    if (record->mask_frame == 0)
        return;
    uint8_t *mask = mmsb__locator_address(record->mask_locator);
    uint64_t capacity = mmsb__record_at(record->mask_frame)->size, used = mmsb__mask_length(size);
    memset(mask + used, 0, capacity - used);
    if (size & 7)
        mask[used - 1] &= (uint8_t)((1u << (size & 7)) - 1);
}

mmsb_status_t mmsb__page_resize_in_place(uint64_t page, uint64_t size) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = lock_to_change(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    mmsb__ring_t *ring = NULL;
    uint64_t sequence = 0;
    uint32_t class_number = MMSB__STATE_CLASS(state);
    if (mmsb__record_pinned(record)) {
        status = pinned(page, record);
    } else if (class_number >= MMSB__SMALL_CLASSES || size > MMSB__SMALL_MAX || mmsb__class_of(size) != class_number ||
               (record->mask_frame != 0 && mmsb__mask_length(size) > mmsb__record_at(record->mask_frame)->size)) {
        status = MMSB__ENTER_GO;
    } else if (size != record->size &&
               (status = journal_change(record, state, MMSB__JOURNAL_RESIZE, record->version + 1,
                                        &(mmsb__piece_t){&size, sizeof size}, 1, &ring, &sequence)) == MMSB_OK) {
        uint8_t *bytes = mmsb__record_bytes(record);
        uint64_t old = record->size;
        MMSB__UNPOISON(bytes, mmsb__class_size(class_number));
        MMSB__POISON(bytes + size, mmsb__class_size(class_number) - size);
        mmsb__cache_t *cache = cache_for(mmsb__record_context(MMSB__HANDLE_INDEX(page)));
        mmsb__context_record_t *context = mmsb__context_record(mmsb__record_context(MMSB__HANDLE_INDEX(page)));
        if (size > old)
            memset(bytes + old, 0, size - old);
        uint64_t *counter = size > old ? (cache ? &cache->bytes_created : &context->bytes_created)
                                       : (cache ? &cache->bytes_freed : &context->bytes_freed);
        __atomic_add_fetch(counter, size > old ? size - old : old - size, __ATOMIC_RELAXED);
        mask_trim(record, size);
        __atomic_store_n(&record->size, size, __ATOMIC_RELAXED);
        mmsb__version_move(record);
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return mmsb__journal_settle(ring, sequence, status);
}

/* ------------------------------------------------------------------------------------------------ change masks ---- */

mmsb_status_t mmsb__page_mask_read(uint64_t page, uint64_t offset, void *bits, uint64_t length) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    if (!within(offset, length, record->size))
        status = out_of_range(page, offset, length, record->size);
    else if (record->mask_frame == 0)
        memset(bits, 0, mmsb__mask_length(length));
    else
        mmsb__bits_extract(bits, mmsb__locator_address(record->mask_locator), offset, length);
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return status;
}

mmsb_status_t mmsb__page_mask_clear(uint64_t page) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = lock_to_change(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    mmsb__ring_t *ring = NULL;
    uint64_t sequence = 0;
    if (record->mask_frame != 0 && (status = journal_change(record, state, MMSB__JOURNAL_MASK_CLEAR, record->version + 1, NULL, 0,
                                                            &ring, &sequence)) == MMSB_OK) {
        memset(mmsb__locator_address(record->mask_locator), 0, mmsb__mask_length(record->size));
        mmsb__version_move(record); /* a snapshot has the mask, so an incremental one must see the change */
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return mmsb__journal_settle(ring, sequence, status);
}

mmsb_status_t mmsb__page_mask_count(uint64_t page, uint64_t *count) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(page, &record, &state);
    if (status != MMSB_OK)
        return status;
    *count = record->mask_frame == 0 ? 0 : mmsb__bytes.count_bits(mmsb__locator_address(record->mask_locator), record->size);
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return MMSB_OK;
}

/* ------------------------------------------------------------------------------------------------ walks, for Go ---- */

void mmsb__context_add(uint32_t context_index, uint64_t creates, uint64_t frees, uint64_t bytes_created, uint64_t bytes_freed) {
    mmsb__context_record_t *context = mmsb__context_record(context_index);
    __atomic_add_fetch(&context->creates, creates, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->frees, frees, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->bytes_created, bytes_created, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->bytes_freed, bytes_freed, __ATOMIC_RELAXED);
}

void mmsb__page_redzone(uint32_t index, uint64_t state, uint64_t size) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint32_t class_number = MMSB__STATE_CLASS(state);
    uint64_t whole = class_number == MMSB__CLASS_EXTENT ? (size + 4095) & ~UINT64_C(4095) : 0; /* of whole system pages */
    if (class_number < MMSB__SMALL_CLASSES)
        whole = mmsb__class_size(class_number);
    if (whole == 0)
        return;
    MMSB__UNPOISON(mmsb__record_bytes(record), size);
    MMSB__POISON(mmsb__record_bytes(record) + size, whole - size);
}

void mmsb__memory_unpoison(void *memory, uint64_t length) {
    MMSB__UNPOISON(memory, length);
}

static void publish(const mmsb__staged_t *page) {
    mmsb__record_t *record = mmsb__record_at(page->index);
    uint64_t state = mmsb__state_load(record);
    mmsb__page_redzone(page->index, state, page->size);
    __atomic_store_n(&record->size, page->size, __ATOMIC_RELAXED);
    __atomic_store_n(&record->epoch, page->epoch, __ATOMIC_RELAXED);
    __atomic_store_n(&record->version, page->version, __ATOMIC_RELAXED);
    mmsb__capture_created(page->index);
    __atomic_store_n(&record->state,
                     MMSB__STATE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), (state & MMSB__CLASS_MASK) | page->low),
                     __ATOMIC_RELEASE);
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

uint32_t mmsb__records_lock(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t state;
        if (mmsb__record_lock_page(first + i, &state) && mmsb__record_pinned(mmsb__record_at(first + i)))
            return i;
    }
    return count;
}

void mmsb__records_unlock(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t state = mmsb__state_load(mmsb__record_at(first + i));
        if (MMSB__HANDLE_KIND(state) == MMSB_KIND_PAGE)
            mmsb__page_unlock(mmsb__record_at(first + i), state & ~MMSB__OWNER_MASK);
    }
}

void mmsb__records_finish(uint32_t first, uint32_t count, mmsb__finished_t *finished) {
    finished->sides_count = finished->left_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        mmsb__record_t *record = mmsb__record_at(first + i);
        uint64_t state = mmsb__state_load(record);
        if (MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE)
            continue;
        if (MMSB__STATE_CLASS(state) >= MMSB__SMALL_CLASSES || MMSB__HANDLE_GENERATION(state) == MMSB__GENERATION_MAX ||
            (record->side != 0 && mmsb__table.sides[record->side].metadata_frame != 0)) {
            finished->left[finished->left_count++] = first + i;
            continue;
        }
        if (record->side != 0)
            finished->sides[finished->sides_count++] = record->side;
        record->side = 0;
        mmsb__mask_drop(record);
        mmsb__record_finish(first + i, state & ~MMSB__OWNER_MASK);
    }
}

mmsb_page_t mmsb__page_find(const mmsb__context_record_t *context, uint64_t id) {
    if ((id & ~MMSB__ID_MASK) != MMSB__ID_AUTOMATIC)
        return 0;
    uint64_t page = ((id * context->id_inverse) & MMSB__ID_MASK) | (uint64_t)MMSB_KIND_PAGE << 60;
    uint64_t state = mmsb__state_load(mmsb__record_of(page));
    if (!mmsb__state_is(state, page) || (state & MMSB__EXPLICIT_ID) ||
        mmsb__record_context(MMSB__HANDLE_INDEX(page)) != context->index)
        return 0;
    return page;
}

uint32_t mmsb__records_list(uint32_t first, uint32_t count, mmsb_page_t *pages, uint32_t capacity, uint32_t *found) {
    uint32_t i = 0, written = 0;
    for (; i < count && written < capacity; i++) {
        uint64_t state = mmsb__state_load(mmsb__record_at(first + i));
        if (MMSB__HANDLE_KIND(state) == MMSB_KIND_PAGE)
            pages[written++] = (state & ~MMSB__INDEX_MASK) | (first + i);
    }
    *found = written;
    return i;
}

void mmsb__records_survey(uint32_t first, uint32_t count, mmsb__survey_t *survey) {
    for (uint32_t i = 0; i < count; i++) {
        mmsb__record_t *record = mmsb__record_at(first + i);
        uint64_t state = mmsb__state_load(record);
        if (MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE)
            continue;
        survey->pages[MMSB__STATE_LOCATION(state)]++;
        survey->bytes[MMSB__STATE_LOCATION(state)] += __atomic_load_n(&record->size, __ATOMIC_RELAXED);
        survey->pinned +=
            (__atomic_load_n(&record->read_pins, __ATOMIC_RELAXED) | __atomic_load_n(&record->write_pins, __ATOMIC_RELAXED)) != 0;
    }
}

uint32_t mmsb__records_end(uint32_t first, uint32_t count, uint32_t *indices, uint32_t capacity, uint32_t *looked) {
    uint32_t i = 0, reported = 0;
    for (; i < count && reported < capacity; i++) {
        mmsb__record_t *record = mmsb__record_at(first + i);
        uint64_t state = mmsb__state_load(record);
        uint32_t kind = MMSB__HANDLE_KIND(state), class_number = MMSB__STATE_CLASS(state);
        if (kind == MMSB__STATE_FREE && (state & MMSB__OWNER_MASK) == 0)
            continue;
        if (kind != MMSB_KIND_PAGE && kind != MMSB__STATE_FREE)
            continue;
        /* Who holds locks does not wait: what has been reported is dealt with first. */
        if (reported > 0 &&
            ((state & MMSB__OWNER_MASK) || !__atomic_compare_exchange_n(&record->state, &state, state | MMSB__OWNER_LIBRARY, 0,
                                                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
            break;
        if (reported == 0)
            state = mmsb__record_lock_library(first + i);
        if (MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE) { /* destroyed meanwhile */
            __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
            continue;
        }
        class_number = MMSB__STATE_CLASS(state);
        if (record->mask_frame != 0)
            __atomic_sub_fetch(&mmsb__mask_bytes, mmsb__record_at(record->mask_frame)->size, __ATOMIC_RELAXED);
        record->mask_frame = 0; /* its memory goes with the context */
        __atomic_store_n(&record->mask_locator, 0, __ATOMIC_RELAXED);
        uint32_t generation = MMSB__HANDLE_GENERATION(state);
        if (mmsb__record_pinned(record)) {
            state = MMSB__STATE(MMSB__STATE_ENDED, generation, state & MMSB__INDEX_MASK);
            indices[reported++] = first + i;
            __atomic_store_n(&record->state, state | MMSB__OWNER_LIBRARY, __ATOMIC_RELEASE);
        } else if (class_number >= MMSB__SMALL_CLASSES || record->side != 0 || generation == MMSB__GENERATION_MAX) {
            indices[reported++] = first + i;
        } else {
            MMSB__POISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
            __atomic_store_n(&record->state,
                             MMSB__STATE(MMSB__STATE_FREE, generation + 1, (uint64_t)class_number << MMSB__CLASS_SHIFT),
                             __ATOMIC_RELEASE);
        }
    }
    *looked = i;
    return reported;
}

void mmsb__memory_swap(uint32_t a, uint64_t *a_state, uint32_t b, uint64_t *b_state) {
    mmsb__record_t *x = mmsb__record_at(a), *y = mmsb__record_at(b);
    uint64_t locator = x->locator, a_class = *a_state & MMSB__CLASS_MASK;
    uint8_t first = x->dirty_first, last = x->dirty_last, exposed = x->exposed;
    __atomic_store_n(&x->locator, y->locator, __ATOMIC_RELAXED);
    __atomic_store_n(&y->locator, locator, __ATOMIC_RELAXED);
    x->dirty_first = y->dirty_first;
    x->dirty_last = y->dirty_last;
    x->exposed = y->exposed;
    y->dirty_first = first;
    y->dirty_last = last;
    y->exposed = exposed;
    *a_state = (*a_state & ~MMSB__CLASS_MASK) | (*b_state & MMSB__CLASS_MASK);
    *b_state = (*b_state & ~MMSB__CLASS_MASK) | a_class;
}

/* -------------------------------------------------------------------------------------------------- many pages ---- */

void mmsb__batch_unlock(const mmsb__batch_t *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        mmsb__record_t *record = mmsb__record_of(mmsb__handle_at(batch->first, batch->stride, i));
        uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
        if ((state & MMSB__OWNER_MASK) == batch->owner) /* else it appears twice and is unlocked by now */
            mmsb__page_unlock(record, state & ~MMSB__OWNER_MASK);
    }
}

mmsb_status_t mmsb__batch_ring(const mmsb__batch_t *batch, mmsb__ring_t **ring) {
    *ring = NULL;
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED) == 0) || batch->count == 0)
        return MMSB_OK;
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
        return mmsb__fail(MMSB_E_UNSUPPORTED, "the batch's pages are of several contexts, and one of them has a journal");
    return MMSB_OK;
}

int mmsb__batch_touch(const mmsb__batch_t *batch, mmsb__batch_touch_t touch, const void *work) {
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) == 0))
        return 0;
    uint32_t moments = mmsb__moments_now();
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t page = mmsb__handle_at(batch->first, batch->stride, i);
        if (page == 0)
            continue;
        mmsb__record_t *record = mmsb__record_of(page);
        uint64_t state = mmsb__state_held(record) & ~MMSB__OWNER_MASK;
        if (touch ? touch(work, i, record, state) : mmsb__capture_touch_all(record, state)) {
            mmsb__batch_unlock(batch);
            mmsb__capture_wait(MMSB__HANDLE_INDEX(page));
            return 1;
        }
    }
    /* Pages before the moment and pages after it: all again, under the same locks. */
    return mmsb__moment_came(moments) ? mmsb__batch_touch(batch, touch, work) : 0;
}

mmsb_status_t mmsb__batch_meet(const mmsb__batch_t *batch, uint64_t page, int patient, uint64_t *state) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint32_t round = 0;
    for (;;) {
        uint64_t seen = *state = mmsb__state_load(record);
        if (!mmsb__state_is(seen, page))
            return mmsb__page_fail(page);
        uint32_t owner = (uint32_t)(seen & MMSB__OWNER_MASK);
        if (owner == batch->owner)
            return batch->distinct ? mmsb__fail(MMSB_E_STALE_HANDLE, "page 0x%016llx comes twice", (unsigned long long)page)
                                   : MMSB_OK;
        if (owner != 0) {
            if (!patient)
                return MMSB_E_WOULD_BLOCK;
            wait_a_little(&round);
        } else if (__atomic_compare_exchange_n(&record->state, &seen, seen | batch->owner, 0, __ATOMIC_ACQUIRE,
                                               __ATOMIC_RELAXED)) {
            if (!(seen & MMSB__NONRESIDENT) || batch->bytes_stay || (batch->on_devices && mmsb__on_device(seen)))
                return MMSB_OK;
            int divert = batch->diverts && mmsb__on_device(seen) && !mmsb__watched();
            mmsb_status_t status = divert ? MMSB__ENTER_GO : mmsb__page_make_resident(record, state);
            if (status != MMSB_OK)
                __atomic_store_n(&record->state, seen, __ATOMIC_RELEASE);
            return status;
        }
    }
}

mmsb_status_t mmsb__batch_find_bad(mmsb__batch_t *batch, mmsb__batch_check_t check, void *work, int patient) {
    batch->repeats = 0;
    for (batch->bad = 0; batch->bad < batch->count; batch->bad++) {
        uint64_t page = mmsb__handle_at(batch->first, batch->stride, batch->bad), state;
        if (page == 0 && batch->distinct)
            continue;
        mmsb_status_t status = mmsb__batch_meet(batch, page, patient, &state);
        if (status == MMSB_OK) {
            batch->repeats |= (state & MMSB__OWNER_MASK) != 0;
            status = check ? check(work, batch->bad, mmsb__record_of(page), state) : MMSB_OK;
        }
        if (status != MMSB_OK)
            return status;
    }
    return MMSB_OK;
}

static pthread_mutex_t patience = PTHREAD_MUTEX_INITIALIZER;

int mmsb__batch_again(mmsb__patience_t *p) {
    if (p->round < 80) {
        wait_a_little(&p->round);
    } else {
        pthread_mutex_lock(&patience);
        p->patient = 1;
    }
    return p->patient;
}

void mmsb__batch_settled(mmsb__patience_t *p) {
    if (p->patient)
        pthread_mutex_unlock(&patience);
}

mmsb_status_t mmsb__pair_lock(const mmsb_page_t pages[2], size_t *bad_index) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = 2};
    return mmsb__batch_lock(&batch, NULL, NULL, bad_index);
}

void mmsb__pair_unlock(const mmsb_page_t pages[2]) {
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = 2, .owner = mmsb__self->owner};
    mmsb__batch_unlock(&batch);
}
