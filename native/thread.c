/* Threads, their caches of free pages, and the depots through which caches exchange magazines: thread.h. */
#include "thread.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "commands.h"
#include "group.h"
#include "writing.h"

_Thread_local mmsb__cache_t *mmsb__current __attribute__((tls_model("initial-exec")));
_Thread_local mmsb__thread_t *mmsb__self __attribute__((tls_model("initial-exec")));
mmsb_status_t mmsb__gate = MMSB__NOT_STARTED;
uint32_t mmsb__detours = 1;
mmsb__upcalls_t mmsb__upcalls;
uint32_t mmsb__busy_fence;

/* Protects which caches exist, and whose they are. Taken when a thread first uses a context and when either ends. */
static pthread_mutex_t caches_lock = PTHREAD_MUTEX_INITIALIZER;
static mmsb__context_record_t contexts[MMSB__CONTEXTS];
static uint64_t cache_bytes;

/* ------------------------------------------------------------------------------------------------- magazines ---- */

/* Magazines are never unmapped: a thread that lost a race may still read the next field of one that was taken. */
#define MAGAZINES (UINT64_C(1) << 22)
/* Keeps the counts off page-aligned addresses (record.h says why). */
#define MAGAZINE_SKEW 192
static uint8_t *magazines;
static uint32_t magazines_made;
static struct {
    uint64_t head; /* tag (32) | number of the first (32) */
    uint64_t unused[7];
} empty_magazines[MMSB__SHARDS];

static mmsb__magazine_t *magazine_at(uint32_t number) {
    return (mmsb__magazine_t *)(magazines + MAGAZINE_SKEW + (uint64_t)number * sizeof(mmsb__magazine_t));
}

/* Stacks without locks: the tag counts every change, so that a head that came back is not mistaken for the earlier one (Treiber,
 * IBM RJ 5118). */
static uint64_t head_after(uint64_t seen, uint32_t first) {
    return ((seen >> 32) + 1) << 32 | first;
}

static void stack_push(uint64_t *head, mmsb__magazine_t *magazine) {
    uint64_t seen = __atomic_load_n(head, __ATOMIC_ACQUIRE), next;
    do {
        /* If the head has changed meanwhile, the depth is wrong and the exchange fails. */
        uint32_t below = (uint32_t)seen == 0 ? 0 : __atomic_load_n(&magazine_at((uint32_t)seen)->depth, __ATOMIC_RELAXED);
        __atomic_store_n(&magazine->depth, below + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&magazine->next, (uint32_t)seen, __ATOMIC_RELAXED);
        next = head_after(seen, magazine->number);
    } while (!__atomic_compare_exchange_n(head, &seen, next, 1, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}

/* Pops the top of a stack that has more than keeps magazines. */
static mmsb__magazine_t *stack_pop(uint64_t *head, uint32_t keeps) {
    uint64_t seen = __atomic_load_n(head, __ATOMIC_ACQUIRE), next;
    mmsb__magazine_t *magazine;
    do {
        if ((uint32_t)seen == 0)
            return NULL;
        magazine = magazine_at((uint32_t)seen);
        if (keeps != 0 && __atomic_load_n(&magazine->depth, __ATOMIC_RELAXED) <= keeps)
            return NULL;
        next = head_after(seen, __atomic_load_n(&magazine->next, __ATOMIC_RELAXED));
    } while (!__atomic_compare_exchange_n(head, &seen, next, 1, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
    return magazine;
}

static mmsb__magazine_t *magazine_new(uint32_t shard) {
    /* One more is made only when no shard has an empty one: a thread may for ever fill what others empty. */
    mmsb__magazine_t *magazine = NULL;
    for (uint32_t i = 0; i < MMSB__SHARDS && !magazine; i++)
        magazine = stack_pop(&empty_magazines[(shard + i) % MMSB__SHARDS].head, 0);
    if (!magazine) {
        uint32_t number = __atomic_add_fetch(&magazines_made, 1, __ATOMIC_RELAXED);
        if (number >= MAGAZINES - 1) {
            __atomic_sub_fetch(&magazines_made, 1, __ATOMIC_RELAXED);
            return NULL;
        }
        magazine = magazine_at(number);
        magazine->number = number;
    }
    magazine->count = 0;
    return magazine;
}

static void magazine_drop(mmsb__magazine_t *magazine, uint32_t shard) {
    if (magazine)
        stack_push(&empty_magazines[shard].head, magazine);
}

/* A full magazine: from one shard first, then from the others, which keep some. */
static mmsb__magazine_t *depot_pop(mmsb__context_record_t *context, uint32_t class_number, uint32_t shard, uint32_t others_keep) {
    mmsb__magazine_t *magazine = stack_pop(&context->depot[shard].full[class_number], 0);
    for (uint32_t i = 1; i < MMSB__SHARDS && !magazine; i++)
        magazine = stack_pop(&context->depot[(shard + i) % MMSB__SHARDS].full[class_number], others_keep);
    return magazine;
}

/* --------------------------------------------------------------------------------------------------- threads ---- */

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static int thread_key_made;

static pthread_mutex_t owners_lock = PTHREAD_MUTEX_INITIALIZER;
static uint16_t owners_free[MMSB__OWNERS];
static uint32_t owners_free_count, owners_made;

void *mmsb__alone(size_t size) {
    const size_t lines = 128;
    size = (size + lines - 1) / lines * lines;
    void *memory = aligned_alloc(lines, size);
    return memory ? memset(memory, 0, size) : NULL;
}

static uint32_t owner_take(void) {
    uint32_t owner = 0;
    pthread_mutex_lock(&owners_lock);
    if (owners_free_count > 0)
        owner = owners_free[--owners_free_count];
    else if (owners_made + 1 < MMSB__OWNERS)
        owner = ++owners_made;
    pthread_mutex_unlock(&owners_lock);
    return owner << MMSB__OWNER_SHIFT;
}

static void owner_give(uint32_t owner) {
    pthread_mutex_lock(&owners_lock);
    owners_free[owners_free_count++] = (uint16_t)(owner >> MMSB__OWNER_SHIFT);
    pthread_mutex_unlock(&owners_lock);
}

/* Detaches the cache from its context: the thread finds no context in it. Under caches_lock. */
static void cache_close(mmsb__cache_t *cache) {
    __atomic_store_n(&cache->context, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&cache->plain_context, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&cache->open_index, MMSB__CONTEXTS, __ATOMIC_RELAXED);
}

/* Hands a cache's magazines that have anything to the depot. Under caches_lock. */
static void cache_leave(mmsb__cache_t *cache) {
    for (int class_number = 0; class_number < MMSB__SMALL_CLASSES; class_number++) {
        mmsb__magazine_t **both[2] = {&cache->loaded[class_number], &cache->previous[class_number]};
        for (int i = 0; i < 2; i++)
            if (*both[i] && (*both[i])->count > 0) {
                stack_push(&cache->owner->depot[cache->shard].full[class_number], *both[i]);
                *both[i] = NULL;
            }
    }
}

/* Hands a cache's magazines to the depot, where keep says so, and its counters to the context. Under caches_lock. */
static void cache_empty(mmsb__cache_t *cache, int keep) {
    mmsb__context_record_t *context = cache->owner;
    if (keep)
        cache_leave(cache);
    for (int class_number = 0; class_number < MMSB__SMALL_CLASSES; class_number++) {
        magazine_drop(cache->loaded[class_number], cache->shard);
        magazine_drop(cache->previous[class_number], cache->shard);
        cache->loaded[class_number] = cache->previous[class_number] = NULL;
    }
    __atomic_add_fetch(&context->creates, cache->creates, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->frees, cache->frees, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->bytes_created, cache->bytes_created, __ATOMIC_RELAXED);
    __atomic_add_fetch(&context->bytes_freed, cache->bytes_freed, __ATOMIC_RELAXED);
    cache->creates = cache->frees = cache->bytes_created = cache->bytes_freed = 0;
    mmsb__cache_t **link = &context->caches;
    while (*link != cache)
        link = &(*link)->next_of_context;
    *link = cache->next_of_context;
    cache_close(cache);
    __atomic_store_n(&cache->owner, NULL, __ATOMIC_RELAXED);
}

static void thread_exit(void *argument) {
    mmsb__thread_t *self = argument;
    if (__atomic_load_n(&mmsb__gate, __ATOMIC_RELAXED) == MMSB_E_FORKED) /* in a child, locks and lists may be in any state */
        return;
    mmsb__self = self; /* for the groups: this may be behind what the thread's exit has cleared */
    if (self->groups)
        mmsb__groups_leave(self);
    if (self->lanes)
        mmsb__lanes_leave(self);
    mmsb__current = NULL;
    mmsb__self = NULL;
    pthread_mutex_lock(&caches_lock);
    while (self->caches) {
        mmsb__cache_t *cache = self->caches;
        self->caches = cache->next_of_thread;
        if (cache->owner)
            cache_empty(cache, 1);
        cache_bytes -= sizeof *cache;
        free(cache);
    }
    pthread_mutex_unlock(&caches_lock);
    owner_give(self->owner);
    free(self->plans);
    mmsb__writing_leave(self);
    free(self);
}

static void make_thread_key(void) {
    thread_key_made = pthread_key_create(&thread_key, thread_exit) == 0;
}

mmsb__thread_t *mmsb__thread_enter(void) {
    if (mmsb__self)
        return mmsb__self;
    if (__atomic_load_n(&mmsb__gate, __ATOMIC_RELAXED) == MMSB_E_FORKED)
        return NULL;
    pthread_once(&thread_once, make_thread_key);
    if (!thread_key_made)
        return NULL;
    mmsb__thread_t *self = mmsb__alone(sizeof *self);
    if (!self)
        return NULL;
    self->owner = owner_take();
    if (self->owner == 0 || pthread_setspecific(thread_key, self) != 0) {
        if (self->owner)
            owner_give(self->owner);
        free(self);
        return NULL;
    }
    mmsb__self = self;
    return self;
}

mmsb_status_t mmsb__thread_fail(void) {
    return mmsb__fail(MMSB_E_LIMIT, "%u threads use the library, the limit is %u", owners_made - owners_free_count,
                      MMSB__OWNERS - 1);
}

/* Where a thread that could not be made known keeps its error: shared, so that reporting an error can never fail. */
static mmsb__thread_t nameless;

mmsb_status_t mmsb__fail_foreign(mmsb_status_t code, int32_t domain, int32_t foreign_code, const char *text, size_t length) {
    mmsb__thread_t *self = mmsb__self ? mmsb__self : mmsb__thread_enter();
    if (!self)
        self = &nameless;
    self->error_code = code;
    self->error_domain = domain;
    self->error_foreign = foreign_code;
    length = mmsb__text_fits(text, length, sizeof self->error_text - 1);
    memcpy(self->error_text, text, length);
    self->error_text[length] = 0;
    return code;
}

mmsb_status_t mmsb__fail(mmsb_status_t code, const char *format, ...) {
    char text[sizeof mmsb__self->error_text + 1]; /* the end of one that is too long is seen */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        length = 0;
    return mmsb__fail_foreign(code, MMSB_DOMAIN_NONE, 0, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

mmsb__thread_t *mmsb__error(void) {
    return mmsb__self ? mmsb__self : &nameless;
}

uint64_t mmsb__thread_addresses(void) {
    return MAGAZINES * sizeof(mmsb__magazine_t);
}

int mmsb__thread_start(void) {
    if (magazines)
        return 0;
    void *base = mmap(NULL, MAGAZINES * sizeof(mmsb__magazine_t), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return errno;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) != 0) {
        mmsb__busy_fence = 1;
        mmsb__detour_begin();
    }
    magazines = base;
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- caches ---- */

mmsb__context_record_t *mmsb__context_record(uint32_t index) {
    return &contexts[index];
}

mmsb__context_record_t *mmsb__context_find(uint64_t context) {
    uint32_t index = MMSB__HANDLE_INDEX(context), generation = MMSB__HANDLE_GENERATION(context);
    if (MMSB__HANDLE_KIND(context) != MMSB_KIND_CONTEXT || index == 0 || index >= MMSB__CONTEXTS || generation == 0 ||
        generation > __atomic_load_n(&contexts[index].generation, __ATOMIC_RELAXED)) {
        mmsb__fail(MMSB_E_INVALID_HANDLE, "0x%016llx is not a context", (unsigned long long)context);
        return NULL;
    }
    if (__atomic_load_n(&contexts[index].handle, __ATOMIC_ACQUIRE) != context) {
        mmsb__fail(MMSB_E_STALE_HANDLE, "context 0x%016llx has ended", (unsigned long long)context);
        return NULL;
    }
    return &contexts[index];
}

mmsb__cache_t *mmsb__cache_enter(uint64_t context) {
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self) {
        mmsb__thread_fail();
        return NULL;
    }
    mmsb__context_record_t *record = mmsb__context_find(context);
    if (!record)
        return NULL;
    mmsb__cache_t *unused = NULL;
    for (mmsb__cache_t *cache = self->caches; cache; cache = cache->next_of_thread) {
        if (__atomic_load_n(&cache->context, __ATOMIC_RELAXED) == context)
            return mmsb__current = cache;
        if (!__atomic_load_n(&cache->owner, __ATOMIC_RELAXED))
            unused = cache;
    }
    pthread_mutex_lock(&caches_lock);
    if (!unused) {
        unused = mmsb__alone(sizeof *unused);
        if (!unused) {
            pthread_mutex_unlock(&caches_lock);
            mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a thread's cache of %zu bytes", sizeof *unused);
            return NULL;
        }
        unused->next_of_thread = self->caches;
        self->caches = unused;
        cache_bytes += sizeof *unused;
    }
    if (__atomic_load_n(&record->handle, __ATOMIC_ACQUIRE) != context) {
        pthread_mutex_unlock(&caches_lock);
        mmsb__fail(MMSB_E_STALE_HANDLE, "context 0x%016llx has ended", (unsigned long long)context);
        return NULL;
    }
    unused->shard = (self->owner >> MMSB__OWNER_SHIFT) % MMSB__SHARDS;
    unused->thread = self->owner;
    __atomic_store_n(&unused->owner, record, __ATOMIC_RELAXED);
    unused->context_index = record->index;
    unused->next_of_context = record->caches;
    record->caches = unused;
    __atomic_store_n(&unused->open_index, record->index, __ATOMIC_RELAXED);
    if (record->default_location == MMSB_LOCATION_CPU && __atomic_load_n(&record->guard_every, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&unused->plain_context, context, __ATOMIC_RELAXED);
    __atomic_store_n(&unused->context, context, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&caches_lock);
    return mmsb__current = unused;
}

void mmsb__barrier(void) {
    if (__atomic_load_n(&mmsb__busy_fence, __ATOMIC_RELAXED) || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) == 0)
        return;
    __atomic_store_n(&mmsb__busy_fence, 1, __ATOMIC_SEQ_CST);
    mmsb__detour_begin();
    nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static void wait_for_caches(mmsb__context_record_t *context) { /* under caches_lock */
    mmsb__barrier();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (mmsb__cache_t *cache = context->caches; cache; cache = cache->next_of_context) {
        while (__atomic_load_n(&cache->busy, __ATOMIC_ACQUIRE)) /* sections are short, and busy is 0 between any two */
            sched_yield();
    }
}

void mmsb__synchronize(mmsb__context_record_t *context) {
    pthread_mutex_lock(&caches_lock);
    wait_for_caches(context);
    pthread_mutex_unlock(&caches_lock);
}

void mmsb__context_detach(mmsb__context_record_t *context) {
    pthread_mutex_lock(&caches_lock);
    __atomic_store_n(&context->handle, 0, __ATOMIC_SEQ_CST);
    for (mmsb__cache_t *cache = context->caches; cache; cache = cache->next_of_context)
        cache_close(cache);
    wait_for_caches(context);
    while (context->caches)
        cache_empty(context->caches, 0);
    for (uint32_t class_number = 0; class_number < MMSB__SMALL_CLASSES; class_number++) {
        mmsb__magazine_t *magazine;
        while ((magazine = depot_pop(context, class_number, 0, 0)))
            magazine_drop(magazine, 0);
    }
    pthread_mutex_unlock(&caches_lock);
}

void mmsb__magazines_leave(uint32_t context_index) {
    mmsb__thread_t *self = mmsb__self;
    pthread_mutex_lock(&caches_lock);
    for (mmsb__cache_t *cache = self ? self->caches : NULL; cache; cache = cache->next_of_thread)
        if (cache->owner && cache->context_index == context_index && !cache->busy)
            cache_leave(cache);
    pthread_mutex_unlock(&caches_lock);
}

void mmsb__context_count(mmsb__context_record_t *context, uint64_t *creates, uint64_t *frees, uint64_t *bytes_created,
                         uint64_t *bytes_freed) {
    pthread_mutex_lock(&caches_lock);
    /* Frees are read before creates, so that no difference is negative. */
    *frees = __atomic_load_n(&context->frees, __ATOMIC_RELAXED);
    *bytes_freed = __atomic_load_n(&context->bytes_freed, __ATOMIC_RELAXED);
    for (mmsb__cache_t *cache = context->caches; cache; cache = cache->next_of_context) {
        *frees += __atomic_load_n(&cache->frees, __ATOMIC_ACQUIRE);
        *bytes_freed += __atomic_load_n(&cache->bytes_freed, __ATOMIC_ACQUIRE);
    }
    *creates = __atomic_load_n(&context->creates, __ATOMIC_RELAXED);
    *bytes_created = __atomic_load_n(&context->bytes_created, __ATOMIC_RELAXED);
    for (mmsb__cache_t *cache = context->caches; cache; cache = cache->next_of_context) {
        *creates += __atomic_load_n(&cache->creates, __ATOMIC_RELAXED);
        *bytes_created += __atomic_load_n(&cache->bytes_created, __ATOMIC_RELAXED);
    }
    uint64_t live = *bytes_created - *bytes_freed;
    if (live > context->peak_bytes)
        context->peak_bytes = live;
    pthread_mutex_unlock(&caches_lock);
}

uint64_t mmsb__cache_bytes(void) {
    pthread_mutex_lock(&caches_lock);
    uint64_t bytes = cache_bytes + (uint64_t)__atomic_load_n(&magazines_made, __ATOMIC_RELAXED) * sizeof(mmsb__magazine_t);
    pthread_mutex_unlock(&caches_lock);
    return bytes;
}

static mmsb_status_t no_magazine(void) {
    return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "all %llu magazines are in use", (unsigned long long)MAGAZINES);
}

mmsb_status_t mmsb__magazine_refill(mmsb__cache_t *cache, uint32_t class_number) {
    mmsb__magazine_t *loaded = cache->loaded[class_number], *previous = cache->previous[class_number];
    if (previous && previous->count > 0) {
        cache->loaded[class_number] = previous;
        cache->previous[class_number] = loaded;
        return MMSB_OK;
    }
    mmsb__magazine_t *full = depot_pop(cache->owner, class_number, cache->shard, MMSB__SHARD_KEEPS);
    if (full) {
        magazine_drop(loaded, cache->shard);
        cache->loaded[class_number] = full;
        return MMSB_OK;
    }
    if (!loaded && !(loaded = cache->loaded[class_number] = magazine_new(cache->shard)))
        return no_magazine();
    uint64_t context = __atomic_load_n(&cache->context, __ATOMIC_RELAXED), handles[MMSB__MAGAZINE_ROUNDS];
    uint32_t count = 0;
    if (context == 0) /* the context's end closes the cache, and waits until this thread is not busy */
        return mmsb__fail(MMSB_E_STALE_HANDLE, "the context has ended");
    /* Not busy while in Go: the context's end waits for busy threads, perhaps under the lock that Go needs. */
    mmsb__cache_end(cache);
    mmsb_status_t status = mmsb__upcalls.refill(context, class_number, handles, MMSB__MAGAZINE_ROUNDS, &count);
    mmsb__cache_begin(cache);
    if (status != MMSB_OK)
        return status;
    if (__atomic_load_n(&cache->context, __ATOMIC_RELAXED) != context)
        return mmsb__fail(MMSB_E_STALE_HANDLE, "context 0x%016llx has ended", (unsigned long long)context);
    memcpy(loaded->handles, handles, count * sizeof handles[0]);
    loaded->count = count;
    return MMSB_OK;
}

mmsb_status_t mmsb__magazine_make_space(mmsb__cache_t *cache, uint32_t class_number) {
    mmsb__magazine_t *loaded = cache->loaded[class_number], *previous = cache->previous[class_number];
    if (loaded && previous && previous->count < MMSB__MAGAZINE_ROUNDS) {
        cache->loaded[class_number] = previous;
        cache->previous[class_number] = loaded;
        return MMSB_OK;
    }
    mmsb__magazine_t *empty = magazine_new(cache->shard);
    if (!empty)
        return no_magazine();
    if (loaded) {
        if (previous)
            stack_push(&cache->owner->depot[cache->shard].full[class_number], previous);
        cache->previous[class_number] = loaded;
    }
    cache->loaded[class_number] = empty;
    return MMSB_OK;
}

mmsb__cache_t *mmsb__cache_for(uint32_t context_index) {
    if (mmsb__current && mmsb__current->context_index == context_index &&
        __atomic_load_n(&mmsb__current->context, __ATOMIC_RELAXED) != 0)
        return mmsb__current;
    uint64_t context = __atomic_load_n(&mmsb__context_record(context_index)->handle, __ATOMIC_RELAXED);
    if (context != 0)
        return mmsb__cache_enter(context);
    mmsb__fail(MMSB_E_STALE_HANDLE, "the context is ending");
    return NULL;
}

mmsb_status_t mmsb__cache_pop(mmsb__cache_t *cache, uint32_t class_number, uint64_t *handle) {
    mmsb__cache_begin(cache);
    mmsb_status_t status = MMSB_OK;
    if (!mmsb__cache_open(cache))
        status = mmsb__fail(MMSB_E_STALE_HANDLE, "the context has ended");
    else if (!cache->loaded[class_number] || cache->loaded[class_number]->count == 0)
        status = mmsb__magazine_refill(cache, class_number);
    if (status != MMSB_OK) {
        mmsb__cache_end(cache);
        return status;
    }
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    MMSB__ASSERT(magazine->count > 0 && magazine->count <= MMSB__MAGAZINE_ROUNDS, magazine->count, class_number);
    *handle = magazine->handles[--magazine->count];
    return MMSB_OK;
}

mmsb_status_t mmsb__cache_make_space(mmsb__cache_t *cache, uint32_t class_number) {
    mmsb__cache_begin(cache);
    if (!mmsb__cache_open(cache)) {
        mmsb__cache_end(cache);
        return MMSB_E_STALE_HANDLE;
    }
    mmsb__magazine_t *magazine = cache->loaded[class_number];
    MMSB__ASSERT(!magazine || magazine->count <= MMSB__MAGAZINE_ROUNDS, magazine->count, class_number);
    if (magazine && magazine->count < MMSB__MAGAZINE_ROUNDS)
        return MMSB_OK;
    mmsb_status_t status = mmsb__magazine_make_space(cache, class_number);
    if (status != MMSB_OK)
        mmsb__cache_end(cache);
    return status;
}

uint32_t mmsb__depot_take(mmsb__context_record_t *context, uint32_t class_number, uint64_t *handles) {
    mmsb__magazine_t *magazine = depot_pop(context, class_number, 0, 0);
    if (!magazine)
        return 0;
    uint32_t count = magazine->count;
    memcpy(handles, magazine->handles, count * sizeof handles[0]);
    magazine_drop(magazine, 0);
    return count;
}

#if defined(MMSB_INVARIANTS)
void mmsb__magazines_visit(mmsb__context_record_t *context,
                           void (*visit)(void *argument, const mmsb__magazine_t *magazine, uint32_t class_number),
                           void *argument) {
    pthread_mutex_lock(&caches_lock);
    for (uint32_t class_number = 0; class_number < MMSB__SMALL_CLASSES; class_number++) {
        for (mmsb__cache_t *cache = context->caches; cache; cache = cache->next_of_context) {
            if (cache->loaded[class_number])
                visit(argument, cache->loaded[class_number], class_number);
            if (cache->previous[class_number])
                visit(argument, cache->previous[class_number], class_number);
        }
        for (uint32_t shard = 0; shard < MMSB__SHARDS; shard++) {
            uint32_t number = (uint32_t)context->depot[shard].full[class_number];
            for (; number != 0; number = magazine_at(number)->next)
                visit(argument, magazine_at(number), class_number);
        }
    }
    pthread_mutex_unlock(&caches_lock);
}
#endif
