"""Bugs in the opening of a journal's directory: in what an opening that fails takes away, and in who has the lock."""

from mutation import Mutant
from subject import Go

TESTS = "Leave|ALock"

OPENINGS = Go(
    name="openings",
    folders=("core/journal",),
    package="core/journal",
    mode=TESTS,
    sound=(TESTS,),
    mutants=(
        Mutant(
            "lock-of-a-removed-file", "a lock counts although its file has no name any more",
            "lockFile", "err = isNamed(fs, ours, path)", "_ = isNamed(fs, ours, path)",
        ),
        Mutant(
            "removed-file-is-not-made-again", "an opening ends where another one has removed what it had made",
            "Writer.takeLock", "err != syscall.ENOENT", "true",
        ),
        Mutant(
            "lock-file-stays", "an opening that fails leaves its lock file behind",
            "Writer.undo", "w.made.lock", "false",
        ),
        Mutant(
            "directory-stays", "an opening that fails leaves its directory behind",
            "Writer.undo", "w.made.directory", "false",
        ),
        Mutant(
            "ring-stays", "an opening that fails leaves its ring behind",
            "Writer.undo", "w.made.ring", "false",
        ),
        Mutant(
            "segment-stays", "an opening that fails leaves its segment behind",
            "Writer.undo", "w.begun", "false",
        ),
        Mutant(
            "a-directory-of-others-goes", "an opening that fails removes a directory that was there",
            "Writer.undo", "w.made.directory", "true",
        ),
    ),
)  # fmt: skip
