"""Bugs in the file space of pages on disk. Pages that come and go must show each."""

from mutation import Mutant
from subject import Go

DISK = Go(
    name="disk",
    folders=("core/residency",),
    package="core/residency",
    mode="Space",
    sound=("Space",),
    mutants=(
        Mutant(
            "used-space-is-not-zeroed",
            "a page that is to be zero has what another page left",
            "disk.take",
            "err == nil && zeroed",
            "err == nil && false",
        ),
        Mutant(
            "written-space-counts-as-zero",
            "space that a page gets is not noted as written",
            "disk.take",
            "d.written.Add(first, first+units)",
            "",
        ),
        Mutant(
            "rest-is-not-zeroed",
            "of space that is longer than the zeros at hand only the first part is zeroed",
            "disk.writeZeros",
            "at < end*diskUnit && err == nil",
            "at < first*diskUnit+1 && err == nil",
        ),
        Mutant(
            "zeros-take-no-space",
            "a file system that cannot allocate has no pages",
            "disk.allocate",
            "err != nil && !noSpace(status.ErrnoOf(err))",
            "false",
        ),
        Mutant(
            "full-disk-is-tried-again",
            "what a full disk refuses is tried with zeros",
            "disk.allocate",
            "err != nil && !noSpace(status.ErrnoOf(err))",
            "err != nil",
        ),
        Mutant(
            "limit-of-files-is-not-asked",
            "the system's signal for files that are too long ends the program",
            "disk.writeAt",
            "limits.FileSize(at + uint64(len(bytes)))",
            "error(nil)",
        ),
        Mutant(
            "hole-counts-as-space",
            "space that went back to the file system counts as there",
            "disk.giveBack",
            "d.space.Remove(first, end)",
            "",
        ),
        Mutant(
            "spare-space-stays",
            "space that pages leave never goes back to the file system",
            "disk.give",
            "d.held-d.used > most",
            "false",
        ),
        Mutant(
            "space-of-pages-goes-back",
            "space goes back that pages have",
            "disk.giveBack",
            "d.space.Runs(first, first+count,",
            "d.space.Runs(first/2, first+count,",
        ),
        Mutant(
            "space-is-taken-page-by-page",
            "the file system is asked for the space of each page",
            "disk.growth",
            "return max(end, to)",
            "return to",
        ),
    ),
)
