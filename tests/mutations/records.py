"""Bugs in the rules of a journal's records: in what a record, a group or a clone may be. What reads journals must refuse each
lie, and pass over what a later record ends; a replay and the tool alike. And bugs in copies that a replay makes."""

from mutation import Mutant
from subject import Go

RULES = "^TestRecordsThatAreNotWhatTheySayAreRefused$|^TestGroupsThatDoNotBeginWhereTheyMay$"

RECORD_RULES = Go(
    name="record-rules",
    folders=("core/journal",),
    package="core/journal",
    mode=RULES,
    sound=(RULES,),
    mutants=(
        Mutant(
            "any-size", "a record gives its page a size that no page has",
            "Record.fault", "what = attribute.SizeFault(r.Size)", "",
        ),
        Mutant(
            "any-size-after", "a page is resized to a size that no page has",
            "Record.fault", "|| r.Kind == Resize", "",
        ),
        Mutant(
            "any-place", "a record gives its page a place that does not exist",
            "Record.fault", "what = attribute.PlaceFault(r.Location, r.Device, r.NUMANode)", "",
        ),
        Mutant(
            "any-version-of-a-record", "a walk takes versions that no page has",
            "assembler.add", "head.version > attribute.MaximumVersion", "false",
        ),
        Mutant(
            "any-version-in-a-replay", "a replay takes versions that no page has",
            "player.frame", "version > attribute.MaximumVersion && bad == 0", "version == 0 && bad == 1",
        ),
        Mutant(
            "a-page-depends-on-itself", "a page can be its own child",
            "Record.decode", "r.Other != 0 && r.Other != r.Page", "r.Other != 0",
        ),
        Mutant(
            "groups-begin-within", "a group can begin within another one",
            "checkGroup", "first &&", "",
        ),
        Mutant(
            "groups-of-nothing", "the beginning of a group can be its end",
            "checkGroup", "head.flags&(More|Piece|Annotated) == More &&", "",
        ),
        Mutant(
            "groups-with-any-body", "the beginning of a group has any body",
            "checkGroup", "&& head.length == recordHeadBytes+8", "",
        ),
        Mutant(
            "groups-go-on-anywhere", "a group that goes beyond its frame begins anywhere in it",
            "checkBegins", "group <= f.first", "true",
        ),
        Mutant(
            "walks-do-not-look-at-the-end", "only a replay looks at where a group begins that goes beyond its frame",
            "eachRecord", "group < f.first+uint64(f.count)", "false",
        ),
        Mutant(
            "walks-do-not-look-at-groups", "only a replay looks at the beginnings of groups",
            "assembler.add", "return nil, checkGroup(sequence, head, group == sequence && !a.within)", "return nil, nil",
        ),
        Mutant(
            "replays-do-not-look-at-groups", "a replay does not know of the group that is open",
            "player.frame", "group == 0 && sequence > p.great", "true",
        ),
    ),
)  # fmt: skip

SEGMENT = "^TestASegmentEndsWithAWholeGroup$"

LAST = "^TestNoRecordIsBeyondTheLastNumber$|^TestATailEndsWithTheLastNumber$"

LAST_NUMBERS = Go(
    name="last-numbers",
    folders=("core/journal",),
    package="core/journal",
    mode=LAST,
    sound=(LAST,),
    mutants=(
        Mutant(
            "one-number-too-few", "the last number there is counts as one beyond it",
            "checkNumbers", "uint64(count) <= end-first", "uint64(count) < end-first",
        ),
        Mutant(
            "one-number-too-many", "a record may be one beyond the last number",
            "checkNumbers", "uint64(count) <= end-first", "uint64(count) <= end-first+1",
        ),
        Mutant(
            "any-number-in-a-ring", "a killed process may have left records of any number in its ring",
            "framesOf", 'err = checkNumbers("a ring\'s buffer", behind.next, count)', "",
        ),
        Mutant(
            "any-number-beside-the-writer", "a follower takes records of any number out of a ring",
            "ringTail.groups", '|| checkNumbers("a group", next, records) != nil', "",
        ),
        Mutant(
            "any-number-followed", "a follower takes frames of any number",
            "Tail.frame", 'checkNumbers("it", f.first, f.count)', "error(nil)",
        ),
        Mutant(
            "any-number-scanned", "all but a follower take frames of any number",
            "Journal.scan", 'checkNumbers("it", f.first, f.count)', "error(nil)",
        ),
    ),
)  # fmt: skip

SEGMENT_ENDS = Go(
    name="segment-ends",
    folders=("core/journal",),
    package="core/journal",
    mode=SEGMENT,
    sound=(SEGMENT,),
    mutants=(
        Mutant(
            "a-group-in-two-segments", "a segment may end within a group",
            "Journal.scan", "open = f.open", "open = false",
        ),
        Mutant(
            "all-groups-end", "nobody finds that a group goes beyond its frame",
            "eachRecord", "f.open = group < f.first+uint64(f.count); f.open", "group < f.first+uint64(f.count)",
        ),
    ),
)  # fmt: skip

CLONES = "^TestClonesOfPagesThatAreOthersByNow$"
NEWER = "^TestClonesOfPagesThatMayBeNewerThanTheMoment$"
SKIPPED = "^TestRecordsThatTheSnapshotHasAreSkipped$"
VERSIONS = "^TestASnapshotWithHigherVersionsThanItsJournal$"

REPLAYED_CLONES = Go(
    name="replayed-clones",
    folders=("core/journal", "core/persist"),
    package="core/persist",
    mode=CLONES,
    sound=(CLONES, NEWER, VERSIONS),
    mutants=(
        Mutant(
            "versions-of-others", "a record is passed over whose version is not above that of a snapshot that it comes behind",
            "Record.Follows", "r.Sequence <= latest", "true", mode=VERSIONS,
        ),
        Mutant(
            "clones-of-other-versions", "a clone is passed over whose page has another context's version",
            "replay.clone", "!r.unrecorded(index)", "true", mode=VERSIONS,
        ),
        Mutant(
            "clones-of-older-pages-are-missed", "a clone of a page that is older than what was copied is passed over",
            "replay.clone", "Record.Version > record.OtherVersion", "Record.Version != record.OtherVersion",
        ),
        Mutant(
            "clones-of-newer-pages", "a clone copies a page that is newer than what was copied",
            "replay.clone",
            "|| newer && record.Sequence > r.latest && !r.unrecorded(index)", "",
        ),
        Mutant(
            "clones-behind-the-moment", "a clone is passed over whose page was written through a pointer behind the moment",
            "replay.clone", "record.Sequence > r.latest && !", "record.Sequence <= r.latest || !", mode=NEWER,
        ),
        Mutant(
            "clones-that-do-not-fit", "a record that does not fit a clone which had ended by the moment is damage",
            "replay.unlessEnded", "!doubtful ||", "doubtful ||", mode=NEWER,
        ),
        Mutant(
            "clones-of-nothing-are-refused", "a clone whose page is no more is damage, though a later record ends it",
            "replay.clone", "r.misses(record.Page, record)",
            'return status.Errorf(status.Corrupt, "record %d", record.Sequence)',
        ),
        Mutant(
            "clones-of-nothing-are-forgotten", "a clone that was passed over is not missed",
            "replay.clone", "r.misses(record.Page, record)", "",
        ),
    ),
)  # fmt: skip

TOOL_CLONES = Go(
    name="clones-of-the-tool",
    folders=("cmd/mmsb/internal/replay",),
    package="cmd/mmsb/internal/replay",
    mode=CLONES,
    sound=(CLONES, VERSIONS, SKIPPED),
    mutants=(
        Mutant(
            "tool-takes-older", "the tool makes changes that the state has already",
            "State.Apply", "err != nil || !follows", "err != nil || follows && false", mode=SKIPPED,
        ),
        Mutant(
            "tool-clones-no-other-versions", "the tool passes over a clone whose page has another context's version",
            "State.clone", "!of.unrecorded", "true", mode=VERSIONS,
        ),
        Mutant(
            "tool-misses-clones-of-older-pages", "the tool passes over a clone of a page that is older than what was copied",
            "State.clone", "of.entry.Version > r.OtherVersion", "of.entry.Version != r.OtherVersion",
        ),
        Mutant(
            "tool-clones-newer-pages", "the tool copies a page that is newer than what was copied",
            "State.clone", "|| newer && r.Sequence > s.latest && !of.unrecorded", "",
        ),
        Mutant(
            "tool-passes-over-clones", "the tool passes over a clone whose page was written through a pointer behind the moment",
            "State.clone", "r.Sequence > s.latest && !", "r.Sequence <= s.latest || !",
        ),
        Mutant(
            "tool-wants-clones-to-fit", "for the tool a record that does not fit a clone which had ended by the moment is damage",
            "State.Apply", "case p.doubtful &&", "case !p.doubtful &&",
        ),
        Mutant(
            "tool-forgets-clones", "the tool does not miss a clone that it has passed over",
            "State.clone", "s.misses(r.Page, r)", "",
        ),
    ),
)  # fmt: skip

STEPS = "^TestStepsAreAskedForAndGoOverAll$"

LONG_COPIES = Go(
    name="long-copies",
    folders=("core/residency",),
    package="core/residency",
    mode=STEPS,
    sound=(STEPS,),
    mutants=(
        Mutant(
            "long-copies-hear-nothing", "a copy of many bytes does not hear that it is to end",
            "InSteps", "asked != nil", "false",
        ),
        Mutant(
            "last-step-is-a-whole-one", "the last step goes beyond what is to be copied",
            "InSteps", "min(count, begin+step)", "begin+step",
        ),
    ),
)  # fmt: skip
