/* on_gpu.h — before the rest of a test of tests/c: where it asks for simulated devices it gets this machine's GPUs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* what the test includes needs it before every other header */
#endif

#include <mmsb.h>

#undef MMSB_SIMULATE_ALWAYS
#define MMSB_SIMULATE_ALWAYS MMSB_SIMULATE_OFF
