/*
 * calls.c — the cost of a call: reads of a page that stay in C, pins, and a call that enters Go.
 *
 * The reads cycle through 64 pages, so that no call is tuned to one record. The call that enters Go polls a finished ticket: the
 * cheapest call that does some work.
 */
#include <string.h>

#include "bench.h"
#include "mmsb.h"

enum { PAGES = 64, SIZE = 4096 };

typedef struct calls {
    mmsb_page_t pages[PAGES];
    mmsb_ticket_t ticket;
    uint64_t sum;      /* of the results of our calls */
    uint64_t expected; /* the same, computed from the pages */
    uint64_t fact[PAGES];
} calls_t;

static uint64_t (*go_empty)(uint64_t);

static const char *sums_agree(void *state) {
    calls_t *calls = state;
    return calls->sum == calls->expected ? NULL : "calls gave wrong answers";
}

/* All pages get the same number of calls. */
#define ROUND_ALL_PAGES(count) (((count) + PAGES - 1) / PAGES)

#define READ(name, call) \
    static void name(void *state, uint64_t count) { \
        calls_t *calls = state; \
        uint64_t sum = 0; \
        for (uint64_t turn = ROUND_ALL_PAGES(count); turn > 0; turn--) { \
            for (int i = 0; i < PAGES; i++) \
                sum += (uint64_t)(call); \
        } \
        calls->sum += sum; \
        for (int i = 0; i < PAGES; i++) \
            calls->expected += ROUND_ALL_PAGES(count) * calls->fact[i]; \
    }
READ(ours_size, mmsb_page_size(calls->pages[i]))
READ(ours_epoch, mmsb_page_epoch(calls->pages[i]))
READ(ours_address, (uintptr_t)mmsb_page_address(calls->pages[i]))

static void peer_call(void *state, uint64_t count) {
    calls_t *calls = state;
    uint64_t sum = 0;
    for (uint64_t turn = ROUND_ALL_PAGES(count); turn > 0; turn--) {
        for (int i = 0; i < PAGES; i++)
            sum += bench_empty_call(calls->pages[i]);
    }
    __asm__ volatile("" ::"r"(sum));
}

static void ours_pin(void *state, uint64_t count) {
    calls_t *calls = state;
    uint64_t sum = 0;
    for (uint64_t turn = ROUND_ALL_PAGES(count); turn > 0; turn--) {
        for (int i = 0; i < PAGES; i++) {
            void *address;
            BENCH_CALL(mmsb_page_pin(calls->pages[i], MMSB_PIN_READ, &address));
            sum += (uintptr_t)address;
            BENCH_CALL(mmsb_page_unpin(calls->pages[i], MMSB_PIN_READ));
        }
    }
    calls->sum += sum;
    for (int i = 0; i < PAGES; i++)
        calls->expected += ROUND_ALL_PAGES(count) * calls->fact[i];
}

static void peer_pin(void *state, uint64_t count) {
    calls_t *calls = state;
    for (uint64_t turn = ROUND_ALL_PAGES(count); turn > 0; turn--) {
        for (int i = 0; i < PAGES; i++) {
            void *address = NULL;
            BENCH_CALL(bench_empty_pin(calls->pages[i], MMSB_PIN_READ, &address));
            BENCH_CALL(bench_empty_pin(calls->pages[i], MMSB_PIN_READ, NULL));
        }
    }
}

static void ours_go(void *state, uint64_t count) {
    calls_t *calls = state;
    for (uint64_t i = 0; i < count; i++) {
        int32_t done = 0;
        BENCH_CALL(mmsb_ticket_poll(calls->ticket, &done));
        if (!done)
            bench_fail("a finished ticket says that it is not");
    }
}

static void peer_go(void *state, uint64_t count) {
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        if (go_empty(i) != i)
            bench_fail("the empty Go function answers wrongly");
    }
}

/* ---- two threads ---- */

typedef struct pair {
    bench_work_t work;
    void *states[2];
} pair_t;

static void on_two(void *state, uint64_t count) {
    pair_t *pair = state;
    bench_on_threads(pair->work, pair->states, 2, count);
}

static void on_one(void *state, uint64_t count) {
    pair_t *pair = state;
    bench_on_threads(pair->work, pair->states, 1, count);
}

static void run_two_threads(calls_t *calls) {
    bool overlay = strstr(mmsb_build_info(), "overlay") != NULL;
    pair_t ours = {ours_go, {calls, calls}}, peer = {peer_go, {NULL, NULL}};
    bench_row_t row = {.what = "calls: into Go (poll of a finished ticket), two threads",
                       .unit = BENCH_MILLIONS,
                       .threads = 2,
                       .ours = on_two,
                       .peer = on_one,
                       .peer_name = "one thread",
                       .state = &ours,
                       .ours_operations = 2,
                       .aim = overlay ? BENCH_AT_LEAST : BENCH_INFORMATION,
                       .bound = 1.6,
                       .note = overlay ? "with the overlay of the Go toolchain"
                                       : "mmsb_build_info names no overlay of the Go toolchain: no aim without it"};
    if (bench_processors() < 2) {
        bench_not_run(&row, "one core");
        return;
    }
    bench_run(&row);
    if (!go_empty)
        return;
    row.what = "calls: bare cgo, two threads";
    row.state = &peer;
    row.aim = BENCH_INFORMATION;
    row.note = "Go as it ships";
    bench_run(&row);
}

int main(void) {
    static calls_t calls;
    mmsb_context_t context;
    mmsb_page_t page;
    static const char byte = 1;
    const mmsb_run_t run = {0, 1};
    mmsb_delta_t delta;
    bench_row_t row = {.state = &calls,
                       .peer = peer_call,
                       .peer_name = "an empty C call",
                       .limit_is_peer = true,
                       .peer_operations = 1,
                       .aim = BENCH_AT_MOST,
                       .bound = 1.3,
                       .check = sums_agree};

    BENCH_CALL(mmsb_context_create(NULL, &context));
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.runs = &run;
    delta.count = 1;
    delta.payload = &byte;
    for (int i = 0; i < PAGES; i++) {
        BENCH_CALL(mmsb_page_create(context, SIZE, NULL, &calls.pages[i]));
        delta.epoch = (uint64_t)i + 7;
        BENCH_CALL(mmsb_page_apply(calls.pages[i], &delta));
    }

    for (int i = 0; i < PAGES; i++)
        calls.fact[i] = (uintptr_t)mmsb_page_address(calls.pages[i]);
    row.what = "calls: mmsb_page_address";
    row.ours = ours_address;
    bench_run(&row);
    row.what = "calls: mmsb_page_pin and _unpin, a pair";
    row.ours = ours_pin;
    row.peer = peer_pin;
    row.peer_name = "a pair of empty C calls";
    row.bound = 2.5;
    bench_run(&row);

    for (int i = 0; i < PAGES; i++)
        calls.fact[i] = SIZE;
    row.what = "calls: mmsb_page_size";
    row.ours = ours_size;
    row.peer = peer_call;
    row.peer_name = "an empty C call";
    row.bound = 1.3;
    bench_run(&row);
    for (int i = 0; i < PAGES; i++)
        calls.fact[i] = (uint64_t)i + 7;
    row.what = "calls: mmsb_page_epoch";
    row.ours = ours_epoch;
    bench_run(&row);

    BENCH_CALL(mmsb_page_create_many_start(context, SIZE, 1, NULL, NULL, &page, &calls.ticket));
    BENCH_CALL(mmsb_ticket_wait(calls.ticket, MMSB_WAIT_FOREVER));
    go_empty = bench_go_empty();
    row.what = "calls: into Go (poll of a finished ticket)";
    row.ours = ours_go;
    row.peer = go_empty ? peer_go : NULL;
    row.peer_name = "bare cgo";
    row.check = NULL;
    bench_run(&row);
    run_two_threads(&calls);

    BENCH_CALL(mmsb_ticket_destroy(calls.ticket));
    BENCH_CALL(mmsb_context_destroy(context));
    return 0;
}
