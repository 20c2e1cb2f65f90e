/* Frames of small memory come from the thread's caches, like pages; Go supplies larger ones: frame.h. */
#include "frame.h"

/* Turns a free record of this thread into a frame. */
static void begin_frame(uint64_t handle, uint32_t class_number, int zeroed) {
    mmsb__record_t *record = mmsb__record_of(handle);
    mmsb__record_assert_free(record, handle);
    MMSB__UNPOISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
    if (zeroed)
        mmsb__record_clean(record, class_number, NULL);
    mmsb__dirty_all(record);
    __atomic_store_n(&record->size, mmsb__class_size(class_number), __ATOMIC_RELAXED);
    mmsb__record_become(
        record, MMSB__STATE(MMSB__STATE_FRAME, MMSB__HANDLE_GENERATION(handle), (uint64_t)class_number << MMSB__CLASS_SHIFT));
}

mmsb_status_t mmsb__frames_take(uint32_t context_index, uint64_t size, int zeroed, uint32_t *indices, uint32_t count) {
    mmsb__cache_t *cache = mmsb__cache_for(context_index);
    if (!cache)
        return mmsb__error()->error_code;
    uint32_t class_number = mmsb__class_of(size), taken = 0;
    while (taken < count) {
        uint64_t handle;
        mmsb_status_t status = mmsb__cache_pop(cache, class_number, &handle);
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
    MMSB__ASSERT(MMSB__HANDLE_KIND(state) == MMSB__STATE_FRAME, index, state);
    if (class_number >= MMSB__SMALL_CLASSES) {
        mmsb__upcalls.give_frame(context_index, index);
        return;
    }
    mmsb__cache_t *cache = mmsb__cache_for(context_index);
    if (!cache || mmsb__cache_make_space(cache, class_number) != MMSB_OK)
        return; /* the context is ending and takes the record itself */
    MMSB__POISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
    uint64_t handle = MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), index);
    mmsb__record_become(
        record, MMSB__STATE(MMSB__STATE_FREE, MMSB__HANDLE_GENERATION(state), (uint64_t)class_number << MMSB__CLASS_SHIFT));
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    magazine->handles[magazine->count++] = handle;
    mmsb__cache_end(cache);
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
    if (x->exposed || y->exposed)
        mmsb__context_stray(mmsb__record_context(a));
}

void mmsb__context_stray(uint32_t context_index) {
    __atomic_add_fetch(&mmsb__context_record(context_index)->strayed, 1, __ATOMIC_RELEASE);
}

void mmsb__page_redzone(uint32_t index, uint64_t state, uint64_t size) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint32_t class_number = MMSB__STATE_CLASS(state);
    uint64_t whole = class_number == MMSB__CLASS_EXTENT ? (size + 4095) & ~UINT64_C(4095) : 0; /* in whole system pages */
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
