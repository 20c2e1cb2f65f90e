/* Change masks: which bytes deltas have addressed since the mask was cleared. */
#include "library.h"

static uint64_t mask_count(mmsb_page_t page) {
    uint64_t count = UINT64_MAX;
    CHECK_OK(mmsb_page_mask_count(page, &count));
    return count;
}

static void apply_run(mmsb_page_t page, uint64_t offset, uint64_t length) {
    uint8_t *payload = calloc(1, length + 1);
    mmsb_run_t run = {offset, length};
    mmsb_delta_t delta = one_run(&run, payload);
    CHECK_OK(mmsb_page_apply(page, &delta));
    free(payload);
}

/* Every window of the mask, against a model of one byte per bit. */
static void check_windows(mmsb_page_t page, const uint8_t *model, uint64_t size, uint64_t seed) {
    uint8_t *bits = malloc(size / 8 + 2);
    for (int round = 0; round < 200; round++) {
        uint64_t offset = random_below(&seed, size + 1);
        uint64_t length = random_below(&seed, size - offset + 1);
        uint64_t used = (length + 7) / 8;
        memset(bits, 0xAA, size / 8 + 2);
        CHECK_OK(mmsb_page_mask_read(page, offset, bits, length));
        for (uint64_t i = 0; i < used * 8; i++) {
            int expected = i < length && model[offset + i];
            if ((bits[i / 8] >> i % 8 & 1) != expected) {
                check_fail(__FILE__, __LINE__, "bit %llu of window %llu+%llu is not %d", (unsigned long long)i,
                           (unsigned long long)offset, (unsigned long long)length, expected);
            }
        }
        CHECK_EQUAL(bits[used], 0xAA);
    }
    free(bits);
}

static void deltas_mark_what_they_address(void) {
    static const uint64_t sizes[] = {1, 8, 9, 63, 64, 65, 1000, 5000};
    mmsb_context_t context = new_context();
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t size = sizes[i];
        mmsb_page_t page = new_page(context, size);
        uint8_t *model = calloc(1, size);
        check_windows(page, model, size, seed);
        CHECK_OK(mmsb_page_mask_clear(page));
        for (int round = 0; round < 10; round++) {
            uint64_t offset = random_below(&seed, size);
            uint64_t length = random_below(&seed, (size - offset) / 3 + 2);
            length = length > size - offset ? size - offset : length;
            apply_run(page, offset, length);
            memset(model + offset, 1, length);
            uint64_t count = 0;
            for (uint64_t k = 0; k < size; k++) {
                count += model[k];
            }
            CHECK_EQUAL(mask_count(page), count);
        }
        check_windows(page, model, size, seed);
        CHECK_OK(mmsb_page_mask_clear(page));
        CHECK_EQUAL(mask_count(page), 0);
        memset(model, 0, size);
        check_windows(page, model, size, seed);
        free(model);
    }
    CHECK_OK(mmsb_context_destroy(context));
}

/* A delta marks the bytes it addresses, also where it writes what was there; nothing else touches the mask. */
static void only_deltas_mark(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    apply_run(page, 10, 5);
    CHECK_EQUAL(mask_count(page), 5);
    write_pattern(page, 1);
    void *address;
    CHECK_OK(mmsb_page_pin(page, MMSB_PIN_WRITE, &address));
    memset(address, 1, 100);
    CHECK_OK(mmsb_page_unpin(page, MMSB_PIN_WRITE));
    CHECK_OK(mmsb_page_metadata_set(page, "k", 1, "v", 1));
    CHECK_EQUAL(mask_count(page), 5);
    CHECK_EQUAL(mmsb_page_epoch(page), 1);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_DISK, 0));
    CHECK_EQUAL(mask_count(page), 5);
    apply_run(page, 12, 5);
    CHECK_EQUAL(mask_count(page), 7);
    CHECK_OK(mmsb_page_migrate(page, MMSB_LOCATION_CPU, 0));
    CHECK_EQUAL(mask_count(page), 7);
    mmsb_page_t clone;
    CHECK_OK(mmsb_page_clone(page, 0, &clone));
    CHECK_EQUAL(mask_count(clone), 7);
    CHECK_OK(mmsb_page_mask_clear(page));
    CHECK_EQUAL(mask_count(page), 0);
    CHECK_EQUAL(mask_count(clone), 7);
    CHECK_EQUAL(mmsb_page_epoch(page), 2);
    CHECK_OK(mmsb_context_destroy(context));
}

/* A mask without a bit is as none: a delta that was refused may have made one. */
static void clearing_no_bit_changes_nothing(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 1000);
    const uint64_t version = mmsb_page_version(page);
    const mmsb_run_t run = {999, 1}, behind = {1000, 1};
    mmsb_delta_t deltas[2];
    for (int i = 0; i < 2; i++) {
        mmsb_delta_init(&deltas[i]);
        deltas[i].kind = MMSB_DELTA_RUNS;
        deltas[i].runs = i == 0 ? &run : &behind;
        deltas[i].count = 1;
        deltas[i].payload = "x";
        deltas[i].payload_length = 1;
    }
    const mmsb_page_t pages[2] = {page, new_page(context, 1000)};
    CHECK_OK(mmsb_page_mask_clear(page));
    CHECK_STATUS(mmsb_page_apply_many(pages, deltas, 2, NULL), MMSB_E_OUT_OF_RANGE);
    CHECK_OK(mmsb_page_mask_clear(page));
    CHECK_EQUAL(mmsb_page_version(page), version);
    CHECK_OK(mmsb_page_apply(page, &deltas[0]));
    CHECK_OK(mmsb_page_mask_clear(page));
    CHECK_EQUAL(mmsb_page_version(page), version + 2);
    CHECK_OK(mmsb_page_mask_clear(page));
    CHECK_EQUAL(mmsb_page_version(page), version + 2);
    CHECK_EQUAL(mask_count(page), 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void resize_cuts_and_extends_the_mask(void) {
    static const uint64_t steps[] = {90, 77, 80, 5000, 4096, 13, 64, 8, 9, 1, 100000, 50};
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    uint8_t *model = calloc(1, 100000);
    uint64_t size = 100;
    uint64_t seed = 4;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        apply_run(page, size / 2, size - size / 2);
        memset(model + size / 2, 1, size - size / 2);
        if (steps[i] > size) {
            memset(model + size, 0, steps[i] - size);
        }
        size = steps[i];
        CHECK_OK(mmsb_page_resize(page, size));
        check_windows(page, model, size, seed++);
    }
    free(model);
    CHECK_OK(mmsb_context_destroy(context));
}

static void wrong_windows_are_errors(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    for (int marked = 0; marked < 2; marked++) { /* without a mask of its own, and with one */
        uint8_t bits[32] = {0xAA};
        CHECK_STATUS(mmsb_page_mask_read(page, 0, bits, 101), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_page_mask_read(page, 100, bits, 1), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_page_mask_read(page, 101, bits, 0), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_page_mask_read(page, UINT64_MAX, bits, 2), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_page_mask_read(page, 1, bits, UINT64_MAX), MMSB_E_OUT_OF_RANGE);
        CHECK_STATUS(mmsb_page_mask_read(page, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
        CHECK_STATUS(mmsb_page_mask_count(page, NULL), MMSB_E_INVALID_ARGUMENT);
        CHECK_EQUAL(bits[0], 0xAA);
        CHECK_OK(mmsb_page_mask_read(page, 100, bits, 0));
        apply_run(page, 0, 100);
    }
    CHECK_EQUAL(mask_count(page), 100);
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    RUN(deltas_mark_what_they_address);
    RUN(only_deltas_mark);
    RUN(clearing_no_bit_changes_nothing);
    RUN(resize_cuts_and_extends_the_mask);
    RUN(wrong_windows_are_errors);
    return check_report();
}
