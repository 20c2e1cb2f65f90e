/*
 * worker.c DESCRIPTOR NUMBER — works on a context until it is killed, having found on the disk what the worker before it left
 * there. The descriptor is the shared memory of shared.h.
 */
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { CHAIN_LENGTH = 6 };

static shared_t *shared;
static uint32_t number;  /* 0 or 1, of a pair */
static uint64_t choices; /* random numbers that change no state */
static model_t *model;   /* what the context holds */
static mmsb_context_t context;
static progress_t *progress;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(shared->workers[number].failure, sizeof shared->workers[number].failure, format, arguments);
    va_end(arguments);
    _exit(1);
}

static void need(mmsb_status_t status, const char *what) {
    if (status != MMSB_OK) {
        fail("%s: %s", what, mmsb_last_error());
    }
}

/* Until the compiler's stores before are visible to whoever looks after a kill. */
static void publish(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------------------------------------------- saving ---- */

static int is_chain(void) {
    return shared->mode == MODE_CHAIN || shared->mode == MODE_LIVE;
}

static int raw_writes(void) {
    return !has_journal(shared->mode) && shared->mode != MODE_LIVE;
}

/* The file of a save; valid until the fourth next call. */
static const char *path_of(uint64_t serial) {
    static char paths[4][320];
    static int next;
    next = (next + 1) % 4;
    if (is_chain()) {
        snprintf(paths[next], sizeof paths[next], "%s/%llu.mmsb", shared->directory, (unsigned long long)serial);
    } else {
        snprintf(paths[next], sizeof paths[next], "%s/%s.mmsb", shared->directory, serial == 0 ? "base" : "state");
    }
    return paths[next];
}

static const char *journal_path(void) {
    static char path[320];
    snprintf(path, sizeof path, "%s/journal", shared->directory);
    return path;
}

static void change(void) {
    operation_t operation;
    plan_operation(model, shared->seed + number, raw_writes(), &operation);
    progress->started = operation.number;
    if (has_journal(shared->mode)) {
        shared->workers[number].inside = IN_COMMIT;
    }
    mmsb_status_t status = library_apply(context, model, &operation);
    if (status != MMSB_OK) {
        fail("change %llu of kind %d: %s", (unsigned long long)operation.number, (int)operation.kind, mmsb_last_error());
    }
    model_apply(model, &operation);
    if (has_journal(shared->mode)) {
        publish();
        shared->workers[number].inside = OUTSIDE;
        progress->returned = operation.number;
    }
    if (shared->mode == MODE_CALL) {
        progress->acknowledged = operation.number;
    }
}

static void save_over_the_old_file(const char *path) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    need(mmsb_snapshot_save_descriptor(context, descriptor, NULL), "the save");
    close(descriptor);
}

static void save_while_working(const char *path, const mmsb_save_options_t *options) {
    mmsb_ticket_t ticket = 0;
    need(mmsb_snapshot_save_start(context, path, options, NULL, &ticket), "the save");
    for (int32_t done = 0; !done;) {
        change();
        need(mmsb_ticket_poll(ticket, &done), "the save's ticket");
    }
    need(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), "the save");
    need(mmsb_ticket_destroy(ticket), "the save's ticket");
}

static void save(void) {
    uint64_t serial = progress->saved + 1;
    volatile save_t *entry = &progress->saves[serial % SAVES];
    entry->serial = serial;
    entry->low = entry->high = model->operation;
    publish();
    progress->saving = serial;
    shared->workers[number].inside = IN_SAVE;

    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.not_durable = shared->twin == TWIN_NOT_DURABLE;
    options.compression = serial % 3 == 2 ? MMSB_COMPRESSION_ZSTD : MMSB_COMPRESSION_NONE;
    if (is_chain() && serial % CHAIN_LENGTH != 0) {
        options.base = path_of(serial - 1);
    } else if (shared->mode == MODE_TIP) {
        options.base = path_of(0);
    }
    if (shared->twin == TWIN_IN_PLACE) {
        save_over_the_old_file(path_of(serial));
    } else if (shared->mode == MODE_LIVE) {
        save_while_working(path_of(serial), &options);
    } else {
        need(mmsb_snapshot_save(context, path_of(serial), &options), "the save");
    }
    entry->high = model->operation;
    publish();
    shared->workers[number].inside = OUTSIDE;
    progress->saved = serial;
    if (has_journal(shared->mode)) {
        progress->acknowledged = model->operation;
    }
    if (is_chain() && serial % CHAIN_LENGTH == 0) { /* nothing needs the chain before any more */
        for (uint64_t old = serial; old-- > 0 && old + 2 * CHAIN_LENGTH > serial;) {
            unlink(path_of(old));
        }
    }
}

static void open_journal(void) {
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = shared->twin == TWIN_LATE_SYNC || shared->mode == MODE_NONE ? MMSB_DURABILITY_NONE
                         : shared->mode == MODE_CALL                                 ? MMSB_DURABILITY_CALL
                                                                                     : MMSB_DURABILITY_INTERVAL;
    options.segment_bytes = 128 << 10;
    need(mmsb_journal_open(context, journal_path(), &options), "opening the journal");
}

static void commit(void) {
    shared->workers[number].inside = IN_COMMIT;
    need(mmsb_journal_sync(context, NULL), "the journal's sync");
    publish();
    shared->workers[number].inside = OUTSIDE;
    progress->acknowledged = model->operation;
}

/* ----------------------------------------------------------------------------------------------------- restoring ---- */

/* States that the disk may hold: after any change between low and high of one worker since the checkpoint. */
typedef struct window {
    uint32_t worker;
    uint64_t low;
    uint64_t high;
    save_t save; /* where it must be found, but for a journal */
} window_t;

static void window_of_save(const progress_t *from, uint32_t worker, uint64_t serial, window_t *window) {
    volatile const save_t *entry = &from->saves[serial % SAVES];
    *window = (window_t){worker, entry->low, entry->high, {entry->serial, entry->low, entry->high}};
    if (serial != from->saved && shared->mode == MODE_LIVE) {
        window->high = from->started;
    }
}

/* The newest of a chain is the one that was being saved, if its name is there. */
static int was_published(uint64_t serial) {
    return access(path_of(serial), F_OK) == 0;
}

static uint32_t windows_of(const checkpoint_t *checkpoint, window_t *windows) {
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < (shared->mode == MODE_PAIR ? 2 : 1); worker++) {
        const progress_t *from = &checkpoint->progress[worker];
        if (has_journal(shared->mode)) {
            window_of_save(from, worker, from->saved, &windows[count]);
            windows[count].low = shared->was_cut ? from->acknowledged : from->returned;
            windows[count++].high = from->started;
            continue;
        }
        int going_on = from->saving != from->saved;
        if (!is_chain() || !going_on || !was_published(from->saving)) {
            window_of_save(from, worker, from->saved, &windows[count++]);
        }
        if (going_on && (!is_chain() || was_published(from->saving))) {
            window_of_save(from, worker, from->saving, &windows[count++]);
        }
    }
    return count;
}

static void load(const char *path) {
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    if (has_journal(shared->mode) && shared->twin != TWIN_NO_REPLAY) {
        options.journal = journal_path();
    }
    need(mmsb_snapshot_verify(path, NULL), "verifying");
    need(mmsb_snapshot_load(context, path, &options), "loading");
}

/* Moves the model to the state of a window that the context holds; 0 = it holds none of them. */
static int find_state(const checkpoint_t *checkpoint, const window_t *window, char *difference, size_t capacity) {
    *model = checkpoint->model;
    for (;;) {
        if (model->operation >= window->low && same_state(context, model, difference, capacity)) {
            return 1;
        }
        if (model->operation >= window->high) {
            return 0;
        }
        operation_t operation;
        plan_operation(model, shared->seed + window->worker, raw_writes(), &operation);
        model_apply(model, &operation);
    }
}

static void set_checkpoint(const save_t *at, const counter_t *threads) {
    checkpoint_t *next = &shared->checkpoints[1 - shared->current];
    for (uint32_t i = 0; i < WRITERS; i++) {
        next->progress[0].threads[i] = threads[i];
    }
    next->model = *model;
    for (uint32_t i = 0; i < 2; i++) {
        progress_t *p = &next->progress[i];
        p->started = p->returned = p->acknowledged = model->operation;
        p->first = p->saving = p->saved = at->serial;
        p->saves[at->serial % SAVES].serial = at->serial;
        p->saves[at->serial % SAVES].low = p->saves[at->serial % SAVES].high = model->operation;
    }
    publish();
    shared->current = 1 - shared->current;
}

/* How the threads change their pages. */
static way_t way_of_threads(void) {
    return shared->mode == MODE_THREADS        ? IN_BATCHES
           : shared->twin == TWIN_HALF_GROUP   ? IN_HALF_GROUPS
           : shared->twin == TWIN_EARLY_COMMIT ? BEFORE_THE_COMMIT
                                               : IN_GROUPS;
}

/* Nothing is known of what threads have synced: after a power cut each change may be the last. */
static void restore_threads(const progress_t *from) {
    counter_t low[WRITERS], now[WRITERS];
    for (uint32_t i = 0; i < WRITERS; i++) {
        low[i] = from->threads[i];
        low[i].returned = shared->was_cut ? 0 : low[i].returned;
    }
    uint64_t serial = from->saved;
    load(path_of(serial));
    const char *wrong = threads_restored(context, way_of_threads(), low, now);
    if (wrong != NULL) {
        fail("what came back is no state that it may be: %s", wrong);
    }
    set_checkpoint(&(save_t){serial, 0, 0}, now);
}

static const counter_t no_threads[WRITERS];

static void restore(void) {
    const checkpoint_t *before = &shared->checkpoints[shared->current];
    if (has_threads(shared->mode)) {
        restore_threads(&before->progress[0]);
        return;
    }
    window_t windows[4];
    uint32_t count = windows_of(before, windows);
    uint64_t serial = windows[0].save.serial;
    int has_base = serial % CHAIN_LENGTH != 0;
    load(path_of(shared->twin == TWIN_WRONG_BASE && has_base ? serial - 1 : serial));
    char text[4][200];
    for (uint32_t i = 0; i < count; i++) {
        if (find_state(before, &windows[i], text[i], sizeof text[i])) {
            set_checkpoint(&windows[i].save, no_threads);
            return;
        }
        size_t length = strlen(text[i]);
        snprintf(text[i] + length, sizeof text[i] - length, " (after change %llu, or one from %llu on)",
                 (unsigned long long)windows[i].high, (unsigned long long)windows[i].low);
    }
    fail("what came back is no state that it may be: %s%s%s", text[0], count > 1 ? "; " : "", count > 1 ? text[1] : "");
}

/* The second of a pair begins with what the first one found. */
static void join(void) {
    *model = shared->checkpoints[shared->current].model;
    load(path_of(1));
    char text[200];
    if (!same_state(context, model, text, sizeof text)) {
        fail("the second worker does not find what the first one found: %s", text);
    }
}

static void found(void) {
    if (has_journal(shared->mode)) {
        open_journal();
    }
    if (has_threads(shared->mode)) {
        const char *wrong = threads_found(context);
        if (wrong != NULL) {
            fail("the first state: %s", wrong);
        }
    } else {
        need(found_state(context, model, shared->seed), "the first state");
    }
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    if (shared->mode == MODE_TIP) {
        options.base = path_of(0);
        need(mmsb_snapshot_save(context, options.base, NULL), "the base");
    }
    need(mmsb_snapshot_save(context, path_of(is_chain() ? CHAIN_LENGTH : 1), &options), "the first save");
    set_checkpoint(&(save_t){is_chain() ? CHAIN_LENGTH : 1, model->operation, model->operation}, no_threads);
    need(mmsb_shutdown(), "the shutdown");
}

/* ------------------------------------------------------------------------------------------------------- working ---- */

static void work_with_threads(void) {
    const char *wrong = threads_start(progress->threads, way_of_threads());
    shared->workers[number].inside = IN_COMMIT;
    for (;;) {
        for (uint64_t wait = random_below(&choices, 20); wrong == NULL && wait > 0; wait--) {
            usleep(1000);
            wrong = threads_failed();
        }
        if (wrong != NULL) {
            fail("%s", wrong);
        }
        save();
        shared->workers[number].inside = IN_COMMIT;
    }
}

static void work(void) {
    for (uint64_t round = 1;; round++) {
        uint64_t changes = shared->mode == MODE_CALL ? 1 : 1 + random_below(&choices, 5);
        for (uint64_t i = 0; i < changes; i++) {
            change();
        }
        if (shared->mode == MODE_INTERVAL) {
            commit();
        }
        if (!has_journal(shared->mode) || round % 40 == 0) {
            save();
        }
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        fputs("the campaign starts this program\n", stderr);
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[1]), 0);
    model = malloc(sizeof *model);
    if (shared == MAP_FAILED || model == NULL) {
        perror("worker");
        return 2;
    }
    number = (uint32_t)atoi(arguments[2]);
    choices = shared->seed ^ (uint64_t)getpid();
    need(mmsb_context_create(NULL, &context), "the context");
    if (shared->goal == GOAL_FOUND) {
        found();
        return 0;
    }
    if (number == 0) {
        restore();
    } else {
        join();
    }
    progress = &shared->checkpoints[shared->current].progress[number];
    if (has_journal(shared->mode)) {
        open_journal();
    }
    if (shared->goal == GOAL_FINISH) {
        save();
        need(mmsb_shutdown(), "the shutdown");
        return 0;
    }
    publish();
    shared->workers[number].ready = 1;
    while (!shared->go) {
        usleep(200);
    }
    if (has_threads(shared->mode)) {
        work_with_threads();
    }
    work();
}
