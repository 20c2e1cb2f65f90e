"""Bugs in pages in two places: in what is newer where, in what moves, and in what is brought first. Programs that are the same in
every place, counted bytes, and the walk must show each."""

from mutation import Mutant
from subject import Go

PROGRAMS = "^TestAProgramIsTheSameInEveryPlace$"
NEWER = "^TestOnlyNewerBytesMove$"
BOTH_SIDES = "^TestWritesOnBothSides$"
RAW = "^TestOnlyWhatAHolderOfTheHostCopyHasChangedMoves$"
WAITING = "^TestPagesWaitForTheirSync$"
STEPS = "^TestTwoStepsAreOnTheirWayAtATime$"
TOGETHER = "^TestSmallRangesComeTogether$"
SHARES = (
    "^(TestProcessorsShareASync|TestAPageIsInTwoShares|TestAShareOfASyncFails|TestAListIsCut|TestWorkersOfASync"
    "|TestSyncsOfTheSamePages)$"
)
MANY_FAIL = "^TestAStepOfManyFails$"
BESIDE = "^TestSyncsThatReadPagesBesideOthers$"
ENDS = "^TestPagesInTwoPlacesEndAndBecomeOthers$"
PREFETCH = "^TestASyncOfManagedMemoryPrefetchesIt$"
FALLBACK = "^(TestPagesOfALostDeviceGoOn|TestWithoutAFallback|TestASyncThatMeetsTheLoss|TestPagesComeBack|TestLostInMidWork)"
WATCHED = "^TestAWatchedChangeMovesWhatItChanges$"
JOURNALED = "^TestTheJournalHasWhatDevicesHave$"
USES = "^(TestWorkOnPagesIsInOrder|TestUsesOfPagesInTwoPlaces|TestAUsePins|TestUsesEndWithTheirContext)"
SHARED = "^(TestCallsWaitForWorkOnShared|TestUsesOfSharedMemory|TestTheHostKeepsOut|TestSharedMemoryOfADevice|TestABlockEnds)"
SHARED_SAVES = "^TestSavesOfSharedMemory"
ADOPTED = "^(TestMemoryOfADeviceIsAPage|TestAdoptedMemoryOfADevice|TestRandomChangesOfAdoptedMemory)"
KERNELS = "^(TestPagesAreComparedAndSummedUp|TestPagesOnADeviceAreNotCopied|TestAPropagation)"
DRAIN = "^TestADrain"
SAVES = "^(TestASaveBringsWhat|TestSavesOfADevice|TestASaveOfADevice)"
REFUSED = "^TestACopyOfARefusedChange"
REFUSED_BATCH = "^TestABatchChangesAPageWithTheCopyOfARefusedChange$"
PINNED = "^TestPinned"
NO_FALLBACK = "^TestWithoutAFallbackNothingMoves$"
ADVICE = "^TestAdviceStaysWithThePage$"
REPLICAS = (
    "^(TestReplicas|TestAChangeDropsReplicas|TestAddressesAndReplicas|TestAnOpenUseKeepsItsReplica|TestADeviceThatLacksMemory"
    "|TestAnotherRuntimeGetsTheMemory|TestSavesAndLoadsBesideReplicas)"
)

SYNCS = Go(
    name="syncs",
    folders=("core/residency", "core/page", "core/persist", "core/parallel", "gpu/pages"),
    package="gpu/pages",
    mode=PROGRAMS,
    sound=(
        PROGRAMS, PINNED, NEWER, BOTH_SIDES, RAW, WAITING, ENDS, STEPS, TOGETHER, SHARES, MANY_FAIL, BESIDE, PREFETCH, ADVICE,
        FALLBACK, NO_FALLBACK, WATCHED, JOURNALED, USES, ADOPTED, KERNELS, DRAIN, REFUSED, REFUSED_BATCH, SAVES, REPLICAS,
        SHARED, SHARED_SAVES,
    ),
    environment={"MMSB_PROGRAMS": "40"},
    mutants=(
        Mutant(
            "pinned-page-moves", "a pinned page has other memory, where it could be the host's copy",
            "Page.CanPair", "p.Location() != abi.LocationUnified", "native.Class(p.State) != native.ClassDevice", mode=PINNED,
        ),
        Mutant(
            "pinned-goes-around", "what lies in pinned memory goes through the library's",
            "travel.plan", "t.both.pinned}", "false}", mode=PINNED,
        ),
        Mutant(
            "pinned-copy-lost", "a page that moves to where its copy lies gets other memory",
            "Page.Move", "to == p.copyAt(both)", "to == (Placement{})", mode=PINNED,
        ),
        Mutant(
            "copy-not-pinned", "a copy that was asked for in pinned memory is in other memory",
            "Page.ready", "if way.pinned {", "if false {", mode=PINNED,
        ),
        Mutant(
            "share-left-out", "a processor leaves out a part of what is shared",
            "Do", "i = next.Add(1) - 1 {", "i = next.Add(2) - 1 {",
            mode=SHARES,
        ),
        Mutant(
            "cut-in-place", "the second part of a range goes to where the first one went",
            "cut", "tail.Device += uintptr(bytes)", "",
            mode=SHARES,
        ),
        Mutant(
            "shares-overtake", "what processors share counts as moved before what was on its way before it",
            "addShares", "err := c.finish(); err != nil", "err := c.err; err != nil",
            mode=SHARES,
        ),
        Mutant(
            "share-fails-unseen", "nobody learns that a share has failed",
            "addShares", "failures[i] = err", "_ = err",
            mode=SHARES,
        ),
        Mutant(
            "copy-ends-within-a-batch", "the first change of a page in a batch ends the copy that a refused one has left",
            "DeviceApplyMany", "c.both.change(native.RecordAt(c.index).Size, c.form.Runs, c.form.Payload)",
            "c.both.change(native.RecordAt(c.index).Size, c.form.Runs, c.form.Payload); c.residency.changed(c.index, c.both)",
            mode=REFUSED_BATCH,
        ),
        Mutant(
            "partly-not-brought", "a change covers a range in part that is newer on the device, and nobody brings the rest",
            "bringFor", "err == nil && p.device.Overlaps(first, end)", "false",
        ),
        Mutant(
            "newer-on-both", "what was changed on the host still counts as newer on the device",
            "pair.change", "p.device.Remove(first, end)", "",
        ),
        Mutant(
            "host-change-not-noted", "a change of the host's copy never goes to the device",
            "pair.change", "p.host.Add(first, end)", "",
        ),
        Mutant(
            "device-change-not-noted", "a change on the device does not come to the host",
            "noteDevice", "p.device.Add(p.granules(run.Offset, run.Length))", "_ = run",
        ),
        Mutant(
            "reads-the-host-only", "a read does not take what is newer on the device",
            "readNewest", "return list", "return nil",
        ),
        Mutant(
            "address-not-noted", "nobody knows that the program has the device's address",
            "DeviceAddress", "both.out, both.prepared = true, false", "both.prepared = false",
        ),
        Mutant(
            "holders-not-noted", "what a holder of the device's address has written does not count as newer",
            "settle", "p.device.Add(p.all(record.Size))", "",
        ),
        Mutant(
            "watched-changes-lost", "a change that somebody watches is not newer than the device's bytes",
            "lent", "record.Version != p.version", "false",
        ),
        Mutant(
            "last-granule-lost", "a range that ends within a granule ends before it",
            "pair.granules", "(offset+length-1)>>p.shift + 1", "(offset+length)>>p.shift",
        ),
        Mutant(
            "joined-too-far", "ranges that touch in the staging memory alone go as one",
            "step.pack", "&& s.open.From+driver.Address(s.open.Bytes) == from", "&& true",
        ),
        Mutant(
            "small-ranges-stay", "small ranges do not move",
            "step.plan", "s.spans = append(s.spans, span)", "",
            mode=NEWER,
        ),
        Mutant(
            "moves-again", "what has moved still counts as newer",
            "arrived", "t.both.host = t.both.host[:0]", "",
            mode=NEWER,
        ),
        Mutant(
            "clash-overwrites", "where both sides were written one side's bytes are lost",
            "reconcile", "host && device && wins == 0", "false",
            mode=BOTH_SIDES,
        ),
        Mutant(
            "reference-stays-old", "what a holder of the host's copy has changed counts as newer again and again",
            "settle", "copy(p.common(record.Size)[offset:][:length], p.bytes(record.Size)[offset:])", "",
            mode=RAW,
        ),
        Mutant(
            "readers-hold-changes", "who reads the host's copy keeps changes there while the device's address is given out",
            "mustBeOnDevice", "p.writePins == 0", "p.writePins == 0 && p.readPins == 0",
        ),
        Mutant(
            "waits-for-each-step", "a step begins when the one before has arrived",
            "carrier.fill", "len(c.taken) < mostSteps", "false",
            mode=STEPS,
        ),
        Mutant(
            "lanes-kept-from-their-owner", "syncs keep all lanes, and each waits for one more",
            "device.take", "len(d.lanes)-d.carried < mostLanes", "len(d.lanes) < mostLanes", mode=BESIDE,
        ),
        Mutant(
            "group-by-group", "each group is a step of its own, also while others are on their way",
            "carrier.addAlone", "c.filling != nil && len(c.going) < enoughToDo", "c.filling != nil", mode=TOGETHER,
        ),
        Mutant(
            "planned-by-all", "large pages in pinned memory are planned by all processors there are",
            "syncing.workers", "workers > 1 && s.arePinned()", "false", mode=SHARES,
        ),
        Mutant(
            "impatient", "a page that another sync moves is busy",
            "worker.patiently", "still == often", "still > 0 || err != nil", mode=SHARES,
        ),
        Mutant(
            "taken-and-left", "a worker takes a page of the list and leaves it",
            "worker.next", "w.take(int(first),", "w.take(int(first)+1,", mode=SHARES,
        ),
        Mutant(
            "number-given-twice", "a page's number is another one's before the page is told",
            "holding.add", "h.free = h.free[:len(h.free)-1]", "", mode=SHARES,
        ),
        Mutant(
            "told-too-early", "pages are in step before their bytes have moved",
            "oneWay.carry", "w.going[begin+i].until = w.given", "w.going[begin+i].until = 0", mode=MANY_FAIL,
        ),
        Mutant(
            "arrived-behind-a-failure", "what moves behind a step that failed counts for that",
            "carrier.endOldest", "if c.err == nil {", "if true {", mode=MANY_FAIL,
        ),
        Mutant(
            "last-step-not-begun", "what was packed last never moves, and is said to be there",
            "carrier.finish", "c.filling != nil && c.err == nil", "false", mode=TOGETHER,
        ),
        Mutant(
            "queue-forgets-failures", "a page whose sync failed does not wait on",
            "Drain", "again = append(again, failure{pages[i], want})", "_ = i",
            mode=WAITING,
        ),
        Mutant(
            "copy-outlives-its-page", "a page that becomes another one, or ends, leaves its copy",
            "Forget", "r.dropPair(index)", "",
            mode=ENDS,
        ),
        Mutant(
            "prefetched-to-its-own-device", "managed memory goes to the page's device, not to that of the sync",
            "prefetch", "if !toDevice {", "if true {", mode=PREFETCH,
        ),
        Mutant(
            "prefetched-both-ways", "a sync of both directions moves memory that is in one place",
            "Syncing.Add", "&& !s.bothWays()", "", mode=PREFETCH,
        ),
        Mutant(
            "advice-outlives-its-page", "the next page in the memory has the advice of the one before",
            "FreeShared", "of.Advice != NoAdvice", "false", mode=ADVICE,
        ),
        Mutant(
            "advice-lost-by-resize", "the driver is told nothing of the memory that a page gets",
            "keepAdvice", "p.carryAdvice(now.Device, native.Bytes(native.Locator(gets, 0), now.bytes), NoAdvice, before.Advice)",
            "true", mode=ADVICE,
        ),
        Mutant(
            "half-told", "advice that is refused leaves the driver with half of it",
            "context.Advise", "_ = c.advise(ordinal, memory, before)", "", mode=ADVICE,
        ),
        Mutant(
            "prepared-by-halves", "a change that is in the journal can fail for want of what it covers in part",
            "prepare", "r.bringFor(index, both, runs)", "error(nil)", mode=JOURNALED,
        ),
        Mutant(
            "passing-copy-stays", "a page keeps a copy on the host of which nobody knows",
            "Residency.changed", "r.dropPair(index)", "", mode=WATCHED,
        ),
        Mutant(
            "passing-change-lost", "what a watched change has changed does not come to the device",
            "Residency.changed", "r.flush(index, p)", "error(nil)", mode=WATCHED,
        ),
        Mutant(
            "moves-the-page", "a watched change brings the whole page",
            "prepare", "both.passing, both.exact = true, raw",
            "both.passing, both.exact = true, raw\n_ = r.bring(index, both, 0, uint64(len(both.device))*64)",
            mode=WATCHED,
        ),
        Mutant(
            "work-not-awaited", "a call does not wait for a program's work on a page",
            "context.Await", "gpu.Await(access, handles...)", "error(nil)\n_ = access", mode=USES,
        ),
        Mutant(
            "readers-not-awaited", "a call writes a page that a program's work still reads",
            "context.Await", "access = gpu.ReadWrite", "", mode=USES,
        ),
        Mutant(
            "use-of-old-bytes", "a program's work begins before the device has what is newer on the host",
            "Page.Block", "case use:", "case false:", mode=USES,
        ),
        Mutant(
            "shared-not-asked", "a page in pinned or managed memory that kernels use counts as resident",
            "Page.sharedBlock", "p.State |= native.Nonresident", "", mode=SHARED,
        ),
        Mutant(
            "shared-not-awaited", "a call has the bytes of such a page before kernels have written them",
            "Residency.awaitDevice", "r.devices.AwaitHost(of.Location, DeviceMemory{of.Device, region.Base(number), of.block})",
            "error(nil)\n_ = of", mode=SHARED,
        ),
        Mutant(
            "given-back-in-use", "such memory is another page's while kernels still write it",
            "context.FreeHost", "c.Await(true, memory)", "error(nil)", mode=SHARED,
        ),
        Mutant(
            "host-beside-device", "the host touches managed memory beside a device that does not allow it",
            "context.AwaitHost", "info.Uses > 0", "false", mode=SHARED,
        ),
        Mutant(
            "lost-with-the-device", "a page that a lost device had only read is lost, too",
            "context.AwaitHost", "return c.Await(false, memory)", "return err", mode=SHARED,
        ),
        Mutant(
            "kept-block", "a page with a block is another one's, with the block, when it has other memory",
            "context.FreeHost", "gpu.FreeOwned(memory.Block)", "error(nil)", mode=SHARED,
        ),
        Mutant(
            "pin-stays", "a page stays pinned when its use ends",
            "PinBlock", "pinned.End = func() { native.Unpin(page, write) }", "", mode=USES,
        ),
        Mutant(
            "use-outlives-context", "a use goes on when the context of its page ends",
            "context.End", "gpu.EndUsesOf(residency.Devices(c))", "", mode=USES,
        ),
        Mutant(
            "adopted-stream-ignored", "an adoption does not look at the stream that writes the memory",
            "context.Adopt", "d.runtime.Drain(stream)", "error(nil)", mode=ADOPTED,
        ),
        Mutant(
            "adopted-not-loaded", "a load does not write into adopted memory of a device",
            "Page.WriteThrough", "!b.onDevice()", "true", mode=ADOPTED,
        ),
        Mutant(
            "exact-change-moves-more", "a watched change writes whole ranges over what others write there",
            "Residency.flush", "p.exact", "false", mode=ADOPTED,
        ),
        Mutant(
            "passing-copy-lost", "what a call has changed in a copy that passes goes with the copy",
            "Residency.lent", "p.runs = append(p.runs, delta.FromPages(was, is).Runs...)", "", mode=REFUSED,
        ),
        Mutant(
            "loss-goes-on", "a page goes on without the bytes that only the lost device had",
            "Lost", "both.newer(both.device, 0,", "both.newer(nil, 0,", mode=FALLBACK,
        ),
        Mutant(
            "address-forgotten", "a page goes on without what was written through its address on the lost device",
            "Lost", "both == nil || both.rawOnDevice(p.Record)", "both == nil", mode=FALLBACK,
        ),
        Mutant(
            "loss-untold", "nobody looks after the pages of a lost device",
            "context.met", "d.lost.Do(func() { c.lost(ordinal) })", "", mode=FALLBACK,
        ),
        Mutant(
            "lost-device-serves", "new pages are to lie on the lost device",
            "context.Check", "d.runtime.Lost()", "false", mode=NO_FALLBACK,
        ),
        Mutant(
            "error-falls-back", "pages move though the context has no fallback",
            "goOn", "c.context.fallback == abi.FallbackError", "false", mode=FALLBACK,
        ),
        Mutant(
            "sync-waits-for-the-walk", "a sync leaves its pages on the device that it found lost",
            "syncing.run", "if s.lost {", "if false {", mode=FALLBACK,
        ),
        Mutant(
            "waits-on-a-lost-device", "a page that waits in a snapshot can only go to its device",
            "place", "return p.Resolve(at.Location, at.Device)", "return at, nil", mode=FALLBACK,
        ),
        Mutant(
            "old-bytes-compared", "what is newer on the host is not in what devices look at",
            "there", "_, err := r.newest(index)", "_, err := index, error(nil)", mode=KERNELS,
        ),
        Mutant(
            "copied-to-compare", "pages of one device are compared on the host",
            "there", "sum.there > sum.here", "sum.here > sum.there", mode=KERNELS,
        ),
        Mutant(
            "pieces-joined-wrong", "the checksum of a page above 4 KiB is that of another order",
            "context.Checksums", "to-(end-1)*summedBytes", "summedBytes", mode=KERNELS,
        ),
        Mutant(
            "first-wins", "of what two pages propagate the first one's is kept",
            "lastOf", "bits &^ taken[at]", "bits", mode=KERNELS,
        ),
        Mutant(
            "drained-too-early", "a command of a drain is done when it is posted",
            "device.byDrain", "!box.IsDone(); look++", "look < 2; look++", mode=DRAIN,
        ),
        Mutant(
            "large-commands-drained", "one block copies a large command",
            "context.Propagate", "what.copies <= drainedBytes &&", "", mode=DRAIN,
        ),
        Mutant(
            "run-of-two-bytes", "a run over two bytes of a mask counts as two",
            "countRuns", "before = of >> 7", "before = 0", mode=KERNELS,
        ),
        Mutant(
            "last-run-open", "a run up to the end of a page is not propagated",
            "eachRun", "if open {", "if open && begin == 0 {", mode=KERNELS,
        ),
        Mutant(
            "last-granule-only", "of a chunk on a device only the last granule that has changed is saved",
            "toldChunk", "changed |= 1 << i", "changed = 1 << i", mode=SAVES,
        ),
        Mutant(
            "moment-forgotten", "a save takes what the device has now for what it had at the moment",
            "largePage.ask", "return l.told[number]", "return true", mode=SAVES,
        ),
        Mutant(
            "copied-all-the-same", "a save copies chunks of a device that are as they were",
            "toldChunk", "sum == l.before[number] && sum != 0", "false", mode=SAVES,
        ),
        Mutant(
            "stale-preparation", "a change goes to the host's copy while the program has the device's address",
            "Residency.DeviceAddress", "both.out, both.prepared = true, false", "both.out = true", mode=REFUSED,
        ),
        Mutant(
            "stale-copy", "a change goes to a copy that was to pass, but stays",
            "Residency.keep", "p.prepared, p.passing, p.exact, p.runs = false, false, false, nil",
            "p.passing, p.exact, p.runs = false, false, nil", mode=REFUSED,
        ),
        Mutant(
            "replica-outlives-writes", "work reads a replica of what the page was before a write",
            "Page.current", "one.version == p.Record.Version", "true",
        ),
        Mutant(
            "replica-beside-a-writer", "a page that is pinned to write has replicas",
            "changing", "p.Record.WritePins > 0", "false", mode=REPLICAS,
        ),
        Mutant(
            "replica-beside-an-address", "a page whose address was given out for good has replicas",
            "changing", "p.Record.Exposed == exposedForGood", "false", mode=REPLICAS,
        ),
        Mutant(
            "replica-of-another-page", "a replica of a page that has ended stays",
            "replaced.end", "r.context.residency.DropReplicasOfEnded()", "", mode=REPLICAS,
        ),
        Mutant(
            "replica-of-older-bytes", "a replica lacks what is newer on the host",
            "Page.CopyBytes", "err := p.flush(p.Index, both)", "err := error(nil)", mode=REPLICAS,
        ),
        Mutant(
            "replica-freed-in-use", "the memory of a replica goes while work reads it",
            "ShareReplica", "p.devices.Share(one.memory) != nil", "false", mode=REPLICAS,
        ),
        Mutant(
            "replica-shared-for-good", "the memory of a replica that work has read never goes",
            "PinBlock", "pinned.Of.Free(memory)", "", mode=REPLICAS,
        ),
        Mutant(
            "first-used-first", "a device that lacks memory drops what was used last",
            "replicas.all", "cmp.Compare(a.used, b.used)", "cmp.Compare(b.used, a.used)", mode=REPLICAS,
        ),
        Mutant(
            "replicas-stay", "no device gets the memory of replicas",
            "context.OnLack", "d.lent = d.runtime.Lend(giveBack)", "_ = d", mode=REPLICAS,
        ),
        Mutant(
            "lost-beside-a-replica", "a page whose replica has all its bytes counts as lost",
            "Page.Lost", "len(p.current()) > 0", "false", mode=REPLICAS,
        ),
        Mutant(
            "read-from-the-lost", "a page whose device is lost is read there, though a replica has it",
            "instead", "list[0].backing(), status.CodeOf", "p.backing(), status.CodeOf", mode=REPLICAS,
        ),
    ),
)  # fmt: skip

FOUND_AGAIN = "^(TestPairsAreFoundAgain|TestWhatIsKnownIsFoundAgain)$"

PAIRS = Go(
    name="pairs",
    folders=("core/residency",),
    package="core/residency",
    mode=FOUND_AGAIN,
    sound=(FOUND_AGAIN,),
    mutants=(
        Mutant(
            "table-looks-empty", "of what is known of other pages nothing is found when that of one goes",
            "table.take", "t.some.Store(len(t.of) > 0)", "t.some.Store(false)",
        ),
        Mutant(
            "pairs-look-empty", "of what is known of other pages in two places nothing is found when that of one goes",
            "pairTable.take", "t.some.Store(len(t.chunks) > 0)", "t.some.Store(false)",
        ),
        Mutant(
            "chunk-goes-too-soon", "what is known of a page's neighbours in two places goes with it",
            "pairTable.take", "chunk.count == 0", "true",
        ),
        Mutant(
            "one-chunk", "what is known of pages in two places is looked for in one chunk only",
            "pairTable.getAll", "i == 0 || number != indices[i-1]>>pairChunkBits", "i == 0",
        ),
    ),
)  # fmt: skip
