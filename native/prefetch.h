/* prefetch.h — asks for memory before it is written, of many places at once. */
#ifndef MMSB_PREFETCH_H
#define MMSB_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Asks for the line of each place, to be written. A place may be any address: what is not there is not asked for. */
void mmsb__prefetch_to_write(const uintptr_t *places, size_t count);

#pragma GCC visibility pop
#endif
