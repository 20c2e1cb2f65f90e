/*
 * campaign.c RUNS SEED — kills workers (worker.c) again and again, each going on with what the one before left on the disk, and
 * sees to it that this is the last complete state, and all that was acknowledged. Every third time it is the power that is cut.
 * Then it plants bugs, which must be found.
 */
#include "disk.h"
#include "files.h"
#include "trace.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SHARE = 80 /* per cent of the kills that must fall into a save or a commit */,
    MOST = 4 /* times as many runs as asked for, where chance or a slow machine gives too small a share */,
    PATIENCE = 1200 /* seconds for a planted bug: only one that nothing finds is ended by it */,
    WIDER = 25 /* kills after which the time in which they fall is doubled, for a machine that is slow */,
    RUBBISH = 64,
    PROBLEM = 1200
};

static shared_t *shared;
static int descriptor;
static char worker_program[PATH], base_folder[200];
static uint64_t seed, choices;

/* A temporary file that lies there. A journal may give its name again: then it has been changed since. */
typedef struct rubbish {
    char name[256];
    struct timespec changed;
    int survived; /* 1: a later save or open has left it once */
} rubbish_t;

/* One mode's files: a chain of crashes. */
typedef struct history {
    int mode;
    int twin;
    uint32_t number; /* how often it began anew */
    char folder[256];
    int begun;
    checkpoint_t *checkpoint; /* while another history has the shared memory */
    int was_cut;              /* the power was, since a worker found what it should */
    uint32_t rubbish_count;
    rubbish_t rubbish[RUBBISH]; /* what the last kill left */
} history_t;

/* ------------------------------------------------------------------------------------------------------ histories ---- */

static int run_to_the_end(goal_t goal) {
    plan_t plan = {.step = STEP_NONE};
    shared->goal = (int32_t)goal;
    return run_workers(worker_program, shared, descriptor, 1, &plan).died;
}

static const char *failure(void) {
    return shared->workers[0].failure[0] != 0 ? shared->workers[0].failure : shared->workers[1].failure;
}

static void begin(history_t *history) {
    snprintf(history->folder, sizeof history->folder, "%s/%s-%d-%u", base_folder, mode_names[history->mode], history->twin,
             history->number++);
    make_folder(history->folder);
    history->rubbish_count = 0;
    history->was_cut = 0;
    history->begun = 1;
    if (history->checkpoint == NULL && (history->checkpoint = malloc(sizeof *history->checkpoint)) == NULL) {
        GIVE_UP("no memory for a history");
    }
}

/* Puts a history into the shared memory. */
static void enter(history_t *history) {
    int is_new = !history->begun;
    if (is_new) {
        begin(history);
    }
    shared->mode = history->mode;
    shared->twin = is_new ? TWIN_NONE : history->twin;
    shared->was_cut = history->was_cut;
    shared->seed = seed + (uint64_t)history->mode * 1000 + history->number * 1000000;
    snprintf(shared->directory, sizeof shared->directory, "%s", history->folder);
    if (is_new) {
        if (run_to_the_end(GOAL_FOUND) != 0) {
            GIVE_UP("the first state of mode %s: %s", mode_names[history->mode], failure());
        }
        shared->twin = history->twin;
    } else {
        shared->checkpoints[shared->current] = *history->checkpoint;
    }
}

static void leave(history_t *history) {
    *history->checkpoint = shared->checkpoints[shared->current];
}

static void end(history_t *history, int keep) {
    if (history->begun && !keep) {
        remove_tree(history->folder);
    }
    history->begun = 0;
}

/* -------------------------------------------------------------------------------------------------------- rubbish ---- */

static int is_temporary(const char *name) {
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".tmp") == 0;
}

/* Temporary files in the folder and its journal; names of the journal's begin with "journal-". */
static uint32_t list_rubbish(const char *folder, rubbish_t *found) {
    uint32_t count = 0;
    for (int i = 0; i < 2; i++) {
        char path[PATH];
        snprintf(path, sizeof path, "%s%s", folder, i == 0 ? "" : "/journal");
        DIR *directory = opendir(path);
        for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
            struct stat file;
            if (is_temporary(entry->d_name) && count < RUBBISH && fstatat(dirfd(directory), entry->d_name, &file, 0) == 0) {
                snprintf(found[count].name, sizeof found[count].name, "%s", entry->d_name);
                found[count].survived = 0;
                found[count++].changed = file.st_ctim;
            }
        }
        if (directory != NULL) {
            closedir(directory);
        }
    }
    return count;
}

/* Rubbish of a kill must be gone when a later worker has saved to that path, or has opened the journal. Of two workers one may
 * be killed between the lock of what it removes and the removal, while the other saves: that stays once. */
static const char *old_rubbish(history_t *history) {
    static rubbish_t left[RUBBISH];
    uint32_t count = list_rubbish(history->folder, left);
    const char *found = NULL;
    int saved = 0;
    for (int i = 0; i < 2; i++) {
        const progress_t *progress = &shared->checkpoints[shared->current].progress[i];
        /* The first save of a worker goes to the path at which the one before was interrupted. */
        saved = saved || (shared->workers[i].ready && progress->saved > progress->first);
    }
    for (uint32_t i = 0; i < count; i++) {
        const rubbish_t *known = NULL;
        for (uint32_t old = 0; old < history->rubbish_count; old++) {
            const rubbish_t *before = &history->rubbish[old];
            if (strcmp(left[i].name, before->name) == 0 && left[i].changed.tv_sec == before->changed.tv_sec &&
                left[i].changed.tv_nsec == before->changed.tv_nsec) {
                known = before;
            }
        }
        int of_journal = strncmp(left[i].name, "journal-", 8) == 0;
        if (known != NULL && (of_journal ? shared->workers[0].ready : saved)) {
            left[i].survived = 1;
            if (history->mode != MODE_PAIR || known->survived) {
                found = left[i].name;
            }
        }
    }
    memcpy(history->rubbish, left, sizeof left);
    history->rubbish_count = count;
    return found;
}

/* ------------------------------------------------------------------------------------------------------------ runs ---- */

static plan_t plan_a_kill(const history_t *history) {
    int mode = history->mode;
    static const stage_t of_saves[] = {STEP_CREATE, STEP_WRITE, STEP_SYNC, STEP_RENAME, STEP_SYNC_FOLDER, STEP_SWEEP};
    static const stage_t of_journals[] = {STEP_FRAME,   STEP_FRAME, STEP_COMMIT,       STEP_COMMIT,
                                          STEP_SEGMENT, STEP_NAME,  STEP_SYNC_JOURNAL, STEP_DROP};
    plan_t plan = {.step = STEP_NONE, .power_cut = random_below(&choices, 3) == 0};
    if (has_journal(mode) && history->was_cut && random_below(&choices, 2) == 0) { /* its end may be torn */
        plan = (plan_t){STEP_CUT, 1, (moment_t)random_below(&choices, 3), random_below(&choices, 100), 1, plan.power_cut};
    } else if (has_journal(mode) && plan.power_cut && random_below(&choices, 2) == 0) { /* between a write and its sync */
        plan.step = random_below(&choices, 2) == 0 ? STEP_FRAME : STEP_COMMIT;
        plan.moment = plan.step == STEP_FRAME ? AFTER : BEFORE;
        plan.occurrence = 1 + (uint32_t)random_below(&choices, 60);
    } else if (random_below(&choices, 40) == 0) {
        plan.restoring = 1;
        plan.microseconds = random_below(&choices, 60000);
    } else if (random_below(&choices, 2) == 0) {
        plan.microseconds = random_below(&choices, has_journal(mode) ? 150000 : 80000);
    } else {
        int of_journal = has_journal(mode) && random_below(&choices, 3) != 0;
        plan.step = of_journal ? of_journals[random_below(&choices, sizeof of_journals / sizeof of_journals[0])]
                               : of_saves[random_below(&choices, sizeof of_saves / sizeof of_saves[0])];
        uint64_t often = plan.step == STEP_FRAME || plan.step == STEP_COMMIT ? 60 : plan.step == STEP_WRITE ? 12 : 3;
        plan.occurrence = plan.step == STEP_SWEEP ? 1 : 1 + (uint32_t)random_below(&choices, often);
        plan.moment = (moment_t)random_below(&choices, 3);
        plan.microseconds = random_below(&choices, 4) == 0 ? random_below(&choices, 5000) : random_below(&choices, 300);
    }
    return plan;
}

static void describe(const plan_t *plan, char *text, size_t capacity) {
    static const char *const moments[] = {"before", "during", "after"};
    if (plan->step == STEP_NONE) {
        snprintf(text, capacity, "after %llu us%s", (unsigned long long)plan->microseconds,
                 plan->restoring ? " of restoring" : "");
    } else {
        snprintf(text, capacity, "%s \"%s\" number %u (%llu us)", moments[plan->moment], stage_names[plan->step],
                 plan->occurrence, (unsigned long long)plan->microseconds);
    }
    if (plan->power_cut) {
        size_t length = strlen(text);
        snprintf(text + length, capacity - length, ", the power is cut");
    }
}

/* One kill of what goes on in the history. NULL = what was found before it was right. */
static const char *kill_once(history_t *history, const plan_t *plan, outcome_t *outcome) {
    char copies[300];
    snprintf(copies, sizeof copies, "%s/synced", base_folder);
    enter(history);
    if (plan->power_cut) {
        disk_begin(history->folder, copies);
    }
    shared->goal = GOAL_RUN;
    *outcome = run_workers(worker_program, shared, descriptor, history->mode == MODE_PAIR ? 2 : 1, plan);
    history->was_cut = plan->power_cut || (history->was_cut && !shared->workers[0].ready);
    if (history->twin == TWIN_LOOSE_JOURNAL) {
        char ring[PATH];
        snprintf(ring, sizeof ring, "%s/journal/journal.ring", history->folder);
        unlink(ring);
    }
    static char text[PROBLEM];
    const char *problem = NULL;
    if (outcome->died != 0) {
        const char *said = failure();
        snprintf(text, sizeof text, "a worker ended with status %d: %s", outcome->died, said);
        problem = text;
    } else {
        const char *rubbish = old_rubbish(history);
        if (rubbish != NULL) {
            snprintf(text, sizeof text, "%.255s is still there after a later save or open", rubbish);
            problem = text;
        } else if (plan->power_cut) {
            disk_cut(&choices);
            history->rubbish_count = list_rubbish(history->folder, history->rubbish);
        }
    }
    leave(history);
    return problem;
}

/* What the last kill left is right, too, and after one more save nothing else lies there. */
static const char *finish(history_t *history) {
    static rubbish_t left[RUBBISH];
    static char text[PROBLEM];
    enter(history);
    int died = run_to_the_end(GOAL_FINISH);
    leave(history);
    if (died != 0) {
        snprintf(text, sizeof text, "the last worker ended with status %d: %s", died, failure());
        return text;
    }
    if (list_rubbish(history->folder, left) > 0) {
        snprintf(text, sizeof text, "%s is left at the end", left[0].name);
        return text;
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------------------- planted ---- */

static const struct {
    twin_t twin;
    int mode;
    int power_cut;
} planted[] = {
    {TWIN_LOOSE_JOURNAL, MODE_NONE, 0}, {TWIN_LOOSE_JOURNAL, MODE_THREADS, 0}, {TWIN_LATE_SYNC, MODE_CALL, 1},
    {TWIN_NOT_DURABLE, MODE_WHOLE, 1},  {TWIN_NOT_DURABLE, MODE_CHAIN, 1},     {TWIN_NO_SYNC, MODE_WHOLE, 1},
    {TWIN_NO_SYNC, MODE_CALL, 1},       {TWIN_NO_SYNC, MODE_INTERVAL, 1},      {TWIN_IN_PLACE, MODE_WHOLE, 0},
    {TWIN_NO_REPLAY, MODE_CALL, 0},     {TWIN_WRONG_BASE, MODE_CHAIN, 0},      {TWIN_NO_REMOVE, MODE_WHOLE, 0},
    {TWIN_HALF_GROUP, MODE_GROUPS, 0},  {TWIN_EARLY_COMMIT, MODE_GROUPS, 0},
};
enum { PLANTED = sizeof planted / sizeof planted[0] };

/* How many kills it took to find a planted bug, which depends on where they fall; 0 = it was not found. */
static int find_planted(size_t which, char *text, size_t capacity) {
    history_t *history = calloc(1, sizeof *history);
    history->mode = planted[which].mode;
    history->twin = planted[which].twin;
    int found = 0;
    const time_t last = time(NULL) + PATIENCE;
    for (int kills = 1; !found && time(NULL) < last; kills++) {
        int doubled = kills / WIDER < 6 ? kills / WIDER : 6;
        plan_t plan = {.microseconds = 5000 + (random_below(&choices, 40000) << doubled), .power_cut = planted[which].power_cut};
        outcome_t outcome;
        const char *problem = kill_once(history, &plan, &outcome);
        if (problem != NULL) {
            snprintf(text, capacity, "%s", problem);
            found = kills;
        }
    }
    end(history, 0);
    free(history->checkpoint);
    free(history);
    return found;
}

static void catch_planted(void) {
    int caught = 0;
    for (size_t i = 0; i < PLANTED; i++) {
        char text[PROBLEM];
        check_begin(twin_names[planted[i].twin]);
        int needed = find_planted(i, text, sizeof text);
        if (needed > 0) {
            caught++;
            printf("planted: %s, mode %s: caught after %d kills: %s\n", twin_names[planted[i].twin], mode_names[planted[i].mode],
                   needed, text);
        } else {
            check_fail(__FILE__, __LINE__, "planted: %s, mode %s: NOT CAUGHT in %d seconds", twin_names[planted[i].twin],
                       mode_names[planted[i].mode], PATIENCE);
        }
        check_end();
    }
    printf("planted bugs: caught %d of %d\n", caught, PLANTED);
}

/* -------------------------------------------------------------------------------------------------------- the kills ---- */

static history_t histories[MODES];
static uint32_t stages[STAGES], kills, cuts, planned_steps, reached;

/* How many of the kills fell into a save or a commit. */
static uint32_t inside_count(void) {
    uint32_t inside = 0;
    for (int stage = 1; stage < STAGES; stage++) {
        inside += stage == STAGE_RESTORING || stage == STAGE_OUTSIDE ? 0 : stages[stage];
    }
    return inside;
}

static int enough_inside(void) {
    return inside_count() * 100 >= kills * SHARE;
}

static void count_kill(const plan_t *plan, const outcome_t *outcome) {
    kills++;
    cuts += (uint32_t)plan->power_cut;
    stages[outcome->stage]++;
    planned_steps += plan->step != STEP_NONE;
    reached += (uint32_t)outcome->reached;
}

/* One kill, or the end of a history, is one test. */
static void take_turn(history_t *history, uint32_t run, int is_last) {
    char text[200] = "the end";
    plan_t plan = plan_a_kill(history);
    outcome_t outcome;
    if (!is_last) {
        describe(&plan, text, sizeof text);
    }
    check_begin(text);
    const char *problem = is_last ? finish(history) : kill_once(history, &plan, &outcome);
    if (problem != NULL) {
        check_fail(__FILE__, __LINE__, "run %u, SEED=%llu, mode %s (%s): kept in %s: %s", run, (unsigned long long)seed,
                   mode_names[history->mode], text, history->folder, problem);
        end(history, 1);
    } else if (!is_last) {
        count_kill(&plan, &outcome);
    }
    check_end();
}

/* Each mode in turn; at the end each once more, to its end. */
static void kill_workers(uint32_t runs) {
    const uint32_t most = runs * MOST;
    for (uint32_t run = 0; run < runs || (run < most && !enough_inside()); run++) {
        history_t *history = &histories[run % MODES];
        history->mode = (int)(run % MODES);
        take_turn(history, run, 0);
    }
    for (int mode = 0; mode < MODES; mode++) {
        histories[mode].mode = mode;
        take_turn(&histories[mode], runs, 1);
        end(&histories[mode], 0);
    }
}

static void most_kills_fall_into_a_save_or_a_commit(void) {
    printf("%u kills, %u of them with a power cut; %u were to come at a step, %u did\n", kills, cuts, planned_steps, reached);
    REQUIRE(kills > 0);
    puts("where the kills fell:");
    for (int stage = 1; stage < STAGES; stage++) {
        if (stages[stage] > 0) {
            printf("  %5u  %4.1f %%  %s\n", stages[stage], 100.0 * stages[stage] / kills, stage_names[stage]);
        }
    }
    printf("  %.1f %% in a save or a commit (%d wanted)\n", 100.0 * inside_count() / kills, SHARE);
    CHECK(enough_inside());
}

/* -------------------------------------------------------------------------------------------------------------- main ---- */

static void make_base_folder(void) {
    const char *temporary = getenv("TMPDIR");
    snprintf(base_folder, sizeof base_folder, "%s/mmsb-crash-XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(base_folder) == NULL) {
        GIVE_UP("no folder %s", base_folder);
    }
}

static void share_memory(void) {
    descriptor = memfd_create("crash test", 0);
    REQUIRE(ftruncate(descriptor, sizeof *shared) == 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    REQUIRE(shared != MAP_FAILED);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    uint32_t runs = count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 50;
    seed = count > 2 && arguments[2][0] != 0 ? strtoull(arguments[2], NULL, 10) : (uint64_t)time(NULL);
    choices = seed;
    snprintf(worker_program, sizeof worker_program, "%s", arguments[0]);
    char *name = strrchr(worker_program, '/');
    snprintf(name == NULL ? worker_program : name + 1, 16, "worker");
    make_base_folder();
    share_memory();
    printf("%u runs, SEED=%llu, in %s\n", runs, (unsigned long long)seed, base_folder);
    kill_workers(runs);
    RUN(most_kills_fall_into_a_save_or_a_commit);
    catch_planted();
    char copies[300];
    snprintf(copies, sizeof copies, "%s/synced", base_folder);
    remove_tree(copies);
    if (check_tests_failed == 0) {
        remove_tree(base_folder);
    }
    return check_report();
}
