/*
 * life.h — where pages begin and end: create, destroy, and what Go publishes and ends. The fast paths are inline and call no
 * other function.
 */
#ifndef MMSB_NATIVE_LIFE_H
#define MMSB_NATIVE_LIFE_H

#include "frame.h"
#include "lock.h"

#pragma GCC visibility push(hidden)

/* ------------------------------------------------------------------------------------------------------ create ---- */

mmsb_status_t mmsb__page_create_small(uint64_t context, uint64_t size, int zeroed, mmsb_page_t *page);
mmsb_status_t mmsb__page_create_many(uint64_t context, uint64_t size, size_t count, int zeroed, mmsb_page_t *pages);
/* Ends pages of a call that failed, the last that the thread has created, as if they had never been. */
void mmsb__page_uncreate(const mmsb_page_t *pages, size_t count);

/* Begins the page of this handle, whose record is free and this thread's. */
static inline void mmsb__page_begin(mmsb__record_t *record, uint64_t page, uint64_t size, uint32_t class_number) {
    mmsb__record_assert_free(record, page);
    MMSB__POISON(mmsb__record_bytes(record) + size, mmsb__class_size(class_number) - size);
    __atomic_store_n(&record->size, size, __ATOMIC_RELAXED);
    __atomic_store_n(&record->epoch, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&record->version, 1, __ATOMIC_RELAXED);
    mmsb__record_become(record, (page & ~MMSB__INDEX_MASK) | MMSB__LIVE | (uint64_t)class_number << MMSB__CLASS_SHIFT);
}

/* The options that the fast path knows: those of mmsb_page_options_init, zeroed or not. */
static inline int mmsb__options_plain(const mmsb_page_options_t *options) {
    return options->struct_size == sizeof *options && options->location == MMSB_LOCATION_DEFAULT && options->contents <= 1 &&
           (options->id | (uint32_t)options->device | (uint32_t)~options->numa_node | options->reserved_word |
            (uintptr_t)options->sizes | (uintptr_t)options->ids | options->reserved[0] | options->reserved[1]) == 0;
}

/* Cleans a record with at most 64 dirty bytes, without a call to another function. 0 = there are more. */
static inline int mmsb__record_clean_little(mmsb__record_t *record) {
    if (mmsb__exposed(record))
        return 0;
    int units = record->dirty_last - record->dirty_first + 1;
    if (units <= 0)
        return 1;
    if (units > 4)
        return 0;
    MMSB__UNPOISON(mmsb__record_bytes(record) + ((uint64_t)record->dirty_first << 4), (uint64_t)units << 4);
    uint64_t *words = (uint64_t *)(void *)(mmsb__record_bytes(record) + ((uint64_t)record->dirty_first << 4));
    for (int i = 0; i < units; i++) {
        words[2 * i] = 0;
        words[2 * i + 1] = 0;
    }
    mmsb__dirty_none(record);
    return 1;
}

/* Creates a page, and sets *address unless it is NULL, without a call to another function: 1, or 0 with nothing done. The options
 * are plain. */
static inline __attribute__((always_inline)) int mmsb__page_create_fast(uint64_t context, uint64_t size, int zeroed,
                                                                        mmsb_page_t *page, void **address) {
    mmsb__cache_t *cache = mmsb__current;
    if (MMSB__UNLIKELY(!cache || context == 0 || size - 1 >= MMSB__SMALL_MAX))
        return 0;
    mmsb__cache_set_busy(cache);
    uint32_t class_number = mmsb__class_of(size);
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    if (MMSB__LIKELY(__atomic_load_n(&mmsb__detours, __ATOMIC_RELAXED) == 0 &&
                     __atomic_load_n(&cache->plain_context, __ATOMIC_RELAXED) == context && magazine && magazine->count > 0)) {
        uint32_t left = magazine->count - 1;
        uint64_t handle = magazine->handles[left];
        mmsb__record_t *record = mmsb__record_of(handle);
        if (MMSB__LIKELY(!__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED) &&
                         (!zeroed || mmsb__record_clean_little(record)))) {
            magazine->count = left;
            if (left >=
                8) { /* for callers that create many: their first words share one set of the cache, so each access misses */
                __builtin_prefetch(mmsb__record_of(magazine->handles[left - 8]), 1);
                __builtin_prefetch(mmsb__record_bytes(mmsb__record_of(magazine->handles[left - 4])), 1);
            }
            MMSB__UNPOISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
            mmsb__page_begin(record, handle, size, class_number);
            mmsb__counter_add(&cache->creates, 1);
            mmsb__counter_add(&cache->bytes_created, size);
            mmsb__cache_end(cache);
            *page = handle;
            if (address)
                *address = mmsb__record_expose(record);
            return 1;
        }
    }
    mmsb__cache_end(cache);
    return 0;
}

/* A frame that becomes a page with these low state bits, size class aside. */
typedef struct mmsb__staged {
    uint64_t id, size, epoch, version, low;
    uint32_t index;
    uint32_t crc, generation, changed; /* for Go */
} mmsb__staged_t;
/* Turns frames of a context into live pages and counts them. */
void mmsb__pages_publish(uint32_t context_index, const mmsb__staged_t *pages, size_t count);

/* Turns one frame into a live page. */
void mmsb__page_publish(uint32_t index, uint64_t size, uint64_t low, uint64_t epoch, uint64_t version);

/* ----------------------------------------------------------------------------------------------------- destroy ---- */

mmsb_status_t mmsb__page_destroy_slow(uint64_t page);
/* Ends a page without pins that the caller has locked, or that has left. state is without owner. */
void mmsb__page_end_locked(uint64_t page, uint64_t state);
mmsb_status_t mmsb__page_destroy_many(const mmsb_page_t *pages, size_t count, size_t *bad_index);

/* The handle of the next page on the record of a page; after the last generation it has another kind. */
static inline uint64_t mmsb__page_next(uint64_t page) {
    return page + (UINT64_C(1) << MMSB__INDEX_BITS);
}

static inline int mmsb__page_is_last(uint64_t page) {
    return (mmsb__page_next(page) & UINT64_C(2) << 60) != 0; /* MMSB_KIND_PAGE is 1 */
}

/* The state after that of a live page that has nothing but a size class: free, for the next generation. */
static inline uint64_t mmsb__state_after(uint64_t state) {
    return state + (UINT64_C(1) << MMSB__INDEX_BITS) - ((uint64_t)MMSB_KIND_PAGE << 60 | MMSB__LIVE);
}

/* 1 if a locked page has no metadata, no chosen id and no change mask. */
static inline int mmsb__record_bare(const mmsb__record_t *record) {
    return (record->side | record->mask_frame) == 0;
}

/* Frees the record of a page that ends, locked by the caller. The cache is busy and has space. */
static inline void mmsb__page_end(mmsb__cache_t *cache, mmsb__magazine_t *magazine, mmsb__record_t *record, uint64_t page,
                                  uint64_t free_state) {
    MMSB__ASSERT(magazine->count < MMSB__MAGAZINE_ROUNDS, page, magazine->count);
    MMSB__POISON(mmsb__record_bytes(record), mmsb__class_size(MMSB__STATE_CLASS(free_state)));
    mmsb__counter_add(&cache->bytes_freed, record->size);
    mmsb__counter_add(&cache->frees, 1);
    mmsb__record_become(record, free_state);
    magazine->handles[magazine->count++] = mmsb__page_next(page);
}

/* Ends a small page that has nothing beside its bytes: 1, or 0 with nothing done. */
static inline int mmsb__page_destroy_fast(uint64_t page) {
    mmsb__cache_t *cache = mmsb__current;
    if (MMSB__UNLIKELY(!cache)) /* before the library's first call there are no records */
        return 0;
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    const uint64_t beside = mmsb__state_beside(state, page) - MMSB__LIVE; /* for a page that can end here: only the class */
    if (MMSB__UNLIKELY(beside >= MMSB__SMALL_CLASSES || mmsb__page_is_last(page)))
        return 0;
    const uint32_t class_number = (uint32_t)beside;
    mmsb__cache_set_busy(cache);
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    if (MMSB__LIKELY(
            __atomic_load_n(&mmsb__detours, __ATOMIC_RELAXED) == 0 &&
            mmsb__record_context(MMSB__HANDLE_INDEX(page)) == __atomic_load_n(&cache->open_index, __ATOMIC_RELAXED) && magazine &&
            magazine->count < MMSB__MAGAZINE_ROUNDS &&
            __atomic_compare_exchange_n(&record->state, &state, state | cache->thread, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
        if (MMSB__LIKELY(!mmsb__record_pinned(record) && mmsb__record_bare(record))) {
            mmsb__page_end(cache, magazine, record, page, mmsb__state_after(state));
            mmsb__cache_end(cache);
            return 1;
        }
        mmsb__page_unlock_record(record, state);
    }
    mmsb__cache_end(cache);
    return 0;
}

/* Frees a small record whose page Go has ended: locked, without side record and mask. For Go. */
void mmsb__record_finish(uint32_t index, uint64_t state);

/* Counts pages that Go creates and ends itself. */
void mmsb__context_add(uint32_t context_index, uint64_t creates, uint64_t frees, uint64_t bytes_created, uint64_t bytes_freed);

#pragma GCC visibility pop
#endif
