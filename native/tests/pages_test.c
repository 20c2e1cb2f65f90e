/*
 * Records, thread caches, depots and locks without Go: a stand-in hands out memory. Threads create, destroy, write and batch over the same
 * pages; nothing may be handed out twice, lost, or seen half-done. Meant for ThreadSanitizer.
 */
#include "../delta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS 4
#define CONTEXT_INDEX 7
#define REGION 1
#define REGION_BYTES (UINT64_C(256) << 20)

static int passed, failed, wrong;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED); \
        } \
    } while (0)

/* ------------------------------------------------------------------------------------- what Go does otherwise ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_index = 1;
static uint64_t next_offset, context_handle;
static uint32_t generation;

static mmsb_status_t refill(uint64_t context, uint32_t class_number, uint64_t *handles, uint32_t capacity, uint32_t *count) {
    pthread_mutex_lock(&lock);
    mmsb_status_t status = MMSB_OK;
    if (context != context_handle)
        status = mmsb_fail(MMSB_E_STALE_HANDLE, "the context has ended");
    uint32_t made = 0;
    uint64_t size = mmsb_class_size(class_number);
    for (; status == MMSB_OK && made < capacity && made < 8; made++) {
        CHECK(next_index < MMSB_CHUNK_RECORDS * 8 && next_offset + size <= REGION_BYTES);
        mmsb_record_t *record = mmsb_record_at(next_index);
        record->place = MMSB_PLACE(REGION, next_offset);
        next_offset += size;
        mmsb_dirty_none(record);
        __atomic_store_n(&record->state, MMSB_STATE(MMSB_STATE_FREE, 1, (uint64_t)class_number << MMSB_CLASS_SHIFT),
                         __ATOMIC_RELEASE);
        handles[made] = MMSB_HANDLE(MMSB_KIND_PAGE, 1, next_index++);
    }
    *count = made;
    pthread_mutex_unlock(&lock);
    return status;
}

static uint64_t begin_context(void) {
    mmsb_context_record_t *record = mmsb_context_record(CONTEXT_INDEX);
    pthread_mutex_lock(&lock);
    record->index = CONTEXT_INDEX;
    record->id_factor = record->id_inverse = 1;
    context_handle = MMSB_HANDLE(MMSB_KIND_CONTEXT, ++generation, CONTEXT_INDEX);
    __atomic_store_n(&record->generation, generation, __ATOMIC_RELAXED);
    __atomic_store_n(&record->handle, context_handle, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return context_handle;
}

static void start(void) {
    CHECK(mmsb_gate_closed() == MMSB_OK);
    for (uint32_t chunk = 0; chunk < 8; chunk++) {
        CHECK(mmsb_table_open_chunk(chunk) == 0);
        mmsb_table.chunk_context[chunk] = CONTEXT_INDEX;
    }
    mmsb_region_map(
        REGION, (uintptr_t)mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    mmsb_upcalls.refill = refill;
}

static void run_threads(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void end_case(const char *name) {
    if (wrong == 0) {
        passed++;
    } else {
        failed++;
        fprintf(stderr, "FAILED: %s\n", name);
    }
    wrong = 0;
}

/* ------------------------------------------------------------------------------------------------------- cases ---- */

/* Pages that threads create and leave for others to destroy. */
static uint64_t shared[512];
static uint8_t handed_out[MMSB_CHUNK_RECORDS * 8];

static uint64_t create(uint64_t size, int zeroed) {
    mmsb_page_t page = 0;
    if (!mmsb_page_create_fast(context_handle, size, zeroed, &page, NULL)) {
        mmsb_status_t status = mmsb_page_create_small(context_handle, size, zeroed, &page);
        CHECK(status == MMSB_OK);
    }
    return page;
}

static void *storm(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument + 1;
    static const uint64_t sizes[] = {1, 64, 100, 500, 4096};
    for (int i = 0; i < 20000; i++) {
        uint64_t size = sizes[rand_r(&seed) % 5];
        int zeroed = rand_r(&seed) % 2;
        uint64_t page = create(size, zeroed), value = ~UINT64_C(0), zero = 0;
        uint32_t index = MMSB_HANDLE_INDEX(page);
        CHECK(__atomic_exchange_n(&handed_out[index], 1, __ATOMIC_ACQ_REL) == 0); /* else it was handed out twice */
        uint64_t length = size < 8 ? size : 8, got = 0;
        CHECK(mmsb_page_read_bytes(page, size - length, &got, length) == MMSB_OK);
        CHECK(!zeroed || memcmp(&got, &zero, 8) == 0);
        CHECK(mmsb_page_write_bytes(page, size - length, &value, length) == MMSB_OK);
        uint64_t other = __atomic_exchange_n(&shared[rand_r(&seed) % 512], page, __ATOMIC_ACQ_REL);
        if (other != 0) {
            CHECK(__atomic_exchange_n(&handed_out[MMSB_HANDLE_INDEX(other)], 0, __ATOMIC_ACQ_REL) == 1);
            if (!mmsb_page_destroy_fast(other))
                CHECK(mmsb_page_destroy_slow(other) == MMSB_OK);
            CHECK(mmsb_page_destroy_slow(other) == MMSB_E_STALE_HANDLE);
        }
    }
    return NULL;
}

static void pages_are_handed_out_once(void) {
    run_threads(storm);
    uint64_t creates, frees, bytes_created, bytes_freed, live = 0;
    for (int i = 0; i < 512; i++) {
        if (shared[i] != 0)
            live++;
    }
    mmsb_context_count(mmsb_context_record(CONTEXT_INDEX), &creates, &frees, &bytes_created, &bytes_freed);
    CHECK(creates == THREADS * 20000u && creates - frees == live);
    for (int i = 0; i < 512; i++) {
        if (shared[i] != 0)
            CHECK(mmsb_page_destroy_slow(shared[i]) == MMSB_OK);
        shared[i] = 0;
    }
    memset(handed_out, 0, sizeof handed_out);
}

/* Every batch adds one to each page it names; batches overlap, and one page comes twice. */
static uint64_t counters[16];
static uint64_t additions;

static void *batches(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument + 77;
    for (int i = 0; i < 1500; i++) {
        mmsb_page_t pages[6];
        mmsb_run_t runs[6];
        mmsb_delta_t deltas[6];
        uint8_t payload[6] = {1, 2, 3, 4, 5, 6};
        for (int k = 0; k < 6; k++) {
            pages[k] = counters[rand_r(&seed) % 16];
            runs[k] = (mmsb_run_t){(uint64_t)k, 1};
            deltas[k] = (mmsb_delta_t){
                .struct_size = sizeof deltas[k], .kind = MMSB_DELTA_RUNS, .runs = &runs[k], .count = 1, .payload = &payload[k]};
        }
        if (i % 10 == 0)
            runs[5].offset = 1 << 20; /* a bad item: nothing happens */
        size_t bad = 99;
        mmsb_status_t status = mmsb_page_apply_batch(pages, deltas, 6, &bad);
        CHECK(status == (i % 10 == 0 ? MMSB_E_OUT_OF_RANGE : MMSB_OK) && (i % 10 != 0 || bad == 5));
        if (status == MMSB_OK)
            __atomic_add_fetch(&additions, 6, __ATOMIC_RELAXED);
        void *address;
        CHECK(mmsb_page_pin_bytes(pages[0], MMSB_PIN_READ, &address) == MMSB_OK);
        CHECK(mmsb_page_unpin_bytes(pages[0], MMSB_PIN_READ) == MMSB_OK);
    }
    return NULL;
}

static void batches_are_whole(void) {
    for (int i = 0; i < 16; i++)
        counters[i] = create(64, 1);
    run_threads(batches);
    uint64_t epochs = 0;
    for (int i = 0; i < 16; i++)
        epochs += mmsb_page_look(counters[i], MMSB_FIELD_EPOCH);
    CHECK(epochs == additions);
    mmsb_page_t repeated[3] = {counters[0], counters[1], counters[0]};
    size_t bad = 99;
    CHECK(mmsb_page_destroy_batch(repeated, 3, &bad) == MMSB_E_STALE_HANDLE && bad == 2);
    CHECK(mmsb_page_destroy_batch(counters, 16, &bad) == MMSB_OK);
}

/* The context ends while threads create: each gets pages or the news, and nothing after it. */
static void *create_until_the_end(void *argument) {
    uint64_t context = __atomic_load_n(&context_handle, __ATOMIC_ACQUIRE);
    (void)argument;
    for (;;) {
        mmsb_page_t page;
        mmsb_status_t status = mmsb_page_create_small(context, 128, 1, &page);
        if (status != MMSB_OK) {
            CHECK(status == MMSB_E_STALE_HANDLE);
            return NULL;
        }
        if (mmsb_page_destroy_slow(page) != MMSB_OK)
            CHECK(mmsb_error()->error_code == MMSB_E_STALE_HANDLE);
    }
}

static void contexts_end_under_work(void) {
    for (int round = 0; round < 20; round++) {
        begin_context();
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, create_until_the_end, (void *)i) == 0);
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        mmsb_context_detach(mmsb_context_record(CONTEXT_INDEX));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

/* Once synchronised, no page begins on a record that is marked. */
static int stop;

static void *create_and_destroy(void *argument) {
    (void)argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        mmsb_page_t page;
        mmsb_status_t status = mmsb_page_create_small(context_handle, 256, 0, &page);
        if (status == MMSB_OK)
            mmsb_page_destroy_slow(page);
        else
            CHECK(status == MMSB_ENTER_GO);
    }
    return NULL;
}

static void marks_are_seen_after_synchronise(void) {
    begin_context();
    uint32_t first = next_index;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, create_and_destroy, (void *)i) == 0);
    for (int round = 0; round < 300; round++) {
        pthread_mutex_lock(&lock);
        uint32_t last = next_index;
        pthread_mutex_unlock(&lock);
        if (last == first)
            continue;
        mmsb_record_t *record = mmsb_record_at(first + (uint32_t)round % (last - first));
        __atomic_store_n(&record->id_taken, 1, __ATOMIC_RELAXED);
        mmsb_synchronize(mmsb_context_record(CONTEXT_INDEX));
        uint64_t before = mmsb_state_load(record);
        sched_yield();
        uint64_t after = mmsb_state_load(record);
        if (MMSB_HANDLE_KIND(before) == MMSB_STATE_FREE)
            CHECK(MMSB_HANDLE_KIND(after) == MMSB_STATE_FREE);
        __atomic_store_n(&record->id_taken, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mmsb_context_detach(mmsb_context_record(CONTEXT_INDEX));
}

int main(void) {
    start();
    begin_context();
    pages_are_handed_out_once();
    end_case("pages_are_handed_out_once");
    batches_are_whole();
    end_case("batches_are_whole");
    mmsb_context_detach(mmsb_context_record(CONTEXT_INDEX));
    contexts_end_under_work();
    end_case("contexts_end_under_work");
    marks_are_seen_after_synchronise();
    end_case("marks_are_seen_after_synchronise");
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
