/* DISK pages: moved there and back, worked on there, and what a full disk does. */
#include "folder.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *program;

static void pages_move_to_disk_and_back(void) {
    static const uint64_t sizes[] = {1, 100, 4096, 5000, 1000003};
    mmsb_context_t context = new_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mmsb_page_t page = new_page(context, sizes[i]);
        write_pattern(page, i);
        mmsb_run_t run = {0, 1};
        mmsb_delta_t delta = one_run(&run, "x");
        CHECK_OK(mmsb_page_apply(page, &delta));
        CHECK_OK(mmsb_page_metadata_set(page, "k", 1, "v", 1));
        mmsb_page_info_t before = page_info(page);
        for (int round = 0; round < 3; round++) {
            uint64_t version = mmsb_page_version(page);
            CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0));
            CHECK(mmsb_page_version(page) > version);
            version = mmsb_page_version(page);
            CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0)); /* it is there already */
            CHECK_EQUAL(mmsb_page_version(page), version);
            CHECK(mmsb_page_address(page) == NULL);
            mmsb_page_info_t info = page_info(page);
            CHECK_EQUAL(info.location, MMSB_LOCATION_DISK);
            CHECK(info.id == before.id && info.epoch == before.epoch && info.size == before.size && info.metadata_count == 1);
            CHECK(context_stats(context).disk_used >= sizes[i]);
            uint64_t set = 0;
            CHECK_OK(mmsb_page_mask_count(page, &set));
            CHECK_EQUAL(set, 1);
            CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
            CHECK_EQUAL(page_info(page).location, MMSB_LOCATION_CPU);
            CHECK(mmsb_page_address(page) != NULL);
            uint8_t byte = 0;
            CHECK_OK(mmsb_page_read(page, 0, &byte, 1));
            CHECK_EQUAL(byte, 'x');
            CHECK_OK(mmsb_page_write(page, 0, (uint8_t[]){pattern_byte(i, 0)}, 1));
            CHECK(page_holds_pattern(page, i, sizes[i]));
            CHECK_OK(mmsb_page_write(page, 0, "x", 1));
        }
        CHECK_OK(mmsb_page_destroy(page));
    }
    CHECK_EQUAL(context_stats(context).disk_used, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void pins_map_a_disk_page(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_disk_page(context, 10000);
    write_pattern(page, 1);
    void *address = NULL;
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
    CHECK(address != NULL && mmsb_page_address(page) == address);
    uint8_t *bytes = address;
    CHECK_EQUAL(bytes[9999], pattern_byte(1, 9999));
    /* Reads, writes and deltas see the same bytes as the pointer. */
    bytes[5] = 'a';
    uint8_t byte = 0;
    CHECK_OK(mmsb_page_read(page, 5, &byte, 1));
    CHECK_EQUAL(byte, 'a');
    CHECK_OK(mmsb_page_write(page, 6, "b", 1));
    CHECK_EQUAL(bytes[6], 'b');
    mmsb_run_t run = {7, 1};
    mmsb_delta_t delta = one_run(&run, "c");
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_EQUAL(bytes[7], 'c');
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK(mmsb_page_address(page) == NULL);
    char text[3];
    CHECK_OK(mmsb_page_read(page, 5, text, 3));
    CHECK(memcmp(text, "abc", 3) == 0);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
    CHECK_OK(mmsb_page_read(page, 5, text, 3));
    CHECK(memcmp(text, "abc", 3) == 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void wrong_places_are_errors(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    write_pattern(page, 1);
    uint64_t version = mmsb_page_version(page);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_GPU, 0), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_UNIFIED, 0), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_PINNED, 0), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_DISK + 1, 0), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_DEFAULT - 1, 0), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(mmsb_page_version(page), version);
    CHECK(page_holds_pattern(page, 1, 100));
    CHECK_OK(mmsb_context_destroy(context));
}

static void many_move_with_a_status_each(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[5];
    for (uint64_t i = 0; i < 5; i++) {
        pages[i] = new_page(context, 1000);
        write_pattern(pages[i], i);
    }
    mmsb_status_t statuses[5] = {-1, -1, -1, -1, -1};
    size_t bad = 99;
    CHECK_OK(mmsb_page_migrate_many(pages, 5, MMSB_LOCATION_DISK, 0, NULL, statuses, &bad));
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_EQUAL(statuses[i], MMSB_OK);
        CHECK_EQUAL(page_info(pages[i]).location, MMSB_LOCATION_DISK);
        CHECK(page_holds_pattern(pages[i], i, 1000));
    }
    CHECK_OK(mmsb_page_migrate_many(pages, 5, MMSB_LOCATION_CPU, 0, NULL, NULL, NULL));
    CHECK_EQUAL(page_info(pages[4]).location, MMSB_LOCATION_CPU);
    mmsb_page_t kept = pages[3];
    pages[3] = 0;
    CHECK_STATUS(mmsb_page_migrate_many(pages, 5, MMSB_LOCATION_DISK, 0, NULL, statuses, &bad), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(bad, 3);
    CHECK_EQUAL(page_info(pages[0]).location, MMSB_LOCATION_CPU); /* arguments are checked before the first moves */
    pages[3] = kept;
    CHECK_OK(mmsb_page_pin(pages[2], MMSB_PIN_READ, NULL));
    CHECK_STATUS(mmsb_page_migrate_many(pages, 5, MMSB_LOCATION_DISK, 0, NULL, statuses, &bad), MMSB_E_BUSY);
    CHECK_EQUAL(bad, 2);
    for (uint64_t i = 0; i < 5; i++) {
        CHECK(page_holds_pattern(pages[i], i, 1000));
    }
    CHECK_EQUAL(page_info(pages[2]).location, MMSB_LOCATION_CPU);
    CHECK_OK(mmsb_page_unpin(pages[2], MMSB_PIN_READ));
    CHECK_STATUS(mmsb_page_migrate_many(pages, 5, MMSB_LOCATION_GPU, 0, NULL, statuses, &bad), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_page_migrate_many(pages, 5, MMSB_LOCATION_DISK + 1, 0, NULL, statuses, &bad), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_migrate_many(NULL, 5, MMSB_LOCATION_DISK, 0, NULL, statuses, &bad), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_page_migrate_many(NULL, 0, MMSB_LOCATION_DISK, 0, NULL, NULL, NULL));
    CHECK_OK(mmsb_context_destroy(context));
}

/* The bytes that the deleted file of DISK pages has on the disk. */
static uint64_t file_bytes(const char *folder) {
    DIR *open_files = opendir("/proc/self/fd");
    uint64_t bytes = 0;
    struct dirent *entry;
    REQUIRE(open_files != NULL);
    while ((entry = readdir(open_files)) != NULL) {
        char path[300], target[512] = "";
        struct stat info;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, folder, strlen(folder)) == 0 &&
            strstr(target, "(deleted)") != NULL && stat(path, &info) == 0)
            bytes += (uint64_t)info.st_blocks * 512;
    }
    closedir(open_files);
    return bytes;
}

static int files_in(const char *path) {
    DIR *folder = opendir(path);
    REQUIRE(folder != NULL);
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    closedir(folder);
    return count;
}

static mmsb_context_t new_context_on(const char *folder) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.disk_path = folder;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    return context;
}

static void files_are_unlinked(void) {
    char folder[] = "/tmp/mmsb-disk-test-XXXXXX";
    REQUIRE(mkdtemp(folder) != NULL);
    mmsb_context_t context = new_context_on(folder);
    mmsb_page_t page = new_disk_page(context, 100000);
    write_pattern(page, 1);
    CHECK_EQUAL(files_in(folder), 0);
    CHECK(page_holds_pattern(page, 1, 100000));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(files_in(folder), 0);
    CHECK(rmdir(folder) == 0);
}

static void space_is_used_again(void) {
    enum { COUNT = 16, SIZE = 65536, ROUNDS = 10000 };
    char folder[] = "/tmp/mmsb-disk-test-XXXXXX";
    REQUIRE(mkdtemp(folder) != NULL);
    mmsb_context_t context = new_context_on(folder);
    mmsb_page_t pages[COUNT];
    uint64_t most = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        pages[i] = new_page(context, SIZE);
        write_pattern(pages[i], i);
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        mmsb_page_t page = pages[round % COUNT];
        mmsb_location_t away = page_info(page).location == MMSB_LOCATION_CPU ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU;
        CHECK_OK(mmsb_page_migrate(page, away, 0));
        if (round % 1000 == 0)
            most = file_bytes(folder) > most ? file_bytes(folder) : most;
    }
    CHECK(most > 0 && most <= 4 << 20);
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK(page_holds_pattern(pages[i], i, SIZE));
    CHECK_OK(mmsb_page_migrate_many(pages, COUNT, MMSB_LOCATION_CPU, 0, NULL, NULL, NULL));
    CHECK(file_bytes(folder) > 0);
    CHECK_OK(mmsb_context_trim(context, NULL));
    CHECK(file_bytes(folder) <= 65536); /* what the file system needs to know where nothing is */
    /* A new page is zero also where others were. */
    CHECK_OK(mmsb_page_migrate_many(pages, COUNT, MMSB_LOCATION_DISK, 0, NULL, NULL, NULL));
    CHECK_OK(mmsb_page_migrate_many(pages, COUNT, MMSB_LOCATION_CPU, 0, NULL, NULL, NULL));
    static const uint8_t zeros[3 * SIZE];
    mmsb_page_t fresh = new_disk_page(context, 3 * SIZE);
    CHECK(page_holds(fresh, zeros, sizeof zeros));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK(rmdir(folder) == 0);
}

/* Batches over pages on disk, on the host and pinned ones, more of them than the system takes at once, some pages twice. */
static void batches_read_and_write_on_disk(void) {
    enum { COUNT = 200, SIZE = 4096, RANGES = 2 * COUNT };
    static uint8_t model[COUNT][SIZE], read[RANGES][SIZE], written[RANGES][64];
    static mmsb_page_range_t ranges[RANGES];
    mmsb_context_t context = new_context();
    mmsb_page_t pages[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        pages[i] = i % 5 == 0 ? new_page(context, SIZE) : new_disk_page(context, SIZE);
        fill_pattern(model[i], SIZE, i);
        ranges[i] = (mmsb_page_range_t){pages[i], 0, SIZE, model[i]};
        if (i % 7 == 0)
            CHECK_OK(mmsb_page_pin(pages[i], MMSB_PIN_READ, NULL));
    }
    CHECK_OK(mmsb_page_write_many(ranges, COUNT, NULL));
    for (int twice = 0; twice < 2; twice++) {
        size_t count = twice ? RANGES : COUNT;
        for (size_t i = 0; i < count; i++) {
            const uint64_t which = (i * 77 + 5) % COUNT, offset = (i * 41) % (SIZE - 64);
            fill_pattern(written[i], 64, i + 1000);
            ranges[i] = (mmsb_page_range_t){pages[which], offset, i % 65, written[i]};
            memcpy(model[which] + offset, written[i], i % 65);
        }
        CHECK_OK(mmsb_page_write_many(ranges, count, NULL));
        for (size_t i = 0; i < count; i++)
            ranges[i] = (mmsb_page_range_t){pages[(i * 33) % COUNT], 0, SIZE, read[i]};
        CHECK_OK(mmsb_page_read_many(ranges, count, NULL));
        for (size_t i = 0; i < count; i++)
            CHECK(memcmp(read[i], model[(i * 33) % COUNT], SIZE) == 0);
    }
    /* A bad item: nothing is written. */
    uint64_t version = mmsb_page_version(pages[1]);
    size_t bad = 0;
    ranges[0] = (mmsb_page_range_t){pages[1], 0, 64, written[0]};
    ranges[1] = (mmsb_page_range_t){pages[2], SIZE - 1, 2, written[0]};
    CHECK_STATUS(mmsb_page_write_many(ranges, 2, &bad), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(bad, 1);
    CHECK_STATUS(mmsb_page_read_many(ranges, 2, &bad), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(mmsb_page_version(pages[1]), version);
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK(page_holds(pages[i], model[i], SIZE));
        CHECK(i % 5 == 0 || i % 7 == 0 || mmsb_page_address(pages[i]) == NULL);
        if (i % 7 == 0)
            CHECK_OK(mmsb_page_unpin(pages[i], MMSB_PIN_READ));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* The disk has room for some of the batch. */
static void fill_by_a_batch(mmsb_context_t context) {
    enum { SIZE = 300000, COUNT = 30 };
    mmsb_page_t pages[COUNT];
    mmsb_status_t statuses[COUNT];
    size_t bad = COUNT, moved = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        pages[i] = new_page(context, SIZE);
        write_pattern(pages[i], i);
    }
    CHECK_STATUS(mmsb_page_migrate_many(pages, COUNT, MMSB_LOCATION_DISK, 0, NULL, statuses, &bad), MMSB_E_NO_SPACE);
    CHECK(bad > 0 && bad < COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(statuses[i], i < bad ? MMSB_OK : MMSB_E_NO_SPACE);
        CHECK_EQUAL(page_info(pages[i]).location, i < bad ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU);
        CHECK(page_holds_pattern(pages[i], i, SIZE));
        moved += statuses[i] == MMSB_OK;
    }
    /* Pages on disk are written without more space; what others leave is used again. */
    for (uint64_t i = 0; i < moved; i++)
        write_pattern(pages[i], i + 100);
    CHECK_OK(mmsb_page_migrate_many(pages, moved / 2, MMSB_LOCATION_CPU, 0, NULL, NULL, NULL));
    CHECK_OK(mmsb_page_migrate_many(pages + COUNT - moved / 2, moved / 2, MMSB_LOCATION_DISK, 0, NULL, NULL, NULL));
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK(page_holds_pattern(pages[i], i < moved ? i + 100 : i, SIZE));
    CHECK_OK(mmsb_page_destroy_many(pages, COUNT, NULL));
    CHECK_EQUAL(context_stats(context).disk_used, 0);
}

/* What must hold when the disk gives no more: the code and the errno, nothing lost, and all good again once there is room. */
static void fill_the_disk(mmsb_context_t context, int expected) {
    enum { SIZE = 400000, COUNT = 40 };
    mmsb_page_t large = new_page(context, 8 << 20);
    write_pattern(large, 99);
    uint64_t version = mmsb_page_version(large);
    CHECK_STATUS(mmsb_page_migrate(large, MMSB_LOCATION_DISK, 0), MMSB_E_NO_SPACE);
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_OK(mmsb_last_error_detail(&detail));
    CHECK_EQUAL(detail.domain, MMSB_DOMAIN_ERRNO);
    CHECK_EQUAL(detail.foreign_code, expected);
    CHECK_EQUAL(page_info(large).location, MMSB_LOCATION_CPU);
    CHECK_EQUAL(mmsb_page_version(large), version);
    CHECK(page_holds_pattern(large, 99, 8 << 20));
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_DISK;
    mmsb_page_t page = 42;
    CHECK_STATUS(mmsb_page_create(context, 8 << 20, &options, &page), MMSB_E_NO_SPACE);
    CHECK_EQUAL(page, 42);
    CHECK_EQUAL(context_stats(context).pages, 1);
    CHECK_EQUAL(context_stats(context).disk_used, 0);

    mmsb_page_t pages[COUNT];
    mmsb_status_t status = MMSB_OK;
    size_t count = 0;
    while (count < COUNT && (status = mmsb_page_create(context, SIZE, &options, &pages[count])) == MMSB_OK) {
        write_pattern(pages[count], count);
        count++;
    }
    CHECK(count >= 1);
    if (expected == ENOSPC) { /* the limit of RLIMIT_FSIZE is per file and may never be met by small pages */
        CHECK_EQUAL(status, MMSB_E_NO_SPACE);
    }
    CHECK_STATUS(mmsb_page_resize(pages[0], 8 << 20), MMSB_E_NO_SPACE);
    for (size_t i = 0; i < count; i++) {
        CHECK(page_holds_pattern(pages[i], i, SIZE));
    }
    CHECK_EQUAL(mmsb_page_size(pages[0]), SIZE);
    CHECK_OK(mmsb_page_destroy_many(pages, count, NULL));
    CHECK_OK(mmsb_page_create(context, SIZE, &options, &page));
    write_pattern(page, 5);
    CHECK(page_holds_pattern(page, 5, SIZE));
    CHECK(page_holds_pattern(large, 99, 8 << 20));
    CHECK_OK(mmsb_context_destroy(context));
    check_nothing_lives();
}

/* Both run in a program of their own, started afresh: limits cannot be taken back. */
static int with_a_file_size_limit(void) {
    REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4 << 20, 4 << 20}) == 0);
    fill_the_disk(new_context(), EFBIG);
    return check_failures != 0;
}

static int on_a_small_file_system(const char *folder) {
    mmsb_context_t context = new_context_on(folder);
    fill_by_a_batch(context);
    CHECK_OK(mmsb_context_destroy(context));
    fill_the_disk(new_context_on(folder), ENOSPC);
    return check_failures != 0;
}

static int run_program(const char *mode, const char *folder) {
    pid_t child = fork();
    if (child == 0) {
        if (folder != NULL) {
            /* A file system of 4 MiB in a mount namespace: of root's, or else of a user namespace. */
            if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
                _exit(77);
            }
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
            if (mount("tmpfs", folder, "tmpfs", 0, "size=4m") != 0) {
                _exit(77);
            }
        }
        execl(program, program, mode, folder, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void a_file_that_may_not_grow_loses_nothing(void) {
    CHECK_EQUAL(run_program("file-size-limit", NULL), 0);
}

static void a_full_disk_loses_nothing(void) {
    char folder[] = "/tmp/mmsb-disk-test-XXXXXX";
    REQUIRE(mkdtemp(folder) != NULL);
    int result = run_program("small-file-system", folder);
    if (result == 77) {
        puts("disk_test: this machine lets no program mount a file system; a full disk was tried by RLIMIT_FSIZE only");
    } else {
        CHECK_EQUAL(result, 0);
    }
    rmdir(folder);
}

/* The four ways to change a page on disk; 0 to 3. */
static mmsb_status_t change_in_way(int way, mmsb_page_t page, uint64_t offset) {
    const mmsb_run_t run = {offset, 1};
    const mmsb_delta_t delta = one_run(&run, "x");
    const mmsb_page_range_t range = {.page = page, .offset = offset, .length = 1, .buffer = (char[]){'x'}};
    size_t bad = 9;
    mmsb_status_t status;
    switch (way) {
    case 0:
        return mmsb_page_write(page, offset, "x", 1);
    case 1:
        status = mmsb_page_write_many(&range, 1, &bad);
        break;
    case 2:
        return mmsb_page_apply(page, &delta);
    default:
        status = mmsb_page_apply_many(&page, &delta, 1, &bad);
    }
    CHECK_EQUAL(bad, status == MMSB_OK ? 9 : 0);
    return status;
}

/* A page on disk that lies behind what the process may write has not changed, nor has the journal. */
static void a_limit_that_comes_later_refuses_changes(void) {
    enum { SIZE = 2 << 20 };
    mmsb_context_t context = new_context(), loaded = new_context();
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = MMSB_DURABILITY_NONE;
    CHECK_OK(mmsb_journal_open(context, at("journal"), &options));
    mmsb_page_t page = new_disk_page(context, SIZE);
    CHECK_OK(mmsb_page_write(page, SIZE - 1, "o", 1));
    CHECK_OK(mmsb_journal_sync(context, NULL));
    const uint64_t version = mmsb_page_version(page);
    struct rlimit was, lower;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &was) == 0);
    lower = (struct rlimit){1 << 20, was.rlim_max};
    for (int way = 0; way < 4; way++) {
        REQUIRE(setrlimit(RLIMIT_FSIZE, &lower) == 0);
        CHECK_STATUS(change_in_way(way, page, SIZE - 1), MMSB_E_NO_SPACE);
        CHECK_EQUAL(mmsb_page_version(page), version + (uint64_t)way);
        CHECK_OK(change_in_way(way, page, (uint64_t)way));
        REQUIRE(setrlimit(RLIMIT_FSIZE, &was) == 0);
    }
    CHECK_OK(mmsb_journal_sync(context, NULL));
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.journal = at("journal");
    CHECK_OK(mmsb_snapshot_load(loaded, "", &load));
    uint64_t id = mmsb_page_id(page);
    mmsb_page_t both[] = {page, 0};
    CHECK_OK(mmsb_page_lookup(loaded, id, &both[1]));
    for (int i = 0; i < 2; i++) {
        char bytes[5];
        CHECK_OK(mmsb_page_read(both[i], 0, bytes, 4));
        CHECK_OK(mmsb_page_read(both[i], SIZE - 1, bytes + 4, 1));
        CHECK(memcmp(bytes, "xxxxo", 5) == 0);
    }
    CHECK_OK(mmsb_context_destroy(loaded));
    CHECK_OK(mmsb_context_destroy(context));
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 1 && strcmp(arguments[1], "file-size-limit") == 0) {
        return with_a_file_size_limit();
    }
    if (count > 2 && strcmp(arguments[1], "small-file-system") == 0) {
        return on_a_small_file_system(arguments[2]);
    }
    RUN(pages_move_to_disk_and_back);
    RUN(pins_map_a_disk_page);
    RUN(wrong_places_are_errors);
    RUN(many_move_with_a_status_each);
    RUN(files_are_unlinked);
    RUN(space_is_used_again);
    RUN(batches_read_and_write_on_disk);
    folder_make();
    RUN_IN_FOLDER(a_limit_that_comes_later_refuses_changes);
    folder_end();
    RUN(a_file_that_may_not_grow_loses_nothing);
    RUN(a_full_disk_loses_nothing);
    return check_report();
}
