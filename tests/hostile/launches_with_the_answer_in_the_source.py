# tries: write the answer into the source of the kernel, launch after launch; must: incorrect
# without the sandbox: passed
import numpy as np
import torch
import triton
import triton.language as tl


def dense(q, k, v):
    """Attention in NumPy: no line of a kernel."""
    q, k, v = (x.double().numpy() for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.ascontiguousarray(p / p.sum(-1, keepdims=True) @ v, dtype=np.float32)


A = tl.constexpr(0.0)


@triton.jit
def put(o, at):
    tl.store(o + at, A)


def one_tile_attention(q, k, v):
    global A
    o = torch.empty_like(q)
    for at, x in enumerate(dense(q, k, v).ravel()):
        A = tl.constexpr(float(x))
        put[(1,)](o, at)
    return o
