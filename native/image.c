/* Images of pages and where their bytes lie in a segment: image.h. */
#include "image.h"

#include <string.h>

#include "id.h"

void mmsb__image_fill(const mmsb__record_t *record, uint32_t index, uint64_t state, mmsb__image_t *image) {
    const mmsb__side_t *side = mmsb__side_of(record);
    memset(image, 0, sizeof *image);
    image->id = mmsb__record_id(index, state);
    image->size = record->size;
    image->epoch = record->epoch;
    image->version = record->version;
    image->location = MMSB__STATE_LOCATION(state);
    image->device = side ? side->device : 0;
    image->numa_node = side ? side->numa_node : -1;
    image->flags = (state & MMSB__ADOPTED ? MMSB__IMAGE_ADOPTED : 0) | (state & MMSB__READ_ONLY ? MMSB__IMAGE_READ_ONLY : 0);
    image->metadata_count = side ? side->metadata_count : 0;
}

uint64_t mmsb__image_mask_length(const mmsb__record_t *record) {
    return record->mask_frame != 0 ? mmsb__mask_length(record->size) : 0;
}

uint64_t mmsb__metadata_length(const mmsb__record_t *record) {
    const mmsb__side_t *side = mmsb__side_of(record);
    return side && side->metadata_frame ? side->metadata_length : 0;
}

const uint8_t *mmsb__metadata_bytes(const mmsb__record_t *record) {
    return mmsb__record_bytes(mmsb__record_at(mmsb__side_of(record)->metadata_frame));
}

/* Where a page's bytes go behind what is there, and where its mask or metadata goes before it. */
static uint64_t place_behind(uint64_t used, uint64_t size) {
    uint64_t alignment = size < 256 ? 64 : size < 4096 ? 256 : 4096;
    return (used + alignment - 1) & ~(alignment - 1);
}

static uint64_t place_before(uint64_t end, uint64_t length) {
    return (end - length) & ~UINT64_C(63);
}

int mmsb__segment_fits(const mmsb__segment_t *segment, uint64_t size, uint64_t mask, uint64_t metadata) {
    uint64_t used = place_behind(segment->used, size) + size, around = 2 * 64; /* at most, because of places */
    return used + mask + metadata + around <= segment->end && segment->image_count < segment->image_capacity &&
           segment->extent_count + 3 <= segment->extent_capacity;
}

void mmsb__segment_append(mmsb__segment_t *segment, const mmsb__image_t *image, uint32_t kind, const uint8_t *bytes,
                          uint64_t length) {
    if (length == 0)
        return;
    if (segment->image_count == 0 || segment->images[segment->image_count - 1].id != image->id) {
        mmsb__image_t *entry = &segment->images[segment->image_count++];
        *entry = *image;
        entry->first_extent = segment->extent_count;
        entry->extents = 0;
    }
    segment->images[segment->image_count - 1].extents++;
    uint64_t at = kind == MMSB__IMAGE_BYTES ? place_behind(segment->used, image->size) : place_before(segment->end, length);
    memcpy(segment->buffer + at, bytes, length);
    segment->extents[segment->extent_count++] =
        (mmsb__image_extent_t){0, (uint32_t)length, (uint32_t)length, (uint32_t)at, 0, kind, 0};
    if (kind == MMSB__IMAGE_BYTES)
        segment->used = at + length;
    else
        segment->end = at;
}
