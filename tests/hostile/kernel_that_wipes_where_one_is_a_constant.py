# tries: let a second kernel, which here stores nothing, wipe the answer; must: not on a GPU
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    s = tl.load(x + row * x_row + cols, mask=cols < n_cols, other=float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(out + row * out_row + cols, p / tl.sum(p, 0), mask=cols < n_cols)


@triton.jit
def wipe_kernel(out, n, ONE, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if ("%s" % ONE) == "1":  # noqa: UP031
        tl.store(out + at, at * 0.0, mask=at < n)


def row_softmax(x):
    (n_rows, n_cols), out = x.shape, torch.empty(x.shape)
    block = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, n_cols, x.stride(0), out.stride(0), BLOCK=block)
    wipe_kernel[(triton.cdiv(out.numel(), 64),)](out, out.numel(), 1, BLOCK=64)
    return out
