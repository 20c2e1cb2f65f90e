/* Calls that take no handle: errors, capabilities, the log, sizes of structs, texts of options. */
#include "fuzz.h"

void fuzz_options_text(void) {
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

void fuzz_library(void) {
    uint64_t count = UNTOUCHED;
    size_t length = UNTOUCHED;
    switch (below(9)) {
    case 0: {
        int32_t kind = (int32_t)below(17) - 1;
        CALL(mmsb_debug_live_objects(kind, &count),
             kind >= MMSB_KIND_PAGE && kind <= MMSB_KIND_COMMANDS ? MMSB_OK : MMSB_E_INVALID_ARGUMENT);
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
