/*
 * access.h — bytes of pages to and from the caller's memory: reading, writing, and another size within a page's memory.
 */
#ifndef MMSB_NATIVE_ACCESS_H
#define MMSB_NATIVE_ACCESS_H

#include "lock.h"

#pragma GCC visibility push(hidden)

/* 1 where length bytes at offset lie within size. */
static inline int mmsb__page_within(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
}

/* Codes with the last error set: the page may only be read; bytes reach past its end. */
mmsb_status_t mmsb__page_read_only_fail(uint64_t page);
mmsb_status_t mmsb__page_range_fail(uint64_t page, uint64_t offset, uint64_t length, uint64_t size);

mmsb_status_t mmsb__page_read(uint64_t page, uint64_t offset, void *buffer, uint64_t length);
mmsb_status_t mmsb__page_write(uint64_t page, uint64_t offset, const void *buffer, uint64_t length);
mmsb_status_t mmsb__page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
mmsb_status_t mmsb__page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
/* Within the page's memory; else MMSB__ENTER_GO. */
mmsb_status_t mmsb__page_resize_in_place(uint64_t page, uint64_t size);

#pragma GCC visibility pop
#endif
