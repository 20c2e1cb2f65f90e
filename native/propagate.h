/*
 * propagate.h — copies the bytes that the change masks of dependencies have into a page, as one delta of it.
 *
 * All pages are locked together: a command sees its dependencies at one moment, and the page changes once. Where they are free and
 * nobody watches, the bytes are copied from page to page; else they become a delta of runs first, which goes through the protocol
 * of change (change.h) like any other.
 */
#ifndef MMSB_NATIVE_PROPAGATE_H
#define MMSB_NATIVE_PROPAGATE_H

#include "delta.h"

#pragma GCC visibility push(hidden)

/* Propagates to pages[0] from the count pages behind it. are_parents: they are its parents, so that there is no cycle. *bad is
 * which of them is no live page, where one is not; else it is above count. Errors: as the public header says of failures. */
mmsb_status_t mmsb__propagate(const uint64_t *pages, size_t count, int are_parents, uint32_t owner, size_t *bad);
/* The same from the parents that the page has now. */
mmsb_status_t mmsb__propagate_parents(uint64_t page, uint32_t owner);

#pragma GCC visibility pop
#endif
