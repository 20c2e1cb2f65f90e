/*
 * soak SECONDS [SEED]: contexts, runtimes, snapshots, journals, stores, groups, tickets and threads that come and go, all mixed,
 * on several threads, beside a store that stays. Meanwhile what the process has is sampled: memory, descriptors, threads,
 * mappings, live objects, and what the store has: snapshots, and space on the disk. At the end each must be flat: the least value
 * of the last quarter against that of the second one. Whatever still grows is a leak, or is explained in the table of what is
 * sampled. The first sample is taken when each scene was played once and the store has saved by itself.
 */
#include "../c/library.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>

enum { WORKERS = 3, SAMPLES_MOST = 100000 };

static char folder[64] = "/tmp/mmsb-soak-XXXXXX";
static int64_t ends_at = INT64_MAX;
static mmsb_context_t lasting; /* a context that all threads use, from the beginning to the end */
enum { STORED = 200, STORED_BYTES = 16384 };
static mmsb_context_t store; /* and one that is kept in a store, with these pages */
static mmsb_page_t stored[STORED];

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ------------------------------------------------------------------------------------------------------- the scenes ---- */

/* What a scene has: random numbers, and a folder of its own. */
typedef struct scene {
    uint64_t random;
    char folder[128];
} scene_t;

static uint64_t below(scene_t *scene, uint64_t bound) {
    return random_below(&scene->random, bound);
}

static uint64_t a_size(scene_t *scene) {
    const uint64_t longest = UINT64_C(1) << below(scene, 21);
    return 1 + below(scene, longest);
}

static const char *in(const scene_t *scene, const char *name, char *path) {
    snprintf(path, 256, "%s/%s", scene->folder, name);
    return path;
}

static mmsb_page_t a_page(scene_t *scene, mmsb_context_t context, mmsb_location_t location) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = location;
    if (below(scene, 4) == 0)
        options.id = random_next(&scene->random) | 1;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, a_size(scene), &options, &page));
    return page;
}

static void change(scene_t *scene, mmsb_page_t page) {
    const uint64_t size = mmsb_page_size(page), bytes[32] = {random_next(&scene->random)};
    const uint64_t length = 1 + below(scene, size < sizeof bytes ? size : sizeof bytes), offset = below(scene, size - length + 1);
    switch (below(scene, 6)) {
    case 0: {
        const mmsb_run_t run = {offset, length};
        mmsb_delta_t delta;
        mmsb_delta_init(&delta);
        delta.kind = MMSB_DELTA_RUNS;
        delta.runs = &run;
        delta.count = 1;
        delta.payload = bytes;
        CHECK_OK(mmsb_page_apply(page, &delta));
        break;
    }
    case 1:
        CHECK_OK(mmsb_page_metadata_set(page, "name", 4, bytes, length));
        break;
    case 2:
        CHECK_OK(mmsb_page_resize(page, a_size(scene)));
        break;
    default:
        CHECK_OK(mmsb_page_write(page, offset, bytes, length));
    }
}

static mmsb_context_t a_context(scene_t *scene) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.disk_path = scene->folder;
    options.simulate = MMSB_SIMULATE_ALWAYS;
    options.simulated_memory = 64 << 20;
    options.guard_every = below(scene, 4) == 0 ? 3 : 0;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    return context;
}

/* Pages of all kinds; some are pinned when their context ends. */
static void pages_come_and_go(scene_t *scene) {
    enum { COUNT = 60 };
    mmsb_context_t context = a_context(scene);
    mmsb_page_t pages[COUNT];
    for (int i = 0; i < COUNT; i++) {
        pages[i] = a_page(scene, context, below(scene, 5) == 0 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU);
        change(scene, pages[i]);
        if (i > 0)
            CHECK_OK(mmsb_page_dependency_add(pages[i - 1], pages[i]));
    }
    for (int i = 0; i < 10; i++) {
        mmsb_page_t clone;
        CHECK_OK(mmsb_page_clone(pages[below(scene, COUNT)], 0, &clone));
    }
    CHECK_OK(mmsb_page_migrate(pages[below(scene, COUNT)], MMSB_LOCATION_GPU, 0));
    CHECK_OK(mmsb_group_begin(context));
    for (int i = 0; i < 10; i++)
        change(scene, pages[below(scene, COUNT)]);
    CHECK_OK(mmsb_page_destroy(pages[0]));
    CHECK_OK(below(scene, 2) ? mmsb_group_commit(context) : mmsb_group_rollback(context));
    mmsb_page_t pinned = pages[1 + below(scene, COUNT - 1)];
    const int32_t mode = below(scene, 2) ? MMSB_PIN_WRITE : MMSB_PIN_READ;
    CHECK_OK(mmsb_page_pin(pinned, mode, NULL));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_page_unpin(pinned, mode));
}

static void snapshots_come_and_go(scene_t *scene) {
    enum { COUNT = 30, CHAIN = 4 };
    char paths[CHAIN][256], other[256];
    mmsb_context_t context = a_context(scene), loaded;
    mmsb_page_t pages[COUNT];
    for (int i = 0; i < COUNT; i++)
        pages[i] = a_page(scene, context, MMSB_LOCATION_CPU);
    for (int i = 0; i < CHAIN; i++) {
        char name[16];
        mmsb_save_options_t options;
        mmsb_save_options_init(&options);
        options.not_durable = 1;
        options.compression = below(scene, 2) ? MMSB_COMPRESSION_ZSTD : MMSB_COMPRESSION_NONE;
        snprintf(name, sizeof name, "%d.mmsb", i);
        options.base = i > 0 ? paths[i - 1] : NULL;
        CHECK_OK(mmsb_snapshot_save(context, in(scene, name, paths[i]), &options));
        change(scene, pages[below(scene, COUNT)]);
    }
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.mode = below(scene, 2) ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER;
    loaded = a_context(scene);
    CHECK_OK(mmsb_snapshot_load(loaded, paths[CHAIN - 1], &load));
    CHECK_OK(mmsb_context_destroy(loaded));
    CHECK_OK(mmsb_snapshot_verify(paths[CHAIN - 1], NULL));
    mmsb_save_options_t compact;
    mmsb_save_options_init(&compact);
    compact.not_durable = 1;
    CHECK_OK(mmsb_snapshot_compact(paths[CHAIN - 1], in(scene, "whole.mmsb", other), &compact));
    void *memory = NULL;
    uint64_t length = 0;
    CHECK_OK(mmsb_snapshot_save_memory(context, NULL, &memory, &length));
    CHECK_OK(mmsb_snapshot_load_memory(context, memory, length, NULL));
    CHECK_OK(mmsb_snapshot_free_memory(memory));
    CHECK_OK(mmsb_context_destroy(context));
    for (int i = 0; i < CHAIN; i++)
        CHECK(unlink(paths[i]) == 0);
    CHECK(unlink(other) == 0);
}

static int removing(const char *path, const struct stat *file, int kind, struct FTW *where) {
    (void)file;
    (void)kind;
    (void)where;
    return remove(path);
}

static void journals_come_and_go(scene_t *scene) {
    enum { COUNT = 20 };
    char directory[256];
    in(scene, "journal", directory);
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    mmsb_context_t context = a_context(scene), loaded;
    mmsb_page_t pages[COUNT];
    CHECK_OK(mmsb_journal_open(context, directory, &options));
    for (int i = 0; i < COUNT; i++)
        pages[i] = a_page(scene, context, MMSB_LOCATION_CPU);
    for (int i = 0; i < 100; i++)
        change(scene, pages[below(scene, COUNT)]);
    CHECK_OK(mmsb_journal_close(context));
    CHECK_OK(mmsb_context_destroy(context));
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.journal = directory;
    loaded = a_context(scene);
    CHECK_OK(mmsb_snapshot_load(loaded, "", &load));
    CHECK_OK(mmsb_journal_open(loaded, directory, &options));
    CHECK_OK(mmsb_context_destroy(loaded));
    CHECK(nftw(directory, removing, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

static mmsb_context_t open_store(const char *directory, const char *at_name, int32_t mode, uint64_t save_bytes) {
    mmsb_store_options_t options;
    mmsb_store_options_init(&options);
    options.mode = mode;
    options.at_name = at_name;
    options.save_bytes = save_bytes;
    options.keep_last = 2;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_store_open(directory, NULL, &options, &context));
    return context;
}

static void stores_come_and_go(scene_t *scene) {
    enum { COUNT = 20 };
    char directory[256];
    in(scene, "store", directory);
    mmsb_context_t context = open_store(directory, NULL, MMSB_STORE_WRITE, 64 << 10);
    mmsb_page_t pages[COUNT];
    for (int i = 0; i < COUNT; i++)
        pages[i] = a_page(scene, context, MMSB_LOCATION_CPU);
    CHECK_OK(mmsb_store_name(context, "begin", NULL));
    CHECK_OK(mmsb_group_begin(context));
    for (int i = 0; i < 100; i++)
        change(scene, pages[below(scene, COUNT)]);
    CHECK_OK(mmsb_group_commit(context));
    CHECK_OK(mmsb_store_save(context, (int32_t)below(scene, 2), NULL));
    mmsb_context_t reader = open_store(directory, below(scene, 2) ? "begin" : NULL, MMSB_STORE_READ, 0);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_context_destroy(reader));
    context = open_store(directory, "begin", MMSB_STORE_BRANCH, MMSB_NEVER);
    a_page(scene, context, MMSB_LOCATION_CPU);
    CHECK_OK(mmsb_store_unname(context, "begin", NULL));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK(nftw(directory, removing, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

/* Changes of the store that stays, which is saved again and again. */
static void a_store_stays(scene_t *scene) {
    static const char *const names[] = {"one", "two", "three"};
    const uint64_t bytes[32] = {random_next(&scene->random)};
    for (int i = 0; i < 1000; i++)
        CHECK_OK(mmsb_page_write(stored[below(scene, STORED)], below(scene, STORED_BYTES - sizeof bytes), bytes, sizeof bytes));
    CHECK_OK(mmsb_group_begin(store));
    mmsb_page_t page = a_page(scene, store, MMSB_LOCATION_CPU);
    change(scene, page);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_OK(mmsb_group_commit(store));
    if (below(scene, 50) == 0)
        CHECK_OK(mmsb_store_name(store, names[below(scene, 3)], NULL));
}

/* Some blocks, streams and uses are left to the runtime's end. */
static void devices_come_and_go(scene_t *scene) {
    enum { STREAMS = 3, BLOCKS = 50 };
    mmsb_context_t context = a_context(scene);
    for (int round = 0; round < 3; round++) {
        mmsb_runtime_options_t options;
        mmsb_runtime_options_init(&options);
        options.log_events = below(scene, 2) * 1000;
        options.guard_every = below(scene, 2) * 3;
        options.budget = below(scene, 2) * (32 << 20);
        mmsb_runtime_t runtime;
        mmsb_stream_t streams[STREAMS];
        mmsb_block_t blocks[BLOCKS];
        REQUIRE_OK(mmsb_runtime_create(context, 0, &options, &runtime));
        for (int i = 0; i < STREAMS; i++)
            REQUIRE_OK(mmsb_stream_create(runtime, 0, &streams[i]));
        for (int i = 0; i < BLOCKS; i++) {
            void *address;
            mmsb_use_t use;
            const uint64_t size = 1 + below(scene, 100000);
            REQUIRE_OK(mmsb_block_allocate(streams[below(scene, STREAMS)], size, 0, 0, &blocks[i], &address));
            const mmsb_access_t access = {.block = blocks[i], .access = MMSB_ACCESS_WRITE};
            const mmsb_stream_t on = streams[below(scene, STREAMS)];
            CHECK_OK(mmsb_use_begin(on, &access, 1, &use, NULL));
            CHECK_OK(mmsb_stream_fill(on, address, 1, size));
            CHECK_OK(mmsb_use_end(use));
        }
        mmsb_ticket_t ticket;
        CHECK_OK(mmsb_stream_record(streams[0], &ticket));
        CHECK_OK(mmsb_stream_after(streams[1], ticket));
        CHECK_OK(mmsb_ticket_destroy(ticket));
        for (int i = 0; i < BLOCKS - 5; i++)
            CHECK_OK(mmsb_block_free(blocks[i], below(scene, 2) ? streams[below(scene, STREAMS)] : 0, NULL));
        CHECK_OK(mmsb_stream_destroy(streams[2]));
        CHECK_OK(mmsb_runtime_destroy(runtime));
    }
    for (int i = 0; i < 5; i++)
        change(scene, a_page(scene, context, MMSB_LOCATION_GPU));
    CHECK_OK(mmsb_context_destroy(context));
}

static void tickets_come_and_go(scene_t *scene) {
    enum { COUNT = 500 };
    static __thread mmsb_page_t pages[COUNT];
    mmsb_context_t context = a_context(scene);
    for (int i = 0; i < 5; i++) {
        mmsb_ticket_t ticket;
        int32_t descriptor;
        CHECK_OK(mmsb_page_create_many_start(context, 5000, COUNT, NULL, NULL, pages, &ticket));
        CHECK_OK(mmsb_ticket_eventfd(ticket, &descriptor));
        if (below(scene, 2))
            CHECK_OK(mmsb_ticket_cancel(ticket));
        (void)mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER); /* done, or cancelled */
        CHECK_OK(mmsb_ticket_destroy(ticket));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* Some buffers end with commands that wait, and pages before theirs. */
static void commands_come_and_go(scene_t *scene) {
    enum { COUNT = 200 };
    mmsb_context_t context = a_context(scene);
    mmsb_commands_options_t options;
    mmsb_commands_options_init(&options);
    options.workers = (int32_t)below(scene, 3);
    options.capacity = 64;
    mmsb_commands_t commands;
    mmsb_page_t pages[20];
    CHECK_OK(mmsb_commands_create(&options, &commands));
    CHECK_OK(mmsb_page_create_many(context, 128, 20, NULL, NULL, pages));
    for (int i = 0; i < 20; i++)
        CHECK_OK(mmsb_page_write(pages[i], 0, pages, 128));
    for (int i = 0; i < COUNT; i++) {
        const uint64_t page = 1 + below(scene, 19);
        mmsb_status_t status = mmsb_commands_enqueue(commands, pages[page], pages, page - 1 < 10 ? 1 : 10, 0);
        CHECK(status == MMSB_OK || status == MMSB_E_WOULD_BLOCK || status == MMSB_E_INVALID_ARGUMENT);
        if (i % 50 == 49 && options.workers == 0)
            CHECK_OK(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER));
    }
    if (below(scene, 2))
        CHECK_OK(mmsb_page_destroy_many(pages, 20, NULL));
    if (below(scene, 2))
        CHECK_OK(mmsb_commands_close(commands, (int32_t)below(scene, 2), MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(context));
}

static void *use_for_a_while(void *argument) {
    scene_t scene = {.random = (uint64_t)(uintptr_t)argument};
    mmsb_page_t pages[20];
    for (int i = 0; i < 20; i++)
        change(&scene, pages[i] = a_page(&scene, lasting, MMSB_LOCATION_CPU));
    CHECK_OK(mmsb_page_destroy_many(pages, 20, NULL));
    return NULL;
}

static void threads_come_and_go(scene_t *scene) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use_for_a_while, (void *)(uintptr_t)random_next(&scene->random)) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void (*const scenes[])(scene_t *) = {pages_come_and_go,   snapshots_come_and_go, journals_come_and_go,
                                            devices_come_and_go, tickets_come_and_go,   threads_come_and_go,
                                            stores_come_and_go,  a_store_stays,         commands_come_and_go};
enum { SCENES = sizeof scenes / sizeof scenes[0] };
static uint64_t played[SCENES];
static double rests; /* a worker rests so many times as long as a scene took */

static void *work(void *argument) {
    scene_t scene = {.random = (uint64_t)(uintptr_t)argument};
    snprintf(scene.folder, sizeof scene.folder, "%s/%llu", folder, (unsigned long long)random_next(&scene.random));
    REQUIRE(mkdir(scene.folder, 0700) == 0);
    for (uint64_t round = 0; check_seconds() < __atomic_load_n(&ends_at, __ATOMIC_RELAXED); round++) {
        const uint64_t which = round < SCENES ? round : below(&scene, SCENES); /* each once, first */
        const double begin = seconds();
        scenes[which](&scene);
        __atomic_add_fetch(&played[which], 1, __ATOMIC_RELAXED);
        const long rest = (long)((seconds() - begin) * rests * 1000);
        if (rest > 0)
            check_sleep_ms(rest);
    }
    CHECK(rmdir(scene.folder) == 0);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------ the samples ---- */

typedef struct sampled {
    const char *name;
    double factor; /* the last quarter's least value may be so many times the second one's … */
    uint64_t more; /* … and so much more */
} sampled_t;

/*
 * What may be more, and why:
 *   rss, go heap   Go's garbage is collected when the heap has doubled; glibc keeps memory of threads in arenas
 *   page bytes     regions of contexts that live at the moment
 *   record bytes   leaves are never given back: as many as lived at one time
 *   cache bytes    magazines likewise
 *   threads, maps  Go keeps threads that once waited together, each with its mappings
 *   store bytes    what the journal has grown since the last save, and a whole save that the others wait for
 */
static const sampled_t table[] = {{"rss", 1.15, 16 << 20},
                                  {"page bytes", 1.1, 32 << 20},
                                  {"record bytes", 1.1, 1 << 20},
                                  {"mask bytes", 1.1, 1 << 20},
                                  {"metadata bytes", 1.1, 1 << 20},
                                  {"cache bytes", 1.2, 2 << 20},
                                  {"disk bytes", 1.1, 64 << 20},
                                  {"go heap", 1.2, 16 << 20},
                                  {"descriptors", 1, 8},
                                  {"threads", 1.1, 4},
                                  {"maps", 1.15, 40},
                                  {"pages", 1, 2000},
                                  {"contexts", 1, 3},
                                  {"tickets", 1, 2},
                                  {"deltas", 1, 0},
                                  {"memory", 1, 4},
                                  {"snapshots", 1, 2},
                                  {"streams", 1, 20},
                                  {"blocks", 1, 200},
                                  {"uses", 1, 4},
                                  {"runtimes", 1, 6},
                                  {"reservations", 1, 0},
                                  {"captures", 1, 0},
                                  {"command buffers", 1, 4},
                                  {"store bytes", 1.1, 16 << 20},
                                  {"store snapshots", 1, 8}};
enum { SAMPLED = sizeof table / sizeof table[0] };

static uint64_t lines_of(const char *path) {
    char text[1024];
    uint64_t lines = 0;
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL);
    while (fgets(text, sizeof text, file))
        lines += strchr(text, '\n') != NULL;
    fclose(file);
    return lines;
}

static uint64_t status_of(const char *name) {
    char text[256];
    unsigned long long value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    REQUIRE(file != NULL);
    while (fgets(text, sizeof text, file)) {
        if (strncmp(text, name, strlen(name)) == 0)
            sscanf(text + strlen(name), ": %llu", &value);
    }
    fclose(file);
    return value;
}

static uint64_t descriptors(void) {
    uint64_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    REQUIRE(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count - 3;
}

static void sample(uint64_t *values) {
    static const int32_t kinds[] = {MMSB_KIND_PAGE,    MMSB_KIND_CONTEXT,  MMSB_KIND_TICKET,      MMSB_KIND_DELTA,
                                    MMSB_KIND_MEMORY,  MMSB_KIND_SNAPSHOT, MMSB_KIND_STREAM,      MMSB_KIND_BLOCK,
                                    MMSB_KIND_USE,     MMSB_KIND_RUNTIME,  MMSB_KIND_RESERVATION, MMSB_KIND_CAPTURE,
                                    MMSB_KIND_COMMANDS};
    mmsb_memory_usage_t usage;
    mmsb_memory_usage_init(&usage);
    REQUIRE_OK(mmsb_memory_usage(&usage));
    const uint64_t first[] = {status_of("VmRSS") << 10, usage.page_bytes,           usage.record_bytes,
                              usage.mask_bytes,         usage.metadata_bytes,       usage.cache_bytes,
                              usage.disk_bytes,         usage.go_heap_bytes,        descriptors(),
                              status_of("Threads"),     lines_of("/proc/self/maps")};
    memcpy(values, first, sizeof first);
    uint64_t *next = values + sizeof first / sizeof first[0];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        *next++ = check_live(kinds[i]);
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    REQUIRE_OK(mmsb_store_info(store, &info));
    *next++ = info.snapshot_bytes + info.journal_bytes;
    *next++ = info.snapshots;
}

/* Whether everything has happened once, after which nothing is taken for the first time: each scene, and a save of the store. */
static int has_begun(void) {
    for (int i = 0; i < SCENES; i++) {
        if (__atomic_load_n(&played[i], __ATOMIC_RELAXED) == 0)
            return 0;
    }
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    REQUIRE_OK(mmsb_store_info(store, &info));
    return info.saves > 0;
}

static uint64_t samples[SAMPLES_MOST][SAMPLED];

static uint64_t least(int from, int to, int of) {
    uint64_t found = UINT64_MAX;
    for (int i = from; i < to; i++)
        found = samples[i][of] < found ? samples[i][of] : found;
    return found;
}

static uint64_t most(int from, int to, int of) {
    uint64_t found = 0;
    for (int i = from; i < to; i++)
        found = samples[i][of] > found ? samples[i][of] : found;
    return found;
}

/* Ended pages keep their memory for 5 to 10 s: of it a run of some seconds tells only whether it grows without end. A store has
 * its first names only after some seconds, too, and then so many bytes more. */
enum { TELLS_OF_MEMORY = 60 };
static const double SHORT_FACTOR = 2, SHORT_MORE = 256 << 20;

static const double SHORT_STORE = 32 << 20;

static int is_of_pages(const char *name) {
    return strcmp(name, "rss") == 0 || strcmp(name, "page bytes") == 0;
}

static void everything_is_flat(int count, double lasted) {
    printf("%-16s %14s %14s %14s %14s\n", "", "2nd quarter", "3rd quarter", "4th quarter", "most of all");
    for (int i = 0; i < SAMPLED; i++) {
        const uint64_t before = least(count / 4, count / 2, i), after = least(count * 3 / 4, count, i);
        printf("%-16s %14llu %14llu %14llu %14llu\n", table[i].name, (unsigned long long)before,
               (unsigned long long)least(count / 2, count * 3 / 4, i), (unsigned long long)after,
               (unsigned long long)most(0, count, i));
        const int wide = lasted < TELLS_OF_MEMORY && is_of_pages(table[i].name);
        const int young = lasted < TELLS_OF_MEMORY && strcmp(table[i].name, "store bytes") == 0;
        const double factor = wide ? SHORT_FACTOR : table[i].factor;
        const double more = wide ? SHORT_MORE : young ? SHORT_STORE : (double)table[i].more;
        if ((double)after > (double)before * factor + more)
            check_fail(__FILE__, __LINE__, "%s grows: at least %llu in the second quarter, %llu in the last", table[i].name,
                       (unsigned long long)before, (unsigned long long)after);
    }
}

int main(int count, char **arguments) {
    const double lasts = count > 1 ? atof(arguments[1]) : 20;
    uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 0) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;
    printf("soak of %.0f s, seed %llu\n", lasts, (unsigned long long)seed);
    const int workers = lasts < 60 ? 1 : WORKERS;
    rests = lasts < 60 ? 1 : 0;
    /* Every 10 s; often enough in a short one for quarters to have some. */
    const double every = lasts / 40 < 10 ? lasts / 40 : 10;
    REQUIRE(mkdtemp(folder) != NULL);
    lasting = new_context();
    char directory[128];
    snprintf(directory, sizeof directory, "%s/store", folder);
    store = open_store(directory, NULL, MMSB_STORE_WRITE, lasts < 60 ? 1 << 20 : 4 << 20);
    REQUIRE_OK(mmsb_page_create_many(store, STORED_BYTES, STORED, NULL, NULL, stored));
    check_begin("everything is flat");
    pthread_t threads[WORKERS];
    for (int i = 0; i < workers; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)random_next(&seed)) == 0);
    while (!has_begun())
        check_sleep_ms(20);
    const int64_t ends = check_seconds() + (int64_t)lasts;
    __atomic_store_n(&ends_at, ends, __ATOMIC_RELAXED);
    int taken = 0;
    for (double next = seconds(); check_seconds() < ends && taken < SAMPLES_MOST; next += every) {
        sample(samples[taken++]);
        const double left = next + every - seconds();
        if (left > 0)
            check_sleep_ms((long)(left * 1000));
    }
    for (int i = 0; i < workers; i++)
        pthread_join(threads[i], NULL);
    REQUIRE_OK(mmsb_context_destroy(lasting));
    REQUIRE_OK(mmsb_context_destroy(store));
    CHECK(nftw(directory, removing, 8, FTW_DEPTH | FTW_PHYS) == 0);
    everything_is_flat(taken, lasts);
    printf("played:");
    for (int i = 0; i < SCENES; i++)
        printf(" %llu", (unsigned long long)played[i]);
    printf(" scenes, %d samples\n", taken);
    check_end(); /* and nothing lives */
    CHECK(rmdir(folder) == 0);
    return check_report();
}
