/* What a command of a buffer does: propagate.h. */
#include "propagate.h"

#include <stdlib.h>

#include "change.h"

enum {
    FEW = 8,         /* pages that are locked at once without care for who else locks them */
    FEW_PARENTS = 64 /* handles that need no memory */
};

/* ---------------------------------------------------------------------------------------------- the masked bytes ---- */

/* Others may be writing the masks that this looks at: what it reads decides nothing but what is fetched. */
__attribute__((no_sanitize_thread, no_sanitize_address)) void mmsb__propagate_fetch_far(const uint64_t *pages, size_t count) {
    const mmsb__record_t *to = mmsb__record_of(pages[0]);
    for (size_t i = 1; i <= mmsb__propagate_fetched(count); i++) {
        const mmsb__record_t *from = mmsb__record_of(pages[i]);
        const uint64_t size = __atomic_load_n(&from->size, __ATOMIC_RELAXED), words = size < 4096 ? mmsb__mask_words(size) : 64;
        if (__atomic_load_n(&from->mask_locator, __ATOMIC_RELAXED) == 0)
            continue;
        const uint64_t *mask = (const uint64_t *)(const void *)mmsb__propagate_mask(from);
        uint64_t first = 0;
        while (first < words && __atomic_load_n(&mask[first], __ATOMIC_RELAXED) == 0)
            first++;
        for (uint64_t at = 64 * first; at <= 64 * first + 64 && first < words; at += 64) {
            __builtin_prefetch(mmsb__record_bytes(to) + at, 1);
            __builtin_prefetch(mmsb__record_bytes(from) + at);
        }
        __builtin_prefetch(mmsb__propagate_mask(to) + 8 * first, 1);
    }
}

/* Copies the bytes of a page of the same size that its change mask has, and marks them in the mask of the page that gets them.
 * Bits of a mask behind the end of its page are 0, and its memory is whole words. 0: there were none. */
static inline int copy_masked(mmsb__record_t *to, const mmsb__record_t *from) {
    if (from->mask_frame == 0)
        return 0;
    uint8_t *bytes = mmsb__record_bytes(to);
    const uint8_t *source = mmsb__record_bytes(from);
    uint64_t *changed = (uint64_t *)(void *)mmsb__locator_address(to->mask_locator);
    const uint64_t *mask = (const uint64_t *)(const void *)mmsb__locator_address(from->mask_locator);
    const uint64_t size = to->size, words = mmsb__mask_words(size);
    uint64_t first = words, last = 0;
    for (uint64_t i = mmsb__mask_next(mask, 0, words); i < words; i = mmsb__mask_next(mask, i + 1, words)) {
        const uint64_t word = mask[i];
        if (MMSB__LIKELY(word == ~UINT64_C(0))) {
            memcpy(bytes + 64 * i, source + 64 * i, 64);
            changed[i] = word;
        } else {
            const uint64_t begin = (uint64_t)__builtin_ctzll(word), run = word >> begin;
            if ((run & (run + 1)) == 0) { /* most are one run */
                memcpy(bytes + 64 * i + begin, source + 64 * i + begin, 64 - begin - (uint64_t)__builtin_clzll(word));
                changed[i] |= word;
            } else {
                const uint64_t length = size - 64 * i < 64 ? size - 64 * i : 64;
                mmsb__bytes.blend_bits(bytes + 64 * i, (const uint8_t *)&mask[i], source + 64 * i, length,
                                       (uint8_t *)&changed[i]);
            }
        }
        first = first < i ? first : i;
        last = i;
    }
    if (first > last)
        return 0;
    if (MMSB__UNLIKELY(!mmsb__exposed(to)))
        mmsb__dirty_range(to, 64 * first, (64 * last + 64 < size ? 64 * last + 64 : size) - 1);
    return 1;
}

/* The first bit of a mask from one on that is set, or not set (want 0); size where there is none. */
static uint64_t next_bit(const uint64_t *mask, uint64_t from, uint64_t size, int want) {
    const uint64_t flip = want ? 0 : ~UINT64_C(0);
    if (from >= size)
        return size;
    uint64_t word = (mask[from / 64] ^ flip) & ~UINT64_C(0) << from % 64;
    for (uint64_t i = from / 64; word == 0;) {
        from = ++i * 64;
        if (from >= size)
            return size;
        word = mask[i] ^ flip;
    }
    from = from / 64 * 64 + (uint64_t)__builtin_ctzll(word);
    return from < size ? from : size;
}

static const uint64_t *mask_of(const mmsb__record_t *record) {
    return (const uint64_t *)(const void *)mmsb__locator_address(record->mask_locator);
}

/* The bytes of so many runs of a locked page, one behind the other. */
static mmsb_status_t copy_runs(const mmsb__record_t *from, const mmsb_run_t *runs, uint64_t count, uint8_t *payload) {
    if (mmsb__on_device(mmsb__state_held(from)))
        return count == 0 ? MMSB_OK : mmsb__upcalls.device_read_runs(mmsb__record_index(from), runs, count, payload);
    for (uint64_t i = 0; i < count; payload += runs[i++].length)
        memcpy(payload, mmsb__record_bytes(from) + runs[i].offset, runs[i].length);
    return MMSB_OK;
}

/* How many runs the masks of locked dependencies have, and of how many bytes. */
static void count_masked(const uint64_t *pages, size_t count, uint64_t size, uint64_t *runs, uint64_t *bytes) {
    uint64_t begin, end;
    *runs = *bytes = 0;
    for (size_t i = 1; i <= count; i++) {
        const mmsb__record_t *from = mmsb__record_of(pages[i]);
        for (end = 0; from->mask_frame != 0 && (begin = next_bit(mask_of(from), end, size, 1)) < size; ++*runs) {
            end = next_bit(mask_of(from), begin, size, 0);
            *bytes += end - begin;
        }
    }
}

/* The masked bytes of locked dependencies, which were counted, as a delta of runs, in one piece of memory that is to be freed. */
static mmsb_status_t delta_of(const uint64_t *pages, size_t count, uint64_t size, uint64_t runs, uint64_t bytes,
                              mmsb_delta_t **delta) {
    uint64_t begin, end;
    mmsb_delta_t *made = malloc(sizeof *made + runs * sizeof(mmsb_run_t) + bytes);
    if (!made)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a delta of %llu runs and %llu bytes", (unsigned long long)runs,
                          (unsigned long long)bytes);
    mmsb_run_t *run = (mmsb_run_t *)(void *)(made + 1);
    uint8_t *payload = (uint8_t *)(run + runs);
    *made = (mmsb_delta_t){.struct_size = sizeof *made,
                           .kind = MMSB_DELTA_RUNS,
                           .runs = run,
                           .count = runs,
                           .payload = payload,
                           .payload_length = bytes};
    mmsb_status_t status = MMSB_OK;
    for (size_t i = 1; status == MMSB_OK && i <= count; i++) {
        const mmsb__record_t *from = mmsb__record_of(pages[i]);
        const mmsb_run_t *first = run;
        uint64_t length = 0;
        for (end = 0; from->mask_frame != 0 && (begin = next_bit(mask_of(from), end, size, 1)) < size; length += end - begin) {
            end = next_bit(mask_of(from), begin, size, 0);
            *run++ = (mmsb_run_t){begin, end - begin};
        }
        status = copy_runs(from, first, (uint64_t)(run - first), payload);
        payload += length;
    }
    if (status != MMSB_OK) {
        free(made);
        made = NULL;
    }
    *delta = made;
    return status;
}

/* ---------------------------------------------------------------------------------------------------- execution ---- */

static inline int try_lock(uint64_t page, uint32_t owner, uint64_t *state) {
    mmsb__record_t *record = mmsb__record_of(page);
    *state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    return mmsb__state_is_open(*state, page) &&
           __atomic_compare_exchange_n(&record->state, state, *state | owner, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Executes a command whose pages are free and have addresses, while nobody watches: 1, or 0 with nothing done, also where
 * anything is wrong. It waits for no page, so that it may hold several. */
static int execute_fast(const uint64_t *pages, size_t count, unsigned how, uint32_t owner) {
    uint64_t states[FEW];
    mmsb__record_t *record = mmsb__record_of(pages[0]);
    size_t locked = 0;
    if (count >= FEW)
        return 0;
    while (locked <= count && try_lock(pages[locked], owner, &states[locked]))
        locked++;
    int done = locked > count && !(states[0] & MMSB__READ_ONLY) && !mmsb__watched() && record->mask_frame != 0 &&
               record->epoch != UINT64_MAX;
    for (size_t i = 1; i <= count && done; i++) {
        const mmsb__record_t *from = mmsb__record_of(pages[i]);
        done = from->size == record->size && ((how & MMSB__FROM_PARENTS) || !(from->side && record->side));
    }
    int changed = 0;
    for (size_t i = 1; i <= count && done; i++)
        changed |= copy_masked(record, mmsb__record_of(pages[i]));
    if (changed)
        mmsb__epoch_move(record, 0);
    while (locked-- > 0)
        mmsb__page_unlock_record(mmsb__record_of(pages[locked]), states[locked]);
    return done;
}

/* What of a command only its locked pages can tell. */
static mmsb_status_t check_locked(const uint64_t *pages, size_t count) {
    mmsb__record_t *record = mmsb__record_of(pages[0]);
    if (mmsb__state_held(record) & MMSB__READ_ONLY)
        return mmsb__page_read_only_fail(pages[0]);
    for (size_t i = 1; i <= count; i++) {
        const uint64_t size = mmsb__record_of(pages[i])->size;
        if (size != record->size)
            return mmsb__fail(MMSB_E_MISMATCH, "dependency 0x%016llx has %llu bytes, page 0x%016llx has %llu",
                              (unsigned long long)pages[i], (unsigned long long)size, (unsigned long long)pages[0],
                              (unsigned long long)record->size);
    }
    return mmsb__delta_check_epoch(pages[0], 0, record->epoch);
}

/* The change of a command whose pages are locked, where all of them lie on one device and nobody watches. MMSB_E_UNSUPPORTED, and
 * no error stored: it is made as a delta. */
static mmsb_status_t change_there(const uint64_t *pages, size_t count, unsigned how, mmsb__change_t *change) {
    mmsb__record_t *record = change->record;
    const int persistent = (how & MMSB__PERSISTENT) != 0;
    mmsb_status_t status = mmsb__change_state(change, mmsb__upcalls.device_propagate(pages, count + 1, persistent));
    if (status != MMSB_OK)
        return status;
    uint64_t *changed = (uint64_t *)(void *)mmsb__locator_address(record->mask_locator);
    for (size_t i = 1; i <= count; i++) {
        const mmsb__record_t *from = mmsb__record_of(pages[i]);
        for (uint64_t word = 0; from->mask_frame != 0 && word < mmsb__mask_words(record->size); word++)
            changed[word] |= mask_of(from)[word];
    }
    mmsb__epoch_move(record, 0);
    return MMSB_OK;
}

/* The change of a command whose pages are locked. */
static mmsb_status_t change_locked(const uint64_t *pages, size_t count, unsigned how, mmsb__change_t *change) {
    uint64_t runs, bytes;
    count_masked(pages, count, change->record->size, &runs, &bytes);
    if (runs == 0)
        return MMSB_OK;
    mmsb_status_t status = mmsb__mask_make(change->record);
    if (status != MMSB_OK)
        return status;
    if (change->on_device && !mmsb__watched() && (status = change_there(pages, count, how, change)) != MMSB_E_UNSUPPORTED)
        return status;
    mmsb_delta_t *delta = NULL;
    status = delta_of(pages, count, change->record->size, runs, bytes, &delta);
    if (status != MMSB_OK)
        return status;
    status = mmsb__delta_apply(change, delta);
    free(delta);
    return status;
}

/* Whether a page and one of its dependencies may have edges: those that have some have a side record. */
static int may_be_cycle(const uint64_t *pages, size_t count) {
    uint32_t side = 0;
    for (size_t i = 1; i <= count; i++)
        side |= __atomic_load_n(&mmsb__record_of(pages[i])->side, __ATOMIC_RELAXED);
    return side != 0 && __atomic_load_n(&mmsb__record_of(pages[0])->side, __ATOMIC_RELAXED) != 0;
}

/* Executes any command. *bad is which of its pages is no page, where one is not. */
static mmsb_status_t execute_slow(const uint64_t *pages, size_t count, unsigned how, size_t *bad) {
    mmsb__record_t *record = mmsb__record_of(pages[0]);
    mmsb_status_t status;
    do {
        *bad = SIZE_MAX;
        if (!(how & MMSB__FROM_PARENTS) && may_be_cycle(pages, count) &&
            (status = mmsb__upcalls.check_cycle(pages, count + 1)) != MMSB_OK)
            return status;
        mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count + 1, .on_devices = 1};
        status = mmsb__batch_lock(&batch, NULL, NULL, bad);
        if (status != MMSB_OK)
            return status;
        mmsb__change_t change = {.record = record, .state = mmsb__state_held(record) & ~MMSB__OWNER_MASK};
        change.on_device = mmsb__on_device(change.state);
        status = check_locked(pages, count);
        if (status == MMSB_OK)
            status = change_locked(pages, count, how, &change);
        mmsb__batch_unlock(&batch);
        status = mmsb__change_settle(&change, status);
    } while (status != MMSB_OK && mmsb__change_again(status, pages[0]));
    return status;
}

mmsb_status_t mmsb__propagate(const uint64_t *pages, size_t count, unsigned how, uint32_t owner, size_t *bad) {
    if (MMSB__LIKELY(execute_fast(pages, count, how, owner)))
        return MMSB_OK;
    return execute_slow(pages, count, how, bad);
}

mmsb_status_t mmsb__page_propagate(uint64_t page, uint64_t from) {
    const uint64_t pages[2] = {page, from};
    size_t bad;
    if (page == from) {
        mmsb__record_t *record;
        uint64_t state;
        mmsb_status_t status = mmsb__page_lock(page, &record, &state);
        if (status != MMSB_OK)
            return status;
        mmsb__page_unlock_record(record, state);
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "page 0x%016llx would be propagated into itself", (unsigned long long)page);
    }
    mmsb__thread_t *self = mmsb__thread_enter();
    return self ? mmsb__propagate(pages, 1, MMSB__FROM_PARENTS, self->owner, &bad) : mmsb__thread_fail();
}

/* Executes a command with the parents that the page has now. */
mmsb_status_t mmsb__propagate_parents(uint64_t page, unsigned how, uint32_t owner) {
    uint64_t known[FEW_PARENTS], *all = known, count = 0;
    size_t needed = 0, capacity = FEW_PARENTS, bad = SIZE_MAX;
    mmsb_status_t status;
    do {
        while ((needed = mmsb__upcalls.parents(&page, 1, all, capacity, &count)) > capacity) {
            if (all != known)
                free(all);
            capacity = needed;
            if (!(all = malloc(capacity * sizeof *all)))
                return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for %zu parents", needed);
        }
        status = mmsb__propagate(all, count, how | MMSB__FROM_PARENTS, owner, &bad);
        /* A parent has ended since, which is none any more. */
    } while (status == MMSB_E_STALE_HANDLE && bad - 1 < count);
    if (all != known)
        free(all);
    return status;
}
