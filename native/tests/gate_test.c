/*
 * The gate without Go: what the first call starts, and what a child of fork may do before, during and after it. A stand-in for
 * the start of Go's runtime stops where a test forks. A process has one first call, so each case runs in a child of its own.
 *
 * With the argument `steps` the first check that fails ends the process: tests/mutations plants bugs, which it must show.
 */
#include "../../tests/check.h"

#include "../gate.h"
#include "../signals.h"
#include "../system.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static unsigned patience = CHECK_PATIENCE;
static int child_hangs; /* threads that only had to be there when it was forked may rest */

/* The exit status of a child that runs a function: 0 where no check in it failed. One that hangs is killed. */
static int in_a_child(void (*work)(void)) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(patience);
        check_failures = 0;
        work();
        fflush(NULL);
        _exit(check_failures != 0);
    }
    int status = -1;
    pid_t ended;
    for (int waited = 0; (ended = waitpid(child, &status, WNOHANG)) == 0; waited++) {
        __atomic_store_n(&child_hangs, waited > 100, __ATOMIC_RELAXED);
        check_sleep_ms(1);
    }
    __atomic_store_n(&child_hangs, 0, __ATOMIC_RELAXED);
    REQUIRE(ended == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int starts; /* of Go's runtime */

static void count_start(void) {
    __atomic_add_fetch(&starts, 1, __ATOMIC_SEQ_CST);
}

static void starts_it(void) {
    mmsb__start_go = count_start;
    CHECK_EQUAL(starts, 0);
    CHECK_EQUAL(mmsb__gate_closed(), MMSB_OK);
    CHECK_EQUAL(mmsb__gate_closed(), MMSB_OK);
    CHECK_EQUAL(mmsb__gate, MMSB_OK);
    CHECK_EQUAL(mmsb__detours & ~1u, 0); /* one is left where the kernel has no membarrier */
    CHECK_EQUAL(starts, 1);
}

static void is_forked(void) {
    mmsb__start_go = count_start; /* which waits for nothing, if it comes to that */
    CHECK_EQUAL(mmsb__gate_closed(), MMSB_E_FORKED);
    CHECK_EQUAL(mmsb__gate, MMSB_E_FORKED);
    CHECK(mmsb__detours > 0);
}

static void and_so_are_its_children(void) {
    is_forked();
    CHECK_EQUAL(in_a_child(is_forked), 0);
}

/* --------------------------------------------------------------------------------------------------------- cases ---- */

static void first_calls(void) {
    CHECK_EQUAL(in_a_child(starts_it), 0);
    CHECK_EQUAL(in_a_child(starts_it), 0);
    starts_it();
    CHECK_EQUAL(in_a_child(and_so_are_its_children), 0);
    CHECK_EQUAL(mmsb__gate_closed(), MMSB_OK);
}

static int go_is_starting, go_may_start;

static void start_slowly(void) {
    count_start();
    __atomic_store_n(&go_is_starting, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&go_may_start, __ATOMIC_SEQ_CST))
        check_sleep_ms(1);
}

static int calls_that_returned;

static void *call(void *argument) {
    (void)argument;
    CHECK_EQUAL(mmsb__gate_closed(), MMSB_OK);
    __atomic_add_fetch(&calls_that_returned, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void forks_during_the_first_call(void) {
    pthread_t callers[3];
    mmsb__start_go = start_slowly;
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&callers[i], NULL, call, NULL) == 0);
    while (!__atomic_load_n(&go_is_starting, __ATOMIC_SEQ_CST))
        check_sleep_ms(1);
    REQUIRE(pthread_create(&callers[2], NULL, call, NULL) == 0); /* it sees that the library is starting */
    check_sleep_ms(20);                                          /* so that the other calls come to wait */
    CHECK_EQUAL(in_a_child(and_so_are_its_children), 0);
    CHECK_EQUAL(__atomic_load_n(&calls_that_returned, __ATOMIC_SEQ_CST), 0);
    __atomic_store_n(&go_may_start, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_join(callers[i], NULL) == 0);
    CHECK_EQUAL(calls_that_returned, 3);
    CHECK_EQUAL(starts, 1);
    CHECK_EQUAL(in_a_child(is_forked), 0);
}

/* Takes the gate's lock again and again, and nothing more: as a thread that is about to start the library. */
static int enough;

static void *hold_the_lock(void *argument) {
    (void)argument;
    while (!__atomic_load_n(&enough, __ATOMIC_RELAXED))
        if (__atomic_load_n(&child_hangs, __ATOMIC_RELAXED))
            check_sleep_ms(1);
        else
            mmsb__gate_poison("not yet", 7);
    return NULL;
}

static void forks_beside_a_thread_at_the_lock(void) {
    pthread_t holders[2];
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&holders[i], NULL, hold_the_lock, NULL) == 0);
    for (int i = 0; i < 100 && check_failures == 0; i++)
        CHECK_EQUAL(in_a_child(starts_it), 0);
    __atomic_store_n(&enough, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_join(holders[i], NULL) == 0);
    starts_it();
}

static void the_first_call_starts_the_library_once(void) {
    CHECK_EQUAL(in_a_child(first_calls), 0);
}

static void a_child_of_the_first_call_is_forked(void) {
    CHECK_EQUAL(in_a_child(forks_during_the_first_call), 0);
}

static void a_child_waits_for_no_thread_of_its_parent(void) {
    CHECK_EQUAL(in_a_child(forks_beside_a_thread_at_the_lock), 0);
}

static void on_signal(int number) {
    (void)number;
}

static void handlers_without_a_stack_are_found(void) {
    char where[256] = "nowhere";
    struct sigaction safe = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, unsafe = {.sa_handler = on_signal}, before[3];
    REQUIRE(sigaction(SIGUSR1, &safe, &before[0]) == 0 && sigaction(SIGUSR2, &unsafe, &before[1]) == 0);
    REQUIRE(sigaction(SIGTERM, &(struct sigaction){.sa_handler = SIG_IGN}, &before[2]) == 0);
    CHECK_EQUAL(mmsb__signals_unsafe(0, where, sizeof where), SIGUSR2);
    CHECK(strcmp(where, "nowhere") != 0);
    CHECK_EQUAL(mmsb__signals_unsafe(SIGUSR2, where, sizeof where), 0);
    REQUIRE(sigaction(SIGUSR1, &before[0], NULL) == 0 && sigaction(SIGUSR2, &before[1], NULL) == 0);
    REQUIRE(sigaction(SIGTERM, &before[2], NULL) == 0);
}

/* Leaves the process so many bytes of addresses. */
static void leave_addresses(uint64_t bytes) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = pages * (uint64_t)sysconf(_SC_PAGESIZE) + bytes;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}

static mmsb_status_t reserve(uint64_t bytes) {
    void *made = NULL;
    mmsb_status_t status = mmsb__reserve_addresses(bytes, "a test", &made);
    CHECK((status == MMSB_OK) == (made != NULL) && (made == NULL || munmap(made, bytes) == 0));
    return status;
}

static void with_few_addresses(void) {
    const uint64_t gib = UINT64_C(1) << 30;
    CHECK_EQUAL(reserve(16 * gib), MMSB_OK);
    leave_addresses(4 * gib);
    CHECK_EQUAL(reserve(3 * gib), MMSB_OK);
    CHECK_EQUAL(reserve(4 * gib - gib / 4), MMSB_E_OUT_OF_MEMORY);
    CHECK(strstr(mmsb__error()->error_text, "a test needs 4026531840 bytes of addresses, and Go 536870912; 4") != NULL);
    CHECK(strstr(mmsb__error()->error_text, "are left of RLIMIT_AS") != NULL);
    CHECK_EQUAL(reserve(UINT64_MAX), MMSB_E_OUT_OF_MEMORY);
    leave_addresses(gib / 4);
    CHECK_EQUAL(reserve(1), MMSB_E_OUT_OF_MEMORY);
}

/* What the library reserves leaves Go some: it ends the process where it gets none. */
static void addresses_are_left_for_go(void) {
    CHECK_EQUAL(in_a_child(with_few_addresses), 0);
}

int main(int argument_count, char **arguments) {
    check_stops = argument_count > 1 && strcmp(arguments[1], "steps") == 0;
    if (check_stops) {
        const char *bug = getenv("MMSB_MUTANT"); /* with one a child may hang */
        patience = bug && strcmp(bug, "0") != 0 ? 5 : 30;
    }
    RUN(the_first_call_starts_the_library_once);
    RUN(a_child_of_the_first_call_is_forked);
    RUN(a_child_waits_for_no_thread_of_its_parent);
    RUN(handlers_without_a_stack_are_found);
    RUN(addresses_are_left_for_go);
    return check_report();
}
