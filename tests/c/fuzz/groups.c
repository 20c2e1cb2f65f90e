/* Atomic groups: calls between begin and commit or rollback. After a rollback the library is what it was before. */
#include "fuzz.h"

int in_groups;

/* What a thread with a group open may not do. */
static void refused(void) {
    int index = any_context();
    mmsb_context_t context = contexts[index].handle;
    mmsb_page_t made[2];
    mmsb_ticket_t ticket = UNTOUCHED;
    void *memory = NULL;
    uint64_t size = 0;
    const page_t *page = any_page();
    switch (below(7)) {
    case 0:
        CALL(mmsb_group_begin(context), MMSB_E_INVALID_STATE);
        CALL(mmsb_group_begin_within(context, 0), MMSB_E_INVALID_STATE);
        break;
    case 1:
        CALL(mmsb_snapshot_save(context, file_of(index, "refused"), NULL), MMSB_E_BUSY);
        break;
    case 2:
        CALL(mmsb_journal_open(context, file_of(index, "refused"), NULL), MMSB_E_BUSY);
        break;
    case 3:
        CALL(mmsb_journal_sync(context, NULL), MMSB_E_BUSY);
        break;
    case 4:
        CALL(mmsb_page_create_many_start(context, 64, 2, NULL, NULL, made, &ticket), MMSB_E_INVALID_STATE);
        SAME(ticket, UNTOUCHED);
        break;
    case 5:
        if (page != NULL) {
            CALL_EITHER(mmsb_page_release(page->handle, &memory, &size), MMSB_E_INVALID_STATE, MMSB_E_INVALID_STATE);
        }
        break;
    default: {
        pick_t bad = bad_handle(MMSB_KIND_CONTEXT);
        CALL(mmsb_group_commit(bad.handle), bad.code);
        CALL(mmsb_group_rollback(bad.handle), bad.code);
    }
    }
}

/* Neither pins nor writes through pointers: no rollback takes them back. */
static void (*const steps[])(void) = {
    fuzz_create,       fuzz_create_many,    fuzz_clone,       fuzz_adopt,          fuzz_destroy,
    fuzz_destroy_many, fuzz_resize,         fuzz_resize_many, fuzz_migrate,        fuzz_write,
    fuzz_write,        fuzz_ranges_of_many, fuzz_apply,       fuzz_apply_many,     fuzz_apply_runs,
    fuzz_owned_delta,  fuzz_mask,           fuzz_metadata,    fuzz_metadata,       fuzz_dependency,
    fuzz_dependency,   fuzz_lookup,         fuzz_info,        fuzz_read,           fuzz_dependency_lists,
    fuzz_two_pages,    fuzz_sync,           fuzz_sync_many,   fuzz_host_copy_drop, refused,
};

/* A page whose address was given out may have changed beside the group. */
static void check_versions(void) {
    for (int i = 0; i < PAGES; i++) {
        page_t *page = &pages[i];
        if (page->handle != 0) {
            check_version(page, page->exposed ? MAY_MOVE : STAYS);
        }
    }
}

static void roll_back(void) {
    int gone = releases;
    for (int i = 0; i < PAGES; i++) {
        gone += pages[i].handle != 0 && pages[i].adopted != NULL && !was_kept(pages[i].handle);
    }
    for (int i = 0; i < CONTEXTS; i++) {
        CALL(mmsb_group_rollback(contexts[i].handle), MMSB_OK);
    }
    SAME(releases, gone);
    restore_model();
    check_versions();
    check_everything();
}

void fuzz_groups(void) {
    for (int i = 0; i < CONTEXTS; i++) {
        CALL(mmsb_group_commit(contexts[i].handle), MMSB_E_INVALID_STATE);
        CALL(mmsb_group_begin(contexts[i].handle), MMSB_OK);
    }
    keep_model();
    in_groups = 1;
    for (uint64_t i = 1 + below(15); i > 0; i--) {
        steps[below(sizeof steps / sizeof steps[0])]();
    }
    in_groups = 0;
    if (chance(50)) {
        roll_back();
        return;
    }
    for (int i = 0; i < CONTEXTS; i++) {
        CALL(mmsb_group_commit(contexts[i].handle), MMSB_OK);
    }
}
