# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, total, mask=mask)


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    n = x.numel()
    programs = triton.cdiv(n, block)
    add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return out
