/* Metadata: keys and values of a page, and the blob of all of them. */
#include "library.h"

static void set(mmsb_page_t page, const char *key, const char *value) {
    CHECK_OK(mmsb_page_metadata_set(page, key, strlen(key), value, strlen(value)));
}

static int value_is(mmsb_page_t page, const char *key, const void *value, size_t value_length) {
    uint8_t buffer[4096];
    size_t length = 0;
    return mmsb_page_metadata_get(page, key, strlen(key), buffer, sizeof buffer, &length) == MMSB_OK && length == value_length &&
           memcmp(buffer, value, length) == 0;
}

static uint8_t *put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        *at++ = (uint8_t)(value >> 8 * i);
    }
    return at;
}

static uint8_t *put_entry(uint8_t *at, const char *key, uint32_t key_length, const char *value, uint32_t value_length) {
    at = put_u32(at, key_length);
    memcpy(at, key, key_length);
    at = put_u32(at + key_length, value_length);
    memcpy(at, value, value_length);
    return at + value_length;
}

static void keys_have_values(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    uint64_t version = mmsb_page_version(page);
    set(page, "name", "first");
    CHECK(mmsb_page_version(page) > version);
    set(page, "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "any UTF-8");
    set(page, "empty", "");
    CHECK_OK(mmsb_page_metadata_set(page, "null", 4, NULL, 0));
    CHECK_OK(mmsb_page_metadata_set(page, "zero\0in", 7, "\0\xFF\0", 3));
    CHECK(value_is(page, "name", "first", 5));
    CHECK(value_is(page, "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "any UTF-8", 9));
    CHECK(value_is(page, "empty", "", 0));
    CHECK(value_is(page, "null", "", 0));
    CHECK(!value_is(page, "zero", "", 0));
    CHECK_EQUAL(page_info(page).metadata_count, 5);
    uint8_t buffer[16];
    size_t length = 0;
    CHECK_OK(mmsb_page_metadata_get(page, "zero\0in", 7, buffer, sizeof buffer, &length));
    CHECK(length == 3 && memcmp(buffer, "\0\xFF\0", 3) == 0);

    version = mmsb_page_version(page);
    set(page, "name", "a longer second");
    CHECK(value_is(page, "name", "a longer second", 15));
    CHECK(mmsb_page_version(page) > version);
    set(page, "name", "3rd");
    CHECK(value_is(page, "name", "3rd", 3));
    CHECK_EQUAL(page_info(page).metadata_count, 5);

    memset(buffer, 0xAA, sizeof buffer);
    CHECK_STATUS(mmsb_page_metadata_get(page, "name", 4, buffer, 2, &length), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(length, 3);
    CHECK_EQUAL(buffer[0], 0xAA);
    length = 0;
    CHECK_OK(mmsb_page_metadata_get(page, "name", 4, NULL, 0, &length));
    CHECK_EQUAL(length, 3);
    CHECK_STATUS(mmsb_page_metadata_get(page, "nam", 3, buffer, sizeof buffer, &length), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_page_metadata_get(page, "name", 4, buffer, sizeof buffer, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_get(page, "name", 4, NULL, 3, &length), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_get(page, NULL, 4, buffer, sizeof buffer, &length), MMSB_E_INVALID_ARGUMENT);

    version = mmsb_page_version(page);
    CHECK_OK(mmsb_page_metadata_remove(page, "name", 4));
    CHECK(mmsb_page_version(page) > version);
    CHECK_STATUS(mmsb_page_metadata_remove(page, "name", 4), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_page_metadata_get(page, "name", 4, NULL, 0, &length), MMSB_E_NOT_FOUND);
    CHECK_STATUS(mmsb_page_metadata_remove(page, NULL, 4), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(page_info(page).metadata_count, 4);
    CHECK_EQUAL(mmsb_page_epoch(page), 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void keys_must_be_utf8(void) {
    static const struct {
        const char *key;
        size_t length;
    } bad[] = {{"", 0},
               {"\x80", 1},
               {"a\xFFz", 3},
               {"\xC0\x80", 2},
               {"\xE2\x82", 2},
               {"\xED\xA0\x80", 3},
               {"\xF4\x90\x80\x80", 4},
               {"\xF8\x88\x80\x80\x80", 5},
               {"\xE0\x80\x80", 3}};
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    set(page, "good", "value");
    uint64_t version = mmsb_page_version(page);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(mmsb_page_metadata_set(page, bad[i].key, bad[i].length, "v", 1), MMSB_E_INVALID_ARGUMENT);
    }
    CHECK_STATUS(mmsb_page_metadata_set(page, NULL, 3, "v", 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_set(page, "k", 1, NULL, 1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_set(page, "k", 1, "v", (size_t)5 << 30), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_metadata_set(page, "k", 1, "v", SIZE_MAX), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_metadata_set(page, "k", (size_t)5 << 30, "v", 1), MMSB_E_INVALID_SIZE);
    CHECK_EQUAL(mmsb_page_version(page), version);
    CHECK_EQUAL(page_info(page).metadata_count, 1);
    CHECK(value_is(page, "good", "value", 5));
    CHECK_OK(mmsb_context_destroy(context));
}

static void keys_stay_in_order(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    uint8_t keys[64];
    size_t length = 99;
    size_t count = 99;
    CHECK_OK(mmsb_page_metadata_keys(page, keys, sizeof keys, &length, &count));
    CHECK(length == 0 && count == 0);
    set(page, "b", "1");
    set(page, "aa", "2");
    set(page, "c", "3");
    set(page, "b", "a new value does not move the key");
    CHECK_OK(mmsb_page_metadata_remove(page, "c", 1));
    set(page, "c", "4");
    set(page, "a", "5");
    const uint8_t expected[] = {1, 0, 0, 0, 'b', 2, 0, 0, 0, 'a', 'a', 1, 0, 0, 0, 'c', 1, 0, 0, 0, 'a'};
    CHECK_OK(mmsb_page_metadata_keys(page, keys, sizeof keys, &length, &count));
    CHECK_EQUAL(count, 4);
    CHECK_EQUAL(length, sizeof expected);
    CHECK(memcmp(keys, expected, sizeof expected) == 0);
    length = 0;
    CHECK_OK(mmsb_page_metadata_keys(page, NULL, 0, &length, NULL));
    CHECK_EQUAL(length, sizeof expected);
    keys[0] = 0xAA;
    length = 0;
    CHECK_STATUS(mmsb_page_metadata_keys(page, keys, sizeof expected - 1, &length, &count), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(length, sizeof expected);
    CHECK_EQUAL(keys[0], 0xAA);
    CHECK_STATUS(mmsb_page_metadata_keys(page, keys, sizeof keys, NULL, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_keys(page, NULL, 64, &length, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_blob_holds_all_entries(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    uint8_t blob[256];
    size_t length = 99;
    CHECK_OK(mmsb_page_metadata_export(page, blob, sizeof blob, &length));
    CHECK(length == 4 && memcmp(blob, "\0\0\0\0", 4) == 0);
    set(page, "one", "value");
    set(page, "two", "");
    uint8_t expected[64];
    uint8_t *end = put_u32(expected, 2);
    end = put_entry(end, "one", 3, "value", 5);
    end = put_entry(end, "two", 3, "", 0);
    size_t expected_length = (size_t)(end - expected);
    CHECK_OK(mmsb_page_metadata_export(page, blob, sizeof blob, &length));
    CHECK_EQUAL(length, expected_length);
    CHECK(memcmp(blob, expected, expected_length) == 0);
    length = 0;
    CHECK_OK(mmsb_page_metadata_export(page, NULL, 0, &length));
    CHECK_EQUAL(length, expected_length);
    length = 0;
    blob[0] = 0xAA;
    CHECK_STATUS(mmsb_page_metadata_export(page, blob, expected_length - 1, &length), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(length, expected_length);
    CHECK_EQUAL(blob[0], 0xAA);
    CHECK_STATUS(mmsb_page_metadata_export(page, blob, sizeof blob, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_metadata_export(page, NULL, 64, &length), MMSB_E_INVALID_ARGUMENT);

    mmsb_page_t other = new_page(context, 8);
    set(other, "old", "goes");
    uint64_t version = mmsb_page_version(other);
    CHECK_OK(mmsb_page_metadata_import(other, expected, expected_length));
    CHECK(mmsb_page_version(other) > version);
    CHECK_EQUAL(page_info(other).metadata_count, 2);
    CHECK(value_is(other, "one", "value", 5));
    CHECK(value_is(other, "two", "", 0));
    CHECK(!value_is(other, "old", "goes", 4));
    CHECK_OK(mmsb_page_metadata_export(other, blob, sizeof blob, &length));
    CHECK(length == expected_length && memcmp(blob, expected, length) == 0);
    CHECK_OK(mmsb_page_metadata_import(other, "\0\0\0\0", 4));
    CHECK_EQUAL(page_info(other).metadata_count, 0);
    CHECK_OK(mmsb_page_metadata_import(other, expected, expected_length));
    CHECK_OK(mmsb_page_metadata_import(other, NULL, 0));
    CHECK_EQUAL(page_info(other).metadata_count, 0);
    CHECK_STATUS(mmsb_page_metadata_import(other, NULL, 4), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(context));
}

/* Every way to lie in a blob, and every truncation of a true one: refused, and the page keeps what it had. */
static void lying_blobs_change_nothing(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page = new_page(context, 8);
    set(page, "kept", "value");
    uint8_t good[128];
    uint8_t *end = put_u32(good, 3);
    end = put_entry(end, "one", 3, "value", 5);
    end = put_entry(end, "two", 3, "", 0);
    end = put_entry(end, "three", 5, "vvvvvvvvvv", 10);
    size_t length = (size_t)(end - good);
    uint64_t version = mmsb_page_version(page);
    for (size_t cut = 1; cut < length; cut++) {
        uint8_t *exact = malloc(cut); /* so that AddressSanitizer sees a read past the end */
        memcpy(exact, good, cut);
        CHECK_STATUS(mmsb_page_metadata_import(page, exact, cut), MMSB_E_CORRUPT);
        free(exact);
    }
    uint8_t bad[160];
    memcpy(bad, good, length);
    bad[length] = 0;
    CHECK_STATUS(mmsb_page_metadata_import(page, bad, length + 1), MMSB_E_CORRUPT);
    static const uint32_t counts[] = {0, 1, 2, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        put_u32(bad, counts[i]);
        CHECK_STATUS(mmsb_page_metadata_import(page, bad, length), MMSB_E_CORRUPT);
    }
    static const uint32_t lengths[] = {0, 2, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(bad, good, length);
        put_u32(bad + 4, lengths[i]);
        CHECK_STATUS(mmsb_page_metadata_import(page, bad, length), MMSB_E_CORRUPT);
        memcpy(bad, good, length);
        put_u32(bad + 11, lengths[i]);
        CHECK_STATUS(mmsb_page_metadata_import(page, bad, length), MMSB_E_CORRUPT);
    }
    end = put_u32(bad, 2);
    end = put_entry(end, "same", 4, "1", 1);
    end = put_entry(end, "same", 4, "2", 1);
    CHECK_STATUS(mmsb_page_metadata_import(page, bad, (size_t)(end - bad)), MMSB_E_CORRUPT);
    end = put_u32(bad, 1);
    end = put_entry(end, "\xC0\x80", 2, "1", 1);
    CHECK_STATUS(mmsb_page_metadata_import(page, bad, (size_t)(end - bad)), MMSB_E_CORRUPT);
    end = put_u32(bad, 1);
    end = put_entry(end, "", 0, "1", 1);
    CHECK_STATUS(mmsb_page_metadata_import(page, bad, (size_t)(end - bad)), MMSB_E_CORRUPT);

    uint64_t seed = 77;
    for (int round = 0; round < 20000; round++) { /* bytes changed at random: an error, or a blob that is as good */
        memcpy(bad, good, length);
        for (uint64_t i = 0; i <= random_below(&seed, 3); i++) {
            bad[random_below(&seed, length)] = (uint8_t)random_next(&seed);
        }
        mmsb_page_t other = new_page(context, 1);
        mmsb_status_t status = mmsb_page_metadata_import(other, bad, length);
        CHECK(status == MMSB_OK || status == MMSB_E_CORRUPT);
        if (status == MMSB_OK) {
            uint8_t blob[160];
            size_t blob_length;
            CHECK_OK(mmsb_page_metadata_export(other, blob, sizeof blob, &blob_length));
            CHECK(blob_length == length && memcmp(blob, bad, length) == 0);
        } else {
            CHECK_EQUAL(page_info(other).metadata_count, 0);
        }
        CHECK_OK(mmsb_page_destroy(other));
    }
    CHECK_EQUAL(mmsb_page_version(page), version);
    CHECK_EQUAL(page_info(page).metadata_count, 1);
    CHECK(value_is(page, "kept", "value", 5));
    CHECK_OK(mmsb_page_metadata_import(page, good, length));
    CHECK_EQUAL(page_info(page).metadata_count, 3);
    CHECK_OK(mmsb_context_destroy(context));
}

static void metadata_counts_against_the_limit(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = 8 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    mmsb_page_t page = new_page(context, 8);
    set(page, "kept", "value");
    char *large = calloc(1, 16 << 20);
    CHECK_STATUS(mmsb_page_metadata_set(page, "large", 5, large, 16 << 20), MMSB_E_LIMIT);
    CHECK_EQUAL(page_info(page).metadata_count, 1);
    CHECK(value_is(page, "kept", "value", 5));
    CHECK_OK(mmsb_page_metadata_set(page, "large", 5, large, 1 << 20));
    mmsb_memory_usage_t usage;
    mmsb_memory_usage_init(&usage);
    CHECK_OK(mmsb_memory_usage(&usage));
    CHECK(usage.metadata_bytes >= 1 << 20);
    free(large);
    CHECK_OK(mmsb_context_destroy(context));
    CHECK_OK(mmsb_memory_usage(&usage));
    CHECK(usage.metadata_bytes < 1 << 20);
}

int main(void) {
    RUN(keys_have_values);
    RUN(keys_must_be_utf8);
    RUN(keys_stay_in_order);
    RUN(the_blob_holds_all_entries);
    RUN(lying_blobs_change_nothing);
    RUN(metadata_counts_against_the_limit);
    return check_report();
}
