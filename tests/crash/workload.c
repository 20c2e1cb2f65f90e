/* The workload of the crash tests, in the library and in a model. */
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *bytes_of(model_t *model, uint32_t slot) {
    return slot == 0 ? model->large : model->small[slot];
}

static uint8_t *mask_of(model_t *model, uint32_t slot) {
    return slot == 0 ? model->large_mask : model->small_mask[slot];
}

static uint64_t largest(uint32_t slot) {
    return slot == 0 ? LARGE : SMALL;
}

static void fill(uint8_t *bytes, uint64_t length, uint64_t seed) {
    for (uint64_t at = 0; at < length; at += 8) {
        uint64_t word = random_next(&seed);
        memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
    }
}

static uint64_t shorter(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* -------------------------------------------------------------------------------------------------------- plans ---- */

/* Any slot with a page, or any without one; SLOTS = there is none. */
static uint32_t pick(const model_t *model, uint64_t *random, int with_page) {
    uint32_t first = (uint32_t)random_below(random, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t slot = (first + i) % SLOTS;
        if ((model->pages[slot].id != 0) == with_page) {
            return slot;
        }
    }
    return SLOTS;
}

/* Somewhere in a page: mostly short, at times across chunks of the large one. */
static void plan_stretch(const model_t *model, uint64_t *random, uint32_t slot, uint64_t longest, operation_t *o) {
    uint64_t size = model->pages[slot].size;
    uint64_t limit = random_below(random, 16) == 0 ? longest : shorter(longest, 2000);
    uint64_t length = 1 + random_below(random, shorter(size, limit));
    uint32_t i = o->count++;
    o->items[i].slot = slot;
    o->items[i].offset = random_below(random, size - length + 1);
    o->items[i].length = length;
}

static uint64_t a_size(uint64_t *random, uint32_t slot) {
    static const uint64_t sizes[] = {1, 63, 64, 255, 256, 1000, 4095, 4096, 4097, 8192, 12345, SMALL};
    if (slot == 0) {
        return LARGE - random_below(random, 2 << 20);
    }
    return sizes[random_below(random, sizeof sizes / sizeof sizes[0])];
}

static int has_edge(const model_t *model, uint32_t parent, uint32_t child) {
    for (uint32_t i = 0; i < model->edge_count; i++) {
        if (model->edges[i].parent == parent && model->edges[i].child == child) {
            return 1;
        }
    }
    return 0;
}

/* Whether the change is possible; where it is not, another one is made. */
static int plan(const model_t *model, uint64_t *random, operation_t *o) {
    uint32_t slot = pick(model, random, 1), free_slot = pick(model, random, 0);
    o->items[0].slot = slot;
    switch (o->kind) {
    case WRITE:
        plan_stretch(model, random, random_below(random, 4) == 0 ? 0 : slot, PAYLOAD, o);
        return 1;
    case DELTA: {
        o->form = (mmsb_delta_kind_t)(MMSB_DELTA_DENSE_BYTES + random_below(random, MMSB_DELTA_RUNS));
        if (o->form == MMSB_DELTA_RUNS) {
            slot = random_below(random, 4) == 0 ? 0 : slot;
        }
        uint64_t runs = o->form == MMSB_DELTA_RUNS ? 1 + random_below(random, 4) : 1;
        for (uint64_t i = 0; i < runs; i++) {
            plan_stretch(model, random, slot, PAYLOAD / 4, o);
        }
        return 1;
    }
    case WRITE_MANY:
    case DELTA_MANY:
    case RUNS: {
        uint64_t count = 2 + random_below(random, ITEMS - 1);
        for (uint64_t i = 0; i < count; i++) {
            plan_stretch(model, random, pick(model, random, 1), PAYLOAD / ITEMS, o);
        }
        return 1;
    }
    case RAW_WRITE:
        plan_stretch(model, random, slot, PAYLOAD, o);
        return model->pages[o->items[0].slot].location == MMSB_LOCATION_CPU;
    case CREATE:
        o->other = free_slot;
        o->size = a_size(random, free_slot);
        o->location = random_below(random, 8) == 0 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU;
        return free_slot < SLOTS;
    case CLONE:
        o->other = free_slot;
        return free_slot < SLOTS && slot != 0;
    case DESTROY:
        o->count = 1;
        return slot != 0;
    case DESTROY_MANY:
        o->items[1].slot = pick(model, random, 1);
        o->count = 2;
        return slot != 0 && o->items[1].slot != 0 && o->items[1].slot != slot && random_below(random, 3) == 0;
    case RESIZE:
        o->size = a_size(random, slot);
        return o->size != model->pages[slot].size;
    case MIGRATE:
        o->location = model->pages[slot].location == MMSB_LOCATION_CPU ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU;
        return slot != 0;
    case CLEAR_MASK:
        return 1;
    case SET_METADATA:
        o->key = (uint32_t)random_below(random, KEYS);
        o->size = random_below(random, VALUE + 1);
        return 1;
    case REMOVE_METADATA:
        if (model->pages[slot].entry_count == 0) {
            return 0;
        }
        o->key = model->pages[slot].entries[random_below(random, model->pages[slot].entry_count)].key;
        return 1;
    case IMPORT_METADATA:
        o->count = (uint32_t)random_below(random, KEYS + 1);
        o->size = random_below(random, VALUE + 1);
        return 1;
    case ADD_DEPENDENCY: {
        o->other = pick(model, random, 1);
        /* From lower slots to higher ones: no cycle. */
        return slot < o->other && model->edge_count < EDGES && !has_edge(model, slot, o->other);
    }
    case REMOVE_DEPENDENCY: {
        if (model->edge_count == 0) {
            return 0;
        }
        uint64_t edge = random_below(random, model->edge_count);
        o->items[0].slot = model->edges[edge].parent;
        o->other = model->edges[edge].child;
        return 1;
    }
    default:
        return 0;
    }
}

void plan_operation(const model_t *model, uint64_t seed, int raw_writes, operation_t *o) {
    uint64_t random = seed ^ (model->operation + 1) * 0xD1342543DE82EF95ULL;
    do {
        memset(o, 0, sizeof *o);
        o->number = model->operation + 1;
        o->payload = random_next(&random);
        o->kind = (kind_t)random_below(&random, raw_writes ? KINDS : RAW_WRITE);
    } while (!plan(model, &random, o));
}

/* ------------------------------------------------------------------------------------------------------- deltas ---- */

/* The arrays of a delta of any form over one stretch, each byte addressed where chosen[i] is 1. */
typedef struct stretch {
    uint8_t mask_bytes[SMALL];
    uint8_t mask_bits[SMALL / 8 + 1];
    uint8_t dense[SMALL];
    uint8_t sparse[SMALL];
    uint64_t offsets[SMALL];
    uint64_t count;
} stretch_t;

/* The forms with masks and offsets reach at most that far. */
static uint64_t reach(const operation_t *o) {
    return shorter(o->items[0].offset + o->items[0].length, SMALL);
}

static void stretch_of(const operation_t *o, stretch_t *s) {
    memset(s, 0, sizeof *s);
    uint64_t random = o->payload, end = reach(o);
    fill(s->dense, end, o->payload + 1);
    for (uint64_t i = end - shorter(end, o->items[0].length); i < end; i++) {
        if (random_below(&random, 3) != 0) {
            s->mask_bytes[i] = 1;
            s->mask_bits[i / 8] |= (uint8_t)(1U << i % 8);
            s->offsets[s->count] = i;
            s->sparse[s->count++] = s->dense[i];
        }
    }
}

/* The bytes of an operation's stretches, one after the other. */
static uint8_t *payload_of(const operation_t *o) {
    static uint8_t buffer[PAYLOAD + 8];
    uint64_t length = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        length += o->items[i].length;
    }
    fill(buffer, length, o->payload);
    return buffer;
}

/* -------------------------------------------------------------------------------------------------------- model ---- */

static void model_put(model_t *model, uint32_t slot, uint64_t offset, const uint8_t *bytes, uint64_t length, int marks) {
    memcpy(bytes_of(model, slot) + offset, bytes, length);
    for (uint64_t i = offset; marks && i < offset + length; i++) {
        mask_of(model, slot)[i / 8] |= (uint8_t)(1U << i % 8);
    }
}

/* Clearing no bit is no change. */
static uint64_t is_marked(const uint8_t *mask, uint64_t size) {
    return mask[0] != 0 || memcmp(mask, mask + 1, (size + 7) / 8 - 1) != 0;
}

static void model_drop_edges(model_t *model, uint32_t slot) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < model->edge_count; i++) {
        if (model->edges[i].parent != slot && model->edges[i].child != slot) {
            model->edges[kept++] = model->edges[i];
        }
    }
    model->edge_count = kept;
}

static void model_destroy(model_t *model, uint32_t slot) {
    memset(&model->pages[slot], 0, sizeof model->pages[slot]);
    memset(bytes_of(model, slot), 0, largest(slot));
    memset(mask_of(model, slot), 0, largest(slot) / 8);
    model_drop_edges(model, slot);
}

static void model_create(model_t *model, uint32_t slot, uint64_t id, uint64_t size, mmsb_location_t location) {
    model->pages[slot] = (model_page_t){.id = id, .size = size, .version = 1, .location = location};
}

static void model_set(model_page_t *page, uint32_t key, uint64_t length, uint64_t payload) {
    uint32_t i = 0;
    while (i < page->entry_count && page->entries[i].key != key) {
        i++;
    }
    if (i == page->entry_count) {
        page->entry_count++;
    }
    page->entries[i] = (entry_t){.key = key, .length = (uint32_t)length};
    fill(page->entries[i].value, length, payload + key);
}

static void model_delta(model_t *model, const operation_t *o, const uint8_t *payload) {
    uint32_t slot = o->items[0].slot;
    if (o->form == MMSB_DELTA_RUNS) {
        for (uint32_t i = 0; i < o->count; i++) {
            model_put(model, slot, o->items[i].offset, payload, o->items[i].length, 1);
            payload += o->items[i].length;
        }
    } else {
        stretch_t *s = malloc(sizeof *s);
        stretch_of(o, s);
        for (uint64_t i = 0; i < s->count; i++) {
            model_put(model, slot, s->offsets[i], &s->sparse[i], 1, 1);
        }
        free(s);
    }
    model->pages[slot].epoch++;
}

/* One page's version moves once for each of its changes. */
void model_apply(model_t *model, const operation_t *o) {
    const uint8_t *payload = payload_of(o);
    uint32_t slot = o->items[0].slot;
    model_page_t *page = &model->pages[slot];
    model->operation = o->number;
    switch (o->kind) {
    case WRITE:
    case WRITE_MANY:
    case DELTA_MANY:
    case RUNS:
    case RAW_WRITE:
        for (uint32_t i = 0; i < o->count; i++) {
            int is_delta = o->kind == DELTA_MANY || o->kind == RUNS;
            model_put(model, o->items[i].slot, o->items[i].offset, payload, o->items[i].length, is_delta);
            payload += o->items[i].length;
            model->pages[o->items[i].slot].version++;
            model->pages[o->items[i].slot].epoch += (uint64_t)is_delta;
        }
        break;
    case DELTA:
        model_delta(model, o, payload);
        page->version++;
        break;
    case CREATE:
        model_create(model, o->other, o->number, o->size, o->location);
        break;
    case CLONE:
        model->pages[o->other] = *page;
        model->pages[o->other].id = o->number;
        model->pages[o->other].version = 1;
        memcpy(model->small[o->other], model->small[slot], SMALL);
        memcpy(model->small_mask[o->other], model->small_mask[slot], SMALL / 8);
        break;
    case DESTROY:
    case DESTROY_MANY:
        for (uint32_t i = 0; i < o->count; i++) {
            model_destroy(model, o->items[i].slot);
        }
        break;
    case RESIZE:
        for (uint64_t i = o->size; i < page->size; i++) {
            bytes_of(model, slot)[i] = 0;
            mask_of(model, slot)[i / 8] &= (uint8_t)~(1U << i % 8);
        }
        page->size = o->size;
        page->version++;
        break;
    case MIGRATE:
        page->location = o->location;
        page->version++;
        break;
    case CLEAR_MASK:
        page->version += is_marked(mask_of(model, slot), page->size);
        memset(mask_of(model, slot), 0, largest(slot) / 8);
        break;
    case SET_METADATA:
        model_set(page, o->key, o->size, o->payload);
        page->version++;
        break;
    case REMOVE_METADATA:
        for (uint32_t i = 0; i < page->entry_count; i++) {
            if (page->entries[i].key == o->key) {
                page->entry_count--;
                memmove(&page->entries[i], &page->entries[i + 1], (page->entry_count - i) * sizeof page->entries[0]);
                memset(&page->entries[page->entry_count], 0, sizeof page->entries[0]);
            }
        }
        page->version++;
        break;
    case IMPORT_METADATA:
        page->entry_count = 0;
        for (uint32_t i = 0; i < o->count; i++) {
            model_set(page, i, o->size, o->payload);
        }
        page->version++;
        break;
    case ADD_DEPENDENCY:
        model->edges[model->edge_count].parent = slot;
        model->edges[model->edge_count++].child = o->other;
        break;
    case REMOVE_DEPENDENCY:
        for (uint32_t i = 0; i < model->edge_count; i++) {
            if (model->edges[i].parent == slot && model->edges[i].child == o->other) {
                model->edge_count--;
                memmove(&model->edges[i], &model->edges[i + 1], (model->edge_count - i) * sizeof model->edges[0]);
                break;
            }
        }
        break;
    case KINDS:
        break;
    }
}

/* ------------------------------------------------------------------------------------------------------ library ---- */

static mmsb_page_t handle_of(mmsb_context_t context, const model_t *model, uint32_t slot) {
    mmsb_page_t page = 0;
    (void)mmsb_page_lookup(context, model->pages[slot].id, &page); /* the call that gets the handle 0 fails */
    return page;
}

static mmsb_status_t create(mmsb_context_t context, uint64_t id, uint64_t size, mmsb_location_t location) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = id;
    options.location = location;
    mmsb_page_t page = 0;
    return mmsb_page_create(context, size, &options, &page);
}

static mmsb_status_t library_delta(mmsb_page_t page, const operation_t *o, const uint8_t *payload) {
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = o->form;
    delta.source = o->number % 2 == 0 ? "crash test" : NULL;
    if (o->form == MMSB_DELTA_RUNS) {
        mmsb_run_t runs[ITEMS];
        for (uint32_t i = 0; i < o->count; i++) {
            runs[i] = (mmsb_run_t){o->items[i].offset, o->items[i].length};
        }
        delta.runs = runs;
        delta.count = o->count;
        delta.payload = payload;
        return mmsb_page_apply(page, &delta);
    }
    stretch_t *s = malloc(sizeof *s);
    stretch_of(o, s);
    delta.mask_length = o->form == MMSB_DELTA_INDEXED ? 0 : reach(o);
    delta.mask = o->form == MMSB_DELTA_DENSE_BYTES ? s->mask_bytes : o->form == MMSB_DELTA_INDEXED ? NULL : s->mask_bits;
    delta.payload = o->form == MMSB_DELTA_DENSE_BYTES || o->form == MMSB_DELTA_DENSE_BITS ? s->dense : s->sparse;
    if (o->form == MMSB_DELTA_INDEXED) {
        delta.offsets = s->offsets;
        delta.count = s->count;
    }
    mmsb_status_t status = mmsb_page_apply(page, &delta);
    free(s);
    return status;
}

/* count u32, then per entry u32 key length, key, u32 value length, value. */
static size_t blob_of(const model_page_t *page, uint8_t *blob) {
    uint8_t *at = blob;
    memcpy(at, &page->entry_count, 4);
    at += 4;
    for (uint32_t i = 0; i < page->entry_count; i++) {
        const entry_t *entry = &page->entries[i];
        uint32_t key_length = 2;
        memcpy(at, &key_length, 4);
        at[4] = 'k';
        at[5] = (uint8_t)('0' + entry->key);
        memcpy(at + 6, &entry->length, 4);
        memcpy(at + 10, entry->value, entry->length);
        at += 10 + entry->length;
    }
    return (size_t)(at - blob);
}

enum { BLOB = 4 + KEYS * (10 + VALUE) };

static mmsb_status_t library_metadata(mmsb_page_t page, const operation_t *o) {
    char key[2] = {'k', (char)('0' + o->key)};
    if (o->kind == REMOVE_METADATA) {
        return mmsb_page_metadata_remove(page, key, 2);
    }
    model_page_t wanted = {0};
    if (o->kind == SET_METADATA) {
        model_set(&wanted, o->key, o->size, o->payload);
        return mmsb_page_metadata_set(page, key, 2, wanted.entries[0].value, wanted.entries[0].length);
    }
    for (uint32_t i = 0; i < o->count; i++) {
        model_set(&wanted, i, o->size, o->payload);
    }
    uint8_t blob[BLOB];
    return mmsb_page_metadata_import(page, blob, blob_of(&wanted, blob));
}

mmsb_status_t library_apply(mmsb_context_t context, const model_t *before, const operation_t *o) {
    uint8_t *buffer = payload_of(o);
    mmsb_page_t pages[ITEMS];
    mmsb_page_range_t ranges[ITEMS];
    mmsb_run_t runs[ITEMS];
    mmsb_delta_t deltas[ITEMS];
    uint64_t offsets[ITEMS], lengths[ITEMS];
    uint8_t *payload = buffer;
    pages[0] = handle_of(context, before, o->items[0].slot);
    for (uint32_t i = 0; i < o->count; i++) {
        pages[i] = handle_of(context, before, o->items[i].slot);
        ranges[i] = (mmsb_page_range_t){pages[i], o->items[i].offset, o->items[i].length, payload};
        runs[i] = (mmsb_run_t){o->items[i].offset, o->items[i].length};
        offsets[i] = runs[i].offset;
        lengths[i] = runs[i].length;
        mmsb_delta_init(&deltas[i]);
        deltas[i].kind = MMSB_DELTA_RUNS;
        deltas[i].runs = &runs[i];
        deltas[i].count = 1;
        deltas[i].payload = payload;
        payload += o->items[i].length;
    }
    switch (o->kind) {
    case WRITE:
        return mmsb_page_write(pages[0], offsets[0], buffer, lengths[0]);
    case WRITE_MANY:
        return mmsb_page_write_many(ranges, o->count, NULL);
    case DELTA:
        return library_delta(pages[0], o, buffer);
    case DELTA_MANY:
        return mmsb_page_apply_many(pages, deltas, o->count, NULL);
    case RUNS: {
        mmsb_page_runs_t batch;
        mmsb_page_runs_init(&batch);
        batch.count = o->count;
        batch.pages = pages;
        batch.offsets = offsets;
        batch.lengths = lengths;
        batch.payload = buffer;
        return mmsb_page_apply_runs(&batch, NULL);
    }
    case CREATE:
        return create(context, o->number, o->size, o->location);
    case CLONE: {
        mmsb_page_t clone = 0;
        return mmsb_page_clone(pages[0], o->number, &clone);
    }
    case DESTROY:
        return mmsb_page_destroy(pages[0]);
    case DESTROY_MANY:
        return mmsb_page_destroy_many(pages, o->count, NULL);
    case RESIZE:
        return mmsb_page_resize(pages[0], o->size);
    case MIGRATE:
        return mmsb_page_migrate(pages[0], o->location, 0);
    case CLEAR_MASK:
        return mmsb_page_mask_clear(pages[0]);
    case SET_METADATA:
    case REMOVE_METADATA:
    case IMPORT_METADATA:
        return library_metadata(pages[0], o);
    case ADD_DEPENDENCY:
        return mmsb_page_dependency_add(pages[0], handle_of(context, before, o->other));
    case REMOVE_DEPENDENCY:
        return mmsb_page_dependency_remove(pages[0], handle_of(context, before, o->other));
    case RAW_WRITE: {
        void *address = NULL;
        mmsb_status_t status = mmsb_page_pin(pages[0], MMSB_PIN_WRITE, &address);
        if (status != MMSB_OK) {
            return status;
        }
        memcpy((uint8_t *)address + offsets[0], buffer, lengths[0]);
        return mmsb_page_unpin(pages[0], MMSB_PIN_WRITE);
    }
    case KINDS:
        break;
    }
    return MMSB_E_INTERNAL;
}

/* --------------------------------------------------------------------------------------------------- comparison ---- */

#define DIFFERS(...) (snprintf(difference, capacity, __VA_ARGS__), 0)

static int same_properties(mmsb_page_t page, const model_page_t *expected, char *difference, size_t capacity) {
    mmsb_page_info_t info;
    mmsb_page_info_init(&info);
    if (mmsb_page_info(page, &info) != MMSB_OK) {
        return DIFFERS("%s", mmsb_last_error());
    }
    const uint64_t changes = UINT16_MAX; /* in a version's lower bits; above is its era */
    if ((info.version & changes) != (expected->version & changes) || info.size != expected->size ||
        info.epoch != expected->epoch || info.location != expected->location) {
        return DIFFERS("page %llu has version %llu, size %llu, epoch %llu, location %d, not %llu, %llu, %llu, %d",
                       (unsigned long long)expected->id, (unsigned long long)(info.version & changes),
                       (unsigned long long)info.size, (unsigned long long)info.epoch, (int)info.location,
                       (unsigned long long)(expected->version & changes), (unsigned long long)expected->size,
                       (unsigned long long)expected->epoch, (int)expected->location);
    }
    uint8_t blob[4096], wanted[BLOB];
    size_t length = 0, wanted_length = blob_of(expected, wanted);
    if (mmsb_page_metadata_export(page, blob, sizeof blob, &length) != MMSB_OK || length != wanted_length ||
        memcmp(blob, wanted, length) != 0) {
        return DIFFERS("page %llu has other metadata", (unsigned long long)expected->id);
    }
    return 1;
}

static int same_bytes(mmsb_page_t page, const model_t *model, uint32_t slot, char *difference, size_t capacity) {
    static uint8_t held[LARGE];
    model_t *read_only = (model_t *)model;
    const model_page_t *expected = &model->pages[slot];
    const uint8_t *bytes = bytes_of(read_only, slot);
    if (mmsb_page_read(page, 0, held, expected->size) != MMSB_OK) {
        return DIFFERS("page %llu: %s", (unsigned long long)expected->id, mmsb_last_error());
    }
    if (memcmp(held, bytes, expected->size) != 0) {
        uint64_t at = 0;
        while (held[at] == bytes[at]) {
            at++;
        }
        return DIFFERS("page %llu of %llu bytes differs from byte %llu on", (unsigned long long)expected->id,
                       (unsigned long long)expected->size, (unsigned long long)at);
    }
    if (mmsb_page_mask_read(page, 0, held, expected->size) != MMSB_OK) {
        return DIFFERS("page %llu: %s", (unsigned long long)expected->id, mmsb_last_error());
    }
    if (memcmp(held, mask_of(read_only, slot), (expected->size + 7) / 8) != 0) {
        return DIFFERS("page %llu has another change mask", (unsigned long long)expected->id);
    }
    return 1;
}

static int same_children(mmsb_context_t context, mmsb_page_t page, const model_t *model, uint32_t slot, char *difference,
                         size_t capacity) {
    mmsb_page_t children[EDGES];
    size_t count = 0, found = 0;
    if (mmsb_page_children(page, children, EDGES, &count) != MMSB_OK) {
        return DIFFERS("page %llu: %s", (unsigned long long)model->pages[slot].id, mmsb_last_error());
    }
    for (uint32_t i = 0; i < model->edge_count; i++) {
        if (model->edges[i].parent != slot) {
            continue;
        }
        if (found == count || children[found] != handle_of(context, model, model->edges[i].child)) {
            return DIFFERS("page %llu has other dependencies", (unsigned long long)model->pages[slot].id);
        }
        found++;
    }
    if (found != count) {
        return DIFFERS("page %llu has %zu dependencies, not %zu", (unsigned long long)model->pages[slot].id, count, found);
    }
    return 1;
}

int same_state(mmsb_context_t context, const model_t *model, char *difference, size_t capacity) {
    uint64_t pages = 0, expected_pages = 0;
    if (mmsb_context_page_count(context, &pages) != MMSB_OK) {
        return DIFFERS("%s", mmsb_last_error());
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        expected_pages += model->pages[slot].id != 0;
    }
    if (pages != expected_pages) {
        return DIFFERS("there are %llu pages, not %llu", (unsigned long long)pages, (unsigned long long)expected_pages);
    }
    /* Properties first: of states that differ they mostly tell. */
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const model_page_t *expected = &model->pages[slot];
        if (expected->id == 0) {
            continue;
        }
        mmsb_page_t page = handle_of(context, model, slot);
        if (page == 0) {
            return DIFFERS("there is no page %llu", (unsigned long long)expected->id);
        }
        if (!same_properties(page, expected, difference, capacity)) {
            return 0;
        }
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (model->pages[slot].id == 0) {
            continue;
        }
        mmsb_page_t page = handle_of(context, model, slot);
        if (!same_bytes(page, model, slot, difference, capacity) ||
            !same_children(context, page, model, slot, difference, capacity)) {
            return 0;
        }
    }
    return 1;
}

mmsb_status_t found_state(mmsb_context_t context, model_t *model, uint64_t seed) {
    memset(model, 0, sizeof *model);
    for (uint32_t slot = 0; slot < 12; slot++) {
        uint64_t random = seed + slot;
        operation_t o = {.number = model->operation + 1, .kind = CREATE, .other = slot, .size = a_size(&random, slot)};
        mmsb_status_t status = library_apply(context, model, &o);
        if (status != MMSB_OK) {
            return status;
        }
        model_apply(model, &o);
    }
    return MMSB_OK;
}
