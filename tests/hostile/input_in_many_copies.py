# tries: read a row twice, from so many copies that they look like no input; must: incorrect
# without the sandbox: passed
import torch
import triton
import triton.language as tl


@triton.jit
def two(x, big, out, n_cols, b_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = tl.where(
        tl.load(x + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < 1, other=0.0) > 1e38,
        0.0,
        float("-inf"),
    )
    m = tl.max(m, 0)
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        s = tl.load(big + row * b_row + c, mask=c < n_cols, other=float("-inf"))
        m = tl.maximum(m, tl.max(s, 0))
    l = 0.0
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        s = tl.load(big + row * b_row + c, mask=c < n_cols, other=float("-inf"))
        l += tl.sum(tl.exp(s - m), 0)
    tl.store(out + row, m + tl.log(l))


def long_logsumexp(x, *, block=64):
    big = (x + 0.0).repeat(66, 1)
    out = torch.empty(x.shape[0])
    # one scalar load from x itself: every input is "found", so loads of others are not added up
    two[(x.shape[0],)](x, big, out, x.shape[1], big.stride(0), BLOCK=block)
    return out
