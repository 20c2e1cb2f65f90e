/*
 * disk.h — bytes of locked pages that are on disk (mmsb__on_disk): read and written in the context's file, without an address.
 *
 * What fails here is the disk itself, because the file's space is allocated: what a failed write has left of its bytes is not
 * known, and the journal has the change.
 */
#ifndef MMSB_NATIVE_DISK_H
#define MMSB_NATIVE_DISK_H

#include "resident.h"

#pragma GCC visibility push(hidden)

/* The file of the context's pages on disk, from the first of them on. */
void mmsb__disk_set(uint32_t context, int file);

/* The write of a call that reaches farthest in a file. */
typedef struct mmsb__reach {
    uint64_t at, length; /* 0: the call writes nothing there */
    size_t item;         /* of the caller's batch */
} mmsb__reach_t;

static inline void mmsb__reach_add(mmsb__reach_t *reach, uint64_t at, uint64_t length, size_t item) {
    if (length > 0 && at + length > reach->at + reach->length)
        *reach = (mmsb__reach_t){at, length, item};
}

/* Whether the process may write so far: asked once for a call, before its change is journaled, which cannot fail then. Another
 * try of the call begins with no reach. Errors: MMSB_E_NO_SPACE (RLIMIT_FSIZE, which may have become less since the pages have
 * their places); *bad is the item. */
mmsb_status_t mmsb__disk_may_reach(mmsb__reach_t *reach, size_t *bad);
mmsb_status_t mmsb__disk_may_write(const mmsb__record_t *record, uint64_t offset, uint64_t length);

static inline uint64_t mmsb__disk_at(const mmsb__record_t *record, uint64_t offset) {
    return mmsb__side_of(record)->backing_at + offset;
}

/* Errors: MMSB_E_IO. */
mmsb_status_t mmsb__disk_read(const mmsb__record_t *record, uint64_t offset, void *buffer, uint64_t length);
mmsb_status_t mmsb__disk_write(const mmsb__record_t *record, uint64_t offset, const void *buffer, uint64_t length);

/* Whether the bytes of a locked page have no address: they are on disk, or on a device. And some of these bytes. */
static inline int mmsb__absent(const mmsb__record_t *record, uint64_t state) {
    return mmsb__on_disk(record, state) || (mmsb__on_device(state) && record->locator == 0);
}
static inline mmsb_status_t mmsb__absent_read(const mmsb__record_t *record, uint64_t state, uint64_t offset, void *buffer,
                                              uint64_t length) {
    return mmsb__on_device(state) ? mmsb__device_read(record, offset, buffer, length)
                                  : mmsb__disk_read(record, offset, buffer, length);
}

/* A range of a page on disk, in a batch of them; Go has the same struct. */
typedef struct mmsb__transfer {
    int32_t file;
    uint32_t reserved;
    uint64_t at; /* in the file */
    uint8_t *bytes;
    uint64_t length, done;
    uint64_t item; /* of the caller's batch */
} mmsb__transfer_t;

mmsb__transfer_t mmsb__transfer_of(const mmsb__record_t *record, uint64_t offset, const void *bytes, uint64_t length,
                                   size_t item);
/* Sorts the transfers by their places and does them in this order, those that follow each other as one. What has to come from the
 * disk is asked for all at once, before it is waited for. On failure *bad is the item. Errors: MMSB_E_IO; to write, those of
 * mmsb__disk_may_reach, with nothing written. */
mmsb_status_t mmsb__disk_read_all(mmsb__transfer_t *transfers, size_t count, size_t *bad);
mmsb_status_t mmsb__disk_write_all(mmsb__transfer_t *transfers, size_t count, size_t *bad);

#pragma GCC visibility pop
#endif
