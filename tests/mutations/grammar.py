"""Bugs in readers of files: checks that are left out, and readers that differ. Lying files must show each, within so many of
the short form of the tests of cmd/mmsb/internal/files, which does not depend on what else the machine does."""

from mutation import Mutant
from subject import Go

SNAPSHOTS = "^TestReadersOfSnapshotsAgree$ -files=8000"
VERSION2 = "^TestReadersOfVersion2Agree$ -files=500"
JOURNALS = "^TestReadersOfJournalsAgree$ -files=2000"
LEDGERS = "^TestReadersOfLedgersAgree$ -files=500"

GRAMMAR = Go(
    name="grammar",
    folders=("core/snapshot", "core/persist", "core/journal", "cmd/mmsb/internal/replay", "gpu/runtime"),
    package="cmd/mmsb/internal/files",
    mode=SNAPSHOTS,
    sound=(SNAPSHOTS, VERSION2, JOURNALS, LEDGERS),
    mutants=(
        Mutant(
            "reserved-field-free", "a reserved field of a page's entry may have any value",
            "volume.pageFault", "page.Reserved != 0", "false",
        ),
        Mutant(
            "extents-of-nobody", "a segment may have extents that belong to no page",
            "volume.checkPages", "next != uint64(len(t.extents))", "false",
        ),
        Mutant(
            "counts-not-compared", "the numbers of the footer are not compared",
            "sequence.finish", "q.counts.Edges != want.Edges", "false && q.counts.Edges != want.Edges",
        ),
        Mutant(
            "other-snapshots-segment", "a segment of another snapshot is taken",
            "volume.parse", "ID(raw[16:32]) != v.header.ID", "false",
        ),
        Mutant(
            "gone-pages-return", "what newer files remove, and have nothing else of, comes back with the oldest one",
            "walk.part", "if gone || slices", "if gone && w.s == nil || slices",
        ),
        Mutant(
            "new-pages-are-removed", "a page in the place of one that the same file removes is removed, too",
            "Snapshot.addRemoved", "case !replaced:", "case !replaced || list != nil:",
        ),
        Mutant(
            "lazy-mask-lost", "a page that waits in the file loses its mask",
            "noteTables", "extent.Kind != snapshot.KindBytes", "extent.Kind == snapshot.KindMetadata",
        ),
        Mutant(
            "lazy-not-verified", "the checksum of what is read late is not looked at",
            "Snapshot.readPiece",
            "err := v.checkStored(id, &piece.Extent, stored, piece.base); err != nil", "err := error(nil); err != nil",
        ),
        Mutant(
            "compacted-changes-lost", "compaction has of a chunk only what comes first",
            "compaction.compose", "page.ID, KindBytes, group, nil)", "page.ID, KindBytes, group[:1], nil)",
        ),
        Mutant(
            "compacted-mask-lost", "compaction leaves masks of pages in several files out",
            "compaction.together", "piece := &pieces[len(bytes)+number]",
            "piece := &pieces[len(bytes)+number]; if piece.Kind == KindMask { continue }",
        ),
        Mutant(
            "base-of-any-id", "any file with the name of the base is the base",
            "Snapshot.openBase", "if base.header.ID != of.header.Base {", "if false {",
        ),
        Mutant(
            "size-not-compared", "in version 2 a page's size may be another than the length of its data",
            "originalReader.page", "length != page.Size || length == 0", "length == 0",
            mode=VERSION2,
        ),
        Mutant(
            "bytes-behind-the-pages", "a file of version 2 may go on behind its last page",
            "openOriginal", "o.at != v.totals.FileBytes", "false",
            mode=VERSION2,
        ),
        Mutant(
            "length-of-a-record", "a replay does not compare a record's length with what its frame has",
            "player.frame", "err := checkLength(sequence, left); err != nil", "err := error(nil); err != nil",
            mode=JOURNALS,
        ),
        Mutant(
            "group-in-the-middle", "a group that is not whole may begin anywhere in a frame",
            "checkBegins", "group <= f.first", "true",
            mode=JOURNALS,
        ),
        Mutant(
            "tool-crosses-gaps", "the tool goes on behind a step that was not recorded",
            "Journal.CheckGaps", "s.first > after+1", "false",
            mode=JOURNALS,
        ),
        Mutant(
            "tool-misses-nothing", "the tool passes over records of pages that the state does not have",
            "State.misses", "!noted", "false && !noted",
            mode=JOURNALS,
        ),
        Mutant(
            "arguments-of-a-record", "what is wrong with a record is told like an argument of the call",
            "asDamage", "status.CodeOf(err)", "status.Code(0 * int32(status.CodeOf(err)))",
            mode=JOURNALS,
        ),
        Mutant(
            "parent-of-nothing", "a journal may begin behind a position of no lineage",
            "decodeSegment", "s.lineage.Parent.Lineage == lineage.ID{} && s.lineage.Parent.Position != 0", "false",
            mode=JOURNALS,
        ),
        Mutant(
            "groups-of-one", "a group of the ring is its first record",
            "groupBytes", "head.kind == Group &&", "head.kind == 0 &&",
            mode=JOURNALS,
        ),
        Mutant(
            "ring-beside-its-writer", "a reader takes the ring of a process that lives",
            "Journal.ringBuffers", "err == syscall.EWOULDBLOCK", "false",
            mode=JOURNALS,
        ),
        Mutant(
            "gap-without-records", "a replay ends before a gap as if nothing came behind it",
            "Replay.Run", "err = j.CheckGaps(after, p.last, until)", "err = nil",
            mode=JOURNALS,
        ),
        Mutant(
            "edges-of-pages-to-come", "the tool takes dependencies of pages that the snapshot does not have",
            "State.Apply", "s.edges.removePage(r.Page)\n if r.Kind", "if r.Kind",
            mode=JOURNALS,
        ),
        Mutant(
            "oldest-base-first", "a directory's oldest base is the one that a replay begins with",
            "FindBase", "if oldest {", "if !oldest {",
            mode=JOURNALS,
        ),
        Mutant(
            "first-pieces-forgotten", "a replay takes the rest of a body for the body, where the state lies between its pieces",
            "player.frame", "err == nil && goesOn {", "goesOn = false; err == nil && goesOn {",
            mode=JOURNALS,
        ),
        Mutant(
            "piece-of-another-page", "a body goes on with the bytes of another page",
            "assembler.add", "head.page != a.head.page", "false",
            mode=JOURNALS,
        ),
        Mutant(
            "end-within-a-group", "a replay does not end before a group whose next frame is behind its end",
            "player.groupEnds", "more = !p.until.passed(sequence, head)", "more = true",
            mode=JOURNALS,
        ),
        Mutant(
            "time-of-the-end", "a replay until a time ends before what was recorded then",
            "Until.passed", "head.time > u.Time", "head.time >= u.Time",
            mode=JOURNALS,
        ),
        Mutant(
            "tool-reads-to-the-end", "the tool refuses a journal for damage behind the end of a replay",
            "Options.find", "if err == nil && !ends {", "if err == nil { _, err = log.Last() }\n if err == nil && !ends {",
            mode=JOURNALS,
        ),
        Mutant(
            "ledger-cut-short", "the length of a ledger is not looked at while it is open",
            "SharedLedger.read", "case err == io.EOF:", "case err == io.EOF && n == 0:",
            mode=LEDGERS,
        ),
        Mutant(
            "ledger-of-any-length", "a ledger may be longer than it is",
            "SharedLedger.begin", "case info.Size() != ledgerBytes && l.begins():",
            "case info.Size() > ledgerBytes: case info.Size() != ledgerBytes && l.begins():",
            mode=LEDGERS,
        ),
    ),
)  # fmt: skip
