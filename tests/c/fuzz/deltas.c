/* Deltas of all kinds, what they do to the model's pages, and the calls that apply them; the mask of what they changed. */
#include "fuzz.h"

/* A good delta for a page of size bytes. */
void make_delta(made_delta_t *made, uint64_t size) {
    mmsb_delta_t *delta = &made->delta;
    mmsb_delta_init(delta);
    delta->payload = made->payload;
    uint64_t payload = 0;
    delta->kind = (mmsb_delta_kind_t)(MMSB_DELTA_DENSE_BYTES + below(MMSB_DELTA_RUNS));
    switch (delta->kind) {
    case MMSB_DELTA_DENSE_BYTES:
        delta->mask = made->mask;
        payload = delta->mask_length = below(size + 1);
        for (uint64_t i = 0; i < payload; i++) {
            made->mask[i] = chance(30) ? (uint8_t)random_next(&seed) : 0;
        }
        break;
    case MMSB_DELTA_DENSE_BITS:
    case MMSB_DELTA_SPARSE_BITS:
        delta->mask = made->mask;
        payload = delta->mask_length = below(size + 1);
        memset(made->mask, 0, sizeof made->mask);
        for (uint64_t i = 0; i < delta->mask_length; i++) {
            made->mask[i / 8] |= (uint8_t)(chance(30) << i % 8);
        }
        if (delta->kind == MMSB_DELTA_SPARSE_BITS) {
            payload = 0;
            for (uint64_t i = 0; i < delta->mask_length; i++) {
                payload += made->mask[i / 8] >> i % 8 & 1;
            }
        }
        break;
    case MMSB_DELTA_INDEXED:
        payload = delta->count = below(100);
        for (uint64_t i = 0; i < delta->count; i++) {
            made->offsets[i] = below(size);
            made->offsets32[i] = (uint32_t)made->offsets[i];
        }
        if (chance(50)) {
            delta->offsets = made->offsets;
        } else {
            delta->offsets32 = made->offsets32;
        }
        break;
    default:
        delta->runs = made->runs;
        delta->count = below(7);
        for (uint64_t i = 0; i < delta->count; i++) {
            uint64_t offset = below(size + 1);
            uint64_t room = size - offset < LARGEST / 6 ? size - offset : LARGEST / 6;
            made->runs[i] = (mmsb_run_t){offset, below(room + 1)};
            payload += made->runs[i].length;
        }
    }
    for (uint64_t i = 0; i < payload; i++) {
        made->payload[i] = (uint8_t)random_next(&seed);
    }
    delta->payload_length = chance(50) ? payload : 0;
    delta->source = chance(20) ? "fuzz" : NULL;
    delta->intent = chance(20) ? "to find what breaks" : NULL;
    delta->id = below(5);
    delta->timestamp_ns = below(1000);
}

/* One thing wrong with it that has nothing to do with the page; its code. */
mmsb_status_t spoil_delta(mmsb_delta_t *delta) {
    switch (below(6)) {
    case 0:
        delta->kind = chance(50) ? 0 : MMSB_DELTA_RUNS + 1 + (mmsb_delta_kind_t)below(100);
        return MMSB_E_INVALID_ARGUMENT;
    case 1:
        delta->struct_size -= 1 + (uint32_t)below(8);
        return MMSB_E_STRUCT_VERSION;
    case 2:
        delta->reserved[below(4)] = random_next(&seed) | 1;
        return MMSB_E_STRUCT_VERSION;
    case 3:
        delta->source = "\xFF";
        return MMSB_E_INVALID_ARGUMENT;
    case 4:
        delta->intent = "a\x80";
        return MMSB_E_INVALID_ARGUMENT;
    default:
        delta->payload_length = 1000000;
        return MMSB_E_MISMATCH;
    }
}

/* How long a page must be for it. */
uint64_t extent(const mmsb_delta_t *delta) {
    uint64_t longest = 0;
    if (delta->kind <= MMSB_DELTA_SPARSE_BITS) {
        return delta->mask_length;
    }
    for (uint64_t i = 0; i < delta->count; i++) {
        uint64_t end = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].offset + delta->runs[i].length
                       : delta->offsets != NULL       ? delta->offsets[i] + 1
                                                      : delta->offsets32[i] + 1ULL;
        longest = end > longest ? end : longest;
    }
    return longest;
}

/* The reference: what a good delta does. */
void do_delta(const mmsb_delta_t *delta, uint8_t *bytes, uint8_t *mask) {
    const uint8_t *payload = delta->payload;
    const uint8_t *selects = delta->mask;
    if (delta->kind <= MMSB_DELTA_SPARSE_BITS) {
        for (uint64_t i = 0; i < delta->mask_length; i++) {
            if (delta->kind == MMSB_DELTA_DENSE_BYTES ? selects[i] != 0 : selects[i / 8] >> i % 8 & 1) {
                bytes[i] = delta->kind == MMSB_DELTA_SPARSE_BITS ? *payload++ : payload[i];
                mask[i] = 1;
            }
        }
        return;
    }
    for (uint64_t i = 0; i < delta->count; i++) {
        uint64_t offset = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].offset
                          : delta->offsets != NULL       ? delta->offsets[i]
                                                         : delta->offsets32[i];
        uint64_t length = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].length : 1;
        for (uint64_t k = 0; k < length; k++) {
            bytes[offset + k] = *payload++;
            mask[offset + k] = 1;
        }
    }
}

void delta_was_applied(page_t *page, const mmsb_delta_t *delta) {
    do_delta(delta, page->bytes, page->mask);
    page->epoch = delta->epoch == 0 ? page->epoch + 1 : delta->epoch;
}

void fuzz_apply(void) {
    static made_delta_t made;
    pick_t target = pick_page(10);
    page_t *page = target.page;
    mmsb_status_t code = target.code;
    make_delta(&made, page == NULL ? 64 : page->size);
    if (page != NULL) {
        made.delta.page_id = chance(30) ? page->id : 0;
        made.delta.epoch = chance(20) ? page->epoch + 1 + below(5) : 0;
        if (page->read_only) {
            code = MMSB_E_INVALID_STATE;
        } else if (chance(25)) {
            switch (below(4)) {
            case 0:
                code = spoil_delta(&made.delta);
                break;
            case 1:
                made.delta.page_id = page->id + 1;
                code = MMSB_E_MISMATCH;
                break;
            case 2:
                if (page->epoch == 0) {
                    return;
                }
                made.delta.epoch = 1 + below(page->epoch);
                code = MMSB_E_EPOCH;
                break;
            default:
                make_delta(&made, LARGEST);
                if (extent(&made.delta) <= page->size) {
                    return;
                }
                code = MMSB_E_OUT_OF_RANGE;
            }
        }
    }
    CALL(mmsb_page_apply(target.handle, &made.delta), code);
    if (code == MMSB_OK) {
        delta_was_applied(page, &made.delta);
        check_version(page, MOVES);
    }
    if (page != NULL) {
        check_page(page);
    }
}

void fuzz_apply_many(void) {
    enum { MOST = 5 };
    static made_delta_t made[MOST];
    mmsb_delta_t list[MOST];
    mmsb_page_t handles[MOST];
    page_t *chosen[MOST] = {NULL};
    size_t count = below(MOST + 1);
    size_t expected_bad = UNTOUCHED;
    mmsb_status_t code = MMSB_OK;
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(3);
        mmsb_status_t own = target.code;
        handles[i] = target.handle;
        chosen[i] = target.page;
        make_delta(&made[i], target.page == NULL ? 64 : target.page->size);
        if (target.page != NULL) {
            if (target.page->read_only) {
                own = MMSB_E_INVALID_STATE;
            } else if (chance(4)) {
                own = spoil_delta(&made[i].delta);
            } else if (chance(3) && target.page->epoch > 0) {
                made[i].delta.epoch = 1;
                own = MMSB_E_EPOCH;
            } else if (chance(3)) {
                made[i].delta.page_id = target.page->id + 1;
                own = MMSB_E_MISMATCH;
            }
        }
        list[i] = made[i].delta;
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    size_t bad = UNTOUCHED;
    if (mixes_journals(chosen, count)) {
        CALL_MIXED(mmsb_page_apply_many(handles, list, count, &bad), code);
        return;
    }
    CALL(mmsb_page_apply_many(handles, list, count, &bad), code);
    SAME(code != MMSB_OK && bad != expected_bad, 0);
    for (size_t i = 0; code == MMSB_OK && i < count; i++) {
        delta_was_applied(chosen[i], &list[i]);
        check_version(chosen[i], MAY_MOVE);
    }
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            check_page(chosen[i]);
        }
    }
}

/* One thing wrong with them that has nothing to do with the pages; its code. */
static mmsb_status_t spoil_runs(mmsb_page_runs_t *runs, uint64_t payload_length) {
    switch (below(3)) {
    case 0:
        runs->struct_size ^= 1U << below(10);
        return MMSB_E_STRUCT_VERSION;
    case 1:
        runs->reserved[below(4)] = 1;
        return MMSB_E_STRUCT_VERSION;
    default:
        runs->payload_length = payload_length + 1;
        return MMSB_E_MISMATCH;
    }
}

void fuzz_apply_runs(void) {
    enum { MOST = 6 };
    mmsb_page_t handles[MOST];
    uint64_t offsets[MOST];
    uint64_t lengths[MOST];
    page_t *chosen[MOST] = {NULL};
    mmsb_page_runs_t runs;
    mmsb_page_runs_init(&runs);
    runs.count = below(MOST + 1);
    runs.pages = handles;
    runs.offsets = offsets;
    runs.uniform_length = 1 + below(3);
    runs.lengths = chance(50) ? lengths : NULL;
    runs.payload = buffer;
    fill_buffer(MOST * 50);
    uint64_t sum = 0;
    size_t expected_bad = UNTOUCHED;
    mmsb_status_t code = MMSB_OK;
    for (size_t i = 0; i < runs.count; i++) {
        pick_t target = pick_page(3);
        mmsb_status_t own = target.code;
        handles[i] = target.handle;
        chosen[i] = target.page;
        uint64_t size = target.page == NULL ? 64 : target.page->size;
        lengths[i] = runs.lengths == NULL ? runs.uniform_length : below(size < 50 ? size + 1 : 50);
        if (lengths[i] > size) {
            offsets[i] = 0;
            own = own == MMSB_OK ? MMSB_E_OUT_OF_RANGE : own;
        } else {
            offsets[i] = below(size - lengths[i] + 1);
        }
        if (target.page != NULL && target.page->read_only && own != MMSB_OK) {
            return; /* two things wrong */
        }
        if (target.page != NULL && target.page->read_only) {
            own = MMSB_E_INVALID_STATE;
        } else if (own == MMSB_OK && chance(3)) {
            offsets[i] = size + 1 + (chance(50) ? 1ULL << 63 : 0);
            own = MMSB_E_OUT_OF_RANGE;
        }
        sum += lengths[i];
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    runs.payload_length = chance(50) ? sum : 0;
    if (code == MMSB_OK && chance(10)) {
        code = spoil_runs(&runs, sum);
        CALL(mmsb_page_apply_runs(&runs, NULL), code);
        return;
    }
    size_t bad = UNTOUCHED;
    if (mixes_journals(chosen, runs.count)) {
        CALL_MIXED(mmsb_page_apply_runs(&runs, &bad), code);
        return;
    }
    CALL(mmsb_page_apply_runs(&runs, &bad), code);
    SAME(code != MMSB_OK && bad != expected_bad, 0);
    const uint8_t *payload = buffer;
    for (size_t i = 0; code == MMSB_OK && i < runs.count; i++) {
        const mmsb_run_t run = {offsets[i], lengths[i]};
        const mmsb_delta_t delta = one_run(&run, payload);
        delta_was_applied(chosen[i], &delta);
        check_version(chosen[i], MAY_MOVE);
        payload += lengths[i];
    }
    for (size_t i = 0; i < runs.count; i++) {
        if (chosen[i] != NULL) {
            check_page(chosen[i]);
        }
    }
}

void fuzz_mask(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    uint64_t count = UNTOUCHED;
    if (page == NULL) {
        switch (below(3)) {
        case 0:
            CALL(mmsb_page_mask_read(target.handle, 0, buffer, 1), target.code);
            break;
        case 1:
            CALL(mmsb_page_mask_clear(target.handle), target.code);
            break;
        default:
            CALL(mmsb_page_mask_count(target.handle, &count), target.code);
        }
        return;
    }
    switch (below(5)) {
    case 0:
        CALL(mmsb_page_mask_clear(page->handle), MMSB_OK);
        memset(page->mask, 0, sizeof page->mask);
        check_version(page, MAY_MOVE);
        break;
    case 1:
    case 2: {
        uint64_t expected = 0;
        for (uint64_t i = 0; i < page->size; i++) {
            expected += page->mask[i];
        }
        CALL(mmsb_page_mask_count(page->handle, &count), MMSB_OK);
        SAME(count, expected);
        if (chance(10)) {
            CALL(mmsb_page_mask_count(page->handle, NULL), MMSB_E_INVALID_ARGUMENT);
        }
        break;
    }
    default: {
        uint64_t offset;
        uint64_t length;
        int good = any_range(page, &offset, &length);
        if (good && length > 0 && chance(5)) {
            CALL(mmsb_page_mask_read(page->handle, offset, NULL, length), MMSB_E_INVALID_ARGUMENT);
            return;
        }
        CALL(mmsb_page_mask_read(page->handle, offset, buffer, length), good ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
        for (uint64_t i = 0; good && i < (length + 7) / 8 * 8; i++) {
            SAME(buffer[i / 8] >> i % 8 & 1, i < length ? page->mask[offset + i] : 0);
        }
    }
    }
    check_page(page);
}
