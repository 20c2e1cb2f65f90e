/*
 * fakecuda.c — a libcuda.so.1 over host memory, for tests.
 *
 * It has the driver calls that gpu/cuda uses, and is compiled against CUDA's own headers, so that neither can drift from them.
 * Streams run on threads of their own, the memory of devices is reached only while it is allocated, and every call needs what
 * CUDA says it needs: a current context, streams and events of that context. Where the real driver might crash (a handle that is
 * none), this one does.
 *
 * It does not know what the host may not touch, nor the default stream's waiting for other streams: gpu/sim is for such
 * questions.
 */
#include <cuda.h>
#include <cudaTypedefs.h>

#include "../../../gpu/cuda/abi.h"
#include "../../../kernels/kernels.h"
#include "../fakecuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_DEVICES = 8, MOST_CONTEXTS_OF_A_THREAD = 16, UNIT = 4096, SMALLEST = 512 };
#define GRANULARITY ((size_t)64 << 10) /* of virtual memory */
#define ARENA ((size_t)16 << 30)       /* addresses of a device */

#define EXPORT __attribute__((visibility("default")))

/* One lock and one condition for everything: this is a stand-in, not a driver. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void die(const char *what, const void *handle) {
    fprintf(stderr, "fakecuda: %s %p reached the driver and is none\n", what, handle);
    abort();
}

/* ----------------------------------------------------------------------------------------- what there is ---- */

struct CUctx_st {
    int ordinal;
    int retained;
    CUresult broken;
    size_t queued; /* work of all streams, also of those that were destroyed */
    CUstream default_stream;
};

static struct device {
    struct CUctx_st context;
    size_t used; /* bytes, also of what pools hold */
    uintptr_t arena, unused;
} devices[MOST_DEVICES];

enum kind { PLAIN, ORDERED, MAPPED, PINNED, MANAGED, REGISTERED };
enum state { LIVE, FREEING, CACHED };

/* A stretch of memory that somebody took; in one list, ordered by address. */
struct block {
    uintptr_t address;
    size_t bytes;
    enum kind kind;
    enum state state;
    bool accessible;
    unsigned users; /* of a MAPPED one: a bit for each device that may reach it */
    int ordinal;
    CUmemoryPool pool;
    struct physical *physical;
};
static struct block *blocks;
static size_t block_count, block_room;

/* Addresses of a device that were given back, to be used again: the last first. */
struct hole {
    uintptr_t address;
    size_t bytes;
    int ordinal;
    struct hole *next;
};
static struct hole *holes;

struct reservation {
    uintptr_t address;
    size_t bytes;
    int ordinal;
    struct reservation *next;
};
static struct reservation *reservations;

struct physical {
    int file, ordinal;
    size_t bytes, mappings;
    bool released;
};

struct CUmemPoolHandle_st {
    int ordinal;
    cuuint64_t threshold;
    size_t cached;
    unsigned users; /* a bit for each device that may reach it */
};

static struct {
    int count, version, init;
    size_t memory;
    unsigned delay, random;
    const char *without;
    bool done;
} set;

static struct fakecuda_counts counts;

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

/* ---------------------------------------------------------------------------------------------- contexts ---- */

static __thread struct {
    CUcontext contexts[MOST_CONTEXTS_OF_A_THREAD];
    int count;
} mine;

static CUcontext current(void) {
    return mine.count > 0 ? mine.contexts[mine.count - 1] : NULL;
}

static struct {
    const char *function;
    int nth, code, calls;
} fault;

/* What a call answers before it does anything. */
static CUresult before(const char *function) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!set.done) {
        result = CUDA_ERROR_NOT_INITIALIZED;
    } else if (fault.function == NULL || strcmp(fault.function, function) == 0) {
        fault.calls++;
        if (fault.calls == fault.nth)
            result = (CUresult)fault.code;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

#define REFUSE(refused) \
    do { \
        CUresult result = (refused); \
        if (result != CUDA_SUCCESS) \
            return result; \
    } while (0)

/* Names are made text here, before cuda.h's macros turn them into others. */
#define BEGIN(function) REFUSE(before(#function))

/* The same for calls that need a context, which is `context` then. The lock is held behind it. */
#define BEGIN_IN_CONTEXT(function) \
    REFUSE(before(#function)); \
    CUcontext context = current(); \
    if (context == NULL || context->retained == 0) \
        return CUDA_ERROR_INVALID_CONTEXT; \
    REFUSE(context->broken); \
    pthread_mutex_lock(&lock)

static CUresult end(CUresult result) {
    pthread_mutex_unlock(&lock);
    return result;
}

/* ------------------------------------------------------------------------------------------------ memory ---- */

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* The first block that ends behind the address. */
static size_t place_of(uintptr_t address) {
    size_t low = 0, high = block_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].address + blocks[middle].bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct block *block_at(uintptr_t address) {
    size_t place = place_of(address);
    return place < block_count && blocks[place].address == address ? blocks + place : NULL;
}

static void add_block(struct block block) {
    if (block_count == block_room) {
        block_room = block_room > 0 ? 2 * block_room : 64;
        blocks = realloc(blocks, block_room * sizeof *blocks);
        if (blocks == NULL)
            abort();
    }
    size_t place = place_of(block.address);
    memmove(blocks + place + 1, blocks + place, (block_count - place) * sizeof *blocks);
    blocks[place] = block;
    block_count++;
}

static void remove_block(struct block *block) {
    size_t place = (size_t)(block - blocks);
    block_count--;
    memmove(block, block + 1, (block_count - place) * sizeof *blocks);
}

/* Addresses of a device without memory, or 0. */
static uintptr_t take_addresses(int ordinal, size_t bytes) {
    for (struct hole **link = &holes; *link != NULL; link = &(*link)->next) {
        struct hole *hole = *link;
        if (hole->ordinal == ordinal && hole->bytes == bytes) {
            uintptr_t address = hole->address;
            *link = hole->next;
            free(hole);
            return address;
        }
    }
    struct device *device = &devices[ordinal];
    /* What lies behind stays without memory. */
    if (bytes > device->arena + ARENA - device->unused - GRANULARITY)
        return 0;
    uintptr_t address = device->unused;
    device->unused = round_up(address + bytes + UNIT, GRANULARITY);
    return address;
}

static void give_addresses(int ordinal, uintptr_t address, size_t bytes) {
    struct hole *hole = malloc(sizeof *hole);
    if (hole == NULL)
        abort();
    *hole = (struct hole){address, bytes, ordinal, holes};
    holes = hole;
    mmap((void *)address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static size_t charge_of(size_t bytes) {
    return round_up(bytes, SMALLEST);
}

static void drop_device_block(struct block *block) {
    devices[block->ordinal].used -= charge_of(block->bytes);
    give_addresses(block->ordinal, block->address, round_up(block->bytes, UNIT));
    remove_block(block);
}

/* Gives back what a pool holds until no more than keep bytes are left. */
static void trim(CUmemoryPool pool, size_t keep) {
    for (size_t i = block_count; i > 0 && pool->cached > keep; i--) {
        struct block *block = blocks + i - 1;
        if (block->pool == pool && block->state == CACHED) {
            pool->cached -= charge_of(block->bytes);
            drop_device_block(block);
        }
    }
}

static void trim_all(int ordinal) {
    for (size_t i = block_count; i > 0; i--) {
        if (i <= block_count && blocks[i - 1].state == CACHED && blocks[i - 1].ordinal == ordinal)
            trim(blocks[i - 1].pool, 0);
    }
}

static bool has_room(int ordinal, size_t bytes) {
    if (bytes > set.memory)
        return false;
    if (devices[ordinal].used + bytes > set.memory)
        trim_all(ordinal);
    return devices[ordinal].used + bytes <= set.memory;
}

/* What was never written is not zero. */
static void dirty(uintptr_t address, size_t bytes, int value) {
    memset((void *)address, value, bytes < UNIT ? bytes : UNIT);
}

static CUresult take_device_memory(int ordinal, size_t bytes, enum kind kind, CUmemoryPool pool, CUdeviceptr *address) {
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > set.memory || !has_room(ordinal, charge_of(bytes)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t taken = take_addresses(ordinal, round_up(bytes, UNIT));
    if (taken == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (mprotect((void *)taken, round_up(bytes, UNIT), PROT_READ | PROT_WRITE) != 0)
        abort();
    dirty(taken, bytes, 0xCD);
    devices[ordinal].used += charge_of(bytes);
    add_block(
        (struct block){.address = taken, .bytes = bytes, .kind = kind, .accessible = true, .ordinal = ordinal, .pool = pool});
    counts.allocations++;
    counts.bytes += bytes;
    *address = taken;
    return CUDA_SUCCESS;
}

static CUresult take_host_memory(size_t bytes, enum kind kind, int ordinal, uintptr_t *address) {
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *taken = mmap(NULL, round_up(bytes, UNIT), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = (uintptr_t)taken;
    add_block((struct block){.address = *address, .bytes = bytes, .kind = kind, .accessible = true, .ordinal = ordinal});
    counts.allocations++;
    counts.bytes += bytes;
    return CUDA_SUCCESS;
}

static void forget_allocation(const struct block *block) {
    counts.allocations--;
    counts.bytes -= block->bytes;
}

static void give_host_memory(struct block *block) {
    forget_allocation(block);
    munmap((void *)block->address, round_up(block->bytes, UNIT));
    remove_block(block);
}

/* Whether work of a device may touch these bytes. Of the host's memory that nobody told us of we know nothing. */
static bool reachable(int ordinal, uintptr_t address, size_t bytes) {
    uintptr_t stop = address + bytes;
    if (stop < address)
        return false;
    size_t place = place_of(address);
    bool known = place < block_count && blocks[place].address < stop;
    for (int i = 0; i < set.count; i++) {
        known = known || (address >= devices[i].arena && address < devices[i].arena + ARENA);
    }
    if (!known)
        return address != 0;
    for (; address < stop; place++) {
        if (place == block_count || blocks[place].address > address)
            return false;
        const struct block *block = blocks + place;
        if (!block->accessible || block->state == CACHED)
            return false;
        if (block->kind == ORDERED && !(block->pool->users >> ordinal & 1))
            return false;
        if (block->kind == MAPPED && !(block->users >> ordinal & 1))
            return false;
        if (block->kind == REGISTERED && block->address + block->bytes < stop)
            return true;
        address = block->address + block->bytes;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------- streams ---- */

/* A point in a stream. */
struct mark {
    int references;
    bool done;
};

static void forget_mark(struct mark *mark) {
    if (mark != NULL && --mark->references == 0)
        free(mark);
}

enum work_kind { COPY, FILL, FREE, MARK, WAIT, KERNEL };

struct work {
    enum work_kind kind;
    uintptr_t to, from;
    size_t bytes;
    int value;
    struct mark *mark;
    const mmsb__kernel_host_t *kernel;
    uint64_t threads;
    struct work *next;
    unsigned char parameter[];
};

struct CUstream_st {
    CUcontext context;
    unsigned long long id; /* no other stream of the process has it */
    struct work *first, **last;
    bool destroyed;
    CUstream next;
};
static CUstream streams; /* those that may be given */
static CUstream ended;   /* that have done everything: the next stream has the address of the last one */

struct CUevent_st {
    CUcontext context;
    struct mark *mark; /* NULL before it is recorded */
    CUevent next;
};
static CUevent events;

static bool held;

static void run_kernel(const struct work *work) {
    for (uint64_t thread = 0; thread < work->threads; thread++)
        work->kernel->body(work->parameter, thread, work->threads);
}

/* The body of the kernel that fails: see kernels_of_tests. */
static void trap(const void *parameter, uint64_t thread, uint64_t threads) {
    (void)parameter, (void)thread, (void)threads;
}

static void finish_free(struct block *block) {
    CUmemoryPool pool = block->pool;
    dirty(block->address, block->bytes, 0xDD);
    block->state = CACHED;
    pool->cached += charge_of(block->bytes);
    if (pool->cached > pool->threshold)
        trim(pool, pool->threshold);
}

/* Does what needs the lock; the rest is done without it. */
static void run(CUstream stream, struct work *work) {
    CUcontext context = stream->context;
    if (work->kind == MARK)
        work->mark->done = true;
    if (context->broken != CUDA_SUCCESS)
        return;
    switch (work->kind) {
    case FREE:
        finish_free(block_at(work->to));
        return;
    case COPY:
        if (!reachable(context->ordinal, work->from, work->bytes))
            context->broken = CUDA_ERROR_ILLEGAL_ADDRESS;
        /* fall through */
    case FILL:
        if (!reachable(context->ordinal, work->to, work->bytes))
            context->broken = CUDA_ERROR_ILLEGAL_ADDRESS;
        break;
    case KERNEL:
        if (work->kernel->body == trap)
            context->broken = CUDA_ERROR_ILLEGAL_ADDRESS;
        break;
    case MARK:
    case WAIT:
        return;
    }
    if (context->broken != CUDA_SUCCESS)
        return;
    set.random = set.random * 1664525 + 1013904223;
    unsigned delay = set.delay > 0 ? (set.random >> 8) % set.delay : 0;
    pthread_mutex_unlock(&lock);
    if (delay > 0)
        usleep(delay);
    if (work->kind == COPY)
        memmove((void *)work->to, (const void *)work->from, work->bytes);
    if (work->kind == FILL)
        memset((void *)work->to, work->value, work->bytes);
    if (work->kind == KERNEL)
        run_kernel(work);
    pthread_mutex_lock(&lock);
}

static void *run_stream(void *argument) {
    CUstream stream = argument;
    pthread_mutex_lock(&lock);
    while (!stream->destroyed || stream->first != NULL) {
        struct work *work = stream->first;
        if (work == NULL || held || (work->kind == WAIT && !work->mark->done && stream->context->broken == CUDA_SUCCESS)) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        run(stream, work);
        stream->first = work->next;
        if (stream->first == NULL)
            stream->last = &stream->first;
        stream->context->queued--;
        forget_mark(work->mark);
        free(work);
        pthread_cond_broadcast(&changed);
    }
    stream->next = ended;
    ended = stream;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static CUstream start_stream(CUcontext context) {
    static unsigned long long last_id;
    CUstream stream = ended;
    if (stream != NULL) {
        ended = stream->next;
    } else if ((stream = malloc(sizeof *stream)) == NULL) {
        abort();
    }
    pthread_t thread;
    *stream = (struct CUstream_st){.context = context, .id = ++last_id};
    stream->last = &stream->first;
    if (pthread_create(&thread, NULL, run_stream, stream) != 0)
        abort();
    pthread_detach(thread);
    return stream;
}

/* The stream a call means, or NULL where it is another context's. */
static CUstream stream_of(CUcontext context, CUstream handle) {
    static __thread CUstream own[MOST_DEVICES];
    if (handle == CU_STREAM_PER_THREAD) {
        if (own[context->ordinal] == NULL)
            own[context->ordinal] = start_stream(context);
        return own[context->ordinal];
    }
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        if (context->default_stream == NULL)
            context->default_stream = start_stream(context);
        return context->default_stream;
    }
    for (CUstream stream = streams; stream != NULL; stream = stream->next) {
        if (stream == handle)
            return stream->context == context ? stream : NULL;
    }
    die("stream", handle);
    return NULL;
}

static CUevent known_event(CUevent handle) {
    for (CUevent event = events; event != NULL; event = event->next) {
        if (event == handle)
            return event;
    }
    die("event", handle);
    return NULL;
}

static void queue(CUstream stream, struct work work, const void *parameter, size_t parameter_bytes) {
    struct work *queued = malloc(sizeof *queued + parameter_bytes);
    if (queued == NULL)
        abort();
    *queued = work;
    if (parameter_bytes > 0)
        memcpy(queued->parameter, parameter, parameter_bytes);
    if (queued->mark != NULL)
        queued->mark->references++;
    stream->context->queued++;
    *stream->last = queued;
    stream->last = &queued->next;
    pthread_cond_broadcast(&changed);
}

/* ---------------------------------------------------------------------------------- kernels and modules ---- */

/* What PTX of tests names. A fat binary stands for the library's kernels, whose host build is linked in. */
static void fill_body(const void *parameter, uint64_t thread, uint64_t threads) {
    const struct {
        uint64_t address, bytes, value;
    } *fill = parameter;
    for (uint64_t i = thread; i < fill->bytes; i += threads)
        ((unsigned char *)fill->address)[i] = (unsigned char)fill->value;
}
static const mmsb__kernel_host_t kernels_of_tests[] = {{"fakecuda_fill", 24, fill_body}, {"fakecuda_trap", 0, trap}};

struct CUfunc_st {
    CUmodule module;
    const mmsb__kernel_host_t *kernel;
    CUfunction next;
};

struct CUmod_st {
    char *text; /* of PTX; NULL for a fat binary */
    CUfunction functions;
    CUmodule next;
};
static CUmodule modules;

static const mmsb__kernel_host_t *find_kernel(CUmodule module, const char *name) {
    if (module->text == NULL)
        return mmsb__kernel_host(name);
    size_t length = strlen(name);
    const char *entry = module->text;
    while ((entry = strstr(entry, ".entry ")) != NULL) {
        entry += strlen(".entry ");
        if (strncmp(entry, name, length) == 0 && (entry[length] == '(' || entry[length] == ' '))
            break;
    }
    for (size_t i = 0; entry != NULL && i < sizeof kernels_of_tests / sizeof *kernels_of_tests; i++) {
        if (strcmp(kernels_of_tests[i].name, name) == 0)
            return kernels_of_tests + i;
    }
    return NULL;
}

static CUresult compile(const char *text, unsigned int count, const CUjit_option *options, void **values) {
    CUresult result = CUDA_SUCCESS;
    const char *log = "", *last = strrchr(text, '}');
    if (last != NULL && last[1 + strspn(last + 1, " \n")] != '\0') {
        result = CUDA_ERROR_INVALID_PTX;
        log = "ptxas fatal: rubbish behind the end";
    } else if (strstr(text, ".target") == NULL) {
        result = CUDA_ERROR_INVALID_PTX;
        log = "ptxas fatal\n: Missing .target";
    } else if (strstr(text, ".version 99") != NULL) {
        result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        log = "ptxas: Unsupported .version 99";
    }
    char *buffer = NULL;
    size_t bytes = 0;
    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            buffer = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            bytes = (size_t)values[i];
    }
    if (buffer != NULL)
        snprintf(buffer, bytes, "%s", log);
    return result;
}

/* ------------------------------------------------------------------------------------------- the driver ---- */

EXPORT CUresult cuInit(unsigned int flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (!set.done) {
        set.count = (int)setting("FAKECUDA_DEVICES", 2);
        set.memory = (size_t)setting("FAKECUDA_MEMORY", 1 << 30);
        set.version = (int)setting("FAKECUDA_VERSION", CUDA_VERSION);
        set.init = (int)setting("FAKECUDA_INIT", CUDA_SUCCESS);
        set.delay = (unsigned)setting("FAKECUDA_DELAY", 0);
        set.without = getenv("FAKECUDA_WITHOUT") != NULL ? strdup(getenv("FAKECUDA_WITHOUT")) : "";
        if (set.count > MOST_DEVICES || set.memory > ARENA)
            abort();
        for (int i = 0; i < set.count; i++) {
            void *arena = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (arena == MAP_FAILED)
                abort();
            devices[i].context.ordinal = i;
            devices[i].arena = (uintptr_t)arena;
            devices[i].unused = round_up((uintptr_t)arena, GRANULARITY);
        }
        set.done = set.init == CUDA_SUCCESS;
    }
    return end((CUresult)set.init);
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    *version = set.version;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
    switch ((int)error) {
#define CASE(result, value) \
    case value: \
        *name = #result; \
        return CUDA_SUCCESS;
        CUDA_RESULTS(CASE)
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    const char *name;
    *text = cuGetErrorName(error, &name) == CUDA_SUCCESS ? "as fakecuda was told" : NULL;
    return *text != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    BEGIN(cuDeviceGetCount);
    *count = set.count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    BEGIN(cuDeviceGet);
    if (ordinal < 0 || ordinal >= set.count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    BEGIN(cuDeviceGetName);
    snprintf(name, (size_t)length, "fake device %d", device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    BEGIN(cuDeviceGetUuid);
    memset(uuid, 0xFA, sizeof *uuid);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
    BEGIN(cuDeviceGetPCIBusId);
    snprintf(id, (size_t)length, "0000:%02X:00.0", device + 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    (void)device;
    BEGIN(cuDeviceTotalMem);
    *bytes = set.memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    (void)device;
    BEGIN(cuDeviceGetAttribute);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 4;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        *value = -1;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        *value = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    BEGIN(cuDeviceCanAccessPeer);
    *can = device != peer;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    BEGIN(cuDevicePrimaryCtxRetain);
    pthread_mutex_lock(&lock);
    devices[device].context.retained++;
    counts.contexts++;
    *context = &devices[device].context;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    BEGIN(cuDevicePrimaryCtxRelease);
    pthread_mutex_lock(&lock);
    if (devices[device].context.retained == 0)
        return end(CUDA_ERROR_INVALID_CONTEXT);
    devices[device].context.retained--;
    counts.contexts--;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
    BEGIN(cuCtxPushCurrent);
    if (context == NULL || context->retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (mine.count == MOST_CONTEXTS_OF_A_THREAD)
        return CUDA_ERROR_INVALID_VALUE;
    mine.contexts[mine.count++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *context) {
    if (mine.count == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = mine.contexts[--mine.count];
    return CUDA_SUCCESS;
}

/* The next four are for tests and other libraries: gpu/cuda must never need them. */
EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    BEGIN_IN_CONTEXT(cuCtxGetDevice);
    *device = context->ordinal;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    BEGIN_IN_CONTEXT(cuCtxGetStreamPriorityRange);
    (void)context;
    *least = 0;
    *greatest = -1;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    mine.count = context != NULL;
    mine.contexts[0] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void) {
    BEGIN_IN_CONTEXT(cuCtxSynchronize);
    while (context->queued > 0 && context->broken == CUDA_SUCCESS)
        pthread_cond_wait(&changed, &lock);
    return end(context->broken);
}

EXPORT CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) {
    BEGIN_IN_CONTEXT(cuMemGetInfo);
    *free_bytes = set.memory - devices[context->ordinal].used;
    *total = set.memory;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    BEGIN_IN_CONTEXT(cuMemAlloc);
    return end(take_device_memory(context->ordinal, bytes, PLAIN, NULL, address));
}

EXPORT CUresult cuMemFree(CUdeviceptr address) {
    BEGIN_IN_CONTEXT(cuMemFree);
    struct block *block = block_at(address);
    if (block == NULL || (block->kind != PLAIN && block->kind != MANAGED))
        return end(CUDA_ERROR_INVALID_VALUE);
    if (block->kind == MANAGED) {
        give_host_memory(block);
    } else {
        forget_allocation(block);
        drop_device_block(block);
    }
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned int flags) {
    BEGIN_IN_CONTEXT(cuMemHostAlloc);
    if (!(flags & CU_MEMHOSTALLOC_PORTABLE))
        return end(CUDA_ERROR_NOT_SUPPORTED);
    return end(take_host_memory(bytes, PINNED, context->ordinal, (uintptr_t *)address));
}

EXPORT CUresult cuMemFreeHost(void *address) {
    BEGIN_IN_CONTEXT(cuMemFreeHost);
    struct block *block = block_at((uintptr_t)address);
    if (block == NULL || block->kind != PINNED)
        return end(CUDA_ERROR_INVALID_VALUE);
    give_host_memory(block);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags) {
    BEGIN_IN_CONTEXT(cuMemAllocManaged);
    if (flags != CU_MEM_ATTACH_GLOBAL)
        return end(CUDA_ERROR_INVALID_VALUE);
    return end(take_host_memory(bytes, MANAGED, context->ordinal, (uintptr_t *)address));
}

EXPORT CUresult cuMemHostRegister(void *address, size_t bytes, unsigned int flags) {
    BEGIN_IN_CONTEXT(cuMemHostRegister);
    uintptr_t start = (uintptr_t)address, page = start / UNIT * UNIT;
    size_t pages = (start + bytes - page + UNIT - 1) / UNIT;
    size_t place = place_of(start);
    unsigned char *resident = malloc(pages);
    bool there = bytes > 0 && resident != NULL && mincore((void *)page, pages * UNIT, resident) == 0;
    free(resident);
    if (!there || !(flags & CU_MEMHOSTREGISTER_PORTABLE))
        return end(CUDA_ERROR_INVALID_VALUE);
    if (place < block_count && blocks[place].address < start + bytes)
        return end(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    add_block(
        (struct block){.address = start, .bytes = bytes, .kind = REGISTERED, .accessible = true, .ordinal = context->ordinal});
    counts.registered++;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostUnregister(void *address) {
    BEGIN_IN_CONTEXT(cuMemHostUnregister);
    struct block *block = block_at((uintptr_t)address);
    if (block == NULL || block->kind != REGISTERED)
        return end(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    remove_block(block);
    counts.registered--;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    BEGIN(cuMemPoolCreate);
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->location.id < 0 || properties->location.id >= set.count)
        return CUDA_ERROR_INVALID_VALUE;
    *pool = calloc(1, sizeof **pool);
    if (*pool == NULL)
        abort();
    pthread_mutex_lock(&lock);
    (*pool)->ordinal = properties->location.id;
    (*pool)->users = 1u << properties->location.id;
    counts.pools++;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    BEGIN(cuMemPoolDestroy);
    pthread_mutex_lock(&lock);
    trim(pool, 0);
    for (size_t i = 0; i < block_count; i++) {
        if (blocks[i].pool == pool)
            die("a pool in use", pool);
    }
    free(pool);
    counts.pools--;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    BEGIN(cuMemPoolSetAttribute);
    if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        return CUDA_ERROR_INVALID_VALUE;
    pool->threshold = *(cuuint64_t *)value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *accesses, size_t count) {
    BEGIN(cuMemPoolSetAccess);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        unsigned user = 1u << accesses[i].location.id;
        pool->users = accesses[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? pool->users | user : pool->users & ~user;
    }
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    BEGIN(cuMemPoolTrimTo);
    pthread_mutex_lock(&lock);
    trim(pool, keep);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemAllocFromPoolAsync);
    if (stream_of(context, handle) == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    if (pool->ordinal != context->ordinal)
        return end(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < block_count; i++) {
        struct block *block = blocks + i;
        if (block->pool == pool && block->state == CACHED && block->bytes == bytes) {
            block->state = LIVE;
            pool->cached -= charge_of(bytes);
            counts.allocations++;
            counts.bytes += bytes;
            *address = block->address;
            return end(CUDA_SUCCESS);
        }
    }
    return end(take_device_memory(pool->ordinal, bytes, ORDERED, pool, address));
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemFreeAsync);
    CUstream stream = stream_of(context, handle);
    struct block *block = block_at(address);
    if (stream == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    if (block == NULL || block->kind != ORDERED || block->state != LIVE)
        return end(CUDA_ERROR_INVALID_VALUE);
    forget_allocation(block);
    block->state = FREEING;
    queue(stream, (struct work){.kind = FREE, .to = address}, NULL, 0);
    return end(CUDA_SUCCESS);
}

static bool of_device(const CUmemAllocationProp *properties) {
    return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           properties->location.id >= 0 && properties->location.id < set.count;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                              CUmemAllocationGranularity_flags option) {
    BEGIN(cuMemGetAllocationGranularity);
    if (!of_device(properties) || option != CU_MEM_ALLOC_GRANULARITY_MINIMUM)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish,
                                    unsigned long long flags) {
    BEGIN_IN_CONTEXT(cuMemAddressReserve);
    if (bytes == 0 || bytes % GRANULARITY != 0 || alignment != 0 || wish != 0 || flags != 0)
        return end(CUDA_ERROR_INVALID_VALUE);
    struct reservation *reservation = malloc(sizeof *reservation);
    uintptr_t taken = take_addresses(context->ordinal, bytes);
    if (reservation == NULL || taken == 0) {
        free(reservation);
        return end(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *reservation = (struct reservation){taken, bytes, context->ordinal, reservations};
    reservations = reservation;
    counts.reservations++;
    *address = taken;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    BEGIN_IN_CONTEXT(cuMemAddressFree);
    for (struct reservation **link = &reservations; *link != NULL; link = &(*link)->next) {
        struct reservation *reservation = *link;
        if (reservation->address != address || reservation->bytes != bytes)
            continue;
        size_t place = place_of(address);
        if (place < block_count && blocks[place].address < address + bytes)
            die("a reservation in use", (void *)address);
        *link = reservation->next;
        give_addresses(reservation->ordinal, address, bytes);
        free(reservation);
        counts.reservations--;
        return end(CUDA_SUCCESS);
    }
    return end(CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                            unsigned long long flags) {
    BEGIN_IN_CONTEXT(cuMemCreate);
    if (!of_device(properties) || bytes == 0 || bytes % GRANULARITY != 0 || flags != 0)
        return end(CUDA_ERROR_INVALID_VALUE);
    if (!has_room(properties->location.id, bytes))
        return end(CUDA_ERROR_OUT_OF_MEMORY);
    struct physical *physical = calloc(1, sizeof *physical);
    if (physical == NULL)
        abort();
    physical->file = memfd_create("fakecuda", MFD_CLOEXEC);
    physical->ordinal = properties->location.id;
    physical->bytes = bytes;
    if (physical->file < 0 || ftruncate(physical->file, (off_t)bytes) != 0)
        abort();
    devices[physical->ordinal].used += bytes;
    counts.physicals++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return end(CUDA_SUCCESS);
}

static void drop_physical(struct physical *physical) {
    if (!physical->released || physical->mappings > 0)
        return;
    devices[physical->ordinal].used -= physical->bytes;
    close(physical->file);
    free(physical);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    BEGIN_IN_CONTEXT(cuMemRelease);
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    if (physical->released)
        die("physical memory", physical);
    physical->released = true;
    counts.physicals--;
    drop_physical(physical);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
    BEGIN_IN_CONTEXT(cuMemMap);
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    struct reservation *reservation = reservations;
    while (reservation != NULL && (address < reservation->address || address >= reservation->address + reservation->bytes)) {
        reservation = reservation->next;
    }
    size_t place = place_of(address);
    if (reservation == NULL || address % GRANULARITY != 0 || bytes != physical->bytes || offset != 0 || flags != 0 ||
        bytes > reservation->address + reservation->bytes - address)
        return end(CUDA_ERROR_INVALID_VALUE);
    if (place < block_count && blocks[place].address < address + bytes)
        return end(CUDA_ERROR_INVALID_VALUE);
    if (mmap((void *)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0) == MAP_FAILED)
        abort();
    add_block(
        (struct block){.address = address, .bytes = bytes, .kind = MAPPED, .ordinal = physical->ordinal, .physical = physical});
    physical->mappings++;
    counts.mappings++;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    BEGIN_IN_CONTEXT(cuMemSetAccess);
    size_t first = place_of(address), last = first;
    for (CUdeviceptr at = address; at < address + bytes; at += blocks[last++].bytes) { /* whole mappings, without gaps */
        if (last == block_count || blocks[last].kind != MAPPED || blocks[last].address != at ||
            blocks[last].bytes > address + bytes - at)
            return end(CUDA_ERROR_INVALID_VALUE);
    }
    if (first == last || count == 0)
        return end(CUDA_ERROR_INVALID_VALUE);
    unsigned users = 0;
    for (size_t i = 0; i < count; i++) {
        if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || access[i].location.id < 0 ||
            access[i].location.id >= set.count)
            return end(CUDA_ERROR_INVALID_VALUE);
        users |= 1u << access[i].location.id;
    }
    for (; first < last; first++) {
        blocks[first].users = users;
        blocks[first].accessible = true;
    }
    if (mprotect((void *)address, bytes, PROT_READ | PROT_WRITE) != 0)
        abort();
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    BEGIN_IN_CONTEXT(cuMemUnmap);
    struct block *block = block_at(address);
    if (block == NULL || block->kind != MAPPED || block->bytes != bytes)
        return end(CUDA_ERROR_INVALID_VALUE);
    struct physical *physical = block->physical;
    mmap((void *)block->address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    remove_block(block);
    physical->mappings--;
    counts.mappings--;
    drop_physical(physical);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
    (void)flags, (void)priority;
    BEGIN_IN_CONTEXT(cuStreamCreateWithPriority);
    *stream = start_stream(context);
    (*stream)->next = streams;
    streams = *stream;
    counts.streams++;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

EXPORT CUresult cuStreamDestroy(CUstream handle) {
    BEGIN_IN_CONTEXT(cuStreamDestroy);
    CUstream stream = stream_of(context, handle);
    if (stream == NULL || stream == context->default_stream)
        return end(CUDA_ERROR_INVALID_HANDLE);
    CUstream *link = &streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    stream->destroyed = true;
    counts.streams--;
    pthread_cond_broadcast(&changed);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *of) {
    BEGIN_IN_CONTEXT(cuStreamGetCtx);
    for (CUstream stream = streams; stream != NULL; stream = stream->next) {
        if (stream == handle) {
            *of = stream->context;
            return end(CUDA_SUCCESS);
        }
    }
    (void)context;
    die("stream", handle);
    return end(CUDA_ERROR_INVALID_HANDLE);
}

EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
    BEGIN_IN_CONTEXT(cuStreamGetId);
    CUstream stream = stream_of(context, handle);
    if (stream == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    *id = stream->id;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamQuery(CUstream handle) {
    BEGIN_IN_CONTEXT(cuStreamQuery);
    CUstream stream = stream_of(context, handle);
    if (stream == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    return end(stream->first == NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

EXPORT CUresult cuStreamSynchronize(CUstream handle) {
    BEGIN_IN_CONTEXT(cuStreamSynchronize);
    CUstream stream = stream_of(context, handle);
    if (stream == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    while (stream->first != NULL && context->broken == CUDA_SUCCESS)
        pthread_cond_wait(&changed, &lock);
    return end(context->broken);
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
    (void)flags;
    BEGIN_IN_CONTEXT(cuStreamWaitEvent);
    CUstream stream = stream_of(context, handle);
    if (stream == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    struct mark *mark = known_event(event)->mark;
    if (mark != NULL)
        queue(stream, (struct work){.kind = WAIT, .mark = mark}, NULL, 0);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    BEGIN_IN_CONTEXT(cuEventCreate);
    *event = calloc(1, sizeof **event);
    if (*event == NULL)
        abort();
    (*event)->context = context;
    (*event)->next = events;
    events = *event;
    counts.events++;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuEventDestroy(CUevent handle) {
    BEGIN_IN_CONTEXT(cuEventDestroy);
    (void)context;
    CUevent event = known_event(handle), *link = &events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    forget_mark(event->mark);
    free(event);
    counts.events--;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
    BEGIN_IN_CONTEXT(cuEventRecord);
    CUevent event = known_event(handle);
    CUstream stream = stream_of(context, stream_handle);
    if (stream == NULL || event->context != context)
        return end(CUDA_ERROR_INVALID_HANDLE);
    struct mark *mark = calloc(1, sizeof *mark);
    if (mark == NULL)
        abort();
    mark->references = 1;
    forget_mark(event->mark);
    event->mark = mark;
    queue(stream, (struct work){.kind = MARK, .mark = mark}, NULL, 0);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuEventQuery(CUevent handle) {
    BEGIN_IN_CONTEXT(cuEventQuery);
    (void)context;
    struct mark *mark = known_event(handle)->mark;
    return end(mark == NULL || mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

EXPORT CUresult cuEventSynchronize(CUevent handle) {
    BEGIN_IN_CONTEXT(cuEventSynchronize);
    struct mark *mark = known_event(handle)->mark;
    if (mark != NULL)
        mark->references++;
    while (mark != NULL && !mark->done && context->broken == CUDA_SUCCESS)
        pthread_cond_wait(&changed, &lock);
    forget_mark(mark);
    return end(context->broken);
}

static CUresult queue_copy(CUcontext context, CUstream handle, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    CUstream stream = stream_of(context, handle);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!reachable(context->ordinal, to, bytes) || !reachable(context->ordinal, from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    queue(stream, (struct work){.kind = COPY, .to = to, .from = from, .bytes = bytes}, NULL, 0);
    return CUDA_SUCCESS;
}

static CUresult drained(CUcontext context, CUstream handle) {
    CUstream stream = stream_of(context, handle);
    while (stream->first != NULL && context->broken == CUDA_SUCCESS)
        pthread_cond_wait(&changed, &lock);
    return context->broken;
}

/* The copies that others call. Those from and to memory of the host that was never registered are done when the call returns. */
static CUresult copy_host(CUcontext context, CUstream handle, CUdeviceptr to, CUdeviceptr from, size_t bytes, uintptr_t host) {
    REFUSE(queue_copy(context, handle, to, from, bytes));
    size_t place = place_of(host);
    bool known = place < block_count && blocks[place].address <= host;
    return known ? CUDA_SUCCESS : drained(context, handle);
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemcpyHtoDAsync);
    return end(copy_host(context, handle, to, (uintptr_t)from, bytes, (uintptr_t)from));
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemcpyDtoHAsync);
    return end(copy_host(context, handle, (uintptr_t)to, from, bytes, (uintptr_t)to));
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    BEGIN_IN_CONTEXT(cuMemcpyHtoD);
    CUresult result = queue_copy(context, NULL, to, (uintptr_t)from, bytes);
    return end(result != CUDA_SUCCESS ? result : drained(context, NULL));
}

EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    BEGIN_IN_CONTEXT(cuMemcpyDtoH);
    CUresult result = queue_copy(context, NULL, (uintptr_t)to, from, bytes);
    return end(result != CUDA_SUCCESS ? result : drained(context, NULL));
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemcpyAsync);
    return end(queue_copy(context, handle, to, from, bytes));
}

/* Copies of a batch have no order: they are queued from the last to the first. */
EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                   CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count, CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemcpyBatchAsync);
    CUresult result = CUDA_SUCCESS;
    if (handle == NULL || handle == CU_STREAM_LEGACY || attribute_count != 1 || *first != 0 ||
        attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        return end(CUDA_ERROR_INVALID_VALUE);
    while (count-- > 0 && result == CUDA_SUCCESS)
        result = queue_copy(context, handle, to[count], from[count], bytes[count]);
    return end(result);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemsetD8Async);
    CUstream stream = stream_of(context, handle);
    if (stream == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    if (!reachable(context->ordinal, address, bytes))
        return end(CUDA_ERROR_INVALID_VALUE);
    queue(stream, (struct work){.kind = FILL, .to = address, .bytes = bytes, .value = value}, NULL, 0);
    return end(CUDA_SUCCESS);
}

/* Nothing moves: the host's memory is the devices'. */
static bool is_managed(uintptr_t address, size_t bytes, CUmemLocation location) {
    size_t place = place_of(address);
    const struct block *block = place < block_count && blocks[place].address <= address ? &blocks[place] : NULL;
    bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id >= 0 && location.id < MOST_DEVICES;
    return block != NULL && block->kind == MANAGED && bytes > 0 && bytes <= block->address + block->bytes - address &&
           (device || location.type == CU_MEM_LOCATION_TYPE_HOST);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
                                   CUstream handle) {
    BEGIN_IN_CONTEXT(cuMemPrefetchAsync);
    if (stream_of(context, handle) == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    return end(flags == 0 && is_managed(address, bytes, location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuPointerGetAttribute(void *to, CUpointer_attribute attribute, CUdeviceptr address) {
    BEGIN_IN_CONTEXT(cuPointerGetAttribute);
    (void)context;
    size_t place = place_of(address);
    const struct block *block = place < block_count && blocks[place].address <= address ? &blocks[place] : NULL;
    bool device = block != NULL && (block->kind == PLAIN || block->kind == ORDERED || block->kind == MAPPED);
    if (block == NULL || (device && !block->accessible) || block->state == CACHED)
        return end(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned int *)to = device ? CU_MEMORYTYPE_DEVICE : 1;
    else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)to = block->ordinal;
    else
        die("pointer attribute", (const void *)(uintptr_t)attribute);
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
    BEGIN_IN_CONTEXT(cuMemAdvise);
    (void)context;
    bool known = advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
    return end(known && is_managed(address, bytes, location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                                   void **values) {
    BEGIN_IN_CONTEXT(cuModuleLoadDataEx);
    (void)context;
    static const unsigned char fat_binary[] = {0x50, 0xED, 0x55, 0xBA};
    bool fat = memcmp(image, fat_binary, sizeof fat_binary) == 0;
    CUresult result = CUDA_SUCCESS;
    if (fat && set.version < 13000)
        result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (!fat)
        result = compile(image, count, options, values);
    if (result != CUDA_SUCCESS)
        return end(result);
    *module = calloc(1, sizeof **module);
    if (*module == NULL)
        abort();
    if (!fat)
        (*module)->text = strdup(image);
    (*module)->next = modules;
    modules = *module;
    counts.modules++;
    return end(CUDA_SUCCESS);
}

static CUmodule known_module(CUmodule handle) {
    for (CUmodule module = modules; module != NULL; module = module->next) {
        if (module == handle)
            return module;
    }
    die("module", handle);
    return NULL;
}

EXPORT CUresult cuModuleUnload(CUmodule handle) {
    BEGIN_IN_CONTEXT(cuModuleUnload);
    (void)context;
    CUmodule module = known_module(handle), *link = &modules;
    while (*link != module)
        link = &(*link)->next;
    *link = module->next;
    for (CUfunction function = module->functions; function != NULL;) {
        CUfunction next = function->next;
        free(function);
        function = next;
    }
    free(module->text);
    free(module);
    counts.modules--;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name) {
    BEGIN_IN_CONTEXT(cuModuleGetFunction);
    (void)context;
    CUmodule module = known_module(handle);
    const mmsb__kernel_host_t *kernel = find_kernel(module, name);
    if (kernel == NULL)
        return end(CUDA_ERROR_NOT_FOUND);
    for (*function = module->functions; *function != NULL; *function = (*function)->next) {
        if ((*function)->kernel == kernel)
            return end(CUDA_SUCCESS);
    }
    *function = calloc(1, sizeof **function);
    if (*function == NULL)
        abort();
    **function = (struct CUfunc_st){module, kernel, module->functions};
    module->functions = *function;
    return end(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    BEGIN_IN_CONTEXT(cuFuncGetParamInfo);
    (void)context;
    if (index > 0)
        return end(CUDA_ERROR_INVALID_VALUE);
    *offset = 0;
    *size = function->kernel->parameter_bytes;
    return end(CUDA_SUCCESS);
}

static void known_function(CUfunction handle) {
    for (CUmodule module = modules; module != NULL; module = module->next) {
        for (CUfunction function = module->functions; function != NULL; function = function->next) {
            if (function == handle)
                return;
        }
    }
    die("function", handle);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int blocks_x, unsigned int blocks_y, unsigned int blocks_z,
                               unsigned int threads_x, unsigned int threads_y, unsigned int threads_z, unsigned int shared,
                               CUstream handle, void **parameters, void **extra) {
    BEGIN_IN_CONTEXT(cuLaunchKernel);
    const void *parameter = NULL;
    size_t bytes = 0;
    CUstream stream = stream_of(context, handle);
    known_function(function);
    if (stream == NULL)
        return end(CUDA_ERROR_INVALID_HANDLE);
    for (; extra != NULL && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            parameter = extra[1];
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(size_t *)extra[1];
    }
    if (parameters != NULL || bytes != function->kernel->parameter_bytes || blocks_x == 0 || blocks_y != 1 || blocks_z != 1 ||
        threads_x == 0 || threads_x > 1024 || threads_y != 1 || threads_z != 1 || shared > (48 << 10))
        return end(CUDA_ERROR_INVALID_VALUE);
    struct work work = {.kind = KERNEL, .kernel = function->kernel, .threads = (uint64_t)blocks_x * threads_x};
    queue(stream, work, parameter, bytes);
    return end(CUDA_SUCCESS);
}

/* What other libraries call beside gpu/cuda, each with the version that brought its form. */
#define CUDA_FUNCTIONS_OF_OTHERS(X) \
    X(cuCtxGetCurrent, 4000, ) \
    X(cuCtxSetCurrent, 4000, ) \
    X(cuCtxGetDevice, 2000, ) \
    X(cuCtxGetStreamPriorityRange, 5050, ) \
    X(cuMemcpyHtoD, 3020, ) \
    X(cuMemcpyHtoDAsync, 3020, ) \
    X(cuMemcpyDtoH, 3020, ) \
    X(cuMemcpyDtoHAsync, 3020, ) \
    X(cuStreamCreate, 2000, )

EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *found) {
    CUdriverProcAddressQueryResult unasked;
    found = found ? found : &unasked;
    *function = NULL;
    *found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (flags > CU_GET_PROC_ADDRESS_LEGACY_STREAM || (set.done && version > set.version))
        return CUDA_ERROR_INVALID_VALUE;
#define FIND(name, since, parameters) \
    if (strcmp(symbol, #name) == 0 && version >= since && !(set.done && strcmp(symbol, set.without) == 0)) \
        *(__typeof__(&name) *)function = name;
    CUDA_ENTRY_FUNCTIONS(FIND)
    CUDA_FUNCTIONS(FIND)
    CUDA_OPTIONAL_FUNCTIONS(FIND)
    CUDA_FUNCTIONS_OF_OTHERS(FIND)
    if (*function == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *found = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------- tests ---- */

EXPORT void fakecuda_fail(const char *function, int nth, int code) {
    pthread_mutex_lock(&lock);
    free((void *)fault.function);
    fault.function = function != NULL ? strdup(function) : NULL;
    fault.nth = nth;
    fault.code = code;
    fault.calls = 0;
    pthread_mutex_unlock(&lock);
}

EXPORT int fakecuda_calls(void) {
    pthread_mutex_lock(&lock);
    int calls = fault.calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

EXPORT void fakecuda_break(int device, int code) {
    pthread_mutex_lock(&lock);
    devices[device].context.broken = (CUresult)code;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

EXPORT void fakecuda_hold(int hold) {
    pthread_mutex_lock(&lock);
    held = hold != 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

EXPORT void fakecuda_count(struct fakecuda_counts *now) {
    pthread_mutex_lock(&lock);
    *now = counts;
    pthread_mutex_unlock(&lock);
}
