/* Replaying a journal's records: redo.h. Of pages that nobody else sees no lock is taken, and nothing is kept or told. */
#include "redo.h"

#include <string.h>

#include "delta.h"
#include "journal.h"
#include "watch.h"

static inline void write_bytes(mmsb__record_t *record, uint64_t offset, const void *bytes, uint64_t length) {
    if (length == 0)
        return;
    memcpy(mmsb__record_bytes(record) + offset, bytes, length);
    mmsb__dirty_range(record, offset, offset + length - 1);
}

static inline void changed_to(mmsb__record_t *record, uint64_t version, uint64_t epoch) {
    __atomic_store_n(&record->version, version, __ATOMIC_RELAXED);
    __atomic_store_n(&record->epoch, epoch, __ATOMIC_RELAXED);
}

mmsb_status_t mmsb__redo(uint32_t index, uint64_t version, uint64_t epoch, const mmsb__redo_t *change) {
    mmsb__record_t *record = mmsb__record_at(index);
    uint64_t length = change->delta.payload_length;
    if (record->version >= version)
        return MMSB_OK;
    mmsb_status_t status = change->is_delta ? mmsb__delta_check_page(0, &change->delta, record, 0)
                                            : mmsb__delta_check_run(change->offset, length, record->size);
    if (status != MMSB_OK)
        return status;
    if (change->is_delta)
        mmsb__delta_change(record, &change->delta);
    else
        write_bytes(record, change->offset, change->delta.payload, length);
    changed_to(record, version, epoch);
    return MMSB_OK;
}

/* What a record of a run or of written bytes says; of a delta in another form only the record is known. */
typedef struct redo {
    const mmsb__journal_head_t *head;
    mmsb__record_t *record;
    const uint8_t *body; /* behind the annotation */
    uint64_t length;     /* of that */
    uint64_t offset;     /* in the page, of a run or written bytes */
} redo_t;

/* Records are looked up so far ahead of the one that is made, and bytes half as far. */
#define REDO_AHEAD 16

static inline uint64_t word_at(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* ByID.Find of by_id.go. */
static inline mmsb__record_t *page_of(const mmsb__by_id_t *pages, uint64_t id) {
    uint64_t mask = pages->capacity - 1, spread = (id ^ pages->key) * UINT64_C(0x9e3779b97f4a7c15);
    spread = (spread ^ spread >> 32) * UINT64_C(0xd6e8feb86659fd93);
    for (uint64_t at = (spread ^ spread >> 32) & mask; pages->slots[at].id != 0; at = (at + 1) & mask) {
        if (pages->slots[at].id == id)
            return mmsb__record_at(MMSB__HANDLE_INDEX(pages->slots[at].page));
    }
    return NULL;
}

/* Decodes a record that changes bytes: 1, or 0 where it is of another kind. */
static inline int redo_read(redo_t *redo, const mmsb__by_id_t *pages, const uint8_t *at, uint64_t left) {
    const mmsb__journal_head_t *head = redo->head = (const mmsb__journal_head_t *)(const void *)at;
    if (left < sizeof *head || head->length < sizeof *head + 8 || head->length > left || (head->flags & MMSB__JOURNAL_PIECE))
        return 0;
    redo->body = at + sizeof *head;
    redo->length = head->length - sizeof *head;
    int kind = head->kind;
    if (kind == MMSB__JOURNAL_GROUP) {
        redo->record = NULL;
        return 1;
    }
    if (kind != MMSB__JOURNAL_RUN && kind != MMSB__JOURNAL_WRITE && kind != MMSB__JOURNAL_DELTA)
        return 0;
    if (MMSB__UNLIKELY(head->flags & MMSB__JOURNAL_ANNOTATED)) {
        if (kind == MMSB__JOURNAL_WRITE || redo->length < 32)
            return 0;
        uint64_t texts = word_at(redo->body + 16);
        uint64_t annotation = 24 + (((texts & UINT32_MAX) + (texts >> 32) + 7) & ~UINT64_C(7));
        if (annotation > redo->length - 8)
            return 0;
        redo->body += annotation;
        redo->length -= annotation;
    }
    redo->offset = word_at(redo->body);
    redo->record = page_of(pages, head->page);
    if (!redo->record)
        return 0;
    __builtin_prefetch(redo->record, 1);
    return 1;
}

static inline void redo_prefetch(const redo_t *redo) {
    if (redo->head->kind == MMSB__JOURNAL_DELTA || redo->head->kind == MMSB__JOURNAL_GROUP || redo->record->locator == 0 ||
        redo->offset >= redo->record->size)
        return;
    mmsb__target_t target = mmsb__target_of(redo->record, 0, redo->offset);
    __builtin_prefetch(target.bytes, 1);
    __builtin_prefetch(target.bytes + 63, 1);
    if (redo->record->mask_frame != 0)
        __builtin_prefetch(target.changed, 1);
}

/* The delta of a record that is not one run: 1, or 0 where it is not as it must be. */
static int redo_delta(const redo_t *redo, mmsb_delta_t *delta) {
    uint64_t number = redo->offset, left = redo->length - 8, places = 0;
    const uint8_t *at = redo->body + 8;
    memset(delta, 0, sizeof *delta);
    delta->struct_size = sizeof *delta;
    delta->kind = redo->head->form;
    switch (redo->head->form) {
    case MMSB_DELTA_DENSE_BYTES:
    case MMSB_DELTA_DENSE_BITS:
    case MMSB_DELTA_SPARSE_BITS:
        places = redo->head->form == MMSB_DELTA_DENSE_BYTES ? number : (number >> 3) + ((number & 7) != 0);
        delta->mask = at;
        delta->mask_length = number;
        break;
    case MMSB_DELTA_INDEXED:
    case MMSB_DELTA_RUNS:
    case MMSB__JOURNAL_INDEXED32:
        if (number > left) /* each place takes more than a byte */
            return 0;
        delta->count = number;
        if (redo->head->form == MMSB_DELTA_RUNS) {
            places = number * sizeof(mmsb_run_t);
            delta->runs = (const mmsb_run_t *)(const void *)at;
        } else if (redo->head->form == MMSB_DELTA_INDEXED) {
            places = number * sizeof(uint64_t);
            delta->offsets = (const uint64_t *)(const void *)at;
        } else {
            places = number * sizeof(uint32_t);
            delta->kind = MMSB_DELTA_INDEXED;
            delta->offsets32 = (const uint32_t *)(const void *)at;
        }
        break;
    default:
        return 0;
    }
    if (places >= left) /* without a payload Go says what that means */
        return 0;
    delta->payload = at + places;
    delta->payload_length = left - places;
    return 1;
}

/* Makes the change of a page, whose version is then the given one: 1, or 0 with nothing done. */
static inline int redo_make(const redo_t *redo, uint64_t version) {
    mmsb__record_t *record = redo->record;
    const mmsb__journal_head_t *head = redo->head;
    uint64_t length = redo->length - 8;
    mmsb_delta_t delta;
    if (record->locator == 0 || record->version >= version) /* the bytes are elsewhere, or have the change */
        return 0;
    if (MMSB__UNLIKELY(head->kind == MMSB__JOURNAL_DELTA)) {
        if (!redo_delta(redo, &delta) || mmsb__delta_check_page(0, &delta, record, 0) != MMSB_OK)
            return 0;
        mmsb__delta_change(record, &delta);
    } else if (!mmsb__page_within(redo->offset, length, record->size)) {
        return 0;
    } else if (head->kind == MMSB__JOURNAL_WRITE) {
        write_bytes(record, redo->offset, redo->body + 8, length);
    } else {
        if (mmsb__mask_make(record) != MMSB_OK)
            return 0;
        mmsb__target_t target = mmsb__target_of(record, 0, redo->offset);
        mmsb__target_change(&target, redo->offset & 63, length, redo->body + 8, 0);
    }
    changed_to(record, version, head->epoch);
    return 1;
}

/* The same for a page that others see: 0 also where somebody needs its bytes as they were. Other calls do not end it. */
static inline int redo_make_live(const redo_t *redo, int moved) {
    mmsb__record_t *record = redo->record;
    uint64_t state;
    if (!mmsb__record_lock_page(mmsb__record_index(record), &state))
        return 0;
    int made = !(state & MMSB__NONRESIDENT) && __atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) == 0 &&
               redo_make(redo, moved ? record->version + 1 : redo->head->version);
    mmsb__page_unlock_record(record, state);
    return made;
}

static inline int redo_make_as(const redo_t *redo, mmsb__redo_how_t how) {
    if (MMSB__UNLIKELY(redo->head->kind == MMSB__JOURNAL_GROUP)) /* it says nothing of a page */
        return 1;
    return how == MMSB__REDO_UNSEEN ? redo_make(redo, redo->head->version) : redo_make_live(redo, how == MMSB__REDO_MOVED);
}

uint64_t mmsb__redo_records(const mmsb__by_id_t *pages, mmsb__redo_how_t how, const void *records, uint64_t length,
                            uint64_t *count) {
    redo_t ring[REDO_AHEAD];
    const uint8_t *base = records;
    uint64_t read = 0, made = 0, at = 0;
    int more = 1;
    for (;;) {
        while (more && read - made < REDO_AHEAD) {
            redo_t *redo = &ring[read % REDO_AHEAD];
            if (!redo_read(redo, pages, base + at, length - at)) {
                more = 0;
                break;
            }
            at += (redo->head->length + UINT64_C(7)) & ~UINT64_C(7);
            if (at > length)
                at = length;
            read++;
        }
        if (made == read)
            break;
        const redo_t *soon = &ring[(made + REDO_AHEAD / 2) % REDO_AHEAD];
        if (made + REDO_AHEAD / 2 < read && how == MMSB__REDO_UNSEEN)
            redo_prefetch(soon);
        if (!redo_make_as(&ring[made % REDO_AHEAD], how)) {
            at = (uint64_t)((const uint8_t *)ring[made % REDO_AHEAD].head - base);
            break;
        }
        made++;
    }
    *count = made;
    return at;
}
