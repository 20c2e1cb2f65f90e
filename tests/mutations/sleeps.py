"""Bugs in tags that sleep and in captures: in the books of partitions, in what is kept, and in what the simulated device reports.

Random programs against a model, and the simulated device, must show each."""

from mutation import Mutant
from subject import Go

PARTITIONS = Go(
    name="partitions",
    folders=("core/pool",),
    package="core/pool",
    mode="^TestRandomSleepers$",
    sound=("^TestRandomSleepers$", "^TestFixed", "^TestFrees", "^TestAPartition", "^TestPartitions", "^TestTheLimitHolds"),
    mutants=(
        Mutant(
            "sleepers-lend", "free segments of a partition that sleeps serve others, though they have no memory",
            "partition.spares", "(a.state == awake || a.state == ended)", "true",
        ),
        Mutant(
            "fixed-lends", "free segments of a capture lose their memory, though its work may run again",
            "partition.spares", "!a.fixed &&", "(!a.fixed || a.fixed) &&",
            mode="^TestFixed",
        ),
        Mutant(
            "sleepers-take", "blocks are allocated in a partition that sleeps",
            "partition.usable", "case asleep:", "case ended + 1:",
        ),
        Mutant(
            "gone-not-noted", "segments of a partition that sleeps count as those that have memory",
            "Pool.mark", "a.gone = gone", "p.partitions[number].gone = gone && false",
        ),
        Mutant(
            "free-segments-wake", "segments that nobody holds a part of any more get memory, too",
            "space.dropFree", "s.spare(s.extents.Limit(), done,", "s.spare(0, done,",
            mode="^TestFrees",
        ),
        Mutant(
            "half-rest", "a partition rests though another one of the call cannot",
            "Pool.Rest", "return a.usable()", "p.partitions[numbers[0]].state = moving; return a.usable()",
            mode="^TestAPartition",
        ),
        Mutant(
            "addresses-in-use", "a partition gets the addresses of one that still has blocks",
            "Pool.Open", "a.state == ended && a.held() == 0", "a.state == ended",
            mode="^TestPartitions",
        ),
        Mutant(
            "wakes-past-the-limit", "what wakes may have more memory than the limit",
            "Pool.backAll", "backed+units > limit", "false && backed+units > limit",
            mode="^TestTheLimitHolds",
        ),
    ),
)  # fmt: skip

SLEEPS = Go(
    name="sleeps",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode="^TestRandomSleeps$",
    sound=(
        "^TestRandomSleeps$",
        "^Test(TagsSleep|BlocksThatSleep|SleepsThat|ASleepWaits|ASleepWhose|CopiesRun|PinnedMemory|BudgetsCount)",
        "Capture",
    ),
    mutants=(
        Mutant(
            "runs-overlap", "runs of a piece overlap where they are kept",
            "Pool.pack", "run{address, some, x.bytes}", "run{address, some, x.bytes / 2}",
        ),
        Mutant(
            "freed-comes-back", "what was freed in its sleep is copied back",
            "piece.only", "min(r.end(), h.end())", "r.end()",
            mode="^TestBlocksThatSleep",
        ),
        Mutant(
            "not-waited-for", "memory goes while work is queued on it",
            "Runtime.quiet", "err == nil && s.queued.Load() > 0", "false && err == nil && s.queued.Load() > 0",
            mode="^TestASleepWaits",
        ),
        Mutant(
            "open-uses-sleep", "memory goes while a use is open",
            "Runtime.quiet", "b.taken()", "len(b.open) > 1",
            mode="^TestSleepsThat",
        ),
        Mutant(
            "copies-not-awaited", "memory goes while it is copied",
            "offload.left", "l.passed < l.needs[segment]", "false && l.passed < l.needs[segment]",
        ),
        Mutant(
            "goes-before-the-last-copy", "memory goes when all pieces but the last one that has bytes of it are copied",
            "offload.queue", "l.needs[segment] = len(l.marks)", "l.needs[segment] = len(l.marks) - 1",
        ),
        Mutant(
            "comes-before-the-memory", "a piece is copied back before its segments have memory",
            "reload.came", "c.needs[c.queued] <= segments", "c.needs[c.queued] <= segments + 8",
            mode="^TestCopiesRun",
        ),
        Mutant(
            "wake-returns-early", "a wake returns while bytes are on their way",
            "Pool.wake", "p.settleCopies()", "error(nil)",
        ),
        Mutant(
            "unmapped-under-copies", "memory of a wake that fails goes while bytes are copied there",
            "poolSource.backAll", "_ = reload.settleCopies()", "_ = reload",
            mode="^TestASleepWhose",
        ),
        Mutant(
            "kept-under-copies", "pinned memory of a sleep that fails serves others while bytes are copied there",
            "Pool.sleep", "_ = p.settleCopies()", "_ = p",
            mode="^TestPinnedMemoryServes",
        ),
        Mutant(
            "pinned-too-small", "memory that is too small serves a piece",
            "pinnedCache.take", "c.place(bytes)", "c.place(bytes / 2)",
            mode="^TestPinnedMemoryServes",
        ),
        Mutant(
            "pinned-each-time", "a wake gives pinned memory back, and the next sleep pins anew",
            "Pool.wake", "p.forget(p.kept[partition].Swap(nil))",
            "p.forget(p.kept[partition].Swap(nil))\n\t\t_ = p.trimKept()",
            mode="^TestCopiesRun",
        ),
        Mutant(
            "failed-sleep-holds", "a sleep that lacks pinned memory holds what it got",
            "Pool.sleep", "_ = p.trimKept()", "_ = p",
            mode="^TestSleepsThat",
        ),
        Mutant(
            "charged-for-nothing", "pinned memory that was never allocated stays charged",
            "pinnedCache.put", "pinnedLedger.Give(p.bytes)", "_ = p",
            mode="^TestSleepsThat",
        ),
        Mutant(
            "trim-forgets-pinned", "pinned memory that the driver did not take is forgotten",
            "pinnedCache.trim", "c.put([]pinned{p})", "_ = p",
            mode="^TestBudgetsCount",
        ),
        Mutant(
            "nobody-gets-pinned", "who lacks pinned memory does not get what a wake left",
            "pinnedCache.take", "pinnedLedger.join(c)", "_ = c",
            mode="^TestBudgetsCount",
        ),
        Mutant(
            "sleepers-are-used", "a use of a block that sleeps begins",
            "Pool.usable", "p == nil || p.resting.Load() == 0", "p == nil || p.resting.Load() >= 0",
        ),
        Mutant(
            "failed-sleep-forgets", "what a failed sleep has kept stays in memory",
            "Pool.sleep", "p.forget(stored[i])", "_ = stored[i]",
            mode="^TestASleepWhose",
        ),
        Mutant(
            "failed-wake-forgets", "a wake that fails loses what was kept",
            "Pool.wake", "taken := p.books.Sleep(",
            "p.forget(p.kept[partitions[0]].Swap(nil))\n\t\ttaken := p.books.Sleep(",
            mode="^TestASleepWhose",
        ),
        Mutant(
            "captures-are-reaped", "the frees of a stream that captures are looked for with an event",
            "Stream.reap", "s.capture.Load() != nil && !r.lost.Load()", "false && s.capture.Load() != nil && !r.lost.Load()",
            mode="^TestNothingBreaks",
        ),
        Mutant(
            "captures-share", "blocks of a capture come from the memory of all",
            "Pool.partitionOf", "return c.of.partition", "return 0",
            mode="^TestMemoryOfACapture",
        ),
        Mutant(
            "events-of-the-graph", "who comes after a capture waits for an event that was recorded in it",
            "Capture.endStreams", "s.recorded = s.capture.Swap(nil).recorded", "s.capture.Swap(nil)",
            mode="^TestNothingBreaks",
        ),
        Mutant(
            "captures-begin-at-once", "a stream that captures does not run behind what was queued before on others",
            "Capture.begin", "point{other, end}", "point{other, end - end}",
            mode="^TestNothingBreaks",
        ),
    ),
)  # fmt: skip
