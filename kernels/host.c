/* host.c — the kernels' host build: what simulated devices and stand-ins of the driver run. */
#include "bodies.h"

uint64_t mmsb_kernel_base __attribute__((visibility("hidden")));
uint64_t mmsb_kernel_end __attribute__((visibility("hidden")));
uint64_t mmsb_kernel_distance __attribute__((visibility("hidden")));

void mmsb_kernel_reach(uint64_t base, uint64_t end, uint64_t distance) {
    mmsb_kernel_base = base;
    mmsb_kernel_end = end;
    mmsb_kernel_distance = distance;
}

#define DEFINE(kernel) \
    static void run_##kernel(const void *parameter, uint64_t thread, uint64_t threads) { \
        mmsb_kernel_##kernel##_body((const mmsb_kernel_##kernel##_t *)parameter, thread, threads); \
    }
MMSB_KERNELS(DEFINE)

#define ENTRY(kernel) {"mmsb_kernel_" #kernel, sizeof(mmsb_kernel_##kernel##_t), run_##kernel},
static const mmsb_kernel_host_t kernels[] = {MMSB_KERNELS(ENTRY)};

const mmsb_kernel_host_t *mmsb_kernel_host(const char *name) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels + i;
    return NULL;
}
