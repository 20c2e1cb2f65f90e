/*
 * workload.h — changes of a context that follow from a seed, and a model that makes the same changes in plain memory. The state
 * after change number n is a function of the seed and n: what comes back after a crash is compared with the model, which knows
 * nothing of files.
 */
#ifndef MMSB_TESTS_CRASH_WORKLOAD_H
#define MMSB_TESTS_CRASH_WORKLOAD_H

#include "../check.h"

#include <mmsb.h>

enum {
    SLOTS = 40,       /* slot 0 is the large page, which is always there */
    LARGE = 10 << 20, /* its largest size: several segments of a snapshot */
    SMALL = 20000,    /* the largest size of the others */
    KEYS = 4,
    VALUE = 24,
    EDGES = 48,
    ITEMS = 6,
    PAYLOAD = 300000
};

typedef struct entry {
    uint32_t key;
    uint32_t length;
    uint8_t value[VALUE];
} entry_t;

typedef struct model_page {
    uint64_t id; /* 0 = no page */
    uint64_t size;
    uint64_t epoch;
    uint64_t version; /* its lower 16 bits are compared: the upper ones are the library's choice when the page is made */
    mmsb_location_t location;
    uint32_t entry_count;
    entry_t entries[KEYS];
} model_page_t;

/* No pointers: it lies in memory that processes share. Bytes and mask bits behind a page's size are 0. */
typedef struct model {
    uint64_t operation; /* number of the last change */
    model_page_t pages[SLOTS];
    uint32_t edge_count;
    struct {
        uint32_t parent;
        uint32_t child;
    } edges[EDGES];
    uint8_t large[LARGE];
    uint8_t large_mask[LARGE / 8];
    uint8_t small[SLOTS][SMALL];
    uint8_t small_mask[SLOTS][SMALL / 8];
} model_t;

/* Each is one call of the library, so that it is in a state whole or not. */
typedef enum kind {
    WRITE,
    WRITE_MANY,
    DELTA,
    DELTA_MANY,
    RUNS,
    CREATE,
    CLONE,
    DESTROY,
    DESTROY_MANY,
    RESIZE,
    MIGRATE,
    CLEAR_MASK,
    SET_METADATA,
    REMOVE_METADATA,
    IMPORT_METADATA,
    ADD_DEPENDENCY,
    REMOVE_DEPENDENCY,
    RAW_WRITE, /* through a pointer: no journal has it, and a snapshot that is taken meanwhile has a part of it, perhaps */
    KINDS
} kind_t;

typedef struct operation {
    uint64_t number;
    kind_t kind;
    uint32_t count;
    struct {
        uint32_t slot;
        uint64_t offset;
        uint64_t length;
    } items[ITEMS];
    mmsb_delta_kind_t form;
    uint32_t other; /* the slot of a new page, or of a child */
    uint64_t size;
    mmsb_location_t location;
    uint32_t key;
    uint64_t payload; /* seed of the bytes */
} operation_t;

/* The change that follows on the model's state. */
void plan_operation(const model_t *model, uint64_t seed, int raw_writes, operation_t *operation);

void model_apply(model_t *model, const operation_t *operation);

/* Makes the change in the library. */
mmsb_status_t library_apply(mmsb_context_t context, const model_t *before, const operation_t *operation);

/* Whether the context is what the model says; else *difference says what is not. */
int same_state(mmsb_context_t context, const model_t *model, char *difference, size_t capacity);

/* A large page and a dozen others, the same in both. */
mmsb_status_t found_state(mmsb_context_t context, model_t *model, uint64_t seed);

#endif /* MMSB_TESTS_CRASH_WORKLOAD_H */
