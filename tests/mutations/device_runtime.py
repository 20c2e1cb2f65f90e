"""Bugs in the device runtime: in its order of work and in its accounts. Programs of few streams, random programs, or the recount
of what is charged must show each."""

from mutation import Mutant
from subject import Go

ADDRESSES = "^(TestTheBlockAtAnAddress|TestFewAddressesAreLookedForAmongAllBlocks)$"

WAITED = "^TestWhatAWaitHasPassedIsFree$"

ACROSS = (
    "^(TestUsesFromTwoRuntimes|TestRandomUsesFromTwo|TestUsesEndWithEither|TestBlocksAreAwaited|TestASleepWaitsForOther"
    "|TestReadsOfRuntimes)"
)

IDLE = "^(TestIdleBlocks|TestABlockOfMagazinesIsNotIdle|TestIdleBlocksEndWithTheirRuntime)$"

DEVICE_RUNTIME = Go(
    name="device-runtime",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode="^(TestAccountsAreKept|TestAllInterleavings|TestAnEndedRuntimeIsForgotten|TestRandomSchedules)$",
    sound=(
        "^(TestAccountsAreKept|TestAllInterleavings|TestAnEndedRuntimeIsForgotten|TestRandomSchedules)$", ADDRESSES, WAITED,
        ACROSS, IDLE,
    ),
    environment={"MMSB_EVERY": "37", "MMSB_SCHEDULES": "10000", "MMSB_SEED": "1"},
    mutants=(
        Mutant(
            "ends-not-looked-at", "a block is said to have a range of which it has the beginning",
            "Runtime.Around", "bytes <= info.Bytes-uint64(address-info.Address)", "true", mode=ADDRESSES,
        ),
        Mutant(
            "only-what-is-listed", "a block that came after the list is at no address",
            "at", "index <= made", "index <= min(made, 0)", mode=ADDRESSES,
        ),
        Mutant(
            "list-not-made", "each address is looked for among all blocks",
            "places.missed", "p.misses < p.patience", "true", mode=ADDRESSES,
        ),
        Mutant(
            "list-not-sorted", "what is listed is not found, and looked for among all blocks",
            "places.missed", "cmp.Compare(a.address, b.address)", "cmp.Compare(b.address, a.address)", mode=ADDRESSES,
        ),
        Mutant(
            "one-awaited", "of blocks that are awaited together the first is",
            "Await", "for _, handle := range handles {", "for _, handle := range handles[:1] {", mode=ACROSS,
        ),
        Mutant(
            "idle-for-ever", "what is queued in a block that was idle is not waited for",
            "blockTable.locked", "b.idle.Store(0)", "", mode=IDLE,
        ),
        Mutant(
            "idle-in-use", "a block is idle while a use of it is open, whose end does not change that",
            "block.noteIdle", "!b.taken() && ", "", mode=IDLE,
        ),
        Mutant(
            "idle-with-reads", "a block is idle although it is read",
            "block.noteIdle", "!slices.ContainsFunc(b.reads, pending)", "true", mode=IDLE,
        ),
        Mutant(
            "idle-and-in-a-magazine", "a block is idle that C may free and allocate again",
            "block.noteIdle", "b.what() == blocks.Held && ", "", mode=IDLE,
        ),
        Mutant(
            "idle-asleep", "a block that sleeps is passed by",
            "blockTable.isIdle", "allResting.Load() > 0", "false", mode=IDLE,
        ),
        Mutant(
            "idle-after-the-end", "a block of a runtime that has ended is idle still",
            "block.set", "b.idle.Store(0)", "", mode=IDLE,
        ),
        Mutant(
            "rests-after-the-end", "what sleeps when its runtime ends is counted for ever",
            "Pool.endSleepers", "p.countResting(-p.resting.Load())", "", mode=IDLE,
        ),
        Mutant(
            "reads-add-up", "reads of runtimes that have ended stay in a block",
            "block.noteRead", "slices.DeleteFunc(b.reads, point.passed)", "b.reads", mode=ACROSS,
        ),
        Mutant(
            "numbers-of-another-runtime", "a stream of another runtime is taken for this one's with its number",
            "waitFor", "r == of && s.sees(p)", "s.sees(p)", mode=ACROSS,
        ),
        Mutant(
            "another-runtime-is-seen", "what a stream of another runtime runs behind is noted for this one's streams",
            "waitFor", "r.counts.waits.Add(1) if r != of { return nil }", "r.counts.waits.Add(1)", mode=ACROSS,
        ),
        Mutant(
            "ended-streams-not-past", "points of a runtime that has ended never count as done",
            "streamTable.close", "s.completed.Store(math.MaxUint64)", "", mode=ACROSS,
        ),
        Mutant(
            "sleep-ignores-others", "a tag falls asleep before another runtime's work on its blocks is done",
            "Runtime.quiet", "streams = append(streams, s)", "", mode=ACROSS,
        ),
        Mutant(
            "missing-wait", "no stream ever waits for another",
            "waitFor", "p.number == 0", "true",
        ),
        Mutant(
            "event-counts-too-much", "an event is taken to cover one point more than it does",
            "recordNow", "number := s.queued.Load()", "number := s.queued.Load() + 1",
        ),
        Mutant(
            "waits-are-forgotten", "what a wait has passed is looked for with an event, which the device has not come past",
            "Stream.reap", "completed >= first", "completed >= first && false", mode=WAITED,
        ),
        Mutant(
            "reaps-too-early", "memory counts as released although the device has not come past the free",
            "Stream.reap", "past, err := r.device.QueryEvent(m.event)", "past, err := r.device.QueryEvent(m.event); past = true",
        ),
        Mutant(
            "generation-stays", "the next block of a slot has the handle of the last one",
            "block.start", "b.generation()+1, blocks.Held", "1, blocks.Held",
        ),
        Mutant(
            "allocation-is-no-write", "another stream's first use does not wait for the allocation",
            "block.begin", "b.write = stream.next()", "b.write = point{}",
        ),
        Mutant(
            "open-uses-ignored", "conflicting uses may be open together: one does not know of the other's work",
            "beginUse", "open.stream != s", "false",
        ),
        Mutant(
            "writer-ignores-readers", "a write does not wait for the reads before it",
            "beginUse", "if access&Write != 0 {", "if false {",
        ),
        Mutant(
            "write-forgotten", "neither reads nor writes wait for the write before them",
            "block.endUse", "b.write = p", "",
        ),
        Mutant(
            "read-forgotten", "nobody waits for a read",
            "block.noteRead", "b.reads = append(slices.DeleteFunc(b.reads, point.passed), p)", "b.reads = b.reads[:0]",
        ),
        Mutant(
            "one-reader-only", "a second reader takes the first one's place",
            "block.noteRead", "slices.DeleteFunc(b.reads, point.passed)", "b.reads[:0]",
        ),
        Mutant(
            "free-does-not-wait", "a free goes ahead of work that is being queued",
            "block.free", "b.taken()", "false",
        ),
        Mutant(
            "free-ignores-readers", "a free does not wait for reads",
            "queueFree", "err = b.waitForReads(s)", "",
        ),
        Mutant(
            "free-ignores-writer", "a free does not wait for the last write",
            "queueFree", "err = s.waitFor(b.write)", "",
        ),
        Mutant(
            "ledger-drifts", "released bytes stay counted",
            "Budget.Released", "b.ledger.Give(memory.Bytes)", "",
        ),
        Mutant(
            "failure-stays-charged", "what a failed allocation had charged stays charged",
            "Budget.Allocate", "b.ledger.Give(request.Bytes)", "",
        ),
        Mutant(
            "record-keeps-stream", "the record of a block that has ended keeps its stream, and with it the runtime",
            "block.forget", "b.stream, b.freeOn, b.owners, b.wrapped = nil, nil, 0, false",
            "b.freeOn, b.owners, b.wrapped = nil, 0, false",
        ),
        Mutant(
            "record-keeps-uses", "the record of a block that has ended keeps the streams of its uses",
            "block.forget", "clear(b.open[:cap(b.open)])", "",
        ),
        Mutant(
            "use-keeps-stream", "the record of a use that has ended keeps its stream",
            "useTable.give", "u.stream, u.failed, u.uses = nil, nil, u.uses[:0]", "u.failed = nil",
        ),
    ),
)  # fmt: skip

SIMULATED_DEVICE = Go(
    name="simulated-device",
    folders=("gpu/sim",),
    package="gpu/sim",
    mode="^TestStreamsComeAndGo$",
    sound=("^TestStreamsComeAndGo$",),
    mutants=(
        Mutant(
            "clocks-grow", "each stream that ever was has a place in every clock",
            "newParty", "d.order.host.at(left.party) >= left.tick", "false",
        ),
        Mutant(
            "unseen-is-ordered", "a new stream counts as ordered behind an ended one whose work nobody saw done",
            "newParty", "d.order.host.at(left.party) >= left.tick", "true",
        ),
    ),
)  # fmt: skip

TESTS_OF_LEDGERS = "Ledger|Processes|Killed"

LEDGERS = Go(
    name="ledgers",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode=TESTS_OF_LEDGERS,
    sound=(TESTS_OF_LEDGERS,),
    mutants=(
        Mutant(
            "open-ledger-is-opened-again", "each runtime of a ledger that is open keeps a descriptor",
            "OpenLedger", "unix.Lstat(path, &stat) == nil", "false",
        ),
        Mutant(
            "refused-ledger-stays-open", "a file that is no ledger stays open",
            "OpenLedger", "l.end()", "",
        ),
        Mutant(
            "second-descriptor-is-closed", "closing a second descriptor drops the locks of the first one",
            "SharedLedger.again", "l.users++", "l.users++; if f, err := os.Open(path); err == nil { _ = f.Close() }",
        ),
        Mutant(
            "cut-ledger-is-a-failure-of-the-disk", "a file that was cut short is not known as such",
            "SharedLedger.read", "err == io.EOF", "false",
        ),
        Mutant(
            "cut-ledger-is-empty", "what a file that was cut short does not have counts as 0",
            "SharedLedger.read", "case err == io.EOF:", "case err == io.EOF: return content, nil; case err == io.ErrNoProgress:",
        ),
        Mutant(
            "cut-ledger-is-another-file", "a ledger that was cut short counts as a file of another kind",
            "SharedLedger.begin", "l.begins()", "false",
        ),
        Mutant(
            "dead-processes-keep-their-bytes", "the bytes of a process that has died stay charged",
            "SharedLedger.Take", "l.reclaim(content)", "",
        ),
    ),
)  # fmt: skip
