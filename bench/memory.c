/*
 * memory.c — the memory of a million pages of 1 KiB, every byte of them written, and, with the argument "collect", the time of a
 * garbage collection of the Go runtime inside the library. "collect" needs GODEBUG=gctrace=1, with which the runtime writes a
 * line for each collection to stderr, GOGC=1, with which it collects after a few allocations, and stderr in a file, from which
 * the program reads those lines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mmsb.h"

enum { SIZE = 1024, COLLECTIONS = 15, MOST_CALLS = 200000 };

static uint32_t page_count(void) {
    return bench_quick() ? 20000 : 1000000;
}

static double resident_gib(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    double kib = 0;
    if (!status)
        bench_fail("no /proc/self/status");
    while (fgets(line, sizeof line, status)) {
        if (sscanf(line, "VmRSS: %lf kB", &kib) == 1)
            break;
    }
    fclose(status);
    return kib / (1 << 20);
}

static void fill(uint64_t *bytes, uint64_t number) {
    for (uint32_t w = 0; w < SIZE / 8; w++)
        bytes[w] = number * 0x9E3779B97F4A7C15u + w;
}

static mmsb_page_t *create_pages(mmsb_context_t context, mmsb_page_t *pages, uint32_t count) {
    uint64_t bytes[SIZE / 8];
    BENCH_CALL(mmsb_page_create_many(context, SIZE, count, NULL, NULL, pages));
    for (uint32_t i = 0; i < count; i++) {
        fill(bytes, i);
        BENCH_CALL(mmsb_page_write(pages[i], 0, bytes, SIZE));
    }
    return pages;
}

static void check_pages(const mmsb_page_t *pages, uint32_t count) {
    uint64_t bytes[SIZE / 8], expected[SIZE / 8];
    for (uint32_t i = 0; i < count; i++) {
        fill(expected, i);
        BENCH_CALL(mmsb_page_read(pages[i], 0, bytes, SIZE));
        if (memcmp(bytes, expected, SIZE) != 0)
            bench_fail("page %u has other bytes than were written", i);
    }
}

/* The array of handles is the program's, not the library's: it is resident before the measurement begins. */
static void *resident_array(uint32_t count, size_t each) {
    void *array = malloc(count * each);
    if (!array)
        bench_fail("no memory for %u items", count);
    return memset(array, 1, count * each);
}

static void run_resident(mmsb_context_t context) {
    const uint32_t count = page_count();
    bench_mimalloc_t mimalloc;
    bench_row_t row = {.what = "memory: resident, 1 000 000 pages of 1 KiB, all written",
                       .unit = BENCH_GIBIBYTES,
                       .aim = BENCH_AT_MOST,
                       .absolute = true,
                       .bound = 1.03,
                       .peer_name = "mimalloc, blocks of 1 KiB",
                       .limit_name = "their bytes"};
    double start, ours, peer = 0;
    const double limit = (double)count * SIZE / (1 << 30);
    mmsb_page_t *pages;
    void **blocks;
    bool present;
    if (!bench_wanted(row.what))
        return;

    pages = resident_array(count, sizeof *pages);
    start = resident_gib();
    create_pages(context, pages, count);
    ours = resident_gib() - start;
    check_pages(pages, count);
    BENCH_CALL(mmsb_page_destroy_many(pages, count, NULL));
    free(pages);

    present = bench_mimalloc(&mimalloc);
    blocks = resident_array(count, sizeof *blocks);
    start = resident_gib();
    for (uint32_t i = 0; present && i < count; i++) {
        blocks[i] = mimalloc.malloc(SIZE);
        fill(blocks[i], i);
    }
    peer = resident_gib() - start;
    free(blocks);
    bench_report(&row, &ours, present ? &peer : NULL, &limit, 1);
}

/* Work that allocates in Go: a ticket and its goroutine. */
static void allocate_in_go(mmsb_context_t context) {
    mmsb_page_t page;
    mmsb_ticket_t ticket;
    BENCH_CALL(mmsb_page_create_many_start(context, SIZE, 1, NULL, NULL, &page, &ticket));
    BENCH_CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    BENCH_CALL(mmsb_ticket_destroy(ticket));
    BENCH_CALL(mmsb_page_destroy(page));
}

/* The wall times of the next collections, from the lines of the runtime: "gc 7 @0.1s 0%: 0.02+0.51+0.004 ms clock, …". */
static void collect(mmsb_context_t context, double *milliseconds) {
    FILE *trace = fopen("/proc/self/fd/2", "r");
    long read_to;
    int found = 0;
    if (!trace || fseek(trace, 0, SEEK_END) != 0)
        bench_fail("stderr is no file");
    read_to = ftell(trace);
    for (int call = 0; found < COLLECTIONS; call++) {
        char line[512];
        if (call == MOST_CALLS)
            bench_fail("%d collections in %d calls: are GODEBUG=gctrace=1 and GOGC=1 set?", found, call);
        allocate_in_go(context);
        /* The runtime writes a line in pieces: an incomplete line is read again later. */
        fseek(trace, read_to, SEEK_SET);
        while (found < COLLECTIONS && fgets(line, sizeof line, trace) && strchr(line, '\n')) {
            double stop, mark, end;
            read_to = ftell(trace);
            if (sscanf(line, "gc %*d @%*[^:]: %lf+%lf+%lf ms clock", &stop, &mark, &end) == 3)
                milliseconds[found++] = stop + mark + end;
        }
    }
    fclose(trace);
}

static void run_collection(mmsb_context_t context) {
    double empty[COLLECTIONS], full[COLLECTIONS];
    mmsb_page_t *pages;
    bench_row_t row = {.unit = BENCH_MILLISECONDS,
                       .aim = BENCH_AT_MOST,
                       .bound = 2,
                       .peer_name = "the same without pages",
                       .note = "GOGC=1, wall time of a whole collection as gctrace gives it"};
    const char *time_row = "memory: Go collection beside 1 000 000 pages";
    const char *ratio_row = "memory: Go collection beside 1 000 000 pages, against without";
    if (!bench_wanted(time_row) && !bench_wanted(ratio_row))
        return;

    collect(context, empty); /* the first collections of a process are slower */
    collect(context, empty);
    pages = resident_array(page_count(), sizeof *pages);
    create_pages(context, pages, page_count());
    collect(context, full);
    check_pages(pages, page_count());
    row.what = time_row;
    row.absolute = true;
    if (bench_wanted(row.what))
        bench_report(&row, full, empty, NULL, COLLECTIONS);
    row.what = ratio_row;
    row.absolute = false;
    if (bench_wanted(row.what))
        bench_report(&row, full, empty, NULL, COLLECTIONS);
    BENCH_CALL(mmsb_page_destroy_many(pages, page_count(), NULL));
    free(pages);
}

int main(int argument_count, char **arguments) {
    mmsb_context_t context;
    BENCH_CALL(mmsb_context_create(NULL, &context));
    if (argument_count > 1 && strcmp(arguments[1], "collect") == 0)
        run_collection(context);
    else
        run_resident(context);
    BENCH_CALL(mmsb_context_destroy(context));
    return 0;
}
