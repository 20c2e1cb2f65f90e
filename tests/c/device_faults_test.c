/* Devices that take their time, and devices that fail: on simulated ones that the test build makes slow or breaks. */
#include "library.h"
#include "test_hooks.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

enum { BLOCK = 4096, OPERATION_MS = 1 };
#define LONGEST_WAIT_NS (UINT64_C(600) * 1000000000) /* that keeps a broken wait from lasting for ever */

typedef struct device {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
    mmsb_block_t block;
    void *address;
} device_t;

static device_t new_device(uint64_t latency_ms) {
    REQUIRE_OK(mmsb_test_slow_devices(latency_ms * 1000000));
    device_t d = {.context = new_simulated_context(2)};
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    options.budget = 1 << 20;
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, &options, &d.runtime));
    REQUIRE_OK(mmsb_stream_create(d.runtime, 0, &d.stream));
    REQUIRE_OK(mmsb_block_allocate(d.stream, BLOCK, 0, 0, &d.block, &d.address));
    REQUIRE_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    return d;
}

static void hold(int32_t whether) {
    REQUIRE_OK(mmsb_test_hold_devices(whether));
}

static int readable(int32_t descriptor, int milliseconds) {
    struct pollfd ready = {.fd = descriptor, .events = POLLIN};
    return poll(&ready, 1, milliseconds);
}

/* Work is undone for as long as the device is held, however long the test takes to look. */
static void queued_work_is_seen_undone_and_done(void) {
    device_t d = new_device(OPERATION_MS);
    CHECK_OK(mmsb_stream_wait(d.stream, 0));
    hold(1);
    CHECK_OK(mmsb_stream_fill(d.stream, d.address, 1, BLOCK));
    CHECK_STATUS(mmsb_stream_wait(d.stream, 0), MMSB_E_WOULD_BLOCK);
    CHECK_STATUS(mmsb_stream_wait(d.stream, 1000), MMSB_E_TIMEOUT);
    hold(0);
    CHECK_OK(mmsb_stream_wait(d.stream, LONGEST_WAIT_NS));
    CHECK_OK(mmsb_stream_wait(d.stream, 0));

    mmsb_ticket_t ticket = 0;
    int32_t done = 7;
    mmsb_status_t code = 0;
    hold(1);
    CHECK_OK(mmsb_stream_fill(d.stream, d.address, 2, BLOCK));
    CHECK_OK(mmsb_stream_record(d.stream, &ticket));
    CHECK_OK(mmsb_ticket_poll(ticket, &done));
    CHECK_EQUAL(done, 0);
    CHECK_OK(mmsb_ticket_status(ticket, &code, NULL, 0));
    CHECK_EQUAL(code, MMSB_E_WOULD_BLOCK);
    CHECK_OK(mmsb_ticket_cancel(ticket));
    CHECK_STATUS(mmsb_ticket_wait(ticket, 0), MMSB_E_WOULD_BLOCK);
    CHECK_STATUS(mmsb_ticket_wait(ticket, 1000), MMSB_E_TIMEOUT);
    int32_t descriptor = -1;
    CHECK_OK(mmsb_ticket_eventfd(ticket, &descriptor));
    CHECK_EQUAL(readable(descriptor, 0), 0);
    hold(0);
    CHECK_EQUAL(readable(descriptor, LONGEST_WAIT_NS / 1000000), 1);
    CHECK_OK(mmsb_ticket_poll(ticket, &done));
    CHECK_EQUAL(done, 1);
    CHECK_OK(mmsb_ticket_destroy(ticket));

    /* Given back undone, it still holds up what was started behind it. */
    uint8_t seen[BLOCK] = {0};
    hold(1);
    CHECK_OK(mmsb_stream_fill(d.stream, d.address, 3, BLOCK));
    CHECK_OK(mmsb_stream_copy(d.stream, seen, d.address, BLOCK));
    CHECK_OK(mmsb_stream_record(d.stream, &ticket));
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.after = &ticket;
    work.after_count = 1;
    mmsb_page_t page = 0;
    mmsb_ticket_t made = 0;
    CHECK_OK(mmsb_page_create_many_start(d.context, 64, 1, NULL, &work, &page, &made));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_STATUS(mmsb_ticket_wait(made, 0), MMSB_E_WOULD_BLOCK);
    hold(0);
    CHECK_OK(mmsb_ticket_wait(made, MMSB_WAIT_FOREVER));
    CHECK(seen[0] == 3 && seen[BLOCK - 1] == 3);
    CHECK_OK(mmsb_ticket_destroy(made));
    mmsb_work_options_init(&work);
    work.stream = d.stream;
    work.timeout_ns = 1000000;
    hold(1);
    CHECK_OK(mmsb_stream_fill(d.stream, d.address, 4, BLOCK));
    CHECK_STATUS(mmsb_page_create_many(d.context, 64, 1, NULL, &work, &page), MMSB_E_TIMEOUT);
    hold(0);
    CHECK_OK(mmsb_context_destroy(d.context));
    REQUIRE_OK(mmsb_test_slow_devices(0));
}

static void a_stream_waits_for_a_ticket_on_the_device(void) {
    device_t d = new_device(OPERATION_MS);
    mmsb_stream_t other = 0;
    REQUIRE_OK(mmsb_stream_create(d.runtime, 0, &other));
    uint8_t seen[BLOCK] = {0};
    mmsb_ticket_t ticket = 0;
    hold(1);
    CHECK_OK(mmsb_stream_fill(d.stream, d.address, 5, BLOCK));
    CHECK_OK(mmsb_stream_record(d.stream, &ticket));
    CHECK_OK(mmsb_stream_after(other, ticket));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_stream_copy(other, seen, d.address, BLOCK));
    hold(0);
    CHECK_OK(mmsb_stream_wait(other, MMSB_WAIT_FOREVER));
    CHECK(seen[0] == 5 && seen[BLOCK - 1] == 5);

    /* Frees wait, too, and are counted until the device has come past. */
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    hold(1);
    CHECK_OK(mmsb_stream_fill(d.stream, d.address, 6, BLOCK));
    CHECK_OK(mmsb_block_free(d.block, 0, NULL));
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
    CHECK(stats.pending == BLOCK && stats.charged == BLOCK);
    hold(0);
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
    CHECK(stats.pending == 0 && stats.charged == 0);
    CHECK_OK(mmsb_context_destroy(d.context));
    REQUIRE_OK(mmsb_test_slow_devices(0));
}

static void *let_go(void *nothing) {
    (void)nothing;
    usleep(20000);
    hold(0);
    return NULL;
}

/* What is pending is not missing, unless the device does not go on: it may wait for the program. */
static void memory_that_is_pending_is_waited_for(void) {
    static const struct {
        uint64_t wait_ns;
        const char *pool; /* which is to have more than the device, else the budget refuses */
        uint64_t bytes;
    } cases[] = {
        {0, NULL, 600 << 10},          {1000000, NULL, 600 << 10},          {LONGEST_WAIT_NS, NULL, 600 << 10},
        {0, "source:plain", 40 << 20}, {1000000, "source:plain", 40 << 20}, {MMSB_WAIT_FOREVER, "source:plain", 40 << 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REQUIRE_OK(mmsb_test_slow_devices(1000000));
        mmsb_context_t context = new_simulated_context(1);
        mmsb_runtime_options_t options;
        mmsb_runtime_options_init(&options);
        options.budget = cases[i].pool ? 0 : 1 << 20;
        options.pool = cases[i].pool;
        options.memory_wait_ns = cases[i].wait_ns;
        const mmsb_status_t refused = cases[i].pool ? MMSB_E_OUT_OF_MEMORY : MMSB_E_LIMIT;
        mmsb_runtime_t runtime = 0;
        mmsb_stream_t streams[2] = {0};
        REQUIRE_OK(mmsb_runtime_create(context, 0, &options, &runtime));
        for (int s = 0; s < 2; s++)
            REQUIRE_OK(mmsb_stream_create(runtime, 0, &streams[s]));
        mmsb_block_t block = 0;
        void *address = NULL;
        REQUIRE_OK(mmsb_block_allocate(streams[0], cases[i].bytes, 0, 0, &block, &address));
        hold(1);
        CHECK_OK(mmsb_stream_fill(streams[0], address, 1, cases[i].bytes));
        CHECK_OK(mmsb_block_free(block, 0, NULL));
        const uint64_t wanted = cases[i].bytes + (cases[i].bytes >> 4);
        pthread_t thread;
        if (cases[i].wait_ns > 1000000) {
            REQUIRE(pthread_create(&thread, NULL, let_go, NULL) == 0);
            CHECK_OK(mmsb_block_allocate(streams[1], wanted, 0, 0, &block, &address));
            pthread_join(thread, NULL);
            CHECK_OK(mmsb_block_free(block, 0, NULL));
        } else {
            CHECK_STATUS(mmsb_block_allocate(streams[1], wanted, 0, 0, &block, &address), refused);
            CHECK((strstr(mmsb_last_error(), "the device has come past nothing of what is pending in 1ms") != NULL) ==
                  (cases[i].wait_ns > 0));
            mmsb_reservation_t reservation = 0;
            if (!cases[i].pool)
                CHECK_STATUS(mmsb_reservation_create(runtime, wanted, &reservation), MMSB_E_LIMIT);
            hold(0);
        }
        mmsb_memory_stat_t stats[200];
        size_t count = 0;
        uint64_t waited = 99;
        CHECK_OK(mmsb_runtime_memory_stats(runtime, stats, 200, &count));
        for (size_t s = 0; s < count; s++)
            if (strcmp(stats[s].name, "num_sync_all_streams") == 0)
                waited = stats[s].value;
        CHECK_EQUAL(waited, cases[i].wait_ns == 0 ? 0 : cases[i].wait_ns == 1000000 && !cases[i].pool ? 2 : 1);
        CHECK_OK(mmsb_context_destroy(context));
    }
    REQUIRE_OK(mmsb_test_slow_devices(0));
}

static void failed_calls_change_nothing(void) {
    device_t d = new_device(0);
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    mmsb_block_t block = 42;
    void *address = NULL;
    REQUIRE_OK(mmsb_test_device_fault(d.context, 0, MMSB_TEST_ALLOCATE, 0, MMSB_TEST_FAIL));
    CHECK_STATUS(mmsb_block_allocate(d.stream, 100, 0, 0, &block, &address), MMSB_E_OUT_OF_MEMORY);
    CHECK_EQUAL(block, 42);
    CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
    CHECK(stats.charged == BLOCK && stats.live == BLOCK);
    REQUIRE_OK(mmsb_test_device_fault(d.context, 0, MMSB_TEST_COPY, 0, MMSB_TEST_FAIL));
    CHECK_STATUS(mmsb_stream_copy(d.stream, &stats, d.address, 1), MMSB_E_DEVICE);
    REQUIRE_OK(mmsb_test_device_fault(d.context, 0, MMSB_TEST_RECORD, 0, MMSB_TEST_FAIL));
    mmsb_ticket_t ticket = 42;
    CHECK_STATUS(mmsb_stream_record(d.stream, &ticket), MMSB_E_DEVICE);
    CHECK_EQUAL(ticket, 42);
    REQUIRE_OK(mmsb_test_device_fault(d.context, 0, MMSB_TEST_FREE, 0, MMSB_TEST_FAIL));
    CHECK_STATUS(mmsb_block_free(d.block, 0, NULL), MMSB_E_DEVICE);
    CHECK_OK(mmsb_block_free(d.block, 0, NULL));
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void a_lost_device_says_so_and_is_given_back(void) {
    for (int32_t call = MMSB_TEST_ALLOCATE; call <= MMSB_TEST_FREE; call++) {
        device_t d = new_device(0);
        mmsb_stream_t other = 0;
        mmsb_reservation_t reservation = 0;
        mmsb_use_t open = 0;
        mmsb_ticket_t before = 0;
        REQUIRE_OK(mmsb_stream_create(d.runtime, 0, &other));
        REQUIRE_OK(mmsb_reservation_create(d.runtime, 1000, &reservation));
        REQUIRE_OK(mmsb_stream_record(d.stream, &before));
        const mmsb_access_t access = {.block = d.block, .access = MMSB_ACCESS_WRITE};
        REQUIRE_OK(mmsb_use_begin(d.stream, &access, 1, &open, NULL));
        REQUIRE_OK(mmsb_stream_fill(d.stream, d.address, 1, BLOCK));
        REQUIRE_OK(mmsb_test_device_fault(d.context, 0, call, 0, MMSB_TEST_LOSE));
        mmsb_block_t block = 0;
        mmsb_ticket_t ticket = 0;
        mmsb_use_t use = 0;
        void *address;
        /* In the midst of work: one of these meets it first, all after it are told. */
        mmsb_block_allocate(d.stream, 100, 0, 0, &block, &address);
        mmsb_stream_copy(d.stream, &use, d.address, 8);
        mmsb_stream_fill(d.stream, d.address, 2, BLOCK);
        CHECK_OK(mmsb_use_end(open));
        mmsb_stream_record(d.stream, &ticket);
        if (mmsb_use_begin(other, &access, 1, &use, NULL) == MMSB_OK) {
            CHECK_OK(mmsb_use_end(use));
        }
        CHECK_OK(mmsb_block_free(d.block, 0, NULL)); /* with the device its memory is gone, too */
        CHECK_STATUS(mmsb_block_allocate(d.stream, 100, 0, 0, &block, &address), MMSB_E_DEVICE_LOST);
        CHECK_STATUS(mmsb_stream_copy(d.stream, &use, d.address, 8), MMSB_E_DEVICE_LOST);
        CHECK_STATUS(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER), MMSB_E_DEVICE_LOST);
        CHECK_STATUS(mmsb_stream_wait(d.stream, 0), MMSB_E_DEVICE_LOST);
        if (ticket != 0) {
            CHECK_STATUS(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_E_DEVICE_LOST);
            CHECK_OK(mmsb_ticket_destroy(ticket));
        }
        CHECK_OK(mmsb_ticket_destroy(before));
        CHECK_OK(mmsb_reservation_destroy(reservation, NULL));
        CHECK_OK(mmsb_block_free(block, 0, NULL));
        CHECK_OK(mmsb_runtime_reap(d.runtime));
        /* What was charged is what a recount gives: nothing. The other device works. */
        mmsb_runtime_stats_t stats;
        mmsb_runtime_stats_init(&stats);
        CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
        CHECK(stats.outstanding == 0 && stats.charged == 0);
        mmsb_runtime_t far = 0;
        CHECK_OK(mmsb_runtime_shared(d.context, 1, &far));
        CHECK_OK(mmsb_stream_create(far, 0, &other));
        CHECK_OK(mmsb_block_allocate(other, 100, 0, 0, &block, &address));
        CHECK_OK(mmsb_context_destroy(d.context));
    }
}

static mmsb_context_t context_with(int32_t fallback) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = MMSB_SIMULATE_ALWAYS;
    options.simulated_memory = 64 << 20;
    options.fallback = fallback;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    return context;
}

/* What a fallback leaves behind: the device and the location that pages have which were in two places. */
static void pages_of_a_lost_device_go_on(void) {
    static const struct {
        int32_t fallback, location, device, simulated;
    } cases[] = {
        {MMSB_FALLBACK_ERROR, MMSB_LOCATION_GPU, 0, 1},
        {MMSB_FALLBACK_HOST, MMSB_LOCATION_CPU, 0, 0},
        {MMSB_FALLBACK_SIMULATE, MMSB_LOCATION_GPU, MMSB_DEVICE_STAND_IN, 1},
    };
    REQUIRE_OK(mmsb_test_slow_devices(0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mmsb_context_t context = context_with(cases[i].fallback);
        mmsb_page_t kept = new_page(context, 5000), far = new_page(context, 300);
        CHECK_OK(mmsb_page_write(kept, 0, "kept", 4));
        CHECK_OK(mmsb_page_sync(kept, MMSB_SYNC_TO_DEVICE, 0));
        CHECK_OK(mmsb_page_migrate(far, MMSB_LOCATION_GPU, 0));
        size_t count = 7;
        CHECK_OK(mmsb_context_lost_pages(context, NULL, 0, &count));
        CHECK_EQUAL(count, 0);
        REQUIRE_OK(mmsb_test_device_fault(context, 0, MMSB_TEST_COPY, 0, MMSB_TEST_LOSE));
        CHECK_STATUS(mmsb_page_write(far, 0, "x", 1), MMSB_E_DEVICE_LOST);
        mmsb_lost_page_t lost[2];
        const size_t expected = cases[i].fallback == MMSB_FALLBACK_ERROR ? 2 : 1;
        CHECK_STATUS(mmsb_context_lost_pages(context, lost, 1, &count), expected > 1 ? MMSB_E_OUT_OF_RANGE : MMSB_OK);
        CHECK_EQUAL(count, expected);
        CHECK_OK(mmsb_context_lost_pages(context, lost, 2, &count));
        REQUIRE(count == expected);
        const mmsb_lost_page_t *l = &lost[expected - 1];
        CHECK(l->page == far && l->id == mmsb_page_id(far) && l->size == 300 && l->lost == 300 && l->device == 0);
        mmsb_page_info_t info = page_info(kept);
        CHECK(info.location == cases[i].location && info.device == cases[i].device && info.simulated == cases[i].simulated);
        char got[4];
        CHECK_OK(mmsb_page_read(kept, 0, got, 4));
        CHECK(memcmp(got, "kept", 4) == 0);
        CHECK_STATUS(mmsb_page_read(far, 0, got, 1), MMSB_E_DEVICE_LOST);
        CHECK_OK(mmsb_page_destroy(far));
        CHECK_STATUS(mmsb_page_sync(kept, MMSB_SYNC_TO_DEVICE, 0), MMSB_OK);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

int main(void) {
    RUN(queued_work_is_seen_undone_and_done);
    RUN(a_stream_waits_for_a_ticket_on_the_device);
    RUN(memory_that_is_pending_is_waited_for);
    RUN(failed_calls_change_nothing);
    RUN(a_lost_device_says_so_and_is_given_back);
    RUN(pages_of_a_lost_device_go_on);
    return check_report();
}
