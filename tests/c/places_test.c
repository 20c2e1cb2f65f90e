/* Pages at every location: host, devices, pinned and managed memory, disk. A page can do the same wherever it lies; its twin on
 * the host says what must come out. */
#include "folder.h"

#include <signal.h>
#include <sys/wait.h>

typedef struct place {
    mmsb_location_t location;
    int32_t device;
} place_t;

/* On two simulated devices; with MMSB_TEST_GPU in the environment on GPU 0. MMSB_TEST_GPU=stand-in is for a stand-in of the
 * driver's library, whose devices have host memory: the host may touch it. */
static const place_t simulated_places[] = {{MMSB_LOCATION_CPU, 0},     {MMSB_LOCATION_GPU, 0},     {MMSB_LOCATION_GPU, 1},
                                           {MMSB_LOCATION_UNIFIED, 0}, {MMSB_LOCATION_UNIFIED, 1}, {MMSB_LOCATION_PINNED, 0},
                                           {MMSB_LOCATION_DISK, 0}},
                     gpu_places[] = {{MMSB_LOCATION_CPU, 0},
                                     {MMSB_LOCATION_GPU, 0},
                                     {MMSB_LOCATION_UNIFIED, 0},
                                     {MMSB_LOCATION_PINNED, 0},
                                     {MMSB_LOCATION_DISK, 0}};
#define MOST_PLACES (sizeof simulated_places / sizeof simulated_places[0])
static const place_t *places = simulated_places;
static size_t place_count = MOST_PLACES;
static int simulated = 1, stands_in = 0;

static mmsb_context_t device_context(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = simulated ? MMSB_SIMULATE_ALWAYS : MMSB_SIMULATE_OFF;
    options.simulated_devices = 2;
    options.simulated_memory = 64 << 20;
    mmsb_context_t context;
    REQUIRE(mmsb_context_create(&options, &context) == MMSB_OK);
    return context;
}

static mmsb_page_t page_at(mmsb_context_t context, uint64_t size, place_t place) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = place.location;
    options.device = place.device;
    mmsb_page_t page = 0;
    CHECK_OK(mmsb_page_create(context, size, &options, &page));
    return page;
}

static int is_at(mmsb_page_t page, place_t place) {
    mmsb_page_info_t info = page_info(page);
    int device = place.location != MMSB_LOCATION_CPU && place.location != MMSB_LOCATION_DISK;
    return info.location == place.location && info.device == place.device && info.simulated == (device && simulated);
}

/* Bytes, change mask, epoch, version and metadata of two pages. */
static void check_same(mmsb_page_t page, mmsb_page_t twin, int line) {
    uint64_t size = mmsb_page_size(twin);
    uint8_t *bytes = malloc(2 * size), *mask = calloc(2, size / 8 + 1);
    int good = mmsb_page_size(page) == size && mmsb_page_read(page, 0, bytes, size) == MMSB_OK &&
               mmsb_page_read(twin, 0, bytes + size, size) == MMSB_OK && memcmp(bytes, bytes + size, size) == 0;
    if (!good)
        check_fail(__FILE__, line, "the bytes differ: %s", mmsb_last_error());
    good = mmsb_page_mask_read(page, 0, mask, size) == MMSB_OK &&
           mmsb_page_mask_read(twin, 0, mask + size / 8 + 1, size) == MMSB_OK &&
           memcmp(mask, mask + size / 8 + 1, size / 8 + 1) == 0;
    if (!good)
        check_fail(__FILE__, line, "the masks differ: %s", mmsb_last_error());
    if (mmsb_page_epoch(page) != mmsb_page_epoch(twin))
        check_fail(__FILE__, line, "epoch %llu, not %llu", (unsigned long long)mmsb_page_epoch(page),
                   (unsigned long long)mmsb_page_epoch(twin));
    free(bytes);
    free(mask);
}
#define CHECK_SAME(page, twin) check_same(page, twin, __LINE__)

static uint8_t noise[300000];

/* One delta of each kind, also in orders that no kernel takes as they are. */
static void apply_all(mmsb_page_t page, uint64_t size, unsigned seed) {
    uint8_t *mask = malloc(size), *bits = calloc(1, size / 8 + 1);
    uint64_t *offsets = malloc(64 * sizeof *offsets);
    uint32_t offsets32[40];
    uint64_t set = 0;
    for (uint64_t i = 0; i < size; i++) {
        mask[i] = rand_r(&seed) % 3 == 0;
        set += mask[i];
        bits[i / 8] |= (uint8_t)(mask[i] << i % 8);
    }
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_DENSE_BYTES;
    delta.mask = mask;
    delta.mask_length = size;
    delta.payload = noise + seed % 100;
    CHECK_OK(mmsb_page_apply(page, &delta));
    delta.kind = MMSB_DELTA_DENSE_BITS;
    delta.mask = bits;
    delta.mask_length = size - size / 3;
    delta.payload = noise + seed % 101;
    CHECK_OK(mmsb_page_apply(page, &delta));
    delta.kind = MMSB_DELTA_SPARSE_BITS;
    delta.mask_length = size;
    delta.payload_length = set;
    CHECK_OK(mmsb_page_apply(page, &delta));
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_INDEXED;
    delta.payload = noise + seed % 102;
    for (int rising = 0; rising < 2; rising++) {
        uint64_t count = size < 64 ? size : 64;
        for (uint64_t i = 0; i < count; i++)
            offsets[i] = rising ? i * (size / count) : (uint64_t)rand_r(&seed) % size;
        delta.offsets = offsets;
        delta.offsets32 = NULL;
        delta.count = count;
        CHECK_OK(mmsb_page_apply(page, &delta));
        delta.offsets = NULL;
        delta.offsets32 = offsets32;
        delta.count = count < 40 ? count : 40;
        for (uint64_t i = 0; i < delta.count; i++)
            offsets32[i] = (uint32_t)offsets[i];
        CHECK_OK(mmsb_page_apply(page, &delta));
    }
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.payload = noise + seed % 103;
    mmsb_run_t apart[3] = {{0, size / 4}, {size / 4, 0}, {size / 2, size / 3}},
               over[3] = {{size / 2, size / 2}, {size / 3, size / 3}, {0, size / 2}}, one = {size / 5, size / 2};
    delta.count = 3;
    delta.runs = apart;
    CHECK_OK(mmsb_page_apply(page, &delta));
    delta.runs = over;
    CHECK_OK(mmsb_page_apply(page, &delta));
    delta.count = 1;
    delta.runs = &one;
    delta.epoch = mmsb_page_epoch(page) + 5;
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_EPOCH);
    delta.epoch = 0;
    delta.count = 0; /* no byte, but the epoch moves */
    CHECK_OK(mmsb_page_apply(page, &delta));
    free(mask);
    free(bits);
    free(offsets);
}

static void work_at(mmsb_context_t context, place_t place, uint64_t size) {
    mmsb_page_t page = page_at(context, size, place), twin = new_page(context, size);
    CHECK(is_at(page, place));
    CHECK_SAME(page, twin); /* zero */
    mmsb_page_t both[] = {page, twin};
    for (int i = 0; i < 2; i++) {
        write_pattern(both[i], 3);
        apply_all(both[i], size, 17);
        CHECK_OK(mmsb_page_write(both[i], size / 2, noise, size - size / 2));
        CHECK_STATUS(mmsb_page_write(both[i], size, noise, 1), MMSB_E_OUT_OF_RANGE);
        uint8_t byte;
        CHECK_STATUS(mmsb_page_read(both[i], size, &byte, 1), MMSB_E_OUT_OF_RANGE);
    }
    CHECK_SAME(page, twin);
    /* Many at a time, the page twice in one call. */
    for (int i = 0; i < 2; i++) {
        mmsb_page_range_t ranges[2] = {{.page = both[i], .offset = 0, .buffer = noise + 7, .length = size / 2},
                                       {.page = both[i], .offset = size / 4, .buffer = noise + 9, .length = size / 4}};
        CHECK_OK(mmsb_page_write_many(ranges, 2, NULL));
        mmsb_run_t runs[2] = {{size / 3, size / 3}, {size / 2, size / 4}};
        mmsb_delta_t deltas[2] = {one_run(&runs[0], (const char *)noise + 11), one_run(&runs[1], (const char *)noise + 13)};
        mmsb_page_t twice[2] = {both[i], both[i]};
        CHECK_OK(mmsb_page_apply_many(twice, deltas, 2, NULL));
    }
    CHECK_SAME(page, twin);
    uint8_t *read = malloc(size);
    mmsb_page_range_t range = {.page = page, .offset = 0, .buffer = read, .length = size};
    CHECK_OK(mmsb_page_read_many(&range, 1, NULL));
    uint8_t *want = malloc(size);
    CHECK_OK(mmsb_page_read(twin, 0, want, size));
    CHECK(memcmp(read, want, size) == 0);
    free(read);
    free(want);
    /* The delta that makes one of the other. */
    mmsb_delta_t *difference = NULL;
    CHECK_OK(mmsb_page_write(twin, size - 1, "?", 1));
    CHECK_OK(mmsb_delta_from_pages(page, twin, &difference));
    difference->page_id = 0; /* else it is of the page alone */
    CHECK_OK(mmsb_page_apply(page, difference));
    CHECK_OK(mmsb_page_apply(twin, difference));
    CHECK_OK(mmsb_delta_free(difference));
    CHECK_SAME(page, twin);
    /* A clone, and other sizes. */
    mmsb_page_t clone = 0;
    CHECK_OK(mmsb_page_metadata_set(page, "key", 3, "value", 5));
    CHECK_OK(mmsb_page_clone(page, 0, &clone));
    CHECK(is_at(clone, place));
    CHECK_SAME(clone, twin);
    CHECK_EQUAL(page_info(clone).metadata_count, 1);
    const uint64_t sizes[] = {size + size / 2 + 1, size / 2 + 1, 3 * size + 5000, 1, size};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_OK(mmsb_page_resize(clone, sizes[i]));
        CHECK_OK(mmsb_page_resize(twin, sizes[i]));
        CHECK(is_at(clone, place));
        CHECK_SAME(clone, twin);
    }
    CHECK_OK(mmsb_page_destroy(clone));
    CHECK_OK(mmsb_page_destroy(twin));
    CHECK_OK(mmsb_page_destroy(page));
}

static void pages_work_wherever_they_are(void) {
    static const uint64_t sizes[] = {1, 100, 4096, 70001};
    mmsb_context_t context = device_context();
    for (size_t at = 0; at < place_count; at++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            work_at(context, places[at], sizes[i]);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* Batches of pages in all places, some several times, with deltas of all kinds: as the twins of the pages on the host. */
static void batches_mix_places(void) {
    enum { SIZE = 3000, ITEMS = 40 };
    mmsb_context_t context = device_context();
    mmsb_page_t pages[2][2 * MOST_PLACES], batch[2][ITEMS];
    size_t count = 2 * place_count;
    unsigned seed = 3;
    for (size_t i = 0; i < count; i++) {
        pages[0][i] = page_at(context, SIZE, places[i % place_count]);
        pages[1][i] = new_page(context, SIZE);
    }
    for (int round = 0; round < 30; round++) {
        mmsb_delta_t deltas[ITEMS];
        mmsb_run_t runs[ITEMS][2];
        uint64_t offsets[ITEMS][3], starts[ITEMS];
        uint8_t masks[ITEMS][64];
        for (size_t i = 0; i < ITEMS; i++) {
            size_t which = (size_t)rand_r(&seed) % count;
            batch[0][i] = pages[0][which];
            batch[1][i] = pages[1][which];
            starts[i] = (uint64_t)rand_r(&seed) % (SIZE - 100);
            mmsb_delta_init(&deltas[i]);
            deltas[i].payload = noise + rand_r(&seed) % 1000;
            deltas[i].kind = MMSB_DELTA_DENSE_BYTES + rand_r(&seed) % MMSB_DELTA_RUNS;
            deltas[i].count = deltas[i].kind == MMSB_DELTA_INDEXED ? 3 : (uint64_t)rand_r(&seed) % 3;
            deltas[i].runs = runs[i];
            deltas[i].offsets = offsets[i];
            deltas[i].mask = masks[i];
            for (int k = 0; k < 3; k++)
                offsets[i][k] = (uint64_t)rand_r(&seed) % SIZE;
            for (int k = 0; k < 2; k++)
                runs[i][k] = (mmsb_run_t){(uint64_t)rand_r(&seed) % (SIZE - 400), (uint64_t)rand_r(&seed) % 400};
            for (size_t k = 0; k < sizeof masks[i]; k++)
                masks[i][k] = (uint8_t)(rand_r(&seed) % 3 * 77);
            deltas[i].mask_length = sizeof masks[i];
        }
        size_t bad = 99;
        for (int twin = 0; twin < 2; twin++) {
            CHECK_OK(mmsb_page_apply_many(batch[twin], deltas, ITEMS, &bad));
            mmsb_page_runs_t arrays;
            mmsb_page_runs_init(&arrays);
            arrays.pages = batch[twin];
            arrays.offsets = starts;
            arrays.uniform_length = 90;
            arrays.count = ITEMS;
            arrays.payload = noise;
            CHECK_OK(mmsb_page_apply_runs(&arrays, &bad));
            CHECK_EQUAL(bad, 99);
            /* One bad item, and no page has changed. */
            uint64_t start = starts[ITEMS - 1];
            starts[ITEMS - 1] = SIZE - 89;
            CHECK_STATUS(mmsb_page_apply_runs(&arrays, &bad), MMSB_E_OUT_OF_RANGE);
            CHECK_EQUAL(bad, ITEMS - 1);
            starts[ITEMS - 1] = start;
            deltas[7].page_id = 1234;
            CHECK_STATUS(mmsb_page_apply_many(batch[twin], deltas, ITEMS, &bad), MMSB_E_MISMATCH);
            CHECK_EQUAL(bad, 7);
            deltas[7].page_id = 0;
            bad = 99;
        }
        for (size_t i = 0; i < count; i++) {
            CHECK(is_at(pages[0][i], places[i % place_count]));
            CHECK_SAME(pages[0][i], pages[1][i]);
        }
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void pages_move_from_everywhere_to_everywhere(void) {
    mmsb_context_t context = device_context();
    for (size_t from = 0; from < place_count; from++) {
        for (size_t to = 0; to < place_count; to++) {
            mmsb_page_t page = page_at(context, 9001, places[from]), twin = new_page(context, 9001);
            write_pattern(page, from);
            write_pattern(twin, from);
            apply_all(page, 9001, 5);
            apply_all(twin, 9001, 5);
            uint64_t version = mmsb_page_version(page);
            CHECK_OK(mmsb_page_migrate(page, places[to].location, places[to].device));
            CHECK(is_at(page, places[to]));
            CHECK_EQUAL(mmsb_page_version(page), version + (from != to));
            CHECK_SAME(page, twin);
            CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_GPU, 99), MMSB_E_NO_DEVICE);
            CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_GPU, -1), MMSB_E_INVALID_ARGUMENT);
            CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, NULL));
            const place_t *other = &places[(to + 1) % place_count];
            CHECK_STATUS(mmsb_page_migrate(page, other->location, other->device), MMSB_E_BUSY);
            CHECK_STATUS(mmsb_page_resize(page, 5), MMSB_E_BUSY);
            CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
            CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
            CHECK_SAME(page, twin);
            CHECK_OK(mmsb_page_destroy(page));
            CHECK_OK(mmsb_page_destroy(twin));
        }
    }
    mmsb_context_stats_t stats = context_stats(context);
    CHECK_EQUAL(stats.disk_used, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

/* An adopted page does not go to a device: its owner has the bytes. A clone does. */
static int released;
static void release(void *user, void *memory, uint64_t size) {
    (void)memory;
    released += user == &released && size == 5000;
}

static void adopted_memory_stays_on_the_host(void) {
    mmsb_context_t context = device_context();
    uint8_t *memory = malloc(5000);
    memset(memory, 0x5a, 5000);
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.release = release;
    options.user = &released;
    mmsb_page_t page;
    CHECK_OK(mmsb_page_adopt(context, memory, 5000, &options, &page));
    released = 0;
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_GPU, 0), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(released, 0);
    CHECK(page_info(page).adopted && page_info(page).location == MMSB_LOCATION_CPU);
    mmsb_page_t clone;
    CHECK_OK(mmsb_page_clone(page, 0, &clone));
    CHECK_OK(mmsb_page_migrate(clone, MMSB_LOCATION_GPU, 0));
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_EQUAL(released, 1);
    memset(memory, 0, 5000);
    free(memory);
    uint8_t byte = 0;
    CHECK_OK(mmsb_page_read(clone, 4999, &byte, 1));
    CHECK_EQUAL(byte, 0x5a);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(released, 1);
}

static int touching_is_a_fault(const void *address) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(const volatile uint8_t *)address);
    }
    int how;
    REQUIRE(waitpid(child, &how, 0) == child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV;
}

/* The address of a page on a device is one that only devices reach; those of pinned and managed memory are everybody's. */
static void pins_give_the_address_of_the_place(void) {
    mmsb_context_t context = device_context();
    for (size_t at = 0; at < place_count; at++) {
        mmsb_page_t page = page_at(context, 10000, places[at]);
        write_pattern(page, 1);
        void *address = NULL, *again = NULL;
        CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
        CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, &again));
        CHECK(address != NULL && address == again && mmsb_page_address(page) == address);
        CHECK_EQUAL((uintptr_t)address % 256, 0);
        CHECK_EQUAL(page_info(page).write_pins, 1);
        CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
        if (places[at].location == MMSB_LOCATION_GPU) {
            CHECK(stands_in || touching_is_a_fault(address));
            /* Calls go on beside the pin. */
            CHECK_OK(mmsb_page_write(page, 77, "x", 1));
            mmsb_page_range_t range = {.page = page, .offset = 78, .buffer = (void *)(uintptr_t)"y", .length = 1};
            CHECK_OK(mmsb_page_write_many(&range, 1, NULL));
            char two[2];
            CHECK_OK(mmsb_page_read(page, 77, two, 2));
            CHECK(memcmp(two, "xy", 2) == 0);
        } else {
            ((uint8_t *)address)[5] = 'a';
            uint8_t byte = 0;
            CHECK_OK(mmsb_page_read(page, 5, &byte, 1));
            CHECK_EQUAL(byte, 'a');
        }
        uint64_t version = mmsb_page_version(page);
        CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
        CHECK_EQUAL(mmsb_page_version(page), version + 1);
        CHECK(places[at].location == MMSB_LOCATION_DISK ? mmsb_page_address(page) == NULL : mmsb_page_address(page) == address);
        CHECK_OK(mmsb_page_destroy(page));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_pin_outlives_the_context_on_a_device(void) {
    for (size_t at = 0; at < place_count; at++) {
        mmsb_context_t context = device_context();
        mmsb_page_t page = page_at(context, 5000, places[at]);
        CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL));
        CHECK_OK(mmsb_context_destroy(context));
        CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 1);
        CHECK_STATUS(mmsb_page_write(page, 0, "x", 1), MMSB_E_STALE_HANDLE);
        CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
        CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 0);
    }
}

/* Everything comes back to its place: at once and lazily, pages of one chunk, of several, and of more than a segment of the file,
 * and a second snapshot that has what was changed. */
static void snapshots_bring_pages_back_to_their_place(void) {
    static const uint64_t sizes[] = {3000, 300000, (5 << 20) + 7};
    const int size_count = sizeof sizes / sizeof sizes[0];
    for (int round = 0; round < 2 * size_count; round++) {
        int lazy = round % 2;
        mmsb_context_t context = device_context();
        mmsb_page_t pages[MOST_PLACES], twins[MOST_PLACES];
        uint64_t ids[MOST_PLACES];
        for (size_t at = 0; at < place_count; at++) {
            uint64_t size = sizes[(at + (size_t)round / 2) % (size_t)size_count];
            pages[at] = page_at(context, size, places[at]);
            write_pattern(pages[at], at);
            CHECK_OK(mmsb_page_metadata_set(pages[at], "at", 2, "x", 1));
            ids[at] = page_info(pages[at]).id;
        }
        CHECK_OK(mmsb_snapshot_save(context, at("first.mmsb"), NULL));
        for (size_t at = 0; at < place_count; at++)
            apply_all(pages[at], 3000, (unsigned)at);
        mmsb_save_options_t save;
        mmsb_save_options_init(&save);
        const char *base = at("first.mmsb");
        save.base = base;
        CHECK_OK(mmsb_snapshot_save(context, at("second.mmsb"), &save));
        mmsb_context_t other = device_context();
        mmsb_load_options_t load;
        mmsb_load_options_init(&load);
        load.mode = lazy ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER;
        CHECK_OK(mmsb_snapshot_load(other, at("second.mmsb"), &load));
        for (size_t at = 0; at < place_count; at++) {
            REQUIRE(mmsb_page_lookup(other, ids[at], &twins[at]) == MMSB_OK);
            CHECK(is_at(twins[at], places[at]));
            if (at == 1) /* the address is asked for first */
                CHECK(mmsb_page_address(twins[at]) != NULL);
            CHECK_SAME(twins[at], pages[at]);
            CHECK(is_at(twins[at], places[at]));
            CHECK_EQUAL(page_info(twins[at]).metadata_count, 1);
        }
        /* What was loaded is changed, and saved again upon what it came from. */
        for (size_t at = 0; at < place_count; at++) {
            CHECK_OK(mmsb_page_write(twins[at], 17, "changed", 7));
            CHECK_OK(mmsb_page_write(pages[at], 17, "changed", 7));
        }
        base = at("second.mmsb");
        save.base = base;
        CHECK_OK(mmsb_snapshot_save(other, at("third.mmsb"), &save));
        CHECK_OK(mmsb_snapshot_load(other, at("third.mmsb"), &load));
        for (size_t at = 0; at < place_count; at++) {
            REQUIRE(mmsb_page_lookup(other, ids[at], &twins[at]) == MMSB_OK);
            CHECK_SAME(twins[at], pages[at]);
        }
        CHECK_OK(mmsb_context_destroy(other));
        /* Where there are no devices, all come to the host. */
        REQUIRE(mmsb_context_create(NULL, &other) == MMSB_OK);
        load.to_host = 2;
        CHECK_STATUS(mmsb_snapshot_load(other, at("third.mmsb"), &load), MMSB_E_INVALID_ARGUMENT);
        load.to_host = 1;
        CHECK_OK(mmsb_snapshot_load(other, at("third.mmsb"), &load));
        for (size_t at = 0; at < place_count; at++) {
            REQUIRE(mmsb_page_lookup(other, ids[at], &twins[at]) == MMSB_OK);
            CHECK_EQUAL(mmsb_page_location(twins[at]),
                        places[at].location == MMSB_LOCATION_DISK ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU);
            CHECK_SAME(twins[at], pages[at]);
        }
        /* That is where a snapshot of it has them, also one that rests on what was loaded. */
        static const char *const bases[] = {"third.mmsb", "second.mmsb"};
        for (int i = 0; i < 2; i++) {
            char based[300]; /* the next call of at() changes what it gave */
            snprintf(based, sizeof based, "%s", at(bases[i]));
            save.base = based;
            CHECK_OK(mmsb_snapshot_save(other, at("fourth.mmsb"), &save));
            mmsb_snapshot_t snapshot = 0;
            REQUIRE_OK(mmsb_snapshot_open(at("fourth.mmsb"), &snapshot));
            for (size_t at = 0; at < place_count; at++) {
                mmsb_snapshot_page_t found = {0};
                CHECK_OK(mmsb_snapshot_find(snapshot, ids[at], &found));
                CHECK_EQUAL(found.location, mmsb_page_location(twins[at]));
            }
            CHECK_OK(mmsb_snapshot_close(snapshot));
        }
        CHECK_OK(mmsb_context_destroy(other));
        CHECK_OK(mmsb_context_destroy(context));
    }
}

/* Work may name the block of a page instead of the page, and its address needs no use at all. */
static void what_work_writes_through_a_block_is_saved(void) {
    static const mmsb_location_t locations[] = {MMSB_LOCATION_GPU, MMSB_LOCATION_UNIFIED, MMSB_LOCATION_PINNED};
    for (int i = 0; i < 3; i++) {
        mmsb_context_t context = device_context();
        mmsb_runtime_t runtime = 0;
        mmsb_stream_t stream = 0;
        REQUIRE_OK(mmsb_runtime_shared(context, 0, &runtime));
        REQUIRE_OK(mmsb_stream_create(runtime, 0, &stream));
        mmsb_page_t page = page_at(context, 5000, (place_t){locations[i], 0});
        const uint64_t id = page_info(page).id;
        mmsb_block_t block = 0;
        REQUIRE_OK(mmsb_page_block(page, &block));
        CHECK_OK(mmsb_snapshot_save(context, at("before.mmsb"), NULL));
        mmsb_use_t use = 0;
        void *address = NULL;
        REQUIRE_OK(mmsb_use_begin(stream, &(mmsb_access_t){.block = block, .access = MMSB_ACCESS_WRITE}, 1, &use, NULL));
        REQUIRE_OK(mmsb_use_address(use, block, &address));
        CHECK_OK(mmsb_stream_fill(stream, address, 'R', 5000));
        CHECK_OK(mmsb_use_end(use));
        CHECK_OK(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER));
        mmsb_save_options_t save;
        mmsb_save_options_init(&save);
        char base[300];
        snprintf(base, sizeof base, "%s", at("before.mmsb"));
        save.base = base;
        CHECK_OK(mmsb_snapshot_save(context, at("after.mmsb"), &save));
        CHECK_OK(mmsb_snapshot_load(context, at("after.mmsb"), NULL));
        REQUIRE_OK(mmsb_page_lookup(context, id, &page));
        char byte = 0;
        CHECK_OK(mmsb_page_read(page, 4999, &byte, 1));
        CHECK_EQUAL(byte, 'R');
        CHECK_OK(mmsb_context_destroy(context));
    }
}

static void a_snapshot_comes_to_the_host_where_there_is_no_device(void) {
    mmsb_context_t context = device_context();
    mmsb_page_t page = page_at(context, 5000, places[1]);
    write_pattern(page, 4);
    uint64_t id = page_info(page).id;
    CHECK_OK(mmsb_snapshot_save(context, at("state.mmsb"), NULL));
    CHECK_OK(mmsb_context_destroy(context));
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.simulate = MMSB_SIMULATE_OFF;
    mmsb_context_t strict;
    CHECK_OK(mmsb_context_create(&options, &strict));
    CHECK_STATUS(mmsb_snapshot_load(strict, at("state.mmsb"), NULL), MMSB_E_NO_DEVICE);
    CHECK_OK(mmsb_context_destroy(strict));
    options.fallback = MMSB_FALLBACK_HOST;
    options.default_location = MMSB_LOCATION_GPU; /* falls back, too */
    CHECK_OK(mmsb_context_create(&options, &context));
    CHECK_OK(mmsb_snapshot_load(context, at("state.mmsb"), NULL));
    CHECK_OK(mmsb_page_lookup(context, id, &page));
    CHECK(is_at(page, places[0]));
    CHECK(page_holds_pattern(page, 4, 5000));
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_PINNED, 0));
    CHECK(is_at(page, places[0]));
    CHECK_OK(mmsb_context_destroy(context));
}

/* The journal has what happens on devices, too. */
static void a_journal_brings_pages_back(void) {
    mmsb_context_t context = device_context();
    CHECK_OK(mmsb_journal_open(context, at("journal"), NULL));
    mmsb_page_t pages[MOST_PLACES];
    uint64_t ids[MOST_PLACES];
    for (size_t at = 0; at < place_count; at++) {
        pages[at] = page_at(context, 7000, places[at]);
        ids[at] = page_info(pages[at]).id;
        write_pattern(pages[at], at);
        apply_all(pages[at], 7000, (unsigned)at);
        CHECK_OK(mmsb_page_resize(pages[at], 8000));
        const place_t *next = &places[(at + 1) % place_count];
        CHECK_OK(mmsb_page_migrate(pages[at], next->location, next->device));
        CHECK_OK(mmsb_page_write(pages[at], 7990, "journal", 7));
        mmsb_page_t clone;
        CHECK_OK(mmsb_page_clone(pages[at], 1000 + at, &clone));
    }
    CHECK_OK(mmsb_journal_close(context));
    mmsb_context_t other = device_context();
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    const char *journal = at("journal");
    load.journal = journal;
    CHECK_OK(mmsb_snapshot_load(other, "", &load));
    for (size_t at = 0; at < place_count; at++) {
        mmsb_page_t again, clone;
        REQUIRE(mmsb_page_lookup(other, ids[at], &again) == MMSB_OK && mmsb_page_lookup(other, 1000 + at, &clone) == MMSB_OK);
        CHECK(is_at(again, places[(at + 1) % place_count]) && is_at(clone, places[(at + 1) % place_count]));
        CHECK_SAME(again, pages[at]);
        CHECK_SAME(clone, pages[at]);
    }
    CHECK_OK(mmsb_context_destroy(other));
    CHECK_OK(mmsb_context_destroy(context));
}

/* More than the device has: nothing changes, and what is there can go. */
static void a_full_device_says_so(void) {
    mmsb_context_t context = device_context();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_GPU;
    mmsb_page_t big, more = 0;
    CHECK_OK(mmsb_page_create(context, 48 << 20, &options, &big));
    CHECK_STATUS(mmsb_page_create(context, 48 << 20, &options, &more), MMSB_E_OUT_OF_MEMORY);
    mmsb_page_t page = new_page(context, 32 << 20);
    write_pattern(page, 1);
    uint64_t version = mmsb_page_version(page);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_GPU, 0), MMSB_E_OUT_OF_MEMORY);
    CHECK_STATUS(mmsb_page_resize(big, 63 << 20), MMSB_E_OUT_OF_MEMORY);
    CHECK_STATUS(mmsb_page_clone(big, 0, &more), MMSB_E_OUT_OF_MEMORY);
    CHECK_EQUAL(mmsb_page_version(page), version);
    CHECK_EQUAL(mmsb_page_size(big), 48 << 20);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_GPU, 1));
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
    CHECK_OK(mmsb_page_destroy(big));
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_GPU, 0));
    CHECK(page_holds_pattern(page, 1, 32 << 20));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Writers on four threads, a mover and a saver beside them: every page has what its last writer wrote. */
typedef struct beside {
    mmsb_context_t context;
    mmsb_page_t page;
    int end;
    uint64_t written;
} beside_t;

static void *write_beside(void *argument) {
    beside_t *beside = argument;
    mmsb_run_t run = {128, 8};
    while (!__atomic_load_n(&beside->end, __ATOMIC_RELAXED)) {
        uint64_t next = beside->written + 1;
        mmsb_delta_t delta = one_run(&run, (const char *)&next);
        CHECK_OK(mmsb_page_apply(beside->page, &delta));
        CHECK_OK(mmsb_page_write(beside->page, 20000, &next, sizeof next));
        beside->written = next;
    }
    return NULL;
}

static void pages_move_beside_writers_and_a_save(void) {
    enum { WRITERS = 3 };
    mmsb_context_t context = device_context();
    beside_t beside[WRITERS];
    pthread_t threads[WRITERS];
    for (size_t i = 0; i < WRITERS; i++) {
        beside[i] = (beside_t){.context = context, .page = page_at(context, 30000, places[1 + i])};
        REQUIRE(pthread_create(&threads[i], NULL, write_beside, &beside[i]) == 0);
    }
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < WRITERS; i++) {
            const place_t *to = &places[(round + i) % place_count];
            CHECK_OK(mmsb_page_migrate(beside[i].page, to->location, to->device));
        }
        if (round % 5 == 0) {
            CHECK_OK(mmsb_snapshot_save(context, at("beside.mmsb"), NULL));
            mmsb_context_t other = device_context();
            CHECK_OK(mmsb_snapshot_load(other, at("beside.mmsb"), NULL));
            for (size_t i = 0; i < WRITERS; i++) {
                mmsb_page_t again;
                uint64_t words[2];
                REQUIRE(mmsb_page_lookup(other, page_info(beside[i].page).id, &again) == MMSB_OK);
                CHECK_OK(mmsb_page_read(again, 128, &words[0], 8));
                CHECK_OK(mmsb_page_read(again, 20000, &words[1], 8));
                CHECK(words[0] == words[1] || words[0] == words[1] + 1);
            }
            CHECK_OK(mmsb_context_destroy(other));
        }
    }
    for (size_t i = 0; i < WRITERS; i++)
        __atomic_store_n(&beside[i].end, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        uint64_t words[2] = {0, 0};
        CHECK_OK(mmsb_page_read(beside[i].page, 128, &words[0], 8));
        CHECK_OK(mmsb_page_read(beside[i].page, 20000, &words[1], 8));
        CHECK(words[0] == beside[i].written && words[1] == beside[i].written && beside[i].written > 0);
        CHECK_EQUAL(mmsb_page_epoch(beside[i].page), beside[i].written);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    if (getenv("MMSB_TEST_GPU")) {
        places = gpu_places;
        place_count = sizeof gpu_places / sizeof gpu_places[0];
        simulated = 0;
        stands_in = strcmp(getenv("MMSB_TEST_GPU"), "stand-in") == 0;
        mmsb_context_t context = device_context();
        mmsb_page_options_t options;
        mmsb_page_options_init(&options);
        options.location = MMSB_LOCATION_GPU;
        mmsb_page_t page;
        if (mmsb_page_create(context, 1, &options, &page) == MMSB_E_NO_DEVICE) {
            printf("not run: %s\n", mmsb_last_error());
            return 0;
        }
        mmsb_context_destroy(context);
    }
    folder_make();
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)rand_r(&seed);
    RUN(pages_work_wherever_they_are);
    RUN(batches_mix_places);
    RUN(pages_move_from_everywhere_to_everywhere);
    RUN(adopted_memory_stays_on_the_host);
    RUN(pins_give_the_address_of_the_place);
    RUN(a_pin_outlives_the_context_on_a_device);
    RUN_IN_FOLDER(snapshots_bring_pages_back_to_their_place);
    RUN_IN_FOLDER(a_journal_brings_pages_back);
    if (simulated) {
        RUN(a_full_device_says_so);
        RUN_IN_FOLDER(a_snapshot_comes_to_the_host_where_there_is_no_device);
        RUN_IN_FOLDER(what_work_writes_through_a_block_is_saved);
    }
    RUN_IN_FOLDER(pages_move_beside_writers_and_a_save);
    folder_end();
    return check_report();
}
