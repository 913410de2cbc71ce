# The block is the autotuner's choice, whatever the call says.
# Expected: property: uses the tile sizes of the call
import torch
import triton
import triton.language as tl

CHOICES = [triton.Config({"BLOCK": size}, num_warps=1) for size in (32, 128)]


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
    add_kernel[lambda chosen: (triton.cdiv(n, chosen["BLOCK"]),)](x, y, out, n)
    return out
