/* DISK pages: moved there and back, worked on there, and what a full disk does. */
#include "library.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
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

/* What must hold when the disk gives no more: the code, nothing lost, and all good again once there is room. */
static void fill_the_disk(mmsb_context_t context, mmsb_status_t expected) {
    enum { SIZE = 400000, COUNT = 40 };
    mmsb_page_t large = new_page(context, 8 << 20);
    write_pattern(large, 99);
    uint64_t version = mmsb_page_version(large);
    CHECK_STATUS(mmsb_page_migrate(large, MMSB_LOCATION_DISK, 0), expected);
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_OK(mmsb_last_error_detail(&detail));
    CHECK_EQUAL(detail.domain, MMSB_DOMAIN_ERRNO);
    CHECK_EQUAL(detail.foreign_code, expected == MMSB_E_NO_SPACE ? ENOSPC : EFBIG);
    CHECK_EQUAL(page_info(large).location, MMSB_LOCATION_CPU);
    CHECK_EQUAL(mmsb_page_version(large), version);
    CHECK(page_holds_pattern(large, 99, 8 << 20));
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_DISK;
    mmsb_page_t page = 42;
    CHECK_STATUS(mmsb_page_create(context, 8 << 20, &options, &page), expected);
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
    if (expected == MMSB_E_NO_SPACE) { /* the limit of RLIMIT_FSIZE is per file and may never be met by small pages */
        CHECK_EQUAL(status, expected);
    }
    CHECK_STATUS(mmsb_page_resize(pages[0], 8 << 20), expected);
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
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4 << 20, 4 << 20}) == 0);
    fill_the_disk(new_context(), MMSB_E_IO);
    return check_failures != 0;
}

static int on_a_small_file_system(const char *folder) {
    fill_the_disk(new_context_on(folder), MMSB_E_NO_SPACE);
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
    RUN(a_file_that_may_not_grow_loses_nothing);
    RUN(a_full_disk_loses_nothing);
    return check_report();
}
