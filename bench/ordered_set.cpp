// ordered_set.cpp — a pool of addresses as RMM's and PyTorch's are built, to compare with: for each stream the free blocks in an
// order of size and address, of which the best fit is split; neighbours of one segment that are free on one stream become one
// again; a hash table from addresses to blocks; one mutex. Its addresses are only counted, and no memory lies there.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "ordered_set.h"

namespace {

constexpr size_t unit = 512, small_bytes = size_t{1} << 20, small_segment = size_t{2} << 20, large_segment = size_t{20} << 20;
constexpr size_t own_segment = size_t{10} << 20; // from here on a block has a segment of its own

struct Block {
    uintptr_t address = 0;
    size_t bytes = 0;
    uint64_t stream = 0;
    bool small = false, free = false;
    Block *before = nullptr, *behind = nullptr; // in the same segment
};

struct BySize {
    bool operator()(const Block *left, const Block *right) const {
        if (left->stream != right->stream)
            return left->stream < right->stream;
        return left->bytes != right->bytes ? left->bytes < right->bytes : left->address < right->address;
    }
};

size_t rounded(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

class Pool {
  public:
    ~Pool() {
        for (auto &each : held)
            delete each.second;
        for (auto &each : free) {
            for (Block *block : each)
                delete block;
        }
    }

    void *allocate(uint64_t stream, size_t wanted) {
        std::lock_guard<std::mutex> guard(mutex);
        const size_t bytes = rounded(wanted, unit);
        const bool small = bytes <= small_bytes;
        auto &set = free[small];
        Block key;
        key.stream = stream;
        key.bytes = bytes;
        auto found = set.lower_bound(&key);
        Block *block;
        if (found != set.end() && (*found)->stream == stream) {
            block = *found;
            set.erase(found);
        } else {
            block = segment(stream, bytes, small);
        }
        const size_t rest = block->bytes - bytes;
        if (small ? rest >= unit : rest > small_bytes)
            split(block, bytes, set);
        block->free = false;
        held.emplace(block->address, block);
        return reinterpret_cast<void *>(block->address);
    }

    bool give(void *address) {
        std::lock_guard<std::mutex> guard(mutex);
        auto found = held.find(reinterpret_cast<uintptr_t>(address));
        if (found == held.end())
            return false;
        Block *block = found->second;
        held.erase(found);
        auto &set = free[block->small];
        join(block, block->before, set);
        join(block, block->behind, set);
        block->free = true;
        set.insert(block);
        return true;
    }

  private:
    using Set = std::set<Block *, BySize>;

    Block *segment(uint64_t stream, size_t bytes, bool small) {
        auto block = std::make_unique<Block>();
        block->address = next;
        block->bytes = small ? small_segment : bytes < own_segment ? large_segment : rounded(bytes, small_segment);
        block->stream = stream;
        block->small = small;
        next += block->bytes;
        return block.release();
    }

    static void split(Block *block, size_t bytes, Set &set) {
        Block *rest = new Block(*block);
        rest->address += bytes;
        rest->bytes -= bytes;
        rest->free = true;
        rest->before = block;
        if (rest->behind)
            rest->behind->before = rest;
        block->bytes = bytes;
        block->behind = rest;
        set.insert(rest);
    }

    // join makes a block as long as its neighbour, which ends, where that is free.
    static void join(Block *block, Block *neighbour, Set &set) {
        if (!neighbour || !neighbour->free)
            return;
        set.erase(neighbour);
        block->bytes += neighbour->bytes;
        if (neighbour == block->before) {
            block->address = neighbour->address;
            block->before = neighbour->before;
            if (block->before)
                block->before->behind = block;
        } else {
            block->behind = neighbour->behind;
            if (block->behind)
                block->behind->before = block;
        }
        delete neighbour;
    }

    std::mutex mutex;
    Set free[2]; // of large blocks, of small ones
    std::unordered_map<uintptr_t, Block *> held;
    uintptr_t next = small_segment;
};

} // namespace

void *ordered_set_create(void) {
    return new Pool;
}

void ordered_set_destroy(void *pool) {
    delete static_cast<Pool *>(pool);
}

void *ordered_set_allocate(void *pool, uint64_t stream, size_t bytes) {
    return static_cast<Pool *>(pool)->allocate(stream, bytes);
}

int ordered_set_free(void *pool, void *address) {
    return static_cast<Pool *>(pool)->give(address) ? 0 : 1;
}
