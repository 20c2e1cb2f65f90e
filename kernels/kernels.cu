/* kernels.cu — the kernels as the device's functions. */
#include "bodies.h"

/* Blocks of up to 256 threads, of which at least four run on a multiprocessor at a time: the 64 registers that leaves are
 * enough for every body, and the bytes under way are enough to keep its memory busy. */
#define DEFINE(kernel) \
    extern "C" __global__ void __launch_bounds__(256, 4) \
        mmsb__kernel_##kernel(const __grid_constant__ mmsb__kernel_##kernel##_t parameter) { \
        uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; \
        mmsb__kernel_##kernel##_body(&parameter, thread, (uint64_t)gridDim.x * blockDim.x); \
    }
MMSB_KERNELS(DEFINE)
