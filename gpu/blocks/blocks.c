/*
 * blocks.c — allocation and free without Go.
 */
#include "blocks.h"

#define UNIT 512
#define SMALLEST_SLAB 4096
#define LARGEST_SLAB (4 << 20)
#define MOST_BYTES (UINT64_C(1) << 60)
#define MOST_SMALL (1 << 20)
#define INDEX_MASK ((UINT64_C(1) << 28) - 1)
#define CHUNK_MASK ((1u << MMSB__BLOCK_CHUNK_BITS) - 1)

mmsb__block_table_t mmsb__block_table = {.tags = 1};

static inline mmsb__block_t *block_at(uint32_t index) {
    mmsb__block_t *chunk = __atomic_load_n(&mmsb__block_table.chunks[index >> MMSB__BLOCK_CHUNK_BITS], __ATOMIC_ACQUIRE);
    return chunk ? chunk + (index & CHUNK_MASK) : NULL;
}

/* Who does not get the lock enters Go, which has a lock that waits: two threads on one stream at the same moment. */
static inline int try_lock(mmsb__block_stream_t *stream) {
    return __atomic_load_n(&stream->lock, __ATOMIC_RELAXED) == 0 && !__atomic_exchange_n(&stream->lock, 1, __ATOMIC_ACQUIRE);
}

static inline void unlock(mmsb__block_stream_t *stream) {
    __atomic_store_n(&stream->lock, 0, __ATOMIC_RELEASE);
}

/* Counters have one writer, who has the lock, and readers without it. */
static inline void raise(uint64_t *counter, uint64_t by) {
    __atomic_store_n(counter, *counter + by, __ATOMIC_RELEASE);
}

/* The size of a request in units: Options.Round of core/pool. */
static inline uint64_t units_of(const mmsb__block_pool_t *pool, uint64_t bytes) {
    if (pool->slabs && bytes <= LARGEST_SLAB) {
        uint64_t slab = SMALLEST_SLAB;
        while (slab < bytes)
            slab *= 4;
        return slab / UNIT;
    }
    unsigned bits = bytes > 1 ? 64 - (unsigned)__builtin_clzll(bytes - 1) : 0;
    unsigned row = bits < 20 ? 0 : bits - 20 > 16 ? 16 : bits - 20;
    uint64_t divisions = pool->divisions[row];
    if (divisions > 1 && bytes > UNIT * divisions) {
        uint64_t step = (UINT64_C(1) << (bits - 1)) / divisions;
        if (step > UNIT)
            return (bytes + step - 1) / step * step / UNIT;
    }
    return (bytes + UNIT - 1) / UNIT;
}

/* Of units in 1 … 2^51 - 1. */
static inline unsigned class_of(uint64_t units) {
    unsigned shift = 63 - (unsigned)__builtin_clzll(units >> MMSB__BLOCK_CLASS_BITS | 1);
    return (shift << MMSB__BLOCK_CLASS_BITS) + (unsigned)(units >> shift);
}

static void add_live(mmsb__block_tally_t *tally, uint64_t bytes) {
    uint64_t live = __atomic_add_fetch(&tally->live, bytes, __ATOMIC_RELAXED);
    uint64_t peak = __atomic_load_n(&tally->peak, __ATOMIC_RELAXED);
    if ((int64_t)bytes > 0)
        while (live > peak && !__atomic_compare_exchange_n(&tally->peak, &peak, live, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
}

/* A block of one tally becomes one of another, or another one of the same. */
static void move(mmsb__block_tally_t *from, mmsb__block_tally_t *to, uint64_t was, uint64_t bytes) {
    if (from == to) {
        if (was != bytes)
            add_live(to, bytes - was);
        return;
    }
    add_live(from, -was);
    __atomic_sub_fetch(&from->blocks, 1, __ATOMIC_RELAXED);
    add_live(to, bytes);
    __atomic_add_fetch(&to->blocks, 1, __ATOMIC_RELAXED);
}

/* A block that counts as outstanding becomes one of another size or tag. */
static void __attribute__((noinline)) recount(mmsb__block_tally_t *tallies, const mmsb__block_t *block, uint64_t bytes,
                                              uint32_t tag) {
    mmsb__block_tally_t *sizes = &tallies[1 + MMSB__BLOCK_TAGS];
    move(&tallies[0], &tallies[0], block->bytes, bytes);
    move(&sizes[block->bytes > MOST_SMALL], &sizes[bytes > MOST_SMALL], block->bytes, bytes);
    move(&tallies[1 + block->tag], &tallies[1 + tag], block->bytes, bytes);
}

/* Threads on other streams count the same tag: each stream adds up what it has, until another tag needs the place. */
static inline void count(mmsb__block_stream_t *stream, uint32_t tag, uint64_t bytes) {
    mmsb__block_count_t *has = &stream->counts[tag % MMSB__BLOCK_COUNTS];
    if (has->tag != tag) {
        mmsb__block_tally_t *tally = &stream->pool->tallies[1 + has->tag];
        __atomic_add_fetch(&tally->ever, has->ever, __ATOMIC_RELAXED);
        __atomic_add_fetch(&tally->total, has->total, __ATOMIC_RELAXED);
        has->ever = has->total = 0;
        has->tag = tag;
    }
    has->ever++;
    has->total += bytes;
}

/* What the stream's lock orders is in the history in that order. */
static void note(const mmsb__block_stream_t *stream, const mmsb__block_t *block, uint32_t action) {
    mmsb__block_log_t *log = stream->pool->log;
    mmsb__block_event_t *event = mmsb__block_log_begin(log);
    event->address = block->address;
    event->bytes = block->bytes;
    event->native = stream->native;
    event->tag = block->tag;
    event->stream = (uint32_t)stream->number;
    event->thread = mmsb__block_thread();
    event->code = MMSB_OK;
    event->action = action;
    mmsb__block_log_end(log, event);
}

/* The first block of a magazine, where it is large enough. */
static inline mmsb__block_t *first_of(const mmsb__block_magazine_t *magazine, uint64_t units) {
    mmsb__block_t *block = magazine->count > 0 ? block_at(magazine->first) : NULL;
    return block && block->units >= units ? block : NULL;
}

/* Takes the first block out of a magazine that has one. */
static inline mmsb__block_t *pop(mmsb__block_stream_t *stream, mmsb__block_magazine_t *magazine) {
    mmsb__block_t *block = block_at(magazine->first);
    magazine->first = block->next;
    magazine->count--;
    stream->cached--;
    stream->cached_units -= block->units;
    return block;
}

/* A block that was never allocated before: the front of a span. */
static mmsb__block_t *__attribute__((noinline)) cut(mmsb__block_stream_t *stream, uint64_t bytes, uint64_t units, uint32_t tag,
                                                    uint32_t *index) {
    mmsb__block_span_t *span = &stream->spans[bytes > MOST_SMALL];
    if (span->left.units < units || stream->slot_count == 0 || span->count == MMSB__BLOCK_CUTS ||
        tag >= __atomic_load_n(&mmsb__block_table.tags, __ATOMIC_ACQUIRE))
        return NULL;
    *index = stream->slots[--stream->slot_count];
    mmsb__block_t *block = block_at(*index);
    block->address = span->left.address;
    block->own = span->left.own;
    block->units = units;
    block->stream = stream;
    block->bytes = 0;
    block->tag = tag;
    span->left.address += units * UNIT;
    span->left.own += units << MMSB__BLOCK_OWN_BITS;
    span->left.units -= units;
    span->cuts[span->count] = (uint32_t)units;
    raise(&span->count, 1);
    /* It counts as a small block of no bytes. */
    mmsb__block_tally_t *tallies = stream->pool->tallies;
    __atomic_add_fetch(&tallies[0].blocks, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tallies[1 + tag].blocks, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tallies[1 + MMSB__BLOCK_TAGS].blocks, 1, __ATOMIC_RELAXED);
    return block;
}

/* The stream is locked. */
static inline int take(mmsb__block_stream_t *stream, mmsb_stream_t handle, uint64_t bytes, uint32_t tag, mmsb_block_t *to,
                       uintptr_t *address) {
    mmsb__block_pool_t *pool = stream->pool;
    if (stream->handle != handle || !__atomic_load_n(&pool->open, __ATOMIC_RELAXED))
        return 0;
    if (__atomic_load_n(&pool->kept_from[tag % MMSB__BLOCK_TAGS / 64], __ATOMIC_RELAXED) >> tag % 64 & 1)
        return 0;
    uint64_t units = units_of(pool, bytes);
    unsigned class = class_of(units);
    mmsb__block_magazine_t *magazine = &stream->magazines[class];
    mmsb__block_t *block = first_of(magazine, units);
    if (!block && units >> (MMSB__BLOCK_CLASS_BITS + 1))
        block = first_of(++magazine, units);
    uint32_t index = magazine->first;
    if (block) {
        if ((block->bytes != bytes || block->tag != tag) &&
            (pool->exact || tag >= __atomic_load_n(&mmsb__block_table.tags, __ATOMIC_ACQUIRE)))
            return 0;
        pop(stream, magazine);
    } else {
        block = cut(stream, bytes, units, tag, &index);
        if (!block)
            return 0;
    }
    if (block->bytes != bytes || block->tag != tag)
        recount(pool->tallies, block, bytes, tag);
    /* What was freed is released before the new block is allocated: who reads the counters does it in this order. */
    raise(&stream->released, block->bytes);
    raise(&stream->allocated, bytes);
    raise(&stream->allocations, 1);
    count(stream, tag, bytes);
    raise(&stream->hits[bytes > MOST_SMALL].bytes, bytes);
    mmsb__block_sum_t *hits = &stream->hits[block->own & 1];
    raise(&hits->blocks, 1);
    raise(&hits->units, block->units);
    uint64_t generation = (block->state >> 32) + 1;
    block->bytes = bytes;
    block->tag = tag;
    block->point = __atomic_add_fetch(&stream->queued, 1, __ATOMIC_RELAXED);
    *to = (uint64_t)MMSB_KIND_BLOCK << 60 | generation << 28 | index;
    *address = block->address;
    if (pool->log)
        note(stream, block, MMSB__BLOCK_ALLOCATED);
    __atomic_store_n(&block->state, MMSB__BLOCK_STATE(generation, MMSB__BLOCK_LIVE), __ATOMIC_RELEASE);
    return 1;
}

int mmsb__block_hit(mmsb_stream_t handle, uint64_t bytes, uint32_t tag, mmsb_block_t *to, uintptr_t *address) {
    uint64_t slot = handle & INDEX_MASK;
    if (slot >= MMSB__BLOCK_STREAMS || bytes - 1 >= MOST_BYTES - 1)
        return 0;
    mmsb__block_stream_t *stream = __atomic_load_n(&mmsb__block_table.streams[slot], __ATOMIC_ACQUIRE);
    if (!stream || !try_lock(stream))
        return 0;
    int found = take(stream, handle, bytes, tag, to, address);
    unlock(stream);
    return found;
}

/* The stream is locked. */
static inline int put(mmsb__block_stream_t *stream, mmsb_stream_t handle, mmsb__block_t *block, uint32_t index, uint64_t live,
                      uint64_t units) {
    mmsb__block_magazine_t *magazine = &stream->magazines[class_of(units)];
    if ((handle != 0 && stream->handle != handle) || !stream->open || !__atomic_load_n(&stream->pool->open, __ATOMIC_RELAXED) ||
        magazine->count == MMSB__BLOCK_ROUNDS ||
        !__atomic_compare_exchange_n(&block->state, &live, live - MMSB__BLOCK_LIVE + MMSB__BLOCK_CACHED, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return 0;
    block->next = magazine->first;
    magazine->first = index;
    magazine->count++;
    stream->cached++;
    stream->cached_units += units;
    raise(&stream->freed, block->bytes);
    raise(&stream->frees, 1);
    if (stream->pool->log)
        note(stream, block, MMSB__BLOCK_FREED);
    return 1;
}

int mmsb__block_cache(mmsb_block_t handle, mmsb_stream_t freed_on) {
    uint32_t index = (uint32_t)(handle & INDEX_MASK);
    mmsb__block_t *block = block_at(index);
    uint64_t live = MMSB__BLOCK_STATE((uint32_t)(handle >> 28), MMSB__BLOCK_LIVE);
    if (handle >> 60 != MMSB_KIND_BLOCK || !block || __atomic_load_n(&block->state, __ATOMIC_ACQUIRE) != live ||
        live >> 32 == UINT32_MAX)
        return 0;
    /* Where the state is still the same in put, these are fields of the block that the handle means. */
    mmsb__block_stream_t *stream = __atomic_load_n(&block->stream, __ATOMIC_RELAXED);
    uint64_t units = __atomic_load_n(&block->units, __ATOMIC_RELAXED);
    if (!stream || !try_lock(stream))
        return 0;
    int done = put(stream, freed_on, block, index, live, units);
    unlock(stream);
    return done;
}

uint32_t mmsb__block_withdraw(mmsb__block_stream_t *stream, uint64_t enough, uint64_t least, uint64_t most, uint32_t *indices,
                              uint32_t room) {
    unsigned last = class_of(most);
    for (unsigned class = class_of(enough); class <= last; class++) {
        mmsb__block_magazine_t *magazine = &stream->magazines[class];
        if (first_of(magazine, enough)) {
            *indices = magazine->first;
            pop(stream, magazine);
            return 1;
        }
    }
    uint32_t count = 0;
    for (unsigned class = last, first = class_of(least); class >= first && count < room; class--)
        for (mmsb__block_magazine_t *magazine = &stream->magazines[class]; magazine->count > 0 && count < room; count++) {
            indices[count] = magazine->first;
            pop(stream, magazine);
        }
    return count;
}
