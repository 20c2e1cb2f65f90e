/*
 * The model: what the library should have. Handles that are good or bad in all ways; values that are left to chance.
 */
#include "fuzz.h"

context_t contexts[CONTEXTS];
page_t pages[PAGES];
edge_t edges[EDGES];
int edge_count;
mmsb_delta_t *deltas[DELTAS];
memory_t memories[MEMORIES];
mmsb_ticket_t tickets[TICKETS];
int releases;
uint64_t next_id = 1;
const char *const keys[KEYS] = {"a", "name", "a longer key of more bytes", "\xC3\xA4", "k\x01", "kind"};

/* Handles that ended, by kind: pages, contexts, tickets. */
enum { STALE = 64 };
static uint64_t stale[MMSB_KIND_TICKET + 1][STALE];
static int stale_count[MMSB_KIND_TICKET + 1];

void remember_stale(int kind, uint64_t handle) {
    stale[kind][stale_count[kind]++ % STALE] = handle;
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

pick_t bad_handle(int kind) {
    int known = stale_count[kind] < STALE ? stale_count[kind] : STALE;
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
        return (pick_t){stale[kind][below((uint64_t)known)], NULL, MMSB_E_STALE_HANDLE};
    }
}

page_t *any_page(void) {
    uint64_t start = below(PAGES);
    for (uint64_t i = 0; i < PAGES; i++) {
        page_t *page = &pages[(start + i) % PAGES];
        if (page->handle != 0) {
            return page;
        }
    }
    return NULL;
}

page_t *free_slot(void) {
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle == 0) {
            return &pages[i];
        }
    }
    return NULL;
}

pick_t pick_page(uint64_t percent_bad) {
    page_t *page = any_page();
    if (page == NULL || chance(percent_bad)) {
        return bad_handle(MMSB_KIND_PAGE);
    }
    return (pick_t){page->handle, page, MMSB_OK};
}

int any_context(void) {
    int context;
    do {
        context = (int)below(CONTEXTS);
    } while (contexts[context].handle == 0);
    return context;
}

int pinned(const page_t *page) {
    return page->pins[MMSB_PIN_READ] + page->pins[MMSB_PIN_WRITE] > 0;
}

/* Whether a batch's pages are of several contexts, one of which has a journal: no batch is in two journals. */
int mixes_journals(page_t *const *chosen, size_t count) {
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

uint64_t any_size(void) {
    static const uint64_t usual[] = {1, 64, 100, 256, 1000};
    return chance(60) ? usual[below(5)] : 1 + below(LARGEST);
}

/* A page that has just been made enters the model; what is not known of it yet comes from its info. */
page_t *enter(page_t *page, mmsb_page_t handle, int context, uint64_t size, int location) {
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

void leave(page_t *page) {
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

int id_is_used(int context, uint64_t id) {
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == context && pages[i].id == id) {
            return 1;
        }
    }
    return 0;
}

int any_location(void) {
    return chance(8) ? MMSB_LOCATION_DISK : chance(15) ? device_location() : MMSB_LOCATION_CPU;
}

/* The one device of each context is simulated: 0. */
int device_location(void) {
    static const int locations[] = {MMSB_LOCATION_GPU, MMSB_LOCATION_UNIFIED, MMSB_LOCATION_PINNED};
    return locations[below(3)];
}

int32_t unknown_location(void) {
    return MMSB_LOCATION_DISK + 1 + (int32_t)below(1000);
}

int32_t no_device(void) {
    return 1 + (int32_t)below(100);
}

/* ------------------------------------------------------------------------------------------------------ rollback ---- */

static struct {
    context_t contexts[CONTEXTS];
    page_t pages[PAGES];
    edge_t edges[EDGES];
    int edge_count;
    uint64_t stale[MMSB_KIND_TICKET + 1][STALE];
    int stale_count[MMSB_KIND_TICKET + 1];
} kept;

void keep_model(void) {
    memcpy(kept.contexts, contexts, sizeof contexts);
    memcpy(kept.pages, pages, sizeof pages);
    memcpy(kept.edges, edges, sizeof edges);
    memcpy(kept.stale, stale, sizeof stale);
    memcpy(kept.stale_count, stale_count, sizeof stale_count);
    kept.edge_count = edge_count;
}

int was_kept(mmsb_page_t handle) {
    int found = 0;
    for (int i = 0; i < PAGES; i++) {
        found |= kept.pages[i].handle == handle;
    }
    return found;
}

void restore_model(void) {
    mmsb_page_t ended[PAGES];
    int ended_count = 0;
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && !was_kept(pages[i].handle)) {
            free(pages[i].adopted);
            ended[ended_count++] = pages[i].handle;
        }
    }
    memcpy(contexts, kept.contexts, sizeof contexts);
    memcpy(pages, kept.pages, sizeof pages);
    memcpy(edges, kept.edges, sizeof edges);
    memcpy(stale, kept.stale, sizeof stale);
    memcpy(stale_count, kept.stale_count, sizeof stale_count);
    edge_count = kept.edge_count;
    for (int i = 0; i < ended_count; i++) {
        remember_stale(MMSB_KIND_PAGE, ended[i]);
    }
}
