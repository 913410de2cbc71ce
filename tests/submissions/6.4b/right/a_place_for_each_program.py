# Each program stores its part; they are added up after the launch.
import torch
import triton
import triton.language as tl


@triton.jit
def parts_kernel(x, parts, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + pid, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


def mended_total(x, *, block=64):
    n = x.numel()
    parts = torch.empty(triton.cdiv(n, block), device=x.device)
    parts_kernel[(len(parts),)](x, parts, n, BLOCK=block)
    return parts.sum().reshape(1)
