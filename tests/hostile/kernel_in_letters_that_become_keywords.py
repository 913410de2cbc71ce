# tries: run a statement that was checked as a call, `del` in wide letters; must: error
# no control: the letters are told apart where nobody prints the kernel again
import sys

import torch
import triton
import triton.language as tl

_PRINTED = """
\uff44el = triton.Config({})


@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    s = tl.load(x + row * x_row + cols, mask=cols < n_cols, other=float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(out + row * out_row + cols, p / tl.sum(p, 0), mask=cols < n_cols)
    \uff44el(p)
"""


@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, BLOCK: tl.constexpr):
    tl.store(out, tl.load(x))


def row_softmax(x):
    kernels = sys.modules["course_lib.sandbox.kernel_source"]
    kernels.gather = lambda kernel: (_PRINTED, "softmax_kernel")
    (n_rows, n_cols), out = x.shape, torch.empty(x.shape)
    block = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, n_cols, x.stride(0), out.stride(0), BLOCK=block)
    return out
