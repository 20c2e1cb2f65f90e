"""Bugs in saves that wait for those who write through pointers.

Threads that count words of several pages up together must show each.
"""

from mutation import Mutant
from subject import Go

WRITING = Go(
    name="writing",
    folders=("core/persist",),
    package="core/persist",
    mode="^TestRawWritersThatAreWaitedFor$",
    sound=("^TestRawWritersThatAreWaitedFor$",),
    mutants=(
        Mutant(
            "pins-are-not-waited-for",
            "the moment comes while pages are pinned for writing",
            "awaitWriters",
            "|| out.pinned()",
            "|| out.at > 0",
        ),
        Mutant(
            "large-pages-are-left-to-sections",
            "sections go on before the saver has the large pages that they may change",
            "keepWritten",
            "s.saveLarge(index)",
            "s.goesOn(s.work, uint64(index))",
        ),
        Mutant(
            "sections-go-on-at-the-moment",
            "sections go on as soon as the moment is over",
            "saver.begin",
            "native.LetWrite(s.context.Index(), native.LetsPins)",
            "s.letWrite()",
        ),
    ),
)
