/* Tensors as arrays of Arrow's C device data interface: layouts, lists, parts that a consumer moves, and releases in any order.
 * `arrow_test steps` stops at the first fault. */
#include "library.h"
#include "tensor.h"

#define IS_AT(type, field, at) DL_ASSERT(offsetof(struct type, field) == (at), #type "." #field)
DL_ASSERT(sizeof(struct ArrowSchema) == 72 && sizeof(struct ArrowArray) == 80 && sizeof(struct ArrowDeviceArray) == 128, "sizes");
IS_AT(ArrowSchema, metadata, 16);
IS_AT(ArrowSchema, flags, 24);
IS_AT(ArrowSchema, n_children, 32);
IS_AT(ArrowSchema, children, 40);
IS_AT(ArrowSchema, dictionary, 48);
IS_AT(ArrowSchema, release, 56);
IS_AT(ArrowArray, null_count, 8);
IS_AT(ArrowArray, offset, 16);
IS_AT(ArrowArray, n_buffers, 24);
IS_AT(ArrowArray, n_children, 32);
IS_AT(ArrowArray, buffers, 40);
IS_AT(ArrowArray, children, 48);
IS_AT(ArrowArray, dictionary, 56);
IS_AT(ArrowArray, release, 64);
IS_AT(ArrowDeviceArray, device_id, 80);
IS_AT(ArrowDeviceArray, device_type, 88);
IS_AT(ArrowDeviceArray, sync_event, 96);
IS_AT(ArrowDeviceArray, reserved, 104);

static mmsb_tensor_options_t numbers(uint32_t code, uint32_t bits) {
    mmsb_tensor_options_t made;
    mmsb_tensor_options_init(&made);
    made.read_only = 1;
    made.code = code;
    made.bits = bits;
    return made;
}

static dl_versioned_t *export(mmsb_page_t page, const mmsb_tensor_options_t *with) {
    void *tensor = NULL;
    REQUIRE_OK(mmsb_page_export_tensor(page, with, &tensor));
    return tensor;
}

static void to_arrow(mmsb_page_t page, const mmsb_tensor_options_t *with, struct ArrowDeviceArray *array,
                     struct ArrowSchema *schema) {
    REQUIRE_OK(mmsb_tensor_to_arrow(export(page, with), 1, array, schema));
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 1);
    CHECK_EQUAL(page_info(page).read_pins, 1);
}

static void check_ended(mmsb_page_t page) {
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    CHECK_EQUAL(page_info(page).read_pins, 0);
}

static void items_are_numbers(void) {
    static const struct {
        uint32_t code, bits;
        const char *format;
    } types[] = {
        {MMSB_TENSOR_CODE_INT, 8, "c"},    {MMSB_TENSOR_CODE_UINT, 8, "C"},   {MMSB_TENSOR_CODE_INT, 16, "s"},
        {MMSB_TENSOR_CODE_UINT, 16, "S"},  {MMSB_TENSOR_CODE_INT, 32, "i"},   {MMSB_TENSOR_CODE_UINT, 32, "I"},
        {MMSB_TENSOR_CODE_INT, 64, "l"},   {MMSB_TENSOR_CODE_UINT, 64, "L"},  {MMSB_TENSOR_CODE_FLOAT, 16, "e"},
        {MMSB_TENSOR_CODE_FLOAT, 32, "f"}, {MMSB_TENSOR_CODE_FLOAT, 64, "g"},
    };
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 160);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        mmsb_tensor_options_t with = numbers(types[i].code, types[i].bits);
        struct ArrowDeviceArray array;
        struct ArrowSchema schema;
        with.offset = 16;
        memset(&array, 0xFF, sizeof array);
        memset(&schema, 0xFF, sizeof schema);
        to_arrow(page, &with, &array, &schema);
        CHECK(strcmp(schema.format, types[i].format) == 0);
        CHECK(schema.name && !schema.metadata && schema.n_children == 0 && !schema.children && !schema.dictionary);
        CHECK_EQUAL(schema.flags, ARROW_FLAG_NULLABLE);
        CHECK_EQUAL(array.array.length, 144 / (types[i].bits / 8));
        CHECK(array.array.null_count == 0 && array.array.offset == 0 && array.array.n_buffers == 2);
        CHECK(array.array.buffers[0] == NULL && array.array.buffers[1] == (const char *)mmsb_page_address(page) + 16);
        CHECK(array.array.n_children == 0 && !array.array.children && !array.array.dictionary);
        CHECK(array.device_type == ARROW_DEVICE_CPU && array.device_id == -1 && !array.sync_event);
        CHECK(array.reserved[0] == 0 && array.reserved[1] == 0 && array.reserved[2] == 0);
        CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
        schema.release(&schema); /* it ends nothing else */
        CHECK(!schema.release);
        CHECK_EQUAL(page_info(page).read_pins, 1);
        array.array.release(&array.array);
        CHECK(!array.array.release);
        check_ended(page);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void dimensions_are_lists(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 96);
    mmsb_tensor_options_t with = numbers(MMSB_TENSOR_CODE_FLOAT, 32);
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    with.ndim = 3;
    with.shape = (const int64_t[]){2, 3, 4};
    to_arrow(page, &with, &array, &schema);
    static const char *const formats[] = {"+w:3", "+w:4", "f"};
    static const int64_t lengths[] = {2, 6, 24};
    const struct ArrowArray *part = &array.array;
    const struct ArrowSchema *type = &schema;
    for (int i = 0; i < 3; i++) {
        CHECK(strcmp(type->format, formats[i]) == 0);
        CHECK(part->length == lengths[i] && part->n_buffers == 1 + (i == 2) && part->buffers[0] == NULL);
        CHECK(part->n_children == (i < 2) && type->n_children == (i < 2));
        if (i == 2) {
            CHECK(part->buffers[1] == mmsb_page_address(page));
            break;
        }
        part = part->children[0];
        type = type->children[0];
    }
    array.array.release(&array.array);
    schema.release(&schema);
    check_ended(page);
    with.ndim = 0; /* one number */
    with.offset = 92;
    to_arrow(page, &with, &array, &schema);
    CHECK(array.array.length == 1 && array.array.n_children == 0 && strcmp(schema.format, "f") == 0);
    schema.release(&schema);
    array.array.release(&array.array);
    check_ended(page);
    int64_t most[64]; /* as many levels as there may be */
    for (int i = 0; i < 64; i++)
        most[i] = 1;
    with.ndim = 64;
    with.shape = most;
    to_arrow(page, &with, &array, &schema);
    array.array.release(&array.array);
    schema.release(&schema);
    check_ended(page);
    CHECK_OK(mmsb_context_destroy(context));
}

/* A consumer copies a struct and says in the old one that it has moved; a child lives on without its parent. */
static void parts_are_moved(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 24);
    mmsb_tensor_options_t with = numbers(MMSB_TENSOR_CODE_UINT, 8);
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    with.ndim = 3;
    with.shape = (const int64_t[]){2, 3, 4};
    to_arrow(page, &with, &array, &schema);
    struct ArrowArray whole = array.array;
    struct ArrowSchema whole_type = schema;
    array.array.release = NULL;
    memset(&array, 0xFF, sizeof array);
    memset(&schema, 0xFF, sizeof schema);
    struct ArrowArray middle = *whole.children[0];
    struct ArrowSchema middle_type = *whole_type.children[0];
    whole.children[0]->release = NULL;
    whole_type.children[0]->release = NULL;
    whole.release(&whole);
    whole_type.release(&whole_type);
    CHECK(!whole.release && !whole_type.release);
    CHECK_EQUAL(page_info(page).read_pins, 1);
    CHECK(middle.length == 6 && middle.children[0]->buffers[1] == mmsb_page_address(page));
    CHECK(strcmp(middle_type.format, "+w:4") == 0 && strcmp(middle_type.children[0]->format, "C") == 0);
    struct ArrowArray last = *middle.children[0];
    middle.children[0]->release = NULL;
    void (*again)(struct ArrowArray *) = middle.release;
    middle.release(&middle);
    again(&middle); /* nothing: the last part still has the memory */
    middle_type.release(&middle_type);
    CHECK(last.length == 24 && last.buffers[1] == mmsb_page_address(page));
    CHECK_EQUAL(page_info(page).read_pins, 1);
    last.release(&last);
    CHECK(!last.release);
    check_ended(page);
    CHECK_OK(mmsb_context_destroy(context));
}

static void an_array_outlives_its_context(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    mmsb_tensor_options_t with = numbers(MMSB_TENSOR_CODE_UINT, 8);
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    to_arrow(page, &with, &array, &schema);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(*(const uint8_t *)array.array.buffers[1], 0);
    schema.release(&schema);
    array.array.release(&array.array);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    CHECK_EQUAL(check_live(MMSB_KIND_MEMORY), 0);
}

static void a_schema_by_itself(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    void *tensor = NULL;
    mmsb_tensor_options_t with = numbers(MMSB_TENSOR_CODE_INT, 64);
    struct ArrowSchema schema;
    with.versioned = with.read_only = 0;
    REQUIRE_OK(mmsb_page_export_tensor(page, &with, &tensor));
    CHECK_OK(mmsb_tensor_to_arrow(tensor, 0, NULL, &schema));
    CHECK(strcmp(schema.format, "l") == 0);
    schema.release(&schema);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 1);
    struct ArrowDeviceArray array;
    CHECK_OK(mmsb_tensor_to_arrow(tensor, 0, &array, &schema));
    schema.release(&schema);
    array.array.release(&array.array);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void memory_of_devices(void) {
    static const int32_t types[] = {ARROW_DEVICE_CUDA, ARROW_DEVICE_CUDA_HOST, ARROW_DEVICE_CUDA_MANAGED};
    uint64_t memory[2] = {0};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        dl_legacy_t made = {.tensor = {.data = memory, .device = {types[i], 3}, .dtype = {1, 64, 1}}};
        struct ArrowDeviceArray array;
        struct ArrowSchema schema;
        CHECK_OK(mmsb_tensor_to_arrow(&made, 0, &array, &schema));
        CHECK(array.device_type == types[i] && array.device_id == 3 && array.array.buffers[1] == memory);
        array.array.release(&array.array);
        schema.release(&schema);
    }
}

static void what_arrow_does_not_have_is_refused(void) {
    static const struct {
        uint32_t code, bits, lanes;
        int64_t shape[2], strides[2];
    } cases[] = {
        {MMSB_TENSOR_CODE_BOOL, 8, 1, {2, 3}, {3, 1}},     {MMSB_TENSOR_CODE_BFLOAT, 16, 1, {2, 3}, {3, 1}},
        {MMSB_TENSOR_CODE_COMPLEX, 64, 1, {2, 3}, {3, 1}}, {MMSB_TENSOR_CODE_FLOAT, 8, 1, {2, 3}, {3, 1}},
        {MMSB_TENSOR_CODE_FLOAT, 32, 2, {2, 3}, {3, 1}},   {MMSB_TENSOR_CODE_UINT, 8, 1, {2, 3}, {1, 2}},
        {MMSB_TENSOR_CODE_UINT, 8, 1, {2, 3}, {4, 1}},
    };
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    struct ArrowDeviceArray array = {.device_id = 77};
    struct ArrowSchema schema = {.flags = 77};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mmsb_tensor_options_t with = numbers(cases[i].code, cases[i].bits);
        with.lanes = cases[i].lanes;
        with.ndim = 2;
        with.shape = cases[i].shape;
        with.strides = cases[i].strides;
        dl_versioned_t *tensor = export(page, &with);
        CHECK_STATUS(mmsb_tensor_to_arrow(tensor, 1, &array, &schema), MMSB_E_UNSUPPORTED);
        CHECK(array.device_id == 77 && schema.flags == 77);
        tensor->deleter(tensor);
    }
    mmsb_tensor_options_t with = numbers(MMSB_TENSOR_CODE_UINT, 8);
    with.ndim = 2;
    with.shape = (const int64_t[]){1, 10};
    with.strides = (const int64_t[]){7, 1}; /* the stride of one item leads nowhere */
    to_arrow(page, &with, &array, &schema);
    array.array.release(&array.array);
    schema.release(&schema);
    with.shape = (const int64_t[]){0, 10};
    with.strides = NULL;
    dl_versioned_t *tensor = export(page, &with);
    CHECK_STATUS(mmsb_tensor_to_arrow(tensor, 1, &array, &schema), MMSB_E_INVALID_SIZE); /* no items */
    CHECK_STATUS(mmsb_tensor_to_arrow(tensor, 2, &array, &schema), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tensor_to_arrow(NULL, 1, &array, &schema), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tensor_to_arrow(tensor, 1, &array, NULL), MMSB_E_INVALID_ARGUMENT);
    tensor->version.major = 2;
    CHECK_STATUS(mmsb_tensor_to_arrow(tensor, 1, &array, &schema), MMSB_E_FORMAT);
    tensor->deleter(tensor);
    CHECK_EQUAL(check_live(MMSB_KIND_TENSOR), 0);
    CHECK_OK(mmsb_context_destroy(context));
}

int main(int count, char **arguments) {
    check_stops = count > 1 && strcmp(arguments[1], "steps") == 0;
    RUN(items_are_numbers);
    RUN(dimensions_are_lists);
    RUN(parts_are_moved);
    RUN(an_array_outlives_its_context);
    RUN(a_schema_by_itself);
    RUN(memory_of_devices);
    RUN(what_arrow_does_not_have_is_refused);
    return check_report();
}
