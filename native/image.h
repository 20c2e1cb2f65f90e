/*
 * image.h — pages as a snapshot file has them, what a save records of one, and the segment that is being filled. Go has the same
 * layouts: native/capture.go.
 */
#ifndef MMSB_NATIVE_IMAGE_H
#define MMSB_NATIVE_IMAGE_H

#include "record.h"

#pragma GCC visibility push(hidden)

/* A page, and a range of its bytes, as the file has them: docs/snapshot-format.md. */
typedef struct mmsb__image {
    uint64_t id, size, epoch, version;
    int32_t location, device, numa_node;
    uint32_t flags;
    uint32_t first_extent, extents;
    uint32_t metadata_count;
    uint32_t reserved;
} mmsb__image_t;

#define MMSB__IMAGE_PARTIAL 1
#define MMSB__IMAGE_ADOPTED 2
#define MMSB__IMAGE_READ_ONLY 4

typedef struct mmsb__image_extent {
    uint64_t offset;
    uint32_t length, stored, at, crc, kind, compression;
} mmsb__image_extent_t;

#define MMSB__IMAGE_BYTES 0
#define MMSB__IMAGE_MASK 1
#define MMSB__IMAGE_METADATA 2

/* What the last save recorded of the page on a record. */
typedef struct mmsb__saved {
    uint64_t version;
    uint64_t id;
    uint64_t size;
    uint32_t generation; /* 0 = the record had no page */
    uint32_t crc;        /* of the bytes; pages of more than a chunk have none */
} mmsb__saved_t;

/* A segment that is being filled. */
typedef struct mmsb__segment {
    uint8_t *buffer;
    uint64_t used; /* a page's bytes go to buffer + used, upwards */
    uint64_t end;  /* its mask and its metadata below buffer + end, downwards */
    mmsb__image_t *images;
    uint32_t image_count, image_capacity;
    mmsb__image_extent_t *extents;
    uint32_t extent_count, extent_capacity;
} mmsb__segment_t;

/* What the image of a locked page says of it. */
void mmsb__image_fill(const mmsb__record_t *record, uint32_t index, uint64_t state, mmsb__image_t *image);
/* Bytes of its change mask, and of its metadata blob; 0 = it has none. */
uint64_t mmsb__image_mask_length(const mmsb__record_t *record);
uint64_t mmsb__metadata_length(const mmsb__record_t *record);
const uint8_t *mmsb__metadata_bytes(const mmsb__record_t *record);

/* 1 where a small page fits with all that belongs to it. */
int mmsb__segment_fits(const mmsb__segment_t *segment, uint64_t size, uint64_t mask, uint64_t metadata);
/* Appends bytes of a small page, which fit. Their checksum follows. */
void mmsb__segment_append(mmsb__segment_t *segment, const mmsb__image_t *image, uint32_t kind, const uint8_t *bytes,
                          uint64_t length);

#pragma GCC visibility pop
#endif
