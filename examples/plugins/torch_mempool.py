"""A part of a PyTorch program takes its GPU memory from libmmsb. PyTorch's cache, statistics and graphs stay on top.

Needs PyTorch 2.5 or newer and an NVIDIA GPU.
"""

import mmsb
import torch
from mmsb import plugins

context = mmsb.Context()
runtime = context.create_runtime(device=0, pool="", budget=1 << 30)
pool = plugins.torch_mempool(runtime)

outside = torch.ones(1000, device="cuda")
with torch.cuda.use_mem_pool(pool):  # of this thread: threads that it starts, such as backward's, are outside
    inside = torch.ones(3_000_000, device="cuda")
assert inside.sum().item() == 3_000_000
print(f"PyTorch took {runtime.stats().live} bytes in segments for {inside.nbytes} bytes")

try:
    with torch.cuda.use_mem_pool(pool):
        torch.empty(2 << 30, device="cuda", dtype=torch.uint8)
except torch.cuda.OutOfMemoryError as error:
    print(f"more than the budget: {type(error).__name__}")

del inside
torch.cuda.empty_cache()
del pool
print(f"{runtime.stats().live} bytes are left")
