/*
 * play.h — recorded calls that do not enter Go, made as programs in C make them.
 */
#ifndef MMSB_GPU_PLAYER_PLAY_H
#define MMSB_GPU_PLAYER_PLAY_H

#include <stddef.h>
#include <stdint.h>

#include "mmsb.h"

#pragma GCC visibility push(hidden)

/* trace.Event. */
typedef struct mmsb__play_event {
    uint64_t bytes;
    int64_t time;
    uint32_t block, thread;
    uint16_t stream;
    uint8_t free, reserved[5];
} mmsb__play_event_t;

/* A block of a replay. */
typedef struct mmsb__play_block {
    mmsb_block_t handle; /* 0: not allocated yet, or freed; UINT64_MAX: there was no memory */
    uint64_t stream;
} mmsb__play_block_t;

/* Makes recorded calls from the first on, until one has to enter Go or wait for another thread, and returns how many. hits counts
 * allocations. */
size_t mmsb__play(const mmsb__play_event_t *events, size_t count, const mmsb_stream_t *streams, mmsb__play_block_t *blocks,
                  uint64_t *hits);

#pragma GCC visibility pop
#endif
