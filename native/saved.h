/*
 * saved.h — what the last save knows of each record's page, by leaf: what an incremental one compares with.
 */
#ifndef MMSB_NATIVE_SAVED_H
#define MMSB_NATIVE_SAVED_H

#include "record.h"

#pragma GCC visibility push(hidden)

/* What the last save knows of a record's page. */
typedef struct mmsb__saved {
    uint64_t version;
    uint64_t id;
    uint64_t size;
    uint32_t generation; /* 0 = the record had no page */
    uint32_t crc;        /* of the bytes; pages of more than a chunk have none */
} mmsb__saved_t;

/* By leaf; NULL = the save has none of its pages. */
extern mmsb__saved_t *mmsb__saved[MMSB__LEAVES];

/* What is saved of a leaf's pages, made where there is nothing; NULL without memory. */
mmsb__saved_t *mmsb__saved_leaf(uint32_t leaf);

/* The leaf goes to another context, or its pages come from elsewhere. */
void mmsb__saved_forget(uint32_t leaf);

#pragma GCC visibility pop
#endif
