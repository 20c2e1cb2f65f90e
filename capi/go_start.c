/*
 * Go's runtime starts at the first call, not when the library is loaded: the runtime has threads, which a child of fork does not
 * get, and a daemon forks before its first call. go_start.ld takes the function that starts it out of the list that the loader
 * runs. The function makes one thread and returns; calls that enter Go before that thread is ready wait there, as Go provides.
 *
 * Go reads its arguments and what follows them on the stack of the process, where they stay. It counts the processors that its
 * first thread may use, as many goroutines run at once, and this thread may use those of the one that calls the function. That
 * one may have been bound to a single processor, by OpenMP for instance; so it gets, for the start, those that it had when the
 * library was loaded.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "gate.h"

extern void (*const mmsb__go_entry)(int, char **, char **) __attribute__((visibility("hidden"))); /* go_start.ld */

static int argument_count;
static char **arguments, **environment;
static cpu_set_t processors;
static int processors_known;

static void start_go(void) {
    cpu_set_t own;
    int differs = processors_known && sched_getaffinity(0, sizeof own, &own) == 0 && !CPU_EQUAL(&own, &processors) &&
                  sched_setaffinity(0, sizeof processors, &processors) == 0;
    mmsb__go_entry(argument_count, arguments, environment);
    if (differs)
        sched_setaffinity(0, sizeof own, &own);
}

__attribute__((constructor)) static void wait_for_first_call(int count, char **values, char **variables) {
    argument_count = count;
    arguments = values;
    environment = variables;
    processors_known = sched_getaffinity(0, sizeof processors, &processors) == 0;
    mmsb__start_go = start_go;
}
