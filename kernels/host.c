/* host.c — the kernels' host build: what simulated devices and stand-ins of the driver run. */
#include "bodies.h"

uint64_t mmsb__kernel_base __attribute__((visibility("hidden")));
uint64_t mmsb__kernel_end __attribute__((visibility("hidden")));
uint64_t mmsb__kernel_distance __attribute__((visibility("hidden")));

void mmsb__kernel_reach(uint64_t base, uint64_t end, uint64_t distance) {
    mmsb__kernel_base = base;
    mmsb__kernel_end = end;
    mmsb__kernel_distance = distance;
}

#define DEFINE(kernel) \
    static void run_##kernel(const void *parameter, uint64_t thread, uint64_t threads) { \
        mmsb__kernel_##kernel##_body((const mmsb__kernel_##kernel##_t *)parameter, thread, threads); \
    } \
    void mmsb__kernel_##kernel##_alone(const mmsb__kernel_##kernel##_t *parameter) { \
        mmsb__kernel_##kernel##_body(parameter, 0, 1); \
    }
MMSB_KERNELS(DEFINE)

#define ENTRY(kernel) {"mmsb__kernel_" #kernel, sizeof(mmsb__kernel_##kernel##_t), run_##kernel},
static const mmsb__kernel_host_t kernels[] = {MMSB_KERNELS(ENTRY)};

const mmsb__kernel_host_t *mmsb__kernel_host(const char *name) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels + i;
    return NULL;
}

void mmsb__kernel_checksum_by_lanes(const mmsb__kernel_checksum_t *p) {
    uint32_t *sums = (uint32_t *)(void *)reach(p->sums);
    lane_t lane = lane_of(0);
    for (uint64_t begin = 0, part; begin < p->bytes; begin += part) {
        uint64_t sum = 0;
        part = lesser(p->part, p->bytes - begin);
        for (lane.number = 0; lane.number < LANES; lane.number++) {
            lane.to_end = x_to_end[lane.number];
            sum ^= sum_of_lane(&lane, reach(p->from), begin, part, p->bytes);
        }
        *sums++ = checksum_of(sum, part, &lane);
    }
}
