"""Pages in step between the host and a device: what a sync moves, in a context with simulated devices; and, inside Go, what
planning costs and how busy a batch keeps a modelled link (gpu/pages/link_test.go), whose best schedules are printed."""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import mmsb

QUICK = os.environ.get("BENCH_QUICK", "0") not in ("", "0")
FILTER = os.environ.get("BENCH_FILTER", "")
BUILD = os.environ.get("BENCH_BUILD", "")
GRANULE, RUN, SIZE = 64, 256, 16 << 20
MOVED = "sync: bytes moved, 1 % of a page of 16 MiB changed in runs of 256 bytes at random places"
JOURNAL = "sync: bytes over the link for a 64-byte delta of a device page of 1 MiB under a journal, the most of 100"
PLAN = "sync: listing and planning a range"
LINK = "sync: 1000 pages of 4 KiB {}, a modelled link of {} GB/s (PCIe {}), 8 us an operation"
OVERLAP = "sync: how much of a kernel beside that sync {} the link was busy (PCIe {})"
# What a link like PCIe 3.0 x1 must reach. Faster ones are for information: one thread packs, and the simulated device moves bytes
# with a processor, too.
LINKS = {"3.0_x1": 985, "3.0_x2": 1970, "3.0_x4": 3940}
NOTE = "inside Go; the best of 90 syncs: the machine does other work, too, and moves the bytes of the simulated device"
WAYS = {"to_device": "to the device", "to_host": "to the host"}


def emit(what: str, ours: float, unit: str, bound: float | None = None, aim: str = "at most", **more: Any) -> None:
    row: dict[str, Any] = {"kind": "row", "what": what, "ours": ours, "unit": unit} | more
    value = row.get("ratio", ours)
    reached = bound is not None and (value <= bound if aim == "at most" else value >= bound)
    if bound is not None:
        row |= {"aim": aim, "aim_of": "ratio" if "ratio" in row else "value", "bound": bound}
    verdict = "information" if QUICK or bound is None else "reached" if reached else "not reached"
    print(json.dumps(row | {"verdict": verdict}), flush=True)


def changed() -> None:
    with mmsb.Context(simulate="always", simulated_devices=1) as context:
        page = context.create_page(SIZE)
        page.sync("device")
        before, granules, seed = context.sync_stats().to_device_bytes, set[int](), random.Random(1)
        for _ in range(SIZE // 100 // RUN):
            offset = seed.randrange(SIZE - RUN)
            page.write(offset, seed.randbytes(RUN))
            granules.update(range(offset // GRANULE, (offset + RUN - 1) // GRANULE + 1))
        page.sync("device")
        moved = context.sync_stats().to_device_bytes - before
        peer = len(granules) * GRANULE
        name = "the changed bytes, rounded to 64"
        emit(MOVED, moved, "bytes", 1.05, peer=peer, ratio=moved / peer, peer_name=name)


def journaled() -> None:
    with tempfile.TemporaryDirectory() as folder, mmsb.Context(simulate="always", simulated_devices=1) as context:
        page = context.create_page(1 << 20, location="gpu")
        most, seed = 0, random.Random(2)
        with context.journal(folder):
            for _ in range(100):
                before = context.sync_stats()
                page.apply(mmsb.Delta.runs([(seed.randrange((1 << 20) - 64), seed.randbytes(64))]))
                after = context.sync_stats()
                moved = after.to_device_bytes - before.to_device_bytes + after.to_host_bytes - before.to_host_bytes
                most = max(most, moved)
    emit(JOURNAL, most, "bytes", 4096)


def measured(package: str, pattern: str, count: int) -> str:
    command = ["go", "test", "-run", "^$", "-v", "-bench", pattern]
    command += ["-benchtime", "1x" if QUICK or "Link" in pattern else "1s", "-count", str(count), package]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def metric(output: str, name: str, unit: str) -> list[float]:
    return [float(value) for value in re.findall(rf"^{name}\S*\s.*?([\d.]+) {unit}", output, re.MULTILINE)]


def inside_go() -> None:
    if FILTER in PLAN:
        count = 1 if QUICK else 5
        parts = (("./core/residency", "BenchmarkNewer"), ("./gpu/pages", "BenchmarkPlan"))
        sum_of = sum(statistics.median(metric(measured(package, f"{name}$", count), name, "ns/range")) for package, name in parts)
        emit(PLAN, sum_of, "ns", 50)
    wanted = [LINK.format(text, LINKS[link] / 1000, link.replace("_", " ")) for link in LINKS for text in WAYS.values()]
    wanted += [OVERLAP.format(text, link.replace("_", " ")) for link in LINKS for text in WAYS.values()]
    if not any(FILTER in what for what in wanted):
        return
    output = measured("./gpu/pages", "Link", 1 if QUICK else 3)
    schedules = "\n".join(line for line in output.splitlines() if not line.startswith(("goos", "goarch", "pkg", "cpu", "PASS")))
    print(schedules, file=sys.stderr)
    if BUILD:
        (Path(BUILD) / "schedules.txt").write_text(schedules)
    for link, speed in LINKS.items():
        for way, text in WAYS.items():
            row, name = LINK.format(text, speed / 1000, link.replace("_", " ")), f"BenchmarkLink/{link}/{way}"
            share = max(metric(output, name, "of_the_link"))
            bound = 0.9 if link == "3.0_x1" else None
            emit(row, share * speed, "MB/s", bound, "at least", peer=speed, ratio=share, peer_name="the modelled link", note=NOTE)
            overlap = max(metric(output, name, "of_the_kernel"))
            emit(OVERLAP.format(text, link.replace("_", " ")), overlap, "of it", 0.8 if bound else None, "at least")


def main() -> None:
    if FILTER in MOVED:
        changed()
    if FILTER in JOURNAL:
        journaled()
    inside_go()


main()
