# A while loop that advances the pointers, strides of a transposed copy.
import torch
import triton
import triton.language as tl


@triton.jit
def lse_kernel(src, dst, left, stride_row, stride_col, BLOCK: tl.constexpr):
    here = src + tl.program_id(0) * stride_row + tl.arange(0, BLOCK) * stride_col
    top, total = -3.0e38, 0.0
    while left > 0:
        block = tl.load(here, mask=tl.arange(0, BLOCK) < left, other=float("-inf"))
        new = tl.maximum(tl.max(block, 0), top)
        total = tl.sum(tl.exp(block - new), 0) + total * tl.exp(top - new)
        top = new
        here += BLOCK * stride_col
        left -= BLOCK
    tl.store(dst + tl.program_id(0), tl.log(total) + top)


def long_logsumexp(x, *, block=64):
    x = x.T.contiguous()
    out = torch.full((x.shape[1],), float("nan"), device=x.device)
    lse_kernel[x.shape[1],](x, out, x.shape[0], x.stride(1), x.stride(0), block)
    return out
