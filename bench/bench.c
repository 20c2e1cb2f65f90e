/* bench.c — the harness: rounds, medians, verdicts, and the output line of a row. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "mmsb.h"

enum { ROUNDS = 15, QUICK_ROUNDS = 3, MOST_ROUNDS = 64 };
#define SLICE_NS 20e6
#define QUICK_SLICE_NS 1e6

bool bench_quick(void) {
    const char *quick = getenv("BENCH_QUICK");
    return quick && *quick && strcmp(quick, "0") != 0;
}

bool bench_wanted(const char *what) {
    const char *filter = getenv("BENCH_FILTER");
    return !filter || strstr(what, filter);
}

int bench_rounds(void) {
    return bench_quick() ? QUICK_ROUNDS : ROUNDS;
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

uint64_t bench_random(uint64_t *seed) {
    uint64_t z = (*seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint32_t *bench_permutation(uint32_t count) {
    uint32_t *order = malloc(count * sizeof *order);
    uint64_t seed = 1;
    if (!order)
        bench_fail("no memory for an order of %u numbers", count);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)(bench_random(&seed) % i), swapped = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swapped;
    }
    return order;
}

void *bench_memory(size_t size) {
    const size_t huge = (size_t)2 << 20;
    char *start, *memory;
    size_t head;
    size = (size + 4095) / 4096 * 4096;
    start = mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        bench_fail("no memory for %zu bytes", size);
    head = (huge - (uintptr_t)start % huge) % huge;
    memory = start + head;
    if (head > 0)
        munmap(start, head);
    munmap(memory + size, huge - head);
    madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

void bench_memory_free(void *memory, size_t size) {
    munmap(memory, size);
}

void bench_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void bench_check_status(int32_t status, const char *call) {
    if (status != MMSB_OK)
        bench_fail("%s: %s (%s)", call, mmsb_last_error(), mmsb_strerror(status));
}

static double stopped_at, stopped_for;

void bench_clock_stop(void) {
    stopped_at = now_ns();
}

void bench_clock_go_on(void) {
    stopped_for += now_ns() - stopped_at;
}

double bench_slice(bench_work_t work, void *state, uint64_t count) {
    double start = now_ns();
    stopped_for = 0;
    work(state, count);
    return (now_ns() - start - stopped_for) / (double)count;
}

/* The faster of two runs counts: a run that the system interrupted would make all slices too short. */
uint64_t bench_calibrate(bench_work_t work, void *state) {
    const double slice = bench_quick() ? QUICK_SLICE_NS : SLICE_NS;
    for (uint64_t count = 1;; count *= 2) {
        double first = bench_slice(work, state, count), second = bench_slice(work, state, count);
        double each = first < second ? first : second;
        if (each * (double)count >= slice / 4)
            return each >= slice ? 1 : (uint64_t)(slice / each);
    }
}

int bench_processors(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        bench_fail("no list of processors");
    return CPU_COUNT(&allowed);
}

typedef struct member {
    pthread_t thread;
    pthread_barrier_t *start;
    bench_work_t work;
    void *state;
    uint64_t count;
    double began, ended;
} member_t;

static void *member_main(void *argument) {
    member_t *member = argument;
    pthread_barrier_wait(member->start);
    member->began = now_ns();
    member->work(member->state, member->count);
    member->ended = now_ns();
    return NULL;
}

/* A new thread that is not bound to a processor may share a busy one for longer than a slice. */
static void place_on_processor(pthread_attr_t *attributes, int number) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && number-- == 0)
            CPU_SET(cpu, &one);
    }
    pthread_attr_setaffinity_np(attributes, sizeof one, &one);
}

void bench_on_threads(bench_work_t work, void *const *states, int threads, uint64_t count) {
    member_t members[BENCH_MOST_THREADS];
    pthread_barrier_t start;
    const double called = now_ns();
    if (pthread_barrier_init(&start, NULL, (unsigned)threads) != 0)
        bench_fail("no barrier for %d threads", threads);
    for (int i = 0; i < threads; i++) {
        pthread_attr_t attributes;
        members[i] = (member_t){.start = &start, .work = work, .state = states[i], .count = count};
        pthread_attr_init(&attributes);
        place_on_processor(&attributes, i);
        if (pthread_create(&members[i].thread, &attributes, member_main, &members[i]) != 0)
            bench_fail("no thread");
        pthread_attr_destroy(&attributes);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(members[i].thread, NULL);
    pthread_barrier_destroy(&start);
    double first = members[0].began, last = members[0].ended;
    for (int i = 1; i < threads; i++) {
        first = members[i].began < first ? members[i].began : first;
        last = members[i].ended > last ? members[i].ended : last;
    }
    stopped_for += now_ns() - called - (last - first); /* making threads, and ending them, is no work */
}

double bench_value(const bench_row_t *row, double nanoseconds, double operations) {
    double each = nanoseconds / (operations > 0 ? operations : 1);
    switch (row->unit) {
    case BENCH_MILLIONS:
        return 1e3 / each;
    case BENCH_MEGABYTES:
        return row->bytes * 1e3 / each;
    default:
        return each;
    }
}

static const char *unit_name(bench_unit_t unit) {
    switch (unit) {
    case BENCH_NANOSECONDS:
        return "ns";
    case BENCH_MILLIONS:
        return "M/s";
    case BENCH_MEGABYTES:
        return "MB/s";
    case BENCH_GIBIBYTES:
        return "GiB";
    case BENCH_MEBIBYTES:
        return "MiB";
    case BENCH_MILLISECONDS:
        return "ms";
    case BENCH_MICROSECONDS:
        return "us";
    }
    return "";
}

static int rising(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(const double *values, int count) {
    double sorted[MOST_ROUNDS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, rising);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static void print_text(const char *name, const char *text) {
    if (!text)
        return;
    printf(", \"%s\": \"", name);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

static void print_number(const char *name, double value) {
    printf(", \"%s\": %.6g", name, value);
}

static void print_names(const bench_row_t *row) {
    printf("{\"kind\": \"row\"");
    print_text("what", row->what);
    print_text("unit", unit_name(row->unit));
    print_text("peer_name", row->peer_name);
    print_text("limit_name", row->limit_is_peer ? row->peer_name : row->limit_name);
    print_text("note", row->note);
    if (row->aim != BENCH_INFORMATION) {
        print_text("aim_of", row->absolute ? "value" : "ratio");
        print_text("aim", row->aim == BENCH_AT_MOST ? "at most" : "at least");
        print_number("bound", row->bound);
    }
}

static void print_end(const char *verdict) {
    print_text("verdict", verdict);
    puts("}");
    fflush(stdout);
}

static const char *verdict(const bench_row_t *row, double value, double ratio, bool has_peer) {
    double judged = row->absolute ? value : ratio;
    if (row->aim == BENCH_INFORMATION)
        return "information";
    if (bench_quick())
        return "not judged";
    if (!has_peer)
        return "not reached: no peer";
    return (row->aim == BENCH_AT_MOST ? judged <= row->bound : judged >= row->bound) ? "reached" : "not reached";
}

void bench_report(const bench_row_t *row, const double *ours, const double *peer, const double *limit, int rounds) {
    double ratios[MOST_ROUNDS], ratio = 0, value = bench_median(ours, rounds);
    print_names(row);
    print_number("ours", value);
    if (peer) {
        for (int round = 0; round < rounds; round++)
            ratios[round] = ours[round] / peer[round];
        ratio = bench_median(ratios, rounds);
        print_number("peer", bench_median(peer, rounds));
        print_number("ratio", ratio);
        qsort(ratios, (size_t)rounds, sizeof *ratios, rising);
        print_number("ratio_quarter", ratios[rounds / 4]);
        print_number("ratio_three_quarters", ratios[rounds - 1 - rounds / 4]);
    }
    if (row->limit_is_peer)
        limit = peer;
    if (limit)
        print_number("limit", bench_median(limit, rounds));
    print_end(verdict(row, value, ratio, peer));
}

void bench_not_run(const bench_row_t *row, const char *why) {
    if (!bench_wanted(row->what))
        return;
    print_names(row);
    print_text("why", why);
    print_end("not run");
}

void bench_fact(const char *name, const char *value) {
    printf("{\"kind\": \"fact\"");
    print_text("name", name);
    print_text("value", value);
    puts("}");
    fflush(stdout);
}

/* Independent additions, which keep a core busy, so that two threads on one core share its speed. */
static void add_up(void *state, uint64_t count) {
    uint64_t sums[8] = {0};
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        for (int k = 0; k < 8; k++) {
            sums[k] += i;
            __asm__ volatile("" : "+r"(sums[k]));
        }
    }
}

/* The speed of that many computing threads at this moment, in multiples of one thread. */
static double processors_there(int threads) {
    static uint64_t count;
    void *const states[BENCH_MOST_THREADS] = {NULL};
    if (count == 0)
        count = bench_calibrate(add_up, NULL) / 4;
    double start = now_ns();
    bench_on_threads(add_up, states, 1, count);
    double between = now_ns();
    bench_on_threads(add_up, states, threads, count);
    return threads * (between - start) / (now_ns() - between);
}

void bench_run(const bench_row_t *row) {
    enum { OURS, PEER, LIMIT, PARTS };
    const bench_work_t work[PARTS] = {row->ours, row->peer, row->limit};
    const double operations[PARTS] = {row->ours_operations, row->peer_operations, row->peer_operations};
    double values[PARTS][MOST_ROUNDS];
    uint64_t counts[PARTS] = {0};
    /* Virtual processors can be two threads of one core for a while, or wait for others. */
    const double there = bench_quick() ? 0 : 0.95 * row->threads;
    const int tries = row->threads ? 10 * bench_rounds() : bench_rounds();
    int rounds = 0;
    double before = 0;

    if (!bench_wanted(row->what))
        return;
    for (int part = 0; part < PARTS; part++) {
        if (work[part])
            counts[part] = bench_calibrate(work[part], row->state);
    }
    if (row->threads)
        before = processors_there(row->threads);
    for (int try = 0; try < tries && rounds < bench_rounds(); try++) {
        const int round = rounds;
        for (int turn = 0; turn < PARTS; turn++) {
            int part = round % 2 ? PARTS - 1 - turn : turn;
            if (work[part]) {
                double nanoseconds = bench_slice(work[part], row->state, counts[part]);
                values[part][round] = bench_value(row, nanoseconds, operations[part]);
            }
        }
        double after = row->threads ? processors_there(row->threads) : 0;
        rounds += before >= there && after >= there;
        before = after;
    }
    if (rounds < bench_rounds() / 3) {
        char why[128];
        snprintf(why, sizeof why, "in %d of %d rounds only did additions on %d threads go %.1f times as fast as on one", rounds,
                 tries, row->threads, there);
        bench_not_run(row, why);
        return;
    }
    if (row->check) {
        const char *wrong = row->check(row->state);
        if (wrong)
            bench_fail("%s: %s", row->what, wrong);
    }
    bench_report(row, values[OURS], row->peer ? values[PEER] : NULL, row->limit ? values[LIMIT] : NULL, rounds);
}
