/*
 * Command buffers: what a command copies, the order of commands, rings that are full, waits, failures, ends. Random programs are
 * in commands_random_test.c, races in native/tests/commands_test.c.
 */
#include "folder.h"

static mmsb_commands_stats_t stats_of(mmsb_commands_t commands) {
    mmsb_commands_stats_t stats;
    mmsb_commands_stats_init(&stats);
    CHECK_OK(mmsb_commands_stats(commands, &stats));
    CHECK_EQUAL(stats.enqueued, stats.done + stats.failed + stats.cancelled + stats.depth);
    return stats;
}

/* A delta of bytes of one value. */
static void set(mmsb_page_t page, uint64_t offset, uint64_t length, uint8_t value) {
    uint8_t *bytes = malloc(length);
    const mmsb_run_t run = {offset, length};
    memset(bytes, value, length);
    const mmsb_delta_t delta = one_run(&run, bytes);
    CHECK_OK(mmsb_page_apply(page, &delta));
    free(bytes);
}

static void propagate(mmsb_commands_t commands, mmsb_page_t page, const mmsb_page_t *dependencies, size_t count) {
    CHECK_OK(mmsb_commands_enqueue(commands, page, dependencies, count, 0));
    CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
}

static uint8_t byte_at(mmsb_page_t page, uint64_t offset) {
    uint8_t byte = 0;
    CHECK_OK(mmsb_page_read(page, offset, &byte, 1));
    return byte;
}

static int masked_at(mmsb_page_t page, uint64_t offset) {
    uint8_t bit = 0;
    CHECK_OK(mmsb_page_mask_read(page, offset, &bit, 1));
    return bit & 1;
}

static uint64_t masked(mmsb_page_t page) {
    uint64_t count = 0;
    CHECK_OK(mmsb_page_mask_count(page, &count));
    return count;
}

/* ------------------------------------------------------------------------------------------------ what is copied ---- */

static void masked_bytes_are_copied_and_marked(void) {
    static const uint64_t sizes[] = {1, 7, 63, 64, 65, 127, 128, 1000, 4096, 4097, 100000};
    for (int32_t workers = 0; workers < 2; workers++) {
        mmsb_commands_t commands = new_commands(workers, 16);
        mmsb_context_t context = new_context();
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const uint64_t size = sizes[i], last = size - 1;
            mmsb_page_t from = new_page(context, size), to = new_page(context, size);
            write_pattern(from, 1); /* a write is not in the mask */
            set(from, last, 1, 0xaa);
            propagate(commands, to, &from, 1);
            CHECK_EQUAL(byte_at(to, last), 0xaa);
            CHECK_EQUAL(masked(to), 1);
            CHECK(masked_at(to, last));
            CHECK(size == 1 || byte_at(to, 0) == 0);
            CHECK_EQUAL(mmsb_page_epoch(to), 1);
            CHECK_EQUAL(masked(from), 1); /* it stays */
            CHECK_EQUAL(mmsb_page_epoch(from), 1);
            set(from, 0, size, 0xbb);
            const uint64_t version = mmsb_page_version(to);
            propagate(commands, to, &from, 1);
            CHECK_EQUAL(masked(to), size);
            CHECK(byte_at(to, 0) == 0xbb && byte_at(to, last) == 0xbb && byte_at(to, size / 2) == 0xbb);
            CHECK_EQUAL(mmsb_page_epoch(to), 2);
            CHECK(mmsb_page_version(to) > version);
        }
        CHECK_OK(mmsb_commands_destroy(commands));
        CHECK_OK(mmsb_context_destroy(context));
    }
}

static void a_command_that_finds_nothing_changes_nothing(void) {
    mmsb_commands_t commands = new_commands(0, 16);
    mmsb_context_t context = new_context();
    mmsb_page_t from = new_page(context, 64), to = new_page(context, 64), empty[1] = {0};
    write_pattern(from, 1);
    set(to, 3, 1, 9);
    const uint64_t version = mmsb_page_version(to);
    propagate(commands, to, &from, 1); /* no mask */
    propagate(commands, to, empty, 0); /* no dependency */
    propagate(commands, to, NULL, 0);  /* no parent */
    set(from, 5, 1, 1);
    CHECK_OK(mmsb_page_mask_clear(from));
    propagate(commands, to, &from, 1); /* an empty mask */
    CHECK_EQUAL(mmsb_page_version(to), version);
    CHECK_EQUAL(mmsb_page_epoch(to), 1);
    CHECK_EQUAL(masked(to), 1);
    CHECK_EQUAL(stats_of(commands).done, 4);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Dependency i has the bytes from i on. */
static void the_later_dependency_wins(void) {
    enum { SIZE = 300, MOST = 200 };
    static const size_t counts[] = {2, 5, 6, 7, 8, 50, MOST};
    mmsb_commands_t commands = new_commands(0, 16);
    mmsb_context_t context = new_context();
    mmsb_page_t from[MOST];
    for (int i = 0; i < MOST; i++) {
        from[i] = new_page(context, SIZE);
        set(from[i], (uint64_t)i, SIZE - (uint64_t)i, (uint8_t)(i + 1));
    }
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        mmsb_page_t to = new_page(context, SIZE);
        for (int again = 0; again < 2; again++) {
            propagate(commands, to, from, counts[c]);
            for (uint64_t i = 0; i < SIZE; i++) {
                const uint64_t last = i < counts[c] ? i + 1 : counts[c];
                CHECK_EQUAL(byte_at(to, i), last);
            }
            CHECK_EQUAL(mmsb_page_epoch(to), 1 + again); /* one delta, however many they are */
        }
        CHECK_EQUAL(masked(to), SIZE);
    }
    /* One that stands twice has its turn twice. */
    mmsb_page_t to = new_page(context, SIZE);
    const mmsb_page_t twice[] = {from[1], from[0], from[1]};
    propagate(commands, to, twice, 3);
    CHECK(byte_at(to, 0) == 1 && byte_at(to, 1) == 2);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

static void parents_are_the_default(void) {
    enum { PARENTS = 600 }; /* more than are asked for at once */
    mmsb_commands_t commands = new_commands(1, 1024);
    mmsb_context_t context = new_context();
    mmsb_page_t child = new_page(context, 8), parents[PARENTS];
    for (int i = 0; i < PARENTS; i++) {
        parents[i] = new_page(context, 8);
        set(parents[i], (uint64_t)i % 8, 1, (uint8_t)(i / 8 + 1));
        CHECK_OK(mmsb_page_dependency_add(parents[i], child));
        if (i == 2) { /* fewer first */
            propagate(commands, child, NULL, 0);
            CHECK(byte_at(child, 0) == 1 && byte_at(child, 2) == 1 && byte_at(child, 3) == 0);
        }
    }
    propagate(commands, child, NULL, 0);
    for (uint64_t i = 0; i < 8; i++) {
        CHECK_EQUAL(byte_at(child, i), PARENTS / 8);
    }
    /* Those that it has when the command is executed: neither an edge nor a page that is gone counts. */
    mmsb_commands_t later = new_commands(0, 16);
    CHECK_OK(mmsb_commands_enqueue(later, child, NULL, 0, 0));
    CHECK_OK(mmsb_page_destroy(parents[PARENTS - 1]));
    CHECK_OK(mmsb_page_dependency_remove(parents[PARENTS - 2], child));
    set(parents[PARENTS - 2], 0, 8, 0xee);
    set(parents[PARENTS - 3], 0, 8, 0xdd);
    CHECK_STATUS(mmsb_commands_wait(later, 0), MMSB_E_WOULD_BLOCK);
    CHECK_OK(mmsb_commands_wait(later, MMSB_WAIT_FOREVER));
    CHECK(byte_at(child, 0) == 0xdd && byte_at(child, 7) == 0xdd);
    CHECK_EQUAL(stats_of(later).failed, 0);
    /* Many pages whose parents are asked for together. */
    mmsb_page_t chain[300];
    for (int i = 0; i < 300; i++) {
        chain[i] = new_page(context, 8);
        CHECK_OK(mmsb_page_dependency_add(i == 0 ? child : chain[i - 1], chain[i]));
        CHECK_OK(mmsb_commands_enqueue(commands, chain[i], NULL, 0, MMSB_WAIT_FOREVER));
    }
    for (int i = 0; i < 300; i++) { /* the first ones were perhaps executed before the edge was there */
        CHECK_OK(mmsb_commands_enqueue(commands, chain[i], NULL, 0, MMSB_WAIT_FOREVER));
    }
    CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(byte_at(chain[299], 7), 0xdd);
    CHECK_EQUAL(stats_of(commands).failed, 0);
    CHECK_OK(mmsb_commands_destroy(later));
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

static void pages_may_lie_anywhere(void) {
    enum { SIZE = 5000 };
    mmsb_commands_t persistent = new_commands_with(1, 16, 1), usual = new_commands(1, 16);
    mmsb_context_t context = new_simulated_context(1);
    static const mmsb_location_t places[] = {MMSB_LOCATION_CPU, MMSB_LOCATION_DISK, MMSB_LOCATION_GPU, MMSB_LOCATION_UNIFIED,
                                             MMSB_LOCATION_PINNED};
    for (int i = 0; i < 50; i++) {
        const mmsb_commands_t commands = i < 25 ? usual : persistent;
        mmsb_page_options_t options;
        mmsb_page_options_init(&options);
        mmsb_page_t from, to;
        options.location = places[i / 5 % 5];
        CHECK_OK(mmsb_page_create(context, SIZE, &options, &from));
        options.location = places[i % 5];
        CHECK_OK(mmsb_page_create(context, SIZE, &options, &to));
        set(from, 10, 3000, 7);
        set(from, SIZE - 1, 1, 8);
        propagate(commands, to, &from, 1);
        CHECK(byte_at(to, 9) == 0 && byte_at(to, 10) == 7 && byte_at(to, 3009) == 7 && byte_at(to, SIZE - 1) == 8);
        CHECK_EQUAL(masked(to), 3001);
        CHECK_EQUAL(mmsb_page_epoch(to), 1);
        CHECK_EQUAL(mmsb_page_location(to), places[i % 5]);
    }
    CHECK_EQUAL(stats_of(usual).failed, 0);
    CHECK_EQUAL(stats_of(persistent).failed, 0);
    /* Pages of another context, too. */
    mmsb_context_t other = new_context();
    mmsb_page_t from = new_page(other, 8), to = new_page(context, 8);
    set(from, 1, 1, 5);
    propagate(usual, to, &from, 1);
    CHECK_EQUAL(byte_at(to, 1), 5);
    CHECK_OK(mmsb_commands_destroy(usual));
    CHECK_OK(mmsb_commands_destroy(persistent));
    CHECK_OK(mmsb_context_destroy(other));
    CHECK_OK(mmsb_context_destroy(context));
}

/* -------------------------------------------------------------------------------------------------------- order ---- */

enum { CHAINS = 4, LINKS = 200 };

typedef struct chains {
    mmsb_commands_t commands;
    mmsb_page_t pages[CHAINS][LINKS];
} chains_t;

static void *enqueue_chain(void *argument) {
    const team_member_t *member = argument;
    chains_t *chains = member->shared;
    mmsb_page_t *pages = chains->pages[member->index];
    for (int round = 1; round < 20; round++) {
        set(pages[0], (uint64_t)round, 1, (uint8_t)round);
        for (int i = 1; i < LINKS; i++) {
            CHECK_OK(mmsb_commands_enqueue(chains->commands, pages[i], &pages[i - 1], 1, MMSB_WAIT_FOREVER));
        }
        CHECK_OK(mmsb_commands_wait(chains->commands, MMSB_WAIT_FOREVER));
        CHECK_EQUAL(byte_at(pages[LINKS - 1], (uint64_t)round), round);
    }
    return NULL;
}

static void commands_of_a_thread_keep_their_order(void) {
    for (int32_t workers = 0; workers < 4; workers++) {
        chains_t chains = {.commands = new_commands(workers, workers == 0 ? LINKS : 50)};
        mmsb_context_t context = new_context();
        for (int i = 0; i < CHAINS * LINKS; i++) {
            chains.pages[i / LINKS][i % LINKS] = new_page(context, 24);
        }
        run_team(CHAINS, enqueue_chain, &chains);
        const mmsb_commands_stats_t stats = stats_of(chains.commands);
        CHECK_EQUAL(stats.done, CHAINS * 19 * (LINKS - 1));
        CHECK_EQUAL(stats.failed, 0);
        CHECK(stats.peak > 0 && stats.peak <= stats.capacity);
        CHECK(stats.producers > 0 && stats.producers <= CHAINS);
        CHECK_OK(mmsb_commands_destroy(chains.commands));
        CHECK_OK(mmsb_context_destroy(context));
    }
}

typedef struct one_command {
    mmsb_commands_t commands;
    mmsb_page_t page;
    uint64_t timeout_ns;
    mmsb_status_t status;
} one_command_t;

static void *enqueue_one(void *argument) {
    one_command_t *one = argument;
    const mmsb_page_t none[1] = {0};
    one->status = mmsb_commands_enqueue(one->commands, one->page, none, 0, one->timeout_ns);
    return NULL;
}

static void rings_of_ended_threads_are_used_again(void) {
    mmsb_commands_t commands = new_commands(0, 8);
    mmsb_context_t context = new_context();
    one_command_t one = {.commands = commands, .page = new_page(context, 8)};
    for (uint64_t i = 0; i < 8; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, enqueue_one, &one) == 0);
        pthread_join(thread, NULL);
        CHECK_STATUS(one.status, MMSB_OK);
        /* Of the first four threads all is executed before the next one comes. */
        CHECK_EQUAL(stats_of(commands).producers, i < 4 ? 1 : i - 3);
        if (i < 4) {
            CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
        }
    }
    mmsb_commands_stats_t stats = stats_of(commands);
    CHECK_EQUAL(stats.depth, 4);
    CHECK_EQUAL(stats.peak, 1);
    CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(stats_of(commands).done, 8);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

/* ---------------------------------------------------------------------------------------------------- full rings ---- */

static void a_full_ring_refuses_or_waits(void) {
    static const uint64_t capacities[] = {1, 2, 5, 8};
    const mmsb_page_t none[1] = {0};
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    for (int c = 0; c < 4; c++) {
        mmsb_commands_t commands = new_commands(0, capacities[c]);
        uint64_t executed = 0, refused = 6;
        for (int round = 0; round < 3; round++) { /* over the end of the ring */
            for (uint64_t i = 0; i < capacities[c]; i++) {
                CHECK_OK(mmsb_commands_enqueue(commands, page, none, 0, 0));
            }
            CHECK_STATUS(mmsb_commands_enqueue(commands, page, none, 0, 0), MMSB_E_WOULD_BLOCK);
            do { /* where the thread was not run for a millisecond there is no time left to wait */
                CHECK_STATUS(mmsb_commands_enqueue(commands, page, none, 0, 1000000), MMSB_E_TIMEOUT);
                refused++;
            } while (stats_of(commands).waits <= (uint64_t)round);
            CHECK_OK(mmsb_commands_drain(commands, 1, &executed));
            CHECK_EQUAL(executed, 1);
            CHECK_OK(mmsb_commands_enqueue(commands, page, none, 0, 0));
            CHECK_STATUS(mmsb_commands_enqueue(commands, page, none, 0, 0), MMSB_E_WOULD_BLOCK);
            CHECK_EQUAL(stats_of(commands).depth, capacities[c]);
            CHECK_OK(mmsb_commands_drain(commands, 0, &executed));
            CHECK_EQUAL(executed, capacities[c]);
        }
        const mmsb_commands_stats_t stats = stats_of(commands);
        CHECK_EQUAL(stats.peak, capacities[c]);
        CHECK_EQUAL(stats.refused, refused);
        CHECK(stats.waits == 3 && stats.waited_ns > 0);
        CHECK_EQUAL(stats.done, 3 * (capacities[c] + 1));
        CHECK_OK(mmsb_commands_drain(commands, 0, &executed));
        CHECK_EQUAL(executed, 0);
        CHECK_OK(mmsb_commands_destroy(commands));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void *enqueue_two(void *argument) {
    one_command_t *one = argument;
    enqueue_one(one);
    if (one->status == MMSB_OK) {
        enqueue_one(one); /* the ring has space for one */
    }
    return NULL;
}

/* Begins a thread whose second command waits for space. */
static pthread_t blocked_thread(one_command_t *one) {
    pthread_t thread;
    one->timeout_ns = MMSB_WAIT_FOREVER;
    one->status = MMSB_E_INTERNAL;
    REQUIRE(pthread_create(&thread, NULL, enqueue_two, one) == 0);
    while (stats_of(one->commands).enqueued < 1) {
        check_sleep_ms(1);
    }
    check_sleep_ms(30);
    return thread;
}

static void who_waits_for_space_goes_on(void) {
    mmsb_context_t context = new_context();
    uint64_t executed;
    one_command_t one = {.commands = new_commands(0, 1), .page = new_page(context, 8)};
    pthread_t thread = blocked_thread(&one);
    CHECK_EQUAL(stats_of(one.commands).enqueued, 1);
    CHECK_OK(mmsb_commands_drain(one.commands, 1, &executed));
    pthread_join(thread, NULL);
    CHECK_STATUS(one.status, MMSB_OK);
    CHECK_EQUAL(stats_of(one.commands).enqueued, 2);
    CHECK_OK(mmsb_commands_destroy(one.commands));

    one.commands = new_commands(0, 1);
    thread = blocked_thread(&one);
    CHECK_OK(mmsb_commands_close(one.commands, MMSB_COMMANDS_COMPLETE, MMSB_WAIT_FOREVER));
    pthread_join(thread, NULL);
    CHECK_EQUAL(one.status, MMSB_E_INVALID_STATE);
    CHECK_EQUAL(stats_of(one.commands).done, 1);
    CHECK_OK(mmsb_commands_destroy(one.commands));

    one.commands = new_commands(0, 1);
    thread = blocked_thread(&one);
    CHECK_OK(mmsb_commands_destroy(one.commands));
    pthread_join(thread, NULL);
    CHECK_EQUAL(one.status, MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------------------------------ failures ---- */

static mmsb_command_failure_t next_failure(mmsb_commands_t commands) {
    mmsb_command_failure_t failure = {0};
    size_t count = 99;
    CHECK_OK(mmsb_commands_failures(commands, &failure, 1, &count));
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(failure.struct_size, sizeof failure);
    CHECK(failure.text[0] != 0 && strlen(failure.text) < sizeof failure.text);
    return failure;
}

static void release_nothing(void *user, void *memory, uint64_t size) {
    (void)user;
    (void)memory;
    (void)size;
}

static void failures_are_counted_and_told(void) {
    mmsb_commands_t commands = new_commands(0, 64);
    mmsb_context_t context = new_context();
    mmsb_page_t from = new_page(context, 64), to = new_page(context, 64), gone = new_page(context, 64),
                gone_too = new_page(context, 64), small = new_page(context, 63), read_only, child = new_page(context, 64),
                grandchild = new_page(context, 64);
    static uint8_t memory[64];
    mmsb_adopt_options_t adopt;
    mmsb_adopt_options_init(&adopt);
    adopt.read_only = 1;
    adopt.release = release_nothing;
    CHECK_OK(mmsb_page_adopt(context, memory, sizeof memory, &adopt, &read_only));
    CHECK_OK(mmsb_page_dependency_add(to, child));
    CHECK_OK(mmsb_page_dependency_add(child, grandchild));
    set(from, 1, 2, 3);
    set(gone_too, 1, 2, 3);
    set(small, 1, 2, 3);
    set(grandchild, 1, 2, 3);
    const struct {
        mmsb_page_t page, dependency;
        mmsb_status_t code;
        const char *text;
    } rows[] = {
        {gone, from, MMSB_E_STALE_HANDLE, "was destroyed"}, {to, gone_too, MMSB_E_STALE_HANDLE, "was destroyed"},
        {to, small, MMSB_E_MISMATCH, "has 63 bytes"},       {read_only, from, MMSB_E_INVALID_STATE, "read-only"},
        {to, grandchild, MMSB_E_INVALID_ARGUMENT, "cycle"}, {from, grandchild, MMSB_OK, ""},
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    for (size_t i = 0; i < ROWS; i++) {
        CHECK_OK(mmsb_commands_enqueue(commands, rows[i].page, &rows[i].dependency, 1, 0));
    }
    CHECK_OK(mmsb_commands_enqueue(commands, to, &from, 1, 0)); /* it goes on behind them */
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_OK(mmsb_page_destroy(gone_too));
    const uint64_t version = mmsb_page_version(to);
    uint64_t executed;
    CHECK_OK(mmsb_commands_drain(commands, ROWS - 1, &executed));
    CHECK_EQUAL(mmsb_page_version(to), version);
    CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(byte_at(to, 1), 3);
    CHECK_EQUAL(memory[1], 0);
    mmsb_commands_stats_t stats = stats_of(commands);
    CHECK_EQUAL(stats.failed, ROWS - 1);
    CHECK_EQUAL(stats.done, 2);
    for (size_t i = 0; i < ROWS - 1; i++) {
        const mmsb_command_failure_t failure = next_failure(commands);
        CHECK_EQUAL(failure.code, rows[i].code);
        CHECK_EQUAL(failure.page, rows[i].page);
        CHECK(strstr(failure.text, rows[i].text) != NULL);
    }
    mmsb_command_failure_t failures[300];
    size_t count;
    CHECK_OK(mmsb_commands_failures(commands, failures, 300, &count));
    CHECK_EQUAL(count, 0);
    CHECK_EQUAL(stats.failures_lost, 0);

    /* A page that was resized while it waited; when both have the same size again it goes on. */
    CHECK_OK(mmsb_commands_enqueue(commands, to, &from, 1, 0));
    CHECK_OK(mmsb_commands_enqueue(commands, to, &from, 1, 0));
    CHECK_OK(mmsb_page_resize(to, 100));
    CHECK_OK(mmsb_commands_drain(commands, 1, &executed));
    CHECK_EQUAL(next_failure(commands).code, MMSB_E_MISMATCH);
    CHECK_OK(mmsb_page_resize(from, 100));
    set(from, 90, 1, 4);
    CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(byte_at(to, 90), 4);

    /* The newest 256 are kept. */
    for (int i = 0; i < 300; i++) {
        CHECK_OK(mmsb_commands_enqueue(commands, i == 43 ? child : to, &small, 1, 0));
        CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
    }
    CHECK_EQUAL(stats_of(commands).failures_lost, 44);
    CHECK_OK(mmsb_commands_failures(commands, failures, 300, &count));
    CHECK_EQUAL(count, 256);
    for (int i = 0; i < 256; i++) {
        CHECK_EQUAL(failures[i].page, to);
    }
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_context_may_end_before_its_commands(void) {
    for (int32_t workers = 0; workers < 3; workers++) {
        mmsb_commands_t commands = new_commands(workers, 4096);
        mmsb_context_t context = new_context();
        mmsb_page_t pages[64];
        for (int i = 0; i < 64; i++) {
            pages[i] = new_page(context, 64);
            set(pages[i], 0, 64, 1);
            if (i > 0) {
                CHECK_OK(mmsb_page_dependency_add(pages[i - 1], pages[i]));
            }
        }
        for (int i = 0; i < 4000; i++) {
            CHECK_OK(mmsb_commands_enqueue(commands, pages[1 + i % 63], i % 3 ? &pages[i % 63] : NULL, i % 3 ? 1 : 0, 0));
        }
        CHECK_OK(mmsb_context_destroy(context));
        CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
        const mmsb_commands_stats_t stats = stats_of(commands);
        CHECK_EQUAL(stats.done + stats.failed, 4000);
        CHECK(workers > 0 || stats.failed == 4000);
        CHECK_OK(mmsb_commands_destroy(commands));
    }
}

/* ---------------------------------------------------------------------------------------------- groups and saves ---- */

static void commands_belong_to_the_group_of_their_thread(void) {
    mmsb_commands_t own = new_commands(0, 16), others = new_commands(1, 16);
    mmsb_context_t context = new_context();
    mmsb_page_t from = new_page(context, 64), to = new_page(context, 64);
    set(from, 5, 10, 1);
    set(to, 0, 1, 2);
    CHECK_OK(mmsb_group_begin(context));
    propagate(own, to, &from, 1);
    CHECK_EQUAL(byte_at(to, 5), 1);
    propagate(others, to, &from, 1); /* the page is the group's */
    CHECK_EQUAL(next_failure(others).code, MMSB_E_BUSY);
    CHECK_OK(mmsb_group_rollback(context));
    CHECK_EQUAL(byte_at(to, 5), 0);
    CHECK_EQUAL(masked(to), 1);
    CHECK_EQUAL(mmsb_page_epoch(to), 1);
    CHECK_OK(mmsb_group_begin(context));
    propagate(own, to, &from, 1);
    CHECK_OK(mmsb_group_commit(context));
    CHECK_EQUAL(byte_at(to, 14), 1);
    CHECK_EQUAL(mmsb_page_epoch(to), 2);
    CHECK_EQUAL(stats_of(own).failed, 0);
    CHECK_OK(mmsb_commands_destroy(own));
    CHECK_OK(mmsb_commands_destroy(others));
    CHECK_OK(mmsb_context_destroy(context));
}

static void journals_have_commands(void) {
    enum { SIZE = 3000 };
    for (int32_t durability = 0; durability < 2; durability++) {
        mmsb_commands_t commands = new_commands(1, 64);
        mmsb_context_t context = new_context();
        mmsb_page_t from[2] = {new_page(context, SIZE), new_page(context, SIZE)}, to = new_page(context, SIZE);
        const uint64_t id = mmsb_page_id(to);
        mmsb_journal_options_t options;
        mmsb_journal_options_init(&options);
        options.durability = durability;
        CHECK_OK(mmsb_journal_open(context, at(durability ? "calls" : "interval"), &options));
        for (int round = 1; round < 20; round++) {
            for (int i = 0; i < 10; i++) {
                set(from[round % 2], (uint64_t)(i * 251 + round), (uint64_t)(i * 7 + 1), (uint8_t)(round * 10 + i));
            }
            propagate(commands, to, from, 2);
        }
        uint8_t bytes[SIZE], mask[SIZE / 8], held[SIZE], held_mask[SIZE / 8];
        CHECK_OK(mmsb_page_read(to, 0, bytes, SIZE));
        CHECK_OK(mmsb_page_mask_read(to, 0, mask, SIZE));
        CHECK_EQUAL(stats_of(commands).failed, 0);
        CHECK_OK(mmsb_commands_destroy(commands));
        CHECK_OK(mmsb_journal_close(context));
        CHECK_OK(mmsb_context_destroy(context));

        mmsb_context_t loaded = new_context();
        mmsb_load_options_t load;
        mmsb_load_options_init(&load);
        load.journal = at(durability ? "calls" : "interval");
        CHECK_OK(mmsb_snapshot_load(loaded, "", &load));
        mmsb_page_t again = 0;
        CHECK_OK(mmsb_page_lookup(loaded, id, &again));
        CHECK_OK(mmsb_page_read(again, 0, held, SIZE));
        CHECK_OK(mmsb_page_mask_read(again, 0, held_mask, SIZE));
        CHECK(memcmp(bytes, held, SIZE) == 0 && memcmp(mask, held_mask, SIZE / 8) == 0);
        CHECK_EQUAL(mmsb_page_epoch(again), 19);
        CHECK_OK(mmsb_context_destroy(loaded));
    }
}

/* A guard's report is told to the command that changes a page next. */
static void commands_hear_of_the_guard(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.guard_every = 1;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_commands_t commands = new_commands(1, 16);
    mmsb_page_t broken = new_page(context, 64), from = new_page(context, 64), to = new_page(context, 64);
    set(from, 1, 1, 7);
    uint8_t *memory = mmsb_page_address(broken);
    memory[64] = (uint8_t)(memory[64] ^ 1);
    CHECK_OK(mmsb_page_destroy(broken));
    propagate(commands, to, &from, 1);
    CHECK_EQUAL(next_failure(commands).code, MMSB_E_GUARD);
    CHECK_EQUAL(byte_at(to, 1), 0);
    propagate(commands, to, &from, 1);
    CHECK_EQUAL(byte_at(to, 1), 7);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Saves beside commands: in each snapshot a page has all of a command or nothing, and no later page of a chain is ahead. */
static void saves_have_whole_commands(void) {
    enum { PAGES = 8, SIZE = 20000 };
    mmsb_commands_t commands = new_commands(2, 256);
    mmsb_context_t context = new_context();
    mmsb_page_t pages[PAGES];
    uint64_t ids[PAGES];
    for (int i = 0; i < PAGES; i++) {
        pages[i] = new_page(context, SIZE);
        ids[i] = mmsb_page_id(pages[i]);
        set(pages[i], 0, SIZE, 0);
    }
    for (int save = 0; save < 10; save++) {
        for (int round = 0; round < 20; round++) {
            set(pages[0], 0, SIZE, (uint8_t)(save * 20 + round));
            for (int i = 1; i < PAGES; i++) {
                CHECK_OK(mmsb_commands_enqueue(commands, pages[i], &pages[i - 1], 1, MMSB_WAIT_FOREVER));
            }
        }
        CHECK_OK(mmsb_snapshot_save(context, at("saved"), NULL));
        mmsb_snapshot_t snapshot;
        CHECK_OK(mmsb_snapshot_open(at("saved"), &snapshot));
        uint8_t before = UINT8_MAX, bytes[SIZE];
        for (int i = 0; i < PAGES; i++) {
            CHECK_OK(mmsb_snapshot_read(snapshot, ids[i], 0, bytes, SIZE));
            CHECK(memcmp(bytes, bytes + 1, SIZE - 1) == 0);
            CHECK(bytes[0] <= before);
            before = bytes[0];
        }
        CHECK_OK(mmsb_snapshot_close(snapshot));
    }
    CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(byte_at(pages[PAGES - 1], 0), 199);
    CHECK_EQUAL(stats_of(commands).failed, 0);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

/* --------------------------------------------------------------------------------------------- arguments and ends ---- */

static void bad_arguments(void) {
    mmsb_commands_t commands = 0, stale = new_commands(0, 1);
    mmsb_commands_options_t options;
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8), other = new_page(context, 8), gone = new_page(context, 8);
    mmsb_commands_stats_t stats;
    mmsb_command_failure_t failure;
    uint64_t executed;
    size_t count;
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_OK(mmsb_commands_destroy(stale));
    mmsb_commands_options_init(&options);
    CHECK(options.workers == 1 && options.capacity == 1024 && options.persistent == 0);
    CHECK_STATUS(mmsb_commands_create(&options, NULL), MMSB_E_INVALID_ARGUMENT);
    options.workers = -1;
    CHECK_STATUS(mmsb_commands_create(&options, &commands), MMSB_E_INVALID_ARGUMENT);
    options.workers = 65;
    CHECK_STATUS(mmsb_commands_create(&options, &commands), MMSB_E_INVALID_ARGUMENT);
    options.workers = 64;
    options.capacity = 0;
    CHECK_STATUS(mmsb_commands_create(&options, &commands), MMSB_E_INVALID_SIZE);
    options.capacity = (1 << 24) + 1;
    CHECK_STATUS(mmsb_commands_create(&options, &commands), MMSB_E_INVALID_SIZE);
    options.capacity = 1;
    options.persistent = 2;
    CHECK_STATUS(mmsb_commands_create(&options, &commands), MMSB_E_INVALID_ARGUMENT);
    options.persistent = 1;
    options.reserved_word = 1;
    CHECK_STATUS(mmsb_commands_create(&options, &commands), MMSB_E_STRUCT_VERSION);
    options.reserved_word = 0;
    options.reserved[4] = 1;
    CHECK_STATUS(mmsb_commands_create(&options, &commands), MMSB_E_STRUCT_VERSION);
    CHECK_EQUAL(commands, 0);
    CHECK_OK(mmsb_commands_create(NULL, &commands));
    CHECK_EQUAL(stats_of(commands).capacity, 1024);
    CHECK_EQUAL(stats_of(commands).workers, 1);
    CHECK_EQUAL(check_live(MMSB_KIND_COMMANDS), 1);

    CHECK_STATUS(mmsb_commands_enqueue(commands, gone, NULL, 0, 0), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, &gone, 1, 0), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_commands_enqueue(commands, 0, NULL, 0, 0), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_commands_enqueue(commands, commands, NULL, 0, 0), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, &context, 1, 0), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, &page, 1, 0), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, NULL, 1, 0), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, (const mmsb_page_t *)(uintptr_t)((uintptr_t)&other + 4), 1, 0),
                 MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, &other, SIZE_MAX, 0), MMSB_E_INVALID_SIZE);
    CHECK_OK(mmsb_commands_enqueue(commands, page, &other, 1, 0)); /* now the thread has a ring */
    CHECK_STATUS(mmsb_commands_enqueue(commands, gone, NULL, 0, 0), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, &page, 1, 0), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_drain(commands, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_stats(commands, NULL), MMSB_E_INVALID_ARGUMENT);
    memset(&stats, 0, sizeof stats);
    CHECK_STATUS(mmsb_commands_stats(commands, &stats), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_commands_failures(commands, NULL, 1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_failures(commands, &failure, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_failures(commands, &failure, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_commands_close(commands, 2, 0), MMSB_E_INVALID_ARGUMENT);

    mmsb_commands_stats_init(&stats);
    const mmsb_commands_t wrong[] = {0, stale, context, page, commands + (UINT64_C(1) << 28), commands + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const mmsb_status_t expected = wrong[i] == stale ? MMSB_E_STALE_HANDLE : MMSB_E_INVALID_HANDLE;
        CHECK_STATUS(mmsb_commands_enqueue(wrong[i], page, &other, 1, 0), expected);
        CHECK_STATUS(mmsb_commands_wait(wrong[i], 0), expected);
        CHECK_STATUS(mmsb_commands_drain(wrong[i], 0, &executed), expected);
        CHECK_STATUS(mmsb_commands_close(wrong[i], MMSB_COMMANDS_CANCEL, 0), expected);
        CHECK_STATUS(mmsb_commands_stats(wrong[i], &stats), expected);
        CHECK_STATUS(mmsb_commands_failures(wrong[i], &failure, 1, &count), expected);
        CHECK_STATUS(mmsb_commands_destroy(wrong[i]), wrong[i] == 0 ? MMSB_OK : expected);
    }
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_STATUS(mmsb_commands_destroy(commands), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_commands_enqueue(commands, page, &other, 1, 0), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_shutdown_completes_or_cancels(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t from = new_page(context, 64), to = new_page(context, 64);
    set(from, 0, 64, 1);
    for (int32_t workers = 0; workers < 3; workers++) {
        mmsb_commands_t commands = new_commands(workers, 4096);
        for (int i = 0; i < 3000; i++) {
            CHECK_OK(mmsb_commands_enqueue(commands, to, &from, 1, 0));
        }
        CHECK_OK(mmsb_commands_close(commands, MMSB_COMMANDS_COMPLETE, MMSB_WAIT_FOREVER));
        CHECK_EQUAL(stats_of(commands).done, 3000);
        CHECK_STATUS(mmsb_commands_enqueue(commands, to, &from, 1, 0), MMSB_E_INVALID_STATE);
        CHECK_OK(mmsb_commands_close(commands, MMSB_COMMANDS_CANCEL, 0)); /* again */
        CHECK_OK(mmsb_commands_wait(commands, 0));
        CHECK_OK(mmsb_commands_destroy(commands));

        commands = new_commands(workers, 4096);
        mmsb_page_t many[10];
        for (int i = 0; i < 10; i++) {
            many[i] = from;
        }
        for (int i = 0; i < 3000; i++) {
            CHECK_OK(mmsb_commands_enqueue(commands, to, many, 10, 0)); /* with memory of their own */
        }
        CHECK_OK(mmsb_commands_close(commands, MMSB_COMMANDS_CANCEL, MMSB_WAIT_FOREVER));
        const mmsb_commands_stats_t stats = stats_of(commands);
        CHECK_EQUAL(stats.depth, 0);
        CHECK_EQUAL(stats.cancelled, workers == 0 ? 3000 : 3000 - stats.done);
        CHECK_STATUS(mmsb_commands_enqueue(commands, to, many, 10, 0), MMSB_E_INVALID_STATE);
        CHECK_OK(mmsb_commands_destroy(commands));

        commands = new_commands(workers, 4096);
        for (int i = 0; i < 3000; i++) {
            CHECK_OK(mmsb_commands_enqueue(commands, to, many, 10, 0));
        }
        CHECK_OK(mmsb_commands_destroy(commands)); /* at once */
    }
    /* One that nobody executes: what is left can still be cancelled. */
    mmsb_commands_t commands = new_commands(0, 4);
    CHECK_OK(mmsb_commands_enqueue(commands, to, &from, 1, 0));
    CHECK_STATUS(mmsb_commands_close(commands, MMSB_COMMANDS_COMPLETE, 0), MMSB_E_WOULD_BLOCK);
    CHECK_STATUS(mmsb_commands_wait(commands, 0), MMSB_E_WOULD_BLOCK);
    CHECK_OK(mmsb_commands_close(commands, MMSB_COMMANDS_CANCEL, 0));
    CHECK_EQUAL(stats_of(commands).cancelled, 1);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

static void buffers_are_limited_and_end_with_the_library(void) {
    enum { MOST = 1023 };
    static mmsb_commands_t all[MOST];
    mmsb_commands_t more = 0;
    for (int i = 0; i < MOST; i++) {
        all[i] = new_commands(i < 4, 2);
    }
    CHECK_STATUS(mmsb_commands_create(NULL, &more), MMSB_E_LIMIT);
    for (int i = 0; i < MOST; i += 2) {
        CHECK_OK(mmsb_commands_destroy(all[i]));
    }
    CHECK_EQUAL(check_live(MMSB_KIND_COMMANDS), MOST / 2);
    /* One thread in many of them. */
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    for (int i = 1; i < MOST; i += 2) {
        CHECK_OK(mmsb_commands_enqueue(all[i], page, NULL, 0, 0));
    }
    CHECK_OK(mmsb_commands_enqueue(all[501], page, NULL, 0, 0));
    CHECK_EQUAL(stats_of(all[501]).enqueued, 2);
    mmsb_memory_usage_t before, after;
    mmsb_memory_usage_init(&before);
    mmsb_memory_usage_init(&after);
    CHECK_OK(mmsb_memory_usage(&before));
    CHECK_OK(mmsb_shutdown());
    CHECK_OK(mmsb_memory_usage(&after));
    CHECK(after.cache_bytes < before.cache_bytes);
    CHECK_STATUS(mmsb_commands_wait(all[1], 0), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(check_live(MMSB_KIND_COMMANDS), 0);
}

int main(void) {
    folder_make();
    RUN(masked_bytes_are_copied_and_marked);
    RUN(a_command_that_finds_nothing_changes_nothing);
    RUN(the_later_dependency_wins);
    RUN(parents_are_the_default);
    RUN(pages_may_lie_anywhere);
    RUN(commands_of_a_thread_keep_their_order);
    RUN(rings_of_ended_threads_are_used_again);
    RUN(a_full_ring_refuses_or_waits);
    RUN(who_waits_for_space_goes_on);
    RUN(failures_are_counted_and_told);
    RUN(a_context_may_end_before_its_commands);
    RUN(commands_belong_to_the_group_of_their_thread);
    RUN_IN_FOLDER(journals_have_commands);
    RUN(commands_hear_of_the_guard);
    RUN_IN_FOLDER(saves_have_whole_commands);
    RUN(bad_arguments);
    RUN(a_shutdown_completes_or_cancels);
    RUN(buffers_are_limited_and_end_with_the_library);
    folder_end();
    return check_report();
}
