/* A journal, and what it and the snapshot that it follows give back. */
#include "fuzz.h"

/* Begins a journal after a snapshot; or takes both and compares the state that they give with the model. */
void fuzz_journal(void) {
    int index = any_context();
    context_t *context = &contexts[index];
    if (!context->journalled) {
        mmsb_save_options_t save = any_save_options();
        mmsb_journal_options_t options;
        mmsb_journal_options_init(&options);
        options.durability = MMSB_DURABILITY_NONE;
        options.segment_bytes = 1 << 16;
        CALL(mmsb_journal_sync(context->handle, NULL), MMSB_E_INVALID_STATE);
        remove_files(file_of(index, "journal"));
        CALL(mmsb_journal_open(context->handle, file_of(index, "journal"), &options), MMSB_OK);
        CALL(mmsb_snapshot_save(context->handle, file_of(index, "start"), &save), MMSB_OK);
        context->journalled = 1;
        context->branched = 0;
        for (int i = 0; i < PAGES; i++) {
            pages[i].raw &= pages[i].context != index;
        }
        return;
    }
    CALL(mmsb_journal_open(context->handle, file_of(index, "journal"), NULL), MMSB_E_ALREADY_EXISTS);
    CALL(mmsb_journal_sync(context->handle, NULL), MMSB_OK);
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.journal = file_of(index, "journal");
    load.mode = chance(50) ? MMSB_LOAD_LAZY : MMSB_LOAD_EAGER;
    context_t live = *context;
    CALL(mmsb_context_create(NULL, &context->handle), MMSB_OK);
    CALL(mmsb_snapshot_load(context->handle, context->branched ? "" : file_of(index, "start"), &load), MMSB_OK);
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
            page->pins[MMSB_PIN_READ] = page->pins[MMSB_PIN_WRITE] = 0;
            if (page->raw) {
                SAME(mmsb_page_read(page->handle, 0, page->bytes, page->size), MMSB_OK);
            }
            if (page->raw || page->exposed) { /* the end of a pin for writing moves the version, and so does a rollback */
                SAME(mmsb_page_version(page->handle) <= page->version, 1);
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
