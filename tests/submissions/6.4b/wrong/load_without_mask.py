# The last block is loaded past the end.
# Expected: property: stays inside its tensors
import torch
import triton
import triton.language as tl


@triton.jit
def mended_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at), 0)
    tl.atomic_add(out, part)


def mended_total(x, *, block=64):
    n = x.numel()
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    mended_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out
