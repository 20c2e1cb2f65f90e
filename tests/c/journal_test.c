/* The journal: snapshot and tail give the state after the last call, or after one between; what a kill and bad arguments do. */
#include "folder.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *program;

static mmsb_journal_info_t info_of(mmsb_context_t context) {
    mmsb_journal_info_t info;
    mmsb_journal_info_init(&info);
    CHECK_OK(mmsb_journal_info(context, &info));
    return info;
}

static void begin(mmsb_context_t context, int32_t durability) {
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = durability;
    CHECK_OK(mmsb_journal_open(context, at("journal"), &options));
}

/* A new context from the snapshot "start" and the journal's records, as far as the options say. */
static mmsb_context_t replayed_with(mmsb_load_options_t *options) {
    mmsb_context_t context = new_context();
    char journal[256];
    snprintf(journal, sizeof journal, "%s", at("journal"));
    options->journal = journal;
    CHECK_OK(mmsb_snapshot_load(context, at("start"), options));
    return context;
}

/* The same up to a record, 0 for all. */
static mmsb_context_t replayed(uint64_t until) {
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.journal_until = until;
    return replayed_with(&options);
}

static mmsb_context_t replayed_to_epoch(uint64_t id, uint64_t epoch) {
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.journal_page = id;
    options.journal_epoch = epoch;
    return replayed_with(&options);
}

/* A journal that was begun with an empty context needs no snapshot. */
static void a_journal_alone(void) {
    mmsb_context_t context = new_context(), other = new_context();
    char directory[256];
    snprintf(directory, sizeof directory, "%s", at("alone"));
    CHECK_OK(mmsb_journal_open(context, directory, NULL));
    mmsb_page_options_t chosen;
    mmsb_page_options_init(&chosen);
    chosen.id = 77;
    mmsb_page_t page;
    CHECK_OK(mmsb_page_create(context, 5000, &chosen, &page));
    CHECK_OK(mmsb_page_write(page, 100, "alone", 5));
    CHECK_OK(mmsb_journal_sync(context, NULL));
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    CHECK_STATUS(mmsb_snapshot_load(other, "", &options), MMSB_E_INVALID_ARGUMENT);
    options.journal = directory;
    CHECK_STATUS(mmsb_snapshot_load(other, NULL, &options), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_snapshot_load(other, "", &options));
    char bytes[5] = {0};
    CHECK_OK(mmsb_page_lookup(other, 77, &page));
    CHECK_OK(mmsb_page_read(page, 100, bytes, 5));
    CHECK(memcmp(bytes, "alone", 5) == 0);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_context_destroy(other));
}

static mmsb_page_t page_of(mmsb_context_t context, uint64_t id) {
    mmsb_page_t page = 0;
    CHECK_OK(mmsb_page_lookup(context, id, &page));
    return page;
}

static void check_same_page(mmsb_page_t page, mmsb_page_t twin) {
    mmsb_page_info_t one = page_info(page), other = page_info(twin);
    CHECK_EQUAL(other.size, one.size);
    CHECK_EQUAL(other.epoch, one.epoch);
    CHECK_EQUAL(other.version, one.version);
    CHECK_EQUAL(other.location, one.location);
    CHECK_EQUAL(other.metadata_count, one.metadata_count);
    uint8_t *bytes = calloc(2, one.size);
    REQUIRE(bytes != NULL);
    CHECK_OK(mmsb_page_read(page, 0, bytes, one.size));
    CHECK(page_holds(twin, bytes, one.size));
    memset(bytes, 0, 2 * one.size);
    CHECK_OK(mmsb_page_mask_read(page, 0, bytes, one.size));
    CHECK_OK(mmsb_page_mask_read(twin, 0, bytes + one.size, one.size));
    CHECK(memcmp(bytes, bytes + one.size, one.size) == 0);
    free(bytes);
}

/* One call of each kind that changes something. */
static void every_change_is_replayed(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 5000);
    write_pattern(page, 1);
    CHECK_OK(mmsb_snapshot_save(context, at("start"), NULL));
    begin(context, MMSB_DURABILITY_INTERVAL);

    mmsb_run_t run = {100, 5};
    mmsb_delta_t delta = one_run(&run, "runs!");
    CHECK_OK(mmsb_page_apply(page, &delta));
    const uint64_t offsets[] = {7, 4000};
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_INDEXED;
    delta.offsets = offsets;
    delta.count = 2;
    delta.payload = "ix";
    CHECK_OK(mmsb_page_apply(page, &delta));
    uint8_t mask[5000] = {0};
    mask[9] = mask[4999] = 1;
    uint8_t payload[5000];
    memset(payload, 'd', sizeof payload);
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_DENSE_BYTES;
    delta.mask = mask;
    delta.mask_length = sizeof mask;
    delta.payload = payload;
    delta.payload_length = sizeof payload;
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_OK(mmsb_page_write(page, 1000, "written", 7));
    CHECK_OK(mmsb_page_metadata_set(page, "key", 3, "value", 5));
    CHECK_OK(mmsb_page_metadata_set(page, "gone", 4, "value", 5));
    CHECK_OK(mmsb_page_metadata_remove(page, "gone", 4));
    mmsb_page_t many[20];
    CHECK_OK(mmsb_page_create_many(context, 64, 20, NULL, NULL, many));
    mmsb_page_range_t range = {many[1], 3, 4, "rang"};
    CHECK_OK(mmsb_page_write_many(&range, 1, NULL));
    const uint64_t places[] = {0, 10};
    mmsb_page_runs_t runs;
    mmsb_page_runs_init(&runs);
    runs.count = 2;
    runs.pages = &many[2];
    runs.offsets = places;
    runs.uniform_length = 3;
    runs.payload = "abcdef";
    CHECK_OK(mmsb_page_apply_runs(&runs, NULL));
    CHECK_OK(mmsb_page_destroy_many(&many[10], 10, NULL));
    CHECK_OK(mmsb_page_destroy(many[9]));
    mmsb_page_t clone = 0;
    CHECK_OK(mmsb_page_clone(page, 777, &clone));
    CHECK_OK(mmsb_page_resize(clone, 100000));
    CHECK_OK(mmsb_page_write(clone, 99990, "far", 3));
    CHECK_OK(mmsb_page_resize(clone, 99995));
    CHECK_OK(mmsb_page_mask_clear(clone));
    CHECK_OK(mmsb_page_migrate(many[4], MMSB_LOCATION_DISK, 0));
    static uint8_t array[3000];
    fill_pattern(array, sizeof array, 3);
    mmsb_page_t adopted = 0;
    CHECK_OK(mmsb_page_adopt(context, array, sizeof array, NULL, &adopted));
    CHECK_OK(mmsb_page_write(adopted, 5, "adopted", 7));
    CHECK_OK(mmsb_page_dependency_add(page, clone));
    CHECK_OK(mmsb_page_dependency_add(clone, many[0]));
    CHECK_OK(mmsb_page_dependency_remove(clone, many[0]));
    CHECK_OK(mmsb_journal_sync(context, NULL));
    mmsb_journal_info_t info = info_of(context);
    CHECK(info.first == 2 && info.last >= 20 && /* the save was the first step */ info.synced == info.last &&
          info.segments == 1 && info.bytes > 5000);

    mmsb_context_t again = replayed(0);
    CHECK_EQUAL(context_stats(again).pages, context_stats(context).pages);
    mmsb_page_t all[] = {page, clone, adopted, many[0], many[1], many[2], many[3], many[4], many[8]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check_same_page(all[i], page_of(again, page_info(all[i]).id));
    }
    mmsb_page_t children[2] = {0, 0};
    size_t count = 0;
    CHECK_OK(mmsb_page_children(page_of(again, page_info(page).id), children, 2, &count));
    CHECK(count == 1 && children[0] == page_of(again, 777));
    CHECK_OK(mmsb_page_children(children[0], NULL, 0, &count));
    CHECK_EQUAL(count, 0);
    CHECK_OK(mmsb_context_destroy(again));

    /* What comes after the end of the journal is not in it. */
    CHECK_OK(mmsb_journal_close(context));
    CHECK_STATUS(mmsb_journal_close(context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_write(page, 0, "later", 5));
    again = replayed(0);
    CHECK(!page_holds(page_of(again, page_info(page).id), "later", 5));
    CHECK_OK(mmsb_page_read(page_of(again, page_info(page).id), 0, mask, 1));
    CHECK_EQUAL(mask[0], pattern_byte(1, 0));
    CHECK_OK(mmsb_context_destroy(again));
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_state_after_each_record(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    uint64_t id = page_info(page).id;
    CHECK_OK(mmsb_snapshot_save(context, at("start"), NULL));
    begin(context, MMSB_DURABILITY_CALL);
    uint64_t before = info_of(context).last; /* the save was a step, too */
    for (uint64_t i = 1; i <= 50; i++) {
        mmsb_run_t run = {0, sizeof i};
        mmsb_delta_t delta = one_run(&run, &i);
        CHECK_OK(mmsb_page_apply(page, &delta));
        mmsb_journal_info_t info = info_of(context);
        CHECK_EQUAL(info.last, before + i);
        CHECK_EQUAL(info.synced, before + i); /* the call has returned */
    }
    for (uint64_t i = 1; i <= 50; i += 7) {
        mmsb_context_t again = replayed(before + i);
        CHECK_EQUAL(mmsb_page_epoch(page_of(again, id)), i);
        CHECK(page_holds(page_of(again, id), &i, sizeof i));
        CHECK_OK(mmsb_context_destroy(again));
    }
    CHECK_OK(mmsb_context_destroy(context)); /* which ends the journal, too */
}

/* What other pages were when one page had an epoch. A batch is replayed whole or not at all. */
static void the_state_at_an_epoch_of_a_page(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t clock = new_page(context, 1), other = new_page(context, 2);
    uint64_t id = page_info(clock).id, other_id = page_info(other).id;
    CHECK_OK(mmsb_snapshot_save(context, at("start"), NULL));
    begin(context, MMSB_DURABILITY_NONE);
    for (uint8_t i = 1; i <= 20; i++) {
        CHECK_OK(mmsb_page_write(other, 0, &i, 1)); /* by a record of its own, before */
        const mmsb_page_t pages[] = {other, clock};
        const uint64_t offsets[] = {1, 0};
        const uint8_t payload[] = {i, i};
        mmsb_page_runs_t runs;
        mmsb_page_runs_init(&runs);
        runs.count = 2;
        runs.pages = pages;
        runs.offsets = offsets;
        runs.uniform_length = 1;
        runs.payload = payload;
        CHECK_OK(mmsb_page_apply_runs(&runs, NULL));
        CHECK_EQUAL(mmsb_page_epoch(clock), i);
    }
    CHECK_OK(mmsb_journal_close(context));
    for (uint8_t i = 1; i <= 20; i += 3) {
        mmsb_context_t again = replayed_to_epoch(id, i);
        CHECK_EQUAL(mmsb_page_epoch(page_of(again, id)), i);
        CHECK(page_holds(page_of(again, id), &i, 1));
        const uint8_t expected[] = {i < 20 ? (uint8_t)(i + 1) : i, i};
        CHECK(page_holds(page_of(again, other_id), expected, 2));
        CHECK_OK(mmsb_context_destroy(again));
    }
    mmsb_context_t again = replayed_to_epoch(id, UINT64_MAX);
    CHECK_EQUAL(mmsb_page_epoch(page_of(again, id)), 20);
    CHECK_OK(mmsb_context_destroy(again));
    again = replayed_to_epoch(UINT64_MAX, 1); /* a page that never was moves nothing */
    CHECK_EQUAL(mmsb_page_epoch(page_of(again, other_id)), 20);
    CHECK_OK(mmsb_context_destroy(again));
    CHECK_OK(mmsb_context_destroy(context));
}

static mmsb_status_t journal_into(mmsb_context_t context, const char *name) {
    return mmsb_journal_open(context, at(name), NULL);
}

static void who_may_continue_a_journal(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 1);
    uint64_t id = page_info(page).id;
    CHECK_OK(mmsb_snapshot_save(context, at("start"), NULL));
    begin(context, MMSB_DURABILITY_NONE);
    for (uint8_t i = 1; i <= 5; i++) {
        CHECK_OK(mmsb_page_write(page, 0, &i, 1));
    }
    CHECK_OK(mmsb_context_destroy(context));

    /* One that has all of it does, as often as it likes. */
    context = replayed(0);
    const uint8_t last = 5;
    CHECK(page_holds(page_of(context, id), &last, 1));
    CHECK_OK(journal_into(context, "journal"));
    CHECK_OK(mmsb_page_write(page_of(context, id), 0, "c", 1));
    uint64_t end = info_of(context).last;
    CHECK_OK(mmsb_journal_close(context));
    CHECK_OK(journal_into(context, "journal"));
    CHECK_EQUAL(info_of(context).last, end);
    CHECK_OK(mmsb_context_destroy(context));

    /* One that goes on from an earlier state begins a branch, with a base: what a load takes from then on. */
    context = replayed(end - 2);
    mmsb_journal_options_t refuse;
    mmsb_journal_options_init(&refuse);
    refuse.base = MMSB_JOURNAL_BASE_REFUSE;
    CHECK_STATUS(mmsb_journal_open(context, at("journal"), &refuse), MMSB_E_INVALID_STATE);
    CHECK_OK(journal_into(context, "journal"));
    CHECK_OK(mmsb_page_write(page_of(context, id), 0, "b", 1));
    CHECK_EQUAL(info_of(context).first, end - 1);
    CHECK_OK(mmsb_context_destroy(context));
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    char journal[256];
    snprintf(journal, sizeof journal, "%s", at("journal"));
    options.journal = journal;
    context = new_context();
    CHECK_STATUS(mmsb_snapshot_load(context, at("start"), &options), MMSB_E_MISMATCH);
    CHECK_OK(mmsb_snapshot_load(context, "", &options));
    CHECK(page_holds(page_of(context, id), "b", 1));

    /* A context of another history does not. */
    mmsb_context_t other = new_context();
    new_page(other, 1);
    CHECK_STATUS(journal_into(other, "journal"), MMSB_E_MISMATCH);
    CHECK_OK(mmsb_context_destroy(other));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Threads that change pages of their own and one that all of them change. */
typedef struct busy {
    mmsb_context_t context;
    mmsb_page_t pages[5];
} busy_t;

static void *change(void *argument) {
    team_member_t *member = argument;
    busy_t *busy = member->shared;
    uint64_t random = member->index;
    for (int i = 0; i < 2000; i++) {
        uint64_t value = random_next(&random);
        mmsb_run_t run = {value % 4000, sizeof value};
        mmsb_delta_t delta = one_run(&run, &value);
        CHECK_OK(mmsb_page_apply(busy->pages[i % 2 == 0 ? member->index : 4], &delta));
        if (i % 100 == 0) {
            CHECK_OK(mmsb_page_destroy(new_page(busy->context, 100)));
        }
    }
    return NULL;
}

static void threads_write_one_journal(void) {
    busy_t busy = {.context = new_context()};
    for (int i = 0; i < 5; i++) {
        busy.pages[i] = new_page(busy.context, 4096);
    }
    CHECK_OK(mmsb_snapshot_save(busy.context, at("start"), NULL));
    begin(busy.context, MMSB_DURABILITY_INTERVAL);
    uint64_t before = info_of(busy.context).last;
    run_team(4, change, &busy);
    CHECK_OK(mmsb_journal_sync(busy.context, NULL));
    CHECK_EQUAL(info_of(busy.context).last, before + 4 * 2000 + 4 * 20 * 2);
    mmsb_context_t again = replayed(0);
    CHECK_EQUAL(context_stats(again).pages, 5);
    for (int i = 0; i < 5; i++) {
        check_same_page(busy.pages[i], page_of(again, page_info(busy.pages[i]).id));
    }
    CHECK_OK(mmsb_context_destroy(again));
    CHECK_OK(mmsb_context_destroy(busy.context));
}

/* Runs in a program of its own: each call that has returned writes its number into a pipe, until the program is killed. */
static int acknowledge_until_killed(const char *directory, int to) {
    folder_use(directory);
    mmsb_context_t context = replayed(0);
    begin(context, MMSB_DURABILITY_CALL);
    mmsb_page_t page = page_of(context, 1);
    for (uint64_t i = mmsb_page_epoch(page) + 1;; i++) {
        mmsb_run_t run = {0, sizeof i};
        mmsb_delta_t delta = one_run(&run, &i);
        REQUIRE_OK(mmsb_page_apply(page, &delta));
        REQUIRE(write(to, &i, sizeof i) == sizeof i);
        if (i % 50 == 0) {
            REQUIRE_OK(mmsb_snapshot_save(context, at("start"), NULL));
        }
    }
}

static void nothing_acknowledged_is_lost(void) {
    mmsb_context_t context = new_context();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 1;
    mmsb_page_t page;
    REQUIRE_OK(mmsb_page_create(context, 8, &options, &page));
    CHECK_OK(mmsb_snapshot_save(context, at("start"), NULL));
    begin(context, MMSB_DURABILITY_NONE);
    CHECK_OK(mmsb_context_destroy(context));
    uint64_t random = 5, acknowledged = 0;
    for (int round = 0; round < 15; round++) {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        pid_t child = fork();
        if (child == 0) {
            char descriptor[16];
            snprintf(descriptor, sizeof descriptor, "%d", ends[1]);
            execl(program, program, "acknowledge", folder, descriptor, (char *)NULL);
            _exit(127);
        }
        close(ends[1]);
        uint64_t wanted = random_below(&random, 120), value = 0;
        for (uint64_t i = 0; i <= wanted && read(ends[0], &value, sizeof value) == sizeof value; i++) {
            CHECK_EQUAL(value, acknowledged + 1);
            acknowledged = value;
        }
        CHECK(kill(child, SIGKILL) == 0);
        while (read(ends[0], &value, sizeof value) == sizeof value) {
            acknowledged = value;
        }
        close(ends[0]);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        /* What is there is what was acknowledged, and at most the call that was running. */
        mmsb_context_t again = replayed(0);
        uint64_t epoch = mmsb_page_epoch(page_of(again, 1));
        CHECK(epoch == acknowledged || epoch == acknowledged + 1);
        CHECK(page_holds(page_of(again, 1), &epoch, sizeof epoch));
        acknowledged = epoch;
        CHECK_OK(mmsb_context_destroy(again));
    }
    CHECK(acknowledged > 100);
}

static void what_a_journal_refuses(void) {
    mmsb_context_t context = new_context();
    mmsb_journal_options_t options;
#define REFUSED(change, code) \
    do { \
        mmsb_journal_options_init(&options); \
        options.change; \
        CHECK_STATUS(mmsb_journal_open(context, at("journal"), &options), code); \
    } while (0)
    REFUSED(struct_size = 1, MMSB_E_STRUCT_VERSION);
    REFUSED(reserved[1] = 1, MMSB_E_STRUCT_VERSION);
    REFUSED(durability = -1, MMSB_E_INVALID_ARGUMENT);
    REFUSED(durability = 3, MMSB_E_INVALID_ARGUMENT);
    REFUSED(interval_ms = 0, MMSB_E_INVALID_ARGUMENT);
    REFUSED(keep = 2, MMSB_E_INVALID_ARGUMENT);
    REFUSED(base = 2, MMSB_E_INVALID_ARGUMENT);
    REFUSED(reserved_word = 1, MMSB_E_STRUCT_VERSION);
    REFUSED(segment_bytes = UINT64_MAX, MMSB_E_INVALID_ARGUMENT);
    CHECK(access(at("journal"), F_OK) != 0);
    mmsb_journal_info_t info;
    mmsb_journal_info_init(&info);
    CHECK_STATUS(mmsb_journal_open(context, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_journal_open(context, "", NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_journal_sync(context, NULL), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_journal_info(context, &info), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_journal_info(context, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_journal_trim(context, at("start"), NULL), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_journal_trim(context, "", NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK(close(open(at("file"), O_CREAT | O_WRONLY, 0600)) == 0);
    CHECK(mmsb_journal_open(context, at("file"), NULL) != MMSB_OK);
    CHECK(mmsb_journal_open(context, at("no/journal"), NULL) != MMSB_OK);

    CHECK_OK(mmsb_journal_open(context, at("journal"), NULL));
    CHECK_STATUS(mmsb_journal_open(context, at("other"), NULL), MMSB_E_ALREADY_EXISTS);
    CHECK_STATUS(mmsb_journal_trim(context, at("none"), NULL), MMSB_E_NOT_FOUND);
    mmsb_context_t other = new_context();
    CHECK_STATUS(mmsb_journal_open(other, at("journal"), NULL), MMSB_E_BUSY);
    new_page(context, 10);
    CHECK_OK(mmsb_journal_close(context));
    CHECK_STATUS(mmsb_journal_open(other, at("journal"), NULL), MMSB_E_MISMATCH); /* it is empty, the journal is not */
    CHECK_OK(mmsb_journal_open(context, at("journal"), NULL));
    CHECK_EQUAL(info_of(context).last, 1);
    CHECK_OK(mmsb_context_destroy(other));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------ histories by chance ---- */

enum { HISTORY_PAGES = 12, HISTORY_STEPS = 1500, PAGE_MOST = 9000 };

/* A delta of any form, valid for a page of this size; what it points to is static. */
static mmsb_delta_t any_delta(uint64_t *seed, uint64_t size) {
    static uint8_t mask[PAGE_MOST], payload[PAGE_MOST];
    static uint64_t offsets[64];
    static uint32_t offsets32[64];
    static mmsb_run_t runs[5];
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    for (uint64_t i = 0; i < size; i++) {
        payload[i] = (uint8_t)random_next(seed);
        mask[i] = random_below(seed, 3) == 0 ? (uint8_t)random_next(seed) : 0;
    }
    delta.payload = payload;
    switch (random_below(seed, 6)) {
    case 0:
        delta.kind = MMSB_DELTA_DENSE_BYTES;
        delta.mask = mask;
        delta.mask_length = random_below(seed, size + 1);
        break;
    case 1:
        delta.kind = MMSB_DELTA_DENSE_BITS;
        delta.mask = mask;
        delta.mask_length = random_below(seed, size + 1);
        break;
    case 2:
        delta.kind = MMSB_DELTA_SPARSE_BITS;
        delta.mask = mask;
        delta.mask_length = random_below(seed, size + 1);
        break;
    case 3:
        delta.kind = MMSB_DELTA_INDEXED;
        delta.count = random_below(seed, 64);
        delta.offsets = offsets;
        for (uint64_t i = 0; i < delta.count; i++) {
            offsets[i] = random_below(seed, size);
        }
        break;
    case 4:
        delta.kind = MMSB_DELTA_INDEXED;
        delta.count = 1 + random_below(seed, 63);
        delta.offsets32 = offsets32;
        for (uint64_t i = 0; i < delta.count; i++) {
            offsets32[i] = (uint32_t)random_below(seed, size);
        }
        break;
    default:
        delta.kind = MMSB_DELTA_RUNS;
        delta.runs = runs;
        delta.count = random_below(seed, 6);
        for (uint64_t i = 0; i < delta.count; i++) {
            runs[i].offset = random_below(seed, size);
            runs[i].length = random_below(seed, (size - runs[i].offset) / 5 + 1);
        }
    }
    if (random_below(seed, 4) == 0) {
        delta.id = random_next(seed);
        delta.source = "by chance";
        delta.intent = random_below(seed, 2) ? "to be replayed" : NULL;
    }
    return delta;
}

static mmsb_page_t any_page(uint64_t *seed, mmsb_context_t context) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    if (random_below(seed, 4) == 0) {
        options.location = MMSB_LOCATION_DISK;
    }
    mmsb_page_t page = 0;
    CHECK_OK(mmsb_page_create(context, 64 + random_below(seed, PAGE_MOST - 64), &options, &page));
    return page;
}

static void any_change(uint64_t *seed, mmsb_context_t context, mmsb_page_t *page) {
    mmsb_delta_t delta;
    uint64_t size = page_info(*page).size, offset = random_below(seed, size), choice = random_below(seed, 40);
    if (choice == 0) {
        CHECK_OK(mmsb_page_destroy(*page));
        *page = any_page(seed, context);
    } else if (choice == 1) {
        CHECK_OK(mmsb_page_resize(*page, 64 + random_below(seed, PAGE_MOST - 64)));
    } else if (choice == 2) {
        CHECK_OK(mmsb_page_migrate(*page, random_below(seed, 2) ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU, 0));
    } else if (choice == 3) {
        CHECK_OK(mmsb_page_mask_clear(*page));
    } else if (choice == 4) {
        CHECK_OK(mmsb_page_metadata_set(*page, "key", 3, seed, 4));
    } else if (choice == 5) {
        mmsb_page_t copy = 0;
        CHECK_OK(mmsb_page_clone(*page, 0, &copy));
        CHECK_OK(mmsb_page_destroy(*page));
        *page = copy;
    } else if (choice < 12) {
        CHECK_OK(mmsb_page_write(*page, offset, &choice, size - offset < 8 ? size - offset : 8));
    } else {
        delta = any_delta(seed, size);
        CHECK_OK(mmsb_page_apply(*page, &delta));
    }
}

static void check_same_pages(const mmsb_page_t *pages, mmsb_context_t loaded) {
    size_t count = 0;
    uint64_t cursor = 0;
    mmsb_page_t listed[HISTORY_PAGES + 1];
    CHECK_OK(mmsb_context_pages(loaded, &cursor, listed, HISTORY_PAGES + 1, &count));
    CHECK_EQUAL(count, HISTORY_PAGES);
    for (int p = 0; p < HISTORY_PAGES; p++) {
        check_same_page(pages[p], page_of(loaded, page_info(pages[p]).id));
    }
}

/* Deltas of all forms between all other changes, from a snapshot in the middle: loaded at once and lazily; what an incremental
 * save of the replayed state says; and the journal with a byte that is another one, anywhere, which changes nothing. */
static void histories_are_replayed(void) {
    uint64_t seed = 20;
    mmsb_context_t context = new_context();
    mmsb_page_t pages[HISTORY_PAGES];
    begin(context, MMSB_DURABILITY_INTERVAL);
    for (int p = 0; p < HISTORY_PAGES; p++) {
        pages[p] = any_page(&seed, context);
    }
    for (int step = 0; step < HISTORY_STEPS; step++) {
        any_change(&seed, context, &pages[random_below(&seed, HISTORY_PAGES)]);
        if (step == HISTORY_STEPS / 3) {
            CHECK_OK(mmsb_snapshot_save(context, at("start"), NULL));
        }
        if (step % 100 == 0) {
            CHECK_OK(mmsb_journal_sync(context, NULL));
        }
    }
    CHECK_OK(mmsb_journal_close(context));
    mmsb_load_options_t options;
    for (int lazy = 0; lazy < 2; lazy++) {
        mmsb_load_options_init(&options);
        options.mode = lazy ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER;
        mmsb_context_t loaded = replayed_with(&options), again = new_context();
        mmsb_save_options_t save;
        mmsb_save_options_init(&save);
        save.base = at("start");
        CHECK_OK(mmsb_snapshot_save(loaded, at("next"), &save));
        check_same_pages(pages, loaded);
        CHECK_OK(mmsb_snapshot_load(again, at("next"), NULL));
        check_same_pages(pages, again);
        CHECK_OK(mmsb_context_destroy(again));
        CHECK_OK(mmsb_context_destroy(loaded));
    }

    glob_t found;
    char pattern[512], journal[256];
    snprintf(journal, sizeof journal, "%s", at("journal"));
    snprintf(pattern, sizeof pattern, "%s/journal-*.mmsbj", journal);
    REQUIRE(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    int file = open(found.gl_pathv[0], O_RDWR);
    struct stat status;
    REQUIRE(file >= 0 && fstat(file, &status) == 0);
    mmsb_load_options_init(&options);
    options.journal = journal;
    mmsb_context_stats_t before, after;
    mmsb_context_stats_init(&before);
    mmsb_context_stats_init(&after);
    CHECK_OK(mmsb_context_destroy(context)); /* what a new one has comes from a load, as after */
    context = new_context();
    CHECK_OK(mmsb_snapshot_load(context, at("start"), &options));
    for (int n = 0; n < HISTORY_PAGES; n++) {
        pages[n] = 0;
    }
    uint64_t cursor = 0;
    size_t count = 0;
    CHECK_OK(mmsb_context_pages(context, &cursor, pages, HISTORY_PAGES, &count));
    CHECK_EQUAL(count, HISTORY_PAGES);
    CHECK_OK(mmsb_context_stats(context, &before));
    for (off_t place = 4096 + (off_t)random_below(&seed, 4096); place < status.st_size; place += status.st_size / 40) {
        uint8_t was, changed;
        REQUIRE(pread(file, &was, 1, place) == 1);
        changed = was ^ 0x10;
        REQUIRE(pwrite(file, &changed, 1, place) == 1);
        CHECK_STATUS(mmsb_snapshot_load(context, at("start"), &options), MMSB_E_CORRUPT);
        REQUIRE(pwrite(file, &was, 1, place) == 1);
        CHECK_OK(mmsb_context_stats(context, &after));
        CHECK_EQUAL(after.pages, before.pages);
        CHECK_EQUAL(after.bytes, before.bytes);
        CHECK_EQUAL(after.disk_used, before.disk_used);
    }
    mmsb_load_options_init(&options);
    mmsb_context_t whole = replayed_with(&options);
    check_same_pages(pages, whole);
    close(file);
    globfree(&found);
    CHECK_OK(mmsb_context_destroy(whole));
    CHECK_OK(mmsb_context_destroy(context));
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 3 && strcmp(arguments[1], "acknowledge") == 0) {
        return acknowledge_until_killed(arguments[2], atoi(arguments[3]));
    }
    folder_make();
    RUN_IN_FOLDER(every_change_is_replayed);
    RUN_IN_FOLDER(a_journal_alone);
    RUN_IN_FOLDER(histories_are_replayed);
    RUN_IN_FOLDER(the_state_after_each_record);
    RUN_IN_FOLDER(the_state_at_an_epoch_of_a_page);
    RUN_IN_FOLDER(who_may_continue_a_journal);
    RUN_IN_FOLDER(threads_write_one_journal);
    RUN_IN_FOLDER(nothing_acknowledged_is_lost);
    RUN_IN_FOLDER(what_a_journal_refuses);
    folder_end();
    return check_report();
}
