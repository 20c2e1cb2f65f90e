/*
 * record.h — what a page is in memory, and how its record and state are read. Go (native/record.go) and C read the same
 * records; a test compares the layouts.
 *
 * Records lie outside the Go heap in one reserved range of addresses, so that a handle's index needs no bounds check and a
 * million pages cost Go's garbage collector nothing. They say region + offset, never an address: a table and its regions can lie
 * in a memfd that another process maps.
 *
 * A record always keeps its memory: a free record carries the bytes its next page will have, which is why creating a small page
 * is popping a handle. Moving a page to other memory swaps the memory of two records.
 */
#ifndef MMSB_NATIVE_RECORD_H
#define MMSB_NATIVE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "assert.h"
#include "mmsb.h"

#pragma GCC visibility push(hidden)

/* ----------------------------------------------------------------------------------------- handles and states ---- */

/* Handle: kind (4) | generation (32) | index (28). State: kind (4) | generation (32) | below, so that one xor and one shift
 * tell whether a handle and a record belong together. */
#define MMSB__INDEX_BITS 28
#define MMSB__INDEX_MASK ((UINT64_C(1) << MMSB__INDEX_BITS) - 1)
#define MMSB__GENERATION_MAX UINT32_MAX
#define MMSB__HANDLE(kind, generation, index) \
    ((uint64_t)(kind) << 60 | (uint64_t)(generation) << MMSB__INDEX_BITS | (uint64_t)(index))
#define MMSB__HANDLE_KIND(handle) ((uint32_t)((handle) >> 60))
#define MMSB__HANDLE_GENERATION(handle) ((uint32_t)((handle) >> MMSB__INDEX_BITS))
#define MMSB__HANDLE_INDEX(handle) ((uint32_t)((handle) & MMSB__INDEX_MASK))

/* Kinds that only occur in a record's state. A free record's generation is that of its next page. */
#define MMSB__STATE_FREE 0
#define MMSB__STATE_FRAME 12   /* its memory serves as change mask, metadata, released memory, … */
#define MMSB__STATE_ENDED 13   /* its context has ended, but it is pinned */
#define MMSB__STATE_RETIRED 14 /* its generations are used up */
#define MMSB__STATE_LEAVING 15 /* a group that is open has destroyed its page, which a rollback brings back */

/* The low 28 bits of a state: what the page is, then who has it, then whether and how it can be met. In this order a handle's
 * state less its kind and generation (mmsb__state_beside) is a number that one comparison judges: a live page, one whose bytes
 * have an address, one that nobody has locked, a small one without anything beside its bytes. */
#define MMSB__CLASS_SHIFT 0 /* size class of the memory */
#define MMSB__CLASS_MASK UINT64_C(0x1f)
#define MMSB__LOCATION_SHIFT 5
#define MMSB__LOCATION_MASK (UINT64_C(7) << MMSB__LOCATION_SHIFT)
#define MMSB__EXPLICIT_ID (UINT64_C(1) << 8) /* the id is in the side record, not derived from the handle */
#define MMSB__ADOPTED (UINT64_C(1) << 9)
#define MMSB__READ_ONLY (UINT64_C(1) << 10)
#define MMSB__BEGINNING (UINT64_C(1) << 11) /* of a frame: a page with its automatic id is about to begin */
#define MMSB__MOVING MMSB__BEGINNING        /* of a locked page: asynchronous work moves its bytes, which takes long */
#define MMSB__OWNER_SHIFT 12                /* the thread that runs a call on the page; 0 = none. Owners are stored shifted. */
#define MMSB__OWNERS 0x3fff
#define MMSB__OWNER_MASK ((uint64_t)MMSB__OWNERS << MMSB__OWNER_SHIFT)
#define MMSB__OWNER_LIBRARY ((uint32_t)MMSB__OWNERS << MMSB__OWNER_SHIFT) /* Go code, which is not bound to a thread */
#define MMSB__NONRESIDENT_SHIFT 26
#define MMSB__NONRESIDENT (UINT64_C(1) << MMSB__NONRESIDENT_SHIFT) /* the bytes have no address until the page is made resident */
#define MMSB__LIVE_SHIFT 27
#define MMSB__LIVE (UINT64_C(1) << MMSB__LIVE_SHIFT) /* follows from the kind: a page's state has it, no other */

#define MMSB__STATE(kind, generation, low) \
    (MMSB__HANDLE(kind, generation, 0) | ((uint64_t)(low) & ~MMSB__LIVE) | ((kind) == MMSB_KIND_PAGE ? MMSB__LIVE : 0))
#define MMSB__STATE_CLASS(state) ((uint32_t)(((state) & MMSB__CLASS_MASK) >> MMSB__CLASS_SHIFT))
#define MMSB__STATE_LOCATION(state) ((int32_t)(((state) & MMSB__LOCATION_MASK) >> MMSB__LOCATION_SHIFT))

/* Size classes: 64, 128, 192; then 256 … 4096 in steps of 256. Small memory is reused as it is; the others are Go's. */
#define MMSB__SMALL_CLASSES 19
#define MMSB__SMALL_MAX 4096
#define MMSB__CLASS_GUARDED 26 /* in the memory of another record, between canaries */
#define MMSB__CLASS_DEVICE 27  /* memory of a device that the host reaches, too */
#define MMSB__CLASS_EXTENT 28  /* whole system pages out of a shared region */
#define MMSB__CLASS_MAPPED 29  /* a mapping of its own */
#define MMSB__CLASS_FOREIGN 30 /* memory of the caller, or of a file */
#define MMSB__CLASS_NONE 31

#define MMSB__REGION_BITS 20
#define MMSB__REGIONS (1u << MMSB__REGION_BITS)
#define MMSB__OFFSET_BITS 44
#define MMSB__LOCATOR(region, offset) ((uint64_t)(region) << MMSB__OFFSET_BITS | (uint64_t)(offset))
#define MMSB__LOCATOR_REGION(locator) ((uint32_t)((locator) >> MMSB__OFFSET_BITS))

/* ----------------------------------------------------------------------------------------------- the layout ---- */

/* One line of the cache. state is not at offset 0: stores to the first word of a page-aligned page would alias with it at
 * every 64th record (4 KiB aliasing), which was seen to double the time of create. */
typedef struct mmsb__record {
    uint32_t side;       /* index of the side record; 0 = none */
    uint32_t mask_frame; /* record whose memory is the change mask; 0 = none */
    uint64_t state;
    uint64_t locator; /* region and offset of the bytes */
    uint64_t size;    /* of the page; of a frame: its capacity */
    uint64_t epoch;
    uint64_t version;
    uint64_t mask_locator; /* region and offset of the change mask; 0 = none */
    uint8_t dirty_first;   /* small pages: the 16-byte units first … last may differ from 0; none when first > last */
    uint8_t dirty_last;
    uint8_t exposed;  /* the address was given out: any byte may change at any time; MMSB__EXPOSED_* */
    uint8_t id_taken; /* the id of a coming generation may be in use: creation has to ask */
    uint16_t read_pins;
    uint16_t write_pins;
} mmsb__record_t;

/* What few pages need. */
typedef struct mmsb__side {
    uint64_t id;             /* with MMSB__EXPLICIT_ID */
    uint32_t metadata_frame; /* record whose memory holds the metadata blob; 0 = none */
    uint32_t metadata_count;
    uint64_t metadata_length;
    int32_t device;
    int32_t numa_node;
    /* Where the bytes of a nonresident page lie: in the context's file, or at an address of the device. Length 0 is nowhere. */
    uint64_t backing_at;
    uint64_t backing_length;
    void (*release)(void *user, void *memory, uint64_t size); /* of adopted memory */
    union {
        void *user;     /* of release */
        uint64_t block; /* of the device that a nonresident page's bytes lie in; 0 = they are in the file */
    };
} mmsb__side_t;

/* Indices come in leaves; all records of a leaf belong to one context. */
#define MMSB__LEAF_BITS 12
#define MMSB__LEAF_RECORDS (1u << MMSB__LEAF_BITS)
#define MMSB__LEAVES (1u << (MMSB__INDEX_BITS - MMSB__LEAF_BITS))

typedef struct mmsb__table {
    uintptr_t region_base[MMSB__REGIONS]; /* of each region that is mapped: what its places are short of their addresses */
    mmsb__record_t *records;              /* 2^28, reserved; writable as far as leaves have been taken */
    mmsb__side_t *sides;                  /* likewise */
    uint32_t leaf_context[MMSB__LEAVES];  /* index of the context that has the leaf; 0 = none, or one that has ended */
    uint32_t leaf_ended[MMSB__LEAVES];    /* and of the last one that has ended, which perhaps another one has now */
} mmsb__table_t;

extern mmsb__table_t mmsb__table;

static inline uint8_t *mmsb__locator_address(uint64_t locator) {
    return (uint8_t *)(__atomic_load_n(&mmsb__table.region_base[MMSB__LOCATOR_REGION(locator)], __ATOMIC_RELAXED) + locator);
}

/* From now on places of the region are at base. */
static inline void mmsb__region_map(uint32_t region, uintptr_t base) {
    __atomic_store_n(&mmsb__table.region_base[region], base - (uintptr_t)MMSB__LOCATOR(region, 0), __ATOMIC_RELAXED);
}

static inline uint32_t mmsb__class_of(uint64_t size) { /* 1 ≤ size ≤ MMSB__SMALL_MAX */
    return size <= 192 ? (uint32_t)((size - 1) >> 6) : 2 + (uint32_t)((size + 255) >> 8);
}

static inline uint32_t mmsb__class_size(uint32_t class_number) {
    return class_number <= 2 ? (class_number + 1) << 6 : (class_number - 2) << 8;
}

/* ---------------------------------------------------------------------------------------- reading the records ---- */

static inline mmsb__record_t *mmsb__record_at(uint32_t index) {
    return &mmsb__table.records[index];
}

static inline mmsb__record_t *mmsb__record_of(uint64_t page) {
    return &mmsb__table.records[page & MMSB__INDEX_MASK];
}

static inline uint32_t mmsb__record_index(const mmsb__record_t *record) {
    return (uint32_t)(record - mmsb__table.records);
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

/* The context of a pinned page, which may have ended. */
static inline uint32_t mmsb__record_pinned_in(uint32_t index) {
    uint32_t context = __atomic_load_n(&mmsb__table.leaf_context[index >> MMSB__LEAF_BITS], __ATOMIC_ACQUIRE);
    return context != 0 ? context : __atomic_load_n(&mmsb__table.leaf_ended[index >> MMSB__LEAF_BITS], __ATOMIC_RELAXED);
}

static inline uint8_t *mmsb__record_bytes(const mmsb__record_t *record) {
    return mmsb__locator_address(__atomic_load_n(&record->locator, __ATOMIC_RELAXED));
}

static inline int mmsb__record_pinned(const mmsb__record_t *record) {
    return record->read_pins != 0 || record->write_pins != 0;
}

static inline void mmsb__version_move(mmsb__record_t *record) {
    MMSB__ASSERT(record->version + 1 != 0, mmsb__record_index(record), record->version);
    __atomic_store_n(&record->version, record->version + 1, __ATOMIC_RELAXED);
}

/* Any byte of small memory may differ from 0. */
static inline void mmsb__dirty_all(mmsb__record_t *record) {
    record->dirty_first = 0;
    record->dirty_last = 255;
}

#define MMSB__EXPOSED_BY_PINS 1  /* bytes change while there is a pin */
#define MMSB__EXPOSED_FOR_GOOD 2 /* or at any time: an address without a pin, memory of the caller */

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

/* The address of a page that has one. From now on any byte may have changed. */
static inline void *mmsb__record_expose(mmsb__record_t *record) {
    __atomic_store_n(&record->exposed, MMSB__EXPOSED_FOR_GOOD, __ATOMIC_RELAXED);
    return mmsb__record_bytes(record);
}

/* The same for a pin of a locked page. */
static inline void mmsb__record_expose_pinned(mmsb__record_t *record) {
    if (!mmsb__exposed(record))
        __atomic_store_n(&record->exposed, MMSB__EXPOSED_BY_PINS, __ATOMIC_RELAXED);
}

/* NULL where the page has nothing but its record. */
static inline const mmsb__side_t *mmsb__side_of(const mmsb__record_t *record) {
    return record->side ? &mmsb__table.sides[record->side] : NULL;
}

/* Bytes of the change mask of a page of this size. */
static inline uint64_t mmsb__mask_length(uint64_t size) {
    return (size >> 3) + ((size & 7) != 0);
}

/* A record is free, a frame, a page, or what its context's end left: every store that makes one of the other is this one. The
 * record was free or a frame, which nobody locks and only the caller has, or the caller has locked it and what lived there ends.
 * The store makes this visible to others, and unlocks. */
static inline void mmsb__record_become(mmsb__record_t *record, uint64_t state) {
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
}

/* A free record whose next page has this handle has nothing beside its memory. */
static inline void mmsb__record_assert_free(const mmsb__record_t *record, uint64_t page) {
    MMSB__ASSERT(mmsb__state_held(record) >> MMSB__INDEX_BITS == MMSB__HANDLE_GENERATION(page), page, mmsb__state_held(record));
    MMSB__ASSERT(MMSB__HANDLE_KIND(page) == MMSB_KIND_PAGE, page, mmsb__state_held(record));
    MMSB__ASSERT((record->side | record->mask_frame) == 0, page, record->side);
    MMSB__ASSERT(!mmsb__record_pinned(record), page, record->read_pins);
}

/* Reserves the table's addresses, which are so many bytes. 0 or errno. */
int mmsb__table_reserve(void);
uint64_t mmsb__table_addresses(void);
/* Makes the records of a leaf (side records likewise) writable. 0 or errno. */
int mmsb__table_open_leaf(uint32_t leaf);
int mmsb__table_open_sides(uint32_t leaf);

#pragma GCC visibility pop
#endif
