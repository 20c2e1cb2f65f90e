/*
 * commands.c — command buffers: how fast threads enqueue, and how fast commands are executed, against a bare loop that copies as
 * many bytes in the same order. After each row of the latter every page is compared with what it follows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mmsb.h"

enum { CAPACITY = 1 << 16, MASKED = 64 };

static mmsb_context_t context;

static mmsb_commands_t new_commands(int32_t workers) {
    mmsb_commands_options_t options;
    mmsb_commands_t commands = 0;
    mmsb_commands_options_init(&options);
    options.workers = workers;
    options.capacity = CAPACITY;
    BENCH_CALL(mmsb_commands_create(&options, &commands));
    return commands;
}

/* Ends the program unless all that was enqueued is done. */
static void check_done(mmsb_commands_t commands) {
    mmsb_commands_stats_t stats;
    mmsb_commands_stats_init(&stats);
    BENCH_CALL(mmsb_commands_stats(commands, &stats));
    if (stats.done != stats.enqueued)
        bench_fail("%llu of %llu commands are done", (unsigned long long)stats.done, (unsigned long long)stats.enqueued);
}

/* ----------------------------------------------------------------------------------------------------- enqueue ---- */

/* A thread enqueues commands of its own pages in a ring that has space; between two rounds of the ring it empties it, untimed. */
typedef struct producer {
    mmsb_commands_t commands;
    mmsb_page_t page[1024], dependency[1024];
    uint64_t next;
    uint8_t *lines; /* of the bare loop */
} producer_t;

static void enqueue(void *state, uint64_t count) {
    producer_t *producer = state;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t step = producer->next++ % 1024;
        BENCH_CALL(mmsb_commands_enqueue(producer->commands, producer->page[step], &producer->dependency[step], 1, 0));
    }
}

static producer_t *new_producer(mmsb_commands_t commands) {
    producer_t *producer = calloc(1, sizeof *producer);
    producer->commands = commands;
    producer->lines = bench_memory((size_t)CAPACITY * 64);
    BENCH_CALL(mmsb_page_create_many(context, MASKED, 1024, NULL, NULL, producer->page));
    BENCH_CALL(mmsb_page_create_many(context, MASKED, 1024, NULL, NULL, producer->dependency));
    return producer;
}

typedef struct producers {
    mmsb_commands_t commands;
    producer_t *of[2];
} producers_t;

/* count rounds of a ring. */
static void enqueue_on(producers_t *producers, int threads, uint64_t count) {
    void *states[2] = {producers->of[0], producers->of[1]};
    for (uint64_t i = 0; i < count; i++) {
        bench_on_threads(enqueue, states, threads, CAPACITY);
        bench_clock_stop();
        BENCH_CALL(mmsb_commands_wait(producers->commands, MMSB_WAIT_FOREVER));
        bench_clock_go_on();
    }
}

static void enqueue_one(void *state, uint64_t count) {
    producers_t *producers = state;
    for (uint64_t i = 0; i < count; i++) {
        enqueue(producers->of[0], CAPACITY);
        bench_clock_stop();
        BENCH_CALL(mmsb_commands_wait(producers->commands, MMSB_WAIT_FOREVER));
        bench_clock_go_on();
    }
}

/* A line for each command. */
static void fill(void *state, uint64_t count) {
    const producer_t *producer = state;
    for (uint64_t i = 0; i < count; i++)
        memcpy(producer->lines + i % CAPACITY * 64, &producer->page[i % 512], 64);
    __asm__ volatile("" ::"r"(producer->lines) : "memory");
}

static void fill_lines(void *state, uint64_t count) {
    fill(((producers_t *)state)->of[0], count * CAPACITY);
}

static void fill_on_one(void *state, uint64_t count) {
    void *states[1] = {((producers_t *)state)->of[0]};
    bench_on_threads(fill, states, 1, count * CAPACITY);
}

static void fill_on_two(void *state, uint64_t count) {
    void *states[2] = {((producers_t *)state)->of[0], ((producers_t *)state)->of[1]};
    bench_on_threads(fill, states, 2, count * CAPACITY);
}

static void enqueue_on_one(void *state, uint64_t count) {
    enqueue_on(state, 1, count);
}

static void enqueue_on_two(void *state, uint64_t count) {
    enqueue_on(state, 2, count);
}

static void run_enqueue(void) {
    const bench_row_t one = {.what = "commands: enqueue, one thread",
                             .unit = BENCH_MILLIONS,
                             .ours = enqueue_one,
                             .peer = fill_lines,
                             .peer_name = "a bare loop that fills as many lines",
                             .limit_is_peer = true,
                             .ours_operations = CAPACITY,
                             .peer_operations = CAPACITY,
                             .aim = BENCH_AT_LEAST,
                             .bound = 20,
                             .absolute = true,
                             .note = "one dependency each; the ring has space, and is emptied between the slices"};
    const bench_row_t two = {.what = "commands: enqueue, two threads",
                             .unit = BENCH_MILLIONS,
                             .ours = enqueue_on_two,
                             .peer = enqueue_on_one,
                             .peer_name = "one thread",
                             .threads = 2,
                             .ours_operations = 2 * CAPACITY,
                             .peer_operations = CAPACITY,
                             .aim = BENCH_AT_LEAST,
                             .bound = 1.8};
    const bench_row_t bare = {.what = "commands: the bare loop, two threads",
                              .unit = BENCH_MILLIONS,
                              .ours = fill_on_two,
                              .peer = fill_on_one,
                              .peer_name = "the bare loop on one thread",
                              .threads = 2,
                              .ours_operations = 2 * CAPACITY,
                              .peer_operations = CAPACITY};
    if (!bench_wanted(one.what) && !bench_wanted(two.what) && !bench_wanted(bare.what))
        return;
    producers_t producers = {.commands = new_commands(0)};
    for (int i = 0; i < 2; i++)
        producers.of[i] = new_producer(producers.commands);
    bench_row_t measured = one;
    measured.state = &producers;
    if (bench_wanted(one.what))
        bench_run(&measured);
    measured = two;
    measured.state = &producers;
    if (bench_wanted(two.what))
        bench_run(&measured);
    measured = bare;
    measured.state = &producers;
    if (bench_wanted(bare.what))
        bench_run(&measured);
    check_done(producers.commands);
    BENCH_CALL(mmsb_commands_destroy(producers.commands));
    for (int i = 0; i < 2; i++) {
        bench_memory_free(producers.of[i]->lines, (size_t)CAPACITY * 64);
        free(producers.of[i]);
    }
}

/* ----------------------------------------------------------------------------------------------------- execution ---- */

/* Pairs of pages; each command copies the 64 masked bytes of the one to the other, the pairs in random order. */
typedef struct pairs {
    mmsb_commands_t commands;
    uint32_t count;
    uint64_t size;
    int parents; /* 1: by the dependencies of the pages */
    mmsb_page_t *from, *to;
    uint32_t *order;
    uint64_t *offset;
    uint8_t **from_at, **to_at;
    uint64_t ours_next, peer_next;
} pairs_t;

enum { SLICE = 4096 };

static void enqueue_slice(pairs_t *pairs) {
    for (uint32_t i = 0; i < SLICE; i++) {
        const uint32_t pair = pairs->order[pairs->ours_next++ % pairs->count];
        BENCH_CALL(mmsb_commands_enqueue(pairs->commands, pairs->to[pair], pairs->parents ? NULL : &pairs->from[pair],
                                         pairs->parents ? 0 : 1, 0));
    }
}

static void ours_execute(void *state, uint64_t count) {
    pairs_t *pairs = state;
    for (uint64_t i = 0; i < count; i++) {
        bench_clock_stop();
        enqueue_slice(pairs);
        bench_clock_go_on();
        BENCH_CALL(mmsb_commands_wait(pairs->commands, MMSB_WAIT_FOREVER));
    }
}

static void ours_whole(void *state, uint64_t count) {
    pairs_t *pairs = state;
    for (uint64_t i = 0; i < count; i++) {
        enqueue_slice(pairs);
        BENCH_CALL(mmsb_commands_wait(pairs->commands, MMSB_WAIT_FOREVER));
    }
}

static void peer_copy(void *state, uint64_t count) {
    pairs_t *pairs = state;
    for (uint64_t i = 0; i < count * SLICE; i++) {
        const uint32_t pair = pairs->order[pairs->peer_next++ % pairs->count];
        memcpy(pairs->to_at[pair] + pairs->offset[pair], pairs->from_at[pair] + pairs->offset[pair], MASKED);
    }
    __asm__ volatile("" ::"r"(pairs->to_at) : "memory");
}

static const char *check_pairs(void *state) {
    pairs_t *pairs = state;
    uint8_t from[MASKED], to[MASKED];
    uint64_t marked, epochs = 0;
    for (uint32_t i = 0; i < pairs->count; i++) {
        BENCH_CALL(mmsb_page_read(pairs->from[i], pairs->offset[i], from, MASKED));
        BENCH_CALL(mmsb_page_read(pairs->to[i], pairs->offset[i], to, MASKED));
        BENCH_CALL(mmsb_page_mask_count(pairs->to[i], &marked));
        epochs += mmsb_page_epoch(pairs->to[i]);
        if (memcmp(from, to, MASKED) != 0)
            return "bytes were not copied";
        if (marked != MASKED)
            return "a change mask is not that of the dependency";
    }
    check_done(pairs->commands);
    return epochs == pairs->ours_next ? NULL : "the epochs do not add up to the number of commands";
}

static void make_pairs(pairs_t *pairs) {
    const uint32_t count = pairs->count;
    uint64_t seed = 1;
    uint8_t bytes[MASKED];
    pairs->from = calloc(count, sizeof *pairs->from);
    pairs->to = calloc(count, sizeof *pairs->to);
    pairs->offset = calloc(count, sizeof *pairs->offset);
    pairs->from_at = calloc(count, sizeof *pairs->from_at);
    pairs->to_at = calloc(count, sizeof *pairs->to_at);
    pairs->order = bench_permutation(count);
    BENCH_CALL(mmsb_page_create_many(context, pairs->size, count, NULL, NULL, pairs->from));
    BENCH_CALL(mmsb_page_create_many(context, pairs->size, count, NULL, NULL, pairs->to));
    for (uint32_t i = 0; i < count; i++) {
        pairs->offset[i] = bench_random(&seed) % (pairs->size - MASKED + 1);
        for (int b = 0; b < MASKED; b++)
            bytes[b] = (uint8_t)(bench_random(&seed) | 1);
        const mmsb_run_t run = {pairs->offset[i], MASKED};
        mmsb_delta_t delta;
        mmsb_delta_init(&delta);
        delta.kind = MMSB_DELTA_RUNS;
        delta.runs = &run;
        delta.count = 1;
        delta.payload = bytes;
        BENCH_CALL(mmsb_page_apply(pairs->from[i], &delta));
        if (pairs->parents)
            BENCH_CALL(mmsb_page_dependency_add(pairs->from[i], pairs->to[i]));
        pairs->from_at[i] = mmsb_page_address(pairs->from[i]);
        pairs->to_at[i] = mmsb_page_address(pairs->to[i]);
    }
    ours_whole(pairs, count / SLICE);
}

static void run_pairs(const bench_row_t *row, bench_work_t ours, int parents, uint64_t size, uint32_t count) {
    if (!bench_wanted(row->what))
        return;
    bench_row_t measured = *row;
    pairs_t pairs = {.commands = new_commands(0), .count = count, .size = size, .parents = parents};
    make_pairs(&pairs);
    measured.ours = ours;
    measured.peer = peer_copy;
    measured.peer_name = "bare loop of 64-byte memcpy";
    measured.limit_is_peer = true;
    measured.state = &pairs;
    measured.ours_operations = measured.peer_operations = SLICE;
    measured.check = check_pairs;
    bench_run(&measured);
    BENCH_CALL(mmsb_page_destroy_many(pairs.from, count, NULL));
    BENCH_CALL(mmsb_page_destroy_many(pairs.to, count, NULL));
    BENCH_CALL(mmsb_commands_destroy(pairs.commands));
    free(pairs.from);
    free(pairs.to);
    free(pairs.offset);
    free(pairs.from_at);
    free(pairs.to_at);
    free(pairs.order);
}

static void run_execution(void) {
    bench_row_t row = {.unit = BENCH_MILLIONS, .aim = BENCH_AT_LEAST, .bound = 0.4};
    row.note = "pairs of pages in random order, the 64 masked bytes anywhere in them";
    row.what = "commands: execution, 64 masked bytes, 1 M pages of 64 B";
    run_pairs(&row, ours_execute, 0, 64, 1 << 19);
    row.aim = BENCH_INFORMATION;
    row.what = "commands: execution, 64 masked bytes, 8192 pages of 64 B";
    run_pairs(&row, ours_execute, 0, 64, 1 << 12);
    row.what = "commands: execution, 64 masked bytes, 256 K pages of 1 KiB";
    run_pairs(&row, ours_execute, 0, 1024, 1 << 17);
    row.what = "commands: execution, 64 masked bytes, 8192 pages of 4 KiB";
    run_pairs(&row, ours_execute, 0, 4096, 1 << 12);
    row.what = "commands: execution, parents of the graph, 64 masked bytes, 1 M pages of 64 B";
    run_pairs(&row, ours_execute, 1, 64, 1 << 19);
    row.what = "commands: enqueue and execution, 64 masked bytes, 1 M pages of 64 B";
    run_pairs(&row, ours_whole, 0, 64, 1 << 19);
}

int main(void) {
    BENCH_CALL(mmsb_context_create(NULL, &context));
    run_enqueue();
    run_execution();
    BENCH_CALL(mmsb_context_destroy(context));
    return 0;
}
