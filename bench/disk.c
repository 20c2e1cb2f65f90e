/* disk.c — writes and reads plain files: unbuffered with a deep queue, and buffered. */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { MIB = 1 << 20, MOST_REQUESTS = 8, BUFFERS_BYTES = 16 * MIB };

double bench_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------------------------------------------- files ---- */

static const char *folder(void) {
    const char *path = getenv("BENCH_FILES");
    if (!path || !*path)
        bench_fail("BENCH_FILES names no folder");
    return path;
}

const char *bench_file(const char *name) {
    static char paths[8][4096];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder(), name);
    return path;
}

uint64_t bench_file_bytes(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        bench_fail("%s: %s", path, strerror(errno));
    return (uint64_t)info.st_size;
}

void bench_remove(const char *path) {
    int directory;
    if (unlink(path) != 0 && errno != ENOENT)
        bench_fail("%s: %s", path, strerror(errno));
    directory = open(folder(), O_RDONLY | O_DIRECTORY);
    if (directory < 0 || fsync(directory) != 0)
        bench_fail("%s: %s", folder(), strerror(errno));
    close(directory);
}

const char *bench_no_room(uint64_t bytes) {
    static char why[128];
    const double spare = 1.25, gib = 1 << 30;
    struct statvfs disk;
    double there;
    if (statvfs(folder(), &disk) != 0)
        bench_fail("%s: %s", folder(), strerror(errno));
    there = (double)disk.f_bavail * (double)disk.f_frsize;
    if (there >= (double)bytes * spare)
        return NULL;
    snprintf(why, sizeof why, "%.1f GiB of disk are needed, %.1f are free", (double)bytes * spare / gib, there / gib);
    return why;
}

/* -------------------------------------------------------------------------------------------- writing, reading ---- */

/* So many requests of so many bytes each at a time. */
typedef struct bench_queue {
    unsigned requests;
    uint64_t bytes;
} bench_queue_t;

typedef struct transfer {
    int file;
    bool reads;
    uint64_t length, at, block;
} transfer_t;

typedef struct requester {
    transfer_t *transfer;
    char *buffer;
} requester_t;

static void *request_all(void *argument) {
    requester_t *requester = argument;
    transfer_t *t = requester->transfer;
    uint64_t at;
    while ((at = __atomic_fetch_add(&t->at, t->block, __ATOMIC_RELAXED)) < t->length) {
        uint64_t length = t->length - at < t->block ? t->length - at : t->block;
        ssize_t done;
        length = (length + 4095) / 4096 * 4096; /* the last one may go past the end */
        done = t->reads ? pread(t->file, requester->buffer, length, (off_t)at)
                        : pwrite(t->file, requester->buffer, length, (off_t)at);
        if (done < 0 || (uint64_t)done < (t->length - at < length ? t->length - at : length))
            bench_fail("%s of %llu bytes at %llu: %s", t->reads ? "read" : "write", (unsigned long long)length,
                       (unsigned long long)at, done < 0 ? strerror(errno) : "too short");
    }
    return NULL;
}

static char *buffers(void) {
    static char *made;
    if (!made) {
        uint64_t seed = 7;
        made = bench_memory(BUFFERS_BYTES);
        for (uint64_t at = 0; at < BUFFERS_BYTES; at += 8) {
            uint64_t word = bench_random(&seed);
            memcpy(made + at, &word, sizeof word);
        }
    }
    return made;
}

static int open_direct(const char *path, int flags) {
    int file = open(path, flags | O_DIRECT, 0600);
    if (file < 0 && errno == EINVAL) /* the file system does not support it */
        file = open(path, flags, 0600);
    if (file < 0)
        bench_fail("%s: %s", path, strerror(errno));
    return file;
}

static double transfer(const char *path, uint64_t bytes, bool reads, bench_queue_t queue) {
    pthread_t threads[MOST_REQUESTS];
    requester_t requesters[MOST_REQUESTS];
    transfer_t t = {.reads = reads, .length = bytes, .block = queue.bytes};
    char *memory = buffers();
    double begin = bench_seconds(), taken;
    t.file = open_direct(path, reads ? O_RDONLY : O_RDWR | O_CREAT | O_TRUNC);
    if (!reads && fallocate(t.file, 0, 0, (off_t)bytes) != 0 && errno != EOPNOTSUPP)
        bench_fail("%s: %s", path, strerror(errno));
    for (unsigned i = 0; i < queue.requests; i++) {
        requesters[i] = (requester_t){&t, memory + i * queue.bytes};
        if (pthread_create(&threads[i], NULL, request_all, &requesters[i]) != 0)
            bench_fail("no thread");
    }
    for (unsigned i = 0; i < queue.requests; i++)
        pthread_join(threads[i], NULL);
    if (!reads && fsync(t.file) != 0)
        bench_fail("%s: %s", path, strerror(errno));
    taken = bench_seconds() - begin;
    close(t.file);
    return taken;
}

/* The speed of the disk varies: the fastest of three runs of each decides which is best. */
static bench_queue_t best_queue(bool reads) {
    static const bench_queue_t queues[] = {{1, MIB}, {2, 4 * MIB}, {4, 4 * MIB}, {8, MIB}};
    const uint64_t bytes = bench_quick() ? 16 * MIB : 1024 * (uint64_t)MIB;
    const char *path = bench_file("queue");
    bench_queue_t best = queues[0];
    double least = 1e9;
    char text[64];
    if (reads)
        transfer(path, bytes, false, queues[2]);
    for (int turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < sizeof queues / sizeof queues[0]; i++) {
            double taken = transfer(path, bytes, reads, queues[i]);
            if (!reads)
                bench_remove(path);
            if (taken < least) {
                least = taken;
                best = queues[i];
            }
        }
    }
    bench_remove(path);
    snprintf(text, sizeof text, "%u requests of %llu MiB", best.requests, (unsigned long long)best.bytes / MIB);
    bench_fact(reads ? "best raw read" : "best raw write", text);
    return best;
}

double bench_write_best(const char *path, uint64_t bytes) {
    static bench_queue_t best;
    if (best.requests == 0)
        best = best_queue(false);
    return transfer(path, bytes, false, best);
}

double bench_read_best(const char *path, uint64_t bytes) {
    static bench_queue_t best;
    if (best.requests == 0)
        best = best_queue(true);
    return transfer(path, bytes, true, best);
}

double bench_write_buffered(const char *path, uint64_t bytes) {
    const char *memory = buffers();
    double begin = bench_seconds(), taken;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        bench_fail("%s: %s", path, strerror(errno));
    for (uint64_t at = 0; at < bytes;) {
        uint64_t length = bytes - at < MIB ? bytes - at : MIB;
        ssize_t done = write(file, memory + at % BUFFERS_BYTES, length);
        if (done < 0)
            bench_fail("%s: %s", path, strerror(errno));
        at += (uint64_t)done;
    }
    if (fsync(file) != 0)
        bench_fail("%s: %s", path, strerror(errno));
    taken = bench_seconds() - begin;
    close(file);
    return taken;
}

/* ------------------------------------------------------------------------------------------------------ memory ---- */

static double status_mib(const char *name) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    double kib = -1;
    if (!status)
        bench_fail("no /proc/self/status");
    while (kib < 0 && fgets(line, sizeof line, status)) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtod(line + strlen(name), NULL);
    }
    fclose(status);
    return kib / 1024;
}

double bench_memory_now(void) {
    return status_mib("VmRSS:");
}

double bench_memory_most(void) {
    return status_mib("VmHWM:");
}

void bench_memory_mark(void) {
    FILE *marks = fopen("/proc/self/clear_refs", "w");
    if (!marks || fputs("5", marks) < 0 || fclose(marks) != 0)
        bench_fail("/proc/self/clear_refs: %s", strerror(errno));
}
