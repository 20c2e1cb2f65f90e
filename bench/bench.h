/*
 * bench.h — the harness of the C benchmarks: slices of ours, of the peer and of the limit interleaved in one process, in turning
 * order, and medians of the rounds. Each finished row is one line of JSON on stdout; table.py makes the table of them.
 */
#ifndef MMSB_BENCH_H
#define MMSB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the row's work count times. */
typedef void (*bench_work_t)(void *state, uint64_t count);

typedef enum bench_unit {
    BENCH_NANOSECONDS, /* an operation */
    BENCH_MILLIONS,    /* of operations a second */
    BENCH_MEGABYTES,   /* of payload a second */
    BENCH_GIBIBYTES,   /* plain values, measured by the program itself */
    BENCH_MEBIBYTES,
    BENCH_MILLISECONDS,
    BENCH_MICROSECONDS
} bench_unit_t;

typedef enum bench_aim { BENCH_INFORMATION, BENCH_AT_MOST, BENCH_AT_LEAST } bench_aim_t;

typedef struct bench_row {
    const char *what; /* group, work, and what is touched */
    bench_unit_t unit;
    bench_work_t ours;
    bench_work_t peer;  /* NULL = absent: a row with an aim is then not reached */
    bench_work_t limit; /* what no implementation can beat; NULL = none measured */
    bool limit_is_peer;
    void *state;
    double ours_operations; /* operations that one count of ours does; 0 = 1 */
    double peer_operations; /* the same of the peer and the limit; 0 = 1 */
    double bytes;           /* payload of an operation, for BENCH_MEGABYTES */
    int threads;     /* of ours, where the peer is one of them: rounds in which the processors are not there do not count */
    bench_aim_t aim; /* what the aim asks of the ratio ours / peer, */
    double bound;
    bool absolute; /* or, where this is set, of the value of ours */
    const char *peer_name;
    const char *limit_name;
    const char *note;                  /* NULL = none */
    const char *(*check)(void *state); /* after the rounds, untimed: NULL, or what is wrong with the result */
} bench_row_t;

/* Whether this row is to be measured (BENCH_FILTER is part of its name). */
bool bench_wanted(const char *what);
/* BENCH_QUICK: a few milliseconds a row and no verdicts, to see that everything runs. */
bool bench_quick(void);
/* Rounds of a row. */
int bench_rounds(void);

/* Measures a row and prints it. */
void bench_run(const bench_row_t *row);
/* Prints a row that was measured elsewhere: a value of each round in the row's unit; peer and limit may be NULL. */
void bench_report(const bench_row_t *row, const double *ours, const double *peer, const double *limit, int rounds);
double bench_median(const double *values, int count);
/* Prints a row that cannot be measured on this machine. */
void bench_not_run(const bench_row_t *row, const char *why);
/* Prints a fact about the run: a version, a place. */
void bench_fact(const char *name, const char *value);

/* The parts of bench_run: how often the work fits into a slice, and the nanoseconds of one count. */
uint64_t bench_calibrate(bench_work_t work, void *state);
double bench_slice(bench_work_t work, void *state, uint64_t count);
/* The work count times on each of so many threads at the same time, each on a processor of its own. A slice's clock runs from
 * when the first begins until the last has done it. */
enum { BENCH_MOST_THREADS = 4 };
void bench_on_threads(bench_work_t work, void *const *states, int threads, uint64_t count);
/* Processors that the program may use. */
int bench_processors(void);
/* Nanoseconds of one count as a value in the row's unit. */
double bench_value(const bench_row_t *row, double nanoseconds, double operations);

/* Between these two calls a slice's clock stands still: for preparing the next input. */
void bench_clock_stop(void);
void bench_clock_go_on(void);
uint64_t bench_random(uint64_t *seed);
/* The numbers below count in a random order that is the same in every run. */
uint32_t *bench_permutation(uint32_t count);
/* Zeroed memory with huge pages where the system gives them, as the library asks for too. */
void *bench_memory(size_t size);
void bench_memory_free(void *memory, size_t size);

/* Ends the program: a benchmark whose results are wrong has no figures. */
void bench_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Fails with the library's last error unless status is MMSB_OK. */
void bench_check_status(int32_t status, const char *call);
#define BENCH_CALL(call) \
    do { \
        int32_t bench_status = (call); \
        if (__builtin_expect(bench_status != 0, 0)) \
            bench_check_status(bench_status, #call); \
    } while (0)

/* The peers: NULL or false where they are absent. They are opened with RTLD_LOCAL, so that no allocator but the C library's
 * serves malloc in the process. */
typedef struct bench_mimalloc {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void (*free)(void *block);
} bench_mimalloc_t;
bool bench_mimalloc(bench_mimalloc_t *peer);

typedef struct bench_umf {
    void *pool; /* a disjoint pool over the provider of host memory */
    void *(*malloc)(void *pool, size_t size);
    int (*free)(void *pool, void *block);
} bench_umf_t;
bool bench_umf(bench_umf_t *peer);

/* Opens a library of the peers' folder and fills pointers to its functions; false, with a line that says why, where it is
 * absent. */
typedef struct bench_symbol {
    const char *name;
    void *function; /* address of the pointer */
} bench_symbol_t;
bool bench_library(const char *name, const bench_symbol_t *symbols, size_t count);

/* An exported Go function that does nothing, in a plain c-shared library; NULL where it is absent. */
uint64_t (*bench_go_empty(void))(uint64_t);

/* empty.c: C functions of a shared library that do nothing. */
uint64_t bench_empty_call(uint64_t argument);
uint32_t bench_empty_number(void);
int32_t bench_empty_pin(uint64_t page, int32_t mode, void **address);

#endif
