/* Whether ranges of addresses overlap: apart.h. */
#include "apart.h"

#include <stdlib.h>

#include "thread.h"

static int by_begin(const void *a, const void *b) {
    const mmsb__stretch_t *first = a, *second = b;
    return (first->begin > second->begin) - (first->begin < second->begin);
}

/* Most lists are in order. */
static void put_in_order(mmsb__stretch_t *list, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (list[i].begin < list[i - 1].begin) {
            qsort(list, count, sizeof *list, by_begin);
            return;
        }
    }
}

static mmsb_status_t overlap(const mmsb__stretch_t *written, const mmsb__stretch_t *other, const char *how, size_t *bad) {
    *bad = written->index > other->index ? written->index : other->index;
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "item %zu writes to 0x%llx up to 0x%llx, item %zu %s 0x%llx up to 0x%llx",
                      written->index, (unsigned long long)written->begin, (unsigned long long)written->end, other->index, how,
                      (unsigned long long)other->begin, (unsigned long long)other->end);
}

mmsb_status_t mmsb__stretches_apart(mmsb__stretch_t *written, size_t written_count, mmsb__stretch_t *read, size_t read_count,
                                    size_t *bad) {
    put_in_order(written, written_count);
    put_in_order(read, read_count);
    for (size_t i = 1; i < written_count; i++)
        if (written[i].begin < written[i - 1].end)
            return overlap(&written[i], &written[i - 1], "writes to", bad);
    for (size_t i = 0, w = 0; i < read_count; i++) {
        while (w < written_count && written[w].end <= read[i].begin)
            w++;
        if (w < written_count && written[w].begin < read[i].end)
            return overlap(&written[w], &read[i], "reads", bad);
    }
    return MMSB_OK;
}
