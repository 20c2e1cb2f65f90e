"""The libraries themselves on tests/fakecuda: `make test-peers`, which puts it into LD_LIBRARY_PATH.

cuda.core, cuda.bindings and Numba start there, without kernels. PyTorch, CuPy and RMM use CUDA's runtime library, which asks the
driver for tables that NVIDIA does not document (cuGetExportTable), and gives up: they run in `make test-gpu`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600


def run(*arguments: str, **environment: str) -> str:
    """What a program prints in an interpreter of its own: a library's allocator is chosen once in a process."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_driver_is_the_stand_in() -> None:
    from cuda.bindings import driver

    assert driver.cuInit(0) == (driver.CUresult.CUDA_SUCCESS,)
    assert driver.cuDeviceGetName(8, 0)[1].startswith(b"fake")


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("numba_manager", ["2 allocations, 1600000 bytes are live", "\n0 bytes are left"]),
        ("cuda_core_resource", ["a buffer of 1048576 bytes", "1048576 bytes are live", "\n0 bytes are left"]),
    ],
)
def test_the_example_runs(example: str, says: list[str]) -> None:
    output = run(str(ROOT / f"examples/plugins/{example}.py"))
    for text in says:
        assert text in output


def test_numba_takes_the_module_from_its_environment() -> None:
    program = """
import gc
import numpy as np
from numba import cuda
from mmsb import plugins
array = cuda.to_device(np.arange(1000))
assert array.copy_to_host().sum() == 499500
runtime = plugins._own_runtime(0)
assert runtime.stats().live == 8000
streams = [cuda.stream() for _ in range(4)]
arrays = [cuda.device_array(1000, stream=stream) for stream in streams]
for i, (stream, one) in enumerate(zip(streams, arrays)):
    one.copy_to_device(np.full(1000, float(i)), stream=stream)
assert [one.copy_to_host(stream=stream)[-1] for stream, one in zip(streams, arrays)] == [0, 1, 2, 3]
with cuda.defer_cleanup():
    del arrays, one
    cuda.current_context().memory_manager.deallocations.clear()
    assert runtime.stats().live == 40000
cuda.current_context().memory_manager.deallocations.clear()
assert runtime.stats().live == 8000
assert cuda.current_context().get_memory_info().total == 1 << 30
try:
    cuda.device_array(1 << 40, dtype=np.uint8)
except MemoryError as error:
    print(type(error).__name__)
left = array  # it ends when the process does
"""
    assert run("-c", program, NUMBA_CUDA_MEMORY_MANAGER="mmsb.plugins") == "OutOfMemoryError\n"


def test_cuda_cores_streams_come_and_go() -> None:
    """Buffers outlive the streams that they were made on, and streams have the pointers of others that were destroyed."""
    program = """
import gc
import mmsb
from cuda.core import Device
from mmsb import plugins
device = Device(0)
device.set_current()
with mmsb.Context() as context, context.create_runtime(pool="") as runtime:
    resource = plugins.cuda_core_resource(runtime)
    pointers, kept = set(), []
    for i in range(200):
        stream = device.create_stream()
        pointers.add(int(stream.handle))
        buffer = resource.allocate(1 << 20, stream=stream)
        if i % 2:
            buffer.close()
        else:
            kept.append(buffer)
        if len(kept) == 5:
            kept.pop(0).close(device.default_stream)
        stream.close()
        del stream, buffer
    assert len(pointers) < 100, "no pointer came again"
    for stream in (device.default_stream, device.create_stream()):
        resource.allocate(1000, stream=stream).close(stream)
    kept.clear()
    gc.collect()
    assert runtime.stats().live == 0, runtime.stats()
print("done")
"""
    assert run("-c", program) == "done\n"


def test_pytorchs_functions_need_no_runtime() -> None:
    """Without a binding a device has a runtime with a pool, also for default streams of threads; shutdown ends it."""
    program = """
import ctypes, os, threading
from cuda.bindings import driver
import mmsb
library = ctypes.CDLL(os.environ["MMSB_LIBRARY"])
allocate, free = library.mmsb_torch_allocate, library.mmsb_torch_free
allocate.restype, allocate.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
free.restype, free.argtypes = None, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
library.mmsb_torch_record_stream.argtypes = (ctypes.c_void_p, ctypes.c_void_p)

def done(result, *values):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) > 1 else None

def work(first):
    done(driver.cuCtxSetCurrent(context))
    for i in range(100):
        address = allocate(1 << 20, 0, first)
        assert address and address % 512 == 0
        done(driver.cuMemsetD8Async(address, i % 256, 1 << 20, first))
        library.mmsb_torch_record_stream(address, 2)
        free(address, 1 << 20, 0, first)

done(driver.cuInit(0))
context = done(driver.cuDevicePrimaryCtxRetain(0))
done(driver.cuCtxSetCurrent(context))
own = int(done(driver.cuStreamCreate(1)))
for stream in (0, 1, 2, own):
    work(stream)
threads = [threading.Thread(target=work, args=(stream,)) for stream in (2, 2, own)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert mmsb.debug_live_objects("block") == 0
assert allocate(1 << 20, 7, 0) is None and allocate(1 << 50, 0, 0) is None
kept = allocate(1000, 0, own)
mmsb.shutdown()
free(kept, 1000, 0, own)
print("done")
"""
    assert run("-c", program) == "done\n"


def test_an_array_of_arrow_comes_with_an_event() -> None:
    """As cuDF has them: the array's memory is written behind an event, which the adoption waits for."""
    program = """
import ctypes, threading, time
from cuda.bindings import driver
import mmsb

def call(outcome):
    assert int(outcome[0]) == 0, outcome
    return outcome[1] if len(outcome) > 1 else None

call(driver.cuInit(0))
context = call(driver.cuDevicePrimaryCtxRetain(0))
call(driver.cuCtxSetCurrent(context))
memory = int(call(driver.cuMemAlloc(4096)))
stream, event = call(driver.cuStreamCreate(1)), call(driver.cuEventCreate(2))

# ArrowDeviceArray and ArrowSchema, in words of 8 bytes.
ends = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64))
released = []
of_array = ends(lambda array: released.append("array") or array.__setitem__(8, 0))
of_schema = ends(lambda schema: released.append("schema") or schema.__setitem__(7, 0))
buffers = (ctypes.c_void_p * 2)(None, memory)
pointer = ctypes.c_void_p(int(event))
format = ctypes.create_string_buffer(b"C")
address = ctypes.addressof
array = (ctypes.c_uint64 * 16)(4096, 0, 0, 2, 0, address(buffers), 0, 0, ctypes.cast(of_array, ctypes.c_void_p).value, 0,
                               0, 2, address(pointer), 0, 0, 0)
schema = (ctypes.c_uint64 * 9)(address(format), 0, 0, 0, 0, 0, 0, ctypes.cast(of_schema, ctypes.c_void_p).value, 0)
new = ctypes.PyDLL(None).PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
names = b"arrow_schema", b"arrow_device_array"

class Column:
    def __arrow_c_device_array__(self, requested_schema=None, **more):
        return new(address(schema), names[0], None), new(address(array), names[1], None)

hold = ctypes.CDLL("libcuda.so.1").fakecuda_hold
with mmsb.Context() as ctx:
    hold(1)
    call(driver.cuMemsetD8Async(memory, 7, 4096, stream))
    call(driver.cuEventRecord(event, stream))
    began = time.monotonic()
    threading.Timer(0.3, hold, (0,)).start()
    page = ctx.adopt(Column(), read_only=True)
    assert time.monotonic() - began > 0.25
    assert page.location == "gpu" and page.read() == bytes([7]) * 4096
    assert released == ["schema"]
    page.destroy()
    assert released == ["schema", "array"]
print("done")
"""
    assert run("-c", program) == "done\n"


def test_state_takes_arrays_on_a_device() -> None:
    said = run(str(ROOT / "tests/gpu/frameworks.py"), "interfaces_are_filled", "numba_and_pages")
    assert said == "ok      interfaces_are_filled\nok      numba_and_pages\n2 passed, 0 failed\n"


def test_state_of_arrays_on_a_gpu() -> None:
    assert run(str(ROOT / "tests/peers/arrays_on_gpu.py")) == "ok\n"


def test_state_of_tensors_on_a_gpu() -> None:
    assert run(str(ROOT / "tests/peers/tensors_on_gpu.py")) == "ok\n"
