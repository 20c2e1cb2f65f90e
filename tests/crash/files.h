/* files.h — files and folders of the crash tests. What fails ends the program: nothing can be said of the library then. */
#ifndef MMSB_TESTS_CRASH_FILES_H
#define MMSB_TESTS_CRASH_FILES_H

#include <stddef.h>
#include <stdint.h>

enum { PATH = 512 };

/* A file that is not there is read as an empty one. The bytes are the caller's to free. */
uint8_t *read_file(const char *path, size_t *length);

void write_file(const char *path, const void *bytes, size_t length);

void copy_file(const char *from, const char *to);

void make_folder(const char *path);

void remove_tree(const char *path);

#endif /* MMSB_TESTS_CRASH_FILES_H */
