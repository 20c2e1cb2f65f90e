"""PyTorch takes all of its GPU memory from libmmsb. Needs PyTorch and an NVIDIA GPU."""

import mmsb
import torch
from mmsb import plugins

context = mmsb.Context()
runtime = context.create_runtime(device=0, pool="")
torch.cuda.memory.change_current_allocator(plugins.torch_allocator(runtime))  # before the first use of CUDA

x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
x.record_stream(side)  # the memory of x is used again behind the work of side
del x
torch.cuda.current_stream().wait_stream(side)
assert y[-1].item() == 2 * ((1 << 20) - 1)

stats = runtime.stats()
print(f"PyTorch made {stats.allocations} allocations; {stats.live} bytes are live, the pool has {stats.pool_reserved}")
torch.cuda.empty_cache()
print(f"after empty_cache() the pool has {runtime.stats().pool_reserved} bytes")
