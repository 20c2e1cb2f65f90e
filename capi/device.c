/* Devices and the stream-ordered runtime. */
#include <string.h>
#include <unistd.h>

#include "blocks.h"
#include "door.h"

#include "_cgo_export.h"

mmsb_status_t mmsb_device_list(mmsb_context_t context, mmsb_device_info_t *devices, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(devices, capacity);
    DOOR_POINTER(count);
    return mmsbgo_device_list(context, devices, capacity, count);
}

mmsb_status_t mmsb_device_budget(mmsb_context_t context, int32_t device, uint64_t bytes) {
    DOOR_ENTER();
    return mmsbgo_device_budget(context, device, bytes);
}

void mmsb_device_memory_init(mmsb_device_memory_t *memory) {
    DOOR_INIT(memory);
}

mmsb_status_t mmsb_device_memory(mmsb_context_t context, int32_t device, mmsb_device_memory_t *memory) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_device_memory_t", memory, 0);
    return mmsbgo_device_memory(context, device, memory);
}

/* ---------------------------------------------------------------------------------------------------- runtimes ---- */

void mmsb_runtime_options_init(mmsb_runtime_options_t *options) {
    DOOR_INIT(options);
    options->streams = 64;
    options->refused_attempts = 8;
    options->memory_wait_ns = UINT64_C(10000000000);
}

mmsb_status_t mmsb_runtime_shared(mmsb_context_t context, int32_t device, mmsb_runtime_t *runtime) {
    DOOR_ENTER();
    DOOR_POINTER(runtime);
    return mmsbgo_runtime_shared(context, device, runtime);
}

mmsb_status_t mmsb_runtime_create(mmsb_context_t context, int32_t device, const mmsb_runtime_options_t *options,
                                  mmsb_runtime_t *runtime) {
    DOOR_ENTER();
    mmsb_runtime_options_t defaults;
    if (!options) {
        mmsb_runtime_options_init(&defaults);
        options = &defaults;
    }
    DOOR_STRUCT("mmsb_runtime_options_t", options, 0);
    if (options->streams == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "streams is 0, at least 1 is needed");
    if (options->ledger)
        DOOR_CHECK(door_path("ledger", options->ledger));
    if (options->pool)
        DOOR_CHECK(door_pointer("pool", options->pool, 1));
    DOOR_POINTER(runtime);
    return mmsbgo_runtime_create(context, device, (mmsb_runtime_options_t *)options, runtime);
}

/* Go cannot call a pointer of C's. */
int32_t door_refused(int32_t (*refused)(void *, uint64_t, uint32_t, mmsb_status_t), void *user, uint64_t bytes, uint32_t attempt,
                     mmsb_status_t code) {
    return refused(user, bytes, attempt, code);
}

mmsb_status_t mmsb_runtime_destroy(mmsb_runtime_t runtime) {
    DOOR_ENTER_TO_END();
    if (runtime == 0)
        return MMSB_OK;
    return mmsbgo_runtime_destroy(runtime);
}

void mmsb_runtime_stats_init(mmsb_runtime_stats_t *stats) {
    DOOR_INIT(stats);
}

mmsb_status_t mmsb_runtime_stats(mmsb_runtime_t runtime, mmsb_runtime_stats_t *stats) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_runtime_stats_t", stats, 0);
    return mmsbgo_runtime_stats(runtime, stats);
}

mmsb_status_t mmsb_runtime_device(mmsb_runtime_t runtime, int32_t *device) {
    DOOR_ENTER();
    DOOR_POINTER(device);
    return mmsbgo_runtime_device(runtime, device);
}

mmsb_status_t mmsb_runtime_reap(mmsb_runtime_t runtime) {
    DOOR_ENTER();
    return mmsbgo_runtime_reap(runtime);
}

mmsb_status_t mmsb_runtime_trim(mmsb_runtime_t runtime, uint64_t keep) {
    DOOR_ENTER();
    return mmsbgo_runtime_trim(runtime, keep);
}

mmsb_status_t mmsb_runtime_log_write(mmsb_runtime_t runtime, int32_t descriptor) {
    DOOR_ENTER();
    return mmsbgo_runtime_log_write(runtime, descriptor);
}

mmsb_status_t mmsb_tag_of(const char *name, mmsb_tag_t *tag) {
    DOOR_ENTER();
    DOOR_BYTES(name);
    DOOR_POINTER(tag);
    size_t length = strlen(name);
    if (!mmsb__utf8_valid(name, length))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "the tag's name is not valid UTF-8");
    return mmsbgo_tag_of((char *)name, length, tag);
}

mmsb_status_t mmsb_runtime_tag_stats(mmsb_runtime_t runtime, mmsb_tag_t tag, mmsb_tag_stats_t *stats) {
    DOOR_ENTER();
    DOOR_POINTER(stats);
    return mmsbgo_runtime_tag_stats(runtime, tag, stats);
}

mmsb_status_t mmsb_reservation_create(mmsb_runtime_t runtime, uint64_t bytes, mmsb_reservation_t *reservation) {
    DOOR_ENTER();
    DOOR_POINTER(reservation);
    return mmsbgo_reservation_create(runtime, bytes, reservation);
}

mmsb_status_t mmsb_reservation_destroy(mmsb_reservation_t reservation, uint64_t *left) {
    DOOR_ENTER_TO_END();
    DOOR_OPTIONAL(left);
    if (reservation == 0)
        return MMSB_OK;
    return mmsbgo_reservation_destroy(reservation, left);
}

/* ----------------------------------------------------------------------------------------------------- streams ---- */

mmsb_status_t mmsb_stream_create(mmsb_runtime_t runtime, int32_t priority, mmsb_stream_t *stream) {
    DOOR_ENTER();
    DOOR_POINTER(stream);
    if (priority < -1 || priority > 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "priority is %d, not 0 or -1", priority);
    return mmsbgo_stream_create(runtime, priority, stream);
}

mmsb_status_t mmsb_stream_wrap(mmsb_runtime_t runtime, void *native, mmsb_stream_t *stream) {
    DOOR_ENTER();
    DOOR_POINTER(stream);
    return mmsbgo_stream_wrap(runtime, (uintptr_t)native, stream);
}

mmsb_status_t mmsb_stream_destroy(mmsb_stream_t stream) {
    DOOR_ENTER_TO_END();
    if (stream == 0)
        return MMSB_OK;
    return mmsbgo_stream_destroy(stream);
}

mmsb_status_t mmsb_stream_native(mmsb_stream_t stream, void **native) {
    DOOR_ENTER();
    DOOR_POINTER(native);
    return mmsbgo_stream_native(stream, (uintptr_t *)native);
}

mmsb_status_t mmsb_stream_device(mmsb_stream_t stream, int32_t *device) {
    DOOR_ENTER();
    DOOR_POINTER(device);
    return mmsbgo_stream_device(stream, device);
}

mmsb_status_t mmsb_stream_wait(mmsb_stream_t stream, uint64_t timeout_ns) {
    DOOR_ENTER();
    return mmsbgo_stream_wait(stream, timeout_ns);
}

mmsb_status_t mmsb_stream_copy(mmsb_stream_t stream, void *to, const void *from, uint64_t bytes) {
    DOOR_ENTER();
    DOOR_CHECK(door_range("to", to, bytes));
    DOOR_CHECK(door_range("from", from, bytes));
    if (stream == MMSB_STREAM_HOST)
        return door_host_copy(to, from, bytes);
    return mmsbgo_stream_copy(stream, (uintptr_t)to, (uintptr_t)from, bytes);
}

mmsb_status_t mmsb_stream_fill(mmsb_stream_t stream, void *address, uint8_t value, uint64_t bytes) {
    DOOR_ENTER();
    DOOR_CHECK(door_range("address", address, bytes));
    if (stream == MMSB_STREAM_HOST)
        return door_host_fill(address, value, bytes);
    return mmsbgo_stream_fill(stream, (uintptr_t)address, value, bytes);
}

mmsb_status_t mmsb_stream_record(mmsb_stream_t stream, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_POINTER(ticket);
    return mmsbgo_stream_record(stream, ticket);
}

mmsb_status_t mmsb_stream_after(mmsb_stream_t stream, mmsb_ticket_t ticket) {
    DOOR_ENTER();
    return mmsbgo_stream_after(stream, ticket);
}

mmsb_status_t mmsb_stream_after_native(mmsb_stream_t stream, void *native) {
    DOOR_ENTER();
    return mmsbgo_stream_after_native(stream, (uintptr_t)native);
}

/* ------------------------------------------------------------------------------------------------------ blocks ---- */

DOOR_QUICK mmsb_status_t mmsb_block_allocate(mmsb_stream_t stream, uint64_t bytes, mmsb_tag_t tag, mmsb_reservation_t reservation,
                                             mmsb_block_t *block, void **address) {
    DOOR_ENTER();
    DOOR_POINTER(block);
    DOOR_POINTER(address);
    if (MMSB__LIKELY(reservation == 0) && mmsb__block_hit(stream, bytes, tag, block, (uintptr_t *)address))
        return MMSB_OK;
    return mmsbgo_block_allocate(stream, bytes, tag, reservation, mmsb__block_thread(), block, (uintptr_t *)address);
}

DOOR_QUICK mmsb_status_t mmsb_block_free(mmsb_block_t block, mmsb_stream_t stream, int32_t *deferred) {
    DOOR_ENTER_TO_END();
    DOOR_OPTIONAL(deferred);
    if (MMSB__LIKELY(mmsb__block_cache(block, stream))) {
        if (deferred)
            *deferred = 0;
        return MMSB_OK;
    }
    if (block == 0)
        return MMSB_OK;
    return mmsbgo_block_free(block, stream, mmsb__block_thread(), deferred);
}

void mmsb_block_info_init(mmsb_block_info_t *info) {
    DOOR_INIT(info);
}

mmsb_status_t mmsb_block_info(mmsb_block_t block, mmsb_block_info_t *info) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_block_info_t", info, 0);
    return mmsbgo_block_info(block, info);
}

mmsb_status_t mmsb_block_at(mmsb_runtime_t runtime, const void *address, mmsb_block_t *block, uint64_t *offset) {
    DOOR_ENTER();
    DOOR_POINTER(block);
    DOOR_OPTIONAL(offset);
    return mmsbgo_block_at(runtime, (uintptr_t)address, block, offset);
}

mmsb_status_t mmsb_page_block(mmsb_page_t page, mmsb_block_t *block) {
    DOOR_ENTER();
    DOOR_POINTER(block);
    return mmsbgo_page_block(page, block);
}

/* -------------------------------------------------------------------------------------------------------- uses ---- */

mmsb_status_t mmsb_use_begin(mmsb_stream_t stream, const mmsb_access_t *accesses, size_t count, mmsb_use_t *use,
                             size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(accesses, count);
    DOOR_POINTER(use);
    DOOR_OPTIONAL(bad_index);
    return mmsbgo_use_begin(stream, (mmsb_access_t *)accesses, count, use, bad_index);
}

mmsb_status_t mmsb_use_address(mmsb_use_t use, mmsb_block_t block, void **address) {
    DOOR_ENTER();
    DOOR_POINTER(address);
    return mmsbgo_use_address(use, block, address);
}

mmsb_status_t mmsb_use_end(mmsb_use_t use) {
    DOOR_ENTER_TO_END();
    return mmsbgo_use_end(use);
}

mmsb_status_t mmsb_use_abort(mmsb_use_t use) {
    DOOR_ENTER_TO_END();
    return mmsbgo_use_abort(use);
}

mmsb_status_t mmsb_use_record(mmsb_stream_t stream, int32_t permissive, mmsb_use_t *use) {
    DOOR_ENTER();
    if (permissive < 0 || permissive > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "permissive is %d, not 0 or 1", permissive);
    DOOR_POINTER(use);
    return mmsbgo_use_record(stream, permissive, use);
}

mmsb_status_t mmsb_use_add(mmsb_use_t use, mmsb_block_t block, int32_t access) {
    DOOR_ENTER();
    return mmsbgo_use_add(use, block, access);
}

mmsb_status_t mmsb_use_begin_recorded(mmsb_use_t use) {
    DOOR_ENTER();
    return mmsbgo_use_begin_recorded(use);
}

/* ----------------------------------------------------------------------------------------------------- telemetry ---- */

mmsb_status_t mmsb_telemetry_list(mmsb_telemetry_t *devices, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(devices, capacity);
    DOOR_POINTER(count);
    return mmsbgo_telemetry_list(devices, capacity, count);
}

mmsb_status_t mmsb_telemetry_paths(int32_t *paths, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(paths, capacity);
    DOOR_POINTER(count);
    return mmsbgo_telemetry_paths(paths, capacity, count);
}
