/*
 * id.h — which id a page has, and which page an id.
 */
#ifndef MMSB_NATIVE_ID_H
#define MMSB_NATIVE_ID_H

#include "thread.h"

#pragma GCC visibility push(hidden)

#define MMSB__ID_AUTOMATIC (UINT64_C(0xa) << 60)
#define MMSB__ID_MASK ((UINT64_C(1) << 60) - 1)

/* The id that a handle's page has unless the caller chose one. */
static inline uint64_t mmsb__automatic_id(const mmsb__context_record_t *context, uint64_t page) {
    return MMSB__ID_AUTOMATIC | ((page * context->id_factor) & MMSB__ID_MASK);
}

uint64_t mmsb__record_id(uint32_t index, uint64_t state);
/* The page that has an automatic id; 0 = none. */
mmsb_page_t mmsb__page_find(const mmsb__context_record_t *context, uint64_t id);

#pragma GCC visibility pop
#endif
