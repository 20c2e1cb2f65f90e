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
            "space.dropFree", "s.spare(s.extents.Limit(), done)", "s.spare(0, done)",
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
    sound=("^TestRandomSleeps$", "^Test(TagsSleep|BlocksThatSleep|SleepsThat|ASleepWaits|ASleepWhose)", "Capture"),
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
            "Pool.move", "err = cmp.Or(err, p.await(l))", "_ = l",
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
            "Pool.wake", "err = p.fetch(partition, k)",
            "if err = p.fetch(partition, k); err != nil {\n\t\t\t\tp.forget(p.kept[partition].Swap(nil))\n\t\t\t}",
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
