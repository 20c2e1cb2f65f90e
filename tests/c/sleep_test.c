/* Tags of a pool that sleep and wake, and captures, on a simulated device: what every function does, and what bad input gets. */
#include "folder.h"
#include "library.h"

enum { MIB = 1 << 20 };

typedef struct device {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
    mmsb_tag_t weights, cache;
} device_t;

static mmsb_tag_t tag_of(const char *name) {
    mmsb_tag_t tag = 0;
    REQUIRE_OK(mmsb_tag_of(name, &tag));
    return tag;
}

static device_t new_device(void) {
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    options.pool = "large_segment_size_mb:2";
    device_t d = {.context = new_simulated_context(1), .weights = tag_of("weights"), .cache = tag_of("cache")};
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, &options, &d.runtime));
    REQUIRE_OK(mmsb_stream_create(d.runtime, 0, &d.stream));
    REQUIRE_OK(mmsb_pool_partition(d.runtime, d.weights));
    REQUIRE_OK(mmsb_pool_partition(d.runtime, d.cache));
    REQUIRE_OK(mmsb_pool_partition(d.runtime, d.cache)); /* it keeps its segments */
    return d;
}

static mmsb_block_t new_block(mmsb_stream_t stream, uint64_t bytes, mmsb_tag_t tag, void **address) {
    mmsb_block_t block = 0;
    REQUIRE_OK(mmsb_block_allocate(stream, bytes, tag, 0, &block, address));
    return block;
}

static mmsb_runtime_stats_t stats_of(mmsb_runtime_t runtime) {
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    REQUIRE_OK(mmsb_runtime_stats(runtime, &stats));
    return stats;
}

static uint64_t is_asleep(mmsb_block_t block) {
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    REQUIRE_OK(mmsb_block_info(block, &info));
    return info.asleep;
}

static mmsb_sleep_options_t sleep_options(int32_t mode) {
    mmsb_sleep_options_t options;
    memset(&options, 0xAA, sizeof options);
    mmsb_sleep_options_init(&options);
    CHECK(options.mode == MMSB_SLEEP_KEEP && options.folder == NULL && options.timeout_ns == MMSB_WAIT_FOREVER);
    options.mode = mode;
    options.folder = mode == MMSB_SLEEP_FILE ? folder : NULL;
    return options;
}

static mmsb_status_t touch(device_t *d, mmsb_block_t block) {
    const mmsb_access_t accesses[] = {{.block = block, .access = MMSB_ACCESS_WRITE}};
    mmsb_use_t use = 42;
    mmsb_status_t status = mmsb_use_begin(d->stream, accesses, 1, &use, NULL);
    if (status == MMSB_OK)
        CHECK_OK(mmsb_use_end(use));
    else
        CHECK_EQUAL(use, 42);
    return status;
}

static void write_and_wait(device_t *d, mmsb_block_t block, void *to, const void *from, uint64_t bytes) {
    CHECK_OK(touch(d, block));
    CHECK_OK(mmsb_stream_copy(d->stream, to, from, bytes));
    CHECK_OK(mmsb_stream_wait(d->stream, MMSB_WAIT_FOREVER));
}

static void tags_sleep_and_wake(void) {
    static uint8_t bytes[5 * MIB], found[5 * MIB];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 4096);
    for (int32_t mode = MMSB_SLEEP_DROP; mode <= MMSB_SLEEP_FILE; mode++) {
        device_t d = new_device();
        void *address = NULL, *unused = NULL;
        mmsb_block_t weights = new_block(d.stream, sizeof bytes, d.weights, &address);
        mmsb_block_t cache = new_block(d.stream, 30 * MIB, d.cache, &unused);
        write_and_wait(&d, weights, address, bytes, sizeof bytes);
        mmsb_tag_t tags[] = {d.weights, d.cache, d.weights};
        mmsb_sleep_options_t options = sleep_options(mode);
        CHECK_OK(mmsb_pool_sleep(d.runtime, tags, 3, &options));
        mmsb_runtime_stats_t stats = stats_of(d.runtime);
        uint64_t kept = mode == MMSB_SLEEP_DROP ? 0 : 35 * MIB;
        CHECK(stats.sleeping == 36 * MIB && stats.sleeping_kept == kept && stats.sleeping_copied == kept);
        CHECK(stats.pool_reserved == 0 && stats.pool_held == 0 && stats.live == 35 * MIB);
        CHECK_EQUAL(is_asleep(weights), 1);
        CHECK_STATUS(touch(&d, weights), MMSB_E_INVALID_STATE);
        CHECK(strstr(mmsb_last_error(), "tag weights sleeps") != NULL);
        mmsb_block_t other = 42;
        CHECK_STATUS(mmsb_block_allocate(d.stream, 1, d.cache, 0, &other, &unused), MMSB_E_INVALID_STATE);
        CHECK_STATUS(mmsb_pool_sleep(d.runtime, tags, 1, NULL), MMSB_E_INVALID_STATE);
        other = new_block(d.stream, 60 * MIB, 0, &unused);
        CHECK_STATUS(mmsb_pool_wake(d.runtime, tags, 3), MMSB_E_OUT_OF_MEMORY);
        CHECK(strstr(mmsb_last_error(), "37748736 bytes for what wakes") != NULL);
        CHECK_EQUAL(stats_of(d.runtime).sleeping, 36 * MIB);
        CHECK_OK(mmsb_block_free(other, 0, NULL));
        CHECK_OK(mmsb_block_free(cache, 0, NULL)); /* asleep */
        CHECK_EQUAL(stats_of(d.runtime).sleeping_kept, mode == MMSB_SLEEP_DROP ? 0 : 5 * MIB);
        CHECK_OK(mmsb_pool_wake(d.runtime, tags, 3));
        CHECK_STATUS(mmsb_pool_wake(d.runtime, tags, 1), MMSB_E_INVALID_STATE);
        CHECK_EQUAL(is_asleep(weights), 0);
        if (mode != MMSB_SLEEP_DROP) {
            write_and_wait(&d, weights, found, address, sizeof found);
            CHECK(memcmp(found, bytes, sizeof found) == 0);
            memset(found, 0, sizeof found);
        }
        stats = stats_of(d.runtime);
        CHECK(stats.sleeping == 0 && stats.sleeping_kept == 0 && stats.pool_held == 5 * MIB);
        CHECK_EQUAL(stats.sleeping_copied, mode == MMSB_SLEEP_DROP ? 0 : 40 * MIB);
        CHECK_OK(mmsb_pool_sleep(d.runtime, tags, 2, NULL)); /* and ends asleep */
        CHECK_OK(mmsb_context_destroy(d.context));
    }
}

static void sleeps_that_cannot_be(void) {
    device_t d = new_device();
    void *address = NULL;
    mmsb_block_t block = new_block(d.stream, MIB, d.weights, &address);
    mmsb_sleep_options_t options;
#define REFUSED(change, code) \
    do { \
        options = sleep_options(MMSB_SLEEP_KEEP); \
        change; \
        CHECK_STATUS(mmsb_pool_sleep(d.runtime, &d.weights, 1, &options), code); \
    } while (0)
    REFUSED(options.struct_size--, MMSB_E_STRUCT_VERSION);
    REFUSED(options.reserved[3] = 1, MMSB_E_STRUCT_VERSION);
    REFUSED(options.mode = 0, MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.mode = 4, MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.mode = MMSB_SLEEP_FILE, MMSB_E_INVALID_ARGUMENT);
    REFUSED(options.folder = ".", MMSB_E_INVALID_ARGUMENT);
    REFUSED((options.mode = MMSB_SLEEP_FILE, options.folder = ""), MMSB_E_INVALID_ARGUMENT);
    REFUSED((options.mode = MMSB_SLEEP_FILE, options.folder = "missing"), MMSB_E_NOT_FOUND);
    mmsb_tag_t undeclared[] = {d.weights, tag_of("never declared")};
    CHECK_STATUS(mmsb_pool_sleep(d.runtime, undeclared, 2, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_pool_wake(d.runtime, undeclared, 2), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_pool_wake(d.runtime, undeclared, 1), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_pool_partition(d.runtime, UINT32_MAX), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_pool_sleep(d.runtime, NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_pool_wake(d.runtime, NULL, SIZE_MAX), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_pool_sleep(d.runtime, &d.weights, SIZE_MAX, NULL), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_pool_sleep(0, &d.weights, 1, NULL), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_pool_sleep(d.runtime, NULL, 0, NULL));
    const mmsb_access_t accesses[] = {{.block = block, .access = MMSB_ACCESS_READ}};
    mmsb_use_t use = 0;
    CHECK_OK(mmsb_use_begin(d.stream, accesses, 1, &use, NULL));
    REFUSED((void)0, MMSB_E_BUSY);
    CHECK_OK(mmsb_use_end(use));
    CHECK_EQUAL(is_asleep(block), 0);
    mmsb_runtime_t plain = 0;
    CHECK_OK(mmsb_runtime_create(d.context, 0, NULL, &plain));
    CHECK_STATUS(mmsb_pool_partition(plain, d.weights), MMSB_E_UNSUPPORTED);
    CHECK_STATUS(mmsb_pool_sleep(plain, &d.weights, 1, NULL), MMSB_E_UNSUPPORTED);
    CHECK_OK(mmsb_context_destroy(d.context));
    CHECK_STATUS(mmsb_pool_wake(d.runtime, &d.weights, 1), MMSB_E_STALE_HANDLE);
}

static void captures_have_memory_of_their_own(void) {
    device_t d = new_device();
    mmsb_stream_t streams[2] = {d.stream, 0};
    CHECK_OK(mmsb_stream_create(d.runtime, 0, &streams[1]));
    mmsb_capture_t capture = 0, other = 42;
    uint64_t live = 0;
    CHECK_OK(mmsb_capture_begin(streams, 2, &capture));
    CHECK_EQUAL(capture >> 60, MMSB_KIND_CAPTURE);
    CHECK_OK(mmsb_debug_live_objects(MMSB_KIND_CAPTURE, &live));
    CHECK_EQUAL(live, 1);
    CHECK_STATUS(mmsb_capture_begin(&streams[1], 1, &other), MMSB_E_INVALID_STATE);
    void *within = NULL, *address = NULL;
    mmsb_block_t block = new_block(d.stream, 3 * MIB, d.weights, &within);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    block = new_block(d.stream, 3 * MIB, 0, &address);
    CHECK(address == within);
    CHECK_STATUS(mmsb_stream_wait(d.stream, 0), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER), MMSB_E_INVALID_STATE);
    mmsb_ticket_t ticket = 42;
    CHECK_STATUS(mmsb_stream_record(d.stream, &ticket), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_stream_destroy(d.stream), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_capture_end(capture));
    CHECK_STATUS(mmsb_capture_end(capture), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    for (int i = 0; i < 4; i++) {
        block = new_block(d.stream, 3 * MIB, 0, &address);
        CHECK(address != within);
        CHECK_OK(mmsb_block_free(block, 0, NULL));
    }
    CHECK_OK(mmsb_stream_wait(d.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_runtime_trim(d.runtime, 0));
    CHECK_EQUAL(stats_of(d.runtime).pool_reserved, 4 * MIB);
    CHECK_OK(mmsb_capture_resume(capture, streams, 2));
    CHECK_STATUS(mmsb_capture_resume(capture, streams, 1), MMSB_E_INVALID_STATE);
    block = new_block(d.stream, 3 * MIB, 0, &address);
    CHECK(address == within);
    CHECK_OK(mmsb_block_free(block, 0, NULL));
    CHECK_OK(mmsb_capture_end(capture));
    CHECK_STATUS(mmsb_capture_resume(capture, streams, 0), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_capture_resume(capture, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_capture_resume(d.stream, streams, 1), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_capture_destroy(capture));
    CHECK_OK(mmsb_runtime_trim(d.runtime, 0));
    CHECK_EQUAL(stats_of(d.runtime).pool_reserved, 0);
    CHECK_STATUS(mmsb_capture_destroy(capture), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_capture_end(capture), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_capture_destroy(0));
    CHECK_STATUS(mmsb_capture_end(0), MMSB_E_INVALID_HANDLE);

    mmsb_stream_t twice[] = {d.stream, d.stream};
    CHECK_STATUS(mmsb_capture_begin(twice, 2, &other), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_capture_begin(twice, 0, &other), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_capture_begin(NULL, 1, &other), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_capture_begin(twice, SIZE_MAX, &other), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_capture_begin(twice, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    twice[1] = 0;
    CHECK_STATUS(mmsb_capture_begin(twice, 2, &other), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(other, 42);
    CHECK_OK(mmsb_capture_begin(streams, 2, &capture));
    CHECK_OK(mmsb_context_destroy(d.context)); /* which ends it */
    CHECK_STATUS(mmsb_capture_end(capture), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_debug_live_objects(MMSB_KIND_CAPTURE, &live));
    CHECK_EQUAL(live, 0);
}

int main(void) {
    folder_make();
    RUN_IN_FOLDER(tags_sleep_and_wake);
    RUN(sleeps_that_cannot_be);
    RUN(captures_have_memory_of_their_own);
    folder_end();
    return check_report();
}
