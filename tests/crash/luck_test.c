/*
 * Bad luck that no crash is: damaged and foreign files, files and folders that are not as they should be, descriptors and readers
 * that go away, Ctrl-C. Every call must say so, and leave files and the living context as they were.
 */
#include "../c/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *program;

static uint8_t *read_whole(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*length);
    REQUIRE(bytes != NULL && fread(bytes, 1, *length, file) == *length);
    fclose(file);
    return bytes;
}

static void write_whole(const char *path, const uint8_t *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

/* --------------------------------------------------------------------------------------------------- the living ---- */

static mmsb_page_t new_page_with_id(mmsb_context_t context, uint64_t id, uint64_t size) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = id;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, size, &options, &page));
    return page;
}

/* A page with a mask and metadata, and a second one. */
static mmsb_context_t small_state(uint64_t seed) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page_with_id(context, 7, 300);
    write_pattern(page, seed);
    mmsb_run_t run = {10, 3};
    mmsb_delta_t delta = one_run(&run, "abc");
    REQUIRE_OK(mmsb_page_apply(page, &delta));
    REQUIRE_OK(mmsb_page_metadata_set(page, "name", 4, "value", 5));
    REQUIRE_OK(mmsb_page_dependency_add(page, new_page_with_id(context, 8, 64)));
    return context;
}

/* A context that no failed load may change. */
typedef struct living {
    mmsb_context_t context;
    mmsb_page_t page;
    uint64_t version;
} living_t;

static living_t new_living(void) {
    living_t living = {.context = new_context()};
    living.page = new_page_with_id(living.context, 7, 5000);
    write_pattern(living.page, 99);
    living.version = mmsb_page_version(living.page);
    return living;
}

static int is_as_it_was(const living_t *living) {
    uint64_t pages = 0;
    return mmsb_context_page_count(living->context, &pages) == MMSB_OK && pages == 1 &&
           mmsb_page_version(living->page) == living->version && page_holds_pattern(living->page, 99, 5000);
}

/* A file that must not be loaded, opened or verified; and the living context stays. */
static void check_refused(const living_t *living, const char *path, mmsb_status_t expected) {
    CHECK_STATUS(mmsb_snapshot_load(living->context, path, NULL), expected);
    CHECK(is_as_it_was(living));
    CHECK_STATUS(mmsb_snapshot_verify(path, NULL), expected);
}

/* ------------------------------------------------------------------------------------------------------- damage ---- */

static int is_damage(mmsb_status_t status) {
    return status == MMSB_E_CORRUPT || status == MMSB_E_FORMAT;
}

static void every_flipped_byte_is_found(void) {
    mmsb_context_t saved = small_state(1);
    CHECK_OK(mmsb_snapshot_save(saved, at("small"), NULL));
    CHECK_OK(mmsb_context_destroy(saved));
    size_t length = 0;
    uint8_t *bytes = read_whole(at("small"), &length);
    living_t living = new_living();
    uint64_t random = 1;
    size_t found = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t was = bytes[i];
        bytes[i] ^= (uint8_t)(1U << random_below(&random, 8));
        /* By memory for speed; each 97th byte by path, too. */
        mmsb_status_t status = mmsb_snapshot_load_memory(living.context, bytes, length, NULL);
        if (is_damage(status) && is_as_it_was(&living)) {
            found++;
        } else {
            check_fail(__FILE__, __LINE__, "flipped byte %zu of %zu: status %d, %s", i, length, (int)status, mmsb_last_error());
        }
        if (i % 97 == 0) {
            write_whole(at("flipped"), bytes, length);
            CHECK_STATUS(mmsb_snapshot_load(living.context, at("flipped"), NULL), status);
            CHECK_STATUS(mmsb_snapshot_verify(at("flipped"), NULL), status);
            CHECK(is_as_it_was(&living));
        }
        bytes[i] = was;
    }
    CHECK_EQUAL(found, length);
    /* The twin: what is not flipped is loaded. */
    CHECK_OK(mmsb_snapshot_load_memory(living.context, bytes, length, NULL));
    CHECK(!is_as_it_was(&living));
    free(bytes);
    CHECK_OK(mmsb_context_destroy(living.context));
}

static void every_truncation_is_found(void) {
    mmsb_context_t saved = small_state(1);
    CHECK_OK(mmsb_snapshot_save(saved, at("small"), NULL));
    CHECK_OK(mmsb_context_destroy(saved));
    size_t length = 0;
    uint8_t *bytes = read_whole(at("small"), &length);
    living_t living = new_living();
    for (size_t cut = 0; cut < length; cut += 64) {
        write_whole(at("cut"), bytes, cut);
        mmsb_status_t status = mmsb_snapshot_load(living.context, at("cut"), NULL);
        if (!is_damage(status) || strstr(mmsb_last_error(), "cut") == NULL) {
            check_fail(__FILE__, __LINE__, "cut to %zu of %zu: status %d, %s", cut, length, (int)status, mmsb_last_error());
        }
        CHECK_STATUS(mmsb_snapshot_verify(at("cut"), NULL), status);
        CHECK(is_as_it_was(&living));
    }
    write_whole(at("longer"), bytes, length);
    int longer = open(at("longer"), O_WRONLY | O_APPEND);
    CHECK(write(longer, "x", 1) == 1 && close(longer) == 0);
    check_refused(&living, at("longer"), MMSB_E_CORRUPT);
    free(bytes);
    CHECK_OK(mmsb_context_destroy(living.context));
}

/* CRC-32C of a block, bit by bit. */
static uint32_t crc32c(const uint8_t *bytes, size_t length) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
        }
    }
    return ~crc;
}

static void a_newer_version_is_refused(void) {
    mmsb_context_t saved = small_state(1);
    CHECK_OK(mmsb_snapshot_save(saved, at("small"), NULL));
    CHECK_OK(mmsb_context_destroy(saved));
    size_t length = 0;
    uint8_t *bytes = read_whole(at("small"), &length);
    uint8_t *blocks[2] = {bytes, bytes + length - 4096}; /* header and footer */
    for (int i = 0; i < 2; i++) {
        blocks[i][8] = 5;
        uint32_t crc = crc32c(blocks[i], 4092);
        memcpy(blocks[i] + 4092, &crc, 4);
    }
    write_whole(at("newer"), bytes, length);
    living_t living = new_living();
    check_refused(&living, at("newer"), MMSB_E_FORMAT);
    CHECK(strstr(mmsb_last_error(), "version 5") != NULL);
    free(bytes);
    CHECK_OK(mmsb_context_destroy(living.context));
}

/* -------------------------------------------------------------------------------------------------------- chains ---- */

static void save_on(mmsb_context_t context, const char *path, const char *base, mmsb_status_t expected) {
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.base = base;
    CHECK_STATUS(mmsb_snapshot_save(context, path, &options), expected);
}

static void a_base_must_be_the_one_that_was(void) {
    mmsb_context_t saved = small_state(1);
    save_on(saved, at("base"), NULL, MMSB_OK);
    mmsb_page_t page = 0;
    CHECK_OK(mmsb_page_lookup(saved, 7, &page));
    CHECK_OK(mmsb_page_write(page, 0, "changed", 7));
    save_on(saved, at("tip"), at("base"), MMSB_OK);
    mmsb_context_t other = small_state(2);
    save_on(other, at("foreign"), NULL, MMSB_OK);
    living_t living = new_living();

    REQUIRE(rename(at("base"), at("away")) == 0);
    check_refused(&living, at("tip"), MMSB_E_NOT_FOUND);
    CHECK(strstr(mmsb_last_error(), "base") != NULL);
    save_on(saved, at("next"), at("base"), MMSB_E_NOT_FOUND);

    REQUIRE(link(at("foreign"), at("base")) == 0);
    check_refused(&living, at("tip"), MMSB_E_MISMATCH);
    save_on(saved, at("next"), at("base"), MMSB_E_MISMATCH);
    REQUIRE(unlink(at("base")) == 0);

    /* Never through a symbolic link, even to the right file. */
    REQUIRE(symlink("away", at("base")) == 0);
    mmsb_status_t status = mmsb_snapshot_load(living.context, at("tip"), NULL);
    CHECK(status == MMSB_E_IO || status == MMSB_E_INVALID_ARGUMENT);
    CHECK(is_as_it_was(&living));
    CHECK(mmsb_snapshot_verify(at("tip"), NULL) == status);
    REQUIRE(unlink(at("base")) == 0);

    /* A truncated one is damage, of the base. */
    size_t length = 0;
    uint8_t *bytes = read_whole(at("away"), &length);
    write_whole(at("base"), bytes, length - 1);
    free(bytes);
    check_refused(&living, at("tip"), MMSB_E_CORRUPT);
    CHECK(strstr(mmsb_last_error(), "base") != NULL);

    CHECK(access(at("next"), F_OK) != 0);
    CHECK_EQUAL(files_in_folder(), 4); /* tip, away, foreign, base: nothing of the failed saves */
    REQUIRE(rename(at("away"), at("base")) == 0);
    CHECK_OK(mmsb_snapshot_load(living.context, at("tip"), NULL));
    CHECK_OK(mmsb_context_destroy(saved));
    CHECK_OK(mmsb_context_destroy(other));
    CHECK_OK(mmsb_context_destroy(living.context));
}

static void files_that_vanish(void) {
    mmsb_context_t saved = small_state(1);
    save_on(saved, at("state"), NULL, MMSB_OK);
    REQUIRE(unlink(at("state")) == 0);
    living_t living = new_living();
    check_refused(&living, at("state"), MMSB_E_NOT_FOUND);
    save_on(saved, at("next"), at("state"), MMSB_E_NOT_FOUND);
    save_on(saved, at("state"), NULL, MMSB_OK);
    CHECK_EQUAL(files_in_folder(), 1);
    CHECK_OK(mmsb_context_destroy(saved));
    CHECK_OK(mmsb_context_destroy(living.context));
}

/* --------------------------------------------------------------------------------------------------- descriptors ---- */

static int foreign_code(void) {
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_OK(mmsb_last_error_detail(&detail));
    return detail.foreign_code;
}

static void descriptors_that_are_no_good(void) {
    mmsb_context_t saved = small_state(1);
    living_t living = new_living();
    int closed = open("/dev/null", O_RDWR);
    REQUIRE(closed >= 0 && close(closed) == 0);
    CHECK(mmsb_snapshot_save_descriptor(saved, closed, NULL) != MMSB_OK);
    CHECK_EQUAL(foreign_code(), EBADF);
    CHECK(mmsb_snapshot_load_descriptor(living.context, closed, NULL) != MMSB_OK);
    CHECK_EQUAL(foreign_code(), EBADF);
    CHECK(mmsb_snapshot_save_descriptor(saved, -1, NULL) != MMSB_OK);
    int full = open("/dev/full", O_WRONLY);
    REQUIRE(full >= 0);
    CHECK_STATUS(mmsb_snapshot_save_descriptor(saved, full, NULL), MMSB_E_NO_SPACE);
    CHECK_EQUAL(foreign_code(), ENOSPC);
    close(full);
    int empty = open("/dev/null", O_RDONLY);
    REQUIRE(empty >= 0);
    CHECK(is_damage(mmsb_snapshot_load_descriptor(living.context, empty, NULL)));
    close(empty);
    CHECK(is_as_it_was(&living));
    CHECK_OK(mmsb_context_destroy(saved));
    CHECK_OK(mmsb_context_destroy(living.context));
}

/* Runs this program anew; gives what waitpid gave. */
static int run_again(const char *what, const char *where) {
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, what, where, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* Saves into a pipe that is full, and whose reader goes away then. SIGPIPE is as the system sets it. */
static int save_into_a_broken_pipe(int as_standard_output) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    if (as_standard_output) {
        REQUIRE(dup2(ends[1], 1) == 1 && close(ends[1]) == 0);
        ends[1] = 1;
    }
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        char byte;
        ssize_t n = read(ends[0], &byte, 1);
        usleep(50000);
        _exit(n == 1 ? 0 : 1);
    }
    close(ends[0]);
    mmsb_context_t context = new_context();
    write_pattern(new_page(context, 1 << 20), 1);
    mmsb_status_t status = mmsb_snapshot_save_descriptor(context, ends[1], NULL);
    int right = status == MMSB_E_IO && foreign_code() == EPIPE;
    right = right && mmsb_context_destroy(context) == MMSB_OK;
    waitpid(reader, NULL, 0);
    return right ? 0 : 3;
}

static void a_reader_that_goes_away_kills_nobody(void) {
    CHECK_EQUAL(run_again("broken-pipe", "descriptor"), 0);
    CHECK_EQUAL(run_again("broken-pipe", "standard-output"), 0);
}

/* -------------------------------------------------------------------------------------------------- other programs ---- */

/* Ctrl-C while a save runs ends a program, and leaves the old file. */
static int save_for_ever(const char *path) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8 << 20);
    write_pattern(page, 1);
    REQUIRE_OK(mmsb_snapshot_save(context, path, NULL));
    REQUIRE(write(1, "x", 1) == 1);
    for (;;) {
        REQUIRE_OK(mmsb_snapshot_save(context, path, NULL));
    }
}

static void control_c_leaves_the_old_file(void) {
    uint64_t random = 1;
    int left_rubbish = 0;
    for (int i = 0; i < 8 || (left_rubbish == 0 && i < 100); i++) {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], 1);
            close(ends[0]);
            close(ends[1]);
            signal(SIGINT, SIG_DFL);
            execl(program, program, "save-for-ever", at("state"), (char *)NULL);
            _exit(127);
        }
        close(ends[1]);
        char byte = 0;
        CHECK(read(ends[0], &byte, 1) == 1);
        close(ends[0]);
        usleep((useconds_t)random_below(&random, 30000));
        CHECK(kill(child, SIGINT) == 0);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
        CHECK_OK(mmsb_snapshot_verify(at("state"), NULL));
        CHECK(files_in_folder() <= 2);
        left_rubbish += files_in_folder() == 2;
    }
    CHECK(left_rubbish > 0); /* else no Ctrl-C fell into a save */
    mmsb_context_t context = small_state(1);
    CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
    CHECK_EQUAL(files_in_folder(), 1);
    CHECK_OK(mmsb_context_destroy(context));
}

/* As a user who may not write the folder: root becomes one. */
static int save_where_nobody_may_write(void) {
    mmsb_context_t context = small_state(1);
    REQUIRE_OK(mmsb_snapshot_save(context, at("state"), NULL));
    REQUIRE(chmod(at("state"), 0444) == 0 && chmod(folder, 0555) == 0);
    if (geteuid() == 0) {
        REQUIRE(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    }
    CHECK_STATUS(mmsb_snapshot_save(context, at("state"), NULL), MMSB_E_IO);
    CHECK_EQUAL(foreign_code(), EACCES);
    CHECK_STATUS(mmsb_snapshot_save(context, at("new"), NULL), MMSB_E_IO);
    CHECK_STATUS(mmsb_journal_open(context, at("journal"), NULL), MMSB_E_IO);
    CHECK_EQUAL(foreign_code(), EACCES);
    CHECK_OK(mmsb_snapshot_verify(at("state"), NULL));
    CHECK_OK(mmsb_snapshot_load(context, at("state"), NULL));
    CHECK_EQUAL(files_in_folder(), 1);
    return check_failures;
}

static void a_folder_that_may_not_be_written(void) {
    CHECK_EQUAL(run_again("read-only", folder), 0);
    REQUIRE(chmod(folder, 0700) == 0);
}

/* ------------------------------------------------------------------------------------------------------ journals ---- */

/* The file has the page as it is. */
static void check_saved(mmsb_context_t context, mmsb_page_t page, const char *name) {
    uint8_t now[64], then[64];
    mmsb_context_t other = new_context();
    mmsb_page_t found = 0;
    CHECK_OK(mmsb_snapshot_load(other, at(name), NULL));
    CHECK_OK(mmsb_page_lookup(other, mmsb_page_id(page), &found));
    CHECK_OK(mmsb_page_read(page, 0, now, sizeof now));
    CHECK_OK(mmsb_page_read(found, 0, then, sizeof then));
    CHECK(memcmp(now, then, sizeof now) == 0);
    uint64_t pages = 0, all = 0;
    CHECK_OK(mmsb_context_page_count(context, &all));
    CHECK_OK(mmsb_context_page_count(other, &pages));
    CHECK_EQUAL(pages, all);
    CHECK_OK(mmsb_context_destroy(other));
}

/* The disk is full for a journal: the call that it cannot take says so, the next one changes nothing, and what it took comes
 * back. No signal comes of it, and the state can be saved elsewhere, under a name that is not the journal's. */
static int fill_a_journal(void) {
    mmsb_context_t context = small_state(1);
    REQUIRE_OK(mmsb_snapshot_save(context, at("state"), NULL));
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = MMSB_DURABILITY_CALL;
    REQUIRE_OK(mmsb_journal_open(context, at("journal"), &options));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){75 * 4096, RLIM_INFINITY}) == 0);
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_lookup(context, 8, &page));
    uint64_t taken = 0;
    mmsb_status_t status = MMSB_OK;
    while (taken < 1000 && (status = mmsb_page_write(page, 0, &taken, 8)) == MMSB_OK) {
        taken++;
    }
    CHECK(taken > 10 && taken < 1000);
    CHECK_EQUAL(status, MMSB_E_NOT_DURABLE);
    CHECK_EQUAL(foreign_code(), EFBIG);
    uint64_t version = mmsb_page_version(page), held = 0;
    CHECK_STATUS(mmsb_page_write(page, 0, &taken, 8), MMSB_E_NO_SPACE); /* from then on before anything changes */
    CHECK_EQUAL(mmsb_page_version(page), version);
    CHECK_OK(mmsb_snapshot_save(context, at("elsewhere"), NULL));
    check_saved(context, page, "elsewhere");
    *(uint8_t *)mmsb_page_address(page) ^= 1; /* no call may change it */
    mmsb_save_options_t save;
    mmsb_save_options_init(&save);
    save.base = at("elsewhere");
    CHECK_OK(mmsb_snapshot_save(context, at("later"), &save));
    check_saved(context, page, "later");
    CHECK(mmsb_journal_close(context) != MMSB_OK);
    save.base = at("later");
    CHECK_OK(mmsb_snapshot_save(context, at("last"), &save));
    check_saved(context, page, "last");
    REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.journal = at("journal");
    CHECK_OK(mmsb_snapshot_load(context, at("state"), &load));
    REQUIRE_OK(mmsb_page_lookup(context, 8, &page));
    REQUIRE_OK(mmsb_page_read(page, 0, &held, 8));
    CHECK(held + 1 == taken || held == taken); /* the last one may have reached the disk, and was not acknowledged */
    CHECK_OK(mmsb_journal_open(context, at("journal"), &options));
    CHECK_OK(mmsb_page_write(page, 0, &taken, 8));
    CHECK_OK(mmsb_context_destroy(context));
    return check_failures;
}

static void a_full_disk_ends_a_journal(void) {
    CHECK_EQUAL(run_again("full-journal", folder), 0);
}

/* Any flipped byte of a journal's frames is an error, or the end of the journal: never another state. */
static void a_damaged_journal_tells_no_lies(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page_with_id(context, 1, 64);
    REQUIRE_OK(mmsb_snapshot_save(context, at("state"), NULL));
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = MMSB_DURABILITY_CALL;
    options.keep = 1;
    REQUIRE_OK(mmsb_journal_open(context, at("journal"), &options));
    enum { CALLS = 6 };
    for (uint64_t i = 1; i <= CALLS; i++) {
        REQUIRE_OK(mmsb_page_write(page, 8 * i, &i, 8));
    }
    REQUIRE_OK(mmsb_context_destroy(context));
    const char *segment = "journal/journal-00000000000000000002.mmsbj";
    size_t length = 0;
    uint8_t *bytes = read_whole(at(segment), &length);
    living_t living = new_living();
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    char directory[300];
    snprintf(directory, sizeof directory, "%s", at("journal"));
    load.journal = directory;
    uint64_t random = 3, errors = 0, ends = 0;
    for (size_t i = 0; i < length; i += i % 4096 < 256 ? 1 : 61) {
        uint8_t was = bytes[i];
        bytes[i] ^= (uint8_t)(1U << random_below(&random, 8));
        write_whole(at(segment), bytes, length);
        bytes[i] = was;
        mmsb_context_t other = new_context();
        mmsb_status_t status = mmsb_snapshot_load(other, at("state"), &load);
        if (status == MMSB_OK) { /* a prefix, then */
            uint64_t words[8] = {0};
            REQUIRE_OK(mmsb_page_lookup(other, 1, &page));
            REQUIRE_OK(mmsb_page_read(page, 0, words, sizeof words));
            uint64_t prefix = 0;
            while (prefix < CALLS && words[prefix + 1] == prefix + 1) {
                prefix++;
            }
            for (uint64_t rest = prefix + 1; rest < 8; rest++) {
                CHECK_EQUAL(words[rest], 0);
            }
            ends++;
            CHECK(prefix >= CALLS - 1); /* only the last frame's end can be taken for a crash's */
        } else {
            CHECK(is_damage(status));
            errors++;
        }
        REQUIRE_OK(mmsb_context_destroy(other));
        if (status != MMSB_OK && i % 7 == 0) {
            CHECK_STATUS(mmsb_snapshot_load(living.context, at("state"), &load), status);
            CHECK(is_as_it_was(&living));
        }
    }
    CHECK(errors > 0 && ends > 0);
    free(bytes);
    CHECK_OK(mmsb_context_destroy(living.context));
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 2) {
        const char *what = arguments[1];
        if (strcmp(what, "broken-pipe") == 0) {
            return save_into_a_broken_pipe(strcmp(arguments[2], "standard-output") == 0);
        }
        if (strcmp(what, "save-for-ever") == 0) {
            return save_for_ever(arguments[2]);
        }
        folder_use(arguments[2]);
        return strcmp(what, "read-only") == 0 ? save_where_nobody_may_write() : fill_a_journal();
    }
    folder_make();
    RUN_IN_FOLDER(every_flipped_byte_is_found);
    RUN_IN_FOLDER(every_truncation_is_found);
    RUN_IN_FOLDER(a_newer_version_is_refused);
    RUN_IN_FOLDER(a_base_must_be_the_one_that_was);
    RUN_IN_FOLDER(files_that_vanish);
    RUN_IN_FOLDER(descriptors_that_are_no_good);
    RUN_IN_FOLDER(a_reader_that_goes_away_kills_nobody);
    RUN_IN_FOLDER(control_c_leaves_the_old_file);
    RUN_IN_FOLDER(a_folder_that_may_not_be_written);
    RUN_IN_FOLDER(a_full_disk_ends_a_journal);
    RUN_IN_FOLDER(a_damaged_journal_tells_no_lies);
    folder_end();
    return check_report();
}
