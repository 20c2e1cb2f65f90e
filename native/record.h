/*
 * record.h — what a page is in memory. Go (native/record.go) and C read the same records; offsets are asserted on both sides.
 *
 * Records lie outside the Go heap in one reserved range of addresses, so that a handle's index needs no bounds check and a million
 * pages cost Go's garbage collector nothing. They say region + offset, never an address: a table and its regions can lie in a
 * memfd that another process maps.
 *
 * A record always keeps its memory: a free record carries the bytes its next page will have, which is why creating a small page
 * is popping a handle. Moving a page to other memory swaps the memory of two records.
 */
#ifndef MMSB_NATIVE_RECORD_H
#define MMSB_NATIVE_RECORD_H

#include <stdint.h>

#include "mmsb.h"

#pragma GCC visibility push(hidden)

/* Handle: kind (4) | generation (32) | index (28). State: kind (4) | generation (32) | below, so that one xor and one shift
 * tell whether a handle and a record belong together. */
#define MMSB_INDEX_BITS 28
#define MMSB_INDEX_MASK ((UINT64_C(1) << MMSB_INDEX_BITS) - 1)
#define MMSB_GENERATION_MAX UINT32_MAX
#define MMSB_HANDLE(kind, generation, index) \
    ((uint64_t)(kind) << 60 | (uint64_t)(generation) << MMSB_INDEX_BITS | (uint64_t)(index))
#define MMSB_HANDLE_KIND(handle) ((uint32_t)((handle) >> 60))
#define MMSB_HANDLE_GENERATION(handle) ((uint32_t)((handle) >> MMSB_INDEX_BITS))
#define MMSB_HANDLE_INDEX(handle) ((uint32_t)((handle) & MMSB_INDEX_MASK))

/* Kinds that only occur in a record's state. A free record's generation is that of its next page. */
#define MMSB_STATE_FREE 0
#define MMSB_STATE_BLOCK 12   /* its memory serves as change mask, metadata, released memory, … */
#define MMSB_STATE_ENDED 13   /* its context has ended, but it is pinned */
#define MMSB_STATE_RETIRED 14 /* its generations are used up */

/* The low 28 bits of a state: what the page is, then who has it, then whether and how it can be met. In this order a handle's state less its
 * kind and generation (mmsb_state_beside) is a number that one comparison judges: a live page, one whose bytes have an address, one that
 * nobody has locked, a small one without anything beside its bytes. */
#define MMSB_CLASS_SHIFT 0 /* size class of the memory */
#define MMSB_CLASS_MASK UINT64_C(0x1f)
#define MMSB_LOCATION_SHIFT 5
#define MMSB_LOCATION_MASK (UINT64_C(7) << MMSB_LOCATION_SHIFT)
#define MMSB_EXPLICIT_ID (UINT64_C(1) << 8) /* the id is in the cold record, not derived from the handle */
#define MMSB_ADOPTED (UINT64_C(1) << 9)
#define MMSB_READ_ONLY (UINT64_C(1) << 10)
#define MMSB_BEGINNING (UINT64_C(1) << 11) /* of a block: a page with its automatic id is about to begin */
#define MMSB_OWNER_SHIFT 12 /* the thread that runs a call on the page; 0 = none. Owners are kept shifted to their place. */
#define MMSB_OWNERS 0x3fff
#define MMSB_OWNER_MASK ((uint64_t)MMSB_OWNERS << MMSB_OWNER_SHIFT)
#define MMSB_OWNER_LIBRARY ((uint32_t)MMSB_OWNERS << MMSB_OWNER_SHIFT) /* Go code, which is not bound to a thread */
#define MMSB_AWAY_SHIFT 26
#define MMSB_AWAY (UINT64_C(1) << MMSB_AWAY_SHIFT) /* the bytes have no address until the page is brought in */
#define MMSB_LIVE_SHIFT 27
#define MMSB_LIVE (UINT64_C(1) << MMSB_LIVE_SHIFT) /* follows from the kind: a page's state has it, no other */

#define MMSB_STATE(kind, generation, low) \
    (MMSB_HANDLE(kind, generation, 0) | ((uint64_t)(low) & ~MMSB_LIVE) | ((kind) == MMSB_KIND_PAGE ? MMSB_LIVE : 0))
#define MMSB_STATE_CLASS(state) ((uint32_t)(((state) & MMSB_CLASS_MASK) >> MMSB_CLASS_SHIFT))
#define MMSB_STATE_LOCATION(state) ((int32_t)(((state) & MMSB_LOCATION_MASK) >> MMSB_LOCATION_SHIFT))

/* Size classes: 64, 128, 192; then 256 … 4096 in steps of 256. Small memory is reused as it is; the others are Go's. */
#define MMSB_SMALL_CLASSES 19
#define MMSB_SMALL_MAX 4096
#define MMSB_CLASS_DEVICE 27  /* memory of a device that the host reaches, too */
#define MMSB_CLASS_EXTENT 28  /* whole system pages out of a shared region */
#define MMSB_CLASS_MAPPED 29  /* a mapping of its own */
#define MMSB_CLASS_FOREIGN 30 /* memory of the caller, or of a file */
#define MMSB_CLASS_NONE 31

#define MMSB_REGION_BITS 20
#define MMSB_REGIONS (1u << MMSB_REGION_BITS)
#define MMSB_OFFSET_BITS 44
#define MMSB_PLACE(region, offset) ((uint64_t)(region) << MMSB_OFFSET_BITS | (uint64_t)(offset))
#define MMSB_PLACE_REGION(place) ((uint32_t)((place) >> MMSB_OFFSET_BITS))

/* One line of the cache. state is not at offset 0: stores to the first word of a page-aligned page would alias with it at
 * every 64th record (4 KiB aliasing), which was seen to double the time of create. */
typedef struct mmsb_record {
    uint32_t cold;       /* index of the cold record; 0 = none */
    uint32_t mask_block; /* record whose memory is the change mask; 0 = none */
    uint64_t state;
    uint64_t place; /* region and offset of the bytes */
    uint64_t size;  /* of the page; of a block: its capacity */
    uint64_t epoch;
    uint64_t version;
    uint64_t mask_place; /* region and offset of the change mask; 0 = none */
    uint8_t dirty_first; /* small pages: the 16-byte units first … last may differ from 0; none when first > last */
    uint8_t dirty_last;
    uint8_t exposed;  /* the address was given out: any byte may change at any time */
    uint8_t id_taken; /* the id of a coming generation may be in use: creation has to ask */
    uint16_t read_pins;
    uint16_t write_pins;
} mmsb_record_t;

/* What few pages need. */
typedef struct mmsb_cold {
    uint64_t id;             /* with MMSB_EXPLICIT_ID */
    uint32_t metadata_block; /* record whose memory holds the metadata blob; 0 = none */
    uint32_t metadata_count;
    uint64_t metadata_length;
    int32_t device;
    int32_t numa_node;
    /* Where the bytes of a page lie that is away: in the context's file, or at an address of the device. Length 0 is nowhere. */
    uint64_t away_at;
    uint64_t away_length;
    void (*release)(void *user, void *memory, uint64_t size); /* of adopted memory */
    union {
        void *user;     /* of release */
        uint64_t block; /* of the device that the bytes of a page away lie in; 0 = they are in the file */
    };
} mmsb_cold_t;

/* Indices come in chunks; all records of a chunk belong to one context. */
#define MMSB_CHUNK_BITS 12
#define MMSB_CHUNK_RECORDS (1u << MMSB_CHUNK_BITS)
#define MMSB_CHUNKS (1u << (MMSB_INDEX_BITS - MMSB_CHUNK_BITS))

typedef struct mmsb_table {
    uintptr_t region_base[MMSB_REGIONS]; /* of each region that is mapped: what its places are short of their addresses */
    mmsb_record_t *records;              /* 2^28, reserved; writable as far as chunks have been taken */
    mmsb_cold_t *colds;                  /* likewise */
    uint32_t chunk_context[MMSB_CHUNKS]; /* index of the context that has the chunk; 0 = none */
} mmsb_table_t;

extern mmsb_table_t mmsb_table;

static inline uint8_t *mmsb_place_address(uint64_t place) {
    return (uint8_t *)(__atomic_load_n(&mmsb_table.region_base[MMSB_PLACE_REGION(place)], __ATOMIC_RELAXED) + place);
}

/* From now on places of the region are at base. */
static inline void mmsb_region_map(uint32_t region, uintptr_t base) {
    __atomic_store_n(&mmsb_table.region_base[region], base - (uintptr_t)MMSB_PLACE(region, 0), __ATOMIC_RELAXED);
}

static inline uint32_t mmsb_class_of(uint64_t size) { /* 1 ≤ size ≤ MMSB_SMALL_MAX */
    return size <= 192 ? (uint32_t)((size - 1) >> 6) : 2 + (uint32_t)((size + 255) >> 8);
}

static inline uint32_t mmsb_class_size(uint32_t class_number) {
    return class_number <= 2 ? (class_number + 1) << 6 : (class_number - 2) << 8;
}

/* Reserves the table's addresses. 0 or errno. */
int mmsb_table_reserve(void);
/* Makes the records of a chunk (cold records likewise) writable. 0 or errno. */
int mmsb_table_open_chunk(uint32_t chunk);
int mmsb_table_open_colds(uint32_t chunk);

#pragma GCC visibility pop
#endif
