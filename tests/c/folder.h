/*
 * folder.h — a folder of the test's own, emptied after each case.
 *
 * main calls folder_make (or folder_use, in a program that the test has started again), RUN_IN_FOLDER(case) for each case, and
 * folder_end.
 */
#ifndef MMSB_TESTS_FOLDER_H
#define MMSB_TESTS_FOLDER_H

#include "library.h"

#include <dirent.h>
#include <ftw.h>

static char folder[256];

/* The path of a file in the folder; valid until the fourth next call. */
static inline const char *at(const char *name) {
    static char paths[4][512];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
    return paths[next];
}

static inline int files_in_folder(void) {
    DIR *directory = opendir(folder);
    REQUIRE(directory != NULL);
    int count = 0;
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count - 2;
}

static inline int folder_remove(const char *path, const struct stat *file, int kind, struct FTW *where) {
    (void)file;
    (void)kind;
    return where->level == 0 ? 0 : remove(path);
}

static inline void clear_folder(void) {
    REQUIRE(nftw(folder, folder_remove, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

static inline void folder_use(const char *directory) {
    snprintf(folder, sizeof folder, "%s", directory);
}

static inline void folder_make(void) {
    folder_use("/tmp/mmsb-test-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
}

static inline void folder_end(void) {
    CHECK(rmdir(folder) == 0);
}

#define RUN_IN_FOLDER(function) \
    do { \
        RUN(function); \
        clear_folder(); \
    } while (0)

#endif
