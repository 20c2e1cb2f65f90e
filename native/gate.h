/*
 * gate.h — what every public call passes first, and the thread's last error.
 */
#ifndef MMSB_NATIVE_GATE_H
#define MMSB_NATIVE_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "mmsb.h"

#pragma GCC visibility push(hidden)

#define MMSB__LIKELY(condition) __builtin_expect(!!(condition), 1)
#define MMSB__UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* 0, or what mmsb__gate_closed deals with: the library has not started yet, it was forked, or it is poisoned. */
extern mmsb_status_t mmsb__gate;

/* How many reasons there are for creating and destroying to take their longer way: the gate is closed, the kernel knows no
 * membarrier, a context is captured or frozen, a journal is open. One word, because these calls are counted in nanoseconds. It
 * moves before what it stands for comes and after it has gone. */
extern uint32_t mmsb__detours;

static inline void mmsb__detour_begin(void) {
    __atomic_add_fetch(&mmsb__detours, 1, __ATOMIC_SEQ_CST);
}

static inline void mmsb__detour_end(void) {
    __atomic_sub_fetch(&mmsb__detours, 1, __ATOMIC_SEQ_CST);
}

/* Starts Go's runtime, once, in the first call. NULL where Go runs already or where there is none: tests. */
extern void (*mmsb__start_go)(void);

/* Starts the library: MMSB_OK; or stores the reason as last error: MMSB_E_FORKED in the child of a process that has the library,
 * MMSB_E_POISONED after an internal error, MMSB_E_OUT_OF_MEMORY. */
mmsb_status_t mmsb__gate_closed(void);
/* Closes the gate after an internal error; the first text stays. */
void mmsb__gate_poison(const char *text, size_t length);
/* Stores the thread's last error and returns the code. */
mmsb_status_t mmsb__fail(mmsb_status_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
mmsb_status_t mmsb__fail_foreign(mmsb_status_t code, int32_t domain, int32_t foreign_code, const char *text, size_t length)
    __attribute__((cold));

/* The thread whose error_* fields are the caller's last error. Never NULL. */
struct mmsb__thread *mmsb__error(void);

#pragma GCC visibility pop
#endif
