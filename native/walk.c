/* Walks over records: walk.h. */
#include "walk.h"

#include "life.h"
#include "mask.h"

uint32_t mmsb__records_lock(uint32_t first, uint32_t count, uint64_t *highest) {
    for (uint32_t i = 0; i < count; i++) {
        const mmsb__record_t *record = mmsb__record_at(first + i);
        uint64_t state;
        if (!mmsb__record_lock_page(first + i, &state))
            continue;
        if (mmsb__record_pinned(record))
            return i;
        if (record->version > *highest)
            *highest = record->version;
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
        /* A thread that holds locks does not wait: the caller first deals with what was reported. */
        if (reported > 0 &&
            ((state & MMSB__OWNER_MASK) || !__atomic_compare_exchange_n(&record->state, &state, state | MMSB__OWNER_LIBRARY, 0,
                                                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
            break;
        if (reported == 0)
            state = mmsb__record_lock_library(first + i);
        if (MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE) { /* destroyed meanwhile */
            mmsb__page_unlock_record(record, state);
            continue;
        }
        class_number = MMSB__STATE_CLASS(state);
        mmsb__mask_take(record); /* its memory goes with the context */
        uint32_t generation = MMSB__HANDLE_GENERATION(state);
        if (mmsb__record_pinned(record)) {
            state = MMSB__STATE(MMSB__STATE_ENDED, generation, state & MMSB__INDEX_MASK);
            indices[reported++] = first + i;
            mmsb__record_become(record, state | MMSB__OWNER_LIBRARY);
        } else if (class_number >= MMSB__SMALL_CLASSES || record->side != 0 || generation == MMSB__GENERATION_MAX) {
            indices[reported++] = first + i;
        } else {
            MMSB__POISON(mmsb__record_bytes(record), mmsb__class_size(class_number));
            mmsb__record_become(record,
                                MMSB__STATE(MMSB__STATE_FREE, generation + 1, (uint64_t)class_number << MMSB__CLASS_SHIFT));
        }
    }
    *looked = i;
    return reported;
}
