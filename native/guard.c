/* Counts the pages of guarded contexts, and tells reports that wait: guard.h. */
#include "guard.h"

#include "watch.h"

uint32_t mmsb__guards;

void mmsb__guard_set(uint32_t context_index, uint64_t every) {
    mmsb__context_record_t *context = mmsb__context_record(context_index);
    const int had = __atomic_load_n(&context->guard_every, __ATOMIC_RELAXED) != 0, has = every != 0;
    __atomic_store_n(&context->guard_pages, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&context->guard_every, every, __ATOMIC_RELAXED);
    __atomic_add_fetch(&mmsb__guards, (uint32_t)(has - had), __ATOMIC_SEQ_CST);
}

int mmsb__guard_next(uint32_t context_index) {
    mmsb__context_record_t *context = mmsb__context_record(context_index);
    const uint64_t every = __atomic_load_n(&context->guard_every, __ATOMIC_RELAXED);
    return every != 0 && __atomic_fetch_add(&context->guard_pages, 1, __ATOMIC_RELAXED) % every == 0;
}

int mmsb__guard_pass_slow(uint32_t context_index, uint64_t count) {
    mmsb__context_record_t *context = mmsb__context_record(context_index);
    const uint64_t every = __atomic_load_n(&context->guard_every, __ATOMIC_RELAXED);
    if (every == 0)
        return 1;
    if (__atomic_load_n(&context->guard_waits, __ATOMIC_ACQUIRE))
        return 0;
    uint64_t pages = __atomic_load_n(&context->guard_pages, __ATOMIC_RELAXED);
    do {
        const uint64_t before_next = (every - pages % every) % every; /* pages before the next one that is guarded */
        if (before_next < count)
            return 0;
    } while (!__atomic_compare_exchange_n(&context->guard_pages, &pages, pages + count, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 1;
}

void mmsb__guard_report(uint32_t context_index, int waits) {
    mmsb__context_record_t *context = mmsb__context_record(context_index);
    const uint32_t waited = __atomic_exchange_n(&context->guard_waits, (uint32_t)waits, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&mmsb__capturing, (uint32_t)waits - waited, __ATOMIC_SEQ_CST);
}

mmsb_status_t mmsb__guard_tell_slow(uint32_t context_index) {
    if (!__atomic_load_n(&mmsb__context_record(context_index)->guard_waits, __ATOMIC_ACQUIRE))
        return MMSB_OK;
    return mmsb__upcalls.tell_report(context_index);
}
