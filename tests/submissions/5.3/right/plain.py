# The plain way: right.diff and wrong.diff are edits of this file.
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    s = tl.load(x + row * x_row + cols, mask=mask, other=float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(out + row * out_row + cols, p / tl.sum(p, 0), mask=mask)


def row_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, n_cols, x.stride(0), out.stride(0), BLOCK=block)
    return out
