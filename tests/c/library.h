/*
 * library.h — what a C test has that is linked with the library: checks of a status and its error text, the leak gate after each
 * test, and helpers that make pages, contexts, snapshots and what there is of a device.
 */
#ifndef MMSB_TESTS_LIBRARY_H
#define MMSB_TESTS_LIBRARY_H

#include "../check.h"

#include <mmsb.h>

/* The status of a call; of a failed call also the thread's last error: the same code, and a text of one line. */
#define CHECK_STATUS(call, expected) check_status(__FILE__, __LINE__, #call, (call), (expected))
#define CHECK_OK(call) CHECK_STATUS(call, MMSB_OK)

static inline int check_status(const char *file, int line, const char *what, mmsb_status_t actual, mmsb_status_t expected) {
    if (actual != expected) {
        check_fail(file, line, "%s answered %d, expected %d%s%s", what, (int)actual, (int)expected,
                   actual == MMSB_OK ? "" : "; last error: ", actual == MMSB_OK ? "" : mmsb_last_error());
        return 0;
    }
    if (actual != MMSB_OK) {
        const char *text = mmsb_last_error();
        if (mmsb_last_error_code() != actual) {
            check_fail(file, line, "%s answered %d but mmsb_last_error_code is %d", what, (int)actual,
                       (int)mmsb_last_error_code());
        }
        if (text[0] == 0 || strchr(text, '\n') != NULL) {
            check_fail(file, line, "%s: the error text is not one line: \"%s\"", what, text);
        }
    }
    return 1;
}

#define REQUIRE_OK(call) REQUIRE((call) == MMSB_OK)

static inline uint64_t check_live(int32_t kind) {
    uint64_t count = UINT64_MAX;
    REQUIRE_OK(mmsb_debug_live_objects(kind, &count));
    return count;
}

/* Nothing may be left alive. Work whose ticket was given back unfinished may take a while to end; once something has leaked it
 * stays, and the tests after it do not wait for it again. */
static inline void check_nothing_lives(void) {
    static int leaked;
    const int64_t end = check_seconds() + (leaked ? 0 : CHECK_PATIENCE);
    static const int32_t kinds[] = {MMSB_KIND_PAGE,     MMSB_KIND_CONTEXT,  MMSB_KIND_TICKET,      MMSB_KIND_DELTA,
                                    MMSB_KIND_MEMORY,   MMSB_KIND_SNAPSHOT, MMSB_KIND_STREAM,      MMSB_KIND_BLOCK,
                                    MMSB_KIND_USE,      MMSB_KIND_RUNTIME,  MMSB_KIND_RESERVATION, MMSB_KIND_CAPTURE,
                                    MMSB_KIND_COMMANDS, MMSB_KIND_TENSOR};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int32_t kind = kinds[i];
        uint64_t left;
        while ((left = check_live(kind)) != 0 && check_seconds() < end) {
            check_sleep_ms(10);
        }
        if (left != 0) {
            leaked = 1;
            check_fail(__FILE__, __LINE__, "leak: %llu live objects of kind %d", (unsigned long long)left, (int)kind);
        }
    }
}

__attribute__((constructor)) static void library_is_checked(void) {
    check_at_end = check_nothing_lives;
    check_last_error = mmsb_last_error;
}

/* ------------------------------------------------------------------------------------------------------- helpers ---- */

static inline mmsb_context_t new_context(void) {
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(NULL, &context));
    return context;
}

static inline mmsb_page_t new_page(mmsb_context_t context, uint64_t size) {
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, size, NULL, &page));
    return page;
}

static inline mmsb_page_t new_disk_page(mmsb_context_t context, uint64_t size) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_DISK;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, size, &options, &page));
    return page;
}

/* A snapshot file of an empty context, opened for reading. The file is gone again: it lives as long as the handle. */
static inline mmsb_snapshot_t new_snapshot(void) {
    char path[] = "/tmp/mmsb-snapshot-XXXXXX";
    int descriptor = mkstemp(path);
    REQUIRE(descriptor >= 0);
    close(descriptor);
    mmsb_context_t context = new_context();
    REQUIRE_OK(mmsb_snapshot_save(context, path, NULL));
    REQUIRE_OK(mmsb_context_destroy(context));
    mmsb_snapshot_t snapshot = 0;
    REQUIRE_OK(mmsb_snapshot_open(path, &snapshot));
    REQUIRE(unlink(path) == 0);
    return snapshot;
}

static inline mmsb_context_t new_simulated_context(int32_t devices) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = MMSB_SIMULATE_ALWAYS;
    options.simulated_devices = devices;
    options.simulated_memory = 64 << 20;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    return context;
}

/* persistent: a kernel that stays on a device executes what it can. */
static inline mmsb_commands_t new_commands_with(int32_t workers, uint64_t capacity, int32_t persistent) {
    mmsb_commands_options_t options;
    mmsb_commands_options_init(&options);
    options.workers = workers;
    options.capacity = capacity;
    options.persistent = persistent;
    mmsb_commands_t commands = 0;
    REQUIRE_OK(mmsb_commands_create(&options, &commands));
    return commands;
}

static inline mmsb_commands_t new_commands(int32_t workers, uint64_t capacity) {
    return new_commands_with(workers, capacity, 0);
}

/* One of everything that there is of a device. */
typedef struct device_objects {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
    mmsb_block_t block;
    void *address; /* of the block's 4096 bytes */
    mmsb_use_t use;
    mmsb_reservation_t reservation;
    mmsb_capture_t capture; /* that has ended */
} device_objects_t;

static inline device_objects_t new_device_objects(void) {
    device_objects_t o = {.context = new_simulated_context(1)};
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    options.budget = 1 << 20;
    options.pool = "";
    REQUIRE_OK(mmsb_runtime_create(o.context, 0, &options, &o.runtime));
    REQUIRE_OK(mmsb_stream_create(o.runtime, 0, &o.stream));
    REQUIRE_OK(mmsb_capture_begin(&o.stream, 1, &o.capture));
    REQUIRE_OK(mmsb_capture_end(o.capture));
    REQUIRE_OK(mmsb_block_allocate(o.stream, 4096, 0, 0, &o.block, &o.address));
    const mmsb_access_t access = {.block = o.block, .access = MMSB_ACCESS_READ_WRITE};
    REQUIRE_OK(mmsb_use_begin(o.stream, &access, 1, &o.use, NULL));
    REQUIRE_OK(mmsb_reservation_create(o.runtime, 100, &o.reservation));
    return o;
}

/* Each by its own function; the context stays. */
static inline void end_device_objects(const device_objects_t *o) {
    REQUIRE_OK(mmsb_use_end(o->use));
    REQUIRE_OK(mmsb_reservation_destroy(o->reservation, NULL));
    REQUIRE_OK(mmsb_capture_destroy(o->capture));
    REQUIRE_OK(mmsb_block_free(o->block, 0, NULL));
    REQUIRE_OK(mmsb_stream_destroy(o->stream));
    REQUIRE_OK(mmsb_runtime_destroy(o->runtime));
}

static inline mmsb_page_info_t page_info(mmsb_page_t page) {
    mmsb_page_info_t info;
    mmsb_page_info_init(&info);
    REQUIRE_OK(mmsb_page_info(page, &info));
    return info;
}

static inline mmsb_context_stats_t context_stats(mmsb_context_t context) {
    mmsb_context_stats_t stats;
    mmsb_context_stats_init(&stats);
    REQUIRE_OK(mmsb_context_stats(context, &stats));
    return stats;
}

/* A pattern in which every byte depends on its place and on seed. */
static inline uint8_t pattern_byte(uint64_t seed, uint64_t offset) {
    return (uint8_t)((seed * 131 + offset * 7 + offset / 251) & 0xFF);
}

static inline void fill_pattern(uint8_t *bytes, uint64_t length, uint64_t seed) {
    for (uint64_t i = 0; i < length; i++) {
        bytes[i] = pattern_byte(seed, i);
    }
}

static inline void write_pattern(mmsb_page_t page, uint64_t seed) {
    uint64_t size = mmsb_page_size(page);
    uint8_t *bytes = malloc(size);
    REQUIRE(bytes != NULL);
    fill_pattern(bytes, size, seed);
    REQUIRE_OK(mmsb_page_write(page, 0, bytes, size));
    free(bytes);
}

/* Whether the page holds just these bytes. */
static inline int page_holds(mmsb_page_t page, const void *bytes, uint64_t length) {
    if (mmsb_page_size(page) != length) {
        return 0;
    }
    uint8_t *held = malloc(length);
    REQUIRE(held != NULL);
    int equal = mmsb_page_read(page, 0, held, length) == MMSB_OK && memcmp(held, bytes, length) == 0;
    free(held);
    return equal;
}

/* Whether the first length bytes are the pattern of seed. */
static inline int page_holds_pattern(mmsb_page_t page, uint64_t seed, uint64_t length) {
    uint8_t *bytes = malloc(length);
    uint8_t *held = malloc(length);
    REQUIRE(bytes != NULL && held != NULL);
    fill_pattern(bytes, length, seed);
    int equal = mmsb_page_read(page, 0, held, length) == MMSB_OK && memcmp(held, bytes, length) == 0;
    free(bytes);
    free(held);
    return equal;
}

/* A delta of one run. The run and the payload must live as long as it is used. */
static inline mmsb_delta_t one_run(const mmsb_run_t *run, const void *payload) {
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.runs = run;
    delta.count = 1;
    delta.payload = payload;
    return delta;
}

#endif /* MMSB_TESTS_LIBRARY_H */
