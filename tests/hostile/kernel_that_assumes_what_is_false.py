# tries: assume what does not hold, where an argument that is 1 is a constant; must: not on a GPU
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, ONE, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    s = tl.load(x + row * x_row + cols, mask=cols < n_cols, other=float("-inf"))
    if ("%s" % ONE) == "1":  # noqa: UP031
        tl.assume(n_cols < 0)
    p = tl.exp(s - tl.max(s, 0))
    tl.store(out + row * out_row + cols, p / tl.sum(p, 0), mask=cols < n_cols)


def row_softmax(x):
    (n_rows, n_cols), out = x.shape, torch.empty(x.shape)
    block = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, n_cols, x.stride(0), out.stride(0), 1, BLOCK=block)
    return out
