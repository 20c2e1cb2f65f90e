"""Numba takes its GPU memory from libmmsb. Needs numba-cuda and an NVIDIA GPU.

NUMBA_CUDA_MEMORY_MANAGER=mmsb.plugins does the same for a program that is not changed.
"""

import mmsb
import numpy as np
from mmsb import plugins
from numba import cuda

context = mmsb.Context()
runtime = context.create_runtime(device=0, pool="")
cuda.set_memory_manager(plugins.numba_manager(runtime))  # before the first use of CUDA

numbers = np.arange(100_000)
array = cuda.to_device(numbers)
stream = cuda.stream()
second = cuda.device_array_like(numbers)
second.copy_to_device(numbers[::-1].copy(), stream=stream)
assert (array.copy_to_host() == second.copy_to_host(stream=stream)[::-1]).all()
print(f"Numba made {runtime.stats().allocations} allocations, {runtime.stats().live} bytes are live")

del array, second
cuda.current_context().memory_manager.deallocations.clear()
print(f"{runtime.stats().live} bytes are left")
