/* Tensors as arrays of Arrow's C device data interface: layouts, lists, parts that a consumer moves, and releases in any order;
 * arrays of others as tensors, and what lies in each of their fields.
 * `arrow_test steps` stops at the first fault. */
#include "library.h"
#include "tensor.h"

#include <pthread.h>

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

/* ------------------------------------------------------------------------------------------------------- imports ---- */

/* An array that another library has made: lists of 3 integers of 32 bits, of which the array has four from the second on. */
typedef struct made {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    struct ArrowArray items, spare;
    struct ArrowSchema item_type, spare_type;
    struct ArrowArray *children[1], *grandchildren[1];
    struct ArrowSchema *child_types[1], *grandchild_types[1];
    const void *bitmap[2], *buffers[3];
    uint8_t bits[8];
    int32_t numbers[24];
} made_t;

static int arrays_released, schemas_released;
static pthread_t released_on;

static void release_made(struct ArrowArray *array) {
    arrays_released++;
    released_on = pthread_self();
    CHECK(array->release == release_made); /* the copy that was moved */
    array->release = NULL;
}

static void release_made_schema(struct ArrowSchema *schema) {
    schemas_released++;
    schema->release = NULL;
}

static void make(made_t *m) {
    memset(m, 0, sizeof *m);
    for (int i = 0; i < 24; i++)
        m->numbers[i] = i;
    memset(m->bits, 0xFF, sizeof m->bits);
    m->buffers[1] = m->numbers;
    m->items = (struct ArrowArray){
        .length = 20, .offset = 2, .n_buffers = 2, .buffers = m->buffers, .children = m->grandchildren, .release = release_made};
    m->item_type = (struct ArrowSchema){.format = "i", .children = m->grandchild_types, .release = release_made_schema};
    m->spare = m->items, m->spare_type = m->item_type; /* for what has one child too many */
    m->children[0] = &m->items, m->grandchildren[0] = &m->spare;
    m->child_types[0] = &m->item_type, m->grandchild_types[0] = &m->spare_type;
    m->array = (struct ArrowDeviceArray){.array = {.length = 4,
                                                   .offset = 1,
                                                   .n_buffers = 1,
                                                   .n_children = 1,
                                                   .buffers = m->bitmap,
                                                   .children = m->children,
                                                   .release = release_made},
                                         .device_id = -1,
                                         .device_type = ARROW_DEVICE_CPU};
    m->schema =
        (struct ArrowSchema){.format = "+w:3", .n_children = 1, .children = m->child_types, .release = release_made_schema};
    arrays_released = schemas_released = 0;
}

/* Numbers without lists: the array is that of the items. */
static void make_flat(made_t *m, const char *format) {
    make(m);
    m->array.array = m->items;
    m->schema = m->item_type;
    m->schema.format = format;
}

static dl_versioned_t *import(made_t *m) {
    void *tensor = NULL;
    REQUIRE_OK(mmsb_tensor_from_arrow(&m->array, &m->schema, &tensor));
    CHECK(!m->array.array.release && !m->schema.release);
    CHECK(arrays_released == 0 && schemas_released == 1);
    return tensor;
}

static void end(dl_versioned_t *tensor) {
    tensor->deleter(tensor);
    CHECK_EQUAL(arrays_released, 1);
    CHECK_EQUAL(schemas_released, 1);
}

/* What is refused is as it was. what: the lie. */
static void is_refused(made_t *m, mmsb_status_t code, const char *what) {
    void *tensor = m;
    const made_t before = *m;
    const mmsb_status_t found = mmsb_tensor_from_arrow(&m->array, &m->schema, &tensor);
    if (found != code)
        check_fail(__FILE__, __LINE__, "%s: %d, expected %d", what, (int)found, (int)code);
    CHECK(found != MMSB_OK && mmsb_last_error_code() == found && strchr(mmsb_last_error(), '\n') == NULL);
    CHECK(tensor == m && memcmp(&before, m, sizeof before) == 0 && arrays_released == 0 && schemas_released == 0);
}

static void an_array_is_a_tensor(void) {
    made_t m;
    make(&m);
    dl_versioned_t *managed = import(&m);
    const dl_tensor_t *tensor = &managed->tensor;
    CHECK(managed->version.major == 1 && managed->flags == 1);
    CHECK(tensor->device.type == 1 && tensor->device.id == 0);
    CHECK(tensor->dtype.code == 0 && tensor->dtype.bits == 32 && tensor->dtype.lanes == 1);
    CHECK(tensor->ndim == 2 && tensor->shape[0] == 4 && tensor->shape[1] == 3);
    CHECK(tensor->strides[0] == 3 && tensor->strides[1] == 1);
    CHECK(tensor->data == m.numbers && tensor->byte_offset == 5 * sizeof(int32_t)); /* 2 and a list of 3 */
    mmsb_tensor_info_t info;
    mmsb_tensor_info_init(&info);
    CHECK_OK(mmsb_tensor_info(managed, 1, &info));
    CHECK(info.address == &m.numbers[5] && info.bytes == 48 && info.read_only == 1);
    memset(&m.array, 0xFF, sizeof m.array); /* it was moved */
    end(managed);
}

static void formats_that_are_numbers(void) {
    static const struct {
        const char *format;
        uint8_t code, bits;
        int64_t width; /* of the last dimension; 0 = there is one only */
    } types[] = {
        {"c", 0, 8, 0},  {"C", 1, 8, 0},  {"s", 0, 16, 0}, {"S", 1, 16, 0}, {"i", 0, 32, 0},  {"I", 1, 32, 0},    {"l", 0, 64, 0},
        {"L", 1, 64, 0}, {"e", 2, 16, 0}, {"f", 2, 32, 0}, {"g", 2, 64, 0}, {"w:1", 1, 8, 1}, {"w:12", 1, 8, 12},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        made_t m;
        make_flat(&m, types[i].format);
        m.array.array.length = 4;
        dl_versioned_t *managed = import(&m);
        const dl_tensor_t *tensor = &managed->tensor;
        const uint64_t width = types[i].width ? (uint64_t)types[i].width : 1;
        CHECK(tensor->dtype.code == types[i].code && tensor->dtype.bits == types[i].bits);
        CHECK_EQUAL(tensor->byte_offset, 2 * width * types[i].bits / 8);
        CHECK(tensor->ndim == 1 + (types[i].width > 0) && tensor->shape[0] == 4);
        CHECK(tensor->ndim == 1 || (tensor->shape[1] == types[i].width && tensor->strides[0] == types[i].width));
        end(managed);
    }
}

static void other_formats_are_refused(void) {
    static const char *const formats[] = {
        "",     "n",     "b",    "z",     "Z",      "u",   "U",    "vu",   "vz",   "+l",
        "+L",   "+vl",   "+s",   "+m",    "+r",     "tdD", "tdm",  "tts",  "tin",  "d:10,2",
        "tss:", "+ud:0", "ii",   "i ",    "w:",     "w:0", "w:-1", "w: 1", "w:1x", "w:18446744073709551617",
        "+w:",  "+w:0",  "+w:3", "+w:+3", "+w:3,4", "x",   "+",    "w",    "a b",  "w:9223372036854775808"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        made_t m;
        make_flat(&m, formats[i]);
        const int list = strcmp(formats[i], "+w:3") == 0; /* of which this one has neither the buffers nor the child */
        is_refused(&m, list ? MMSB_E_INVALID_ARGUMENT : MMSB_E_UNSUPPORTED, formats[i]);
        CHECK(list || strstr(mmsb_last_error(), formats[i]));
        make(&m);
        m.item_type.format = formats[i];
        is_refused(&m, list ? MMSB_E_INVALID_ARGUMENT : MMSB_E_UNSUPPORTED, formats[i]);
    }
    made_t m;
    make_flat(&m, "a\nb\xFF\x7F and what is too long for a line that somebody reads");
    is_refused(&m, MMSB_E_UNSUPPORTED, "bytes that are no text");
    CHECK(strstr(mmsb_last_error(), "'a?b?? and what is too long for a line th'"));
}

/* One field of each at a time; the two numbers are where it is, and what is put there. */
#define LIE(field, lie, code) {#field " = " #lie, offsetof(made_t, field), sizeof(((made_t *)0)->field), (uint64_t)(lie), code}

static void every_field_that_lies_is_refused(void) {
    enum { BAD = MMSB_E_INVALID_ARGUMENT, SIZE = MMSB_E_INVALID_SIZE, NOT = MMSB_E_UNSUPPORTED };
    static const struct {
        const char *what;
        size_t at, bytes;
        uint64_t lie;
        mmsb_status_t code;
    } lies[] = {
        LIE(array.array.length, -1, SIZE),
        LIE(array.array.length, 0, SIZE),
        LIE(array.array.length, 6, SIZE), /* the child has 20, 3 + 18 are needed */
        LIE(array.array.length, INT64_MAX, SIZE),
        LIE(array.array.length, INT64_MAX / 3, SIZE),
        LIE(array.array.length, INT64_MIN, SIZE),
        LIE(array.array.null_count, 1, NOT),
        LIE(array.array.null_count, -2, SIZE),
        LIE(array.array.offset, -1, SIZE),
        LIE(array.array.offset, 3, SIZE),
        LIE(array.array.offset, INT64_MAX, SIZE),
        LIE(array.array.offset, INT64_MAX - 4, SIZE),
        LIE(array.array.n_buffers, 0, BAD),
        LIE(array.array.n_buffers, 2, BAD),
        LIE(array.array.n_buffers, -1, BAD),
        LIE(array.array.n_children, 0, BAD),
        LIE(array.array.n_children, 2, BAD),
        LIE(array.array.n_children, INT64_MIN, BAD),
        LIE(array.array.buffers, 0, BAD),
        LIE(array.array.children, 0, BAD),
        LIE(array.array.dictionary, 1, NOT),
        LIE(array.array.release, 0, BAD),
        LIE(array.device_id, -2, BAD),
        LIE(array.device_id, INT32_MAX + 1LL, BAD),
        LIE(array.device_type, ARROW_DEVICE_CUDA, BAD), /* the id is -1 */
        LIE(array.device_type, 0, NOT),
        LIE(array.device_type, -1, NOT),
        LIE(array.device_type, ARROW_DEVICE_ROCM, NOT),
        LIE(array.device_type, ARROW_DEVICE_HEXAGON, NOT),
        LIE(array.sync_event, 1, BAD),
        LIE(schema.format, 0, BAD),
        LIE(schema.n_children, 0, BAD),
        LIE(schema.n_children, 2, BAD),
        LIE(schema.children, 0, BAD),
        LIE(schema.dictionary, 1, NOT),
        LIE(schema.release, 0, BAD),
        LIE(children[0], 0, BAD),
        LIE(child_types[0], 0, BAD),
        LIE(items.length, -1, SIZE),
        LIE(items.length, 14, SIZE), /* one too few */
        LIE(items.length, INT64_MAX, SIZE),
        LIE(items.null_count, 1, NOT),
        LIE(items.null_count, INT64_MIN, SIZE),
        LIE(items.offset, -1, SIZE),
        LIE(items.offset, INT64_MAX, SIZE),
        LIE(items.offset, INT64_MAX / 2, SIZE), /* in bytes there are no such addresses */
        LIE(items.n_buffers, 1, BAD),
        LIE(items.n_buffers, 3, BAD),
        LIE(items.n_children, 1, BAD),
        LIE(items.buffers, 0, BAD),
        LIE(items.dictionary, 1, NOT),
        LIE(items.release, 0, BAD),
        LIE(item_type.format, 0, BAD),
        LIE(item_type.n_children, 1, BAD),
        LIE(item_type.dictionary, 1, NOT),
        LIE(item_type.release, 0, BAD),
        LIE(buffers[1], 0, SIZE),
        LIE(buffers[1], UINT64_MAX - 64, SIZE), /* past all addresses */
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        made_t m;
        make(&m);
        memcpy((char *)&m + lies[i].at, &lies[i].lie, lies[i].bytes);
        is_refused(&m, lies[i].code, lies[i].what);
    }
    made_t m;
    make(&m); /* the most that is there, and fields that say nothing */
    m.array.array.length = 5;
    m.items.length = 18;
    m.array.device_id = 77;
    m.array.reserved[0] = m.array.reserved[2] = -1;
    m.schema.name = m.item_type.name = "any";
    m.schema.flags = ARROW_FLAG_NULLABLE;
    m.schema.metadata = "any";
    end(import(&m));
    m.array.array.release = NULL;
    void *tensor = NULL;
    CHECK_STATUS(mmsb_tensor_from_arrow(&m.array, &m.schema, &tensor), MMSB_E_INVALID_ARGUMENT); /* it is moved already */
    CHECK_STATUS(mmsb_tensor_from_arrow(NULL, &m.schema, &tensor), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_tensor_from_arrow(&m.array, NULL, &tensor), MMSB_E_INVALID_ARGUMENT);
    make(&m);
    CHECK_STATUS(mmsb_tensor_from_arrow(&m.array, &m.schema, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK(!tensor && m.array.array.release && m.schema.release);
}

/* Numbers whose product is more than there is. */
static void sizes_that_overflow_are_refused(void) {
    made_t m;
    make(&m);
    m.schema.format = "+w:9223372036854775807";
    is_refused(&m, MMSB_E_INVALID_SIZE, "a width of all");
    make(&m);
    m.schema.format = "+w:4611686018427387904"; /* 2^62: the items of the first two lists are 2^63 */
    m.array.array.offset = 0;
    m.array.array.length = 2;
    m.items.offset = 0;
    m.items.length = INT64_MAX;
    is_refused(&m, MMSB_E_INVALID_SIZE, "2^63 items");
    make(&m);
    m.schema.format = "+w:4611686018427387904"; /* the last item of the list that is meant is 2^63 */
    m.array.array.offset = m.array.array.length = 1;
    m.items.offset = 0;
    m.items.length = INT64_MAX;
    is_refused(&m, MMSB_E_INVALID_SIZE, "an end at 2^63");
    make(&m);
    m.schema.format = "+w:4611686018427387904"; /* the first one is 2^64 */
    m.item_type.format = "c";
    m.array.array.offset = 4, m.array.array.length = 1;
    m.items.offset = 0;
    m.items.length = INT64_MAX;
    is_refused(&m, MMSB_E_INVALID_SIZE, "a begin at 2^64");
    make(&m);
    m.item_type.format = "w:9223372036854775807";
    is_refused(&m, MMSB_E_INVALID_SIZE, "a binary of all");
    make_flat(&m, "l");
    m.array.array.offset = INT64_C(1) << 61; /* times 8 is 2^64 */
    is_refused(&m, MMSB_E_INVALID_SIZE, "an offset of 2^64 bytes");
    make_flat(&m, "l");
    m.array.array.length = INT64_C(1) << 61;
    is_refused(&m, MMSB_E_INVALID_SIZE, "2^64 bytes");
    make(&m); /* a list that is in itself without an end */
    m.schema.format = "+w:1";
    m.array.array.length = 1, m.array.array.offset = 0;
    m.children[0] = &m.array.array;
    m.child_types[0] = &m.schema;
    is_refused(&m, MMSB_E_UNSUPPORTED, "a circle");
}

/* Levels of lists, as many as a tensor has dimensions. */
static void as_many_levels_as_dimensions(void) {
    static struct {
        struct ArrowArray array, *child;
        struct ArrowSchema schema, *child_type;
    } levels[65];
    static const uint8_t byte[1] = {7};
    const void *buffers[2] = {NULL, byte};
    for (int count = 64; count <= 65; count++) {
        for (int i = 0; i < count; i++) {
            const int list = i + 1 < count;
            levels[i].child = list ? &levels[i + 1].array : NULL;
            levels[i].child_type = list ? &levels[i + 1].schema : NULL;
            levels[i].array = (struct ArrowArray){.length = 1,
                                                  .n_buffers = 2 - list,
                                                  .n_children = list,
                                                  .buffers = buffers,
                                                  .children = &levels[i].child,
                                                  .release = release_made};
            levels[i].schema = (struct ArrowSchema){.format = list ? "+w:1" : "C",
                                                    .n_children = list,
                                                    .children = &levels[i].child_type,
                                                    .release = release_made_schema};
        }
        struct ArrowDeviceArray array = {.array = levels[0].array, .device_id = -1, .device_type = ARROW_DEVICE_CPU};
        void *tensor = NULL;
        arrays_released = schemas_released = 0;
        if (count == 65) {
            CHECK_STATUS(mmsb_tensor_from_arrow(&array, &levels[0].schema, &tensor), MMSB_E_UNSUPPORTED);
            continue;
        }
        REQUIRE_OK(mmsb_tensor_from_arrow(&array, &levels[0].schema, &tensor));
        dl_versioned_t *managed = tensor;
        CHECK(managed->tensor.ndim == 64 && managed->tensor.data == byte);
        end(managed);
    }
}

/* A bitmap that nobody has counted is looked at where the items are that count, and nowhere else. */
static void nulls_are_looked_for(void) {
    made_t m;
    make(&m);
    m.array.array.null_count = m.items.null_count = -1; /* without bitmaps */
    end(import(&m));
    for (int bit = 0; bit < 24; bit++) {
        make(&m);
        m.items.null_count = -1;
        m.buffers[0] = m.bits;
        m.bits[bit / 8] &= (uint8_t)~(1 << bit % 8);
        if (bit >= 5 && bit < 17)
            is_refused(&m, MMSB_E_UNSUPPORTED, "a null");
        else
            end(import(&m));
        make(&m);
        m.array.array.null_count = -1;
        m.bitmap[0] = m.bits;
        m.bits[bit / 8] &= (uint8_t)~(1 << bit % 8);
        if (bit >= 1 && bit < 5)
            is_refused(&m, MMSB_E_UNSUPPORTED, "a null list");
        else
            end(import(&m));
    }
    make(&m); /* it says that it has counted them */
    m.items.null_count = 0;
    m.buffers[0] = m.bits;
    memset(m.bits, 0, sizeof m.bits);
    end(import(&m));
    make(&m); /* the host cannot look */
    m.array.device_type = ARROW_DEVICE_CUDA;
    m.array.device_id = 0;
    m.items.null_count = -1;
    m.buffers[0] = (const void *)8;
    is_refused(&m, MMSB_E_UNSUPPORTED, "a bitmap on a device");
    m.buffers[0] = NULL;
    end(import(&m));
}

static void devices_are_those_of_tensors(void) {
    static const struct {
        int32_t type;
        int64_t id;
        int32_t expected;
    } cases[] = {{ARROW_DEVICE_CPU, 5, 5},
                 {ARROW_DEVICE_CUDA, 3, 3},
                 {ARROW_DEVICE_CUDA_HOST, -1, 0},
                 {ARROW_DEVICE_CUDA_MANAGED, -1, 0},
                 {ARROW_DEVICE_CUDA_MANAGED, INT32_MAX, INT32_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_t m;
        make(&m);
        m.array.device_type = cases[i].type;
        m.array.device_id = cases[i].id;
        dl_versioned_t *managed = import(&m);
        CHECK(managed->tensor.device.type == cases[i].type && managed->tensor.device.id == cases[i].expected);
        end(managed);
    }
}

/* gpu/cuda's tests and tests/peers have a driver. */
static void an_event_needs_a_driver(void) {
    mmsb_capability_t known[64];
    size_t count = 0;
    for (size_t i = 0; i < 64; i++)
        known[i].struct_size = sizeof known[i];
    REQUIRE_OK(mmsb_capabilities(known, 64, &count));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(known[i].name, "cuda") == 0 && known[i].available)
            return; /* which would be given a pointer to nothing */
    }
    uintptr_t event = 4096;
    made_t m;
    make(&m);
    m.array.device_type = ARROW_DEVICE_CUDA;
    m.array.device_id = 0;
    m.array.sync_event = &event;
    is_refused(&m, MMSB_E_NO_DEVICE, "an event");
    m.array.array.null_count = 1; /* what is refused is not waited for */
    is_refused(&m, MMSB_E_UNSUPPORTED, "an event of what is refused");
}

static void an_array_is_adopted(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = 0;
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    made_t m;
    make(&m);
    dl_versioned_t *managed = import(&m);
    CHECK_STATUS(mmsb_page_adopt_tensor(context, managed, 1, NULL, &page), MMSB_E_INVALID_STATE); /* Arrow's arrays stay */
    CHECK(page == 0 && arrays_released == 0);
    options.read_only = 1;
    REQUIRE_OK(mmsb_page_adopt_tensor(context, managed, 1, &options, &page));
    CHECK(page_info(page).size == 48 && page_info(page).read_only && page_info(page).adopted);
    int32_t number = 0;
    CHECK_OK(mmsb_page_read(page, 44, &number, 4));
    CHECK_EQUAL(number, 16);
    CHECK_STATUS(mmsb_page_write(page, 0, &number, 4), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(arrays_released, 0);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_EQUAL(arrays_released, 1);
    make(&m);
    REQUIRE_OK(mmsb_page_adopt_tensor(context, import(&m), 1, &options, &page));
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_EQUAL(arrays_released, 1);
}

static void *end_elsewhere(void *tensor) {
    end(tensor);
    return NULL;
}

static void the_release_comes_on_any_thread(void) {
    made_t m;
    make(&m);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, end_elsewhere, import(&m)) == 0);
    pthread_join(thread, NULL);
    CHECK(pthread_equal(released_on, thread));
}

/* Out and in again: the array of a page is the page's pin, wherever the page lies. */
static void there_and_back(mmsb_context_t context, mmsb_location_t location) {
    mmsb_page_options_t of;
    mmsb_page_options_init(&of);
    of.location = location;
    mmsb_page_t page = 0, again = 0;
    REQUIRE_OK(mmsb_page_create(context, 96, &of, &page));
    static const uint8_t bytes[4] = {1, 2, 3, 4};
    CHECK_OK(mmsb_page_write(page, 72, bytes, 4));
    mmsb_tensor_options_t with = numbers(MMSB_TENSOR_CODE_FLOAT, 32);
    with.ndim = 3;
    with.shape = (const int64_t[]){2, 3, 3};
    with.offset = 24;
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    to_arrow(page, &with, &array, &schema);
    void *tensor = NULL;
    REQUIRE_OK(mmsb_tensor_from_arrow(&array, &schema, &tensor));
    CHECK(!array.array.release && !schema.release);
    const dl_tensor_t *found = &((dl_versioned_t *)tensor)->tensor;
    CHECK(found->ndim == 3 && found->shape[0] == 2 && found->shape[1] == 3 && found->shape[2] == 3);
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.read_only = 1;
    REQUIRE_OK(mmsb_page_adopt_tensor(context, tensor, 1, &options, &again));
    uint8_t read[4] = {0};
    CHECK_OK(mmsb_page_read(again, 48, read, 4));
    CHECK(memcmp(read, bytes, 4) == 0);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_destroy(again));
    check_ended(page);
    CHECK_OK(mmsb_page_destroy(page));
}

static void arrays_of_pages_come_back(void) {
    static const mmsb_location_t locations[] = {MMSB_LOCATION_CPU, MMSB_LOCATION_DISK, MMSB_LOCATION_GPU, MMSB_LOCATION_PINNED,
                                                MMSB_LOCATION_UNIFIED};
    mmsb_context_t context = new_simulated_context(1);
    for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++)
        there_and_back(context, locations[i]);
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
    RUN(an_array_is_a_tensor);
    RUN(formats_that_are_numbers);
    RUN(other_formats_are_refused);
    RUN(every_field_that_lies_is_refused);
    RUN(sizes_that_overflow_are_refused);
    RUN(as_many_levels_as_dimensions);
    RUN(nulls_are_looked_for);
    RUN(devices_are_those_of_tensors);
    RUN(an_event_needs_a_driver);
    RUN(an_array_is_adopted);
    RUN(the_release_comes_on_any_thread);
    RUN(arrays_of_pages_come_back);
    return check_report();
}
