/* The one table of page records: its addresses are reserved at start, its memory becomes writable leaf by leaf. */
#include "record.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

mmsb__table_t mmsb__table;

#define RECORD_BYTES ((UINT64_C(1) << MMSB__INDEX_BITS) * sizeof(mmsb__record_t))
#define SIDE_BYTES ((UINT64_C(1) << MMSB__INDEX_BITS) * sizeof(mmsb__side_t))
/* Only records are found by any index that a handle may have. Where addresses are limited, fewer pages can have side records. */
#define FEW_SIDE_BYTES (SIDE_BYTES >> 4)
/* Records become writable in steps of one huge page. */
#define STEP (UINT64_C(2) << 20)

_Static_assert(sizeof(mmsb__record_t) == 64, "a record is one line of the cache");
_Static_assert(sizeof(mmsb__side_t) == 64, "a side record is one line of the cache");

/* Read-only memory that is only reserved counts towards no limit but that of addresses, and reads as free records. */
static void *reserve(uint64_t bytes) {
    uint8_t *base = mmap(NULL, bytes + STEP, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    return (void *)(((uintptr_t)base + STEP - 1) & ~(uintptr_t)(STEP - 1));
}

static uint64_t side_bytes; /* that are reserved */

static uint64_t wanted_side_bytes(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? FEW_SIDE_BYTES : SIDE_BYTES;
}

uint64_t mmsb__table_addresses(void) {
    return RECORD_BYTES + wanted_side_bytes() + 2 * STEP;
}

int mmsb__table_reserve(void) {
    if (!mmsb__table.sides) {
        side_bytes = wanted_side_bytes();
        if (!(mmsb__table.sides = reserve(side_bytes)))
            return errno;
    }
    if (!mmsb__table.records && !(mmsb__table.records = reserve(RECORD_BYTES)))
        return errno;
    return 0;
}

static int open_range(uint8_t *base, uint64_t offset, uint64_t length) {
    uint64_t first = offset & ~(STEP - 1), end = (offset + length + STEP - 1) & ~(STEP - 1);
    if (mprotect(base + first, end - first, PROT_READ | PROT_WRITE) != 0)
        return errno;
    madvise(base + first, end - first, MADV_HUGEPAGE);
    return 0;
}

int mmsb__table_open_leaf(uint32_t leaf) {
    uint64_t length = MMSB__LEAF_RECORDS * sizeof(mmsb__record_t);
    return open_range((uint8_t *)mmsb__table.records, leaf * length, length);
}

int mmsb__table_open_sides(uint32_t leaf) {
    uint64_t length = MMSB__LEAF_RECORDS * sizeof(mmsb__side_t);
    if ((leaf + 1) * length > side_bytes)
        return ENOMEM;
    return open_range((uint8_t *)mmsb__table.sides, leaf * length, length);
}
