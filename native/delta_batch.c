/*
 * Batches of deltas, as structs (mmsb_page_apply_many) and as arrays of runs (mmsb_page_apply_runs): pass one locks and checks
 * all items and finds out where each run goes, pass two copies.
 */
#include "delta_batch.h"

#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "delta_input.h"
#include "disk.h"
#include "id.h"

/* What pass one of a batch finds out of a delta that is one run. */
typedef struct plan {
    mmsb__target_t target;
    const uint8_t *payload;
    uint64_t length_and_bit; /* length << 6 | first bit in *changed */
} plan_t;

/* The thread's memory for so many plans; NULL with the last error set. It is kept for the next batch. */
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

/* How many items ahead the lines of pages and masks are fetched, and how many ahead once more: some have not come the first time.
 * */
#define AHEAD 24
#define NEAR 8

/* ------------------------------------------------------------------------------------------------------ structs ---- */

typedef struct struct_work {
    const mmsb_page_t *pages;
    const mmsb_delta_t *deltas;
    plan_t *plans;
    size_t count;
    int chosen_epochs;      /* some delta names its epoch */
    mmsb__blocks_t changes; /* what the batch changes */
    mmsb__blocks_t reads;   /* what deltas name that are not one run */
    mmsb_delta_t *copied;   /* the deltas, where something of them lies in that */
    void *handles;          /* the pages, likewise */
    mmsb__reach_t reach;    /* of what is on disk */
} struct_work_t;

/* Whether the delta is one run and nothing else in it needs a look: what most deltas of large batches are. Offsets that follow
 * each other are a run, too. */
static inline __attribute__((always_inline)) int is_one_run(const mmsb_delta_t *delta, const mmsb__record_t *record,
                                                            uint64_t state, uint64_t *offset, uint64_t *length) {
    if (delta->struct_size != sizeof *delta || (state & (MMSB__READ_ONLY | MMSB__NONRESIDENT)) || delta->source ||
        delta->intent || !delta->payload ||
        (delta->reserved[0] | delta->reserved[1] | delta->reserved[2] | delta->reserved[3] | delta->page_id) != 0)
        return 0;
    if (delta->kind == MMSB_DELTA_RUNS && delta->count == 1 && delta->runs && !mmsb__misaligned(delta->runs, 8)) {
        *offset = delta->runs->offset;
        *length = delta->runs->length;
    } else if (delta->kind == MMSB_DELTA_INDEXED && delta->offsets && !delta->offsets32 && !mmsb__misaligned(delta->offsets, 8) &&
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

/* Where the page is on disk, notes how far the delta reaches there; what it addresses may lie so far apart that the page gets an
 * address. */
static mmsb_status_t check_on_disk(struct_work_t *work, size_t i, const mmsb__record_t *record, uint64_t state) {
    uint64_t first, length;
    if (MMSB__LIKELY(!mmsb__on_disk(record, state)))
        return MMSB_OK;
    if (!mmsb__delta_fits_window(&work->deltas[i], &first, &length))
        return mmsb__page_make_resident(record, &state);
    mmsb__reach_add(&work->reach, mmsb__disk_at(record, first), length, i);
    return MMSB_OK;
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
        *plan = (plan_t){mmsb__target_of(record, state, offset), delta->payload, length << 6 | (offset & 63)};
        mmsb__blocks_add(&work->changes, plan->target.bytes, length);
    } else {
        status = mmsb__delta_check_page(work->pages[i], delta, record, state);
        if (MMSB__LIKELY(status == MMSB_OK))
            status = check_on_disk(work, i, record, state);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        plan->target = (mmsb__target_t){record, state, NULL, NULL};
        mmsb__blocks_add_delta(&work->reads, delta);
        if (mmsb__addressed(mmsb__state_held(record)))
            mmsb__blocks_add(&work->changes, mmsb__record_bytes(record), record->size);
    }
    work->chosen_epochs |= delta->epoch != 0;
    /* Where earlier deltas of the batch move the epoch they move it up: what is too old now is too old then. The rest:
     * check_epochs. */
    return mmsb__delta_check_epoch(work->pages[i], delta->epoch, record->epoch);
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
        return mmsb__fail(MMSB_E_LIMIT, "batch of %zu deltas with chosen epochs exceeds the limit of %u", count, UINT32_MAX);
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
    return mmsb__delta_check_epoch(work->pages[first_bad], work->deltas[first_bad].epoch, bad_epoch);
}

/* While pages are captured their lines are read before the pass that changes them. */
static mmsb_status_t keep_struct(const void *argument, size_t i, mmsb__record_t *record, uint64_t state) {
    const struct_work_t *work = argument;
    if (i + NEAR < work->count && work->plans[i + NEAR].target.bytes)
        mmsb__target_prefetch(&work->plans[i + NEAR].target);
    return mmsb__delta_keep(record, state, &work->deltas[i]);
}

static mmsb_status_t check_item(void *argument, size_t i, mmsb__record_t *record, uint64_t state) {
    struct_work_t *work = argument;
    mmsb_status_t status = mmsb__delta_check_page(work->pages[i], &work->deltas[i], record, state);
    work->chosen_epochs |= work->deltas[i].epoch != 0;
    if (status == MMSB_OK)
        mmsb__blocks_add_delta(&work->reads, &work->deltas[i]);
    if (mmsb__addressed(mmsb__state_held(record)))
        mmsb__blocks_add(&work->changes, mmsb__record_bytes(record), record->size);
    return status == MMSB_OK ? mmsb__delta_check_epoch(work->pages[i], work->deltas[i].epoch, record->epoch) : status;
}

/* Whether item i changes memory of an array. */
static int item_meets(const struct_work_t *work, size_t i, const void *array, uint64_t bytes) {
    const mmsb__target_t *target = &work->plans[i].target;
    if (target->bytes)
        return mmsb__meets(target->bytes, work->plans[i].length_and_bit >> 6, array, bytes);
    return mmsb__addressed(mmsb__state_held(target->record)) &&
           mmsb__meets(mmsb__record_bytes(target->record), target->record->size, array, bytes);
}

/* The deltas are large: where only their block is that of a page, a closer look costs less than a copy. */
static int array_meets(const struct_work_t *work, const void *array, uint64_t bytes) {
    if (MMSB__LIKELY(!mmsb__blocks_have(&work->changes, array, bytes)))
        return 0;
    for (size_t i = 0; work->plans && i < work->count; i++)
        if (item_meets(work, i, array, bytes))
            return 1;
    return work->plans == NULL; /* on devices */
}

/* Whether the pages that a valid batch changes may have something that it still reads: of one run, without a journal, that is its
 * delta alone. */
static int meets_itself(struct_work_t *work) {
    for (size_t i = 0; MMSB__UNLIKELY(mmsb__watched()) && i < work->count; i++)
        mmsb__blocks_add_delta(&work->reads, &work->deltas[i]);
    return mmsb__blocks_meet(&work->changes, &work->reads) ||
           array_meets(work, work->deltas, work->count * sizeof *work->deltas) ||
           array_meets(work, work->pages, work->count * sizeof *work->pages);
}

/* Goes on with a copy of what the batch reads. What one run copies is where it was. */
static __attribute__((cold, noinline)) mmsb_status_t copy_structs(struct_work_t *work, mmsb__batch_t *batch) {
    work->copied = mmsb__deltas_copy(work->deltas, work->count);
    work->handles = work->copied ? mmsb__array_copy(work->pages, work->count, sizeof *work->pages) : NULL;
    if (!work->handles)
        return mmsb__error()->error_code;
    work->deltas = work->copied;
    work->pages = work->handles;
    batch->first = work->handles;
    return MMSB_OK;
}

/* Whether an item before the bad one, or any, has too old an epoch: earlier deltas of its page move it. And whether what is on
 * disk may be written. */
static mmsb_status_t check_order(void *argument, mmsb__batch_t *batch, mmsb_status_t status, size_t *bad) {
    struct_work_t *work = argument;
    size_t first_bad = 0;
    if (MMSB__UNLIKELY(batch->repeats && work->chosen_epochs)) {
        mmsb_status_t order = check_epochs(work, status == MMSB_OK ? batch->count : batch->bad, &first_bad);
        if (order != MMSB_OK) {
            *bad = first_bad;
            return order;
        }
    }
    if (MMSB__UNLIKELY(work->reach.length > 0) && status == MMSB_OK)
        status = mmsb__disk_may_reach(&work->reach, bad);
    if (MMSB__UNLIKELY(work->handles != NULL)) /* this is another try */
        batch->first = work->handles;
    else if (MMSB__UNLIKELY(status == MMSB_OK && meets_itself(work)))
        return copy_structs(work, batch);
    return status;
}

static void change_either(void *argument, size_t i, mmsb__record_t *record, int on_device) {
    const struct_work_t *work = argument;
    if (on_device) {
        mmsb__delta_mark(record, &work->deltas[i]);
        mmsb__epoch_move(record, work->deltas[i].epoch);
    } else {
        mmsb__delta_change(record, &work->deltas[i]);
    }
}

static void free_copies(struct_work_t *work) {
    free(work->copied);
    free(work->handles);
}

static mmsb_status_t apply_on_devices(void *argument, size_t count, size_t *bad) {
    static const mmsb__changes_kind_t kind = {.check_all = check_order};
    const struct_work_t *given = argument;
    struct_work_t work = {.pages = given->pages, .deltas = given->deltas, .count = count};
    mmsb_status_t status = mmsb__changes_on_devices(work.pages, work.deltas, count, check_item, &kind, change_either, &work, bad);
    free_copies(&work);
    return status;
}

static void measure_structs(const void *argument, size_t count, uint64_t *bytes, uint64_t *records) {
    const struct_work_t *work = argument;
    for (size_t i = 0; i < count; i++)
        *bytes += mmsb__journal_delta_space(&work->deltas[i]);
    *records = count;
}

static mmsb_status_t first_of(mmsb_status_t first, mmsb_status_t second) {
    return first != MMSB_OK ? first : second;
}

/* The second pass: changes the pages and tells the journal, where there is one; without one each page is unlocked with its last
 * change. */
static inline __attribute__((always_inline)) mmsb_status_t apply_structs(const struct_work_t *work, size_t count,
                                                                         mmsb__group_t *group) {
    const mmsb_delta_t *deltas = work->deltas;
    mmsb_status_t status = MMSB_OK;
    for (size_t i = 0; i < count; i++) {
        const plan_t *plan = &work->plans[i];
        if (group) {
            const mmsb__record_t *record = plan->target.record;
            mmsb__ring_put_delta(group, mmsb__record_id(MMSB__HANDLE_INDEX(work->pages[i]), mmsb__state_held(record)),
                                 record->version + 1, mmsb__epoch_after(record, deltas[i].epoch), &deltas[i]);
        }
        if (MMSB__LIKELY(i + AHEAD < count && plan[AHEAD].target.bytes))
            mmsb__target_prefetch(&plan[AHEAD].target);
        if (MMSB__LIKELY(i + NEAR < count && plan[NEAR].target.bytes))
            mmsb__target_prefetch(&plan[NEAR].target);
        if (MMSB__LIKELY(plan->target.bytes != NULL))
            mmsb__target_change(&plan->target, plan->length_and_bit & 63, plan->length_and_bit >> 6, plan->payload,
                                deltas[i].epoch);
        else if (!mmsb__on_disk(plan->target.record, plan->target.state))
            mmsb__delta_change(plan->target.record, &deltas[i]);
        else
            status = first_of(status, mmsb__delta_change_on_disk(plan->target.record, &deltas[i]));
        if (!group)
            mmsb__batch_leave(plan->target.record, plan->target.state);
    }
    return status;
}

mmsb_status_t mmsb__page_apply_many(const mmsb_page_t *pages, const mmsb_delta_t *deltas, size_t count, size_t *bad_index) {
    static const mmsb__changes_kind_t kind = {
        .check_all = check_order, .keep = keep_struct, .measure = measure_structs, .on_devices = apply_on_devices};
    struct_work_t work = {.pages = pages, .deltas = deltas, .plans = plans_for(count), .count = count};
    if (!work.plans && count > 0)
        return mmsb__error()->error_code;
    mmsb__batch_t batch = {
        .first = (const uint8_t *)pages, .stride = sizeof *pages, .count = count, .on_disk = 1, .diverts = 1, .keeps = 1};
    mmsb__changes_t changes;
    mmsb_status_t status = mmsb__changes_begin(&changes, batch, check_struct, &kind, &work, bad_index);
    if (MMSB__LIKELY(status == MMSB_OK)) {
        status = apply_structs(&work, changes.batch.count, changes.ring ? &changes.group : NULL);
        if (MMSB__UNLIKELY(changes.ring != NULL))
            status = first_of(status, mmsb__changes_end(&changes));
    }
    if (MMSB__UNLIKELY(work.copied != NULL))
        free_copies(&work);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- arrays ---- */

typedef struct array_work {
    const mmsb_page_runs_t *runs;
    mmsb__target_t *targets;
    const uint64_t *pages, *offsets, *lengths;
    size_t each;            /* 0: one length for all */
    mmsb__blocks_t changes; /* what the batch changes */
    uint64_t *copied;       /* the arrays, where they lie in that */
} array_work_t;

static inline uint64_t length_of(const array_work_t *work, size_t i) {
    return work->lengths[i & work->each];
}

static inline __attribute__((always_inline)) mmsb_status_t check_array(void *argument, size_t i, mmsb__record_t *record,
                                                                       uint64_t state) {
    array_work_t *work = argument;
    uint64_t offset = work->offsets[i], length = length_of(work, i);
    if (MMSB__UNLIKELY(state & MMSB__READ_ONLY))
        return mmsb__page_read_only_fail(work->pages[i]);
    mmsb_status_t status = mmsb__delta_check_run(offset, length, record->size);
    if (MMSB__UNLIKELY(status != MMSB_OK) || MMSB__UNLIKELY((status = mmsb__mask_make(record)) != MMSB_OK))
        return status;
    work->targets[i] = mmsb__target_of(record, state, offset);
    mmsb__blocks_add(&work->changes, work->targets[i].bytes, length);
    return mmsb__delta_check_epoch(work->pages[i], 0, record->epoch);
}

/* The arrays together, one behind the other: pages, offsets, lengths. */
static __attribute__((cold, noinline)) mmsb_status_t copy_arrays(array_work_t *work) {
    const size_t count = work->runs->count;
    work->copied = malloc(3 * count * sizeof(uint64_t));
    if (!work->copied)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a copy of the arrays of %zu runs", count);
    memcpy(work->copied, work->pages, count * sizeof(uint64_t));
    memcpy(work->copied + count, work->offsets, count * sizeof(uint64_t));
    work->pages = work->copied;
    work->offsets = work->copied + count;
    if (work->each != 0) {
        memcpy(work->copied + 2 * count, work->lengths, count * sizeof(uint64_t));
        work->lengths = work->copied + 2 * count;
    }
    return MMSB_OK;
}

/* Arrays that lie in pages of the batch are copied. */
static mmsb_status_t check_own(void *argument, mmsb__batch_t *batch, mmsb_status_t status, size_t *bad) {
    array_work_t *work = argument;
    const uint64_t bytes = work->runs->count * sizeof(uint64_t);
    (void)bad;
    if (MMSB__UNLIKELY(status == MMSB_OK && !work->copied &&
                       (mmsb__blocks_have(&work->changes, work->pages, bytes) ||
                        mmsb__blocks_have(&work->changes, work->offsets, bytes) ||
                        mmsb__blocks_have(&work->changes, work->lengths, work->each != 0 ? bytes : sizeof(uint64_t)))))
        status = copy_arrays(work);
    if (MMSB__UNLIKELY(work->copied != NULL))
        batch->first = (const uint8_t *)work->copied;
    return status;
}

static mmsb_status_t keep_array(const void *argument, size_t i, mmsb__record_t *record, uint64_t state) {
    const array_work_t *work = argument;
    if (i + NEAR < work->runs->count)
        mmsb__target_prefetch(&work->targets[i + NEAR]);
    return mmsb__preimage_keep(record, state, work->offsets[i], length_of(work, i));
}

static mmsb_status_t apply_arrays_on_devices(void *argument, size_t count, size_t *bad) {
    typedef struct one {
        mmsb_delta_t delta;
        mmsb_run_t run;
    } one_t;
    const array_work_t *work = argument;
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
    struct_work_t structs = {.pages = work->pages, .deltas = deltas};
    mmsb_status_t status = apply_on_devices(&structs, count, bad);
    free(deltas);
    return status;
}

static void measure_arrays(const void *argument, size_t count, uint64_t *bytes, uint64_t *records) {
    const array_work_t *work = argument;
    for (size_t i = 0; i < count; i++)
        *bytes += mmsb__journal_run_space(length_of(work, i));
    *records = count;
}

/* As apply_structs. */
static inline __attribute__((always_inline)) void apply_arrays(const array_work_t *shared, size_t count, mmsb__group_t *group) {
    const array_work_t work = *shared; /* a copy that no page's bytes can be */
    const uint8_t *payload = work.runs->payload;
    for (size_t i = 0; i < count; i++) {
        const mmsb__target_t *target = &work.targets[i];
        if (MMSB__LIKELY(i + AHEAD < count))
            mmsb__target_prefetch(target + AHEAD);
        if (MMSB__LIKELY(i + NEAR < count))
            mmsb__target_prefetch(target + NEAR);
        uint64_t length = length_of(&work, i);
        if (group) {
            const mmsb__record_t *record = target->record;
            mmsb__ring_put_run(group, mmsb__record_id(MMSB__HANDLE_INDEX(work.pages[i]), mmsb__state_held(record)),
                               record->version + 1, record->epoch + 1, work.offsets[i], payload, length);
        }
        mmsb__target_change(target, work.offsets[i] & 63, length, payload, 0);
        if (!group)
            mmsb__batch_leave(target->record, target->state);
        payload += length;
    }
}

/* The arrays themselves, before any page is looked at. */
static mmsb_status_t check_arrays(const mmsb_page_runs_t *runs, size_t *bad_index) {
    uint64_t count = runs->count, sum = 0;
    if (count == 0)
        return mmsb__delta_check_payload(&(mmsb_delta_t){.payload = runs->payload, .payload_length = runs->payload_length}, 0);
    if (!runs->pages || !runs->offsets)
        return mmsb__delta_null_fail(runs->pages ? "offsets" : "pages", count);
    if (mmsb__misaligned(runs->pages, sizeof(uint64_t)) || mmsb__misaligned(runs->offsets, sizeof(uint64_t)) ||
        mmsb__misaligned(runs->lengths, sizeof(uint64_t)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "pages, offsets and lengths must be aligned to 8");
    if (count > PTRDIFF_MAX / sizeof(uint64_t))
        return mmsb__delta_count_fail(count, sizeof(uint64_t));
    if (!runs->lengths) {
        if (__builtin_mul_overflow(count, runs->uniform_length, &sum)) {
            if (bad_index)
                *bad_index = 0;
            return mmsb__fail(MMSB_E_OUT_OF_RANGE, "%llu runs of %llu bytes exceed 2^64 - 1 bytes", (unsigned long long)count,
                              (unsigned long long)runs->uniform_length);
        }
    } else {
        for (uint64_t i = 0; i < count; i++) {
            if (__builtin_add_overflow(sum, runs->lengths[i], &sum)) {
                if (bad_index)
                    *bad_index = i;
                return mmsb__fail(MMSB_E_OUT_OF_RANGE, "run lengths add up to more than 2^64 - 1 bytes");
            }
        }
    }
    return mmsb__delta_check_payload(&(mmsb_delta_t){.payload = runs->payload, .payload_length = runs->payload_length}, sum);
}

mmsb_status_t mmsb__page_apply_runs(const mmsb_page_runs_t *runs, size_t *bad_index) {
    static const mmsb__changes_kind_t kind = {
        .check_all = check_own, .keep = keep_array, .measure = measure_arrays, .on_devices = apply_arrays_on_devices};
    mmsb_status_t status = check_arrays(runs, bad_index);
    if (status != MMSB_OK || runs->count == 0)
        return status;
    array_work_t work = {.runs = runs,
                         .targets = (mmsb__target_t *)(void *)plans_for(runs->count),
                         .pages = runs->pages,
                         .offsets = runs->offsets,
                         .lengths = runs->lengths ? runs->lengths : &runs->uniform_length,
                         .each = runs->lengths ? SIZE_MAX : 0};
    if (!work.targets)
        return mmsb__error()->error_code;
    mmsb__batch_t batch = {
        .first = (const uint8_t *)runs->pages, .stride = sizeof *runs->pages, .count = runs->count, .diverts = 1, .keeps = 1};
    mmsb__changes_t changes;
    status = mmsb__changes_begin(&changes, batch, check_array, &kind, &work, bad_index);
    if (MMSB__LIKELY(status == MMSB_OK)) {
        apply_arrays(&work, changes.batch.count, changes.ring ? &changes.group : NULL);
        if (MMSB__UNLIKELY(changes.ring != NULL))
            status = mmsb__changes_end(&changes);
    }
    if (MMSB__UNLIKELY(work.copied != NULL))
        free(work.copied);
    return status;
}
