/*
 * whole.h — a walk over all of a context between the storms of a test: native/invariants.h.
 */
#ifndef MMSB_NATIVE_TESTS_WHOLE_H
#define MMSB_NATIVE_TESTS_WHOLE_H

#include <stdio.h>

#include "../invariants.h"

/* No call runs on the context: 1 where nothing is wrong with it, or this build cannot tell. */
static inline int table_is_whole(uint32_t context_index) {
#if defined(MMSB_INVARIANTS)
    const char *wrong_there = mmsb__table_check(context_index);
    if (wrong_there)
        fprintf(stderr, "context %u: %s\n", context_index, wrong_there);
    return wrong_there == NULL;
#else
    (void)context_index;
    return 1;
#endif
}

#endif
