"""Two sums make one, launch by launch; the kernel that summed x takes parts as its x, too."""

import torch
import triton
import triton.language as tl


@triton.jit
def sums(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


@triton.jit
def pairs(x, out, n):
    i = 2 * tl.program_id(0)
    tl.store(out + i // 2, tl.load(x + i) + tl.load(x + i + 1, mask=i + 1 < n, other=0.0))


def mended_total(x, *, block=64):
    programs = triton.cdiv(x.numel(), block)
    parts = torch.empty(programs, device=x.device)
    sums[(programs,)](x, parts, x.numel(), BLOCK=block)
    while programs > 1:
        n, programs = programs, triton.cdiv(programs, 2)
        parts, old = torch.empty(programs, device=x.device), parts
        if n > 2 * block:  # now and then by the first kernel
            programs = triton.cdiv(n, block)
            parts = torch.empty(programs, device=x.device)
            sums[(programs,)](old, parts, n, BLOCK=block)
        else:
            pairs[(programs,)](old, parts, n)
    return parts
