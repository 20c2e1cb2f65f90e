/* Stores: what is opened, saved, named, listed and removed; who may write; what a kill and bad arguments do. */
#include "folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SIZE = 5000, ID = 77 };

static mmsb_store_options_t options_of(int32_t mode) {
    mmsb_store_options_t options;
    mmsb_store_options_init(&options);
    options.mode = mode;
    return options;
}

static mmsb_context_t opened_with(const mmsb_store_options_t *options) {
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_store_open(at("store"), NULL, options, &context));
    return context;
}

static mmsb_context_t opened(int32_t mode) {
    const mmsb_store_options_t options = options_of(mode);
    return opened_with(&options);
}

static mmsb_context_t opened_at(int32_t mode, const char *name, uint64_t record, int64_t time_ns) {
    mmsb_store_options_t options = options_of(mode);
    options.at_name = name;
    options.at_record = record;
    options.at_time_ns = time_ns;
    return opened_with(&options);
}

static mmsb_page_t new_known_page(mmsb_context_t context) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = ID;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, SIZE, &options, &page));
    return page;
}

static mmsb_page_t known_page(mmsb_context_t context) {
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_lookup(context, ID, &page));
    return page;
}

static int holds(mmsb_context_t context, const char *text) {
    char bytes[16] = {0};
    CHECK_OK(mmsb_page_read(known_page(context), 0, bytes, strlen(text)));
    return strcmp(bytes, text) == 0;
}

static void put(mmsb_context_t context, const char *text) {
    CHECK_OK(mmsb_page_write(known_page(context), 0, text, strlen(text)));
}

static mmsb_store_info_t info_of(mmsb_context_t context) {
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    CHECK_OK(mmsb_store_info(context, &info));
    return info;
}

static mmsb_store_point_t points[64];

static size_t point_count(void) {
    size_t count = 0;
    CHECK_OK(mmsb_store_points(at("store"), points, 64, &count));
    return count;
}

/* A store with one page, closed. */
static void make_store(const char *text) {
    mmsb_context_t context = opened(MMSB_STORE_WRITE);
    new_known_page(context);
    put(context, text);
    CHECK_OK(mmsb_context_destroy(context));
}

static void it_goes_on_where_it_was(void) {
    make_store("one");
    static const int32_t loads[] = {MMSB_LOAD_EAGER, MMSB_LOAD_LAZY};
    for (int i = 0; i < 2; i++) {
        mmsb_context_options_t of_context;
        mmsb_context_options_init(&of_context);
        of_context.memory_limit = 1 << 30;
        mmsb_store_options_t options = options_of(MMSB_STORE_WRITE);
        options.load = loads[i];
        options.durability = MMSB_DURABILITY_CALL;
        mmsb_context_t context = 0;
        CHECK_OK(mmsb_store_open(at("store"), &of_context, &options, &context));
        CHECK_EQUAL(context_stats(context).memory_limit, 1 << 30);
        CHECK(holds(context, i == 0 ? "one" : "two"));
        put(context, "two");
        CHECK_OK(mmsb_context_destroy(context));
    }
}

/* ---------------------------------------------------------------------------------------------- other processes ---- */

/* Runs in a process of its own, until it is killed, or for ever. */
static pid_t begin_process(void (*run)(int to)) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t process = fork(); /* before this process has called the library */
    REQUIRE(process >= 0);
    if (process == 0) {
        close(ends[0]);
        run(ends[1]);
        for (;;) {
            pause();
        }
    }
    close(ends[1]);
    char byte;
    REQUIRE(read(ends[0], &byte, 1) == 1); /* it has done its work */
    close(ends[0]);
    return process;
}

static pid_t writer;

static void kill_process(pid_t process) {
    int status;
    REQUIRE(kill(process, SIGKILL) == 0 && waitpid(process, &status, 0) == process);
    CHECK(WIFSIGNALED(status));
}

static void write_and_wait(int to) {
    mmsb_context_t context = opened(MMSB_STORE_WRITE);
    new_known_page(context);
    for (int i = 0; i < 1000; i++) {
        char text[16];
        snprintf(text, sizeof text, "turn %d", i);
        put(context, text);
        if (i == 500) {
            REQUIRE_OK(mmsb_store_name(context, "middle", NULL));
        }
    }
    REQUIRE(write(to, "x", 1) == 1);
}

/* It keeps what it has acknowledged, and its lock ends with it. */
static void a_killed_writer_has_lost_nothing(void) {
    mmsb_context_t context = 0;
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, NULL, &context), MMSB_E_BUSY);
    char process[32];
    snprintf(process, sizeof process, "process %d ", (int)writer);
    CHECK(strstr(mmsb_last_error(), process) != NULL);
    CHECK_EQUAL(context, 0);
    mmsb_ticket_t ticket = 0;
    CHECK_OK(mmsb_store_open_start(at("store"), NULL, NULL, NULL, &context, &ticket));
    CHECK_STATUS(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_E_BUSY);
    CHECK_EQUAL(context, 0);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.after = &ticket;
    work.after_count = 1;
    mmsb_ticket_t never = 0;
    context = 42;
    CHECK_OK(mmsb_store_open_start(at("store"), NULL, NULL, &work, &context, &never));
    CHECK_STATUS(mmsb_ticket_wait(never, MMSB_WAIT_FOREVER), MMSB_E_CANCELLED);
    CHECK_EQUAL(context, 0);
    CHECK_OK(mmsb_ticket_destroy(never));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    context = opened_at(MMSB_STORE_READ, "middle", 0, 0); /* beside the writer */
    CHECK(holds(context, "turn 500"));
    CHECK_OK(mmsb_context_destroy(context));
    kill_process(writer);
    static const int32_t loads[] = {MMSB_LOAD_LAZY, MMSB_LOAD_EAGER};
    for (int i = 0; i < 2; i++) {
        mmsb_store_options_t options = options_of(MMSB_STORE_WRITE);
        options.load = loads[i];
        context = opened_with(&options);
        CHECK(holds(context, "turn 999"));
        CHECK_OK(mmsb_context_destroy(context));
    }
}

/* -------------------------------------------------------------------------------------------------- only to read ---- */

static void a_reader_changes_nothing(void) {
    make_store("kept");
    mmsb_context_t context = opened(MMSB_STORE_WRITE);
    mmsb_page_t page = known_page(context), child = new_page(context, 10), twin = new_page(context, 10);
    mmsb_run_t run = {0, 4};
    mmsb_delta_t delta = one_run(&run, "kept");
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_OK(mmsb_page_metadata_set(page, "key", 3, "value", 5));
    CHECK_OK(mmsb_page_dependency_add(page, child));
    const uint64_t child_id = page_info(child).id, twin_id = page_info(twin).id;
    const uint64_t last = info_of(context).last_record;
    CHECK_OK(mmsb_context_destroy(context));
    const int files = files_in_folder();

    context = opened(MMSB_STORE_READ);
    page = known_page(context);
    CHECK_OK(mmsb_page_lookup(context, child_id, &child));
    CHECK_OK(mmsb_page_lookup(context, twin_id, &twin));
    const mmsb_page_info_t before = page_info(page);
    mmsb_page_t other = 0;
    void *memory = NULL;
    uint64_t size = 0;
    static uint8_t mine[100];
    static const uint64_t offset = 0;
    mmsb_page_range_t range = {page, 0, 1, "x"};
    mmsb_page_runs_t runs;
    mmsb_page_runs_init(&runs);
    runs.count = 1;
    runs.pages = &page;
    runs.offsets = &offset;
    runs.uniform_length = 1;
    runs.payload = "x";
    void *saved = NULL;
    uint64_t length = 0;
    CHECK_OK(mmsb_snapshot_save_memory(context, NULL, &saved, &length));
    for (int grouped = 0; grouped < 2; grouped++) {
        if (grouped) {
            CHECK_OK(mmsb_group_begin(context));
        }
#define REFUSED(call) CHECK_STATUS(call, MMSB_E_INVALID_STATE)
        REFUSED(mmsb_page_create(context, 10, NULL, &other));
        REFUSED(mmsb_page_create_many(context, 10, 1, NULL, NULL, &other));
        REFUSED(mmsb_page_adopt(context, mine, sizeof mine, NULL, &other));
        REFUSED(mmsb_page_clone(page, 0, &other));
        REFUSED(mmsb_page_write(page, 0, "lost", 4));
        REFUSED(mmsb_page_write_many(&range, 1, NULL));
        REFUSED(mmsb_page_apply(page, &delta));
        REFUSED(mmsb_page_apply_runs(&runs, NULL));
        REFUSED(mmsb_page_resize(page, 10));
        REFUSED(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0));
        REFUSED(mmsb_page_pin(page, MMSB_PIN_WRITE, &memory));
        REFUSED(mmsb_page_pin_many(&page, 1, MMSB_PIN_WRITE, &memory, NULL));
        REFUSED(mmsb_page_mask_clear(page));
        REFUSED(mmsb_page_release(page, &memory, &size));
        REFUSED(mmsb_page_destroy(page));
        REFUSED(mmsb_page_destroy_many(&page, 1, NULL));
        REFUSED(mmsb_page_metadata_set(page, "key", 3, "other", 5));
        REFUSED(mmsb_page_metadata_remove(page, "key", 3));
        REFUSED(mmsb_page_dependency_add(page, twin));
        REFUSED(mmsb_page_dependency_remove(page, child));
        if (grouped) {
            CHECK_OK(mmsb_group_commit(context));
        }
    }
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, &memory));
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
    REFUSED(mmsb_snapshot_load_memory(context, saved, length, NULL));
    CHECK(strstr(mmsb_last_error(), "reading only") != NULL);
    REFUSED(mmsb_journal_open(context, at("journal"), NULL));
    REFUSED(mmsb_journal_sync(context, NULL));
    REFUSED(mmsb_store_save(context, 0, NULL));
    REFUSED(mmsb_store_name(context, "name", NULL));
    REFUSED(mmsb_store_unname(context, "name", NULL));
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    CHECK_OK(mmsb_store_info(context, &info)); /* which it may ask */
    CHECK_EQUAL(info.last_record, last);
    CHECK(info.journal_bytes > 0);
    CHECK_EQUAL(info.saves + info.unsaved_bytes + info.follow_failures, 0);
    CHECK_OK(mmsb_snapshot_free_memory(saved));

    const mmsb_page_info_t after = page_info(page);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK(holds(context, "kept"));
    CHECK_EQUAL(context_stats(context).pages, 3);
    CHECK_OK(mmsb_page_mask_count(page, &length));
    CHECK_EQUAL(length, 4);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(files_in_folder(), files);
}

/* ----------------------------------------------------------------------------------------------------- time travel ---- */

static void names_records_and_branches(void) {
    make_store("one");
    mmsb_context_t context = opened(MMSB_STORE_WRITE);
    CHECK_OK(mmsb_store_name(context, "é first", NULL));
    const uint64_t record = info_of(context).last_record;
    put(context, "two");
    CHECK_OK(mmsb_store_name(context, "second", NULL));
    put(context, "six");
    CHECK_OK(mmsb_context_destroy(context));

    const int64_t future = INT64_C(1) << 62;
    struct {
        const char *name;
        uint64_t record;
        int64_t time_ns;
        const char *holds;
    } states[] = {{"é first", 0, 0, "one"}, {"second", 0, 0, "two"}, {NULL, record, 0, "one"}, {NULL, 0, future, "six"}};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        context = opened_at(MMSB_STORE_READ, states[i].name, states[i].record, states[i].time_ns);
        CHECK(holds(context, states[i].holds));
        CHECK_OK(mmsb_context_destroy(context));
    }
    context = opened_at(MMSB_STORE_BRANCH, "é first", 0, 0);
    CHECK(holds(context, "one"));
    put(context, "bra");
    CHECK_OK(mmsb_store_unname(context, "é first", NULL));
    CHECK_STATUS(mmsb_store_unname(context, "é first", NULL), MMSB_E_NOT_FOUND);
    CHECK_OK(mmsb_context_destroy(context));
    context = opened(MMSB_STORE_WRITE);
    CHECK(holds(context, "bra"));
    CHECK_OK(mmsb_context_destroy(context));
    context = opened_at(MMSB_STORE_READ, "second", 0, 0);
    CHECK(holds(context, "two"));
    CHECK_OK(mmsb_context_destroy(context));

    mmsb_store_options_t options = options_of(MMSB_STORE_READ);
    options.at_name = "third";
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, &options, &context), MMSB_E_NOT_FOUND);
    CHECK(strstr(mmsb_last_error(), "second") != NULL); /* what there is */
    options.at_name = NULL;
    options.at_record = 1000;
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, &options, &context), MMSB_E_NOT_FOUND);
}

/* ------------------------------------------------------------------------------------------------------- retention ---- */

static void what_no_rule_keeps_goes(void) {
    mmsb_store_options_t options = options_of(MMSB_STORE_WRITE);
    options.keep_last = 2;
    options.save_bytes = MMSB_NEVER;
    mmsb_context_t context = opened_with(&options);
    CHECK_EQUAL(point_count(), 0);
    new_known_page(context);
    CHECK_OK(mmsb_store_name(context, "named", NULL));
    for (int i = 0; i < 5; i++) {
        put(context, i % 2 ? "even" : "odd");
        CHECK_OK(mmsb_store_save(context, i == 4, NULL));
    }
    CHECK_EQUAL(point_count(), 3);
    CHECK(points[0].whole && points[0].leads && points[0].on_line && points[1].on_line && points[2].on_line);
    CHECK(points[0].names == 0 && points[0].name[0] == 0);
    CHECK(points[2].names == 1 && strcmp(points[2].name, "named") == 0);
    CHECK(points[0].position > points[1].position && points[1].position > points[2].position);
    CHECK(points[0].taken_ns >= points[1].taken_ns && points[2].taken_ns > 0);
    mmsb_store_info_t info = info_of(context);
    CHECK_EQUAL(info.snapshots, 3);
    /* The second one rests on three that were removed: their files are there still. */
    CHECK_EQUAL(info.snapshot_bytes, points[0].bytes + points[1].bytes + points[2].bytes + info.pruned_bytes);
    CHECK_EQUAL(info.saves, 6);
    CHECK_EQUAL(info.pruned, 3);
    CHECK_EQUAL(info.saved_bytes, info.snapshot_bytes);
    CHECK_EQUAL(info.failed_saves, 0);
    CHECK_EQUAL(info.last_save_ns, points[0].taken_ns);
    CHECK(info.whole_saves >= 1 && info.journal_bytes > 0 && info.first_record <= info.last_record);
    CHECK_OK(mmsb_store_name(context, "named", NULL)); /* the other one loses it */
    CHECK_OK(mmsb_store_unname(context, "named", NULL));
    CHECK_OK(mmsb_store_save(context, 0, NULL));
    CHECK_EQUAL(point_count(), 2);
    size_t count = 0;
    CHECK_STATUS(mmsb_store_points(at("store"), points, 1, &count), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(count, 2);
    count = 0;
    CHECK_OK(mmsb_store_points(at("store"), NULL, 0, &count));
    CHECK_EQUAL(count, 2);
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_keeper_saves_by_itself(void) {
    mmsb_store_options_t by_bytes = options_of(MMSB_STORE_WRITE), by_time = by_bytes;
    by_bytes.save_bytes = 10 * SIZE;
    by_time.save_interval_ns = 1000 * 1000;
    const mmsb_store_options_t *rules[] = {&by_bytes, &by_time};
    for (int i = 0; i < 2; i++) {
        mmsb_context_t context = opened_with(rules[i]);
        mmsb_page_t page = i == 0 ? new_known_page(context) : known_page(context);
        const int64_t end = check_seconds() + CHECK_PATIENCE;
        for (uint64_t turn = 0; info_of(context).saves < 3 && check_seconds() < end; turn++) {
            write_pattern(page, turn);
        }
        CHECK(info_of(context).saves >= 3);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

static void a_close_saves_what_has_no_records(void) {
    make_store("one");
    uint8_t newest[16] = {0}; /* snapshot's id */
    for (int turn = 0; turn < 3; turn++) {
        mmsb_context_t context = opened(MMSB_STORE_WRITE);
        mmsb_page_t page = known_page(context);
        CHECK(holds(context, turn == 0 ? "one" : turn == 1 ? "pinned" : "address"));
        if (turn == 0) {
            void *address = NULL;
            REQUIRE_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
            memcpy(address, "pinned", 7);
            CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
        } else if (turn == 1) {
            memcpy(mmsb_page_address(page), "address", 8);
        }
        if (turn == 1)
            CHECK_OK(mmsb_shutdown()); /* ends contexts as their own function does */
        else
            CHECK_OK(mmsb_context_destroy(context));
        CHECK_EQUAL(point_count(), 1);
        CHECK((memcmp(newest, points[0].id, sizeof newest) == 0) == (turn == 2)); /* where nothing was written */
        memcpy(newest, points[0].id, sizeof newest);
    }
}

/* ---------------------------------------------------------------------------------------------------------- forms ---- */

static mmsb_status_t move_to_the_disk(mmsb_page_t page) {
    return mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0);
}

static mmsb_status_t move_to_a_device(mmsb_page_t page) {
    return mmsb_page_migrate(page, MMSB_LOCATION_GPU, 0);
}

static mmsb_status_t copy_to_a_device(mmsb_page_t page) {
    return mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 0);
}

static mmsb_status_t get_longer(mmsb_page_t page) {
    return mmsb_page_resize(page, 3 * SIZE);
}

static mmsb_status_t leave_a_clone(mmsb_page_t page) {
    mmsb_page_t clone = 0;
    const mmsb_status_t status = mmsb_page_clone(page, ID + 1, &clone);
    return status != MMSB_OK ? status : mmsb_page_destroy(page);
}

/* Bytes that were written through a pointer are still what a close saves when they have come elsewhere. */
static void a_close_saves_bytes_that_have_moved(void) {
    mmsb_status_t (*const moving[])(mmsb_page_t) = {move_to_the_disk, move_to_a_device, copy_to_a_device, get_longer,
                                                    leave_a_clone};
    mmsb_context_options_t simulated;
    mmsb_context_options_init(&simulated);
    simulated.simulate = MMSB_SIMULATE_ALWAYS;
    for (size_t i = 0; i < sizeof moving / sizeof moving[0]; i++)
        for (int pinned = 0; pinned < 2; pinned++)
            for (int saved = 0; saved < 2; saved++) { /* 1: a snapshot has what was there before */
                mmsb_context_t context = 0;
                REQUIRE_OK(mmsb_store_open(at("store"), &simulated, NULL, &context));
                mmsb_page_t page = new_known_page(context);
                if (saved)
                    CHECK_OK(mmsb_store_save(context, 0, NULL));
                void *address = pinned ? NULL : mmsb_page_address(page);
                if (pinned)
                    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
                memcpy(address, "kept", 4);
                if (pinned)
                    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
                CHECK_OK(moving[i](page));
                CHECK_OK(mmsb_context_destroy(context));
                REQUIRE_OK(mmsb_store_open(at("store"), &simulated, NULL, &context));
                char bytes[5] = {0};
                REQUIRE_OK(mmsb_page_lookup(context, moving[i] == leave_a_clone ? ID + 1 : ID, &page));
                CHECK_OK(mmsb_page_read(page, 0, bytes, 4));
                CHECK(strcmp(bytes, "kept") == 0);
                const uint64_t snapshots = point_count();
                CHECK_OK(mmsb_context_destroy(context));
                CHECK_EQUAL(point_count(), snapshots); /* nothing was left to save */
                clear_folder();
            }
}

static void started_work_does_the_same(void) {
    make_store("one");
    mmsb_context_t context = 0;
    mmsb_ticket_t tickets[3];
    char directory[256];
    snprintf(directory, sizeof directory, "%s", at("store"));
    mmsb_store_options_t options = options_of(MMSB_STORE_WRITE);
    CHECK_OK(mmsb_store_open_start(directory, NULL, &options, NULL, &context, &tickets[0]));
    memset(directory, 0, sizeof directory);
    memset(&options, 0, sizeof options);
    CHECK_OK(mmsb_ticket_wait(tickets[0], MMSB_WAIT_FOREVER));
    CHECK(holds(context, "one"));
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    char name[] = "started";
    CHECK_OK(mmsb_store_save_start(context, 1, NULL, &tickets[1]));
    work.after = &tickets[1];
    work.after_count = 1;
    CHECK_OK(mmsb_store_name_start(context, name, &work, &tickets[2]));
    memset(name, 0, sizeof name);
    CHECK_OK(mmsb_ticket_wait(tickets[2], MMSB_WAIT_FOREVER));
    CHECK(point_count() >= 1 && strcmp(points[0].name, "started") == 0);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(mmsb_ticket_destroy(tickets[i]));
    }
    mmsb_work_options_init(&work);
    work.timeout_ns = 0;
    CHECK_OK(mmsb_store_unname(context, "started", &work));
    CHECK_OK(mmsb_context_destroy(context));
    options = options_of(MMSB_STORE_READ);
    options.timeout_ns = 0;
    CHECK_OK(mmsb_store_open(at("store"), NULL, &options, &context)); /* which takes a moment */
    CHECK_OK(mmsb_context_destroy(context));
}

/* Of 64 MiB nothing is done at once, and nothing is left behind. */
static void a_try_does_not_wait(void) {
    mmsb_store_options_t options = options_of(MMSB_STORE_WRITE);
    options.save_bytes = MMSB_NEVER;
    mmsb_context_t context = opened_with(&options);
    write_pattern(new_page(context, 64 << 20), 1);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.timeout_ns = 0;
    CHECK_STATUS(mmsb_store_save(context, 1, &work), MMSB_E_WOULD_BLOCK);
    CHECK_STATUS(mmsb_store_name(context, "name", &work), MMSB_E_WOULD_BLOCK);
    CHECK_EQUAL(point_count(), 0);
    CHECK_OK(mmsb_store_save(context, 1, NULL));
    CHECK_OK(mmsb_context_destroy(context));
    for (int32_t mode = MMSB_STORE_WRITE; mode <= MMSB_STORE_READ; mode++) {
        options = options_of(mode);
        options.timeout_ns = 0;
        context = 1;
        CHECK_STATUS(mmsb_store_open(at("store"), NULL, &options, &context), MMSB_E_WOULD_BLOCK);
    }
    CHECK_OK(mmsb_context_destroy(opened(MMSB_STORE_WRITE))); /* nobody has it open */
}

/* ------------------------------------------------------------------------------------------------ wrong arguments ---- */

/* Both forms refuse it at once; nothing is made. */
static void check_open(const char *directory, const mmsb_context_options_t *of_context, const mmsb_store_options_t *options,
                       mmsb_status_t expected, const char *what) {
    mmsb_context_t context = 0;
    mmsb_ticket_t ticket = 0;
    check_status(__FILE__, __LINE__, what, mmsb_store_open(directory, of_context, options, &context), expected);
    check_status(__FILE__, __LINE__, what, mmsb_store_open_start(directory, of_context, options, NULL, &context, &ticket),
                 expected);
    CHECK(context == 0 && ticket == 0);
}

static void wrong_arguments_of_an_open(void) {
    mmsb_context_t context = 0;
    mmsb_ticket_t ticket = 0;
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_open_start(at("store"), NULL, NULL, NULL, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_open_start(at("store"), NULL, NULL, NULL, &context, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.struct_size--;
    CHECK_STATUS(mmsb_store_open_start(at("store"), NULL, NULL, &work, &context, &ticket), MMSB_E_STRUCT_VERSION);
    check_open(NULL, NULL, NULL, MMSB_E_INVALID_ARGUMENT, "no directory");
    check_open("", NULL, NULL, MMSB_E_INVALID_ARGUMENT, "an empty directory");
    mmsb_context_options_t of_context;
    mmsb_context_options_init(&of_context);
    of_context.struct_size++;
    check_open(at("store"), &of_context, NULL, MMSB_E_STRUCT_VERSION, "options of a context");

    mmsb_store_options_t o;
#define WRONG(expected, ...) \
    do { \
        o = options_of(MMSB_STORE_WRITE); \
        __VA_ARGS__; \
        check_open(at("store"), NULL, &o, expected, #__VA_ARGS__); \
    } while (0)
    WRONG(MMSB_E_STRUCT_VERSION, o.struct_size--);
    WRONG(MMSB_E_STRUCT_VERSION, o.struct_size = 0);
    WRONG(MMSB_E_STRUCT_VERSION, o.reserved[2] = 1);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.mode = -1);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.mode = 4);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.load = MMSB_LOAD_IN_PLACE);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.durability = 3);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.interval_ms = 0);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.segment_bytes = UINT64_MAX);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.keep_last = 0);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.keep_hourly = -1);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.keep_daily = INT32_MAX);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.at_name = "name");
    WRONG(MMSB_E_INVALID_ARGUMENT, o.at_record = 1);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.at_time_ns = -1);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.mode = MMSB_STORE_BRANCH);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.mode = MMSB_STORE_READ; o.at_name = "");
    WRONG(MMSB_E_INVALID_ARGUMENT, o.mode = MMSB_STORE_READ; o.at_name = "name"; o.at_record = 1);
    WRONG(MMSB_E_INVALID_ARGUMENT, o.mode = MMSB_STORE_BRANCH; o.at_time_ns = 1; o.at_record = 1);
    CHECK_EQUAL(files_in_folder(), 0);
}

static void what_is_no_store(void) {
    mmsb_context_t context = 0;
    mmsb_store_options_t options = options_of(MMSB_STORE_READ);
    size_t count = 7;
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, &options, &context), MMSB_E_NOT_FOUND);
    options.mode = MMSB_STORE_BRANCH;
    options.at_record = 1;
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, &options, &context), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_store_points(at("store"), NULL, 0, &count), MMSB_E_NOT_FOUND);
    CHECK(mmsb_store_open(at("no/store"), NULL, NULL, &context) != MMSB_OK);
    CHECK_EQUAL(files_in_folder(), 0);
    CHECK(close(open(at("letter"), O_CREAT | O_WRONLY, 0600)) == 0);
    CHECK_STATUS(mmsb_store_open(folder, NULL, NULL, &context), MMSB_E_INVALID_STATE);
    CHECK(strstr(mmsb_last_error(), "letter") != NULL);
    CHECK_STATUS(mmsb_store_points(folder, NULL, 0, &count), MMSB_E_NOT_FOUND);
    CHECK_EQUAL(files_in_folder(), 1);
    CHECK_STATUS(mmsb_store_points(NULL, NULL, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_points("", NULL, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_points(folder, NULL, 1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_points(folder, NULL, 0, NULL), MMSB_E_INVALID_ARGUMENT);
}

static void wrong_arguments_of_a_save(void) {
    mmsb_context_t context = opened(MMSB_STORE_WRITE), plain = new_context();
    mmsb_ticket_t ticket = 0;
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.struct_size = 1;
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    for (int32_t whole = -1; whole <= 2; whole += 3) {
        CHECK_STATUS(mmsb_store_save(context, whole, NULL), MMSB_E_INVALID_ARGUMENT);
        CHECK_STATUS(mmsb_store_save_start(context, whole, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    }
    CHECK_STATUS(mmsb_store_save(context, 0, &work), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_store_save_start(context, 0, &work, &ticket), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_store_save_start(context, 0, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_name(context, "name", &work), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_store_name_start(context, "name", &work, &ticket), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_store_name_start(context, "name", NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_unname(context, "name", &work), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_store_unname(context, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_store_unname(context, "name", NULL), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_store_info(context, NULL), MMSB_E_INVALID_ARGUMENT);
    info.reserved[0] = 1;
    CHECK_STATUS(mmsb_store_info(context, &info), MMSB_E_STRUCT_VERSION);
    mmsb_store_info_init(&info);
    info.struct_size++;
    CHECK_STATUS(mmsb_store_info(context, &info), MMSB_E_STRUCT_VERSION);
    mmsb_store_info_init(&info);

    char longest[257];
    memset(longest, 'a', 256);
    longest[256] = 0;
    const char *const bad[] = {NULL, "", "1st", " a", "-", "a\nb", "a\x7f", "a\xff", "\xc3", longest};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(mmsb_store_name(context, bad[i], NULL), MMSB_E_INVALID_ARGUMENT);
        CHECK_STATUS(mmsb_store_name_start(context, bad[i], NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    }
    CHECK_EQUAL(info_of(context).saves, 0);
    longest[255] = 0;
    CHECK_OK(mmsb_store_name(context, longest, NULL));
    CHECK_EQUAL(point_count(), 1);
    CHECK(strcmp(points[0].name, longest) == 0);

    CHECK_STATUS(mmsb_store_save(plain, 0, NULL), MMSB_E_INVALID_STATE); /* it has no store */
    CHECK_STATUS(mmsb_store_save_start(plain, 0, NULL, &ticket), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_store_name(plain, "name", NULL), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_store_name_start(plain, "name", NULL, &ticket), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_store_unname(plain, "name", NULL), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_store_info(plain, &info), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(ticket, 0);
    CHECK_OK(mmsb_context_destroy(plain));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------------------ full disks ---- */

static struct rlimit file_limit;
static int full;

static void set_full(int now) {
    struct rlimit limit = {now ? 0 : file_limit.rlim_cur, file_limit.rlim_max};
    __atomic_store_n(&full, now, __ATOMIC_SEQ_CST);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* A store whose calls wait so long, with a page, and a journal that the disk has no space for. */
static mmsb_context_t full_store(uint64_t space_wait_ns) {
    mmsb_store_options_t options = options_of(MMSB_STORE_WRITE);
    options.durability = MMSB_DURABILITY_CALL;
    options.space_wait_ns = space_wait_ns;
    mmsb_context_t context = opened_with(&options);
    mmsb_page_t page = new_known_page(context);
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &file_limit) == 0);
    set_full(1);
    CHECK_STATUS(mmsb_page_write(page, 0, "full", 4), MMSB_E_NOT_DURABLE);
    return context;
}

typedef struct change {
    mmsb_context_t context;
    mmsb_status_t (*call)(mmsb_context_t context);
    mmsb_status_t status;
    int early; /* 1: it returned while the disk was full */
    pthread_t thread;
} change_t;

static void *change(void *given) {
    change_t *change = given;
    change->status = change->call(change->context);
    change->early = __atomic_load_n(&full, __ATOMIC_SEQ_CST);
    return NULL;
}

static mmsb_status_t change_bytes(mmsb_context_t context) {
    return mmsb_page_write(known_page(context), 0, "goes on", 7);
}

static mmsb_status_t change_nothing_small(mmsb_context_t context) {
    mmsb_page_t page;
    return mmsb_page_create(context, 100, NULL, &page);
}

static mmsb_status_t change_nothing_large(mmsb_context_t context) {
    mmsb_page_t page;
    return mmsb_page_create(context, 8 << 20, NULL, &page);
}

static mmsb_status_t change_metadata(mmsb_context_t context) {
    return mmsb_page_metadata_set(known_page(context), "key", 3, "value", 5);
}

static mmsb_status_t change_as_runs(mmsb_context_t context) {
    const mmsb_page_t page = known_page(context);
    const uint64_t offset = 100;
    mmsb_page_runs_t runs;
    mmsb_page_runs_init(&runs);
    runs.count = 1;
    runs.pages = &page;
    runs.offsets = &offset;
    runs.uniform_length = 4;
    runs.payload = "runs";
    return mmsb_page_apply_runs(&runs, NULL);
}

static mmsb_status_t change_in_a_group(mmsb_context_t context) {
    mmsb_status_t status = mmsb_group_begin(context);
    if (status == MMSB_OK)
        status = change_nothing_small(context);
    return status == MMSB_OK ? mmsb_group_commit(context) : status;
}

static mmsb_status_t (*const changing[])(mmsb_context_t) = {change_bytes,         change_nothing_small, change_metadata,
                                                            change_nothing_large, change_as_runs,       change_in_a_group};
enum { CHANGES = sizeof changing / sizeof changing[0] };

static void begin_changes(change_t *changes, mmsb_context_t context) {
    for (int i = 0; i < CHANGES; i++) {
        changes[i] = (change_t){.context = context, .call = changing[i]};
        REQUIRE(pthread_create(&changes[i].thread, NULL, change, &changes[i]) == 0);
    }
    check_sleep_ms(300); /* all wait by now; one that does not is early */
}

static void calls_wait_for_space(void) {
    mmsb_context_t context = full_store(MMSB_WAIT_FOREVER);
    change_t changes[CHANGES];
    begin_changes(changes, context);
    set_full(0);
    for (int i = 0; i < CHANGES; i++) {
        REQUIRE(pthread_join(changes[i].thread, NULL) == 0);
        CHECK_EQUAL(changes[i].status, MMSB_OK);
        CHECK(!changes[i].early);
    }
    CHECK(holds(context, "goes on"));
    mmsb_journal_info_t journal; /* five calls have waited for 300 ms or more, also while the journal had failed */
    mmsb_journal_info_init(&journal);
    CHECK_OK(mmsb_journal_info(context, &journal));
    CHECK(journal.waits >= CHANGES - 1 && journal.space_waited_ns >= UINT64_C(500000000));
    CHECK(journal.waited_ns >= journal.space_waited_ns);
    mmsb_store_info_t store;
    mmsb_store_info_init(&store);
    CHECK_OK(mmsb_store_info(context, &store));
    CHECK(store.waits >= journal.waits && store.waited_ns >= journal.waited_ns);
    CHECK_OK(mmsb_context_destroy(context));
    context = opened(MMSB_STORE_WRITE);
    CHECK(holds(context, "goes on"));
    CHECK_OK(mmsb_store_info(context, &store));
    CHECK_EQUAL(store.waits, 0);
    uint64_t count = 0;
    CHECK_OK(mmsb_context_page_count(context, &count));
    CHECK_EQUAL(count, 4);
    CHECK_OK(mmsb_context_destroy(context));
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void calls_wait_so_long(void) {
    const uint64_t wait_ms = 400;
    mmsb_context_t context = full_store(wait_ms * 1000000);
    const uint64_t begin = now_ms();
    CHECK_STATUS(change_bytes(context), MMSB_E_NO_SPACE);
    const uint64_t end = now_ms();
    CHECK(end - begin >= wait_ms * 3 / 4 && end - begin < 20 * wait_ms);
    uint64_t took = wait_ms;
    for (int i = 0; i < 10 && took >= wait_ms; i++) { /* the machine may be busy */
        const uint64_t again = now_ms();
        CHECK_STATUS(change_metadata(context), MMSB_E_NO_SPACE); /* the time is over for all */
        took = now_ms() - again;
    }
    CHECK(took < wait_ms);
    set_full(0);
    CHECK_OK(mmsb_context_destroy(context));
}

/* Saves that found no space, while records did not either: the next one that succeeds counts, and the store goes on behind it. */
static void a_save_counts_after_others_have_failed(void) {
    enum { LARGE = 12000001 };
    for (int failures = 1; failures <= 4; failures++) {
        mmsb_context_t context = opened(MMSB_STORE_WRITE);
        mmsb_adopt_options_t options;
        mmsb_adopt_options_init(&options);
        options.id = ID;
        char *memory = calloc(1, LARGE);
        mmsb_page_t page = 0;
        REQUIRE_OK(mmsb_page_adopt(context, memory, LARGE, &options, &page));
        struct rlimit before, small;
        REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
        small = before;
        small.rlim_cur = 4000000;
        for (int i = 0; i < failures; i++) {
            REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
            CHECK_STATUS(mmsb_store_save(context, 0, NULL), MMSB_E_NO_SPACE);
            REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
        }
        memory[1] = 'R';
        CHECK_OK(mmsb_store_save(context, 0, NULL));
        CHECK_OK(mmsb_page_write(page, 2, "W", 1));
        CHECK_OK(mmsb_context_destroy(context));
        free(memory);
        context = opened(MMSB_STORE_WRITE);
        char bytes[2] = {0};
        CHECK_OK(mmsb_page_read(known_page(context), 1, bytes, 2));
        CHECK(bytes[0] == 'R' && bytes[1] == 'W');
        CHECK_OK(mmsb_context_destroy(context));
        clear_folder();
    }
}

static void the_end_of_a_context_ends_the_waiting(void) {
    for (int pointer = 0; pointer < 2; pointer++) { /* 1: there may be something to save */
        mmsb_context_t context = full_store(MMSB_WAIT_FOREVER);
        if (pointer)
            memcpy(mmsb_page_address(known_page(context)), "lost", 5);
        change_t changes[CHANGES];
        begin_changes(changes, context);
        CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_NO_SPACE); /* as what full_store has changed is not on the disk */
        CHECK((strstr(mmsb_last_error(), "pointers") != NULL) == pointer);
        for (int i = 0; i < CHANGES; i++) {
            REQUIRE(pthread_join(changes[i].thread, NULL) == 0);
            CHECK(changes[i].status == MMSB_E_NO_SPACE || changes[i].status == MMSB_E_STALE_HANDLE);
        }
        set_full(0);
        clear_folder();
    }
}

/* The program changes its directory to one in which the same names lead to what is another's. */
static void relative_paths_are_of_the_directory_at_the_call(void) {
    char before[4096];
    REQUIRE(getcwd(before, sizeof before) != NULL && mkdir(at("mine"), 0700) == 0 && mkdir(at("theirs"), 0700) == 0);
    REQUIRE(chdir(at("theirs")) == 0);
    mmsb_context_t context;
    CHECK_OK(mmsb_store_open("store", NULL, NULL, &context));
    CHECK_OK(mmsb_context_destroy(context));

    REQUIRE(chdir(at("mine")) == 0 && mkdir("disk", 0700) == 0);
    mmsb_context_options_t with_disk;
    mmsb_context_options_init(&with_disk);
    with_disk.disk_path = "disk";
    CHECK_OK(mmsb_store_open("store", &with_disk, NULL, &context));
    mmsb_context_t journalled, started;
    CHECK_OK(mmsb_context_create(NULL, &journalled));
    mmsb_page_t page = new_known_page(journalled);
    CHECK_OK(mmsb_journal_open(journalled, "journal", NULL));
    CHECK_OK(mmsb_snapshot_save(journalled, "snapshot", NULL));
    mmsb_ticket_t first, second;
    CHECK_OK(mmsb_snapshot_verify_start("snapshot", NULL, &first));
    mmsb_work_options_t behind;
    mmsb_work_options_init(&behind);
    behind.after = &first;
    behind.after_count = 1;
    CHECK_OK(mmsb_store_open_start("started", NULL, NULL, &behind, &started, &second));

    REQUIRE(chdir(at("theirs")) == 0);
    CHECK_OK(mmsb_ticket_wait(first, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_wait(second, MMSB_WAIT_FOREVER));
    mmsb_page_t known = new_known_page(context);
    put(context, "mine");
    CHECK_OK(mmsb_store_save(context, 1, NULL));
    CHECK_OK(mmsb_store_name(context, "named", NULL));
    CHECK_OK(mmsb_page_migrate(known, MMSB_LOCATION_DISK, 0));
    CHECK_OK(mmsb_page_write(page, 0, "J", 1));
    CHECK_OK(mmsb_snapshot_save(journalled, at("mine/later"), NULL)); /* the journal's base */
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_context_destroy(started));
    CHECK_OK(mmsb_context_destroy(journalled));
    CHECK_OK(mmsb_ticket_destroy(first));
    CHECK_OK(mmsb_ticket_destroy(second));

    size_t count;
    CHECK_OK(mmsb_store_points("store", points, 64, &count));
    CHECK(count == 0);
    CHECK(access("journal", F_OK) != 0 && access("started", F_OK) != 0);
    CHECK_OK(mmsb_store_points(at("mine/store"), points, 64, &count));
    CHECK(count > 0 && strcmp(points[0].name, "named") == 0);
    CHECK(access(at("mine/started"), F_OK) == 0);
    CHECK_OK(mmsb_store_points(at("mine/journal"), points, 64, &count));
    CHECK(count == 1);
    REQUIRE(chdir(before) == 0);
}

int main(void) {
    folder_make();
    writer = begin_process(write_and_wait);
    RUN_IN_FOLDER(a_killed_writer_has_lost_nothing);
    RUN_IN_FOLDER(it_goes_on_where_it_was);
    RUN_IN_FOLDER(a_reader_changes_nothing);
    RUN_IN_FOLDER(names_records_and_branches);
    RUN_IN_FOLDER(relative_paths_are_of_the_directory_at_the_call);
    RUN_IN_FOLDER(what_no_rule_keeps_goes);
    RUN_IN_FOLDER(the_keeper_saves_by_itself);
    RUN_IN_FOLDER(a_close_saves_what_has_no_records);
    RUN_IN_FOLDER(a_close_saves_bytes_that_have_moved);
    RUN_IN_FOLDER(started_work_does_the_same);
    RUN_IN_FOLDER(a_try_does_not_wait);
    RUN_IN_FOLDER(wrong_arguments_of_an_open);
    RUN_IN_FOLDER(what_is_no_store);
    RUN_IN_FOLDER(wrong_arguments_of_a_save);
    RUN_IN_FOLDER(calls_wait_for_space);
    RUN_IN_FOLDER(calls_wait_so_long);
    RUN_IN_FOLDER(a_save_counts_after_others_have_failed);
    RUN_IN_FOLDER(the_end_of_a_context_ends_the_waiting);
    folder_end();
    return check_report();
}
