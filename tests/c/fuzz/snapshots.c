/* Snapshots in memory and in files: saved, loaded, read by themselves, damaged. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>

static char folder[] = "/tmp/mmsb-fuzz-XXXXXX";

void make_folder(void) {
    REQUIRE(mkdtemp(folder) != NULL);
}

void end_folder(void) {
    remove_files(folder);
    rmdir(folder);
}

/* Path of a context's file in the folder; valid until the fourth next call. */
const char *file_of(int index, const char *name) {
    static char paths[4][128];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s-%d", folder, name, index);
    return paths[next];
}

void remove_files(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] != '.' && unlinkat(dirfd(directory), entry->d_name, 0) != 0) {
            char inner[512];
            snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
            remove_files(inner);
            rmdir(inner);
        }
    }
    closedir(directory);
}

mmsb_save_options_t any_save_options(void) {
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.not_durable = 1;
    options.compression = chance(30) ? MMSB_COMPRESSION_ZSTD : MMSB_COMPRESSION_NONE;
    return options;
}

/* The pages of a context have been replaced by those of a snapshot of the state that the model has. Adopted ones stay adopted. */
static void pages_replaced(int index, int released_before) {
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle == 0 || page->context != index) {
            continue;
        }
        SAME(mmsb_page_size(page->handle), 0);
        remember_stale(MMSB_KIND_PAGE, page->handle);
        SAME(mmsb_page_lookup(contexts[index].handle, page->id, &page->handle), MMSB_OK);
        check_version(page, MOVES);
        page->exposed = 1;
        contexts[index].frees++;
        contexts[index].allocations++;
    }
    SAME(releases, released_before);
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == index) {
            check_page(&pages[i]);
            check_metadata(&pages[i]);
            check_edges(&pages[i]);
        }
    }
    check_context(index);
}

/* What a load says of the pages of a context that it would replace. */
static mmsb_status_t can_be_replaced(int index) {
    mmsb_status_t code = MMSB_OK;
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle == 0 || pages[i].context != index) {
            continue;
        }
        if (pages[i].read_only) {
            return MMSB_E_INVALID_STATE;
        }
        if (pinned(&pages[i])) {
            code = MMSB_E_BUSY;
        }
    }
    return code;
}

void fuzz_snapshot(void) {
    int index = any_context();
    mmsb_context_t handle = contexts[index].handle;
    mmsb_save_options_t options = any_save_options();
    void *memory = NULL;
    uint64_t length = 0;
    if (chance(15)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_snapshot_save_memory(bad.handle, &options, &memory, &length), bad.code);
        CALL(mmsb_snapshot_load_memory(bad.handle, &options, sizeof options, NULL), bad.code);
        return;
    }
    if (chance(15)) {
        options.compression_level = options.compression ? 5 : 1;
        CALL(mmsb_snapshot_save_memory(handle, &options, &memory, &length), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_snapshot_save_memory(handle, &options, &memory, &length), MMSB_OK);
    if (chance(30)) { /* a byte of it is wrong: nothing changes */
        ((uint8_t *)memory)[below(length)] ^= (uint8_t)(1 + below(255));
        CALL_EITHER(mmsb_snapshot_load_memory(handle, memory, length, NULL), MMSB_E_CORRUPT, MMSB_E_FORMAT);
    } else {
        int before = releases;
        if (CALL(mmsb_snapshot_load_memory(handle, memory, length, NULL), can_be_replaced(index)) == MMSB_OK) {
            pages_replaced(index, before);
            contexts[index].branched = contexts[index].journalled;
            for (int i = 0; i < PAGES; i++) { /* a branch of the journal begins with all bytes */
                pages[i].raw &= pages[i].context != index;
            }
        }
    }
    CALL(mmsb_snapshot_free_memory(memory), MMSB_OK);
    CALL(mmsb_snapshot_free_memory(memory), MMSB_E_STALE_HANDLE);
    check_context(index);
}

/* A snapshot's file by all functions that read one, against the model's pages. */
static void read_snapshot(mmsb_snapshot_t snapshot, int index) {
    mmsb_snapshot_info_t info;
    mmsb_snapshot_info_init(&info);
    CALL(mmsb_snapshot_info(snapshot, &info), MMSB_OK);
    mmsb_snapshot_page_t found[8];
    uint64_t cursor = 0, count = 0;
    size_t got = 0;
    do {
        CALL(mmsb_snapshot_pages(snapshot, &cursor, found, 8, &got), MMSB_OK);
        count += got;
    } while (got > 0);
    SAME(count, info.pages);
    SAME(context_stats(contexts[index].handle).pages, count);
    CALL(mmsb_snapshot_pages(snapshot, &cursor, found, 0, &got), MMSB_E_INVALID_ARGUMENT);
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle == 0 || page->context != index) {
            continue;
        }
        CALL(mmsb_snapshot_find(snapshot, page->id, &found[0]), MMSB_OK);
        SAME(found[0].size, page->size);
        SAME(found[0].version, page->version);
        CALL(mmsb_snapshot_read(snapshot, page->id, 0, buffer, page->size), MMSB_OK);
        SAME(memcmp(buffer, page->bytes, page->size), 0);
        CALL(mmsb_snapshot_read(snapshot, page->id, page->size, buffer, 1), MMSB_E_OUT_OF_RANGE);
        const void *bytes = NULL;
        uint64_t length = 0;
        if (CALL_EITHER(mmsb_snapshot_view(snapshot, page->id, &bytes, &length), MMSB_OK, MMSB_E_UNSUPPORTED) == MMSB_OK) {
            SAME(length, page->size);
            SAME(memcmp(bytes, page->bytes, page->size), 0);
        }
        CALL(mmsb_snapshot_metadata(snapshot, page->id, buffer, sizeof buffer, &got), MMSB_OK);
    }
    uint64_t free_id = ((uint64_t)1 << 59) + below(1000);
    CALL(mmsb_snapshot_find(snapshot, free_id, &found[0]), MMSB_E_NOT_FOUND);
    CALL(mmsb_snapshot_read(snapshot, free_id, 0, buffer, 1), MMSB_E_NOT_FOUND);
    CALL(mmsb_snapshot_find(snapshot, free_id, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_snapshot_change_t changes[4];
    CALL(mmsb_snapshot_diff(snapshot, snapshot, NULL, changes, 4, &got), MMSB_OK);
    SAME(got, 0);
}

void fuzz_snapshot_file(void) {
    int index = any_context();
    mmsb_context_t handle = contexts[index].handle;
    mmsb_save_options_t options = any_save_options();
    mmsb_save_stats_t stats;
    mmsb_save_stats_init(&stats);
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    mmsb_snapshot_t snapshot = 0;
    mmsb_ticket_t ticket = 0;
    const char *path = file_of(index, "read"), *copy = file_of(index, "compact");
    CALL(mmsb_snapshot_save_start(handle, path, &options, NULL, &ticket), MMSB_OK);
    CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
    CALL(mmsb_ticket_destroy(ticket), MMSB_OK);
    CALL(mmsb_context_save_stats(handle, &stats), MMSB_OK);
    SAME(stats.saves > 0, 1);
    CALL(mmsb_snapshot_verify(path, NULL), MMSB_OK);
    CALL(mmsb_snapshot_open(path, &snapshot), MMSB_OK);
    read_snapshot(snapshot, index);
    CALL(mmsb_snapshot_compact(path, copy, NULL), MMSB_OK);
    CALL(mmsb_snapshot_close(snapshot), MMSB_OK);
    CALL(mmsb_snapshot_close(snapshot), MMSB_E_STALE_HANDLE);
    CALL(mmsb_snapshot_info(snapshot, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_find(snapshot, 1, &(mmsb_snapshot_page_t){0}), MMSB_E_STALE_HANDLE);
    CALL(mmsb_snapshot_close(0), MMSB_OK);
    /* A file that is its own base, an unknown option, an empty path, descriptors that are none. */
    options.base = path;
    options.base_in_use = MMSB_BASE_IN_USE_REFUSE;
    CALL(mmsb_snapshot_save(handle, path, &options), MMSB_E_BUSY);
    options.base_in_use = MMSB_BASE_IN_USE_WHOLE;
    CALL(mmsb_snapshot_save(handle, path, &options), MMSB_OK);
    options.base = NULL;
    options.raw_writes = MMSB_RAW_WRITES_WAIT + 1;
    CALL(mmsb_snapshot_save(handle, path, &options), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_save(handle, "", NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_save_descriptor(handle, -1, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_load_descriptor(handle, -1, NULL), MMSB_E_INVALID_ARGUMENT);
    load.mode = MMSB_LOAD_IN_PLACE + 1;
    CALL(mmsb_snapshot_load(handle, path, &load), MMSB_E_INVALID_ARGUMENT);
    load.mode = MMSB_LOAD_EAGER;
    load.journal_epoch = 1;
    CALL(mmsb_snapshot_load_start(handle, path, &load, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_open("/nowhere/at all", &snapshot), MMSB_E_NOT_FOUND);
    CALL(mmsb_snapshot_verify(folder, NULL), MMSB_E_IO);
    mmsb_journal_info_t journal;
    mmsb_journal_info_init(&journal);
    CALL(mmsb_journal_info(handle, &journal), contexts[index].journalled ? MMSB_OK : MMSB_E_INVALID_STATE);
    if (!contexts[index].journalled) {
        CALL(mmsb_journal_trim(handle, path, NULL), MMSB_E_INVALID_STATE);
        CALL(mmsb_journal_close(handle), MMSB_E_INVALID_STATE);
    }
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) {
        CALL(mmsb_snapshot_save_descriptor(handle, null, NULL), MMSB_OK);
        close(null);
    }
    check_context(index);
}
