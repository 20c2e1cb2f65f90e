/*
 * Strange systems: system calls that are denied or fail, no /proc and no /sys, limits, full and foreign file systems. Each row
 * of a table is a child that makes itself such a system and does work.c's steps: each must work, slower perhaps, or give an error
 * that the row names. What the table names must happen, too: it is what the documents say. No child may end by a signal, hang,
 * or read other bytes than it wrote.
 *
 * What the machine does not allow to be made (user namespaces, filters of system calls) is skipped, and the reason printed.
 * With arguments only the rows whose names contain one of them are run.
 */
#include "../check.h"

#include "work.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mmsb.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef O_TMPFILE
#error "O_TMPFILE is needed"
#endif

enum { SKIPPED = 77, HANGS_AFTER = 120 /* seconds */, MOST_DENIED = 48 };

/* --------------------------------------------------------------------------------------------- making a system ---- */

/* A system call that is denied: always, or where bits of an argument have a value. */
typedef struct denied {
    long number;
    int argument; /* with bits != 0 */
    uint32_t bits, value;
} denied_t;

typedef struct row {
    const char *name;
    const char *errors; /* "step=STATUS …" that must happen; "step?STATUS" may happen */
    void (*prepare)(const struct row *row);
    const denied_t *denied;
    int denied_count;
    int error; /* of the calls that are denied */
    int late;  /* the library has started before */
    int resource;
    uint64_t limit;
} row_t;

static char folder[256]; /* of the row's files */

/* The row's system cannot be made here. */
__attribute__((format(printf, 1, 2), noreturn)) static void skip(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stdout, format, arguments);
    va_end(arguments);
    fflush(stdout);
    _exit(SKIPPED);
}

static void write_text(const char *path, const char *text) {
    const int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        skip("cannot write %s: %s", path, strerror(errno));
    close(file);
}

static void deny(const row_t *row) {
#ifdef __x86_64__
    const uint32_t architecture = AUDIT_ARCH_X86_64;
#else
    const uint32_t architecture = AUDIT_ARCH_AARCH64;
#endif
    struct sock_filter filter[4 + MOST_DENIED * 6];
    unsigned short length = 0;
#define PUT(...) filter[length++] = (struct sock_filter)__VA_ARGS__
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, architecture, 1, 0));
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    for (int i = 0; i < row->denied_count; i++) {
        const denied_t *call = &row->denied[i];
        const uint32_t answer = SECCOMP_RET_ERRNO | (uint32_t)row->error;
        PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
        if (call->bits == 0) {
            PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call->number, 0, 1));
        } else {
            PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call->number, 0, 4));
            PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (size_t)call->argument)));
            PUT(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, call->bits));
            PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->value, 0, 1));
        }
        PUT(BPF_STMT(BPF_RET | BPF_K, answer));
    }
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
#undef PUT
    const struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        skip("no filters of system calls: %s", strerror(errno));
}

static void set_limit(const row_t *row) {
    struct rlimit limit;
    if (getrlimit(row->resource, &limit) != 0)
        skip("cannot ask for limit %d: %s", row->resource, strerror(errno));
    limit.rlim_cur = row->limit;
    if (row->resource == RLIMIT_AS) {
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (file == NULL || fscanf(file, "%lu", &pages) != 1)
            skip("cannot read /proc/self/statm: %s", strerror(errno));
        fclose(file);
        limit.rlim_cur += pages * 4096; /* what the program itself has does not count */
    }
    if (setrlimit(row->resource, &limit) != 0)
        skip("cannot set limit %d: %s", row->resource, strerror(errno));
}

/* A user with a user and a mount namespace of its own, who is nobody outside of it. */
static void unshare_mounts(void) {
    const unsigned user = getuid(), group = getgid();
    char text[64];
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        skip("no user namespaces: %s", strerror(errno));
    write_text("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "0 %u 1", user);
    write_text("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %u 1", group);
    write_text("/proc/self/gid_map", text);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        skip("no private mounts: %s", strerror(errno));
}

static void mount_or_skip(const char *what, const char *at, const char *options) {
    if (mount(what, at, what, 0, options) != 0)
        skip("cannot mount a %s: %s", what, strerror(errno));
}

static void hide_proc(const row_t *row) {
    (void)row;
    unshare_mounts();
    mount_or_skip("tmpfs", "/proc", NULL);
}

static void hide_sys(const row_t *row) {
    (void)row;
    unshare_mounts();
    mount_or_skip("tmpfs", "/sys", NULL);
}

static void hide_both(const row_t *row) {
    hide_proc(row);
    mount_or_skip("tmpfs", "/sys", NULL);
}

static void mount_tmpfs(const row_t *row) {
    (void)row;
    unshare_mounts();
    mount_or_skip("tmpfs", folder, NULL);
}

static void mount_small(const row_t *row) {
    char options[64];
    snprintf(options, sizeof options, "size=%llu", (unsigned long long)row->limit);
    unshare_mounts();
    mount_or_skip("tmpfs", folder, options);
}

static void mount_overlay(const row_t *row) {
    char options[1024];
    (void)row;
    unshare_mounts();
    mount_or_skip("tmpfs", folder, NULL);
    static const char *const parts[] = {"lower", "upper", "work", "merged"};
    for (int i = 0; i < 4; i++) {
        char part[512];
        snprintf(part, sizeof part, "%s/%s", folder, parts[i]);
        if (mkdir(part, 0700) != 0)
            skip("cannot make %s: %s", part, strerror(errno));
    }
    snprintf(options, sizeof options, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work,userxattr", folder, folder, folder);
    strncat(folder, "/merged", sizeof folder - strlen(folder) - 1);
    mount_or_skip("overlay", folder, options);
}

static void mount_read_only(const char *path) {
    unshare_mounts();
    if (mount(path, path, NULL, MS_BIND, NULL) != 0 || mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        skip("cannot make a folder read-only: %s", strerror(errno));
}

static void make_read_only(const row_t *row) {
    (void)row;
    mount_read_only(folder);
}

/* A store that was written before, by a process that has ended. */
static void put_store_on_read_only_media(const row_t *row) {
    char directory[512];
    (void)row;
    const pid_t child = fork();
    int status = -1;
    if (child == 0)
        _exit(make_store(folder) != 0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        _exit(5);
    snprintf(directory, sizeof directory, "%s/kept", folder);
    mount_read_only(directory);
}

static void block_signals(const row_t *row) {
    (void)row;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void bind_to_one(const row_t *row) {
    (void)row;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        skip("cannot bind to a processor: %s", strerror(errno));
}

/* Only who is not root has a limit of threads. */
static void limit_threads(const row_t *row) {
    if (geteuid() != 0)
        skip("not root, so that other processes count, too");
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
        skip("cannot become nobody: %s", strerror(errno));
    set_limit(row);
}

static void close_standard(const row_t *row) {
    (void)row;
    close(0); /* 1 and 2 are the test's */
}

/* ------------------------------------------------------------------------------------------------------ the tables ---- */

/* One system call that a system may do without, or deny: with EPERM, as sandboxes do, and with ENOSYS, as old kernels do. */
typedef struct denial {
    const char *name;
    denied_t call;
    const char *if_denied, *if_missing;
} denial_t;

#define CALL(name) {SYS_##name, 0, 0, 0}

static const denial_t denials[] = {
    {"cachestat", {SYS_cachestat, 0, 0, 0}, "", ""},
    {"clone3", CALL(clone3), "all=UNSUPPORTED", ""},
    {"copy_file_range", CALL(copy_file_range), "", ""},
    {"epoll_create1", CALL(epoll_create1), "all=UNSUPPORTED", "all=UNSUPPORTED"},
    {"eventfd2", CALL(eventfd2), "all=UNSUPPORTED", "all=UNSUPPORTED"},
    {"fadvise64", CALL(fadvise64), "", ""},
    {"fallocate", CALL(fallocate), "", ""},
    {"fcntl, all locks", {SYS_fcntl, 1, 0, 0}, "", ""},
    {"fdatasync", CALL(fdatasync), "journal=NOT_DURABLE store=NOT_DURABLE", "journal=NOT_DURABLE store=NOT_DURABLE"},
    {"flock", CALL(flock), "journal=IO store=IO", "journal=IO store=IO"},
    {"fsync", CALL(fsync), "save=IO journal=IO store=IO", "save=IO journal=IO store=IO"},
    {"get_mempolicy", CALL(get_mempolicy), "", ""},
    {"getrandom", CALL(getrandom), "all=UNSUPPORTED", ""},
    {"io_uring_enter", CALL(io_uring_enter), "", ""},
    {"io_uring_register", CALL(io_uring_register), "", ""},
    {"io_uring_setup", CALL(io_uring_setup), "", ""},
    {"ioctl", CALL(ioctl), "", ""},
    {"linkat", CALL(linkat), "", ""},
    {"madvise", CALL(madvise), "", ""},
    {"mbind", CALL(mbind), "", ""},
    {"membarrier", CALL(membarrier), "", ""},
    {"memfd_create", CALL(memfd_create), "device=UNSUPPORTED", "device=UNSUPPORTED"},
    {"mincore", CALL(mincore), "", ""},
    {"mlock", CALL(mlock), "", ""},
    {"mremap", CALL(mremap), "pages=OUT_OF_MEMORY save=OUT_OF_MEMORY journal=OUT_OF_MEMORY",
     "pages=OUT_OF_MEMORY save=OUT_OF_MEMORY journal=OUT_OF_MEMORY"},
    {"move_pages", CALL(move_pages), "", ""},
    {"O_TMPFILE", {SYS_openat, 2, O_TMPFILE, O_TMPFILE}, "", ""},
    {"prctl", CALL(prctl), "", ""},
    {"preadv", CALL(preadv), "", ""},
    {"preadv2", CALL(preadv2), "", ""},
    {"prlimit64", CALL(prlimit64), "", ""},
    {"pwritev", CALL(pwritev), "", ""},
    {"pwritev2", CALL(pwritev2), "", ""},
    {"readlinkat", CALL(readlinkat), "", ""},
    {"renameat2", CALL(renameat2), "", ""},
    {"sched_getaffinity", CALL(sched_getaffinity), "", ""},
    {"sched_setaffinity", CALL(sched_setaffinity), "", ""},
    {"sched_yield", CALL(sched_yield), "", ""},
    {"set_mempolicy", CALL(set_mempolicy), "", ""},
    {"set_robust_list", CALL(set_robust_list), "", ""},
    {"sigaltstack", CALL(sigaltstack), "all=UNSUPPORTED", "all=UNSUPPORTED"},
    {"statx", CALL(statx), "", ""},
    {"sync_file_range", CALL(sync_file_range), "", ""},
    {"sysinfo", CALL(sysinfo), "", ""},
    {"timer_create", CALL(timer_create), "", ""},
    {"timerfd_create", CALL(timerfd_create), "", ""},
    {"uname", CALL(uname), "", ""},
    {"userfaultfd", CALL(userfaultfd), "", ""},
};

/* What a container's usual profile denies (Docker's, of the calls that a program without privileges would make). */
static const denied_t container[] = {CALL(acct),
                                     CALL(add_key),
                                     CALL(bpf),
                                     CALL(clock_adjtime),
                                     CALL(clock_settime),
                                     CALL(delete_module),
                                     CALL(finit_module),
                                     CALL(get_mempolicy),
                                     CALL(init_module),
                                     CALL(io_uring_setup),
                                     CALL(io_uring_enter),
                                     CALL(io_uring_register),
                                     CALL(kcmp),
                                     CALL(kexec_load),
                                     CALL(keyctl),
                                     CALL(lookup_dcookie),
                                     CALL(mbind),
                                     CALL(mount),
                                     CALL(move_pages),
                                     CALL(name_to_handle_at),
                                     CALL(open_by_handle_at),
                                     CALL(perf_event_open),
                                     CALL(pivot_root),
                                     CALL(process_vm_readv),
                                     CALL(process_vm_writev),
                                     CALL(ptrace),
                                     CALL(quotactl),
                                     CALL(reboot),
                                     CALL(request_key),
                                     CALL(set_mempolicy),
                                     CALL(setns),
                                     CALL(settimeofday),
                                     CALL(swapon),
                                     CALL(swapoff),
                                     CALL(umount2),
                                     CALL(unshare),
                                     CALL(userfaultfd),
                                     CALL(vhangup)};

static const denied_t barriers[] = {CALL(membarrier)};

/* What is newer than Linux 3.17. */
static const denied_t since_3_17[] = {CALL(bpf),        CALL(execveat),        CALL(userfaultfd),    CALL(membarrier),
                                      CALL(mlock2),     CALL(copy_file_range), CALL(preadv2),        CALL(pwritev2),
                                      CALL(statx),      CALL(io_uring_setup),  CALL(io_uring_enter), CALL(io_uring_register),
                                      CALL(pidfd_open), CALL(clone3),          CALL(close_range),    CALL(openat2),
                                      CALL(faccessat2), CALL(process_madvise), CALL(epoll_pwait2),   {SYS_cachestat, 0, 0, 0}};

#define DENY(calls) .prepare = deny, .denied = (calls), .denied_count = sizeof(calls) / sizeof(calls)[0]
#define FAIL(call, errno_, errors_) \
    {.name = #call " fails: " #errno_, \
     .errors = errors_, \
     .prepare = deny, \
     .denied = (const denied_t[]){CALL(call)}, \
     .denied_count = 1, \
     .error = errno_}
#define LIMIT(resource_, limit_, errors_) \
    {.name = #resource_ " " #limit_, .errors = errors_, .prepare = set_limit, .resource = resource_, .limit = limit_}
#define MADE(name_, prepare_, errors_) {.name = name_, .errors = errors_, .prepare = prepare_}

static const row_t rows[] = {
    {.name = "nothing strange", .errors = ""},
    {.name = "a container's profile", .errors = "", DENY(container), .error = EPERM},
    {.name = "a container's profile, ENOSYS", .errors = "", DENY(container), .error = ENOSYS},
    {.name = "a kernel of 2014", .errors = "", DENY(since_3_17), .error = ENOSYS},
    {.name = "a sandbox that begins after the library", .errors = "", DENY(container), .error = EPERM, .late = 1},
    {.name = "a sandbox without barriers after the library", .errors = "", DENY(barriers), .error = EPERM, .late = 1},
    FAIL(fallocate, EOPNOTSUPP, ""),
    FAIL(fallocate, ENOSPC, "disk=NO_SPACE journal=NO_SPACE store=NO_SPACE"),
    FAIL(fallocate, EIO, ""),
    FAIL(pwrite64, EIO, "disk=IO save=IO journal=IO store=IO"),
    FAIL(pwrite64, ENOSPC, "disk=NO_SPACE save=NO_SPACE journal=NO_SPACE store=NO_SPACE"),
    FAIL(pwrite64, EDQUOT, "disk=NO_SPACE save=NO_SPACE journal=NO_SPACE store=NO_SPACE"),
    FAIL(pread64, EIO, "disk=IO save=IO journal=IO store=IO"),
    FAIL(ftruncate, EIO, "save=IO journal=IO store=IO device=OUT_OF_MEMORY"),
    FAIL(fsync, EIO, "save=IO journal=IO store=IO"),
    FAIL(fdatasync, EIO, "journal=NOT_DURABLE store=NOT_DURABLE"),
    FAIL(renameat, EIO, "save=IO journal=IO store=IO"),
    FAIL(mlock, ENOMEM, ""),
    LIMIT(RLIMIT_NOFILE, 64, ""),
    LIMIT(RLIMIT_NOFILE, 12, "all=LIMIT"),
    LIMIT(RLIMIT_FSIZE, 0, "disk=NO_SPACE save=NO_SPACE journal=NO_SPACE store=NO_SPACE device=OUT_OF_MEMORY"),
    LIMIT(RLIMIT_FSIZE, 1 << 20, "disk=NO_SPACE save=NO_SPACE journal=NO_SPACE store=NO_SPACE device=OUT_OF_MEMORY"),
    LIMIT(RLIMIT_FSIZE, 8 << 20, "journal=NO_SPACE store=NO_SPACE device=OUT_OF_MEMORY"),
    LIMIT(RLIMIT_MEMLOCK, 0, ""),
    LIMIT(RLIMIT_STACK, 256 << 10, ""),
    LIMIT(RLIMIT_CORE, 0, ""),
    LIMIT(RLIMIT_AS, 1ULL << 30, "all=OUT_OF_MEMORY"),
    LIMIT(RLIMIT_AS, 20ULL << 30, "all=OUT_OF_MEMORY"),
    LIMIT(RLIMIT_AS, 22ULL << 30, "all?OUT_OF_MEMORY"),
    LIMIT(RLIMIT_AS, 23ULL << 30, "all?OUT_OF_MEMORY"),
    LIMIT(RLIMIT_AS, 24ULL << 30, "all?OUT_OF_MEMORY"),
    LIMIT(RLIMIT_AS, 36ULL << 30, ""),
    LIMIT(RLIMIT_AS, 40ULL << 30, ""),
    LIMIT(RLIMIT_AS, 64ULL << 30, ""),
    {.name = "no threads", .errors = "all=LIMIT", .prepare = limit_threads, .resource = RLIMIT_NPROC, .limit = 1},
    {.name = "9 threads", .errors = "all=LIMIT", .prepare = limit_threads, .resource = RLIMIT_NPROC, .limit = 10},
    {.name = "40 threads", .errors = "", .prepare = limit_threads, .resource = RLIMIT_NPROC, .limit = 40},
    MADE("no /proc", hide_proc, ""),
    MADE("no /sys", hide_sys, ""),
    MADE("no /proc and no /sys", hide_both, ""),
    MADE("files on tmpfs", mount_tmpfs, ""),
    MADE("files on an overlay", mount_overlay, ""),
    {.name = "a disk of 1 MiB",
     .errors = "disk=NO_SPACE save=NO_SPACE journal=NO_SPACE store=NO_SPACE",
     .prepare = mount_small,
     .limit = 1 << 20},
    {.name = "a disk of 64 KiB",
     .errors = "disk=NO_SPACE save=NO_SPACE journal=NO_SPACE store=NO_SPACE",
     .prepare = mount_small,
     .limit = 64 << 10},
    MADE("a folder that is read-only", make_read_only, "all=IO"),
    MADE("a store on read-only media", put_store_on_read_only_media, ""),
    MADE("all signals blocked", block_signals, ""),
    MADE("one processor", bind_to_one, ""),
    MADE("no standard input", close_standard, ""),
};

/* ---------------------------------------------------------------------------------------------------- running a row ---- */

static int removing(const char *path, const struct stat *file, int kind, struct FTW *where) {
    (void)file;
    (void)kind;
    (void)where;
    return remove(path);
}

static const struct {
    const char *name;
    int status;
} statuses[] = {{"IO", MMSB_E_IO},
                {"NO_SPACE", MMSB_E_NO_SPACE},
                {"OUT_OF_MEMORY", MMSB_E_OUT_OF_MEMORY},
                {"LIMIT", MMSB_E_LIMIT},
                {"UNSUPPORTED", MMSB_E_UNSUPPORTED},
                {"NO_DEVICE", MMSB_E_NO_DEVICE},
                {"NOT_DURABLE", MMSB_E_NOT_DURABLE}};

static const char *name_of(int status) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].status == status)
            return statuses[i].name;
    }
    return status == WRONG ? "wrong" : mmsb_strerror(status);
}

/* Whether the row names this error of the step; *must: some error of it has to happen. */
static int names_error(const row_t *row, const char *step, const char *status, int *must) {
    char word[64];
    const char *at = row->errors;
    int found = 0;
    *must = 0;
    for (int length; sscanf(at, " %63s%n", word, &length) == 1; at += length) {
        const size_t n = strlen(step);
        const int all = strncmp(word, "all", 3) == 0 && (word[3] == '=' || word[3] == '?');
        if (!all && (strncmp(word, step, n) != 0 || (word[n] != '=' && word[n] != '?')))
            continue;
        const char *rest = word + (all ? 3 : n);
        *must |= *rest == '=';
        found |= status != NULL && strcmp(rest + 1, status) == 0;
    }
    return found;
}

/* In the child: makes the system and does the work. What became of each step goes to the parent. */
__attribute__((noreturn)) static void be(const row_t *row, int results) {
    alarm(HANGS_AFTER);
    if (row->late && steps[0].run(folder) != 0)
        _exit(4);
    if (row->prepare != NULL)
        row->prepare(row);
    for (int i = 0; i < step_count; i++) {
        fprintf(stderr, "-- %s\n", steps[i].name);
        const int result = steps[i].run(folder);
        if (write(results, &result, sizeof result) != sizeof result)
            _exit(3);
        if (i == 0 && result != 0) /* the library does not start: so say all other steps */
            break;
    }
    const int tracked = capability("write tracking"), barrier = capability("membarrier");
    if (write(results, &tracked, sizeof tracked) != sizeof tracked || write(results, &barrier, sizeof barrier) != sizeof barrier)
        _exit(3);
    _exit(0);
}

static void show_errors(int pipe) {
    char text[4096];
    const ssize_t length = read(pipe, text, sizeof text);
    fprintf(stderr, "%.*s\n", length > 0 ? (int)length : 0, text);
}

static int skipped;

static void run_row(const row_t *row) {
    int results[2], errors[2], reason[2];
    snprintf(folder, sizeof folder, "/tmp/mmsb-systems-XXXXXX");
    /* A file might be longer than the row allows. What a child says that is longer than the pipe is lost. */
    REQUIRE(pipe2(errors, O_NONBLOCK) == 0 && pipe2(reason, O_NONBLOCK) == 0 && pipe(results) == 0 && mkdtemp(folder) != NULL);
    REQUIRE(chmod(folder, 0777) == 0);
    check_begin(row->name);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(results[0]);
        dup2(errors[1], 2);
        dup2(reason[1], 1);
        be(row, results[1]);
    }
    close(results[1]);
    int values[64] = {0}, count = 0, status = 0;
    while (count < 64 && read(results[0], &values[count], sizeof values[0]) == sizeof values[0])
        count++;
    close(results[0]);
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        char text[512];
        const ssize_t length = read(reason[0], text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
        printf("skipped: %s: %s\n", row->name, text);
        skipped++;
    } else {
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            check_fail(__FILE__, __LINE__, "%s: the process ended with %s %d behind %d steps", row->name,
                       WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                       count);
        const int started = count > 0 && values[0] == 0;
        for (int i = 0; i < step_count && i < count; i++) {
            const int result = started ? values[i] : values[0];
            int must;
            const int named = names_error(row, steps[i].name, result != 0 ? name_of(result) : NULL, &must);
            if (result != 0 && !named)
                check_fail(__FILE__, __LINE__, "%s: %s: %s (%d)", row->name, steps[i].name, name_of(result), result);
            if (result == 0 && must)
                check_fail(__FILE__, __LINE__, "%s: %s works; the row says %s", row->name, steps[i].name, row->errors);
            if (!started)
                break;
        }
        /* What the library says that it can do it has done. */
        for (int i = 0; started && i < row->denied_count && count == step_count + 2; i++) {
            const denied_t *call = &row->denied[i];
            if (call->number == SYS_userfaultfd && !row->late) /* its descriptor stays */
                CHECK_EQUAL(values[step_count], 0);
            if (call->number == SYS_membarrier)
                CHECK_EQUAL(values[step_count + 1], 0);
        }
        if (check_failures != 0)
            show_errors(errors[0]);
        check_end();
    }
    for (int i = 0; i < 2; i++) {
        close(errors[i]);
        close(reason[i]);
    }
    nftw(folder, removing, 16, FTW_DEPTH | FTW_PHYS);
}

static int chosen(const char *name, char **words) {
    if (*words == NULL)
        return 1;
    for (; *words != NULL; words++) {
        if (strstr(name, *words) != NULL)
            return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    (void)count;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (chosen(rows[i].name, arguments + 1))
            run_row(&rows[i]);
    }
    for (size_t i = 0; i < sizeof denials / sizeof denials[0]; i++) {
        for (int missing = 0; missing < 2; missing++) {
            char name[128];
            snprintf(name, sizeof name, "%s: %s", denials[i].name, missing ? "ENOSYS" : "EPERM");
            const row_t row = {.name = name,
                               .errors = missing ? denials[i].if_missing : denials[i].if_denied,
                               .prepare = deny,
                               .denied = &denials[i].call,
                               .denied_count = 1,
                               .error = missing ? ENOSYS : EPERM};
            if (chosen(name, arguments + 1))
                run_row(&row);
        }
    }
    printf("%d passed, %d failed, %d skipped\n", check_tests_passed, check_tests_failed, skipped);
    return check_tests_failed != 0 || check_tests_passed == 0;
}
