/* The forms of every long call: with a timeout of 0, with a short one, behind other work, and started. */
#include "long_calls.h"

enum { PAGES = 40 };

static const uint64_t FORMS[] = {0, 1, 100 * 1000, UINT64_C(60000000000), MMSB_WAIT_FOREVER};
#define FORM_COUNT (sizeof FORMS / sizeof FORMS[0])

/* Small work is done with a timeout of 0, and a time that is over leaves nothing behind. */
static void every_long_call_has_a_timeout(void) {
    for (int i = 0; i < CALL_COUNT; i++) {
        const long_call_t *call = &CALLS[i];
        world_t w;
        begin(&w, PAGES, 300);
        for (size_t j = 0; j < FORM_COUNT; j++) {
            const form_t form = {.timeout_ns = FORMS[j]};
            if (call->run == save_memory) {
                CHECK_OK(mmsb_snapshot_free_memory(w.memory));
                w.memory = NULL;
            }
            mmsb_status_t status = call->run(&w, &form);
            int timed = form.timeout_ns > 0 && form.timeout_ns < 1000 * 1000 * 1000;
            if (form.timeout_ns == 0 && call->run == journal_sync) { /* the disk is waited for */
                timed = status == MMSB_E_WOULD_BLOCK;
                status = timed ? MMSB_E_TIMEOUT : status;
            }
            if (status != MMSB_OK && !(timed && status == MMSB_E_TIMEOUT)) {
                check_fail(__FILE__, __LINE__, "%s with %llu ns answered %d: %s", call->name, (unsigned long long)form.timeout_ns,
                           (int)status, mmsb_last_error());
            }
        }
        end(&w);
        clear_folder();
    }
}

static void every_long_call_can_be_started(void) {
    for (int i = 0; i < CALL_COUNT; i++) {
        const long_call_t *call = &CALLS[i];
        world_t w;
        begin(&w, PAGES, 300);
        mmsb_ticket_t ticket = 0;
        const form_t form = {.timeout_ns = 0, .ticket = &ticket}; /* which only the blocking form uses */
        if (!check_status(__FILE__, __LINE__, call->name, call->run(&w, &form), MMSB_OK)) {
            continue;
        }
        check_status(__FILE__, __LINE__, call->name, mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
        CHECK_OK(mmsb_ticket_destroy(ticket));
        end(&w);
        clear_folder();
    }
}

/* Work that ends when something comes through the pipe. */
static mmsb_ticket_t start_held(world_t *w, mmsb_context_t context) {
    mmsb_ticket_t ticket = 0;
    REQUIRE_OK(mmsb_snapshot_load_descriptor_start(context, w->pipe[0], NULL, NULL, &ticket));
    return ticket;
}

static void nobody_is_waited_for_with_a_timeout_of_0(void) {
    world_t w;
    begin(&w, PAGES, 300);
    mmsb_context_t busy = new_context();
    mmsb_ticket_t held = start_held(&w, busy);
    for (int i = 0; i < CALL_COUNT; i++) {
        if (!CALLS[i].has_after) {
            continue;
        }
        check_status(__FILE__, __LINE__, CALLS[i].name, CALLS[i].run(&w, &(form_t){.timeout_ns = 0, .after = &held}),
                     MMSB_E_WOULD_BLOCK);
        check_status(__FILE__, __LINE__, CALLS[i].name, CALLS[i].run(&w, &(form_t){.timeout_ns = 1000, .after = &held}),
                     MMSB_E_TIMEOUT);
    }
    CHECK_EQUAL(mmsb_page_location(w.pages[0]), MMSB_LOCATION_CPU);
    CHECK_OK(mmsb_ticket_cancel(held));
    CHECK_STATUS(mmsb_ticket_wait(held, MMSB_WAIT_FOREVER), MMSB_E_CANCELLED);
    CHECK_STATUS(verify(&w, &(form_t){.timeout_ns = 0, .after = &held}), MMSB_E_CANCELLED);
    CHECK_OK(mmsb_ticket_destroy(held));
    CHECK_OK(mmsb_context_destroy(busy));
    end(&w);
}

/* The other side of a pipe does nothing. */
static void pipes_are_not_waited_for_beyond_the_time(void) {
    world_t w;
    begin(&w, PAGES, 300);
    mmsb_load_options_t load = load_options(&(form_t){.timeout_ns = 1000 * 1000});
    CHECK_STATUS(mmsb_snapshot_load_descriptor(w.other, w.pipe[0], &load), MMSB_E_TIMEOUT);
    load.timeout_ns = 0;
    CHECK_STATUS(mmsb_snapshot_load_descriptor(w.other, w.pipe[0], &load), MMSB_E_WOULD_BLOCK);
    mmsb_page_t large = new_page(w.context, 1 << 20);
    mmsb_save_options_t save = save_options(&(form_t){.timeout_ns = 1000 * 1000});
    CHECK_STATUS(mmsb_snapshot_save_descriptor(w.context, w.pipe[1], &save), MMSB_E_TIMEOUT);
    save.timeout_ns = 0;
    CHECK_STATUS(mmsb_snapshot_save_descriptor(w.context, w.pipe[1], &save), MMSB_E_WOULD_BLOCK);
    CHECK_EQUAL(mmsb_page_size(large), 1 << 20);
    CHECK_OK(mmsb_snapshot_save(w.context, at("after"), NULL));
    end(&w);
}

/* Of 64 MiB nothing is done at once, and nothing is left behind. */
static void much_work_is_not_done_with_a_timeout_of_0(void) {
    world_t w;
    begin(&w, PAGES, 300);
    mmsb_page_t large[64];
    REQUIRE_OK(mmsb_page_create_many(w.context, 1 << 20, 64, NULL, NULL, large));
    for (int i = 0; i < 64; i++) {
        write_pattern(large[i], (uint64_t)i);
    }
    const form_t none = {.timeout_ns = 0};
    CHECK_STATUS(save(&w, &none), MMSB_E_WOULD_BLOCK);
    CHECK(access(at("saved"), F_OK) != 0);
    CHECK_STATUS(save_memory(&w, &none), MMSB_E_WOULD_BLOCK);
    CHECK(w.memory == NULL);
    REQUIRE_OK(mmsb_snapshot_save(w.context, at("one"), NULL));
    CHECK_STATUS(verify(&w, &none), MMSB_E_WOULD_BLOCK);
    CHECK_STATUS(load(&w, &none), MMSB_E_WOULD_BLOCK);
    CHECK_EQUAL(context_stats(w.other).pages, 0);
    static mmsb_page_t many[20000];
    mmsb_work_options_t work = work_of(&none);
    CHECK_STATUS(mmsb_page_create_many(w.other, 64, 20000, NULL, &work, many), MMSB_E_WOULD_BLOCK);
    CHECK_EQUAL(context_stats(w.other).pages, 0);
    mmsb_status_t statuses[64];
    CHECK_STATUS(mmsb_page_migrate_many(large, 64, MMSB_LOCATION_DISK, 0, &work, statuses, NULL), MMSB_E_WOULD_BLOCK);
    for (int i = 0; i < 64; i++) {
        CHECK_EQUAL(mmsb_page_location(large[i]), statuses[i] == MMSB_OK ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU);
        CHECK(page_holds_pattern(large[i], (uint64_t)i, 1 << 20));
    }
    CHECK_EQUAL(statuses[63], MMSB_E_CANCELLED);
    mmsb_journal_options_t journal;
    mmsb_journal_options_init(&journal);
    journal.timeout_ns = 0;
    REQUIRE_OK(mmsb_snapshot_load(w.other, at("one"), NULL));
    CHECK_STATUS(mmsb_journal_open(w.other, at("opened"), &journal), MMSB_E_WOULD_BLOCK);
    mmsb_journal_info_t info;
    mmsb_journal_info_init(&info);
    CHECK_STATUS(mmsb_journal_info(w.other, &info), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_journal_open(w.other, at("opened"), NULL));
    end(&w);
}

int main(void) {
    folder_make();
    RUN_IN_FOLDER(every_long_call_has_a_timeout);
    RUN_IN_FOLDER(every_long_call_can_be_started);
    RUN_IN_FOLDER(nobody_is_waited_for_with_a_timeout_of_0);
    RUN_IN_FOLDER(pipes_are_not_waited_for_beyond_the_time);
    RUN_IN_FOLDER(much_work_is_not_done_with_a_timeout_of_0);
    folder_end();
    return check_report();
}
