/* Asks the system for what Go takes for granted: system.h. */
#define _GNU_SOURCE /* processors */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What Go and its first threads reserve, and some for the first work. */
#define GO_ADDRESSES (UINT64_C(2) << 30)
/* Go has one thread for each processor, some that wait in system calls, and a few of its own; most programs use no more. */
#define THREADS_BESIDE 12
#define THREADS_MOST 32
/* Go keeps four: two of the cgroup that limits its processors, the poller, and what wakes that. Other threads of the program may
 * open some meanwhile. */
#define DESCRIPTORS 6

/* Addresses that nothing else takes once Go has started; core/limits keeps the same. */
#define GO_KEEPS (UINT64_C(512) << 20)

/* What is left of RLIMIT_AS, which is *limit; UINT64_MAX without a limit. */
static uint64_t addresses_left(uint64_t *limit) {
    struct rlimit now;
    if (getrlimit(RLIMIT_AS, &now) != 0 || now.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    *limit = now.rlim_cur;
    char text[64] = "";
    unsigned long long pages = 0; /* where the system does not say: fewer than there are */
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            sscanf(text, "%llu", &pages);
        close(file);
    }
    const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return used < now.rlim_cur ? now.rlim_cur - used : 0;
}

int mmsb__addresses_suffice(uint64_t bytes) {
    uint64_t limit = 0;
    const uint64_t left = addresses_left(&limit);
    return left >= GO_KEEPS && left - GO_KEEPS >= bytes;
}

static mmsb_status_t check_addresses(void) {
    uint64_t limit = 0;
    const uint64_t needed = mmsb__table_addresses() + mmsb__thread_addresses() + GO_ADDRESSES;
    const uint64_t left = addresses_left(&limit);
    if (left >= needed)
        return MMSB_OK;
    return mmsb__fail(MMSB_E_OUT_OF_MEMORY,
                      "the library needs %llu bytes of addresses, %llu are left of RLIMIT_AS (ulimit -v) %llu",
                      (unsigned long long)needed, (unsigned long long)left, (unsigned long long)limit);
}

static mmsb_status_t denied(const char *what) {
    const int error = errno;
    const mmsb_status_t code = error == ENOMEM ? MMSB_E_LIMIT : MMSB_E_UNSUPPORTED;
    mmsb__fail(code, "the system denies %s, without which Go's runtime ends the process: %s", what, strerror(error));
    mmsb__thread_t *last = mmsb__error();
    last->error_domain = MMSB_DOMAIN_ERRNO;
    last->error_foreign = error;
    return code;
}

static mmsb_status_t check_descriptors(void) {
    int taken[DESCRIPTORS], count = 0;
    if ((taken[0] = epoll_create1(EPOLL_CLOEXEC)) >= 0)
        while (++count < DESCRIPTORS && (taken[count] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0)
            ;
    const int error = errno;
    for (int i = 0; i < count; i++)
        close(taken[i]);
    if (count == DESCRIPTORS)
        return MMSB_OK;
    errno = error;
    if (error != EMFILE && error != ENFILE)
        return denied(count == 0 ? "epoll_create1" : "eventfd2");
    return mmsb__fail(MMSB_E_LIMIT, "the library needs %d file descriptors at the start, the system gave %d (RLIMIT_NOFILE): %s",
                      DESCRIPTORS, count, strerror(error));
}

static mmsb_status_t check_calls(void) {
    stack_t signal_stack;
    char random;
    if (sigaltstack(NULL, &signal_stack) != 0)
        return denied("sigaltstack");
    if (syscall(SYS_getrandom, &random, sizeof random, 1 /* GRND_NONBLOCK */) < 0 && errno != ENOSYS && errno != EAGAIN)
        return denied("getrandom");
    return MMSB_OK;
}

#ifndef __SANITIZE_THREAD__
/* Ends when all are there. */
static void *probe(void *probing) {
    pthread_mutex_lock(probing);
    pthread_mutex_unlock(probing);
    return NULL;
}

static mmsb_status_t check_threads(void) {
    cpu_set_t processors;
    int wanted = THREADS_BESIDE + (sched_getaffinity(0, sizeof processors, &processors) == 0 ? CPU_COUNT(&processors) : 1);
    wanted = wanted < THREADS_MOST ? wanted : THREADS_MOST;
    pthread_t threads[THREADS_MOST];
    pthread_mutex_t probing = PTHREAD_MUTEX_INITIALIZER; /* not static: a child of fork would find it locked */
    sigset_t all, before;
    int made = 0, error = 0;
    sigfillset(&all); /* the program's signals are not for these threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_mutex_lock(&probing);
    while (made < wanted && (error = pthread_create(&threads[made], NULL, probe, &probing)) == 0)
        made++;
    pthread_mutex_unlock(&probing);
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made == wanted)
        return MMSB_OK;
    errno = error;
    if (error != EAGAIN && error != ENOMEM)
        return denied("new threads");
    return mmsb__fail(MMSB_E_LIMIT, "the library needs %d threads at the start, the system gave %d (RLIMIT_NPROC, pids.max): %s",
                      wanted, made, strerror(error));
}

#endif

mmsb_status_t mmsb__system_check(void) {
    mmsb_status_t status = check_addresses();
    if (status == MMSB_OK)
        status = check_descriptors();
    if (status == MMSB_OK)
        status = check_calls();
#ifndef __SANITIZE_THREAD__ /* which allows no threads in a child of a process that had some */
    if (status == MMSB_OK)
        status = check_threads();
#endif
    return status;
}
