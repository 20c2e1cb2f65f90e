/*
 * fuzz_test [calls [seed]]: random calls of every public function, good and bad, against a reference model: the status and the
 * effect of each must be the model's. Prints the seed, and the share of calls that succeeded, which must be at least 30 %.
 *
 * The model is arrays: pages with bytes, mask, epoch, metadata; edges; deltas and memory that the library handed out. A call gets
 * at most one thing wrong, so that its code is certain. A page that a call touched is compared whole afterwards; from time to
 * time everything is.
 */
#include "library.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>

enum {
    CONTEXTS = 3,
    PAGES = 40,
    LARGEST = 1500,
    KEYS = 6,
    LONGEST_VALUE = 40,
    EDGES = 60,
    DELTAS = 5,
    MEMORIES = 3,
    TICKETS = 4,
    STALE = 64,
    TRACE = 16
};
#define LIMIT_OF_FIRST_CONTEXT (64ULL << 20)

typedef struct entry {
    int key; /* index into keys */
    uint8_t value[LONGEST_VALUE];
    size_t length;
} entry_t;

typedef struct page {
    mmsb_page_t handle; /* 0 = this place is free */
    int context;
    uint64_t id;
    uint64_t size;
    uint64_t epoch;
    uint64_t version;
    int location;
    uint32_t pins[2]; /* READ, WRITE */
    int read_only;
    int raw;          /* it may have bytes that no call gave it since the last snapshot */
    uint8_t *adopted; /* memory of ours */
    uint8_t bytes[LARGEST];
    uint8_t mask[LARGEST]; /* one byte per bit */
    entry_t entries[KEYS];
    int entry_count;
} page_t;

typedef struct context {
    mmsb_context_t handle; /* 0 = free */
    uint64_t allocations;
    uint64_t frees;
    int journalled; /* it has a journal, whose records follow a snapshot */
} context_t;

typedef struct edge {
    page_t *parent;
    page_t *child;
} edge_t;

typedef struct memory {
    uint8_t *address;
    uint64_t size;
    uint8_t bytes[LARGEST];
} memory_t;

static context_t contexts[CONTEXTS];
static page_t pages[PAGES];
static edge_t edges[EDGES]; /* oldest first */
static int edge_count;
static mmsb_delta_t *deltas[DELTAS];
static memory_t memories[MEMORIES];
static mmsb_ticket_t tickets[TICKETS];
static uint64_t stale[3][STALE]; /* handles of each kind that ended: pages, contexts, tickets */
static int stale_count[3];
static int releases; /* of adopted memory */
static uint64_t next_id = 1;
static const char *const keys[KEYS] = {"a", "name", "a longer key of more bytes", "\xC3\xA4", "k\x01", "kind"};

static uint64_t seed;
static uint64_t first_seed;
static uint64_t calls;
static uint64_t succeeded;
static struct {
    const char *text;
    mmsb_status_t status;
} trace[TRACE];

static uint64_t below(uint64_t bound) {
    return random_below(&seed, bound);
}

static int chance(uint64_t percent) {
    return below(100) < percent;
}

__attribute__((noreturn)) static void fail(int line, const char *what, uint64_t actual, uint64_t expected) {
    printf("%s:%d: call %llu of seed %llu: %s is %lld (0x%llx), the model says %lld (0x%llx); last error: %s\n", __FILE__, line,
           (unsigned long long)calls, (unsigned long long)first_seed, what, (long long)actual, (unsigned long long)actual,
           (long long)expected, (unsigned long long)expected, mmsb_last_error());
    for (uint64_t i = calls < TRACE ? 0 : calls - TRACE; i < calls; i++) {
        printf("  call %llu: %s answered %d\n", (unsigned long long)i + 1, trace[i % TRACE].text, (int)trace[i % TRACE].status);
    }
    printf("0 passed, 1 failed\n");
    exit(1);
}

#define SAME(actual, expected) same(__LINE__, #actual, (uint64_t)(actual), (uint64_t)(expected))

static void same(int line, const char *what, uint64_t actual, uint64_t expected) {
    if (actual != expected) {
        fail(line, what, actual, expected);
    }
}

/* A call that is part of the fuzz: counted, and its status compared. */
#define CALL(call, expected) called(__LINE__, #call, (call), (expected), (expected))
#define CALL_EITHER(call, expected, other) called(__LINE__, #call, (call), (expected), (other))

static mmsb_status_t called(int line, const char *text, mmsb_status_t status, mmsb_status_t expected, mmsb_status_t other) {
    trace[calls % TRACE].text = text;
    trace[calls % TRACE].status = status;
    calls++;
    succeeded += status == MMSB_OK;
    if (status != expected && status != other) {
        fail(line, text, (uint64_t)(int64_t)status, (uint64_t)(int64_t)expected);
    }
    if (status != MMSB_OK) {
        same(line, "mmsb_last_error_code()", (uint64_t)mmsb_last_error_code(), (uint64_t)status);
        same(line, "lines of mmsb_last_error()", mmsb_last_error()[0] != 0 && strchr(mmsb_last_error(), '\n') == NULL, 1);
    }
    return status;
}

/* --------------------------------------------------------------------------------------------------- handles ---- */

typedef struct pick {
    uint64_t handle;
    page_t *page; /* NULL for a bad handle */
    mmsb_status_t code;
} pick_t;

static void remember_stale(int kind, uint64_t handle) {
    stale[kind - 1][stale_count[kind - 1]++ % STALE] = handle;
}

static uint64_t live_handle_of_another_kind(int kind) {
    if (kind != MMSB_KIND_CONTEXT) {
        return contexts[0].handle;
    }
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0) {
            return pages[i].handle;
        }
    }
    return 0;
}

static pick_t bad_handle(int kind) {
    int known = stale_count[kind - 1] < STALE ? stale_count[kind - 1] : STALE;
    switch (below(5)) {
    case 0:
        return (pick_t){0, NULL, MMSB_E_INVALID_HANDLE};
    case 1:
        return (pick_t){live_handle_of_another_kind(kind), NULL, MMSB_E_INVALID_HANDLE};
    case 2: /* never given out: of no kind, or of a generation far ahead */
        return (pick_t){chance(50) ? random_next(&seed) >> 4 : (uint64_t)kind << 60 | 1ULL << 59 | below(1000), NULL,
                        MMSB_E_INVALID_HANDLE};
    default:
        if (known == 0) {
            return (pick_t){0, NULL, MMSB_E_INVALID_HANDLE};
        }
        return (pick_t){stale[kind - 1][below((uint64_t)known)], NULL, MMSB_E_STALE_HANDLE};
    }
}

static page_t *any_page(void) {
    uint64_t start = below(PAGES);
    for (uint64_t i = 0; i < PAGES; i++) {
        page_t *page = &pages[(start + i) % PAGES];
        if (page->handle != 0) {
            return page;
        }
    }
    return NULL;
}

static page_t *free_place(void) {
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle == 0) {
            return &pages[i];
        }
    }
    return NULL;
}

static pick_t pick_page(uint64_t percent_bad) {
    page_t *page = any_page();
    if (page == NULL || chance(percent_bad)) {
        return bad_handle(MMSB_KIND_PAGE);
    }
    return (pick_t){page->handle, page, MMSB_OK};
}

static int any_context(void) {
    int context;
    do {
        context = (int)below(CONTEXTS);
    } while (contexts[context].handle == 0);
    return context;
}

static int pinned(const page_t *page) {
    return page->pins[0] + page->pins[1] > 0;
}

/* Whether a batch's pages are of several contexts, one of which has a journal: no batch is in two journals. */
static int mixes_journals(page_t *const *chosen, size_t count) {
    int first = -1, several = 0, journalled = 0;
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            several |= first >= 0 && first != chosen[i]->context;
            journalled |= contexts[chosen[i]->context].journalled;
            first = chosen[i]->context;
        }
    }
    return several && journalled;
}

/* A call that such a batch is refused by, unless something else of it is wrong as well. */
#define CALL_MIXED(call, code) CALL_EITHER(call, MMSB_E_UNSUPPORTED, (code) == MMSB_OK ? MMSB_E_UNSUPPORTED : (code))

/* ------------------------------------------------------------------------------------------------- comparison ---- */

enum moved { STAYS, MOVES, MAY_MOVE };

static void check_version(page_t *page, enum moved moved) {
    uint64_t version = mmsb_page_version(page->handle);
    if (moved == STAYS) {
        SAME(version, page->version);
    } else {
        SAME(version > page->version || (moved == MAY_MOVE && version == page->version), 1);
    }
    page->version = version;
}

static void check_page(page_t *page) {
    static uint8_t bytes[LARGEST];
    static uint8_t bits[LARGEST / 8 + 1];
    SAME(mmsb_page_read(page->handle, 0, bytes, page->size), MMSB_OK);
    SAME(memcmp(bytes, page->bytes, page->size), 0);
    SAME(mmsb_page_mask_read(page->handle, 0, bits, page->size), MMSB_OK);
    for (uint64_t i = 0; i < page->size; i++) {
        if ((bits[i / 8] >> i % 8 & 1) != page->mask[i]) {
            fail(__LINE__, "a bit of the mask", bits[i / 8] >> i % 8 & 1, page->mask[i]);
        }
    }
    mmsb_page_info_t info;
    mmsb_page_info_init(&info);
    SAME(mmsb_page_info(page->handle, &info), MMSB_OK);
    SAME(info.page, page->handle);
    SAME(info.context, contexts[page->context].handle);
    SAME(info.id, page->id);
    SAME(info.size, page->size);
    SAME(info.epoch, page->epoch);
    SAME(info.version, page->version);
    SAME(info.location, page->location);
    SAME(info.read_pins, page->pins[0]);
    SAME(info.write_pins, page->pins[1]);
    SAME(info.adopted, page->adopted != NULL);
    SAME(info.read_only, page->read_only);
    SAME(info.metadata_count, page->entry_count);
    SAME(mmsb_page_size(page->handle), page->size);
    SAME(mmsb_page_epoch(page->handle), page->epoch);
}

static size_t write_blob(const page_t *page, uint8_t *blob, int keys_only);

static void check_metadata(const page_t *page) {
    uint8_t expected[1024];
    uint8_t blob[1024];
    size_t length = 0;
    size_t expected_length = write_blob(page, expected, 0);
    SAME(mmsb_page_metadata_export(page->handle, blob, sizeof blob, &length), MMSB_OK);
    SAME(length, expected_length);
    SAME(memcmp(blob, expected, length), 0);
}

static void check_edges(const page_t *page) {
    for (int parents = 0; parents < 2; parents++) {
        mmsb_page_t expected[EDGES];
        mmsb_page_t list[EDGES];
        size_t expected_count = 0;
        size_t count = 0;
        for (int i = 0; i < edge_count; i++) {
            if ((parents ? edges[i].child : edges[i].parent) == page) {
                expected[expected_count++] = parents ? edges[i].parent->handle : edges[i].child->handle;
            }
        }
        SAME((parents ? mmsb_page_parents : mmsb_page_children)(page->handle, list, EDGES, &count), MMSB_OK);
        SAME(count, expected_count);
        SAME(memcmp(list, expected, count * sizeof *list), 0);
    }
}

static void check_context(int index) {
    context_t *context = &contexts[index];
    mmsb_context_stats_t expected;
    memset(&expected, 0, sizeof expected);
    uint64_t cursor = 0;
    for (int i = 0; i < PAGES; i++) {
        const page_t *page = &pages[i];
        if (page->handle != 0 && page->context == index) {
            expected.pages++;
            expected.bytes += page->size;
            expected.pinned_pages += (uint64_t)pinned(page);
            expected.location_pages[page->location]++;
            expected.location_bytes[page->location] += page->size;
            mmsb_page_t found = 0;
            SAME(mmsb_page_lookup(context->handle, page->id, &found), MMSB_OK);
            SAME(found, page->handle);
        }
    }
    mmsb_context_stats_t stats = context_stats(context->handle);
    SAME(stats.pages, expected.pages);
    SAME(stats.bytes, expected.bytes);
    /* A call that makes many pages may take some of them back and begin again. */
    SAME(stats.allocations >= context->allocations && stats.allocations - stats.frees == expected.pages, 1);
    SAME(stats.pinned_pages, expected.pinned_pages);
    SAME(stats.memory_limit, index == 0 ? LIMIT_OF_FIRST_CONTEXT : 0);
    SAME(memcmp(stats.location_pages, expected.location_pages, sizeof expected.location_pages), 0);
    SAME(memcmp(stats.location_bytes, expected.location_bytes, sizeof expected.location_bytes), 0);
    uint64_t listed = 0;
    size_t count = 1;
    while (count > 0) {
        mmsb_page_t list[7];
        SAME(mmsb_context_pages(context->handle, &cursor, list, 7, &count), MMSB_OK);
        for (size_t i = 0; i < count; i++) {
            int known = 0;
            for (int k = 0; k < PAGES; k++) {
                known |= pages[k].handle == list[i] && pages[k].context == index;
            }
            SAME(known, 1);
        }
        listed += count;
    }
    SAME(listed, expected.pages);
}

static void check_everything(void) {
    uint64_t live[MMSB_KIND_SNAPSHOT + 1] = {0};
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0) {
            check_page(&pages[i]);
            check_metadata(&pages[i]);
            check_edges(&pages[i]);
            live[MMSB_KIND_PAGE]++;
        }
    }
    for (int i = 0; i < CONTEXTS; i++) {
        if (contexts[i].handle != 0) {
            check_context(i);
            live[MMSB_KIND_CONTEXT]++;
        }
    }
    for (int i = 0; i < TICKETS; i++) {
        live[MMSB_KIND_TICKET] += tickets[i] != 0;
    }
    for (int i = 0; i < DELTAS; i++) {
        live[MMSB_KIND_DELTA] += deltas[i] != NULL;
    }
    for (int i = 0; i < MEMORIES; i++) {
        live[MMSB_KIND_MEMORY] += memories[i].address != NULL;
        SAME(memories[i].address == NULL || memcmp(memories[i].address, memories[i].bytes, memories[i].size) == 0, 1);
    }
    for (int32_t kind = MMSB_KIND_PAGE; kind <= MMSB_KIND_SNAPSHOT; kind++) {
        SAME(check_live(kind), live[kind]);
    }
}

/* ----------------------------------------------------------------------------------------------- making pages ---- */

static uint64_t any_size(void) {
    static const uint64_t usual[] = {1, 64, 100, 256, 1000};
    return chance(60) ? usual[below(5)] : 1 + below(LARGEST);
}

/* A page that has just been made enters the model; what is not known of it yet comes from its info. */
static page_t *enter(page_t *page, mmsb_page_t handle, int context, uint64_t size, int location) {
    mmsb_page_info_t info = page_info(handle);
    memset(page, 0, sizeof *page);
    page->handle = handle;
    page->context = context;
    page->id = info.id;
    page->size = size;
    page->version = info.version;
    page->location = location;
    contexts[context].allocations++;
    SAME(info.version != 0 && info.id != 0, 1);
    return page;
}

static void leave(page_t *page) {
    int kept = 0;
    for (int i = 0; i < edge_count; i++) {
        if (edges[i].parent != page && edges[i].child != page) {
            edges[kept++] = edges[i];
        }
    }
    edge_count = kept;
    contexts[page->context].frees++;
    remember_stale(MMSB_KIND_PAGE, page->handle);
    page->handle = 0;
}

static void release_adopted(void *user, void *memory, uint64_t size) {
    page_t *page = user;
    SAME(memory, (uintptr_t)page->adopted);
    SAME(size, page->size);
    releases++;
}

/* After a call that must have given the memory of an adopted page back. */
static void check_released(page_t *page, int before) {
    SAME(releases, before + (page->adopted != NULL));
    free(page->adopted);
    page->adopted = NULL;
    page->read_only = 0;
}

static int id_is_used(int context, uint64_t id) {
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == context && pages[i].id == id) {
            return 1;
        }
    }
    return 0;
}

/* The one device of each context is simulated: 0. */
static const int device_locations[] = {MMSB_LOCATION_GPU, MMSB_LOCATION_UNIFIED, MMSB_LOCATION_PINNED};

static int any_location(void) {
    return chance(8) ? MMSB_LOCATION_DISK : chance(15) ? device_locations[below(3)] : MMSB_LOCATION_CPU;
}

static int32_t no_device(void) {
    return 1 + (int32_t)below(100);
}

static mmsb_page_options_t any_options(int *location, int *fault, mmsb_status_t *code) {
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    *location = any_location();
    options.location = *location == MMSB_LOCATION_CPU && chance(50) ? MMSB_LOCATION_DEFAULT : *location;
    options.contents = chance(20) ? MMSB_PAGE_UNINITIALISED : MMSB_PAGE_ZEROED;
    *code = MMSB_OK;
    *fault = chance(15);
    if (*fault) {
        switch (below(6)) {
        case 0:
            options.location = (int32_t)(5 + below(1000));
            *code = MMSB_E_INVALID_ARGUMENT;
            break;
        case 1:
            options.location = device_locations[below(3)];
            options.device = no_device();
            *code = MMSB_E_NO_DEVICE;
            break;
        case 2:
            options.struct_size += 1 + (uint32_t)below(100);
            *code = MMSB_E_STRUCT_VERSION;
            break;
        case 3:
            options.reserved[below(4)] = 1 + below(100);
            *code = MMSB_E_STRUCT_VERSION;
            break;
        case 4:
            options.reserved_word = 1;
            *code = MMSB_E_STRUCT_VERSION;
            break;
        default:
            options.contents = 2 + (uint32_t)below(100);
            *code = MMSB_E_INVALID_ARGUMENT;
        }
    }
    return options;
}

static void take_uninitialised_bytes(page_t *page, const mmsb_page_options_t *options) {
    if (options->contents == MMSB_PAGE_UNINITIALISED) {
        SAME(mmsb_page_read(page->handle, 0, page->bytes, page->size), MMSB_OK);
        page->raw = 1;
    }
}

static void fuzz_create(void) {
    page_t *place = free_place();
    int context = any_context();
    int location;
    int fault;
    mmsb_status_t code;
    mmsb_page_options_t options = any_options(&location, &fault, &code);
    uint64_t size = any_size();
    uint64_t handle = contexts[context].handle;
    mmsb_page_t page = 42;
    int without_out = 0;
    if (!fault && chance(10)) {
        fault = 1;
        switch (below(4)) {
        case 0:
            size = below(2) == 0 ? 0 : 1ULL << 63;
            code = MMSB_E_INVALID_SIZE;
            break;
        case 1: {
            pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
            handle = bad.handle;
            code = bad.code;
            break;
        }
        case 2:
            without_out = 1;
            code = MMSB_E_INVALID_ARGUMENT;
            break;
        default:
            if (context != 0 || location != MMSB_LOCATION_CPU) {
                return;
            }
            size = 1 << 30;
            code = MMSB_E_LIMIT;
        }
    }
    if (chance(30)) {
        page_t *other = any_page();
        options.id = chance(30) && other != NULL ? other->id : next_id++;
        if (code == MMSB_OK && id_is_used(context, options.id)) {
            code = MMSB_E_ALREADY_EXISTS;
        } else if (code != MMSB_OK) {
            options.id = 0; /* one thing wrong is enough */
        }
    }
    if (code == MMSB_OK && place == NULL) {
        return;
    }
    void *address = NULL;
    int with_address = chance(30);
    if (with_address) {
        CALL(mmsb_page_create_with_address(handle, size, &options, without_out ? NULL : &page, &address), code);
    } else {
        CALL(mmsb_page_create(handle, size, &options, without_out ? NULL : &page), code);
    }
    if (code == MMSB_OK) {
        SAME(address != NULL, with_address && location != MMSB_LOCATION_DISK);
        place = enter(place, page, context, size, location);
        SAME(options.id == 0 || place->id == options.id, 1);
        take_uninitialised_bytes(place, &options);
        check_page(place);
    } else {
        SAME(page, 42);
    }
}

static void fuzz_create_many(void) {
    int context = any_context();
    int location;
    int fault;
    mmsb_status_t code;
    mmsb_page_options_t options = any_options(&location, &fault, &code);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    uint64_t size = any_size();
    uint64_t handle = contexts[context].handle;
    size_t count = below(5);
    if (count == 0 && fault) {
        count = 1;
    }
    if (!fault && chance(20)) {
        count = 1 + below(3);
        switch (below(4)) {
        case 0:
            options.id = next_id++;
            code = MMSB_E_INVALID_ARGUMENT;
            break;
        case 1:
            work.reserved[below(4)] = 1;
            code = MMSB_E_STRUCT_VERSION;
            break;
        case 2:
            size = 0;
            code = MMSB_E_INVALID_SIZE;
            break;
        default: {
            pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
            handle = bad.handle;
            code = bad.code;
        }
        }
    }
    int room = 0;
    for (int i = 0; i < PAGES; i++) {
        room += pages[i].handle == 0;
    }
    if (code == MMSB_OK && room < (int)count) {
        return;
    }
    mmsb_page_t made[5];
    int place = -1;
    for (int i = 0; i < TICKETS; i++) {
        place = tickets[i] == 0 ? i : place;
    }
    if (place >= 0 && chance(40)) {
        mmsb_ticket_t after[2] = {tickets[below(TICKETS)], tickets[below(TICKETS)]};
        if (after[0] != 0 && after[1] != 0) {
            work.after = after;
            work.after_count = 1 + below(2);
        }
        mmsb_ticket_t ticket = 42;
        if (CALL(mmsb_page_create_many_start(handle, size, count, &options, &work, made, &ticket), code) == MMSB_OK) {
            CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
            tickets[place] = ticket;
        } else {
            SAME(ticket, 42);
        }
    } else {
        CALL(mmsb_page_create_many(
                 handle, size, count, &options,
                 chance(50) || work.reserved[0] + work.reserved[1] + work.reserved[2] + work.reserved[3] > 0 ? &work : NULL,
                 made),
             code);
    }
    for (size_t i = 0; code == MMSB_OK && i < count; i++) {
        page_t *page = enter(free_place(), made[i], context, size, location);
        take_uninitialised_bytes(page, &options);
        check_page(page);
    }
}

static void fuzz_clone(void) {
    pick_t source = pick_page(15);
    page_t *place = free_place();
    mmsb_page_t clone = 42;
    uint64_t id = chance(60) ? 0 : next_id++;
    mmsb_status_t code = source.code;
    int without_out = 0;
    if (code == MMSB_OK && chance(15)) {
        if (chance(50)) {
            id = source.page->id;
            code = MMSB_E_ALREADY_EXISTS;
        } else {
            without_out = 1;
            code = MMSB_E_INVALID_ARGUMENT;
        }
    }
    if (code == MMSB_OK && (place == NULL || id_is_used(source.page->context, id))) {
        return;
    }
    CALL(mmsb_page_clone(source.handle, id, without_out ? NULL : &clone), code);
    if (code != MMSB_OK) {
        SAME(clone, 42);
        return;
    }
    const page_t *from = source.page;
    enter(place, clone, from->context, from->size, from->location);
    SAME(id == 0 || place->id == id, 1);
    place->epoch = from->epoch;
    place->raw = from->raw;
    memcpy(place->bytes, from->bytes, sizeof place->bytes);
    memcpy(place->mask, from->mask, sizeof place->mask);
    memcpy(place->entries, from->entries, sizeof place->entries);
    place->entry_count = from->entry_count;
    check_page(place);
    check_metadata(place);
    check_edges(place);
}

static void fuzz_adopt(void) {
    page_t *place = free_place();
    if (place == NULL) {
        return;
    }
    int context = any_context();
    uint64_t size = any_size();
    uint64_t handle = contexts[context].handle;
    uint8_t *memory = malloc(size);
    for (uint64_t i = 0; i < size; i++) {
        memory[i] = (uint8_t)random_next(&seed);
    }
    mmsb_adopt_options_t options;
    mmsb_adopt_options_init(&options);
    options.release = release_adopted;
    options.user = place;
    options.read_only = chance(30);
    options.id = chance(30) ? next_id++ : 0;
    mmsb_status_t code = options.id != 0 && id_is_used(context, options.id) ? MMSB_E_ALREADY_EXISTS : MMSB_OK;
    void *given = memory;
    uint64_t given_size = size;
    if (code == MMSB_OK && chance(25)) {
        switch (below(6)) {
        case 0:
            given = NULL;
            code = MMSB_E_INVALID_ARGUMENT;
            break;
        case 1:
            given_size = chance(50) ? 0 : SIZE_MAX;
            code = MMSB_E_INVALID_SIZE;
            break;
        case 2:
            options.reserved[below(4)] = 1;
            code = MMSB_E_STRUCT_VERSION;
            break;
        case 3:
            options.location = device_locations[below(3)];
            options.device = chance(50) ? 0 : no_device();
            code = options.device == 0 ? MMSB_E_INVALID_ARGUMENT : MMSB_E_NO_DEVICE;
            break;
        case 4:
            options.read_only = 2 + (int32_t)below(9);
            code = MMSB_E_INVALID_ARGUMENT;
            break;
        default: {
            pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
            handle = bad.handle;
            code = bad.code;
        }
        }
    }
    mmsb_page_t page = 42;
    int before = releases;
    CALL(mmsb_page_adopt(handle, given, given_size, &options, &page), code);
    SAME(releases, before);
    if (code != MMSB_OK) {
        SAME(page, 42);
        free(memory);
        return;
    }
    enter(place, page, context, size, MMSB_LOCATION_CPU);
    place->adopted = memory;
    place->read_only = options.read_only;
    memcpy(place->bytes, memory, size);
    check_page(place);
}

static void fuzz_destroy(void) {
    pick_t target = pick_page(30);
    mmsb_status_t code = target.handle == 0 ? MMSB_OK : target.code;
    int before = releases;
    if (target.page != NULL && pinned(target.page)) {
        code = MMSB_E_BUSY;
    }
    CALL(mmsb_page_destroy(target.handle), code);
    if (target.page != NULL && code == MMSB_OK) {
        check_released(target.page, before);
        leave(target.page);
    }
}

static void fuzz_destroy_many(void) {
    mmsb_page_t list[4];
    page_t *chosen[4] = {NULL};
    size_t count = below(5);
    mmsb_status_t code = MMSB_OK;
    size_t bad = 99;
    size_t expected_bad = 99;
    int adopted = 0;
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(4);
        list[i] = target.handle;
        chosen[i] = target.page;
        mmsb_status_t own = target.handle == 0 ? MMSB_OK : target.code;
        if (target.page != NULL) {
            for (size_t k = 0; k < i; k++) {
                own = chosen[k] == target.page ? MMSB_E_STALE_HANDLE : own;
            }
            if (own == MMSB_OK && pinned(target.page)) {
                own = MMSB_E_BUSY;
            }
            adopted += target.page->adopted != NULL;
        }
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    if (mixes_journals(chosen, count)) {
        CALL_MIXED(mmsb_page_destroy_many(list, count, &bad), code);
        return;
    }
    int before = releases;
    CALL(mmsb_page_destroy_many(list, count, &bad), code);
    if (code != MMSB_OK) {
        SAME(bad, expected_bad);
        SAME(releases, before);
        return;
    }
    SAME(releases, before + adopted);
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            free(chosen[i]->adopted);
            chosen[i]->adopted = NULL;
            leave(chosen[i]);
        }
    }
}

static void fuzz_release(void) {
    pick_t target = pick_page(20);
    page_t *page = target.page;
    memory_t *place = NULL;
    for (int i = 0; i < MEMORIES; i++) {
        place = memories[i].address == NULL ? &memories[i] : place;
    }
    if (place == NULL) {
        return;
    }
    mmsb_status_t code = target.code;
    if (page != NULL) {
        mmsb_status_t state = page->adopted != NULL                 ? MMSB_E_INVALID_STATE
                              : page->location != MMSB_LOCATION_CPU ? MMSB_E_UNSUPPORTED
                                                                    : MMSB_OK;
        if (pinned(page) && state != MMSB_OK) {
            return; /* two things wrong */
        }
        code = pinned(page) ? MMSB_E_BUSY : state;
    }
    void *memory = NULL;
    uint64_t size = 42;
    if (code == MMSB_OK && chance(15)) {
        CALL(mmsb_page_release(target.handle, NULL, &size), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_release(target.handle, &memory, &size), code);
    if (code != MMSB_OK) {
        SAME(memory == NULL && size == 42, 1);
        return;
    }
    SAME(size, page->size);
    SAME(memcmp(memory, page->bytes, size), 0);
    place->address = memory;
    place->size = size;
    memcpy(place->bytes, page->bytes, size);
    leave(page);
}

static void fuzz_memory_free(void) {
    memory_t *memory = &memories[below(MEMORIES)];
    if (chance(30)) {
        void *bad = chance(30) ? NULL : memory->address != NULL && chance(50) ? memory->address + 1 : (void *)&seed;
        CALL(mmsb_memory_free(bad), bad == NULL ? MMSB_OK : MMSB_E_STALE_HANDLE);
    } else if (memory->address != NULL) {
        SAME(memcmp(memory->address, memory->bytes, memory->size), 0);
        CALL(mmsb_memory_free(memory->address), MMSB_OK);
        CALL(mmsb_memory_free(memory->address), MMSB_E_STALE_HANDLE);
        memory->address = NULL;
    }
}

/* --------------------------------------------------------------------------------------------- looking at pages ---- */

static void fuzz_lookup(void) {
    int context = any_context();
    page_t *page = any_page();
    if (page == NULL) {
        return;
    }
    uint64_t id = chance(70) ? page->id : next_id + 1000000;
    page_t *there = NULL;
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == context && pages[i].id == id) {
            there = &pages[i];
        }
    }
    mmsb_page_t found = 42;
    if (chance(15)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_page_lookup(bad.handle, id, &found), bad.code);
        SAME(found, 42);
        CALL(mmsb_page_lookup(contexts[context].handle, id, NULL), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_lookup(contexts[context].handle, id, &found), there != NULL ? MMSB_OK : MMSB_E_NOT_FOUND);
    SAME(found, there != NULL ? there->handle : 42);
    const uint64_t ids[2] = {page->id, id};
    mmsb_page_t both[2] = {42, 42};
    size_t bad = 99;
    int first_there = page->context == context;
    mmsb_status_t code = first_there && there != NULL ? MMSB_OK : MMSB_E_NOT_FOUND;
    if (!first_there && id_is_used(context, page->id)) {
        return; /* the same id in two contexts */
    }
    CALL(mmsb_page_lookup_many(contexts[context].handle, ids, 2, both, &bad), code);
    if (code == MMSB_OK) {
        SAME(both[0], page->handle);
        SAME(both[1], there->handle);
    } else {
        SAME(bad, first_there ? 1 : 0);
        SAME(both[0] == 42 && both[1] == 42, 1);
    }
}

static void fuzz_info(void) {
    pick_t target = pick_page(20);
    mmsb_page_info_t infos[2];
    mmsb_page_info_init(&infos[0]);
    mmsb_page_info_init(&infos[1]);
    mmsb_status_t code = target.code;
    if (code == MMSB_OK && chance(20)) {
        switch (below(3)) {
        case 0:
            CALL(mmsb_page_info(target.handle, NULL), MMSB_E_INVALID_ARGUMENT);
            return;
        case 1:
            infos[0].struct_size = (uint32_t)below(sizeof infos[0]);
            break;
        default:
            infos[0].reserved[below(4)] = 1;
        }
        code = MMSB_E_STRUCT_VERSION;
    }
    CALL(mmsb_page_info(target.handle, &infos[0]), code);
    if (code == MMSB_OK) {
        SAME(infos[0].version, target.page->version);
        SAME(infos[0].size, target.page->size);
    }
    mmsb_page_info_init(&infos[0]);
    pick_t second = pick_page(20);
    const mmsb_page_t two[2] = {target.handle, second.handle};
    size_t bad = 99;
    code = target.code != MMSB_OK ? target.code : second.code;
    CALL(mmsb_page_info_many(two, 2, infos, &bad), code);
    if (code == MMSB_OK) {
        SAME(infos[1].id, second.page->id);
    } else {
        SAME(bad, target.code != MMSB_OK ? 0 : 1);
    }
}

static void fuzz_getters(void) {
    pick_t target = pick_page(20);
    page_t *page = target.page;
    uint8_t *address = mmsb_page_address(target.handle);
    void *unused = NULL;
    size_t bad = 99;
    if (page == NULL) {
        SAME(address == NULL, 1);
        SAME(mmsb_last_error_code(), target.code);
        CALL(mmsb_page_address_many(&target.handle, 1, &unused, &bad), target.code);
        SAME(bad, 0);
        SAME(mmsb_page_size(target.handle) + mmsb_page_epoch(target.handle) + mmsb_page_version(target.handle), 0);
        return;
    }
    int away = page->location == MMSB_LOCATION_DISK && !pinned(page);
    CALL(mmsb_page_address_many(&target.handle, 1, &unused, &bad), away ? MMSB_E_INVALID_STATE : MMSB_OK);
    if (away) {
        SAME(address == NULL, 1);
        return;
    }
    SAME(address == unused, 1);
    SAME(address != NULL, 1);
    SAME(page->adopted == NULL || page->adopted == address, 1);
    SAME(page->location == MMSB_LOCATION_GPU || memcmp(address, page->bytes, page->size) == 0, 1);
    if (page->location != MMSB_LOCATION_DISK && page->adopted == NULL) {
        SAME((uintptr_t)address % (page->size >= 256 ? 256 : 64), 0);
        if (page->location != MMSB_LOCATION_GPU && chance(50)) { /* written through the address: nobody is told */
            uint64_t offset = below(page->size);
            page->bytes[offset] = address[offset] = (uint8_t)random_next(&seed);
            page->raw = 1;
        }
    }
    check_page(page);
}

/* ------------------------------------------------------------------------------------------------- pins and bytes ---- */

static void fuzz_pin(void) {
    pick_t target = pick_page(15);
    page_t *page = target.page;
    int mode = chance(50) ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    void *address = NULL;
    mmsb_status_t code = target.code;
    if (page != NULL) {
        if (chance(10)) {
            int32_t unknown = chance(50) ? 0 : (int32_t)(3 + below(100));
            CALL(mmsb_page_pin(page->handle, unknown, &address), MMSB_E_INVALID_ARGUMENT);
            return;
        }
        if (page->pins[mode - 1] >= 3) {
            return;
        }
        code = page->read_only && mode == MMSB_PIN_WRITE ? MMSB_E_INVALID_STATE : MMSB_OK;
    }
    CALL(mmsb_page_pin(target.handle, mode, &address), code);
    if (code == MMSB_OK) {
        page->pins[mode - 1]++;
        if (page->location == MMSB_LOCATION_GPU) {
            SAME(address != NULL, 1);
        } else {
            SAME(memcmp(address, page->bytes, page->size), 0);
        }
        if (mode == MMSB_PIN_WRITE && page->location != MMSB_LOCATION_GPU) {
            uint64_t offset = below(page->size);
            page->bytes[offset] = ((uint8_t *)address)[offset] = (uint8_t)random_next(&seed);
            page->raw = 1;
        }
        check_version(page, STAYS);
        check_page(page);
    } else {
        SAME(address == NULL, 1);
    }
}

static void fuzz_unpin(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    int mode = chance(50) ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    for (int i = 0; page != NULL && i < 10 && page->pins[mode - 1] == 0; i++) { /* rather one that has such a pin */
        page = any_page();
        mode = 3 - mode;
        target.handle = page->handle;
    }
    mmsb_status_t code = page == NULL ? target.code : page->pins[mode - 1] == 0 ? MMSB_E_INVALID_STATE : MMSB_OK;
    if (page != NULL && chance(5)) {
        CALL(mmsb_page_unpin(page->handle, 3 + (int32_t)below(100)), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_unpin(target.handle, mode), code);
    if (code == MMSB_OK) {
        page->pins[mode - 1]--;
        page->raw |= mode == MMSB_PIN_WRITE;
        check_version(page, mode == MMSB_PIN_WRITE ? MOVES : STAYS);
        check_page(page);
    }
}

/* A range of the page, good or reaching past its end. */
static int any_range(const page_t *page, uint64_t *offset, uint64_t *length) {
    *offset = below(page->size + 1);
    *length = below(page->size - *offset + 1);
    if (chance(85)) {
        return 1;
    }
    switch (below(3)) {
    case 0:
        *length = page->size - *offset + 1 + below(100);
        break;
    case 1:
        *length = UINT64_MAX - below(100);
        *offset += 1;
        break;
    default:
        *offset = page->size + 1 + (chance(50) ? below(100) : 1ULL << 63);
        *length = below(20);
    }
    return 0;
}

static uint8_t buffer[2 * LARGEST];

static void fill_buffer(uint64_t length) {
    for (uint64_t i = 0; i < length; i++) {
        buffer[i] = (uint8_t)random_next(&seed);
    }
}

static void fuzz_read(void) {
    pick_t target = pick_page(10);
    if (target.page == NULL) {
        CALL(mmsb_page_read(target.handle, 0, buffer, 1), target.code);
        return;
    }
    uint64_t offset;
    uint64_t length;
    int good = any_range(target.page, &offset, &length);
    if (good && length > 0 && chance(5)) {
        CALL(mmsb_page_read(target.handle, offset, NULL, length), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    fill_buffer(16);
    CALL(mmsb_page_read(target.handle, offset, buffer, length), good ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
    SAME(good && memcmp(buffer, target.page->bytes + offset, length) != 0, 0);
    check_version(target.page, STAYS);
}

static void fuzz_write(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    if (page == NULL) {
        CALL(mmsb_page_write(target.handle, 0, buffer, 1), target.code);
        return;
    }
    uint64_t offset;
    uint64_t length;
    int good = any_range(page, &offset, &length);
    if (page->read_only) {
        if (good && length > 0) {
            CALL(mmsb_page_write(page->handle, offset, buffer, length), MMSB_E_INVALID_STATE);
            check_page(page);
        }
        return;
    }
    if (good && length > 0 && chance(5)) {
        CALL(mmsb_page_write(page->handle, offset, NULL, length), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    fill_buffer(good ? length : 0);
    CALL(mmsb_page_write(page->handle, offset, buffer, length), good ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
    if (good) {
        memcpy(page->bytes + offset, buffer, length);
    }
    check_version(page, !good ? STAYS : length > 0 ? MOVES : MAY_MOVE);
    check_page(page);
}

static void fuzz_ranges_of_many(void) {
    enum { MOST = 4 };
    mmsb_page_range_t ranges[MOST];
    page_t *chosen[MOST] = {NULL};
    size_t count = below(MOST + 1);
    size_t expected_bad = 99;
    mmsb_status_t code = MMSB_OK;
    int writes = chance(50);
    fill_buffer(MOST * 100);
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(4);
        chosen[i] = target.page;
        ranges[i] = (mmsb_page_range_t){target.handle, 0, 1, buffer + 100 * i};
        mmsb_status_t own = target.code;
        if (target.page != NULL) {
            ranges[i].offset = below(target.page->size);
            uint64_t room = target.page->size - ranges[i].offset;
            ranges[i].length = 1 + below(room < 100 ? room : 100);
            if (writes && target.page->read_only) {
                own = MMSB_E_INVALID_STATE;
            } else if (chance(4)) {
                ranges[i].offset = target.page->size;
                own = MMSB_E_OUT_OF_RANGE;
            } else if (chance(2)) {
                ranges[i].buffer = NULL;
                own = MMSB_E_INVALID_ARGUMENT;
            }
        }
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    size_t bad = 99;
    if (writes && mixes_journals(chosen, count)) {
        CALL_MIXED(mmsb_page_write_many(ranges, count, &bad), code);
        return;
    }
    if (writes) {
        CALL(mmsb_page_write_many(ranges, count, &bad), code);
    } else {
        CALL(mmsb_page_read_many(ranges, count, &bad), code);
    }
    SAME(code != MMSB_OK && bad != expected_bad, 0);
    for (size_t i = 0; code == MMSB_OK && i < count; i++) {
        if (writes) {
            memcpy(chosen[i]->bytes + ranges[i].offset, ranges[i].buffer, ranges[i].length);
            check_version(chosen[i], MAY_MOVE); /* moved once, where the page is there twice */
        } else {
            SAME(memcmp(chosen[i]->bytes + ranges[i].offset, ranges[i].buffer, ranges[i].length), 0);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            check_page(chosen[i]);
        }
    }
}

static void fuzz_resize(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    uint64_t size = any_size();
    mmsb_status_t code = target.code;
    if (page != NULL) {
        if (pinned(page) && page->adopted != NULL) {
            return; /* two things wrong */
        }
        code = pinned(page) ? MMSB_E_BUSY : page->adopted != NULL ? MMSB_E_INVALID_STATE : MMSB_OK;
        if (code == MMSB_OK && chance(10)) {
            size = chance(50) ? 0 : SIZE_MAX - below(10000);
            code = MMSB_E_INVALID_SIZE;
        } else if (code == MMSB_OK && page->context == 0 && page->location == MMSB_LOCATION_CPU && chance(5)) {
            size = 1 << 30;
            code = MMSB_E_LIMIT;
        }
    }
    CALL(mmsb_page_resize(target.handle, size), code);
    if (page == NULL) {
        return;
    }
    enum moved moved = STAYS;
    if (code == MMSB_OK) {
        moved = size == page->size ? MAY_MOVE : MOVES;
        if (size > page->size) {
            memset(page->bytes + page->size, 0, size - page->size);
            memset(page->mask + page->size, 0, size - page->size);
        }
        page->size = size;
    }
    check_version(page, moved);
    check_page(page);
}

static void fuzz_migrate(void) {
    pick_t target = pick_page(15);
    page_t *page = target.page;
    int location = page == NULL || page->location != MMSB_LOCATION_CPU ? MMSB_LOCATION_CPU : MMSB_LOCATION_DISK;
    if (chance(40)) {
        location = chance(30) ? MMSB_LOCATION_CPU : device_locations[below(3)];
    }
    mmsb_status_t code = target.code;
    if (page != NULL && chance(15)) {
        if (pinned(page)) {
            return;
        }
        if (chance(50)) {
            CALL(mmsb_page_migrate(page->handle, device_locations[below(3)], no_device()), MMSB_E_NO_DEVICE);
        } else {
            CALL(mmsb_page_migrate(page->handle, 5 + (int32_t)below(1000), 0), MMSB_E_INVALID_ARGUMENT);
        }
        check_version(page, STAYS);
        return;
    }
    if (page != NULL && pinned(page)) {
        code = MMSB_E_BUSY;
    }
    int before = releases;
    int many = chance(30);
    mmsb_status_t own = 77;
    size_t bad = 99;
    mmsb_status_t status;
    mmsb_status_t other = page != NULL && page->location == location ? MMSB_OK : code; /* nothing to do, pinned or not */
    if (many) {
        status = CALL_EITHER(mmsb_page_migrate_many(&target.handle, 1, location, 0, &own, &bad), code, other);
        SAME(status != MMSB_OK && bad != 0, 0);
        SAME(status == MMSB_OK && own != MMSB_OK, 0);
    } else {
        status = CALL_EITHER(mmsb_page_migrate(target.handle, location, 0), code, other);
    }
    if (page == NULL) {
        return;
    }
    if (status == MMSB_OK && page->location != location) {
        check_released(page, before);
        page->location = location;
        check_version(page, MOVES);
    } else {
        SAME(releases, before);
        check_version(page, STAYS);
    }
    check_page(page);
}

/* --------------------------------------------------------------------------------------------------------- deltas ---- */

/* A delta and all that it points to. */
typedef struct made_delta {
    mmsb_delta_t delta;
    uint8_t mask[LARGEST];
    uint64_t offsets[100];
    uint32_t offsets32[100];
    mmsb_run_t runs[6];
    uint8_t payload[LARGEST];
} made_delta_t;

/* A good delta for a page of size bytes. */
static void make_delta(made_delta_t *made, uint64_t size) {
    mmsb_delta_t *delta = &made->delta;
    mmsb_delta_init(delta);
    delta->payload = made->payload;
    uint64_t payload = 0;
    delta->kind = (mmsb_delta_kind_t)(1 + below(5));
    switch (delta->kind) {
    case MMSB_DELTA_DENSE_BYTES:
        delta->mask = made->mask;
        payload = delta->mask_length = below(size + 1);
        for (uint64_t i = 0; i < payload; i++) {
            made->mask[i] = chance(30) ? (uint8_t)random_next(&seed) : 0;
        }
        break;
    case MMSB_DELTA_DENSE_BITS:
    case MMSB_DELTA_SPARSE_BITS:
        delta->mask = made->mask;
        payload = delta->mask_length = below(size + 1);
        memset(made->mask, 0, sizeof made->mask);
        for (uint64_t i = 0; i < delta->mask_length; i++) {
            made->mask[i / 8] |= (uint8_t)(chance(30) << i % 8);
        }
        if (delta->kind == MMSB_DELTA_SPARSE_BITS) {
            payload = 0;
            for (uint64_t i = 0; i < delta->mask_length; i++) {
                payload += made->mask[i / 8] >> i % 8 & 1;
            }
        }
        break;
    case MMSB_DELTA_INDEXED:
        payload = delta->count = below(100);
        for (uint64_t i = 0; i < delta->count; i++) {
            made->offsets[i] = below(size);
            made->offsets32[i] = (uint32_t)made->offsets[i];
        }
        if (chance(50)) {
            delta->offsets = made->offsets;
        } else {
            delta->offsets32 = made->offsets32;
        }
        break;
    default:
        delta->runs = made->runs;
        delta->count = below(7);
        for (uint64_t i = 0; i < delta->count; i++) {
            uint64_t offset = below(size + 1);
            uint64_t room = size - offset < LARGEST / 6 ? size - offset : LARGEST / 6;
            made->runs[i] = (mmsb_run_t){offset, below(room + 1)};
            payload += made->runs[i].length;
        }
    }
    for (uint64_t i = 0; i < payload; i++) {
        made->payload[i] = (uint8_t)random_next(&seed);
    }
    delta->payload_length = chance(50) ? payload : 0;
    delta->source = chance(20) ? "fuzz" : NULL;
    delta->intent = chance(20) ? "to find what breaks" : NULL;
    delta->id = below(5);
    delta->timestamp_ns = below(1000);
}

/* One thing wrong with it that has nothing to do with the page; its code. */
static mmsb_status_t spoil_delta(mmsb_delta_t *delta) {
    switch (below(6)) {
    case 0:
        delta->kind = chance(50) ? 0 : 6 + (mmsb_delta_kind_t)below(100);
        return MMSB_E_INVALID_ARGUMENT;
    case 1:
        delta->struct_size -= 1 + (uint32_t)below(8);
        return MMSB_E_STRUCT_VERSION;
    case 2:
        delta->reserved[below(4)] = random_next(&seed) | 1;
        return MMSB_E_STRUCT_VERSION;
    case 3:
        delta->source = "\xFF";
        return MMSB_E_INVALID_ARGUMENT;
    case 4:
        delta->intent = "a\x80";
        return MMSB_E_INVALID_ARGUMENT;
    default:
        delta->payload_length = 1000000;
        return MMSB_E_MISMATCH;
    }
}

/* How long a page must be for it. */
static uint64_t extent(const mmsb_delta_t *delta) {
    uint64_t longest = 0;
    if (delta->kind <= MMSB_DELTA_SPARSE_BITS) {
        return delta->mask_length;
    }
    for (uint64_t i = 0; i < delta->count; i++) {
        uint64_t end = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].offset + delta->runs[i].length
                       : delta->offsets != NULL       ? delta->offsets[i] + 1
                                                      : delta->offsets32[i] + 1ULL;
        longest = end > longest ? end : longest;
    }
    return longest;
}

/* The reference: what a good delta does. */
static void do_delta(const mmsb_delta_t *delta, uint8_t *bytes, uint8_t *mask) {
    const uint8_t *payload = delta->payload;
    const uint8_t *selects = delta->mask;
    if (delta->kind <= MMSB_DELTA_SPARSE_BITS) {
        for (uint64_t i = 0; i < delta->mask_length; i++) {
            if (delta->kind == MMSB_DELTA_DENSE_BYTES ? selects[i] != 0 : selects[i / 8] >> i % 8 & 1) {
                bytes[i] = delta->kind == MMSB_DELTA_SPARSE_BITS ? *payload++ : payload[i];
                mask[i] = 1;
            }
        }
        return;
    }
    for (uint64_t i = 0; i < delta->count; i++) {
        uint64_t offset = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].offset
                          : delta->offsets != NULL       ? delta->offsets[i]
                                                         : delta->offsets32[i];
        uint64_t length = delta->kind == MMSB_DELTA_RUNS ? delta->runs[i].length : 1;
        for (uint64_t k = 0; k < length; k++) {
            bytes[offset + k] = *payload++;
            mask[offset + k] = 1;
        }
    }
}

static void delta_was_applied(page_t *page, const mmsb_delta_t *delta) {
    do_delta(delta, page->bytes, page->mask);
    page->epoch = delta->epoch == 0 ? page->epoch + 1 : delta->epoch;
}

static void fuzz_apply(void) {
    static made_delta_t made;
    pick_t target = pick_page(10);
    page_t *page = target.page;
    mmsb_status_t code = target.code;
    make_delta(&made, page == NULL ? 64 : page->size);
    if (page != NULL) {
        made.delta.page_id = chance(30) ? page->id : 0;
        made.delta.epoch = chance(20) ? page->epoch + 1 + below(5) : 0;
        if (page->read_only) {
            code = MMSB_E_INVALID_STATE;
        } else if (chance(25)) {
            switch (below(4)) {
            case 0:
                code = spoil_delta(&made.delta);
                break;
            case 1:
                made.delta.page_id = page->id + 1;
                code = MMSB_E_MISMATCH;
                break;
            case 2:
                if (page->epoch == 0) {
                    return;
                }
                made.delta.epoch = 1 + below(page->epoch);
                code = MMSB_E_EPOCH;
                break;
            default:
                make_delta(&made, LARGEST);
                if (extent(&made.delta) <= page->size) {
                    return;
                }
                code = MMSB_E_OUT_OF_RANGE;
            }
        }
    }
    CALL(mmsb_page_apply(target.handle, &made.delta), code);
    if (code == MMSB_OK) {
        delta_was_applied(page, &made.delta);
        check_version(page, MOVES);
    }
    if (page != NULL) {
        check_page(page);
    }
}

static void fuzz_apply_many(void) {
    enum { MOST = 5 };
    static made_delta_t made[MOST];
    mmsb_delta_t list[MOST];
    mmsb_page_t handles[MOST];
    page_t *chosen[MOST] = {NULL};
    size_t count = below(MOST + 1);
    size_t expected_bad = 99;
    mmsb_status_t code = MMSB_OK;
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(3);
        mmsb_status_t own = target.code;
        handles[i] = target.handle;
        chosen[i] = target.page;
        make_delta(&made[i], target.page == NULL ? 64 : target.page->size);
        if (target.page != NULL) {
            if (target.page->read_only) {
                own = MMSB_E_INVALID_STATE;
            } else if (chance(4)) {
                own = spoil_delta(&made[i].delta);
            } else if (chance(3) && target.page->epoch > 0) {
                made[i].delta.epoch = 1;
                own = MMSB_E_EPOCH;
            } else if (chance(3)) {
                made[i].delta.page_id = target.page->id + 1;
                own = MMSB_E_MISMATCH;
            }
        }
        list[i] = made[i].delta;
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    size_t bad = 99;
    if (mixes_journals(chosen, count)) {
        CALL_MIXED(mmsb_page_apply_many(handles, list, count, &bad), code);
        return;
    }
    CALL(mmsb_page_apply_many(handles, list, count, &bad), code);
    SAME(code != MMSB_OK && bad != expected_bad, 0);
    for (size_t i = 0; code == MMSB_OK && i < count; i++) {
        delta_was_applied(chosen[i], &list[i]);
        check_version(chosen[i], MAY_MOVE);
    }
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL) {
            check_page(chosen[i]);
        }
    }
}

static void fuzz_apply_runs(void) {
    enum { MOST = 6 };
    mmsb_page_t handles[MOST];
    uint64_t offsets[MOST];
    uint64_t lengths[MOST];
    page_t *chosen[MOST] = {NULL};
    mmsb_page_runs_t runs;
    mmsb_page_runs_init(&runs);
    runs.count = below(MOST + 1);
    runs.pages = handles;
    runs.offsets = offsets;
    runs.uniform_length = 1 + below(3);
    runs.lengths = chance(50) ? lengths : NULL;
    runs.payload = buffer;
    fill_buffer(MOST * 50);
    uint64_t sum = 0;
    size_t expected_bad = 99;
    mmsb_status_t code = MMSB_OK;
    for (size_t i = 0; i < runs.count; i++) {
        pick_t target = pick_page(3);
        mmsb_status_t own = target.code;
        handles[i] = target.handle;
        chosen[i] = target.page;
        uint64_t size = target.page == NULL ? 64 : target.page->size;
        lengths[i] = runs.lengths == NULL ? runs.uniform_length : below(size < 50 ? size + 1 : 50);
        if (lengths[i] > size) {
            offsets[i] = 0;
            own = own == MMSB_OK ? MMSB_E_OUT_OF_RANGE : own;
        } else {
            offsets[i] = below(size - lengths[i] + 1);
        }
        if (target.page != NULL && target.page->read_only && own != MMSB_OK) {
            return; /* two things wrong */
        }
        if (target.page != NULL && target.page->read_only) {
            own = MMSB_E_INVALID_STATE;
        } else if (own == MMSB_OK && chance(3)) {
            offsets[i] = size + 1 + (chance(50) ? 1ULL << 63 : 0);
            own = MMSB_E_OUT_OF_RANGE;
        }
        sum += lengths[i];
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    runs.payload_length = chance(50) ? sum : 0;
    if (code == MMSB_OK && chance(10)) {
        switch (below(3)) {
        case 0:
            runs.struct_size ^= 1U << below(10);
            code = MMSB_E_STRUCT_VERSION;
            break;
        case 1:
            runs.reserved[below(4)] = 1;
            code = MMSB_E_STRUCT_VERSION;
            break;
        default:
            runs.payload_length = sum + 1;
            code = MMSB_E_MISMATCH;
        }
        CALL(mmsb_page_apply_runs(&runs, NULL), code);
        return;
    }
    size_t bad = 99;
    if (mixes_journals(chosen, runs.count)) {
        CALL_MIXED(mmsb_page_apply_runs(&runs, &bad), code);
        return;
    }
    CALL(mmsb_page_apply_runs(&runs, &bad), code);
    SAME(code != MMSB_OK && bad != expected_bad, 0);
    const uint8_t *payload = buffer;
    for (size_t i = 0; code == MMSB_OK && i < runs.count; i++) {
        const mmsb_run_t run = {offsets[i], lengths[i]};
        const mmsb_delta_t delta = one_run(&run, payload);
        delta_was_applied(chosen[i], &delta);
        check_version(chosen[i], MAY_MOVE);
        payload += lengths[i];
    }
    for (size_t i = 0; i < runs.count; i++) {
        if (chosen[i] != NULL) {
            check_page(chosen[i]);
        }
    }
}

static void fuzz_validate(void) {
    static made_delta_t made;
    uint64_t size = any_size();
    make_delta(&made, any_size());
    mmsb_status_t code = extent(&made.delta) > size ? MMSB_E_OUT_OF_RANGE : MMSB_OK;
    if (code == MMSB_OK && chance(20)) {
        code = spoil_delta(&made.delta);
    }
    CALL(mmsb_delta_validate(&made.delta, size), code);
}

/* Puts a delta that the library made into the model, or gives it back at once. */
static void keep_delta(mmsb_delta_t *delta) {
    for (int i = 0; i < DELTAS; i++) {
        if (deltas[i] == NULL) {
            deltas[i] = delta;
            return;
        }
    }
    CALL(mmsb_delta_free(delta), MMSB_OK);
}

static void check_same_change(const mmsb_delta_t *first, const mmsb_delta_t *second, const mmsb_delta_t *made) {
    static uint8_t bytes[2][LARGEST];
    static uint8_t mask[2][LARGEST];
    memset(bytes, 0, sizeof bytes);
    memset(mask, 0, sizeof mask);
    do_delta(first, bytes[0], mask[0]);
    if (second != NULL) {
        do_delta(second, bytes[0], mask[0]);
    }
    do_delta(made, bytes[1], mask[1]);
    SAME(memcmp(bytes[0], bytes[1], LARGEST), 0);
    SAME(memcmp(mask[0], mask[1], LARGEST), 0);
}

static void fuzz_merge(void) {
    static made_delta_t first;
    static made_delta_t second;
    make_delta(&first, any_size());
    make_delta(&second, any_size());
    first.delta.epoch = below(10);
    second.delta.epoch = below(10);
    mmsb_status_t code = MMSB_OK;
    if (chance(20)) {
        if (chance(30)) {
            first.delta.page_id = 1 + below(5);
            second.delta.page_id = first.delta.page_id + 1;
            code = MMSB_E_MISMATCH;
        } else {
            code = spoil_delta(chance(50) ? &first.delta : &second.delta);
        }
    } else if (chance(20)) {
        first.delta.page_id = 5;
    }
    mmsb_delta_t *merged = NULL;
    CALL(mmsb_delta_merge(&first.delta, &second.delta, &merged), code);
    SAME(merged != NULL, code == MMSB_OK);
    if (merged != NULL) {
        SAME(merged->kind, MMSB_DELTA_RUNS);
        SAME(merged->id, second.delta.id);
        SAME(merged->page_id, first.delta.page_id);
        SAME(merged->epoch, first.delta.epoch > second.delta.epoch ? first.delta.epoch : second.delta.epoch);
        SAME(merged->timestamp_ns,
             first.delta.timestamp_ns > second.delta.timestamp_ns ? first.delta.timestamp_ns : second.delta.timestamp_ns);
        SAME(merged->source != NULL, second.delta.source != NULL);
        check_same_change(&first.delta, &second.delta, merged);
        keep_delta(merged);
    }
}

static void fuzz_convert(void) {
    static made_delta_t made;
    make_delta(&made, any_size());
    mmsb_delta_kind_t kind = (mmsb_delta_kind_t)(1 + below(5));
    mmsb_status_t code = MMSB_OK;
    if (chance(20)) {
        if (chance(50)) {
            code = spoil_delta(&made.delta);
        } else {
            kind = chance(50) ? 0 : 6;
            code = MMSB_E_INVALID_ARGUMENT;
        }
    }
    mmsb_delta_t *converted = NULL;
    CALL(mmsb_delta_convert(&made.delta, kind, &converted), code);
    SAME(converted != NULL, code == MMSB_OK);
    if (converted != NULL) {
        SAME(converted->kind, kind);
        check_same_change(&made.delta, NULL, converted);
        keep_delta(converted);
    }
}

static void fuzz_from_pages(void) {
    pick_t from = pick_page(10);
    pick_t to = pick_page(10);
    for (int i = 0; i < 5 && from.page != NULL && to.page != NULL && from.page->size != to.page->size; i++) {
        to.page = any_page(); /* rather one of the same size */
        to.handle = to.page->handle;
    }
    mmsb_status_t code = from.code != MMSB_OK ? from.code : to.code;
    if (from.code != MMSB_OK && to.code != MMSB_OK && from.code != to.code) {
        return;
    }
    if (code == MMSB_OK && from.page->size != to.page->size) {
        code = MMSB_E_MISMATCH;
    }
    mmsb_delta_t *delta = NULL;
    CALL(mmsb_delta_from_pages(from.handle, to.handle, &delta), code);
    SAME(delta != NULL, code == MMSB_OK);
    if (delta != NULL) {
        static uint8_t bytes[LARGEST];
        static uint8_t mask[LARGEST];
        SAME(delta->kind, MMSB_DELTA_RUNS);
        SAME(delta->page_id, from.page->id);
        SAME(extent(delta) <= from.page->size, 1);
        memcpy(bytes, from.page->bytes, from.page->size);
        do_delta(delta, bytes, mask);
        SAME(memcmp(bytes, to.page->bytes, to.page->size), 0);
        keep_delta(delta);
    }
}

static void fuzz_owned_delta(void) {
    int place = (int)below(DELTAS);
    mmsb_delta_t *delta = deltas[place];
    if (delta == NULL || chance(10)) {
        mmsb_delta_t own;
        mmsb_delta_init(&own);
        CALL(mmsb_delta_free(&own), MMSB_E_STALE_HANDLE);
        CALL(mmsb_delta_free(NULL), MMSB_OK);
        return;
    }
    page_t *page = any_page();
    if (page != NULL && chance(60) && !page->read_only) {
        int other_page = delta->page_id != 0 && delta->page_id != page->id;
        int too_long = extent(delta) > page->size;
        int old = delta->epoch != 0 && delta->epoch <= page->epoch;
        if (other_page + too_long + old > 1) {
            return; /* two things wrong */
        }
        mmsb_status_t code = other_page ? MMSB_E_MISMATCH : too_long ? MMSB_E_OUT_OF_RANGE : old ? MMSB_E_EPOCH : MMSB_OK;
        CALL(mmsb_page_apply(page->handle, delta), code);
        if (code == MMSB_OK) {
            delta_was_applied(page, delta);
            check_version(page, MOVES);
        }
        check_page(page);
        return;
    }
    CALL(mmsb_delta_free(delta), MMSB_OK);
    CALL(mmsb_delta_free(delta), MMSB_E_STALE_HANDLE);
    deltas[place] = NULL;
}

/* ---------------------------------------------------------------------------------------------- masks and metadata ---- */

static void fuzz_mask(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    uint64_t count = 42;
    if (page == NULL) {
        switch (below(3)) {
        case 0:
            CALL(mmsb_page_mask_read(target.handle, 0, buffer, 1), target.code);
            break;
        case 1:
            CALL(mmsb_page_mask_clear(target.handle), target.code);
            break;
        default:
            CALL(mmsb_page_mask_count(target.handle, &count), target.code);
        }
        return;
    }
    switch (below(5)) {
    case 0:
        CALL(mmsb_page_mask_clear(page->handle), MMSB_OK);
        memset(page->mask, 0, sizeof page->mask);
        check_version(page, MAY_MOVE);
        break;
    case 1:
    case 2: {
        uint64_t expected = 0;
        for (uint64_t i = 0; i < page->size; i++) {
            expected += page->mask[i];
        }
        CALL(mmsb_page_mask_count(page->handle, &count), MMSB_OK);
        SAME(count, expected);
        if (chance(10)) {
            CALL(mmsb_page_mask_count(page->handle, NULL), MMSB_E_INVALID_ARGUMENT);
        }
        break;
    }
    default: {
        uint64_t offset;
        uint64_t length;
        int good = any_range(page, &offset, &length);
        if (good && length > 0 && chance(5)) {
            CALL(mmsb_page_mask_read(page->handle, offset, NULL, length), MMSB_E_INVALID_ARGUMENT);
            return;
        }
        CALL(mmsb_page_mask_read(page->handle, offset, buffer, length), good ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
        for (uint64_t i = 0; good && i < (length + 7) / 8 * 8; i++) {
            SAME(buffer[i / 8] >> i % 8 & 1, i < length ? page->mask[offset + i] : 0);
        }
    }
    }
    check_page(page);
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t length) {
    const uint32_t number = (uint32_t)length; /* both ends are little endian */
    memcpy(at, &number, 4);
    memcpy(at + 4, bytes, length);
    return at + 4 + length;
}

static size_t write_blob(const page_t *page, uint8_t *blob, int keys_only) {
    uint8_t *at = blob;
    if (!keys_only) {
        at = put(at, NULL, 0);
        blob[0] = (uint8_t)page->entry_count;
    }
    for (int i = 0; i < page->entry_count; i++) {
        at = put(at, keys[page->entries[i].key], strlen(keys[page->entries[i].key]));
        if (!keys_only) {
            at = put(at, page->entries[i].value, page->entries[i].length);
        }
    }
    return (size_t)(at - blob);
}

static entry_t *find_entry(page_t *page, int key) {
    for (int i = 0; i < page->entry_count; i++) {
        if (page->entries[i].key == key) {
            return &page->entries[i];
        }
    }
    return NULL;
}

static entry_t any_entry(int key) {
    entry_t entry = {.key = key, .length = below(LONGEST_VALUE + 1)};
    for (size_t i = 0; i < entry.length; i++) {
        entry.value[i] = (uint8_t)random_next(&seed);
    }
    return entry;
}

static void fuzz_metadata(void) {
    pick_t target = pick_page(10);
    page_t *page = target.page;
    int key = (int)below(KEYS);
    const char *name = keys[key];
    size_t name_length = strlen(name);
    entry_t entry = any_entry(key);
    entry_t *known = page == NULL ? NULL : find_entry(page, key);
    mmsb_status_t code = target.code;
    size_t length = 42;
    enum moved moved = STAYS;
    switch (below(6)) {
    case 0:
        if (code == MMSB_OK && chance(15)) {
            static const char *broken[] = {"\xFF", "", "\xC0\x80", "ok\xED\xA0\x80"};
            name = broken[below(4)];
            name_length = strlen(name);
            code = MMSB_E_INVALID_ARGUMENT;
        } else if (code == MMSB_OK && chance(5)) {
            CALL(mmsb_page_metadata_set(page->handle, name, name_length, entry.value, 1ULL << 33), MMSB_E_INVALID_SIZE);
            break;
        }
        CALL(mmsb_page_metadata_set(target.handle, name, name_length, entry.value, entry.length), code);
        if (code == MMSB_OK) {
            moved = MAY_MOVE; /* surely only where the value is another one */
            if (known == NULL) {
                moved = MOVES;
                known = &page->entries[page->entry_count++];
            }
            *known = entry;
        }
        break;
    case 1: {
        size_t capacity = chance(80) ? LONGEST_VALUE : below(LONGEST_VALUE);
        if (code == MMSB_OK) {
            code = known == NULL ? MMSB_E_NOT_FOUND : capacity > 0 && capacity < known->length ? MMSB_E_OUT_OF_RANGE : MMSB_OK;
        }
        CALL(mmsb_page_metadata_get(target.handle, name, name_length, buffer, capacity, &length), code);
        if (known != NULL) {
            SAME(length, known->length);
            SAME(code == MMSB_OK && capacity > 0 && memcmp(buffer, known->value, length) != 0, 0);
        }
        break;
    }
    case 2:
        if (code == MMSB_OK) {
            code = known == NULL ? MMSB_E_NOT_FOUND : MMSB_OK;
        }
        CALL(mmsb_page_metadata_remove(target.handle, name, name_length), code);
        if (code == MMSB_OK) {
            page->entry_count--;
            memmove(known, known + 1, (size_t)(page->entries + page->entry_count - known) * sizeof *known);
            moved = MOVES;
        }
        break;
    case 3:
    case 4: {
        uint8_t expected[1024];
        int keys_only = chance(50);
        size_t expected_length = page == NULL ? 0 : write_blob(page, expected, keys_only);
        size_t capacity = chance(70) ? 1024 : chance(50) ? 0 : below(expected_length + 1);
        size_t count = 42;
        if (code == MMSB_OK && capacity > 0 && capacity < expected_length) {
            code = MMSB_E_OUT_OF_RANGE;
        }
        if (keys_only) {
            CALL(mmsb_page_metadata_keys(target.handle, buffer, capacity, &length, &count), code);
            SAME(code == MMSB_OK && count != (size_t)page->entry_count, 0);
        } else {
            CALL(mmsb_page_metadata_export(target.handle, buffer, capacity, &length), code);
        }
        if (page != NULL) {
            SAME(length, expected_length);
            SAME(code == MMSB_OK && capacity > 0 && memcmp(buffer, expected, length) != 0, 0);
        }
        break;
    }
    default: {
        page_t fresh = {.entry_count = 0};
        for (int i = 0; i < KEYS; i++) {
            if (chance(50)) {
                fresh.entries[fresh.entry_count++] = any_entry((i + key) % KEYS);
            }
        }
        uint8_t blob[1024];
        length = write_blob(&fresh, blob, 0);
        if (code == MMSB_OK && chance(30)) {
            switch (below(3)) {
            case 0:
                length = 1 + below(length - 1);
                break;
            case 1:
                blob[length++] = 0;
                break;
            default:
                blob[below(4)] ^= (uint8_t)(1 + below(255));
            }
            code = MMSB_E_CORRUPT;
        }
        CALL(mmsb_page_metadata_import(target.handle, blob, length), code);
        if (code == MMSB_OK) {
            memcpy(page->entries, fresh.entries, sizeof fresh.entries);
            page->entry_count = fresh.entry_count;
            moved = MAY_MOVE;
        }
    }
    }
    if (page != NULL) {
        check_version(page, moved);
        check_page(page);
        check_metadata(page);
    }
}

/* ------------------------------------------------------------------------------------------------------ dependencies ---- */

static int reaches(const page_t *from, const page_t *to) {
    if (from == to) {
        return 1;
    }
    for (int i = 0; i < edge_count; i++) {
        if (edges[i].parent == from && reaches(edges[i].child, to)) {
            return 1;
        }
    }
    return 0;
}

static void fuzz_dependency(void) {
    pick_t parent = pick_page(5);
    pick_t child = pick_page(5);
    if (parent.code != MMSB_OK && child.code != MMSB_OK && parent.code != child.code) {
        return;
    }
    int place = -1;
    mmsb_status_t code = parent.code != MMSB_OK ? parent.code : child.code;
    if (chance(40) && edge_count > 0) {
        place = (int)below((uint64_t)edge_count);
        parent = (pick_t){edges[place].parent->handle, edges[place].parent, MMSB_OK};
        child = (pick_t){edges[place].child->handle, edges[place].child, MMSB_OK};
        code = MMSB_OK;
    }
    for (int i = 0; code == MMSB_OK && i < edge_count; i++) {
        if (edges[i].parent == parent.page && edges[i].child == child.page) {
            place = i;
        }
    }
    int other_contexts = code == MMSB_OK && parent.page->context != child.page->context;
    if (chance(60) && edge_count < EDGES) {
        if (code == MMSB_OK) {
            code = other_contexts                     ? MMSB_E_MISMATCH
                   : place >= 0                       ? MMSB_E_ALREADY_EXISTS
                   : reaches(child.page, parent.page) ? MMSB_E_INVALID_ARGUMENT
                                                      : MMSB_OK;
        }
        CALL(mmsb_page_dependency_add(parent.handle, child.handle), code);
        if (code == MMSB_OK) {
            edges[edge_count++] = (edge_t){parent.page, child.page};
        }
    } else {
        if (code == MMSB_OK) {
            code = other_contexts ? MMSB_E_MISMATCH : place < 0 ? MMSB_E_NOT_FOUND : MMSB_OK;
        }
        CALL(mmsb_page_dependency_remove(parent.handle, child.handle), code);
        if (code == MMSB_OK) {
            edge_count--;
            memmove(edges + place, edges + place + 1, (size_t)(edge_count - place) * sizeof *edges);
        }
    }
    if (parent.page != NULL && child.page != NULL) {
        check_version(parent.page, MAY_MOVE);
        check_version(child.page, MAY_MOVE);
        check_edges(parent.page);
        check_edges(child.page);
    }
}

static void fuzz_dependency_lists(void) {
    pick_t target = pick_page(15);
    mmsb_page_t list[PAGES];
    size_t count = 42;
    mmsb_status_t code = target.code;
    if (code == MMSB_OK && chance(10)) {
        CALL(mmsb_page_parents(target.handle, list, PAGES, NULL), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_page_children(target.handle, NULL, PAGES, &count), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_page_parents(target.handle, list, PAGES, &count), code);
    CALL(mmsb_page_children(target.handle, list, PAGES, &count), code);
    int context = any_context();
    size_t with_edges = 0;
    for (int i = 0; i < PAGES; i++) {
        int has = 0;
        for (int k = 0; k < edge_count; k++) {
            has |= edges[k].parent == &pages[i] || edges[k].child == &pages[i];
        }
        with_edges += (size_t)(has && pages[i].handle != 0 && pages[i].context == context);
    }
    size_t capacity = chance(70) ? PAGES : below(with_edges + 1);
    code = capacity > 0 && capacity < with_edges ? MMSB_E_OUT_OF_RANGE : MMSB_OK;
    count = 42;
    CALL(mmsb_context_dependency_order(contexts[context].handle, list, capacity, &count), code);
    SAME(count, with_edges);
    for (int i = 0; code == MMSB_OK && capacity > 0 && i < edge_count; i++) {
        size_t parent = PAGES;
        size_t child = PAGES;
        for (size_t k = 0; k < count; k++) {
            parent = list[k] == edges[i].parent->handle ? k : parent;
            child = list[k] == edges[i].child->handle ? k : child;
        }
        SAME(edges[i].parent->context == context && !(parent < child && child < PAGES), 0);
    }
}

/* ------------------------------------------------------------------------------------- contexts, tickets, the library ---- */

static void fuzz_context(void) {
    int index = any_context();
    mmsb_context_t handle = contexts[index].handle;
    mmsb_status_t code = MMSB_OK;
    if (chance(10)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        handle = bad.handle;
        code = bad.code;
    }
    uint64_t number = 0;
    size_t count = 42;
    mmsb_page_t list[PAGES];
    mmsb_context_stats_t stats;
    mmsb_context_stats_init(&stats);
    switch (below(4)) {
    case 0:
        if (code == MMSB_OK && chance(20)) {
            stats.reserved[below(8)] = 1;
            code = MMSB_E_STRUCT_VERSION;
        }
        CALL(mmsb_context_stats(handle, &stats), code);
        if (code == MMSB_OK && chance(20)) {
            CALL(mmsb_context_stats(handle, NULL), MMSB_E_INVALID_ARGUMENT);
        }
        break;
    case 1:
        CALL(mmsb_context_page_count(handle, &number), code);
        break;
    case 2:
        if (code == MMSB_OK && chance(10)) {
            CALL(mmsb_context_pages(handle, &number, list, 0, &count), MMSB_E_INVALID_ARGUMENT);
        }
        CALL(mmsb_context_pages(handle, &number, list, PAGES, &count), code);
        break;
    default:
        CALL(mmsb_context_trim(handle, chance(50) ? &number : NULL), code);
    }
    if (code == MMSB_OK && chance(30)) {
        check_context(index);
    }
}

static void open_context(int index) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = index == 0 ? LIMIT_OF_FIRST_CONTEXT : 0;
    contexts[index] = (context_t){0};
    CALL(mmsb_context_create(index == 2 ? NULL : &options, &contexts[index].handle), MMSB_OK);
}

/* The pages of an ended context are gone; what was pinned goes with its last unpin. */
static void context_ended(int index, int released_before) {
    int expected_releases = released_before;
    remember_stale(MMSB_KIND_CONTEXT, contexts[index].handle);
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle != 0 && page->context == index && !pinned(page)) {
            expected_releases += page->adopted != NULL;
        }
    }
    SAME(releases, expected_releases);
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle == 0 || page->context != index) {
            continue;
        }
        SAME(mmsb_page_size(page->handle), 0);
        int before = releases;
        int was_pinned = pinned(page);
        for (int mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
            while (page->pins[mode - 1] > 0) {
                SAME(releases, before);
                CALL(mmsb_page_unpin(page->handle, mode), MMSB_OK);
                page->pins[mode - 1]--;
            }
        }
        CALL(mmsb_page_unpin(page->handle, MMSB_PIN_READ), MMSB_E_STALE_HANDLE);
        SAME(releases, before + (was_pinned && page->adopted != NULL));
        free(page->adopted);
        page->adopted = NULL;
        leave(page);
    }
    contexts[index].handle = 0;
}

static void fuzz_end_context(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    mmsb_context_t context = 42;
    switch (below(5)) {
    case 0:
        options.reserved[below(8)] = 1;
        CALL(mmsb_context_create(&options, &context), MMSB_E_STRUCT_VERSION);
        break;
    case 1:
        options.disk_path = "/no/such/folder";
        CALL(mmsb_context_create(&options, &context), MMSB_E_IO);
        break;
    case 2:
        options.default_location = MMSB_LOCATION_GPU;
        options.default_device = no_device();
        CALL(mmsb_context_create(&options, &context), MMSB_E_NO_DEVICE);
        break;
    case 3: {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_context_destroy(bad.handle), bad.handle == 0 ? MMSB_OK : bad.code);
        break;
    }
    default: {
        int index = any_context();
        if (chance(90)) {
            break; /* rarely: it ends many pages */
        }
        int before = releases;
        CALL(mmsb_context_destroy(contexts[index].handle), MMSB_OK);
        context_ended(index, before);
        open_context(index);
    }
    }
    SAME(context, 42);
}

static void fuzz_shutdown(void) {
    if (!chance(2)) {
        return;
    }
    for (int i = 0; i < PAGES; i++) { /* pins first: the model of ended contexts works on one context at a time */
        page_t *page = &pages[i];
        for (int mode = MMSB_PIN_READ; page->handle != 0 && mode <= MMSB_PIN_WRITE; mode++) {
            while (page->pins[mode - 1] > 0) {
                CALL(mmsb_page_unpin(page->handle, mode), MMSB_OK);
                page->pins[mode - 1]--;
            }
        }
    }
    int adopted = releases;
    for (int i = 0; i < PAGES; i++) {
        adopted += pages[i].handle != 0 && pages[i].adopted != NULL;
    }
    CALL(mmsb_shutdown(), MMSB_OK);
    SAME(releases, adopted);
    for (int i = 0; i < TICKETS; i++) {
        if (tickets[i] != 0) {
            remember_stale(MMSB_KIND_TICKET, tickets[i]);
            tickets[i] = 0;
        }
    }
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0) {
            free(pages[i].adopted);
            pages[i].adopted = NULL;
            leave(&pages[i]);
        }
    }
    for (int i = 0; i < CONTEXTS; i++) {
        remember_stale(MMSB_KIND_CONTEXT, contexts[i].handle);
        open_context(i);
    }
}

/* ---------------------------------------------------------------------------------------- snapshots and journals ---- */

static char folder[] = "/tmp/mmsb-fuzz-XXXXXX";

/* Path of a context's file in the folder; valid until the fourth next call. */
static const char *file_of(int index, const char *name) {
    static char paths[4][128];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s-%d", folder, name, index);
    return paths[next];
}

static void remove_files(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] != '.' && unlinkat(dirfd(directory), entry->d_name, 0) != 0) {
            char below[512];
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
            remove_files(below);
            rmdir(below);
        }
    }
    closedir(directory);
}

static mmsb_save_options_t any_save_options(void) {
    mmsb_save_options_t options;
    mmsb_save_options_init(&options);
    options.not_durable = 1;
    options.compression = chance(30);
    return options;
}

/* The pages of a context have been replaced by those of a snapshot of the state that the model has. */
static void pages_replaced(int index, int released_before) {
    int expected_releases = released_before;
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle == 0 || page->context != index) {
            continue;
        }
        expected_releases += page->adopted != NULL;
        free(page->adopted);
        page->adopted = NULL;
        page->read_only = 0;
        SAME(mmsb_page_size(page->handle), 0);
        remember_stale(MMSB_KIND_PAGE, page->handle);
        SAME(mmsb_page_lookup(contexts[index].handle, page->id, &page->handle), MMSB_OK);
        contexts[index].frees++;
        contexts[index].allocations++;
    }
    SAME(releases, expected_releases);
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == index) {
            check_page(&pages[i]);
            check_metadata(&pages[i]);
            check_edges(&pages[i]);
        }
    }
    check_context(index);
}

/* Whether any page of a context is pinned. */
static int any_pinned(int index) {
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == index && pinned(&pages[i])) {
            return 1;
        }
    }
    return 0;
}

static void fuzz_snapshot(void) {
    int index = any_context();
    mmsb_context_t handle = contexts[index].handle;
    mmsb_save_options_t options = any_save_options();
    void *memory = NULL;
    uint64_t length = 0;
    if (chance(15)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_snapshot_save_memory(bad.handle, &options, &memory, &length), bad.code);
        CALL(mmsb_snapshot_load_memory(bad.handle, &options, sizeof options, NULL), bad.code);
        return;
    }
    if (chance(15)) {
        options.compression_level = options.compression ? 5 : 1;
        CALL(mmsb_snapshot_save_memory(handle, &options, &memory, &length), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    CALL(mmsb_snapshot_save_memory(handle, &options, &memory, &length), MMSB_OK);
    if (chance(30)) { /* a byte of it is wrong: nothing changes */
        ((uint8_t *)memory)[below(length)] ^= (uint8_t)(1 + below(255));
        CALL_EITHER(mmsb_snapshot_load_memory(handle, memory, length, NULL),
                    contexts[index].journalled ? MMSB_E_INVALID_STATE : MMSB_E_CORRUPT, MMSB_E_FORMAT);
    } else {
        int before = releases;
        mmsb_status_t code = contexts[index].journalled ? MMSB_E_INVALID_STATE : any_pinned(index) ? MMSB_E_BUSY : MMSB_OK;
        if (CALL(mmsb_snapshot_load_memory(handle, memory, length, NULL), code) == MMSB_OK) {
            pages_replaced(index, before);
        }
    }
    CALL(mmsb_snapshot_free_memory(memory), MMSB_OK);
    CALL(mmsb_snapshot_free_memory(memory), MMSB_E_STALE_HANDLE);
    check_context(index);
}

/* A snapshot's file by all functions that read one, against the model's pages. */
static void read_snapshot(mmsb_snapshot_t snapshot, int index) {
    mmsb_snapshot_info_t info;
    mmsb_snapshot_info_init(&info);
    CALL(mmsb_snapshot_info(snapshot, &info), MMSB_OK);
    mmsb_snapshot_page_t found[8];
    uint64_t cursor = 0, count = 0;
    size_t got = 0;
    do {
        CALL(mmsb_snapshot_pages(snapshot, &cursor, found, 8, &got), MMSB_OK);
        count += got;
    } while (got > 0);
    SAME(count, info.pages);
    SAME(context_stats(contexts[index].handle).pages, count);
    CALL(mmsb_snapshot_pages(snapshot, &cursor, found, 0, &got), MMSB_E_INVALID_ARGUMENT);
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle == 0 || page->context != index) {
            continue;
        }
        CALL(mmsb_snapshot_find(snapshot, page->id, &found[0]), MMSB_OK);
        SAME(found[0].size, page->size);
        SAME(found[0].version, page->version);
        CALL(mmsb_snapshot_read(snapshot, page->id, 0, buffer, page->size), MMSB_OK);
        SAME(memcmp(buffer, page->bytes, page->size), 0);
        CALL(mmsb_snapshot_read(snapshot, page->id, page->size, buffer, 1), MMSB_E_OUT_OF_RANGE);
        const void *bytes = NULL;
        uint64_t length = 0;
        if (CALL_EITHER(mmsb_snapshot_view(snapshot, page->id, &bytes, &length), MMSB_OK, MMSB_E_UNSUPPORTED) == MMSB_OK) {
            SAME(length, page->size);
            SAME(memcmp(bytes, page->bytes, page->size), 0);
        }
        CALL(mmsb_snapshot_metadata(snapshot, page->id, buffer, sizeof buffer, &got), MMSB_OK);
    }
    uint64_t free_id = ((uint64_t)1 << 59) + below(1000);
    CALL(mmsb_snapshot_find(snapshot, free_id, &found[0]), MMSB_E_NOT_FOUND);
    CALL(mmsb_snapshot_read(snapshot, free_id, 0, buffer, 1), MMSB_E_NOT_FOUND);
    CALL(mmsb_snapshot_find(snapshot, free_id, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_snapshot_change_t changes[4];
    CALL(mmsb_snapshot_diff(snapshot, snapshot, changes, 4, &got), MMSB_OK);
    SAME(got, 0);
}

static void fuzz_snapshot_file(void) {
    int index = any_context();
    mmsb_context_t handle = contexts[index].handle;
    mmsb_save_options_t options = any_save_options();
    mmsb_save_stats_t stats;
    mmsb_save_stats_init(&stats);
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    mmsb_snapshot_t snapshot = 0;
    mmsb_ticket_t ticket = 0;
    const char *path = file_of(index, "read"), *copy = file_of(index, "compact");
    CALL(mmsb_snapshot_save_start(handle, path, &options, NULL, &ticket), MMSB_OK);
    CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
    CALL(mmsb_ticket_destroy(ticket), MMSB_OK);
    CALL(mmsb_context_save_stats(handle, &stats), MMSB_OK);
    SAME(stats.saves > 0, 1);
    CALL(mmsb_snapshot_verify(path, NULL), MMSB_OK);
    CALL(mmsb_snapshot_open(path, &snapshot), MMSB_OK);
    read_snapshot(snapshot, index);
    CALL(mmsb_snapshot_compact(path, copy, NULL), MMSB_OK);
    CALL(mmsb_snapshot_close(snapshot), MMSB_OK);
    CALL(mmsb_snapshot_close(snapshot), MMSB_E_STALE_HANDLE);
    CALL(mmsb_snapshot_info(snapshot, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_find(snapshot, 1, &(mmsb_snapshot_page_t){0}), MMSB_E_STALE_HANDLE);
    CALL(mmsb_snapshot_close(0), MMSB_OK);
    /* A file that is its own base, an unknown option, an empty path, descriptors that are none. */
    options.base = path;
    CALL(mmsb_snapshot_save(handle, path, &options), MMSB_E_INVALID_ARGUMENT);
    options.base = NULL;
    options.raw_writes = 7;
    CALL(mmsb_snapshot_save(handle, path, &options), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_save(handle, "", NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_save_descriptor(handle, -1, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_load_descriptor(handle, -1, NULL), MMSB_E_INVALID_ARGUMENT);
    load.mode = 9;
    CALL(mmsb_snapshot_load(handle, path, &load), MMSB_E_INVALID_ARGUMENT);
    load.mode = MMSB_LOAD_EAGER;
    load.journal_epoch = 1;
    CALL(mmsb_snapshot_load_start(handle, path, &load, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_snapshot_open("/nowhere/at all", &snapshot), MMSB_E_NOT_FOUND);
    CALL(mmsb_snapshot_verify(folder, NULL), MMSB_E_IO);
    mmsb_journal_info_t journal;
    mmsb_journal_info_init(&journal);
    CALL(mmsb_journal_info(handle, &journal), contexts[index].journalled ? MMSB_OK : MMSB_E_INVALID_STATE);
    if (!contexts[index].journalled) {
        CALL(mmsb_journal_drop(handle, path), MMSB_E_INVALID_STATE);
        CALL(mmsb_journal_close(handle), MMSB_E_INVALID_STATE);
    }
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) {
        CALL(mmsb_snapshot_save_descriptor(handle, null, NULL), MMSB_OK);
        close(null);
    }
    check_context(index);
}

/* Begins a journal after a snapshot; or takes both and compares the state that they give with the model. */
static void fuzz_journal(void) {
    int index = any_context();
    context_t *context = &contexts[index];
    if (!context->journalled) {
        mmsb_save_options_t save = any_save_options();
        mmsb_journal_options_t options;
        mmsb_journal_options_init(&options);
        options.durability = MMSB_DURABILITY_NONE;
        options.segment_bytes = 1 << 16;
        CALL(mmsb_journal_sync(context->handle), MMSB_E_INVALID_STATE);
        remove_files(file_of(index, "journal"));
        CALL(mmsb_journal_open(context->handle, file_of(index, "journal"), &options), MMSB_OK);
        CALL(mmsb_snapshot_save(context->handle, file_of(index, "start"), &save), MMSB_OK);
        context->journalled = 1;
        for (int i = 0; i < PAGES; i++) {
            pages[i].raw &= pages[i].context != index;
        }
        return;
    }
    CALL(mmsb_journal_open(context->handle, file_of(index, "journal"), NULL), MMSB_E_ALREADY_EXISTS);
    CALL(mmsb_journal_sync(context->handle), MMSB_OK);
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.journal = file_of(index, "journal");
    load.mode = chance(50) ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER;
    context_t live = *context;
    CALL(mmsb_context_create(NULL, &context->handle), MMSB_OK);
    CALL(mmsb_snapshot_load(context->handle, file_of(index, "start"), &load), MMSB_OK);
    /* The twin of the context takes its place in the model for as long as it is compared. */
    static page_t kept[PAGES];
    memcpy(kept, pages, sizeof kept);
    uint64_t count = 0;
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle != 0 && page->context == index) {
            SAME(mmsb_page_lookup(context->handle, page->id, &page->handle), MMSB_OK);
            page->adopted = NULL;
            page->read_only = 0;
            page->pins[0] = page->pins[1] = 0;
            if (page->raw) {
                SAME(mmsb_page_read(page->handle, 0, page->bytes, page->size), MMSB_OK);
                SAME(mmsb_page_version(page->handle) <= page->version, 1); /* the end of a pin for writing moves it */
                page->version = mmsb_page_version(page->handle);
            }
            count++;
        }
    }
    SAME(context_stats(context->handle).pages, count);
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == index) {
            check_page(&pages[i]);
            check_metadata(&pages[i]);
            check_edges(&pages[i]);
        }
    }
    memcpy(pages, kept, sizeof kept);
    CALL(mmsb_context_destroy(context->handle), MMSB_OK);
    *context = live;
    if (chance(50)) {
        CALL(mmsb_journal_close(context->handle), MMSB_OK);
        context->journalled = 0;
    }
}

static void fuzz_ticket(void) {
    int place = (int)below(TICKETS);
    mmsb_ticket_t ticket = tickets[place];
    mmsb_status_t code = MMSB_OK;
    if (ticket == 0 || chance(15)) {
        pick_t bad = bad_handle(MMSB_KIND_TICKET);
        ticket = bad.handle;
        code = bad.code;
    }
    int32_t number = -1;
    mmsb_status_t status = -1;
    char text[16] = "?";
    uint64_t done;
    uint64_t total;
    switch (below(7)) {
    case 0:
        CALL(mmsb_ticket_poll(ticket, &number), code);
        SAME(number, code == MMSB_OK ? 1 : -1);
        break;
    case 1:
        CALL(mmsb_ticket_wait(ticket, below(3) * 1000), code);
        break;
    case 2:
        CALL(mmsb_ticket_cancel(ticket), code);
        break;
    case 3:
        CALL(mmsb_ticket_progress(ticket, &done, &total), code);
        SAME(code == MMSB_OK && done != total, 0);
        break;
    case 4:
        CALL(mmsb_ticket_status(ticket, &status, text, chance(50) ? sizeof text : 0), code);
        SAME(status, code == MMSB_OK ? MMSB_OK : -1);
        break;
    case 5:
        CALL(mmsb_ticket_eventfd(ticket, &number), code);
        if (code == MMSB_OK) {
            struct pollfd poller = {number, POLLIN, 0};
            SAME(poll(&poller, 1, 0), 1);
        }
        break;
    default:
        CALL(mmsb_ticket_destroy(ticket), ticket == 0 ? MMSB_OK : code);
        if (code == MMSB_OK) {
            remember_stale(MMSB_KIND_TICKET, ticket);
            tickets[place] = 0;
        }
    }
    if (code == MMSB_OK && tickets[place] != 0 && chance(10)) {
        CALL(mmsb_ticket_poll(ticket, NULL), MMSB_E_INVALID_ARGUMENT);
    }
}

static void fuzz_options_text(void) {
    static const struct {
        const char *text;
        mmsb_status_t code;
    } texts[] = {
        {"", MMSB_OK},
        {"memory_limit=64M simulate=off", MMSB_OK},
        {"simulated_devices=2,simulated_memory=1G,fallback=host", MMSB_OK},
        {"default_location=disk default_device=0 huge_pages=0 disk_path=/tmp", MMSB_OK},
        {"memory_limit=64Q", MMSB_E_INVALID_ARGUMENT},
        {"memory=1", MMSB_E_INVALID_ARGUMENT},
        {"fallback", MMSB_E_INVALID_ARGUMENT},
        {"simulate=always fallback=never", MMSB_E_INVALID_ARGUMENT},
    };
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    mmsb_context_options_t before = options;
    uint64_t index = below(sizeof texts / sizeof texts[0]);
    CALL(mmsb_context_options_parse(&options, texts[index].text), texts[index].code);
    SAME(texts[index].code != MMSB_OK && memcmp(&options, &before, sizeof options) != 0, 0);
    if (chance(20)) {
        CALL(mmsb_context_options_parse(chance(50) ? NULL : &options, NULL), MMSB_E_INVALID_ARGUMENT);
        options.struct_size = 1;
        CALL(mmsb_context_options_parse(&options, ""), MMSB_E_STRUCT_VERSION);
    }
}

/* ------------------------------------------------------------------------------------------------------- devices ---- */

/* A runtime lives for one operation, with a few streams, blocks, and uses, and a model of what it has. */
enum { STREAMS = 3, BLOCKS = 6, USES = 2, BUDGET = 1 << 20 };

static struct {
    mmsb_runtime_t runtime;
    mmsb_stream_t streams[STREAMS];
    struct {
        mmsb_block_t handle; /* 0 = none */
        uint8_t *address;
        uint64_t size;
        uint8_t filled;
        int uses;
    } blocks[BLOCKS];
    struct {
        mmsb_use_t handle;
        mmsb_block_t of;
        int block, begun;
    } uses[USES];
    uint64_t live, ended_blocks; /* bytes; handles that are stale: the last one */
    mmsb_stream_t ended_stream;
    mmsb_use_t ended_use;
    int budgeted, logged;
} device;

/* A handle that is none of this kind any more or never was. */
static pick_t no_handle(int kind, uint64_t ended) {
    switch (below(4)) {
    case 0:
        return (pick_t){0, NULL, MMSB_E_INVALID_HANDLE};
    case 1:
        return (pick_t){contexts[0].handle, NULL, MMSB_E_INVALID_HANDLE};
    case 2:
        return (pick_t){(uint64_t)kind << 60 | 1ULL << 59 | below(1000), NULL, MMSB_E_INVALID_HANDLE};
    default:
        return (pick_t){ended, NULL, ended != 0 ? MMSB_E_STALE_HANDLE : MMSB_E_INVALID_HANDLE};
    }
}

static mmsb_stream_t any_stream(void) {
    return device.streams[below(STREAMS)];
}

static void device_allocate(void) {
    int place = (int)below(BLOCKS);
    uint64_t size = chance(80) ? 1 + below(200000) : below(2) * (2 * BUDGET);
    mmsb_block_t block = 42;
    void *address = NULL;
    if (chance(15)) {
        pick_t bad = no_handle(MMSB_KIND_STREAM, device.ended_stream);
        CALL(mmsb_block_allocate(bad.handle, 64, 0, 0, &block, &address), bad.code);
        bad = no_handle(MMSB_KIND_RESERVATION, 0);
        CALL(mmsb_block_allocate(any_stream(), 64, 0, bad.handle, &block, &address), bad.handle == 0 ? MMSB_OK : bad.code);
        if (bad.handle == 0) {
            CALL(mmsb_block_free(block, 0, NULL), MMSB_OK);
            device.ended_blocks = block;
        }
        CALL(mmsb_block_allocate(any_stream(), 64, 0, 0, NULL, &address), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    if (device.blocks[place].handle != 0) {
        return;
    }
    mmsb_status_t code = size == 0 ? MMSB_E_INVALID_SIZE : MMSB_OK;
    if (device.budgeted && size > BUDGET - device.live) {
        code = MMSB_E_LIMIT;
    }
    if (CALL(mmsb_block_allocate(any_stream(), size, 0, 0, &block, &address), code) == MMSB_OK) {
        SAME((uintptr_t)address % 256, 0);
        device.blocks[place].handle = block;
        device.blocks[place].address = address;
        device.blocks[place].size = size;
        device.blocks[place].filled = (uint8_t)below(256);
        device.live += size;
        CALL(mmsb_stream_wait(any_stream(), MMSB_WAIT_FOREVER), MMSB_OK);
        mmsb_use_t use;
        mmsb_access_t access = {block, MMSB_ACCESS_WRITE, 0};
        mmsb_stream_t stream = any_stream();
        CALL(mmsb_use_begin(stream, &access, 1, &use, NULL), MMSB_OK);
        CALL(mmsb_stream_fill(stream, address, device.blocks[place].filled, size), MMSB_OK);
        CALL(mmsb_use_end(use), MMSB_OK);
        device.ended_use = use;
    } else {
        SAME(block, 42);
    }
}

static void device_free(void) {
    int place = (int)below(BLOCKS);
    int32_t deferred = -1;
    if (device.blocks[place].handle == 0 || chance(15)) {
        pick_t bad = no_handle(MMSB_KIND_BLOCK, device.ended_blocks);
        CALL(mmsb_block_free(bad.handle, 0, NULL), bad.handle == 0 ? MMSB_OK : bad.code);
        return;
    }
    if (chance(10)) {
        pick_t bad = no_handle(MMSB_KIND_STREAM, device.ended_stream);
        if (bad.handle != 0) {
            CALL(mmsb_block_free(device.blocks[place].handle, bad.handle, NULL), bad.code);
            return;
        }
    }
    if (device.blocks[place].uses > 0) {
        return; /* the uses come first here: tests/c/device_test.c has the frees that wait for them */
    }
    CALL(mmsb_block_free(device.blocks[place].handle, chance(50) ? 0 : any_stream(), &deferred), MMSB_OK);
    SAME(deferred, 0);
    device.ended_blocks = device.blocks[place].handle;
    device.live -= device.blocks[place].size;
    device.blocks[place].handle = 0;
}

static void device_look(void) {
    int place = (int)below(BLOCKS);
    mmsb_block_info_t info;
    mmsb_block_info_init(&info);
    if (device.blocks[place].handle == 0) {
        pick_t bad = no_handle(MMSB_KIND_BLOCK, device.ended_blocks);
        CALL(mmsb_block_info(bad.handle, &info), bad.code);
        return;
    }
    CALL(mmsb_block_info(device.blocks[place].handle, &info), MMSB_OK);
    SAME(info.address == device.blocks[place].address && info.bytes == device.blocks[place].size, 1);
    SAME(info.uses, (uint32_t)device.blocks[place].uses);
    info.struct_size = 3;
    CALL(mmsb_block_info(device.blocks[place].handle, &info), MMSB_E_STRUCT_VERSION);
    if (device.blocks[place].uses > 0) {
        return;
    }
    static uint8_t bytes[2 * BUDGET];
    mmsb_stream_t stream = any_stream();
    mmsb_use_t use;
    mmsb_access_t access = {device.blocks[place].handle, MMSB_ACCESS_READ, 0};
    CALL(mmsb_use_begin(stream, &access, 1, &use, NULL), MMSB_OK);
    CALL(mmsb_stream_copy(stream, bytes, device.blocks[place].address, device.blocks[place].size), MMSB_OK);
    CALL(mmsb_use_end(use), MMSB_OK);
    CALL(mmsb_stream_wait(stream, chance(50) ? MMSB_WAIT_FOREVER : UINT64_C(1000000000)), MMSB_OK);
    SAME(bytes[0], device.blocks[place].filled);
    SAME(bytes[device.blocks[place].size - 1], device.blocks[place].filled);
    device.ended_use = use;
}

static void device_use(void) {
    int at = (int)below(USES), place = (int)below(BLOCKS);
    size_t bad_index = 42;
    if (device.uses[at].handle != 0) {
        mmsb_use_t use = device.uses[at].handle;
        if (!device.uses[at].begun && chance(50)) {
            CALL(mmsb_use_end(use), MMSB_E_INVALID_STATE);
            if (device.blocks[device.uses[at].block].handle != device.uses[at].of) {
                CALL(mmsb_use_begin_recorded(use), MMSB_E_STALE_HANDLE);
                return;
            }
            CALL(mmsb_use_begin_recorded(use), MMSB_OK);
            device.uses[at].begun = 1;
            device.blocks[device.uses[at].block].uses++;
            CALL(mmsb_use_begin_recorded(use), MMSB_E_INVALID_STATE);
            return;
        }
        if (device.uses[at].begun && chance(50)) {
            CALL(mmsb_use_end(use), MMSB_OK);
        } else {
            CALL(mmsb_use_abort(use), MMSB_OK);
        }
        CALL(mmsb_use_end(use), MMSB_E_STALE_HANDLE);
        device.blocks[device.uses[at].block].uses -= device.uses[at].begun;
        device.ended_use = use;
        device.uses[at].handle = 0;
        return;
    }
    mmsb_use_t use = 42;
    if (device.blocks[place].handle == 0) {
        pick_t bad = no_handle(MMSB_KIND_BLOCK, device.ended_blocks);
        mmsb_access_t access = {bad.handle, MMSB_ACCESS_READ, 0};
        CALL(mmsb_use_begin(any_stream(), &access, 1, &use, &bad_index), bad.code);
        SAME(bad_index, 0);
        bad = no_handle(MMSB_KIND_USE, device.ended_use);
        CALL(chance(50) ? mmsb_use_end(bad.handle) : mmsb_use_abort(bad.handle), bad.code);
        CALL(mmsb_use_add(bad.handle, 0, MMSB_ACCESS_READ), bad.code);
        CALL(mmsb_use_record(any_stream(), 2, &use), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    /* Reads only: of one block there may be several, on any streams. */
    mmsb_access_t access = {device.blocks[place].handle, chance(85) ? MMSB_ACCESS_READ : 4, 0};
    mmsb_status_t code = access.access == MMSB_ACCESS_READ ? MMSB_OK : MMSB_E_INVALID_ARGUMENT;
    if (chance(50)) {
        CALL(mmsb_use_begin(any_stream(), &access, 1, &use, NULL), code);
        device.uses[at].begun = 1;
    } else {
        CALL(mmsb_use_record(any_stream(), 1, &use), MMSB_OK);
        CALL(mmsb_use_add(use, 0, MMSB_ACCESS_WRITE), MMSB_OK);
        if (CALL(mmsb_use_add(use, access.block, access.access), code) != MMSB_OK) {
            CALL(mmsb_use_abort(use), MMSB_OK);
        }
        device.uses[at].begun = 0;
    }
    if (code == MMSB_OK) {
        device.uses[at].handle = use;
        device.uses[at].of = device.blocks[place].handle;
        device.uses[at].block = place;
        device.blocks[place].uses += device.uses[at].begun;
    }
}

static void device_stream(void) {
    mmsb_stream_t stream = any_stream(), other = 42;
    pick_t bad = no_handle(MMSB_KIND_STREAM, device.ended_stream);
    void *native = NULL;
    uint8_t byte = 0;
    switch (below(7)) {
    case 0:
        CALL(mmsb_stream_native(stream, &native), MMSB_OK);
        SAME(native != NULL, 1);
        CALL(mmsb_stream_native(bad.handle, &native), bad.code);
        break;
    case 1: {
        mmsb_ticket_t ticket;
        CALL(mmsb_stream_record(stream, &ticket), MMSB_OK);
        CALL(mmsb_stream_after(any_stream(), ticket), MMSB_OK);
        CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
        CALL(mmsb_ticket_destroy(ticket), MMSB_OK);
        CALL(mmsb_stream_after(stream, ticket), MMSB_E_STALE_HANDLE);
        CALL(mmsb_stream_record(stream, NULL), MMSB_E_INVALID_ARGUMENT);
        break;
    }
    case 2:
        CALL(mmsb_stream_wrap(device.runtime, NULL, &other), MMSB_OK);
        CALL(mmsb_stream_wrap(device.runtime, NULL, &other), MMSB_E_ALREADY_EXISTS);
        CALL(mmsb_stream_destroy(other), MMSB_OK);
        CALL(mmsb_stream_destroy(other), MMSB_E_STALE_HANDLE);
        break;
    case 3:
        CALL(mmsb_stream_create(device.runtime, 7, &other), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_stream_create(device.runtime, chance(50) ? 0 : -1, &other), MMSB_E_LIMIT);
        CALL(mmsb_stream_destroy(bad.handle), bad.handle == 0 ? MMSB_OK : bad.code);
        break;
    case 4: {
        int at = (int)below(STREAMS);
        CALL(mmsb_stream_destroy(device.streams[at]), MMSB_OK);
        device.ended_stream = device.streams[at];
        CALL(mmsb_stream_create(device.runtime, 0, &device.streams[at]), MMSB_OK);
        break;
    }
    case 5:
        CALL(mmsb_stream_copy(stream, NULL, &byte, 1), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_stream_copy(stream, &byte, &byte, UINT64_MAX), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_stream_fill(stream, &byte, 1, 1), MMSB_E_INVALID_ARGUMENT); /* memory of the host */
        CALL(mmsb_stream_fill(stream, NULL, 1, 1), MMSB_E_INVALID_ARGUMENT);
        break;
    default:
        CALL(mmsb_stream_wait(bad.handle, 0), bad.code);
        CALL(mmsb_stream_wait(stream, MMSB_WAIT_FOREVER), MMSB_OK);
        CALL(mmsb_stream_wait(stream, 0), MMSB_OK);
    }
}

static void device_runtime(void) {
    pick_t bad = no_handle(MMSB_KIND_RUNTIME, 0);
    mmsb_runtime_stats_t stats;
    mmsb_runtime_stats_init(&stats);
    uint64_t left = 42;
    switch (below(5)) {
    case 0:
        CALL(mmsb_runtime_stats(device.runtime, &stats), MMSB_OK);
        SAME(stats.live, device.live);
        SAME(stats.outstanding, stats.live + stats.pending);
        SAME(stats.streams, STREAMS);
        SAME(device.budgeted ? stats.budget : stats.budget + BUDGET, BUDGET);
        CALL(mmsb_runtime_stats(bad.handle, &stats), bad.code);
        stats.reserved[3] = 1;
        CALL(mmsb_runtime_stats(device.runtime, &stats), MMSB_E_STRUCT_VERSION);
        break;
    case 1:
        CALL(mmsb_runtime_reap(device.runtime), MMSB_OK);
        CALL(mmsb_runtime_trim(device.runtime, below(1 << 20)), MMSB_OK);
        CALL(mmsb_runtime_reap(bad.handle), bad.code);
        CALL(mmsb_runtime_trim(bad.handle, 0), bad.code);
        break;
    case 2: {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        CALL(mmsb_runtime_log_write(device.runtime, null), device.logged ? MMSB_OK : MMSB_E_INVALID_STATE);
        close(null);
        break;
    }
    case 3: {
        mmsb_tag_t tag, again;
        mmsb_tag_stats_t of;
        CALL(mmsb_tag_of("fuzz", &tag), MMSB_OK);
        CALL(mmsb_tag_of("fuzz", &again), MMSB_OK);
        SAME(tag, again);
        CALL(mmsb_tag_of("\xFF\xFE", &tag), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_tag_of(NULL, &tag), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_runtime_tag_stats(device.runtime, 0, &of), MMSB_OK);
        SAME(of.live >= device.live, 1);
        CALL(mmsb_runtime_tag_stats(device.runtime, 1 << 30, &of), MMSB_E_INVALID_ARGUMENT);
        break;
    }
    default: {
        mmsb_reservation_t reservation = 42;
        uint64_t bytes = 1 + below(1000);
        mmsb_status_t code = !device.budgeted ? MMSB_E_INVALID_STATE : bytes > BUDGET - device.live ? MMSB_E_LIMIT : MMSB_OK;
        if (CALL(mmsb_reservation_create(device.runtime, bytes, &reservation), code) == MMSB_OK) {
            CALL(mmsb_reservation_destroy(reservation, &left), MMSB_OK);
            SAME(left, bytes);
            CALL(mmsb_reservation_destroy(reservation, &left), MMSB_E_STALE_HANDLE);
        }
        CALL(mmsb_reservation_destroy(0, NULL), MMSB_OK);
    }
    }
}

static void fuzz_device(void) {
    static void (*const steps[])(void) = {device_allocate, device_allocate, device_free,   device_look,
                                          device_use,      device_use,      device_stream, device_runtime};
    mmsb_context_t context = contexts[any_context()].handle;
    mmsb_device_info_t devices[2];
    size_t count = 42;
    memset(&device, 0, sizeof device);
    mmsb_runtime_options_t options;
    mmsb_runtime_options_init(&options);
    if (chance(20)) {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_device_list(bad.handle, devices, 2, &count), bad.code);
        CALL(mmsb_runtime_shared(bad.handle, 0, &device.runtime), bad.code);
        CALL(mmsb_runtime_create(bad.handle, 0, NULL, &device.runtime), bad.code);
        CALL(mmsb_runtime_create(context, no_device(), NULL, &device.runtime), MMSB_E_NO_DEVICE);
        CALL(mmsb_runtime_shared(context, no_device(), &device.runtime), MMSB_E_NO_DEVICE);
        options.streams = 0;
        CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_E_INVALID_ARGUMENT);
        options.streams = 1;
        options.ledger = "";
        CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_E_INVALID_ARGUMENT);
        options.reserved[1] = 1;
        CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_E_STRUCT_VERSION);
        CALL(mmsb_runtime_destroy(0), MMSB_OK);
        return;
    }
    CALL(mmsb_device_list(context, devices, 2, &count), MMSB_OK);
    SAME(count == 1 && devices[0].simulated == 1 && devices[0].ordinal == 0, 1);
    mmsb_runtime_t shared, again;
    CALL(mmsb_runtime_shared(context, 0, &shared), MMSB_OK);
    CALL(mmsb_runtime_shared(context, 0, &again), MMSB_OK);
    SAME(shared, again);
    CALL(mmsb_runtime_destroy(shared), MMSB_E_INVALID_STATE);
    options.streams = STREAMS;
    device.budgeted = chance(50);
    device.logged = chance(50);
    options.budget = device.budgeted ? BUDGET : 0;
    options.log_events = device.logged ? 1 + below(100) : 0;
    options.guard_every = chance(30) ? 1 + below(3) : 0;
    CALL(mmsb_runtime_create(context, 0, &options, &device.runtime), MMSB_OK);
    for (int i = 0; i < STREAMS; i++) {
        CALL(mmsb_stream_create(device.runtime, 0, &device.streams[i]), MMSB_OK);
    }
    for (uint64_t i = 20 + below(40); i > 0; i--) {
        steps[below(sizeof steps / sizeof steps[0])]();
    }
    CALL(mmsb_runtime_destroy(device.runtime), MMSB_OK);
    CALL(mmsb_runtime_reap(device.runtime), MMSB_E_STALE_HANDLE);
    CALL(mmsb_stream_wait(any_stream(), 0), MMSB_E_STALE_HANDLE);
    for (int i = 0; i < BLOCKS; i++) {
        if (device.blocks[i].handle != 0) {
            CALL(mmsb_block_free(device.blocks[i].handle, 0, NULL), MMSB_E_STALE_HANDLE);
        }
    }
}

static void fuzz_library(void) {
    uint64_t count = 42;
    size_t length = 42;
    switch (below(9)) {
    case 0: {
        int32_t kind = (int32_t)below(16) - 1;
        CALL(mmsb_debug_live_objects(kind, &count),
             kind >= MMSB_KIND_PAGE && kind <= MMSB_KIND_RESERVATION && kind != 10 ? MMSB_OK : MMSB_E_INVALID_ARGUMENT);
        break;
    }
    case 1: {
        mmsb_capability_t records[32];
        size_t capacity = below(33);
        CALL(mmsb_capabilities(NULL, 0, &length), MMSB_OK);
        CALL(mmsb_capabilities(records, capacity, &count), capacity > 0 && capacity < length ? MMSB_E_OUT_OF_RANGE : MMSB_OK);
        SAME(count, length);
        break;
    }
    case 2: {
        mmsb_memory_usage_t usage;
        mmsb_memory_usage_init(&usage);
        int fault = chance(20);
        usage.struct_size += (uint32_t)fault;
        CALL(mmsb_memory_usage(&usage), fault ? MMSB_E_STRUCT_VERSION : MMSB_OK);
        break;
    }
    case 3: {
        int32_t level = (int32_t)below(7) - 1;
        CALL(mmsb_log_configure(level, -1), level >= MMSB_LOG_OFF && level <= MMSB_LOG_DEBUG ? MMSB_OK : MMSB_E_INVALID_ARGUMENT);
        break;
    }
    case 4: {
        char lines[65536];
        CALL(mmsb_log_read(lines, sizeof lines, &length, &count), MMSB_OK);
        SAME(length > 0 && lines[length - 1] != '\n', 0);
        CALL(mmsb_log_read(lines, sizeof lines, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
        break;
    }
    case 5: {
        char text[600];
        mmsb_page_info(0, NULL);
        SAME(mmsb_last_error_copy(text, sizeof text, &length), MMSB_OK);
        SAME(length, strlen(mmsb_last_error()));
        SAME(mmsb_last_error_copy(text, below(length + 1), NULL), MMSB_E_OUT_OF_RANGE);
        SAME(mmsb_last_error_copy(NULL, 5, NULL), MMSB_E_INVALID_ARGUMENT);
        break;
    }
    case 6: {
        mmsb_error_detail_t detail;
        mmsb_error_detail_init(&detail);
        mmsb_status_t code = mmsb_last_error_code();
        SAME(mmsb_last_error_detail(&detail), MMSB_OK);
        SAME(detail.code, code);
        detail.struct_size = 0;
        SAME(mmsb_last_error_detail(&detail), MMSB_E_STRUCT_VERSION);
        SAME(mmsb_last_error_detail(NULL), MMSB_E_INVALID_ARGUMENT);
        break;
    }
    case 7:
        SAME(mmsb_sizeof(MMSB_STRUCT_DELTA), sizeof(mmsb_delta_t));
        SAME(mmsb_sizeof((int32_t)(100 + below(1000))), 0);
        SAME(mmsb_abi_version(), MMSB_ABI_VERSION);
        SAME(strcmp(mmsb_version(), MMSB_VERSION_STRING), 0);
        SAME(mmsb_build_info()[0] != 0, 1);
        break;
    default:
        SAME(mmsb_strerror((mmsb_status_t)below(100))[0] != 0, 1);
    }
}

/* ------------------------------------------------------------------------------------------------------------- main ---- */

static const struct {
    void (*fuzz)(void);
    uint64_t weight;
} operations[] = {
    {fuzz_create, 12},        {fuzz_create_many, 3}, {fuzz_clone, 3},       {fuzz_adopt, 2},      {fuzz_destroy, 7},
    {fuzz_destroy_many, 2},   {fuzz_release, 2},     {fuzz_memory_free, 2}, {fuzz_lookup, 3},     {fuzz_info, 3},
    {fuzz_getters, 3},        {fuzz_pin, 4},         {fuzz_unpin, 6},       {fuzz_read, 5},       {fuzz_write, 6},
    {fuzz_ranges_of_many, 4}, {fuzz_resize, 5},      {fuzz_migrate, 2},     {fuzz_apply, 8},      {fuzz_apply_many, 5},
    {fuzz_apply_runs, 5},     {fuzz_validate, 2},    {fuzz_merge, 3},       {fuzz_convert, 3},    {fuzz_from_pages, 3},
    {fuzz_owned_delta, 6},    {fuzz_mask, 5},        {fuzz_metadata, 8},    {fuzz_dependency, 5}, {fuzz_dependency_lists, 2},
    {fuzz_context, 3},        {fuzz_end_context, 1}, {fuzz_shutdown, 1},    {fuzz_ticket, 5},     {fuzz_options_text, 2},
    {fuzz_device, 1},         {fuzz_library, 3},     {fuzz_snapshot, 1},    {fuzz_journal, 1},    {fuzz_snapshot_file, 1},
};

int main(int count, char **arguments) {
    uint64_t wanted = count > 1 ? strtoull(arguments[1], NULL, 10) : 30000;
    first_seed = count > 2 ? strtoull(arguments[2], NULL, 10) : (uint64_t)time(NULL) * 1000003 ^ (uint64_t)getpid();
    seed = first_seed;
    printf("fuzz_test %llu %llu\n", (unsigned long long)wanted, (unsigned long long)first_seed);
    fflush(stdout);
    uint64_t weights = 0;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        weights += operations[i].weight;
    }
    REQUIRE(mkdtemp(folder) != NULL);
    REQUIRE(setenv("MMSB_SIMULATE", "always", 1) == 0);
    for (int i = 0; i < CONTEXTS; i++) {
        open_context(i);
    }
    for (uint64_t round = 0; calls < wanted; round++) {
        uint64_t at = below(weights);
        size_t i = 0;
        while (at >= operations[i].weight) {
            at -= operations[i++].weight;
        }
        operations[i].fuzz();
        if (round % 2000 == 0) {
            check_everything();
        }
    }
    check_everything();
    for (int i = 0; i < CONTEXTS; i++) {
        int before = releases;
        CALL(mmsb_context_destroy(contexts[i].handle), MMSB_OK);
        context_ended(i, before);
    }
    for (int i = 0; i < TICKETS; i++) {
        CALL(mmsb_ticket_destroy(tickets[i]), MMSB_OK);
    }
    for (int i = 0; i < DELTAS; i++) {
        CALL(mmsb_delta_free(deltas[i]), MMSB_OK);
    }
    for (int i = 0; i < MEMORIES; i++) {
        CALL(mmsb_memory_free(memories[i].address), MMSB_OK);
    }
    for (int32_t kind = MMSB_KIND_PAGE; kind <= MMSB_KIND_SNAPSHOT; kind++) {
        SAME(check_live(kind), 0);
    }
    remove_files(folder);
    rmdir(folder);
    double share = 100.0 * (double)succeeded / (double)calls;
    printf("%llu calls, %.1f %% succeeded (at least 30 %% must)\n", (unsigned long long)calls, share);
    printf("%d passed, %d failed\n", share >= 30, share < 30);
    return share < 30;
}
