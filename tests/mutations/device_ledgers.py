"""Bugs in what all runtimes of a device share: its ledger, and the last steps before memory is missing."""

from mutation import Mutant
from subject import Go

DEVICE_LEDGERS = Go(
    name="device-ledgers",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode="Budget|Ledgers|HostMemory",
    sound=("Budget|Ledgers|HostMemory", "RuntimesGive|TheDriverGives|AskEach|AllNumbers|OwnLimit|ABlockFits|HookMay"),
    mutants=(
        Mutant(
            "ordered-not-charged", "stream-ordered blocks escape the device's budget",
            "orderedLayer.Allocate", "l.ledger.take(request.Bytes); err != nil", "l.ledger.take(0); err != nil",
        ),
        Mutant(
            "charged-for-ever", "a stream-ordered block that was released stays charged",
            "orderedLayer.Released", "l.ledger.Give(memory.Bytes)", "l.ledger.Give(0)",
        ),
        Mutant(
            "failed-stays-charged", "an allocation that the driver refuses stays charged",
            "wholeSource.Back", "s.ledger.Give(segment.bytes)", "s.ledger.Give(0)",
        ),
        Mutant(
            "segments-not-charged", "a pool's segments escape the device's budget",
            "poolSource.charge", "p.ledger.take(owed)", "p.ledger.take(0 * owed)",
        ),
        Mutant(
            "not-refunded", "segments that were charged and not needed stay charged",
            "poolSource.backAll", "p.ledger.Give(owed)", "p.ledger.Give(0)",
            mode="RuntimesGive|TheDriverGives|AskEach|AllNumbers|OwnLimit|ABlockFits|HookMay",
        ),
        Mutant(
            "piece-by-piece", "two pools that meet at the budget's end can both be refused",
            "poolSource.charge", "return owed, p.ledger.take(owed)",
            "for i, m := range plan {\n\t\tif err := p.ledger.take(m.bytes()); err != nil {\n"
            "\t\t\tp.ledger.Give(bytesOf(plan[:i]))\n\t\t\treturn 0, err\n\t\t}\n"
            "\t\t_, _, _ = p.device.MemoryInfo()\n\t}\n\treturn owed, nil",
        ),
        Mutant(
            "managed-is-free", "managed memory escapes the device's budget",
            "Runtime.hostPool", "kind == driver.Pinned", "kind != driver.Managed+9",
        ),
        Mutant(
            "lower-budget-waits", "a lower budget leaves pools what they keep",
            "SetDeviceBudget", "charged > bytes", "charged > bytes && false",
        ),
        Mutant(
            "ledgers-stay", "the ledger of a device without runtimes stays for ever",
            "onLedger", "delete(deviceLedgers.of, device)", "_ = device",
        ),
        Mutant(
            "nobody-asked", "memory is missing though other runtimes keep what they do not need",
            "DeviceLedger.seek", "l.ask(lenders, one, bytes)", "uint64(0)",
            mode="RuntimesGive|TheDriverGives|AskEach|AllNumbers|OwnLimit|ABlockFits|HookMay",
        ),
        Mutant(
            "own-limit-takes-of-others", "a pool that is limited by itself takes what others keep",
            "Runtime.overLimit", "r.pool.Statistics().Held+bytes > r.options.Pool.Limit", "false",
            mode="RuntimesGive|TheDriverGives|AskEach|AllNumbers|OwnLimit|ABlockFits|HookMay",
        ),
        Mutant(
            "takes-everything", "a request takes all that others keep",
            "Runtime.giveBack", "before.Reserved - min(before.Reserved, bytes)", "0 * bytes",
            mode="RuntimesGive|TheDriverGives|AskEach|AllNumbers|OwnLimit|ABlockFits|HookMay",
        ),
        Mutant(
            "driver-keeps", "a pool's request fails though the driver keeps freed memory",
            "Runtime.giveBack", "r.device.TrimOrdered(0)", "error(nil)",
            mode="RuntimesGive|TheDriverGives|AskEach|AllNumbers|OwnLimit|ABlockFits|HookMay",
        ),
    ),
)  # fmt: skip

PENDING_MEMORY = Go(
    name="pending-memory",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode="Pending|Patience|WaitedFor|WaitingEnds|ATurn|MayCome",
    sound=("Pending|Patience|WaitedFor|WaitingEnds|ATurn|MayCome", "ThatFit", "^TestAccountsAreKept$"),
    mutants=(
        Mutant(
            "no-patience", "memory is missing while it is pending",
            "Runtime.attempt", "a.patience = r.options.Patience", "",
        ),
        Mutant(
            "steals", "what a request waits for is taken by others again and again",
            "DeviceLedger.settle", "tries == 3", "tries == 0",
        ),
        Mutant(
            "passes-by", "nobody waits for the end of another request's turn",
            "turn.pass", "over != nil && a.patience != 0", "over != nil && a.patience != a.patience",
        ),
        Mutant(
            "impatient-wait", "a request that must not wait waits for the end of another one's turn",
            "turn.pass", "over != nil && a.patience != 0", "over != nil",
        ),
        Mutant(
            "captures-wait", "a request of a stream that captures waits for the device",
            "Runtime.attempt", "s == nil || s.capture.Load() == nil", "s != s.runtime.streams.own",
            mode="WaitedFor",
        ),
        Mutant(
            "captures-waited-for", "what a capture has freed is waited for",
            "Runtime.pending", " && s.capture.Load() == nil", "",
            mode="WaitedFor",
        ),
        Mutant(
            "magazines-not-pending", "what magazines have is not pending",
            "Runtime.pending", "s.fast.Cached() > 0", "s.fast == nil",
        ),
        Mutant(
            "spans-not-regained", "what was left of spans does not count as regained",
            "Stream.swapSpan", "s.runtime.spans.Add(left.Units * pool.Unit)", "",
        ),
        Mutant(
            "others-go-on", "what other runtimes of the device have pending is not waited for",
            "attempt.await", "with.Reap()", "if with == lenders[0] {\n\t\t\t\twith.Reap()\n\t\t\t}",
        ),
        Mutant(
            "waits-for-what-is-live", "a pool waits though its limit is too small for what is live",
            "DeviceLedger.seek", "a.patience = []lender{one}, 0", "a.patience = []lender{one}, a.patience",
            mode="WaitedFor",
        ),
        Mutant(
            "budget-refuses", "a budget refuses while bytes are pending",
            "Runtime.Settle", "a := r.attempt(stream)", "a := attempt{regained: r.regained()}",
        ),
        Mutant(
            "once-is-enough", "memory that comes in pieces is missing when the first one has come",
            "DeviceLedger.settle", "most := mostTries", "most := 1",
        ),
        Mutant(
            "counted-again", "a request that waits counts each time that some memory comes",
            "attempt.await", "a.waited = nil", "",
        ),
        Mutant(
            "tries-again", "a request tries again though nothing has come",
            "Runtime.attempt", "regained: r.regained()", "regained: ^uint64(0)",
            mode="^TestAccountsAreKept$",
        ),
    ),
)  # fmt: skip

WHOLE_SEGMENTS = Go(
    name="whole-segments",
    folders=("core/pool",),
    package="core/pool",
    mode="Whole|^TestRandomPrograms$",
    sound=("Whole|^TestRandomPrograms$",),
    mutants=(
        Mutant(
            "no-gap", "the gap behind a segment is free, and the next one lies there",
            "space.planWhole", "s.extents.Carve(rest, gap.Offset, gap.Count)", "rest.Count > 0",
        ),
        Mutant(
            "gap-lost", "the gap behind a segment that goes back is nobody's any more",
            "space.leaveWhole", "s.put(bare, 0, s.gap(r))", "_ = r",
        ),
        Mutant(
            "in-parts", "a part of a segment goes back to the driver",
            "mappings", "next.Offset+next.Count > end", "false && next.Offset+next.Count > end",
        ),
        Mutant(
            "always-a-step", "a large request has a segment of 20 MiB",
            "Pool.grow", "b.Count*Unit >= ownSegment", "b.Count*Unit >= 2*ownSegment",
        ),
    ),
)  # fmt: skip

KEPT = "^TestBudgetsCountWhatIsKept$|^TestALostDeviceKeeps"

WHOLE_SOURCES = Go(
    name="whole-sources",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode="Origin|Pageable|HostMemory|Pinned",
    sound=("Origin|Pageable|HostMemory|Pinned", KEPT, "^TestEveryStack"),
    mutants=(
        Mutant(
            "goes-back-in-part", "what is free of a segment goes back, and the rest with it",
            "wholeSource.Mapping", "Count: segment.bytes / pool.Unit", "Count: poolSegment / pool.Unit",
        ),
        Mutant(
            "address-of-the-segment", "all blocks of a segment have its address",
            "wholeSource.address", "b.Offset*pool.Unit-segment.first*poolSegment", "0*b.Offset",
        ),
        Mutant(
            "whole-not-charged", "segments that go back whole escape the budget",
            "wholeSource.Back", "s.ledger.take(segment.bytes)", "s.ledger.take(0)",
        ),
        Mutant(
            "pageable-unasked", "pageable memory serves though nobody chose it",
            "wholeSource.Back", "lacks(err) && s.options.Pageable", "lacks(err)",
        ),
        Mutant(
            "pageable-freed-by-the-driver", "pageable memory counts as given back to the budget",
            "wholeSource.Bare", "segment.pageable == nil", "segment.pageable == nil || true",
        ),
        Mutant(
            "held-ends-with-the-runtime", "host memory that is freed behind its runtime's end stays",
            "Runtime.FreeHost", "p.ended.Load()", "p.ended.Load() && false",
        ),
        Mutant(
            "kept-not-charged", "what guards and sleeping tags keep escapes the budget",
            "chargePinned", "pinnedLedger.take(bytes)", "pinnedLedger.take(0)",
            mode=KEPT,
        ),
        Mutant(
            "lost-stays-charged", "pinned memory of a lost device stays charged",
            "pinned.give", "err == nil || lost", "err == nil",
            mode=KEPT,
        ),
        Mutant(
            "slot-taken-twice", "two guarded blocks have one place for their canaries",
            "Guard.takeSlot", "g.slots = g.slots[:last]", "g.slots = g.slots[:max(last, slabSlots/2)]",
            mode="^TestBudgetsCountWhatIsKept$|^TestEveryStack",
        ),
    ),
)  # fmt: skip
