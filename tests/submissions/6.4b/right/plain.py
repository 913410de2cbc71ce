# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def mended_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    tl.atomic_add(out, part)


def mended_total(x, *, block=64):
    n = x.numel()
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    mended_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out
