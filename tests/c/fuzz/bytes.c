/* Calls that reach a page's bytes: pins, reads, writes, and these for many pages at once. */
#include "fuzz.h"

void fuzz_pin(void) {
    pick_t target = pick_page(15);
    page_t *page = target.page;
    int mode = chance(50) ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    void *address = NULL;
    mmsb_status_t code = target.code;
    if (page != NULL) {
        if (chance(10)) {
            int32_t unknown = chance(50) ? 0 : (int32_t)(MMSB_PIN_WRITE + 1 + below(100));
            CALL(mmsb_page_pin(page->handle, unknown, &address), MMSB_E_INVALID_ARGUMENT);
            return;
        }
        if (page->pins[mode] >= 3) {
            return;
        }
        code = page->read_only && mode == MMSB_PIN_WRITE ? MMSB_E_INVALID_STATE : MMSB_OK;
    }
    CALL(mmsb_page_pin(target.handle, mode, &address), code);
    if (code == MMSB_OK) {
        page->pins[mode]++;
        page->exposed |= mode == MMSB_PIN_WRITE;
        if (page->location == MMSB_LOCATION_GPU) {
            SAME(address != NULL, 1);
        } else {
            SAME(memcmp(address, page->bytes, page->size), 0);
        }
        if (mode == MMSB_PIN_WRITE && page->location != MMSB_LOCATION_GPU) {
            uint64_t offset = below(page->size);
            page->bytes[offset] = ((uint8_t *)address)[offset] = (uint8_t)random_next(&seed);
            page->raw = 1;
        }
        check_version(page, STAYS);
        check_page(page);
    } else {
        SAME(address == NULL, 1);
    }
}

void fuzz_unpin(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    int mode = chance(50) ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    for (int i = 0; page != NULL && i < 10 && page->pins[mode] == 0; i++) { /* rather one that has such a pin */
        page = any_page();
        mode = MMSB_PIN_READ + MMSB_PIN_WRITE - mode;
        target.handle = page->handle;
    }
    /* Pins of its copy on the host have a function of their own for that. */
    const int none = page != NULL && page->pins[mode] == page->host_pins[mode];
    mmsb_status_t code = page == NULL ? target.code : none ? MMSB_E_INVALID_STATE : MMSB_OK;
    if (page != NULL && chance(5)) {
        CALL(mmsb_page_unpin(page->handle, MMSB_PIN_WRITE + 1 + (int32_t)below(100)), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_unpin(target.handle, mode), code);
    if (code == MMSB_OK) {
        page->pins[mode]--;
        page->raw |= mode == MMSB_PIN_WRITE;
        check_version(page, mode == MMSB_PIN_WRITE ? MOVES : STAYS);
        check_page(page);
    }
}

/* A range of the page, good or reaching past its end. */
int any_range(const page_t *page, uint64_t *offset, uint64_t *length) {
    *offset = below(page->size + 1);
    *length = below(page->size - *offset + 1);
    if (chance(85)) {
        return 1;
    }
    switch (below(3)) {
    case 0:
        *length = page->size - *offset + 1 + below(100);
        break;
    case 1:
        *length = UINT64_MAX - below(100);
        *offset += 1;
        break;
    default:
        *offset = page->size + 1 + (chance(50) ? below(100) : 1ULL << 63);
        *length = below(20);
    }
    return 0;
}

uint8_t buffer[2 * LARGEST];

void fill_buffer(uint64_t length) {
    for (uint64_t i = 0; i < length; i++) {
        buffer[i] = (uint8_t)random_next(&seed);
    }
}

void fuzz_read(void) {
    pick_t target = pick_page(10);
    if (target.page == NULL) {
        CALL(mmsb_page_read(target.handle, 0, buffer, 1), target.code);
        return;
    }
    uint64_t offset;
    uint64_t length;
    int good = any_range(target.page, &offset, &length);
    if (good && length > 0 && chance(5)) {
        CALL(mmsb_page_read(target.handle, offset, NULL, length), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    fill_buffer(16);
    CALL(mmsb_page_read(target.handle, offset, buffer, length), good ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
    SAME(good && memcmp(buffer, target.page->bytes + offset, length) != 0, 0);
    check_version(target.page, STAYS);
}

void fuzz_write(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    if (page == NULL) {
        CALL(mmsb_page_write(target.handle, 0, buffer, 1), target.code);
        return;
    }
    uint64_t offset;
    uint64_t length;
    int good = any_range(page, &offset, &length);
    if (page->read_only) {
        if (good && length > 0) {
            CALL(mmsb_page_write(page->handle, offset, buffer, length), MMSB_E_INVALID_STATE);
            check_page(page);
        }
        return;
    }
    if (good && length > 0 && chance(5)) {
        CALL(mmsb_page_write(page->handle, offset, NULL, length), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    fill_buffer(good ? length : 0);
    CALL(mmsb_page_write(page->handle, offset, buffer, length), good ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
    if (good) {
        memcpy(page->bytes + offset, buffer, length);
    }
    check_version(page, !good ? STAYS : length > 0 ? MOVES : MAY_MOVE);
    check_page(page);
}

void fuzz_ranges_of_many(void) {
    enum { MOST = 4 };
    mmsb_page_range_t ranges[MOST];
    page_t *chosen[MOST] = {NULL};
    size_t count = below(MOST + 1);
    size_t expected_bad = UNTOUCHED;
    mmsb_status_t code = MMSB_OK;
    int writes = chance(50);
    fill_buffer(MOST * 100);
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(4);
        chosen[i] = target.page;
        ranges[i] = (mmsb_page_range_t){target.handle, 0, 1, buffer + 100 * i};
        mmsb_status_t own = target.code;
        if (target.page != NULL) {
            ranges[i].offset = below(target.page->size);
            uint64_t room = target.page->size - ranges[i].offset;
            ranges[i].length = 1 + below(room < 100 ? room : 100);
            if (writes && target.page->read_only) {
                own = MMSB_E_INVALID_STATE;
            } else if (chance(4)) {
                ranges[i].offset = target.page->size;
                own = MMSB_E_OUT_OF_RANGE;
            } else if (chance(2)) {
                ranges[i].buffer = NULL;
                own = MMSB_E_INVALID_ARGUMENT;
            }
        }
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    size_t bad = UNTOUCHED;
    if (writes && mixes_journals(chosen, count)) {
        CALL_MIXED(mmsb_page_write_many(ranges, count, &bad), code);
        return;
    }
    if (writes) {
        CALL(mmsb_page_write_many(ranges, count, &bad), code);
    } else {
        CALL(mmsb_page_read_many(ranges, count, &bad), code);
    }
    SAME(code != MMSB_OK && bad != expected_bad, 0);
    for (size_t i = 0; code == MMSB_OK && i < count; i++) {
        if (writes) {
            memcpy(chosen[i]->bytes + ranges[i].offset, ranges[i].buffer, ranges[i].length);
            check_version(chosen[i], MAY_MOVE); /* moved once, where the page is there twice */
        } else {
            SAME(memcmp(chosen[i]->bytes + ranges[i].offset, ranges[i].buffer, ranges[i].length), 0);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            check_page(chosen[i]);
        }
    }
}
