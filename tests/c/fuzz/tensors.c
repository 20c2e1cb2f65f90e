/* Pages as tensors of DLPack. They are exported to be read, so that the model stays as it is; tests/c/tensor_test.c has what is
 * wrong with a tensor, and what adopting one does. */
#include "fuzz.h"

#include "../tensor.h"

static void info_is(const void *tensor, const page_t *page, uint64_t offset) {
    mmsb_tensor_info_t info;
    mmsb_tensor_info_init(&info);
    if (chance(10)) {
        info.reserved_word = 1;
        CALL(mmsb_tensor_info(tensor, 1, &info), MMSB_E_STRUCT_VERSION);
        return;
    }
    if (chance(10)) {
        CALL(mmsb_tensor_info(chance(50) ? NULL : tensor, 2, &info), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_tensor_info(tensor, 1, &info), MMSB_OK);
    SAME(info.bytes, page->size - offset);
    SAME(info.read_only, 1);
    if (page->location != MMSB_LOCATION_GPU) {
        SAME(memcmp(info.address, page->bytes + offset, info.bytes), 0);
    }
}

/* Nobody may write the tensor, so that no page is made of it. */
static void is_not_adopted(void *tensor) {
    const uint64_t context = contexts[any_context()].handle;
    mmsb_status_t code = MMSB_E_INVALID_STATE;
    mmsb_page_t made = UNTOUCHED;
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    switch (below(4)) {
    case 0:
        options.user = tensor;
        code = MMSB_E_INVALID_ARGUMENT;
        break;
    case 1:
        options.struct_size++;
        code = MMSB_E_STRUCT_VERSION;
        break;
    }
    CALL(mmsb_page_adopt_tensor(context, tensor, 1,
                                code != MMSB_E_STRUCT_VERSION && chance(30) && !options.user ? NULL : &options, &made),
         code);
    SAME(made, UNTOUCHED);
}

/* The array is the tensor's from then on. */
static void ends_as_a_tensor_again(struct ArrowDeviceArray *array, struct ArrowSchema *schema, const page_t *page,
                                   uint64_t offset) {
    void *again = NULL;
    if (chance(30)) {
        struct ArrowSchema none = *schema;
        none.n_children = chance(50) ? -1 : 1;
        CALL(mmsb_tensor_from_arrow(array, &none, &again), MMSB_E_INVALID_ARGUMENT);
        none = *schema;
        none.format = "u";
        CALL(mmsb_tensor_from_arrow(array, &none, &again), MMSB_E_UNSUPPORTED);
        CALL(mmsb_tensor_from_arrow(chance(50) ? NULL : array, NULL, &again), MMSB_E_INVALID_ARGUMENT);
        SAME(again == NULL, 1);
    }
    CALL(mmsb_tensor_from_arrow(array, schema, &again), MMSB_OK);
    SAME(array->array.release == NULL && schema->release == NULL, 1);
    info_is(again, page, offset);
    dl_versioned_t *managed = again;
    managed->deleter(managed);
}

/* The tensor is the array's from then on. */
static void ends_as_an_array(void *tensor, const page_t *page, uint64_t offset) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    if (chance(20)) {
        CALL(mmsb_tensor_to_arrow(tensor, 2, &array, &schema), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_tensor_to_arrow(tensor, 1, &array, NULL), MMSB_E_INVALID_ARGUMENT);
    }
    CALL(mmsb_tensor_to_arrow(tensor, 1, &array, &schema), MMSB_OK);
    SAME(array.array.length, page->size - offset);
    SAME(schema.format[0], 'C');
    if (page->location != MMSB_LOCATION_GPU) {
        SAME(memcmp(array.array.buffers[1], page->bytes + offset, page->size - offset), 0);
    }
    if (chance(50)) {
        ends_as_a_tensor_again(&array, &schema, page, offset);
        return;
    }
    schema.release(&schema);
    array.array.release(&array.array);
}

void fuzz_tensor(void) {
    pick_t target = pick_page(15);
    page_t *page = target.page;
    void *tensor = NULL;
    mmsb_tensor_options_t options;
    mmsb_tensor_options_init(&options);
    options.read_only = 1;
    mmsb_status_t code = target.code;
    if (page != NULL) {
        options.offset = below(page->size);
        if (chance(20)) {
            switch (below(5)) {
            case 0:
                options.versioned = 0;
                code = MMSB_E_UNSUPPORTED;
                break;
            case 1:
                options.read_only = 2;
                code = MMSB_E_INVALID_ARGUMENT;
                break;
            case 2:
                options.offset = page->size + 1;
                code = MMSB_E_MISMATCH;
                break;
            case 3:
                options.reserved[below(4)] = 1;
                code = MMSB_E_STRUCT_VERSION;
                break;
            default:
                options.ndim = 2;
                code = MMSB_E_INVALID_ARGUMENT;
            }
        }
    }
    CALL(mmsb_page_export_tensor(target.handle, &options, &tensor), code);
    if (code == MMSB_OK) {
        dl_versioned_t *managed = tensor;
        SAME(managed->tensor.shape[0], page->size - options.offset);
        info_is(tensor, page, options.offset);
        if (chance(50)) {
            is_not_adopted(tensor);
        }
        if (chance(30)) {
            ends_as_an_array(tensor, page, options.offset);
        } else {
            managed->deleter(managed);
        }
        mmsb_tensor_capsule_end(NULL);
        check_version(page, STAYS);
        check_page(page);
    } else {
        SAME(tensor == NULL, 1);
    }
}
