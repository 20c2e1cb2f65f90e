"""Bugs in atomic groups: in what Go undoes and in what native code does, and in who waits for whom. Random groups against a
model, and a step at a time, must show each."""

from mutation import Mutant
from subject import Go, Native

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
            "group-stays-with-the-thread", "a group of the library that cannot be undone yet refuses what its thread does next",
            "atomically", "g.Detach()", "",
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
            "KeepGroupsOut", "len(g.open) == 0", "true",
        ),
        Mutant(
            "begin-does-not-wait", "a group begins while a save waits for its moment",
            "beginGroup", "g.waiting == 0", "true",
        ),
        Mutant(
            "groups-cross", "a thread with a group elsewhere waits for who waits for groups, which may wait for it",
            "beginGroup", "g.waiting > 0 && crossed()", "false",
            mode="^TestAGroupBesideOneOfAnotherContext$",
        ),
        Mutant(
            "busy-without-a-group", "a thread with a group elsewhere is refused where no group is waited for",
            "beginGroup", "others && len(g.open) > 0", "others",
            mode="^TestAGroupBesideOneOfAnotherContext$",
        ),
    ),
)  # fmt: skip

MODEL = "^TestGroupsAgainstAModel$"
ONCE = "^TestBytesThatAGroupKeepsOnce$"

UNDO = Native(
    name="undo",
    folders=("native",),
    package="core/page",
    mode=MODEL,
    sound=(MODEL, ONCE),
    mutants=(
        Mutant(
            "bytes-not-undone", "a rollback forgets the bytes that pages had",
            "undo_bytes", "memcpy(mmsb__record_bytes(record) + undo->offset, undo->bytes, undo->length);", "",
        ),
        Mutant(
            "mask-not-undone", "a rollback forgets which bytes deltas had addressed",
            "undo_bytes",
            "memcpy(mmsb__locator_address(record->mask_locator) + undo->offset / 8, undo->bytes + undo->length, "
            "undo->mask_length);",
            ";",
        ),
        Mutant(
            "mask-kept-short", "a group keeps the change mask of half of the bytes that it keeps",
            "mmsb__group_keep", "mmsb__mask_length(end) - first / 8", "(mmsb__mask_length(end) - first / 8) / 2",
        ),
        Mutant(
            "fewer-bytes-are-kept", "a group takes fewer bytes that it has kept for all that change",
            "is_kept", "undo->length >= length", "undo->length > 0",
            mode=ONCE,
        ),
        Mutant(
            "kept-without-mask", "a group takes bytes that it has kept without their change mask for both",
            "is_kept", "undo->mask_length >= mask_length", "1",
            mode=ONCE,
        ),
        Mutant(
            "clear-not-undone", "a rollback forgets the change mask that was cleared",
            "mmsb__group_keep_mask", "mmsb__mask_length(record->size)", "0",
        ),
        Mutant(
            "epoch-not-undone", "a page keeps the epoch that a group has given it",
            "undo_page", "__atomic_store_n(&record->epoch, undo->epoch, __ATOMIC_RELAXED);", "",
        ),
        Mutant(
            "version-not-undone", "a page keeps the version that a group has given it",
            "undo_page", "__atomic_store_n(&record->version, undo->version, __ATOMIC_RELAXED);", ";",
        ),
        Mutant(
            "leave-still-counted", "pages that a group has destroyed count as gone when they are back",
            "uncount_leave",
            "mmsb__context_add(mmsb__record_context(MMSB__HANDLE_INDEX(undo->page)), 0, -UINT64_C(1), 0, -undo->length);", ";",
        ),
        Mutant(
            "destroys-not-undone", "pages that a group has destroyed do not come back",
            "undo_leave", "mmsb__record_become(mmsb__record_of(undo->page), undo->version);", ";",
        ),
        Mutant(
            "creates-not-undone", "pages that a group has made stay",
            "undo_change", "mmsb__page_end_locked(undo->page, state);", "mmsb__page_unlock_record(record, state);",
        ),
    ),
)  # fmt: skip
