"""cuda.core takes its GPU memory from libmmsb. Needs cuda-core and an NVIDIA GPU."""

import mmsb
from cuda.core import Device
from mmsb import plugins

context = mmsb.Context()
runtime = context.create_runtime(device=0, pool="")
device = Device(0)
device.set_current()
device.memory_resource = plugins.cuda_core_resource(runtime)

stream = device.create_stream()
first = device.allocate(1 << 20, stream=stream)
address = int(first.handle)
print(f"cuda.core has a buffer of {first.size} bytes at {address:#x}, {runtime.stats().live} bytes are live")
first.close(stream)
second = device.allocate(1 << 20, stream=stream)
assert int(second.handle) == address  # the stream has it again, without the driver
second.close(stream)
stream.close()
print(f"{runtime.stats().live} bytes are left")
