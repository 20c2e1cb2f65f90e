/* Pages in two places: syncs of one, of many, those that wait, and prefetches; the copy on the host, which may be pinned. */
#include "fuzz.h"

static int any_direction(void) {
    static const int winners[] = {0, 0, MMSB_SYNC_HOST_WINS, MMSB_SYNC_DEVICE_WINS};
    return MMSB_SYNC_TO_DEVICE + (int)below(3) + winners[below(4)] + (chance(30) ? MMSB_SYNC_PINNED : 0);
}

static int no_direction(void) {
    static const int none[] = {0, MMSB_SYNC_HOST_WINS, MMSB_SYNC_DEVICE_WINS, MMSB_SYNC_PINNED, 13, 15, 29, 33, -1};
    return none[below(sizeof none / sizeof none[0])];
}

static int moves(const page_t *page, int direction) {
    return direction & MMSB_SYNC_TO_DEVICE && page->location != MMSB_LOCATION_GPU && page->location != MMSB_LOCATION_UNIFIED;
}

static size_t places(page_t *page);

/* How many things are wrong with a sync of the page, and the code where it is one. */
static int wrong_with(page_t *page, int direction, int32_t device, mmsb_status_t *code) {
    int wrong = 0;
    *code = MMSB_OK;
    places(page);
    int both = (direction & MMSB_SYNC_BOTH) == MMSB_SYNC_BOTH; /* which does nothing to a page with one memory */
    if (device != 0 && direction & MMSB_SYNC_TO_DEVICE && !(both && page->location == MMSB_LOCATION_UNIFIED)) {
        *code = MMSB_E_NO_DEVICE;
        wrong++;
    } else if (!moves(page, direction)) {
        return 0;
    }
    if (pinned(page)) {
        *code = MMSB_E_BUSY;
        wrong++;
    }
    if (page->adopted != NULL) {
        *code = MMSB_E_INVALID_STATE;
        wrong++;
    }
    return wrong;
}

/* In how many places the page is, as the library lists them. page->copy is where its copy on the host is. */
static size_t places(page_t *page) {
    mmsb_page_copy_t copies[2];
    size_t count = UNTOUCHED;
    CALL(mmsb_page_copies(page->handle, copies, 2, &count), MMSB_OK);
    SAME(copies[0].location, page->location);
    SAME(copies[0].device == 0 && copies[0].size == page->size && copies[0].newer <= page->size, 1);
    SAME(count == 1 || (count == 2 && page->location == MMSB_LOCATION_GPU), 1);
    if (count == 2) {
        SAME(copies[1].location == MMSB_LOCATION_CPU || copies[1].location == MMSB_LOCATION_PINNED, 1);
        page->copy = copies[1].location;
        SAME(copies[1].device == 0 && copies[1].size == page->size && copies[1].newer <= page->size, 1);
        SAME(copies[1].newer % 64 == 0 || page->size % 64 != 0, 1);
    } else {
        page->copy = NOWHERE;
        SAME(copies[0].newer, 0);
    }
    return count;
}

/* The page is in step, unless the program has the address of one side. */
static void synced(page_t *page, int direction) {
    int guarded = page->location == MMSB_LOCATION_CPU && page->context == GUARDED_CONTEXT; /* perhaps it is */
    int on_host = page->location == MMSB_LOCATION_CPU || page->location == MMSB_LOCATION_PINNED;
    int kept_its_memory = on_host && !guarded && !in_groups, moved = moves(page, direction);
    int copy = moved && kept_its_memory ? page->location : page->copy;
    if (copy == NOWHERE && direction & MMSB_SYNC_TO_HOST) {
        copy = direction & MMSB_SYNC_PINNED ? MMSB_LOCATION_PINNED : MMSB_LOCATION_CPU;
    }
    if (moved) {
        page->location = MMSB_LOCATION_GPU;
        page->exposed = 1;
    }
    check_version(page, moved ? MOVES : STAYS);
    size_t count = places(page);
    if (page->location == MMSB_LOCATION_GPU && (direction & MMSB_SYNC_TO_HOST || (moved && kept_its_memory))) {
        SAME(count, 2);
    }
    if (count == 2 && !(guarded && moved)) {
        SAME(page->copy, copy);
    }
    mmsb_page_copy_t copies[2];
    if (count == 2) {
        CALL(mmsb_page_copies(page->handle, copies, 2, &count), MMSB_OK);
        SAME(direction & MMSB_SYNC_TO_DEVICE && copies[1].newer != 0, 0);
        SAME(direction & MMSB_SYNC_TO_HOST && !pinned(page) && !page->exposed && copies[0].newer != 0, 0);
    }
    check_page(page);
}

void fuzz_sync(void) {
    pick_t target = pick_page(8);
    page_t *page = target.page;
    mmsb_status_t code = target.code;
    int direction = any_direction();
    int32_t device = chance(10) ? no_device() : 0;
    if (chance(8)) {
        CALL(mmsb_page_sync(target.handle, no_direction(), 0), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_page_sync(target.handle, direction, -1 - (int32_t)below(10)), MMSB_E_INVALID_ARGUMENT);
    } else if (page == NULL || wrong_with(page, direction, device, &code) < 2) {
        CALL(mmsb_page_sync(target.handle, direction, device), code);
        if (page != NULL && code == MMSB_OK) {
            synced(page, direction);
        }
    }
    if (page != NULL) {
        check_version(page, STAYS);
        check_page(page);
    }
}

/* ------------------------------------------------------------------------------------------------------ many pages ---- */

enum { MOST = 5 };

/* Through a ticket: a bad handle is refused at once. */
static void sync_beside(const mmsb_page_t *list, size_t count, int direction, mmsb_status_t *statuses, mmsb_status_t code,
                        int bad_handles) {
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    mmsb_ticket_t ticket = UNTOUCHED;
    mmsb_status_t at_once = bad_handles ? code : in_groups ? MMSB_E_INVALID_STATE : MMSB_OK;
    if (CALL(mmsb_page_sync_many_start(list, count, direction, 0, chance(50) ? &work : NULL, statuses, &ticket), at_once) !=
        MMSB_OK) {
        SAME(ticket, UNTOUCHED);
        return;
    }
    CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), code);
    CALL(mmsb_ticket_destroy(ticket), MMSB_OK);
    remember_stale(MMSB_KIND_TICKET, ticket);
}

static void refused_many(const mmsb_page_t *list, size_t count) {
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    mmsb_ticket_t ticket = UNTOUCHED;
    mmsb_status_t statuses[MOST] = {UNTOUCHED};
    switch (below(4)) {
    case 0:
        CALL(mmsb_page_sync_many(list, count, no_direction(), 0, NULL, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_page_sync_many_start(list, count, no_direction(), 0, NULL, statuses, &ticket), MMSB_E_INVALID_ARGUMENT);
        break;
    case 1:
        CALL(mmsb_page_sync_many(list, count, any_direction(), -1, NULL, statuses, NULL), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_page_sync_many(NULL, 1 + below(5), any_direction(), 0, NULL, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
        break;
    case 2:
        work.reserved[below(4)] = 1;
        CALL(mmsb_page_sync_many(list, count, any_direction(), 0, &work, statuses, NULL), MMSB_E_STRUCT_VERSION);
        CALL(mmsb_page_sync_many_start(list, count, any_direction(), 0, &work, statuses, &ticket), MMSB_E_STRUCT_VERSION);
        break;
    default:
        CALL(mmsb_page_sync_many_start(list, count, any_direction(), 0, NULL, statuses, NULL), MMSB_E_INVALID_ARGUMENT);
    }
    SAME(ticket, UNTOUCHED);
    SAME(statuses[0], UNTOUCHED);
}

void fuzz_sync_many(void) {
    mmsb_page_t list[MOST];
    page_t *chosen[MOST] = {NULL};
    mmsb_status_t own[MOST], statuses[MOST];
    size_t count = below(MOST + 1), bad = UNTOUCHED, expected_bad = UNTOUCHED;
    mmsb_status_t code = MMSB_OK;
    int direction = any_direction(), bad_handles = 0;
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(3);
        list[i] = target.handle;
        chosen[i] = target.page;
        own[i] = target.code;
        statuses[i] = UNTOUCHED;
        bad_handles += target.page == NULL;
        if (target.page != NULL && wrong_with(target.page, direction, 0, &own[i]) > 1) {
            return;
        }
        const int first_handle = target.page == NULL && bad_handles == 1; /* the handles come first */
        if (first_handle || (code == MMSB_OK && own[i] != MMSB_OK)) {
            code = own[i];
            expected_bad = i;
        }
    }
    if (chance(8)) {
        refused_many(list, count);
        return;
    }
    int with_statuses = chance(50), beside = chance(40);
    if (beside) {
        sync_beside(list, count, direction, with_statuses ? statuses : NULL, code, bad_handles);
    } else {
        CALL(mmsb_page_sync_many(list, count, direction, 0, NULL, with_statuses ? statuses : NULL, &bad), code);
        SAME(bad, code == MMSB_OK ? UNTOUCHED : expected_bad);
    }
    int ran = !bad_handles && !(beside && in_groups);
    for (size_t i = 0; i < count; i++) {
        SAME(statuses[i], ran && with_statuses ? own[i] : UNTOUCHED);
        if (ran && chosen[i] != NULL && own[i] == MMSB_OK) {
            synced(chosen[i], direction);
        } else if (chosen[i] != NULL) {
            check_page(chosen[i]);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- syncs that wait ---- */

static page_t *page_of(mmsb_page_t handle) {
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle == handle) {
            return &pages[i];
        }
    }
    return NULL;
}

static void enqueue(void) {
    mmsb_page_t list[MOST];
    size_t count = below(MOST + 1), bad = UNTOUCHED, expected_bad = UNTOUCHED;
    mmsb_status_t code = MMSB_OK;
    int direction = any_direction() & MMSB_SYNC_BOTH, index = -1;
    int32_t device = chance(5) ? no_device() : 0;
    for (size_t i = 0; i < count; i++) {
        pick_t target = pick_page(2);
        for (int k = 0; k < 10 && target.page != NULL && index >= 0 && target.page->context != index; k++) {
            target = pick_page(2);
        }
        mmsb_status_t own = target.code;
        list[i] = target.handle;
        if (target.page != NULL) {
            index = index < 0 ? target.page->context : index;
            own = index == target.page->context ? MMSB_OK : MMSB_E_MISMATCH;
        }
        if (code == MMSB_OK && own != MMSB_OK) {
            code = own;
            expected_bad = i;
        }
    }
    if (chance(5)) {
        CALL(mmsb_page_sync_enqueue(list, count, no_direction(), 0, NULL), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_page_sync_enqueue(list, count, direction, -1, NULL), MMSB_E_INVALID_ARGUMENT);
        CALL(mmsb_page_sync_enqueue(NULL, 1, direction, 0, &bad), MMSB_E_INVALID_ARGUMENT);
        return;
    }
    if (index >= 0 && contexts[index].waiting_count + (int)count > WAITING) {
        return;
    }
    CALL(mmsb_page_sync_enqueue(list, count, direction, device, &bad), code);
    SAME(bad, expected_bad);
    for (size_t i = 0; code == MMSB_OK && i < count; i++) {
        context_t *context = &contexts[index];
        int k = 0;
        while (k < context->waiting_count && context->waiting[k].page != list[i]) {
            k++;
        }
        if (k == context->waiting_count) {
            context->waiting[context->waiting_count++] = (waiting_t){list[i], 0, 0};
        }
        context->waiting[k].direction |= direction;
        context->waiting[k].device = device;
    }
}

static void drain(void) {
    int index = any_context(), left = 0;
    context_t *context = &contexts[index];
    mmsb_status_t code = MMSB_OK, own[WAITING];
    uint64_t done = UNTOUCHED, expected = 0;
    for (int i = 0; i < context->waiting_count; i++) {
        const waiting_t *w = &context->waiting[i];
        page_t *page = page_of(w->page);
        own[i] = MMSB_OK;
        if (page == NULL) {
            continue;
        }
        if (wrong_with(page, w->direction, w->device, &own[i]) > 1) {
            return;
        }
        expected += own[i] == MMSB_OK;
        code = code == MMSB_OK ? own[i] : code;
    }
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    CALL(mmsb_context_sync_drain(context->handle, chance(50) ? &work : NULL, &done), code);
    SAME(done, expected);
    for (int i = 0; i < context->waiting_count; i++) {
        const waiting_t w = context->waiting[i];
        page_t *page = page_of(w.page);
        if (page != NULL && own[i] == MMSB_OK) {
            synced(page, w.direction);
        } else if (page != NULL) {
            check_version(page, STAYS);
            context->waiting[left++] = w;
        }
    }
    context->waiting_count = left;
}

static void prefetch(void) {
    int index = any_context(), beside = chance(40);
    mmsb_context_t context = contexts[index].handle;
    uint64_t ids[MOST], done = UNTOUCHED, expected = 0;
    page_t *chosen[MOST] = {NULL};
    mmsb_status_t code = MMSB_OK, own[MOST];
    size_t count = below(MOST + 1);
    for (size_t i = 0; i < count; i++) {
        page_t *page = any_page();
        ids[i] = (1ULL << 58) + below(1000); /* that no page has */
        if (page != NULL && page->context == index) {
            ids[i] = page->id;
            chosen[i] = page;
            if (wrong_with(page, MMSB_SYNC_TO_DEVICE, 0, &own[i]) > 1) {
                return;
            }
            expected += own[i] == MMSB_OK;
            code = code == MMSB_OK ? own[i] : code;
        }
    }
    mmsb_ticket_t ticket = UNTOUCHED;
    if (beside) {
        CALL(mmsb_context_prefetch_start(context, ids, count, 0, NULL, &ticket), MMSB_OK);
        CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), code);
        CALL(mmsb_ticket_destroy(ticket), MMSB_OK);
        remember_stale(MMSB_KIND_TICKET, ticket);
    } else {
        CALL(mmsb_context_prefetch(context, ids, count, 0, NULL, &done), code);
        SAME(done, expected);
    }
    for (size_t i = 0; i < count; i++) {
        if (chosen[i] != NULL && own[i] == MMSB_OK) {
            synced(chosen[i], MMSB_SYNC_TO_DEVICE);
        }
    }
}

static void refused(void) {
    pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
    mmsb_context_t context = contexts[any_context()].handle;
    mmsb_work_options_t work;
    mmsb_ticket_t ticket = UNTOUCHED;
    uint64_t id = 1;
    mmsb_work_options_init(&work);
    work.struct_size--;
    CALL(mmsb_context_sync_drain(bad.handle, NULL, NULL), bad.code);
    CALL(mmsb_context_sync_drain(context, &work, NULL), MMSB_E_STRUCT_VERSION);
    CALL(mmsb_context_prefetch(bad.handle, &id, 1, 0, NULL, NULL), bad.code);
    CALL(mmsb_context_prefetch(context, &id, 1, -1, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_context_prefetch(context, NULL, 1, 0, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_context_prefetch(context, &id, 1, 0, &work, NULL), MMSB_E_STRUCT_VERSION);
    CALL(mmsb_context_prefetch_start(bad.handle, &id, 1, 0, NULL, &ticket), bad.code);
    CALL(mmsb_context_prefetch_start(context, &id, 1, -1, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_context_prefetch_start(context, &id, 1, 0, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    SAME(ticket, UNTOUCHED);
}

void fuzz_syncs_that_wait(void) {
    switch (below(10)) {
    case 0:
        refused();
        break;
    case 1:
    case 2:
        drain();
        break;
    case 3:
    case 4:
    case 5:
        prefetch();
        break;
    default:
        enqueue();
    }
}

/* ------------------------------------------------------------------------------------------- the copy on the host ---- */

static void drop(const pick_t target) {
    page_t *page = target.page;
    mmsb_status_t code = target.code;
    if (page != NULL && page->host_pins[MMSB_PIN_READ] + page->host_pins[MMSB_PIN_WRITE] > 0) {
        code = MMSB_E_BUSY;
    }
    CALL(mmsb_page_host_copy_drop(target.handle), code);
    if (page != NULL) {
        SAME(places(page), code == MMSB_OK ? 1 : 2);
        check_version(page, STAYS);
        check_page(page);
    }
}

/* The copies and the pages on the device, in lists that may be too short. */
static void lists(const pick_t target) {
    mmsb_page_copy_t copies[2];
    mmsb_page_t found[7];
    size_t count = UNTOUCHED;
    uint64_t cursor = 0, listed = 0, expected = 0;
    pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
    if (target.page == NULL) {
        CALL(mmsb_page_copies(target.handle, copies, 2, &count), target.code);
        SAME(count, UNTOUCHED);
        return;
    }
    CALL(mmsb_page_copies(target.handle, NULL, 0, &count), MMSB_OK);
    SAME(count, places(target.page));
    CALL(mmsb_page_copies(target.handle, copies, count - 1, &count), count == 1 ? MMSB_OK : MMSB_E_OUT_OF_RANGE);
    CALL(mmsb_page_copies(target.handle, copies, 2, NULL), MMSB_E_INVALID_ARGUMENT);
    int index = target.page->context;
    mmsb_context_t context = contexts[index].handle;
    CALL(mmsb_context_device_pages(bad.handle, 0, &cursor, found, 7, &count), bad.code);
    CALL(mmsb_context_device_pages(context, 0, &cursor, found, 0, &count), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_context_device_pages(context, 0, NULL, found, 7, &count), MMSB_E_INVALID_ARGUMENT);
    SAME(cursor, 0);
    for (int i = 0; i < PAGES; i++) {
        expected += pages[i].handle != 0 && pages[i].context == index && pages[i].location != MMSB_LOCATION_CPU &&
                    pages[i].location != MMSB_LOCATION_DISK;
    }
    do {
        CALL(mmsb_context_device_pages(context, 0, &cursor, found, 1 + below(7), &count), MMSB_OK);
        for (size_t i = 0; i < count; i++) {
            const page_t *page = page_of(found[i]);
            SAME(page != NULL && page->context == index && page->location != MMSB_LOCATION_CPU &&
                     page->location != MMSB_LOCATION_DISK,
                 1);
        }
        listed += count;
    } while (count > 0);
    SAME(listed, expected);
    cursor = 0;
    CALL(mmsb_context_device_pages(context, no_device(), &cursor, found, 7, &count), MMSB_OK);
    SAME(count, 0);
    mmsb_lost_page_t lost[1];
    count = UNTOUCHED;
    CALL(mmsb_context_lost_pages(bad.handle, lost, 1, &count), bad.code);
    CALL(mmsb_context_lost_pages(context, lost, 1, NULL), MMSB_E_INVALID_ARGUMENT);
    SAME(count, UNTOUCHED);
    CALL(mmsb_context_lost_pages(context, below(2) ? lost : NULL, 0, &count), MMSB_OK);
    SAME(count, 0);
}

static void stats(void) {
    int index = any_context();
    mmsb_sync_stats_t got;
    uint64_t count = 0, bytes = 0, newer = 0;
    pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
    for (int i = 0; i < PAGES; i++) {
        if (pages[i].handle != 0 && pages[i].context == index && places(&pages[i]) == 2) {
            mmsb_page_copy_t copies[2];
            size_t two;
            CALL(mmsb_page_copies(pages[i].handle, copies, 2, &two), MMSB_OK);
            count++;
            bytes += pages[i].size;
            newer += copies[0].newer + copies[1].newer;
        }
    }
    mmsb_sync_stats_init(&got);
    CALL(mmsb_context_sync_stats(contexts[index].handle, &got), MMSB_OK);
    SAME(got.pages, count);
    SAME(got.bytes, bytes);
    SAME(got.newer_on_host + got.newer_on_device, newer);
    SAME(got.queued, contexts[index].waiting_count);
    CALL(mmsb_context_sync_stats(bad.handle, &got), bad.code);
    CALL(mmsb_context_sync_stats(contexts[index].handle, NULL), MMSB_E_INVALID_ARGUMENT);
    SAME(got.replicas + got.replica_bytes, 0);
    got.reserved[below(4)] = 1;
    CALL(mmsb_context_sync_stats(contexts[index].handle, &got), MMSB_E_STRUCT_VERSION);
}

static void pin(const pick_t target) {
    page_t *page = target.page;
    int mode = chance(50) ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    uint8_t *address = NULL;
    mmsb_status_t code = target.code;
    if (page != NULL) {
        if (page->pins[mode] >= 3 || page->read_only) {
            return;
        }
        code = places(page) == 2 ? MMSB_OK : MMSB_E_INVALID_STATE;
    }
    CALL(mmsb_page_host_copy_pin(target.handle, MMSB_PIN_WRITE + 1 + (int32_t)below(100), (void **)&address),
         MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_host_copy_pin(target.handle, mode, NULL), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_host_copy_pin(target.handle, mode, (void **)&address), code);
    SAME(address != NULL, code == MMSB_OK);
    if (code == MMSB_OK) {
        SAME(memcmp(address, page->bytes, page->size), 0);
        page->pins[mode]++;
        page->host_pins[mode]++;
        if (mode == MMSB_PIN_WRITE) {
            uint64_t offset = below(page->size);
            page->bytes[offset] = address[offset] = (uint8_t)random_next(&seed);
            page->raw = page->exposed = 1;
        }
    }
    if (page != NULL) {
        check_version(page, STAYS);
        check_page(page);
    }
}

static void unpin(pick_t target) {
    page_t *page = target.page;
    int mode = chance(50) ? MMSB_PIN_READ : MMSB_PIN_WRITE;
    for (int i = 0; page != NULL && i < 20 && page->host_pins[mode] == 0; i++) { /* rather one that has such a pin */
        page = target.page = any_page();
        target.handle = page->handle;
        mode = MMSB_PIN_READ + MMSB_PIN_WRITE - mode;
    }
    mmsb_status_t code = page == NULL ? target.code : page->host_pins[mode] == 0 ? MMSB_E_INVALID_STATE : MMSB_OK;
    CALL(mmsb_page_host_copy_unpin(target.handle, chance(50) ? 0 : MMSB_PIN_WRITE + 1), MMSB_E_INVALID_ARGUMENT);
    CALL(mmsb_page_host_copy_unpin(target.handle, mode), code);
    if (code == MMSB_OK) {
        page->pins[mode]--;
        page->host_pins[mode]--;
        page->raw |= mode == MMSB_PIN_WRITE;
        check_version(page, mode == MMSB_PIN_WRITE ? MOVES : STAYS);
    }
    if (page != NULL) {
        check_version(page, STAYS);
        check_page(page);
    }
}

/* A page has a replica on a device where it does not lie, until it is dropped. */
static void replica(const pick_t target) {
    page_t *page = target.page;
    int32_t device = chance(90) ? 0 : no_device();
    if (page == NULL) {
        CALL(mmsb_page_replicate(target.handle, device), target.code);
        CALL(mmsb_page_replica_drop(target.handle, device), target.code);
        return;
    }
    mmsb_status_t code = device == 0 ? MMSB_OK : MMSB_E_NO_DEVICE;
    if (page->location == MMSB_LOCATION_DISK) {
        CALL(mmsb_page_replicate(page->handle, device), MMSB_E_UNSUPPORTED);
    } else if (device != 0) {
        CALL(mmsb_page_replicate(page->handle, device), code);
    } else if (page->location == MMSB_LOCATION_GPU) {
        CALL(mmsb_page_replicate(page->handle, device), MMSB_OK);
    } else if (!page->read_only && page->pins[MMSB_PIN_WRITE] > 0) {
        CALL(mmsb_page_replicate(page->handle, device), MMSB_E_BUSY);
    } else {
        mmsb_page_copy_t copies[3];
        size_t count = UNTOUCHED;
        mmsb_status_t exposed = page->exposed && !page->read_only ? MMSB_E_INVALID_STATE : MMSB_OK;
        int made = CALL_EITHER(mmsb_page_replicate(page->handle, device), MMSB_OK, exposed) == MMSB_OK;
        CALL(mmsb_page_copies(page->handle, copies, 3, &count), MMSB_OK);
        SAME(count, 1 + made);
        SAME(!made || (copies[1].location == MMSB_LOCATION_GPU && copies[1].size == page->size && copies[1].newer == 0), 1);
    }
    CALL(mmsb_page_replica_drop(page->handle, device), code);
    check_version(page, STAYS);
    check_page(page);
}

void fuzz_host_copy_drop(void) {
    drop(pick_page(10));
}

void fuzz_host_copy(void) {
    pick_t target = pick_page(8);
    for (int i = 0; i < 10 && target.page != NULL && target.page->location != MMSB_LOCATION_GPU; i++) { /* rather one that may */
        target = pick_page(8);
    }
    switch (below(9)) {
    case 0:
        drop(target);
        break;
    case 1:
        lists(target);
        break;
    case 2:
        stats();
        break;
    case 8:
        replica(pick_page(8));
        break;
    case 3:
    case 4:
    case 5:
        unpin(target);
        break;
    default:
        pin(target);
    }
}

/* Ends what the program has pinned of the host's copy, also after the context has ended. */
void end_host_pins(page_t *page) {
    for (int mode = MMSB_PIN_READ; mode <= MMSB_PIN_WRITE; mode++) {
        while (page->host_pins[mode] > 0) {
            CALL(mmsb_page_host_copy_unpin(page->handle, mode), MMSB_OK);
            page->pins[mode]--;
            page->host_pins[mode]--;
        }
    }
}

/* What the driver is told of the use of a page is told for pages in managed memory only. */
void fuzz_advice(void) {
    pick_t target = pick_page(8);
    page_t *page = target.page;
    int unified = page != NULL && page->location == MMSB_LOCATION_UNIFIED;
    mmsb_status_t code = page == NULL ? target.code : unified ? MMSB_OK : MMSB_E_UNSUPPORTED;
    mmsb_page_advice_t advice, told;
    mmsb_page_advice_init(&advice);
    mmsb_page_advice_init(&told);
    advice.preferred = (int32_t)below(3) - 2;
    advice.read_mostly = (int32_t)below(2);
    int nothing = chance(10), wrong = chance(10);
    if (wrong && !nothing) {
        advice.preferred = below(2) ? -3 : advice.preferred;
        advice.read_mostly = advice.preferred == -3 ? 0 : 2;
        CALL(mmsb_page_advise(target.handle, &advice), MMSB_E_INVALID_ARGUMENT);
    } else if (unified && wrong) {
        advice.preferred = no_device();
        CALL(mmsb_page_advise(target.handle, &advice), MMSB_E_NO_DEVICE);
    } else if (CALL(mmsb_page_advise(target.handle, nothing ? NULL : &advice), code) == MMSB_OK) {
        CALL(mmsb_page_advice(target.handle, &told), MMSB_OK);
        SAME(told.preferred, nothing ? MMSB_DEVICE_NONE : advice.preferred);
        SAME(told.read_mostly, nothing ? 0 : advice.read_mostly);
    } else {
        CALL(mmsb_page_advice(target.handle, &told), code);
    }
    if (page != NULL) {
        check_version(page, STAYS);
        check_page(page);
    }
}
