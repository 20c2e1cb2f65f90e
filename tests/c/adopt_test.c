/* Adopted pages: memory of the caller's, given back exactly once and on the thread whose call ended the page. */
#include "library.h"

typedef struct owner {
    int released;
    pthread_t thread;
    void *memory;
    uint64_t size;
} owner_t;

static void release(void *user, void *memory, uint64_t size) {
    owner_t *owner = user;
    __atomic_add_fetch(&owner->released, 1, __ATOMIC_SEQ_CST);
    owner->thread = pthread_self();
    owner->memory = memory;
    owner->size = size;
}

static mmsb_page_t adopt(mmsb_context_t context, void *memory, uint64_t size, owner_t *owner, int read_only) {
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.release = release;
    options.user = owner;
    options.read_only = read_only;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_adopt(context, memory, size, &options, &page));
    return page;
}

static void check_released_here(const owner_t *owner, const void *memory, uint64_t size) {
    CHECK_EQUAL(owner->released, 1);
    CHECK(pthread_equal(owner->thread, pthread_self()));
    CHECK(owner->memory == memory);
    CHECK_EQUAL(owner->size, size);
}

static void the_memory_is_the_page(void) {
    mmsb_context_t context = new_context();
    uint8_t memory[1001];
    memset(memory, 0, sizeof memory);
    owner_t owner = {0};
    mmsb_page_t page = adopt(context, memory + 1, 1000, &owner, 0); /* no alignment is asked of it */
    mmsb_page_info_t info = page_info(page);
    CHECK(info.adopted && !info.read_only && info.location == MMSB_LOCATION_CPU && info.size == 1000 && info.id != 0);
    CHECK(mmsb_page_address(page) == memory + 1);
    write_pattern(page, 1);
    CHECK_EQUAL(memory[1], pattern_byte(1, 0));
    memory[1000] = 'z';
    uint8_t byte = 0;
    CHECK_OK(mmsb_page_read(page, 999, &byte, 1));
    CHECK_EQUAL(byte, 'z');
    mmsb_run_t run = {3, 1};
    mmsb_delta_t delta = one_run(&run, "d");
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_EQUAL(memory[4], 'd');
    uint64_t set = 0;
    CHECK_OK(mmsb_page_mask_count(page, &set));
    CHECK_EQUAL(set, 1);
    void *address;
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
    CHECK(address == memory + 1);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK_STATUS(mmsb_page_resize(page, 10), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_page_resize(page, 2000), MMSB_E_INVALID_STATE);
    void *taken = NULL;
    uint64_t size;
    CHECK_STATUS(mmsb_page_release(page, &taken, &size), MMSB_E_INVALID_STATE);
    mmsb_page_t clone;
    CHECK_OK(mmsb_page_clone(page, 0, &clone));
    CHECK(!page_info(clone).adopted);
    CHECK(mmsb_page_address(clone) != memory + 1);
    CHECK(page_holds(clone, memory + 1, 1000));
    CHECK_EQUAL(owner.released, 0);
    CHECK_OK(mmsb_page_destroy(page));
    check_released_here(&owner, memory + 1, 1000);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(owner.released, 1);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(owner.released, 1);
}

static void read_only_memory_is_not_written(void) {
    static const uint8_t memory[100] = {1, 2, 3}; /* in a section that faults when it is written */
    mmsb_context_t context = new_context();
    owner_t owner = {0};
    mmsb_page_t page = adopt(context, (void *)(uintptr_t)memory, 100, &owner, 1);
    CHECK(page_info(page).read_only);
    uint64_t version = mmsb_page_version(page);
    CHECK_STATUS(mmsb_page_write(page, 0, "x", 1), MMSB_E_INVALID_STATE);
    mmsb_run_t run = {0, 1};
    mmsb_delta_t delta = one_run(&run, "x");
    CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_INVALID_STATE);
    mmsb_page_t normal = new_page(context, 100);
    mmsb_page_t pair[2] = {normal, page};
    mmsb_delta_t deltas[2] = {delta, delta};
    size_t bad = 99;
    CHECK_STATUS(mmsb_page_apply_many(pair, deltas, 2, &bad), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(bad, 1);
    uint64_t offsets[2] = {0, 0};
    mmsb_page_runs_t runs;
    mmsb_page_runs_init(&runs);
    runs.count = 2;
    runs.pages = pair;
    runs.offsets = offsets;
    runs.uniform_length = 1;
    runs.payload = "xy";
    CHECK_STATUS(mmsb_page_apply_runs(&runs, &bad), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(bad, 1);
    CHECK_EQUAL(mmsb_page_epoch(normal), 0);
    mmsb_page_range_t ranges[2] = {{normal, 0, 1, "x"}, {page, 0, 1, "x"}};
    CHECK_STATUS(mmsb_page_write_many(ranges, 2, &bad), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(bad, 1);
    CHECK_STATUS(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, NULL));
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
    CHECK(page_holds(page, memory, 100));
    CHECK_EQUAL(mmsb_page_epoch(page), 0);
    CHECK_EQUAL(mmsb_page_version(page), version);
    mmsb_page_t clone;
    CHECK_OK(mmsb_page_clone(page, 0, &clone));
    CHECK(!page_info(clone).read_only);
    CHECK_OK(mmsb_page_write(clone, 0, "x", 1));
    CHECK_EQUAL(owner.released, 0);
    CHECK_OK(mmsb_context_destroy(context));
    check_released_here(&owner, memory, 100);
}

static void adopted_memory_does_not_migrate(void) {
    mmsb_context_t context = new_context();
    uint8_t memory[5000];
    fill_pattern(memory, sizeof memory, 7);
    owner_t owner = {0};
    mmsb_page_t pages[2] = {new_page(context, 100), adopt(context, memory, sizeof memory, &owner, 0)};
    mmsb_page_t page = pages[1];
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0)); /* there already: nothing happens */
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0), MMSB_E_INVALID_STATE);
    size_t bad = 99;
    CHECK_STATUS(mmsb_page_migrate_many(pages, 2, MMSB_LOCATION_DISK, 0, NULL, NULL, &bad), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(bad, 1);
    mmsb_ticket_t ticket = 42;
    CHECK_STATUS(mmsb_page_migrate_many_start(pages, 2, MMSB_LOCATION_DISK, 0, NULL, NULL, &ticket), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(ticket, 42);
    CHECK_EQUAL(page_info(pages[0]).location, MMSB_LOCATION_CPU);
    CHECK(page_info(page).adopted && mmsb_page_address(page) == memory);
    CHECK_EQUAL(owner.released, 0);
    CHECK_OK(mmsb_page_destroy(page));
    check_released_here(&owner, memory, sizeof memory);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_load_goes_into_the_memory(void) {
    mmsb_context_t context = new_context();
    static uint8_t memory[2][5000];
    owner_t owners[2] = {0};
    mmsb_page_t pages[2];
    uint64_t ids[2];
    for (int i = 0; i < 2; i++) {
        pages[i] = adopt(context, memory[i], sizeof memory[i], &owners[i], 0);
        ids[i] = page_info(pages[i]).id;
        write_pattern(pages[i], (uint64_t)i + 1);
    }
    void *saved = NULL;
    uint64_t length = 0;
    CHECK_OK(mmsb_snapshot_save_memory(context, NULL, &saved, &length));
    memset(memory, 0, sizeof memory);
    CHECK_OK(mmsb_snapshot_load_memory(context, saved, length, NULL));
    for (int i = 0; i < 2; i++) {
        mmsb_page_t page = 0;
        CHECK_OK(mmsb_page_lookup(context, ids[i], &page));
        CHECK(page != pages[i] && page_info(page).adopted && mmsb_page_address(page) == memory[i]);
        CHECK(page_holds_pattern(page, (uint64_t)i + 1, sizeof memory[i]));
        CHECK_STATUS(mmsb_page_destroy(pages[i]), MMSB_E_STALE_HANDLE);
        CHECK_EQUAL(owners[i].released, 0);
        pages[i] = page;
    }

    /* A page that the snapshot does not have ends, and gives its memory back. */
    uint8_t other[10];
    owner_t owner = {0};
    adopt(context, other, sizeof other, &owner, 0);
    CHECK_OK(mmsb_snapshot_load_memory(context, saved, length, NULL));
    check_released_here(&owner, other, sizeof other);
    CHECK_EQUAL(owners[0].released + owners[1].released, 0);

    /* Another size: nothing changes. */
    CHECK_OK(mmsb_page_lookup(context, ids[1], &pages[1]));
    CHECK_OK(mmsb_page_destroy(pages[1]));
    check_released_here(&owners[1], memory[1], sizeof memory[1]);
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.id = ids[1];
    CHECK_OK(mmsb_page_adopt(context, memory[1], 4000, &options, &pages[1]));
    memset(memory, 9, sizeof memory);
    CHECK_STATUS(mmsb_snapshot_load_memory(context, saved, length, NULL), MMSB_E_MISMATCH);
    CHECK(memory[0][0] == 9 && memory[1][0] == 9 && mmsb_page_size(pages[1]) == 4000);
    CHECK_OK(mmsb_snapshot_free_memory(saved));
    CHECK_EQUAL(owners[0].released, 0);
    CHECK_OK(mmsb_context_destroy(context));
    check_released_here(&owners[0], memory[0], sizeof memory[0]);
}

static void the_end_of_the_context_releases(void) {
    uint8_t memory[64];
    owner_t owner = {0};
    mmsb_context_t context = new_context();
    adopt(context, memory, sizeof memory, &owner, 0);
    CHECK_OK(mmsb_context_destroy(context));
    check_released_here(&owner, memory, sizeof memory);

    owner_t at_shutdown = {0};
    context = new_context();
    adopt(context, memory, sizeof memory, &at_shutdown, 0);
    CHECK_OK(mmsb_shutdown());
    check_released_here(&at_shutdown, memory, sizeof memory);
}

typedef struct hand_over {
    mmsb_page_t page;
    owner_t *owner;
} hand_over_t;

static void *unpin_elsewhere(void *argument) {
    hand_over_t *hand_over = ((team_member_t *)argument)->shared;
    CHECK_OK(mmsb_page_unpin(hand_over->page, MMSB_PIN_WRITE));
    CHECK_EQUAL(hand_over->owner->released, 1);
    CHECK(pthread_equal(hand_over->owner->thread, pthread_self()));
    return NULL;
}

/* Pinned when its context ends, the memory is given back by the last unpin, on that thread. */
static void the_last_unpin_releases(void) {
    uint8_t memory[64];
    owner_t owner = {0};
    mmsb_context_t context = new_context();
    mmsb_page_t page = adopt(context, memory, sizeof memory, &owner, 0);
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, NULL));
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(owner.released, 0);
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 1);
    memory[0] = 1;
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
    CHECK_EQUAL(owner.released, 0);
    hand_over_t hand_over = {page, &owner};
    run_team(1, unpin_elsewhere, &hand_over);
    CHECK_EQUAL(owner.released, 1);
    CHECK_STATUS(mmsb_page_unpin(page, MMSB_PIN_WRITE), MMSB_E_STALE_HANDLE);
}

static void *destroy_at_once(void *argument) {
    hand_over_t *hand_over = ((team_member_t *)argument)->shared;
    mmsb_status_t status = mmsb_page_destroy(hand_over->page);
    CHECK(status == MMSB_OK || status == MMSB_E_STALE_HANDLE);
    if (status == MMSB_OK) {
        CHECK(pthread_equal(hand_over->owner->thread, pthread_self()));
    }
    return NULL;
}

static void release_happens_once_among_threads(void) {
    mmsb_context_t context = new_context();
    uint8_t memory[64];
    for (int round = 0; round < 200; round++) {
        owner_t owner = {0};
        hand_over_t hand_over = {adopt(context, memory, sizeof memory, &owner, 0), &owner};
        run_team(4, destroy_at_once, &hand_over);
        CHECK_EQUAL(owner.released, 1);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void wrong_arguments_adopt_nothing(void) {
    mmsb_context_t context = new_context();
    uint8_t memory[64];
    owner_t owner = {0};
    mmsb_page_t page = 42;
    mmsb_adopt_options_t defaults;
    memset(&defaults, 0xAA, sizeof defaults);
    mmsb_adopt_options_init(&defaults);
    CHECK_EQUAL(defaults.struct_size, sizeof defaults);
    CHECK(defaults.device == 0 && defaults.location == MMSB_LOCATION_CPU && defaults.read_only == 0 && defaults.id == 0 &&
          defaults.release == NULL && defaults.user == NULL && defaults.stream == NULL);
    defaults.release = release;
    defaults.user = &owner;
    mmsb_adopt_options_t options = defaults;
    CHECK_STATUS(mmsb_page_adopt(context, NULL, 64, &options, &page), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_adopt(context, memory, 0, &options, &page), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_adopt(context, memory, 1ULL << 63, &options, &page), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_adopt(context, memory, SIZE_MAX, &options, &page), MMSB_E_INVALID_SIZE);
    options.location = MMSB_LOCATION_GPU;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &page), MMSB_E_NO_DEVICE);
    options.stream = &owner;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &page), MMSB_E_NO_DEVICE);
    options.location = MMSB_LOCATION_CPU;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &page), MMSB_E_INVALID_ARGUMENT);
    options.stream = NULL;
    options.location = MMSB_LOCATION_DISK + 1;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &page), MMSB_E_INVALID_ARGUMENT);
    options = defaults;
    options.read_only = 2;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &page), MMSB_E_INVALID_ARGUMENT);
    options = defaults;
    options.struct_size = 7;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &page), MMSB_E_STRUCT_VERSION);
    options = defaults;
    options.reserved[1] = 1;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &page), MMSB_E_STRUCT_VERSION);
    options = defaults;
    options.id = 5;
    CHECK_EQUAL(page, 42);
    CHECK_OK(mmsb_page_adopt(context, memory, 64, &options, &page));
    CHECK_EQUAL(page_info(page).id, 5);
    mmsb_page_t duplicate = 42;
    CHECK_STATUS(mmsb_page_adopt(context, memory, 64, &options, &duplicate), MMSB_E_ALREADY_EXISTS);
    CHECK_EQUAL(duplicate, 42);
    CHECK_EQUAL(owner.released, 0);                                   /* a refused call releases nothing */
    CHECK_OK(mmsb_page_adopt(context, memory, 64, NULL, &duplicate)); /* without options: nothing to call */
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(owner.released, 1);
}

int main(void) {
    RUN(the_memory_is_the_page);
    RUN(read_only_memory_is_not_written);
    RUN(adopted_memory_does_not_migrate);
    RUN(a_load_goes_into_the_memory);
    RUN(the_end_of_the_context_releases);
    RUN(the_last_unpin_releases);
    RUN(release_happens_once_among_threads);
    RUN(wrong_arguments_adopt_nothing);
    return check_report();
}
