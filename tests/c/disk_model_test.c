/*
 * DISK pages against arrays of bytes: several threads read, write, apply deltas, resize, migrate, pin, and batch, each on its own
 * pages, while another one saves all of them. What each call gives is compared with the array. Each thread also changes two
 * pages by one batch at a time, always in the same way: in what a save has they are the same. The second run has a journal, which
 * alone gives all pages back.
 */
#include "folder.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, OWN = 8, MOST = 600000, TWIN_SIZE = 300000 };

typedef struct own {
    mmsb_page_t page;
    uint8_t *bytes;
    uint64_t size, set; /* bits of the change mask */
    uint8_t *mask;
} own_t;

typedef struct worker {
    mmsb_context_t context;
    uint64_t seed;
    own_t pages[OWN];
    mmsb_page_t twins[2];
    int journalled; /* writes through pointers are then lost */
    uint64_t calls;
} worker_t;

static atomic_int over;

static uint64_t next(uint64_t *seed) {
    uint64_t z = (*seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Sizes and lengths around the units of everything: lines, system pages, chunks. */
static uint64_t some_size(uint64_t *seed) {
    static const uint64_t units[] = {1, 64, 4096, 65536, 262144, 524288};
    uint64_t size = units[next(seed) % 6] + next(seed) % 5;
    return next(seed) % 2 ? size : size > 3 ? size - 3 : 1;
}

static void write_some(worker_t *w, own_t *own, uint64_t offset, uint64_t length) {
    fill_pattern(own->bytes + offset, length, next(&w->seed));
    CHECK_OK(mmsb_page_write(own->page, offset, own->bytes + offset, length));
}

static void mark(own_t *own, uint64_t offset, uint64_t length) {
    for (uint64_t i = offset; i < offset + length; i++) {
        own->set += !own->mask[i];
        own->mask[i] = 1;
    }
}

/* A delta of some runs, or of some places, near each other or not. */
static void apply_some(worker_t *w, own_t *own) {
    enum { RUNS = 5 };
    mmsb_run_t runs[RUNS];
    uint64_t offsets[RUNS];
    uint8_t payload[RUNS * 300];
    uint64_t count = 1 + next(&w->seed) % RUNS, sum = 0, spread = next(&w->seed) % 2 ? own->size : 1 + own->size / 16;
    const int indexed = next(&w->seed) % 3 == 0;
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    for (uint64_t i = 0; i < count; i++) {
        offsets[i] = runs[i].offset = next(&w->seed) % spread;
        runs[i].length = next(&w->seed) % 300;
        if (runs[i].length > own->size - runs[i].offset)
            runs[i].length = own->size - runs[i].offset;
        if (indexed)
            runs[i].length = 1;
        fill_pattern(payload + sum, runs[i].length, next(&w->seed));
        memcpy(own->bytes + runs[i].offset, payload + sum, runs[i].length);
        mark(own, runs[i].offset, runs[i].length);
        sum += runs[i].length;
    }
    delta.kind = indexed ? MMSB_DELTA_INDEXED : MMSB_DELTA_RUNS;
    delta.runs = indexed ? NULL : runs;
    delta.offsets = indexed ? offsets : NULL;
    delta.count = count;
    delta.payload = payload;
    if (next(&w->seed) % 2)
        CHECK_OK(mmsb_page_apply(own->page, &delta));
    else
        CHECK_OK(mmsb_page_apply_many(&own->page, &delta, 1, NULL));
}

/* Deltas of one run each, in one batch; some pages are there more than once. */
static void apply_batch(worker_t *w) {
    enum { COUNT = 12 };
    mmsb_page_t pages[COUNT];
    mmsb_run_t runs[COUNT];
    mmsb_delta_t deltas[COUNT];
    uint8_t payload[COUNT][500];
    for (int i = 0; i < COUNT; i++) {
        own_t *own = &w->pages[next(&w->seed) % OWN];
        pages[i] = own->page;
        runs[i].offset = next(&w->seed) % own->size;
        runs[i].length = next(&w->seed) % sizeof payload[i];
        if (runs[i].length > own->size - runs[i].offset)
            runs[i].length = own->size - runs[i].offset;
        fill_pattern(payload[i], runs[i].length, next(&w->seed));
        memcpy(own->bytes + runs[i].offset, payload[i], runs[i].length);
        mark(own, runs[i].offset, runs[i].length);
        deltas[i] = one_run(&runs[i], payload[i]);
    }
    CHECK_OK(mmsb_page_apply_many(pages, deltas, COUNT, NULL));
}

static void apply_mask(worker_t *w, own_t *own) {
    uint64_t length = own->size < 5000 ? own->size : 5000;
    uint8_t mask[5000], payload[5000];
    mmsb_delta_t delta;
    fill_pattern(payload, length, next(&w->seed));
    for (uint64_t i = 0; i < length; i++) {
        mask[i] = next(&w->seed) % 3 == 0;
        if (mask[i]) {
            own->bytes[i] = payload[i];
            mark(own, i, 1);
        }
    }
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_DENSE_BYTES;
    delta.mask = mask;
    delta.mask_length = length;
    delta.payload = payload;
    CHECK_OK(mmsb_page_apply(own->page, &delta));
}

static void resize(worker_t *w, own_t *own) {
    uint64_t size = some_size(&w->seed);
    CHECK_OK(mmsb_page_resize(own->page, size));
    for (uint64_t i = size; i < own->size; i++)
        own->set -= own->mask[i];
    if (size < own->size) {
        memset(own->bytes + size, 0, own->size - size);
        memset(own->mask + size, 0, own->size - size);
    }
    own->size = size;
}

static void pin(worker_t *w, own_t *own, uint64_t offset, uint64_t length) {
    void *address;
    CHECK_OK(mmsb_page_pin(own->page, MMSB_PIN_WRITE, &address));
    CHECK(memcmp(address, own->bytes, own->size) == 0);
    fill_pattern(own->bytes + offset, length, next(&w->seed));
    memcpy((uint8_t *)address + offset, own->bytes + offset, length);
    write_some(w, own, offset, length / 2);
    CHECK(memcmp(address, own->bytes, own->size) == 0);
    CHECK_OK(mmsb_page_unpin(own->page, MMSB_PIN_WRITE));
}

/* One page, or all of the thread with its twins, one of them twice. */
static void migrate(worker_t *w, const own_t *own) {
    const mmsb_location_t to = next(&w->seed) % 3 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU;
    mmsb_page_t pages[OWN + 3] = {w->twins[0], w->twins[1], own->page};
    for (int i = 0; i < OWN; i++)
        pages[3 + i] = w->pages[i].page;
    if (next(&w->seed) % 2)
        CHECK_OK(mmsb_page_migrate(own->page, to, 0));
    else
        CHECK_OK(mmsb_page_migrate_many(pages, OWN + 3, to, 0, NULL, NULL, NULL));
    CHECK_EQUAL(page_info(own->page).location, to);
}

static void batch(worker_t *w) {
    mmsb_page_range_t ranges[2 * OWN];
    const size_t count = 1 + next(&w->seed) % (2 * OWN);
    uint8_t *read = malloc((size_t)OWN * MOST);
    uint64_t used = 0;
    static const int only_once = OWN;
    for (size_t i = 0; i < count; i++) { /* up to OWN: each once; else some twice, whose later write wins */
        own_t *own = &w->pages[(count <= (size_t)only_once ? i : next(&w->seed)) % OWN];
        uint64_t offset = next(&w->seed) % own->size, length = next(&w->seed) % 20000;
        if (length > own->size - offset)
            length = own->size - offset;
        uint8_t *bytes = read + used;
        used += length;
        fill_pattern(bytes, length, next(&w->seed));
        memcpy(own->bytes + offset, bytes, length);
        ranges[i] = (mmsb_page_range_t){own->page, offset, length, bytes};
    }
    CHECK_OK(mmsb_page_write_many(ranges, count, NULL));
    used = 0;
    for (size_t i = 0; i < OWN; i++) {
        ranges[i] = (mmsb_page_range_t){w->pages[i].page, 0, w->pages[i].size, read + used};
        used += w->pages[i].size;
    }
    memset(read, 0, used);
    CHECK_OK(mmsb_page_read_many(ranges, OWN, NULL));
    for (size_t i = 0; i < OWN; i++)
        CHECK(memcmp(ranges[i].buffer, w->pages[i].bytes, w->pages[i].size) == 0);
    free(read);
}

/* The same bytes into both pages, at one moment. */
static void change_twins(worker_t *w) {
    uint8_t bytes[3000];
    uint64_t offset = next(&w->seed) % (TWIN_SIZE - sizeof bytes), length = 1 + next(&w->seed) % sizeof bytes;
    fill_pattern(bytes, length, next(&w->seed));
    if (next(&w->seed) % 2) {
        mmsb_page_range_t ranges[2] = {{w->twins[0], offset, length, bytes}, {w->twins[1], offset, length, bytes}};
        CHECK_OK(mmsb_page_write_many(ranges, 2, NULL));
    } else {
        mmsb_run_t run = {offset, length};
        mmsb_delta_t delta = one_run(&run, bytes), both[2] = {delta, delta};
        CHECK_OK(mmsb_page_apply_many(w->twins, both, 2, NULL));
    }
    if (next(&w->seed) % 16 == 0)
        CHECK_OK(mmsb_page_migrate(w->twins[next(&w->seed) % 2], next(&w->seed) % 3 ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU, 0));
}

static void check_own(const own_t *own) {
    uint64_t set = 0;
    CHECK(page_holds(own->page, own->bytes, own->size));
    CHECK_OK(mmsb_page_mask_count(own->page, &set));
    CHECK_EQUAL(set, own->set);
}

static void one_call(worker_t *w) {
    own_t *own = &w->pages[next(&w->seed) % OWN];
    uint64_t offset = next(&w->seed) % own->size, length = next(&w->seed) % (own->size - offset + 1);
    switch (next(&w->seed) % 12) {
    case 0:
    case 1:
        write_some(w, own, offset, length);
        break;
    case 2:
    case 3:
        apply_some(w, own);
        break;
    case 4:
        apply_mask(w, own);
        break;
    case 5:
        resize(w, own);
        break;
    case 6:
        migrate(w, own);
        break;
    case 7:
        if (w->journalled)
            apply_batch(w);
        else
            pin(w, own, offset, length);
        break;
    case 8:
        next(&w->seed) % 2 ? batch(w) : apply_batch(w);
        break;
    case 9:
        CHECK_OK(mmsb_page_mask_clear(own->page));
        memset(own->mask, 0, own->size);
        own->set = 0;
        break;
    default:
        change_twins(w);
    }
    check_own(own);
}

static void *work(void *argument) {
    worker_t *w = argument;
    for (; !atomic_load(&over) && check_failures == 0; w->calls++)
        one_call(w);
    return NULL;
}

static mmsb_page_t page_of_size(mmsb_context_t context, uint64_t size) {
    mmsb_page_t page = new_disk_page(context, size);
    static const uint8_t zeros[MOST];
    CHECK(page_holds(page, zeros, size)); /* also where other pages were */
    return page;
}

static void begin(worker_t *w, mmsb_context_t context, uint64_t seed, int journalled) {
    *w = (worker_t){.context = context, .seed = seed, .journalled = journalled};
    for (int i = 0; i < OWN; i++) {
        own_t *own = &w->pages[i];
        own->size = some_size(&w->seed);
        own->bytes = calloc(1, MOST);
        own->mask = calloc(1, MOST);
        REQUIRE(own->bytes && own->mask);
        own->page = page_of_size(context, own->size);
    }
    for (int i = 0; i < 2; i++)
        w->twins[i] = page_of_size(context, TWIN_SIZE);
}

/* In what a save has, the twins of each thread are the same. */
static void check_save(const char *path, worker_t *workers, int lazy) {
    static uint8_t twins[2][TWIN_SIZE];
    mmsb_context_t loaded = new_context();
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.mode = lazy ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER;
    CHECK_OK(mmsb_snapshot_load(loaded, path, &options));
    for (int i = 0; i < THREADS; i++) {
        for (int twin = 0; twin < 2; twin++) {
            mmsb_page_t page = 0;
            CHECK_OK(mmsb_page_lookup(loaded, page_info(workers[i].twins[twin]).id, &page));
            CHECK_OK(mmsb_page_read(page, 0, twins[twin], TWIN_SIZE));
        }
        CHECK(memcmp(twins[0], twins[1], TWIN_SIZE) == 0);
    }
    CHECK_OK(mmsb_context_destroy(loaded));
}

/* What a snapshot has, or with an empty path the journal, is all there is. */
static void check_all(worker_t *workers, const char *path, const char *journal) {
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    options.journal = journal;
    mmsb_context_t loaded = new_context();
    CHECK_OK(mmsb_snapshot_load(loaded, path, &options));
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < OWN; k++) {
            own_t own = workers[i].pages[k];
            check_own(&own);
            CHECK_OK(mmsb_page_lookup(loaded, page_info(own.page).id, &own.page));
            check_own(&own);
        }
    }
    CHECK_OK(mmsb_context_destroy(loaded));
}

static void run(int journalled) {
    static worker_t workers[THREADS];
    pthread_t threads[THREADS];
    const char *given = getenv("SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    uint64_t calls = 0;
    printf("disk_model_test: SEED=%llu\n", (unsigned long long)seed);
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.disk_path = folder;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    atomic_store(&over, 0);
    for (uint64_t i = 0; i < THREADS; i++)
        begin(&workers[i], context, seed + i, journalled);
    if (journalled)
        CHECK_OK(mmsb_journal_open(context, at("journal"), NULL));
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    for (int save = 0; save < 12 && check_failures == 0; save++) {
        check_sleep_ms(50);
        CHECK_OK(mmsb_snapshot_save(context, at("state"), NULL));
        check_save(at("state"), workers, save % 2);
        CHECK_OK(mmsb_context_trim(context, NULL));
    }
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        calls += workers[i].calls;
    }
    CHECK(calls > THREADS * 20);
    CHECK_OK(mmsb_snapshot_save(context, at("last"), NULL));
    check_all(workers, at("last"), NULL);
    if (journalled) {
        CHECK_OK(mmsb_journal_close(context));
        check_all(workers, "", at("journal"));
    }
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < OWN; k++) {
            free(workers[i].pages[k].bytes);
            free(workers[i].pages[k].mask);
        }
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void disk_pages_are_arrays_of_bytes(void) {
    run(0);
}

static void a_journal_has_all_of_disk_pages(void) {
    run(1);
}

int main(void) {
    folder_make();
    RUN_IN_FOLDER(disk_pages_are_arrays_of_bytes);
    RUN_IN_FOLDER(a_journal_has_all_of_disk_pages);
    folder_end();
    return check_report();
}
