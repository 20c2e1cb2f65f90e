"""Memory of GPU 0 from Python: libmmsb beside PyTorch's allocator, CuPy's pool and the driver's ordered one. A table for each.

The workloads are those of RMM's benchmarks (github.com/rapidsai/rmm, cpp/benchmarks). random_allocations: allocations of random
sizes and frees take turns. multi_stream: each turn takes 8 bytes on the next of some streams, runs a kernel and gives them back.
replay: of traces, which arguments name. Each allocator is called as its users do; what a loop without one takes is beside it. Who
is not installed is left out, with a line. Medians of three rounds behind a first one.
"""

from __future__ import annotations

import csv
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mmsb

MIB = 1 << 20
LIVE = 16_000 * MIB
RELEASE_THRESHOLD = 4  # cudaMemPoolAttrReleaseThreshold
Allocate = Callable[[int, int], Any]  # of a number of bytes, on the stream with a number
Free = Callable[[Any, int], None]
Allocator = tuple[Allocate, Free]


def of_none(streams: list[int]) -> Iterator[Allocator]:
    yield lambda size, stream: size, lambda memory, stream: None


def of_mmsb(streams: list[int]) -> Iterator[Allocator]:
    with mmsb.Context(simulate="off") as context, context.create_runtime(pool="") as runtime:
        wrapped = [runtime.wrap(stream) for stream in streams]
        yield lambda size, stream: wrapped[stream].allocate(size), lambda block, stream: block.free()


def of_torch(streams: list[int]) -> Iterator[Allocator]:
    import torch

    wrapped = [torch.cuda.ExternalStream(stream) for stream in streams]
    allocate, free = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    yield lambda size, stream: allocate(size, 0, wrapped[stream]), lambda address, stream: free(address)
    torch.cuda.empty_cache()


def of_cupy(streams: list[int]) -> Iterator[Allocator]:
    import cupy

    pool = cupy.cuda.MemoryPool()
    wrapped = [cupy.cuda.ExternalStream(stream) for stream in streams]

    def allocate(size: int, stream: int) -> Any:
        with wrapped[stream]:
            return pool.malloc(size)

    yield allocate, lambda memory, stream: None  # it goes with its last name
    pool.free_all_blocks()


def of_driver(streams: list[int]) -> Iterator[Allocator]:
    import cupy

    runtime = cupy.cuda.runtime
    pool = runtime.deviceGetDefaultMemPool(0)
    runtime.memPoolSetAttribute(pool, RELEASE_THRESHOLD, (1 << 64) - 1)  # it keeps what it has, as the others do
    yield (
        lambda size, stream: runtime.mallocAsync(size, streams[stream]),
        lambda address, stream: runtime.freeAsync(address, streams[stream]),
    )
    runtime.deviceSynchronize()
    runtime.memPoolTrimTo(pool, 0)


Make = Callable[[list[int]], Iterator[Allocator]]  # for streams of the driver's
ALLOCATORS: dict[str, Make] = {
    "no allocator": of_none, "libmmsb": of_mmsb, "PyTorch": of_torch, "CuPy's pool": of_cupy, "cudaMallocAsync": of_driver,
}  # fmt: skip


def random_allocations(count: int, most: int) -> Callable[[Allocator], float]:
    def run(allocator: Allocator) -> float:
        allocate, free = allocator
        draw = random.Random(1)
        live: list[tuple[Any, int]] = []
        bytes_live = done = 0
        begin = time.perf_counter()
        for _ in range(2 * count):
            size, chance = draw.randint(1, most), draw.randrange(100)
            if not live or (chance < 73 and done < count and bytes_live + size < LIVE):
                live.append((allocate(size, 0), size))
                bytes_live += size
                done += 1
            else:
                i = draw.randrange(len(live))
                live[i], live[-1] = live[-1], live[i]
                memory, size = live.pop()
                bytes_live -= size
                free(memory, 0)
                del memory
        took = time.perf_counter() - begin
        while live:
            free(live.pop()[0], 0)
        return took / (2 * count)

    return run


SPIN = 'extern "C" __global__ void spin(long long clocks) { long long begin = clock64(); while (clock64() - begin < clocks); }'


def multi_stream(streams: list[int]) -> Callable[[Allocator], float]:
    def run(allocator: Allocator) -> float:
        import cupy

        spin = cupy.RawKernel(SPIN, "spin")
        own = [cupy.cuda.ExternalStream(stream) for stream in streams]
        spin((1,), (1,), (1,))
        allocate, free = allocator
        turns, rounds = 8, 50
        begin = time.perf_counter()
        for _ in range(rounds):
            for turn in range(turns):
                stream = turn % len(streams)
                memory = allocate(8, stream)
                with own[stream]:
                    spin((1,), (1,), (100_000,))
                free(memory, stream)
                del memory
            cupy.cuda.runtime.deviceSynchronize()
        return (time.perf_counter() - begin) / (rounds * turns)

    return run


def replay(path: Path) -> Callable[[Allocator], float]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(row["Action"], row["Pointer"], int(row["Size"])) for row in csv.DictReader(file) if row["Size"] != "0"]

    def run(allocator: Allocator) -> float:
        allocate, free = allocator
        live: dict[str, Any] = {}
        begin = time.perf_counter()
        for action, pointer, size in rows:
            if action == "allocate":
                live[pointer] = allocate(size, 0)
            elif pointer in live:
                free(live.pop(pointer), 0)
        took = time.perf_counter() - begin
        while live:
            free(live.popitem()[1], 0)
        return took / len(rows)

    return run


@contextmanager
def opened(make: Make, streams: list[int]) -> Iterator[Allocator]:
    yield from make(streams)


def table(name: str, run: Callable[[Allocator], float], streams: list[int]) -> bool:
    """A line for each allocator: microseconds for a call of it."""
    print(name)
    went_well = True
    for who, make in ALLOCATORS.items():
        try:
            with opened(make, streams) as allocator:
                run(allocator)
                took = statistics.median(run(allocator) for _ in range(3))
        except ImportError as error:
            print(f"    {who:16} not run: {error}")
        except Exception as error:
            went_well = False
            print(f"    {who:16} FAILED: {type(error).__name__}: {error}")
        else:
            print(f"    {who:16} {took * 1e6:8.2f} us")
        sys.stdout.flush()
    return went_well


def main() -> int:
    capability = mmsb.capabilities()["cuda"]
    if not capability.available:
        print(f"not run: {capability.reason}")
        return 0
    with mmsb.Context(simulate="off") as context, context.create_runtime() as runtime:
        kept = [runtime.stream() for _ in range(4)]
        streams = [stream.native for stream in kept]
        tables = [
            (f"random_allocations, {count} up to {most} MiB, a call", random_allocations(count, most * MIB))
            for count, most in ((1000, 1), (10_000, 1), (1000, 64), (10_000, 64))
        ]
        tables += [(f"multi_stream, {count} streams, a turn with its kernel", multi_stream(streams[:count])) for count in (1, 4)]
        tables += [(f"replay of {path}, a call", replay(Path(path))) for path in sys.argv[1:]]
        return not all([table(name, run, streams) for name, run in tables])


sys.exit(main())
