/* Contexts: options, their text form, stats, listing under concurrent change, limits, trim, memory by purpose, shutdown. */
#include "library.h"

static mmsb_context_options_t defaults(void) {
    mmsb_context_options_t options;
    memset(&options, 0xAA, sizeof options);
    mmsb_context_options_init(&options);
    return options;
}

static void options_have_defaults(void) {
    mmsb_context_options_t options = defaults();
    CHECK_EQUAL(options.struct_size, sizeof options);
    CHECK_EQUAL(options.default_location, MMSB_LOCATION_CPU);
    CHECK_EQUAL(options.default_device, 0);
    CHECK_EQUAL(options.simulate, MMSB_SIMULATE_OFF);
    CHECK_EQUAL(options.simulated_devices, 1);
    CHECK_EQUAL(options.fallback, MMSB_FALLBACK_ERROR);
    CHECK_EQUAL(options.simulated_memory, 1ULL << 30);
    CHECK_EQUAL(options.memory_limit, 0);
    CHECK(options.disk_path == NULL);
    CHECK_EQUAL(options.huge_pages, 1);
    CHECK_EQUAL(options.reserved_word, 0);
    for (int i = 0; i < 6; i++) {
        CHECK_EQUAL(options.reserved[i], 0);
    }
}

static void options_are_read_from_text(void) {
    static const struct {
        const char *text;
        mmsb_context_options_t expected;
    } good[] = {
        {"", {.huge_pages = 1}},
        {"memory_limit=1073741824", {.memory_limit = 1 << 30, .huge_pages = 1}},
        {"memory_limit=64K", {.memory_limit = 64 << 10, .huge_pages = 1}},
        {"memory_limit=3M huge_pages=0", {.memory_limit = 3 << 20}},
        {"memory_limit=2G,simulated_memory=1T", {.memory_limit = 2ULL << 30, .simulated_memory = 1ULL << 40, .huge_pages = 1}},
        {"simulate=if-no-gpu simulated_devices=4 fallback=host default_location=disk default_device=0",
         {.simulate = MMSB_SIMULATE_IF_NO_GPU,
          .simulated_devices = 4,
          .fallback = MMSB_FALLBACK_HOST,
          .default_location = MMSB_LOCATION_DISK,
          .huge_pages = 1}},
        {"simulate=always,default_location=gpu",
         {.simulate = MMSB_SIMULATE_ALWAYS, .default_location = MMSB_LOCATION_GPU, .huge_pages = 1}},
        {"fallback=simulate", {.fallback = MMSB_FALLBACK_SIMULATE, .huge_pages = 1}},
        {"default_location=unified fallback=error", {.default_location = MMSB_LOCATION_UNIFIED, .huge_pages = 1}},
        {"default_location=pinned", {.default_location = MMSB_LOCATION_PINNED, .huge_pages = 1}},
        {"  memory_limit=1K ,  simulate=off  ", {.memory_limit = 1024, .huge_pages = 1}},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        mmsb_context_options_t options = defaults();
        CHECK_OK(mmsb_context_options_parse(&options, good[i].text));
        const mmsb_context_options_t *expected = &good[i].expected;
        CHECK_EQUAL(options.default_location, expected->default_location);
        CHECK_EQUAL(options.default_device, 0);
        CHECK_EQUAL(options.simulate, expected->simulate);
        CHECK_EQUAL(options.simulated_devices, expected->simulated_devices == 0 ? 1 : expected->simulated_devices);
        CHECK_EQUAL(options.fallback, expected->fallback);
        CHECK_EQUAL(options.simulated_memory, expected->simulated_memory == 0 ? 1ULL << 30 : expected->simulated_memory);
        CHECK_EQUAL(options.memory_limit, expected->memory_limit);
        CHECK_EQUAL(options.huge_pages, expected->huge_pages);
        CHECK(options.disk_path == NULL);
    }
    mmsb_context_options_t options = defaults();
    const char *text = "memory_limit=5 disk_path=/a folder, with = signs";
    CHECK_OK(mmsb_context_options_parse(&options, text));
    CHECK_EQUAL(options.memory_limit, 5);
    CHECK(options.disk_path == strstr(text, "/a folder"));
    /* What the text does not name stays. */
    CHECK_OK(mmsb_context_options_parse(&options, "huge_pages=0"));
    CHECK_EQUAL(options.memory_limit, 5);
    CHECK(options.disk_path != NULL);
}

static void wrong_texts_change_nothing(void) {
    static const char *bad[] = {
        "memory",
        "memory_limit",
        "memory_limit=",
        "memory_limit=x",
        "memory_limit=-1",
        "memory_limit=1X",
        "memory_limit=1KK",
        "memory_limit=99999999999999999999",
        "memory_limit=18446744073709551615K",
        "simulate=maybe",
        "simulate=",
        "fallback=1x",
        "default_location=moon",
        "unknown=1",
        "=1",
        "memory_limit =1",
        "memory_limit=1 unknown=2",
        "simulated_devices=x",
        "huge_pages=maybe",
        "MEMORY_LIMIT=1",
        "memory_limit=1;fallback=host",
        "struct_size=3",
        "disk_path=\xFF",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mmsb_context_options_t options = defaults();
        options.memory_limit = 4711;
        mmsb_context_options_t before = options;
        mmsb_status_t status = mmsb_context_options_parse(&options, bad[i]);
        if (status != MMSB_E_INVALID_ARGUMENT) {
            check_fail(__FILE__, __LINE__, "\"%s\" answered %d", bad[i], (int)status);
        }
        CHECK(memcmp(&options, &before, sizeof options) == 0);
    }
    mmsb_context_options_t options = defaults();
    CHECK_STATUS(mmsb_context_options_parse(&options, "memory_limit=1 nonsense=2"), MMSB_E_INVALID_ARGUMENT);
    CHECK(strstr(mmsb_last_error(), "nonsense") != NULL);
    CHECK_STATUS(mmsb_context_options_parse(&options, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_options_parse(NULL, ""), MMSB_E_INVALID_ARGUMENT);
    options.struct_size = 12;
    CHECK_STATUS(mmsb_context_options_parse(&options, ""), MMSB_E_STRUCT_VERSION);
    options = defaults();
    options.reserved[5] = 1;
    CHECK_STATUS(mmsb_context_options_parse(&options, ""), MMSB_E_STRUCT_VERSION);
}

static void wrong_options_make_no_context(void) {
    mmsb_context_t context = 42;
    mmsb_context_options_t options = defaults();
    options.struct_size++;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_STRUCT_VERSION);
    options = defaults();
    options.reserved_word = 1;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_STRUCT_VERSION);
    for (int i = 0; i < 6; i++) {
        options = defaults();
        options.reserved[i] = 1;
        CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_STRUCT_VERSION);
    }
    options = defaults();
    options.default_location = MMSB_LOCATION_DISK + 1;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    options.default_location = MMSB_LOCATION_DEFAULT;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    options = defaults();
    options.simulate = MMSB_SIMULATE_ALWAYS + 1;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    options = defaults();
    options.fallback = MMSB_FALLBACK_ERROR - 1;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    options.fallback = MMSB_FALLBACK_SIMULATE + 1;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    options = defaults();
    options.huge_pages = 2;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    options = defaults();
    options.default_location = MMSB_LOCATION_GPU;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_NO_DEVICE);
    options = defaults();
    options.disk_path = "/no/such/folder";
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_IO);
    options.disk_path = "/proc/self/exe";
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_IO);
    options.disk_path = "/proc"; /* no file can be made in it, whatever its permissions allow */
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_IO);
    options.disk_path = "";
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    options.disk_path = "broken \xFF\xFE";
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_create(NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(context, 42);
    CHECK_EQUAL(check_live(MMSB_KIND_CONTEXT), 0);
}

/* TMPDIR is the program's as it is now, not as it was when the library began. */
static void the_environment_may_change(void) {
    mmsb_context_t before = new_context(), context;
    const char *given = getenv("TMPDIR");
    char *kept = given ? strdup(given) : NULL;
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_DISK;
    mmsb_page_t page;
    for (int there = 0; there < 2; there++) {
        REQUIRE(setenv("TMPDIR", there ? "/tmp" : "/no/such/folder", 1) == 0);
        CHECK_OK(mmsb_context_create(NULL, &context));
        CHECK_STATUS(mmsb_page_create(context, 100, &options, &page), there ? MMSB_OK : MMSB_E_IO);
        CHECK_OK(mmsb_context_destroy(context));
    }
    REQUIRE((kept ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR")) == 0);
    free(kept);
    CHECK_OK(mmsb_context_destroy(before));
}

static void the_default_location_serves(void) {
    mmsb_context_options_t options = defaults();
    options.default_location = MMSB_LOCATION_DISK;
    mmsb_context_t context;
    CHECK_OK(mmsb_context_create(&options, &context));
    CHECK_EQUAL(page_info(new_page(context, 100)).location, MMSB_LOCATION_DISK);
    CHECK_OK(mmsb_context_destroy(context));

    options = defaults();
    options.fallback = MMSB_FALLBACK_HOST;
    CHECK_OK(mmsb_context_create(&options, &context));
    mmsb_page_options_t page_options;
    mmsb_page_options_init(&page_options);
    page_options.location = MMSB_LOCATION_GPU;
    mmsb_page_t page;
    CHECK_OK(mmsb_page_create(context, 100, &page_options, &page));
    CHECK_EQUAL(page_info(page).location, MMSB_LOCATION_CPU);
    CHECK_OK(mmsb_context_destroy(context));
}

static void contexts_end_with_all_they_have(void) {
    mmsb_context_t context = new_context();
    mmsb_context_t other = new_context();
    CHECK(context != other);
    mmsb_page_t page = new_page(context, 100);
    mmsb_page_t kept = new_page(other, 100);
    write_pattern(kept, 1);
    CHECK_EQUAL(check_live(MMSB_KIND_CONTEXT), 2);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(check_live(MMSB_KIND_CONTEXT), 1);
    CHECK_EQUAL(check_live(MMSB_KIND_PAGE), 1);
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_create(context, 1, NULL, &page), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(mmsb_page_size(page), 0);
    CHECK(page_holds_pattern(kept, 1, 100));
    CHECK_OK(mmsb_context_destroy(0));
    CHECK_OK(mmsb_context_destroy(other));
}

static void stats_count(void) {
    mmsb_context_options_t options = defaults();
    options.memory_limit = 64 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_context_stats_t stats = context_stats(context);
    CHECK_EQUAL(stats.pages + stats.bytes + stats.peak_bytes + stats.allocations + stats.frees + stats.pinned_pages, 0);
    CHECK_EQUAL(stats.memory_limit, 64 << 20);
    static mmsb_page_t pages[1000];
    for (int i = 0; i < 1000; i++) {
        pages[i] = i % 10 == 9 ? new_disk_page(context, 1000) : new_page(context, 100);
    }
    CHECK_OK(mmsb_page_pin(pages[0], MMSB_PIN_READ, NULL));
    CHECK_OK(mmsb_page_pin(pages[0], MMSB_PIN_READ, NULL));
    CHECK_OK(mmsb_page_pin(pages[1], MMSB_PIN_WRITE, NULL));
    stats = context_stats(context);
    CHECK_EQUAL(stats.pages, 1000);
    CHECK_EQUAL(stats.bytes, 900 * 100 + 100 * 1000);
    CHECK(stats.peak_bytes <= stats.bytes && stats.peak_bytes > 0);
    CHECK_EQUAL(stats.allocations, 1000);
    CHECK_EQUAL(stats.frees, 0);
    CHECK_EQUAL(stats.pinned_pages, 2);
    CHECK_EQUAL(stats.location_pages[MMSB_LOCATION_CPU], 900);
    CHECK_EQUAL(stats.location_bytes[MMSB_LOCATION_CPU], 90000);
    CHECK_EQUAL(stats.location_pages[MMSB_LOCATION_DISK], 100);
    CHECK_EQUAL(stats.location_bytes[MMSB_LOCATION_DISK], 100000);
    CHECK(stats.memory_used >= 90000 && stats.memory_used <= stats.memory_limit);
    CHECK(stats.disk_used >= 100000);
    uint64_t count = 0;
    CHECK_OK(mmsb_context_page_count(context, &count));
    CHECK_EQUAL(count, 1000);
    CHECK_OK(mmsb_page_unpin(pages[0], MMSB_PIN_READ));
    CHECK_OK(mmsb_page_unpin(pages[0], MMSB_PIN_READ));
    CHECK_OK(mmsb_page_unpin(pages[1], MMSB_PIN_WRITE));
    CHECK_OK(mmsb_page_resize(pages[0], 200));
    CHECK_OK(mmsb_page_migrate(pages[1], MMSB_LOCATION_DISK, 0));
    CHECK_OK(mmsb_page_destroy_many(pages + 2, 500, NULL));
    stats = context_stats(context);
    CHECK_EQUAL(stats.pages, 500);
    CHECK_EQUAL(stats.allocations, 1000);
    CHECK_EQUAL(stats.frees, 500);
    CHECK_EQUAL(stats.bytes, stats.location_bytes[MMSB_LOCATION_CPU] + stats.location_bytes[MMSB_LOCATION_DISK]);
    CHECK_EQUAL(stats.location_pages[MMSB_LOCATION_CPU] + stats.location_pages[MMSB_LOCATION_DISK], 500);
    CHECK_EQUAL(stats.pinned_pages, 0);
    CHECK(stats.peak_bytes >= stats.bytes);

    CHECK_STATUS(mmsb_context_stats(context, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_page_count(context, NULL), MMSB_E_INVALID_ARGUMENT);
    stats.struct_size = 3;
    CHECK_STATUS(mmsb_context_stats(context, &stats), MMSB_E_STRUCT_VERSION);
    mmsb_context_stats_init(&stats);
    stats.reserved[0] = 1;
    CHECK_STATUS(mmsb_context_stats(context, &stats), MMSB_E_STRUCT_VERSION);
    CHECK_OK(mmsb_context_destroy(context));
}

/* ---------------------------------------------------------------------------------- listing under concurrent change ---- */

typedef struct churn {
    mmsb_context_t context;
    int stop;
} churn_t;

static void *create_and_destroy(void *argument) {
    team_member_t *member = argument;
    churn_t *churn = member->shared;
    mmsb_page_t pages[100] = {0};
    uint64_t seed = member->index;
    while (!__atomic_load_n(&churn->stop, __ATOMIC_RELAXED)) {
        uint64_t slot = random_below(&seed, 100);
        if (pages[slot] != 0) {
            CHECK_OK(mmsb_page_destroy(pages[slot]));
            pages[slot] = 0;
        } else {
            pages[slot] = new_page(churn->context, 1 + random_below(&seed, 300));
        }
    }
    for (int i = 0; i < 100; i++) {
        CHECK_OK(mmsb_page_destroy(pages[i]));
    }
    return NULL;
}

static int compare_handles(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void *walk(void *argument) {
    team_member_t *member = argument;
    if (member->index < 3) {
        return create_and_destroy(argument);
    }
    enum { STAY = 3000, ROUNDS = 30 };
    churn_t *churn = member->shared;
    static mmsb_page_t stay[STAY];
    for (int i = 0; i < STAY; i++) {
        stay[i] = new_page(churn->context, 64);
    }
    qsort(stay, STAY, sizeof *stay, compare_handles);
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t *seen = calloc(1, STAY);
        mmsb_page_t pages[77];
        size_t capacity = round % 3 == 0 ? 1 : round % 3 == 1 ? 10 : 77;
        size_t count = 1;
        uint64_t cursor = 0;
        while (count > 0) {
            REQUIRE_OK(mmsb_context_pages(churn->context, &cursor, pages, capacity, &count));
            REQUIRE(count <= capacity);
            for (size_t i = 0; i < count; i++) {
                const mmsb_page_t *found = bsearch(&pages[i], stay, STAY, sizeof *stay, compare_handles);
                if (found != NULL) {
                    seen[found - stay]++;
                }
            }
        }
        for (int i = 0; i < STAY; i++) {
            CHECK_EQUAL(seen[i], 1);
        }
        free(seen);
    }
    __atomic_store_n(&churn->stop, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void listing_is_stable_under_change(void) {
    churn_t churn = {new_context(), 0};
    run_team(4, walk, &churn);
    CHECK_EQUAL(context_stats(churn.context).pages, 3000);
    uint64_t cursor = 0;
    size_t count = 0;
    mmsb_page_t pages[2];
    CHECK_STATUS(mmsb_context_pages(churn.context, NULL, pages, 2, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_pages(churn.context, &cursor, NULL, 2, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_pages(churn.context, &cursor, pages, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_pages(churn.context, &cursor, pages, 2, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_pages(churn.context, &cursor, pages, SIZE_MAX, &count), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_context_device_pages(churn.context, 0, &cursor, pages, SIZE_MAX, &count), MMSB_E_INVALID_SIZE);
    mmsb_context_t small = new_context();
    const mmsb_page_t page = new_page(small, 1);
    CHECK_OK(mmsb_context_pages(small, &cursor, pages, (size_t)1 << 32, &count));
    CHECK(count == 1 && pages[0] == page);
    CHECK_OK(mmsb_context_device_pages(small, 0, &(uint64_t){0}, pages, (size_t)1 << 32, &count));
    CHECK_EQUAL(count, 0);
    CHECK_OK(mmsb_context_destroy(small));
    cursor = UINT64_MAX; /* a cursor that no call gave out: the walk may be over, but nothing breaks */
    mmsb_status_t status = mmsb_context_pages(churn.context, &cursor, pages, 2, &count);
    CHECK(status == MMSB_E_INVALID_ARGUMENT || (status == MMSB_OK && count == 0));
    CHECK_OK(mmsb_context_destroy(churn.context));
}

/* ------------------------------------------------------------------------------------------------- limits and memory ---- */

static void the_memory_limit_holds(void) {
    mmsb_context_options_t options = defaults();
    options.memory_limit = 16 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_page_t page = 42;
    CHECK_STATUS(mmsb_page_create(context, 17 << 20, NULL, &page), MMSB_E_LIMIT);
    CHECK(strstr(mmsb_last_error(), "16777216") != NULL); /* the text has the limit */
    CHECK_EQUAL(page, 42);

    static const uint64_t sizes[] = {100, 4096, 60000, 1 << 20};
    static mmsb_page_t pages[200000];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t count = 0;
        mmsb_status_t status;
        while ((status = mmsb_page_create(context, sizes[i], NULL, &page)) == MMSB_OK) {
            pages[count++] = page;
            REQUIRE(count < 200000);
            if (count % 500 == 0) { /* the stats walk all pages */
                CHECK(context_stats(context).memory_used <= 16 << 20);
            }
        }
        CHECK_EQUAL(status, MMSB_E_LIMIT);
        CHECK(count * sizes[i] >= 8 << 20); /* the limit is there to be used */
        CHECK_EQUAL(context_stats(context).pages, count);
        write_pattern(pages[0], 1);
        CHECK_STATUS(mmsb_page_resize(pages[0], 16 << 20), MMSB_E_LIMIT);
        CHECK(page_holds_pattern(pages[0], 1, sizes[i]));
        CHECK_STATUS(mmsb_page_clone(pages[0], 0, &page), MMSB_E_LIMIT);
        CHECK_EQUAL(context_stats(context).pages, count);
        CHECK_OK(mmsb_page_destroy(pages[--count]));
        CHECK_OK(mmsb_page_create(context, sizes[i], NULL, &pages[count++]));
        CHECK_OK(mmsb_page_destroy_many(pages, count, NULL));
        CHECK_OK(mmsb_context_trim(context, NULL));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* The mask of a page may pass the limit; the delta is then not applied at all. */
static void a_mask_past_the_limit_refuses_the_delta(void) {
    mmsb_context_options_t options = defaults();
    options.memory_limit = 9 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_page_t page = 0;
    uint64_t size = 9 << 20;
    while (mmsb_page_create(context, size, NULL, &page) != MMSB_OK) { /* the largest that fits, up to 64 KiB */
        size -= 64 << 10;
        REQUIRE(size > 1 << 20);
    }
    mmsb_run_t run = {5, 3};
    mmsb_delta_t delta = one_run(&run, "abc");
    CHECK_STATUS(mmsb_page_apply(page, &delta), MMSB_E_LIMIT);
    CHECK_EQUAL(mmsb_page_epoch(page), 0);
    uint8_t bytes[3] = {1, 1, 1};
    CHECK_OK(mmsb_page_read(page, 5, bytes, 3));
    CHECK(bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 0);
    uint64_t set = 1;
    CHECK_OK(mmsb_page_mask_count(page, &set));
    CHECK_EQUAL(set, 0);
    CHECK_OK(mmsb_page_resize(page, 1 << 20));
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Freed memory stays with the context for at least five seconds; after that it goes by itself, and trim has less to give back. */
enum { RETAINED_SECONDS = 5 };

static void trim_gives_memory_back(void) {
    static const uint64_t sizes[] = {256, 4096, 100000, 4 << 20};
    mmsb_context_t context = new_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        enum { TOTAL = 64 << 20 };
        size_t count = TOTAL / sizes[i];
        mmsb_page_t *pages = malloc(count * sizeof *pages);
        int64_t freed, seconds; /* by a clock of whole seconds: one more may have passed */
        const int64_t end = check_seconds() + CHECK_PATIENCE;
        do {
            CHECK_OK(mmsb_page_create_many(context, sizes[i], count, NULL, NULL, pages));
            for (size_t k = 0; k < count; k++) {
                memset(mmsb_page_address(pages[k]), 1, sizes[i]);
            }
            CHECK(context_stats(context).memory_used >= TOTAL);
            freed = check_seconds();
            CHECK_OK(mmsb_page_destroy_many(pages, count, NULL));
            uint64_t before = context_stats(context).memory_used;
            uint64_t released = UINT64_MAX;
            CHECK_OK(mmsb_context_trim(context, &released));
            uint64_t after = context_stats(context).memory_used;
            seconds = check_seconds() - freed + 1;
            CHECK(after <= TOTAL / 4);
            CHECK(released <= before);
            CHECK(released + after >= before || seconds >= RETAINED_SECONDS);
        } while (seconds >= RETAINED_SECONDS && check_seconds() < end);
        CHECK(seconds < RETAINED_SECONDS); /* else nothing has been seen of what trim says that it gave back */
        free(pages);
    }
    CHECK_OK(mmsb_context_trim(context, NULL));
    CHECK_OK(mmsb_context_destroy(context));
}

static mmsb_memory_usage_t memory_usage(void) {
    mmsb_memory_usage_t usage;
    mmsb_memory_usage_init(&usage);
    CHECK_EQUAL(usage.struct_size, sizeof usage);
    CHECK_OK(mmsb_memory_usage(&usage));
    return usage;
}

static void memory_is_counted_by_purpose(void) {
    mmsb_context_t context = new_context();
    mmsb_memory_usage_t before = memory_usage();
    CHECK(before.go_heap_bytes > 0);
    mmsb_page_t page = new_page(context, 8 << 20);
    mmsb_page_t disk = new_disk_page(context, 8 << 20);
    write_pattern(disk, 1);
    mmsb_run_t run = {0, 1};
    mmsb_delta_t delta = one_run(&run, "x");
    CHECK_OK(mmsb_page_apply(page, &delta));
    mmsb_memory_usage_t during = memory_usage();
    CHECK(during.page_bytes >= before.page_bytes + (8 << 20));
    CHECK(during.disk_bytes >= before.disk_bytes + (8 << 20));
    CHECK(during.mask_bytes >= before.mask_bytes + (1 << 20));
    CHECK(during.record_bytes > 0);
    CHECK_OK(mmsb_context_destroy(context));
    mmsb_memory_usage_t after = memory_usage();
    CHECK(after.page_bytes < during.page_bytes);
    CHECK(after.disk_bytes < during.disk_bytes);
    CHECK(after.mask_bytes < during.mask_bytes);
    CHECK_STATUS(mmsb_memory_usage(NULL), MMSB_E_INVALID_ARGUMENT);
    before.struct_size--;
    CHECK_STATUS(mmsb_memory_usage(&before), MMSB_E_STRUCT_VERSION);
    mmsb_memory_usage_init(&before);
    before.reserved[5] = 1;
    CHECK_STATUS(mmsb_memory_usage(&before), MMSB_E_STRUCT_VERSION);
}

enum { ROUND = 2000 };

static void a_context_comes_and_goes(void) {
    mmsb_context_t context = new_context();
    for (int i = 0; i < ROUND; i++) {
        new_page(context, 100);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void contexts_leave_no_caches_behind(void) {
    a_context_comes_and_goes();
    uint64_t bytes = memory_usage().cache_bytes;
    for (int i = 0; i < 50; i++) {
        a_context_comes_and_goes();
    }
    CHECK_EQUAL(memory_usage().cache_bytes, bytes);
}

static void *destroys_all(void *pages) {
    for (int i = 0; i < ROUND; i++) {
        CHECK_OK(mmsb_page_destroy(((mmsb_page_t *)pages)[i]));
    }
    return NULL;
}

/* The threads of a pair have caches of different shards, and each end of a thread gives its shard to the next one. */
static void a_thread_destroys_what_another_creates(void) {
    static mmsb_page_t pages[ROUND];
    mmsb_context_t context = new_context();
    uint64_t bytes = 0;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < ROUND; i++) {
            pages[i] = new_page(context, 100);
        }
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, destroys_all, pages) == 0 && pthread_join(thread, NULL) == 0);
        bytes = round == 1 ? memory_usage().cache_bytes : bytes;
    }
    CHECK_EQUAL(memory_usage().cache_bytes, bytes);
    CHECK_OK(mmsb_context_destroy(context));
}

/* -------------------------------------------------------------------------------------------------------- shutdown ---- */

static void shutdown_ends_everything(void) {
    CHECK_OK(mmsb_shutdown());
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 10);
    mmsb_page_t filled[10];
    mmsb_ticket_t ticket;
    CHECK_OK(mmsb_page_create_many_start(context, 10, 10, NULL, NULL, filled, &ticket));
    CHECK_OK(mmsb_shutdown());
    CHECK_OK(mmsb_shutdown());
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_ticket_destroy(ticket), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(mmsb_page_size(page), 0);
    mmsb_context_t next = new_context();
    CHECK(next != context);
    mmsb_page_t next_page = new_page(next, 10);
    CHECK(next_page != page);
    CHECK_OK(mmsb_page_create_many_start(next, 10, 10, NULL, NULL, filled, &ticket));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(next));
}

/* The context 0 is none, also on a thread whose last context puts its pages elsewhere than on the host. */
static void the_context_0_is_never_another(void) {
    mmsb_context_options_t options = defaults();
    options.default_location = MMSB_LOCATION_DISK;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_page_options_t on_host;
    mmsb_page_options_init(&on_host);
    on_host.location = MMSB_LOCATION_CPU;
    mmsb_page_t page = 42;
    CHECK_OK(mmsb_page_create(context, 100, &on_host, &page)); /* the context is the thread's last now */
    CHECK_OK(mmsb_page_destroy(page));
    page = 42;
    void *address = NULL;
    CHECK_STATUS(mmsb_page_create(0, 100, NULL, &page), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_page_create_with_address(0, 100, NULL, &page, &address), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(page, 42);
    CHECK_EQUAL(context_stats(context).pages, 0);
    CHECK_OK(mmsb_page_create(context, 100, NULL, &page));
    CHECK_EQUAL(context_stats(context).location_pages[MMSB_LOCATION_DISK], 1);
    CHECK_OK(mmsb_context_destroy(context));
}

/* A thread's cache of a context that has ended must not serve the next one, which has the same index. */
static void a_context_follows_another(void) {
    mmsb_context_t first = new_context();
    CHECK_OK(mmsb_page_destroy(new_page(first, 100)));
    CHECK_OK(mmsb_context_destroy(first));
    mmsb_context_t second = new_context();
    mmsb_page_t pages[10];
    mmsb_ticket_t ticket;
    REQUIRE_OK(mmsb_page_create_many_start(second, 100, 10, NULL, NULL, pages, &ticket));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    for (int i = 0; i < 10; i++) {
        CHECK_OK(mmsb_page_destroy(pages[i])); /* made by another thread */
    }
    CHECK_EQUAL(context_stats(second).pages, 0);
    CHECK_OK(mmsb_context_destroy(second));
}

int main(void) {
    unsetenv("MMSB_SIMULATE");
    RUN(options_have_defaults);
    RUN(options_are_read_from_text);
    RUN(wrong_texts_change_nothing);
    RUN(wrong_options_make_no_context);
    RUN(the_environment_may_change);
    RUN(the_default_location_serves);
    RUN(contexts_end_with_all_they_have);
    RUN(stats_count);
    RUN(listing_is_stable_under_change);
    RUN(the_memory_limit_holds);
    RUN(a_mask_past_the_limit_refuses_the_delta);
    RUN(trim_gives_memory_back);
    RUN(memory_is_counted_by_purpose);
    RUN(contexts_leave_no_caches_behind);
    RUN(a_thread_destroys_what_another_creates);
    RUN(shutdown_ends_everything);
    RUN(the_context_0_is_never_another);
    RUN(a_context_follows_another);
    return check_report();
}
