/* on_gpu.h — before the rest of a test of tests/c: where it asks for simulated devices it gets this machine's GPUs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* what the test includes needs it before every other header */
#endif

#include <mmsb.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#undef MMSB_SIMULATE_ALWAYS
#define MMSB_SIMULATE_ALWAYS MMSB_SIMULATE_OFF

/* Without a GPU no test is run. A child asks: the tests are forked from a process that has not called the library. */
__attribute__((constructor)) static void without_a_gpu_nothing_is_run(void) {
    const pid_t child = fork();
    if (child == 0) {
        mmsb_context_t context;
        size_t count = 0;
        const int none =
            mmsb_context_create(NULL, &context) == MMSB_OK && mmsb_device_list(context, NULL, 0, &count) == MMSB_E_NO_DEVICE;
        if (none)
            printf("not run: %s\n", mmsb_last_error());
        fflush(stdout);
        _exit(none ? 1 : 0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1)
        exit(0);
}
