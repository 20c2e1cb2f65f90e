/*
 * Go asks for the bounds of the calling thread's stack whenever the stack pointer lies outside the bounds that it knows. Julia
 * tasks and other coroutines run on stacks of their own, so it asks at each of their calls, and on the main thread glibc answers
 * by reading /proc/self/maps: 200 µs a call. The bounds of a thread's own stack do not change; one answer per thread is enough.
 * What Go makes of it is the same as before. The linker puts __wrap_ in the place of the function (#cgo LDFLAGS in main.go).
 */
#include <pthread.h>
#include <string.h>

#include "stack_bounds.h"

extern int __real_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes);
int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes);

uint64_t mmsb__stack_bound_queries;

typedef struct bounds {
    void *address;
    size_t size;
    int known;
} bounds_t;

static _Thread_local bounds_t bounds;

int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) {
    if (!pthread_equal(thread, pthread_self()) || !bounds.known) {
        __atomic_add_fetch(&mmsb__stack_bound_queries, 1, __ATOMIC_RELAXED);
        int error = __real_pthread_getattr_np(thread, attributes);
        if (error == 0 && pthread_equal(thread, pthread_self()))
            bounds.known = pthread_attr_getstack(attributes, &bounds.address, &bounds.size) == 0;
        return error;
    }
    int error = pthread_attr_init(attributes);
    return error != 0 ? error : pthread_attr_setstack(attributes, bounds.address, bounds.size);
}
