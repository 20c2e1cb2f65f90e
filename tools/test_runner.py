#!/usr/bin/env python3
"""Runs the suites of `make test`, four at a time, and adds up what they count.

A suite is a make target. What several need (the library in its builds, environments, test programs) is made first, once, by one
make. A suite's lines are shown when it has ended, so that they stay together. It fails when it ends with a status other than 0,
whatever it counted, and a suite that counts a failure, or nothing at all, fails too. Counts are read from lines
`N passed, M failed[, K skipped]` and from pytest's closing line; what is counted is tests (docs/testing.md).
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from share import shares

# The long ones first, so that none is left alone at the end.
SUITES = [
    "test-mutants",
    "test-race",
    "test-go",
    "test-examples",
    "test-systems",
    "test-fuzz",
    "test-asan",
    "check-rules",
    "test-julia",
    "test-python",
    "test-peers",
    "test-c",
    "test-tsan",
    "vet",
    "test-pictures",
    "test-jax",
    "test-crash",
    "test-kernels",
    "test-wheel",
    "abi-check",
    "test-quickstarts",
    "test-install",
    "test-dist",
    "test-gpu",
]
# A suite seldom keeps two processors busy all the time: it waits for a disk, or for a process that is killed, or has one thread.
TOGETHER = 4
MADE_TOGETHER = 3
NEEDED, NEEDED_BY_TESTS = 8_000_000_000, 2_000_000_000  # bytes

PLAIN = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?")
PYTEST = re.compile(r"(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s(?: \([\d:]+\))?(?: =+)?")
WORDS = {
    "passed": "passed",
    "xpassed": "failed",
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}


def count(line: str, counts: dict) -> None:
    text = re.sub(r"\x1b\[[\d;]*m", "", line).strip()
    if match := PLAIN.fullmatch(text):
        for name, number in zip(("passed", "failed", "skipped"), match.groups()):
            counts[name] += int(number or 0)
    elif match := PYTEST.fullmatch(text):
        for number, word in re.findall(r"(\d+) ([a-z]+)", match.group(1)):
            if word in WORDS:
                counts[WORDS[word]] += int(number)
    elif text.startswith("not run: "):
        counts["skipped"] += 1


class Made:
    """A make that has ended: its output, status, and how long it took, on the clock and on processors."""

    def __init__(self, *arguments: str) -> None:
        command = ["make", "--no-print-directory", *arguments]
        start = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        self.status = process.returncode = os.waitstatus_to_exitcode(status)
        self.took = (
            f"{time.monotonic() - start:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of processors (sys {usage.ru_stime:.0f})"
        )


def say_what_is_full() -> None:
    """A fresh clone has taken 6 GB for builds, and 1 GB at a time for tests; without, tests fail in ways that do not say so."""
    for folder, needed in ((".", NEEDED), (tempfile.gettempdir(), NEEDED_BY_TESTS)):
        free = shutil.disk_usage(folder).free
        if free < needed:
            print(f"---- {os.path.abspath(folder)} has {free / 1e9:.1f} GB free, {needed / 1e9:.0f} may be needed", flush=True)


def make_inputs(suites: list) -> bool:
    """Everything that the suites need, and none of them."""
    made = Made("--keep-going", f"--jobs={MADE_TOGETHER}", "--output-sync=target", "INPUTS_ONLY=yes", "all", *suites)
    print(f"{made.output}---- what the suites need: {made.took}\n", flush=True)
    return made.status == 0


def run(suite: str) -> dict:
    print(f"     {suite} …", flush=True)
    made = Made(suite)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for line in made.output.splitlines():
        count(line, counts)
    ran = f"{sum(counts.values())} tests" if any(counts.values()) else "no test ran"
    if (made.status != 0 and counts["failed"] == 0) or not any(counts.values()):
        counts["failed"] = 1
    verdict = "FAILED" if counts["failed"] else "ok"
    print(f"---- {suite}\n{made.output}---- {suite}: {verdict}, {ran}, {made.took}\n", flush=True)
    return counts


def processors_used(since: float) -> str:
    """How much of the time that passed on all processors was used: much less than all is a suite that is alone at the end."""
    took, usage = time.monotonic() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
    used, processors = usage.ru_utime + usage.ru_stime, len(os.sched_getaffinity(0))
    return f"all: {took:.0f} s, {used:.0f} s of processors, {100 * used / took / processors:.0f} % of {processors}"


# A commit has one of these: most need large downloads (the packages of other libraries, a browser, JAX), three build the library
# once more. The order is that of the Makefile's LONG_RACES, of which test-race has one by the same number, so that all take about
# as long.
IN_TURN = (
    ("test-race", "test-pictures"),
    ("test-race", "vet"),
    ("test-race", "test-dist"),
    ("test-race", "test-jax", "test-peers"),
    ("test-race", "test-wheel"),
    ("test-asan",),
)


def of_other_commits() -> set:
    mine = {suite for share in shares(len(IN_TURN)) for suite in IN_TURN[share]}
    return {suite for suites in IN_TURN for suite in suites} - mine


def main(suites: list) -> int:
    start = time.monotonic()
    say_what_is_full()
    # What could not be made, its suites try again and say: one after the other, as they would write the same files.
    together = TOGETHER if make_inputs(suites) else 1
    with ThreadPoolExecutor(together) as pool:
        results = dict(zip(suites, pool.map(run, suites)))
    total = {name: sum(counts[name] for counts in results.values()) for name in ("passed", "failed", "skipped")}
    print(processors_used(start))
    if failed := [suite for suite, counts in results.items() if counts["failed"]]:
        print("failed suites: " + ", ".join(failed))
    print("skipped: what this machine lacks: a GPU, or what the suites' lines name" if total["skipped"] else "skipped: nothing")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


sys.exit(main(sys.argv[1:] or [suite for suite in SUITES if suite not in of_other_commits()]))
