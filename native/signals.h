/*
 * signals.h — handlers of the program that may not run where Go runs. A handler runs on the stack that its thread is on, unless
 * it was installed with SA_ONSTACK and the thread has another one for signals. In a call that has entered Go that is the stack of
 * a goroutine, of a few KiB, and what lies behind it is overwritten.
 */
#ifndef MMSB_NATIVE_SIGNALS_H
#define MMSB_NATIVE_SIGNALS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* The first signal after this one whose handler was installed without SA_ONSTACK, or 0. where: the handler's function, or the
 * file that it is in, or its address; always ends with 0. */
int mmsb__signals_unsafe(int after, char *where, size_t capacity);

#pragma GCC visibility pop

#endif /* MMSB_NATIVE_SIGNALS_H */
