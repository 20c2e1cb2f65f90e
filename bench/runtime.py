"""Host cost of the device runtime inside Go, on a simulated device that takes no time: rows of gpu/runtime/bench_test.go."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess

QUICK = os.environ.get("BENCH_QUICK", "0") not in ("", "0")
FILTER = os.environ.get("BENCH_FILTER", "")
NOTE = "inside Go; the simulated device takes no time and checks nothing; medians of rounds in turns"
ALLOCATE = "device runtime: allocate and free, budget and statistics, {} live blocks"
USE = "device runtime: begin and end a use that waits for nobody"
FLAT = "device runtime: allocate and free, 100 000 live blocks to 100"


def emit(what: str, value: float, unit: str, bound: float) -> None:
    row = {
        "kind": "row",
        "what": what,
        "ours": value,
        "unit": unit,
        "aim": "at most",
        "aim_of": "value",
        "bound": bound,
        "note": NOTE,
    }
    verdict = "information" if QUICK else "reached" if value <= bound else "not reached"
    print(json.dumps(row | {"verdict": verdict}), flush=True)


def main() -> None:
    wanted = [ALLOCATE.format("100"), ALLOCATE.format("100 000"), FLAT, USE]
    if not any(FILTER in what for what in wanted):
        return
    command = ["go", "test", "-run", "^$", "-bench", "AllocateAndFree|Use$"]
    command += ["-benchtime", "1000x" if QUICK else "1s", "-count", "1" if QUICK else "5", "./gpu/runtime"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    times: dict[str, list[float]] = {}
    for name, time in re.findall(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", output, re.MULTILINE):
        times.setdefault(name, []).append(float(time))
    few, many, use = (
        statistics.median(times[name]) for name in ("AllocateAndFree/100_live", "AllocateAndFree/100000_live", "Use")
    )
    for what, value, unit, bound in zip(wanted, (few, many, many / few, use), ("ns", "ns", "times", "ns"), (300, 300, 1.5, 200)):
        if FILTER in what:
            emit(what, value, unit, bound)


main()
