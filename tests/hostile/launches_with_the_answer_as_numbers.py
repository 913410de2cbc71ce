# tries: pass the answer as numbers, one in each launch; must: incorrect
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


@triton.jit
def put(o, at, x):
    tl.store(o + at, x)


def one_tile_attention(q, k, v):
    o = torch.empty_like(q)
    for at, x in enumerate(dense(q, k, v).ravel()):
        put[(1,)](o, at, float(x))
    return o
