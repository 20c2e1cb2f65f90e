/* kernels.cu — the kernels as the device's functions. */
#include "bodies.h"

/* A multiprocessor runs 1024 threads at a time at least, in blocks of 256, or in one of 1024 where few blocks are to keep a link
 * busy: the 64 registers that leaves are enough for every body, and the bytes under way keep its memory busy. */
#define DEFINE(kernel) \
    extern "C" __global__ void __launch_bounds__(1024, 1) \
        mmsb__kernel_##kernel(const __grid_constant__ mmsb__kernel_##kernel##_t parameter) { \
        uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; \
        mmsb__kernel_##kernel##_body(&parameter, thread, (uint64_t)gridDim.x * blockDim.x); \
    }
MMSB_KERNELS(DEFINE)
