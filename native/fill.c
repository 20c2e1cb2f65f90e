/* Filling staged frames: fill.h. A copy is summed up while the processor's cache has it: nobody sees it yet. */
#include "fill.h"

#include <string.h>

#include "bytes.h"

enum { RECORDS_AHEAD = 8 };

uint64_t mmsb__frames_fill(const mmsb__stored_t *parts, uint64_t count, const void *segment, int checked) {
    const uint8_t *from = segment;
    for (uint64_t i = 0; i < count; i++) {
        const mmsb__stored_t *part = &parts[i];
        if (i + RECORDS_AHEAD < count)
            __builtin_prefetch(mmsb__record_at(parts[i + RECORDS_AHEAD].index));
        uint8_t *to = mmsb__record_bytes(mmsb__record_at(part->index)) + part->offset;
        memcpy(to, from + part->at, part->length);
        if (checked && mmsb__bytes.crc32c(0, to, part->length) != part->crc)
            return i;
    }
    return count;
}
