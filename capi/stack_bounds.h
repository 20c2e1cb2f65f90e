#ifndef MMSB_CAPI_STACK_BOUNDS_H
#define MMSB_CAPI_STACK_BOUNDS_H

#include <stdint.h>

/* How often the real pthread_getattr_np was asked; for the test that a new Go release cannot undo the fix unseen. */
extern uint64_t mmsb__stack_bound_queries __attribute__((visibility("hidden")));

#endif
