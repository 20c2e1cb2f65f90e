/* Command buffers. */
#include "commands.h"

#include "door.h"

#include "_cgo_export.h"

void mmsb_commands_options_init(mmsb_commands_options_t *options) {
    DOOR_INIT(options);
    options->workers = 1;
    options->capacity = 1024;
}

mmsb_status_t mmsb_commands_create(const mmsb_commands_options_t *options, mmsb_commands_t *commands) {
    DOOR_ENTER();
    DOOR_POINTER(commands);
    mmsb_commands_options_t defaults;
    if (!options) {
        mmsb_commands_options_init(&defaults);
        options = &defaults;
    }
    DOOR_STRUCT("mmsb_commands_options_t", options, options->reserved_word);
    return mmsbgo_commands_create((mmsb_commands_options_t *)options, commands);
}

mmsb_status_t mmsb_commands_destroy(mmsb_commands_t commands) {
    DOOR_ENTER_TO_END();
    if (commands == 0)
        return MMSB_OK;
    return mmsbgo_commands_destroy(commands);
}

DOOR_SLOW mmsb_status_t enqueue_slow(mmsb_commands_t commands, mmsb_page_t page, const mmsb_page_t *dependencies, size_t count,
                                     uint64_t timeout_ns) {
    DOOR_ENTER();
    if (!dependencies && count > 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "dependencies is NULL, but count is %zu", count);
    DOOR_ARRAY(dependencies, count);
    return mmsb__commands_enqueue_slow(commands, page, dependencies, count, timeout_ns);
}

DOOR_QUICK mmsb_status_t mmsb_commands_enqueue(mmsb_commands_t commands, mmsb_page_t page, const mmsb_page_t *dependencies,
                                               size_t count, uint64_t timeout_ns) {
    if (MMSB__LIKELY(mmsb__gate == MMSB_OK && (count == 0 || (dependencies && !mmsb__misaligned(dependencies, 8))) &&
                     mmsb__commands_enqueue_fast(commands, page, dependencies, count)))
        return MMSB_OK;
    return enqueue_slow(commands, page, dependencies, count, timeout_ns);
}

mmsb_status_t mmsb_commands_wait(mmsb_commands_t commands, uint64_t timeout_ns) {
    DOOR_ENTER();
    return mmsb__commands_wait(commands, timeout_ns);
}

mmsb_status_t mmsb_commands_drain(mmsb_commands_t commands, uint64_t limit, uint64_t *executed) {
    DOOR_ENTER();
    DOOR_POINTER(executed);
    return mmsb__commands_drain(commands, limit, executed);
}

mmsb_status_t mmsb_commands_close(mmsb_commands_t commands, int32_t mode, uint64_t timeout_ns) {
    DOOR_ENTER();
    if (mode != MMSB_COMMANDS_COMPLETE && mode != MMSB_COMMANDS_CANCEL)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "mode is %d, not 0 (complete) or 1 (cancel)", mode);
    return mmsb__commands_close(commands, mode == MMSB_COMMANDS_CANCEL, timeout_ns);
}

void mmsb_commands_stats_init(mmsb_commands_stats_t *stats) {
    DOOR_INIT(stats);
}

mmsb_status_t mmsb_commands_stats(mmsb_commands_t commands, mmsb_commands_stats_t *stats) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_commands_stats_t", stats, 0);
    return mmsb__commands_stats(commands, stats);
}

mmsb_status_t mmsb_commands_failures(mmsb_commands_t commands, mmsb_command_failure_t *failures, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_POINTER(count);
    DOOR_ARRAY(failures, capacity);
    if (capacity == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "capacity is 0, at least 1 is needed");
    return mmsb__commands_failures(commands, failures, capacity, count);
}
