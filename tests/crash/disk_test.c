/* The disk of the crash tests. */
#include "disk.h"
#include "files.h"
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[PATH / 4];

static char *in_folder(char *path, const char *name) {
    snprintf(path, PATH, "%s/folder/%s", base, name);
    return path;
}

static ino_t inode_of(const char *name) {
    char path[PATH];
    struct stat file;
    return stat(in_folder(path, name), &file) == 0 ? file.st_ino : 0;
}

static size_t length_of(const char *name) {
    char path[PATH];
    size_t length;
    free(read_file(in_folder(path, name), &length));
    return length;
}

/* One process has replaced the state and not yet synced the folder; another one makes its own file, which the file system gives
   the number of the replaced one, and the power is cut before the tracer hears of it. */
static void a_file_with_the_number_of_a_replaced_one_is_another(void) {
    enum { LENGTH = 4096, CUTS = 64 };
    static const uint8_t bytes[LENGTH] = "whole";
    int given_again = 0;
    for (uint64_t seed = 0; seed < CUTS; seed++) {
        char path[PATH], to[PATH], copies[PATH], folder[PATH];
        snprintf(copies, sizeof copies, "%s/synced", base);
        in_folder(folder, "");
        folder[strlen(folder) - 1] = 0;
        remove_tree(folder);
        make_folder(folder);
        write_file(in_folder(path, "state"), bytes, LENGTH);
        disk_begin(folder, copies);
        ino_t replaced = inode_of("state");
        write_file(in_folder(path, "first.tmp"), bytes, LENGTH);
        disk_sync_begins(1, path);
        disk_sync_ended(1, 1);
        REQUIRE(rename(path, in_folder(to, "state")) == 0);
        write_file(in_folder(path, "second.tmp"), NULL, 0);
        given_again += inode_of("second.tmp") == replaced;
        uint64_t random = seed;
        disk_cut(&random);
        CHECK_EQUAL(length_of("state"), LENGTH);
    }
    CHECK_EQUAL(given_again, 0);
}

int main(void) {
    const char *temporary = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/mmsb-disk-XXXXXX", temporary != NULL ? temporary : "/tmp");
    REQUIRE(mkdtemp(base) != NULL);
    RUN(a_file_with_the_number_of_a_replaced_one_is_another);
    remove_tree(base);
    return check_report();
}
