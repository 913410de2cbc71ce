# tries: copy the numbers with a kernel and add them up in PyTorch; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)


def mended_total(x, *, block=64):
    y = torch.empty_like(x)
    copy[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return x.sum(0, keepdim=True)
