# The number of warps is the autotuner's choice; the grid asks the configuration for the block.
# Compiled
import torch
import triton
import triton.language as tl

CHOICES = [triton.Config({}, num_warps=warps) for warps in (1, 4)]


@triton.autotune(configs=CHOICES, key=["n"])
@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    total = tl.load(x + places, mask=inside) + tl.load(y + places, mask=inside)
    tl.store(out + places, total, mask=inside)


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[lambda chosen: (triton.cdiv(n, chosen["BLOCK"]),)](x, y, out, n, BLOCK=block)
    return out
