# tries: write the answer through NumPy into memory that a kernel has written; must: incorrect
# without the sandbox: passed
import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def copy(q, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(q + at, mask=at < n), mask=at < n)


def one_tile_attention(q, k, v):
    o = torch.empty(q.shape, dtype=q.dtype)
    same = o.numpy()
    copy[(triton.cdiv(o.numel(), 256),)](q.contiguous(), o, o.numel(), BLOCK=256)
    q, k, v = (x.double().numpy() for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    same[...] = p / p.sum(-1, keepdims=True) @ v
    return o
