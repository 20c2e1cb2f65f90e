/*
 * Abuse: 64 threads make calls that are wrong in every way there is, on pages that the others use too. Each wrong call must
 * answer its code with one line of text with numbers, change nothing, and leave the next good call working.
 */
#include "calls.h"

#ifdef __SANITIZE_ADDRESS__ /* five times as slow; each round makes each call */
enum { ROUNDS = 15 };
#else
enum { ROUNDS = 60 };
#endif
enum { THREADS = 64, STALE = 32 };

typedef struct abuse {
    mmsb_context_t context;
    mmsb_context_t limited;                 /* with a memory limit that is reached */
    mmsb_page_t shared;                     /* a page that nobody may change */
    mmsb_page_t stale[STALE];               /* destroyed pages, and pages of an ended context */
    uint64_t ended[MMSB_KIND_COMMANDS + 1]; /* by kind, but for pages */
} abuse_t;

/* One wrong call: the code, and a text of one line that has a number in it. */
#define WRONG(call, code) check_wrong(__LINE__, #call, (call), (code))

static void check_wrong(int line, const char *what, mmsb_status_t status, mmsb_status_t code) {
    if (check_status(__FILE__, line, what, status, code) && strpbrk(mmsb_last_error(), "0123456789") == NULL) {
        check_fail(__FILE__, line, "%s: no number in \"%s\"", what, mmsb_last_error());
    }
}

/* For wrong calls whose code depends on a random value: one of two. */
static void check_bad_handle(const call_t *call, uint64_t handle) {
    mmsb_status_t status = call->run(handle);
    if (status != MMSB_E_INVALID_HANDLE && status != MMSB_E_STALE_HANDLE) {
        check_fail(__FILE__, __LINE__, "%s with 0x%016llx answered %d", call->name, (unsigned long long)handle, (int)status);
    }
}

static void bad_handles(const abuse_t *abuse, uint64_t *seed) {
    for (int i = 0; i < 200; i++) {
        const call_t *call = &every_call[random_below(seed, EVERY_CALL_COUNT)];
        if (call->kind == 0) {
            continue;
        }
        switch (random_below(seed, 4)) {
        case 0: /* anything, of any kind; a live one cannot be guessed */
            check_bad_handle(call, random_next(seed) | 1ULL << 58);
            break;
        case 1: /* of the right kind */
            check_bad_handle(call, (random_next(seed) >> 4 | (uint64_t)call->kind << 60) | 1ULL << 58);
            break;
        case 2:
            if (call->role != ENDS) {
                CHECK_STATUS(call->run(0), MMSB_E_INVALID_HANDLE);
            }
            break;
        default: {
            uint64_t stale = call->kind == MMSB_KIND_PAGE ? abuse->stale[random_below(seed, STALE)] : abuse->ended[call->kind];
            CHECK_STATUS(call->run(stale), MMSB_E_STALE_HANDLE);
            CHECK_STATUS(call->run(call->kind == MMSB_KIND_PAGE ? abuse->context : abuse->shared), MMSB_E_INVALID_HANDLE);
        }
        }
    }
    CHECK(mmsb_page_address(random_next(seed) | 1ULL << 58) == NULL);
    CHECK_EQUAL(mmsb_page_size(random_next(seed) | 1ULL << 58), 0);
    CHECK_EQUAL(mmsb_page_epoch(abuse->stale[0]), 0);
    CHECK_EQUAL(mmsb_page_version(0), 0);
    CHECK_EQUAL(mmsb_page_id(random_next(seed) | 1ULL << 58), 0);
    CHECK_EQUAL(mmsb_page_location(abuse->stale[0]), MMSB_LOCATION_DEFAULT);
}

static void sizes_and_offsets(const abuse_t *abuse, mmsb_page_t own, uint64_t size) {
    static const uint64_t sizes[] = {0, 1ULL << 63, SIZE_MAX, SIZE_MAX - 4095};
    uint8_t buffer[64];
    mmsb_page_t page = 42;
    mmsb_ticket_t ticket = 42;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        WRONG(mmsb_page_create(abuse->context, sizes[i], NULL, &page), MMSB_E_INVALID_SIZE);
        WRONG(mmsb_page_create_many(abuse->context, sizes[i], 1, NULL, NULL, &page), MMSB_E_INVALID_SIZE);
        WRONG(mmsb_page_create_many_start(abuse->context, sizes[i], 1, NULL, NULL, &page, &ticket), MMSB_E_INVALID_SIZE);
        WRONG(mmsb_page_adopt(abuse->context, buffer, sizes[i], NULL, &page), MMSB_E_INVALID_SIZE);
        WRONG(mmsb_page_resize(own, sizes[i]), MMSB_E_INVALID_SIZE);
        void *memory = buffer;
        WRONG(mmsb_page_adopt_many(abuse->context, &memory, &sizes[i], NULL, 1, NULL, &page, NULL), MMSB_E_INVALID_SIZE);
        WRONG(mmsb_page_resize_many(&own, &sizes[i], 1, NULL), MMSB_E_INVALID_SIZE);
        mmsb_page_options_t options;
        mmsb_page_options_init(&options);
        options.sizes = &sizes[i];
        WRONG(mmsb_page_create_many(abuse->context, 0, 1, &options, NULL, &page), MMSB_E_INVALID_SIZE);
        WRONG(mmsb_page_create_many_start(abuse->context, 0, 1, &options, NULL, &page, &ticket), MMSB_E_INVALID_SIZE);
        if (sizes[i] > 0) {
            WRONG(mmsb_page_read(own, 0, buffer, sizes[i]), MMSB_E_OUT_OF_RANGE);
            WRONG(mmsb_page_write(own, sizes[i], buffer, 1), MMSB_E_OUT_OF_RANGE);
            WRONG(mmsb_page_read(own, size, buffer, sizes[i]), MMSB_E_OUT_OF_RANGE);
            WRONG(mmsb_page_mask_read(own, 1, buffer, sizes[i]), MMSB_E_OUT_OF_RANGE);
            WRONG(mmsb_page_mask_read(own, sizes[i], buffer, sizes[i]), MMSB_E_OUT_OF_RANGE);
            mmsb_run_t run = {1, sizes[i]};
            mmsb_delta_t delta = one_run(&run, buffer);
            WRONG(mmsb_page_apply(own, &delta), MMSB_E_OUT_OF_RANGE);
            run = (mmsb_run_t){sizes[i], 1};
            WRONG(mmsb_page_apply(own, &delta), MMSB_E_OUT_OF_RANGE);
            WRONG(mmsb_delta_validate(&delta, size), MMSB_E_OUT_OF_RANGE);
        }
    }
    CHECK_EQUAL(page, 42);
    CHECK_EQUAL(ticket, 42);
}

static void null_pointers(const abuse_t *abuse, mmsb_page_t own) {
    size_t length;
    uint64_t number;
    mmsb_delta_t *made;
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    CHECK_STATUS(mmsb_page_create(abuse->context, 8, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_guard_check(abuse->context, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_create_many(abuse->context, 8, 3, NULL, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_adopt(abuse->context, NULL, 8, NULL, &number), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_clone(own, 0, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_destroy_many(NULL, 3, &length), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_clone_many(&own, NULL, 1, NULL, &length), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_adopt_many(abuse->context, NULL, &number, NULL, 1, NULL, &number, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_pin_many(NULL, 3, MMSB_PIN_READ, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_unpin_many(NULL, 3, MMSB_PIN_READ, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_resize_many(&own, NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_release(own, NULL, &number), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_lookup(abuse->context, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_info(own, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_read(own, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_write(own, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_read_many(NULL, 3, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_write_many(NULL, 3, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_apply(own, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_apply_many(&own, NULL, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_apply_runs(NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_merge(&delta, NULL, &made), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_delta_convert(&delta, MMSB_DELTA_RUNS, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_mask_read(own, 0, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_mask_count(own, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_set(own, NULL, 3, "v", 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_keys(own, NULL, 9, &length, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_import(own, NULL, 9), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_parents(own, NULL, 9, &length), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_stats(abuse->context, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_context_create(NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_capabilities(NULL, 3, &length), MMSB_E_INVALID_ARGUMENT);
}

/* Nothing asks for aligned pointers where none is needed; where a call needs one it may refuse, but never break. */
static void misaligned_pointers(const abuse_t *abuse, mmsb_page_t own, uint64_t size) {
    _Alignas(64) uint8_t space[512];
    memset(space, 0, sizeof space);
    uint8_t *odd = space + 1;
    void *as_pointer = odd;
    mmsb_status_t status = mmsb_page_create(abuse->context, 8, NULL, as_pointer);
    if (status == MMSB_OK) {
        mmsb_page_t page;
        memcpy(&page, odd, sizeof page);
        CHECK_EQUAL(mmsb_page_size(page), 8);
        CHECK_OK(mmsb_page_destroy_many(as_pointer, 1, NULL));
        CHECK_EQUAL(mmsb_page_size(page), 0);
    } else {
        CHECK_STATUS(status, MMSB_E_INVALID_ARGUMENT);
    }
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    const uint64_t offset = size - 1;
    uint8_t before;
    CHECK_OK(mmsb_page_read(own, offset, &before, 1));
    memcpy(odd, &offset, sizeof offset);
    delta.kind = MMSB_DELTA_INDEXED;
    delta.offsets = as_pointer;
    delta.count = 1;
    delta.payload = &before;
    status = mmsb_page_apply(own, &delta);
    CHECK(status == MMSB_OK || status == MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_page_read(own, 0, odd, 7));
    CHECK_OK(mmsb_page_write(own, 0, odd, 7));
}

static void unknown_enums_and_versions(const abuse_t *abuse, mmsb_page_t own, uint64_t *seed) {
    mmsb_page_t page;
    mmsb_context_t context;
    int32_t unknown = (int32_t)(random_next(seed) | 0x40000000);
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.location = unknown;
    WRONG(mmsb_page_create(abuse->context, 8, &options, &page), MMSB_E_INVALID_ARGUMENT);
    mmsb_page_options_init(&options);
    options.contents = (uint32_t)unknown;
    WRONG(mmsb_page_create(abuse->context, 8, &options, &page), MMSB_E_INVALID_ARGUMENT);
    mmsb_page_options_init(&options);
    options.struct_size ^= 1U << random_below(seed, 32);
    WRONG(mmsb_page_create(abuse->context, 8, &options, &page), MMSB_E_STRUCT_VERSION);
    mmsb_page_options_init(&options);
    options.reserved[random_below(seed, 2)] = random_next(seed) | 1;
    CHECK_STATUS(mmsb_page_create(abuse->context, 8, &options, &page), MMSB_E_STRUCT_VERSION);
    WRONG(mmsb_page_pin(own, unknown, NULL), MMSB_E_INVALID_ARGUMENT);
    WRONG(mmsb_page_unpin(own, unknown), MMSB_E_INVALID_ARGUMENT);
    WRONG(mmsb_page_pin_many(&own, 1, unknown, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    WRONG(mmsb_page_unpin_many(&own, 1, unknown, NULL), MMSB_E_INVALID_ARGUMENT);
    WRONG(mmsb_page_migrate(own, unknown, 0), MMSB_E_INVALID_ARGUMENT);
    WRONG(mmsb_page_migrate(own, MMSB_LOCATION_GPU, 0), MMSB_E_NO_DEVICE);
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = unknown;
    WRONG(mmsb_page_apply(own, &delta), MMSB_E_INVALID_ARGUMENT);
    delta.kind = MMSB_DELTA_RUNS;
    delta.struct_size = (uint32_t)random_below(seed, sizeof delta);
    WRONG(mmsb_page_apply(own, &delta), MMSB_E_STRUCT_VERSION);
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.reserved[random_below(seed, 4)] = 1;
    CHECK_STATUS(mmsb_page_apply(own, &delta), MMSB_E_STRUCT_VERSION);
    mmsb_context_options_t context_options;
    mmsb_context_options_init(&context_options);
    context_options.simulate = unknown;
    WRONG(mmsb_context_create(&context_options, &context), MMSB_E_INVALID_ARGUMENT);
    mmsb_context_options_init(&context_options);
    context_options.reserved[random_below(seed, 6)] = 1;
    CHECK_STATUS(mmsb_context_create(&context_options, &context), MMSB_E_STRUCT_VERSION);
    mmsb_context_options_init(&context_options);
    context_options.guard_quarantine = 1 + random_below(seed, 100); /* without a guard */
    WRONG(mmsb_context_create(&context_options, &context), MMSB_E_INVALID_ARGUMENT);
    uint64_t count;
    WRONG(mmsb_debug_live_objects(unknown, &count), MMSB_E_INVALID_ARGUMENT);
    WRONG(mmsb_log_configure(unknown, -1), MMSB_E_INVALID_ARGUMENT);
}

static void texts_and_blobs(mmsb_page_t own, uint64_t *seed) {
    static const char *broken[] = {"\xFF", "a\xC0\xAF", "\xE2\x28\xA1", "\xED\xBF\xBF", "\xF5\x80\x80\x80", "half \xE2\x82"};
    const char *text = broken[random_below(seed, sizeof broken / sizeof broken[0])];
    WRONG(mmsb_page_metadata_set(own, text, strlen(text), "v", 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_set(own, "", 0, "v", 1), MMSB_E_INVALID_ARGUMENT);
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.source = text;
    WRONG(mmsb_page_apply(own, &delta), MMSB_E_INVALID_ARGUMENT);
    uint8_t blob[] = {1, 0, 0, 0, 1, 0, 0, 0, 'k', 1, 0, 0, 0, 'v'};
    uint8_t lie[sizeof blob];
    memcpy(lie, blob, sizeof blob);
    static const size_t lengths[] = {0, 4, 9};
    lie[lengths[random_below(seed, 3)] + random_below(seed, 4)] += (uint8_t)(1 + random_below(seed, 255));
    WRONG(mmsb_page_metadata_import(own, lie, sizeof lie), MMSB_E_CORRUPT);
    WRONG(mmsb_page_metadata_import(own, blob, 1 + random_below(seed, sizeof blob - 1)), MMSB_E_CORRUPT);
    size_t length;
    CHECK_STATUS(mmsb_page_metadata_get(own, "no such key", 11, NULL, 0, &length), MMSB_E_NOT_FOUND);
}

static void states(const abuse_t *abuse, mmsb_page_t own, uint64_t index) {
    mmsb_page_t page = 42;
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 1000000 + index; /* the id of own */
    WRONG(mmsb_page_create(abuse->context, 8, &options, &page), MMSB_E_ALREADY_EXISTS);
    WRONG(mmsb_page_clone(own, 1000000 + index, &page), MMSB_E_ALREADY_EXISTS);
    WRONG(mmsb_page_create(abuse->limited, 32 << 20, NULL, &page), MMSB_E_LIMIT);
    uint64_t found = 42;
    WRONG(mmsb_guard_check(abuse->limited, NULL, &found), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(found, 42);
    CHECK_OK(mmsb_guard_check(abuse->context, NULL, &found));
    CHECK_EQUAL(found, 0);
    WRONG(mmsb_page_lookup(abuse->context, 2000000 + index, &page), MMSB_E_NOT_FOUND);
    CHECK_EQUAL(page, 42);

    CHECK_OK(mmsb_page_pin(own, MMSB_PIN_READ, NULL));
    WRONG(mmsb_page_destroy(own), MMSB_E_BUSY);
    WRONG(mmsb_page_resize(own, 5), MMSB_E_BUSY);
    WRONG(mmsb_page_migrate(own, MMSB_LOCATION_DISK, 0), MMSB_E_BUSY);
    WRONG(mmsb_page_unpin(own, MMSB_PIN_WRITE), MMSB_E_INVALID_STATE);
    CHECK_OK(mmsb_page_unpin(own, MMSB_PIN_READ));
    WRONG(mmsb_page_unpin(own, MMSB_PIN_READ), MMSB_E_INVALID_STATE);

    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_RUNS;
    delta.epoch = mmsb_page_epoch(own) + 5;
    CHECK_OK(mmsb_page_apply(own, &delta));
    WRONG(mmsb_page_apply(own, &delta), MMSB_E_EPOCH);
    delta.epoch--;
    WRONG(mmsb_page_apply(own, &delta), MMSB_E_EPOCH);
    delta.epoch = 0;
    delta.page_id = 1;
    WRONG(mmsb_page_apply(own, &delta), MMSB_E_MISMATCH);
    WRONG(mmsb_page_dependency_add(own, own), MMSB_E_INVALID_ARGUMENT);
    WRONG(mmsb_page_dependency_remove(own, abuse->shared), MMSB_E_NOT_FOUND);

    mmsb_page_t twice;
    CHECK_OK(mmsb_page_create(abuse->context, 8, NULL, &twice));
    CHECK_OK(mmsb_page_destroy(twice));
    WRONG(mmsb_page_destroy(twice), MMSB_E_STALE_HANDLE);
    mmsb_context_t context;
    CHECK_OK(mmsb_context_create(NULL, &context));
    CHECK_OK(mmsb_page_create(context, 8, NULL, &page));
    WRONG(mmsb_page_dependency_add(own, page), MMSB_E_MISMATCH);
    CHECK_OK(mmsb_context_destroy(context));
    WRONG(mmsb_context_destroy(context), MMSB_E_STALE_HANDLE);
    WRONG(mmsb_page_write(page, 0, "x", 1), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_memory_free(&context), MMSB_E_STALE_HANDLE);
    CHECK_STATUS(mmsb_delta_free(&delta), MMSB_E_STALE_HANDLE);
}

static void batches_with_one_bad_item(const abuse_t *abuse, mmsb_page_t own, uint64_t *seed) {
    enum { COUNT = 20 };
    size_t place = random_below(seed, COUNT);
    size_t bad = 99;
    uint8_t byte = 0;
    mmsb_page_t pages[COUNT];
    mmsb_delta_t deltas[COUNT];
    mmsb_page_range_t ranges[COUNT];
    const mmsb_run_t run = {0, 1};
    uint64_t ids[COUNT];
    mmsb_page_info_t infos[COUNT];
    mmsb_status_t statuses[COUNT];
    uint64_t sizes[COUNT];
    mmsb_page_t made[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = 77;
        pages[i] = own;
        deltas[i] = one_run(&run, "!");
        ranges[i] = (mmsb_page_range_t){own, 0, 1, &byte};
        ids[i] = page_info(own).id;
        mmsb_page_info_init(&infos[i]);
    }
    mmsb_page_t stale = abuse->stale[random_below(seed, STALE)];
    pages[place] = stale;
    ranges[place].page = stale;
    ids[place] = 3;
#define WRONG_AT(call, code) \
    do { \
        bad = 99; \
        WRONG(call, code); \
        CHECK_EQUAL(bad, place); \
    } while (0)
    WRONG_AT(mmsb_page_apply_many(pages, deltas, COUNT, &bad), MMSB_E_STALE_HANDLE);
    WRONG_AT(mmsb_page_read_many(ranges, COUNT, &bad), MMSB_E_STALE_HANDLE);
    WRONG_AT(mmsb_page_write_many(ranges, COUNT, &bad), MMSB_E_STALE_HANDLE);
    WRONG_AT(mmsb_page_info_many(pages, COUNT, infos, &bad), MMSB_E_STALE_HANDLE);
    WRONG_AT(mmsb_page_pin_many(pages, COUNT, MMSB_PIN_READ, NULL, &bad), MMSB_E_STALE_HANDLE);
    WRONG_AT(mmsb_page_clone_many(pages, NULL, COUNT, made, &bad), MMSB_E_STALE_HANDLE);
    WRONG(mmsb_page_resize_many((mmsb_page_t[]){own, stale}, sizes, 2, &bad), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(bad, 1);
    WRONG(mmsb_page_unpin_many(pages, COUNT, MMSB_PIN_READ, &bad), place == 0 ? MMSB_E_STALE_HANDLE : MMSB_E_INVALID_STATE);
    CHECK_EQUAL(bad, 0);
    WRONG_AT(mmsb_page_migrate_many(pages, COUNT, MMSB_LOCATION_DISK, 0, NULL, statuses, &bad), MMSB_E_STALE_HANDLE);
    WRONG_AT(mmsb_page_lookup_many(abuse->context, ids, COUNT, pages, &bad), MMSB_E_NOT_FOUND);
    mmsb_page_t two[2] = {own, stale};
    WRONG(mmsb_page_destroy_many(two, 2, &bad), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(bad, 1);
    pages[place] = own;
    deltas[place].kind = MMSB_DELTA_RUNS + 1;
    WRONG_AT(mmsb_page_apply_many(pages, deltas, COUNT, &bad), MMSB_E_INVALID_ARGUMENT);
}

static void *abuse_the_library(void *argument) {
    team_member_t *member = argument;
    const abuse_t *abuse = member->shared;
    uint64_t seed = member->index * 7919 + 1;
    uint64_t size = 100 + member->index;
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 1000000 + member->index;
    mmsb_page_t own;
    REQUIRE_OK(mmsb_page_create(abuse->context, size, &options, &own));
    CHECK_OK(mmsb_page_metadata_set(own, "kept", 4, "value", 5));
    write_pattern(own, member->index);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t epoch = mmsb_page_epoch(own);
        bad_handles(abuse, &seed);
        sizes_and_offsets(abuse, own, size);
        null_pointers(abuse, own);
        misaligned_pointers(abuse, own, size);
        unknown_enums_and_versions(abuse, own, &seed);
        texts_and_blobs(own, &seed);
        batches_with_one_bad_item(abuse, own, &seed);
        CHECK(mmsb_page_epoch(own) <= epoch + 1); /* of the misaligned offsets, where they are taken */
        states(abuse, own, member->index);
        /* All that changed nothing, and good calls work. */
        CHECK_EQUAL(mmsb_page_size(own), size);
        CHECK(page_holds_pattern(own, member->index, size));
        mmsb_page_info_t info = page_info(own);
        CHECK_EQUAL(info.metadata_count, 1);
        CHECK_EQUAL(info.location, MMSB_LOCATION_CPU);
        CHECK_EQUAL(info.read_pins + info.write_pins, 0);
        CHECK(page_holds_pattern(abuse->shared, 4711, 5000));
    }
    CHECK_OK(mmsb_page_destroy(own));
    return NULL;
}

static void sixty_four_threads_of_abuse(void) {
    abuse_t abuse;
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.guard_every = 2;
    options.guard_quarantine = 1 << 16;
    REQUIRE_OK(mmsb_context_create(&options, &abuse.context));
    mmsb_context_options_init(&options);
    options.memory_limit = 16 << 20;
    REQUIRE_OK(mmsb_context_create(&options, &abuse.limited));
    abuse.ended[MMSB_KIND_CONTEXT] = new_context();
    for (int i = 0; i < STALE; i++) {
        abuse.stale[i] = new_page(i % 2 == 0 ? abuse.context : abuse.ended[MMSB_KIND_CONTEXT], 64);
        if (i % 2 == 0) {
            REQUIRE_OK(mmsb_page_destroy(abuse.stale[i]));
        }
    }
    REQUIRE_OK(mmsb_context_destroy(abuse.ended[MMSB_KIND_CONTEXT]));
    abuse.shared = new_page(abuse.context, 5000);
    write_pattern(abuse.shared, 4711);
    uint64_t version = mmsb_page_version(abuse.shared);
    REQUIRE_OK(mmsb_page_create_many_start(abuse.context, 8, 0, NULL, NULL, NULL, &abuse.ended[MMSB_KIND_TICKET]));
    REQUIRE_OK(mmsb_ticket_destroy(abuse.ended[MMSB_KIND_TICKET]));
    abuse.ended[MMSB_KIND_SNAPSHOT] = new_snapshot();
    REQUIRE_OK(mmsb_snapshot_close(abuse.ended[MMSB_KIND_SNAPSHOT]));
    device_objects_t device = new_device_objects();
    end_device_objects(&device);
    REQUIRE_OK(mmsb_context_destroy(device.context));
    abuse.ended[MMSB_KIND_STREAM] = device.stream;
    abuse.ended[MMSB_KIND_BLOCK] = device.block;
    abuse.ended[MMSB_KIND_USE] = device.use;
    abuse.ended[MMSB_KIND_RUNTIME] = device.runtime;
    abuse.ended[MMSB_KIND_RESERVATION] = device.reservation;
    abuse.ended[MMSB_KIND_CAPTURE] = device.capture;
    abuse.ended[MMSB_KIND_COMMANDS] = new_commands(1, 4);
    REQUIRE_OK(mmsb_commands_destroy(abuse.ended[MMSB_KIND_COMMANDS]));
    run_team(THREADS, abuse_the_library, &abuse);
    CHECK_EQUAL(mmsb_page_version(abuse.shared), version);
    CHECK_EQUAL(context_stats(abuse.context).pages, 1);
    CHECK_EQUAL(context_stats(abuse.limited).pages, 0);
    CHECK_OK(mmsb_context_destroy(abuse.limited));
    CHECK_OK(mmsb_context_destroy(abuse.context));
}

int main(void) {
    RUN(sixty_four_threads_of_abuse);
    return check_report();
}
