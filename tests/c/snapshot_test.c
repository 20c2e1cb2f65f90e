/* Snapshots: saved and loaded by path, descriptor, memory and ticket; read without a context; what bad arguments and files do. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *program;

/* ------------------------------------------------------------------------------------------------------- states ---- */

static const uint64_t sizes[] = {1, 63, 64, 255, 256, 4095, 4096, 4097, 70000, 262144, 262145, 1000003};
enum { COUNT = sizeof sizes / sizeof sizes[0] };

/* Pages of all sizes, with ids from 1 on, bytes, a delta each, metadata, and dependencies in a row. */
static mmsb_context_t new_state(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t before = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        mmsb_page_options_t options;
        mmsb_page_options_init(&options);
        options.id = i + 1;
        options.location = i % 5 == 4 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU;
        mmsb_page_t page = 0;
        REQUIRE_OK(mmsb_page_create(context, sizes[i], &options, &page));
        write_pattern(page, i);
        mmsb_run_t run = {sizes[i] - 1, 1};
        mmsb_delta_t delta = one_run(&run, "!");
        REQUIRE_OK(mmsb_page_apply(page, &delta));
        if (i % 2 == 0) {
            REQUIRE_OK(mmsb_page_metadata_set(page, "name", 4, "value", 5));
        }
        if (before != 0) {
            REQUIRE_OK(mmsb_page_dependency_add(before, page));
        }
        before = page;
    }
    return context;
}

static mmsb_page_t page_of(mmsb_context_t context, uint64_t id) {
    mmsb_page_t page = 0;
    CHECK_OK(mmsb_page_lookup(context, id, &page));
    return page;
}

/* Whether two contexts hold the same pages: bytes, epochs, places, masks, metadata, children; and versions, unless those of b are
 * above, because b had such pages before it loaded them. */
static void check_same_pages(mmsb_context_t a, mmsb_context_t b, int above) {
    uint64_t count_a = 0, count_b = 0;
    CHECK_OK(mmsb_context_page_count(a, &count_a));
    CHECK_OK(mmsb_context_page_count(b, &count_b));
    CHECK_EQUAL(count_a, count_b);
    uint64_t cursor = 0;
    mmsb_page_t pages[16];
    size_t count = 0;
    for (;;) {
        REQUIRE_OK(mmsb_context_pages(a, &cursor, pages, 16, &count));
        if (count == 0) {
            return;
        }
        for (size_t i = 0; i < count; i++) {
            mmsb_page_info_t one = page_info(pages[i]);
            mmsb_page_t twin = page_of(b, one.id);
            if (twin == 0) {
                continue;
            }
            mmsb_page_info_t other = page_info(twin);
            CHECK_EQUAL(other.size, one.size);
            CHECK_EQUAL(other.epoch, one.epoch);
            CHECK(above ? other.version > one.version : other.version == one.version);
            CHECK_EQUAL(other.location, one.location);
            CHECK_EQUAL(other.metadata_count, one.metadata_count);
            uint8_t *bytes = malloc(2 * one.size);
            REQUIRE(bytes != NULL);
            CHECK_OK(mmsb_page_read(pages[i], 0, bytes, one.size));
            CHECK(page_holds(twin, bytes, one.size));
            memset(bytes, 0, 2 * one.size);
            CHECK_OK(mmsb_page_mask_read(pages[i], 0, bytes, one.size));
            CHECK_OK(mmsb_page_mask_read(twin, 0, bytes + one.size, one.size));
            CHECK(memcmp(bytes, bytes + one.size, (one.size + 7) / 8) == 0);
            free(bytes);
            size_t children = 0, other_children = 0;
            CHECK_OK(mmsb_page_children(pages[i], NULL, 0, &children));
            CHECK_OK(mmsb_page_children(twin, NULL, 0, &other_children));
            CHECK_EQUAL(other_children, children);
        }
    }
}

static void check_same_state(mmsb_context_t a, mmsb_context_t b) {
    check_same_pages(a, b, 0);
}

static mmsb_context_t loaded(const char *path, int32_t mode) {
    mmsb_context_t context = new_context();
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.mode = mode;
    CHECK_OK(mmsb_snapshot_load(context, path, &options));
    return context;
}

/* --------------------------------------------------------------------------------------------- saving and loading ---- */

static void what_is_saved_comes_back(void) {
    mmsb_context_t context = new_state();
    for (int32_t compression = MMSB_COMPRESSION_NONE; compression <= MMSB_COMPRESSION_ZSTD; compression++) {
        mmsb_save_options_t options;
        mmsb_save_options_init(&options);
        options.compression = compression;
        options.not_durable = compression;
        CHECK_OK(mmsb_snapshot_save(context, at("state"), &options));
        CHECK_EQUAL(files_in_folder(), 1);
        CHECK_OK(mmsb_snapshot_verify(at("state"), NULL));
        for (int32_t mode = MMSB_LOAD_EAGER; mode <= MMSB_LOAD_LAZY; mode++) {
            mmsb_context_t again = loaded(at("state"), mode);
            check_same_state(context, again);
            CHECK_OK(mmsb_context_destroy(again));
        }
    }
    mmsb_save_stats_t stats;
    mmsb_save_stats_init(&stats);
    CHECK_OK(mmsb_context_save_stats(context, &stats));
    CHECK_EQUAL(stats.saves, 2);
    CHECK_EQUAL(stats.last_pages, COUNT);
    CHECK_EQUAL(stats.waits, 0);
    struct stat file;
    CHECK(stat(at("state"), &file) == 0);
    CHECK_EQUAL(stats.last_bytes, file.st_size);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_load_replaces_all_pages_or_none(void) {
    mmsb_context_t context = new_state();
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    mmsb_page_t old[COUNT];
    uint64_t versions[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        old[i] = page_of(context, i + 1);
        write_pattern(old[i], 77);
        versions[i] = mmsb_page_version(old[i]);
    }
    mmsb_page_t added = new_page(context, 10);
    CHECK_OK(mmsb_page_pin(old[3], MMSB_PIN_READ, NULL));
    CHECK_STATUS(mmsb_snapshot_load(context, at("state"), NULL), MMSB_E_BUSY);
    CHECK(page_holds_pattern(old[3], 77, sizes[3]));
    CHECK_EQUAL(mmsb_page_size(added), 10);
    CHECK_OK(mmsb_page_unpin(old[3], MMSB_PIN_READ));

    /* A pinned page that is not chosen is in nobody's way. */
    CHECK_OK(mmsb_page_pin(old[3], MMSB_PIN_WRITE, NULL));
    const uint64_t ids[] = {3, 5};
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.page_ids = ids;
    options.page_count = 2;
    CHECK_OK(mmsb_snapshot_load(context, at("state"), &options));
    CHECK_STATUS(mmsb_page_read(old[2], 0, &(char){0}, 1), MMSB_E_STALE_HANDLE);
    CHECK(!page_holds_pattern(page_of(context, 3), 77, sizes[2]));
    CHECK(page_holds_pattern(page_of(context, 3), 2, sizes[2] - 1));
    CHECK(page_holds_pattern(old[3], 77, sizes[3]));
    CHECK_EQUAL(mmsb_page_size(added), 10);
    options.page_count = 0;
    CHECK_OK(mmsb_snapshot_load(context, at("state"), &options));
    CHECK(page_holds_pattern(old[3], 77, sizes[3]));
    const uint64_t wrong[] = {3, 999};
    options.page_ids = wrong;
    options.page_count = 2;
    mmsb_page_t third = page_of(context, 3);
    CHECK_STATUS(mmsb_snapshot_load(context, at("state"), &options), MMSB_E_NOT_FOUND);
    CHECK_EQUAL(mmsb_page_size(third), sizes[2]);
    CHECK_OK(mmsb_page_unpin(old[3], MMSB_PIN_WRITE));

    CHECK_OK(mmsb_snapshot_load(context, at("state"), NULL));
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK_STATUS(mmsb_page_unpin(old[i], MMSB_PIN_READ), MMSB_E_STALE_HANDLE);
        CHECK(mmsb_page_version(page_of(context, i + 1)) > versions[i]);
    }
    CHECK_STATUS(mmsb_page_destroy(added), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(context_stats(context).pages, COUNT);
    mmsb_context_t again = loaded(at("state"), MMSB_LOAD_EAGER);
    check_same_pages(again, context, 1);
    uint64_t version = mmsb_page_version(page_of(context, 1));
    write_pattern(page_of(context, 1), 5);
    CHECK(mmsb_page_version(page_of(context, 1)) > version);
    CHECK_OK(mmsb_context_destroy(again));
    CHECK_OK(mmsb_context_destroy(context));
}

/* A load of the snapshot that somebody has looked at, and not of another one that has its path by now. */
static void a_load_can_name_its_snapshot(void) {
    mmsb_context_t context = new_state();
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    mmsb_snapshot_t looked_at;
    mmsb_snapshot_info_t info;
    mmsb_snapshot_info_init(&info);
    CHECK_OK(mmsb_snapshot_open(at("state"), &looked_at));
    CHECK_OK(mmsb_snapshot_info(looked_at, &info));
    write_pattern(page_of(context, 3), 77);
    for (int mode = MMSB_LOAD_EAGER; mode <= MMSB_LOAD_IN_PLACE; mode++) {
        mmsb_load_options_t options;
        mmsb_load_options_init(&options);
        options.mode = mode;
        memcpy(options.snapshot_id, info.id, sizeof info.id);
        mmsb_context_t again = new_context();
        CHECK_OK(mmsb_snapshot_load(again, at("state"), &options));
        mmsb_page_t third = page_of(again, 3);
        CHECK(page_holds_pattern(third, 2, sizes[2] - 1));
        CHECK_OK(mmsb_snapshot_save(context, at("other"), NULL));
        CHECK_STATUS(mmsb_snapshot_load(again, at("other"), &options), MMSB_E_MISMATCH);
        options.snapshot_id[15] ^= 1;
        CHECK_STATUS(mmsb_snapshot_load(again, at("state"), &options), MMSB_E_MISMATCH);
        CHECK(strstr(mmsb_last_error(), "what is to be loaded is snapshot ") != NULL);
        CHECK(page_holds_pattern(third, 2, sizes[2] - 1));
        memset(options.snapshot_id, 0, sizeof options.snapshot_id);
        CHECK_OK(mmsb_snapshot_load(again, at("other"), &options));
        CHECK(page_holds_pattern(page_of(again, 3), 77, sizes[2]));
        CHECK_OK(mmsb_context_destroy(again));
    }
    CHECK_OK(mmsb_snapshot_close(looked_at));
    CHECK_OK(mmsb_context_destroy(context));
}

static void descriptors_and_memory(void) {
    mmsb_context_t context = new_state();
    void *memory = NULL;
    uint64_t length = 0;
    CHECK_OK(mmsb_snapshot_save_memory(context, NULL, &memory, &length));
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 1);
    CHECK(length > 8192 && memcmp(memory, "MMSBSNAP", 8) == 0);
    mmsb_context_t again = new_context();
    CHECK_OK(mmsb_snapshot_load_memory(again, memory, length, NULL));
    check_same_state(context, again);
    for (uint64_t cut = 0; cut < length; cut += length / 37 + 1) {
        CHECK(mmsb_snapshot_load_memory(again, memory, cut, NULL) != MMSB_OK);
    }
    CHECK_STATUS(mmsb_snapshot_load_memory(again, NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_load_memory(again, memory, UINT64_MAX, NULL), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_snapshot_free_memory((char *)memory + 1), MMSB_E_STALE_HANDLE);

    /* A file, from its position on, and back from there. */
    int file = open(at("file"), O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0 && write(file, "before", 6) == 6);
    CHECK_OK(mmsb_snapshot_save_descriptor(context, file, NULL));
    CHECK_EQUAL(lseek(file, 0, SEEK_CUR), lseek(file, 0, SEEK_END));
    CHECK(lseek(file, 6, SEEK_SET) == 6);
    CHECK_OK(mmsb_snapshot_load_descriptor(again, file, NULL));
    check_same_pages(context, again, 1);
    CHECK_STATUS(mmsb_snapshot_load_descriptor(again, file, NULL), MMSB_E_CORRUPT); /* nothing is left to read */
    close(file);

    /* A pipe; the child writes what was saved to memory. */
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        uint64_t written = 0;
        while (written < length) {
            ssize_t n = write(ends[1], (char *)memory + written, length - written);
            if (n < 0 && errno != EINTR) {
                _exit(1);
            }
            written += n > 0 ? (uint64_t)n : 0;
        }
        _exit(0);
    }
    close(ends[1]);
    CHECK_OK(mmsb_snapshot_load_descriptor(again, ends[0], NULL));
    close(ends[0]);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    check_same_pages(context, again, 1);

    /* Nobody reads. */
    signal(SIGPIPE, SIG_IGN);
    REQUIRE(pipe(ends) == 0);
    close(ends[0]);
    CHECK_STATUS(mmsb_snapshot_save_descriptor(context, ends[1], NULL), MMSB_E_IO);
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_OK(mmsb_last_error_detail(&detail));
    CHECK(detail.domain == MMSB_DOMAIN_ERRNO && detail.foreign_code == EPIPE);
    close(ends[1]);
    CHECK_STATUS(mmsb_snapshot_save_descriptor(context, -1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK(mmsb_snapshot_save_descriptor(context, 987654, NULL) != MMSB_OK);
    CHECK(mmsb_snapshot_load_descriptor(context, 987654, NULL) != MMSB_OK);

    CHECK_OK(mmsb_snapshot_free_memory(memory));
    CHECK_STATUS(mmsb_snapshot_free_memory(memory), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_snapshot_free_memory(NULL));
    CHECK_OK(mmsb_context_destroy(again));
    CHECK_OK(mmsb_context_destroy(context));
}

static void tickets(void) {
    mmsb_context_t context = new_state();
    mmsb_context_t again = new_context();
    mmsb_ticket_t saving = 0, loading = 0;
    CHECK_OK(mmsb_snapshot_save_start(context, at("state"), NULL, NULL, &saving));
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.after = &saving;
    work.after_count = 1;
    uint64_t ids[] = {2, 4};
    char path[256];
    snprintf(path, sizeof path, "%s", at("state"));
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.page_ids = ids;
    options.page_count = 2;
    CHECK_OK(mmsb_snapshot_load_start(again, path, &options, &work, &loading));
    ids[0] = 999; /* all of it was copied */
    memset(path, 'x', sizeof path - 1);
    CHECK_OK(mmsb_ticket_wait(loading, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(context_stats(again).pages, 2);
    uint64_t done = 0, total = 0;
    CHECK_OK(mmsb_ticket_progress(saving, &done, &total));
    CHECK(done == total && total >= 1000000);
    CHECK_OK(mmsb_ticket_destroy(loading));
    CHECK_OK(mmsb_ticket_destroy(saving));

    /* Errors of the arguments come at once, of the file through the ticket. */
    mmsb_ticket_t ticket = 42;
    CHECK_STATUS(mmsb_snapshot_save_start(context, "", NULL, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_save_start(context, at("x"), NULL, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_load_start(0, at("x"), NULL, NULL, &ticket), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(ticket, 42);
    CHECK_OK(mmsb_snapshot_load_start(context, at("none"), NULL, NULL, &ticket));
    CHECK_STATUS(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_E_NOT_FOUND);
    CHECK_OK(mmsb_ticket_destroy(ticket));

    /* A save that is cancelled leaves the file that was there; one that is just done is fine, too. */
    struct stat before, after;
    CHECK(stat(at("state"), &before) == 0);
    new_page(context, 64 << 20);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(mmsb_snapshot_save_start(context, at("state"), NULL, NULL, &ticket));
        CHECK_OK(mmsb_ticket_cancel(ticket));
        mmsb_status_t status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
        CHECK(status == MMSB_OK || status == MMSB_E_CANCELLED);
        CHECK(stat(at("state"), &after) == 0);
        CHECK(status == MMSB_OK || after.st_ino == before.st_ino);
        before = after;
        CHECK_OK(mmsb_ticket_destroy(ticket));
        CHECK_EQUAL(files_in_folder(), 1);
    }
    CHECK_OK(mmsb_context_destroy(again));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------------------- a chain ---- */

static void save_on(mmsb_context_t context, const char *path, const char *base) {
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.base = base;
    options.not_durable = 1;
    CHECK_OK(mmsb_snapshot_save(context, path, &options));
}

static mmsb_snapshot_info_t info_of(mmsb_snapshot_t snapshot) {
    mmsb_snapshot_info_t info;
    mmsb_snapshot_info_init(&info);
    CHECK_OK(mmsb_snapshot_info(snapshot, &info));
    return info;
}

static mmsb_snapshot_t opened(const char *path) {
    mmsb_snapshot_t snapshot = 0;
    CHECK_OK(mmsb_snapshot_open(path, &snapshot));
    return snapshot;
}

static void a_chain_holds_what_changed(void) {
    mmsb_context_t context = new_state();
    mmsb_page_t many[500];
    REQUIRE_OK(mmsb_page_create_many(context, 4096, 500, NULL, NULL, many));
    uint8_t *array = malloc(4 << 20); /* the program's own memory, written through a pointer */
    REQUIRE(array != NULL);
    memset(array, 1, 4 << 20);
    mmsb_adopt_options_t adopt;
    mmsb_adopt_options_init(&adopt);
    adopt.id = 100000;
    mmsb_page_t adopted = 0;
    REQUIRE_OK(mmsb_page_adopt(context, array, 4 << 20, &adopt, &adopted));
    CHECK_OK(mmsb_snapshot_save(context, at("0"), NULL));

    array[3 << 20] = 2;
    write_pattern(many[7], 7);
    uint64_t removed = page_info(many[8]).id, changed = page_info(many[7]).id;
    CHECK_OK(mmsb_page_destroy(many[8]));
    CHECK_OK(mmsb_page_metadata_set(many[9], "k", 1, "v", 1));
    uint64_t other = page_info(many[9]).id;
    save_on(context, at("1"), at("0"));
    mmsb_context_t again = loaded(at("1"), MMSB_LOAD_EAGER);
    check_same_state(context, again);
    CHECK_OK(mmsb_context_destroy(again));
    save_on(context, at("2"), at("1"));

    mmsb_snapshot_t zero = opened(at("0")), one = opened(at("1")), two = opened(at("2"));
    mmsb_snapshot_info_t base = info_of(zero), info = info_of(one);
    CHECK_EQUAL(info.format, 4);
    CHECK_EQUAL(info.chain, 2);
    CHECK(memcmp(info.base, base.id, 16) == 0 && memcmp(info.id, base.id, 16) != 0);
    CHECK_EQUAL(info.pages, COUNT + 500);
    CHECK_EQUAL(info.bytes, base.bytes - 4096);
    CHECK_EQUAL(info.edges, COUNT - 1);
    CHECK_EQUAL(base.file_pages, COUNT + 501);
    CHECK(info.file_pages >= 3 && info.file_pages < 10);
    CHECK(info.file_bytes < base.file_bytes / 4);
    CHECK_EQUAL(info_of(two).chain, 3);
    CHECK(info_of(two).file_bytes <= info.file_bytes);

    mmsb_snapshot_change_t changes[8];
    size_t count = 0;
    CHECK_OK(mmsb_snapshot_diff(zero, one, NULL, NULL, 0, &count));
    CHECK_EQUAL(count, 4);
    CHECK_STATUS(mmsb_snapshot_diff(zero, one, NULL, changes, 3, &count), MMSB_E_OUT_OF_RANGE);
    CHECK_OK(mmsb_snapshot_diff(zero, one, NULL, changes, 8, &count));
    for (size_t i = 0; i < count && count == 4; i++) {
        CHECK(i == 0 || changes[i].id > changes[i - 1].id);
        int32_t expected = changes[i].id == removed                                ? MMSB_CHANGE_REMOVED
                           : changes[i].id == changed || changes[i].id == adopt.id ? MMSB_CHANGE_BYTES
                           : changes[i].id == other                                ? MMSB_CHANGE_OTHER
                                                                                   : -1;
        CHECK_EQUAL(changes[i].change, expected);
    }
    CHECK_OK(mmsb_snapshot_diff(one, zero, NULL, changes, 8, &count));
    CHECK_EQUAL(count, 4);
    CHECK_OK(mmsb_snapshot_diff(one, two, NULL, NULL, 0, &count));
    CHECK_EQUAL(count, 0);
    CHECK_OK(mmsb_snapshot_diff(one, one, NULL, NULL, 0, &count));
    CHECK_EQUAL(count, 0);
    uint8_t byte = 0;
    CHECK_OK(mmsb_snapshot_read(one, adopt.id, 3 << 20, &byte, 1));
    CHECK_EQUAL(byte, 2);
    CHECK_OK(mmsb_snapshot_read(zero, adopt.id, 3 << 20, &byte, 1));
    CHECK_EQUAL(byte, 1);
    CHECK_OK(mmsb_snapshot_close(zero));
    CHECK_OK(mmsb_snapshot_close(one));
    CHECK_OK(mmsb_snapshot_close(two));

    CHECK_OK(mmsb_snapshot_compact(at("2"), at("whole"), NULL));
    mmsb_save_options_t refuse;
    mmsb_save_options_init(&refuse);
    refuse.base_in_use = MMSB_BASE_IN_USE_REFUSE;
    CHECK_STATUS(mmsb_snapshot_compact(at("2"), at("0"), &refuse), MMSB_E_BUSY);
    again = loaded(at("whole"), MMSB_LOAD_EAGER);
    check_same_state(context, again);
    CHECK_STATUS(mmsb_snapshot_load(again, at("none"), NULL), MMSB_E_NOT_FOUND);

    /* A state that does not come from the base; a base that is not there; one that is another snapshot. */
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    char base_path[256];
    snprintf(base_path, sizeof base_path, "%s", at("0"));
    options.base = base_path;
    mmsb_context_t stranger = new_context();
    CHECK_STATUS(mmsb_snapshot_save(stranger, at("3"), &options), MMSB_E_MISMATCH);
    snprintf(base_path, sizeof base_path, "%s", at("none"));
    CHECK_STATUS(mmsb_snapshot_save(context, at("3"), &options), MMSB_E_NOT_FOUND);
    CHECK(rename(at("whole"), at("1")) == 0);
    CHECK_STATUS(mmsb_snapshot_load(again, at("2"), NULL), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_snapshot_verify(at("2"), NULL), MMSB_E_MISMATCH);
    CHECK(unlink(at("1")) == 0);
    CHECK_STATUS(mmsb_snapshot_verify(at("2"), NULL), MMSB_E_NOT_FOUND);
    check_same_state(context, again);
    CHECK_EQUAL(files_in_folder(), 2);
    CHECK_OK(mmsb_context_destroy(stranger));
    CHECK_OK(mmsb_context_destroy(again));
    CHECK_OK(mmsb_context_destroy(context));
    free(array);
}

/* --------------------------------------------------------------------------------------------------- reading files ---- */

static void files_are_read_without_a_context(void) {
    mmsb_context_t context = new_state();
    struct timespec before, after;
    clock_gettime(CLOCK_REALTIME, &before);
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    clock_gettime(CLOCK_REALTIME, &after);
    CHECK_OK(mmsb_context_destroy(context));
    mmsb_snapshot_t snapshot = opened(at("state"));
    CHECK_EQUAL(check_live(MMSB_KIND_SNAPSHOT), 1);
    mmsb_snapshot_info_t info = info_of(snapshot);
    CHECK(info.taken_ns / 1000000000 >= before.tv_sec && info.taken_ns / 1000000000 <= after.tv_sec);
    CHECK_EQUAL(info.pages, COUNT);
    for (size_t capacity = 1; capacity <= COUNT + 1; capacity += 4) {
        uint64_t cursor = 0, found = 0;
        mmsb_snapshot_page_t pages[COUNT + 1];
        size_t count = 0;
        do {
            REQUIRE_OK(mmsb_snapshot_pages(snapshot, &cursor, pages, capacity, &count));
            for (size_t i = 0; i < count; i++) {
                CHECK(pages[i].id >= 1 && pages[i].id <= COUNT && (found >> pages[i].id & 1) == 0);
                found |= 1ULL << pages[i].id;
                CHECK_EQUAL(pages[i].size, sizes[pages[i].id - 1]);
                CHECK_EQUAL(pages[i].epoch, 1);
                CHECK_EQUAL(pages[i].metadata_count, pages[i].id % 2);
            }
        } while (count > 0);
        CHECK_EQUAL(found, ((1ULL << COUNT) - 1) << 1);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        mmsb_snapshot_page_t page;
        CHECK_OK(mmsb_snapshot_find(snapshot, i + 1, &page));
        CHECK_EQUAL(page.location, i % 5 == 4 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU);
        uint8_t *expected = malloc(2 * sizes[i]);
        REQUIRE(expected != NULL);
        fill_pattern(expected, sizes[i], i);
        expected[sizes[i] - 1] = '!';
        CHECK_OK(mmsb_snapshot_read(snapshot, i + 1, 0, expected + sizes[i], sizes[i]));
        CHECK(memcmp(expected, expected + sizes[i], sizes[i]) == 0);
        CHECK_OK(mmsb_snapshot_read(snapshot, i + 1, sizes[i] / 2, expected + sizes[i], 1));
        CHECK_EQUAL(expected[sizes[i]], expected[sizes[i] / 2]);
        CHECK_OK(mmsb_snapshot_read(snapshot, i + 1, sizes[i], NULL, 0));
        CHECK_STATUS(mmsb_snapshot_read(snapshot, i + 1, sizes[i], expected, 1), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_snapshot_read(snapshot, i + 1, UINT64_MAX, expected, 1), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_snapshot_read(snapshot, i + 1, 0, expected, INT64_MAX), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_snapshot_read(snapshot, i + 1, 0, expected, UINT64_MAX), MMSB_E_INVALID_SIZE);
        const void *view = NULL;
        uint64_t length = 0;
        CHECK_OK(mmsb_snapshot_view(snapshot, i + 1, &view, &length));
        CHECK_EQUAL(length, sizes[i]);
        CHECK(((uintptr_t)view & (sizes[i] >= 4096 ? 4095 : sizes[i] >= 256 ? 255 : 63)) == 0);
        CHECK(memcmp(view, expected, sizes[i]) == 0);
        free(expected);
        char blob[64];
        size_t blob_length = 99;
        CHECK_OK(mmsb_snapshot_metadata(snapshot, i + 1, NULL, 0, &blob_length));
        CHECK(blob_length == (i % 2 == 0 ? 21 : 0));
        if (blob_length > 0) {
            CHECK_STATUS(mmsb_snapshot_metadata(snapshot, i + 1, blob, 20, &blob_length), MMSB_E_OUT_OF_RANGE);
            CHECK_OK(mmsb_snapshot_metadata(snapshot, i + 1, blob, sizeof blob, &blob_length));
            CHECK(memcmp(blob, "\1\0\0\0\4\0\0\0name\5\0\0\0value", 21) == 0);
        }
    }
    mmsb_snapshot_page_t page = {.id = 42};
    const void *view = &page;
    uint64_t length = 42;
    size_t blob_length = 42;
    CHECK_STATUS(mmsb_snapshot_find(snapshot, 0, &page), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_snapshot_find(snapshot, COUNT + 1, &page), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_snapshot_read(snapshot, COUNT + 1, 0, &page, 1), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_snapshot_view(snapshot, COUNT + 1, &view, &length), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_snapshot_metadata(snapshot, COUNT + 1, NULL, 0, &blob_length), MMSB_E_NOT_FOUND);
    CHECK(page.id == 42 && view == &page && length == 42 && blob_length == 42);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    CHECK_STATUS(mmsb_snapshot_close(snapshot), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_snapshot_close(0));
}

typedef struct readers {
    mmsb_snapshot_t snapshots[2];
    uint64_t reads;
} readers_t;

/* Closing waits for the calls that run; those that come later are refused. Two snapshots are compared both ways meanwhile. */
static void *read_or_close(void *argument) {
    team_member_t *member = argument;
    readers_t *readers = member->shared;
    if (member->index == 0) {
        while (__atomic_load_n(&readers->reads, __ATOMIC_RELAXED) < 20) {
            sched_yield();
        }
        CHECK_OK(mmsb_snapshot_close(readers->snapshots[0]));
        CHECK_OK(mmsb_snapshot_close(readers->snapshots[1]));
        return NULL;
    }
    mmsb_status_t status = MMSB_OK;
    uint8_t *bytes = malloc(sizes[COUNT - 1]);
    REQUIRE(bytes != NULL);
    while (status == MMSB_OK) {
        size_t count = 99;
        uint64_t first = member->index % 2;
        status = mmsb_snapshot_read(readers->snapshots[first], COUNT, 0, bytes, sizes[COUNT - 1]);
        if (status == MMSB_OK) {
            status = mmsb_snapshot_diff(readers->snapshots[first], readers->snapshots[1 - first], NULL, NULL, 0, &count);
        }
        CHECK(status != MMSB_OK || count == 0);
        __atomic_add_fetch(&readers->reads, 1, __ATOMIC_RELAXED);
    }
    CHECK_EQUAL(status, MMSB_E_STALE_HANDLE);
    free(bytes);
    return NULL;
}

static void closing_waits_for_calls(void) {
    mmsb_context_t context = new_state();
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    CHECK_OK(mmsb_context_destroy(context));
    for (int i = 0; i < 20; i++) {
        readers_t readers = {{opened(at("state")), opened(at("state"))}, 0};
        run_team(5, read_or_close, &readers);
    }
}

static void views_outlive_the_file_name(void) {
    mmsb_context_t context = new_state();
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    mmsb_snapshot_t snapshot = opened(at("state"));
    const void *view = NULL;
    uint64_t length = 0;
    CHECK_OK(mmsb_snapshot_view(snapshot, COUNT, &view, &length));
    write_pattern(page_of(context, COUNT), 99);
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL)); /* another file under the name */
    CHECK(((const uint8_t *)view)[5] == pattern_byte(COUNT - 1, 5));
    CHECK(unlink(at("state")) == 0);
    CHECK(((const uint8_t *)view)[length - 2] == pattern_byte(COUNT - 1, length - 2));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_snapshot_close(snapshot));
}

/* ------------------------------------------------------------------------------------------------------- bad input ---- */

static void bad_arguments(void) {
    mmsb_context_t context = new_state();
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    mmsb_save_options_t save;
    mmsb_load_options_t load;
#define REFUSED_SAVE(change, code) \
    do { \
        mmsb_save_options_init(&save); \
        save.change; \
        CHECK_STATUS(mmsb_snapshot_save(context, at("new"), &save), code); \
    } while (0)
#define REFUSED_LOAD(change, code) \
    do { \
        mmsb_load_options_init(&load); \
        load.change; \
        CHECK_STATUS(mmsb_snapshot_load(context, at("state"), &load), code); \
    } while (0)
    REFUSED_SAVE(struct_size = 0, MMSB_E_STRUCT_VERSION);
    REFUSED_SAVE(struct_size++, MMSB_E_STRUCT_VERSION);
    REFUSED_SAVE(reserved[1] = 1, MMSB_E_STRUCT_VERSION);
    REFUSED_SAVE(reserved_word = 1, MMSB_E_STRUCT_VERSION);
    REFUSED_SAVE(compression = -1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(compression = 2, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(compression_level = 1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(compression_level = -1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(raw_writes = 3, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(queue = 2, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(not_durable = 2, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(not_watched = 2, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(copy_limit = 1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(base_in_use = 2, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(chain_limit = 4097, MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(base = "", MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(base = "/elsewhere/base", MMSB_E_INVALID_ARGUMENT);
    REFUSED_SAVE(base = at("new"), MMSB_E_NOT_FOUND);
    REFUSED_LOAD(struct_size = 8, MMSB_E_STRUCT_VERSION);
    REFUSED_LOAD(reserved[0] = 1, MMSB_E_STRUCT_VERSION);
    REFUSED_LOAD(mode = 3, MMSB_E_INVALID_ARGUMENT);
    REFUSED_LOAD(mode = -1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_LOAD(page_count = 1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_LOAD(page_count = UINT64_MAX, MMSB_E_INVALID_SIZE);
    REFUSED_LOAD(page_ids = (const uint64_t *)1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_LOAD(journal = "", MMSB_E_INVALID_ARGUMENT);
    REFUSED_LOAD(journal_page = 1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_LOAD(journal_epoch = 1, MMSB_E_INVALID_ARGUMENT);
    REFUSED_LOAD(journal_until = 1, MMSB_E_INVALID_ARGUMENT); /* of no journal */
    REFUSED_LOAD(journal_until_time_ns = 1, MMSB_E_INVALID_ARGUMENT);
    mmsb_save_options_init(&save);
    save.base = at("state");
    void *memory = NULL;
    uint64_t length = 0;
    CHECK_STATUS(mmsb_snapshot_save_memory(context, &save, &memory, &length), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_save_descriptor(context, 1, &save), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_compact(at("state"), at("new"), &save), MMSB_E_INVALID_ARGUMENT);
    mmsb_save_options_init(&save);
    save.chain_limit = 2;
    CHECK_STATUS(mmsb_snapshot_compact(at("state"), at("new"), &save), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_save_memory(context, NULL, NULL, &length), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_save_memory(context, NULL, &memory, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_save(context, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_save(context, "", NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_load(context, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_load(context, "", NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_verify(NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_compact(at("state"), NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.reserved[0] = 1;
    CHECK_STATUS(mmsb_snapshot_verify(at("state"), &work), MMSB_E_STRUCT_VERSION);
    mmsb_work_options_init(&work);
    work.after = &(uint64_t){0};
    work.after_count = 1;
    CHECK_STATUS(mmsb_snapshot_verify(at("state"), &work), MMSB_E_INVALID_HANDLE);
    mmsb_work_options_init(&work);
    work.timeout_ns = UINT64_C(1000000000) * CHECK_PATIENCE;
    CHECK_OK(mmsb_snapshot_verify(at("state"), &work));
    mmsb_snapshot_t snapshot = 42;
    CHECK_STATUS(mmsb_snapshot_open("", &snapshot), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_open(at("state"), NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(snapshot, 42);
    snapshot = opened(at("state"));
    mmsb_snapshot_page_t page;
    uint64_t cursor = 0;
    size_t count = 0;
    CHECK_STATUS(mmsb_snapshot_pages(snapshot, NULL, &page, 1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_pages(snapshot, &cursor, NULL, 1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_pages(snapshot, &cursor, &page, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_pages(snapshot, &cursor, &page, SIZE_MAX, &count), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_snapshot_find(snapshot, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_read(snapshot, 1, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_view(snapshot, 1, NULL, &length), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_snapshot_diff(snapshot, 0, NULL, NULL, 0, &count), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_snapshot_diff(snapshot, snapshot, NULL, NULL, 1, &count), MMSB_E_INVALID_ARGUMENT);
    mmsb_snapshot_info_t info = {0};
    CHECK_STATUS(mmsb_snapshot_info(snapshot, &info), MMSB_E_STRUCT_VERSION);
    cursor = UINT64_MAX;
    CHECK_OK(mmsb_snapshot_pages(snapshot, &cursor, &page, 1, &count));
    CHECK_EQUAL(count, 0);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    mmsb_save_stats_t stats = {0};
    CHECK_STATUS(mmsb_context_save_stats(context, &stats), MMSB_E_STRUCT_VERSION);
    CHECK_EQUAL(files_in_folder(), 1);
    CHECK_OK(mmsb_context_destroy(context));
}

/* What a path may lead to, and what each answers: to saving, and to reading. */
static void odd_paths(void) {
    mmsb_context_t context = new_state();
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    CHECK(mkdir(at("folder"), 0700) == 0);
    CHECK(mkfifo(at("fifo"), 0600) == 0);
    CHECK(symlink("state", at("link")) == 0);
    int foreign = open(at("foreign"), O_WRONLY | O_CREAT, 0600);
    REQUIRE(foreign >= 0 && write(foreign, "\x89PNG\r\n\x1a\n0123456789", 18) == 18 && close(foreign) == 0);
    CHECK(close(open(at("empty"), O_WRONLY | O_CREAT, 0600)) == 0);
    static const char *const names[] = {"folder", "fifo", "link", "foreign", "empty", "none", "folder/none", "state/below"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        mmsb_snapshot_t snapshot = 42;
        mmsb_status_t status = mmsb_snapshot_open(at(names[i]), &snapshot);
        CHECK(status == MMSB_E_IO || status == MMSB_E_NOT_FOUND || status == MMSB_E_FORMAT || status == MMSB_E_CORRUPT ||
              status == MMSB_E_INVALID_ARGUMENT);
        CHECK(snapshot == 42 && strstr(mmsb_last_error(), names[i]) != NULL);
        CHECK_STATUS(mmsb_snapshot_load(context, at(names[i]), NULL), status);
        CHECK_STATUS(mmsb_snapshot_verify(at(names[i]), NULL), status);
        CHECK_STATUS(mmsb_snapshot_compact(at(names[i]), at("out"), NULL), status);
    }
    CHECK_STATUS(mmsb_snapshot_load(context, at("foreign"), NULL), MMSB_E_FORMAT);
    CHECK_STATUS(mmsb_snapshot_load(context, at("none"), NULL), MMSB_E_NOT_FOUND);
    CHECK(mmsb_snapshot_save(context, at("folder"), NULL) != MMSB_OK);
    CHECK(mmsb_snapshot_save(context, at("fifo"), NULL) != MMSB_OK);
    CHECK(mmsb_snapshot_save(context, at("none/file"), NULL) != MMSB_OK);
    CHECK(mmsb_snapshot_save(context, at("state/below"), NULL) != MMSB_OK);
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK(mmsb_snapshot_save(context, name, NULL) != MMSB_OK);
    /* A link is replaced itself; what it leads to stays. */
    mmsb_page_t page = page_of(context, 2);
    write_pattern(page, 55);
    CHECK_OK(mmsb_snapshot_save(context, at("link"), NULL));
    struct stat link;
    CHECK(lstat(at("link"), &link) == 0 && S_ISREG(link.st_mode));
    CHECK_OK(mmsb_snapshot_load(context, at("state"), NULL));
    CHECK(page_holds_pattern(page_of(context, 2), 1, sizes[1] - 1));
    CHECK_EQUAL(files_in_folder(), 6);
    CHECK_OK(mmsb_context_destroy(context));
    rmdir(at("folder"));
}

/* What must hold when the disk gives no more: the code, the old file untouched, nothing else left. */
static int fill_the_disk(const char *directory, int expected) {
    folder_use(directory);
    mmsb_context_t context = new_context();
    write_pattern(new_page(context, 100000), 1);
    REQUIRE_OK(mmsb_snapshot_save(context, at("state"), NULL));
    mmsb_page_t large = new_page(context, 8 << 20);
    write_pattern(large, 2);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(mmsb_snapshot_save(context, at("state"), NULL), MMSB_E_NO_SPACE);
        mmsb_error_detail_t detail;
        mmsb_error_detail_init(&detail);
        CHECK_OK(mmsb_last_error_detail(&detail));
        CHECK_EQUAL(detail.foreign_code, expected);
        CHECK_EQUAL(files_in_folder(), 1);
        CHECK_OK(mmsb_snapshot_verify(at("state"), NULL));
    }
    CHECK_OK(mmsb_page_destroy(large));
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    CHECK_OK(mmsb_context_destroy(context));
    check_nothing_lives();
    clear_folder();
    return check_failures != 0;
}

static int run_program(const char *mode, const char *directory) {
    pid_t child = fork();
    if (child == 0) {
        if (strcmp(mode, "small-file-system") == 0) {
            /* A file system of 4 MiB in a mount namespace: of root's, or else of a user namespace. */
            if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
                _exit(77);
            }
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
            if (mount("tmpfs", directory, "tmpfs", 0, "size=4m") != 0) {
                _exit(77);
            }
        }
        execl(program, program, mode, directory, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void a_full_disk_leaves_the_old_file(void) {
    CHECK_EQUAL(run_program("file-size-limit", folder), 0);
    int result = run_program("small-file-system", folder);
    if (result == 77) {
        puts("snapshot_test: this machine lets no program mount a file system; a full disk was tried by RLIMIT_FSIZE only");
    } else {
        CHECK_EQUAL(result, 0);
    }
}

/* Saves again and again to one path. */
static int save_in_a_loop(const char *directory, uint64_t seed) {
    folder_use(directory);
    mmsb_context_t context = new_context();
    for (int i = 0; i < 20; i++) {
        write_pattern(new_page(context, 100000), seed);
    }
    for (int i = 0; i < 20; i++) {
        REQUIRE_OK(mmsb_snapshot_save(context, at("state"), NULL));
    }
    REQUIRE_OK(mmsb_context_destroy(context));
    return 0;
}

/* Whatever is seen at a path is one writer's snapshot, whole. */
static void two_processes_save_to_one_path(void) {
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            execl(program, program, i == 0 ? "save-1" : "save-2", folder, (char *)NULL);
            _exit(127);
        }
    }
    int left = 2, seen = 0;
    while (left > 0) {
        int status = 0;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended > 0) {
            CHECK_EQUAL(status, 0);
            left--;
        }
        if (access(at("state"), F_OK) != 0) {
            continue;
        }
        mmsb_snapshot_t snapshot = opened(at("state"));
        uint64_t cursor = 0;
        mmsb_snapshot_page_t pages[32];
        size_t count = 0;
        CHECK_OK(mmsb_snapshot_pages(snapshot, &cursor, pages, 32, &count));
        CHECK_EQUAL(count, 20);
        uint8_t bytes[20];
        for (size_t i = 0; i < count && i < 20; i++) {
            CHECK_OK(mmsb_snapshot_read(snapshot, pages[i].id, 5000, &bytes[i], 1));
            CHECK_EQUAL(bytes[i], bytes[0]);
        }
        CHECK_OK(mmsb_snapshot_close(snapshot));
        seen++;
    }
    CHECK(seen > 0);
    CHECK_EQUAL(files_in_folder(), 1);
}

/* ---------------------------------------------------------------------------------------------------------- live ---- */

typedef struct live {
    mmsb_context_t context;
    mmsb_page_t pages[256];
    int stop;
} live_t;

/* Batches that change two pages alike. */
static void *change_pairs(void *argument) {
    team_member_t *member = argument;
    live_t *live = member->shared;
    if (member->index == 0) {
        for (int i = 0; i < 10; i++) {
            char name[16];
            snprintf(name, sizeof name, "live-%d", i);
            CHECK_OK(mmsb_snapshot_save(live->context, at(name), NULL));
        }
        CHECK_STATUS(mmsb_snapshot_load(live->context, at("none"), NULL), MMSB_E_NOT_FOUND);
        __atomic_store_n(&live->stop, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    uint64_t seed = member->index;
    while (!__atomic_load_n(&live->stop, __ATOMIC_RELAXED)) {
        uint64_t number = random_next(&seed);
        uint64_t pair = number % 128;
        mmsb_page_t pages[2] = {live->pages[pair], live->pages[255 - pair]};
        mmsb_run_t run = {pair * 11, sizeof number};
        mmsb_delta_t deltas[2] = {one_run(&run, &number), one_run(&run, &number)};
        CHECK_OK(mmsb_page_apply_many(pages, deltas, 2, NULL));
    }
    return NULL;
}

static void a_batch_is_in_a_snapshot_whole_or_not(void) {
    live_t live = {.context = new_context()};
    REQUIRE_OK(mmsb_page_create_many(live.context, 20000, 256, NULL, NULL, live.pages));
    uint64_t ids[256];
    for (int i = 0; i < 256; i++) {
        ids[i] = page_info(live.pages[i]).id;
    }
    run_team(4, change_pairs, &live);
    for (int i = 0; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "live-%d", i);
        CHECK_OK(mmsb_snapshot_verify(at(name), NULL));
        mmsb_snapshot_t snapshot = opened(at(name));
        for (uint64_t pair = 0; pair < 128; pair++) {
            uint64_t first = 0, last = 0;
            CHECK_OK(mmsb_snapshot_read(snapshot, ids[pair], pair * 11, &first, sizeof first));
            CHECK_OK(mmsb_snapshot_read(snapshot, ids[255 - pair], pair * 11, &last, sizeof last));
            CHECK_EQUAL(first, last);
        }
        CHECK_OK(mmsb_snapshot_close(snapshot));
    }
    CHECK_OK(mmsb_context_destroy(live.context));
}

static void pinned_pages_are_saved_unless_refused(void) {
    mmsb_context_t context = new_state();
    void *address = NULL;
    CHECK_OK(mmsb_page_pin(page_of(context, 9), MMSB_PIN_WRITE, &address));
    ((uint8_t *)address)[123] = 0xAB;
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.raw_writes = MMSB_RAW_WRITES_REFUSE;
    CHECK_STATUS(mmsb_snapshot_save(context, at("state"), &options), MMSB_E_BUSY);
    CHECK_EQUAL(files_in_folder(), 0);
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    CHECK_OK(mmsb_page_unpin(page_of(context, 9), MMSB_PIN_WRITE));
    CHECK_OK(mmsb_page_pin(page_of(context, 9), MMSB_PIN_READ, NULL));
    CHECK_OK(mmsb_snapshot_save(context, at("again"), &options));
    CHECK_OK(mmsb_page_unpin(page_of(context, 9), MMSB_PIN_READ));
    mmsb_snapshot_t snapshot = opened(at("state"));
    uint8_t byte = 0;
    CHECK_OK(mmsb_snapshot_read(snapshot, 9, 123, &byte, 1));
    CHECK_EQUAL(byte, 0xAB);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ---------------------------------------------------------------------------------------------------- raw writers ---- */

/* Pages of all ways, which writers change together: words that count up, through pins or in a section. */
enum { RAW_PAGES = 4, RAW_WRITERS = 3, RAW_SAVES = 30 };
static const uint64_t raw_sizes[RAW_PAGES] = {64, 4096, 300000, 1 << 20};

typedef struct raw {
    mmsb_context_t context;
    mmsb_page_t pages[RAW_PAGES];
    uint64_t *adopted[RAW_PAGES];
    int sections; /* 1: the pages are adopted, and writers are in sections */
    int stop;
    pthread_mutex_t lock; /* of the writers among each other */
} raw_t;

static raw_t new_raw(int sections) {
    raw_t raw = {.context = new_context(), .sections = sections, .lock = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < RAW_PAGES; i++) {
        if (sections) {
            raw.adopted[i] = calloc(1, raw_sizes[i]);
            REQUIRE(raw.adopted[i] != NULL);
            REQUIRE_OK(mmsb_page_adopt(raw.context, raw.adopted[i], raw_sizes[i], NULL, &raw.pages[i]));
        } else {
            mmsb_page_options_t options;
            mmsb_page_options_init(&options);
            options.location = i == 1 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU;
            REQUIRE_OK(mmsb_page_create(raw.context, raw_sizes[i], &options, &raw.pages[i]));
        }
    }
    return raw;
}

static void end_raw(raw_t *raw) {
    CHECK_OK(mmsb_context_destroy(raw->context));
    for (int i = 0; i < RAW_PAGES; i++) {
        free(raw->adopted[i]);
    }
}

static void count_up(uint64_t *words, uint64_t size) {
    for (uint64_t i = 0; i < size / 8; i++) {
        words[i]++;
    }
}

static void *write_raw(void *argument) {
    raw_t *raw = argument;
    while (!__atomic_load_n(&raw->stop, __ATOMIC_RELAXED)) {
        void *addresses[RAW_PAGES];
        if (raw->sections) {
            CHECK_OK(mmsb_writing_begin(raw->context, MMSB_WAIT_FOREVER));
        }
        for (int i = 0; i < RAW_PAGES; i++) {
            addresses[i] = raw->adopted[i];
            if (!raw->sections) {
                CHECK_OK(mmsb_page_pin(raw->pages[i], MMSB_PIN_WRITE, &addresses[i]));
            }
        }
        pthread_mutex_lock(&raw->lock);
        for (int i = 0; i < RAW_PAGES; i++) {
            count_up(addresses[i], raw_sizes[i]);
        }
        pthread_mutex_unlock(&raw->lock);
        for (int i = 0; !raw->sections && i < RAW_PAGES; i++) {
            CHECK_OK(mmsb_page_unpin(raw->pages[i], MMSB_PIN_WRITE));
        }
        if (raw->sections) {
            CHECK_OK(mmsb_writing_end(raw->context));
        }
    }
    return NULL;
}

/* How many words of a snapshot differ from its first one. */
static uint64_t torn_words(const char *path, raw_t *raw) {
    mmsb_snapshot_t snapshot = opened(path);
    uint64_t *words = malloc(1 << 20), torn = 0, first = UINT64_MAX;
    REQUIRE(words != NULL);
    for (int i = 0; i < RAW_PAGES; i++) {
        CHECK_OK(mmsb_snapshot_read(snapshot, page_info(raw->pages[i]).id, 0, words, raw_sizes[i]));
        first = first == UINT64_MAX ? words[0] : first;
        for (uint64_t at = 0; at < raw_sizes[i] / 8; at++) {
            torn += words[at] != first;
        }
    }
    free(words);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    return torn;
}

static void saves_beside_raw_writers(int sections) {
    raw_t raw = new_raw(sections);
    pthread_t threads[RAW_WRITERS];
    for (int i = 0; i < RAW_WRITERS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, write_raw, &raw) == 0);
    }
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.raw_writes = MMSB_RAW_WRITES_WAIT;
    options.not_durable = 1;
    for (int i = 0; i < RAW_SAVES; i++) {
        const char *path = at(i % 2 ? "odd" : "even");
        options.base = NULL;
        if (i > 0 && i % 3 != 0) {
            options.base = i % 2 ? at("even") : at("odd");
        }
        options.copy_limit = i % 5 == 0 ? 4 << 20 : 0;
        CHECK_OK(mmsb_snapshot_save(raw.context, path, &options));
        CHECK_EQUAL(torn_words(path, &raw), 0);
    }
    raw.stop = 1;
    for (int i = 0; i < RAW_WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_OK(mmsb_snapshot_save(raw.context, at("last"), &options)); /* with what was written behind the last moment */
    mmsb_snapshot_t snapshot = opened(at("last"));
    uint64_t saved = 0, live = 0;
    CHECK_OK(mmsb_snapshot_read(snapshot, page_info(raw.pages[3]).id, raw_sizes[3] - 8, &saved, 8));
    CHECK_OK(mmsb_page_read(raw.pages[3], raw_sizes[3] - 8, &live, 8));
    CHECK_EQUAL(saved, live);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    end_raw(&raw);
}

static void what_pins_write_is_one_moment(void) {
    saves_beside_raw_writers(0);
}

static void what_sections_write_is_one_moment(void) {
    saves_beside_raw_writers(1);
}

static void *hold_a_section(void *argument) {
    raw_t *raw = argument;
    CHECK_OK(mmsb_writing_begin(raw->context, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_writing_begin(raw->context, MMSB_WAIT_FOREVER)); /* sections nest */
    CHECK_STATUS(mmsb_writing_check(raw->context), MMSB_E_INVALID_STATE);
    __atomic_store_n(&raw->stop, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&raw->stop, __ATOMIC_ACQUIRE) == 1) {
        sched_yield();
    }
    CHECK_OK(mmsb_writing_begin(raw->context, MMSB_WAIT_FOREVER)); /* a thread that has one is not held back */
    CHECK_OK(mmsb_writing_end(raw->context));
    CHECK_OK(mmsb_writing_end(raw->context));
    CHECK_OK(mmsb_writing_end(raw->context));
    return NULL;
}

/* A save waits for a section, can be cancelled while it does, and leaves everything free. */
static void a_save_that_waits_can_be_cancelled(void) {
    raw_t raw = new_raw(1);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, hold_a_section, &raw) == 0);
    while (__atomic_load_n(&raw.stop, __ATOMIC_ACQUIRE) == 0) {
        sched_yield();
    }
    CHECK_OK(mmsb_writing_check(raw.context)); /* it is another thread's */
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.raw_writes = MMSB_RAW_WRITES_WAIT;
    mmsb_ticket_t ticket = 0;
    CHECK_OK(mmsb_snapshot_save_start(raw.context, at("waits"), &options, NULL, &ticket));
    CHECK_STATUS(mmsb_ticket_wait(ticket, 100000000), MMSB_E_TIMEOUT);
    mmsb_status_t status;
    while ((status = mmsb_writing_begin(raw.context, 0)) == MMSB_OK) { /* it holds others back, most of the time */
        CHECK_OK(mmsb_writing_end(raw.context));
    }
    CHECK_STATUS(status, MMSB_E_WOULD_BLOCK);
    CHECK_OK(mmsb_ticket_cancel(ticket));
    CHECK_STATUS(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_E_CANCELLED);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_EQUAL(files_in_folder(), 0);
    CHECK_OK(mmsb_writing_begin(raw.context, 0));
    CHECK_OK(mmsb_writing_end(raw.context));

    CHECK_OK(mmsb_snapshot_save_start(raw.context, at("waits"), &options, NULL, &ticket));
    CHECK_STATUS(mmsb_ticket_wait(ticket, 50000000), MMSB_E_TIMEOUT);
    __atomic_store_n(&raw.stop, 2, __ATOMIC_RELEASE);
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    pthread_join(thread, NULL);
    CHECK_EQUAL(torn_words(at("waits"), &raw), 0);
    end_raw(&raw);
}

/* A save does not wait for its own thread, and says why. */
static void a_save_does_not_wait_for_itself(void) {
    raw_t raw = new_raw(1);
    mmsb_page_t page = new_page(raw.context, 64);
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.raw_writes = MMSB_RAW_WRITES_WAIT;
    CHECK_OK(mmsb_writing_begin(raw.context, 0));
    CHECK_STATUS(mmsb_snapshot_save(raw.context, at("self"), &options), MMSB_E_INVALID_STATE);
    CHECK(strstr(mmsb_last_error(), "1 sections and 0 pages") != NULL);
    CHECK_OK(mmsb_writing_end(raw.context));
    CHECK_STATUS(mmsb_writing_end(raw.context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL));
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL));
    CHECK_STATUS(mmsb_snapshot_save(raw.context, at("self"), &options), MMSB_E_INVALID_STATE);
    CHECK(strstr(mmsb_last_error(), "0 sections and 1 pages") != NULL);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK_STATUS(mmsb_writing_check(raw.context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK_EQUAL(files_in_folder(), 0);
    CHECK_OK(mmsb_snapshot_save(raw.context, at("self"), &options));
    end_raw(&raw);
}

static void adopted_memory_can_be_refused(void) {
    raw_t raw = new_raw(1);
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.raw_writes = MMSB_RAW_WRITES_REFUSE;
    CHECK_STATUS(mmsb_snapshot_save(raw.context, at("refused"), &options), MMSB_E_BUSY);
    CHECK(strstr(mmsb_last_error(), "memory of the caller") != NULL);
    CHECK_OK(mmsb_page_destroy_many(raw.pages, RAW_PAGES, NULL));
    CHECK_OK(mmsb_writing_begin(raw.context, 0));
    CHECK_STATUS(mmsb_snapshot_save(raw.context, at("refused"), &options), MMSB_E_BUSY);
    CHECK_OK(mmsb_writing_end(raw.context));
    mmsb_adopt_options_t fixed;
    mmsb_adopt_options_init(&fixed);
    fixed.read_only = 1;
    CHECK_EQUAL(files_in_folder(), 0);
    CHECK_OK(mmsb_page_adopt(raw.context, raw.adopted[0], 64, &fixed, &raw.pages[0]));
    CHECK_OK(mmsb_snapshot_save(raw.context, at("refused"), &options));
    end_raw(&raw);
}

/* Saves that are queued all succeed; without queue all but the one that runs are refused. */
static void saves_queue(void) {
    enum { SAVES = 8 };
    raw_t raw = new_raw(1);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, hold_a_section, &raw) == 0);
    while (__atomic_load_n(&raw.stop, __ATOMIC_ACQUIRE) == 0) {
        sched_yield();
    }
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.raw_writes = MMSB_RAW_WRITES_WAIT;
    options.queue = 1;
    mmsb_ticket_t tickets[SAVES];
    for (int i = 0; i < SAVES; i++) {
        char name[] = {'q', (char)('0' + i), 0};
        CHECK_OK(mmsb_snapshot_save_start(raw.context, at(name), &options, NULL, &tickets[i]));
        CHECK_STATUS(mmsb_ticket_wait(tickets[i], 20000000), MMSB_E_TIMEOUT);
    }
    CHECK_STATUS(mmsb_snapshot_save(raw.context, at("not"), NULL), MMSB_E_BUSY);
    CHECK_OK(mmsb_ticket_cancel(tickets[3])); /* one in the middle goes, the others stay */
    CHECK_STATUS(mmsb_ticket_wait(tickets[3], MMSB_WAIT_FOREVER), MMSB_E_CANCELLED);
    __atomic_store_n(&raw.stop, 2, __ATOMIC_RELEASE);
    for (int i = 0; i < SAVES; i++) {
        if (i != 3) {
            CHECK_OK(mmsb_ticket_wait(tickets[i], MMSB_WAIT_FOREVER));
        }
        CHECK_OK(mmsb_ticket_destroy(tickets[i]));
    }
    pthread_join(thread, NULL);
    CHECK_EQUAL(files_in_folder(), SAVES - 1);
    int64_t before = 0;
    for (int i = 0; i < SAVES; i++) { /* in their order */
        char name[] = {'q', (char)('0' + i), 0};
        if (i == 3) {
            continue;
        }
        mmsb_snapshot_t snapshot = opened(at(name));
        mmsb_snapshot_info_t info;
        mmsb_snapshot_info_init(&info);
        CHECK_OK(mmsb_snapshot_info(snapshot, &info));
        CHECK(info.taken_ns > before);
        before = info.taken_ns;
        CHECK_OK(mmsb_snapshot_close(snapshot));
    }
    end_raw(&raw);
}

static void shutdown_closes_snapshots(void) {
    mmsb_snapshot_t snapshot = new_snapshot();
    CHECK_OK(mmsb_shutdown());
    CHECK_STATUS(mmsb_snapshot_close(snapshot), MMSB_E_STALE_HANDLE);
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 2 && strcmp(arguments[1], "file-size-limit") == 0) {
        REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4 << 20, 4 << 20}) == 0);
        return fill_the_disk(arguments[2], EFBIG);
    }
    if (count > 2 && strcmp(arguments[1], "small-file-system") == 0) {
        return fill_the_disk(arguments[2], ENOSPC);
    }
    if (count > 2 && strncmp(arguments[1], "save-", 5) == 0) {
        return save_in_a_loop(arguments[2], (uint64_t)atoi(arguments[1] + 5));
    }
    folder_make();
    RUN_IN_FOLDER(what_is_saved_comes_back);
    RUN_IN_FOLDER(a_load_replaces_all_pages_or_none);
    RUN_IN_FOLDER(a_load_can_name_its_snapshot);
    RUN_IN_FOLDER(descriptors_and_memory);
    RUN_IN_FOLDER(tickets);
    RUN_IN_FOLDER(a_chain_holds_what_changed);
    RUN_IN_FOLDER(files_are_read_without_a_context);
    RUN_IN_FOLDER(closing_waits_for_calls);
    RUN_IN_FOLDER(views_outlive_the_file_name);
    RUN_IN_FOLDER(bad_arguments);
    RUN_IN_FOLDER(odd_paths);
    RUN_IN_FOLDER(a_full_disk_leaves_the_old_file);
    RUN_IN_FOLDER(two_processes_save_to_one_path);
    RUN_IN_FOLDER(a_batch_is_in_a_snapshot_whole_or_not);
    RUN_IN_FOLDER(pinned_pages_are_saved_unless_refused);
    RUN_IN_FOLDER(what_pins_write_is_one_moment);
    RUN_IN_FOLDER(what_sections_write_is_one_moment);
    RUN_IN_FOLDER(a_save_that_waits_can_be_cancelled);
    RUN_IN_FOLDER(a_save_does_not_wait_for_itself);
    RUN_IN_FOLDER(adopted_memory_can_be_refused);
    RUN_IN_FOLDER(saves_queue);
    RUN_IN_FOLDER(shutdown_closes_snapshots);
    folder_end();
    return check_report();
}
