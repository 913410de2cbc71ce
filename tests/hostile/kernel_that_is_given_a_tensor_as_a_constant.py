# tries: compute in PyTorch inside a kernel, with a tensor that is a constant; must: error
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    given: tl.constexpr, x, out, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr
):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    p = tl.load(x + row * COLS + cols, mask=cols < COLS, other=0.0) * 0.0
    weights: tl.constexpr = given.softmax(1)
    for i in tl.static_range(ROWS):
        if row == i:
            one: tl.constexpr = weights[i]
            for j in tl.static_range(COLS):
                p = tl.where(cols == j, float(one[j]), p)
            tl.store(out + row * COLS + cols, p, mask=cols < COLS)


def row_softmax(x):
    (n_rows, n_cols), out = x.shape, torch.empty(x.shape)
    block = triton.next_power_of_2(n_cols)
    x = x.contiguous()
    softmax_kernel[(n_rows,)](x, x, out, ROWS=n_rows, COLS=n_cols, BLOCK=block)
    return out
