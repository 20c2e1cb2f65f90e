/* Whether ranges of addresses overlap: apart.h. */
#include "apart.h"

#include <stdlib.h>

#include "thread.h"

void mmsb__stretches_add(mmsb__stretches_t *to, const void *address, uint64_t bytes, size_t index) {
    if (bytes == 0)
        return;
    const mmsb__stretch_t one = {(uintptr_t)address, (uintptr_t)address + bytes, index};
    if (to->count == 0)
        *to = (mmsb__stretches_t){to->list, 0, one.begin, one.end, 1};
    else
        to->in_order &= to->list[to->count - 1].begin <= one.begin;
    to->lowest = one.begin < to->lowest ? one.begin : to->lowest;
    to->highest = one.end > to->highest ? one.end : to->highest;
    to->list[to->count++] = one;
}

static int by_begin(const void *a, const void *b) {
    const mmsb__stretch_t *first = a, *second = b;
    return (first->begin > second->begin) - (first->begin < second->begin);
}

static void put_in_order(mmsb__stretches_t *group) {
    if (!group->in_order)
        qsort(group->list, group->count, sizeof *group->list, by_begin);
    group->in_order = 1;
}

static mmsb_status_t overlap(const mmsb__stretch_t *written, const mmsb__stretch_t *other, const char *how, size_t *bad) {
    *bad = written->index > other->index ? written->index : other->index;
    return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "item %zu writes to 0x%llx up to 0x%llx, item %zu %s 0x%llx up to 0x%llx",
                      written->index, (unsigned long long)written->begin, (unsigned long long)written->end, other->index, how,
                      (unsigned long long)other->begin, (unsigned long long)other->end);
}

static mmsb_status_t check_alone(mmsb__stretches_t *written, size_t *bad) {
    put_in_order(written);
    for (size_t i = 1; i < written->count; i++)
        if (written->list[i].begin < written->list[i - 1].end)
            return overlap(&written->list[i], &written->list[i - 1], "writes to", bad);
    return MMSB_OK;
}

/* What is written is in order and apart. Where all of it lies before or behind the others, these need no order. */
static mmsb_status_t check_beside(const mmsb__stretches_t *written, mmsb__stretches_t *other, const char *how, size_t *bad) {
    if (written->count == 0 || other->count == 0 || written->highest <= other->lowest || other->highest <= written->lowest)
        return MMSB_OK;
    put_in_order(other);
    for (size_t i = 0, w = 0; i < other->count; i++) {
        while (w < written->count && written->list[w].end <= other->list[i].begin)
            w++;
        if (w < written->count && written->list[w].begin < other->list[i].end)
            return overlap(&written->list[w], &other->list[i], how, bad);
    }
    return MMSB_OK;
}

mmsb_status_t mmsb__stretches_apart(mmsb__stretches_t *groups, size_t written, size_t count, size_t *bad) {
    for (size_t i = 0; i < written; i++) {
        mmsb_status_t status = check_alone(&groups[i], bad);
        for (size_t k = i + 1; k < count && status == MMSB_OK; k++)
            status = check_beside(&groups[i], &groups[k], k < written ? "writes to" : "reads", bad);
        if (status != MMSB_OK)
            return status;
    }
    return MMSB_OK;
}
