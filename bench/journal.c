/*
 * journal.c — a context with a journal: deltas until they are on disk, and the recovery from a snapshot of the pages before them
 * and the journal. The recovered pages are compared byte by byte with the context that wrote the journal.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "disk.h"
#include "mmsb.h"

enum { ROUNDS = 5, QUICK_ROUNDS = 2, MIB = 1 << 20, BATCH = 1000 };

/* Pages that begin with their number; deltas of one length change them. */
typedef struct work {
    uint64_t pages, size, deltas, length, batch;
} work_t;

typedef struct figures {
    double apply[ROUNDS];   /* seconds until all deltas were on disk */
    double recover[ROUNDS]; /* seconds to recover all deltas */
    double write[ROUNDS];   /* raw writing and reading of as many bytes as the journal has */
    double read[ROUNDS];
    double bytes[ROUNDS];
} figures_t;

static int rounds(void) {
    return bench_quick() ? QUICK_ROUNDS : ROUNDS;
}

static void remove_folder(const char *path) {
    DIR *folder = opendir(path);
    const struct dirent *entry;
    char name[8192];
    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        bench_remove(name);
    }
    closedir(folder);
    rmdir(path);
}

static uint64_t place_of(const work_t *work, uint64_t change) {
    uint64_t seed = change;
    return 64 + bench_random(&seed) % ((work->size - 64) / work->length) * work->length;
}

/* Singly or in batches; each payload begins with the number of its change. */
static void apply_all(const work_t *work, const mmsb_page_t *pages, uint8_t *payload) {
    mmsb_page_t target[BATCH];
    uint64_t offset[BATCH];
    mmsb_run_t run = {0, work->length};
    mmsb_page_runs_t runs;
    mmsb_delta_t delta;
    mmsb_page_runs_init(&runs);
    runs.pages = target;
    runs.offsets = offset;
    runs.uniform_length = work->length;
    runs.payload = payload;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.runs = &run;
    delta.count = 1;
    delta.payload = payload;
    for (uint64_t change = 0; change < work->deltas;) {
        if (work->batch == 1) {
            memcpy(payload, &change, sizeof change);
            run.offset = place_of(work, change);
            BENCH_CALL(mmsb_page_apply(pages[change * 7 % work->pages], &delta));
            change++;
            continue;
        }
        for (runs.count = 0; runs.count < work->batch && change < work->deltas; runs.count++, change++) {
            memcpy(payload + runs.count * work->length, &change, sizeof change);
            target[runs.count] = pages[change * 7 % work->pages];
            offset[runs.count] = place_of(work, change);
        }
        BENCH_CALL(mmsb_page_apply_runs(&runs, NULL));
    }
}

static void compare(const work_t *work, const mmsb_page_t *pages, mmsb_context_t recovered) {
    uint8_t *expected = bench_memory(work->size), *bytes = bench_memory(work->size);
    mmsb_page_t page[256];
    uint64_t cursor = 0, found = 0;
    size_t count;
    do {
        BENCH_CALL(mmsb_context_pages(recovered, &cursor, page, sizeof page / sizeof page[0], &count));
        for (size_t p = 0; p < count; p++, found++) {
            uint64_t number;
            BENCH_CALL(mmsb_page_read(page[p], 0, bytes, work->size));
            memcpy(&number, bytes, sizeof number);
            if (number >= work->pages)
                bench_fail("a page of the journal has the number %llu", (unsigned long long)number);
            BENCH_CALL(mmsb_page_read(pages[number], 0, expected, work->size));
            if (memcmp(bytes, expected, work->size) != 0 || mmsb_page_epoch(page[p]) != mmsb_page_epoch(pages[number]))
                bench_fail("page %llu came back from the journal as another", (unsigned long long)number);
        }
    } while (count > 0);
    if (found != work->pages)
        bench_fail("%llu of %llu pages came back", (unsigned long long)found, (unsigned long long)work->pages);
    bench_memory_free(expected, work->size);
    bench_memory_free(bytes, work->size);
}

static void recover(const work_t *work, const mmsb_page_t *pages, const char *snapshot, const char *folder, double *seconds) {
    mmsb_context_t context;
    mmsb_load_options_t options;
    double begin;
    mmsb_load_options_init(&options);
    options.journal = folder;
    BENCH_CALL(mmsb_context_create(NULL, &context));
    begin = bench_seconds();
    BENCH_CALL(mmsb_snapshot_load(context, snapshot, &options));
    *seconds = bench_seconds() - begin;
    compare(work, pages, context);
    BENCH_CALL(mmsb_context_destroy(context));
}

static void round_of(const work_t *work, figures_t *figures, int round) {
    const char *folder = bench_file("journal"), *snapshot = bench_file("begin"), *raw = bench_file("raw");
    mmsb_page_t *pages = bench_memory(work->pages * sizeof *pages);
    uint8_t *payload = bench_memory(work->length * work->batch);
    mmsb_context_t context;
    mmsb_journal_info_t info;
    uint64_t seed = 3;
    double begin;
    for (uint64_t at = 0; at < work->length * work->batch; at += 8) {
        uint64_t word = bench_random(&seed);
        memcpy(payload + at, &word, sizeof word);
    }
    remove_folder(folder);
    BENCH_CALL(mmsb_context_create(NULL, &context));
    BENCH_CALL(mmsb_journal_open(context, folder, NULL));
    BENCH_CALL(mmsb_page_create_many(context, work->size, work->pages, NULL, NULL, pages));
    for (uint64_t page = 0; page < work->pages; page++)
        BENCH_CALL(mmsb_page_write(pages[page], 0, &page, sizeof page));
    BENCH_CALL(mmsb_snapshot_save(context, snapshot, NULL));

    begin = bench_seconds();
    apply_all(work, pages, payload);
    BENCH_CALL(mmsb_journal_sync(context, NULL));
    figures->apply[round] = bench_seconds() - begin;
    mmsb_journal_info_init(&info);
    BENCH_CALL(mmsb_journal_info(context, &info));
    BENCH_CALL(mmsb_journal_close(context));
    figures->bytes[round] = (double)info.bytes;

    figures->write[round] = bench_write_best(raw, info.bytes);
    if (round % 2)
        recover(work, pages, snapshot, folder, &figures->recover[round]);
    figures->read[round] = bench_read_best(raw, info.bytes);
    if (round % 2 == 0)
        recover(work, pages, snapshot, folder, &figures->recover[round]);
    bench_remove(raw);
    bench_remove(snapshot);
    remove_folder(folder);
    BENCH_CALL(mmsb_context_destroy(context));
    bench_memory_free(pages, work->pages * sizeof *pages);
    bench_memory_free(payload, work->length * work->batch);
}

/* The rows of applying and of recovery. If the bound is a rate, applying is judged by deltas per second. */
static void run(const char *apply, const char *again, work_t work, double rate) {
    bench_row_t rows[2] = {
        {.what = apply,
         .unit = BENCH_MEGABYTES,
         .aim = BENCH_AT_LEAST,
         .bound = 0.5,
         .peer_name = "raw write of the journal's bytes",
         .limit_is_peer = true,
         .note = "group commit every 10 ms, one thread; until the last delta is on disk; megabytes of journal"},
        {.what = again,
         .unit = BENCH_MEGABYTES,
         .aim = BENCH_AT_LEAST,
         .bound = 0.5,
         .peer_name = "raw read of the journal's bytes",
         .limit_is_peer = true,
         .note = "a context from a snapshot before them and the journal; megabytes of journal"},
    };
    figures_t figures;
    double ours[2][ROUNDS], peer[2][ROUNDS];
    const char *lacking = bench_no_room(2 * work.deltas * (work.length + 128));
    if (!bench_wanted(apply) && !bench_wanted(again))
        return;
    if (rate > 0) {
        rows[0].unit = BENCH_MILLIONS;
        rows[0].absolute = true;
        rows[0].bound = rate;
        rows[0].limit_is_peer = false;
        rows[0].peer_name = "the original without syncing, as published";
    }
    if (lacking) {
        bench_not_run(&rows[0], lacking);
        bench_not_run(&rows[1], lacking);
        return;
    }
    for (int round = 0; round < rounds(); round++) {
        const double original = 0.29;
        round_of(&work, &figures, round);
        ours[0][round] = (rate > 0 ? (double)work.deltas : figures.bytes[round]) / figures.apply[round] / 1e6;
        peer[0][round] = rate > 0 ? original : figures.bytes[round] / figures.write[round] / 1e6;
        ours[1][round] = figures.bytes[round] / figures.recover[round] / 1e6;
        peer[1][round] = figures.bytes[round] / figures.read[round] / 1e6;
    }
    for (int row = 0; row < 2; row++) {
        if (bench_wanted(rows[row].what))
            bench_report(&rows[row], ours[row], peer[row], NULL, rounds());
    }
}

int main(void) {
    const uint64_t less = bench_quick() ? 64 : 1;
    run("journal: 64-byte deltas, one a call", "journal: recovery of 64-byte deltas",
        (work_t){.pages = 4096, .size = 4096, .deltas = (4u << 20) / less, .length = 64, .batch = 1}, 1);
    run("journal: 64-byte deltas, 1000 a call", "journal: recovery of 64-byte deltas, 1000 a call",
        (work_t){.pages = 4096, .size = 4096, .deltas = (4u << 20) / less, .length = 64, .batch = BATCH}, 1);
    run("journal: 512-KiB deltas", "journal: recovery of 512-KiB deltas",
        (work_t){.pages = 64, .size = 2 * MIB, .deltas = 2048 / less, .length = MIB / 2, .batch = 1}, 0);
    return 0;
}
