#include "delta.h"

#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------- validation ---- */

static mmsb_status_t null_pointer(const char *what, uint64_t count) {
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is NULL, but %llu are to be read", what, (unsigned long long)count);
}

static int misaligned(const void *pointer, size_t alignment) {
    return ((uintptr_t)pointer & (alignment - 1)) != 0;
}

static mmsb_status_t check_payload(const mmsb_delta_t *delta, uint64_t needed) {
    if (MMSB__UNLIKELY(delta->payload_length != 0 && delta->payload_length != needed))
        return mmsb__fail(MMSB_E_MISMATCH, "payload_length is %llu, but the delta changes %llu bytes",
                          (unsigned long long)delta->payload_length, (unsigned long long)needed);
    if (MMSB__UNLIKELY(!delta->payload && needed > 0))
        return null_pointer("payload", needed);
    return MMSB_OK;
}

static mmsb_status_t check_mask(const mmsb_delta_t *delta, uint64_t page_size) {
    if (delta->mask_length > page_size)
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "mask_length is %llu, longer than the page of %llu bytes",
                          (unsigned long long)delta->mask_length, (unsigned long long)page_size);
    if (!delta->mask && delta->mask_length > 0)
        return null_pointer("mask", delta->mask_length);
    uint64_t needed = delta->mask_length;
    if (delta->kind == MMSB_DELTA_SPARSE_BITS)
        needed = mmsb__bytes.count_bits(delta->mask, delta->mask_length);
    return check_payload(delta, needed);
}

static mmsb_status_t check_offsets(const mmsb_delta_t *delta, uint64_t page_size) {
    uint64_t count = delta->count;
    if (count == 0)
        return check_payload(delta, 0);
    if ((delta->offsets != NULL) == (delta->offsets32 != NULL))
        return delta->offsets ? mmsb__fail(MMSB_E_INVALID_ARGUMENT, "both offsets and offsets32 are set")
                              : null_pointer("offsets", count);
    if (count > UINT64_MAX / sizeof(uint64_t))
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "count is %llu, beyond what can be addressed", (unsigned long long)count);
    if (misaligned(delta->offsets, sizeof(uint64_t)) || misaligned(delta->offsets32, sizeof(uint32_t)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "offsets at %p are not aligned to their size",
                          delta->offsets ? (const void *)delta->offsets : (const void *)delta->offsets32);
    uint64_t largest =
        delta->offsets ? mmsb__bytes.maximum64(delta->offsets, count) : mmsb__bytes.maximum32(delta->offsets32, count);
    if (largest >= page_size)
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "offset %llu lies past the page of %llu bytes", (unsigned long long)largest,
                          (unsigned long long)page_size);
    return check_payload(delta, count);
}

static mmsb_status_t check_run(uint64_t offset, uint64_t length, uint64_t page_size) {
    if (MMSB__LIKELY(offset <= page_size && length <= page_size - offset))
        return MMSB_OK;
    return mmsb__fail(MMSB_E_OUT_OF_RANGE, "a run of %llu bytes at offset %llu reaches past the page of %llu bytes",
                      (unsigned long long)length, (unsigned long long)offset, (unsigned long long)page_size);
}

static mmsb_status_t check_runs(const mmsb_delta_t *delta, uint64_t page_size) {
    uint64_t count = delta->count, sum = 0;
    if (count == 0)
        return check_payload(delta, 0);
    if (!delta->runs)
        return null_pointer("runs", count);
    if (count > UINT64_MAX / sizeof(mmsb_run_t))
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "count is %llu, beyond what can be addressed", (unsigned long long)count);
    if (misaligned(delta->runs, sizeof(uint64_t)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "runs at %p are not aligned to 8", (const void *)delta->runs);
    for (uint64_t i = 0; i < count; i++) {
        mmsb_status_t status = check_run(delta->runs[i].offset, delta->runs[i].length, page_size);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        if (MMSB__UNLIKELY(__builtin_add_overflow(sum, delta->runs[i].length, &sum)))
            return mmsb__fail(MMSB_E_OUT_OF_RANGE, "the runs' lengths add up to more than 2^64 bytes");
    }
    return check_payload(delta, sum);
}

static mmsb_status_t check_text(const char *what, const char *text) {
    if (MMSB__LIKELY(!text))
        return MMSB_OK;
    size_t length = strlen(text);
    if (mmsb__utf8_valid(text, length))
        return MMSB_OK;
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s of %zu bytes is not valid UTF-8", what, length);
}

mmsb_status_t mmsb__delta_check(const mmsb_delta_t *delta, uint64_t page_size) {
    if (MMSB__UNLIKELY(delta->struct_size != sizeof *delta))
        return mmsb__fail(MMSB_E_STRUCT_VERSION, "struct_size of a delta is %u, not %zu: call mmsb_delta_init first",
                          delta->struct_size, sizeof *delta);
    if (MMSB__UNLIKELY((delta->reserved[0] | delta->reserved[1] | delta->reserved[2] | delta->reserved[3]) != 0))
        return mmsb__fail(MMSB_E_STRUCT_VERSION, "a reserved word of a delta is not 0");
    mmsb_status_t status;
    switch (delta->kind) {
    case MMSB_DELTA_DENSE_BYTES:
    case MMSB_DELTA_DENSE_BITS:
    case MMSB_DELTA_SPARSE_BITS:
        status = check_mask(delta, page_size);
        break;
    case MMSB_DELTA_INDEXED:
        status = check_offsets(delta, page_size);
        break;
    case MMSB_DELTA_RUNS:
        status = check_runs(delta, page_size);
        break;
    default:
        status = mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%d is no kind of delta", delta->kind);
    }
    if (MMSB__LIKELY(status == MMSB_OK))
        status = check_text("source", delta->source);
    if (MMSB__LIKELY(status == MMSB_OK))
        status = check_text("intent", delta->intent);
    return status;
}

/* ------------------------------------------------------------------------------------------------- application ---- */

static mmsb_status_t check_epoch(uint64_t page, uint64_t wanted, uint64_t epoch) {
    if (wanted == 0 && MMSB__UNLIKELY(epoch == UINT64_MAX))
        return mmsb__fail(MMSB_E_EPOCH, "page 0x%016llx is at the last epoch, 2^64 - 1", (unsigned long long)page);
    if (wanted == 0 || wanted > epoch)
        return MMSB_OK;
    return mmsb__fail(MMSB_E_EPOCH, "the delta's epoch %llu is not larger than %llu of page 0x%016llx",
                      (unsigned long long)wanted, (unsigned long long)epoch, (unsigned long long)page);
}

/* Everything but the epoch, which an earlier delta of the batch may move. */
static mmsb_status_t check_locked(uint64_t page, const mmsb_delta_t *delta, mmsb__record_t *record, uint64_t state) {
    if (MMSB__UNLIKELY(state & MMSB__READ_ONLY))
        return mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx was adopted as read-only", (unsigned long long)page);
    mmsb_status_t status = mmsb__delta_check(delta, record->size);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    if (MMSB__UNLIKELY(delta->page_id != 0)) {
        uint64_t id = mmsb__record_id((uint32_t)(record - mmsb__table.records), state);
        if (delta->page_id != id)
            return mmsb__fail(MMSB_E_MISMATCH, "the delta is of page %llu, not of page %llu", (unsigned long long)delta->page_id,
                              (unsigned long long)id);
    }
    return mmsb__mask_make(record);
}

static inline void apply_run(mmsb__record_t *record, uint8_t *bytes, uint8_t *changed, uint64_t offset, uint64_t length,
                             const uint8_t *payload) {
    if (length == 0)
        return;
    memcpy(bytes + offset, payload, length);
    mmsb__bits_set_range(changed, offset, length);
    mmsb__dirty_range(record, offset, offset + length - 1);
}

static inline uint64_t epoch_after(const mmsb__record_t *record, uint64_t wanted) {
    return wanted != 0 ? wanted : record->epoch + 1;
}

static inline void move_epoch(mmsb__record_t *record, uint64_t wanted) {
    __atomic_store_n(&record->epoch, epoch_after(record, wanted), __ATOMIC_RELAXED);
    mmsb__version_move(record);
}

static void apply_locked(mmsb__record_t *record, const mmsb_delta_t *delta) {
    uint8_t *bytes = mmsb__record_bytes(record), *changed = mmsb__locator_address(record->mask_locator);
    const uint8_t *payload = delta->payload;
    switch (delta->kind) {
    case MMSB_DELTA_RUNS:
        for (uint64_t i = 0; i < delta->count; i++) {
            apply_run(record, bytes, changed, delta->runs[i].offset, delta->runs[i].length, payload);
            payload += delta->runs[i].length;
        }
        break;
    case MMSB_DELTA_INDEXED:
        mmsb__dirty_all(record);
        if (delta->count == 0)
            break;
        if (delta->offsets)
            mmsb__bytes.scatter64(bytes, delta->offsets, payload, delta->count, changed);
        else
            mmsb__bytes.scatter32(bytes, delta->offsets32, payload, delta->count, changed);
        break;
    case MMSB_DELTA_DENSE_BYTES:
    case MMSB_DELTA_DENSE_BITS:
    case MMSB_DELTA_SPARSE_BITS:
        if (delta->mask_length == 0)
            break;
        mmsb__dirty_all(record);
        if (delta->kind == MMSB_DELTA_DENSE_BYTES)
            mmsb__bytes.blend_bytes(bytes, delta->mask, payload, delta->mask_length, changed);
        else if (delta->kind == MMSB_DELTA_DENSE_BITS)
            mmsb__bytes.blend_bits(bytes, delta->mask, payload, delta->mask_length, changed);
        else
            mmsb__bytes.expand_bits(bytes, delta->mask, payload, delta->mask_length, changed);
        break;
    default:
        __builtin_unreachable();
    }
    move_epoch(record, delta->epoch);
}

/* Before a stretch of a delta is changed. *line is the one that was touched last. */
static inline int touch_stretch(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length, uint64_t *line) {
    if (length == 0 || (offset / MMSB__LINE_BYTES == *line && (offset + length - 1) / MMSB__LINE_BYTES == *line))
        return 0;
    *line = (offset + length - 1) / MMSB__LINE_BYTES;
    return mmsb__capture_touch(record, state, offset, length);
}

/* Before a valid delta changes a page that is locked: capture.h. */
static int touch_delta(mmsb__record_t *record, uint64_t state, const mmsb_delta_t *delta) {
    uint32_t moments = mmsb__moments_now();
    int again = 0;
    uint64_t line = UINT64_MAX;
    switch (delta->kind) {
    case MMSB_DELTA_RUNS:
        for (uint64_t i = 0; !again && i < delta->count; i++)
            again = touch_stretch(record, state, delta->runs[i].offset, delta->runs[i].length, &line);
        break;
    case MMSB_DELTA_INDEXED:
        for (uint64_t i = 0; !again && i < delta->count; i++)
            again = touch_stretch(record, state, delta->offsets ? delta->offsets[i] : delta->offsets32[i], 1, &line);
        break;
    default:
        again = touch_stretch(record, state, 0, delta->mask_length, &line);
    }
    if (line == UINT64_MAX) /* no byte changes, but the epoch moves */
        again = mmsb__capture_touch(record, state, 0, 0);
    return again || !mmsb__moment_came(moments) ? again : touch_delta(record, state, delta);
}

/* Marks what a valid delta addresses in the page's change mask. */
static void mark(mmsb__record_t *record, const mmsb_delta_t *delta) {
    uint8_t *changed = mmsb__locator_address(record->mask_locator);
    const uint8_t *mask = delta->mask;
    switch (delta->kind) {
    case MMSB_DELTA_RUNS:
        for (uint64_t i = 0; i < delta->count; i++) {
            if (delta->runs[i].length > 0)
                mmsb__bits_set_range(changed, delta->runs[i].offset, delta->runs[i].length);
        }
        break;
    case MMSB_DELTA_INDEXED:
        for (uint64_t i = 0; i < delta->count; i++) {
            uint64_t offset = delta->offsets ? delta->offsets[i] : delta->offsets32[i];
            changed[offset / 8] |= (uint8_t)(1u << offset % 8);
        }
        break;
    case MMSB_DELTA_DENSE_BYTES:
        for (uint64_t i = 0; i < delta->mask_length; i++)
            changed[i / 8] |= (uint8_t)((mask[i] != 0) << i % 8);
        break;
    default:
        for (uint64_t i = 0; i < delta->mask_length / 8; i++)
            changed[i] |= mask[i];
        if (delta->mask_length % 8 != 0)
            changed[delta->mask_length / 8] |= mask[delta->mask_length / 8] & ((1u << delta->mask_length % 8) - 1);
    }
}

/* A valid delta of a page that stays on its device. Nobody watches: else the page has been brought in. */
static mmsb_status_t apply_on_device(mmsb__record_t *record, uint64_t *state, const mmsb_delta_t *delta) {
    mmsb_status_t status = mmsb__upcalls.device_apply((uint32_t)(record - mmsb__table.records), delta);
    *state = mmsb__state_load(record) & ~MMSB__OWNER_MASK;
    if (status == MMSB_OK) {
        mark(record, delta);
        move_epoch(record, delta->epoch);
    } else if (status == MMSB_E_UNSUPPORTED && (status = mmsb__page_make_resident(record, state)) == MMSB_OK) {
        apply_locked(record, delta);
    }
    return status;
}

mmsb_status_t mmsb__page_apply(uint64_t page, const mmsb_delta_t *delta) {
    mmsb__record_t *record;
    uint64_t state;
    for (;;) {
        int on_device;
        mmsb_status_t status = mmsb__page_enter_to_change(page, &record, &state, &on_device);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        int again = 0;
        mmsb__ring_t *ring = NULL;
        uint64_t sequence = 0;
        status = check_locked(page, delta, record, state);
        if (MMSB__LIKELY(status == MMSB_OK))
            status = check_epoch(page, delta->epoch, record->epoch);
        if (MMSB__UNLIKELY(on_device && status == MMSB_OK)) {
            status = apply_on_device(record, &state, delta);
            mmsb__page_unlock(record, state);
            return status;
        }
        if (MMSB__LIKELY(status == MMSB_OK) && MMSB__UNLIKELY(__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) != 0))
            again = touch_delta(record, state, delta);
        if (MMSB__LIKELY(status == MMSB_OK && !again) &&
            MMSB__UNLIKELY(__atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED) != 0) &&
            (ring = mmsb__ring_for(mmsb__record_context(MMSB__HANDLE_INDEX(page)))))
            status = mmsb__ring_append_delta(ring, mmsb__record_id(MMSB__HANDLE_INDEX(page), state), record->version + 1,
                                             epoch_after(record, delta->epoch), delta, &sequence);
        if (MMSB__LIKELY(status == MMSB_OK && !again))
            apply_locked(record, delta);
        mmsb__page_unlock(record, state);
        if (MMSB__LIKELY(!again))
            return mmsb__journal_settle(ring, sequence, status);
        mmsb__capture_wait(MMSB__HANDLE_INDEX(page));
    }
}

/* -------------------------------------------------------------------------------------------------- many pages ---- */

/* Where a run goes: what pass one of a batch finds out, so that pass two only copies. Small, so that a batch of thousands stays in the
 * nearest cache. */
typedef struct target {
    mmsb__record_t *record;
    uint64_t state;    /* of the record when this is done: unlocked by the last delta of its page */
    uint8_t *bytes;    /* NULL = not one run */
    uint64_t *changed; /* the word of the change mask that the run begins in */
} target_t;

/* The same with what arrays of runs say by themselves. */
typedef struct mmsb__plan {
    target_t target;
    const uint8_t *payload;
    uint64_t length_and_bit; /* length << 6 | first bit in *changed */
} plan_t;

/* The thread's room for so many plans; NULL with the last error set. It is kept for the next batch. */
static plan_t *plans_for(size_t count) {
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self) {
        mmsb__thread_fail();
        return NULL;
    }
    if (count > self->plan_capacity) {
        plan_t *more = count <= SIZE_MAX / sizeof *more ? malloc(count * sizeof *more) : NULL;
        if (!more) {
            mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a batch of %zu deltas", count);
            return NULL;
        }
        free(self->plans);
        self->plans = more;
        self->plan_capacity = count;
    }
    return self->plans;
}

static inline target_t target_of(mmsb__record_t *record, uint64_t state, uint64_t offset) {
    target_t target = {record, state, mmsb__record_bytes(record) + offset,
                       (uint64_t *)(void *)mmsb__locator_address(record->mask_locator) + (offset >> 6)};
    return target;
}

/* How many items ahead the lines of pages and masks are fetched, and how many ahead once more: some have not come the first time. */
#define AHEAD 24
#define NEAR 8

static inline void prefetch_target(const target_t *target) {
    __builtin_prefetch(target->bytes, 1);
    __builtin_prefetch(target->bytes + 63, 1);
    __builtin_prefetch(target->changed, 1);
    __builtin_prefetch(target->changed + 1, 1);
}

/* Does what was planned. Inlined: a call for each item of a batch costs a tenth of it. */
static inline __attribute__((always_inline)) void apply_target(const target_t *target, uint64_t bit, uint64_t length,
                                                               const uint8_t *payload, uint64_t epoch) {
    mmsb__record_t *record = target->record;
    if (MMSB__LIKELY(length == 64)) { /* a number that the compiler knows */
        memcpy(target->bytes, payload, 64);
        mmsb__bits_set_64(target->changed, bit);
    } else if (length > 0) {
        memcpy(target->bytes, payload, length);
        mmsb__bits_set_range((uint8_t *)target->changed, bit, length);
    }
    if (MMSB__UNLIKELY(!mmsb__exposed(record)) && length > 0) {
        uint64_t offset = (uint64_t)(target->bytes - mmsb__record_bytes(record));
        mmsb__dirty_range(record, offset, offset + length - 1);
    }
    move_epoch(record, epoch);
}

/* After the last change of a page, with no journal that waits for the rest of the batch. */
static inline void leave_target(const target_t *target) {
    if (MMSB__UNLIKELY(target->state & MMSB__NONRESIDENT) && (target->state & MMSB__OWNER_MASK) == 0)
        mmsb__page_unlock(target->record, target->state);
    else
        __atomic_store_n(&target->record->state, target->state, __ATOMIC_RELEASE);
}

typedef struct struct_work {
    const mmsb_page_t *pages;
    const mmsb_delta_t *deltas;
    plan_t *plans;
    size_t count;
    int chosen_epochs; /* some delta names its epoch */
} struct_work_t;

/* Whether the delta is one run and nothing else in it needs a look: what most deltas of large batches are. Offsets that follow each other
 * are a run, too. */
static inline __attribute__((always_inline)) int is_one_run(const mmsb_delta_t *delta, const mmsb__record_t *record,
                                                            uint64_t state, uint64_t *offset, uint64_t *length) {
    if (delta->struct_size != sizeof *delta || (state & MMSB__READ_ONLY) || delta->source || delta->intent || !delta->payload ||
        (delta->reserved[0] | delta->reserved[1] | delta->reserved[2] | delta->reserved[3] | delta->page_id) != 0)
        return 0;
    if (delta->kind == MMSB_DELTA_RUNS && delta->count == 1 && delta->runs && !misaligned(delta->runs, 8)) {
        *offset = delta->runs->offset;
        *length = delta->runs->length;
    } else if (delta->kind == MMSB_DELTA_INDEXED && delta->offsets && !delta->offsets32 && !misaligned(delta->offsets, 8) &&
               delta->count - 1 < record->size && mmsb__bytes.run_length64(delta->offsets, delta->count) == delta->count) {
        *offset = delta->offsets[0];
        *length = delta->count;
    } else {
        return 0;
    }
    return *offset <= record->size && *length <= record->size - *offset &&
           (delta->payload_length == 0 || delta->payload_length == *length);
}

/* What an item brings along is fetched some items before its turn: no load runs ahead of the first pass's locked instructions. */
static inline void prefetch_delta(const mmsb_delta_t *delta) {
    __builtin_prefetch(delta);
    __builtin_prefetch((const uint8_t *)delta + 64);
    __builtin_prefetch((const uint8_t *)delta + sizeof *delta - 1);
}

/* The first places of a delta that has come but has not been checked: any pointer can be fetched from. */
static inline void prefetch_places(const mmsb_delta_t *delta) {
    __builtin_prefetch(delta->runs);
    uint64_t count = delta->offsets ? delta->count : 0;
    for (uint64_t i = 0; i < count && i < 64; i += 8)
        __builtin_prefetch(delta->offsets + i);
}

static inline __attribute__((always_inline)) mmsb_status_t check_struct(void *argument, size_t i, mmsb__record_t *record,
                                                                        uint64_t state) {
    struct_work_t *work = argument;
    const mmsb_delta_t *delta = &work->deltas[i];
    plan_t *plan = &work->plans[i];
    uint64_t offset, length;
    mmsb_status_t status;
    if (MMSB__LIKELY(i >= 8)) {
        prefetch_delta(delta - 8);
        prefetch_places(delta - 4);
    }
    if (MMSB__LIKELY(is_one_run(delta, record, state, &offset, &length))) {
        status = mmsb__mask_make(record);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        *plan = (plan_t){target_of(record, state, offset), delta->payload, length << 6 | (offset & 63)};
    } else {
        status = check_locked(work->pages[i], delta, record, state);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        plan->target = (target_t){record, state, NULL, NULL};
    }
    work->chosen_epochs |= delta->epoch != 0;
    /* Where earlier deltas of the batch move the epoch they move it up: what is too old now is too old then. The rest: check_epochs. */
    return check_epoch(work->pages[i], delta->epoch, record->epoch);
}

typedef struct item {
    uint32_t page_index;
    uint32_t at; /* in the batch */
} item_t;

static int by_page(const void *a, const void *b) {
    const item_t *x = a, *y = b;
    if (x->page_index != y->page_index)
        return x->page_index < y->page_index ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Whether each delta's epoch is larger than what the deltas before it leave. Only for batches in which a page repeats and a delta
 * names its epoch. */
static mmsb_status_t check_epochs(const struct_work_t *work, size_t count, size_t *bad) {
    if (count > UINT32_MAX)
        return mmsb__fail(MMSB_E_LIMIT, "%zu deltas in a batch that names epochs: %u can be", count, UINT32_MAX);
    item_t *items = malloc(count * sizeof *items);
    if (!items)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for the order of %zu deltas", count);
    for (size_t i = 0; i < count; i++)
        items[i] = (item_t){MMSB__HANDLE_INDEX(work->pages[i]), (uint32_t)i};
    qsort(items, count, sizeof *items, by_page);
    size_t first_bad = count;
    uint64_t epoch = 0, bad_epoch = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || items[i].page_index != items[i - 1].page_index)
            epoch = mmsb__record_at(items[i].page_index)->epoch;
        uint64_t wanted = work->deltas[items[i].at].epoch;
        if ((wanted != 0 ? wanted <= epoch : epoch == UINT64_MAX) && items[i].at < first_bad) {
            first_bad = items[i].at;
            bad_epoch = epoch;
        }
        epoch = wanted != 0 ? wanted : epoch + 1;
    }
    free(items);
    if (first_bad == count)
        return MMSB_OK;
    *bad = first_bad;
    return check_epoch(work->pages[first_bad], work->deltas[first_bad].epoch, bad_epoch);
}

/* While pages are captured their lines are read before the pass that changes them. */
static int touch_struct(const void *argument, size_t i, mmsb__record_t *record, uint64_t state) {
    const struct_work_t *work = argument;
    if (i + NEAR < work->count && work->plans[i + NEAR].target.bytes)
        prefetch_target(&work->plans[i + NEAR].target);
    return touch_delta(record, state, &work->deltas[i]);
}

static mmsb_status_t check_there(void *argument, size_t i, mmsb__record_t *record, uint64_t state) {
    struct_work_t *work = argument;
    mmsb_status_t status = check_locked(work->pages[i], &work->deltas[i], record, state);
    work->chosen_epochs |= work->deltas[i].epoch != 0;
    return status == MMSB_OK ? check_epoch(work->pages[i], work->deltas[i].epoch, record->epoch) : status;
}

/* A batch that has pages on devices, which stay there. Devices come first: where one fails, no page of the host has changed.
 * MMSB__ENTER_GO with nothing done: somebody watches. */
static mmsb_status_t apply_where_they_are(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad) {
    struct_work_t work = {.pages = pages, .deltas = deltas, .count = count};
    mmsb__batch_t batch = {.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .on_devices = 1, .keeps = 1};
    mmsb_status_t status = mmsb__batch_lock(&batch, check_there, &work, bad);
    if (batch.repeats && work.chosen_epochs) {
        mmsb_status_t order = check_epochs(&work, status == MMSB_OK ? count : batch.bad, bad);
        status = order != MMSB_OK ? order : status;
    }
    if (status == MMSB_OK)
        status = mmsb__watched() ? MMSB__ENTER_GO : mmsb__upcalls.device_apply_many(pages, deltas, count, bad);
    for (size_t i = 0; status == MMSB_OK && i < count; i++) {
        mmsb__record_t *record = mmsb__record_of(pages[i]);
        if (mmsb__on_device(mmsb__state_held(record))) {
            mark(record, &deltas[i]);
            move_epoch(record, deltas[i].epoch);
        } else {
            apply_locked(record, &deltas[i]);
        }
    }
    mmsb__batch_unlock(&batch);
    return status;
}

/* The second pass: changes the pages and tells the journal, where there is one; without one each page is unlocked with its last change. */
static inline __attribute__((always_inline)) void apply_structs(const struct_work_t *work, size_t count, mmsb__group_t *group) {
    const mmsb_delta_t *deltas = work->deltas;
    for (size_t i = 0; i < count; i++) {
        const plan_t *plan = &work->plans[i];
        if (group) {
            const mmsb__record_t *record = plan->target.record;
            mmsb__ring_put_delta(group, mmsb__record_id(MMSB__HANDLE_INDEX(work->pages[i]), mmsb__state_held(record)),
                                 record->version + 1, epoch_after(record, deltas[i].epoch), &deltas[i]);
        }
        if (MMSB__LIKELY(i + AHEAD < count && plan[AHEAD].target.bytes))
            prefetch_target(&plan[AHEAD].target);
        if (MMSB__LIKELY(i + NEAR < count && plan[NEAR].target.bytes))
            prefetch_target(&plan[NEAR].target);
        if (MMSB__LIKELY(plan->target.bytes != NULL))
            apply_target(&plan->target, plan->length_and_bit & 63, plan->length_and_bit >> 6, plan->payload, deltas[i].epoch);
        else
            apply_locked(plan->target.record, &deltas[i]);
        if (!group)
            leave_target(&plan->target);
    }
}

mmsb_status_t mmsb__page_apply_many(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad_index) {
    mmsb__batch_t batch;
    struct_work_t work = {.pages = pages, .deltas = deltas, .plans = plans_for(count), .count = count};
    if (!work.plans && count > 0)
        return mmsb__error()->error_code;
    for (;;) {
        batch =
            (mmsb__batch_t){.first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .diverts = 1, .keeps = 1};
        size_t bad_item;
        mmsb_status_t status = mmsb__batch_lock(&batch, check_struct, &work, &bad_item);
        if (MMSB__UNLIKELY(status == MMSB__ENTER_GO)) {
            mmsb__batch_unlock(&batch);
            status = apply_where_they_are(pages, deltas, count, &bad_item);
            if (status == MMSB__ENTER_GO)
                continue;
            if (status != MMSB_OK && bad_index)
                *bad_index = bad_item;
            return status;
        }
        if (MMSB__UNLIKELY(status != MMSB_OK) && bad_index)
            *bad_index = bad_item;
        size_t good = status == MMSB_OK ? count : batch.bad, bad = 0;
        if (MMSB__UNLIKELY(batch.repeats && work.chosen_epochs)) { /* an item before the bad one may have too old an epoch */
            mmsb_status_t order = check_epochs(&work, good, &bad);
            if (order != MMSB_OK) {
                status = order;
                if (bad_index)
                    *bad_index = bad;
            }
        }
        if (MMSB__UNLIKELY(status != MMSB_OK)) {
            mmsb__batch_unlock(&batch);
            return status;
        }
        if (MMSB__LIKELY(!mmsb__batch_touch(&batch, touch_struct, &work)))
            break;
    }
    mmsb__group_t group;
    mmsb__ring_t *ring;
    mmsb_status_t status = mmsb__batch_ring(&batch, &ring);
    if (status == MMSB_OK && ring) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += mmsb__journal_delta_space(&deltas[i]);
        status = mmsb__ring_begin(ring, &group, bytes, count);
    }
    if (MMSB__UNLIKELY(status != MMSB_OK)) {
        mmsb__batch_unlock(&batch);
        return status;
    }
    if (MMSB__LIKELY(!ring)) {
        apply_structs(&work, count, NULL);
        return MMSB_OK;
    }
    apply_structs(&work, count, &group);
    status = mmsb__ring_end(&group);
    mmsb__batch_unlock(&batch);
    return mmsb__journal_settle(ring, group.last, status);
}

typedef struct array_work {
    const mmsb_page_runs_t *runs;
    target_t *targets;
    const uint64_t *pages, *offsets, *lengths;
    size_t each; /* 0: one length for all */
} array_work_t;

static inline uint64_t length_of(const array_work_t *work, size_t i) {
    return work->lengths[i & work->each];
}

static inline __attribute__((always_inline)) mmsb_status_t check_array(void *argument, size_t i, mmsb__record_t *record,
                                                                       uint64_t state) {
    const array_work_t *work = argument;
    uint64_t offset = work->offsets[i], length = length_of(work, i);
    if (MMSB__UNLIKELY(state & MMSB__READ_ONLY))
        return mmsb__fail(MMSB_E_INVALID_STATE, "page 0x%016llx was adopted as read-only", (unsigned long long)work->pages[i]);
    mmsb_status_t status = check_run(offset, length, record->size);
    if (MMSB__UNLIKELY(status != MMSB_OK) || MMSB__UNLIKELY((status = mmsb__mask_make(record)) != MMSB_OK))
        return status;
    work->targets[i] = target_of(record, state, offset);
    return check_epoch(work->pages[i], 0, record->epoch);
}

static int touch_array(const void *argument, size_t i, mmsb__record_t *record, uint64_t state) {
    const array_work_t *work = argument;
    if (i + NEAR < work->runs->count)
        prefetch_target(&work->targets[i + NEAR]);
    return mmsb__capture_touch(record, state, work->offsets[i], length_of(work, i));
}

/* As apply_where_they_are, of a valid batch: its arrays become deltas. */
static mmsb_status_t apply_arrays_where_they_are(const array_work_t *work, size_t *bad) {
    typedef struct one {
        mmsb_delta_t delta;
        mmsb_run_t run;
    } one_t;
    size_t count = work->runs->count;
    mmsb_delta_t *deltas = count <= SIZE_MAX / sizeof(one_t) ? malloc(count * sizeof(one_t)) : NULL;
    *bad = 0;
    if (!deltas)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a batch of %zu deltas", count);
    mmsb_run_t *items = (mmsb_run_t *)(void *)(deltas + count);
    const uint8_t *payload = work->runs->payload;
    for (size_t i = 0; i < count; i++) {
        items[i] = (mmsb_run_t){work->offsets[i], length_of(work, i)};
        deltas[i] = (mmsb_delta_t){
            .struct_size = sizeof *deltas, .kind = MMSB_DELTA_RUNS, .runs = &items[i], .count = 1, .payload = payload};
        payload += items[i].length;
    }
    mmsb_status_t status = apply_where_they_are(work->pages, deltas, count, bad);
    free(deltas);
    return status;
}

/* As apply_structs. */
static inline __attribute__((always_inline)) void apply_arrays(const array_work_t *shared, mmsb__group_t *group) {
    const array_work_t work = *shared; /* a copy that no page's bytes can be */
    const uint8_t *payload = work.runs->payload;
    const size_t count = work.runs->count;
    for (size_t i = 0; i < count; i++) {
        const target_t *target = &work.targets[i];
        if (MMSB__LIKELY(i + AHEAD < count))
            prefetch_target(target + AHEAD);
        if (MMSB__LIKELY(i + NEAR < count))
            prefetch_target(target + NEAR);
        uint64_t length = length_of(&work, i);
        if (group) {
            const mmsb__record_t *record = target->record;
            mmsb__ring_put_run(group, mmsb__record_id(MMSB__HANDLE_INDEX(work.pages[i]), mmsb__state_held(record)),
                               record->version + 1, record->epoch + 1, work.offsets[i], payload, length);
        }
        apply_target(target, work.offsets[i] & 63, length, payload, 0);
        if (!group)
            leave_target(target);
        payload += length;
    }
}

mmsb_status_t mmsb__page_apply_runs(const mmsb_page_runs_t *runs, size_t *bad_index) {
    uint64_t count = runs->count, sum = 0;
    if (count == 0)
        return check_payload(&(mmsb_delta_t){.payload = runs->payload, .payload_length = runs->payload_length}, 0);
    if (!runs->pages || !runs->offsets)
        return null_pointer(runs->pages ? "offsets" : "pages", count);
    if (misaligned(runs->pages, sizeof(uint64_t)) || misaligned(runs->offsets, sizeof(uint64_t)) ||
        misaligned(runs->lengths, sizeof(uint64_t)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "pages, offsets and lengths must be aligned to 8");
    if (count > UINT64_MAX / sizeof(uint64_t))
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "count is %llu, beyond what can be addressed", (unsigned long long)count);
    if (!runs->lengths) {
        if (__builtin_mul_overflow(count, runs->uniform_length, &sum)) {
            if (bad_index)
                *bad_index = 0;
            return mmsb__fail(MMSB_E_OUT_OF_RANGE, "%llu runs of %llu bytes are more than 2^64 bytes", (unsigned long long)count,
                              (unsigned long long)runs->uniform_length);
        }
    } else {
        for (uint64_t i = 0; i < count; i++) {
            if (__builtin_add_overflow(sum, runs->lengths[i], &sum)) {
                if (bad_index)
                    *bad_index = i;
                return mmsb__fail(MMSB_E_OUT_OF_RANGE, "the runs' lengths add up to more than 2^64 bytes");
            }
        }
    }
    mmsb_status_t status = check_payload(&(mmsb_delta_t){.payload = runs->payload, .payload_length = runs->payload_length}, sum);
    if (status != MMSB_OK)
        return status;
    mmsb__batch_t batch;
    array_work_t work = {.runs = runs,
                         .targets = (target_t *)(void *)plans_for(count),
                         .pages = runs->pages,
                         .offsets = runs->offsets,
                         .lengths = runs->lengths ? runs->lengths : &runs->uniform_length,
                         .each = runs->lengths ? SIZE_MAX : 0};
    if (!work.targets)
        return mmsb__error()->error_code;
    for (;;) {
        size_t bad;
        batch =
            (mmsb__batch_t){.first = (const uint8_t *)runs->pages, .stride = sizeof *runs->pages, .count = count, .diverts = 1};
        status = mmsb__batch_lock(&batch, check_array, &work, &bad);
        int diverted = status == MMSB__ENTER_GO;
        if (MMSB__UNLIKELY(diverted) && (status = apply_arrays_where_they_are(&work, &bad)) == MMSB__ENTER_GO)
            continue;
        if (MMSB__UNLIKELY(status != MMSB_OK) && bad_index)
            *bad_index = bad;
        if (MMSB__UNLIKELY(status != MMSB_OK || diverted))
            return status;
        if (MMSB__LIKELY(!mmsb__batch_touch(&batch, touch_array, &work)))
            break;
    }
    mmsb__group_t group;
    mmsb__ring_t *ring;
    status = mmsb__batch_ring(&batch, &ring);
    if (status == MMSB_OK && ring) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += mmsb__journal_run_space(length_of(&work, i));
        status = mmsb__ring_begin(ring, &group, bytes, count);
    }
    if (MMSB__UNLIKELY(status != MMSB_OK)) {
        mmsb__batch_unlock(&batch);
        return status;
    }
    if (MMSB__LIKELY(!ring)) {
        apply_arrays(&work, NULL);
        return MMSB_OK;
    }
    apply_arrays(&work, &group);
    status = mmsb__ring_end(&group);
    mmsb__batch_unlock(&batch);
    return mmsb__journal_settle(ring, group.last, status);
}

/* ------------------------------------------------------------------------------------------------------ replay ---- */

mmsb_status_t mmsb__redo(uint32_t index, uint64_t version, uint64_t epoch, const mmsb__redo_t *change) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint64_t length = change->delta.payload_length;
    mmsb_status_t status;
    if (record->version >= version)
        return MMSB_OK;
    if (change->is_delta) {
        status = check_locked(0, &change->delta, record, 0);
        if (status == MMSB_OK)
            apply_locked(record, &change->delta);
    } else if ((status = check_run(change->offset, length, record->size)) == MMSB_OK && length > 0) {
        memcpy(mmsb__record_bytes(record) + change->offset, change->delta.payload, length);
        mmsb__dirty_range(record, change->offset, change->offset + length - 1);
    }
    if (status == MMSB_OK) {
        __atomic_store_n(&record->version, version, __ATOMIC_RELAXED);
        __atomic_store_n(&record->epoch, epoch, __ATOMIC_RELAXED);
    }
    return status;
}

/* What a record of a run or of written bytes says; of a delta in another form only the record is known. */
typedef struct redo {
    const mmsb__journal_head_t *head;
    mmsb__record_t *record;
    const uint8_t *body; /* behind the annotation */
    uint64_t length;     /* of that */
    uint64_t offset;     /* in the page, of a run or written bytes */
} redo_t;

/* Records are looked up so far ahead of the one that is made, and bytes half as far. */
#define REDO_AHEAD 16

static inline uint64_t word_at(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static inline mmsb__record_t *page_of(const mmsb__redo_pages_t *pages, uint64_t id) {
    uint64_t mask = pages->capacity - 1;
    for (uint64_t at = id * pages->factor >> 32 & mask; pages->slots[at].id != 0; at = (at + 1) & mask) {
        if (pages->slots[at].id == id)
            return mmsb__record_at((uint32_t)pages->slots[at].index);
    }
    return NULL;
}

/* Takes a record of bytes apart: 1, or 0 where it is none of those that are made here. */
static inline int redo_read(redo_t *redo, const mmsb__redo_pages_t *pages, const uint8_t *at, uint64_t left) {
    const mmsb__journal_head_t *head = redo->head = (const mmsb__journal_head_t *)(const void *)at;
    if (left < sizeof *head || head->length < sizeof *head + 8 || head->length > left || (head->flags & MMSB__JOURNAL_PIECE))
        return 0;
    redo->body = at + sizeof *head;
    redo->length = head->length - sizeof *head;
    int kind = head->kind;
    if (kind != MMSB__JOURNAL_RUN && kind != MMSB__JOURNAL_WRITE && kind != MMSB__JOURNAL_DELTA)
        return 0;
    if (MMSB__UNLIKELY(head->flags & MMSB__JOURNAL_ANNOTATED)) {
        if (kind == MMSB__JOURNAL_WRITE || redo->length < 32)
            return 0;
        uint64_t texts = word_at(redo->body + 16);
        uint64_t annotation = 24 + (((texts & UINT32_MAX) + (texts >> 32) + 7) & ~UINT64_C(7));
        if (annotation > redo->length - 8)
            return 0;
        redo->body += annotation;
        redo->length -= annotation;
    }
    redo->offset = word_at(redo->body);
    redo->record = page_of(pages, head->page);
    if (!redo->record)
        return 0;
    __builtin_prefetch(redo->record, 1);
    return 1;
}

static inline void redo_prefetch(const redo_t *redo) {
    if (redo->head->kind == MMSB__JOURNAL_DELTA || redo->record->locator == 0 || redo->offset >= redo->record->size)
        return;
    target_t target = target_of(redo->record, 0, redo->offset);
    __builtin_prefetch(target.bytes, 1);
    __builtin_prefetch(target.bytes + 63, 1);
    if (redo->record->mask_frame != 0)
        __builtin_prefetch(target.changed, 1);
}

/* The delta of a record that is not one run: 1, or 0 where it is not as it must be. */
static int redo_delta(const redo_t *redo, mmsb_delta_t *delta) {
    uint64_t number = redo->offset, left = redo->length - 8, places = 0;
    const uint8_t *at = redo->body + 8;
    memset(delta, 0, sizeof *delta);
    delta->struct_size = sizeof *delta;
    delta->kind = redo->head->form;
    switch (redo->head->form) {
    case MMSB_DELTA_DENSE_BYTES:
    case MMSB_DELTA_DENSE_BITS:
    case MMSB_DELTA_SPARSE_BITS:
        places = redo->head->form == MMSB_DELTA_DENSE_BYTES ? number : (number >> 3) + ((number & 7) != 0);
        delta->mask = at;
        delta->mask_length = number;
        break;
    case MMSB_DELTA_INDEXED:
    case MMSB_DELTA_RUNS:
    case MMSB__JOURNAL_INDEXED32:
        if (number > left) /* each place takes more than a byte */
            return 0;
        delta->count = number;
        if (redo->head->form == MMSB_DELTA_RUNS) {
            places = number * sizeof(mmsb_run_t);
            delta->runs = (const mmsb_run_t *)(const void *)at;
        } else if (redo->head->form == MMSB_DELTA_INDEXED) {
            places = number * sizeof(uint64_t);
            delta->offsets = (const uint64_t *)(const void *)at;
        } else {
            places = number * sizeof(uint32_t);
            delta->kind = MMSB_DELTA_INDEXED;
            delta->offsets32 = (const uint32_t *)(const void *)at;
        }
        break;
    default:
        return 0;
    }
    if (places >= left) /* without a payload Go says what that means */
        return 0;
    delta->payload = at + places;
    delta->payload_length = left - places;
    return 1;
}

/* Makes the change: 1, or 0 with nothing done. */
static inline int redo_make(const redo_t *redo) {
    mmsb__record_t *record = redo->record;
    const mmsb__journal_head_t *head = redo->head;
    uint64_t length = redo->length - 8;
    mmsb_delta_t delta;
    if (record->locator == 0 || record->version >= head->version) /* the bytes are elsewhere, or have the change */
        return 0;
    if (MMSB__UNLIKELY(head->kind == MMSB__JOURNAL_DELTA)) {
        if (!redo_delta(redo, &delta) || check_locked(0, &delta, record, 0) != MMSB_OK)
            return 0;
        apply_locked(record, &delta);
    } else {
        if (redo->offset > record->size || length > record->size - redo->offset)
            return 0;
        if (head->kind == MMSB__JOURNAL_WRITE) {
            uint8_t *bytes = mmsb__record_bytes(record) + redo->offset;
            if (length > 0) {
                memcpy(bytes, redo->body + 8, length);
                mmsb__dirty_range(record, redo->offset, redo->offset + length - 1);
            }
        } else {
            if (mmsb__mask_make(record) != MMSB_OK)
                return 0;
            target_t target = target_of(record, 0, redo->offset);
            apply_target(&target, redo->offset & 63, length, redo->body + 8, 0);
        }
    }
    __atomic_store_n(&record->version, head->version, __ATOMIC_RELAXED);
    __atomic_store_n(&record->epoch, head->epoch, __ATOMIC_RELAXED);
    return 1;
}

uint64_t mmsb__redo_records(const mmsb__redo_pages_t *pages, const void *records, uint64_t length, uint64_t *count) {
    redo_t ring[REDO_AHEAD];
    const uint8_t *base = records;
    uint64_t read = 0, made = 0, at = 0;
    int more = 1;
    for (;;) {
        while (more && read - made < REDO_AHEAD) {
            redo_t *redo = &ring[read % REDO_AHEAD];
            if (!redo_read(redo, pages, base + at, length - at)) {
                more = 0;
                break;
            }
            at += (redo->head->length + UINT64_C(7)) & ~UINT64_C(7);
            if (at > length)
                at = length;
            read++;
        }
        if (made == read)
            break;
        const redo_t *soon = &ring[(made + REDO_AHEAD / 2) % REDO_AHEAD];
        if (made + REDO_AHEAD / 2 < read)
            redo_prefetch(soon);
        if (!redo_make(&ring[made % REDO_AHEAD])) {
            at = (uint64_t)((const uint8_t *)ring[made % REDO_AHEAD].head - base);
            break;
        }
        made++;
    }
    *count = made;
    return at;
}
