/* Tensors of DLPack: pages that are exported, memory that is adopted, what lies, and deleters on any thread.
 * `tensor_test steps` leaves the storm of threads out; `tensor_test storm COUNT` runs it alone, with COUNT exports. */
#include "library.h"
#include "tensor.h"

#include <sys/wait.h>

static mmsb_tensor_options_t options(void) {
    mmsb_tensor_options_t made;
    mmsb_tensor_options_init(&made);
    return made;
}

static dl_versioned_t *export(mmsb_page_t page, const mmsb_tensor_options_t *with) {
    void *tensor = NULL;
    REQUIRE_OK(mmsb_page_export_tensor(page, with, &tensor));
    return tensor;
}

static void check_pins(mmsb_page_t page, uint32_t read, uint32_t write) {
    CHECK_EQUAL(page_info(page).read_pins, read);
    CHECK_EQUAL(page_info(page).write_pins, write);
}

static void a_page_is_a_tensor(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 1000);
    const uint64_t version = mmsb_page_version(page);
    dl_versioned_t *managed = export(page, NULL);
    const dl_tensor_t *tensor = &managed->tensor;
    CHECK(managed->version.major == 1 && managed->flags == 0);
    CHECK(tensor->data == mmsb_page_address(page) && tensor->byte_offset == 0);
    CHECK(tensor->device.type == 1 && tensor->device.id == 0);
    CHECK(tensor->dtype.code == 1 && tensor->dtype.bits == 8 && tensor->dtype.lanes == 1);
    CHECK(tensor->ndim == 1 && tensor->shape[0] == 1000 && tensor->strides[0] == 1);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 1);
    check_pins(page, 0, 1);
    memset(tensor->data, 7, 1000);
    uint8_t byte = 0;
    CHECK_OK(mmsb_page_read(page, 999, &byte, 1));
    CHECK_EQUAL(byte, 7);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_page_resize(page, 10), MMSB_E_BUSY);
    CHECK_STATUS(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0), MMSB_E_BUSY);
    managed->deleter(managed);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    check_pins(page, 0, 0);
    CHECK(mmsb_page_version(page) > version);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_OK(mmsb_context_destroy(context));
}

static void readers_get_a_read_pin(void) {
    static const uint8_t fixed[64] = {1, 2, 3};
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64), frozen = 0;
    mmsb_tensor_options_t with = options();
    with.read_only = 1;
    dl_versioned_t *managed = export(page, &with);
    CHECK_EQUAL(managed->flags, 1);
    check_pins(page, 1, 0);
    const uint64_t version = mmsb_page_version(page);
    managed->deleter(managed);
    CHECK_EQUAL(mmsb_page_version(page), version);
    mmsb_adopt_options_t adopt;
    mmsb_adopt_options_init(&adopt);
    adopt.read_only = 1;
    CHECK_OK(mmsb_page_adopt(context, (void *)(uintptr_t)fixed, sizeof fixed, &adopt, &frozen));
    void *tensor = NULL;
    CHECK_STATUS(mmsb_page_export_tensor(frozen, NULL, &tensor), MMSB_E_INVALID_STATE);
    CHECK(tensor == NULL);
    managed = export(frozen, &with);
    CHECK(managed->tensor.data == fixed && managed->flags == 1);
    managed->deleter(managed);
    with.versioned = 0;
    CHECK_STATUS(mmsb_page_export_tensor(page, &with, &tensor), MMSB_E_UNSUPPORTED);
    check_pins(page, 0, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_tensor_without_a_version(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    mmsb_tensor_options_t with = options();
    void *tensor = NULL;
    with.versioned = 0;
    REQUIRE_OK(mmsb_page_export_tensor(page, &with, &tensor));
    dl_legacy_t *managed = tensor;
    CHECK(managed->tensor.data == mmsb_page_address(page) && managed->tensor.shape[0] == 64);
    mmsb_tensor_info_t info;
    mmsb_tensor_info_init(&info);
    CHECK_OK(mmsb_tensor_info(tensor, 0, &info));
    CHECK(info.address == managed->tensor.data && info.bytes == 64 && info.device_type == 1 && !info.read_only && !info.copied);
    managed->deleter(managed);
    check_pins(page, 0, 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void items_of_any_shape(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    mmsb_tensor_options_t with = options();
    with.code = MMSB_TENSOR_CODE_FLOAT;
    with.bits = 32;
    with.offset = 4;
    dl_versioned_t *managed = export(page, &with);
    CHECK(managed->tensor.shape[0] == 24 && managed->tensor.byte_offset == 4 && managed->tensor.dtype.bits == 32);
    managed->deleter(managed);
    with.ndim = 3;
    with.shape = (const int64_t[]){2, 3, 4};
    managed = export(page, &with);
    CHECK(managed->tensor.strides[0] == 12 && managed->tensor.strides[1] == 4 && managed->tensor.strides[2] == 1);
    managed->deleter(managed);
    with.strides = (const int64_t[]){1, 2, 6}; /* column by column */
    managed = export(page, &with);
    CHECK(managed->tensor.ndim == 3 && managed->tensor.strides[0] == 1 && managed->tensor.strides[2] == 6);
    managed->deleter(managed);
    with.strides = (const int64_t[]){13, 4, 1}; /* with a gap of one item */
    with.offset = 0;
    managed = export(page, &with);
    mmsb_tensor_info_t info;
    mmsb_tensor_info_init(&info);
    CHECK_STATUS(mmsb_tensor_info(managed, 1, &info), MMSB_E_UNSUPPORTED);
    managed->deleter(managed);
    with.ndim = 2;
    with.shape = (const int64_t[]){1, 10};
    with.strides = (const int64_t[]){-7, 1}; /* the stride of one item leads nowhere */
    managed = export(page, &with);
    CHECK_OK(mmsb_tensor_info(managed, 1, &info));
    CHECK_EQUAL(info.bytes, 40);
    managed->deleter(managed);
    with.ndim = 0; /* one item */
    with.offset = 96;
    managed = export(page, &with);
    CHECK(managed->tensor.ndim == 0 && managed->tensor.byte_offset == 96);
    managed->deleter(managed);
    with.ndim = 2;
    with.shape = (const int64_t[]){INT64_MAX, 0}; /* none */
    with.strides = NULL;
    managed = export(page, &with);
    CHECK(managed->tensor.shape[0] == INT64_MAX && managed->tensor.shape[1] == 0);
    managed->deleter(managed);
    CHECK_OK(mmsb_context_destroy(context));
}

static void what_a_page_does_not_have_is_refused(void) {
    static const struct {
        uint64_t offset;
        uint32_t code, bits, lanes;
        int32_t ndim;
        int64_t shape[3], strides[3];
        mmsb_status_t code_of_error;
    } cases[] = {
        {0, 1, 8, 1, 1, {101}, {0}, MMSB_E_OUT_OF_RANGE},
        {1, 1, 8, 1, 1, {100}, {0}, MMSB_E_OUT_OF_RANGE},
        {101, 1, 8, 1, 1, {0}, {0}, MMSB_E_OUT_OF_RANGE},
        {UINT64_MAX, 1, 8, 1, 1, {1}, {0}, MMSB_E_OUT_OF_RANGE},
        {0, 1, 8, 1, 1, {-1}, {0}, MMSB_E_INVALID_SIZE},
        {0, 1, 8, 1, 2, {INT64_MAX, 2}, {0}, MMSB_E_INVALID_SIZE},
        {0, 1, 8, 1, 3, {1LL << 32, 1LL << 32, 1}, {0}, MMSB_E_INVALID_SIZE},
        {0, 1, 64, 1, 1, {1LL << 61}, {0}, MMSB_E_OUT_OF_RANGE}, /* 2^64 bytes */
        {0, 1, 8, 1, 2, {2, 2}, {-1, 1}, MMSB_E_UNSUPPORTED},
        {0, 1, 8, 1, 2, {2, 2}, {1, 1}, MMSB_E_UNSUPPORTED},
        {0, 1, 8, 1, 2, {5, 10}, {9, 1}, MMSB_E_UNSUPPORTED},
        {0, 1, 8, 1, 2, {2, 10}, {91, 1}, MMSB_E_OUT_OF_RANGE},
        {0, 1, 8, 1, 2, {3, 2}, {INT64_MAX, 1}, MMSB_E_INVALID_SIZE},
        {0, 1, 4, 1, 1, {10}, {0}, MMSB_E_UNSUPPORTED},
        {0, 1, 0, 1, 1, {10}, {0}, MMSB_E_UNSUPPORTED},
        {0, 1, 256, 1, 1, {1}, {0}, MMSB_E_UNSUPPORTED},
        {0, 1, 8, 0, 1, {1}, {0}, MMSB_E_UNSUPPORTED},
        {0, 1, 8, 65536, 1, {1}, {0}, MMSB_E_UNSUPPORTED},
        {0, 3, 64, 1, 1, {1}, {0}, MMSB_E_UNSUPPORTED},
        {0, 18, 8, 1, 1, {1}, {0}, MMSB_E_UNSUPPORTED},
        {0, 1, 8, 1, -1, {1}, {0}, MMSB_E_INVALID_ARGUMENT},
        {0, 1, 8, 1, 65, {1}, {0}, MMSB_E_INVALID_ARGUMENT},
    };
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    void *tensor = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mmsb_tensor_options_t with = options();
        with.offset = cases[i].offset;
        with.code = cases[i].code;
        with.bits = cases[i].bits;
        with.lanes = cases[i].lanes;
        with.ndim = cases[i].ndim;
        with.shape = cases[i].shape;
        with.strides = cases[i].strides[0] ? cases[i].strides : NULL;
        if (!check_status(__FILE__, __LINE__, "a case", mmsb_page_export_tensor(page, &with, &tensor), cases[i].code_of_error))
            fprintf(stderr, "case %zu\n", i);
        check_pins(page, 0, 0);
    }
    mmsb_tensor_options_t with = options();
    with.bits = 24;
    CHECK_STATUS(mmsb_page_export_tensor(page, &with, &tensor), MMSB_E_MISMATCH); /* 100 is no multiple of 3 */
    with = options();
    with.ndim = 2;
    CHECK_STATUS(mmsb_page_export_tensor(page, &with, &tensor), MMSB_E_INVALID_ARGUMENT); /* no shape */
    with = options();
    with.versioned = 2;
    CHECK_STATUS(mmsb_page_export_tensor(page, &with, &tensor), MMSB_E_INVALID_ARGUMENT);
    with = options();
    with.read_only = -1;
    CHECK_STATUS(mmsb_page_export_tensor(page, &with, &tensor), MMSB_E_INVALID_ARGUMENT);
    with = options();
    with.reserved_word = 1;
    CHECK_STATUS(mmsb_page_export_tensor(page, &with, &tensor), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_page_export_tensor(page, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_export_tensor(context, NULL, &tensor), MMSB_E_INVALID_HANDLE);
    CHECK(tensor == NULL);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void memory_outlives_its_context(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 1 << 20);
    dl_versioned_t *managed = export(page, NULL);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 1);
    memset(managed->tensor.data, 1, 1 << 20);
    managed->deleter(managed);
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 0);
    context = new_context();
    managed = export(new_page(context, 64), NULL);
    CHECK_OK(mmsb_shutdown());
    memset(managed->tensor.data, 1, 64);
    managed->deleter(managed);
}

/* ------------------------------------------------------------------------------------------------------- imports ---- */

/* A tensor of another library over some memory. */
typedef struct foreign {
    union {
        dl_versioned_t versioned;
        dl_legacy_t legacy;
    } managed;
    int deleted;
    pthread_t thread;
    int64_t shape[2], strides[2];
    uint8_t memory[240];
} foreign_t;

static void delete_versioned(dl_versioned_t *managed) {
    foreign_t *foreign = managed->manager_ctx;
    foreign->deleted++;
    foreign->thread = pthread_self();
}

static void delete_legacy(dl_legacy_t *managed) {
    foreign_t *foreign = managed->manager_ctx;
    foreign->deleted++;
    foreign->thread = pthread_self();
}

/* Fifteen numbers of eight bytes, column by column, behind eight bytes of something else. */
static dl_tensor_t foreign_tensor(foreign_t *foreign) {
    memset(foreign, 0, sizeof *foreign);
    foreign->shape[0] = 3;
    foreign->shape[1] = 5;
    foreign->strides[0] = 1;
    foreign->strides[1] = 3;
    dl_tensor_t tensor = {foreign->memory, {1, 0}, 2, {0, 64, 1}, foreign->shape, foreign->strides, 8};
    return tensor;
}

static void new_foreign(foreign_t *foreign) {
    dl_versioned_t managed = {{1, 3}, foreign, delete_versioned, 0, foreign_tensor(foreign)};
    foreign->managed.versioned = managed;
}

static void a_tensor_is_a_page(void) {
    mmsb_context_t context = new_context();
    foreign_t foreign;
    mmsb_page_t page = 0, other = 0;
    mmsb_adopt_options_t with;
    mmsb_adopt_options_init(&with);
    with.id = 77;
    new_foreign(&foreign);
    CHECK_OK(mmsb_page_adopt_tensor(context, &foreign.managed, 1, &with, &page));
    mmsb_page_info_t info = page_info(page);
    CHECK(info.adopted && info.size == 120 && info.id == 77 && !info.read_only);
    CHECK(mmsb_page_address(page) == foreign.memory + 8);
    write_pattern(page, 3);
    CHECK_EQUAL(foreign.memory[8], pattern_byte(3, 0));
    CHECK_EQUAL(foreign.deleted, 0);
    CHECK_STATUS(mmsb_page_adopt_tensor(context, &foreign.managed, 1, &with, &other), MMSB_E_ALREADY_EXISTS);
    CHECK_EQUAL(foreign.deleted, 0); /* a failed call leaves the tensor to the caller */
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_EQUAL(foreign.deleted, 1);
    CHECK(pthread_equal(foreign.thread, pthread_self()));
    dl_legacy_t managed = {foreign_tensor(&foreign), &foreign, delete_legacy};
    foreign.managed.legacy = managed;
    CHECK_OK(mmsb_page_adopt_tensor(context, &foreign.managed, 0, NULL, &page));
    CHECK_EQUAL(page_info(page).size, 120);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(foreign.deleted, 1);
    context = new_context();
    new_foreign(&foreign);
    foreign.managed.versioned.deleter = NULL; /* allowed: its memory lives for ever */
    CHECK_OK(mmsb_page_adopt_tensor(context, &foreign.managed, 1, NULL, &page));
    CHECK_OK(mmsb_context_destroy(context));
}

static void read_only_tensors(void) {
    mmsb_context_t context = new_context();
    foreign_t foreign;
    mmsb_page_t page = 0;
    mmsb_adopt_options_t with;
    mmsb_adopt_options_init(&with);
    new_foreign(&foreign);
    foreign.managed.versioned.flags = 1 | 2;
    mmsb_tensor_info_t info;
    mmsb_tensor_info_init(&info);
    CHECK_OK(mmsb_tensor_info(&foreign.managed, 1, &info));
    CHECK(info.read_only == 1 && info.copied == 1 && info.bytes == 120 && info.address == foreign.memory + 8);
    CHECK_STATUS(mmsb_page_adopt_tensor(context, &foreign.managed, 1, &with, &page), MMSB_E_INVALID_STATE);
    with.read_only = 1;
    CHECK_OK(mmsb_page_adopt_tensor(context, &foreign.managed, 1, &with, &page));
    CHECK(page_info(page).read_only);
    CHECK_STATUS(mmsb_page_write(page, 0, "x", 1), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(foreign.deleted, 1);
}

/* Changes of one field of a good tensor. */
enum field { MAJOR, DEVICE, NDIM, CODE, BITS, LANES, SHAPE, STRIDE, OFFSET, DATA, NO_SHAPE, NO_STRIDES };

static void lies_are_refused(void) {
    static const struct {
        enum field field;
        int64_t value;
        mmsb_status_t code;
    } cases[] = {
        {MAJOR, 0, MMSB_E_FORMAT},
        {MAJOR, 2, MMSB_E_FORMAT},
        {DEVICE, 0, MMSB_E_UNSUPPORTED},
        {DEVICE, 4, MMSB_E_UNSUPPORTED},
        {DEVICE, -1, MMSB_E_UNSUPPORTED},
        {DEVICE, 2, MMSB_E_NO_DEVICE}, /* of the context */
        {DEVICE, 3, MMSB_OK},
        {DEVICE, 13, MMSB_OK},
        {NDIM, -1, MMSB_E_INVALID_ARGUMENT},
        {NDIM, INT32_MAX, MMSB_E_INVALID_ARGUMENT},
        {CODE, 3, MMSB_E_UNSUPPORTED},
        {CODE, 18, MMSB_E_UNSUPPORTED},
        {CODE, 17, MMSB_OK},
        {BITS, 0, MMSB_E_UNSUPPORTED},
        {BITS, 4, MMSB_E_UNSUPPORTED},
        {LANES, 0, MMSB_E_UNSUPPORTED},
        {SHAPE, -3, MMSB_E_INVALID_SIZE},
        {SHAPE, 0, MMSB_E_INVALID_SIZE},
        {SHAPE, INT64_MAX, MMSB_E_INVALID_SIZE},
        {SHAPE, INT64_MAX / 5, MMSB_E_UNSUPPORTED}, /* 3 apart in the other dimension: they overlap */
        {SHAPE, 2, MMSB_E_UNSUPPORTED},             /* gaps */
        {SHAPE, 4, MMSB_E_UNSUPPORTED},             /* overlap */
        {STRIDE, -3, MMSB_E_UNSUPPORTED},
        {STRIDE, 0, MMSB_E_UNSUPPORTED},
        {STRIDE, 2, MMSB_E_UNSUPPORTED},
        {STRIDE, 4, MMSB_E_UNSUPPORTED},
        {STRIDE, INT64_MAX, MMSB_E_INVALID_SIZE},
        {OFFSET, -1, MMSB_E_INVALID_SIZE},
        {OFFSET, -100, MMSB_E_INVALID_SIZE},
        {DATA, 0, MMSB_E_INVALID_SIZE},
        {DATA, -8, MMSB_E_INVALID_SIZE},
        {NO_SHAPE, 0, MMSB_E_INVALID_ARGUMENT},
        {NO_STRIDES, 0, MMSB_OK}, /* DLPack before 1.2: row-major */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mmsb_context_t context = new_context();
        foreign_t foreign;
        new_foreign(&foreign);
        dl_tensor_t *tensor = &foreign.managed.versioned.tensor;
        const int64_t value = cases[i].value;
        switch (cases[i].field) {
        case MAJOR:
            foreign.managed.versioned.version.major = (uint32_t)value;
            break;
        case DEVICE:
            tensor->device.type = (int32_t)value;
            break;
        case NDIM:
            tensor->ndim = (int32_t)value;
            break;
        case CODE:
            tensor->dtype.code = (uint8_t)value;
            break;
        case BITS:
            tensor->dtype.bits = (uint8_t)value;
            break;
        case LANES:
            tensor->dtype.lanes = (uint16_t)value;
            break;
        case SHAPE:
            foreign.shape[0] = value;
            break;
        case STRIDE:
            foreign.strides[1] = value;
            break;
        case OFFSET:
            tensor->byte_offset = (uint64_t)value;
            break;
        case DATA:
            tensor->data = (void *)(intptr_t)value;
            break;
        case NO_SHAPE:
            tensor->shape = NULL;
            break;
        case NO_STRIDES:
            tensor->strides = NULL;
            break;
        }
        mmsb_page_t page = 0;
        const mmsb_status_t found = mmsb_page_adopt_tensor(context, &foreign.managed, 1, NULL, &page);
        if (!check_status(__FILE__, __LINE__, "a case", found, cases[i].code))
            fprintf(stderr, "case %zu\n", i);
        CHECK(cases[i].code == MMSB_OK || (page == 0 && foreign.deleted == 0));
        CHECK_OK(mmsb_context_destroy(context));
        CHECK_EQUAL(foreign.deleted, cases[i].code == MMSB_OK);
    }
}

static void *end_tensor(void *tensor) {
    dl_versioned_t *managed = tensor;
    managed->deleter(managed);
    return NULL;
}

/* Deleters of blocks run on any thread, before and after their runtime's end and their context's. */
static void blocks_are_tensors(void) {
    for (int last = 0; last < 3; last++) {
        mmsb_context_t context = new_simulated_context(1);
        mmsb_runtime_t runtime = 0;
        mmsb_runtime_options_t how;
        mmsb_runtime_options_init(&how);
        how.pool = "source:pinned"; /* which the host reaches */
        REQUIRE_OK(mmsb_runtime_create(context, 0, &how, &runtime));
        mmsb_stream_t stream = 0;
        REQUIRE_OK(mmsb_stream_create(runtime, 0, &stream));
        mmsb_block_t block = 0;
        void *address = NULL, *tensor = NULL, *native = NULL;
        REQUIRE_OK(mmsb_block_allocate(stream, 64, 0, 0, &block, &address));
        REQUIRE_OK(mmsb_stream_native(stream, &native));
        const int64_t shape[2] = {2, 8};
        mmsb_tensor_options_t with = options();
        with.code = MMSB_TENSOR_CODE_FLOAT, with.bits = 32, with.ndim = 2, with.shape = shape;
        REQUIRE_OK(mmsb_block_export_tensor(block, native, &with, &tensor));
        const dl_tensor_t *found = &((dl_versioned_t *)tensor)->tensor;
        CHECK(found->data == address && found->device.type == 3 && found->device.id == 0);
        CHECK(found->ndim == 2 && found->shape[1] == 8 && found->strides[0] == 8 && found->dtype.bits == 32);
        CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 1);
        with.offset = 4;
        void *none = NULL;
        CHECK_STATUS(mmsb_block_export_tensor(block, native, &with, &none), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_block_export_tensor(runtime, native, NULL, &none), MMSB_E_INVALID_HANDLE);
        CHECK_STATUS(mmsb_block_export_tensor(block, native, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
        mmsb_block_info_t info;
        mmsb_block_info_init(&info);
        CHECK_OK(mmsb_block_info(block, &info));
        CHECK_EQUAL(info.uses, 1);
        int32_t deferred = 0;
        CHECK_OK(mmsb_block_free(block, 0, &deferred));
        CHECK_EQUAL(deferred, 1);
        if (last > 0)
            CHECK_OK(mmsb_runtime_destroy(runtime));
        if (last > 1)
            CHECK_OK(mmsb_context_destroy(context));
        memset(found->data, 7, 64);
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, end_tensor, tensor) == 0);
        pthread_join(thread, NULL);
        CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
        CHECK_EQUAL(check_live(MMSB_KIND_BLOCK), 0);
        mmsb_runtime_stats_t stats;
        mmsb_runtime_stats_init(&stats);
        if (last == 0) {
            CHECK_OK(mmsb_runtime_reap(runtime));
            CHECK_OK(mmsb_runtime_stats(runtime, &stats));
            CHECK_EQUAL(stats.outstanding, 0);
        }
        if (last < 2)
            CHECK_OK(mmsb_context_destroy(context));
    }
}

static void wrong_arguments(void) {
    mmsb_context_t context = new_context();
    foreign_t foreign;
    mmsb_page_t page = 0;
    mmsb_tensor_info_t info;
    mmsb_adopt_options_t with;
    mmsb_tensor_info_init(&info);
    mmsb_adopt_options_init(&with);
    new_foreign(&foreign);
    CHECK_STATUS(mmsb_tensor_info(NULL, 1, &info), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tensor_info(&foreign.managed, 2, &info), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tensor_info(&foreign.managed, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    info.reserved_word = 1;
    CHECK_STATUS(mmsb_tensor_info(&foreign.managed, 1, &info), MMSB_E_STRUCT_VERSION);
    CHECK_STATUS(mmsb_page_adopt_tensor(context, NULL, 1, NULL, &page), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_adopt_tensor(context, &foreign.managed, 1, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    with.user = &foreign;
    CHECK_STATUS(mmsb_page_adopt_tensor(context, &foreign.managed, 1, &with, &page), MMSB_E_INVALID_ARGUMENT);
    with.user = NULL;
    with.struct_size++;
    CHECK_STATUS(mmsb_page_adopt_tensor(context, &foreign.managed, 1, &with, &page), MMSB_E_STRUCT_VERSION);
    mmsb_tensor_info_init(&info);
    foreign.managed.versioned.tensor.device.type = 2;
    foreign.managed.versioned.tensor.device.id = 3;
    CHECK_OK(mmsb_tensor_info(&foreign.managed, 1, &info)); /* a device's memory can be looked at */
    CHECK(info.device_type == 2 && info.device == 3 && info.address == foreign.memory + 8);
    CHECK_EQUAL(foreign.deleted, 0);
    mmsb_tensor_capsule_end(NULL); /* nothing, and no Python is in this process */
    CHECK_OK(mmsb_context_destroy(context));
}

/* ------------------------------------------------------------------------------- deleters within calls and threads ---- */

/* A page over the tensor of another page: the deleter runs while the library gives memory back. */
static void a_tensor_of_the_library_comes_home(void) {
    for (int closing = 0; closing < 2; closing++) {
        mmsb_context_t context = new_context();
        mmsb_page_t pages[4] = {new_page(context, 100), 0, 0, 0};
        for (int i = 1; i < 4; i++)
            CHECK_OK(mmsb_page_adopt_tensor(context, export(pages[i - 1], NULL), 1, NULL, &pages[i]));
        CHECK(mmsb_page_address(pages[3]) == mmsb_page_address(pages[0]));
        check_pins(pages[0], 0, 1);
        if (closing) {
            CHECK_OK(mmsb_context_destroy(context));
            continue;
        }
        CHECK_STATUS(mmsb_page_destroy(pages[0]), MMSB_E_BUSY);
        CHECK_OK(mmsb_page_destroy(pages[3]));
        check_pins(pages[2], 0, 0);
        size_t bad = 99;
        CHECK_OK(mmsb_page_destroy_many(&pages[2], 1, &bad));
        CHECK_OK(mmsb_page_pin(pages[1], MMSB_PIN_READ, NULL));
        CHECK_OK(mmsb_context_destroy(context)); /* the last unpin gives the tensor back */
        CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 1);
        CHECK_OK(mmsb_page_unpin_many(&pages[1], 1, MMSB_PIN_READ, NULL));
    }
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 0);
}

/* The end of a context stays in a release function, with pages locked, until it is let go. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int inside, go_on;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static void stay(void *user, void *memory, uint64_t size) {
    (void)user, (void)memory, (void)size;
    pthread_mutex_lock(&gate.mutex);
    gate.inside = 1;
    pthread_cond_broadcast(&gate.changed);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += check_stops ? 20 : CHECK_PATIENCE;
    int late = 0;
    while (!gate.go_on && !late)
        late = pthread_cond_timedwait(&gate.changed, &gate.mutex, &end) != 0;
    CHECK(!late);
    pthread_mutex_unlock(&gate.mutex);
}

static void *end_context(void *context) {
    CHECK_OK(mmsb_context_destroy(*(mmsb_context_t *)context));
    return NULL;
}

static void a_deleter_does_not_wait_for_a_call(void) {
    enum { COUNT = 64 };
    mmsb_context_t context = new_context();
    static uint8_t memory[COUNT + 2][64];
    mmsb_adopt_options_t with;
    mmsb_adopt_options_init(&with);
    with.release = stay;
    mmsb_page_t page;
    dl_versioned_t *tensors[2 * COUNT];
    /* Whichever of the two ends first stays, with those between them locked. */
    CHECK_OK(mmsb_page_adopt(context, memory[COUNT], 64, &with, &page));
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(mmsb_page_adopt(context, memory[i], 64, NULL, &page));
        tensors[2 * i] = export(page, NULL);
        CHECK_OK(mmsb_page_create(context, i % 2 ? 100 : 100000, NULL, &page));
        tensors[2 * i + 1] = export(page, NULL);
    }
    CHECK_OK(mmsb_page_adopt(context, memory[COUNT + 1], 64, &with, &page));
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, end_context, &context) == 0);
    pthread_mutex_lock(&gate.mutex);
    while (!gate.inside)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
    for (int i = 0; i < 2 * COUNT; i++) /* returns while the other thread is inside: it is let go only afterwards */
        tensors[i]->deleter(tensors[i]);
    pthread_mutex_lock(&gate.mutex);
    gate.go_on = 1;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 0);
}

static void delete_and_stay(void *tensor, void *memory, uint64_t size) {
    dl_versioned_t *managed = tensor;
    managed->deleter(managed);
    stay(NULL, memory, size);
}

/* Ends a context in a thread whose release function has called the deleter of an export of this page, and stays inside. */
static pthread_t let_an_export_wait(mmsb_context_t *ending, mmsb_page_t page) {
    static uint8_t memory[64];
    *ending = new_context();
    mmsb_adopt_options_t with;
    mmsb_adopt_options_init(&with);
    with.release = delete_and_stay;
    with.user = export(page, NULL);
    mmsb_page_t adopted;
    REQUIRE_OK(mmsb_page_adopt(*ending, memory, sizeof memory, &with, &adopted));
    gate.inside = gate.go_on = 0;
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, end_context, ending) == 0);
    pthread_mutex_lock(&gate.mutex);
    while (!gate.inside)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
    return thread;
}

static mmsb_status_t moves(int how, mmsb_context_t context, mmsb_page_t page) {
    const uint64_t id = mmsb_page_id(page);
    mmsb_ticket_t ticket;
    mmsb_status_t status;
    switch (how) {
    case 0:
        return mmsb_page_sync(page, MMSB_SYNC_TO_DEVICE, 0);
    case 1:
        return mmsb_page_sync_many(&page, 1, MMSB_SYNC_TO_DEVICE, 0, NULL, NULL, NULL);
    case 2:
        CHECK_OK(mmsb_page_sync_many_start(&page, 1, MMSB_SYNC_TO_DEVICE, 0, NULL, NULL, &ticket));
        break;
    case 3:
        CHECK_OK(mmsb_page_sync_enqueue(&page, 1, MMSB_SYNC_TO_DEVICE, 0, NULL));
        return mmsb_context_sync_drain(context, NULL, NULL);
    case 4:
        return mmsb_context_prefetch(context, &id, 1, 0, NULL, NULL);
    case 5:
        CHECK_OK(mmsb_context_prefetch_start(context, &id, 1, 0, NULL, &ticket));
        break;
    case 6:
        return mmsb_page_resize(page, 5000);
    default:
        return mmsb_page_migrate(page, MMSB_LOCATION_GPU, 0);
    }
    status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    return status;
}

/* What moves a page ends the exports before that wait. */
static void exports_that_wait_do_not_pin(void) {
    mmsb_context_t context = new_simulated_context(1), ending;
    for (int how = 0; how < 8; how++) {
        mmsb_page_t page;
        REQUIRE_OK(mmsb_page_create(context, 100, NULL, &page));
        pthread_t thread = let_an_export_wait(&ending, page);
        CHECK_OK(moves(how, context, page));
        pthread_mutex_lock(&gate.mutex);
        gate.go_on = 1;
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.mutex);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_OK(mmsb_page_destroy(page));
    }
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
}

/* What a save says that waits for raw writers so long, while there are some. */
static mmsb_status_t waiting_save(mmsb_context_t context, uint64_t timeout_ns) {
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.raw_writes = MMSB_RAW_WRITES_WAIT;
    options.timeout_ns = timeout_ns;
    void *memory = NULL;
    uint64_t size;
    mmsb_status_t status = mmsb_snapshot_save_memory(context, &options, &memory, &size);
    if (status == MMSB_OK)
        CHECK_OK(mmsb_snapshot_free_memory(memory));
    return status;
}

typedef struct helper {
    mmsb_context_t context;
    mmsb_page_t own;
    dl_versioned_t *tensor;
} helper_t;

/* Deletes what another thread has exported, with a pin of its own. */
static void *delete_beside_a_pin(void *of) {
    helper_t *helper = of;
    void *address;
    CHECK_OK(mmsb_page_pin(helper->own, MMSB_PIN_WRITE, &address));
    helper->tensor->deleter(helper->tensor);
    CHECK_STATUS(waiting_save(helper->context, MMSB_WAIT_FOREVER), MMSB_E_INVALID_STATE); /* the pin is the thread's still */
    return NULL;
}

/* A save that would wait for the thread that waits for it is refused. An export is its exporter's, whoever ends it. */
static void exports_count_as_the_exporters(void) {
    helper_t helper = {.context = new_context()};
    mmsb_page_t page;
    CHECK_OK(mmsb_page_create(helper.context, 100, NULL, &page));
    CHECK_OK(mmsb_page_create(helper.context, 100, NULL, &helper.own));
    CHECK_OK(waiting_save(helper.context, MMSB_WAIT_FOREVER));
    helper.tensor = export(page, NULL);
    CHECK_STATUS(waiting_save(helper.context, MMSB_WAIT_FOREVER), MMSB_E_INVALID_STATE);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, delete_beside_a_pin, &helper) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_STATUS(waiting_save(helper.context, 20000000), MMSB_E_TIMEOUT); /* for the other thread's pin, none of this one's */
    CHECK_OK(mmsb_page_unpin(helper.own, MMSB_PIN_WRITE));
    CHECK_OK(waiting_save(helper.context, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_context_destroy(helper.context));
}

static void a_forked_child_may_delete(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    dl_versioned_t *managed = export(page, NULL);
    pid_t child = fork();
    if (child == 0) {
        managed->deleter(managed);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_pins(page, 0, 1);
    managed->deleter(managed);
    CHECK_OK(mmsb_context_destroy(context));
}

static void locations_are_devices(void) {
    static const struct {
        mmsb_location_t location;
        int32_t type, device;
    } cases[] = {{MMSB_LOCATION_CPU, 1, 0},
                 {MMSB_LOCATION_GPU, 2, 1},
                 {MMSB_LOCATION_PINNED, 3, 0},
                 {MMSB_LOCATION_UNIFIED, 13, 1},
                 {MMSB_LOCATION_DISK, 1, 0}};
    mmsb_context_t context = new_simulated_context(2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mmsb_page_options_t with;
        mmsb_page_options_init(&with);
        with.location = cases[i].location;
        with.device = cases[i].device;
        mmsb_page_t page;
        REQUIRE_OK(mmsb_page_create(context, 5000, &with, &page));
        dl_versioned_t *managed = export(page, NULL);
        CHECK_EQUAL(managed->tensor.device.type, cases[i].type);
        CHECK_EQUAL(managed->tensor.device.id, cases[i].device);
        void *address = NULL;
        CHECK_OK(mmsb_page_pin(page, MMSB_PIN_READ, &address));
        CHECK(managed->tensor.data == address);
        CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_READ));
        CHECK_STATUS(mmsb_page_migrate(page, cases[i].location == MMSB_LOCATION_CPU ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU, 0),
                     MMSB_E_BUSY);
        managed->deleter(managed);
        check_pins(page, 0, 0);
        CHECK_OK(mmsb_page_destroy(page));
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* Every thread exports pages and hands the tensors on; every thread deletes what others hand to it, or adopts it first. */
enum { THREADS = 8, HANDED = 4096, STORM_PAGES = 32 };

static struct {
    uint64_t exports;
    mmsb_context_t contexts[2];
    mmsb_page_t pages[STORM_PAGES];
    dl_versioned_t *handed[HANDED];
    uint64_t made, deleted, adopted;
} storm = {.exports = 20000};

static void *rage(void *unused) {
    (void)unused;
    static uint64_t seeds;
    uint64_t seed = __atomic_add_fetch(&seeds, 1, __ATOMIC_RELAXED) * 7919;
    while (__atomic_add_fetch(&storm.made, 1, __ATOMIC_RELAXED) <= storm.exports) {
        mmsb_page_t page = storm.pages[random_below(&seed, STORM_PAGES)];
        mmsb_tensor_options_t with = options();
        with.read_only = (int32_t)random_below(&seed, 2);
        void *tensor = NULL;
        if (!CHECK_OK(mmsb_page_export_tensor(page, &with, &tensor)))
            return NULL;
        dl_versioned_t *mine = tensor;
        CHECK_EQUAL(*(volatile uint8_t *)mine->tensor.data, 5);
        dl_versioned_t *others = __atomic_exchange_n(&storm.handed[random_below(&seed, HANDED)], mine, __ATOMIC_ACQ_REL);
        if (!others)
            continue;
        CHECK_EQUAL(*(volatile uint8_t *)others->tensor.data, 5);
        if (random_below(&seed, 2)) {
            others->deleter(others);
            __atomic_add_fetch(&storm.deleted, 1, __ATOMIC_RELAXED);
            continue;
        }
        mmsb_adopt_options_t adopt;
        mmsb_adopt_options_init(&adopt);
        adopt.read_only = (int32_t)(others->flags & 1);
        mmsb_page_t over;
        if (!CHECK_OK(mmsb_page_adopt_tensor(storm.contexts[1], others, 1, &adopt, &over)))
            return NULL;
        uint8_t byte = 0;
        CHECK_OK(mmsb_page_read(over, 0, &byte, 1));
        CHECK_EQUAL(byte, 5);
        CHECK_OK(mmsb_page_destroy(over));
        __atomic_add_fetch(&storm.adopted, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void deleters_on_other_threads(void) {
    uint8_t fives[6000];
    memset(fives, 5, sizeof fives);
    for (int i = 0; i < 2; i++)
        storm.contexts[i] = new_context();
    for (int i = 0; i < STORM_PAGES; i++) {
        storm.pages[i] = new_page(storm.contexts[0], i % 2 ? 6000 : 100);
        CHECK_OK(mmsb_page_write(storm.pages[i], 0, fives, i % 2 ? 6000 : 100));
    }
    run_team(THREADS, rage, NULL);
    CHECK(storm.deleted > storm.exports / 4 && storm.adopted > storm.exports / 4);
    CHECK_OK(mmsb_context_destroy(storm.contexts[0])); /* what is still handed on keeps its memory */
    for (int i = 0; i < HANDED; i++) {
        if (!storm.handed[i])
            continue;
        CHECK_EQUAL(*(volatile uint8_t *)storm.handed[i]->tensor.data, 5);
        storm.handed[i]->deleter(storm.handed[i]);
    }
    CHECK_OK(mmsb_context_destroy(storm.contexts[1]));
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    printf("%llu exports: %llu adopted and ended, the others deleted, by %d threads\n", (unsigned long long)storm.exports,
           (unsigned long long)storm.adopted, THREADS);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (count > 2)
        storm.exports = strtoull(arguments[2], NULL, 10);
    check_stops = strcmp(mode, "steps") == 0; /* of a planted bug no more is wanted */
    if (strcmp(mode, "storm") != 0) {
        RUN(a_page_is_a_tensor);
        RUN(readers_get_a_read_pin);
        RUN(a_tensor_without_a_version);
        RUN(items_of_any_shape);
        RUN(what_a_page_does_not_have_is_refused);
        RUN(memory_outlives_its_context);
        RUN(a_tensor_is_a_page);
        RUN(read_only_tensors);
        RUN(lies_are_refused);
        RUN(wrong_arguments);
        RUN(blocks_are_tensors);
        RUN(a_tensor_of_the_library_comes_home);
        RUN(a_deleter_does_not_wait_for_a_call);
        RUN(exports_that_wait_do_not_pin);
        RUN(exports_count_as_the_exporters);
        RUN(a_forked_child_may_delete);
        RUN(locations_are_devices);
    }
    if (strcmp(mode, "steps") != 0)
        RUN(deleters_on_other_threads);
    return check_report();
}
