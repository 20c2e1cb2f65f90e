/* The disk of a machine whose power can be cut. */
#include "disk.h"
#include "files.h"
#include "workload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES = 4096, FILES = 16384, FOLDERS = 2, SYNCS = 64, BLOCK = 512 /* what a disk writes whole */ };

/* A file that was ever seen stays open, so that the system cannot give its inode's number to another one: a process may make a
   file before the tracer hears of it, with the number of one that a synced folder still names. */
static struct {
    ino_t inode;
    int descriptor;
} known[FILES];
static uint32_t known_count; /* a file's identity is its place here + 1; 0 = no file */

typedef struct listing {
    uint32_t count;
    struct {
        char name[256];
        uint32_t identity;
    } names[NAMES];
} listing_t;

static char root[256], copies_folder[256];
static listing_t durable[FOLDERS]; /* of the folder and of its folder `journal` */
static struct {
    pid_t thread;
    int folder; /* of a folder's sync, else -1 */
    uint32_t identity;
    listing_t *listing;
} syncs[SYNCS];

static const char *folder_path(int folder, char *path) {
    snprintf(path, PATH, "%s%s", root, folder == 0 ? "" : "/journal");
    return path;
}

static uint32_t identity_of(int folder, const char *name) {
    struct stat file;
    int descriptor = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) {
        if (errno != ENOENT) {
            GIVE_UP("cannot open %s: %s", name, strerror(errno));
        }
        return 0;
    }
    uint32_t i = 0;
    int is_file = fstat(descriptor, &file) == 0 && S_ISREG(file.st_mode);
    while (is_file && i < known_count && known[i].inode != file.st_ino) {
        i++;
    }
    if (!is_file || i < known_count) {
        close(descriptor);
        return is_file ? i + 1 : 0;
    }
    if (known_count == FILES) {
        GIVE_UP("too many files in %s", root);
    }
    known[i].inode = file.st_ino;
    known[i].descriptor = descriptor;
    known_count++;
    return i + 1;
}

static const char *copy_path(uint32_t identity, char *path) {
    snprintf(path, PATH, "%s/%u", copies_folder, identity);
    return path;
}

static void list_folder(int folder, listing_t *listing) {
    char path[PATH];
    listing->count = 0;
    DIR *directory = opendir(folder_path(folder, path));
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        uint32_t identity = identity_of(dirfd(directory), entry->d_name);
        if (identity == 0) {
            continue;
        }
        if (listing->count == NAMES) {
            GIVE_UP("too many names in %s", path);
        }
        snprintf(listing->names[listing->count].name, sizeof listing->names[0].name, "%s", entry->d_name);
        listing->names[listing->count++].identity = identity;
    }
    if (directory != NULL) {
        closedir(directory);
    }
}

void disk_begin(const char *folder, const char *copies) {
    struct rlimit descriptors; /* one for each file that is known */
    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
        descriptors.rlim_cur = descriptors.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &descriptors);
    }
    remove_tree(copies);
    make_folder(copies);
    snprintf(root, sizeof root, "%s", folder);
    snprintf(copies_folder, sizeof copies_folder, "%s", copies);
    while (known_count > 0) {
        close(known[--known_count].descriptor);
    }
    memset(syncs, 0, sizeof syncs);
    for (int i = 0; i < FOLDERS; i++) {
        list_folder(i, &durable[i]);
        for (uint32_t name = 0; name < durable[i].count; name++) {
            char from[2 * PATH], path[PATH], to[PATH];
            snprintf(from, sizeof from, "%s/%s", folder_path(i, path), durable[i].names[name].name);
            copy_file(from, copy_path(durable[i].names[name].identity, to));
        }
    }
}

void disk_sync_begins(pid_t thread, const char *path) {
    struct stat file;
    uint32_t i = 0;
    while (i < SYNCS && syncs[i].thread != 0) {
        i++;
    }
    if (i == SYNCS) {
        GIVE_UP("too many syncs at a time");
    }
    if (stat(path, &file) != 0) {
        return;
    }
    syncs[i].thread = thread;
    syncs[i].folder = -1;
    if (S_ISDIR(file.st_mode)) {
        char journal[PATH];
        struct stat other;
        int is_journal = stat(folder_path(1, journal), &other) == 0 && other.st_ino == file.st_ino;
        syncs[i].folder = is_journal;
        syncs[i].listing = malloc(sizeof *syncs[i].listing);
        list_folder(is_journal, syncs[i].listing);
        return;
    }
    char copy[PATH];
    syncs[i].identity = identity_of(AT_FDCWD, path);
    snprintf(copy, sizeof copy, "%s/sync-%d", copies_folder, (int)thread);
    copy_file(path, copy);
}

void disk_sync_ended(pid_t thread, int well) {
    for (uint32_t i = 0; i < SYNCS; i++) {
        if (syncs[i].thread != thread) {
            continue;
        }
        if (syncs[i].folder >= 0) {
            if (well) {
                durable[syncs[i].folder] = *syncs[i].listing;
            }
            free(syncs[i].listing);
        } else if (well) {
            char copy[PATH], path[PATH];
            snprintf(copy, sizeof copy, "%s/sync-%d", copies_folder, (int)thread);
            if (rename(copy, copy_path(syncs[i].identity, path)) != 0) {
                GIVE_UP("cannot rename %s", copy);
            }
        }
        memset(&syncs[i], 0, sizeof syncs[i]);
        return;
    }
}

/* A file of which some blocks are as they were synced, the others as they are. */
static void mix(const char *synced, const char *now, const char *to, uint64_t *random) {
    size_t lengths[2];
    uint8_t *bytes[2] = {read_file(synced, &lengths[0]), read_file(now, &lengths[1])};
    size_t length = lengths[random_below(random, 2)];
    uint8_t *mixed = calloc(1, length + 1);
    for (size_t at = 0; at < length; at += BLOCK) {
        int which = (int)random_below(random, 2);
        size_t block = length - at < BLOCK ? length - at : BLOCK;
        if (at < lengths[which]) {
            memcpy(mixed + at, bytes[which] + at, lengths[which] - at < block ? lengths[which] - at : block);
        }
    }
    write_file(to, mixed, length);
    free(mixed);
    free(bytes[0]);
    free(bytes[1]);
}

/* The system is started anew: what a journal's ring says of that (docs/journal-format.md) is another start. */
static void start_anew(const char *ring) {
    enum { BOOT_ID = 40 };
    size_t length;
    uint8_t *bytes = read_file(ring, &length);
    if (length > BOOT_ID) {
        bytes[BOOT_ID] = 'x'; /* no digit, and after a second cut the same */
        write_file(ring, bytes, length);
    }
    free(bytes);
}

void disk_cut(uint64_t *random) {
    char after[PATH], path[PATH];
    snprintf(after, sizeof after, "%s.after", root);
    make_folder(after);
    static listing_t now[FOLDERS];
    for (int i = 0; i < FOLDERS; i++) {
        list_folder(i, &now[i]);
        if (i == 1 && now[1].count == 0 && durable[1].count == 0) {
            continue;
        }
        if (i == 1) {
            char journal[2 * PATH];
            snprintf(journal, sizeof journal, "%s/journal", after);
            make_folder(journal);
        }
        const listing_t *names = random_below(random, 2) == 0 ? &now[i] : &durable[i];
        for (uint32_t name = 0; name < names->count; name++) {
            char synced[PATH], to[3 * PATH], current[2 * PATH] = "";
            snprintf(to, sizeof to, "%s%s/%s", after, i == 0 ? "" : "/journal", names->names[name].name);
            for (uint32_t other = 0; other < now[i].count; other++) {
                if (now[i].names[other].identity == names->names[name].identity) {
                    snprintf(current, sizeof current, "%s/%s", folder_path(i, path), now[i].names[other].name);
                }
            }
            copy_path(names->names[name].identity, synced);
            uint64_t choice = random_below(random, 4);
            if (choice == 0 || current[0] == 0) {
                copy_file(synced, to);
            } else if (choice == 1) {
                copy_file(current, to);
            } else {
                mix(synced, current, to, random);
            }
            if (strcmp(names->names[name].name, "journal.ring") == 0) {
                start_anew(to);
            }
        }
    }
    remove_tree(root);
    if (rename(after, root) != 0) {
        GIVE_UP("cannot rename %s", after);
    }
}
