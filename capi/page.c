/* Pages. What is hot stays in C (native/life.h, lock.h, pin.h, look.h); the rest enters Go. */
#include <string.h>

#include "door.h"
#include "tensor.h"

#include "_cgo_export.h"

void mmsb_page_options_init(mmsb_page_options_t *options) {
    DOOR_INIT(options);
    options->location = MMSB_LOCATION_DEFAULT;
    options->numa_node = -1;
}

static const mmsb_page_options_t default_options = {
    .struct_size = sizeof(mmsb_page_options_t), .location = MMSB_LOCATION_DEFAULT, .numa_node = -1};

/* NULL, or a struct of this library with known contents. */
static mmsb_status_t check_any_options(const mmsb_page_options_t **options) {
    if (!*options) {
        *options = &default_options;
        return MMSB_OK;
    }
    const mmsb_page_options_t *given = *options;
    DOOR_STRUCT("mmsb_page_options_t", given, given->reserved_word);
    if (given->contents > MMSB_PAGE_UNINITIALISED)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "contents is %u, not 0 (zeroed) or 1 (uninitialised)", given->contents);
    if (given->numa_node < -1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "numa_node is %d, less than -1", given->numa_node);
    return MMSB_OK;
}

/* Those of one page. */
static mmsb_status_t check_options(const mmsb_page_options_t **options) {
    DOOR_CHECK(check_any_options(options));
    if ((*options)->sizes || (*options)->ids)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "sizes or ids is set for 1 page; only mmsb_page_create_many has them");
    return MMSB_OK;
}

/* Those of count pages. */
static mmsb_status_t check_many_options(const mmsb_page_options_t **options, size_t count) {
    DOOR_CHECK(check_any_options(options));
    if ((*options)->sizes)
        DOOR_CHECK(door_array("sizes", (*options)->sizes, count, sizeof(uint64_t), __alignof__(uint64_t)));
    if ((*options)->ids)
        DOOR_CHECK(door_array("ids", (*options)->ids, count, sizeof(uint64_t), __alignof__(uint64_t)));
    return MMSB_OK;
}

/* What native code does alone: small pages on the host with automatic ids. The default location can be another. */
static inline int is_plain(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options) {
    if (MMSB__UNLIKELY(size - 1 >= MMSB__SMALL_MAX || options->id != 0 || options->numa_node >= 0 || options->device != 0 ||
                       options->ids))
        return 0;
    return options->location == MMSB_LOCATION_CPU ||
           (options->location == MMSB_LOCATION_DEFAULT &&
            mmsb__context_record(MMSB__HANDLE_INDEX(context) & (MMSB__CONTEXTS - 1))->default_location == MMSB_LOCATION_CPU);
}

static mmsb_status_t create(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options, mmsb_page_t *page) {
    if (is_plain(context, size, options)) {
        mmsb_status_t status = mmsb__page_create_small(context, size, options->contents == MMSB_PAGE_ZEROED, page);
        if (status != MMSB__ENTER_GO)
            return status;
    }
    return mmsbgo_page_create(context, size, (mmsb_page_options_t *)options, page);
}

DOOR_SLOW mmsb_status_t create_slow(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                    mmsb_page_t *page) {
    DOOR_ENTER();
    DOOR_CHECK(check_options(&options));
    DOOR_POINTER(page);
    DOOR_CHANGE_IN(context, create(context, size, options, page))
}

static inline int usable(const void *pointer) {
    return pointer && ((uintptr_t)pointer & 7) == 0;
}

static inline int uninitialised(const mmsb_page_options_t *options) {
    return options && ((uintptr_t)options & 7) == 0 && options->contents == MMSB_PAGE_UNINITIALISED &&
           mmsb__options_plain(options);
}

static inline int zeroed(const mmsb_page_options_t *options) {
    return !options || (((uintptr_t)options & 7) == 0 && options->contents == MMSB_PAGE_ZEROED && mmsb__options_plain(options));
}

DOOR_SLOW mmsb_status_t create_zeroed(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                      mmsb_page_t *page) {
    if (MMSB__LIKELY(usable(page) && zeroed(options) && mmsb__page_create_fast(context, size, 1, page, NULL)))
        return MMSB_OK;
    return create_slow(context, size, options, page);
}

/* What is asked first is what costs least: pages that are not cleaned. */
DOOR_QUICK mmsb_status_t mmsb_page_create(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                          mmsb_page_t *page) {
    if (MMSB__LIKELY(uninitialised(options) && usable(page)) &&
        MMSB__LIKELY(mmsb__page_create_fast(context, size, 0, page, NULL)))
        return MMSB_OK;
    return create_zeroed(context, size, options, page);
}

DOOR_SLOW mmsb_status_t create_with_address_slow(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                                 mmsb_page_t *page, void **address) {
    DOOR_ENTER();
    DOOR_POINTER(address);
    mmsb_status_t status = create_slow(context, size, options, page);
    if (status != MMSB_OK && status != MMSB_E_NOT_DURABLE)
        return status;
    int on_disk = MMSB__STATE_LOCATION(mmsb__state_load(mmsb__record_of(*page))) == MMSB_LOCATION_DISK;
    *address = on_disk ? NULL : mmsb__page_address(*page);
    return status;
}

DOOR_SLOW mmsb_status_t create_zeroed_with_address(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                                   mmsb_page_t *page, void **address) {
    if (MMSB__LIKELY(usable(page) && usable(address) && zeroed(options) &&
                     mmsb__page_create_fast(context, size, 1, page, address)))
        return MMSB_OK;
    return create_with_address_slow(context, size, options, page, address);
}

DOOR_QUICK mmsb_status_t mmsb_page_create_with_address(mmsb_context_t context, uint64_t size, const mmsb_page_options_t *options,
                                                       mmsb_page_t *page, void **address) {
    if (MMSB__LIKELY(uninitialised(options) && usable(page) && usable(address)) &&
        MMSB__LIKELY(mmsb__page_create_fast(context, size, 0, page, address)))
        return MMSB_OK;
    return create_zeroed_with_address(context, size, options, page, address);
}

mmsb_status_t mmsb_page_create_many(mmsb_context_t context, uint64_t size, size_t count, const mmsb_page_options_t *options,
                                    const mmsb_work_options_t *work, mmsb_page_t *pages) {
    DOOR_ENTER();
    DOOR_CHECK(check_many_options(&options, count));
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(pages, count);
    if (!options->sizes && is_plain(context, size, options) &&
        (!work || (work->timeout_ns == MMSB_WAIT_FOREVER && work->after_count == 0 && work->stream == 0))) {
        mmsb_status_t status = mmsb__page_create_many(context, size, count, options->contents == MMSB_PAGE_ZEROED, pages);
        if (status != MMSB__ENTER_GO)
            return status;
    }
    DOOR_CHANGE_IN(context, mmsbgo_page_create_many(context, size, count, (mmsb_page_options_t *)options,
                                                    (mmsb_work_options_t *)work, pages))
}

mmsb_status_t mmsb_page_create_many_start(mmsb_context_t context, uint64_t size, size_t count, const mmsb_page_options_t *options,
                                          const mmsb_work_options_t *work, mmsb_page_t *pages, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(check_many_options(&options, count));
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(pages, count);
    DOOR_POINTER(ticket);
    return mmsbgo_page_create_many_start(context, size, count, (mmsb_page_options_t *)options, (mmsb_work_options_t *)work, pages,
                                         ticket);
}

mmsb_status_t mmsb_page_clone(mmsb_page_t page, uint64_t id, mmsb_page_t *clone) {
    DOOR_ENTER();
    DOOR_POINTER(clone);
    DOOR_CHANGE_OF(page, mmsbgo_page_clone(page, id, clone))
}

mmsb_status_t mmsb_page_clone_many(const mmsb_page_t *pages, const uint64_t *ids, size_t count, mmsb_page_t *clones,
                                   size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(ids);
    DOOR_ARRAY(clones, count);
    DOOR_OPTIONAL(bad_index);
    DOOR_CHANGE_OF(pages[0], mmsbgo_page_clone_many((mmsb_page_t *)pages, (uint64_t *)ids, count, clones, bad_index))
}

void mmsb_adopt_options_init(mmsb_adopt_options_t *options) {
    DOOR_INIT(options);
}

/* NULL, or a struct of this library with known contents. */
static mmsb_status_t check_adopt_options(const mmsb_adopt_options_t **options) {
    static const mmsb_adopt_options_t defaults = {.struct_size = sizeof defaults};
    if (!*options)
        *options = &defaults;
    const mmsb_adopt_options_t *given = *options;
    DOOR_STRUCT("mmsb_adopt_options_t", given, 0);
    if (given->read_only < 0 || given->read_only > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "read_only is %d, not 0 or 1", given->read_only);
    if (given->stream && given->location != MMSB_LOCATION_GPU)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "stream is 0x%llx, but memory of location %d has no stream",
                          (unsigned long long)(uintptr_t)given->stream, given->location);
    return MMSB_OK;
}

mmsb_status_t mmsb_page_adopt(mmsb_context_t context, void *memory, uint64_t size, const mmsb_adopt_options_t *options,
                              mmsb_page_t *page) {
    DOOR_ENTER();
    DOOR_CHECK(check_adopt_options(&options));
    DOOR_BYTES(memory);
    DOOR_POINTER(page);
    DOOR_CHANGE_IN(context, mmsbgo_page_adopt(context, (uintptr_t)memory, size, (mmsb_adopt_options_t *)options, page))
}

mmsb_status_t mmsb_page_adopt_many(mmsb_context_t context, void *const *memories, const uint64_t *sizes, const uint64_t *ids,
                                   size_t count, const mmsb_adopt_options_t *options, mmsb_page_t *pages, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_CHECK(check_adopt_options(&options));
    DOOR_ARRAY(memories, count);
    DOOR_ARRAY(sizes, count);
    DOOR_OPTIONAL(ids);
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(bad_index);
    for (size_t i = 0; i < count; i++) {
        if (memories[i])
            continue;
        if (bad_index)
            *bad_index = i;
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "memories[%zu] is NULL", i);
    }
    DOOR_CHANGE_IN(context, mmsbgo_page_adopt_many(context, (uintptr_t *)memories, (uint64_t *)sizes, (uint64_t *)ids, count,
                                                   (mmsb_adopt_options_t *)options, pages, bad_index))
}

/* After what may have given adopted memory back, when its locks are free. */
static inline mmsb_status_t gave_back(mmsb_status_t status) {
    mmsb__tensors_end_waiting();
    return status;
}

DOOR_SLOW mmsb_status_t destroy_slow(mmsb_page_t page) {
    DOOR_ENTER_TO_END();
    if (page == 0)
        return MMSB_OK;
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(page, gave_back(mmsb__page_destroy_slow(page)))
}

DOOR_QUICK mmsb_status_t mmsb_page_destroy(mmsb_page_t page) {
    if (MMSB__LIKELY(mmsb__page_destroy_fast(page)))
        return MMSB_OK;
    return destroy_slow(page);
}

mmsb_status_t mmsb_page_destroy_many(const mmsb_page_t *pages, size_t count, size_t *bad_index) {
    DOOR_ENTER_TO_END();
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(bad_index);
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(pages[0], gave_back(mmsb__page_destroy_many(pages, count, bad_index)))
}

mmsb_status_t mmsb_page_release(mmsb_page_t page, void **memory, uint64_t *size) {
    DOOR_ENTER();
    DOOR_POINTER(memory);
    DOOR_POINTER(size);
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(page, mmsbgo_page_release(page, (uintptr_t *)memory, size))
}

mmsb_status_t mmsb_memory_free(void *memory) {
    DOOR_ENTER_TO_END();
    if (!memory)
        return MMSB_OK;
    return mmsbgo_memory_free((uintptr_t)memory);
}

mmsb_status_t mmsb_page_lookup(mmsb_context_t context, uint64_t id, mmsb_page_t *page) {
    DOOR_ENTER();
    DOOR_POINTER(page);
    mmsb__context_record_t *record = mmsb__context_find(context);
    if (!record)
        return mmsb__error()->error_code;
    mmsb_page_t found = mmsb__page_find(record, id);
    if (found == 0)
        return mmsbgo_page_lookup(context, id, page);
    *page = found;
    return MMSB_OK;
}

mmsb_status_t mmsb_page_lookup_many(mmsb_context_t context, const uint64_t *ids, size_t count, mmsb_page_t *pages,
                                    size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(ids, count);
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(bad_index);
    return mmsbgo_page_lookup_many(context, (uint64_t *)ids, count, pages, bad_index);
}

void mmsb_page_info_init(mmsb_page_info_t *info) {
    DOOR_INIT(info);
}

mmsb_status_t mmsb_page_info(mmsb_page_t page, mmsb_page_info_t *info) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_page_info_t", info, 0);
    return mmsb__page_info(page, info);
}

static mmsb_status_t check_info(const mmsb_page_info_t *info) {
    DOOR_STRUCT("mmsb_page_info_t", info, 0);
    return MMSB_OK;
}

mmsb_status_t mmsb_page_info_many(const mmsb_page_t *pages, size_t count, mmsb_page_info_t *infos, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, count);
    DOOR_ARRAY(infos, count);
    DOOR_OPTIONAL(bad_index);
    for (size_t i = 0; i < count; i++) {
        mmsb_status_t status = check_info(&infos[i]);
        if (status != MMSB_OK) {
            if (bad_index)
                *bad_index = i;
            return status;
        }
    }
    return mmsb__page_info_many(pages, count, infos, bad_index);
}

DOOR_QUICK void *mmsb_page_address(mmsb_page_t page) {
    return mmsb__page_address(page);
}

mmsb_status_t mmsb_page_address_many(const mmsb_page_t *pages, size_t count, void **addresses, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, count);
    DOOR_ARRAY(addresses, count);
    DOOR_OPTIONAL(bad_index);
    for (size_t i = 0; i < count; i++) {
        if (i + 8 < count)
            __builtin_prefetch(mmsb__record_of(pages[i + 8]), 1);
        addresses[i] = mmsb__page_address(pages[i]);
        if (MMSB__UNLIKELY(!addresses[i])) {
            if (bad_index)
                *bad_index = i;
            return mmsb__error()->error_code;
        }
    }
    return MMSB_OK;
}

uint64_t mmsb_page_id(mmsb_page_t page) {
    return mmsb__page_id(page);
}

mmsb_location_t mmsb_page_location(mmsb_page_t page) {
    return mmsb__page_location(page);
}

DOOR_QUICK uint64_t mmsb_page_size(mmsb_page_t page) {
    return mmsb__page_look(page, MMSB__FIELD_SIZE);
}

DOOR_QUICK uint64_t mmsb_page_epoch(mmsb_page_t page) {
    return mmsb__page_look(page, MMSB__FIELD_EPOCH);
}

DOOR_QUICK uint64_t mmsb_page_version(mmsb_page_t page) {
    return mmsb__page_look(page, MMSB__FIELD_VERSION);
}

static inline int is_mode(int32_t mode) {
    return mode == MMSB_PIN_READ || mode == MMSB_PIN_WRITE;
}

static mmsb_status_t check_mode(int32_t mode) {
    return is_mode(mode) ? MMSB_OK : mmsb__fail(MMSB_E_INVALID_ARGUMENT, "pin mode is %d, not 1 (read) or 2 (write)", mode);
}

DOOR_SLOW mmsb_status_t pin_slow(mmsb_page_t page, int32_t mode, void **address) {
    DOOR_ENTER();
    DOOR_CHECK(check_mode(mode));
    DOOR_OPTIONAL(address);
    return mmsb__page_pin(page, mode, address);
}

DOOR_SLOW mmsb_status_t unpin_slow(mmsb_page_t page, int32_t mode) {
    DOOR_ENTER_TO_END();
    DOOR_CHECK(check_mode(mode));
    return gave_back(mmsb__page_unpin(page, mode));
}

DOOR_QUICK mmsb_status_t mmsb_page_pin(mmsb_page_t page, int32_t mode, void **address) {
    if (MMSB__LIKELY(mmsb__gate == MMSB_OK && is_mode(mode) && ((uintptr_t)address & (sizeof *address - 1)) == 0 &&
                     mmsb__page_pin_fast(page, mode, address)))
        return MMSB_OK;
    return pin_slow(page, mode, address);
}

DOOR_QUICK mmsb_status_t mmsb_page_unpin(mmsb_page_t page, int32_t mode) {
    if (MMSB__LIKELY(mmsb__gate == MMSB_OK && is_mode(mode) && mmsb__page_unpin_fast(page, mode)))
        return MMSB_OK;
    return unpin_slow(page, mode);
}

mmsb_status_t mmsb_writing_begin(mmsb_context_t context, uint64_t timeout_ns) {
    DOOR_ENTER();
    return mmsb__writing_begin(context, timeout_ns);
}

mmsb_status_t mmsb_writing_end(mmsb_context_t context) {
    DOOR_ENTER_TO_END();
    return mmsb__writing_end(context);
}

mmsb_status_t mmsb_writing_check(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_writing_check(context);
}

mmsb_status_t mmsb_page_pin_many(const mmsb_page_t *pages, size_t count, int32_t mode, void **addresses, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_CHECK(check_mode(mode));
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(addresses);
    DOOR_OPTIONAL(bad_index);
    return mmsb__page_pin_many(pages, count, mode, addresses, bad_index);
}

mmsb_status_t mmsb_page_unpin_many(const mmsb_page_t *pages, size_t count, int32_t mode, size_t *bad_index) {
    DOOR_ENTER_TO_END();
    DOOR_CHECK(check_mode(mode));
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(bad_index);
    return gave_back(mmsb__page_unpin_many(pages, count, mode, bad_index));
}

mmsb_status_t mmsb_page_read(mmsb_page_t page, uint64_t offset, void *buffer, uint64_t length) {
    DOOR_ENTER();
    DOOR_BUFFER(buffer, length);
    return mmsb__page_read(page, offset, buffer, length);
}

mmsb_status_t mmsb_page_write(mmsb_page_t page, uint64_t offset, const void *buffer, uint64_t length) {
    DOOR_ENTER();
    DOOR_BUFFER(buffer, length);
    return mmsb__page_write(page, offset, buffer, length);
}

mmsb_status_t mmsb_page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(ranges, count);
    DOOR_OPTIONAL(bad_index);
    return mmsb__page_read_many(ranges, count, bad_index);
}

mmsb_status_t mmsb_page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(ranges, count);
    DOOR_OPTIONAL(bad_index);
    DOOR_CHANGE_OF(ranges[0].page, mmsb__page_write_many(ranges, count, bad_index))
}

static mmsb_status_t resize(mmsb_page_t page, uint64_t size) {
    mmsb_status_t status = size != 0 ? mmsb__page_resize_in_place(page, size) : MMSB__ENTER_GO;
    return status != MMSB__ENTER_GO ? status : mmsbgo_page_resize(page, size);
}

mmsb_status_t mmsb_page_resize(mmsb_page_t page, uint64_t size) {
    DOOR_ENTER();
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(page, resize(page, size))
}

mmsb_status_t mmsb_page_resize_many(const mmsb_page_t *pages, const uint64_t *sizes, size_t count, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, count);
    DOOR_ARRAY(sizes, count);
    DOOR_OPTIONAL(bad_index);
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(pages[0], mmsbgo_page_resize_many((mmsb_page_t *)pages, (uint64_t *)sizes, count, bad_index))
}

mmsb_status_t mmsb_page_migrate(mmsb_page_t page, mmsb_location_t location, int32_t device) {
    DOOR_ENTER();
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(page, mmsbgo_page_migrate(page, location, device))
}

mmsb_status_t mmsb_page_migrate_many(const mmsb_page_t *pages, size_t count, mmsb_location_t location, int32_t device,
                                     const mmsb_work_options_t *work, mmsb_status_t *statuses, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(statuses);
    DOOR_OPTIONAL(bad_index);
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(pages[0], mmsbgo_page_migrate_many((mmsb_page_t *)pages, count, location, device, (mmsb_work_options_t *)work,
                                                      statuses, bad_index))
}

mmsb_status_t mmsb_page_migrate_many_start(const mmsb_page_t *pages, size_t count, mmsb_location_t location, int32_t device,
                                           const mmsb_work_options_t *work, mmsb_status_t *statuses, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(statuses);
    DOOR_POINTER(ticket);
    mmsb__tensors_end_waiting();
    return mmsbgo_page_migrate_many_start((mmsb_page_t *)pages, count, location, device, (mmsb_work_options_t *)work, statuses,
                                          ticket);
}

/* ----------------------------------------------------------------------------------------- pages in two places ---- */

mmsb_status_t mmsb_page_sync(mmsb_page_t page, mmsb_sync_t direction, int32_t device) {
    DOOR_ENTER();
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(page, mmsbgo_page_sync(page, direction, device))
}

mmsb_status_t mmsb_page_sync_many(const mmsb_page_t *pages, size_t count, mmsb_sync_t direction, int32_t device,
                                  const mmsb_work_options_t *work, mmsb_status_t *statuses, size_t *bad_index) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(statuses);
    DOOR_OPTIONAL(bad_index);
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_OF(pages[0], mmsbgo_page_sync_many((mmsb_page_t *)pages, count, direction, device, (mmsb_work_options_t *)work,
                                                   statuses, bad_index))
}

mmsb_status_t mmsb_page_sync_many_start(const mmsb_page_t *pages, size_t count, mmsb_sync_t direction, int32_t device,
                                        const mmsb_work_options_t *work, mmsb_status_t *statuses, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(statuses);
    DOOR_POINTER(ticket);
    mmsb__tensors_end_waiting();
    return mmsbgo_page_sync_many_start((mmsb_page_t *)pages, count, direction, device, (mmsb_work_options_t *)work, statuses,
                                       ticket);
}

mmsb_status_t mmsb_page_sync_enqueue(const mmsb_page_t *pages, size_t count, mmsb_sync_t direction, int32_t device,
                                     size_t *bad_index) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, count);
    DOOR_OPTIONAL(bad_index);
    return mmsbgo_page_sync_enqueue((mmsb_page_t *)pages, count, direction, device, bad_index);
}

mmsb_status_t mmsb_context_sync_drain(mmsb_context_t context, const mmsb_work_options_t *work, uint64_t *synced) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_OPTIONAL(synced);
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_IN(context, mmsbgo_context_sync_drain(context, (mmsb_work_options_t *)work, synced))
}

mmsb_status_t mmsb_context_prefetch(mmsb_context_t context, const uint64_t *ids, size_t count, int32_t device,
                                    const mmsb_work_options_t *work, uint64_t *synced) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(ids, count);
    DOOR_OPTIONAL(synced);
    mmsb__tensors_end_waiting();
    DOOR_CHANGE_IN(context, mmsbgo_context_prefetch(context, (uint64_t *)ids, count, device, (mmsb_work_options_t *)work, synced))
}

mmsb_status_t mmsb_context_prefetch_start(mmsb_context_t context, const uint64_t *ids, size_t count, int32_t device,
                                          const mmsb_work_options_t *work, mmsb_ticket_t *ticket) {
    DOOR_ENTER();
    DOOR_CHECK(door_work(work));
    DOOR_ARRAY(ids, count);
    DOOR_POINTER(ticket);
    mmsb__tensors_end_waiting();
    return mmsbgo_context_prefetch_start(context, (uint64_t *)ids, count, device, (mmsb_work_options_t *)work, ticket);
}

mmsb_status_t mmsb_page_copies(mmsb_page_t page, mmsb_page_copy_t *copies, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(copies, capacity);
    DOOR_POINTER(count);
    return mmsbgo_page_copies(page, copies, capacity, count);
}

mmsb_status_t mmsb_context_device_pages(mmsb_context_t context, int32_t device, uint64_t *cursor, mmsb_page_t *pages,
                                        size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_POINTER(cursor);
    DOOR_ARRAY(pages, capacity);
    DOOR_POINTER(count);
    if (capacity == 0)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "capacity is 0, at least 1 is needed");
    return mmsbgo_context_device_pages(context, device, cursor, pages, capacity, count);
}

mmsb_status_t mmsb_context_lost_pages(mmsb_context_t context, mmsb_lost_page_t *pages, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(pages, capacity);
    DOOR_POINTER(count);
    return mmsbgo_context_lost_pages(context, pages, capacity, count);
}

mmsb_status_t mmsb_page_replicate(mmsb_page_t page, int32_t device) {
    DOOR_ENTER();
    return mmsbgo_page_replicate(page, device);
}

mmsb_status_t mmsb_page_replica_drop(mmsb_page_t page, int32_t device) {
    DOOR_ENTER();
    return mmsbgo_page_replica_drop(page, device);
}

mmsb_status_t mmsb_page_host_copy_drop(mmsb_page_t page) {
    DOOR_ENTER();
    return mmsbgo_page_host_copy_drop(page);
}

mmsb_status_t mmsb_page_host_copy_pin(mmsb_page_t page, int32_t mode, void **address) {
    DOOR_ENTER();
    DOOR_POINTER(address);
    DOOR_CHECK(check_mode(mode));
    return mmsbgo_page_host_copy_pin(page, mode == MMSB_PIN_WRITE, address);
}

mmsb_status_t mmsb_page_host_copy_unpin(mmsb_page_t page, int32_t mode) {
    DOOR_ENTER_TO_END();
    DOOR_CHECK(check_mode(mode));
    return mmsbgo_page_host_copy_unpin(page, mode == MMSB_PIN_WRITE);
}

void mmsb_sync_stats_init(mmsb_sync_stats_t *stats) {
    DOOR_INIT(stats);
}

mmsb_status_t mmsb_context_sync_stats(mmsb_context_t context, mmsb_sync_stats_t *stats) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_sync_stats_t", stats, stats->reserved_word);
    return mmsbgo_context_sync_stats(context, stats);
}

/* ----------------------------------------------------------------------------------------------- UNIFIED pages ---- */

mmsb_status_t mmsb_prefetch_distance(const uint64_t *latencies_ns, size_t count, uint32_t *distance) {
    DOOR_ENTER();
    DOOR_ARRAY(latencies_ns, count);
    DOOR_POINTER(distance);
    double mean = 0;
    for (size_t i = 0; i < count; i++)
        mean += (double)latencies_ns[i] / (double)count;
    *distance = count == 0 ? 4 : mean > 1e6 ? 16 : mean > 5e5 ? 8 : mean > 1e5 ? 4 : 2;
    return MMSB_OK;
}

void mmsb_page_advice_init(mmsb_page_advice_t *advice) {
    DOOR_INIT(advice);
    advice->preferred = MMSB_DEVICE_NONE;
}

mmsb_status_t mmsb_page_advise(mmsb_page_t page, const mmsb_page_advice_t *advice) {
    DOOR_ENTER();
    int32_t preferred = MMSB_DEVICE_NONE, read_mostly = 0;
    if (advice) {
        DOOR_STRUCT("mmsb_page_advice_t", advice, advice->reserved_word);
        preferred = advice->preferred;
        read_mostly = advice->read_mostly;
    }
    if (preferred < MMSB_DEVICE_NONE)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "preferred is %d, not a device, -1 (host) or -2 (none)", preferred);
    if (read_mostly < 0 || read_mostly > 1)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "read_mostly is %d, not 0 or 1", read_mostly);
    return mmsbgo_page_advise(page, preferred, read_mostly);
}

mmsb_status_t mmsb_page_advice(mmsb_page_t page, mmsb_page_advice_t *advice) {
    DOOR_ENTER();
    DOOR_STRUCT("mmsb_page_advice_t", advice, advice->reserved_word);
    return mmsbgo_page_advice(page, &advice->preferred, &advice->read_mostly);
}

/* ------------------------------------------------------------------------------------------------ change masks ---- */

mmsb_status_t mmsb_page_mask_read(mmsb_page_t page, uint64_t offset, void *bits, uint64_t length) {
    DOOR_ENTER();
    DOOR_BUFFER(bits, length);
    return mmsb__page_mask_read(page, offset, bits, length);
}

mmsb_status_t mmsb_page_mask_clear(mmsb_page_t page) {
    DOOR_ENTER();
    DOOR_CHANGE_OF(page, mmsb__page_mask_clear(page))
}

mmsb_status_t mmsb_page_mask_count(mmsb_page_t page, uint64_t *count) {
    DOOR_ENTER();
    DOOR_POINTER(count);
    return mmsb__page_mask_count(page, count);
}

/* --------------------------------------------------------------------------------------------------- metadata ---- */

/* Before anybody looks at the bytes. */
static mmsb_status_t check_key(const char *key, size_t key_length) {
    DOOR_BYTES(key);
    if (key_length > UINT32_MAX)
        return mmsb__fail(MMSB_E_INVALID_SIZE, "key has %zu bytes, more than %u", key_length, UINT32_MAX);
    return MMSB_OK;
}

mmsb_status_t mmsb_page_metadata_set(mmsb_page_t page, const char *key, size_t key_length, const void *value,
                                     size_t value_length) {
    DOOR_ENTER();
    DOOR_CHECK(check_key(key, key_length));
    if (value_length > UINT32_MAX)
        return mmsb__fail(MMSB_E_INVALID_SIZE, "value has %zu bytes, more than %u", value_length, UINT32_MAX);
    DOOR_BYTE_ARRAY(value, value_length);
    DOOR_CHANGE_OF(page, mmsbgo_page_metadata_set(page, (char *)key, key_length, (void *)value, value_length))
}

mmsb_status_t mmsb_page_metadata_get(mmsb_page_t page, const char *key, size_t key_length, void *value, size_t capacity,
                                     size_t *length) {
    DOOR_ENTER();
    DOOR_CHECK(check_key(key, key_length));
    DOOR_BYTE_ARRAY(value, capacity);
    DOOR_POINTER(length);
    return mmsbgo_page_metadata_get(page, (char *)key, key_length, value, capacity, length);
}

mmsb_status_t mmsb_page_metadata_remove(mmsb_page_t page, const char *key, size_t key_length) {
    DOOR_ENTER();
    DOOR_CHECK(check_key(key, key_length));
    DOOR_CHANGE_OF(page, mmsbgo_page_metadata_remove(page, (char *)key, key_length))
}

mmsb_status_t mmsb_page_metadata_keys(mmsb_page_t page, void *keys, size_t capacity, size_t *length, size_t *count) {
    DOOR_ENTER();
    DOOR_BYTE_ARRAY(keys, capacity);
    DOOR_POINTER(length);
    DOOR_OPTIONAL(count);
    return mmsbgo_page_metadata_keys(page, keys, capacity, length, count);
}

mmsb_status_t mmsb_page_metadata_export(mmsb_page_t page, void *blob, size_t capacity, size_t *length) {
    DOOR_ENTER();
    DOOR_BYTE_ARRAY(blob, capacity);
    DOOR_POINTER(length);
    return mmsbgo_page_metadata_export(page, blob, capacity, length);
}

mmsb_status_t mmsb_page_metadata_import(mmsb_page_t page, const void *blob, size_t length) {
    DOOR_ENTER();
    DOOR_BYTE_ARRAY(blob, length);
    DOOR_CHANGE_OF(page, mmsbgo_page_metadata_import(page, (void *)blob, length))
}

/* ------------------------------------------------------------------------------------------------ dependencies ---- */

mmsb_status_t mmsb_page_dependency_add(mmsb_page_t parent, mmsb_page_t child) {
    DOOR_ENTER();
    DOOR_CHANGE_OF(parent, mmsbgo_page_dependency_add(parent, child))
}

mmsb_status_t mmsb_page_dependency_remove(mmsb_page_t parent, mmsb_page_t child) {
    DOOR_ENTER();
    DOOR_CHANGE_OF(parent, mmsbgo_page_dependency_remove(parent, child))
}

mmsb_status_t mmsb_page_parents(mmsb_page_t page, mmsb_page_t *parents, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(parents, capacity);
    DOOR_POINTER(count);
    return mmsbgo_page_neighbours(page, 1, parents, capacity, count);
}

mmsb_status_t mmsb_page_children(mmsb_page_t page, mmsb_page_t *children, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(children, capacity);
    DOOR_POINTER(count);
    return mmsbgo_page_neighbours(page, 0, children, capacity, count);
}
