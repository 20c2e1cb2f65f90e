/* Keys and values of a page. */
#include "fuzz.h"

static uint8_t *put(uint8_t *at, const void *bytes, size_t length) {
    const uint32_t number = (uint32_t)length; /* both ends are little endian */
    memcpy(at, &number, 4);
    memcpy(at + 4, bytes, length);
    return at + 4 + length;
}

size_t write_blob(const page_t *page, uint8_t *blob, int keys_only) {
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

static enum moved set_metadata(pick_t target, entry_t entry) {
    static const char *const broken[] = {"\xFF", "", "\xC0\x80", "ok\xED\xA0\x80"};
    page_t *page = target.page;
    const char *key = keys[entry.key];
    mmsb_status_t code = target.code;
    if (code == MMSB_OK && chance(15)) {
        key = broken[below(4)];
        code = MMSB_E_INVALID_ARGUMENT;
    } else if (code == MMSB_OK && chance(5)) {
        CALL(mmsb_page_metadata_set(page->handle, key, strlen(key), entry.value, 1ULL << 33), MMSB_E_INVALID_SIZE);
        return STAYS;
    }
    CALL(mmsb_page_metadata_set(target.handle, key, strlen(key), entry.value, entry.length), code);
    if (code != MMSB_OK) {
        return STAYS;
    }
    entry_t *known = find_entry(page, entry.key);
    if (known != NULL) {
        *known = entry;
        return MAY_MOVE; /* surely only where the value is another one */
    }
    page->entries[page->entry_count++] = entry;
    return MOVES;
}

static void get_metadata(pick_t target, int key) {
    const entry_t *known = target.page == NULL ? NULL : find_entry(target.page, key);
    mmsb_status_t code = target.code;
    size_t length = UNTOUCHED;
    size_t capacity = chance(80) ? LONGEST_VALUE : below(LONGEST_VALUE);
    if (code == MMSB_OK) {
        code = known == NULL ? MMSB_E_NOT_FOUND : capacity > 0 && capacity < known->length ? MMSB_E_OUT_OF_RANGE : MMSB_OK;
    }
    CALL(mmsb_page_metadata_get(target.handle, keys[key], strlen(keys[key]), buffer, capacity, &length), code);
    if (known != NULL) {
        SAME(length, known->length);
        SAME(code == MMSB_OK && capacity > 0 && memcmp(buffer, known->value, length) != 0, 0);
    }
}

static enum moved remove_metadata(pick_t target, int key) {
    page_t *page = target.page;
    entry_t *known = page == NULL ? NULL : find_entry(page, key);
    mmsb_status_t code = target.code == MMSB_OK && known == NULL ? MMSB_E_NOT_FOUND : target.code;
    CALL(mmsb_page_metadata_remove(target.handle, keys[key], strlen(keys[key])), code);
    if (code != MMSB_OK) {
        return STAYS;
    }
    page->entry_count--;
    memmove(known, known + 1, (size_t)(page->entries + page->entry_count - known) * sizeof *known);
    return MOVES;
}

/* All of it, or all keys. */
static void list_metadata(pick_t target) {
    const page_t *page = target.page;
    mmsb_status_t code = target.code;
    uint8_t expected[BLOB];
    int keys_only = chance(50);
    size_t expected_length = page == NULL ? 0 : write_blob(page, expected, keys_only);
    size_t capacity = chance(70) ? BLOB : chance(50) ? 0 : below(expected_length + 1);
    size_t length = UNTOUCHED, count = UNTOUCHED;
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
}

static enum moved import_metadata(pick_t target, int first_key) {
    page_t fresh = {.entry_count = 0};
    for (int i = 0; i < KEYS; i++) {
        if (chance(50)) {
            fresh.entries[fresh.entry_count++] = any_entry((i + first_key) % KEYS);
        }
    }
    uint8_t blob[BLOB];
    size_t length = write_blob(&fresh, blob, 0);
    mmsb_status_t code = target.code;
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
    if (code != MMSB_OK) {
        return STAYS;
    }
    memcpy(target.page->entries, fresh.entries, sizeof fresh.entries);
    target.page->entry_count = fresh.entry_count;
    return MAY_MOVE;
}

void fuzz_metadata(void) {
    pick_t target = pick_page(10);
    int key = (int)below(KEYS);
    entry_t entry = any_entry(key);
    enum moved moved = STAYS;
    switch (below(6)) {
    case 0:
        moved = set_metadata(target, entry);
        break;
    case 1:
        get_metadata(target, key);
        break;
    case 2:
        moved = remove_metadata(target, key);
        break;
    case 3:
    case 4:
        list_metadata(target);
        break;
    default:
        moved = import_metadata(target, key);
    }
    if (target.page != NULL) {
        check_version(target.page, moved);
        check_page(target.page);
        check_metadata(target.page);
    }
}
