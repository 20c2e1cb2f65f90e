"""Bugs in what launches kernels, in what brings their tables to a device, and in what compares pages: random memory against loops
of one byte at a time, and lists that overlap by a byte, must show each."""

from mutation import Mutant
from subject import Go, Library

LAUNCHES = Go(
    name="kernel-launches",
    folders=("gpu/kernels",),
    package="gpu/kernels",
    mode="^Test(Checksums|APart|Propagate|CopyMany|ScatterPuts|Bad)",
    sound=("^Test(Checksums|APart|Propagate|CopyMany|ScatterPuts|Bad)",),
    mutants=(
        Mutant(
            "short-pieces-forgotten",
            "the rest of a page behind its last whole piece is not propagated",
            "PreparePairs",
            "pieces += Parts(pair.Bytes, pieceBytes)",
            "pieces += pair.Bytes / pieceBytes",
        ),
        Mutant(
            "pieces-of-each-pair",
            "each pair begins with the first piece",
            "PreparePairs",
            "pair.Piece = pieces",
            "pair.Piece = 0",
        ),
        Mutant(
            "one-byte-is-no-part",
            "a last part of one byte has no checksum",
            "Parts",
            "bytes%part != 0",
            "bytes%part > 1",
        ),
        Mutant(
            "one-thread-a-part",
            "a part of a checksum has one thread, which does all of a warp's work",
            "Set.Checksum",
            "* lanesOfPart",
            "",
        ),
        Mutant(
            "threads-wrap",
            "the threads of very many parts are few",
            "Set.Checksum",
            "min(parts, math.MaxUint32)",
            "parts",
        ),
        Mutant(
            "touching-ends",
            "an overlap of one byte is none",
            "checkApart",
            "uint64(from) < uint64(to)+toBytes",
            "uint64(from)+1 < uint64(to)+toBytes",
        ),
        Mutant(
            "origin-forgotten",
            "offsets count from 0, whatever they should",
            "Set.Scatter",
            "origin: origin",
            "origin: 0",
        ),
    ),
)

TABLES = Go(
    name="kernel-tables",
    folders=("gpu/devices",),
    package="gpu/devices",
    mode="^Test(Tables|Kernels|ThreadsShareTheKernels)",
    sound=("^Test(Tables|Kernels|ThreadsShareTheKernels)",),
    mutants=(
        Mutant(
            "order-expected",
            "copies must come in the order of their targets",
            "CopyMany",
            "slices.SortFunc(spans, byTarget)",
            "",
        ),
        Mutant(
            "pinned-memory-stays",
            "pinned memory that the stream has passed is kept",
            "kit.reap",
            "past, err := w.past.Poll()",
            "past, err := w.past.Poll(); past = false",
        ),
        Mutant(
            "counts-go-on",
            "a count of differences is added to what was there",
            "Difference",
            "s.Fill(found+8, 0xff, 8)",
            "s.Fill(found+8, 0, 8)",
        ),
        Mutant(
            "kit-outlives-its-runtime",
            "the kernels of a runtime that ended are kept",
            "endKit",
            "delete(kits.of, r)",
            "",
        ),
        Mutant(
            "captured-tables",
            "a captured launch has a table that will not be there when it runs",
            "withTable",
            's.NotCapturing("a table cannot be brought to the device")',
            "error(nil)",
        ),
        Mutant(
            "tables-leak",
            "the block of a table is not freed",
            "kit.launch",
            "_, freeErr := runtime.Free(block, s)",
            "_, freeErr := block, error(nil)",
        ),
    ),
)

KERNELS_TEST = "kernels_test"

COMPARISONS = Library(
    name="comparisons",
    folders=(),
    package="",
    mode=KERNELS_TEST,
    sound=(KERNELS_TEST,),
    seconds=300,
    programs=(("tests/c/kernels_test.c",),),
    mutants=(
        Mutant(
            "targets-meet",
            "an overlap of one byte of two targets is none",
            "check_alone",
            "written->list[i].begin < written->list[i - 1].end",
            "written->list[i].begin + 1 < written->list[i - 1].end",
        ),
        Mutant(
            "target-meets-source",
            "an overlap of one byte of a target and a source is none",
            "check_beside",
            "written->list[w].begin < other->list[i].end",
            "written->list[w].begin + 1 < other->list[i].end",
        ),
        Mutant(
            "order-assumed",
            "lists are taken to be in order",
            "mmsb__stretches_add",
            "to->in_order &= to->list[to->count - 1].begin <= one.begin;",
            "",
        ),
        Mutant(
            "marks-are-bytes",
            "the last word of a change mask is not seen whole",
            "changed_length",
            "(bits_length(bytes) + 3) / 4 * 4",
            "bits_length(bytes)",
        ),
        Mutant(
            "offset-at-the-end",
            "an offset may be the number of bytes",
            "check_places",
            "offset - origin >= bytes",
            "offset - origin > bytes",
        ),
        Mutant(
            "sizes-may-differ",
            "a page is propagated into one of another size",
            "check_locked",
            "if (size != record->size)",
            "if (size > record->size)",
        ),
        Mutant(
            "no-first-difference",
            "equal pages differ behind their end",
            "compare_here",
            "if (first < length && found.first == UINT64_MAX)",
            "if (found.first == UINT64_MAX)",
        ),
        Mutant(
            "other-length",
            "a mask of another length is filled",
            "mmsb__page_differences",
            "if (length == size) status = compare_locked",
            "if (length <= size) status = compare_locked",
        ),
        Mutant(
            "joined-too-far",
            "a joined checksum goes over half as many bits again",
            "power_of",
            "UINT32_C(1) << 23",
            "UINT32_C(1) << 19",
        ),
    ),
)
