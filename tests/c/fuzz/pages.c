/* Calls that end a page, change its size, or move it. */
#include "fuzz.h"

/* After a call that must have given the memory of an adopted page back. */
static void check_released(page_t *page, int before) {
    SAME(releases, before + (page->adopted != NULL));
    free(page->adopted);
    page->adopted = NULL;
    page->read_only = 0;
}

void fuzz_destroy(void) {
    pick_t target = pick_page(30);
    mmsb_status_t code = target.handle == 0 ? MMSB_OK : target.code;
    int before = releases;
    if (target.page != NULL && pinned(target.page)) {
        code = MMSB_E_BUSY;
    }
    if (in_groups && target.page != NULL && target.page->adopted != NULL) {
        return; /* its memory goes back at the commit */
    }
    CALL(mmsb_page_destroy(target.handle), code);
    if (target.page != NULL && code == MMSB_OK) {
        check_released(target.page, before);
        leave(target.page);
    }
}

void fuzz_destroy_many(void) {
    mmsb_page_t list[4];
    page_t *chosen[4] = {NULL};
    size_t count = below(5);
    mmsb_status_t code = MMSB_OK;
    size_t bad = UNTOUCHED;
    size_t expected_bad = UNTOUCHED;
    int adopted = 0;
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(4);
        list[i] = target.handle;
        chosen[i] = target.page;
        mmsb_status_t own = target.handle == 0 ? MMSB_OK : target.code;
        if (target.page != NULL) {
            for (size_t k = 0; k < i; k++) {
                own = chosen[k] == target.page ? MMSB_E_STALE_HANDLE : own;
            }
            if (own == MMSB_OK && pinned(target.page)) {
                own = MMSB_E_BUSY;
            }
            adopted += target.page->adopted != NULL;
        }
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    if (mixes_journals(chosen, count)) {
        CALL_MIXED(mmsb_page_destroy_many(list, count, &bad), code);
        return;
    }
    if (in_groups && adopted > 0) {
        return;
    }
    int before = releases;
    CALL(mmsb_page_destroy_many(list, count, &bad), code);
    if (code != MMSB_OK) {
        SAME(bad, expected_bad);
        SAME(releases, before);
        return;
    }
    SAME(releases, before + adopted);
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            free(chosen[i]->adopted);
            chosen[i]->adopted = NULL;
            leave(chosen[i]);
        }
    }
}

void fuzz_release(void) {
    pick_t target = pick_page(20);
    page_t *page = target.page;
    memory_t *slot = NULL;
    for (int i = 0; i < MEMORIES; i++) {
        slot = memories[i].address == NULL ? &memories[i] : slot;
    }
    if (slot == NULL) {
        return;
    }
    mmsb_status_t code = target.code;
    if (page != NULL) {
        mmsb_status_t state = page->adopted != NULL                 ? MMSB_E_INVALID_STATE
                              : page->location != MMSB_LOCATION_CPU ? MMSB_E_UNSUPPORTED
                                                                    : MMSB_OK;
        if (pinned(page) && state != MMSB_OK) {
            return; /* two things wrong */
        }
        code = pinned(page) ? MMSB_E_BUSY : state;
    }
    void *memory = NULL;
    uint64_t size = UNTOUCHED;
    if (code == MMSB_OK && chance(15)) {
        CALL(mmsb_page_release(target.handle, NULL, &size), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_release(target.handle, &memory, &size), code);
    if (code != MMSB_OK) {
        SAME(memory == NULL && size == UNTOUCHED, 1);
        return;
    }
    SAME(size, page->size);
    SAME(memcmp(memory, page->bytes, size), 0);
    slot->address = memory;
    slot->size = size;
    memcpy(slot->bytes, page->bytes, size);
    leave(page);
}

void fuzz_memory_free(void) {
    memory_t *memory = &memories[below(MEMORIES)];
    if (chance(30)) {
        void *bad = chance(30) ? NULL : memory->address != NULL && chance(50) ? memory->address + 1 : (void *)&seed;
        CALL(mmsb_memory_free(bad), bad == NULL ? MMSB_OK : MMSB_E_STALE_HANDLE);
    } else if (memory->address != NULL) {
        SAME(memcmp(memory->address, memory->bytes, memory->size), 0);
        CALL(mmsb_memory_free(memory->address), MMSB_OK);
        CALL(mmsb_memory_free(memory->address), MMSB_E_STALE_HANDLE);
        memory->address = NULL;
    }
}

/* A page has got another size, or the same. */
static enum moved resized(page_t *page, uint64_t size) {
    enum moved moved = size == page->size ? MAY_MOVE : MOVES;
    page->exposed |= moved == MOVES;
    if (size > page->size) {
        memset(page->bytes + page->size, 0, size - page->size);
        memset(page->mask + page->size, 0, size - page->size);
    }
    page->size = size;
    return moved;
}

void fuzz_resize(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    uint64_t size = any_size();
    mmsb_status_t code = target.code;
    if (page != NULL) {
        if (pinned(page) && page->adopted != NULL) {
            return; /* two things wrong */
        }
        code = pinned(page) ? MMSB_E_BUSY : page->adopted != NULL ? MMSB_E_INVALID_STATE : MMSB_OK;
        if (code == MMSB_OK && chance(10)) {
            size = chance(50) ? 0 : SIZE_MAX - below(10000);
            code = MMSB_E_INVALID_SIZE;
        } else if (code == MMSB_OK && page->context == 0 && page->location == MMSB_LOCATION_CPU && chance(5)) {
            size = OVER_THE_LIMIT;
            code = MMSB_E_LIMIT;
        }
    }
    CALL(mmsb_page_resize(target.handle, size), code);
    if (page == NULL) {
        return;
    }
    check_version(page, code == MMSB_OK ? resized(page, size) : STAYS);
    check_page(page);
}

void fuzz_resize_many(void) {
    enum { MOST = 4 };
    mmsb_page_t list[MOST];
    uint64_t sizes[MOST];
    page_t *chosen[MOST] = {NULL};
    size_t count = below(MOST + 1), bad = UNTOUCHED, expected_bad = UNTOUCHED;
    mmsb_status_t code = MMSB_OK;
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(3);
        mmsb_status_t own = target.code;
        page_t *page = target.page;
        list[i] = target.handle;
        chosen[i] = page;
        sizes[i] = any_size();
        for (size_t k = 0; page != NULL && k < i; k++) {
            own = chosen[k] == page ? MMSB_E_INVALID_ARGUMENT : own;
        }
        wrong += own != MMSB_OK;
        if (page != NULL && pinned(page)) {
            own = MMSB_E_BUSY;
            wrong++;
        }
        if (page != NULL && page->adopted != NULL) {
            own = MMSB_E_INVALID_STATE;
            wrong++;
        }
        if (own == MMSB_OK && chance(3)) {
            sizes[i] = chance(50) ? 0 : SIZE_MAX - below(10000);
            own = MMSB_E_INVALID_SIZE;
            wrong++;
        }
        if (own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    if (wrong > 1) {
        return;
    }
    if (mixes_journals(chosen, count)) {
        CALL_MIXED(mmsb_page_resize_many(list, sizes, count, &bad), code);
        return;
    }
    CALL(mmsb_page_resize_many(list, sizes, count, &bad), code);
    SAME(code != MMSB_OK && bad != expected_bad, 0);
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            check_version(chosen[i], code == MMSB_OK ? resized(chosen[i], sizes[i]) : STAYS);
            check_page(chosen[i]);
        }
    }
}

void fuzz_migrate(void) {
    pick_t target = pick_page(15);
    page_t *page = target.page;
    int location = page == NULL || page->location != MMSB_LOCATION_CPU ? MMSB_LOCATION_CPU : MMSB_LOCATION_DISK;
    if (chance(40)) {
        location = chance(30) ? MMSB_LOCATION_CPU : device_location();
    }
    mmsb_status_t code = target.code;
    if (page != NULL && chance(15)) {
        if (pinned(page)) {
            return;
        }
        if (chance(50)) {
            CALL(mmsb_page_migrate(page->handle, device_location(), no_device()), MMSB_E_NO_DEVICE);
        } else {
            CALL(mmsb_page_migrate(page->handle, unknown_location(), 0), MMSB_E_INVALID_ARGUMENT);
        }
        check_version(page, STAYS);
        return;
    }
    if (page != NULL && pinned(page)) {
        code = MMSB_E_BUSY;
    }
    int before = releases;
    int many = chance(30);
    mmsb_status_t own = UNTOUCHED;
    size_t bad = UNTOUCHED;
    mmsb_status_t status;
    if (page != NULL && page->adopted != NULL && page->location != location && code == MMSB_OK) {
        code = MMSB_E_INVALID_STATE;
    }
    mmsb_status_t other = page != NULL && page->location == location ? MMSB_OK : code; /* nothing to do, pinned or not */
    if (many) {
        status = CALL_EITHER(mmsb_page_migrate_many(&target.handle, 1, location, 0, NULL, &own, &bad), code, other);
        SAME(status != MMSB_OK && bad != 0, 0);
        SAME(status == MMSB_OK && own != MMSB_OK, 0);
    } else {
        status = CALL_EITHER(mmsb_page_migrate(target.handle, location, 0), code, other);
    }
    if (page == NULL) {
        return;
    }
    SAME(releases, before);
    if (status == MMSB_OK && page->location != location) {
        page->location = location;
        page->exposed = 1;
        check_version(page, MOVES);
    } else {
        check_version(page, STAYS);
    }
    check_page(page);
}
