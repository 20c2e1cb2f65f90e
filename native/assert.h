/*
 * assert.h — what must always hold, checked in builds for tests: with -DMMSB_INVARIANTS, which the Go tag `invariants` sets, too.
 * Elsewhere the condition is compiled, but not evaluated.
 */
#ifndef MMSB_NATIVE_ASSERT_H
#define MMSB_NATIVE_ASSERT_H

#if defined(MMSB_INVARIANTS)

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the process and names the place, the condition and two numbers that belong to it. */
static inline __attribute__((noreturn, cold)) void mmsb__assert_failed(const char *file, int line, const char *condition,
                                                                       uint64_t first, uint64_t second) {
    fprintf(stderr, "%s:%d: invariant broken: %s (0x%llx, 0x%llx)\n", file, line, condition, (unsigned long long)first,
            (unsigned long long)second);
    abort();
}

#define MMSB__ASSERT(condition, first, second) \
    ((condition) ? (void)0 : mmsb__assert_failed(__FILE__, __LINE__, #condition, (uint64_t)(first), (uint64_t)(second)))

#else

#define MMSB__ASSERT(condition, first, second) ((void)sizeof((condition) ? 1 : 0), (void)sizeof(first), (void)sizeof(second))

#endif
#endif
