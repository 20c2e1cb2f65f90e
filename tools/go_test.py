#!/usr/bin/env python3
"""go_test.py ARGUMENTS: runs `go test ARGUMENTS`, shows what failed or was skipped, and ends with `N passed, M failed`.

Of tests that pass, lines are shown that they log as `report: text`.
A package that does not build, or dies outside a test, counts as one failure.
"""

import json
import subprocess
import sys

REPORT = ": report: "


def main(arguments: list) -> int:
    # A package may take as long as a slow machine needs that does other work beside it; go's own limit is ten minutes.
    command = ["go", "test", "-json", "-timeout", "60m", *arguments]
    counts = {"pass": 0, "fail": 0, "skip": 0}
    output = {}
    failed_in = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                print(line, end="")
                continue
            package, test, action = event.get("Package", ""), event.get("Test"), event["Action"]
            if action == "build-output":
                print(event["Output"], end="")
            elif action == "output":
                output.setdefault((package, test), []).append(event["Output"])
            elif action in counts:
                lines = output.pop((package, test), [])
                if test is None:
                    if action == "fail" and package not in failed_in:
                        counts["fail"] += 1
                        print("".join(lines), end="")
                    elapsed = event.get("Elapsed", 0)
                    print(f"{action:4} {package} {elapsed:.1f}s", flush=True)
                else:
                    counts[action] += 1
                    if action == "fail":
                        failed_in.add(package)
                    if action != "pass":
                        print("".join(lines), end="")
                    else:
                        print("".join(f"{test}: {line.split(REPORT, 1)[1]}" for line in lines if REPORT in line), end="")
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    print(f"{counts['pass']} passed, {counts['fail']} failed{skipped}")
    return process.returncode or (1 if counts["fail"] else 0)


sys.exit(main(sys.argv[1:]))
