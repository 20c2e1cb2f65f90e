/*
 * shared.h — the memory that the campaign shares with its workers. It outlives a killed worker: what the worker had said in it up
 * to then is what the next one holds the files against.
 */
#ifndef MMSB_TESTS_CRASH_SHARED_H
#define MMSB_TESTS_CRASH_SHARED_H

#include "threads.h"
#include "workload.h"

/* What a worker does between its changes. */
typedef enum mode {
    MODE_WHOLE,    /* whole snapshots over one path */
    MODE_TIP,      /* incremental ones over one path, all of one base */
    MODE_CHAIN,    /* a whole one, then five that have the one before as base */
    MODE_LIVE,     /* the same, and the changes go on meanwhile */
    MODE_CALL,     /* a journal: each call is durable when it returns; at times a snapshot */
    MODE_INTERVAL, /* a journal: durable after a sync; at times a snapshot */
    MODE_NONE,     /* a journal: durable with the snapshot; at times a snapshot */
    MODE_THREADS,  /* a journal of four threads that write at the same time; at times a snapshot */
    MODE_GROUPS,   /* the same in atomic groups, some of which are rolled back */
    MODE_PAIR,     /* two workers save to one path */
    MODES
} work_mode_t;

static const char *const mode_names[MODES] = {"whole",    "tip",  "chain",   "live",   "call",
                                              "interval", "none", "threads", "groups", "pair"};

static inline int has_journal(int mode) {
    return mode == MODE_CALL || mode == MODE_INTERVAL || mode == MODE_NONE || mode == MODE_THREADS || mode == MODE_GROUPS;
}

static inline int has_threads(int mode) {
    return mode == MODE_THREADS || mode == MODE_GROUPS;
}

typedef enum goal {
    GOAL_RUN,    /* restore, compare, work until killed */
    GOAL_FOUND,  /* make the first state and save it */
    GOAL_FINISH, /* restore, compare, save once more and end */
} goal_t;

/* Bugs that the campaign plants, to see that it finds them. */
typedef enum twin {
    TWIN_NONE,
    TWIN_LOOSE_JOURNAL, /* what waits to be written dies with the process */
    TWIN_LATE_SYNC,     /* calls are taken for durable that are written but not synced; the power is cut */
    TWIN_NOT_DURABLE,   /* saves do not wait for the disk; the power is cut */
    TWIN_NO_SYNC,       /* fsync and fdatasync do nothing; the power is cut */
    TWIN_IN_PLACE,      /* a save writes over the old file */
    TWIN_NO_REPLAY,     /* the journal is not replayed */
    TWIN_WRONG_BASE,    /* the restored snapshot is the one before the last */
    TWIN_NO_REMOVE,     /* nothing removes rubbish */
    TWIN_HALF_GROUP,    /* a group is committed in two halves */
    TWIN_EARLY_COMMIT,  /* a group is taken for committed before it is */
    TWINS
} twin_t;

static const char *const twin_names[TWINS] = {
    "none",
    "records that die with the process",
    "calls acknowledged before their record is synced",
    "saves that do not wait for the disk",
    "fsync that does nothing",
    "a save over the old file",
    "a journal that is not replayed",
    "a restore from the snapshot before the last",
    "rubbish that stays",
    "groups committed in two halves",
    "groups acknowledged before they are committed",
};

typedef enum inside {
    OUTSIDE,
    IN_SAVE,
    IN_COMMIT /* a call that is durable when it returns, or a sync */
} inside_t;

/* A snapshot that was being saved: it holds the state after one change between low and high. */
typedef struct save {
    uint64_t serial;
    uint64_t low;
    uint64_t high;
} save_t;

enum { SAVES = 4 };

/* What one worker has done since the checkpoint. Only the worker writes it. */
typedef struct progress {
    volatile uint64_t started;      /* number of the last change that was begun */
    volatile uint64_t returned;     /* of the last one that a journal must have after a kill */
    volatile uint64_t acknowledged; /* of the last one that it must have after a power cut */
    volatile uint64_t first;        /* serial of the save that the checkpoint was found in */
    volatile uint64_t saving;       /* of the last save that was begun */
    volatile uint64_t saved;        /* of the last one that returned */
    volatile save_t saves[SAVES];   /* by serial */
    counter_t threads[WRITERS];     /* where there are threads */
} progress_t;

/* A state that was found on the disk, and what was done since. */
typedef struct checkpoint {
    model_t model;
    progress_t progress[2];
} checkpoint_t;

typedef struct shared {
    int32_t mode;
    int32_t goal;
    int32_t twin;
    int32_t was_cut; /* the power was, after what the checkpoint says */
    uint64_t seed;
    char directory[256];
    volatile int32_t go;
    struct {
        volatile int32_t ready; /* restored, compared, about to go on */
        volatile int32_t inside;
        char failure[1024];
    } workers[2];
    volatile uint32_t current; /* of the checkpoints: written when the other one is whole */
    checkpoint_t checkpoints[2];
} shared_t;

#endif /* MMSB_TESTS_CRASH_SHARED_H */
