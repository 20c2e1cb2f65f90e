/*
 * work.h — a small program that uses everything once: the work that every strange system is given.
 */
#ifndef MMSB_TESTS_SYSTEMS_WORK_H
#define MMSB_TESTS_SYSTEMS_WORK_H

#include <stdint.h>

/* What a step says that found other bytes than it had written, or an error that names nothing. */
#define WRONG (-1000)

typedef struct step {
    const char *name;
    int (*run)(const char *folder); /* the status of the first call that failed */
} step_t;

/* Makes the store that a later step finds on media that are read-only by then. */
int make_store(const char *folder);

extern const step_t steps[];
extern const int step_count;

/* What mmsb_capabilities says: 1 or 0; -1 = it has no such name. */
int capability(const char *name);

#endif
