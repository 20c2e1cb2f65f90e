/*
 * store.c — stores against LMDB, RocksDB and SQLite with the same values, durable alike: changes with group commit, documents
 * that are synced one by one, opening a state, opening after a kill. And what an open costs against the machine, the keeper's
 * work a writer, and how far a replica in another process is behind.
 *
 * Whatever is opened is opened by a new process, this program again, so that its memory is new and nothing is cached in it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bases.h"
#include "bench.h"
#include "disk.h"
#include "mmsb.h"

enum { KIB = 1 << 10, MIB = 1 << 20, BATCH = 1000, CHANGE = 64, LONGEST = 64 * KIB, WALK = 1024 };
enum { ROUNDS = 5, QUICK_ROUNDS = 2, BASES = BENCH_BASES + 1 };
#define GIB ((uint64_t)1 << 30)
#define COMMIT_SECONDS 0.01

static int rounds_of(int rounds) {
    return bench_quick() ? QUICK_ROUNDS : rounds;
}

static uint64_t sized(uint64_t number) {
    return bench_quick() ? number / 64 : number;
}

static double slice_seconds(double seconds) {
    return bench_quick() ? 0.1 : seconds;
}

/* ----------------------------------------------------------------------------------------------------- our base ---- */

static struct {
    mmsb_store_options_t options;
    uint64_t page, length; /* bytes of a page and of a value */
    mmsb_context_t context;
    mmsb_page_t *pages;
    uint64_t count;
} ours;

static void ours_set(uint64_t page, uint64_t length) {
    mmsb_store_options_init(&ours.options);
    ours.page = page;
    ours.length = length;
}

static bool ours_there(void) {
    return true;
}

static void ours_open(const char *folder) {
    BENCH_CALL(mmsb_store_open(folder, NULL, &ours.options, &ours.context));
}

static void ours_close(void) {
    BENCH_CALL(mmsb_context_destroy(ours.context));
    if (ours.pages)
        bench_memory_free(ours.pages, ours.count * sizeof *ours.pages);
    ours.pages = NULL;
}

/* The pages of so many values. */
static void ours_create(uint64_t values) {
    ours.count = values * ours.length / ours.page;
    ours.pages = bench_memory(ours.count * sizeof *ours.pages);
    BENCH_CALL(mmsb_page_create_many(ours.context, ours.page, ours.count, NULL, NULL, ours.pages));
}

static void ours_put(uint64_t number, const void *bytes, size_t length) {
    BENCH_CALL(mmsb_page_write(ours.pages[number * ours.length / ours.page], number * ours.length % ours.page, bytes, length));
}

static void ours_delta(uint64_t number, const void *bytes, size_t length) {
    mmsb_run_t run = {number * ours.length % ours.page, length};
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.runs = &run;
    delta.count = 1;
    delta.payload = bytes;
    BENCH_CALL(mmsb_page_apply(ours.pages[number * ours.length / ours.page], &delta));
}

static void ours_commit(void) {
    BENCH_CALL(mmsb_journal_sync(ours.context, NULL));
}

/* A page and 64 bytes of metadata, in a group. */
static void ours_document(const void *bytes, size_t length, const void *about) {
    mmsb_page_t page;
    BENCH_CALL(mmsb_group_begin(ours.context));
    BENCH_CALL(mmsb_page_create(ours.context, length, NULL, &page));
    BENCH_CALL(mmsb_page_metadata_set(page, "about", 5, about, CHANGE));
    BENCH_CALL(mmsb_page_write(page, 0, bytes, length));
    BENCH_CALL(mmsb_group_commit(ours.context));
}

static void ours_see(bench_seen_t *seen) {
    mmsb_page_t pages[WALK];
    void *addresses[WALK];
    uint64_t cursor = 0;
    size_t count;
    do {
        BENCH_CALL(mmsb_context_pages(ours.context, &cursor, pages, WALK, &count));
        BENCH_CALL(mmsb_page_pin_many(pages, count, MMSB_PIN_READ, addresses, NULL));
        for (size_t p = 0; p < count; p++) {
            for (uint64_t at = 0; at < ours.page; at += ours.length)
                bench_see(seen, (const char *)addresses[p] + at, ours.length);
        }
        BENCH_CALL(mmsb_page_unpin_many(pages, count, MMSB_PIN_READ, NULL));
    } while (count > 0);
}

static void ours_settle(void) {
    BENCH_CALL(mmsb_store_save(ours.context, 1, NULL));
}

static const bench_base_t our_base = {"libmmsb", ours_there, ours_open, ours_put, ours_commit, ours_see, ours_settle, ours_close};

/* Number 0 is ours. */
static const bench_base_t *base_of(int number) {
    return number == 0 ? &our_base : &bench_bases[number - 1];
}

/* ------------------------------------------------------------------------------------------------------ values ---- */

static void make_value(uint64_t *words, uint64_t length, uint64_t number, uint64_t change) {
    bench_value_head_t head = {number, change};
    uint64_t seed = number ^ change << 32;
    memcpy(words, &head, sizeof head);
    for (uint64_t w = 2; w < length / 8; w++)
        words[w] = bench_random(&seed);
}

/* Begins a store with so many values, which are durable then. */
static void fill(const bench_base_t *base, const char *folder, uint64_t values, uint64_t length, bench_seen_t *seen) {
    const uint64_t transaction = 1 << 16;
    static uint64_t words[LONGEST / 8];
    base->open(folder);
    if (base == &our_base)
        ours_create(values);
    for (uint64_t number = 0; number < values; number++) {
        make_value(words, length, number, 0);
        bench_see(seen, words, length);
        base->put(number, words, length);
        if (number % transaction == transaction - 1)
            base->commit();
    }
    base->commit();
}

static void each_file(const char *folder, void (*call)(const char *path, void *user), void *user) {
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    char path[8192];
    if (!directory)
        return;
    while ((entry = readdir(directory))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2)
            call(path, user);
    }
    closedir(directory);
}

static void remove_file(const char *path, void *user) {
    (void)user;
    if (unlink(path) != 0)
        bench_fail("%s: %s", path, strerror(errno));
}

static void remove_folder(const char *folder) {
    each_file(folder, remove_file, NULL);
    rmdir(folder);
    bench_remove(bench_file("none"));
}

static void forget_file(const char *path, void *user) {
    int file = open(path, O_RDONLY);
    (void)user;
    if (file < 0 || fdatasync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        bench_fail("%s: %s", path, strerror(errno));
    close(file);
}

/* ------------------------------------------------------------------------------------------------ new processes ---- */

/* What a child says on its standard output. */
typedef struct said {
    double open, all; /* seconds until the call returned, and until everything was read */
    bench_seen_t seen;
    uint64_t committed; /* the newest change that was surely durable */
} said_t;

static void say(const said_t *said) {
    if (write(STDOUT_FILENO, said, sizeof *said) != sizeof *said)
        bench_fail("a child cannot answer");
}

/* A virtual machine's host may take memory back that is free, and the first touch of it costs 16 times as much then: whoever came
 * first would pay for all. */
static void touch_memory(uint64_t bytes) {
    void *memory = bench_memory(bytes);
    memset(memory, 1, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
    bench_memory_free(memory, bytes);
}

static said_t child(bool is_killed, const char *work, int base, const char *folder, uint64_t values, uint64_t length,
                    uint64_t page) {
    char numbers[4][32];
    int ends[2], state;
    said_t said;
    pid_t process;
    snprintf(numbers[0], sizeof numbers[0], "%d", base);
    snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, values);
    snprintf(numbers[2], sizeof numbers[2], "%" PRIu64, length);
    snprintf(numbers[3], sizeof numbers[3], "%" PRIu64, page);
    if (pipe(ends) != 0 || (process = fork()) < 0)
        bench_fail("no process: %s", strerror(errno));
    if (process == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "store", work, numbers[0], folder, numbers[1], numbers[2], numbers[3], (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (read(ends[0], &said, sizeof said) != sizeof said)
        bench_fail("%s: a child has not answered", work);
    close(ends[0]);
    waitpid(process, &state, 0);
    if (is_killed ? !WIFSIGNALED(state) : !WIFEXITED(state) || WEXITSTATUS(state) != 0)
        bench_fail("%s: a child has ended with %d", work, state);
    return said;
}

static void child_open(const bench_base_t *base, const char *folder) {
    said_t said = {0};
    double begin = bench_seconds();
    base->open(folder);
    said.open = bench_seconds() - begin;
    base->see(&said.seen);
    said.all = bench_seconds() - begin;
    say(&said);
    base->close();
}

/* The first page of a store that is opened lazily. */
static void child_first(const char *folder) {
    said_t said = {0};
    uint64_t cursor = 0, word;
    mmsb_page_t page;
    size_t count;
    double begin = bench_seconds();
    ours.options.load = MMSB_LOAD_LAZY;
    ours_open(folder);
    said.open = bench_seconds() - begin;
    BENCH_CALL(mmsb_context_pages(ours.context, &cursor, &page, 1, &count));
    BENCH_CALL(mmsb_page_read(page, 0, &word, sizeof word));
    said.all = bench_seconds() - begin;
    say(&said);
    ours_close();
}

/* First touch of so much memory. */
static void child_touch(uint64_t bytes) {
    said_t said = {0};
    void *memory = bench_memory(bytes);
    double begin = bench_seconds();
    memset(memory, 1, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
    said.all = bench_seconds() - begin;
    say(&said);
}

static void child_follow(const char *folder, uint64_t milliseconds, uint64_t clock);

/* As many changes of whole values as there are values, and half a commit's time; then the process kills itself. */
static void child_die(const bench_base_t *base, const char *folder, uint64_t values, uint64_t length) {
    uint64_t words[LONGEST / 8], seed = 5;
    said_t said = {0};
    double next;
    fill(base, folder, values, length, &said.seen);
    base->settle();
    next = bench_seconds() + COMMIT_SECONDS;
    for (uint64_t change = 1; change <= values; change++) {
        uint64_t number = bench_random(&seed) % values;
        make_value(words, length, number, change);
        base->put(number, words, length);
        if (change % 16 == 0 && bench_seconds() >= next) {
            base->commit();
            said.committed = change;
            next = bench_seconds() + COMMIT_SECONDS;
        }
    }
    say(&said);
    kill(getpid(), SIGKILL);
}

static int child_main(char **argv) {
    const char *work = argv[1], *folder = argv[3];
    const bench_base_t *base = base_of(atoi(argv[2]));
    uint64_t values = strtoull(argv[4], NULL, 10), length = strtoull(argv[5], NULL, 10);
    ours_set(strtoull(argv[6], NULL, 10), length);
    base->there();
    if (strcmp(work, "open") == 0)
        child_open(base, folder);
    else if (strcmp(work, "first") == 0)
        child_first(folder);
    else if (strcmp(work, "touch") == 0)
        child_touch(values * length);
    else if (strcmp(work, "follow") == 0)
        child_follow(folder, values, length);
    else
        child_die(base, folder, values, length);
    return 0;
}

/* ----------------------------------------------------------------------------------------- a row for each peer ---- */

typedef struct against {
    const char *what; /* the row's name before the peer's */
    bench_unit_t unit;
    bench_aim_t aim;
    double bound;
    const char *note;
    bool rocks_informs; /* the aim is not about RocksDB */
} against_t;

static const char *name_of(const against_t *row, int peer) {
    static char name[256];
    snprintf(name, sizeof name, "%s, against %s", row->what, base_of(peer)->name);
    return name;
}

static bool wanted(const against_t *row) {
    for (int peer = 1; peer < BASES; peer++) {
        if (bench_wanted(name_of(row, peer)))
            return true;
    }
    return false;
}

static void report(const against_t *row, double values[BASES][ROUNDS], int rounds) {
    for (int peer = 1; peer < BASES; peer++) {
        bench_row_t each = {.what = name_of(row, peer),
                            .unit = row->unit,
                            .aim = row->rocks_informs && peer == 2 ? BENCH_INFORMATION : row->aim,
                            .bound = row->bound,
                            .peer_name = base_of(peer)->name,
                            .note = row->note};
        if (bench_wanted(each.what))
            bench_report(&each, values[0], base_of(peer)->there() ? values[peer] : NULL, NULL, rounds);
    }
}

/* ----------------------------------------------------------------------------------------------------- changes ---- */

/* Changes a second of 64 bytes at random places until the last one is durable; ours commits by itself, or gets many at a time. */
static double changes(const bench_base_t *base, uint64_t values, bool batches) {
    static uint64_t numbers[BATCH], offsets[BATCH], payload[BATCH * CHANGE / 8];
    static mmsb_page_t targets[BATCH];
    mmsb_page_runs_t runs;
    uint64_t seed = 9, change = 0;
    double begin, now, next;
    mmsb_page_runs_init(&runs);
    runs.pages = targets;
    runs.offsets = offsets;
    runs.uniform_length = CHANGE;
    runs.payload = payload;
    begin = now = bench_seconds();
    next = begin + COMMIT_SECONDS;
    while (now < begin + slice_seconds(1)) {
        uint64_t count = batches ? BATCH : 16;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t *words = payload + i * CHANGE / 8;
            numbers[i] = bench_random(&seed) % values;
            words[0] = numbers[i];
            words[1] = ++change;
            if (!batches && base == &our_base)
                ours_delta(numbers[i], words, CHANGE);
            else if (!batches)
                base->put(numbers[i], words, CHANGE);
        }
        if (batches) {
            runs.count = BATCH;
            for (int i = 0; i < BATCH; i++) {
                targets[i] = ours.pages[numbers[i] * CHANGE / ours.page];
                offsets[i] = numbers[i] * CHANGE % ours.page;
            }
            BENCH_CALL(mmsb_page_apply_runs(&runs, NULL));
        }
        now = bench_seconds();
        if (now >= next && base != &our_base) {
            base->commit();
            next = bench_seconds() + COMMIT_SECONDS;
        }
    }
    base->commit();
    return (double)change / (bench_seconds() - begin) / 1e6;
}

static void change_rows(void) {
    const char *note = "16 MiB of values of 64 bytes, for ours in pages of 4 KiB; each change is durable within 10 ms, and the "
                       "last one before the clock stops; RocksDB collects a commit in one batch";
    const against_t single = {"store: 64-byte changes, one a call", BENCH_MILLIONS, BENCH_AT_LEAST, 3, note, false};
    const against_t many = {"store: 64-byte changes, ours 1000 a call", BENCH_MILLIONS, BENCH_AT_LEAST, 3, note, false};
    const uint64_t values = sized(16 * MIB / CHANGE);
    double rates[BASES][ROUNDS], batched[BASES][ROUNDS];
    int rounds = rounds_of(ROUNDS);
    if (!wanted(&single) && !wanted(&many))
        return;
    for (int round = 0; round < rounds; round++) {
        for (int turn = 0; turn < BASES; turn++) {
            int number = (turn + round) % BASES;
            const bench_base_t *base = base_of(number);
            const char *folder = bench_file("changes");
            bench_seen_t seen = {0};
            if (!base->there())
                continue;
            ours_set(4 * KIB, CHANGE);
            fill(base, folder, values, CHANGE, &seen);
            rates[number][round] = batched[number][round] = changes(base, values, false);
            if (number == 0)
                batched[0][round] = changes(base, values, true);
            base->close();
            remove_folder(folder);
        }
    }
    report(&single, rates, rounds);
    report(&many, batched, rounds);
}

/* --------------------------------------------------------------------------------------------------- documents ---- */

static void document_rows(void) {
    const against_t row = {
        "store: documents, synced one by one",
        BENCH_MICROSECONDS,
        BENCH_AT_MOST,
        1 / 1.2,
        "a value of 1 KiB and 64 bytes about it, both or none, durable when the call returns; ours: a group that "
        "creates a page, sets metadata and writes; the peers: two values in a transaction",
        true};
    const uint64_t about = (uint64_t)1 << 62;
    double times[BASES][ROUNDS];
    int rounds = rounds_of(ROUNDS);
    if (!wanted(&row))
        return;
    for (int round = 0; round < rounds; round++) {
        for (int turn = 0; turn < BASES; turn++) {
            int number = (turn + round) % BASES;
            const bench_base_t *base = base_of(number);
            const char *folder = bench_file("documents");
            uint64_t words[KIB / 8], count = 0;
            double begin, now;
            if (!base->there())
                continue;
            ours_set(KIB, KIB);
            ours.options.durability = MMSB_DURABILITY_CALL;
            base->open(folder);
            base->commit();
            begin = now = bench_seconds();
            for (; now < begin + slice_seconds(1); count++, now = bench_seconds()) {
                make_value(words, KIB, count, count);
                if (number == 0) {
                    ours_document(words, KIB, words);
                    continue;
                }
                base->put(count, words, KIB);
                base->put(count | about, words, CHANGE);
                base->commit();
            }
            times[number][round] = (now - begin) / (double)count * 1e6;
            base->close();
            remove_folder(folder);
        }
    }
    report(&row, times, rounds);
}

/* ----------------------------------------------------------------------------------------------------- opening ---- */

static void check_seen(const bench_base_t *base, const bench_seen_t *seen, const bench_seen_t *expected) {
    if (memcmp(seen, expected, sizeof *seen) != 0)
        bench_fail("%s: %" PRIu64 " values came back with another sum, %" PRIu64 " were written", base->name, seen->values,
                   expected->values);
}

static void open_rows(void) {
    const against_t row = {"store: 1 M values of 1 KiB opened and read",
                           BENCH_MEGABYTES,
                           BENCH_AT_LEAST,
                           1,
                           "by a new process, the files not in the page cache; every value is read, ours and RocksDB's compare "
                           "checksums; megabytes of values",
                           false};
    const uint64_t values = sized(1 << 20), length = KIB;
    const char *folders[BASES];
    double speeds[BASES][ROUNDS];
    bench_seen_t expected[BASES] = {{0}};
    int rounds = rounds_of(ROUNDS);
    if (!wanted(&row))
        return;
    ours_set(length, length);
    for (int number = 0; number < BASES; number++) {
        const bench_base_t *base = base_of(number);
        if (!base->there())
            continue;
        folders[number] = bench_file(base->name);
        fill(base, folders[number], values, length, &expected[number]);
        base->settle();
        base->close();
    }
    for (int round = 0; round < rounds; round++) {
        for (int turn = 0; turn < BASES; turn++) {
            int number = (turn + round) % BASES;
            said_t said;
            if (!base_of(number)->there())
                continue;
            each_file(folders[number], forget_file, NULL);
            touch_memory(2 * values * length);
            said = child(false, "open", number, folders[number], values, length, length);
            check_seen(base_of(number), &said.seen, &expected[number]);
            speeds[number][round] = (double)(values * length) / said.all / 1e6;
        }
    }
    for (int number = 0; number < BASES; number++) {
        if (base_of(number)->there())
            remove_folder(folders[number]);
    }
    report(&row, speeds, rounds);
}

static void kill_rows(void) {
    const against_t row = {
        "store: opened and read after a kill",
        BENCH_MILLISECONDS,
        BENCH_AT_MOST,
        1,
        "256 MiB of values of 1 KiB, as many changes of whole values, durable within 10 ms; then SIGKILL; a new "
        "process opens and reads all",
        false};
    const uint64_t values = sized(256 * KIB), length = KIB;
    double times[BASES][ROUNDS];
    int rounds = rounds_of(3);
    if (!wanted(&row))
        return;
    for (int round = 0; round < rounds; round++) {
        for (int turn = 0; turn < BASES; turn++) {
            int number = (turn + round) % BASES;
            const char *folder = bench_file("killed");
            said_t died, said;
            if (!base_of(number)->there())
                continue;
            died = child(true, "die", number, folder, values, length, length);
            touch_memory(2 * values * length);
            said = child(false, "open", number, folder, values, length, length);
            if (said.seen.values != values || said.seen.newest < died.committed)
                bench_fail("%s: %" PRIu64 " values and change %" PRIu64 " survived a kill behind commit %" PRIu64,
                           base_of(number)->name, said.seen.values, said.seen.newest, died.committed);
            times[number][round] = said.all * 1e3;
            remove_folder(folder);
        }
    }
    report(&row, times, rounds);
}

/* ----------------------------------------------------------------------------------------- against the machine ---- */

static void machine_rows(const char *first, const char *whole, uint64_t page) {
    bench_row_t rows[2] = {{.what = first,
                            .unit = BENCH_MILLISECONDS,
                            .aim = BENCH_AT_MOST,
                            .absolute = true,
                            .bound = 50,
                            .peer_name = "until the call returns",
                            .note = "by a new process, the files not in the page cache"},
                           {.what = whole,
                            .unit = BENCH_MEGABYTES,
                            .aim = BENCH_AT_LEAST,
                            .bound = 0.8,
                            .peer_name = "the slower of raw read and first touch",
                            .limit_name = "raw read",
                            .note = "by a new process, the files not in the page cache"}};
    const uint64_t bytes = sized(2 * GIB);
    const char *folder = bench_file("machine"), *raw = bench_file("raw");
    double call[ROUNDS], lazy[ROUNDS], eager[ROUNDS], peer[ROUNDS], limit[ROUNDS];
    bench_seen_t expected = {0};
    int rounds = rounds_of(ROUNDS);
    if ((!first || !bench_wanted(first)) && !bench_wanted(whole))
        return;
    ours_set(page, page < 4 * KIB ? page : 4 * KIB);
    fill(&our_base, folder, bytes / ours.length, ours.length, &expected);
    ours_settle();
    ours_close();
    bench_write_best(raw, bytes);
    for (int round = 0; round < rounds; round++) {
        said_t said;
        double read, touched;
        each_file(folder, forget_file, NULL);
        touch_memory(2 * bytes);
        said = child(false, "first", 0, folder, 0, ours.length, page);
        call[round] = said.open * 1e3;
        lazy[round] = said.all * 1e3;
        read = (double)bytes / bench_read_best(raw, bytes) / 1e6;
        each_file(folder, forget_file, NULL);
        touch_memory(2 * bytes);
        said = child(false, "open", 0, folder, 0, ours.length, page);
        check_seen(&our_base, &said.seen, &expected);
        eager[round] = (double)bytes / said.open / 1e6;
        touch_memory(2 * bytes);
        touched = (double)bytes / child(false, "touch", 0, folder, bytes / ours.length, ours.length, page).all / 1e6;
        peer[round] = read < touched ? read : touched;
        limit[round] = read;
    }
    bench_remove(raw);
    remove_folder(folder);
    if (first && bench_wanted(first))
        bench_report(&rows[0], lazy, call, NULL, rounds);
    if (bench_wanted(whole))
        bench_report(&rows[1], eager, peer, limit, rounds);
}

/* --------------------------------------------------------------------------------------------- beside the keeper ---- */

enum { SLOTS = 64 * 16 };

/* Times of calls: 16 slots for each power of two of nanoseconds. */
typedef struct times {
    uint64_t slots[SLOTS], count;
    double sum, most;
} times_t;

static void count_time(times_t *times, double nanoseconds) {
    uint64_t whole = (uint64_t)nanoseconds | 16;
    int power = 63 - __builtin_clzll(whole);
    times->slots[power * 16 + (int)(whole >> (power - 4) & 15)]++;
    times->count++;
    times->sum += nanoseconds;
    if (nanoseconds > times->most)
        times->most = nanoseconds;
}

/* What this share of the times exceeds: the upper end of a slot. */
static double exceeded(const times_t *times, double share) {
    uint64_t behind = (uint64_t)((double)times->count * share), seen = 0;
    int slot = SLOTS;
    while (slot > 0 && seen <= behind)
        seen += times->slots[--slot];
    return (double)((16 + (uint64_t)slot % 16 + 1) << (slot / 16 - 4));
}

typedef struct sampler {
    const char *folder;
    bool stop;
    uint64_t most, bytes;
} sampler_t;

static void add_file(const char *path, void *user) {
    struct stat info;
    if (stat(path, &info) == 0) /* another one may have been removed */
        *(uint64_t *)user += (uint64_t)info.st_blocks * 512;
}

static uint64_t folder_bytes(const char *folder) {
    uint64_t bytes = 0;
    each_file(folder, add_file, &bytes);
    return bytes;
}

static void *sample(void *argument) {
    sampler_t *sampler = argument;
    while (!__atomic_load_n(&sampler->stop, __ATOMIC_RELAXED)) {
        uint64_t bytes = folder_bytes(sampler->folder);
        if (bytes > sampler->most)
            sampler->most = bytes;
        usleep(5000);
    }
    return NULL;
}

typedef struct keeping {
    const char *name;
    uint64_t places; /* so many pages at the beginning are changed */
    double pace;     /* changes a second; 0: as many as possible */
} keeping_t;

/* Single deltas until the time is over. */
static void write_steadily(const keeping_t *keeping, double seconds, times_t *times) {
    uint64_t words[CHANGE / 8] = {0}, seed = 11, per = ours.page / CHANGE;
    double begin = bench_seconds(), now = begin;
    memset(times, 0, sizeof *times);
    for (uint64_t change = 1; now < begin + seconds; change++) {
        uint64_t place = bench_random(&seed) % (keeping->places * per);
        double from = now;
        words[0] = change;
        while (keeping->pace > 0 && from < begin + (double)change / keeping->pace)
            from = bench_seconds();
        ours_delta(place, words, CHANGE);
        now = bench_seconds();
        count_time(times, (now - from) * 1e9);
    }
}

/* The pages of a store that was opened. */
static void ours_list(void) {
    uint64_t cursor = 0;
    size_t count = 1;
    BENCH_CALL(mmsb_context_page_count(ours.context, &ours.count));
    ours.pages = bench_memory(ours.count * sizeof *ours.pages);
    for (uint64_t at = 0; count > 0; at += count)
        BENCH_CALL(mmsb_context_pages(ours.context, &cursor, ours.pages + at, count = ours.count - at + 1, &count));
}

/* Opens the store and lets the writer write. */
static void keep_for(const char *folder, const keeping_t *keeping, uint64_t save_bytes, double seconds, times_t *times,
                     mmsb_store_info_t *info) {
    ours_set(4 * KIB, CHANGE);
    ours.options.save_bytes = save_bytes;
    ours_open(folder);
    ours_list();
    write_steadily(keeping, seconds, times);
    mmsb_store_info_init(info);
    BENCH_CALL(mmsb_store_info(ours.context, info));
}

static void keeping_rows(keeping_t keeping) {
    char names[4][128];
    const uint64_t bytes = sized(GIB);
    const char *folder = bench_file("kept");
    const char *note =
        "1 GiB in pages of 4 KiB, deltas of 64 bytes one a call, the keeper with its defaults; a rate is one through the "
        "mean time of a call";
    const char *state = "the pages, and the masks of those that deltas change";
    bench_row_t rate = {.what = names[0],
                        .unit = BENCH_MILLIONS,
                        .aim = BENCH_AT_LEAST,
                        .bound = 0.9,
                        .note = note,
                        .peer_name = "the same without saves"};
    bench_row_t late = {.what = names[1],
                        .unit = BENCH_MICROSECONDS,
                        .aim = BENCH_AT_MOST,
                        .bound = 100,
                        .absolute = true,
                        .note = note,
                        .peer_name = "the same without saves"};
    bench_row_t space = {
        .what = names[2], .unit = BENCH_GIBIBYTES, .aim = BENCH_AT_MOST, .bound = 2.2, .note = note, .peer_name = state};
    bench_row_t after = {
        .what = names[3], .unit = BENCH_GIBIBYTES, .aim = BENCH_AT_MOST, .bound = 1.3, .note = note, .peer_name = state};
    double values[4][ROUNDS], without[4][ROUNDS];
    int rounds = rounds_of(3);
    bench_seen_t seen = {0};
    bool any = false;
    snprintf(names[0], sizeof names[0], "store: beside the keeper, %s, rate", keeping.name);
    snprintf(names[1], sizeof names[1], "store: beside the keeper, %s, p99.9", keeping.name);
    snprintf(names[2], sizeof names[2], "store: space beside the keeper, %s, most", keeping.name);
    snprintf(names[3], sizeof names[3], "store: space beside the keeper, %s, after a whole save", keeping.name);
    for (int name = 0; name < 4; name++)
        any |= bench_wanted(names[name]);
    if (!any)
        return;
    keeping.places = sized(keeping.places);
    ours_set(4 * KIB, CHANGE);
    fill(&our_base, folder, bytes / CHANGE, CHANGE, &seen);
    ours_settle();
    ours_close();
    for (int round = 0; round < rounds; round++) {
        sampler_t sampler = {.folder = folder};
        mmsb_store_info_t info;
        times_t alone, beside;
        pthread_t thread;
        keep_for(folder, &keeping, MMSB_NEVER, slice_seconds(4), &alone, &info);
        ours_settle();
        ours_close();
        if (pthread_create(&thread, NULL, sample, &sampler) != 0)
            bench_fail("no thread");
        keep_for(folder, &keeping, 0, slice_seconds(12), &beside, &info);
        __atomic_store_n(&sampler.stop, true, __ATOMIC_RELAXED);
        pthread_join(thread, NULL);
        ours_settle();
        values[3][round] = (double)folder_bytes(folder) / GIB;
        ours_close();
        values[0][round] = (double)beside.count / beside.sum * 1e3;
        without[0][round] = (double)alone.count / alone.sum * 1e3;
        values[1][round] = exceeded(&beside, 0.001) / 1e3;
        without[1][round] = exceeded(&alone, 0.001) / 1e3;
        values[2][round] = (double)sampler.most / GIB;
        without[2][round] = without[3][round] = (double)(bytes + keeping.places * ours.page / 8) / GIB; /* a bit a byte */
        fprintf(stderr,
                "bench: %s: %.2f and %.2f M/s, longest %.2f and %.2f ms, %" PRIu64 " saves, %" PRIu64 " whole, %.2f GiB saved\n",
                keeping.name, without[0][round], values[0][round], alone.most / 1e6, beside.most / 1e6, info.saves,
                info.whole_saves, (double)info.saved_bytes / GIB);
    }
    remove_folder(folder);
    for (int row = 0; row < 4; row++) {
        const bench_row_t *rows[] = {&rate, &late, &space, &after};
        if (bench_wanted(rows[row]->what))
            bench_report(rows[row], values[row], without[row], NULL, rounds);
    }
}

/* ----------------------------------------------------------------------------------------------------- replicas ---- */

/* A page has the time at which the writer changed it last: its age in the replica is how far that is behind. */
static void child_follow(const char *folder, uint64_t milliseconds, uint64_t clock) {
    said_t said = {0};
    times_t ages = {0};
    mmsb_page_t page;
    mmsb_store_info_t info;
    double begin, now;
    ours.options.mode = MMSB_STORE_FOLLOW;
    ours_open(folder);
    begin = bench_seconds() + 10;
    while ((now = bench_seconds()) < begin + (double)milliseconds / 1e3) {
        double written = 0;
        usleep(100);
        if (mmsb_page_lookup(ours.context, clock, &page) != MMSB_OK ||
            mmsb_page_read(page, 0, &written, sizeof written) != MMSB_OK)
            continue;
        if (now > begin)
            count_time(&ages, (bench_seconds() - written) * 1e9);
        else if (bench_seconds() - written < 0.05 && now + 0.5 < begin) /* it has caught up with what came while it was opened */
            begin = now + 0.5;
    }
    mmsb_store_info_init(&info);
    BENCH_CALL(mmsb_store_info(ours.context, &info));
    fprintf(stderr, "bench: replica: %.2f ms at most, %" PRIu64 " loads anew, %" PRIu64 " failures\n", ages.most / 1e6,
            info.reloads, info.follow_failures);
    said.open = exceeded(&ages, 0.5);
    said.all = exceeded(&ages, 0.01);
    say(&said);
    ours_close();
}

typedef struct written {
    bool stop;
    double pace, seconds;
    uint64_t changes;
} written_t;

/* Deltas of 64 bytes at a pace, and one time of ten thousand a second in the first page. */
static void *write_clocked(void *argument) {
    written_t *written = argument;
    uint64_t words[CHANGE / 8] = {0}, seed = 13, per = ours.page / CHANGE, change = 0;
    double begin = bench_seconds(), now = begin;
    for (; !__atomic_load_n(&written->stop, __ATOMIC_RELAXED); change++) {
        while (now < begin + (double)change / written->pace)
            now = bench_seconds();
        if (change % (uint64_t)(written->pace / 1e4) == 0) {
            now = bench_seconds();
            BENCH_CALL(mmsb_page_write(ours.pages[0], 0, &now, sizeof now));
        } else {
            words[0] = change;
            ours_delta(per + bench_random(&seed) % ((ours.count - 1) * per), words, CHANGE);
        }
    }
    written->changes = change;
    written->seconds = bench_seconds() - begin;
    return NULL;
}

/* A store with a writer, and how far a replica of it is behind: the median and the p99, in ms. */
static void replicate(const char *folder, double *median, double *p99) {
    mmsb_page_info_t clock;
    bench_seen_t seen = {0};
    written_t written = {.pace = 1e6};
    mmsb_store_info_t info;
    pthread_t thread;
    said_t said;
    ours_set(4 * KIB, CHANGE);
    ours.options.keep_last = 2;
    fill(&our_base, folder, sized(GIB / 4) / CHANGE, CHANGE, &seen);
    mmsb_page_info_init(&clock);
    BENCH_CALL(mmsb_page_info(ours.pages[0], &clock));
    if (pthread_create(&thread, NULL, write_clocked, &written) != 0)
        bench_fail("no thread");
    said = child(false, "follow", 0, folder, (uint64_t)(slice_seconds(5) * 1e3), clock.id, 4 * KIB);
    __atomic_store_n(&written.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    mmsb_store_info_init(&info);
    BENCH_CALL(mmsb_store_info(ours.context, &info));
    ours_close();
    remove_folder(folder);
    *median = said.open / 1e6;
    *p99 = said.all / 1e6;
    fprintf(stderr, "bench: replica in %s: %.2f M/s, %.2f and %.2f ms; calls waited for the disk %" PRIu64 " times, %.0f ms\n",
            folder, (double)written.changes / written.seconds / 1e6, *median, *p99, info.waits, (double)info.waited_ns / 1e6);
}

static void replica_rows(void) {
    const char *note = "256 MiB in pages of 4 KiB, uniform deltas of 64 bytes one a call, the keeper with its defaults but "
                       "keep_last 2; the age of what the replica has, looked at every 0.1 ms, once it has caught up";
    const char *peer = "the same in /dev/shm";
    const bench_row_t rows[] = {{.what = "store: a replica in another process, 1 M deltas a second, median",
                                 .unit = BENCH_MILLISECONDS,
                                 .note = note,
                                 .peer_name = peer},
                                {.what = "store: a replica in another process, 1 M deltas a second, p99",
                                 .unit = BENCH_MILLISECONDS,
                                 .aim = BENCH_AT_MOST,
                                 .bound = 20,
                                 .absolute = true,
                                 .note = note,
                                 .peer_name = peer}};
    double ages[2][ROUNDS], without[2][ROUNDS];
    char in_memory[64];
    int rounds = rounds_of(3);
    if (!bench_wanted(rows[0].what) && !bench_wanted(rows[1].what))
        return;
    snprintf(in_memory, sizeof in_memory, "/dev/shm/mmsb-bench-%d", (int)getpid());
    for (int round = 0; round < rounds; round++) {
        replicate(bench_file("followed"), &ages[0][round], &ages[1][round]);
        replicate(in_memory, &without[0][round], &without[1][round]);
    }
    for (int row = 0; row < 2; row++) {
        if (bench_wanted(rows[row].what))
            bench_report(&rows[row], ages[row], without[row], NULL, rounds);
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        return argc == 7 ? child_main(argv) : 2;
    change_rows();
    document_rows();
    open_rows();
    kill_rows();
    machine_rows("store: 2 GiB in pages of 64 KiB, lazily, the first page", "store: 2 GiB in pages of 64 KiB, all verified",
                 64 * KIB);
    machine_rows(NULL, "store: 2 GiB in pages of 4 KiB, all verified", 4 * KIB); /* which are never read lazily */
    keeping_rows((keeping_t){"250 000 deltas a second, uniform", 256 * KIB, 250e3});
    keeping_rows((keeping_t){"250 000 deltas a second, 4096 hot pages", 4096, 250e3});
    keeping_rows((keeping_t){"as many deltas as possible, 4096 hot pages", 4096, 0});
    keeping_rows((keeping_t){"as many deltas as possible, uniform", 256 * KIB, 0});
    replica_rows();
    return 0;
}
