"""Bugs in loads of snapshots: in what is read at once, later and from which file.

Files that are divided anywhere, loaded in every way, must show each.
"""

from mutation import Mutant
from subject import Go

TWICE = "^TestAPageTwiceUnderANewerFile$"
ADOPTED = "^TestALoadGoesIntoAdoptedMemory$"
FAILING = "^TestADiskThatFailsBehindTheVerification$"
DAMAGED = "^TestDamageIsToldWithThePage$"
NAMED = "^TestALoadThatNamesItsSnapshot$|^TestARefusedLoadClosesItsFile$"
CANCELLED = "^TestACancelledLoadInPlaceFillsAllOrNothing$"

LOADS = Go(
    name="loads",
    folders=("core/page", "core/persist", "core/residency", "core/snapshot"),
    package="core/persist",
    mode="^TestEveryWayOfLoadingForeignChains$|^TestLongMetadataIsReadOnce$",
    sound=(
        "^TestEveryWayOfLoadingForeignChains$|^TestLongMetadataIsReadOnce$",
        TWICE,
        f"{ADOPTED}|{FAILING}|{CANCELLED}",
        DAMAGED,
        NAMED,
    ),
    mutants=(
        Mutant(
            "twice-below",
            "a page that is twice in the oldest file is not seen where a newer file removes it",
            "walk.volume",
            "if o.DistinctLater {",
            "if false {",
            mode=TWICE,
        ),
        Mutant(
            "any-file",
            "a load takes any snapshot that has the path",
            "LoadOptions.expects",
            "id != o.Snapshot",
            "false",
            mode=NAMED,
        ),
        Mutant(
            "refused-and-open",
            "a load that is refused leaves its file open",
            "state.loadOnce",
            "if opened != nil {",
            "if false {",
            mode=NAMED,
        ),
        Mutant(
            "started-pages-wait",
            "a page of which a part came counts as one that waits in the file",
            "stageLazy",
            "ok && index != readNow",
            "ok",
        ),
        Mutant(
            "waiting-pages-are-read",
            "pages that wait in the file are read all the same",
            "stageLazy",
            "return index == readNow",
            "return index == readNow || true",
        ),
        Mutant(
            "mask-of-waiting-page-lost",
            "of a page that waits only the metadata is read",
            "noteTables",
            "case extent.Kind != snapshot.KindBytes:",
            "case extent.Kind == snapshot.KindMetadata:",
        ),
        Mutant(
            "first-part-is-all",
            "the first part of metadata is taken for all of it",
            "loader.beside",
            "extent.Length == snapshot.Chunk",
            "false",
        ),
        Mutant(
            "metadata-read-for-each-part",
            "metadata is read again for each of its parts",
            "postpone",
            "extent.Offset == 0",
            "true",
        ),
        Mutant(
            "newer-bytes-ignored",
            "bytes of an older file come over those of a newer one",
            "rest",
            "covered := w.covered.ranges",
            "covered := w.covered.ranges[:0]",
        ),
        Mutant(
            "memory-stays-in-use",
            "a page waits in memory of the caller, who uses it for something else",
            "loadInto",
            "source.memory != nil",
            "false",
        ),
        Mutant(
            "damaged-copies-count",
            "nobody looks which copy has another checksum than the file says",
            "loader.fill",
            "bad < len(parts)",
            "false",
            mode=DAMAGED,
        ),
        Mutant(
            "damage-of-another-page",
            "damage to the last part of a page is looked for in the next one",
            "damaged",
            ">= segment.Pages[entry].Extents",
            "+1 >= segment.Pages[entry].Extents",
            mode=DAMAGED,
        ),
        # In place, into adopted memory.
        Mutant(
            "adopted-page-waits-on",
            "a page whose bytes came into adopted memory still waits in the file",
            "HandOver",
            "staged.waiting.take(staged.Index).Done()",
            "",
            mode=ADOPTED,
        ),
        Mutant(
            "half-filled-memory",
            "adopted memory that did not get all of its bytes stays the page's",
            "readIntoAdopted",
            "m.adopted = 0",
            "",
            mode=FAILING,
        ),
        Mutant(
            "unfilled-memory-untold",
            "nobody says that adopted memory did not get its bytes",
            "readIntoAdopted",
            "s.Unfilled = *err",
            "",
            mode=FAILING,
        ),
        Mutant(
            "cancelled-half-way",
            "a load that is cancelled while adopted memory is filled leaves the rest",
            "loader.run",
            "l.unasked.Store(l.o.InPlace)",
            "l.unasked.Store(false)",
            mode=CANCELLED,
        ),
        Mutant(
            "part-not-verified",
            "pages that are chosen replace others, or fill adopted memory, before their bytes were verified",
            "loader.run",
            "err = l.verifyChosen()",
            "",
            mode="^TestWhatIsNotChosenIsNotRead$",
        ),
    ),
)
