/* A panic inside the library: MMSB_E_INTERNAL once, then everything is POISONED but what gives back, counts leaks and tells
 * errors. Test build only. */
#include "calls.h"
#include "test_hooks.h"

static void a_panic_poisons_the_library(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    mmsb_page_t second = new_page(context, 100);
    mmsb_page_t released = new_page(context, 100);
    mmsb_page_t filled;
    mmsb_ticket_t ticket;
    void *memory;
    uint64_t size;
    mmsb_delta_t *delta;
    REQUIRE_OK(mmsb_page_create_many_start(context, 8, 1, NULL, NULL, &filled, &ticket));
    REQUIRE_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    REQUIRE_OK(mmsb_page_release(released, &memory, &size));
    REQUIRE_OK(mmsb_delta_from_pages(page, page, &delta));
    REQUIRE_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, NULL));
    mmsb_snapshot_t snapshot = new_snapshot();
    device_objects_t device = new_device_objects();
    mmsb_commands_t commands = new_commands(1, 4);
    void *saved;
    REQUIRE_OK(mmsb_snapshot_save_memory(context, NULL, &saved, &size));

    CHECK_STATUS(mmsb_test_panic(), MMSB_E_INTERNAL);
    CHECK_STATUS(mmsb_test_panic(), MMSB_E_POISONED);
    const uint64_t handles[] = {
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
    for (size_t i = 0; i < EVERY_CALL_COUNT; i++) {
        const call_t *call = &every_call[i];
        if (call->role != ORDINARY) {
            continue;
        }
        mmsb_status_t status = call->run(handles[call->kind]);
        if (status != MMSB_E_POISONED) {
            check_fail(__FILE__, __LINE__, "%s answered %d in a poisoned library", call->name, (int)status);
        } else {
            check_status(__FILE__, __LINE__, call->name, status, MMSB_E_POISONED);
        }
    }
    char text[600];
    CHECK_OK(mmsb_last_error_copy(text, sizeof text, NULL));
    CHECK(strcmp(text, mmsb_last_error()) == 0);
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_OK(mmsb_last_error_detail(&detail));
    CHECK_EQUAL(detail.code, MMSB_E_POISONED);

    /* What was open can be given back, each once. */
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_BUSY);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK_STATUS(mmsb_page_unpin(page, MMSB_PIN_WRITE), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_destroy(page));
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_page_destroy_many(&second, 1, NULL));
    CHECK_OK(mmsb_memory_free(memory));
    CHECK_STATUS(mmsb_memory_free(memory), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_delta_free(delta));
    CHECK_STATUS(mmsb_delta_free(delta), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_snapshot_free_memory(saved));
    CHECK_STATUS(mmsb_snapshot_free_memory(saved), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_snapshot_close(snapshot));
    CHECK_STATUS(mmsb_snapshot_close(snapshot), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_commands_destroy(commands));
    CHECK_STATUS(mmsb_commands_destroy(commands), MMSB_E_STALE_HANDLE);
    end_device_objects(&device);
    CHECK_STATUS(mmsb_use_end(device.use), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(device.context));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_STATUS(mmsb_ticket_destroy(ticket), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_STATUS(mmsb_context_destroy(context), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_page_destroy(0));
    CHECK_OK(mmsb_context_destroy(0));
}

int main(void) {
    RUN(a_panic_poisons_the_library);
    return check_report();
}
