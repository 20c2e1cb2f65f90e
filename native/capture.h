/*
 * capture.h — captures as the saver sees them: the pages of a context as they were at one moment, while writers go on. Snapshots
 * are made of captures. preimage.h has the part of writers.
 *
 * The moment is the store that turns the context's capture on. The saver copies each page and puts the pre-images back into its
 * copy. Pages of up to MMSB__CHUNK_BYTES are captured whole, longer ones chunk by chunk, so that nobody waits for more than one.
 */
#ifndef MMSB_NATIVE_CAPTURE_H
#define MMSB_NATIVE_CAPTURE_H

#include "capture_fill.h"
#include "capture_large.h"
#include "saved.h"

#pragma GCC visibility push(hidden)

/* Begins a capture: the moment lies in this call. The caller lets nobody take leaves for the context meanwhile. leaves are those
 * of the context; used says how many records of each are in use. base: what the base has, by leaf; NULL = everything is captured;
 * a commit makes it mmsb__saved. Returns NULL with the last error set if there is no memory. */
mmsb__capture_t *mmsb__capture_begin(uint32_t context, const uint32_t *leaves, const uint32_t *used, uint32_t count,
                                     mmsb__saved_t **base, uint64_t copy_limit, int raw_writes);

/* Call after the beginning, under no lock: afterwards calls that create and destroy pages without locking them see the moment. */
void mmsb__capture_settle(mmsb__capture_t *capture);
/* Returns when no page is locked any more by who locked it before the capture began: their changes are in what is captured. Call
 * it after mmsb__capture_settle. */
void mmsb__capture_await_changes(const mmsb__capture_t *capture);

/* Notes a leaf that the context took after the moment. */
void mmsb__capture_later(uint32_t context, uint32_t leaf);

/* Call after MMSB__FILL_END: writers keep nothing any more. */
void mmsb__capture_stop(mmsb__capture_t *capture);

/* Counts bytes that were read only to compare them. */
void mmsb__capture_compared(mmsb__capture_t *capture, uint64_t bytes);

/* Not MMSB_OK: the capture is incomplete, because a writer had no memory for its copy, or could not read it, and went on. */
mmsb_status_t mmsb__capture_failed(const mmsb__capture_t *capture);

void mmsb__capture_stats(const mmsb__capture_t *capture, mmsb__capture_stats_t *stats);

/* Ends the capture, committed or not. */
void mmsb__capture_end(mmsb__capture_t *capture);

/* Freezes a context: until the thaw every call that would change, create or end one of its pages waits. */
mmsb_status_t mmsb__context_freeze(uint32_t context);

void mmsb__context_thaw(uint32_t context);

#pragma GCC visibility pop
#endif
