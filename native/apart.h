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

/* MMSB_OK, or MMSB_E_INVALID_ARGUMENT and the later item of an overlap in *bad. Puts both lists in order. */
mmsb_status_t mmsb__stretches_apart(mmsb__stretch_t *written, size_t written_count, mmsb__stretch_t *read, size_t read_count,
                                    size_t *bad);

#pragma GCC visibility pop
#endif
