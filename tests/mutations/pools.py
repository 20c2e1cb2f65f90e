"""Bugs in pools of device memory: in the books, and in what the runtime makes of them.

Random programs against a model, traces whose shapes change, and the simulated device must show each."""

from mutation import Mutant
from subject import Go

LADDER = "^TestTheLadder$|^TestAFitting"
RELAXED = "^TestWhatIsMovedHasAnEnd$"
FRAGMENTATION = "^TestFragmentation$|^TestFreeSegments"

POOLS = Go(
    name="pools",
    folders=("core/alloc", "core/pool"),
    package="core/pool",
    mode="^TestRandomPrograms$",
    sound=(
        "^TestRandomPrograms$", LADDER, FRAGMENTATION, RELAXED, "^TestTheSourceFails$", "^TestAStream",
        "^TestParseNames|^TestRetries",
    ),
    mutants=(
        Mutant(
            "others-at-once", "what another stream has freed is given out before the device has come past it",
            "space.takeOfOthers", "waits: mark > done(other)", "waits: false",
        ),
        Mutant(
            "gathered-too-early", "what is free on other streams becomes a stream's before the device has come past it",
            "space.gather", "f.Mark <= past &&", "(f.Mark <= past || true) &&",
        ),
        Mutant(
            "smaller-mark", "two free pieces that become one have the mark of the older free",
            "Extents.join", "max(front.mark, e.extents[gone].mark)", "min(front.mark, e.extents[gone].mark)",
        ),
        Mutant(
            "bins-join", "free neighbours of different streams become one",
            "Extents.isFreeIn", "e.extents[index].bin == number",
            "(e.extents[index].bin == number || number > 0 && e.extents[index].bin > 0)",
        ),
        Mutant(
            "segments-in-use-lose-memory", "a segment loses its memory though the device may still work there",
            "space.spare", "f.Mark <= past && f.Count", "(f.Mark <= past || true) && f.Count",
            mode="^TestTrim$",
        ),
        Mutant(
            "parts-of-segments-lose-memory", "a segment loses its memory though only a part of it is free",
            "space.spare", "from := s.segments(f.Offset)", "from := f.Offset / s.segment * s.segment",
        ),
        Mutant(
            "mapped-in-part-behind", "memory is taken away of which the last part is held",
            "mappings", "next.Offset+next.Count > end", "false",
        ),
        Mutant(
            "mapped-in-part-before", "memory is taken away of which the first part is held",
            "mappings", "first.Offset < r.Offset", "false",
        ),
        Mutant(
            "slack-stays", "memory is moved from segment to segment for ever",
            "Pool.relax", "p.slack *= 2", "", mode=RELAXED,
        ),
        Mutant(
            "slack-of-the-program-grows", "a slack that was asked for does not hold",
            "Pool.relax", "p.options.Slack != 0 || p.slack", "p.slack", mode=RELAXED,
        ),
        Mutant(
            "slack-grows-at-once", "the slack doubles though little of what was allocated was moved",
            "Pool.relax", "&& since > (taken-p.relaxed.taken)/movedShare", "", mode=FRAGMENTATION,
        ),
        Mutant(
            "limit-forgotten", "segments get more memory than the limit",
            "Pool.back", "backed+plan.Count > limit", "false && backed+plan.Count > limit",
            mode=LADDER,
        ),
        Mutant(
            "no-waiting", "memory is missing though a block would fit behind another stream's work",
            "Pool.miss", "p.source.Done, true)", "p.source.Done, false)",
            mode=LADDER,
        ),
        Mutant(
            "retry-counts-itself", "a retry counts though it did not help",
            "Pool.miss", "err = p.grow(stream, b, true); err == nil", "err = p.grow(stream, b, true); true",
            mode="^TestRetries",
        ),
        Mutant(
            "other-size-not-asked", "memory is missing though a block would fit among requests of the other size",
            "Pool.miss", "[]int{b.Space, b.Space ^ 1}", "[]int{b.Space}",
        ),
        Mutant(
            "nothing-moves", "free segments keep their memory, and others get new memory",
            "Pool.grow", "backed+plan.Count > allowed && more", "backed+plan.Count > allowed && more && step > 0",
            mode=FRAGMENTATION,
        ),
        Mutant(
            "plan-not-left", "addresses are lost when the device has no memory for them",
            "Pool.unplan", "p.space(space).leave(r)", "",
            mode="^TestTheSourceFails$",
        ),
        Mutant(
            "position-of-the-end", "the position of an error is that behind what is wrong",
            "parser.number", "p.at = begin", "p.at += 0 * begin",
            mode="^TestParseNames",
        ),
    ),
)  # fmt: skip

POOL_LAYERS = Go(
    name="pool-layers",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode="Pool|Stack",
    sound=(
        "Pool|Stack", "^TestAPoolWhoseDriverFailsTwice$", "^TestPeers", "^TestMemoryThatDoesNotEnd$", "^TestRandomSleeps$",
        "^TestSegmentsAreMappedTogether$",
    ),
    mutants=(
        Mutant(
            "wait-not-queued", "a stream does not wait for the stream whose memory it was given",
            "Pool.Allocate", "err == nil && wait.Needed", "err == nil && wait.Needed && s == nil",
        ),
        Mutant(
            "mark-too-early", "memory counts as free at the point before the last one of its stream",
            "Pool.Free", "stream.next().number", "stream.queued.Load() - stream.queued.Load()",
        ),
        Mutant(
            "all-done", "each stream counts as done with everything",
            "poolSource.Done", "return s.completed.Load()", "return math.MaxUint64",
        ),
        Mutant(
            "half-mapped", "segments stay mapped when the last one of them gets no memory",
            "poolSource.backAll", "plan[:mapped]", "plan[:mapped-mapped]",
        ),
        Mutant(
            "left-over-fails", "segments count as without memory where what was left over does not end",
            "poolSource.backAll", "_ = p.dropIdle()", "if err := p.dropIdle(); err != nil {\n\t\treturn err\n\t}",
            mode="^TestMemoryThatDoesNotEnd$",
        ),
        Mutant(
            "physical-lost", "memory that could not be mapped is forgotten",
            "poolSource.letGo", "p.idle = append(p.idle, m)", "_ = m", mode="^TestAPoolWhoseDriverFailsTwice$",
        ),
        Mutant(
            "mapped-for-one", "other devices do not reach segments of a pool for peers",
            "poolSource.mapAt", "p.peers, m.physical", "false, m.physical", mode="^TestPeers",
        ),
        Mutant(
            "longer-than-its-place", "segments get memory that is longer than their place",
            "poolSource.fitting", "m.segments <= segments &&", "", mode="^TestRandomSleeps$",
        ),
        Mutant(
            "charged-without-a-place", "memory that fits nowhere stays charged while other memory is asked for",
            "poolSource.backAll", "_ = p.dropIdle() //", "//", mode="^TestSegmentsAreMappedTogether$",
        ),
        Mutant(
            "torn-is-idle", "memory that could not be mapped again serves other segments",
            "poolSource.bareAll", "_ = p.mend(torn)",
            "_ = p.mend(torn)\n\t\tfor _, m := range p.torn {\n\t\t\tp.idle = append(p.idle, m)\n\t\t}",
            mode="^TestAPoolWhoseDriverFailsTwice$",
        ),
        Mutant(
            "torn-is-awake", "blocks may be used whose memory could not be mapped again",
            "Runtime.Sleep", "p.settle([]int{partition}, len(torn) > 0)", "p.settle([]int{partition}, false)",
            mode="^TestAPoolWhoseDriverFailsTwice$",
        ),
        Mutant(
            "stray-forgotten", "memory that could not be unmapped is forgotten",
            "poolSource.backAll", "p.stray = append(p.stray, m)", "_ = m",
            mode="^TestAPoolWhoseDriverFailsTwice$",
        ),
        Mutant(
            "bared-in-part", "segments before the one whose memory the driver does not take away count as having theirs",
            "poolSource.Bare", "return block.Count, err", "if err != nil {\n\t\treturn 0, err\n\t}\n\treturn block.Count, err",
            mode="^TestAPoolWhoseDriverFailsTwice$",
        ),
    ),
)  # fmt: skip
