/*
 * gate.h — what every public call passes first: mmsb__gate is 0, or the library starts, or says why no call runs any more.
 */
#ifndef MMSB_NATIVE_GATE_H
#define MMSB_NATIVE_GATE_H

#include <stdbool.h>

#include "thread.h"

#pragma GCC visibility push(hidden)

/* Starts Go's runtime, once, in the first call. NULL where Go runs already or where there is none: tests. */
extern void (*mmsb__start_go)(void);

/* Starts the library: MMSB_OK; or stores the reason as last error: MMSB_E_FORKED in the child of a process that has the library,
 * MMSB_E_POISONED after an internal error, and the errors of system.h. */
mmsb_status_t mmsb__gate_closed(void);
/* Closes the gate after an internal error; the first text stays. */
void mmsb__gate_poison(const char *text, size_t length);
/* A child of fork closes the descriptor first, or no more: what is locked through a descriptor stays locked as long as any
 * process has a copy of it. */
void mmsb__close_in_child(int descriptor, bool closes);

#pragma GCC visibility pop
#endif
