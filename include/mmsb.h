/*
 * mmsb.h — libmmsb: paged memory over every place memory can be.
 *
 * This header is the manual. It needs a C99 or C++ compiler and nothing else.
 *
 * A context owns pages. A page is a byte buffer with an identity: an id, a size, a place (host memory, a device, a
 * file), an epoch that deltas move, a mask of the bytes that deltas have changed, a version that every change moves,
 * metadata, and dependencies on other pages.
 *
 * RULES THAT HOLD FOR EVERY FUNCTION
 *
 *  Status     Every function that can fail returns an mmsb_status_t. MMSB_OK is 0. A failed call changed nothing.
 *             One line with the numbers is kept for the thread: mmsb_last_error().
 *  Handles    64-bit values: kind, generation, index. A value never returns: a destroyed handle answers
 *             MMSB_E_STALE_HANDLE for ever. Zero, a wrong kind or a random value answer MMSB_E_INVALID_HANDLE.
 *             Destroying the handle 0 is a no-op. Handles do not own: a page lives until mmsb_page_destroy or until
 *             its context ends.
 *  Structs    A struct that the caller fills begins with struct_size, set by its _init function; call that first,
 *             then change fields. Reserved words stay zero. A wrong struct_size or a reserved word that is not zero
 *             answers MMSB_E_STRUCT_VERSION. NULL in the place of an options struct means what _init gives.
 *  Strings    UTF-8. Strings handed in are copied before the call returns.
 *  Pointers   Memory handed in is only used during the call, unless the function says otherwise. Out parameters come
 *             last and are written only on success, unless the function says otherwise.
 *  Counts     A count or length that no array in memory can have answers MMSB_E_INVALID_SIZE.
 *  Lists      Functions that fill an array take a capacity and report the count. With too small a capacity they
 *             report the count, write nothing and return MMSB_E_OUT_OF_RANGE; a capacity of 0 asks for the count
 *             and returns MMSB_OK.
 *  Batches    _many forms take arrays. The whole batch is checked, then done: one bad item and nothing happens; the
 *             code of the first bad item is returned and its index stored in *bad_index, where that is not NULL.
 *             The order of the items is the order of their effects. count 0 is MMSB_OK.
 *  Threads    Every function may be called from any thread, also on the same handle at the same time. Reads, writes,
 *             deltas, resizes and migrations of one page take effect one after the other; no page is seen half-changed.
 *  Blocking   "Blocks: short" means: at most while another call on the same page runs. "Blocks: no" means: never.
 *  fork       In the child of a process that used the library every call answers MMSB_E_FORKED. Load and use the
 *             library after the fork, or spawn.
 *  Signals    The library installs no handlers. The Go runtime inside it installs its own for SIGSEGV, SIGBUS, SIGFPE,
 *             SIGPIPE and SIGURG and passes on what is not its own. The library cannot be unloaded (dlclose keeps it).
 *
 * Each comment ends with its errors, thread rule, blocking and the release the function came with. MMSB_E_FORKED,
 * MMSB_E_POISONED and MMSB_E_INTERNAL can come from every function that returns a status and are not repeated.
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

/* The release, semantic versioning. mmsb_version() gives the same of the library that is loaded. */
#define MMSB_VERSION_MAJOR 0
#define MMSB_VERSION_MINOR 1
#define MMSB_VERSION_PATCH 0
#define MMSB_VERSION_STRING "0.1.0"

/* The number in the SONAME. While it is 0 the ABI may change with every release (docs/abi.md). */
#define MMSB_ABI_VERSION 0

/* ---------------------------------------------------------------------------------------------- status codes ---- */

typedef int32_t mmsb_status_t;

/* Values are never used again for another meaning. A program must expect codes that it does not know. */
#define MMSB_OK 0
#define MMSB_E_INVALID_ARGUMENT 10 /* an argument that is never right: NULL, an unknown enum value, broken UTF-8 */
#define MMSB_E_INVALID_HANDLE 11   /* zero, of another kind, or never given out by this process */
#define MMSB_E_STALE_HANDLE 12     /* was valid once: destroyed, or its context has ended */
#define MMSB_E_INVALID_SIZE 13     /* a size of 0 or beyond what can be addressed */
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
#define MMSB_E_LIMIT 31         /* a limit that the program set, or a counter's end */
#define MMSB_E_NO_SPACE 32      /* the disk is full */
#define MMSB_E_UNSUPPORTED 40   /* not possible here; the text says what is missing */
#define MMSB_E_NO_DEVICE 41     /* no such device, and no simulation was asked for */
#define MMSB_E_DEVICE 42        /* the driver failed; its code and name are in the text */
#define MMSB_E_DEVICE_LOST 43
#define MMSB_E_FORKED 44  /* called in the child of a process that used the library */
#define MMSB_E_IO 50      /* a system call on a file failed; errno is in the detail */
#define MMSB_E_CORRUPT 51 /* a checksum or a structure is wrong */
#define MMSB_E_FORMAT 52  /* not ours, or newer than this library */
#define MMSB_E_PEER 60    /* a rank or an agent failed */
#define MMSB_E_INTERNAL 90
#define MMSB_E_POISONED 91 /* an earlier internal error; only destroy, free, unpin, leak counts and errors still work */

/* ------------------------------------------------------------------------------------------------- handles ---- */

typedef uint64_t mmsb_context_t;
typedef uint64_t mmsb_page_t;
typedef uint64_t mmsb_ticket_t;
typedef uint64_t mmsb_snapshot_t;    /* a snapshot file that is open for reading */
typedef uint64_t mmsb_runtime_t;     /* the streams and blocks of a device */
typedef uint64_t mmsb_reservation_t; /* bytes of a runtime's budget that are kept */
typedef uint64_t mmsb_stream_t;
typedef uint64_t mmsb_block_t; /* device memory */
typedef uint64_t mmsb_use_t;
typedef uint32_t mmsb_tag_t; /* no handle: the number of a name */

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
/* For mmsb_debug_live_objects only. */
#define MMSB_KIND_DELTA 4  /* deltas owned by the library, not handles */
#define MMSB_KIND_MEMORY 5 /* memory outside of pages: pinned when its context ended, released, or a snapshot saved to memory */

/* ------------------------------------------------------------------------------------------------- places ---- */

typedef int32_t mmsb_location_t;
#define MMSB_LOCATION_DEFAULT (-1) /* the context's default location */
#define MMSB_LOCATION_CPU 0        /* memory of the host */
#define MMSB_LOCATION_GPU 1        /* memory of a device, which the host does not reach: its address is the device's */
#define MMSB_LOCATION_UNIFIED 2    /* memory that the driver moves between a device and the host, at one address for both */
#define MMSB_LOCATION_PINNED 3     /* memory of the host that devices reach, at one address for both */
#define MMSB_LOCATION_DISK 4       /* a file, mapped while the page is pinned */

/* ------------------------------------------------------------------------------------------- library and errors ---- */

/* Release of the loaded library, like "0.1.0". Static. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_version(void);

/* MMSB_ABI_VERSION of the loaded library; compare it with the header's. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint32_t mmsb_abi_version(void);

/* One line on how the library was built: Go and C compiler, instruction sets, CUDA architectures. Static.
 * Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_build_info(void);

/* Name and meaning of a code, like "MMSB_E_BUSY: pinned or held by an asynchronous operation". Static, never NULL,
 * also for codes that do not exist. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_strerror(mmsb_status_t code);

/* Text of this thread's last failed call: one line, with the numbers. Never NULL; empty before the first failure; a
 * success does not clear it. Valid until the next failing call on this thread.
 * Errors: none. Threads: any, each its own text. Blocks: no. Since 0.1. */
MMSB_API const char *mmsb_last_error(void);

/* Code of this thread's last failed call, MMSB_OK before the first.
 * Errors: none. Threads: any, each its own. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_last_error_code(void);

/* Copies the text of mmsb_last_error with its final zero byte; *length (may be NULL) is its length without it, also
 * when the buffer is too small. Errors: MMSB_E_INVALID_ARGUMENT (NULL buffer), MMSB_E_OUT_OF_RANGE (too small: nothing
 * is written); the last error itself stays as it is. Threads: any, each its own text. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_last_error_copy(char *buffer, size_t capacity, size_t *length);

#define MMSB_DOMAIN_NONE 0
#define MMSB_DOMAIN_ERRNO 1
#define MMSB_DOMAIN_CUDA 2
#define MMSB_DOMAIN_NCCL 3
#define MMSB_DOMAIN_NIXL 4

typedef struct mmsb_error_detail {
    uint32_t struct_size;
    mmsb_status_t code;
    int32_t domain;       /* whose foreign_code it is: MMSB_DOMAIN_* */
    int32_t foreign_code; /* errno, CUresult, …; 0 where there is none */
    char text[512];       /* the text of mmsb_last_error, cut at a character where it is longer */
    uint64_t reserved[4];
} mmsb_error_detail_t;

/* Fills struct_size and zeroes the rest. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_error_detail_init(mmsb_error_detail_t *detail);

/* This thread's last error with the foreign code behind it.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any, each its own. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_last_error_detail(mmsb_error_detail_t *detail);

typedef struct mmsb_capability {
    uint32_t struct_size; /* set by the library */
    int32_t available;    /* 1 or 0 */
    char name[32];        /* "huge pages", "write tracking", "cuda", … */
    char reason[216];     /* why not, or what was found; UTF-8, zero-terminated */
} mmsb_capability_t;

/* What this process can do, and why not where it cannot. A list (see the rules): records may be NULL with capacity 0.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE (capacity too small; *count says what is needed).
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_capabilities(mmsb_capability_t *records, size_t capacity, size_t *count);

#define MMSB_LOG_OFF 0
#define MMSB_LOG_ERROR 1
#define MMSB_LOG_WARNING 2
#define MMSB_LOG_INFO 3
#define MMSB_LOG_DEBUG 4

/* What the library logs, for the process. The log is for diagnostics: a ring of the newest lines that the program
 * polls. level: MMSB_LOG_*; the start is MMSB_LOG_OFF, or what the environment variable MMSB_LOG
 * (off|error|warning|info|debug) says, which also sends the lines to stderr. descriptor: a file descriptor of the
 * caller that each line is written to as well, or -1; it stays the caller's and must stay open until it is replaced.
 * Errors: MMSB_E_INVALID_ARGUMENT (unknown level, descriptor not open for writing). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_log_configure(int32_t level, int32_t descriptor);

/* Takes the oldest lines out of the log: whole lines, each ended by a newline, no final zero byte. *length is the number
 * of bytes written, 0 when the log is empty. *lost (may be NULL) counts lines that were overwritten before they were read,
 * since the last read. Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE (the buffer is smaller than the next line:
 * nothing is taken, *length is what it needs). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_log_read(char *buffer, size_t capacity, size_t *length, uint64_t *lost);

/* Number of live objects of a kind (MMSB_KIND_*) in the process: for leak checks in tests.
 * Errors: MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_debug_live_objects(int32_t kind, uint64_t *count);

/* Public structs, for bindings that check their own layout against the library's. */
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

/* Size in bytes of a public struct in the loaded library; 0 for an unknown one.
 * Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API size_t mmsb_sizeof(int32_t structure);

/* Ends every context, runtime, ticket and open snapshot of the process (as their own functions would) and stops the
 * library's own work.
 * Using the library again afterwards starts it afresh. Idempotent. Not needed before exit.
 * Errors: none of its own. Threads: any. Blocks: until running work has been cancelled. Since 0.1. */
MMSB_API mmsb_status_t mmsb_shutdown(void);

/* ------------------------------------------------------------------------------------------------- contexts ---- */

#define MMSB_SIMULATE_OFF 0       /* a GPU location answers MMSB_E_NO_DEVICE where there is no GPU */
#define MMSB_SIMULATE_IF_NO_GPU 1 /* the simulated device serves where there is no GPU */
#define MMSB_SIMULATE_ALWAYS 2

#define MMSB_FALLBACK_ERROR 0 /* a place that cannot be had is an error */
#define MMSB_FALLBACK_HOST 1  /* host memory instead, and the page's location says so */

typedef struct mmsb_context_options {
    uint32_t struct_size;
    mmsb_location_t default_location; /* MMSB_LOCATION_CPU */
    int32_t default_device;           /* 0 */
    int32_t simulate;                 /* MMSB_SIMULATE_OFF, or what the environment variable MMSB_SIMULATE says */
    int32_t simulated_devices;        /* 1; at most 64 */
    int32_t fallback;                 /* MMSB_FALLBACK_ERROR */
    uint64_t simulated_memory;        /* bytes of each simulated device; 1 GiB */
    uint64_t memory_limit;            /* bytes of host memory for this context's pages, masks and metadata; 0 = none */
    const char *disk_path;            /* folder for DISK pages; NULL = the environment's TMPDIR, else /tmp */
    int32_t huge_pages;               /* 1 = ask for transparent huge pages where they help; 0 = never */
    int32_t reserved_word;
    uint64_t reserved[8];
} mmsb_context_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_context_options_init(mmsb_context_options_t *options);

/* Changes options by a text like "memory_limit=1073741824 simulate=if-no-gpu disk_path=/scratch": pairs of field and
 * value, separated by spaces or commas; sizes may end in K, M, G or T (powers of 1024). Values of the enum fields: location
 * cpu|gpu|unified|pinned|disk, simulate off|if-no-gpu|always, fallback error|host. disk_path points into text, which must
 * stay valid until the context is created, and its value runs to the end of the text. A failed parse leaves *options as it
 * was. Errors: MMSB_E_INVALID_ARGUMENT (unknown key or value: named with its position), MMSB_E_STRUCT_VERSION.
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_options_parse(mmsb_context_options_t *options, const char *text);

/* A new context without pages. options may be NULL.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_NO_DEVICE (default location without a device),
 * MMSB_E_IO (disk_path is not a writable folder; only checked when it is given), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (more
 * than 65 535 contexts at once). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_create(const mmsb_context_options_t *options, mmsb_context_t *context);

/* Ends the context, its pages and its runtimes: their handles are stale from now on. Memory that is still pinned or in flight
 * outlives it, out of reach, and is given back by its last unpin. Waits for calls that are running on its pages, never for pins.
 * Errors: handle errors. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_destroy(mmsb_context_t context);

typedef struct mmsb_context_stats {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t pages;             /* live pages */
    uint64_t bytes;             /* sum of their sizes */
    uint64_t peak_bytes;        /* largest value of bytes seen; may lag behind by what the threads' caches hold */
    uint64_t allocations;       /* pages created since the context began */
    uint64_t frees;             /* pages ended */
    uint64_t pinned_pages;      /* pages with at least one pin */
    uint64_t memory_used;       /* host memory taken from the system for this context, with what it keeps of destroyed pages:
                                   what memory_limit limits */
    uint64_t memory_limit;      /* 0 = none */
    uint64_t disk_used;         /* bytes of disk files */
    uint64_t location_pages[8]; /* live pages by location */
    uint64_t location_bytes[8]; /* and their bytes */
    uint64_t reserved[8];
} mmsb_context_stats_t;

/* Fills struct_size and zeroes the rest. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_context_stats_init(mmsb_context_stats_t *stats);

/* Counters of a context. allocations, frees, pages, bytes and memory_used are sums of counters, read while others write:
 * each is exact when nobody does. pinned_pages and the figures by location walk the pages.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_stats(mmsb_context_t context, mmsb_context_stats_t *stats);

/* Number of live pages. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_page_count(mmsb_context_t context, uint64_t *count);

/* Handles of the live pages, at most capacity at a time. *cursor is 0 at first and moved by each call; the walk is over when
 * *count is 0. A page that lives during the whole walk comes exactly once; one that is created or destroyed meanwhile
 * comes once or not at all. The cursor is not a list in the sense of the rules: capacity must be at least 1.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_pages(mmsb_context_t context, uint64_t *cursor, mmsb_page_t *pages, size_t capacity,
                                          size_t *count);

/* Gives memory of destroyed pages back to the system, as far as whole system pages are free and no thread's cache holds
 * them. *released (may be NULL) is the number of bytes. Without it memory of pages of up to 4096 bytes stays with the context,
 * that of pages of up to 1 MiB for 5 to 10 seconds, and that of larger ones not; memory_limit gets back what it needs.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_trim(mmsb_context_t context, uint64_t *released);

typedef struct mmsb_memory_usage {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t page_bytes;     /* memory mapped for bytes of host pages */
    uint64_t record_bytes;   /* page records */
    uint64_t mask_bytes;     /* change masks */
    uint64_t metadata_bytes; /* metadata blobs */
    uint64_t cache_bytes;    /* the threads' caches of free pages */
    uint64_t disk_bytes;     /* bytes of DISK pages' files */
    uint64_t go_heap_bytes;  /* heap of the Go runtime inside the library */
    uint64_t reserved[8];
} mmsb_memory_usage_t;

/* Fills struct_size and zeroes the rest. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_memory_usage_init(mmsb_memory_usage_t *usage);

/* Memory of the whole library by purpose.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_memory_usage(mmsb_memory_usage_t *usage);

/* ------------------------------------------------------------------------------------------- work and tickets ---- */

#define MMSB_WAIT_FOREVER UINT64_MAX

/* How a long operation runs. The blocking form uses timeout_ns; both begin behind after and stream. */
typedef struct mmsb_work_options {
    uint32_t struct_size;
    int32_t device;        /* 0; with stream: that stream's device */
    uint64_t timeout_ns;   /* MMSB_WAIT_FOREVER; 0 = do not wait */
    mmsb_stream_t stream;  /* 0 = none; everything queued on it so far must be done first, as in after */
    const uint64_t *after; /* handles of tickets that must be done first; copied. One that failed or was cancelled lets
                              this work fail with MMSB_E_CANCELLED */
    uint64_t after_count;
    uint64_t reserved[4];
} mmsb_work_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_work_options_init(mmsb_work_options_t *options);

/* *done = 1 when the work has ended, well or badly. Errors: handle errors, MMSB_E_INVALID_ARGUMENT.
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_poll(mmsb_ticket_t ticket, int32_t *done);

/* Waits for the end of the work and returns its status; mmsb_last_error is then the work's text. timeout_ns 0 = do not wait.
 * Errors: handle errors, MMSB_E_TIMEOUT (MMSB_E_WOULD_BLOCK for timeout_ns 0): it goes on; every code of the work itself.
 * Threads: any. Blocks: until the work ends or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_wait(mmsb_ticket_t ticket, uint64_t timeout_ns);

/* Asks the work to stop. It ends with MMSB_E_CANCELLED and has then changed nothing, or it was already done. Does not
 * wait. Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_cancel(mmsb_ticket_t ticket);

/* How much is done, in the units of the work (pages, bytes). total is 0 while it is not known.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_progress(mmsb_ticket_t ticket, uint64_t *done, uint64_t *total);

/* The work's own status and error text, independent of the thread: *code is MMSB_E_WOULD_BLOCK while it runs. text may be
 * NULL with capacity 0; else it is filled with the zero-terminated text, cut where it is longer.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_status(mmsb_ticket_t ticket, mmsb_status_t *code, char *text, size_t capacity);

/* A file descriptor (eventfd) that becomes readable when the work has ended, for poll, epoll and event loops. It belongs
 * to the ticket and is closed with it; asking again gives the same one. Do not read from it: it stays readable.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT (no descriptor left). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_eventfd(mmsb_ticket_t ticket, int32_t *descriptor);

/* Gives the ticket back. Unfinished work goes on, detached; arrays that the work fills must stay valid until it ends.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_ticket_destroy(mmsb_ticket_t ticket);

/* --------------------------------------------------------------------------------------------- making pages ---- */

#define MMSB_PAGE_ZEROED 0        /* all bytes are 0 */
#define MMSB_PAGE_UNINITIALISED 1 /* bytes are whatever was there, from pages of the same context only */

typedef struct mmsb_page_options {
    uint32_t struct_size;
    mmsb_location_t location; /* MMSB_LOCATION_DEFAULT */
    int32_t device;           /* 0; the driver's ordinal, 0 for CPU */
    int32_t numa_node;        /* -1 = any */
    uint64_t id;              /* 0 = the library picks one; else any value that the context does not use */
    uint32_t contents;        /* MMSB_PAGE_ZEROED */
    uint32_t reserved_word;
    uint64_t reserved[4];
} mmsb_page_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_page_options_init(mmsb_page_options_t *options);

/* A new page of size bytes. Host pages are aligned to 64 bytes, to 256 from 256 bytes on, to 4096 from 4096 bytes on.
 * Errors: handle errors (context), MMSB_E_INVALID_SIZE, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION,
 * MMSB_E_ALREADY_EXISTS (id), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (memory_limit), MMSB_E_NO_SPACE, MMSB_E_IO (DISK),
 * MMSB_E_NO_DEVICE. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                        mmsb_page_t *page);

/* mmsb_page_create and mmsb_page_address in one call, for callers who write the page at once. *address is NULL for a DISK page.
 * Errors: as mmsb_page_create. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create_with_address(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                                     mmsb_page_t *page, void **address);

/* count new pages of size bytes each, or none; pages must hold count handles, and may hold anything after a failure.
 * options->id must be 0. work (may be NULL): timeout_ns and after count.
 * Errors: as mmsb_page_create; MMSB_E_TIMEOUT. Threads: any. Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create_many(mmsb_context_t context, uint64_t size, size_t count,
                                             const mmsb_page_options_t *options, const mmsb_work_options_t *work,
                                             mmsb_page_t *pages);

/* The same as work of its own; progress counts pages. pages is written when the work succeeds, and must stay valid until the
 * ticket is done. Errors: of the arguments as mmsb_page_create_many, at once; all others through the ticket.
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_create_many_start(mmsb_context_t context, uint64_t size, size_t count,
                                                   const mmsb_page_options_t *options, const mmsb_work_options_t *work,
                                                   mmsb_page_t *pages, mmsb_ticket_t *ticket);

/* A new page with the same bytes, place, epoch, change mask and metadata, under a new id (id 0 = the library picks).
 * Dependencies are not copied. Errors: handle errors, MMSB_E_ALREADY_EXISTS, MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT,
 * MMSB_E_NO_SPACE, MMSB_E_IO. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_clone(mmsb_page_t page, uint64_t id, mmsb_page_t *clone);

typedef struct mmsb_adopt_options {
    uint32_t struct_size;
    int32_t device;           /* 0 */
    mmsb_location_t location; /* MMSB_LOCATION_CPU */
    int32_t read_only;        /* 1 = the memory must not be written: writes, deltas and WRITE pins answer MMSB_E_INVALID_STATE */
    uint64_t id;              /* 0 = the library picks */
    /* Called once when the page no longer needs the memory (destroyed, moved away, or the last unpin after its context
     * ended), on the thread whose call ended it; it must not call back into the library. May be NULL. */
    void (*release)(void *user, void *memory, uint64_t size);
    void *user;
    uint64_t reserved[4];
} mmsb_adopt_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_adopt_options_init(mmsb_adopt_options_t *options);

/* A page over memory that the caller has: no copy, and no alignment is asked of it. The memory must stay valid until release
 * is called. Such a page cannot be resized (MMSB_E_INVALID_STATE); migrating it copies its bytes away and releases the
 * memory. It counts as pinned for writing as far as change tracking goes.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (NULL memory), MMSB_E_INVALID_SIZE, MMSB_E_ALREADY_EXISTS,
 * MMSB_E_NO_DEVICE, MMSB_E_OUT_OF_MEMORY, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_adopt(mmsb_context_t context, void *memory, uint64_t size, const mmsb_adopt_options_t *options,
                                       mmsb_page_t *page);

/* Ends the page and gives its memory back. Destroying 0 is a no-op.
 * Errors: handle errors, MMSB_E_BUSY (pinned). Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_destroy(mmsb_page_t page);

/* Ends many pages, or none. A page that appears twice is MMSB_E_STALE_HANDLE at its second place; 0 is skipped.
 * Errors: as mmsb_page_destroy. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_destroy_many(const mmsb_page_t *pages, size_t count, size_t *bad_index);

/* Ends the page but leaves its bytes to the caller: *memory (host memory, *size bytes) is valid until
 * mmsb_memory_free(*memory), also after the context has ended. Only for CPU pages that the library allocated.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_BUSY, MMSB_E_INVALID_STATE (adopted), MMSB_E_UNSUPPORTED (another
 * location). Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_release(mmsb_page_t page, void **memory, uint64_t *size);

/* Gives back memory taken by mmsb_page_release. NULL is a no-op.
 * Errors: MMSB_E_STALE_HANDLE (already given back, or never taken). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_memory_free(void *memory);

/* -------------------------------------------------------------------------------------------- looking at pages ---- */

/* The page with an id; the handle is the same each time and needs no release.
 * Errors: handle errors (context), MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_lookup(mmsb_context_t context, uint64_t id, mmsb_page_t *page);

/* The same for many ids: all are found, or none is written. Errors: as mmsb_page_lookup. Threads: any. Blocks: no. Since 0.1. */
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
    uint64_t size;
    uint64_t epoch;
    uint64_t version;
    uint32_t read_pins;
    uint32_t write_pins;
    int32_t simulated; /* 1 = the bytes lie on a simulated device */
    int32_t adopted;   /* 1 = the bytes are memory of the caller */
    int32_t read_only;
    uint32_t metadata_count;
    uint64_t reserved[4];
} mmsb_page_info_t;

/* Fills struct_size and zeroes the rest. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_page_info_init(mmsb_page_info_t *info);

/* All of a page's properties at one moment.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_info(mmsb_page_t page, mmsb_page_info_t *info);

/* The same for many pages, at one moment; every info must have its struct_size set.
 * Errors: as mmsb_page_info. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_info_many(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index);

/* Where the bytes lie, without a pin: valid until the page is moved, resized or destroyed. NULL for a bad handle (the code is
 * in mmsb_last_error_code) and for a DISK page that is not pinned. Of a GPU page it is an address of the device, aligned to 256 bytes at
 * least, which the host must not touch. From then on the page counts as pinned for writing as far as
 * change tracking goes. Errors: NULL. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void *mmsb_page_address(mmsb_page_t page);

/* mmsb_page_address of many pages. addresses may hold anything after a failure.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_STATE (a DISK page that is not pinned). Threads: any.
 * Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_address_many(const mmsb_page_t *pages, size_t count, void **addresses, size_t *bad_index);

/* Size in bytes; 0 for a bad handle (the code is in mmsb_last_error_code).
 * Errors: 0. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint64_t mmsb_page_size(mmsb_page_t page);

/* Epoch; 0 before the first delta and for a bad handle (the code is in mmsb_last_error_code).
 * Errors: 0. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint64_t mmsb_page_epoch(mmsb_page_t page);

/* Version: moved by every change of bytes, size, place, metadata or epoch and by the unpin of a WRITE pin; never 0 for a
 * live page. 0 for a bad handle (the code is in mmsb_last_error_code). Errors: 0. Threads: any. Blocks: no. Since 0.1. */
MMSB_API uint64_t mmsb_page_version(mmsb_page_t page);

/* ---------------------------------------------------------------------------------------------- bytes of pages ---- */

#define MMSB_PIN_READ 1
#define MMSB_PIN_WRITE 2

/* Holds the page where it is and gives its address. While it is pinned, destroy, resize and migrate answer MMSB_E_BUSY; reads,
 * writes and deltas go on, and the holder of the pointer orders its own accesses with them. Each pin needs one unpin of the
 * same mode. The pointer is valid until then, also when the context ends first; of a GPU page it is the device's. address may be NULL.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (mode), MMSB_E_INVALID_STATE (WRITE on a read-only page), MMSB_E_LIMIT (more
 * than 65 535 pins of one mode), MMSB_E_IO (DISK), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any; unpin may come from another thread. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_pin(mmsb_page_t page, int32_t mode, void **address);

/* Ends one pin of this mode. A WRITE unpin moves the version. Works also after the context has ended.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (mode), MMSB_E_INVALID_STATE (no such pin).
 * Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_unpin(mmsb_page_t page, int32_t mode);

/* Copies length bytes from offset into buffer. length 0 is MMSB_OK where offset ≤ size.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (NULL buffer), MMSB_E_OUT_OF_RANGE, MMSB_E_IO (DISK).
 * Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_read(mmsb_page_t page, uint64_t offset, void *buffer, uint64_t length);

/* Copies length bytes from buffer to offset. Moves the version; neither the epoch nor the change mask.
 * Errors: as mmsb_page_read; MMSB_E_INVALID_STATE (read-only). Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_write(mmsb_page_t page, uint64_t offset, const void *buffer, uint64_t length);

typedef struct mmsb_page_range {
    mmsb_page_t page;
    uint64_t offset;
    uint64_t length;
    void *buffer; /* mmsb_page_write_many only reads it */
} mmsb_page_range_t;

/* Many reads at one moment: no change comes between them.
 * Errors: as mmsb_page_read. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);

/* Many writes, all or none. Errors: as mmsb_page_write. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);

/* Changes the size, keeping the contents; what is added is zero, and the change mask is cut or extended by zeros.
 * Errors: handle errors, MMSB_E_INVALID_SIZE, MMSB_E_BUSY (pinned), MMSB_E_INVALID_STATE (adopted), MMSB_E_OUT_OF_MEMORY,
 * MMSB_E_LIMIT, MMSB_E_NO_SPACE, MMSB_E_IO. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_resize(mmsb_page_t page, uint64_t size);

/* Moves the bytes to another place; id, epoch, mask and metadata stay. Nothing happens where the page is there already. device
 * is 0 for CPU and DISK. DISK bytes lie in an unlinked file in the context's disk_path and are not durable: snapshots are. GPU bytes lie in
 * memory that only devices reach, UNIFIED and PINNED ones in memory that the host reaches, too.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_BUSY (pinned), MMSB_E_NO_DEVICE, MMSB_E_UNSUPPORTED (a device without managed memory),
 * MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT, MMSB_E_NO_SPACE, MMSB_E_IO, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: while the bytes move. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_migrate(mmsb_page_t page, mmsb_location_t location, int32_t device);

/* Moves many pages. Arguments are checked for all before the first moves. statuses (may be NULL) takes a code per page: each page
 * has moved whole or not at all. Returns MMSB_OK when all moved, else the code of the first that did not, its index in
 * *bad_index.
 * Errors: as mmsb_page_migrate. Threads: any. Blocks: while the bytes move. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_migrate_many(const mmsb_page_t *pages, size_t count, mmsb_location_t location, int32_t device,
                                              mmsb_status_t *statuses, size_t *bad_index);

/* The same as work of its own; progress counts pages. The handles are copied; statuses (may be NULL) must stay valid until the ticket is done. After
 * a cancel what has moved stays there, and the other pages' statuses are MMSB_E_CANCELLED.
 * Errors: of the arguments as mmsb_page_migrate_many, at once; all others through the ticket. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_migrate_many_start(const mmsb_page_t *pages, size_t count, mmsb_location_t location,
                                                    int32_t device, const mmsb_work_options_t *work, mmsb_status_t *statuses,
                                                    mmsb_ticket_t *ticket);

/* ------------------------------------------------------------------------------------------------------ deltas ---- */

typedef int32_t mmsb_delta_kind_t;
#define MMSB_DELTA_DENSE_BYTES 1 /* mask: mask_length bytes, one per byte of the page (0 or not); payload as long */
#define MMSB_DELTA_DENSE_BITS 2  /* mask: mask_length bits, bit i%8 of byte i/8; payload mask_length bytes */
#define MMSB_DELTA_SPARSE_BITS 3 /* the same mask; payload: only the changed bytes, in order */
#define MMSB_DELTA_INDEXED 4     /* count offsets in any order; payload count bytes; of equal offsets the last wins */
#define MMSB_DELTA_RUNS 5        /* count runs in any order, later wins; payload: the sum of their lengths */

typedef struct mmsb_run {
    uint64_t offset;
    uint64_t length;
} mmsb_run_t;

/* A change of a page. Pointers stay the caller's and are only read. */
typedef struct mmsb_delta {
    uint32_t struct_size;
    mmsb_delta_kind_t kind;    /* must be set */
    uint64_t id;               /* the caller's; 0 = none */
    uint64_t page_id;          /* 0 = whichever page it is applied to; else it must match */
    uint64_t epoch;            /* 0 = the page's + 1; else larger than the page's */
    uint64_t timestamp_ns;     /* 0 = now */
    const char *source;        /* who made it; UTF-8 or NULL */
    const char *intent;        /* why; UTF-8 or NULL */
    const void *mask;          /* DENSE_*, SPARSE_BITS */
    uint64_t mask_length;      /* in bytes of the page; at most its size */
    const uint64_t *offsets;   /* INDEXED: this … */
    const uint32_t *offsets32; /* … or this */
    const mmsb_run_t *runs;    /* RUNS */
    uint64_t count;            /* INDEXED, RUNS */
    const void *payload;
    uint64_t payload_length; /* bytes; 0 = what the rest implies; else it must be just that */
    uint64_t reserved[4];
} mmsb_delta_t;

/* Fills struct_size and zeroes the rest; kind is then unset. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_delta_init(mmsb_delta_t *delta);

/* Whether the delta could be applied to a page of page_size bytes, epoch and page_id aside.
 * Errors: MMSB_E_INVALID_ARGUMENT (kind, NULL, UTF-8), MMSB_E_STRUCT_VERSION, MMSB_E_MISMATCH (payload length, number of mask
 * bits), MMSB_E_OUT_OF_RANGE (past page_size). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_validate(const mmsb_delta_t *delta, uint64_t page_size);

/* Changes the page's bytes, marks the addressed bytes in its change mask, sets its epoch, moves its version; or does nothing.
 * An empty delta still moves the epoch. Errors: handle errors, those of mmsb_delta_validate, MMSB_E_MISMATCH (page_id),
 * MMSB_E_EPOCH, MMSB_E_INVALID_STATE (read-only), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT (change mask), MMSB_E_IO (DISK).
 * Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_apply(mmsb_page_t page, const mmsb_delta_t *delta);

/* deltas[i] to pages[i], all or none; a page may appear more than once.
 * Errors: as mmsb_page_apply. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_apply_many(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count,
                                            size_t *bad_index);

/* Many one-run deltas as plain arrays, the fastest form: for each i, lengths[i] bytes of payload (one after the other) go to
 * offsets[i] of pages[i]; each is a delta of its own with epoch = current + 1. */
typedef struct mmsb_page_runs {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t count;
    const mmsb_page_t *pages;
    const uint64_t *offsets;
    const uint64_t *lengths; /* NULL = every run has the length uniform_length */
    uint64_t uniform_length;
    const void *payload;
    uint64_t payload_length; /* bytes; 0 = the sum of the lengths; else it must be just that */
    uint64_t reserved[4];
} mmsb_page_runs_t;

/* Fills struct_size and zeroes the rest. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_page_runs_init(mmsb_page_runs_t *runs);

/* Applies all of them or none. Errors: as mmsb_page_apply. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_apply_runs(const mmsb_page_runs_t *runs, size_t *bad_index);

/* first, then second, as one delta of the same page: later wins byte by byte; larger epoch and timestamp; source, intent and
 * id of the later (second); page_id of whichever names one. The result is owned by the library until mmsb_delta_free; its
 * kind is MMSB_DELTA_RUNS. Errors: those of mmsb_delta_validate, MMSB_E_MISMATCH (different page_id), MMSB_E_OUT_OF_MEMORY.
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_merge(const mmsb_delta_t *first, const mmsb_delta_t *second, mmsb_delta_t **merged);

/* The delta that turns the bytes of one page into those of another of the same size, as MMSB_DELTA_RUNS with page_id = id of
 * old_page and epoch 0. Each page is read at one moment. Owned by the library until mmsb_delta_free.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_MISMATCH (sizes), MMSB_E_OUT_OF_MEMORY, MMSB_E_IO (DISK).
 * Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_from_pages(mmsb_page_t old_page, mmsb_page_t new_page, mmsb_delta_t **delta);

/* The same change in another form. Owned by the library until mmsb_delta_free. For the mask kinds the mask reaches to the last
 * addressed byte; INDEXED and RUNS come in rising order without overlaps.
 * Errors: those of mmsb_delta_validate, MMSB_E_INVALID_ARGUMENT (kind), MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: no.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_convert(const mmsb_delta_t *delta, mmsb_delta_kind_t kind, mmsb_delta_t **converted);

/* Gives back a delta that the library made, with all it points to. NULL is a no-op.
 * Errors: MMSB_E_STALE_HANDLE (not such a delta, or already given back). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_delta_free(mmsb_delta_t *delta);

/* ------------------------------------------------------------------------------------------------ change masks ---- */

/* Copies length bits of the change mask from bit offset on (bit i says that a delta addressed byte i since the mask was
 * cleared), into bits: bit i%8 of byte i/8 counted from offset; unused bits of the last byte are 0.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_mask_read(mmsb_page_t page, uint64_t offset, void *bits, uint64_t length);

/* Clears the mask. Errors: handle errors. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_mask_clear(mmsb_page_t page);

/* Number of set bits. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_mask_count(mmsb_page_t page, uint64_t *count);

/* --------------------------------------------------------------------------------------------------- metadata ---- */

/* Keys are valid UTF-8 of 1 byte or more, values any bytes; a page keeps its keys in the order they were first set. The blob is:
 * u32 count, then per entry u32 key length, key, u32 value length, value; little endian. */

/* Sets key to value. Errors: handle errors, MMSB_E_INVALID_ARGUMENT (NULL, empty key, UTF-8), MMSB_E_INVALID_SIZE (the blob
 * would pass 4 GiB), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_set(mmsb_page_t page, const char *key, size_t key_length, const void *value,
                                              size_t value_length);

/* Copies the value; *length is its length, also when the buffer is too small. A list (see the rules) of bytes.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE (a key of 4 GiB or more), MMSB_E_NOT_FOUND,
 * MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_get(mmsb_page_t page, const char *key, size_t key_length, void *value, size_t capacity,
                                              size_t *length);

/* Removes a key. Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE, MMSB_E_NOT_FOUND. Threads: any.
 * Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_remove(mmsb_page_t page, const char *key, size_t key_length);

/* Copies the keys, each as u32 length and bytes. A list of bytes. *count (may be NULL) is the number of keys.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_keys(mmsb_page_t page, void *keys, size_t capacity, size_t *length, size_t *count);

/* Copies all entries as a blob. A list of bytes; a page without metadata has the blob of count 0.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_export(mmsb_page_t page, void *blob, size_t capacity, size_t *length);

/* Replaces all entries by those of a blob, or does nothing. length 0 removes all.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_CORRUPT (truncated, lying lengths, a key twice, bytes after the end,
 * broken UTF-8: the text names the offset), MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_metadata_import(mmsb_page_t page, const void *blob, size_t length);

/* ------------------------------------------------------------------------------------------------ dependencies ---- */

/* child depends on parent; both in one context. Adding an edge that is there is MMSB_E_ALREADY_EXISTS.
 * Errors: handle errors, MMSB_E_MISMATCH (two contexts), MMSB_E_INVALID_ARGUMENT (it would close a cycle, which the text names),
 * MMSB_E_ALREADY_EXISTS, MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_dependency_add(mmsb_page_t parent, mmsb_page_t child);

/* Removes the edge. Errors: handle errors, MMSB_E_MISMATCH, MMSB_E_NOT_FOUND. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_dependency_remove(mmsb_page_t parent, mmsb_page_t child);

/* Pages that this one depends on, oldest edge first. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_parents(mmsb_page_t page, mmsb_page_t *parents, size_t capacity, size_t *count);

/* Pages that depend on this one, oldest edge first. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_page_children(mmsb_page_t page, mmsb_page_t *children, size_t capacity, size_t *count);

/* All pages of the context that have dependencies, parents before children. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_dependency_order(mmsb_context_t context, mmsb_page_t *pages, size_t capacity, size_t *count);

/* --------------------------------------------------------------------------------------------------- snapshots ---- */

/* A snapshot holds the pages of a context as they were at one moment: bytes, id, size, place, epoch, version, change mask,
 * metadata and dependencies, with a checksum for each chunk of 256 KiB. docs/snapshot-format.md describes the file.
 *
 * The moment   Other threads go on while a snapshot is taken. All changes that go through this API are ordered against one
 *              moment: a call or a batch is wholly in the snapshot or wholly not. Whoever changes a page that has not been
 *              saved yet keeps what it changes, by lines of 64 bytes, and the whole of a page that ends or is resized; copy_limit
 *              bounds these copies, and beyond it writers wait for the disk.
 *              Bytes that a program writes through pointers are saved as they are when their page is reached.
 * Durable      A file appears under its name when it is complete and on disk (temporary file, fsync, rename, fsync of the
 *              directory). A save that fails or is killed leaves the file that was there; its rubbish goes with the next save.
 * Incremental  base names the file of an earlier snapshot in the same directory, from which this context's state comes: one
 *              that it saved or loaded. Only pages that are new or changed since are written; restoring reads the whole chain.
 *              Writes through pointers count: where the kernel can track them (mmsb_capabilities, "write tracking") the changed
 *              parts are known, else the bytes of every page whose address was given out are compared by checksum.
 * Paths        are bytes as the system takes them, not empty. A symbolic link in a path's last place is not followed.
 */

#define MMSB_COMPRESSION_NONE 0
#define MMSB_COMPRESSION_ZSTD 1

#define MMSB_RAW_WRITES_ALLOW 0  /* pages pinned for writing are saved as they are when they are reached */
#define MMSB_RAW_WRITES_REFUSE 1 /* MMSB_E_BUSY while a page is pinned for writing */

typedef struct mmsb_save_options {
    uint32_t struct_size;
    int32_t compression;       /* MMSB_COMPRESSION_NONE */
    int32_t compression_level; /* 0 = the default of the compression; zstd 1 … 4 */
    int32_t raw_writes;        /* MMSB_RAW_WRITES_ALLOW */
    int32_t not_durable;       /* 0; 1 = do not wait for the disk: after a power cut the file may be damaged, and says so */
    uint32_t reserved_word;
    uint64_t copy_limit; /* bytes for copies of pages that change meanwhile; 0 = 256 MiB, the least is 4 MiB */
    const char *base;    /* path of an earlier snapshot, NULL = save everything */
    uint64_t reserved[4];
} mmsb_save_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_save_options_init(mmsb_save_options_t *options);

/* Saves the context to a file, replacing one that is there. One save of a context runs at a time.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (path, options; base in another directory, or base and path are the same file),
 * MMSB_E_STRUCT_VERSION, MMSB_E_BUSY (a save or a load of the context is running; raw_writes), MMSB_E_NO_SPACE, MMSB_E_IO,
 * MMSB_E_NOT_FOUND (base), MMSB_E_MISMATCH (the state does not come from base), MMSB_E_CORRUPT, MMSB_E_FORMAT (base),
 * MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: until it is on disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save(mmsb_context_t context, const char *path, const mmsb_save_options_t *options);

/* The same as work of its own; progress counts bytes. The moment of the snapshot lies between call and end.
 * Errors: of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_start(mmsb_context_t context, const char *path, const mmsb_save_options_t *options,
                                                const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

/* Writes the snapshot to a file descriptor from its position on: a pipe, a socket, a file. The descriptor stays the caller's.
 * What a failed call has written is incomplete and says so. options->base is refused. Errors: as mmsb_snapshot_save.
 * Threads: any. Blocks: until all is written. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_descriptor(mmsb_context_t context, int32_t descriptor,
                                                     const mmsb_save_options_t *options);

/* Writes the snapshot into memory of the library, which mmsb_snapshot_free_memory gives back. options->base is refused.
 * Errors: as mmsb_snapshot_save. Threads: any. Blocks: until done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_save_memory(mmsb_context_t context, const mmsb_save_options_t *options, void **memory,
                                                 uint64_t *length);

/* Gives such memory back. NULL is a no-op. Errors: MMSB_E_STALE_HANDLE (not such memory, or already given back).
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_free_memory(void *memory);

#define MMSB_LOAD_EAGER 0 /* all bytes are read and verified before the call returns */
#define MMSB_LOAD_LAZY 1  /* bytes of large pages come in when they are first used, and are verified then */

typedef struct mmsb_load_options {
    uint32_t struct_size;
    int32_t mode;                  /* MMSB_LOAD_EAGER */
    const uint64_t *page_ids;      /* NULL = the whole state */
    uint64_t page_count;           /* 0; with page_ids: how many */
    const char *journal;           /* NULL; directory of a journal whose records after the snapshot are applied */
    uint64_t journal_until;        /* 0 = all; number of the last record to apply */
    int64_t journal_until_time_ns; /* 0 = all; records later than this (since 1970 UTC) are not applied */
    uint64_t journal_page;         /* 0; with journal_epoch: id of a page */
    uint64_t journal_epoch;        /* 0 = all; records from the one on that moves that page's epoch beyond this are not applied */
    uint64_t reserved[4];
} mmsb_load_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_load_options_init(mmsb_load_options_t *options);

/* Makes the context what the snapshot says. Whole: all pages of the context are replaced at once, their handles are stale from
 * then on; calls of other threads on the context wait meanwhile. With page_ids: these pages are replaced or added, all others
 * stay. Versions go on from those of the snapshot. Pages on devices come back there, or where the context's fallback says. On any
 * error the context is as before. Files of the original program's version 2 are read, too. An empty path with a journal in the options
 * stands for a snapshot without pages: a journal that still has its first record gives the state alone.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_BUSY (a page that would be replaced is pinned; a
 * save or a load is running), MMSB_E_NOT_FOUND (file, base, or a page id), MMSB_E_IO, MMSB_E_FORMAT, MMSB_E_CORRUPT (the text
 * names page and offset), MMSB_E_MISMATCH (a base that is another snapshot; a journal that begins after it),
 * MMSB_E_ALREADY_EXISTS (an id that a page created meanwhile has), MMSB_E_INVALID_STATE (the context writes a journal, which
 * could not tell of a load: close it first), MMSB_E_NO_DEVICE, MMSB_E_OUT_OF_MEMORY, MMSB_E_LIMIT, MMSB_E_NO_SPACE.
 * Threads: any. Blocks: until done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load(mmsb_context_t context, const char *path, const mmsb_load_options_t *options);

/* The same as work of its own; progress counts bytes. page_ids and the strings are copied.
 * Errors: of the arguments at once, all others through the ticket. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_start(mmsb_context_t context, const char *path, const mmsb_load_options_t *options,
                                                const mmsb_work_options_t *work, mmsb_ticket_t *ticket);

/* The same from a file descriptor, read from its position to its end: a pipe, a socket, a file. Snapshots with a base are
 * refused. Errors: as mmsb_snapshot_load. Threads: any. Blocks: until done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_descriptor(mmsb_context_t context, int32_t descriptor,
                                                     const mmsb_load_options_t *options);

/* The same from memory. Errors: as mmsb_snapshot_load. Threads: any. Blocks: until done. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_load_memory(mmsb_context_t context, const void *memory, uint64_t length,
                                                 const mmsb_load_options_t *options);

/* Counters of a context's saves. */
typedef struct mmsb_save_stats {
    uint32_t struct_size;
    uint32_t reserved_word;
    uint64_t saves;      /* that ended well */
    uint64_t last_pages; /* pages in the last one's file */
    uint64_t last_bytes; /* length of the last one's file */
    uint64_t last_duration_ns;
    uint64_t copied_bytes;   /* copied by writers for the last one, or for the one that is running */
    uint64_t copied_peak;    /* most bytes of copies at one time */
    uint64_t waits;          /* calls that waited, because copy_limit was reached */
    uint64_t waited_ns;      /* by all of them together */
    uint64_t compared_bytes; /* read only to compare checksums */
    uint64_t reserved[4];
} mmsb_save_stats_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_save_stats_init(mmsb_save_stats_t *stats);

/* The counters now, also while a save is running.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_context_save_stats(mmsb_context_t context, mmsb_save_stats_t *stats);

/* --------------------------------------------------------------------------------------- reading snapshot files ---- */

typedef struct mmsb_snapshot_info {
    uint32_t struct_size;
    uint32_t format; /* version of the file: 3, or 2 of the original program */
    uint8_t id[16];
    uint8_t base[16];    /* zeros = whole */
    int64_t taken_ns;    /* since 1970 UTC; 0 in files of version 2 */
    uint64_t journal;    /* number of the last journal record that is in it */
    uint64_t pages;      /* of the state */
    uint64_t bytes;      /* of these pages */
    uint64_t file_pages; /* pages with an entry in this file */
    uint64_t file_bytes; /* length of this file */
    uint64_t edges;      /* dependencies */
    uint32_t chain;      /* files that the state comes from: 1 = this one alone */
    uint32_t reserved_word;
    uint64_t reserved[4];
} mmsb_snapshot_info_t;

typedef struct mmsb_snapshot_page {
    uint64_t id;
    uint64_t size;
    uint64_t epoch;
    uint64_t version;
    mmsb_location_t location;
    int32_t device;
    int32_t numa_node; /* -1 = any */
    uint32_t metadata_count;
    uint64_t reserved;
} mmsb_snapshot_page_t;

/* Opens a snapshot file, with its chain of bases, for reading; it is mapped or read as needed. No context is involved.
 * Errors: MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_IO, MMSB_E_FORMAT, MMSB_E_CORRUPT, MMSB_E_MISMATCH, MMSB_E_LIMIT.
 * Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_open(const char *path, mmsb_snapshot_t *snapshot);

/* Closes it; its views end with it. The handle 0 is a no-op. Errors: handle errors. Threads: any.
 * Blocks: until calls on it have ended. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_close(mmsb_snapshot_t snapshot);

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_snapshot_info_init(mmsb_snapshot_info_t *info);

/* What the file's header and index say.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_info(mmsb_snapshot_t snapshot, mmsb_snapshot_info_t *info);

/* The pages of the state, at most capacity (1 or more) at a time, in the order of the files. *cursor is 0 at first and moved by
 * each call; the walk is over when *count is 0.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_pages(mmsb_snapshot_t snapshot, uint64_t *cursor, mmsb_snapshot_page_t *pages,
                                           size_t capacity, size_t *count);

/* One page by its id. Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_IO, MMSB_E_CORRUPT.
 * Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_find(mmsb_snapshot_t snapshot, uint64_t id, mmsb_snapshot_page_t *page);

/* Copies bytes of a page, verified. Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_OUT_OF_RANGE,
 * MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_read(mmsb_snapshot_t snapshot, uint64_t id, uint64_t offset, void *buffer, uint64_t length);

/* A page's bytes where they lie in the mapped file, read-only, valid until mmsb_snapshot_close; all of them are verified by this
 * call. If the file is cut short meanwhile, touching them raises SIGBUS: use mmsb_snapshot_read for files that others change.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_UNSUPPORTED (compressed, or not in one piece),
 * MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_view(mmsb_snapshot_t snapshot, uint64_t id, const void **bytes, uint64_t *length);

/* A page's metadata blob. A list of bytes. Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NOT_FOUND, MMSB_E_OUT_OF_RANGE,
 * MMSB_E_IO, MMSB_E_CORRUPT. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_metadata(mmsb_snapshot_t snapshot, uint64_t id, void *blob, size_t capacity, size_t *length);

/* Reads a snapshot and its bases and checks every checksum and every length. work (may be NULL): timeout_ns and after.
 * Errors: as mmsb_snapshot_open; MMSB_E_STRUCT_VERSION and handle errors (work), MMSB_E_TIMEOUT, MMSB_E_CANCELLED. Threads: any.
 * Blocks: until done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_verify(const char *path, const mmsb_work_options_t *work);

#define MMSB_CHANGE_ADDED 1   /* only the newer snapshot has the page */
#define MMSB_CHANGE_REMOVED 2 /* only the older one has it */
#define MMSB_CHANGE_BYTES 3   /* size or bytes differ, perhaps more */
#define MMSB_CHANGE_OTHER 4   /* epoch, change mask, metadata or place differ, the bytes do not */

typedef struct mmsb_snapshot_change {
    uint64_t id;
    int32_t change; /* MMSB_CHANGE_* */
    int32_t reserved;
} mmsb_snapshot_change_t;

/* Pages that differ between two snapshots, in ascending order of ids. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE, MMSB_E_IO, MMSB_E_CORRUPT. Threads: any.
 * Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_diff(mmsb_snapshot_t older, mmsb_snapshot_t newer, mmsb_snapshot_change_t *changes,
                                          size_t capacity, size_t *count);

/* Writes the state that a snapshot and its bases give together into one whole snapshot file, which gets a new id. What is
 * compressed stays so. Of options (may be NULL) only not_durable may be other than its default. to must not be one of the bases.
 * Errors: as mmsb_snapshot_open and mmsb_snapshot_save. Threads: any. Blocks: until it is on disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_snapshot_compact(const char *path, const char *to, const mmsb_save_options_t *options);

/* ---------------------------------------------------------------------------------------------------- journal ---- */

/* The durable log of every change that goes through the API. A snapshot and the journal's records after it give the state at the
 * last call whose record reached the disk: mmsb_load_options_t.journal applies them. docs/journal-format.md describes the files.
 * Bytes that a program writes through pointers are not in the journal. A batch (_many, _runs) that changes pages of several
 * contexts, one of which has a journal, answers MMSB_E_UNSUPPORTED. */

#define MMSB_DURABILITY_INTERVAL 0 /* on disk within interval_ms */
#define MMSB_DURABILITY_CALL 1     /* a call returns when its record is on disk */
#define MMSB_DURABILITY_NONE 2     /* when the system likes */

typedef struct mmsb_journal_options {
    uint32_t struct_size;
    int32_t durability;     /* MMSB_DURABILITY_INTERVAL */
    uint32_t interval_ms;   /* 10 */
    int32_t keep;           /* 0 = a durable save removes the segments that it makes unnecessary; 1 = they stay */
    uint64_t segment_bytes; /* 256 MiB; a segment file that is longer is followed by a new one */
    uint64_t reserved[4];
} mmsb_journal_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_journal_options_init(mmsb_journal_options_t *options);

/* Begins to journal a context into a directory, which is made where it is missing. A directory with a journal is continued, its
 * torn end cut, by a context that was loaded with all of its records, or whose journal was closed there; a state that was loaded
 * only up to a record, a time or an epoch is saved first, and begins a new directory. A save comes first also where pages changed
 * while no journal was open: a replay knows nothing of that.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_ALREADY_EXISTS (the context has a journal),
 * MMSB_E_BUSY (another process writes it), MMSB_E_MISMATCH (its end is not this context's state), MMSB_E_IO, MMSB_E_NO_SPACE,
 * MMSB_E_CORRUPT, MMSB_E_FORMAT, MMSB_E_OUT_OF_MEMORY. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_open(mmsb_context_t context, const char *directory, const mmsb_journal_options_t *options);

/* Waits until every call that has returned is on disk. Errors: handle errors, MMSB_E_INVALID_STATE (no journal), MMSB_E_IO,
 * MMSB_E_NO_SPACE. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_sync(mmsb_context_t context);

/* Ends the journal, after a sync. Destroying the context does it, too. Errors: as mmsb_journal_sync; the journal ends all the
 * same. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_close(mmsb_context_t context);

/* Removes the journal's segments that hold only records which a snapshot already has, after it was verified.
 * Errors: as mmsb_journal_sync, and those of mmsb_snapshot_open. Threads: any. Blocks: for the disk. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_drop(mmsb_context_t context, const char *snapshot);

typedef struct mmsb_journal_info {
    uint32_t struct_size;
    uint32_t segments;
    uint64_t first;  /* number of the oldest record that is kept */
    uint64_t last;   /* number of the newest; 0 when there was none yet */
    uint64_t synced; /* up to this one all are on disk */
    uint64_t bytes;  /* of all segments */
    uint64_t reserved[4];
} mmsb_journal_info_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_journal_info_init(mmsb_journal_info_t *info);

/* How far the journal is.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION, MMSB_E_INVALID_STATE (no journal).
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_journal_info(mmsb_context_t context, mmsb_journal_info_t *info);

/* ---------------------------------------------------------------------------------------------------- devices ---- */

/* GPUs, and the simulated devices that stand in for them where a context asks for that (mmsb_context_options_t.simulate). The
 * devices of a context are of one kind: the driver's, or simulated ones of its own. docs/devices.md says how all of this
 * works. */

typedef struct mmsb_device_info {
    int32_t ordinal;   /* the driver's number of the device */
    int32_t simulated; /* 1 = no hardware: its memory is the host's */
    char name[96];
    char pci[16]; /* "0000:65:00.0"; empty where there is none */
    uint8_t uuid[16];
    uint64_t bytes;       /* of its memory */
    uint64_t free_bytes;  /* of these, what no process has taken; 0 where it cannot be asked */
    uint64_t granularity; /* of addresses that are reserved and mapped; 0 = the device cannot do that */
    int32_t major;        /* of the compute capability */
    int32_t minor;
    int32_t multiprocessors;
    int32_t numa_node;      /* of the host, nearest to it; -1 = not known */
    int32_t ordered_memory; /* 1 = runtimes can be made */
    int32_t managed_memory; /* 1 = UNIFIED pages can be there */
    uint64_t reserved[4];
} mmsb_device_info_t;

/* The context's devices, in the order of their ordinals. A list.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_OUT_OF_RANGE, MMSB_E_NO_DEVICE (no driver library, or it knows no
 * device: the text says what was looked for), MMSB_E_DEVICE (a driver that is broken or too old: named). Threads: any. Blocks:
 * until each device is open. Since 0.1. */
MMSB_API mmsb_status_t mmsb_device_list(mmsb_context_t context, mmsb_device_info_t *devices, size_t capacity, size_t *count);

/* --------------------------------------------------------------------------------------- the device runtime ---- */

/* Stream-ordered memory of a device. A stream is a queue of work. A block is device memory that is taken and given back in the
 * order of a stream. A use says what work that is about to be queued does with blocks: mmsb_use_begin makes the stream wait
 * for everything on other streams that conflicts with it, mmsb_use_end says that the work is queued. Memory that was freed is
 * used again only behind all uses of it. The host never waits for the device, but where a comment says so. */

typedef struct mmsb_runtime_options {
    uint32_t struct_size;
    uint32_t streams;     /* 64; the most that mmsb_stream_create gives out at a time */
    uint64_t budget;      /* bytes that blocks may take; 0 = no limit */
    const char *ledger;   /* NULL; a file like "/dev/shm/name" in which the processes of a machine charge one budget together.
                                  It is made, with the limit budget, where it is missing; with budget 0 its own limit holds.
                                  What a process took comes back when it ends, however it ends */
    uint64_t log_events;  /* 0; how many events the log keeps, at most 2^24 */
    uint64_t guard_every; /* 0 = none; every how many-th block has canaries, and is filled when it is taken and given back */
    uint64_t guard_quarantine; /* 0; bytes of freed blocks that the guard holds back, to see who writes to them */
    /* Called by mmsb_block_allocate where memory is refused (code: MMSB_E_LIMIT, MMSB_E_OUT_OF_MEMORY), on the thread of that call,
     * with no lock held: it may free blocks and ask anything, but must not end the runtime. attempt counts from 1. Not 0 = try
     * again. NULL = none. */
    int32_t (*refused)(void *user, uint64_t bytes, uint32_t attempt, mmsb_status_t code);
    void *refused_user;        /* NULL; its first argument */
    uint64_t refused_attempts; /* 8; the most calls of it for one block */
    uint64_t reserved[4];
} mmsb_runtime_options_t;

/* The defaults, named above. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_runtime_options_init(mmsb_runtime_options_t *options);

/* The runtime of a device that everybody shares, pages on the device included: without budget, log and guard. The same handle
 * each time. A simulated device's ends with the context, a driver's with mmsb_shutdown, and with it the streams and blocks
 * that were not given back.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_NO_DEVICE, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST, MMSB_E_UNSUPPORTED (no
 * stream-ordered memory). Threads: any. Blocks: until the device is open. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_shared(mmsb_context_t context, int32_t device, mmsb_runtime_t *runtime);

/* A runtime of the program's own. options may be NULL.
 * Errors: as mmsb_runtime_shared; MMSB_E_STRUCT_VERSION, MMSB_E_LIMIT; of the ledger: MMSB_E_IO, MMSB_E_FORMAT (no ledger),
 * MMSB_E_MISMATCH (it has another limit), MMSB_E_INVALID_ARGUMENT (missing, and no budget to begin it with). Threads: any.
 * Blocks: until the device is open. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_create(mmsb_context_t context, int32_t device, const mmsb_runtime_options_t *options,
                                           mmsb_runtime_t *runtime);

/* Ends a runtime of the program's own, with its streams, blocks, uses and reservations: their handles are stale from now on, and
 * the log of the library tells how many there were. Its context's end does it, too. Errors: handle errors,
 * MMSB_E_INVALID_STATE (the shared one). Threads: any. Blocks: until running calls have returned and the device has done what
 * is queued. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_destroy(mmsb_runtime_t runtime);

typedef struct mmsb_runtime_stats {
    uint32_t struct_size;
    uint32_t streams;     /* that are leased */
    uint64_t outstanding; /* bytes: live + pending, at every moment */
    uint64_t live;        /* of blocks that were not freed */
    uint64_t pending;     /* freed, but the device is not known to have come past the free */
    uint64_t peak;        /* the most bytes that were outstanding */
    uint64_t blocks;      /* that were not freed */
    uint64_t allocations; /* ever, as all of the following */
    uint64_t frees;
    uint64_t failures;       /* allocations that failed */
    uint64_t deferred_frees; /* frees that came while a use was open */
    uint64_t uses;
    uint64_t aborts;
    uint64_t waits;       /* of a stream for another one */
    uint64_t waits_saved; /* that needed no event: implied by others, or done already */
    uint64_t budget;      /* the limit in bytes; 0 = none, then the following are 0, too */
    uint64_t charged;     /* bytes, those that are reserved_bytes included; with a ledger, of all its processes */
    uint64_t reserved_bytes;
    uint64_t charged_peak;
    uint64_t refusals;
    uint64_t reports; /* of the guard: who wrote where nobody may. The log of the library has the first 1000 */
    uint64_t reserved[8];
} mmsb_runtime_stats_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_runtime_stats_init(mmsb_runtime_stats_t *stats);

/* The counters now. Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_stats(mmsb_runtime_t runtime, mmsb_runtime_stats_t *stats);

/* Looks which frees the device has come past, and counts their bytes as free. It does not wait. A refusal by the budget looks
 * first, too.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_reap(mmsb_runtime_t runtime);

/* Gives memory that the driver keeps for reuse back to the device, down to keep bytes.
 * Errors: handle errors, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: short. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_trim(mmsb_runtime_t runtime, uint64_t keep);

/* Writes what the log has as text, in the form of RMM's logging adaptor: a line Thread,Time,Action,Pointer,Size,Stream, then
 * one for each allocation, refused allocation and free. Errors: handle errors, MMSB_E_INVALID_STATE (no log), MMSB_E_IO,
 * MMSB_E_NO_SPACE. Threads: any. Blocks: for the descriptor. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_log_write(mmsb_runtime_t runtime, int32_t descriptor);

/* The number of a name for what memory is for: in statistics, logs and reports. Equal names have equal numbers, until the
 * process ends; 0 is "untagged". Errors: MMSB_E_INVALID_ARGUMENT (NULL, broken UTF-8, more than 64 bytes), MMSB_E_LIMIT (65
 * 536 names). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_tag_of(const char *name, mmsb_tag_t *tag);

typedef struct mmsb_tag_stats {
    uint64_t live; /* bytes that are outstanding */
    uint64_t peak;
    uint64_t total;    /* bytes, ever */
    uint64_t blocks;   /* that are outstanding */
    uint64_t ever;     /* blocks */
    uint64_t failures; /* allocations that failed */
    uint64_t reserved[2];
} mmsb_tag_stats_t;

/* What a runtime has of one tag. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_runtime_tag_stats(mmsb_runtime_t runtime, mmsb_tag_t tag, mmsb_tag_stats_t *stats);

/* Keeps bytes of the budget for blocks to come: nobody else gets them. mmsb_block_allocate takes them where it is given the
 * reservation.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE (0), MMSB_E_INVALID_STATE (no budget), MMSB_E_LIMIT.
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_reservation_create(mmsb_runtime_t runtime, uint64_t bytes, mmsb_reservation_t *reservation);

/* Gives back what is left of a reservation: *left bytes (may be NULL). Blocks that were made of it stay.
 * Errors: handle errors. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_reservation_destroy(mmsb_reservation_t reservation, uint64_t *left);

/* Leases a stream, which does not wait for the device's default stream. priority: 0, or -1 to be served first.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT (all are leased), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads:
 * any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_create(mmsb_runtime_t runtime, int32_t priority, mmsb_stream_t *stream);

/* Makes a stream of the program (a CUstream, a cudaStream_t) known until mmsb_stream_destroy; the program keeps it alive for
 * as long. NULL is the device's default stream. native must be a stream: the driver may crash on anything else.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_ALREADY_EXISTS (known to this runtime: the text has its handle),
 * MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_wrap(mmsb_runtime_t runtime, void *native, mmsb_stream_t *stream);

/* Ends the lease, or forgets the program's stream. Queued work goes on, and what comes later stays in order with it. The
 * stream's blocks stay. Errors: handle errors, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_destroy(mmsb_stream_t stream);

/* The driver's stream, to queue work on. Errors: handle errors, MMSB_E_INVALID_ARGUMENT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_native(mmsb_stream_t stream, void **native);

/* Waits until everything that is queued is done. timeout_ns 0 = do not wait.
 * Errors: handle errors, MMSB_E_WOULD_BLOCK, MMSB_E_TIMEOUT, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: until
 * done or the time is over. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_wait(mmsb_stream_t stream, uint64_t timeout_ns);

/* Copies bytes in the order of a stream, between any two of: memory of devices, memory of the host. They must not overlap, and
 * the host's must stay as it is until the stream has come past. Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_DEVICE,
 * MMSB_E_DEVICE_LOST. Threads: any. Blocks: where the host's memory is not pinned, perhaps until it is copied. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_copy(mmsb_stream_t stream, void *to, const void *from, uint64_t bytes);

/* Sets bytes of device memory to a value, in the order of a stream.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_fill(mmsb_stream_t stream, void *address, uint8_t value, uint64_t bytes);

/* A ticket that is done when everything queued on the stream so far is done, in whatever way it was queued: it can be polled,
 * waited for, put into an event loop, and named in the after of other work. There is nothing to cancel. The end of the runtime
 * ends it, too.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no.
 * Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_record(mmsb_stream_t stream, mmsb_ticket_t *ticket);

/* Makes what is queued on a stream from now on run behind a ticket of mmsb_stream_record, also one of another device. The
 * device waits, not the host. Errors: handle errors, MMSB_E_INVALID_ARGUMENT (another ticket; simulated devices of another
 * context), MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_stream_after(mmsb_stream_t stream, mmsb_ticket_t ticket);

/* Takes device memory in the order of a stream, aligned to 256 bytes; its bytes are not defined. Work queued on this stream
 * may use it at once, work on others within a use. tag: 0 or of mmsb_tag_of; reservation: 0 = none, else the bytes are taken of
 * it. *address is the device's: the host must not touch it.
 * Errors: handle errors (stream, reservation), MMSB_E_INVALID_ARGUMENT, MMSB_E_INVALID_SIZE (0), MMSB_E_LIMIT (the budget or the
 * reservation: the text has requested, taken, left and limit), MMSB_E_OUT_OF_MEMORY, MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads:
 * any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_block_allocate(mmsb_stream_t stream, uint64_t bytes, mmsb_tag_t tag, mmsb_reservation_t reservation,
                                           mmsb_block_t *block, void **address);

/* Gives a block back, behind all its uses, in the order of a stream (0 = the one it was allocated on). Its handle is stale
 * from now on. *deferred (may be NULL) is 1 where a use is open: the end of the last one frees it. A failed call leaves the
 * block as it was.
 * Errors: handle errors (a second free: MMSB_E_STALE_HANDLE), MMSB_E_INVALID_ARGUMENT (a stream of another runtime),
 * MMSB_E_DEVICE. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_block_free(mmsb_block_t block, mmsb_stream_t stream, int32_t *deferred);

typedef struct mmsb_block_info {
    uint32_t struct_size;
    int32_t device;
    void *address;
    uint64_t bytes;
    mmsb_stream_t stream; /* the one it was allocated on; 0 where that was given back */
    mmsb_tag_t tag;
    uint32_t uses; /* that are begun and not ended */
    uint64_t reserved[4];
} mmsb_block_info_t;

/* Sets struct_size. Errors: none. Threads: any. Blocks: no. Since 0.1. */
MMSB_API void mmsb_block_info_init(mmsb_block_info_t *info);

/* What a block is. Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_STRUCT_VERSION. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_block_info(mmsb_block_t block, mmsb_block_info_t *info);

#define MMSB_ACCESS_READ 1
#define MMSB_ACCESS_WRITE 2
#define MMSB_ACCESS_READ_WRITE 3

typedef struct mmsb_access {
    mmsb_block_t block;
    int32_t access; /* MMSB_ACCESS_* */
    int32_t reserved;
} mmsb_access_t;

/* Makes a stream ready for work on blocks: it waits for what conflicts with that on other streams, and the blocks' memory
 * stays until mmsb_use_end. Of one block accesses add up. All blocks or none; *bad_index (may be NULL) is the first that
 * cannot be used.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT (a block of another runtime, an unknown access), MMSB_E_BUSY (a use on
 * another stream that conflicts is begun and not ended: what it will queue cannot be waited for yet), MMSB_E_LIMIT,
 * MMSB_E_DEVICE, MMSB_E_DEVICE_LOST. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_begin(mmsb_stream_t stream, const mmsb_access_t *accesses, size_t count, mmsb_use_t *use,
                                      size_t *bad_index);

/* The work is queued. Errors: handle errors, MMSB_E_INVALID_STATE (recorded, and never begun). Threads: any. Blocks: no. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_use_end(mmsb_use_t use);

/* The launch has failed, and perhaps something was queued all the same: what the order is then, is what it is after
 * mmsb_use_end. A use that was recorded and never begun is forgotten. Errors: handle errors. Threads: any. Blocks: no. Since
 * 0.1. */
MMSB_API mmsb_status_t mmsb_use_abort(mmsb_use_t use);

/* A use whose blocks are collected one by one while a launch is put together: mmsb_use_add for each, mmsb_use_begin_recorded
 * before the launch, mmsb_use_end after it. permissive: 1 = memory that is no block (block 0) is passed over, 0 = it is
 * refused.
 * Errors: handle errors, MMSB_E_INVALID_ARGUMENT, MMSB_E_LIMIT. Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_record(mmsb_stream_t stream, int32_t permissive, mmsb_use_t *use);

/* Adds a block. One that cannot be used is reported by mmsb_use_begin_recorded, so that a row of calls needs no check after
 * each.
 * Errors: handle errors (of the use), MMSB_E_INVALID_ARGUMENT (an unknown access), MMSB_E_INVALID_STATE (it has begun).
 * Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_add(mmsb_use_t use, mmsb_block_t block, int32_t access);

/* Begins a use that was recorded. Where it fails nothing has begun, and it can be tried again.
 * Errors: as mmsb_use_begin; MMSB_E_INVALID_STATE (it has begun). Threads: any. Blocks: no. Since 0.1. */
MMSB_API mmsb_status_t mmsb_use_begin_recorded(mmsb_use_t use);

#ifdef __cplusplus
}
#endif

#endif /* MMSB_H */
