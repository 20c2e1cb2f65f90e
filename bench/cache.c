/*
 * cache.c — a block cache, as a database has one: 1 GiB of blocks of 64 KiB, of which 256 MiB are in memory; the block goes that
 * was not used for longest. The same program with pages that migrate between host and disk, with DISK pages that are read into
 * the program's memory and written back, and with pread and pwrite of one file.
 *
 * An operation reads a record of 256 bytes of a random block; every other one also counts one up in it. What all records have
 * counted is compared with what was done.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "disk.h"
#include "mmsb.h"

enum { BLOCK = 65536, RECORD = 256, RECORDS = BLOCK / RECORD, NOWHERE = UINT32_MAX };

static uint32_t blocks, slots;

typedef struct cache cache_t;

/* What the programs do in their own way. A slot is memory for a block; where pages migrate, a place on the host. leave comes
 * before come, also for a block that was not changed. */
typedef struct store {
    void (*leave)(cache_t *cache, uint32_t slot, bool changed);
    void (*come)(cache_t *cache, uint32_t slot);
    void (*read)(cache_t *cache, uint32_t slot, uint64_t offset, void *record);
    void (*write)(cache_t *cache, uint32_t slot, uint64_t offset, const void *record);
} store_t;

typedef struct slot {
    uint32_t block;        /* NOWHERE = none */
    uint32_t newer, older; /* in the order of use, a ring through slot 0, which has no block */
    bool changed;
} slot_t;

struct cache {
    const store_t *store;
    uint32_t *slot_of; /* by block; 0 = none */
    slot_t *slots;
    char *memory; /* by slot; unused where pages migrate */
    uint64_t seed, counted;
};

/* ------------------------------------------------------------------------------------------------------- the cache ---- */

static void unlink_slot(cache_t *cache, uint32_t slot) {
    slot_t *all = cache->slots;
    all[all[slot].newer].older = all[slot].older;
    all[all[slot].older].newer = all[slot].newer;
}

static void make_newest(cache_t *cache, uint32_t slot) {
    slot_t *all = cache->slots;
    all[slot].newer = 0;
    all[slot].older = all[0].older;
    all[all[0].older].newer = slot;
    all[0].older = slot;
}

static uint32_t slot_with(cache_t *cache, uint32_t block) {
    uint32_t slot = cache->slot_of[block];
    if (slot == 0) {
        slot = cache->slots[0].newer; /* the oldest */
        slot_t *taken = &cache->slots[slot];
        if (taken->block != NOWHERE) {
            cache->slot_of[taken->block] = 0;
            cache->store->leave(cache, slot, taken->changed);
        }
        taken->block = block;
        cache->store->come(cache, slot);
        taken->changed = false;
        cache->slot_of[block] = slot;
    }
    unlink_slot(cache, slot);
    make_newest(cache, slot);
    return slot;
}

static void operate(cache_t *cache, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t chosen = bench_random(&cache->seed);
        const uint32_t block = (uint32_t)(chosen >> 32) % blocks, number = (uint32_t)chosen % RECORDS;
        const uint32_t slot = slot_with(cache, block);
        uint64_t record[RECORD / 8];
        cache->store->read(cache, slot, (uint64_t)number * RECORD, record);
        if (record[0] != (uint64_t)block * RECORDS + number)
            bench_fail("a record of block %u is that of another one: %llu", block, (unsigned long long)record[0]);
        if (i % 2 == 0) {
            record[1]++;
            cache->store->write(cache, slot, (uint64_t)number * RECORD, record);
            cache->slots[slot].changed = true;
            cache->counted++;
        }
    }
}

static const char *check_counts(cache_t *cache) {
    uint64_t sum = 0, record[RECORD / 8];
    for (uint32_t block = 0; block < blocks; block++) {
        const uint32_t slot = slot_with(cache, block);
        for (uint32_t number = 0; number < RECORDS; number++) {
            cache->store->read(cache, slot, (uint64_t)number * RECORD, record);
            sum += record[1];
        }
    }
    return sum == cache->counted ? NULL : "a block cache has lost changes";
}

static void fill_block(uint32_t block, void *memory) {
    uint64_t *words = memory;
    memset(memory, 0, BLOCK);
    for (uint32_t number = 0; number < RECORDS; number++)
        words[number * (RECORD / 8)] = (uint64_t)block * RECORDS + number;
}

/* Used until no slot is free, and longer. */
static void begin(cache_t *cache, const store_t *store) {
    *cache = (cache_t){.store = store, .memory = bench_memory((size_t)slots * BLOCK), .seed = 5};
    cache->slot_of = calloc(blocks, sizeof *cache->slot_of);
    cache->slots = calloc(slots + 1, sizeof *cache->slots);
    if (!cache->slot_of || !cache->slots)
        bench_fail("no memory for a cache of %u slots", slots);
    for (uint32_t slot = slots; slot > 0; slot--) {
        cache->slots[slot].block = NOWHERE;
        make_newest(cache, slot);
    }
    operate(cache, 4 * (uint64_t)slots);
}

static void end(cache_t *cache) {
    bench_memory_free(cache->memory, (size_t)slots * BLOCK);
    free(cache->slot_of);
    free(cache->slots);
}

/* ------------------------------------------------------------------------------------------------------- the stores ---- */

static mmsb_context_t context;
static mmsb_page_t *pages; /* by block */
static int file;

static char *memory_of(const cache_t *cache, uint32_t slot) {
    return cache->memory + (size_t)(slot - 1) * BLOCK;
}

static mmsb_page_t page_of(const cache_t *cache, uint32_t slot) {
    return pages[cache->slots[slot].block];
}

static void read_memory(cache_t *cache, uint32_t slot, uint64_t offset, void *record) {
    memcpy(record, memory_of(cache, slot) + offset, RECORD);
}

static void write_memory(cache_t *cache, uint32_t slot, uint64_t offset, const void *record) {
    memcpy(memory_of(cache, slot) + offset, record, RECORD);
}

static void migrate_out(cache_t *cache, uint32_t slot, bool changed) {
    (void)changed;
    BENCH_CALL(mmsb_page_migrate(page_of(cache, slot), MMSB_LOCATION_DISK, 0));
}

static void migrate_in(cache_t *cache, uint32_t slot) {
    BENCH_CALL(mmsb_page_migrate(page_of(cache, slot), MMSB_LOCATION_CPU, 0));
}

static void page_read(cache_t *cache, uint32_t slot, uint64_t offset, void *record) {
    BENCH_CALL(mmsb_page_read(page_of(cache, slot), offset, record, RECORD));
}

static void page_write(cache_t *cache, uint32_t slot, uint64_t offset, const void *record) {
    BENCH_CALL(mmsb_page_write(page_of(cache, slot), offset, record, RECORD));
}

static void write_back(cache_t *cache, uint32_t slot, bool changed) {
    if (changed)
        BENCH_CALL(mmsb_page_write(page_of(cache, slot), 0, memory_of(cache, slot), BLOCK));
}

static void read_in(cache_t *cache, uint32_t slot) {
    BENCH_CALL(mmsb_page_read(page_of(cache, slot), 0, memory_of(cache, slot), BLOCK));
}

static void pwrite_back(cache_t *cache, uint32_t slot, bool changed) {
    if (changed && pwrite(file, memory_of(cache, slot), BLOCK, (off_t)cache->slots[slot].block * BLOCK) != BLOCK)
        bench_fail("pwrite: %s", strerror(errno));
}

static void pread_in(cache_t *cache, uint32_t slot) {
    if (pread(file, memory_of(cache, slot), BLOCK, (off_t)cache->slots[slot].block * BLOCK) != BLOCK)
        bench_fail("pread: %s", strerror(errno));
}

static const store_t migrates = {migrate_out, migrate_in, page_read, page_write},
                     reads_and_writes = {write_back, read_in, read_memory, write_memory},
                     plain = {pwrite_back, pread_in, read_memory, write_memory};

static void make_pages(void) {
    mmsb_context_options_t options;
    mmsb_page_options_t on_disk;
    char *block = bench_memory(BLOCK);
    mmsb_context_options_init(&options);
    options.disk_path = getenv("BENCH_FILES");
    BENCH_CALL(mmsb_context_create(&options, &context));
    mmsb_page_options_init(&on_disk);
    on_disk.location = MMSB_LOCATION_DISK;
    pages = calloc(blocks, sizeof *pages);
    if (!pages)
        bench_fail("no memory for %u handles", blocks);
    for (uint32_t i = 0; i < blocks; i++) {
        fill_block(i, block);
        BENCH_CALL(mmsb_page_create(context, BLOCK, &on_disk, &pages[i]));
        BENCH_CALL(mmsb_page_write(pages[i], 0, block, BLOCK));
    }
    bench_memory_free(block, BLOCK);
}

static void make_file(void) {
    const char *path = bench_file("cache");
    char *block = bench_memory(BLOCK);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || unlink(path) != 0)
        bench_fail("%s: %s", path, strerror(errno));
    for (uint32_t i = 0; i < blocks; i++) {
        fill_block(i, block);
        if (pwrite(file, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
            bench_fail("%s: %s", path, strerror(errno));
    }
    bench_memory_free(block, BLOCK);
}

/* ------------------------------------------------------------------------------------------------------- the rows ---- */

typedef struct pair {
    cache_t ours, peer;
} pair_t;

static void ours(void *state, uint64_t count) {
    operate(&((pair_t *)state)->ours, count);
}

static void peer(void *state, uint64_t count) {
    operate(&((pair_t *)state)->peer, count);
}

static const char *counts_agree(void *state) {
    pair_t *pair = state;
    const char *wrong = check_counts(&pair->ours);
    return wrong ? wrong : check_counts(&pair->peer);
}

static void run(const char *what, const store_t *store, bench_aim_t aim, const char *note) {
    pair_t pair;
    const char *no_room = bench_no_room(2 * (uint64_t)blocks * BLOCK);
    const bench_row_t row = {.what = what,
                             .unit = BENCH_MILLIONS,
                             .ours = ours,
                             .peer = peer,
                             .peer_name = "pread and pwrite",
                             .state = &pair,
                             .aim = aim,
                             .bound = 0.9,
                             .check = counts_agree,
                             .note = note};
    if (!bench_wanted(what))
        return;
    if (no_room) {
        bench_not_run(&row, no_room);
        return;
    }
    make_pages();
    make_file();
    begin(&pair.ours, store);
    begin(&pair.peer, &plain);
    bench_run(&row);
    end(&pair.ours);
    end(&pair.peer);
    BENCH_CALL(mmsb_context_destroy(context));
    close(file);
    free(pages);
}

int main(void) {
    blocks = bench_quick() ? 1024 : 16384;
    slots = blocks / 4;
    run("cache: 256 MiB of 1 GiB, blocks of 64 KiB, pages migrate", &migrates, BENCH_INFORMATION,
        "a migrate also writes blocks that were not changed");
    run("cache: 256 MiB of 1 GiB, blocks of 64 KiB, DISK pages read and written", &reads_and_writes, BENCH_AT_LEAST,
        "operations a second; the files are in the system's page cache");
    return 0;
}
