# Two programs walk over all blocks, with while.
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    while start < n:
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
        tl.store(out + offsets, total, mask=mask)
        start += tl.num_programs(0) * BLOCK


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    n = x.numel()
    programs = min(2, triton.cdiv(n, block))
    add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return out
