/* Devices and the stream-ordered runtime, on simulated devices: what every function does, and what bad input gets. */
#include "library.h"
#include "folder.h"

#include <poll.h>

enum { BLOCK = 4096 };

typedef struct device {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
} device_t;

static mmsb_runtime_options_t runtime_options(void) {
    mmsb_runtime_options_t options;
    memset(&options, 0xAA, sizeof options);
    mmsb_runtime_options_init(&options);
    return options;
}

static device_t new_device(const mmsb_runtime_options_t *options) {
    device_t d = {.context = new_simulated_context(2)};
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, options, &d.runtime));
    REQUIRE_OK(mmsb_stream_create(d.runtime, 0, &d.stream));
    return d;
}

static mmsb_stream_t new_stream(mmsb_runtime_t runtime) {
    mmsb_stream_t stream = 0;
    REQUIRE_OK(mmsb_stream_create(runtime, 0, &stream));
    return stream;
}

static mmsb_block_t new_block(mmsb_stream_t stream, uint64_t bytes, void **address) {
    mmsb_block_t block = 0;
    void *unused;
    REQUIRE_OK(mmsb_block_allocate(stream, bytes, 0, 0, &block, address ? address : &unused));
    return block;
}

static mmsb_use_t begin(mmsb_stream_t stream, mmsb_block_t block, int32_t access) {
    const mmsb_access_t accesses[] = {{.block = block, .access = access}};
    mmsb_use_t use = 0;
    REQUIRE_OK(mmsb_use_begin(stream, accesses, 1, &use, NULL));
    return use;
}

static mmsb_status_t try_begin(mmsb_stream_t stream, mmsb_block_t block, int32_t access) {
    const mmsb_access_t accesses[] = {{.block = block, .access = access}};
    mmsb_use_t use = 42;
    mmsb_status_t status = mmsb_use_begin(stream, accesses, 1, &use, NULL);
    CHECK_EQUAL(use, 42);
    return status;
}

static mmsb_runtime_stats_t stats_of(mmsb_runtime_t runtime) {
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    REQUIRE_OK(mmsb_runtime_stats(runtime, &stats));
    CHECK_EQUAL(stats.outstanding, stats.live + stats.pending);
    return stats;
}

static int done(mmsb_ticket_t ticket) {
    int32_t result = 7;
    CHECK_OK(mmsb_ticket_poll(ticket, &result));
    return result;
}

/* Where there is no GPU nothing pretends to be one. */
static void no_device_is_never_simulated_silently(void) {
    size_t count = 0;
    REQUIRE_OK(mmsb_capabilities(NULL, 0, &count));
    mmsb_capability_t *records = calloc(count, sizeof *records);
    REQUIRE_OK(mmsb_capabilities(records, count, &count));
    int32_t available = -1;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(records[i].name, "cuda") == 0) {
            available = records[i].available;
            CHECK(records[i].reason[0] != 0);
        }
    }
    free(records);
    mmsb_context_t context = new_context();
    mmsb_device_info_t device;
    mmsb_status_t status = mmsb_device_list(context, &device, 1, &count);
    if (available == 1) {
        CHECK(status == MMSB_OK || status == MMSB_E_OUT_OF_RANGE);
        CHECK(count >= 1 && (status != MMSB_OK || device.simulated == 0));
    } else {
        CHECK_EQUAL(available, 0);
        CHECK(status == MMSB_E_NO_DEVICE || status == MMSB_E_DEVICE);
        mmsb_runtime_t runtime = 42;
        CHECK_STATUS(mmsb_runtime_shared(context, 0, &runtime), status);
        CHECK_STATUS(mmsb_runtime_create(context, 0, NULL, &runtime), status);
        CHECK_EQUAL(runtime, 42);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void devices_are_listed(void) {
    mmsb_context_t context = new_simulated_context(3);
    size_t count = 0;
    CHECK_OK(mmsb_device_list(context, NULL, 0, &count));
    CHECK_EQUAL(count, 3);
    mmsb_device_info_t devices[4];
    memset(devices, 0xAA, sizeof devices);
    count = 0;
    CHECK_STATUS(mmsb_device_list(context, devices, 2, &count), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(count, 3);
    CHECK_EQUAL(devices[0].ordinal, (int32_t)0xAAAAAAAA);
    CHECK_OK(mmsb_device_list(context, devices, 4, &count));
    CHECK_EQUAL(count, 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(devices[i].ordinal, i);
        CHECK_EQUAL(devices[i].simulated, 1);
        CHECK(strncmp(devices[i].name, "simulated device ", 17) == 0);
        CHECK_EQUAL(devices[i].pci[0], 0);
        CHECK(i == 0 || memcmp(devices[i].uuid, devices[i - 1].uuid, 16) != 0);
        CHECK_EQUAL(devices[i].bytes, 64 << 20);
        CHECK_EQUAL(devices[i].free_bytes, 64 << 20);
        CHECK(devices[i].granularity > 0 && devices[i].major > 0 && devices[i].multiprocessors > 0);
        CHECK_EQUAL(devices[i].numa_node, -1);
        CHECK(devices[i].ordered_memory == 1 && devices[i].managed_memory == 1 && devices[i].managed_hints == 1);
        CHECK_EQUAL(devices[i].reserved[0] | devices[i].reserved[2], 0);
    }
    CHECK_STATUS(mmsb_device_list(context, NULL, 4, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_device_list(context, devices, 4, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

static void runtimes_are_shared_or_own(void) {
    mmsb_context_t context = new_simulated_context(2);
    mmsb_runtime_t shared = 0;
    mmsb_runtime_t again = 0;
    mmsb_runtime_t other = 0;
    mmsb_runtime_t own = 0;
    CHECK_OK(mmsb_runtime_shared(context, 0, &shared));
    CHECK_OK(mmsb_runtime_shared(context, 0, &again));
    CHECK_EQUAL(shared, again);
    CHECK_OK(mmsb_runtime_shared(context, 1, &other));
    CHECK_OK(mmsb_runtime_create(context, 0, NULL, &own));
    CHECK(shared != other && shared != own);
    CHECK_STATUS(mmsb_runtime_destroy(shared), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_runtime_destroy(own));
    CHECK_STATUS(mmsb_runtime_destroy(own), MMSB_E_STALE_HANDLE);
    const int32_t missing[] = {2, -1, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        own = 42;
        CHECK_STATUS(mmsb_runtime_shared(context, missing[i], &own), MMSB_E_NO_DEVICE);
        CHECK_STATUS(mmsb_runtime_create(context, missing[i], NULL, &own), MMSB_E_NO_DEVICE);
        CHECK_EQUAL(own, 42);
    }
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_STATUS(mmsb_runtime_reap(shared), MMSB_E_STALE_HANDLE);
}

static void options_are_checked(void) {
    mmsb_context_t context = new_simulated_context(1);
    mmsb_runtime_t runtime = 42;
    mmsb_runtime_options_t options = runtime_options();
    CHECK(options.streams == 64 && options.budget == 0 && options.ledger == NULL && options.log_events == 0);
    CHECK(options.guard_every == 0 && options.guard_quarantine == 0 && options.refused == NULL && options.refused_attempts == 8);
    CHECK_EQUAL(options.memory_wait_ns, 10000000000);
#define REFUSED(change, code) \
    do { \
        options = runtime_options(); \
        change; \
        CHECK_STATUS(mmsb_runtime_create(context, 0, &options, &runtime), code); \
    } while (0)
    REFUSED(options.struct_size--, MMSB_E_STRUCT_VERSION);
    REFUSED(options.reserved[1] = 1, MMSB_E_STRUCT_VERSION);
    REFUSED(options.pool = "limit_mb:1,max_split_size_mb", MMSB_E_INVALID_ARGUMENT);
    CHECK(strstr(mmsb_last_error(), "position 11") != NULL);
    REFUSED(options.pool = "no_such_option:1", MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.pool = "source:tape", MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.pool = "slabs:4", MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.streams = 0, MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.log_events = (1 << 24) + 1, MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.guard_quarantine = 1, MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.ledger = "", MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.ledger = "/tmp/no-such-ledger", MMSB_E_INVALID_ARGUMENT);
    REFUSED((options.ledger = "/dev/null/ledger", options.budget = 10), MMSB_E_IO);
    CHECK_STATUS(mmsb_runtime_create(context, 0, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_runtime_shared(context, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(runtime, 42);
    CHECK_OK(mmsb_context_destroy(context));
}

/* A block that was freed on the stream comes again: the same memory, another handle, and all counters as if it was new. */
static void blocks_come_again(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.pool = "";
    device_t d = new_device(&options);
    mmsb_tag_t tag = 0;
    CHECK_OK(mmsb_tag_of("comes again", &tag));
    mmsb_block_t block = 0;
    void *first = NULL;
    CHECK_OK(mmsb_block_allocate(d.stream, 4096, 0, 0, &block, &first));
    enum { TIMES = 1000 };
    for (int i = 0; i < TIMES; i++) {
        mmsb_block_t stale = block;
        int32_t deferred = 7;
        CHECK_OK(mmsb_block_free(block, 0, &deferred));
        CHECK_EQUAL(deferred, 0);
        CHECK_STATUS(mmsb_block_free(stale, 0, NULL), MMSB_E_STALE_HANDLE);
        void *address = NULL;
        CHECK_OK(mmsb_block_allocate(d.stream, 4000 + i % 97, i % 2 ? tag : 0, 0, &block, &address));
        CHECK(address == first && block != stale);
        mmsb_block_info_t info;
        mmsb_block_info_init(&info);
        CHECK_OK(mmsb_block_info(block, &info));
        CHECK(info.address == first && info.bytes == 4000u + (unsigned)i % 97 && info.stream == d.stream);
        CHECK_EQUAL(info.tag, i % 2 ? tag : 0);
        CHECK_STATUS(mmsb_block_info(stale, &info), MMSB_E_STALE_HANDLE);
    }
    CHECK_STATUS(mmsb_block_allocate(d.stream, 4096, 1u << 20, 0, &block, &first), MMSB_E_INVALID_ARGUMENT);
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
    CHECK(stats.allocations == TIMES + 1 && stats.frees == TIMES && stats.blocks == 1 && stats.peak == 4096);
    CHECK(stats.live == 4000 + (TIMES - 1) % 97 && stats.pending == 0 && stats.pool_held == 4096);
    mmsb_tag_stats_t of_tag;
    CHECK_OK(mmsb_runtime_tag_stats(d.runtime, tag, &of_tag));
    CHECK(of_tag.total_blocks == TIMES / 2 && of_tag.blocks == 1 && of_tag.live == stats.live && of_tag.peak == 4096);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
    CHECK(stats.outstanding == 0 && stats.pool_held == 0);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void blocks_come_from_a_pool(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.pool = "large_segment_size_mb:2, limit_mb:64, expandable_segments:True";
    device_t d = new_device(&options);
    mmsb_block_t blocks[6];
    void *address = NULL;
    for (int i = 0; i < 6; i++) {
        CHECK_OK(mmsb_block_allocate(d.stream, 10 << 20, 0, 0, &blocks[i], &address));
    }
    mmsb_block_t block = 0;
    CHECK_STATUS(mmsb_block_allocate(d.stream, 10 << 20, 0, 0, &block, &address), MMSB_E_LIMIT);
    CHECK_STATUS(mmsb_block_allocate(d.stream, UINT64_MAX, 0, 0, &block, &address), MMSB_E_INVALID_SIZE);
    for (int i = 0; i < 6; i += 2) {
        CHECK_OK(mmsb_block_free(blocks[i], 0, NULL));
    }
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_block_allocate(d.stream, 30 << 20, 0, 0, &block, &address)); /* which are nowhere in one piece */
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
    CHECK(stats.pool_held == 60 << 20 && stats.pool_reserved >= stats.pool_held && stats.pool_reserved <= 64 << 20);
    CHECK(stats.pool_moved > 0 && stats.pool_largest_free < 4 << 20);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    for (int i = 1; i < 6; i += 2) {
        CHECK_OK(mmsb_block_free(blocks[i], 0, NULL));
    }
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_runtime_trim(d.runtime, 0));
    CHECK_OK(mmsb_runtime_stats(d.runtime, &stats));
    CHECK(stats.pool_held == 0 && stats.pool_reserved == 0);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void a_pool_has_memory_of_each_source(void) {
    const char *sources[] = {"source:virtual", "source:plain", "source:ordered", "source:pinned,fallback:pageable",
                             "source:managed"};
    for (int i = 0; i < 5; i++) {
        mmsb_runtime_options_t options = runtime_options();
        options.pool = sources[i];
        device_t d = new_device(&options);
        void *address = NULL;
        void *second = NULL;
        mmsb_block_t block = new_block(d.stream, 5 << 20, &address);
        new_block(d.stream, 5 << 20, &second);
        CHECK_EQUAL((uintptr_t)second - (uintptr_t)address, 5 << 20);
        mmsb_use_t use = begin(d.stream, block, MMSB_ACCESS_WRITE);
        CHECK_OK(mmsb_stream_fill(d.stream, address, 0x5a, 5 << 20));
        CHECK_OK(mmsb_use_end(use));
        uint8_t byte = 0;
        CHECK_OK(mmsb_stream_copy(d.stream, &byte, (uint8_t *)address + (5 << 20) - 1, 1));
        CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
        CHECK_EQUAL(byte, 0x5a);
        if (i >= 3) { /* the host reaches it, too */
            CHECK_EQUAL(((uint8_t *)address)[4096], 0x5a);
        }
        CHECK_EQUAL(stats_of(d.runtime).pool_reserved, 20 << 20);
        CHECK_OK(mmsb_context_destroy(d.context));
    }
}

static void a_pool_may_have_slabs(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.pool = "slabs:true";
    device_t d = new_device(&options);
    static const struct {
        uint64_t bytes, held;
    } sizes[] = {{1, 4096}, {4096, 4096}, {4097, 16 << 10}, {65537, 256 << 10}, {(1 << 20) + 1, 4 << 20}, {9 << 20, 9 << 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mmsb_block_t block = new_block(d.stream, sizes[i].bytes, NULL);
        CHECK_EQUAL(stats_of(d.runtime).pool_held, sizes[i].held);
        CHECK_OK(mmsb_block_free(block, 0, NULL));
    }
    CHECK_EQUAL(stats_of(d.runtime).pool_misses, 2);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static mmsb_device_memory_t memory_of(mmsb_context_t context, int32_t device) {
    mmsb_device_memory_t memory;
    mmsb_device_memory_init(&memory);
    CHECK_OK(mmsb_device_memory(context, device, &memory));
    return memory;
}

static void a_budget_holds_for_all_runtimes_and_pages_of_a_device(void) {
    device_t d = new_device(NULL);
    mmsb_runtime_options_t options = runtime_options();
    options.pool = "";
    mmsb_runtime_t pooled = 0;
    mmsb_stream_t stream = 0;
    mmsb_page_t page = 0;
    mmsb_block_t block = 0;
    mmsb_block_t second = 0;
    void *address = NULL;
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, &options, &pooled));
    REQUIRE_OK(mmsb_stream_create(pooled, 0, &stream));
    CHECK_OK(mmsb_device_budget(d.context, 0, 16 << 20));
    CHECK_OK(mmsb_block_allocate(stream, 3 << 20, 0, 0, &block, &address)); /* the pool takes what the budget has: 4 MiB */
    CHECK_EQUAL(memory_of(d.context, 0).charged, 4 << 20);
    CHECK_OK(mmsb_block_allocate(d.stream, 6 << 20, 0, 0, &second, &address));
    mmsb_page_options_t where;
    mmsb_page_options_init(&where);
    where.location = MMSB_LOCATION_GPU;
    CHECK_STATUS(mmsb_page_create(d.context, 7 << 20, &where, &page), MMSB_E_LIMIT);
    CHECK(strstr(mmsb_last_error(), "other processes have unknown") != NULL);
    CHECK_OK(mmsb_page_create(d.context, 6 << 20, &where, &page));
    CHECK_EQUAL(memory_of(d.context, 0).charged, 16 << 20);
    where.location = MMSB_LOCATION_UNIFIED;
    mmsb_page_t unified = 0;
    CHECK_STATUS(mmsb_page_create(d.context, 1, &where, &unified), MMSB_E_LIMIT);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_page_create(d.context, 4096, &where, &unified)); /* for which the pool gives back what it keeps */
    mmsb_device_memory_t memory = memory_of(d.context, 0);
    CHECK(memory.helped == 1 && memory.returned >= 4096 && memory.runtimes == 3 && memory.budget == 16 << 20);
    CHECK(memory.asked > memory.helped && memory.charged <= 16 << 20 && memory.charged_peak == 16 << 20);

    /* A lower budget takes nothing away, and refuses until enough is given back. */
    CHECK_OK(mmsb_device_budget(d.context, 0, 9 << 20));
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1 << 20, 0, 0, &block, &address), MMSB_E_LIMIT);
    CHECK_OK(mmsb_block_free(second, 0, NULL));
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_block_allocate(d.stream, 1 << 20, 0, 0, &block, &address));
    CHECK_OK(mmsb_device_budget(d.context, 0, 0));
    CHECK_OK(mmsb_block_allocate(d.stream, 16 << 20, 0, 0, &second, &address));

    CHECK_STATUS(mmsb_device_budget(d.context, 7, 1), MMSB_E_NO_DEVICE);
    CHECK_STATUS(mmsb_device_budget(0, 0, 1), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_device_memory(d.context, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    memory.struct_size--;
    CHECK_STATUS(mmsb_device_memory(d.context, 0, &memory), MMSB_E_STRUCT_VERSION);
    CHECK_OK(mmsb_context_destroy(d.context));
    CHECK_STATUS(mmsb_device_budget(d.context, 0, 1), MMSB_E_STALE_HANDLE);
}

static void pinned_memory_has_a_budget(void) {
    mmsb_context_t context = new_simulated_context(1);
    uint64_t before = memory_of(context, MMSB_DEVICE_HOST).charged;
    CHECK_OK(mmsb_device_budget(context, MMSB_DEVICE_HOST, before + (2 << 20)));
    mmsb_page_options_t where;
    mmsb_page_options_init(&where);
    where.location = MMSB_LOCATION_PINNED;
    mmsb_page_t pages[100];
    mmsb_page_t page = 0;
    for (int i = 0; i < 100; i++) {
        CHECK_OK(mmsb_page_create(context, 8192, &where, &pages[i])); /* of one segment */
        CHECK_EQUAL((uintptr_t)mmsb_page_address(pages[i]) % 4096, 0);
    }
    CHECK_EQUAL(memory_of(context, MMSB_DEVICE_HOST).charged, before + (2 << 20));
    CHECK_STATUS(mmsb_page_create(context, 2 << 20, &where, &page), MMSB_E_LIMIT);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(mmsb_page_destroy(pages[i]));
    }
    CHECK_EQUAL(memory_of(context, MMSB_DEVICE_HOST).pool_free, 2 << 20);
    CHECK_OK(mmsb_page_create(context, 2 << 20, &where, &page));
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_OK(mmsb_context_trim(context, NULL));
    CHECK_EQUAL(memory_of(context, MMSB_DEVICE_HOST).charged, before);
    CHECK_OK(mmsb_device_budget(context, MMSB_DEVICE_HOST, 0));
    CHECK_OK(mmsb_context_destroy(context));
}

static void streams_are_leased_and_wrapped(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.streams = 2;
    device_t d = new_device(&options);
    mmsb_stream_t second = 0;
    mmsb_stream_t third = 42;
    CHECK_OK(mmsb_stream_create(d.runtime, -1, &second));
    CHECK_STATUS(mmsb_stream_create(d.runtime, 0, &third), MMSB_E_LIMIT);
    CHECK_STATUS(mmsb_stream_create(d.runtime, 1, &third), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_create(d.runtime, -2, &third), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_create(d.runtime, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(third, 42);
    CHECK_OK(mmsb_stream_destroy(second));
    CHECK_STATUS(mmsb_stream_destroy(second), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_stream_create(d.runtime, 0, &third));
    CHECK(third != second);
    void *native = NULL;
    CHECK_OK(mmsb_stream_native(d.stream, &native));
    CHECK(native != NULL);
    CHECK_STATUS(mmsb_stream_native(d.stream, NULL), MMSB_E_INVALID_ARGUMENT);

    /* Another runtime of the device takes the stream for a foreign one; the default stream has no driver's handle. */
    mmsb_runtime_t other = 0;
    mmsb_stream_t foreign = 0;
    mmsb_stream_t defined = 0;
    void *seen = NULL;
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, NULL, &other));
    CHECK_OK(mmsb_stream_wrap(other, native, &foreign));
    CHECK_OK(mmsb_stream_native(foreign, &seen));
    CHECK(seen == native);
    CHECK_STATUS(mmsb_stream_wrap(other, native, &second), MMSB_E_ALREADY_EXISTS);
    CHECK_OK(mmsb_stream_wrap(other, NULL, &defined));
    CHECK_OK(mmsb_stream_native(defined, &seen));
    CHECK(seen == NULL);
    CHECK_STATUS(mmsb_stream_wrap(other, NULL, &second), MMSB_E_ALREADY_EXISTS);
    CHECK_STATUS(mmsb_stream_wrap(other, &seen, &second), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_stream_wrap(other, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_block_t block = new_block(foreign, BLOCK, NULL);
    CHECK_OK(mmsb_stream_destroy(foreign));
    CHECK_OK(mmsb_stream_wrap(other, native, &foreign));
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    CHECK_OK(mmsb_block_info(block, &info)); /* the block stays */
    CHECK_EQUAL(info.stream, 0);
    CHECK_OK(mmsb_use_end(begin(foreign, block, MMSB_ACCESS_WRITE)));
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_stream_destroy(defined));
    CHECK_OK(mmsb_stream_destroy(foreign));
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER)); /* it is the first runtime's all the same */
    CHECK_OK(mmsb_context_destroy(d.context));               /* leaked streams and runtimes end with it */
    CHECK_STATUS(mmsb_stream_wait(d.stream, 0), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_stream_wait(third, 0), MMSB_E_STALE_HANDLE);
}

static void bytes_go_to_the_device_and_back(void) {
    device_t d = new_device(NULL);
    mmsb_stream_t other = new_stream(d.runtime);
    uint8_t out[BLOCK];
    uint8_t in[BLOCK];
    fill_pattern(out, BLOCK, 7);
    void *from;
    void *to;
    mmsb_block_t first = new_block(d.stream, BLOCK, &from);
    mmsb_block_t second = new_block(other, BLOCK, &to);
    CHECK_EQUAL((uintptr_t)from % 256 + (uintptr_t)to % 256, 0);
    CHECK_OK(mmsb_stream_copy(d.stream, from, out, BLOCK));
    const mmsb_access_t accesses[] = {{.block = first, .access = MMSB_ACCESS_READ},
                                      {.block = second, .access = MMSB_ACCESS_WRITE}};
    mmsb_use_t use;
    size_t bad = 42;
    CHECK_OK(mmsb_use_end(begin(d.stream, first, MMSB_ACCESS_WRITE)));
    CHECK_OK(mmsb_use_begin(other, accesses, 2, &use, &bad));
    CHECK_OK(mmsb_stream_copy(other, to, from, BLOCK));
    CHECK_OK(mmsb_stream_fill(other, (uint8_t *)to + 100, 0x5A, 50));
    CHECK_OK(mmsb_stream_copy(other, in, to, BLOCK));
    CHECK_OK(mmsb_stream_copy(other, in, to, 0));
    CHECK_OK(mmsb_use_end(use));
    CHECK_OK(mmsb_stream_wait(other, MMSB_WAIT_FOREVER));
    memset(out + 100, 0x5A, 50);
    CHECK(memcmp(out, in, BLOCK) == 0);
    CHECK_EQUAL(bad, 42);

    CHECK_STATUS(mmsb_stream_copy(other, NULL, from, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_copy(other, to, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_copy(other, to, (uint8_t *)to + 1, 8), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_copy(other, to, from, UINT64_MAX), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_copy(other, to, from, 256 << 20), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_fill(other, NULL, 0, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_stream_fill(other, to, 0, UINT64_MAX - 5), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void blocks_are_given_back_once(void) {
    device_t d = new_device(NULL);
    mmsb_runtime_t other = 0;
    REQUIRE_OK(mmsb_runtime_create(d.context, 1, NULL, &other));
    mmsb_stream_t foreign = new_stream(other);
    mmsb_stream_t second = new_stream(d.runtime);
    mmsb_block_t block = 42;
    void *address = &d;
    CHECK_STATUS(mmsb_block_allocate(d.stream, 0, 0, 0, &block, &address), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1ULL << 40, 0, 0, &block, &address), MMSB_E_OUT_OF_MEMORY);
    CHECK_STATUS(mmsb_block_allocate(d.stream, UINT64_MAX, 0, 0, &block, &address), MMSB_E_OUT_OF_MEMORY);
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1, 60000, 0, &block, &address), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1, 0, 99, &block, &address), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1, 0, 0, NULL, &address), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1, 0, 0, &block, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK(block == 42 && address == &d);
    CHECK_EQUAL(stats_of(d.runtime).failures, 2);

    mmsb_tag_t tag = 0;
    REQUIRE_OK(mmsb_tag_of("device_test", &tag));
    CHECK_OK(mmsb_block_allocate(d.stream, 1000, tag, 0, &block, &address));
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    CHECK_OK(mmsb_block_info(block, &info));
    CHECK(info.address == address && info.bytes == 1000 && info.stream == d.stream && info.tag == tag);
    CHECK(info.device == 0 && info.uses == 0);
    CHECK_EQUAL(stats_of(d.runtime).live, 1000);
    int32_t deferred = 42;
    CHECK_STATUS(mmsb_block_free(block, foreign, &deferred), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_block_free(block, 99, &deferred), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(try_begin(foreign, block, MMSB_ACCESS_READ), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(deferred, 42);
    CHECK_OK(mmsb_block_free(block, second, &deferred));
    CHECK_EQUAL(deferred, 0);
    CHECK_STATUS(mmsb_block_free(block, 0, NULL), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_block_info(block, &info), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(try_begin(d.stream, block, MMSB_ACCESS_READ), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(stats_of(d.runtime).live, 0);
    info.struct_size = 0;
    CHECK_STATUS(mmsb_block_info(block, &info), MMSB_E_STRUCT_VERSION);

    block = new_block(d.stream, BLOCK, NULL);
    CHECK_OK(mmsb_runtime_destroy(d.runtime));
    CHECK_STATUS(mmsb_block_free(block, 0, NULL), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void uses_keep_order_and_blocks(void) {
    device_t d = new_device(NULL);
    mmsb_stream_t other = new_stream(d.runtime);
    mmsb_block_t block = new_block(d.stream, BLOCK, NULL);
    mmsb_use_t read = begin(d.stream, block, MMSB_ACCESS_READ);
    CHECK_STATUS(try_begin(other, block, MMSB_ACCESS_WRITE), MMSB_E_BUSY);
    mmsb_use_t second = begin(other, block, MMSB_ACCESS_READ);
    CHECK(read != second);
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    CHECK_OK(mmsb_block_info(block, &info));
    CHECK_EQUAL(info.uses, 2);
    int32_t deferred = 0;
    CHECK_OK(mmsb_block_free(block, 0, &deferred));
    CHECK_EQUAL(deferred, 1);
    CHECK_STATUS(mmsb_block_free(block, 0, NULL), MMSB_E_STALE_HANDLE);
    mmsb_runtime_stats_t stats = stats_of(d.runtime);
    CHECK(stats.deferred_frees == 1 && stats.pending == BLOCK && stats.blocks == 0 && stats.uses == 2);
    CHECK_OK(mmsb_use_end(read));
    CHECK_STATUS(mmsb_use_end(read), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_use_abort(read), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    CHECK_EQUAL(stats_of(d.runtime).outstanding, BLOCK);
    CHECK_OK(mmsb_use_abort(second));
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    stats = stats_of(d.runtime);
    CHECK(stats.outstanding == 0 && stats.aborts == 1 && stats.peak == BLOCK);
    CHECK_STATUS(mmsb_use_end(0), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_use_end(9ULL << 60 | 1ULL << 50 | 1), MMSB_E_INVALID_HANDLE); /* never begun */

    /* All blocks or none. */
    mmsb_block_t good = new_block(d.stream, BLOCK, NULL);
    mmsb_access_t accesses[] = {{.block = good, .access = MMSB_ACCESS_WRITE}, {.block = block, .access = MMSB_ACCESS_READ}};
    mmsb_use_t use = 42;
    size_t bad = 42;
    CHECK_STATUS(mmsb_use_begin(other, accesses, 2, &use, &bad), MMSB_E_STALE_HANDLE);
    CHECK(use == 42 && bad == 1);
    accesses[1] = (mmsb_access_t){.block = good, .access = MMSB_ACCESS_READ, .reserved = 1};
    bad = 42;
    CHECK_STATUS(mmsb_use_begin(other, accesses, 2, &use, &bad), MMSB_E_STRUCT_VERSION);
    CHECK_EQUAL(bad, 1);
    accesses[1].reserved = 0;
    static const int32_t wrong[] = {0, 4, -1, 257, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        accesses[1].access = wrong[i];
        bad = 42;
        CHECK_STATUS(mmsb_use_begin(other, accesses, 2, &use, &bad), MMSB_E_INVALID_ARGUMENT);
        CHECK_EQUAL(bad, 1);
    }
    CHECK_STATUS(mmsb_use_begin(other, NULL, 2, &use, &bad), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_use_begin(other, accesses, SIZE_MAX, &use, &bad), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_use_begin(other, accesses, 1, NULL, &bad), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_block_info(good, &info));
    CHECK_EQUAL(info.uses, 0);
    accesses[1].access = MMSB_ACCESS_READ; /* one block twice */
    CHECK_OK(mmsb_use_begin(other, accesses, 2, &use, NULL));
    CHECK_OK(mmsb_use_end(use));
    CHECK_OK(mmsb_use_begin(other, NULL, 0, &use, NULL));
    CHECK_OK(mmsb_use_end(use));

    /* A use that nobody ends. */
    use = begin(d.stream, good, MMSB_ACCESS_WRITE);
    CHECK_OK(mmsb_runtime_destroy(d.runtime));
    CHECK_STATUS(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void uses_are_recorded(void) {
    device_t d = new_device(NULL);
    mmsb_stream_t other = new_stream(d.runtime);
    mmsb_block_t blocks[2] = {new_block(d.stream, BLOCK, NULL), new_block(d.stream, BLOCK, NULL)};
    mmsb_use_t use = 0;
    CHECK_STATUS(mmsb_use_record(other, 2, &use), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_use_record(other, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_use_record(other, 0, &use));
    CHECK_STATUS(mmsb_use_add(use, blocks[0], MMSB_ACCESS_READ_WRITE + 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_use_add(use, blocks[0], 256 + MMSB_ACCESS_READ), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_use_add(use, blocks[0], MMSB_ACCESS_READ));
    CHECK_OK(mmsb_use_add(use, blocks[0], MMSB_ACCESS_WRITE));
    CHECK_OK(mmsb_use_add(use, blocks[1], MMSB_ACCESS_READ));
    CHECK_STATUS(mmsb_use_end(use), MMSB_E_INVALID_STATE);
    mmsb_use_t conflict = begin(d.stream, blocks[1], MMSB_ACCESS_WRITE);
    CHECK_STATUS(mmsb_use_begin_recorded(use), MMSB_E_BUSY);
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    CHECK_OK(mmsb_block_info(blocks[0], &info));
    CHECK_EQUAL(info.uses, 0);
    CHECK_OK(mmsb_use_end(conflict));
    CHECK_OK(mmsb_use_begin_recorded(use)); /* tried again */
    CHECK_STATUS(mmsb_use_begin_recorded(use), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_use_add(use, blocks[1], MMSB_ACCESS_READ), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_use_end(use));

    CHECK_OK(mmsb_use_record(other, 0, &use)); /* strict */
    CHECK_OK(mmsb_use_add(use, 0, MMSB_ACCESS_READ));
    CHECK_STATUS(mmsb_use_begin_recorded(use), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_use_abort(use));
    CHECK_STATUS(mmsb_use_add(use, 0, MMSB_ACCESS_READ), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_use_record(other, 1, &use)); /* permissive */
    CHECK_OK(mmsb_use_add(use, 0, MMSB_ACCESS_READ));
    CHECK_OK(mmsb_use_begin_recorded(use));
    CHECK_OK(mmsb_use_end(use));
    CHECK_OK(mmsb_use_record(other, 0, &use)); /* a block that is freed meanwhile */
    CHECK_OK(mmsb_use_add(use, blocks[0], MMSB_ACCESS_READ));
    CHECK_OK(mmsb_block_free(blocks[0], 0, NULL));
    CHECK_STATUS(mmsb_use_begin_recorded(use), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_use_abort(use));
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void points_are_tickets(void) {
    device_t d = new_device(NULL);
    mmsb_runtime_t far = 0;
    REQUIRE_OK(mmsb_runtime_shared(d.context, 1, &far));
    mmsb_stream_t far_stream = new_stream(far);
    void *address;
    new_block(d.stream, BLOCK, &address);
    CHECK_OK(mmsb_stream_fill(d.stream, address, 1, BLOCK));
    mmsb_ticket_t ticket = 0;
    CHECK_STATUS(mmsb_stream_record(d.stream, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_stream_record(d.stream, &ticket));
    CHECK_EQUAL(ticket >> 60, MMSB_KIND_TICKET);
    CHECK_OK(mmsb_stream_after(far_stream, ticket));
    CHECK_OK(mmsb_stream_after(d.stream, ticket));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK(done(ticket));
    CHECK_OK(mmsb_ticket_cancel(ticket));
    mmsb_status_t code = -1;
    CHECK_OK(mmsb_ticket_status(ticket, &code, NULL, 0));
    CHECK_EQUAL(code, MMSB_OK);
    int32_t descriptor = -1;
    CHECK_OK(mmsb_ticket_eventfd(ticket, &descriptor));
    struct pollfd ready = {.fd = descriptor, .events = POLLIN};
    CHECK_EQUAL(poll(&ready, 1, 0), 1);

    /* Host work behind it; and behind a stream, named directly. */
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.after = &ticket;
    work.after_count = 1;
    mmsb_page_t page = 0;
    mmsb_ticket_t made = 0;
    CHECK_OK(mmsb_page_create_many_start(d.context, 64, 1, NULL, &work, &page, &made));
    CHECK_OK(mmsb_ticket_wait(made, MMSB_WAIT_FOREVER));
    CHECK_STATUS(mmsb_stream_after(d.stream, made), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_ticket_destroy(made));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_STATUS(mmsb_stream_after(d.stream, ticket), MMSB_E_STALE_HANDLE);
    mmsb_work_options_init(&work);
    work.stream = far_stream;
    CHECK_OK(mmsb_page_create_many(d.context, 64, 1, NULL, &work, &page));
    work.device = 1;
    CHECK_OK(mmsb_page_create_many_start(d.context, 64, 1, NULL, &work, &page, &made));
    CHECK_OK(mmsb_ticket_wait(made, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(made));
    work.device = 2;
    CHECK_STATUS(mmsb_page_create_many(d.context, 64, 1, NULL, &work, &page), MMSB_E_MISMATCH);
    work.stream = 0;
    CHECK_STATUS(mmsb_page_create_many(d.context, 64, 1, NULL, &work, &page), MMSB_E_INVALID_ARGUMENT);
    work.device = 0;
    work.stream = d.runtime;
    CHECK_STATUS(mmsb_page_create_many(d.context, 64, 1, NULL, &work, &page), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_stream_destroy(far_stream));
    work.stream = far_stream;
    CHECK_STATUS(mmsb_page_create_many(d.context, 64, 1, NULL, &work, &page), MMSB_E_STALE_HANDLE);

    /* Simulated devices of another context. */
    device_t stranger = new_device(NULL);
    CHECK_OK(mmsb_stream_record(stranger.stream, &ticket));
    CHECK_STATUS(mmsb_stream_after(d.stream, ticket), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(stranger.context));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER)); /* the end of the runtime was its end */
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_STATUS(mmsb_stream_record(stranger.stream, &ticket), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void budgets_hold_to_the_byte(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.budget = 1000;
    device_t d = new_device(&options);
    mmsb_block_t block = new_block(d.stream, 600, NULL);
    mmsb_block_t refused = 42;
    void *address;
    CHECK_STATUS(mmsb_block_allocate(d.stream, 401, 0, 0, &refused, &address), MMSB_E_LIMIT);
    const char *text = mmsb_last_error(); /* the four numbers */
    CHECK(strstr(text, "401") && strstr(text, "600") && strstr(text, "400") && strstr(text, "1000"));
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1001, 0, 0, &refused, &address), MMSB_E_LIMIT);
    CHECK_EQUAL(refused, 42);
    mmsb_block_t exact = new_block(d.stream, 400, NULL);
    mmsb_runtime_stats_t stats = stats_of(d.runtime);
    CHECK(stats.budget == 1000 && stats.charged == 1000 && stats.charged_peak == 1000 && stats.refusals == 2 &&
          stats.failures == 2);
    CHECK_OK(mmsb_block_free(exact, 0, NULL));
    exact = new_block(d.stream, 400, NULL); /* what is freed is looked for before a refusal */
    CHECK_OK(mmsb_block_free(exact, 0, NULL));
    CHECK_OK(mmsb_runtime_reap(d.runtime));

    mmsb_reservation_t reservation = 42;
    CHECK_STATUS(mmsb_reservation_create(d.runtime, 0, &reservation), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_reservation_create(d.runtime, 401, &reservation), MMSB_E_LIMIT);
    CHECK_STATUS(mmsb_reservation_create(d.runtime, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(reservation, 42);
    CHECK_OK(mmsb_reservation_create(d.runtime, 400, &reservation));
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1, 0, 0, &refused, &address), MMSB_E_LIMIT);
    CHECK_STATUS(mmsb_block_allocate(d.stream, 401, 0, reservation, &refused, &address), MMSB_E_LIMIT);
    CHECK_OK(mmsb_block_allocate(d.stream, 150, 0, reservation, &exact, &address));
    stats = stats_of(d.runtime);
    CHECK(stats.reserved_bytes == 250 && stats.charged == 1000);
    mmsb_runtime_t other = 0;
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, NULL, &other));
    CHECK_STATUS(mmsb_block_allocate(new_stream(other), 1, 0, reservation, &refused, &address), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_reservation_create(other, 10, &refused), MMSB_E_INVALID_STATE); /* no budget */
    uint64_t left = 0;
    CHECK_OK(mmsb_reservation_destroy(reservation, &left));
    CHECK_EQUAL(left, 250);
    CHECK_STATUS(mmsb_reservation_destroy(reservation, &left), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_block_allocate(d.stream, 1, 0, reservation, &refused, &address), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_block_free(exact, 0, NULL));
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    CHECK_EQUAL(stats_of(d.runtime).charged, 0);
    CHECK_OK(mmsb_context_destroy(d.context));
}

typedef struct contest {
    mmsb_runtime_t runtime;
    uint64_t taken; /* bytes, at this moment */
    uint64_t refusals;
} contest_t;

static void *allocate_and_free(void *argument) {
    team_member_t *member = argument;
    contest_t *contest = member->shared;
    uint64_t seed = member->index;
    mmsb_stream_t stream = new_stream(contest->runtime);
    for (int i = 0; i < 500; i++) {
        uint64_t bytes = 1 + random_below(&seed, 300);
        mmsb_block_t block = 0;
        void *address = NULL;
        mmsb_status_t status = mmsb_block_allocate(stream, bytes, 0, 0, &block, &address);
        if (status == MMSB_E_LIMIT) {
            __atomic_add_fetch(&contest->refusals, 1, __ATOMIC_RELAXED);
            continue;
        }
        CHECK_STATUS(status, MMSB_OK);
        CHECK(__atomic_add_fetch(&contest->taken, bytes, __ATOMIC_SEQ_CST) <= 1000);
        __atomic_sub_fetch(&contest->taken, bytes, __ATOMIC_SEQ_CST);
        CHECK_OK(mmsb_block_free(block, 0, NULL));
    }
    CHECK_OK(mmsb_stream_destroy(stream));
    return NULL;
}

static void a_budget_holds_for_16_threads(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.budget = 1000;
    device_t d = new_device(&options);
    contest_t contest = {.runtime = d.runtime};
    run_team(16, allocate_and_free, &contest);
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    mmsb_runtime_stats_t stats = stats_of(d.runtime);
    CHECK(stats.charged == 0 && stats.outstanding == 0 && stats.charged_peak <= 1000);
    CHECK(stats.allocations + stats.failures == 16 * 500 && stats.failures == contest.refusals);
    CHECK_OK(mmsb_context_destroy(d.context));
}

typedef struct pressure {
    mmsb_block_t blocks[3];
    int calls;
} pressure_t;

static int32_t free_one(void *user, uint64_t bytes, uint32_t attempt, mmsb_status_t code) {
    pressure_t *pressure = user;
    CHECK(bytes == 900 && code == MMSB_E_LIMIT && (int)attempt == ++pressure->calls);
    if (attempt > 3) {
        return 0;
    }
    CHECK_OK(mmsb_block_free(pressure->blocks[attempt - 1], 0, NULL));
    return 1;
}

static void a_refusal_asks_the_program(void) {
    pressure_t pressure = {.calls = 0};
    mmsb_runtime_options_t options = runtime_options();
    options.budget = 1000;
    options.refused = free_one;
    options.refused_user = &pressure;
    device_t d = new_device(&options);
    for (int i = 0; i < 3; i++) {
        pressure.blocks[i] = new_block(d.stream, 300, NULL);
    }
    mmsb_block_t large = new_block(d.stream, 900, NULL);
    CHECK_EQUAL(pressure.calls, 3);
    CHECK_EQUAL(stats_of(d.runtime).refused_calls, 3);
    mmsb_block_t more = 0;
    void *address;
    pressure.calls = 0;
    pressure.blocks[0] = pressure.blocks[1] = pressure.blocks[2] = 0;
    CHECK_STATUS(mmsb_block_allocate(d.stream, 900, 0, 0, &more, &address), MMSB_E_LIMIT);
    CHECK_EQUAL(pressure.calls, 4);
    CHECK_EQUAL(stats_of(d.runtime).refused_calls, 7);
    CHECK(stats_of(d.runtime).failures == 1 && stats_of(d.runtime).refusals == 7);
    CHECK_OK(mmsb_block_free(large, 0, NULL));
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void a_ledger_is_one_budget_for_all(void) {
    const char *path = at("ledger");
    mmsb_runtime_options_t options = runtime_options();
    options.ledger = path;
    options.budget = 1000;
    device_t d = new_device(&options);
    mmsb_runtime_t second = 0;
    options.budget = 999;
    CHECK_STATUS(mmsb_runtime_create(d.context, 0, &options, &second), MMSB_E_MISMATCH);
    options.budget = 0;
    CHECK_OK(mmsb_runtime_create(d.context, 1, &options, &second));
    mmsb_stream_t stream = new_stream(second);
    new_block(d.stream, 700, NULL);
    mmsb_block_t block = 0;
    void *address;
    CHECK_STATUS(mmsb_block_allocate(stream, 301, 0, 0, &block, &address), MMSB_E_LIMIT);
    CHECK_OK(mmsb_block_allocate(stream, 300, 0, 0, &block, &address));
    CHECK_EQUAL(stats_of(second).charged, 1000);
    CHECK_OK(mmsb_runtime_destroy(d.runtime));
    CHECK_EQUAL(stats_of(second).charged, 300);
    CHECK_OK(mmsb_runtime_destroy(second));
    FILE *spoiled = fopen(path, "w");
    REQUIRE(spoiled != NULL && fputs("no ledger", spoiled) >= 0 && fclose(spoiled) == 0);
    CHECK_STATUS(mmsb_runtime_create(d.context, 0, &options, &second), MMSB_E_FORMAT);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void the_log_is_text(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.log_events = 100;
    options.budget = 5000;
    device_t d = new_device(&options);
    mmsb_block_t block = new_block(d.stream, BLOCK, NULL);
    void *address;
    CHECK_STATUS(mmsb_block_allocate(d.stream, BLOCK, 0, 0, &block, &address), MMSB_E_LIMIT);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    CHECK_OK(mmsb_runtime_log_write(d.runtime, ends[1]));
    char text[2000] = {0};
    REQUIRE(read(ends[0], text, sizeof text - 1) > 0);
    CHECK(strncmp(text, "Thread,Time,Action,Pointer,Size,Stream\n", 39) == 0);
    const char *allocated = strstr(text, ",allocate,0x");
    const char *refused = strstr(text, ",allocate failure,0x0,4096,");
    const char *freed = strstr(text, ",free,0x");
    CHECK(allocated && refused && freed && allocated < refused && refused < freed);
    CHECK_STATUS(mmsb_runtime_log_write(d.runtime, -1), MMSB_E_IO);
    CHECK_STATUS(mmsb_runtime_log_write(d.runtime, ends[0]), MMSB_E_IO);
    close(ends[0]);
    CHECK_STATUS(mmsb_runtime_log_write(d.runtime, ends[1]), MMSB_E_IO); /* nobody reads: no SIGPIPE */
    close(ends[1]);
    mmsb_runtime_t shared = 0;
    REQUIRE_OK(mmsb_runtime_shared(d.context, 0, &shared));
    CHECK_STATUS(mmsb_runtime_log_write(shared, 1), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void the_guard_finds_who_writes_too_far(void) {
    mmsb_runtime_options_t options = runtime_options();
    options.guard_every = 1;
    options.guard_quarantine = 1 << 20;
    device_t d = new_device(&options);
    void *address;
    mmsb_block_t block = new_block(d.stream, 100, &address);
    CHECK_OK(mmsb_stream_fill(d.stream, (uint8_t *)address + 90, 1, 11));
    CHECK_EQUAL(stats_of(d.runtime).reports, 0);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_runtime_reap(d.runtime));
    CHECK_EQUAL(stats_of(d.runtime).reports, 1);
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void tags_and_statistics(void) {
    mmsb_tag_t weights = 0;
    mmsb_tag_t again = 0;
    mmsb_tag_t cache = 0;
    mmsb_tag_t none = 42;
    CHECK_OK(mmsb_tag_of("weights", &weights));
    CHECK_OK(mmsb_tag_of("weights", &again));
    CHECK_OK(mmsb_tag_of("cache \xc3\xa4", &cache));
    CHECK(weights == again && weights != cache && weights != 0);
    CHECK_OK(mmsb_tag_of("untagged", &none));
    CHECK_EQUAL(none, 0);
    CHECK_STATUS(mmsb_tag_of("\xff", &none), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tag_of(NULL, &none), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tag_of("x", NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tag_of("01234567890123456789012345678901234567890123456789012345678901234", &none),
                 MMSB_E_INVALID_ARGUMENT);

    mmsb_context_t context = new_simulated_context(1);
    mmsb_runtime_t shared = 0;
    REQUIRE_OK(mmsb_runtime_shared(context, 0, &shared));
    mmsb_stream_t stream = new_stream(shared);
    mmsb_block_t block = 0;
    void *address;
    REQUIRE_OK(mmsb_block_allocate(stream, 1000, weights, 0, &block, &address));
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_runtime_reap(shared));
    REQUIRE_OK(mmsb_block_allocate(stream, 500, weights, 0, &block, &address));
    CHECK_STATUS(mmsb_block_allocate(stream, 1ULL << 40, weights, 0, &block, &address), MMSB_E_OUT_OF_MEMORY);
    mmsb_tag_stats_t stats;
    CHECK_OK(mmsb_runtime_tag_stats(shared, weights, &stats));
    CHECK(stats.live == 500 && stats.peak == 1000 && stats.total_bytes == 1500 && stats.blocks == 1 && stats.total_blocks == 2);
    CHECK_EQUAL(stats.failures, 1);
    CHECK_OK(mmsb_runtime_tag_stats(shared, cache, &stats));
    CHECK_EQUAL(stats.total_blocks, 0);
    CHECK_STATUS(mmsb_runtime_tag_stats(shared, 60000, &stats), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_runtime_tag_stats(shared, UINT32_MAX, &stats), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_runtime_tag_stats(shared, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_runtime_stats_t all = stats_of(shared);
    CHECK(all.live == 500 && all.peak == 1000 && all.allocations == 2 && all.frees == 1 && all.failures == 1 && all.budget == 0);
    all.struct_size = 1;
    CHECK_STATUS(mmsb_runtime_stats(shared, &all), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_runtime_stats(shared, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_runtime_trim(shared, 0));
    CHECK_OK(mmsb_context_destroy(context));
}

/* One ends a runtime while others use it. */
typedef struct ending {
    mmsb_runtime_t runtime;
    int32_t begun;
} ending_t;

static void check_ended(mmsb_status_t status) {
    CHECK(status == MMSB_OK || status == MMSB_E_STALE_HANDLE);
}

static void *use_until_the_end(void *argument) {
    team_member_t *member = argument;
    ending_t *ending = member->shared;
    if (member->index == 0) {
        while (__atomic_load_n(&ending->begun, __ATOMIC_ACQUIRE) < 3) {
            sched_yield();
        }
        CHECK_OK(mmsb_runtime_destroy(ending->runtime));
        return NULL;
    }
    mmsb_status_t status;
    do {
        mmsb_stream_t stream = 0;
        mmsb_block_t block = 0;
        mmsb_ticket_t ticket = 0;
        void *address;
        status = mmsb_stream_create(ending->runtime, 0, &stream);
        __atomic_add_fetch(&ending->begun, 1, __ATOMIC_RELEASE);
        if (status == MMSB_OK) {
            check_ended(mmsb_block_allocate(stream, 100, 0, 0, &block, &address));
            check_ended(mmsb_stream_record(stream, &ticket));
            if (ticket != 0) {
                CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
                CHECK_OK(mmsb_ticket_destroy(ticket));
            }
            check_ended(mmsb_block_free(block, 0, NULL));
            check_ended(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER));
            check_ended(mmsb_stream_destroy(stream));
        }
    } while (status == MMSB_OK);
    CHECK_EQUAL(status, MMSB_E_STALE_HANDLE);
    return NULL;
}

static void runtimes_end_while_they_are_used(void) {
    for (int i = 0; i < 20; i++) {
        mmsb_context_t context = new_simulated_context(1);
        ending_t ending = {0};
        REQUIRE_OK(mmsb_runtime_create(context, 0, NULL, &ending.runtime));
        run_team(4, use_until_the_end, &ending);
        CHECK_OK(mmsb_context_destroy(context));
    }
}

static void shutdown_ends_everything(void) {
    device_objects_t device = new_device_objects();
    mmsb_ticket_t ticket = 0;
    REQUIRE_OK(mmsb_stream_record(device.stream, &ticket));
    CHECK_OK(mmsb_shutdown());
    CHECK_STATUS(mmsb_use_end(device.use), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_reservation_destroy(device.reservation, NULL), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_block_free(device.block, 0, NULL), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_stream_destroy(device.stream), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_runtime_destroy(device.runtime), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_ticket_destroy(ticket), MMSB_E_STALE_HANDLE);
    device = new_device_objects(); /* afresh */
    end_device_objects(&device);
    CHECK_OK(mmsb_context_destroy(device.context));
}

int main(void) {
    folder_make();
    RUN(no_device_is_never_simulated_silently);
    RUN(devices_are_listed);
    RUN(runtimes_are_shared_or_own);
    RUN(options_are_checked);
    RUN(blocks_come_again);
    RUN(blocks_come_from_a_pool);
    RUN(a_pool_has_memory_of_each_source);
    RUN(a_pool_may_have_slabs);
    RUN(a_budget_holds_for_all_runtimes_and_pages_of_a_device);
    RUN(pinned_memory_has_a_budget);
    RUN(streams_are_leased_and_wrapped);
    RUN(bytes_go_to_the_device_and_back);
    RUN(blocks_are_given_back_once);
    RUN(uses_keep_order_and_blocks);
    RUN(uses_are_recorded);
    RUN(points_are_tickets);
    RUN(budgets_hold_to_the_byte);
    RUN(a_budget_holds_for_16_threads);
    RUN(a_refusal_asks_the_program);
    RUN_IN_FOLDER(a_ledger_is_one_budget_for_all);
    RUN(the_log_is_text);
    RUN(the_guard_finds_who_writes_too_far);
    RUN(tags_and_statistics);
    RUN(runtimes_end_while_they_are_used);
    RUN(shutdown_ends_everything);
    folder_end();
    return check_report();
}
