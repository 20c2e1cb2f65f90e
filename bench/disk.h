/*
 * disk.h — what the disk can do, for the benchmarks of snapshots and of the journal: plain writing and reading of as many bytes,
 * in a folder of their own, BENCH_FILES.
 */
#ifndef MMSB_BENCH_DISK_H
#define MMSB_BENCH_DISK_H

#include <stdint.h>

/* The path of a file in the folder; valid until the eighth call from now. */
const char *bench_file(const char *name);
/* Removes a file and waits until its space is free again, so that nothing of it is left to be done in the next slice. */
void bench_remove(const char *path);
uint64_t bench_file_bytes(const char *path);
/* NULL, or why so many bytes cannot be written there. */
const char *bench_no_room(uint64_t bytes);

/* Seconds that each of these takes. The best way that was found to write: past the page cache, from memory with huge pages, space
 * allocated at once, several requests at a time, fsync. */
double bench_write_best(const char *path, uint64_t bytes);
/* The usual way: write in pieces of 1 MiB, fsync. */
double bench_write_buffered(const char *path, uint64_t bytes);
/* The best way to read that was found: past the page cache, into the same memory again and again, several requests at a time. */
double bench_read_best(const char *path, uint64_t bytes);

/* Monotonic, in seconds. */
double bench_seconds(void);

/* The process's memory in MiB: now, and the most since bench_memory_mark. */
double bench_memory_now(void);
void bench_memory_mark(void);
double bench_memory_most(void);

#endif
