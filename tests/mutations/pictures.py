"""Bugs in pictures of memory: in the walk of the books, the names of what lies there, the history, and the files.

Models, recounts and files that are read back must show each."""

from mutation import Mutant
from subject import Go, Native

WALKS = Go(
    name="walks",
    folders=("core/alloc", "core/pool"),
    package="core/pool",
    mode="^(TestWalks|TestPieces.*)$",
    sound=("^(TestWalks|TestPieces.*)$", "^TestAWalkWaitsForSegments$"),
    mutants=(
        Mutant(
            "bare-has-memory", "addresses without memory are listed as free",
            "space.walk", "free && e.Bin == bare", "free && e.Bin == bare && e.Count == 0",
        ),
        Mutant(
            "past-too-early", "free pieces count as passed by the device though it is not there yet",
            "space.walk", "e.Mark <= done(piece.Stream)", "e.Mark <= done(piece.Stream) || true",
        ),
        Mutant(
            "gives-not-counted", "what is given back still counts as held",
            "Pool.countGive", "f.held.current -= b.Count", "",
        ),
        Mutant(
            "peak-of-now", "the peak follows what there is now",
            "count.add", "c.peak = max(c.peak, c.current)", "c.peak = c.current",
        ),
        Mutant(
            "spared-keeps-counting", "segments that lost their memory count as reserved",
            "Pool.bared", "p.flows[space%Spaces].reserved.current -= units", "",
        ),
        Mutant(
            "pieces-only-of-now", "the peak of free pieces does not see those that there were when memory was missing",
            "Pool.hitGathered", "p.noteSplits()", "",
        ),
        Mutant(
            "whole-piece-is-split", "free segments count as pieces of segments that are partly held",
            "space.split", "return count - (max(from, to) - from)", "return count - min(0, max(from, to)-from)",
        ),
        Mutant(
            "walk-while-growing", "a list shows segments that are on their way as held",
            "Pool.Walk", "p.growing.Lock()\n\tdefer p.growing.Unlock()", "",
            mode="^TestAWalkWaitsForSegments$",
        ),
    ),
)  # fmt: skip

STATISTICS = Native(
    name="statistics",
    folders=("gpu/blocks",),
    package="gpu/devices",
    mode="^TestStatistics",
    sound=("^TestStatistics",),
    mutants=(
        Mutant(
            "hit-of-another-size", "large requests that do not enter Go count as small ones",
            "take", "&stream->hits[bytes > MOST_SMALL]", "&stream->hits[0]",
        ),
        Mutant(
            "hit-has-what-was-asked", "hits count the bytes that were asked for as those of the block",
            "take", "raise(&hits->units, block->units);", "raise(&hits->units, bytes / UNIT);",
        ),
        Mutant(
            "peak-of-a-size-forgotten", "the peak of a size does not see a block that C gave to a larger request",
            "recount", "move(&sizes[block->bytes > MOST_SMALL], &sizes[bytes > MOST_SMALL], block->bytes, bytes);", "",
        ),
    ),
)  # fmt: skip

PICTURES = Go(
    name="pictures",
    folders=("gpu/runtime",),
    package="gpu/runtime",
    mode="^TestAPictureAgreesWithTheCounters$",
    sound=("^TestAPictureAgreesWithTheCounters$", "^TestTheHistoryLeadsToThePicture$"),
    mutants=(
        Mutant(
            "waiting-is-live", "a block whose free waits for a use is shown as live",
            "Runtime.records", "b.stream, picture.Awaiting", "b.stream, picture.Live",
        ),
        Mutant(
            "guarded-is-nameless", "a block of the guard, which begins inside of its piece, is not found",
            "segmentsOf", "records[at].address < end", "records[at].address == first",
        ),
        Mutant(
            "who-not-found", "who allocated a block is not looked up",
            "remember", "b.Thread, b.Time = e.Thread, e.Time", "b.Time = e.Time",
        ),
        Mutant(
            "unmaps-not-noted", "the history does not have segments that lost their memory",
            "poolSource.Bare", "p.note(LogUnmap, []pool.Block{block})", "",
            mode="^TestTheHistoryLeadsToThePicture$",
        ),
        Mutant(
            "refusals-not-shown", "the history does not have allocations that failed for lack of memory",
            "Log.events", "r.Code != status.OutOfMemory &&", "r.Code == status.OutOfMemory ||",
            mode="^TestTheHistoryLeadsToThePicture$",
        ),
    ),
)  # fmt: skip

PICTURE_FILES = Go(
    name="picture-files",
    folders=("core/picture",),
    package="core/picture",
    mode="^Test",
    sound=("^Test",),
    mutants=(
        Mutant(
            "tiling-not-checked", "blocks of a file may leave a part of their segment out",
            "Picture.check", "left > 0", "left > s.Bytes",
        ),
        Mutant(
            "overlap-not-checked", "segments of a file may overlap",
            "Picture.check", "s.Address < end ||", "",
        ),
        Mutant(
            "peak-lost", "of many events the last one counts, and the peak may not be shown",
            "Picture.Timeline", "point.Live >= best.Live", "point.Live >= 0",
        ),
        Mutant(
            "history-from-nothing", "what there was before the history is not counted",
            "Picture.begin", "int64(live)-change.live", "0*(int64(live)-change.live)",
        ),
        Mutant(
            "refusals-later", "requests that were refused are shown behind what came later",
            "ReadLog", "refusals[0].At == int(at)", "refusals[0].At < int(at)",
        ),
    ),
)  # fmt: skip
