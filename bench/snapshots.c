/*
 * snapshots.c — saves and loads against the speed of the disk, incremental saves against whole ones, and the delay that a running
 * save causes to a writer. Each snapshot is loaded into another context and compared byte by byte: a save beside a writer must
 * contain exactly the changes up to one of them.
 *
 * A state consists of cells, parts of pages of at most 4 KiB, numbered through all pages. A change writes its own number eight
 * times into the 64 bytes of a cell that are reserved for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "disk.h"
#include "mmsb.h"

enum { KIB = 1 << 10, MIB = 1 << 20, CELL = 4 * KIB, CHANGE = 64, WORDS = CHANGE / 8, BATCH = 1000, HOT = 4096 };
enum { DISK_ROUNDS = 7, LIVE_ROUNDS = 3, QUICK_ROUNDS = 2 };
#define GIB ((uint64_t)1 << 30)

static int rounds_of(int rounds) {
    return bench_quick() ? QUICK_ROUNDS : rounds;
}

/* A number of bytes or pages, smaller in a quick run. */
static uint64_t sized(uint64_t bytes) {
    return bench_quick() ? bytes / 64 : bytes;
}

/* -------------------------------------------------------------------------------------------------------- states ---- */

typedef struct state {
    mmsb_context_t context;
    mmsb_page_t *pages;
    uint64_t count, size; /* of the pages */
    uint64_t cell, cells;
    uint64_t *changed; /* the last change of each cell; 0 = none */
} state_t;

static uint64_t mix(uint64_t number) {
    return bench_random(&number);
}

static void fill_cell(uint64_t *words, uint64_t cell, uint64_t number) {
    uint64_t word = mix(number);
    words[0] = number;
    for (uint64_t w = 1; w < cell / 8; w++)
        words[w] = word += 0x9E3779B97F4A7C15u;
}

static uint64_t change_place(const state_t *state, uint64_t number) {
    return CHANGE + mix(number) % (state->cell / CHANGE - 1) * CHANGE;
}

static mmsb_context_t new_context(void) {
    mmsb_context_t context;
    BENCH_CALL(mmsb_context_create(NULL, &context));
    return context;
}

static void fill_pages(state_t *state) {
    uint64_t words[CELL / 8], page_cells = state->size / state->cell;
    for (uint64_t number = 0; number < state->cells; number++) {
        fill_cell(words, state->cell, number);
        BENCH_CALL(mmsb_page_write(state->pages[number / page_cells], number % page_cells * state->cell, words, state->cell));
    }
}

static state_t make_state(uint64_t bytes, uint64_t size) {
    state_t state = {.context = new_context(), .count = bytes / size, .size = size, .cell = size < CELL ? size : CELL};
    state.cells = bytes / state.cell;
    state.pages = bench_memory(state.count * sizeof *state.pages);
    state.changed = bench_memory(state.cells * sizeof *state.changed);
    return state;
}

static state_t new_state(uint64_t bytes, uint64_t size) {
    state_t state = make_state(bytes, size);
    BENCH_CALL(mmsb_page_create_many(state.context, size, state.count, NULL, NULL, state.pages));
    fill_pages(&state);
    return state;
}

static void end_state(state_t *state) {
    BENCH_CALL(mmsb_context_destroy(state->context));
    bench_memory_free(state->pages, state->count * sizeof *state->pages);
    bench_memory_free(state->changed, state->cells * sizeof *state->changed);
}

static uint64_t state_bytes(const state_t *state) {
    return state->count * state->size;
}

typedef void (*cell_seen_t)(void *user, uint64_t number, const uint64_t *words);

/* All cells of a loaded context. */
static void see_cells(mmsb_context_t context, const state_t *state, cell_seen_t seen, void *user) {
    mmsb_page_t pages[1024];
    uint64_t cursor = 0, words[CELL / 8], found = 0;
    size_t count;
    do {
        BENCH_CALL(mmsb_context_pages(context, &cursor, pages, sizeof pages / sizeof pages[0], &count));
        for (size_t p = 0; p < count; p++) {
            uint64_t first = 0;
            if (mmsb_page_size(pages[p]) != state->size)
                bench_fail("a loaded page has %llu bytes", (unsigned long long)mmsb_page_size(pages[p]));
            for (uint64_t at = 0; at < state->size; at += state->cell) {
                BENCH_CALL(mmsb_page_read(pages[p], at, words, state->cell));
                first = at == 0 ? words[0] : first;
                if (words[0] != first + at / state->cell || words[0] >= state->cells || first % (state->size / state->cell) != 0)
                    bench_fail("a loaded page has cell %llu at %llu", (unsigned long long)words[0], (unsigned long long)at);
                seen(user, words[0], words);
            }
            found += state->size / state->cell;
        }
    } while (count > 0);
    if (found != state->cells)
        bench_fail("%llu of %llu cells were loaded", (unsigned long long)found, (unsigned long long)state->cells);
}

static void check_cell(void *user, uint64_t number, const uint64_t *words) {
    const state_t *state = user;
    uint64_t expected[CELL / 8];
    fill_cell(expected, state->cell, number);
    for (int w = 0; state->changed[number] && w < WORDS; w++)
        expected[change_place(state, number) / 8 + (uint64_t)w] = state->changed[number];
    if (memcmp(words, expected, state->cell) != 0)
        bench_fail("cell %llu was not loaded as it was saved", (unsigned long long)number);
}

static void check_loaded(mmsb_context_t context, state_t *state) {
    see_cells(context, state, check_cell, state);
}

static void check_file(const char *path, state_t *state) {
    mmsb_context_t context = new_context();
    BENCH_CALL(mmsb_snapshot_load(context, path, NULL));
    check_loaded(context, state);
    BENCH_CALL(mmsb_context_destroy(context));
}

static double save_seconds(const state_t *state, const char *path, const char *base) {
    mmsb_save_options_t options;
    double begin = bench_seconds();
    mmsb_save_options_init(&options);
    options.base = base;
    BENCH_CALL(mmsb_snapshot_save(state->context, path, &options));
    return bench_seconds() - begin;
}

/* ------------------------------------------------------------------------------------------------ save, restore ---- */

enum { SAVE_BEST, SAVE_BUFFERED, RESTORE, RESTORE_NEW, MEMORY, SAVE_ROWS };

typedef struct measured {
    double ours[DISK_ROUNDS], peer[DISK_ROUNDS];
} measured_t;

/* The aim of a save against a buffered write: twice its rate, or, if the disk's best raw write has less than 2.5 times that
 * rate, the share of the raw write that the neighbouring row demands. */
static double against_buffered(const double *best, const double *buffered, int rounds) {
    const double twice = 2, of_best = 0.8;
    double ratios[DISK_ROUNDS];
    for (int round = 0; round < rounds; round++)
        ratios[round] = best[round] / buffered[round];
    double attainable = of_best * bench_median(ratios, rounds);
    return attainable < twice ? attainable : twice;
}

static void save_and_restore(uint64_t size, const char *const *names) {
    static const char *const note = "2 GiB, durable, every checksum made or verified; megabytes of file";
    const uint64_t bytes = sized(2 * GIB);
    const int rounds = rounds_of(DISK_ROUNDS);
    static measured_t all[SAVE_ROWS];
    bench_row_t rows[SAVE_ROWS] = {
        [SAVE_BEST] = {.bound = 0.8,
                       .peer_name = "raw write past the page cache, deep queue, fsync",
                       .limit_is_peer = true,
                       .note = note},
        [SAVE_BUFFERED] = {.peer_name = "buffered write and fsync",
                           .limit_name = "raw write past the page cache, deep queue, fsync",
                           .note = "as above; the aim is 2, but at most 0.8 of what the limit reaches against the peer"},
        [RESTORE] = {.bound = 0.8, .peer_name = "raw read into reused memory", .limit_is_peer = true, .note = note},
        [RESTORE_NEW] = {.peer_name = "raw read into reused memory", .limit_is_peer = true, .note = note},
        [MEMORY] = {.unit = BENCH_MEBIBYTES,
                    .bound = 64,
                    .absolute = true,
                    .peer_name = "the buffers of a raw write",
                    .note = "VmHWM during the context's first save, less what was resident before"},
    };
    const char *lacking = bench_no_room(2 * bytes);
    bool wanted = false;
    state_t state;
    mmsb_context_t restored;
    for (int r = 0; r < SAVE_ROWS; r++) {
        rows[r].what = names[r];
        rows[r].unit = r == MEMORY ? BENCH_MEBIBYTES : BENCH_MEGABYTES;
        rows[r].aim = r == MEMORY ? BENCH_AT_MOST : r == RESTORE_NEW ? BENCH_INFORMATION : BENCH_AT_LEAST;
        wanted |= bench_wanted(names[r]);
        if (lacking)
            bench_not_run(&rows[r], lacking);
    }
    if (!wanted || lacking)
        return;

    state = new_state(bytes, size);
    restored = new_context();
    for (int round = 0; round < rounds; round++) {
        const char *saved = bench_file("saved"), *raw = bench_file("raw");
        double seconds, best = 0, buffered = 0, length, resident = bench_memory_now();
        mmsb_context_t empty;
        if (round % 2) {
            best = bench_write_best(raw, bytes);
            bench_remove(raw);
        }
        bench_memory_mark();
        seconds = save_seconds(&state, saved, NULL);
        if (round == 0) {
            all[MEMORY].ours[0] = bench_memory_most() - resident;
            all[MEMORY].peer[0] = 16;
        }
        length = (double)bench_file_bytes(saved);
        if (round % 2 == 0)
            best = bench_write_best(raw, (uint64_t)length);
        else
            best = best / (double)bytes * length;
        bench_remove(raw);
        buffered = bench_write_buffered(raw, (uint64_t)length);
        bench_remove(raw);
        all[SAVE_BEST].ours[round] = all[SAVE_BUFFERED].ours[round] = length / seconds / 1e6;
        all[SAVE_BEST].peer[round] = length / best / 1e6;
        all[SAVE_BUFFERED].peer[round] = length / buffered / 1e6;

        /* A load replaces pages after all new ones exist: after one load the context has memory for the next. */
        BENCH_CALL(mmsb_snapshot_load(restored, saved, NULL));
        if (round % 2)
            best = bench_read_best(saved, (uint64_t)length);
        seconds = bench_seconds();
        BENCH_CALL(mmsb_snapshot_load(restored, saved, NULL));
        seconds = bench_seconds() - seconds;
        if (round % 2 == 0)
            best = bench_read_best(saved, (uint64_t)length);
        all[RESTORE].ours[round] = length / seconds / 1e6;
        all[RESTORE].peer[round] = all[RESTORE_NEW].peer[round] = length / best / 1e6;
        check_loaded(restored, &state);

        empty = new_context();
        seconds = bench_seconds();
        BENCH_CALL(mmsb_snapshot_load(empty, saved, NULL));
        all[RESTORE_NEW].ours[round] = length / (bench_seconds() - seconds) / 1e6;
        BENCH_CALL(mmsb_context_destroy(empty));
        bench_remove(saved);
    }
    rows[SAVE_BUFFERED].bound = against_buffered(all[SAVE_BEST].peer, all[SAVE_BUFFERED].peer, rounds);
    for (int r = 0; r < SAVE_ROWS; r++) {
        if (bench_wanted(rows[r].what))
            bench_report(&rows[r], all[r].ours, all[r].peer, r == SAVE_BUFFERED ? all[SAVE_BEST].peer : NULL,
                         r == MEMORY ? 1 : rounds);
    }
    BENCH_CALL(mmsb_context_destroy(restored));
    end_state(&state);
}

/* -------------------------------------------------------------------------------------------------- incremental ---- */

static void change_cell(state_t *state, uint64_t number, uint64_t change) {
    const uint64_t page_cells = state->size / state->cell;
    uint64_t words[WORDS];
    mmsb_run_t run = {number % page_cells * state->cell + change_place(state, number), CHANGE};
    mmsb_delta_t delta;
    for (int w = 0; w < WORDS; w++)
        words[w] = change;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.runs = &run;
    delta.count = 1;
    delta.payload = words;
    BENCH_CALL(mmsb_page_apply(state->pages[number / page_cells], &delta));
}

typedef void (*dirty_t)(state_t *state, uint64_t *seed);

/* One delta to each of that many random pages. */
static void dirty_one_in_hundred(state_t *state, uint64_t *seed) {
    for (uint64_t i = 0; i < state->cells / 100; i++) {
        uint64_t number = bench_random(seed) % state->cells;
        change_cell(state, number, state->changed[number] = *seed);
    }
}

static void incremental(const bench_row_t *row, state_t *state, dirty_t dirty, uint64_t least) {
    const int rounds = rounds_of(DISK_ROUNDS);
    const double bytes = (double)state_bytes(state);
    double ours[DISK_ROUNDS], peer[DISK_ROUNDS];
    uint64_t seed = least;
    const char *lacking = bench_no_room(state_bytes(state) + state_bytes(state) / 4);
    if (!bench_wanted(row->what))
        return;
    if (lacking) {
        bench_not_run(row, lacking);
        return;
    }
    for (int round = 0; round < rounds; round++) {
        const char *whole = bench_file("whole"), *part = bench_file("part");
        peer[round] = bytes / save_seconds(state, whole, NULL) / 1e6;
        dirty(state, &seed);
        ours[round] = bytes / save_seconds(state, part, whole) / 1e6;
        if (round == rounds - 1)
            check_file(part, state);
        bench_remove(part);
        bench_remove(whole);
    }
    bench_report(row, ours, peer, NULL, rounds);
}

/* An array that a program already has, as pages of the context. */
static state_t adopted_state(uint64_t bytes, uint64_t size, char **memory) {
    state_t state = make_state(bytes, size);
    *memory = bench_memory(bytes);
    for (uint64_t number = 0; number < state.cells; number++)
        fill_cell((uint64_t *)(void *)(*memory + number * state.cell), state.cell, number);
    for (uint64_t page = 0; page < state.count; page++)
        BENCH_CALL(mmsb_page_adopt(state.context, *memory + page * size, size, NULL, &state.pages[page]));
    return state;
}

static char *adopted;

static void touch_cells(state_t *state, uint64_t first, uint64_t count, uint64_t change) {
    for (uint64_t number = first; number < first + count; number++) {
        uint64_t *words = (uint64_t *)(void *)(adopted + number * state->cell + change_place(state, number));
        state->changed[number] = change;
        for (int w = 0; w < WORDS; w++)
            words[w] = change;
    }
}

/* One system page in fifty. */
static void touch_scattered(state_t *state, uint64_t *seed) {
    for (uint64_t i = 0; i < state->cells / 50; i++) {
        uint64_t number = bench_random(seed) % state->cells;
        touch_cells(state, number, 1, *seed);
    }
}

/* As many, in ranges of 1 MiB. */
static void touch_stretches(state_t *state, uint64_t *seed) {
    const uint64_t stretch = MIB / CELL;
    for (uint64_t i = 0; i < state->cells / 50; i += stretch)
        touch_cells(state, bench_random(seed) % (state->cells / stretch) * stretch, stretch, *seed);
}

static void run_adopted(void) {
    bench_row_t row = {.what = "snapshot: 4 GiB adopted, 2 % written in stretches of 1 MiB, incremental",
                       .unit = BENCH_MEGABYTES,
                       .aim = BENCH_AT_LEAST,
                       .bound = 20,
                       .peer_name = "a whole save",
                       .note = "megabytes of state a second"};
    bench_row_t scattered = row;
    const uint64_t size = sized(256 * (uint64_t)MIB);
    state_t state;
    scattered.what = "snapshot: 4 GiB adopted, 2 % written, 4 KiB at a time at random, incremental";
    if (!bench_wanted(row.what) && !bench_wanted(scattered.what))
        return;
    state = adopted_state(sized(4 * GIB), size, &adopted);
    incremental(&row, &state, touch_stretches, 1);
    incremental(&scattered, &state, touch_scattered, 2);
    bench_memory_free(adopted, state_bytes(&state));
    end_state(&state);
}

/* ---------------------------------------------------------------------------------------------------------- live ---- */

/* Times of calls: 64 classes for each power of two. */
typedef struct times {
    uint64_t class[64 * 64];
    uint64_t count;
    double longest; /* ns */
} times_t;

static void note_time(times_t *times, uint64_t ns) {
    int power = 63 - __builtin_clzll(ns | 64);
    times->class[(power - 6) * 64 + (int)(ns >> (power - 6))]++;
    times->count++;
    if ((double)ns > times->longest)
        times->longest = (double)ns;
}

/* The p99.9: 999 of 1000 calls are faster. */
static double thousandth(const times_t *times) {
    uint64_t above = 0;
    int number = sizeof times->class / sizeof times->class[0];
    while (number > 0 && above <= times->count / 1000)
        above += times->class[--number];
    return number < 64 ? number : (double)(((uint64_t)(number % 64) + 64) << (number / 64 - 1));
}

typedef struct writer {
    state_t *state;
    uint64_t among; /* the cells that it changes */
    uint64_t batch; /* deltas in a call */
    uint64_t last;  /* number of its last change */
    uint64_t first; /* and of the first one in this slice */
    mmsb_page_t target[BATCH];
    uint64_t offset[BATCH], payload[BATCH * WORDS];
    mmsb_page_runs_t runs;
} writer_t;

static uint64_t target_of(const writer_t *writer, uint64_t change) {
    return mix(change) % writer->among;
}

static void write_batch(writer_t *writer) {
    const state_t *state = writer->state;
    const uint64_t page_cells = state->size / state->cell;
    for (uint64_t i = 0; i < writer->batch; i++) {
        uint64_t change = ++writer->last, number = target_of(writer, change);
        writer->target[i] = state->pages[number / page_cells];
        writer->offset[i] = number % page_cells * state->cell + change_place(state, number);
        for (int w = 0; w < WORDS; w++)
            writer->payload[i * WORDS + (uint64_t)w] = change;
    }
}

static void apply_batch(writer_t *writer) {
    if (writer->batch > 1) {
        BENCH_CALL(mmsb_page_apply_runs(&writer->runs, NULL));
        return;
    }
    mmsb_run_t run = {writer->offset[0], CHANGE};
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.runs = &run;
    delta.count = 1;
    delta.payload = writer->payload;
    BENCH_CALL(mmsb_page_apply(writer->target[0], &delta));
}

/* The state after the changes up to one of this slice. */
static void replay(writer_t *writer, uint64_t from, uint64_t to) {
    for (uint64_t change = from; change <= to; change++)
        writer->state->changed[target_of(writer, change)] = change;
}

/* Writes until a save is done or, without a save, for that many seconds. Returns deltas per second. times may be NULL. */
static double write_meanwhile(writer_t *writer, mmsb_ticket_t save, double seconds, times_t *times) {
    const double begin = bench_seconds();
    int32_t done = 0;
    writer->first = writer->last + 1;
    while (!done) {
        for (uint64_t i = 0; i < (writer->batch > 1 ? 1 : 64); i++) {
            write_batch(writer);
            if (times) {
                uint64_t before = (uint64_t)(bench_seconds() * 1e9);
                apply_batch(writer);
                note_time(times, (uint64_t)(bench_seconds() * 1e9) - before);
            } else {
                apply_batch(writer);
            }
        }
        if (save)
            BENCH_CALL(mmsb_ticket_poll(save, &done));
        else
            done = bench_seconds() - begin > seconds;
    }
    return (double)(writer->last - writer->first + 1) / (bench_seconds() - begin);
}

static void see_newest(void *user, uint64_t number, const uint64_t *words) {
    void **found = user;
    const state_t *state = found[0];
    const uint64_t *change = words + change_place(state, number) / 8;
    uint64_t *newest = found[1], unchanged[CELL / 8];
    fill_cell(unchanged, state->cell, number);
    if (change[0] != unchanged[change_place(state, number) / 8] && change[0] > *newest)
        *newest = change[0];
}

/* The file has the changes up to one of them, the last of a call. */
static void check_moment(writer_t *writer, const char *path) {
    mmsb_context_t context = new_context();
    uint64_t newest = 0;
    BENCH_CALL(mmsb_snapshot_load(context, path, NULL));
    see_cells(context, writer->state, see_newest, (void *[]){writer->state, &newest});
    if (newest >= writer->first) {
        if ((newest - writer->first + 1) % writer->batch != 0)
            bench_fail("the snapshot has a part of a batch");
        replay(writer, writer->first, newest);
        writer->first = newest + 1;
    }
    check_loaded(context, writer->state);
    BENCH_CALL(mmsb_context_destroy(context));
}

/* A slice beside a save. more is the largest amount of memory that it needed. */
static double write_beside_save(writer_t *writer, times_t *times, double *more, bool check) {
    const char *path = bench_file("live");
    mmsb_ticket_t save;
    double rate, resident = bench_memory_now();
    bench_memory_mark();
    BENCH_CALL(mmsb_snapshot_save_start(writer->state->context, path, NULL, NULL, &save));
    rate = write_meanwhile(writer, save, 0, times);
    BENCH_CALL(mmsb_ticket_wait(save, MMSB_WAIT_FOREVER));
    BENCH_CALL(mmsb_ticket_destroy(save));
    if (more && bench_memory_most() - resident > *more)
        *more = bench_memory_most() - resident;
    if (check)
        check_moment(writer, path);
    replay(writer, writer->first, writer->last);
    bench_remove(path);
    return rate;
}

static double write_alone(writer_t *writer, times_t *times) {
    double rate = write_meanwhile(writer, 0, bench_quick() ? 0.02 : 1, times);
    replay(writer, writer->first, writer->last);
    return rate;
}

static void print_waits(const state_t *state, const char *what) {
    mmsb_save_stats_t stats;
    char text[192];
    mmsb_save_stats_init(&stats);
    BENCH_CALL(mmsb_context_save_stats(state->context, &stats));
    snprintf(text, sizeof text, "%.2f s, %.0f MiB of copies, %.0f at most at a time; %llu waits, %.3f s in all",
             (double)stats.last_duration_ns / 1e9, (double)stats.copied_bytes / MIB, (double)stats.copied_peak / MIB,
             (unsigned long long)stats.waits, (double)stats.waited_ns / 1e9);
    bench_fact(what, text);
}

typedef enum judged { P999, LONGEST, RATE } judged_t;

static void live(bench_row_t row, state_t *state, uint64_t *last, uint64_t among, uint64_t batch, judged_t judged, double *more) {
    static writer_t writer;
    double ours[LIVE_ROUNDS], peer[LIVE_ROUNDS];
    const int rounds = rounds_of(LIVE_ROUNDS);
    const double unit = row.unit == BENCH_MICROSECONDS ? 1e3 : 1e6;
    if (!bench_wanted(row.what))
        return;
    writer = (writer_t){.state = state, .among = among < state->cells ? among : state->cells, .batch = batch, .last = *last};
    mmsb_page_runs_init(&writer.runs);
    writer.runs.count = batch;
    writer.runs.pages = writer.target;
    writer.runs.offsets = writer.offset;
    writer.runs.uniform_length = CHANGE;
    writer.runs.payload = writer.payload;
    for (int round = 0; round < rounds; round++) {
        times_t alone = {0}, beside = {0};
        bool timed = judged != RATE;
        double rate_alone = write_alone(&writer, timed ? &alone : NULL);
        double rate_beside = write_beside_save(&writer, timed ? &beside : NULL, more, round == rounds - 1);
        ours[round] = judged == RATE ? rate_beside / 1e6 : (judged == P999 ? thousandth(&beside) : beside.longest) / unit;
        peer[round] = judged == RATE ? rate_alone / 1e6 : (judged == P999 ? thousandth(&alone) : alone.longest) / unit;
    }
    *last = writer.last;
    print_waits(state, row.what);
    bench_report(&row, ours, peer, NULL, rounds);
}

static void run_live(state_t *state) {
    const char *const memory = "live: memory for it beside uniform single deltas, of which 256 MiB may be copies";
    bench_row_t time = {.aim = BENCH_AT_MOST,
                        .absolute = true,
                        .peer_name = "the same without a save",
                        .note = "64-byte deltas to 1 M pages of 4 KiB with change masks, all over them unless it says otherwise"};
    bench_row_t rate = {.unit = BENCH_MILLIONS, .aim = BENCH_AT_LEAST, .peer_name = time.peer_name, .note = time.note};
    bench_row_t most = {.what = memory,
                        .unit = BENCH_MEBIBYTES,
                        .aim = BENCH_AT_MOST,
                        .absolute = true,
                        .bound = 64 + 256,
                        .peer_name = "the limit of copies alone",
                        .note = "VmHWM during a save less what was resident before"};
    const char *lacking = bench_no_room(state_bytes(state) + state_bytes(state) / 4);
    const double limit = 256;
    double more = 0;
    uint64_t last = 0;
    if (lacking) {
        time.what = "live: all rows of 1 M pages";
        bench_not_run(&time, lacking);
        return;
    }
    memset(state->changed, 0, state->cells * sizeof *state->changed);
    fill_pages(state);
    for (uint64_t number = 0; number < state->cells; number++)
        change_cell(state, number, state->changed[number] = ++last);

    time.unit = BENCH_MICROSECONDS;
    time.bound = 100;
    time.what = "live: p99.9 of single deltas";
    live(time, state, &last, UINT64_MAX, 1, P999, &more);
    if (more > 0)
        bench_report(&most, &more, &limit, NULL, 1);
    time.unit = BENCH_MILLISECONDS;
    time.bound = 8; /* a thread that computes beside copying and writing has this on two processors: docs/performance.md */
    time.what = "live: p99.9 of batches of 1000 deltas";
    live(time, state, &last, UINT64_MAX, BATCH, P999, NULL);
    rate.bound = 0.7;
    rate.what = "live: single deltas, 4096 hot pages";
    live(rate, state, &last, HOT, 1, RATE, NULL);
    rate.bound = 0.45;
    rate.what = "live: single deltas, uniform";
    live(rate, state, &last, UINT64_MAX, 1, RATE, NULL);
    rate.bound = 0.3;
    rate.what = "live: batches of 1000 deltas, uniform";
    live(rate, state, &last, UINT64_MAX, BATCH, RATE, NULL);
}

static void run_one_page(void) {
    bench_row_t row = {.what = "live: one page of 1 GiB, longest 64-byte delta",
                       .unit = BENCH_MILLISECONDS,
                       .aim = BENCH_AT_MOST,
                       .absolute = true,
                       .bound = 5,
                       .peer_name = "the same without a save",
                       .note = "with its change mask, all over it; the longest of a slice, median of the slices"};
    const char *lacking = bench_no_room(sized(2 * GIB));
    state_t state;
    uint64_t last = 0;
    if (!bench_wanted(row.what))
        return;
    if (lacking) {
        bench_not_run(&row, lacking);
        return;
    }
    state = new_state(sized(GIB), sized(GIB));
    for (uint64_t number = 0; number < state.cells; number++)
        change_cell(&state, number, state.changed[number] = ++last);
    live(row, &state, &last, UINT64_MAX, 1, LONGEST, NULL);
    end_state(&state);
}

/* --------------------------------------------------------------------------------------------------------- rows ---- */

static void run_million(void) {
    bench_row_t row = {.what = "snapshot: 1 M pages of 4 KiB, 1 % changed, incremental",
                       .unit = BENCH_MEGABYTES,
                       .aim = BENCH_AT_LEAST,
                       .bound = 50,
                       .peer_name = "a whole save",
                       .note = "megabytes of state a second"};
    const uint64_t count = sized(1 << 20);
    state_t state;
    if (bench_wanted(row.what) || bench_wanted("live: ")) {
        state = new_state(count * 4 * KIB, 4 * KIB);
        incremental(&row, &state, dirty_one_in_hundred, 1);
        run_live(&state);
        end_state(&state);
    }
    row.what = "snapshot: 1 M pages of 1 KiB, 1 % changed, incremental";
    row.bound = 30;
    if (bench_wanted(row.what)) {
        state = new_state(count * KIB, KIB);
        incremental(&row, &state, dirty_one_in_hundred, 1);
        end_state(&state);
    }
}

int main(void) {
    save_and_restore(64 * KIB,
                     (const char *const[]){"snapshot: save, pages of 64 KiB", "snapshot: save, pages of 64 KiB, against buffered",
                                           "snapshot: restore, pages of 64 KiB, into a context that has just restored",
                                           "snapshot: restore, pages of 64 KiB, into a new context",
                                           "snapshot: memory to save pages of 64 KiB"});
    save_and_restore(4 * KIB,
                     (const char *const[]){"snapshot: save, pages of 4 KiB", "snapshot: save, pages of 4 KiB, against buffered",
                                           "snapshot: restore, pages of 4 KiB, into a context that has just restored",
                                           "snapshot: restore, pages of 4 KiB, into a new context",
                                           "snapshot: memory to save pages of 4 KiB"});
    run_adopted();
    run_million();
    run_one_page();
    return 0;
}
