#include "capture.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BUCKETS 1024
#define CHUNK_WORDS (MMSB__LEAF_RECORDS / 64) /* of a bit for each record */
#define URGENT_MAX 64

enum { OFF, CAPTURING, FROZEN };

/* Lines next to each other of a part, as they were at the moment. */
struct mmsb__preimage {
    mmsb__preimage_t *next;
    uint32_t offset, length;
    uint8_t bytes[];
};

/* What writers kept of a small page. */
typedef struct copy {
    struct copy *next;
    mmsb__image_t image;
    uint32_t index, generation;
    uint8_t *
        whole; /* bytes, mask and metadata as they were when the page was about to change as a whole; NULL = they are the page's */
    uint64_t whole_length;
    mmsb__part_t bytes, mask;
    uint64_t lines[]; /* of both */
} copy_t;

typedef struct removed {
    uint32_t index;
    uint64_t id;
} removed_t;

/* A page that was captured, for the table that the base has of its chunk. */
typedef struct found {
    uint32_t index;
    mmsb__saved_t saved;
} found_t;

/* Memory of copies. The saver gives back what writers take, and the next writer finds it warm. */
#define POOL_STEP 16
#define POOL_CLASSES 320 /* a page of 4096 bytes with its mask and some metadata */
#define POOL_SLAB (UINT64_C(2) << 20)

typedef struct slab {
    struct slab *next;
} slab_t;

typedef struct pool {
    uint8_t locked;            /* for a few instructions at a time */
    uint64_t bytes, limit;     /* of copies */
    void *given[POOL_CLASSES]; /* lists: the first word is the next one */
    slab_t *slabs;             /* the newest first, which is being cut */
    uint64_t used;             /* bytes of the newest */
} pool_t;

/* One for each context that was ever captured or frozen; never freed, because writers find it without a lock. */
struct mmsb__capture {
    uint32_t context;
    int mode;          /* OFF, CAPTURING, FROZEN */
    uint32_t touching; /* writers that look at it */

    /* The saver's alone. */
    uint32_t *chunks, *used;
    uint32_t chunk_count, chunk_at, record_at;
    uint32_t far_at, near_at; /* records of the chunk that are being fetched: the record, its bytes */
    mmsb__saved_t **base;
    uint64_t *differing; /* by chunk, a bit for each record that is not as the base has it; NULL = no base, all are to be saved */
    uint8_t *looked;     /* by chunk: its bits are there */
    uint32_t look_at;    /* the first chunk that nobody looks at */
    copy_t *drained;     /* copies taken off the list */
    uint64_t *removed_ids;
    found_t *found;
    uint64_t found_count, found_capacity;
    int refuse_pinned;
    int committed;

    copy_t *copies; /* pushed by writers */
    pool_t pool;

    pthread_mutex_t lock; /* of all below */
    mmsb__large_t *large[BUCKETS];
    removed_t *removed;
    uint64_t removed_count, removed_capacity;
    int64_t pages, bytes; /* what the state has more than the base */
    uint32_t urgent[URGENT_MAX];
    uint32_t urgent_count;
    int out_of_memory; /* something could not be noted: the capture fails */
    uint32_t pinned;   /* page that a writer would have had to copy, but that may not be saved; 0 = none */
    mmsb__capture_stats_t stats;
};

uint32_t mmsb__capturing, mmsb__moments;
static uint32_t frozen; /* contexts */
mmsb__saved_t *mmsb__saved[MMSB__LEAVES];
/* What the running capture of the chunk's context found, where its base has no table of the chunk. */
static mmsb__saved_t *fresh[MMSB__LEAVES];

static uint8_t *marks; /* by record */
static copy_t **kept;  /* by record: of those whose mark is MMSB__CAPTURE_PREIMAGE */

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiting_changed; /* initialised with the marks */
static uint32_t waiting;               /* threads in mmsb__capture_wait */

static void wake(void) {
    if (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) == 0)
        return;
    pthread_mutex_lock(&waiting_lock);
    pthread_cond_broadcast(&waiting_changed);
    pthread_mutex_unlock(&waiting_lock);
}

static uint8_t capture_state_of(uint32_t index) {
    return __atomic_load_n(&marks[index], __ATOMIC_ACQUIRE);
}

/* Whoever changes the page need not keep anything. */
static int needs_nothing(uint8_t mark) {
    return mark == MMSB__CAPTURE_DONE || mark == MMSB__CAPTURE_LATER;
}

static void set_capture_state(uint32_t index, uint8_t mark) {
    __atomic_store_n(&marks[index], mark, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------------------------------------- what was saved ---- */

static mmsb__saved_t *chunk_of(mmsb__saved_t **table, uint32_t chunk) {
    mmsb__saved_t *found = __atomic_load_n(&table[chunk], __ATOMIC_ACQUIRE);
    if (found)
        return found;
    mmsb__saved_t *made = calloc(MMSB__LEAF_RECORDS, sizeof *made);
    if (!made)
        return NULL;
    if (__atomic_compare_exchange_n(&table[chunk], &found, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return found;
}

mmsb__saved_t *mmsb__saved_leaf(uint32_t chunk) {
    return chunk_of(mmsb__saved, chunk);
}

void mmsb__saved_forget(uint32_t chunk) {
    free(mmsb__saved[chunk]);
    free(fresh[chunk]);
    mmsb__saved[chunk] = fresh[chunk] = NULL;
}

/* The base's page on the record; NULL = none. */
static const mmsb__saved_t *base_of(const mmsb__capture_t *capture, uint32_t index) {
    if (!capture->base || !capture->base[index >> MMSB__LEAF_BITS])
        return NULL;
    const mmsb__saved_t *saved = &capture->base[index >> MMSB__LEAF_BITS][index & (MMSB__LEAF_RECORDS - 1)];
    return saved->generation != 0 ? saved : NULL;
}

static void note_out_of_memory(mmsb__capture_t *capture) {
    __atomic_store_n(&capture->out_of_memory, 1, __ATOMIC_RELAXED);
}

/* Under the capture's lock. */
static void note_removed(mmsb__capture_t *capture, uint32_t index, const mmsb__saved_t *saved) {
    if (capture->removed_count == capture->removed_capacity) {
        uint64_t capacity = capture->removed_capacity != 0 ? 2 * capture->removed_capacity : 1024;
        removed_t *more = realloc(capture->removed, capacity * sizeof *more);
        if (!more) {
            note_out_of_memory(capture);
            return;
        }
        capture->removed = more;
        capture->removed_capacity = capacity;
    }
    capture->removed[capture->removed_count++] = (removed_t){index, saved->id};
    capture->pages--;
    capture->bytes -= (int64_t)saved->size;
}

/* What the next save will know of a page. An incremental save finds few: a list of them is less to touch than tables. */
static void note_found(mmsb__capture_t *capture, uint32_t index, mmsb__saved_t saved) {
    if (!capture->base || !capture->base[index >> MMSB__LEAF_BITS]) {
        mmsb__saved_t *chunk = chunk_of(fresh, index >> MMSB__LEAF_BITS);
        if (chunk)
            chunk[index & (MMSB__LEAF_RECORDS - 1)] = saved;
        else
            note_out_of_memory(capture);
        return;
    }
    if (capture->found_count == capture->found_capacity) {
        uint64_t capacity = capture->found_capacity != 0 ? 2 * capture->found_capacity : 1024;
        found_t *more = realloc(capture->found, capacity * sizeof *more);
        if (!more) {
            note_out_of_memory(capture);
            return;
        }
        capture->found = more;
        capture->found_capacity = capacity;
    }
    capture->found[capture->found_count++] = (found_t){index, saved};
}

/* Notes a page that is captured, for the next save and for the totals. */
static void note_captured(mmsb__capture_t *capture, uint32_t index, const mmsb__image_t *image, uint32_t generation,
                          uint32_t crc) {
    const mmsb__saved_t *saved = base_of(capture, index);
    note_found(capture, index, (mmsb__saved_t){image->version, image->id, image->size, generation, crc});
    pthread_mutex_lock(&capture->lock);
    if (saved && saved->generation != generation) {
        note_removed(capture, index, saved);
        saved = NULL;
    }
    capture->pages += !saved;
    capture->bytes += (int64_t)image->size - (saved ? (int64_t)saved->size : 0);
    pthread_mutex_unlock(&capture->lock);
}

/* ------------------------------------------------------------------------------------------------------ images ---- */

static const mmsb__side_t *side_of(const mmsb__record_t *record) {
    return record->side ? &mmsb__table.sides[record->side] : NULL;
}

static void fill_image(const mmsb__record_t *record, uint32_t index, uint64_t state, mmsb__image_t *image) {
    const mmsb__side_t *side = side_of(record);
    memset(image, 0, sizeof *image);
    image->id = mmsb__record_id(index, state);
    image->size = record->size;
    image->epoch = record->epoch;
    image->version = record->version;
    image->location = MMSB__STATE_LOCATION(state);
    image->device = side ? side->device : 0;
    image->numa_node = side ? side->numa_node : -1;
    image->flags = (state & MMSB__ADOPTED ? MMSB__IMAGE_ADOPTED : 0) | (state & MMSB__READ_ONLY ? MMSB__IMAGE_READ_ONLY : 0);
    image->metadata_count = side ? side->metadata_count : 0;
}

static uint64_t mask_length(const mmsb__record_t *record) {
    return record->mask_frame != 0 ? mmsb__mask_length(record->size) : 0;
}

static uint64_t metadata_length(const mmsb__record_t *record) {
    const mmsb__side_t *side = side_of(record);
    return side && side->metadata_frame ? side->metadata_length : 0;
}

static const uint8_t *metadata_bytes(const mmsb__record_t *record) {
    return mmsb__record_bytes(mmsb__record_at(side_of(record)->metadata_frame));
}

static int is_large(const mmsb__record_t *record, uint64_t state) {
    return record->size > MMSB__CHUNK_BYTES || (state & MMSB__NONRESIDENT) || metadata_length(record) > MMSB__CHUNK_BYTES;
}

static int as_saved(const mmsb__saved_t *saved, const mmsb__record_t *record, uint64_t state) {
    return saved && saved->generation == MMSB__HANDLE_GENERATION(state) &&
           saved->version == __atomic_load_n(&record->version, __ATOMIC_RELAXED);
}

/* Whether bytes may have changed that no version tells of. Both are looked at without a lock, too. */
static int suspect(const mmsb__record_t *record) {
    return mmsb__exposed(record) || __atomic_load_n(&record->write_pins, __ATOMIC_RELAXED) != 0;
}

/* Whether the page may not be saved, because its bytes may be half written. It is locked. */
static int refused(const mmsb__capture_t *capture, const mmsb__record_t *record) {
    return capture->refuse_pinned && record->write_pins != 0;
}

/* Where a page's bytes go behind what is there, and where its mask or metadata goes before it. */
static uint64_t place_behind(uint64_t used, uint64_t size) {
    uint64_t alignment = size < 256 ? 64 : size < 4096 ? 256 : 4096;
    return (used + alignment - 1) & ~(alignment - 1);
}

static uint64_t place_before(uint64_t end, uint64_t length) {
    return (end - length) & ~UINT64_C(63);
}

/* Whether a small page with all that belongs to it fits. */
static int fits(const mmsb__segment_t *room, uint64_t size, uint64_t mask, uint64_t metadata) {
    uint64_t used = place_behind(room->used, size) + size, around = 2 * 64; /* at most, because of places */
    return used + mask + metadata + around <= room->end && room->image_count < room->image_capacity &&
           room->extent_count + 3 <= room->extent_capacity;
}

/* Appends bytes of a small page, which fit. Their checksum follows. */
static void append(mmsb__segment_t *room, const mmsb__image_t *image, uint32_t kind, const uint8_t *bytes, uint64_t length) {
    if (length == 0)
        return;
    if (room->image_count == 0 || room->images[room->image_count - 1].id != image->id) {
        mmsb__image_t *entry = &room->images[room->image_count++];
        *entry = *image;
        entry->first_extent = room->extent_count;
        entry->extents = 0;
    }
    room->images[room->image_count - 1].extents++;
    uint64_t at = kind == MMSB__IMAGE_BYTES ? place_behind(room->used, image->size) : place_before(room->end, length);
    memcpy(room->buffer + at, bytes, length);
    room->extents[room->extent_count++] = (mmsb__image_extent_t){0, (uint32_t)length, (uint32_t)length, (uint32_t)at, 0, kind, 0};
    if (kind == MMSB__IMAGE_BYTES)
        room->used = at + length;
    else
        room->end = at;
}

/* ------------------------------------------------------------------------------------------- memory of copies ---- */

static uint64_t pool_class(uint64_t bytes) {
    return (bytes + POOL_STEP - 1) / POOL_STEP;
}

static void lock_pool(pool_t *pool) {
    while (__atomic_exchange_n(&pool->locked, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock_pool(pool_t *pool) {
    __atomic_store_n(&pool->locked, 0, __ATOMIC_RELEASE);
}

/* Under its lock. */
static void *pool_take(pool_t *pool, uint64_t class_number) {
    uint64_t size = class_number * POOL_STEP;
    void *taken = pool->given[class_number];
    if (taken) {
        pool->given[class_number] = *(void **)taken;
        return taken;
    }
    if (!pool->slabs || pool->used + size > POOL_SLAB) {
        /* No huge page: a virtual machine's host may need up to 30 ms to give one, and one writer would wait for all of it. */
        slab_t *slab = malloc(POOL_SLAB);
        if (!slab)
            return NULL;
        slab->next = pool->slabs;
        pool->slabs = slab;
        pool->used = POOL_STEP;
    }
    taken = (uint8_t *)pool->slabs + pool->used;
    pool->used += size;
    return taken;
}

static void pool_give(pool_t *pool, void *memory, uint64_t bytes) {
    uint64_t class_number = pool_class(bytes);
    if (class_number >= POOL_CLASSES)
        free(memory);
    lock_pool(pool);
    if (class_number < POOL_CLASSES) {
        *(void **)memory = pool->given[class_number];
        pool->given[class_number] = memory;
    }
    pool->bytes -= bytes;
    unlock_pool(pool);
}

/* Everything was given back. */
static void pool_end(pool_t *pool) {
    while (pool->slabs) {
        slab_t *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    memset(pool->given, 0, sizeof pool->given);
}

/* Memory for a copy: NULL where the limit does not allow it, *blocked 1, or where there is none, *blocked 0. One copy can always be. */
static void *take_copy(mmsb__capture_t *capture, uint64_t bytes, int *blocked) {
    pool_t *pool = &capture->pool;
    mmsb__capture_stats_t *stats = &capture->stats;
    uint64_t class_number = pool_class(bytes);
    void *copy = NULL;
    lock_pool(pool);
    *blocked = pool->bytes + bytes > pool->limit && pool->bytes != 0;
    if (!*blocked && (copy = class_number < POOL_CLASSES ? pool_take(pool, class_number) : malloc(bytes))) {
        pool->bytes += bytes;
        __atomic_store_n(&stats->copied_bytes, stats->copied_bytes + bytes, __ATOMIC_RELAXED);
        if (pool->bytes > stats->copied_peak)
            __atomic_store_n(&stats->copied_peak, pool->bytes, __ATOMIC_RELAXED);
    }
    unlock_pool(pool);
    if (!copy && !*blocked) /* the change goes on, and the capture fails */
        note_out_of_memory(capture);
    return copy;
}

/* Keeps the lines that bytes first … last of a part lie in, those that are not kept yet. 1: the limit of copies does not allow it yet. */
static int keep(mmsb__capture_t *capture, mmsb__part_t *part, const uint8_t *bytes, uint64_t first, uint64_t last) {
    int blocked;
    for (uint64_t line = first / MMSB__LINE_BYTES, end; line <= last / MMSB__LINE_BYTES; line = end) {
        end = line;
        while (end <= last / MMSB__LINE_BYTES && !(part->lines[end / 64] >> end % 64 & 1))
            end++;
        if (end == line) {
            end++;
            continue;
        }
        uint64_t offset = line * MMSB__LINE_BYTES,
                 length = end * MMSB__LINE_BYTES < part->length ? (end - line) * MMSB__LINE_BYTES : part->length - offset;
        mmsb__preimage_t *lines = take_copy(capture, sizeof *lines + length, &blocked);
        if (!lines)
            return blocked;
        *lines = (mmsb__preimage_t){part->kept, (uint32_t)offset, (uint32_t)length};
        memcpy(lines->bytes, bytes + offset, length);
        part->kept = lines;
        for (uint64_t at = line; at < end; at++)
            part->lines[at / 64] |= UINT64_C(1) << at % 64;
    }
    return 0;
}

/* Makes a copy of a part what the part was at the moment. Nobody keeps lines of it any more. */
static void put_back(const mmsb__part_t *part, uint8_t *copy) {
    for (const mmsb__preimage_t *lines = part->kept; lines; lines = lines->next)
        memcpy(copy + lines->offset, lines->bytes, lines->length);
}

static void free_kept(mmsb__capture_t *capture, mmsb__part_t *part) {
    while (part->kept) {
        mmsb__preimage_t *lines = part->kept;
        part->kept = lines->next;
        pool_give(&capture->pool, lines, sizeof *lines + lines->length);
    }
}

static uint64_t words_of(uint64_t length) {
    return (length + 64 * MMSB__LINE_BYTES - 1) / (64 * MMSB__LINE_BYTES);
}

/* ----------------------------------------------------------------------------------------------- large pages ---- */

static mmsb__large_t *find_large(mmsb__capture_t *capture, uint32_t index) {
    mmsb__large_t *large = capture->large[index % BUCKETS];
    while (large && large->index != index)
        large = large->next;
    return large;
}

static uint32_t parts_of(uint64_t length) {
    return (uint32_t)((length + MMSB__CHUNK_BYTES - 1) / MMSB__CHUNK_BYTES);
}

static uint32_t part_length(uint64_t length, uint32_t part) {
    uint64_t left = length - part * MMSB__CHUNK_BYTES;
    return (uint32_t)(left < MMSB__CHUNK_BYTES ? left : MMSB__CHUNK_BYTES);
}

/* The capture's knowledge of a large page that is locked, made where there is none yet. NULL: no memory. */
static mmsb__large_t *open_large(mmsb__capture_t *capture, mmsb__record_t *record, uint64_t state) {
    uint32_t index = (uint32_t)(record - mmsb__table.records);
    pthread_mutex_lock(&capture->lock);
    mmsb__large_t *large = find_large(capture, index);
    pthread_mutex_unlock(&capture->lock);
    if (large)
        return large;
    uint32_t byte_parts = parts_of(record->size), mask_parts = parts_of(mask_length(record));
    uint64_t metadata = metadata_length(record);
    large = calloc(1, sizeof *large + (size_t)(byte_parts + mask_parts) * sizeof large->parts[0]);
    if (large && metadata > 0 && !(large->metadata = malloc(metadata))) {
        free(large);
        large = NULL;
    }
    if (!large)
        return NULL;
    if (metadata > 0)
        memcpy(large->metadata, metadata_bytes(record), metadata);
    large->metadata_length = metadata;
    large->index = index;
    large->byte_parts = byte_parts;
    large->mask_parts = mask_parts;
    for (uint32_t part = 0; part < byte_parts + mask_parts; part++)
        large->parts[part].length =
            part < byte_parts ? part_length(record->size, part) : part_length(mmsb__mask_length(record->size), part - byte_parts);
    fill_image(record, index, state, &large->image);
    const mmsb__saved_t *saved = base_of(capture, index);
    large->unchanged = (uint32_t)as_saved(saved, record, state);
    if (saved && saved->generation == MMSB__HANDLE_GENERATION(state) && saved->size == record->size &&
        record->size > MMSB__CHUNK_BYTES)
        large->image.flags |= MMSB__IMAGE_PARTIAL;
    large->generation = MMSB__HANDLE_GENERATION(state);
    pthread_mutex_lock(&capture->lock);
    large->next = capture->large[index % BUCKETS];
    capture->large[index % BUCKETS] = large;
    pthread_mutex_unlock(&capture->lock);
    set_capture_state(index, MMSB__CAPTURE_PARTIAL);
    return large;
}

mmsb__large_t *mmsb__capture_large(mmsb__capture_t *capture, uint32_t index, mmsb_status_t *failed) {
    mmsb__record_t *record = mmsb__record_at(index);
    mmsb__large_t *large = NULL;
    uint64_t state;
    *failed = MMSB_OK;
    if (!mmsb__record_lock_page(index, &state)) /* captured, and then ended */
        return NULL;
    uint8_t mark = capture_state_of(index);
    if (mark == MMSB__CAPTURE_NONE || mark == MMSB__CAPTURE_PARTIAL) {
        if (refused(capture, record))
            *failed = MMSB_E_BUSY;
        else if (mark == MMSB__CAPTURE_NONE && as_saved(base_of(capture, index), record, state) && !suspect(record))
            set_capture_state(index, MMSB__CAPTURE_DONE);
        else if (!(large = open_large(capture, record, state)))
            *failed = MMSB_E_OUT_OF_MEMORY;
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    return large;
}

/* Where a part of a page lies that is locked, has an address, and is as it was. */
static const uint8_t *part_bytes(const mmsb__large_t *large, const mmsb__record_t *record, uint32_t part) {
    if (part < large->byte_parts)
        return mmsb__record_bytes(record) + part * MMSB__CHUNK_BYTES;
    return mmsb__locator_address(record->mask_locator) + (part - large->byte_parts) * MMSB__CHUNK_BYTES;
}

static void free_part(mmsb__capture_t *capture, mmsb__part_t *part) {
    free_kept(capture, part);
    if (part->lines)
        pool_give(&capture->pool, part->lines, words_of(part->length) * sizeof *part->lines);
    part->lines = NULL;
    wake();
}

static void copy_granules(uint8_t *into, const uint8_t *from, uint32_t length, uint64_t blocks) {
    if (blocks == UINT64_MAX) {
        memcpy(into, from, length);
        return;
    }
    for (uint64_t at = 0; at < length && blocks != 0; at += MMSB__GRANULE_BYTES, blocks >>= 1) {
        if (blocks & 1)
            memcpy(into + at, from + at, length - at < MMSB__GRANULE_BYTES ? length - at : MMSB__GRANULE_BYTES);
    }
}

uint32_t mmsb__capture_part(mmsb__capture_t *capture, mmsb__large_t *large, uint32_t number, uint64_t blocks, uint8_t *buffer) {
    mmsb__part_t *part = &large->parts[number];
    mmsb__record_t *record = mmsb__record_at(large->index);
    /* The page is as it was, but for lines that were kept: whoever ends or moves it waits. */
    uint64_t state = mmsb__record_lock_library(large->index);
    int away = (state & MMSB__NONRESIDENT) && number < large->byte_parts, on_device = away && mmsb__on_device(state);
    mmsb_status_t status = MMSB_OK;
    if (on_device) { /* there parts are not worth asking for */
        status = mmsb__device_read(record, number * MMSB__CHUNK_BYTES, buffer, part->length);
        state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    } else if (away) {
        status = mmsb__page_make_resident(record, &state);
    }
    if (status != MMSB_OK) {
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
        return 0;
    }
    if (!on_device)
        copy_granules(buffer, part_bytes(large, record, number), part->length, blocks);
    __atomic_store_n(&part->taken, 1, __ATOMIC_RELEASE);
    mmsb__page_unlock(record, state);
    put_back(part, buffer);
    free_part(capture, part);
    return part->length;
}

void mmsb__capture_skip(mmsb__large_t *large, uint32_t number) {
    __atomic_store_n(&large->parts[number].taken, 1, __ATOMIC_RELEASE);
}

/* With what was kept of parts that nobody took: as the base has them, of a mask that is not written, or of a capture that has failed. */
static void free_large(mmsb__capture_t *capture, mmsb__large_t *large) {
    for (uint32_t number = 0; number < large->byte_parts + large->mask_parts; number++)
        free_part(capture, &large->parts[number]);
    free(large->metadata);
    free(large);
}

void mmsb__capture_large_done(mmsb__capture_t *capture, mmsb__large_t *large) {
    uint32_t index = large->index;
    uint64_t state =
        mmsb__record_lock_library(index); /* a writer may be copying; the page cannot have ended before its mark says so */
    pthread_mutex_lock(&capture->lock);
    mmsb__large_t **link = &capture->large[index % BUCKETS];
    while (*link != large)
        link = &(*link)->next;
    *link = large->next;
    pthread_mutex_unlock(&capture->lock);
    set_capture_state(index, MMSB__CAPTURE_DONE);
    __atomic_store_n(&mmsb__record_at(index)->state, state, __ATOMIC_RELEASE);
    note_captured(capture, index, &large->image, large->generation, 0);
    free_large(capture, large);
    wake();
}

uint32_t mmsb__capture_urgent(mmsb__capture_t *capture) {
    if (__atomic_load_n(&capture->urgent_count, __ATOMIC_RELAXED) == 0)
        return 0;
    pthread_mutex_lock(&capture->lock);
    uint32_t count = capture->urgent_count, index = count > 0 ? capture->urgent[count - 1] : 0;
    if (count > 0)
        __atomic_store_n(&capture->urgent_count, count - 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&capture->lock);
    return index;
}

static void make_urgent(mmsb__capture_t *capture, uint32_t index) {
    pthread_mutex_lock(&capture->lock);
    uint32_t i = 0;
    while (i < capture->urgent_count && capture->urgent[i] != index)
        i++;
    if (i == capture->urgent_count && i < URGENT_MAX) {
        capture->urgent[i] = index;
        __atomic_store_n(&capture->urgent_count, i + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&capture->lock);
}

/* ----------------------------------------------------------------------------------------------------- writers ---- */

static void push_copy(mmsb__capture_t *capture, copy_t *copy) {
    copy->next = __atomic_load_n(&capture->copies, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&capture->copies, &copy->next, copy, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
}

/* What is kept of a small page, begun where nothing is yet; NULL without memory, or where the limit does not allow it. */
static copy_t *copy_of(mmsb__capture_t *capture, const mmsb__record_t *record, uint32_t index, uint64_t state, int *blocked) {
    if (capture_state_of(index) == MMSB__CAPTURE_PREIMAGE)
        return kept[index];
    uint64_t mask = mask_length(record), byte_words = words_of(record->size), words = byte_words + words_of(mask);
    copy_t *copy = take_copy(capture, sizeof *copy + words * sizeof *copy->lines, blocked);
    if (!copy)
        return NULL;
    fill_image(record, index, state, &copy->image);
    copy->index = index;
    copy->generation = MMSB__HANDLE_GENERATION(state);
    copy->whole = NULL;
    copy->whole_length = 0;
    memset(copy->lines, 0, words * sizeof *copy->lines);
    copy->bytes = (mmsb__part_t){.lines = copy->lines, .length = (uint32_t)record->size};
    copy->mask = (mmsb__part_t){.lines = copy->lines + byte_words, .length = (uint32_t)mask};
    kept[index] = copy;
    set_capture_state(index, MMSB__CAPTURE_PREIMAGE);
    push_copy(capture, copy);
    return copy;
}

/* The page is about to change as a whole, or to end. */
static int copy_whole(mmsb__capture_t *capture, const mmsb__record_t *record, uint32_t index, uint64_t state) {
    /* A mask that has been made since is no part of it. */
    uint64_t mask = capture_state_of(index) == MMSB__CAPTURE_PREIMAGE ? kept[index]->mask.length : mask_length(record);
    uint64_t metadata = metadata_length(record), length = record->size + mask + metadata;
    int blocked;
    uint8_t *whole = take_copy(capture, length, &blocked);
    copy_t *copy = whole ? copy_of(capture, record, index, state, &blocked) : NULL;
    if (!copy) {
        if (whole)
            pool_give(&capture->pool, whole, length);
        return blocked;
    }
    memcpy(whole, mmsb__record_bytes(record), record->size);
    if (mask > 0)
        memcpy(whole + record->size, mmsb__locator_address(record->mask_locator), mask);
    if (metadata > 0)
        memcpy(whole + record->size + mask, metadata_bytes(record), metadata);
    copy->whole = whole;
    copy->whole_length = length;
    set_capture_state(index, MMSB__CAPTURE_DONE);
    return 0;
}

static int keep_small(mmsb__capture_t *capture, const mmsb__record_t *record, copy_t *copy, uint64_t first, uint64_t last) {
    return keep(capture, &copy->bytes, mmsb__record_bytes(record), first, last) ||
           (copy->mask.length > 0 &&
            keep(capture, &copy->mask, mmsb__locator_address(record->mask_locator), first / 8, last / 8));
}

static int keep_part(mmsb__capture_t *capture, mmsb__large_t *large, const mmsb__record_t *record, uint32_t number,
                     uint64_t first, uint64_t last) {
    mmsb__part_t *part = &large->parts[number];
    int blocked;
    if (__atomic_load_n(&part->taken, __ATOMIC_RELAXED)) /* or skipped */
        return 0;
    if (!part->lines) {
        uint64_t bytes = words_of(part->length) * sizeof *part->lines;
        if (!(part->lines = take_copy(capture, bytes, &blocked)))
            return blocked;
        memset(part->lines, 0, bytes);
    }
    return keep(capture, part, part_bytes(large, record, number), first, last);
}

/* Bytes first … last of what begins with a part, number by number. */
static int keep_parts(mmsb__capture_t *capture, mmsb__large_t *large, const mmsb__record_t *record, uint32_t number,
                      uint64_t first, uint64_t last) {
    for (uint64_t part = first / MMSB__CHUNK_BYTES; part <= last / MMSB__CHUNK_BYTES; part++) {
        uint64_t begin = part * MMSB__CHUNK_BYTES, end = begin + MMSB__CHUNK_BYTES - 1;
        if (keep_part(capture, large, record, number + (uint32_t)part, first > begin ? first - begin : 0,
                      (last < end ? last : end) - begin))
            return 1;
    }
    return 0;
}

static int keep_large(mmsb__capture_t *capture, mmsb__large_t *large, const mmsb__record_t *record, uint64_t first,
                      uint64_t last) {
    return keep_parts(capture, large, record, 0, first, last) ||
           (large->mask_parts > 0 && keep_parts(capture, large, record, large->byte_parts, first / 8, last / 8));
}

static int touch_small(mmsb__capture_t *capture, mmsb__record_t *record, uint32_t index, uint64_t state, uint64_t offset,
                       uint64_t length) {
    if (length == UINT64_MAX)
        return copy_whole(capture, record, index, state);
    int blocked;
    copy_t *copy = copy_of(capture, record, index, state, &blocked);
    if (!copy)
        return blocked;
    return length > 0 && keep_small(capture, record, copy, offset, offset + length - 1);
}

static int touch(mmsb__capture_t *capture, mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    uint32_t index = (uint32_t)(record - mmsb__table.records);
    uint8_t mark = capture_state_of(index);
    if (needs_nothing(mark))
        return 0;
    if (mark == MMSB__CAPTURE_NONE && as_saved(base_of(capture, index), record, state) && !suspect(record)) {
        set_capture_state(index, MMSB__CAPTURE_DONE);
        return 0;
    }
    if (refused(capture, record)) { /* the change goes on, and the capture fails */
        __atomic_store_n(&capture->pinned, index, __ATOMIC_RELAXED);
        return 0;
    }
    if (mark == MMSB__CAPTURE_PREIMAGE || (mark == MMSB__CAPTURE_NONE && !is_large(record, state)))
        return touch_small(capture, record, index, state, offset, length);
    mmsb__large_t *large = open_large(capture, record, state);
    if (!large) {
        note_out_of_memory(capture);
        return 0;
    }
    int again = length == UINT64_MAX || (length > 0 && keep_large(capture, large, record, offset, offset + length - 1));
    if (again)
        make_urgent(capture, index);
    return again;
}

static mmsb__capture_t *capture_of(uint32_t context) {
    return __atomic_load_n(&mmsb__context_record(context)->capture, __ATOMIC_ACQUIRE);
}

/* The context's mode, which stays as long as the caller has not left: between them it knows whose marks it sees. */
static int enter(mmsb__capture_t *capture) {
    __atomic_add_fetch(&capture->touching, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST);
}

static void leave(mmsb__capture_t *capture) {
    __atomic_sub_fetch(&capture->touching, 1, __ATOMIC_RELEASE);
}

int mmsb__capture_touch_slow(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    uint32_t index = (uint32_t)(record - mmsb__table.records);
    mmsb__capture_t *capture = capture_of(mmsb__record_context(index));
    if (!capture)
        return 0;
    /* Where the mark is an earlier capture's, the call has not seen the next moment, and its change is part of that capture. */
    if (MMSB__LIKELY(__atomic_load_n(&frozen, __ATOMIC_RELAXED) == 0) && needs_nothing(capture_state_of(index)))
        return 0;
    int mode = enter(capture);
    int again = mode == OFF ? 0 : mode == FROZEN ? 1 : touch(capture, record, state, offset, length);
    leave(capture);
    return again;
}

void mmsb__capture_created_slow(uint32_t index) {
    mmsb__capture_t *capture = capture_of(mmsb__record_context(index));
    if (!capture)
        return;
    if (enter(capture) == CAPTURING && capture_state_of(index) == MMSB__CAPTURE_NONE)
        set_capture_state(index, MMSB__CAPTURE_LATER);
    leave(capture);
}

uint32_t mmsb__moments_now(void) {
    uint32_t moments;
    while ((moments = __atomic_load_n(&mmsb__moments, __ATOMIC_SEQ_CST)) & 1)
        sched_yield();
    return moments;
}

/* A little while, or until something has changed. */
static void wait_for_change(void) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&waiting_lock);
    pthread_cond_timedwait(&waiting_changed, &waiting_lock, &until);
    pthread_mutex_unlock(&waiting_lock);
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void mmsb__capture_wait(uint32_t index) {
    mmsb__capture_t *capture = capture_of(mmsb__record_context(index));
    int counts = capture && __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST) == CAPTURING;
    uint64_t begin = now();
    wait_for_change();
    if (!counts)
        return;
    __atomic_add_fetch(&capture->stats.waits, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&capture->stats.waited_ns, now() - begin, __ATOMIC_RELAXED);
}

void mmsb__context_await_slow(uint32_t context) {
    const mmsb__capture_t *capture = capture_of(context);
    while (capture && __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST) == FROZEN)
        wait_for_change();
}

/* ------------------------------------------------------------------------------------------------------- saver ---- */

static int reserve_marks(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!marks) {
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* a wait does not depend on what time it is */
        pthread_cond_init(&waiting_changed, &attributes);
        pthread_condattr_destroy(&attributes);
        const size_t records = (size_t)1 << MMSB__INDEX_BITS;
        void *made = mmap(NULL, records * (sizeof *kept + sizeof *marks), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made != MAP_FAILED) {
            kept = made;
            __atomic_store_n(&marks, (uint8_t *)made + records * sizeof *kept, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&lock);
    return marks != NULL;
}

/* The context's capture, made where it has none. */
static mmsb__capture_t *capture_for(uint32_t context) {
    mmsb__capture_t *capture = capture_of(context);
    if (capture)
        return capture;
    if (!reserve_marks() || !(capture = calloc(1, sizeof *capture))) {
        mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory to capture pages");
        return NULL;
    }
    capture->context = context;
    pthread_mutex_init(&capture->lock, NULL);
    mmsb__capture_t *other = NULL;
    if (__atomic_compare_exchange_n(&mmsb__context_record(context)->capture, &other, capture, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return capture;
    free(capture);
    return other;
}

static void turn_on(mmsb__capture_t *capture, int mode) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    __atomic_add_fetch(&mmsb__moments, 1, __ATOMIC_SEQ_CST);
    if (mode == FROZEN)
        __atomic_add_fetch(&frozen, 1, __ATOMIC_SEQ_CST);
    mmsb__detour_begin();
    /* In this order: whoever sees the mode sees the count, and so does everybody after it, whatever other captures do. */
    __atomic_add_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&capture->mode, mode, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&mmsb__moments, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&lock);
}

/* What writers that look at the capture have seen of it is over. */
static void await_touching(const mmsb__capture_t *capture) {
    while (__atomic_load_n(&capture->touching, __ATOMIC_SEQ_CST) != 0)
        sched_yield();
}

static void turn_off(mmsb__capture_t *capture) {
    if (__atomic_exchange_n(&capture->mode, OFF, __ATOMIC_SEQ_CST) == FROZEN)
        __atomic_sub_fetch(&frozen, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    mmsb__detour_end();
    await_touching(capture);
    wake();
}

void mmsb__capture_settle(mmsb__capture_t *capture) {
    mmsb__synchronize(mmsb__context_record(capture->context));
}

/* Who waited for an earlier capture may be counting still. */
static void reset_stats(mmsb__capture_stats_t *stats) {
    __atomic_store_n(&stats->copied_bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&stats->copied_peak, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&stats->waits, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&stats->waited_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&stats->compared_bytes, 0, __ATOMIC_RELAXED);
}

static void free_chunks(mmsb__capture_t *capture) {
    free(capture->chunks);
    free(capture->differing);
    free(capture->looked);
    capture->chunks = NULL;
    capture->differing = NULL;
    capture->looked = NULL;
    capture->chunk_count = 0;
}

mmsb__capture_t *mmsb__capture_begin(uint32_t context, const uint32_t *chunks, const uint32_t *used, uint32_t count,
                                     mmsb__saved_t **base, uint64_t copy_limit, int refuse_pinned) {
    mmsb__capture_t *capture = capture_for(context);
    if (!capture)
        return NULL;
    capture->chunks = malloc((count + 1) * 2 * sizeof *chunks);
    capture->differing = base ? malloc((count + 1) * CHUNK_WORDS * sizeof(uint64_t)) : NULL;
    capture->looked = base ? calloc(count + 1, 1) : NULL;
    if (!capture->chunks || (base && (!capture->differing || !capture->looked))) {
        free_chunks(capture);
        mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory to capture %u chunks of pages", count);
        return NULL;
    }
    capture->used = capture->chunks + count + 1;
    memcpy(capture->chunks, chunks, count * sizeof *chunks);
    memcpy(capture->used, used, count * sizeof *used);
    capture->chunk_count = count;
    capture->chunk_at = capture->record_at = capture->look_at = 0;
    capture->far_at = capture->near_at = 0;
    capture->base = base;
    capture->pool.limit = copy_limit;
    capture->refuse_pinned = refuse_pinned;
    capture->committed = 0;
    capture->removed_count = 0;
    capture->pages = capture->bytes = 0;
    capture->urgent_count = 0;
    capture->out_of_memory = 0;
    capture->pinned = 0;
    reset_stats(&capture->stats);
    for (uint32_t i = 0; i < count; i++)
        memset(marks + ((size_t)chunks[i] << MMSB__LEAF_BITS), MMSB__CAPTURE_NONE, MMSB__LEAF_RECORDS);
    turn_on(capture, CAPTURING);
    return capture;
}

void mmsb__capture_later(uint32_t context, uint32_t chunk) {
    mmsb__capture_t *capture = capture_of(context);
    if (capture && __atomic_load_n(&capture->mode, __ATOMIC_SEQ_CST) == CAPTURING)
        memset(marks + ((size_t)chunk << MMSB__LEAF_BITS), MMSB__CAPTURE_LATER, MMSB__LEAF_RECORDS);
}

typedef enum step { GO_ON, FULL, LARGE, PINNED } step_t;

/* Puts a small page into the room, which has space: as it is now, or what was copied when it was about to change as a whole. */
static void put_page(mmsb__segment_t *room, const mmsb__image_t *image, const uint8_t *bytes, const uint8_t *mask,
                     uint64_t mask_length, const uint8_t *metadata, uint64_t metadata_length) {
    append(room, image, MMSB__IMAGE_BYTES, bytes, image->size);
    append(room, image, MMSB__IMAGE_MASK, mask, mask_length);
    append(room, image, MMSB__IMAGE_METADATA, metadata, metadata_length);
}

static void put_record(mmsb__segment_t *room, const mmsb__image_t *image, const mmsb__record_t *record, uint64_t mask) {
    uint64_t metadata = metadata_length(record);
    put_page(room, image, mmsb__record_bytes(record), mask > 0 ? mmsb__locator_address(record->mask_locator) : NULL, mask,
             metadata > 0 ? metadata_bytes(record) : NULL, metadata);
}

/* The extents of a page from first on are as they will be in the file. */
static void finish_page(mmsb__capture_t *capture, mmsb__segment_t *room, uint32_t first, uint32_t index,
                        const mmsb__image_t *image, uint32_t generation) {
    for (uint32_t i = first; i < room->extent_count; i++)
        room->extents[i].crc = mmsb__bytes.crc32c(0, room->buffer + room->extents[i].at, room->extents[i].length);
    note_captured(capture, index, image, generation, room->extents[first].crc);
}

static void free_copy(mmsb__capture_t *capture, copy_t *copy) {
    uint64_t words = words_of(copy->bytes.length) + words_of(copy->mask.length);
    free_kept(capture, &copy->bytes);
    free_kept(capture, &copy->mask);
    if (copy->whole)
        pool_give(&capture->pool, copy->whole, copy->whole_length);
    pool_give(&capture->pool, copy, sizeof *copy + words * sizeof *copy->lines);
}

/* Puts a page into the room of which something was kept, and gives its memory back. */
static step_t save_copy(mmsb__capture_t *capture, mmsb__segment_t *room, copy_t *copy) {
    const mmsb__image_t *image = &copy->image;
    uint32_t first = room->extent_count, index = copy->index;
    const mmsb__record_t *record = mmsb__record_at(index);
    uint64_t state;
    if (capture_state_of(index) == MMSB__CAPTURE_PREIMAGE && mmsb__record_lock_page(index, &state)) {
        step_t step = GO_ON;
        if (capture_state_of(index) == MMSB__CAPTURE_PREIMAGE) {
            if (refused(capture, record)) {
                step = PINNED;
            } else if (!fits(room, image->size, copy->mask.length, metadata_length(record))) {
                step = FULL;
            } else {
                put_record(room, image, record, copy->mask.length);
                set_capture_state(index, MMSB__CAPTURE_DONE);
            }
        }
        mmsb__record_unlock(index, state);
        if (step != GO_ON)
            return step;
    }
    if (copy->whole) { /* which is not seen before the mark */
        const uint8_t *mask = copy->whole + image->size, *metadata = mask + copy->mask.length;
        uint64_t metadata_length = copy->whole_length - image->size - copy->mask.length;
        if (!fits(room, image->size, copy->mask.length, metadata_length))
            return FULL;
        put_page(room, image, copy->whole, mask, copy->mask.length, metadata, metadata_length);
    }
    put_back(&copy->bytes, room->buffer + room->extents[first].at);
    if (copy->mask.length > 0)
        put_back(&copy->mask, room->buffer + room->extents[first + 1].at);
    finish_page(capture, room, first, index, image, copy->generation);
    free_copy(capture, copy);
    wake();
    return GO_ON;
}

/* GO_ON: all copies that there are have been put into the room. */
static step_t save_copies(mmsb__capture_t *capture, mmsb__segment_t *room, uint32_t *index) {
    for (;;) {
        if (!capture->drained)
            capture->drained = __atomic_exchange_n(&capture->copies, NULL, __ATOMIC_ACQUIRE);
        copy_t *copy = capture->drained;
        if (!copy)
            return GO_ON;
        copy_t *next = copy->next;
        *index = copy->index;
        step_t step = save_copy(capture, room, copy);
        if (step != GO_ON)
            return step;
        capture->drained = next;
    }
}

/* A page that is locked, and whose mark is none. Unlocks it. */
static step_t save_locked(mmsb__capture_t *capture, mmsb__segment_t *room, mmsb__record_t *record, uint32_t index,
                          uint64_t state) {
    const mmsb__saved_t *saved = base_of(capture, index);
    uint32_t first = room->extent_count;
    uint64_t mask = mask_length(record);
    int suspected = suspect(record), same = as_saved(saved, record, state), large = is_large(record, state);
    mmsb__image_t image;
    step_t step = GO_ON;
    if (same && suspected && !large) {
        __atomic_add_fetch(&capture->stats.compared_bytes, record->size, __ATOMIC_RELAXED);
        suspected = mmsb__bytes.crc32c(0, mmsb__record_bytes(record), record->size) != saved->crc;
    }
    if (refused(capture, record)) {
        step = PINNED;
    } else if (same && !suspected) {
        set_capture_state(index, MMSB__CAPTURE_DONE);
    } else if (large) {
        step = LARGE;
    } else if (!fits(room, record->size, mask, metadata_length(record))) {
        step = FULL;
    } else {
        fill_image(record, index, state, &image);
        put_record(room, &image, record, mask);
        set_capture_state(index, MMSB__CAPTURE_DONE);
    }
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    if (room->extent_count > first)
        finish_page(capture, room, first, index, &image, MMSB__HANDLE_GENERATION(state));
    return step;
}

/* Unlocked and as it was saved: whoever changes it from now on looks first. */
static int is_unchanged(const mmsb__capture_t *capture, uint32_t index) {
    const mmsb__record_t *record = mmsb__record_at(index);
    uint64_t state = mmsb__state_load(record);
    return MMSB__HANDLE_KIND(state) == MMSB_KIND_PAGE && !(state & MMSB__OWNER_MASK) &&
           as_saved(base_of(capture, index), record, state) && !suspect(record);
}

static step_t save_record(mmsb__capture_t *capture, mmsb__segment_t *room, uint32_t index) {
    mmsb__record_t *record = mmsb__record_at(index);
    for (;;) {
        uint8_t mark = capture_state_of(index);
        if (mark == MMSB__CAPTURE_DONE || mark == MMSB__CAPTURE_PREIMAGE)
            return GO_ON;
        if (mark == MMSB__CAPTURE_PARTIAL)
            return LARGE;
        const mmsb__saved_t *saved = base_of(capture, index);
        uint64_t state = mmsb__state_load(record);
        if (mark == MMSB__CAPTURE_LATER || MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE) {
            /* What begins here from now on is not part of it, even where its creator has not seen the moment. */
            if (mark == MMSB__CAPTURE_NONE &&
                !__atomic_compare_exchange_n(&marks[index], &mark, MMSB__CAPTURE_LATER, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                continue; /* a page ended after the look at its mark */
            if (saved) {
                pthread_mutex_lock(&capture->lock);
                note_removed(capture, index, saved);
                pthread_mutex_unlock(&capture->lock);
            }
            return GO_ON;
        }
        if (is_unchanged(capture, index))
            return GO_ON;
        if (!mmsb__record_lock_page(index, &state))
            continue;
        if (capture_state_of(index) == MMSB__CAPTURE_NONE)
            return save_locked(capture, room, record, index, state);
        __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
    }
}

int mmsb__capture_look(mmsb__capture_t *capture) {
    if (!capture->differing)
        return 0;
    uint32_t chunk = __atomic_fetch_add(&capture->look_at, 1, __ATOMIC_RELAXED);
    if (chunk >= capture->chunk_count) {
        __atomic_store_n(&capture->look_at, capture->chunk_count, __ATOMIC_RELAXED); /* does not wrap */
        return 0;
    }
    uint64_t *words = capture->differing + chunk * CHUNK_WORDS;
    uint32_t first = capture->chunks[chunk] << MMSB__LEAF_BITS;
    memset(words, 0, CHUNK_WORDS * sizeof *words);
    for (uint32_t i = 0; i < capture->used[chunk]; i++)
        words[i / 64] |= (uint64_t)!is_unchanged(capture, first | i) << i % 64;
    __atomic_store_n(&capture->looked[chunk], 1, __ATOMIC_RELEASE);
    return 1;
}

/* The first record from at on of the saver's chunk that was found to differ; used, where none was. */
static uint32_t differing_from(const mmsb__capture_t *capture, uint32_t at) {
    const uint64_t *words = capture->differing + capture->chunk_at * CHUNK_WORDS;
    const uint32_t used = capture->used[capture->chunk_at];
    while (at < used) {
        uint64_t left = words[at / 64] >> at % 64;
        if (left != 0)
            return at + (uint32_t)__builtin_ctzll(left);
        at = (at / 64 + 1) * 64;
    }
    return used;
}

static void fetch_far(mmsb__capture_t *capture) {
    capture->far_at = differing_from(capture, capture->far_at + 1);
    uint32_t chunk = capture->chunks[capture->chunk_at];
    __builtin_prefetch(mmsb__record_at(chunk << MMSB__LEAF_BITS | (capture->far_at & (MMSB__LEAF_RECORDS - 1))), 1);
    if (capture->base[chunk])
        __builtin_prefetch(&capture->base[chunk][capture->far_at & (MMSB__LEAF_RECORDS - 1)]);
}

static void fetch_near(mmsb__capture_t *capture) {
    enum { LINES = 8 }; /* from the first few on the processor fetches by itself */
    capture->near_at = differing_from(capture, capture->near_at + 1);
    if (capture->near_at >= capture->used[capture->chunk_at])
        return;
    const mmsb__record_t *record = mmsb__record_at(capture->chunks[capture->chunk_at] << MMSB__LEAF_BITS | capture->near_at);
    const uint64_t mask = __atomic_load_n(&record->mask_locator, __ATOMIC_RELAXED);
    const uint8_t *bytes = mmsb__record_bytes(record);
    for (int line = 0; line < LINES; line++)
        __builtin_prefetch(bytes + line * 64);
    if (mask != 0)
        __builtin_prefetch(mmsb__locator_address(mask));
}

/* What differs lies anywhere: each page would wait for its record, then for its bytes and its mask. */
static void fetch_behind(mmsb__capture_t *capture, uint32_t at) {
    enum { FAR = 8, NEAR = 4 };
    const int begins = capture->near_at <= at;
    if (begins)
        capture->far_at = capture->near_at = at;
    for (int i = 0; i < (begins ? FAR : 1); i++)
        fetch_far(capture);
    for (int i = 0; i < (begins ? NEAR : 1); i++)
        fetch_near(capture);
}

/* The first record from record_at on of the saver's chunk that is to be saved; used, where none is. */
static uint32_t next_differing(mmsb__capture_t *capture) {
    if (!capture->differing)
        return capture->record_at;
    while (!__atomic_load_n(&capture->looked[capture->chunk_at], __ATOMIC_ACQUIRE)) {
        if (!mmsb__capture_look(capture))
            sched_yield();
    }
    uint32_t next = differing_from(capture, capture->record_at);
    if (next < capture->used[capture->chunk_at])
        fetch_behind(capture, next);
    return next;
}

static int any_pinned(const mmsb__capture_t *capture, uint32_t *index) {
    *index = __atomic_load_n(&capture->pinned, __ATOMIC_RELAXED);
    return *index != 0;
}

mmsb__fill_t mmsb__capture_fill(mmsb__capture_t *capture, mmsb__segment_t *room, uint32_t *index) {
    static const mmsb__fill_t fills[] = {[FULL] = MMSB__FILL_FULL, [LARGE] = MMSB__FILL_LARGE, [PINNED] = MMSB__FILL_PINNED};
    step_t step = GO_ON;
    if (any_pinned(capture, index))
        return MMSB__FILL_PINNED;
    for (; capture->chunk_at < capture->chunk_count;
         capture->chunk_at++, capture->record_at = capture->far_at = capture->near_at = 0) {
        for (; (capture->record_at = next_differing(capture)) < capture->used[capture->chunk_at]; capture->record_at++) {
            if (MMSB__UNLIKELY(__atomic_load_n(&capture->copies, __ATOMIC_RELAXED) || capture->drained))
                step = save_copies(capture, room, index);
            if (MMSB__LIKELY(step == GO_ON)) {
                *index = capture->chunks[capture->chunk_at] << MMSB__LEAF_BITS | capture->record_at;
                step = save_record(capture, room, *index);
                capture->record_at += step == LARGE;
            }
            if (MMSB__UNLIKELY(step != GO_ON))
                return fills[step];
        }
    }
    await_touching(capture); /* each page has its mark; now its copy is on the list, too */
    if ((step = save_copies(capture, room, index)) != GO_ON)
        return fills[step];
    return any_pinned(capture, index) ? MMSB__FILL_PINNED : MMSB__FILL_END;
}

const uint64_t *mmsb__capture_removed(mmsb__capture_t *capture, uint64_t *count) {
    pthread_mutex_lock(&capture->lock);
    *count = capture->removed_count;
    free(capture->removed_ids);
    capture->removed_ids = malloc((capture->removed_count + 1) * sizeof(uint64_t));
    for (uint64_t i = 0; capture->removed_ids && i < capture->removed_count; i++)
        capture->removed_ids[i] = capture->removed[i].id;
    pthread_mutex_unlock(&capture->lock);
    return capture->removed_ids;
}

int mmsb__capture_failed(const mmsb__capture_t *capture) {
    return __atomic_load_n(&capture->out_of_memory, __ATOMIC_RELAXED);
}

void mmsb__capture_commit(mmsb__capture_t *capture) {
    capture->committed = 1;
    mmsb__saved_t **base = capture->base;
    for (uint64_t i = 0; base && i < capture->removed_count; i++)
        base[capture->removed[i].index >> MMSB__LEAF_BITS][capture->removed[i].index & (MMSB__LEAF_RECORDS - 1)].generation = 0;
    for (uint64_t i = 0; i < capture->found_count; i++) {
        const found_t *found = &capture->found[i];
        base[found->index >> MMSB__LEAF_BITS][found->index & (MMSB__LEAF_RECORDS - 1)] = found->saved;
    }
    for (uint32_t i = 0; i < capture->chunk_count; i++) {
        uint32_t chunk = capture->chunks[i];
        mmsb__saved_t *now_saved = base && base[chunk] ? base[chunk] : fresh[chunk];
        fresh[chunk] = NULL;
        if (mmsb__saved[chunk] != now_saved)
            free(mmsb__saved[chunk]);
        mmsb__saved[chunk] = now_saved;
    }
}

void mmsb__capture_stats(const mmsb__capture_t *capture, mmsb__capture_stats_t *stats) {
    stats->copied_bytes = __atomic_load_n(&capture->stats.copied_bytes, __ATOMIC_RELAXED);
    stats->copied_peak = __atomic_load_n(&capture->stats.copied_peak, __ATOMIC_RELAXED);
    stats->waits = __atomic_load_n(&capture->stats.waits, __ATOMIC_RELAXED);
    stats->waited_ns = __atomic_load_n(&capture->stats.waited_ns, __ATOMIC_RELAXED);
    stats->compared_bytes = __atomic_load_n(&capture->stats.compared_bytes, __ATOMIC_RELAXED);
}

void mmsb__capture_compared(mmsb__capture_t *capture, uint64_t bytes) {
    __atomic_add_fetch(&capture->stats.compared_bytes, bytes, __ATOMIC_RELAXED);
}

void mmsb__capture_totals(mmsb__capture_t *capture, int64_t *pages, int64_t *bytes) {
    pthread_mutex_lock(&capture->lock);
    *pages = capture->pages;
    *bytes = capture->bytes;
    pthread_mutex_unlock(&capture->lock);
}

static void free_copies(mmsb__capture_t *capture, copy_t *copy) {
    while (copy) {
        copy_t *next = copy->next;
        free_copy(capture, copy);
        copy = next;
    }
}

void mmsb__capture_stop(mmsb__capture_t *capture) {
    if (capture->mode != OFF)
        turn_off(capture);
}

void mmsb__capture_end(mmsb__capture_t *capture) {
    mmsb__capture_stop(capture);
    free_copies(capture, capture->drained);
    free_copies(capture, capture->copies);
    capture->drained = capture->copies = NULL;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        while (capture->large[bucket]) {
            mmsb__large_t *large = capture->large[bucket];
            capture->large[bucket] = large->next;
            free_large(capture, large);
        }
    }
    pool_end(&capture->pool);
    for (uint32_t i = 0; !capture->committed && i < capture->chunk_count; i++) {
        free(fresh[capture->chunks[i]]);
        fresh[capture->chunks[i]] = NULL;
    }
    free(capture->found);
    free(capture->removed);
    free(capture->removed_ids);
    capture->found = NULL;
    capture->found_count = capture->found_capacity = 0;
    free_chunks(capture);
    capture->removed = NULL;
    capture->removed_ids = NULL;
    capture->removed_capacity = 0;
}

mmsb_status_t mmsb__context_freeze(uint32_t context) {
    mmsb__capture_t *capture = capture_for(context);
    if (!capture)
        return MMSB_E_OUT_OF_MEMORY;
    turn_on(capture, FROZEN);
    mmsb__capture_settle(capture);
    return MMSB_OK;
}

void mmsb__context_thaw(uint32_t context) {
    turn_off(capture_of(context));
}
