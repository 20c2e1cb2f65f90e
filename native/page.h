/*
 * page.h — what runs on host pages without entering Go: create and destroy of small pages, pins, reads, writes, and the lock that orders
 * them. A page is locked by writing the thread's owner number into its state; while it is locked nobody else writes the record, so
 * unlocking is a plain store. Locks are held for one call; who waits spins, then sleeps.
 *
 * Functions that return MMSB__ENTER_GO have done nothing: the call needs what only Go decides.
 */
#ifndef MMSB_NATIVE_PAGE_H
#define MMSB_NATIVE_PAGE_H

#include "bytes.h"
#include "journal.h"
#include "thread.h"

#define MMSB__ENTER_GO (-1)

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define MMSB__POISON(address, length) __asan_poison_memory_region(address, length)
#define MMSB__UNPOISON(address, length) __asan_unpoison_memory_region(address, length)
#else
#define MMSB__POISON(address, length) ((void)sizeof(address), (void)sizeof(length)) /* not evaluated */
#define MMSB__UNPOISON(address, length) ((void)sizeof(address), (void)sizeof(length))
#endif

#pragma GCC visibility push(hidden)

/* How many contexts are captured or frozen (capture.h): calls that change pages look closer. */
extern uint32_t mmsb__capturing;

/* 1 while some context is captured, frozen or journalled. */
static inline int mmsb__watched(void) {
    return (__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) | __atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED)) != 0;
}

/* ---------------------------------------------------------------------------------------------------- records ---- */

static inline mmsb__record_t *mmsb__record_at(uint32_t index) {
    return &mmsb__table.records[index];
}

static inline mmsb__record_t *mmsb__record_of(uint64_t page) {
    return &mmsb__table.records[page & MMSB__INDEX_MASK];
}

static inline uint64_t mmsb__state_load(const mmsb__record_t *record) {
    return __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
}

/* The state of a record whose lock this thread holds. Atomic all the same: another thread may be trying to take the lock. */
static inline uint64_t mmsb__state_held(const mmsb__record_t *record) {
    return __atomic_load_n(&record->state, __ATOMIC_RELAXED);
}

/* What a state has beside the page's kind and generation: above MMSB__INDEX_BITS nothing, where they are the same. */
static inline uint64_t mmsb__state_beside(uint64_t state, uint64_t page) {
    return state ^ (page & ~MMSB__INDEX_MASK);
}

/* 1 where the record is that of this live page. */
static inline int mmsb__state_is(uint64_t state, uint64_t page) {
    return mmsb__state_beside(state, page) >> MMSB__LIVE_SHIFT == 1;
}

/* 1 where its bytes have an address, too. */
static inline int mmsb__state_is_resident(uint64_t state, uint64_t page) {
    return mmsb__state_beside(state, page) >> MMSB__NONRESIDENT_SHIFT == MMSB__LIVE >> MMSB__NONRESIDENT_SHIFT;
}

/* 1 where nobody has locked it, either. */
static inline int mmsb__state_is_open(uint64_t state, uint64_t page) {
    return mmsb__state_beside(state, page) >> MMSB__OWNER_SHIFT == MMSB__LIVE >> MMSB__OWNER_SHIFT;
}

static inline uint32_t mmsb__record_context(uint32_t index) {
    return __atomic_load_n(&mmsb__table.leaf_context[index >> MMSB__LEAF_BITS], __ATOMIC_RELAXED);
}

static inline uint8_t *mmsb__record_bytes(const mmsb__record_t *record) {
    return mmsb__locator_address(__atomic_load_n(&record->locator, __ATOMIC_RELAXED));
}

static inline int mmsb__record_pinned(const mmsb__record_t *record) {
    return record->read_pins != 0 || record->write_pins != 0;
}

static inline void mmsb__version_move(mmsb__record_t *record) {
    __atomic_store_n(&record->version, record->version + 1, __ATOMIC_RELAXED);
}

/* Any byte of small memory may differ from 0. */
static inline void mmsb__dirty_all(mmsb__record_t *record) {
    record->dirty_first = 0;
    record->dirty_last = 255;
}

static inline int mmsb__exposed(const mmsb__record_t *record) {
    return __atomic_load_n(&record->exposed, __ATOMIC_RELAXED);
}

/* Bytes first … last may differ from 0 now. Beyond small pages nobody asks. */
static inline void mmsb__dirty_range(mmsb__record_t *record, uint64_t first, uint64_t last) {
    if (last >= MMSB__SMALL_MAX)
        return;
    uint8_t from = (uint8_t)(first >> 4), to = (uint8_t)(last >> 4);
    if (record->dirty_first > record->dirty_last) {
        record->dirty_first = from;
        record->dirty_last = to;
        return;
    }
    if (from < record->dirty_first)
        record->dirty_first = from;
    if (to > record->dirty_last)
        record->dirty_last = to;
}

static inline void mmsb__dirty_none(mmsb__record_t *record) {
    __atomic_store_n(&record->exposed, 0, __ATOMIC_RELAXED);
    record->dirty_first = 255;
    record->dirty_last = 0;
}

/* Makes all bytes of small memory zero, writing only those that may not be. next as in bytes.h. */
static inline void mmsb__record_clean(mmsb__record_t *record, uint32_t class_number, const void *next) {
    uint64_t first = (uint64_t)record->dirty_first << 4, end = ((uint64_t)record->dirty_last + 1) << 4;
    uint64_t size = mmsb__class_size(class_number);
    if (mmsb__exposed(record))
        first = 0, end = size;
    else if (record->dirty_first > record->dirty_last)
        return;
    if (end > size)
        end = size;
    mmsb__bytes.zero(mmsb__record_bytes(record) + first, end - first, next);
    mmsb__dirty_none(record);
}

/* The address of a page that has one. From now on any byte may have changed. */
static inline void *mmsb__record_expose(mmsb__record_t *record) {
    __atomic_store_n(&record->exposed, 1, __ATOMIC_RELAXED);
    return mmsb__record_bytes(record);
}

#define MMSB__ID_AUTOMATIC (UINT64_C(0xa) << 60)
#define MMSB__ID_MASK ((UINT64_C(1) << 60) - 1)

/* The id that a handle's page has unless the caller chose one. */
static inline uint64_t mmsb__automatic_id(const mmsb__context_record_t *context, uint64_t page) {
    return MMSB__ID_AUTOMATIC | ((page * context->id_factor) & MMSB__ID_MASK);
}

uint64_t mmsb__record_id(uint32_t index, uint64_t state);

/* ------------------------------------------------------------------------------------------------------ locks ---- */

/* Stores the last error for a handle that is not a live page. */
mmsb_status_t mmsb__page_fail(uint64_t page);
/* Lock for the owner, waiting for others. For Go: lock now, unlock from any thread. */
mmsb_status_t mmsb__page_lock_slow(uint64_t page, uint32_t owner, mmsb__record_t **record, uint64_t *state);
mmsb_status_t mmsb__page_lock_library(uint64_t page);
/* The same by index for a record that cannot become free meanwhile: live, ended. Returns the unlocked state. */
uint64_t mmsb__record_lock_library(uint32_t index);
/* The page that lives on a record: 0 where none does, also where it ends meanwhile. Records that are free are never locked by chance: who
 * has their handles begins pages on them by a plain store. */
int mmsb__record_lock_page(uint32_t index, uint64_t *state);
void mmsb__record_unlock(uint32_t index, uint64_t state);

static inline mmsb_status_t mmsb__page_lock(uint64_t page, mmsb__record_t **record, uint64_t *state) {
    mmsb__record_t *of = mmsb__record_of(page);
    uint64_t seen = __atomic_load_n(&of->state, __ATOMIC_RELAXED);
    if (MMSB__LIKELY(mmsb__self && mmsb__state_is_open(seen, page)) &&
        __atomic_compare_exchange_n(&of->state, &seen, seen | mmsb__self->owner, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        *record = of;
        *state = seen;
        return MMSB_OK;
    }
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    return mmsb__page_lock_slow(page, self->owner, record, state);
}

static inline void mmsb__page_unlock(mmsb__record_t *record, uint64_t state) {
    if (MMSB__UNLIKELY(state & MMSB__NONRESIDENT))
        mmsb__upcalls.evict((uint32_t)(record - mmsb__table.records));
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
}

/* Gives the bytes of a locked page that is away an address: until it is unlocked, or for good. */
static inline mmsb_status_t mmsb__page_make_resident(const mmsb__record_t *record, uint64_t *state) {
    mmsb_status_t status = mmsb__upcalls.make_resident((uint32_t)(record - mmsb__table.records));
    *state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    return status;
}

/* Whether the bytes of a locked page lie where only devices reach them. */
static inline int mmsb__on_device(uint64_t state) {
    return (state & MMSB__NONRESIDENT) && MMSB__STATE_LOCATION(state) == MMSB_LOCATION_GPU;
}

/* Bytes of a locked page that is on a device, which stay there. */
static inline mmsb_status_t mmsb__device_read(const mmsb__record_t *record, uint64_t offset, void *buffer, uint64_t length) {
    return length == 0 ? MMSB_OK : mmsb__upcalls.device_read((uint32_t)(record - mmsb__table.records), offset, buffer, length);
}

/* Locks a page that is read, and makes sure that its bytes have an address: but for one on a device. */
static inline mmsb_status_t mmsb__page_enter_where_it_is(uint64_t page, mmsb__record_t **record, uint64_t *state) {
    mmsb_status_t status = mmsb__page_lock(page, record, state);
    if (MMSB__UNLIKELY(status == MMSB_OK && (*state & MMSB__NONRESIDENT) && !mmsb__on_device(*state))) {
        status = mmsb__page_make_resident(*record, state);
        if (status != MMSB_OK)
            __atomic_store_n(&(*record)->state, *state, __ATOMIC_RELEASE);
    }
    return status;
}

/* The same for one that is changed. Where somebody has to know what its bytes were it is brought in all the same. */
static inline mmsb_status_t mmsb__page_enter_to_change(uint64_t page, mmsb__record_t **record, uint64_t *state, int *on_device) {
    mmsb_status_t status = mmsb__page_enter_where_it_is(page, record, state);
    *on_device = 0;
    if (MMSB__UNLIKELY(status == MMSB_OK && (*state & MMSB__NONRESIDENT) && mmsb__on_device(*state))) {
        *on_device = !mmsb__watched();
        if (!*on_device) {
            status = mmsb__page_make_resident(*record, state);
            if (status != MMSB_OK)
                __atomic_store_n(&(*record)->state, *state, __ATOMIC_RELEASE);
        }
    }
    return status;
}

/* ----------------------------------------------------------------------------------------- creating, destroying ---- */

mmsb_status_t mmsb__page_create_small(uint64_t context, uint64_t size, int zeroed, mmsb_page_t *page);
mmsb_status_t mmsb__page_destroy_slow(uint64_t page);
mmsb_status_t mmsb__page_create_many(uint64_t context, uint64_t size, size_t count, int zeroed, mmsb_page_t *pages);
mmsb_status_t mmsb__page_destroy_many(const mmsb_page_t *pages, size_t count, size_t *bad_index);
/* Takes back pages of a call that failed, as if they had never been. */
void mmsb__page_uncreate(const mmsb_page_t *pages, size_t count);

/* The page of this handle begins: its record is free, and this thread's. */
static inline void mmsb__page_begin(mmsb__record_t *record, uint64_t page, uint64_t size, uint32_t class_number) {
    MMSB__POISON(mmsb__record_bytes(record) + size, mmsb__class_size(class_number) - size);
    __atomic_store_n(&record->size, size, __ATOMIC_RELAXED);
    __atomic_store_n(&record->epoch, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&record->version, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&record->state, (page & ~MMSB__INDEX_MASK) | MMSB__LIVE | (uint64_t)class_number << MMSB__CLASS_SHIFT,
                     __ATOMIC_RELEASE);
}

/* The options that the fast path knows: those of mmsb_page_options_init, zeroed or not. */
static inline int mmsb__options_plain(const mmsb_page_options_t *options) {
    return options->struct_size == sizeof *options && options->location == MMSB_LOCATION_DEFAULT && options->contents <= 1 &&
           (options->id | (uint32_t)options->device | (uint32_t)~options->numa_node | options->reserved_word |
            options->reserved[0] | options->reserved[1] | options->reserved[2] | options->reserved[3]) == 0;
}

/* Cleans where little is dirty, without a call to another function. 0 = it is not little. */
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

/* Creates a page, with its address where that is asked for, in no call to another function: 1, or 0 with nothing done. The options are
 * plain. */
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
            if (left >= 8) { /* for who creates many: their first words share one set of the cache, so that each touch misses */
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

/* The handle of the next page that the record of a page will have; where there is none, its kind is another. */
static inline uint64_t mmsb__page_next(uint64_t page) {
    return page + (UINT64_C(1) << MMSB__INDEX_BITS);
}

static inline int mmsb__page_is_last(uint64_t page) {
    return (mmsb__page_next(page) & UINT64_C(2) << 60) != 0; /* MMSB_KIND_PAGE is 1 */
}

/* The state that follows on that of a live page which has nothing but a size class: free, for the next generation. */
static inline uint64_t mmsb__state_after(uint64_t state) {
    return state + (UINT64_C(1) << MMSB__INDEX_BITS) - ((uint64_t)MMSB_KIND_PAGE << 60 | MMSB__LIVE);
}

/* 1 where a locked page has neither metadata or an id of its own, nor a change mask. */
static inline int mmsb__record_bare(const mmsb__record_t *record) {
    return (record->side | record->mask_frame) == 0;
}

/* The record of a page that ends, locked by the caller, is free from now on. The cache is begun and has room. */
static inline void mmsb__page_end(mmsb__cache_t *cache, mmsb__magazine_t *magazine, mmsb__record_t *record, uint64_t page,
                                  uint64_t free_state) {
    MMSB__POISON(mmsb__record_bytes(record), mmsb__class_size(MMSB__STATE_CLASS(free_state)));
    mmsb__counter_add(&cache->bytes_freed, record->size);
    mmsb__counter_add(&cache->frees, 1);
    __atomic_store_n(&record->state, free_state, __ATOMIC_RELEASE);
    magazine->handles[magazine->count++] = mmsb__page_next(page);
}

/* Ends a small page that has nothing beside its bytes: 1, or 0 with nothing done. */
static inline int mmsb__page_destroy_fast(uint64_t page) {
    mmsb__cache_t *cache = mmsb__current;
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    const uint64_t beside = mmsb__state_beside(state, page) - MMSB__LIVE; /* of the pages meant here nothing but the class */
    if (MMSB__UNLIKELY(!cache || beside >= MMSB__SMALL_CLASSES || mmsb__page_is_last(page)))
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
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    }
    mmsb__cache_end(cache);
    return 0;
}

/* Frees a small record whose page Go has taken apart: locked, without side record and mask. For Go. */
void mmsb__record_finish(uint32_t index, uint64_t state);

/* ------------------------------------------------------------------------------------------------------ blocks ---- */

/* Memory for the library's own use: a record whose bytes are no page's, all zero, size = capacity. */
mmsb_status_t mmsb__frame_take(uint32_t context_index, uint64_t size, uint32_t *index);
/* Many small ones, or none. Those that are not zeroed may have bytes of the context's ended pages. */
mmsb_status_t mmsb__frames_take(uint32_t context_index, uint64_t size, int zeroed, uint32_t *indices, uint32_t count);
void mmsb__frame_give(uint32_t context_index, uint32_t index);
/* Makes sure that the page, which is locked, has a change mask. */
mmsb_status_t mmsb__mask_add(mmsb__record_t *record);
static inline mmsb_status_t mmsb__mask_make(mmsb__record_t *record) {
    return MMSB__LIKELY(record->mask_frame != 0) ? MMSB_OK : mmsb__mask_add(record);
}
void mmsb__mask_drop(mmsb__record_t *record);
/* Memory of all change masks. */
extern uint64_t mmsb__mask_bytes;
static inline uint64_t mmsb__mask_length(uint64_t size) {
    return (size >> 3) + ((size & 7) != 0);
}

/* ---------------------------------------------------------------------------------------------------- looking ---- */

/* What of the record is looked at without a lock. */
typedef enum mmsb__field { MMSB__FIELD_SIZE, MMSB__FIELD_EPOCH, MMSB__FIELD_VERSION } mmsb__field_t;

static inline uint64_t mmsb__field_load(const mmsb__record_t *record, mmsb__field_t field) {
    const uint64_t *at = field == MMSB__FIELD_SIZE    ? &record->size
                         : field == MMSB__FIELD_EPOCH ? &record->epoch
                                                      : &record->version;
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

uint64_t mmsb__page_look_slow(uint64_t page, mmsb__field_t field);
void *mmsb__page_address_slow(uint64_t page);

/* One read between two looks at the state, so that the value is this page's. */
static inline uint64_t mmsb__page_look(uint64_t page, mmsb__field_t field) {
    if (MMSB__LIKELY(mmsb__gate == MMSB_OK)) {
        const mmsb__record_t *record = mmsb__record_of(page);
        const uint64_t state = mmsb__state_load(record);
        if (MMSB__LIKELY(mmsb__state_is(state, page))) {
            uint64_t value = mmsb__field_load(record, field);
            if (MMSB__LIKELY(mmsb__state_load(record) == state))
                return value;
        }
    }
    return mmsb__page_look_slow(page, field);
}

static inline void *mmsb__page_address(uint64_t page) {
    if (MMSB__LIKELY(mmsb__gate == MMSB_OK)) {
        mmsb__record_t *record = mmsb__record_of(page);
        const uint64_t state = mmsb__state_load(record);
        if (MMSB__LIKELY(mmsb__state_is_resident(state, page))) {
            /* Marked without a lock: where the record has a new page by now, one mark too many is harmless. */
            void *address = mmsb__record_expose(record);
            if (MMSB__LIKELY(mmsb__state_load(record) == state))
                return address;
        }
    }
    return mmsb__page_address_slow(page);
}

mmsb_status_t mmsb__page_info(uint64_t page, mmsb_page_info_t *info);
mmsb_status_t mmsb__page_info_many(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index);

/* ---------------------------------------------------------------------------------------------- bytes of pages ---- */

/* Pins a page that has an address, may be written and is locked by nobody, in no call to another function: 1, or 0 with nothing done. */
static inline int mmsb__page_pin_fast(uint64_t page, int32_t mode, void **address) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    if (MMSB__UNLIKELY(!mmsb__self || !mmsb__state_is_open(state, page) || (state & MMSB__READ_ONLY) ||
                       !__atomic_compare_exchange_n(&record->state, &state, state | mmsb__self->owner, 0, __ATOMIC_ACQUIRE,
                                                    __ATOMIC_RELAXED)))
        return 0;
    uint16_t *pins = mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
    const int room = *pins != UINT16_MAX;
    if (MMSB__LIKELY(room)) {
        __atomic_store_n(pins, (uint16_t)(*pins + 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb__record_expose(record);
        if (address)
            *address = mmsb__record_bytes(record);
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return room;
}

/* The end of a pin, likewise. */
static inline int mmsb__page_unpin_fast(uint64_t page, int32_t mode) {
    mmsb__record_t *record = mmsb__record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    if (MMSB__UNLIKELY(!mmsb__self || !mmsb__state_is_open(state, page) ||
                       !__atomic_compare_exchange_n(&record->state, &state, state | mmsb__self->owner, 0, __ATOMIC_ACQUIRE,
                                                    __ATOMIC_RELAXED)))
        return 0;
    uint16_t *pins = mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
    const int pinned = *pins != 0;
    if (MMSB__LIKELY(pinned)) {
        __atomic_store_n(pins, (uint16_t)(*pins - 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb__version_move(record);
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return pinned;
}

mmsb_status_t mmsb__page_pin(uint64_t page, int32_t mode, void **address);
mmsb_status_t mmsb__page_unpin(uint64_t page, int32_t mode);
mmsb_status_t mmsb__page_read(uint64_t page, uint64_t offset, void *buffer, uint64_t length);
mmsb_status_t mmsb__page_write(uint64_t page, uint64_t offset, const void *buffer, uint64_t length);
mmsb_status_t mmsb__page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
mmsb_status_t mmsb__page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
/* Within the page's memory; else MMSB__ENTER_GO. */
mmsb_status_t mmsb__page_resize_in_place(uint64_t page, uint64_t size);

mmsb_status_t mmsb__page_mask_read(uint64_t page, uint64_t offset, void *bits, uint64_t length);
mmsb_status_t mmsb__page_mask_clear(uint64_t page);
mmsb_status_t mmsb__page_mask_count(uint64_t page, uint64_t *count);

/* ------------------------------------------------------------------------------------------------ walks, for Go ---- */

/* A block that becomes a page with these low state bits, size class aside. */
typedef struct mmsb__staged {
    uint64_t id, size, epoch, version, low;
    uint32_t index;
    uint32_t crc, generation; /* for Go */
    uint32_t reserved;
} mmsb__staged_t;
/* Turns blocks of a context into live pages and counts them. */
void mmsb__pages_publish(uint32_t context_index, const mmsb__staged_t *pages, size_t count);

/* Turns one block into a live page. */
void mmsb__page_publish(uint32_t index, uint64_t size, uint64_t low, uint64_t epoch, uint64_t version);

/* All pages of a frozen context are replaced, chunk by chunk. The first of these locks the pages that live on count records for
 * the library. It returns count, or which one is pinned: those behind it are not locked. */
uint32_t mmsb__records_lock(uint32_t first, uint32_t count);
/* Unlocks as many. */
void mmsb__records_unlock(uint32_t first, uint32_t count);

/* What is left when pages have ended. */
typedef struct mmsb__finished {
    uint32_t sides_count, left_count;
    uint32_t sides[MMSB__LEAF_RECORDS]; /* their side records, which are free */
    uint32_t left[MMSB__LEAF_RECORDS];  /* records of pages that Go takes apart: with other than small memory, or with metadata */
} mmsb__finished_t;
/* Ends them, except for those that are left. */
void mmsb__records_finish(uint32_t first, uint32_t count, mmsb__finished_t *finished);

/* Makes a block the change mask of a locked page that has none. */
void mmsb__mask_use(mmsb__record_t *record, uint32_t block);
/* After a locked page got other memory: only its bytes may be touched (AddressSanitizer builds). */
void mmsb__page_redzone(uint32_t index, uint64_t state, uint64_t size);
/* Before memory goes back to the system: whoever gets it next may touch all of it (AddressSanitizer builds). */
void mmsb__memory_unpoison(void *memory, uint64_t length);
/* Counts what Go does with pages by itself. */
void mmsb__context_add(uint32_t context_index, uint64_t creates, uint64_t frees, uint64_t bytes_created, uint64_t bytes_freed);
/* The page that has an automatic id; 0 = none. */
mmsb_page_t mmsb__page_find(const mmsb__context_record_t *context, uint64_t id);
/* Handles of live pages among count records from first on, at most capacity; returns how many records were looked at. */
uint32_t mmsb__records_list(uint32_t first, uint32_t count, mmsb_page_t *pages, uint32_t capacity, uint32_t *found);

typedef struct mmsb__survey {
    uint64_t pages[8]; /* by location */
    uint64_t bytes[8];
    uint64_t pinned;
} mmsb__survey_t;
/* Adds the live pages among count records from first on. */
void mmsb__records_survey(uint32_t first, uint32_t count, mmsb__survey_t *survey);

/* The end of a context, after its caches have been detached: ends every page among count records from first on, waiting for calls on
 * them. Pages that Go must take apart come as indices in *apart (locked for the library), pinned ones stay in the state ENDED and are
 * reported the same way; *looked is where the next call goes on. Returns the number of indices, at most capacity. */
uint32_t mmsb__records_end(uint32_t first, uint32_t count, uint32_t *indices, uint32_t capacity, uint32_t *looked);

/* Swaps the memory of two locked records, or of a record and a block. */
void mmsb__memory_swap(uint32_t a, uint64_t *a_state, uint32_t b, uint64_t *b_state);

/* -------------------------------------------------------------------------------------------------- many pages ---- */

/* Pages of a batch: handles that stand stride bytes apart. */
typedef struct mmsb__batch {
    const uint8_t *first;
    size_t stride;
    size_t count;
    uint32_t bytes_stay; /* 1: pages that are away are not given an address */
    uint32_t distinct;   /* 1: handles 0 are skipped, and a page's second place is MMSB_E_STALE_HANDLE */
    uint32_t on_devices; /* 1: those on devices stay there, the others are given one */
    uint32_t diverts;    /* 1: where nobody watches, a page on a device ends the locking: MMSB__ENTER_GO */
    uint32_t keeps;      /* 1: after a bad item the caller unlocks the batch */
    /* Filled by mmsb__batch_lock: */
    uint32_t owner;
    uint32_t repeats; /* 1 where a page appears more than once; of a bad batch, among the items up to the bad one */
    size_t bad;       /* the bad item */
} mmsb__batch_t;

static inline uint64_t mmsb__handle_at(const uint8_t *first, size_t stride, size_t i) {
    return *(const uint64_t *)(const void *)(first + i * stride);
}

/* Checks item i of a batch (NULL: nothing to check), whose page is locked and has an address. state is what the record's state is to be
 * when item i is done: still locked where a later item has the page, too. May make things that do not show, like an empty change mask. */
typedef mmsb_status_t (*mmsb__batch_check_t)(void *work, size_t i, mmsb__record_t *record, uint64_t state);

/* How long a batch has tried. */
typedef struct mmsb__patience {
    uint32_t round;
    int patient;
} mmsb__patience_t;

/* Unlocks those of a batch's pages that this thread has locked. */
void mmsb__batch_unlock(const mmsb__batch_t *batch);
/* Item i is about to change its page, which is locked: capture.h. */
typedef int (*mmsb__batch_touch_t)(const void *work, size_t i, mmsb__record_t *record, uint64_t state);
/* Before the first change of a batch that is locked; touch NULL: the pages change as a whole. 1: the batch is unlocked, and begins anew. */
int mmsb__batch_touch(const mmsb__batch_t *batch, mmsb__batch_touch_t touch, const void *work);
/* The journal of a locked batch, NULL where there is none. Errors: MMSB_E_UNSUPPORTED (the batch's pages are of several contexts, and one of
 * them has a journal). */
mmsb_status_t mmsb__batch_ring(const mmsb__batch_t *batch, mmsb__ring_t **ring);
/* The end of a call whose pages are unlocked: waits for the journal where a call does, and puts both results together. */
static inline mmsb_status_t mmsb__journal_settle(mmsb__ring_t *ring, uint64_t sequence, mmsb_status_t status) {
    if (MMSB__LIKELY(sequence == 0))
        return status;
    mmsb_status_t waited = mmsb__ring_wait(ring, sequence);
    return status != MMSB_OK ? status : waited;
}
/* Locks a page of a batch that is not simply free: MMSB_E_WOULD_BLOCK where another thread has it and the batch is not patient. *state is
 * as it was: locked where this thread had locked the page before. */
mmsb_status_t mmsb__batch_meet(const mmsb__batch_t *batch, uint64_t page, int patient, uint64_t *state);
/* Locks and checks the items of an unlocked batch from the first on, up to one that is bad: batch->bad. */
mmsb_status_t mmsb__batch_find_bad(mmsb__batch_t *batch, mmsb__batch_check_t check, void *work, int patient);
/* Waits before the next try; after some tries the batch becomes patient, which only one of the process may be. */
int mmsb__batch_again(mmsb__patience_t *patience);
void mmsb__batch_settled(mmsb__patience_t *patience);

/* Locks all pages of a batch and checks all items: MMSB_OK with all locked, or the code of the first bad item, its index in
 * *bad_index, and none locked. Two batches never wait for each other: who meets a lock while it holds others lets go of all and
 * tries again; after some tries it waits with its locks held, which only one batch of the process may do at a time. Inline, so that each
 * kind of batch has its check within the loop.
 *
 * From the last item to the first: the item that finds its page unlocked is then the last one that has it, and the caller, who goes from the
 * first to the last, can unlock each page with its last change. Only where an item is bad are they looked at from the first on. */
static inline __attribute__((always_inline)) mmsb_status_t mmsb__batch_lock(mmsb__batch_t *batch, mmsb__batch_check_t check,
                                                                            void *work, size_t *bad_index) {
    /* Copies that no other function can change. */
    const uint8_t *const first = batch->first;
    const size_t stride = batch->stride, count = batch->count;
    const uint32_t distinct = batch->distinct;
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    const uint64_t owner = batch->owner = self->owner;
    mmsb__patience_t patience = {0, 0};
    mmsb_status_t status;
    for (;;) {
        uint64_t repeats = 0;
        status = MMSB_OK;
        for (size_t i = count; i-- > 0;) {
            if (MMSB__LIKELY(i >= 12))
                __builtin_prefetch(mmsb__record_of(mmsb__handle_at(first, stride, i - 12)), 1);
            uint64_t page = mmsb__handle_at(first, stride, i);
            if (MMSB__UNLIKELY(distinct && page == 0))
                continue;
            mmsb__record_t *record = mmsb__record_of(page);
            uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED), seen = state;
            /* A page that repeats is locked once more, which changes nothing: the processor would often foresee a branch wrongly. */
            const uint64_t had = distinct ? 0 : owner & -(uint64_t)((state & MMSB__OWNER_MASK) == owner);
            if (MMSB__UNLIKELY(
                    !mmsb__state_is_open(state ^ had, page) ||
                    !__atomic_compare_exchange_n(&record->state, &seen, state | owner, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
                uint64_t met;
                status = mmsb__batch_meet(batch, page, patience.patient, &met);
                if (MMSB__UNLIKELY(status != MMSB_OK))
                    break;
                state = met;
            }
            repeats |= state;
            if (check && MMSB__UNLIKELY((status = check(work, i, record, state)) != MMSB_OK))
                break;
        }
        batch->repeats = (repeats & MMSB__OWNER_MASK) != 0;
        if (MMSB__LIKELY(status == MMSB_OK))
            break;
        mmsb__batch_unlock(batch);
        if (status != MMSB_E_WOULD_BLOCK)
            status = mmsb__batch_find_bad(batch, check, work, patience.patient);
        if (status != MMSB_OK && status != MMSB_E_WOULD_BLOCK) {
            if (!batch->keeps)
                mmsb__batch_unlock(batch);
            if (bad_index)
                *bad_index = batch->bad;
            break;
        }
        mmsb__batch_unlock(batch);
        if (status == MMSB_E_WOULD_BLOCK)
            mmsb__batch_again(&patience);
    }
    mmsb__batch_settled(&patience);
    return status;
}

/* Two different pages, for Go; on one thread. */
mmsb_status_t mmsb__pair_lock(const mmsb_page_t pages[2], size_t *bad_index);
void mmsb__pair_unlock(const mmsb_page_t pages[2]);

#pragma GCC visibility pop
#endif
