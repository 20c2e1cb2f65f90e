/*
 * The journal's ring without Go and without a disk: threads put records and groups, a writer takes buffers and walks them. Every
 * record must come out once, whole, in the order of its number, groups unbroken. Meant for ThreadSanitizer.
 */
#include "../../tests/check.h"

#include "../gate.h"
#include "../journal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define CONTEXT_INDEX 9
#define RECORDS 6000 /* of a thread */

/* ------------------------------------------------------------------------------------------------- the writer ---- */

typedef struct reading {
    mmsb__ring_t *ring;
    uint64_t next;              /* number of the next record */
    uint64_t versions[THREADS]; /* per page: the last version */
    int in_pieces;              /* a great record is coming */
    uint64_t body;              /* bytes of its payload so far */
    uint64_t great;             /* great records seen */
    uint64_t group_page;        /* page of the group that is open; 0 = none, ANY = its first record said nothing of a page */
    uint64_t fail_after;        /* 0 = never */
    int frames;
    int by_calls; /* frames that calls have taken in the place of the writer */
} reading_t;

static uint8_t byte_of(uint64_t page, uint64_t version, uint64_t i) {
    return (uint8_t)(page * 31 + version * 7 + i);
}

#define ANY UINT64_MAX

static void read_record(reading_t *reading, const uint8_t *at) {
    mmsb__journal_head_t head;
    memcpy(&head, at, sizeof head);
    if (head.kind == MMSB__JOURNAL_GROUP) {
        CHECK(reading->group_page == 0 && head.length == MMSB__JOURNAL_GROUP_SPACE && head.time_ns > 0);
        CHECK(head.flags == MMSB__JOURNAL_MORE);
        reading->group_page = ANY;
        return;
    }
    CHECK(head.page >= 1 && head.page <= THREADS && head.length >= sizeof head && head.time_ns > 0);
    CHECK(reading->group_page == 0 || reading->group_page == ANY || reading->group_page == head.page);
    reading->group_page = head.flags & MMSB__JOURNAL_MORE ? head.page : 0;
    uint64_t body = head.length - sizeof head, skip = 0;
    if (head.kind == MMSB__JOURNAL_RUN && !reading->in_pieces) {
        uint64_t offset;
        memcpy(&offset, at + sizeof head, 8);
        CHECK(offset == head.version * 8);
        skip = 8;
    }
    const uint8_t *bytes = at + sizeof head + skip;
    for (uint64_t i = 0; i < body - skip; i += 97) /* a prime: not each byte, but all places over time */
        CHECK(bytes[i] == byte_of(head.page, head.version, reading->body + i));
    for (uint64_t i = head.length; i < mmsb__journal_space(body); i++)
        CHECK(at[i] == 0);
    if (head.flags & MMSB__JOURNAL_PIECE) {
        CHECK((body & 7) == 0);
        reading->in_pieces = 1;
        reading->body += body - skip;
        return;
    }
    reading->great += reading->in_pieces != 0;
    reading->in_pieces = 0;
    reading->body = 0;
    CHECK(head.version == reading->versions[head.page - 1] + 1);
    reading->versions[head.page - 1] = head.version;
}

/* 0: no more will come. */
static int write_frame(reading_t *reading, int64_t patience_ns) {
    mmsb__ring_batch_t stretch;
    int taken = mmsb__ring_take(reading->ring, patience_ns, &stretch);
    if (taken < 0)
        return 0;
    if (taken == 0) {
        mmsb__ring_durable(reading->ring, reading->next - 1);
        return 1;
    }
    CHECK(stretch.first == reading->next && stretch.used <= stretch.capacity);
    uint32_t count = 0;
    for (uint64_t at = MMSB__RING_HEAD_BYTES; at < stretch.used; count++) {
        uint32_t length;
        memcpy(&length, stretch.bytes + at, sizeof length);
        read_record(reading, stretch.bytes + at);
        at += (length + UINT64_C(7)) & ~UINT64_C(7);
    }
    CHECK(count == stretch.count);
    for (uint64_t at = stretch.used; at & 4095; at++)
        CHECK(stretch.bytes[at] == 0);
    CHECK(!stretch.ends || reading->group_page == 0);
    reading->next += count;
    reading->frames++;
    if (reading->fail_after != 0 && reading->next > reading->fail_after) {
        mmsb__ring_fail(reading->ring, MMSB_E_NO_SPACE, MMSB_DOMAIN_ERRNO, 28, "the disk is full", 16);
        return 0;
    }
    mmsb__ring_durable(reading->ring, reading->next - 1);
    return 1;
}

static void *write_out(void *argument) {
    while (write_frame(argument, 50 * 1000000)) {}
    return NULL;
}

static reading_t *now_reading;

/* A call has found the writer asleep: what it takes and looks at is only the seat's. */
static int write_in_a_call(uint32_t context) {
    CHECK(context == CONTEXT_INDEX);
    const int before = now_reading->frames, written = write_frame(now_reading, 0);
    now_reading->by_calls += now_reading->frames - before;
    return written;
}

/* ------------------------------------------------------------------------------------------------ the threads ---- */

typedef struct putter {
    mmsb__ring_t *ring;
    uint64_t page;
    uint64_t version;
    int each_call;
    mmsb_status_t status;
} putter_t;

static uint8_t *payload_of(uint8_t *room, uint64_t page, uint64_t version, uint64_t length) {
    for (uint64_t i = 0; i < length; i++)
        room[i] = byte_of(page, version, i);
    return room;
}

#define LONGEST (MMSB__RING_BYTES_MIN * 3 + 13)

static void *put(void *argument) {
    putter_t *putter = argument;
    uint8_t *room = malloc(LONGEST);
    uint32_t random = (uint32_t)putter->page;
    uint64_t records = putter->each_call ? RECORDS / 20 : RECORDS, last = 0;
    while (putter->version < records && putter->status == MMSB_OK) {
        random = random * 1664525 + 1013904223;
        uint32_t choice = random >> 24;
        mmsb__group_t group;
        uint64_t page = putter->page, version = putter->version;
        if (choice < 200) { /* one run */
            uint64_t length = choice & 1 ? 64 : choice;
            putter->status = mmsb__ring_begin(putter->ring, &group, mmsb__journal_run_space(length), 1);
            if (putter->status == MMSB_OK) {
                version++;
                mmsb__ring_put_run(&group, page, version, version, version * 8, payload_of(room, page, version, length), length);
                putter->status = mmsb__ring_end(&group);
            }
        } else if (choice < 250) { /* several */
            uint64_t count = choice - 190;
            putter->status = mmsb__ring_begin(putter->ring, &group, count * mmsb__journal_run_space(64), count);
            for (uint64_t i = 0; putter->status == MMSB_OK && i < count; i++) {
                version++;
                mmsb__ring_put_run(&group, page, version, version, version * 8, payload_of(room, page, version, 64), 64);
            }
            if (putter->status == MMSB_OK)
                putter->status = mmsb__ring_end(&group);
        } else if (choice < 254) { /* one of any length, most larger than a buffer */
            uint64_t length = random % LONGEST;
            mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_WRITE, .page = page, .version = ++version, .epoch = version};
            mmsb__piece_t pieces[] = {
                {payload_of(room, page, version, length), length / 3}, {NULL, 0}, {room + length / 3, length - length / 3}};
            putter->status = mmsb__ring_append(putter->ring, head, pieces, 3, &last);
            group.last = last;
        } else { /* a group larger than a buffer */
            uint64_t count = MMSB__RING_BYTES_MIN / mmsb__journal_run_space(64) * 2;
            putter->status = mmsb__ring_begin(putter->ring, &group, count * mmsb__journal_run_space(64), count);
            for (uint64_t i = 0; putter->status == MMSB_OK && i < count; i++) {
                version++;
                mmsb__ring_put_run(&group, page, version, version, version * 8, payload_of(room, page, version, 64), 64);
            }
            if (putter->status == MMSB_OK)
                putter->status = mmsb__ring_end(&group);
        }
        if (putter->status == MMSB_OK) {
            CHECK(group.last > last || (group.last == last && last > 0));
            last = group.last;
            putter->version = version;
            putter->status = mmsb__ring_wait(putter->ring, last);
            CHECK(!putter->each_call || putter->status != MMSB_OK ||
                  __atomic_load_n(&putter->ring->durable, __ATOMIC_SEQ_CST) >= last);
        }
    }
    free(room);
    return NULL;
}

static reading_t run(int each_call, int64_t interval_ns, uint64_t fail_after, putter_t putters[THREADS]) {
    CHECK(mmsb__ring_for(CONTEXT_INDEX) == NULL);
    CHECK(mmsb__ring_open(CONTEXT_INDEX, 1, MMSB__RING_BYTES_MIN, interval_ns, each_call, NULL) == MMSB_OK);
    mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
    CHECK(ring != NULL && mmsb__ring_last(ring) == 0);
    CHECK(mmsb__ring_for(CONTEXT_INDEX + 1) == NULL);
    reading_t reading = {.ring = ring, .next = 1, .fail_after = fail_after};
    pthread_t writer, threads[THREADS];
    now_reading = &reading;
    mmsb__upcalls.write_journal = write_in_a_call;
    CHECK(pthread_create(&writer, NULL, write_out, &reading) == 0);
    for (int i = 0; i < THREADS; i++) {
        putters[i] = (putter_t){.ring = ring, .page = (uint64_t)i + 1, .each_call = each_call};
        CHECK(pthread_create(&threads[i], NULL, put, &putters[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    uint64_t last = mmsb__ring_last(ring);
    if (fail_after == 0) {
        CHECK(mmsb__ring_flush(ring, last, INT64_MAX) == MMSB_OK);
        CHECK(__atomic_load_n(&ring->durable, __ATOMIC_SEQ_CST) == last);
    }
    mmsb__ring_stop(ring);
    CHECK(pthread_join(writer, NULL) == 0);
    mmsb__ring_close(ring);
    CHECK(mmsb__ring_for(CONTEXT_INDEX) == NULL);
    return reading;
}

/* ------------------------------------------------------------------------------------------------------- tests ---- */

static void check_all_came(const reading_t *reading, const putter_t putters[THREADS]) {
    for (int i = 0; i < THREADS; i++) {
        CHECK(putters[i].status == MMSB_OK);
        CHECK(reading->versions[i] == putters[i].version);
    }
    CHECK(reading->group_page == 0 && reading->body == 0);
}

static void test_four_threads(void) {
    putter_t putters[THREADS];
    reading_t reading = run(0, 1000000, 0, putters);
    check_all_came(&reading, putters);
    CHECK(reading.great > 0 && reading.frames > 10);
}

static void test_each_call_waits(void) {
    putter_t putters[THREADS];
    reading_t reading = run(1, 0, 0, putters);
    check_all_came(&reading, putters);
    CHECK(reading.by_calls > 0 && reading.by_calls < reading.frames); /* some found the writer asleep, some awake */
}

static void test_a_full_disk_fails_calls(void) {
    putter_t putters[THREADS];
    reading_t reading = run(0, 1000000, 2000, putters);
    CHECK(reading.next > 2000);
    for (int i = 0; i < THREADS; i++)
        CHECK(putters[i].status == MMSB_E_NO_SPACE);
}

static void test_a_full_disk_fails_waits(void) {
    int made = 0;
    for (int tries = 0; made == 0 && tries < 100; tries++) { /* all may just be putting records, which fails otherwise */
        putter_t putters[THREADS];
        run(1, 0, 300, putters);
        for (int i = 0; i < THREADS; i++) {
            const mmsb_status_t status = putters[i].status;
            CHECK(status == MMSB_E_NOT_DURABLE || status == MMSB_E_NO_SPACE);
            made += status == MMSB_E_NOT_DURABLE;
        }
    }
    CHECK(made > 0);
}

/* What lies in the file is the delta as it came, with 48 bytes and less around a run. */
static void test_spaces(void) {
    CHECK(mmsb__journal_run_space(64) == 112);
    mmsb_run_t runs[2] = {{0, 3}, {10, 4}};
    uint64_t offsets[3] = {1, 2, 3};
    uint8_t mask[16] = {0x81, 1}, payload[16] = {0};
    struct {
        mmsb_delta_t delta;
        uint64_t space;
    } cases[] = {
        {{.kind = MMSB_DELTA_RUNS, .runs = runs, .count = 1, .payload = payload}, 56},
        {{.kind = MMSB_DELTA_RUNS, .runs = runs, .count = 2, .payload = payload}, 40 + 8 + 32 + 8},
        {{.kind = MMSB_DELTA_INDEXED, .offsets = offsets, .count = 3, .payload = payload}, 40 + 8 + 24 + 8},
        {{.kind = MMSB_DELTA_DENSE_BYTES, .mask = mask, .mask_length = 9, .payload = payload}, 40 + 8 + 24},
        {{.kind = MMSB_DELTA_DENSE_BITS, .mask = mask, .mask_length = 9, .payload = payload}, 40 + 8 + 16},
        {{.kind = MMSB_DELTA_SPARSE_BITS, .mask = mask, .mask_length = 9, .payload = payload}, 40 + 8 + 8},
        {{.kind = MMSB_DELTA_RUNS, .runs = runs, .count = 1, .payload = payload, .source = "ab"}, 56 + 24 + 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(mmsb__journal_delta_space(&cases[i].delta) == cases[i].space);
}

/* The bodies of deltas of all forms, as docs/journal-format.md has them. */
static void test_deltas_as_they_lie_in_the_file(void) {
    mmsb_run_t runs[2] = {{0, 2}, {0x0a, 1}};
    uint64_t offsets[2] = {1, 0x0203};
    uint32_t offsets32[3] = {4, 5, 6};
    static const uint8_t mask[2] = {0x81, 0x01};
    struct {
        mmsb_delta_t delta;
        uint8_t kind, flags;
        uint16_t form;
        const char *body;
        size_t length;
    } cases[] = {
        {{.kind = MMSB_DELTA_RUNS, .runs = runs + 1, .count = 1, .payload = "x"},
         MMSB__JOURNAL_RUN,
         0,
         0,
         "\x0a\0\0\0\0\0\0\0x",
         9},
        {{.kind = MMSB_DELTA_RUNS, .runs = runs, .count = 2, .payload = "xyz"},
         MMSB__JOURNAL_DELTA,
         0,
         5,
         "\2\0\0\0\0\0\0\0"
         "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
         "\x0a\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
         "xyz",
         43},
        {{.kind = MMSB_DELTA_RUNS}, MMSB__JOURNAL_DELTA, 0, 5, "\0\0\0\0\0\0\0\0", 8},
        {{.kind = MMSB_DELTA_INDEXED, .offsets = offsets, .count = 2, .payload = "pq"},
         MMSB__JOURNAL_DELTA,
         0,
         4,
         "\2\0\0\0\0\0\0\0"
         "\1\0\0\0\0\0\0\0\3\2\0\0\0\0\0\0"
         "pq",
         26},
        {{.kind = MMSB_DELTA_INDEXED, .offsets32 = offsets32, .count = 3, .payload = "pqr"},
         MMSB__JOURNAL_DELTA,
         0,
         6,
         "\3\0\0\0\0\0\0\0"
         "\4\0\0\0\5\0\0\0\6\0\0\0"
         "pqr",
         23},
        {{.kind = MMSB_DELTA_INDEXED}, MMSB__JOURNAL_DELTA, 0, 4, "\0\0\0\0\0\0\0\0", 8},
        {{.kind = MMSB_DELTA_DENSE_BYTES, .mask = mask, .mask_length = 2, .payload = "de"},
         MMSB__JOURNAL_DELTA,
         0,
         1,
         "\2\0\0\0\0\0\0\0"
         "\x81\1"
         "de",
         12},
        {{.kind = MMSB_DELTA_DENSE_BITS, .mask = mask, .mask_length = 9, .payload = "123456789"},
         MMSB__JOURNAL_DELTA,
         0,
         2,
         "\x09\0\0\0\0\0\0\0"
         "\x81\1"
         "123456789",
         19},
        {{.kind = MMSB_DELTA_SPARSE_BITS, .mask = mask, .mask_length = 9, .payload = "abc"},
         MMSB__JOURNAL_DELTA,
         0,
         3,
         "\x09\0\0\0\0\0\0\0"
         "\x81\1"
         "abc",
         13},
        {{.kind = MMSB_DELTA_RUNS,
          .runs = runs + 1,
          .count = 1,
          .payload = "x",
          .id = 3,
          .timestamp_ns = 4,
          .source = "me",
          .intent = "why"},
         MMSB__JOURNAL_RUN,
         MMSB__JOURNAL_ANNOTATED,
         0,
         "\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\2\0\0\0\3\0\0\0mewhy\0\0\0"
         "\x0a\0\0\0\0\0\0\0x",
         41},
    };
    enum { COUNT = sizeof cases / sizeof *cases };
    CHECK(mmsb__ring_open(CONTEXT_INDEX, 1, MMSB__RING_BYTES_MIN, 0, 0, NULL) == MMSB_OK);
    mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
    mmsb__group_t group;
    uint64_t bytes = 0, sequence = 0;
    for (size_t i = 0; i < COUNT; i++)
        bytes += mmsb__journal_delta_space(&cases[i].delta);
    CHECK(mmsb__ring_begin(ring, &group, bytes, COUNT) == MMSB_OK);
    for (size_t i = 0; i < COUNT; i++)
        mmsb__ring_put_delta(&group, 100 + i, 200 + i, 300 + i, &cases[i].delta);
    CHECK(group.left == 0 && mmsb__ring_end(&group) == MMSB_OK);
    for (size_t i = 0; i < COUNT; i++) /* and each by itself */
        CHECK(mmsb__ring_append_delta(ring, 100 + i, 200 + i, 300 + i, &cases[i].delta, &sequence) == MMSB_OK);
    CHECK(sequence == 2 * COUNT + 1);
    mmsb__ring_stop(ring);
    mmsb__ring_batch_t stretch;
    CHECK(mmsb__ring_take(ring, -1, &stretch) == 1 && stretch.count == 2 * COUNT + 1);
    const uint8_t *at = stretch.bytes + MMSB__RING_HEAD_BYTES;
    CHECK(at[4] == MMSB__JOURNAL_GROUP && memcmp(at + sizeof(mmsb__journal_head_t), &bytes, sizeof bytes) == 0);
    at += MMSB__JOURNAL_GROUP_SPACE;
    for (size_t i = 0; i < (size_t)2 * COUNT; i++) {
        mmsb__journal_head_t head;
        memcpy(&head, at, sizeof head);
        size_t j = i % COUNT;
        CHECK(head.length == sizeof head + cases[j].length && head.kind == cases[j].kind && head.form == cases[j].form);
        CHECK(head.flags == (cases[j].flags | (i + 1 < COUNT ? MMSB__JOURNAL_MORE : 0)));
        CHECK(head.page == 100 + j && head.version == 200 + j && head.epoch == 300 + j);
        CHECK(memcmp(at + sizeof head, cases[j].body, cases[j].length) == 0);
        at += mmsb__journal_space(cases[j].length);
    }
    CHECK(at == stretch.bytes + stretch.used);
    CHECK(mmsb__ring_take(ring, -1, &stretch) == -1);
    mmsb__ring_close(ring);
}

/* What another process sees of the buffers when this one is killed at any of these moments. */
static void test_shared_memory_tells_what_is_complete(void) {
    uint8_t *shared = NULL;
    CHECK(posix_memalign((void **)(void *)&shared, 4096, MMSB__RING_MEMORY(MMSB__RING_BYTES_MIN)) == 0);
    memset(shared, 0, MMSB__RING_MEMORY(MMSB__RING_BYTES_MIN));
    CHECK(mmsb__ring_open(CONTEXT_INDEX, 41, MMSB__RING_BYTES_MIN, 0, 0, shared) == MMSB_OK);
    mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
    uint64_t first, sequence = 0, run = mmsb__journal_run_space(64);
    memcpy(&first, shared + 32, sizeof first);
    CHECK(memcmp(shared, "MMSBBUFF", 8) == 0 && first == 41);
    mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_DESTROY, .page = 1};
    CHECK(mmsb__ring_append(ring, head, NULL, 0, &sequence) == MMSB_OK && sequence == 41);
    const uint8_t *one = shared + MMSB__RING_HEAD_BYTES, *group_head = one + sizeof head;
    const uint8_t *marks = shared + 2 * MMSB__RING_BYTES_MIN;
    CHECK(one[0] == sizeof head && one[4] == MMSB__JOURNAL_DESTROY && marks[2] == 1); /* at 64 */

    uint8_t payload[64] = {1};
    mmsb__group_t group;
    CHECK(mmsb__ring_begin(ring, &group, 2 * run, 2) == MMSB_OK && group.last == 44);
    uint64_t length;
    memcpy(&length, group_head + sizeof head, sizeof length);
    CHECK(group_head[4] == MMSB__JOURNAL_GROUP && group_head[5] == MMSB__JOURNAL_MORE && length == 2 * run);
    mmsb__ring_put_run(&group, 1, 1, 1, 8, payload, 64);
    mmsb__ring_put_run(&group, 1, 2, 2, 16, payload, 64);
    CHECK(marks[3] == 0 && mmsb__ring_end(&group) == MMSB_OK && marks[3] == 2); /* at 104 */

    mmsb__ring_batch_t batch;
    CHECK(mmsb__ring_flush(ring, 0, INT64_MAX) == MMSB_OK); /* nothing to wait for */
    CHECK(mmsb__ring_take(ring, 0, &batch) == 1 && batch.count == 4 && batch.bytes == shared);
    memcpy(&first, shared + MMSB__RING_BYTES_MIN + 32, sizeof first);
    CHECK(memcmp(shared + MMSB__RING_BYTES_MIN, "MMSBBUFF", 8) == 0 && first == 45);
    CHECK(mmsb__ring_take(ring, 0, &batch) == 0); /* the writer comes back: it has written the buffer, which others may read */
    memcpy(&first, shared + 32, sizeof first);
    CHECK(first == 41 && marks[2] == 1 && marks[3] == 2);
    CHECK(mmsb__ring_append(ring, head, NULL, 0, &sequence) == MMSB_OK && sequence == 45);
    CHECK(mmsb__ring_take(ring, 0, &batch) == 1 && batch.count == 1); /* until it is used again */
    memcpy(&first, shared + 32, sizeof first);
    CHECK(memcmp(shared, "MMSBBUFF", 8) == 0 && first == 46);
    for (uint64_t i = 0; i < MMSB__RING_BYTES_MIN >> MMSB__RING_MARK_SHIFT; i++)
        CHECK(marks[i] == 0);
    mmsb__ring_stop(ring);
    CHECK(mmsb__ring_take(ring, -1, &batch) == -1);
    mmsb__ring_close(ring);
    free(shared);
}

/* A call that writes in the writer's place, and fails, while another puts a record. */
static int fail_in_a_call(uint32_t context) {
    mmsb__ring_t *ring = mmsb__ring_for(context);
    mmsb__ring_batch_t batch;
    uint64_t sequence;
    const mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_DESTROY, .page = 2};
    CHECK(mmsb__ring_take(ring, 0, &batch) == 1 && batch.first == 41);
    CHECK(mmsb__ring_append(ring, head, NULL, 0, &sequence) == MMSB_OK && sequence == 42);
    return 0;
}

static void *hear_of_a_failure(void *argument) {
    mmsb__ring_t *ring = argument;
    mmsb__ring_batch_t batch;
    CHECK(mmsb__ring_take(ring, -1, &batch) == 0); /* before it takes more: the other buffer is the one that must stay */
    CHECK(memcmp(ring->buffers[0].bytes, "MMSBBUFF", 8) == 0 && ring->buffers[0].marks[2] == 1);
    mmsb__ring_fail(ring, MMSB_E_IO, 0, 5, "no disk", 7);
    return NULL;
}

/* Who reads what a dead process left in the ring finds a record that a call could not write. */
static void test_what_a_call_could_not_write_stays(void) {
    CHECK(mmsb__ring_open(CONTEXT_INDEX, 41, MMSB__RING_BYTES_MIN, 0, 1, NULL) == MMSB_OK);
    mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
    mmsb__upcalls.write_journal = fail_in_a_call;
    pthread_t writer;
    CHECK(pthread_create(&writer, NULL, hear_of_a_failure, ring) == 0);
    while (__atomic_load_n(&ring->seat, __ATOMIC_SEQ_CST) != 0)
        sched_yield();
    uint64_t sequence;
    const mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_DESTROY, .page = 1};
    CHECK(mmsb__ring_append(ring, head, NULL, 0, &sequence) == MMSB_OK && sequence == 41);
    CHECK(mmsb__ring_wait(ring, sequence) == MMSB_E_NOT_DURABLE);
    CHECK(pthread_join(writer, NULL) == 0);
    mmsb__ring_close(ring);
}

static void test_closed_ring_takes_nothing(void) {
    CHECK(mmsb__ring_open(CONTEXT_INDEX, 41, MMSB__RING_BYTES_MIN, 0, 0, NULL) == MMSB_OK);
    mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
    mmsb__journal_head_t head = {.kind = MMSB__JOURNAL_DESTROY, .page = 1};
    uint64_t sequence = 7;
    CHECK(mmsb__ring_append(ring, head, NULL, 0, &sequence) == MMSB_OK && sequence == 41);
    mmsb__ring_stop(ring);
    mmsb__ring_batch_t stretch;
    CHECK(mmsb__ring_take(ring, -1, &stretch) == 1 && stretch.first == 41 && stretch.count == 1 && stretch.ends);
    CHECK(mmsb__ring_take(ring, -1, &stretch) == -1);
    CHECK(mmsb__ring_append(ring, head, NULL, 0, &sequence) == MMSB_OK && sequence == 0);
    mmsb__ring_close(ring);
    CHECK(mmsb__ring_append(ring, head, NULL, 0, &sequence) == MMSB_OK && sequence == 0);
}

static int enough;

/* Puts records for as long as the test lasts, whether there is a journal or not. */
static void *put_on(void *argument) {
    uint64_t *put = argument;
    uint8_t room[64];
    uint64_t version = 0;
    while (!__atomic_load_n(&enough, __ATOMIC_RELAXED)) {
        mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
        if (!ring) {
            sched_yield();
            continue;
        }
        mmsb__group_t group;
        CHECK(mmsb__ring_begin(ring, &group, 3 * mmsb__journal_run_space(64), 3) == MMSB_OK);
        for (uint64_t i = 0; i < 3; i++)
            mmsb__ring_put_run(&group, 1, version, version, version * 8, payload_of(room, 1, version, 64), 64);
        CHECK(mmsb__ring_end(&group) == MMSB_OK);
        *put += group.last > 0 ? 4 : 0; /* with the group's head */
        version++;
    }
    return NULL;
}

/* Journals come and go while threads work: what was put into one came out of it. */
static void test_opened_and_closed_under_load(void) {
    pthread_t threads[THREADS];
    uint64_t put[THREADS] = {0}, taken = 0, next = 1;
    __atomic_store_n(&enough, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, put_on, &put[i]) == 0);
    const time_t end = time(NULL) + 600;
    for (int round = 0; round < 100 || (taken == 0 && time(NULL) < end); round++) { /* threads may come late */
        CHECK(mmsb__ring_open(CONTEXT_INDEX, next, MMSB__RING_BYTES_MIN, 0, 0, NULL) == MMSB_OK);
        mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
        mmsb__ring_batch_t stretch;
        int answer;
        for (int i = 0; (answer = mmsb__ring_take(ring, i < 5 ? 1000000 : -1, &stretch)) >= 0; i++) {
            if (answer > 0) {
                CHECK(stretch.first == next);
                next += stretch.count;
                taken += stretch.count;
            }
            if (i == 5)
                mmsb__ring_stop(ring);
        }
        mmsb__ring_close(ring);
    }
    __atomic_store_n(&enough, 1, __ATOMIC_RELAXED);
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        sum += put[i];
    }
    CHECK(taken > 0 && sum == taken);
}

/* Texts that are too long, of characters of two bytes behind what the library says itself: they end with a whole one. */
static void test_long_errors_end_with_a_character(void) {
    char text[2000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "\xc3\xa4"[i % 2];
    for (int before = 0; before < 2; before++) {
        CHECK(mmsb__fail(MMSB_E_IO, "%s%.*s", before ? "x" : "", (int)sizeof text, text) == MMSB_E_IO);
        CHECK_EQUAL(strlen(mmsb__error()->error_text), before ? 1023 : 1022);
    }
    CHECK(mmsb__ring_open(CONTEXT_INDEX, 1, MMSB__RING_BYTES_MIN, 0, 0, NULL) == MMSB_OK);
    mmsb__ring_t *ring = mmsb__ring_for(CONTEXT_INDEX);
    mmsb__ring_fail(ring, MMSB_E_IO, MMSB_DOMAIN_ERRNO, 5, text, sizeof text);
    CHECK(mmsb__ring_flush(ring, 1, INT64_MAX) == MMSB_E_IO);
    CHECK_EQUAL(strlen(mmsb__error()->error_text), 510);
    mmsb__ring_close(ring);
    mmsb__gate_poison(text, sizeof text); /* the last test */
    CHECK(mmsb__gate_closed() == MMSB_E_POISONED);
    const size_t length = strlen(mmsb__error()->error_text);
    CHECK(length > 510 && (uint8_t)mmsb__error()->error_text[length - 1] == 0xa4);
}

int main(int argument_count, char **arguments) {
    REQUIRE(mmsb__gate_closed() == MMSB_OK);
    if (argument_count > 1 && strcmp(arguments[1], "waits") == 0) {
        check_stops = 1;
        RUN(test_a_full_disk_fails_waits);
        RUN(test_what_a_call_could_not_write_stays);
        RUN(test_long_errors_end_with_a_character);
        return check_report();
    }
    RUN(test_spaces);
    RUN(test_deltas_as_they_lie_in_the_file);
    RUN(test_closed_ring_takes_nothing);
    RUN(test_shared_memory_tells_what_is_complete);
    RUN(test_four_threads);
    RUN(test_each_call_waits);
    RUN(test_a_full_disk_fails_calls);
    RUN(test_a_full_disk_fails_waits);
    RUN(test_what_a_call_could_not_write_stays);
    RUN(test_opened_and_closed_under_load);
    RUN(test_long_errors_end_with_a_character);
    return check_report();
}
