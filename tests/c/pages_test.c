/* Pages: create, look up, info, bytes, pins, resize, clone, release, destroy; one and many. */
#include "library.h"

#include <sys/resource.h>
#include <sys/wait.h>

static void creation_gives_zeroed_aligned_pages(void) {
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 255, 256, 1000, 4095, 4096, 4097, 8192, 65536, 1000003, 5000000};
    mmsb_context_t context = new_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t size = sizes[i];
        mmsb_page_t page = new_page(context, size);
        uint64_t alignment = size >= 4096 ? 4096 : size >= 256 ? 256 : 64;
        uintptr_t address = (uintptr_t)mmsb_page_address(page);
        CHECK(address != 0);
        CHECK_EQUAL(address % alignment, 0);
        uint8_t *zeros = calloc(1, size);
        CHECK(page_holds(page, zeros, size));
        free(zeros);

        mmsb_page_info_t info = page_info(page);
        CHECK_EQUAL(info.struct_size, sizeof info);
        CHECK_EQUAL(info.page, page);
        CHECK_EQUAL(info.context, context);
        CHECK(info.id != 0);
        CHECK_EQUAL(info.size, size);
        CHECK_EQUAL(info.epoch, 0);
        CHECK(info.version != 0);
        CHECK_EQUAL(info.location, MMSB_LOCATION_CPU);
        CHECK_EQUAL(info.device, 0);
        CHECK_EQUAL(info.read_pins + info.write_pins, 0);
        CHECK(!info.simulated && !info.adopted && !info.read_only);
        CHECK_EQUAL(info.metadata_count, 0);
        CHECK_EQUAL(mmsb_page_size(page), size);
        CHECK_EQUAL(mmsb_page_epoch(page), 0);
        CHECK_EQUAL(mmsb_page_version(page), info.version);
        uint64_t set = 1;
        CHECK_OK(mmsb_page_mask_count(page, &set));
        CHECK_EQUAL(set, 0);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* Memory that comes back must not carry what its last page held. */
static void reused_memory_is_zeroed(void) {
    static const uint64_t sizes[] = {1, 64, 200, 4096, 10000, 300000};
    mmsb_context_t context = new_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t size = sizes[i];
        uint8_t *zeros = calloc(1, size);
        uint8_t *ones = malloc(size);
        memset(ones, 0xFF, size);
        for (int round = 0; round < 60; round++) {
            mmsb_page_t page = new_page(context, size);
            CHECK(page_holds(page, zeros, size));
            if (round % 3 == 0) {
                memset(mmsb_page_address(page), 0xFF, size);
            } else if (round % 3 == 1) {
                CHECK_OK(mmsb_page_write(page, 0, ones, size));
            } else {
                mmsb_run_t run = {size - 1, 1};
                mmsb_delta_t delta = one_run(&run, ones);
                CHECK_OK(mmsb_page_apply(page, &delta));
            }
            CHECK_OK(mmsb_page_destroy(page));
        }
        free(zeros);
        free(ones);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void options_are_checked(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = 42;
    CHECK_STATUS(mmsb_page_create(context, 0, NULL, &page), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_create(context, 1ULL << 63, NULL, &page), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_create(context, SIZE_MAX, NULL, &page), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_create(context, 64, NULL, NULL), MMSB_E_INVALID_ARGUMENT);

    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    CHECK_EQUAL(options.struct_size, sizeof options);
    CHECK_EQUAL(options.location, MMSB_LOCATION_DEFAULT);
    CHECK_EQUAL(options.numa_node, -1);
    CHECK_EQUAL(options.contents, MMSB_PAGE_ZEROED);
    options.struct_size--;
    CHECK_STATUS(mmsb_page_create(context, 64, &options, &page), MMSB_E_STRUCT_VERSION);
    mmsb_page_options_init(&options);
    options.struct_size = 0;
    CHECK_STATUS(mmsb_page_create(context, 64, &options, &page), MMSB_E_STRUCT_VERSION);
    mmsb_page_options_init(&options);
    options.reserved_word = 1;
    CHECK_STATUS(mmsb_page_create(context, 64, &options, &page), MMSB_E_STRUCT_VERSION);
    for (int i = 0; i < 2; i++) {
        mmsb_page_options_init(&options);
        options.reserved[i] = 1ULL << 63;
        CHECK_STATUS(mmsb_page_create(context, 64, &options, &page), MMSB_E_STRUCT_VERSION);
    }
    static const int32_t no_locations[] = {-2, 5, 99, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof no_locations / sizeof no_locations[0]; i++) {
        mmsb_page_options_init(&options);
        options.location = no_locations[i];
        CHECK_STATUS(mmsb_page_create(context, 64, &options, &page), MMSB_E_INVALID_ARGUMENT);
    }
    static const int32_t locations_of_devices[] = {MMSB_LOCATION_GPU, MMSB_LOCATION_UNIFIED, MMSB_LOCATION_PINNED};
    for (size_t i = 0; i < sizeof locations_of_devices / sizeof locations_of_devices[0]; i++) {
        mmsb_page_options_init(&options);
        options.location = locations_of_devices[i];
        CHECK_STATUS(mmsb_page_create(context, 64, &options, &page), MMSB_E_NO_DEVICE);
    }
    mmsb_page_options_init(&options);
    options.contents = MMSB_PAGE_UNINITIALISED + 1;
    CHECK_STATUS(mmsb_page_create(context, 64, &options, &page), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(page, 42);
    CHECK_EQUAL(context_stats(context).pages, 0);

    mmsb_page_options_init(&options);
    options.contents = MMSB_PAGE_UNINITIALISED;
    options.location = MMSB_LOCATION_CPU;
    options.id = 77;
    CHECK_OK(mmsb_page_create(context, 64, &options, &page));
    CHECK_EQUAL(page_info(page).id, 77);
    CHECK_OK(mmsb_context_destroy(context));
}

static void ids_name_pages(void) {
    mmsb_context_t context = new_context();
    mmsb_context_t other = new_context();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    static const uint64_t ids[] = {1, 2, 1000, 1ULL << 32, 1ULL << 63, UINT64_MAX};
    mmsb_page_t pages[6];
    for (int i = 0; i < 6; i++) {
        options.id = ids[i];
        CHECK_OK(mmsb_page_create(context, 10 + (uint64_t)i, &options, &pages[i]));
        mmsb_page_t duplicate = 42;
        CHECK_STATUS(mmsb_page_create(context, 10, &options, &duplicate), MMSB_E_ALREADY_EXISTS);
        CHECK_EQUAL(duplicate, 42);
        mmsb_page_t elsewhere;
        CHECK_OK(mmsb_page_create(other, 10, &options, &elsewhere));
    }
    for (int i = 0; i < 6; i++) {
        mmsb_page_t found = 0;
        CHECK_OK(mmsb_page_lookup(context, ids[i], &found));
        CHECK_EQUAL(found, pages[i]);
    }
    mmsb_page_t found[7] = {1, 2, 3, 4, 5, 6, 7};
    CHECK_OK(mmsb_page_lookup_many(context, ids, 6, found, NULL));
    CHECK(memcmp(found, pages, sizeof pages) == 0);
    CHECK_OK(mmsb_page_lookup_many(context, NULL, 0, NULL, NULL));
    mmsb_page_t untouched[3] = {42, 43, 44};
    const uint64_t one_missing[3] = {1, 4711, 4712};
    size_t bad = 99;
    CHECK_STATUS(mmsb_page_lookup_many(context, one_missing, 3, untouched, &bad), MMSB_E_NOT_FOUND);
    CHECK_EQUAL(bad, 1);
    CHECK(untouched[0] == 42 && untouched[1] == 43 && untouched[2] == 44);
    CHECK_STATUS(mmsb_page_lookup(context, 4711, untouched), MMSB_E_NOT_FOUND);
    CHECK_EQUAL(untouched[0], 42);
    CHECK_STATUS(mmsb_page_lookup(context, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_lookup_many(context, NULL, 3, untouched, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_lookup_many(context, ids, 3, NULL, NULL), MMSB_E_INVALID_ARGUMENT);

    /* The library's own ids: found, unique, and never one that was used. */
    enum { COUNT = 3000 };
    static uint64_t used[COUNT];
    for (int i = 0; i < COUNT; i++) {
        mmsb_page_t page = new_page(context, 8);
        used[i] = page_info(page).id;
        CHECK_OK(mmsb_page_lookup(context, used[i], found));
        CHECK_EQUAL(found[0], page);
        if (i % 2 == 0) {
            CHECK_OK(mmsb_page_destroy(page));
            CHECK_STATUS(mmsb_page_lookup(context, used[i], found), MMSB_E_NOT_FOUND);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < 6; j++) {
            CHECK(used[i] != ids[j]);
        }
        for (int j = i + 1; j < COUNT; j++) {
            if (used[i] == used[j]) {
                check_fail(__FILE__, __LINE__, "id %llu came twice", (unsigned long long)used[i]);
            }
        }
    }
    /* An id of the caller's is free again when its page has ended. */
    CHECK_OK(mmsb_page_destroy(pages[0]));
    options.id = ids[0];
    CHECK_OK(mmsb_page_create(context, 10, &options, &pages[0]));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_context_destroy(other));
}

/* An id of the caller's may be one that the library would give next; both must then be told apart. */
static void ids_of_both_sides_do_not_collide(void) {
    mmsb_context_t context = new_context();
    uint64_t next = page_info(new_page(context, 8)).id;
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    for (uint64_t i = 1; i <= 200; i++) {
        mmsb_page_t page;
        options.id = next + i;
        mmsb_status_t status = mmsb_page_create(context, 8, &options, &page);
        CHECK(status == MMSB_OK || status == MMSB_E_ALREADY_EXISTS);
        mmsb_page_t own = new_page(context, 8);
        mmsb_page_t found;
        CHECK_OK(mmsb_page_lookup(context, page_info(own).id, &found));
        CHECK_EQUAL(found, own);
        CHECK_OK(mmsb_page_lookup(context, options.id, &found));
        CHECK_EQUAL(page_info(found).id, options.id);
    }
    CHECK_EQUAL(context_stats(context).pages >= 201, 1);
    CHECK_OK(mmsb_context_destroy(context));
}

static void many_are_created_or_none(void) {
    mmsb_context_options_t limited;
    mmsb_context_options_init(&limited);
    limited.memory_limit = 16 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&limited, &context));
    static mmsb_page_t pages[2000];
    CHECK_OK(mmsb_page_create_many(context, 100, 2000, NULL, NULL, pages));
    for (int i = 0; i < 2000; i++) {
        CHECK_EQUAL(mmsb_page_size(pages[i]), 100);
        CHECK(i == 0 || pages[i] != pages[i - 1]);
    }
    CHECK_EQUAL(context_stats(context).pages, 2000);
    size_t bad = 99;
    CHECK_OK(mmsb_page_destroy_many(pages, 2000, &bad));
    CHECK_EQUAL(context_stats(context).pages, 0);

    CHECK_OK(mmsb_page_create_many(context, 100, 0, NULL, NULL, NULL));
    pages[0] = 42;
    CHECK_STATUS(mmsb_page_create_many(context, 0, 2, NULL, NULL, pages), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_create_many(context, 1ULL << 62, 16, NULL, NULL, pages), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_create_many(context, 100, 2, NULL, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 5;
    CHECK_STATUS(mmsb_page_create_many(context, 100, 2, &options, NULL, pages), MMSB_E_INVALID_ARGUMENT);
    mmsb_page_options_init(&options);
    options.reserved[1] = 1;
    CHECK_STATUS(mmsb_page_create_many(context, 100, 2, &options, NULL, pages), MMSB_E_STRUCT_VERSION);
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_GPU;
    CHECK_STATUS(mmsb_page_create_many(context, 100, 2, &options, NULL, pages), MMSB_E_NO_DEVICE);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.struct_size++;
    CHECK_STATUS(mmsb_page_create_many(context, 100, 2, NULL, &work, pages), MMSB_E_STRUCT_VERSION);
    /* 100 MiB are more than the limit: nothing is created, and the next good call works. */
    CHECK_STATUS(mmsb_page_create_many(context, 100 << 10, 1024, NULL, NULL, pages), MMSB_E_LIMIT);
    CHECK_EQUAL(context_stats(context).pages, 0);
    CHECK_OK(mmsb_page_create_many(context, 100 << 10, 10, NULL, NULL, pages));
    CHECK_EQUAL(context_stats(context).pages, 10);
    CHECK_OK(mmsb_context_destroy(context));
}

static void addresses_come_with_pages(void) {
    mmsb_context_t context = new_context();
    static const uint64_t sizes[] = {1, 100, 4096, 5000, 2000000};
    mmsb_page_t pages[6];
    void *addresses[6];
    for (int i = 0; i < 5; i++) {
        addresses[i] = NULL;
        CHECK_OK(mmsb_page_create_with_address(context, sizes[i], NULL, &pages[i], &addresses[i]));
        CHECK(addresses[i] != NULL && addresses[i] == mmsb_page_address(pages[i]));
        uint8_t *zeros = calloc(1, sizes[i]);
        CHECK(memcmp(addresses[i], zeros, sizes[i]) == 0);
        free(zeros);
        memset(addresses[i], 0xFF, sizes[i]);
    }
    void *all[6] = {NULL};
    CHECK_OK(mmsb_page_address_many(pages, 5, all, NULL));
    CHECK(memcmp(all, addresses, 5 * sizeof *all) == 0);
    /* Written through the address, the memory is zeroed for whoever has it next. */
    CHECK_OK(mmsb_page_destroy_many(pages, 5, NULL));
    for (int i = 0; i < 5; i++) {
        uint8_t *zeros = calloc(1, sizes[i]);
        pages[i] = new_page(context, sizes[i]);
        CHECK(page_holds(pages[i], zeros, sizes[i]));
        free(zeros);
    }
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_DISK;
    options.id = 12;
    void *address = &options;
    CHECK_OK(mmsb_page_create_with_address(context, 100, &options, &pages[5], &address));
    CHECK(address == NULL);
    address = &options;
    mmsb_page_t page = 42;
    CHECK_STATUS(mmsb_page_create_with_address(context, 100, &options, &page, &address), MMSB_E_ALREADY_EXISTS);
    CHECK_STATUS(mmsb_page_create_with_address(context, 0, NULL, &page, &address), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_create_with_address(context, 100, NULL, NULL, &address), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_create_with_address(context, 100, NULL, &page, NULL), MMSB_E_INVALID_ARGUMENT);
    options.reserved[0] = 1;
    CHECK_STATUS(mmsb_page_create_with_address(context, 100, &options, &page, &address), MMSB_E_STRUCT_VERSION);
    CHECK(page == 42 && address == &options);
    CHECK_EQUAL(context_stats(context).pages, 6);

    size_t bad = 99;
    CHECK_STATUS(mmsb_page_address_many(pages, 6, all, &bad), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(bad, 5);
    CHECK_OK(mmsb_page_pin(pages[5], MMSB_PIN_READ, &address));
    CHECK_OK(mmsb_page_address_many(pages, 6, all, &bad));
    CHECK(all[5] == address);
    CHECK_OK(mmsb_page_unpin(pages[5], MMSB_PIN_READ));
    mmsb_page_t gone = pages[2];
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_STATUS(mmsb_page_address_many(pages, 6, all, &bad), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(bad, 2);
    CHECK_OK(mmsb_page_address_many(NULL, 0, NULL, NULL));
    CHECK_STATUS(mmsb_page_address_many(NULL, 1, all, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_address_many(pages, 1, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

/* The time is over long before two million pages are made, unless the caller is kept from looking until all of them are: then it
 * is tried again. None is left behind. */
static void creation_of_many_can_time_out(void) {
    enum { COUNT = 2000000 };
    mmsb_context_t context = new_context();
    mmsb_page_t *pages = calloc(COUNT, sizeof *pages);
    REQUIRE(pages != NULL);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.timeout_ns = 1;
    mmsb_status_t status;
    const int64_t end = check_seconds() + CHECK_PATIENCE;
    while ((status = mmsb_page_create_many(context, 64, COUNT, NULL, &work, pages)) == MMSB_OK && check_seconds() < end) {
        CHECK_EQUAL(context_stats(context).pages, COUNT);
        CHECK_OK(mmsb_page_destroy_many(pages, COUNT, NULL));
        memset(pages, 0, COUNT * sizeof *pages);
    }
    CHECK_STATUS(status, MMSB_E_TIMEOUT);
    CHECK_EQUAL(context_stats(context).pages, 0);
    CHECK_EQUAL(pages[0], 0);
    CHECK_EQUAL(pages[COUNT - 1], 0);
    work.timeout_ns = MMSB_WAIT_FOREVER;
    CHECK_OK(mmsb_page_create_many(context, 64, 1000, NULL, &work, pages));
    free(pages);
    CHECK_OK(mmsb_context_destroy(context));
}

static void ranges_are_read_and_written(void) {
    static const uint64_t sizes[] = {1, 100, 4096, 70000};
    mmsb_context_t context = new_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t size = sizes[i];
        for (int on_disk = 0; on_disk < 2; on_disk++) {
            mmsb_page_t page = on_disk ? new_disk_page(context, size) : new_page(context, size);
            uint8_t *model = calloc(1, size);
            uint8_t *buffer = malloc(size + 1);
            uint64_t seed = size;
            uint64_t version = mmsb_page_version(page);
            for (int round = 0; round < 50; round++) {
                uint64_t offset = random_below(&seed, size);
                uint64_t length = 1 + random_below(&seed, size - offset);
                for (uint64_t k = 0; k < length; k++) {
                    buffer[k] = (uint8_t)random_next(&seed);
                }
                memcpy(model + offset, buffer, length);
                CHECK_OK(mmsb_page_write(page, offset, buffer, length));
                CHECK(mmsb_page_version(page) > version);
                version = mmsb_page_version(page);
                CHECK(page_holds(page, model, size));
                offset = random_below(&seed, size + 1);
                length = random_below(&seed, size - offset + 1);
                memset(buffer, 0xAA, size + 1);
                CHECK_OK(mmsb_page_read(page, offset, buffer, length));
                CHECK(memcmp(buffer, model + offset, length) == 0);
                CHECK_EQUAL(buffer[length], 0xAA);
                CHECK_EQUAL(mmsb_page_version(page), version);
            }
            CHECK_EQUAL(mmsb_page_epoch(page), 0);
            uint64_t set;
            CHECK_OK(mmsb_page_mask_count(page, &set));
            CHECK_EQUAL(set, 0);

            CHECK_OK(mmsb_page_read(page, size, buffer, 0));
            CHECK_OK(mmsb_page_write(page, size, buffer, 0));
            CHECK_STATUS(mmsb_page_read(page, size, buffer, 1), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_read(page, 0, buffer, size + 1), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_read(page, size + 1, buffer, 0), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_read(page, UINT64_MAX, buffer, 2), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_read(page, 1, buffer, UINT64_MAX), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_write(page, size, buffer, 1), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_write(page, 0, buffer, size + 1), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_write(page, UINT64_MAX, buffer, UINT64_MAX), MMSB_E_OUT_OF_RANGE);
            CHECK_STATUS(mmsb_page_read(page, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
            CHECK_STATUS(mmsb_page_write(page, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
            CHECK(page_holds(page, model, size));
            free(model);
            free(buffer);
        }
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void many_ranges_are_written_or_none(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t first = new_page(context, 16);
    mmsb_page_t second = new_disk_page(context, 16);
    uint8_t a[4] = {1, 2, 3, 4};
    uint8_t b[4] = {5, 6, 7, 8};
    mmsb_page_range_t ranges[3] = {{first, 0, 4, a}, {second, 12, 4, b}, {first, 2, 4, b}};
    CHECK_OK(mmsb_page_write_many(ranges, 3, NULL));
    const uint8_t first_bytes[16] = {1, 2, 5, 6, 7, 8};
    const uint8_t second_bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8};
    CHECK(page_holds(first, first_bytes, 16));
    CHECK(page_holds(second, second_bytes, 16));

    uint8_t c[4] = {0};
    uint8_t d[4] = {0};
    mmsb_page_range_t reads[2] = {{first, 2, 4, c}, {second, 11, 4, d}};
    CHECK_OK(mmsb_page_read_many(reads, 2, NULL));
    CHECK(memcmp(c, b, 4) == 0);
    CHECK(d[0] == 0 && d[1] == 5 && d[2] == 6 && d[3] == 7);

    size_t bad = 99;
    mmsb_page_range_t broken[3] = {{first, 0, 4, b}, {first, 4, 4, b}, {second, 13, 4, b}};
    CHECK_STATUS(mmsb_page_write_many(broken, 3, &bad), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(bad, 2);
    broken[1].buffer = NULL;
    CHECK_STATUS(mmsb_page_write_many(broken, 3, &bad), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(bad, 1);
    broken[0].page = 0;
    CHECK_STATUS(mmsb_page_write_many(broken, 3, &bad), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(bad, 0);
    CHECK(page_holds(first, first_bytes, 16));
    CHECK(page_holds(second, second_bytes, 16));
    memset(c, 0xAA, 4);
    reads[1].offset = 20;
    CHECK_STATUS(mmsb_page_read_many(reads, 2, &bad), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(bad, 1);
    CHECK_EQUAL(c[0], 0xAA);
    CHECK_STATUS(mmsb_page_read_many(NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_write_many(NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_page_read_many(NULL, 0, NULL));
    CHECK_OK(mmsb_page_write_many(NULL, 0, NULL));
    CHECK_OK(mmsb_context_destroy(context));
}

static void infos_of_many(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[3] = {new_page(context, 1), new_page(context, 2), new_disk_page(context, 3)};
    mmsb_page_info_t infos[3];
    for (int i = 0; i < 3; i++) {
        mmsb_page_info_init(&infos[i]);
    }
    CHECK_OK(mmsb_page_info_many(pages, 3, infos, NULL));
    for (int i = 0; i < 3; i++) {
        mmsb_page_info_t single = page_info(pages[i]);
        CHECK(memcmp(&single, &infos[i], sizeof single) == 0);
        CHECK_EQUAL(infos[i].size, i + 1);
    }
    CHECK_EQUAL(infos[2].location, MMSB_LOCATION_DISK);
    size_t bad = 99;
    infos[1].struct_size = 8;
    infos[0].size = 4711;
    CHECK_STATUS(mmsb_page_info_many(pages, 3, infos, &bad), MMSB_E_STRUCT_VERSION);
    CHECK_EQUAL(bad, 1);
    CHECK_EQUAL(infos[0].size, 4711);
    infos[1].struct_size = sizeof infos[1];
    mmsb_page_t gone = pages[2];
    CHECK_OK(mmsb_page_destroy(gone));
    CHECK_STATUS(mmsb_page_info_many(pages, 3, infos, &bad), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(bad, 2);
    CHECK_STATUS(mmsb_page_info_many(NULL, 1, infos, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_info_many(pages, 1, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_page_info_many(NULL, 0, NULL, NULL));
    CHECK_STATUS(mmsb_page_info(pages[0], NULL), MMSB_E_INVALID_ARGUMENT);
    infos[0].struct_size = 0;
    CHECK_STATUS(mmsb_page_info(pages[0], &infos[0]), MMSB_E_STRUCT_VERSION);
    mmsb_page_info_init(&infos[0]);
    infos[0].reserved[2] = 5;
    CHECK_STATUS(mmsb_page_info(pages[0], &infos[0]), MMSB_E_STRUCT_VERSION);
    CHECK_OK(mmsb_context_destroy(context));
}

static void pins_hold_a_page(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    write_pattern(page, 1);
    void *address = NULL;
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, &address));
    CHECK(address == mmsb_page_address(page));
    CHECK_EQUAL(((uint8_t *)address)[5], pattern_byte(1, 5));
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, NULL));
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL));
    CHECK_EQUAL(page_info(page).read_pins, 2);
    CHECK_EQUAL(page_info(page).write_pins, 1);
    CHECK_EQUAL(context_stats(context).pinned_pages, 1);

    /* What moves or ends the page must wait; what works on its bytes goes on. */
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_page_resize(page, 200), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0), MMSB_E_BUSY);
    void *memory;
    uint64_t size;
    CHECK_STATUS(mmsb_page_release(page, &memory, &size), MMSB_E_BUSY);
    mmsb_page_t pair[2] = {new_page(context, 1), page};
    size_t bad = 99;
    CHECK_STATUS(mmsb_page_destroy_many(pair, 2, &bad), MMSB_E_BUSY);
    CHECK_EQUAL(bad, 1);
    CHECK_EQUAL(mmsb_page_size(pair[0]), 1);
    write_pattern(page, 2);
    CHECK_EQUAL(((uint8_t *)address)[5], pattern_byte(2, 5));
    mmsb_run_t run = {5, 1};
    mmsb_delta_t delta = one_run(&run, "x");
    CHECK_OK(mmsb_page_apply(page, &delta));
    CHECK_EQUAL(((uint8_t *)address)[5], 'x');

    uint64_t version = mmsb_page_version(page);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
    CHECK_EQUAL(mmsb_page_version(page), version);
    CHECK_STATUS(mmsb_page_unpin(page, MMSB_PIN_READ), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    ((uint8_t *)address)[6] = 'y';
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK(mmsb_page_version(page) > version);
    CHECK_STATUS(mmsb_page_unpin(page, MMSB_PIN_WRITE), MMSB_E_INVALID_STATE);
    uint8_t byte = 0;
    CHECK_OK(mmsb_page_read(page, 6, &byte, 1));
    CHECK_EQUAL(byte, 'y');
    static const int32_t no_modes[] = {0, 3, -1, INT32_MAX};
    for (size_t i = 0; i < sizeof no_modes / sizeof no_modes[0]; i++) {
        CHECK_STATUS(mmsb_page_pin(page, no_modes[i], NULL), MMSB_E_INVALID_ARGUMENT);
        CHECK_STATUS(mmsb_page_unpin(page, no_modes[i]), MMSB_E_INVALID_ARGUMENT);
    }
    CHECK_EQUAL(context_stats(context).pinned_pages, 0);
    CHECK_OK(mmsb_page_destroy_many(pair, 2, NULL));
    CHECK_OK(mmsb_context_destroy(context));
}

static void pins_have_a_limit(void) {
    enum { LIMIT = 65535 };
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    for (int mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
        for (int i = 0; i < LIMIT; i++) {
            CHECK_OK(mmsb_page_pin(page, mode, NULL));
        }
        CHECK_STATUS(mmsb_page_pin(page, mode, NULL), MMSB_E_LIMIT);
    }
    CHECK_EQUAL(page_info(page).read_pins, LIMIT);
    CHECK_EQUAL(page_info(page).write_pins, LIMIT);
    for (int mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
        for (int i = 0; i < LIMIT; i++) {
            CHECK_OK(mmsb_page_unpin(page, mode));
        }
        CHECK_STATUS(mmsb_page_unpin(page, mode), MMSB_E_INVALID_STATE);
    }
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_OK(mmsb_context_destroy(context));
}

/* The pointer stays good after the context, until the last unpin; for everything else the handle is stale. */
static void pins_outlive_the_context(void) {
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        mmsb_context_t context = new_context();
        mmsb_page_t page = on_disk ? new_disk_page(context, 5000) : new_page(context, 5000);
        write_pattern(page, 3);
        uint8_t *bytes;
        void *address;
        CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
        CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, NULL));
        bytes = address;
        CHECK_OK(mmsb_context_destroy(context));
        CHECK_EQUAL(check_live(MMSB_KIND_PAGE), 0);
        CHECK_EQUAL(check_live(MMSB_KIND_CONTEXT), 0);
        CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 1);
        mmsb_context_t next = new_context();
        static mmsb_page_t pages[500];
        CHECK_OK(mmsb_page_create_many(next, 5000, 500, NULL, NULL, pages));
        for (int i = 0; i < 500; i++) {
            memset(mmsb_page_address(pages[i]), 0xEE, 5000);
        }
        for (uint64_t i = 0; i < 5000; i++) {
            CHECK_EQUAL(bytes[i], pattern_byte(3, i));
        }
        memset(bytes, 9, 5000);
        CHECK_STATUS(mmsb_page_pin(page, MMSB_PIN_READ, NULL), MMSB_E_STALE_HANDLE);
        uint8_t byte;
        CHECK_STATUS(mmsb_page_read(page, 0, &byte, 1), MMSB_E_STALE_HANDLE);
        CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_STALE_HANDLE);
        CHECK_EQUAL(mmsb_page_size(page), 0);
        CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
        CHECK_STATUS(mmsb_page_unpin(page, MMSB_PIN_READ), MMSB_E_INVALID_STATE);
        CHECK_EQUAL(bytes[4999], 9);
        CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
        CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 0);
        CHECK_STATUS(mmsb_page_unpin(page, MMSB_PIN_WRITE), MMSB_E_STALE_HANDLE);
        CHECK_OK(mmsb_context_destroy(next));
    }
}

static void resize_keeps_the_contents(void) {
    static const uint64_t steps[] = {100, 101, 64, 1, 4096, 4095, 5000, 70000, 3000000, 2000000, 300, 12, 1};
    mmsb_context_t context = new_context();
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        uint64_t size = 50;
        mmsb_page_t page = on_disk ? new_disk_page(context, size) : new_page(context, size);
        uint64_t id = page_info(page).id;
        uint8_t *model = calloc(1, 3000000);
        uint64_t seed = 5;
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            fill_pattern(model, size, i + 1);
            CHECK_OK(mmsb_page_write(page, 0, model, size));
            mmsb_run_t run = {random_below(&seed, size), 1};
            mmsb_delta_t delta = one_run(&run, "z");
            CHECK_OK(mmsb_page_apply(page, &delta));
            model[run.offset] = 'z';
            uint64_t version = mmsb_page_version(page);
            uint64_t epoch = mmsb_page_epoch(page);
            if (steps[i] > size) {
                memset(model + size, 0, steps[i] - size);
            }
            size = steps[i];
            CHECK_OK(mmsb_page_resize(page, size));
            CHECK(page_holds(page, model, size));
            CHECK(mmsb_page_version(page) > version);
            CHECK_EQUAL(mmsb_page_epoch(page), epoch);
            CHECK_EQUAL(page_info(page).id, id);
            if (!on_disk) {
                CHECK_EQUAL((uintptr_t)mmsb_page_address(page) % (size >= 4096 ? 4096 : size >= 256 ? 256 : 64), 0);
            }
        }
        CHECK_STATUS(mmsb_page_resize(page, 0), MMSB_E_INVALID_SIZE);
        CHECK_STATUS(mmsb_page_resize(page, 1ULL << 63), MMSB_E_INVALID_SIZE);
        CHECK_STATUS(mmsb_page_resize(page, SIZE_MAX), MMSB_E_INVALID_SIZE);
        CHECK(page_holds(page, model, size));
        CHECK_EQUAL(context_stats(context).bytes, size);
        free(model);
        CHECK_OK(mmsb_page_destroy(page));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* A page that shrinks and grows again must not show its old bytes. */
static void a_page_that_grows_again_is_zero_there(void) {
    static const uint64_t sizes[] = {64, 4096, 100000};
    mmsb_context_t context = new_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t size = sizes[i];
        for (int on_disk = 0; on_disk < 2; on_disk++) {
            mmsb_page_t page = on_disk ? new_disk_page(context, size) : new_page(context, size);
            uint8_t *model = malloc(size);
            memset(model, 0xFF, size);
            CHECK_OK(mmsb_page_write(page, 0, model, size));
            CHECK_OK(mmsb_page_resize(page, size / 3));
            CHECK_OK(mmsb_page_resize(page, size));
            memset(model + size / 3, 0, size - size / 3);
            CHECK(page_holds(page, model, size));
            free(model);
        }
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void clones_are_whole_copies(void) {
    mmsb_context_t context = new_context();
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        mmsb_page_t page = on_disk ? new_disk_page(context, 1000) : new_page(context, 1000);
        mmsb_page_t parent = new_page(context, 1);
        write_pattern(page, 4);
        mmsb_run_t run = {10, 3};
        mmsb_delta_t delta = one_run(&run, "abc");
        delta.epoch = 41;
        CHECK_OK(mmsb_page_apply(page, &delta));
        CHECK_OK(mmsb_page_metadata_set(page, "name", 4, "value", 5));
        CHECK_OK(mmsb_page_dependency_add(parent, page));
        mmsb_page_t clone = 0;
        CHECK_OK(mmsb_page_clone(page, 0, &clone));
        mmsb_page_info_t info = page_info(clone);
        CHECK(clone != page && info.id != page_info(page).id && info.id != 0);
        CHECK_EQUAL(info.size, 1000);
        CHECK_EQUAL(info.epoch, 41);
        CHECK_EQUAL(info.location, page_info(page).location);
        CHECK_EQUAL(info.metadata_count, 1);
        CHECK_EQUAL(info.context, context);
        uint8_t bytes[1000];
        CHECK_OK(mmsb_page_read(page, 0, bytes, 1000));
        CHECK(page_holds(clone, bytes, 1000));
        uint64_t set;
        CHECK_OK(mmsb_page_mask_count(clone, &set));
        CHECK_EQUAL(set, 3);
        uint8_t bits[2];
        CHECK_OK(mmsb_page_mask_read(clone, 8, bits, 8));
        CHECK_EQUAL(bits[0], 0x1C);
        char value[5];
        size_t length;
        CHECK_OK(mmsb_page_metadata_get(clone, "name", 4, value, 5, &length));
        CHECK(length == 5 && memcmp(value, "value", 5) == 0);
        size_t count = 9;
        CHECK_OK(mmsb_page_parents(clone, NULL, 0, &count));
        CHECK_EQUAL(count, 0);

        /* From here on each goes its own way. */
        CHECK_OK(mmsb_page_write(page, 0, "changed", 7));
        CHECK_OK(mmsb_page_metadata_set(page, "name", 4, "other", 5));
        CHECK_OK(mmsb_page_mask_clear(page));
        CHECK(page_holds(clone, bytes, 1000));
        CHECK_OK(mmsb_page_metadata_get(clone, "name", 4, value, 5, &length));
        CHECK(memcmp(value, "value", 5) == 0);
        CHECK_OK(mmsb_page_mask_count(clone, &set));
        CHECK_EQUAL(set, 3);

        mmsb_page_t named = 42;
        CHECK_OK(mmsb_page_clone(page, 5000 + (uint64_t)on_disk, &named));
        CHECK_EQUAL(page_info(named).id, 5000 + on_disk);
        mmsb_page_t again = 42;
        CHECK_STATUS(mmsb_page_clone(page, 5000 + (uint64_t)on_disk, &again), MMSB_E_ALREADY_EXISTS);
        CHECK_EQUAL(again, 42);
        CHECK_STATUS(mmsb_page_clone(page, 0, NULL), MMSB_E_INVALID_ARGUMENT);
        CHECK_OK(mmsb_page_destroy(page));
        CHECK(page_holds(clone, bytes, 1000));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void destroy_ends_pages(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[4];
    for (int i = 0; i < 4; i++) {
        pages[i] = new_page(context, 100);
    }
    CHECK_OK(mmsb_page_destroy(0));
    CHECK_OK(mmsb_page_destroy(pages[0]));
    CHECK_STATUS(mmsb_page_destroy(pages[0]), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(context_stats(context).pages, 3);
    size_t bad = 99;
    const mmsb_page_t twice[4] = {pages[1], 0, pages[2], pages[1]};
    CHECK_STATUS(mmsb_page_destroy_many(twice, 4, &bad), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(bad, 3);
    const mmsb_page_t stale[3] = {pages[1], pages[0], pages[2]};
    CHECK_STATUS(mmsb_page_destroy_many(stale, 3, &bad), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(bad, 1);
    CHECK_EQUAL(context_stats(context).pages, 3);
    const mmsb_page_t wrong[2] = {pages[1], context};
    CHECK_STATUS(mmsb_page_destroy_many(wrong, 2, &bad), MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(bad, 1);
    const mmsb_page_t rest[4] = {pages[1], 0, pages[2], pages[3]};
    CHECK_OK(mmsb_page_destroy_many(rest, 4, &bad));
    CHECK_EQUAL(context_stats(context).pages, 0);
    CHECK_OK(mmsb_page_destroy_many(NULL, 0, NULL));
    CHECK_STATUS(mmsb_page_destroy_many(NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

static void released_memory_belongs_to_the_caller(void) {
    static const uint64_t sizes[] = {1, 100, 4096, 100000};
    mmsb_context_t context = new_context();
    void *memories[4];
    for (int i = 0; i < 4; i++) {
        mmsb_page_t page = new_page(context, sizes[i]);
        write_pattern(page, (uint64_t)i);
        uint64_t size = 0;
        memories[i] = NULL;
        CHECK_STATUS(mmsb_page_release(page, NULL, &size), MMSB_E_INVALID_ARGUMENT);
        CHECK_OK(mmsb_page_release(page, &memories[i], &size));
        CHECK_EQUAL(size, sizes[i]);
        CHECK_STATUS(mmsb_page_read(page, 0, &size, 1), MMSB_E_STALE_HANDLE);
    }
    CHECK_EQUAL(context_stats(context).pages, 0);
    CHECK_EQUAL(check_live(MMSB_KIND_PAGE), 0);
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 4);
    mmsb_page_t disk = new_disk_page(context, 10);
    void *memory = memories;
    uint64_t size = 4711;
    CHECK_STATUS(mmsb_page_release(disk, &memory, &size), MMSB_E_UNSUPPORTED);
    CHECK(memory == memories);
    CHECK_EQUAL(size, 4711);
    for (int i = 0; i < 200; i++) {
        memset(mmsb_page_address(new_page(context, 100)), 0xEE, 100);
    }
    CHECK_OK(mmsb_context_destroy(context));
    for (int i = 0; i < 4; i++) {
        const uint8_t *bytes = memories[i];
        for (uint64_t k = 0; k < sizes[i]; k++) {
            CHECK_EQUAL(bytes[k], pattern_byte((uint64_t)i, k));
        }
        memset(memories[i], 1, sizes[i]);
    }
    CHECK_OK(mmsb_memory_free(NULL));
    CHECK_STATUS(mmsb_memory_free(&size), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_memory_free((uint8_t *)memories[3] + 64), MMSB_E_STALE_HANDLE);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(mmsb_memory_free(memories[i]));
        CHECK_STATUS(mmsb_memory_free(memories[i]), MMSB_E_STALE_HANDLE);
        CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), (uint64_t)(3 - i));
    }
}

#ifndef __SANITIZE_ADDRESS__
/* With little address space left a large page cannot be had; nothing is lost and small ones still can. In a child process,
 * because the limit cannot be taken back. */
static int create_with_little_address_space(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 5000);
    write_pattern(page, 6);
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages_mapped = 0;
    REQUIRE(statm != NULL && fscanf(statm, "%lu", &pages_mapped) == 1);
    fclose(statm);
    rlim_t limit = (rlim_t)pages_mapped * 4096 + (512UL << 20);
    REQUIRE(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0);
    mmsb_page_t large = 42;
    CHECK_STATUS(mmsb_page_create(context, 4ULL << 30, NULL, &large), MMSB_E_OUT_OF_MEMORY);
    CHECK_EQUAL(large, 42);
    CHECK_STATUS(mmsb_page_resize(page, 4ULL << 30), MMSB_E_OUT_OF_MEMORY);
    CHECK(page_holds_pattern(page, 6, 5000));
    CHECK_EQUAL(mmsb_page_size(page), 5000);
    CHECK_EQUAL(context_stats(context).pages, 1);
    CHECK_OK(mmsb_page_create(context, 100000, NULL, &large));
    CHECK_OK(mmsb_context_destroy(context));
    return check_failures != 0;
}
#endif

/* What a thread has destroyed lies in its magazines, by size. At the limit it serves pages of every size. */
static void the_whole_limit_serves_each_size(void) {
    enum { BYTES = 512 << 10, MOST = BYTES / 64 };
    static mmsb_page_t pages[MOST];
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = BYTES;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    static const uint64_t sizes[] = {4096, 64, 2048, 512, BYTES / 2, 4096, 100 << 10, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t most = BYTES / sizes[i];
        for (size_t k = 0; k < most; k++)
            REQUIRE_OK(mmsb_page_create(context, sizes[i], NULL, &pages[k]));
        mmsb_page_t more;
        CHECK_STATUS(mmsb_page_create(context, sizes[i], NULL, &more), MMSB_E_LIMIT);
        for (size_t k = 0; k < most; k++)
            CHECK_OK(mmsb_page_destroy(pages[k]));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static char *program;

static void exhausted_address_space_is_an_error(void) {
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory takes more address space than any limit leaves */
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "little-address-space", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

int main(int count, char **arguments) {
    program = arguments[0];
#ifndef __SANITIZE_ADDRESS__
    if (count > 1 && strcmp(arguments[1], "little-address-space") == 0) {
        return create_with_little_address_space();
    }
#else
    (void)count;
#endif
    RUN(creation_gives_zeroed_aligned_pages);
    RUN(reused_memory_is_zeroed);
    RUN(options_are_checked);
    RUN(ids_name_pages);
    RUN(ids_of_both_sides_do_not_collide);
    RUN(many_are_created_or_none);
    RUN(addresses_come_with_pages);
    RUN(creation_of_many_can_time_out);
    RUN(ranges_are_read_and_written);
    RUN(many_ranges_are_written_or_none);
    RUN(infos_of_many);
    RUN(pins_hold_a_page);
    RUN(pins_have_a_limit);
    RUN(pins_outlive_the_context);
    RUN(resize_keeps_the_contents);
    RUN(a_page_that_grows_again_is_zero_there);
    RUN(clones_are_whole_copies);
    RUN(destroy_ends_pages);
    RUN(released_memory_belongs_to_the_caller);
    RUN(the_whole_limit_serves_each_size);
    RUN(exhausted_address_space_is_an_error);
    return check_report();
}
