/* Versions, errors, capabilities, the log, and what concerns the whole library. */
#include <stdio.h>
#include <string.h>

#include "door.h"
#include "thread.h"

#include "_cgo_export.h"

mmsb_status_t door_bad_pointer(const char *name, const void *pointer, size_t alignment) {
    if (!pointer)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is NULL", name);
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s at %p is not aligned to %zu", name, pointer, alignment);
}

mmsb_status_t door_bad_count(const char *name, uint64_t count, size_t size) {
    return mmsb__fail(MMSB_E_INVALID_SIZE, "%s has %llu items of %zu bytes, more than can be addressed", name,
                      (unsigned long long)count, size);
}

mmsb_status_t door_bad_struct(const char *name, uint32_t struct_size, size_t expected) {
    if (struct_size != expected)
        return mmsb__fail(MMSB_E_STRUCT_VERSION, "struct_size of %s is %u, not %zu; call its _init function first", name,
                          struct_size, expected);
    return mmsb__fail(MMSB_E_STRUCT_VERSION, "reserved word of %s is not 0", name);
}

mmsb_status_t door_path(const char *name, const char *path) {
    DOOR_CHECK(door_pointer(name, path, 1));
    return path[0] ? MMSB_OK : mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is empty", name);
}

const char *mmsb_version(void) {
    return MMSB_VERSION_STRING;
}

uint32_t mmsb_abi_version(void) {
    return MMSB_ABI_VERSION;
}

#if defined(MMSB_GO_OVERLAY) && MMSB_GO_OVERLAY
#define OVERLAY "with"
#else
#define OVERLAY "without"
#endif

const char *mmsb_build_info(void) {
    static char info[256];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (mmsb__gate != MMSB_OK && mmsb__gate_closed() != MMSB_OK) /* Go may not run here */
        return "libmmsb " MMSB_VERSION_STRING;
    pthread_mutex_lock(&lock);
    if (info[0] == 0) {
        char go[32], targets[64];
        mmsbgo_go_version(go, sizeof go);
        mmsbgo_kernel_targets(targets, sizeof targets);
        snprintf(info, sizeof info, "libmmsb %s, ABI %d, C %s, %s, byte loops %s, %s the go overlay, kernels for %s",
                 MMSB_VERSION_STRING, MMSB_ABI_VERSION, __VERSION__, go, mmsb__bytes.name, OVERLAY,
                 targets[0] ? targets : "no CUDA");
    }
    pthread_mutex_unlock(&lock);
    return info;
}

typedef struct code_text {
    mmsb_status_t code;
    const char *text;
} code_text_t;

#define CODE(name, meaning) {name, #name ": " meaning}

static const code_text_t code_texts[] = {
    CODE(MMSB_OK, "done"),
    CODE(MMSB_E_INVALID_ARGUMENT, "invalid argument"),
    CODE(MMSB_E_INVALID_HANDLE, "invalid handle: 0, of another kind, or never issued"),
    CODE(MMSB_E_STALE_HANDLE, "stale handle: the object was destroyed or its context has ended"),
    CODE(MMSB_E_INVALID_SIZE, "invalid size: 0, or larger than the address space"),
    CODE(MMSB_E_OUT_OF_RANGE, "out of range, or the buffer is too small"),
    CODE(MMSB_E_INVALID_STATE, "the object's state does not allow the call"),
    CODE(MMSB_E_STRUCT_VERSION, "struct_size does not match, or a reserved word is not 0"),
    CODE(MMSB_E_MISMATCH, "two arguments contradict each other"),
    CODE(MMSB_E_EPOCH, "the delta's epoch is not larger than the page's"),
    CODE(MMSB_E_NOT_FOUND, "not found"),
    CODE(MMSB_E_ALREADY_EXISTS, "already exists"),
    CODE(MMSB_E_BUSY, "pinned, or in use by an asynchronous operation"),
    CODE(MMSB_E_WOULD_BLOCK, "not finished, and the call may not wait"),
    CODE(MMSB_E_TIMEOUT, "not finished within the timeout"),
    CODE(MMSB_E_CANCELLED, "cancelled"),
    CODE(MMSB_E_OUT_OF_MEMORY, "the system is out of memory or addresses"),
    CODE(MMSB_E_LIMIT, "limit reached: one that the program set, or the end of a counter"),
    CODE(MMSB_E_NO_SPACE, "the disk is full"),
    CODE(MMSB_E_UNSUPPORTED, "not supported here"),
    CODE(MMSB_E_NO_DEVICE, "no such device"),
    CODE(MMSB_E_DEVICE, "the driver failed"),
    CODE(MMSB_E_DEVICE_LOST, "the device is lost"),
    CODE(MMSB_E_FORKED, "called in the child of a process that used the library"),
    CODE(MMSB_E_IO, "system call failed"),
    CODE(MMSB_E_CORRUPT, "corrupt data: checksum or structure is wrong"),
    CODE(MMSB_E_FORMAT, "unknown format, or newer than this library"),
    CODE(MMSB_E_PEER, "another process of the group failed"),
    CODE(MMSB_E_INTERNAL, "internal error of the library"),
    CODE(MMSB_E_POISONED, "earlier internal error stopped the library"),
};

const char *mmsb_strerror(mmsb_status_t code) {
    for (size_t i = 0; i < sizeof code_texts / sizeof code_texts[0]; i++) {
        if (code_texts[i].code == code)
            return code_texts[i].text;
    }
    return "a code that this release does not know";
}

const char *mmsb_last_error(void) {
    return mmsb__error()->error_text;
}

mmsb_status_t mmsb_last_error_code(void) {
    return mmsb__error()->error_code;
}

mmsb_status_t mmsb_last_error_copy(char *buffer, size_t capacity, size_t *length) {
    const char *text = mmsb__error()->error_text;
    size_t needed = strlen(text);
    if (length)
        *length = needed;
    if (!buffer)
        return MMSB_E_INVALID_ARGUMENT;
    if (capacity <= needed)
        return MMSB_E_OUT_OF_RANGE;
    memcpy(buffer, text, needed + 1);
    return MMSB_OK;
}

void mmsb_error_detail_init(mmsb_error_detail_t *detail) {
    DOOR_INIT(detail);
}

mmsb_status_t mmsb_last_error_detail(mmsb_error_detail_t *detail) {
    if (!detail || ((uintptr_t)detail & (__alignof__(*detail) - 1)) != 0)
        return MMSB_E_INVALID_ARGUMENT;
    if (detail->struct_size != sizeof *detail || door_or(detail->reserved, 4) != 0)
        return MMSB_E_STRUCT_VERSION;
    const mmsb__thread_t *self = mmsb__error();
    detail->code = self->error_code;
    detail->domain = self->error_domain;
    detail->foreign_code = self->error_foreign;
    size_t length = strlen(self->error_text);
    if (length >= sizeof detail->text) {
        length = sizeof detail->text - 1;
        while (length > 0 && ((unsigned char)self->error_text[length] & 0xc0) == 0x80)
            length--;
    }
    memcpy(detail->text, self->error_text, length);
    detail->text[length] = 0;
    return MMSB_OK;
}

mmsb_status_t mmsb_capabilities(mmsb_capability_t *records, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(records, capacity);
    DOOR_POINTER(count);
    return mmsbgo_capabilities(records, capacity, count);
}

mmsb_status_t mmsb_log_configure(int32_t level, int32_t descriptor) {
    DOOR_ENTER();
    return mmsbgo_log_configure(level, descriptor);
}

mmsb_status_t mmsb_log_read(char *buffer, size_t capacity, size_t *length, uint64_t *lost) {
    DOOR_ENTER();
    DOOR_BYTE_ARRAY(buffer, capacity);
    DOOR_POINTER(length);
    DOOR_OPTIONAL(lost);
    return mmsbgo_log_read(buffer, capacity, length, lost);
}

mmsb_status_t mmsb_debug_live_objects(int32_t kind, uint64_t *count) {
    DOOR_ENTER_TO_END();
    DOOR_POINTER(count);
    return mmsbgo_live_objects(kind, count);
}

size_t mmsb_sizeof(int32_t structure) {
    switch (structure) {
    case MMSB_STRUCT_ERROR_DETAIL:
        return sizeof(mmsb_error_detail_t);
    case MMSB_STRUCT_CAPABILITY:
        return sizeof(mmsb_capability_t);
    case MMSB_STRUCT_CONTEXT_OPTIONS:
        return sizeof(mmsb_context_options_t);
    case MMSB_STRUCT_CONTEXT_STATS:
        return sizeof(mmsb_context_stats_t);
    case MMSB_STRUCT_MEMORY_USAGE:
        return sizeof(mmsb_memory_usage_t);
    case MMSB_STRUCT_PAGE_OPTIONS:
        return sizeof(mmsb_page_options_t);
    case MMSB_STRUCT_PAGE_INFO:
        return sizeof(mmsb_page_info_t);
    case MMSB_STRUCT_PAGE_RANGE:
        return sizeof(mmsb_page_range_t);
    case MMSB_STRUCT_ADOPT_OPTIONS:
        return sizeof(mmsb_adopt_options_t);
    case MMSB_STRUCT_WORK_OPTIONS:
        return sizeof(mmsb_work_options_t);
    case MMSB_STRUCT_RUN:
        return sizeof(mmsb_run_t);
    case MMSB_STRUCT_DELTA:
        return sizeof(mmsb_delta_t);
    case MMSB_STRUCT_PAGE_RUNS:
        return sizeof(mmsb_page_runs_t);
    case MMSB_STRUCT_SAVE_OPTIONS:
        return sizeof(mmsb_save_options_t);
    case MMSB_STRUCT_LOAD_OPTIONS:
        return sizeof(mmsb_load_options_t);
    case MMSB_STRUCT_SAVE_STATS:
        return sizeof(mmsb_save_stats_t);
    case MMSB_STRUCT_SNAPSHOT_INFO:
        return sizeof(mmsb_snapshot_info_t);
    case MMSB_STRUCT_SNAPSHOT_PAGE:
        return sizeof(mmsb_snapshot_page_t);
    case MMSB_STRUCT_SNAPSHOT_CHANGE:
        return sizeof(mmsb_snapshot_change_t);
    case MMSB_STRUCT_JOURNAL_OPTIONS:
        return sizeof(mmsb_journal_options_t);
    case MMSB_STRUCT_JOURNAL_INFO:
        return sizeof(mmsb_journal_info_t);
    case MMSB_STRUCT_DEVICE_INFO:
        return sizeof(mmsb_device_info_t);
    case MMSB_STRUCT_RUNTIME_OPTIONS:
        return sizeof(mmsb_runtime_options_t);
    case MMSB_STRUCT_RUNTIME_STATS:
        return sizeof(mmsb_runtime_stats_t);
    case MMSB_STRUCT_TAG_STATS:
        return sizeof(mmsb_tag_stats_t);
    case MMSB_STRUCT_BLOCK_INFO:
        return sizeof(mmsb_block_info_t);
    case MMSB_STRUCT_ACCESS:
        return sizeof(mmsb_access_t);
    default:
        return 0;
    }
}

mmsb_status_t mmsb_shutdown(void) {
    DOOR_ENTER_TO_END();
    return mmsbgo_shutdown();
}

void mmsb_memory_usage_init(mmsb_memory_usage_t *usage) {
    DOOR_INIT(usage);
}

mmsb_status_t mmsb_memory_usage(mmsb_memory_usage_t *usage) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_memory_usage_t", usage, usage->reserved_word);
    return mmsbgo_memory_usage(usage);
}
