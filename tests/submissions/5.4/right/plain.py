# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x, out, n_cols, x_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = float("-inf")
    l_sum = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        s = tl.load(x + row * x_row + cols, mask=inside, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 0))
        alpha = tl.exp(m - m_new)
        l_sum = l_sum * alpha + tl.sum(tl.exp(s - m_new), 0)
        m = m_new
    tl.store(out + row, m + tl.log(l_sum))


def long_logsumexp(x, *, block=64):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    logsumexp_kernel[(n_rows,)](x, out, n_cols, x.stride(0), BLOCK=block)
    return out
