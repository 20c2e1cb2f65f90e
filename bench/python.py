"""What the way from Python costs, for information: a call by ctypes, and a MiB moved by page.write against NumPy's copy."""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import mmsb
import numpy as np

QUICK = os.environ.get("BENCH_QUICK", "0") not in ("", "0")
FILTER = os.environ.get("BENCH_FILTER", "")
ROUNDS = 3 if QUICK else 15
SLICE = 1e6 if QUICK else 20e6
MIB = 1 << 20

Work = Callable[[int], None]


def timed(work: Work, count: int) -> float:
    start = time.perf_counter_ns()
    work(count)
    return (time.perf_counter_ns() - start) / count


def fitting(work: Work) -> int:
    count = 1
    while (spent := timed(work, count) * count) < SLICE / 4:
        count *= 2
    return max(1, int(count * SLICE / spent))


def row(what: str, peer_name: str, ours: Work, peer: Work, check: Callable[[], bool] = lambda: True) -> None:
    if FILTER not in what:
        return
    counts = fitting(ours), fitting(peer)
    values: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for part in (0, 1) if turn % 2 == 0 else (1, 0):
            values[part].append(timed((ours, peer)[part], counts[part]))
    if not check():
        raise SystemExit(f"bench: {what}: the page has other bytes than were written")
    ratio = statistics.median(a / b for a, b in zip(*values))
    record: dict[str, Any] = {"kind": "row", "what": what, "unit": "ns", "peer_name": peer_name}
    record |= {"ours": statistics.median(values[0]), "peer": statistics.median(values[1]), "ratio": ratio}
    print(json.dumps(record | {"verdict": "information"}))


def repeat(call: Callable[[], object]) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            call()

    return work


def main() -> None:
    library = ctypes.CDLL(os.environ["MMSB_LIBRARY"])
    library.mmsb_abi_version.restype = ctypes.c_uint32
    library.mmsb_abi_version.argtypes = []
    empty = ctypes.CDLL(os.path.join(os.environ["BENCH_BUILD"], "libbench_empty.so"))
    empty.bench_empty_number.restype = ctypes.c_uint32
    empty.bench_empty_number.argtypes = []
    empty.bench_empty_call.restype = ctypes.c_uint64
    empty.bench_empty_call.argtypes = [ctypes.c_uint64]

    print(json.dumps({"kind": "fact", "name": "numpy", "value": np.__version__}))
    with mmsb.Context() as context:
        page = context.create_page(MIB)
        source = np.random.default_rng(1).integers(0, 256, MIB, dtype=np.uint8)
        target = np.zeros(MIB, dtype=np.uint8)
        view = np.asarray(page)

        row(
            "python: mmsb_abi_version by ctypes",
            "an empty C function by ctypes",
            repeat(library.mmsb_abi_version),
            repeat(empty.bench_empty_number),
        )
        row(
            "python: page.size",
            "an empty C function by ctypes",
            repeat(lambda: page.size),
            repeat(lambda: empty.bench_empty_call(1)),
        )
        row(
            "python: page.write of 1 MiB",
            "NumPy copy of 1 MiB",
            repeat(lambda: page.write(0, source)),
            repeat(lambda: np.copyto(target, source)),
            lambda: np.array_equal(view, source),
        )
        view[:] = 0
        row(
            "python: copy of 1 MiB into a view of a page",
            "NumPy copy of 1 MiB",
            repeat(lambda: np.copyto(view, source)),
            repeat(lambda: np.copyto(target, source)),
            lambda: page.read() == source.tobytes(),
        )
        large = context.create_page(1 << 30)
        row(
            "python: a page of 1 GiB to NumPy and back",
            "numpy.from_dlpack of an array of NumPy",
            repeat(lambda: context.adopt(np.from_dlpack(large)).destroy()),
            repeat(lambda: np.from_dlpack(target)),
        )
        arrays = [np.zeros(16) for _ in range(10_000)]
        row(
            "python: adopt_pages of 10 000 arrays, and their end",
            "a memoryview of each",
            repeat(lambda: context.destroy_pages(context.adopt_pages(arrays))),
            repeat(lambda: [memoryview(array) for array in arrays]),
        )


if __name__ == "__main__":
    main()
