/* Handlers of the program that may not run where Go runs: signals.h. */
#define _GNU_SOURCE
#include "signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

int mmsb__signals_unsafe(int after, char *where, size_t capacity) {
    for (int number = after + 1; number <= SIGRTMAX; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN ||
            (action.sa_flags & SA_ONSTACK))
            continue;
        Dl_info found = {0};
        void *handler = (void *)(uintptr_t)action.sa_handler;
        if (dladdr(handler, &found) != 0 && found.dli_sname)
            snprintf(where, capacity, "%s", found.dli_sname);
        else
            snprintf(where, capacity, "%s at %p", found.dli_fname ? found.dli_fname : "handler", handler);
        return number;
    }
    return 0;
}
