#include "journal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "assert.h"
#include "bytes.h"
#include "group.h"

uint32_t mmsb__rings_open;
mmsb__ring_t *mmsb__rings[MMSB__CONTEXTS];

#define WORD_USED(word) ((uint64_t)(uint32_t)(word) << 3)
#define WORD_RECORDS(word) ((word) >> 32 & 0x0fffffff)
#define WORD_BUFFER(word) ((word) >> MMSB__RING_BUFFER_SHIFT & 1)
#define HUGE_PAGE ((uint64_t)2 << 20)
#define WORD_EMPTY(word) (WORD_USED(word) == MMSB__RING_HEAD_BYTES)

/* ------------------------------------------------------------------------------------------- sleeping and waking ---- */

static void futex_wait(uint32_t *futex, uint32_t value, int64_t nanoseconds) {
    struct timespec timeout = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    int saved = errno;
    syscall(SYS_futex, futex, FUTEX_WAIT_PRIVATE, value, nanoseconds == INT64_MAX ? NULL : &timeout, NULL, 0);
    errno = saved;
}

static void futex_wake_all(uint32_t *futex) {
    int saved = errno;
    syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

static int64_t now_on(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Every wait has one order: the waiter reads the futex, then the condition; the waker changes the condition, then the futex. */
static void move(uint32_t *futex, uint32_t *waiters) {
    __atomic_add_fetch(futex, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(waiters, __ATOMIC_SEQ_CST) != 0)
        futex_wake_all(futex);
}

static void await_move_for(uint32_t *futex, uint32_t seen, uint32_t *waiters, int64_t nanoseconds) {
    __atomic_add_fetch(waiters, 1, __ATOMIC_SEQ_CST);
    futex_wait(futex, seen, nanoseconds);
    __atomic_sub_fetch(waiters, 1, __ATOMIC_SEQ_CST);
}

static void await_move(uint32_t *futex, uint32_t seen, uint32_t *waiters) {
    await_move_for(futex, seen, waiters, INT64_MAX);
}

/* A call of the program waits for the disk, until something changes: nanoseconds that it slept. */
static uint64_t await_turn(mmsb__ring_t *ring, uint32_t turn, int64_t nanoseconds) {
    const int64_t begin = now_on(CLOCK_MONOTONIC);
    await_move_for(&ring->turns, turn, &ring->turn_waiters, nanoseconds);
    const uint64_t slept = (uint64_t)(now_on(CLOCK_MONOTONIC) - begin);
    __atomic_add_fetch(&ring->waits, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&ring->waited_ns, slept, __ATOMIC_RELAXED);
    return slept;
}

static void ring_bell(mmsb__ring_t *ring) {
    move(&ring->bell, &ring->asleep);
}

/* A lock of three states (Drepper, "Futexes are tricky", 2011). */
static int try_seat(mmsb__ring_t *ring) {
    uint32_t free = 0;
    return __atomic_compare_exchange_n(&ring->seat, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void take_seat(mmsb__ring_t *ring) {
    if (try_seat(ring))
        return;
    while (__atomic_exchange_n(&ring->seat, 2, __ATOMIC_ACQUIRE) != 0)
        futex_wait(&ring->seat, 2, INT64_MAX);
}

static void leave_seat(mmsb__ring_t *ring) {
    if (__atomic_exchange_n(&ring->seat, 0, __ATOMIC_RELEASE) == 2)
        futex_wake_all(&ring->seat);
}

static mmsb_status_t answer_failure(mmsb__ring_t *ring) {
    return mmsb__fail_foreign(__atomic_load_n(&ring->failed, __ATOMIC_ACQUIRE), ring->failed_domain, ring->failed_foreign,
                              ring->failed_text, strlen(ring->failed_text));
}

static int has_failed(mmsb__ring_t *ring) {
    return __atomic_load_n(&ring->failed, __ATOMIC_ACQUIRE) != MMSB_OK;
}

/* The ring that has refused a change of this thread for want of space. */
static _Thread_local mmsb__ring_t *refused_by;

static mmsb_status_t refuse(mmsb__ring_t *ring) {
    refused_by = ring;
    return answer_failure(ring);
}

/* ------------------------------------------------------------------------------------------------- reservation ---- */

typedef enum reservation { RESERVED, FULL, GREAT_GROUP, NOT_OPEN } reservation_t;

/* Takes space in the active buffer, if it has enough. great: for the group that has set MMSB__RING_GREAT. */
static inline reservation_t reserve(mmsb__ring_t *ring, uint64_t bytes, uint64_t records, int great, mmsb__ring_buffer_t **buffer,
                                    uint8_t **at, uint64_t *first) {
    uint64_t word = __atomic_load_n(&ring->word, __ATOMIC_SEQ_CST);
    do {
        if (MMSB__UNLIKELY(word & MMSB__RING_CLOSED))
            return NOT_OPEN;
        if (MMSB__UNLIKELY((word & MMSB__RING_GREAT) && !great))
            return GREAT_GROUP;
        if (MMSB__UNLIKELY(bytes > ring->capacity - WORD_USED(word)))
            return FULL;
    } while (!__atomic_compare_exchange_n(&ring->word, &word, word + records * MMSB__RING_RECORD + (bytes >> 3), 0,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    /* The buffer stays active, or at least unwritten, until this space is filled. */
    mmsb__ring_buffer_t *of = *buffer = &ring->buffers[WORD_BUFFER(word)];
    *at = of->bytes + WORD_USED(word);
    *first = __atomic_load_n(&of->first, __ATOMIC_RELAXED) + WORD_RECORDS(word);
    if (MMSB__UNLIKELY(WORD_EMPTY(word)) && !__atomic_load_n(&ring->each_call, __ATOMIC_RELAXED) &&
        __atomic_load_n(&ring->asleep, __ATOMIC_SEQ_CST) == MMSB__ASLEEP_IDLE)
        ring_bell(ring); /* where each call waits, it rings when it does */
    return RESERVED;
}

static inline void fill(mmsb__ring_buffer_t *buffer, uint64_t bytes) {
    __atomic_add_fetch(&buffer->filled, (uint32_t)bytes, __ATOMIC_SEQ_CST);
    if (MMSB__UNLIKELY(__atomic_load_n(&buffer->awaited, __ATOMIC_SEQ_CST) != 0))
        futex_wake_all(&buffer->filled);
}

/* Asks the writer for the other buffer. */
static void press(mmsb__ring_t *ring) {
    __atomic_store_n(&ring->pressed, 1, __ATOMIC_SEQ_CST);
    ring_bell(ring);
}

/* Reserves space for a group that fits into a buffer; waits as long as it takes. */
static reservation_t reserve_patiently(mmsb__ring_t *ring, mmsb__group_t *group, uint64_t records, uint64_t *first) {
    for (;;) {
        uint32_t turn = __atomic_load_n(&ring->turns, __ATOMIC_SEQ_CST);
        reservation_t got = reserve(ring, group->reserved, records, 0, &group->buffer, &group->at, first);
        if (MMSB__LIKELY(got == RESERVED) || got == NOT_OPEN)
            return got;
        if (got == FULL)
            press(ring);
        await_turn(ring, turn, INT64_MAX);
    }
}

/* Stops all other groups, and waits until the active buffer is empty: a group that spans buffers begins a frame. */
static reservation_t begin_great(mmsb__ring_t *ring) {
    int mine = 0;
    for (;;) {
        uint32_t turn = __atomic_load_n(&ring->turns, __ATOMIC_SEQ_CST);
        uint64_t word = __atomic_load_n(&ring->word, __ATOMIC_SEQ_CST);
        if (word & MMSB__RING_CLOSED) {
            if (mine) {
                __atomic_and_fetch(&ring->word, ~MMSB__RING_GREAT, __ATOMIC_SEQ_CST);
                move(&ring->turns, &ring->turn_waiters);
            }
            return NOT_OPEN;
        }
        if (!mine && !(word & MMSB__RING_GREAT)) {
            mine =
                __atomic_compare_exchange_n(&ring->word, &word, word | MMSB__RING_GREAT, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
            continue;
        }
        if (mine && WORD_EMPTY(word))
            return RESERVED;
        if (mine)
            press(ring);
        await_turn(ring, turn, INT64_MAX);
    }
}

mmsb_status_t mmsb__ring_begin_commit(mmsb__ring_t *ring, mmsb__group_t *group, uint64_t bytes, uint64_t records) {
    *group = (mmsb__group_t){.left = records, .reserved = bytes, .status = MMSB_OK};
    if (MMSB__UNLIKELY(records == 0))
        return MMSB_OK;
    uint64_t first = 0, head = records > 1;
    group->reserved += head * MMSB__JOURNAL_GROUP_SPACE;
    int great = group->reserved > ring->capacity - MMSB__RING_HEAD_BYTES;
    reservation_t got = great ? begin_great(ring) : reserve_patiently(ring, group, records + head, &first);
    if (MMSB__UNLIKELY(got == NOT_OPEN))
        return has_failed(ring) && __atomic_load_n(&ring->open, __ATOMIC_ACQUIRE) ? refuse(ring) : MMSB_OK;
    group->ring = ring;
    group->time_ns = now_on(CLOCK_REALTIME_COARSE);
    group->last = great ? 0 : first + head + records - 1;
    group->begins = group->at;
    if (head && !great) {
        const mmsb__journal_head_t says = {.length = MMSB__JOURNAL_GROUP_SPACE,
                                           .kind = MMSB__JOURNAL_GROUP,
                                           .flags = MMSB__JOURNAL_MORE,
                                           .time_ns = group->time_ns};
        memcpy(group->at, &says, sizeof says);
        memcpy(group->at + sizeof says, &bytes, sizeof bytes);
        group->at += MMSB__JOURNAL_GROUP_SPACE;
    }
    return MMSB_OK;
}

mmsb_status_t mmsb__ring_begin(mmsb__ring_t *ring, mmsb__group_t *group, uint64_t bytes, uint64_t records) {
    mmsb__open_group_t *held =
        MMSB__UNLIKELY(__atomic_load_n(&mmsb__groups_open, __ATOMIC_RELAXED) != 0) ? mmsb__group_of_ring(ring) : NULL;
    if (MMSB__LIKELY(!held))
        return mmsb__ring_begin_commit(ring, group, bytes, records);
    *group = (mmsb__group_t){.ring = ring, .left = records, .held = held, .status = MMSB_OK};
    return has_failed(ring) ? answer_failure(ring) : mmsb__group_reserve_records(held, bytes, records);
}

/* Says that the group which begins here is complete, after all of it was stored: who reads the file sees the mark later, while
 * the process lives and after it was killed. */
static inline void complete(const mmsb__ring_buffer_t *buffer, const uint8_t *begins) {
    const uint64_t at = (uint64_t)(begins - buffer->bytes);
    uint8_t *mark = &buffer->marks[at >> MMSB__RING_MARK_SHIFT];
    MMSB__ASSERT(*mark == 0, *mark, at);
    __atomic_store_n(mark, (uint8_t)(1 + (at >> 3 & 3)), __ATOMIC_RELEASE);
}

mmsb_status_t mmsb__ring_end(mmsb__group_t *group) {
    mmsb__ring_t *ring = group->ring;
    if (MMSB__UNLIKELY(!ring || group->held))
        return MMSB_OK;
    if (MMSB__LIKELY(group->buffer != NULL)) {
        complete(group->buffer, group->begins);
        fill(group->buffer, group->reserved);
        return MMSB_OK;
    }
    __atomic_and_fetch(&ring->word, ~MMSB__RING_GREAT, __ATOMIC_SEQ_CST);
    move(&ring->turns, &ring->turn_waiters);
    ring_bell(ring); /* a writer that was told to stop waits for this */
    return group->status;
}

/* ----------------------------------------------------------------------------------------------------- records ---- */

static uint64_t length_of(const mmsb__piece_t *pieces, size_t count) {
    uint64_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += pieces[i].length;
    return length;
}

/* The position of the copy within the pieces of a body. */
typedef struct walk {
    const mmsb__piece_t *piece;
    uint64_t offset;
} walk_t;

static void copy_on(walk_t *walk, uint8_t *to, uint64_t length) {
    while (length > 0) {
        uint64_t part = walk->piece->length - walk->offset;
        if (part > length)
            part = length;
        if (part > 0)
            memcpy(to, (const uint8_t *)walk->piece->bytes + walk->offset, part);
        to += part;
        length -= part;
        walk->offset += part;
        if (walk->offset == walk->piece->length) {
            walk->piece++;
            walk->offset = 0;
        }
    }
}

static void write_record(uint8_t *at, mmsb__journal_head_t head, walk_t *walk, uint64_t body) {
    head.length = (uint32_t)(sizeof head + body);
    memcpy(at, &head, sizeof head);
    copy_on(walk, at + sizeof head, body);
    memset(at + sizeof head + body, 0, (size_t)(mmsb__journal_space(body) - sizeof head - body));
}

/* Puts a record of a group larger than a buffer, in as many pieces as needed. */
static void put_great(mmsb__group_t *group, mmsb__journal_head_t head, walk_t walk, uint64_t body) {
    mmsb__ring_t *ring = group->ring;
    group->left--;
    while (group->status == MMSB_OK) {
        uint32_t turn = __atomic_load_n(&ring->turns, __ATOMIC_SEQ_CST);
        uint64_t space = ring->capacity - WORD_USED(__atomic_load_n(&ring->word, __ATOMIC_SEQ_CST));
        uint64_t part = body;
        if (mmsb__journal_space(part) > space)
            part = space < sizeof head + 8 ? 8 : space - sizeof head;
        mmsb__ring_buffer_t *buffer;
        uint8_t *at;
        reservation_t got = reserve(ring, mmsb__journal_space(part), 1, 1, &buffer, &at, &group->last);
        if (got == NOT_OPEN) {
            group->status = answer_failure(ring);
        } else if (got == FULL) {
            press(ring);
            await_turn(ring, turn, INT64_MAX);
        } else {
            mmsb__journal_head_t piece = head;
            piece.flags |=
                (uint8_t)((part < body ? MMSB__JOURNAL_PIECE : 0) | (part < body || group->left > 0 ? MMSB__JOURNAL_MORE : 0));
            write_record(at, piece, &walk, part);
            complete(buffer, at);
            fill(buffer, mmsb__journal_space(part));
            if (part == body)
                return;
            body -= part;
        }
    }
}

void mmsb__ring_put(mmsb__group_t *group, mmsb__journal_head_t head, const mmsb__piece_t *pieces, size_t count) {
    if (MMSB__UNLIKELY(!group->ring))
        return;
    head.flags &= MMSB__JOURNAL_ANNOTATED;
    if (MMSB__UNLIKELY(group->held)) {
        mmsb__group_put(group->held, &head, pieces, count);
        return;
    }
    uint64_t body = length_of(pieces, count);
    head.time_ns = group->time_ns;
    walk_t walk = {pieces, 0};
    if (MMSB__UNLIKELY(!group->at)) {
        put_great(group, head, walk, body);
        return;
    }
    if (--group->left > 0)
        head.flags |= MMSB__JOURNAL_MORE;
    write_record(group->at, head, &walk, body);
    group->at += mmsb__journal_space(body);
}

void mmsb__ring_put_run_slow(mmsb__group_t *group, uint64_t page, uint64_t version, uint64_t epoch, uint64_t offset,
                             const void *payload, uint64_t length) {
    mmsb__piece_t pieces[] = {{&offset, sizeof offset}, {payload, length}};
    mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_RUN, .page = page, .version = version, .epoch = epoch};
    mmsb__ring_put(group, head, pieces, 2);
}

mmsb_status_t mmsb__ring_append(mmsb__ring_t *ring, mmsb__journal_head_t head, const mmsb__piece_t *pieces, size_t count,
                                uint64_t *sequence) {
    uint64_t body = length_of(pieces, count);
    mmsb__group_t group;
    mmsb_status_t status = mmsb__ring_begin(ring, &group, mmsb__journal_space(body), 1);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    mmsb__ring_put(&group, head, pieces, count);
    *sequence = group.last;
    status = mmsb__ring_end(&group);
    *sequence = group.last;
    return status;
}

/* ------------------------------------------------------------------------------------------------------ deltas ---- */

/* The body of a delta: annotation, addressed bytes, payload. */
typedef struct delta_body {
    mmsb__journal_head_t head;
    uint64_t annotation[3]; /* id, time, lengths of source and intent */
    uint64_t number;        /* offset, count or mask length */
    mmsb__piece_t pieces[7];
    size_t count;
} delta_body_t;

static const uint8_t padding[8];

static void add(delta_body_t *body, const void *bytes, uint64_t length) {
    body->pieces[body->count++] = (mmsb__piece_t){bytes, length};
}

static inline int is_annotated(const mmsb_delta_t *delta) {
    return delta->id | delta->timestamp_ns || delta->source || delta->intent;
}

static void describe(delta_body_t *body, const mmsb_delta_t *delta) {
    body->head = (mmsb__journal_head_t){.kind = MMSB__JOURNAL_DELTA, .form = (uint16_t)delta->kind};
    body->count = 0;
    if (is_annotated(delta)) {
        uint64_t source = delta->source ? strlen(delta->source) : 0, intent = delta->intent ? strlen(delta->intent) : 0;
        body->head.flags = MMSB__JOURNAL_ANNOTATED;
        body->annotation[0] = delta->id;
        body->annotation[1] = delta->timestamp_ns;
        body->annotation[2] = source | intent << 32;
        add(body, body->annotation, sizeof body->annotation);
        add(body, delta->source, source);
        add(body, delta->intent, intent);
        add(body, padding, -(source + intent) & 7);
    }
    uint64_t payload = 0;
    add(body, &body->number, sizeof body->number);
    switch (delta->kind) {
    case MMSB_DELTA_RUNS:
        if (delta->count == 1) {
            body->head.kind = MMSB__JOURNAL_RUN;
            body->head.form = 0;
            body->number = delta->runs->offset;
            payload = delta->runs->length;
            break;
        }
        body->number = delta->count;
        for (uint64_t i = 0; i < delta->count; i++)
            payload += delta->runs[i].length;
        add(body, delta->runs, delta->count * sizeof *delta->runs);
        break;
    case MMSB_DELTA_INDEXED:
        body->number = payload = delta->count;
        if (delta->offsets32 && delta->count > 0) {
            body->head.form = MMSB__JOURNAL_INDEXED32;
            add(body, delta->offsets32, delta->count * sizeof *delta->offsets32);
        } else {
            add(body, delta->offsets, delta->count * sizeof *delta->offsets);
        }
        break;
    default: /* the three with a mask */
        body->number = payload = delta->mask_length;
        if (delta->kind == MMSB_DELTA_SPARSE_BITS)
            payload =
                delta->payload_length != 0 ? delta->payload_length : mmsb__bytes.count_bits(delta->mask, delta->mask_length);
        add(body, delta->mask, delta->kind == MMSB_DELTA_DENSE_BYTES ? delta->mask_length : (delta->mask_length + 7) >> 3);
    }
    add(body, delta->payload, payload);
}

uint64_t mmsb__journal_delta_space(const mmsb_delta_t *delta) {
    delta_body_t body;
    describe(&body, delta);
    return mmsb__journal_space(length_of(body.pieces, body.count));
}

static void describe_of(delta_body_t *body, uint64_t page, uint64_t version, uint64_t epoch, const mmsb_delta_t *delta) {
    describe(body, delta);
    body->head.page = page;
    body->head.version = version;
    body->head.epoch = epoch;
}

void mmsb__ring_put_delta(mmsb__group_t *group, uint64_t page, uint64_t version, uint64_t epoch, const mmsb_delta_t *delta) {
    if (MMSB__UNLIKELY(!group->ring))
        return;
    delta_body_t body;
    describe_of(&body, page, version, epoch, delta);
    mmsb__ring_put(group, body.head, body.pieces, body.count);
}

/* The record of the most frequent delta; a tenth of the rate of small ones is what a description of it takes. */
static mmsb_status_t append_run(mmsb__ring_t *ring, uint64_t page, uint64_t version, uint64_t epoch, const mmsb_run_t *run,
                                const void *payload, uint64_t *sequence) {
    mmsb__group_t group;
    mmsb_status_t status = mmsb__ring_begin(ring, &group, mmsb__journal_run_space(run->length), 1);
    if (MMSB__UNLIKELY(status != MMSB_OK))
        return status;
    mmsb__ring_put_run(&group, page, version, epoch, run->offset, payload, run->length);
    status = mmsb__ring_end(&group);
    *sequence = group.last;
    return status;
}

mmsb_status_t mmsb__ring_append_delta(mmsb__ring_t *ring, uint64_t page, uint64_t version, uint64_t epoch,
                                      const mmsb_delta_t *delta, uint64_t *sequence) {
    if (delta->kind == MMSB_DELTA_RUNS && delta->count == 1 && !is_annotated(delta))
        return append_run(ring, page, version, epoch, delta->runs, delta->payload, sequence);
    delta_body_t body;
    describe_of(&body, page, version, epoch, delta);
    return mmsb__ring_append(ring, body.head, body.pieces, body.count, sequence);
}

/* ----------------------------------------------------------------------------------------------------- waiting ---- */

static void want(mmsb__ring_t *ring, uint64_t sequence) {
    uint64_t wanted = __atomic_load_n(&ring->wanted, __ATOMIC_SEQ_CST);
    while (wanted < sequence &&
           !__atomic_compare_exchange_n(&ring->wanted, &wanted, sequence, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

/* The call takes the seat of a writer that sleeps, and writes its records itself: to wake a thread, and to be woken by it, takes
 * as long as half a write. Whether it worked is seen by who waits for the record. */
static void write_own(mmsb__ring_t *ring, uint64_t sequence) {
    if (__atomic_load_n(&ring->durable, __ATOMIC_SEQ_CST) >= sequence || has_failed(ring) || !try_seat(ring))
        return;
    want(ring, sequence);
    if (!mmsb__upcalls.write_journal(ring->context))
        ring->unwritten = 1;
    leave_seat(ring); /* others that came meanwhile have rung the writer's bell */
}

mmsb_status_t mmsb__ring_flush(mmsb__ring_t *ring, uint64_t sequence, int64_t patience_ns) {
    const int64_t until = patience_ns == INT64_MAX ? INT64_MAX : now_on(CLOCK_MONOTONIC) + patience_ns;
    for (;;) {
        uint32_t round = __atomic_load_n(&ring->rounds, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&ring->durable, __ATOMIC_SEQ_CST) >= sequence)
            return MMSB_OK;
        if (has_failed(ring))
            return answer_failure(ring);
        want(ring, sequence);
        ring_bell(ring);
        const int64_t left = until == INT64_MAX ? INT64_MAX : until - now_on(CLOCK_MONOTONIC);
        if (left <= 0)
            return MMSB_E_WOULD_BLOCK;
        await_move_for(&ring->rounds, round, &ring->round_waiters, left);
    }
}

mmsb_status_t mmsb__ring_wait(mmsb__ring_t *ring, uint64_t sequence) {
    if (!__atomic_load_n(&ring->each_call, __ATOMIC_RELAXED) || sequence == 0)
        return MMSB_OK;
    write_own(ring, sequence);
    if (mmsb__ring_flush(ring, sequence, INT64_MAX) == MMSB_OK)
        return MMSB_OK;
    const mmsb__thread_t *failure = mmsb__error();
    char text[sizeof failure->error_text];
    int length = snprintf(text, sizeof text, "the change is made, but may not be on disk: %s", failure->error_text);
    return mmsb__fail_foreign(MMSB_E_NOT_DURABLE, failure->error_domain, failure->error_foreign, text, (size_t)length);
}

mmsb_status_t mmsb__ring_check_pin(uint32_t context_index) {
    mmsb__ring_t *ring = mmsb__ring_for(context_index);
    return ring && __atomic_load_n(&ring->refuses, __ATOMIC_RELAXED) ? answer_failure(ring) : MMSB_OK;
}

void mmsb__ring_set_patience(mmsb__ring_t *ring, int64_t nanoseconds) {
    __atomic_store_n(&ring->space_patience_ns, nanoseconds, __ATOMIC_SEQ_CST);
    move(&ring->turns, &ring->turn_waiters);
}

int mmsb__ring_await_space(uint32_t context_index) {
    if (context_index >= MMSB__CONTEXTS) /* of what is no context */
        return 0;
    mmsb__ring_t *ring = __atomic_load_n(&mmsb__rings[context_index], __ATOMIC_ACQUIRE), *by = refused_by;
    refused_by = NULL;
    if (!ring || mmsb__group_of_ring(ring))
        return 0;
    for (int waited = by == ring;; waited = 1) {
        uint32_t turn = __atomic_load_n(&ring->turns, __ATOMIC_SEQ_CST);
        mmsb_status_t failed = __atomic_load_n(&ring->failed, __ATOMIC_SEQ_CST);
        const int64_t left = ring->space_until - now_on(CLOCK_MONOTONIC);
        if (__atomic_load_n(&ring->space_patience_ns, __ATOMIC_SEQ_CST) == 0)
            return 0;
        if (failed == MMSB_OK)
            return waited;
        if (failed != MMSB_E_NO_SPACE || left <= 0)
            return 0;
        __atomic_add_fetch(&ring->space_waited_ns, await_turn(ring, turn, left), __ATOMIC_RELAXED);
    }
}

uint64_t mmsb__ring_last(mmsb__ring_t *ring) {
    for (;;) { /* a buffer's first number belongs to the word only while the word is unchanged */
        uint64_t word = __atomic_load_n(&ring->word, __ATOMIC_SEQ_CST);
        uint64_t first = __atomic_load_n(&ring->buffers[WORD_BUFFER(word)].first, __ATOMIC_SEQ_CST);
        if (word == __atomic_load_n(&ring->word, __ATOMIC_SEQ_CST))
            return first + WORD_RECORDS(word) - 1;
    }
}

/* -------------------------------------------------------------------------------------------------- the writer ---- */

/* The beginning of a buffer that records go into: who reads the file knows the first one's number, and finds no older marks. */
static void begin_buffer(mmsb__ring_buffer_t *buffer, uint64_t first) {
    __atomic_store_n(&buffer->first, first, __ATOMIC_RELAXED);
    memcpy(buffer->bytes, "MMSBBUFF", 8);
    __atomic_store_n((uint64_t *)(void *)(buffer->bytes + 32), first, __ATOMIC_RELEASE);
}

/* A buffer that was written is empty again. Its records stay: clearing all bytes took a third of the rate of large records. Who
 * reads them in the file sees the head cleared before others come there, by the exchange of the word that lets these in. */
static void clear_written(mmsb__ring_buffer_t *buffer) {
    if (buffer->used == 0)
        return;
    memset(buffer->bytes, 0, MMSB__RING_HEAD_BYTES);
    memset(buffer->marks, 0, ((buffer->used - 1) >> MMSB__RING_MARK_SHIFT) + 1);
    buffer->used = 0;
}

/* Two buffers of memory that ends with the process. */
static uint8_t *map_buffers(mmsb__ring_t *ring, uint64_t buffer_bytes) {
    const uint64_t size = MMSB__RING_MEMORY(buffer_bytes) + HUGE_PAGE;
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    ring->memory = memory;
    uint8_t *bytes = memory + (-(uintptr_t)memory & (HUGE_PAGE - 1));
    madvise(bytes, 2 * buffer_bytes, MADV_HUGEPAGE); /* a request to the disk then has few segments */
    return bytes;
}

mmsb_status_t mmsb__ring_open(uint32_t context_index, uint64_t next, uint64_t buffer_bytes, int64_t interval_ns, int each_call,
                              void *shared) {
    mmsb__ring_t *ring = mmsb__rings[context_index];
    if (ring && ring->capacity != buffer_bytes)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "journal ring has %llu bytes, its size cannot change to %llu",
                          (unsigned long long)ring->capacity, (unsigned long long)buffer_bytes);
    if (!ring && posix_memalign((void **)(void *)&ring, 64, sizeof *ring) != 0)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for the journal's ring");
    if (!mmsb__rings[context_index]) {
        memset(ring, 0, sizeof *ring);
        ring->word = MMSB__RING_CLOSED;
        ring->capacity = buffer_bytes;
    }
    ring->memory = NULL;
    uint8_t *bytes = shared ? shared : map_buffers(ring, buffer_bytes);
    if (!bytes) {
        if (!mmsb__rings[context_index])
            free(ring);
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for the journal's two buffers of %llu bytes",
                          (unsigned long long)buffer_bytes);
    }
    for (int i = 0; i < 2; i++) {
        mmsb__ring_buffer_t *buffer = &ring->buffers[i];
        buffer->bytes = bytes + (uint64_t)i * buffer_bytes;
        buffer->marks = bytes + 2 * buffer_bytes + (uint64_t)i * (buffer_bytes >> MMSB__RING_MARK_SHIFT);
        buffer->used = 0;
        __atomic_store_n(&buffer->filled, 0, __ATOMIC_RELAXED); /* a late thread may still look at awaited, which is 0 */
    }
    begin_buffer(&ring->buffers[0], next);
    __atomic_store_n(&ring->buffers[1].first, next, __ATOMIC_RELAXED);
    ring->unwritten = 0;
    ring->context = context_index;
    __atomic_store_n(&ring->seat, 1, __ATOMIC_RELAXED); /* the writer's, until it sleeps */
    ring->interval_ns = interval_ns;
    __atomic_store_n(&ring->each_call, each_call != 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->refuses, 0, __ATOMIC_RELAXED);
    ring->taken = next - 1;
    ring->taken_at = 0;
    __atomic_store_n(&ring->pressed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->stopping, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->wanted, next - 1, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->durable, next - 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ring->failed, MMSB_OK, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ring->open, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mmsb__rings[context_index], ring, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->word, MMSB__RING_HEAD_BYTES >> 3, __ATOMIC_SEQ_CST);
    mmsb__detour_begin();
    __atomic_add_fetch(&mmsb__rings_open, 1, __ATOMIC_SEQ_CST);
    move(&ring->turns, &ring->turn_waiters); /* who waits for space */
    return MMSB_OK;
}

void mmsb__ring_stop(mmsb__ring_t *ring) {
    __atomic_store_n(&ring->stopping, 1, __ATOMIC_SEQ_CST);
    ring_bell(ring);
}

/* Waits until all reserved space of a buffer is filled. */
static void await_filled(mmsb__ring_buffer_t *buffer, uint64_t bytes) {
    for (int round = 0; __atomic_load_n(&buffer->filled, __ATOMIC_ACQUIRE) != bytes && round < 64; round++)
        sched_yield();
    __atomic_store_n(&buffer->awaited, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        uint32_t filled = __atomic_load_n(&buffer->filled, __ATOMIC_SEQ_CST);
        if (filled == bytes)
            break;
        futex_wait(&buffer->filled, filled, INT64_MAX);
    }
    __atomic_store_n(&buffer->awaited, 0, __ATOMIC_SEQ_CST);
}

void mmsb__ring_close(mmsb__ring_t *ring) {
    for (;;) { /* a group that failed clears its flag last */
        uint32_t turn = __atomic_load_n(&ring->turns, __ATOMIC_SEQ_CST);
        if (!(__atomic_load_n(&ring->word, __ATOMIC_SEQ_CST) & MMSB__RING_GREAT))
            break;
        await_move(&ring->turns, turn, &ring->turn_waiters);
    }
    uint64_t word = __atomic_load_n(&ring->word, __ATOMIC_SEQ_CST);
    await_filled(&ring->buffers[WORD_BUFFER(word)], WORD_USED(word) - MMSB__RING_HEAD_BYTES);
    __atomic_store_n(&ring->open, 0, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&mmsb__rings_open, 1, __ATOMIC_SEQ_CST);
    mmsb__detour_end();
    if (ring->memory)
        munmap(ring->memory, MMSB__RING_MEMORY(ring->capacity) + HUGE_PAGE);
    for (int i = 0; i < 2; i++)
        ring->buffers[i].bytes = ring->buffers[i].marks = NULL;
}

/* Activates the other buffer, which is written and free. */
static void change_buffers(mmsb__ring_t *ring, uint64_t word, mmsb__ring_batch_t *batch) {
    __atomic_store_n(&ring->pressed, 0, __ATOMIC_SEQ_CST);
    uint64_t active = WORD_BUFFER(word);
    mmsb__ring_buffer_t *full = &ring->buffers[active], *next = &ring->buffers[1 - active];
    uint64_t first = __atomic_load_n(&full->first, __ATOMIC_RELAXED);
    __atomic_store_n(&next->filled, 0, __ATOMIC_RELAXED);
    clear_written(next);
    do
        begin_buffer(next, first + WORD_RECORDS(word));
    while (!__atomic_compare_exchange_n(
        &ring->word, &word, (1 - active) << MMSB__RING_BUFFER_SHIFT | (word & MMSB__RING_GREAT) | MMSB__RING_HEAD_BYTES >> 3, 0,
        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    move(&ring->turns, &ring->turn_waiters);
    uint64_t used = WORD_USED(word);
    await_filled(full, used - MMSB__RING_HEAD_BYTES);
    memset(full->bytes + used, 0, (size_t)(-used & 4095));
    *batch = (mmsb__ring_batch_t){
        full->bytes, used, ring->capacity, first, (uint32_t)WORD_RECORDS(word), !(word & MMSB__RING_GREAT), 0};
    full->used = used;
    ring->taken = first + batch->count - 1;
    ring->taken_at = now_on(CLOCK_MONOTONIC);
    batch->wanted = __atomic_load_n(&ring->wanted, __ATOMIC_SEQ_CST) > __atomic_load_n(&ring->durable, __ATOMIC_RELAXED);
}

int mmsb__ring_take(mmsb__ring_t *ring, int64_t patience_ns, mmsb__ring_batch_t *batch) {
    int64_t now = now_on(CLOCK_MONOTONIC);
    int64_t until = patience_ns < 0 ? INT64_MAX : now + patience_ns, due = ring->taken_at + ring->interval_ns;
    int was_empty = 0;
    for (;;) {
        uint32_t bell = __atomic_load_n(&ring->bell, __ATOMIC_SEQ_CST);
        uint64_t word = __atomic_load_n(&ring->word, __ATOMIC_SEQ_CST);
        uint64_t wanted = __atomic_load_n(&ring->wanted, __ATOMIC_SEQ_CST);
        int stopping = __atomic_load_n(&ring->stopping, __ATOMIC_SEQ_CST) != 0, empty = WORD_EMPTY(word);
        if (has_failed(ring))
            return -1;
        if (ring->unwritten) { /* by a call: the writer hears why when it syncs */
            ring->unwritten = 0;
            return 0;
        }
        if (!empty && was_empty) { /* the first record waits for others */
            due = now + ring->interval_ns;
            was_empty = 0;
        }
        if (!empty && (stopping || wanted > ring->taken || now >= due || __atomic_load_n(&ring->pressed, __ATOMIC_SEQ_CST))) {
            change_buffers(ring, word, batch);
            return 1;
        }
        if (now >= until || wanted > __atomic_load_n(&ring->durable, __ATOMIC_RELAXED))
            return 0;
        if (empty && stopping && !(word & MMSB__RING_GREAT)) {
            if (!__atomic_compare_exchange_n(&ring->word, &word, word | MMSB__RING_CLOSED, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                continue;
            move(&ring->turns, &ring->turn_waiters);
            return -1;
        }
        was_empty |= empty;
        int64_t wake = empty || until < due ? until : due;
        __atomic_store_n(&ring->asleep, empty ? MMSB__ASLEEP_IDLE : MMSB__ASLEEP_TIMED, __ATOMIC_SEQ_CST);
        if (!empty || __atomic_load_n(&ring->word, __ATOMIC_SEQ_CST) == word) {
            leave_seat(ring);
            futex_wait(&ring->bell, bell, wake == INT64_MAX ? INT64_MAX : wake - now);
            take_seat(ring);
        }
        __atomic_store_n(&ring->asleep, MMSB__AWAKE, __ATOMIC_SEQ_CST);
        now = now_on(CLOCK_MONOTONIC);
    }
}

void mmsb__ring_durable(mmsb__ring_t *ring, uint64_t sequence) {
    __atomic_store_n(&ring->durable, sequence, __ATOMIC_SEQ_CST);
    move(&ring->rounds, &ring->round_waiters);
}

void mmsb__ring_fail(mmsb__ring_t *ring, mmsb_status_t code, int32_t domain, int32_t foreign, const char *text, size_t length) {
    length = mmsb__text_fits(text, length, sizeof ring->failed_text - 1);
    memcpy(ring->failed_text, text, length);
    ring->failed_text[length] = 0;
    ring->failed_domain = domain;
    ring->failed_foreign = foreign;
    const int64_t now = now_on(CLOCK_MONOTONIC);
    ring->space_until = ring->space_patience_ns > INT64_MAX - now ? INT64_MAX : now + ring->space_patience_ns;
    __atomic_store_n(&ring->failed, code, __ATOMIC_SEQ_CST);
    __atomic_or_fetch(&ring->word, MMSB__RING_CLOSED, __ATOMIC_SEQ_CST);
    move(&ring->turns, &ring->turn_waiters);
    move(&ring->rounds, &ring->round_waiters);
}
