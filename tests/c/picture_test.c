/* Pictures and statistics of a runtime's memory. */
#include "library.h"
#include "folder.h"

#include <fcntl.h>
#include <pthread.h>

typedef struct pictured {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
} pictured_t;

static pictured_t new_runtime(const char *pool, uint64_t log_events) {
    pictured_t p = {.context = new_simulated_context(1)};
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    options.pool = pool;
    options.log_events = log_events;
    REQUIRE_OK(mmsb_runtime_create(p.context, 0, &options, &p.runtime));
    REQUIRE_OK(mmsb_stream_create(p.runtime, 0, &p.stream));
    return p;
}

static mmsb_block_t allocate(mmsb_stream_t stream, uint64_t bytes, const char *name) {
    mmsb_tag_t tag = 0;
    mmsb_block_t block = 0;
    void *address;
    REQUIRE_OK(mmsb_tag_of(name, &tag));
    REQUIRE_OK(mmsb_block_allocate(stream, bytes, tag, 0, &block, &address));
    return block;
}

/* The file that a call has written, ended by a zero byte. */
static char *written(mmsb_runtime_t runtime, int32_t format, size_t *length) {
    FILE *file = tmpfile();
    REQUIRE(file);
    REQUIRE_OK(mmsb_runtime_snapshot_write(runtime, fileno(file), format));
    long size = lseek(fileno(file), 0, SEEK_END);
    REQUIRE(size > 0);
    char *text = calloc(1, (size_t)size + 1);
    REQUIRE(pread(fileno(file), text, (size_t)size, 0) == size);
    fclose(file);
    *length = (size_t)size;
    return text;
}

static void pictures_have_their_forms(void) {
    const char *pools[] = {NULL, ""};
    for (int i = 0; i < 2; i++) {
        pictured_t p = new_runtime(pools[i], 100);
        mmsb_block_t block = allocate(p.stream, 5000, "weights");
        size_t length;
        char *torch = written(p.runtime, MMSB_PICTURE_TORCH, &length);
        CHECK(memcmp(torch, "\x80\x02", 2) == 0 && torch[length - 1] == '.');
        CHECK(memmem(torch, length, "active_allocated", 16) != NULL);
        CHECK((memmem(torch, length, "segment_map", 11) != NULL) == (pools[i] != NULL));
        char *json = written(p.runtime, MMSB_PICTURE_JSON, &length);
        CHECK(strstr(json, pools[i] ? "[5120,5000,2," : "[5000,5000,2,") != NULL);
        CHECK(strstr(json, "weights") != NULL);
        char *html = written(p.runtime, MMSB_PICTURE_HTML, &length);
        CHECK(strncmp(html, "<!doctype html>", 15) == 0 && strstr(html, "weights") && strstr(html, "</html>"));
        free(torch);
        free(json);
        free(html);
        CHECK_OK(mmsb_block_free(block, 0, NULL));
        CHECK_OK(mmsb_context_destroy(p.context));
    }
}

static void what_cannot_be_written_is_an_error(void) {
    pictured_t p = new_runtime("", 0);
    CHECK_STATUS(mmsb_runtime_snapshot_write(p.runtime, 1, -1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_runtime_snapshot_write(p.runtime, 1, 3), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_runtime_snapshot_write(0, 1, MMSB_PICTURE_HTML), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_runtime_snapshot_write(p.stream, 1, MMSB_PICTURE_HTML), MMSB_E_INVALID_HANDLE);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(full >= 0);
    for (int32_t format = MMSB_PICTURE_TORCH; format <= MMSB_PICTURE_HTML; format++) {
        CHECK_STATUS(mmsb_runtime_snapshot_write(p.runtime, -1, format), MMSB_E_IO);
        CHECK_STATUS(mmsb_runtime_snapshot_write(p.runtime, full, format), MMSB_E_NO_SPACE);
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        CHECK_STATUS(mmsb_runtime_snapshot_write(p.runtime, ends[0], format), MMSB_E_IO); /* the wrong end */
        close(ends[0]);
        CHECK_STATUS(mmsb_runtime_snapshot_write(p.runtime, ends[1], format), MMSB_E_IO); /* nobody reads: no SIGPIPE */
        close(ends[1]);
    }
    close(full);
    mmsb_runtime_t ended = p.runtime;
    CHECK_OK(mmsb_runtime_destroy(p.runtime));
    CHECK_STATUS(mmsb_runtime_snapshot_write(ended, 1, MMSB_PICTURE_JSON), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(p.context));
}

/* The value of a name, or -1 where it is not in the list. */
static int64_t value_of(mmsb_runtime_t runtime, const char *name) {
    size_t count = 0;
    REQUIRE_OK(mmsb_runtime_memory_stats(runtime, NULL, 0, &count));
    mmsb_memory_stat_t *stats = calloc(count, sizeof *stats);
    REQUIRE_OK(mmsb_runtime_memory_stats(runtime, stats, count, &count));
    int64_t value = -1;
    for (size_t i = 0; i < count; i++)
        if (strcmp(stats[i].name, name) == 0)
            value = (int64_t)stats[i].value;
    free(stats);
    return value;
}

static void statistics_have_pytorchs_names(void) {
    pictured_t p = new_runtime("", 0);
    mmsb_block_t small = allocate(p.stream, 1000, "weights"), large = allocate(p.stream, (3 << 20) + 1, "weights");
    CHECK_EQUAL(value_of(p.runtime, "allocation.all.current"), 2);
    CHECK_EQUAL(value_of(p.runtime, "allocated_bytes.all.current"), 1024 + (3 << 20) + 512);
    CHECK_EQUAL(value_of(p.runtime, "requested_bytes.all.current"), 1000 + (3 << 20) + 1);
    CHECK_EQUAL(value_of(p.runtime, "allocated_bytes.small_pool.current"), 1024);
    CHECK_OK(mmsb_block_free(large, 0, NULL));
    CHECK_EQUAL(value_of(p.runtime, "allocated_bytes.large_pool.current"), 0);
    CHECK_EQUAL(value_of(p.runtime, "allocated_bytes.large_pool.peak"), (3 << 20) + 512);
    CHECK_EQUAL(value_of(p.runtime, "allocation.large_pool.freed"), 1);
    CHECK(value_of(p.runtime, "reserved_bytes.all.current") >= 6 << 20);
    CHECK(value_of(p.runtime, "largest_free_block") >= 3 << 20);
    mmsb_block_t none = 42;
    void *address;
    CHECK_STATUS(mmsb_block_allocate(p.stream, (uint64_t)96 << 20, 0, 0, &none, &address), MMSB_E_OUT_OF_MEMORY);
    CHECK_EQUAL(value_of(p.runtime, "num_ooms"), 1);
    CHECK(value_of(p.runtime, "num_alloc_retries") >= 0);
    CHECK_EQUAL(value_of(p.runtime, "no such name"), -1);

    size_t count = 7;
    mmsb_memory_stat_t one = {.name = NULL};
    CHECK_STATUS(mmsb_runtime_memory_stats(p.runtime, &one, 1, &count), MMSB_E_OUT_OF_RANGE);
    CHECK(count > 50 && one.name == NULL);
    CHECK_STATUS(mmsb_runtime_memory_stats(p.runtime, NULL, 1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_runtime_memory_stats(p.runtime, NULL, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_runtime_memory_stats(p.stream, NULL, 0, &count), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_block_free(small, 0, NULL));
    CHECK_OK(mmsb_context_destroy(p.context));

    p = new_runtime(NULL, 0);
    small = allocate(p.stream, 1000, "weights");
    CHECK_EQUAL(value_of(p.runtime, "allocated_bytes.all.current"), 1000);
    CHECK_EQUAL(value_of(p.runtime, "allocated_bytes.small_pool.current"), -1);
    CHECK_EQUAL(value_of(p.runtime, "num_device_alloc"), 1);
    CHECK_OK(mmsb_block_free(small, 0, NULL));
    CHECK_OK(mmsb_context_destroy(p.context));
}

typedef struct busy {
    mmsb_runtime_t runtime;
    int32_t stop;
} busy_t;

static void *work(void *argument) {
    busy_t *busy = argument;
    mmsb_stream_t stream = 0;
    REQUIRE_OK(mmsb_stream_create(busy->runtime, 0, &stream));
    mmsb_block_t blocks[16] = {0};
    for (int i = 0; !__atomic_load_n(&busy->stop, __ATOMIC_RELAXED); i++) {
        CHECK_OK(mmsb_block_free(blocks[i % 16], 0, NULL));
        blocks[i % 16] = allocate(stream, (uint64_t)(i % 7 + 1) << (10 + i % 11), "busy");
    }
    for (int i = 0; i < 16; i++)
        CHECK_OK(mmsb_block_free(blocks[i], 0, NULL));
    CHECK_OK(mmsb_stream_destroy(stream));
    return NULL;
}

static void pictures_are_made_beside_threads(void) {
    pictured_t p = new_runtime("", 1000);
    busy_t busy = {.runtime = p.runtime};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, &busy) == 0);
    for (int i = 0; i < 20; i++) {
        size_t length;
        free(written(p.runtime, i % 3, &length));
        CHECK(value_of(p.runtime, "active_bytes.all.current") >= 0);
    }
    __atomic_store_n(&busy.stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_OK(mmsb_runtime_trim(p.runtime, 0)); /* what the streams keep counts as active until then */
    CHECK_EQUAL(value_of(p.runtime, "active_bytes.all.current"), 0);
    CHECK_OK(mmsb_context_destroy(p.context));
}

int main(void) {
    folder_make();
    RUN(pictures_have_their_forms);
    RUN(what_cannot_be_written_is_an_error);
    RUN(statistics_have_pytorchs_names);
    RUN(pictures_are_made_beside_threads);
    folder_end();
    return check_report();
}
