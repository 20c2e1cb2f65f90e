/* The end of a slot's generations: the slot is retired, and no handle value ever comes twice. Test build only. */
#include "library.h"
#include "test_hooks.h"

#define LAST_GENERATION 0xFFFFFFFFU

static int compare_handles(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void a_moved_page_is_the_same_page(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 100);
    write_pattern(page, 1);
    mmsb_page_t moved = 0;
    CHECK_OK(mmsb_test_page_generation(page, 2000, &moved));
    CHECK(moved != page);
    CHECK_STATUS(mmsb_page_mask_clear(page), MMSB_E_STALE_HANDLE);
    CHECK(page_holds_pattern(moved, 1, 100));
    mmsb_page_t found = 0;
    CHECK_OK(mmsb_page_lookup(context, page_info(moved).id, &found));
    CHECK_EQUAL(found, moved);
    CHECK_OK(mmsb_page_destroy(moved));
    CHECK_STATUS(mmsb_page_destroy(moved), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_page_destroy(page), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_context_destroy(context));
}

/* Slots near their end are used up by creating and destroying; every handle that is given out is new. */
static void used_up_slots_are_retired(void) {
    enum { SLOTS = 200, CYCLES = 20000, MOST = 3 * SLOTS + CYCLES + 10 * SLOTS };
    mmsb_context_t context = new_context();
    static mmsb_page_t seen[MOST];
    size_t count = 0;
    mmsb_page_t pages[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        pages[i] = new_page(context, 64);
        seen[count++] = pages[i];
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        mmsb_page_t moved = 0;
        REQUIRE_OK(mmsb_test_page_generation(pages[i], LAST_GENERATION - i % 4, &moved));
        pages[i] = moved;
        seen[count++] = moved;
    }
    CHECK_OK(mmsb_page_destroy_many(pages, SLOTS, NULL));
    for (int i = 0; i < CYCLES; i++) {
        mmsb_page_t page = new_page(context, 64);
        seen[count++] = page;
        CHECK_OK(mmsb_page_destroy(page));
        CHECK_EQUAL(mmsb_page_size(page), 0);
    }
    mmsb_page_t live[10 * SLOTS];
    CHECK_OK(mmsb_page_create_many(context, 64, 10 * SLOTS, NULL, NULL, live));
    for (size_t i = 0; i < 10 * SLOTS; i++) {
        seen[count++] = live[i];
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        CHECK_STATUS(mmsb_page_destroy(pages[i]), MMSB_E_STALE_HANDLE);
    }
    CHECK_EQUAL(context_stats(context).pages, 10 * SLOTS);
    qsort(seen, count, sizeof *seen, compare_handles);
    for (size_t i = 1; i < count; i++) {
        CHECK(seen[i] != 0);
        if (seen[i] == seen[i - 1]) {
            check_fail(__FILE__, __LINE__, "the handle 0x%016llx came twice", (unsigned long long)seen[i]);
        }
    }
    CHECK_OK(mmsb_context_destroy(context));
}

static void wrong_moves_are_refused(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 64);
    mmsb_page_t moved = 42;
    CHECK_STATUS(mmsb_test_page_generation(0, 5, &moved), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_test_page_generation(page, 1000, &moved));
    mmsb_page_t back = 42;
    CHECK_STATUS(mmsb_test_page_generation(moved, 5, &back), MMSB_E_INVALID_ARGUMENT); /* generations only rise */
    CHECK_EQUAL(back, 42);
    CHECK_EQUAL(mmsb_page_size(moved), 64);
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    RUN(wrong_moves_are_refused);
    RUN(a_moved_page_is_the_same_page);
    RUN(used_up_slots_are_retired);
    return check_report();
}
