/*
 * test_hooks.h — what the test build of the library (go build -tags mmsbtest, build/test/libmmsb.so) exports beside mmsb.h. None of
 * it is in the release library.
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

#endif /* MMSB_TESTS_TEST_HOOKS_H */
