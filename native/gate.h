/*
 * gate.h — what every public call passes first, and the thread's last error.
 */
#ifndef MMSB_NATIVE_GATE_H
#define MMSB_NATIVE_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "mmsb.h"

#pragma GCC visibility push(hidden)

#define MMSB_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define MMSB_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* 0, or what mmsb_gate_closed deals with: the library has not started yet, it was forked, or it is poisoned. */
extern mmsb_status_t mmsb_gate;

/* Starts the library: MMSB_OK; or stores the reason as last error: MMSB_E_FORKED in the child of a process that has the library,
 * MMSB_E_POISONED after an internal error, MMSB_E_OUT_OF_MEMORY. */
mmsb_status_t mmsb_gate_closed(void);
/* Closes the gate after an internal error; the first text stays. */
void mmsb_gate_poison(const char *text, size_t length);
/* Stores the thread's last error and returns the code. */
mmsb_status_t mmsb_fail(mmsb_status_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
mmsb_status_t mmsb_fail_foreign(mmsb_status_t code, int32_t domain, int32_t foreign_code, const char *text, size_t length)
    __attribute__((cold));

/* The thread whose error_* fields are the caller's last error. Never NULL. */
struct mmsb_thread *mmsb_error(void);

#pragma GCC visibility pop
#endif
