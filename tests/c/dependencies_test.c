/* Dependencies: edges from parents to children, their lists, the order of all, and no cycles. */
#include "library.h"

static void check_list(mmsb_status_t (*list)(mmsb_page_t, mmsb_page_t *, size_t, size_t *), mmsb_page_t page,
                       size_t expected_count, const mmsb_page_t *expected) {
    mmsb_page_t pages[64] = {42};
    size_t count = 99;
    CHECK_OK(list(page, NULL, 0, &count));
    CHECK_EQUAL(count, expected_count);
    if (expected_count > 0) {
        CHECK_STATUS(list(page, pages, expected_count - 1, &count), expected_count == 1 ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
        CHECK_EQUAL(count, expected_count);
        CHECK_EQUAL(pages[0], 42);
    }
    count = 99;
    CHECK_OK(list(page, pages, 64, &count));
    CHECK_EQUAL(count, expected_count);
    CHECK(count == expected_count && memcmp(pages, expected, count * sizeof *pages) == 0);
    CHECK_STATUS(list(page, pages, 64, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(list(page, NULL, 64, &count), MMSB_E_INVALID_ARGUMENT);
}

static void edges_are_listed_oldest_first(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t p[5];
    for (int i = 0; i < 5; i++) {
        p[i] = new_page(context, 8);
    }
    CHECK_OK(mmsb_page_dependency_add(p[3], p[0]));
    CHECK_OK(mmsb_page_dependency_add(p[1], p[0]));
    CHECK_OK(mmsb_page_dependency_add(p[2], p[0]));
    CHECK_OK(mmsb_page_dependency_add(p[3], p[4]));
    CHECK_OK(mmsb_page_dependency_add(p[3], p[1]));
    const mmsb_page_t parents[] = {p[3], p[1], p[2]};
    const mmsb_page_t children[] = {p[0], p[4], p[1]};
    check_list(mmsb_page_parents, p[0], 3, parents);
    check_list(mmsb_page_children, p[3], 3, children);
    check_list(mmsb_page_children, p[0], 0, NULL);
    check_list(mmsb_page_parents, p[3], 0, NULL);
    CHECK_STATUS(mmsb_page_dependency_add(p[1], p[0]), MMSB_E_ALREADY_EXISTS);
    CHECK_OK(mmsb_page_dependency_remove(p[1], p[0]));
    CHECK_STATUS(mmsb_page_dependency_remove(p[1], p[0]), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_page_dependency_remove(p[0], p[3]), MMSB_E_NOT_FOUND);
    const mmsb_page_t fewer[] = {p[3], p[2]};
    check_list(mmsb_page_parents, p[0], 2, fewer);
    CHECK_OK(mmsb_page_dependency_add(p[1], p[0]));
    const mmsb_page_t moved[] = {p[3], p[2], p[1]};
    check_list(mmsb_page_parents, p[0], 3, moved);

    /* A page that ends takes its edges with it. */
    CHECK_OK(mmsb_page_destroy(p[3]));
    check_list(mmsb_page_parents, p[0], 2, moved + 1);
    check_list(mmsb_page_parents, p[4], 0, NULL);
    mmsb_page_t reused = new_page(context, 8);
    check_list(mmsb_page_children, reused, 0, NULL);
    CHECK_OK(mmsb_context_destroy(context));
}

static void cycles_are_refused(void) {
    enum { LENGTH = 50 };
    mmsb_context_t context = new_context();
    mmsb_page_t chain[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        chain[i] = new_page(context, 8);
        if (i > 0) {
            CHECK_OK(mmsb_page_dependency_add(chain[i - 1], chain[i]));
        }
    }
    CHECK_STATUS(mmsb_page_dependency_add(chain[0], chain[0]), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_dependency_add(chain[1], chain[0]), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_dependency_add(chain[LENGTH - 1], chain[0]), MMSB_E_INVALID_ARGUMENT);
    char id[32];
    snprintf(id, sizeof id, "%llu", (unsigned long long)page_info(chain[0]).id);
    CHECK(strstr(mmsb_last_error(), id) != NULL); /* the text names the cycle */
    CHECK_OK(mmsb_page_dependency_add(chain[0], chain[LENGTH - 1]));
    mmsb_context_t other = new_context();
    mmsb_page_t foreign = new_page(other, 8);
    CHECK_STATUS(mmsb_page_dependency_add(chain[0], foreign), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_page_dependency_add(foreign, chain[0]), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_page_dependency_remove(foreign, chain[0]), MMSB_E_MISMATCH);
    CHECK_STATUS(mmsb_page_dependency_add(chain[0], 0), MMSB_E_INVALID_HANDLE);
    CHECK_STATUS(mmsb_page_dependency_add(0, chain[0]), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_context_destroy(other));
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_order_has_parents_first(void) {
    enum { PAGES = 60, TRIES = 400 };
    mmsb_context_t context = new_context();
    size_t count = 99;
    CHECK_OK(mmsb_context_dependency_order(context, NULL, 0, &count));
    CHECK_EQUAL(count, 0);
    mmsb_page_t pages[PAGES];
    static uint8_t edge[PAGES][PAGES];
    uint8_t reaches[PAGES][PAGES];
    memset(edge, 0, sizeof edge);
    memset(reaches, 0, sizeof reaches);
    for (int i = 0; i < PAGES; i++) {
        pages[i] = new_page(context, 8);
        reaches[i][i] = 1;
    }
    uint64_t seed = 8;
    for (int i = 0; i < TRIES; i++) { /* among the first 50 pages; the others have no dependencies */
        uint64_t parent = random_below(&seed, 50);
        uint64_t child = random_below(&seed, 50);
        mmsb_status_t expected = edge[parent][child]      ? MMSB_E_ALREADY_EXISTS
                                 : reaches[child][parent] ? MMSB_E_INVALID_ARGUMENT
                                                          : MMSB_OK;
        CHECK_STATUS(mmsb_page_dependency_add(pages[parent], pages[child]), expected);
        if (expected == MMSB_OK) {
            edge[parent][child] = 1;
            for (int from = 0; from < PAGES; from++) {
                for (int to = 0; to < PAGES; to++) {
                    reaches[from][to] |= reaches[from][parent] && reaches[child][to];
                }
            }
        }
    }
    int with_edges = 0;
    for (int i = 0; i < PAGES; i++) {
        int has = 0;
        for (int k = 0; k < PAGES; k++) {
            has |= edge[i][k] | edge[k][i];
        }
        with_edges += has;
    }
    mmsb_page_t order[PAGES] = {42};
    CHECK_OK(mmsb_context_dependency_order(context, NULL, 0, &count));
    CHECK_EQUAL(count, with_edges);
    CHECK_STATUS(mmsb_context_dependency_order(context, order, (size_t)with_edges - 1, &count), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(order[0], 42);
    CHECK_OK(mmsb_context_dependency_order(context, order, PAGES, &count));
    CHECK_EQUAL(count, with_edges);
    int place[PAGES];
    memset(place, -1, sizeof place);
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < PAGES; k++) {
            if (order[i] == pages[k]) {
                CHECK_EQUAL(place[k], -1);
                place[k] = (int)i;
            }
        }
    }
    for (int i = 0; i < PAGES; i++) {
        for (int k = 0; k < PAGES; k++) {
            CHECK(!edge[i][k] || (place[i] >= 0 && place[i] < place[k]));
        }
    }
    CHECK_STATUS(mmsb_context_dependency_order(context, order, PAGES, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_dependency_order(context, NULL, PAGES, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    RUN(edges_are_listed_oldest_first);
    RUN(cycles_are_refused);
    RUN(the_order_has_parents_first);
    return check_report();
}
