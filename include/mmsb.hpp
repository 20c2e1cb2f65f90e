/*
 * mmsb.hpp — libmmsb for C++17: objects that end what they own, spans, and errors as exceptions or as values.
 *
 * mmsb.h is the manual: each function here is one of it under a shorter name, and means the same. Its options structs are passed
 * as they are; options<T>() gives one with its defaults. What is missing here is called there, with handle().
 *
 * Errors     A call that fails throws mmsb::error. With MMSB_EXPECTED defined before this header it returns mmsb::expected<T>
 *            instead, and nothing throws: that also compiles with -fno-exceptions. A program may have files of both kinds.
 * Owning     Objects that own are moved, not copied, and end what they own: context, store, unique_page, pinned, journal,
 *            group, writing, snapshot, ticket, unique_delta, runtime, reservation, stream, block, use. Their destructors ignore
 *            errors: who wants them calls close() or the like before. A page is a name, as in C: copied freely, it owns nothing,
 *            and lives until destroy() or until its context ends.
 * Order      Objects end in the reverse order of their definition: what is in a context is defined behind it. The other order is
 *            harmless: what a context has ended answers MMSB_E_STALE_HANDLE.
 * Threads    As in C: any thread may call anything, except that an object of C++ is moved or ended by one thread at a time.
 */
#ifndef MMSB_HPP
#define MMSB_HPP

#if defined(__GNUC__) && !defined(__clang__) /* in C a struct and a function may have one name; gcc warns of it in C++ */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include <mmsb.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace mmsb {

#ifdef MMSB_EXPECTED
inline namespace expecting {
#else
inline namespace throwing {
#endif

/* -------------------------------------------------------------------------------------------------------- errors ---- */

/* A status that is not MMSB_OK, with the library's text. */
class error : public std::exception {
  public:
    error(mmsb_status_t code, std::string text) : code_(code), text_(std::move(text)) {
    }

    /* Of the call that has just failed on this thread. */
    static error last(mmsb_status_t code) {
        return {code, mmsb_last_error_code() == code ? mmsb_last_error() : mmsb_strerror(code)};
    }

    mmsb_status_t code() const noexcept {
        return code_;
    }
    const char *what() const noexcept override {
        return text_.c_str();
    }

  private:
    mmsb_status_t code_;
    std::string text_;
};

/* A value or an error. Asking for the one that is not there ends the program. */
template <class T> class [[nodiscard]] expected {
  public:
    expected(T value) : held_(std::in_place_index<0>, std::move(value)) {
    }
    expected(mmsb::error failure) : held_(std::in_place_index<1>, std::move(failure)) {
    }

    explicit operator bool() const noexcept {
        return held_.index() == 0;
    }
    T &value() & {
        return *must(std::get_if<0>(&held_));
    }
    const T &value() const & {
        return *must(std::get_if<0>(&held_));
    }
    T &&value() && {
        return std::move(*must(std::get_if<0>(&held_)));
    }
    T &operator*() & {
        return value();
    }
    T &&operator*() && {
        return std::move(*this).value();
    }
    T *operator->() {
        return &value();
    }
    const mmsb::error &error() const {
        return *must(std::get_if<1>(&held_));
    }

  private:
    template <class P> static P *must(P *held) {
        if (!held)
            std::abort();
        return held;
    }
    std::variant<T, mmsb::error> held_;
};

template <> class [[nodiscard]] expected<void> : public expected<std::monostate> {
  public:
    expected() : expected<std::monostate>(std::monostate{}) {
    }
    expected(mmsb::error failure) : expected<std::monostate>(std::move(failure)) {
    }
    void value() const {
        (void)expected<std::monostate>::value();
    }
};

/* What a call returns. */
#ifdef MMSB_EXPECTED
template <class T> using outcome = expected<T>;

inline outcome<void> finish(mmsb_status_t status) {
    if (status != MMSB_OK)
        return error::last(status);
    return {};
}
template <class T> outcome<T> finish(mmsb_status_t status, T value) {
    if (status != MMSB_OK)
        return error::last(status);
    return outcome<T>(std::move(value));
}
template <class T> outcome<T> refuse(mmsb_status_t code, const char *text) {
    return error(code, text);
}
#else
template <class T> using outcome = T;

inline void finish(mmsb_status_t status) {
    if (status != MMSB_OK)
        throw error::last(status);
}
template <class T> T finish(mmsb_status_t status, T value) {
    if (status != MMSB_OK)
        throw error::last(status);
    return value;
}
template <class T> outcome<T> refuse(mmsb_status_t code, const char *text) {
    throw error(code, text);
}
#endif

/* ------------------------------------------------------------------------------------------------- spans, options ---- */

/* Whether something has its items elsewhere, with data() and size(). */
template <class C, class = void> struct has_items : std::false_type {};
template <class C>
struct has_items<C, std::void_t<decltype(std::declval<const C &>().data()), decltype(std::declval<const C &>().size())>>
    : std::true_type {};

/* Items that lie elsewhere, as std::span of C++20. */
template <class T> class span {
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {
    }
    template <std::size_t N> constexpr span(T (&items)[N]) noexcept : data_(items), size_(N) {
    }
    /* Of anything with data() and size(): vectors, arrays, strings, other spans. */
    template <class C, class P = decltype(std::declval<C &>().data()),
              class = std::enable_if_t<std::is_convertible<std::remove_pointer_t<P> (*)[], T (*)[]>::value>>
    constexpr span(C &items) noexcept : data_(items.data()), size_(items.size()) {
    }

    constexpr T *data() const noexcept {
        return data_;
    }
    constexpr std::size_t size() const noexcept {
        return size_;
    }
    constexpr std::size_t size_bytes() const noexcept {
        return size_ * sizeof(T);
    }
    constexpr bool empty() const noexcept {
        return size_ == 0;
    }
    constexpr T *begin() const noexcept {
        return data_;
    }
    constexpr T *end() const noexcept {
        return data_ + size_;
    }
    constexpr T &operator[](std::size_t i) const noexcept {
        return data_[i];
    }
    /* count items from first on; what reaches past the end is cut. */
    constexpr span subspan(std::size_t first, std::size_t count = SIZE_MAX) const noexcept {
        const std::size_t begin = first < size_ ? first : size_;
        return {data_ + begin, count < size_ - begin ? count : size_ - begin};
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

inline void init(mmsb_context_options_t *o) {
    mmsb_context_options_init(o);
}
inline void init(mmsb_page_options_t *o) {
    mmsb_page_options_init(o);
}
inline void init(mmsb_adopt_options_t *o) {
    mmsb_adopt_options_init(o);
}
inline void init(mmsb_work_options_t *o) {
    mmsb_work_options_init(o);
}
inline void init(mmsb_save_options_t *o) {
    mmsb_save_options_init(o);
}
inline void init(mmsb_load_options_t *o) {
    mmsb_load_options_init(o);
}
inline void init(mmsb_journal_options_t *o) {
    mmsb_journal_options_init(o);
}
inline void init(mmsb_store_options_t *o) {
    mmsb_store_options_init(o);
}
inline void init(mmsb_runtime_options_t *o) {
    mmsb_runtime_options_init(o);
}
inline void init(mmsb_tensor_options_t *o) {
    mmsb_tensor_options_init(o);
}
inline void init(mmsb_delta_t *o) {
    mmsb_delta_init(o);
}
inline void init(mmsb_page_info_t *o) {
    mmsb_page_info_init(o);
}
inline void init(mmsb_context_stats_t *o) {
    mmsb_context_stats_init(o);
}
inline void init(mmsb_snapshot_info_t *o) {
    mmsb_snapshot_info_init(o);
}
inline void init(mmsb_journal_info_t *o) {
    mmsb_journal_info_init(o);
}
inline void init(mmsb_store_info_t *o) {
    mmsb_store_info_init(o);
}
inline void init(mmsb_runtime_stats_t *o) {
    mmsb_runtime_stats_init(o);
}
inline void init(mmsb_block_info_t *o) {
    mmsb_block_info_init(o);
}

/* A struct of mmsb.h with its size and its defaults. */
template <class T> T options() {
    T made;
    init(&made);
    return made;
}

/* A time for a call that waits; forever is no limit, 0 does not wait. */
using timeout = std::chrono::nanoseconds;
constexpr timeout forever = timeout::max();

inline std::uint64_t nanoseconds(timeout time) {
    if (time == forever)
        return MMSB_WAIT_FOREVER;
    return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
}

/* -------------------------------------------------------------------------------------------------------- owners ---- */

/* A handle that ends with the object. End: the function of mmsb.h that ends it, for which 0 is nothing. */
template <class End> class owner {
  public:
    owner() noexcept = default;
    explicit owner(std::uint64_t handle) noexcept : handle_(handle) {
    }
    owner(owner &&other) noexcept : handle_(other.release()) {
    }
    owner &operator=(owner &&other) noexcept {
        if (this != &other) {
            reset();
            handle_ = other.release();
        }
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner() {
        reset();
    }

    /* For functions of mmsb.h; 0 where it owns nothing. */
    std::uint64_t handle() const noexcept {
        return handle_;
    }
    explicit operator bool() const noexcept {
        return handle_ != 0;
    }
    /* Leaves the handle to the caller. */
    std::uint64_t release() noexcept {
        return std::exchange(handle_, 0);
    }
    /* Ends it now. What is in use (MMSB_E_BUSY) lives on, and is owned as before. */
    outcome<void> close() {
        const mmsb_status_t status = End()(handle_);
        if (status != MMSB_E_BUSY)
            (void)release();
        return finish(status);
    }

  protected:
    void reset() noexcept {
        if (handle_ != 0)
            (void)End()(release());
    }

  private:
    std::uint64_t handle_ = 0;
};

struct end_ticket {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return mmsb_ticket_destroy(handle);
    }
};

/* Work that goes on beside the program. Its end gives the ticket back and does not cancel the work. */
class ticket : public owner<end_ticket> {
  public:
    using owner::owner;

    outcome<bool> done() const {
        std::int32_t yes = 0;
        const mmsb_status_t status = mmsb_ticket_poll(handle(), &yes);
        return finish(status, yes != 0);
    }
    outcome<void> wait(timeout time = forever) const {
        return finish(mmsb_ticket_wait(handle(), nanoseconds(time)));
    }
    outcome<void> cancel() const {
        return finish(mmsb_ticket_cancel(handle()));
    }
    /* Done and all, in the units of the work. */
    outcome<std::pair<std::uint64_t, std::uint64_t>> progress() const {
        std::pair<std::uint64_t, std::uint64_t> of{0, 0};
        const mmsb_status_t status = mmsb_ticket_progress(handle(), &of.first, &of.second);
        return finish(status, of);
    }
};

/* --------------------------------------------------------------------------------------------------------- pages ---- */

/* The bytes of a page as items, which are pinned as long as the object lives. T const: for reading. */
template <class T> class pinned : public span<T> {
  public:
    pinned() noexcept = default;
    pinned(mmsb_page_t page, span<T> items) noexcept : span<T>(items), page_(page) {
    }
    pinned(pinned &&other) noexcept {
        take(other);
    }
    pinned &operator=(pinned &&other) noexcept {
        if (this != &other) {
            unpin();
            take(other);
        }
        return *this;
    }
    pinned(const pinned &) = delete;
    pinned &operator=(const pinned &) = delete;
    ~pinned() {
        unpin();
    }

    static constexpr std::int32_t mode = std::is_const<T>::value ? MMSB_PIN_READ : MMSB_PIN_WRITE;

    /* Ends the pin now; the span is empty then. */
    void unpin() noexcept {
        if (page_ != 0)
            (void)mmsb_page_unpin(std::exchange(page_, 0), mode);
        span<T>::operator=(span<T>());
    }

  private:
    void take(pinned &other) noexcept {
        span<T>::operator=(std::exchange(static_cast<span<T> &>(other), span<T>()));
        page_ = std::exchange(other.page_, 0);
    }
    mmsb_page_t page_ = 0;
};

/* A delta that the library has made. */
class unique_delta {
  public:
    explicit unique_delta(mmsb_delta_t *delta = nullptr) noexcept : delta_(delta) {
    }
    unique_delta(unique_delta &&other) noexcept : delta_(std::exchange(other.delta_, nullptr)) {
    }
    unique_delta &operator=(unique_delta &&other) noexcept {
        std::swap(delta_, other.delta_);
        return *this;
    }
    unique_delta(const unique_delta &) = delete;
    unique_delta &operator=(const unique_delta &) = delete;
    ~unique_delta() {
        (void)mmsb_delta_free(delta_);
    }

    const mmsb_delta_t &operator*() const noexcept {
        return *delta_;
    }
    const mmsb_delta_t *operator->() const noexcept {
        return delta_;
    }
    /* This one, then the second. */
    outcome<unique_delta> merged(const mmsb_delta_t &second) const {
        mmsb_delta_t *made = nullptr;
        const mmsb_status_t status = mmsb_delta_merge(delta_, &second, &made);
        return finish(status, unique_delta(made));
    }

  private:
    mmsb_delta_t *delta_;
};

/* A page of a context. It owns nothing. */
class page {
  public:
    constexpr page() noexcept = default;
    explicit constexpr page(mmsb_page_t handle) noexcept : handle_(handle) {
    }

    mmsb_page_t handle() const noexcept {
        return handle_;
    }
    friend bool operator==(page a, page b) noexcept {
        return a.handle_ == b.handle_;
    }
    friend bool operator!=(page a, page b) noexcept {
        return a.handle_ != b.handle_;
    }

    /* 0 for a page that has ended. */
    std::uint64_t id() const noexcept {
        return mmsb_page_id(handle_);
    }
    std::uint64_t size() const noexcept {
        return mmsb_page_size(handle_);
    }
    std::uint64_t epoch() const noexcept {
        return mmsb_page_epoch(handle_);
    }
    std::uint64_t version() const noexcept {
        return mmsb_page_version(handle_);
    }
    outcome<mmsb_page_info_t> info() const {
        auto of = options<mmsb_page_info_t>();
        const mmsb_status_t status = mmsb_page_info(handle_, &of);
        return finish(status, of);
    }

    /* Copies bytes of the page to items. */
    template <class T> outcome<void> read(std::uint64_t offset, span<T> items) const {
        static_assert(std::is_trivially_copyable<T>::value && !std::is_const<T>::value, "bytes can be copied into such items");
        return finish(mmsb_page_read(handle_, offset, items.data(), items.size_bytes()));
    }
    template <class T> outcome<T> read(std::uint64_t offset = 0) const {
        static_assert(std::is_trivially_copyable<T>::value, "bytes can be copied into such an item");
        T item{};
        const mmsb_status_t status = mmsb_page_read(handle_, offset, &item, sizeof item);
        return finish(status, item);
    }
    template <class T> outcome<void> write(std::uint64_t offset, span<T> items) const {
        static_assert(std::is_trivially_copyable<T>::value, "such items are their bytes");
        return finish(mmsb_page_write(handle_, offset, items.data(), items.size_bytes()));
    }
    /* The items of anything with data() and size(): vectors, arrays, strings, views. */
    template <class C> std::enable_if_t<has_items<C>::value, outcome<void>> write(std::uint64_t offset, const C &items) const {
        return write(offset, span<const std::remove_pointer_t<decltype(items.data())>>(items.data(), items.size()));
    }
    template <class T>
    std::enable_if_t<std::is_trivially_copyable<T>::value && !std::is_pointer<T>::value && !has_items<T>::value, outcome<void>>
    write(std::uint64_t offset, const T &item) const {
        return finish(mmsb_page_write(handle_, offset, &item, sizeof item));
    }

    /* All whole items of the page, pinned. Not of a GPU page, whose address is the device's
     * (MMSB_E_UNSUPPORTED), nor of adopted memory that is not aligned for such items (MMSB_E_MISMATCH). */
    template <class T> outcome<pinned<T>> pin() const {
        static_assert(std::is_trivially_copyable<T>::value, "bytes of a page can be such items");
        void *address = nullptr;
        mmsb_status_t status = mmsb_page_pin(handle_, MMSB_PIN_READ, &address);
        if (status != MMSB_OK)
            return finish(status, pinned<T>());
        const pinned<const char> checked(handle_, span<const char>()); /* the end of a WRITE pin would count as a change */
        if (mmsb_page_location(handle_) == MMSB_LOCATION_GPU)
            return refuse<pinned<T>>(MMSB_E_UNSUPPORTED, "the page lies on a GPU, whose memory the host cannot access");
        if (reinterpret_cast<std::uintptr_t>(address) % alignof(T) != 0)
            return refuse<pinned<T>>(MMSB_E_MISMATCH, "the page is adopted memory that is not aligned for such items");
        status = mmsb_page_pin(handle_, pinned<T>::mode, &address);
        if (status != MMSB_OK)
            return finish(status, pinned<T>());
        return finish(MMSB_OK,
                      pinned<T>(handle_, span<T>(static_cast<T *>(address), static_cast<std::size_t>(size() / sizeof(T)))));
    }

    outcome<void> apply(const mmsb_delta_t &delta) const {
        return finish(mmsb_page_apply(handle_, &delta));
    }
    /* A delta of one run. */
    template <class T> outcome<void> apply(std::uint64_t offset, span<T> items) const {
        const mmsb_run_t run{offset, items.size_bytes()};
        auto delta = options<mmsb_delta_t>();
        delta.kind = MMSB_DELTA_RUNS;
        delta.runs = &run;
        delta.count = 1;
        delta.payload = items.data();
        return apply(delta);
    }
    /* The delta that makes this page's bytes those of another one. */
    outcome<unique_delta> delta_to(page other) const {
        mmsb_delta_t *made = nullptr;
        const mmsb_status_t status = mmsb_delta_from_pages(handle_, other.handle_, &made);
        return finish(status, unique_delta(made));
    }
    outcome<void> clear_mask() const {
        return finish(mmsb_page_mask_clear(handle_));
    }
    /* Bytes that deltas have addressed since the mask was cleared. */
    outcome<std::uint64_t> mask_count() const {
        std::uint64_t count = 0;
        const mmsb_status_t status = mmsb_page_mask_count(handle_, &count);
        return finish(status, count);
    }

    outcome<void> resize(std::uint64_t size) const {
        return finish(mmsb_page_resize(handle_, size));
    }
    outcome<void> migrate(mmsb_location_t location, std::int32_t device = 0) const {
        return finish(mmsb_page_migrate(handle_, location, device));
    }
    outcome<page> clone(std::uint64_t id = 0) const {
        mmsb_page_t made = 0;
        const mmsb_status_t status = mmsb_page_clone(handle_, id, &made);
        return finish(status, page(made));
    }
    outcome<void> destroy() const {
        return finish(mmsb_page_destroy(handle_));
    }

    outcome<void> set_metadata(const std::string &key, const std::string &value) const {
        return finish(mmsb_page_metadata_set(handle_, key.data(), key.size(), value.data(), value.size()));
    }
    outcome<std::string> metadata(const std::string &key) const {
        std::string value;
        std::size_t length = 0;
        mmsb_status_t status = mmsb_page_metadata_get(handle_, key.data(), key.size(), nullptr, 0, &length);
        while (status == MMSB_OK && length > value.size()) {
            value.resize(length);
            status = mmsb_page_metadata_get(handle_, key.data(), key.size(), &value[0], value.size(), &length);
            if (status == MMSB_E_OUT_OF_RANGE && length > value.size())
                status = MMSB_OK; /* it has grown meanwhile */
        }
        value.resize(status == MMSB_OK ? length : 0);
        return finish(status, std::move(value));
    }

    /* A tensor of DLPack, which is the caller's: see mmsb_page_export_tensor. */
    outcome<void *> export_tensor(const mmsb_tensor_options_t &with = options<mmsb_tensor_options_t>()) const {
        void *tensor = nullptr;
        const mmsb_status_t status = mmsb_page_export_tensor(handle_, &with, &tensor);
        return finish(status, tensor);
    }

  private:
    mmsb_page_t handle_ = 0;
};

struct end_page {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return mmsb_page_destroy(handle);
    }
};

/* A page that ends with the object. While it is pinned it cannot: it then lives until its context ends. */
class unique_page : public owner<end_page> {
  public:
    unique_page() noexcept = default;
    explicit unique_page(page of) noexcept : owner(of.handle()) {
    }

    page get() const noexcept {
        return page(handle());
    }
    page operator*() const noexcept {
        return get();
    }
};

/* ------------------------------------------------------------------------------------------- contexts and their files ---- */

struct end_snapshot {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return mmsb_snapshot_close(handle);
    }
};

/* A snapshot file that is open for reading. */
class snapshot : public owner<end_snapshot> {
  public:
    using owner::owner;

    static outcome<snapshot> open(const std::string &path) {
        mmsb_snapshot_t made = 0;
        const mmsb_status_t status = mmsb_snapshot_open(path.c_str(), &made);
        return finish(status, snapshot(made));
    }
    outcome<mmsb_snapshot_info_t> info() const {
        auto of = options<mmsb_snapshot_info_t>();
        const mmsb_status_t status = mmsb_snapshot_info(handle(), &of);
        return finish(status, of);
    }
    outcome<std::vector<mmsb_snapshot_page_t>> pages() const {
        std::vector<mmsb_snapshot_page_t> all;
        std::uint64_t cursor = 0;
        std::size_t count = 1;
        mmsb_status_t status = MMSB_OK;
        while (status == MMSB_OK && count != 0) {
            mmsb_snapshot_page_t some[64];
            status = mmsb_snapshot_pages(handle(), &cursor, some, 64, &count);
            if (status == MMSB_OK)
                all.insert(all.end(), some, some + count);
        }
        return finish(status, std::move(all));
    }
    template <class T> outcome<void> read(std::uint64_t id, std::uint64_t offset, span<T> items) const {
        return finish(mmsb_snapshot_read(handle(), id, offset, items.data(), items.size_bytes()));
    }
    /* All bytes of a page in the mapped file: valid until the snapshot is closed. */
    outcome<span<const std::byte>> view(std::uint64_t id) const {
        const void *bytes = nullptr;
        std::uint64_t length = 0;
        const mmsb_status_t status = mmsb_snapshot_view(handle(), id, &bytes, &length);
        return finish(status, span<const std::byte>(static_cast<const std::byte *>(bytes), static_cast<std::size_t>(length)));
    }
    static outcome<void> verify(const std::string &path) {
        return finish(mmsb_snapshot_verify(path.c_str(), nullptr));
    }
};

struct end_journal {
    mmsb_status_t operator()(std::uint64_t context) const {
        return mmsb_journal_close(context);
    }
};

/* The journal of a context, which is closed with the object. */
class journal : public owner<end_journal> {
  public:
    using owner::owner;

    outcome<void> sync() const {
        return finish(mmsb_journal_sync(handle(), nullptr));
    }
    outcome<mmsb_journal_info_t> info() const {
        auto of = options<mmsb_journal_info_t>();
        const mmsb_status_t status = mmsb_journal_info(handle(), &of);
        return finish(status, of);
    }
};

struct end_group {
    mmsb_status_t operator()(std::uint64_t context) const {
        return mmsb_group_rollback(context);
    }
};

/* All changes of this thread in a context, as one: commit() makes them stand, the object's end without it undoes them. */
class group : public owner<end_group> {
  public:
    using owner::owner;

    outcome<void> commit() {
        const mmsb_status_t status = mmsb_group_commit(handle());
        if (status == MMSB_OK || status == MMSB_E_NOT_DURABLE)
            (void)release();
        return finish(status);
    }
    /* Undoes the changes now. If it fails, the group is still open. */
    outcome<void> rollback() {
        const mmsb_status_t status = mmsb_group_rollback(handle());
        if (status == MMSB_OK)
            (void)release();
        return finish(status);
    }
    outcome<void> close() {
        return rollback();
    }
};

struct end_writing {
    mmsb_status_t operator()(std::uint64_t context) const {
        return mmsb_writing_end(context);
    }
};

/* A writing section of this thread. */
class writing : public owner<end_writing> {
  public:
    using owner::owner;
};

struct end_context {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return mmsb_context_destroy(handle);
    }
};

/* Owns pages. Its end ends them. */
class context : public owner<end_context> {
  public:
    using owner::owner;

    static outcome<context> create(const mmsb_context_options_t &with = options<mmsb_context_options_t>()) {
        mmsb_context_t made = 0;
        const mmsb_status_t status = mmsb_context_create(&with, &made);
        return finish(status, context(made));
    }

    outcome<page> create_page(std::uint64_t size, const mmsb_page_options_t &with = options<mmsb_page_options_t>()) const {
        mmsb_page_t made = 0;
        const mmsb_status_t status = mmsb_page_create(handle(), size, &with, &made);
        return finish(status, page(made));
    }
    outcome<page> create_page(std::uint64_t size, mmsb_location_t location, std::int32_t device = 0) const {
        auto with = options<mmsb_page_options_t>();
        with.location = location;
        with.device = device;
        return create_page(size, with);
    }
    /* A page over the program's memory, which must stay until the page ends. T const: nobody writes it through the page. */
    template <class T> outcome<page> adopt(span<T> items, std::uint64_t id = 0) const {
        static_assert(std::is_trivially_copyable<T>::value, "such items are their bytes");
        auto with = options<mmsb_adopt_options_t>();
        with.id = id;
        with.read_only = std::is_const<T>::value;
        mmsb_page_t made = 0;
        void *memory = const_cast<std::remove_const_t<T> *>(items.data());
        const mmsb_status_t status = mmsb_page_adopt(handle(), memory, items.size_bytes(), &with, &made);
        return finish(status, page(made));
    }
    /* A page over the memory of a tensor, which is the page's from then on: see mmsb_page_adopt_tensor. */
    outcome<page> adopt_tensor(void *tensor, bool versioned = true, bool read_only = false) const {
        auto with = options<mmsb_adopt_options_t>();
        with.read_only = read_only;
        mmsb_page_t made = 0;
        const mmsb_status_t status = mmsb_page_adopt_tensor(handle(), tensor, versioned, &with, &made);
        return finish(status, page(made));
    }

    /* The page with an id. */
    outcome<page> find(std::uint64_t id) const {
        mmsb_page_t found = 0;
        const mmsb_status_t status = mmsb_page_lookup(handle(), id, &found);
        return finish(status, page(found));
    }
    outcome<std::vector<page>> pages() const {
        std::vector<page> all;
        std::uint64_t cursor = 0;
        std::size_t count = 1;
        mmsb_status_t status = MMSB_OK;
        while (status == MMSB_OK && count != 0) {
            mmsb_page_t some[256];
            status = mmsb_context_pages(handle(), &cursor, some, 256, &count);
            for (std::size_t i = 0; status == MMSB_OK && i < count; i++)
                all.emplace_back(some[i]);
        }
        return finish(status, std::move(all));
    }
    outcome<mmsb_context_stats_t> stats() const {
        auto of = options<mmsb_context_stats_t>();
        const mmsb_status_t status = mmsb_context_stats(handle(), &of);
        return finish(status, of);
    }
    outcome<std::uint64_t> trim() const {
        std::uint64_t released = 0;
        const mmsb_status_t status = mmsb_context_trim(handle(), &released);
        return finish(status, released);
    }

    outcome<void> save(const std::string &path, const mmsb_save_options_t &with = options<mmsb_save_options_t>()) const {
        return finish(mmsb_snapshot_save(handle(), path.c_str(), &with));
    }
    outcome<ticket> save_start(const std::string &path, const mmsb_save_options_t &with = options<mmsb_save_options_t>()) const {
        mmsb_ticket_t made = 0;
        const mmsb_status_t status = mmsb_snapshot_save_start(handle(), path.c_str(), &with, nullptr, &made);
        return finish(status, ticket(made));
    }
    outcome<void> load(const std::string &path, const mmsb_load_options_t &with = options<mmsb_load_options_t>()) const {
        return finish(mmsb_snapshot_load(handle(), path.c_str(), &with));
    }
    outcome<journal> open_journal(const std::string &directory,
                                  const mmsb_journal_options_t &with = options<mmsb_journal_options_t>()) const {
        const mmsb_status_t status = mmsb_journal_open(handle(), directory.c_str(), &with);
        return finish(status, journal(status == MMSB_OK ? handle() : 0));
    }
    outcome<group> begin_group() const {
        const mmsb_status_t status = mmsb_group_begin(handle());
        return finish(status, group(status == MMSB_OK ? handle() : 0));
    }
    outcome<writing> begin_writing(timeout time = forever) const {
        const mmsb_status_t status = mmsb_writing_begin(handle(), nanoseconds(time));
        return finish(status, writing(status == MMSB_OK ? handle() : 0));
    }
};

/* A context whose state a directory has. */
class store : public context {
  public:
    using context::context;

    static outcome<store> open(const std::string &directory, const mmsb_store_options_t &with = options<mmsb_store_options_t>(),
                               const mmsb_context_options_t &context_with = options<mmsb_context_options_t>()) {
        mmsb_context_t made = 0;
        const mmsb_status_t status = mmsb_store_open(directory.c_str(), &context_with, &with, &made);
        return finish(status, store(made));
    }
    /* Saves what has changed since the last save, or all of it; beside the save of a context, which goes to a file of its own. */
    outcome<void> save_store(bool whole = false) const {
        return finish(mmsb_store_save(handle(), whole, nullptr));
    }
    outcome<void> name(const std::string &name) const {
        return finish(mmsb_store_name(handle(), name.c_str(), nullptr));
    }
    outcome<void> unname(const std::string &name) const {
        return finish(mmsb_store_unname(handle(), name.c_str(), nullptr));
    }
    /* Of a follower: waits for a record. */
    outcome<void> wait(std::uint64_t record, timeout time = forever) const {
        auto work = options<mmsb_work_options_t>();
        work.timeout_ns = nanoseconds(time);
        return finish(mmsb_store_wait(handle(), record, &work));
    }
    outcome<mmsb_store_info_t> info() const {
        auto of = options<mmsb_store_info_t>();
        const mmsb_status_t status = mmsb_store_info(handle(), &of);
        return finish(status, of);
    }
};

/* ------------------------------------------------------------------------------------------------------- devices ---- */

struct end_block {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return mmsb_block_free(handle, 0, nullptr);
    }
};

/* Device memory. Its end frees it behind all its uses, in the order of the stream that it was allocated on. */
class block : public owner<end_block> {
  public:
    block() noexcept = default;
    block(mmsb_block_t handle, void *address, std::uint64_t size) noexcept : owner(handle), address_(address), size_(size) {
    }

    /* Of the device: the host must not access it. */
    void *address() const noexcept {
        return address_;
    }
    std::uint64_t size() const noexcept {
        return size_;
    }
    outcome<mmsb_block_info_t> info() const {
        auto of = options<mmsb_block_info_t>();
        const mmsb_status_t status = mmsb_block_info(handle(), &of);
        return finish(status, of);
    }

  private:
    void *address_ = nullptr;
    std::uint64_t size_ = 0;
};

struct end_use {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return handle != 0 ? mmsb_use_end(handle) : MMSB_OK;
    }
};

/* Queued work that reads or writes blocks: queue it while the object lives. An exception on the way aborts the use. */
class use : public owner<end_use> {
  public:
    using owner::owner;
    use() noexcept = default;
    use(use &&) noexcept = default;
    use &operator=(use &&) noexcept = default;
    ~use() {
        if (handle() != 0 && std::uncaught_exceptions() > exceptions_)
            (void)mmsb_use_abort(release());
    }
    /* The launch has failed. */
    outcome<void> abort() {
        return finish(mmsb_use_abort(release()));
    }

  private:
    int exceptions_ = std::uncaught_exceptions();
};

struct end_stream {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return mmsb_stream_destroy(handle);
    }
};

/* A queue of work on a device. */
class stream : public owner<end_stream> {
  public:
    using owner::owner;

    struct access {
        const block &of;
        std::int32_t how; /* MMSB_ACCESS_* */
    };

    outcome<block> allocate(std::uint64_t bytes, mmsb_tag_t tag = 0, mmsb_reservation_t reservation = 0) const {
        mmsb_block_t made = 0;
        void *address = nullptr;
        const mmsb_status_t status = mmsb_block_allocate(handle(), bytes, tag, reservation, &made, &address);
        return finish(status, block(made, address, bytes));
    }
    outcome<use> begin_use(std::initializer_list<access> blocks) const {
        std::vector<mmsb_access_t> all;
        for (const access &one : blocks)
            all.push_back({one.of.handle(), one.how, 0});
        mmsb_use_t made = 0;
        const mmsb_status_t status = mmsb_use_begin(handle(), all.data(), all.size(), &made, nullptr);
        return finish(status, use(made));
    }
    /* CUDA's stream, for queuing work. */
    outcome<void *> native() const {
        void *of = nullptr;
        const mmsb_status_t status = mmsb_stream_native(handle(), &of);
        return finish(status, of);
    }
    outcome<void> copy(void *to, const void *from, std::uint64_t bytes) const {
        return finish(mmsb_stream_copy(handle(), to, from, bytes));
    }
    outcome<void> fill(void *address, std::uint8_t value, std::uint64_t bytes) const {
        return finish(mmsb_stream_fill(handle(), address, value, bytes));
    }
    outcome<void> wait(timeout time = forever) const {
        return finish(mmsb_stream_wait(handle(), nanoseconds(time)));
    }
    outcome<ticket> record() const {
        mmsb_ticket_t made = 0;
        const mmsb_status_t status = mmsb_stream_record(handle(), &made);
        return finish(status, ticket(made));
    }
    outcome<void> after(const ticket &point) const {
        return finish(mmsb_stream_after(handle(), point.handle()));
    }
};

struct end_reservation {
    mmsb_status_t operator()(std::uint64_t handle) const {
        return mmsb_reservation_destroy(handle, nullptr);
    }
};

/* Bytes of a budget that are kept for later blocks. */
class reservation : public owner<end_reservation> {
  public:
    using owner::owner;
};

/* Of a shared runtime nothing ends. */
struct end_runtime {
    mmsb_status_t operator()(std::uint64_t handle) const {
        const mmsb_status_t status = mmsb_runtime_destroy(handle);
        return status == MMSB_E_INVALID_STATE ? MMSB_OK : status;
    }
};

/* Streams and blocks of a device. */
class runtime : public owner<end_runtime> {
  public:
    using owner::owner;

    /* The runtime that a device's pages use, too; its end is that of the context. */
    static outcome<runtime> shared(const context &of, std::int32_t device = 0) {
        mmsb_runtime_t made = 0;
        const mmsb_status_t status = mmsb_runtime_shared(of.handle(), device, &made);
        return finish(status, runtime(made));
    }
    static outcome<runtime> create(const context &of, std::int32_t device = 0,
                                   const mmsb_runtime_options_t &with = options<mmsb_runtime_options_t>()) {
        mmsb_runtime_t made = 0;
        const mmsb_status_t status = mmsb_runtime_create(of.handle(), device, &with, &made);
        return finish(status, runtime(made));
    }
    outcome<stream> create_stream(std::int32_t priority = 0) const {
        mmsb_stream_t made = 0;
        const mmsb_status_t status = mmsb_stream_create(handle(), priority, &made);
        return finish(status, stream(made));
    }
    /* Registers a stream of the program's own. */
    outcome<stream> wrap(void *native) const {
        mmsb_stream_t made = 0;
        const mmsb_status_t status = mmsb_stream_wrap(handle(), native, &made);
        return finish(status, stream(made));
    }
    outcome<reservation> reserve(std::uint64_t bytes) const {
        mmsb_reservation_t made = 0;
        const mmsb_status_t status = mmsb_reservation_create(handle(), bytes, &made);
        return finish(status, reservation(made));
    }
    outcome<mmsb_runtime_stats_t> stats() const {
        auto of = options<mmsb_runtime_stats_t>();
        const mmsb_status_t status = mmsb_runtime_stats(handle(), &of);
        return finish(status, of);
    }
    outcome<void> trim(std::uint64_t keep = 0) const {
        return finish(mmsb_runtime_trim(handle(), keep));
    }
};

} // namespace throwing or expecting

} // namespace mmsb

#endif /* MMSB_HPP */
