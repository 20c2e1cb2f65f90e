"""Bugs in what happens to pages whose context has ended while they are pinned."""

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
