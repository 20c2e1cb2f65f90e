#!/usr/bin/env python3
"""go_test.py ARGUMENTS: runs `go test ARGUMENTS`, shows what failed or was skipped, and ends with `N passed, M failed`.

A test that has subtests is not counted beside them, unless it failed by itself. Of tests that pass, lines are shown that they log
as `report: text`. A package that does not build, or dies outside a test, counts as one failure; so does a run without a test.
"""

import json
import subprocess
import sys

REPORT = ": report: "
LINES_OF_A_DEATH = 60


def around(test: str) -> list:
    """The tests that a subtest is in; a name with a slash of its own gives some more, which are none."""
    parts = test.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


class Tests:
    """What `go test -json` says of each test, and the count of them."""

    def __init__(self) -> None:
        self.counts = {"pass": 0, "fail": 0, "skip": 0}
        self.output: dict = {}
        self.parents: set = set()  # tests with subtests, which end before them
        self.failed_in: set = set()  # packages, and tests with a subtest that failed

    def take(self, event: dict) -> None:
        package, test, action = event.get("Package", ""), event.get("Test"), event["Action"]
        if action == "build-output":
            print(event["Output"], end="")
        elif action == "output":
            self.output.setdefault((package, test), []).append(event["Output"])
        elif action == "run":
            self.parents |= {(package, parent) for parent in around(test)}
        elif action in self.counts:
            lines = self.output.pop((package, test), [])
            if test is None:
                self.end_package(package, action, lines, event.get("Elapsed", 0))
            else:
                self.end_test(package, test, action, lines)

    def end_package(self, package: str, action: str, lines: list, elapsed: float) -> None:
        if action == "fail" and package not in self.failed_in:
            self.counts["fail"] += 1
            for test in [test for of, test in self.output if of == package]:  # it died within these
                print("".join(self.output.pop((package, test))[:LINES_OF_A_DEATH]), end="")
            print("".join(lines), end="")
        print(f"{action:4} {package} {elapsed:.1f}s", flush=True)

    def end_test(self, package: str, test: str, action: str, lines: list) -> None:
        has_subtests = (package, test) in self.parents
        if not has_subtests or (action == "fail" and (package, test) not in self.failed_in):
            self.counts[action] += 1
        if action == "fail":
            self.failed_in |= {package, *((package, parent) for parent in around(test))}
        if action == "pass":
            print("".join(f"{test}: {line.split(REPORT, 1)[1]}" for line in lines if REPORT in line), end="")
        else:
            print("".join(lines), end="")


def main(arguments: list) -> int:
    # A package may take as long as a slow machine needs that does other work beside it; go's own limit is ten minutes. Without
    # what only debuggers read, a program is linked in half the time.
    # No result of before is told again: Go knows nothing of what C code and other programs read, and what it writes down of the
    # files that a test opens is refused while the test lets the disk be full, which fails the package.
    command = ["go", "test", "-json", "-count=1", "-timeout", "60m", "-ldflags=-s -w", *arguments]
    tests = Tests()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                print(line, end="")
                continue
            tests.take(event)
    counts = tests.counts
    if not any(counts.values()):
        print("no test ran")
        counts["fail"] = 1
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    print(f"{counts['pass']} passed, {counts['fail']} failed{skipped}")
    return process.returncode or (1 if counts["fail"] else 0)


sys.exit(main(sys.argv[1:]))
