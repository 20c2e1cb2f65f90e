/* Another Go shared library in the same process, loaded later or together with this one: both work, with collections in both. */
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

static void two_go_libraries_live_together(void) {
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

static void in_either_order_of_loading(void) {
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", SECOND_LIBRARY, 1);
        alarm(CHECK_PATIENCE);
        execl(program, program, "preloaded", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 1) {
        two_go_libraries_live_together();
        return check_failures != 0;
    }
    RUN(two_go_libraries_live_together);
#ifndef __SANITIZE_ADDRESS__ /* which must itself be loaded first */
    RUN(in_either_order_of_loading);
#else
    (void)in_either_order_of_loading;
#endif
    return check_report();
}
