/*
 * Go's runtime starts at the first call, not when the library is loaded: the runtime has threads, which a child of fork does not
 * get, and a daemon forks before its first call. go_start.ld takes the function that starts it out of the list that the loader
 * runs. The function makes one thread and returns; calls that enter Go before that thread is ready wait there, as Go provides.
 *
 * Go reads its arguments and what follows them on the stack of the process, where they stay. It counts the processors that its
 * first thread may use, as many goroutines run at once, and this thread may use those of the one that calls the function. That
 * one may have been bound to a single processor, by OpenMP for instance; so it gets, for the start, those that it had when the
 * library was loaded.
 *
 * Go's threads have the signal mask of the first one: all but the signals of faults are blocked there, so that no handler of the
 * program runs on them, where it would find the stack of a goroutine, and no signal that the program waits for goes to them.
 *
 * Go's package os raises the soft limit of file descriptors to the hard one. It is the program's: the last step of Go's start sets
 * it as it was.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "gate.h"

extern void (*const mmsb__go_entry)(int, char **, char **) __attribute__((visibility("hidden"))); /* go_start.ld */

static int argument_count;
static char **arguments, **environment;
static cpu_set_t processors;
static int processors_known;
static struct rlimit descriptors; /* as before Go's start */
static int descriptors_known;

/* Blocks the signals that others than the thread itself send; own is the mask before. */
static void block_signals(sigset_t *own) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t signals;
    sigfillset(&signals);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&signals, faults[i]);
    pthread_sigmask(SIG_SETMASK, &signals, own);
}

static void start_go(void) {
    sigset_t own_signals;
    cpu_set_t own;
    int differs = processors_known && sched_getaffinity(0, sizeof own, &own) == 0 && !CPU_EQUAL(&own, &processors) &&
                  sched_setaffinity(0, sizeof processors, &processors) == 0;
    block_signals(&own_signals);
    descriptors_known = getrlimit(RLIMIT_NOFILE, &descriptors) == 0;
    mmsb__go_entry(argument_count, arguments, environment);
    pthread_sigmask(SIG_SETMASK, &own_signals, NULL);
    if (differs)
        sched_setaffinity(0, sizeof own, &own);
}

__attribute__((visibility("hidden"))) void mmsb__restore_descriptors(void) {
    if (descriptors_known)
        setrlimit(RLIMIT_NOFILE, &descriptors);
}

__attribute__((constructor)) static void wait_for_first_call(int count, char **values, char **variables) {
    argument_count = count;
    arguments = values;
    environment = variables;
    processors_known = sched_getaffinity(0, sizeof processors, &processors) == 0;
    mmsb__start_go = start_go;
}
