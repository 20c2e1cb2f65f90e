/*
 * Captures without Go and without files: a saver puts what it gets into memory, on top of what an earlier capture gave, and the
 * result must be the state at the moment. First a saver that is stepped between random calls, then one beside threads. Meant for
 * ThreadSanitizer.
 *
 * With a part as its argument it does only that, and ends at the first failure: tests/mutations plants bugs, which must show.
 */
#include "../../tests/check.h"

#include "../access.h"
#include "../capture.h"
#include "../capture_state.h"
#include "../change.h"
#include "../delta_batch.h"
#include "../frame.h"
#include "../gate.h"
#include "../id.h"
#include "../life.h"
#include "../look.h"
#include "../mask.h"
#include "../pin.h"
#include "../preimage.h"
#include "whole.h"

#include <sys/mman.h>

#define CONTEXT_INDEX 7
#define OTHER_INDEX 8
#define CHUNK_COUNT 8
#define OTHER_CHUNK CHUNK_COUNT
#define RECORDS (CHUNK_COUNT * MMSB__LEAF_RECORDS)
#define REGION 1
#define REGION_BYTES (UINT64_C(1) << 30)
#if defined(__SANITIZE_THREAD__)
#define ROUNDS 8
#else
#define ROUNDS 50
#endif
#define LEAST_LIMIT (3 * MMSB__CHUNK_BYTES) /* has room for any copy that a writer makes */

/* Seconds for what must come, which thread runs when: only what never comes, or hangs, is ended by it. */
#define PATIENCE 1200

/* ------------------------------------------------------------------------------------- what Go does otherwise ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_index = MMSB__LEAF_RECORDS - 150; /* chunks are taken while captures run */
static uint64_t next_offset = 4096, context_handle;
static uint32_t chunks_taken = 1;
static uint64_t capacity_of[RECORDS]; /* of large memory */
static uint32_t free_large[4096], free_large_count;

/* Under the lock. */
static uint32_t take_record(uint64_t size, uint64_t state) {
    uint32_t index = next_index++;
    CHECK(index < RECORDS && next_offset + size <= REGION_BYTES);
    if (index >> MMSB__LEAF_BITS >= chunks_taken) {
        mmsb__table.leaf_context[chunks_taken] = CONTEXT_INDEX;
        mmsb__capture_later(CONTEXT_INDEX, chunks_taken++);
    }
    mmsb__record_t *record = mmsb__record_at(index);
    record->locator = MMSB__LOCATOR(REGION, next_offset);
    next_offset += size;
    mmsb__dirty_none(record);
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return index;
}

static mmsb_status_t refill(uint64_t context, uint32_t class_number, uint64_t *handles, uint32_t capacity, uint32_t *count) {
    (void)context;
    pthread_mutex_lock(&lock);
    for (*count = 0; *count < capacity && *count < 8; ++*count) {
        uint64_t state = MMSB__STATE(MMSB__STATE_FREE, 1, (uint64_t)class_number << MMSB__CLASS_SHIFT);
        handles[*count] = MMSB__HANDLE(MMSB_KIND_PAGE, 1, take_record(mmsb__class_size(class_number), state));
    }
    pthread_mutex_unlock(&lock);
    return MMSB_OK;
}

static mmsb_status_t take_frame(uint32_t context, uint64_t size, uint32_t *index) {
    const uint64_t class_bits = (uint64_t)MMSB__CLASS_EXTENT << MMSB__CLASS_SHIFT;
    uint64_t capacity = (size + 4095) & ~UINT64_C(4095);
    (void)context;
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < free_large_count && capacity_of[free_large[i]] != capacity)
        i++;
    if (i < free_large_count) {
        *index = free_large[i];
        free_large[i] = free_large[--free_large_count];
    } else {
        *index = take_record(capacity, MMSB__STATE(MMSB__STATE_FREE, 1, class_bits));
        capacity_of[*index] = capacity;
    }
    mmsb__record_t *record = mmsb__record_at(*index);
    memset(mmsb__record_bytes(record), 0, capacity);
    __atomic_store_n(&record->size, capacity, __ATOMIC_RELAXED);
    __atomic_store_n(&record->exposed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&record->state,
                     MMSB__STATE(MMSB__STATE_FRAME, MMSB__HANDLE_GENERATION(mmsb__state_held(record)), class_bits),
                     __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return MMSB_OK;
}

static void drop_large(uint32_t index, uint32_t generation) {
    pthread_mutex_lock(&lock);
    __atomic_store_n(&mmsb__record_at(index)->state,
                     MMSB__STATE(MMSB__STATE_FREE, generation, (uint64_t)MMSB__CLASS_EXTENT << MMSB__CLASS_SHIFT),
                     __ATOMIC_RELEASE);
    CHECK(free_large_count < 4096);
    free_large[free_large_count++] = index;
    pthread_mutex_unlock(&lock);
}

static void give_frame(uint32_t context, uint32_t index) {
    (void)context;
    drop_large(index, MMSB__HANDLE_GENERATION(mmsb__state_load(mmsb__record_at(index))));
}

/* side records have the index of their page. */
static mmsb__side_t *side_for(uint32_t index) {
    mmsb__record_t *record = mmsb__record_at(index);
    if (record->side == 0) {
        mmsb__table.sides[index] = (mmsb__side_t){.numa_node = -1};
        record->side = index;
    }
    return &mmsb__table.sides[index];
}

static void drop_metadata(mmsb__side_t *side) {
    if (side->metadata_frame != 0)
        mmsb__frame_give(CONTEXT_INDEX, side->metadata_frame);
    side->metadata_frame = side->metadata_count = 0;
    side->metadata_length = 0;
}

static void end_page(uint32_t index, uint64_t state) {
    mmsb__record_t *record = mmsb__record_at(index);
    mmsb__mask_drop(record);
    if (record->side != 0) {
        mmsb__side_t *side = side_for(index);
        drop_metadata(side);
        if (state & MMSB__NONRESIDENT)
            __atomic_store_n(&record->locator, side->backing_at, __ATOMIC_RELAXED);
        record->side = 0;
    }
    if (MMSB__STATE_CLASS(state) < MMSB__SMALL_CLASSES) {
        mmsb__record_finish(index, state);
    } else {
        mmsb__context_add(mmsb__record_context(index), 0, 1, 0, record->size);
        drop_large(index, MMSB__HANDLE_GENERATION(state) + 1);
    }
}

static mmsb_status_t bring(uint32_t index) {
    __atomic_store_n(&mmsb__record_at(index)->locator, mmsb__table.sides[index].backing_at, __ATOMIC_RELAXED);
    return MMSB_OK;
}

static void leave(uint32_t index) {
    __atomic_store_n(&mmsb__record_at(index)->locator, 0, __ATOMIC_RELAXED);
}

static void begin_context(uint32_t index) {
    mmsb__context_record_t *record = mmsb__context_record(index);
    record->index = index;
    record->id_factor = record->id_inverse = 1;
    record->generation = 1;
    __atomic_store_n(&record->handle, MMSB__HANDLE(MMSB_KIND_CONTEXT, 1, index), __ATOMIC_RELEASE);
}

static void start(void) {
    REQUIRE(mmsb__gate_closed() == MMSB_OK);
    for (uint32_t chunk = 0; chunk <= OTHER_CHUNK; chunk++)
        REQUIRE(mmsb__table_open_leaf(chunk) == 0 && mmsb__table_open_sides(chunk) == 0);
    mmsb__table.leaf_context[0] = CONTEXT_INDEX;
    mmsb__table.leaf_context[OTHER_CHUNK] = OTHER_INDEX;
    mmsb__region_map(
        REGION, (uintptr_t)mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    mmsb__upcalls = (mmsb__upcalls_t){.refill = refill,
                                      .take_frame = take_frame,
                                      .give_frame = give_frame,
                                      .make_resident = bring,
                                      .evict = leave,
                                      .end = end_page};
    begin_context(CONTEXT_INDEX);
    begin_context(OTHER_INDEX);
    context_handle = mmsb__context_record(CONTEXT_INDEX)->handle;
}

/* A page with an id of the caller where it is not 0. */
static uint64_t create(uint64_t size, uint64_t id) {
    static uint64_t explicit_pages;
    mmsb_page_t page = 0;
    if (size <= MMSB__SMALL_MAX && id == 0) {
        if (!mmsb__page_create_fast(context_handle, size, 1, &page, NULL))
            CHECK(mmsb__page_create_small(context_handle, size, 1, &page) == MMSB_OK);
        return page;
    }
    mmsb__context_await(CONTEXT_INDEX);
    uint32_t index;
    CHECK(mmsb__frame_take(CONTEXT_INDEX, size, &index) == MMSB_OK);
    uint64_t version = 1;
    if (id != 0) {
        side_for(index)->id = id;
        version = __atomic_add_fetch(&explicit_pages, 1, __ATOMIC_RELAXED) << 32 | 1;
    }
    uint32_t generation = MMSB__HANDLE_GENERATION(mmsb__state_load(mmsb__record_at(index)));
    mmsb__page_publish(index, size, id != 0 ? MMSB__EXPLICIT_ID : 0, 0, version);
    return MMSB__HANDLE(MMSB_KIND_PAGE, generation, index);
}

/* Locks a page to change it as a whole, as Go does. */
static uint64_t lock_page(uint64_t page) {
    uint32_t index = MMSB__HANDLE_INDEX(page);
    for (;;) {
        CHECK(mmsb__page_lock_library(page) == MMSB_OK);
        uint64_t state = mmsb__state_held(mmsb__record_at(index)) & ~MMSB__OWNER_MASK;
        if (!mmsb__preimage_keep_page(mmsb__record_at(index), state))
            return state;
        mmsb__record_unlock(index, state);
        mmsb__capture_wait(index);
    }
}

static void set_metadata(uint64_t page, const uint8_t *blob, uint64_t length) {
    uint64_t state = lock_page(page);
    uint32_t index = MMSB__HANDLE_INDEX(page), block;
    mmsb__record_t *record = mmsb__record_at(index);
    mmsb__side_t *side = side_for(index);
    drop_metadata(side);
    if (length > 0) {
        CHECK(mmsb__frame_take(CONTEXT_INDEX, length, &block) == MMSB_OK);
        memcpy(mmsb__record_bytes(mmsb__record_at(block)), blob, length);
        side->metadata_frame = block;
        side->metadata_count = 1;
        side->metadata_length = length;
    }
    mmsb__version_move(record);
    mmsb__record_unlock(index, state);
}

/* Moves a page away, or back. */
static void move(uint64_t page) {
    uint64_t state = lock_page(page);
    uint32_t index = MMSB__HANDLE_INDEX(page);
    mmsb__record_t *record = mmsb__record_at(index);
    mmsb__side_t *side = side_for(index);
    if (state & MMSB__NONRESIDENT) {
        __atomic_store_n(&record->locator, side->backing_at, __ATOMIC_RELAXED);
        state &= ~(MMSB__NONRESIDENT | MMSB__LOCATION_MASK);
    } else {
        side->backing_at = record->locator;
        __atomic_store_n(&record->locator, 0, __ATOMIC_RELAXED);
        state |= MMSB__NONRESIDENT | (uint64_t)MMSB_LOCATION_DISK << MMSB__LOCATION_SHIFT;
    }
    mmsb__version_move(record);
    mmsb__record_unlock(index, state);
}

/* ------------------------------------------------------------------------------------------------------ states ---- */

/* A page as a capture has it, or as it is. States share pages: nobody changes one that is in a state. */
typedef struct held {
    mmsb__image_t image;
    uint8_t *bytes, *mask, *metadata;
    uint64_t metadata_length;
    uint32_t states; /* that have it */
    int fresh;       /* of the capture that is running */
} held_t;

typedef struct state {
    held_t **pages;
    size_t count, capacity;
} state_t;

static void drop_held(held_t *page) {
    if (page->states > 1) {
        page->states--;
        return;
    }
    free(page->bytes);
    free(page->mask);
    free(page->metadata);
    free(page);
}

static void drop_state(state_t *state) {
    for (size_t i = 0; i < state->count; i++)
        drop_held(state->pages[i]);
    free(state->pages);
    *state = (state_t){0};
}

static size_t place_of(const state_t *state, uint64_t id) {
    size_t i = 0;
    while (i < state->count && state->pages[i]->image.id != id)
        i++;
    return i;
}

static held_t *find(const state_t *state, uint64_t id) {
    size_t i = place_of(state, id);
    return i < state->count ? state->pages[i] : NULL;
}

/* Space for the page of an image; mask and metadata are empty. */
static held_t *held_of(const mmsb__image_t *image) {
    held_t *page = calloc(1, sizeof *page);
    *page = (held_t){.image = *image, .bytes = malloc(image->size), .mask = calloc(1, mmsb__mask_length(image->size))};
    page->image.first_extent = page->image.extents = 0;
    page->image.flags &= ~(uint32_t)MMSB__IMAGE_PARTIAL;
    return page;
}

static void add(state_t *state, held_t *page) {
    if (state->count == state->capacity) {
        state->capacity = state->capacity ? 2 * state->capacity : 256;
        state->pages = realloc(state->pages, state->capacity * sizeof *state->pages);
    }
    page->states++;
    state->pages[state->count++] = page;
}

static void set_blob(held_t *page, const uint8_t *metadata, uint64_t length) {
    free(page->metadata);
    page->metadata = malloc(length + 1);
    page->metadata_length = length;
    if (length > 0)
        memcpy(page->metadata, metadata, length);
}

/* What there is now. Nobody changes it meanwhile. */
static state_t look(void) {
    state_t state = {0};
    for (uint32_t index = 1; index < next_index; index++) {
        mmsb__record_t *record = mmsb__record_at(index);
        uint64_t is = mmsb__state_load(record);
        if (MMSB__HANDLE_KIND(is) != MMSB_KIND_PAGE)
            continue;
        mmsb__image_t image = {.id = mmsb__record_id(index, is),
                               .size = record->size,
                               .epoch = record->epoch,
                               .version = record->version,
                               .location = MMSB__STATE_LOCATION(is),
                               .numa_node = -1};
        const mmsb__side_t *side = record->side ? &mmsb__table.sides[index] : NULL;
        image.metadata_count = side ? side->metadata_count : 0;
        held_t *page = held_of(&image);
        memcpy(page->bytes, mmsb__locator_address(is & MMSB__NONRESIDENT ? side->backing_at : record->locator), record->size);
        if (record->mask_frame != 0)
            memcpy(page->mask, mmsb__locator_address(record->mask_locator), mmsb__mask_length(record->size));
        if (image.metadata_count > 0)
            set_blob(page, mmsb__record_bytes(mmsb__record_at(side->metadata_frame)), side->metadata_length);
        add(&state, page);
    }
    return state;
}

static int same_page(const held_t *a, const held_t *b) {
    const mmsb__image_t *x = &a->image, *y = &b->image;
    return x->size == y->size && x->epoch == y->epoch && x->version == y->version && x->location == y->location &&
           x->numa_node == y->numa_node && x->metadata_count == y->metadata_count && memcmp(a->bytes, b->bytes, x->size) == 0 &&
           memcmp(a->mask, b->mask, mmsb__mask_length(x->size)) == 0 && a->metadata_length == b->metadata_length &&
           (a->metadata_length == 0 || memcmp(a->metadata, b->metadata, a->metadata_length) == 0);
}

static int same_state(const state_t *a, const state_t *b) {
    if (a->count != b->count)
        return 0;
    for (size_t i = 0; i < a->count; i++) {
        const held_t *other = find(b, a->pages[i]->image.id);
        if (!other || !same_page(a->pages[i], other))
            return 0;
    }
    return 1;
}

/* ------------------------------------------------------------------------------------------------------- saver ---- */

#define ROOM_BYTES (UINT64_C(1) << 20)
#define ROOM_IMAGES 64

static uint8_t room_bytes[ROOM_BYTES], part_bytes[MMSB__CHUNK_BYTES];
static mmsb__image_t room_images[ROOM_IMAGES];
static mmsb__image_extent_t room_extents[3 * ROOM_IMAGES];

typedef struct saver {
    mmsb__capture_t *capture; /* NULL = none runs */
    state_t state;            /* that of the base, becoming that of the moment */
    state_t moment;
    uint64_t base_pages, base_bytes, limit;
    mmsb__large_t *large; /* being saved */
    held_t *held;         /* of it */
    uint32_t part;
    uint32_t images; /* how many pages came */
    int ended, pinned;
    unsigned seed;
} saver_t;

static void capture_begin(saver_t *saver, const state_t *base, uint64_t limit, int refuse, int look_now) {
    uint32_t chunks[CHUNK_COUNT], used[CHUNK_COUNT];
    pthread_mutex_lock(&lock);
    for (uint32_t chunk = 0; chunk < chunks_taken; chunk++) {
        chunks[chunk] = chunk;
        used[chunk] = chunk + 1 < chunks_taken ? MMSB__LEAF_RECORDS : next_index - chunk * MMSB__LEAF_RECORDS;
    }
    if (look_now)
        saver->moment = look();
    saver->capture = mmsb__capture_begin(CONTEXT_INDEX, chunks, used, chunks_taken, base ? mmsb__saved : NULL, limit, refuse);
    pthread_mutex_unlock(&lock);
    CHECK(saver->capture != NULL);
    mmsb__capture_settle(saver->capture);
    saver->state = (state_t){0};
    saver->base_pages = saver->base_bytes = 0;
    for (size_t i = 0; base && i < base->count; i++) {
        add(&saver->state, base->pages[i]);
        saver->base_pages++;
        saver->base_bytes += base->pages[i]->image.size;
    }
    saver->limit = limit;
    saver->large = NULL;
    saver->images = 0;
    saver->ended = saver->pinned = 0;
}

/* A page came, whole but for what of the base's it keeps. */
static void put(saver_t *saver, held_t *page) {
    size_t place = place_of(&saver->state, page->image.id);
    page->fresh = 1;
    saver->images++;
    if (place == saver->state.count) {
        add(&saver->state, page);
        return;
    }
    CHECK(!saver->state.pages[place]->fresh); /* else it came twice */
    drop_held(saver->state.pages[place]);
    page->states++;
    saver->state.pages[place] = page;
}

static void unpack(saver_t *saver, const mmsb__segment_t *room) {
    for (uint32_t i = 0; i < room->image_count; i++) {
        const mmsb__image_t *image = &room->images[i];
        held_t *page = held_of(image);
        CHECK(!(image->flags & MMSB__IMAGE_PARTIAL) && image->first_extent + image->extents <= room->extent_count);
        for (uint32_t e = image->first_extent; e < image->first_extent + image->extents; e++) {
            const mmsb__image_extent_t *extent = &room->extents[e];
            const uint8_t *at = room->buffer + extent->at;
            int below = extent->kind == MMSB__IMAGE_BYTES;
            CHECK(extent->at >= (below ? 0 : room->end) &&
                  extent->at + (uint64_t)extent->length <= (below ? room->used : ROOM_BYTES));
            CHECK(room->used <= room->end && extent->stored == extent->length && extent->offset == 0 && extent->at % 64 == 0 &&
                  mmsb__bytes.crc32c(0, at, extent->length) == extent->crc);
            if (extent->kind == MMSB__IMAGE_METADATA)
                set_blob(page, at, extent->length);
            else
                memcpy(extent->kind == MMSB__IMAGE_MASK ? page->mask : page->bytes, at, extent->length);
        }
        put(saver, page);
    }
}

static void begin_large(saver_t *saver, uint32_t index) {
    mmsb_status_t status;
    saver->large = mmsb__capture_large(saver->capture, index, &status);
    CHECK(status == MMSB_OK);
    if (!saver->large)
        return;
    const mmsb__image_t *image = &saver->large->image;
    const held_t *old = find(&saver->state, image->id);
    CHECK(!(image->flags & MMSB__IMAGE_PARTIAL) || (old && old->image.size == image->size));
    saver->held = held_of(image);
    if (saver->large->unchanged) /* its mask and its metadata are the base's */
        memcpy(saver->held->mask, old->mask, mmsb__mask_length(image->size));
    set_blob(saver->held, saver->large->metadata, saver->large->metadata_length);
    saver->part = 0;
}

/* One step: one room, or one part of a large page. 0 = there are no more. */
static int step(saver_t *saver) {
    mmsb__large_t *large = saver->large;
    if (large) {
        uint32_t end = large->byte_parts + (large->unchanged ? 0 : large->mask_parts), part = saver->part++;
        if (part < end) {
            uint32_t length = mmsb__capture_part(saver->capture, large, part, UINT64_MAX, part_bytes);
            CHECK(length == large->parts[part].length);
            if (part < large->byte_parts)
                memcpy(saver->held->bytes + part * MMSB__CHUNK_BYTES, part_bytes, length);
            else
                memcpy(saver->held->mask + (part - large->byte_parts) * MMSB__CHUNK_BYTES, part_bytes, length);
            return 1;
        }
        put(saver, saver->held);
        mmsb__capture_large_done(saver->capture, large);
        saver->large = NULL;
        return 1;
    }
    if (saver->ended) { /* there were calls since */
        mmsb__capture_stop(saver->capture);
        return 0;
    }
    uint32_t urgent = mmsb__capture_urgent(saver->capture), index = 0;
    if (urgent != 0) {
        begin_large(saver, urgent);
        return 1;
    }
    uint32_t images = 1 + (uint32_t)rand_r(&saver->seed) % ROOM_IMAGES;
    mmsb__segment_t room = {.buffer = room_bytes,
                            .end = ROOM_BYTES,
                            .images = room_images,
                            .image_capacity = images,
                            .extents = room_extents,
                            .extent_capacity = 3 * images};
    mmsb__fill_t fill = mmsb__capture_fill(saver->capture, &room, &index);
    unpack(saver, &room);
    if (fill == MMSB__FILL_LARGE)
        begin_large(saver, index);
    if (fill == MMSB__FILL_PINNED) {
        saver->pinned = 1;
        return 0;
    }
    saver->ended = fill == MMSB__FILL_END;
    return 1;
}

/* After the last step: what the capture says beside its pages. */
static void finish(saver_t *saver) {
    uint64_t count;
    int64_t pages, bytes;
    const uint64_t *removed = mmsb__capture_removed(saver->capture, &count);
    CHECK(!mmsb__capture_failed(saver->capture));
    for (uint64_t i = 0; i < count; i++) {
        size_t place = place_of(&saver->state, removed[i]);
        CHECK(place < saver->state.count); /* else it is removed twice, or was not there */
        if (place == saver->state.count || saver->state.pages[place]->fresh)
            continue;
        drop_held(saver->state.pages[place]);
        saver->state.pages[place] = saver->state.pages[--saver->state.count];
    }
    uint64_t total = 0;
    for (size_t i = 0; i < saver->state.count; i++) {
        total += saver->state.pages[i]->image.size;
        saver->state.pages[i]->fresh = 0;
    }
    mmsb__capture_totals(saver->capture, &pages, &bytes);
    CHECK(saver->base_pages + (uint64_t)pages == saver->state.count && saver->base_bytes + (uint64_t)bytes == total);
    mmsb__capture_stats_t stats;
    mmsb__capture_stats(saver->capture, &stats);
    CHECK(stats.copied_peak <= stats.copied_bytes && stats.copied_peak <= saver->limit);
}

static void capture_end(saver_t *saver, int commit, state_t *base) {
    if (saver->large) /* given up in the middle of a page */
        drop_held(saver->held);
    if (commit) {
        mmsb__capture_commit(saver->capture);
        drop_state(base);
        *base = saver->state;
        saver->state = (state_t){0};
    }
    mmsb__capture_end(saver->capture);
    saver->capture = NULL;
    drop_state(&saver->state);
    drop_state(&saver->moment);
}

/* ----------------------------------------------------------------------------------------- calls one at a time ---- */

/* Calls run on a thread of their own: where one waits for the saver, the saver is stepped meanwhile. */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn; /* how many calls come before it is the saver's turn; -1 = the caller ends */

#define PAGES 160
static struct {
    uint64_t page, id; /* id 0 = automatic */
} live[PAGES];
static unsigned calls_seed;
static uint32_t large_pages;
static int capturing_now;
static uint8_t noise[2 << 20];

static unsigned dice(unsigned sides) {
    return (unsigned)rand_r(&calls_seed) % sides;
}

static uint64_t size_of(uint64_t page) {
    return mmsb__page_look(page, MMSB__FIELD_SIZE);
}

static int is_large_size(uint64_t size) {
    return size > MMSB__CHUNK_BYTES;
}

/* Somewhere in the page, more often short; often enough long that copies reach their limit. */
static void stretch(uint64_t size, uint64_t *offset, uint64_t *length) {
    *offset = dice((unsigned)size);
    *length = dice(3) == 0 ? size - *offset : 1 + dice(64);
    if (*length > size - *offset)
        *length = size - *offset;
}

static void create_one(size_t slot) {
    static const uint64_t sizes[] = {
        1, 64, 100, 500, 4096, 4097, 9000, MMSB__CHUNK_BYTES, MMSB__CHUNK_BYTES + 1, 3 * MMSB__CHUNK_BYTES + 77};
    uint64_t size = sizes[dice(large_pages < 4 ? 10 : 8)], id = dice(3) == 0 ? 1 + slot : 0;
    large_pages += (uint32_t)is_large_size(size);
    live[slot].page = create(size, id);
    live[slot].id = id;
}

static void destroy_one(size_t slot) {
    large_pages -= (uint32_t)is_large_size(size_of(live[slot].page));
    if (!mmsb__page_destroy_fast(live[slot].page))
        CHECK(mmsb__page_destroy_slow(live[slot].page) == MMSB_OK);
    live[slot].page = 0;
}

static void apply_one(uint64_t page) {
    uint64_t size = size_of(page), offsets[5];
    mmsb_run_t runs[3];
    mmsb_delta_t delta = {.struct_size = sizeof delta, .payload = noise + dice(1000)};
    switch (dice(3)) {
    case 0:
        delta.kind = MMSB_DELTA_RUNS;
        delta.count = 3;
        delta.runs = runs;
        for (int i = 0; i < 3; i++)
            stretch(size, &runs[i].offset, &runs[i].length);
        break;
    case 1:
        delta.kind = MMSB_DELTA_INDEXED;
        delta.count = 5;
        delta.offsets = offsets;
        for (int i = 0; i < 5; i++)
            offsets[i] = dice((unsigned)size);
        break;
    default:
        delta.kind = MMSB_DELTA_DENSE_BYTES;
        delta.mask = noise + dice(1000);
        delta.mask_length = dice((unsigned)(size < 300000 ? size : 300000));
    }
    CHECK(mmsb__page_apply(page, &delta) == MMSB_OK);
}

static void apply_many(void) {
    mmsb_page_t pages[8];
    uint64_t offsets[8], lengths[8];
    mmsb_page_range_t ranges[8];
    size_t count = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t page = live[dice(PAGES)].page;
        if (page == 0)
            continue;
        pages[count] = page;
        stretch(size_of(page), &offsets[count], &lengths[count]);
        ranges[count] = (mmsb_page_range_t){page, offsets[count], lengths[count], noise + dice(1000)};
        count++;
    }
    size_t bad;
    if (dice(2) == 0) {
        CHECK(mmsb__page_write_many(ranges, count, &bad) == MMSB_OK);
        return;
    }
    uint8_t *payload = malloc(8 * sizeof noise);
    memset(payload, (int)dice(256), 8 * sizeof noise);
    mmsb_page_runs_t runs = {.pages = pages, .offsets = offsets, .lengths = lengths, .count = count, .payload = payload};
    CHECK(mmsb__page_apply_runs(&runs, &bad) == MMSB_OK);
    free(payload);
}

static void destroy_many(void) {
    mmsb_page_t pages[3];
    size_t count = 0, bad;
    for (size_t slot = dice(PAGES - 3), end = slot + 3; slot < end; slot++) {
        if (live[slot].page == 0)
            continue;
        large_pages -= (uint32_t)is_large_size(size_of(live[slot].page));
        pages[count++] = live[slot].page;
        live[slot].page = 0;
    }
    CHECK(mmsb__page_destroy_many(pages, count, &bad) == MMSB_OK);
}

/* Writes that no version tells of: while none is captured, so that it is known what is saved. Else the address is only given out.
 * */
static void write_raw(uint64_t page) {
    void *address;
    uint64_t size = size_of(page), at = dice((unsigned)size);
    if (!capturing_now && dice(2) == 0) { /* ends with another version */
        CHECK(mmsb__page_pin(page, MMSB_PIN_WRITE, &address) == MMSB_OK);
        ((uint8_t *)address)[at] ^= 0x55;
        CHECK(mmsb__page_unpin(page, MMSB_PIN_WRITE) == MMSB_OK);
    } else if (!(mmsb__state_load(mmsb__record_of(page)) & MMSB__NONRESIDENT)) {
        address = mmsb__page_address(page);
        if (!capturing_now)
            ((uint8_t *)address)[at] ^= 0x55;
    }
}

static void call_one(void) {
    size_t slot = dice(PAGES);
    uint64_t page = live[slot].page, offset, length, size;
    if (page == 0) {
        create_one(slot);
        return;
    }
    size = size_of(page);
    switch (dice(12)) {
    case 0:
        destroy_one(slot);
        break;
    case 1:
        destroy_one(slot);
        create_one(slot);
        break;
    case 2:
        destroy_many();
        break;
    case 3:
    case 4:
        apply_one(page);
        break;
    case 5:
    case 6:
        apply_many();
        break;
    case 7:
        if (size <= MMSB__SMALL_MAX && !(mmsb__state_load(mmsb__record_of(page)) & MMSB__NONRESIDENT)) {
            mmsb_status_t status = mmsb__page_resize_in_place(page, 1 + dice(MMSB__SMALL_MAX));
            CHECK(status == MMSB_OK || status == MMSB__ENTER_GO);
        }
        break;
    case 8:
        if (dice(2) == 0)
            CHECK(mmsb__page_mask_clear(page) == MMSB_OK);
        else
            set_metadata(page, noise + dice(1000), dice(3) == 0 ? 0 : dice(20) == 0 ? MMSB__CHUNK_BYTES + 5 : dice(300));
        break;
    case 9:
        move(page);
        break;
    case 10:
        write_raw(page);
        break;
    default:
        stretch(size, &offset, &length);
        CHECK(mmsb__page_write(page, offset, noise + dice(1000), length) == MMSB_OK);
    }
}

static void *caller(void *unused) {
    (void)unused;
    pthread_mutex_lock(&turn_lock);
    for (;;) {
        while (turn == 0)
            pthread_cond_wait(&turn_changed, &turn_lock);
        if (turn < 0)
            break;
        int calls = turn;
        pthread_mutex_unlock(&turn_lock);
        for (int i = 0; i < calls; i++)
            call_one();
        pthread_mutex_lock(&turn_lock);
        turn = 0;
        pthread_cond_broadcast(&turn_changed);
    }
    pthread_mutex_unlock(&turn_lock);
    return NULL;
}

/* Some calls. Where one waits, the saver goes on. */
static void let_call(saver_t *saver, int calls) {
    pthread_mutex_lock(&turn_lock);
    turn = calls;
    pthread_cond_broadcast(&turn_changed);
    while (turn != 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 500000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&turn_changed, &turn_lock, &until) != 0 && turn != 0 && saver->capture) {
            pthread_mutex_unlock(&turn_lock);
            step(saver);
            pthread_mutex_lock(&turn_lock);
        }
    }
    pthread_mutex_unlock(&turn_lock);
}

static void captures_are_the_state_at_the_moment(unsigned seed) {
    static const uint64_t limits[] = {LEAST_LIMIT, 2 * LEAST_LIMIT, 64 << 20};
    pthread_t thread;
    saver_t saver = {.seed = seed};
    state_t base = {0};
    int based = 0;
    uint64_t waits = 0, incremental = 0, kept = 0;
    calls_seed = seed;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * 131 ^ i >> 7);
    CHECK(pthread_create(&thread, NULL, caller, NULL) == 0);
    let_call(&saver, 150);
    const time_t end = time(NULL) + PATIENCE;
    /* On, until something of waiting was tested: where calls get no time, the saver comes to its end before they do. */
    for (int round = 0; round < ROUNDS || (waits == 0 && time(NULL) < end); round++) {
        int whole = !based || rand_r(&saver.seed) % 5 == 0;
        capture_begin(&saver, whole ? NULL : &base, limits[rand_r(&saver.seed) % 3], 0, 1);
        capturing_now = 1;
        int calls = rand_r(&saver.seed) % 12;
        int given_up = 0, more = 1;
        while (more) {
            let_call(&saver, calls);
            more = step(&saver);
            given_up = given_up || rand_r(&saver.seed) % 400 == 0;
            if (given_up)
                break;
        }
        if (!given_up) {
            finish(&saver);
            CHECK(same_state(&saver.state, &saver.moment));
            if (!whole) {
                incremental++;
                kept += saver.state.count - saver.images;
            }
            based = 1;
        }
        mmsb__capture_stats_t stats;
        mmsb__capture_stats(saver.capture, &stats);
        waits += stats.waits;
        capture_end(&saver, !given_up, &base);
        capturing_now = 0;
        let_call(&saver, rand_r(&saver.seed) % 30);
    }
    CHECK(waits > 0);                                          /* else nothing of waiting was tested */
    CHECK(incremental > ROUNDS / 4 && kept > incremental * 5); /* else the incremental ones were whole */
    pthread_mutex_lock(&turn_lock);
    turn = -1;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_lock);
    pthread_join(thread, NULL);
    CHECK(table_is_whole(CONTEXT_INDEX));
    turn = 0;
    drop_state(&base);
    for (size_t slot = 0; slot < PAGES; slot++) {
        if (live[slot].page != 0)
            destroy_one(slot);
    }
}

/* A page that is pinned for writing is refused, whoever comes to it first, and where it is pinned after lines of it were kept. */
static void pinned_pages_are_refused(void) {
    enum { SAVER_FIRST, WRITER_FIRST, PINNED_LAST, ORDERS };
    for (int order = 0; order < ORDERS; order++) {
        saver_t saver = {.seed = 3};
        state_t base = {0};
        uint64_t page = create(100, 0), value = 7;
        if (order != PINNED_LAST)
            CHECK(mmsb__page_pin(page, MMSB_PIN_WRITE, NULL) == MMSB_OK);
        capture_begin(&saver, NULL, 64 << 20, 1, 0);
        if (order != SAVER_FIRST)
            CHECK(mmsb__page_write(page, 0, &value, 8) == MMSB_OK);
        if (order == PINNED_LAST)
            CHECK(mmsb__page_pin(page, MMSB_PIN_WRITE, NULL) == MMSB_OK);
        while (step(&saver)) {}
        CHECK(saver.pinned);
        capture_end(&saver, 0, &base);
        CHECK(mmsb__page_unpin(page, MMSB_PIN_WRITE) == MMSB_OK);
        CHECK(mmsb__page_destroy_slow(page) == MMSB_OK);
    }
}

/* Writes all of a page of each address. */
enum { LIMITED_PAGES = 16 };
typedef struct {
    uint64_t pages[LIMITED_PAGES];
    int done;
} limited_t;

static void *write_all(void *argument) {
    limited_t *limited = argument;
    for (size_t i = 0; i < LIMITED_PAGES; i++)
        CHECK(mmsb__page_write(limited->pages[i], 0, noise + i, MMSB__CHUNK_BYTES) == MMSB_OK);
    __atomic_store_n(&limited->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* A writer of more than the limit waits for the saver, and goes on when its copies are saved. */
static void copies_wait_at_their_limit(void) {
    saver_t saver = {.seed = 5};
    state_t base = {0};
    limited_t limited = {.done = 0};
    mmsb__capture_stats_t stats;
    pthread_t thread;
    for (size_t i = 0; i < LIMITED_PAGES; i++)
        limited.pages[i] = create(MMSB__CHUNK_BYTES, 0);
    capture_begin(&saver, NULL, LEAST_LIMIT, 0, 1);
    CHECK(pthread_create(&thread, NULL, write_all, &limited) == 0);
    do {
        sched_yield();
        mmsb__capture_stats(saver.capture, &stats);
    } while (stats.waits == 0 && !__atomic_load_n(&limited.done, __ATOMIC_ACQUIRE));
    CHECK(stats.waits > 0 && stats.copied_bytes > 0);
    while (step(&saver)) {}
    pthread_join(thread, NULL);
    finish(&saver);
    CHECK(same_state(&saver.state, &saver.moment));
    capture_end(&saver, 0, &base);
    for (size_t i = 0; i < LIMITED_PAGES; i++)
        CHECK(mmsb__page_destroy_slow(limited.pages[i]) == MMSB_OK);
}

/* ----------------------------------------------------------------------------------------------------- threads ---- */

/* Groups of pages that batches change together: each page says the same number, at two places. */
#define GROUPS 2
#define MEMBERS 200
/* Rows of pages that one thread changes one after the other: never is one ahead of the one before it. */
#define ROWS 2
#define ROW_PAGES 6

static mmsb_page_t members[GROUPS][MEMBERS], row[ROWS][ROW_PAGES];
static int stop;

static uint64_t last_word(uint64_t size) {
    return size - 8;
}

static void *batches(void *argument) {
    const mmsb_page_t *pages = members[(uintptr_t)argument];
    static const uint64_t length = 8;
    mmsb_page_t both[2 * MEMBERS];
    uint64_t offsets[2 * MEMBERS], payload[2 * MEMBERS];
    for (size_t i = 0; i < MEMBERS; i++) {
        both[2 * i] = both[2 * i + 1] = pages[i];
        offsets[2 * i] = 0;
        offsets[2 * i + 1] = last_word(size_of(pages[i]));
    }
    mmsb_page_runs_t runs = {
        .pages = both, .offsets = offsets, .count = 2 * MEMBERS, .payload = (uint8_t *)payload, .uniform_length = length};
    for (uint64_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        size_t bad;
        for (size_t i = 0; i < 2 * MEMBERS; i++)
            payload[i] = n;
        CHECK(mmsb__page_apply_runs(&runs, &bad) == MMSB_OK);
    }
    return NULL;
}

static void *rows(void *argument) {
    const mmsb_page_t *pages = row[(uintptr_t)argument];
    for (uint64_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        for (size_t i = 0; i < ROW_PAGES; i++) {
            /* One delta of two runs, which a moment must not part. */
            uint64_t payload[2] = {n, n};
            mmsb_run_t two[2] = {{0, 8}, {last_word(size_of(pages[i])), 8}};
            mmsb_delta_t delta = {
                .struct_size = sizeof delta, .kind = MMSB_DELTA_RUNS, .runs = two, .count = 2, .payload = (uint8_t *)payload};
            CHECK(mmsb__page_apply(pages[i], &delta) == MMSB_OK);
        }
    }
    return NULL;
}

/* Pages come before the one before them goes: at each moment there are one or two of a size. */
static void *generations(void *argument) {
    uint64_t size = 1000 + 300 * (uintptr_t)argument, before = 0;
    if ((uintptr_t)argument == 1)
        size = 2 * MMSB__CHUNK_BYTES;
    for (uint64_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        uint64_t page = create(size, 0);
        CHECK(mmsb__page_write(page, 0, &n, 8) == MMSB_OK);
        if (before != 0 && !mmsb__page_destroy_fast(before))
            CHECK(mmsb__page_destroy_slow(before) == MMSB_OK);
        before = page;
        if ((uintptr_t)argument == 1)
            sched_yield();
    }
    if (before != 0) /* the thread may have come to run only after the end */
        CHECK(mmsb__page_destroy_slow(before) == MMSB_OK);
    return NULL;
}

/* Another context's captures: calls of the first one look closer all the time, and moments come while they do. */
static void *captures_of_another(void *unused) {
    (void)unused;
    uint32_t chunk = OTHER_CHUNK, used = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        mmsb__capture_t *capture = mmsb__capture_begin(OTHER_INDEX, &chunk, &used, 1, NULL, 1 << 20, 0);
        CHECK(capture != NULL);
        mmsb__capture_settle(capture);
        struct timespec pause = {0, 3000000};
        nanosleep(&pause, NULL);
        mmsb__capture_end(capture);
    }
    return NULL;
}

static uint64_t word_at(const held_t *page, uint64_t offset) {
    uint64_t word;
    memcpy(&word, page->bytes + offset, 8);
    return word;
}

static const held_t *held_page(const state_t *state, uint64_t page) {
    const held_t *found = find(state, mmsb__automatic_id(mmsb__context_record(CONTEXT_INDEX), page));
    CHECK(found != NULL);
    if (!found)
        exit(1);
    return found;
}

static void check_moment(const state_t *state) {
    for (size_t group = 0; group < GROUPS; group++) {
        uint64_t first = word_at(held_page(state, members[group][0]), 0);
        for (size_t i = 0; i < MEMBERS; i++) {
            const held_t *page = held_page(state, members[group][i]);
            CHECK(word_at(page, 0) == first && word_at(page, last_word(page->image.size)) == first &&
                  page->image.epoch == 2 * first);
        }
    }
    for (size_t r = 0; r < ROWS; r++) {
        uint64_t first = word_at(held_page(state, row[r][0]), 0), before = first;
        for (size_t i = 0; i < ROW_PAGES; i++) {
            const held_t *page = held_page(state, row[r][i]);
            uint64_t word = word_at(page, 0);
            CHECK(word == word_at(page, last_word(page->image.size)) && word == page->image.epoch);
            CHECK(word <= before && word + 1 >= first);
            before = word;
        }
    }
    for (uintptr_t g = 0; g < 2; g++) {
        uint64_t size = g == 1 ? 2 * MMSB__CHUNK_BYTES : 1000, words[3];
        size_t count = 0;
        for (size_t i = 0; i < state->count; i++) {
            if (state->pages[i]->image.size == size && count < 3)
                words[count++] = word_at(state->pages[i], 0);
        }
        CHECK(count <= 2);
        if (count != 2) /* none only before the first */
            continue;
        uint64_t low = words[0] < words[1] ? words[0] : words[1], high = words[0] ^ words[1] ^ low;
        CHECK(low == 0 || high == low + 1);
    }
}

static void *look_for_changes(void *capture) {
    while (mmsb__capture_compare_leaf(capture)) {}
    return NULL;
}

static void captures_beside_threads_are_one_moment(int rounds) {
    void *(*const bodies[])(void *) = {batches, batches, rows, rows, generations, generations, captures_of_another};
    static const uintptr_t arguments[] = {0, 1, 0, 1, 0, 1, 0};
    pthread_t threads[7];
    for (size_t group = 0; group < GROUPS; group++) {
        for (size_t i = 0; i < MEMBERS; i++)
            members[group][i] = create(i == MEMBERS / 2 ? MMSB__CHUNK_BYTES + 4096 : i % 50 == 7 ? 5000 : 64, 0);
    }
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t i = 0; i < ROW_PAGES; i++)
            row[r][i] = create(i % 3 == 2 ? 2 * MMSB__CHUNK_BYTES + 4096 : 256, 0);
    }
    for (size_t i = 0; i < 7; i++)
        CHECK(pthread_create(&threads[i], NULL, bodies[i], (void *)arguments[i]) == 0);
    state_t base = {0};
    uint64_t copied = 0;
    const time_t end = time(NULL) + PATIENCE;
    for (int round = 0; round < rounds || (copied == 0 && time(NULL) < end); round++) {
        saver_t saver = {.seed = (unsigned)round};
        capture_begin(&saver, round % 4 == 0 ? NULL : &base, round % 3 == 0 ? LEAST_LIMIT : 64 << 20, 0, 0);
        pthread_t helper;
        CHECK(pthread_create(&helper, NULL, look_for_changes, saver.capture) == 0);
        while (step(&saver)) {}
        pthread_join(helper, NULL);
        finish(&saver);
        check_moment(&saver.state);
        mmsb__capture_stats_t stats;
        mmsb__capture_stats(saver.capture, &stats);
        copied += stats.copied_bytes;
        capture_end(&saver, 1, &base);
    }
    CHECK(copied > 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 7; i++)
        pthread_join(threads[i], NULL);
    drop_state(&base);
    CHECK(table_is_whole(CONTEXT_INDEX));
    stop = 0;
}

/* While the context is frozen nothing of it changes, and after it all goes on. */
static uint64_t frozen_calls;

/* The first thread creates and destroys, too; the second one does nothing that waits before it has a page's lock. */
static void *calls_into_a_freeze(void *argument) {
    uint64_t page = row[0][(uintptr_t)argument], n = 0, other = 0;
    int creates = (uintptr_t)argument == 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (creates)
            other = create(64, 0);
        CHECK(mmsb__page_write(page, 0, &n, 8) == MMSB_OK);
        if (creates && !mmsb__page_destroy_fast(other))
            CHECK(mmsb__page_destroy_slow(other) == MMSB_OK);
        __atomic_add_fetch(&frozen_calls, 1, __ATOMIC_RELAXED);
        n++;
    }
    return NULL;
}

/* Locks each page for a moment. */
static void pass_locks(void) {
    uint64_t state;
    for (uint32_t index = 1; index < next_index; index++) {
        if (mmsb__record_lock_page(index, &state))
            mmsb__record_unlock(index, state);
    }
}

static void a_frozen_context_stands_still(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, calls_into_a_freeze, (void *)i) == 0);
    for (int round = 0; round < 20; round++) {
        uint64_t calls = __atomic_load_n(&frozen_calls, __ATOMIC_RELAXED);
        while (__atomic_load_n(&frozen_calls, __ATOMIC_RELAXED) < calls + 20)
            sched_yield();
        CHECK(mmsb__context_freeze(CONTEXT_INDEX) == MMSB_OK);
        pass_locks(); /* calls that looked before the freeze have their locks until they end */
        state_t before = look();
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        state_t after = look();
        pass_locks(); /* so that ThreadSanitizer knows that it has been looked at before it changes */
        CHECK(same_state(&before, &after));
        drop_state(&before);
        drop_state(&after);
        mmsb__context_thaw(CONTEXT_INDEX);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    stop = 0;
}

/* -------------------------------------------------------------------------------------------------------- main ---- */

/* Which bugs show here, tests/mutations says. */
static void run_part(const char *part, unsigned seed) {
    if (strcmp(part, "calls") == 0) {
        captures_are_the_state_at_the_moment(seed);
    } else if (strcmp(part, "limit") == 0) {
        copies_wait_at_their_limit();
    } else if (strcmp(part, "threads") == 0) {
        captures_beside_threads_are_one_moment(200);
    } else {
        captures_beside_threads_are_one_moment(2);
        a_frozen_context_stands_still();
    }
}

/* Arguments: a seed, or a part (calls, limit, threads, freezes) and a seed. */
int main(int argument_count, char **arguments) {
    const unsigned seed = argument_count > 1 ? (unsigned)strtoul(arguments[argument_count - 1], NULL, 0) : 1;
    start();
    if (argument_count > 2) {
        check_stops = 1;
        check_begin(arguments[1]);
        run_part(arguments[1], seed);
        check_end();
        return check_report();
    }
    check_begin("captures_are_the_state_at_the_moment");
    captures_are_the_state_at_the_moment(seed);
    check_end();
    RUN(pinned_pages_are_refused);
    RUN(copies_wait_at_their_limit);
    check_begin("captures_beside_threads_are_one_moment");
    captures_beside_threads_are_one_moment(ROUNDS);
    check_end();
    RUN(a_frozen_context_stands_still);
    return check_report();
}
