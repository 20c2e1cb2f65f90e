/* Edges between pages of one context, which never make a circle. */
#include "fuzz.h"

int reaches(const page_t *from, const page_t *to) {
    if (from == to) {
        return 1;
    }
    for (int i = 0; i < edge_count; i++) {
        if (edges[i].parent == from && reaches(edges[i].child, to)) {
            return 1;
        }
    }
    return 0;
}

void fuzz_dependency(void) {
    pick_t parent = pick_page(5);
    pick_t child = pick_page(5);
    if (parent.code != MMSB_OK && child.code != MMSB_OK && parent.code != child.code) {
        return;
    }
    int slot = -1;
    mmsb_status_t code = parent.code != MMSB_OK ? parent.code : child.code;
    if (chance(40) && edge_count > 0) {
        slot = (int)below((uint64_t)edge_count);
        parent = (pick_t){edges[slot].parent->handle, edges[slot].parent, MMSB_OK};
        child = (pick_t){edges[slot].child->handle, edges[slot].child, MMSB_OK};
        code = MMSB_OK;
    }
    for (int i = 0; code == MMSB_OK && i < edge_count; i++) {
        if (edges[i].parent == parent.page && edges[i].child == child.page) {
            slot = i;
        }
    }
    int other_contexts = code == MMSB_OK && parent.page->context != child.page->context;
    if (chance(60) && edge_count < EDGES) {
        if (code == MMSB_OK) {
            code = other_contexts                     ? MMSB_E_MISMATCH
                   : slot >= 0                        ? MMSB_E_ALREADY_EXISTS
                   : reaches(child.page, parent.page) ? MMSB_E_INVALID_ARGUMENT
                                                      : MMSB_OK;
        }
        CALL(mmsb_page_dependency_add(parent.handle, child.handle), code);
        if (code == MMSB_OK) {
            edges[edge_count++] = (edge_t){parent.page, child.page};
        }
    } else {
        if (code == MMSB_OK) {
            code = other_contexts ? MMSB_E_MISMATCH : slot < 0 ? MMSB_E_NOT_FOUND : MMSB_OK;
        }
        CALL(mmsb_page_dependency_remove(parent.handle, child.handle), code);
        if (code == MMSB_OK) {
            edge_count--;
            memmove(edges + slot, edges + slot + 1, (size_t)(edge_count - slot) * sizeof *edges);
        }
    }
    if (parent.page != NULL && child.page != NULL) {
        check_version(parent.page, MAY_MOVE);
        check_version(child.page, MAY_MOVE);
        check_edges(parent.page);
        check_edges(child.page);
    }
}

void fuzz_dependency_lists(void) {
    pick_t target = pick_page(15);
    mmsb_page_t list[PAGES];
    size_t count = UNTOUCHED;
    mmsb_status_t code = target.code;
    if (code == MMSB_OK && chance(10)) {
        CALL(mmsb_page_parents(target.handle, list, PAGES, NULL), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_page_children(target.handle, NULL, PAGES, &count), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_parents(target.handle, list, PAGES, &count), code);
    CALL(mmsb_page_children(target.handle, list, PAGES, &count), code);
    int context = any_context();
    size_t with_edges = 0;
    for (int i = 0; i < PAGES; i++) {
        int has = 0;
        for (int k = 0; k < edge_count; k++) {
            has |= edges[k].parent == &pages[i] || edges[k].child == &pages[i];
        }
        with_edges += (size_t)(has && pages[i].handle != 0 && pages[i].context == context);
    }
    size_t capacity = chance(70) ? PAGES : below(with_edges + 1);
    code = capacity > 0 && capacity < with_edges ? MMSB_E_OUT_OF_RANGE : MMSB_OK;
    count = UNTOUCHED;
    CALL(mmsb_context_dependency_order(contexts[context].handle, list, capacity, &count), code);
    SAME(count, with_edges);
    for (int i = 0; code == MMSB_OK && capacity > 0 && i < edge_count; i++) {
        size_t parent = PAGES;
        size_t child = PAGES;
        for (size_t k = 0; k < count; k++) {
            parent = list[k] == edges[i].parent->handle ? k : parent;
            child = list[k] == edges[i].child->handle ? k : child;
        }
        SAME(edges[i].parent->context == context && !(parent < child && child < PAGES), 0);
    }
}
