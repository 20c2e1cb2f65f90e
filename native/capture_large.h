/*
 * capture_large.h — large pages part by part, for the saver.
 */
#ifndef MMSB_NATIVE_CAPTURE_LARGE_H
#define MMSB_NATIVE_CAPTURE_LARGE_H

#include "capture_state.h"

#pragma GCC visibility push(hidden)

/* Prepares the large page of a record. NULL: there is nothing to capture (any more), or *failed says why not. */
mmsb__large_t *mmsb__capture_large(mmsb__capture_t *capture, uint32_t index, mmsb_status_t *failed);

/* Copies a part as it was at the moment into buffer, which has the length of a chunk: the granules whose bits are set, at their
 * offsets; other bytes are undefined. Once for each part. Returns its length; 0: the page could not be made resident, and the
 * last error is set. */
uint32_t mmsb__capture_part(mmsb__capture_t *capture, mmsb__large_t *large, uint32_t part, uint64_t granules, uint8_t *buffer);

/* What a device says of parts of bytes of a page, from first on: the checksums of their granules as they were at the moment, of
 * each part as many as a whole one has. known[i]: 1, or 0 where only a copy can tell: of all, where the page is on no device. */
void mmsb__capture_sums(const mmsb__large_t *large, uint32_t first, uint32_t count, uint32_t *sums, uint8_t *known);

/* The part is as the base has it: no more copies of it are needed. */
void mmsb__capture_skip(mmsb__large_t *large, uint32_t part);

/* Whether calls have changed a page since it had a version, or it has ended. No change is half made when this looks. */
int mmsb__capture_changed_since(uint32_t index, uint32_t generation, uint64_t version);

/* Frees large; all its parts were copied or skipped. */
void mmsb__capture_large_done(mmsb__capture_t *capture, mmsb__large_t *large);

/* A page that a writer waits for; 0 = none. */
uint32_t mmsb__capture_urgent(mmsb__capture_t *capture);

/* Frees large with what was kept of parts that nobody took: as the base has them, of a mask that is not written, or of a capture
 * that has failed. */
void mmsb__large_free(mmsb__capture_t *capture, mmsb__large_t *large);

#pragma GCC visibility pop
#endif
