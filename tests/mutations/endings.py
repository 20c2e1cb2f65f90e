"""Bugs in what goes on behind an end: of the context of a pinned page, of a journal whose disk has failed."""

from mutation import Mutant
from subject import Go

ENDINGS = Go(
    name="endings",
    folders=("core/memory",),
    package="core/page",
    mode="^TestTheLastUnpinCountsInNoOtherContext$",
    sound=("^TestTheLastUnpinCountsInNoOtherContext$",),
    mutants=(
        Mutant(
            "outliving-page-counts", "the end of a page that has outlived its context counts in the one that has its index now",
            "FreeRecord", "native.Kind(state) == native.StateEnded", "false",
        ),
    ),
)  # fmt: skip

CANCELLED = "^TestJournalsThatAreCancelledWithTheirBase$"

ENDED = "^TestTheEndOfAContextWithAFailedJournal$"

FAILED_JOURNALS = Go(
    name="failed-journals",
    folders=("core/persist",),
    package="core/persist",
    mode="^TestAFailedJournalDoesNotHinderSaves$",
    sound=("^TestAFailedJournalDoesNotHinderSaves$", CANCELLED, ENDED),
    mutants=(
        Mutant(
            "failed-journal-hinders-saves", "a save waits for a journal that has failed",
            "state.identity", "ok && !ring.Failed()", "ok",
        ),
        Mutant(
            "state-keeps-the-journals-name", "a state that the journal may lack has a name of the journal's lineage",
            "state.identity", "s.leave(opened)", "",
        ),
        Mutant(
            "closing-forgets-the-saves", "when a failed journal is closed, what was saved since has another history",
            "state.leave", "opened.leaving.Do", "func(f func()) { f() }",
        ),
        Mutant(
            "cancelled-behind-its-base", "a journal is cancelled when its base is there, and the state no longer leads to it",
            "state.openJournal", "begun.Store(true)", "", mode=CANCELLED,
        ),
        Mutant(
            "saved-is-lost", "a context that ends tells of changes which a file has",
            "state.save", "s.journals.kept.Store(true)", "", mode=ENDED,
        ),
        Mutant(
            "kept-for-a-while", "a save that need not last counts as one",
            "state.save", "&& !o.NotDurable && s.opened", "&& s.opened", mode=ENDED,
        ),
        Mutant(
            "kept-by-an-older-save", "a save from before a journal counts for what the journal lacks",
            "state.beginJournal", "s.journals.kept.Store(false)", "", mode=ENDED,
        ),
    ),
)  # fmt: skip
