# tries: be another kernel, an empty one, where it is compiled; must: incorrect, error
# without the sandbox: passed
import torch
import triton
import triton.language as tl

NOTHING = tl.constexpr(None)


@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    s = tl.load(x + row * x_row + cols, mask=cols < n_cols, other=float("-inf"))
    # a compiler looks into what is constant, and makes tuples of lists
    if NOTHING is not None or (1, 2) != [1, 2]:
        p = tl.exp(s - tl.max(s, 0)) * abs(1)  # it does not know abs()
        tl.store(out + row * out_row + cols, p / tl.sum(p, 0), mask=cols < n_cols)


def row_softmax(x):
    (n_rows, n_cols), out = x.shape, torch.empty(x.shape)
    block = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, n_cols, x.stride(0), out.stride(0), BLOCK=block)
    return out
