/* What saves know of pages: the tables of the last save, and the notes of the running one, which a commit turns into the tables.
 * saved.h. */
#include "saved.h"

#include <stdlib.h>
#include <string.h>

mmsb__saved_t *mmsb__saved[MMSB__LEAVES];
mmsb__saved_t *mmsb__saved_fresh[MMSB__LEAVES];

static mmsb__saved_t *leaf_of(mmsb__saved_t **table, uint32_t leaf) {
    mmsb__saved_t *found = __atomic_load_n(&table[leaf], __ATOMIC_ACQUIRE);
    if (found)
        return found;
    mmsb__saved_t *made = calloc(MMSB__LEAF_RECORDS, sizeof *made);
    if (!made)
        return NULL;
    if (__atomic_compare_exchange_n(&table[leaf], &found, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return found;
}

mmsb__saved_t *mmsb__saved_leaf(uint32_t leaf) {
    return leaf_of(mmsb__saved, leaf);
}

void mmsb__saved_forget(uint32_t leaf) {
    free(mmsb__saved[leaf]);
    free(mmsb__saved_fresh[leaf]);
    mmsb__saved[leaf] = mmsb__saved_fresh[leaf] = NULL;
}

/* Makes space for one more item of an array; 0 without memory: the capture fails. */
static int make_space(mmsb__capture_t *capture, void **items, uint64_t count, uint64_t *capacity, size_t each) {
    if (count < *capacity)
        return 1;
    uint64_t larger = *capacity != 0 ? 2 * *capacity : 1024;
    void *more = realloc(*items, larger * each);
    if (!more) {
        mmsb__note_failed(capture, MMSB_E_OUT_OF_MEMORY);
        return 0;
    }
    *items = more;
    *capacity = larger;
    return 1;
}

void mmsb__note_removed(mmsb__capture_t *capture, uint32_t index, const mmsb__saved_t *saved) {
    if (!make_space(capture, (void **)(void *)&capture->removed, capture->removed_count, &capture->removed_capacity,
                    sizeof *capture->removed))
        return;
    capture->removed[capture->removed_count++] = (mmsb__removed_t){index, saved->id};
    capture->pages--;
    capture->bytes -= (int64_t)saved->size;
}

/* Notes what the next save will know of a page. An incremental save finds few pages: a list touches less memory than tables. */
static void note_found(mmsb__capture_t *capture, uint32_t index, mmsb__saved_t saved) {
    if (!capture->base || !capture->base[index >> MMSB__LEAF_BITS]) {
        mmsb__saved_t *leaf = leaf_of(mmsb__saved_fresh, index >> MMSB__LEAF_BITS);
        if (leaf)
            leaf[index & (MMSB__LEAF_RECORDS - 1)] = saved;
        else
            mmsb__note_failed(capture, MMSB_E_OUT_OF_MEMORY);
        return;
    }
    if (!make_space(capture, (void **)(void *)&capture->found, capture->found_count, &capture->found_capacity,
                    sizeof *capture->found))
        return;
    capture->found[capture->found_count++] = (mmsb__found_t){index, saved};
}

void mmsb__note_captured(mmsb__capture_t *capture, uint32_t index, const mmsb__image_t *image, uint32_t generation,
                         uint32_t crc) {
    const mmsb__saved_t *saved = mmsb__base_of(capture, index);
    note_found(capture, index, (mmsb__saved_t){image->version, image->id, image->size, generation, crc});
    pthread_mutex_lock(&capture->lock);
    if (saved && saved->generation != generation) {
        mmsb__note_removed(capture, index, saved);
        saved = NULL;
    }
    capture->pages += !saved;
    capture->bytes += (int64_t)image->size - (saved ? (int64_t)saved->size : 0);
    pthread_mutex_unlock(&capture->lock);
}

const uint64_t *mmsb__capture_removed(mmsb__capture_t *capture, uint64_t *count) {
    pthread_mutex_lock(&capture->lock);
    *count = capture->removed_count;
    free(capture->removed_ids);
    capture->removed_ids = malloc((capture->removed_count + 1) * sizeof(uint64_t));
    for (uint64_t i = 0; capture->removed_ids && i < capture->removed_count; i++)
        capture->removed_ids[i] = capture->removed[i].id;
    pthread_mutex_unlock(&capture->lock);
    return capture->removed_ids;
}

void mmsb__capture_commit(mmsb__capture_t *capture) {
    capture->committed = 1;
    mmsb__saved_t **base = capture->base;
    for (uint64_t i = 0; base && i < capture->removed_count; i++)
        base[capture->removed[i].index >> MMSB__LEAF_BITS][capture->removed[i].index & (MMSB__LEAF_RECORDS - 1)].generation = 0;
    for (uint64_t i = 0; i < capture->found_count; i++) {
        const mmsb__found_t *found = &capture->found[i];
        base[found->index >> MMSB__LEAF_BITS][found->index & (MMSB__LEAF_RECORDS - 1)] = found->saved;
    }
    for (uint32_t i = 0; i < capture->leaf_count; i++) {
        uint32_t leaf = capture->leaves[i];
        mmsb__saved_t *now_saved = base && base[leaf] ? base[leaf] : mmsb__saved_fresh[leaf];
        mmsb__saved_fresh[leaf] = NULL;
        if (mmsb__saved[leaf] != now_saved)
            free(mmsb__saved[leaf]);
        mmsb__saved[leaf] = now_saved;
    }
}

void mmsb__capture_totals(mmsb__capture_t *capture, int64_t *pages, int64_t *bytes) {
    pthread_mutex_lock(&capture->lock);
    *pages = capture->pages;
    *bytes = capture->bytes;
    pthread_mutex_unlock(&capture->lock);
}
