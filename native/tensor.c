/* Tensors of DLPack: tensor.h. */
#include "tensor.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "look.h"
#include "pin.h"

_Static_assert(sizeof(mmsb__tensor_t) == 48 && sizeof(mmsb__tensor_legacy_t) == 64 && sizeof(mmsb__tensor_versioned_t) == 80,
               "DLPack's structs");

/* ------------------------------------------------------------------------------------------------------- checks ---- */

/* Bytes of an item. Bits of less than a byte have no address. */
static mmsb_status_t item_size(uint32_t code, uint32_t bits, uint32_t lanes, uint64_t *size) {
    if (code > MMSB_TENSOR_CODE_MAX || code == MMSB_TENSOR_CODE_HANDLE)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "type code is %u, which is not a number (DLPack's 0 to %d, without %d)", code,
                          MMSB_TENSOR_CODE_MAX, MMSB_TENSOR_CODE_HANDLE);
    if (bits == 0 || bits > UINT8_MAX || lanes == 0 || lanes > UINT16_MAX || bits * lanes % 8 != 0)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "%u lanes of %u bits are not whole bytes", lanes, bits);
    *size = (uint64_t)bits * lanes / 8;
    return MMSB_OK;
}

typedef struct layout {
    uint64_t items; /* how many */
    uint64_t span;  /* from the first to behind the last, in items; 0 = there are none */
} layout_t;

static mmsb_status_t count_items(int32_t ndim, const int64_t *shape, uint64_t *items) {
    int empty = 0;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return mmsb__fail(MMSB_E_INVALID_SIZE, "shape[%d] is %lld, at least 0 is needed", i, (long long)shape[i]);
        empty |= shape[i] == 0;
    }
    *items = !empty;
    for (int32_t i = 0; i < ndim && !empty; i++) {
        if (__builtin_mul_overflow(*items, (uint64_t)shape[i], items) || *items > INT64_MAX)
            return mmsb__fail(MMSB_E_INVALID_SIZE, "the shape has more than %lld items at dimension %d of %d",
                              (long long)INT64_MAX, i, ndim);
    }
    return MMSB_OK;
}

/* What a shape and strides cover. No two items may be the same: from the dimension with the least stride on, each step must be
 * wider than all that comes before. strides NULL: row-major. */
static mmsb_status_t measure(int32_t ndim, const int64_t *shape, const int64_t *strides, layout_t *layout) {
    if (ndim < 0 || ndim > MMSB__TENSOR_DIMENSIONS)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "ndim is %d; the range is 0 to %d", ndim, MMSB__TENSOR_DIMENSIONS);
    if (ndim > 0 && !shape)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "shape is NULL for %d dimensions", ndim);
    mmsb_status_t status = count_items(ndim, shape, &layout->items);
    if (status != MMSB_OK)
        return status;
    layout->span = layout->items;
    if (!strides || layout->items == 0)
        return MMSB_OK;
    int32_t order[MMSB__TENSOR_DIMENSIONS], count = 0;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] == 1) /* its stride leads nowhere */
            continue;
        if (strides[i] <= 0)
            return mmsb__fail(MMSB_E_UNSUPPORTED, "strides[%d] is %lld for %lld items, at least 1 is needed", i,
                              (long long)strides[i], (long long)shape[i]);
        int32_t at = count++;
        for (; at > 0 && strides[order[at - 1]] > strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    uint64_t span = 1;
    for (int32_t k = 0; k < count; k++) {
        const int32_t i = order[k];
        if ((uint64_t)strides[i] < span)
            return mmsb__fail(MMSB_E_UNSUPPORTED, "strides[%d] is %lld, but what it steps over has %llu items: they overlap", i,
                              (long long)strides[i], (unsigned long long)span);
        uint64_t wide;
        if (__builtin_mul_overflow((uint64_t)shape[i] - 1, (uint64_t)strides[i], &wide) ||
            __builtin_add_overflow(span, wide, &span) || span > INT64_MAX)
            return mmsb__fail(MMSB_E_INVALID_SIZE, "%lld items %lld apart in dimension %d reach past all addresses",
                              (long long)shape[i], (long long)strides[i], i);
    }
    layout->span = span;
    return MMSB_OK;
}

/* ------------------------------------------------------------------------------------------------------- exports ---- */

/* A page that was exported, or a block of a device. Its shape and strides lie behind it. */
typedef struct mmsb__export {
    union {
        mmsb__tensor_legacy_t legacy;
        mmsb__tensor_versioned_t versioned;
    } managed;
    uint64_t page;              /* or a block's number */
    void (*returned)(uint64_t); /* of a block: ends what others have of it */
    int32_t mode;
    uint32_t context;          /* the number of the page's */
    mmsb__lent_t *lent;        /* whose pin it is; NULL = it is not to write, or counts as the thread's that ends it */
    struct mmsb__export *next; /* of those that wait */
} export_t;

#define DELETER_TRIES 100

static uint64_t alive;
struct mmsb__export *mmsb__tensors_waiting;
uint32_t mmsb__tensors_ending;

uint64_t mmsb__tensors_alive(void) {
    return __atomic_load_n(&alive, __ATOMIC_RELAXED);
}

static void wait_for_end(export_t *export) {
    export->next = __atomic_load_n(&mmsb__tensors_waiting, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&mmsb__tensors_waiting, &export->next, export, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
}

static int unpin(void *of) {
    const export_t *export = of;
    if (export->returned) {
        export->returned(export->page);
        return 1;
    }
    return mmsb__page_unpin_fast(export->page, export->mode) || mmsb__page_try_unpin(export->page, export->mode);
}

/* 0: not now. In a forked child, which has a copy of the memory and no pages, only the memory goes. */
static int end_export(export_t *export) {
    mmsb_status_t open = mmsb__gate;
    if (MMSB__UNLIKELY(open != MMSB_OK))
        open = mmsb__gate_closed();
    if ((open == MMSB_OK || open == MMSB_E_POISONED) &&
        !(export->lent ? mmsb__writing_return(export->lent, export->context, unpin, export) : unpin(export)))
        return 0;
    __atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
    free(export);
    return 1;
}

/* A consumer may hold a lock of the program's, as Python's, which the call that has the page may wait for: so a deleter does not
 * wait. */
static void end_soon(export_t *export) {
    const int locked = mmsb__self && mmsb__self->gives_back;
    for (int tries = 0; !locked && tries < DELETER_TRIES; tries++) {
        if (MMSB__LIKELY(end_export(export))) {
            mmsb__tensors_end_waiting(); /* the last unpin of a page may have given memory back, and with it further exports */
            return;
        }
        sched_yield();
    }
    wait_for_end(export);
}

void mmsb__tensors_end_waiting_slow(void) {
    if (mmsb__self && mmsb__self->gives_back)
        return;
    __atomic_add_fetch(&mmsb__tensors_ending, 1, __ATOMIC_SEQ_CST);
    for (int some = 1; some;) { /* what ends may be the last pin of adopted memory that waits for it */
        export_t *export = __atomic_exchange_n(&mmsb__tensors_waiting, NULL, __ATOMIC_ACQUIRE);
        some = 0;
        for (export_t *next; export; export = next) {
            next = export->next;
            if (end_export(export))
                some = 1;
            else
                wait_for_end(export);
        }
    }
    __atomic_sub_fetch(&mmsb__tensors_ending, 1, __ATOMIC_RELEASE);
    /* Not for ever: a thread may be in a consumer's function, which waits for a lock of the program's that this one holds. */
    for (int tries = 0; tries < DELETER_TRIES && __atomic_load_n(&mmsb__tensors_ending, __ATOMIC_ACQUIRE) != 0; tries++)
        sched_yield();
}

/* Any thread may call these, whatever it holds of the program's, and when the program's interpreter is gone. */
static void delete_legacy(mmsb__tensor_legacy_t *managed) {
    if (managed)
        end_soon(managed->context);
}

static void delete_versioned(mmsb__tensor_versioned_t *managed) {
    if (managed)
        end_soon(managed->context);
}

static int32_t device_type(mmsb_location_t location) {
    switch (location) {
    case MMSB_LOCATION_GPU:
        return MMSB__TENSOR_CUDA;
    case MMSB_LOCATION_UNIFIED:
        return MMSB__TENSOR_CUDA_MANAGED;
    case MMSB_LOCATION_PINNED:
        return MMSB__TENSOR_CUDA_HOST;
    default:
        return MMSB__TENSOR_CPU;
    }
}

/* The shape and strides of the options; without a shape as many whole items as there are. */
static mmsb_status_t fill_shape(const mmsb_tensor_options_t *options, uint64_t size, uint64_t item, mmsb__tensor_t *tensor) {
    const int32_t ndim = options->ndim;
    layout_t layout;
    if (options->shape) {
        for (int32_t i = 0; i < ndim; i++)
            tensor->shape[i] = options->shape[i];
    } else if (ndim != 1 || options->strides) {
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "shape is NULL, but ndim is %d%s", ndim,
                          options->strides ? " with strides" : "");
    } else if (options->offset > size || (size - options->offset) % item != 0) {
        return mmsb__fail(MMSB_E_MISMATCH, "the memory's %llu bytes from offset %llu on are not a multiple of the item's %llu",
                          (unsigned long long)size, (unsigned long long)options->offset, (unsigned long long)item);
    } else {
        tensor->shape[0] = (int64_t)((size - options->offset) / item);
    }
    mmsb_status_t status = measure(ndim, tensor->shape, options->strides, &layout);
    if (status != MMSB_OK)
        return status;
    uint64_t bytes;
    if (__builtin_mul_overflow(layout.span, item, &bytes) || options->offset > size || bytes > size - options->offset)
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "offset %llu and %llu items of %llu bytes reach past the memory's %llu bytes",
                          (unsigned long long)options->offset, (unsigned long long)layout.span, (unsigned long long)item,
                          (unsigned long long)size);
    int64_t step = 1; /* of no items it does not matter */
    for (int32_t i = ndim - 1; i >= 0; i--) {
        tensor->strides[i] = options->strides ? options->strides[i] : step;
        step *= layout.items != 0 ? tensor->shape[i] : 1;
    }
    return MMSB_OK;
}

/* Makes an export of memory that stays. */
static mmsb_status_t make_export(const mmsb__exported_t *of, const mmsb_tensor_options_t *options, uint64_t item,
                                 export_t **made) {
    const size_t words = (size_t)options->ndim * 2;
    export_t *export = malloc(sizeof *export + words * sizeof(int64_t));
    if (!export)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a tensor of %d dimensions", options->ndim);
    memset(export, 0, sizeof *export);
    mmsb__tensor_t *tensor = options->versioned ? &export->managed.versioned.tensor : &export->managed.legacy.tensor;
    int64_t *shape = (int64_t *)(export + 1);
    *tensor = (mmsb__tensor_t){.data = of->address,
                               .device_type = device_type(of->location),
                               .device_id = of->device,
                               .ndim = options->ndim,
                               .code = (uint8_t)options->code,
                               .bits = (uint8_t)options->bits,
                               .lanes = (uint16_t)options->lanes,
                               .shape = shape,
                               .strides = shape + options->ndim,
                               .byte_offset = options->offset};
    const mmsb_status_t status = fill_shape(options, of->size, item, tensor);
    if (status != MMSB_OK) {
        free(export);
        return status;
    }
    export->page = of->number;
    export->returned = of->returned;
    export->mode = options->read_only ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    if (options->versioned) {
        export->managed.versioned.major = MMSB__TENSOR_MAJOR;
        export->managed.versioned.minor = MMSB__TENSOR_MINOR;
        export->managed.versioned.flags = options->read_only ? MMSB__TENSOR_READ_ONLY : 0;
        export->managed.versioned.context = export;
        export->managed.versioned.deleter = delete_versioned;
    } else {
        export->managed.legacy.context = export;
        export->managed.legacy.deleter = delete_legacy;
    }
    *made = export;
    return MMSB_OK;
}

static mmsb_status_t check_export(const mmsb_tensor_options_t *options, uint64_t *item) {
    if (options->read_only && !options->versioned)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "read_only is 1, but a tensor without a version cannot say so");
    if (options->ndim < 0 || options->ndim > MMSB__TENSOR_DIMENSIONS)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "ndim is %d; the range is 0 to %d", options->ndim, MMSB__TENSOR_DIMENSIONS);
    return item_size(options->code, options->bits, options->lanes, item);
}

static void give_out(export_t *export, void **tensor) {
    __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    *tensor = export;
}

mmsb_status_t mmsb__page_export_tensor(uint64_t page, const mmsb_tensor_options_t *options, void **tensor) {
    uint64_t item = 0;
    mmsb_page_info_t info;
    mmsb__exported_t of = {.number = page};
    export_t *export = NULL;
    mmsb_status_t status = check_export(options, &item);
    if (status != MMSB_OK)
        return status;
    const int32_t mode = options->read_only ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    if (!mmsb__page_pin_fast(page, mode, &of.address) && (status = mmsb__page_pin(page, mode, &of.address)) != MMSB_OK)
        return status;
    if ((status = mmsb__page_info(page, &info)) == MMSB_OK) {
        of.size = info.size, of.location = info.location, of.device = info.device;
        status = make_export(&of, options, item, &export);
    }
    if (status != MMSB_OK) {
        (void)mmsb__page_unpin(page, mode);
        return status;
    }
    export->context = mmsb__record_pinned_in(MMSB__HANDLE_INDEX(page));
    if (mode == MMSB_PIN_WRITE)
        export->lent = mmsb__writing_lend(export->context);
    give_out(export, tensor);
    return MMSB_OK;
}

mmsb_status_t mmsb__block_export_tensor(const mmsb__exported_t *of, const mmsb_tensor_options_t *options, void **tensor) {
    uint64_t item = 0;
    export_t *export = NULL;
    mmsb_status_t status = check_export(options, &item);
    if (status == MMSB_OK)
        status = make_export(of, options, item, &export);
    if (status == MMSB_OK)
        give_out(export, tensor);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- imports ---- */

static mmsb_status_t check_device(const mmsb__tensor_t *tensor) {
    switch (tensor->device_type) {
    case MMSB__TENSOR_CPU:
    case MMSB__TENSOR_CUDA:
    case MMSB__TENSOR_CUDA_HOST:
    case MMSB__TENSOR_CUDA_MANAGED:
        return MMSB_OK;
    default:
        return mmsb__fail(MMSB_E_UNSUPPORTED,
                          "the tensor's device type is %d; known are 1 (host), 2 (CUDA), 3 (pinned), 13 "
                          "(managed)",
                          tensor->device_type);
    }
}

mmsb_status_t mmsb__tensor_info(const void *managed, int versioned, mmsb_tensor_info_t *info) {
    const mmsb__tensor_versioned_t *new = managed;
    const mmsb__tensor_t *tensor = &((const mmsb__tensor_legacy_t *)managed)->tensor;
    uint64_t flags = 0, item = 0, bytes, address;
    layout_t layout;
    if (versioned) {
        if (new->major != MMSB__TENSOR_MAJOR) /* nothing else of it is known */
            return mmsb__fail(MMSB_E_FORMAT, "the tensor has DLPack version %u.%u, version %d.x is read", new->major, new->minor,
                              MMSB__TENSOR_MAJOR);
        tensor = &new->tensor;
        flags = new->flags;
    }
    mmsb_status_t status = check_device(tensor);
    if (status == MMSB_OK)
        status = item_size(tensor->code, tensor->bits, tensor->lanes, &item);
    if (status == MMSB_OK)
        status = measure(tensor->ndim, tensor->shape, tensor->strides, &layout);
    if (status != MMSB_OK)
        return status;
    if (layout.items == 0 || !tensor->data)
        return mmsb__fail(MMSB_E_INVALID_SIZE, "the tensor has %llu items at address 0x%llx, at least 1 is needed",
                          (unsigned long long)layout.items, (unsigned long long)(uintptr_t)tensor->data);
    if (layout.span != layout.items)
        return mmsb__fail(MMSB_E_UNSUPPORTED, "the tensor's %llu items lie within %llu: it has gaps, copy it first",
                          (unsigned long long)layout.items, (unsigned long long)layout.span);
    if (__builtin_mul_overflow(layout.span, item, &bytes) ||
        __builtin_add_overflow((uint64_t)(uintptr_t)tensor->data, tensor->byte_offset, &address) || bytes > (uint64_t)INT64_MAX ||
        address > UINT64_MAX - bytes)
        return mmsb__fail(MMSB_E_INVALID_SIZE, "%llu items of %llu bytes at 0x%llx and offset %llu reach past all addresses",
                          (unsigned long long)layout.span, (unsigned long long)item, (unsigned long long)(uintptr_t)tensor->data,
                          (unsigned long long)tensor->byte_offset);
    info->address = (void *)(uintptr_t)address;
    info->bytes = bytes;
    info->device_type = tensor->device_type;
    info->device = tensor->device_id;
    info->read_only = (flags & MMSB__TENSOR_READ_ONLY) != 0;
    info->copied = (flags & MMSB__TENSOR_COPIED) != 0;
    return MMSB_OK;
}

void mmsb__tensor_delete(void *tensor, int versioned) {
    mmsb__tensor_versioned_t *new = tensor;
    mmsb__tensor_legacy_t *old = tensor;
    if (versioned && new->deleter)
        new->deleter(new);
    else if (!versioned && old->deleter)
        old->deleter(old);
}
