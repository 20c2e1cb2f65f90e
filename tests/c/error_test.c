/* Errors: the last one of each thread, its detail and copy, the names of codes; what the library says about itself. */
#include "library.h"
#include "interface.h"

#include <ctype.h>
#include <errno.h>

static void *a_thread_of_its_own(void *argument) {
    team_member_t *member = argument;
    /* Before its first failure a thread has no error, whatever others had. */
    CHECK(mmsb_last_error()[0] == 0);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_OK);
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_OK(mmsb_last_error_detail(&detail));
    CHECK_EQUAL(detail.code, MMSB_OK);
    CHECK_EQUAL(detail.text[0], 0);
    size_t length = 99;
    char text[600] = "x";
    CHECK_OK(mmsb_last_error_copy(text, sizeof text, &length));
    CHECK(length == 0 && text[0] == 0);

    mmsb_context_t context = *(mmsb_context_t *)member->shared;
    for (int i = 0; i < 200; i++) {
        mmsb_page_t page;
        uint64_t id = member->index * 1000000 + (uint64_t)i + 1;
        char digits[32];
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)id);
        CHECK_STATUS(mmsb_page_lookup(context, id, &page), MMSB_E_NOT_FOUND);
        check_sleep_ms(0);
        CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_NOT_FOUND);
        CHECK(strstr(mmsb_last_error(), digits) != NULL);
    }
    return NULL;
}

static void each_thread_has_its_own_error(void) {
    mmsb_context_t context = new_context();
    run_team(16, a_thread_of_its_own, &context);
    CHECK_OK(mmsb_context_destroy(context));
}

static void success_does_not_clear(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t page;
    CHECK_STATUS(mmsb_page_create(context, 0, NULL, &page), MMSB_E_INVALID_SIZE);
    char before[600];
    snprintf(before, sizeof before, "%s", mmsb_last_error());
    CHECK_OK(mmsb_page_create(context, 1, NULL, &page));
    CHECK_EQUAL(mmsb_page_size(page), 1);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_INVALID_SIZE);
    CHECK(strcmp(mmsb_last_error(), before) == 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void the_text_is_copied(void) {
    mmsb_page_t page;
    CHECK_STATUS(mmsb_page_lookup(0, 1, &page), MMSB_E_INVALID_HANDLE);
    char before[600];
    snprintf(before, sizeof before, "%s", mmsb_last_error());
    size_t length = 0;
    char text[600];
    memset(text, 'x', sizeof text);
    CHECK_OK(mmsb_last_error_copy(text, sizeof text, &length));
    CHECK_EQUAL(length, strlen(before));
    CHECK(strcmp(text, before) == 0);
    CHECK_EQUAL(text[length + 1], 'x');
    memset(text, 'x', sizeof text);
    CHECK_OK(mmsb_last_error_copy(text, length + 1, NULL));
    CHECK(strcmp(text, before) == 0);
    /* These fail without replacing the error that they report. */
    memset(text, 'x', sizeof text);
    size_t needed = 0;
    CHECK_EQUAL(mmsb_last_error_copy(text, length, &needed), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(needed, length);
    CHECK_EQUAL(text[0], 'x');
    needed = 0;
    CHECK_EQUAL(mmsb_last_error_copy(text, 0, &needed), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(needed, length);
    CHECK_EQUAL(mmsb_last_error_copy(NULL, 10, &needed), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(mmsb_last_error_code(), MMSB_E_INVALID_HANDLE);
    CHECK(strcmp(mmsb_last_error(), before) == 0);
}

static void the_detail_names_errno(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.disk_path = "/no/such/folder";
    mmsb_context_t context;
    CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_IO);
    mmsb_error_detail_t detail;
    mmsb_error_detail_init(&detail);
    CHECK_EQUAL(detail.struct_size, sizeof detail);
    CHECK_OK(mmsb_last_error_detail(&detail));
    CHECK_EQUAL(detail.code, MMSB_E_IO);
    CHECK_EQUAL(detail.domain, MMSB_DOMAIN_ERRNO);
    CHECK_EQUAL(detail.foreign_code, ENOENT);
    CHECK(strncmp(detail.text, mmsb_last_error(), sizeof detail.text - 1) == 0);
    CHECK(strstr(detail.text, "/no/such/folder") != NULL);
    mmsb_page_t page;
    CHECK_STATUS(mmsb_page_lookup(0, 1, &page), MMSB_E_INVALID_HANDLE);
    CHECK_OK(mmsb_last_error_detail(&detail));
    CHECK_EQUAL(detail.code, MMSB_E_INVALID_HANDLE);
    CHECK_EQUAL(detail.domain, MMSB_DOMAIN_NONE);
    CHECK_EQUAL(detail.foreign_code, 0);
    CHECK_EQUAL(mmsb_last_error_detail(NULL), MMSB_E_INVALID_ARGUMENT);
    detail.struct_size--;
    CHECK_EQUAL(mmsb_last_error_detail(&detail), MMSB_E_STRUCT_VERSION);
    mmsb_error_detail_init(&detail);
    detail.reserved[0] = 1;
    CHECK_EQUAL(mmsb_last_error_detail(&detail), MMSB_E_STRUCT_VERSION);
}

/* A text longer than the detail holds is cut, and at a character: a path of many two-byte characters makes one. */
static void long_texts_are_cut_at_a_character(void) {
    for (int shift = 0; shift < 2; shift++) {
        char path[1400];
        size_t length = 0;
        path[length++] = '/';
        for (int i = 0; i < shift; i++) {
            path[length++] = 'x';
        }
        while (length < sizeof path - 3) {
            memcpy(path + length, "\xC3\xA4", 2);
            length += 2;
        }
        path[length] = 0;
        mmsb_context_options_t options;
        mmsb_context_options_init(&options);
        options.disk_path = path;
        mmsb_context_t context;
        CHECK_STATUS(mmsb_context_create(&options, &context), MMSB_E_IO);
        mmsb_error_detail_t detail;
        mmsb_error_detail_init(&detail);
        CHECK_OK(mmsb_last_error_detail(&detail));
        size_t kept = strnlen(detail.text, sizeof detail.text);
        CHECK(kept < sizeof detail.text);
        CHECK(strncmp(detail.text, mmsb_last_error(), kept) == 0);
        uint8_t last = (uint8_t)detail.text[kept - 1];
        CHECK(last != 0xC3); /* never the first half of a character */
    }
}

static void codes_have_names(void) {
    for (size_t i = 0; i < sizeof interface_codes / sizeof interface_codes[0]; i++) {
        const struct interface_code *known = &interface_codes[i];
        const char *text = mmsb_strerror(known->code);
        size_t length = strlen(known->name);
        CHECK(strncmp(text, known->name, length) == 0 && !isalnum((unsigned char)text[length]) && text[length] != '_');
        CHECK(strchr(text, '\n') == NULL);
        CHECK(text == mmsb_strerror(known->code)); /* static */
    }
    static const mmsb_status_t none[] = {-1, 1, 9, 19, 92, 1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(mmsb_strerror(none[i]) != NULL && mmsb_strerror(none[i])[0] != 0);
    }
}

static void the_library_tells_its_version(void) {
    CHECK(strcmp(mmsb_version(), MMSB_VERSION_STRING) == 0);
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", MMSB_VERSION_MAJOR, MMSB_VERSION_MINOR, MMSB_VERSION_PATCH);
    CHECK(strcmp(mmsb_version(), expected) == 0);
    CHECK_EQUAL(mmsb_abi_version(), MMSB_ABI_VERSION);
    CHECK(strstr(mmsb_build_info(), "go1.") != NULL);
    CHECK(strchr(mmsb_build_info(), '\n') == NULL);
}

static void capabilities_are_listed(void) {
    size_t count = 0;
    CHECK_OK(mmsb_capabilities(NULL, 0, &count));
    CHECK(count > 0 && count < 100);
    mmsb_capability_t *records = calloc(count, sizeof *records);
    size_t written = 0;
    CHECK_OK(mmsb_capabilities(records, count, &written));
    CHECK_EQUAL(written, count);
    int cuda = 0;
    int huge_pages = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK_EQUAL(records[i].struct_size, sizeof *records);
        CHECK(records[i].available == 0 || records[i].available == 1);
        CHECK(records[i].name[0] != 0 && memchr(records[i].name, 0, sizeof records[i].name) != NULL);
        CHECK(memchr(records[i].reason, 0, sizeof records[i].reason) != NULL);
        CHECK(records[i].available || records[i].reason[0] != 0); /* what is missing is told */
        cuda += strcmp(records[i].name, "cuda") == 0;
        huge_pages += strcmp(records[i].name, "huge pages") == 0;
    }
    CHECK(cuda == 1 && huge_pages == 1);
    if (count > 1) {
        memset(records, 0xAA, count * sizeof *records);
        written = 0;
        CHECK_STATUS(mmsb_capabilities(records, count - 1, &written), MMSB_E_OUT_OF_RANGE);
        CHECK_EQUAL(written, count);
        CHECK_EQUAL(records[0].struct_size, 0xAAAAAAAA);
    }
    free(records);
    CHECK_STATUS(mmsb_capabilities(NULL, 5, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_capabilities(NULL, 0, NULL), MMSB_E_INVALID_ARGUMENT);
}

static void live_objects_are_counted(void) {
    mmsb_context_t context = new_context();
    CHECK_EQUAL(check_live(MMSB_KIND_CONTEXT), 1);
    mmsb_page_t pages[7];
    CHECK_OK(mmsb_page_create_many(context, 10, 7, NULL, NULL, pages));
    CHECK_EQUAL(check_live(MMSB_KIND_PAGE), 7);
    CHECK_OK(mmsb_page_destroy(pages[3]));
    CHECK_EQUAL(check_live(MMSB_KIND_PAGE), 6);
    uint64_t count = 42;
    CHECK_STATUS(mmsb_debug_live_objects(MMSB_KIND_PAGE - 1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_debug_live_objects(MMSB_KIND_COMMANDS + 1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_debug_live_objects(-1, &count), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_debug_live_objects(MMSB_KIND_PAGE, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_EQUAL(count, 42);
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    CHECK(mmsb_last_error() != NULL && mmsb_last_error()[0] == 0); /* empty before the first failure */
    RUN(each_thread_has_its_own_error);
    RUN(success_does_not_clear);
    RUN(the_text_is_copied);
    RUN(the_detail_names_errno);
    RUN(long_texts_are_cut_at_a_character);
    RUN(codes_have_names);
    RUN(the_library_tells_its_version);
    RUN(capabilities_are_listed);
    RUN(live_objects_are_counted);
    return check_report();
}
