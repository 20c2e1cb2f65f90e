/*
 * compare.h — two pages beside each other, and checksums of pages. Pages on a device are worked on there, or read a piece at a
 * time.
 */
#ifndef MMSB_NATIVE_COMPARE_H
#define MMSB_NATIVE_COMPARE_H

#include "lock.h"

#pragma GCC visibility push(hidden)

mmsb_status_t mmsb__page_compare(uint64_t a, uint64_t b, mmsb_difference_t *difference);
mmsb_status_t mmsb__page_differences(uint64_t a, uint64_t b, void *bits, uint64_t length);
mmsb_status_t mmsb__page_checksum(uint64_t page, uint64_t offset, uint64_t length, uint32_t *sum);

/* The CRC-32C of two parts together, of which the second has so many bytes. */
uint32_t mmsb__checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes);
/* The same of count parts, at least one, of part bytes each, but the last. */
uint32_t mmsb__checksum_join_all(const uint32_t *sums, uint64_t count, uint64_t part, uint64_t last);

#pragma GCC visibility pop
#endif
