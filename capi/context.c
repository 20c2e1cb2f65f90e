/* Contexts, and work that takes time. */
#include <stdlib.h>
#include <string.h>

#include "door.h"

#include "_cgo_export.h"

/* -1 for a value that is none of them: creating the context reports it. */
static int32_t simulate_by_environment(void) {
    const char *value = getenv("MMSB_SIMULATE");
    if (!value || value[0] == 0 || strcmp(value, "off") == 0)
        return MMSB_SIMULATE_OFF;
    if (strcmp(value, "if-no-gpu") == 0)
        return MMSB_SIMULATE_IF_NO_GPU;
    return strcmp(value, "always") == 0 ? MMSB_SIMULATE_ALWAYS : -1;
}

void mmsb_context_options_init(mmsb_context_options_t *options) {
    DOOR_INIT(options);
    options->default_location = MMSB_LOCATION_CPU;
    options->simulate = simulate_by_environment();
    options->simulated_devices = 1;
    options->fallback = MMSB_FALLBACK_ERROR;
    options->simulated_memory = UINT64_C(1) << 30;
    options->huge_pages = 1;
}

mmsb_status_t mmsb_context_options_parse(mmsb_context_options_t *options, const char *text) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_context_options_t", options, options->reserved_word);
    DOOR_BYTES(text);
    return mmsbgo_context_options_parse(options, (char *)text, strlen(text));
}

mmsb_status_t door_context_options(const mmsb_context_options_t **given, mmsb_context_options_t *defaults) {
    if (!*given) {
        mmsb_context_options_init(defaults);
        *given = defaults;
    }
    const mmsb_context_options_t *options = *given;
    DOOR_STRUCT("mmsb_context_options_t", options, options->reserved_word);
    if (options->huge_pages < 0 || options->huge_pages > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "huge_pages is %d, not 0 or 1", options->huge_pages);
    if (options->disk_path && options->disk_path[0] == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "disk_path is empty");
    if (options->disk_path && !mmsb__utf8_valid(options->disk_path, strlen(options->disk_path)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "disk_path is not valid UTF-8");
    return MMSB_OK;
}

mmsb_status_t mmsb_context_create(const mmsb_context_options_t *options, mmsb_context_t *context) {
    DOOR_ENTER();
    mmsb_context_options_t defaults;
    DOOR_CHECK(door_context_options(&options, &defaults));
    DOOR_POINTER(context);
    return mmsbgo_context_create((mmsb_context_options_t *)options, context);
}

mmsb_status_t mmsb_context_destroy(mmsb_context_t context) {
    DOOR_ENTER_TO_END();
    if (context == 0)
        return MMSB_OK;
    return mmsbgo_context_destroy(context);
}

void mmsb_context_stats_init(mmsb_context_stats_t *stats) {
    DOOR_INIT(stats);
}

mmsb_status_t mmsb_context_stats(mmsb_context_t context, mmsb_context_stats_t *stats) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_context_stats_t", stats, stats->reserved_word);
    return mmsbgo_context_stats(context, stats);
}

mmsb_status_t mmsb_context_page_count(mmsb_context_t context, uint64_t *count) {
    DOOR_ENTER();
    DOOR_POINTER(count);
    return mmsbgo_context_page_count(context, count);
}

mmsb_status_t mmsb_context_pages(mmsb_context_t context, uint64_t *cursor, mmsb_page_t *pages, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_POINTER(cursor);
    DOOR_ARRAY(pages, capacity);
    DOOR_POINTER(count);
    if (capacity == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "capacity is 0, at least 1 is needed");
    return mmsbgo_context_pages(context, cursor, pages, capacity, count);
}

mmsb_status_t mmsb_context_trim(mmsb_context_t context, uint64_t *released) {
    DOOR_ENTER();
    DOOR_OPTIONAL(released);
    return mmsbgo_context_trim(context, released);
}

void mmsb_guard_report_init(mmsb_guard_report_t *report) {
    DOOR_INIT(report);
}

mmsb_status_t mmsb_guard_check(mmsb_context_t context, mmsb_guard_report_t *report, uint64_t *count) {
    DOOR_ENTER();
    if (report)
        DOOR_STRUCT("mmsb_guard_report_t", report, 0);
    DOOR_POINTER(count);
    return mmsbgo_guard_check(context, report, count);
}

mmsb_status_t mmsb_context_dependency_order(mmsb_context_t context, mmsb_page_t *pages, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, capacity);
    DOOR_POINTER(count);
    return mmsbgo_context_dependency_order(context, pages, capacity, count);
}

/* ----------------------------------------------------------------------------------------------------- tickets ---- */

void mmsb_work_options_init(mmsb_work_options_t *options) {
    DOOR_INIT(options);
    options->timeout_ns = MMSB_WAIT_FOREVER;
}

mmsb_status_t mmsb_ticket_poll(mmsb_ticket_t ticket, int32_t *done) {
    DOOR_ENTER();
    DOOR_POINTER(done);
    return mmsbgo_ticket_poll(ticket, done);
}

mmsb_status_t mmsb_ticket_wait(mmsb_ticket_t ticket, uint64_t timeout_ns) {
    DOOR_ENTER();
    return mmsbgo_ticket_wait(ticket, timeout_ns);
}

mmsb_status_t mmsb_ticket_cancel(mmsb_ticket_t ticket) {
    DOOR_ENTER();
    return mmsbgo_ticket_cancel(ticket);
}

mmsb_status_t mmsb_ticket_progress(mmsb_ticket_t ticket, uint64_t *done, uint64_t *total) {
    DOOR_ENTER();
    DOOR_POINTER(done);
    DOOR_POINTER(total);
    return mmsbgo_ticket_progress(ticket, done, total);
}

mmsb_status_t mmsb_ticket_status(mmsb_ticket_t ticket, mmsb_status_t *code, char *text, size_t capacity) {
    DOOR_ENTER();
    DOOR_POINTER(code);
    DOOR_BYTE_ARRAY(text, capacity);
    return mmsbgo_ticket_status(ticket, code, text, capacity);
}

mmsb_status_t mmsb_ticket_eventfd(mmsb_ticket_t ticket, int32_t *descriptor) {
    DOOR_ENTER();
    DOOR_POINTER(descriptor);
    return mmsbgo_ticket_eventfd(ticket, descriptor);
}

mmsb_status_t mmsb_ticket_destroy(mmsb_ticket_t ticket) {
    DOOR_ENTER_TO_END();
    if (ticket == 0)
        return MMSB_OK;
    return mmsbgo_ticket_destroy(ticket);
}
