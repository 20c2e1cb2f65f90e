/*
 * compare.h — two pages beside each other, checksums of pages, and what a change mask carries from one page to another.
 */
#ifndef MMSB_NATIVE_COMPARE_H
#define MMSB_NATIVE_COMPARE_H

#include "lock.h"

#pragma GCC visibility push(hidden)

mmsb_status_t mmsb__page_compare(uint64_t a, uint64_t b, mmsb_difference_t *difference);
mmsb_status_t mmsb__page_differences(uint64_t a, uint64_t b, void *bits, uint64_t length);
mmsb_status_t mmsb__page_checksum(uint64_t page, uint64_t offset, uint64_t length, uint32_t *sum);
mmsb_status_t mmsb__page_propagate(uint64_t page, uint64_t from);

/* The CRC-32C of two parts together, of which the second has so many bytes. */
uint32_t mmsb__checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes);

#pragma GCC visibility pop
#endif
