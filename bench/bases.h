/*
 * bases.h — the stores that the benchmarks of stores compare, behind one interface: values of one length under the numbers from 0
 * on. One of them is open at a time.
 */
#ifndef MMSB_BENCH_BASES_H
#define MMSB_BENCH_BASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value begins with its number and the number of the change that wrote it. */
typedef struct bench_value_head {
    uint64_t number, change;
} bench_value_head_t;

/* What all values have: their count, the sum of all their words, and the newest change. */
typedef struct bench_seen {
    uint64_t values, sum, newest;
} bench_seen_t;

void bench_see(bench_seen_t *seen, const void *bytes, size_t length);

typedef struct bench_base {
    const char *name;
    bool (*there)(void); /* false: the library is absent */
    void (*open)(const char *folder);
    /* Durable with the next commit, with all others since the last one or none. */
    void (*put)(uint64_t number, const void *bytes, size_t length);
    void (*commit)(void);
    void (*see)(bench_seen_t *seen); /* reads everything */
    void (*settle)(void);            /* brings the files into their best form for reading */
    void (*close)(void);
} bench_base_t;

enum { BENCH_BASES = 3 };
extern const bench_base_t bench_bases[BENCH_BASES]; /* the peers */

#endif
