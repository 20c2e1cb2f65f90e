/* Calls that look at a delta or make one of others: the library's deltas, which the program frees. */
#include "fuzz.h"

void fuzz_validate(void) {
    static made_delta_t made;
    uint64_t size = any_size();
    make_delta(&made, any_size());
    mmsb_status_t code = extent(&made.delta) > size ? MMSB_E_OUT_OF_RANGE : MMSB_OK;
    if (code == MMSB_OK && chance(20)) {
        code = spoil_delta(&made.delta);
    }
    CALL(mmsb_delta_validate(&made.delta, size), code);
}

/* Puts a delta that the library made into the model, or gives it back at once. */
static void keep_delta(mmsb_delta_t *delta) {
    for (int i = 0; i < DELTAS; i++) {
        if (deltas[i] == NULL) {
            deltas[i] = delta;
            return;
        }
    }
    CALL(mmsb_delta_free(delta), MMSB_OK);
}

static void check_same_change(const mmsb_delta_t *first, const mmsb_delta_t *second, const mmsb_delta_t *made) {
    static uint8_t bytes[2][LARGEST];
    static uint8_t mask[2][LARGEST];
    memset(bytes, 0, sizeof bytes);
    memset(mask, 0, sizeof mask);
    do_delta(first, bytes[0], mask[0]);
    if (second != NULL) {
        do_delta(second, bytes[0], mask[0]);
    }
    do_delta(made, bytes[1], mask[1]);
    SAME(memcmp(bytes[0], bytes[1], LARGEST), 0);
    SAME(memcmp(mask[0], mask[1], LARGEST), 0);
}

void fuzz_merge(void) {
    static made_delta_t first;
    static made_delta_t second;
    make_delta(&first, any_size());
    make_delta(&second, any_size());
    first.delta.epoch = below(10);
    second.delta.epoch = below(10);
    mmsb_status_t code = MMSB_OK;
    if (chance(20)) {
        if (chance(30)) {
            first.delta.page_id = 1 + below(5);
            second.delta.page_id = first.delta.page_id + 1;
            code = MMSB_E_MISMATCH;
        } else {
            code = spoil_delta(chance(50) ? &first.delta : &second.delta);
        }
    } else if (chance(20)) {
        first.delta.page_id = 5;
    }
    mmsb_delta_t *merged = NULL;
    CALL(mmsb_delta_merge(&first.delta, &second.delta, &merged), code);
    SAME(merged != NULL, code == MMSB_OK);
    if (merged != NULL) {
        SAME(merged->kind, MMSB_DELTA_RUNS);
        SAME(merged->id, second.delta.id);
        SAME(merged->page_id, first.delta.page_id);
        SAME(merged->epoch, first.delta.epoch > second.delta.epoch ? first.delta.epoch : second.delta.epoch);
        SAME(merged->timestamp_ns,
             first.delta.timestamp_ns > second.delta.timestamp_ns ? first.delta.timestamp_ns : second.delta.timestamp_ns);
        SAME(merged->source != NULL, second.delta.source != NULL);
        check_same_change(&first.delta, &second.delta, merged);
        keep_delta(merged);
    }
}

void fuzz_convert(void) {
    static made_delta_t made;
    make_delta(&made, any_size());
    mmsb_delta_kind_t kind = (mmsb_delta_kind_t)(MMSB_DELTA_DENSE_BYTES + below(MMSB_DELTA_RUNS));
    mmsb_status_t code = MMSB_OK;
    if (chance(20)) {
        if (chance(50)) {
            code = spoil_delta(&made.delta);
        } else {
            kind = chance(50) ? 0 : MMSB_DELTA_RUNS + 1;
            code = MMSB_E_INVALID_ARGUMENT;
        }
    }
    mmsb_delta_t *converted = NULL;
    CALL(mmsb_delta_convert(&made.delta, kind, &converted), code);
    SAME(converted != NULL, code == MMSB_OK);
    if (converted != NULL) {
        SAME(converted->kind, kind);
        check_same_change(&made.delta, NULL, converted);
        keep_delta(converted);
    }
}

void fuzz_from_pages(void) {
    pick_t from = pick_page(10);
    pick_t to = pick_page(10);
    for (int i = 0; i < 5 && from.page != NULL && to.page != NULL && from.page->size != to.page->size; i++) {
        to.page = any_page(); /* rather one of the same size */
        to.handle = to.page->handle;
    }
    mmsb_status_t code = from.code != MMSB_OK ? from.code : to.code;
    if (from.code != MMSB_OK && to.code != MMSB_OK && from.code != to.code) {
        return;
    }
    if (code == MMSB_OK && from.page->size != to.page->size) {
        code = MMSB_E_MISMATCH;
    }
    mmsb_delta_t *delta = NULL;
    CALL(mmsb_delta_from_pages(from.handle, to.handle, &delta), code);
    SAME(delta != NULL, code == MMSB_OK);
    if (delta != NULL) {
        static uint8_t bytes[LARGEST];
        static uint8_t mask[LARGEST];
        SAME(delta->kind, MMSB_DELTA_RUNS);
        SAME(delta->page_id, from.page->id);
        SAME(extent(delta) <= from.page->size, 1);
        memcpy(bytes, from.page->bytes, from.page->size);
        do_delta(delta, bytes, mask);
        SAME(memcmp(bytes, to.page->bytes, to.page->size), 0);
        keep_delta(delta);
    }
}

void fuzz_owned_delta(void) {
    int slot = (int)below(DELTAS);
    mmsb_delta_t *delta = deltas[slot];
    if (delta == NULL || chance(10)) {
        mmsb_delta_t own;
        mmsb_delta_init(&own);
        CALL(mmsb_delta_free(&own), MMSB_E_STALE_HANDLE);
        CALL(mmsb_delta_free(NULL), MMSB_OK);
        return;
    }
    page_t *page = any_page();
    if (page != NULL && chance(60) && !page->read_only) {
        int other_page = delta->page_id != 0 && delta->page_id != page->id;
        int too_long = extent(delta) > page->size;
        int old = delta->epoch != 0 && delta->epoch <= page->epoch;
        if (other_page + too_long + old > 1) {
            return; /* two things wrong */
        }
        mmsb_status_t code = other_page ? MMSB_E_MISMATCH : too_long ? MMSB_E_OUT_OF_RANGE : old ? MMSB_E_EPOCH : MMSB_OK;
        CALL(mmsb_page_apply(page->handle, delta), code);
        if (code == MMSB_OK) {
            delta_was_applied(page, delta);
            check_version(page, MOVES);
        }
        check_page(page);
        return;
    }
    CALL(mmsb_delta_free(delta), MMSB_OK);
    CALL(mmsb_delta_free(delta), MMSB_E_STALE_HANDLE);
    deltas[slot] = NULL;
}
