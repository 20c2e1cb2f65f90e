/*
 * kernels.c — the host build of the kernels on one thread, beside memset, memcpy and memcmp of as many bytes as each must move:
 * what it reads and what it writes. memcpy of n bytes moves 2 n, memcmp of n bytes 2 n, memset of n bytes n.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mmsb.h"

enum { KIB = 1024, MIB = 1 << 20, PAGES = 1000, PAGE = 4096 };

/* Ranges of one size. a and b are equal. */
typedef struct ranges {
    size_t size;
    size_t peer_size; /* of the peer's call */
    uint8_t *to, *a, *b, *mask, *changed, *other;
    uint32_t *sums;
    mmsb_difference_t difference;
    mmsb_copy_t *copies;
    mmsb_propagation_t *items;
} ranges_t;

#define LOOP(name, call) \
    static void name(void *state, uint64_t count) { \
        ranges_t *r = state; \
        for (uint64_t i = 0; i < count; i++) \
            call; \
    }

LOOP(ours_fill, BENCH_CALL(mmsb_stream_fill(MMSB_STREAM_HOST, r->to, (uint8_t)i, r->size)))
LOOP(ours_copy, BENCH_CALL(mmsb_stream_copy(MMSB_STREAM_HOST, r->to, r->a, r->size)))
LOOP(ours_compare, BENCH_CALL(mmsb_stream_compare(MMSB_STREAM_HOST, r->to, r->a, r->b, r->size)))
LOOP(ours_differences, BENCH_CALL(mmsb_stream_differences(MMSB_STREAM_HOST, r->mask, r->a, r->b, r->size)))
LOOP(ours_difference, BENCH_CALL(mmsb_stream_difference(MMSB_STREAM_HOST, &r->difference, r->a, r->b, r->size)))
LOOP(ours_checksum, BENCH_CALL(mmsb_stream_checksum(MMSB_STREAM_HOST, r->sums, r->a, r->size, PAGE)))
LOOP(ours_merge_bytes,
     BENCH_CALL(mmsb_stream_merge(MMSB_STREAM_HOST, r->to, r->b, MMSB_DELTA_DENSE_BYTES, r->a, r->size, r->changed)))
LOOP(ours_merge_bits,
     BENCH_CALL(mmsb_stream_merge(MMSB_STREAM_HOST, r->to, r->mask, MMSB_DELTA_DENSE_BITS, r->a, r->size, r->changed)))
LOOP(ours_copy_many, BENCH_CALL(mmsb_stream_copy_many(MMSB_STREAM_HOST, r->copies, PAGES, NULL)))
LOOP(ours_propagate, BENCH_CALL(mmsb_stream_propagate(MMSB_STREAM_HOST, r->items, PAGES, NULL)))

/* Keeps the compiler from leaving calls out whose results are not used. */
static inline void used(const void *memory) {
    __asm__ volatile("" ::"r"(memory) : "memory");
}
static volatile int seen;
LOOP(peer_memset, used(memset(r->other, (int)i, r->peer_size)))
LOOP(peer_memcpy, used(memcpy(r->other, r->a, r->peer_size)))
LOOP(peer_memcmp, seen = memcmp(r->a, r->b, r->peer_size))

static const char *check_compare(void *state) {
    const ranges_t *r = state;
    for (size_t i = 0; i < r->size; i++)
        if (r->to[i] != 1)
            return "a byte is not reported as equal";
    return NULL;
}

static const char *check_copy(void *state) {
    const ranges_t *r = state;
    return memcmp(r->to, r->a, r->size) == 0 ? NULL : "the bytes are not those of the source";
}

static const char *check_difference(void *state) {
    const ranges_t *r = state;
    return r->difference.count == 0 && r->difference.first == UINT64_MAX ? NULL : "equal bytes are reported as different";
}

typedef struct plan {
    const char *name;
    bench_work_t ours, peer;
    const char *peer_name;
    double factor; /* what the peer's size is of ours, so that both move as much */
    const char *(*check)(void *state);
} plan_t;

static const plan_t plans[] = {
    {"fill", ours_fill, peer_memset, "memset", 1, NULL},
    {"copy", ours_copy, peer_memcpy, "memcpy", 1, check_copy},
    {"compare", ours_compare, peer_memcpy, "memcpy of 1.5 times the bytes", 1.5, check_compare},
    {"differences, a mask", ours_differences, peer_memcmp, "memcmp", 1, NULL},
    {"difference, count and first", ours_difference, peer_memcmp, "memcmp", 1, check_difference},
    {"checksum of each 4 KiB", ours_checksum, peer_memcmp, "memcmp of half the bytes", 0.5, NULL},
    {"merge, byte mask", ours_merge_bytes, peer_memcpy, "memcpy of twice the bytes", 2, NULL},
    {"merge, bit mask", ours_merge_bits, peer_memcpy, "memcpy of 1.5 times the bytes", 1.5, NULL},
};

static ranges_t make_ranges(size_t size) {
    ranges_t r = {.size = size};
    uint64_t seed = 1;
    r.to = bench_memory(size);
    r.a = bench_memory(2 * size);
    r.b = bench_memory(2 * size);
    r.other = bench_memory(2 * size);
    r.mask = bench_memory(size);
    r.changed = bench_memory(size);
    r.sums = bench_memory(size);
    for (size_t i = 0; i < 2 * size; i += 8) {
        uint64_t word = bench_random(&seed);
        memcpy(r.a + i, &word, 8);
    }
    memcpy(r.b, r.a, 2 * size);
    memset(r.to, 1, size);
    memset(r.other, 1, 2 * size);
    memset(r.mask, 0x5A, size);
    memset(r.changed, 0, size);
    memset(r.sums, 0, size);
    return r;
}

static void free_ranges(ranges_t *r) {
    bench_memory_free(r->to, r->size);
    bench_memory_free(r->a, 2 * r->size);
    bench_memory_free(r->b, 2 * r->size);
    bench_memory_free(r->other, 2 * r->size);
    bench_memory_free(r->mask, r->size);
    bench_memory_free(r->changed, r->size);
    bench_memory_free(r->sums, r->size);
}

static void run_ranges(size_t size, const char *text) {
    ranges_t r = {0};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char what[100];
        snprintf(what, sizeof what, "kernels on the host: %s, %s", plans[i].name, text);
        if (!bench_wanted(what))
            continue;
        if (r.size == 0)
            r = make_ranges(size);
        r.peer_size = (size_t)(plans[i].factor * (double)size);
        bench_run(&(bench_row_t){.what = what,
                                 .unit = BENCH_MEGABYTES,
                                 .ours = plans[i].ours,
                                 .peer = plans[i].peer,
                                 .state = &r,
                                 .bytes = (double)size,
                                 .aim = BENCH_AT_LEAST,
                                 .bound = 0.9,
                                 .peer_name = plans[i].peer_name,
                                 .check = plans[i].check});
    }
    if (r.size != 0)
        free_ranges(&r);
}

/* Pages in a random order, from and to one stretch of memory. */
static void run_pages(void) {
    const struct {
        const char *what;
        bench_work_t ours;
        double factor;
        const char *peer_name;
    } batches[] = {
        {"kernels on the host: copies gather 1000 pages of 4 KiB", ours_copy_many, 1, "memcpy"},
        {"kernels on the host: propagate 1000 pages of 4 KiB, half of their bytes", ours_propagate, 1.5,
         "memcpy of 1.5 times the bytes"},
    };
    ranges_t r = {0};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        if (!bench_wanted(batches[i].what))
            continue;
        if (r.size == 0) {
            r = make_ranges((size_t)PAGES * PAGE);
            uint32_t *order = bench_permutation(PAGES);
            r.copies = calloc(PAGES, sizeof *r.copies);
            r.items = calloc(PAGES, sizeof *r.items);
            for (size_t p = 0; p < PAGES; p++) {
                uint8_t *to = r.to + p * PAGE;
                const uint8_t *from = r.a + (size_t)order[p] * PAGE;
                r.copies[p] = (mmsb_copy_t){.to = to, .from = from, .bytes = PAGE};
                r.items[p] = (mmsb_propagation_t){
                    .to = to, .from = from, .mask = r.mask + p * PAGE / 8, .changed = r.changed + p * PAGE / 8, .bytes = PAGE};
            }
            free(order);
        }
        r.peer_size = (size_t)(batches[i].factor * (double)r.size);
        bench_run(&(bench_row_t){.what = batches[i].what,
                                 .unit = BENCH_MEGABYTES,
                                 .ours = batches[i].ours,
                                 .peer = peer_memcpy,
                                 .state = &r,
                                 .bytes = (double)r.size,
                                 .aim = BENCH_AT_LEAST,
                                 .bound = 0.6,
                                 .peer_name = batches[i].peer_name});
    }
    if (r.size != 0) {
        free(r.copies);
        free(r.items);
        free_ranges(&r);
    }
}

int main(void) {
    run_ranges(64 * KIB, "64 KiB");
    run_ranges(MIB, "1 MiB");
    run_ranges(64 * (size_t)MIB, "64 MiB");
    run_pages();
    return 0;
}
