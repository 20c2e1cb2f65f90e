"""Bugs in atomic groups: in what Go undoes, and in who waits for whom. Random groups against a model, and a step at a time, must
show each."""

from mutation import Mutant
from subject import Go

TESTS = "Groups|Group|Moment|Edges|Neighbours|Versions"

GROUPS = Go(
    name="groups",
    folders=("core/page",),
    package="core/page",
    mode=TESTS,
    sound=(TESTS,),
    mutants=(
        Mutant(
            "mask-of-another-size-stays", "a change mask that the group has made for another size stays with the page",
            "memoryBack", "p.Record.MaskFrame != mask", "p.Record.MaskFrame != mask && mask != 0",
        ),
        Mutant(
            "size-does-not-return", "a page has the memory of before and the size of after",
            "memoryBack", "p.Record.SetSize(size)", "",
        ),
        Mutant(
            "metadata-is-given-back", "the blob that the page had is freed by the change",
            "keepingMetadata", "c.setMetadata(0, 0, 0)", "",
        ),
        Mutant(
            "edges-stay-hidden", "the dependencies of a destroyed page do not come back",
            "Context.leave", "return edges.back()", "return nil",
        ),
        Mutant(
            "id-does-not-return", "a destroyed page comes back without its id",
            "Context.leave", "c.ids.left(id, page)", "c.ids.left(id, page&0)",
        ),
        Mutant(
            "id-stays-taken-by-the-group", "the id of a destroyed page is not free after the commit",
            "Context.leave", "s.done = func() { c.ids.left(id, 0) }", "",
        ),
        Mutant(
            "hidden-edges-are-forgotten", "edges that others have removed in open groups are not in the way",
            "AddDependency", "g.name()", "1",
        ),
        Mutant(
            "moment-does-not-wait", "a save takes its moment while groups are open",
            "awaitAll", "len(g.open) == 0", "true",
        ),
        Mutant(
            "begin-does-not-wait", "a group begins while a save waits for its moment",
            "beginGroup", "g.waiting == 0", "true",
        ),
    ),
)  # fmt: skip
