/*
 * play.c — recorded calls that do not enter Go.
 */
#include "play.h"

#include "../blocks/blocks.h"

static int play(const mmsb__play_event_t *event, const mmsb_stream_t *streams, mmsb__play_block_t *blocks, uint64_t *hits) {
    mmsb__play_block_t *block = &blocks[event->block];
    if (!event->free) {
        mmsb_block_t handle;
        uintptr_t address;
        if (!mmsb__block_hit(streams[event->stream], event->bytes, 0, &handle, &address))
            return 0;
        ++*hits;
        block->stream = event->stream;
        __atomic_store_n(&block->handle, handle, __ATOMIC_RELEASE);
        return 1;
    }
    mmsb_block_t handle = __atomic_load_n(&block->handle, __ATOMIC_ACQUIRE);
    if (handle == UINT64_MAX)
        return 1;
    if (handle == 0 || block->stream != event->stream || !mmsb__block_cache(handle, 0))
        return 0;
    block->handle = 0;
    return 1;
}

size_t mmsb__play(const mmsb__play_event_t *events, size_t count, const mmsb_stream_t *streams, mmsb__play_block_t *blocks,
                  uint64_t *hits) {
    size_t done = 0;
    while (done < count && play(&events[done], streams, blocks, hits))
        done++;
    return done;
}
