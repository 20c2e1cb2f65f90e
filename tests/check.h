/*
 * check.h — what every C test uses, whatever it tests: checks, the count of tests, random numbers, threads.
 *
 * A program is a list of tests: RUN(test) for each function, then `return check_report();`, which prints "N passed, M failed". It
 * counts tests, not comparisons: a test has passed when no check in it failed, on whatever thread. One that a loop makes from a
 * table is put between check_begin(name) and check_end().
 */
#ifndef MMSB_TESTS_CHECK_H
#define MMSB_TESTS_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* so this comes before every other header */
#endif

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Weak: all files of a program that include this have one of it. */
#define CHECK_SHARED __attribute__((weak))

CHECK_SHARED const char *check_name; /* of the running test */
CHECK_SHARED int check_failures;     /* checks that failed in it */
CHECK_SHARED int check_tests_passed;
CHECK_SHARED int check_tests_failed;
CHECK_SHARED int check_stops; /* the first check that fails ends the process: of a program with a planted bug no more is wanted */

/* Set by the header about the library under test: checks at the end of each test, and a text beside a requirement not met. */
CHECK_SHARED void (*check_at_end)(void);
CHECK_SHARED const char *(*check_last_error)(void);

/* Reports at most 20 failures of a test: a broken loop must not drown the rest. */
__attribute__((format(printf, 3, 4))) static inline void check_fail(const char *file, int line, const char *format, ...) {
    if (__atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED) > 20) {
        return;
    }
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    if (check_stops) {
        _exit(1);
    }
}

#define CHECK(condition) ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, "not true: %s", #condition))

#define CHECK_EQUAL(actual, expected) check_equal(__FILE__, __LINE__, #actual, (uint64_t)(actual), (uint64_t)(expected))

static inline void check_equal(const char *file, int line, const char *what, uint64_t actual, uint64_t expected) {
    if (actual != expected) {
        check_fail(file, line, "%s is %llu (0x%llx), expected %llu (0x%llx)", what, (unsigned long long)actual,
                   (unsigned long long)actual, (unsigned long long)expected, (unsigned long long)expected);
    }
}

/* For what the rest of the program cannot do without. */
#define REQUIRE(condition) ((condition) ? (void)0 : check_give_up(__FILE__, __LINE__, "%s", #condition))
#define GIVE_UP(...) check_give_up(__FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4), noreturn)) static inline void check_give_up(const char *file, int line, const char *format,
                                                                                 ...) {
    const int error = errno;
    fprintf(stderr, "%s:%d: cannot go on: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (errno: %s", strerror(error));
    if (check_last_error != NULL) {
        fprintf(stderr, "; last error: %s", check_last_error());
    }
    fputs(")\n", stderr);
    exit(2);
}

/* ---------------------------------------------------------------------------------------------------------- tests ---- */

static inline void check_begin(const char *name) {
    check_name = name;
    check_failures = 0;
}

static inline void check_end(void) {
    if (check_at_end != NULL) {
        check_at_end();
    }
    if (check_failures == 0) {
        check_tests_passed++;
    } else {
        check_tests_failed++;
        fprintf(stderr, "FAILED: %s (%d checks)\n", check_name, check_failures);
    }
}

#define RUN(test) check_run(#test, test)

/* With CHECK_APART=SECONDS in the environment each test has a process and so much time of its own: one that crashes or hangs says
 * nothing of the others. */
static inline void check_run(const char *name, void (*test)(void)) {
    const char *seconds = getenv("CHECK_APART");
    fflush(NULL);
    const pid_t child = seconds != NULL ? fork() : 0;
    if (child == 0) {
        alarm(seconds != NULL ? (unsigned)atoi(seconds) : 0);
        check_begin(name);
        test();
        check_end();
    } else {
        int status = 1;
        waitpid(child, &status, 0);
        check_tests_passed += status == 0;
        check_tests_failed += status != 0;
        printf("%s: %s", name, status == 0 ? "passed\n" : "");
        if (status != 0)
            printf("FAILED: %s %d\n", WIFSIGNALED(status) ? "signal" : "exit status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    if (child == 0 && seconds != NULL) {
        fflush(stdout);
        _exit(check_failures != 0);
    }
}

/* The exit status of the program. One that ran no test has shown nothing. */
static inline int check_report(void) {
    printf("%d passed, %d failed\n", check_tests_passed, check_tests_failed);
    fflush(stdout);
    return check_tests_failed != 0 || check_tests_passed == 0;
}

/* -------------------------------------------------------------------------------------------------------- helpers ---- */

/* splitmix64: small, and the same everywhere. */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t bound) {
    return random_next(state) % bound;
}

/* How long a test waits for what must come: only one that hangs is ended by it. A loaded machine stops a program for seconds. */
enum { CHECK_PATIENCE = 600 /* seconds */ };

static inline int64_t check_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static inline void check_sleep_ms(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

enum { MAXIMUM_THREADS = 64 };

typedef struct team_member {
    uint64_t index;
    void *shared;
} team_member_t;

/* Runs count threads; each gets a team_member_t with its index. Returns when all have ended. */
static inline void run_team(int count, void *(*work)(void *), void *shared) {
    pthread_t threads[MAXIMUM_THREADS];
    team_member_t members[MAXIMUM_THREADS];
    REQUIRE(count <= MAXIMUM_THREADS);
    for (int i = 0; i < count; i++) {
        members[i].index = (uint64_t)i;
        members[i].shared = shared;
        REQUIRE(pthread_create(&threads[i], NULL, work, &members[i]) == 0);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

#endif /* MMSB_TESTS_CHECK_H */
