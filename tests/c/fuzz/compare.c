/* Compares the library with the model: one page, a context, or everything. */
#include "fuzz.h"

void check_version(page_t *page, enum moved moved) {
    uint64_t version = mmsb_page_version(page->handle);
    if (moved == STAYS) {
        SAME(version, page->version);
    } else {
        SAME(version > page->version || (moved == MAY_MOVE && version == page->version), 1);
    }
    page->version = version;
}

void check_page(page_t *page) {
    static uint8_t bytes[LARGEST];
    static uint8_t bits[LARGEST / 8 + 1];
    SAME(mmsb_page_read(page->handle, 0, bytes, page->size), MMSB_OK);
    SAME(memcmp(bytes, page->bytes, page->size), 0);
    SAME(mmsb_page_mask_read(page->handle, 0, bits, page->size), MMSB_OK);
    for (uint64_t i = 0; i < page->size; i++) {
        if ((bits[i / 8] >> i % 8 & 1) != page->mask[i]) {
            fail(__FILE__, __LINE__, "a bit of the mask", bits[i / 8] >> i % 8 & 1, page->mask[i]);
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
    SAME(info.read_pins, page->pins[MMSB_PIN_READ]);
    SAME(info.write_pins, page->pins[MMSB_PIN_WRITE]);
    SAME(info.adopted, page->adopted != NULL);
    SAME(info.read_only, page->read_only);
    SAME(info.metadata_count, page->entry_count);
    SAME(mmsb_page_size(page->handle), page->size);
    SAME(mmsb_page_epoch(page->handle), page->epoch);
}

void check_metadata(const page_t *page) {
    uint8_t expected[BLOB];
    uint8_t blob[BLOB];
    size_t length = 0;
    size_t expected_length = write_blob(page, expected, 0);
    SAME(mmsb_page_metadata_export(page->handle, blob, sizeof blob, &length), MMSB_OK);
    SAME(length, expected_length);
    SAME(memcmp(blob, expected, length), 0);
}

void check_edges(const page_t *page) {
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

void check_context(int index) {
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
    SAME(mmsb_test_check(context->handle), MMSB_OK);
}

void check_everything(void) {
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
