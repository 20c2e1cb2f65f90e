/*
 * mmsb.h — libmmsb: paged memory in host memory, on GPUs and on disk.
 *
 * This header is the manual. It needs a C99 or C++ compiler and nothing else. docs/glossary.md defines the terms.
 *
 * A context owns pages. A page is a byte buffer with an identity: an id, a size, a location (host memory, a device, a file),
 * an epoch that deltas advance, a mask of the bytes that deltas have changed, a version that every change advances, metadata,
 * and dependencies on other pages.
 *
 * RULES THAT HOLD FOR EVERY FUNCTION
 *
 *  Status     Every function that can fail returns an mmsb_status_t. MMSB_OK is 0. A failed call changed nothing.
 *             The thread keeps one line of text with the numbers: mmsb_last_error().
 *  Handles    64-bit values: kind, generation, index. A value is never used again: the handle of a destroyed object returns
 *             MMSB_E_STALE_HANDLE for ever. Zero, a handle of another kind and a random value return
 *             MMSB_E_INVALID_HANDLE. Destroying the handle 0 does nothing. A handle is not a reference: a page lives until
 *             mmsb_page_destroy or until its context ends.
 *  Structs    A struct that the caller fills begins with struct_size, which its _init function sets: call _init first, then
 *             change fields. The comment of an option begins with its default. Reserved words stay zero. A wrong struct_size
 *             or a reserved word that is not zero returns MMSB_E_STRUCT_VERSION. NULL for an options struct means the
 *             defaults.
 *  Strings    UTF-8, zero-terminated. The library copies strings before the call returns.
 *  Pointers   The library uses memory of the caller only during the call, unless the function says otherwise. Out parameters
 *             come last and are written only on success, unless the function says otherwise.
 *  Counts     A count or length that no array in memory can have returns MMSB_E_INVALID_SIZE.
 *  Lists      A function that fills an array takes a capacity and reports the count. If the capacity is too small, it reports
 *             the count, writes nothing else and returns MMSB_E_OUT_OF_RANGE. With capacity 0 it reports the count and
 *             returns MMSB_OK.
 *  Batches    _many forms take arrays. All items are checked before the first one is done. If an item is bad, nothing
 *             happens; the call returns the code of the first bad item and stores its index in *bad_index, unless that is
 *             NULL. Items take effect in their order. count 0 returns MMSB_OK.
 *  Threads    Every function may be called from any thread, also on the same handle at the same time. Reads, writes, deltas,
 *             resizes and migrations of one page take effect one after the other; no call sees a page half-changed.
 *  Blocking   "Blocks: short" means: at most while another call on the same page runs. "Blocks: no" means: never. A call that
 *             lacks memory of a device, or pinned memory, also waits while the device may free some, unless it is told not to
 *             (memory_wait_ns of mmsb_runtime_options_t).
 *  First call Until the first call the library has no threads and no signal handlers. mmsb_version, mmsb_abi_version,
 *             mmsb_sizeof, mmsb_strerror, the mmsb_last_error functions and _init functions do not count as calls.
 *  fork       A process may load the library and fork before its first call: the children and the parent can use it. In the
 *             child of a process that used the library, or was in its first call, every call returns MMSB_E_FORKED. Start
 *             such a process with spawn. A child of fork that lives on does not keep the journals and stores of its parent busy.
 *  Signals    The library installs no handlers. The Go runtime inside it starts in the first call; it installs handlers for
 *             SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and SIGURG and passes on the signals that are not its own. The library
 *             cannot be unloaded: dlclose leaves it mapped. Its threads block all signals but those of faults, SIGCHLD and
 *             SIGPROF. A handler of the program must not call the library: the call that it interrupts may hold locks, and may
 *             be inside Go. A call for a page that this call has locked returns MMSB_E_INVALID_STATE, where that is noticed;
 *             others hang or crash. Let a handler set a flag or write to a pipe. It needs SA_ONSTACK, as Python's, Julia's,
 *             Java's and Go's have it: one without runs on the stack of a goroutine when a signal comes during a call, and
 *             destroys it. With the log at MMSB_LOG_WARNING, mmsb_context_create names each handler that lacks it.
 *
 * Each comment ends with the errors, the thread rule, the blocking and the release that added the function. Every function
 * that returns a status can return MMSB_E_FORKED, MMSB_E_POISONED and MMSB_E_INTERNAL, those that mmsb_guard_check names also
 * MMSB_E_GUARD, if the context has a guard; those that change pages also what the comment of the journal says, if the context
 * has one. The comments do not repeat them.
 * "Handle errors" stands for MMSB_E_INVALID_HANDLE and MMSB_E_STALE_HANDLE.
 */
#ifndef MMSB_H
#define MMSB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MMSB_API __attribute__((visibility("default")))
#else
#define MMSB_API
#endif

/* ------------------------------------------------------------------------------------------------ versions ---- */

/* The release of this header, by semantic versioning. mmsb_version() returns the release of the loaded library. */
#define MMSB_VERSION_MAJOR 0
#define MMSB_VERSION_MINOR 1
#define MMSB_VERSION_PATCH 0
#define MMSB_VERSION_STRING "0.1.0"

/* The number in the SONAME. While it is 0, every minor release may change the ABI (docs/abi.md). */
#define MMSB_ABI_VERSION 0

/* ---------------------------------------------------------------------------------------------- status codes ---- */

typedef int32_t mmsb_status_t;

/* A value never changes its meaning. A program must expect codes that it does not know. */
#define MMSB_OK 0
#define MMSB_E_INVALID_ARGUMENT 10 /* invalid argument: NULL, an unknown enum value, invalid UTF-8 */
#define MMSB_E_INVALID_HANDLE 11   /* zero, a handle of another kind, or one that this process never gave out */
#define MMSB_E_STALE_HANDLE 12     /* the object was destroyed or its context has ended */
#define MMSB_E_INVALID_SIZE 13     /* a size of 0, or more than can be addressed */
#define MMSB_E_OUT_OF_RANGE 14     /* offset + length reach past the end; an array or buffer is too small */
#define MMSB_E_INVALID_STATE 15    /* the object is not in a state that allows the call */
#define MMSB_E_STRUCT_VERSION 16   /* struct_size or a reserved word of a struct is wrong */
#define MMSB_E_MISMATCH 17         /* two arguments do not fit each other */
#define MMSB_E_EPOCH 18            /* a delta's epoch is not larger than the page's */
#define MMSB_E_NOT_FOUND 20
#define MMSB_E_ALREADY_EXISTS 21
#define MMSB_E_BUSY 22        /* pinned, or held by an asynchronous operation */
#define MMSB_E_WOULD_BLOCK 23 /* not finished, and the call was told not to wait */
#define MMSB_E_TIMEOUT 24
#define MMSB_E_CANCELLED 25
#define MMSB_E_OUT_OF_MEMORY 30 /* the system has no more memory or address space */
#define MMSB_E_LIMIT 31         /* a limit that the program set, or the end of a counter */
#define MMSB_E_NO_SPACE 32      /* the disk is full */
#define MMSB_E_NOT_DURABLE 33   /* the call has done what it does, with all results, but the journal may not have it on disk */
#define MMSB_E_UNSUPPORTED 40   /* not possible here; the text says what is missing */
#define MMSB_E_NO_DEVICE 41     /* no such device, and the context did not ask for a simulated one */
#define MMSB_E_DEVICE 42        /* the driver failed; the text has its code and name */
#define MMSB_E_DEVICE_LOST 43   /* the device no longer answers */
#define MMSB_E_FORKED 44        /* called in the child of a process that used the library */
#define MMSB_E_IO 50            /* a system call on a file failed; mmsb_last_error_detail has the errno */
#define MMSB_E_CORRUPT 51       /* a checksum or a structure is wrong */
#define MMSB_E_FORMAT 52        /* not a file of this library, or of a newer version than the library reads */
#define MMSB_E_GUARD 53         /* the guard found a write where nobody may write; the text says where */
#define MMSB_E_PEER 60          /* a rank or an agent failed */
#define MMSB_E_INTERNAL 90      /* an error inside the library */
#define MMSB_E_POISONED 91      /* after an internal error: only destroy, free, unpin, leak counts and error functions work */

/* ------------------------------------------------------------------------------------------------- handles ---- */

typedef uint64_t mmsb_context_t;
typedef uint64_t mmsb_page_t;
typedef uint64_t mmsb_ticket_t;
typedef uint64_t mmsb_snapshot_t;    /* a snapshot file that is open for reading */
typedef uint64_t mmsb_runtime_t;     /* the streams and blocks of a device */
typedef uint64_t mmsb_reservation_t; /* reserved bytes of a runtime's budget */
typedef uint64_t mmsb_stream_t;      /* a queue of work on a device */
typedef uint64_t mmsb_block_t;       /* device memory that was allocated from a runtime */
typedef uint64_t mmsb_use_t;         /* queued work that reads or writes blocks */
typedef uint64_t mmsb_capture_t;     /* streams that record work for a graph, and the memory of what is allocated in it */
typedef uint64_t mmsb_commands_t;    /* a command buffer: pages that wait for bytes of others */
typedef uint32_t mmsb_tag_t;         /* not a handle: the number of a name, see mmsb_tag_of */

/* The highest four bits of a handle are its kind. */
#define MMSB_KIND_PAGE 1
#define MMSB_KIND_CONTEXT 2
#define MMSB_KIND_TICKET 3
#define MMSB_KIND_SNAPSHOT 6
#define MMSB_KIND_STREAM 7
#define MMSB_KIND_BLOCK 8
#define MMSB_KIND_USE 9
#define MMSB_KIND_RUNTIME 11
#define MMSB_KIND_RESERVATION 12
#define MMSB_KIND_CAPTURE 13
#define MMSB_KIND_COMMANDS 14
/* For mmsb_debug_live_objects only. */
#define MMSB_KIND_DELTA 4   /* deltas that the library owns; they are pointers, not handles */
#define MMSB_KIND_MEMORY 5  /* memory outside of pages: pinned when its context ended, released, or a snapshot saved to memory */
#define MMSB_KIND_TENSOR 10 /* exports whose deleter has not run */

/* ----------------------------------------------------------------------------------------------- locations ---- */

typedef int32_t mmsb_location_t;
#define MMSB_LOCATION_DEFAULT (-1) /* the context's default location */
#define MMSB_LOCATION_CPU 0        /* host memory */
#define MMSB_LOCATION_GPU 1        /* device memory that the host cannot access: its address is a device address */
#define MMSB_LOCATION_UNIFIED 2    /* managed memory: the driver moves it between device and host; both use one address */
#define MMSB_LOCATION_PINNED 3     /* host memory that devices can access; both use one address */
#define MMSB_LOCATION_DISK 4       /* a file, mapped while the page is pinned */

/* In the place of a device's number, where the comment of a function says so. */
#define MMSB_DEVICE_HOST (-1)
#define MMSB_DEVICE_NONE (-2)
/* The simulated device in the place of device N is MMSB_DEVICE_STAND_IN + N: see MMSB_FALLBACK_SIMULATE. */
#define MMSB_DEVICE_STAND_IN 1024

/* ------------------------------------------------------------------------------------------- library and errors ---- */

/* The release of the loaded library, like "0.1.0". The string is static. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_version(void);

/* MMSB_ABI_VERSION of the loaded library; compare it with the header's. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint32_t mmsb_abi_version(void);

/* One line on how the library was built: Go and C compiler, instruction sets, CUDA architectures. The string is static.
 * Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_build_info(void);

/* Name and meaning of a code, like "MMSB_E_BUSY: pinned, or in use by an asynchronous operation". The string is static and never
 * NULL, also for an unknown code.
 * Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_strerror(mmsb_status_t code);

/* Text of this thread's last failed call: one line, with the numbers. Never NULL; empty before the first failure; a success does
 * not clear it. Valid until the next failing call on this thread.
 * Errors: none. Threads: any, each has its own text. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_last_error(void);

/* Code of this thread's last failed call; MMSB_OK before the first failure.
 * Errors: none. Threads: any, each has its own code. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_last_error_code(void);

/* Copies the text of mmsb_last_error and its final zero byte into buffer. *length (may be NULL) is the length without the zero
 * byte, also when the buffer is too small. The last error itself does not change, even if this call fails.
 * Errors: MMSB_E_INVALID_ARGUMENT (NULL buffer), MMSB_E_OUT_OF_RANGE (buffer too small: nothing is written). Threads: any, each
 * has its own text. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_last_error_copy(char *buffer, size_t capacity, size_t *length);

#define MMSB_DOMAIN_NONE 0
#define MMSB_DOMAIN_ERRNO 1
#define MMSB_DOMAIN_CUDA 2
#define MMSB_DOMAIN_NCCL 3
#define MMSB_DOMAIN_NIXL 4

typedef struct mmsb_error_detail {
    uint32_t struct_size;
    mmsb_status_t code;
    int32_t domain;       /* MMSB_DOMAIN_*: the layer that foreign_code comes from */
    int32_t foreign_code; /* errno, CUresult, …; 0 = none */
    char text[512];       /* the text of mmsb_last_error; a longer one is cut between two characters */
    uint64_t reserved[4];
} mmsb_error_detail_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_error_detail_init(mmsb_error_detail_t *detail);

/* This thread's last error with the foreign code behind it.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any, each has its own error. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_last_error_detail(mmsb_error_detail_t *detail);

typedef struct mmsb_capability {
    uint32_t struct_size; /* set by the library */
    int32_t available;    /* 1 or 0 */
    char name[32];        /* "huge pages", "write tracking", "cuda", … */
    char reason[216];     /* what was found, or why it is not available; UTF-8, zero-terminated */
} mmsb_capability_t;

/* What this process can do, and the reason where it cannot. A list (see the rules); with capacity 0 records may be NULL.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE (capacity too small; *count is the capacity needed). Threads: any. Blocks:
 * no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_capabilities(mmsb_capability_t *records, size_t capacity, size_t *count);

#define MMSB_LOG_OFF 0
#define MMSB_LOG_ERROR 1
#define MMSB_LOG_WARNING 2
#define MMSB_LOG_INFO 3
#define MMSB_LOG_DEBUG 4

/* Sets what the library logs, for the whole process. The log serves diagnostics: it keeps the newest lines in a ring, which
 * mmsb_log_read reads. level: MMSB_LOG_*; at the start it is MMSB_LOG_OFF, or the value of the environment variable MMSB_LOG
 * (off|error|warning|info|debug), which also sends the lines to stderr. descriptor: a file descriptor of the caller to which the
 * library also writes each line, or -1; it stays the caller's and must stay open until another call replaces it.
 * Errors: MMSB_E_INVALID_ARGUMENT (unknown level, descriptor not open for writing). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_log_configure(int32_t level, int32_t descriptor);

/* Removes the oldest lines from the log and writes them to buffer: whole lines, each ended by a newline, without a final zero
 * byte. *length is the number of bytes written, 0 if the log is empty. *lost (may be NULL) is the number of lines that were
 * overwritten before they were read, since the last call.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE (the buffer is smaller than the next line: nothing is removed, *length is
 * the size needed). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_log_read(char *buffer, size_t capacity, size_t *length, uint64_t *lost);

/* Number of live objects of a kind (MMSB_KIND_*) in the process, for leak checks in tests.
 * Errors: MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_debug_live_objects(int32_t kind, uint64_t *count);

/* Numbers of the public structs, for bindings that compare their struct sizes with the library's. */
#define MMSB_STRUCT_ERROR_DETAIL 1
#define MMSB_STRUCT_CAPABILITY 2
#define MMSB_STRUCT_CONTEXT_OPTIONS 3
#define MMSB_STRUCT_CONTEXT_STATS 4
#define MMSB_STRUCT_MEMORY_USAGE 5
#define MMSB_STRUCT_PAGE_OPTIONS 6
#define MMSB_STRUCT_PAGE_INFO 7
#define MMSB_STRUCT_PAGE_RANGE 8
#define MMSB_STRUCT_ADOPT_OPTIONS 9
#define MMSB_STRUCT_WORK_OPTIONS 10
#define MMSB_STRUCT_RUN 11
#define MMSB_STRUCT_DELTA 12
#define MMSB_STRUCT_PAGE_RUNS 13
#define MMSB_STRUCT_SAVE_OPTIONS 14
#define MMSB_STRUCT_LOAD_OPTIONS 15
#define MMSB_STRUCT_SAVE_STATS 16
#define MMSB_STRUCT_SNAPSHOT_INFO 17
#define MMSB_STRUCT_SNAPSHOT_PAGE 18
#define MMSB_STRUCT_SNAPSHOT_CHANGE 19
#define MMSB_STRUCT_JOURNAL_OPTIONS 20
#define MMSB_STRUCT_JOURNAL_INFO 21
#define MMSB_STRUCT_DEVICE_INFO 22
#define MMSB_STRUCT_RUNTIME_OPTIONS 23
#define MMSB_STRUCT_RUNTIME_STATS 24
#define MMSB_STRUCT_TAG_STATS 25
#define MMSB_STRUCT_BLOCK_INFO 26
#define MMSB_STRUCT_ACCESS 27
#define MMSB_STRUCT_DEPENDENCY 28
#define MMSB_STRUCT_JOURNAL_DIRECTORY 29
#define MMSB_STRUCT_JOURNAL_SEGMENT 30
#define MMSB_STRUCT_JOURNAL_RECORD 31
#define MMSB_STRUCT_LINK 32
#define MMSB_STRUCT_TELEMETRY 33
#define MMSB_STRUCT_GUARD_REPORT 34
#define MMSB_STRUCT_STORE_OPTIONS 35
#define MMSB_STRUCT_STORE_INFO 36
#define MMSB_STRUCT_STORE_POINT 37
#define MMSB_STRUCT_DEVICE_MEMORY 38
#define MMSB_STRUCT_SLEEP_OPTIONS 39
#define MMSB_STRUCT_MEMORY_STAT 40
#define MMSB_STRUCT_COMMANDS_OPTIONS 41
#define MMSB_STRUCT_COMMANDS_STATS 42
#define MMSB_STRUCT_COMMAND_FAILURE 43
#define MMSB_STRUCT_COPY 44
#define MMSB_STRUCT_PROPAGATION 45
#define MMSB_STRUCT_DIFFERENCE 46
#define MMSB_STRUCT_PAGE_COPY 47
#define MMSB_STRUCT_SYNC_STATS 48
#define MMSB_STRUCT_TENSOR_OPTIONS 49
#define MMSB_STRUCT_TENSOR_INFO 50
#define MMSB_STRUCT_PAGE_ADVICE 51
#define MMSB_STRUCT_LOST_PAGE 52

/* Size in bytes of a public struct (MMSB_STRUCT_*) in the loaded library; 0 for an unknown number.
 * Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API size_t mmsb_sizeof(int32_t structure);

/* Ends every context, runtime, ticket and open snapshot of the process, as their own functions would, and stops the library's
 * background work. The next call starts the library again. Idempotent. Not needed before exit.
 * Errors: none of its own. Threads: any. Blocks: until running work has been cancelled, and stores are saved that
 * mmsb_context_destroy would save. Since 0.1. */
MMSB_API mmsb_status_t mmsb_shutdown(void);

/* ------------------------------------------------------------------------------------------------- contexts ---- */

#define MMSB_SIMULATE_OFF 0       /* without a GPU, device locations return MMSB_E_NO_DEVICE */
#define MMSB_SIMULATE_IF_NO_GPU 1 /* without a GPU, simulated devices take its place */
#define MMSB_SIMULATE_ALWAYS 2    /* simulated devices, even if there is a GPU */

/* What takes the place of a location that is not available: a device that is not there, cannot do what is asked, or was lost in
 * mid-work (MMSB_E_DEVICE_LOST). A page's location and device say where it is. When a call of a context first meets a device that
 * is lost, its GPU pages whose newest bytes the host has go on at once where the fallback says; mmsb_context_lost_pages names the
 * others. UNIFIED and PINNED pages stay where they are: the host has their addresses. */
#define MMSB_FALLBACK_ERROR 0 /* nothing: it is an error */
#define MMSB_FALLBACK_HOST 1  /* host memory */
#define MMSB_FALLBACK_SIMULATE \
    2 /* a simulated device: MMSB_DEVICE_STAND_IN + N for device N; N itself below simulated_devices without any GPU */

typedef struct mmsb_context_options {
    uint32_t struct_size;
    mmsb_location_t default_location; /* MMSB_LOCATION_CPU; location of new pages that name none */
    int32_t default_device;           /* 0; device of new pages that name no location */
    int32_t simulate;                 /* MMSB_SIMULATE_OFF, or the value of the environment variable MMSB_SIMULATE */
    int32_t simulated_devices;        /* 1; at most 64 */
    int32_t fallback;                 /* MMSB_FALLBACK_ERROR */
    uint64_t simulated_memory;        /* 1 GiB; bytes of each simulated device */
    uint64_t memory_limit;            /* 0 = none; bytes of host memory for this context's pages, masks and metadata */
    const char *disk_path;            /* NULL = TMPDIR of the environment, else /tmp; folder for DISK pages */
    int32_t huge_pages;               /* 1 = ask for transparent huge pages where they help; 0 = never */
    int32_t reserved_word;
    uint64_t guard_every;      /* 0 = no guard; N = every N-th host page is guarded (see mmsb_guard_check): canaries before and
                                  behind it, and a fill pattern in memory that is handed out uninitialised or given back */
    uint64_t guard_quarantine; /* 0; bytes of given-back memory that the guard holds back to find writes into it */
    uint64_t reserved[6];
} mmsb_context_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_context_options_init(mmsb_context_options_t *options);

/* Sets options from a text like "memory_limit=1073741824 simulate=if-no-gpu disk_path=/scratch": pairs of field and value,
 * separated by spaces or commas; sizes may end in K, M, G or T (powers of 1024), guard_every is a number. Values of the enum
 * fields: location cpu|gpu|unified|pinned|disk, simulate off|if-no-gpu|always, fallback error|host|simulate. The value of
 * disk_path runs to the end of the text; the field points into text, which must stay valid until the context is created. A failed
 * call leaves *options unchanged.
 * Errors: MMSB_E_INVALID_ARGUMENT (unknown key or value; the text of the error has its position), MMSB_E_STRUCT_VERSION. Threads:
 * any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_options_parse(mmsb_context_options_t *options, const char *text);

/* Creates a context without pages. options may be NULL. With its first page it takes 256 KiB for the records of 4096 pages, and
 * as much for each 4096 more, which no limit counts. Later contexts use them again, and the process keeps them: the handle of a
 * page that has ended stays known.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_NO_DEVICE (default location without a device), MMSB_E_IO
 * (disk_path is not a writable folder; checked only if it is given), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (more than 65 535
 * contexts at once). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_create(const mmsb_context_options_t *options, mmsb_context_t *context);

/* Ends the context, its pages and its runtimes; their handles become stale. Memory that is still pinned or in flight stays valid
 * but has no handle any more; its last unpin frees it. Waits for calls that are running on the context's pages, never for pins.
 * Work that was started and has not ended is cancelled: who wants a save or a name waits for its ticket before.
 * A guard checks everything once more: with MMSB_E_GUARD the context has ended all the same, because no later call could tell.
 * A journal's last records are written. A store is saved first if bytes of its pages may have been written through pointers,
 * which no record has, unless save_bytes is MMSB_NEVER and save_interval_ns 0, and if the disk has refused records. It waits 10
 * seconds for groups of other threads. With an error of the journal or of that save the context has ended all the same: who must
 * not lose anything calls mmsb_journal_sync, or mmsb_store_save, before. Records that the disk has refused are in journal.ring,
 * where whoever opens the directory finds them unless the system was started anew.
 * Errors: handle errors, MMSB_E_GUARD, with a journal those of mmsb_journal_close, of a store those of mmsb_store_save. Threads:
 * any. Blocks: short, for the journal, or for that save. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_destroy(mmsb_context_t context);

typedef struct mmsb_context_stats {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t pages;             /* live pages */
    uint64_t bytes;             /* sum of their sizes */
    uint64_t peak_bytes;        /* largest value of bytes so far; may be too low by what the thread caches hold */
    uint64_t allocations;       /* pages created since the context began */
    uint64_t frees;             /* pages ended since the context began */
    uint64_t pinned_pages;      /* pages with at least one pin */
    uint64_t memory_used;       /* bytes of host memory that the context holds, kept memory of destroyed pages included;
                                   memory_limit limits this number */
    uint64_t memory_limit;      /* 0 = none */
    uint64_t disk_used;         /* file space of DISK pages, without what is kept for later ones */
    uint64_t location_pages[8]; /* live pages by location */
    uint64_t location_bytes[8]; /* bytes of live pages by location */
    uint64_t guard_bytes;       /* of memory_used: canaries and quarantine */
    uint64_t guard_reports;     /* writes where nobody may write that the guard has found */
    uint64_t reserved[6];
} mmsb_context_stats_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_context_stats_init(mmsb_context_stats_t *stats);

/* Counters of a context. allocations, frees, pages, bytes and memory_used are sums of counters that are read while other threads
 * change them: each is exact when no other thread does. pinned_pages and the values by location come from a walk over the pages.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_stats(mmsb_context_t context, mmsb_context_stats_t *stats);

/* Number of live pages. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_page_count(mmsb_context_t context, uint64_t *count);

/* Handles of the live pages, at most capacity per call. Set *cursor to 0 before the first call; each call advances it; the walk
 * is over when *count is 0. A page that lives during the whole walk is reported exactly once; a page that is created or destroyed
 * meanwhile, once or not at all. This is not a list in the sense of the rules: capacity is at least 1.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_pages(mmsb_context_t context, uint64_t *cursor, mmsb_page_t *pages, size_t capacity,
                                          size_t *count);

/* Gives memory of destroyed pages back to the system, as far as whole system pages are free and no thread cache holds them.
 * *released (may be NULL) is the number of bytes. Without this call the context keeps the memory of pages of up to 4096 bytes,
 * keeps that of pages of up to 1 MiB for 5 to 10 seconds, and gives that of larger pages back at once. An allocation that would
 * exceed memory_limit takes what it needs from kept memory. Both empty the guard's quarantine. File space that is kept for DISK
 * pages goes back, too, and memory that the shared runtimes of the context's devices keep; *released does not count these.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_trim(mmsb_context_t context, uint64_t *released);

#define MMSB_GUARD_BEFORE 1 /* before the page's first byte */
#define MMSB_GUARD_BEHIND 2 /* behind its last byte */
#define MMSB_GUARD_ENDED 3  /* into memory of a page that had ended */
#define MMSB_GUARD_LEFT 4   /* into memory that a page had left: it was resized or migrated */

typedef struct mmsb_guard_report {
    uint32_t struct_size;
    int32_t side;      /* MMSB_GUARD_*: where the write was, as seen from the page */
    uint64_t page_id;  /* the page, which may have ended since */
    uint64_t size;     /* its size then */
    int64_t offset;    /* of the first byte that was written, from the page's first byte on */
    uint64_t bytes;    /* from that byte to the last one that was written */
    uint32_t expected; /* value of the byte at offset before the write, */
    uint32_t found;    /* and after it */
    uint64_t reserved[4];
} mmsb_guard_report_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_guard_report_init(mmsb_guard_report_t *report);

/* The guard of a context (guard_every, guard_quarantine) finds writes through pointers past a page's ends and into memory that a
 * page has left. It looks when a page ends, is resized or migrated, when memory leaves quarantine, when a save begins, when the
 * context ends, and in this call; then the bytes are as before. Not guarded are adopted memory, pages on devices and on DISK.
 * Each write that it finds is one report, in the library's log and in guard_reports. Reports wait, the first 1000 of them, and
 * each is told once: by the next call on the context or one of its pages that creates, clones, adopts, writes, applies a delta,
 * pins for writing, resizes, migrates, releases, changes metadata, masks or dependencies, saves, loads or opens a journal. That
 * call returns MMSB_E_GUARD, its text is the report, and it has done nothing else. Calls that only look, and calls that give
 * something back (destroy, unpin), tell nothing.
 * This call checks all guarded memory and tells the oldest report without an error: *report (may be NULL), and in *count how many
 * reports waited with it; 0 = none, and *report is not written.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_STATE (the context has no guard).
 * Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_guard_check(mmsb_context_t context, mmsb_guard_report_t *report, uint64_t *count);

typedef struct mmsb_memory_usage {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t page_bytes;     /* memory mapped for the bytes of host pages */
    uint64_t record_bytes;   /* page records */
    uint64_t mask_bytes;     /* change masks */
    uint64_t metadata_bytes; /* metadata blobs */
    uint64_t cache_bytes;    /* free pages in the thread caches, rings of command buffers */
    uint64_t disk_bytes;     /* files of DISK pages */
    uint64_t go_heap_bytes;  /* heap of the Go runtime inside the library */
    uint64_t reserved[8];
} mmsb_memory_usage_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_memory_usage_init(mmsb_memory_usage_t *usage);

/* Memory of the whole library in bytes, by purpose.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_memory_usage(mmsb_memory_usage_t *usage);

/* ------------------------------------------------------------------------------------------- work and tickets ---- */

#define MMSB_WAIT_FOREVER UINT64_MAX

/* How a long operation runs. Only the blocking form uses timeout_ns: when the time is over, the work stops at its next step and
 * has changed nothing, unless it is done just then (MMSB_E_TIMEOUT). With timeout_ns 0 the call tries: it waits for nobody, and
 * work of one step (a segment of a file, 4096 pages, some MiB) is done; what needs more returns MMSB_E_WOULD_BLOCK and has
 * changed nothing. Both forms wait for after and stream before they begin. Operations with options of their own have timeout_ns
 * there. */
typedef struct mmsb_work_options {
    uint32_t struct_size;
    int32_t device;        /* 0; with stream: the device of that stream */
    uint64_t timeout_ns;   /* MMSB_WAIT_FOREVER; 0 = try */
    mmsb_stream_t stream;  /* 0 = none; everything queued on it so far must be done before the work begins */
    const uint64_t *after; /* NULL; handles of tickets whose work must be done before this work begins; copied. If one of them
                              failed or was cancelled, this work fails with MMSB_E_CANCELLED */
    uint64_t after_count;  /* 0; number of handles in after */
    uint64_t reserved[4];
} mmsb_work_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_work_options_init(mmsb_work_options_t *options);

/* Sets *done to 1 when the work has ended, whether it succeeded or failed, else to 0.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_poll(mmsb_ticket_t ticket, int32_t *done);

/* Waits for the end of the work and returns its status; mmsb_last_error is then the text of the work. timeout_ns 0 = do not wait.
 * Errors: handle errors, MMSB_E_TIMEOUT (MMSB_E_WOULD_BLOCK for timeout_ns 0): the work goes on; every code of the work itself.
 * Threads: any. Blocks: until the work ends or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_wait(mmsb_ticket_t ticket, uint64_t timeout_ns);

/* Asks the work to stop, without waiting for it. The work ends with MMSB_E_CANCELLED and has then changed nothing, or it was
 * already done.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_cancel(mmsb_ticket_t ticket);

/* How much of the work is done, in its units (pages, bytes). *total is 0 while it is not known.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_progress(mmsb_ticket_t ticket, uint64_t *done, uint64_t *total);

/* Status and error text of the work itself, the same for every thread: *code is MMSB_E_WOULD_BLOCK while it runs. text receives
 * the zero-terminated text, cut if it is longer than capacity; with capacity 0 it may be NULL.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_status(mmsb_ticket_t ticket, mmsb_status_t *code, char *text, size_t capacity);

/* A file descriptor (eventfd) that becomes readable when the work has ended, for poll, epoll and event loops. It belongs to the
 * ticket, which closes it; every call returns the same one. Do not read from it: it stays readable.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT (no descriptor left). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_eventfd(mmsb_ticket_t ticket, int32_t *descriptor);

/* Ends the ticket. Unfinished work goes on; arrays that the work fills must stay valid until it ends.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_destroy(mmsb_ticket_t ticket);

/* --------------------------------------------------------------------------------------------- making pages ---- */

#define MMSB_PAGE_ZEROED 0        /* all bytes are 0 */
#define MMSB_PAGE_UNINITIALISED 1 /* the bytes are what the memory held before, from pages of the same context only */

typedef struct mmsb_page_options {
    uint32_t struct_size;
    mmsb_location_t location; /* MMSB_LOCATION_DEFAULT */
    int32_t device;           /* 0; the driver's ordinal, 0 for CPU */
    int32_t numa_node;        /* -1 = any */
    uint64_t id;              /* 0 = the library picks one; else any value that the context does not use */
    uint32_t contents;        /* MMSB_PAGE_ZEROED */
    uint32_t reserved_word;
    const uint64_t *sizes; /* NULL; only mmsb_page_create_many: the size of each page */
    const uint64_t *ids;   /* NULL; only mmsb_page_create_many: the id of each page, 0 = the library picks it */
    uint64_t reserved[2];
} mmsb_page_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_page_options_init(mmsb_page_options_t *options);

/* Creates a page of size bytes. Host pages are aligned to 64 bytes; from 256 bytes on to 256; from 4096 bytes on to 4096.
 * Errors: handle errors (context), MMSB_E_INVALID_SIZE, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_ALREADY_EXISTS
 * (id), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (memory_limit), MMSB_E_NO_SPACE, MMSB_E_IO (DISK), MMSB_E_NO_DEVICE. Threads: any.
 * Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                        mmsb_page_t *page);

/* mmsb_page_create and mmsb_page_address in one call, for callers that write the page at once. *address is NULL for a DISK page.
 * Errors: as mmsb_page_create. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create_with_address(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                                     mmsb_page_t *page, void **address);

/* Creates count pages of size bytes each, or none; with options->sizes size must be 0, with options->ids each page gets an id.
 * pages has room for count handles; after a failure its contents are undefined, and the text of the error has the index of the
 * first bad page of sizes or ids. options->id must be 0. work may be NULL.
 * Errors: as mmsb_page_create; MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK, MMSB_E_CANCELLED. Threads: any. Blocks: until done or the time
 * is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create_many(mmsb_context_t context, uint64_t size, size_t count,
                                             const mmsb_page_options_t *options, const mmsb_work_options_t *work,
                                             mmsb_page_t *pages);

/* The asynchronous form of mmsb_page_create_many; progress counts pages. sizes and ids are copied; pages is written when the work
 * succeeds and must stay valid until the ticket is done.
 * Errors: those of the arguments as mmsb_page_create_many, at once; all others through the ticket. Threads: any. Blocks: no.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create_many_start(mmsb_context_t context, uint64_t size, size_t count,
                                                   const mmsb_page_options_t *options, const mmsb_work_options_t *work,
                                                   mmsb_page_t *pages, mmsb_ticket_t *ticket);

/* Creates a page with the same bytes, location, epoch, change mask and metadata. id: the new page's, 0 = the library picks one.
 * Dependencies are not copied.
 * Errors: handle errors, MMSB_E_ALREADY_EXISTS, MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT, MMSB_E_NO_SPACE, MMSB_E_IO. Threads: any.
 * Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_clone(mmsb_page_t page, uint64_t id, mmsb_page_t *clone);

/* Clones many pages, or none; each clone is of its page at one moment. ids (may be NULL) are those of the clones, 0 = the library
 * picks one. clones has room for count handles.
 * Errors: as mmsb_page_clone; MMSB_E_UNSUPPORTED (pages of several contexts, one of which has a journal). Threads: any.
 * Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_clone_many(const mmsb_page_t *pages, const uint64_t *ids, size_t count, mmsb_page_t *clones,
                                            size_t *bad_index);

typedef struct mmsb_adopt_options {
    uint32_t struct_size;
    int32_t device;           /* 0; of MMSB_LOCATION_GPU, where MMSB_DEVICE_NONE = the device that has the memory */
    mmsb_location_t location; /* MMSB_LOCATION_CPU; MMSB_LOCATION_GPU = memory is an address of the device, of any allocator */
    int32_t read_only;        /* 0; 1 = writes, deltas and WRITE pins return MMSB_E_INVALID_STATE */
    uint64_t id;              /* 0 = the library picks one */
    /* NULL; called once when the page no longer needs the memory: it has ended, or the last pin ended after its context. A load
     * that replaces the page by one with its id does not call it: the memory stays the page's. The call runs on the thread whose
     * call caused that, and must not call the library. */
    void (*release)(void *user, void *memory, uint64_t size);
    void *user; /* NULL; the first argument of release */
    /* NULL = the memory is ready; else the driver's stream (1 = its default stream, 2 = the thread's own, as in CUDA) whose
     * queued work comes before the page's bytes are read or written. Memory of a device only. */
    void *stream;
    uint64_t reserved[3];
} mmsb_adopt_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_adopt_options_init(mmsb_adopt_options_t *options);

/* Creates a page over memory of the caller, without a copy. The memory may have any alignment and must stay valid until release
 * is called. The page can be neither resized nor migrated (MMSB_E_INVALID_STATE): its bytes stay in this memory until it ends,
 * and a load of a snapshot that has its id writes into the memory. Change tracking treats the page as pinned for writing.
 * Memory of a device: calls on the page see what the program queues on it if that is within a use of the page (mmsb_use_begin),
 * or done; release is called when the uses of the page are done. Memory in a block of a runtime of the device is used as that
 * block, which must not be freed before. A load that fails because the device does can leave a part of the new bytes in it.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (NULL memory; not memory of the device; a location that cannot be adopted),
 * MMSB_E_INVALID_SIZE, MMSB_E_ALREADY_EXISTS, MMSB_E_NO_DEVICE, MMSB_E_OUT_OF_MEMORY, MMSB_E_STRUCT_VERSION, MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: no; for memory of a device, with a journal until its bytes are read, and with stream,
 * in memory of a block, until the stream has done its work. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_adopt(mmsb_context_t context, void *memory, uint64_t size, const mmsb_adopt_options_t *options,
                                       mmsb_page_t *page);

/* Creates a page over each of many pieces of memory, or none; release is called for each page. ids (may be NULL) are those of the
 * pages, 0 = the library picks one; options->id must be 0. pages has room for count handles. A failed call has not called
 * release.
 * Errors: as mmsb_page_adopt. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_adopt_many(mmsb_context_t context, void *const *memories, const uint64_t *sizes,
                                            const uint64_t *ids, size_t count, const mmsb_adopt_options_t *options,
                                            mmsb_page_t *pages, size_t *bad_index);

/* Ends the page and frees its memory. Destroying 0 does nothing.
 * Errors: handle errors, MMSB_E_BUSY (pinned, or being moved by mmsb_page_migrate_many_start). Threads: any. Blocks: short.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_destroy(mmsb_page_t page);

/* Ends many pages, or none. A page that appears twice is MMSB_E_STALE_HANDLE at its second index; 0 is skipped.
 * Errors: as mmsb_page_destroy. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_destroy_many(const mmsb_page_t *pages, size_t count, size_t *bad_index);

/* Ends the page and gives its bytes to the caller: *memory (host memory, *size bytes) is valid until mmsb_memory_free(*memory),
 * also after the context has ended. Only for CPU pages that the library allocated.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_BUSY (as mmsb_page_destroy), MMSB_E_INVALID_STATE (adopted),
 * MMSB_E_UNSUPPORTED (another location). Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_release(mmsb_page_t page, void **memory, uint64_t *size);

/* Frees memory that mmsb_page_release returned. NULL does nothing.
 * Errors: MMSB_E_STALE_HANDLE (already freed, or not from mmsb_page_release). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_memory_free(void *memory);

/* -------------------------------------------------------------------------------------------- looking at pages ---- */

/* The page with an id. Each call returns the same handle, which needs no release.
 * Errors: handle errors (context), MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_lookup(mmsb_context_t context, uint64_t id, mmsb_page_t *page);

/* The pages with these ids: all are found, or nothing is written.
 * Errors: as mmsb_page_lookup. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_lookup_many(mmsb_context_t context, const uint64_t *ids, size_t count, mmsb_page_t *pages,
                                             size_t *bad_index);

typedef struct mmsb_page_info {
    uint32_t struct_size;
    mmsb_location_t location;
    int32_t device;
    int32_t numa_node; /* -1 = any */
    mmsb_page_t page;
    mmsb_context_t context;
    uint64_t id;
    uint64_t size; /* bytes */
    uint64_t epoch;
    uint64_t version;
    uint32_t read_pins;
    uint32_t write_pins;
    int32_t simulated; /* 1 = the bytes lie on a simulated device */
    int32_t adopted;   /* 1 = the bytes are memory of the caller */
    int32_t read_only;
    uint32_t metadata_count; /* number of metadata keys */
    uint64_t reserved[4];
} mmsb_page_info_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_page_info_init(mmsb_page_info_t *info);

/* All properties of a page at one moment.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_info(mmsb_page_t page, mmsb_page_info_t *info);

/* The properties of many pages, all at one moment. Every element of infos must have its struct_size set.
 * Errors: as mmsb_page_info. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_info_many(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index);

/* The address of the bytes, without a pin: valid until the page is migrated, resized or destroyed. NULL for a bad handle
 * (mmsb_last_error_code has the code) and for a DISK page that is not pinned. The address of a GPU page is a device address,
 * aligned to at least 256 bytes, which the host must not access. From then on change tracking treats the page as pinned for
 * writing.
 * Errors: NULL. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void *mmsb_page_address(mmsb_page_t page);

/* mmsb_page_address of many pages. After a failure the contents of addresses are undefined.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_STATE (a DISK page that is not pinned). Threads: any. Blocks:
 * no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_address_many(const mmsb_page_t *pages, size_t count, void **addresses, size_t *bad_index);

/* Id; 0 for a bad handle (mmsb_last_error_code has the code). Errors: 0. Threads: any. Blocks: short. Since 0.1. */
MMSB_API uint64_t mmsb_page_id(mmsb_page_t page);

/* Location; MMSB_LOCATION_DEFAULT for a bad handle (mmsb_last_error_code has the code). mmsb_page_info also has the device.
 * Errors: MMSB_LOCATION_DEFAULT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_location_t mmsb_page_location(mmsb_page_t page);

/* Size in bytes; 0 for a bad handle (mmsb_last_error_code has the code). Errors: 0. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint64_t mmsb_page_size(mmsb_page_t page);

/* Epoch; 0 before the first delta and for a bad handle (mmsb_last_error_code has the code).
 * Errors: 0. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint64_t mmsb_page_epoch(mmsb_page_t page);

/* Version: every change of bytes, size, location, metadata, epoch or change mask advances it, and so does the unpin of a WRITE
 * pin. Never 0 for a live page; 0 for a bad handle (mmsb_last_error_code has the code).
 * Errors: 0. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint64_t mmsb_page_version(mmsb_page_t page);

/* ---------------------------------------------------------------------------------------------- bytes of pages ---- */

#define MMSB_PIN_READ 1
#define MMSB_PIN_WRITE 2

/* Pins the page: it keeps its location and address until the unpin. Meanwhile destroy, resize and migrate return MMSB_E_BUSY;
 * reads, writes and deltas go on, and the caller orders its own accesses through the pointer with them. Each pin needs one unpin
 * of the same mode. *address (may be NULL) is valid until then, even if the context ends first; for a GPU page it is a device
 * address.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (mode), MMSB_E_INVALID_STATE (WRITE on a read-only page, or where the context
 * reads or follows a store), MMSB_E_LIMIT (more than 65 535 pins of one mode), MMSB_E_IO (DISK), MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any; another thread may unpin. Blocks: short; a WRITE pin for a save with MMSB_RAW_WRITES_WAIT, as
 * mmsb_writing_begin. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_pin(mmsb_page_t page, int32_t mode, void **address);

/* Ends one pin of this mode. The unpin of a WRITE pin advances the version. Works also after the context has ended.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (mode), MMSB_E_INVALID_STATE (no such pin). Threads: any. Blocks: short. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_page_unpin(mmsb_page_t page, int32_t mode);

/* Pins many pages in one mode, or none. addresses may be NULL; after a failure its contents are undefined.
 * Errors: as mmsb_page_pin. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_pin_many(const mmsb_page_t *pages, size_t count, int32_t mode, void **addresses,
                                          size_t *bad_index);

/* Ends one pin of this mode for each item, or none. Works also after the context has ended; if such pages are among the items,
 * the pins before a bad item may have ended.
 * Errors: as mmsb_page_unpin. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_unpin_many(const mmsb_page_t *pages, size_t count, int32_t mode, size_t *bad_index);

/* Begins a writing section: from here to mmsb_writing_end the program may write pages of the context through pointers that are
 * not pins: adopted memory, and addresses of mmsb_page_address. Any number of sections may be open, of one thread or of many; a
 * save with MMSB_RAW_WRITES_WAIT has its moment while none is. Such a save lets sections wait here, of threads that have none and
 * no WRITE pin: while it waits for open ones (50 ms at a time at first, twice as long each time, at most 5 s), and behind its
 * moment until it has the pages that sections may change. timeout_ns bounds that; MMSB_WAIT_FOREVER, or 0 = do not wait.
 * Errors: handle errors (context), MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK. Threads: any. Blocks: for a save. Since 0.1. */
MMSB_API mmsb_status_t mmsb_writing_begin(mmsb_context_t context, uint64_t timeout_ns);

/* Ends a writing section.
 * Errors: handle errors (context), MMSB_E_INVALID_STATE (no section is open). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_writing_end(mmsb_context_t context);

/* Says whether a save with MMSB_RAW_WRITES_WAIT would wait for the calling thread: for programs that start such a save and wait
 * for its ticket. mmsb_snapshot_save asks by itself.
 * Errors: handle errors (context), MMSB_E_INVALID_STATE (the thread is in a writing section or holds a WRITE pin of the context;
 * the text has the numbers). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_writing_check(mmsb_context_t context);

/* Copies length bytes of the page, from offset on, into buffer. length 0 returns MMSB_OK if offset ≤ size.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (NULL buffer), MMSB_E_OUT_OF_RANGE, MMSB_E_IO (DISK). Threads: any. Blocks:
 * short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_read(mmsb_page_t page, uint64_t offset, void *buffer, uint64_t length);

/* Copies length bytes of buffer, which may lie in the page, into the page, from offset on. Advances the version, but neither the
 * epoch nor the change mask. After MMSB_E_IO of a page on DISK its bytes are the old or the new ones.
 * Errors: as mmsb_page_read; MMSB_E_INVALID_STATE (read-only), MMSB_E_NO_SPACE (DISK: RLIMIT_FSIZE was lowered). Threads: any.
 * Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_write(mmsb_page_t page, uint64_t offset, const void *buffer, uint64_t length);

typedef struct mmsb_page_range {
    mmsb_page_t page;
    uint64_t offset;
    uint64_t length;
    void *buffer; /* length bytes; mmsb_page_write_many only reads them */
} mmsb_page_range_t;

/* Many reads at one moment: no change happens between them. Errors: as mmsb_page_read. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);

/* Many writes, all or none. The ranges may lie in pages that the call writes; a buffer that does is read when its turn comes.
 * Errors: as mmsb_page_write, MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);

/* Changes the size and keeps the contents. Added bytes are zero; the change mask is cut, or extended by zeros.
 * Errors: handle errors, MMSB_E_INVALID_SIZE, MMSB_E_BUSY (pinned, or being moved by mmsb_page_migrate_many_start),
 * MMSB_E_INVALID_STATE (adopted), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT, MMSB_E_NO_SPACE, MMSB_E_IO. Threads: any. Blocks: short.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_resize(mmsb_page_t page, uint64_t size);

/* Changes the sizes of many different pages, all at one moment, or none: sizes[i] is the new size of pages[i].
 * Errors: as mmsb_page_resize; MMSB_E_INVALID_ARGUMENT (a page appears twice), MMSB_E_LIMIT (more than 65 536 pages),
 * MMSB_E_UNSUPPORTED (pages of several contexts, one of which has a journal). Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_resize_many(const mmsb_page_t *pages, const uint64_t *sizes, size_t count, size_t *bad_index);

/* Moves the bytes to another location; id, epoch, mask and metadata stay. Does nothing if the page is there already. device is 0
 * for CPU and DISK. DISK bytes lie in an unlinked file in the context's disk_path and are not durable: snapshots are. GPU bytes
 * lie in memory that only devices can access, UNIFIED and PINNED bytes in memory that the host can access, too.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_BUSY (pinned, or being moved by mmsb_page_migrate_many_start),
 * MMSB_E_INVALID_STATE (adopted, and not there already), MMSB_E_NO_DEVICE, MMSB_E_UNSUPPORTED (a device without managed memory),
 * MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT, MMSB_E_NO_SPACE, MMSB_E_IO, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: while
 * the bytes move. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_migrate(mmsb_page_t page, mmsb_location_t location, int32_t device);

/* Moves many pages. All arguments are checked before the first page moves. statuses (may be NULL) receives a code for each page:
 * a page has moved completely or not at all. Returns MMSB_OK if all moved, else the code of the first page that did not, and its
 * index in *bad_index. work may be NULL; when its time is over, pages that have moved stay there, and the status of each other
 * page is MMSB_E_CANCELLED.
 * Errors: as mmsb_page_migrate; MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK, MMSB_E_CANCELLED. Threads: any. Blocks: while the bytes move
 * or until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_migrate_many(const mmsb_page_t *pages, size_t count, mmsb_location_t location, int32_t device,
                                              const mmsb_work_options_t *work, mmsb_status_t *statuses, size_t *bad_index);

/* The asynchronous form of mmsb_page_migrate_many; progress counts pages. The handles are copied; statuses (may be NULL) must
 * stay valid until the ticket is done. After a cancel, pages that have moved stay there, and the status of each other page is
 * MMSB_E_CANCELLED.
 * Errors: those of the arguments as mmsb_page_migrate_many, at once; all others through the ticket. Threads: any. Blocks: short.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_migrate_many_start(const mmsb_page_t *pages, size_t count, mmsb_location_t location,
                                                    int32_t device, const mmsb_work_options_t *work, mmsb_status_t *statuses,
                                                    mmsb_ticket_t *ticket);

/* ---------------------------------------------------------------------------------------- pages in two places ---- */

/* A GPU page may have a copy of its bytes on the host, which counts as memory of the context, or is pinned memory. The page
 * then knows of each 64 bytes (of pages above 1 GiB: of more, so that there are at most 2^24 such ranges) whether they are
 * newer on the host, newer on the device, or equal. Reads take each range where it is newest. Writes and deltas change the copy
 * on the host, and bring before what they change only in part and is newer on the device; where all that they change is newer
 * on the device, or while the device's address is given out, they are made there. mmsb_page_sync moves the newer ranges and
 * nothing else. Change mask, epoch and version know nothing of this.
 *
 * A pin of the page gives out the device's address, when all that is newer on the host has gone there. While it is pinned to
 * write, or its address was given out without a pin, all bytes on the device count as newer. mmsb_page_host_copy_pin gives out
 * the address on the host: there the library sees by comparison what was written. Who has both sides written at once learns at
 * the next sync, and by each other call that needs the bytes, if one range was written on both: MMSB_E_MISMATCH, and nothing is
 * overwritten. A sync with MMSB_SYNC_HOST_WINS or MMSB_SYNC_DEVICE_WINS ends that.
 *
 * Resize and migrate to another location end the copy on the host, or make it the page's memory; nothing is lost. When a device
 * is lost, ranges that are not newer there live on in the copy: reads, writes and a migrate to the CPU work as long as they need
 * no others. */
typedef int32_t mmsb_sync_t;
#define MMSB_SYNC_TO_DEVICE 1   /* what is newer on the host goes to the device */
#define MMSB_SYNC_TO_HOST 2     /* what is newer on the device goes to the host */
#define MMSB_SYNC_BOTH 3        /* both */
#define MMSB_SYNC_HOST_WINS 4   /* beside one of these: what was written on both sides is as on the host; */
#define MMSB_SYNC_DEVICE_WINS 8 /* or as on the device */
#define MMSB_SYNC_PINNED 16     /* beside these: a copy that a page gets on the host is in pinned memory */

/* Brings a page's bytes into step. To the device: a page that is elsewhere moves to device, a number as mmsb_page_migrate takes
 * it, and one from the CPU, or a PINNED one that no use has had, keeps its memory as its copy on the host (not a guarded one, nor
 * in a group); a GPU page of another device moves to this one without a copy. To the host: a GPU page gets a copy there, or what
 * is newer. Pinned memory is read and written where it lies, other bytes go through some of the library's. A UNIFIED page has
 * one memory, which a sync in one direction prefetches to the device or to the host, where the device can do that. Pages
 * elsewhere are left alone. A sync waits while asynchronous work moves the page. A failed one has changed no byte of the page.
 * Errors: as mmsb_page_migrate; MMSB_E_MISMATCH (written on both sides). Threads: any. Blocks: while the bytes move. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_page_sync(mmsb_page_t page, mmsb_sync_t direction, int32_t device);

/* Brings many pages into step: those of a device together, small ranges by one kernel, large ones by copies. statuses (may be
 * NULL) receives a code for each page: a page is in step, or as before. Returns MMSB_OK if all are, else the code of the first
 * page that is not, and its index in *bad_index. work may be NULL; when its time is over, the status of each page that is not in
 * step is MMSB_E_CANCELLED.
 * Errors: as mmsb_page_sync; MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK, MMSB_E_CANCELLED. Threads: any. Blocks: while the bytes move or
 * until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_sync_many(const mmsb_page_t *pages, size_t count, mmsb_sync_t direction, int32_t device,
                                           const mmsb_work_options_t *work, mmsb_status_t *statuses, size_t *bad_index);

/* The asynchronous form of mmsb_page_sync_many; progress counts pages. With a stream in work it begins when all that is queued
 * there so far is done. The handles are copied; statuses (may be NULL) must stay valid until the ticket is done.
 * Errors: those of the arguments, at once; all others through the ticket. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_sync_many_start(const mmsb_page_t *pages, size_t count, mmsb_sync_t direction, int32_t device,
                                                 const mmsb_work_options_t *work, mmsb_status_t *statuses, mmsb_ticket_t *ticket);

/* Lets pages of one context wait for a sync, all or none. A page that waits already waits for both directions, and the device of
 * the later call. A page that waits can be changed, resized and destroyed.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_MISMATCH (pages of several contexts). Threads: any. Blocks: short. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_page_sync_enqueue(const mmsb_page_t *pages, size_t count, mmsb_sync_t direction, int32_t device,
                                              size_t *bad_index);

/* Syncs the pages of a context that wait when the call begins, in the order in which they came. *synced (may be NULL) counts
 * those that are in step. Pages that have ended wait no longer; those whose sync failed, or whose turn did not come within the
 * time of work (may be NULL), wait on.
 * Errors: handle errors (context), the first one of mmsb_page_sync_many, MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK, MMSB_E_CANCELLED.
 * Threads: any. Blocks: while the bytes move or until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_sync_drain(mmsb_context_t context, const mmsb_work_options_t *work, uint64_t *synced);

/* Syncs the pages with these ids to a device. Ids without a page are skipped; *synced (may be NULL) counts the others.
 * Errors: handle errors (context), MMSB_E_INVALID_ARGUMENT, the first one of mmsb_page_sync_many. Threads: any. Blocks: while the
 * bytes move or until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_prefetch(mmsb_context_t context, const uint64_t *ids, size_t count, int32_t device,
                                             const mmsb_work_options_t *work, uint64_t *synced);

/* The asynchronous form of mmsb_context_prefetch; progress counts pages. The ids are copied.
 * Errors: handle errors (context), MMSB_E_INVALID_ARGUMENT; all others through the ticket. Threads: any. Blocks: short. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_context_prefetch_start(mmsb_context_t context, const uint64_t *ids, size_t count, int32_t device,
                                                   const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

/* What a page has in one place. */
typedef struct mmsb_page_copy {
    mmsb_location_t location;
    int32_t device;
    uint64_t size;  /* bytes */
    uint64_t newer; /* of them in ranges that are newer here than in the page's other place */
} mmsb_page_copy_t;

/* Where the page has its bytes: first where it lies, then its copy on the host (CPU, or PINNED), where it has one, then its
 * replicas, of which nothing is newer. A list.
 * Errors: handle errors, MMSB_E_OUT_OF_RANGE, MMSB_E_MISMATCH (written on both sides). Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_copies(mmsb_page_t page, mmsb_page_copy_t *copies, size_t capacity, size_t *count);

/* Pages that have bytes in memory of a device: GPU, UNIFIED and PINNED pages, and those with a replica there. A walk as
 * mmsb_context_pages: set *cursor to 0 before the first call; the walk is over when *count is 0. Each page that is listed had
 * bytes there when the walk came to it.
 * Errors: handle errors (context), MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_device_pages(mmsb_context_t context, int32_t device, uint64_t *cursor, mmsb_page_t *pages,
                                                 size_t capacity, size_t *count);

/* Gives a page a replica on a device: a copy there that only serves work which reads it, as a use of the page on a stream of that
 * device (mmsb_use_begin). Nothing is done where the page lies there, or has one; device is a number as mmsb_page_migrate takes
 * it. Any location but DISK. The bytes go from device to device, or from the host; those that are newest in two places first go
 * to the page's device.
 * A replica is the page's until its version advances, or its address is given out to be written (a WRITE pin, mmsb_page_address;
 * not of a read-only page): a use that begins later does not find it, one that is open reads on what the page was. Work that
 * writes names the page in its use, not only its block. A page that has other memory, moves or ends has none any more. Memory of
 * replicas counts as the device's. It goes when a call next looks at those of the page, or when the device lacks memory: then
 * first what was not used for the longest time. It stays while a use is open. Saves, clones and all other calls read the page
 * where it lies. Where its device is lost, a replica has all its bytes: the page has lost nothing (mmsb_context_lost_pages).
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NO_DEVICE, MMSB_E_UNSUPPORTED (DISK), MMSB_E_BUSY (pinned for writing),
 * MMSB_E_INVALID_STATE (its address was given out without a pin, and it is not read-only), MMSB_E_MISMATCH (written on both
 * sides), MMSB_E_LIMIT, MMSB_E_OUT_OF_MEMORY, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: while the bytes move.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_replicate(mmsb_page_t page, int32_t device);

/* Drops a page's replica on a device, where it has one. Its memory goes when the uses that are open have ended.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NO_DEVICE, MMSB_E_DEVICE_LOST (what was there is gone). Threads: any.
 * Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_replica_drop(mmsb_page_t page, int32_t device);

/* A GPU page whose device is lost. */
typedef struct mmsb_lost_page {
    mmsb_page_t page;
    uint64_t id;
    uint64_t size; /* bytes */
    uint64_t lost; /* of them in ranges that only the device had, or that it may have changed; 0 = the page has lost nothing */
    int32_t device;
    int32_t reserved_word;
} mmsb_lost_page_t;

/* The context's GPU pages whose device is lost, when those have gone on that could: see MMSB_FALLBACK_HOST. Pages that have lost
 * bytes stay, with MMSB_E_DEVICE_LOST for calls that need these; the rest of such a page can be read. They can be destroyed, or
 * loaded again from a snapshot (mmsb_load_options_t.page_ids). Pages that have lost nothing are listed while somebody has them
 * pinned or in a group, and, without a fallback, until they are migrated. A list.
 * Errors: handle errors (context), MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: while pages move. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_lost_pages(mmsb_context_t context, mmsb_lost_page_t *pages, size_t capacity, size_t *count);

/* Ends the copy on the host, when what is newer there has gone to the device. A page without one is left alone.
 * Errors: handle errors, MMSB_E_BUSY (the copy is pinned), MMSB_E_MISMATCH (written on both sides), MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: while the bytes move. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_host_copy_drop(mmsb_page_t page);

/* Pins a page and gives out the address of its copy on the host, when all that is newer on the device has come there. mode as
 * mmsb_page_pin has it. Each pin needs one mmsb_page_host_copy_unpin of the same mode. *address is valid until then, or until the
 * context ends.
 * Errors: as mmsb_page_pin; MMSB_E_INVALID_STATE (the page has no copy on the host), MMSB_E_MISMATCH (written on both sides),
 * MMSB_E_OUT_OF_MEMORY. Threads: any; another thread may unpin. Blocks: as mmsb_page_pin. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_host_copy_pin(mmsb_page_t page, int32_t mode, void **address);

/* Ends one such pin.
 * Errors: as mmsb_page_unpin. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_host_copy_unpin(mmsb_page_t page, int32_t mode);

typedef struct mmsb_sync_stats {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t pages;            /* in two places */
    uint64_t bytes;            /* sum of their sizes */
    uint64_t newer_on_host;    /* bytes of ranges that are newer there */
    uint64_t newer_on_device;  /* likewise */
    uint64_t to_device_bytes;  /* moved for pages in two places since the context began, by syncs and by other calls */
    uint64_t to_host_bytes;    /* likewise */
    uint64_t to_device_ranges; /* in so many ranges */
    uint64_t to_host_ranges;   /* likewise */
    uint64_t queued;           /* pages that wait for mmsb_context_sync_drain */
    uint64_t replicas;         /* also those that are not their page's any more, until a call looks at them */
    uint64_t replica_bytes;    /* sum of their sizes */
    uint64_t reserved[4];
} mmsb_sync_stats_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_sync_stats_init(mmsb_sync_stats_t *stats);

/* What the context's pages have in two places, and what has moved. The first four are sums over pages that are looked at one
 * after the other, the newer bytes without those of pages that were written on both sides. How many pages and bytes lie where:
 * mmsb_context_stats.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_sync_stats(mmsb_context_t context, mmsb_sync_stats_t *stats);

/* ----------------------------------------------------------------------------------------------- UNIFIED pages ---- */

/* What the driver is told of the use of a UNIFIED page's memory. It changes no bytes. */
typedef struct mmsb_page_advice {
    uint32_t struct_size;
    int32_t preferred;   /* MMSB_DEVICE_NONE; a device, or MMSB_DEVICE_HOST: the memory stays there, and others reach it there */
    int32_t read_mostly; /* 0; 1 = who reads gets a copy of his own, which ends with the next write */
    uint32_t reserved_word;
    uint64_t reserved[2];
} mmsb_page_advice_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_page_advice_init(mmsb_page_advice_t *advice);

/* Tells the driver of the use of a UNIFIED page, in the place of what it was told before; advice = NULL takes it back. It stays
 * with the page through a resize, and ends when the page moves to another location; neither clones nor snapshots have it. Drivers
 * take advice for whole pages of their own, which small UNIFIED pages share. To move the memory now, sync the page.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_UNSUPPORTED (a page elsewhere; a device or a driver before CUDA 12.2
 * that takes no advice: the list of devices says so), MMSB_E_NO_DEVICE, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks:
 * short. Source: cuMemAdvise in CUDA's driver interface. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_advise(mmsb_page_t page, const mmsb_page_advice_t *advice);

/* What the driver was told last.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_UNSUPPORTED (a page elsewhere). Threads: any. Blocks: short. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_page_advice(mmsb_page_t page, mmsb_page_advice_t *advice);

/* How many pages a program that walks over UNIFIED pages should prefetch ahead, by the times in nanoseconds that its last
 * accesses took: 4 without any; with a mean above 1 ms 16, above 500 us 8, above 100 us 4, else 2.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_prefetch_distance(const uint64_t *latencies_ns, size_t count, uint32_t *distance);

/* ------------------------------------------------------------------------------------------------------ deltas ---- */

typedef int32_t mmsb_delta_kind_t;
#define MMSB_DELTA_DENSE_BYTES 1 /* mask: a byte per byte of the page, 0 = unchanged; payload: mask_length bytes */
#define MMSB_DELTA_DENSE_BITS 2  /* mask: a bit per byte of the page, bit i%8 of byte i/8; payload: mask_length bytes */
#define MMSB_DELTA_SPARSE_BITS 3 /* the same mask; payload: only the changed bytes, in order */
#define MMSB_DELTA_INDEXED 4     /* count offsets in any order; payload: count bytes; of equal offsets the last wins */
#define MMSB_DELTA_RUNS 5        /* count runs in any order, the later wins; payload: the bytes of the runs in this order */

typedef struct mmsb_run {
    uint64_t offset;
    uint64_t length;
} mmsb_run_t;

/* A change of a page. The memory behind the pointers stays the caller's; the library only reads it. */
typedef struct mmsb_delta {
    uint32_t struct_size;
    mmsb_delta_kind_t kind;    /* must be set */
    uint64_t id;               /* 0 = none; a number that the caller chooses */
    uint64_t page_id;          /* 0 = any page; else the id of the page that it applies to */
    uint64_t epoch;            /* 0 = the page's + 1; else larger than the page's */
    uint64_t timestamp_ns;     /* 0 = now; since 1970 UTC */
    const char *source;        /* NULL; who made the change, UTF-8 */
    const char *intent;        /* NULL; why, UTF-8 */
    const void *mask;          /* DENSE_*, SPARSE_BITS */
    uint64_t mask_length;      /* bytes of the page that the mask covers; at most its size */
    const uint64_t *offsets;   /* INDEXED: either this … */
    const uint32_t *offsets32; /* … or this */
    const mmsb_run_t *runs;    /* RUNS */
    uint64_t count;            /* INDEXED, RUNS: number of offsets or runs */
    const void *payload;
    uint64_t payload_length; /* bytes; 0 = the length that the other fields imply, else exactly that length */
    uint64_t reserved[4];
} mmsb_delta_t;

/* Sets struct_size and zeroes all other fields; kind is then unset. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_delta_init(mmsb_delta_t *delta);

/* Checks whether the delta could be applied to a page of page_size bytes; epoch and page_id are not checked.
 * Errors: MMSB_E_INVALID_ARGUMENT (kind, NULL, UTF-8), MMSB_E_STRUCT_VERSION, MMSB_E_MISMATCH (payload length, number of mask
 * bits), MMSB_E_OUT_OF_RANGE (past page_size). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_validate(const mmsb_delta_t *delta, uint64_t page_size);

/* Changes the page's bytes, marks the addressed bytes in its change mask, sets its epoch and advances its version; or fails and
 * changes nothing. A delta that addresses no byte still advances the epoch. The delta and what it names may lie in the page: it
 * is as if they were copied first.
 * Errors: handle errors, those of mmsb_delta_validate, MMSB_E_MISMATCH (page_id), MMSB_E_EPOCH, MMSB_E_INVALID_STATE (read-only),
 * MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (change mask), MMSB_E_IO and MMSB_E_NO_SPACE (DISK: as mmsb_page_write). Threads: any.
 * Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_apply(mmsb_page_t page, const mmsb_delta_t *delta);

/* Applies deltas[i] to pages[i], all or none. A page may appear more than once. What the call reads may lie in pages of the
 * batch, as for mmsb_page_apply; but the payload of one run is read when its turn comes.
 * Errors: as mmsb_page_apply. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_apply_many(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count,
                                            size_t *bad_index);

/* Many one-run deltas as plain arrays, the fastest form: for each i, the next lengths[i] bytes of payload go to offsets[i] of
 * pages[i]. Each run is a delta of its own with epoch = current + 1. */
typedef struct mmsb_page_runs {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t count; /* number of runs */
    const mmsb_page_t *pages;
    const uint64_t *offsets;
    const uint64_t *lengths; /* NULL = every run has uniform_length bytes */
    uint64_t uniform_length;
    const void *payload;
    uint64_t payload_length; /* bytes; 0 = the sum of the lengths, else exactly that sum */
    uint64_t reserved[4];
} mmsb_page_runs_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_page_runs_init(mmsb_page_runs_t *runs);

/* Applies all runs or none. The arrays may lie in pages of the batch, as for mmsb_page_apply_many.
 * Errors: as mmsb_page_apply. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_apply_runs(const mmsb_page_runs_t *runs, size_t *bad_index);

/* Merges two deltas of one page, first then second, into one of kind MMSB_DELTA_RUNS. For each byte the later delta wins; the
 * result has the larger epoch and timestamp, source, intent and id of second, and the page_id that either of them names. The
 * library owns the result until mmsb_delta_free.
 * Errors: those of mmsb_delta_validate, MMSB_E_MISMATCH (different page_id), MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: no.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_merge(const mmsb_delta_t *first, const mmsb_delta_t *second, mmsb_delta_t **merged);

/* The delta that turns the bytes of old_page into those of new_page, which has the same size: kind MMSB_DELTA_RUNS, page_id the
 * id of old_page, epoch 0. Each page is read at one moment. The library owns the result until mmsb_delta_free.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_MISMATCH (sizes), MMSB_E_OUT_OF_MEMORY, MMSB_E_IO (DISK). Threads: any.
 * Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_from_pages(mmsb_page_t old_page, mmsb_page_t new_page, mmsb_delta_t **delta);

/* The same change in another form. In the mask kinds the mask ends with the last addressed byte; INDEXED and RUNS have ascending
 * offsets without overlaps. The library owns the result until mmsb_delta_free.
 * Errors: those of mmsb_delta_validate, MMSB_E_INVALID_ARGUMENT (kind), MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: no. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_delta_convert(const mmsb_delta_t *delta, mmsb_delta_kind_t kind, mmsb_delta_t **converted);

/* Frees a delta that the library made, with everything it points to. NULL does nothing.
 * Errors: MMSB_E_STALE_HANDLE (not a delta that the library made, or already freed). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_free(mmsb_delta_t *delta);

/* ------------------------------------------------------------------------------------------------- comparisons ---- */

typedef struct mmsb_difference {
    uint64_t count; /* bytes that differ */
    uint64_t first; /* index of the first of them; UINT64_MAX if there is none */
} mmsb_difference_t;

/* Counts the bytes in which two pages of the same size differ. Both are read at one moment. Two pages on one device are compared
 * there, and only the result comes to the host; a page beside one that lies elsewhere is read, 1 MiB at a time from a device.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_MISMATCH (sizes), MMSB_E_OUT_OF_MEMORY, MMSB_E_IO (DISK),
 * MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_compare(mmsb_page_t a, mmsb_page_t b, mmsb_difference_t *difference);

/* Sets bit i%8 of byte i/8 of bits where byte i of the pages differs, and clears the others. length is the size of both pages in
 * bytes; bits has (length + 7) / 8 bytes, and the unused bits of the last one are 0. After a failure of a device or of the disk
 * any of bits may have been written.
 * Errors: as mmsb_page_compare; MMSB_E_MISMATCH also if length is another. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_differences(mmsb_page_t a, mmsb_page_t b, void *bits, uint64_t length);

/* The CRC-32C of length bytes of a page, from offset on: what snapshot files have (docs/snapshot-format.md). 0 for no bytes. A
 * page on a device is summed up there, and 4 bytes for each 4 KiB come to the host.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE, MMSB_E_OUT_OF_MEMORY, MMSB_E_IO (DISK), MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_checksum(mmsb_page_t page, uint64_t offset, uint64_t length, uint32_t *sum);

/* The CRC-32C of bytes that follow each other, from those of two parts: the second part has second_bytes bytes.
 * Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint32_t mmsb_checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes);

/* Copies the bytes that the change mask of one page has into another page of the same size. It is one delta of page: the bytes
 * are marked in page's change mask, its epoch is the next, and a journal has a delta of kind MMSB_DELTA_RUNS. Both pages are
 * locked for it; nothing of from changes. If its mask has no bit, nothing happens. Where both lie on one device the bytes are
 * copied there, and only what says which goes over the link: 32 bytes for each run, or the mask where that is less.
 * Errors: as mmsb_page_apply; MMSB_E_INVALID_ARGUMENT (page is from), MMSB_E_MISMATCH (sizes). Threads: any. Blocks: short. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_page_propagate(mmsb_page_t page, mmsb_page_t from);

/* ------------------------------------------------------------------------------------------------ change masks ---- */

/* Copies length bits of the change mask, from bit offset on, into bits: bit i%8 of byte i/8, counted from offset; unused bits of
 * the last byte are 0. Bit i of the mask is set if a delta has addressed byte i since the mask was cleared.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_mask_read(mmsb_page_t page, uint64_t offset, void *bits, uint64_t length);

/* Clears all bits of the change mask; where none is set, the page does not change. How nothing is lost between a read of the mask
 * and this call where others change the page: "groups", others. Errors: handle errors. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_mask_clear(mmsb_page_t page);

/* Number of set bits in the change mask.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_mask_count(mmsb_page_t page, uint64_t *count);

/* --------------------------------------------------------------------------------------------------- metadata ---- */

/* Keys are valid UTF-8 of at least 1 byte; values are any bytes. A page keeps its keys in the order in which they were first set.
 * A metadata blob is: u32 count, then per entry u32 key length, key, u32 value length, value; little endian. */

/* Sets key to value.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (NULL, empty key, UTF-8), MMSB_E_INVALID_SIZE (the blob would be larger than 4
 * GiB), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_set(mmsb_page_t page, const char *key, size_t key_length, const void *value,
                                              size_t value_length);

/* Copies the value of a key. A list (see the rules) of bytes: *length is the length of the value, also when the buffer is too
 * small.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE (a key of 4 GiB or more), MMSB_E_NOT_FOUND,
 * MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_get(mmsb_page_t page, const char *key, size_t key_length, void *value, size_t capacity,
                                              size_t *length);

/* Removes a key.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE, MMSB_E_NOT_FOUND. Threads: any. Blocks: short. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_remove(mmsb_page_t page, const char *key, size_t key_length);

/* Copies the keys, each as its u32 length and its bytes. A list of bytes. *count (may be NULL) is the number of keys.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_keys(mmsb_page_t page, void *keys, size_t capacity, size_t *length, size_t *count);

/* Copies all entries as a blob. A list of bytes; without metadata the blob has count 0.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_export(mmsb_page_t page, void *blob, size_t capacity, size_t *length);

/* Replaces all entries by those of a blob, or fails and changes nothing. length 0 removes all entries.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_CORRUPT (truncated, wrong lengths, a key twice, bytes after the end,
 * invalid UTF-8: the text has the offset), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_import(mmsb_page_t page, const void *blob, size_t length);

/* ------------------------------------------------------------------------------------------------ dependencies ---- */

/* Adds an edge: child depends on parent. Both are in one context.
 * Errors: handle errors, MMSB_E_MISMATCH (two contexts), MMSB_E_INVALID_ARGUMENT (the edge would close a cycle, which the text
 * names), MMSB_E_ALREADY_EXISTS (the edge exists), MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_dependency_add(mmsb_page_t parent, mmsb_page_t child);

/* Removes the edge from parent to child.
 * Errors: handle errors, MMSB_E_MISMATCH, MMSB_E_NOT_FOUND. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_dependency_remove(mmsb_page_t parent, mmsb_page_t child);

/* The pages that this page depends on, oldest edge first. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_parents(mmsb_page_t page, mmsb_page_t *parents, size_t capacity, size_t *count);

/* The pages that depend on this page, oldest edge first. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_children(mmsb_page_t page, mmsb_page_t *children, size_t capacity, size_t *count);

/* All pages of the context that have dependencies, parents before children. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_dependency_order(mmsb_context_t context, mmsb_page_t *pages, size_t capacity, size_t *count);

/* ------------------------------------------------------------------------------------------------------ groups ---- */

/* A group makes many changes one: what a thread changes in a context between begin and commit.
 *
 * What         Creates (all forms, clones and adoptions), destroys, writes, deltas, resizes, migrations, clears of change masks,
 *              metadata and dependencies. Writes through pointers and pins are not part of it.
 * All or none  After a crash a group comes back from the journal whole, or not at all. It costs one record group and, with
 *              MMSB_DURABILITY_CALL, one wait for the disk, at the commit; calls within it do not wait. Without a journal it can
 *              be rolled back all the same.
 * Rollback     Every page is as before the begin: bytes, size, location, epoch, version, change mask, metadata, dependencies and
 *              their order, id and handle, also of pages that the group had destroyed. Pages that it had created are gone, their
 *              handles stale. What does not come back: bytes that were written through pointers stay, except where calls of the
 *              group changed them, too. A page whose address was ever given out (a WRITE pin, mmsb_page_address, adopted memory)
 *              gets a version of its own, as its bytes may have changed beside the group. An address of a page that the group had
 *              resized or migrated is not valid any more. Versions that pages had in the group are never given again.
 * Others       A page that the group has changed, created or destroyed belongs to its thread: calls of other threads that would
 *              change or clone it return MMSB_E_BUSY at once. They can read it, and see each change as it is made, before the
 *              commit. The handle and the id of a page that the group has destroyed answer as if it were gone; only the group can
 *              create a page with this id before its end. A write of 0 bytes makes a page the group's, too: then its mask, and
 *              the bytes that it marks, can be read, and the mask cleared, as of one moment.
 * Threads      A group belongs to the thread that began it and to one context. A thread has at most one group open in a context;
 *              a page of another context is not part of it. When the thread ends, its groups are rolled back. When the context
 *              ends, its groups are rolled back first.
 * Saves        A save waits at its moment until no group is open; meanwhile, and during the moment, a begin waits. Loads and
 *              the opening and closing of a journal return MMSB_E_BUSY while a group is open. On the thread that has a group open
 *              these calls, saves, mmsb_journal_sync, mmsb_journal_trim and mmsb_store_wait return MMSB_E_BUSY for the group's
 *              context, and mmsb_page_release and the _start forms return MMSB_E_INVALID_STATE, like other calls whose
 *              mmsb_work_options_t has a finite timeout other than 0, or after and no timeout of 0: another thread does their
 *              work.
 * Followers    In a context that follows a store (MMSB_STORE_FOLLOW) a group changes nothing, but pages are read in it as of one
 *              moment: what the writer does meanwhile is applied when no group is open. So keep it short.
 * Memory       The bytes that a group has changed, as they were, and the records of its changes are kept until its end, in memory
 *              that memory_limit counts. A call that finds no memory for this fails and has changed nothing; the group stays
 *              open.
 *
 * Each batch that changes pages is a group of itself in the journal, mmsb_page_create_many too; mmsb_page_migrate_many moves each
 * page by itself.
 */

/* Opens a group of the calling thread.
 * Errors: handle errors, MMSB_E_INVALID_STATE (the thread has one open in the context), MMSB_E_BUSY (a save, load or follower
 * waits for other groups, and the thread has one open in another context; a follower cannot apply the rest of a group, as a page
 * is pinned or by an error), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (65 535 groups are open). Threads: any. Blocks: while a save or
 * follower waits for other groups, a save is at its moment or a follower applies a group. Since 0.1. */
MMSB_API mmsb_status_t mmsb_group_begin(mmsb_context_t context);

/* mmsb_group_begin that waits no longer than timeout_ns for others; MMSB_WAIT_FOREVER, or 0 = do not wait. For languages whose
 * threads wait for each other's calls, as Julia's for a garbage collection: they wait in short steps. The time does not bound the
 * wait for space of a store's disk.
 * Errors: those of mmsb_group_begin, MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK (timeout_ns is 0). Threads: any. Blocks: as
 * mmsb_group_begin, or until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_group_begin_within(mmsb_context_t context, uint64_t timeout_ns);

/* Ends the thread's group: its changes stand, and reach the journal as one. If the journal does not take them, nothing has
 * happened: the group is still open, for a rollback or another try. If only the wait for the disk fails
 * (MMSB_DURABILITY_CALL), the group has ended and its changes stand in memory, but a replay may not have them.
 * Errors: handle errors, MMSB_E_INVALID_STATE (the thread has no group open in the context, or its rollback has begun),
 * MMSB_E_NO_SPACE, MMSB_E_IO (the journal). Threads: the one that began. Blocks: as the journal's durability says. Since 0.1. */
MMSB_API mmsb_status_t mmsb_group_commit(mmsb_context_t context);

/* Ends the thread's group and undoes its changes. If it fails, some of them are undone: the group is still open, takes no more
 * changes and cannot be committed; call it again.
 * Errors: handle errors, MMSB_E_INVALID_STATE (the thread has no group open in the context), MMSB_E_BUSY (a page is pinned that
 * the group has created, resized or migrated), MMSB_E_IO, MMSB_E_OUT_OF_MEMORY, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST (the bytes of a
 * page cannot be reached). Threads: the one that began. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_group_rollback(mmsb_context_t context);

/* -------------------------------------------------------------------------------------------- command buffers ---- */

/* A command buffer keeps commands that threads enqueue and executes them later, so that who changes a page does not wait for
 * those that follow it. docs/commands.md.
 *
 * Command      A page and its dependencies, pages of the same size. When it is executed, the bytes of each dependency that its
 *              change mask has are copied to the same places of the page, one dependency after the other: where several have a
 *              byte, the last one's stays. To the page this is one delta of these bytes: its change mask has them from then on,
 *              its epoch advances by 1, a journal has it, a save has all of it or nothing. Masks of dependencies stay as they
 *              are. A command that finds no byte to copy changes nothing. Without a list the dependencies are the page's parents
 *              (mmsb_page_parents), as they are when the command is executed.
 * Order        The commands that one thread enqueues are executed in that order, each after the one before is done. Those of
 *              different threads have no order among each other.
 * Bounded      Each thread has a ring of its own of capacity commands in each buffer that it uses. Where it is full, a call waits
 *              for space as long as its timeout_ns says: 0 = MMSB_E_WOULD_BLOCK at once. When a thread has ended and its commands
 *              are executed, the next new thread has its ring.
 * Executed     by workers, threads of the library, which sleep while there is nothing to do; or, with workers 0, on the threads
 *              that call mmsb_commands_wait, _drain or _close. There a command is a change of that thread, and belongs to the
 *              group that it has open; a page that belongs to a group of another thread is MMSB_E_BUSY.
 * Failures     What a command meets when it is executed is no error of any call: it is counted in failed, and
 *              mmsb_commands_failures tells it. A failed command has changed nothing (but MMSB_E_NOT_DURABLE), and those behind
 *              it go on. MMSB_E_STALE_HANDLE: the page, or a dependency of the list, was destroyed meanwhile; waiting commands
 *              keep no page. MMSB_E_MISMATCH: a dependency has another size than the page has then. MMSB_E_INVALID_ARGUMENT: a
 *              dependency of the list depends on the page itself, so that bytes would go in a circle. MMSB_E_BUSY: see above.
 *              MMSB_E_INVALID_STATE: adopted memory that is only to be read. Else those of mmsb_page_apply.
 * Ends         Buffers belong to no context: pages of any can be enqueued. mmsb_commands_destroy and mmsb_shutdown end them.
 */

typedef struct mmsb_commands_options {
    uint32_t struct_size;
    int32_t workers;   /* 1; threads of the library that execute commands, at most 64; 0: calls do it */
    uint64_t capacity; /* 1024; commands that each thread can have waiting, at most 2^24; each takes 64 bytes */
    /* 0; 1: a kernel that stays on a device executes the commands whose pages lie there together and of which at most 64 KiB are
     * copied, each without a launch of its own, while no context is saved or has a journal, and no group is open. It has one
     * block of 256 threads, sleeps between its looks for commands, and ends by itself, some milliseconds after the last one or
     * behind a thousand; work that waits for the whole device waits for that. Experimental: it has run on simulated devices only.
     */
    int32_t persistent;
    int32_t reserved_word;
    uint64_t reserved[5];
} mmsb_commands_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_commands_options_init(mmsb_commands_options_t *options);

/* Creates a command buffer. options may be NULL.
 * Errors: MMSB_E_INVALID_ARGUMENT (workers, persistent), MMSB_E_INVALID_SIZE (capacity), MMSB_E_STRUCT_VERSION,
 * MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (more than 1023 command buffers at once). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_create(const mmsb_commands_options_t *options, mmsb_commands_t *commands);

/* Ends a command buffer. Commands that wait are cancelled (mmsb_commands_close first executes them); calls on the buffer that
 * wait return MMSB_E_STALE_HANDLE. 0 does nothing.
 * Errors: handle errors. Threads: any. Blocks: until the commands that are being executed are done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_destroy(mmsb_commands_t commands);

/* Enqueues a command. dependencies NULL, with count 0: the page's parents; else count pages, copied before the call returns.
 * timeout_ns: how long the call waits while the thread's ring is full; 0 = not at all. It enters Go for nothing, and takes some
 * ten nanoseconds; the first one of a thread in a buffer makes its ring.
 * Errors: handle errors (commands; the pages), MMSB_E_INVALID_ARGUMENT (a dependency is the page itself; count without
 * dependencies), MMSB_E_INVALID_STATE (the buffer is closed), MMSB_E_WOULD_BLOCK, MMSB_E_TIMEOUT (the ring is full),
 * MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: as timeout_ns says. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_enqueue(mmsb_commands_t commands, mmsb_page_t page, const mmsb_page_t *dependencies,
                                             size_t count, uint64_t timeout_ns);

/* Waits until all commands that any thread had enqueued before the call are done, failed or cancelled. Without workers the call
 * executes them. timeout_ns 0: only asks.
 * Errors: handle errors, MMSB_E_WOULD_BLOCK, MMSB_E_TIMEOUT. Threads: any. Blocks: as timeout_ns says; a command that the call
 * executes is finished. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_wait(mmsb_commands_t commands, uint64_t timeout_ns);

/* Executes commands on the calling thread, at most limit (0: as many as waited at the begin), and leaves out rings of which
 * another thread is executing a command. *executed counts failed ones, too.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: while it executes. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_drain(mmsb_commands_t commands, uint64_t limit, uint64_t *executed);

#define MMSB_COMMANDS_COMPLETE 0 /* what waits is executed */
#define MMSB_COMMANDS_CANCEL 1   /* what waits is dropped, and counted as cancelled */

/* Shuts a command buffer down: from now on it takes no commands. Returns when none waits. Statistics and failures can be read
 * until the buffer is destroyed. After a timeout the buffer is closed, and what was begun goes on; call it again, also with the
 * other mode.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (mode), MMSB_E_WOULD_BLOCK, MMSB_E_TIMEOUT. Threads: any. Blocks: as timeout_ns
 * says; a command that the call executes is finished. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_close(mmsb_commands_t commands, int32_t mode, uint64_t timeout_ns);

typedef struct mmsb_commands_stats {
    uint32_t struct_size;
    int32_t workers; /* as the buffer was created with; so capacity */
    uint64_t capacity;
    uint64_t enqueued; /* commands so far: the sum of the next four */
    uint64_t done;
    uint64_t failed;
    uint64_t cancelled;
    uint64_t depth;         /* that wait, or are being executed */
    uint64_t peak;          /* the most that have waited in the ring of one thread */
    uint64_t producers;     /* rings */
    uint64_t refused;       /* calls that returned MMSB_E_WOULD_BLOCK or MMSB_E_TIMEOUT because a ring was full */
    uint64_t waits;         /* how often a call has slept because a ring was full */
    uint64_t waited_ns;     /* and how long, all threads together */
    uint64_t failures_lost; /* failures that were dropped before mmsb_commands_failures told them */
    uint64_t reserved[5];
} mmsb_commands_stats_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_commands_stats_init(mmsb_commands_stats_t *stats);

/* Counters of a command buffer, each exact when no other thread uses it.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_stats(mmsb_commands_t commands, mmsb_commands_stats_t *stats);

typedef struct mmsb_command_failure {
    uint32_t struct_size;
    mmsb_status_t code;
    mmsb_page_t page; /* of the command; perhaps stale */
    char text[240];   /* as mmsb_last_error would be; zero-terminated, cut where it is longer */
} mmsb_command_failure_t;

/* Takes the oldest failures out of the buffer, at most capacity; *count is how many, 0 when there are none. The newest 256 are
 * kept. This is not a list in the sense of the rules: capacity is at least 1.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_commands_failures(mmsb_commands_t commands, mmsb_command_failure_t *failures, size_t capacity,
                                              size_t *count);

/* --------------------------------------------------------------------------------------------------- snapshots ---- */

/* A snapshot holds the pages of a context as they were at one moment: bytes, id, size, location, epoch, version, change mask,
 * metadata and dependencies, with a checksum for each chunk of 256 KiB. docs/snapshot-format.md describes the file.
 *
 * The moment   Other threads go on while a save runs. Every call or batch of this API is completely in the snapshot or not at
 *              all, across all threads. A writer that changes a page which is not saved yet first copies the pre-image of
 *              what it changes, in lines of 64 bytes; if the page ends or is resized, of the whole page. copy_limit bounds
 *              these copies; beyond it writers wait for the disk.
 * Raw writes   are bytes that a program writes through pointers; the library does not see them. With MMSB_RAW_WRITES_ALLOW they
 *              are saved as they are when the save reaches their page, each page at another time. With MMSB_RAW_WRITES_WAIT they
 *              are part of the moment if every one of them is made while the page is pinned for writing or a writing section
 *              (mmsb_writing_begin) is open: the save begins when there are neither pins nor sections. Behind the moment a WRITE
 *              pin first copies its page, and sections wait until the save has the pages that they may change (adopted memory,
 *              pages whose mmsb_page_address was asked for): it copies those of up to 256 KiB and writes longer ones first.
 *              A blocking save on a thread that it would wait for returns MMSB_E_INVALID_STATE at once.
 * Durable      The file appears under its name when it is complete and on disk (temporary file, fsync, rename, fsync of the
 *              directory). A save that fails or is killed leaves the earlier file in place; the next save into the directory
 *              removes the temporary file of a process that was killed.
 * Incremental  base names the file of an earlier snapshot in the same directory that this context has saved or loaded, and
 *              from which its state comes. Only pages that are new or changed since then are written; a load reads the whole
 *              chain. Writes through pointers are found, too: where the kernel can track writes (mmsb_capabilities,
 *              "write tracking") by the parts that it reports of pages above 256 KiB, which it watches from their first save on
 *              (but not while saves find that most of one was written),
 *              else by comparing the checksums of every page whose address was given out. A chain has at most chain_limit
 *              files: then the save is whole. Whoever reads a chain keeps its 64 newest files open; older ones are opened when
 *              they are read, and must stay where they are until then.
 * Replaced     A save takes nothing away that another snapshot rests on. A file that would replace its own base, or a base of
 *              that, is written whole; a replaced file on which another snapshot of the directory rests stays there as
 *              mmsb-<id>.base until nothing needs it. base_in_use can refuse both. Copy or move a directory of incremental
 *              snapshots with all its files.
 * Lineage      Each state has a name: a lineage (one line of history, 128 random bits) and a position in it. Snapshots and
 *              journals carry it, and a load refuses files of different histories (MMSB_E_MISMATCH). What goes on from a
 *              loaded state is a lineage of its own, which names that state as its parent.
 * Paths        are bytes as the system takes them, not empty. A symbolic link in the last component is not followed.
 */

#define MMSB_COMPRESSION_NONE 0
#define MMSB_COMPRESSION_ZSTD 1

/* What a save does about bytes that programs write through pointers. */
#define MMSB_RAW_WRITES_ALLOW 0 /* nothing: such a page is saved as it is when the save reaches it */
#define MMSB_RAW_WRITES_REFUSE \
    1                          /* MMSB_E_BUSY: a page is pinned for writing or is adopted memory that may be written, or a \
                                    writing section is open */
#define MMSB_RAW_WRITES_WAIT 2 /* the moment comes when no page is pinned for writing and no writing section is open */

#define MMSB_BASE_IN_USE_WHOLE \
    0 /* write the snapshot whole if it replaces a file that its base rests on; keep what others need */
#define MMSB_BASE_IN_USE_REFUSE 1 /* MMSB_E_BUSY if another snapshot rests on the file that would be replaced */

typedef struct mmsb_save_options {
    uint32_t struct_size;
    int32_t compression;       /* MMSB_COMPRESSION_NONE */
    int32_t compression_level; /* 0 = the default of the compression; zstd 1 … 4 */
    int32_t raw_writes;        /* MMSB_RAW_WRITES_ALLOW */
    int32_t not_durable;       /* 0; 1 = do not wait for the disk: a power cut may damage the file, which a load detects */
    int32_t base_in_use;       /* MMSB_BASE_IN_USE_WHOLE */
    uint64_t copy_limit;       /* 0 = 256 MiB; bytes for pre-images that writers copy during the save; the minimum is 4 MiB */
    const char *base;          /* NULL = save everything; path of an earlier snapshot */
    int32_t queue;       /* 0 = MMSB_E_BUSY while a save or load of the context runs; 1 = wait until those before have ended */
    int32_t chain_limit; /* 0 = 64; files of a chain, at most 4096: the save is whole if it would be one more */
    uint64_t timeout_ns; /* MMSB_WAIT_FOREVER; of the blocking forms, see mmsb_work_options_t; 0 = try */
    int32_t not_watched; /* 0; 1 = the save begins to watch no page: for a context's last one, which then takes less time, as does
                            the context's end. A later incremental save compares the checksums of pages that are not watched */
    int32_t reserved_word;
    uint64_t reserved[2];
} mmsb_save_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_save_options_init(mmsb_save_options_t *options);

/* Saves the context to a file and replaces a file that exists there. A context runs one save at a time.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (path, options; base in another directory), MMSB_E_STRUCT_VERSION, MMSB_E_BUSY
 * (a save or a load of the context is running, without queue; raw_writes; base_in_use), MMSB_E_INVALID_STATE (raw_writes is wait,
 * and the calling thread is in a writing section or holds a WRITE pin), MMSB_E_NO_SPACE, MMSB_E_IO, MMSB_E_NOT_FOUND (base, or a
 * folder), MMSB_E_MISMATCH (the state does not come from base; base was replaced meanwhile), MMSB_E_CORRUPT, MMSB_E_FORMAT
 * (base), MMSB_E_OUT_OF_MEMORY, MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK. Threads: any. Blocks: until the file is on disk or the time
 * is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save(mmsb_context_t context, const char *path, const mmsb_save_options_t *options);

/* The asynchronous form of mmsb_snapshot_save; progress counts bytes. The moment of the snapshot lies between this call and the
 * end of the work.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_start(mmsb_context_t context, const char *path, const mmsb_save_options_t *options,
                                                const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

/* Writes the snapshot to a file descriptor from its current position on: a pipe, a socket, a file. The descriptor stays the
 * caller's. A failed call leaves an incomplete snapshot, which a load detects. options->base must be NULL.
 * Errors: as mmsb_snapshot_save. Threads: any. Blocks: until all is written. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_descriptor(mmsb_context_t context, int32_t descriptor,
                                                     const mmsb_save_options_t *options);

/* The asynchronous form of mmsb_snapshot_save_descriptor. The descriptor must stay open until the ticket is done.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_descriptor_start(mmsb_context_t context, int32_t descriptor,
                                                           const mmsb_save_options_t *options, const mmsb_work_options_t *work,
                                                           mmsb_ticket_t *ticket);

/* Writes the snapshot into memory of the library: *memory, *length bytes, valid until mmsb_snapshot_free_memory. options->base
 * must be NULL.
 * Errors: as mmsb_snapshot_save. Threads: any. Blocks: until done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_memory(mmsb_context_t context, const mmsb_save_options_t *options, void **memory,
                                                 uint64_t *length);

/* The asynchronous form of mmsb_snapshot_save_memory. *memory and *length are written when the work succeeds and must stay valid
 * until the ticket is done.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_memory_start(mmsb_context_t context, const mmsb_save_options_t *options,
                                                       const mmsb_work_options_t *work, void **memory, uint64_t *length,
                                                       mmsb_ticket_t *ticket);

/* Frees memory of mmsb_snapshot_save_memory or its asynchronous form. NULL does nothing.
 * Errors: MMSB_E_STALE_HANDLE (already freed, or not from mmsb_snapshot_save_memory). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_free_memory(void *memory);

#define MMSB_LOAD_EAGER 0 /* all bytes are read and verified before the call returns */
#define MMSB_LOAD_LAZY 1  /* bytes of large pages are read and verified when a call first needs them */
#define MMSB_LOAD_IN_PLACE \
    2 /* all bytes are verified first and read when the replaced pages have ended: for a context that fills its memory_limit */

typedef struct mmsb_load_options {
    uint32_t struct_size;
    int32_t mode;                  /* MMSB_LOAD_EAGER */
    const uint64_t *page_ids;      /* NULL = the whole state; ids of the pages to load, not with a journal */
    uint64_t page_count;           /* 0; number of page_ids */
    const char *journal;           /* NULL; directory of a journal whose records after the snapshot are applied */
    uint64_t journal_until;        /* 0 = all; number of the last record to apply */
    int64_t journal_until_time_ns; /* 0 = all; records later than this (since 1970 UTC) are not applied */
    uint64_t journal_page;         /* 0; with journal_epoch: id of a page */
    uint64_t journal_epoch;        /* 0 = all; the first record that moves that page's epoch beyond this ends the replay */
    uint64_t timeout_ns;           /* MMSB_WAIT_FOREVER; of the blocking forms, see mmsb_work_options_t; 0 = try */
    int32_t to_host;               /* 0; 1 = pages come to the CPU that lie on devices, or in pinned or managed memory */
    int32_t reserved_word;
    uint8_t snapshot_id[16]; /* zeros = any; id of the snapshot that it must be (mmsb_snapshot_info_t): what was looked at with
                                mmsb_snapshot_open, and not one that has taken its place at the path since */
    uint64_t reserved[2];
} mmsb_load_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_load_options_init(mmsb_load_options_t *options);

/* Sets the context to the state of a snapshot. Without page_ids all pages of the context are replaced at once: their handles
 * become stale, and calls of other threads on the context wait meanwhile. With page_ids only these pages are replaced or added;
 * all others stay, with their dependencies; between loaded pages the dependencies are those of the snapshot. The bytes of a page
 * whose id an adopted page has go into the adopted memory, and the page stays adopted. In a context that has had pages the
 * versions of the loaded ones are above all that it had; else they are those of the snapshot. Pages on devices return to their
 * device, or go where to_host or the context's fallback says; records of a journal may move them again. After an error the
 * context is as it was, but for two that come when the pages have been replaced, and whose text begins "the state is loaded":
 *   - With MMSB_LOAD_IN_PLACE all that is loaded is verified before, so that only the disk, or pages that other threads create
 *     meanwhile, can fail the reading of bytes behind it. A page that was not read then waits in the file, as after a lazy load.
 *     Adopted memory gets its bytes straight from the file; where it does not get all, its owner gets it back as it is. Masks
 *     and metadata of the new pages, and pages that records of a journal change, take memory beside the replaced pages; masks and
 *     metadata may exceed memory_limit by that. Not from memory.
 *   - If the context writes a journal, the journal goes on from what was loaded, as a branch with a base of its own that the call
 *     saves into the directory, unless it ends with exactly that state. If the disk fails there, the journal is closed.
 * Files of version 2, from the original program, can be loaded, too. With a journal the snapshot must be of its lineage. An empty
 * path stands for what the journal's directory begins with: the directory alone gives the whole state.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_BUSY (a page that would be replaced is pinned; a
 * save or a load is running), MMSB_E_NOT_FOUND (file, base, or a page id), MMSB_E_IO, MMSB_E_FORMAT, MMSB_E_CORRUPT (the text has
 * page and offset), MMSB_E_MISMATCH (it is not snapshot_id, or the base is another snapshot; adopted memory has another size;
 * with page_ids, a cycle with dependencies of pages that stay; the journal is of another lineage, or begins after the
 * snapshot, or has a gap), MMSB_E_ALREADY_EXISTS (a page that was created meanwhile has the id), MMSB_E_INVALID_STATE (a page
 * with the id was adopted as read-only), MMSB_E_NO_DEVICE, MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT, MMSB_E_NO_SPACE,
 * MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK. Threads: any. Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load(mmsb_context_t context, const char *path, const mmsb_load_options_t *options);

/* The asynchronous form of mmsb_snapshot_load; progress counts bytes. page_ids and the strings are copied.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_start(mmsb_context_t context, const char *path, const mmsb_load_options_t *options,
                                                const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

/* mmsb_snapshot_load from a file descriptor, read from its current position to its end: a pipe, a socket, a file. A snapshot with
 * a base is refused. With timeout_ns 0 only a file that is read from its beginning is loaded.
 * Errors: as mmsb_snapshot_load. Threads: any. Blocks: until done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_descriptor(mmsb_context_t context, int32_t descriptor,
                                                     const mmsb_load_options_t *options);

/* The asynchronous form of mmsb_snapshot_load_descriptor. The descriptor must stay open until the ticket is done.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_descriptor_start(mmsb_context_t context, int32_t descriptor,
                                                           const mmsb_load_options_t *options, const mmsb_work_options_t *work,
                                                           mmsb_ticket_t *ticket);

/* mmsb_snapshot_load from memory.
 * Errors: as mmsb_snapshot_load. Threads: any. Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_memory(mmsb_context_t context, const void *memory, uint64_t length,
                                                 const mmsb_load_options_t *options);

/* The asynchronous form of mmsb_snapshot_load_memory. The memory must stay valid and unchanged until the ticket is done.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_memory_start(mmsb_context_t context, const void *memory, uint64_t length,
                                                       const mmsb_load_options_t *options, const mmsb_work_options_t *work,
                                                       mmsb_ticket_t *ticket);

/* Counters of a context's saves. The copied_* fields are about the last save, or about the one that is running. */
typedef struct mmsb_save_stats {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t saves;      /* saves that succeeded */
    uint64_t last_pages; /* pages in the file of the last save */
    uint64_t last_bytes; /* length of the file of the last save */
    uint64_t last_duration_ns;
    uint64_t copied_bytes;   /* bytes of pre-images that writers copied */
    uint64_t copied_peak;    /* largest number of these bytes at one time */
    uint64_t waits;          /* calls that waited because copy_limit was reached */
    uint64_t waited_ns;      /* time that all of them waited together */
    uint64_t compared_bytes; /* bytes read only to compare checksums */
    uint64_t reserved[4];
} mmsb_save_stats_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_save_stats_init(mmsb_save_stats_t *stats);

/* The current counters, also while a save is running.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_save_stats(mmsb_context_t context, mmsb_save_stats_t *stats);

/* --------------------------------------------------------------------------------------- reading snapshot files ---- */

typedef struct mmsb_snapshot_info {
    uint32_t struct_size;
    uint32_t format;     /* version of the file: 3 or 4; 2 of the original program */
    uint8_t id[16];      /* random; zeros in files of version 2 */
    uint8_t base[16];    /* id of the base; zeros = none, the snapshot is whole */
    int64_t taken_ns;    /* since 1970 UTC; 0 in files of version 2 */
    uint64_t position;   /* of the state in its lineage: the number of the last journal record whose effect it has */
    uint64_t pages;      /* pages of the state */
    uint64_t bytes;      /* sum of their sizes */
    uint64_t file_pages; /* pages with an entry in this file */
    uint64_t file_bytes; /* length of this file */
    uint64_t edges;      /* dependencies */
    uint32_t chain;      /* number of files that the state comes from: 1 = this file alone */
    uint32_t reserved_word;
    uint8_t lineage[16]; /* of the state; zeros = not known, in files of version 3 and 2 */
    uint8_t parent[16];  /* of that lineage; zeros = it began with an empty context */
    uint64_t fork;       /* position of the parent after which the lineage begins */
    uint64_t reserved[4];
} mmsb_snapshot_info_t;

typedef struct mmsb_snapshot_page {
    uint64_t id;
    uint64_t size; /* bytes */
    uint64_t epoch;
    uint64_t version;
    mmsb_location_t location;
    int32_t device;
    int32_t numa_node;       /* -1 = any */
    uint32_t metadata_count; /* number of metadata keys */
    uint64_t reserved;
} mmsb_snapshot_page_t;

/* Opens a snapshot file and its chain of bases for reading; the library maps or reads them as needed. No context is involved.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_IO, MMSB_E_FORMAT, MMSB_E_CORRUPT, MMSB_E_MISMATCH, MMSB_E_LIMIT.
 * Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_open(const char *path, mmsb_snapshot_t *snapshot);

/* Closes the snapshot and ends its views. Closing 0 does nothing.
 * Errors: handle errors. Threads: any. Blocks: until calls on it have ended. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_close(mmsb_snapshot_t snapshot);

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_snapshot_info_init(mmsb_snapshot_info_t *info);

/* The contents of the file's header and index.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_info(mmsb_snapshot_t snapshot, mmsb_snapshot_info_t *info);

/* The pages of the state in the order of the files, at most capacity (at least 1) per call. Set *cursor to 0 before the first
 * call; each call advances it; the walk is over when *count is 0.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_pages(mmsb_snapshot_t snapshot, uint64_t *cursor, mmsb_snapshot_page_t *pages,
                                           size_t capacity, size_t *count);

/* The page with an id.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the
 * disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_find(mmsb_snapshot_t snapshot, uint64_t id, mmsb_snapshot_page_t *page);

/* Copies bytes of a page after verifying their checksums.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_OUT_OF_RANGE, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any.
 * Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_read(mmsb_snapshot_t snapshot, uint64_t id, uint64_t offset, void *buffer, uint64_t length);

/* A page's bytes in the mapped file: read-only, valid until mmsb_snapshot_close. The call verifies all of them. If another
 * process truncates the file, an access raises SIGBUS: use mmsb_snapshot_read for files that others change.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_UNSUPPORTED (compressed, or not contiguous in the
 * file, as no page of 4 MiB or more is), MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_view(mmsb_snapshot_t snapshot, uint64_t id, const void **bytes, uint64_t *length);

/* A page's metadata blob. A list of bytes, empty where the page has no metadata.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_OUT_OF_RANGE, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any.
 * Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_metadata(mmsb_snapshot_t snapshot, uint64_t id, void *blob, size_t capacity, size_t *length);

typedef struct mmsb_dependency {
    uint64_t parent; /* id of a page */
    uint64_t child;  /* id of a page that depends on it */
} mmsb_dependency_t;

/* The dependencies between the pages of the state. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the
 * disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_dependencies(mmsb_snapshot_t snapshot, mmsb_dependency_t *dependencies, size_t capacity,
                                                  size_t *count);

/* Copies length bits of a page's change mask, from bit offset on, as mmsb_page_mask_read does.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_OUT_OF_RANGE, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any.
 * Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_mask_read(mmsb_snapshot_t snapshot, uint64_t id, uint64_t offset, void *bits,
                                               uint64_t length);

/* Reads a snapshot and its bases and checks every checksum and every length. work may be NULL.
 * Errors: as mmsb_snapshot_open; MMSB_E_STRUCT_VERSION and handle errors (work), MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK,
 * MMSB_E_CANCELLED. Threads: any. Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_verify(const char *path, const mmsb_work_options_t *work);

/* The asynchronous form of mmsb_snapshot_verify; progress counts bytes.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_verify_start(const char *path, const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

#define MMSB_CHANGE_ADDED 1   /* only the newer snapshot has the page */
#define MMSB_CHANGE_REMOVED 2 /* only the older snapshot has the page */
#define MMSB_CHANGE_BYTES 3   /* size or bytes differ, perhaps other properties, too */
#define MMSB_CHANGE_OTHER 4   /* epoch, change mask, metadata, location or whether it was adopted differ; the bytes do not */

typedef struct mmsb_snapshot_change {
    uint64_t id;
    int32_t change; /* MMSB_CHANGE_* */
    int32_t reserved;
} mmsb_snapshot_change_t;

/* The pages that differ between two snapshots, in ascending order of ids. A list. work may be NULL.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE, MMSB_E_IO, MMSB_E_CORRUPT, MMSB_E_STRUCT_VERSION,
 * MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK, MMSB_E_CANCELLED. Threads: any. Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_diff(mmsb_snapshot_t older, mmsb_snapshot_t newer, const mmsb_work_options_t *work,
                                          mmsb_snapshot_change_t *changes, size_t capacity, size_t *count);

/* The asynchronous form of mmsb_snapshot_diff; progress counts pages. changes and *count are written by the work and must stay
 * valid until the ticket is done.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_diff_start(mmsb_snapshot_t older, mmsb_snapshot_t newer, const mmsb_work_options_t *work,
                                                mmsb_snapshot_change_t *changes, size_t capacity, size_t *count,
                                                mmsb_ticket_t *ticket);

/* Writes the state of a snapshot and its bases to one whole snapshot file with a new id. Compressed chunks stay compressed. Of
 * options (may be NULL) all fields but not_durable, base_in_use and timeout_ns keep their defaults. to may be one of the files:
 * what rests on it rests on a second name of it from then on.
 * Errors: as mmsb_snapshot_open and mmsb_snapshot_save. Threads: any. Blocks: until the file is on disk or the time is over.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_compact(const char *path, const char *to, const mmsb_save_options_t *options);

/* The asynchronous form of mmsb_snapshot_compact; progress counts bytes.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_compact_start(const char *path, const char *to, const mmsb_save_options_t *options,
                                                   const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

/* ---------------------------------------------------------------------------------------------------- journal ---- */

/* A durable log of every change that goes through the API. Its directory alone gives the state back: it begins with the empty
 * context or with a base, a snapshot; mmsb_load_options_t.journal with an empty path loads it. What a call has put there when it
 * returns survives the death of the process, whatever the durability: that is about power cuts. docs/journal-format.md describes
 * the files.
 * When the disk fails or is full, calls that change pages return MMSB_E_IO or MMSB_E_NO_SPACE and change nothing, until the
 * journal is closed. Calls that wait for the disk at that moment (MMSB_DURABILITY_CALL) return MMSB_E_NOT_DURABLE: their change
 * is made, what they return is valid, and mmsb_last_error says what failed. After the journal was closed, another one, or the
 * same one when the disk works again, begins with all that the context has.
 * The journal does not have bytes that a program writes through pointers. A batch (_many, _runs) that changes pages of several
 * contexts returns MMSB_E_UNSUPPORTED if one of them has a journal. */

/* What a power cut, or the end of the system, may take away. */
#define MMSB_DURABILITY_INTERVAL 0 /* the calls of the last interval_ms, and of the time that the disk takes */
#define MMSB_DURABILITY_CALL 1     /* nothing: a call returns when its record is on disk */
#define MMSB_DURABILITY_NONE 2     /* what the operating system has not yet written: there is no fsync */

#define MMSB_JOURNAL_BASE_WRITE 0  /* save the context into the directory where no records there lead to its state */
#define MMSB_JOURNAL_BASE_REFUSE 1 /* MMSB_E_INVALID_STATE in that case */

typedef struct mmsb_journal_options {
    uint32_t struct_size;
    int32_t durability;     /* MMSB_DURABILITY_INTERVAL */
    uint32_t interval_ms;   /* 10 */
    int32_t keep;           /* 0 = a durable save becomes the base, and what it makes unnecessary is removed; 1 = all stays */
    uint64_t segment_bytes; /* 256 MiB; when a segment is longer, the journal begins a new one */
    int32_t base;           /* MMSB_JOURNAL_BASE_WRITE */
    uint32_t reserved_word;
    uint64_t timeout_ns; /* MMSB_WAIT_FOREVER; of the blocking form, see mmsb_work_options_t; 0 = try */
    uint64_t reserved[2];
} mmsb_journal_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_journal_options_init(mmsb_journal_options_t *options);

/* Begins to journal a context into a directory, which is created if it is missing. Where the directory ends with exactly the
 * context's state, the journal goes on there; a torn end is cut, and what a killed process left in memory is added. Otherwise,
 * and in a new directory unless the context is empty, the call saves the context into the directory first, as a base: that takes
 * as long as a save. A context that was loaded from a chosen state (a snapshot without the journal, or the journal up to a
 * record, a time or an epoch) begins a branch there; loads with an empty path then take the branch, and the files of the older
 * one stay. Any other context must have all that the directory has: if another one has gone on with the journal since this one
 * loaded or closed it, load it again. Calls of other threads wait while the call looks at the pages.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_ALREADY_EXISTS (the context has a journal),
 * MMSB_E_NOT_FOUND (a folder above the directory), MMSB_E_BUSY (another process writes the journal; a save or a load is running),
 * MMSB_E_MISMATCH (the journal is of another lineage, or has gone on), MMSB_E_INVALID_STATE (base), MMSB_E_UNSUPPORTED (the file
 * system cannot share memory, and durability is not call), MMSB_E_IO, MMSB_E_NO_SPACE, MMSB_E_CORRUPT, MMSB_E_FORMAT,
 * MMSB_E_OUT_OF_MEMORY, MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK. Threads: any. Blocks: for the disk or until the time is over. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_journal_open(mmsb_context_t context, const char *directory, const mmsb_journal_options_t *options);

/* The asynchronous form of mmsb_journal_open; progress counts the bytes of the base.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_open_start(mmsb_context_t context, const char *directory,
                                               const mmsb_journal_options_t *options, const mmsb_work_options_t *work,
                                               mmsb_ticket_t *ticket);

/* Waits until the records of all calls that have returned are on disk. work may be NULL; with timeout_ns 0 the call says whether
 * they are, and if not (MMSB_E_WOULD_BLOCK) they are written soon.
 * Errors: handle errors, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_STATE (no journal), MMSB_E_IO, MMSB_E_NO_SPACE, MMSB_E_TIMEOUT,
 * MMSB_E_WOULD_BLOCK, MMSB_E_CANCELLED. Threads: any. Blocks: for the disk or until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_sync(mmsb_context_t context, const mmsb_work_options_t *work);

/* The asynchronous form of mmsb_journal_sync, for the calls that have returned before the work begins.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_sync_start(mmsb_context_t context, const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

/* Syncs and ends the journal; after an error it has ended, too. Destroying the context also closes it. A program that must not
 * wait here calls mmsb_journal_sync with a timeout first.
 * Errors: handle errors, MMSB_E_INVALID_STATE (no journal, or that of a store), MMSB_E_IO, MMSB_E_NO_SPACE. Threads: any. Blocks:
 * for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_close(mmsb_context_t context);

/* Verifies a snapshot and its bases, tells the directory that it is the journal's base, then removes the segments that hold only
 * records which the snapshot contains, and older bases. work may be NULL.
 * Errors: as mmsb_journal_sync, MMSB_E_MISMATCH (another lineage), and those of mmsb_snapshot_open. Threads: any. Blocks: for the
 * disk or until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_trim(mmsb_context_t context, const char *snapshot, const mmsb_work_options_t *work);

/* The asynchronous form of mmsb_journal_trim; progress counts bytes of the snapshot.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_trim_start(mmsb_context_t context, const char *snapshot, const mmsb_work_options_t *work,
                                               mmsb_ticket_t *ticket);

typedef struct mmsb_journal_info {
    uint32_t struct_size;
    uint32_t segments;
    uint64_t first;     /* number of the oldest record that is kept */
    uint64_t last;      /* number of the newest record; 0 if there is none yet */
    uint64_t synced;    /* all records up to this number are on disk */
    uint64_t bytes;     /* length of all segments */
    uint64_t waits;     /* how often calls have waited because the disk was slower than they were, or full, since it was opened */
    uint64_t waited_ns; /* and how long, all threads together */
    uint64_t space_waited_ns; /* of it: for a full disk */
    uint64_t reserved[1];
} mmsb_journal_info_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_journal_info_init(mmsb_journal_info_t *info);

/* The current extent of the context's journal.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_STATE (no journal). Threads: any. Blocks:
 * no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_info(mmsb_context_t context, mmsb_journal_info_t *info);

/* ------------------------------------------------------------------------------------------ reading journals ---- */

/* Of directories, also while a process writes there. No context is involved. Where lineages branch, it is the newest branch. Each
 * call looks at the directory anew. */

typedef struct mmsb_journal_directory {
    uint32_t struct_size;
    int32_t closed;        /* 1 = its writer closed it; 0 = it is being written, or its writer died */
    uint8_t lineage[16];   /* zeros = not known, in journals of version 1 */
    uint8_t parent[16];    /* of that lineage; zeros = it began with an empty context */
    uint64_t fork;         /* position of the parent after which the lineage begins */
    uint64_t branch;       /* number of the lineage in the directory, from 0 on */
    uint64_t branches;     /* lineages that end in the directory, this one included */
    uint64_t segments;     /* of the branch */
    uint64_t first;        /* number of the oldest record that is kept; last + 1 if there is none */
    uint64_t last;         /* number of the newest whole record */
    int64_t first_time_ns; /* of these records, since 1970 UTC; 0 if there is none */
    int64_t last_time_ns;
    uint64_t torn_bytes; /* at the end of the last segment, which do not count: half written, or being written */
    uint64_t reserved[4];
} mmsb_journal_directory_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_journal_directory_init(mmsb_journal_directory_t *journal);

/* What a journal's directory has. The call reads the last segment, to find where the journal ends.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_NOT_FOUND, MMSB_E_IO, MMSB_E_FORMAT, MMSB_E_CORRUPT. Threads:
 * any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_directory(const char *directory, mmsb_journal_directory_t *journal);

typedef struct mmsb_journal_segment {
    char name[64];      /* of the file */
    uint64_t first;     /* number of its first record */
    uint64_t last;      /* number of its last record; first - 1 if it has none */
    uint64_t bytes;     /* length of the file */
    int64_t created_ns; /* since 1970 UTC */
    int32_t based;      /* 1 = a base, a snapshot, gives the state before the first record */
    uint32_t reserved_word;
    uint64_t reserved[2];
} mmsb_journal_segment_t;

/* The segments of a journal, oldest first. A list.
 * Errors: as mmsb_journal_directory; MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_segments(const char *directory, mmsb_journal_segment_t *segments, size_t capacity,
                                             size_t *count);

#define MMSB_RECORD_CREATE 1
#define MMSB_RECORD_ADOPT 2
#define MMSB_RECORD_CLONE 3
#define MMSB_RECORD_DESTROY 4
#define MMSB_RECORD_RESIZE 5
#define MMSB_RECORD_MIGRATE 6
#define MMSB_RECORD_WRITE 7
#define MMSB_RECORD_RUN 8
#define MMSB_RECORD_DELTA 9
#define MMSB_RECORD_MASK_CLEAR 10
#define MMSB_RECORD_METADATA_SET 11
#define MMSB_RECORD_METADATA_REMOVE 12
#define MMSB_RECORD_METADATA_IMPORT 13
#define MMSB_RECORD_DEPENDENCY_ADD 14
#define MMSB_RECORD_DEPENDENCY_REMOVE 15

/* A change, without its bytes. Texts are cut between two characters where they are longer. */
typedef struct mmsb_journal_record {
    uint64_t record;          /* its number */
    uint64_t group;           /* number of the first record of its group: all records of a group come back, or none */
    int64_t time_ns;          /* since 1970 UTC */
    uint64_t page;            /* id; of DEPENDENCY_*: the parent */
    uint64_t version;         /* of the page after the change */
    uint64_t epoch;           /* of the page after the change */
    uint64_t size;            /* CREATE, ADOPT, RESIZE: the page's size, in bytes */
    uint64_t offset;          /* WRITE, RUN */
    uint64_t bytes;           /* WRITE, RUN, DELTA, METADATA_SET, METADATA_IMPORT: length of what is written */
    uint64_t other;           /* CLONE: the id of the original; DEPENDENCY_*: that of the child */
    uint64_t other_version;   /* CLONE: the original's */
    int32_t kind;             /* MMSB_RECORD_*; a newer library may have more */
    mmsb_location_t location; /* CREATE, ADOPT, MIGRATE, and the two below, too */
    int32_t device;
    int32_t numa_node;
    int32_t form;      /* DELTA: MMSB_DELTA_*; MMSB_DELTA_INDEXED also with offsets of 32 bits */
    int32_t adopted;   /* ADOPT: 1 */
    int32_t read_only; /* ADOPT: 1 = the memory was adopted as read-only */
    uint32_t reserved_word;
    char key[64];    /* METADATA_SET, METADATA_REMOVE */
    char source[64]; /* RUN, DELTA: the delta's */
    char intent[64];
    uint64_t reserved[4];
} mmsb_journal_record_t;

/* The records of a journal, at most capacity (at least 1) per call. Set *next to the number of the first record to list, or to 0
 * for the oldest; each call sets it to the number behind its last; the walk is over when *count is 0.
 * Errors: as mmsb_journal_directory. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_records(const char *directory, uint64_t *next, mmsb_journal_record_t *records,
                                            size_t capacity, size_t *count);

/* ------------------------------------------------------------------------------------------------------ stores ---- */

/* A store is a directory that has the state of a context, always: a journal, the snapshots that its records lead on from, and
 * names of snapshots. One call opens it: it finds the newest state, and what is changed from then on is journalled there. Who
 * dies or destroys the context needs no save. The directory of a journal (mmsb_journal_open) is a store, and the other way round.
 *
 * While a store is open for writing, its keeper saves what has changed into the directory when the journal has grown by
 * save_bytes, and every save_interval_ns; when the snapshots that rest on each other have grown, it saves all of it anew. After
 * each save it removes what no rule keeps: the keep_last newest snapshots stay, the newest of each of the last keep_hourly hours
 * and keep_daily days (UTC) that have any, and those that have a name. Records stay behind the oldest of the keep_last newest:
 * every state since can be restored, until a branch begins: of what lies before that the snapshots are left. A save of the
 * keeper that fails is tried again after a second, then later and later; the log and mmsb_store_info say so. Bytes that a
 * program writes through pointers have no records: they are durable with the next save, which the keeper begins every
 * save_interval_ns also where nothing else has changed, and when the store is closed. A save of its own that finds all as it
 * was leaves no snapshot.
 *
 * When the disk is full, calls that change pages return MMSB_E_NO_SPACE and change nothing until it has space again: every
 * second, later every ten, the keeper tries to save the state and to go on behind it. With space_wait_ns such calls, and
 * mmsb_group_begin, wait instead, until there is space, the context is destroyed, or the time since the disk was found full is
 * over; those in a group never wait, nor does work that was started. After other failures of the disk calls fail until the
 * context is destroyed, and what they acknowledged before stays. mmsb_journal_close returns MMSB_E_INVALID_STATE.
 *
 * A directory has one writer at a time, also over processes; a writer that has died does not count. Any number of processes
 * read it meanwhile: what they open has the calls before the writer's last mmsb_journal_sync, and those older than
 * interval_ms. Those that follow it (MMSB_STORE_FOLLOW) have its pages live: within a few milliseconds a call's change is
 * applied to their pages, in the writer's order and group by group: a save never has half a group, and who reads several pages
 * within a group of the follower (mmsb_group_begin) reads them as of one moment. It need not be durable.
 * Who cannot read the writer's memory, on another machine or without the right to read journal.ring, has what the writer has
 * written to its journal, interval_ms after a call at the latest unless the disk is slower. Handles stay valid. A page that
 * is pinned in a follower is not resized, moved or destroyed there: the follower waits until it is unpinned, and so does all
 * that comes behind it. Where the store goes on with another state (a branch), has removed records before they were read, or
 * has lost some that were (a power cut), the newest state is loaded anew: all handles become stale, ids stay. With keep_last
 * = 1 a save removes all records before it, so that a follower that is a few milliseconds late can miss some: 2 gives it the
 * time between two saves. An error in the middle of a group (MMSB_E_LIMIT) leaves half of it, until the state is loaded anew:
 * saves and groups of the follower return MMSB_E_BUSY meanwhile. A follower cannot load anything else, and bytes that the
 * writer writes through pointers come with such a load only. The log and mmsb_store_info tell what fails; it is tried again. */

#define MMSB_NEVER UINT64_MAX /* a number of bytes that never come */

#define MMSB_STORE_WRITE 0  /* go on from the newest state; a directory that is missing or empty is begun */
#define MMSB_STORE_READ 1   /* calls that would change pages return MMSB_E_INVALID_STATE; no lock is taken */
#define MMSB_STORE_BRANCH 2 /* go on from an older state: the newer ones are left on a branch of their own */
#define MMSB_STORE_FOLLOW 3 /* as READ, but the pages keep up with the store's writer, which may be another process */

typedef struct mmsb_store_options {
    uint32_t struct_size;
    int32_t mode;         /* MMSB_STORE_WRITE */
    const char *at_name;  /* NULL; with READ or BRANCH, at most one of the three: the state that has this name */
    uint64_t at_record;   /* 0; the state behind this record; what was written through pointers is that of the snapshot before */
    int64_t at_time_ns;   /* 0; the state of that time, in nanoseconds since 1970 UTC */
    int32_t load;         /* MMSB_LOAD_EAGER; or MMSB_LOAD_LAZY */
    int32_t durability;   /* MMSB_DURABILITY_INTERVAL */
    uint32_t interval_ms; /* 10 */
    int32_t keep_last;    /* 1; at least 1 */
    uint64_t segment_bytes;    /* 16 MiB; when a segment of the journal is longer, a new one begins */
    uint64_t save_bytes;       /* 0 = 64 MiB, or a tenth of the pages' bytes where that is more; MMSB_NEVER = none */
    uint64_t save_interval_ns; /* 0 = none */
    int32_t keep_hourly;       /* 0 */
    int32_t keep_daily;        /* 0 */
    uint64_t timeout_ns;       /* MMSB_WAIT_FOREVER; of the blocking form, see mmsb_work_options_t; 0 = try */
    uint64_t space_wait_ns;    /* 0; how long calls wait after the disk is found full; MMSB_WAIT_FOREVER = until there is space */
    uint64_t reserved[3];
} mmsb_store_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_store_options_init(mmsb_store_options_t *options);

/* Opens a store: *context is a new context with its state. Both options may be NULL. The folders above the directory must exist.
 * A state that is older than the records that are kept is that of a snapshot: of a time the newest one before it. A branch begins
 * with a snapshot of its own, and the states that it leaves can still be opened by their names. mmsb_context_destroy closes the
 * store.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_BUSY (another writer; the text has its process and host),
 * MMSB_E_NOT_FOUND (no store to read, no such name, record or time; a folder above it), MMSB_E_INVALID_STATE (the directory has
 * other files and no store), those of mmsb_context_create, mmsb_snapshot_load and mmsb_journal_open. Threads: any. Blocks: until
 * the state is loaded or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_open(const char *directory, const mmsb_context_options_t *context_options,
                                       const mmsb_store_options_t *options, mmsb_context_t *context);

/* The asynchronous form of mmsb_store_open. *context is written before the ticket is done, and must stay valid until then; after
 * an error it is 0. The strings are copied.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_open_start(const char *directory, const mmsb_context_options_t *context_options,
                                             const mmsb_store_options_t *options, const mmsb_work_options_t *work,
                                             mmsb_context_t *context, mmsb_ticket_t *ticket);

/* Saves a context into its store now, and removes what no rule keeps: what has changed since the last save, unless the keeper
 * would save all of it anew, or (whole = 1) all of it, so that no other snapshot is needed for this one. It waits for a save that
 * is running. If the disk has refused records, the store goes on behind the save, and calls change it again. work may be NULL.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_STATE (the context was not opened from a
 * store for writing), and those of mmsb_snapshot_save. Threads: any. Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_save(mmsb_context_t context, int32_t whole, const mmsb_work_options_t *work);

/* The asynchronous form of mmsb_store_save; progress counts bytes.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_save_start(mmsb_context_t context, int32_t whole, const mmsb_work_options_t *work,
                                             mmsb_ticket_t *ticket);

/* mmsb_store_save, and the snapshot gets a name: 1 to 255 bytes of UTF-8 without control characters, of which the first is a
 * letter. It stays as long as it has one. A snapshot that has the name already loses it. work may be NULL.
 * Errors: as mmsb_store_save. Threads: any. Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_name(mmsb_context_t context, const char *name, const mmsb_work_options_t *work);

/* The asynchronous form of mmsb_store_name; progress counts bytes.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_name_start(mmsb_context_t context, const char *name, const mmsb_work_options_t *work,
                                             mmsb_ticket_t *ticket);

/* Takes a name away; the next save removes the snapshot unless another rule keeps it. work may be NULL.
 * Errors: as mmsb_store_save, MMSB_E_NOT_FOUND. Threads: any. Blocks: for the disk or until the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_unname(mmsb_context_t context, const char *name, const mmsb_work_options_t *work);

typedef struct mmsb_store_info {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t snapshots;       /* in the directory */
    uint64_t snapshot_bytes;  /* of their files, and of others that they rest on */
    uint64_t journal_bytes;   /* of the journal's segments */
    uint64_t first_record;    /* the oldest that is kept */
    uint64_t last_record;     /* the newest; of a reader or follower the last that its pages have; 0 if there is none yet */
    uint64_t unsaved_bytes;   /* of journal, behind the last save */
    uint64_t saves;           /* since the store was opened, like all that follow: of a reader 0 */
    uint64_t whole_saves;     /* of them */
    uint64_t failed_saves;    /* of the keeper; it tries again */
    uint64_t saved_bytes;     /* of the snapshots */
    int64_t last_save_ns;     /* when the last one began, since 1970; 0 if there was none */
    uint64_t pruned;          /* snapshots that were removed */
    uint64_t pruned_bytes;    /* of their files, each of which stays as long as others rest on it */
    int64_t followed_ns;      /* of a follower: when last_record was applied, since 1970; of others 0, like the next two */
    uint64_t reloads;         /* how often the newest state was loaded anew */
    uint64_t follow_failures; /* errors of reading or applying records; it tries again */
    uint64_t waits;           /* how often calls have waited because the disk was slower than they were, or full */
    uint64_t waited_ns;       /* and how long, all threads together */
    uint64_t reserved[1];
} mmsb_store_info_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_store_info_init(mmsb_store_info_t *info);

/* What the store of a context has, and what was done for it.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_STATE (the context was not opened from a
 * store), those of reading the directory. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_info(mmsb_context_t context, mmsb_store_info_t *info);

/* Waits until the pages of a context that follows a store have the state behind a record of its journal, or behind a later one.
 * The writer knows the number of its last record from mmsb_journal_info or mmsb_store_info. work may be NULL.
 * Errors: handle errors, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_STATE (the context does not follow a
 * store), MMSB_E_BUSY (the thread has a group open in it), MMSB_E_TIMEOUT, MMSB_E_WOULD_BLOCK (a timeout of 0),
 * MMSB_E_CANCELLED. Threads: any. Blocks: until the record is applied or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_wait(mmsb_context_t context, uint64_t record, const mmsb_work_options_t *work);

/* The asynchronous form of mmsb_store_wait.
 * Errors: those of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_wait_start(mmsb_context_t context, uint64_t record, const mmsb_work_options_t *work,
                                             mmsb_ticket_t *ticket);

typedef struct mmsb_store_point {
    uint8_t id[16];      /* of the snapshot */
    uint8_t lineage[16]; /* of its state */
    uint64_t position;   /* number of the last record that it has */
    int64_t taken_ns;    /* since 1970 */
    uint64_t bytes;      /* of its file, without those that it rests on */
    int32_t whole;       /* 1 = it rests on no other */
    int32_t on_line;     /* 1 = the newest state comes from it; 0 = a branch that was left */
    int32_t leads;       /* 1 = records lead on from it: every state since can be opened */
    int32_t names;       /* how many it has: 1 or 0, as mmsb_store_name saves a snapshot of its own for each name */
    char name[256];      /* the first of them; empty where there is none */
} mmsb_store_point_t;

/* Lists the snapshots of a store, the newest first, those of branches that were left at the end. Beside a writer it is what the
 * directory had at one moment. A snapshot whose header is damaged or cannot be read is not listed; `mmsb store verify` names it.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE (capacity too small; *count is the capacity needed), MMSB_E_NOT_FOUND (no
 * store), MMSB_E_IO, MMSB_E_CORRUPT, MMSB_E_FORMAT. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_store_points(const char *directory, mmsb_store_point_t *points, size_t capacity, size_t *count);

/* ---------------------------------------------------------------------------------------------------- devices ---- */

/* GPUs, or the simulated devices that take their place if a context asks for that (mmsb_context_options_t.simulate). The devices
 * of a context are of one kind: the driver's, or simulated ones of its own. docs/devices.md describes how they work. */

typedef struct mmsb_device_info {
    int32_t ordinal;   /* the driver's number of the device */
    int32_t simulated; /* 1 = no hardware: the device's memory is host memory */
    char name[96];
    char pci[16]; /* PCI address like "0000:65:00.0"; empty if there is none */
    uint8_t uuid[16];
    uint64_t bytes;       /* memory of the device */
    uint64_t free_bytes;  /* memory that no process has taken; 0 = not known */
    uint64_t granularity; /* of address ranges that are reserved and mapped, in bytes; 0 = the device cannot do that */
    int32_t major;        /* compute capability, major number */
    int32_t minor;        /* compute capability, minor number */
    int32_t multiprocessors;
    int32_t numa_node;      /* the host's NUMA node nearest to the device; -1 = not known */
    int32_t ordered_memory; /* 1 = the device has stream-ordered memory: runtimes can be created */
    int32_t managed_memory; /* 1 = the device has managed memory: UNIFIED pages can lie there */
    int32_t managed_hints;  /* 1 = and takes hints of its use: UNIFIED pages are prefetched and take advice */
    int32_t reserved_word;
    uint64_t reserved[3];
} mmsb_device_info_t;

/* The context's devices, in the order of their ordinals. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE, MMSB_E_NO_DEVICE (no driver library, or it finds no
 * device: the text says what was looked for), MMSB_E_DEVICE (the driver is broken or too old: the text names it). Threads: any.
 * Blocks: until each device is open. Since 0.1. */
MMSB_API mmsb_status_t mmsb_device_list(mmsb_context_t context, mmsb_device_info_t *devices, size_t capacity, size_t *count);

/* Sets a budget: the most bytes of a device's memory that this process takes for its runtimes and pages, whichever context they
 * belong to, all together. 0 = no budget. It can change at any time. What is taken beyond a lower budget stays, and no more is
 * taken until enough is given back; free segments of pools are given back at once. A request beyond the budget first makes the
 * other runtimes of the device give back what they keep, then it is MMSB_E_LIMIT. Blocks of a pool that had their memory before
 * are not counted again. A runtime's own budget holds, too. The budget of a simulated device ends with its context.
 * MMSB_DEVICE_HOST is host memory that devices can access, of PINNED pages and copies.
 * Errors: handle errors, MMSB_E_NO_DEVICE, MMSB_E_DEVICE. Threads: any. Blocks: until the device is open. Since 0.1. */
MMSB_API mmsb_status_t mmsb_device_budget(mmsb_context_t context, int32_t device, uint64_t bytes);

typedef struct mmsb_device_memory {
    uint32_t struct_size;
    uint32_t runtimes; /* of the device in this process; those with a pool of pinned memory are the host's */
    uint64_t budget;   /* bytes; 0 = none */
    /* Bytes of pools' segments, of blocks of runtimes without a pool, and of UNIFIED pages; of the host: of PINNED pages, memory
     * for copies, what is kept for tags that sleep, and 1 KiB for each guarded block. A guard's canaries and quarantine are of
     * the blocks. fallback:pageable is not counted: it is no memory that devices access. */
    uint64_t charged;
    uint64_t charged_peak; /* largest value of charged */
    uint64_t pool_free;    /* bytes of charged that pools keep and no block has, and pinned memory kept for the next sleep */
    uint64_t asked;        /* requests that made other runtimes give back what they keep, since the device's first runtime */
    uint64_t helped;       /* those of asked that had their memory then */
    uint64_t returned;     /* bytes that were given back for others */
    uint64_t reserved[4];
} mmsb_device_memory_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_device_memory_init(mmsb_device_memory_t *memory);

/* What this process has taken of a device's memory for runtimes and pages, of all its contexts; device as mmsb_device_budget.
 * Errors: as mmsb_device_budget; MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: as mmsb_device_budget.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_device_memory(mmsb_context_t context, int32_t device, mmsb_device_memory_t *memory);

/* An NVLink that is up. */
typedef struct mmsb_link {
    int32_t number;
    int32_t version;
    char remote[24]; /* the PCI address of the device or switch at the other end */
} mmsb_link_t;

/* How a device of NVIDIA's is doing, as its management library (NVML) tells: of all processes of the machine. Numbers are -1 and
 * texts empty where the library or the device does not tell. */
typedef struct mmsb_telemetry {
    char name[96];
    char uuid[48];
    char pci[24]; /* as in mmsb_device_info_t */
    char driver_version[32];
    int64_t memory_total;           /* bytes */
    int64_t memory_used;            /* by everybody, without what the driver keeps for itself */
    int64_t memory_of_this_process; /* in a container with its own process numbers it may be counted with the others */
    int64_t memory_of_others;
    int32_t utilization;        /* percent of the last moment with a kernel running */
    int32_t memory_utilization; /* percent of it with memory being read or written */
    int32_t temperature;        /* degrees Celsius */
    int32_t pcie_generation;    /* as it is now: an idle link is slow */
    int32_t pcie_lanes;
    int32_t numa_node;  /* of the host, nearest to the device */
    int32_t link_count; /* NVLinks that are up: the first of links */
    int32_t reserved_word;
    mmsb_link_t links[18];
    uint64_t reserved[4];
} mmsb_telemetry_t;

/* How the devices of the machine are doing, in the order of their PCI addresses, also those that no context uses. A list.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE, MMSB_E_UNSUPPORTED (no management library or no driver: the text says
 * what was looked for), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: for the driver. Since 0.1. */
MMSB_API mmsb_status_t mmsb_telemetry_list(mmsb_telemetry_t *devices, size_t capacity, size_t *count);

#define MMSB_PATH_UNKNOWN (-1)
#define MMSB_PATH_SAME_BOARD 0
#define MMSB_PATH_ONE_SWITCH 10
#define MMSB_PATH_SEVERAL_SWITCHES 20
#define MMSB_PATH_HOST_BRIDGE 30
#define MMSB_PATH_NUMA_NODE 40
#define MMSB_PATH_ACROSS_SYSTEM 50

/* What lies between any two devices of mmsb_telemetry_list, MMSB_PATH_*: the larger, the farther. A list of n × n numbers, row by
 * row; between a device and itself MMSB_PATH_SAME_BOARD.
 * Errors: as mmsb_telemetry_list. Threads: any. Blocks: for the driver. Since 0.1. */
MMSB_API mmsb_status_t mmsb_telemetry_paths(int32_t *paths, size_t capacity, size_t *count);

/* --------------------------------------------------------------------------------------- the device runtime ---- */

/* Stream-ordered memory of a device, as in CUDA's cuMemAllocAsync. A stream is a queue of work. A block is device memory that is
 * allocated and freed in the order of a stream. A use states which blocks the work that a program is about to queue reads or
 * writes: mmsb_use_begin makes the stream wait for conflicting work on other streams, mmsb_use_end states that the work is
 * queued. Freed memory is reused only behind all uses of it. The host never waits for the device, unless a comment says so or
 * memory is missing (memory_wait_ns). */

typedef struct mmsb_runtime_options {
    uint32_t struct_size;
    uint32_t streams;     /* 64; largest number of streams that mmsb_stream_create leases at a time */
    uint64_t budget;      /* 0 = no limit; bytes that blocks may take */
    const char *ledger;   /* NULL; a file like "/dev/shm/name" in which the processes of a machine charge one common budget. If
                             it is missing, it is created with the limit budget; with budget 0 the limit in the file holds.
                             When a process ends, however it ends, its charge is given back */
    uint64_t log_events;  /* 0; number of events that the log keeps, at most 2^24 */
    uint64_t guard_every; /* 0 = no guard; N = every N-th block is guarded: canaries before and behind it, and a fill pattern when
                             it is allocated and when it is freed */
    uint64_t guard_quarantine; /* 0; bytes of freed blocks that the guard holds back to find writes after the free */
    /* NULL; called by mmsb_block_allocate when memory is refused (code: MMSB_E_LIMIT, MMSB_E_OUT_OF_MEMORY), on the thread of
     * that call, with no lock held. It may free blocks and call every function, but must not end the runtime; an allocation in it
     * that is refused calls it again, so that one which allocates needs an end of its own. attempt counts from 1. Any result but
     * 0 = try again. */
    int32_t (*refused)(void *user, uint64_t bytes, uint32_t attempt, mmsb_status_t code);
    void *refused_user;        /* NULL; the first argument of refused */
    uint64_t refused_attempts; /* 8; largest number of calls of refused for one block */
    /* NULL = blocks are the driver's stream-ordered memory. A text = they come from a pool, a caching allocator that takes
     * segments of 2 MiB from the device, moves them to where memory is needed in one piece, and gives a stream what it has
     * freed without the driver. The text is empty, or a configuration as in PyTorch's PYTORCH_ALLOC_CONF, such as
     * "roundup_power2_divisions:4,large_segment_size_mb:64". Names of its own: limit_mb (the most memory that the pool takes),
     * slack (how much more than was ever held at once it may take before segments are moved: 0.05, and more where many were
     * moved), source: where segments come from. source:virtual is the default where the device has virtual memory. With plain
     * (else the default), ordered (stream-ordered), pinned (host memory that devices and the host access at one address) and
     * managed (as UNIFIED pages) each segment is an allocation of the driver, which does not move, and goes back whole. With
     * source:pinned fallback:pageable lets other host memory serve where pinned memory, or its budget, does not suffice;
     * kernels do not reach that, copies do, and no budget counts it. slabs:true rounds requests up to 4 KiB, 16 KiB, 64 KiB,
     * 256 KiB, 1 MiB or 4 MiB; above that as without. expandable_segments:False is source:plain where no source is named.
     * max_split_size_mb, max_non_split_rounding_mb and garbage_collection_threshold are read and have no effect: segments go
     * back one by one or whole. Sizes above 2^60 - 1 are MMSB_E_INVALID_SIZE. Copies of other devices reach such memory. Their
     * kernels reach managed and pinned memory; virtual memory with peers:true, where the device can be reached at all; plain
     * memory never: MMSB_E_UNSUPPORTED with peers:true. The program orders their work (mmsb_stream_after). */
    const char *pool;
    /* 10 s; how long a call waits that finds too little memory, or budget, while blocks that were freed are pending and the
     * device passes none of them: each one that it passes begins the time anew, so that queued work is waited for, and a device
     * that waits for the caller is not. 0 = calls do not wait; MMSB_WAIT_FOREVER = without limit. A call for a stream that
     * captures does not wait, and nobody waits for what such a stream frees. Where others have taken what a call waited for,
     * they wait until it has its memory. */
    uint64_t memory_wait_ns;
    uint64_t reserved[2];
} mmsb_runtime_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_runtime_options_init(mmsb_runtime_options_t *options);

/* The shared runtime of a device, which its pages use, too: without budget, log and guard; with a pool where the device has
 * virtual memory, or no stream-ordered memory. The end of a context that had pages there gives back its free segments. Each call
 * returns the same handle. The runtime of a simulated device ends with the context, that of a driver's device with mmsb_shutdown;
 * its streams and blocks end with it.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NO_DEVICE, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any.
 * Blocks: until the device is open. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_shared(mmsb_context_t context, int32_t device, mmsb_runtime_t *runtime);

/* Creates a runtime of the program's own. options may be NULL.
 * Errors: as mmsb_runtime_shared; MMSB_E_UNSUPPORTED (no stream-ordered memory, and no pool), MMSB_E_STRUCT_VERSION,
 * MMSB_E_LIMIT; of the ledger: MMSB_E_IO, MMSB_E_FORMAT (not a ledger),
 * MMSB_E_CORRUPT (cut short; calls that need space return that, too),
 * MMSB_E_MISMATCH (it has another limit), MMSB_E_INVALID_ARGUMENT (the file is missing and budget is 0); of the pool:
 * MMSB_E_INVALID_ARGUMENT (with the position in the text), MMSB_E_UNSUPPORTED (the device has no memory of this source). Threads:
 * any. Blocks: until the device is open. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_create(mmsb_context_t context, int32_t device, const mmsb_runtime_options_t *options,
                                           mmsb_runtime_t *runtime);

/* Ends a runtime of the program's own with its streams, blocks, uses of either and reservations: their handles become stale, and
 * the library's log says how many there were. The end of the context ends it, too.
 * Errors: handle errors, MMSB_E_INVALID_STATE (the shared one). Threads: any. Blocks: until running calls have returned and the
 * device has done the queued work. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_destroy(mmsb_runtime_t runtime);

typedef struct mmsb_runtime_stats {
    uint32_t struct_size;
    uint32_t streams;     /* leased streams */
    uint64_t outstanding; /* bytes: live + pending, at every moment */
    uint64_t live;        /* bytes of blocks that were not freed */
    uint64_t pending;     /* bytes of freed blocks whose free the device is not known to have passed */
    uint64_t peak;        /* largest value of outstanding */
    uint64_t blocks;      /* blocks that were not freed */
    uint64_t allocations; /* since the runtime began, as all fields down to waits_saved */
    uint64_t frees;
    uint64_t failures;       /* allocations that failed */
    uint64_t deferred_frees; /* frees during an open use */
    uint64_t uses;
    uint64_t aborts;
    uint64_t waits;             /* waits of one stream for another */
    uint64_t waits_saved;       /* further waits that needed no event: implied by others, or already over */
    uint64_t budget;            /* bytes; 0 = no limit, and the four fields below are 0, too */
    uint64_t charged;           /* bytes, reserved_bytes included; with a ledger, of all its processes */
    uint64_t reserved_bytes;    /* bytes of reservations that no block has taken yet */
    uint64_t charged_peak;      /* largest value of charged */
    uint64_t refusals;          /* allocations and reservations that the budget refused */
    uint64_t reports;           /* writes outside of live blocks that the guard found; the library's log has the first 1000 */
    uint64_t pool_reserved;     /* bytes of the pool's segments; without a pool the six fields are 0 */
    uint64_t pool_held;         /* bytes of these that blocks have, rounded up; not those of blocks that were freed */
    uint64_t pool_largest_free; /* bytes of the largest free piece, without pending blocks */
    uint64_t pool_moved;        /* bytes of segments that were moved, or given back, since the runtime began */
    uint64_t pool_retries;      /* how often memory was missing until all free segments were moved */
    uint64_t pool_misses;       /* allocations for which segments had to get memory; all others were hits */
    uint64_t sleeping;          /* bytes of segments whose tags sleep; not in pool_reserved, nor their blocks in pool_held */
    uint64_t sleeping_kept;     /* bytes that are kept for blocks that sleep */
    uint64_t sleeping_copied;   /* bytes that were copied for that, to the host and back; of calls that failed none counts */
    uint64_t refused_calls;     /* calls of refused (mmsb_runtime_options_t), each attempt one */
    uint64_t reserved[1];
} mmsb_runtime_stats_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_runtime_stats_init(mmsb_runtime_stats_t *stats);

/* The current counters.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_stats(mmsb_runtime_t runtime, mmsb_runtime_stats_t *stats);

/* The device of a runtime. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_device(mmsb_runtime_t runtime, int32_t *device);

/* Checks which frees the device has passed and counts their bytes as free, without waiting for the device. An allocation that the
 * budget would refuse does this first.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_reap(mmsb_runtime_t runtime);

/* Gives memory that the driver, or the pool, keeps for reuse back to the device, until keep bytes are left, or up to 6 MiB fewer
 * (memory of a pool comes and goes up to 8 MiB together), and all pinned memory that is kept for reuse.
 * Errors: handle errors, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_trim(mmsb_runtime_t runtime, uint64_t keep);

/* Writes the events of the log as text, in the CSV format of RMM's logging adaptor: the header line
 * Thread,Time,Action,Pointer,Size,Stream, then one line for each allocation, refused allocation and free.
 * Errors: handle errors, MMSB_E_INVALID_STATE (no log), MMSB_E_IO, MMSB_E_NO_SPACE. Threads: any. Blocks: while the descriptor
 * takes the text. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_log_write(mmsb_runtime_t runtime, int32_t descriptor);

#define MMSB_PICTURE_TORCH 0 /* a pickle in the schema of PyTorch's memory snapshots, which pytorch.org/memory_viz opens */
#define MMSB_PICTURE_JSON 1  /* what the tool reads: mmsb memory report makes the other two of it */
#define MMSB_PICTURE_HTML 2  /* one file for a browser, which needs no other */

/* Writes a picture of the runtime's memory at this moment: segments (stretches of addresses that have memory) with their blocks
 * and free pieces; with a log (log_events) also its events, and who allocated each block: thread and time. Without a pool each
 * block is a segment of its own. Other threads may go on: with a pool the picture is of one moment, and what is held then but is
 * not, or no longer, a block, is shown so. descriptor: a file, pipe or socket of the caller, which stays open. format:
 * MMSB_PICTURE_*.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (unknown format), MMSB_E_IO, MMSB_E_NO_SPACE. Threads: any. Blocks: while the
 * descriptor takes the bytes. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_snapshot_write(mmsb_runtime_t runtime, int32_t descriptor, int32_t format);

typedef struct mmsb_memory_stat {
    const char *name; /* static */
    uint64_t value;
} mmsb_memory_stat_t;

/* Statistics under the names of PyTorch's torch.cuda.memory_stats, in bytes or numbers of things. FAMILY.POOL.STATISTIC: POOL is
 * all, small_pool (up to 1 MiB) or large_pool; STATISTIC is current, peak, allocated or freed (all since the runtime began).
 * Names that mean nothing here are left out; a program must expect more names and fewer.
 *   allocation, allocated_bytes   blocks that were not freed; bytes rounded up as the pool does
 *   requested_bytes               bytes that they, and freed blocks that wait for a use's end or that their stream keeps, were
 *                                 asked for with; POOL is that of the request, else where the block lies
 *   active, active_bytes          what the pool has given: also to freed blocks that wait, to caches and the guard
 *   segment, reserved_bytes       memory of the pool's segments of 2 MiB
 *   inactive_split, inactive_split_bytes   free pieces of segments that are partly held; only current and peak
 * and without POOL: num_alloc_retries, num_ooms (allocations that failed), num_sync_all_streams (allocations that waited for the
 * device: memory_wait_ns), num_device_alloc, num_device_free (calls of the driver), largest_free_block (bytes).
 * current = allocated - freed in every family. A block that a stream gives out again by itself counts as allocated, in the POOL
 * where it lies; in active it was freed at the same moment. The peaks of allocation and allocated_bytes are those of active.
 * That of requested_bytes is of all outstanding bytes (mmsb_runtime_stats_t.peak), those of inactive_split are of the moments
 * when memory was missing and when this was called. Without a pool only all exists, and active counts the bytes that are
 * outstanding. A list. The numbers are of one moment if no other thread uses the runtime.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short, longer with many blocks.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_memory_stats(mmsb_runtime_t runtime, mmsb_memory_stat_t *stats, size_t capacity,
                                                 size_t *count);

/* The number of a tag: a name for the purpose of memory, in statistics, logs and reports. A name keeps its number until the
 * process ends; 0 is "untagged".
 * Errors: MMSB_E_INVALID_ARGUMENT (NULL, invalid UTF-8, more than 64 bytes), MMSB_E_LIMIT (65 536 names). Threads: any. Blocks:
 * no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_tag_of(const char *name, mmsb_tag_t *tag);

typedef struct mmsb_tag_stats {
    uint64_t live;         /* bytes that are outstanding */
    uint64_t peak;         /* largest value of live */
    uint64_t total_bytes;  /* bytes of all allocations so far */
    uint64_t blocks;       /* blocks that are outstanding */
    uint64_t total_blocks; /* number of all allocations so far */
    uint64_t failures;     /* allocations that failed */
    uint64_t reserved[2];
} mmsb_tag_stats_t;

/* The counters of a tag in a runtime. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_tag_stats(mmsb_runtime_t runtime, mmsb_tag_t tag, mmsb_tag_stats_t *stats);

/* Reserves bytes of the budget for later blocks: no other allocation can take them. mmsb_block_allocate takes bytes from a
 * reservation that it is given.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE (0), MMSB_E_INVALID_STATE (no budget), MMSB_E_LIMIT.
 * Threads: any. Blocks: no, unless freed bytes are pending that it lacks (memory_wait_ns). Since 0.1. */
MMSB_API mmsb_status_t mmsb_reservation_create(mmsb_runtime_t runtime, uint64_t bytes, mmsb_reservation_t *reservation);

/* Ends a reservation and gives its remaining bytes back to the budget: *left bytes (may be NULL). Blocks that took bytes from it
 * stay.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_reservation_destroy(mmsb_reservation_t reservation, uint64_t *left);

/* Leases a stream that does not wait for the device's default stream. priority: 0, or -1 to run before streams of priority 0.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT (all are leased), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any.
 * Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_create(mmsb_runtime_t runtime, int32_t priority, mmsb_stream_t *stream);

/* Registers a stream of the program (a CUstream or cudaStream_t) until mmsb_stream_destroy; the program must keep it alive until
 * then. NULL is the device's default stream. native must be a stream: the driver may crash on anything else.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_ALREADY_EXISTS (this runtime has it already: the text has its handle),
 * MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_wrap(mmsb_runtime_t runtime, void *native, mmsb_stream_t *stream);

/* Ends the lease of a stream, or the registration of a wrapped one. Queued work goes on, and later work stays ordered behind it.
 * Blocks that were allocated on the stream stay.
 * Errors: handle errors, MMSB_E_INVALID_STATE (it captures), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_stream_destroy(mmsb_stream_t stream);

/* The driver's stream, for queuing work. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_native(mmsb_stream_t stream, void **native);

/* The device of a stream. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_device(mmsb_stream_t stream, int32_t *device);

/* Waits until all work that is queued on the stream is done. timeout_ns 0 = do not wait.
 * Errors: handle errors, MMSB_E_WOULD_BLOCK, MMSB_E_TIMEOUT, MMSB_E_INVALID_STATE (it captures), MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: until the work is done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_wait(mmsb_stream_t stream, uint64_t timeout_ns);

/* Stands for a stream in mmsb_stream_copy, mmsb_stream_fill and the kernels (mmsb_stream_copy_many and so on): these then work on
 * host memory, on the calling thread, and are done when they return. */
#define MMSB_STREAM_HOST UINT64_C(0x7000000000000000)

/* Queues a copy of bytes between any two of device memory and host memory. The ranges must not overlap. Host memory must stay
 * valid and unchanged until the stream has passed the copy.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: if the host memory is
 * not pinned, perhaps until it is copied. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_copy(mmsb_stream_t stream, void *to, const void *from, uint64_t bytes);

/* Queues setting bytes of device memory to a value.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_fill(mmsb_stream_t stream, void *address, uint8_t value, uint64_t bytes);

/* A ticket that is done when all work queued on the stream so far is done, no matter who queued it. It can be polled, waited for,
 * watched by an event loop and named in the after of other work. It cannot be cancelled. The end of the runtime ends it, too.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT, MMSB_E_INVALID_STATE (it captures), MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_record(mmsb_stream_t stream, mmsb_ticket_t *ticket);

/* Makes work that is queued on the stream from now on run behind a ticket of mmsb_stream_record, which may belong to another
 * device. The device waits, not the host.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (a ticket of other work; simulated devices of another context),
 * MMSB_E_INVALID_STATE (a stream captures, and the other one is not in its capture), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads:
 * any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_after(mmsb_stream_t stream, mmsb_ticket_t ticket);

/* The same behind everything that a stream of another library (a CUstream or cudaStream_t) has queued so far. The stream need not
 * be registered, and may be destroyed afterwards. NULL and 1 are the device's default stream, 2 is the calling thread's own.
 * native must be a stream: the driver may crash on anything else.
 * Errors: those of mmsb_stream_after. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_after_native(mmsb_stream_t stream, void *native);

/* Allocates device memory in the order of a stream, aligned to 256 bytes; its contents are undefined. Work queued on this stream
 * may use it at once, work on other streams within a use. tag: 0, or from mmsb_tag_of. reservation: 0 = none, else the bytes are
 * taken from it. *address is a device address, which the host must not access; with a pool of source pinned or managed it may.
 * Errors: handle errors (stream, reservation), MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE (0), MMSB_E_LIMIT (the budget or the
 * reservation: the text has the bytes requested, taken and left and the limit), MMSB_E_OUT_OF_MEMORY, MMSB_E_INVALID_STATE (the
 * tag sleeps), MMSB_E_BUSY (it falls asleep or wakes), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no, unless freed
 * memory is pending that it lacks (memory_wait_ns of mmsb_runtime_options_t). Since 0.1. */
MMSB_API mmsb_status_t mmsb_block_allocate(mmsb_stream_t stream, uint64_t bytes, mmsb_tag_t tag, mmsb_reservation_t reservation,
                                           mmsb_block_t *block, void **address);

/* Frees a block behind all its uses, in the order of a stream (0 = the one it was allocated on). Its handle becomes stale.
 * *deferred (may be NULL) is 1 if a use is open: the end of the last open use then frees the memory. A failed call leaves the
 * block as it was.
 * Errors: handle errors (a second free: MMSB_E_STALE_HANDLE), MMSB_E_INVALID_ARGUMENT (a stream of another runtime),
 * MMSB_E_INVALID_STATE (as mmsb_use_begin, of captures; the block is a page's), MMSB_E_DEVICE. Threads: any. Blocks: no. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_block_free(mmsb_block_t block, mmsb_stream_t stream, int32_t *deferred);

typedef struct mmsb_block_info {
    uint32_t struct_size;
    int32_t device;
    void *address; /* a device address */
    uint64_t bytes;
    mmsb_stream_t stream; /* the stream it was allocated on; 0 if that was destroyed */
    mmsb_tag_t tag;
    uint32_t uses;   /* open uses: begun and not ended */
    uint64_t asleep; /* 1 = its tag sleeps: it has its address, and no memory */
    uint64_t reserved[3];
} mmsb_block_info_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_block_info_init(mmsb_block_info_t *info);

/* The properties of a block.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_block_info(mmsb_block_t block, mmsb_block_info_t *info);

/* The live block of a runtime that has an address of the device, and how many bytes into the block that is (offset may be NULL).
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND. Threads: any. Blocks: no; it may look at all blocks there
 * are, some nanoseconds each. Since 0.1. */
MMSB_API mmsb_status_t mmsb_block_at(mmsb_runtime_t runtime, const void *address, mmsb_block_t *block, uint64_t *offset);

/* The block that the bytes of a page are in at MMSB_LOCATION_GPU, _UNIFIED or _PINNED, valid until the page ends, moves or is
 * resized. It is of the device's shared runtime; that of adopted memory may be the program's own. Only the page's end frees it.
 * From then on any byte may have changed, as behind mmsb_page_address: each save compares the page, and a call that reads a page
 * in two places asks the device. Work that names the page in its use, and has its address from mmsb_use_address, needs no block.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_UNSUPPORTED (no device reaches the page), MMSB_E_LIMIT, MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: short; the first time for a UNIFIED or PINNED page, until a save that runs has it.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_block(mmsb_page_t page, mmsb_block_t *block);

/* Sleep: the memory of whole tags goes back to the device, for another model or process, and comes again, while every block keeps
 * its handle and its address. It needs a pool, and a runtime without a guard. mmsb_pool_partition comes first, before the blocks
 * are allocated: the segments of such a tag have no other blocks. */

/* Gives a tag segments of its own in the runtime's pool: blocks that are allocated with it from now on can sleep, those from
 * before cannot. A tag that has them keeps them. It takes addresses of twice the device's memory.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (an unknown tag), MMSB_E_UNSUPPORTED (no pool, or one whose
 * source is not virtual), MMSB_E_LIMIT (31 such tags and captures), MMSB_E_OUT_OF_MEMORY (addresses), MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_pool_partition(mmsb_runtime_t runtime, mmsb_tag_t tag);

#define MMSB_SLEEP_DROP 1 /* the bytes of the blocks are not kept: after the wake they are not defined */
#define MMSB_SLEEP_KEEP 2 /* they are kept in pinned memory of the host, which stays with the runtime for the next sleep */
#define MMSB_SLEEP_FILE 3 /* they are kept in a file without a name, which ends with the wake or the process */

typedef struct mmsb_sleep_options {
    uint32_t struct_size;
    int32_t mode;        /* MMSB_SLEEP_KEEP; MMSB_SLEEP_* */
    const char *folder;  /* NULL; the directory of the file of MMSB_SLEEP_FILE, which needs one; NULL for the other modes */
    uint64_t timeout_ns; /* MMSB_WAIT_FOREVER; for work that is queued; 0 = do not wait */
    uint64_t reserved[4];
} mmsb_sleep_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_sleep_options_init(mmsb_sleep_options_t *options);

/* Gives the memory of tags back to the device: of all of them, or of none and nothing has changed. It waits for everything
 * that is queued on the runtime's streams. While a tag sleeps, its blocks can be freed, which drops their bytes, but neither
 * used nor allocated; work that touches them is an error of the program, which a simulated device reports. A page that adopted
 * memory of such a block by its address refuses calls with MMSB_E_INVALID_STATE until the wake, and so do saves of it; pins
 * and exports of the page, as they give an address out, stop no sleep. The blocks' bytes stay charged to the budget. options
 * may be NULL. Each kept byte is copied once. Where the driver neither takes all memory nor maps again what it has taken
 * (MMSB_E_DEVICE, the text names the tag), that tag sleeps with its bytes, and mmsb_pool_wake tries again. Pinned memory is
 * taken once: a later sleep has it again, until mmsb_runtime_trim, the runtime's end, or a call of this process that would
 * fail for the lack of some. Sleeps and wakes of one runtime come one after the other.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (a tag without mmsb_pool_partition), MMSB_E_STRUCT_VERSION, MMSB_E_UNSUPPORTED
 * (no pool, a source that is not virtual, or a guard), MMSB_E_INVALID_STATE (a tag sleeps; a stream captures on which work was
 * queued), MMSB_E_BUSY (a use of a block is open; a block is exported, to another library or to a page that adopted the tensor;
 * another call puts a tag to sleep or wakes it), MMSB_E_TIMEOUT (MMSB_E_WOULD_BLOCK for timeout_ns 0), MMSB_E_OUT_OF_MEMORY and
 * MMSB_E_LIMIT (pinned memory), MMSB_E_NO_SPACE, MMSB_E_NOT_FOUND and MMSB_E_IO (the file), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST.
 * Threads: any. Blocks: for queued work, at most timeout_ns, and for the copies. Since 0.1. */
MMSB_API mmsb_status_t mmsb_pool_sleep(mmsb_runtime_t runtime, const mmsb_tag_t *tags, size_t count,
                                       const mmsb_sleep_options_t *options);

/* Gives tags their memory again, at the same addresses: all of them, or none and everything sleeps as before. Where the device
 * has too little, free segments of the pool give theirs. The kept bytes are there when it returns.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (a tag without mmsb_pool_partition), MMSB_E_UNSUPPORTED, MMSB_E_INVALID_STATE (a
 * tag does not sleep), MMSB_E_BUSY (another call puts it to sleep or wakes it), MMSB_E_OUT_OF_MEMORY and MMSB_E_LIMIT (the text
 * has the bytes that are needed, have memory and are held), MMSB_E_IO (the file), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads:
 * any. Blocks: for the copies. Since 0.1. */
MMSB_API mmsb_status_t mmsb_pool_wake(mmsb_runtime_t runtime, const mmsb_tag_t *tags, size_t count);

/* Begins a capture: the time in which the program lets streams record work for a graph (cuStreamBeginCapture) instead of doing
 * it. Blocks that are allocated on these streams in this time, whatever their tag, come from memory of the capture's own. What is
 * freed of it is given out again only in the capture, until mmsb_capture_destroy: a graph uses its addresses whenever it runs.
 * The streams wait for everything that is queued on the runtime's other streams. Order: this call, the driver's begin in its
 * relaxed mode, work, the driver's end, mmsb_capture_end. Within a capture its streams may wait for each other by uses; work
 * outside cannot be ordered behind them, nor they behind it. mmsb_stream_wait, mmsb_stream_record and mmsb_stream_destroy of such
 * a stream are MMSB_E_INVALID_STATE.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (count is 0; a stream twice, or of another runtime), MMSB_E_INVALID_STATE (a
 * stream captures), MMSB_E_UNSUPPORTED (no pool, or a source that is not virtual), MMSB_E_LIMIT (31 captures and tags of
 * mmsb_pool_partition), MMSB_E_OUT_OF_MEMORY (addresses), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_capture_begin(const mmsb_stream_t *streams, size_t count, mmsb_capture_t *capture);

/* Begins another capture with the memory of one that has ended: several graphs, of which no two run at a time, share it.
 * Errors: as mmsb_capture_begin, without MMSB_E_LIMIT and MMSB_E_OUT_OF_MEMORY; MMSB_E_INVALID_STATE (it has not ended). Threads:
 * any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_capture_resume(mmsb_capture_t capture, const mmsb_stream_t *streams, size_t count);

/* Ends the capture: its streams do work again. Its memory stays apart.
 * Errors: handle errors, MMSB_E_INVALID_STATE (it has ended). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_capture_end(mmsb_capture_t capture);

/* Says that the graph will not run again: what was freed of the capture's memory serves all, blocks of it stay until they are
 * freed. A capture that has not ended ends. The runtime's end destroys its captures.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_capture_destroy(mmsb_capture_t capture);

#define MMSB_ACCESS_READ 1
#define MMSB_ACCESS_WRITE 2
#define MMSB_ACCESS_READ_WRITE 3

typedef struct mmsb_access {
    mmsb_block_t block; /* or an mmsb_page_t at MMSB_LOCATION_GPU, _UNIFIED, _PINNED, or with a replica on the stream's device */
    int32_t access;     /* MMSB_ACCESS_* */
    int32_t reserved;
} mmsb_access_t;

/* Begins a use: makes the stream wait for work on other streams that conflicts with these accesses, and keeps the blocks' memory
 * until mmsb_use_end. The stream may be of any runtime of the blocks' device; a use also ends with the runtime of one of its
 * blocks. Several accesses to one block add up. All blocks are accepted or none; *bad_index (may be NULL) is the index of the
 * first block that cannot be used.
 * A page in place of a block is pinned until the use ends, for writing if the access writes, and the device has its newest bytes:
 * mmsb_use_address has their address. An access that reads a page which lies elsewhere takes its replica (mmsb_page_replicate) on
 * the device of the stream, which must not capture. Calls on the page that begin after mmsb_use_end wait for the use's work on
 * its memory, or return MMSB_E_INVALID_STATE as long as the stream captures; calls meanwhile wait for none of it, as beside a
 * pin, but those that touch the bytes of a UNIFIED page are MMSB_E_BUSY where managed_hints of the device is 0, because the host
 * must keep out of them. Once it was used, the bytes of a UNIFIED or PINNED page cost each call a look at the device, as those of
 * a GPU page do, until it moves or is resized.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (a block of another device, an unknown access), MMSB_E_STRUCT_VERSION (reserved
 * is not 0), MMSB_E_BUSY (a conflicting use on another stream is open: its work is not queued yet, so the stream cannot wait for
 * it; a block whose tag falls asleep or wakes), MMSB_E_INVALID_STATE (a block that sleeps; work of a stream that captures, or for
 * one, from outside of the capture), MMSB_E_LIMIT, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST; of pages those of mmsb_page_pin, and
 * MMSB_E_UNSUPPORTED (no device reaches it, and it has no replica there). Threads: any. Blocks: no; with pages as mmsb_page_pin
 * and mmsb_page_block, and until the device has what is newer on the host. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_begin(mmsb_stream_t stream, const mmsb_access_t *accesses, size_t count, mmsb_use_t *use,
                                      size_t *bad_index);

/* The device address at which a use that has begun finds a block, or a page that was named in place of one. It is valid until
 * the use's work is done.
 * Errors: handle errors (of the use), MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_STATE (recorded, and not begun), MMSB_E_NOT_FOUND
 * (the use was not begun with block). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_address(mmsb_use_t use, mmsb_block_t block, void **address);

/* Ends a use: its work is queued.
 * Errors: handle errors, MMSB_E_INVALID_STATE (recorded, but never begun). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_end(mmsb_use_t use);

/* Ends a use whose launch failed. Some of the work may have been queued, so later work is ordered as after mmsb_use_end. A
 * recorded use that was never begun is dropped.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_abort(mmsb_use_t use);

/* Creates a use that collects its blocks one by one while a launch is prepared: call mmsb_use_add for each,
 * mmsb_use_begin_recorded before the launch and mmsb_use_end after it. permissive: 1 = mmsb_use_add ignores block 0, which stands
 * for memory that is not a block; 0 = block 0 is MMSB_E_INVALID_ARGUMENT, which mmsb_use_begin_recorded returns.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_record(mmsb_stream_t stream, int32_t permissive, mmsb_use_t *use);

/* Adds a block to a recorded use, or a page as mmsb_use_begin has it, which is pinned from then on. If it cannot be used,
 * mmsb_use_begin_recorded returns the error, so that a sequence of adds needs no check after each.
 * Errors: handle errors (of the use), MMSB_E_INVALID_ARGUMENT (an unknown access), MMSB_E_INVALID_STATE (the use has begun).
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_add(mmsb_use_t use, mmsb_block_t block, int32_t access);

/* Begins a recorded use. If the call fails, nothing has begun and it may be repeated.
 * Errors: as mmsb_use_begin; MMSB_E_INVALID_STATE (the use has begun). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_begin_recorded(mmsb_use_t use);

/* ----------------------------------------------------------------------------------------------------- kernels ---- */

/* The library's own kernels, queued on a stream, or on the host for MMSB_STREAM_HOST.
 *
 * Addresses  Of memory of the stream's device, or of host memory that it reaches (PINNED, UNIFIED); of host memory for
 *            MMSB_STREAM_HOST. Any alignment, unless a function says otherwise. A kernel that touches other addresses loses the
 *            device, as a program's own would; a simulated device refuses it with MMSB_E_INVALID_ARGUMENT where neither it
 *            nor the process has such memory: a device whose system shares the process's addresses (HMM) reaches the rest.
 *            Memory must stay valid until the stream has passed the work.
 * Order      As for mmsb_stream_copy: the caller has begun a use of the blocks.
 * Overlaps   What a call writes overlaps neither what it reads nor what else it writes: MMSB_E_INVALID_ARGUMENT. The same code is
 *            for ranges past the last address, and for NULL with bytes. Other bytes are not touched.
 * Errors     All of them: handle errors, MMSB_E_INVALID_ARGUMENT, and on a device MMSB_E_UNSUPPORTED (the library was built
 *            without kernels for it), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. */

typedef struct mmsb_copy {
    void *to;
    const void *from;
    uint64_t bytes;
    uint64_t reserved;
} mmsb_copy_t;

/* Copies many ranges by one kernel: gathers pages into one stretch of memory, or scatters it over pages. The copies are done in
 * no order. On a device the list takes 32 bytes a copy of the runtime's memory and of pinned memory until it is done.
 * Errors: as above (bad_index: of the copy), MMSB_E_STRUCT_VERSION (reserved is not 0), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (the
 * budget), MMSB_E_INVALID_STATE (the stream captures). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_copy_many(mmsb_stream_t stream, const mmsb_copy_t *copies, size_t count, size_t *bad_index);

/* result[i] = 1 where a[i] equals b[i], else 0, for i < bytes.
 * Errors: as above. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_compare(mmsb_stream_t stream, void *result, const void *a, const void *b, uint64_t bytes);

/* Counts the bytes in which a and b differ. difference is memory that the stream's device reaches, aligned to 8 bytes.
 * Errors: as above. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_difference(mmsb_stream_t stream, mmsb_difference_t *difference, const void *a, const void *b,
                                              uint64_t bytes);

/* Sets bit i%8 of byte i/8 of bits where a[i] differs from b[i], and clears the others, for i < bytes. bits has (bytes + 7) / 8
 * bytes; the unused bits of the last one are 0.
 * Errors: as above. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_differences(mmsb_stream_t stream, void *bits, const void *a, const void *b, uint64_t bytes);

/* The CRC-32C of every part bytes of from; the last part may be shorter. sums has a number for each part, and is aligned to 4.
 * mmsb_checksum_join makes one of several. On a device each part is one thread's work.
 * Errors: as above (also for part 0). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_checksum(mmsb_stream_t stream, uint32_t *sums, const void *from, uint64_t bytes,
                                            uint64_t part);

/* to[i] = payload[i] where the mask has i, for i < bytes. kind: MMSB_DELTA_DENSE_BYTES = the mask has a byte for each, which is
 * not 0; MMSB_DELTA_DENSE_BITS = bit i%8 of byte i/8. changed (may be NULL): a bit mask of to in which the bytes are marked, of
 * whole words of 4 bytes, and aligned to 4. Bytes in between may be written back as they were read.
 * Errors: as above (also for another kind). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_merge(mmsb_stream_t stream, void *to, const void *mask, mmsb_delta_kind_t kind,
                                         const void *payload, uint64_t bytes, void *changed);

/* to[offsets[i] - origin] = values[i], for i < count. offset_bytes: 4 or 8, the size and alignment of an offset. to has bytes
 * bytes. On the host a later value wins; on a device offsets outside of to are passed over, and of equal ones any value may win.
 * Errors: as above (also for another offset_bytes), MMSB_E_OUT_OF_RANGE (on the host: an offset outside of to; on a device: more
 * offsets than bytes). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_scatter(mmsb_stream_t stream, void *to, uint64_t bytes, const void *offsets,
                                           uint32_t offset_bytes, uint64_t origin, const void *values, uint64_t count);

typedef struct mmsb_propagation {
    void *to;
    const void *from;
    const void *mask; /* a bit for each byte of from */
    void *changed;    /* NULL, or a bit mask of to, as in mmsb_stream_merge */
    uint64_t bytes;
    uint64_t reserved;
} mmsb_propagation_t;

/* Copies the masked bytes of many pages into others by one kernel: each item is an mmsb_stream_merge. The items are done in no
 * order: what comes from another item's target takes another call.
 * Errors: as mmsb_stream_copy_many. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_propagate(mmsb_stream_t stream, const mmsb_propagation_t *items, size_t count,
                                             size_t *bad_index);

/* -------------------------------------------------------------------------------------- memory for other libraries ---- */

/* Memory of a runtime for libraries that know addresses and CUDA's streams instead of handles: PyTorch, CuPy, Numba, RMM,
 * cuda.core. docs/plug-ins.md has the recipe of each. An address is aligned to 512 bytes if the runtime has a pool and no guard,
 * else to 256. A block is behind each address, and counts as others do.
 *
 * stream is CUDA's (CUstream, cudaStream_t): a stream of the device, NULL or 1 = its default stream, 2 = the calling thread's own
 * default stream (not on simulated devices). The functions tell streams apart by the driver's ids, since the pointer of a stream
 * that was destroyed comes again. mmsb_plugin_* touch a stream during the call only: it may be destroyed afterwards. The streams
 * that mmsb_torch_* are given must live as long as the runtime, as PyTorch's do. None of the functions may be called while a CUDA
 * graph is captured. */

#define MMSB_PLUGIN_ORDERED 0 /* the memory of a stream: for work that it queues from then on */
#define MMSB_PLUGIN_SEGMENT 1 /* for every stream, as from cudaMalloc: if the library has a cache or no streams */

/* Allocates memory. bytes must not be 0. With MMSB_PLUGIN_SEGMENT, stream is ignored.
 * Errors: handle errors (of the runtime; no stream of its device: MMSB_E_INVALID_HANDLE), MMSB_E_INVALID_ARGUMENT (an unknown
 * kind), and those of mmsb_block_allocate. Threads: any. Blocks: with MMSB_PLUGIN_ORDERED no; with MMSB_PLUGIN_SEGMENT until the
 * device has done the work that used the memory before. Since 0.1. */
MMSB_API mmsb_status_t mmsb_plugin_allocate(mmsb_runtime_t runtime, uint64_t bytes, void *stream, int32_t kind, void **address);

/* Frees memory behind all work of the stream so far, and behind the work that was recorded. A segment is freed behind all work of
 * the device, and stream is ignored. NULL does nothing. A failed call leaves the memory as it was.
 * Errors: MMSB_E_NOT_FOUND (not from these functions, or freed), MMSB_E_STALE_HANDLE (its runtime has ended, and the memory with
 * it), MMSB_E_INVALID_HANDLE (no stream of the device), MMSB_E_DEVICE. Threads: any. Blocks: for a segment until the device has
 * done all queued work, else no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_plugin_free(void *address, void *stream);

/* States that work which another stream has queued so far uses the memory: its free comes behind that work. Neither stream waits
 * for the other one. Memory of a segment needs no record.
 * Errors: as mmsb_plugin_free. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_plugin_record(void *address, void *stream);

/* Lets a runtime serve its device for the functions below, which can name no runtime; 0 = no runtime of the program. If none
 * serves a device, the next call creates one with a pool, of the driver's device; mmsb_shutdown ends it. Memory goes back to the
 * runtime that it came from, also when another one serves.
 * Errors: handle errors, MMSB_E_MISMATCH (the runtime belongs to another device). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_plugin_bind(int32_t device, mmsb_runtime_t runtime);

/* The functions below have the types that PyTorch (torch::cuda::CUDAPluggableAllocator) and CuPy (CFunctionAllocator) call. None
 * returns a status or throws: if memory is refused, the result is NULL and mmsb_last_error has the reason; a call with an address
 * that is unknown or freed changes nothing. The library's log has the first 100 of both. */

/* PyTorch's allocation. bytes 0: NULL, and nothing is allocated.
 * Errors: NULL, as above. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void *mmsb_torch_allocate(size_t bytes, int32_t device, void *stream);

/* The allocation for PyTorch's MemPool: a segment (MMSB_PLUGIN_SEGMENT). PyTorch's cache frees memory that its streams may still
 * use, and expects the free to wait as cudaFree does.
 * Errors: NULL, as above. Threads: any. Blocks: as mmsb_plugin_allocate. Since 0.1. */
MMSB_API void *mmsb_torch_allocate_segment(size_t bytes, int32_t device, void *stream);

/* The free of both. NULL does nothing; bytes and device are ignored.
 * Errors: none that is returned. Threads: any. Blocks: as mmsb_plugin_free. Since 0.1. */
MMSB_API void mmsb_torch_free(void *address, size_t bytes, int32_t device, void *stream);

/* PyTorch's record_stream: the free comes behind all work that the stream has queued by then.
 * Errors: none that is returned. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_torch_record_stream(void *address, void *stream);

/* PyTorch's empty_cache: mmsb_runtime_trim of each runtime that serves a device.
 * Errors: none that is returned. Threads: any. Blocks: short. Since 0.1. */
MMSB_API void mmsb_torch_empty_cache(void);

/* PyTorch's set_per_process_memory_fraction: limits the bytes that these functions give out on a device to a part of its memory,
 * from 0 to 1. What is given out already stays.
 * Errors: none that is returned. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_torch_memory_fraction(double fraction, int32_t device);

/* The begin of the memory that an address is in, and its length in *bytes (may be NULL). If the address is unknown: the address
 * itself, and 0.
 * Errors: none that is returned. Threads: any. Blocks: short. Since 0.1. */
MMSB_API void *mmsb_torch_base(void *address, size_t *bytes);

/* CuPy's malloc: a segment of a runtime, whose handle CuPy keeps as its param; NULL = of the runtime that serves the device.
 * bytes 0: NULL, and nothing is allocated.
 * Errors: NULL, as above. Threads: any. Blocks: as mmsb_plugin_allocate. Since 0.1. */
MMSB_API void *mmsb_cupy_malloc(void *runtime, size_t bytes, int32_t device);

/* CuPy's free. NULL does nothing; runtime and device are ignored.
 * Errors: none that is returned. Threads: any. Blocks: as mmsb_plugin_free. Since 0.1. */
MMSB_API void mmsb_cupy_free(void *runtime, void *address, int32_t device);

/* ------------------------------------------------------------------------------------- arrays of other libraries ---- */

/* Pages as tensors of DLPack 1.x (dmlc.github.io/dlpack), which NumPy, PyTorch, JAX, CuPy and others read and make, without a
 * copy. This header does not need DLPack's: a tensor is a pointer to its DLManagedTensorVersioned or, without a version, to its
 * DLManagedTensor. docs/interchange.md has the protocols of Python that are built on these functions. */

#define MMSB_TENSOR_CODE_INT 0
#define MMSB_TENSOR_CODE_UINT 1
#define MMSB_TENSOR_CODE_FLOAT 2
#define MMSB_TENSOR_CODE_HANDLE 3 /* addresses: refused */
#define MMSB_TENSOR_CODE_BFLOAT 4
#define MMSB_TENSOR_CODE_COMPLEX 5
#define MMSB_TENSOR_CODE_BOOL 6
#define MMSB_TENSOR_CODE_MAX 17 /* 7 to 17 are floats of 8, 6 and 4 bits */

typedef struct mmsb_tensor_options {
    uint32_t struct_size;
    int32_t versioned; /* 1; 1 = a DLManagedTensorVersioned, 0 = a DLManagedTensor */
    int32_t read_only; /* 0; 1 = the consumer may not write: the pin is a READ pin. Only with versioned */
    int32_t ndim;      /* 1; from 0 to 64 */
    uint32_t code;     /* MMSB_TENSOR_CODE_UINT; the type of the items: MMSB_TENSOR_CODE_* or another number of DLPack's */
    uint32_t bits;     /* 8; of a lane: the lanes of an item have whole bytes */
    uint32_t lanes;    /* 1 */
    uint32_t reserved_word;
    uint64_t offset;        /* 0; bytes from the page's first to the first item */
    const int64_t *shape;   /* NULL; items in each dimension; NULL with ndim 1 = all that the page has from offset on */
    const int64_t *strides; /* NULL; items from one index to the next in each dimension, at least 1; NULL = row-major */
    uint64_t reserved[4];
} mmsb_tensor_options_t;

/* Sets struct_size and the defaults that the comments of the fields name. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_tensor_options_init(mmsb_tensor_options_t *options);

/* Exports a page, in any location: *tensor is the caller's, who calls its deleter once or gives it to a consumer that does. Until
 * then the page is pinned, for writing unless read_only is 1: it does not move, and destroy returns MMSB_E_BUSY. If its context
 * ends first, the memory stays until the deleter has run. The deleter may be called on any thread, at any time: it needs no lock
 * of the program's, and works when the interpreter that the program had is gone, after mmsb_shutdown, and while another tensor's
 * deleter or a release function of mmsb_adopt_options_t runs. options may be NULL. A GPU page's tensor lies on CUDA's device, a
 * UNIFIED page's in CUDA's managed memory, a PINNED one's in CUDA's host memory, also where the device is simulated.
 * Errors: as mmsb_page_pin; MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_SIZE (a negative number of items, or
 * more than there are addresses), MMSB_E_OUT_OF_RANGE (items past the page's end), MMSB_E_MISMATCH (without a shape: a part of
 * an item is left), MMSB_E_UNSUPPORTED (items of no whole bytes, an unknown code, strides below 1 or that overlap, read_only
 * without versioned), MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: as mmsb_page_pin. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_export_tensor(mmsb_page_t page, const mmsb_tensor_options_t *options, void **tensor);

/* Stands for the block's own stream in mmsb_block_export_tensor, as a pointer. */
#define MMSB_BLOCK_STREAM UINT64_MAX

/* Exports a block as mmsb_page_export_tensor does a page. Until the deleter has run the block's memory stays, also when it is
 * freed or its runtime ends; its tag does not sleep. stream: that of the consumer, as mmsb_stream_after_native has it, or
 * MMSB_BLOCK_STREAM. What it queues from now on runs behind the uses that have ended, and what it has queued when the deleter
 * runs comes before the block's free and later uses; the stream must live until then. Work that the program queues meanwhile is
 * the program's to order. Memory that the host reaches (a pool of source pinned or managed) is exported when the work of ended
 * uses is done. The deleter may wait for the device where the runtime has ended, or the stream is a thread's own.
 * Errors: handle errors, those of mmsb_page_export_tensor, MMSB_E_INVALID_STATE (a page's block, a tag that sleeps, a stream that
 * captures), MMSB_E_UNSUPPORTED, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: memory that the host reaches, until
 * the work is done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_block_export_tensor(mmsb_block_t block, void *stream, const mmsb_tensor_options_t *options,
                                                void **tensor);

typedef struct mmsb_tensor_info {
    uint32_t struct_size;
    int32_t device_type; /* DLPack's: 1 = host, 2 = CUDA device, 3 = CUDA's host memory, 13 = managed */
    int32_t device;
    int32_t read_only; /* 1 = the producer forbids to write */
    int32_t copied;    /* 1 = the producer has made a copy: nobody else sees what is written */
    uint32_t reserved_word;
    void *address;  /* of the first item */
    uint64_t bytes; /* of all items: they lie one behind the other, in any order of the dimensions */
    uint64_t reserved[4];
} mmsb_tensor_info_t;

/* Sets struct_size and zeroes all other fields. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_tensor_info_init(mmsb_tensor_info_t *info);

/* What a tensor of any library says of its memory, checked: its shape, strides and offset must describe bytes that lie one behind
 * the other. The memory itself is not touched. versioned: 1 = a DLManagedTensorVersioned, 0 = a DLManagedTensor.
 * Errors: MMSB_E_INVALID_ARGUMENT (NULL, ndim), MMSB_E_STRUCT_VERSION, MMSB_E_FORMAT (another major version of DLPack),
 * MMSB_E_INVALID_SIZE (no items, a negative number of them, more than there are addresses), MMSB_E_UNSUPPORTED (an unknown device
 * type, items of no whole bytes, an unknown code, strides below 1, that overlap or leave gaps). Threads: any. Blocks: no. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_tensor_info(const void *tensor, int32_t versioned, mmsb_tensor_info_t *info);

/* Adopts the memory of a tensor (mmsb_page_adopt), which is the page's on success: its deleter is called when release would be,
 * on the same thread, and must not call the library unless it is that of an export. Of options (may be NULL) id, read_only and,
 * for memory of a device, stream count; release and user must be NULL. A failed call leaves the tensor to the caller.
 * Errors: as mmsb_tensor_info and mmsb_page_adopt; MMSB_E_INVALID_STATE (read_only is 0, but the producer forbids to write).
 * Threads: any. Blocks: as mmsb_page_adopt. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_adopt_tensor(mmsb_context_t context, void *tensor, int32_t versioned,
                                              const mmsb_adopt_options_t *options, mmsb_page_t *page);

/* Arrow's C data and device data interfaces (arrow.apache.org/docs/format), which pyarrow, cuDF, polars and others read and make.
 * The macros keep the structs apart from those of another header that has them. */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *schema); /* NULL = it was released, or moved elsewhere */
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *array); /* NULL = it was released, or moved elsewhere */
    void *private_data;
};

#endif

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE

typedef int32_t ArrowDeviceType;

#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3
#define ARROW_DEVICE_OPENCL 4
#define ARROW_DEVICE_VULKAN 7
#define ARROW_DEVICE_METAL 8
#define ARROW_DEVICE_VPI 9
#define ARROW_DEVICE_ROCM 10
#define ARROW_DEVICE_ROCM_HOST 11
#define ARROW_DEVICE_EXT_DEV 12
#define ARROW_DEVICE_CUDA_MANAGED 13
#define ARROW_DEVICE_ONEAPI 14
#define ARROW_DEVICE_WEBGPU 15
#define ARROW_DEVICE_HEXAGON 16

struct ArrowDeviceArray {
    struct ArrowArray array;
    int64_t device_id; /* -1 = the host */
    ArrowDeviceType device_type;
    void *sync_event; /* NULL = nothing is to be waited for */
    int64_t reserved[3];
};

#endif

/* Makes an Arrow array of a tensor of any library, without a copy: a number for each item, and a list of a fixed size for each
 * dimension behind the first. *array has the tensor from then on, and calls its deleter when it and those of its children that a
 * consumer has moved are released; the functions for that may be called as a tensor's deleter. *schema is released by itself.
 * array NULL: the schema only, and the tensor stays the caller's. Without a device, the consumer reads array->array alone. Arrow
 * takes arrays for constant: export the page with read_only. sync_event is NULL: what a call on a page did is done; of a block,
 * wait for its stream after mmsb_block_export_tensor, and end its users' work before the release. A failed call leaves the tensor
 * to the caller.
 * Errors: as mmsb_tensor_info; MMSB_E_UNSUPPORTED (items that are no integers of 8 to 64 and no floats of 16 to 64 bits, or do
 * not lie row by row), MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_tensor_to_arrow(void *tensor, int32_t versioned, struct ArrowDeviceArray *array,
                                            struct ArrowSchema *schema);

/* Makes a tensor of an Arrow array of any library, without a copy, as mmsb_tensor_to_arrow makes the other: *tensor is a
 * DLManagedTensorVersioned that nobody may write, for mmsb_page_adopt_tensor and others. On success the array has moved into it,
 * so that array->array.release is NULL, and the schema is released; the deleter calls the array's release, once, on whichever
 * thread calls it. A failed call leaves both as they were.
 * Items are integers of 8 to 64 and floats of 16 to 64 bits, or bytes as one item ("w:N", a dimension of N bytes); a list of a
 * fixed size ("+w:N") is a dimension. Nulls, dictionaries, bools (eight in a byte) and all other formats are refused. Where
 * nobody has counted the nulls (null_count -1), a bitmap in host memory is read. Of an array without a device, fill an
 * ArrowDeviceArray with it, ARROW_DEVICE_CPU and -1. sync_event: NULL, or a pointer to an event of CUDA (CUevent), which the call
 * waits for.
 * Errors: as mmsb_tensor_info; MMSB_E_INVALID_ARGUMENT (released, wrong numbers of buffers or children, device_id),
 * MMSB_E_UNSUPPORTED (see above), MMSB_E_INVALID_SIZE (no items, a child that is too short), MMSB_E_OUT_OF_MEMORY; with
 * sync_event MMSB_E_NO_DEVICE, MMSB_E_INVALID_HANDLE (no event), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: until
 * the event. Since 0.1. */
MMSB_API mmsb_status_t mmsb_tensor_from_arrow(struct ArrowDeviceArray *array, struct ArrowSchema *schema, void **tensor);

/* The destructor of a capsule of Python (PyCapsule_Destructor). It holds a tensor under the name "dltensor_versioned" or
 * "dltensor": calls the deleter, unless a consumer has renamed the capsule. Or it holds a struct of Arrow in memory of
 * PyMem_RawCalloc under the name "arrow_schema", "arrow_array" or "arrow_device_array": releases it, unless a consumer has moved
 * it, and frees the memory. The caller has the interpreter's lock.
 * Errors: none that is returned. Threads: any. Blocks: as the deleter. Since 0.1. */
MMSB_API void mmsb_tensor_capsule_end(void *capsule);

#ifdef __cplusplus
}
#endif

#endif /* MMSB_H */
