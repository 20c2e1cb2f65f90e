/* One delta: whether it is valid, and its change to a page. Batches are in delta_batch.c, changes of a journal in redo.c. */
#include "delta.h"

#include <stdlib.h>

#include "change.h"
#include "delta_input.h"
#include "disk.h"
#include "id.h"

/* ------------------------------------------------------------------------------------------------------ checks ---- */

mmsb_status_t mmsb__delta_null_fail(const char *what, uint64_t count) {
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "%s is NULL, %llu expected", what, (unsigned long long)count);
}

mmsb_status_t mmsb__delta_count_fail(uint64_t count, size_t size) {
    return mmsb__fail(MMSB_E_INVALID_SIZE, "count %llu exceeds the limit of %llu", (unsigned long long)count,
                      (unsigned long long)(PTRDIFF_MAX / size));
}

mmsb_status_t mmsb__delta_check_payload(const mmsb_delta_t *delta, uint64_t needed) {
    if (MMSB__UNLIKELY(delta->payload_length != 0 && delta->payload_length != needed))
        return mmsb__fail(MMSB_E_MISMATCH, "payload_length is %llu, %llu expected", (unsigned long long)delta->payload_length,
                          (unsigned long long)needed);
    if (MMSB__UNLIKELY(!delta->payload && needed > 0))
        return mmsb__delta_null_fail("payload", needed);
    return MMSB_OK;
}

static mmsb_status_t check_mask(const mmsb_delta_t *delta, uint64_t page_size) {
    if (delta->mask_length > page_size)
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "mask_length %llu exceeds the page, size %llu",
                          (unsigned long long)delta->mask_length, (unsigned long long)page_size);
    if (!delta->mask && delta->mask_length > 0)
        return mmsb__delta_null_fail("mask", delta->mask_length);
    uint64_t needed = delta->mask_length;
    if (delta->kind == MMSB_DELTA_SPARSE_BITS)
        needed = mmsb__bytes.count_bits(delta->mask, delta->mask_length);
    return mmsb__delta_check_payload(delta, needed);
}

static mmsb_status_t check_offsets(const mmsb_delta_t *delta, uint64_t page_size) {
    uint64_t count = delta->count;
    if (count == 0)
        return mmsb__delta_check_payload(delta, 0);
    if ((delta->offsets != NULL) == (delta->offsets32 != NULL))
        return delta->offsets ? mmsb__fail(MMSB_E_INVALID_ARGUMENT, "both offsets and offsets32 are set")
                              : mmsb__delta_null_fail("offsets", count);
    if (count > PTRDIFF_MAX / sizeof(uint64_t))
        return mmsb__delta_count_fail(count, sizeof(uint64_t));
    if (mmsb__misaligned(delta->offsets, sizeof(uint64_t)) || mmsb__misaligned(delta->offsets32, sizeof(uint32_t)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "offsets at %p are not aligned to their size",
                          delta->offsets ? (const void *)delta->offsets : (const void *)delta->offsets32);
    uint64_t largest =
        delta->offsets ? mmsb__bytes.maximum64(delta->offsets, count) : mmsb__bytes.maximum32(delta->offsets32, count);
    if (largest >= page_size)
        return mmsb__fail(MMSB_E_OUT_OF_RANGE, "offset %llu exceeds the page, size %llu", (unsigned long long)largest,
                          (unsigned long long)page_size);
    return mmsb__delta_check_payload(delta, count);
}

mmsb_status_t mmsb__delta_run_fail(uint64_t offset, uint64_t length, uint64_t page_size) {
    return mmsb__fail(MMSB_E_OUT_OF_RANGE, "run at offset %llu + length %llu exceeds the page, size %llu",
                      (unsigned long long)offset, (unsigned long long)length, (unsigned long long)page_size);
}

static mmsb_status_t check_runs(const mmsb_delta_t *delta, uint64_t page_size) {
    uint64_t count = delta->count, sum = 0;
    if (count == 0)
        return mmsb__delta_check_payload(delta, 0);
    if (!delta->runs)
        return mmsb__delta_null_fail("runs", count);
    if (count > PTRDIFF_MAX / sizeof(mmsb_run_t))
        return mmsb__delta_count_fail(count, sizeof(mmsb_run_t));
    if (mmsb__misaligned(delta->runs, sizeof(uint64_t)))
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "runs at %p are not aligned to 8", (const void *)delta->runs);
    for (uint64_t i = 0; i < count; i++) {
        mmsb_status_t status = mmsb__delta_check_run(delta->runs[i].offset, delta->runs[i].length, page_size);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        if (MMSB__UNLIKELY(__builtin_add_overflow(sum, delta->runs[i].length, &sum)))
            return mmsb__fail(MMSB_E_OUT_OF_RANGE, "run lengths add up to more than 2^64 - 1 bytes");
    }
    return mmsb__delta_check_payload(delta, sum);
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
        return mmsb__fail(MMSB_E_STRUCT_VERSION, "reserved word of the delta is not 0");
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
        status = mmsb__fail(MMSB_E_INVALID_ARGUMENT, "kind %d is not a kind of delta", delta->kind);
    }
    if (MMSB__LIKELY(status == MMSB_OK))
        status = check_text("source", delta->source);
    if (MMSB__LIKELY(status == MMSB_OK))
        status = check_text("intent", delta->intent);
    return status;
}

mmsb_status_t mmsb__delta_epoch_fail(uint64_t page, uint64_t wanted, uint64_t epoch) {
    if (wanted == 0)
        return mmsb__fail(MMSB_E_EPOCH, "page 0x%016llx is at the last epoch, 2^64 - 1", (unsigned long long)page);
    return mmsb__fail(MMSB_E_EPOCH, "epoch %llu of the delta is not larger than epoch %llu of page 0x%016llx",
                      (unsigned long long)wanted, (unsigned long long)epoch, (unsigned long long)page);
}

mmsb_status_t mmsb__delta_check_page(uint64_t page, const mmsb_delta_t *delta, mmsb__record_t *record, uint64_t state) {
    if (MMSB__UNLIKELY(state & MMSB__READ_ONLY))
        return mmsb__page_read_only_fail(page);
    mmsb_status_t status = mmsb__delta_check(delta, record->size);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    if (MMSB__UNLIKELY(delta->page_id != 0)) {
        uint64_t id = mmsb__record_id(mmsb__record_index(record), state);
        if (delta->page_id != id)
            return mmsb__fail(MMSB_E_MISMATCH, "page_id of the delta is %llu, but the page is %llu",
                              (unsigned long long)delta->page_id, (unsigned long long)id);
    }
    return mmsb__mask_make(record);
}

/* ----------------------------------------------------------------------------------------------------- changes ---- */

static inline void apply_run(mmsb__record_t *record, uint8_t *bytes, uint8_t *changed, uint64_t offset, uint64_t length,
                             const uint8_t *payload) {
    if (length == 0)
        return;
    memcpy(bytes + offset, payload, length);
    mmsb__bits_set_range(changed, offset, length);
    mmsb__dirty_range(record, offset, offset + length - 1);
}

void mmsb__delta_change_at(mmsb__record_t *record, uint8_t *bytes, const mmsb_delta_t *delta) {
    uint8_t *changed = mmsb__locator_address(record->mask_locator);
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
    mmsb__epoch_move(record, delta->epoch);
}

/* Before a run of a delta changes. *line is the last one that was kept. */
static inline mmsb_status_t keep_run(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length, uint64_t *line) {
    if (length == 0 || (offset / MMSB__LINE_BYTES == *line && (offset + length - 1) / MMSB__LINE_BYTES == *line))
        return MMSB_OK;
    *line = (offset + length - 1) / MMSB__LINE_BYTES;
    return mmsb__preimage_keep(record, state, offset, length);
}

mmsb_status_t mmsb__delta_keep(mmsb__record_t *record, uint64_t state, const mmsb_delta_t *delta) {
    uint32_t moments = mmsb__moments_now();
    mmsb_status_t status = MMSB_OK;
    uint64_t line = UINT64_MAX;
    switch (delta->kind) {
    case MMSB_DELTA_RUNS:
        for (uint64_t i = 0; status == MMSB_OK && i < delta->count; i++)
            status = keep_run(record, state, delta->runs[i].offset, delta->runs[i].length, &line);
        break;
    case MMSB_DELTA_INDEXED:
        for (uint64_t i = 0; status == MMSB_OK && i < delta->count; i++)
            status = keep_run(record, state, delta->offsets ? delta->offsets[i] : delta->offsets32[i], 1, &line);
        break;
    default:
        status = keep_run(record, state, 0, delta->mask_length, &line);
    }
    if (line == UINT64_MAX) /* no byte changes, but the epoch moves */
        status = mmsb__preimage_keep(record, state, 0, 0);
    return status != MMSB_OK || !mmsb__moment_came(moments) ? status : mmsb__delta_keep(record, state, delta);
}

void mmsb__delta_mark(mmsb__record_t *record, const mmsb_delta_t *delta) {
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

/* A valid delta of a page that stays on its device. */
static mmsb_status_t apply_on_device(mmsb__record_t *record, const mmsb_delta_t *delta) {
    uint64_t state;
    mmsb_status_t status = mmsb__upcalls.device_apply(mmsb__record_index(record), delta);
    if (status == MMSB_OK) {
        mmsb__delta_mark(record, delta);
        mmsb__epoch_move(record, delta->epoch);
    } else if (status == MMSB_E_UNSUPPORTED && (status = mmsb__page_make_resident(record, &state)) == MMSB_OK) {
        mmsb__delta_change(record, delta);
    }
    return status;
}

/* The bytes that a valid delta addresses lie within [*first, *end). */
static void span_of(const mmsb_delta_t *delta, uint64_t *first, uint64_t *end) {
    *first = delta->count > 0 ? UINT64_MAX : 0;
    *end = 0;
    if (delta->kind != MMSB_DELTA_RUNS && delta->kind != MMSB_DELTA_INDEXED) {
        *first = 0;
        *end = delta->mask_length;
        return;
    }
    for (uint64_t i = 0; i < delta->count; i++) {
        const uint64_t offset = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].offset
                                : delta->offsets               ? delta->offsets[i]
                                                               : delta->offsets32[i],
                       length = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].length : 1;
        *first = offset < *first ? offset : *first;
        *end = offset + length > *end ? offset + length : *end;
    }
}

/* What a delta addresses of a page on disk. */
typedef struct window {
    uint64_t first, length;
    uint8_t *bytes, own[4096];
} window_t;

enum { WINDOW_MOST = 64 << 10 };

int mmsb__delta_fits_window(const mmsb_delta_t *delta, uint64_t *first, uint64_t *length) {
    uint64_t end;
    span_of(delta, first, &end);
    *length = end - *first;
    return *length <= WINDOW_MOST;
}

/* Reads it. */
static mmsb_status_t open_window(window_t *window, const mmsb__record_t *record, const mmsb_delta_t *delta) {
    uint64_t end;
    span_of(delta, &window->first, &end);
    window->length = end - window->first;
    window->bytes = window->length <= sizeof window->own ? window->own : malloc(window->length);
    if (!window->bytes)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for %llu bytes of a page on disk", (unsigned long long)window->length);
    return mmsb__disk_read(record, window->first, window->bytes, window->length);
}

/* Changes and writes it. */
static mmsb_status_t change_window(window_t *window, mmsb__record_t *record, const mmsb_delta_t *delta) {
    uint8_t *page = (uint8_t *)((uintptr_t)window->bytes - window->first); /* where it would begin, if all of it were here */
    mmsb__delta_change_at(record, page, delta);
    return mmsb__disk_write(record, window->first, window->bytes, window->length);
}

static void close_window(window_t *window) {
    if (window->bytes != window->own)
        free(window->bytes);
}

mmsb_status_t mmsb__delta_change_on_disk(mmsb__record_t *record, const mmsb_delta_t *delta) {
    window_t window;
    mmsb_status_t status = open_window(&window, record, delta);
    if (status == MMSB_OK)
        status = change_window(&window, record, delta);
    close_window(&window);
    return status;
}

/* The last steps that can fail before the bytes change. */
static inline mmsb_status_t keep_and_journal(mmsb__change_t *change, const mmsb_delta_t *delta) {
    if (MMSB__LIKELY(!mmsb__watched()))
        return MMSB_OK;
    mmsb_status_t status = mmsb__delta_keep(change->record, change->state, delta);
    if (status != MMSB_OK)
        return status;
    return mmsb__change_journal_delta(change, mmsb__epoch_after(change->record, delta->epoch), delta);
}

/* A valid delta of a page on disk, which is read before the journal is told. MMSB__ENTER_GO, nothing done: the page needs an
 * address, so far does the delta reach. */
static mmsb_status_t apply_on_disk(mmsb__change_t *change, const mmsb_delta_t *delta) {
    window_t window;
    if (!mmsb__delta_fits_window(delta, &window.first, &window.length))
        return MMSB__ENTER_GO;
    mmsb_status_t status = open_window(&window, change->record, delta);
    if (status == MMSB_OK)
        status = mmsb__disk_may_write(change->record, window.first, window.length);
    if (status == MMSB_OK)
        status = keep_and_journal(change, delta);
    if (status == MMSB_OK)
        status = change_window(&window, change->record, delta);
    close_window(&window);
    return status;
}

/* A valid delta of a page on a device. */
static mmsb_status_t apply_there(mmsb__change_t *change, const mmsb_delta_t *delta) {
    mmsb_status_t status = mmsb__watched() ? mmsb__change_prepare(change, delta) : MMSB_OK;
    if (status == MMSB_OK)
        status = keep_and_journal(change, delta);
    if (status != MMSB_OK)
        return status;
    if (change->on_device)
        return mmsb__change_state(change, apply_on_device(change->record, delta));
    mmsb__delta_change(change->record, delta);
    return MMSB_OK;
}

static inline mmsb_status_t apply_locked(mmsb__change_t *change, const mmsb_delta_t *delta) {
    mmsb_status_t status;
    if (MMSB__UNLIKELY(change->on_device)) {
        mmsb__change_t there = *change; /* which has no address */
        status = apply_there(&there, delta);
        *change = there;
        return status;
    }
    if (MMSB__UNLIKELY(change->on_disk)) {
        mmsb__change_t told = *change; /* which has no address */
        status = apply_on_disk(&told, delta);
        if (status == MMSB__ENTER_GO && (status = mmsb__page_make_resident(told.record, &told.state)) == MMSB_OK)
            status = MMSB__ENTER_GO;
        *change = told;
        if (status != MMSB__ENTER_GO)
            return status;
    }
    status = keep_and_journal(change, delta);
    if (MMSB__LIKELY(status == MMSB_OK))
        mmsb__delta_change(change->record, delta);
    return status;
}

mmsb_status_t mmsb__delta_apply(mmsb__change_t *change, const mmsb_delta_t *delta) {
    return apply_locked(change, delta);
}

/* Whether the page that a valid delta changes has something of the delta. */
static inline int meets_page(const mmsb__record_t *record, uint64_t state, const mmsb_delta_t *delta) {
    if (MMSB__UNLIKELY(!mmsb__addressed(state)))
        return 0;
    return mmsb__page_has_delta_quickly(mmsb__record_bytes(record), record->size, delta);
}

/* A copy is checked again: between the locks others may change the page. */
static __attribute__((cold, noinline)) mmsb_status_t apply_copy(uint64_t page, mmsb_delta_t *copy) {
    mmsb_status_t status = mmsb__page_apply(page, copy);
    free(copy);
    return status;
}

mmsb_status_t mmsb__page_apply(uint64_t page, const mmsb_delta_t *delta) {
    mmsb__change_t change;
    mmsb_delta_t *copy = NULL;
    mmsb_status_t status;
    do {
        status = mmsb__change_begin(&change, page);
        if (MMSB__UNLIKELY(status != MMSB_OK))
            return status;
        status = mmsb__delta_check_page(page, delta, change.record, change.state);
        if (MMSB__LIKELY(status == MMSB_OK))
            status = mmsb__delta_check_epoch(page, delta->epoch, change.record->epoch);
        if (MMSB__UNLIKELY(status == MMSB_OK && meets_page(change.record, change.state, delta))) {
            copy = mmsb__deltas_copy(delta, 1);
            status = copy ? MMSB_OK : mmsb__error()->error_code;
        } else if (MMSB__LIKELY(status == MMSB_OK)) {
            status = apply_locked(&change, delta);
        }
        status = mmsb__change_end(&change, status);
    } while (MMSB__UNLIKELY(status != MMSB_OK) && mmsb__change_again(status, page));
    return MMSB__UNLIKELY(copy != NULL) ? apply_copy(page, copy) : status;
}
