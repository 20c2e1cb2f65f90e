"""Bugs in what gives pages their ids. One of the promises of TestIDs must be broken by each."""

from mutation import Mutant
from subject import Go

IDS = Go(
    name="ids",
    folders=("core/page",),
    package="core/page",
    mode="^TestIDs$",
    sound=("^TestIDs$",),
    tries=1000,
    mutants=(
        Mutant(
            "inverse-too-short", "Newton stops too early: the inverse's high bits are wrong",
            "ids.start", "range 6", "range 3",
        ),
        Mutant(
            "id-chosen-twice", "who chooses an id does not look whether another did",
            "reserve", "page, ok := i.explicit.Find(id); ok", "page, ok := i.explicit.Find(id); ok && false",
        ),
        Mutant(
            "mark-not-awaited", "a thread that has not seen the mark may still be creating the page",
            "reserve", "native.Synchronize(i.context)", "",
        ),
        Mutant(
            "beginning-page-ignored", "an id is given away that a page has which is about to begin",
            "reserve", "i.begins(id)", "false",
        ),
        Mutant(
            "live-page-ignored", "an id is given away that a page has",
            "reserve", "page != 0", "page != 0 && false",
        ),
        Mutant(
            "present-page-is-past", "a record's present page counts as a former one",
            "mark", "native.Generation(record.LoadState())", "native.Generation(record.LoadState()) + 1",
        ),
        Mutant(
            "past-is-marked", "there is a mark for a page that has been, which nobody takes away",
            "mark", "native.Generation(handle) < native.Generation(record.LoadState())", "false",
        ),
        Mutant(
            "coming-page-not-marked", "the record of a page to come does not know that its id is taken",
            "mark", "record.IDTaken = 1", "",
        ),
        Mutant(
            "waiting-marks-pile-up", "marks stay that wait for ids nobody has any more",
            "tidy", "i.waits <= 2*i.explicit.Len()+leafGroup", "true",
        ),
        Mutant(
            "tidy-forgets-what-is-in-use", "marks go that wait for ids somebody has",
            "tidy", "id&^native.IDMask == native.IDAutomatic", "false",
        ),
        Mutant(
            "id-of-the-next-page", "the map has a handle of another generation",
            "ids.set", "i.explicit.Put(id, page)", "i.explicit.Put(id, page+1<<native.IndexBits)",
        ),
        Mutant(
            "id-stays-taken", "an ended page keeps its id",
            "ids.end", "has == page", "has == page && false",
        ),
        Mutant(
            "taken-id-picked", "a marked record's page begins with the id all the same",
            "claim", "generation != native.GenerationMax", "false",
        ),
        Mutant(
            "marks-outlive-their-context", "a leaf keeps the marks of the context that had it",
            "takeLeaf", "if used {", "if used && false {",
        ),
        Mutant(
            "waiting-marks-forgotten", "a leaf comes without the marks that wait for it",
            "takeLeaf", "native.RecordAt(index).IDTaken = 1", "",
        ),
        Mutant(
            "other-leaves-marks-forgotten", "a leaf takes the marks of others with it",
            "takeLeaf", "return false", "return true",
        ),
        Mutant(
            "page-found-before-it-begins", "Lookup tells of a page that cannot be used yet",
            "Lookup", "(state^page)>>native.IndexBits == 0", "(state^page)>>native.IndexBits == 0 || true",
        ),
        Mutant(
            "loaded-ids-not-marked", "a load's ids are not those of pages to come",
            "takeIDs", "id&^native.IDMask == native.IDAutomatic", "id == 0",
        ),
        Mutant(
            "failure-keeps-id", "a page that did not begin keeps its id",
            "unexpect", "c.ids.drop(b.id)", "",
        ),
    ),
)  # fmt: skip
