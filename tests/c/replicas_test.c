/* Replicas: copies of pages in memory of devices on which they do not lie, which serve work that reads. On simulated devices. */
#include "folder.h"
#include "test_hooks.h"

enum { SIZE = 5000 };

typedef struct world {
    mmsb_context_t context;
    mmsb_runtime_t runtime; /* the shared one of device 1 */
    mmsb_stream_t stream;
} world_t;

static world_t new_world(int32_t fallback) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = MMSB_SIMULATE_ALWAYS;
    options.simulated_devices = 2;
    options.simulated_memory = 64 << 20;
    options.fallback = fallback;
    world_t w = {0};
    REQUIRE_OK(mmsb_context_create(&options, &w.context));
    REQUIRE_OK(mmsb_runtime_shared(w.context, 1, &w.runtime));
    REQUIRE_OK(mmsb_stream_create(w.runtime, 0, &w.stream));
    return w;
}

static void end_world(const world_t *w) {
    CHECK_OK(mmsb_test_check(w->context));
    CHECK_OK(mmsb_test_violations(w->context));
    CHECK_OK(mmsb_context_destroy(w->context));
}

static mmsb_page_t page_at(const world_t *w, mmsb_location_t location, int32_t device, uint64_t size) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = location;
    options.device = device;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(w->context, size, &options, &page));
    return page;
}

/* Whether a page has a replica on device 1. */
static int replicated(mmsb_page_t page) {
    mmsb_page_copy_t copies[4];
    size_t count = 0;
    CHECK_OK(mmsb_page_copies(page, copies, 4, &count));
    for (size_t i = 1; i < count; i++) {
        if (copies[i].location == MMSB_LOCATION_GPU) {
            CHECK(copies[i].device == 1 && copies[i].newer == 0);
            return 1;
        }
    }
    return 0;
}

static mmsb_status_t begin(const world_t *w, mmsb_page_t page, int32_t access, mmsb_use_t *use) {
    const mmsb_access_t accesses[] = {{.block = page, .access = access}};
    return mmsb_use_begin(w->stream, accesses, 1, use, NULL);
}

/* The first byte that work on device 1 reads of a page. */
static char read_there(const world_t *w, mmsb_page_t page) {
    mmsb_use_t use = 0;
    void *from = NULL, *to = NULL;
    mmsb_page_t pinned = page_at(w, MMSB_LOCATION_PINNED, 1, 64);
    char byte = 0;
    CHECK_OK(begin(w, page, MMSB_ACCESS_READ, &use));
    CHECK_OK(mmsb_use_address(use, page, &from));
    to = mmsb_page_address(pinned);
    CHECK_OK(mmsb_stream_copy(w->stream, to, from, 1));
    CHECK_OK(mmsb_use_end(use));
    CHECK_OK(mmsb_stream_wait(w->stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_page_read(pinned, 0, &byte, 1));
    CHECK_OK(mmsb_page_destroy(pinned));
    return byte;
}

static void work_reads_replicas(void) {
    static const mmsb_location_t locations[] = {MMSB_LOCATION_CPU, MMSB_LOCATION_GPU, MMSB_LOCATION_PINNED,
                                                MMSB_LOCATION_UNIFIED};
    world_t w = new_world(MMSB_FALLBACK_ERROR);
    for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++) {
        mmsb_page_t page = page_at(&w, locations[i], 0, SIZE), found[8];
        mmsb_use_t use = 0;
        size_t count = 0;
        uint64_t cursor = 0;
        CHECK_OK(mmsb_page_write(page, 0, "a", 1));
        CHECK(begin(&w, page, MMSB_ACCESS_READ, &use) != MMSB_OK);
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK(replicated(page));
        CHECK_EQUAL(read_there(&w, page), 'a');
        CHECK(begin(&w, page, MMSB_ACCESS_WRITE, &use) != MMSB_OK);
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK_OK(mmsb_context_device_pages(w.context, 1, &cursor, found, 8, &count));
        CHECK(count == 1 && found[0] == page);
        mmsb_sync_stats_t stats;
        mmsb_sync_stats_init(&stats);
        CHECK_OK(mmsb_context_sync_stats(w.context, &stats));
        CHECK(stats.replicas == 1 && stats.replica_bytes == SIZE && stats.pages == 0);
        CHECK_OK(mmsb_page_write(page, 0, "b", 1));
        CHECK(begin(&w, page, MMSB_ACCESS_READ, &use) != MMSB_OK);
        CHECK(!replicated(page));
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK_EQUAL(read_there(&w, page), 'b');
        CHECK_OK(mmsb_page_replica_drop(page, 1));
        CHECK_OK(mmsb_page_replica_drop(page, 1));
        CHECK(!replicated(page));
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK_OK(mmsb_page_destroy(page));
    }
    end_world(&w);
}

/* An open use reads on what the page was; the end of the context ends it, and the replica. */
static void open_uses_keep_their_bytes(void) {
    world_t w = new_world(MMSB_FALLBACK_ERROR);
    mmsb_page_t page = page_at(&w, MMSB_LOCATION_GPU, 0, SIZE), target = page_at(&w, MMSB_LOCATION_GPU, 1, SIZE);
    CHECK_OK(mmsb_page_write(page, 0, "a", 1));
    CHECK_OK(mmsb_page_replicate(page, 1));
    const mmsb_access_t accesses[] = {{.block = page, .access = MMSB_ACCESS_READ},
                                      {.block = target, .access = MMSB_ACCESS_WRITE}};
    mmsb_use_t use = 0;
    void *from = NULL, *to = NULL, *named = NULL;
    mmsb_block_t block = 0;
    CHECK_OK(mmsb_use_begin(w.stream, accesses, 2, &use, NULL));
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_write(page, 0, "b", 1));
    CHECK(!replicated(page));
    CHECK_OK(mmsb_use_address(use, page, &from));
    CHECK_OK(mmsb_use_address(use, target, &to));
    CHECK_OK(mmsb_page_block(target, &block));
    CHECK_OK(mmsb_use_address(use, block, &named));
    CHECK(named == to && from != to);
    CHECK_OK(mmsb_stream_copy(w.stream, to, from, SIZE));
    CHECK_OK(mmsb_use_end(use));
    char byte = 0;
    CHECK_OK(mmsb_page_read(target, 0, &byte, 1));
    CHECK_EQUAL(byte, 'a');
    CHECK_OK(mmsb_page_read(page, 0, &byte, 1));
    CHECK_EQUAL(byte, 'b');
    CHECK_OK(mmsb_page_replicate(page, 1));
    CHECK_OK(begin(&w, page, MMSB_ACCESS_READ, &use));
    end_world(&w);
    CHECK_STATUS(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
}

static void bad_input(void) {
    world_t w = new_world(MMSB_FALLBACK_ERROR);
    mmsb_page_t page = page_at(&w, MMSB_LOCATION_CPU, 0, SIZE), on_disk, exposed = page_at(&w, MMSB_LOCATION_CPU, 0, SIZE);
    mmsb_use_t use = 0;
    void *address = NULL;
    on_disk = page_at(&w, MMSB_LOCATION_DISK, 0, SIZE);
    CHECK_STATUS(mmsb_page_replicate(page, -1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_replicate(page, 2), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_page_replica_drop(page, -1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_replica_drop(page, 2), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_page_replicate(on_disk, 1), MMSB_E_UNSUPPORTED);
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL));
    CHECK_STATUS(mmsb_page_replicate(page, 1), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, NULL));
    CHECK_OK(mmsb_page_replicate(page, 1)); /* who reads does not mind */
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
    CHECK(mmsb_page_address(exposed) != NULL);
    CHECK_STATUS(mmsb_page_replicate(exposed, 1), MMSB_E_INVALID_STATE);
    mmsb_page_t large = page_at(&w, MMSB_LOCATION_CPU, 0, 80 << 20);
    CHECK_STATUS(mmsb_page_replicate(large, 1), MMSB_E_OUT_OF_MEMORY);
    CHECK_OK(mmsb_device_budget(w.context, 1, 4 << 20));
    mmsb_page_t third = page_at(&w, MMSB_LOCATION_CPU, 0, 5 << 20);
    CHECK_STATUS(mmsb_page_replicate(third, 1), MMSB_E_LIMIT);
    CHECK(!replicated(third) && !replicated(large));
    CHECK_OK(mmsb_device_budget(w.context, 1, 0));
    CHECK_OK(mmsb_test_device_fault(w.context, 1, MMSB_TEST_COPY, 0, MMSB_TEST_FAIL));
    CHECK_STATUS(mmsb_page_replicate(third, 1), MMSB_E_DEVICE);
    CHECK(!replicated(third));
    CHECK_OK(mmsb_page_replicate(third, 1));

    CHECK_STATUS(mmsb_use_address(use, page, &address), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_use_record(w.stream, 0, &use));
    CHECK_OK(mmsb_use_add(use, third, MMSB_ACCESS_READ));
    CHECK_STATUS(mmsb_use_address(use, third, &address), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_use_begin_recorded(use));
    CHECK_STATUS(mmsb_use_address(use, third, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_use_address(use, page, &address), MMSB_E_NOT_FOUND);
    CHECK_OK(mmsb_use_address(use, third, &address));
    CHECK_OK(mmsb_use_end(use));
    CHECK_STATUS(mmsb_use_address(use, third, &address), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_STATUS(mmsb_page_replicate(page, 1), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_replica_drop(page, 1), MMSB_E_STALE_HANDLE);
    end_world(&w);
}

/* A device that lacks memory has that of replicas, whoever asks. */
static void replicas_give_way(void) {
    world_t w = new_world(MMSB_FALLBACK_ERROR);
    mmsb_page_t pages[5];
    for (int i = 0; i < 5; i++) {
        pages[i] = page_at(&w, MMSB_LOCATION_CPU, 0, 10 << 20);
        CHECK_OK(mmsb_page_replicate(pages[i], 1));
    }
    (void)read_there(&w, pages[0]);
    mmsb_page_t page = page_at(&w, MMSB_LOCATION_GPU, 1, 15 << 20);
    CHECK(replicated(pages[0]) && !replicated(pages[1]) && replicated(pages[4]));
    CHECK_OK(mmsb_page_destroy(page));
    mmsb_block_t block = 0;
    void *address = NULL;
    mmsb_runtime_t own = 0;
    mmsb_stream_t stream = 0;
    CHECK_OK(mmsb_runtime_create(w.context, 1, NULL, &own));
    CHECK_OK(mmsb_stream_create(own, 0, &stream));
    CHECK_OK(mmsb_block_allocate(stream, 50 << 20, 0, 0, &block, &address));
    CHECK(!replicated(pages[2]) && !replicated(pages[3]));
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    mmsb_access_t access = {pages[4], MMSB_ACCESS_READ, 0}; /* a stream of any runtime of the device finds the replica */
    mmsb_use_t use = 0;
    CHECK_OK(mmsb_page_replicate(pages[4], 1));
    CHECK_OK(mmsb_use_begin(stream, &access, 1, &use, NULL));
    CHECK_OK(mmsb_use_address(use, pages[4], &address));
    CHECK_OK(mmsb_use_end(use));
    CHECK_OK(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER));
    end_world(&w);
}

/* Loses device 0 in a call that meets it. */
static void lose(const world_t *w) {
    mmsb_page_t victim = page_at(w, MMSB_LOCATION_GPU, 0, 100);
    CHECK_OK(mmsb_test_device_fault(w->context, 0, MMSB_TEST_COPY, 0, MMSB_TEST_LOSE));
    CHECK_STATUS(mmsb_page_write(victim, 0, "x", 1), MMSB_E_DEVICE_LOST);
    CHECK_OK(mmsb_page_destroy(victim));
}

static void lost_devices(void) {
    static const int32_t fallbacks[] = {MMSB_FALLBACK_ERROR, MMSB_FALLBACK_HOST};
    for (int i = 0; i < 2; i++) {
        world_t w = new_world(fallbacks[i]);
        mmsb_page_t page = page_at(&w, MMSB_LOCATION_GPU, 0, SIZE), alone = page_at(&w, MMSB_LOCATION_GPU, 0, SIZE);
        mmsb_page_t host = page_at(&w, MMSB_LOCATION_CPU, 0, SIZE);
        CHECK_OK(mmsb_page_write(page, 7, "saved", 5));
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK_OK(mmsb_page_replicate(host, 0));
        lose(&w);
        mmsb_lost_page_t lost[4];
        size_t count = 0;
        CHECK_OK(mmsb_context_lost_pages(w.context, lost, 4, &count));
        for (size_t n = 0; n < count; n++) {
            CHECK_EQUAL(lost[n].lost, lost[n].page == alone ? SIZE : 0);
        }
        CHECK_EQUAL(count, fallbacks[i] == MMSB_FALLBACK_ERROR ? 2 : 1);
        CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
        char bytes[5];
        CHECK_OK(mmsb_page_read(page, 7, bytes, 5));
        CHECK(memcmp(bytes, "saved", 5) == 0);
        CHECK(!replicated(host));
        CHECK_STATUS(mmsb_page_replicate(host, 0), fallbacks[i] == MMSB_FALLBACK_ERROR ? MMSB_E_DEVICE_LOST : MMSB_OK);
        CHECK(!replicated(host)); /* the fallback has it on the host */
        CHECK_OK(mmsb_page_destroy(alone));
        CHECK_OK(mmsb_context_destroy(w.context));
    }
}

/* A rollback brings back bytes, and no replica of others; a save leaves replicas alone, a load none. */
static void groups_and_saves(void) {
    world_t w = new_world(MMSB_FALLBACK_ERROR);
    for (int i = 0; i < 2; i++) {
        mmsb_page_t page = page_at(&w, i == 0 ? MMSB_LOCATION_CPU : MMSB_LOCATION_GPU, 0, SIZE);
        CHECK_OK(mmsb_page_write(page, 0, "a", 1));
        CHECK_OK(mmsb_page_replicate(page, 1));
        for (int round = 0; round < 3; round++) {
            CHECK_OK(mmsb_group_begin(w.context));
            CHECK_OK(mmsb_page_write(page, 0, round == 0 ? "x" : "y", 1));
            CHECK_OK(mmsb_page_replicate(page, 1));
            CHECK_EQUAL(read_there(&w, page), round == 0 ? 'x' : 'y');
            CHECK_OK(mmsb_group_rollback(w.context));
            CHECK(!replicated(page));
            if (round == 1) {
                CHECK_OK(mmsb_page_write(page, 0, "a", 1));
            }
        }
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK_EQUAL(read_there(&w, page), 'a');
        CHECK_OK(mmsb_snapshot_save(w.context, at("saved"), NULL));
        CHECK(replicated(page));
        uint64_t id = mmsb_page_id(page);
        CHECK_OK(mmsb_snapshot_load(w.context, at("saved"), NULL));
        CHECK_OK(mmsb_page_lookup(w.context, id, &page));
        CHECK(!replicated(page));
        CHECK_OK(mmsb_page_replicate(page, 1));
        CHECK_EQUAL(read_there(&w, page), 'a');
    }
    end_world(&w);
}

int main(void) {
    folder_make();
    RUN(work_reads_replicas);
    RUN(open_uses_keep_their_bytes);
    RUN(bad_input);
    RUN(replicas_give_way);
    RUN(lost_devices);
    RUN_IN_FOLDER(groups_and_saves);
    folder_end();
    return check_report();
}
