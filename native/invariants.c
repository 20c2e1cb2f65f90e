/* Walks over a whole context: invariants.h. */
#include "invariants.h"

#include "thread.h"

#if defined(MMSB_INVARIANTS)

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct walk {
    uint32_t context;
    uint8_t *seen; /* a bit for each record: a magazine has its handle */
    int wrong;
    uint64_t pages, bytes;
} walk_t;

static _Thread_local char found[256];

static void __attribute__((format(printf, 2, 3))) note(walk_t *walk, const char *format, ...) {
    if (walk->wrong)
        return;
    walk->wrong = 1;
    va_list list;
    va_start(list, format);
    vsnprintf(found, sizeof found, format, list);
    va_end(list);
}

static void check_handle(walk_t *walk, uint64_t handle, uint32_t class_number) {
    const unsigned long long shown = handle;
    const uint32_t index = MMSB__HANDLE_INDEX(handle);
    const mmsb__record_t *record = mmsb__record_at(index);
    const uint64_t state = mmsb__state_load(record);
    if (MMSB__HANDLE_KIND(handle) != MMSB_KIND_PAGE || MMSB__HANDLE_GENERATION(handle) == 0)
        note(walk, "a magazine has 0x%016llx, which is no page's handle", shown);
    else if (mmsb__record_context(index) != walk->context)
        note(walk, "a magazine has 0x%016llx of context %u", shown, mmsb__record_context(index));
    else if (walk->seen[index / 8] >> index % 8 & 1)
        note(walk, "magazines have 0x%016llx twice", shown);
    else if (state >> MMSB__INDEX_BITS != MMSB__HANDLE_GENERATION(handle) || (state & MMSB__OWNER_MASK) != 0)
        note(walk, "a magazine has 0x%016llx, but its record has the state 0x%016llx", shown, (unsigned long long)state);
    else if (MMSB__STATE_CLASS(state) != class_number)
        note(walk, "a magazine of size class %u has 0x%016llx of size class %u", class_number, shown, MMSB__STATE_CLASS(state));
    else if (record->side != 0 || record->mask_frame != 0 || mmsb__record_pinned(record))
        note(walk, "free record %u has a side record, a change mask or pins", index);
    walk->seen[index / 8] |= (uint8_t)(1u << index % 8);
}

static void check_magazine(void *argument, const mmsb__magazine_t *magazine, uint32_t class_number) {
    walk_t *walk = argument;
    if (magazine->count > MMSB__MAGAZINE_ROUNDS) {
        note(walk, "a magazine of size class %u has %u handles", class_number, magazine->count);
        return;
    }
    for (uint32_t i = 0; i < magazine->count; i++)
        check_handle(walk, magazine->handles[i], class_number);
}

static void check_record(walk_t *walk, uint32_t index) {
    const mmsb__record_t *record = mmsb__record_at(index);
    const uint64_t state = mmsb__state_load(record);
    if (MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE)
        return;
    walk->pages++;
    walk->bytes += record->size;
    if ((state & MMSB__OWNER_MASK) != 0)
        note(walk, "page on record %u is locked: state 0x%016llx", index, (unsigned long long)state);
    if (record->mask_frame == 0)
        return;
    const uint64_t frame = mmsb__state_load(mmsb__record_at(record->mask_frame));
    if (MMSB__HANDLE_KIND(frame) != MMSB__STATE_FRAME || mmsb__record_context(record->mask_frame) != walk->context)
        note(walk, "the change mask of record %u is record %u, which is no frame of the context: state 0x%016llx", index,
             record->mask_frame, (unsigned long long)frame);
}

const char *mmsb__table_check(uint32_t context_index) {
    walk_t walk = {.context = context_index, .seen = calloc((size_t)1 << (MMSB__INDEX_BITS - 3), 1)};
    uint64_t creates, frees, bytes_created, bytes_freed;
    if (!walk.seen)
        return "no memory for the walk";
    mmsb__magazines_visit(mmsb__context_record(context_index), check_magazine, &walk);
    for (uint32_t leaf = 0; leaf < MMSB__LEAVES; leaf++) {
        for (uint32_t i = 0; mmsb__record_context(leaf << MMSB__LEAF_BITS) == context_index && i < MMSB__LEAF_RECORDS; i++)
            check_record(&walk, leaf << MMSB__LEAF_BITS | i);
    }
    mmsb__context_count(mmsb__context_record(context_index), &creates, &frees, &bytes_created, &bytes_freed);
    if (creates - frees != walk.pages || bytes_created - bytes_freed != walk.bytes)
        note(&walk, "%llu pages of %llu bytes are counted, %llu of %llu bytes live", (unsigned long long)(creates - frees),
             (unsigned long long)(bytes_created - bytes_freed), (unsigned long long)walk.pages, (unsigned long long)walk.bytes);
    free(walk.seen);
    return walk.wrong ? found : NULL;
}

#endif
