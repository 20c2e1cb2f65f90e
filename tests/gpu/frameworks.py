"""libmmsb beside PyTorch, CuPy, Numba and JAX on GPU 0, each where it is installed.

Each check has a line, "not run: " with the reason where a library or a GPU is missing. NAMES on the command line choose checks.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mmsb

MIB = 1 << 20
CHECKS: dict[str, tuple[tuple[str, ...], Callable[..., None]]] = {}


def needs(*modules: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A check that gets these modules."""

    def listed(check: Callable[..., None]) -> Callable[..., None]:
        CHECKS[check.__name__] = (modules, check)
        return check

    return listed


class Interface:
    """An array that has __cuda_array_interface__ only."""

    def __init__(self, **found: Any) -> None:
        self.__cuda_array_interface__ = {"version": 3, "strides": None, **found}


def comes_back(tree: dict[str, Any], change: Callable[[], object], look: Callable[[Any], Any]) -> None:
    """Saves arrays, changes them and fills them again, at once and by a tracker. look: gives one's numbers as NumPy's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        wanted = {name: look(array).copy() for name, array in tree.items()}

        def check() -> None:
            for name, array in tree.items():
                assert (look(array) == wanted[name]).all(), name

        mmsb.state.save(path, tree)
        change()
        assert not any((look(array) == wanted[name]).all() for name, array in tree.items())
        mmsb.state.load_into(path, tree)
        check()
        with mmsb.state.track(tree) as tracker:
            change()
            tracker.save(Path(folder) / "changed")
            tracker.load(path)
        check()


@needs("torch")
def tensors_become_pages(torch: Any) -> None:
    with mmsb.Context(simulate="off") as ctx:
        tensor = torch.arange(1 << 20, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        page = ctx.adopt(tensor)
        assert (page.location, page.size) == ("gpu", 4 << 20), (page.location, page.size)
        page.write(0, b"\1\0\0\0\2\0\0\0")
        page.apply(mmsb.Delta.runs([(4 << 19, b"\7\0\0\0")]))
        assert tensor[:2].tolist() == [1, 2] and tensor[1 << 19].item() == 7
        tensor += 1
        torch.cuda.synchronize()
        assert page.read(0, 8) == b"\2\0\0\0\3\0\0\0"
        strided = torch.zeros(8, 6, device="cuda").t()
        assert ctx.adopt(strided).size == 192
        try:
            ctx.adopt(torch.zeros(8, 6, device="cuda")[:, ::2])
        except mmsb.UnsupportedError:
            pass
        else:
            raise AssertionError("a tensor with gaps was adopted")
        page.destroy()


@needs("torch")
def pages_become_tensors(torch: Any) -> None:
    with mmsb.Context(simulate="off") as ctx:
        page = ctx.create_page(4 * MIB, location="gpu")
        tensor = torch.from_dlpack(page.view("float32", (1024, 1024)))
        assert tensor.is_cuda and tensor.shape == (1024, 1024)
        assert tensor.data_ptr() == torch.as_tensor(page.view("float32", (1024, 1024)), device="cuda").data_ptr()
        tensor[3, 4] = 2.5
        torch.cuda.synchronize()
        assert page.read(4 * (3 * 1024 + 4), 4) == b"\0\0\x20\x40"
        try:
            page.destroy()
        except mmsb.BusyError:
            pass
        else:
            raise AssertionError("a page with a tensor on it was destroyed")
        del tensor
        gc.collect()
        page.destroy()
        for location in ("pinned", "unified", "cpu"):
            page = ctx.create_page(4096, location=location)
            view = page.view("uint8", (4096,))
            tensor = torch.as_tensor(view, device="cuda") if location == "unified" else torch.from_dlpack(view)
            tensor.fill_(3)
            torch.cuda.synchronize()
            assert page.read(0, 4096) == b"\3" * 4096, location
            assert tensor.is_cuda == (location == "unified")
            assert location != "pinned" or tensor.is_pinned()
            del tensor


@needs("torch")
def blocks_work_with_tensors(torch: Any) -> None:
    with mmsb.Context(simulate="off") as ctx, ctx.create_runtime(pool="") as runtime:
        side = torch.cuda.Stream()
        stream = runtime.wrap(side)
        block = stream.allocate(4 * MIB)
        with torch.cuda.stream(side):
            source = torch.randn(1 << 20, device="cuda")
            for _ in range(20):
                source = source * 1.01
        with stream.use((block, "write")):
            stream.copy(block, source)
        tensor = torch.from_dlpack(block.view("float32", (1 << 20,)))
        side.synchronize()
        assert torch.equal(tensor, source)
        own = runtime.stream()
        other = own.allocate(4 * MIB)
        with torch.cuda.stream(side):
            for _ in range(50):
                source = source + 1
        own.after(side)
        own.copy(other, source)
        own.wait()
        assert torch.equal(torch.from_dlpack(other.view("float32", (1 << 20,))), source)
        block.free()
        del tensor
        gc.collect()
        other.free()


@needs("torch")
def a_training_is_saved_and_goes_on(torch: Any) -> None:
    def network() -> tuple[Any, Any]:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).cuda()
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(model: Any, optimizer: Any, number: int) -> None:
        torch.manual_seed(number)
        data = torch.randn(64, 512, device="cuda")
        loss = ((model(data) - data) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    with tempfile.TemporaryDirectory() as folder:
        model, optimizer = network()
        for number in range(10):
            step(model, optimizer, number)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 10}
        mmsb.state.save(Path(folder) / "first", state)
        for number in range(10, 20):
            step(model, optimizer, number)
        wanted = [p.detach().cpu() for p in model.parameters()]
        again, optimizer = network()
        stored = mmsb.state.load(Path(folder) / "first", convert=lambda array: torch.from_numpy(array.copy()))
        again.load_state_dict(stored["model"])
        optimizer.load_state_dict(stored["optimizer"])
        for number in range(stored["step"], 20):
            step(again, optimizer, number)
        for a, b in zip(wanted, again.parameters(), strict=True):
            assert torch.equal(a, b.detach().cpu())
        # Live and incremental, from the memory of the device.
        with mmsb.state.track({"model": dict(again.named_parameters())}) as tracker:
            tracker.save(Path(folder) / "second")
            with torch.no_grad():
                next(again.parameters())[0, :] += 1
            torch.cuda.synchronize()
            tracker.save(Path(folder) / "third", base=Path(folder) / "second")
            third = mmsb.state.load(Path(folder) / "third")
            name = next(iter(third["model"]))
            assert torch.equal(torch.from_numpy(third["model"][name].copy()), next(again.parameters()).detach().cpu())
            sizes = [os.stat(Path(folder) / name).st_size for name in ("second", "third")]
            assert sizes[1] < sizes[0] / 4, sizes


@needs("torch")
def tensors_are_filled(torch: Any) -> None:
    def make() -> Any:
        return torch.arange(1, 13, dtype=torch.float32, device="cuda").reshape(3, 4)

    tree = {
        "rows": make(),
        "columns": make().T,
        "gaps": make()[:, ::2],
        "conj": torch.complex(make(), make() + 1).conj(),
        "half": make().bfloat16(),
        "weight": torch.nn.Parameter(make()),
    }

    def look(tensor: Any) -> Any:
        tensor = tensor.detach().cpu().resolve_conj()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    comes_back(tree, lambda: [tensor.detach().mul_(2) for tensor in tree.values()], look)


@needs("numpy")
def interfaces_are_filled(numpy: Any) -> None:
    """Views of pages, and memory that has nothing but __cuda_array_interface__, which a stream still writes."""
    numbers = numpy.arange(1, 13, dtype="f4").reshape(3, 4)
    with mmsb.Context(simulate="off") as ctx, ctx.create_runtime(pool="") as runtime:
        stream = runtime.stream()
        page, block = ctx.create_page(48, location="gpu"), stream.allocate(48)
        columns = {"shape": (4, 3), "typestr": "<f4", "strides": (4, 16), "stream": stream.native}
        tree = {"view": page.view("float32", (3, 4)), "columns": Interface(data=(block.address, False), **columns)}

        def write(what: Any) -> None:
            page.write(0, what)
            stream.copy(block, what)

        def look(array: Any) -> Any:
            shown = page.read() if array is tree["view"] else stream.read(block)
            return numpy.frombuffer(shown, "f4").reshape(3, 4)

        write(numbers)
        comes_back(tree, lambda: write(numbers * 2), look)


@needs("torch")
def all_memory_of_tensors_is_ours(torch: Any) -> None:
    """PyTorch's own cache over our segments: a network is trained within them."""
    context = mmsb.Context(simulate="off")
    runtime = context.create_runtime(device=0, pool="")
    pool = mmsb.plugins.torch_mempool(runtime)
    with torch.cuda.use_mem_pool(pool):
        model = torch.nn.Linear(1024, 1024, device="cuda")
        data = torch.randn(256, 1024, device="cuda")
        for _ in range(20):
            ((model(data) - data) ** 2).mean().backward()
    torch.cuda.synchronize()
    assert runtime.stats().live > 4 * MIB
    print(f"    {runtime.stats().live >> 20} MiB in segments")


@needs("cupy")
def cupy_and_pages(cupy: Any) -> None:
    with mmsb.Context(simulate="off") as ctx:
        array = cupy.arange(1000, dtype="int64")
        cupy.cuda.Device().synchronize()
        page = ctx.adopt(array)
        page.write(0, (5).to_bytes(8, "little"))
        assert int(array[0]) == 5 and page.location == "gpu"
        page.destroy()
        page = ctx.create_page(8000, location="gpu")
        for made in (cupy.from_dlpack(page.view("int64", (1000,))), cupy.asarray(page.view("int64", (1000,)))):
            made[:] = cupy.arange(1000)
            cupy.cuda.Device().synchronize()
            assert page.read(8 * 999, 2) == (999).to_bytes(2, "little")
            made[:] = 0
        del made
        gc.collect()
        one, other = cupy.arange(1, 13, dtype="float32").reshape(3, 4), cupy.asfortranarray(cupy.ones((3, 4)))
        tree = {"a": one, "f": other, "interface": Interface(**one.__cuda_array_interface__)}

        def change() -> None:
            one[:] = one * 2
            other[:] = other * 2

        comes_back(tree, change, lambda of: cupy.asarray(of).get())
        with ctx.create_runtime(pool="") as runtime, cupy.cuda.Stream(non_blocking=True) as own:
            stream = runtime.stream()
            numbers = cupy.zeros(1 << 20, dtype="int32")
            for _ in range(50):
                numbers += 1
            block = stream.allocate(4 * MIB)
            stream.after(own)
            stream.copy(block, numbers)
            assert stream.read(block, 4) == b"\x32\0\0\0"
            block.free()


@needs("numba.cuda", "numpy")
def numba_and_pages(cuda: Any, numpy: Any) -> None:
    with mmsb.Context(simulate="off") as ctx:
        array = cuda.to_device(numpy.arange(1000, dtype="int64"))
        page = ctx.adopt(array)
        page.write(0, (5).to_bytes(8, "little"))
        assert array.copy_to_host()[0] == 5
        page.destroy()
        page = ctx.create_page(8000, location="gpu")
        cuda.as_cuda_array(page.view("int64", (1000,))).copy_to_device(numpy.arange(1000))
        cuda.synchronize()  # bytes of pageable memory may still be on their way
        assert page.read(8 * 999, 2) == (999).to_bytes(2, "little")
        array = cuda.to_device(numpy.arange(1, 13, dtype="f4"))
        tree = {"a": array, "interface": Interface(**array.__cuda_array_interface__)}
        comes_back(tree, lambda: array.copy_to_device(numpy.zeros(12, "f4")), lambda _: array.copy_to_host())


@needs("jax")
def jax_and_pages(jax: Any) -> None:
    if jax.default_backend() != "gpu":
        raise ModuleNotFoundError(f"JAX has the backend {jax.default_backend()}")
    with mmsb.Context(simulate="off") as ctx:
        array = jax.numpy.arange(1000, dtype="int32").block_until_ready()
        page = ctx.adopt(array, read_only=True)
        assert page.location == "gpu" and page.read(4, 4) == b"\1\0\0\0"
        page.destroy()
        page = ctx.create_page(4000, location="gpu")
        page.write(0, b"\3" * 4000)
        made = jax.dlpack.from_dlpack(page.view("int32", (1000,)))
        assert made[999] == 0x03030303
        del made
        gc.collect()
        with tempfile.TemporaryDirectory() as folder:
            mmsb.state.save(Path(folder) / "state", {"a": array})
            assert mmsb.state.load(Path(folder) / "state")["a"].sum() == 499500


@needs()
def memory_sleeps_and_wakes() -> None:
    with mmsb.Context(simulate="off") as ctx, ctx.create_runtime(pool="") as runtime:
        stream = runtime.stream()
        runtime.partition("weights", "cache")
        blocks = [stream.allocate(32 * MIB, tag="weights") for _ in range(8)]
        caches = [stream.allocate(32 * MIB, tag="cache") for _ in range(8)]
        for number, block in enumerate(blocks):
            stream.fill(block, number + 1)
        stream.wait()
        free = ctx.devices()[0].free_bytes
        addresses = [block.address for block in blocks + caches]
        runtime.sleep("weights")
        runtime.sleep("cache", keep=False)
        asleep = ctx.devices()[0].free_bytes
        assert asleep - free >= 500 * MIB, asleep - free
        runtime.wake("weights", "cache")
        assert [block.address for block in blocks + caches] == addresses
        for number, block in enumerate(blocks):
            assert stream.read(block, 16, 32 * MIB - 16) == bytes([number + 1]) * 16
        print(f"    {(asleep - free) >> 20} MiB were the device's")


def main() -> int:
    capability = mmsb.capabilities()["cuda"]
    passed = failed = 0
    for name, (modules, check) in CHECKS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if not capability.available:
            print(f"not run: {name}: {capability.reason}")
            continue
        try:
            check(*map(importlib.import_module, modules))
        except ModuleNotFoundError as error:
            print(f"not run: {name}: {error}")
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}")
        else:
            passed += 1
            print(f"ok      {name}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
