"""mmsb.plugins on simulated devices, with stand-ins for the libraries.

A stand-in has the names and calls of the library's own source, and nothing else: CUDAPluggableAllocator of PyTorch, memory.pyx of
CuPy, cudadrv/driver.py of Numba, memory_resource.pyx of RMM, _buffer.pyx of cuda.core. They need a GPU themselves, or are not to
be had here; test_peers.py has those that start on tests/fakecuda.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, Callable

import mmsb
import pytest
from mmsb import plugins
from mmsb._ffi import lib

MIB = 1 << 20


@pytest.fixture
def runtime() -> Iterator[mmsb.Runtime]:
    with mmsb.Context(simulate="always", simulated_devices=2, simulated_memory=64 * MIB) as context:
        with context.create_runtime(pool="") as made:
            yield made
        plugins.bind(0, None)
        plugins._kept.clear()


@pytest.fixture
def stream(runtime: mmsb.Runtime) -> Iterator[mmsb.Stream]:
    with runtime.stream() as made:
        yield made


class Native:
    """A stream as other libraries have it."""

    def __init__(self, stream: mmsb.Stream) -> None:
        self.ptr = stream.native

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


def module(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> Any:
    made = ModuleType(name)
    made.__dict__.update(contents)
    monkeypatch.setitem(sys.modules, name, made)
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        monkeypatch.setattr(sys.modules[parent], child, made, raising=False)
    return made


def kernel(stream: mmsb.Stream, address: int, size: int = MIB) -> None:
    """Work that nobody tells the library of."""
    stream.fill(address, 7, size)


# ------------------------------------------------------------------------------------------------------- the runtime


def test_memory_comes_and_goes_by_address(runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    native = Native(stream)
    address = runtime.allocate(3 * MIB, native)
    assert address % 512 == 0
    assert runtime.stats().live == 3 * MIB
    kernel(stream, address)
    runtime.free(address, stream.native)
    again = runtime.allocate(3 * MIB, stream)
    assert again == address, "the stream has it again, without the driver"
    runtime.record(again, 0)
    runtime.free(again, native)
    with pytest.raises(mmsb.NotFoundError, match="was not allocated here"):
        runtime.free(again, native)
    with pytest.raises(mmsb.NotFoundError):
        runtime.record(again, native)
    everywhere = runtime.allocate(MIB)
    kernel(stream, everywhere)
    runtime.free(everywhere)
    with pytest.raises(mmsb.OutOfMemoryError):
        runtime.allocate(65 * MIB, stream)
    with pytest.raises(mmsb.InvalidSizeError):
        runtime.allocate(0, stream)
    with pytest.raises(mmsb.InvalidHandleError):
        runtime.allocate(1, 0xABC0)
    with pytest.raises(TypeError):
        runtime.allocate(1, "stream")
    assert runtime.stats().live == 0


# ----------------------------------------------------------------------------------------------------------- PyTorch

ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


class PluggableAllocator:
    """torch::cuda::CUDAPluggableAllocator: what torch._C._cuda_customAllocator gives."""

    def __init__(self, alloc: int, free: int) -> None:
        self.alloc, self.free = ALLOC(alloc), FREE(free)
        self.metadata: dict[int, tuple[int, int, int]] = {}

    def set_record_stream_fn(self, address: int) -> None:
        self.record_stream = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def set_reset_fn(self, address: int) -> None:
        self.empty_cache = ctypes.CFUNCTYPE(None)(address)

    def set_memory_fraction_fn(self, address: int) -> None:
        self.set_memory_fraction = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int)(address)

    def set_base_alloc_fn(self, address: int) -> None:
        self.base = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))(address)

    def malloc(self, size: int, device: int, stream: int) -> int:
        pointer: int = self.alloc(size, device, stream) or 0
        self.metadata[pointer] = (size, device, stream)
        return pointer

    def raw_delete(self, pointer: int) -> None:
        self.free(pointer, *self.metadata.pop(pointer))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    class CUDAPluggableAllocator:
        def __init__(self, path: str, alloc: str, free: str) -> None:
            library = ctypes.CDLL(path)
            alloc_fn, free_fn = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in (alloc, free))
            assert alloc_fn and free_fn
            self._allocator = PluggableAllocator(alloc_fn, free_fn)

        def allocator(self) -> PluggableAllocator:
            return self._allocator

    memory = SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator)
    cuda = SimpleNamespace(memory=memory, MemPool=lambda allocator: SimpleNamespace(allocator=allocator))
    return module(monkeypatch, "torch", cuda=cuda)


def test_pytorch_takes_all_memory_from_a_runtime(torch: Any, runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    allocator = plugins.torch_allocator(runtime).allocator()
    tensor = allocator.malloc(3 * MIB, 0, stream.native)
    assert tensor and runtime.stats().live == 3 * MIB
    kernel(stream, tensor)
    with runtime.stream() as side:
        with stream.record() as ticket:
            side.after(ticket)
        allocator.record_stream(tensor, side.native)
        kernel(side, tensor)
        size = ctypes.c_size_t()
        assert allocator.base(tensor + 5, size) == tensor and size.value == 3 * MIB
        allocator.raw_delete(tensor)
    assert runtime.stats().live == 0
    assert allocator.malloc(0, 0, stream.native) == 0
    assert allocator.malloc(65 * MIB, 0, stream.native) == 0
    allocator.set_memory_fraction(0.5, 0)
    assert allocator.malloc(33 * MIB, 0, stream.native) == 0
    stream.wait()
    allocator.empty_cache()
    assert runtime.stats().pool_reserved == 0


def test_pytorch_caches_segments_of_a_runtime(torch: Any, runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    allocator = plugins.torch_mempool(runtime).allocator
    segment = allocator.malloc(20 * MIB, 0, 0)  # the current stream
    kernel(stream, segment)  # a tensor of another one
    allocator.raw_delete(segment)
    assert runtime.stats().live == 0
    assert allocator.malloc(65 * MIB, 0, 0) == 0, "torch.OutOfMemoryError"


def test_another_runtime_serves(torch: Any, runtime: mmsb.Runtime) -> None:
    allocator = plugins.torch_allocator().allocator()
    with mmsb.Context(simulate="always") as context, context.create_runtime() as other:
        plugins.bind(0, other)
        pointer = allocator.malloc(100, 0, 0)
        assert other.stats().live == 100
        plugins.bind(0, runtime)
        allocator.raw_delete(pointer)
        assert other.stats().live == 0
        with pytest.raises(mmsb.MismatchError):
            plugins.bind(1, other)


# -------------------------------------------------------------------------------------------------------------- CuPy


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Memory:
        def __init__(self, ptr: int, free: Callable[[int], object]) -> None:
            self.ptr = ptr
            if ptr:
                weakref.finalize(self, free, ptr)

    class CFunctionAllocator:
        def __init__(self, param: int, malloc: int, free: int, owner: object) -> None:
            assert -(1 << 63) <= param < 1 << 63  # intptr_t
            self.param = param
            self.c_malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(malloc)
            self.c_free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free)

        def malloc(self, size: int) -> Memory:
            ptr = self.c_malloc(self.param, size, 0) or 0 if size > 0 else 0
            return Memory(ptr, lambda ptr: self.c_free(self.param, ptr, 0))

    class PythonFunctionAllocator:
        def __init__(self, malloc: Callable[[int, int], int], free: Callable[[int, int], None]) -> None:
            self.functions = malloc, free

        def malloc(self, size: int) -> Memory:
            malloc, free = self.functions
            return Memory(malloc(size, 0) if size > 0 else 0, lambda ptr: free(ptr, 0))

    class MemoryPool:
        """The part of _try_malloc: what an allocator must raise for a pool to free its blocks and try again."""

        def __init__(self, allocator: Callable[[int], Memory]) -> None:
            self.allocator, self.freed = allocator, 0

        def malloc(self, size: int) -> Memory:
            try:
                return self.allocator(size)
            except CUDARuntimeError as error:
                assert error.status == 2
                self.freed += 1
                raise MemoryError from error

    made = module(
        monkeypatch,
        "cupy",
        cuda=SimpleNamespace(stream=SimpleNamespace(ptr=0)),
    )
    module(
        monkeypatch,
        "cupy.cuda",
        CFunctionAllocator=CFunctionAllocator,
        PythonFunctionAllocator=PythonFunctionAllocator,
        MemoryPool=MemoryPool,
        get_current_stream=lambda: made.current,
        runtime=SimpleNamespace(CUDARuntimeError=CUDARuntimeError, errorMemoryAllocation=2),
    )
    made.current = SimpleNamespace(ptr=0)
    return made


def test_cupy_allocates_on_its_current_stream(cupy: Any, runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    malloc = plugins.cupy_allocator(runtime)
    cupy.current = Native(stream)
    array = malloc(3 * MIB)
    kernel(stream, array.ptr)
    address, cupy.current = array.ptr, SimpleNamespace(ptr=0)
    del array  # on another stream: it is freed on its own
    assert runtime.stats().live == 0
    cupy.current = Native(stream)
    again = malloc(3 * MIB)
    assert again.ptr == address
    kernel(stream, again.ptr)
    assert malloc(0).ptr == 0
    with pytest.raises(MemoryError):
        malloc(65 * MIB)
    del again
    assert runtime.stats().live == 0


def test_cupys_pool_caches_segments_of_a_runtime(cupy: Any, runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    pool = plugins.cupy_pool(runtime)
    segment = pool.malloc(3 * MIB)
    assert segment.ptr and runtime.stats().live == 3 * MIB
    kernel(stream, segment.ptr)
    del segment
    assert runtime.stats().live == 0
    assert pool.malloc(0).ptr == 0
    with pytest.raises(MemoryError):
        pool.malloc(65 * MIB)
    assert pool.freed == 1


# ------------------------------------------------------------------------------------------------------------- Numba


@pytest.fixture
def numba(monkeypatch: pytest.MonkeyPatch) -> Any:
    class BaseCUDAMemoryManager(ABC):
        def __init__(self, *, context: Any) -> None:
            self.context = context

        @abstractmethod
        def memalloc(self, size: int) -> Any: ...
        @abstractmethod
        def initialize(self) -> None: ...
        @abstractmethod
        def get_ipc_handle(self, memory: Any) -> Any: ...
        @abstractmethod
        def get_memory_info(self) -> Any: ...
        @property
        @abstractmethod
        def interface_version(self) -> int: ...

    class Deallocations:
        memory_capacity = 0

        def __init__(self) -> None:
            self.pending: list[tuple[Callable[[int], None], int]] = []

        def add_item(self, free: Callable[[int], None], address: int, size: int) -> None:
            assert free.__name__
            self.pending.append((free, address))

        def clear(self) -> None:
            while self.pending:
                free, address = self.pending.pop()
                free(address)

    class HostOnlyCUDAMemoryManager(BaseCUDAMemoryManager):
        def __init__(self, *, context: Any) -> None:
            super().__init__(context=context)
            self.deallocations = Deallocations()

    class MemoryPointer:
        def __init__(self, context: Any, pointer: ctypes.c_void_p, size: int, finalizer: Callable[[], object]) -> None:
            self.pointer, self.size = pointer.value, size
            self.free = weakref.finalize(self, finalizer)

    module(monkeypatch, "numba")
    contents = dict(HostOnlyCUDAMemoryManager=HostOnlyCUDAMemoryManager, MemoryPointer=MemoryPointer)
    return module(monkeypatch, "numba.cuda", **contents, MemoryInfo=SimpleNamespace)


def test_numba_takes_memory_from_a_runtime(numba: Any, runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    manager = plugins.numba_manager(runtime)(context=SimpleNamespace(device=SimpleNamespace(id=0)))
    assert manager.interface_version == 1
    manager.initialize()
    assert manager.deallocations.memory_capacity == manager.get_memory_info().total == 64 * MIB
    memory = manager.memalloc(3 * MIB)
    kernel(stream, memory.pointer)
    empty = manager.memalloc(0)
    assert empty.pointer and runtime.stats().live == 3 * MIB + 1
    memory.free()
    del empty
    assert runtime.stats().live == 3 * MIB + 1
    manager.deallocations.clear()
    assert runtime.stats().live == 0
    manager.memalloc(40 * MIB).free()
    assert manager.memalloc(30 * MIB).pointer, "it frees what Numba has collected, and tries again"
    with pytest.raises(MemoryError):
        manager.memalloc(65 * MIB)
    with pytest.raises(NotImplementedError):
        manager.get_ipc_handle(memory)
    left = manager.memalloc(100)
    stream.close()
    runtime.close()
    del left
    manager.deallocations.clear()  # at exit finalizers run in any order
    assert plugins._numba_memory_manager(context=None).interface_version == 1
    with pytest.raises(AttributeError):
        plugins.something_else  # noqa: B018


# ----------------------------------------------------------------------------------------------- RMM and cuda.core


def test_rmm_calls_a_runtime(monkeypatch: pytest.MonkeyPatch, runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    module(monkeypatch, "rmm")
    module(monkeypatch, "rmm.mr", CallbackMemoryResource=lambda allocate, deallocate: (allocate, deallocate))
    allocate, deallocate = plugins.rmm_resource(runtime)
    native = Native(stream)
    pointer = allocate(3 * MIB, native)
    assert pointer % 256 == 0
    kernel(stream, pointer)
    deallocate(pointer, 3 * MIB, native)
    empty = allocate(0, native)
    deallocate(empty, 0, native)
    with pytest.raises(MemoryError):  # which RMM turns into std::bad_alloc
        allocate(65 * MIB, native)
    # Threads, and streams that the callback sees for the length of the call.
    threads = [threading.Thread(target=lambda: [deallocate(allocate(4096, Native(stream)), 4096, 0) for _ in range(50)])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runtime.stats().live == 0


def test_cuda_core_has_a_resource(monkeypatch: pytest.MonkeyPatch, runtime: mmsb.Runtime, stream: mmsb.Stream) -> None:
    class Buffer:
        def __init__(self, handle: int, size: int, resource: Any, stream: Any) -> None:
            self.handle, self.size, self.resource, self.stream = handle, size, resource, stream

        @classmethod
        def from_handle(cls, ptr: int, size: int, mr: Any, *, stream: Any) -> Buffer:
            return cls(ptr, size, mr, stream)

        def close(self, stream: Any = None) -> None:
            self.resource.deallocate(self.handle, self.size, stream=stream or self.stream)

    module(monkeypatch, "cuda")
    module(monkeypatch, "cuda.core", Buffer=Buffer, MemoryResource=object)
    resource = plugins.cuda_core_resource(runtime)
    assert resource.is_device_accessible and not resource.is_host_accessible and resource.device_id == 0
    buffer = resource.allocate(3 * MIB, stream=Native(stream))
    kernel(stream, buffer.handle)
    buffer.close()
    resource.allocate(0, stream=Native(stream)).close(Native(stream))
    assert runtime.stats().live == 0


def test_a_library_that_is_missing_is_named(runtime: mmsb.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rmm", None)
    with pytest.raises(ImportError, match="rmm"):
        plugins.rmm_resource(runtime)
    gc.collect()
    assert lib.loaded
