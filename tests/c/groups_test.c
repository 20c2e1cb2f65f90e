/* Atomic groups: what a rollback gives back, what others may do meanwhile, what the journal has after a crash, misuse. */
#include "folder.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

/* ----------------------------------------------------------------------------------------------------- helpers ---- */

/* All that a page is, to compare. */
typedef struct state {
    mmsb_page_info_t info;
    uint8_t bytes[70000], mask[70000 / 8 + 1], metadata[256];
    size_t metadata_length;
    mmsb_page_t parents[8], children[8];
    size_t parent_count, child_count;
} state_t;

static void look(mmsb_page_t page, state_t *state) {
    memset(state, 0, sizeof *state);
    mmsb_page_info_init(&state->info);
    CHECK_OK(mmsb_page_info(page, &state->info));
    REQUIRE(state->info.size <= sizeof state->bytes);
    CHECK_OK(mmsb_page_read(page, 0, state->bytes, state->info.size));
    CHECK_OK(mmsb_page_mask_read(page, 0, state->mask, state->info.size));
    CHECK_OK(mmsb_page_metadata_export(page, state->metadata, sizeof state->metadata, &state->metadata_length));
    CHECK_OK(mmsb_page_parents(page, state->parents, 8, &state->parent_count));
    CHECK_OK(mmsb_page_children(page, state->children, 8, &state->child_count));
}

/* The page is as it was. */
static void check_as(mmsb_page_t page, const state_t *before) {
    static state_t now;
    look(page, &now);
    CHECK_EQUAL(memcmp(&now.info, &before->info, sizeof now.info), 0);
    CHECK_EQUAL(now.info.version, before->info.version);
    CHECK_EQUAL(now.info.epoch, before->info.epoch);
    CHECK_EQUAL(now.info.size, before->info.size);
    CHECK_EQUAL(now.info.location, before->info.location);
    CHECK(memcmp(now.bytes, before->bytes, sizeof now.bytes) == 0);
    CHECK(memcmp(now.mask, before->mask, sizeof now.mask) == 0);
    CHECK_EQUAL(now.metadata_length, before->metadata_length);
    CHECK(memcmp(now.metadata, before->metadata, sizeof now.metadata) == 0);
    CHECK_EQUAL(now.parent_count, before->parent_count);
    CHECK_EQUAL(now.child_count, before->child_count);
    CHECK(memcmp(now.parents, before->parents, sizeof now.parents) == 0);
    CHECK(memcmp(now.children, before->children, sizeof now.children) == 0);
}

static void fill(mmsb_page_t page, uint64_t size, uint8_t seed) {
    static uint8_t bytes[70000];
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(seed + i * 7);
    CHECK_OK(mmsb_page_write(page, 0, bytes, size));
}

static mmsb_status_t apply(mmsb_page_t page, uint64_t offset, uint64_t length, uint8_t value) {
    static uint8_t payload[70000];
    memset(payload, value, sizeof payload);
    mmsb_run_t run = {offset, length};
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.runs = &run;
    delta.count = 1;
    delta.payload = payload;
    return mmsb_page_apply(page, &delta);
}

static mmsb_status_t set(mmsb_page_t page, const char *key, const char *value) {
    return mmsb_page_metadata_set(page, key, strlen(key), value, strlen(value));
}

static void open_journal(mmsb_context_t context, const char *name, int32_t durability) {
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = durability;
    CHECK_OK(mmsb_journal_open(context, at(name), &options));
}

static mmsb_context_t load_journal(const char *name) {
    mmsb_context_t context = new_context();
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    static char directory[512];
    snprintf(directory, sizeof directory, "%s", at(name));
    options.journal = directory;
    CHECK_OK(mmsb_snapshot_load(context, "", &options));
    return context;
}

static uint64_t pages_of(mmsb_context_t context) {
    uint64_t count = 0;
    CHECK_OK(mmsb_context_page_count(context, &count));
    return count;
}

/* Runs a function on another thread, and waits for it. */
static void elsewhere(void *(*work)(void *), void *argument) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, work, argument) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* ---------------------------------------------------------------------------------------------------- rollback ---- */

/* Changes one page of a size in every way, and rolls back. */
static void roll_back_everything(mmsb_context_t context, uint64_t size, mmsb_location_t location) {
    static state_t before, friend_before;
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = location;
    mmsb_page_t page, friend, made, clone;
    CHECK_OK(mmsb_page_create(context, size, &options, &page));
    CHECK_OK(mmsb_page_create(context, 64, NULL, &friend));
    fill(page, size, 3);
    CHECK_OK(apply(page, size / 3, size / 4 + 1, 9));
    CHECK_OK(set(page, "name", "before"));
    CHECK_OK(mmsb_page_dependency_add(friend, page));
    look(page, &before);
    look(friend, &friend_before);
    const uint64_t count = pages_of(context);
    CHECK_OK(mmsb_group_begin(context));
    fill(page, size, 100);
    CHECK_OK(apply(page, 0, size, 1));
    CHECK_OK(mmsb_page_mask_clear(page));
    CHECK_OK(apply(page, size - 1, 1, 2));
    CHECK_OK(set(page, "name", "after"));
    CHECK_OK(set(page, "other", "x"));
    CHECK_OK(mmsb_page_resize(page, size / 2 + 1));
    fill(page, size / 2 + 1, 50);
    CHECK_OK(mmsb_page_resize(page, size + 100));
    CHECK_OK(apply(page, size, 100, 7));
    CHECK_OK(mmsb_page_metadata_remove(page, "name", 4));
    CHECK_OK(mmsb_page_create(context, 5000, NULL, &made));
    CHECK_OK(mmsb_page_clone(page, 0, &clone));
    CHECK_OK(mmsb_page_dependency_remove(friend, page));
    CHECK_OK(mmsb_page_dependency_add(page, friend));
    CHECK_OK(mmsb_page_dependency_add(made, page));
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_STATUS(mmsb_page_write(page, 0, "x", 1), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(mmsb_page_size(page), 0);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(pages_of(context), count + 1);
    CHECK_OK(mmsb_group_rollback(context));
    check_as(page, &before);
    check_as(friend, &friend_before);
    CHECK_EQUAL(pages_of(context), count);
    CHECK_STATUS(mmsb_page_write(made, 0, "x", 1), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_write(clone, 0, "x", 1), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_page_write(page, 0, "x", 1));
    CHECK_EQUAL(mmsb_page_version(page), before.info.version + 1);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_OK(mmsb_page_destroy(friend));
}

static void a_rollback_gives_everything_back(void) {
    static const uint64_t sizes[] = {3, 64, 100, 4000, 4096, 4097, 5000, 65536};
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = MMSB_SIMULATE_ALWAYS;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (mmsb_location_t location = MMSB_LOCATION_CPU; location <= MMSB_LOCATION_DISK; location++)
            roll_back_everything(context, sizes[i], location);
    CHECK_EQUAL(pages_of(context), 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_commit_keeps_everything(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t kept = new_page(context, 300), gone = new_page(context, 300), made;
    CHECK_OK(mmsb_group_begin(context));
    fill(kept, 300, 9);
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_OK(mmsb_page_create(context, 10, NULL, &made));
    CHECK_OK(mmsb_page_resize(kept, 5000));
    CHECK_OK(mmsb_group_commit(context));
    uint8_t byte;
    CHECK_OK(mmsb_page_read(kept, 2, &byte, 1));
    CHECK_EQUAL(byte, 9 + 14);
    CHECK_EQUAL(mmsb_page_size(kept), 5000);
    CHECK_STATUS(mmsb_page_read(gone, 0, &byte, 1), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_page_read(made, 0, &byte, 1));
    CHECK_EQUAL(pages_of(context), 2);
    CHECK_STATUS(mmsb_group_commit(context), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_group_rollback(context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_context_destroy(context));
}

/* A mask that the group has made for a smaller page goes with it. */
static void a_mask_of_another_size_is_undone(void) {
    static state_t before;
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 60000);
    fill(page, 60000, 4);
    look(page, &before);
    CHECK_OK(mmsb_group_begin(context));
    CHECK_OK(mmsb_page_resize(page, 64));
    CHECK_OK(apply(page, 0, 64, 1));
    CHECK_OK(mmsb_group_rollback(context));
    check_as(page, &before);
    CHECK_OK(apply(page, 59999, 1, 1));
    CHECK_OK(mmsb_context_destroy(context));
}

static uint64_t last_record(mmsb_context_t context) {
    mmsb_journal_info_t info;
    mmsb_journal_info_init(&info);
    CHECK_OK(mmsb_journal_info(context, &info));
    return info.last;
}

/* A batch of resizes in a group: all or none, undone by the rollback, in the journal behind the commit. */
static void many_are_resized_in_a_group(void) {
    enum { MANY = 4 };
    static const uint64_t old[MANY] = {100, 5000, 60000, 3000}, sizes[MANY] = {64, 60000, 5000, 3000}, more[MANY] = {1, 2, 3, 4};
    static state_t before[MANY], after[MANY];
    for (int commit = 0; commit < 2; commit++) {
        mmsb_context_t context = new_context();
        open_journal(context, commit ? "committed" : "undone", MMSB_DURABILITY_NONE);
        mmsb_page_t pages[MANY];
        size_t bad = 9;
        for (int i = 0; i < MANY; i++) {
            pages[i] = new_page(context, old[i]);
            fill(pages[i], old[i], (uint8_t)i);
            CHECK_OK(apply(pages[i], 7, 50, 9));
        }
        CHECK_OK(mmsb_page_migrate(pages[2], MMSB_LOCATION_DISK, 0));
        for (int i = 0; i < MANY; i++)
            look(pages[i], &before[i]);
        const uint64_t last = last_record(context);
        CHECK_OK(mmsb_group_begin(context));
        CHECK_OK(mmsb_page_pin(pages[1], MMSB_PIN_READ, NULL));
        CHECK_STATUS(mmsb_page_resize_many(pages, sizes, MANY, &bad), MMSB_E_BUSY);
        CHECK_EQUAL(bad, 1);
        CHECK_OK(mmsb_page_unpin(pages[1], MMSB_PIN_READ));
        for (int i = 0; i < MANY; i++)
            check_as(pages[i], &before[i]);
        CHECK_OK(mmsb_page_resize_many(pages, sizes, MANY, NULL));
        for (int i = 0; i < MANY; i++)
            CHECK_EQUAL(mmsb_page_size(pages[i]), sizes[i]);
        fill(pages[1], 60000, 77);
        CHECK_OK(mmsb_page_resize_many(pages, more, MANY, NULL));
        CHECK_EQUAL(last_record(context), last);
        CHECK_OK(commit ? mmsb_group_commit(context) : mmsb_group_rollback(context));
        for (int i = 0; i < MANY; i++)
            commit ? look(pages[i], &after[i]) : check_as(pages[i], &before[i]);
        CHECK(commit ? last_record(context) >= last + 2 * MANY : last_record(context) == last);
        CHECK_OK(mmsb_context_destroy(context));
        context = load_journal(commit ? "committed" : "undone");
        for (int i = 0; commit && i < MANY; i++) {
            mmsb_page_t found;
            CHECK_OK(mmsb_page_lookup(context, after[i].info.id, &found));
            CHECK_EQUAL(mmsb_page_size(found), more[i]);
            CHECK_EQUAL(mmsb_page_version(found), after[i].info.version);
        }
        CHECK_OK(mmsb_context_destroy(context));
    }
}

/* A version that a page had in a group that was rolled back does not come again. */
static void versions_of_a_group_do_not_return(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    uint64_t seen[64], count = 0;
    for (int round = 0; round < 8; round++) {
        CHECK_OK(mmsb_group_begin(context));
        for (int i = 0; i < 4; i++) {
            fill(page, 100, (uint8_t)(round * 4 + i));
            seen[count++] = mmsb_page_version(page);
        }
        CHECK_OK(round % 3 == 2 ? mmsb_group_commit(context) : mmsb_group_rollback(context));
        fill(page, 100, (uint8_t)(round + 100));
        seen[count++] = mmsb_page_version(page);
    }
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
    /* A page whose address was given out may have changed beside the group. */
    CHECK(mmsb_page_address(page) != NULL);
    uint64_t before = mmsb_page_version(page);
    CHECK_OK(mmsb_group_begin(context));
    fill(page, 100, 1);
    CHECK_OK(mmsb_group_rollback(context));
    CHECK(mmsb_page_version(page) > before);
    CHECK_OK(mmsb_context_destroy(context));
}

/* The id of a page that the group has destroyed is the group's. */
static void *create_with_id(void *argument) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 77;
    mmsb_page_t page;
    CHECK_STATUS(mmsb_page_create(*(mmsb_context_t *)argument, 5, &options, &page), MMSB_E_BUSY);
    return NULL;
}

static void an_id_is_destroyed_and_made_again(void) {
    static state_t before;
    mmsb_context_t context = new_context();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 77;
    mmsb_page_t page, second, third, found;
    CHECK_OK(mmsb_page_create(context, 5, &options, &page));
    fill(page, 5, 3);
    look(page, &before);
    for (int commit = 0; commit < 2; commit++) {
        CHECK_OK(mmsb_group_begin(context));
        CHECK_OK(mmsb_page_destroy(page));
        CHECK_STATUS(mmsb_page_lookup(context, 77, &found), MMSB_E_NOT_FOUND);
        elsewhere(create_with_id, &context);
        CHECK_OK(mmsb_page_create(context, 6, &options, &second));
        CHECK_OK(mmsb_page_destroy(second));
        CHECK_OK(mmsb_page_create(context, 7, &options, &third));
        CHECK_OK(mmsb_page_lookup(context, 77, &found));
        CHECK_EQUAL(found, third);
        CHECK_OK(commit ? mmsb_group_commit(context) : mmsb_group_rollback(context));
        CHECK_OK(mmsb_page_lookup(context, 77, &found));
        CHECK_EQUAL(found, commit ? third : page);
        if (!commit)
            check_as(page, &before);
    }
    CHECK_EQUAL(pages_of(context), 1);
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------------------- others ---- */

typedef struct pages {
    mmsb_context_t context;
    mmsb_page_t changed, made, gone, free;
} pages_t;

static void *change_what_belongs_to_others(void *argument) {
    const pages_t *pages = argument;
    const mmsb_page_t theirs[] = {pages->changed, pages->made};
    mmsb_page_t clone;
    size_t bad = 9;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(mmsb_page_write(theirs[i], 0, "x", 1), MMSB_E_BUSY);
        CHECK_STATUS(apply(theirs[i], 0, 1, 1), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_resize(theirs[i], 9), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_destroy(theirs[i]), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_migrate(theirs[i], MMSB_LOCATION_DISK, 0), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_mask_clear(theirs[i]), MMSB_E_BUSY);
        CHECK_STATUS(set(theirs[i], "a", "b"), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_dependency_add(pages->free, theirs[i]), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_clone(theirs[i], 0, &clone), MMSB_E_BUSY);
        mmsb_page_range_t ranges[] = {{pages->free, 0, 1, (void *)"y"}, {theirs[i], 0, 1, (void *)"y"}};
        CHECK_STATUS(mmsb_page_write_many(ranges, 2, &bad), MMSB_E_BUSY);
        CHECK_EQUAL(bad, 1);
        mmsb_page_t both[] = {pages->free, theirs[i]};
        CHECK_STATUS(mmsb_page_destroy_many(both, 2, &bad), MMSB_E_BUSY);
        CHECK_EQUAL(bad, 1);
        uint8_t byte;
        CHECK_OK(mmsb_page_read(theirs[i], 0, &byte, 1));
    }
    CHECK_STATUS(mmsb_page_write(pages->gone, 0, "x", 1), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_page_write(pages->free, 0, "z", 1));
    CHECK_STATUS(mmsb_group_commit(pages->context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_group_begin(pages->context));
    CHECK_STATUS(mmsb_page_write(pages->changed, 0, "x", 1), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_write(pages->free, 1, "z", 1));
    CHECK_OK(mmsb_group_commit(pages->context));
    return NULL;
}

static void pages_belong_to_the_thread_that_writes(uint64_t length) {
    mmsb_context_t context = new_context();
    pages_t pages = {.context = context};
    pages.changed = new_page(context, 10);
    pages.gone = new_page(context, 10);
    pages.free = new_page(context, 10);
    CHECK_OK(mmsb_group_begin(context));
    CHECK_STATUS(mmsb_group_begin(context), MMSB_E_INVALID_STATE);
    pages.made = new_page(context, 10);
    CHECK_OK(mmsb_page_write(pages.changed, 0, "a", length));
    CHECK_OK(mmsb_page_destroy(pages.gone));
    elsewhere(change_what_belongs_to_others, &pages);
    CHECK_OK(mmsb_group_rollback(context));
    CHECK_OK(mmsb_page_write(pages.gone, 0, "a", 1));
    CHECK_OK(mmsb_context_destroy(context));
}

static void pages_of_a_group_are_its_threads(void) {
    pages_belong_to_the_thread_that_writes(1);
    pages_belong_to_the_thread_that_writes(0);
}

static void *leave_a_group_open(void *argument) {
    const pages_t *pages = argument;
    CHECK_OK(mmsb_group_begin(pages->context));
    CHECK_OK(mmsb_page_write(pages->changed, 0, "b", 1));
    CHECK_OK(mmsb_page_destroy(pages->gone));
    new_page(pages->context, 5000);
    return NULL;
}

static void *leave_a_group_with_a_pin(void *argument) {
    pages_t *pages = argument;
    CHECK_OK(mmsb_group_begin(pages->context));
    pages->made = new_page(pages->context, 100);
    CHECK_OK(mmsb_page_pin(pages->made, MMSB_PIN_READ, NULL));
    return NULL;
}

static void the_end_of_a_thread_rolls_back(void) {
    static state_t changed, gone;
    mmsb_context_t context = new_context();
    pages_t pages = {.context = context};
    pages.changed = new_page(context, 10);
    pages.gone = new_page(context, 4000);
    fill(pages.gone, 4000, 1);
    look(pages.changed, &changed);
    look(pages.gone, &gone);
    elsewhere(leave_a_group_open, &pages);
    check_as(pages.changed, &changed);
    check_as(pages.gone, &gone);
    CHECK_EQUAL(pages_of(context), 2);
    CHECK_OK(mmsb_page_write(pages.changed, 0, "c", 1));
    CHECK_OK(mmsb_snapshot_save(context, at("after"), NULL));
    /* A pin keeps the group open; the next group or save tries again. */
    elsewhere(leave_a_group_with_a_pin, &pages);
    CHECK_EQUAL(pages_of(context), 3);
    CHECK_OK(mmsb_page_unpin(pages.made, MMSB_PIN_READ));
    CHECK_OK(mmsb_snapshot_save(context, at("after"), NULL));
    CHECK_EQUAL(pages_of(context), 2);
    CHECK_OK(mmsb_context_destroy(context));
}

static int releases;
static void count_release(void *user, void *memory, uint64_t size) {
    (void)user, (void)memory, (void)size;
    releases++;
}

static void the_end_of_a_context_rolls_back(void) {
    uint8_t mine[100] = "mine", other[100];
    mmsb_context_t context = new_context();
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.release = count_release;
    mmsb_page_t adopted, gone, second;
    CHECK_OK(mmsb_page_adopt(context, mine, sizeof mine, &options, &adopted));
    CHECK_OK(mmsb_page_adopt(context, other, sizeof other, &options, &gone));
    releases = 0;
    CHECK_OK(mmsb_group_begin(context));
    CHECK_OK(mmsb_page_write(adopted, 0, "yours", 5));
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_EQUAL(releases, 0);
    CHECK_OK(mmsb_page_create(context, 10000, NULL, &second));
    CHECK_OK(mmsb_page_pin(second, MMSB_PIN_WRITE, NULL));
    CHECK_STATUS(mmsb_group_rollback(context), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_page_write(adopted, 0, "yours", 5), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_group_commit(context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK(memcmp(mine, "mine", 5) == 0);
    CHECK_EQUAL(releases, 2);
    CHECK_OK(mmsb_page_unpin(second, MMSB_PIN_WRITE));
    CHECK_STATUS(mmsb_group_rollback(context), MMSB_E_STALE_HANDLE);
    context = new_context(); /* perhaps at the index of the one that has ended, and with its records */
    mmsb_page_t pages[100];
    CHECK_OK(mmsb_page_create_many(context, 10000, 100, NULL, NULL, pages));
    CHECK_OK(mmsb_group_begin(context));
    for (int i = 0; i < 100; i++)
        CHECK_OK(mmsb_page_write(pages[i], 0, "ours", 4));
    CHECK_OK(mmsb_group_commit(context));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------------------ refused ---- */

static void what_a_group_refuses(void) {
    mmsb_context_t context = new_context(), none = 0;
    mmsb_page_t page = new_page(context, 100), pages[3];
    CHECK_STATUS(mmsb_group_begin(none), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_group_commit(context), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_group_rollback(context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_snapshot_save(context, at("s"), NULL));
    CHECK_OK(mmsb_group_begin(context));
    CHECK_OK(mmsb_page_write(page, 0, "x", 1));
    CHECK_STATUS(mmsb_snapshot_save(context, at("s"), NULL), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_snapshot_load(context, at("s"), NULL), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_journal_open(context, at("j"), NULL), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_journal_close(context), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_journal_sync(context, NULL), MMSB_E_BUSY);
    mmsb_ticket_t ticket;
    CHECK_STATUS(mmsb_snapshot_save_start(context, at("s"), NULL, NULL, &ticket), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_page_create_many_start(context, 10, 3, NULL, NULL, pages, &ticket), MMSB_E_INVALID_STATE);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.timeout_ns = 1000000000;
    CHECK_STATUS(mmsb_page_create_many(context, 10, 3, NULL, &work, pages), MMSB_E_INVALID_STATE);
    work.timeout_ns = 0; /* who tries does the work on this thread */
    CHECK_OK(mmsb_page_create_many(context, 10, 3, NULL, &work, pages));
    CHECK_STATUS(mmsb_page_create_many(context, 10 << 20, 3, NULL, &work, pages), MMSB_E_WOULD_BLOCK);
    CHECK_EQUAL(pages_of(context), 4);
    CHECK_OK(mmsb_page_migrate_many(pages, 3, MMSB_LOCATION_DISK, 0, &work, NULL, NULL));
    void *memory;
    uint64_t size;
    CHECK_STATUS(mmsb_page_release(page, &memory, &size), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_create_many(context, 10, 3, NULL, NULL, pages));
    CHECK_OK(mmsb_group_rollback(context));
    CHECK_EQUAL(pages_of(context), 1);
    CHECK_OK(mmsb_snapshot_save(context, at("s"), NULL));
    CHECK_OK(mmsb_context_destroy(context));
}

/* A group whose pre-images do not fit within the limit; those of the same bytes it keeps once. */
static void memory_of_a_group_is_limited(void) {
    enum { MANY = 40 };
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = 4 << 20;
    mmsb_context_t context;
    static state_t before;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_page_t pages[MANY];
    for (int i = 0; i < MANY; i++) {
        pages[i] = new_page(context, 65536);
        fill(pages[i], 65536, (uint8_t)i);
    }
    CHECK_OK(apply(pages[0], 100, 5000, 1));
    look(pages[0], &before);
    CHECK_OK(mmsb_group_begin(context));
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(mmsb_page_write(pages[0], 0, before.bytes + i, 65000));
        CHECK_OK(apply(pages[0], 1000, 20, (uint8_t)i));
        CHECK_OK(mmsb_page_mask_clear(pages[0]));
    }
    mmsb_status_t status = MMSB_OK;
    int calls = 0;
    for (; status == MMSB_OK && calls < MANY; calls++)
        status = mmsb_page_write(pages[calls], 0, before.bytes + 1, 65000);
    CHECK_STATUS(status, MMSB_E_LIMIT);
    CHECK(calls > 5 && calls < MANY);
    CHECK_OK(mmsb_group_rollback(context));
    check_as(pages[0], &before);
    for (int i = 1; i < MANY; i++) {
        uint8_t bytes[2];
        CHECK_OK(mmsb_page_read(pages[i], 64998, bytes, 2));
        CHECK_EQUAL(bytes[0], (uint8_t)(i + 64998 * 7));
        CHECK_EQUAL(bytes[1], (uint8_t)(i + 64999 * 7));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* What a group writes into a page that it has made needs no pre-image, unless the memory is the caller's. */
static void pages_that_a_group_has_made_are_written(void) {
    static uint8_t mine[1000], bytes[65536];
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = 4 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    for (int commit = 0; commit < 2; commit++) {
        memset(mine, 7, sizeof mine);
        mmsb_page_t adopted, made = 0;
        CHECK_OK(mmsb_group_begin(context));
        CHECK_OK(mmsb_page_adopt(context, mine, sizeof mine, NULL, &adopted));
        CHECK_OK(mmsb_page_write(adopted, 10, "yours", 5));
        for (int i = 0; i < 40; i++) { /* 2.5 MiB */
            made = new_page(context, 65536);
            CHECK_OK(mmsb_page_write(made, 0, bytes, sizeof bytes));
            CHECK_OK(apply(made, 0, 65536, (uint8_t)i));
        }
        CHECK_OK(mmsb_page_resize(made, 5000));
        CHECK_OK(mmsb_page_write(made, 4000, "yours", 5));
        CHECK_OK(commit ? mmsb_group_commit(context) : mmsb_group_rollback(context));
        CHECK_EQUAL(pages_of(context), commit ? 41 : 0);
        CHECK_EQUAL(mine[10], commit ? 'y' : 7);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------------------ journal ---- */

/* The journal has a group that committed, and nothing of one that was rolled back. rounds of 64 KiB: more than a buffer takes. */
static void journal_groups(int rounds) {
    static const int32_t durabilities[] = {MMSB_DURABILITY_INTERVAL, MMSB_DURABILITY_CALL, MMSB_DURABILITY_NONE};
    static state_t first, second;
    for (int d = 0; d < 3; d++) {
        char name[32];
        snprintf(name, sizeof name, "journal-%d-%d", d, rounds);
        mmsb_context_t context = new_context();
        open_journal(context, name, durabilities[d]);
        mmsb_page_t page = new_page(context, 65536), gone = new_page(context, 10), many[50];
        const uint64_t before = last_record(context);
        CHECK_OK(mmsb_group_begin(context));
        for (int i = 0; i < rounds; i++)
            fill(page, 65536, (uint8_t)i);
        CHECK_OK(set(page, "key", "value"));
        CHECK_OK(apply(page, 5, 60, 8));
        CHECK_OK(mmsb_page_destroy(gone));
        CHECK_OK(mmsb_page_create_many(context, 100, 50, NULL, NULL, many));
        CHECK_OK(mmsb_page_destroy_many(many, 20, NULL));
        CHECK_OK(mmsb_page_resize(many[30], 5000));
        CHECK_OK(mmsb_page_dependency_add(page, many[30]));
        CHECK_EQUAL(last_record(context), before);
        CHECK_OK(mmsb_group_commit(context));
        CHECK(last_record(context) >= before + (uint64_t)rounds + 75);
        const uint64_t after = last_record(context);
        CHECK_OK(mmsb_group_begin(context));
        fill(page, 65536, 77);
        new_page(context, 64);
        CHECK_OK(mmsb_page_destroy(many[31]));
        CHECK_OK(mmsb_group_rollback(context));
        CHECK_EQUAL(last_record(context), after);
        look(page, &first);
        const uint64_t count = pages_of(context);
        CHECK_OK(mmsb_context_destroy(context));
        context = load_journal(name);
        CHECK_EQUAL(pages_of(context), count);
        mmsb_page_t found;
        CHECK_OK(mmsb_page_lookup(context, first.info.id, &found));
        look(found, &second);
        CHECK(memcmp(first.bytes, second.bytes, sizeof first.bytes) == 0);
        CHECK_EQUAL(first.info.version, second.info.version);
        CHECK_EQUAL(first.info.epoch, second.info.epoch);
        CHECK_EQUAL(second.child_count, 1);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

static void the_journal_has_groups_whole(void) {
    journal_groups(3);
    journal_groups(90);
}

static mmsb_status_t adopt_two(mmsb_context_t context) {
    static uint8_t memory[2][100];
    void *memories[] = {memory[0], memory[1]};
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.release = count_release;
    mmsb_page_t pages[2];
    return mmsb_page_adopt_many(context, memories, (uint64_t[]){100, 90}, NULL, 2, &options, pages, NULL);
}

static void *fail_the_journal(void *argument) {
    const pages_t *pages = argument;
    mmsb_page_write(pages->free, 0, "x", 1);
    CHECK_STATUS(mmsb_journal_sync(pages->context, NULL), MMSB_E_NO_SPACE);
    return NULL;
}

/* A commit that the journal does not take leaves the group open. */
static void a_commit_without_a_disk(void) {
    static state_t before;
    releases = 0;
    mmsb_context_t context = new_context();
    pages_t pages = {.context = context, .changed = new_page(context, 100), .free = new_page(context, 100)};
    open_journal(context, "journal", MMSB_DURABILITY_CALL);
    look(pages.changed, &before);
    CHECK_OK(mmsb_group_begin(context));
    fill(pages.changed, 100, 1);
    struct rlimit was, none = {0, 0};
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &was) == 0);
    none.rlim_max = was.rlim_max;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
    elsewhere(fail_the_journal, &pages);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &was) == 0);
    CHECK_STATUS(mmsb_page_write(pages.changed, 0, "x", 1), MMSB_E_NO_SPACE);
    CHECK_STATUS(mmsb_page_destroy(pages.changed), MMSB_E_NO_SPACE);
    mmsb_page_t made;
    CHECK_STATUS(mmsb_page_create(context, 10, NULL, &made), MMSB_E_NO_SPACE);
    CHECK_STATUS(adopt_two(context), MMSB_E_NO_SPACE);
    CHECK_STATUS(mmsb_page_resize_many((mmsb_page_t[]){pages.changed}, (uint64_t[]){50}, 1, NULL), MMSB_E_NO_SPACE);
    CHECK_STATUS(mmsb_group_commit(context), MMSB_E_NO_SPACE);
    CHECK_STATUS(mmsb_group_commit(context), MMSB_E_NO_SPACE);
    CHECK_OK(mmsb_group_rollback(context));
    check_as(pages.changed, &before);
    CHECK_STATUS(adopt_two(context), MMSB_E_NO_SPACE);
    CHECK_STATUS(mmsb_page_resize_many((mmsb_page_t[]){pages.changed}, (uint64_t[]){50}, 1, NULL), MMSB_E_NO_SPACE);
    check_as(pages.changed, &before);
    CHECK_EQUAL(pages_of(context), 2);
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_NO_SPACE); /* as a change of the other thread is not on the disk */
    CHECK_EQUAL(releases, 0);
}

/* Pages that a group adopts together end with its rollback, which gives their memory back. */
static void adoptions_are_undone(void) {
    mmsb_context_t context = new_context();
    open_journal(context, "journal", MMSB_DURABILITY_NONE);
    const uint64_t last = last_record(context);
    for (int commit = 0; commit < 2; commit++) {
        releases = 0;
        CHECK_OK(mmsb_group_begin(context));
        CHECK_OK(adopt_two(context));
        CHECK_EQUAL(last_record(context), last);
        CHECK_EQUAL(pages_of(context), 2);
        CHECK_OK(commit ? mmsb_group_commit(context) : mmsb_group_rollback(context));
        CHECK_EQUAL(releases, commit ? 0 : 2);
        CHECK_EQUAL(pages_of(context), commit ? 2 : 0);
    }
    CHECK_EQUAL(last_record(context), last + 3); /* with that of the group */
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(releases, 2);
    context = load_journal("journal");
    CHECK_EQUAL(pages_of(context), 2);
    CHECK_OK(mmsb_context_destroy(context));
}

/* mmsb_page_create_many is one group: the journal, cut behind any of its records, has all pages or none. */
static void pages_made_together_are_a_group(void) {
    mmsb_context_t context = new_context();
    open_journal(context, "journal", MMSB_DURABILITY_NONE);
    mmsb_page_t pages[100];
    for (int uninitialised = 0; uninitialised < 2; uninitialised++) {
        mmsb_page_options_t options;
        mmsb_page_options_init(&options);
        options.contents = uninitialised ? MMSB_PAGE_UNINITIALISED : MMSB_PAGE_ZEROED;
        CHECK_OK(mmsb_page_create_many(context, uninitialised ? 5000 : 64, 100, &options, NULL, pages));
    }
    CHECK_OK(mmsb_page_create_many(context, 64, 0, NULL, NULL, pages));
    const uint64_t last = last_record(context);
    CHECK_OK(mmsb_context_destroy(context));
    for (uint64_t until = 1; until <= last; until += 7) {
        context = new_context();
        mmsb_load_options_t load;
        mmsb_load_options_init(&load);
        char directory[512];
        snprintf(directory, sizeof directory, "%s", at("journal"));
        load.journal = directory;
        load.journal_until = until;
        CHECK_OK(mmsb_snapshot_load(context, "", &load));
        CHECK_EQUAL(pages_of(context) % 100, 0);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

/* -------------------------------------------------------------------------------------------------------- saves ---- */

enum { SAVED_PAGES = 8, SAVED_ROUNDS = 60 };

typedef struct changer {
    mmsb_context_t context;
    mmsb_page_t pages[SAVED_PAGES];
    int stop;
} changer_t;

/* Groups that give all pages one number, or are rolled back. */
static void *change_in_groups(void *argument) {
    changer_t *changer = argument;
    for (uint64_t number = 1; !__atomic_load_n(&changer->stop, __ATOMIC_RELAXED); number++) {
        CHECK_OK(mmsb_group_begin(changer->context));
        for (int i = 0; i < SAVED_PAGES; i++)
            CHECK_OK(mmsb_page_write(changer->pages[i], 0, &number, sizeof number));
        CHECK_OK(number % 4 ? mmsb_group_commit(changer->context) : mmsb_group_rollback(changer->context));
    }
    return NULL;
}

static void *save_beside(void *context) {
    CHECK_OK(mmsb_snapshot_save(*(mmsb_context_t *)context, at("s"), NULL));
    return NULL;
}

typedef struct waiter {
    mmsb_context_t context;
    mmsb_status_t now, soon;
} waiter_t;

static void *begin_within(void *given) {
    waiter_t *waiter = given;
    do { /* until the save waits */
        usleep(1000);
        if ((waiter->now = mmsb_group_begin_within(waiter->context, 0)) == MMSB_OK)
            CHECK_OK(mmsb_group_commit(waiter->context));
    } while (waiter->now == MMSB_OK);
    waiter->soon = mmsb_group_begin_within(waiter->context, 1000000);
    return NULL;
}

/* Who begins a group while a save waits for another one waits no longer than it says. */
static void a_group_begins_within_a_time(void) {
    waiter_t waiter = {.context = new_context()};
    pthread_t saver, beginner;
    REQUIRE_OK(mmsb_group_begin_within(waiter.context, 0)); /* nobody is there to wait for */
    REQUIRE(pthread_create(&saver, NULL, save_beside, &waiter.context) == 0);
    REQUIRE(pthread_create(&beginner, NULL, begin_within, &waiter) == 0);
    REQUIRE(pthread_join(beginner, NULL) == 0);
    CHECK_EQUAL(waiter.now, MMSB_E_WOULD_BLOCK);
    CHECK_EQUAL(waiter.soon, MMSB_E_TIMEOUT);
    CHECK_OK(mmsb_group_commit(waiter.context));
    REQUIRE(pthread_join(saver, NULL) == 0);
    CHECK_OK(mmsb_group_begin_within(waiter.context, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_group_commit(waiter.context));
    CHECK_OK(mmsb_context_destroy(waiter.context));
}

static void a_save_has_no_half_group(void) {
    changer_t changer = {.context = new_context()};
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    for (int i = 0; i < SAVED_PAGES; i++) {
        options.id = (uint64_t)i + 1;
        CHECK_OK(mmsb_page_create(changer.context, i % 2 ? 400000 : 64, &options, &changer.pages[i]));
    }
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, change_in_groups, &changer) == 0);
    for (int round = 0; round < SAVED_ROUNDS; round++) {
        CHECK_OK(mmsb_snapshot_save(changer.context, at("s"), NULL));
        mmsb_context_t loaded = new_context();
        CHECK_OK(mmsb_snapshot_load(loaded, at("s"), NULL));
        uint64_t first = 0, number = 0;
        for (int i = 0; i < SAVED_PAGES; i++) {
            mmsb_page_t page;
            CHECK_OK(mmsb_page_lookup(loaded, (uint64_t)i + 1, &page));
            CHECK_OK(mmsb_page_read(page, 0, &number, sizeof number));
            first = i == 0 ? number : first;
            CHECK_EQUAL(number, first);
        }
        CHECK(first % 4 != 0 || first == 0);
        CHECK_OK(mmsb_context_destroy(loaded));
    }
    __atomic_store_n(&changer.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    CHECK_OK(mmsb_context_destroy(changer.context));
}

/* Threads whose groups take the same pages in any order: busy ones roll back and try again, and nobody waits for ever. */
static void *take_in_any_order(void *argument) {
    changer_t *changer = argument;
    unsigned seed = (unsigned)(uintptr_t)pthread_self();
    for (int done = 0; done < 200;) {
        CHECK_OK(mmsb_group_begin(changer->context));
        mmsb_status_t status = MMSB_OK;
        for (int i = 0; status == MMSB_OK && i < 4; i++) {
            uint64_t number;
            mmsb_page_t page = changer->pages[rand_r(&seed) % SAVED_PAGES];
            CHECK_OK(mmsb_page_read(page, 0, &number, sizeof number));
            status = mmsb_page_write(page, 8, &number, sizeof number);
            if (status == MMSB_OK) { /* the page is this thread's: nobody else counts */
                CHECK_OK(mmsb_page_read(page, 0, &number, sizeof number));
                number++;
                CHECK_OK(mmsb_page_write(page, 0, &number, sizeof number));
            }
        }
        CHECK(status == MMSB_OK || status == MMSB_E_BUSY);
        CHECK_OK(status == MMSB_OK ? mmsb_group_commit(changer->context) : mmsb_group_rollback(changer->context));
        done += status == MMSB_OK;
    }
    return NULL;
}

static void groups_that_want_the_same_pages(void) {
    changer_t changer = {.context = new_context()};
    for (int i = 0; i < SAVED_PAGES; i++)
        changer.pages[i] = new_page(changer.context, 64);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&threads[i], NULL, take_in_any_order, &changer) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    uint64_t sum = 0, number;
    for (int i = 0; i < SAVED_PAGES; i++) {
        CHECK_OK(mmsb_page_read(changer.pages[i], 0, &number, sizeof number));
        sum += number;
    }
    CHECK_EQUAL(sum, 3 * 200 * 4);
    CHECK_OK(mmsb_context_destroy(changer.context));
}

/* Another thread destroys pages in the shortest way just when a group begins and takes them: one of both has each page. */
typedef struct race {
    mmsb_context_t context;
    mmsb_page_t pages[16];
    int begun, done;
} race_t;

static void *destroy_them(void *argument) {
    race_t *race = argument;
    while (!__atomic_load_n(&race->begun, __ATOMIC_ACQUIRE)) {}
    for (int i = 0; i < 16; i++) {
        mmsb_status_t status = mmsb_page_destroy(race->pages[i]);
        CHECK(status == MMSB_OK || status == MMSB_E_BUSY);
        race->done += status == MMSB_OK;
    }
    return NULL;
}

static void a_group_begins_beside_destroys(void) {
    race_t race = {.context = new_context()};
    for (int round = 0; round < 300; round++) {
        int taken = 0;
        for (int i = 0; i < 16; i++)
            race.pages[i] = new_page(race.context, 64);
        race.begun = race.done = 0;
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, destroy_them, &race) == 0);
        __atomic_store_n(&race.begun, 1, __ATOMIC_RELEASE);
        CHECK_OK(mmsb_group_begin(race.context));
        for (int i = 15; i >= 0; i--)
            taken += mmsb_page_write(race.pages[i], 0, "x", 1) == MMSB_OK;
        pthread_join(thread, NULL);
        CHECK_EQUAL(race.done + taken, 16);
        CHECK_OK(round % 2 ? mmsb_group_commit(race.context) : mmsb_group_rollback(race.context));
        CHECK_EQUAL(pages_of(race.context), taken);
        for (int i = 0; i < 16; i++)
            mmsb_page_destroy(race.pages[i]);
    }
    CHECK_OK(mmsb_context_destroy(race.context));
}

int main(void) {
    folder_make();
    RUN_IN_FOLDER(a_rollback_gives_everything_back);
    RUN_IN_FOLDER(a_commit_keeps_everything);
    RUN_IN_FOLDER(a_mask_of_another_size_is_undone);
    RUN_IN_FOLDER(many_are_resized_in_a_group);
    RUN_IN_FOLDER(versions_of_a_group_do_not_return);
    RUN_IN_FOLDER(an_id_is_destroyed_and_made_again);
    RUN_IN_FOLDER(pages_of_a_group_are_its_threads);
    RUN_IN_FOLDER(the_end_of_a_thread_rolls_back);
    RUN_IN_FOLDER(the_end_of_a_context_rolls_back);
    RUN_IN_FOLDER(what_a_group_refuses);
    RUN_IN_FOLDER(memory_of_a_group_is_limited);
    RUN_IN_FOLDER(pages_that_a_group_has_made_are_written);
    RUN_IN_FOLDER(the_journal_has_groups_whole);
    RUN_IN_FOLDER(a_commit_without_a_disk);
    RUN_IN_FOLDER(adoptions_are_undone);
    RUN_IN_FOLDER(pages_made_together_are_a_group);
    RUN_IN_FOLDER(a_save_has_no_half_group);
    RUN_IN_FOLDER(a_group_begins_within_a_time);
    RUN_IN_FOLDER(groups_that_want_the_same_pages);
    RUN_IN_FOLDER(a_group_begins_beside_destroys);
    folder_end();
    return check_report();
}
