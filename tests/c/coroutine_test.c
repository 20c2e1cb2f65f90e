/*
 * Calls from stacks that no thread has, as coroutines and Julia's tasks make them. Go asks for the bounds of such a stack at
 * every entry, which on the main thread means reading /proc/self/maps; the library answers from a cache, once per thread. What
 * reaches the C library is counted by the test build; nothing here looks at a clock.
 */
#include "library.h"
#include "test_hooks.h"

#include <ucontext.h>

enum { STACK = 256 << 10, CALLS = 10000 };

static mmsb_context_t context;
static ucontext_t outside;
static ucontext_t inside;

/* Calls that go into Go: the heap of its runtime is asked for, text is parsed. */
static void enter_go(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    CHECK_OK(mmsb_context_options_parse(&options, "memory_limit=1M"));
    mmsb_memory_usage_t usage;
    mmsb_memory_usage_init(&usage);
    CHECK_OK(mmsb_memory_usage(&usage));
}

static void one_call(void) {
    enter_go();
}

static void many_calls(void) {
    for (int i = 0; i < CALLS; i++) {
        mmsb_page_t parent = new_page(context, 64);
        mmsb_page_t child = new_page(context, 64);
        CHECK_OK(mmsb_page_dependency_add(parent, child));
        CHECK_STATUS(mmsb_page_dependency_add(child, parent), MMSB_E_INVALID_ARGUMENT);
        CHECK_OK(mmsb_page_destroy(parent));
        CHECK_OK(mmsb_page_destroy(child));
    }
    enter_go();
}

static void many_switches(void) {
    for (int i = 0; i < 1000; i++) {
        enter_go();
        swapcontext(&inside, &outside);
    }
}

static void run_on(void *stack, void (*function)(void)) {
    REQUIRE(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, function, 0);
    REQUIRE(swapcontext(&outside, &inside) == 0);
}

static void *enter_on_a_new_thread(void *argument) {
    (void)argument;
    enter_go();
    return NULL;
}

/* The counter counts: a thread that enters for the first time asks once. */
static void the_first_entry_asks(void) {
    uint64_t before = mmsb_test_stack_bound_queries();
    run_team(1, enter_on_a_new_thread, NULL);
    CHECK(mmsb_test_stack_bound_queries() > before);
}

static void later_entries_do_not_ask(void) {
    char *stack = malloc(STACK);
    char *other = malloc(STACK);
    context = new_context();
    enter_go();
    run_on(stack, one_call);
    uint64_t before = mmsb_test_stack_bound_queries();
    run_on(stack, many_calls);
    run_on(other, many_calls);
    CHECK_EQUAL(mmsb_test_stack_bound_queries() - before, 0);
    /* Nor does going to and fro between the stacks. */
    run_on(other, many_switches);
    for (int i = 1; i < 1000; i++) {
        enter_go();
        REQUIRE(swapcontext(&outside, &inside) == 0);
    }
    REQUIRE(swapcontext(&outside, &inside) == 0);
    CHECK_EQUAL(mmsb_test_stack_bound_queries() - before, 0);
    CHECK_OK(mmsb_context_destroy(context));
    free(stack);
    free(other);
}

static void *coroutines_of_a_thread(void *argument) {
    (void)argument;
    static _Thread_local ucontext_t here;
    static _Thread_local ucontext_t there;
    char *stack = malloc(STACK);
    for (volatile int i = 0; i < 100; i++) { // getcontext may return twice
        REQUIRE(getcontext(&there) == 0);
        there.uc_stack.ss_sp = stack;
        there.uc_stack.ss_size = STACK;
        there.uc_link = &here;
        makecontext(&there, enter_go, 0);
        REQUIRE(swapcontext(&here, &there) == 0);
        enter_go();
    }
    free(stack);
    return NULL;
}

static void coroutines_of_many_threads_work(void) {
    uint64_t before = mmsb_test_stack_bound_queries();
    run_team(8, coroutines_of_a_thread, NULL);
    CHECK(mmsb_test_stack_bound_queries() - before <= 8 * 2);
}

int main(void) {
    RUN(the_first_entry_asks);
    RUN(later_entries_do_not_ask);
    RUN(coroutines_of_many_threads_work);
    return check_report();
}
