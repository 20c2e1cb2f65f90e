"""Bugs in how a runtime meets streams of other libraries, and in the memory that these have by address.

A device with streams that come and go, threads' default streams, and the order that the simulated device checks show each."""

from mutation import Mutant
from subject import Go

FOREIGN = (
    "^TestStreamsThatAre|^TestAPointerOf|^TestStreamsAreDestroyed|^TestABlockOutlives|^TestAFreeComes|^TestDefaultStreams"
    "|^TestMemoryOfNoStream|^TestWorkFollows"
)

FOREIGN_STREAMS = Go(
    name="foreign-streams",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode=FOREIGN,
    sound=(FOREIGN,),
    mutants=(
        Mutant(
            "stream-is-its-pointer", "a stream with the pointer of one that was destroyed is taken for it",
            "Runtime.Foreign", "met.id == id", "(met.id == id || true)",
        ),
        Mutant(
            "gone-without-waiting", "what a stream that is gone has queued counts as done",
            "Stream.gone", "s.recorded == nil || s.recorded.number < queued", "false",
        ),
        Mutant(
            "stream-asked-later", "a stream is asked for an event when it may be gone",
            "Stream.cover", "!s.foreign {", "s.foreign {",
            mode=f"{FOREIGN} -test.timeout=20s",  # nobody steps the device that it then waits for
        ),
        Mutant(
            "forgotten-too-early", "a stream that is gone is forgotten while its work is queued",
            "Runtime.forget", "|| !done ||", "|| done && !done ||",
        ),
        Mutant(
            "never-forgotten", "streams that are gone stay in the table for ever",
            "Runtime.forget", "r.streams.remove(s)", "",
        ),
        Mutant(
            "shadows-of-the-gone", "each stream that is gone leaves one of the runtime's",
            "Runtime.shadow", "if ended {", "if ended && false {",
        ),
        Mutant(
            "left-on-its-stream", "a block that was left is freed on a stream that may be gone",
            "block.end", "on.foreign", "false",
        ),
        Mutant(
            "record-forgotten", "a free does not wait for streams that were recorded",
            "Runtime.FreeOn", "if !lasting {", "if lasting {",
        ),
        Mutant(
            "recorded-streams-stall", "the stream of a free waits for those that were recorded",
            "Runtime.FreeOn", "on, err = r.shadow(recorded[0])", "_, err = r.shadow(recorded[0])",
        ),
        Mutant(
            "thread-not-waited-for", "a free on a thread's default stream does not wait for it",
            "Runtime.standIn", "err = r.order(driver.PerThread, s.native)", "err = nil",
        ),
        Mutant(
            "followed-by-number", "what a stream of others has queued by itself is not waited for",
            "Stream.Follow", "other.next()", "point{other, other.queued.Load()}",
        ),
        Mutant(
            "thread-not-told", "a thread's default stream does not wait for memory that it gets",
            "Runtime.AllocateOn", "err = r.order(s.native, driver.PerThread)", "err = nil",
        ),
        Mutant(
            "segment-too-early", "memory is given out for all streams before the device has it",
            "Runtime.AllocateNow", "err = s.Synchronize()", "err = nil",
        ),
        Mutant(
            "segment-freed-at-once", "memory of all streams is freed before they are done",
            "Runtime.FreeNow", "err = r.noteLost(r.device.Synchronize())", "err = nil",
        ),
    ),
)  # fmt: skip

LENT = "Lent|^TestWhatCannotBeLent"

LENT_BLOCKS = Go(
    name="lent-blocks",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode=LENT,
    sound=(LENT,),
    mutants=(
        Mutant(
            "writes-not-waited-for", "another library's stream does not run behind writes",
            "block.lend", "err := s.waitFor(b.write)", "err := error(nil)",
        ),
        Mutant(
            "reads-not-waited-for", "another library's writes do not run behind reads",
            "block.lend", "access&Write != 0", "access&Write != 0 && false",
        ),
        Mutant(
            "thread-begins-at-once", "a thread's own stream does not run behind the block's uses",
            "Lend", "err = r.order(s.native, driver.PerThread)", "err = nil",
        ),
        Mutant(
            "thread-not-awaited", "what a thread's own stream has queued is not waited for",
            "Lent.end", "!running || l.thread", "!running",
        ),
        Mutant(
            "written-as-read", "later reads do not run behind what another library has written",
            "block.returned", "b.write, b.reads = p, b.reads[:0]", "b.noteRead(p)",
        ),
        Mutant(
            "uses-forgotten", "uses that have met another library's are forgotten",
            "block.returned", "cmp.Or(s.waitFor(b.write), b.waitForReads(s))", "error(nil)",
        ),
        Mutant(
            "freed-while-lent", "a free does not wait for other libraries",
            "block.taken", "|| b.lent > 0", "",
        ),
        Mutant(
            "ended-while-lent", "the end of a runtime frees blocks that other libraries have",
            "block.end", "b.lent > 0", "b.lent > 99",
        ),
        Mutant(
            "memory-goes-at-once", "a runtime's memory goes while other libraries have a block",
            "loans.over", "return l.count == 0", "return true",
        ),
        Mutant(
            "asleep-while-lent", "tags sleep whose blocks other libraries have",
            "Runtime.quiet", "b.taken()", "len(b.open) > 0",
        ),
        Mutant(
            "pages-are-lent", "blocks of pages are lent, which do not know it",
            "block.lend", "b.owners > 0", "b.owners > 99",
        ),
    ),
)  # fmt: skip

ADDRESSES = Go(
    name="addresses",
    folders=("gpu/plugin",),
    package="gpu/plugin",
    mode="^Test",
    sound=("^Test",),
    mutants=(
        Mutant(
            "freed-twice", "two threads that free the same memory both do",
            "remove", "s.given[address] != m", "false",
        ),
        Mutant(
            "failed-free-forgets", "memory whose free failed is lost",
            "Free", "put(address, m)", "",
        ),
        Mutant(
            "limit-overrun", "threads get more than the limit together",
            "binding.charge", "b.taken.CompareAndSwap(taken, taken+bytes)", "b.taken.Swap(taken+bytes) == taken",
        ),
        Mutant(
            "limit-wraps", "a size near 2^64 fits under the limit",
            "binding.charge", "bytes > limit-taken", "taken+bytes > limit",
        ),
        Mutant(
            "limit-of-before", "a limit is lost when another runtime serves",
            "serve", "b.limit.Store(before.limit.Load())", "",
        ),
        Mutant(
            "end-belongs", "the byte behind memory belongs to it",
            "shard.around", "uint64(address-base) < m.bytes", "uint64(address-base) <= m.bytes",
        ),
    ),
)  # fmt: skip
