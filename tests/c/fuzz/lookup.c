/* Calls that find a page by its id and tell what it is. */
#include "fuzz.h"

void fuzz_lookup(void) {
    int context = any_context();
    page_t *page = any_page();
    if (page == NULL) {
        return;
    }
    uint64_t id = chance(70) ? page->id : next_id + 1000000;
    page_t *there = NULL;
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == context && pages[i].id == id) {
            there = &pages[i];
        }
    }
    mmsb_page_t found = UNTOUCHED;
    if (chance(15)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_page_lookup(bad.handle, id, &found), bad.code);
        SAME(found, UNTOUCHED);
        CALL(mmsb_page_lookup(contexts[context].handle, id, NULL), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_lookup(contexts[context].handle, id, &found), there != NULL ? MMSB_OK : MMSB_E_NOT_FOUND);
    SAME(found, there != NULL ? there->handle : UNTOUCHED);
    const uint64_t ids[2] = {page->id, id};
    mmsb_page_t both[2] = {UNTOUCHED, UNTOUCHED};
    size_t bad = UNTOUCHED;
    int first_there = page->context == context;
    mmsb_status_t code = first_there && there != NULL ? MMSB_OK : MMSB_E_NOT_FOUND;
    if (!first_there && id_is_used(context, page->id)) {
        return; /* the same id in two contexts */
    }
    CALL(mmsb_page_lookup_many(contexts[context].handle, ids, 2, both, &bad), code);
    if (code == MMSB_OK) {
        SAME(both[0], page->handle);
        SAME(both[1], there->handle);
    } else {
        SAME(bad, first_there ? 1 : 0);
        SAME(both[0] == UNTOUCHED && both[1] == UNTOUCHED, 1);
    }
}

void fuzz_info(void) {
    pick_t target = pick_page(20);
    mmsb_page_info_t infos[2];
    mmsb_page_info_init(&infos[0]);
    mmsb_page_info_init(&infos[1]);
    mmsb_status_t code = target.code;
    if (code == MMSB_OK && chance(20)) {
        switch (below(3)) {
        case 0:
            CALL(mmsb_page_info(target.handle, NULL), MMSB_E_INVALID_ARGUMENT);
            return;
        case 1:
            infos[0].struct_size = (uint32_t)below(sizeof infos[0]);
            break;
        default:
            infos[0].reserved[below(4)] = 1;
        }
        code = MMSB_E_STRUCT_VERSION;
    }
    CALL(mmsb_page_info(target.handle, &infos[0]), code);
    if (code == MMSB_OK) {
        SAME(infos[0].version, target.page->version);
        SAME(infos[0].size, target.page->size);
    }
    mmsb_page_info_init(&infos[0]);
    pick_t second = pick_page(20);
    const mmsb_page_t two[2] = {target.handle, second.handle};
    size_t bad = UNTOUCHED;
    code = target.code != MMSB_OK ? target.code : second.code;
    CALL(mmsb_page_info_many(two, 2, infos, &bad), code);
    if (code == MMSB_OK) {
        SAME(infos[1].id, second.page->id);
    } else {
        SAME(bad, target.code != MMSB_OK ? 0 : 1);
    }
}

void fuzz_getters(void) {
    pick_t target = pick_page(20);
    page_t *page = target.page;
    uint8_t *address = mmsb_page_address(target.handle);
    void *unused = NULL;
    size_t bad = UNTOUCHED;
    if (page == NULL) {
        SAME(address == NULL, 1);
        SAME(mmsb_last_error_code(), target.code);
        CALL(mmsb_page_address_many(&target.handle, 1, &unused, &bad), target.code);
        SAME(bad, 0);
        SAME(mmsb_page_size(target.handle) + mmsb_page_epoch(target.handle) + mmsb_page_version(target.handle), 0);
        return;
    }
    int evicted = page->location == MMSB_LOCATION_DISK && !pinned(page);
    CALL(mmsb_page_address_many(&target.handle, 1, &unused, &bad), evicted ? MMSB_E_INVALID_STATE : MMSB_OK);
    if (evicted) {
        SAME(address == NULL, 1);
        return;
    }
    page->exposed = 1;
    SAME(address == unused, 1);
    SAME(address != NULL, 1);
    SAME(page->adopted == NULL || page->adopted == address, 1);
    SAME(page->location == MMSB_LOCATION_GPU || memcmp(address, page->bytes, page->size) == 0, 1);
    if (page->location != MMSB_LOCATION_DISK && page->adopted == NULL) {
        SAME((uintptr_t)address % (page->size >= 256 ? 256 : 64), 0);
        if (page->location != MMSB_LOCATION_GPU && chance(50)) { /* written through the address: nobody is told */
            uint64_t offset = below(page->size);
            page->bytes[offset] = address[offset] = (uint8_t)random_next(&seed);
            page->raw = 1;
        }
    }
    check_page(page);
}
