"""Bugs in stores: in what a store keeps and removes, in which state is opened, and in what a keeper does of its own accord.
Random programs of a store's user must show each, or a test of what they do not do."""

from mutation import Mutant
from subject import Go

FULL = "^TestAFullDisk$"
NAMES = "^TestNamesStay$"
ROTATES = "^TestASaveLeavesNoRecords$"
HOT = "^TestHotPages"
END = "AtTheEnd$|^TestAnEnd|^TestAnIntervalSaves"
FOLLOWERS = "^TestRandomFollowers$"
TARGETS = "^TestABackupOfAStoreIntoWhatOthersWrite$"
MISSING = "^TestAStoreWhoseJournalIsMissing$"

STORES = Go(
    name="stores",
    folders=("core/journal", "core/keeper", "core/page", "core/persist", "core/snapshot", "core/store"),
    package="core/keeper",
    mode="^TestRandomPrograms$",
    sound=(
        "^TestRandomPrograms$ -programs 40", FULL, NAMES, "^TestReadersChangeNothing$", "^TestOpenUseOpen$", "^TestTheKeeper",
        "Follower", ROTATES, HOT, END, TARGETS, MISSING, "^TestABranchOf",
    ),
    mutants=(
        # Where a backup goes, and where a store begins.
        Mutant(
            "backup-beside-a-writer", "a backup replaces files that a program has open for writing",
            "directory.Begin", "if d.held, err = journal.Hold(d.fs, d.path); err != nil {", "if d.held != nil {",
            mode=TARGETS,
        ),
        Mutant(
            "backup-into-itself", "a store is a backup of itself",
            "isSame", "return x.Device == y.Device && x.Inode == y.Inode, nil", "return x.Inode == 0 && y.Inode == 0, nil",
            mode=TARGETS,
        ),
        Mutant(
            "backup-over-others", "a backup replaces records that a program has written into it",
            "directory.Begin", "return s.hasRecordsOf(older)", "return nil",
            mode=TARGETS,
        ),
        Mutant(
            "begun-over-snapshots", "a store begins anew beside the snapshots of one whose journal is gone",
            "CheckBegins", "at >= 0", "at >= len(names)",
            mode=MISSING,
        ),
        # What a close saves.
        Mutant(
            "closed-unsaved", "what was written through pointers is lost when a store is closed",
            "saveBeforeEnd", "err = k.saveIf(func() bool { return persist.LacksRecords(context) || k.changed() })(nil)", "",
            mode=END,
        ),
        Mutant(
            "pinned-once-is-forgotten", "only pages whose address was given out for good are saved",
            "MayBeWritten", "record.Exposed != 0", "record.WritePins != 0",
            mode=END,
        ),
        Mutant(
            "changed-is-same", "a save of what has no records is dropped",
            "saver.write", "s.recorded && s.writer.Empty() &&", "s.recorded &&",
            mode=END,
        ),
        Mutant(
            "same-saved-again", "a save that finds all as it was leaves a snapshot",
            "saver.write", "o.UnlessSame &&", "false &&",
            mode=END,
        ),
        Mutant(
            "intervals-look-for-records", "an interval saves nothing that has no record",
            "keeper.changed", "|| k.mayBeWritten()", "",
            mode=END,
        ),
        Mutant(
            "never-saves-at-the-end", "a keeper that was told never to save does when the store is closed",
            "saveBeforeEnd", "&& (k.options.SaveBytes != Never || k.options.SaveInterval != 0)", "",
            mode=END,
        ),
        Mutant(
            "groups-hold-the-end", "a close waits for groups for ever",
            "saveBeforeEnd", "close(over)", "_ = over",
            mode=END,
        ),
        Mutant(
            "full-disk-is-final", "what the disk has refused is not saved when a store is closed, though there is space",
            "saveBeforeEnd", "!lacks && !written", "!(lacks && written) && !written",
            mode=END,
        ),
        Mutant(
            "full-disk-untold", "a store is closed that could not write its last changes, and nobody hears of it",
            "journals.end", "return j.lost", "return nil",
            mode=END,
        ),
        # What stays.
        Mutant(
            "saved-records-stay", "records that a save has made unnecessary stay in the segment that is written",
            "SaveBeside", "opened.writer.Rotate(opened.ring)", "",
            mode=ROTATES,
        ),
        Mutant(
            "hot-pages-whole", "a whole snapshot comes each time that the increments are too many",
            "keeper.optionsFor", "float64(bytes) < most/room", "bytes < 0",
            mode=HOT,
        ),
        Mutant(
            "exposed-since", "what was given out since an older snapshot is not counted",
            "state.changed", "record.Exposed == 0 || was.CRC != 0 ||", "true ||",
            mode=HOT,
        ),
        Mutant(
            "kept-by-name", "a file that was kept, and that an increment names as it is, is removed",
            "removeUnneeded", "header.BaseName == kept ||", "",
            mode=HOT,
        ),
        Mutant(
            "named-removed", "a snapshot with a name is removed",
            "Retention.keep", "len(p.Names) > 0", "false",
        ),
        Mutant(
            "rested-on-removed", "a snapshot is removed though another one rests on it",
            "Retire", "err = p.keep(header.ID)", "",
        ),
        Mutant(
            "records-removed", "records stay behind the newest snapshot only",
            "Store.Prune", "drop(from)", "drop(max(from, newest.Position))",
        ),
        Mutant(
            "saves-elsewhere-remove", "a save to another place removes what the store keeps",
            "Options.journal", "Keep: true", "Keep: false",
        ),
        Mutant(
            "nothing-removed", "what no rule keeps is not removed",
            "Store.Prune", "if stays[i] {", "if stays[i] || true {",
            mode="^TestTheKeeperSavesByItself$",
        ),
        # Which state is opened.
        Mutant(
            "record-ignored", "a record that is asked for does not end the replay",
            "Store.Find", "Sequence: at.Record", "Sequence: 0",
        ),
        Mutant(
            "branch-from-the-newest", "a branch begins at the newest state",
            "load", "if o.At == (store.At{}) {", "if true {",
        ),
        Mutant(
            "branch-of-a-forgotten-lineage", "a branch is refused whose lineage no segment of the journal names any more",
            "Journal.related", "!meets && !fromHere", "!meets",
            mode="^TestABranchOfAForgottenLineage$",
        ),
        Mutant(
            "backup-loses-a-branch", "a backup leaves records that no snapshot of the store has",
            "Store.LeadsOnFrom", "begin.line(b.Lineage, b.Position)", "begin.line(b.Lineage, lineage.MaximumPosition)",
            mode="^TestABranchOfWhatABackupHas$",
        ),
        Mutant(
            "backup-knows-one-branch", "a backup is refused whose state is in a snapshot of a branch that was left",
            "Store.LeadsOnFrom", "b.Lineage.ID != lineage.ID{} &&", "false &&",
            mode="^TestABranchOfWhatABackupHas$",
        ),
        Mutant(
            "name-of-another", "the newest snapshot is taken for one that has a name",
            "named", "bases[i].ID == id", "bases[i].ID == id || true",
        ),
        Mutant(
            "name-for-an-older-one", "a name goes to the snapshot before",
            "keeper.hasSaved", "k.isNewest(header)", "",
        ),
        # Who writes.
        Mutant(
            "reader-writes", "a context that was opened for reading can be changed",
            "state.refuse", "ring.Fail(int32(own.Code), own.Domain, own.Foreign, own.Text)", "_ = own",
            mode="^TestReadersChangeNothing$",
        ),
        Mutant(
            "reader-pins", "pages of a context that was opened for reading can be pinned for writing",
            "state.refuse", "ring.Refuse()", "",
            mode="^TestReadersChangeNothing$",
        ),
        # What the keeper does of its own accord.
        Mutant(
            "never-saves", "the keeper does not hear of what is written",
            "keeper.wrote", "k.call()", "",
            mode="^TestTheKeeperSavesByItself$",
        ),
        Mutant(
            "full-disk-for-ever", "a store does not go on when the disk has space again",
            "keeper.run", "failed.Code == status.NoSpace", "false",
            mode=FULL,
        ),
        Mutant(
            "full-disk-without-the-state", "a store goes on behind a state that nobody has saved",
            "state.resumeJournal", "header, err = s.saveBeside(old, old.ring.Last(), o, w)",
            "header = &snapshot.Header{Position: old.ring.Last() + 1}",
            mode=FULL,
        ),
        # What a follower has.
        Mutant(
            "follower-moment-in-a-group", "a follower's save has its moment between the records of a group",
            "newState", "moment: make(chan struct{}, 1)", "moment: make(chan struct{}, 2)",
            mode="^TestAFollowerWaitsForPins$",
        ),
        Mutant(
            "follower-in-a-branch-that-was-left", "a follower stays on a branch that was left",
            "Tail.next", "return &places[i], nil", "if places[i].branch == here.branch {\n\t\t\treturn &places[i], nil\n\t\t}",
            mode=FOLLOWERS,
        ),
        Mutant(
            "follower-ends-pinned-pages", "a follower ends pages that are pinned",
            "DestroyAgain", "err := p.notPinned(); err != nil", "err := error(nil); err != nil",
            mode="^TestAFollowerWaitsForPins$",
        ),
        Mutant(
            "follower-within-groups", "a follower applies what comes while somebody has a group open",
            "Follower.enter", "s.context.KeepGroupsOut(s.ended)", "func() {}, error(nil)",
            mode="^TestAGroupInAFollower$",
        ),
        Mutant(
            "readers-hold-loads-back", "a follower loads its state anew only when no group happens to be open",
            "loader.run", "if l.o.Follows {", "if false {",
            mode="^TestReadersOfAFollowerLetItGoOn$",
        ),
        Mutant(
            "groups-wait-for-their-pins", "a group waits for a follower that waits for a pin",
            "again.patiently", "a.state.context.Stuck(err)", "",
            mode="^TestAFollowerThatFailsWithinAGroup$",
        ),
        Mutant(
            "half-a-group-saved", "a save has half a group, where an error stopped the follower in it",
            "Context.Moment", "err = c.groups.checkStuck(c)", "",
            mode="^TestAFollowerThatFailsWithinAGroup$",
        ),
        Mutant(
            "stuck-for-good", "a follower that was loaded anew is never read as of one moment again",
            "Follow", "s.context.Stuck(nil)", "",
            mode="^TestAFollowerThatFailsWithinAGroup$",
        ),
        Mutant(
            "follower-keeps-old-versions", "after a load a follower takes the versions of the writer",
            "Follow", "f.moved = s.loaded.moved", "f.moved = false",
            mode="^TestAFollowerThatComesTooLate$",
        ),
        Mutant(
            "follower-loads-told-late", "a follower tells its state before it has counted the load that gave it",
            "follower.note", "f.Reloads += reloads", "",
            mode="^TestAFollowerThatComesTooLate$",
        ),
    ),
)  # fmt: skip
