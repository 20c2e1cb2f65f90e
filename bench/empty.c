/* empty.c — a shared library whose functions do nothing: the minimal cost of a call from C. */
#include "bench.h"

uint64_t bench_empty_call(uint64_t argument) {
    return argument;
}

uint32_t bench_empty_number(void) {
    return 0;
}

int32_t bench_empty_pin(uint64_t page, int32_t mode, void **address) {
    (void)page;
    (void)mode;
    (void)address;
    return 0;
}
