/*
 * fuzz [calls [seed]]: random calls of every public function, good and bad, against a reference model: the status and the effect
 * of each must be the model's. Prints the seed, and the share of calls that succeeded, which must be at least 30 %.
 *
 * This file has the seed, the trace of the last calls, and the list of operations; model.c has the model, compare.c compares it
 * with the library; the others have the operations, by subject.
 */
#include "fuzz.h"

enum { TRACE = 16, /* calls that a failure shows */ SHARE = 30 /* per cent of the calls that must succeed */ };

uint64_t seed;
static uint64_t first_seed, wanted, calls, succeeded;
static struct {
    const char *text;
    mmsb_status_t status;
} trace[TRACE];

uint64_t below(uint64_t bound) {
    return random_below(&seed, bound);
}

int chance(uint64_t percent) {
    return below(100) < percent;
}

void fail(const char *file, int line, const char *what, uint64_t actual, uint64_t expected) {
    printf("%s:%d: call %llu of seed %llu: %s is %lld (0x%llx), the model says %lld (0x%llx); last error: %s\n", file, line,
           (unsigned long long)calls, (unsigned long long)first_seed, what, (long long)actual, (unsigned long long)actual,
           (long long)expected, (unsigned long long)expected, mmsb_last_error());
    for (uint64_t i = calls < TRACE ? 0 : calls - TRACE; i < calls; i++) {
        printf("  call %llu: %s answered %d\n", (unsigned long long)i + 1, trace[i % TRACE].text, (int)trace[i % TRACE].status);
    }
    check_tests_failed++;
    exit(check_report());
}

void same(const char *file, int line, const char *what, uint64_t actual, uint64_t expected) {
    if (actual != expected) {
        fail(file, line, what, actual, expected);
    }
}

mmsb_status_t called(const char *file, int line, const char *text, mmsb_status_t status, mmsb_status_t expected,
                     mmsb_status_t other) {
    trace[calls % TRACE].text = text;
    trace[calls % TRACE].status = status;
    calls++;
    succeeded += status == MMSB_OK;
    if (status != expected && status != other) {
        fail(file, line, text, (uint64_t)(int64_t)status, (uint64_t)(int64_t)expected);
    }
    if (status != MMSB_OK) {
        same(file, line, "mmsb_last_error_code()", (uint64_t)mmsb_last_error_code(), (uint64_t)status);
        same(file, line, "lines of mmsb_last_error()", mmsb_last_error()[0] != 0 && strchr(mmsb_last_error(), '\n') == NULL, 1);
    }
    return status;
}

static const struct {
    void (*fuzz)(void);
    uint64_t weight;
} operations[] = {
    {fuzz_create, 12},        {fuzz_create_many, 3}, {fuzz_clone, 3},       {fuzz_adopt, 2},      {fuzz_destroy, 7},
    {fuzz_destroy_many, 2},   {fuzz_release, 2},     {fuzz_memory_free, 2}, {fuzz_lookup, 3},     {fuzz_info, 3},
    {fuzz_getters, 3},        {fuzz_pin, 4},         {fuzz_unpin, 6},       {fuzz_read, 5},       {fuzz_write, 6},
    {fuzz_ranges_of_many, 4}, {fuzz_resize, 5},      {fuzz_migrate, 2},     {fuzz_apply, 8},      {fuzz_apply_many, 5},
    {fuzz_apply_runs, 5},     {fuzz_validate, 2},    {fuzz_merge, 3},       {fuzz_convert, 3},    {fuzz_from_pages, 3},
    {fuzz_owned_delta, 6},    {fuzz_mask, 5},        {fuzz_metadata, 8},    {fuzz_dependency, 5}, {fuzz_dependency_lists, 2},
    {fuzz_context, 3},        {fuzz_end_context, 1}, {fuzz_shutdown, 1},    {fuzz_ticket, 5},     {fuzz_options_text, 2},
    {fuzz_device, 1},         {fuzz_library, 3},     {fuzz_snapshot, 1},    {fuzz_journal, 1},    {fuzz_snapshot_file, 1},
    {fuzz_forms, 1},          {fuzz_groups, 4},      {fuzz_resize_many, 3}, {fuzz_commands, 3},   {fuzz_tensor, 3},
    {fuzz_kernels, 1},        {fuzz_two_pages, 4},   {fuzz_sync, 6},        {fuzz_sync_many, 3},  {fuzz_syncs_that_wait, 4},
    {fuzz_host_copy, 6},      {fuzz_advice, 2},
};

enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static void any_operation(uint64_t weights) {
    uint64_t at = below(weights);
    size_t i = 0;
    while (at >= operations[i].weight) {
        at -= operations[i++].weight;
    }
    operations[i].fuzz();
}

static void end_everything(void) {
    for (int i = 0; i < CONTEXTS; i++) {
        int before = releases;
        CALL(mmsb_context_destroy(contexts[i].handle), MMSB_OK);
        context_ended(i, before);
    }
    for (int i = 0; i < TICKETS; i++) {
        CALL(mmsb_ticket_destroy(tickets[i]), MMSB_OK);
    }
    for (int i = 0; i < DELTAS; i++) {
        CALL(mmsb_delta_free(deltas[i]), MMSB_OK);
    }
    for (int i = 0; i < MEMORIES; i++) {
        CALL(mmsb_memory_free(memories[i].address), MMSB_OK);
    }
    for (int32_t kind = MMSB_KIND_PAGE; kind <= MMSB_KIND_SNAPSHOT; kind++) {
        SAME(check_live(kind), 0);
    }
}

static void random_calls_do_what_the_model_does(void) {
    uint64_t weights = 0;
    for (size_t i = 0; i < OPERATIONS; i++) {
        weights += operations[i].weight;
    }
    make_folder();
    for (int i = 0; i < CONTEXTS; i++) {
        open_context(i);
    }
    for (uint64_t round = 0; calls < wanted; round++) {
        any_operation(weights);
        if (round % 2000 == 0) {
            check_everything();
        }
    }
    check_everything();
    end_everything();
    end_folder();
}

/* A run whose calls are mostly refused would prove little. */
static void enough_calls_succeed(void) {
    double share = 100.0 * (double)succeeded / (double)calls;
    printf("%llu calls, %.1f %% succeeded (at least %d %% must)\n", (unsigned long long)calls, share, SHARE);
    CHECK(share >= SHARE);
}

int main(int count, char **arguments) {
    wanted = count > 1 ? strtoull(arguments[1], NULL, 10) : 30000;
    first_seed = count > 2 ? strtoull(arguments[2], NULL, 10) : (uint64_t)time(NULL) * 1000003 ^ (uint64_t)getpid();
    seed = first_seed;
    printf("fuzz %llu %llu\n", (unsigned long long)wanted, (unsigned long long)first_seed);
    fflush(stdout);
    REQUIRE(setenv("MMSB_SIMULATE", "always", 1) == 0);
    RUN(random_calls_do_what_the_model_does);
    RUN(enough_calls_succeed);
    return check_report();
}
