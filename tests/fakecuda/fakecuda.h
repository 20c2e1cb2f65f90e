/*
 * fakecuda.h — how a test drives the stand-in for libcuda.so.1.
 *
 * The environment, read by the first cuInit:
 *   FAKECUDA_DEVICES  how many devices there are; 2
 *   FAKECUDA_MEMORY   bytes of each one's memory; 1 GiB
 *   FAKECUDA_VERSION  the CUDA version it says; functions that came later are not found; 13000
 *   FAKECUDA_INIT     what cuInit answers; 0
 *   FAKECUDA_WITHOUT  a function that is not found
 *   FAKECUDA_DELAY    microseconds that queued work takes longer at most; each time another number, always the same sequence; 0
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stddef.h>

/* What is alive. */
struct fakecuda_counts {
    size_t contexts; /* how often primary contexts are retained */
    size_t streams, events, modules, pools;
    size_t allocations, bytes; /* of devices, of the host, and managed; without what pools hold for reuse */
    size_t registered, reservations, physicals, mappings;
};

/* The n-th call from now (1 is the next) of a function answers with a code and does nothing; NULL stands for every function but
 * cuCtxPopCurrent. 0 ends that. Counts calls anew. */
void fakecuda_fail(const char *function, int nth, int code);
/* How many calls of that function (NULL: of all) there were since. */
int fakecuda_calls(void);
/* From now on the device answers with this code, as after an error of a kernel. */
void fakecuda_break(int device, int code);
/* While held, queued work does not run. */
void fakecuda_hold(int held);
void fakecuda_count(struct fakecuda_counts *counts);

#endif
