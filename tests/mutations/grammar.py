"""Bugs in readers of files: checks that are left out, and readers that differ. Lying files must show each, within the short form
of the tests of cmd/mmsb/internal/files."""

from mutation import Mutant
from subject import Go

SNAPSHOTS = "^TestReadersOfSnapshotsAgree$"

GRAMMAR = Go(
    name="grammar",
    folders=("core/snapshot", "core/persist"),
    package="cmd/mmsb/internal/files",
    mode=SNAPSHOTS,
    sound=(SNAPSHOTS,),
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
            "removal-of-another-page", "what goes on behind a list of removed pages is lost",
            "Snapshot.collect", "list[last].what |=", "list[max(last, len(list)-1)].what |=",
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
    ),
)  # fmt: skip
