/*
 * page.h — what runs on host pages without entering Go: create and destroy of small pages, pins, reads, writes, and the lock that orders
 * them. A page is locked by writing the thread's owner number into its state; while it is locked nobody else writes the record, so
 * unlocking is a plain store. Locks are held for one call; who waits spins, then sleeps.
 *
 * Functions that return MMSB_ENTER_GO have done nothing: the call needs what only Go decides.
 */
#ifndef MMSB_NATIVE_PAGE_H
#define MMSB_NATIVE_PAGE_H

#include "bytes.h"
#include "journal.h"
#include "thread.h"

#define MMSB_ENTER_GO (-1)

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define MMSB_POISON(address, length) __asan_poison_memory_region(address, length)
#define MMSB_UNPOISON(address, length) __asan_unpoison_memory_region(address, length)
#else
#define MMSB_POISON(address, length) ((void)sizeof(address), (void)sizeof(length)) /* not evaluated */
#define MMSB_UNPOISON(address, length) ((void)sizeof(address), (void)sizeof(length))
#endif

#pragma GCC visibility push(hidden)

/* How many contexts are captured or frozen (capture.h): calls that change pages look closer. */
extern uint32_t mmsb_capturing;

/* 1 while some context is captured, frozen or journalled. */
static inline int mmsb_watched(void) {
    return (__atomic_load_n(&mmsb_capturing, __ATOMIC_RELAXED) | __atomic_load_n(&mmsb_rings_open, __ATOMIC_RELAXED)) != 0;
}

/* ---------------------------------------------------------------------------------------------------- records ---- */

static inline mmsb_record_t *mmsb_record_at(uint32_t index) {
    return &mmsb_table.records[index];
}

static inline mmsb_record_t *mmsb_record_of(uint64_t page) {
    return &mmsb_table.records[page & MMSB_INDEX_MASK];
}

static inline uint64_t mmsb_state_load(const mmsb_record_t *record) {
    return __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
}

/* The state of a record whose lock this thread holds. Atomic all the same: another thread may be trying to take the lock. */
static inline uint64_t mmsb_state_held(const mmsb_record_t *record) {
    return __atomic_load_n(&record->state, __ATOMIC_RELAXED);
}

/* What a state has beside the page's kind and generation: above MMSB_INDEX_BITS nothing, where they are the same. */
static inline uint64_t mmsb_state_beside(uint64_t state, uint64_t page) {
    return state ^ (page & ~MMSB_INDEX_MASK);
}

/* 1 where the record is that of this live page. */
static inline int mmsb_state_is(uint64_t state, uint64_t page) {
    return mmsb_state_beside(state, page) >> MMSB_LIVE_SHIFT == 1;
}

/* 1 where its bytes have an address, too. */
static inline int mmsb_state_is_here(uint64_t state, uint64_t page) {
    return mmsb_state_beside(state, page) >> MMSB_AWAY_SHIFT == MMSB_LIVE >> MMSB_AWAY_SHIFT;
}

/* 1 where nobody has locked it, either. */
static inline int mmsb_state_is_open(uint64_t state, uint64_t page) {
    return mmsb_state_beside(state, page) >> MMSB_OWNER_SHIFT == MMSB_LIVE >> MMSB_OWNER_SHIFT;
}

static inline uint32_t mmsb_record_context(uint32_t index) {
    return __atomic_load_n(&mmsb_table.chunk_context[index >> MMSB_CHUNK_BITS], __ATOMIC_RELAXED);
}

static inline uint8_t *mmsb_record_bytes(const mmsb_record_t *record) {
    return mmsb_place_address(__atomic_load_n(&record->place, __ATOMIC_RELAXED));
}

static inline int mmsb_record_pinned(const mmsb_record_t *record) {
    return record->read_pins != 0 || record->write_pins != 0;
}

static inline void mmsb_version_move(mmsb_record_t *record) {
    __atomic_store_n(&record->version, record->version + 1, __ATOMIC_RELAXED);
}

/* Any byte of small memory may differ from 0. */
static inline void mmsb_dirty_all(mmsb_record_t *record) {
    record->dirty_first = 0;
    record->dirty_last = 255;
}

static inline int mmsb_exposed(const mmsb_record_t *record) {
    return __atomic_load_n(&record->exposed, __ATOMIC_RELAXED);
}

/* Bytes first … last may differ from 0 now. Beyond small pages nobody asks. */
static inline void mmsb_dirty_range(mmsb_record_t *record, uint64_t first, uint64_t last) {
    if (last >= MMSB_SMALL_MAX)
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

static inline void mmsb_dirty_none(mmsb_record_t *record) {
    __atomic_store_n(&record->exposed, 0, __ATOMIC_RELAXED);
    record->dirty_first = 255;
    record->dirty_last = 0;
}

/* Makes all bytes of small memory zero, writing only those that may not be. next as in bytes.h. */
static inline void mmsb_record_clean(mmsb_record_t *record, uint32_t class_number, const void *next) {
    uint64_t first = (uint64_t)record->dirty_first << 4, end = ((uint64_t)record->dirty_last + 1) << 4;
    uint64_t size = mmsb_class_size(class_number);
    if (mmsb_exposed(record))
        first = 0, end = size;
    else if (record->dirty_first > record->dirty_last)
        return;
    if (end > size)
        end = size;
    mmsb_bytes.zero(mmsb_record_bytes(record) + first, end - first, next);
    mmsb_dirty_none(record);
}

/* The address of a page that has one. From now on any byte may have changed. */
static inline void *mmsb_record_expose(mmsb_record_t *record) {
    __atomic_store_n(&record->exposed, 1, __ATOMIC_RELAXED);
    return mmsb_record_bytes(record);
}

#define MMSB_ID_AUTOMATIC (UINT64_C(0xa) << 60)
#define MMSB_ID_MASK ((UINT64_C(1) << 60) - 1)

/* The id that a handle's page has unless the caller chose one. */
static inline uint64_t mmsb_automatic_id(const mmsb_context_record_t *context, uint64_t page) {
    return MMSB_ID_AUTOMATIC | ((page * context->id_factor) & MMSB_ID_MASK);
}

uint64_t mmsb_record_id(uint32_t index, uint64_t state);

/* ------------------------------------------------------------------------------------------------------ locks ---- */

/* Stores the last error for a handle that is not a live page. */
mmsb_status_t mmsb_page_fail(uint64_t page);
/* Lock for the owner, waiting for others. For Go: lock now, unlock from any thread. */
mmsb_status_t mmsb_page_lock_slow(uint64_t page, uint32_t owner, mmsb_record_t **record, uint64_t *state);
mmsb_status_t mmsb_page_lock_library(uint64_t page);
/* The same by index for a record that cannot become free meanwhile: live, ended. Returns the unlocked state. */
uint64_t mmsb_record_lock_library(uint32_t index);
/* The page that lives on a record: 0 where none does, also where it ends meanwhile. Records that are free are never locked by chance: who
 * has their handles begins pages on them by a plain store. */
int mmsb_record_lock_page(uint32_t index, uint64_t *state);
void mmsb_record_unlock(uint32_t index, uint64_t state);

static inline mmsb_status_t mmsb_page_lock(uint64_t page, mmsb_record_t **record, uint64_t *state) {
    mmsb_record_t *of = mmsb_record_of(page);
    uint64_t seen = __atomic_load_n(&of->state, __ATOMIC_RELAXED);
    if (MMSB_LIKELY(mmsb_self && mmsb_state_is_open(seen, page)) &&
        __atomic_compare_exchange_n(&of->state, &seen, seen | mmsb_self->owner, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        *record = of;
        *state = seen;
        return MMSB_OK;
    }
    mmsb_thread_t *self = mmsb_thread_enter();
    if (!self)
        return mmsb_thread_fail();
    return mmsb_page_lock_slow(page, self->owner, record, state);
}

static inline void mmsb_page_unlock(mmsb_record_t *record, uint64_t state) {
    if (MMSB_UNLIKELY(state & MMSB_AWAY))
        mmsb_upcalls.leave((uint32_t)(record - mmsb_table.records));
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
}

/* Gives the bytes of a locked page that is away an address: until it is unlocked, or for good. */
static inline mmsb_status_t mmsb_page_bring(const mmsb_record_t *record, uint64_t *state) {
    mmsb_status_t status = mmsb_upcalls.bring((uint32_t)(record - mmsb_table.records));
    *state = mmsb_state_load(record) & ~MMSB_OWNER_MASK;
    return status;
}

/* Whether the bytes of a locked page lie where only devices reach them. */
static inline int mmsb_on_device(uint64_t state) {
    return (state & MMSB_AWAY) && MMSB_STATE_LOCATION(state) == MMSB_LOCATION_GPU;
}

/* Bytes of a locked page that is on a device, which stay there. */
static inline mmsb_status_t mmsb_device_read(const mmsb_record_t *record, uint64_t offset, void *buffer, uint64_t length) {
    return length == 0 ? MMSB_OK : mmsb_upcalls.device_read((uint32_t)(record - mmsb_table.records), offset, buffer, length);
}

/* Locks a page that is read, and makes sure that its bytes have an address: but for one on a device. */
static inline mmsb_status_t mmsb_page_enter_where_it_is(uint64_t page, mmsb_record_t **record, uint64_t *state) {
    mmsb_status_t status = mmsb_page_lock(page, record, state);
    if (MMSB_UNLIKELY(status == MMSB_OK && (*state & MMSB_AWAY) && !mmsb_on_device(*state))) {
        status = mmsb_page_bring(*record, state);
        if (status != MMSB_OK)
            __atomic_store_n(&(*record)->state, *state, __ATOMIC_RELEASE);
    }
    return status;
}

/* The same for one that is changed. Where somebody has to know what its bytes were it is brought in all the same. */
static inline mmsb_status_t mmsb_page_enter_to_change(uint64_t page, mmsb_record_t **record, uint64_t *state, int *on_device) {
    mmsb_status_t status = mmsb_page_enter_where_it_is(page, record, state);
    *on_device = 0;
    if (MMSB_UNLIKELY(status == MMSB_OK && (*state & MMSB_AWAY) && mmsb_on_device(*state))) {
        *on_device = !mmsb_watched();
        if (!*on_device) {
            status = mmsb_page_bring(*record, state);
            if (status != MMSB_OK)
                __atomic_store_n(&(*record)->state, *state, __ATOMIC_RELEASE);
        }
    }
    return status;
}

/* ----------------------------------------------------------------------------------------- creating, destroying ---- */

mmsb_status_t mmsb_page_create_small(uint64_t context, uint64_t size, int zeroed, mmsb_page_t *page);
mmsb_status_t mmsb_page_destroy_slow(uint64_t page);
mmsb_status_t mmsb_page_create_batch(uint64_t context, uint64_t size, size_t count, int zeroed, mmsb_page_t *pages);
mmsb_status_t mmsb_page_destroy_batch(const mmsb_page_t *pages, size_t count, size_t *bad_index);
/* Takes back pages of a call that failed, as if they had never been. */
void mmsb_page_uncreate(const mmsb_page_t *pages, size_t count);

/* The page of this handle begins: its record is free, and this thread's. */
static inline void mmsb_page_begin(mmsb_record_t *record, uint64_t page, uint64_t size, uint32_t class_number) {
    MMSB_POISON(mmsb_record_bytes(record) + size, mmsb_class_size(class_number) - size);
    __atomic_store_n(&record->size, size, __ATOMIC_RELAXED);
    __atomic_store_n(&record->epoch, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&record->version, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&record->state, (page & ~MMSB_INDEX_MASK) | MMSB_LIVE | (uint64_t)class_number << MMSB_CLASS_SHIFT,
                     __ATOMIC_RELEASE);
}

/* The options that the fast path knows: those of mmsb_page_options_init, zeroed or not. */
static inline int mmsb_options_plain(const mmsb_page_options_t *options) {
    return options->struct_size == sizeof *options && options->location == MMSB_LOCATION_DEFAULT && options->contents <= 1 &&
           (options->id | (uint32_t)options->device | (uint32_t)~options->numa_node | options->reserved_word |
            options->reserved[0] | options->reserved[1] | options->reserved[2] | options->reserved[3]) == 0;
}

/* Cleans where little is dirty, without a call to another function. 0 = it is not little. */
static inline int mmsb_record_clean_little(mmsb_record_t *record) {
    if (mmsb_exposed(record))
        return 0;
    int units = record->dirty_last - record->dirty_first + 1;
    if (units <= 0)
        return 1;
    if (units > 4)
        return 0;
    MMSB_UNPOISON(mmsb_record_bytes(record) + ((uint64_t)record->dirty_first << 4), (uint64_t)units << 4);
    uint64_t *words = (uint64_t *)(void *)(mmsb_record_bytes(record) + ((uint64_t)record->dirty_first << 4));
    for (int i = 0; i < units; i++) {
        words[2 * i] = 0;
        words[2 * i + 1] = 0;
    }
    mmsb_dirty_none(record);
    return 1;
}

/* Creates a page, with its address where that is asked for, in no call to another function: 1, or 0 with nothing done. The options are
 * plain. */
static inline __attribute__((always_inline)) int mmsb_page_create_fast(uint64_t context, uint64_t size, int zeroed,
                                                                       mmsb_page_t *page, void **address) {
    mmsb_cache_t *cache = mmsb_current;
    if (MMSB_UNLIKELY(!cache || context == 0 || size - 1 >= MMSB_SMALL_MAX))
        return 0;
    mmsb_cache_mark(cache);
    uint32_t class_number = mmsb_class_of(size);
    mmsb_magazine_t *magazine = cache->loaded[class_number];
    if (MMSB_LIKELY(__atomic_load_n(&mmsb_detours, __ATOMIC_RELAXED) == 0 &&
                    __atomic_load_n(&cache->plain_context, __ATOMIC_RELAXED) == context && magazine && magazine->count > 0)) {
        uint32_t left = magazine->count - 1;
        uint64_t handle = magazine->handles[left];
        mmsb_record_t *record = mmsb_record_of(handle);
        if (MMSB_LIKELY(!__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED) && (!zeroed || mmsb_record_clean_little(record)))) {
            magazine->count = left;
            if (left >= 8) { /* for who creates many: their first words share one set of the cache, so that each touch misses */
                __builtin_prefetch(mmsb_record_of(magazine->handles[left - 8]), 1);
                __builtin_prefetch(mmsb_record_bytes(mmsb_record_of(magazine->handles[left - 4])), 1);
            }
            MMSB_UNPOISON(mmsb_record_bytes(record), mmsb_class_size(class_number));
            mmsb_page_begin(record, handle, size, class_number);
            mmsb_counter_add(&cache->creates, 1);
            mmsb_counter_add(&cache->bytes_created, size);
            mmsb_cache_end(cache);
            *page = handle;
            if (address)
                *address = mmsb_record_expose(record);
            return 1;
        }
    }
    mmsb_cache_end(cache);
    return 0;
}

/* The handle of the next page that the record of a page will have; where there is none, its kind is another. */
static inline uint64_t mmsb_page_next(uint64_t page) {
    return page + (UINT64_C(1) << MMSB_INDEX_BITS);
}

static inline int mmsb_page_is_last(uint64_t page) {
    return (mmsb_page_next(page) & UINT64_C(2) << 60) != 0; /* MMSB_KIND_PAGE is 1 */
}

/* The state that follows on that of a live page which has nothing but a size class: free, for the next generation. */
static inline uint64_t mmsb_state_after(uint64_t state) {
    return state + (UINT64_C(1) << MMSB_INDEX_BITS) - ((uint64_t)MMSB_KIND_PAGE << 60 | MMSB_LIVE);
}

/* 1 where a locked page has neither metadata or an id of its own, nor a change mask. */
static inline int mmsb_record_bare(const mmsb_record_t *record) {
    return (record->cold | record->mask_block) == 0;
}

/* The record of a page that ends, locked by the caller, is free from now on. The cache is begun and has room. */
static inline void mmsb_page_end(mmsb_cache_t *cache, mmsb_magazine_t *magazine, mmsb_record_t *record, uint64_t page,
                                 uint64_t free_state) {
    MMSB_POISON(mmsb_record_bytes(record), mmsb_class_size(MMSB_STATE_CLASS(free_state)));
    mmsb_counter_add(&cache->bytes_freed, record->size);
    mmsb_counter_add(&cache->frees, 1);
    __atomic_store_n(&record->state, free_state, __ATOMIC_RELEASE);
    magazine->handles[magazine->count++] = mmsb_page_next(page);
}

/* Ends a small page that has nothing beside its bytes: 1, or 0 with nothing done. */
static inline int mmsb_page_destroy_fast(uint64_t page) {
    mmsb_cache_t *cache = mmsb_current;
    mmsb_record_t *record = mmsb_record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    const uint64_t beside = mmsb_state_beside(state, page) - MMSB_LIVE; /* of the pages meant here nothing but the class */
    if (MMSB_UNLIKELY(!cache || beside >= MMSB_SMALL_CLASSES || mmsb_page_is_last(page)))
        return 0;
    const uint32_t class_number = (uint32_t)beside;
    mmsb_cache_mark(cache);
    mmsb_magazine_t *magazine = cache->loaded[class_number];
    if (MMSB_LIKELY(
            __atomic_load_n(&mmsb_detours, __ATOMIC_RELAXED) == 0 &&
            mmsb_record_context(MMSB_HANDLE_INDEX(page)) == __atomic_load_n(&cache->open_index, __ATOMIC_RELAXED) && magazine &&
            magazine->count < MMSB_MAGAZINE_ROUNDS &&
            __atomic_compare_exchange_n(&record->state, &state, state | cache->thread, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
        if (MMSB_LIKELY(!mmsb_record_pinned(record) && mmsb_record_bare(record))) {
            mmsb_page_end(cache, magazine, record, page, mmsb_state_after(state));
            mmsb_cache_end(cache);
            return 1;
        }
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    }
    mmsb_cache_end(cache);
    return 0;
}

/* Frees a small record whose page Go has taken apart: locked, without cold record and mask. For Go. */
void mmsb_record_finish(uint32_t index, uint64_t state);

/* ------------------------------------------------------------------------------------------------------ blocks ---- */

/* Memory for the library's own use: a record whose bytes are no page's, all zero, size = capacity. */
mmsb_status_t mmsb_block_take(uint32_t context_index, uint64_t size, uint32_t *index);
/* Many small ones, or none. Those that are not zeroed may have bytes of the context's ended pages. */
mmsb_status_t mmsb_blocks_take(uint32_t context_index, uint64_t size, int zeroed, uint32_t *indices, uint32_t count);
void mmsb_block_give(uint32_t context_index, uint32_t index);
/* Makes sure that the page, which is locked, has a change mask. */
mmsb_status_t mmsb_mask_add(mmsb_record_t *record);
static inline mmsb_status_t mmsb_mask_make(mmsb_record_t *record) {
    return MMSB_LIKELY(record->mask_block != 0) ? MMSB_OK : mmsb_mask_add(record);
}
void mmsb_mask_drop(mmsb_record_t *record);
/* Memory of all change masks. */
extern uint64_t mmsb_mask_bytes;
static inline uint64_t mmsb_mask_length(uint64_t size) {
    return (size >> 3) + ((size & 7) != 0);
}

/* ---------------------------------------------------------------------------------------------------- looking ---- */

/* What of the record is looked at without a lock. */
typedef enum mmsb_field { MMSB_FIELD_SIZE, MMSB_FIELD_EPOCH, MMSB_FIELD_VERSION } mmsb_field_t;

static inline uint64_t mmsb_field_load(const mmsb_record_t *record, mmsb_field_t field) {
    const uint64_t *at = field == MMSB_FIELD_SIZE ? &record->size : field == MMSB_FIELD_EPOCH ? &record->epoch : &record->version;
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

uint64_t mmsb_page_look_slow(uint64_t page, mmsb_field_t field);
void *mmsb_page_address_slow(uint64_t page);

/* One read between two looks at the state, so that the value is this page's. */
static inline uint64_t mmsb_page_look(uint64_t page, mmsb_field_t field) {
    if (MMSB_LIKELY(mmsb_gate == MMSB_OK)) {
        const mmsb_record_t *record = mmsb_record_of(page);
        const uint64_t state = mmsb_state_load(record);
        if (MMSB_LIKELY(mmsb_state_is(state, page))) {
            uint64_t value = mmsb_field_load(record, field);
            if (MMSB_LIKELY(mmsb_state_load(record) == state))
                return value;
        }
    }
    return mmsb_page_look_slow(page, field);
}

static inline void *mmsb_page_address_of(uint64_t page) {
    if (MMSB_LIKELY(mmsb_gate == MMSB_OK)) {
        mmsb_record_t *record = mmsb_record_of(page);
        const uint64_t state = mmsb_state_load(record);
        if (MMSB_LIKELY(mmsb_state_is_here(state, page))) {
            /* Marked without a lock: where the record has a new page by now, one mark too many is harmless. */
            void *address = mmsb_record_expose(record);
            if (MMSB_LIKELY(mmsb_state_load(record) == state))
                return address;
        }
    }
    return mmsb_page_address_slow(page);
}

mmsb_status_t mmsb_page_info_fill(uint64_t page, mmsb_page_info_t *info);
mmsb_status_t mmsb_page_info_batch(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index);

/* ---------------------------------------------------------------------------------------------- bytes of pages ---- */

/* Pins a page that has an address, may be written and is locked by nobody, in no call to another function: 1, or 0 with nothing done. */
static inline int mmsb_page_pin_fast(uint64_t page, int32_t mode, void **address) {
    mmsb_record_t *record = mmsb_record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    if (MMSB_UNLIKELY(!mmsb_self || !mmsb_state_is_open(state, page) || (state & MMSB_READ_ONLY) ||
                      !__atomic_compare_exchange_n(&record->state, &state, state | mmsb_self->owner, 0, __ATOMIC_ACQUIRE,
                                                   __ATOMIC_RELAXED)))
        return 0;
    uint16_t *pins = mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
    const int room = *pins != UINT16_MAX;
    if (MMSB_LIKELY(room)) {
        __atomic_store_n(pins, (uint16_t)(*pins + 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb_record_expose(record);
        if (address)
            *address = mmsb_record_bytes(record);
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return room;
}

/* The end of a pin, likewise. */
static inline int mmsb_page_unpin_fast(uint64_t page, int32_t mode) {
    mmsb_record_t *record = mmsb_record_of(page);
    uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    if (MMSB_UNLIKELY(!mmsb_self || !mmsb_state_is_open(state, page) ||
                      !__atomic_compare_exchange_n(&record->state, &state, state | mmsb_self->owner, 0, __ATOMIC_ACQUIRE,
                                                   __ATOMIC_RELAXED)))
        return 0;
    uint16_t *pins = mode == MMSB_PIN_WRITE ? &record->write_pins : &record->read_pins;
    const int pinned = *pins != 0;
    if (MMSB_LIKELY(pinned)) {
        __atomic_store_n(pins, (uint16_t)(*pins - 1), __ATOMIC_RELAXED);
        if (mode == MMSB_PIN_WRITE)
            mmsb_version_move(record);
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return pinned;
}

mmsb_status_t mmsb_page_pin_bytes(uint64_t page, int32_t mode, void **address);
mmsb_status_t mmsb_page_unpin_bytes(uint64_t page, int32_t mode);
mmsb_status_t mmsb_page_read_bytes(uint64_t page, uint64_t offset, void *buffer, uint64_t length);
mmsb_status_t mmsb_page_write_bytes(uint64_t page, uint64_t offset, const void *buffer, uint64_t length);
mmsb_status_t mmsb_page_read_batch(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
mmsb_status_t mmsb_page_write_batch(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
/* Within the page's memory; else MMSB_ENTER_GO. */
mmsb_status_t mmsb_page_resize_in_place(uint64_t page, uint64_t size);

mmsb_status_t mmsb_page_mask_copy(uint64_t page, uint64_t offset, void *bits, uint64_t length);
mmsb_status_t mmsb_page_mask_reset(uint64_t page);
mmsb_status_t mmsb_page_mask_bits(uint64_t page, uint64_t *count);

/* ------------------------------------------------------------------------------------------------ walks, for Go ---- */

/* A block that becomes a page with these low state bits, size class aside. */
typedef struct mmsb_staged {
    uint64_t id, size, epoch, version, low;
    uint32_t index;
    uint32_t crc, generation; /* for Go */
    uint32_t reserved;
} mmsb_staged_t;
/* Turns blocks of a context into live pages and counts them. */
void mmsb_pages_publish(uint32_t context_index, const mmsb_staged_t *pages, size_t count);

/* Turns one block into a live page. */
void mmsb_page_publish(uint32_t index, uint64_t size, uint64_t low, uint64_t epoch, uint64_t version);

/* All pages of a frozen context are replaced, chunk by chunk. The first of these locks the pages that live on count records for
 * the library. It returns count, or which one is pinned: those behind it are not locked. */
uint32_t mmsb_records_lock(uint32_t first, uint32_t count);
/* Unlocks as many. */
void mmsb_records_unlock(uint32_t first, uint32_t count);

/* What is left when pages have ended. */
typedef struct mmsb_finished {
    uint32_t colds_count, left_count;
    uint32_t colds[MMSB_CHUNK_RECORDS]; /* their cold records, which are free */
    uint32_t left[MMSB_CHUNK_RECORDS];  /* records of pages that Go takes apart: with other than small memory, or with metadata */
} mmsb_finished_t;
/* Ends them, except for those that are left. */
void mmsb_records_finish(uint32_t first, uint32_t count, mmsb_finished_t *finished);

/* Makes a block the change mask of a locked page that has none. */
void mmsb_mask_use(mmsb_record_t *record, uint32_t block);
/* After a locked page got other memory: only its bytes may be touched (AddressSanitizer builds). */
void mmsb_page_fence(uint32_t index, uint64_t state, uint64_t size);
/* Before memory goes back to the system: whoever gets it next may touch all of it (AddressSanitizer builds). */
void mmsb_memory_unfence(void *memory, uint64_t length);
/* Counts what Go does with pages by itself. */
void mmsb_context_add(uint32_t context_index, uint64_t creates, uint64_t frees, uint64_t bytes_created, uint64_t bytes_freed);
/* The page that has an automatic id; 0 = none. */
mmsb_page_t mmsb_page_find(const mmsb_context_record_t *context, uint64_t id);
/* Handles of live pages among count records from first on, at most capacity; returns how many records were looked at. */
uint32_t mmsb_records_list(uint32_t first, uint32_t count, mmsb_page_t *pages, uint32_t capacity, uint32_t *found);

typedef struct mmsb_survey {
    uint64_t pages[8]; /* by location */
    uint64_t bytes[8];
    uint64_t pinned;
} mmsb_survey_t;
/* Adds the live pages among count records from first on. */
void mmsb_records_survey(uint32_t first, uint32_t count, mmsb_survey_t *survey);

/* The end of a context, after its caches have been detached: ends every page among count records from first on, waiting for calls on
 * them. Pages that Go must take apart come as indices in *apart (locked for the library), pinned ones stay in the state ENDED and are
 * reported the same way; *looked is where the next call goes on. Returns the number of indices, at most capacity. */
uint32_t mmsb_records_end(uint32_t first, uint32_t count, uint32_t *indices, uint32_t capacity, uint32_t *looked);

/* Swaps the memory of two locked records, or of a record and a block. */
void mmsb_memory_swap(uint32_t a, uint64_t *a_state, uint32_t b, uint64_t *b_state);

/* -------------------------------------------------------------------------------------------------- many pages ---- */

/* Pages of a batch: handles that stand stride bytes apart. */
typedef struct mmsb_batch {
    const uint8_t *first;
    size_t stride;
    size_t count;
    uint32_t bytes_stay; /* 1: pages that are away are not given an address */
    uint32_t distinct;   /* 1: handles 0 are skipped, and a page's second place is MMSB_E_STALE_HANDLE */
    uint32_t on_devices; /* 1: those on devices stay there, the others are given one */
    uint32_t diverts;    /* 1: where nobody watches, a page on a device ends the locking: MMSB_ENTER_GO */
    uint32_t keeps;      /* 1: after a bad item the caller unlocks the batch */
    /* Filled by mmsb_batch_lock: */
    uint32_t owner;
    uint32_t repeats; /* 1 where a page appears more than once; of a bad batch, among the items up to the bad one */
    size_t bad;       /* the bad item */
} mmsb_batch_t;

static inline uint64_t mmsb_handle_at(const uint8_t *first, size_t stride, size_t i) {
    return *(const uint64_t *)(const void *)(first + i * stride);
}

/* Checks item i of a batch (NULL: nothing to check), whose page is locked and has an address. state is what the record's state is to be
 * when item i is done: still locked where a later item has the page, too. May make things that do not show, like an empty change mask. */
typedef mmsb_status_t (*mmsb_batch_check_t)(void *work, size_t i, mmsb_record_t *record, uint64_t state);

/* How long a batch has tried. */
typedef struct mmsb_patience {
    uint32_t round;
    int patient;
} mmsb_patience_t;

/* Unlocks those of a batch's pages that this thread has locked. */
void mmsb_batch_unlock(const mmsb_batch_t *batch);
/* Item i is about to change its page, which is locked: capture.h. */
typedef int (*mmsb_batch_touch_t)(const void *work, size_t i, mmsb_record_t *record, uint64_t state);
/* Before the first change of a batch that is locked; touch NULL: the pages change as a whole. 1: the batch is unlocked, and begins anew. */
int mmsb_batch_touch(const mmsb_batch_t *batch, mmsb_batch_touch_t touch, const void *work);
/* The journal of a locked batch, NULL where there is none. Errors: MMSB_E_UNSUPPORTED (the batch's pages are of several contexts, and one of
 * them has a journal). */
mmsb_status_t mmsb_batch_ring(const mmsb_batch_t *batch, mmsb_ring_t **ring);
/* The end of a call whose pages are unlocked: waits for the journal where a call does, and puts both results together. */
static inline mmsb_status_t mmsb_journal_settle(mmsb_ring_t *ring, uint64_t sequence, mmsb_status_t status) {
    if (MMSB_LIKELY(sequence == 0))
        return status;
    mmsb_status_t waited = mmsb_ring_wait(ring, sequence);
    return status != MMSB_OK ? status : waited;
}
/* Locks a page of a batch that is not simply free: MMSB_E_WOULD_BLOCK where another thread has it and the batch is not patient. *state is
 * as it was: locked where this thread had locked the page before. */
mmsb_status_t mmsb_batch_meet(const mmsb_batch_t *batch, uint64_t page, int patient, uint64_t *state);
/* Locks and checks the items of an unlocked batch from the first on, up to one that is bad: batch->bad. */
mmsb_status_t mmsb_batch_find_bad(mmsb_batch_t *batch, mmsb_batch_check_t check, void *work, int patient);
/* Waits before the next try; after some tries the batch becomes patient, which only one of the process may be. */
int mmsb_batch_again(mmsb_patience_t *patience);
void mmsb_batch_settled(mmsb_patience_t *patience);

/* Locks all pages of a batch and checks all items: MMSB_OK with all locked, or the code of the first bad item, its index in
 * *bad_index, and none locked. Two batches never wait for each other: who meets a lock while it holds others lets go of all and
 * tries again; after some tries it waits with its locks held, which only one batch of the process may do at a time. Inline, so that each
 * kind of batch has its check within the loop.
 *
 * From the last item to the first: the item that finds its page unlocked is then the last one that has it, and the caller, who goes from the
 * first to the last, can unlock each page with its last change. Only where an item is bad are they looked at from the first on. */
static inline __attribute__((always_inline)) mmsb_status_t mmsb_batch_lock(mmsb_batch_t *batch, mmsb_batch_check_t check,
                                                                           void *work, size_t *bad_index) {
    /* Copies that no other function can change. */
    const uint8_t *const first = batch->first;
    const size_t stride = batch->stride, count = batch->count;
    const uint32_t distinct = batch->distinct;
    mmsb_thread_t *self = mmsb_thread_enter();
    if (!self)
        return mmsb_thread_fail();
    const uint64_t owner = batch->owner = self->owner;
    mmsb_patience_t patience = {0, 0};
    mmsb_status_t status;
    for (;;) {
        uint64_t repeats = 0;
        status = MMSB_OK;
        for (size_t i = count; i-- > 0;) {
            if (MMSB_LIKELY(i >= 12))
                __builtin_prefetch(mmsb_record_of(mmsb_handle_at(first, stride, i - 12)), 1);
            uint64_t page = mmsb_handle_at(first, stride, i);
            if (MMSB_UNLIKELY(distinct && page == 0))
                continue;
            mmsb_record_t *record = mmsb_record_of(page);
            uint64_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED), seen = state;
            /* A page that repeats is locked once more, which changes nothing: the processor would often foresee a branch wrongly. */
            const uint64_t had = distinct ? 0 : owner & -(uint64_t)((state & MMSB_OWNER_MASK) == owner);
            if (MMSB_UNLIKELY(
                    !mmsb_state_is_open(state ^ had, page) ||
                    !__atomic_compare_exchange_n(&record->state, &seen, state | owner, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
                uint64_t met;
                status = mmsb_batch_meet(batch, page, patience.patient, &met);
                if (MMSB_UNLIKELY(status != MMSB_OK))
                    break;
                state = met;
            }
            repeats |= state;
            if (check && MMSB_UNLIKELY((status = check(work, i, record, state)) != MMSB_OK))
                break;
        }
        batch->repeats = (repeats & MMSB_OWNER_MASK) != 0;
        if (MMSB_LIKELY(status == MMSB_OK))
            break;
        mmsb_batch_unlock(batch);
        if (status != MMSB_E_WOULD_BLOCK)
            status = mmsb_batch_find_bad(batch, check, work, patience.patient);
        if (status != MMSB_OK && status != MMSB_E_WOULD_BLOCK) {
            if (!batch->keeps)
                mmsb_batch_unlock(batch);
            if (bad_index)
                *bad_index = batch->bad;
            break;
        }
        mmsb_batch_unlock(batch);
        if (status == MMSB_E_WOULD_BLOCK)
            mmsb_batch_again(&patience);
    }
    mmsb_batch_settled(&patience);
    return status;
}

/* Two different pages, for Go; on one thread. */
mmsb_status_t mmsb_pair_lock(const mmsb_page_t pages[2], size_t *bad_index);
void mmsb_pair_unlock(const mmsb_page_t pages[2]);

#pragma GCC visibility pop
#endif
