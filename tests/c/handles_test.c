/* Bad handles: every function that takes one, with zero, another kind, a value never given out, and one that was destroyed. */
#include "calls.h"
#include "interface.h"

#include <sys/wait.h>
#include <unistd.h>

/* The list of calls must name every function of the header that returns a status, but the getter of one. */
static void the_list_of_calls_is_whole(void) {
    size_t count = sizeof interface_calls / sizeof interface_calls[0];
    for (size_t i = 0; i < count; i++) {
        int listed = strcmp(interface_calls[i], "mmsb_last_error_code") == 0;
        for (size_t j = 0; j < EVERY_CALL_COUNT; j++) {
            listed |= strcmp(every_call[j].name, interface_calls[i]) == 0;
        }
        if (!listed) {
            check_fail(__FILE__, __LINE__, "%s is not in calls.h", interface_calls[i]);
        }
    }
    CHECK_EQUAL(count - 1, EVERY_CALL_COUNT);
}

static void check_call(const call_t *call, const char *what, uint64_t handle, mmsb_status_t expected) {
    mmsb_status_t status = call->run(handle);
    if (status != expected) {
        check_fail(__FILE__, __LINE__, "%s with %s (0x%016llx) answered %d, expected %d", call->name, what,
                   (unsigned long long)handle, (int)status, (int)expected);
    } else if (status != MMSB_OK) {
        check_status(__FILE__, __LINE__, call->name, status, expected);
    }
}

static void bad_handles_answer_their_codes(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    mmsb_page_t filled;
    mmsb_ticket_t ticket;
    REQUIRE_OK(mmsb_page_create_many_start(context, 64, 1, NULL, NULL, &filled, &ticket));
    REQUIRE_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(page >> 60, MMSB_KIND_PAGE);
    CHECK_EQUAL(context >> 60, MMSB_KIND_CONTEXT);
    CHECK_EQUAL(ticket >> 60, MMSB_KIND_TICKET);
    mmsb_snapshot_t snapshot = new_snapshot();
    CHECK_EQUAL(snapshot >> 60, MMSB_KIND_SNAPSHOT);
    mmsb_snapshot_t ended_snapshot = new_snapshot();
    REQUIRE_OK(mmsb_snapshot_close(ended_snapshot));

    mmsb_context_t ended_context = new_context();
    mmsb_page_t page_of_ended_context = new_page(ended_context, 64);
    REQUIRE_OK(mmsb_context_destroy(ended_context));
    mmsb_page_t ended_page = new_page(context, 64);
    REQUIRE_OK(mmsb_page_destroy(ended_page));
    mmsb_ticket_t ended_ticket;
    mmsb_page_t other;
    REQUIRE_OK(mmsb_page_create_many_start(context, 64, 1, NULL, NULL, &other, &ended_ticket));
    REQUIRE_OK(mmsb_ticket_wait(ended_ticket, MMSB_WAIT_FOREVER));
    REQUIRE_OK(mmsb_ticket_destroy(ended_ticket));

    mmsb_commands_t commands = new_commands(1, 4), ended_commands = new_commands(1, 4);
    CHECK_EQUAL(commands >> 60, MMSB_KIND_COMMANDS);
    REQUIRE_OK(mmsb_commands_destroy(ended_commands));
    device_objects_t device = new_device_objects();
    device_objects_t ended_device = new_device_objects();
    end_device_objects(&ended_device);
    CHECK_EQUAL(device.stream >> 60, MMSB_KIND_STREAM);
    CHECK_EQUAL(device.block >> 60, MMSB_KIND_BLOCK);
    CHECK_EQUAL(device.use >> 60, MMSB_KIND_USE);
    CHECK_EQUAL(device.runtime >> 60, MMSB_KIND_RUNTIME);
    CHECK_EQUAL(device.reservation >> 60, MMSB_KIND_RESERVATION);
    CHECK_EQUAL(device.capture >> 60, MMSB_KIND_CAPTURE);

    static const int kinds[] = {MMSB_KIND_PAGE,        MMSB_KIND_CONTEXT, MMSB_KIND_TICKET,  MMSB_KIND_SNAPSHOT,
                                MMSB_KIND_STREAM,      MMSB_KIND_BLOCK,   MMSB_KIND_USE,     MMSB_KIND_RUNTIME,
                                MMSB_KIND_RESERVATION, MMSB_KIND_CAPTURE, MMSB_KIND_COMMANDS};
    const uint64_t live[] = {
        [MMSB_KIND_PAGE] = page,
        [MMSB_KIND_CONTEXT] = context,
        [MMSB_KIND_TICKET] = ticket,
        [MMSB_KIND_SNAPSHOT] = snapshot,
        [MMSB_KIND_STREAM] = device.stream,
        [MMSB_KIND_BLOCK] = device.block,
        [MMSB_KIND_USE] = device.use,
        [MMSB_KIND_RUNTIME] = device.runtime,
        [MMSB_KIND_RESERVATION] = device.reservation,
        [MMSB_KIND_CAPTURE] = device.capture,
        [MMSB_KIND_COMMANDS] = commands,
    };
    const uint64_t ended[] = {
        [MMSB_KIND_PAGE] = ended_page,
        [MMSB_KIND_CONTEXT] = ended_context,
        [MMSB_KIND_TICKET] = ended_ticket,
        [MMSB_KIND_SNAPSHOT] = ended_snapshot,
        [MMSB_KIND_STREAM] = ended_device.stream,
        [MMSB_KIND_BLOCK] = ended_device.block,
        [MMSB_KIND_USE] = ended_device.use,
        [MMSB_KIND_RUNTIME] = ended_device.runtime,
        [MMSB_KIND_RESERVATION] = ended_device.reservation,
        [MMSB_KIND_CAPTURE] = ended_device.capture,
        [MMSB_KIND_COMMANDS] = ended_commands,
    };
    for (size_t i = 0; i < EVERY_CALL_COUNT; i++) {
        const call_t *call = &every_call[i];
        if (call->kind == 0) {
            continue;
        }
        check_call(call, "zero", 0, call->role == ENDS ? MMSB_OK : MMSB_E_INVALID_HANDLE);
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            int kind = kinds[k];
            if (kind != call->kind) {
                check_call(call, "another kind", live[kind], MMSB_E_INVALID_HANDLE);
                check_call(call, "another kind, ended", ended[kind], MMSB_E_INVALID_HANDLE);
            }
        }
        check_call(call, "a value never given out", live[call->kind] ^ (1ULL << 59), MMSB_E_INVALID_HANDLE);
        check_call(call, "a kind that does not exist", 0xF000000000000001ULL, MMSB_E_INVALID_HANDLE);
        check_call(call, "no kind", 1, MMSB_E_INVALID_HANDLE);
        check_call(call, "all ones", UINT64_MAX, MMSB_E_INVALID_HANDLE);
        check_call(call, "an ended object", ended[call->kind], MMSB_E_STALE_HANDLE);
    }
    for (size_t i = 0; i < EVERY_CALL_COUNT; i++) {
        if (every_call[i].kind == MMSB_KIND_PAGE) {
            check_call(&every_call[i], "a page of an ended context", page_of_ended_context, MMSB_E_STALE_HANDLE);
        }
    }
    REQUIRE_OK(mmsb_context_destroy(ended_device.context));
    /* All that did nothing. */
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    CHECK_OK(mmsb_runtime_stats(device.runtime, &stats));
    CHECK(stats.streams == 1 && stats.blocks == 1 && stats.reserved_bytes == 100 && stats.uses == 1);
    end_device_objects(&device);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_OK(mmsb_context_destroy(device.context));
    CHECK_EQUAL(context_stats(context).pages, 3);
    CHECK_EQUAL(mmsb_page_size(page), 64);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

static void getters_answer_bad_handles_with_zero(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    REQUIRE_OK(mmsb_page_destroy(page));
    const struct {
        uint64_t handle;
        mmsb_status_t code;
    } bad[] = {{0, MMSB_E_INVALID_HANDLE},
               {context, MMSB_E_INVALID_HANDLE},
               {page, MMSB_E_STALE_HANDLE},
               {page ^ (1ULL << 59), MMSB_E_INVALID_HANDLE}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        /* Another code comes between, so that each getter must have set its own. */
        mmsb_context_page_count(context, NULL);
        CHECK(mmsb_page_address(bad[i].handle) == NULL);
        CHECK_EQUAL(mmsb_last_error_code(), bad[i].code);
        mmsb_context_page_count(context, NULL);
        CHECK_EQUAL(mmsb_page_size(bad[i].handle), 0);
        CHECK_EQUAL(mmsb_last_error_code(), bad[i].code);
        mmsb_context_page_count(context, NULL);
        CHECK_EQUAL(mmsb_page_epoch(bad[i].handle), 0);
        CHECK_EQUAL(mmsb_last_error_code(), bad[i].code);
        mmsb_context_page_count(context, NULL);
        CHECK_EQUAL(mmsb_page_version(bad[i].handle), 0);
        CHECK_EQUAL(mmsb_last_error_code(), bad[i].code);
        mmsb_context_page_count(context, NULL);
        CHECK_EQUAL(mmsb_page_id(bad[i].handle), 0);
        CHECK_EQUAL(mmsb_last_error_code(), bad[i].code);
        mmsb_context_page_count(context, NULL);
        CHECK_EQUAL(mmsb_page_location(bad[i].handle), MMSB_LOCATION_DEFAULT);
        CHECK_EQUAL(mmsb_last_error_code(), bad[i].code);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void a_handle_value_never_returns(void) {
    enum { CYCLES = 200000 };
    mmsb_context_t context = new_context();
    mmsb_page_t first = new_page(context, 64);
    mmsb_page_t previous = first;
    REQUIRE_OK(mmsb_page_destroy(first));
    for (int i = 0; i < CYCLES; i++) {
        mmsb_page_t page = new_page(context, 64);
        CHECK(page != first && page != previous);
        CHECK_STATUS(mmsb_page_destroy(previous), MMSB_E_STALE_HANDLE);
        CHECK_OK(mmsb_page_destroy(page));
        previous = page;
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* Before the first call there is nothing that a handle could lead to. Each child has a first call of its own. */
static void bad_handles_in_the_first_call(void) {
    fflush(NULL);
    for (size_t i = 0; i < EVERY_CALL_COUNT; i++) {
        const call_t *call = &every_call[i];
        if (call->kind == 0)
            continue;
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0)
            _exit(call->run((uint64_t)call->kind << 60 | 1 << 28 | 1) == MMSB_E_INVALID_HANDLE ? 0 : 1);
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child);
        if (status != 0)
            check_fail(__FILE__, __LINE__, "%s as the first call ended with wait status %d", call->name, status);
    }
}

int main(void) {
    RUN(bad_handles_in_the_first_call);
    RUN(the_list_of_calls_is_whole);
    RUN(bad_handles_answer_their_codes);
    RUN(getters_answer_bad_handles_with_zero);
    RUN(a_handle_value_never_returns);
    return check_report();
}
