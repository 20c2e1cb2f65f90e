/* Versions, errors, capabilities, the log, and what concerns the whole library. */
#include <stdio.h>
#include <string.h>

#include "door.h"
#include "thread.h"

#include "_cgo_export.h"

const char *mmsb_version(void) {
    return MMSB_VERSION_STRING;
}

uint32_t mmsb_abi_version(void) {
    return MMSB_ABI_VERSION;
}

#ifdef MMSB_GO_OVERLAY
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
    CODE(MMSB_E_NOT_DURABLE, "done, but perhaps not on disk"),
    CODE(MMSB_E_UNSUPPORTED, "not supported here"),
    CODE(MMSB_E_NO_DEVICE, "no such device"),
    CODE(MMSB_E_DEVICE, "the driver failed"),
    CODE(MMSB_E_DEVICE_LOST, "the device is lost"),
    CODE(MMSB_E_FORKED, "called in the child of a process that used the library"),
    CODE(MMSB_E_IO, "system call failed"),
    CODE(MMSB_E_CORRUPT, "corrupt data: checksum or structure is wrong"),
    CODE(MMSB_E_FORMAT, "unknown format, or newer than this library"),
    CODE(MMSB_E_GUARD, "the guard found a write where nobody may write"),
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
    const size_t length = mmsb__text_fits(self->error_text, strlen(self->error_text), sizeof detail->text - 1);
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

#define SIZE(number, type) [MMSB_STRUCT_##number] = sizeof(mmsb_##type##_t)

static const size_t sizes[] = {
    SIZE(ERROR_DETAIL, error_detail),
    SIZE(CAPABILITY, capability),
    SIZE(CONTEXT_OPTIONS, context_options),
    SIZE(CONTEXT_STATS, context_stats),
    SIZE(MEMORY_USAGE, memory_usage),
    SIZE(PAGE_OPTIONS, page_options),
    SIZE(PAGE_INFO, page_info),
    SIZE(PAGE_RANGE, page_range),
    SIZE(ADOPT_OPTIONS, adopt_options),
    SIZE(WORK_OPTIONS, work_options),
    SIZE(RUN, run),
    SIZE(DELTA, delta),
    SIZE(PAGE_RUNS, page_runs),
    SIZE(SAVE_OPTIONS, save_options),
    SIZE(LOAD_OPTIONS, load_options),
    SIZE(SAVE_STATS, save_stats),
    SIZE(SNAPSHOT_INFO, snapshot_info),
    SIZE(SNAPSHOT_PAGE, snapshot_page),
    SIZE(SNAPSHOT_CHANGE, snapshot_change),
    SIZE(JOURNAL_OPTIONS, journal_options),
    SIZE(JOURNAL_INFO, journal_info),
    SIZE(DEVICE_INFO, device_info),
    SIZE(RUNTIME_OPTIONS, runtime_options),
    SIZE(RUNTIME_STATS, runtime_stats),
    SIZE(TAG_STATS, tag_stats),
    SIZE(BLOCK_INFO, block_info),
    SIZE(ACCESS, access),
    SIZE(DEPENDENCY, dependency),
    SIZE(JOURNAL_DIRECTORY, journal_directory),
    SIZE(JOURNAL_SEGMENT, journal_segment),
    SIZE(JOURNAL_RECORD, journal_record),
    SIZE(LINK, link),
    SIZE(TELEMETRY, telemetry),
    SIZE(GUARD_REPORT, guard_report),
    SIZE(STORE_OPTIONS, store_options),
    SIZE(STORE_INFO, store_info),
    SIZE(STORE_POINT, store_point),
    SIZE(DEVICE_MEMORY, device_memory),
    SIZE(SLEEP_OPTIONS, sleep_options),
    SIZE(MEMORY_STAT, memory_stat),
    SIZE(COMMANDS_OPTIONS, commands_options),
    SIZE(COMMANDS_STATS, commands_stats),
    SIZE(COMMAND_FAILURE, command_failure),
    SIZE(COPY, copy),
    SIZE(PROPAGATION, propagation),
    SIZE(DIFFERENCE, difference),
    SIZE(PAGE_COPY, page_copy),
    SIZE(SYNC_STATS, sync_stats),
    SIZE(TENSOR_OPTIONS, tensor_options),
    SIZE(TENSOR_INFO, tensor_info),
    SIZE(PAGE_ADVICE, page_advice),
    SIZE(LOST_PAGE, lost_page),
};

size_t mmsb_sizeof(int32_t structure) {
    return structure >= 0 && (size_t)structure < sizeof sizes / sizeof sizes[0] ? sizes[structure] : 0;
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
