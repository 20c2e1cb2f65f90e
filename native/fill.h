/*
 * fill.h — staged frames get the bytes that a snapshot has of their pages.
 */
#ifndef MMSB_NATIVE_FILL_H
#define MMSB_NATIVE_FILL_H

#include "record.h"

#pragma GCC visibility push(hidden)

/* A stored part of the bytes of a frame that has memory, as a segment of a file has it. */
typedef struct mmsb__stored {
    uint64_t offset; /* in the frame's bytes */
    uint32_t index;  /* of the frame's record */
    uint32_t at;     /* in the segment */
    uint32_t length;
    uint32_t crc;
} mmsb__stored_t;

/* Copies parts of a segment to where they belong. checked: up to the first whose copy has another checksum, whose number it
 * returns; else it returns count. */
uint64_t mmsb__frames_fill(const mmsb__stored_t *parts, uint64_t count, const void *segment, int checked);

#pragma GCC visibility pop
#endif
