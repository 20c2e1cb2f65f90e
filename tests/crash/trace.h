/*
 * trace.h — workers under ptrace: each system call that changes files is seen when it begins and when it ends. So a worker can be
 * killed before, in or after the n-th call of a kind, and it is known where the kill fell.
 */
#ifndef MMSB_TESTS_CRASH_TRACE_H
#define MMSB_TESTS_CRASH_TRACE_H

#include "shared.h"

#include <sys/types.h>

/* Where a kill can fall: in a system call that is a step of something, ... */
typedef enum stage {
    STEP_NONE,
    STEP_CREATE, /* of a save: its temporary file */
    STEP_WRITE,
    STEP_SYNC,
    STEP_RENAME,
    STEP_SYNC_FOLDER,
    STEP_SWEEP, /* rubbish is removed */
    STEP_FRAME, /* of a journal: records are written */
    STEP_COMMIT,
    STEP_CUT,     /* its torn end is removed */
    STEP_SEGMENT, /* a new segment is made */
    STEP_NAME,
    STEP_SYNC_JOURNAL,
    STEP_DROP, /* a segment that a snapshot made unnecessary is removed */
    STEPS,
    /* ... or between these. */
    STAGE_RESTORING = STEPS, /* the worker had not said yet that it found what it should */
    STAGE_OUTSIDE,
    STAGE_BEGINNING, /* in a save, before there is a temporary file */
    STAGE_FILLING,
    STAGE_FINISHING, /* synced, not renamed */
    STAGE_RENAMED,
    STAGE_RETURNING,
    STAGE_APPENDING, /* a call that is being journalled */
    STAGES
} stage_t;

static const char *const stage_names[STAGES] = {
    "",
    "save: creating the file",
    "save: writing",
    "save: fsync",
    "save: rename",
    "save: fsync of the folder",
    "save: removing rubbish",
    "journal: writing records",
    "journal: fdatasync",
    "journal: cutting a torn end",
    "journal: making a segment",
    "journal: naming a segment",
    "journal: fsync of the folder",
    "journal: dropping a segment",
    "restoring",
    "outside",
    "save: before its file is there",
    "save: filling",
    "save: after fsync",
    "save: after rename",
    "save: after the fsync of the folder",
    "journal: a call in memory, or waiting",
};

typedef enum moment { BEFORE, DURING, AFTER } moment_t;

/* When workers are killed. */
typedef struct plan {
    stage_t step; /* STEP_NONE: at a time */
    uint32_t occurrence;
    moment_t moment;
    uint64_t microseconds; /* after the start, or after the step began */
    int restoring;         /* the time begins with the process, not when it has restored */
    int power_cut;
} plan_t;

typedef struct outcome {
    stage_t stage;
    int reached; /* the planned step came */
    int died;    /* a worker ended by itself: its exit status, or 128 + signal */
} outcome_t;

/* Runs workers until they are killed or have ended by themselves, count of them on the shared memory behind a descriptor. */
outcome_t run_workers(const char *program, shared_t *shared, int descriptor, uint32_t count, const plan_t *plan);

#endif /* MMSB_TESTS_CRASH_TRACE_H */
