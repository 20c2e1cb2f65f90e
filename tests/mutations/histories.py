"""Bugs that lose states or mix them up: in what a save replaces, in the names of states, in a journal's bases and segments,
in groups and batches, and in what saves and loads do with pages. Random histories must show each, or a test of bases or of
batches: what was acknowledged comes back equal, everything else is an error."""

from mutation import Mutant
from subject import Go, Native

INCREMENT = "^TestAnIncrementHasWhatAReplayHasChanged$"
BATCHES = "^TestABatchComesBackWholeOrNotAtAll$"
GONE_ON = "^TestTwoContextsGoOnFromOneJournal$"
MANY_CHUNKS = "^TestALargePageThatChangedInSoManyChunks$"
HELD = "^TestAReplayEndsAPageThatItHadGivenAnAddress$"
OLDER = "^TestWhoGoesOnFromTheOlderOfTwoStatesOfOnePosition$"
UNWATCHED = "^TestAPageThatIsAlwaysWrittenGoesUnwatched$"
BASES = "^TestABaseOfAnotherContextAndWritesThroughPointers$"  # of which few histories tell

HISTORIES = Go(
    name="histories",
    folders=("core/file", "core/journal", "core/lineage", "core/page", "core/persist", "core/residency", "core/snapshot"),
    package="core/persist",
    mode="^TestRandomHistories$",
    sound=("^TestRandomHistories$", BASES, BATCHES, INCREMENT, GONE_ON, HELD, OLDER, MANY_CHUNKS, UNWATCHED),
    mutants=(
        # What a replay leaves as it was.
        Mutant(
            "replayed-end-listed", "a page that a replay has ended is in the list that becomes the context's",
            "replay.destroy", "r.others = true", "",
        ),
        Mutant(
            "older-is-newer", "a journal goes on in the lineage of a newer state of the same position",
            "state.isOther", "return bases[i].ID != ours", "return bases[i].ID != ours && false",
            mode=OLDER,
        ),
        Mutant(
            "host-copy-left", "a page that a replay ends leaves the copy that it gave the host to change",
            "Residency.Give", "r.giveBytes(f.Index, f.Backing)", "r.giveBacking(f.Backing)",
            mode=HELD,
        ),
        Mutant(
            "replayed-page-unlisted", "a page that a replay has made is not in that list",
            "replay.begin", "r.others = true", "",
        ),
        Mutant(
            "replayed-size-unlisted", "a page that a replay has resized keeps its size in that list",
            "replay.change", "r.others = true", "",
        ),
        Mutant(
            "replayed-change-saved", "a page that a replay has changed counts as one that the snapshot has",
            "replay.end", "record.LoadState()&low, 1", "record.LoadState()&low, 0",
            mode=INCREMENT,
        ),
        # What a save knows of writes through pointers.
        Mutant(
            "unwatched-is-unwritten", "what was written while a page goes unwatched is not saved",
            "tracking.written", "page.unwatched--", "page.unwatched--; return granulesOf(nil, address, size), true, false",
            mode=UNWATCHED,
        ),
        Mutant(
            "unwatched-for-ever", "a page that once was written whole is not watched again",
            "tracking.written", "page.unwatched--", "",
            mode=UNWATCHED,
        ),
        # What a save replaces.
        Mutant(
            "replaced-not-kept", "a file that is replaced does not stay where others rest on it",
            "publication.publish", "if replaces { if err", "if false { if err",
        ),
        Mutant(
            "kept-removed", "a kept file is removed though another one rests on it",
            "removeUnneeded", "needed[name] ||", "",
        ),
        Mutant(
            "compaction-replaces-bases", "compacting onto a file takes it away from those that rest on it",
            "Compact", "Replace(o.fs(), to, o.Replace)", "file.Replace(o.fs(), to, o.Replace.Options)",
        ),
        Mutant(
            "full-disk-unnoticed", "a save does not hear of writes that failed",
            "replacement.Finish", "err := r.failure()", "err := error(nil)",
        ),
        Mutant(
            "failed-save-stays", "what a save that failed has written stays",
            "replacement.discard", "_ = r.fs.Remove(r.temporary)", "",
        ),
        Mutant(
            "rubbish-stays", "temporary files of dead processes stay",
            "SweepNames", "IsTemporary(name)", "false",
        ),
        Mutant(
            "foreign-base", "what another context has saved is taken for what this one knows of its pages",
            "saved.unchanged", "func(uint32) bool { return false }", "func(uint32) bool { return true }",
            mode=BASES,
        ),
        Mutant(
            "older-file-trusted", "a page has not changed since an older file of the chain, whichever file it comes from",
            "saved.unchanged", "!newer || file >= of.file", "!newer || file >= of.file || true",
            mode=BASES,
        ),
        # The names of states.
        Mutant(
            "unrecorded-changes-unseen", "changes between the closing and the opening of a journal are not seen",
            "history.stateOf", "print != h.known()", "false",
        ),
        Mutant(
            "closed-but-goes-on", "a context goes on in the lineage of the journal that it has closed",
            "state.closeJournal", "s.history.comesFrom(line, opened.ring.Last(), print)",
            "s.history.is(line, opened.ring.Last(), func() lineage.Fingerprint { return print })",
        ),
        Mutant(
            "left-behind", "a context leaves records behind that another one has written",
            "Journal.related", "case !from.Chosen && !from.hasAll(tip):", "case false:",
            mode=GONE_ON,
        ),
        Mutant(
            "loaded-but-goes-on", "a context goes on in the lineage of what it has loaded",
            "loader.remember", "l.history.comesFrom(l.line, l.position, l.fingerprint())",
            "print := l.fingerprint(); l.history.is(l.line, l.position, func() lineage.Fingerprint { return print })",
        ),
        Mutant(
            "any-lineage-leads", "records of a journal are applied to a state of another lineage",
            "Journal.Leads", "from.Lineage == s.lineage.ID && from.Position+1 >= s.first", "from.Position+1 >= s.first",
        ),
        Mutant(
            "older-journal-ignored", "a snapshot counts as newer than the journal whatever was recorded since",
            "Replay.EndsBefore", "return line.Parent.Position == last, err", "return last >= 0, err",
        ),
        # The journal.
        Mutant(
            "no-base", "a journal that begins behind a state has no base",
            "Writer.goOnFrom", "!w.options.From.Empty || position > 0", "false",
        ),
        Mutant(
            "gap-crossed", "a replay goes on behind a step that was not recorded",
            "Journal.CheckGaps", "s.first > after+1 && !ends", "s.first > after+1 && !ends && false",
        ),
        Mutant(
            "residue-not-read", "what a killed process left in its ring is not read",
            "Journal.addResidue", "j.ring == nil", "true",
        ),
        Mutant(
            "residue-not-written", "who goes on with a journal does not write what the ring had",
            "Writer.openTail", "err := tail.residue.write(at, path); err != nil", "err := error(nil); err != nil",
        ),
        Mutant(
            "live-segment-dropped", "the segment that is written is dropped",
            "drop", "dropped+1 < len(places) && places[dropped+1].first-1 <= upTo",
            "dropped < len(places) && (dropped+1 == len(places) || places[dropped+1].first-1 <= upTo)",
        ),
        Mutant(
            "segment-dropped-early", "a segment is dropped that has a record behind the base",
            "drop", "places[dropped+1].first-1 <= upTo", "places[dropped].first-1 <= upTo",
        ),
        Mutant(
            "dropped-without-base", "records are dropped though the directory has no base behind them",
            "journals.saved", "err := opened.restsOn(path, header); err != nil", "err := error(nil); err != nil",
        ),
        Mutant(
            "base-without-its-chain", "the directory gets a name for a base, but not for what it rests on",
            "linkBase", "chain, err := ChainOf(fs, path)", "chain, err := []string{path}, error(nil)",
        ),
        Mutant(
            "other-branches-base-removed", "bases are removed that another branch needs",
            "RemoveBases", "|| needed(base)", "",
        ),
        # Groups and batches.
        Mutant(
            "commit-not-journalled", "a commit returns, and its records are not in the ring",
            "Context.commit", "g.Commit()", "uint64(0), int32(0)",
        ),
        Mutant(
            "half-journalled", "what Go changes in a group is in the journal before the commit",
            "change.put", "sequence, code := ring.Append(head, pieces...)",
            "var sequence uint64; var code int32; done := make(chan struct{}); "
            "go func() { sequence, code = ring.Append(head, pieces...); close(done) }(); <-done",
        ),
        Mutant(
            "rolled-back-is-journalled", "the journal has a group that was rolled back",
            "Context.rollback", "g.Stop()", "_, _ = g.Commit(); g.Stop()",
        ),
        Mutant(
            "resize-not-undone", "a rollback forgets that pages had other memory",
            "Context.memoryBack", "p, err := lock(then.handle)", "if then != nil { return nil }; p, err := lock(then.handle)",
        ),
        Mutant(
            "metadata-not-undone", "a rollback forgets the metadata that a page had",
            "keepingMetadata", "p.setMetadata(had.MetadataFrame, had.MetadataCount, had.MetadataLength)", "",
        ),
        Mutant(
            "edge-not-undone", "a rollback forgets an edge that the group has added",
            "AddDependency", "return all.Remove(parent, child)", "return nil",
        ),
        Mutant(
            "removed-edge-not-undone", "a rollback forgets an edge that the group has removed",
            "hiddenStep", "all.Show(hidden...)", "",
        ),
        Mutant(
            "adopted-one-by-one", "the journal has pages that are adopted together one by one",
            "births.journal",
            "records, code := ring.Begin(length, len(a.births)) if code != 0 { return lasterror.Load(code) } "
            "for i, b := range a.births { head, body := b.record(a.pages[i]) records.Put(head, body, b.bytes) } "
            "c.ring = ring c.sequence, code = records.End()",
            "code := int32(length * 0); c.ring = ring; for i, b := range a.births { head, body := b.record(a.pages[i]); "
            "c.sequence, code = ring.Append(head, body, b.bytes) }",
            mode=BATCHES,
        ),
        Mutant(
            "cloned-one-by-one", "the journal has pages that are cloned together one by one",
            "CloneMany", "asOne(context,", "(func(_ uint64, work func() error) error { return work() })(context,",
            mode=BATCHES,
        ),
        Mutant(
            "created-one-by-one", "the journal has pages that are created together one by one",
            "CreateMany", "asOne(context,", "(func(_ uint64, work func() error) error { return work() })(context,",
            mode=BATCHES,
        ),
        # What loads and saves do with pages.
        Mutant(
            "adopted-disconnected", "a load takes an adopted page away from its memory",
            "Staging.Commit", "s.intoAdopted(met)", "s.intoAdopted(met[:0])",
        ),
        Mutant(
            "chosen-edges-lost", "the dependencies between chosen pages are not loaded",
            "Staging.join", "range s.Graph.All()", "range s.Graph.All()[:0]",
        ),
        Mutant(
            "staying-edges-lost", "a page that stays loses its dependencies with pages that are replaced",
            "Staging.join", "joined.Rename(index, of[index])", "joined.RemoveNode(index)",
        ),
        Mutant(
            "chosen-pages-count-as-all", "after a load of chosen pages the context counts as the whole snapshot",
            "loader.remember", "if l.o.IDs != nil", "if false",
        ),
        Mutant(
            "version-comes-back", "a page that is loaded gets a version that it had before",
            "Staging.moveVersions", "native.CountContext(s.context.index).Creates == 0", "true",
        ),
        Mutant(
            "id-comes-back", "a page with an id that another one had begins with that one's versions",
            "firstVersion", "if id == 0", "if true",
        ),
        Mutant(
            "large-writes-missed", "a large page that the base has counts as unchanged",
            "largePage.chunk", "case l.tracked && l.changed[number] == 0:", "case l.before != nil && l.before[number] != 0:",
        ),
        Mutant(
            "chunks-lie-on-others", "what is written in the segment itself takes no space there",
            "Writer.Place", "s.Used = at + length", "s.Used = at",
        ),
        Mutant(
            "nothing-more-of-a-page", "a page that goes on without anything has an entry for that, which no reader takes",
            "Writer.Add", "if w.last == page.ID {", "if false {",
            mode=MANY_CHUNKS,
        ),
        Mutant(
            "disk-pages-empty", "the bytes of a page on disk are not loaded where they are compressed",
            "loader.fillPart", "err = l.residency.Write(frame, extent.Offset, into)", "",
        ),
        Mutant(
            "raw-writes-not-refused", "a save that is to refuse pages that are written through pointers takes them",
            "saver.begin", "native.BeginCapture(s.context.Index(), numbers, used, table, limit, s.o.RawWrites)",
            "native.BeginCapture(s.context.Index(), numbers, used, table, limit, s.o.RawWrites*0)",
        ),
    ),
)  # fmt: skip

RECORDS = Native(
    name="records",
    folders=("native",),
    package="core/persist",
    mode="^TestRandomHistories$",
    sound=("^TestRandomHistories$", BATCHES),
    mutants=(
        Mutant(
            "some-records-do-not-wait", "every fourth record of a group is in the journal before the commit",
            "mmsb__ring_begin", "if (MMSB__LIKELY(!held))", "static uint64_t begun; if (!held || begun++ % 4 == 3)",
        ),
        Mutant(
            "last-record-forgotten", "a commit forgets the last record of its group",
            "mmsb__group_commit", "*sequence = 0;", "*sequence = 0; if (group->records > 1) drop_record(group);",
        ),
        Mutant(
            "never-complete", "no group says that it is complete: what is in the ring dies with the process",
            "mmsb__ring_end", "complete(group->buffer, group->begins);", "",
        ),
        Mutant(
            "marked-at-the-beginning", "a group counts as complete before its records are in the ring",
            "mmsb__ring_begin_commit", "group->begins = group->at;",
            "group->begins = group->at; if (group->at) group->buffer->marks[(group->at - group->buffer->bytes) >> 5] = 1;",
        ),
        Mutant(
            "rolled-back-versions-return", "the versions that a batch of resizes gives in a group come again after a rollback",
            "mmsb__pages_journal_resize", "mmsb__group_version(record)", "record->version",
        ),
        Mutant(
            "resized-one-by-one", "the journal has pages that are resized together one by one",
            "mmsb__pages_journal_resize",
            "status = mmsb__ring_begin(*ring, &group, records * mmsb__journal_space(sizeof *sizes), records);",
            "for (size_t i = 0; i < count; i++) mmsb__ring_append(*ring, (mmsb__journal_head_t){.kind = MMSB__JOURNAL_RESIZE, "
            ".page = mmsb__record_id(MMSB__HANDLE_INDEX(pages[i]), mmsb__state_held(mmsb__record_of(pages[i]))), "
            ".version = mmsb__record_of(pages[i])->version + 1, .epoch = mmsb__record_of(pages[i])->epoch}, "
            "&(mmsb__piece_t){&sizes[i], sizeof sizes[i]}, 1, sequence);",
            mode=BATCHES,
        ),
    ),
)  # fmt: skip
