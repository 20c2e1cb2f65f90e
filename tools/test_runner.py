#!/usr/bin/env python3
"""Runs the suites of `make test` one after the other and adds up what they count.

A suite is a make target. It fails when it ends with a status other than 0, whatever it counted, and a suite that counts a
failure fails too. Counts are read from lines `N passed, M failed[, K skipped]` and from pytest's closing line.
"""

import re
import subprocess
import sys
import time

SUITES = [
    "check",
    "abi-check",
    "test-go",
    "test-race",
    "test-plants",
    "test-c",
    "test-asan",
    "test-tsan",
    "test-kernels",
    "test-fuzz",
    "test-crash",
    "test-python",
    "test-julia",
    "test-examples",
    "test-quickstarts",
    "test-install",
    "test-wheel",
    "test-gpu",
]

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


def run(suite: str) -> dict:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    command = ["make", "--no-print-directory", suite]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            count(line, counts)
            if line.startswith("not run: "):
                counts["skipped"] += 1
    if process.returncode != 0 and counts["failed"] == 0:
        counts["failed"] = 1
    return counts


def main(suites: list) -> int:
    total = {"passed": 0, "failed": 0, "skipped": 0}
    failed = []
    for suite in suites:
        print(f"---- {suite}", flush=True)
        start = time.monotonic()
        counts = run(suite)
        for name, number in counts.items():
            total[name] += number
        if counts["failed"]:
            failed.append(suite)
        print(f"---- {suite}: {'FAILED' if counts['failed'] else 'ok'}, {time.monotonic() - start:.0f} s\n", flush=True)
    if failed:
        print("failed suites: " + ", ".join(failed))
    print("skipped: what needs a GPU, for this machine has none" if total["skipped"] else "skipped: nothing")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if failed else 0


sys.exit(main(sys.argv[1:] or SUITES))
