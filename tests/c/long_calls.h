/*
 * long_calls.h — every long call in its forms, and a world to call it in. For the tests of what holds for all of them: timeouts,
 * cancelling.
 */
#ifndef MMSB_TESTS_LONG_CALLS_H
#define MMSB_TESTS_LONG_CALLS_H

#include "folder.h"

#include <fcntl.h>

typedef struct world {
    mmsb_context_t context, other, reader; /* context has the store at "journal"; reader reads it */
    mmsb_page_t *pages, *created;          /* page_count each: of context, and room for those of other */
    uint64_t page_count, page_size;
    mmsb_snapshot_t one, two;
    void *memory;
    uint64_t length;
    int pipe[2];
} world_t;

/* What a long call is called with: a timeout where ticket is NULL, else work that is started. */
typedef struct form {
    uint64_t timeout_ns;
    const mmsb_ticket_t *after;
    mmsb_ticket_t *ticket;
} form_t;

static mmsb_work_options_t work_of(const form_t *form) {
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.timeout_ns = form->timeout_ns;
    work.after = form->after;
    work.after_count = form->after != NULL;
    return work;
}

static mmsb_save_options_t save_options(const form_t *form) {
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    CHECK_EQUAL(options.timeout_ns, MMSB_WAIT_FOREVER);
    options.timeout_ns = form->timeout_ns;
    return options;
}

static mmsb_load_options_t load_options(const form_t *form) {
    mmsb_load_options_t options;
    mmsb_load_options_init(&options);
    CHECK_EQUAL(options.timeout_ns, MMSB_WAIT_FOREVER);
    options.timeout_ns = form->timeout_ns;
    return options;
}

static mmsb_status_t save(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_save_options_t options = save_options(f);
    return f->ticket ? mmsb_snapshot_save_start(w->context, at("saved"), &options, &work, f->ticket)
                     : mmsb_snapshot_save(w->context, at("saved"), &options);
}

static mmsb_status_t save_memory(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_save_options_t options = save_options(f);
    return f->ticket ? mmsb_snapshot_save_memory_start(w->context, &options, &work, &w->memory, &w->length, f->ticket)
                     : mmsb_snapshot_save_memory(w->context, &options, &w->memory, &w->length);
}

static mmsb_status_t save_descriptor(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_save_options_t options = save_options(f);
    static int descriptor = -1;
    if (descriptor >= 0) {
        close(descriptor);
    }
    descriptor = open(at("stream"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    REQUIRE(descriptor >= 0);
    return f->ticket ? mmsb_snapshot_save_descriptor_start(w->context, descriptor, &options, &work, f->ticket)
                     : mmsb_snapshot_save_descriptor(w->context, descriptor, &options);
}

static mmsb_status_t load(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_load_options_t options = load_options(f);
    return f->ticket ? mmsb_snapshot_load_start(w->other, at("one"), &options, &work, f->ticket)
                     : mmsb_snapshot_load(w->other, at("one"), &options);
}

static mmsb_status_t load_memory(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_load_options_t options = load_options(f);
    if (!w->memory) { /* given back with the world */
        REQUIRE_OK(mmsb_snapshot_save_memory(w->context, NULL, &w->memory, &w->length));
    }
    return f->ticket ? mmsb_snapshot_load_memory_start(w->other, w->memory, w->length, &options, &work, f->ticket)
                     : mmsb_snapshot_load_memory(w->other, w->memory, w->length, &options);
}

static mmsb_status_t load_descriptor(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_load_options_t options = load_options(f);
    static int descriptor = -1;
    if (descriptor >= 0) {
        close(descriptor);
    }
    descriptor = open(at("one"), O_RDONLY);
    REQUIRE(descriptor >= 0);
    return f->ticket ? mmsb_snapshot_load_descriptor_start(w->other, descriptor, &options, &work, f->ticket)
                     : mmsb_snapshot_load_descriptor(w->other, descriptor, &options);
}

static mmsb_status_t load_journal(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_load_options_t options = load_options(f);
    options.journal = at("journal");
    return f->ticket ? mmsb_snapshot_load_start(w->other, "", &options, &work, f->ticket)
                     : mmsb_snapshot_load(w->other, "", &options);
}

static mmsb_status_t verify(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    (void)w;
    return f->ticket ? mmsb_snapshot_verify_start(at("one"), &work, f->ticket) : mmsb_snapshot_verify(at("one"), &work);
}

static mmsb_status_t compact(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_save_options_t options = save_options(f);
    (void)w;
    return f->ticket ? mmsb_snapshot_compact_start(at("two"), at("compacted"), &options, &work, f->ticket)
                     : mmsb_snapshot_compact(at("two"), at("compacted"), &options);
}

static mmsb_status_t diff(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    static mmsb_snapshot_change_t changes[4];
    static size_t count;
    return f->ticket ? mmsb_snapshot_diff_start(w->one, w->two, &work, changes, 4, &count, f->ticket)
                     : mmsb_snapshot_diff(w->one, w->two, &work, changes, 4, &count);
}

static mmsb_status_t journal_open(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_journal_options_t options;
    mmsb_journal_options_init(&options);
    CHECK_EQUAL(options.timeout_ns, MMSB_WAIT_FOREVER);
    options.timeout_ns = f->timeout_ns;
    mmsb_journal_close(w->other);
    return f->ticket ? mmsb_journal_open_start(w->other, at("opened"), &options, &work, f->ticket)
                     : mmsb_journal_open(w->other, at("opened"), &options);
}

static mmsb_status_t journal_sync(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    return f->ticket ? mmsb_journal_sync_start(w->context, &work, f->ticket) : mmsb_journal_sync(w->context, &work);
}

static mmsb_status_t journal_trim(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    return f->ticket ? mmsb_journal_trim_start(w->context, at("two"), &work, f->ticket)
                     : mmsb_journal_trim(w->context, at("two"), &work);
}

static mmsb_status_t store_open(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    mmsb_store_options_t options;
    mmsb_store_options_init(&options);
    CHECK_EQUAL(options.timeout_ns, MMSB_WAIT_FOREVER);
    options.timeout_ns = f->timeout_ns;
    options.mode = MMSB_STORE_READ;
    CHECK_OK(mmsb_context_destroy(w->reader));
    w->reader = 0;
    return f->ticket ? mmsb_store_open_start(at("journal"), NULL, &options, &work, &w->reader, f->ticket)
                     : mmsb_store_open(at("journal"), NULL, &options, &w->reader);
}

static mmsb_status_t store_save(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    return f->ticket ? mmsb_store_save_start(w->context, 1, &work, f->ticket) : mmsb_store_save(w->context, 1, &work);
}

static mmsb_status_t store_name(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    return f->ticket ? mmsb_store_name_start(w->context, "name", &work, f->ticket) : mmsb_store_name(w->context, "name", &work);
}

static mmsb_status_t migrate_many(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    static int to_disk;
    const mmsb_location_t to = (to_disk = !to_disk) ? MMSB_LOCATION_DISK : MMSB_LOCATION_CPU;
    return f->ticket ? mmsb_page_migrate_many_start(w->pages, w->page_count, to, 0, &work, NULL, f->ticket)
                     : mmsb_page_migrate_many(w->pages, w->page_count, to, 0, &work, NULL, NULL);
}

static mmsb_status_t create_many(world_t *w, const form_t *f) {
    mmsb_work_options_t work = work_of(f);
    return f->ticket ? mmsb_page_create_many_start(w->other, w->page_size, w->page_count, NULL, &work, w->created, f->ticket)
                     : mmsb_page_create_many(w->other, w->page_size, w->page_count, NULL, &work, w->created);
}

typedef struct long_call {
    const char *name;
    mmsb_status_t (*run)(world_t *w, const form_t *form);
    int has_after; /* the blocking form waits for tickets */
    int writes;    /* at = "saved", …: it makes a file */
} long_call_t;

static const long_call_t CALLS[] = {
    {"save", save, 0, 1},
    {"save_memory", save_memory, 0, 0},
    {"save_descriptor", save_descriptor, 0, 0},
    {"load", load, 0, 0},
    {"load_memory", load_memory, 0, 0},
    {"load_descriptor", load_descriptor, 0, 0},
    {"load_journal", load_journal, 0, 0},
    {"verify", verify, 1, 0},
    {"compact", compact, 0, 1},
    {"diff", diff, 1, 0},
    {"journal_open", journal_open, 0, 0},
    {"journal_sync", journal_sync, 1, 0},
    {"journal_trim", journal_trim, 1, 0},
    {"store_open", store_open, 0, 0},
    {"store_save", store_save, 1, 0},
    {"store_name", store_name, 1, 0},
    {"migrate_many", migrate_many, 1, 0},
    {"create_many", create_many, 1, 0},
};
enum { CALL_COUNT = sizeof CALLS / sizeof CALLS[0] };

/* A context with pages, a store and two snapshots; between these the page with the number 3, or the last, is changed. */
static inline void begin(world_t *w, uint64_t page_count, uint64_t page_size) {
    *w = (world_t){.other = new_context(), .page_count = page_count, .page_size = page_size};
    mmsb_store_options_t store;
    mmsb_store_options_init(&store);
    store.save_bytes = MMSB_NEVER;
    REQUIRE_OK(mmsb_store_open(at("journal"), NULL, &store, &w->context));
    w->pages = calloc(2 * page_count, sizeof *w->pages);
    REQUIRE(w->pages != NULL);
    w->created = w->pages + page_count;
    REQUIRE_OK(mmsb_page_create_many(w->context, page_size, page_count, NULL, NULL, w->pages));
    REQUIRE_OK(mmsb_snapshot_save(w->context, at("one"), NULL));
    write_pattern(w->pages[page_count > 3 ? 3 : page_count - 1], 1);
    REQUIRE_OK(mmsb_snapshot_save(w->context, at("two"), NULL));
    REQUIRE_OK(mmsb_snapshot_open(at("one"), &w->one));
    REQUIRE_OK(mmsb_snapshot_open(at("two"), &w->two));
    REQUIRE(pipe(w->pipe) == 0);
}

static inline void end(world_t *w) {
    close(w->pipe[0]);
    close(w->pipe[1]);
    CHECK_OK(mmsb_snapshot_free_memory(w->memory));
    CHECK_OK(mmsb_snapshot_close(w->one));
    CHECK_OK(mmsb_snapshot_close(w->two));
    CHECK_OK(mmsb_context_destroy(w->reader));
    CHECK_OK(mmsb_context_destroy(w->other));
    CHECK_OK(mmsb_context_destroy(w->context));
    free(w->pages);
}

#endif
