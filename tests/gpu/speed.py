"""Speed of libmmsb beside PyTorch's own on GPU 0: memory, sleep, checkpoints. A line for each figure.

Figures that belong together are measured in turns, and are medians. FOLDER (argument, else the temporary one) gets the files.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mmsb

MIB, GIB = 1 << 20, 1 << 30


def seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def medians(turns: int, *calls: Callable[[], Any]) -> list[float]:
    """Of calls that take turns; the first turn does not count."""
    took = [[seconds(call) for call in calls] for _ in range(turns + 1)][1:]
    return [statistics.median(column) for column in zip(*took, strict=True)]


# ---------------------------------------------------------------------------------------------------------- memory

TRAIN = """
import sys, time, statistics, torch, mmsb
from mmsb import plugins
kind = sys.argv[1]
if kind != "own":
    context = mmsb.Context(simulate="off")
    runtime = context.create_runtime(device=0, pool=sys.argv[2] if len(sys.argv) > 2 else "")
if kind == "pluggable":
    torch.cuda.memory.change_current_allocator(plugins.torch_allocator(runtime))
def train():
    torch.manual_seed(1)
    layers = []
    for width in range(12):
        layers += [torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024), torch.nn.LayerNorm(1024)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    times = []
    for step in range(120):
        rows = 64 + 8 * (step * 37 % 61) # of another size in each step
        data = torch.randn(rows, 1024, device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = ((model(data) - data) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[20:]) * 1e3, float(loss)
if kind == "mempool":
    with torch.cuda.use_mem_pool(plugins.torch_mempool(runtime)):
        took, loss = train()
else:
    took, loss = train()
reserved = runtime.stats().pool_reserved if kind != "own" else torch.cuda.memory_reserved()
print(f"{took} {loss} {reserved}")
"""


def training() -> None:
    """A network of 12 blocks whose batches change: PyTorch's cache, ours below it, ours instead of it."""
    took: dict[str, list[list[float]]] = {"own": [], "mempool": [], "pluggable": []}
    for _ in range(2):
        for kind, list_of in took.items():
            said = subprocess.run([sys.executable, "-c", TRAIN, kind], capture_output=True, text=True, timeout=120, check=False)
            if said.returncode != 0:
                print(f"training, {kind}: FAILED: {said.stderr[-300:]}")
                continue
            list_of.append([float(word) for word in said.stdout.split()[-3:]])
    for kind, list_of in took.items():
        if list_of:
            ms, loss, reserved = (statistics.median(column) for column in zip(*list_of, strict=True))
            print(f"training step, {kind}: {ms:.3f} ms, loss {loss:.6f}, {reserved / MIB:.0f} MiB reserved")


def allocations(torch: Any) -> None:
    """Pairs of an allocation and a free from Python, and what the driver's ordered allocator takes."""
    with mmsb.Context(simulate="off") as context, context.create_runtime(pool="") as runtime:
        stream = runtime.stream()
        count = 2000
        for size in (512, 64 << 10, 4 * MIB, 64 * MIB):

            def ours(size: int = size) -> None:
                for _ in range(count):
                    stream.allocate(size).free()

            def theirs(size: int = size) -> None:
                for _ in range(count):
                    torch.empty(size, dtype=torch.uint8, device="cuda")

            mine, other = medians(5, ours, theirs)
            mine, other = mine / count * 1e6, other / count * 1e6
            print(f"allocate and free {size} bytes from Python: {mine:.2f} us, torch.empty {other:.2f} us")


def sleeping(torch: Any) -> None:
    size, count = 64 * MIB, 32
    with mmsb.Context(simulate="off") as context, context.create_runtime(pool="") as runtime:
        runtime.partition("weights")
        stream = runtime.stream()
        blocks = [stream.allocate(size, tag="weights") for _ in range(count)]
        stream.wait()
        device = torch.empty(size * count, dtype=torch.uint8, device="cuda")
        host = torch.empty(size * count, dtype=torch.uint8, pin_memory=True)

        def raw_down() -> None:
            host.copy_(device, non_blocking=True)
            torch.cuda.synchronize()

        def raw_up() -> None:
            device.copy_(host, non_blocking=True)
            torch.cuda.synchronize()

        first = seconds(lambda: runtime.sleep("weights"))
        print(f"first sleep of 2 GiB, which pins them: {size * count / first / 1e9:.1f} GB/s")
        runtime.wake("weights")
        down, copied_down, up, copied_up = medians(
            5, lambda: runtime.sleep("weights"), raw_down, lambda: runtime.wake("weights"), raw_up
        )
        for what, took, raw in (("sleep", down, copied_down), ("wake", up, copied_up)):
            bytes_moved = size * count
            print(f"{what} of 2 GiB kept: {bytes_moved / took / 1e9:.1f} GB/s, a pinned copy {bytes_moved / raw / 1e9:.1f} GB/s")
        for block in blocks:
            block.free()


# ------------------------------------------------------------------------------------------------------ checkpoints


def page_and_tensor(torch: Any) -> None:
    with mmsb.Context(simulate="off") as context:
        page = context.create_page(GIB, location="gpu")
        tensor = torch.zeros(GIB, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()

        def there() -> None:
            torch.from_dlpack(page)

        def back() -> None:
            context.adopt(tensor).destroy()

        to, fro = medians(300, there, back)
        print(f"a page of 1 GiB becomes a tensor: {to * 1e6:.1f} us; a tensor a page, which ends: {fro * 1e6:.1f} us")


def synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def checkpoints(torch: Any, folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tree = {f"layer{i}": torch.randint(0, 255, (4 * MIB,), dtype=torch.uint8, device="cuda") for i in range(256)}
    torch.cuda.synchronize()

    def ours() -> None:
        mmsb.state.save(folder / "ours", tree)

    def theirs() -> None:
        torch.save(tree, folder / "theirs")
        synced(folder / "theirs")

    def tensors() -> None:
        save_file(tree, folder / "tensors")
        synced(folder / "tensors")

    def raw() -> None:
        host = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
        host.zero_()
        with open(folder / "raw", "wb", buffering=0) as file:
            file.write(host.numpy().data)
        synced(folder / "raw")

    mine, pickled, safe, written = medians(3, ours, theirs, tensors, raw)
    print(f"save 1 GiB of 256 tensors: {mine:.3f} s; torch.save {pickled:.3f} s; safetensors {safe:.3f} s; raw {written:.3f} s")
    with mmsb.state.track(tree) as tracker:
        tracker.save(folder / "base")
        names = iter([folder / f"next{i}" for i in range(10)])
        last = [folder / "base"]

        def again() -> None:
            for i in range(5):  # 2 % of the bytes
                tree[f"layer{i * 50}"].add_(1)
            torch.cuda.synchronize()
            following = next(names)
            tracker.save(following, base=last[0])
            last[0] = following

        (incremental,) = medians(5, again)
    print(f"save it again with 2 % changed: {incremental * 1e3:.1f} ms, {mine / incremental:.1f} times as fast as whole")
    for tensor in tree.values():
        tensor.zero_()

    def load_mine() -> None:
        mmsb.state.load_into(folder / "ours", tree)
        torch.cuda.synchronize()

    def load_theirs() -> None:
        torch.load(folder / "theirs", map_location="cuda")
        torch.cuda.synchronize()

    def load_safe() -> None:
        load_file(folder / "tensors", device="cuda")
        torch.cuda.synchronize()

    mine, pickled, safe = medians(3, load_mine, load_theirs, load_safe)
    print(f"load it to the GPU: {mine:.3f} s; torch.load {pickled:.3f} s; safetensors {safe:.3f} s")


def main() -> int:
    import torch

    capability = mmsb.capabilities()["cuda"]
    if not capability.available:
        print(f"not run: {capability.reason}")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        for measure in (
            lambda: page_and_tensor(torch), lambda: allocations(torch), lambda: sleeping(torch),
            lambda: checkpoints(torch, Path(folder)), training,
        ):  # fmt: skip
            try:
                measure()
            except Exception as error:
                failed += 1
                print(f"FAILED: {type(error).__name__}: {error}")
            sys.stdout.flush()
    return failed > 0


sys.exit(main())
