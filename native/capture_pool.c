/* Memory for the copies of a capture, within its limit. The saver gives back what writers take, and the next writer finds it in
 * the cache. The saver gives without a lock: a writer would wait for a saver that holds it and has lost its processor. */
#include "capture_pool.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define POOL_STEP 16
#define POOL_SLAB (UINT64_C(2) << 20)

static uint64_t pool_class(uint64_t bytes) {
    return (bytes + POOL_STEP - 1) / POOL_STEP;
}

static void lock_pool(mmsb__pool_t *pool) {
    while (__atomic_exchange_n(&pool->locked, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock_pool(mmsb__pool_t *pool) {
    __atomic_store_n(&pool->locked, 0, __ATOMIC_RELEASE);
}

/* Called under the pool's lock. */
static void *take(mmsb__pool_t *pool, uint64_t class_number) {
    uint64_t size = class_number * POOL_STEP;
    void *taken = pool->given[class_number];
    if (!taken)
        taken = __atomic_exchange_n(&pool->returned[class_number], NULL, __ATOMIC_ACQUIRE);
    if (taken) {
        pool->given[class_number] = *(void **)taken;
        return taken;
    }
    if (!pool->slabs || pool->used + size > POOL_SLAB) {
        /* No huge page: the host of a virtual machine may need up to 30 ms to supply one, and one writer would wait for it. */
        mmsb__pool_slab_t *slab = malloc(POOL_SLAB);
        if (!slab)
            return NULL;
        slab->next = pool->slabs;
        pool->slabs = slab;
        pool->used = POOL_STEP;
    }
    taken = (uint8_t *)pool->slabs + pool->used;
    pool->used += size;
    return taken;
}

void mmsb__pool_give(mmsb__pool_t *pool, void *memory, uint64_t bytes) {
    uint64_t class_number = pool_class(bytes);
    if (class_number >= MMSB__POOL_CLASSES) {
        free(memory);
    } else { /* nobody takes single ones off this list, so that its first one is not another one meanwhile */
        void *first = __atomic_load_n(&pool->returned[class_number], __ATOMIC_RELAXED);
        do {
            *(void **)memory = first;
        } while (
            !__atomic_compare_exchange_n(&pool->returned[class_number], &first, memory, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
    __atomic_sub_fetch(&pool->bytes, bytes, __ATOMIC_RELAXED);
}

void mmsb__pool_end(mmsb__pool_t *pool) {
    while (pool->slabs) {
        mmsb__pool_slab_t *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    memset(pool->given, 0, sizeof pool->given);
    memset(pool->returned, 0, sizeof pool->returned);
}

void *mmsb__pool_take_copy(mmsb__capture_t *capture, uint64_t bytes, int *blocked) {
    mmsb__pool_t *pool = &capture->pool;
    mmsb__capture_stats_t *stats = &capture->stats;
    uint64_t class_number = pool_class(bytes);
    void *copy = NULL;
    lock_pool(pool);
    uint64_t held = __atomic_load_n(&pool->bytes, __ATOMIC_RELAXED);
    *blocked = held + bytes > pool->limit && held != 0;
    if (!*blocked && (copy = class_number < MMSB__POOL_CLASSES ? take(pool, class_number) : malloc(bytes))) {
        held = __atomic_add_fetch(&pool->bytes, bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&stats->copied_bytes, stats->copied_bytes + bytes, __ATOMIC_RELAXED);
        if (held > stats->copied_peak)
            __atomic_store_n(&stats->copied_peak, held, __ATOMIC_RELAXED);
    }
    unlock_pool(pool);
    if (!copy && !*blocked) /* the change goes on, and the capture fails */
        mmsb__note_failed(capture, MMSB_E_OUT_OF_MEMORY);
    return copy;
}
