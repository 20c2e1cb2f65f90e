/* Kernels on streams, and on the host. */
#include <stdlib.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "apart.h"
#include "bytes.h"
#include "door.h"

#include "_cgo_export.h"

mmsb_status_t door_range(const char *name, const void *address, uint64_t bytes) {
    if (!address)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is NULL", name);
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s at %p has %llu bytes, past the last address", name, address,
                          (unsigned long long)bytes);
    return MMSB_OK;
}

/* The same, but an empty range may be NULL. */
static mmsb_status_t check_range(const char *name, const void *address, uint64_t bytes) {
    return bytes == 0 ? MMSB_OK : door_range(name, address, bytes);
}

static mmsb_status_t check_aligned(const char *name, const void *address, uintptr_t alignment) {
    if ((uintptr_t)address % alignment == 0)
        return MMSB_OK;
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s at %p is not aligned to %llu bytes", name, address,
                      (unsigned long long)alignment);
}

static mmsb_status_t check_apart(const char *to_name, const void *to, uint64_t to_bytes, const char *name, const void *from,
                                 uint64_t bytes) {
    uintptr_t written = (uintptr_t)to, read = (uintptr_t)from;
    if (to_bytes == 0 || bytes == 0 || written + to_bytes <= read || read + bytes <= written)
        return MMSB_OK;
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s at %p overlaps %s at %p", to_name, to, name, from);
}

static uint64_t bits_length(uint64_t bytes) {
    return bytes / 8 + (bytes % 8 != 0);
}

/* A change mask is whole words of 4 bytes. */
static uint64_t changed_length(const void *changed, uint64_t bytes) {
    return changed ? (bits_length(bytes) + 3) / 4 * 4 : 0;
}

mmsb_status_t door_host_copy(void *to, const void *from, uint64_t bytes) {
    DOOR_CHECK(check_apart("to", to, bytes, "from", from, bytes));
    const mmsb__kernel_copy_t copy = {(uintptr_t)to, (uintptr_t)from, bytes};
    mmsb__kernel_copy_alone(&copy);
    return MMSB_OK;
}

mmsb_status_t door_host_fill(void *to, uint8_t value, uint64_t bytes) {
    const mmsb__kernel_fill_t fill = {(uintptr_t)to, bytes, value};
    mmsb__kernel_fill_alone(&fill);
    return MMSB_OK;
}

/* ------------------------------------------------------------------------------------------------- comparisons ---- */

static mmsb_status_t check_comparison(const char *name, const void *to, uint64_t to_bytes, const void *a, const void *b,
                                      uint64_t bytes) {
    DOOR_CHECK(check_range(name, to, to_bytes));
    DOOR_CHECK(check_range("a", a, bytes));
    DOOR_CHECK(check_range("b", b, bytes));
    DOOR_CHECK(check_apart(name, to, to_bytes, "a", a, bytes));
    return check_apart(name, to, to_bytes, "b", b, bytes);
}

mmsb_status_t mmsb_stream_compare(mmsb_stream_t stream, void *result, const void *a, const void *b, uint64_t bytes) {
    DOOR_ENTER();
    DOOR_CHECK(check_comparison("result", result, bytes, a, b, bytes));
    const mmsb__kernel_compare_t of = {(uintptr_t)result, (uintptr_t)a, (uintptr_t)b, bytes};
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_compare(stream, of.result, of.a, of.b, bytes);
    mmsb__kernel_compare_alone(&of);
    return MMSB_OK;
}

mmsb_status_t mmsb_stream_differences(mmsb_stream_t stream, void *bits, const void *a, const void *b, uint64_t bytes) {
    DOOR_ENTER();
    DOOR_CHECK(check_comparison("bits", bits, bits_length(bytes), a, b, bytes));
    const mmsb__kernel_differences_t of = {(uintptr_t)bits, (uintptr_t)a, (uintptr_t)b, bytes};
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_differences(stream, of.bits, of.a, of.b, bytes);
    mmsb__kernel_differences_alone(&of);
    return MMSB_OK;
}

mmsb_status_t mmsb_stream_difference(mmsb_stream_t stream, mmsb_difference_t *difference, const void *a, const void *b,
                                     uint64_t bytes) {
    DOOR_ENTER();
    DOOR_POINTER(difference);
    DOOR_CHECK(check_comparison("difference", difference, sizeof *difference, a, b, bytes));
    const mmsb__kernel_difference_t of = {(uintptr_t)difference, (uintptr_t)a, (uintptr_t)b, bytes};
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_difference(stream, of.found, of.a, of.b, bytes);
    *difference = (mmsb_difference_t){0, UINT64_MAX};
    mmsb__kernel_difference_alone(&of);
    return MMSB_OK;
}

_Static_assert(offsetof(mmsb_difference_t, count) == 0 && offsetof(mmsb_difference_t, first) == 8, "as the kernel has them");

mmsb_status_t mmsb_stream_checksum(mmsb_stream_t stream, uint32_t *sums, const void *from, uint64_t bytes, uint64_t part) {
    DOOR_ENTER();
    if (part == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "part is 0, at least 1 is needed");
    uint64_t parts = bytes / part + (bytes % part != 0);
    if (parts > PTRDIFF_MAX / sizeof *sums)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%llu checksums are more than memory has", (unsigned long long)parts);
    DOOR_CHECK(check_range("sums", sums, parts * sizeof *sums));
    DOOR_CHECK(check_aligned("sums", sums, sizeof *sums));
    DOOR_CHECK(check_range("from", from, bytes));
    DOOR_CHECK(check_apart("sums", sums, parts * sizeof *sums, "from", from, bytes));
    const mmsb__kernel_checksum_t of = {(uintptr_t)sums, (uintptr_t)from, bytes, part};
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_checksum(stream, of.sums, of.from, bytes, part);
    mmsb__kernel_checksum_alone(&of);
    return MMSB_OK;
}

/* -------------------------------------------------------------------------------------------- merge and scatter ---- */

mmsb_status_t mmsb_stream_merge(mmsb_stream_t stream, void *to, const void *mask, mmsb_delta_kind_t kind, const void *payload,
                                uint64_t bytes, void *changed) {
    DOOR_ENTER();
    if (kind != MMSB_DELTA_DENSE_BYTES && kind != MMSB_DELTA_DENSE_BITS)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "kind is %d, not %d (a mask of bytes) or %d (of bits)", kind,
                          MMSB_DELTA_DENSE_BYTES, MMSB_DELTA_DENSE_BITS);
    uint64_t mask_bytes = kind == MMSB_DELTA_DENSE_BYTES ? bytes : bits_length(bytes);
    uint64_t marks = changed_length(changed, bytes);
    DOOR_CHECK(check_range("to", to, bytes));
    DOOR_CHECK(check_range("mask", mask, mask_bytes));
    DOOR_CHECK(check_range("payload", payload, bytes));
    DOOR_CHECK(check_range("changed", changed, marks));
    DOOR_CHECK(check_aligned("changed", changed, sizeof(uint32_t)));
    DOOR_CHECK(check_apart("to", to, bytes, "mask", mask, mask_bytes));
    DOOR_CHECK(check_apart("to", to, bytes, "payload", payload, bytes));
    DOOR_CHECK(check_apart("changed", changed, marks, "to", to, bytes));
    DOOR_CHECK(check_apart("changed", changed, marks, "mask", mask, mask_bytes));
    DOOR_CHECK(check_apart("changed", changed, marks, "payload", payload, bytes));
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_merge(stream, (uintptr_t)to, (uintptr_t)mask, kind, (uintptr_t)payload, bytes, (uintptr_t)changed);
    if (kind == MMSB_DELTA_DENSE_BYTES) {
        const mmsb__kernel_merge_bytes_t of = {(uintptr_t)to, (uintptr_t)mask, (uintptr_t)payload, bytes, (uintptr_t)changed};
        mmsb__kernel_merge_bytes_alone(&of);
    } else {
        const mmsb__kernel_merge_bits_t of = {(uintptr_t)to, (uintptr_t)mask, (uintptr_t)payload, bytes, (uintptr_t)changed};
        mmsb__kernel_merge_bits_alone(&of);
    }
    return MMSB_OK;
}

static uint64_t offset_at(const void *offsets, uint32_t offset_bytes, uint64_t i) {
    return offset_bytes == 8 ? ((const uint64_t *)offsets)[i] : ((const uint32_t *)offsets)[i];
}

static mmsb_status_t check_places(const void *offsets, uint32_t offset_bytes, uint64_t origin, uint64_t count, uint64_t bytes) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = offset_at(offsets, offset_bytes, i);
        if (offset - origin >= bytes)
            return mmsb__fail(MMSB_E_OUT_OF_RANGE, "offset %llu is %llu, outside of %llu bytes from %llu on",
                              (unsigned long long)i, (unsigned long long)offset, (unsigned long long)bytes,
                              (unsigned long long)origin);
    }
    return MMSB_OK;
}

mmsb_status_t mmsb_stream_scatter(mmsb_stream_t stream, void *to, uint64_t bytes, const void *offsets, uint32_t offset_bytes,
                                  uint64_t origin, const void *values, uint64_t count) {
    DOOR_ENTER();
    if (offset_bytes != 4 && offset_bytes != 8)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "offset_bytes is %u, not 4 or 8", offset_bytes);
    if (count > PTRDIFF_MAX / offset_bytes)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%llu offsets are more than memory has", (unsigned long long)count);
    DOOR_CHECK(check_range("to", to, bytes));
    DOOR_CHECK(check_range("offsets", offsets, count * offset_bytes));
    DOOR_CHECK(check_aligned("offsets", offsets, offset_bytes));
    DOOR_CHECK(check_range("values", values, count));
    DOOR_CHECK(check_apart("to", to, bytes, "offsets", offsets, count * offset_bytes));
    DOOR_CHECK(check_apart("to", to, bytes, "values", values, count));
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_scatter(stream, (uintptr_t)to, bytes, (uintptr_t)offsets, offset_bytes, origin, (uintptr_t)values,
                                     count);
    DOOR_CHECK(check_places(offsets, offset_bytes, origin, count, bytes));
    const mmsb__kernel_scatter_t of = {(uintptr_t)to, bytes, (uintptr_t)offsets, offset_bytes, origin, (uintptr_t)values,
                                       count,         0};
    mmsb__kernel_scatter_alone(&of);
    return MMSB_OK;
}

/* -------------------------------------------------------------------------------------------------------- lists ---- */

/* What the items of a list write and read: as many groups as an item has ranges. */
enum { MOST_GROUPS = 4 };

static mmsb_status_t make_groups(mmsb__stretches_t groups[MOST_GROUPS], size_t count, size_t items) {
    const size_t bytes = sizeof(mmsb__stretch_t);
    mmsb__stretch_t *room = items <= SIZE_MAX / bytes / count ? malloc(count * items * bytes) : NULL;
    if (!room)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory to check %zu items", items);
    for (size_t i = 0; i < count; i++)
        groups[i] = (mmsb__stretches_t){.list = room + i * items};
    return MMSB_OK;
}

static mmsb_status_t check_copy(const mmsb_copy_t *copy) {
    DOOR_CHECK(check_range("to", copy->to, copy->bytes));
    DOOR_CHECK(check_range("from", copy->from, copy->bytes));
    return copy->reserved == 0 ? MMSB_OK : mmsb__fail(MMSB_E_STRUCT_VERSION, "reserved is not 0");
}

static mmsb_status_t check_copies(const mmsb_copy_t *copies, size_t count, size_t *bad) {
    mmsb__stretches_t groups[MOST_GROUPS];
    DOOR_CHECK(make_groups(groups, 2, count));
    mmsb_status_t status = MMSB_OK;
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        *bad = i;
        status = check_copy(&copies[i]);
        mmsb__stretches_add(&groups[0], copies[i].to, copies[i].bytes, i);
        mmsb__stretches_add(&groups[1], copies[i].from, copies[i].bytes, i);
    }
    if (status == MMSB_OK)
        status = mmsb__stretches_apart(groups, 1, 2, bad);
    free(groups[0].list);
    return status;
}

/* With one thread the kernel heeds no piece. */
_Static_assert(sizeof(mmsb_copy_t) == sizeof(mmsb__kernel_span_t) && offsetof(mmsb_copy_t, to) == 0 &&
                   offsetof(mmsb_copy_t, from) == offsetof(mmsb__kernel_span_t, from) &&
                   offsetof(mmsb_copy_t, bytes) == offsetof(mmsb__kernel_span_t, bytes),
               "a list of copies is the kernel's table");

mmsb_status_t mmsb_stream_copy_many(mmsb_stream_t stream, const mmsb_copy_t *copies, size_t count, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(copies, count);
    DOOR_OPTIONAL(bad_index);
    size_t bad = 0;
    mmsb_status_t status = count == 0 ? MMSB_OK : check_copies(copies, count, &bad);
    if (status != MMSB_OK && bad_index)
        *bad_index = bad;
    if (status != MMSB_OK)
        return status;
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_copy_many(stream, (mmsb_copy_t *)copies, count);
    const mmsb__kernel_copy_many_t of = {(uintptr_t)copies, count, 0};
    mmsb__kernel_copy_many_alone(&of);
    return MMSB_OK;
}

static mmsb_status_t check_propagation(const mmsb_propagation_t *item) {
    DOOR_CHECK(check_range("to", item->to, item->bytes));
    DOOR_CHECK(check_range("from", item->from, item->bytes));
    DOOR_CHECK(check_range("mask", item->mask, bits_length(item->bytes)));
    DOOR_CHECK(check_range("changed", item->changed, changed_length(item->changed, item->bytes)));
    DOOR_CHECK(check_aligned("changed", item->changed, sizeof(uint32_t)));
    return item->reserved == 0 ? MMSB_OK : mmsb__fail(MMSB_E_STRUCT_VERSION, "reserved is not 0");
}

static mmsb_status_t check_propagations(const mmsb_propagation_t *items, size_t count, size_t *bad) {
    mmsb__stretches_t groups[MOST_GROUPS];
    DOOR_CHECK(make_groups(groups, 4, count));
    mmsb_status_t status = MMSB_OK;
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        const mmsb_propagation_t *item = &items[i];
        *bad = i;
        status = check_propagation(item);
        mmsb__stretches_add(&groups[0], item->to, item->bytes, i);
        mmsb__stretches_add(&groups[1], item->changed, changed_length(item->changed, item->bytes), i);
        mmsb__stretches_add(&groups[2], item->from, item->bytes, i);
        mmsb__stretches_add(&groups[3], item->mask, bits_length(item->bytes), i);
    }
    if (status == MMSB_OK)
        status = mmsb__stretches_apart(groups, 2, 4, bad);
    free(groups[0].list);
    return status;
}

_Static_assert(sizeof(mmsb_propagation_t) == sizeof(mmsb__kernel_pair_t) && offsetof(mmsb_propagation_t, to) == 0 &&
                   offsetof(mmsb_propagation_t, from) == offsetof(mmsb__kernel_pair_t, from) &&
                   offsetof(mmsb_propagation_t, mask) == offsetof(mmsb__kernel_pair_t, bits) &&
                   offsetof(mmsb_propagation_t, changed) == offsetof(mmsb__kernel_pair_t, changed) &&
                   offsetof(mmsb_propagation_t, bytes) == offsetof(mmsb__kernel_pair_t, bytes),
               "a list of propagations is the kernel's table");

mmsb_status_t mmsb_stream_propagate(mmsb_stream_t stream, const mmsb_propagation_t *items, size_t count, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(items, count);
    DOOR_OPTIONAL(bad_index);
    size_t bad = 0;
    mmsb_status_t status = count == 0 ? MMSB_OK : check_propagations(items, count, &bad);
    if (status != MMSB_OK && bad_index)
        *bad_index = bad;
    if (status != MMSB_OK)
        return status;
    if (stream != MMSB_STREAM_HOST)
        return mmsbgo_stream_propagate(stream, (mmsb_propagation_t *)items, count);
    const mmsb__kernel_propagate_t of = {(uintptr_t)items, count, 0};
    mmsb__kernel_propagate_alone(&of);
    return MMSB_OK;
}
