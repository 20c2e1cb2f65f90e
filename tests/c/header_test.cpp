// The header from C++17: every function has C linkage, and a small program works.
#include <mmsb.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

static_assert(std::is_standard_layout<mmsb_delta_t>::value && std::is_trivial<mmsb_delta_t>::value, "plain structs");
static_assert(std::is_same<mmsb_page_t, std::uint64_t>::value && std::is_same<mmsb_status_t, std::int32_t>::value, "plain types");

int main() {
    int passed = 0;
    int failed = 0;
    const auto check = [&](bool condition, const char *what) {
        ++(condition ? passed : failed);
        if (!condition) {
            std::fprintf(stderr, "header_test.cpp: not true: %s\n", what);
        }
    };
    mmsb_context_t context = 0;
    mmsb_page_t page = 0;
    check(mmsb_abi_version() == MMSB_ABI_VERSION, "the ABI of library and header");
    check(mmsb_context_create(nullptr, &context) == MMSB_OK, "a context is created");
    check(mmsb_page_create(context, 16, nullptr, &page) == MMSB_OK, "a page is created");
    const std::array<std::uint64_t, 2> offsets{3, 5};
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_INDEXED;
    delta.offsets = offsets.data();
    delta.count = offsets.size();
    delta.payload = "ab";
    check(mmsb_page_apply(page, &delta) == MMSB_OK, "a delta is applied");
    std::array<char, 16> bytes{};
    check(mmsb_page_read(page, 0, bytes.data(), bytes.size()) == MMSB_OK, "the page is read");
    check(bytes[3] == 'a' && bytes[5] == 'b' && bytes[4] == 0, "the delta changed its bytes");
    check(mmsb_page_create(context, 0, nullptr, &page) == MMSB_E_INVALID_SIZE, "a size of 0 is refused");
    check(std::strlen(mmsb_last_error()) > 0, "with a text");
    check(mmsb_context_destroy(context) == MMSB_OK, "the context ends");
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
