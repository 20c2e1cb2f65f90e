/* Reads and writes pages on disk: disk.h. */
#define _GNU_SOURCE /* preadv2 */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "thread.h"

/* Transfers that the system is asked for at once. */
#define RUN_MAX 64

void mmsb__disk_set(uint32_t context, int file) {
    mmsb__context_record(context)->disk_file = file;
}

mmsb__transfer_t mmsb__transfer_of(const mmsb__record_t *record, uint64_t offset, const void *bytes, uint64_t length,
                                   size_t item) {
    uint32_t context = mmsb__record_context(mmsb__record_index(record));
    return (mmsb__transfer_t){.file = mmsb__context_record(context)->disk_file,
                              .at = mmsb__disk_at(record, offset),
                              .bytes = (uint8_t *)(uintptr_t)bytes,
                              .length = length,
                              .item = item};
}

/* 1: a file may not become so long. The system would send a signal that ends the program. */
static int too_long(uint64_t end) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && end > limit.rlim_cur;
}

static mmsb_status_t fail(int error, int writes, uint64_t length, uint64_t at) {
    const mmsb_status_t code = error == ENOSPC || error == EDQUOT || error == EFBIG ? MMSB_E_NO_SPACE : MMSB_E_IO;
    mmsb__fail(code, "cannot %s %llu bytes of a page on disk at %llu: %s", writes ? "write" : "read", (unsigned long long)length,
               (unsigned long long)at, strerror(error));
    mmsb__thread_t *last = mmsb__error();
    last->error_domain = MMSB_DOMAIN_ERRNO;
    last->error_foreign = error;
    return code;
}

mmsb_status_t mmsb__disk_may_reach(mmsb__reach_t *reach, size_t *bad) {
    const mmsb__reach_t farthest = *reach;
    *reach = (mmsb__reach_t){0};
    if (farthest.length == 0 || !too_long(farthest.at + farthest.length))
        return MMSB_OK;
    *bad = farthest.item;
    return fail(EFBIG, 1, farthest.length, farthest.at);
}

mmsb_status_t mmsb__disk_may_write(const mmsb__record_t *record, uint64_t offset, uint64_t length) {
    size_t bad;
    return mmsb__disk_may_reach(&(mmsb__reach_t){mmsb__disk_at(record, offset), length, 0}, &bad);
}

/* What is left of a transfer. */
static mmsb_status_t finish(const mmsb__transfer_t *transfer, int writes) {
    const int before = errno;
    for (uint64_t done = transfer->done; done < transfer->length;) {
        uint8_t *bytes = transfer->bytes + done;
        const uint64_t left = transfer->length - done;
        const off_t at = (off_t)(transfer->at + done);
        ssize_t moved = writes ? pwrite(transfer->file, bytes, left, at) : pread(transfer->file, bytes, left, at);
        if (moved > 0)
            done += (uint64_t)moved;
        else if (moved == 0 || errno != EINTR)
            return fail(moved == 0 ? EIO : errno, writes, transfer->length, transfer->at);
    }
    errno = before;
    return MMSB_OK;
}

mmsb_status_t mmsb__disk_read(const mmsb__record_t *record, uint64_t offset, void *buffer, uint64_t length) {
    const mmsb__transfer_t transfer = mmsb__transfer_of(record, offset, buffer, length, 0);
    return finish(&transfer, 0);
}

mmsb_status_t mmsb__disk_write(const mmsb__record_t *record, uint64_t offset, const void *buffer, uint64_t length) {
    const mmsb__transfer_t transfer = mmsb__transfer_of(record, offset, buffer, length, 0);
    return finish(&transfer, 1);
}

/* ---------------------------------------------------------------------------------------------------- many ranges ---- */

static int by_place(const void *a, const void *b) {
    const mmsb__transfer_t *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* How many transfers follow each other in the file, from the first on. */
static size_t run_from(const mmsb__transfer_t *transfers, size_t count) {
    size_t n = 1;
    while (n < count && n < RUN_MAX && transfers[n].file == transfers[0].file &&
           transfers[n].at == transfers[n - 1].at + transfers[n - 1].length)
        n++;
    return n;
}

/* One call for all; how far it comes is in done. A read does not wait for the disk. */
static void move_run(mmsb__transfer_t *transfers, size_t count, int writes) {
    struct iovec pieces[RUN_MAX];
    for (size_t i = 0; i < count; i++)
        pieces[i] = (struct iovec){transfers[i].bytes, transfers[i].length};
    const off_t at = (off_t)transfers[0].at;
    ssize_t moved = writes ? pwritev(transfers[0].file, pieces, (int)count, at)
                           : preadv2(transfers[0].file, pieces, (int)count, at, RWF_NOWAIT);
    uint64_t left = moved > 0 ? (uint64_t)moved : 0;
    for (size_t i = 0; i < count; i++) {
        transfers[i].done = left < transfers[i].length ? left : transfers[i].length;
        left -= transfers[i].done;
    }
}

static mmsb_status_t move_all(mmsb__transfer_t *transfers, size_t count, int writes, size_t *bad) {
    const int before = errno;
    mmsb__reach_t reach = {0};
    for (size_t i = 0; writes && i < count; i++)
        mmsb__reach_add(&reach, transfers[i].at, transfers[i].length, transfers[i].item);
    mmsb_status_t status = mmsb__disk_may_reach(&reach, bad);
    if (status != MMSB_OK)
        return status;
    qsort(transfers, count, sizeof *transfers, by_place);
    for (size_t i = 0, n; i < count; i += n) {
        n = run_from(transfers + i, count - i);
        move_run(transfers + i, n, writes);
    }
    for (size_t i = 0; !writes && i < count; i++) {
        const mmsb__transfer_t *cold = &transfers[i];
        if (cold->done < cold->length)
            posix_fadvise(cold->file, (off_t)(cold->at + cold->done), (off_t)(cold->length - cold->done), POSIX_FADV_WILLNEED);
    }
    errno = before;
    for (size_t i = 0; i < count && status == MMSB_OK; i++) {
        *bad = transfers[i].item;
        status = finish(&transfers[i], writes);
    }
    return status;
}

mmsb_status_t mmsb__disk_read_all(mmsb__transfer_t *transfers, size_t count, size_t *bad) {
    return move_all(transfers, count, 0, bad);
}

mmsb_status_t mmsb__disk_write_all(mmsb__transfer_t *transfers, size_t count, size_t *bad) {
    return move_all(transfers, count, 1, bad);
}
