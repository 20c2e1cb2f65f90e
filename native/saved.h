/*
 * saved.h — what the last save recorded of each page, by leaf; an incremental save compares pages with it.
 */
#ifndef MMSB_NATIVE_SAVED_H
#define MMSB_NATIVE_SAVED_H

#include "record.h"

#pragma GCC visibility push(hidden)

/* What the last save recorded of the page on a record. */
typedef struct mmsb__saved {
    uint64_t version;
    uint64_t id;
    uint64_t size;
    uint32_t generation; /* 0 = the record had no page */
    uint32_t crc;        /* of the bytes; pages of more than a chunk have none */
} mmsb__saved_t;

/* By leaf; NULL = the last save has no page of the leaf. */
extern mmsb__saved_t *mmsb__saved[MMSB__LEAVES];

/* The table of a leaf, made if there is none; NULL without memory. */
mmsb__saved_t *mmsb__saved_leaf(uint32_t leaf);

/* Forgets a leaf that goes to another context, or whose pages are replaced. */
void mmsb__saved_forget(uint32_t leaf);

#pragma GCC visibility pop
#endif
