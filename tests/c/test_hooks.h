/*
 * test_hooks.h — what the test build of the library (go build -tags mmsbtest, build/test/libmmsb.so) exports beside mmsb.h. None
 * of it is in the release library.
 */
#ifndef MMSB_TESTS_TEST_HOOKS_H
#define MMSB_TESTS_TEST_HOOKS_H

#include <mmsb.h>

/* Panics inside Go: answers MMSB_E_INTERNAL, and the library is poisoned from then on. */
mmsb_status_t mmsb_test_panic(void);

/* How often the C library's own pthread_getattr_np was called through the library's wrapper, by all threads. */
uint64_t mmsb_test_stack_bound_queries(void);

/* Moves the slot of a live page to another, later generation: *moved is the page's handle from then on, the old one is stale. */
mmsb_status_t mmsb_test_page_generation(mmsb_page_t page, uint32_t generation, mmsb_page_t *moved);

/* Walks over all of a context and of its devices' runtimes, on which no other call may run: MMSB_E_INTERNAL, and the last error
 * says what is wrong. */
mmsb_status_t mmsb_test_check(mmsb_context_t context);

/* From now on each operation takes so long on the simulated devices of contexts that did not use theirs yet. */
mmsb_status_t mmsb_test_slow_devices(uint64_t latency_ns);

/* Whether operations of devices that take time are kept from ending: 1, and 0 lets them go on. */
mmsb_status_t mmsb_test_hold_devices(int32_t hold);

/* What the program did not order on the context's simulated devices: MMSB_E_INVALID_STATE, the last error has the first one. */
mmsb_status_t mmsb_test_violations(mmsb_context_t context);

#define MMSB_TEST_ALLOCATE 0 /* memory of a stream */
#define MMSB_TEST_COPY 1
#define MMSB_TEST_FILL 2
#define MMSB_TEST_WAIT 3   /* of a stream for an event */
#define MMSB_TEST_RECORD 4 /* an event */
#define MMSB_TEST_FREE 5   /* of a stream */
#define MMSB_TEST_FAIL 0   /* the call fails and changes nothing */
#define MMSB_TEST_LOSE 1   /* the device is lost in the call */

/* Makes a call of a simulated device fail, after so many of its kind that go well. */
mmsb_status_t mmsb_test_device_fault(mmsb_context_t context, int32_t device, int32_t call, int32_t after, int32_t effect);

#endif /* MMSB_TESTS_TEST_HOOKS_H */
