"""RMM, and with it cuDF and others, takes its GPU memory from libmmsb. Needs RMM and an NVIDIA GPU.

Each allocation calls Python: enough to try it, and for large buffers.
"""

import mmsb
import rmm
from mmsb import plugins

context = mmsb.Context()
runtime = context.create_runtime(device=0, pool="", budget=1 << 30)
rmm.mr.set_current_device_resource(plugins.rmm_resource(runtime))

buffer = rmm.DeviceBuffer.to_device(b"libmmsb" * 1000)
assert buffer.tobytes() == b"libmmsb" * 1000
print(f"RMM has a buffer of {buffer.size} bytes, {runtime.stats().live} bytes are live")
try:
    rmm.DeviceBuffer(size=2 << 30)
except MemoryError as error:
    print(f"more than the budget: {error}")
del buffer
print(f"{runtime.stats().live} bytes are left")
