//go:build mmsbtest

/* What the test build exports beside mmsb.h; none of it is in the release library. */
#include "door.h"
#include "stack_bounds.h"

#include "_cgo_export.h"

MMSB_API mmsb_status_t mmsb_test_panic(void);
MMSB_API uint64_t mmsb_test_stack_bound_queries(void);
MMSB_API mmsb_status_t mmsb_test_page_generation(mmsb_page_t page, uint32_t generation, mmsb_page_t *moved);
MMSB_API mmsb_status_t mmsb_test_collect(uint64_t *pause_ns, uint64_t *total_ns);
MMSB_API mmsb_status_t mmsb_test_check(mmsb_context_t context);
MMSB_API mmsb_status_t mmsb_test_slow_devices(uint64_t latency_ns);
MMSB_API mmsb_status_t mmsb_test_hold_devices(int32_t hold);
MMSB_API mmsb_status_t mmsb_test_violations(mmsb_context_t context);
MMSB_API mmsb_status_t mmsb_test_device_fault(mmsb_context_t context, int32_t device, int32_t call, int32_t after,
                                              int32_t effect);

mmsb_status_t mmsb_test_panic(void) {
    DOOR_ENTER();
    return mmsbgo_test_panic();
}

uint64_t mmsb_test_stack_bound_queries(void) {
    return __atomic_load_n(&mmsb__stack_bound_queries, __ATOMIC_RELAXED);
}

mmsb_status_t mmsb_test_page_generation(mmsb_page_t page, uint32_t generation, mmsb_page_t *moved) {
    DOOR_ENTER();
    DOOR_POINTER(moved);
    return mmsbgo_test_page_generation(page, generation, moved);
}

mmsb_status_t mmsb_test_collect(uint64_t *pause_ns, uint64_t *total_ns) {
    DOOR_ENTER();
    DOOR_POINTER(pause_ns);
    DOOR_POINTER(total_ns);
    return mmsbgo_test_collect(pause_ns, total_ns);
}

mmsb_status_t mmsb_test_check(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_test_check(context);
}

mmsb_status_t mmsb_test_slow_devices(uint64_t latency_ns) {
    DOOR_ENTER();
    return mmsbgo_test_slow_devices(latency_ns);
}

mmsb_status_t mmsb_test_hold_devices(int32_t hold) {
    DOOR_ENTER();
    return mmsbgo_test_hold_devices(hold);
}

mmsb_status_t mmsb_test_violations(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_test_violations(context);
}

mmsb_status_t mmsb_test_device_fault(mmsb_context_t context, int32_t device, int32_t call, int32_t after, int32_t effect) {
    DOOR_ENTER();
    return mmsbgo_test_device_fault(context, device, call, after, effect);
}
