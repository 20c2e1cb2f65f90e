/* ordered_set.h — a pool as RMM's and PyTorch's are built; ordered_set.cpp says how. Any thread may call. */
#ifndef MMSB_BENCH_ORDERED_SET_H
#define MMSB_BENCH_ORDERED_SET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void *ordered_set_create(void);
void ordered_set_destroy(void *pool);
void *ordered_set_allocate(void *pool, uint64_t stream, size_t bytes);
/* 0, or 1 where the address is not one of a block. */
int ordered_set_free(void *pool, void *address);

#ifdef __cplusplus
}
#endif

#endif
