/* Each step makes what it needs, looks at the bytes, and gives everything back: work.h. */
#include "work.h"

#include <mmsb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRY(call) \
    do { \
        const mmsb_status_t tried = (call); \
        if (tried != MMSB_OK) \
            return named(tried); \
    } while (0)
#define HOLD(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "not true: %s\n", #condition); \
            return WRONG; \
        } \
    } while (0)

/* A status with a text that says what it is about. */
static int named(mmsb_status_t status) {
    const char *text = mmsb_last_error();
    fprintf(stderr, "%s: %s\n", mmsb_strerror(status), text);
    const int nameless = status == MMSB_E_INTERNAL || status == MMSB_E_POISONED || status != mmsb_last_error_code() ||
                         text[0] == 0 || strchr(text, '\n') != NULL;
    return nameless ? WRONG : (int)status;
}

int capability(const char *name) {
    mmsb_capability_t all[64];
    size_t count = 0;
    if (mmsb_capabilities(all, 64, &count) != MMSB_OK)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, name) == 0 && all[i].reason[0] != 0)
            return all[i].available;
    }
    return -1;
}

static const uint64_t sizes[] = {1, 64, 4096, 5000, 300000, 5 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], LONGEST = 5 << 20 };
static uint8_t pattern[LONGEST], found[LONGEST];

static const uint8_t *bytes_of(uint64_t seed, uint64_t size) {
    uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
    for (uint64_t i = 0; i < size; i += 8) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        memcpy(pattern + i, &state, size - i < 8 ? size - i : 8);
    }
    return pattern;
}

static int holds(mmsb_page_t page, uint64_t seed, uint64_t size) {
    TRY(mmsb_page_read(page, 0, found, size));
    HOLD(memcmp(found, bytes_of(seed, size), size) == 0);
    return 0;
}

static int make_pages(mmsb_context_t context, int32_t location, mmsb_page_t *pages) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = location;
    for (int i = 0; i < SIZES; i++) {
        options.id = (uint64_t)i + 1;
        TRY(mmsb_page_create(context, sizes[i], &options, &pages[i]));
        TRY(mmsb_page_write(pages[i], 0, bytes_of((uint64_t)i, sizes[i]), sizes[i]));
    }
    return 0;
}

static int hold_pages(mmsb_context_t context) {
    for (int i = 0; i < SIZES; i++) {
        mmsb_page_t page;
        TRY(mmsb_page_lookup(context, (uint64_t)i + 1, &page));
        TRY(holds(page, (uint64_t)i, sizes[i]));
    }
    return 0;
}

/* Runs a step's work on a context of its own, which ends whatever comes of it. */
static int in_context(const mmsb_context_options_t *options, const char *folder,
                      int (*work)(mmsb_context_t context, const char *folder)) {
    mmsb_context_t context;
    TRY(mmsb_context_create(options, &context));
    const int result = work(context, folder);
    const mmsb_status_t ended = mmsb_context_destroy(context);
    return result != 0 ? result : ended != MMSB_OK ? named(ended) : 0;
}

static int do_start(mmsb_context_t context, const char *folder) {
    (void)folder;
    HOLD(mmsb_build_info()[0] != 0);
    HOLD(capability("simulated device") == 1);
    uint64_t count = 1;
    TRY(mmsb_context_page_count(context, &count));
    HOLD(count == 0);
    return 0;
}

static int do_pages(mmsb_context_t context, const char *folder) {
    (void)folder;
    mmsb_page_t pages[SIZES], clone;
    TRY(make_pages(context, MMSB_LOCATION_CPU, pages));
    TRY(hold_pages(context));
    uint8_t *address;
    TRY(mmsb_page_pin(pages[3], MMSB_PIN_WRITE, (void **)&address));
    HOLD(memcmp(address, bytes_of(3, 5000), 5000) == 0);
    TRY(mmsb_page_unpin(pages[3], MMSB_PIN_WRITE));
    TRY(mmsb_page_metadata_set(pages[3], "key", 3, "value", 5));
    TRY(mmsb_page_dependency_add(pages[3], pages[4]));
    TRY(mmsb_page_clone(pages[5], 0, &clone));
    TRY(holds(clone, 5, LONGEST));
    TRY(mmsb_page_resize(pages[5], LONGEST * 2));
    TRY(mmsb_page_resize(pages[5], LONGEST));
    TRY(holds(pages[5], 5, LONGEST));
    mmsb_page_t many[1000];
    TRY(mmsb_page_create_many(context, 100, 1000, NULL, NULL, many));
    TRY(mmsb_page_destroy_many(many, 1000, NULL));
    return 0;
}

static int do_deltas(mmsb_context_t context, const char *folder) {
    (void)folder;
    for (int i = 0; i < SIZES; i++) {
        mmsb_page_t page;
        TRY(mmsb_page_create(context, sizes[i], NULL, &page));
        const mmsb_run_t run = {0, sizes[i]};
        mmsb_delta_t delta;
        mmsb_delta_init(&delta);
        delta.kind = MMSB_DELTA_RUNS;
        delta.runs = &run;
        delta.count = 1;
        delta.payload = bytes_of(7, sizes[i]);
        TRY(mmsb_page_apply(page, &delta));
        TRY(holds(page, 7, sizes[i]));
    }
    TRY(mmsb_group_begin(context));
    mmsb_page_t page;
    TRY(mmsb_page_create(context, 5000, NULL, &page));
    TRY(mmsb_group_rollback(context));
    HOLD(mmsb_page_size(page) == 0);
    return 0;
}

static int do_disk(mmsb_context_t context, const char *folder) {
    (void)folder;
    mmsb_page_t pages[SIZES];
    TRY(make_pages(context, MMSB_LOCATION_DISK, pages));
    TRY(hold_pages(context));
    for (int i = 0; i < SIZES; i++) {
        uint8_t *address;
        TRY(mmsb_page_pin(pages[i], MMSB_PIN_WRITE, (void **)&address));
        address[0] ^= 1;
        TRY(mmsb_page_unpin(pages[i], MMSB_PIN_WRITE));
        uint8_t first = 0;
        TRY(mmsb_page_read(pages[i], 0, &first, 1));
        HOLD(first == (bytes_of((uint64_t)i, 1)[0] ^ 1));
    }
    TRY(mmsb_page_migrate(pages[5], MMSB_LOCATION_CPU, 0));
    TRY(mmsb_page_migrate(pages[4], MMSB_LOCATION_CPU, 0));
    TRY(mmsb_page_migrate(pages[4], MMSB_LOCATION_DISK, 0));
    TRY(mmsb_context_trim(context, NULL));
    return 0;
}

static int load_from(const char *file, const char *journal, int32_t mode) {
    mmsb_context_t context;
    TRY(mmsb_context_create(NULL, &context));
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.mode = mode;
    options.journal = journal;
    mmsb_status_t status = mmsb_snapshot_load(context, file, &options);
    int result = status != MMSB_OK ? named(status) : hold_pages(context);
    status = mmsb_context_destroy(context);
    return result != 0 ? result : status != MMSB_OK ? named(status) : 0;
}

static int do_save(mmsb_context_t context, const char *folder) {
    mmsb_page_t pages[SIZES];
    TRY(make_pages(context, MMSB_LOCATION_CPU, pages));
    char first[512], second[512];
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    TRY(mmsb_page_write(pages[5], 0, "?", 1));
    TRY(mmsb_snapshot_save(context, first, NULL));
    uint8_t *address = mmsb_page_address(pages[5]); /* behind the back of the library: tracked, or compared */
    HOLD(address != NULL);
    address[0] = bytes_of(5, 1)[0];
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.base = first;
    TRY(mmsb_snapshot_save(context, second, &options));
    TRY(mmsb_snapshot_verify(second, NULL));
    for (int mode = MMSB_LOAD_EAGER; mode <= MMSB_LOAD_LAZY; mode++) {
        const int result = load_from(second, NULL, mode);
        if (result != 0)
            return result;
    }
    void *memory = NULL;
    uint64_t length = 0;
    TRY(mmsb_snapshot_save_memory(context, NULL, &memory, &length));
    const mmsb_status_t loaded = mmsb_snapshot_load_memory(context, memory, length, NULL);
    TRY(mmsb_snapshot_free_memory(memory));
    if (loaded != MMSB_OK)
        return named(loaded);
    return hold_pages(context);
}

static int do_journal(mmsb_context_t context, const char *folder) {
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    options.durability = MMSB_DURABILITY_CALL;
    char directory[512];
    snprintf(directory, sizeof directory, "%s/journal", folder);
    TRY(mmsb_journal_open(context, directory, &options));
    mmsb_page_t pages[SIZES];
    TRY(make_pages(context, MMSB_LOCATION_CPU, pages));
    TRY(mmsb_journal_sync(context, NULL));
    TRY(mmsb_journal_close(context));
    return load_from("", directory, MMSB_LOAD_EAGER);
}

/* A store with durability call, with or without a state of its own. */
static int with_store(const char *directory, int32_t mode, const char *at_name, int (*work)(mmsb_context_t context)) {
    mmsb_store_options_t options;
    mmsb_store_options_init(&options);
    options.mode = mode;
    options.at_name = at_name;
    options.durability = MMSB_DURABILITY_CALL;
    mmsb_context_t context;
    TRY(mmsb_store_open(directory, NULL, &options, &context));
    const int result = work(context);
    const mmsb_status_t status = mmsb_context_destroy(context);
    return result != 0 ? result : status != MMSB_OK ? named(status) : 0;
}

static int fill_store(mmsb_context_t context) {
    mmsb_page_t pages[SIZES];
    TRY(make_pages(context, MMSB_LOCATION_CPU, pages));
    TRY(mmsb_page_write(pages[5], 0, "?", 1));
    TRY(mmsb_store_name(context, "before", NULL));
    TRY(mmsb_page_write(pages[5], 0, bytes_of(5, 1), 1));
    return 0;
}

static int before(mmsb_context_t context) {
    return hold_pages(context) == WRONG ? 0 : WRONG;
}

/* What a store gives to who reads, and to who follows it. */
static int read_store(const char *directory) {
    int result = with_store(directory, MMSB_STORE_READ, NULL, hold_pages);
    if (result == 0)
        result = with_store(directory, MMSB_STORE_FOLLOW, NULL, hold_pages);
    return result != 0 ? result : with_store(directory, MMSB_STORE_READ, "before", before);
}

int make_store(const char *folder) {
    char directory[512];
    snprintf(directory, sizeof directory, "%s/kept", folder);
    return with_store(directory, MMSB_STORE_WRITE, NULL, fill_store);
}

static int step_store(const char *folder) {
    char directory[512];
    snprintf(directory, sizeof directory, "%s/kept", folder);
    const int made = access(directory, F_OK) == 0;
    const int result = made ? with_store(directory, MMSB_STORE_WRITE, NULL, hold_pages) : make_store(folder);
    if (made && result != MMSB_E_IO) /* on media that are read-only */
        return result != 0 ? result : WRONG;
    return !made && result != 0 ? result : read_store(directory);
}

static int do_device(mmsb_context_t context, const char *folder) {
    (void)folder;
    mmsb_page_t pages[SIZES];
    TRY(make_pages(context, MMSB_LOCATION_GPU, pages));
    TRY(hold_pages(context));
    TRY(mmsb_page_migrate(pages[3], MMSB_LOCATION_CPU, 0));
    TRY(holds(pages[3], 3, 5000));
    mmsb_runtime_t runtime;
    mmsb_stream_t stream;
    mmsb_block_t block;
    void *address;
    TRY(mmsb_runtime_create(context, 0, NULL, &runtime));
    TRY(mmsb_stream_create(runtime, 0, &stream));
    TRY(mmsb_block_allocate(stream, 100000, 0, 0, &block, &address));
    TRY(mmsb_stream_fill(stream, address, 7, 100000));
    TRY(mmsb_stream_copy(stream, found, address, 100000));
    TRY(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER));
    HOLD(found[0] == 7 && found[99999] == 7);
    TRY(mmsb_block_free(block, 0, NULL));
    TRY(mmsb_runtime_destroy(runtime));
    return 0;
}

static int do_tickets(mmsb_context_t context, const char *folder) {
    (void)folder;
    mmsb_page_t pages[100];
    mmsb_ticket_t ticket;
    int32_t descriptor;
    TRY(mmsb_page_create_many_start(context, 5000, 100, NULL, NULL, pages, &ticket));
    TRY(mmsb_ticket_eventfd(ticket, &descriptor));
    HOLD(poll(&(struct pollfd){.fd = descriptor, .events = POLLIN}, 1, 60000) == 1);
    TRY(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    TRY(mmsb_ticket_destroy(ticket));
    return 0;
}

static mmsb_context_t shared;

static void *use_pages(void *result) {
    for (int i = 0; i < 200; i++) {
        mmsb_page_t page;
        uint64_t now = 0;
        if (mmsb_page_create(shared, i % 2 ? 64 : 9000, NULL, &page) != MMSB_OK ||
            mmsb_page_write(page, 8, &i, sizeof i) != MMSB_OK || mmsb_page_read(page, 8, &now, sizeof i) != MMSB_OK ||
            mmsb_page_destroy(page) != MMSB_OK || now != (uint64_t)i) {
            *(int *)result = mmsb_last_error_code() != MMSB_OK ? named(mmsb_last_error_code()) : WRONG;
            return NULL;
        }
    }
    return NULL;
}

static int do_threads(mmsb_context_t context, const char *folder) {
    (void)folder;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int results[THREADS] = {0}, made = 0;
    shared = context;
    while (made < THREADS && pthread_create(&threads[made], NULL, use_pages, &results[made]) == 0)
        made++; /* the program's own threads are its own affair */
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < made; i++) {
        if (results[i] != 0)
            return results[i];
    }
    return 0;
}

static int plain(const char *folder, int (*work)(mmsb_context_t, const char *)) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.disk_path = folder;
    options.simulate = MMSB_SIMULATE_ALWAYS;
    options.simulated_memory = 64 << 20;
    return in_context(&options, folder, work);
}

#define STEP(name) \
    static int step_##name(const char *folder) { \
        return plain(folder, do_##name); \
    }
STEP(start)
STEP(pages)
STEP(deltas)
STEP(disk)
STEP(save)
STEP(journal)
STEP(device)
STEP(tickets)
STEP(threads)

const step_t steps[] = {{"start", step_start},     {"pages", step_pages},     {"deltas", step_deltas}, {"disk", step_disk},
                        {"save", step_save},       {"journal", step_journal}, {"store", step_store},   {"device", step_device},
                        {"tickets", step_tickets}, {"threads", step_threads}};
const int step_count = sizeof steps / sizeof steps[0];
