"""Bugs in what readers look at in snapshot files: a lie that one of them takes.

Each lie of core/snapshot/snapshottest must be refused by all.
"""

from mutation import Mutant
from subject import Go

LIES = "^TestAllReaders|^TestDependencies|^TestTheReaderInTheDocumentsAgrees$|^TestHoles"

FILES = Go(
    name="files",
    folders=("core/attribute", "core/snapshot"),
    package="core/snapshot",
    mode=LIES,
    sound=(LIES,),
    mutants=(
        Mutant(
            "walks-take-ids-twice", "a walk over all segments does not look whether an id comes twice",
            "walk.volume", "number == len(w.s.volumes)-1", "false",
        ),
        Mutant(
            "dependencies-are-taken", "nobody looks at the dependencies together",
            "Snapshot.sequence", "number == 0 &&", "number < 0 &&",
        ),
        Mutant(
            "dependencies-twice", "a dependency may come twice",
            "graph.check", "case pair == pairs[at-1]:", "case false:",
        ),
        Mutant(
            "dependencies-in-a-cycle", "dependencies may make a cycle",
            "graph.withoutCycle", "if left == 0 {", "if left >= 0 {",
        ),
        Mutant(
            "edges-of-the-rest", "a child is not waited for any more when one of its parents is done",
            "graph.withoutCycle", "waitsFor[child] == 0", "true",
        ),
        Mutant(
            "compact-copies-all", "compact copies what cannot be decompressed, and metadata that is not valid",
            "Snapshot.CompactTo", "Everything: true", "Everything: false",
        ),
        Mutant(
            "offsets-are-believed", "a table is read into memory before anybody has looked at it",
            "volume.readOffsets", "const most = 1 << 17", "const most = 1 << 40",
        ),
        Mutant(
            "entries-are-believed", "there is room for as many pages as a file says it has",
            "volume.claimed", "min(count, v.held/each)", "min(count, 1000*v.held/each)",
        ),
        Mutant(
            "any-position", "a position may be near 2^64",
            "decodeHeader", "h.Position > lineage.MaximumPosition ||", "false ||",
        ),
        Mutant(
            "any-version", "a version may be near 2^64",
            "volume.pageFault", "page.Version > attribute.MaximumVersion", "false",
        ),
        Mutant(
            "any-device", "a page of the host may have a device",
            "PlaceFault", "device < 0 || device > 0 &&", "device < 0 || false &&",
        ),
        Mutant(
            "any-node", "a NUMA node may be any number",
            "PlaceFault", "numaNode < -1", "false",
        ),
        Mutant(
            "its-own-base", "a file may have itself as its base",
            "decodeHeader", "h.Base == h.ID", "false",
        ),
        Mutant(
            "keys-without-room", "an entry may have more metadata keys than the metadata has room for",
            "sequence.complete", "leastMetadata+leastKey*uint64(page.MetadataCount)", "0",
        ),
    ),
)  # fmt: skip

FAR = "^TestWhatGoesOnFromAFarFileIsRead$"

FAR_FILES = Go(
    name="far-files",
    folders=("core/persist", "core/page"),
    package="core/persist",
    mode=FAR,
    sound=(FAR,),
    mutants=(
        Mutant(
            "far-versions-are-taken", "pages keep versions of a file that are near the largest",
            "Staging.Commit", "version < farVersion", "true",
        ),
        Mutant(
            "far-positions-are-taken", "a context goes on from a position that is near the largest",
            "loader.remember", "l.line.At(l.position).Far()", "false",
        ),
    ),
)  # fmt: skip

KEYS = "^TestPiecesAreLikeTheWhole$|^TestManyKeysTakeLittleMemory$"

KEYS_OF_METADATA = Go(
    name="metadata-keys",
    folders=("core/metadata",),
    package="core/metadata",
    mode=KEYS,
    sound=(KEYS,),
    mutants=(
        Mutant(
            "set-of-keys-grows", "the set of keys never lets go of any",
            "keySet.add", "2*len(k.slots) <= most", "most > 0",
        ),
        Mutant(
            "other-keys-are-not-looked-at", "keys that the set let go of are never looked at",
            "keySet.nextRange", "!k.begun || k.to == math.MaxUint64", "true",
        ),
        Mutant(
            "runes-end-with-the-piece", "a rune that goes on in the next piece is not looked at",
            "Validator.isText", "v.partial = copy(v.rune[:], last)", "v.partial = 0",
        ),
    ),
)  # fmt: skip

TORN = "^TestATornEndIsReadOnce$|^TestChecksumsOfAnyPart$"
BESIDE = "^TestASegmentBecomesShorter|^TestFramesAreWritten|^TestATail|^TestReadersShareTheRing$"

KNOWN = "^TestAWriter"
ROTATED = "^TestRotate"
NEXT_WRITERS = Go(
    name="next-writers",
    folders=("core/journal",),
    package="core/journal",
    mode=KNOWN,
    sound=(KNOWN, ROTATED),
    mutants=(
        Mutant(
            "copies-are-the-same", "a writer goes on behind what was read of another copy",
            "Journal.look", "err == nil && try.info.Last >= known.last", "err == nil",
        ),
        Mutant(
            "known-is-not-looked-at", "what a replay has read is read again",
            "Journal.look", "known != nil && known.segment == last.segment", "known == nil && last == nil",
        ),
        Mutant(
            "rotated-within-a-group", "a segment ends within a group, because the state is saved",
            "Writer.canRotate", "!w.within", "true",
            mode=ROTATED,
        ),
        Mutant(
            "rotated-where-nothing-is", "a segment without records is followed by another",
            "Writer.canRotate", "w.last >= w.begins", "true",
            mode=ROTATED,
        ),
        Mutant(
            "no-space-to-rotate", "a journal that could go on fails because there is no space for a new segment",
            "Writer.rotate", "return w.begin(w.last)",
            "if err := w.begin(w.last); err != nil {\n\t\treturn w.fail(err)\n\t}\n\treturn nil",
            mode=ROTATED,
        ),
    ),
)  # fmt: skip


TORN_ENDS = Go(
    name="torn-ends",
    folders=("core/journal",),
    package="core/journal",
    mode=TORN,
    sound=(TORN, BESIDE),
    mutants=(
        Mutant(
            "frames-at-the-end-are-not-looked-at", "a frame that ends with the window is never looked at",
            "durableSearch.look", "c.end > read", "c.end >= read",
        ),
        Mutant(
            "frames-are-believed", "the head of a frame is enough",
            "durableSearch.look", "d.sums.behind(c.first, unit(c.behind), unit(c.end)) == c.crc", "unit(c.end) > 0",
        ),
        # Beside a writer.
        Mutant(
            "written-since-is-damaged", "a frame that was completed while what lies behind it was looked at is damaged",
            "Journal.scan", "stopped == torn && wasDurable", "wasDurable",
            mode=BESIDE,
        ),
        Mutant(
            "cut-since-is-damaged", "a file from which its writer has cut zeros is damaged",
            "cutSince", "info.Size < size", "false",
            mode=BESIDE,
        ),
        Mutant(
            "tail-finds-no-damage", "a follower waits for ever for a frame that is damaged",
            "Tail.lookAtTorn", "wasDurable && !grown && err == nil", "wasDurable && grown && err == nil",
            mode=BESIDE,
        ),
        Mutant(
            "tail-finds-damage-early", "a follower takes a frame that was completed meanwhile for damaged",
            "Tail.lookAtTorn", "wasDurable && !grown && err == nil", "wasDurable",
            mode=BESIDE,
        ),
        Mutant(
            "long-groups-never-come", "a follower does not look beyond 4 MiB for the end of a group",
            "Tail.read", "s.size = ours.Size", "_ = ours",
            mode=BESIDE,
        ),
        Mutant(
            "pieces-twice", "a follower that begins within pieces takes what follows twice",
            "Tail.rewind", "t.at = t.journal.beginning(0)", "_ = t.journal.scan(t.at, toTheEnd, t.player.frame)",
            mode=BESIDE,
        ),
        Mutant(
            "tail-misses-segments", "a follower goes on with whatever segment comes next",
            "Tail.Poll", "s.first != t.at.next || s.before != t.at.next-1 || s.previous != t.at.chain", "false",
            mode=BESIDE,
        ),
        Mutant(
            "readers-keep-each-other-out", "a reader of a ring takes another one for its writer",
            "Journal.ringBuffers", "file.File.LockShared", "file.File.Lock",
            mode=BESIDE,
        ),
    ),
)  # fmt: skip

RINGS = "^TestATail|^TestARing|^TestABuffer|^TestRingsThatLie$|^TestSegmentsThatAreFollowed$"
FOLLOWED_RINGS = Go(
    name="followed-rings",
    folders=("core/journal",),
    package="core/journal",
    mode=RINGS,
    sound=(RINGS,),
    mutants=(
        Mutant(
            "taken-while-read", "a buffer that has got other records meanwhile is read as if it had not",
            "ringTail.groups", "|| r.firstOf(r.buffer) != r.first", "",
        ),
        Mutant(
            "given-away-unseen", "a buffer that has no more marks is waited for, though other records have it",
            "ringTail.more", "r.firstOf(r.buffer) != r.first", "false",
        ),
        Mutant(
            "beyond-a-hole", "what lies behind a call that died in the middle is read under its old numbers",
            "ringTail.find", "r.first != 0 && first != r.next", "false",
        ),
        Mutant(
            "within-a-great-group", "a group is read whose end may never come",
            "ringTail.groups", "!finding && head.kind != Group && head.flags&More != 0", "false && head.kind == Group",
        ),
        Mutant(
            "rings-of-others", "a ring is read that the system's last start has left",
            "ringTail.lookAtHead", "!bytes.Equal(head[40:76], bootID()) ||", "",
        ),
        Mutant(
            "rings-of-another-lineage", "a ring of another lineage is read",
            "ringTail.lookAtHead", "!bytes.Equal(head[24:40], id[:]) ||", "id == [16]byte{} ||",
        ),
        Mutant(
            "copied-rings", "a ring is read that is not the file which its writer has mapped",
            "ringTail.lookAtHead", "says != inodeOf{info.Device, info.Inode} || says != r.is ||", "",
        ),
        Mutant(
            "shown-everywhere", "a ring is shown whose content a read of the file does not give",
            "ShowRing", "|| !bytes.Equal(read, says)", "",
        ),
        Mutant(
            "twice-behind-a-ring", "what came out of the ring comes again from the segments",
            "Tail.Poll", "if t.behind {", "if false {",
        ),
        Mutant(
            "lost-unseen", "a follower stays at records that the disk has lost",
            "Tail.Poll", "t.unsure && t.source != t.ring.is", "false",
        ),
        Mutant(
            "others-unseen", "a follower goes on behind other records of the same numbers",
            "Tail.frame", "of != t.print", "of == (print{})",
        ),
        Mutant(
            "another-ring-at-once", "a ring counts before the segments have what came out of the one before",
            "Tail.readRing", "|| t.source != t.ring.is && (t.behind || t.unsure)", "",
        ),
        Mutant(
            "cut-unseen", "a follower waits for ever behind the end of a segment that was cut",
            "Tail.read", "s.size < t.at.offset", "false",
        ),
        Mutant(
            "followed-past-the-cache", "who comes too late for the ring must read the disk, since nobody says that it is read",
            "ringTail.look", "|| f.LockShared() != nil", "",
        ),
        Mutant(
            "groups-that-do-not-end", "a group of a ring is taken that does not say that it ends",
            "recordsOf", "whole && goesOn == (len(group) == 0)", "whole && goesOn && len(group) < 0",
        ),
    ),
)  # fmt: skip

STEPS = "^TestBuildingIsLikeChanging$"

BUILT_GRAPHS = Go(
    name="built-graphs",
    folders=("core/graph",),
    package="core/graph",
    mode=STEPS,
    sound=(STEPS,),
    mutants=(
        Mutant(
            "edges-are-built-twice", "an edge that is there comes again",
            "Builder.Add", "b.at[ends] == 0", "true",
        ),
        Mutant(
            "cycles-are-built", "nobody finds a cycle",
            "Graph.Check", "!done[node]", "false",
        ),
    ),
)  # fmt: skip

CLEARS = "^TestManyMaskClearsOfALargePageAreReplayed$"

MASK_CLEARS = Go(
    name="mask-clears",
    folders=("core/persist",),
    package="core/persist",
    mode=CLEARS,
    sound=(CLEARS,),
    mutants=(
        Mutant(
            "a-mask-is-cleared-once", "a mask that was marked again counts as clear",
            "replay.clearMask", "!known || before != p.Record.Version", "!known || before == 0",
        ),
    ),
)  # fmt: skip

PLAIN = "^TestHiddenCharactersAreWritten$"

PLAIN_TEXTS = Go(
    name="plain-texts",
    folders=("core/status",),
    package="core/status",
    mode=PLAIN,
    sound=(PLAIN,),
    mutants=(
        Mutant(
            "bytes-that-are-no-text-stay", "bytes that are not UTF-8 stay in an error's text",
            "Plain", "r == utf8.RuneError && size == 1", "false",
        ),
        Mutant(
            "control-characters-stay", "control characters stay in an error's text",
            "Plain", "strings.IndexFunc(text, hidden) < 0", "true",
        ),
    ),
)  # fmt: skip

CHAINS = "^TestAChainIsNotLongerThanItsBound$|^TestALongChainNeedsFewDescriptors$"

LONG_CHAINS = Go(
    name="long-chains",
    folders=("core/persist",),
    package="core/persist",
    mode=CHAINS,
    sound=(CHAINS,),
    mutants=(
        Mutant(
            "chains-have-no-bound", "a chain may have any number of files",
            "SaveOptions.withoutUsedBase", "len(chain) >= int(cmp.Or(o.ChainLimit, defaultChain))", "false",
        ),
        Mutant(
            "chain-limit-is-ignored", "a chain has the usual bound, whatever the save asks for",
            "SaveOptions.withoutUsedBase", "cmp.Or(o.ChainLimit, defaultChain)", "defaultChain",
        ),
        Mutant(
            "chains-are-one-longer", "a chain has one file more than the save asks for",
            "SaveOptions.withoutUsedBase", "len(chain) >=", "len(chain) >",
        ),
    ),
)  # fmt: skip

PARKED = "Parked"

PARKED_FILES = Go(
    name="parked-files",
    folders=("core/file",),
    package="core/file",
    mode=PARKED,
    sound=(PARKED,),
    mutants=(
        Mutant(
            "another-file-is-read", "a parked file is read from whatever has its path",
            "parked.open", "info.Device != p.device || info.Inode != p.inode", "info.Device != p.device",
        ),
        Mutant(
            "parked-file-stays-open", "a parked file keeps its descriptor",
            "Park", "_ = o.Close()", "",
        ),
        Mutant(
            "parked-file-is-opened-and-stays", "each read of a parked file leaves a descriptor open",
            "parked.Pread", "defer func() { _ = f.Close() }()", "",
        ),
        Mutant(
            "parked-path-is-relative", "a parked file is looked for in the folder that the process is in",
            "Park", "path: Absolute(o.path)", "path: o.path",
        ),
        Mutant(
            "parked-through-the-cache", "a parked file is read through the page cache",
            "parked.Reopen", "again.flags = flags", "",
        ),
        Mutant(
            "parked-file-is-not-mapped", "a mapping of a parked file is a copy of what is read",
            "Map", "if f.Descriptor() >= 0 {", "if _, ok := o.file.(*parked); !ok && f.Descriptor() >= 0 {",
        ),
    ),
)  # fmt: skip

ORIGINAL = "OfTheOriginal$"

ORIGINAL_FILES = Go(
    name="original-files",
    folders=("core/snapshot",),
    package="core/snapshot",
    mode=ORIGINAL,
    sound=(ORIGINAL,),
    mutants=(
        Mutant(
            "segments-without-end", "a range of a file of version 2 takes what belongs to the next one",
            "volume.originalTable", "place == next", "place == next && false",
        ),
        Mutant(
            "extents-of-the-segment-before", "a range has the extents of its first page that the one before has",
            "volume.originalTable", "place.extent < s.first.extent", "false",
        ),
        Mutant(
            "segments-begin-anywhere", "a range does not begin at a whole unit",
            "volume.cover", "at/unitBytes*unitBytes", "at",
        ),
        Mutant(
            "segments-do-not-grow-forward", "a range does not reach what lies before the bytes of its page",
            "volume.cover", "min(s.offset, from)", "s.offset",
        ),
        Mutant(
            "segments-are-too-long", "a range is longer than a segment may be",
            "volume.cover", "end-begin <= SegmentBytes", "end-begin <= 2*SegmentBytes",
        ),
        Mutant(
            "places-do-not-count", "extents of a page have the same number",
            "originalReader.extents", "place.extent++", "",
        ),
    ),
)  # fmt: skip
