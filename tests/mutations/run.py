#!/usr/bin/env python3
"""run.py [-v] [--share] [NAME...]: builds the subjects of the catalogue, and runs their tests without a bug and with each: every
bug must be caught. NAME is a subject or a mutant. -v says what caught each. --share takes a tenth of the subjects.

Ends with `planted bugs: caught N of N` and, where each run is a test, `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from arrow import ARROW
from captures import CAPTURES
from commands import COMMANDS, PROPAGATION
from device_ledgers import DEVICE_LEDGERS, PENDING_MEMORY, WHOLE_SEGMENTS, WHOLE_SOURCES
from device_runtime import DEVICE_RUNTIME, LEDGERS, SIMULATED_DEVICE
from disk import DISK
from endings import ENDINGS, FAILED_JOURNALS
from files import (
    BUILT_GRAPHS,
    FAR_FILES,
    FILES,
    FOLLOWED_RINGS,
    KEYS_OF_METADATA,
    LONG_CHAINS,
    MASK_CLEARS,
    NEXT_WRITERS,
    ORIGINAL_FILES,
    PARKED_FILES,
    PLAIN_TEXTS,
    TORN_ENDS,
)
from gate import GATE
from grammar import GRAMMAR
from groups import GROUPS, UNDO
from guard import GUARD, GUARD_COUNT
from histories import HISTORIES, RECORDS
from hits import HITS, LEFT_TO_C
from ids import IDS
from journal import JOURNAL
from launches import COMPARISONS, LAUNCHES, TABLES
from library import LIBRARY, LIMITS
from loads import LOADS
from mutation import MisfitError, Mutant, Planting
from openings import OPENINGS
from pages import PAGES
from pictures import PICTURE_FILES, PICTURES, STATISTICS, WALKS
from plugins import ADDRESSES, FOREIGN_STREAMS, LENT_BLOCKS
from pools import POOL_LAYERS, POOLS
from records import LAST_NUMBERS, LONG_COPIES, RECORD_RULES, REPLAYED_CLONES, SEGMENT_ENDS, TOOL_CLONES
from sleeps import PARTITIONS, SLEEPS
from states import DISTRIBUTED, STATES
from stores import STORES
from subject import ROOT, Plantings, Python, Subject
from syncs import PAIRS, SYNCS
from tensors import TENSORS
from traces import REPLAYS, TRACES
from writing import WRITING

# Ten shares that take about as long, each with tests of few packages, which are built for it. One has all that need the library.
SHARES: list[list[Subject]] = [
    [LIBRARY, COMPARISONS, PROPAGATION, ARROW, TENSORS],
    [GRAMMAR, GATE],
    [SYNCS, PAIRS, PAGES, GUARD_COUNT],
    [STORES, JOURNAL],
    [HISTORIES, LOADS, FAILED_JOURNALS, WRITING, RECORDS, FAR_FILES, MASK_CLEARS, LONG_CHAINS, REPLAYED_CLONES],
    [HITS, DEVICE_RUNTIME, PICTURES, LENT_BLOCKS, WHOLE_SEGMENTS, POOLS, WALKS, PARTITIONS, STATISTICS, TABLES, LAUNCHES],
    [POOL_LAYERS, LEFT_TO_C, COMMANDS],
    [SLEEPS, SIMULATED_DEVICE, LEDGERS, DEVICE_LEDGERS, PENDING_MEMORY, WHOLE_SOURCES, REPLAYS, FOREIGN_STREAMS, ADDRESSES],
    [STATES, DISTRIBUTED, CAPTURES],
    [
        IDS,
        ENDINGS,
        GROUPS,
        UNDO,
        GUARD,
        DISK,
        OPENINGS,
        RECORD_RULES,
        TORN_ENDS,
        FOLLOWED_RINGS,
        NEXT_WRITERS,
        FILES,
        ORIGINAL_FILES,
        PARKED_FILES,
        KEYS_OF_METADATA,
        TRACES,
        PICTURE_FILES,
        BUILT_GRAPHS,
        PLAIN_TEXTS,
        TOOL_CLONES,
        LAST_NUMBERS,
        SEGMENT_ENDS,
        LONG_COPIES,
        LIMITS,
    ],
]
SUBJECTS = [subject for share in SHARES for subject in share]

WORK = ROOT / "build/mutations"
TOOK_TOO_LONG = 124  # exit status of timeout; a test that hangs has shown nothing
SAYS_WHY = re.compile(r"not true: .*|--- FAIL: .*|panic: .*|fatal error: .*")


class Tally:
    def __init__(self) -> None:
        self.passed = self.failed = 0
        self.bugs = dict.fromkeys(("Go", "C", "Python"), 0)
        self.caught = dict.fromkeys(("Go", "C", "Python"), 0)

    def count(self, good: bool, fault: str) -> None:
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {fault}", flush=True)


def execute(subject: Subject, work: Path, number: int, mode: str, seed: int, looking: bool = False) -> tuple[int, str]:
    """The exit status and the output of a run with the build's mutant with a number; 0 is none."""
    command, folder = subject.command(work, mode, seed, looking)
    limit = subject.seconds if looking else max(subject.seconds, subject.patience)
    result = subprocess.run(
        ["timeout", "-k", "5", str(limit), *command],
        cwd=folder, env={**os.environ, **subject.environment, "MMSB_MUTANT": str(number)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    return result.returncode, result.stdout


def look_for(subject: Subject, work: Path, number: int, mode: str) -> str:
    """What caught a mutant, which is looked for until the subject's patience ends; nothing where it was not caught."""
    end, seed = time.monotonic() + subject.patience, 1
    while True:
        status, output = execute(subject, work, number, mode, seed, looking=True)
        if status not in (0, TOOK_TOO_LONG):
            return f"run {seed}: {(SAYS_WHY.findall(output) or [f'exit status {status}'])[-1]}"
        if time.monotonic() >= end:
            return ""
        seed += 1


Chosen = list[tuple[int, Mutant]]  # with their numbers in the build


def run_build(subjects: list[Subject], names: set[str], tally: Tally, verbose: bool) -> None:
    """Builds what subjects share, and runs those that are named."""
    plantings: Plantings = {}
    chosen: list[tuple[Subject, Chosen]] = []
    first = 1
    for subject in subjects:
        plantings.setdefault(subject.language, []).append(Planting(first, subject.files(), subject.mutants))
        numbered = list(enumerate(subject.mutants, first))
        first += len(numbered)
        wanted = [(n, m) for n, m in numbered if not names or subject.name in names or m.name in names]
        if wanted:
            chosen.append((subject, wanted))
    if not chosen:
        return
    work = WORK / subjects[0].shares
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        subjects[0].build(work, plantings, [subject for subject, _ in chosen])
    except (MisfitError, subprocess.CalledProcessError) as problem:
        why = problem if isinstance(problem, MisfitError) else f"{problem.cmd[0]} failed"
        tally.count(False, f"{', '.join(subject.name for subject in subjects)}: cannot be built\n{why}")
        return
    ran: set[tuple[str, str]] = set()
    for subject, wanted in chosen:
        run_subject(subject, work, wanted, ran, tally, verbose)


def run_subject(subject: Subject, work: Path, chosen: Chosen, ran: set[tuple[str, str]], tally: Tally, verbose: bool) -> None:
    """Runs without a bug, but not what a subject that shares the build ran before, and with each."""
    start = time.monotonic()
    sound = [(0, f"no bug, mode {mode}", mode) for mode in subject.sound if (subject.package, mode) not in ran]
    ran.update((subject.package, mode) for mode in subject.sound)
    sound += [(number, mutant.bug, mutant.mode or subject.mode) for number, mutant in chosen if mutant.harmless]
    for number, what, mode in sound:
        status, output = execute(subject, work, number, mode, 1)
        tally.count(status == 0, f"{subject.name}: {what}: exit status {status}\n{output}")
    for number, mutant in chosen:
        if mutant.harmless:
            continue
        before = time.monotonic()
        caught = look_for(subject, work, number, mutant.mode or subject.mode)
        tally.bugs[subject.language] += 1
        tally.caught[subject.language] += bool(caught)
        tally.count(bool(caught), f"not caught: {subject.name}: {mutant.name}: {mutant.bug}")
        if caught and verbose:
            print(f"{time.monotonic() - before:6.1f} s  {subject.name}: {mutant.name}: {caught}", flush=True)
    print(f"{subject.name}: {len(chosen)} mutants, {time.monotonic() - start:.0f} s", flush=True)


def share() -> list[Subject]:
    """A tenth of the subjects, as tools/share.py chooses."""
    words = " / ".join(" ".join(subject.name for subject in row) for row in SHARES).split()
    command = [sys.executable, str(ROOT / "tools/share.py"), *words]
    chosen = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    print("`make mutants` has all subjects; here are, as the commit chooses: " + ", ".join(chosen), flush=True)
    return [subject for subject in SUBJECTS if subject.name in chosen]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", action="store_true", dest="verbose")
    parser.add_argument("--share", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    names = set(arguments.names)
    unknown = names - {subject.name for subject in SUBJECTS} - {mutant.name for subject in SUBJECTS for mutant in subject.mutants}
    if unknown:
        parser.error("in no catalogue: " + ", ".join(sorted(unknown)))
    tally = Tally()
    wanted = share() if arguments.share else SUBJECTS
    absent = [subject for subject in wanted if isinstance(subject, Python) and not subject.interpreter.exists()]
    for subject in absent:
        print(f"{subject.name}: left out, as {subject.interpreter.relative_to(ROOT)} is not there", flush=True)
    wanted = [subject for subject in wanted if subject not in absent]
    for shared in {subject.shares: None for subject in wanted}:
        run_build([subject for subject in wanted if subject.shares == shared], names, tally, arguments.verbose)
    for language, bugs in tally.bugs.items():
        print(f"planted bugs in {language}: caught {tally.caught[language]} of {bugs}")
    print(f"planted bugs: caught {sum(tally.caught.values())} of {sum(tally.bugs.values())}")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
