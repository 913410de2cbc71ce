# Each lane has its own m and l_sum; they are merged after the loop.
# Compiled
import torch
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x, out, n_cols, x_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = tl.full((BLOCK,), -1e30, tl.float32)
    l_sum = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        s = tl.load(x + row * x_row + cols, mask=inside, other=float("-inf"))
        m_new = tl.maximum(m, s)
        alpha = tl.exp(m - m_new)
        l_sum = l_sum * alpha + tl.exp(s - m_new)
        m = m_new
    top = tl.max(m, 0)
    tl.store(out + row, top + tl.log(tl.sum(l_sum * tl.exp(m - top), 0)))


def long_logsumexp(x, *, block=64):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    logsumexp_kernel[(n_rows,)](x, out, n_cols, x.stride(0), BLOCK=block)
    return out
