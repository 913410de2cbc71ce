"""A launch that is refused, and caught, comes before the right one."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = at < n
    tl.store(out + at, tl.load(x + at, mask=m) + tl.load(y + at, mask=m), mask=m)


def vector_add(x, y, *, block=64):
    out = torch.empty_like(x)
    try:
        b = torch.empty(4, dtype=torch.bfloat16)
        add_kernel[(1,)](b, b, b, 4, BLOCK=4)
    except TypeError:
        pass
    add_kernel[(triton.cdiv(x.numel(), block),)](x, y, out, x.numel(), BLOCK=block)
    return out
