/*
 * fuzz.h — what the files of the fuzz share: the model that the library is compared with, how a call is made, and the operations.
 *
 * The model is arrays: pages with bytes, mask, epoch, metadata; edges; deltas and memory that the library handed out. A call gets
 * at most one thing wrong, so that its code is certain. A page that a call touched is compared whole afterwards; from time to
 * time everything is.
 */
#ifndef MMSB_TESTS_FUZZ_H
#define MMSB_TESTS_FUZZ_H

#include "../library.h"
#include "../test_hooks.h"

/* ------------------------------------------------------------------------------------------------- main.c: a call ---- */

/* All that is left to chance follows from the seed. */
extern uint64_t seed;
uint64_t below(uint64_t bound);
int chance(uint64_t percent);

/* What the library says must be what the model says, or the program ends. */
#define SAME(actual, expected) same(__FILE__, __LINE__, #actual, (uint64_t)(actual), (uint64_t)(expected))

/* A call that is part of the fuzz: counted, and its status compared. */
#define CALL(call, expected) called(__FILE__, __LINE__, #call, (call), (expected), (expected))
#define CALL_EITHER(call, expected, other) called(__FILE__, __LINE__, #call, (call), (expected), (other))

/* A call with a batch that mixes journals, which is refused, unless something else of it is wrong as well. */
#define CALL_MIXED(call, code) CALL_EITHER(call, MMSB_E_UNSUPPORTED, (code) == MMSB_OK ? MMSB_E_UNSUPPORTED : (code))

__attribute__((noreturn)) void fail(const char *file, int line, const char *what, uint64_t actual, uint64_t expected);
void same(const char *file, int line, const char *what, uint64_t actual, uint64_t expected);
mmsb_status_t called(const char *file, int line, const char *text, mmsb_status_t status, mmsb_status_t expected,
                     mmsb_status_t other);

/* What an output holds before a call, and still must after one that failed. */
enum { UNTOUCHED = 42 };

/* ------------------------------------------------------------------------------------------------------- model.c ---- */

enum {
    CONTEXTS = 3,
    GUARDED_CONTEXT = 1,
    NOWHERE = -1,
    PAGES = 40,
    LARGEST = 1500, /* bytes of a page */
    KEYS = 6,
    LONGEST_VALUE = 40,
    EDGES = 60,
    DELTAS = 5,
    MEMORIES = 3,
    TICKETS = 4,
    WAITING = 60 /* syncs of a context */
};
#define LIMIT_OF_FIRST_CONTEXT (64ULL << 20)
#define OVER_THE_LIMIT (1ULL << 30)

typedef struct entry {
    int key; /* index into keys */
    uint8_t value[LONGEST_VALUE];
    size_t length;
} entry_t;

typedef struct page {
    mmsb_page_t handle; /* 0 = this slot is free */
    int context;
    uint64_t id;
    uint64_t size;
    uint64_t epoch;
    uint64_t version;
    int location;
    int copy;                               /* where its copy on the host is, or NOWHERE, when it was last looked at */
    uint32_t pins[MMSB_PIN_WRITE + 1];      /* by mode */
    uint32_t host_pins[MMSB_PIN_WRITE + 1]; /* of these: of its copy on the host */
    int read_only;
    int exposed; /* the address of its memory may have been given out, of this page or one before: a rollback moves its version */
    int raw;     /* it may have bytes that no call gave it since the last snapshot */
    uint8_t *adopted; /* memory of ours */
    uint8_t bytes[LARGEST];
    uint8_t mask[LARGEST]; /* one byte per bit */
    entry_t entries[KEYS];
    int entry_count;
} page_t;

typedef struct waiting {
    mmsb_page_t page; /* which may have ended */
    int direction;
    int32_t device;
} waiting_t;

typedef struct context {
    mmsb_context_t handle; /* 0 = free */
    uint64_t allocations;
    uint64_t frees;
    int journalled;             /* it has a journal, whose records follow a snapshot */
    int branched;               /* and a load: they follow a base in its directory */
    waiting_t waiting[WAITING]; /* for a sync */
    int waiting_count;
} context_t;

typedef struct edge {
    page_t *parent;
    page_t *child;
} edge_t;

typedef struct memory {
    uint8_t *address; /* NULL = free */
    uint64_t size;
    uint8_t bytes[LARGEST];
} memory_t;

extern context_t contexts[CONTEXTS];
extern page_t pages[PAGES];
extern edge_t edges[EDGES]; /* oldest first */
extern int edge_count;
extern mmsb_delta_t *deltas[DELTAS];
extern memory_t memories[MEMORIES];
extern mmsb_ticket_t tickets[TICKETS];
extern int releases;     /* of adopted memory */
extern uint64_t next_id; /* that no page has */
extern const char *const keys[KEYS];

/* A handle for a call, good or bad, and the code that a bad one gets. */
typedef struct pick {
    uint64_t handle;
    page_t *page; /* NULL for a bad handle */
    mmsb_status_t code;
} pick_t;

void remember_stale(int kind, uint64_t handle);
pick_t bad_handle(int kind);
pick_t pick_page(uint64_t percent_bad);
page_t *any_page(void);
page_t *free_slot(void);
int any_context(void);

uint64_t any_size(void);
int any_location(void);
int device_location(void);
int32_t unknown_location(void);
int32_t no_device(void);

page_t *enter(page_t *page, mmsb_page_t handle, int context, uint64_t size, int location);
void leave(page_t *page);
int pinned(const page_t *page);
int id_is_used(int context, uint64_t id);
int mixes_journals(page_t *const *chosen, size_t count);

/* Takes a copy of the model, which restore_model makes the model again: pages made since then have ended. */
void keep_model(void);
void restore_model(void);
int was_kept(mmsb_page_t handle);

/* ----------------------------------------------------------------------------------------------------- compare.c ---- */

enum moved { STAYS, MOVES, MAY_MOVE };

void check_version(page_t *page, enum moved moved);
void check_page(page_t *page);
void check_metadata(const page_t *page);
void check_edges(const page_t *page);
void check_context(int index);
void check_everything(void);

/* ---------------------------------------------------------------------------------- what several files make use of ---- */

/* bytes.c: a range of a page, good or reaching past its end; bytes for a call, which may lie there after one, too. */
extern uint8_t buffer[2 * LARGEST];
int any_range(const page_t *page, uint64_t *offset, uint64_t *length);
void fill_buffer(uint64_t length);

/* deltas.c: a delta and all that it points to. */
typedef struct made_delta {
    mmsb_delta_t delta;
    uint8_t mask[LARGEST];
    uint64_t offsets[100];
    uint32_t offsets32[100];
    mmsb_run_t runs[6];
    uint8_t payload[LARGEST];
} made_delta_t;

void make_delta(made_delta_t *made, uint64_t size);
mmsb_status_t spoil_delta(mmsb_delta_t *delta);
uint64_t extent(const mmsb_delta_t *delta);
void do_delta(const mmsb_delta_t *delta, uint8_t *bytes, uint8_t *mask);
void delta_was_applied(page_t *page, const mmsb_delta_t *delta);

/* dependencies.c: whether a way of edges leads from one page to the other, or they are the same. */
int reaches(const page_t *from, const page_t *to);

/* metadata.c: a page's metadata as the library exports it, or its keys. */
enum { BLOB = 1024 /* bytes, more than any has */ };
size_t write_blob(const page_t *page, uint8_t *blob, int keys_only);

/* contexts.c */
void open_context(int index);
void context_ended(int index, int released_before);

/* syncs.c */
void end_host_pins(page_t *page);

/* groups.c: each context has a group open */
extern int in_groups;

/* snapshots.c: the program's own folder, with files for each context. */
void make_folder(void);
void end_folder(void);
const char *file_of(int index, const char *name);
void remove_files(const char *path);
mmsb_save_options_t any_save_options(void);

/* ---------------------------------------------------------------------------------------------------- operations ---- */

/* create.c */
void fuzz_create(void);
void fuzz_create_many(void);
void fuzz_clone(void);
void fuzz_adopt(void);
/* pages.c */
void fuzz_destroy(void);
void fuzz_destroy_many(void);
void fuzz_release(void);
void fuzz_memory_free(void);
void fuzz_resize(void);
void fuzz_resize_many(void);
void fuzz_migrate(void);
/* lookup.c */
void fuzz_lookup(void);
void fuzz_info(void);
void fuzz_getters(void);
/* bytes.c */
void fuzz_pin(void);
void fuzz_unpin(void);
void fuzz_tensor(void);
void fuzz_read(void);
void fuzz_write(void);
void fuzz_ranges_of_many(void);
/* deltas.c */
void fuzz_apply(void);
void fuzz_apply_many(void);
void fuzz_apply_runs(void);
void fuzz_mask(void);
/* made_deltas.c */
void fuzz_validate(void);
void fuzz_merge(void);
void fuzz_convert(void);
void fuzz_from_pages(void);
void fuzz_owned_delta(void);
/* metadata.c */
void fuzz_metadata(void);
/* dependencies.c */
void fuzz_dependency(void);
void fuzz_dependency_lists(void);
/* commands.c */
void fuzz_commands(void);
/* kernels.c */
void fuzz_kernels(void);
void fuzz_two_pages(void);
/* syncs.c */
void fuzz_sync(void);
void fuzz_sync_many(void);
void fuzz_syncs_that_wait(void);
void fuzz_host_copy(void);
void fuzz_advice(void);
void fuzz_host_copy_drop(void);
/* contexts.c */
void fuzz_context(void);
void fuzz_end_context(void);
void fuzz_shutdown(void);
/* snapshots.c */
void fuzz_snapshot(void);
void fuzz_snapshot_file(void);
/* groups.c */
void fuzz_groups(void);
/* forms.c */
void fuzz_forms(void);
/* journal.c */
void fuzz_journal(void);
/* tickets.c */
void fuzz_ticket(void);
/* devices.c */
void fuzz_device(void);
/* library.c */
void fuzz_library(void);
void fuzz_options_text(void);

#endif /* MMSB_TESTS_FUZZ_H */
