/* Contexts: what they tell, how they begin and end, and the end of them all by shutdown. */
#include "fuzz.h"

/* Nothing writes where it may not, so that the guard of a context that has one finds nothing. */
static void guard_check(mmsb_context_t handle, int index, mmsb_status_t code) {
    mmsb_guard_report_t report;
    uint64_t waiting = 1;
    mmsb_guard_report_init(&report);
    if (code == MMSB_OK && chance(20)) {
        report.struct_size++;
        CALL(mmsb_guard_check(handle, &report, &waiting), MMSB_E_STRUCT_VERSION);
        return;
    }
    if (code == MMSB_OK && index != GUARDED_CONTEXT) {
        code = MMSB_E_INVALID_STATE;
    }
    CALL(mmsb_guard_check(handle, chance(50) ? &report : NULL, &waiting), code);
    SAME(waiting, code != MMSB_OK);
}

void fuzz_context(void) {
    int index = any_context();
    mmsb_context_t handle = contexts[index].handle;
    mmsb_status_t code = MMSB_OK;
    if (chance(10)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        handle = bad.handle;
        code = bad.code;
    }
    uint64_t number = 0;
    size_t count = UNTOUCHED;
    mmsb_page_t list[PAGES];
    mmsb_context_stats_t stats;
    mmsb_context_stats_init(&stats);
    switch (below(5)) {
    case 0:
        if (code == MMSB_OK && chance(20)) {
            stats.reserved[below(6)] = 1;
            code = MMSB_E_STRUCT_VERSION;
        }
        CALL(mmsb_context_stats(handle, &stats), code);
        if (code == MMSB_OK && chance(20)) {
            CALL(mmsb_context_stats(handle, NULL), MMSB_E_INVALID_ARGUMENT);
        }
        break;
    case 1:
        CALL(mmsb_context_page_count(handle, &number), code);
        break;
    case 2:
        if (code == MMSB_OK && chance(10)) {
            CALL(mmsb_context_pages(handle, &number, list, 0, &count), MMSB_E_INVALID_ARGUMENT);
        }
        CALL(mmsb_context_pages(handle, &number, list, PAGES, &count), code);
        break;
    case 3:
        guard_check(handle, index, code);
        break;
    default:
        CALL(mmsb_context_trim(handle, chance(50) ? &number : NULL), code);
    }
    if (code == MMSB_OK && chance(30)) {
        check_context(index);
    }
}

void open_context(int index) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = index == 0 ? LIMIT_OF_FIRST_CONTEXT : 0;
    options.guard_every = index == GUARDED_CONTEXT ? 3 : 0;
    options.guard_quarantine = index == GUARDED_CONTEXT ? 1 << 16 : 0;
    contexts[index] = (context_t){0};
    CALL(mmsb_context_create(index == 2 ? NULL : &options, &contexts[index].handle), MMSB_OK);
}

/* The pages of an ended context are gone; what was pinned goes with its last unpin. */
void context_ended(int index, int released_before) {
    int expected_releases = released_before;
    remember_stale(MMSB_KIND_CONTEXT, contexts[index].handle);
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle != 0 && page->context == index && !pinned(page)) {
            expected_releases += page->adopted != NULL;
        }
    }
    SAME(releases, expected_releases);
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle == 0 || page->context != index) {
            continue;
        }
        SAME(mmsb_page_size(page->handle), 0);
        int before = releases;
        int was_pinned = pinned(page);
        end_host_pins(page);
        for (int mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
            while (page->pins[mode] > 0) {
                SAME(releases, before);
                CALL(mmsb_page_unpin(page->handle, mode), MMSB_OK);
                page->pins[mode]--;
            }
        }
        CALL(mmsb_page_unpin(page->handle, MMSB_PIN_READ), MMSB_E_STALE_HANDLE);
        SAME(releases, before + (was_pinned && page->adopted != NULL));
        free(page->adopted);
        page->adopted = NULL;
        leave(page);
    }
    contexts[index].handle = 0;
}

void fuzz_end_context(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    mmsb_context_t context = UNTOUCHED;
    switch (below(5)) {
    case 0:
        options.reserved[below(6)] = 1;
        CALL(mmsb_context_create(&options, &context), MMSB_E_STRUCT_VERSION);
        break;
    case 1:
        options.disk_path = "/no/such/folder";
        CALL(mmsb_context_create(&options, &context), MMSB_E_IO);
        break;
    case 2:
        options.default_location = MMSB_LOCATION_GPU;
        options.default_device = no_device();
        CALL(mmsb_context_create(&options, &context), MMSB_E_NO_DEVICE);
        break;
    case 3: {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_context_destroy(bad.handle), bad.handle == 0 ? MMSB_OK : bad.code);
        break;
    }
    default: {
        int index = any_context();
        if (chance(90)) {
            break; /* rarely: it ends many pages */
        }
        int before = releases;
        CALL(mmsb_context_destroy(contexts[index].handle), MMSB_OK);
        context_ended(index, before);
        open_context(index);
    }
    }
    SAME(context, UNTOUCHED);
}

void fuzz_shutdown(void) {
    if (!chance(2)) {
        return;
    }
    for (int i = 0; i < PAGES; i++) { /* pins first: the model of ended contexts works on one context at a time */
        page_t *page = &pages[i];
        if (page->handle != 0) {
            end_host_pins(page);
        }
        for (int mode = MMSB_PIN_READ; page->handle != 0 && mode <= MMSB_PIN_WRITE; mode++) {
            while (page->pins[mode] > 0) {
                CALL(mmsb_page_unpin(page->handle, mode), MMSB_OK);
                page->pins[mode]--;
            }
        }
    }
    int adopted = releases;
    for (int i = 0; i < PAGES; i++) {
        adopted += pages[i].handle != 0 && pages[i].adopted != NULL;
    }
    CALL(mmsb_shutdown(), MMSB_OK);
    SAME(releases, adopted);
    for (int i = 0; i < TICKETS; i++) {
        if (tickets[i] != 0) {
            remember_stale(MMSB_KIND_TICKET, tickets[i]);
            tickets[i] = 0;
        }
    }
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0) {
            free(pages[i].adopted);
            pages[i].adopted = NULL;
            leave(&pages[i]);
        }
    }
    for (int i = 0; i < CONTEXTS; i++) {
        remember_stale(MMSB_KIND_CONTEXT, contexts[i].handle);
        open_context(i);
    }
}
