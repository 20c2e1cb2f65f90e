// The header from C++17: every function has C linkage, and a small program works.
#include <mmsb.h>

#include "../check.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

static_assert(std::is_standard_layout<mmsb_delta_t>::value && std::is_trivial<mmsb_delta_t>::value, "plain structs");
static_assert(std::is_same<mmsb_page_t, std::uint64_t>::value && std::is_same<mmsb_status_t, std::int32_t>::value, "plain types");

namespace {

void the_library_has_the_abi_of_the_header() {
    CHECK_EQUAL(mmsb_abi_version(), MMSB_ABI_VERSION);
}

void a_small_program_works() {
    mmsb_context_t context = 0;
    mmsb_page_t page = 0;
    REQUIRE(mmsb_context_create(nullptr, &context) == MMSB_OK);
    REQUIRE(mmsb_page_create(context, 16, nullptr, &page) == MMSB_OK);
    const std::array<std::uint64_t, 2> offsets{3, 5};
    mmsb_delta_t delta;
    mmsb_delta_init(&delta);
    delta.kind = MMSB_DELTA_INDEXED;
    delta.offsets = offsets.data();
    delta.count = offsets.size();
    delta.payload = "ab";
    CHECK(mmsb_page_apply(page, &delta) == MMSB_OK);
    std::array<char, 16> bytes{};
    CHECK(mmsb_page_read(page, 0, bytes.data(), bytes.size()) == MMSB_OK);
    CHECK(bytes[3] == 'a' && bytes[5] == 'b' && bytes[4] == 0);
    CHECK(mmsb_page_create(context, 0, nullptr, &page) == MMSB_E_INVALID_SIZE);
    CHECK(std::strlen(mmsb_last_error()) > 0);
    CHECK(mmsb_context_destroy(context) == MMSB_OK);
}

} // namespace

int main() {
    RUN(the_library_has_the_abi_of_the_header);
    RUN(a_small_program_works);
    return check_report();
}
