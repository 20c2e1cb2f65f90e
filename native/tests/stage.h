/*
 * stage.h — what tests of native/ have in place of Go and of the kernel: a table with a region for pages, and the way of a system
 * call through a test.
 */
#ifndef MMSB_NATIVE_TESTS_STAGE_H
#define MMSB_NATIVE_TESTS_STAGE_H

#include "../../tests/check.h"

#include "../gate.h"
#include "../record.h"

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* The first leaves of the table, which are this context's, and memory for its pages. */
static inline void stage_table(uint32_t leaves, uint32_t context_index, uint32_t region, size_t bytes) {
    REQUIRE(mmsb__gate_closed() == MMSB_OK);
    for (uint32_t leaf = 0; leaf < leaves; leaf++) {
        REQUIRE(mmsb__table_open_leaf(leaf) == 0);
        mmsb__table.leaf_context[leaf] = context_index;
    }
    mmsb__region_map(region,
                     (uintptr_t)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

typedef struct stage_call {
    long number, arguments[6];
} stage_call_t;

/* A system call's arguments, which may be fewer than are read. */
__attribute__((no_sanitize_address)) static inline stage_call_t stage_call(long number, va_list list) {
    stage_call_t call = {.number = number};
    for (int i = 0; i < 6; i++)
        call.arguments[i] = va_arg(list, long);
    return call;
}

/* Whether it asks for a barrier on all threads, which cannot be told from what threads see, but by luck. */
static inline int stage_is_barrier(const stage_call_t *call) {
    return call->number == SYS_membarrier && (int)call->arguments[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED;
}

static inline long stage_ask(const stage_call_t *call) {
    static long (*kernel)(long, ...);
    if (!kernel)
        kernel = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
    const long *with = call->arguments;
    long result = kernel(call->number, with[0], with[1], with[2], with[3], with[4], with[5]);
    /* A kernel that knows no barrier must not hide that nobody asks for it. */
    return check_stops && call->number == SYS_membarrier ? 0 : result;
}

#endif
