/*
 * gpu.c — kernels, copies and syncs on the first GPU, beside the driver's copy within its memory of as many bytes as each must
 * move: what it reads and what it writes. A copy of n bytes moves 2 n. Without a GPU each row is not run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mmsb.h"

enum { KIB = 1024, MIB = 1 << 20, PART = 4096 };
#define GIB ((size_t)1 << 30)

/* Ranges of one size on the device. a and b are equal. */
typedef struct ranges {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
    mmsb_block_t blocks[9];
    int block_count;
    size_t size;
    size_t peer_size;
    uint8_t *to, *a, *b, *other, *mask, *bytes, *changed; /* a mask of bits, and one of bytes: every second is set */
    uint32_t *sums;
    mmsb_difference_t *difference; /* on the device */
    size_t page;
    size_t count; /* pages */
    mmsb_copy_t *copies;
    mmsb_page_t *pages;
    uint8_t *pinned;
} ranges_t;

static void done(const ranges_t *r) {
    BENCH_CALL(mmsb_stream_wait(r->stream, MMSB_WAIT_FOREVER));
}

#define LOOP(name, call) \
    static void name(void *state, uint64_t count) { \
        ranges_t *r = state; \
        for (uint64_t i = 0; i < count; i++) \
            BENCH_CALL(call); \
        done(r); \
    }

LOOP(ours_fill, mmsb_stream_fill(r->stream, r->to, (uint8_t)i, r->size))
LOOP(ours_compare, mmsb_stream_compare(r->stream, r->to, r->a, r->b, r->size))
LOOP(ours_differences, mmsb_stream_differences(r->stream, r->changed, r->a, r->b, r->size))
LOOP(ours_difference, mmsb_stream_difference(r->stream, r->difference, r->a, r->b, r->size))
LOOP(ours_checksum, mmsb_stream_checksum(r->stream, r->sums, r->a, r->size, PART))
LOOP(ours_merge_bytes, mmsb_stream_merge(r->stream, r->to, r->bytes, MMSB_DELTA_DENSE_BYTES, r->a, r->size, r->changed))
LOOP(ours_merge_bits, mmsb_stream_merge(r->stream, r->to, r->mask, MMSB_DELTA_DENSE_BITS, r->a, r->size, r->changed))
LOOP(ours_copy_many, mmsb_stream_copy_many(r->stream, r->copies, r->count, NULL))
LOOP(peer_copy, mmsb_stream_copy(r->stream, r->other, r->a, r->peer_size))
LOOP(peer_up, mmsb_stream_copy(r->stream, r->to, r->pinned, r->peer_size))
LOOP(peer_down, mmsb_stream_copy(r->stream, r->pinned, r->to, r->peer_size))

/* All bytes of all pages are newer on the host. */
static void ours_sync_up(void *state, uint64_t count) {
    ranges_t *r = state;
    for (uint64_t i = 0; i < count; i++) {
        bench_clock_stop();
        for (size_t p = 0; p < r->count; p++)
            BENCH_CALL(mmsb_page_write(r->pages[p], 0, r->pinned, r->page));
        bench_clock_go_on();
        BENCH_CALL(mmsb_page_sync_many(r->pages, r->count, MMSB_SYNC_TO_DEVICE, 0, NULL, NULL, NULL));
    }
}

/* All bytes of all pages are newer on the device: who had its address may have written there. */
static void ours_sync_down(void *state, uint64_t count) {
    ranges_t *r = state;
    for (uint64_t i = 0; i < count; i++) {
        void *address;
        bench_clock_stop();
        for (size_t p = 0; p < r->count; p++) {
            BENCH_CALL(mmsb_page_pin(r->pages[p], MMSB_PIN_WRITE, &address));
            BENCH_CALL(mmsb_page_unpin(r->pages[p], MMSB_PIN_WRITE));
        }
        bench_clock_go_on();
        BENCH_CALL(mmsb_page_sync_many(r->pages, r->count, MMSB_SYNC_TO_HOST, 0, NULL, NULL, NULL));
    }
}

static void *block(ranges_t *r, size_t bytes) {
    void *address = NULL;
    BENCH_CALL(mmsb_block_allocate(r->stream, bytes, 0, 0, &r->blocks[r->block_count++], &address));
    return address;
}

static const char *check_compare(void *state) {
    const ranges_t *r = state;
    static uint8_t some[MIB];
    BENCH_CALL(mmsb_stream_copy(r->stream, some, r->to + r->size - sizeof some, sizeof some));
    done(r);
    for (size_t i = 0; i < sizeof some; i++)
        if (some[i] != 1)
            return "a byte is not reported as equal";
    return NULL;
}

static const char *check_difference(void *state) {
    const ranges_t *r = state;
    mmsb_difference_t found = {1, 1};
    BENCH_CALL(mmsb_stream_copy(r->stream, &found, r->difference, sizeof found));
    done(r);
    return found.count == 0 && found.first == UINT64_MAX ? NULL : "equal bytes are reported as different";
}

typedef struct plan {
    const char *name;
    bench_work_t ours;
    double factor; /* what the peer copies, of the size of ours, so that both move as much */
    const char *(*check)(void *state);
} plan_t;

static const plan_t plans[] = {
    {"fill", ours_fill, 0.5, NULL},
    {"compare", ours_compare, 1.5, check_compare},
    {"differences, a mask", ours_differences, 1.0625, NULL},
    {"difference, count and first", ours_difference, 1, check_difference},
    {"checksum of each 4 KiB", ours_checksum, 0.5, NULL},
    {"merge, byte mask", ours_merge_bytes, 2.125, NULL}, /* with the change mask, read and written */
    {"merge, bit mask", ours_merge_bits, 1.6875, NULL},
    {"copies gather ranges of 64 KiB", ours_copy_many, 1, NULL},
};

/* Sizes of pages whose sync is measured, in KiB, with what is asked for: gigabytes a second, or a share of one copy. */
static const struct {
    size_t kib;
    bool absolute;
    double bound;
} syncs[] = {{4, true, 40000}, {8, true, 40000}, {24, true, 40000}, {28, false, 0.95}, {256, false, 0.95}};

/* Says why a row without a device is not run. */
static bool is_measured(const bench_row_t *row, const char *why) {
    const bool wanted = bench_wanted(row->what);
    if (wanted && !row->state)
        bench_not_run(row, why);
    return wanted && row->state;
}

/* Rows, measured where r is not NULL, and why they are not. */
static void kernels(ranges_t *r, const char *why) {
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char what[100];
        snprintf(what, sizeof what, "kernels on a GPU: %s", plans[i].name);
        bench_row_t row = {.what = what,
                           .unit = BENCH_MEGABYTES,
                           .ours = plans[i].ours,
                           .peer = peer_copy,
                           .state = r,
                           .aim = BENCH_AT_LEAST,
                           .bound = 0.9,
                           .peer_name = "a copy in the GPU's memory of as many bytes as it moves",
                           .check = plans[i].check};
        if (!is_measured(&row, why))
            continue;
        r->peer_size = (size_t)(plans[i].factor * (double)r->size);
        row.bytes = (double)r->size;
        bench_run(&row);
    }
}

/* Pages of the host, and of pinned memory, which a kernel or copies read and write where it lies; both ways. */
static const struct {
    const char *what;
    mmsb_location_t location;
    bench_work_t ours, peer;
} ways[] = {
    {"sync to a GPU: pages of %zu KiB", MMSB_LOCATION_CPU, ours_sync_up, peer_up},
    {"sync to a GPU: pinned pages of %zu KiB", MMSB_LOCATION_PINNED, ours_sync_up, peer_up},
    {"sync from a GPU: pinned pages of %zu KiB", MMSB_LOCATION_PINNED, ours_sync_down, peer_down},
};

static void sync_row(ranges_t *r, const char *why, size_t way, size_t i) {
    char what[100];
    snprintf(what, sizeof what, ways[way].what, syncs[i].kib);
    bench_row_t row = {.what = what,
                       .unit = BENCH_MEGABYTES,
                       .ours = ways[way].ours,
                       .peer = ways[way].peer,
                       .state = r,
                       .aim = BENCH_AT_LEAST,
                       .bound = syncs[i].bound,
                       .absolute = syncs[i].absolute,
                       .peer_name = "one copy from or to pinned memory"};
    if (!is_measured(&row, why))
        return;
    const size_t bytes = r->size < 64 * (size_t)MIB ? r->size : 64 * (size_t)MIB;
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = ways[way].location;
    r->page = syncs[i].kib * KIB;
    r->count = bytes / r->page;
    r->peer_size = r->count * r->page;
    row.bytes = (double)r->peer_size;
    BENCH_CALL(mmsb_page_create_many(r->context, r->page, r->count, &options, NULL, r->pages));
    BENCH_CALL(mmsb_page_sync_many(r->pages, r->count, MMSB_SYNC_TO_DEVICE, 0, NULL, NULL, NULL));
    bench_run(&row);
    BENCH_CALL(mmsb_page_destroy_many(r->pages, r->count, NULL));
}

static void sync_rows(ranges_t *r, const char *why) {
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++)
            sync_row(r, why, way, i);
}

static void prepare(ranges_t *r) {
    uint8_t *host = bench_memory(MIB);
    uint64_t seed = 1;
    for (size_t i = 0; i < MIB; i += 8) {
        const uint64_t word = bench_random(&seed);
        memcpy(host + i, &word, 8);
    }
    r->to = block(r, r->size);
    r->a = block(r, 2 * r->size);
    r->b = block(r, r->size);
    r->other = block(r, 2 * r->size);
    r->mask = block(r, r->size / 8);
    r->bytes = block(r, r->size);
    r->changed = block(r, r->size / 8);
    r->sums = block(r, r->size / PART * sizeof *r->sums);
    r->difference = block(r, sizeof *r->difference);
    for (size_t at = 0; at < r->size; at += MIB) {
        BENCH_CALL(mmsb_stream_copy(r->stream, r->a + at, host, MIB));
        BENCH_CALL(mmsb_stream_copy(r->stream, r->b + at, host, MIB));
    }
    BENCH_CALL(mmsb_stream_fill(r->stream, r->mask, 0x5A, r->size / 8));
    done(r);
    for (size_t i = 0; i < MIB; i++)
        host[i] = i & 1;
    for (size_t at = 0; at < r->size; at += MIB)
        BENCH_CALL(mmsb_stream_copy(r->stream, r->bytes + at, host, MIB));
    done(r);
    bench_memory_free(host, MIB);
    r->count = r->size / (64 * KIB);
    uint32_t *order = bench_permutation((uint32_t)r->count);
    r->copies = calloc(r->count, sizeof *r->copies);
    r->pages = calloc(64 * MIB / (4 * KIB), sizeof *r->pages);
    if (!r->copies || !r->pages)
        bench_fail("no memory");
    for (size_t p = 0; p < r->count; p++)
        r->copies[p] = (mmsb_copy_t){.to = r->to + p * 64 * KIB, .from = r->a + (size_t)order[p] * 64 * KIB, .bytes = 64 * KIB};
    free(order);
}

int main(void) {
    ranges_t r = {0};
    mmsb_page_options_t pinned;
    mmsb_page_t page;
    mmsb_device_info_t *list;
    mmsb_runtime_options_t options;
    size_t devices = 0;
    mmsb_status_t status;
    BENCH_CALL(mmsb_context_create(NULL, &r.context));
    mmsb_runtime_options_init(&options);
    options.pool = "";
    status = mmsb_runtime_create(r.context, 0, &options, &r.runtime);
    if (status == MMSB_E_NO_DEVICE) {
        char why[512];
        snprintf(why, sizeof why, "%s", mmsb_last_error());
        kernels(NULL, why);
        sync_rows(NULL, why);
        return 0;
    }
    bench_check_status(status, "mmsb_runtime_create");
    BENCH_CALL(mmsb_device_list(r.context, NULL, 0, &devices));
    list = calloc(devices, sizeof *list);
    if (!list)
        bench_fail("no memory");
    BENCH_CALL(mmsb_device_list(r.context, list, devices, &devices));
    bench_fact("GPU", list->name);
    BENCH_CALL(mmsb_stream_create(r.runtime, 0, &r.stream));
    r.size = bench_quick() ? 4 * (size_t)MIB : GIB;
    while (r.size > 4 * (size_t)MIB && 8 * r.size > list->bytes)
        r.size /= 2;
    free(list);
    prepare(&r);
    mmsb_page_options_init(&pinned);
    pinned.location = MMSB_LOCATION_PINNED;
    BENCH_CALL(mmsb_page_create(r.context, 64 * MIB, &pinned, &page));
    BENCH_CALL(mmsb_page_pin(page, MMSB_PIN_WRITE, (void **)&r.pinned));
    memset(r.pinned, 1, 64 * MIB);
    kernels(&r, NULL);
    sync_rows(&r, NULL);
    BENCH_CALL(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    for (int i = 0; i < r.block_count; i++)
        BENCH_CALL(mmsb_block_free(r.blocks[i], 0, NULL));
    free(r.copies);
    free(r.pages);
    BENCH_CALL(mmsb_context_destroy(r.context));
    return 0;
}
