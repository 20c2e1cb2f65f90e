/*
 * Memory for other libraries, driven as they drive it, with threads and streams, on simulated devices that report what is not in
 * order. What each peer calls and when is taken from its source:
 *   PyTorch    torch/csrc/cuda/CUDAPluggableAllocator.cpp (malloc, raw_delete, recordStream, emptyCache, getBaseAllocation);
 *              of MemPool c10/cuda/CUDACachingAllocator.cpp (allocPrimitive, release_block)
 *   CuPy       cupy/cuda/memory.pyx (CFunctionAllocatorMemory)
 *   RMM        rmm/mr/callback_memory_resource.hpp (do_allocate, do_deallocate)
 */
#include "library.h"
#include "test_hooks.h"

#include <sys/wait.h>

enum { MIB = 1 << 20, THREADS = 4, ROUNDS = 150 };

/* A queue of a peer's: mmsb_stream_* only stands for its kernels and events. */
typedef struct queue {
    mmsb_stream_t stream;
    void *native;
} queue_t;

typedef struct device {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
    queue_t queues[THREADS];
} device_t;

static device_t new_device(const char *pool) {
    device_t d = {.context = new_simulated_context(2)};
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    options.pool = pool;
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, &options, &d.runtime));
    for (int i = 0; i < THREADS; i++) {
        REQUIRE_OK(mmsb_stream_create(d.runtime, 0, &d.queues[i].stream));
        REQUIRE_OK(mmsb_stream_native(d.queues[i].stream, &d.queues[i].native));
    }
    REQUIRE_OK(mmsb_plugin_bind(0, d.runtime));
    return d;
}

static mmsb_runtime_stats_t stats_of(mmsb_runtime_t runtime) {
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    REQUIRE_OK(mmsb_runtime_stats(runtime, &stats));
    return stats;
}

static void end_device(device_t *d) {
    CHECK_OK(mmsb_test_violations(d->context));
    CHECK_OK(mmsb_test_check(d->context));
    CHECK_EQUAL(stats_of(d->runtime).blocks, 0);
    CHECK_OK(mmsb_plugin_bind(0, 0));
    CHECK_OK(mmsb_context_destroy(d->context));
}

/* A kernel of a peer's: nobody tells the library of it. */
static void kernel(queue_t queue, void *address, size_t bytes) {
    CHECK_OK(mmsb_stream_fill(queue.stream, address, 7, bytes));
}

/* cudaEventRecord and cudaStreamWaitEvent. */
static void wait_for(queue_t queue, queue_t other) {
    mmsb_ticket_t ticket = 0;
    REQUIRE_OK(mmsb_stream_record(other.stream, &ticket));
    CHECK_OK(mmsb_stream_after(queue.stream, ticket));
    CHECK_OK(mmsb_ticket_destroy(ticket));
}

/* How many lines of the library's log have a text. */
static int lines_with(const char *text) {
    static char lines[1 << 20];
    size_t length = 0;
    int found = 0;
    do {
        if (mmsb_log_read(lines, sizeof lines - 1, &length, NULL) != MMSB_OK)
            break;
        lines[length] = 0;
        for (char *at = lines; (at = strstr(at, text)) != NULL; at++)
            found++;
    } while (length > 0);
    return found;
}

/* ---------------------------------------------------------------------------------------------------- PyTorch ---- */

/* CUDAPluggableAllocator: the functions that it is given, and what it keeps of each allocation under a mutex. */
static const struct {
    void *(*alloc)(size_t, int, void *);
    void (*free)(void *, size_t, int, void *);
    void (*record_stream)(void *, void *);
    void (*reset)(void);
    void (*memory_fraction)(double, int);
    void *(*base_alloc)(void *, size_t *);
} torch = {mmsb_torch_allocate,        mmsb_torch_free, mmsb_torch_record_stream, mmsb_torch_empty_cache,
           mmsb_torch_memory_fraction, mmsb_torch_base};

enum { MOST = 256 };
static struct metadata {
    void *pointer;
    size_t size;
    int device;
    void *stream;
} torch_metadata[MOST];
static pthread_mutex_t torch_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *torch_malloc(size_t size, queue_t queue) {
    void *pointer = torch.alloc(size, 0, queue.native);
    pthread_mutex_lock(&torch_mutex);
    for (int i = 0; pointer && i < MOST; i++) {
        CHECK(torch_metadata[i].pointer != pointer);
        if (!torch_metadata[i].pointer) {
            torch_metadata[i] = (struct metadata){pointer, size, 0, queue.native};
            break;
        }
    }
    pthread_mutex_unlock(&torch_mutex);
    return pointer;
}

static void torch_raw_delete(void *pointer) {
    struct metadata found = {0};
    pthread_mutex_lock(&torch_mutex);
    for (int i = 0; i < MOST; i++) {
        if (torch_metadata[i].pointer == pointer) {
            found = torch_metadata[i];
            torch_metadata[i].pointer = NULL;
            break;
        }
    }
    pthread_mutex_unlock(&torch_mutex);
    CHECK(found.pointer != NULL);
    torch.free(pointer, found.size, found.device, found.stream);
}

static void torch_calls_one_after_the_other(void) {
    device_t d = new_device("");
    queue_t q = d.queues[0];
    CHECK(torch_malloc(0, q) == NULL);
    CHECK_EQUAL(stats_of(d.runtime).allocations, 0);
    void *first = torch_malloc(3 * MIB, q);
    REQUIRE(first != NULL);
    kernel(q, first, 3 * MIB);
    size_t bytes = 0;
    CHECK(torch.base_alloc(first, &bytes) == first && bytes == 3 * MIB);
    CHECK(torch.base_alloc((char *)first + MIB, &bytes) == first && bytes == 3 * MIB);
    CHECK(torch.base_alloc((char *)first + 3 * MIB, &bytes) == (char *)first + 3 * MIB && bytes == 0);
    CHECK(torch.base_alloc(first, NULL) == first);
    torch_raw_delete(first);
    void *again = torch_malloc(3 * MIB, q);
    CHECK(again == first); /* without the driver, behind what the stream has queued */
    kernel(q, again, 3 * MIB);
    torch_raw_delete(again);
    REQUIRE_OK(mmsb_stream_wait(q.stream, MMSB_WAIT_FOREVER));
    CHECK(stats_of(d.runtime).pool_reserved > 0);
    torch.reset();
    CHECK_EQUAL(stats_of(d.runtime).pool_reserved, 0);
    end_device(&d);
}

/* What is given out is aligned to 512 bytes, whatever its size. */
static void addresses_are_aligned(void) {
    device_t d = new_device("");
    void *all[64];
    for (int i = 0; i < 64; i++) {
        all[i] = torch_malloc((size_t)(1 + 997 * i), d.queues[0]);
        CHECK(all[i] && (uintptr_t)all[i] % 512 == 0);
    }
    for (int i = 0; i < 64; i++)
        torch_raw_delete(all[i]);
    end_device(&d);
}

/* The default stream has two pointers. */
static void the_default_stream_has_two_names(void) {
    device_t d = new_device("");
    void *first = torch.alloc(3 * MIB, 0, NULL);
    REQUIRE(first != NULL);
    torch.free(first, 3 * MIB, 0, (void *)1);
    void *again = torch.alloc(3 * MIB, 0, (void *)1);
    CHECK(again == first);
    torch.free(again, 3 * MIB, 0, NULL);
    /* A thread's own one is another stream in each thread, which simulated devices do not have. */
    CHECK(torch.alloc(3 * MIB, 0, (void *)2) == NULL);
    end_device(&d);
}

/* A tensor of one stream is used on another one. */
static void side_stream(device_t *d, int recorded) {
    queue_t main = d->queues[0], side = d->queues[1];
    void *tensor = torch_malloc(3 * MIB, main);
    REQUIRE(tensor != NULL);
    kernel(main, tensor, 3 * MIB);
    wait_for(side, main);
    if (recorded)
        torch.record_stream(tensor, side.native); /* before the work, as PyTorch allows */
    kernel(side, tensor, 3 * MIB);
    torch_raw_delete(tensor);
    void *next = torch_malloc(3 * MIB, main);
    REQUIRE(next != NULL);
    kernel(main, next, 3 * MIB);
    torch_raw_delete(next);
}

static void recorded_streams_are_waited_for(void) {
    device_t d = new_device("");
    for (int i = 0; i < 20; i++)
        side_stream(&d, 1);
    end_device(&d);
}

static void a_stream_that_is_not_recorded_is_found(void) {
    device_t d = new_device("");
    side_stream(&d, 0);
    CHECK_STATUS(mmsb_test_violations(d.context), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_plugin_bind(0, 0));
    CHECK_OK(mmsb_context_destroy(d.context));
}

static void foreign_pointers_do_nothing(void) {
    device_t d = new_device("");
    queue_t q = d.queues[0];
    REQUIRE_OK(mmsb_log_configure(MMSB_LOG_WARNING, -1));
    (void)lines_with("address"); /* of the tests before */
    int host = 0;
    torch.record_stream(&host, q.native);
    torch.free(&host, 4, 0, q.native);
    torch.record_stream(NULL, q.native);
    torch.free(NULL, 0, 0, q.native);
    void *freed = torch_malloc(4096, q);
    torch_raw_delete(freed);
    torch.record_stream(freed, q.native);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_NOT_FOUND);
    torch.free(freed, 4096, 0, q.native);
    CHECK_EQUAL(stats_of(d.runtime).frees, 1);
    CHECK_EQUAL(lines_with("was not allocated here"), 4);
    for (int i = 0; i < 300; i++)
        torch.free(&host, 4, 0, q.native);
    int logged = lines_with("was not allocated here");
    CHECK(logged > 50 && logged < 100);
    end_device(&d);
}

static void refused_memory_is_null(void) {
    device_t d = new_device("");
    const size_t sizes[] = {65 * (size_t)MIB, (size_t)1 << 60, SIZE_MAX - 511, SIZE_MAX};
    for (int i = 0; i < 4; i++) {
        CHECK(torch_malloc(sizes[i], d.queues[0]) == NULL);
        CHECK(mmsb_torch_allocate_segment(sizes[i], 0, d.queues[0].native) == NULL);
        CHECK(mmsb_last_error_code() == MMSB_E_OUT_OF_MEMORY || mmsb_last_error_code() == MMSB_E_INVALID_SIZE);
    }
    CHECK_EQUAL(stats_of(d.runtime).live, 0);
    torch.memory_fraction(0.25, 0); /* of 64 MiB */
    void *most = torch_malloc(16 * MIB, d.queues[0]);
    CHECK(most != NULL && torch_malloc(1, d.queues[0]) == NULL);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_LIMIT);
    torch.memory_fraction(0, 0);
    CHECK(torch_malloc(1, d.queues[0]) == NULL);
    torch_raw_delete(most);
    const double bad[] = {-0.1, 1.1, 0.0 / 0.0};
    for (int i = 0; i < 3; i++) {
        torch.memory_fraction(bad[i], 0);
        CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_INVALID_ARGUMENT);
    }
    torch.memory_fraction(1, 0);
    most = torch_malloc(17 * MIB, d.queues[0]);
    CHECK(most != NULL);
    torch_raw_delete(most);
    end_device(&d);
}

/* Each thread allocates on its stream, uses, lends to the next one's stream, and leaves the free to the next one. */
typedef struct worker {
    device_t *device;
    int number;
    pthread_t thread;
    pthread_mutex_t mutex;
    void *left[4]; /* for this one to free */
} worker_t;

static worker_t workers[THREADS];

static void *take_left(worker_t *of, int all) {
    void *taken = NULL;
    pthread_mutex_lock(&of->mutex);
    for (int i = 0; i < 4 && !taken; i++) {
        if (of->left[i] && (all || i < 2)) {
            taken = of->left[i];
            of->left[i] = NULL;
        }
    }
    pthread_mutex_unlock(&of->mutex);
    return taken;
}

static void leave(worker_t *to, void *tensor) {
    pthread_mutex_lock(&to->mutex);
    for (int i = 0; i < 4 && tensor; i++) {
        if (!to->left[i]) {
            to->left[i] = tensor;
            tensor = NULL;
        }
    }
    pthread_mutex_unlock(&to->mutex);
    if (tensor)
        torch_raw_delete(tensor);
}

static void *work(void *argument) {
    worker_t *me = argument;
    worker_t *next = &workers[(me->number + 1) % THREADS];
    queue_t mine = me->device->queues[me->number], side = me->device->queues[next->number];
    unsigned seed = (unsigned)me->number + 1;
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (size_t)(rand_r(&seed) % 4 ? 1 + rand_r(&seed) % 100000 : 1 + rand_r(&seed) % (2 * MIB));
        void *tensor = torch_malloc(bytes, mine);
        CHECK(tensor != NULL);
        if (!tensor)
            continue;
        kernel(mine, tensor, bytes);
        if (round % 3 == 0) {
            wait_for(side, mine);
            torch.record_stream(tensor, side.native);
            kernel(side, tensor, bytes);
        }
        leave(next, tensor);
        for (void *old; (old = take_left(me, 0)) != NULL;)
            torch_raw_delete(old);
        if (round % 50 == 49)
            torch.reset();
    }
    return NULL;
}

static void torch_calls_from_threads(void) {
    device_t d = new_device("");
    for (int i = 0; i < THREADS; i++)
        workers[i] = (worker_t){.device = &d, .number = i, .mutex = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        for (void *old; (old = take_left(&workers[i], 1)) != NULL;)
            torch_raw_delete(old);
    }
    CHECK_EQUAL(stats_of(d.runtime).allocations, THREADS * ROUNDS);
    end_device(&d);
}

/* MemPool: PyTorch's own cache gives parts of a segment to tensors of a stream, which need not be the one that was current when
 * it asked for the segment. It frees a segment when no tensor is left, while work may be queued, and expects that to wait. */
static void torch_caches_segments(void) {
    device_t d = new_device("");
    for (int i = 0; i < 10; i++) {
        queue_t current = d.queues[i % 2], other = d.queues[2];
        char *segment = mmsb_torch_allocate_segment(20 * MIB, 0, current.native); /* raw_alloc */
        REQUIRE(segment != NULL && (uintptr_t)segment % 512 == 0);
        kernel(other, segment, 3 * MIB); /* a block of the cache on another stream */
        kernel(current, segment + 3 * MIB, 3 * MIB);
        torch.free(segment, 20 * MIB, 0, current.native); /* raw_delete, of empty_cache */
        void *next = torch_malloc(20 * MIB, d.queues[3]); /* whoever has the memory then */
        REQUIRE(next != NULL);
        kernel(d.queues[3], next, 20 * MIB);
        torch_raw_delete(next);
    }
    CHECK(mmsb_torch_allocate_segment(0, 0, NULL) == NULL);
    end_device(&d);
}

/* ------------------------------------------------------------------------------------------------- CuPy and RMM ---- */

static void cupy_calls(void) {
    device_t d = new_device("");
    void *param = (void *)(uintptr_t)d.runtime;
    for (int i = 0; i < 10; i++) {
        void *memory = mmsb_cupy_malloc(i % 2 ? param : NULL, 3 * MIB, 0);
        REQUIRE(memory != NULL);
        kernel(d.queues[i % THREADS], memory, 3 * MIB); /* on the current stream, which nobody tells */
        mmsb_cupy_free(i % 2 ? param : NULL, memory, 0);
    }
    CHECK(mmsb_cupy_malloc(param, 0, 0) == NULL);
    CHECK(mmsb_cupy_malloc(param, 3 * MIB, 1) == NULL);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_MISMATCH);
    CHECK(mmsb_cupy_malloc((void *)(uintptr_t)d.context, 3 * MIB, 0) == NULL);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_INVALID_HANDLE);
    mmsb_cupy_free(param, NULL, 0);
    end_device(&d);
}

/* The two callbacks and their argument; allocate throws where it gets nothing. */
typedef struct rmm {
    mmsb_runtime_t runtime;
    mmsb_status_t thrown;
} rmm_t;

static void *rmm_allocate(size_t bytes, void *stream, void *argument) {
    rmm_t *rmm = argument;
    void *pointer = NULL;
    rmm->thrown = mmsb_plugin_allocate(rmm->runtime, bytes, stream, MMSB_PLUGIN_ORDERED, &pointer);
    return pointer;
}

static void rmm_deallocate(void *pointer, size_t bytes, void *stream, void *argument) {
    (void)bytes, (void)argument;
    CHECK_OK(mmsb_plugin_free(pointer, stream));
}

static void rmm_calls(void) {
    const char *const pools[] = {"", NULL};
    for (int i = 0; i < 2; i++) {
        device_t d = new_device(pools[i]);
        rmm_t rmm = {d.runtime, MMSB_OK};
        for (int round = 0; round < 50; round++) {
            queue_t q = d.queues[round % 3], other = d.queues[3];
            void *buffer = rmm_allocate(256 * (size_t)(round + 1), q.native, &rmm);
            REQUIRE(buffer != NULL && (uintptr_t)buffer % 256 == 0);
            kernel(q, buffer, 256);
            if (round % 5 == 0) { /* device_buffer::set_stream: freed on another one, which runs behind the work */
                wait_for(other, q);
                kernel(other, buffer, 256);
                rmm_deallocate(buffer, 256, other.native, &rmm);
            } else {
                rmm_deallocate(buffer, 256, q.native, &rmm);
            }
        }
        CHECK(rmm_allocate(65 * (size_t)MIB, d.queues[0].native, &rmm) == NULL);
        CHECK_EQUAL(rmm.thrown, MMSB_E_OUT_OF_MEMORY);
        end_device(&d);
    }
}

/* ------------------------------------------------------------------------------------------ the calls themselves ---- */

static void memory_comes_by_address(void) {
    device_t d = new_device("");
    queue_t q = d.queues[0], other = d.queues[1];
    void *address = (void *)42;
    CHECK_STATUS(mmsb_plugin_allocate(d.runtime, 0, q.native, MMSB_PLUGIN_ORDERED, &address), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_plugin_allocate(d.runtime, 1, q.native, 2, &address), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_plugin_allocate(d.runtime, 1, q.native, -1, &address), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_plugin_allocate(d.runtime, 1, q.native, MMSB_PLUGIN_ORDERED, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_plugin_allocate(0, 1, q.native, MMSB_PLUGIN_ORDERED, &address), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_plugin_allocate(d.runtime, 1, (void *)0xABC0, MMSB_PLUGIN_ORDERED, &address), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_plugin_allocate(d.runtime, 1, (void *)2, MMSB_PLUGIN_ORDERED, &address), MMSB_E_INVALID_HANDLE);
    CHECK(address == (void *)42);
    REQUIRE_OK(mmsb_plugin_allocate(d.runtime, MIB, q.native, MMSB_PLUGIN_ORDERED, &address));
    CHECK_EQUAL(stats_of(d.runtime).live, MIB);
    kernel(q, address, MIB);
    wait_for(other, q);
    kernel(other, address, MIB);
    CHECK_OK(mmsb_plugin_record(address, other.native)); /* what is queued by now counts */
    CHECK_OK(mmsb_plugin_record(address, other.native));
    CHECK_STATUS(mmsb_plugin_record((char *)address + 512, other.native), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_plugin_record(address, (void *)0xABC0), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_plugin_free(address, (void *)0xABC0), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_plugin_free(NULL, q.native));
    CHECK_STATUS(mmsb_plugin_record(NULL, q.native), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_plugin_free(address, q.native));
    CHECK_STATUS(mmsb_plugin_free(address, q.native), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_plugin_record(address, q.native), MMSB_E_NOT_FOUND);
    void *next = NULL;
    REQUIRE_OK(mmsb_plugin_allocate(d.runtime, MIB, q.native, MMSB_PLUGIN_ORDERED, &next));
    kernel(q, next, MIB);
    REQUIRE_OK(mmsb_stream_wait(q.stream, MMSB_WAIT_FOREVER)); /* else the program has to order it with the default stream */
    CHECK_OK(mmsb_plugin_free(next, NULL));
    REQUIRE_OK(mmsb_plugin_allocate(d.runtime, MIB, NULL, MMSB_PLUGIN_SEGMENT, &next));
    kernel(other, next, MIB);
    CHECK_OK(mmsb_plugin_record(next, other.native));
    CHECK_OK(mmsb_plugin_free(next, NULL));
    end_device(&d);
}

static void a_runtime_serves_a_device(void) {
    device_t d = new_device("");
    mmsb_runtime_t second = 0;
    mmsb_runtime_t elsewhere = 0;
    REQUIRE_OK(mmsb_runtime_create(d.context, 0, NULL, &second));
    REQUIRE_OK(mmsb_runtime_create(d.context, 1, NULL, &elsewhere));
    CHECK_STATUS(mmsb_plugin_bind(0, elsewhere), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_plugin_bind(0, d.context), MMSB_E_INVALID_HANDLE);
    void *first = torch.alloc(MIB, 0, NULL);
    CHECK_EQUAL(stats_of(d.runtime).live, MIB);
    CHECK_OK(mmsb_plugin_bind(0, second)); /* memory goes back to where it came from */
    void *other = torch.alloc(2 * MIB, 0, NULL);
    CHECK_EQUAL(stats_of(second).live, 2 * MIB);
    torch.free(first, MIB, 0, NULL);
    CHECK_EQUAL(stats_of(d.runtime).live, 0);
    CHECK_EQUAL(stats_of(second).live, 2 * MIB);
    CHECK_OK(mmsb_plugin_bind(1, elsewhere));
    void *third = torch.alloc(3 * MIB, 1, NULL);
    CHECK_EQUAL(stats_of(elsewhere).live, 3 * MIB);
    torch.free(third, 3 * MIB, 1, NULL);

    /* A runtime that ends takes its memory along; what comes then does nothing. */
    CHECK_OK(mmsb_runtime_destroy(second));
    torch.record_stream(other, NULL);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_STALE_HANDLE);
    torch.free(other, 2 * MIB, 0, NULL);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_STALE_HANDLE);
    torch.free(other, 2 * MIB, 0, NULL);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_NOT_FOUND);
    CHECK(torch.alloc(1, 0, NULL) == NULL);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_STALE_HANDLE);
    torch.reset();
    CHECK_OK(mmsb_plugin_bind(1, 0));
    end_device(&d);
}

/* Where nothing is bound a GPU serves, and nothing else does. */
static void without_a_runtime_a_gpu_serves(void) {
    mmsb_context_t context = new_context();
    size_t count = 0;
    mmsb_status_t status = mmsb_device_list(context, NULL, 0, &count);
    CHECK_OK(mmsb_context_destroy(context));
    void *address = torch.alloc(MIB, 0, NULL);
    if (status == MMSB_OK) {
        CHECK(address != NULL);
        torch.free(address, MIB, 0, NULL);
    } else {
        CHECK(address == NULL);
        CHECK_EQUAL(mmsb_last_error_code(), status);
    }
    CHECK(torch.alloc(MIB, 1000, NULL) == NULL);
    CHECK(torch.alloc(MIB, -1, NULL) == NULL);
    CHECK_OK(mmsb_plugin_bind(1000, 0));
}

/* In the child of a fork every call does nothing. */
static void a_child_gets_null(void) {
    device_t d = new_device("");
    void *address = torch.alloc(MIB, 0, NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        size_t bytes = 1;
        torch.record_stream(address, NULL);
        torch.free(address, MIB, 0, NULL);
        torch.reset();
        torch.memory_fraction(0.5, 0);
        mmsb_cupy_free(NULL, address, 0);
        _exit(torch.alloc(MIB, 0, NULL) == NULL && mmsb_torch_allocate_segment(MIB, 0, NULL) == NULL &&
              mmsb_cupy_malloc(NULL, MIB, 0) == NULL && torch.base_alloc(address, &bytes) == address && bytes == 0 &&
              mmsb_last_error_code() == MMSB_E_FORKED);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    torch.free(address, MIB, 0, NULL);
    end_device(&d);
}

int main(void) {
    RUN(torch_calls_one_after_the_other);
    RUN(addresses_are_aligned);
    RUN(the_default_stream_has_two_names);
    RUN(recorded_streams_are_waited_for);
    RUN(a_stream_that_is_not_recorded_is_found);
    RUN(foreign_pointers_do_nothing);
    RUN(refused_memory_is_null);
    RUN(torch_calls_from_threads);
    RUN(torch_caches_segments);
    RUN(cupy_calls);
    RUN(rmm_calls);
    RUN(memory_comes_by_address);
    RUN(a_runtime_serves_a_device);
    RUN(without_a_runtime_a_gpu_serves);
    RUN(a_child_gets_null);
    return check_report();
}
