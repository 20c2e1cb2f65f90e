// mmsb.hpp with errors as values. Nothing throws: the objects end what they own on every way out, as with exceptions.
#define MMSB_EXPECTED
#include <mmsb.hpp>

#include "../check.h"

#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <vector>

namespace {

// What a function looks like that passes errors on.
mmsb::expected<std::uint64_t> sum_of(const mmsb::context &context, std::uint64_t id) {
    auto page = context.find(id);
    if (!page)
        return page.error();
    auto numbers = page->pin<const std::uint64_t>();
    if (!numbers)
        return numbers.error();
    std::uint64_t sum = 0;
    for (std::uint64_t number : *numbers)
        sum += number;
    return sum;
}

void values_and_errors() {
    auto context = mmsb::context::create();
    REQUIRE(static_cast<bool>(context));
    auto page = context->create_page(64);
    REQUIRE(static_cast<bool>(page));
    CHECK(static_cast<bool>(page->write(8, std::uint64_t{5})));
    CHECK(static_cast<bool>(page->write(56, std::uint64_t{6})));
    CHECK_EQUAL(sum_of(*context, page->id()).value(), 11);
    CHECK_EQUAL(page->info()->read_pins, 0);
    auto none = sum_of(*context, 99);
    CHECK(!none && none.error().code() == MMSB_E_NOT_FOUND && std::strlen(none.error().what()) > 0);
    auto written = page->write(60, std::uint64_t{1});
    CHECK(!written && written.error().code() == MMSB_E_OUT_OF_RANGE);
    CHECK(!context->create_page(0) && !context->create_page(8, MMSB_LOCATION_GPU));
    const auto size = page->info();
    CHECK_EQUAL(size.value().size, 64);
    page->write(0, std::uint64_t{1}).value(); // there is one
    {
        auto group = context->begin_group();
        REQUIRE(static_cast<bool>(group));
        CHECK(static_cast<bool>(page->write(0, std::uint64_t{100})));
    }
    CHECK_EQUAL(*page->read<std::uint64_t>(), 1);
    CHECK(static_cast<bool>(page->set_metadata("key", "value")));
    CHECK(*page->metadata("key") == "value");
    auto pages = context->pages();
    CHECK(pages && pages->size() == 1);
    mmsb::context moved = std::move(context).value();
    CHECK(moved && moved.stats()->pages == 1);
    CHECK(static_cast<bool>(moved.close()));
    CHECK_EQUAL(page->info().error().code(), MMSB_E_STALE_HANDLE);
}

void pins_that_cannot_be() {
    auto with = mmsb::options<mmsb_context_options_t>();
    with.simulate = MMSB_SIMULATE_ALWAYS;
    auto context = mmsb::context::create(with);
    auto far = context->create_page(64, MMSB_LOCATION_GPU);
    auto pinned = far->pin<char>();
    CHECK(!pinned && pinned.error().code() == MMSB_E_UNSUPPORTED);
    CHECK_EQUAL(far->info()->write_pins, 0);
}

// 1: the process ended with SIGABRT.
int aborts(void (*call)()) {
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        call();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void a_value_that_is_not_there_ends_the_program() {
    CHECK(aborts([] { mmsb::expected<int>(mmsb::error(MMSB_E_PEER, "none")).value(); }));
    CHECK(aborts([] { mmsb::expected<void>(mmsb::error(MMSB_E_PEER, "none")).value(); }));
    CHECK(aborts([] { (void)mmsb::expected<int>(5).error(); }));
    static const mmsb::expected<void> nothing_wrong; /* on the stack, gcc 12's sanitizer takes it for uninitialised */
    CHECK(!aborts([] { nothing_wrong.value(); }));
}

} // namespace

int main() {
    check_last_error = mmsb_last_error;
    RUN(a_value_that_is_not_there_ends_the_program);
    RUN(values_and_errors);
    RUN(pins_that_cannot_be);
    return check_report();
}
