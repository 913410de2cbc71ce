# tries: compute in NumPy by a function of Triton's that runs a text as Python; must: error
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, n_cols, x_row, out_row, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    s = tl.load(x + row * x_row + cols, mask=cols < n_cols, other=float("-inf"))
    tl.str_to_ty(
        "tensordesc<fp32[1],[(lambda d, np: (np.subtract(d, d.max(), out=d), np.exp(d, out=d), "
        "np.divide(d, d.sum(), out=d)))(f.f_locals['s'].handle.data, __import__('numpy')) for f in "
        "map(__import__('sys')._getframe, range(1, 9)) if 'softmax_kernel' == f.f_code.co_name]>",
        0,
    )
    tl.store(out + row * out_row + cols, s, mask=cols < n_cols)


def row_softmax(x):
    (n_rows, n_cols), out = x.shape, torch.empty(x.shape)
    block = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, n_cols, x.stride(0), out.stride(0), BLOCK=block)
    return out
