/*
 * The first call: until it comes the library has no thread and no signal handler, so that a daemon forks, then calls. Children of
 * a fork before the first call use the library, also at the same time as their parent; later ones get MMSB_E_FORKED.
 *
 * A process has one first call, so each case is this program started again.
 */
#include "folder.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SECONDS = CHECK_PATIENCE, CHILDREN = 8 };

static char *program;

/* ------------------------------------------------------------------------------------------------------- helpers ---- */

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    int count = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        count += task->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

static int exit_status(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The exit status of a child that runs a function: 0 where no check in it failed. */
static pid_t fork_to(void (*work)(void)) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(SECONDS);
        check_failures = 0;
        work();
        exit(check_failures != 0);
    }
    return child;
}

/* Pages, deltas, a journal, a snapshot: each needs another part of what the first call starts. */
static void use(void) {
    folder_make();
    mmsb_context_t context = new_context(), loaded = new_context();
    char journal[300];
    snprintf(journal, sizeof journal, "%s", at("journal"));
    CHECK_OK(mmsb_journal_open(context, journal, NULL));
    for (uint64_t i = 1; i <= 50; i++) {
        mmsb_page_t page = new_page(context, i * 500);
        write_pattern(page, i);
        const mmsb_run_t run = {.offset = i, .length = 4};
        const mmsb_delta_t delta = one_run(&run, "fork");
        CHECK_OK(mmsb_page_apply(page, &delta));
    }
    mmsb_page_t *tickets_pages = calloc(100, sizeof *tickets_pages);
    REQUIRE(tickets_pages != NULL);
    mmsb_ticket_t ticket;
    CHECK_OK(mmsb_page_create_many_start(context, 64, 100, NULL, NULL, tickets_pages, &ticket));
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    free(tickets_pages);
    CHECK_OK(mmsb_journal_close(context));
    CHECK_OK(mmsb_snapshot_save(context, at("snapshot"), NULL));
    CHECK_OK(mmsb_snapshot_load(loaded, at("snapshot"), NULL));
    CHECK_EQUAL(context_stats(loaded).pages, 150);
    CHECK_OK(mmsb_context_destroy(loaded));
    CHECK_OK(mmsb_context_destroy(context));
    clear_folder();
    folder_end();
}

static void is_forked(void) {
    mmsb_context_t context = 0;
    CHECK_STATUS(mmsb_context_create(NULL, &context), MMSB_E_FORKED);
    CHECK(strcmp(mmsb_version(), MMSB_VERSION_STRING) == 0);
}

static void use_then_fork(void) {
    use();
    CHECK_EQUAL(exit_status(fork_to(is_forked)), 0);
    use();
}

/* --------------------------------------------------------------------------------------------------------- cases ---- */

static int has_handler(int signal) {
    struct sigaction action;
    REQUIRE(sigaction(signal, NULL, &action) == 0);
    return action.sa_handler != SIG_DFL;
}

static void nothing_runs_before_it(void) {
    mmsb_page_options_t page;
    mmsb_page_options_init(&page);
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_EQUAL(page.struct_size, sizeof page);
    CHECK_EQUAL(delta.struct_size, sizeof delta);
    CHECK_EQUAL(mmsb_sizeof(MMSB_STRUCT_RUN), sizeof(mmsb_run_t));
    CHECK_EQUAL(mmsb_abi_version(), MMSB_ABI_VERSION);
    CHECK(strcmp(mmsb_version(), MMSB_VERSION_STRING) == 0);
    CHECK(strncmp(mmsb_strerror(MMSB_E_FORKED), "MMSB_E_FORKED", 13) == 0);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_OK);
    CHECK(mmsb_last_error()[0] == 0);
    CHECK_EQUAL(mmsb_last_error_detail(&detail), MMSB_OK);
    CHECK_EQUAL(threads(), 1);
    CHECK(!has_handler(SIGPIPE));
    CHECK(strstr(mmsb_build_info(), "go1.") != NULL); /* asks Go */
    CHECK(threads() > 1);
    CHECK(has_handler(SIGPIPE));
}

static void children_and_their_parent_use_the_library(void) {
    pid_t children[2 * CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork_to(use_then_fork);
    }
    CHECK_EQUAL(threads(), 1);
    for (int i = CHILDREN; i < 2 * CHILDREN; i++) {
        children[i] = fork_to(use);
    }
    use();
    CHECK_EQUAL(exit_status(fork_to(is_forked)), 0);
    for (int i = 0; i < 2 * CHILDREN; i++) {
        CHECK_EQUAL(exit_status(children[i]), 0);
    }
    use_then_fork();
}

static void become_a_daemon(void) {
    REQUIRE(setsid() >= 0);
    CHECK_EQUAL(exit_status(fork_to(use_then_fork)), 0); /* a real one would not wait */
}

static void a_daemon_forks_twice(void) {
    CHECK_EQUAL(exit_status(fork_to(become_a_daemon)), 0);
}

/* Exit status 0 where the child can use the library, 1 where it is FORKED; anything else, and a hang, is a failure. */
static int tried_in_a_child(void) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(SECONDS);
        mmsb_context_t context;
        mmsb_status_t status = mmsb_context_create(NULL, &context);
        if (status == MMSB_E_FORKED) {
            _exit(mmsb_last_error_code() == MMSB_E_FORKED ? 1 : 2);
        }
        _exit(status == MMSB_OK && mmsb_page_destroy(new_page(context, 5000)) == MMSB_OK ? 0 : 3);
    }
    return exit_status(child);
}

static pthread_barrier_t together;

static void *call_first(void *argument) {
    (void)argument;
    pthread_barrier_wait(&together);
    CHECK_OK(mmsb_context_destroy(new_context()));
    return NULL;
}

__attribute__((unused)) static void forks_during_it(void) {
    enum { THREADS = 3 };
    pthread_t callers[THREADS];
    REQUIRE(pthread_barrier_init(&together, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&callers[i], NULL, call_first, NULL) == 0);
    }
    CHECK_EQUAL(tried_in_a_child(), 0);
    pthread_barrier_wait(&together);
    for (int i = 0, before = 0; i < 10; i++) {
        int now = tried_in_a_child();
        CHECK(now == 1 || (now == 0 && before == 0)); /* once FORKED, always FORKED */
        before = now;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(callers[i], NULL);
    }
    CHECK_EQUAL(tried_in_a_child(), 1);
    use();
}

/* The first caller may use one processor only, and gets no signals. Go starts on all that the process may use, and counts those.
 */
static void *call_from_one_processor(void *argument) {
    const cpu_set_t *all = argument;
    cpu_set_t one, now;
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, all)) {
            CPU_SET(i, &one);
        }
    }
    sigset_t signals;
    sigfillset(&signals);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &signals, NULL) == 0);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    use();
    CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one));
    return NULL;
}

static int threads_on(const cpu_set_t *processors) {
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    int count = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        cpu_set_t its;
        pid_t thread = (pid_t)strtol(task->d_name, NULL, 10);
        count += thread != 0 && sched_getaffinity(thread, sizeof its, &its) == 0 && CPU_EQUAL(&its, processors);
    }
    closedir(tasks);
    return count;
}

static void it_may_come_from_a_bound_thread(void) {
    static cpu_set_t all;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    pthread_t caller;
    REQUIRE(pthread_create(&caller, NULL, call_from_one_processor, &all) == 0);
    pthread_join(caller, NULL);
    CHECK(threads_on(&all) > 1); /* not this thread alone */
}

static void end_well(int signal) {
    (void)signal;
    _exit(0);
}

static void crash(void) {
    struct sigaction action = {.sa_handler = end_well, .sa_flags = SA_ONSTACK};
    REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
    use();
    *(volatile int *)(uintptr_t)64 = 1;
    CHECK(!"no signal came");
}

static void handlers_that_were_there_get_their_signals(void) {
    CHECK_EQUAL(exit_status(fork_to(crash)), 0);
}

/* The library's threads take no signal away from a program that blocks it later, and waits for it. The caller blocks none. */
static void its_threads_take_no_signals(void) {
    static const int numbers[] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGALRM};
    use();
    sigset_t signals, blocked;
    sigemptyset(&signals);
    REQUIRE(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        CHECK(!sigismember(&blocked, numbers[i]));
        sigaddset(&signals, numbers[i]);
    }
    REQUIRE(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int came = 0;
        REQUIRE(kill(getpid(), numbers[i]) == 0);
        CHECK(sigwait(&signals, &came) == 0);
        CHECK_EQUAL(came, numbers[i]);
    }
}

#ifndef __SANITIZE_ADDRESS__ /* which takes more addresses than that */
static void it_fails_and_comes_again(void) {
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
    REQUIRE(setrlimit(RLIMIT_AS, &(struct rlimit){UINT64_C(8) << 30, limit.rlim_max}) == 0);
    mmsb_context_t context = 42;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(mmsb_context_create(NULL, &context), MMSB_E_OUT_OF_MEMORY);
        CHECK(strstr(mmsb_last_error(), "ulimit -v") != NULL);
        CHECK_EQUAL(context, 42);
        CHECK_EQUAL(threads(), 1);
    }
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK_EQUAL(exit_status(fork_to(use)), 0); /* nothing of the library had started */
    use();
}
#endif

static void it_leaves_the_limit_of_descriptors(void) {
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max > 64);
    limit.rlim_cur = limit.rlim_max / 2; /* Go raises what is below the other one */
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    use();
    const rlim_t before = limit.rlim_cur;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == before);
}

static int descriptors_left;

/* The process may have this many descriptors more than it has. */
static void create_with_few_descriptors(void) {
    const int lowest = dup(0);
    REQUIRE(lowest >= 0 && close(lowest) == 0);
    const rlim_t most = (rlim_t)(lowest + descriptors_left);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) == 0);
    mmsb_context_t context;
    mmsb_status_t status = mmsb_context_create(NULL, &context);
    CHECK(status == MMSB_OK || status == MMSB_E_LIMIT);
    CHECK_EQUAL(status, descriptors_left < 6 ? MMSB_E_LIMIT : MMSB_OK);
    CHECK(status == MMSB_OK || strstr(mmsb_last_error(), "RLIMIT_NOFILE") != NULL);
}

static void it_fails_with_few_descriptors(void) {
    for (int i = 0; i < 12; i++) {
        descriptors_left = i;
        CHECK_EQUAL(exit_status(fork_to(create_with_few_descriptors)), 0);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"nothing_runs_before_it", nothing_runs_before_it},
    {"children_and_their_parent_use_the_library", children_and_their_parent_use_the_library},
    {"a_daemon_forks_twice", a_daemon_forks_twice},
#ifndef __SANITIZE_ADDRESS__ /* whose allocator a child may find locked: it waited for ever in one run of three */
    {"forks_during_it", forks_during_it},
    {"forks_during_it, once more", forks_during_it},
    {"forks_during_it, a third time", forks_during_it},
#endif
    {"it_may_come_from_a_bound_thread", it_may_come_from_a_bound_thread},
    {"handlers_that_were_there_get_their_signals", handlers_that_were_there_get_their_signals},
    {"its_threads_take_no_signals", its_threads_take_no_signals},
#ifndef __SANITIZE_ADDRESS__
    {"it_fails_and_comes_again", it_fails_and_comes_again},
#endif
    {"it_leaves_the_limit_of_descriptors", it_leaves_the_limit_of_descriptors},
    {"it_fails_with_few_descriptors", it_fails_with_few_descriptors},
};

static pid_t started_again(const char *name) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(SECONDS);
        execl(program, program, name, (char *)NULL);
        _exit(127);
    }
    return child;
}

int main(int count, char **arguments) {
    program = arguments[0];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (count > 1 && strcmp(arguments[1], cases[i].name) == 0) {
            cases[i].run();
            return check_failures != 0;
        }
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_begin(cases[i].name);
        CHECK_EQUAL(exit_status(started_again(cases[i].name)), 0);
        check_end();
    }
    return check_report();
}
