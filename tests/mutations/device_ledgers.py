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
            "Runtime.AllocateHost", "ledger.Give(bytes)", "ledger.Give(0)",
        ),
        Mutant(
            "segments-not-charged", "a pool's segments escape the device's budget",
            "poolSource.prepay", "p.ledger.take(uint64(missing) * poolSegment)", "p.ledger.take(uint64(missing) * 0)",
        ),
        Mutant(
            "not-refunded", "segments that were charged and not needed stay charged",
            "poolSource.refund", "p.ledger.Give(uint64(p.prepaid) * poolSegment)", "p.ledger.Give(0)",
            mode="RuntimesGive|TheDriverGives|AskEach|AllNumbers|OwnLimit|ABlockFits|HookMay",
        ),
        Mutant(
            "piece-by-piece", "two pools that meet at the budget's end can both be refused",
            "poolSource.prepay", "missing := max(0, segments-len(p.idle))", "missing := min(1, max(0, segments-len(p.idle)))",
        ),
        Mutant(
            "managed-is-free", "managed memory escapes the device's budget",
            "Runtime.hostLedger", "kind == driver.Managed", "kind == driver.Managed && false",
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
            "ladder.climb", "lacks(err) && !r.overLimit(request.Bytes)", "lacks(err) && r == nil",
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
