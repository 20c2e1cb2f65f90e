/* Calls that make pages: new ones, one or many, clones, memory that is adopted. */
#include "fuzz.h"

static void release_adopted(void *user, void *memory, uint64_t size) {
    page_t *page = user;
    SAME(memory, (uintptr_t)page->adopted);
    SAME(size, page->size);
    releases++;
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
            options.location = unknown_location();
            *code = MMSB_E_INVALID_ARGUMENT;
            break;
        case 1:
            options.location = device_location();
            options.device = no_device();
            *code = MMSB_E_NO_DEVICE;
            break;
        case 2:
            options.struct_size += 1 + (uint32_t)below(100);
            *code = MMSB_E_STRUCT_VERSION;
            break;
        case 3:
            options.reserved[below(2)] = 1 + below(100);
            *code = MMSB_E_STRUCT_VERSION;
            break;
        case 4:
            options.reserved_word = 1;
            *code = MMSB_E_STRUCT_VERSION;
            break;
        default:
            options.contents = MMSB_PAGE_UNINITIALISED + 1 + (uint32_t)below(100);
            *code = MMSB_E_INVALID_ARGUMENT;
        }
    }
    return options;
}

static void take_uninitialised_bytes(page_t *page, const mmsb_page_options_t *options) {
    if (options->contents == MMSB_PAGE_UNINITIALISED) {
        SAME(mmsb_page_read(page->handle, 0, page->bytes, page->size), MMSB_OK);
        page->raw = page->exposed = 1;
    }
}

void fuzz_create(void) {
    page_t *slot = free_slot();
    int context = any_context();
    int location;
    int fault;
    mmsb_status_t code;
    mmsb_page_options_t options = any_options(&location, &fault, &code);
    uint64_t size = any_size();
    uint64_t handle = contexts[context].handle;
    mmsb_page_t page = UNTOUCHED;
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
            size = OVER_THE_LIMIT;
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
    if (code == MMSB_OK && slot == NULL) {
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
        slot = enter(slot, page, context, size, location);
        slot->exposed = with_address;
        SAME(options.id == 0 || slot->id == options.id, 1);
        take_uninitialised_bytes(slot, &options);
        check_page(slot);
    } else {
        SAME(page, UNTOUCHED);
    }
}

/* Beside the program, after what up to two tickets stand for. */
static void create_beside(mmsb_context_t context, uint64_t size, size_t count, const mmsb_page_options_t *options,
                          mmsb_work_options_t *work, mmsb_page_t *made, mmsb_ticket_t *slot, mmsb_status_t code) {
    mmsb_ticket_t after[2] = {tickets[below(TICKETS)], tickets[below(TICKETS)]};
    if (after[0] != 0 && after[1] != 0) {
        work->after = after;
        work->after_count = 1 + below(2);
    }
    mmsb_ticket_t ticket = UNTOUCHED;
    if (CALL(mmsb_page_create_many_start(context, size, count, options, work, made, &ticket), code) == MMSB_OK) {
        CALL(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_OK);
        *slot = ticket;
    } else {
        SAME(ticket, UNTOUCHED);
    }
}

void fuzz_create_many(void) {
    int context = any_context();
    int location;
    int fault;
    mmsb_status_t code;
    mmsb_page_options_t options = any_options(&location, &fault, &code);
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    int bad_work = 0;
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
            bad_work = 1;
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
    mmsb_ticket_t *ticket = NULL;
    for (int i = 0; i < TICKETS; i++) {
        ticket = tickets[i] == 0 ? &tickets[i] : ticket;
    }
    if (ticket != NULL && !in_groups && chance(40)) {
        create_beside(handle, size, count, &options, &work, made, ticket, code);
    } else {
        const mmsb_work_options_t *given = chance(50) || bad_work ? &work : NULL;
        CALL(mmsb_page_create_many(handle, size, count, &options, given, made), code);
    }
    for (size_t i = 0; code == MMSB_OK && i < count; i++) {
        page_t *page = enter(free_slot(), made[i], context, size, location);
        take_uninitialised_bytes(page, &options);
        check_page(page);
    }
}

void fuzz_clone(void) {
    pick_t source = pick_page(15);
    page_t *slot = free_slot();
    mmsb_page_t clone = UNTOUCHED;
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
    if (code == MMSB_OK && (slot == NULL || id_is_used(source.page->context, id))) {
        return;
    }
    CALL(mmsb_page_clone(source.handle, id, without_out ? NULL : &clone), code);
    if (code != MMSB_OK) {
        SAME(clone, UNTOUCHED);
        return;
    }
    const page_t *from = source.page;
    enter(slot, clone, from->context, from->size, from->location);
    SAME(id == 0 || slot->id == id, 1);
    slot->epoch = from->epoch;
    slot->raw = from->raw;
    memcpy(slot->bytes, from->bytes, sizeof slot->bytes);
    memcpy(slot->mask, from->mask, sizeof slot->mask);
    memcpy(slot->entries, from->entries, sizeof slot->entries);
    slot->entry_count = from->entry_count;
    check_page(slot);
    check_metadata(slot);
    check_edges(slot);
}

void fuzz_adopt(void) {
    page_t *slot = free_slot();
    if (slot == NULL) {
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
    options.user = slot;
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
            options.reserved[below(3)] = 1;
            code = MMSB_E_STRUCT_VERSION;
            break;
        case 3:
            options.location = device_location();
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
    mmsb_page_t page = UNTOUCHED;
    int before = releases;
    CALL(mmsb_page_adopt(handle, given, given_size, &options, &page), code);
    SAME(releases, before);
    if (code != MMSB_OK) {
        SAME(page, UNTOUCHED);
        free(memory);
        return;
    }
    enter(slot, page, context, size, MMSB_LOCATION_CPU);
    slot->adopted = memory;
    slot->read_only = options.read_only;
    slot->exposed = 1;
    memcpy(slot->bytes, memory, size);
    check_page(slot);
}
