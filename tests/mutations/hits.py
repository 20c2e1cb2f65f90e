"""Bugs in allocations and frees that do not enter Go: in C, and in what the runtime leaves to C.

Random programs on the simulated device, and a recount of everything, must show each."""

from mutation import Mutant
from subject import Go, Native

TESTS = (
    "^Test(AHit|AMiss|MemoryOnItsWay|BlocksOff|Spans|Only|ABudgetHas|AdaptorsThat|Sizes|Magazines|Others|HandlesThat|TheLast|"
    "Streams|ALostDeviceHas|RandomSch|TheHistoryHas)"
)

LAST_EVENTS = "^TestTheLogKeepsTheLastEvents$"

HITS = Native(
    name="hits",
    folders=("gpu/blocks",),
    package="gpu/runtime",
    mode=TESTS,
    sound=(TESTS, LAST_EVENTS),
    mutants=(
        Mutant(
            "same-generation", "a block that is given out anew has the handle of the one before",
            "take", "(block->state >> 32) + 1", "(block->state >> 32)",
        ),
        Mutant(
            "old-point", "other streams wait for the block's first allocation, not for the last one",
            "take", "block->point = __atomic_add_fetch(&stream->queued, 1, __ATOMIC_RELAXED);", "",
        ),
        Mutant(
            "free-not-noted", "a free that does not enter Go is not in the history",
            "put", "if (stream->pool->log) note(stream, block, MMSB__BLOCK_FREED);", "",
        ),
        Mutant(
            "history-goes-round", "the history does not come back to its first place",
            "mmsb__block_log_end", "log->at = 0;", ";", mode=LAST_EVENTS,
        ),
        Mutant(
            "history-unlocked", "two threads write one event",
            "mmsb__block_log_begin", "lock(log);", "",
        ),
        Mutant(
            "too-small", "a block is given out that is smaller than the request",
            "first_of", "block->units >= units", "(block->units >= units || units > 0)",
        ),
        Mutant(
            "rounded-otherwise", "a request is rounded to another size than in the pool",
            "units_of", "(bytes + UNIT - 1) / UNIT", "bytes / UNIT + 1",
        ),
        Mutant(
            "slabs-forgotten", "C rounds a request to its own size where the pool has slabs",
            "units_of", "pool->slabs && bytes", "pool->slabs && bytes == 0 && bytes",
        ),
        Mutant(
            "budget-not-asked", "a block has more bytes than the budget has charged",
            "take", "(pool->exact || tag", "(tag",
        ),
        Mutant(
            "tag-unknown", "a block is allocated with a tag that does not exist",
            "take", "pool->exact || tag >= __atomic_load_n(&mmsb__block_table.tags, __ATOMIC_ACQUIRE)", "pool->exact",
            mode="^TestAHit",
        ),
        Mutant(
            "not-recounted", "bytes of a tag are those of the block before",
            "take", "recount(pool->tallies, block, bytes, tag);", "",
        ),
        Mutant(
            "tag-not-counted", "allocations of a tag are lost when another tag takes its place",
            "count", "__atomic_add_fetch(&tally->ever, has->ever, __ATOMIC_RELAXED);", "",
            mode="^TestCountsOfTags",
        ),
        Mutant(
            "handle-not-compared", "a stream that was released allocates",
            "take", "stream->handle != handle", "0",
        ),
        Mutant(
            "last-generation", "a block whose generations are used up is given out anew",
            "mmsb__block_cache", "live >> 32 == UINT32_MAX", "0",
        ),
        Mutant(
            "held-blocks", "C frees a block that Go has",
            "mmsb__block_cache", "!block || __atomic_load_n(&block->state, __ATOMIC_ACQUIRE) != live",
            "!block || ((live = __atomic_load_n(&block->state, __ATOMIC_ACQUIRE)), 0)",
        ),
        Mutant(
            "freed-on-another", "a block that is freed on another stream goes into a magazine of its own",
            "put", "(handle != 0 && stream->handle != handle) ||", "",
        ),
        Mutant(
            "no-end", "a magazine has more blocks than its limit",
            "put", "magazine->count == MMSB__BLOCK_ROUNDS", "0",
        ),
        Mutant(
            "cut-from-where-it-was", "two blocks are cut off the same place",
            "cut", "span->left.address += units * UNIT;", "",
        ),
        Mutant(
            "cut-unknown-to-books", "the books do not learn of a block that is cut off",
            "cut", "raise(&span->count, 1);", "",
        ),
        Mutant(
            "cut-not-counted", "blocks that are cut off do not count with their tag",
            "cut", "__atomic_add_fetch(&tallies[1 + tag].blocks, 1, __ATOMIC_RELAXED);", "",
        ),
        Mutant(
            "larger-kept", "a miss gets the largest blocks of the magazines, and not one that is large enough",
            "mmsb__block_withdraw", "first_of(magazine, enough)", "0 && first_of(magazine, enough)",
        ),
        Mutant(
            "cached-miscounted", "what a magazine gave out still counts as in it",
            "pop", "stream->cached_units -= block->units;", "",
        ),
    ),
)  # fmt: skip

LEFT_TO_C = Go(
    name="left-to-c",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode=TESTS,
    sound=(TESTS,),
    mutants=(
        Mutant(
            "free-noted-again", "the history has the free of a block once more when its magazine gives it back",
            "uncache", "b.freeOn, b.freer = s, noted", "b.freeOn = s",
        ),
        Mutant(
            "open-uses", "C may free a block while a use of it is open",
            "block.letGo", "b.taken()", "false",
        ),
        Mutant(
            "other-readers", "C may free a block that another stream reads",
            "block.letGo", "read.stream != b.stream", "false && read.stream != b.stream",
        ),
        Mutant(
            "other-writer", "C may free a block that another stream has written",
            "block.letGo", "b.write.stream != b.stream", "false && b.write.stream != b.stream",
        ),
        Mutant(
            "first-write", "others wait for the allocation that C has ended meanwhile",
            "block.hold", "b.write, b.reads = p, b.reads[:0]", "b.reads = b.reads[:0]",
        ),
        Mutant(
            "cached-is-held", "blocks in magazines count as held in the pool",
            "Pool.Statistics", "min(s.Held, p.cached())", "0",
        ),
        Mutant(
            "never-flushed", "what is in magazines is never released",
            "Runtime.reap", "s.flush()", "",
        ),
        Mutant(
            "on-its-way", "memory is missing that another thread takes out of the magazines",
            "Stream.flush", "s.flushing.Lock()\n\tdefer s.flushing.Unlock()", "",
        ),
        Mutant(
            "spans-kept", "what is left of spans is not given back",
            "Stream.flush", "s.giveSpans()", "",
        ),
        Mutant(
            "spans-of-budgets", "C cuts blocks that a budget has not charged",
            "Stream.refill", "!may", "!may && left > 0",
        ),
        Mutant(
            "cut-without-owner", "Go does not learn what C has cut off",
            "block.know", "Own{b.record.Own, b.record.Units}", "Own{b.record.Own, 0}",
        ),
        Mutant(
            "miss-keeps", "a miss takes new memory though a magazine has a block that is large enough",
            "poolSource.Uncache", "s == nil", "true || s == nil",
        ),
        Mutant(
            "much-cut-up", "what magazines have is cut up a block at a time, however much it is",
            "poolSource.Cached", "return s.fast.Cached()", "return min(s.fast.Cached(), 0)",
        ),
        Mutant(
            "guard-passed-by", "C allocates though an adaptor has to see each call",
            "newHits", "default:\n\t\t\treturn nil, nil", "default:",
        ),
        Mutant(
            "lost-device", "C allocates on a device that is lost",
            "Runtime.noteLost", "r.hits.pool.Shut()", "",
        ),
        Mutant(
            "let-go-stream", "C frees blocks of a stream of the caller that was let go",
            "ReleaseStream", "s.leaveToC(false)", "",
            mode="^TestACallersStream",
        ),
    ),
)  # fmt: skip
