/*
 * apart.h — whether ranges of addresses that one call writes overlap each other or what it reads.
 */
#ifndef MMSB_NATIVE_APART_H
#define MMSB_NATIVE_APART_H

#include <stddef.h>

#include <mmsb.h>

#pragma GCC visibility push(hidden)

/* Bytes from begin to before end, of the item index. Not empty. */
typedef struct mmsb__stretch {
    uint64_t begin, end;
    size_t index;
} mmsb__stretch_t;

typedef struct mmsb__stretches {
    mmsb__stretch_t *list;
    size_t count;
    uint64_t lowest, highest; /* all lie from the one to before the other */
    int in_order;
} mmsb__stretches_t;

/* Adds the bytes at an address of an item; none is nothing to add. The list has room. */
void mmsb__stretches_add(mmsb__stretches_t *to, const void *address, uint64_t bytes, size_t index);

/* MMSB_OK, or MMSB_E_INVALID_ARGUMENT and the later item of an overlap in *bad. The first so many groups are written. Puts lists
 * in order where it must. */
mmsb_status_t mmsb__stretches_apart(mmsb__stretches_t *groups, size_t written, size_t count, size_t *bad);

#pragma GCC visibility pop
#endif
