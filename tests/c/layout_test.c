/* The layout of each public struct, the same for this compiler (interface.h asserts it) and in the loaded library. */
#include "library.h"

#include "interface.h"

static void the_library_has_the_same_sizes(void) {
    size_t count = sizeof interface_structs / sizeof interface_structs[0];
    CHECK(count >= 33);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQUAL(mmsb_sizeof(interface_structs[i].number), interface_structs[i].size);
    }
    CHECK_EQUAL(mmsb_sizeof(MMSB_STRUCT_ERROR_DETAIL - 1), 0);
    CHECK_EQUAL(mmsb_sizeof(-1), 0);
    CHECK_EQUAL(mmsb_sizeof((int32_t)count + 1), 0);
    CHECK_EQUAL(mmsb_sizeof(INT32_MAX), 0);
}

/* An init function fills its struct whole and writes no further; what it does not name is zero. */
#define CHECK_INIT(type, init) \
    do { \
        struct { \
            type value; \
            uint64_t after; \
        } a, b; \
        memset(&a, 0x00, sizeof a); \
        memset(&b, 0xFF, sizeof b); \
        init(&a.value); \
        init(&b.value); \
        CHECK(memcmp(&a.value, &b.value, sizeof a.value) == 0); \
        CHECK_EQUAL(a.value.struct_size, sizeof a.value); \
        CHECK(a.after == 0 && b.after == UINT64_MAX); \
    } while (0)

static void init_fills_the_struct_and_no_more(void) {
    CHECK_INIT(mmsb_error_detail_t, mmsb_error_detail_init);
    CHECK_INIT(mmsb_context_options_t, mmsb_context_options_init);
    CHECK_INIT(mmsb_context_stats_t, mmsb_context_stats_init);
    CHECK_INIT(mmsb_sync_stats_t, mmsb_sync_stats_init);
    CHECK_INIT(mmsb_memory_usage_t, mmsb_memory_usage_init);
    CHECK_INIT(mmsb_work_options_t, mmsb_work_options_init);
    CHECK_INIT(mmsb_page_options_t, mmsb_page_options_init);
    CHECK_INIT(mmsb_adopt_options_t, mmsb_adopt_options_init);
    CHECK_INIT(mmsb_page_info_t, mmsb_page_info_init);
    CHECK_INIT(mmsb_delta_t, mmsb_delta_init);
    CHECK_INIT(mmsb_page_runs_t, mmsb_page_runs_init);
    CHECK_INIT(mmsb_save_options_t, mmsb_save_options_init);
    CHECK_INIT(mmsb_load_options_t, mmsb_load_options_init);
    CHECK_INIT(mmsb_save_stats_t, mmsb_save_stats_init);
    CHECK_INIT(mmsb_snapshot_info_t, mmsb_snapshot_info_init);
    CHECK_INIT(mmsb_journal_options_t, mmsb_journal_options_init);
    CHECK_INIT(mmsb_journal_info_t, mmsb_journal_info_init);
    CHECK_INIT(mmsb_runtime_options_t, mmsb_runtime_options_init);
    CHECK_INIT(mmsb_runtime_stats_t, mmsb_runtime_stats_init);
    CHECK_INIT(mmsb_block_info_t, mmsb_block_info_init);
}

int main(void) {
    RUN(the_library_has_the_same_sizes);
    RUN(init_fills_the_struct_and_no_more);
    return check_report();
}
