/*
 * system.h — whether the system lets Go's runtime start. Go ends the process where it does not get what it needs; asked first,
 * the first call fails instead. What a system takes away later nobody can ask (docs/contract.md).
 */
#ifndef MMSB_NATIVE_SYSTEM_H
#define MMSB_NATIVE_SYSTEM_H

#include "thread.h"

#pragma GCC visibility push(hidden)

/* Errors: MMSB_E_OUT_OF_MEMORY (addresses: RLIMIT_AS), MMSB_E_LIMIT (threads, descriptors), MMSB_E_UNSUPPORTED (a system call is
 * denied). The thread's last error is one of these; nothing of the library has begun. */
mmsb_status_t mmsb__system_check(void);
/* 1: so many bytes of addresses leave enough for Go, which ends the process where it gets none. */
int mmsb__addresses_suffice(uint64_t bytes);

#pragma GCC visibility pop
#endif
