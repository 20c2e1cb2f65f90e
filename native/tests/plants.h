/*
 * plants.h — what a test has that proves itself by planted bugs: it changes one place of the library's source, builds itself with it, and
 * must fail.
 */
#ifndef MMSB_NATIVE_TESTS_PLANTS_H
#define MMSB_NATIVE_TESTS_PLANTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int passed, failed, wrong;
static int planted; /* the first thing that is not true ends the process */

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            if (planted) \
                _exit(3); \
            if (__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED) > 20) \
                exit(1); \
        } \
    } while (0)

static void end_case(const char *name) {
    if (wrong == 0) {
        passed++;
    } else {
        failed++;
        fprintf(stderr, "FAILED: %s\n", name);
    }
    wrong = 0;
}

typedef struct plant {
    const char *what;             /* NULL: no bug; the test must pass, else the others have shown nothing */
    const char *file, *from, *to; /* from is there once */
    const char *mode;             /* the test's argument: which of its cases can show it */
} plant_t;

static char *read_text(const char *path) {
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    if (!file)
        exit(1);
    char *text = calloc(1, 1 << 20);
    CHECK(fread(text, 1, (1 << 20) - 1, file) > 0 && feof(file));
    fclose(file);
    return text;
}

static void write_text(const char *path, const char *text, size_t length) {
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(text, 1, length, file) == length && fclose(file) == 0);
}

/* The exit status of a shell command; 124 where it ran too long. */
static int shell(const char *command) {
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The last one is the test itself. */
static const char *const natives[] = {"bytes",  "bytes_portable", "bytes_x86", "bytes_neon", "checksum", "gate", "record",
                                      "thread", "journal",        "capture",   "page",       "delta",    "test"};
#define NATIVES (sizeof natives / sizeof *natives)

#define COMPILE "gcc -std=gnu11 -O0 -Iinclude -pthread -w "

/* Seconds of a run with a bug: it may hang, which shows nothing. */
#define ONE_TRY 120

/* Builds the test with a plant in the copy of native/ that lies in a folder. */
static void build_with(const plant_t *plant, const char *folder) {
    char path[4200], command[16384], name[128];
    snprintf(path, sizeof path, "%s/native/%s", folder, plant->file);
    char *text = read_text(path), *at = strstr(text, plant->from);
    CHECK(at != NULL && (*plant->from == 0 || strstr(at + 1, plant->from) == NULL));
    if (!at)
        exit(1);
    const size_t before = (size_t)(at - text), from = strlen(plant->from), to = strlen(plant->to), length = strlen(text);
    char *changed = malloc(length + to + 1);
    memcpy(changed, text, before);
    memcpy(changed + before, plant->to, to);
    memcpy(changed + before + to, at + from, length - before - from);
    write_text(path, changed, length - from + to);
    size_t written = (size_t)snprintf(command, sizeof command, COMPILE);
    snprintf(name, sizeof name, "/%s", plant->file);
    for (size_t i = 0; i < NATIVES; i++) { /* those that do not read the file are as they were */
        char reads[4200];
        snprintf(reads, sizeof reads, "%s/native/tests/%s.d", folder, natives[i]);
        char *list = read_text(reads);
        const char *kind = strstr(list, name) ? "c" : "o";
        written += (size_t)snprintf(command + written, sizeof command - written, "%s/native/%s%s.%s ", folder,
                                    i == NATIVES - 1 || *kind == 'o' ? "tests/" : "", natives[i], kind);
        free(list);
    }
    snprintf(command + written, sizeof command - written, "-o %s/test -ldl -lm", folder);
    CHECK(shell(command) == 0);
    write_text(path, text, length);
    free(changed);
    free(text);
}

/* What main of a test calls with its own path and its file. Patience: for how many seconds a bug is looked for, each time with another
 * seed, which follows the mode; 0 = it has to show at once. */
static void planted_bugs_are_caught(const char *self, const char *test, const plant_t *plants, size_t count, int patience) {
    char folder[1024], command[16384];
    const int native = (int)(strrchr(test, '/') - test - (int)strlen("/tests"));
    snprintf(folder, sizeof folder, "%s.planted", self);
    snprintf(command, sizeof command,
             "mkdir -p %s/native/tests && cp %.*s/*.[ch] %s/native && cp %.*s/tests/*.h %s/native/tests && cp %s "
             "%s/native/tests/test.c",
             folder, native, test, folder, native, test, folder, test, folder);
    CHECK(shell(command) == 0);
    for (size_t i = 0; i < NATIVES; i++) {
        snprintf(command, sizeof command, COMPILE "-MMD -c %s/native/%s%s.c -o %s/native/tests/%s.o", folder,
                 i == NATIVES - 1 ? "tests/" : "", natives[i], folder, natives[i]);
        CHECK(shell(command) == 0);
    }
    size_t caught = 0, bugs = 0;
    for (size_t i = 0; i < count; i++) {
        const plant_t *plant = &plants[i];
        const int limit = !plant->what && patience > ONE_TRY ? patience : ONE_TRY;
        build_with(plant, folder);
        const time_t end = time(NULL) + patience;
        int status, found, seed = 1;
        do {
            snprintf(command, sizeof command, "timeout %d %s/test %s %d >%s/output 2>&1", limit, folder, plant->mode, seed++,
                     folder);
            status = shell(command);
            found = status != 0 && status != 124;
        } while (!found && plant->what && time(NULL) < end);
        if (!plant->what) {
            CHECK(status == 0);
            continue;
        }
        bugs++;
        caught += (size_t)found;
        if (!found)
            fprintf(stderr, "not caught: %s\n", plant->what);
    }
    printf("planted bugs: caught %zu of %zu\n", caught, bugs);
    CHECK(caught == bugs);
}

#endif
