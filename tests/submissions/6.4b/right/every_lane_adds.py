# Every lane adds its own number: slow on a GPU, and right.
import torch
import triton
import triton.language as tl


@triton.jit
def mended_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    numbers = tl.load(x + at, mask=at < n)
    tl.atomic_add(out + tl.zeros((BLOCK,), tl.int32), numbers, mask=at < n)


def mended_total(x, *, block=64):
    n = x.numel()
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    mended_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out
