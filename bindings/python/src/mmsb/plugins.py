"""Memory of a runtime for PyTorch, CuPy, Numba, RMM and cuda.core; docs/plug-ins.md has an example of each.

A function imports its library when it is called. What it returns keeps the runtime until the process ends, as the library may
have memory of it for as long. A runtime serves one device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

from ._convert import signed
from ._ffi import check, find_library, lib
from .context import Context
from .device import Runtime, cuda_stream

# What other libraries have pointers of.
_kept: list[Any] = []


def bind(device: int, runtime: Runtime | None) -> None:
    """Lets a runtime serve a device for PyTorch; None = none of the program's.

    A device that none serves gets a runtime with a pool at the first call that needs it.
    """
    check(lib.mmsb_plugin_bind(signed(device, "device"), runtime.handle if runtime else 0))
    _kept.append(runtime)


def _address_of(name: str) -> int:
    """The address of a function of the library."""
    return ctypes.cast(getattr(lib, name), ctypes.c_void_p).value or 0


def torch_allocator(runtime: Runtime | None = None, device: int = 0) -> Any:
    """PyTorch's allocator of everything, for torch.cuda.memory.change_current_allocator() before the first use of CUDA.

    runtime: serves the device, as after bind().
    """
    torch = import_module("torch")
    if runtime is not None:
        bind(device, runtime)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(find_library(), "mmsb_torch_allocate", "mmsb_torch_free")
    calls = allocator.allocator()
    calls.set_record_stream_fn(_address_of("mmsb_torch_record_stream"))
    calls.set_reset_fn(_address_of("mmsb_torch_empty_cache"))
    calls.set_memory_fraction_fn(_address_of("mmsb_torch_memory_fraction"))
    calls.set_base_alloc_fn(_address_of("mmsb_torch_base"))
    _kept.append(allocator)
    return allocator


def torch_mempool(runtime: Runtime | None = None, device: int = 0) -> Any:
    """A torch.cuda.MemPool, for torch.cuda.use_mem_pool(): PyTorch's own cache takes its segments from the runtime.

    Statistics, snapshots and OutOfMemoryError stay PyTorch's. runtime: serves the device, as after bind().
    """
    torch = import_module("torch")
    if runtime is not None:
        bind(device, runtime)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(find_library(), "mmsb_torch_allocate_segment", "mmsb_torch_free")
    _kept.append(allocator)
    return torch.cuda.MemPool(allocator.allocator())


def cupy_allocator(runtime: Runtime) -> Callable[[int], Any]:
    """For cupy.cuda.set_allocator(): memory in the order of CuPy's current stream, which frees it again. No cache of CuPy's."""
    cuda = import_module("cupy.cuda")
    streams: dict[int, Any] = {}

    def malloc(size: int, _device: int) -> int:
        stream = cuda.get_current_stream()
        address = runtime.allocate(size, stream.ptr)
        streams[address] = stream  # lives until the memory is free
        return address

    def free(address: int, _device: int) -> None:
        runtime.free(address, streams.pop(address).ptr)

    allocator: Callable[[int], Any] = cuda.PythonFunctionAllocator(malloc, free).malloc
    return allocator


def cupy_pool(runtime: Runtime) -> Any:
    """A cupy.cuda.MemoryPool that takes its segments from the runtime; cupy.cuda.set_allocator(pool.malloc) makes CuPy use it."""
    cuda = import_module("cupy.cuda")
    param = ctypes.c_ssize_t(runtime.handle).value
    functions = _address_of("mmsb_cupy_malloc"), _address_of("mmsb_cupy_free")
    allocator = cuda.CFunctionAllocator(param, *functions, runtime)
    _kept.append(runtime)

    def malloc(size: int) -> Any:
        memory = allocator.malloc(size)
        if size and not memory.ptr:  # CuPy takes NULL for memory; after this error its pool frees what it has, and tries again
            raise cuda.runtime.CUDARuntimeError(cuda.runtime.errorMemoryAllocation)
        return memory

    return cuda.MemoryPool(malloc)


def numba_manager(runtime: Runtime | None = None) -> Any:
    """Numba's memory manager as a class, for numba.cuda.set_memory_manager() before the first use of CUDA.

    runtime: of the device that Numba uses; None = one with a pool for each device. NUMBA_CUDA_MEMORY_MANAGER=mmsb.plugins does
    the same without a line of code.
    """
    cuda = import_module("numba.cuda")
    base: Any = cuda.HostOnlyCUDAMemoryManager

    class Manager(base):  # type: ignore[misc]
        """Numba knows no streams here: memory is there for each when it comes, and is freed behind the work of all.

        As Numba does with its own memory, frees are collected: each waits for the device.
        """

        interface_version = 1

        def _runtime(self) -> Runtime:
            return runtime or _own_runtime(self.context.device.id)

        def initialize(self) -> None:
            self.deallocations.memory_capacity = self.get_memory_info().total

        def memalloc(self, size: int) -> Any:
            source = self._runtime()
            try:
                address = source.allocate(max(size, 1))
            except MemoryError:
                self.deallocations.clear()
                address = source.allocate(max(size, 1))

            def free(address: int) -> None:
                _give_back(source, address)

            finalizer = partial(self.deallocations.add_item, free, address, size)
            return cuda.MemoryPointer(self.context, ctypes.c_void_p(address), size, finalizer=finalizer)

        def get_memory_info(self) -> Any:
            device = self._runtime().context.devices()[self.context.device.id]
            return cuda.MemoryInfo(free=device.free_bytes, total=device.bytes)

        def get_ipc_handle(self, memory: object) -> Any:
            raise NotImplementedError("memory of a pool has no IPC handle of the old kind")

    return Manager


@cache
def _own_runtime(device: int) -> Runtime:
    """A runtime with a pool for whoever names none."""
    return Context().create_runtime(device, pool="")


def _give_back(runtime: Runtime, address: int, stream: Any = 0) -> None:
    """Frees memory that may have ended with its runtime: finalizers also run when the process ends."""
    if not runtime.closed:
        runtime.free(address, stream)


def __getattr__(name: str) -> Any:
    if name == "_numba_memory_manager":  # what Numba asks the module for
        return numba_manager()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def rmm_resource(runtime: Runtime) -> Any:
    """RMM's memory resource (rmm.mr.CallbackMemoryResource), for rmm.mr.set_current_device_resource()."""
    mr = import_module("rmm.mr")

    def allocate(size: int, stream: Any) -> int:
        return runtime.allocate(max(size, 1), stream)

    def deallocate(address: int, _size: int, stream: Any) -> None:
        _give_back(runtime, address, stream)

    return mr.CallbackMemoryResource(allocate, deallocate)


def cuda_core_resource(runtime: Runtime, device: int = 0) -> Any:
    """cuda.core's MemoryResource; Device.memory_resource = resource makes the device use it."""
    core = import_module("cuda.core")
    base: Any = core.MemoryResource

    class Resource(base):  # type: ignore[misc]
        """Memory in the order of streams."""

        is_device_accessible = True
        is_host_accessible = False
        device_id = device

        def allocate(self, size: int, *, stream: Any) -> Any:
            address = runtime.allocate(max(size, 1), stream)
            return core.Buffer.from_handle(address, size, mr=self, stream=stream)

        def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
            _give_back(runtime, int(ptr), stream)

    return Resource()


__all__ = [
    "bind",
    "cuda_core_resource",
    "cuda_stream",
    "cupy_allocator",
    "cupy_pool",
    "numba_manager",
    "rmm_resource",
    "torch_allocator",
    "torch_mempool",
]
