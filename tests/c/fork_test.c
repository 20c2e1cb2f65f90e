/* fork: in the child of a process that used the library every call answers MMSB_E_FORKED at once, and the child ends cleanly. */
#include "calls.h"
#include "folder.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

enum { SECONDS = CHECK_PATIENCE }; /* after which a child that hangs is killed */

static char *program;

static int exit_status(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs in the child. Reports through its exit status: the parent's counters are out of reach. */
static int every_call_answers_forked(mmsb_context_t context, mmsb_page_t page, mmsb_ticket_t ticket, mmsb_snapshot_t snapshot,
                                     void *memory, mmsb_delta_t *delta) {
    const uint64_t handles[MMSB_KIND_COMMANDS + 1] = {[0] = 1,
                                                      [MMSB_KIND_PAGE] = page,
                                                      [MMSB_KIND_CONTEXT] = context,
                                                      [MMSB_KIND_TICKET] = ticket,
                                                      [MMSB_KIND_SNAPSHOT] = snapshot};
    for (size_t i = 0; i < EVERY_CALL_COUNT; i++) {
        const call_t *call = &every_call[i];
        mmsb_status_t status = call->run(handles[call->kind]);
        /* The functions that report errors must be able to report this one. */
        mmsb_status_t expected = call->role == REPORTS ? MMSB_OK : MMSB_E_FORKED;
        if (status != expected) {
            check_fail(__FILE__, __LINE__, "%s answered %d after fork", call->name, (int)status);
        }
    }
    CHECK_STATUS(mmsb_memory_free(memory), MMSB_E_FORKED);
    CHECK_STATUS(mmsb_delta_free(delta), MMSB_E_FORKED);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_FORKED);
    CHECK(strstr(mmsb_last_error(), "fork") != NULL);
    char text[600];
    CHECK_EQUAL(mmsb_last_error_copy(text, sizeof text, NULL), MMSB_OK);
    CHECK(strcmp(text, mmsb_last_error()) == 0);
    CHECK(mmsb_page_address(page) == NULL);
    CHECK_EQUAL(mmsb_page_size(page), 0);
    CHECK_EQUAL(mmsb_page_epoch(page), 0);
    CHECK_EQUAL(mmsb_page_version(page), 0);
    CHECK_EQUAL(mmsb_page_id(page), 0);
    CHECK_EQUAL(mmsb_page_location(page), MMSB_LOCATION_DEFAULT);
    /* What needs no runtime still tells the truth. */
    CHECK(strcmp(mmsb_version(), MMSB_VERSION_STRING) == 0);
    CHECK(strncmp(mmsb_strerror(MMSB_E_FORKED), "MMSB_E_FORKED", 13) == 0);
    CHECK_EQUAL(mmsb_sizeof(MMSB_STRUCT_RUN), sizeof(mmsb_run_t));
    mmsb_delta_t fresh;
    mmsb_delta_init(&fresh);
    CHECK_EQUAL(fresh.struct_size, sizeof fresh);
    return check_failures;
}

static void a_child_gets_forked(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
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
    mmsb_snapshot_t snapshot = new_snapshot();
    write_pattern(page, 1);
    for (int i = 0; i < 5; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(SECONDS);
            /* Through all exit handlers. */
            exit(every_call_answers_forked(context, page, ticket, snapshot, memory, delta) == 0 ? 0 : 1);
        }
        CHECK_EQUAL(exit_status(child), 0);
        /* The parent is as it was. */
        CHECK(page_holds_pattern(page, 1, 100));
        CHECK_EQUAL(context_stats(context).pages, 2);
    }
    CHECK_OK(mmsb_snapshot_close(snapshot));
    CHECK_OK(mmsb_delta_free(delta));
    CHECK_OK(mmsb_memory_free(memory));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

/* A child forked by one thread while others are in the middle of calls. */
typedef struct busy {
    mmsb_context_t context;
    int stop;
} busy_t;

static void *work_or_fork(void *argument) {
    team_member_t *member = argument;
    busy_t *busy = member->shared;
    if (member->index > 0) {
        mmsb_page_t page = new_page(busy->context, 5000);
        while (!__atomic_load_n(&busy->stop, __ATOMIC_RELAXED)) {
            write_pattern(page, member->index);
            CHECK_OK(mmsb_page_resize(page, mmsb_page_size(page) % 7000 + 1000));
            CHECK_OK(mmsb_page_destroy(new_page(busy->context, 64)));
        }
        return NULL;
    }
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(SECONDS);
            mmsb_page_t page;
            int failed = mmsb_page_create(busy->context, 8, NULL, &page) != MMSB_E_FORKED;
            failed |= mmsb_context_destroy(busy->context) != MMSB_E_FORKED;
            failed |= mmsb_last_error_code() != MMSB_E_FORKED;
            _exit(failed);
        }
        CHECK_EQUAL(exit_status(child), 0);
    }
    __atomic_store_n(&busy->stop, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void a_child_of_a_busy_process_gets_forked(void) {
    busy_t busy = {new_context(), 0};
    run_team(4, work_or_fork, &busy);
    CHECK_OK(mmsb_context_destroy(busy.context));
}

/* A program that is started by such a process has a library of its own. */
static void a_spawned_program_works(void) {
    extern char **environ;
    char mode[] = "use";
    char *arguments[] = {program, mode, NULL};
    pid_t child;
    CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
    CHECK_EQUAL(exit_status(child), 0);
    child = fork();
    if (child == 0) {
        execv(program, arguments);
        _exit(127);
    }
    CHECK_EQUAL(exit_status(child), 0);
}

static int use(void) {
    alarm(SECONDS);
    mmsb_context_t context = new_context();
    write_pattern(new_page(context, 100), 1);
    return mmsb_context_destroy(context) != MMSB_OK;
}

/* A store that its process closes, or whose process is killed, is free, whatever children of it live on. */
static void no_child_keeps_a_store(void) {
    mmsb_context_t store, other;
    REQUIRE_OK(mmsb_store_open(at("store"), NULL, NULL, &store));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        pause();
        _exit(0);
    }
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, NULL, &other), MMSB_E_BUSY);
    CHECK_OK(mmsb_context_destroy(store));
    REQUIRE_OK(mmsb_store_open(at("store"), NULL, NULL, &store));
    CHECK_OK(mmsb_context_destroy(store));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);

    int says[2];
    CHECK(pipe(says) == 0);
    extern char **environ;
    char mode[] = "store", to[12];
    snprintf(to, sizeof to, "%d", says[1]);
    char *arguments[] = {program, mode, (char *)at("store"), to, NULL};
    CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
    pid_t grandchild = 0;
    REQUIRE(read(says[0], &grandchild, sizeof grandchild) == sizeof grandchild);
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, NULL, &other), MMSB_E_BUSY);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(kill(grandchild, 0) == 0);
    CHECK_OK(mmsb_store_open(at("store"), NULL, NULL, &store));
    CHECK_OK(mmsb_context_destroy(store));
    CHECK(kill(grandchild, SIGKILL) == 0);
    close(says[0]);
    close(says[1]);
}

/* Opens a store, and has a child; both live on. */
static int keep_store(const char *path, int to) {
    alarm(SECONDS);
    mmsb_context_t store;
    if (mmsb_store_open(path, NULL, NULL, &store) != MMSB_OK)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        pid_t self = getpid(); /* by now it has closed what it does not keep */
        if (write(to, &self, sizeof self) != sizeof self)
            _exit(1);
    }
    pause();
    return 0;
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 3 && strcmp(arguments[1], "store") == 0) {
        return keep_store(arguments[2], atoi(arguments[3]));
    }
    if (count > 1 && strcmp(arguments[1], "use") == 0) {
        return use();
    }
    RUN(a_child_gets_forked);
    RUN(a_child_of_a_busy_process_gets_forked);
    RUN(a_spawned_program_works);
    folder_make();
    RUN_IN_FOLDER(no_child_keeps_a_store);
    folder_end();
    return check_report();
}
