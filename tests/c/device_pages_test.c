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
    CHECK_OK(mmsb_use_record(w.stream, 0, &use));
    CHECK_OK(mmsb_use_add(use, page, MMSB_ACCESS_READ_WRITE));
    CHECK_OK(mmsb_use_begin_recorded(use));
    CHECK_OK(mmsb_stream_fill(w.stream, info.address, 'r', SIZE));
    CHECK_OK(mmsb_use_abort(use)); /* who failed may have queued some */
    CHECK_EQUAL(first_byte(page), 'r');
    CHECK_OK(mmsb_use_record(w.stream, 0, &use));
    CHECK_OK(mmsb_use_add(use, host, MMSB_ACCESS_READ));
    CHECK_STATUS(mmsb_use_begin_recorded(use), MMSB_E_UNSUPPORTED);
    CHECK_OK(mmsb_use_abort(use));
    CHECK_OK(mmsb_use_begin(w.stream, accesses, 2, &use, NULL)); /* ends with the context */
    end_world(&w);
    CHECK_STATUS(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
}

int main(void) {
    RUN(memory_goes_back);
    RUN(what_fails_releases_nothing);
    RUN(loads_go_into_the_memory);
    RUN(tensors_of_devices_are_adopted);
    RUN(pages_are_used_beside_blocks);
    return check_report();
}
