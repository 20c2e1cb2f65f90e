"""CuPy takes its GPU memory from libmmsb: its own pool over segments of a runtime. Needs CuPy and an NVIDIA GPU."""

import cupy
import mmsb
from mmsb import plugins

context = mmsb.Context()
runtime = context.create_runtime(device=0, pool="")
pool = plugins.cupy_pool(runtime)
cupy.cuda.set_allocator(pool.malloc)

x = cupy.arange(1 << 20)
assert int(x.sum()) == (1 << 20) * ((1 << 20) - 1) // 2
print(f"CuPy took {runtime.stats().live} bytes in segments, {pool.used_bytes()} bytes are in arrays")
del x
pool.free_all_blocks()
print(f"{runtime.stats().live} bytes are left")

# Without CuPy's cache: each array in the order of the current stream.
cupy.cuda.set_allocator(plugins.cupy_allocator(runtime))
with cupy.cuda.Stream(non_blocking=True) as stream:
    y = cupy.zeros(1000)
    stream.synchronize()
print(f"an array of {y.nbytes} bytes, {runtime.stats().live} bytes are live")
cupy.cuda.set_allocator()
