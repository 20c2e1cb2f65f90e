/*
 * disk.h — what a power cut would leave of a folder. The tracer tells which files and folders were synced; a cut gives each name
 * and each block either as it was when it was synced last, or as it is now.
 */
#ifndef MMSB_TESTS_CRASH_DISK_H
#define MMSB_TESTS_CRASH_DISK_H

#include <stdint.h>
#include <sys/types.h>

/* All that is in the folder (and in its folder `journal`) counts as synced. copies is a folder that belongs to the disk. */
void disk_begin(const char *folder, const char *copies);

/* A sync has begun, of a file or a folder, by this thread; and has ended, well or not. What is there when it begins is synced. */
void disk_sync_begins(pid_t thread, const char *path);
void disk_sync_ended(pid_t thread, int well);

/* Leaves the folder as after a power cut. */
void disk_cut(uint64_t *random);

#endif /* MMSB_TESTS_CRASH_DISK_H */
