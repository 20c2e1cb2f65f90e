"""What the way from Python costs: a call beside bare ctypes, batches by the page, a MiB moved beside NumPy's copy.

Times are the processor's that the calling thread takes: all work of these calls is on it.
"""

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
    start = time.thread_time_ns()
    work(count)
    return (time.thread_time_ns() - start) / count


def fitting(work: Work) -> int:
    count = 1
    while (spent := timed(work, count) * count) < SLICE / 4:
        count *= 2
    return max(1, int(count * SLICE / spent))


def row(
    what: str,
    peer_name: str,
    ours: Work,
    peer: Work,
    check: Callable[[], bool] = lambda: True,
    *,
    ratio_at_most: float | None = None,
    at_most: float | None = None,
    pages: int = 1,
) -> None:
    """Measures both in turn. pages: of a call, each of which is counted; at_most: nanoseconds of ours."""
    if FILTER not in what:
        return
    counts = fitting(ours), fitting(peer)
    values: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for part in (0, 1) if turn % 2 == 0 else (1, 0):
            values[part].append(timed((ours, peer)[part], counts[part]) / pages)
    if not check():
        raise SystemExit(f"bench: {what}: the page has other bytes than were written")
    ratio = statistics.median(a / b for a, b in zip(*values))
    record: dict[str, Any] = {"kind": "row", "what": what, "unit": "ns", "peer_name": peer_name}
    record |= {"ours": statistics.median(values[0]), "peer": statistics.median(values[1]), "ratio": ratio}
    bound, judged = (at_most, record["ours"]) if ratio_at_most is None else (ratio_at_most, ratio)
    verdict = "information"
    if bound is not None:
        record |= {"aim_of": "value" if ratio_at_most is None else "ratio", "aim": "at most", "bound": bound}
        verdict = verdict if QUICK else "reached" if judged <= bound else "not reached"
    print(json.dumps(record | {"verdict": verdict}))


def repeat(call: Callable[[], object]) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            call()

    return work


def batches(context: mmsb.Context, library: ctypes.CDLL) -> None:
    """Calls for 1000 pages of 4 KiB, in nanoseconds for each page."""
    pages = context.create_pages(1000, 4096)
    ids = np.array([page.id for page in pages], np.uint64)
    first = np.zeros(len(pages), np.uint64)
    room = bytearray(64 * len(pages))
    one = bytes(64)
    found, bad = np.zeros(len(pages), np.uint64), ctypes.c_size_t()
    where = [ctypes.c_void_p(array.ctypes.data) for array in (ids, found)]
    handle = ctypes.c_uint64(context.handle)
    row(
        "python: 1000 pages by id, each",
        "mmsb_page_lookup_many by ctypes",
        repeat(lambda: context.lookup_many(ids)),
        repeat(lambda: library.mmsb_page_lookup_many(handle, where[0], ctypes.c_size_t(1000), where[1], ctypes.byref(bad))),
        lambda: found[-1] == pages.handles[-1],
        ratio_at_most=1.5,
        pages=len(pages),
    )
    row(
        "python: 1000 pages created and ended, each",
        "create_page and destroy of each",
        repeat(lambda: context.destroy_pages(context.create_pages(1000, 4096, zeroed=False))),
        repeat(lambda: [context.create_page(4096, zeroed=False).destroy() for _ in range(1000)]),
        at_most=60,
        pages=len(pages),
    )
    row(
        "python: runs of 64 bytes into 1000 pages, each",
        "page.write of each",
        repeat(lambda: context.apply_runs(pages, first, room, 64)),
        repeat(lambda: [page.write(0, one) for page in pages]),
        pages=len(pages),
    )
    context.destroy_pages(pages)


def there_and_back(library: str, from_dlpack: Callable[[Any], Any], array: Any) -> None:
    """A page of 1 GiB becomes an array of a library, and the array a page, which ends."""
    with mmsb.Context() as context:
        page = context.create_page(1 << 30)
        row(
            f"python: a page of 1 GiB to {library} and back",
            f"its from_dlpack of an array of {library}",
            repeat(lambda: context.adopt(from_dlpack(page)).destroy()),
            repeat(lambda: from_dlpack(array)),
            at_most=20e3,
        )


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
        library.mmsb_page_size.restype = ctypes.c_uint64
        library.mmsb_page_size.argtypes = [ctypes.c_uint64]
        handle = page.handle
        row(
            "python: page.size",
            "mmsb_page_size by ctypes",
            repeat(lambda: page.size),
            repeat(lambda: library.mmsb_page_size(handle)),
            ratio_at_most=1.5,
        )
        batches(context, library)
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
        there_and_back("NumPy", np.from_dlpack, target)
        arrays = [np.zeros(16) for _ in range(10_000)]
        row(
            "python: adopt_pages of 10 000 arrays, and their end",
            "a memoryview of each",
            repeat(lambda: context.destroy_pages(context.adopt_pages(arrays))),
            repeat(lambda: [memoryview(array) for array in arrays]),
            at_most=50e6,
        )


if __name__ == "__main__":
    main()
