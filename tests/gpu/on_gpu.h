/* on_gpu.h — before the rest of a test of tests/c: where it asks for simulated devices it gets this machine's GPUs. */
#include <mmsb.h>

#undef MMSB_SIMULATE_ALWAYS
#define MMSB_SIMULATE_ALWAYS MMSB_SIMULATE_OFF
