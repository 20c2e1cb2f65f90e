/*
 * pools.c — blocks of device memory out of a pool, through the C ABI, on a simulated device that takes no time: a block that was
 * just freed, beside few and many that are held, on one and two threads; and RMM's random_allocations.
 *
 * The device's memory is not written, and neither is that of the peers but by themselves. mimalloc and UMF serve the host, and
 * know of no streams; the ordered set is written for this comparison.
 */
#include <stdlib.h>

#include "bench.h"
#include "mmsb.h"
#include "ordered_set.h"

#define MIB ((uint64_t)1 << 20)

enum { PAIR = 4096, HELD = 512, FEW = 1000, MANY = 1000000 };

/* A device of its own with a pool: two pools on one simulated device would have too few addresses. */
typedef struct device {
    mmsb_context_t context;
    mmsb_runtime_t runtime;
} device_t;

static device_t new_device(uint64_t bytes) {
    mmsb_context_options_t context;
    mmsb_runtime_options_t runtime;
    device_t device;
    mmsb_context_options_init(&context);
    context.simulate = MMSB_SIMULATE_ALWAYS;
    context.simulated_memory = bytes;
    mmsb_runtime_options_init(&runtime);
    runtime.pool = "";
    BENCH_CALL(mmsb_context_create(&context, &device.context));
    BENCH_CALL(mmsb_runtime_create(device.context, 0, &runtime, &device.runtime));
    return device;
}

static void end_device(device_t device) {
    BENCH_CALL(mmsb_runtime_destroy(device.runtime));
    BENCH_CALL(mmsb_context_destroy(device.context));
}

static mmsb_block_t allocate(mmsb_stream_t stream, uint64_t bytes) {
    mmsb_block_t block;
    void *address;
    BENCH_CALL(mmsb_block_allocate(stream, bytes, 0, 0, &block, &address));
    return block;
}

/* ---- a block that was just freed ---- */

typedef struct hits {
    mmsb_stream_t stream;
    const bench_mimalloc_t *mimalloc; /* NULL = absent */
} hits_t;

static void ours_hit(void *state, uint64_t count) {
    const hits_t *hits = state;
    for (uint64_t i = 0; i < count; i++)
        BENCH_CALL(mmsb_block_free(allocate(hits->stream, PAIR), 0, NULL));
}

static void peer_hit(void *state, uint64_t count) {
    const hits_t *hits = state;
    for (uint64_t i = 0; i < count; i++) {
        void *block = hits->mimalloc->malloc(PAIR);
        __asm__ volatile("" : "+r"(block)::"memory");
        hits->mimalloc->free(block);
    }
}

/* Blocks that are held while a row is measured; blocks of the peer where there is one. */
typedef struct held {
    device_t device;
    hits_t hits;
    void **blocks;
    uint32_t count;
} held_t;

static held_t hold(uint32_t count, const bench_mimalloc_t *mimalloc) {
    held_t held = {.device = new_device(4096 * MIB), .count = count, .blocks = calloc(count, sizeof(void *))};
    held.hits.mimalloc = mimalloc;
    BENCH_CALL(mmsb_stream_create(held.device.runtime, 0, &held.hits.stream));
    if (!held.blocks)
        bench_fail("no memory for %u pointers", count);
    for (uint32_t i = 0; i < count; i++) {
        (void)allocate(held.hits.stream, HELD);
        if (mimalloc && !(held.blocks[i] = mimalloc->malloc(HELD)))
            bench_fail("no memory for block %u of mimalloc", i);
    }
    return held;
}

static void let_go(held_t *held) {
    for (uint32_t i = 0; held->hits.mimalloc && i < held->count; i++)
        held->hits.mimalloc->free(held->blocks[i]);
    free(held->blocks);
    end_device(held->device);
}

typedef struct two {
    hits_t few, many;
} two_t;

static void beside_many(void *state, uint64_t count) {
    ours_hit(&((two_t *)state)->many, count);
}

static void beside_few(void *state, uint64_t count) {
    ours_hit(&((two_t *)state)->few, count);
}

static void run_hits(const bench_mimalloc_t *mimalloc) {
    bench_row_t row = {.what = "pools: allocate and free 4096 bytes, 1000 blocks held",
                       .unit = BENCH_NANOSECONDS,
                       .ours = ours_hit,
                       .peer = mimalloc ? peer_hit : NULL,
                       .peer_name = "mimalloc",
                       .aim = BENCH_AT_MOST,
                       .bound = 60,
                       .absolute = true,
                       .note = "blocks of a simulated device, of 512 bytes where they are held; the peer's of the host"};
    const char *growth = "pools: allocate and free 4096 bytes, 1 000 000 blocks held to 1000";
    const char *many_name = "pools: allocate and free 4096 bytes, 1 000 000 blocks held";
    if (!bench_wanted(row.what) && !bench_wanted(growth) && !bench_wanted(many_name))
        return;
    held_t few = hold(FEW, mimalloc);
    row.state = &few.hits;
    bench_run(&row);
    held_t many = hold(MANY, mimalloc);
    row.what = many_name;
    row.state = &many.hits;
    row.aim = BENCH_INFORMATION;
    bench_run(&row);
    two_t two = {few.hits, many.hits};
    row.what = growth;
    row.state = &two;
    row.ours = beside_many;
    row.peer = beside_few;
    row.peer_name = "libmmsb, 1000 held";
    row.aim = BENCH_AT_MOST;
    row.bound = 2;
    row.absolute = false;
    bench_run(&row);
    let_go(&many);
    let_go(&few);
}

/* ---- two threads ---- */

typedef struct pair {
    void *states[2];
} pair_t;

static void on_two(void *state, uint64_t count) {
    bench_on_threads(ours_hit, ((pair_t *)state)->states, 2, count);
}

static void on_one(void *state, uint64_t count) {
    bench_on_threads(ours_hit, ((pair_t *)state)->states, 1, count);
}

static void run_two_threads(void) {
    bench_row_t row = {.what = "pools: allocate and free 4096 bytes, two threads on two streams",
                       .unit = BENCH_MILLIONS,
                       .ours = on_two,
                       .threads = 2,
                       .peer = on_one,
                       .ours_operations = 2,
                       .peer_name = "libmmsb, one thread",
                       .aim = BENCH_AT_LEAST,
                       .bound = 1.8};
    if (!bench_wanted(row.what))
        return;
    if (bench_processors() < 2) {
        bench_not_run(&row, "one processor only");
        return;
    }
    device_t device = new_device(4096 * MIB);
    hits_t hits[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++)
        BENCH_CALL(mmsb_stream_create(device.runtime, 0, &hits[i].stream));
    pair_t pair = {{&hits[0], &hits[1]}};
    row.state = &pair;
    bench_run(&row);
    end_device(device);
}

/* ---- random_allocations ---- */

/* The draws are those of the C++ library that RMM's benchmark is built with: std::default_random_engine and
 * std::uniform_int_distribution of libstdc++. */
static uint64_t draw(uint64_t *seed, uint64_t least, uint64_t most) {
    const uint64_t engine = 2147483645, step = engine / (most - least + 1);
    uint64_t drawn;
    do {
        *seed = *seed * 16807 % 2147483647;
        drawn = *seed - 1;
    } while (drawn >= step * (most - least + 1));
    return drawn / step + least;
}

/* A turn allocates bytes, or frees the block at an index of those that are live; the last one takes its place. */
typedef struct turn {
    uint32_t bytes, index;
} turn_t;

typedef struct program {
    turn_t *turns;
    uint32_t count, most_live;
    device_t device; /* of its own: what another program has freed would serve it */
    mmsb_stream_t stream;
    bench_umf_t *umf;
    void *set;
    void **live;
} program_t;

static program_t new_program(uint32_t allocations) {
    const uint64_t most_bytes = 16000 * MIB;
    program_t program = {.turns = calloc((size_t)2 * allocations, sizeof(turn_t)), .count = 2 * allocations};
    uint32_t *sizes = calloc(allocations, sizeof *sizes), live = 0, allocated = 0;
    uint64_t seed = 1, bytes = 0;
    if (!program.turns || !sizes)
        bench_fail("no memory for %u turns", 2 * allocations);
    for (uint32_t i = 0; i < program.count; i++) {
        uint64_t size = draw(&seed, 1, MIB);
        bool takes = true;
        if (live > 0)
            takes = draw(&seed, 0, 99) < 73 && allocated < allocations && bytes + size < most_bytes;
        if (takes) {
            program.turns[i].bytes = (uint32_t)size;
            sizes[live++] = (uint32_t)size;
            bytes += size;
            allocated++;
        } else {
            uint32_t index = (uint32_t)draw(&seed, 0, live - 1);
            program.turns[i].index = index;
            bytes -= sizes[index];
            sizes[index] = sizes[--live];
        }
        if (live > program.most_live)
            program.most_live = live;
    }
    free(sizes);
    program.live = calloc(program.most_live, sizeof(void *));
    if (!program.live)
        bench_fail("no memory for %u blocks", program.most_live);
    return program;
}

/* Plays a program; what is live at its end is freed while the clock stands still. */
#define PLAY(name, type, take, give) \
    static void name(void *state, uint64_t count) { \
        program_t *program = state; \
        type *live = (type *)program->live; \
        for (; count > 0; count--) { \
            uint32_t last = 0; \
            for (uint32_t i = 0; i < program->count; i++) { \
                const turn_t turn = program->turns[i]; \
                if (turn.bytes > 0) { \
                    live[last++] = (take); \
                } else { \
                    give(live[turn.index]); \
                    live[turn.index] = live[--last]; \
                } \
            } \
            bench_clock_stop(); \
            while (last > 0) \
                give(live[--last]); \
            bench_clock_go_on(); \
        } \
    }

_Static_assert(sizeof(mmsb_block_t) == sizeof(void *), "a block of ours takes the place of a pointer");
#define GIVE_OURS(block) BENCH_CALL(mmsb_block_free(block, 0, NULL))
#define GIVE_UMF(block) BENCH_CALL(program->umf->free(program->umf->pool, block))
#define GIVE_SET(block) BENCH_CALL(ordered_set_free(program->set, block))

static void *there(void *block) {
    if (!block)
        bench_fail("a peer has no memory");
    return block;
}

PLAY(play_ours, mmsb_block_t, allocate(program->stream, turn.bytes), GIVE_OURS)
PLAY(play_umf, void *, there(program->umf->malloc(program->umf->pool, turn.bytes)), GIVE_UMF)
PLAY(play_set, void *, there(ordered_set_allocate(program->set, 0, turn.bytes)), GIVE_SET)

/* A program, and the smallest one, to which it is compared. */
typedef struct grown {
    program_t *large, *smallest;
} grown_t;

static void play_large(void *state, uint64_t count) {
    play_ours(((grown_t *)state)->large, count);
}

static void play_smallest(void *state, uint64_t count) {
    play_ours(((grown_t *)state)->smallest, count);
}

static void run_random(bench_umf_t *umf) {
    static const struct {
        uint32_t allocations;
        const char *set, *umf;
    } sizes[] = {
        {1000, "pools: random_allocations, 1000 up to 1 MiB", "pools: random_allocations, 1000 up to 1 MiB, to UMF"},
        {10000, "pools: random_allocations, 10 000 up to 1 MiB", "pools: random_allocations, 10 000 up to 1 MiB, to UMF"},
        {100000, "pools: random_allocations, 100 000 up to 1 MiB", "pools: random_allocations, 100 000 up to 1 MiB, to UMF"}};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    const char *growth = "pools: random_allocations, 100 000 to 1000";
    bool wanted = bench_wanted(growth);
    for (int i = 0; i < SIZES; i++)
        wanted |= bench_wanted(sizes[i].set) || bench_wanted(sizes[i].umf);
    if (!wanted)
        return;
    program_t programs[SIZES];
    for (int i = 0; i < SIZES; i++) {
        program_t *program = &programs[i];
        *program = new_program(sizes[i].allocations);
        program->device = new_device(64 * 1024 * MIB);
        BENCH_CALL(mmsb_stream_create(program->device.runtime, 0, &program->stream));
        program->umf = umf;
        program->set = ordered_set_create();
        bench_row_t row = {.what = sizes[i].set,
                           .unit = BENCH_NANOSECONDS,
                           .ours = play_ours,
                           .peer = play_set,
                           .state = program,
                           .ours_operations = program->count,
                           .peer_operations = program->count,
                           .peer_name = "ordered set, one mutex",
                           .note = "an allocation or a free, RMM's draws; at most 16 000 MiB are live"};
        if (i == SIZES - 1) {
            row.aim = BENCH_AT_MOST;
            row.bound = 0.2;
        }
        bench_run(&row);
        row.what = sizes[i].umf;
        row.peer = umf ? play_umf : NULL;
        row.peer_name = "UMF, disjoint pool of host memory";
        row.aim = BENCH_INFORMATION;
        bench_run(&row);
    }
    grown_t grown = {&programs[SIZES - 1], &programs[0]};
    bench_row_t row = {.what = growth,
                       .unit = BENCH_NANOSECONDS,
                       .ours = play_large,
                       .peer = play_smallest,
                       .state = &grown,
                       .ours_operations = grown.large->count,
                       .peer_operations = grown.smallest->count,
                       .peer_name = "libmmsb, 1000",
                       .aim = BENCH_AT_MOST,
                       .bound = 2};
    bench_run(&row);
    for (int i = 0; i < SIZES; i++) {
        ordered_set_destroy(programs[i].set);
        free(programs[i].turns);
        free(programs[i].live);
        end_device(programs[i].device);
    }
}

int main(void) {
    bench_mimalloc_t mimalloc;
    bench_umf_t umf;
    run_hits(bench_mimalloc(&mimalloc) ? &mimalloc : NULL);
    run_two_threads();
    run_random(bench_umf(&umf) ? &umf : NULL);
    return 0;
}
