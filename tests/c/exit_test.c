/* exit: a process may end at any moment, whatever is open or running; it neither crashes nor hangs and keeps its status. */
#include "library.h"

#include <signal.h>
#include <sys/wait.h>

enum { SECONDS = CHECK_PATIENCE, STATUS = 7, LARGE = 3000000 };

static char *program;
static mmsb_page_t large[LARGE];

static void with_open_handles(void) {
    for (int i = 0; i < 5; i++) {
        mmsb_context_t context = new_context();
        for (int k = 0; k < 1000; k++) {
            write_pattern(k % 100 == 0 ? new_disk_page(context, 500) : new_page(context, 500), 1);
        }
    }
}

static void with_running_tickets(void) {
    mmsb_context_t context = new_context();
    mmsb_ticket_t ticket;
    REQUIRE_OK(mmsb_page_create_many_start(context, 64, LARGE / 2, NULL, NULL, large, &ticket));
    int32_t descriptor;
    REQUIRE_OK(mmsb_ticket_eventfd(ticket, &descriptor));
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.after = &ticket;
    work.after_count = 1;
    mmsb_ticket_t next;
    REQUIRE_OK(mmsb_page_create_many_start(context, 64, LARGE / 2, NULL, &work, large + LARGE / 2, &next));
}

static void with_pinned_pages(void) {
    mmsb_context_t context = new_context();
    void *address;
    REQUIRE_OK(mmsb_page_pin(new_page(context, 5000), MMSB_PIN_WRITE, &address));
    memset(address, 1, 5000);
    REQUIRE_OK(mmsb_page_pin(new_disk_page(context, 5000), MMSB_PIN_WRITE, &address));
    memset(address, 1, 5000);
    mmsb_context_t ended = new_context();
    REQUIRE_OK(mmsb_page_pin(new_page(ended, 5000), MMSB_PIN_READ, NULL));
    REQUIRE_OK(mmsb_context_destroy(ended));
}

static void *call_for_ever(void *argument) {
    mmsb_context_t context = *(mmsb_context_t *)((team_member_t *)argument)->shared;
    for (;;) {
        mmsb_page_t page = new_page(context, 3000);
        write_pattern(page, 1);
        REQUIRE_OK(mmsb_page_metadata_set(page, "key", 3, "value", 5));
        REQUIRE_OK(mmsb_page_destroy(page));
    }
    return NULL;
}

static void with_threads_in_calls(void) {
    static mmsb_context_t context;
    static team_member_t members[4];
    context = new_context();
    for (uint64_t i = 0; i < 4; i++) {
        pthread_t thread;
        members[i] = (team_member_t){i, &context};
        REQUIRE(pthread_create(&thread, NULL, call_for_ever, &members[i]) == 0);
    }
    check_sleep_ms(50);
}

static void *wait_for_ever(void *argument) {
    mmsb_ticket_wait(*(mmsb_ticket_t *)argument, MMSB_WAIT_FOREVER);
    return NULL;
}

static void with_a_thread_that_waits(void) {
    static mmsb_ticket_t ticket;
    REQUIRE_OK(mmsb_page_create_many_start(new_context(), 64, LARGE, NULL, NULL, large, &ticket));
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, wait_for_ever, &ticket) == 0);
}

static void after_shutdown(void) {
    with_open_handles();
    with_running_tickets();
    with_pinned_pages();
    REQUIRE_OK(mmsb_shutdown());
}

/* The handlers of exit run while everything is still open, and may use the library. */
static mmsb_context_t used_at_exit;

static void use_at_exit(void) {
    REQUIRE_OK(mmsb_page_destroy(new_page(used_at_exit, 100)));
    REQUIRE_OK(mmsb_context_destroy(used_at_exit));
}

static void with_a_handler_of_exit(void) {
    used_at_exit = new_context();
    REQUIRE(atexit(use_at_exit) == 0);
}

static const struct {
    const char *name;
    void (*prepare)(void);
} ways[] = {
    {"open handles", with_open_handles},
    {"running tickets", with_running_tickets},
    {"pinned pages", with_pinned_pages},
    {"threads in calls", with_threads_in_calls},
    {"a thread that waits", with_a_thread_that_waits},
    {"after shutdown", after_shutdown},
    {"a handler of exit", with_a_handler_of_exit},
};
#define WAYS (sizeof ways / sizeof ways[0])

static void exits(size_t way, const char *how) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char number[16];
        snprintf(number, sizeof number, "%zu", way);
        alarm(SECONDS); /* goes on through execv: a child that hangs is killed */
        execl(program, program, number, how, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != STATUS) {
        check_fail(__FILE__, __LINE__, "exit with %s by %s: %s %d", ways[way].name, how, WIFEXITED(status) ? "status" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
}

static void a_process_ends_by_return(void) {
    for (size_t way = 0; way < WAYS; way++) {
        exits(way, "return");
    }
}

static void a_process_ends_by_exit(void) {
    for (size_t way = 0; way < WAYS; way++) {
        exits(way, "exit");
    }
}

static void *exit_here(void *argument) {
    (void)argument;
    exit(STATUS);
}

static void a_process_ends_by_exit_on_another_thread(void) {
    for (size_t way = 0; way < WAYS; way++) {
        exits(way, "thread");
    }
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 2) {
        ways[atoi(arguments[1])].prepare();
        if (strcmp(arguments[2], "exit") == 0) {
            exit(STATUS);
        }
        if (strcmp(arguments[2], "thread") == 0) {
            run_team(1, exit_here, NULL);
        }
        return STATUS;
    }
    RUN(a_process_ends_by_return);
    RUN(a_process_ends_by_exit);
    RUN(a_process_ends_by_exit_on_another_thread);
    return check_report();
}
