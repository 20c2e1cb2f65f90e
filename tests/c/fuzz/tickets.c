/* Tickets of work that has ended, and handles that are none. */
#include "fuzz.h"

#include <poll.h>

void fuzz_ticket(void) {
    int slot = (int)below(TICKETS);
    mmsb_ticket_t ticket = tickets[slot];
    mmsb_status_t code = MMSB_OK;
    if (ticket == 0 || chance(15)) {
        pick_t bad = bad_handle(MMSB_KIND_TICKET);
        ticket = bad.handle;
        code = bad.code;
    }
    int32_t number = -1;
    mmsb_status_t status = -1;
    char text[16] = "?";
    uint64_t done;
    uint64_t total;
    switch (below(7)) {
    case 0:
        CALL(mmsb_ticket_poll(ticket, &number), code);
        SAME(number, code == MMSB_OK ? 1 : -1);
        break;
    case 1:
        CALL(mmsb_ticket_wait(ticket, below(3) * 1000), code);
        break;
    case 2:
        CALL(mmsb_ticket_cancel(ticket), code);
        break;
    case 3:
        CALL(mmsb_ticket_progress(ticket, &done, &total), code);
        SAME(code == MMSB_OK && done != total, 0);
        break;
    case 4:
        CALL(mmsb_ticket_status(ticket, &status, text, chance(50) ? sizeof text : 0), code);
        SAME(status, code == MMSB_OK ? MMSB_OK : -1);
        break;
    case 5:
        CALL(mmsb_ticket_eventfd(ticket, &number), code);
        if (code == MMSB_OK) {
            struct pollfd poller = {number, POLLIN, 0};
            SAME(poll(&poller, 1, 0), 1);
        }
        break;
    default:
        CALL(mmsb_ticket_destroy(ticket), ticket == 0 ? MMSB_OK : code);
        if (code == MMSB_OK) {
            remember_stale(MMSB_KIND_TICKET, ticket);
            tickets[slot] = 0;
        }
    }
    if (code == MMSB_OK && tickets[slot] != 0 && chance(10)) {
        CALL(mmsb_ticket_poll(ticket, NULL), MMSB_E_INVALID_ARGUMENT);
    }
}
