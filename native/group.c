/* What open groups know of the pages that they change, and how they commit or undo it: group.h. */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "disk.h"
#include "id.h"
#include "life.h"
#include "system.h"
#include "watch.h"

/* A change that can be undone, or the step before it that makes the page the group's. */
typedef enum undo_kind {
    PAGE,    /* the page is the group's from here on; it had this version and epoch */
    BYTES,   /* it had these bytes at this offset, and these of its change mask */
    CREATE,  /* it was not there */
    DESTROY, /* it lives; its state is version, its size length */
    STEP,    /* Go's */
} undo_kind_t;

typedef struct undo {
    struct undo *older;
    uint64_t page;
    undo_kind_t kind;
    uint64_t version, epoch;
    uint64_t offset, length, mask_length;
    uint8_t bytes[];
} undo_t;

/* A journal record that waits for the commit. */
typedef struct held {
    struct held *older, *younger;
    mmsb__journal_head_t head;
    uint64_t length;
    uint8_t body[];
} held_t;

/* A frame of the group: this lies at its beginning. */
typedef struct chunk {
    struct chunk *older;
    uint64_t used, capacity;
    uint32_t frame;
} chunk_t;

#define CHUNK_BYTES_MIN ((uint64_t)MMSB__SMALL_MAX)
#define CHUNK_BYTES_MAX (UINT64_C(1) << 20)

struct mmsb__open_group {
    mmsb__open_group_t *next; /* of the thread */
    uint32_t context_index;
    uint32_t number;
    uint64_t version;     /* the first of its era */
    uint32_t references;  /* the thread's and the context's */
    uint32_t closed;      /* 1: the context has ended it */
    pthread_mutex_t lock; /* of what follows; the context's end takes the group away from its thread */
    int stopped;          /* 1: no more changes */
    chunk_t *chunks;      /* the newest first */
    undo_t *undo;         /* likewise */
    held_t *oldest, *newest;
    uint64_t record_bytes, records;
#define KEPT (1u << 9)
    const undo_t *kept[KEPT]; /* some of the BYTES in the list, by place: a later one takes the place of an earlier one */
};

uint32_t mmsb__groups_open;

/* By record: the number of the group that has the page, whether its version is of the group's era, and whether the group has made
 * the page. Written under the page's lock, but when a group lets go. */
static uint32_t *marks;
#define MARK_MOVED 1u
#define MARK_MADE 2u
#define MARK_NUMBER(number) ((number) << 2)
#define MARK_GROUP(mark) ((mark) >> 2)

#define NUMBERS (1u << 16)
static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t numbers_taken[NUMBERS];
static uint32_t last_number;

/* No group's era that is not above this may be used: groups that were rolled back had versions up to here. */
static uint64_t version_floor;

static uint32_t mark_of(uint32_t index) {
    return __atomic_load_n(&marks[index], __ATOMIC_ACQUIRE);
}

static void set_mark(uint32_t index, uint32_t mark) {
    __atomic_store_n(&marks[index], mark, __ATOMIC_RELEASE);
}

/* The group lets go of a record, which may have another one's page by now. */
static void clear_mark(const mmsb__open_group_t *group, uint32_t index) {
    if (MARK_GROUP(mark_of(index)) == group->number)
        set_mark(index, 0);
}

/* -------------------------------------------------------------------------------------------------------- memory ---- */

static mmsb_status_t stopped(const mmsb__open_group_t *group) {
    return group->closed ? mmsb__fail(MMSB_E_STALE_HANDLE, "the context has ended")
                         : mmsb__fail(MMSB_E_INVALID_STATE, "the group is being rolled back: it takes no changes");
}

/* Space for bytes in one piece. Under the lock. */
static mmsb_status_t reserve(mmsb__open_group_t *group, uint64_t bytes) {
    if (MMSB__UNLIKELY(group->stopped))
        return stopped(group);
    chunk_t *last = group->chunks;
    if (MMSB__LIKELY(last && last->capacity - last->used >= bytes))
        return MMSB_OK;
    uint64_t size = last ? 2 * last->capacity : CHUNK_BYTES_MIN;
    if (size > CHUNK_BYTES_MAX)
        size = CHUNK_BYTES_MAX;
    if (size < bytes + sizeof *last)
        size = bytes + sizeof *last;
    uint32_t frame;
    mmsb_status_t status = mmsb__frame_take(group->context_index, size, &frame);
    if (status != MMSB_OK)
        return status;
    chunk_t *chunk = (chunk_t *)(void *)mmsb__record_bytes(mmsb__record_at(frame));
    *chunk = (chunk_t){.older = last, .used = sizeof *chunk, .capacity = mmsb__record_at(frame)->size, .frame = frame};
    group->chunks = chunk;
    return MMSB_OK;
}

mmsb_status_t mmsb__group_reserve(mmsb__open_group_t *group, uint64_t bytes) {
    pthread_mutex_lock(&group->lock);
    mmsb_status_t status = reserve(group, bytes);
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* Takes reserved space. */
static void *take(mmsb__open_group_t *group, uint64_t bytes) {
    chunk_t *chunk = group->chunks;
    MMSB__ASSERT(chunk && chunk->capacity - chunk->used >= bytes, bytes, chunk ? chunk->used : 0);
    void *taken = (uint8_t *)chunk + chunk->used;
    chunk->used += (bytes + 7) & ~UINT64_C(7);
    return taken;
}

static uint64_t undo_space(uint64_t bytes) {
    return (sizeof(undo_t) + bytes + 7) & ~UINT64_C(7);
}

/* Under the lock, with space reserved. */
static undo_t *push(mmsb__open_group_t *group, undo_kind_t kind, uint64_t page, uint64_t bytes) {
    undo_t *undo = take(group, undo_space(bytes));
    *undo = (undo_t){.older = group->undo, .page = page, .kind = kind};
    group->undo = undo;
    return undo;
}

const void *mmsb__group_top(const mmsb__open_group_t *group) {
    return group->undo;
}

void mmsb__group_drop(mmsb__open_group_t *group, const void *top) {
    pthread_mutex_lock(&group->lock);
    while (!group->stopped && group->undo != top) {
        MMSB__ASSERT(group->undo->kind != BYTES, group->undo->page, group->undo->kind); /* they may be in kept */
        if (group->undo->kind == CREATE)
            clear_mark(group, MMSB__HANDLE_INDEX(group->undo->page));
        group->undo = group->undo->older;
    }
    pthread_mutex_unlock(&group->lock);
}

/* ---------------------------------------------------------------------------------------------------- finding one ---- */

static void unreference(mmsb__open_group_t *group) {
    if (__atomic_sub_fetch(&group->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    pthread_mutex_destroy(&group->lock);
    free(group);
}

/* Lets go of groups that the end of their context has ended. */
static void forget_closed(mmsb__thread_t *self) {
    for (mmsb__open_group_t **at = &self->groups; *at;) {
        mmsb__open_group_t *group = *at;
        if (!__atomic_load_n(&group->closed, __ATOMIC_ACQUIRE)) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        unreference(group);
    }
}

mmsb__open_group_t *mmsb__group_find(uint32_t context_index) {
    mmsb__open_group_t *group = mmsb__self ? mmsb__self->groups : NULL;
    while (group && (group->context_index != context_index || __atomic_load_n(&group->closed, __ATOMIC_ACQUIRE)))
        group = group->next;
    return group;
}

int mmsb__group_any(void) {
    if (!mmsb__self)
        return 0;
    forget_closed(mmsb__self);
    return mmsb__self->groups != NULL;
}

mmsb__open_group_t *mmsb__group_of_ring(const mmsb__ring_t *ring) {
    mmsb__open_group_t *group = mmsb__self ? mmsb__self->groups : NULL;
    while (group && (__atomic_load_n(&mmsb__rings[group->context_index], __ATOMIC_RELAXED) != ring ||
                     __atomic_load_n(&group->closed, __ATOMIC_ACQUIRE)))
        group = group->next;
    return group;
}

/* ------------------------------------------------------------------------------------------------------- changes ---- */

static uint64_t handle_of(uint32_t index, uint64_t state) {
    return MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), index);
}

/* Whether the page may be changed by who has this group open, or none. */
static mmsb_status_t check(const mmsb__open_group_t *group, uint32_t index, uint64_t state) {
    uint32_t owner = marks ? MARK_GROUP(mark_of(index)) : 0;
    if (MMSB__LIKELY(owner == 0 || (group && owner == group->number)))
        return MMSB_OK;
    return mmsb__fail(MMSB_E_BUSY, "page 0x%016llx belongs to a group that another thread has open",
                      (unsigned long long)handle_of(index, state));
}

mmsb_status_t mmsb__group_check(const mmsb__record_t *record, uint64_t state) {
    uint32_t index = mmsb__record_index(record);
    return check(mmsb__group_of(mmsb__record_context(index)), index, state);
}

/* Makes a locked page the group's. Under the lock, with space reserved. */
static void claim(mmsb__open_group_t *group, const mmsb__record_t *record, uint32_t index, uint64_t state) {
    if (MARK_GROUP(mark_of(index)) != 0)
        return;
    undo_t *undo = push(group, PAGE, handle_of(index, state), 0);
    undo->version = record->version;
    undo->epoch = record->epoch;
    set_mark(index, MARK_NUMBER(group->number));
}

/* Where the bytes of a page from an offset on are looked for, or, where they are only of the mask, its mask. */
static const undo_t **kept_at(mmsb__open_group_t *group, uint64_t page, uint64_t offset, uint64_t length) {
    const uint64_t place = length > 0 ? offset : UINT64_MAX;
    return &group->kept[(page * UINT64_C(0x9e3779b97f4a7c15) + place * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 55]; /* of KEPT */
}

/* Whether bytes need not be kept. Those that the group has kept once need not: a rollback ends with the oldest, and what has
 * given the page other memory in between is undone before. Nor do those of a page that the group has made, unless they are the
 * caller's. */
static int is_kept(mmsb__open_group_t *group, uint64_t page, uint64_t state, uint64_t offset, uint64_t length,
                   uint64_t mask_length) {
    if ((mark_of(MMSB__HANDLE_INDEX(page)) & MARK_MADE) && !(state & MMSB__ADOPTED))
        return 1;
    const undo_t *undo = *kept_at(group, page, offset, length);
    return undo && undo->page == page && undo->offset == offset && undo->length >= length && undo->mask_length >= mask_length;
}

static mmsb_status_t keep(mmsb__open_group_t *group, mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length,
                          uint64_t mask_offset, uint64_t mask_length) {
    uint32_t index = mmsb__record_index(record);
    const uint64_t page = handle_of(index, state), from = length > 0 ? offset : mask_offset * 8;
    pthread_mutex_lock(&group->lock);
    const int nothing = length + mask_length == 0 || is_kept(group, page, state, from, length, mask_length);
    mmsb_status_t status = reserve(group, undo_space(0) + (nothing ? 0 : undo_space(length + mask_length)));
    if (status == MMSB_OK)
        claim(group, record, index, state);
    if (status == MMSB_OK && !nothing) {
        undo_t *undo = push(group, BYTES, page, length + mask_length);
        undo->offset = from;
        undo->length = length;
        undo->mask_length = mask_length;
        if (length > 0 && MMSB__UNLIKELY(mmsb__absent(record, state)))
            status = mmsb__absent_read(record, state, offset, undo->bytes, length);
        else if (length > 0)
            memcpy(undo->bytes, mmsb__record_bytes(record) + offset, length);
        if (status == MMSB_OK && mask_length > 0)
            memcpy(undo->bytes + length, mmsb__locator_address(record->mask_locator) + mask_offset, mask_length);
        if (status == MMSB_OK)
            *kept_at(group, page, from, length) = undo;
        else
            group->undo = undo->older;
    }
    pthread_mutex_unlock(&group->lock);
    return status;
}

mmsb_status_t mmsb__group_keep(mmsb__record_t *record, uint64_t state, uint64_t offset, uint64_t length) {
    uint32_t index = mmsb__record_index(record);
    mmsb__open_group_t *group = mmsb__group_of(mmsb__record_context(index));
    mmsb_status_t status = check(group, index, state);
    if (status != MMSB_OK || !group)
        return status;
    if (length == 0 || length == UINT64_MAX)
        return keep(group, record, state, 0, 0, 0, 0);
    /* Whole lines: a delta asks once for each line that it changes (delta.c). A line has eight bytes of the mask. */
    enum { LINE = 64 };
    uint64_t first = offset / LINE * LINE, end = (offset + length + LINE - 1) / LINE * LINE;
    if (end > record->size)
        end = record->size;
    uint64_t mask = record->mask_frame ? mmsb__mask_length(end) - first / 8 : 0;
    return keep(group, record, state, first, end - first, first / 8, mask);
}

mmsb_status_t mmsb__group_keep_mask(mmsb__record_t *record, uint64_t state) {
    mmsb__open_group_t *group = mmsb__group_of(mmsb__record_context(mmsb__record_index(record)));
    return group ? keep(group, record, state, 0, 0, 0, mmsb__mask_length(record->size)) : MMSB_OK;
}

uint64_t mmsb__group_version_slow(const mmsb__record_t *record) {
    const uint64_t last_of_era = 0xffff, version = record->version;
    uint32_t index = mmsb__record_index(record), mark = marks ? mark_of(index) : 0;
    const mmsb__open_group_t *group = mmsb__group_of(mmsb__record_context(index));
    if (!group || MARK_GROUP(mark) != group->number || ((mark & MARK_MOVED) && (version & last_of_era) != last_of_era))
        return version;
    uint64_t first = group->version, floor = __atomic_load_n(&version_floor, __ATOMIC_ACQUIRE);
    if ((mark & MARK_MOVED) || first <= version || first <= floor)
        first = mmsb__upcalls.new_version(version > floor ? version : floor);
    return first - 1;
}

void mmsb__group_move_version(mmsb__record_t *record, uint64_t version) {
    uint32_t index = mmsb__record_index(record);
    set_mark(index, mark_of(index) | MARK_MOVED);
    __atomic_store_n(&record->version, version, __ATOMIC_RELAXED);
}

/* Pushes what has no bytes. */
static undo_t *push_alone(mmsb__open_group_t *group, undo_kind_t kind, uint64_t page, mmsb_status_t *status) {
    *status = reserve(group, undo_space(0));
    return *status == MMSB_OK ? push(group, kind, page, 0) : NULL;
}

mmsb_status_t mmsb__group_push_step(mmsb__open_group_t *group, uint64_t page) {
    mmsb_status_t status;
    pthread_mutex_lock(&group->lock);
    push_alone(group, STEP, page, &status);
    pthread_mutex_unlock(&group->lock);
    return status;
}

mmsb_status_t mmsb__group_push_create(mmsb__open_group_t *group, uint64_t page) {
    mmsb_status_t status;
    pthread_mutex_lock(&group->lock);
    if (push_alone(group, CREATE, page, &status))
        set_mark(MMSB__HANDLE_INDEX(page), MARK_NUMBER(group->number) | MARK_MADE | MARK_MOVED);
    pthread_mutex_unlock(&group->lock);
    return status;
}

mmsb_status_t mmsb__group_push_destroy(mmsb__open_group_t *group, uint64_t page, const mmsb__record_t *record, uint64_t state) {
    mmsb_status_t status;
    pthread_mutex_lock(&group->lock);
    status = reserve(group, 2 * undo_space(0));
    if (status == MMSB_OK) {
        if (record->side != 0)
            push(group, STEP, page, 0);
        undo_t *undo = push(group, DESTROY, page, 0);
        undo->version = state;
        undo->length = record->size;
    }
    pthread_mutex_unlock(&group->lock);
    return status;
}

void mmsb__group_drop_destroy(mmsb__open_group_t *group, const mmsb__record_t *record) {
    pthread_mutex_lock(&group->lock);
    if (!group->stopped) {
        group->undo = group->undo->older;
        if (record->side != 0)
            group->undo = group->undo->older;
    }
    pthread_mutex_unlock(&group->lock);
}

void mmsb__group_leave(uint64_t page, mmsb__record_t *record, uint64_t state) {
    uint32_t index = MMSB__HANDLE_INDEX(page);
    if (record->side != 0)
        mmsb__upcalls.leave(index, state);
    mmsb__context_add(mmsb__record_context(index), 0, 1, 0, record->size);
    mmsb__record_become(record, MMSB__STATE(MMSB__STATE_LEAVING, MMSB__HANDLE_GENERATION(page), state & MMSB__INDEX_MASK));
}

/* ----------------------------------------------------------------------------------------------- journal records ---- */

static uint64_t held_space(uint64_t body) {
    return (sizeof(held_t) + body + 7) & ~UINT64_C(7);
}

mmsb_status_t mmsb__group_reserve_records(mmsb__open_group_t *group, uint64_t bytes, uint64_t records) {
    return mmsb__group_reserve(group, bytes + records * (sizeof(held_t) - sizeof(mmsb__journal_head_t)));
}

void mmsb__group_put(mmsb__open_group_t *group, const mmsb__journal_head_t *head, const mmsb__piece_t *pieces, size_t count) {
    uint64_t body = 0;
    for (size_t i = 0; i < count; i++)
        body += pieces[i].length;
    pthread_mutex_lock(&group->lock);
    held_t *held = take(group, held_space(body));
    held->head = *head;
    held->length = body;
    held->older = group->newest;
    held->younger = NULL;
    *(group->newest ? &group->newest->younger : &group->oldest) = held;
    group->newest = held;
    group->records++;
    group->record_bytes += mmsb__journal_space(body);
    uint8_t *to = held->body;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].length > 0)
            memcpy(to, pieces[i].bytes, pieces[i].length);
        to += pieces[i].length;
    }
    pthread_mutex_unlock(&group->lock);
}

/* Takes the newest record back. Under the lock. */
static void drop_record(mmsb__open_group_t *group) {
    held_t *held = group->newest;
    group->newest = held->older;
    *(group->newest ? &group->newest->younger : &group->oldest) = NULL;
    group->records--;
    group->record_bytes -= mmsb__journal_space(held->length);
}

/* ------------------------------------------------------------------------------------------------ begin and commit ---- */

static mmsb_status_t reserve_marks(void) { /* under numbers_lock */
    if (marks)
        return MMSB_OK;
    void *made = NULL;
    mmsb_status_t status = mmsb__reserve_addresses(((uint64_t)sizeof *marks) << MMSB__INDEX_BITS, "the first group", &made);
    if (status == MMSB_OK)
        marks = made;
    return status;
}

static mmsb_status_t take_number(uint32_t *number) {
    pthread_mutex_lock(&numbers_lock);
    mmsb_status_t status = reserve_marks();
    *number = 0;
    for (uint32_t i = 0; status == MMSB_OK && i < NUMBERS && *number == 0; i++) {
        last_number = (last_number + 1) % NUMBERS;
        if (last_number != 0 && !numbers_taken[last_number])
            *number = last_number;
    }
    numbers_taken[*number] = *number != 0;
    pthread_mutex_unlock(&numbers_lock);
    return status != MMSB_OK || *number != 0
               ? status
               : mmsb__fail(MMSB_E_LIMIT, "%u groups are open, the limit is %u", NUMBERS - 1, NUMBERS - 1);
}

static void give_number(uint32_t number) {
    pthread_mutex_lock(&numbers_lock);
    numbers_taken[number] = 0;
    pthread_mutex_unlock(&numbers_lock);
}

/* Everybody who changes a page looks for groups from here on, as for captures and journals. */
static void watch_all(void) {
    mmsb__detour_begin();
    __atomic_add_fetch(&mmsb__groups_open, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&mmsb__rings_open, 1, __ATOMIC_SEQ_CST);
}

static void unwatch(void) {
    __atomic_sub_fetch(&mmsb__rings_open, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&mmsb__capturing, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&mmsb__groups_open, 1, __ATOMIC_SEQ_CST);
    mmsb__detour_end();
}

mmsb_status_t mmsb__group_open(uint32_t context_index, uint64_t version, mmsb__open_group_t **group) {
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    forget_closed(self);
    uint32_t number;
    mmsb_status_t status = take_number(&number);
    if (status != MMSB_OK)
        return status;
    mmsb__open_group_t *made = calloc(1, sizeof *made);
    if (!made) {
        give_number(number);
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a group");
    }
    made->context_index = context_index;
    made->number = number;
    made->version = version;
    made->references = 2;
    pthread_mutex_init(&made->lock, NULL);
    made->next = self->groups;
    self->groups = *group = made;
    watch_all();
    if (!mmsb__ring_for(context_index))                         /* a journal has seen to it when it was opened */
        mmsb__synchronize(mmsb__context_record(context_index)); /* who creates or destroys in the short way is done with it */
    return MMSB_OK;
}

mmsb_status_t mmsb__group_commit(mmsb__open_group_t *group, uint64_t *sequence) {
    *sequence = 0;
    mmsb__ring_t *ring = mmsb__ring_for(group->context_index);
    if (group->stopped)
        return stopped(group);
    if (!ring || group->records == 0)
        return MMSB_OK;
    mmsb__group_t put;
    mmsb_status_t status = mmsb__ring_begin_commit(ring, &put, group->record_bytes, group->records);
    if (status != MMSB_OK)
        return status;
    for (const held_t *held = group->oldest; held; held = held->younger)
        mmsb__ring_put(&put, held->head, &(mmsb__piece_t){held->body, held->length}, 1);
    status = mmsb__ring_end(&put);
    *sequence = put.last;
    return status;
}

void mmsb__group_stop(mmsb__open_group_t *group) {
    pthread_mutex_lock(&group->lock);
    group->stopped = 1;
    pthread_mutex_unlock(&group->lock);
}

/* -------------------------------------------------------------------------------------------------------- the end ---- */

/* The counters of a page that has left are those of one that has ended. */
static void uncount_leave(const undo_t *undo) {
    mmsb__context_add(mmsb__record_context(MMSB__HANDLE_INDEX(undo->page)), 0, -UINT64_C(1), 0, -undo->length);
}

mmsb_status_t mmsb__group_finish(mmsb__open_group_t *group) {
    for (; group->undo; group->undo = group->undo->older) {
        const undo_t *undo = group->undo;
        uint32_t index = MMSB__HANDLE_INDEX(undo->page);
        clear_mark(group, index);
        if (undo->kind == DESTROY) {
            uncount_leave(undo);
            mmsb__page_end_locked(undo->page, undo->version);
        } else if (undo->kind == STEP) {
            group->undo = undo->older;
            return MMSB__ENTER_GO;
        }
    }
    return MMSB_OK;
}

/* The page has the version of before the group again, unless its address was given out: then bytes may have changed beside. */
static void undo_page(const mmsb__open_group_t *group, const undo_t *undo, mmsb__record_t *record) {
    const int era_shift = 16;
    uint64_t version = record->version;
    if (version >> era_shift != group->version >> era_shift && version != undo->version) { /* it reached into another era */
        uint64_t floor = mmsb__upcalls.new_version(version);
        uint64_t seen = __atomic_load_n(&version_floor, __ATOMIC_ACQUIRE);
        while (seen < floor &&
               !__atomic_compare_exchange_n(&version_floor, &seen, floor, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    }
    __atomic_store_n(&record->epoch, undo->epoch, __ATOMIC_RELAXED);
    if (version != undo->version && mmsb__exposed(record))
        mmsb__version_move(record);
    else
        __atomic_store_n(&record->version, undo->version, __ATOMIC_RELAXED);
}

static void undo_bytes(const undo_t *undo, mmsb__record_t *record) {
    if (undo->length > 0 && undo->offset + undo->length > record->size) /* by force: it was pinned and kept another size */
        return;
    if (undo->length > 0) {
        memcpy(mmsb__record_bytes(record) + undo->offset, undo->bytes, undo->length);
        mmsb__dirty_range(record, undo->offset, undo->offset + undo->length - 1);
    }
    if (undo->mask_length > 0)
        memcpy(mmsb__locator_address(record->mask_locator) + undo->offset / 8, undo->bytes + undo->length, undo->mask_length);
}

/* Undoes a change of a page that lives. */
static mmsb_status_t undo_change(mmsb__open_group_t *group, const undo_t *undo) {
    mmsb__record_t *record;
    uint64_t state;
    mmsb_status_t status = mmsb__page_lock(undo->page, &record, &state);
    if (status != MMSB_OK)
        return status;
    uint32_t index = mmsb__record_index(record);
    if (undo->kind == CREATE) {
        if (mmsb__record_pinned(record)) {
            status = mmsb__page_pinned_fail(undo->page, record);
            mmsb__page_unlock_record(record, state);
            return status;
        }
        mmsb__context_add(group->context_index, -UINT64_C(1), -UINT64_C(1), -record->size, -record->size);
        clear_mark(group, index);
        mmsb__page_end_locked(undo->page, state);
        return MMSB_OK;
    }
    if (undo->kind == BYTES && undo->length > 0 && (state & MMSB__NONRESIDENT) &&
        (status = mmsb__page_make_resident(record, &state)) != MMSB_OK) {
        mmsb__page_unlock_record(record, state);
        return status;
    }
    if (undo->kind == BYTES) {
        undo_bytes(undo, record);
        if (state & MMSB__NONRESIDENT) /* what was made resident goes back as a change */
            mmsb__version_move(record);
    } else {
        undo_page(group, undo, record);
        clear_mark(group, index);
    }
    mmsb__page_unlock(record, state);
    return MMSB_OK;
}

/* A page that has left lives again. Nobody else looks at its record. */
static void undo_leave(const undo_t *undo) {
    uncount_leave(undo);
    mmsb__record_become(mmsb__record_of(undo->page), undo->version);
}

mmsb_status_t mmsb__group_undo(mmsb__open_group_t *group, int forced) {
    while (group->undo) {
        const undo_t *undo = group->undo;
        if (undo->kind == DESTROY) {
            undo_leave(undo);
        } else if (undo->kind != STEP) {
            mmsb_status_t status = undo_change(group, undo);
            if (status != MMSB_OK && !forced)
                return status;
            if (status != MMSB_OK) /* the record may be another context's by and by */
                clear_mark(group, MMSB__HANDLE_INDEX(undo->page));
        }
        group->undo = undo->older;
        if (undo->kind == STEP)
            return MMSB__ENTER_GO;
    }
    return MMSB_OK;
}

void mmsb__group_uncreate(mmsb__open_group_t *group, size_t count) {
    const int journalled = mmsb__ring_for(group->context_index) != NULL;
    for (; count > 0; count--) {
        const undo_t *undo = group->undo;
        MMSB__ASSERT(undo && undo->kind == CREATE, undo ? undo->kind : 0, count);
        if (undo_change(group, undo) != MMSB_OK) /* the context has ended, or somebody has found and pinned the page */
            return;
        pthread_mutex_lock(&group->lock);
        group->undo = undo->older;
        if (journalled)
            drop_record(group);
        pthread_mutex_unlock(&group->lock);
    }
}

/* Takes a group out of its thread's list. */
void mmsb__group_detach(mmsb__open_group_t *group) {
    for (mmsb__open_group_t **at = &mmsb__self->groups; *at; at = &(*at)->next) {
        if (*at == group) {
            *at = group->next;
            unreference(group);
            return;
        }
    }
}

void mmsb__group_close(mmsb__open_group_t *group, int own) {
    while (group->chunks) {
        chunk_t *chunk = group->chunks;
        group->chunks = chunk->older;
        mmsb__frame_give(group->context_index, chunk->frame);
    }
    give_number(group->number);
    unwatch();
    __atomic_store_n(&group->closed, 1, __ATOMIC_RELEASE);
    if (own)
        mmsb__group_detach(group);
    unreference(group);
}

void mmsb__groups_leave(mmsb__thread_t *self) {
    forget_closed(self);
    while (self->groups) {
        mmsb__open_group_t *group = self->groups;
        uint32_t context = group->context_index;
        mmsb__upcalls.group_left(context, group);
        if (self->groups == group) { /* it could not be rolled back, and stays with the context */
            self->groups = group->next;
            unreference(group);
        }
    }
}
