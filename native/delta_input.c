/* What deltas read while they change pages: delta_input.h. */
#include "delta_input.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

/* A part of what a delta names, and where the field is that does. */
typedef struct part {
    const void *memory;
    uint64_t length;
    size_t field;
} part_t;

enum { PARTS = 4 };

static uint64_t payload_length(const mmsb_delta_t *delta) {
    uint64_t sum = 0;
    switch (delta->kind) {
    case MMSB_DELTA_RUNS:
        for (uint64_t i = 0; i < delta->count; i++)
            sum += delta->runs[i].length;
        return sum;
    case MMSB_DELTA_INDEXED:
        return delta->count;
    case MMSB_DELTA_SPARSE_BITS:
        return mmsb__bytes.count_bits(delta->mask, delta->mask_length);
    default:
        return delta->mask_length;
    }
}

/* The parts of a valid delta, of which some have no bytes; tables, which are aligned, first. */
static inline void parts_of(const mmsb_delta_t *delta, part_t parts[PARTS]) {
    part_t table = {delta->mask, delta->mask_length, offsetof(mmsb_delta_t, mask)};
    if (delta->kind == MMSB_DELTA_RUNS)
        table = (part_t){delta->runs, delta->count * sizeof(mmsb_run_t), offsetof(mmsb_delta_t, runs)};
    else if (delta->kind == MMSB_DELTA_INDEXED && delta->offsets)
        table = (part_t){delta->offsets, delta->count * sizeof(uint64_t), offsetof(mmsb_delta_t, offsets)};
    else if (delta->kind == MMSB_DELTA_INDEXED)
        table = (part_t){delta->offsets32, delta->count * sizeof(uint32_t), offsetof(mmsb_delta_t, offsets32)};
    else if (delta->kind != MMSB_DELTA_DENSE_BYTES)
        table.length = delta->mask_length / 8 + (delta->mask_length % 8 != 0);
    parts[0] = table;
    parts[1] = (part_t){delta->payload, payload_length(delta), offsetof(mmsb_delta_t, payload)};
    parts[2] = (part_t){delta->source, delta->source ? strlen(delta->source) + 1 : 0, offsetof(mmsb_delta_t, source)};
    parts[3] = (part_t){delta->intent, delta->intent ? strlen(delta->intent) + 1 : 0, offsetof(mmsb_delta_t, intent)};
}

int mmsb__page_has_delta(const uint8_t *page, uint64_t size, const mmsb_delta_t *delta) {
    part_t parts[PARTS];
    parts_of(delta, parts);
    int has = mmsb__meets(page, size, delta, sizeof *delta);
    for (int i = 0; i < PARTS; i++)
        has |= mmsb__meets(page, size, parts[i].memory, parts[i].length);
    return has;
}

void mmsb__blocks_add_long(mmsb__blocks_t *blocks, uint64_t first, uint64_t last) {
    if (last - first >= MMSB__BLOCKS)
        memset(blocks, 0xff, sizeof *blocks);
    else
        for (; first <= last; first++)
            blocks->bits[first % MMSB__BLOCKS / 64] |= UINT64_C(1) << first % 64;
}

int mmsb__blocks_have(const mmsb__blocks_t *blocks, const void *memory, uint64_t length) {
    uint64_t first = (uintptr_t)memory >> MMSB__BLOCK_SHIFT, last = ((uintptr_t)memory + length) >> MMSB__BLOCK_SHIFT;
    int has = 0;
    if (last - first >= MMSB__BLOCKS)
        last = first + MMSB__BLOCKS - 1;
    for (; length > 0 && first <= last; first++)
        has |= blocks->bits[first % MMSB__BLOCKS / 64] >> first % 64 & 1;
    return has;
}

void mmsb__blocks_add_delta(mmsb__blocks_t *blocks, const mmsb_delta_t *delta) {
    part_t parts[PARTS];
    parts_of(delta, parts);
    for (int i = 0; i < PARTS; i++)
        if (parts[i].length > 0)
            mmsb__blocks_add(blocks, parts[i].memory, parts[i].length);
}

static uint64_t rounded(uint64_t length) {
    return (length + 7) & ~(uint64_t)7;
}

static void *memory_for(uint64_t length, size_t count) {
    void *memory = malloc(length);
    if (!memory)
        mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a copy of %zu items, %llu bytes, that lie in pages that they change",
                   count, (unsigned long long)length);
    return memory;
}

mmsb_delta_t *mmsb__deltas_copy(const mmsb_delta_t *deltas, size_t count) {
    uint64_t needed = count * sizeof *deltas;
    part_t parts[PARTS];
    for (size_t i = 0; i < count; i++) {
        parts_of(&deltas[i], parts);
        for (int part = 0; part < PARTS; part++)
            if (__builtin_add_overflow(needed, rounded(parts[part].length), &needed))
                needed = UINT64_MAX; /* the same bytes many times: more than there can be */
    }
    mmsb_delta_t *copies = memory_for(needed, count);
    if (!copies)
        return NULL;
    uint8_t *at = (uint8_t *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        copies[i] = deltas[i];
        parts_of(&copies[i], parts);
        for (int part = 0; part < PARTS; part++) {
            if (parts[part].length == 0)
                continue;
            memcpy(at, parts[part].memory, parts[part].length);
            memcpy((uint8_t *)&copies[i] + parts[part].field, &at, sizeof at);
            at += rounded(parts[part].length);
        }
    }
    return copies;
}

void *mmsb__array_copy(const void *array, size_t count, size_t each) {
    void *copy = memory_for((uint64_t)count * each, count);
    if (copy)
        memcpy(copy, array, count * each);
    return copy;
}
