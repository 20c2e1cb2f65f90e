/*
 * check.h — what tests of native/ count with.
 */
#ifndef MMSB_NATIVE_TESTS_CHECK_H
#define MMSB_NATIVE_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int passed, failed, wrong;
static int stop_at_failure; /* the first thing that is not true ends the process: all there is to learn where a bug is planted */

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            if (stop_at_failure) \
                _exit(3); \
            if (__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED) > 20) \
                exit(1); \
        } \
    } while (0)

static void end_case(const char *name) {
    if (wrong == 0) {
        passed++;
    } else {
        failed++;
        fprintf(stderr, "FAILED: %s\n", name);
    }
    wrong = 0;
}

#endif
