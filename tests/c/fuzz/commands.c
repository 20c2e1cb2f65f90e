/* Command buffers: commands of random pages, which this thread executes, and calls with bad arguments. */
#include "fuzz.h"

static int has_mask(const page_t *page) {
    for (uint64_t i = 0; i < page->size; i++) {
        if (page->mask[i]) {
            return 1;
        }
    }
    return 0;
}

/* What the command meets when it is executed. */
static mmsb_status_t failure_of(const page_t *page, const page_t *from) {
    if (page->context == from->context && reaches(page, from)) {
        return MMSB_E_INVALID_ARGUMENT;
    }
    return page->read_only ? MMSB_E_INVALID_STATE : page->size != from->size ? MMSB_E_MISMATCH : MMSB_OK;
}

static void execute(mmsb_commands_t commands, mmsb_status_t expected) {
    mmsb_command_failure_t failure;
    uint64_t executed = UNTOUCHED;
    size_t count = UNTOUCHED;
    CALL(mmsb_commands_wait(commands, 0), MMSB_E_WOULD_BLOCK);
    if (chance(50)) {
        CALL(mmsb_commands_wait(commands, MMSB_WAIT_FOREVER), MMSB_OK);
    } else {
        CALL(mmsb_commands_drain(commands, below(2), &executed), MMSB_OK);
        SAME(executed, 1);
    }
    CALL(mmsb_commands_failures(commands, &failure, 1, &count), MMSB_OK);
    SAME(count, expected != MMSB_OK);
    SAME(count == 0 ? MMSB_OK : failure.code, expected);
}

static void one_command(mmsb_commands_t commands) {
    const pick_t target = pick_page(10), from = pick_page(10);
    page_t *page = target.page;
    mmsb_status_t code = target.code;
    if (code == MMSB_OK && page == from.page) {
        code = MMSB_E_INVALID_ARGUMENT;
    } else if (code == MMSB_OK) {
        code = from.code;
    }
    CALL(mmsb_commands_enqueue(commands, target.handle, &from.handle, 1, 0), code);
    if (code != MMSB_OK) {
        return;
    }
    CALL(mmsb_commands_enqueue(commands, target.handle, &from.handle, 1, 0), MMSB_E_WOULD_BLOCK);
    code = failure_of(page, from.page);
    execute(commands, code);
    if (code == MMSB_OK && has_mask(from.page)) {
        mmsb_delta_t delta;
        mmsb_delta_init(&delta);
        delta.kind = MMSB_DELTA_DENSE_BYTES;
        delta.mask = from.page->mask;
        delta.mask_length = page->size;
        delta.payload = from.page->bytes;
        delta_was_applied(page, &delta);
        check_version(page, MOVES);
    }
    check_page(page);
    check_page(from.page);
}

static void bad_calls(mmsb_commands_t commands) {
    mmsb_commands_options_t options;
    mmsb_commands_stats_t stats;
    mmsb_command_failure_t failure;
    mmsb_commands_t created = UNTOUCHED;
    const page_t *page = any_page();
    uint64_t executed;
    size_t count;
    mmsb_commands_options_init(&options);
    options.workers = -1;
    CALL(mmsb_commands_create(&options, &created), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_commands_create(&options, NULL), MMSB_E_INVALID_ARGUMENT);
    options.workers = 1;
    options.persistent = 2 + (int32_t)below(2);
    CALL(mmsb_commands_create(&options, &created), MMSB_E_INVALID_ARGUMENT);
    options.struct_size--;
    CALL(mmsb_commands_create(&options, &created), MMSB_E_STRUCT_VERSION);
    SAME(created, UNTOUCHED);
    if (page != NULL) {
        CALL(mmsb_commands_enqueue(commands, page->handle, NULL, 1, 0), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_commands_enqueue(commands + 1, page->handle, NULL, 0, 0), MMSB_E_INVALID_HANDLE);
    }
    CALL(mmsb_commands_drain(commands, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_commands_drain(0, 0, &executed), MMSB_E_INVALID_HANDLE);
    CALL(mmsb_commands_close(commands, 2, 0), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_commands_failures(commands, &failure, 0, &count), MMSB_E_INVALID_ARGUMENT);
    mmsb_commands_stats_init(&stats);
    CALL(mmsb_commands_stats(commands, &stats), MMSB_OK);
    SAME(stats.enqueued, stats.done + stats.failed);
    stats.reserved[0] = 1;
    CALL(mmsb_commands_stats(commands, &stats), MMSB_E_STRUCT_VERSION);
}

void fuzz_commands(void) {
    mmsb_commands_options_t options;
    mmsb_commands_t commands = 0;
    mmsb_commands_options_init(&options);
    options.workers = 0;
    options.capacity = 1;
    options.persistent = (int32_t)below(2);
    CALL(mmsb_commands_create(&options, &commands), MMSB_OK);
    for (uint64_t i = below(4); i > 0; i--) {
        one_command(commands);
    }
    if (chance(20)) {
        bad_calls(commands);
    }
    if (chance(50)) {
        CALL(mmsb_commands_close(commands, (int32_t)below(2), 0), MMSB_OK);
    }
    CALL(mmsb_commands_destroy(commands), MMSB_OK);
    CALL(mmsb_commands_destroy(commands), MMSB_E_STALE_HANDLE);
    CALL(mmsb_commands_destroy(0), MMSB_OK);
    if (chance(5)) {
        CALL(mmsb_commands_create(NULL, &commands), MMSB_OK);
        CALL(mmsb_commands_destroy(commands), MMSB_OK);
    }
}
