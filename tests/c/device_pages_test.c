/* Memory of devices that is adopted, pages on devices in uses, and what leads from one to the other: on a simulated device. */
#include "library.h"
#include "tensor.h"
#include "test_hooks.h"

enum { SIZE = 5000 };

typedef struct world {
    mmsb_context_t context;
    mmsb_runtime_t runtime; /* the shared one */
    mmsb_stream_t stream;
    mmsb_block_t block;
    uint8_t *address; /* of its SIZE bytes, which are all 'x' */
} world_t;

static world_t new_world(void) {
    world_t w = {.context = new_simulated_context(2)};
    REQUIRE_OK(mmsb_runtime_shared(w.context, 0, &w.runtime));
    REQUIRE_OK(mmsb_stream_create(w.runtime, 0, &w.stream));
    REQUIRE_OK(mmsb_block_allocate(w.stream, SIZE, 0, 0, &w.block, (void **)&w.address));
    REQUIRE_OK(mmsb_stream_fill(w.stream, w.address, 'x', SIZE));
    return w;
}

static void end_world(const world_t *w) {
    CHECK_OK(mmsb_test_violations(w->context));
    CHECK_OK(mmsb_context_destroy(w->context));
}

static int releases;
static void *released;

static void release(void *user, void *memory, uint64_t size) {
    CHECK(user == &releases && size == SIZE);
    released = memory;
    releases++;
}

static mmsb_adopt_options_t on_device(void) {
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.location = MMSB_LOCATION_GPU;
    options.release = release;
    options.user = &releases;
    releases = 0;
    released = NULL;
    return options;
}

static mmsb_page_t adopt(const world_t *w, const mmsb_adopt_options_t *options) {
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_adopt(w->context, w->address, SIZE, options, &page));
    return page;
}

static char first_byte(mmsb_page_t page) {
    char byte = 0;
    CHECK_OK(mmsb_page_read(page, 0, &byte, 1));
    return byte;
}

static void memory_goes_back(void) {
    world_t w = new_world();
    mmsb_adopt_options_t options = on_device();
    REQUIRE_OK(mmsb_stream_native(w.stream, &options.stream));
    mmsb_page_t page = adopt(&w, &options);
    const mmsb_page_info_t info = page_info(page);
    CHECK(info.adopted == 1 && info.location == MMSB_LOCATION_GPU && info.device == 0 && info.size == SIZE);
    CHECK_EQUAL(first_byte(page), 'x');
    CHECK_OK(mmsb_page_write(page, 0, "new", 3));
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_page_resize(page, 1), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(releases, 0);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK(releases == 1 && released == w.address);

    options.stream = NULL;
    page = adopt(&w, &options); /* the memory is as the page left it */
    CHECK_EQUAL(first_byte(page), 'n');
    void *pinned = NULL;
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &pinned));
    CHECK(pinned == w.address);
    end_world(&w);
    CHECK_EQUAL(releases, 1); /* the pin outlives the context */
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK(releases == 2 && released == w.address);
}

static void what_fails_releases_nothing(void) {
    world_t w = new_world();
    const mmsb_adopt_options_t options = on_device();
    mmsb_page_t pages[2] = {0, 0};
    void *memories[2] = {w.address, w.address + SIZE};
    const uint64_t sizes[2] = {SIZE, 1 << 30};
    size_t bad = 9;
    CHECK_STATUS(mmsb_page_adopt_many(w.context, memories, sizes, NULL, 2, &options, pages, &bad), MMSB_E_INVALID_ARGUMENT);
    CHECK(bad == 1 && pages[0] == 0 && releases == 0);
    mmsb_adopt_options_t other = options;
    other.device = 1;
    CHECK_STATUS(mmsb_page_adopt(w.context, w.address, SIZE, &other, pages), MMSB_E_INVALID_ARGUMENT);
    other.location = MMSB_LOCATION_UNIFIED;
    other.device = 0;
    CHECK_STATUS(mmsb_page_adopt(w.context, w.address, SIZE, &other, pages), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_adopt(w.context, &w, sizeof w, &options, pages), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(releases, 0);
    memories[1] = w.address;
    const uint64_t halves[2] = {SIZE, SIZE};
    CHECK_OK(mmsb_page_adopt_many(w.context, memories, halves, NULL, 2, &options, pages, NULL));
    CHECK_OK(mmsb_page_write(pages[0], 0, "twice", 5));
    CHECK_EQUAL(first_byte(pages[1]), 't');
    CHECK_OK(mmsb_page_destroy_many(pages, 2, NULL));
    CHECK_EQUAL(releases, 2);
    end_world(&w);
}

/* A load writes into the memory, which stays adopted. */
static void loads_go_into_the_memory(void) {
    world_t w = new_world();
    mmsb_adopt_options_t options = on_device();
    options.id = 7;
    adopt(&w, &options);
    void *saved = NULL;
    uint64_t length = 0;
    CHECK_OK(mmsb_snapshot_save_memory(w.context, NULL, &saved, &length));
    CHECK_OK(mmsb_stream_fill(w.stream, w.address, 'y', SIZE));
    CHECK_OK(mmsb_stream_wait(w.stream, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_snapshot_load_memory(w.context, saved, length, NULL));
    CHECK_OK(mmsb_snapshot_free_memory(saved));
    CHECK_EQUAL(releases, 0);
    mmsb_page_t page = 0;
    CHECK_OK(mmsb_page_lookup(w.context, 7, &page));
    CHECK_EQUAL(page_info(page).adopted, 1);
    CHECK_EQUAL(first_byte(page), 'x');
    char byte = 0;
    CHECK_OK(mmsb_stream_copy(w.stream, &byte, w.address, 1));
    CHECK_OK(mmsb_stream_wait(w.stream, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(byte, 'x');
    CHECK_OK(mmsb_page_destroy(page));
    CHECK(releases == 1 && released == w.address);
    end_world(&w);
}

/* A tensor that a page on a device exported becomes a page. */
static void tensors_of_devices_are_adopted(void) {
    world_t w = new_world();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_GPU;
    options.device = 1;
    mmsb_page_t page = 0, other = 0;
    REQUIRE_OK(mmsb_page_create(w.context, SIZE, &options, &page));
    CHECK_OK(mmsb_page_write(page, 0, "tensor", 6));
    void *tensor = NULL;
    CHECK_OK(mmsb_page_export_tensor(page, NULL, &tensor));
    CHECK_EQUAL(((dl_versioned_t *)tensor)->tensor.device.type, 2);
    CHECK_OK(mmsb_page_adopt_tensor(w.context, tensor, 1, NULL, &other));
    CHECK(page_info(other).device == 1 && page_info(other).location == MMSB_LOCATION_GPU);
    CHECK_EQUAL(first_byte(other), 't');
    CHECK_OK(mmsb_page_write(other, 0, "T", 1));
    CHECK_EQUAL(first_byte(page), 'T');
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_destroy(other)); /* the deleter unpins the first one */
    CHECK_EQUAL(first_byte(page), 'T');
    CHECK_OK(mmsb_page_destroy(page));
    end_world(&w);
}

static void pages_are_used_beside_blocks(void) {
    world_t w = new_world();
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = MMSB_LOCATION_GPU;
    mmsb_page_t page = 0, host = new_page(w.context, SIZE);
    REQUIRE_OK(mmsb_page_create(w.context, SIZE, &options, &page));
    mmsb_block_t block = 0, found = 0;
    CHECK_OK(mmsb_page_block(page, &block));
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    CHECK_OK(mmsb_block_info(block, &info));
    CHECK(info.bytes == SIZE && info.device == 0 && info.uses == 0);
    uint64_t offset = 0;
    CHECK_OK(mmsb_block_at(w.runtime, (uint8_t *)info.address + 10, &found, &offset));
    CHECK(found == block && offset == 10);
    CHECK_STATUS(mmsb_block_at(w.runtime, &w, &found, NULL), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_block_free(block, 0, NULL), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_page_block(host, &found), MMSB_E_UNSUPPORTED);
    int32_t device = -1;
    CHECK_OK(mmsb_stream_device(w.stream, &device));
    CHECK_EQUAL(device, 0);
    mmsb_runtime_t second = 0;
    CHECK_OK(mmsb_runtime_create(w.context, 1, NULL, &second));
    CHECK_OK(mmsb_runtime_device(second, &device));
    CHECK_EQUAL(device, 1);

    const mmsb_access_t accesses[] = {{.block = w.block, .access = MMSB_ACCESS_READ},
                                      {.block = page, .access = MMSB_ACCESS_WRITE}};
    mmsb_use_t use = 0;
    CHECK_OK(mmsb_use_begin(w.stream, accesses, 2, &use, NULL));
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_EQUAL(page_info(page).write_pins, 1);
    CHECK_OK(mmsb_stream_copy(w.stream, info.address, w.address, SIZE));
    CHECK_OK(mmsb_use_end(use));
    CHECK_EQUAL(page_info(page).write_pins, 0);
    CHECK_EQUAL(first_byte(page), 'x');

    const mmsb_access_t wrong[] = {{.block = page, .access = MMSB_ACCESS_READ}, {.block = host, .access = MMSB_ACCESS_READ}};
    size_t bad = 9;
    CHECK_STATUS(mmsb_use_begin(w.stream, wrong, 2, &use, &bad), MMSB_E_UNSUPPORTED);
    CHECK(bad == 1 && page_info(page).read_pins == 0);
    /* Nothing has changed, no version either. */
    const uint64_t versions[] = {page_info(page).version, page_info(host).version};
    const mmsb_block_t second_items[] = {host, 12345, w.block + (UINT64_C(1) << 28)};
    for (int i = 0; i < 3; i++) {
        const mmsb_access_t refused[] = {{.block = page, .access = MMSB_ACCESS_WRITE},
                                         {.block = second_items[i], .access = MMSB_ACCESS_WRITE}};
        CHECK_STATUS(mmsb_use_begin(w.stream, refused, 2, &use, &bad), i == 0 ? MMSB_E_UNSUPPORTED : MMSB_E_INVALID_HANDLE);
        CHECK_EQUAL(bad, 1);
    }
    CHECK(page_info(page).version == versions[0] && page_info(host).version == versions[1]);
    CHECK_OK(mmsb_use_record(w.stream, 0, &use));
    CHECK_OK(mmsb_use_add(use, page, MMSB_ACCESS_READ_WRITE));
    CHECK_OK(mmsb_use_begin_recorded(use));
    CHECK_OK(mmsb_stream_fill(w.stream, info.address, 'r', SIZE));
    CHECK_OK(mmsb_use_abort(use)); /* who failed may have queued some */
    CHECK_EQUAL(first_byte(page), 'r');
    CHECK_OK(mmsb_use_record(w.stream, 0, &use));
    CHECK_OK(mmsb_use_add(use, host, MMSB_ACCESS_WRITE));
    CHECK_STATUS(mmsb_use_begin_recorded(use), MMSB_E_UNSUPPORTED);
    CHECK_EQUAL(page_info(host).version, versions[1]);
    CHECK_OK(mmsb_use_abort(use));
    CHECK_OK(mmsb_use_begin(w.stream, accesses, 2, &use, NULL)); /* ends with the context */
    end_world(&w);
    CHECK_STATUS(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
}

static mmsb_page_t page_at(mmsb_context_t context, mmsb_location_t location, int32_t device) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = location;
    options.device = device;
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_create(context, SIZE, &options, &page));
    return page;
}

static void *device_address(mmsb_page_t page) {
    mmsb_block_t block = 0;
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    REQUIRE_OK(mmsb_page_block(page, &block));
    REQUIRE_OK(mmsb_block_info(block, &info));
    CHECK(info.bytes == SIZE && info.device == 0);
    return info.address;
}

/* A use of a page whose work fills it. */
static void fill_page(mmsb_stream_t stream, mmsb_page_t page, int32_t value) {
    const mmsb_access_t access = {.block = page, .access = MMSB_ACCESS_WRITE};
    mmsb_use_t use = 0;
    REQUIRE_OK(mmsb_use_begin(stream, &access, 1, &use, NULL));
    CHECK_OK(mmsb_stream_fill(stream, device_address(page), value, SIZE));
    CHECK_OK(mmsb_use_end(use));
}

static const mmsb_location_t reached[] = {MMSB_LOCATION_GPU, MMSB_LOCATION_UNIFIED, MMSB_LOCATION_PINNED};

static void pages_that_the_host_reaches_are_used(void) {
    REQUIRE_OK(mmsb_test_slow_devices(2000000));
    for (int i = 1; i < 3; i++) {
        world_t w = new_world();
        mmsb_page_t page = page_at(w.context, reached[i], 0), onward = page_at(w.context, reached[i], 0);
        CHECK_OK(mmsb_page_write(page, 0, "host", 4));
        CHECK(device_address(page) == mmsb_page_address(page));
        CHECK_OK(mmsb_test_hold_devices(1));
        fill_page(w.stream, page, 'j'); /* who begins a use does not wait for the device */
        fill_page(w.stream, page, 'k');
        CHECK_OK(mmsb_test_hold_devices(0));
        CHECK_EQUAL(first_byte(page), 'k');
        CHECK_OK(mmsb_page_write(page, 0, "host", 4));

        const mmsb_access_t accesses[] = {{.block = page, .access = MMSB_ACCESS_READ},
                                          {.block = onward, .access = MMSB_ACCESS_READ_WRITE}};
        mmsb_use_t use = 0;
        CHECK_OK(mmsb_use_begin(w.stream, accesses, 2, &use, NULL));
        CHECK_OK(mmsb_stream_copy(w.stream, device_address(onward), device_address(page), SIZE));
        CHECK_STATUS(mmsb_page_destroy(onward), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_resize(onward, 2 * SIZE), MMSB_E_BUSY);
        CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0), MMSB_E_BUSY);
        CHECK_OK(mmsb_use_end(use));
        void *address = NULL;
        CHECK_OK(mmsb_page_pin(onward, MMSB_PIN_READ, &address));
        CHECK(memcmp(address, "hostk", 5) == 0);
        CHECK_OK(mmsb_page_unpin(onward, MMSB_PIN_READ));
        fill_page(w.stream, onward, 'r');
        CHECK_OK(mmsb_page_resize(onward, 2 * SIZE));
        CHECK_EQUAL(first_byte(onward), 'r');
        fill_page(w.stream, page, 'm');
        CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
        CHECK_EQUAL(first_byte(page), 'm');

        const mmsb_page_t wrong[] = {page, new_disk_page(w.context, SIZE), page_at(w.context, reached[i], 1)};
        for (int j = 0; j < 3; j++) {
            const mmsb_access_t refused = {.block = wrong[j], .access = MMSB_ACCESS_READ};
            CHECK_STATUS(mmsb_use_begin(w.stream, &refused, 1, &use, NULL),
                         j == 2 ? MMSB_E_INVALID_ARGUMENT : MMSB_E_UNSUPPORTED);
            CHECK_EQUAL(page_info(wrong[j]).read_pins, 0);
        }
        page = page_at(w.context, reached[i], 0);
        fill_page(w.stream, page, 'd');
        CHECK_OK(mmsb_page_destroy(page)); /* behind the work */
        fill_page(w.stream, page = page_at(w.context, reached[i], 0), 'e');
        CHECK_OK(mmsb_use_begin(w.stream, &(mmsb_access_t){.block = page, .access = MMSB_ACCESS_WRITE}, 1, &use, NULL));
        CHECK_OK(mmsb_stream_fill(w.stream, device_address(page), 'c', SIZE));
        end_world(&w);
        CHECK_STATUS(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
    }
    REQUIRE_OK(mmsb_test_slow_devices(0));
}

static uint64_t charged(mmsb_runtime_t runtime) {
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    REQUIRE_OK(mmsb_runtime_stats(runtime, &stats));
    return stats.charged;
}

static void streams_of_other_runtimes_use_pages(void) {
    REQUIRE_OK(mmsb_test_slow_devices(2000000));
    for (int i = 0; i < 3; i++) {
        world_t w = new_world();
        mmsb_page_t page = page_at(w.context, reached[i], 0);
        mmsb_runtime_options_t options;
        mmsb_runtime_options_init(&options);
        options.budget = SIZE / 2; /* the page's memory is not charged to it */
        mmsb_runtime_t own = 0, elsewhere = 0;
        mmsb_stream_t stream = 0, far = 0;
        REQUIRE_OK(mmsb_runtime_create(w.context, 0, &options, &own));
        REQUIRE_OK(mmsb_stream_create(own, 0, &stream));
        fill_page(w.stream, page, 's');
        mmsb_access_t accesses[] = {{.block = page, .access = MMSB_ACCESS_READ}, {.block = w.block, .access = MMSB_ACCESS_WRITE}};
        mmsb_use_t use = 0;
        CHECK_OK(mmsb_use_begin(stream, accesses, 2, &use, NULL));
        CHECK_OK(mmsb_stream_copy(stream, w.address, device_address(page), SIZE));
        CHECK_OK(mmsb_use_end(use));
        fill_page(w.stream, page, 't'); /* behind the copy */
        CHECK_EQUAL(first_byte(page), 't');
        fill_page(stream, page, 'o');
        CHECK_EQUAL(first_byte(page), 'o');
        CHECK_EQUAL(charged(own), 0);

        world_t other = new_world();
        REQUIRE_OK(mmsb_runtime_create(w.context, 1, NULL, &elsewhere));
        REQUIRE_OK(mmsb_stream_create(elsewhere, 0, &far));
        const mmsb_stream_t wrong[] = {far, other.stream};
        for (int j = 0; j < 2; j++)
            CHECK_STATUS(mmsb_use_begin(wrong[j], accesses, 1, &use, NULL), MMSB_E_INVALID_ARGUMENT);
        end_world(&other);

        fill_page(stream, page, 'p');
        CHECK_OK(mmsb_use_begin(stream, accesses, 1, &use, NULL));
        CHECK_OK(mmsb_runtime_destroy(own));
        CHECK_STATUS(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
        CHECK_EQUAL(page_info(page).read_pins, 0);
        fill_page(w.stream, page, 'q');
        CHECK_EQUAL(first_byte(page), 'q');
        CHECK_OK(mmsb_page_destroy(page));
        end_world(&w);
    }
    REQUIRE_OK(mmsb_test_slow_devices(0));
}

static void a_lost_device_takes_what_it_writes(void) {
    for (int i = 1; i < 3; i++) {
        world_t w = new_world();
        mmsb_page_t written = page_at(w.context, reached[i], 0), read = page_at(w.context, reached[i], 0);
        CHECK_OK(mmsb_page_write(written, 0, "w", 1));
        CHECK_OK(mmsb_page_write(read, 0, "r", 1));
        const mmsb_access_t accesses[] = {{.block = read, .access = MMSB_ACCESS_READ},
                                          {.block = written, .access = MMSB_ACCESS_WRITE}};
        mmsb_use_t use = 0;
        CHECK_OK(mmsb_use_begin(w.stream, accesses, 2, &use, NULL));
        CHECK_OK(mmsb_test_device_fault(w.context, 0, MMSB_TEST_FILL, 0, MMSB_TEST_LOSE));
        CHECK_STATUS(mmsb_stream_fill(w.stream, device_address(written), 'x', SIZE), MMSB_E_DEVICE_LOST);
        CHECK_OK(mmsb_use_abort(use)); /* it may have begun */
        char byte = 0;
        CHECK_STATUS(mmsb_page_read(written, 0, &byte, 1), MMSB_E_DEVICE_LOST);
        CHECK_EQUAL(first_byte(read), 'r');
        CHECK_OK(mmsb_page_destroy(written));
        CHECK_OK(mmsb_page_migrate(read, MMSB_LOCATION_CPU, 0));
        CHECK_EQUAL(first_byte(read), 'r');
        CHECK_OK(mmsb_context_destroy(w.context));
    }
}

int main(void) {
    RUN(memory_goes_back);
    RUN(what_fails_releases_nothing);
    RUN(loads_go_into_the_memory);
    RUN(tensors_of_devices_are_adopted);
    RUN(pages_are_used_beside_blocks);
    RUN(pages_that_the_host_reaches_are_used);
    RUN(streams_of_other_runtimes_use_pages);
    RUN(a_lost_device_takes_what_it_writes);
    return check_report();
}
