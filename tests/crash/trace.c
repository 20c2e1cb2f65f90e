/* Workers under ptrace. */
#include "trace.h"
#include "disk.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 256, PATIENCE = 1500000 /* microseconds for a step that does not come */ };

typedef struct thread {
    pid_t id;
    uint32_t worker;
    stage_t step; /* whose call it is in */
    int counted;  /* it is the one that the plan waited for */
} thread_t;

static thread_t threads[THREADS];
static uint32_t thread_count;
static stage_t save_stages[2]; /* how far each worker's save is */

static uint64_t now_microseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* ------------------------------------------------------------------------------------------------------- starting ---- */

#define TRACED(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)
#define REFUSED(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO)
#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

/* Calls that seem to succeed and do nothing, for the twins that want such a system. */
static void install_refusals(int twin) {
    struct sock_filter syncs[] = {LOAD_NUMBER, REFUSED(fsync), REFUSED(fdatasync), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_filter removes[] = {
        LOAD_NUMBER,
        REFUSED(unlinkat),
#ifdef __NR_unlink
        REFUSED(unlink),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof syncs / sizeof syncs[0], syncs};
    if (twin == TWIN_NO_REMOVE) {
        program = (struct sock_fprog){sizeof removes / sizeof removes[0], removes};
    }
    if ((twin == TWIN_NO_REMOVE || twin == TWIN_NO_SYNC) && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(126);
    }
}

/* Only these calls stop: all others run at their own speed. */
static void install_filter(int twin) {
    struct sock_filter filter[] = {
        LOAD_NUMBER,
        TRACED(write),
        TRACED(pwrite64),
        TRACED(pwritev),
        TRACED(fsync),
        TRACED(fdatasync),
        TRACED(ftruncate),
        TRACED(renameat),
        TRACED(renameat2),
        TRACED(unlinkat),
#ifdef __NR_rename
        TRACED(rename),
        TRACED(unlink),
#endif
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(126);
    }
    install_refusals(twin);
}

static pid_t start_worker(const char *program, const shared_t *shared, int descriptor, uint32_t number) {
    pid_t id = fork();
    if (id == 0) {
        char first[16], second[16];
        snprintf(first, sizeof first, "%d", descriptor);
        snprintf(second, sizeof second, "%u", number);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(125);
        }
        raise(SIGSTOP);
        install_filter(shared->twin);
        execl(program, program, first, second, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (id < 0 || waitpid(id, &status, __WALL) != id || !WIFSTOPPED(status)) {
        GIVE_UP("no worker that can be traced: ptrace is not allowed here");
    }
    long options = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;
    if (ptrace(PTRACE_SETOPTIONS, id, NULL, options) != 0) {
        GIVE_UP("cannot trace a worker");
    }
    threads[thread_count++] = (thread_t){.id = id, .worker = number};
    save_stages[number] = STAGE_BEGINNING;
    ptrace(PTRACE_CONT, id, NULL, NULL);
    return id;
}

/* --------------------------------------------------------------------------------------------------- system calls ---- */

static thread_t *thread_of(pid_t id, const pid_t *workers, uint32_t count) {
    for (uint32_t i = 0; i < thread_count; i++) {
        if (threads[i].id == id) {
            return &threads[i];
        }
    }
    if (thread_count == THREADS) {
        GIVE_UP("a worker has too many threads");
    }
    threads[thread_count] = (thread_t){.id = id};
    for (uint32_t worker = 0; worker < count; worker++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task/%d", (int)workers[worker], (int)id);
        if (access(path, F_OK) == 0) {
            threads[thread_count].worker = worker;
        }
    }
    return &threads[thread_count++];
}

static void forget_thread(pid_t id) {
    for (uint32_t i = 0; i < thread_count; i++) {
        if (threads[i].id == id) {
            threads[i] = threads[--thread_count];
            return;
        }
    }
}

static void descriptor_path(pid_t id, uint64_t descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)id, (int)descriptor);
    ssize_t length = readlink(link, path, PATH - 1);
    path[length > 0 ? length : 0] = 0;
}

static void argument_path(pid_t id, uint64_t address, char *path) {
    struct iovec here = {path, PATH - 1}, there = {(void *)(uintptr_t)address, PATH - 1};
    ssize_t length = process_vm_readv(id, &here, 1, &there, 1, 0);
    if (length <= 0) { /* the string ends before the next system page does */
        there.iov_len = here.iov_len = 4096 - address % 4096 < PATH - 1 ? 4096 - address % 4096 : PATH - 1;
        length = process_vm_readv(id, &here, 1, &there, 1, 0);
    }
    path[length > 0 ? length : 0] = 0;
}

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* What a call is a step of. path becomes the file's, of a rename the old name. */
static stage_t step_of(const shared_t *shared, pid_t id, const struct __ptrace_syscall_info *info, char *path) {
    const uint64_t *args = info->seccomp.args;
    path[0] = 0;
    enum { WRITES, SYNCS, RENAMES, REMOVES, CREATES, CUTS } what;
    switch (info->seccomp.nr) {
    case __NR_write:
    case __NR_pwrite64:
    case __NR_pwritev:
        what = WRITES;
        descriptor_path(id, args[0], path);
        break;
    case __NR_fsync:
    case __NR_fdatasync:
        what = SYNCS;
        descriptor_path(id, args[0], path);
        break;
    case __NR_ftruncate:
        what = CUTS;
        descriptor_path(id, args[0], path);
        break;
    case __NR_renameat:
    case __NR_renameat2:
        what = RENAMES;
        argument_path(id, args[1], path);
        break;
    case __NR_unlinkat:
        what = REMOVES;
        argument_path(id, args[1], path);
        break;
    case __NR_openat:
        what = CREATES;
        argument_path(id, args[1], path);
        break;
#ifdef __NR_rename
    case __NR_rename:
        what = RENAMES;
        argument_path(id, args[0], path);
        break;
    case __NR_unlink:
        what = REMOVES;
        argument_path(id, args[0], path);
        break;
#endif
    default:
        return STEP_NONE;
    }
    size_t length = strlen(shared->directory);
    if (strncmp(path, shared->directory, length) != 0 || (path[length] != '/' && path[length] != 0)) {
        return STEP_NONE;
    }
    int in_journal = strncmp(path + length, "/journal", 8) == 0;
    int is_temporary = ends_with(path, ".tmp");
    struct stat file;
    int is_folder = what == SYNCS && stat(path, &file) == 0 && S_ISDIR(file.st_mode);
    switch (what) {
    case WRITES:
        return !in_journal ? STEP_WRITE : is_temporary ? STEP_SEGMENT : STEP_FRAME;
    case SYNCS:
        if (is_folder) {
            return in_journal ? STEP_SYNC_JOURNAL : STEP_SYNC_FOLDER;
        }
        return !in_journal ? STEP_SYNC : is_temporary ? STEP_SEGMENT : STEP_COMMIT;
    case RENAMES:
        return in_journal ? STEP_NAME : STEP_RENAME;
    case REMOVES:
        return in_journal ? STEP_DROP : is_temporary ? STEP_SWEEP : STEP_NONE;
    case CUTS:
        return in_journal ? STEP_CUT : STEP_NONE;
    case CREATES:
        return !is_temporary ? STEP_NONE : in_journal ? STEP_SEGMENT : STEP_CREATE;
    }
    return STEP_NONE;
}

static stage_t stage_after(stage_t step, stage_t before) {
    switch (step) {
    case STEP_CREATE:
    case STEP_WRITE:
        return STAGE_FILLING;
    case STEP_SYNC:
        return STAGE_FINISHING;
    case STEP_RENAME:
        return STAGE_RENAMED;
    case STEP_SYNC_FOLDER:
        return STAGE_RETURNING;
    default:
        return before;
    }
}

/* Where a kill falls that comes now: of a pair, the first worker that is in something. */
static stage_t stage_now(const shared_t *shared, uint32_t count) {
    stage_t stage = STAGE_OUTSIDE;
    for (uint32_t worker = count; worker-- > 0;) {
        if (!shared->workers[worker].ready) {
            stage = STAGE_RESTORING;
        } else if (shared->workers[worker].inside == IN_SAVE) {
            stage = save_stages[worker];
        } else if (shared->workers[worker].inside == IN_COMMIT) {
            stage = STAGE_APPENDING;
        }
    }
    for (uint32_t i = 0; i < thread_count; i++) {
        if (threads[i].step != STEP_NONE && (stage >= STEPS || threads[i].step > stage)) {
            stage = threads[i].step;
        }
    }
    return stage;
}

/* -------------------------------------------------------------------------------------------------------- running ---- */

typedef struct run {
    shared_t *shared;
    const plan_t *plan;
    uint32_t count;
    pid_t ids[2];
    uint32_t left; /* workers that have not ended */
    uint32_t seen; /* occurrences of the planned step */
    uint64_t deadline;
    int planned; /* whether the deadline counts from when it should */
    outcome_t outcome;
} run_t;

static void on_alarm(int signal) {
    (void)signal; /* it interrupts the wait */
}

static void kill_all(run_t *run) {
    run->outcome.stage = stage_now(run->shared, run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        kill(run->ids[i], SIGKILL);
    }
    while (run->left > 0) {
        int status = 0;
        pid_t id = waitpid(-1, &status, __WALL);
        if (id < 0) {
            if (errno == EINTR) {
                continue;
            }
            break;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            for (uint32_t i = 0; i < run->count; i++) {
                run->left -= id == run->ids[i];
            }
        } else {
            ptrace(PTRACE_CONT, id, NULL, NULL); /* a stop from before the kill */
        }
    }
}

/* A thread has begun a call. 1 = kill now. */
static int call_begins(run_t *run, thread_t *thread) {
    struct __ptrace_syscall_info info;
    char path[PATH];
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread->id, sizeof info, &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_SECCOMP) {
        return 0;
    }
    thread->step = step_of(run->shared, thread->id, &info, path);
    thread->counted = 0;
    if (thread->step == STEP_NONE) {
        return 0;
    }
    if (run->plan->power_cut && (info.seccomp.nr == __NR_fsync || info.seccomp.nr == __NR_fdatasync)) {
        disk_sync_begins(thread->id, path);
    }
    if (thread->step != run->plan->step || run->outcome.reached ||
        !(run->plan->restoring || run->shared->workers[thread->worker].ready) || ++run->seen != run->plan->occurrence) {
        return 0;
    }
    run->outcome.reached = 1;
    if (run->plan->moment == DURING) {
        run->deadline = now_microseconds() + run->plan->microseconds;
    }
    thread->counted = 1;
    return run->plan->moment == BEFORE;
}

static int call_ended(run_t *run, thread_t *thread) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread->id, sizeof info, &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_EXIT) {
        return 0;
    }
    if (run->plan->power_cut) {
        disk_sync_ended(thread->id, !info.exit.is_error);
    }
    save_stages[thread->worker] = stage_after(thread->step, save_stages[thread->worker]);
    thread->step = STEP_NONE;
    return thread->counted && run->plan->moment == AFTER;
}

/* One report of waitpid. 1 = kill now. */
static int one_event(run_t *run, pid_t id, int status) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
        for (uint32_t i = 0; i < run->count; i++) {
            if (id == run->ids[i]) {
                run->left--;
                int died = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                run->outcome.died = died != 0 ? died : run->outcome.died;
            }
        }
        forget_thread(id);
        return run->outcome.died != 0;
    }
    thread_t *thread = thread_of(id, run->ids, run->count);
    int signal = WSTOPSIG(status), event = status >> 16, kills = 0;
    enum __ptrace_request next = PTRACE_CONT;
    if (signal == (SIGTRAP | 0x80)) {
        kills = call_ended(run, thread);
        signal = 0;
    } else if (signal == SIGTRAP && event == PTRACE_EVENT_SECCOMP) {
        kills = call_begins(run, thread);
        next = thread->step != STEP_NONE ? PTRACE_SYSCALL : PTRACE_CONT;
        signal = 0;
    } else if (event != 0 || signal == SIGSTOP) { /* a new thread or program */
        signal = 0;
    }
    if (!kills) {
        ptrace(next, id, NULL, (long)signal);
    }
    return kills;
}

/* The time of a kill begins when all have restored. */
static int time_is_over(run_t *run) {
    int ready = 1;
    for (uint32_t i = 0; i < run->count; i++) {
        ready = ready && run->shared->workers[i].ready;
    }
    if (ready) {
        run->shared->go = 1;
    }
    if (!run->planned && (ready || run->plan->restoring)) {
        run->planned = 1;
        run->deadline = now_microseconds() + (run->plan->step == STEP_NONE ? run->plan->microseconds : PATIENCE);
    }
    return run->planned && now_microseconds() >= run->deadline;
}

static int first_is_ready(const run_t *run) {
    return run->shared->workers[0].ready;
}

outcome_t run_workers(const char *program, shared_t *shared, int descriptor, uint32_t count, const plan_t *plan) {
    run_t run = {.shared = shared, .plan = plan, .count = 1, .left = 1};
    static int handles;
    if (!handles) {
        struct sigaction action = {.sa_handler = on_alarm};
        sigaction(SIGALRM, &action, NULL);
        handles = 1;
    }
    thread_count = 0;
    shared->go = 0;
    for (uint32_t i = 0; i < 2; i++) {
        shared->workers[i].ready = 0;
        shared->workers[i].inside = OUTSIDE;
        shared->workers[i].failure[0] = 0;
    }
    run.ids[0] = start_worker(program, shared, descriptor, 0);
    struct itimerval ticks = {{0, 500}, {0, 500}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &ticks, NULL);
    while (run.left > 0) {
        if (run.count < count && first_is_ready(&run)) {
            setitimer(ITIMER_REAL, &none, NULL);
            run.ids[1] = start_worker(program, shared, descriptor, 1);
            run.count = 2;
            run.left++;
            setitimer(ITIMER_REAL, &ticks, NULL);
        }
        if (run.count == count && shared->goal == GOAL_RUN && time_is_over(&run)) {
            kill_all(&run);
            break;
        }
        int status = 0;
        pid_t id = waitpid(-1, &status, __WALL);
        if (id > 0 && one_event(&run, id, status)) {
            kill_all(&run);
            break;
        }
        if (id < 0 && errno != EINTR) {
            GIVE_UP("waiting for workers");
        }
    }
    setitimer(ITIMER_REAL, &none, NULL);
    return run.outcome;
}
