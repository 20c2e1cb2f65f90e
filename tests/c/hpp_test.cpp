// mmsb.hpp with exceptions: each class, what it ends and when, and what it throws.
#include <mmsb.hpp>

#include "../check.h"
#include "tensor.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::uint64_t live(std::int32_t kind) {
    std::uint64_t count = UINT64_MAX;
    REQUIRE(mmsb_debug_live_objects(kind, &count) == MMSB_OK);
    return count;
}

void check_nothing_lives() {
    for (std::int32_t kind :
         {MMSB_KIND_PAGE, MMSB_KIND_CONTEXT, MMSB_KIND_TICKET, MMSB_KIND_DELTA, MMSB_KIND_MEMORY, MMSB_KIND_SNAPSHOT,
          MMSB_KIND_STREAM, MMSB_KIND_BLOCK, MMSB_KIND_USE, MMSB_KIND_RUNTIME, MMSB_KIND_RESERVATION, MMSB_KIND_TENSOR})
        CHECK_EQUAL(live(kind), 0);
}

// A folder that goes with the object.
struct folder {
    folder() {
        std::string name = (std::filesystem::temp_directory_path() / "mmsb-hpp-XXXXXX").string();
        REQUIRE(mkdtemp(&name[0]) != nullptr);
        path = name;
    }
    folder(const folder &) = delete;
    folder &operator=(const folder &) = delete;
    ~folder() {
        std::filesystem::remove_all(path);
    }
    std::string at(const char *name) const {
        return path + "/" + name;
    }
    std::string path;
};

// The code that a call throws; MMSB_OK where it throws nothing.
template <class F> mmsb_status_t thrown(F call) {
    try {
        call();
    } catch (const mmsb::error &failed) {
        CHECK(std::strlen(failed.what()) > 0);
        return failed.code();
    }
    return MMSB_OK;
}

mmsb::context simulated() {
    auto with = mmsb::options<mmsb_context_options_t>();
    with.simulate = MMSB_SIMULATE_ALWAYS;
    return mmsb::context::create(with);
}

void contexts_end_with_the_object() {
    CHECK_EQUAL(live(MMSB_KIND_CONTEXT), 0);
    {
        mmsb::context context = mmsb::context::create();
        CHECK(context && live(MMSB_KIND_CONTEXT) == 1);
        mmsb::context moved = std::move(context);
        CHECK(!context && moved && live(MMSB_KIND_CONTEXT) == 1);
        moved = mmsb::context::create();
        CHECK_EQUAL(live(MMSB_KIND_CONTEXT), 1);
        mmsb::context other;
        other = std::move(moved);
        mmsb::context &same = other;
        other = std::move(same);
        CHECK(other && live(MMSB_KIND_CONTEXT) == 1);
        const mmsb_context_t handle = other.release();
        CHECK(!other && live(MMSB_KIND_CONTEXT) == 1);
        mmsb::context again(handle);
        again.close();
        CHECK(!again && live(MMSB_KIND_CONTEXT) == 0);
        again.close(); // nothing
    }
    CHECK_EQUAL(live(MMSB_KIND_CONTEXT), 0);
}

void errors_have_codes_and_texts() {
    mmsb::context context = mmsb::context::create();
    CHECK_EQUAL(thrown([&] { context.create_page(0); }), MMSB_E_INVALID_SIZE);
    CHECK_EQUAL(thrown([&] { context.find(99); }), MMSB_E_NOT_FOUND);
    CHECK_EQUAL(thrown([&] { context.create_page(8, MMSB_LOCATION_GPU); }), MMSB_E_NO_DEVICE);
    CHECK_EQUAL(thrown([&] { mmsb::snapshot::open("/dev/null/none"); }), MMSB_E_IO);
    CHECK_EQUAL(thrown([&] { mmsb::page().read<int>(); }), MMSB_E_INVALID_HANDLE);
    try {
        context.create_page(8).read<std::uint64_t>(4);
        CHECK(0);
    } catch (const std::exception &failed) {
        CHECK(std::strstr(failed.what(), "8") != nullptr);
    }
    CHECK_EQUAL(mmsb::error::last(MMSB_E_PEER).code(), MMSB_E_PEER);
    CHECK(std::strstr(mmsb::error::last(MMSB_E_PEER).what(), "MMSB_E_PEER") != nullptr);
}

void spans_show_items() {
    std::vector<int> numbers{1, 2, 3, 4};
    const std::array<int, 2> fixed{{7, 8}};
    int plain[3] = {4, 5, 6};
    mmsb::span<int> all(numbers);
    mmsb::span<const int> some(fixed), of_plain(plain), readers(all);
    CHECK(all.size() == 4 && all.size_bytes() == 16 && all.data() == numbers.data() && !all.empty());
    CHECK(some.size() == 2 && some[1] == 8 && of_plain.size() == 3 && readers.size() == 4);
    CHECK(all.subspan(1).size() == 3 && all.subspan(1, 2)[1] == 3 && all.subspan(9).empty() && all.subspan(3, 9).size() == 1);
    int sum = 0;
    for (int number : all)
        sum += number;
    CHECK_EQUAL(sum, 10);
    CHECK(mmsb::span<int>().empty());
    static_assert(!std::is_constructible<mmsb::span<int>, const std::vector<int> &>::value, "nobody writes what is const");
    static_assert(!std::is_copy_constructible<mmsb::context>::value, "an owner is not copied");
    static_assert(!std::is_copy_constructible<mmsb::pinned<int>>::value, "nor is a pin");
    static_assert(std::is_nothrow_move_constructible<mmsb::block>::value, "vectors move blocks");
}

void pages_are_names() {
    mmsb::context context = mmsb::context::create();
    mmsb::page page = context.create_page(64);
    CHECK(page.size() == 64 && page.id() != 0 && page.epoch() == 0 && page.version() != 0);
    page.write(8, std::uint32_t{0xabcd});
    CHECK_EQUAL(page.read<std::uint32_t>(8), 0xabcd);
    const std::array<std::uint16_t, 3> three{{1, 2, 3}};
    page.write(0, mmsb::span<const std::uint16_t>(three));
    std::vector<std::uint16_t> back(3);
    page.read(0, mmsb::span<std::uint16_t>(back));
    CHECK(back[2] == 3);
    page.write(10, three); /* what lies elsewhere is written, not where it lies */
    page.write(20, std::string_view("view"));
    page.write(30, std::vector<std::uint16_t>{4, 5});
    page.write(40, std::string("text"));
    CHECK(page.read<std::uint16_t>(14) == 3 && page.read<char>(23) == 'w' && page.read<char>(24) == 0);
    CHECK(page.read<std::uint16_t>(32) == 5 && page.read<char>(43) == 't');
    CHECK(context.find(page.id()) == page && context.find(page.id()) != mmsb::page());
    page.apply(4, mmsb::span<const std::uint16_t>(three));
    CHECK(page.epoch() == 1 && page.mask_count() == 6);
    page.clear_mask();
    CHECK_EQUAL(page.mask_count(), 0);
    mmsb::page clone = page.clone(5);
    CHECK(clone.id() == 5 && clone.read<std::uint16_t>(8) == 3);
    clone.write(1, 'x');
    mmsb::unique_delta delta = page.delta_to(clone);
    CHECK_EQUAL(delta->count, 1);
    mmsb::unique_delta both = delta.merged(*delta);
    delta = std::move(both);
    page.apply(*delta);
    CHECK(page.read<char>(1) == 'x' && page.epoch() == 2);
    page.set_metadata("name", std::string(3000, 'n'));
    CHECK(page.metadata("name") == std::string(3000, 'n'));
    page.set_metadata("empty", "");
    CHECK(page.metadata("empty").empty());
    CHECK_EQUAL(thrown([&] { page.metadata("none"); }), MMSB_E_NOT_FOUND);
    page.resize(100);
    page.migrate(MMSB_LOCATION_DISK);
    CHECK(page.info().location == MMSB_LOCATION_DISK && page.info().size == 100);
    CHECK_EQUAL(context.pages().size(), 2);
    page.destroy();
    CHECK_EQUAL(thrown([&] { page.info(); }), MMSB_E_STALE_HANDLE);
    {
        mmsb::unique_page own(context.create_page(10));
        (*own).write(0, 'a');
        CHECK(own.get().read<char>(0) == 'a' && context.stats().pages == 2);
    }
    CHECK_EQUAL(context.stats().pages, 1);
    context.trim();
    std::vector<double> mine(10, 1.5);
    mmsb::page adopted = context.adopt(mmsb::span<double>(mine), 9);
    adopted.write(8, 2.5);
    CHECK(mine[1] == 2.5 && adopted.id() == 9);
    mmsb::page frozen = context.adopt(mmsb::span<const double>(mine));
    CHECK_EQUAL(thrown([&] { frozen.write(0, 1.0); }), MMSB_E_INVALID_STATE);
}

void pins_end_with_the_object() {
    mmsb::context context = simulated();
    mmsb::page page = context.create_page(100);
    {
        mmsb::pinned<float> items = page.pin<float>();
        CHECK(items.size() == 25 && page.info().write_pins == 1);
        items[24] = 1.5F;
        mmsb::pinned<float> moved = std::move(items);
        CHECK(items.empty() && moved.size() == 25 && page.info().write_pins == 1);
        mmsb::pinned<const float> readers = page.pin<const float>();
        CHECK(readers[24] == 1.5F && page.info().read_pins == 1);
        CHECK_EQUAL(thrown([&] { page.destroy(); }), MMSB_E_BUSY);
        readers = page.pin<const float>();
        CHECK_EQUAL(page.info().read_pins, 1);
        readers.unpin();
        CHECK(readers.empty() && page.info().read_pins == 0);
        CHECK_EQUAL(thrown([&] { throw mmsb::error(MMSB_E_PEER, "mine"); }), MMSB_E_PEER);
    }
    CHECK_EQUAL(page.info().write_pins, 0);
    std::array<char, 16> bytes{};
    mmsb::page crooked = context.adopt(mmsb::span<char>(bytes.data() + 1, 9));
    CHECK_EQUAL(thrown([&] { crooked.pin<std::uint64_t>(); }), MMSB_E_MISMATCH);
    CHECK_EQUAL(crooked.pin<char>().size(), 9);
    mmsb::page far = context.create_page(100, MMSB_LOCATION_GPU);
    CHECK_EQUAL(thrown([&] { far.pin<char>(); }), MMSB_E_UNSUPPORTED);
    CHECK_EQUAL(far.info().write_pins, 0);
    CHECK_EQUAL(far.version(), 1);
    CHECK_EQUAL(crooked.info().write_pins, 0);
    const std::uint64_t version = crooked.version();
    CHECK_EQUAL(thrown([&] { crooked.pin<std::uint64_t>(); }), MMSB_E_MISMATCH);
    CHECK_EQUAL(crooked.version(), version);
}

void tensors_change_hands() {
    mmsb::context context = mmsb::context::create();
    mmsb::page page = context.create_page(64);
    mmsb::page again = context.adopt_tensor(page.export_tensor());
    again.write(3, 'z');
    CHECK(page.read<char>(3) == 'z' && live(MMSB_KIND_TENSOR) == 1);
    again.destroy();
    auto with = mmsb::options<mmsb_tensor_options_t>();
    with.read_only = 1;
    CHECK_EQUAL(live(MMSB_KIND_TENSOR), 0);
    auto *frozen = static_cast<dl_versioned_t *>(page.export_tensor(with));
    CHECK_EQUAL(thrown([&] { context.adopt_tensor(frozen); }), MMSB_E_INVALID_STATE);
    frozen->deleter(frozen);
}

void files() {
    const folder made;
    const std::string path = made.at("state");
    mmsb::context context = mmsb::context::create();
    mmsb::page page = context.create_page(1000);
    page.write(0, std::uint64_t{7});
    const std::uint64_t id = page.id();
    context.save(path);
    {
        mmsb::snapshot file = mmsb::snapshot::open(path);
        CHECK(file.info().pages == 1 && file.pages().at(0).id == id && live(MMSB_KIND_SNAPSHOT) == 1);
        std::uint64_t seven = 0;
        file.read(id, 0, mmsb::span<std::uint64_t>(&seven, 1));
        CHECK(seven == 7 && file.view(id).size() == 1000 && file.view(id)[0] == std::byte{7});
        mmsb::snapshot::verify(path);
    }
    CHECK_EQUAL(live(MMSB_KIND_SNAPSHOT), 0);
    page.write(0, std::uint64_t{8});
    {
        mmsb::ticket saving = context.save_start(path);
        saving.wait();
        CHECK(saving.done() && saving.progress().first == saving.progress().second);
        saving.cancel();
        saving.wait(std::chrono::milliseconds(1));
        CHECK_EQUAL(live(MMSB_KIND_TICKET), 1);
    }
    CHECK_EQUAL(live(MMSB_KIND_TICKET), 0);
    mmsb::context other = mmsb::context::create();
    other.load(path);
    CHECK_EQUAL(other.find(id).read<std::uint64_t>(), 8);
    {
        mmsb::journal journal = other.open_journal(path + ".journal");
        other.find(id).write(8, std::uint64_t{9});
        journal.sync();
        CHECK(journal.info().last > 0);
    }
    CHECK_EQUAL(thrown([&] { mmsb::journal(other.handle()).sync(); }), MMSB_E_INVALID_STATE);
}

void groups_are_whole_or_not() {
    mmsb::context context = mmsb::context::create();
    mmsb::page page = context.create_page(8);
    {
        mmsb::group group = context.begin_group();
        page.write(0, 'a');
        group.commit();
    }
    CHECK_EQUAL(page.read<char>(), 'a');
    {
        mmsb::group group = context.begin_group();
        page.write(0, 'b');
    }
    CHECK_EQUAL(page.read<char>(), 'a');
    {
        mmsb::group group = context.begin_group();
        page.write(0, 'c');
        group.rollback();
        CHECK(!group && page.read<char>() == 'a');
    }
    {
        mmsb::group group = context.begin_group();
        mmsb::page made = context.create_page(8);
        {
            auto pin = made.pin<const char>();
            CHECK_EQUAL(thrown([&] { group.close(); }), MMSB_E_BUSY);
            CHECK(static_cast<bool>(group));
        }
        group.close(); /* undoes it now */
        CHECK(!group && page.read<char>() == 'a');
    }
    mmsb::unique_page owned(context.create_page(8));
    {
        auto pin = (*owned).pin<const char>();
        CHECK_EQUAL(thrown([&] { owned.close(); }), MMSB_E_BUSY);
    }
    owned.close();
    CHECK(!owned);
    CHECK_EQUAL(thrown([&] { context.begin_group().commit(); }), MMSB_OK);
    {
        mmsb::writing section = context.begin_writing(mmsb::timeout(0));
        CHECK_EQUAL(mmsb_writing_check(context.handle()), MMSB_E_INVALID_STATE);
    }
    CHECK_EQUAL(mmsb_writing_check(context.handle()), MMSB_OK);
}

void stores_keep_contexts() {
    const folder made;
    const std::string path = made.at("store");
    std::uint64_t id = 0;
    {
        mmsb::store store = mmsb::store::open(path);
        mmsb::page page = store.create_page(16);
        page.write(0, std::uint64_t{1});
        id = page.id();
        store.name("first");
        page.write(0, std::uint64_t{2});
        store.save_store();
        CHECK(store.info().snapshots >= 1);
        mmsb::context of = std::move(store); // a store is a context
        CHECK_EQUAL(of.find(id).read<std::uint64_t>(), 2);
    }
    auto with = mmsb::options<mmsb_store_options_t>();
    with.mode = MMSB_STORE_READ;
    with.at_name = "first";
    mmsb::store older = mmsb::store::open(path, with);
    CHECK_EQUAL(older.find(id).read<std::uint64_t>(), 1);
    CHECK_EQUAL(thrown([&] { older.wait(1, std::chrono::seconds(1)); }), MMSB_E_INVALID_STATE);
    CHECK_EQUAL(thrown([&] { older.unname("first"); }), MMSB_E_INVALID_STATE);
    older.close();
}

void devices_work_in_order() {
    mmsb::context context = simulated();
    {
        mmsb::runtime runtime = mmsb::runtime::create(context);
        mmsb::stream first = runtime.create_stream(), second = runtime.create_stream(-1);
        mmsb::block block = first.allocate(4096);
        CHECK(block.address() != nullptr && block.size() == 4096 && block.info().bytes == 4096);
        {
            mmsb::use use = first.begin_use({{block, MMSB_ACCESS_WRITE}});
            first.fill(block.address(), 5, 4096);
            CHECK_EQUAL(live(MMSB_KIND_USE), 1);
        }
        CHECK_EQUAL(live(MMSB_KIND_USE), 0);
        std::vector<std::uint8_t> back(4096);
        {
            mmsb::use use = second.begin_use({{block, MMSB_ACCESS_READ}});
            second.copy(back.data(), block.address(), back.size());
        }
        second.wait();
        CHECK(back[0] == 5 && back[4095] == 5);
        CHECK_EQUAL(thrown([&] {
                        mmsb::use use = second.begin_use({{block, MMSB_ACCESS_READ}});
                        throw mmsb::error(MMSB_E_PEER, "the launch failed");
                    }),
                    MMSB_E_PEER);
        CHECK(live(MMSB_KIND_USE) == 0 && runtime.stats().aborts == 1);
        mmsb::use use = second.begin_use({{block, MMSB_ACCESS_READ}});
        mmsb::use moved = std::move(use);
        moved.abort();
        CHECK_EQUAL(runtime.stats().aborts, 2);
        mmsb::ticket point = first.record();
        second.after(point);
        second.wait(std::chrono::seconds(600));
        CHECK(first.native() != second.native());
        CHECK_EQUAL(thrown([&] { runtime.reserve(10); }), MMSB_E_INVALID_STATE); // there is no budget
        std::vector<mmsb::block> many;
        for (int i = 0; i < 10; i++)
            many.push_back(first.allocate(256));
        CHECK(many[9].size() == 256 && live(MMSB_KIND_BLOCK) == 11);
        many.clear();
        block.close();
        CHECK_EQUAL(thrown([&] { (void)first.begin_use({{block, MMSB_ACCESS_READ}}); }), MMSB_E_INVALID_HANDLE);
        runtime.trim();
    }
    CHECK_EQUAL(live(MMSB_KIND_RUNTIME) + live(MMSB_KIND_STREAM) + live(MMSB_KIND_BLOCK), 0);
    auto with = mmsb::options<mmsb_runtime_options_t>();
    with.budget = 1 << 20;
    mmsb::runtime limited = mmsb::runtime::create(context, 0, with);
    {
        mmsb::reservation kept = limited.reserve(4096);
        CHECK_EQUAL(limited.stats().reserved_bytes, 4096);
        mmsb::stream stream = limited.create_stream();
        mmsb::block block = stream.allocate(1024, 0, kept.handle());
        CHECK_EQUAL(limited.stats().reserved_bytes, 3072);
    }
    CHECK_EQUAL(limited.stats().reserved_bytes, 0);
    mmsb::runtime shared = mmsb::runtime::shared(context);
    mmsb::stream wrapped = shared.wrap(nullptr);
    wrapped.close();
    shared.close(); // ends nothing
    CHECK(mmsb::runtime::shared(context).create_stream());
}

void objects_may_outlive_their_context() {
    mmsb::pinned<char> bytes;
    mmsb::unique_page own;
    mmsb::stream stream;
    mmsb::block block;
    mmsb::runtime runtime;
    {
        mmsb::context context = simulated();
        own = mmsb::unique_page(context.create_page(100));
        bytes = context.create_page(5000).pin<char>();
        runtime = mmsb::runtime::create(context);
        stream = runtime.create_stream();
        block = stream.allocate(256);
    }
    bytes[4999] = 1; // pinned memory stays
    CHECK_EQUAL(thrown([&] { own.get().info(); }), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(thrown([&] { stream.wait(); }), MMSB_E_STALE_HANDLE);
}

} // namespace

int main() {
    check_at_end = check_nothing_lives;
    check_last_error = mmsb_last_error;
    RUN(contexts_end_with_the_object);
    RUN(errors_have_codes_and_texts);
    RUN(spans_show_items);
    RUN(pages_are_names);
    RUN(pins_end_with_the_object);
    RUN(tensors_change_hands);
    RUN(files);
    RUN(groups_are_whole_or_not);
    RUN(stores_keep_contexts);
    RUN(devices_work_in_order);
    RUN(objects_may_outlive_their_context);
    return check_report();
}
