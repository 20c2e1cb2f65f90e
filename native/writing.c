/* Writing sections and write pins, as far as saves wait for them and they for saves: writing.h. */
#include "writing.h"

#include <stdlib.h>
#include <time.h>

#include "lock.h"
#include "preimage.h"

static uint32_t lets(const mmsb__context_record_t *context) {
    return __atomic_load_n(&context->lets_write, __ATOMIC_SEQ_CST);
}

uint32_t mmsb__writing_own(uint32_t context) {
    if (!mmsb__self)
        return 0;
    const mmsb__lent_t *lent = mmsb__self->lent;
    return *mmsb__writing_slot(context) +
           (lent ? __atomic_load_n(&lent->writing[context % MMSB__WRITING_SLOTS], __ATOMIC_RELAXED) : 0);
}

mmsb__lent_t *mmsb__writing_lend(uint32_t context) {
    mmsb__lent_t *lent = mmsb__self->lent;
    if (!lent) {
        lent = mmsb__self->lent = calloc(1, sizeof *lent);
        if (!lent)
            return NULL;
        lent->references = 1;
    }
    __atomic_add_fetch(&lent->references, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&lent->writing[context % MMSB__WRITING_SLOTS], 1, __ATOMIC_RELAXED);
    mmsb__writing_forget(context);
    return lent;
}

static void let_go(mmsb__lent_t *lent) {
    if (__atomic_sub_fetch(&lent->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(lent);
}

int mmsb__writing_return(mmsb__lent_t *lent, uint32_t context, int (*end)(void *of), void *of) {
    mmsb__thread_t *self = mmsb__self;
    const int counts = self && *mmsb__writing_slot(context) != 0; /* pins of its own, of which end takes one off */
    const int ended = end(of);
    if (!ended)
        return 0;
    if (counts)
        mmsb__writing_note(context);
    __atomic_sub_fetch(&lent->writing[context % MMSB__WRITING_SLOTS], 1, __ATOMIC_RELAXED);
    let_go(lent);
    return ended;
}

void mmsb__writing_leave(mmsb__thread_t *self) {
    if (self->lent)
        let_go(self->lent);
}

uint32_t mmsb__writing_sections(uint32_t context) {
    return __atomic_load_n(&mmsb__context_record(context)->sections, __ATOMIC_SEQ_CST);
}

uint32_t mmsb__writing_passes(uint32_t context) {
    return __atomic_load_n(&mmsb__context_record(context)->passes, __ATOMIC_SEQ_CST);
}

int mmsb__writing_waits(mmsb__record_t *record, uint64_t state) {
    uint32_t context = mmsb__record_context(mmsb__record_index(record));
    mmsb__context_record_t *of = mmsb__context_record(context);
    switch (lets(of)) {
    case MMSB__WRITING_HELD:
        if (mmsb__writing_own(context) == 0)
            return 1;
        __atomic_add_fetch(&of->passes, 1, __ATOMIC_SEQ_CST); /* before the page is unlocked, with its pin */
        return 0;
    case MMSB__WRITING_STOPPED:
        return 1;
    default:;
        const int apart = mmsb__on_device(state) || mmsb__has_block(state); /* where nobody reads them meanwhile */
        return mmsb__preimage_keep_written(record, state, 0, apart ? UINT64_MAX : record->size);
    }
}

/* --------------------------------------------------------------------------------------------------- sections ---- */

static int begin_section(mmsb__context_record_t *context) {
    /* The count first: a saver that stops all looks at it afterwards. */
    __atomic_add_fetch(&context->sections, 1, __ATOMIC_SEQ_CST);
    uint32_t now = lets(context);
    if (now == MMSB__WRITING_FREE || (now == MMSB__WRITING_HELD && mmsb__writing_own(context->index) != 0)) {
        mmsb__writing_note(context->index);
        return 1;
    }
    __atomic_sub_fetch(&context->sections, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static uint64_t nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

mmsb_status_t mmsb__writing_begin(uint64_t context, uint64_t timeout_ns) {
    const uint64_t begin = nanoseconds();
    if (!mmsb__thread_enter())
        return mmsb__thread_fail();
    for (;;) {
        mmsb__context_record_t *record = mmsb__context_find(context);
        if (!record)
            return mmsb__error()->error_code;
        if (begin_section(record))
            return MMSB_OK;
        if (timeout_ns == 0)
            return mmsb__fail(MMSB_E_WOULD_BLOCK, "writing sections of context 0x%016llx wait for a save",
                              (unsigned long long)context);
        if (nanoseconds() - begin >= timeout_ns)
            return mmsb__fail(MMSB_E_TIMEOUT, "writing sections of context 0x%016llx have waited for a save for %llu ns",
                              (unsigned long long)context, (unsigned long long)timeout_ns);
        mmsb__capture_pause();
    }
}

mmsb_status_t mmsb__writing_end(uint64_t context) {
    mmsb__context_record_t *record = mmsb__context_find(context);
    if (!record)
        return mmsb__error()->error_code;
    uint32_t sections = __atomic_load_n(&record->sections, __ATOMIC_RELAXED);
    do {
        if (sections == 0)
            return mmsb__fail(MMSB_E_INVALID_STATE, "context 0x%016llx has no writing section to end",
                              (unsigned long long)context);
    } while (!__atomic_compare_exchange_n(&record->sections, &sections, sections - 1, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    mmsb__writing_forget(record->index);
    return MMSB_OK;
}

/* -------------------------------------------------------------------------------------------------- for the saver ---- */

mmsb_status_t mmsb__writing_hold(uint32_t context) {
    if (!mmsb__capture_make(context)) /* threads wait at it */
        return MMSB_E_OUT_OF_MEMORY;
    mmsb__writing_set(context, MMSB__WRITING_HELD);
    return MMSB_OK;
}

void mmsb__writing_set(uint32_t context, uint32_t let) {
    mmsb__context_record_t *of = mmsb__context_record(context);
    uint32_t before = __atomic_exchange_n(&of->lets_write, let, __ATOMIC_SEQ_CST);
    if (before == MMSB__WRITING_FREE && let != MMSB__WRITING_FREE) /* pins look closer */
        __atomic_add_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    if (before != MMSB__WRITING_FREE && let == MMSB__WRITING_FREE)
        __atomic_sub_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    if (let == MMSB__WRITING_HELD || let == MMSB__WRITING_STOPPED)
        mmsb__synchronize(of); /* a thread that has not seen it holds its page's lock, which is_pinned waits for */
    else
        mmsb__capture_wake();
}

static int is_pinned(uint32_t index) {
    const mmsb__record_t *record = mmsb__record_at(index);
    uint64_t state = mmsb__state_load(record);
    if (MMSB__HANDLE_KIND(state) != MMSB_KIND_PAGE)
        return 0;
    if (MMSB__UNLIKELY(state & MMSB__OWNER_MASK)) { /* perhaps by a call that pins */
        if (!mmsb__record_lock_page(index, &state))
            return 0;
        mmsb__page_unlock_record(mmsb__record_at(index), state);
    }
    return __atomic_load_n(&record->write_pins, __ATOMIC_ACQUIRE) != 0;
}

int mmsb__writing_find(const uint32_t *leaves, const uint32_t *used, uint32_t count, uint64_t *at) {
    for (uint64_t leaf = *at >> MMSB__LEAF_BITS; leaf < count; leaf++, *at = leaf << MMSB__LEAF_BITS) {
        for (uint32_t i = *at & (MMSB__LEAF_RECORDS - 1); i < used[leaf]; i++, ++*at) {
            if (is_pinned(leaves[leaf] << MMSB__LEAF_BITS | i))
                return 1;
        }
    }
    return 0;
}
