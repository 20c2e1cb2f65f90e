/* Files and folders of the crash tests. */
#include "../check.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint8_t *read_file(const char *path, size_t *length) {
    *length = 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat file;
    if (descriptor < 0 || fstat(descriptor, &file) != 0) {
        return calloc(1, 1);
    }
    uint8_t *bytes = malloc((size_t)file.st_size + 1);
    while (bytes != NULL && *length < (size_t)file.st_size) {
        ssize_t n = read(descriptor, bytes + *length, (size_t)file.st_size - *length);
        if (n <= 0) {
            break;
        }
        *length += (size_t)n;
    }
    close(descriptor);
    if (bytes == NULL) {
        GIVE_UP("no memory for %s", path);
    }
    return bytes;
}

void write_file(const char *path, const void *bytes, size_t length) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    size_t done = 0;
    while (descriptor >= 0 && done < length) {
        ssize_t n = write(descriptor, (const uint8_t *)bytes + done, length - done);
        if (n <= 0) {
            GIVE_UP("cannot write %s", path);
        }
        done += (size_t)n;
    }
    if (descriptor < 0 || close(descriptor) != 0) {
        GIVE_UP("cannot write %s", path);
    }
}

void copy_file(const char *from, const char *to) {
    size_t length = 0;
    uint8_t *bytes = read_file(from, &length);
    write_file(to, bytes, length);
    free(bytes);
}

void make_folder(const char *path) {
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        GIVE_UP("cannot make %s", path);
    }
}

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *where) {
    (void)file;
    (void)kind;
    (void)where;
    return remove(path);
}

void remove_tree(const char *path) {
    struct stat file;
    if (lstat(path, &file) == 0 && nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        GIVE_UP("cannot remove %s", path);
    }
}
