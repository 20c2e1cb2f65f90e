/*
 * A runtime on a simulated device. It lives for one operation, with a few streams, blocks and uses, and a model of what it has.
 */
#include "fuzz.h"
#include "../tensor.h"

#include <fcntl.h>

enum { STREAMS = 3, BLOCKS = 6, USES = 2, BUDGET = 1 << 20 };

static struct {
    mmsb_runtime_t runtime;
    mmsb_stream_t streams[STREAMS];
    struct {
        mmsb_block_t handle; /* 0 = none */
        uint8_t *address;
        uint64_t size;
        uint8_t filled;
        int uses;
    } blocks[BLOCKS];
    struct {
        mmsb_use_t handle;
        mmsb_block_t of;
        int block, begun;
    } uses[USES];
    uint64_t live, ended_blocks; /* bytes; handles that are stale: the last one */
    mmsb_stream_t ended_stream;
    mmsb_use_t ended_use;
    int budgeted, logged, pooled, guarded;
    int parted; /* its pool can have partitions */
} device;

/* A handle that is none of this kind any more or never was. */
static pick_t no_handle(int kind, uint64_t ended) {
    switch (below(4)) {
    case 0:
        return (pick_t){0, NULL, MMSB_E_INVALID_HANDLE};
    case 1:
        return (pick_t){contexts[0].handle, NULL, MMSB_E_INVALID_HANDLE};
    case 2:
        return (pick_t){(uint64_t)kind << 60 | 1ULL << 59 | below(1000), NULL, MMSB_E_INVALID_HANDLE};
    default:
        return (pick_t){ended, NULL, ended != 0 ? MMSB_E_STALE_HANDLE : MMSB_E_INVALID_HANDLE};
    }
}

static mmsb_stream_t any_stream(void) {
    return device.streams[below(STREAMS)];
}

static void device_allocate(void) {
    int slot = (int)below(BLOCKS);
    uint64_t size = chance(80) ? 1 + below(200000) : below(2) * (2 * BUDGET);
    mmsb_block_t block = UNTOUCHED;
    void *address = NULL;
    if (chance(15)) {
        pick_t bad = no_handle(MMSB_KIND_STREAM, device.ended_stream);
        CALL(mmsb_block_allocate(bad.handle, 64, 0, 0, &block, &address), bad.code);
        bad = no_handle(MMSB_KIND_RESERVATION, 0);
        CALL(mmsb_block_allocate(any_stream(), 64, 0, bad.handle, &block, &address), bad.handle == 0 ? MMSB_OK : bad.code);
        if (bad.handle == 0) {
            CALL(mmsb_block_free(block, 0, NULL), MMSB_OK);
            device.ended_blocks = block;
        }
        CALL(mmsb_block_allocate(any_stream(), 64, 0, 0, NULL, &address), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    if (device.blocks[slot].handle != 0) {
        return;
    }
    mmsb_status_t code = size == 0 ? MMSB_E_INVALID_SIZE : MMSB_OK;
    if (device.budgeted && size > BUDGET - device.live) {
        code = MMSB_E_LIMIT;
    }
    if (CALL(mmsb_block_allocate(any_stream(), size, 0, 0, &block, &address), code) == MMSB_OK) {
        SAME((uintptr_t)address % 256, 0);
        device.blocks[slot].handle = block;
        device.blocks[slot].address = address;
        device.blocks[slot].size = size;
        device.blocks[slot].filled = (uint8_t)below(256);
        device.live += size;
        CALL(mmsb_stream_wait(any_stream(), MMSB_WAIT_FOREVER), MMSB_OK);
        mmsb_use_t use;
        mmsb_access_t access = {block, MMSB_ACCESS_WRITE, 0};
        mmsb_stream_t stream = any_stream();
        void *there = NULL;
        CALL(mmsb_use_begin(stream, &access, 1, &use, NULL), MMSB_OK);
        CALL(mmsb_use_address(use, block, &there), MMSB_OK);
        SAME((uintptr_t)there, (uintptr_t)address);
        CALL(mmsb_use_address(use, block + 1, &there), MMSB_E_NOT_FOUND);
        CALL(mmsb_stream_fill(stream, address, device.blocks[slot].filled, size), MMSB_OK);
        CALL(mmsb_use_end(use), MMSB_OK);
        device.ended_use = use;
    } else {
        SAME(block, UNTOUCHED);
    }
}

static void device_free(void) {
    int slot = (int)below(BLOCKS);
    int32_t deferred = -1;
    if (device.blocks[slot].handle == 0 || chance(15)) {
        pick_t bad = no_handle(MMSB_KIND_BLOCK, device.ended_blocks);
        CALL(mmsb_block_free(bad.handle, 0, NULL), bad.handle == 0 ? MMSB_OK : bad.code);
        return;
    }
    if (chance(10)) {
        pick_t bad = no_handle(MMSB_KIND_STREAM, device.ended_stream);
        if (bad.handle != 0) {
            CALL(mmsb_block_free(device.blocks[slot].handle, bad.handle, NULL), bad.code);
            return;
        }
    }
    if (device.blocks[slot].uses > 0) {
        return; /* the uses come first here: tests/c/device_test.c has the frees that wait for them */
    }
    CALL(mmsb_block_free(device.blocks[slot].handle, chance(50) ? 0 : any_stream(), &deferred), MMSB_OK);
    SAME(deferred, 0);
    device.ended_blocks = device.blocks[slot].handle;
    device.live -= device.blocks[slot].size;
    device.blocks[slot].handle = 0;
}

static void device_look(void) {
    int slot = (int)below(BLOCKS);
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    if (device.blocks[slot].handle == 0) {
        pick_t bad = no_handle(MMSB_KIND_BLOCK, device.ended_blocks);
        CALL(mmsb_block_info(bad.handle, &info), bad.code);
        return;
    }
    CALL(mmsb_block_info(device.blocks[slot].handle, &info), MMSB_OK);
    SAME(info.address == device.blocks[slot].address && info.bytes == device.blocks[slot].size, 1);
    SAME(info.uses, (uint32_t)device.blocks[slot].uses);
    mmsb_block_t found = UNTOUCHED;
    uint64_t offset = UNTOUCHED, at = below(device.blocks[slot].size);
    CALL(mmsb_block_at(device.runtime, (uint8_t *)device.blocks[slot].address + at, &found, chance(50) ? NULL : &offset),
         MMSB_OK);
    SAME(found == device.blocks[slot].handle && (offset == at || offset == UNTOUCHED), 1);
    CALL(mmsb_block_at(device.runtime, &found, &found, NULL), MMSB_E_NOT_FOUND);
    CALL(mmsb_page_block(found, &found), MMSB_E_INVALID_HANDLE);
    int32_t ordinal = -1;
    CALL(chance(50) ? mmsb_stream_device(any_stream(), &ordinal) : mmsb_runtime_device(device.runtime, &ordinal), MMSB_OK);
    SAME(ordinal, 0);
    info.struct_size = 3;
    CALL(mmsb_block_info(device.blocks[slot].handle, &info), MMSB_E_STRUCT_VERSION);
    void *native = (void *)(uintptr_t)MMSB_BLOCK_STREAM, *tensor = NULL;
    if (chance(50)) {
        CALL(mmsb_stream_native(any_stream(), &native), MMSB_OK);
    }
    CALL(mmsb_block_export_tensor(device.blocks[slot].handle, native, NULL, &tensor), MMSB_OK);
    SAME(((dl_versioned_t *)tensor)->tensor.data == device.blocks[slot].address, 1);
    ((dl_versioned_t *)tensor)->deleter(tensor);
    CALL(mmsb_block_export_tensor(found, native, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    if (device.blocks[slot].uses > 0) {
        return;
    }
    static uint8_t bytes[2 * BUDGET];
    mmsb_stream_t stream = any_stream();
    mmsb_use_t use;
    mmsb_access_t access = {device.blocks[slot].handle, MMSB_ACCESS_READ, 0};
    CALL(mmsb_use_begin(stream, &access, 1, &use, NULL), MMSB_OK);
    CALL(mmsb_stream_copy(stream, bytes, device.blocks[slot].address, device.blocks[slot].size), MMSB_OK);
    CALL(mmsb_use_end(use), MMSB_OK);
    CALL(mmsb_stream_wait(stream, chance(50) ? MMSB_WAIT_FOREVER : UINT64_C(1000000000)), MMSB_OK);
    SAME(bytes[0], device.blocks[slot].filled);
    SAME(bytes[device.blocks[slot].size - 1], device.blocks[slot].filled);
    device.ended_use = use;
}

static void device_use(void) {
    int at = (int)below(USES), slot = (int)below(BLOCKS);
    size_t bad_index = UNTOUCHED;
    if (device.uses[at].handle != 0) {
        mmsb_use_t use = device.uses[at].handle;
        if (!device.uses[at].begun && chance(50)) {
            CALL(mmsb_use_end(use), MMSB_E_INVALID_STATE);
            if (device.blocks[device.uses[at].block].handle != device.uses[at].of) {
                CALL(mmsb_use_begin_recorded(use), MMSB_E_STALE_HANDLE);
                return;
            }
            CALL(mmsb_use_begin_recorded(use), MMSB_OK);
            device.uses[at].begun = 1;
            device.blocks[device.uses[at].block].uses++;
            CALL(mmsb_use_begin_recorded(use), MMSB_E_INVALID_STATE);
            return;
        }
        if (device.uses[at].begun && chance(50)) {
            CALL(mmsb_use_end(use), MMSB_OK);
        } else {
            CALL(mmsb_use_abort(use), MMSB_OK);
        }
        CALL(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
        device.blocks[device.uses[at].block].uses -= device.uses[at].begun;
        device.ended_use = use;
        device.uses[at].handle = 0;
        return;
    }
    mmsb_use_t use = UNTOUCHED;
    if (device.blocks[slot].handle == 0) {
        pick_t bad = no_handle(MMSB_KIND_BLOCK, device.ended_blocks);
        mmsb_access_t access = {bad.handle, MMSB_ACCESS_READ, 0};
        CALL(mmsb_use_begin(any_stream(), &access, 1, &use, &bad_index), bad.code);
        SAME(bad_index, 0);
        bad = no_handle(MMSB_KIND_USE, device.ended_use);
        CALL(chance(50) ? mmsb_use_end(bad.handle) : mmsb_use_abort(bad.handle), bad.code);
        CALL(mmsb_use_add(bad.handle, 0, MMSB_ACCESS_READ), bad.code);
        CALL(mmsb_use_record(any_stream(), 2, &use), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    /* Reads only: of one block there may be several, on any streams. */
    mmsb_access_t access = {device.blocks[slot].handle, chance(85) ? MMSB_ACCESS_READ : MMSB_ACCESS_READ_WRITE + 1, 0};
    mmsb_status_t code = access.access == MMSB_ACCESS_READ ? MMSB_OK : MMSB_E_INVALID_ARGUMENT;
    if (chance(50)) {
        CALL(mmsb_use_begin(any_stream(), &access, 1, &use, NULL), code);
        device.uses[at].begun = 1;
    } else {
        CALL(mmsb_use_record(any_stream(), 1, &use), MMSB_OK);
        CALL(mmsb_use_add(use, 0, MMSB_ACCESS_WRITE), MMSB_OK);
        if (CALL(mmsb_use_add(use, access.block, access.access), code) != MMSB_OK) {
            CALL(mmsb_use_abort(use), MMSB_OK);
        }
        device.uses[at].begun = 0;
    }
    if (code == MMSB_OK) {
        device.uses[at].handle = use;
        device.uses[at].of = device.blocks[slot].handle;
        device.uses[at].block = slot;
        device.blocks[slot].uses += device.uses[at].begun;
    }
}

static void device_stream(void) {
    mmsb_stream_t stream = any_stream(), other = UNTOUCHED;
    pick_t bad = no_handle(MMSB_KIND_STREAM, device.ended_stream);
    void *native = NULL;
    uint8_t byte = 0;
    switch (below(7)) {
    case 0:
        CALL(mmsb_stream_native(stream, &native), MMSB_OK);
        SAME(native != NULL, 1);
        CALL(mmsb_stream_native(bad.handle, &native), bad.code);
        break;
    case 1: {
        mmsb_ticket_t ticket;
        CALL(mmsb_stream_record(stream, &ticket), MMSB_OK);
        CALL(mmsb_stream_after(any_stream(), ticket), MMSB_OK);
        CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
        CALL(mmsb_ticket_destroy(ticket), MMSB_OK);
        CALL(mmsb_stream_after(stream, ticket), MMSB_E_STALE_HANDLE);
        CALL(mmsb_stream_native(any_stream(), &native), MMSB_OK);
        CALL(mmsb_stream_after_native(stream, below(2) ? native : NULL), MMSB_OK);
        CALL(mmsb_stream_after_native(bad.handle, native), bad.code);
        CALL(mmsb_stream_record(stream, NULL), MMSB_E_INVALID_ARGUMENT);
        break;
    }
    case 2:
        CALL(mmsb_stream_wrap(device.runtime, NULL, &other), MMSB_OK);
        CALL(mmsb_stream_wrap(device.runtime, NULL, &other), MMSB_E_ALREADY_EXISTS);
        CALL(mmsb_stream_destroy(other), MMSB_OK);
        CALL(mmsb_stream_destroy(other), MMSB_E_STALE_HANDLE);
        break;
    case 3:
        CALL(mmsb_stream_create(device.runtime, 7, &other), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_stream_create(device.runtime, chance(50) ? 0 : -1, &other), MMSB_E_LIMIT);
        CALL(mmsb_stream_destroy(bad.handle), bad.handle == 0 ? MMSB_OK : bad.code);
        break;
    case 4: {
        int at = (int)below(STREAMS);
        CALL(mmsb_stream_destroy(device.streams[at]), MMSB_OK);
        device.ended_stream = device.streams[at];
        CALL(mmsb_stream_create(device.runtime, 0, &device.streams[at]), MMSB_OK);
        break;
    }
    case 5:
        CALL(mmsb_stream_copy(stream, NULL, &byte, 1), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_stream_copy(stream, &byte, &byte, UINT64_MAX), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_stream_fill(stream, &byte, 1, 1), MMSB_E_INVALID_ARGUMENT); /* memory of the host */
        CALL(mmsb_stream_fill(stream, NULL, 1, 1), MMSB_E_INVALID_ARGUMENT);
        break;
    default:
        CALL(mmsb_stream_wait(bad.handle, 0), bad.code);
        CALL(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER), MMSB_OK);
        CALL(mmsb_stream_wait(stream, 0), MMSB_OK);
    }
}

static void device_runtime(void) {
    pick_t bad = no_handle(MMSB_KIND_RUNTIME, 0);
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    uint64_t left = UNTOUCHED;
    switch (below(5)) {
    case 0:
        CALL(mmsb_runtime_stats(device.runtime, &stats), MMSB_OK);
        SAME(stats.live, device.live);
        SAME(stats.outstanding, stats.live + stats.pending);
        SAME(stats.streams, STREAMS);
        SAME(device.budgeted ? stats.budget : stats.budget + BUDGET, BUDGET);
        SAME(stats.pool_held >= (device.pooled ? stats.live : 0) && stats.pool_reserved >= stats.pool_held, 1);
        CALL(mmsb_runtime_stats(bad.handle, &stats), bad.code);
        stats.reserved[0] = 1;
        CALL(mmsb_runtime_stats(device.runtime, &stats), MMSB_E_STRUCT_VERSION);
        break;
    case 1:
        CALL(mmsb_runtime_reap(device.runtime), MMSB_OK);
        CALL(mmsb_runtime_trim(device.runtime, below(1 << 20)), MMSB_OK);
        CALL(mmsb_runtime_reap(bad.handle), bad.code);
        CALL(mmsb_runtime_trim(bad.handle, 0), bad.code);
        break;
    case 2: {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        CALL(mmsb_runtime_log_write(device.runtime, null), device.logged ? MMSB_OK : MMSB_E_INVALID_STATE);
        CALL(mmsb_runtime_snapshot_write(device.runtime, null, (int32_t)below(3)), MMSB_OK);
        CALL(mmsb_runtime_snapshot_write(device.runtime, null, 3), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_runtime_snapshot_write(bad.handle, null, 0), bad.code);
        close(null);
        size_t count = 0;
        mmsb_memory_stat_t stats_of_memory[128];
        CALL(mmsb_runtime_memory_stats(device.runtime, stats_of_memory, 128, &count), MMSB_OK);
        for (size_t i = 0; i < count; i++)
            if (strcmp(stats_of_memory[i].name, "allocated_bytes.all.current") == 0)
                SAME(stats_of_memory[i].value >= device.live, 1);
        break;
    }
    case 3: {
        mmsb_tag_t tag, again;
        mmsb_tag_stats_t of;
        CALL(mmsb_tag_of("fuzz", &tag), MMSB_OK);
        CALL(mmsb_tag_of("fuzz", &again), MMSB_OK);
        SAME(tag, again);
        CALL(mmsb_tag_of("\xFF\xFE", &tag), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_tag_of(NULL, &tag), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_runtime_tag_stats(device.runtime, 0, &of), MMSB_OK);
        SAME(of.live >= device.live, 1);
        CALL(mmsb_runtime_tag_stats(device.runtime, 1 << 30, &of), MMSB_E_INVALID_ARGUMENT);
        break;
    }
    default: {
        mmsb_reservation_t reservation = UNTOUCHED;
        uint64_t bytes = 1 + below(1000);
        mmsb_status_t code = !device.budgeted ? MMSB_E_INVALID_STATE : bytes > BUDGET - device.live ? MMSB_E_LIMIT : MMSB_OK;
        if (CALL(mmsb_reservation_create(device.runtime, bytes, &reservation), code) == MMSB_OK) {
            CALL(mmsb_reservation_destroy(reservation, &left), MMSB_OK);
            SAME(left, bytes);
            CALL(mmsb_reservation_destroy(reservation, &left), MMSB_E_STALE_HANDLE);
        }
        CALL(mmsb_reservation_destroy(0, NULL), MMSB_OK);
    }
    }
}

static void device_sleep(void) {
    mmsb_tag_t tags[2];
    void *address = NULL;
    mmsb_block_t block = UNTOUCHED;
    mmsb_sleep_options_t how;
    mmsb_sleep_options_init(&how);
    CALL(mmsb_tag_of("sleeper", &tags[0]), MMSB_OK);
    CALL(mmsb_tag_of("never declared", &tags[1]), MMSB_OK);
    CALL(mmsb_pool_partition(device.runtime, tags[0]), device.parted ? MMSB_OK : MMSB_E_UNSUPPORTED);
    if (!device.parted || device.guarded) {
        CALL(mmsb_pool_sleep(device.runtime, tags, 1, NULL), MMSB_E_UNSUPPORTED);
        CALL(mmsb_pool_wake(device.runtime, tags, 1), MMSB_E_UNSUPPORTED);
        return;
    }
    if (device.budgeted && device.live > BUDGET / 2) {
        return;
    }
    uint64_t size = 1 + below(BUDGET / 2);
    uint8_t value = (uint8_t)below(256), found = (uint8_t)~value;
    mmsb_stream_t stream = any_stream();
    CALL(mmsb_block_allocate(stream, size, tags[0], 0, &block, &address), MMSB_OK);
    mmsb_access_t access = {block, MMSB_ACCESS_READ_WRITE, 0};
    mmsb_use_t use = UNTOUCHED;
    CALL(mmsb_use_begin(stream, &access, 1, &use, NULL), MMSB_OK);
    CALL(mmsb_stream_fill(stream, address, value, size), MMSB_OK);
    CALL(mmsb_pool_sleep(device.runtime, tags, 1, NULL), MMSB_E_BUSY);
    CALL(mmsb_use_end(use), MMSB_OK);
    how.mode = MMSB_SLEEP_DROP + (int32_t)below(3);
    how.folder = how.mode == MMSB_SLEEP_FILE ? "/tmp" : NULL;
    CALL(mmsb_pool_sleep(device.runtime, tags, 2, &how), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_pool_wake(device.runtime, tags, 1), MMSB_E_INVALID_STATE);
    CALL(mmsb_pool_sleep(device.runtime, tags, 1, &how), MMSB_OK);
    CALL(mmsb_pool_sleep(device.runtime, tags, 1, &how), MMSB_E_INVALID_STATE);
    CALL(mmsb_use_begin(stream, &access, 1, &use, NULL), MMSB_E_INVALID_STATE);
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    CALL(mmsb_block_info(block, &info), MMSB_OK);
    SAME(info.asleep == 1 && info.address == address, 1);
    int freed = chance(30);
    if (freed) {
        CALL(mmsb_block_free(block, 0, NULL), MMSB_OK);
    }
    CALL(mmsb_pool_wake(device.runtime, tags, 1), MMSB_OK);
    if (!freed) {
        CALL(mmsb_use_begin(stream, &access, 1, &use, NULL), MMSB_OK);
        CALL(mmsb_stream_copy(stream, &found, (uint8_t *)address + below(size), 1), MMSB_OK);
        CALL(mmsb_use_end(use), MMSB_OK);
        CALL(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER), MMSB_OK);
        SAME(how.mode == MMSB_SLEEP_DROP ? value : found, value);
        CALL(mmsb_block_free(block, 0, NULL), MMSB_OK);
    }
    device.ended_use = use;
    device.ended_blocks = block;
}

static void device_capture(void) {
    mmsb_capture_t capture = UNTOUCHED;
    mmsb_stream_t stream = any_stream();
    mmsb_stream_t streams[] = {stream, stream};
    CALL(mmsb_capture_begin(streams, 0, &capture), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_capture_begin(streams, 2, &capture), device.parted ? MMSB_E_INVALID_ARGUMENT : MMSB_E_UNSUPPORTED);
    CALL(mmsb_capture_begin(NULL, 1, &capture), MMSB_E_INVALID_ARGUMENT);
    if (CALL(mmsb_capture_begin(streams, 1, &capture), device.parted ? MMSB_OK : MMSB_E_UNSUPPORTED) != MMSB_OK) {
        SAME(capture, UNTOUCHED);
        return;
    }
    void *address = NULL;
    mmsb_block_t block = UNTOUCHED;
    uint64_t size = 1 + below(1000);
    int twice = !device.guarded && (!device.budgeted || device.live + size <= BUDGET);
    for (int i = 0; i < 2 * twice; i++) {
        CALL(mmsb_block_allocate(stream, size, 0, 0, &block, &address), MMSB_OK);
        CALL(mmsb_block_free(block, 0, NULL), MMSB_OK);
        device.ended_blocks = block;
        if (device.budgeted) { /* what was freed in it is pending until its end */
            break;
        }
    }
    CALL(mmsb_capture_resume(capture, streams, 1), MMSB_E_INVALID_STATE);
    CALL(mmsb_stream_wait(stream, 0), MMSB_E_INVALID_STATE);
    CALL(mmsb_stream_destroy(stream), MMSB_E_INVALID_STATE);
    CALL(mmsb_capture_end(capture), MMSB_OK);
    CALL(mmsb_capture_end(capture), MMSB_E_INVALID_STATE);
    if (chance(50)) {
        CALL(mmsb_capture_resume(capture, streams, 1), MMSB_OK);
    }
    CALL(mmsb_capture_destroy(capture), MMSB_OK);
    CALL(mmsb_capture_destroy(capture), MMSB_E_STALE_HANDLE);
    CALL(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER), MMSB_OK);
}

/* What other libraries do, by address. */
static void device_plugin(void) {
    mmsb_stream_t stream = any_stream();
    void *native = NULL, *other = NULL, *address = NULL;
    size_t bytes = UNTOUCHED;
    uint64_t size = 1 + below(200000);
    mmsb_status_t code = device.budgeted && size > BUDGET - device.live ? MMSB_E_LIMIT : MMSB_OK;
    CALL(mmsb_stream_native(stream, &native), MMSB_OK);
    CALL(mmsb_stream_native(any_stream(), &other), MMSB_OK);
    if (chance(15)) {
        pick_t bad = no_handle(MMSB_KIND_RUNTIME, 0);
        CALL(mmsb_plugin_allocate(bad.handle, size, native, MMSB_PLUGIN_ORDERED, &address), bad.code);
        CALL(mmsb_plugin_allocate(device.runtime, 0, native, MMSB_PLUGIN_SEGMENT, &address), MMSB_E_INVALID_SIZE);
        CALL(mmsb_plugin_allocate(device.runtime, size, native, 2, &address), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_plugin_bind(0, bad.handle), bad.handle == 0 ? MMSB_OK : bad.code);
        CALL(mmsb_plugin_record(&native, native), MMSB_E_NOT_FOUND);
        CALL(mmsb_plugin_free(&native, native), MMSB_E_NOT_FOUND);
        mmsb_torch_free(&native, size, 0, native);
        return;
    }
    int32_t kind = chance(70) ? MMSB_PLUGIN_ORDERED : MMSB_PLUGIN_SEGMENT;
    if (CALL(mmsb_plugin_allocate(device.runtime, size, native, kind, &address), code) == MMSB_OK) {
        SAME((uintptr_t)address % 256, 0);
        CALL(mmsb_stream_fill(stream, address, 1, size), MMSB_OK);
        CALL(mmsb_plugin_record(address, other), MMSB_OK);
        CALL(mmsb_plugin_free(address, native), MMSB_OK);
        CALL(mmsb_plugin_free(address, native), MMSB_E_NOT_FOUND);
    }
    CALL(mmsb_plugin_bind(0, device.runtime), MMSB_OK);
    mmsb_torch_memory_fraction(1, 0);
    address = chance(70) ? mmsb_torch_allocate(size, 0, native) : mmsb_torch_allocate_segment(size, 0, native);
    SAME(address != NULL, code == MMSB_OK);
    mmsb_torch_record_stream(address, other);
    SAME(mmsb_torch_base(address, &bytes) == address && bytes == (address != NULL ? size : 0), 1);
    mmsb_torch_free(address, size, 0, native);
    address = mmsb_cupy_malloc(chance(50) ? (void *)(uintptr_t)device.runtime : NULL, size, 0);
    SAME(address != NULL, code == MMSB_OK);
    mmsb_cupy_free(NULL, address, 0);
    mmsb_torch_empty_cache();
    CALL(mmsb_plugin_bind(0, 0), MMSB_OK);
}

void fuzz_device(void) {
    static void (*const steps[])(void) = {device_allocate, device_allocate, device_free,   device_look,
                                          device_use,      device_use,      device_stream, device_runtime,
                                          device_sleep,    device_capture,  device_plugin};
    mmsb_context_t context = contexts[any_context()].handle;
    mmsb_device_info_t devices[2];
    size_t count = UNTOUCHED;
    memset(&device, 0, sizeof device);
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    static const char *const pools[] = {"",
                                        "roundup_power2_divisions:4,large_segment_size_mb:2,slack:0.5",
                                        "source:plain",
                                        "source:ordered,large_segment_size_mb:2",
                                        "source:managed",
                                        "slabs:true"};
    mmsb_device_memory_t memory;
    mmsb_device_memory_init(&memory);
    if (chance(20)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_device_list(bad.handle, devices, 2, &count), bad.code);
        CALL(mmsb_runtime_shared(bad.handle, 0, &device.runtime), bad.code);
        CALL(mmsb_runtime_create(bad.handle, 0, NULL, &device.runtime), bad.code);
        CALL(mmsb_runtime_create(context, no_device(), NULL, &device.runtime), MMSB_E_NO_DEVICE);
        CALL(mmsb_runtime_shared(context, no_device(), &device.runtime), MMSB_E_NO_DEVICE);
        CALL(mmsb_device_budget(bad.handle, 0, 1), bad.code);
        CALL(mmsb_device_budget(context, no_device(), 1), MMSB_E_NO_DEVICE);
        CALL(mmsb_device_memory(context, no_device(), &memory), MMSB_E_NO_DEVICE);
        memory.struct_size++;
        CALL(mmsb_device_memory(context, 0, &memory), MMSB_E_STRUCT_VERSION);
        options.streams = 0;
        CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_E_INVALID_ARGUMENT);
        options.streams = 1;
        options.pool = chance(50) ? "speed:1" : "roundup_power2_divisions:[1:2";
        CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_E_INVALID_ARGUMENT);
        options.pool = NULL;
        options.ledger = "";
        CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_E_INVALID_ARGUMENT);
        options.reserved[1] = 1;
        CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_E_STRUCT_VERSION);
        CALL(mmsb_runtime_destroy(0), MMSB_OK);
        return;
    }
    CALL(mmsb_device_list(context, devices, 2, &count), MMSB_OK);
    SAME(count == 1 && devices[0].simulated == 1 && devices[0].ordinal == 0, 1);
    mmsb_runtime_t shared, again;
    CALL(mmsb_runtime_shared(context, 0, &shared), MMSB_OK);
    CALL(mmsb_runtime_shared(context, 0, &again), MMSB_OK);
    SAME(shared, again);
    CALL(mmsb_runtime_destroy(shared), MMSB_E_INVALID_STATE);
    options.streams = STREAMS;
    device.budgeted = chance(50);
    device.logged = chance(50);
    options.budget = device.budgeted ? BUDGET : 0;
    options.log_events = device.logged ? 1 + below(100) : 0;
    device.guarded = chance(30);
    options.guard_every = device.guarded ? 1 + below(3) : 0;
    if (chance(50)) {
        options.memory_wait_ns = chance(50) ? 0 : MMSB_WAIT_FOREVER; /* for nothing that never comes */
    }
    device.pooled = chance(50);
    options.pool = !device.pooled ? NULL : pools[below(sizeof pools / sizeof pools[0])];
    device.parted = device.pooled && strncmp(options.pool, "source:", 7) != 0;
    CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_OK);
    uint64_t most = chance(50) ? 0 : UINT64_MAX - below(1000); /* which admits everything */
    CALL(mmsb_device_budget(context, 0, most), MMSB_OK);
    for (int i = 0; i < STREAMS; i++) {
        CALL(mmsb_stream_create(device.runtime, 0, &device.streams[i]), MMSB_OK);
    }
    for (uint64_t i = 20 + below(40); i > 0; i--) {
        steps[below(sizeof steps / sizeof steps[0])]();
    }
    CALL(mmsb_device_memory(context, 0, &memory), MMSB_OK);
    SAME(memory.budget, most == UINT64_MAX ? 0 : most);
    SAME(memory.runtimes >= 2 && memory.charged >= device.live && memory.charged_peak >= memory.charged, 1);
    CALL(mmsb_runtime_destroy(device.runtime), MMSB_OK);
    CALL(mmsb_runtime_reap(device.runtime), MMSB_E_STALE_HANDLE);
    CALL(mmsb_stream_wait(any_stream(), 0), MMSB_E_STALE_HANDLE);
    for (int i = 0; i < BLOCKS; i++) {
        if (device.blocks[i].handle != 0) {
            CALL(mmsb_block_free(device.blocks[i].handle, 0, NULL), MMSB_E_STALE_HANDLE);
        }
    }
}
