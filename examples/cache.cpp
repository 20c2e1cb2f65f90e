// A cache over three places: what was used last lies on the GPU, what was used before in host memory, the rest on disk.
// With mmsb.hpp:  c++ -std=c++17 cache.cpp -lmmsb
#include <mmsb.hpp>

#include <cstdio>
#include <list>
#include <string>
#include <unordered_map>

class cache {
  public:
    // Bytes that may lie in each place, the fastest first. What does not fit into the last one is forgotten.
    cache(const mmsb::context &of, std::uint64_t gpu, std::uint64_t host, std::uint64_t disk)
        : context_(of),
          places_{{MMSB_LOCATION_GPU, gpu, 0, {}}, {MMSB_LOCATION_CPU, host, 0, {}}, {MMSB_LOCATION_DISK, disk, 0, {}}} {
    }

    void put(const std::string &key, const std::string &value) {
        forget(key);
        mmsb::page page = context_.create_page(value.size(), MMSB_LOCATION_CPU);
        page.write(0, mmsb::span<const char>(value));
        enter(0, entry{key, mmsb::unique_page(page), value.size()});
    }

    // False where the key is not there.
    bool get(const std::string &key, std::string &value) {
        const auto found = index_.find(key);
        if (found == index_.end())
            return false;
        entry used = leave(found->second);
        value.resize(used.size);
        used.page.get().read(0, mmsb::span<char>(value));
        enter(0, std::move(used));
        return true;
    }

    void forget(const std::string &key) {
        const auto found = index_.find(key);
        if (found != index_.end())
            leave(found->second);
    }

    // 0, 1 or 2; -1 where the key is not there.
    int place_of(const std::string &key) const {
        const auto found = index_.find(key);
        return found == index_.end() ? -1 : found->second.place;
    }

  private:
    struct entry {
        std::string key;
        mmsb::unique_page page; // ends with the entry
        std::uint64_t size;
    };
    struct place {
        mmsb_location_t location;
        std::uint64_t limit, used;
        std::list<entry> entries; // what was used last comes first
    };
    struct position {
        int place;
        std::list<entry>::iterator at;
    };

    entry leave(position from) {
        entry left = std::move(*from.at);
        places_[from.place].used -= left.size;
        places_[from.place].entries.erase(from.at);
        index_.erase(left.key);
        return left;
    }

    // Brings an entry to a place; what was not used there for longest goes on to the next one.
    void enter(int to, entry comes) {
        if (to == 3)
            return;
        place &at = places_[to];
        if (comes.size > at.limit)
            return enter(to + 1, std::move(comes));
        while (at.used + comes.size > at.limit)
            enter(to + 1, leave({to, std::prev(at.entries.end())}));
        comes.page.get().migrate(at.location);
        at.used += comes.size;
        at.entries.push_front(std::move(comes));
        index_[at.entries.front().key] = {to, at.entries.begin()};
    }

    const mmsb::context &context_;
    place places_[3];
    std::unordered_map<std::string, position> index_;
};

int main() {
    auto options = mmsb::options<mmsb_context_options_t>();
    options.simulate = MMSB_SIMULATE_IF_NO_GPU; // a machine without a GPU simulates one: asked for, never silent
    mmsb::context context = mmsb::context::create(options);
    cache values(context, 3 << 10, 5 << 10, 8 << 10);
    for (char key = 'a'; key <= 'z'; key++)
        values.put(std::string(1, key), std::string(1000, key));

    int found[4] = {0, 0, 0, 0}; // on the GPU, on the host, on disk, forgotten
    for (char key = 'a'; key <= 'z'; key++) {
        const int place = values.place_of(std::string(1, key));
        found[place < 0 ? 3 : place]++;
    }
    std::printf("%d values on the GPU, %d in host memory, %d on disk, %d forgotten\n", found[0], found[1], found[2], found[3]);

    std::string value;
    const bool there = values.get("l", value); // from the disk
    const bool whole = there && value == std::string(1000, 'l') && values.place_of("l") == 0 && values.place_of("x") == 1;
    const bool gone = !values.get("a", value) && context.pages().size() == 16;
    std::printf("what is used comes back: %s; what is forgotten is gone: %s\n", whole ? "yes" : "no", gone ? "yes" : "no");
    return found[0] == 3 && found[1] == 5 && found[2] == 8 && whole && gone ? 0 : 1;
}
