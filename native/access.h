/*
 * access.h — bytes of pages to and from the caller's memory: reading, writing, and another size within a page's memory.
 */
#ifndef MMSB_NATIVE_ACCESS_H
#define MMSB_NATIVE_ACCESS_H

#include "lock.h"

#pragma GCC visibility push(hidden)

mmsb_status_t mmsb__page_read(uint64_t page, uint64_t offset, void *buffer, uint64_t length);
mmsb_status_t mmsb__page_write(uint64_t page, uint64_t offset, const void *buffer, uint64_t length);
mmsb_status_t mmsb__page_read_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
mmsb_status_t mmsb__page_write_many(const mmsb_page_range_t *ranges, size_t count, size_t *bad_index);
/* Within the page's memory; else MMSB__ENTER_GO. */
mmsb_status_t mmsb__page_resize_in_place(uint64_t page, uint64_t size);

#pragma GCC visibility pop
#endif
