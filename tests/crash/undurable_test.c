/*
 * The disk fails while a call waits for it (MMSB_DURABILITY_CALL): the call says so, and has done all that it does. The next one
 * does nothing. What is then saved has both right.
 */
#include "../c/folder.h"

#include <sys/resource.h>

enum { SIZE = 300, MADE = 3 };

typedef struct stage {
    mmsb_context_t context;
    mmsb_page_t page, other, on_disk; /* ids 7, 8 and 9 */
    mmsb_page_t made[MADE];
    void *memory;
    int turn;
} stage_t;

typedef struct call {
    const char *name;
    mmsb_status_t (*make)(stage_t *stage);
    int (*is_done)(stage_t *stage);
} call_t;

static mmsb_page_t page_with_id(mmsb_context_t context, uint64_t id, int32_t location) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = id;
    options.location = location;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, SIZE, &options, &page));
    return page;
}

static int is_page(mmsb_page_t page) {
    char byte;
    return page != 0 && mmsb_page_read(page, 0, &byte, 1) == MMSB_OK;
}

static int all_made(stage_t *stage) {
    int count = 0;
    for (int i = 0; i < MADE; i++) {
        count += is_page(stage->made[i]);
    }
    return count == MADE;
}

static int one_made(stage_t *stage) {
    return is_page(stage->made[0]);
}

static int is_gone(stage_t *stage) {
    return mmsb_page_size(stage->page) == 0 && is_page(stage->other);
}

static int is_changed(stage_t *stage) {
    char bytes[3];
    return mmsb_page_read(stage->page, 10, bytes, 3) == MMSB_OK && memcmp(bytes, "abc", 3) == 0;
}

static int is_larger(stage_t *stage) {
    return mmsb_page_size(stage->page) == 2 * SIZE;
}

static int is_here(stage_t *stage) {
    return page_info(stage->on_disk).location == MMSB_LOCATION_CPU;
}

static int has_metadata(stage_t *stage) {
    char value[5];
    size_t length = 0;
    return mmsb_page_metadata_get(stage->page, "name", 4, value, sizeof value, &length) == MMSB_OK && length == 5;
}

static int has_child(stage_t *stage) {
    mmsb_page_t child = 0;
    size_t count = 0;
    return mmsb_page_children(stage->page, &child, 1, &count) == MMSB_OK && count == 1 && child == stage->other;
}

static int is_released(stage_t *stage) {
    return stage->memory != NULL && is_gone(stage) && mmsb_memory_free(stage->memory) == MMSB_OK;
}

static mmsb_status_t create(stage_t *stage) {
    return mmsb_page_create(stage->context, SIZE, NULL, stage->made);
}

static mmsb_status_t create_with_address(stage_t *stage) {
    mmsb_status_t status = mmsb_page_create_with_address(stage->context, SIZE, NULL, stage->made, &stage->memory);
    CHECK((stage->memory == NULL) == (status == MMSB_E_NO_SPACE));
    return status;
}

static mmsb_status_t create_many(stage_t *stage) {
    return mmsb_page_create_many(stage->context, SIZE, MADE, NULL, NULL, stage->made);
}

static mmsb_status_t create_many_start(stage_t *stage) {
    mmsb_ticket_t ticket = 0;
    CHECK_OK(mmsb_page_create_many_start(stage->context, SIZE, MADE, NULL, NULL, stage->made, &ticket));
    mmsb_status_t status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    return status;
}

static mmsb_status_t clone_one(stage_t *stage) {
    return mmsb_page_clone(stage->page, 0, stage->made);
}

static mmsb_status_t clone_many(stage_t *stage) {
    const mmsb_page_t pages[MADE] = {stage->page, stage->other, stage->page};
    return mmsb_page_clone_many(pages, NULL, MADE, stage->made, NULL);
}

static mmsb_status_t adopt(stage_t *stage) {
    static char memory[2][4096];
    return mmsb_page_adopt(stage->context, memory[stage->turn], sizeof memory[0], NULL, stage->made);
}

static mmsb_status_t adopt_many(stage_t *stage) {
    static char memory[2][MADE][64];
    void *const memories[MADE] = {memory[stage->turn][0], memory[stage->turn][1], memory[stage->turn][2]};
    const uint64_t sizes[MADE] = {64, 64, 64};
    return mmsb_page_adopt_many(stage->context, memories, sizes, NULL, MADE, NULL, stage->made, NULL);
}

/* The second turn, in which nothing may happen, is for another page. */
static mmsb_page_t page_of(stage_t *stage) {
    return stage->turn == 0 ? stage->page : stage->other;
}

static mmsb_status_t destroy(stage_t *stage) {
    return mmsb_page_destroy(page_of(stage));
}

static mmsb_status_t destroy_many(stage_t *stage) {
    const mmsb_page_t page = page_of(stage);
    return mmsb_page_destroy_many(&page, 1, NULL);
}

static mmsb_status_t release(stage_t *stage) {
    void *memory = NULL;
    uint64_t size = 0;
    mmsb_status_t status = mmsb_page_release(page_of(stage), &memory, &size);
    CHECK((memory == NULL) == (status == MMSB_E_NO_SPACE));
    stage->memory = memory != NULL ? memory : stage->memory;
    return status;
}

static mmsb_status_t write_bytes(stage_t *stage) {
    return mmsb_page_write(page_of(stage), 10, "abc", 3);
}

static mmsb_status_t write_many(stage_t *stage) {
    const mmsb_page_range_t range = {.page = page_of(stage), .offset = 10, .length = 3, .buffer = (void *)"abc"};
    return mmsb_page_write_many(&range, 1, NULL);
}

static mmsb_status_t apply(stage_t *stage) {
    const mmsb_run_t run = {10, 3};
    const mmsb_delta_t delta = one_run(&run, "abc");
    return mmsb_page_apply(page_of(stage), &delta);
}

static mmsb_status_t apply_many(stage_t *stage) {
    const mmsb_run_t run = {10, 3};
    const mmsb_delta_t delta = one_run(&run, "abc");
    const mmsb_page_t page = page_of(stage);
    return mmsb_page_apply_many(&page, &delta, 1, NULL);
}

static mmsb_status_t resize(stage_t *stage) {
    return mmsb_page_resize(page_of(stage), (uint64_t)2 * SIZE);
}

static mmsb_status_t resize_many(stage_t *stage) {
    const mmsb_page_t page = page_of(stage);
    const uint64_t size = (uint64_t)2 * SIZE;
    return mmsb_page_resize_many(&page, &size, 1, NULL);
}

static mmsb_status_t migrate(stage_t *stage) {
    return mmsb_page_migrate(stage->on_disk, stage->turn == 0 ? MMSB_LOCATION_CPU : MMSB_LOCATION_DISK, 0);
}

static mmsb_status_t set_metadata(stage_t *stage) {
    return mmsb_page_metadata_set(page_of(stage), "name", 4, "value", 5);
}

static mmsb_status_t add_dependency(stage_t *stage) {
    return mmsb_page_dependency_add(page_of(stage), stage->turn == 0 ? stage->other : stage->on_disk);
}

static mmsb_status_t group(stage_t *stage) {
    mmsb_status_t status = mmsb_group_begin(stage->context);
    if (status != MMSB_OK) {
        return status;
    }
    if (stage->turn == 0) {
        CHECK_OK(write_bytes(stage));
        CHECK_OK(create(stage));
        return mmsb_group_commit(stage->context);
    }
    status = write_bytes(stage);
    status = status == MMSB_OK ? mmsb_group_commit(stage->context) : status;
    CHECK_OK(mmsb_group_rollback(stage->context));
    return status;
}

static int is_grouped(stage_t *stage) {
    return is_changed(stage) && one_made(stage);
}

static const call_t calls[] = {
    {"create", create, one_made},
    {"create_with_address", create_with_address, one_made},
    {"create_many", create_many, all_made},
    {"create_many_start", create_many_start, all_made},
    {"clone", clone_one, one_made},
    {"clone_many", clone_many, all_made},
    {"adopt", adopt, one_made},
    {"adopt_many", adopt_many, all_made},
    {"destroy", destroy, is_gone},
    {"destroy_many", destroy_many, is_gone},
    {"release", release, is_released},
    {"write", write_bytes, is_changed},
    {"write_many", write_many, is_changed},
    {"apply", apply, is_changed},
    {"apply_many", apply_many, is_changed},
    {"resize", resize, is_larger},
    {"resize_many", resize_many, is_larger},
    {"migrate", migrate, is_here},
    {"metadata", set_metadata, has_metadata},
    {"dependency", add_dependency, has_child},
    {"group", group, is_grouped},
};

static uint64_t pages_in(mmsb_context_t context) {
    return context_stats(context).pages;
}

static void check_call(const call_t *call) {
    char directory[64];
    snprintf(directory, sizeof directory, "journal-%s", call->name);
    stage_t stage = {.context = new_context()};
    stage.page = page_with_id(stage.context, 7, MMSB_LOCATION_CPU);
    stage.other = page_with_id(stage.context, 8, MMSB_LOCATION_CPU);
    stage.on_disk = page_with_id(stage.context, 9, MMSB_LOCATION_DISK);
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = MMSB_DURABILITY_CALL;
    REQUIRE_OK(mmsb_journal_open(stage.context, at(directory), &options));

    REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, RLIM_INFINITY}) == 0);
    mmsb_status_t status = call->make(&stage);
    const int said = strstr(mmsb_last_error(), "the change is made, but may not be on disk: ") == mmsb_last_error();
    CHECK(said || call->make == create_many_start); /* its error is the ticket's */
    if (status != MMSB_E_NOT_DURABLE || !call->is_done(&stage)) {
        check_fail(__FILE__, __LINE__, "%s answered %d, %s: %s", call->name, (int)status,
                   call->is_done(&stage) ? "done" : "not done", mmsb_last_error());
    }
    const uint64_t pages = pages_in(stage.context);
    const mmsb_page_info_t info = page_info(stage.other);
    stage.turn = 1;
    stage.memory = NULL;
    status = call->make(&stage);
    if (status != MMSB_E_NO_SPACE || pages_in(stage.context) != pages || page_info(stage.other).version != info.version ||
        page_info(stage.other).size != info.size) {
        check_fail(__FILE__, __LINE__, "%s answered %d the second time: %s", call->name, (int)status, mmsb_last_error());
    }
    REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);

    CHECK_STATUS(mmsb_journal_close(stage.context), MMSB_E_NO_SPACE);
    CHECK_OK(mmsb_journal_open(stage.context, at(directory), &options));
    CHECK_OK(mmsb_context_destroy(stage.context));
    mmsb_context_t again = new_context();
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.journal = at(directory);
    CHECK_OK(mmsb_snapshot_load(again, "", &load));
    CHECK_EQUAL(pages_in(again), pages);
    CHECK_OK(mmsb_context_destroy(again));
}

static void what_is_not_durable_is_done(void) {
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        check_call(&calls[i]);
    }
}

int main(void) {
    folder_make();
    RUN_IN_FOLDER(what_is_not_durable_is_done);
    folder_end();
    return check_report();
}
