/* Another Go shared library in the same process, started before this one or after it: both work, with collections in both. */
#include "library.h"

#include <dlfcn.h>
#include <sys/wait.h>

static char *program;

typedef struct second {
    uint64_t (*work)(uint64_t);
    mmsb_context_t context;
} second_t;

static void *use_both(void *argument) {
    team_member_t *member = argument;
    const second_t *second = member->shared;
    for (uint64_t i = 0; i < 200; i++) {
        mmsb_page_t page = new_page(second->context, 2000);
        write_pattern(page, i);
        CHECK_EQUAL(second->work(100 + i), (100 + i) * (99 + i) / 2);
        CHECK_OK(mmsb_page_metadata_set(page, "key", 3, "value", 5));
        mmsb_page_t clone;
        CHECK_OK(mmsb_page_clone(page, 0, &clone));
        CHECK(page_holds_pattern(clone, i, 2000));
        mmsb_memory_usage_t usage; /* asks the runtime for its heap, so its world stops */
        mmsb_memory_usage_init(&usage);
        CHECK_OK(mmsb_memory_usage(&usage));
        CHECK_OK(mmsb_page_destroy(page));
        CHECK_OK(mmsb_page_destroy(clone));
        CHECK_STATUS(mmsb_page_destroy(clone), MMSB_E_STALE_HANDLE);
    }
    return NULL;
}

static void use_another_go_library(void) {
    void *library = dlopen(SECOND_LIBRARY, RTLD_NOW);
    if (library == NULL) {
        check_fail(__FILE__, __LINE__, "%s", dlerror());
        return;
    }
    second_t second = {0};
    *(void **)&second.work = dlsym(library, "secondWork");
    REQUIRE(second.work != NULL);
    second.context = new_context();
    run_team(8, use_both, &second);
    CHECK_OK(mmsb_context_destroy(second.context));
}

/* The first call of this one starts its Go. */
static void the_other_starts_later(void) {
    CHECK_OK(mmsb_context_destroy(new_context()));
    use_another_go_library();
}

static void the_other_starts_first(void) {
    use_another_go_library();
}

static void in_a_process_of_its_own(const char *mode, const char *preload) {
    pid_t child = fork();
    if (child == 0) {
        if (preload != NULL) {
            setenv("LD_PRELOAD", preload, 1);
        }
        alarm(CHECK_PATIENCE);
        execl(program, program, mode, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void two_go_libraries_live_together(void) {
    in_a_process_of_its_own("later", NULL);
}

static void in_either_order_of_starting(void) {
    in_a_process_of_its_own("first", NULL);
}

#ifndef __SANITIZE_ADDRESS__ /* which must itself be loaded first */
static void in_either_order_of_loading(void) {
    in_a_process_of_its_own("first", SECOND_LIBRARY);
}
#endif

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 1) {
        (strcmp(arguments[1], "later") == 0 ? the_other_starts_later : the_other_starts_first)();
        return check_failures != 0;
    }
    RUN(two_go_libraries_live_together);
    RUN(in_either_order_of_starting);
#ifndef __SANITIZE_ADDRESS__
    RUN(in_either_order_of_loading);
#endif
    return check_report();
}
