/*
 * How soon every long call hears that it is to end: cancelled, or with its time over. Within 50 ms, unless the machine is busy:
 * each measurement has some tries. A machine that needs longer than usual to give 64 MiB and take them back has as much longer.
 * `cancel_test 0 SHAPE...` does so with some of the shapes of a state, whose numbers begin at 1; `cancel_test TIMES` measures
 * each call TIMES times and prints a table.
 */
#include "long_calls.h"

#include <sys/mman.h>

static uint64_t bound = 50 * 1000 * 1000;
enum { TRIES = 40, MOMENTS = 3 };

static const struct {
    uint64_t pages, size;
} SHAPES[] = {{1, UINT64_C(256) << 20}, {8, 32 << 20}, {100000, 600}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Most of what is behind a cancel is memory that goes back to the kernel. */
static void allow_for_a_slow_machine(void) {
    const uint64_t size = 64 << 20, usual = 50 * 1000 * 1000;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES && least > usual; i++) {
        const uint64_t before = now_ns();
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED && madvise(memory, size, MADV_NOHUGEPAGE) == 0);
        for (uint64_t at = 0; at < size; at += 4096) {
            memory[at] = 1;
        }
        REQUIRE(munmap(memory, size) == 0);
        const uint64_t took = now_ns() - before;
        least = took < least ? took : least;
    }
    if (least > usual) {
        bound = bound * least / usual;
        printf("a slow machine: within %llu ms\n", (unsigned long long)(bound / 1000000));
    }
}

static int measured; /* times each; 0: until one is in the bound */
static int left_out[SHAPE_COUNT];

/* Takes away what an earlier call has left, so that the time of that is not measured. */
static void prepare(const long_call_t *call, world_t *w) {
    if (call->run == save_memory) {
        CHECK_OK(mmsb_snapshot_free_memory(w->memory));
        w->memory = NULL;
    }
    if (call->run == save_descriptor && access(at("stream"), F_OK) == 0) {
        CHECK(truncate(at("stream"), 0) == 0);
    }
}

/* Starts a call, and waits for it as long. Returns what it ended with, or MMSB_E_TIMEOUT. */
static mmsb_status_t start(const long_call_t *call, world_t *w, uint64_t wait_ns, mmsb_ticket_t *ticket) {
    prepare(call, w);
    const form_t form = {.ticket = ticket};
    const mmsb_status_t status = call->run(w, &form);
    check_status(__FILE__, __LINE__, call->name, status, MMSB_OK);
    return status == MMSB_OK ? mmsb_ticket_wait(*ticket, wait_ns) : status;
}

static uint64_t whole(const long_call_t *call, world_t *w) {
    mmsb_ticket_t ticket = 0;
    prepare(call, w);
    const uint64_t before = now_ns();
    check_status(__FILE__, __LINE__, call->name, start(call, w, MMSB_WAIT_FOREVER, &ticket), MMSB_OK);
    const uint64_t took = now_ns() - before;
    CHECK_OK(mmsb_ticket_destroy(ticket));
    return took;
}

/* How long a call goes on after it was cancelled; 0 where it had ended before. */
static uint64_t after_cancel(const long_call_t *call, world_t *w, uint64_t wait_ns) {
    mmsb_ticket_t ticket = 0;
    start(call, w, wait_ns, &ticket);
    const uint64_t cancelled = now_ns();
    CHECK_OK(mmsb_ticket_cancel(ticket));
    const mmsb_status_t status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
    const uint64_t took = now_ns() - cancelled;
    CHECK_OK(mmsb_ticket_destroy(ticket));
    return status == MMSB_E_CANCELLED ? took : 0;
}

/* How long a call goes on after its time; 0 where it had ended before. */
static uint64_t after_time(const long_call_t *call, world_t *w, uint64_t wait_ns) {
    const form_t form = {.timeout_ns = wait_ns};
    prepare(call, w);
    const uint64_t before = now_ns();
    const mmsb_status_t status = call->run(w, &form);
    const uint64_t took = now_ns() - before;
    return status == MMSB_E_TIMEOUT && took > wait_ns ? took - wait_ns : 0;
}

static void look(const long_call_t *call, world_t *w, const char *how,
                 uint64_t (*end_early)(const long_call_t *, world_t *, uint64_t), uint64_t all_ns) {
    for (int moment = measured ? 1 : MOMENTS; moment <= MOMENTS; moment++) {
        const uint64_t begun = all_ns * (uint64_t)moment / (MOMENTS + 1);
        uint64_t least = UINT64_MAX, most = 0;
        for (int i = 0; i < (measured ? measured : TRIES) && (measured || least > bound); i++) {
            const uint64_t took = end_early(call, w, begun);
            least = took < least ? took : least;
            most = took > most ? took : most;
        }
        if (measured) {
            printf("%-16s %-9s %7llu x %-9llu after %6.1f of %6.1f ms: goes on for %6.1f to %6.1f ms\n", call->name, how,
                   (unsigned long long)w->page_count, (unsigned long long)w->page_size, (double)begun / 1e6, (double)all_ns / 1e6,
                   (double)least / 1e6, (double)most / 1e6);
        } else if (least > bound) {
            check_fail(__FILE__, __LINE__, "%s of %llu pages of %llu bytes: %s, it goes on for %.0f ms", call->name,
                       (unsigned long long)w->page_count, (unsigned long long)w->page_size, how, (double)least / 1e6);
        }
    }
}

static void long_calls_end_within_50_ms(void) {
    for (int i = 0; i < SHAPE_COUNT; i++) {
        if (left_out[i]) {
            continue;
        }
        world_t w;
        begin(&w, SHAPES[i].pages, SHAPES[i].size);
        for (int j = 0; j < CALL_COUNT; j++) {
            const uint64_t all_ns = whole(&CALLS[j], &w);
            if (all_ns > bound) {
                look(&CALLS[j], &w, "cancelled", after_cancel, all_ns);
                look(&CALLS[j], &w, "timed out", after_time, all_ns);
            }
        }
        end(&w);
        clear_folder();
    }
}

int main(int argc, char **argv) {
    measured = argc > 1 ? atoi(argv[1]) : 0;
    allow_for_a_slow_machine();
    for (int i = 0; i < SHAPE_COUNT && argc > 2; i++) {
        left_out[i] = 1;
        for (int j = 2; j < argc; j++) {
            left_out[i] &= atoi(argv[j]) != i + 1;
        }
    }
    folder_make();
    RUN_IN_FOLDER(long_calls_end_within_50_ms);
    folder_end();
    return check_report();
}
